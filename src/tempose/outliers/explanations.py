r"""Explanations of a graph whose ids are an order in time: which links of the chain to give up, which loop closures to believe.

Wrong loop closures repeat each other: a place that looks like another is seen from many nodes, and all these edges agree. So
evidence is counted by what is independent, links of the chain and clusters of loop closures (:mod:`tempose.outliers.clusters`), not
by edges. An explanation x gives up some links and believes some clusters:

.. math::

    P(x) \propto \prod_{\text{links given up}} \frac{1 - P_l}{P_l} \sum_{\text{worlds}} \prod_{\text{kinds}} \int
        (1 - \pi)^{\text{wrong}} \, \pi^{\text{placing}} \left(1 - \pi + \tfrac{\pi}{v}\right)^{\text{agree with others}}
        \left(1 - \pi + \pi e^{V}\right)^{\text{agree with the chain}} \mathrm{Beta}(\pi)\, d\pi .

Giving up a link costs its prior odds, once, however many clusters it explains. The share π of right clusters of a kind (one
edge, a few, many) is unknown and integrated out: where nearly all are right, calling one wrong costs more than where half are.
There are worlds in which most are right, worlds in which few lone ones are, as among candidates that scans propose, and worlds in
which nothing looks alike, so that only lone ones are wrong; each is as probable beforehand (long ways are of the first).
Links that nobody trusts are such a kind as well. Edges that agree with the unbroken chain between their ends do so by chance with
the probability :math:`e^{-V}`, V = log(c/o), the density of right measurements over that of wrong ones; that counts for every
place that is seen again, so the last product is over places (cells), of which large clusters have several. A cluster that agrees
with another cluster on how two segments lie has less to say, since one cause may mislead both: it does in a share v of the
cases. More clusters that say so say nothing new. The first cluster between two segments agrees with nothing: it places them.

A right stretch of loop closures that a wrong link cuts in two makes two clusters, one that agrees with the chain and one that
places the rest, and they lie side by side. A wrong cluster may lie anywhere. So a placing cluster that goes on where one ends that
agrees with the chain counts 1/p more, p the share of all pairs of nodes that lie as near to these (v at least).

Edges of a believed cluster are right together: every place of it that does not fit is one in twenty. A chain that is bent a
little at every link reaches any place, so that residuals may count as well: a part of the excess of those of links, and of one for
every cell. Between two nodes at which believed loop closures end any link may be wrong, so that an explanation with breaks at
some of these stands for those with breaks at the others. The prior numbers are :class:`tempose.outliers.beliefs.Beliefs`, and the
score is computed there.

The search begins with the chain, what grows from it, the basins of :mod:`tempose.outliers.search.basin`, and random trees in which
clusters and links come in random order; the best are improved by believing or giving up one cluster or link at a time. Where a
link is given up, its neighbours are tried as well: which of them is the wrong one, nobody may be able to say. If links are trusted,
all of this is done with little, much and nearly full trust, whatever was asked for, and what was found is weighed by that: then the
answer changes with the trust only where the weights do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.model.robust import RobustLikelihood
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import lowered
from tempose.optimum.trees import tree_poses
from tempose.outliers.beliefs import (
    CONFIRMS,
    OF_CHAIN,
    PLACES,
    REPEATS,
    WRONG,
    Beliefs,
    Clues,
    Evidence,
    current_beliefs,
    log_odds,
    log_score,
)
from tempose.outliers.clusters import FEW, KINDS, Clusters
from tempose.outliers.correlation import Projection
from tempose.outliers.drift import Ties
from tempose.outliers.noise import FEWEST_SPARE
from tempose.outliers.search import votes
from tempose.outliers.search.ladders import ladder_noise
from tempose.outliers.search.triangles import CHI_MEDIAN, HalfEdges, triangles
from tempose.outliers.search.votes import Narrow
from tempose.outliers.sequence import Sequence

_TAIL = 4.0  # ν of the core, as in growth
_MUCH_WIDER = 4.0  # times the noise that triangles show
_NARROWER, _WIDER = 1.5, 2.0  # times the noise that ladders show, at most
_FITS = 9.0  # energy per number up to which an edge fits: three σ in every direction
_TREES, _FEW_TREES = 40, 10  # random ones, in a search and in a survey
_MOST_CLOSED = 40  # clusters, the largest, that a survey believes or gives up one by one
_ALL_CLOSED = 200_000  # nodes in a sweep of these together: beyond, fewer clusters, and one start
# chosen on: 3DMatch scenes (office1, hotel_uc), simulated look-alikes of seeds 9400 to 9423 with odometry .99
_SETTLED = 99.0  # odds of a link up to which trust does not hold poses while they settle
_SURE = 1e-12
_RUNGS = (0.9, 0.999, 0.999999)  # trust in links with which explanations are searched for: log odds of 2, 7 and 14
_POOLED = 60  # of each of these, weighed by the trust that is asked for
_IMPROVED = 3  # starts that are improved
_SWEEPS = 2
_STEPS, _LITTLE = 6, 1e-3  # of Newton's method, to close loops, and nats that a further one has to gain
_CLEARLY = 0.5  # of the energy up to which an edge fits: it certainly does
_ROUNDS, _GAIN = 10, 0.01  # of varying the best again, as long as that gains so many nats
_SHIFTED = 12  # explanations whose breaks are shifted
_MOST_VARIED = 2000  # explanations that are looked at because their breaks are elsewhere
_MOST_DOUBTED = 500  # explanations whose clusters are doubted
_LESS, _MUCH_LESS = (
    3.0,
    7.0,
)  # nats, of an explanation whose other breaks are not shifted, and of one that is not followed
_NOTHING = 50.0  # nats, by which an explanation falls short that does not count, whatever it stands for
_CONSIDERED = 1e-4  # probability below which an explanation does not count
LARGEST = 400
"""Nodes: beyond, explanations are not searched for."""
_MOST_CLUSTERS = 300  # of two edges and more
_LINKS_OF_LONG_WAYS = (9.0, 1.0)  # right and wrong links that were seen before, as in fits of graphs of over 400 nodes

Breaks = tuple[bytes, tuple[int, ...]]
"""Clusters that are believed, and how many links are given up in each stretch between nodes at which these end."""


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


@dataclass(frozen=True, eq=False)
class Candidates:
    """All that were found, the most probable first.

    Attributes
    ----------
    probability
        Of each (k,).
    prior
        Share of right ones of each kind of cluster (3,) and of links.
    breaks
        What each believes, and in which stretches of the chain it gives links up: the same for those that differ only in which link
        of a stretch is the wrong one.
    """

    clusters: Clusters
    found: tuple[Candidate, ...]
    probability: Array
    prior: tuple[float, ...]
    breaks: tuple[Breaks, ...]

    def right(self, k: int) -> Array:
        """Which edges (m,) are right if explanation k is true and they fit its poses: 1, or 0 where it doubts them."""
        return self.clusters.spread(1.0 - self.found[k].doubted, 1.0)

    def inlier_probability(self) -> Array:
        """Probability (m,) that each edge is right, over all explanations, by which of them it fits."""
        return np.asarray(sum(p * self.found[k].fits for k, p in enumerate(self.probability.tolist())))


class ExplanationSearch:
    """The search: scores explanations and looks for better ones."""

    def __init__(
        self, sequence: Sequence, own: Array, rng: np.random.Generator, beliefs: Beliefs | None = None
    ) -> None:
        """``own``: prior inlier probabilities (m,) of edges that have one of their own, NaN for the others."""
        self.sequence, self.own, self.rng = sequence, own, rng
        self.beliefs = beliefs or current_beliefs()
        if self._is_long:
            self.beliefs = replace(self.beliefs, links=_LINKS_OF_LONG_WAYS, worlds=self.beliefs.worlds[:1])
        halves = HalfEdges.of(sequence.graph)
        shown = triangles(sequence.graph, halves)
        self._halves, self._many_triangles = halves, shown.n_triangles > sequence.graph.n_edges
        self._shown: tuple[float, float] | None = None
        self.set_level(shown.sigma_rot, shown.sigma_trans)
        self.prior = self.beliefs.shares()

    def _settling(self) -> Array:
        """Prior inlier probabilities (m,) with which poses settle: even odds, and of links what they are trusted beyond 99:1.

        Loop closures that repeat each other are many to settle on and count as one; with less trust than this wrong links
        would hold poses.
        """
        odds = np.where(self.sequence.is_link, self.own / np.maximum(1.0 - self.own, _SURE) / _SETTLED, 1.0)
        odds = np.where(np.isnan(odds), 1.0, odds)
        return np.maximum(odds / (1.0 + odds), 0.5)

    def set_level(self, sigma_rot: float, sigma_trans: float) -> None:
        """Begin anew at this noise of an edge, σ per axis in radians and length."""
        graph = self.sequence.graph
        self.sigma_rot, self.sigma_trans = sigma_rot, sigma_trans
        self.level = Narrow.of(graph, self._halves, sigma_rot, sigma_trans, self._settling())
        self.clusters = Clusters.of(self.sequence, self.sequence.chain_poses, sigma_rot, sigma_trans)
        self.found: dict[bytes, Candidate] = {}
        self._varied: dict[tuple[str, bytes], Candidate] = {}
        self._limit = _largest_energy(self.level.freedom, np.where(self.sequence.is_link, self.own, np.nan))
        likelihood = RobustLikelihood.of(graph, 0.5)
        narrower = np.log(np.array(graph.median_sigmas) / (sigma_rot, sigma_trans))
        turns, moves = graph.ranks
        gain = likelihood.log_inlier - likelihood.log_outlier + turns * narrower[0] + moves * narrower[1]
        self.ties = Ties.of(self.clusters, gain, sigma_rot, sigma_trans, self._is_long)
        self.clues = Clues(self.clusters.kind, self._own_odds(), self.own[self._links])

    @property
    def _is_long(self) -> bool:
        return self.sequence.graph.n_nodes > LARGEST

    @property
    def is_feasible(self) -> bool:
        """Whether it takes seconds, not minutes."""
        return not self._is_long and int(np.sum(self.clusters.size > 1)) <= _MOST_CLUSTERS

    def run(self, starts: Iterable[Poses], factor: float | None = None) -> Candidates:
        """Search from poses, the chain and random trees; twice, the second time at the noise that the first showed.

        If links are trusted that is repeated with more trust, and all that was found is weighed by the trust that was asked for.

        ``factor`` is that of the stated noise to begin with, where there are too few triangles to tell it.
        """
        self._begin(factor)
        given, asked, rungs = [self.sequence.chain_poses, *starts], self.own, self._rungs()
        self._trust(rungs[0])
        self._look_everywhere(given)
        given += [one.poses for one in self._best(_IMPROVED)]
        self.set_level(*self._shown_level(self._best(1)[0]))
        self._look_everywhere(given)
        pool: list[tuple[Array, Poses]] = []
        for own in rungs[1:]:
            pool += self._pooled()
            self._trust(own)
            self._look_everywhere([*given, *(poses for _, poses in pool[:_IMPROVED])])
        if rungs[-1] is not asked:
            pool += self._pooled()
            self._trust(asked)
            self._look_at(pool)
        return self.candidates()

    @cached_property
    def trusted_alike(self) -> Mask:
        """Links (m,) that are trusted, if all of those that are trusted are trusted alike, and more than not; else none."""
        links = self.sequence.is_link & ~np.isnan(self.own)
        trust = self.own[links]
        return links if len(trust) and trust[0] > 0.5 and np.all(trust == trust[0]) else np.zeros_like(links)

    def _rungs(self) -> list[Array]:
        """Prior inlier probabilities (m,) to search with, one after the other.

        Links that are trusted alike are trusted more and more, whatever was asked for: what is found does not depend on that, only
        how it is weighed. Else they are as given.
        """
        links = self.trusted_alike
        return [np.where(links, rung, self.own) for rung in _RUNGS] if np.any(links) else [self.own]

    def _trust(self, own: Array) -> None:
        """Begin anew with these prior inlier probabilities (m,), at the same noise."""
        self.own = own
        self.set_level(self.sigma_rot, self.sigma_trans)

    def _look_everywhere(self, given: list[Poses]) -> None:
        """Begin with poses and random trees, improve the best, and vary them."""
        self._look_around(given, _TREES)
        starts = self._best_of_each(_IMPROVED)
        for start in dict.fromkeys([*starts, *self._credulous()]):
            self._improve(start)
        self._vary_on()

    def _vary_on(self) -> None:
        """Vary the best as long as that gains."""
        self._vary(_SHIFTED)
        for _ in range(_ROUNDS):
            before = self._best(1)[0].log_score
            self._vary(_IMPROVED)
            if self._best(1)[0].log_score < before + _GAIN:
                break

    def _pooled(self) -> list[tuple[Array, Poses]]:
        """Poses of the best that differ in what they believe, with what they have settled with."""
        settled = self._settling()
        return [(settled, one.poses) for one in self._best_of_each(_POOLED)]

    def _look_at(self, pool: list[tuple[Array, Poses]]) -> None:
        """What others have found, weighed by the present trust, and varied.

        Poses that bend trusted links, because they have settled with less trust than there is now, have to settle again.
        """
        here = self._settling()
        for _, poses in pool:
            self._keep(self.explanation(poses))
        best = self._best_of_each(_POOLED)
        self.found = {}
        for settled, poses in pool:
            one = self.explanation(poses)
            if one.evidence.bent == 0.0 or np.all(settled >= here):
                self._keep(one)
        for one in best:
            self._consider(one.poses)
        self._vary_on()

    def survey(self, starts: Iterable[Poses], factor: float | None = None) -> Candidate:
        """The best of what :meth:`run` begins with, for graphs in which it would take minutes."""
        self._begin(factor)
        given, is_large = [self.sequence.chain_poses, *starts], _MOST_CLOSED * self.sequence.graph.n_nodes > _ALL_CLOSED
        for again in range(2):
            self._look_around(given, _FEW_TREES)
            for one in self._best_of_each(1 if again or is_large else _IMPROVED):
                self._close(one)
            if not again:
                given += [one.poses for one in self._best(_IMPROVED)]
                self.set_level(*self._shown_level(self._best(1)[0]))
        return self._best(1)[0]

    def _begin(self, factor: float | None) -> None:
        """At the noise that ladders of the chain show, or at this factor of the stated one, unless triangles have told it."""
        if self._many_triangles:
            return
        shown = ladder_noise(self.sequence, FEWEST_SPARE)
        stated_rot, stated_trans = self.sequence.graph.median_sigmas
        if shown is not None:
            self._shown = shown
            self.set_level(*shown)
        elif factor is not None and factor * stated_rot < _MUCH_WIDER * self.sigma_rot:  # else growth has drowned
            self.set_level(factor * stated_rot, factor * stated_trans)  # what contradicts in noise

    def _look_around(self, given: list[Poses], trees: int) -> None:
        for poses in given:
            self._consider(poses)
        for _ in range(trees):
            self._try(self._random_weights())

    # ------------------------------------------------------------------ scores

    @cached_property
    def _links(self) -> Index:
        return np.flatnonzero(self.sequence.is_link)

    def _link_odds(self) -> Array:
        """Log odds (m,) of links being right."""
        return log_odds(np.where(np.isnan(self.own), self.prior[3], self.own))

    def _own_odds(self) -> Array:
        """Log odds of clusters whose edges have probabilities of their own, their mean; NaN for the others."""
        known = ~np.isnan(self.own)
        share = self.clusters.mean(known.astype(float))
        with np.errstate(invalid="ignore"):
            return self.clusters.mean(np.where(known, log_odds(np.where(known, self.own, 0.5)), 0.0)) / np.where(
                share > 0.0, share, np.nan
            )

    def _cluster_odds(self) -> Array:
        """Log odds of clusters being right: those of their own, or of their kind."""
        own = self.clues.own
        return np.where(np.isfinite(own), own, log_odds(self.prior[self.clusters.kind]))

    def explanation(self, poses: Poses, doubted: Mask | None = None) -> Candidate:
        """What poses that have settled say, and its score; ``doubted`` clusters are wrong in spite of it."""
        doubted = np.zeros(self.clusters.count, dtype=bool) if doubted is None else doubted
        energy = self.level.energies(poses)[0]
        fits = (energy < self._limit) & ~self.clusters.spread(doubted, False)
        made, unconfirmed, cells = self._made_of(fits)
        evidence = replace(made, misfit=self._misfit(energy, fits, cells), bent=self._bent(energy, fits))
        score = log_score(self.clues, evidence, self.beliefs)
        given_up = self._links[evidence.given_up]
        return Candidate(poses, fits, evidence.role != WRONG, unconfirmed, doubted, given_up, evidence, score)

    def log_score_of(self, fits: Mask) -> float:
        """Score of the edges (m,) that somebody keeps: how many mistakes that makes of the others, not how well they fit."""
        return log_score(self.clues, self._made_of(fits)[0], self.beliefs)

    def _made_of(self, fits: Mask) -> tuple[Evidence, Mask, Mask]:
        """Evidence of edges (m,) that fit, but for residuals; believed clusters that nothing confirms; believed cells that fit."""
        sequence, clusters = self.sequence, self.clusters
        believed = clusters.accepted(fits)
        segment = sequence.segments(fits)
        held = np.zeros(sequence.graph.n_nodes, dtype=bool)  # links with a parallel one that fits are not given up
        held[sequence.later[sequence.is_link & fits]] = True
        given_up = ~fits[self._links] & ~held[sequence.later[self._links]]
        within, joins = self._joins(believed, fits, segment)
        placing, confirming, alone = _confirmations(int(segment.max()) + 1, within, joins, self._cluster_odds())
        unconfirmed = np.zeros(clusters.count, dtype=bool)
        unconfirmed[sorted(alone)] = True
        role = np.where(believed, REPEATS, WRONG)
        role[sorted(placing)], role[sorted(confirming)], role[sorted(within)] = PLACES, CONFIRMS, OF_CHAIN
        chained = fits & (segment[sequence.earlier] == segment[sequence.later])
        of_cell = clusters.cell_mean(clusters.spread(believed, False).astype(float)) > 0.5
        agreeing = of_cell & (clusters.cell_mean(chained.astype(float)) > 0.5)
        fitting = clusters.cell_mean(fits.astype(float)) >= 0.5
        splits = int(np.sum(of_cell & ~fitting & (clusters.cell_size > 1)))
        chance = self._going_on(role, fits) if placing and not self._is_long else ()  # drift cuts stretches, too
        v, near = self.ties.among(agreeing, segment)
        evidence = Evidence(role, given_up, v, near, splits, bends=self.ties.bends(agreeing), chance=chance)
        return evidence, unconfirmed, of_cell & fitting

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

    # ------------------------------------------------------------------ searching

    def _consider(self, poses: Poses) -> Candidate:
        """Let poses settle, and keep what they say."""
        wide = votes.settle(self.level.narrowed(3.0), poses, iterations=8).poses
        one = self.explanation(votes.settle(self.level.narrowed(1.5), wide, iterations=15).poses)
        return self._keep(one)

    def _try(self, weights: Array) -> Candidate:
        graph = self.sequence.graph
        return self._consider(tree_poses(graph, graph.spanning_tree(weights)))

    def _credulous(self) -> list[Candidate]:
        """What believes all clusters of several edges, or of many, and gives up the links that these contradict.

        Where several links are wrong, to believe one cluster more, or to give one link up, gains nothing: it takes all of them.
        """
        size, found = self.clusters.size, []
        for fewest in (2, FEW):
            believed = size >= fewest
            weights = self._weights(believed, np.zeros(0, dtype=np.int64))
            found.append(self._try(np.where(self.clusters.spread(believed, False), weights + 20.0, weights)))
        return found

    def _random_weights(self) -> Array:
        """Of the edges in a random tree: clusters and links come in an order that follows their odds."""
        clusters, rng = self.clusters, self.rng
        of_cluster = self._cluster_odds() + 0.3 * np.log(clusters.size) + 2.0 * rng.gumbel(size=clusters.count)
        links = np.minimum(self._link_odds(), 6.0) + 2.0 + rng.gumbel(size=len(self.own))
        return clusters.spread(of_cluster, links) + 0.01 * rng.random(len(self.own))

    def _weights(self, believed: Mask, given_up: Index) -> Array:
        """Of the edges in a tree that follows an explanation.

        Where something has to break, it is the link that the fewest believed places lie across.
        """
        clusters = self.clusters
        across = self._across(believed)
        weights = clusters.spread(
            np.where(believed, 4.0, -10.0) + 0.3 * np.log(clusters.size), 8.0 + across / (1.0 + across.max(initial=0))
        )
        weights[given_up] = -12.0
        return weights

    def _across(self, believed: Mask) -> Index:
        """How many places of believed clusters each link (m,) lies between; 0 for other edges."""
        sequence, cell = self.sequence, self.clusters.cell
        rank, n = sequence.rank, sequence.graph.n_nodes
        edges = np.flatnonzero(self.clusters.spread(believed, False))
        edges = edges[np.unique(cell[edges], return_index=True)[1]]
        change = np.bincount(rank[sequence.earlier[edges]], minlength=n) - np.bincount(
            rank[sequence.later[edges]], minlength=n
        )
        spanning = np.cumsum(change)  # of the step from each rank to the next
        return np.where(sequence.is_link, spanning[rank[sequence.earlier]], 0)

    def _improve(self, start: Candidate) -> None:
        """Believe or give up one cluster or link at a time, as long as that is more probable."""
        best = start
        for _ in range(_SWEEPS):
            before = best
            for c in self.rng.permutation(np.flatnonzero(self.clusters.size > 1)).tolist():
                weights = self._weights(best.believed, best.given_up)
                weights[self.clusters.members[c]] = -20.0 if best.believed[c] else 20.0
                best = max(best, self._try(weights), key=lambda one: one.log_score)
            for link in best.given_up.tolist():
                weights = self._weights(best.believed, np.setdiff1d(best.given_up, [link]))
                weights[link] = 20.0
                best = max(best, self._try(weights), key=lambda one: one.log_score)
            if best is before:
                break

    def _close(self, start: Candidate) -> None:
        """Believe or give up one cluster at a time, and close what is believed by least squares, as long as that is more probable.

        On long ways drift is many times what an edge that fits may miss by: no tree closes a loop, and nothing draws it together.
        """
        best, clusters, graph = start, self.clusters, self.sequence.graph
        largest = np.argsort(-clusters.size, kind="stable")[: min(_MOST_CLOSED, _ALL_CLOSED // graph.n_nodes)]
        largest = largest[clusters.size[largest] > 1]
        closed, idle = None, np.zeros(clusters.count, dtype=bool)  # what would not change this one
        for _ in range(_SWEEPS):
            before = best
            for c in self.rng.permutation(largest).tolist():
                if closed is not best:
                    closed, idle = best, self._held_by_others(best, largest)
                if idle[c]:
                    continue
                idle[c] = True
                believed = best.believed.copy()
                believed[c] = ~believed[c]
                poses = self._least_squares(best, believed)
                if poses is not None:
                    best = max(best, self._consider(poses), key=lambda one: one.log_score)
            if best is before:
                break

    def _least_squares(self, one: Candidate, believed: Mask) -> Poses | None:
        """Poses that close what is believed, from those of an explanation and without the links that it gives up."""
        kept = self.sequence.graph.with_edges(self._kept(one, believed))
        if kept.n_components != self.sequence.graph.n_components:
            return None
        return lowered(Curvature(Posterior(kept)), one.poses, max_steps=_STEPS, least_gain=_LITTLE)

    def _kept(self, one: Candidate, believed: Mask) -> Mask:
        """Edges (m,) of what is believed and of the links that an explanation does not give up."""
        edges = self.clusters.spread(believed, True)
        edges[one.given_up] = False
        return edges

    def _held_by_others(self, one: Candidate, among: Index) -> Mask:
        """Clusters, of some, that an explanation believes and that would fit if nobody believed them.

        To give such a cluster up changes nothing: where all the others lead it fits again. The residuals r of its edges without
        them are, to first order, ``(I − S)⁻¹ r``, S the whitened covariance of what they measure in the least squares of all. None
        if links are given up, or if the least squares of all that is believed says something else.
        """
        clusters, out = self.clusters, np.zeros(self.clusters.count, dtype=bool)
        poses = None if len(one.given_up) else self._least_squares(one, one.believed)
        if poses is None or self.explanation(poses).key != one.key:
            return out
        edges = self._kept(one, one.believed)
        graph, row = self.sequence.graph.with_edges(edges), np.cumsum(edges) - 1
        found = Projection.at(graph, poses, np.ones(graph.n_edges))
        if found is None:
            return out
        tried = among[one.believed[among]]
        members = np.concatenate([clusters.members[c] for c in tried.tolist()]) if len(tried) else np.zeros(0, np.int64)
        group = np.repeat(np.arange(len(tried)), clusters.size[tried])
        narrower = np.repeat(np.array(graph.median_sigmas) / (self.sigma_rot, self.sigma_trans), 3)
        left = found.without(row[members], group) * narrower
        fits = 0.5 * np.sum(left**2, axis=1) < _CLEARLY * self._limit[members]
        out[tried] = np.bincount(group, fits, len(tried)) > 0.5 * clusters.size[tried]
        return out

    def _vary(self, count: int) -> None:
        """Explanations that are about as probable as the best found: breaks elsewhere, what nothing confirms called wrong."""
        left = _MOST_VARIED
        for one in self._best_of_each(count):
            self._rejoin(one)
        for one in self._best_of_each(count):
            left = self._shift_breaks(one, left) if self._is_new("shifted", one) else left
        self._doubt()
        for one in self._best_of_each(count):  # others come first when clusters are doubted
            self._rejoin(one)
        self.prior = np.array(self.candidates().prior)

    def _rejoin(self, one: Candidate) -> None:
        """Put parts that nothing holds where a link or a cluster wants them, as long as that is more probable.

        Settling can leave a node where none of its edges fits: then no single edge draws it back.
        """
        sequence, graph = self.sequence, self.sequence.graph
        best = one
        while self._is_new("rejoined", best):
            part = graph.with_edges(best.fits).component
            apart = np.flatnonzero(part[graph.edge_i] != part[graph.edge_j])
            if len(apart) == 0:
                return
            says = np.where(sequence.is_link, -1 - np.arange(graph.n_edges), self.clusters.of_edge)[apart]
            size, wanted = np.bincount(part), sequence.displacements(best.poses)
            found = best
            for edge in apart[np.unique(says, return_index=True)[1]].tolist():
                ends = part[sequence.earlier[edge]], part[sequence.later[edge]]
                back = size[ends[0]] < size[ends[1]]  # the smaller one moves
                motion = wanted[0][edge : edge + 1], wanted[1][edge : edge + 1]
                moving = part == ends[0 if back else 1]
                wxyz, position = best.poses.wxyz.copy(), best.poses.position.copy()
                turned, position[moving] = se3.compose(
                    se3.inverse(motion) if back else motion, (wxyz[moving], position[moving])
                )
                wxyz[moving] = quat.normalize(turned)
                other = self._keep(self.explanation(Poses(best.poses.ids, wxyz, position), best.doubted))
                found = max(found, other, key=lambda each: each.log_score)
            if found is best:
                return
            best = found

    def _shift_breaks(self, one: Candidate, most: int = _MOST_VARIED) -> int:
        """Give up neighbours of the links that it gives up, as far as that is about as probable; all combinations of them.

        Between two places that loop closures hold, any link may be the wrong one. The nodes between go with the other segment. At
        most so many are looked at; what is left of that is returned.
        """
        shifted = [one]
        for link in one.given_up.tolist():
            for start in tuple(shifted):
                for found in self._shifted(start, link) if link in start.given_up and most > 0 else ():
                    most -= 1
                    if found.log_score > one.log_score - _LESS and len(found.given_up) == len(one.given_up):
                        shifted.append(found)
        return most

    def _shifted(self, one: Candidate, link: int) -> Iterator[Candidate]:
        """The same with the break at one link moved, step by step, to its neighbours."""
        sequence, order = self.sequence, np.argsort(self.sequence.rank)
        of_later = {int(sequence.rank[sequence.later[k]]): int(k) for k in self._links}
        first = int(sequence.rank[sequence.later[link]])  # the segment that begins there
        for step in (1, -1):
            wxyz, position = one.poses.wxyz.copy(), one.poses.position.copy()
            rank = first if step == 1 else first - 1  # the node that changes sides
            while 0 <= rank - step < len(order) and 0 < rank < len(order):
                edge = of_later.get(rank if step == 1 else rank + 1)
                if edge is None or of_later.get(rank + 1 if step == 1 else rank) is None:
                    break
                node, anchor = order[rank], order[rank - step]
                placed = se3.compose(
                    (wxyz[anchor], position[anchor]),
                    sequence.graph.measured(np.array([node]), np.array([anchor]), np.array([edge])),
                )
                wxyz[node], position[node] = quat.normalize(placed[0][0]), placed[1][0]
                found = self._keep(self.explanation(Poses(one.poses.ids, wxyz.copy(), position.copy())))
                if found.log_score < one.log_score - _MUCH_LESS:
                    break
                yield found
                rank += step

    def _doubt(self) -> None:
        """Consider that clusters are wrong which nothing confirms, and leave the parts that they place unplaced."""
        waiting = self._best(_MOST_DOUBTED)
        waiting = [one for one in waiting if one.log_score > waiting[0].log_score - _MUCH_LESS]
        seen = {(id(one.poses), one.doubted.tobytes()) for one in waiting}  # poses, and what is doubted of them
        for one in waiting:
            for c in np.flatnonzero(one.unconfirmed).tolist() if self._is_new("doubted", one) else ():
                doubted = one.doubted.copy()
                doubted[c] = True
                if (id(one.poses), doubted.tobytes()) in seen:
                    continue
                seen.add((id(one.poses), doubted.tobytes()))
                other = self.explanation(one.poses, doubted)
                if other.key not in self.found and len(waiting) < _MOST_DOUBTED:
                    waiting.append(other)
                self._keep(other)

    def _is_new(self, how: str, one: Candidate) -> bool:
        """Whether this has not been varied in such a way before: it is from now on."""
        known = self._varied.get((how, one.key))
        self._varied[how, one.key] = one
        return known is not one

    def _keep(self, one: Candidate) -> Candidate:
        known = self.found.get(one.key)
        if known is None or known.log_score < one.log_score:
            self.found[one.key] = one
        return one

    def _best(self, count: int) -> list[Candidate]:
        return sorted(self.found.values(), key=lambda one: -one.log_score)[:count]

    def _best_of_each(self, count: int) -> list[Candidate]:
        """The best candidates that differ in what they believe."""
        each: dict[bytes, Candidate] = {}
        for one in self._best(len(self.found)):
            each.setdefault(one.believed.tobytes() + len(one.given_up).to_bytes(8), one)
        return list(each.values())[:count]

    def _shown_level(self, one: Candidate) -> tuple[float, float]:
        """σ per axis, radians and length, that the residuals of the edges that fit show.

        If triangles told it, the median residual may only widen it: where every place is seen many times, edges that agree share
        their errors. Else it is the root mean square of what others check.
        """
        graph, level, fits = self.sequence.graph, self.level, one.fits
        turns = int(np.sum(graph.axes < 3))
        if self._many_triangles:
            left = residuals(graph, one.poses)
            turn = float(np.median(left.angle[fits])) / CHI_MEDIAN[turns]
            move = float(np.median(np.linalg.norm(left.translation[fits], axis=1))) / CHI_MEDIAN[graph.dimension]
            return max(self.sigma_rot, turn), max(self.sigma_trans, move)
        kept = graph.with_edges(fits)
        spare = kept.n_edges - (graph.n_nodes - kept.n_components)
        if spare * turns < FEWEST_SPARE:
            return self.sigma_rot, self.sigma_trans
        _, error, shift = level.energies(one.poses)
        turn = 2.0 * float((level.rot * np.sum(error**2, axis=1))[fits].sum()) / (spare * turns)
        move = 2.0 * float((level.trans * np.sum(shift**2, axis=1))[fits].sum()) / (spare * graph.dimension)
        found = self.sigma_rot * np.sqrt(turn), self.sigma_trans * np.sqrt(move)
        if self._shown is None:
            return found
        rot, trans = (
            float(np.clip(one, of / _NARROWER, of * _WIDER)) for one, of in zip(found, self._shown, strict=True)
        )
        return rot, trans

    def candidates(self, beliefs: Beliefs | None = None) -> Candidates:
        """All that were found and count, weighed by these beliefs; by default by those of the search."""
        beliefs = beliefs or self.beliefs
        scored = [
            (one.log_score if beliefs is self.beliefs else log_score(self.clues, one.evidence, beliefs), one)
            for one in self.found.values()
        ]
        scored.sort(key=lambda pair: -pair[0])
        scored = [pair for pair in scored if pair[0] > scored[0][0] - _NOTHING]
        weight = np.exp(np.array([score for score, _ in scored]) - scored[0][0])
        weight *= self._standing_for([one for _, one in scored])
        order = np.argsort(-weight, kind="stable")
        scored, probability = [scored[k] for k in order], weight[order] / weight.sum()
        kept = max(int(np.sum(probability > _CONSIDERED)), 1)
        found, probability = tuple(one for _, one in scored[:kept]), probability[:kept] / probability[:kept].sum()
        breaks = tuple(self._breaks(one)[0] for one in found)
        return Candidates(self.clusters, found, probability, self._shares(found, probability, beliefs), breaks)

    def _standing_for(self, found: list[Candidate]) -> Array:
        """How many explanations (k,) each of these stands for: the same, but for breaks at links that were not tried.

        Between two nodes at which believed loop closures end, any link may be the wrong one, and all are about as probable.
        """
        alike = [self._breaks(one) for one in found]
        tried = Counter(what for what, _ in alike)
        return np.array([max(count / tried[what], 1.0) for what, count in alike])

    def _breaks(self, one: Candidate) -> tuple[Breaks, int]:
        """What an explanation believes, and in which stretches it gives links up; in how many ways it can.

        Where it gives up several of a stretch, so that nothing holds what is between, only what was tried counts.
        """
        sequence = self.sequence
        ends = np.zeros(sequence.graph.n_nodes, dtype=bool)
        loops = self.clusters.spread(one.believed, False)  # also those that do not fit: a break beyond them is another
        ends[sequence.rank[sequence.earlier[loops]]] = ends[sequence.rank[sequence.later[loops]]] = True
        stretch = np.cumsum(ends)[sequence.rank[sequence.earlier[self._links]]]  # of every link
        size, broken = np.bincount(stretch), np.bincount(stretch[one.evidence.given_up])
        ways = math.prod(size[np.flatnonzero(broken == 1)].tolist())
        return (one.believed.tobytes(), tuple(broken.tolist())), ways

    def _shares(self, found: tuple[Candidate, ...], probability: Array, beliefs: Beliefs) -> tuple[float, ...]:
        """Mean share of right ones of each kind of cluster, and of links that nobody says how to trust."""
        believed = probability @ np.array([one.believed for one in found], dtype=float)
        kept = probability @ np.array([~one.evidence.given_up for one in found], dtype=float)
        free = np.isnan(self.clues.own_links)
        of = [believed[self.clusters.kind == k] for k in range(len(KINDS))] + [kept[free]]
        seen = np.array([(right.sum(), len(right) - right.sum()) for right in of])
        return tuple(beliefs.shares(seen[:-1], seen[-1]).tolist())


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
    n_segments: int, within: set[int], joins: dict[int, set[tuple[int, int]]], odds: Array
) -> tuple[set[int], set[int], set[int]]:
    """Clusters that place segments, that confirm how two lie, and that place some alone.

    Those that agree with the chain come first, then the likeliest. How two segments lie is confirmed once, however many
    clusters say it again: a part that is displaced as a whole takes them all with it.
    """
    order = sorted(joins, key=lambda c: (c not in within, -odds[c], c))
    part = np.arange(n_segments)
    placing, confirming = set(), set()
    confirmed: set[tuple[int, int]] = set()
    for c in order:
        pairs = {(min(i, j), max(i, j)) for i, j in joins[c]}
        new = [(i, j) for i, j in pairs if part[i] != part[j]]
        if c not in within:
            if new:
                placing.add(c)
            elif pairs - confirmed:
                confirming.add(c)
                confirmed |= pairs
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
