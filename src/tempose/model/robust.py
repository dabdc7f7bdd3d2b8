r"""Likelihoods that survive wrong edges: a function ρ of each edge's quadratic energy, in place of the energy itself.

With :math:`e_k = \nu^T\Lambda\nu + \tfrac12 (r + Bs)^T P (r + Bs)` the energy of edge k, its measurement comes, with prior
probability :math:`\pi_k`, from the inlier density, and else from a broad one that does not depend on the poses:

.. math::

    p(\text{inlier}) = c_k\, e^{-\mathrm{core}(e_k)}, \qquad
    p(\text{outlier}) = o_k = \frac{1}{\text{all rotations}} \cdot o(t_{ij}) .

Densities are with respect to the uniform probability measure on rotations (those about z, in the plane) times Lebesgue measure on
translations. Correlations change no constant: given the rotation they only shift the translation. The
core is e itself (Bingham × Gaussian), or heavy-tailed: the edge's precisions are multiplied by an unknown :math:`w > \varepsilon`,
so that, with d numbers in the measurement,

.. math::  \mathrm{core}(e) = \tfrac{\nu + d}{2} \log\left(1 + \tfrac{2e}{\nu}\right) + \varepsilon e .

This *is* the density, normalised exactly; that of w is proportional to
:math:`(w - \varepsilon)^{(\nu + d)/2 - 1} w^{-d/2} e^{-\nu w/2}`, which but for ε is :math:`\Gamma(\tfrac\nu2, \tfrac\nu2)` (for
translations and small angles). Given the energy, :math:`w - \varepsilon \sim \Gamma(\tfrac{\nu+d}2, \tfrac\nu2 + e)`. The noise of
a right measurement is thus at most :math:`1/\sqrt\varepsilon = 100` times what it usually is. Without ε no error would be too
large for a right measurement: rotations end at 180°, and there a heavy tail could beat the density of wrong ones.

**Wrong translations** of k numbers have the spread s of the measured ones, and a tail heavier than any core: with
:math:`V = (|t|/s)^k/R^k` a ball's volume,

.. math::  o(t) = \frac{1}{(2\pi)^{k/2} s^k} \cdot \frac{1}{\sqrt{1 + V^2}\,(1 + (\tfrac1k\operatorname{asinh} V)^2)}, \qquad
           R^k = \frac{2}{\pi k}\, 2^{k/2}\, \Gamma(1 + \tfrac k2),

which is as high at 0 as :math:`N(0, s^2 I)` and not far from it up to 3s; it never falls faster than :math:`|t|^{-(k+1)}`, as the
heaviest core (ν = 1) does, and in the end like :math:`|t|^{-k}/\log^2|t|`, as slowly as a density can. Its integral is that of a
half-Cauchy density, of asinh V. Along each axis s² is :math:`\sigma_o^2 + (5\sigma)^2`: wrong measurements are noisy, too, and
with a narrower density a larger error could look better. So the grosser an error, the surer the verdict. A wrong position of a
single node is anywhere where the measured ones are: their centre and spread take the place of 0 and :math:`\sigma_o`.

With the indicator summed out,

.. math::

    \rho(e) = -\log\left(e^{-\mathrm{core}(e)} + e^{a}\right) + \log(1 + e^a), \qquad
    a = \log\frac{(1 - \pi) o}{\pi c},

0 at 0; :math:`\rho' = \gamma\, \mathrm{core}'` with :math:`\gamma` the probability that the edge is an inlier given its
energy: the weight of the edge in expectation maximisation, and in the gradient of U.

**Only precise edges.** Where rough edges, those of small w, err alike, they outvote the precise ones
(:func:`tempose.outliers.em.fit`). Then only edges with :math:`w > \varepsilon = \tfrac12` move the poses: ρ has the core with this
ε, and in a wrong edges and rough ones together, as probable as they are where e = 0,

.. math::  e^a = \frac{(1 - \pi) o + \pi c\, F}{\pi c\, (1 - F)}, \qquad
           F = P(w < \varepsilon \mid e = 0), \quad w \sim \Gamma(\tfrac{\nu+d}2, \tfrac\nu2) .

That is a loss and no density of the measurements; noise, verdicts and evidence are still those of the whole likelihood.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tempose._typing import Array, Index, Mask
from tempose.errors import ArgumentError
from tempose.model import von_mises
from tempose.model.bingham import log_normalizer
from tempose.model.graph import PoseGraph

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

_LOG_AREA = math.log(2.0 * math.pi**2)
_LOG_2PI = math.log(2.0 * math.pi)
# chosen on: Madrid and EPFL rotations; the largest power of ten that leaves their errors as they are without it
LEAST_WEIGHT = 1e-4  # ε of heavy-tailed cores: right measurements are at most a hundred times as noisy as usual
# chosen on: simulated rotations with rough edges that err alike (benchmarks/rough_edges.py, seeds 500 to 803); Madrid had been seen
PRECISE = 0.5  # least factor of the precision of edges that are precise: they are at most 1.4 times as noisy as usual
_WIDER = 5.0  # σ: wrong translations are spread at least that wide; with less, larger errors could look better
_FEW = 4  # different concentrations whose normaliser is integrated one by one; more are interpolated
_LOWEST, _HIGHEST, _SPACING = 1e-4, 1e14, 0.1  # concentrations of the table, and the spacing of their logarithms
_NARROW = 1e4  # concentrations above it (σ < 0.8°) are joined to one: an error of the logarithm of 2e-3 for ν = 1, 1e-4 for ν = 4
_STEP = 0.15  # of the trapezoidal rule in log u: an error of exp(−π²/step) or less
_KNOTS, _TOGETHER = 0.2, 2048  # spacing of the table of rays, and how many are integrated at once


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
    least_weight
        ε of the core of ρ: what moves the poses. Above :data:`LEAST_WEIGHT` only edges that precise do.
    """

    prior: Array
    log_inlier: Array
    log_outlier: Array
    freedom: Array
    tail: float = math.inf
    least_weight: float = LEAST_WEIGHT

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
        return cls(pi, *_densities(graph, tail, sigma, scales), tail)

    # ------------------------------------------------------------------ of the energy

    @cached_property
    def log_odds(self) -> Array:
        """Log odds a (m,) of outlier against inlier where the energy is 0; −∞ where π is 1."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-self.prior) - np.log(self.prior) + self.log_outlier - self.log_inlier)

    def core(self, energy: Array) -> Array:
        """Minus the logarithm of the inlier density, 0 at 0."""
        return self._core(energy, LEAST_WEIGHT)

    def core_weight(self, energy: Array) -> Array:
        """Derivative of the core: 1, or the mean of the edge's unknown factor w given its energy."""
        return self._core_weight(energy, LEAST_WEIGHT)

    def inlier_probability(self, energy: Array) -> Array:
        """γ: probability that each edge is an inlier, given its energy."""
        return np.asarray(special.expit(-self.core(energy) - self.log_odds))

    def predicted_probability(self, z2: Array, freedom: Array | Index, log_spread: Array) -> Array:
        """Probability (m,) that each edge is right, from what the rest predicts for it; its prior where nothing checks it.

        The prediction of the measurement, if it is an inlier, has the density of the noise widened by what the rest does
        not know: ``log c − core(½ z²) − ½ log det(I + S)``. Numbers that nothing checks are as likely either way, and what is
        predicted exactly never speaks against an edge, however vague the prediction: of a right edge, too, nobody expects
        that it leads farther than measured ones do, which the prediction by the rest does not know.
        """
        share = freedom / self.freedom
        with np.errstate(divide="ignore"):
            prior = np.log1p(-self.prior) - np.log(self.prior)
        core = self.core(0.5 * np.where(freedom > 0, z2, 0.0))
        against = core + np.minimum(share * (self.log_outlier - self.log_inlier) + 0.5 * log_spread, 0.0)
        return np.asarray(special.expit(-prior - np.where(freedom > 0, against, 0.0)))

    def _core(self, energy: Array, least_weight: float) -> Array:
        if math.isinf(self.tail):
            return energy
        return 0.5 * (self.tail + self.freedom) * np.log1p(2.0 * energy / self.tail) + least_weight * energy

    def _core_weight(self, energy: Array, least_weight: float) -> Array:
        if math.isinf(self.tail):
            return np.ones_like(energy)
        return (self.tail + self.freedom) / (self.tail + 2.0 * energy) + least_weight

    # ------------------------------------------------------------------ what moves the poses

    @property
    def is_precise_only(self) -> bool:
        """Whether only precise edges move the poses (:meth:`precise_only`)."""
        return self.least_weight > LEAST_WEIGHT

    def precise_only(self) -> RobustLikelihood:
        """The same for the verdicts, but with a ρ by which only edges with a w of at least :data:`PRECISE` move the poses."""
        return self if math.isinf(self.tail) else replace(self, least_weight=PRECISE)

    @cached_property
    def _moving_log_odds(self) -> Array:
        """Log odds (m,), where the energy is 0, that an edge does not move the poses: it is wrong, or rough."""
        if not self.is_precise_only:
            return self.log_odds
        rough = special.gammainc(0.5 * (self.tail + self.freedom), 0.5 * self.tail * self.least_weight)
        return np.asarray(np.logaddexp(np.log(rough), self.log_odds) - np.log1p(-rough))

    def potential(self, energy: Array) -> Array:
        """ρ."""
        log_odds = self._moving_log_odds
        return np.logaddexp(0.0, log_odds) - np.logaddexp(-self._core(energy, self.least_weight), log_odds)

    def moving_probability(self, energy: Array) -> Array:
        """Probability that each edge moves the poses, given its energy: that it is an inlier, or a precise one."""
        return np.asarray(special.expit(-self._core(energy, self.least_weight) - self._moving_log_odds))

    def weight(self, energy: Array) -> Array:
        """ρ′ = γ core′, between 0 and 1 + d/ν + ε."""
        return self.moving_probability(energy) * self._core_weight(energy, self.least_weight)

    def curvature(self, energy: Array) -> Array:
        """ρ″ = γ core″ − γ (1 − γ) core′², never positive."""
        gamma, slope = self.moving_probability(energy), self._core_weight(energy, self.least_weight)
        bend = 0.0 if math.isinf(self.tail) else -2.0 * (slope - self.least_weight) / (self.tail + 2.0 * energy)
        core = self._core(energy, self.least_weight)
        return gamma * bend - gamma * special.expit(core + self._moving_log_odds) * slope**2

    def log_density(self, energy: Array) -> Array:
        """Logarithm of the normalised density (m,) of each measurement given the poses, indicators summed out."""
        with np.errstate(divide="ignore"):
            inlier = np.log(self.prior) + self.log_inlier - self.core(energy)
            return np.logaddexp(inlier, np.log1p(-self.prior) + self.log_outlier)

    def draw_weights(self, energy: Array, rng: np.random.Generator) -> Array:
        """Each edge's factor w (m,) of its precisions given its energy and that it moves the poses: 1 for the Gaussian core."""
        if math.isinf(self.tail):
            return np.ones_like(energy)
        shape = 0.5 * (self.tail + self.freedom)
        return self.least_weight + rng.standard_gamma(shape) / (0.5 * self.tail + energy)

    @cached_property
    def rows(self) -> Array:
        """What the kernels read (m, 4): a; ε, (ν + d)/2 and 2/ν of the core, which are 1, 0 and 0 for the Gaussian one."""
        one, log_odds = np.ones_like(self.freedom), self._moving_log_odds
        if math.isinf(self.tail):
            return np.stack([log_odds, one, 0.0 * one, 0.0 * one], axis=1)
        half = 0.5 * (self.tail + self.freedom)
        return np.stack([log_odds, self.least_weight * one, half, 2.0 / self.tail * one], axis=1)


class _Measured(NamedTuple):
    """What :func:`_densities` reads of a graph, and what it made of it at the last noise levels."""

    wide: Array | None  # (m,) spread of wrong positions of single nodes; None if there are none
    values: Array  # (m, 3)
    seen: Array  # (m, 3)
    known: Mask  # (m, 3)
    rank: Array  # (m,)
    half_log_det: Array  # (m,)
    rays: Rays | None  # of concentrations that differ from axis to axis
    last: dict[tuple[float, ...], tuple[Array, Array, Array]]

    @classmethod
    def of(cls, graph: PoseGraph) -> _Measured:
        center, absolute_sigma = absolute_spread(graph)
        values, seen, rank = _translations(graph, np.where(graph.is_absolute[:, None], center, 0.0))
        known = values > 0.0
        half_log_det = 0.5 * np.sum(np.log(np.where(known, values, 1.0)), axis=1)
        wide = np.where(graph.is_absolute, absolute_sigma, np.nan) if absolute_sigma else None
        rays = None if graph.concentration.ndim == 1 else Rays(_of_axes(graph.concentration))
        return cls(wide, values, seen, known, rank, half_log_det, rays, {})


_measured: weakref.WeakKeyDictionary[PoseGraph, _Measured] = weakref.WeakKeyDictionary()


def _densities(
    graph: PoseGraph, tail: float, sigma: float, scales: tuple[float | Array, float | Array]
) -> tuple[Array, Array, Array]:
    """Logarithms (m,) of the densities of right ones where the energy is 0, and of wrong ones; numbers in each (m,).

    Those of one noise level are remembered: estimates ask for them with one share of right edges after the other.
    """
    if (m := _measured.get(graph)) is None:
        m = _measured[graph] = _Measured.of(graph)
    level = (tail, sigma, *map(float, scales)) if np.ndim(scales[0]) == 0 and np.ndim(scales[1]) == 0 else None
    known = None if level is None else m.last.get(level)  # asked once: another thread may ask for another level
    if known is not None:
        return known
    wide = np.full(graph.n_edges, sigma) if m.wide is None else np.where(np.isnan(m.wide), sigma, m.wide)
    variance = np.square(scales[1])[..., None] / np.where(m.known, m.values, np.inf)
    log_outlier = _log_wide(m.seen, np.sqrt(wide[:, None] ** 2 + _WIDER**2 * variance), m.known)
    turns = graph.ranks[0]
    if m.rays is None:
        log_integral = _log_integral(_scaled(graph.concentration, scales[0]), tail, turns, m.rank, graph.is_planar)
    else:
        log_integral = m.rays.log_integral(-2.0 * np.log(scales[0]) * np.ones(graph.n_edges), tail, turns, m.rank)
    found = m.half_log_det - m.rank * np.log(scales[1]) - log_integral, log_outlier, turns + m.rank
    m.last.clear()
    if level is not None:
        m.last[level] = found
    return found


def _scaled(concentration: Array, scale: float | Array) -> Array:
    """Concentrations (m,) with σ multiplied by one factor, or by one for each edge (m,)."""
    return np.asarray(concentration * np.asarray(scale, float) ** -2.0)


def outlier_spread(graph: PoseGraph) -> float:
    """Spread per axis of the measured translations between nodes, about 0; 1 if there are none.

    From the median of their squared lengths, which is the standard deviation of Gaussian ones, and of no account to a few gross
    errors. Those of exactly zero count only if there are no others.
    """
    _, seen, rank = _translations(graph, np.zeros(3))
    between = (rank > 0) & ~graph.is_absolute
    return _median_spread(np.sum(seen[between] ** 2, axis=1), rank[between]) or 1.0


def absolute_spread(graph: PoseGraph) -> tuple[Array, float]:
    """Median (3,) of the measured positions of single nodes, and their spread per axis about it; 0 if there are none.

    With a single place there is no spread: that of the translations between nodes stands in.
    """
    doubted = np.ones(graph.n_edges, dtype=bool) if graph.inlier_prior is None else graph.inlier_prior != 1.0
    fixes = graph.has_translation & doubted & (graph.edge_j == (-1 if graph.world is None else graph.world))
    known = np.diagonal(graph.translation_precision_matrices[fixes], axis1=1, axis2=2) > 0.0
    known[:, graph.dimension :] = False
    if not np.any(known):
        return np.zeros(3), 0.0
    t = graph.j_from_i_t[fixes]
    center = np.array([np.median(t[known[:, a], a]) if np.any(known[:, a]) else 0.0 for a in range(3)])
    away = np.where(known, t - center, 0.0)
    spread = _median_spread(np.sum(away**2, axis=1), known.sum(axis=1))
    return center, spread if spread > 1e-9 * float(np.abs(center).max()) else outlier_spread(graph)


def _median_spread(squares: Array, numbers: Array) -> float:
    """σ per axis of Gaussian vectors whose squared lengths (m,) these are, each of that many numbers; 0 if there are none."""
    some = squares > 0.0
    if not np.any(some):
        return 0.0
    return float(np.sqrt(np.median(squares[some] / (2.0 * special.gammaincinv(0.5 * numbers[some], 0.5)))))


def _log_wide(t: Array, spread: Array, known: Mask) -> Array:
    """Logarithm of the density of wrong translations (m,), of ``spread`` (m, 3) along each known axis of t (m, 3)."""
    k = known.sum(axis=1)
    log_height = -0.5 * k * _LOG_2PI - np.sum(np.log(spread), axis=1, where=known)
    with np.errstate(divide="ignore"):
        log_length = np.log(np.linalg.norm(np.where(known, t / spread, 0.0), axis=1))
    log_volume = np.maximum(k, 1) * log_length - 0.5 * k * math.log(2.0) - special.gammaln(1.0 + 0.5 * k)
    log_volume = np.where(k > 0, log_volume + np.log(0.5 * math.pi * np.maximum(k, 1)), -np.inf)
    arc = np.where(log_volume > 20.0, log_volume + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_volume, 20.0))))
    return np.asarray(log_height - 0.5 * np.logaddexp(0.0, 2.0 * log_volume) - np.log1p((arc / np.maximum(k, 1)) ** 2))


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


def _log_integral(concentration: Array, tail: float, turns: Array, moves: Array, planar: bool = False) -> Array:
    """Logarithm (m,) of the integral of ``exp(−core)`` of ``turns + moves`` numbers, for one concentration (m,) each.

    It is the mean over all rotations, and the integral over ``moves`` (m,) translations of unit precision.
    """
    out = np.zeros(len(concentration))
    for count in np.unique(moves):
        here = moves == count
        out[here] = _log_integral_of_alike(concentration[here], tail, float(count), planar)
    return out


def _log_integral_of_alike(concentration: Array, tail: float, moves: float, planar: bool) -> Array:
    """:func:`_log_integral` of edges that measure equally many translations."""
    axes = 1 if planar else 3
    unique, where = np.unique(concentration, return_inverse=True)
    if len(unique) <= _FEW or math.isinf(tail):
        values = np.repeat(unique[:, None], axes, axis=1)
        turned = np.where(unique > 0.0, float(axes), 0.0)
        return _by_turns(values, tail, turned, moves)[where]
    out = _isotropic(unique, tail, axes, moves)
    if unique[0] == 0.0:
        out[0] = _log_mean_over_rotations(np.zeros((1, axes)), tail, 0.0, moves)[0]
    return out[where]


def _of_axes(concentration: Array) -> Array:
    """Concentrations along three axes (m, 3) of those along the axes of a frame, or of matrices (m, 3, 3)."""
    return np.maximum(concentration if concentration.ndim == 2 else np.linalg.eigvalsh(concentration), 0.0)


class Rays:
    """The same for concentrations along three axes (m, 3), which a noise level multiplies all alike.

    So an edge needs the mean of ``exp(−eʸ νᵀΛν)`` over all rotations as a function of y alone, whatever the noise and the tail. It
    is tabulated where it is asked for, and interpolated from six knots: to 10⁻⁶.
    """

    def __init__(self, values: Array) -> None:
        self.values = values
        self._ends = np.arange(_TOGETHER, len(values), _TOGETHER)
        self._found: dict[int, Array] = {}

    def log_integral(self, y: Array, tail: float, turns: Array, moves: Array) -> Array:
        """Logarithm (m,) of the integral of ``exp(−core)`` as in :func:`_log_integral`, of concentrations times eʸ, y (m,)."""
        if math.isinf(tail):
            exact = _log_mean_of_exponential(self.values * np.exp(y)[:, None])
            return np.asarray(exact + 0.5 * moves * _LOG_2PI)
        out, least = np.zeros(len(self.values)), self.values.min(axis=1)
        sure = np.log(least, where=least > 0.0, out=np.full(len(least), -np.inf)) + y > math.log(_NARROW)
        for count in np.unique(moves):
            # where the sphere is as good as flat only the product of the three concentrations counts
            here = sure & (moves == count)
            mean = np.exp(np.log(self.values[here]).mean(axis=1) + y[here])
            out[here] = _isotropic(mean, tail, 3, float(count)) if np.any(here) else 0.0
        for level, turned, count in np.unique(np.stack([y, turns, moves])[:, ~sure], axis=1).T:
            rows = np.flatnonzero(~sure & (y == level) & (turns == turned) & (moves == count))
            weight, w = _mixture(tail, turned, count)
            for some in np.split(rows, np.arange(_TOGETHER, len(rows), _TOGETHER)):
                out[some] = special.logsumexp(weight[:, None] + self._at(np.log(w) + level, some), axis=0)
        return out

    def _at(self, y: Array, rows: Index) -> Array:
        """Logarithms (k, r) of the means at y (k,), of some edges (r,)."""
        first = np.floor(y / _KNOTS).astype(np.int64) - 2
        lowest, highest = int(first.min()), int(first.max()) + 5
        for knot in range(lowest, highest + 1):
            if knot not in self._found:
                some = np.split(self.values * math.exp(knot * _KNOTS), self._ends)
                self._found[knot] = np.concatenate([_log_mean_of_exponential(one) for one in some])
        table = np.stack([self._found[knot][rows] for knot in range(lowest, highest + 1)])
        part, out = y / _KNOTS - first, np.zeros((len(y), len(rows)))
        for k in range(6):
            others = [j for j in range(6) if j != k]
            share = np.prod([(part - j) / (k - j) for j in others], axis=0)
            out += share[:, None] * table[first - lowest + k]
        return out


def _by_turns(values: Array, tail: float, turns: Array, moves: float) -> Array:
    """:func:`_log_mean_over_rotations` of edges with ``turns`` (m,) numbers each: fewer if nothing is known of some axes."""
    out = np.empty(len(values))
    for count in np.unique(turns):
        here = turns == count
        out[here] = _log_mean_over_rotations(values[here], tail, float(count), moves)
    return out


def _isotropic(concentration: Array, tail: float, axes: int = 3, moves: float = 0.0) -> Array:
    """:func:`_log_mean_over_rotations` of equal concentrations λ (k,), to 1e-6, by a table and its two asymptotes.

    For small λ the logarithm changes in proportion to λ, for large λ it falls by ½ log λ an axis.
    """
    at_zero, table = _isotropic_table(tail, axes, moves)
    inside = np.clip(concentration, _LOWEST, _HIGHEST)
    above = -0.5 * axes * np.log(np.maximum(concentration / _HIGHEST, 1.0))
    change = table(np.log(inside)) - at_zero
    return np.asarray(at_zero + change * np.minimum(concentration / _LOWEST, 1.0) + above)


@lru_cache(maxsize=64)
def _isotropic_table(tail: float, axes: int = 3, moves: float = 0.0) -> tuple[float, CubicSpline]:
    """:func:`_log_mean_over_rotations` of equal concentrations: at 0, and as a function of log λ; made once for each ν."""
    x = np.arange(math.log(_LOWEST), math.log(_HIGHEST) + 2.0 * _SPACING, _SPACING)
    values = np.repeat(np.concatenate([[0.0], np.exp(x)])[:, None], axes, axis=1)
    found = _log_mean_over_rotations(values, tail, moves=moves)
    from scipy.interpolate import CubicSpline

    return float(found[0]), CubicSpline(x, found[1:])


def _log_mean_over_rotations(
    concentrations: Array, tail: float, turns: float | None = None, moves: float = 0.0
) -> Array:
    """Mean over S³ of the integral of ``exp(−core(νᵀΛν + ½|t|²))`` over ``moves`` numbers t, for Λ = diag of (k, 3).

    With one concentration each, (k, 1), the mean is over the circle. Rotations have as many numbers as there are axes, or
    ``turns``. The power in a heavy-tailed core is a Gamma mixture of exponentials,
    ``(1 + 2E/ν_t)^(−α) = ∫ u^(α−1) e^(−u(1 + 2E/ν_t)) du / Γ(α)`` with α = (ν_t + d)/2, so the integral is one of Gaussians and of
    Bingham (or von Mises) normalisers at the precisions ``2u/ν_t + ε``; in log u, the trapezoidal rule converges geometrically.
    """
    if math.isinf(tail):
        return _log_mean_of_exponential(concentrations) + 0.5 * moves * _LOG_2PI
    weight, w = _mixture(tail, concentrations.shape[1] if turns is None else turns, moves)
    out = np.empty(len(concentrations))
    for k in range(0, len(out), 256):
        scaled = w[:, None] * concentrations[k : k + 256, None, :]
        out[k : k + 256] = special.logsumexp(weight + _log_mean_of_exponential(scaled), axis=1)
    return out


def _mixture(tail: float, turns: float, moves: float) -> tuple[Array, Array]:
    """Logarithms of the weights (k,) of that trapezoidal rule, and the precisions (k,) that it is a mixture of."""
    shape = 0.5 * (tail + turns + moves)
    # to the right the integrand falls like exp(−u); to the left like u^(ν_t/2) at first, and like u^α where 2u/ν_t < ε
    center = math.log(shape)
    low = max(center - 72.0 / tail, math.log(0.5 * tail * LEAST_WEIGHT) - 40.0 / shape)
    high = math.log(shape + 12.0 * math.sqrt(shape) + 40.0)
    x = np.arange(min(low, center - 6.0), high, _STEP)
    u = np.exp(x)
    w = (2.0 / tail) * u + LEAST_WEIGHT
    weight = shape * x - u - special.gammaln(shape) + math.log(_STEP) + 0.5 * moves * (_LOG_2PI - np.log(w))
    return weight, w


def _log_mean_of_exponential(concentrations: Array) -> Array:
    """Logarithm of the mean of ``exp(−νᵀΛν)`` over all rotations, Λ = diag of (…, 3), or over those about z, (…, 1)."""
    if concentrations.shape[-1] == 1:
        return von_mises.log_normalizer(concentrations[..., 0])
    return log_normalizer(concentrations) - _LOG_AREA
