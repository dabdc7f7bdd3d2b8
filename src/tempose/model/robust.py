r"""Likelihoods that survive wrong edges: a function ρ of each edge's quadratic energy, in place of the energy itself.

With :math:`e_k = \nu^T\Lambda\nu + \tfrac12 (r + Bs)^T P (r + Bs)` the energy of edge k, its measurement comes, with prior
probability :math:`\pi_k`, from the inlier density, and else from a broad one that does not depend on the poses:

.. math::

    p(\text{inlier}) = c_k\, e^{-\mathrm{core}(e_k)}, \qquad
    p(\text{outlier}) = o_k = \frac{1}{\text{all rotations}} \cdot N(t_{ij};\, 0, \sigma_o^2 I) .

Densities are with respect to the uniform probability measure on rotations (those about z, in the plane) times Lebesgue measure on
translations. A wrong position of a single node is anywhere where the measured ones are: their mean and their spread take the
place of 0 and :math:`\sigma_o`. Correlations change no constant: given the rotation they only shift the translation. The
core is e itself (Bingham × Gaussian), or heavy-tailed: if the edge's precisions are multiplied by an unknown w,
:math:`w \sim \Gamma(\tfrac\nu2, \tfrac\nu2)`, with d numbers in the measurement,

.. math::  \mathrm{core}(e) = \tfrac{\nu + d}{2} \log\left(1 + \tfrac{2e}{\nu}\right) .

This *is* the density, normalised exactly; that it comes from such w is exact for translations and small angles. Given the
energy, :math:`w \sim \Gamma(\tfrac{\nu+d}2, \tfrac\nu2 + e)`. With the indicator summed out,

.. math::

    \rho(e) = -\log\left(e^{-\mathrm{core}(e)} + e^{a}\right) + \log(1 + e^a), \qquad
    a = \log\frac{(1 - \pi) o}{\pi c},

0 at 0; :math:`\rho' = \gamma\, \mathrm{core}'` with :math:`\gamma` the probability that the edge is an inlier given its
energy: the weight of the edge in expectation maximisation, and in the gradient of U.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import interpolate, special

from tempose._typing import Array
from tempose.errors import ArgumentError
from tempose.model import von_mises
from tempose.model.bingham import log_normalizer
from tempose.model.graph import PoseGraph

_LOG_AREA = math.log(2.0 * math.pi**2)
_LOG_2PI = math.log(2.0 * math.pi)
_FEW = 4  # different concentrations whose normaliser is integrated one by one; more are interpolated
_LOWEST, _HIGHEST, _SPACING = 1e-4, 1e14, 0.1  # concentrations of the table, and the spacing of their logarithms
_NARROW = 1e4  # concentrations above it (σ < 0.8°) are joined to one: an error of the logarithm of 2e-3 for ν = 1, 1e-4 for ν = 4
_STEP = 0.15  # of the trapezoidal rule in log u: an error of exp(−π²/step) or less


@dataclass(frozen=True, eq=False)
class RobustLikelihood:
    """ρ, its derivatives and the probability of being an inlier, of every edge (m,), given energies (m,).

    Attributes
    ----------
    prior
        Prior inlier probability π (m,), in (0, 1]; 1 makes the edge an ordinary one.
    log_inlier
        Logarithm of the inlier density where the energy is 0, log c (m,).
    log_outlier
        Logarithm of the outlier density at the measurement, log o (m,).
    freedom
        Numbers d (m,) in the measurement: 3 for a rotation, 6 with a translation; 1 and 3 in the plane.
    tail
        ν of the heavy-tailed core; infinite for the Gaussian core.
    """

    prior: Array
    log_inlier: Array
    log_outlier: Array
    freedom: Array
    tail: float = math.inf

    @classmethod
    def of(
        cls,
        graph: PoseGraph,
        prior: ArrayLike,
        *,
        tail: float = math.inf,
        outlier_sigma: float | None = None,
        scales: tuple[float | Array, float | Array] = (1.0, 1.0),
    ) -> RobustLikelihood:
        """The likelihood of a graph's edges, with the graph's own precisions.

        Parameters
        ----------
        prior
            Prior inlier probability, one for all edges or one for each.
        tail
            ν > 0; infinite for the Gaussian core.
        outlier_sigma
            σ_o per axis of wrong translations; by default the spread of the measured ones (:func:`outlier_spread`). That of
            wrong positions of single nodes is always the spread of the measured ones (:func:`absolute_spread`).
        scales
            Factors of the graph's σ of rotations and of translations, one for all edges or one for each; energies must be
            taken at these.
        """
        pi = np.array(np.broadcast_to(np.asarray(prior, float), graph.n_edges))
        if not np.all((pi > 0.0) & (pi <= 1.0)):
            raise ArgumentError("prior inlier probabilities must be above 0 and at most 1")
        if not tail > 0.0:
            raise ArgumentError(f"the tail parameter must be positive (infinite for a Gaussian), not {tail}")
        sigma = outlier_spread(graph) if outlier_sigma is None else outlier_sigma
        if not sigma > 0.0:
            raise ArgumentError(f"the spread of wrong translations must be positive, not {sigma}")
        center, absolute_sigma = absolute_spread(graph)
        wide = np.where(graph.is_absolute, absolute_sigma or sigma, sigma)
        values, seen, rank = _translations(graph, np.where(graph.is_absolute[:, None], center, 0.0))
        log_outlier = -0.5 * rank * (_LOG_2PI + 2.0 * np.log(wide)) - 0.5 * np.sum(seen**2, axis=1) / wide**2
        known = values > 0.0
        half_log_det = 0.5 * np.sum(np.log(np.where(known, values, 1.0)), axis=1)
        turns = graph.ranks[0]
        log_inlier = half_log_det - rank * np.log(scales[1]) + _log_translation_factor(rank, tail, turns)
        scaled = _scaled(graph.concentration, scales[0])
        log_inlier = log_inlier - _log_rotation_integral(scaled, tail, turns, graph.is_planar)
        return cls(pi, log_inlier, log_outlier, turns + rank, tail)

    # ------------------------------------------------------------------ of the energy

    @cached_property
    def log_odds(self) -> Array:
        """Log odds a (m,) of outlier against inlier where the energy is 0; −∞ where π is 1."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-self.prior) - np.log(self.prior) + self.log_outlier - self.log_inlier)

    def core(self, energy: Array) -> Array:
        """Minus the logarithm of the inlier density, 0 at 0."""
        if math.isinf(self.tail):
            return energy
        return 0.5 * (self.tail + self.freedom) * np.log1p(2.0 * energy / self.tail)

    def core_weight(self, energy: Array) -> Array:
        """Derivative of the core: 1, or the mean of the edge's unknown factor w given its energy."""
        if math.isinf(self.tail):
            return np.ones_like(energy)
        return (self.tail + self.freedom) / (self.tail + 2.0 * energy)

    def potential(self, energy: Array) -> Array:
        """ρ."""
        return np.logaddexp(0.0, self.log_odds) - np.logaddexp(-self.core(energy), self.log_odds)

    def inlier_probability(self, energy: Array) -> Array:
        """γ: probability that each edge is an inlier, given its energy."""
        return np.asarray(special.expit(-self.core(energy) - self.log_odds))

    def weight(self, energy: Array) -> Array:
        """ρ′ = γ core′, between 0 and 1 + d/ν."""
        return self.inlier_probability(energy) * self.core_weight(energy)

    def curvature(self, energy: Array) -> Array:
        """ρ″ = γ core″ − γ (1 − γ) core′², never positive."""
        gamma, slope = self.inlier_probability(energy), self.core_weight(energy)
        bend = 0.0 if math.isinf(self.tail) else -2.0 * slope / (self.tail + 2.0 * energy)
        return gamma * bend - gamma * special.expit(self.core(energy) + self.log_odds) * slope**2

    def log_density(self, energy: Array) -> Array:
        """Logarithm of the normalised density (m,) of each measurement given the poses, indicators summed out."""
        with np.errstate(divide="ignore"):
            inlier = np.log(self.prior) + self.log_inlier - self.core(energy)
            return np.logaddexp(inlier, np.log1p(-self.prior) + self.log_outlier)

    @cached_property
    def rows(self) -> Array:
        """What the kernels read (m, 3): a, (ν + d)/2 and 2/ν; the last is 0 for the Gaussian core."""
        if math.isinf(self.tail):
            return np.stack([self.log_odds, np.zeros_like(self.freedom), np.zeros_like(self.freedom)], axis=1)
        half = 0.5 * (self.tail + self.freedom)
        return np.stack([self.log_odds, half, np.full_like(half, 2.0 / self.tail)], axis=1)


def _scaled(concentration: Array, scale: float | Array) -> Array:
    """Concentrations with σ multiplied by one factor, or by one for each edge (m,)."""
    factor = np.asarray(scale, float) ** -2.0
    return concentration * (factor.reshape(-1, *(1,) * (concentration.ndim - 1)) if factor.ndim else factor)


def outlier_spread(graph: PoseGraph) -> float:
    """Root mean square per axis of the measured translations between nodes; 1 if there are none."""
    t = graph.j_from_i_t[graph.has_translation & ~graph.is_absolute, : graph.dimension]
    return float(np.sqrt(np.mean(t**2))) or 1.0 if len(t) else 1.0


def absolute_spread(graph: PoseGraph) -> tuple[Array, float]:
    """Mean (3,) of the measured positions of single nodes, and their root mean square per axis about it; 0 if there are none.

    With a single place there is no spread: that of the translations between nodes stands in.
    """
    doubted = np.ones(graph.n_edges, dtype=bool) if graph.inlier_prior is None else graph.inlier_prior != 1.0
    fixes = graph.has_translation & doubted & (graph.edge_j == (-1 if graph.world is None else graph.world))
    known = np.diagonal(graph.translation_precision_matrices[fixes], axis1=1, axis2=2) > 0.0
    known[:, graph.dimension :] = False
    t = np.where(known, graph.j_from_i_t[fixes], 0.0)
    if not np.any(known):
        return np.zeros(3), 0.0
    center = t.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    spread = float(np.sqrt(np.mean((t - center)[known] ** 2)))
    return center, spread if spread > 1e-9 * float(np.abs(t).max(initial=0.0)) else outlier_spread(graph)


def _translations(graph: PoseGraph, center: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues (m, 3) of the precisions; the translation minus ``center`` along their axes (m, 3); how many there are (m,).

    Both are zero along axes that have no precision.
    """
    t = np.nan_to_num(graph.j_from_i_t - center)
    if graph.translation_precision.ndim == 1:
        values = np.repeat((graph.translation_precision * graph.has_translation)[:, None], 3, axis=1)
        values[:, graph.dimension :] = 0.0
        along = t
    else:
        values, vectors = np.linalg.eigh(graph.translation_precision_matrices)
        values = np.where(values > 1e-12 * values[:, -1:], values, 0.0)
        along = np.einsum("mab,ma->mb", vectors, t)
    known = values > 0.0
    return values, np.where(known, along, 0.0), known.sum(axis=1).astype(float)


def _log_translation_factor(rank: Array, tail: float, turns: Array) -> Array:
    """Logarithm of 1/∫ of the translation's part, for unit precision, of edges with ``turns`` (m,) numbers of rotation.

    With heavy tails the d-dimensional core integrates over k translations to that of d − k numbers, times
    ``(πν)^{k/2} Γ((ν + d − k)/2) / Γ((ν + d)/2)``.
    """
    if math.isinf(tail):
        return -0.5 * rank * _LOG_2PI
    return (
        special.gammaln(0.5 * (tail + turns + rank))
        - special.gammaln(0.5 * (tail + turns))
        - 0.5 * rank * math.log(math.pi * tail)
    )


def _log_rotation_integral(
    concentration: Array, tail: float, turns: Array | float = 3.0, planar: bool = False
) -> Array:
    """Logarithm (m,) of the mean over all rotations of what is left: ``exp(−core)`` of ``turns`` (m,) numbers."""
    axes = 1 if planar else 3
    if concentration.ndim == 1:
        if concentration.max(initial=0.0) == concentration.min(initial=np.inf):
            return np.full(len(concentration), _log_mean_over_rotations(np.full((1, axes), concentration[0]), tail)[0])
        unique, where = np.unique(concentration, return_inverse=True)
        if len(unique) <= _FEW:
            return _log_mean_over_rotations(np.repeat(unique[:, None], axes, axis=1), tail)[where]
        return _isotropic(unique, tail, axes)[where]
    values = np.maximum(concentration if concentration.ndim == 2 else np.linalg.eigvalsh(concentration), 0.0)
    sure = values.min(axis=1) > _NARROW
    if math.isinf(tail):
        return _log_mean_over_rotations(values, tail)
    out = np.zeros(len(values))
    if sure.sum() > _FEW:
        # where the sphere is as good as flat only the product of the three concentrations counts
        out[sure] = _isotropic(np.exp(np.log(values[sure]).mean(axis=1)), tail)
    else:
        sure = np.zeros_like(sure)
    turns = np.broadcast_to(turns, len(values))
    for count in np.unique(turns[~sure & (turns > 0)]):  # fewer for edges that say nothing about some axes
        here = ~sure & (turns == count)
        out[here] = _log_mean_over_rotations(values[here], tail, float(count))
    return out


def _isotropic(concentration: Array, tail: float, axes: int = 3) -> Array:
    """:func:`_log_mean_over_rotations` of equal concentrations λ (k,), to 1e-6, by a table and its two asymptotes.

    For small λ the logarithm is proportional to λ, for large λ it falls by ½ log λ an axis.
    """
    table = _isotropic_table(tail, axes)
    inside = np.clip(concentration, _LOWEST, _HIGHEST)
    above = -0.5 * axes * np.log(np.maximum(concentration / _HIGHEST, 1.0))
    return np.asarray(table(np.log(inside)) * np.minimum(concentration / _LOWEST, 1.0) + above)


@lru_cache(maxsize=16)
def _isotropic_table(tail: float, axes: int = 3) -> interpolate.CubicSpline:
    """:func:`_log_mean_over_rotations` of equal concentrations as a function of log λ; made once for each ν."""
    x = np.arange(math.log(_LOWEST), math.log(_HIGHEST) + 2.0 * _SPACING, _SPACING)
    return interpolate.CubicSpline(x, _log_mean_over_rotations(np.repeat(np.exp(x)[:, None], axes, axis=1), tail))


def _log_mean_over_rotations(concentrations: Array, tail: float, turns: float | None = None) -> Array:
    """Mean over S³ of ``exp(−νᵀΛν)``, or of ``(1 + 2νᵀΛν/ν_t)^(−(ν_t + d)/2)``, for Λ = diag of (k, 3).

    With one concentration each, (k, 1), the mean is over the circle. The numbers d are as many as there are axes, or ``turns``.
    The power is a Gamma mixture of exponentials, ``∫ u^(α−1) e^(−u(1 + 2E/ν_t)) du / Γ(α)`` with α = (ν_t + d)/2, so its mean
    is one of Bingham (or von Mises) normalisers; in log u, the trapezoidal rule converges geometrically.
    """
    if math.isinf(tail):
        return _log_mean_of_exponential(concentrations)
    shape = 0.5 * (tail + (concentrations.shape[1] if turns is None else turns))
    # to the right the integrand falls like exp(−u); to the left like u^(ν_t/2), and like u^α where 2uλ/ν_t < 1
    uniform = math.log(0.5 * tail) - math.log(max(float(concentrations.max(initial=1.0)), 1.0))
    low, high = max(-72.0 / tail, uniform - 18.0), math.log(shape + 12.0 * math.sqrt(shape) + 40.0)
    x = np.arange(math.log(shape) + min(low, -6.0), high, _STEP)
    u = np.exp(x)
    weight = shape * x - u - special.gammaln(shape) + math.log(_STEP)
    out = np.empty(len(concentrations))
    for k in range(0, len(out), 256):
        scaled = (2.0 / tail) * u[:, None] * concentrations[k : k + 256, None, :]
        out[k : k + 256] = special.logsumexp(weight + _log_mean_of_exponential(scaled), axis=1)
    return out


def _log_mean_of_exponential(concentrations: Array) -> Array:
    """Logarithm of the mean of ``exp(−νᵀΛν)`` over all rotations, Λ = diag of (…, 3), or over those about z, (…, 1)."""
    if concentrations.shape[-1] == 1:
        return von_mises.log_normalizer(concentrations[..., 0])
    return log_normalizer(concentrations) - _LOG_AREA
