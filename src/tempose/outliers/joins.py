r"""Parts that a single accepted edge joins, although others say otherwise: which edge is the right one cannot be known.

Edges that are accepted and in no cycle of accepted ones, the bridges, confirm nothing: each fits because it alone says where the
part beyond it is. Where other edges between the same two sides contradict it, any of them could be the right one instead. Such a
rival is wrong, or one of the bridges on the way between its ends is; two rivals do not agree, so that no bridge is wrong for
both. With :math:`w = \pi/(1 - \pi)` of each edge, relative to all bridges being right and all rivals wrong, a bridge e
that is wrong because a rival r is right weighs :math:`w_r/w_e`, and one that is wrong for nothing :math:`1/w_e`. Summed over all
ways of giving rivals that are right a bridge of their own (matchings), that is the probability of everything; of a single bridge,

.. math::  P(e) = \frac{w_e}{1 + w_e + \sum_r w_r} .

A rival between the ends of a long way contradicts all of its bridges, but only one of them is wrong for it: each is doubted
little, however many they are. Bridges that have no rival in common, directly or by way of others, have nothing to do with each
other: there probabilities multiply. Those that nothing contradicts, as of the end of a chain, keep their prior and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.model.graph import PoseGraph
from tempose.model.order import steps_apart
from tempose.model.poses import Poses
from tempose.outliers.chained import IF_FALSE, LEAST, REPORTED, moved_nodes
from tempose.outliers.em import RobustFit, fit
from tempose.outliers.loose_parts import ACCEPTED
from tempose.outliers.noise import RobustOptions
from tempose.outliers.search.ears import joined
from tempose.outliers.search.skeleton import Skeleton
from tempose.outliers.solutions import Explanation, Weighing

_MOST_REJOINED = 10  # parts that a likelier edge joins
_MOST_ROUNDS, _SAME = 1000, 1e-12  # of the sum over matchings; it converges for any weights


@dataclass(frozen=True, eq=False)
class Join:
    """Two sides of a graph that one accepted edge joins, and some contradict.

    Attributes
    ----------
    edge
        The accepted edge.
    nodes
        Rows of the side beyond it, seen from the largest part that cycles of accepted edges hold.
    rivals
        Edges that contradict it.
    probability
        That the edge is right.
    rival_probability
        The same of each rival (k,).
    instead
        How many times as probable as the estimate it is that a rival is right and the edge wrong (k,), all else being the same.
    """

    edge: int
    nodes: Index
    rivals: Index
    probability: float
    rival_probability: Array
    instead: Array


def contested_joins(graph: PoseGraph, accepted: Mask, prior: Array) -> tuple[tuple[Join, ...], float]:
    """All bridges of the accepted edges (m,) that some rejected edge contradicts, the largest sides first; that all are right.

    Parameters
    ----------
    prior
        Inlier probabilities (m,) beforehand.
    """
    rows = np.flatnonzero(accepted)
    kept, rejected = graph.with_edges(accepted), np.flatnonzero(~accepted)
    p = np.clip(prior, 1e-12, 1.0 - 1e-12)
    weight = p / (1.0 - p)
    whole = np.ones(kept.n_edges, dtype=bool)
    whole[kept.bridges] = False
    block = kept.with_edges(whole).component
    center = int(np.argmax(block == np.bincount(block).argmax()))
    sides, rivals = [], []
    for k in kept.bridges.tolist():
        without = np.ones(kept.n_edges, dtype=bool)
        without[k] = False
        part = kept.with_edges(without).component
        there = part == part[kept.edge_j[k]]
        here = part == part[kept.edge_i[k]]
        i, j = graph.edge_i[rejected], graph.edge_j[rejected]
        against = rejected[(there[i] & here[j]) | (here[i] & there[j])]
        if not len(against):
            continue
        beyond = here[center] or (not there[center] and there.sum() <= here.sum())
        sides.append((int(rows[k]), np.flatnonzero(there if beyond else here)))
        rivals.append(against)
    right, together = np.ones(graph.n_edges), 1.0
    for group in _groups(rivals):
        edges, others = np.array([sides[k][0] for k in group]), np.unique(np.concatenate([rivals[k] for k in group]))
        crosses = np.array([np.isin(others, rivals[k]) for k in group]).T
        right[edges], right[others], all_right = _probabilities(weight[edges], weight[others], crosses)
        together *= all_right
    found = [
        Join(edge, side, against, float(right[edge]), right[against], weight[against] / weight[edge])
        for (edge, side), against in zip(sides, rivals, strict=True)
    ]
    return tuple(sorted(found, key=lambda one: (-len(one.nodes), one.edge))), together


def _groups(rivals: list[Index]) -> list[list[int]]:
    """Bridges that rivals (of each bridge) have to do with each other."""
    groups: list[tuple[list[int], set[int]]] = []
    for k, against in enumerate(rivals):
        mine, edges = [k], set(against.tolist())
        for one in [one for one in groups if one[1] & edges]:
            groups.remove(one)
            mine, edges = one[0] + mine, one[1] | edges
        groups.append((mine, edges))
    return [bridges for bridges, _ in groups]


def _probabilities(bridges: Array, rivals: Array, crosses: Mask) -> tuple[Array, Array, float]:
    """That each bridge (b,) and rival (r,) is right, and that all bridges are, given w of each and which a rival crosses (r, b).

    The sum over matchings is Bethe's: exact where rivals and the bridges that they cross make no cycle, and else close. ``free`` is
    how probably one end of a pair is without a partner if the other end were not there; it is iterated.
    """
    alone = 1.0 / (1.0 + bridges)  # wrong for nothing
    pair = rivals[:, None] * alone * crosses
    free_rival = free_bridge = np.ones_like(pair)
    for _ in range(_MOST_ROUNDS):
        before, at_rival = free_rival, pair * free_bridge
        free_rival = 1.0 / (1.0 + at_rival.sum(axis=1, keepdims=True) - at_rival)
        at_bridge = pair * free_rival
        free_bridge = 1.0 / (1.0 + at_bridge.sum(axis=0) - at_bridge)
        if np.abs(free_rival - before).max() < _SAME:
            break
    both = pair * free_rival * free_bridge
    matched = both / (1.0 + both)
    total = np.log1p((pair * free_bridge).sum(axis=1)).sum() + np.log1p((pair * free_rival).sum(axis=0)).sum()
    together = np.log1p(-alone).sum() - total + np.log1p(both).sum()
    return (1.0 - matched.sum(axis=0)) * (1.0 - alone), matched.sum(axis=1), float(np.exp(together))


def rejoined(found: RobustFit, bones: Skeleton) -> Poses:
    """Parts that accepted edges confirm, as they are, joined by those of the other edges that are likeliest to be right."""
    return _joined(found, bones, -found.likelihood.log_odds[bones.edges])


def _joined(found: RobustFit, bones: Skeleton, weight: Array) -> Poses:
    graph, poses = bones.graph, found.poses.select(bones.graph.node_ids)
    inside = found.inlier_probability[bones.edges] > ACCEPTED
    inside[np.flatnonzero(inside)[graph.with_edges(inside).bridges]] = False
    return bones.completed(joined(graph, poses, inside, weight))


def weigh_joins(found: RobustFit, bones: Skeleton) -> Weighing | None:
    """What joins that are contested mean for the verdicts, and the most probable other ways; ``None`` if there are none."""
    graph, own = bones.graph, np.flatnonzero(bones.edges)
    accepted = found.inlier_probability[bones.edges] > ACCEPTED
    joins, first = contested_joins(graph, accepted, found.likelihood.prior[bones.edges])
    if not joins:
        return None
    share, rest = np.ones(found.graph.n_edges), np.zeros(found.graph.n_edges)
    loose = np.full(found.graph.n_nodes, -1)
    row = {name: k for k, name in enumerate(found.graph.node_ids)}
    for number, join in enumerate(joins):
        share[own[join.edge]], rest[own[join.edge]] = 0.0, join.probability
        share[own[join.rivals]] = 0.0
        rest[own[join.rivals]] = join.rival_probability
        inside = np.array([row[graph.node_ids[k]] for k in join.nodes])
        loose[inside[loose[inside] < 0]] = number  # parts of parts are left out
    links = np.flatnonzero(bones.edges)[steps_apart(graph) == 1]
    given_up = links[found.inlier_probability[links] <= ACCEPTED]
    out = [Explanation(first, found.poses, found.likelihood.prior, np.zeros(0, dtype=np.int64), given_up)]
    others = [
        (first * float(times), join.edge, int(rival))
        for join in joins
        for rival, times in zip(join.rivals, join.instead, strict=True)
    ]
    likely = sorted((one for one in others if one[0] >= LEAST), key=lambda one: -one[0])
    for probability, edge, rival in likely[: REPORTED - 1]:
        out.append(_instead(found, bones, probability, edge, rival, links))
    return Weighing(tuple(out), share, rest, loose)


def likeliest_joins(
    found: RobustFit, bones: Skeleton, refit: Callable[[Poses], RobustFit]
) -> tuple[RobustFit, Weighing | None]:
    """The fit in which the likeliest edges join parts, and :func:`weigh_joins` of it.

    Fits are compared by their evidence, to which it hardly matters which of several edges that contradict each other is kept,
    even if one of them is trusted more. ``refit`` begins from the poses of another explanation; what it finds may have less
    evidence, but not by more than that explanation is likelier, or it is another one.
    """
    weighing = weigh_joins(found, bones)
    for _ in range(_MOST_REJOINED):
        if weighing is None:
            break
        first, likeliest = weighing.explanations[0], max(weighing.explanations, key=lambda one: one.probability)
        if likeliest is first:
            break
        other = refit(likeliest.poses)
        if other.log_evidence < found.log_evidence - math.log(likeliest.probability / first.probability):
            break
        weighed = weigh_joins(other, bones)
        if weighed is not None and weighed.explanations[0].probability <= first.probability:
            break
        found, weighing = other, weighed
    return found, weighing


def _instead(found: RobustFit, bones: Skeleton, probability: float, edge: int, rival: int, links: Index) -> Explanation:
    """The explanation in which a rival joins two sides."""
    own, p = np.flatnonzero(bones.edges), found.parameters
    weight = -found.likelihood.log_odds[bones.edges]
    weight[found.inlier_probability[bones.edges] > ACCEPTED] += 100.0
    weight[rival], weight[edge] = weight.max() + 1.0, weight.min() - 1.0
    prior = found.likelihood.prior.copy()
    prior[own[edge]] = IF_FALSE
    same = RobustOptions("given", p.inlier_probability, p.tail, p.outlier_sigma)
    other = fit(found.graph, _joined(found, bones, weight), same, own_probability=prior)
    given_up = links[other.inlier_probability[links] <= ACCEPTED]
    moved = moved_nodes(found.graph, found.poses, other.poses, found.graph.median_sigmas)
    return Explanation(probability, other.poses, prior, moved, given_up)
