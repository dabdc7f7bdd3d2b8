r"""Parameters of the robust likelihood, and how they follow from residuals.

With :math:`\gamma_k` the probability that edge k is an inlier and :math:`w_k` its weight, both at the energy that the edge has
on average over the posterior, :math:`E[e_k] = e_k + \tfrac12 u_k`, the stated σ of the rotations is to be multiplied by

.. math::  s^2 = \frac{\sum_k w_k\, 2 e_k}{\sum_k \gamma_k d_k - \sum_k w_k u_k}, \qquad
           u_k = \operatorname{tr}(P_k \Sigma_k),

d the numbers measured and :math:`\Sigma_k` the covariance of the fitted relative pose; in the same way for translations.
The second sum below is the number of parameters that the poses have used up: without it σ comes out too small. Where
weights of edges are equal, this is the reduced χ². The prior probability π is the mean of γ over the edges that have no
probability of their own.

Whether the core is Gaussian or heavy-tailed is decided by the likelihood, one more parameter being worth half a log m.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from tempose._support.plain import plain
from tempose._typing import Array
from tempose.errors import OptionError
from tempose.model.bingham import log_normalizer_gradient
from tempose.model.graph import PoseGraph
from tempose.model.robust import RobustLikelihood

TAILS = (math.inf, 16.0, 8.0, 4.0, 2.0, 1.0)
CHANGE = 2e-3  # of log σ and of π between rounds: far below their statistical error
_MOST_STEPS = 20  # of expectation maximisation between two of the poses
_LEAST_REDUNDANCY = 0.05  # of the inliers' numbers: below, σ cannot be told and is not divided by nothing
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
    """

    noise: str = "auto"
    inlier_probability: float | None = None
    tail: float | None = None
    outlier_sigma: float | None = None
    rounds: int = 60

    def __post_init__(self) -> None:
        if self.noise not in ("given", "auto"):
            raise OptionError(f"unknown noise {self.noise!r}: choose given or auto")
        if self.inlier_probability is not None and not 0.0 < self.inlier_probability <= 1.0:
            raise OptionError(f"the inlier probability must be above 0 and at most 1, not {self.inlier_probability}")
        if self.tail is not None and not self.tail > 0.0:
            raise OptionError(f"the tail parameter must be positive (infinite for a Gaussian), not {self.tail}")


@dataclass(frozen=True)
class Parameters:
    """Of the likelihood: factors of the stated σ, share of inliers, tail, and the spread of wrong translations."""

    rotation_scale: float
    translation_scale: float
    inlier_probability: float
    tail: float
    outlier_sigma: float

    def facts(self) -> dict[str, float | None]:
        """Plain values for JSON: an infinite tail is null."""
        facts: dict[str, float | None] = plain(asdict(self))
        return facts

    @classmethod
    def from_facts(cls, facts: Mapping[str, float | None]) -> Parameters:
        """The inverse of :meth:`facts`."""
        return cls(**{name: math.inf if value is None else value for name, value in facts.items()})

    def graph(self, stated: PoseGraph) -> PoseGraph:
        """The graph with its precisions at these scales."""
        return replace(
            stated,
            concentration=stated.concentration / self.rotation_scale**2,
            translation_precision=stated.translation_precision / self.translation_scale**2,
        )

    def likelihood(self, stated: PoseGraph, own: Array) -> RobustLikelihood:
        """The likelihood of :meth:`graph`; ``own`` (m,) are the edges' own prior probabilities, NaN where they have none."""
        prior = np.where(np.isnan(own), self.inlier_probability, own)
        return RobustLikelihood.of(
            stated, prior, tail=self.tail, outlier_sigma=self.outlier_sigma,
            scales=(self.rotation_scale, self.translation_scale),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class EdgeEnergies:
    """Energies of rotation and translation (m,) at the stated noise, and what the poses have used of each."""

    stated: PoseGraph
    rotation: Array
    translation: Array
    used_rotation: Array
    used_translation: Array

    def energy(self, p: Parameters) -> Array:
        """Energies (m,) at the parameters' noise, on average over the posterior of the poses."""
        used = 0.5 * (self.used_rotation + self.used_translation)
        return self.rotation / p.rotation_scale**2 + self.translation / p.translation_scale**2 + used

    def updated(self, p: Parameters, options: RobustOptions, own: Array) -> Parameters:
        """One step of expectation maximisation."""
        likelihood = p.likelihood(self.stated, own)
        energy = self.energy(p)
        gamma = likelihood.inlier_probability(energy)
        weight = gamma * likelihood.core_weight(energy)
        rotation_scale, translation_scale = p.rotation_scale, p.translation_scale
        if options.noise == "auto":
            sigma_rot, sigma_trans = self.stated.median_sigmas
            rotation_scale = max(
                _scale(self.rotation, gamma, weight, np.full(len(gamma), self._numbers(p)), self.used_rotation),
                _LEAST_SIGMA / sigma_rot,
            )
            freedom = likelihood.freedom - 3.0
            if np.any(freedom > 0.0):
                translation_scale = max(
                    _scale(self.translation, gamma, weight, freedom, self.used_translation),
                    _LEAST_SIGMA * p.outlier_sigma / sigma_trans,
                )
        pi = p.inlier_probability
        free = np.isnan(own)
        if options.inlier_probability is None and np.any(free):
            pi = float((gamma[free].sum() + 1.0) / (free.sum() + 2.0))
        return replace(p, rotation_scale=rotation_scale, translation_scale=translation_scale, inlier_probability=pi)

    def settled(self, p: Parameters, options: RobustOptions, own: Array) -> Parameters:
        """Steps of expectation maximisation, poses fixed, until nothing changes."""
        for _ in range(_MOST_STEPS):
            before, p = p, self.updated(p, options, own)
            if change(before, p) < 0.1 * CHANGE:
                break
        return p

    def _numbers(self, p: Parameters) -> float:
        """Mean of twice the rotation energy of an inlier: 3, and somewhat more where noise is wide (the sphere is curved)."""
        lam = np.full(3, float(np.median(self.stated.mean_concentration)) / p.rotation_scale**2)
        return float(-2.0 * lam @ log_normalizer_gradient(lam))

    def log_likelihood(self, p: Parameters, own: Array) -> float:
        """Of all measurements, at residuals freed of what the poses have taken."""
        return float(p.likelihood(self.stated, own).log_density(self.energy(p)).sum())

    def with_best_tail(self, p: Parameters, options: RobustOptions, own: Array) -> Parameters:
        """The best core for these residuals; ν has to earn half a log m."""
        best, merit = p, -math.inf
        for tail in TAILS:
            trial = self.settled(replace(p, tail=tail), options, own)
            value = self.log_likelihood(trial, own) - (0.0 if math.isinf(tail) else 0.5 * math.log(len(own)))
            if value > merit:
                best, merit = trial, value
        return best


def _scale(energy: Array, gamma: Array, weight: Array, freedom: Array, used: Array) -> float:
    """Factor of the stated σ, with the degrees of freedom that the poses have used taken off."""
    numbers = float(gamma @ freedom)
    left = max(numbers - float(weight @ used), _LEAST_REDUNDANCY * numbers, 1e-300)
    return math.sqrt(max(float(weight @ (2.0 * energy)) / left, 1e-300))


def change(a: Parameters, b: Parameters) -> float:
    """Largest difference of log σ or π between two sets of parameters."""
    return max(
        abs(math.log(b.rotation_scale / a.rotation_scale)),
        abs(math.log(b.translation_scale / a.translation_scale)),
        abs(b.inlier_probability - a.inlier_probability),
    )
