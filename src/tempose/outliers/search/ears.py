r"""Growth by ears: a part that is known is enlarged by ways that leave it and come back where they should.

Where links of the chain are wrong as well as loop closures, the chain is no place to begin with. But a cycle that closes, although
errors and accidents could have led it anywhere, has right edges only: by chance it closes with the probability
:math:`e^{-V}`, V the logarithm of the volume that errors fill against that where wrong edges may lead. So growth begins with
the cycle that closes most evidently, and goes on with *ears*: ways through nodes that are not placed yet, from one placed
node to another. An ear of right edges ends where the other node is, within

.. math::  \Sigma = \sum_{k \in \text{ear}} \operatorname{Ad}_k \Sigma_k \operatorname{Ad}_k^T + \Sigma_{uv},

:math:`\Sigma_{uv}` what is not known of the two placed nodes relative to each other, at most that of the best way between them. The
log odds of its edges all being right are those of their prior probabilities, plus the logarithm of the ratio of both densities.

Ears are made from a forest of cheapest ways that start at the placed nodes: every edge that joins two of its branches closes one.
Edges of ears that do not come back cost more next time, so that ways around wrong edges are found. Every node placed is
confirmed: two ways lead to it. What is left at last hangs on single edges, and is put where the cheapest way leads.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import special

from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import lowered
from tempose.optimum.trees import tree_poses
from tempose.outliers.search import _ears
from tempose.outliers.search.triangles import HalfEdges

_TAIL = 4.0  # ν of the density of what closes
_LINK, _LOOP = 0.95, 0.5  # prior probabilities of edges that have none of their own
# chosen on: simulated trajectories and Manhattan worlds with wrong links, seeds 1 to 3
_LEVELS = (12.0, 8.0, 5.0, 3.0)  # log odds above which ears are taken in: the evident ones first
_OPEN = -2.0  # and below which their edges are suspected
# chosen on: simulated trajectories and Manhattan worlds with wrong links, seeds 1 to 3
_IDLE = 15  # forests in a row that add nothing: then the next level
_BLAME = 3.0  # cost of an edge that is suspected of all of an ear that does not come back
_LARGE = 3000  # edges
_LONGEST = 60  # edges of an ear
_LITTLE = 1e-3  # nats of all edges together, far less than what decides about one: poses are near enough
_FITS = 12.0  # squared residual per number, in units of σ, above which an edge that was taken in leaves again
_FACTORS = np.geomspace(1.0 / 40.0, 40.0, 11), np.geomspace(1.0 / 1.6, 1.6, 5)  # of the stated noise; then of the best
_STATED = math.log(10.0)  # σ of the logarithm of such a factor, beforehand
_SO3 = math.log(8.0 * math.pi**2)  # volume of all rotations, and of those in the plane
_SO2 = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class Eared:
    """What growth by ears has placed.

    Attributes
    ----------
    poses
        Of all nodes.
    part
        Number of the part that each node (n,) is in: two ways lead to it from others of that part; −1 for nodes in none.
    accepted
        Edges (m,) of these ways.
    scales
        Factors of the stated noise of rotations and of translations.
    """

    poses: Poses
    part: Index
    accepted: Mask
    scales: tuple[float, float]


def grow_by_ears(
    graph: PoseGraph, links: Mask, extent: float, rng: np.random.Generator, own: Array | None = None
) -> tuple[Eared, ...]:
    """Grow from the most evident cycle, then from the most evident one that was not reached, and so on.

    Three times (once in large graphs), the first time as far as evident ears lead, and then with less evident ones, too. Nothing
    if no cycle closes.

    Parameters
    ----------
    links
        Edges (m,) that are mostly right.
    extent
        Spread per axis of translations between any two nodes.
    own
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    """
    growth = _Growth(graph, links, extent, rng, own)
    counts = [3] if graph.n_edges > _LARGE else range(2, len(_LEVELS) + 1)
    found = [growth.parts(_LEVELS[:count]) for count in counts]
    return tuple(growth.together(parts) for parts in found if parts)


def joined(graph: PoseGraph, poses: Poses, inside: Mask, weight: Array) -> Poses:
    """Parts that edges ``inside`` (m,) hold, each as it is, put together along the tree of largest weights (m,) of the others."""
    i, j = graph.edge_i[inside], graph.edge_j[inside]
    q, t = poses.node_from_world
    wxyz, translation = graph.j_from_i_wxyz.copy(), graph.j_from_i_t.copy()
    wxyz[inside], translation[inside] = se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))
    first = np.where(inside, float(np.abs(weight).max(initial=0.0)) + 1.0, weight)
    tree = graph.spanning_tree(first)
    return tree_poses(replace(graph, j_from_i_wxyz=wxyz, j_from_i_t=translation), tree)


@dataclass(frozen=True, eq=False)
class _Patch:
    poses: Poses
    placed: Mask
    accepted: Mask
    blame: Array


@dataclass(frozen=True, eq=False)
class _Ears:
    """Edges that close ears, and how."""

    edge: Index  # (k,)
    ends: Index  # (k, 2) nodes of the forest that they join
    odds: Array  # (k,) of all their edges being right


class _Growth:
    def __init__(
        self, graph: PoseGraph, links: Mask, extent: float, rng: np.random.Generator, own: Array | None
    ) -> None:
        self.graph, self.halves, self.rng, self.extent = graph, HalfEdges.of(graph), rng, extent
        prior = np.where(links, _LINK, _LOOP)
        if own is not None:
            prior = np.where(np.isnan(own), prior, np.clip(own, 0.01, 1.0 - 1e-6))
        self.log_prior = np.log(prior)
        turns, moves = int(np.sum(graph.axes < 3)), graph.dimension
        mean = np.maximum(graph.mean_concentration, 1e-300)
        self.rot = 2.0 / mean
        precision = np.einsum("maa->m", graph.translation_precision_matrices) / moves
        self.trans = 1.0 / np.maximum(precision, 1e-300)
        self.turns, self.moves = turns, moves
        self.scales = (1.0, 1.0)
        self.cycles = self._cycles()
        self._set_scales()

    # ------------------------------------------------------------------ cycles and ears

    def _forest(self, placed: Mask, poses: Poses, cost: Array) -> _Forest:
        h, n = self.halves, self.graph.n_nodes
        wxyz, position = poses.wxyz.copy(), poses.position.copy()
        via, branch, depth = (np.empty(n, dtype=np.int64) for _ in range(3))
        sums = np.empty((n, _ears.SUMS))
        _ears.spread(
            h.start, h.neighbour, h.edge, h.twin, h.wxyz, h.t, cost, self.rot, self.trans, placed, wxyz, position, via,
            branch, sums, depth,
        )  # fmt: skip
        return _Forest(wxyz, position, via, branch, sums, depth)

    def _closing(self, forest: _Forest, edges: Index, inside: Mask) -> tuple[Array, Array, Array]:
        """How far ways that edges (k,) close are from closing (k, 6), the sums (k, 11), and the point that they refer to (k, 3).

        With the best way between their beginnings along edges ``inside`` (m,).
        """
        graph, h = self.graph, self.halves
        i, j = graph.edge_i[edges], graph.edge_j[edges]
        ends = (forest.wxyz[i], forest.position[i]), (forest.wxyz[j], forest.position[j])
        residual, sums, at = self._missed(edges, *ends, forest.sums[i] + forest.sums[j])
        more = np.zeros_like(sums)
        first, second = self._root(forest, i), self._root(forest, j)
        _ears.between(
            h.start, h.neighbour, h.edge, h.twin, self.rot, self.trans, inside, forest.position, first, second, more
        )
        return residual, sums + more, at

    def _missed(
        self, edges: Index, first: tuple[Array, Array], second: tuple[Array, Array], sums: Array
    ) -> tuple[Array, Array, Array]:
        """The same for ways to the first and second node of edges (k,), that lead to these poses and add up to these sums."""
        graph = self.graph
        wxyz, t = graph.measured(graph.edge_j[edges], graph.edge_i[edges], edges)  # i_from_j
        wanted = quat.multiply(first[0], wxyz)
        there = first[1] + quat.rotate(first[0], t)
        turn = quat.log(quat.multiply(wanted, quat.conjugate(second[0])))
        residual = np.concatenate([turn, there - second[1]], axis=1)
        middle = 0.5 * (first[1] + there)
        own = _sums_of(middle, self.rot[edges], self.trans[edges])
        return residual, sums + own, second[1]

    def _root(self, forest: _Forest, nodes: Index) -> Index:
        """The placed node at which the way to each begins."""
        h = forest.branch[nodes]
        return np.where(h >= 0, self.halves.neighbour[self.halves.twin[h]], nodes)

    def _gain(self, closing: tuple[Array, Array, Array], scales: tuple[float, float]) -> Array:
        """Logarithm (k,) of the density of what ways miss by, if all edges are right, over that if not."""
        residual, sums, at = closing
        known = np.isfinite(sums[:, 0])
        sigma = _covariances(np.where(known[:, None], sums, 1.0), at, *scales)
        axes = self.graph.axes
        sigma = sigma[:, axes[:, None], axes] + 1e-300 * np.eye(len(axes))
        r = residual[:, axes]
        root = np.linalg.cholesky(sigma + 1e-12 * np.einsum("kaa->k", sigma)[:, None, None] * np.eye(len(axes)))
        z = np.linalg.solve(root, r[:, :, None])[:, :, 0]
        z2, log_det = np.sum(z**2, axis=1), 2.0 * np.sum(np.log(np.einsum("kaa->ka", root)), axis=1)
        d, nu = len(axes), _TAIL
        inside = special.gammaln(0.5 * (nu + d)) - special.gammaln(0.5 * nu) - 0.5 * d * math.log(nu * math.pi)
        inside = inside - 0.5 * log_det - 0.5 * (nu + d) * np.log1p(z2 / nu)
        far = np.sum(residual[:, 3:] ** 2, axis=1) / self.extent**2
        broad = -(_SO2 if self.turns == 1 else _SO3) - self.moves * math.log(self.extent)
        broad = broad - 0.5 * self.moves * math.log(2.0 * math.pi) - 0.5 * np.minimum(far, 20.0)
        return np.where(known, inside - broad, 0.0)

    def _cycles(self) -> _Cycles:
        """The shortest cycle through each edge: ways around it, and how far they are from closing."""
        graph, h, m = self.graph, self.halves, self.graph.n_edges
        ways, length = np.empty((m, _LONGEST), dtype=np.int64), np.empty(m, dtype=np.int64)
        wxyz, position, sums = np.empty((m, 4)), np.empty((m, 3)), np.empty((m, _ears.SUMS))
        _ears.cycles(
            h.start, h.neighbour, h.edge, h.twin, h.wxyz, h.t, self.rot, self.trans, graph.edge_i, graph.edge_j,
            ways, length, wxyz, position, sums,
        )  # fmt: skip
        edges = np.flatnonzero(length >= 0)
        here = np.tile(quat.IDENTITY, (len(edges), 1)), np.zeros((len(edges), 3))
        closing = self._missed(edges, here, (wxyz[edges], position[edges]), sums[edges])
        paths = [ways[k, : length[k]].tolist() for k in edges.tolist()]
        prior = np.array([sum(self.log_prior[path]) for path in paths]) + self.log_prior[edges]
        return _Cycles(edges, paths, closing, prior)

    def _way(self, forest: _Forest, node: int) -> list[int]:
        """Edges of the way to a node."""
        h, out = self.halves, []
        while forest.via[node] >= 0:
            out.append(int(h.edge[forest.via[node]]))
            node = h.neighbour[h.twin[forest.via[node]]]
        return out

    def _set_scales(self) -> None:
        """The factors of the stated noise that make the shortest cycles most probable together."""
        if not len(self.cycles.edge):
            return
        prior = self.cycles.log_prior
        best, center = -math.inf, (1.0, 1.0)
        for factors in _FACTORS:
            for s, t in itertools.product(center[0] * factors, center[1] * factors):
                gain = self._gain(self.cycles.closing, (s, t))
                merit = float(np.logaddexp(np.log1p(-np.exp(prior)), prior + gain).sum())
                merit -= 0.5 * (math.log(s) ** 2 + math.log(t) ** 2) / _STATED**2
                if merit > best:
                    best, self.scales = merit, (float(s), float(t))
            center = self.scales

    def seed(self, reached: Mask, least: float) -> list[int] | None:
        """Edges of the cycle that closes most evidently, of those that have a node not yet reached."""
        cycles = self.cycles
        gain = self._gain(cycles.closing, self.scales)
        odds = _log_odds(cycles.log_prior, gain)
        for k in np.argsort(-odds, kind="stable").tolist():
            if odds[k] < least:
                return None
            edges = [int(cycles.edge[k]), *cycles.paths[k]]
            nodes = np.concatenate([self.graph.edge_i[edges], self.graph.edge_j[edges]])
            if not np.all(reached[nodes]):
                return edges
        return None

    # ------------------------------------------------------------------ growth

    def parts(self, levels: tuple[float, ...]) -> list[_Patch]:
        """Parts grown from one seed after the other."""
        out: list[_Patch] = []
        reached = np.zeros(self.graph.n_nodes, dtype=bool)
        while (seed := self.seed(reached, levels[-1])) is not None:
            out.append(self.run(seed, levels))
            reached |= out[-1].placed
        return out

    def run(self, seed: list[int], levels: tuple[float, ...]) -> _Patch:
        """Grow from a cycle as far as ears with such log odds lead."""
        graph, n, m = self.graph, self.graph.n_nodes, self.graph.n_edges
        accepted, placed, blame = np.zeros(m, dtype=bool), np.zeros(n, dtype=bool), np.zeros(m)
        barred = np.zeros(m, dtype=bool)  # were taken in, and did not fit
        accepted[seed] = True
        placed[graph.edge_i[seed[0]]] = True
        poses = Poses(graph.node_ids, np.tile(quat.IDENTITY, (n, 1)), np.zeros((n, 3)))
        forest = self._forest(placed, poses, np.where(accepted, 1.0, math.inf))
        poses = Poses(graph.node_ids, forest.wxyz, forest.position)
        placed |= forest.via >= 0
        poses = self._refit(poses, placed, accepted)
        for level in levels:
            idle = 0
            while idle < _IDLE:
                cost = np.where(barred, math.inf, (1.0 + _BLAME * blame) * (1.0 + idle * self.rng.random(m)))
                forest = self._forest(placed, poses, cost)
                out = accepted | barred
                if idle:  # what joins placed nodes has been looked at
                    out |= placed[graph.edge_i] & placed[graph.edge_j]
                ears = self._ears(forest, placed, accepted, out)
                new = np.flatnonzero(ears.odds > level)
                h, bad = self.halves, ears.odds < _OPEN
                _ears.suspect(h.neighbour, h.edge, h.twin, forest.via, ears.edge[bad], ears.ends[bad], accepted, blame)
                if not len(new):
                    idle += 1
                    continue
                idle = 0
                new = new[np.argsort(-ears.odds[new], kind="stable")]
                wxyz, position = poses.wxyz.copy(), poses.position.copy()
                for k in new[: max(5, len(new) // 2)].tolist():
                    edges = self._edges(forest, ears, k, accepted)
                    accepted[edges] = True
                    blame[edges] = 0.0
                    for node in ears.ends[k].tolist():
                        while not placed[node]:
                            placed[node] = True
                            wxyz[node], position[node] = forest.wxyz[node], forest.position[node]
                            node = self.halves.neighbour[self.halves.twin[forest.via[node]]]
                poses = self._refit(Poses(graph.node_ids, wxyz, position), placed, accepted)
                kept = self._without_misfits(poses, accepted)
                barred |= accepted & ~kept
                accepted = kept
        return _Patch(poses, placed, accepted, np.where(barred, math.inf, blame))

    def together(self, parts: list[_Patch]) -> Eared:
        """All parts in one frame: joined by edges that are probably right, and seldom suspected."""
        graph = self.graph
        inside, part_of = np.zeros(graph.n_edges, dtype=bool), np.full(graph.n_nodes, -1)
        wxyz, position = parts[0].poses.wxyz.copy(), parts[0].poses.position.copy()
        blame = np.full(graph.n_edges, math.inf)
        for number, part in enumerate(parts):
            new = part.placed & (part_of < 0)
            part_of[new] = number
            wxyz[new], position[new] = part.poses.wxyz[new], part.poses.position[new]
            inside |= part.accepted & new[graph.edge_i] & new[graph.edge_j]
            blame = np.minimum(blame, part.blame)
        odds = self.log_prior - np.log(-np.expm1(self.log_prior))
        weight = np.where(np.isfinite(blame), odds - 0.1 * np.minimum(blame, 30.0), -100.0)
        poses = joined(graph, Poses(graph.node_ids, wxyz, position), inside, weight)
        return Eared(poses, part_of, inside, self.scales)

    def _ears(self, forest: _Forest, placed: Mask, accepted: Mask, out: Mask) -> _Ears:
        """All edges that join two branches of the forest, or placed nodes, but those left out (m,); and their log odds."""
        graph, h = self.graph, self.halves
        i, j = graph.edge_i, graph.edge_j
        used = np.zeros(graph.n_edges, dtype=bool)
        used[h.edge[forest.via[forest.via >= 0]]] = True
        there = (placed | (forest.via >= 0))[i] & (placed | (forest.via >= 0))[j]
        apart = (forest.branch[i] != forest.branch[j]) | (placed[i] & placed[j])
        short = forest.depth[i] + forest.depth[j] < _LONGEST
        edges = np.flatnonzero(~out & ~used & there & apart & short)
        if not len(edges):
            return _Ears(edges, np.zeros((0, 2), dtype=np.int64), np.zeros(0))
        along = self._log_prior_along(forest)
        gain = self._gain(self._closing(forest, edges, accepted), self.scales)
        prior = along[i[edges]] + along[j[edges]] + self.log_prior[edges]
        odds = _log_odds(prior, gain)
        return _Ears(edges, np.stack([i[edges], j[edges]], axis=1), odds)

    def _log_prior_along(self, forest: _Forest) -> Array:
        """Logarithm (n,) of the probability that all edges of the way to a node are right, beforehand."""
        h, out = self.halves, np.empty(self.graph.n_nodes)
        order = np.argsort(forest.depth, kind="stable")
        _ears.along(h.neighbour, h.edge, h.twin, forest.via, order, self.log_prior, out)
        return out

    def _edges(self, forest: _Forest, ears: _Ears, k: int, accepted: Mask) -> list[int]:
        """Edges of an ear that are not accepted yet."""
        ways = [edge for node in ears.ends[k].tolist() for edge in self._way(forest, node)]
        return [edge for edge in {int(ears.edge[k]), *ways} if not accepted[edge]]

    @cached_property
    def _scaled(self) -> PoseGraph:
        """The graph at the noise that its cycles show."""
        s, t = self.scales
        graph = self.graph
        return replace(
            graph,
            concentration=graph.concentration / s**2,
            translation_precision=graph.translation_precision / t**2,
            coupling=None if graph.coupling is None else graph.coupling * (t / s),
            initial=None,
        )

    def _refit(self, poses: Poses, placed: Mask, accepted: Mask) -> Poses:
        """The placed nodes where the accepted edges want them."""
        rows = np.flatnonzero(placed)
        part = self._scaled.with_edges(accepted).subgraph(rows)
        here = Poses(part.node_ids, poses.wxyz[rows], poses.position[rows])
        found = lowered(Curvature(Posterior(part)), here, max_steps=6, least_gain=_LITTLE)
        wxyz, position = poses.wxyz.copy(), poses.position.copy()
        wxyz[rows], position[rows] = found.wxyz, found.position
        return Poses(poses.ids, wxyz, position)

    def _without_misfits(self, poses: Poses, accepted: Mask) -> Mask:
        graph = self._scaled
        energy = Posterior(graph).energies(poses)
        return np.asarray(accepted & (2.0 * energy < _FITS * len(graph.axes)))


@dataclass(frozen=True, eq=False)
class _Forest:
    """Cheapest ways from the placed nodes to all others."""

    wxyz: Array
    position: Array
    via: Index
    branch: Index
    sums: Array
    depth: Index


@dataclass(frozen=True, eq=False)
class _Cycles:
    edge: Index
    paths: list[list[int]]
    closing: tuple[Array, Array, Array]
    log_prior: Array  # of all edges of the cycle being right


def _log_odds(log_prior: Array, gain: Array) -> Array:
    """Log odds of all edges of a way being right."""
    return np.asarray(log_prior - np.log(-np.expm1(np.minimum(log_prior, -1e-12))) + gain)


def _sums_of(x: Array, rot: Array, trans: Array) -> Array:
    """The sums (k, 11) of single edges around points (k, 3)."""
    pairs = np.stack([x[:, a] * x[:, b] for a, b in ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))], axis=1)
    return np.concatenate([rot[:, None], rot[:, None] * x, rot[:, None] * pairs, trans[:, None]], axis=1)


def _covariances(sums: Array, at: Array, scale_rot: float, scale_trans: float) -> Array:
    """Covariances (k, 6, 6) of where ways lead to, rotation first, at points (k, 3)."""
    k = len(sums)
    total, first = sums[:, 0], sums[:, 1:4]
    second = np.empty((k, 3, 3))
    for n, (a, b) in enumerate(((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))):
        second[:, a, b] = second[:, b, a] = sums[:, 4 + n]
    lever = total[:, None] * at - first  # Σ σ² (at − x)
    cross = np.einsum("ka,kb->kab", at, first)
    squares = total[:, None, None] * np.einsum("ka,kb->kab", at, at) - cross - np.swapaxes(cross, 1, 2) + second
    trace = np.einsum("kaa->k", squares)[:, None, None]
    out = np.zeros((k, 6, 6))
    eye = np.eye(3)
    out[:, :3, :3] = scale_rot**2 * total[:, None, None] * eye
    # a turn ω moves the end by ω × d
    hat = np.zeros((k, 3, 3))
    hat[:, 0, 1], hat[:, 0, 2], hat[:, 1, 2] = -lever[:, 2], lever[:, 1], -lever[:, 0]
    hat = hat - np.swapaxes(hat, 1, 2)
    out[:, 3:, :3] = -(scale_rot**2) * hat
    out[:, :3, 3:] = np.swapaxes(out[:, 3:, :3], 1, 2)
    out[:, 3:, 3:] = scale_rot**2 * (trace * eye - squares) + scale_trans**2 * sums[:, 10, None, None] * eye
    return out
