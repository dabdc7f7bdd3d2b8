"""The search for explanations of a graph whose ids are an order in time (:mod:`tempose.outliers.reading` says what they are).

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
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import lowered
from tempose.optimum.trees import tree_poses
from tempose.outliers.agreement import worth_of_clusters
from tempose.outliers.beliefs import OF_CHAIN, Beliefs, current_beliefs, log_odds, log_score
from tempose.outliers.clusters import FEW, KINDS, Clusters
from tempose.outliers.correlation import Projection
from tempose.outliers.noise import FEWEST_SPARE
from tempose.outliers.reading import Candidate, Reader
from tempose.outliers.search import votes
from tempose.outliers.search.ladders import ladder_limit, ladder_noise
from tempose.outliers.search.triangles import CHI_MEDIAN, HalfEdges, triangles
from tempose.outliers.sequence import Sequence

_MUCH_WIDER = 4.0  # times the noise that triangles show
_NARROWER, _WIDER = 1.5, 2.0  # times the noise that ladders show, at most
_TREES, _FEW_TREES = 40, 10  # random ones, in a search and in a survey
_MOST_CLOSED = 40  # clusters that a survey believes or gives up one by one
_ALL_CLOSED = 200_000  # nodes in a sweep of these together: beyond, fewer clusters, and one start
_RUNGS = (0.9, 0.999, 0.999999)  # trust in links with which explanations are searched for: log odds of 2, 7 and 14
_POOLED = 60  # of each of these, weighed by the trust that is asked for
# chosen on: studyroom of 3DMatch with odometry .99: searches of seeds 0 to 2 end at the same score with 6, and not with 3
_IMPROVED = 6  # starts that are improved
_CLOSED = 3  # starts of a survey whose clusters are closed
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
_MOST_CLUSTERS = 300  # of two edges and more

Breaks = tuple[bytes, tuple[int, ...]]
"""Clusters that are believed, and how many links are given up in each stretch between nodes at which these end."""


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
    sigmas
        σ of an edge per axis, radians and length.
    """

    clusters: Clusters
    found: tuple[Candidate, ...]
    probability: Array
    prior: tuple[float, ...]
    breaks: tuple[Breaks, ...]
    sigmas: tuple[float, float]

    @cached_property
    def worth(self) -> Array:
        """How probably a cluster of each kind is right that no chain confirms, by how often wrong ones agree with each other.

        That is seen in the most probable explanation (:mod:`tempose.outliers.agreement`).
        """
        one = self.found[0]
        return worth_of_clusters(self.clusters, one.poses, one.fits, one.believed, self.sigmas)

    def right(self, k: int) -> Array:
        """How probably edges (m,) are right if explanation k is true and they fit its poses; 0 where it doubts them."""
        one, clusters = self.found[k], self.clusters
        by_chain = one.evidence.role == OF_CHAIN
        worth = np.where(by_chain, 1.0, self.worth[clusters.kind])
        return clusters.spread(np.where(one.doubted, 0.0, worth), 1.0)

    def inlier_probability(self) -> Array:
        """Probability (m,) that each edge is right, over all explanations, by which of them it fits."""
        return np.asarray(sum(p * self.found[k].fits * self.right(k) for k, p in enumerate(self.probability.tolist())))


class ExplanationSearch(Reader):
    """Reads poses as explanations, and looks for better ones."""

    def __init__(
        self, sequence: Sequence, own: Array, rng: np.random.Generator, beliefs: Beliefs | None = None
    ) -> None:
        """``own``: prior inlier probabilities (m,) of edges that have one of their own, NaN for the others."""
        super().__init__(sequence, own, beliefs or current_beliefs(), HalfEdges.of(sequence.graph))
        self.rng = rng
        shown = triangles(sequence.graph, self.halves)
        self._many_triangles = shown.n_triangles > sequence.graph.n_edges
        self._shown: tuple[float, float] | None = None
        self._most: tuple[float, float] | None = None
        self.set_level(shown.sigma_rot, shown.sigma_trans)

    def set_level(self, sigma_rot: float, sigma_trans: float) -> None:
        """Begin anew at this noise of an edge, σ per axis in radians and length."""
        super().set_level(sigma_rot, sigma_trans)
        self.found: dict[bytes, Candidate] = {}
        self._varied: dict[tuple[str, bytes], Candidate] = {}

    @property
    def is_feasible(self) -> bool:
        """Whether it takes seconds, not minutes."""
        return not self.is_long and int(np.sum(self.clusters.size > 1)) <= _MOST_CLUSTERS

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
        settled = self.settling()
        return [(settled, one.poses) for one in self._best_of_each(_POOLED)]

    def _look_at(self, pool: list[tuple[Array, Poses]]) -> None:
        """What others have found, weighed by the present trust, and varied.

        Poses that bend trusted links, because they have settled with less trust than there is now, have to settle again.
        """
        here = self.settling()
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
            for one in self._best_of_each(1 if again or is_large else _CLOSED):
                self._close(one)
            if not again:
                given += [one.poses for one in self._best(_CLOSED)]
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
            self.set_level(*self._within(factor * stated_rot, factor * stated_trans))  # what contradicts in noise

    def _within(self, sigma_rot: float, sigma_trans: float) -> tuple[float, float]:
        """σ of an edge, no wider than ladders allow, unless this is a long way."""
        if self.is_long:
            return sigma_rot, sigma_trans
        if self._most is None:
            self._most = ladder_limit(self.sequence)
        return min(sigma_rot, self._most[0]), min(sigma_trans, self._most[1])

    def _look_around(self, given: list[Poses], trees: int) -> None:
        for poses in given:
            self._consider(poses)
        for _ in range(trees):
            self._try(self._random_weights())

    # ------------------------------------------------------------------ searching

    def _link_odds(self) -> Array:
        """Log odds (m,) of links being right."""
        return log_odds(np.where(np.isnan(self.own), self.prior[3], self.own))

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
        of_cluster = self.cluster_odds() + 0.3 * np.log(clusters.size) + 2.0 * rng.gumbel(size=clusters.count)
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
        best, closed, idle = start, None, np.zeros(self.clusters.count, dtype=bool)  # what would not change this one
        for _ in range(_SWEEPS):
            before, tried = best, self._worth_closing(best)
            for c in tried.tolist():
                if closed is not best:
                    closed, idle = best, self._held_by_others(best, tried)
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

    def _worth_closing(self, one: Candidate) -> Index:
        """Clusters to believe or to give up one by one, in any order, but of lone loop closures first those that miss by the least.

        That is measured by what an explanation predicts for them, in which drift adds up. So what nothing contradicts yet but drift
        is believed before what would bend the chain more. If clusters are too many, the largest are tried.
        """
        clusters, most = self.clusters, min(_MOST_CLOSED, _ALL_CLOSED // self.sequence.graph.n_nodes)
        several, alone = np.flatnonzero(clusters.size > 1), np.flatnonzero(clusters.size == 1)
        several = several[np.argsort(-clusters.size[several], kind="stable")][:most]
        if len(alone) and len(several) < most:
            edges = np.array([clusters.members[c][0] for c in alone.tolist()])
            alone = alone[np.argsort(self._misses(one)[edges], kind="stable")]
        alone = alone[: most - len(several)]
        tried = self.rng.permutation(np.concatenate([several, alone]))
        tried[clusters.size[tried] == 1] = alone
        return tried

    def _misses(self, one: Candidate) -> Array:
        """z² per number (m,) of what an explanation's least squares predicts for every edge; infinite where it predicts nothing."""
        graph, kept = self.sequence.graph, self._kept(one, one.believed)
        poses = self._least_squares(one, one.believed)
        found = None if poses is None else Projection.at(graph, poses, kept.astype(float))
        if poses is None or found is None:
            return np.full(graph.n_edges, math.inf)
        z2, freedom = found.predictions(kept.astype(float)).distance
        return np.where(freedom > 0, z2 / np.maximum(freedom, 1), math.inf)

    def _least_squares(self, one: Candidate, believed: Mask) -> Poses | None:
        """Poses that close what is believed, from those of an explanation and without the links that it gives up."""
        kept = self.sequence.graph.with_edges(self._kept(one, believed))
        if kept.n_components != self.sequence.graph.n_components:
            return None
        return lowered(Curvature(Posterior(kept)), one.poses, max_steps=_STEPS, least_gain=_LITTLE)

    def _kept(self, one: Candidate, believed: Mask) -> Mask:
        """Edges (m,) of what is believed and of the links that an explanation does not give up, or that alone hold a part."""
        graph, edges = self.sequence.graph, self.clusters.spread(believed, True)
        edges[one.given_up] = False
        part = graph.with_edges(edges).component
        for link in one.given_up.tolist():
            a, b = part[graph.edge_i[link]], part[graph.edge_j[link]]
            if a != b:
                edges[link] = True
                part = np.where(part == b, a, part)
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
        fits = 0.5 * np.sum(left**2, axis=1) < _CLEARLY * self.limit[members]
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
        of_later = {int(sequence.rank[sequence.later[k]]): int(k) for k in self.links}
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
            most = (
                _WIDER if self.is_long else math.inf
            )  # wrong edges that a survey believes must not make room for more
            return self._within(min(found[0], most * self.sigma_rot), min(found[1], most * self.sigma_trans))
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
        shares = self._shares(found, probability, beliefs)
        return Candidates(self.clusters, found, probability, shares, breaks, (self.sigma_rot, self.sigma_trans))

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
        stretch = np.cumsum(ends)[sequence.rank[sequence.earlier[self.links]]]  # of every link
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
        return tuple(beliefs.shares(seen[:-1], seen[-1], self.clues.offered(beliefs)).tolist())
