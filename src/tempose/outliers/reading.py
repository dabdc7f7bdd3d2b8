r"""What poses make of a graph whose ids are an order in time: links given up, loop closures believed, and how probable that is.

Wrong loop closures repeat each other: a place that looks like another is seen from many nodes, and all these edges agree. So
evidence is counted by what is independent, links of the chain and clusters of loop closures (:mod:`tempose.outliers.clusters`), not
by edges. An explanation x gives up some links and believes some clusters:

.. math::

    P(x) \propto \prod_{\text{links given up}} \frac{1 - P_l}{P_l} \sum_{\text{worlds}} \prod_{\text{kinds}} \int
        (1 - \pi)^{\text{wrong}} \, \pi^{\text{placing}} \left(1 - \pi + \tfrac{\pi}{v}\right)^{\text{agree with others}}
        \left(1 - \pi + \tfrac{\pi}{v + e^{-V}}\right)^{\text{repeat others}}
        \left(1 - \pi + \pi e^{V}\right)^{\text{agree with the chain}} \mathrm{Beta}(\pi)\, d\pi .

Giving up a link costs its prior odds, once, however many clusters it explains. The share π of right clusters of a kind (one
edge, a few, many) is unknown and integrated out: where nearly all are right, calling one wrong costs more than where half are.
There are worlds in which most are right, worlds in which few lone ones are, as among candidates that scans propose, and worlds in
which nothing looks alike, so that only lone ones are wrong; each is as probable beforehand (long ways are of the first). How many
lone ones there are tells them apart: a front end that proposes whatever it finds proposes many.
Links that nobody trusts are such a kind as well. Edges that agree with the unbroken chain between their ends do so by chance with
the probability :math:`e^{-V}`, V the logarithm of the density of what they say if they and the chain are right over that of wrong
ones: the farther the chain drifts between their ends, the less (:mod:`tempose.outliers.drift`). That counts for every place that is
seen again, so the last product is over places (cells), of which large clusters have several. A cluster that agrees
with another cluster on how two segments lie has less to say, since one cause may mislead both: it does in a share v of the
cases. More clusters that say so repeat it: each may agree by that cause, or by chance, with the probability :math:`e^{-V}` that
the links between it and one of the others tell; but those next to each other are one. The first cluster between two segments
agrees with nothing: it places them.

A right stretch of loop closures that a wrong link cuts in two makes two clusters, one that agrees with the chain and one that
places the rest, and they lie side by side. A wrong cluster may lie anywhere. So a placing cluster that goes on where one ends that
agrees with the chain counts 1/p more, p the share of all pairs of nodes that lie as near to these (v at least).

Edges of a believed cluster are right together: every place of it that does not fit is one in twenty. A chain that is bent a
little at every link reaches any place: what that takes beyond drift counts against it, and residuals may count as well, a part of
the excess of those of links, and of one for every cell. Between two nodes at which believed loop closures end any link may be
wrong, so that an explanation with breaks at some of these stands for those with breaks at the others. The prior numbers are
:class:`tempose.outliers.beliefs.Beliefs`, and the score is computed there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose._typing import Array, Index, Mask
from tempose.model.poses import Poses
from tempose.model.robust import RobustLikelihood
from tempose.outliers.beliefs import (
    CONFIRMS,
    OF_CHAIN,
    PLACES,
    REPEATS,
    WRONG,
    Beliefs,
    Clues,
    Evidence,
    log_odds,
    log_score,
)
from tempose.outliers.clusters import Clusters
from tempose.outliers.drift import Across, PlaceTies
from tempose.outliers.search.triangles import HalfEdges
from tempose.outliers.search.votes import Narrow
from tempose.outliers.sequence import Sequence

_TAIL = 4.0  # ν of the core, as in growth
_FITS = 9.0  # energy per number up to which an edge fits: three σ in every direction
# chosen on: 3DMatch scenes (office1, hotel_uc), simulated look-alikes of seeds 9400 to 9423 with odometry .99
_SETTLED = 99.0  # odds of a link up to which trust does not hold poses while they settle
_SURE = 1e-12
LARGEST = 400
"""Nodes: beyond, a way is long, errors have a memory, and explanations are not searched for."""
_LINKS_OF_LONG_WAYS = (9.0, 1.0)  # right and wrong links that were seen before, as in fits of graphs of over 400 nodes


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to read the measurements.

    Attributes
    ----------
    poses
        Of the skeleton's nodes.
    fits
        Edges (m,) that agree with them.
    believed
        Clusters most of whose edges do.
    unconfirmed
        Believed clusters that nothing else confirms: each places a part of the graph alone.
    doubted
        Clusters that it calls wrong although they fit its poses: it says nothing of where the part is that they would place.
    given_up
        Links of the chain that it calls wrong.
    evidence
        What it makes of the graph.
    log_score
        log P, up to a constant.
    """

    poses: Poses
    fits: Mask
    believed: Mask
    unconfirmed: Mask
    doubted: Mask
    given_up: Index
    evidence: Evidence
    log_score: float

    @property
    def key(self) -> bytes:
        """What makes it another explanation."""
        return self.believed.tobytes() + self.given_up.tobytes()


class Reader:
    """Reads poses as explanations, at one noise of an edge and with one trust in links.

    Attributes
    ----------
    own
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    sigma_rot, sigma_trans
        Noise of an edge per axis, in radians and length.
    level, clusters, ties, clues
        What follows from that: how poses settle, which loop closures say the same, what ties their places, what counts.
    prior
        Share of right ones of each kind of cluster and of links, by what has been found so far (4,).
    """

    def __init__(self, sequence: Sequence, own: Array, beliefs: Beliefs, halves: HalfEdges) -> None:
        self.sequence, self.own, self.halves = sequence, own, halves
        if self.is_long:
            beliefs = replace(beliefs, links=_LINKS_OF_LONG_WAYS, worlds=beliefs.worlds[:1])
        self.beliefs = beliefs
        self.prior = beliefs.shares()

    def set_level(self, sigma_rot: float, sigma_trans: float) -> None:
        """Read at this noise of an edge, σ per axis in radians and length."""
        graph = self.sequence.graph
        self.sigma_rot, self.sigma_trans = sigma_rot, sigma_trans
        self.level = Narrow.of(graph, self.halves, sigma_rot, sigma_trans, self.settling())
        self.clusters = Clusters.of(self.sequence, self.sequence.chain_poses, sigma_rot, sigma_trans)
        self.limit = _largest_energy(self.level.freedom, np.where(self.sequence.is_link, self.own, np.nan))
        likelihood = RobustLikelihood.of(graph, 0.5)
        narrower = np.log(np.array(graph.median_sigmas) / (sigma_rot, sigma_trans))
        turns, moves = graph.ranks
        gain = likelihood.log_inlier - likelihood.log_outlier + turns * narrower[0] + moves * narrower[1]
        self.ties = PlaceTies.of(self.clusters, gain, sigma_rot, sigma_trans, self.is_long)
        self.clues = Clues(self.clusters.kind, graph.n_nodes, self._own_odds(), self.own[self.links])

    def settling(self) -> Array:
        """Prior inlier probabilities (m,) with which poses settle: even odds, and of links what they are trusted beyond 99:1.

        Loop closures that repeat each other are many to settle on and count as one; with less trust than this wrong links
        would hold poses.
        """
        odds = np.where(self.sequence.is_link, self.own / np.maximum(1.0 - self.own, _SURE) / _SETTLED, 1.0)
        odds = np.where(np.isnan(odds), 1.0, odds)
        return np.maximum(odds / (1.0 + odds), 0.5)

    @property
    def is_long(self) -> bool:
        """Whether it is a long way: over 400 nodes."""
        return self.sequence.graph.n_nodes > LARGEST

    @cached_property
    def links(self) -> Index:
        """Edges that are links of the chain."""
        return np.flatnonzero(self.sequence.is_link)

    def _own_odds(self) -> Array:
        """Log odds of clusters whose edges have probabilities of their own, their mean; NaN for the others."""
        known = ~np.isnan(self.own)
        share = self.clusters.mean(known.astype(float))
        with np.errstate(invalid="ignore"):
            return self.clusters.mean(np.where(known, log_odds(np.where(known, self.own, 0.5)), 0.0)) / np.where(
                share > 0.0, share, np.nan
            )

    def cluster_odds(self) -> Array:
        """Log odds of clusters being right: those of their own, or of their kind."""
        own = self.clues.own
        return np.where(np.isfinite(own), own, log_odds(self.prior[self.clusters.kind]))

    def explanation(self, poses: Poses, doubted: Mask | None = None) -> Candidate:
        """What poses that have settled say, and its score; ``doubted`` clusters are wrong in spite of it."""
        doubted = np.zeros(self.clusters.count, dtype=bool) if doubted is None else doubted
        energy = self.level.energies(poses)[0]
        fits = (energy < self.limit) & ~self.clusters.spread(doubted, False)
        made, unconfirmed, cells = self._made_of(fits)
        evidence = replace(made, misfit=self._misfit(energy, fits, cells), bent=self._bent(energy, fits))
        score = log_score(self.clues, evidence, self.beliefs)
        given_up = self.links[evidence.given_up]
        return Candidate(poses, fits, evidence.role != WRONG, unconfirmed, doubted, given_up, evidence, score)

    def log_score_of(self, fits: Mask) -> float:
        """Score of the edges (m,) that somebody keeps: how many mistakes that makes of the others, not how well they fit."""
        return log_score(self.clues, self._made_of(fits)[0], self.beliefs)

    def _made_of(self, fits: Mask) -> tuple[Evidence, Mask, Mask]:
        """Evidence of edges (m,) that fit, but for residuals; believed clusters that nothing confirms; believed cells that fit."""
        sequence, clusters = self.sequence, self.clusters
        believed = clusters.accepted(fits)
        segment = sequence.segments(fits)
        given_up = self.given_up(fits)
        of_cell = clusters.cell_mean(clusters.spread(believed, False).astype(float)) > 0.5
        fitting = clusters.cell_mean(fits.astype(float)) >= 0.5
        across = self.ties.across(of_cell & fitting & fits[self.ties.edge], segment)
        within, joins = self._joins(believed, fits, segment)
        placing, confirming, alone = _confirmations(int(segment.max()) + 1, within, joins, self.cluster_odds(), across)
        unconfirmed = np.zeros(clusters.count, dtype=bool)
        unconfirmed[sorted(alone)] = True
        role = np.where(believed, REPEATS, WRONG)
        role[sorted(placing)], role[sorted(confirming)], role[sorted(within)] = PLACES, CONFIRMS, OF_CHAIN
        chained = fits & (segment[sequence.earlier] == segment[sequence.later])
        agreeing = of_cell & (clusters.cell_mean(chained.astype(float)) > 0.5)
        splits = int(np.sum(of_cell & ~fitting & (clusters.cell_size > 1)))
        chance = self._going_on(role, fits) if placing and not self.is_long else ()  # drift cuts stretches, too
        v, near = self.ties.among(agreeing, segment)
        again = None if across is None else self.ties.again(across, role == PLACES, role == CONFIRMS)
        evidence = Evidence(
            role, given_up, v, near, splits, bends=self.ties.bends(agreeing), chance=chance, again=again
        )
        return evidence, unconfirmed, of_cell & fitting

    def given_up(self, fits: Mask) -> Mask:
        """Links (l,) that do not fit, but for those with a parallel one that does."""
        sequence = self.sequence
        held = np.zeros(sequence.graph.n_nodes, dtype=bool)
        held[sequence.later[sequence.is_link & fits]] = True
        return ~fits[self.links] & ~held[sequence.later[self.links]]

    def _going_on(self, role: Index, fits: Mask) -> tuple[float, ...]:
        """Chance that a wrong cluster lies as near to those that agree with the chain as each that goes on where one of them ends.

        A stretch that is seen again across a wrong link makes two clusters: one agrees with the chain, the other one, next to it
        at both ends, contradicts it. Right clusters lie like that; wrong ones may lie anywhere.
        """
        clusters = self.clusters
        a, b, apart = clusters.side_by_side
        placing, chained = clusters.spread(role == PLACES, False), clusters.spread(role == OF_CHAIN, False)
        here = np.flatnonzero((placing & fits)[a] & (chained & fits)[b])
        if len(here) == 0:
            return ()
        nearest: dict[int, int] = {}
        for c, near in zip(clusters.of_edge[a[here]].tolist(), apart[here].tolist(), strict=True):
            nearest[c] = min(near, nearest.get(c, near))
        by_chance = clusters.surroundings[role == OF_CHAIN].sum(axis=0)
        return tuple(min(float(by_chance[near]), 1.0) for near in nearest.values())

    def _misfit(self, energy: Array, fits: Mask, cells: Mask) -> float:
        """By how much what is believed misses by more than is expected, in nats; the edges of a cell count as one."""
        freedom = self.level.freedom
        excess = np.maximum(_core(energy, freedom) - _core(0.5 * freedom, freedom), 0.0)
        inside = fits & ~self.sequence.is_link
        share = self.clusters.cell_mean(inside.astype(float))[cells]
        of_cells = self.clusters.cell_mean(np.where(inside, excess, 0.0))[cells] / share
        return float(excess[fits & self.sequence.is_link].sum() + of_cells.sum())

    def _bent(self, energy: Array, fits: Mask) -> float:
        """By how much trusted links miss beyond the usual limit, in nats: at the limit of trust, as much as giving them up."""
        freedom, links = self.level.freedom, fits & self.sequence.is_link
        beyond = _core(energy, freedom) - _core(_FITS * freedom, freedom)
        return float(np.maximum(beyond[links], 0.0).sum())

    def _joins(self, believed: Mask, fits: Mask, segment: Index) -> tuple[set[int], dict[int, set[tuple[int, int]]]]:
        """Believed clusters that lie mostly within segments; and which segments each one joins."""
        edges = np.flatnonzero(self.clusters.spread(believed, False) & fits)
        c, a, b = (
            self.clusters.of_edge[edges],
            segment[self.sequence.earlier[edges]],
            segment[self.sequence.later[edges]],
        )
        here = np.bincount(c, a == b, self.clusters.count)
        within = np.flatnonzero(here > 0.5 * np.bincount(c, minlength=self.clusters.count)).tolist()
        joins: dict[int, set[tuple[int, int]]] = {one: set() for one in np.flatnonzero(believed).tolist()}
        apart = a != b
        for one, i, j in zip(c[apart].tolist(), a[apart].tolist(), b[apart].tolist(), strict=True):
            joins[one].add((i, j))
        return set(within), joins


def _core(energy: Array, freedom: Array) -> Array:
    """−log density of an edge relative to its peak: neither links nor loop closures are as Gaussian as they are said to be."""
    return np.asarray(0.5 * (_TAIL + freedom) * np.log1p(2.0 * energy / _TAIL))


def _largest_energy(freedom: Array, own: Array) -> Array:
    """Energy (m,) up to which an edge fits: three σ in every direction, more for links that are trusted.

    Before a link is given up for its residual, that has to be as improbable as the link being wrong: the core at the limit
    grows by the log odds of its prior probability ``own`` (m,), if these are above even.
    """
    usual = _FITS * freedom
    trust = np.maximum(log_odds(np.where(np.isnan(own), 0.5, own)), 0.0)
    return np.asarray(0.5 * _TAIL * np.expm1(np.log1p(2.0 * usual / _TAIL) + 2.0 * trust / (_TAIL + freedom)))


def _confirmations(
    n_segments: int, within: set[int], joins: dict[int, set[tuple[int, int]]], odds: Array, across: Across | None = None
) -> tuple[set[int], set[int], set[int]]:
    """Clusters that place segments, that confirm how two lie, and that place some alone.

    Those that agree with the chain come first, then the likeliest. How two segments lie is confirmed once, by a cluster that is
    not next to one that has said so (``across``); those that say it again repeat it.
    """
    order = sorted(joins, key=lambda c: (c not in within, -odds[c], c))
    part = np.arange(n_segments)
    placing, confirming = set(), set()
    confirmed: set[tuple[int, int]] = set()
    one_of = {} if across is None else across.groups
    said_by: set[int] = set()
    for c in order:
        pairs = {(min(i, j), max(i, j)) for i, j in joins[c]}
        new = [(i, j) for i, j in pairs if part[i] != part[j]]
        if c not in within:
            if new:
                placing.add(c)
            elif any(one_of.get((c, pair), -1) not in said_by for pair in pairs - confirmed):
                confirming.add(c)
                confirmed |= pairs
        said_by |= {one_of[c, pair] for pair in pairs if (c, pair) in one_of}
        for i, j in new:
            part[part == part[i]] = part[j]
    said = Counter(pair for pairs in joins.values() for pair in pairs)
    ends, count = np.array(list(said), dtype=np.int64).reshape(-1, 2), np.array(list(said.values()), dtype=np.int64)
    row = {pair: k for k, pair in enumerate(said)}
    alone = set()
    for c in placing:
        own = np.array([row[pair] for pair in joins[c]], dtype=np.int64)
        if np.any(count[own] < 2) and _come_apart(n_segments, ends, count, own):
            alone.add(c)
    return placing, confirming, alone


@kernel
def _come_apart(n: int, ends: Any, count: Any, own: Any) -> bool:
    """Whether some of the pairs ``own`` join segments that are in different parts if each of these is said once less."""
    part, less = np.arange(n), count.copy()
    less[own] -= 1
    for k in range(ends.shape[0]):
        if less[k] > 0:
            a, b = _root(part, ends[k, 0]), _root(part, ends[k, 1])
            part[max(a, b)] = min(a, b)
    apart = 0
    for k in own:
        apart += _root(part, ends[k, 0]) != _root(part, ends[k, 1])
    return apart > 0


@inlined
def _root(part: Any, v: Any) -> Any:
    """First segment of the part that a segment is in; ways to it are halved."""
    while part[v] != v:
        part[v] = part[part[v]]
        v = part[v]
    return v
