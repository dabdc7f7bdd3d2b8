r"""Noise levels, share of inliers and weight of the tails, estimated together with the poses (empirical Bayes).

Alternately: the poses minimise U for the current parameters, and the parameters follow from the residuals. With
:math:`\gamma_k` the probability that edge k is an inlier and :math:`w_k` its weight, both at the energy that the edge has on
average over the posterior, :math:`E[e_k] = e_k + \tfrac12 u_k`, the stated σ of the rotations is to be multiplied by

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
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tempose.bingham import log_normalizer_gradient
from tempose.errors import OptionError
from tempose.graph import PoseGraph
from tempose.likelihood import RobustLikelihood, outlier_spread
from tempose.optimum.covariance import Laplace
from tempose.optimum.curvature import Curvature
from tempose.optimum.newton import minimise
from tempose.poses import Poses
from tempose.posterior import Posterior, Priors
from tempose.robust import rotations
from tempose.sparse import NotPositiveDefiniteError

Array = NDArray[np.float64]

TAILS = (math.inf, 16.0, 8.0, 4.0, 2.0, 1.0)
FIRST_INLIER_PROBABILITY = 0.7
_CHANGE = 2e-3  # of log σ and of π between rounds: far below their statistical error
_FIRST_CHOICE = 2  # round after which the tail is chosen for the first time
_MOST_STEPS = 20  # of expectation maximisation between two of the poses
_LEAST_REDUNDANCY = 0.05  # of the inliers' numbers: below, σ cannot be told and is not divided by nothing
_LEAST_SIGMA = 1e-7  # radians, and of the spread of translations: measurements without noise have this much
_LEAST_SCALE = 1e-4  # of the first one: a noise that collapses is an interpolation, not an estimate


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

    def graph(self, stated: PoseGraph) -> PoseGraph:
        """The graph with its precisions at these scales."""
        return replace(
            stated,
            concentration=stated.concentration / self.rotation_scale**2,
            precision=stated.precision / self.translation_scale**2,
        )

    def likelihood(self, stated: PoseGraph, own: Array) -> RobustLikelihood:
        """The likelihood of :meth:`graph`; ``own`` (m,) are the edges' own prior probabilities, NaN where they have none."""
        prior = np.where(np.isnan(own), self.inlier_probability, own)
        return RobustLikelihood.of(
            stated, prior, tail=self.tail, outlier_sigma=self.outlier_sigma,
            scales=(self.rotation_scale, self.translation_scale),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class RobustFit:
    """Poses and parameters that explain a graph with wrong edges.

    Attributes
    ----------
    poses
        A minimum of the robust U.
    graph
        The measurements, with the estimated precisions.
    likelihood
        ρ of every edge.
    parameters
        What was estimated (or given).
    status
        ``converged``, ``round limit``, or ``collapsed`` (the noise went to zero: too few edges check each other).
    log_likelihood
        Of the measurements given the poses, normalised.
    log_evidence
        The same with the poses integrated out around these (Laplace's approximation), up to a constant of the graph: what
        compares fits. A likelihood alone prefers fits that interpolate a few edges, whose poses are that much narrower.
    """

    poses: Poses
    graph: PoseGraph
    priors: Priors
    likelihood: RobustLikelihood
    parameters: Parameters
    status: str
    rounds: int
    log_likelihood: float
    log_evidence: float

    @property
    def posterior(self) -> Posterior:
        """U at the estimated parameters."""
        return Posterior(self.graph, self.priors, self.likelihood)

    @cached_property
    def energies(self) -> Array:
        """Quadratic energy (m,) of every edge at the poses."""
        return Posterior(self.graph).energies(self.poses)

    @cached_property
    def inlier_probability(self) -> Array:
        """Probability (m,) that each edge is an inlier, at the poses."""
        return self.likelihood.inlier_probability(self.energies)

    @property
    def sigma_rot_deg(self) -> float:
        """Median σ of a measured rotation, degrees per axis."""
        return math.degrees(self.graph.median_sigmas[0])

    @property
    def sigma_trans(self) -> float:
        """Median σ of a measured translation per axis; NaN if there are none."""
        return self.graph.median_sigmas[1]


def fit(
    graph: PoseGraph,
    start: Poses,
    options: RobustOptions | None = None,
    *,
    priors: Priors | None = None,
    own_probability: Array | None = None,
    first: Parameters | None = None,
    on_round: Callable[[int, Parameters], None] | None = None,
) -> RobustFit:
    """Estimate poses and parameters together, from ``start``: a local search, which ends in the basin it begins in.

    Parameters
    ----------
    own_probability
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    first
        Parameters to begin with; by default those that explain the residuals at ``start`` best.
    """
    options, priors = options or RobustOptions(), priors or Priors()
    own = np.full(graph.n_edges, np.nan) if own_probability is None else own_probability
    if first is None:
        first = first_parameters(graph, start, options, own)
    parameters, poses = first, start
    stage = _Stage(graph, priors, own)
    status, free_tail, choices = "round limit", options.tail is None, 0
    for number in range(1, options.rounds + 1):
        poses, residuals = stage.improve(poses, parameters)
        updated = residuals.settled(parameters, options, own)
        if on_round is not None:
            on_round(number, updated)
        moved = _distance(parameters, updated)
        parameters = updated
        if parameters.rotation_scale < _LEAST_SCALE * first.rotation_scale:
            status = "collapsed"
            break
        if moved < _CHANGE or number == _FIRST_CHOICE:
            chosen = residuals.with_best_tail(parameters, options, own) if free_tail and choices < 4 else parameters
            if chosen.tail == parameters.tail and moved < _CHANGE:
                status = "converged"
                break
            parameters, choices = chosen, choices + int(chosen.tail != parameters.tail)
    poses = stage.approach(poses, parameters)
    curvature = stage.curvature(parameters)
    poses = minimise(curvature, poses).poses
    posterior = curvature.posterior
    assert posterior.likelihood is not None
    log_likelihood = float(posterior.likelihood.log_density(posterior.energies(poses)).sum())
    evidence = log_likelihood + _log_volume(curvature, poses)
    return RobustFit(
        poses, posterior.graph, priors, posterior.likelihood, parameters, status, number, log_likelihood, evidence
    )


def first_parameters(graph: PoseGraph, poses: Poses, options: RobustOptions, own: Array) -> Parameters:
    """The parameters of a Gaussian core that explain the residuals at ``poses`` best, by a search over scales."""
    pi = options.inlier_probability or FIRST_INLIER_PROBABILITY
    spread = options.outlier_sigma or outlier_spread(graph)
    parameters = Parameters(1.0, 1.0, pi, math.inf if options.tail is None else options.tail, spread)
    rotation, translation = Posterior(graph).potential_by_edge(poses)
    # edges that the start was built from fit it exactly and say nothing about noise
    exact = np.where(rotation + translation <= 1e-20 * np.median(rotation + translation), 3.0, 0.0)
    residuals = _Residuals(graph, rotation, translation, exact, np.where(graph.has_translation, exact, 0.0))
    if options.noise == "given":
        return parameters
    candidates = []
    for s in _scales(rotation, 3):
        for t in _scales(translation[graph.has_translation], 3):
            trial = replace(parameters, rotation_scale=s, translation_scale=t)
            for _ in range(3):
                trial = residuals.updated(trial, replace(options, noise="given"), own)
            candidates.append((residuals.log_likelihood(trial, own), trial))
    best = max(candidates, key=lambda pair: pair[0])[1]
    for _ in range(30):
        best = residuals.updated(best, options, own)
    return best


def _log_volume(curvature: Curvature, poses: Poses) -> float:
    """Logarithm of the volume of the Gaussian around the poses, gauge held."""
    try:
        factor = curvature.factor(poses.wxyz, poses.position)
    except NotPositiveDefiniteError:
        return -math.inf
    return 0.5 * curvature.dimension * math.log(2.0 * math.pi) - 0.5 * factor.log_determinant()


def _scales(energy: Array, freedom: int) -> Array:
    """Factors of σ at which some share of the edges, from a twentieth to all, would be as it should."""
    if not len(energy):
        return np.ones(1)
    largest = float(energy.max())
    energy = energy[energy > 1e-20 * largest] if largest > 0.0 else np.ones(1)
    return np.unique(np.sqrt(np.quantile(2.0 * energy, [0.05, 0.15, 0.3, 0.6, 1.0]) / freedom))


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Energies of rotation and translation (m,) at the stated noise, and what the poses have used of each."""

    stated: PoseGraph
    rotation: Array
    translation: Array
    used_rotation: Array
    used_translation: Array

    def energy(self, p: Parameters, *, average: bool = True) -> Array:
        """Energies (m,) at the parameters' noise, averaged over the posterior or at the mode."""
        used = 0.5 * (self.used_rotation + self.used_translation) if average else 0.0
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
            if _distance(before, p) < 0.1 * _CHANGE:
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


class _Stage:
    """Steps of the poses, and what they leave over, for parameters that change; the structure is analysed once."""

    def __init__(self, graph: PoseGraph, priors: Priors, own: Array) -> None:
        self.stated, self.priors, self.own = graph, priors, own
        self.first: Curvature | None = None
        self.laplacian = rotations.Laplacian(graph) if rotations.applies(Posterior(graph, priors)) else None

    def posterior(self, p: Parameters) -> Posterior:
        return Posterior(p.graph(self.stated), self.priors, p.likelihood(self.stated, self.own))

    def curvature(self, p: Parameters) -> Curvature:
        """Second derivatives at these parameters."""
        curvature = Curvature(self.posterior(p))
        if self.first is None:
            self.first = curvature
        else:
            curvature.__dict__["symbolic"] = self.first.symbolic
        return curvature

    def approach(self, poses: Poses, p: Parameters) -> Poses:
        """Come near enough to a minimum for Newton's method, where there is a cheaper way than that."""
        if self.laplacian is None:
            return poses
        return self.laplacian.lower(self.posterior(p), poses, steps=200, least_gain=1e-10)

    def improve(self, poses: Poses, p: Parameters) -> tuple[Poses, _Residuals]:
        """Lower U by a few steps."""
        if self.laplacian is not None:
            posterior = self.posterior(p)
            poses = self.laplacian.lower(posterior, poses, steps=8)
            used, nothing = self.laplacian.used(posterior, poses), np.zeros(self.stated.n_edges)
            return poses, _Residuals(self.stated, *Posterior(self.stated).potential_by_edge(poses), used, nothing)
        curvature = self.curvature(p)
        poses = minimise(curvature, poses, max_steps=4).poses
        return poses, _residuals(self.stated, curvature, poses)


def _residuals(graph: PoseGraph, curvature: Curvature, poses: Poses) -> _Residuals:
    rotation, translation = Posterior(graph).potential_by_edge(poses)
    try:
        factor = curvature.factor(poses.wxyz, poses.position, exact=False)
    except NotPositiveDefiniteError:  # some node is held by no edge that counts
        nothing = np.zeros(graph.n_edges)
        return _Residuals(graph, rotation, translation, nothing, nothing)
    sigma = Laplace(curvature, poses, 1.0, factor).edge_covariances()
    scaled = curvature.posterior.graph
    used_rotation = 0.5 * np.einsum("mab,mba->m", scaled.concentration_matrices, sigma[:, :3, :3])
    used_translation = np.einsum("mab,mba->m", scaled.precision_matrices, sigma[:, 3:, 3:])
    return _Residuals(graph, rotation, translation, used_rotation, used_translation)


def _distance(a: Parameters, b: Parameters) -> float:
    return max(
        abs(math.log(b.rotation_scale / a.rotation_scale)),
        abs(math.log(b.translation_scale / a.translation_scale)),
        abs(b.inlier_probability - a.inlier_probability),
    )
