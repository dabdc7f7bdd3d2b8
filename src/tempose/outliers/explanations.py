r"""Explanations of a graph whose ids are an order in time: which links of the chain to give up, which loop closures to believe.

Wrong loop closures repeat each other: a place that looks like another is seen from many nodes, and all these edges agree. So
evidence is counted by what is independent, links of the chain and clusters of loop closures (:mod:`tempose.outliers.clusters`), not
by edges. An explanation x gives up some links and believes some clusters:

.. math::

    P(x) \propto \prod_{\text{links given up}} \frac{1 - P_l}{P_l} \prod_{\text{kinds}} \int
        (1 - \pi)^{\text{wrong}} \, \pi^{\text{placing}} \left(1 - \pi + \tfrac{\pi}{v}\right)^{\text{agree with others}}
        \left(1 - \pi + \pi e^{V}\right)^{\text{agree with the chain}} \mathrm{Beta}(\pi)\, d\pi .

Giving up a link costs its prior odds, once, however many clusters it explains. The share π of right clusters of a kind (one
edge, a few, many) is unknown and integrated out: where nearly all are right, calling one wrong costs more than where half are.
Links that nobody trusts are such a kind as well. Edges that agree with the unbroken chain between their ends do so by chance with
the probability :math:`e^{-V}`, V = log(c/o), the density of right measurements over that of wrong ones; that counts for every
place that is seen again, so the last product is over places (cells), of which large clusters have several. A cluster that agrees
with another cluster on how two segments lie has less to say, since one cause may mislead both: it does in a share v of the
cases. More clusters that say so say nothing new. The first cluster between two segments agrees with nothing: it places them.

Edges of a believed cluster are right together: every place of it that does not fit is one in twenty.

The search begins with the chain, what grows from it, the basins of :mod:`tempose.outliers.search.basin`, and random trees in which
clusters and links come in random order; the best are improved by believing or giving up one cluster or link at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from tempose._typing import Array, Index, Mask
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.model.robust import RobustLikelihood
from tempose.model.topology import components
from tempose.optimum.trees import tree_poses
from tempose.outliers.clusters import KINDS, Clusters
from tempose.outliers.search import votes
from tempose.outliers.search.triangles import CHI_MEDIAN, HalfEdges, triangles
from tempose.outliers.search.votes import Narrow
from tempose.outliers.sequence import Sequence

# chosen on: 3DMatch, all seven scenes: 1/7, a first guess, was better than 0.07 and 0.02
_ALIKE = 1.0 / 7.0  # v: how often one wrong cluster agrees with another, and with a wrong link near it
# chosen on: 3DMatch, all seven scenes: first guesses, which were not changed
_BEFOREHAND = ((1.0, 9.0), (1.0, 2.0), (1.5, 1.0))
"""Right and wrong clusters of each kind that were seen before: Beta priors of π."""
_LINKS_BEFOREHAND = (9.0, 1.0)
"""The same of links that nobody says how to trust."""
# chosen on: 3DMatch, all seven scenes: a first guess, kept because office1 and redkitchen came right
_SPLIT = -math.log(19.0)  # of a place that does not fit although its cluster is believed: one in twenty
_NEAR = 6  # links whose mistake a loop closure may share
_FITS = 9.0  # energy per number up to which an edge fits: three σ in every direction
_TREES = 40  # random ones
_IMPROVED = 3  # starts that are improved
_SWEEPS = 2
_CONSIDERED = 1e-4  # probability below which an explanation does not count
_WRONG, _PLACES, _CONFIRMS, _OF_CHAIN, _REPEATS = range(5)  # roles of clusters
_PI = (np.arange(400) + 0.5) / 400.0  # midpoints, of the integral over the share of right clusters
_LOG_PI, _LOG_1_PI = np.log(_PI), np.log1p(-_PI)
_LOG_ROLE = np.stack([_LOG_1_PI, _LOG_PI, np.log(1.0 - _PI + _PI / _ALIKE), _LOG_PI, 0.0 * _PI])
LARGEST = 400
"""Nodes: beyond, explanations are not searched for."""
_MOST_CLUSTERS = 300  # of two edges and more


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
    given_up
        Links of the chain that it calls wrong.
    log_score
        log P, up to a constant.
    """

    poses: Poses
    fits: Mask
    believed: Mask
    unconfirmed: Mask
    given_up: Index
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
    """

    clusters: Clusters
    found: tuple[Candidate, ...]
    probability: Array
    prior: tuple[float, ...]

    def right(self, k: int) -> Array:
        """Probability (m,) that an edge which fits explanation k is right, if k is true: less than 1 where nothing confirms it."""
        one = self.found[k]
        alone = np.where(one.unconfirmed, np.asarray(self.prior)[self.clusters.kind], 1.0)
        return self.clusters.spread(alone, 1.0)


class ExplanationSearch:
    """The search: scores explanations and looks for better ones."""

    def __init__(self, sequence: Sequence, own: Array, rng: np.random.Generator) -> None:
        """``own``: prior inlier probabilities (m,) of edges that have one of their own, NaN for the others."""
        self.sequence, self.own, self.rng = sequence, own, rng
        halves = HalfEdges.of(sequence.graph)
        shown = triangles(sequence.graph, halves)
        self._halves = halves
        self._set_level(shown.sigma_rot, shown.sigma_trans)
        self.prior = np.array([a / (a + b) for a, b in (*_BEFOREHAND, _LINKS_BEFOREHAND)])

    def _set_level(self, sigma_rot: float, sigma_trans: float) -> None:
        graph = self.sequence.graph
        self.sigma_rot, self.sigma_trans = sigma_rot, sigma_trans
        self.level = Narrow.of(graph, self._halves, sigma_rot, sigma_trans)
        self.clusters = Clusters.of(self.sequence, self.sequence.chain_poses, sigma_rot, sigma_trans)
        self.found: dict[bytes, Candidate] = {}
        self.__dict__.pop("_own_odds", None)
        likelihood = RobustLikelihood.of(graph, 0.5)
        narrower = np.log(np.array(graph.median_sigmas) / (sigma_rot, sigma_trans))
        turns, moves = graph.ranks
        gain = likelihood.log_inlier - likelihood.log_outlier + turns * narrower[0] + moves * narrower[1]
        # by chance, or because a link was misled by the same cause
        doubt = -np.expm1(np.minimum(self.sequence.gap, _NEAR) * math.log(self._link_probability()))
        by_chance = np.logaddexp(-(gain - 0.5 * (turns + moves)), np.log(_ALIKE * doubt))
        self.agreement = np.maximum(-self.clusters.cell_mean(by_chance), 0.0)

    def _link_probability(self) -> float:
        """Of a typical link being right, beforehand."""
        own = self.own[self.sequence.is_link]
        known = own[~np.isnan(own)]
        a, b = _LINKS_BEFOREHAND
        return float(np.clip(np.median(known), 0.01, 1.0 - 1e-9)) if len(known) else a / (a + b)

    @property
    def is_feasible(self) -> bool:
        """Whether it takes seconds, not minutes."""
        return self.sequence.graph.n_nodes <= LARGEST and int(np.sum(self.clusters.size > 1)) <= _MOST_CLUSTERS

    def run(self, starts: Iterable[Poses]) -> Candidates:
        """Search from poses, the chain and random trees; twice, the second time at the noise that the first showed."""
        given = [self.sequence.chain_poses, *starts]
        for again in range(2):
            for poses in given:
                self._consider(poses)
            for _ in range(_TREES):
                self._try(self._random_weights())
            for start in self._best(_IMPROVED):
                self._improve(start)
            self._estimate()
            if not again:
                given += [one.poses for one in self._best(_IMPROVED)]
                self._set_level(*_widened((self.sigma_rot, self.sigma_trans), self.sequence, self._best(1)[0]))
        return self._all()

    # ------------------------------------------------------------------ scores

    @cached_property
    def _links(self) -> Index:
        return np.flatnonzero(self.sequence.is_link)

    def _link_odds(self) -> Array:
        """Log odds (m,) of links being right."""
        return _log_odds(np.where(np.isnan(self.own), self.prior[3], self.own))

    @cached_property
    def _own_odds(self) -> Array:
        """Log odds of clusters whose edges have probabilities of their own, their mean; NaN for the others."""
        known = ~np.isnan(self.own)
        share = self.clusters.mean(known.astype(float))
        with np.errstate(invalid="ignore"):
            return self.clusters.mean(np.where(known, _log_odds(np.where(known, self.own, 0.5)), 0.0)) / np.where(
                share > 0.0, share, np.nan
            )

    def _cluster_odds(self) -> Array:
        """Log odds of clusters being right: those of their own, or of their kind."""
        own = self._own_odds
        return np.where(np.isfinite(own), own, _log_odds(self.prior[self.clusters.kind]))

    def explanation(self, poses: Poses) -> Candidate:
        """What poses that have settled say, and its score."""
        sequence, clusters = self.sequence, self.clusters
        fits = self.level.energies(poses)[0] < _FITS * self.level.freedom
        believed = clusters.accepted(fits)
        segment = sequence.segments(fits)
        held = np.zeros(sequence.graph.n_nodes, dtype=bool)  # links with a parallel one that fits are not given up
        held[sequence.later[sequence.is_link & fits]] = True
        given_up = np.array([k for k in self._links if not fits[k] and not held[sequence.later[k]]], dtype=np.int64)
        within, joins = self._joins(believed, fits, segment)
        placing, confirming, alone = _confirmations(int(segment.max()) + 1, within, joins, self._cluster_odds())
        unconfirmed = np.zeros(clusters.count, dtype=bool)
        unconfirmed[sorted(alone)] = True
        role = np.where(believed, _REPEATS, _WRONG)
        role[sorted(placing)], role[sorted(confirming)], role[sorted(within)] = _PLACES, _CONFIRMS, _OF_CHAIN
        chained = fits & (segment[sequence.earlier] == segment[sequence.later])
        agreeing = clusters.cell_mean(chained.astype(float)) > 0.5
        of_cell = clusters.cell_mean(clusters.spread(believed, False).astype(float)) > 0.5
        split = of_cell & (clusters.cell_mean(fits.astype(float)) < 0.5) & (clusters.cell_size > 1)
        score = self._log_score(role, given_up) + float(self.agreement[agreeing].sum()) + _SPLIT * int(split.sum())
        return Candidate(poses, fits, believed, unconfirmed, given_up, score)

    def _log_score(self, role: Index, given_up: Index) -> float:
        """Logarithm of P of an explanation in which the clusters have these roles, and these links are given up."""
        own, total = self._own_odds, 0.0
        free = ~np.isfinite(own)
        for k, (a, b) in enumerate(_BEFOREHAND):
            here = free & (self.clusters.kind == k)
            counts = np.bincount(role[here], minlength=5)
            inside = counts @ _LOG_ROLE + (a - 1.0) * _LOG_PI + (b - 1.0) * _LOG_1_PI
            total += float(special.logsumexp(inside)) - math.log(len(_PI)) - float(special.betaln(a, b))
        known = np.flatnonzero(~free)
        pi = special.expit(own[known])
        of_role = np.stack([1.0 - pi, pi, 1.0 - pi + pi / _ALIKE, pi, np.ones_like(pi)], axis=0)
        total += float(np.log(of_role[role[known], np.arange(len(known))]).sum())
        trusted = ~np.isnan(self.own[given_up])
        total -= float(_log_odds(self.own[given_up][trusted]).sum())
        free_links = int(np.sum(np.isnan(self.own[self._links])))
        lost = int(np.sum(~trusted))
        return total + _log_share(free_links - lost, lost, *_LINKS_BEFOREHAND)

    def _joins(self, believed: Mask, fits: Mask, segment: Index) -> tuple[set[int], dict[int, set[tuple[int, int]]]]:
        """Believed clusters that lie mostly within segments; and which segments each one joins."""
        within, joins = set(), {}
        for c in np.flatnonzero(believed).tolist():
            edges = self.clusters.members[c]
            edges = edges[fits[edges]]
            a, b = segment[self.sequence.earlier[edges]], segment[self.sequence.later[edges]]
            if np.mean(a == b) > 0.5:
                within.add(c)
            joins[c] = {(int(i), int(j)) for i, j in zip(a, b, strict=True) if i != j}
        return within, joins

    # ------------------------------------------------------------------ searching

    def _consider(self, poses: Poses) -> Candidate:
        """Let poses settle, and keep what they say."""
        wide = votes.settle(self.level.narrowed(3.0), poses, iterations=8).poses
        one = self.explanation(votes.settle(self.level.narrowed(1.5), wide, iterations=15).poses)
        known = self.found.get(one.key)
        if known is None or known.log_score < one.log_score:
            self.found[one.key] = one
        return one

    def _try(self, weights: Array) -> Candidate:
        graph = self.sequence.graph
        return self._consider(tree_poses(graph, graph.spanning_tree(weights)))

    def _random_weights(self) -> Array:
        """Of the edges in a random tree: clusters and links come in an order that follows their odds."""
        clusters, rng = self.clusters, self.rng
        of_cluster = self._cluster_odds() + 0.3 * np.log(clusters.size) + 2.0 * rng.gumbel(size=clusters.count)
        links = np.minimum(self._link_odds(), 6.0) + 2.0 + rng.gumbel(size=len(self.own))
        return clusters.spread(of_cluster, links) + 0.01 * rng.random(len(self.own))

    def _weights(self, believed: Mask, given_up: Index) -> Array:
        """Of the edges in a tree that follows an explanation."""
        clusters = self.clusters
        weights = clusters.spread(np.where(believed, 4.0, -10.0) + 0.3 * np.log(clusters.size), 8.0)
        weights[given_up] = -12.0
        return weights

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

    def _best(self, count: int) -> list[Candidate]:
        return sorted(self.found.values(), key=lambda one: -one.log_score)[:count]

    def _estimate(self) -> None:
        """π of each kind, and that of links, from what is believed."""
        found, probability = self._weighted()
        believed = probability @ np.array([one.believed for one in found], dtype=float)
        kind = self.clusters.kind
        free = np.isnan(self.own[self._links])
        up = np.array([np.isin(self._links, one.given_up) for one in found])
        kept = probability @ (1.0 - up)
        for k in range(len(KINDS)):
            a, b = _BEFOREHAND[k]
            self.prior[k] = (believed[kind == k].sum() + a) / (np.sum(kind == k) + a + b)
        a, b = _LINKS_BEFOREHAND
        self.prior[3] = (kept[free].sum() + a) / (free.sum() + a + b)

    def _weighted(self) -> tuple[list[Candidate], Array]:
        found = self._best(len(self.found))
        score = np.array([one.log_score for one in found])
        weight = np.exp(score - score.max())
        return found, weight / weight.sum()

    def _all(self) -> Candidates:
        found, probability = self._weighted()
        kept = max(int(np.sum(probability > _CONSIDERED)), 1)
        probability = probability[:kept] / probability[:kept].sum()
        return Candidates(self.clusters, tuple(found[:kept]), probability, tuple(self.prior.tolist()))


def _widened(sigmas: tuple[float, float], sequence: Sequence, one: Candidate) -> tuple[float, float]:
    """σ per axis, radians and length: that of the median residual of the edges that fit, if that is larger."""
    graph, left = sequence.graph, residuals(sequence.graph, one.poses)
    turn = float(np.median(left.angle[one.fits])) / CHI_MEDIAN[int(np.sum(graph.axes < 3))]
    move = float(np.median(np.linalg.norm(left.translation[one.fits], axis=1))) / CHI_MEDIAN[graph.dimension]
    return max(sigmas[0], turn), max(sigmas[1], move)


def _log_odds(probability: Array) -> Array:
    p = np.clip(probability, 1e-12, 1.0 - 1e-12)
    return np.asarray(np.log(p) - np.log1p(-p))


def _log_share(right: int, wrong: int, a: float, b: float) -> float:
    """Logarithm of the probability of certain ones being right and others wrong, their share integrated out."""
    return float(special.betaln(a + right, b + wrong) - special.betaln(a, b))


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
    alone = set()
    for c in placing:
        rest = [pair for other in order if other != c for pair in joins[other]]
        apart = components(n_segments, *np.array(rest, dtype=np.int64).reshape(-1, 2).T)
        if any(apart[i] != apart[j] for i, j in joins[c]):
            alone.add(c)
    return placing, confirming, alone
