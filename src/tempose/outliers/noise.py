r"""Parameters of the robust likelihood, and how they follow from residuals.

With :math:`\gamma_k` the probability that edge k is an inlier and :math:`w_k` its weight, both at the energy that the edge has
on average over the posterior, :math:`E[e_k] = e_k + \tfrac12 u_k`, the stated σ of the rotations is to be multiplied by

.. math::  s^2 = \frac{\sum_k w_k\, 2 e_k}{\sum_k \gamma_k d_k - \sum_k h_k}, \qquad
           h_k = \hat w_k u_k, \quad u_k = \operatorname{tr}(\Omega_k \Sigma_k)_R,

d the numbers measured, :math:`\Sigma_k` the covariance of the fitted relative pose and :math:`\hat w_k` the weights that it was
computed with, so that the leverages h add up to the numbers of the poses, whatever the core: edges that nothing checks, as those
of a tree, tell nothing. In the same way for translations.
Where the two are correlated, B scales with σ_t/σ_R, and the energy is :math:`a/s_R^2 + x/(s_R s_t) + c/s_t^2`; both scales together
maximise the likelihood, a concave problem in their inverses.

Every s has a half-Cauchy prior whose median is 1, the stated noise: :math:`p(s) = \tfrac2\pi / (1 + s^2)`. It counts as much as one
number of the measurements: half of it is on factors between 0.4 and 2.4, but a tenth is beyond 1/6 and 6. With L the
denominator above and 2E the numerator, :math:`x = s^2` then solves
:math:`(L + 1) x^2 - (2E - L + 1) x - 2E = 0`, which is 2E/L up to a number in L, and finite whatever E and L are.

Where edges may be wrong, noise that fewer than 20 spare numbers tell is kept as stated: by chance a few edges agree, and less
noise would reject the others, until there is nothing left to tell it from. What is known about single nodes
(fixes, attitudes) and sightings of landmarks have scales of their own, under the same condition.
The second sum above is the number of parameters that the poses have used up: without it σ comes out too small. Where
weights of edges are equal, this is the reduced χ². The prior probability π is the mean of γ over the edges that have no
probability of their own.

Whether the core is Gaussian or heavy-tailed is decided by the likelihood, one more parameter being worth half a log m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._typing import Array, Mask
from tempose.errors import OptionError
from tempose.model import von_mises
from tempose.model.bingham import log_normalizer_gradient
from tempose.model.graph import PoseGraph
from tempose.model.robust import RobustLikelihood

_LEAST_FACTOR = 1e-6  # of the stated σ of single nodes and landmarks
TAILS = (math.inf, 16.0, 8.0, 4.0, 2.0, 1.0)
# chosen on: Madrid, whose residuals have no scale; which of them is taken is decided by the likelihood
HEAVIEST_TAILS = (0.5, 0.25, 0.125)  # of rotations alone: nothing says that they end, but 180° do
# chosen on: EPFL rotations; with 3.4 edges a node CastleP19 goes to another basin (1.4° instead of 0.4°), Madrid has 60
_MANY_EDGES = 10.0  # a node: such cores have so sharp a peak that with fewer the poses can be put onto it
CHANGE = 2e-3  # of log σ and of π between rounds: far below their statistical error
_MOST_STEPS = 20  # of expectation maximisation between two of the poses
FEWEST_SPARE = 20  # numbers of a group that others check: σ is then known to 16 %; with fewer it is kept as stated
PRIOR_NUMBERS = 1.0  # of measurements that the prior of a scale counts as: half-Cauchy
_LEAST_SIGMA = 1e-7  # radians, and of the spread of translations: measurements without noise have this much


@dataclass(frozen=True)
class RobustOptions:
    """What is known beforehand.

    Parameters
    ----------
    noise
        ``given``: the precisions of the graph hold; ``auto``: they hold relative to each other, and are multiplied by one
        estimated factor for rotations and one for translations.
    inlier_probability
        π of the edges that have no probability of their own; ``None``: estimated.
    tail
        ν of the heavy-tailed core, infinite for the Gaussian one; ``None``: chosen by the likelihood.
    outlier_sigma
        Spread per axis of wrong translations; ``None``: that of the measured ones.
    rounds
        Most alternations.
    least_scales
        Factors of the stated σ of rotations and translations between poses below which they are not estimated: what errors
        that are correlated add up to is more than residuals show (:mod:`tempose.outliers.correlation`).
    """

    noise: str = "auto"
    inlier_probability: float | None = None
    tail: float | None = None
    outlier_sigma: float | None = None
    rounds: int = 60
    least_scales: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        if self.noise not in ("given", "auto"):
            raise OptionError(f"unknown noise {self.noise!r}: choose given or auto")
        if self.inlier_probability is not None and not 0.0 < self.inlier_probability <= 1.0:
            raise OptionError(f"the inlier probability must be above 0 and at most 1, not {self.inlier_probability}")
        if self.tail is not None and not self.tail > 0.0:
            raise OptionError(f"the tail parameter must be positive (infinite for a Gaussian), not {self.tail}")


GROUPS = {
    "attitude_scale": "measured orientations",
    "fix_scale": "measured positions",
    "sighting_scale": "sightings of landmarks",
}
"""Kinds of measurements with a noise of their own, beside motions between poses, by the field of :class:`Parameters`."""

MOTIONS = {"rotation_scale": "rotations between poses", "translation_scale": "translations between poses"}
"""The same of motions between poses."""


@dataclass(frozen=True)
class Parameters:
    """Of the likelihood: factors of the stated σ, share of inliers, tail, and the spread of wrong translations.

    The first two factors are of motions between poses; the last three of orientations and positions of single nodes, and of
    sightings of landmarks. Where errors of consecutive edges are correlated, those of motions are at least ``least_scales``.
    """

    rotation_scale: float
    translation_scale: float
    inlier_probability: float
    tail: float
    outlier_sigma: float
    attitude_scale: float = 1.0
    fix_scale: float = 1.0
    sighting_scale: float = 1.0
    kept: tuple[
        str, ...
    ] = ()  # of GROUPS and MOTIONS, whose noise is as stated: too few of their numbers check anything
    least_scales: tuple[float, float] = (0.0, 0.0)

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON: an infinite tail is null."""
        facts: dict[str, Any] = plain(asdict(self))
        return facts

    def scales(self, graph: PoseGraph) -> tuple[float | Array, float | Array]:
        """Factors of the stated σ of each edge's rotation and translation (m,); one number each if there is one group."""
        absolute, seen, prior = graph.is_absolute, graph.is_landmark[graph.edge_i], is_prior(graph)
        if not np.any(absolute) and not np.any(seen):
            return self.rotation_scale, self.translation_scale
        rotation = np.where(absolute, np.where(prior, 1.0, self.attitude_scale), self.rotation_scale)
        translation = np.where(absolute, np.where(prior, 1.0, self.fix_scale), self.translation_scale)
        return rotation, np.where(seen & ~absolute, self.sighting_scale, translation)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Parameters:
        """The inverse of :meth:`facts`."""
        numbers: dict[str, Any] = {name: math.inf if value is None else value for name, value in facts.items()}
        several = {name: tuple(facts[name]) for name in ("kept", "least_scales") if name in facts}
        return cls(**{**numbers, **several})

    def graph(self, stated: PoseGraph) -> PoseGraph:
        """The graph with its precisions at these scales."""
        rotation, translation = (np.broadcast_to(s, stated.n_edges) for s in self.scales(stated))
        return replace(
            stated,
            concentration=stated.concentration / _along(rotation**2, stated.concentration),
            translation_precision=stated.translation_precision / _along(translation**2, stated.translation_precision),
            coupling=None
            if stated.coupling is None
            else stated.coupling * _along(translation / rotation, stated.coupling),
        )

    def likelihood(self, stated: PoseGraph, own: Array) -> RobustLikelihood:
        """The likelihood of :meth:`graph`; ``own`` (m,) are the edges' own prior probabilities, NaN where they have none."""
        prior = np.where(np.isnan(own), self.inlier_probability, own)
        return RobustLikelihood.of(
            stated, prior, tail=self.tail, outlier_sigma=self.outlier_sigma,
            scales=self.scales(stated),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class EdgeEnergies:
    """Energies of rotation and translation (m,) at the stated noise, and what the poses have used of each.

    ``cross`` is the part of the energy of correlated edges that both have a share in; ``None`` if there are none. ``weights`` are
    those of the edges (m,) in the matrix whose inverse says what is used; 1 if there are none.
    """

    stated: PoseGraph
    rotation: Array
    translation: Array
    used_rotation: Array
    used_translation: Array
    cross: Array | None = None
    weights: Array | None = None

    def energy(self, p: Parameters) -> Array:
        """Energies (m,) at the parameters' noise, on average over the posterior of the poses."""
        used = 0.5 * np.nan_to_num(self.used_rotation + self.used_translation)
        rotation, translation = p.scales(self.stated)
        both = 0.0 if self.cross is None else self.cross / (rotation * translation)
        measured = self.rotation / rotation**2 + self.translation / translation**2 + both
        return np.asarray(np.maximum(measured, 0.0) + np.maximum(used, 0.0))  # what is below zero is rounding

    def updated(self, p: Parameters, options: RobustOptions, own: Array) -> Parameters:
        """One step of expectation maximisation."""
        likelihood = p.likelihood(self.stated, own)
        energy = self.energy(p)
        gamma = likelihood.inlier_probability(energy)
        weight = gamma * likelihood.core_weight(energy)
        if options.noise == "auto":
            p = self._scaled(p, gamma, weight, doubted=bool(np.any(likelihood.prior < 1.0)))
        pi = p.inlier_probability
        free = np.isnan(own)
        if options.inlier_probability is None and np.any(free):
            pi = float((gamma[free].sum() + 1.0) / (free.sum() + 2.0))
        return replace(p, inlier_probability=pi)

    def _scaled(self, p: Parameters, gamma: Array, weight: Array, doubted: bool) -> Parameters:
        """The parameters with the scale of each group of measurements as these residuals have it."""
        parts, sums = self._parts(p), self._sums(p, gamma, weight)
        # once and for all: fewer numbers would be left at less noise, down to none
        kept = [
            name
            for name in (*MOTIONS, *GROUPS)
            if name in p.kept or (name in sums and (doubted or name in GROUPS) and sums[name].left < FEWEST_SPARE)
        ]
        for name in kept:
            sums.pop(name, None)
        found = {name: one.scale() for name, one in sums.items()}
        for a, b in (("rotation_scale", "translation_scale"), ("attitude_scale", "fix_scale")):
            if self.cross is not None and a in sums and b in sums:
                here = parts[a][0] & parts[b][0]
                found[a], found[b] = _both_scales(sums[a], sums[b], float(weight[here] @ self.cross[here]))
        least = dict(zip(MOTIONS, p.least_scales, strict=True))
        scales: dict[str, Any] = {}
        for name, value in found.items():
            scales[name] = max(value, parts[name][2], least.get(name, 0.0))
        scales |= {name: max(1.0, least.get(name, 0.0)) for name in kept}
        return replace(p, kept=tuple(kept), **scales)

    def _parts(self, p: Parameters) -> dict[str, tuple[Mask, tuple[Array, Array, Array], float]]:
        """Of each scale: its edges (m,); energies, numbers and what is used of them (m,); and the least value."""
        graph, (sigma_rot, sigma_trans) = self.stated, self.stated.median_sigmas
        turns, moves = graph.ranks
        relative, seen = ~graph.is_absolute, graph.is_landmark[graph.edge_i]
        measured = graph.is_absolute & ~is_prior(graph)
        of_rotations = self.rotation, turns * self._excess(p), self.used_rotation
        of_translations = self.translation, moves, self.used_translation
        return {
            "rotation_scale": (relative & (turns > 0), of_rotations, _LEAST_SIGMA / sigma_rot),
            "translation_scale": (
                relative & ~seen & (moves > 0), of_translations, _LEAST_SIGMA * p.outlier_sigma / sigma_trans,
            ),
            "attitude_scale": (measured & (turns > 0), of_rotations, _LEAST_FACTOR),
            "fix_scale": (measured & (moves > 0), of_translations, _LEAST_FACTOR),
            "sighting_scale": (relative & seen, of_translations, _LEAST_FACTOR),
        }  # fmt: skip

    def _sums(self, p: Parameters, gamma: Array, weight: Array) -> dict[str, _Sums]:
        """Of each scale that some edge has: its energy, and its spare numbers."""
        share = 1.0 if self.weights is None else self.weights
        return {
            name: _Sums.of(energy[here], gamma[here], weight[here], freedom[here], (share * used)[here])
            for name, (here, (energy, freedom, used), _) in self._parts(p).items()
            if np.any(here)
        }

    def spare(self, p: Parameters, own: Array) -> dict[str, float]:
        """How many numbers tell each scale: of right edges, and not used up by the poses."""
        return {name: one.left for name, one in self._sums_at(p, own).items()}

    def _sums_at(self, p: Parameters, own: Array) -> dict[str, _Sums]:
        likelihood, energy = p.likelihood(self.stated, own), self.energy(p)
        gamma = likelihood.inlier_probability(energy)
        return self._sums(p, gamma, gamma * likelihood.core_weight(energy))

    def log_evidence_of_scales(self, p: Parameters, own: Array) -> float:
        """Logarithm of the prior of log s of every scale, times the width over which the residuals allow it."""
        total = 0.0
        for name, one in self._sums_at(p, own).items():
            s = getattr(p, name)
            square = s * s
            bend = 4.0 * one.energy / square + 4.0 * PRIOR_NUMBERS * square / (1.0 + square) ** 2
            total += log_prior(s) + 0.5 * math.log(2.0 * math.pi / bend)
        return total

    def settled(self, p: Parameters, options: RobustOptions, own: Array) -> Parameters:
        """Steps of expectation maximisation, poses fixed, until nothing changes."""
        for _ in range(_MOST_STEPS):
            before, p = p, self.updated(p, options, own)
            if change(before, p) < 0.1 * CHANGE:
                break
        return p

    def _excess(self, p: Parameters) -> float:
        """Mean of twice an inlier's rotation energy, per number: 1, and a bit more where noise is wide (rotations are curved)."""
        known = self.stated.mean_concentration[self.stated.has_rotation]
        if not len(known):
            return 1.0
        lam = float(np.median(known)) / p.rotation_scale**2
        if self.stated.is_planar:
            return float(-2.0 * lam * von_mises.log_normalizer_gradient(lam))
        return float(-2.0 * lam * np.sum(log_normalizer_gradient(np.full(3, lam))) / 3.0)

    def log_likelihood(self, p: Parameters, own: Array) -> float:
        """Of all measurements, at residuals freed of what the poses have taken."""
        return float(p.likelihood(self.stated, own).log_density(self.energy(p)).sum())

    def with_best_tail(self, p: Parameters, options: RobustOptions, own: Array) -> Parameters:
        """The best core for these residuals; ν has to earn half a log m."""
        best, merit = p, -math.inf
        for tail in tails(self.stated):
            trial = self.settled(replace(p, tail=tail), options, own)
            value = self.log_likelihood(trial, own) - (0.0 if math.isinf(tail) else 0.5 * math.log(len(own)))
            if value > merit:
                best, merit = trial, value
        return best


def tails(graph: PoseGraph) -> tuple[float, ...]:
    """The ν to choose from.

    Those below 1 outlast the density of wrong translations, and are for graphs of rotations only; and they reward
    poses that make a few edges exact, so they need many edges a node.
    """
    is_dense = graph.n_edges >= _MANY_EDGES * graph.n_nodes
    return TAILS if np.any(graph.has_translation) or not is_dense else (*TAILS, *HEAVIEST_TAILS)


def is_prior(graph: PoseGraph) -> Mask:
    """Which edges (m,) are prior knowledge of single nodes: those never to be doubted. Their precision is what it is."""
    if graph.inlier_prior is None:
        return np.zeros(graph.n_edges, dtype=bool)
    return np.asarray(graph.is_absolute & (graph.inlier_prior == 1.0))


def _along(scale: Array, value: Array) -> Array:
    """Factors (m,) in the shape of what they multiply (m, …)."""
    return scale.reshape(-1, *(1,) * (value.ndim - 1))


@dataclass(frozen=True)
class _Sums:
    """Weighted energy of a group, and its numbers with what the poses have used of them taken off."""

    energy: float
    left: float

    @classmethod
    def of(cls, energy: Array, gamma: Array, weight: Array, freedom: Array, leverage: Array) -> _Sums:
        numbers = gamma * freedom
        taken = np.minimum(
            np.nan_to_num(leverage, posinf=np.inf), numbers
        )  # an edge that hardly counts cannot take more than it has
        return cls(float(weight @ energy), float(np.sum(numbers - taken)))

    def scale(self) -> float:
        """Factor s of the stated σ that maximises ``−L log s − E/s²`` and its prior: the root of a quadratic in s²."""
        double, left, prior = 2.0 * self.energy, self.left, PRIOR_NUMBERS
        b, c = double - left + prior, double * (left + prior)
        root = math.sqrt(b * b + 4.0 * c)
        # of the two forms the one that loses no digits
        square = (b + root) / (2.0 * (left + prior)) if b >= 0.0 else 2.0 * double / (root - b)
        return math.sqrt(max(square, 1e-300))

    def with_prior(self, scale: float) -> _Sums:
        """With the prior as if it were measurements: those of which, at this scale, it has the slope."""
        square = scale * scale
        return _Sums(self.energy + PRIOR_NUMBERS * square / (1.0 + square), self.left + PRIOR_NUMBERS)


def log_prior(scale: float) -> float:
    """Logarithm of the density of log s, s half-Cauchy of median 1."""
    return math.log(2.0 / math.pi) + math.log(scale) - math.log1p(scale * scale)


def _both_scales(a: _Sums, b: _Sums, cross: float) -> tuple[float, float]:
    """The scales that maximise ``d_a log x + d_b log y − (a x² + cross xy + b y²)`` and their priors, x and y their inverses.

    In turn, with the slope of the priors where they were.
    """
    x, y = 1.0 / a.scale(), 1.0 / b.scale()
    for _ in range(200):
        before = x, y
        x = _inverse_scale(a.with_prior(1.0 / x), cross * y)
        y = _inverse_scale(b.with_prior(1.0 / y), cross * x)
        if abs(x / before[0] - 1.0) + abs(y / before[1] - 1.0) < 1e-10:
            break
    return 1.0 / x, 1.0 / y


def _inverse_scale(one: _Sums, slope: float) -> float:
    """The positive root of ``2 e x² + slope x = d``."""
    root = math.sqrt(slope * slope + 8.0 * max(one.energy, 1e-300) * one.left)
    return 2.0 * one.left / (slope + root)


_SCALES = ("rotation_scale", "translation_scale", *GROUPS)


def change(a: Parameters, b: Parameters) -> float:
    """Largest difference of log σ or π between two sets of parameters."""
    return max(
        *(abs(math.log(getattr(b, name) / getattr(a, name))) for name in _SCALES),
        abs(b.inlier_probability - a.inlier_probability),
    )
