r"""What is believed of clusters and links before a graph is seen, and the probability of an explanation that follows.

The score of an explanation x (:mod:`tempose.outliers.reading`) is made of its *evidence*, what every cluster is there (its
role), which links are given up and how well the rest fits, and of *beliefs*, a few numbers. So explanations can be weighed again
with other beliefs, without any search.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from tempose._typing import Array, Index, Mask

WRONG, PLACES, CONFIRMS, OF_CHAIN, REPEATS = range(5)
"""Roles of clusters."""
Counts = tuple[float, float]
Kinds = tuple[Counts, ...]


@dataclass(frozen=True)
class World:
    """A sort of graphs.

    Attributes
    ----------
    kinds
        Clusters of one edge, of two to four and of more, as if so many right and wrong ones had been seen: Beta priors of π.
    alike
        v: how often one wrong cluster agrees with another; ``None``: as the beliefs say.
    lone
        How many clusters of one edge there are for every node, on average over graphs of this sort; ``None``: any number.
    """

    kinds: Kinds
    alike: float | None = None
    lone: float | None = None

    def log_offered(self, lone: int, nodes: int) -> float:
        """Logarithm of the probability that so many nodes have so many clusters of one edge: geometric."""
        if self.lone is None:
            return 0.0
        mean = self.lone * nodes
        return lone * (math.log(mean) - math.log1p(mean)) - math.log1p(mean)


# chosen on: 60 simulated worlds with look-alikes (seeds 6000 to 6059); lone: worlds with look-alikes (seeds 80000 to 80078)
HOPEFUL = World(((2.0, 1.0), (6.0, 2.0), (6.0, 2.0)), lone=0.1)
"""As a front end of SLAM makes them: three in four clusters are right, and lone ones are few."""
# chosen on: 3DMatch, all seven scenes, of which each has .7 to 3.7 lone ones a node
WORRIED = World(((1.0, 9.0), (1.0, 2.0), (1.5, 1.0)), lone=1.0)
"""As registrations of scans propose them: lone ones are many, and nine in ten are wrong."""
# chosen on: its meaning; (20, 0.2) was too soft on office1 of 3DMatch; simulated worlds, seeds 30000 to 30005, lone: 35000 to 35002
LONELY = World(((1.0, 1.0), (200.0, 1.0), (200.0, 1.0)), 0.002, lone=0.3)
"""Nothing looks alike: however many are wrong, each is by itself, so that two that agree are right."""
_SAID = 10.0  # clusters, as many of which what a user says of them is worth

# the integral over the share π of right clusters is taken over θ, π = sin² θ, at midpoints
_THETA = (np.arange(400) + 0.5) * (0.5 * math.pi / 400.0)
_PI = np.sin(_THETA) ** 2
# v of clusters that repeat others is rounded, in nats, and above the second a common cause is all that counts
_STEP, _MOST = 0.5, 10.0
_LOG_PI, _LOG_1_PI = 2.0 * np.log(np.sin(_THETA)), 2.0 * np.log(np.cos(_THETA))


@dataclass(frozen=True)
class Beliefs:
    """Prior numbers of the model of explanations.

    Attributes
    ----------
    alike
        v: how often one wrong cluster agrees with another, and with a wrong link near it; how often, at least, one lies next to a
        right one.
    split
        How often a place of a believed cluster does not fit.
    worlds
        Sorts of graphs that are possible, each as probable as the first beforehand. So the graph itself tells how far its loop
        closures are to be doubted.
    links
        The same of links that nobody says how to trust.
    misfit
        How much of the misfit of what is believed counts: 1 if edges err by themselves and as they are said to.
    """

    # chosen on: 3DMatch, all seven scenes, and 11 simulated worlds with look-alikes (seeds from 4000)
    alike: float = 0.02
    # chosen on: 3DMatch, all seven scenes: a first guess, kept because office1 and redkitchen came right
    split: float = 0.05
    worlds: tuple[World, ...] = (HOPEFUL, WORRIED, LONELY)
    # chosen on: 400 simulated worlds with look-alikes (seeds 21000 to 21399)
    links: Counts = (9.0, 0.5)
    # chosen on: 3DMatch, all seven scenes, and 16 simulated worlds with look-alikes (seeds 8300 to 8315)
    misfit: float = 0.0

    def shares(self, clusters: Array | None = None, links: Array | None = None, offered: Array | float = 0.0) -> Array:
        """Mean share of right clusters of each kind, and of right links (4,), once right and wrong ones (3, 2), (2,) are seen.

        ``offered`` (worlds,): how probable in each world it is that there are so many clusters (:meth:`Clues.offered`).
        """
        before = np.array([world.kinds for world in self.worlds])
        counts = before + (0.0 if clusters is None else clusters)
        weight = special.softmax((special.betaln(*counts.T) - special.betaln(*before.T)).sum(axis=0) + offered)
        a, b = np.array(self.links) + (0.0 if links is None else links)
        return np.append(weight @ (counts[:, :, 0] / counts.sum(axis=2)), a / (a + b))

    def expecting(self, probability: float | None) -> Beliefs:
        """The same if loop closures are said to be right with a probability, of whatever kind; ``None``: nothing is said."""
        if probability is None or probability == 1.0:
            return self
        said = (_SAID * probability, _SAID * (1.0 - probability))
        return replace(self, worlds=(World((said,) * len(HOPEFUL.kinds)),))


_USUAL = Beliefs()
_CURRENT: ContextVar[Beliefs] = ContextVar("beliefs", default=_USUAL)


def current_beliefs() -> Beliefs:
    """Those that searches begin with."""
    return _CURRENT.get()


@contextmanager
def believing(beliefs: Beliefs) -> Iterator[None]:
    """Solve with other beliefs than the usual ones, for studies of what they mean."""
    token = _CURRENT.set(beliefs)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@dataclass(frozen=True, eq=False)
class Clues:
    """What a graph offers, the same for all explanations.

    Attributes
    ----------
    kind
        Of each cluster (c,).
    n_nodes
        How many nodes there are.
    own
        Log odds of clusters whose edges have probabilities of their own, NaN for the others.
    own_links
        Prior inlier probabilities of the links (l,), NaN where nobody gave one.
    """

    kind: Index
    n_nodes: int
    own: Array
    own_links: Array

    def offered(self, beliefs: Beliefs) -> Array:
        """Logarithm (worlds,) of how probable it is in each world that there are so many clusters of one edge."""
        lone = int(np.sum(self.kind == 0))
        return np.array([world.log_offered(lone, self.n_nodes) for world in beliefs.worlds])

    def agreement(self, v: Array, near: Array, beliefs: Beliefs) -> Array:
        """V (k,): what it says that places agree with the unbroken chain, by chance or because a link was misled alike.

        ``v`` (k,) is that of chance (:mod:`tempose.outliers.drift`), ``near`` (k,) the links whose mistake a place may share.
        """
        known = self.own_links[~np.isnan(self.own_links)]
        a, b = beliefs.links
        link = float(np.clip(np.median(known), 0.01, 1.0 - 1e-9)) if len(known) else a / (a + b)
        doubt = -np.expm1(near * math.log(link))
        return np.maximum(-np.logaddexp(-v, np.log(beliefs.alike * doubt)), 0.0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What an explanation makes of a graph.

    Attributes
    ----------
    role
        Of each cluster (c,).
    given_up
        Which links (l,) are called wrong.
    agreeing
        Of every place (k,) that agrees with the unbroken chain between its ends, how much denser that is than chance: v.
    near
        Links (k,) whose mistake each of these may share.
    splits
        Places of believed clusters that do not fit.
    misfit
        By how much the residuals of what is believed exceed those that are expected, in nats.
    bends
        By how much more than its drift the chain is bent to where cells agree with it, in nats.
    bent
        By how much trusted links miss beyond what any edge may, in nats: as much as giving them up costs, at most.
    chance
        Of each cluster that goes on, across a link given up, where one ends that agrees with the chain: how often a wrong one would
        lie as near to one of these.
    again
        Of each cluster (c,) that repeats how two segments lie, how much denser what it says is than chance, by the others that say
        so and the links between: v.
    """

    role: Index
    given_up: Mask
    agreeing: Array
    near: Array
    splits: int
    misfit: float = 0.0
    bent: float = 0.0
    bends: float = 0.0
    chance: tuple[float, ...] = ()
    again: Array | None = None


def log_score(clues: Clues, evidence: Evidence, beliefs: Beliefs) -> float:
    """Logarithm of P of an explanation, up to a constant."""
    total = _log_roles(clues, evidence, beliefs) + _log_links(clues.own_links, evidence.given_up, beliefs)
    total += float(clues.agreement(evidence.agreeing, evidence.near, beliefs).sum())
    total -= beliefs.misfit * evidence.misfit + evidence.bent + evidence.bends
    total -= sum(math.log(max(one, beliefs.alike)) for one in evidence.chance)
    return total + evidence.splits * (math.log(beliefs.split) - math.log1p(-beliefs.split))


def _log_roles(clues: Clues, evidence: Evidence, beliefs: Beliefs) -> float:
    role, free = evidence.role, ~np.isfinite(clues.own)
    steps = np.zeros(len(role), dtype=np.int64)
    if evidence.again is not None:
        steps[role == REPEATS] = np.rint(np.clip(evidence.again[role == REPEATS], 0.0, _MOST) / _STEP)
    repeated = Counter(zip(clues.kind[free & (steps > 0)].tolist(), steps[free & (steps > 0)].tolist(), strict=True))
    known = np.flatnonzero(~free)
    counts = np.bincount(5 * clues.kind[free] + role[free], minlength=5 * len(HOPEFUL.kinds)).reshape(-1, 5)
    pi = special.expit(clues.own[known])
    in_worlds = []
    for world, offered in zip(beliefs.worlds, clues.offered(beliefs).tolist(), strict=True):
        alike = beliefs.alike if world.alike is None else world.alike
        inside = counts @ _log_of_role(alike)
        for (kind, step), count in repeated.items():
            inside[kind] += count * np.log(_of_repeated(_PI, alike, step))
        one = offered + sum(map(_log_integral, inside, world.kinds))
        if len(known):
            of_known = np.stack(
                [1.0 - pi, pi, 1.0 - pi + pi / alike, pi, _of_repeated(pi, alike, steps[known])], axis=0
            )
            one += float(np.log(of_known[role[known], np.arange(len(known))]).sum())
        in_worlds.append(one)
    return _log_mean(in_worlds)


def _of_repeated(pi: Array, alike: float, steps: Any) -> Array:
    """1 − π + π e^V of clusters that repeat others: they agree by chance, or by a common cause."""
    told = np.where(steps > 0, 1.0 / (alike + np.exp(-_STEP * np.asarray(steps))), 1.0)
    return np.asarray(1.0 - pi + pi * told)


def _log_integral(inside: Array, prior: Counts) -> float:
    """Logarithm of the integral over π of what clusters of a kind contribute, given by its logarithm at every θ."""
    a, b = prior
    whole = inside + (a - 0.5) * _LOG_PI + (b - 0.5) * _LOG_1_PI
    highest = float(whole.max())
    return highest + math.log(float(np.exp(whole - highest).sum()) * math.pi / len(_PI)) - _log_beta(a, b)


def _log_mean(logs: list[float]) -> float:
    highest = max(logs)
    return highest + math.log(sum(math.exp(one - highest) for one in logs) / len(logs))


@functools.cache
def _log_of_role(alike: float) -> Array:
    """Logarithms (5, θ) of what a cluster of each role contributes at a share π."""
    return np.stack([_LOG_1_PI, _LOG_PI, np.log(1.0 - _PI + _PI / alike), _LOG_PI, 0.0 * _PI])


@functools.cache
def _log_beta(a: float, b: float) -> float:
    return float(special.betaln(a, b))


def _log_links(own: Array, given_up: Mask, beliefs: Beliefs) -> float:
    trusted = ~np.isnan(own)
    total = -float(log_odds(own[given_up & trusted]).sum())
    lost = int(np.sum(given_up & ~trusted))
    return total + log_share(int(np.sum(~trusted)) - lost, lost, *beliefs.links)


def log_odds(probability: Array) -> Array:
    """Log odds of probabilities, which are at least 10⁻¹² from 0 and 1."""
    p = np.clip(probability, 1e-12, 1.0 - 1e-12)
    return np.asarray(np.log(p) - np.log1p(-p))


def log_share(right: int, wrong: int, a: float, b: float) -> float:
    """Logarithm of the probability of certain ones being right and others wrong, their share integrated out."""
    return float(special.betaln(a + right, b + wrong) - special.betaln(a, b))
