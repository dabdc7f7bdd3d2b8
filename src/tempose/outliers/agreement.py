r"""How often wrong edges agree with each other, where nothing tells the order in which nodes were recorded.

What is believed of edges rests on their agreement. Wrong edges that err each by itself do not agree, so that what agrees is right.
Look-alikes do agree; then a set of edges that agree may as well be of that kind, and whoever believes the largest set believes, now
and then, a wrong one. How often wrong edges agree is seen in those that are called wrong. If q is the share of the edges that do
not fit the poses, and v the share of these that say what another one says as well, an edge that fits is right with probability

.. math::  s = \frac{1 - q}{1 - q + q v} ,

since it is right in a share 1 − q of all cases, and wrong but agreeing in a share q v. Where wrong edges are independent, v = 0 and
s = 1. And an edge that does not fit, but says what others of this kind say, is right in a share 1 − s of the cases: then these are
right instead.

Two edges (i, j) and (k, l) *say the same* if i and k are one node or joined by an edge that fits, and so are j and l, and if both
ask for the same motion of the one end relative to the other, within three σ of their own. How many do by chance is told by the
pairs that agree in turn or in place alone. Copies of one measurement are one edge, those that are certain to be right and those
that are no motion between two poses do not count, and without translations nothing tells.

Where ids are an order in time, the chain of consecutive edges tells more (:mod:`tempose.outliers.reading`): loop closures that it
confirms are believed for that. Of those that only other loop closures confirm the same holds, cluster by cluster
(:func:`worth_of_clusters`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose._typing import Array, Index, Mask
from tempose.geometry import se3
from tempose.geometry.compiled import turned
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.optimum.trees import rotation_weights
from tempose.outliers.clusters import KINDS, Clusters
from tempose.outliers.competing import turned_by_chance
from tempose.outliers.em import originals
from tempose.outliers.loose_parts import ACCEPTED, spread
from tempose.outliers.search.skeleton import skeleton
from tempose.outliers.sequence import Sequence

_FITS = 9.0  # squared distance per number up to which an edge fits, and two say the same: three σ in every direction
_CLEARLY = 4.0  # times as much: pairs that differ in one respect, and tell how often chance makes the other alike
_MOST_WAYS = 4.0  # edges whose noise adds up where two are compared
_ERRORS = 2.0  # standard errors that chance may explain


@dataclass(frozen=True, eq=False)
class Agreement:
    """How often edges that do not fit agree with each other, and what that makes of all edges.

    Attributes
    ----------
    called_wrong
        q, share of the edges that do not fit.
    agreeing
        v, share of these that say what another one says as well, beyond chance.
    fits
        Which edges (m,) are within three σ.
    repeated
        Which of the others say what another one of them says.
    judged
        The edges (m,) that all this is about: motions that may be wrong.
    """

    called_wrong: float
    agreeing: float
    fits: Mask
    repeated: Mask
    judged: Mask

    @property
    def share_right(self) -> float:
        """s, probability that an edge which fits is right."""
        return _share_right(self.called_wrong, self.agreeing)

    def verdict(self, inlier_probability: Array) -> Array:
        """Probability (m,) that each edge is right, from that of wrong edges that are independent of each other.

        Those that do not fit are called wrong here. Where tails are heavy they may be believed all the same: no more often than
        any edge, then, and as others that are believed.
        """
        if self.agreeing == 0.0:
            return inlier_probability
        p, s = inlier_probability, self.share_right
        believed = s * np.where(self.fits, 1.0, 1.0 - self.called_wrong) * p
        return np.where(self.judged, believed + np.where(self.repeated, (1.0 - s) * (1.0 - p), 0.0), p)

    def facts(self) -> dict[str, float]:
        """Plain values for JSON."""
        return {"called_wrong": self.called_wrong, "agreeing": self.agreeing, "share_right": self.share_right}


def agreement(graph: PoseGraph, poses: Poses, inlier_probability: Array, prior: Array) -> Agreement | None:
    """Of edges that do not fit, how many agree; ``None`` where rotations alone are judged, which agree by chance too often.

    Parameters
    ----------
    inlier_probability
        Of each edge (m,), given the poses. Those above one half fit if they are also within three σ: tails may be heavy, and call
        right whatever is not far off.
    prior
        The same (m,) beforehand: edges of which it is 1 are certain.
    """
    motions = graph.has_rotation & ~graph.is_absolute
    judged = motions & (prior < 1.0)
    if not np.any(judged & graph.has_translation):
        return None
    accepted = (inlier_probability > ACCEPTED) & motions
    sigmas = spread(graph, poses, accepted)
    fits = accepted & _within(graph, poses, sigmas)
    first = originals(graph)
    counted = judged & (first == np.arange(graph.n_edges))
    wrong = np.flatnonzero(counted & ~fits)
    repeated = np.zeros(graph.n_edges, dtype=bool)
    says, by_chance = said_again(graph, poses, wrong, fits, sigmas)
    v = _beyond(says, by_chance)
    repeated[wrong] = says & (v > 0.0)
    return Agreement(len(wrong) / int(counted.sum()), v, fits | ~motions, repeated[first] & judged & ~fits, judged)


def agreement_without_order(
    graph: PoseGraph, poses: Poses, inlier_probability: Array, prior: Array
) -> Agreement | None:
    """The same; ``None`` where an order in time tells what repeats what, too."""
    if Sequence.of(skeleton(graph).graph) is not None:
        return None
    return agreement(graph, poses, inlier_probability, prior)


def verdict(found: Agreement | None, inlier_probability: Array) -> Array:
    """Probability (m,) that each edge is right, as far as agreement tells."""
    return inlier_probability if found is None else found.verdict(inlier_probability)


def _share_right(q: float, v: float) -> float:
    return (1.0 - q) / (1.0 - q + q * v) if q * v < 1.0 and v > 0.0 else float(v == 0.0)


def _beyond(says: Mask, by_chance: Array) -> float:
    """v: how many agree (k,) that do not by chance; 0 where chance explains it to two standard errors (they agree in pairs)."""
    if not np.any(says):
        return 0.0
    expected = float(by_chance.mean())
    beyond = float(says.mean()) - expected
    error = math.sqrt(2.0 * expected * (1.0 - expected) / len(says))
    return beyond / (1.0 - expected) if beyond > _ERRORS * error else 0.0


def _within(graph: PoseGraph, poses: Poses, sigmas: tuple[float, float]) -> Mask:
    """Edges (m,) within three σ of their own in every direction."""
    left, placed = residuals(graph, poses), graph.has_translation
    turn, shift = _variances(graph, sigmas)
    squared = left.angle**2 / turn
    squared[placed] += np.sum(left.translation[placed] ** 2, axis=1) / shift[placed]
    return np.asarray(squared < _FITS * (int(np.sum(graph.axes < 3)) + graph.dimension * placed))


def _variances(graph: PoseGraph, sigmas: tuple[float, float]) -> tuple[Array, Array]:
    """Variances (m,) of rotations and translations per axis, σ being those of edges of median certainty."""
    placed = graph.has_translation
    certainty = np.where(placed, np.einsum("maa->m", graph.translation_precision_matrices), np.nan)
    weights = (
        np.where(graph.has_rotation, rotation_weights(graph), np.nan),
        np.where(certainty > 0.0, certainty, np.nan),
    )
    turn, shift = (
        sigma**2 * (np.nan_to_num(np.nanmedian(one) / one, nan=1.0) if np.any(one > 0.0) else np.ones(graph.n_edges))
        for sigma, one in zip(sigmas, weights, strict=True)
    )
    return turn, shift


def worth_of_clusters(
    clusters: Clusters, poses: Poses, fits: Mask, believed: Mask, sigmas: tuple[float, float]
) -> Array:
    """How probably clusters of each kind are right that an explanation believes and no chain confirms: s.

    Wrong clusters agree if one says what another one says, of another place. One that errs alone does not, however many edges
    it has.

    Parameters
    ----------
    poses, fits, believed, sigmas
        Of an explanation: its poses, the edges (m,) that fit them, the clusters (c,) that it believes, and σ of an edge.
    """
    rows = np.flatnonzero(clusters.spread(~believed, False))
    of_edge = clusters.of_edge[rows]
    says, by_chance = said_again(clusters.sequence.graph, poses, rows, fits, sigmas, of_edge)
    repeated = np.bincount(of_edge, says, clusters.count) > 0.0
    with np.errstate(divide="ignore"):
        by_chance = -np.expm1(np.bincount(of_edge, np.log1p(-by_chance), clusters.count))  # that any of its edges does
    worth = np.ones(len(KINDS))
    for kind in range(len(KINDS)):
        here, wrong = clusters.kind == kind, (clusters.kind == kind) & ~believed
        if np.any(wrong):
            q = (wrong.sum() + 0.5) / (here.sum() + 1.0)
            worth[kind] = _share_right(q, _beyond(repeated[wrong], by_chance[wrong]))
    return worth


def said_again(
    graph: PoseGraph, poses: Poses, rows: Index, fits: Mask, sigmas: tuple[float, float], label: Index | None = None
) -> tuple[Mask, Array]:
    """Which of some edges (k,) say what another one of them says, and how probable (k,) that is by chance if they are independent.

    Edges of the same ``label`` (k,) are not compared.
    """
    i, j = graph.edge_i[rows], graph.edge_j[rows]
    asked = se3.compose((poses.wxyz[i], poses.position[i]), graph.measured(j, i, rows))
    wxyz, t = se3.compose(asked, se3.inverse((poses.wxyz[j], poses.position[j])))
    says, pairs, seen = np.zeros(len(rows), dtype=np.bool_), np.zeros(len(rows)), np.zeros(4)
    turn, shift = (one[rows] for one in _variances(graph, sigmas))
    lever = turn * np.nan_to_num(np.sum(graph.j_from_i_t[rows] ** 2, axis=1))
    _compare(
        np.arange(len(rows)) if label is None else label,
        i, j, wxyz, t, graph.has_translation[rows], poses.position, *_neighbours(graph, fits), *_by_node(graph.n_nodes, i, j),
        turn, shift, lever, sigmas[0], sigmas[1], float(np.sum(graph.axes < 3)), float(graph.dimension), says, pairs, seen,
    )  # fmt: skip
    turns = int(np.sum(graph.axes < 3))
    uniform = turned_by_chance(3.0 * sigmas[0] * math.sqrt(turns * _MOST_WAYS), turns == 1)
    return says, _by_chance(pairs, seen, uniform)


def _by_chance(pairs: Array, seen: Array, uniform: float) -> Array:
    """Probability (k,) that an independent wrong edge says what one of those that it is compared with says.

    Turns and places of independent edges are independent of each other: how often one agrees by chance is seen where the other
    clearly does not. Beforehand, and as much as one pair, turns are taken for ``uniform``, and places for alike.
    """
    elsewhere, turned_alike, turned, placed_alike = seen.tolist()
    turn = (turned_alike + uniform) / (elsewhere + 1.0)
    place = (placed_alike + 1.0) / (turned + 1.0)
    return np.asarray(-np.expm1(-pairs * turn * place))


def _neighbours(graph: PoseGraph, fits: Mask) -> tuple[Index, Index]:
    """Nodes joined to each by edges that fit: rows ``start[v]`` to ``start[v + 1]``; each is its own neighbour, too."""
    own = np.arange(graph.n_nodes)
    a = np.concatenate([graph.edge_i[fits], graph.edge_j[fits], own])
    b = np.concatenate([graph.edge_j[fits], graph.edge_i[fits], own])
    pairs = np.unique(np.stack([a, b]), axis=1)
    return np.searchsorted(pairs[0], np.arange(graph.n_nodes + 1)), pairs[1]


def _by_node(n: int, i: Index, j: Index) -> tuple[Index, Index, Index]:
    """Edges seen from each of their ends: rows ``begin[v]`` to ``begin[v + 1]`` have the other end and the edge's number."""
    here, there, number = np.concatenate([i, j]), np.concatenate([j, i]), np.tile(np.arange(len(i)), 2)
    order = np.argsort(here, kind="stable")
    return np.searchsorted(here[order], np.arange(n + 1)), there[order], number[order]


@kernel
def _compare(
    label: Any, i: Any, j: Any, wxyz: Any, t: Any, placed: Any, position: Any, start: Any, neighbour: Any, begin: Any, other: Any,
    number: Any, turn_variance: Any, shift_variance: Any, lever: Any, sigma_rot: float, sigma_trans: float, turns: float,
    moves: float, says: Any, pairs: Any, seen: Any,
) -> None:  # fmt: skip
    """Mark edges that say what another one says, and count the pairs of each, and how many are alike in turn or place alone.

    Of edge e ``(wxyz, t)`` is the motion of the world that brings its end j to where it wants it; of one listed the other way round
    it is the inverse. Edges without a translation say nothing of places, and are left out. An edge says where either of its ends
    is, seen from the other one: by its translation where i is, and its turn moves j by as much as the edge is long (``lever``).
    """
    near = np.zeros(start.shape[0] - 1, dtype=np.int64)
    for e in range(i.shape[0]):
        for x in range(start[j[e]], start[j[e] + 1]):
            near[neighbour[x]] = e + 1
        for x in range(start[i[e]], start[i[e] + 1]):
            k = neighbour[x]
            for y in range(begin[k], begin[k + 1]):
                f, there = number[y], other[y]
                if f <= e or near[there] != e + 1 or label[f] == label[e] or not (placed[e] and placed[f]):
                    continue
                same = i[f] == k
                dot = wxyz[e, 0] * wxyz[f, 0]
                for c in range(1, 4):
                    dot += wxyz[e, c] * wxyz[f, c] if same else -wxyz[e, c] * wxyz[f, c]
                apart = 2.0 * math.acos(min(abs(dot), 1.0))
                between = (1.0 if k != i[e] else 0.0) + (1.0 if there != j[e] else 0.0)  # edges whose noise adds up
                turn = apart**2 / (turn_variance[e] + turn_variance[f] + between * sigma_rot**2)
                shift = math.inf
                wide = shift_variance[e] + shift_variance[f] + between * sigma_trans**2
                for v in (j[e], there):
                    of_turns = lever[e] + (lever[f] if same else 0.0)
                    shift = min(shift, _apart(wxyz, t, position, e, f, v, False, not same) / (wide + of_turns))
                for v in (i[e], k):
                    of_turns = 0.0 if same else lever[f]
                    shift = min(shift, _apart(wxyz, t, position, e, f, v, True, same) / (wide + of_turns))
                alike, at_one_place = turn < _FITS * turns, shift < _FITS * moves
                pairs[e] += 1.0
                pairs[f] += 1.0
                elsewhere, turned_away = shift > _CLEARLY * _FITS * moves, turn > _CLEARLY * _FITS * turns
                seen[0] += elsewhere
                seen[1] += alike and elsewhere
                seen[2] += turned_away
                seen[3] += at_one_place and turned_away
                if alike and at_one_place:
                    says[e] = says[f] = True


@inlined
def _apart(wxyz: Any, t: Any, position: Any, e: int, f: int, v: int, back_e: bool, back_f: bool) -> Any:
    """Squared distance between where the motions of two edges take node v, or their inverses."""
    a, b = _taken(wxyz, t, position, e, v, back_e), _taken(wxyz, t, position, f, v, back_f)
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 + (a[2] - b[2]) ** 2


@inlined
def _taken(wxyz: Any, t: Any, position: Any, e: int, v: int, back: bool) -> Any:
    """Where the motion of an edge takes node v, or its inverse."""
    if back:
        x = (position[v, 0] - t[e, 0], position[v, 1] - t[e, 1], position[v, 2] - t[e, 2])
        return turned((wxyz[e, 0], -wxyz[e, 1], -wxyz[e, 2], -wxyz[e, 3]), x)
    x = turned((wxyz[e, 0], wxyz[e, 1], wxyz[e, 2], wxyz[e, 3]), (position[v, 0], position[v, 1], position[v, 2]))
    return (x[0] + t[e, 0], x[1] + t[e, 1], x[2] + t[e, 2])
