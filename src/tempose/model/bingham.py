"""The Bingham distribution on the unit quaternions S³, blind to the sign of its argument.

The density with respect to the area measure of the sphere (total area 2π²) is::

    p(x) = exp(−Σₖ λₖ (vₖ · x)²) / F(λ),    k = 1, 2, 3,

with orthonormal axes v₁, v₂, v₃, orthogonal to the mode v₀, and concentrations λₖ ≥ 0: larger is surer, 0 is
indifferent, and Λ = −λ in the paper's notation. F depends on λ alone.

The normaliser. Integrating ``exp(−Σ (λₖ + t) xₖ²)`` over ℝ⁴ in Cartesian and in polar coordinates shows that
``u F(uλ)`` has the Laplace transform ``2π² Π (λₖ + t)^(−1/2)``, the product over k = 0 … 3 with λ₀ = 0. So ::

    F(λ) = 2π² · (1/2πi) ∫ eᵗ Π (λₖ + t)^(−1/2) dt

along any path around the negative real axis. The trapezoidal rule on Talbot's contour converges geometrically
and uniformly in λ, because every singularity stays on that axis. Moments are the same integral, divided by F, with
a rational factor::

    E[xₖ²] = −∂ log F/∂λₖ  ⇐  1 / (2 (λₖ + t)),      E[xⱼ² xₖ²]  ⇐  (1 + 2δⱼₖ) / (4 (λⱼ + t)(λₖ + t)),

where xₖ = vₖ · x, so derivatives are as accurate as F itself and need no differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tempose._typing import Array
from tempose.errors import ArgumentError
from tempose.geometry import quaternion, sphere

__all__ = [
    "Bingham",
    "concentration_from_sigma",
    "log_normalizer",
    "log_normalizer_gradient",
    "log_normalizer_hessian",
    "sigma_from_concentration",
]

_LOG_AREA = float(np.log(2.0 * np.pi**2))
_UNIT_TOLERANCE = 1e-6  # off by more than this is a mistake, by less is rounding in a file
_LARGEST = 1e200  # keeps every square and product of concentrations and components in range
_SMALLEST_MOMENT = 1e-20  # a spread of 1e-10 is where double precision stops telling samples apart


def _talbot_contour(n: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Nodes and weights (n/2,): ``(1/2πi) ∫ eᵗ f(t) dt = Re Σ w f(t)`` for functions f real on the real axis.

    The contour is ``t(θ) = n (0.5017 θ cot(0.6407 θ) − 0.6122 + 0.2645 iθ)``, −π < θ < π, the optimal one
    of Weideman (SIAM J. Numer. Anal. 44, 2006); only its upper half is kept. The error falls like exp(−1.36 n),
    rounding grows like exp(0.17 n); n = 32 balances the two for F and for its second derivatives, near 1e-13.
    """
    theta = (2 * np.arange(n // 2) + 1) * np.pi / n
    cot = 1.0 / np.tan(0.6407 * theta)
    t = n * (0.5017 * theta * cot - 0.6122 + 0.2645j * theta)
    slope = n * (0.5017 * (cot - 0.6407 * theta * (1.0 + cot**2)) + 0.2645j)
    return t, np.exp(t) * slope * (2.0 / (1j * n))


_T, _W = _talbot_contour(32)


def _contour(full: Array) -> tuple[Array, NDArray[np.complex128], NDArray[np.complex128]]:
    """Log F, the normalised integrand (..., m), and 1/(λₖ + t) (..., 4, m), for λ (..., 4) of any sign."""
    lowest = full.min(axis=-1)
    shifted = full - lowest[..., None]  # Σ xₖ² = 1: a common shift of all four λ only scales F
    # the scale 1 + λ keeps the product within range for every finite λ
    ratio = (1.0 + shifted)[..., None] / (shifted[..., None] + _T)
    terms = _W * np.sqrt(ratio).prod(axis=-2)
    total = terms.real.sum(axis=-1)
    log_f = _LOG_AREA + np.log(total) - 0.5 * np.log1p(shifted).sum(axis=-1) - lowest
    return log_f, terms / total[..., None], ratio / (1.0 + shifted)[..., None]


def _second_moments(full: Array) -> Array:
    """E[xₖ²], (..., 4), of λ (..., 4)."""
    _, terms, factors = _contour(full)
    return np.asarray(0.5 * np.einsum("...m,...km->...k", terms, factors).real)


def _second_and_fourth_moments(full: Array) -> tuple[Array, Array]:
    """E[xₖ²], (..., 4), and E[xⱼ² xₖ²], (..., 4, 4), of λ (..., 4)."""
    _, terms, factors = _contour(full)
    second = 0.5 * np.einsum("...m,...km->...k", terms, factors).real
    fourth = 0.25 * np.einsum("...m,...jm,...km->...jk", terms, factors, factors).real
    return np.asarray(second), np.asarray(fourth * (1.0 + 2.0 * np.eye(4)))


def _with_mode(concentrations: ArrayLike) -> Array:
    """Validate concentrations (..., 3) and put the mode's 0 in front: (..., 4)."""
    values = np.asarray(concentrations, float)
    if values.ndim == 0 or values.shape[-1] != 3:
        raise ArgumentError(f"concentrations need a last dimension of 3, got shape {values.shape}")
    bad = values[~((values >= 0.0) & (values <= _LARGEST))]
    if bad.size:
        raise ArgumentError(f"concentrations must be between 0 and {_LARGEST:g} (larger = surer), got {bad[0]:g}")
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), values], axis=-1)


def log_normalizer(concentrations: ArrayLike) -> Array:
    """Logarithm of ``F(λ) = ∫ exp(−Σ λₖ xₖ²) dS`` over S³.

    Parameters
    ----------
    concentrations
        λ (..., 3), each in [0, 1e200], in any order, equal or not.

    Returns
    -------
    Array
        (...), ``log 2π²`` at λ = 0. The relative error of F is below 1e-12; measured, 1.3e-13.
    """
    return _contour(_with_mode(concentrations))[0]


def log_normalizer_gradient(concentrations: ArrayLike) -> Array:
    """Gradient ``∂ log F/∂λₖ = −E[(vₖ · x)²]``, (..., 3), of λ (..., 3); each entry to a relative 1e-12."""
    return -_second_moments(_with_mode(concentrations))[..., 1:]


def log_normalizer_hessian(concentrations: ArrayLike) -> Array:
    """Hessian of log F, (..., 3, 3): the covariance of ``(vⱼ · x)²`` and ``(vₖ · x)²``, for λ (..., 3)."""
    second, fourth = _second_and_fourth_moments(_with_mode(concentrations))
    return (fourth - second[..., :, None] * second[..., None, :])[..., 1:, 1:]


def concentration_from_sigma(sigma: ArrayLike) -> Array:
    """Concentration ``λ = 2/σ²`` of a rotation angle with standard deviation σ > 0 (radians) about one axis.

    A small-angle relation, ``λ sin²(θ/2) ≈ θ²/(2σ²)``. With three equal λ the standard deviation of each
    component of the rotation vector is ``σ (1 + σ²/3 + …)``: 0.3 % more than σ at 0.1 rad, 3 % at 0.3 rad.
    """
    values = np.asarray(sigma, float)
    if not np.all(values > 0.0):
        raise ArgumentError(f"an angular standard deviation must be > 0 radians, got {values.min():g}")
    return np.asarray(2.0 / values**2)


def sigma_from_concentration(concentration: ArrayLike) -> Array:
    """Angular standard deviation ``σ = √(2/λ)`` in radians; the inverse of :func:`concentration_from_sigma`.

    A small-angle relation, for λ ≫ 1; no concentration at all (λ = 0) gives infinity.
    """
    values = np.asarray(concentration, float)
    if not np.all(values >= 0.0):
        raise ArgumentError(f"a concentration must be ≥ 0 (larger = surer), got {values.min():g}")
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(2.0 / values))


def _concentrations_from_moments(moments: Array) -> Array:
    """Solve ``E[xₖ²] = mₖ`` for λ (3,), given m (4,) in descending order, positive, of sum 1.

    Newton's method on ``mₖ/E[xₖ²] − 1``, which is linear in λ both near the uniform distribution and in the limit
    of high concentration, ``E → 1/(2λ)``. Its Jacobian is never singular, so a short enough step always helps.
    """

    def evaluate(lam: Array) -> tuple[float, Array]:
        second, fourth = _second_and_fourth_moments(np.concatenate([[0.0], lam]))
        # covariance of xₖ²/E[xₖ²]: well conditioned whatever the concentrations
        scaled = (fourth / (second[:, None] * second) - 1.0)[1:, 1:]
        step = np.linalg.solve(scaled, (second / moments - 1.0)[1:]) / second[1:]
        return float(np.abs(moments / second - 1.0).max()), np.asarray(step)

    lam = 0.5 * (1.0 / moments[1:] - 1.0 / moments[0])
    error, step = evaluate(lam)
    fraction = 1.0
    while error > 1e-13 and fraction > 1e-6:
        candidate = lam + fraction * step
        new_error, new_step = evaluate(candidate)
        if new_error < error:
            lam, error, step, fraction = candidate, new_error, new_step, 1.0
        else:
            fraction *= 0.5
    if error > 1e-8:
        raise ArgumentError(f"no Bingham distribution found with moments {moments}: relative error {error:.1e}")
    return np.asarray(np.maximum(lam, 0.0))


def _envelope(full: Array) -> tuple[Array, float]:
    """Eigenvalues of Ω = I + 2A/b (4,) and the logarithm of a bound on ``exp(−xᵀAx) (xᵀΩx)²``, A = diag λ (4,).

    The bound is attained where ``xᵀΩx = 4/b``. Any b in (0, 4] gives a valid one; the most efficient solves
    ``Σ 1/(b + 2λₖ) = 1``, here by Newton's method, which climbs to the root from b = 1 as the smallest λₖ is 0.
    """
    b, step = 1.0, 1.0
    while step > 1e-12:
        inverse = 1.0 / (b + 2.0 * full)
        step = float((inverse.sum() - 1.0) / (inverse @ inverse))
        b += step
    return 1.0 + 2.0 * full / b, float(2.0 * np.log(4.0 / b) - (4.0 - b) / 2.0)


@dataclass(frozen=True, eq=False)
class Bingham:
    """Bingham distribution on S³, ``p(x) = exp(−Σ λₖ (vₖ · x)²) / F(λ)`` with respect to the sphere's area.

    Parameters
    ----------
    axes
        (4, 4) orthonormal, any handedness; column 0 is the mode (``wxyz``), columns 1 … 3 are v₁, v₂, v₃.
    concentrations
        (3,) λₖ ≥ 0 of columns 1 … 3, in any order. Larger is surer: λ = 2/σ² for a small angular standard
        deviation σ in radians.

    Notes
    -----
    Both arrays are copied and read-only. With some λₖ = 0 the mode is not unique: every unit vector in the span
    of column 0 and those vₖ has the same density.
    """

    axes: Array
    concentrations: Array

    def __post_init__(self) -> None:
        axes = np.array(self.axes, float)
        lam = np.array(self.concentrations, float)
        if axes.shape != (4, 4):
            raise ArgumentError(f"axes must have shape (4, 4), the mode in column 0, got {axes.shape}")
        off = np.abs(axes.T @ axes - np.eye(4)).max()
        if not off < _UNIT_TOLERANCE:
            raise ArgumentError(f"the columns of axes must be orthonormal, they are off by {off:.1e}")
        if lam.shape != (3,):
            raise ArgumentError(f"concentrations must have shape (3,), got {lam.shape}")
        _with_mode(lam)
        u, _, vt = np.linalg.svd(axes)
        axes = u @ vt  # the nearest exactly orthonormal matrix
        for name, value in (("axes", axes), ("concentrations", lam)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @classmethod
    def uniform(cls) -> Bingham:
        """The uniform distribution: all concentrations 0, axes the identity."""
        return cls(np.eye(4), np.zeros(3))

    @classmethod
    def from_mode(cls, mode_wxyz: ArrayLike, concentrations: ArrayLike) -> Bingham:
        """The paper's parametrisation: ``p(x) ∝ exp(−νᵀ Λ ν)`` with ``ν = vec(x ⊗ q̄)``, q the mode.

        Parameters
        ----------
        mode_wxyz
            (4,) unit quaternion q.
        concentrations
            One λ ≥ 0 for all axes, or one for each (3,), or a symmetric positive semi-definite Λ (3, 3). If q is
            ``b_from_a``, the axes are those of frame b.

        Notes
        -----
        For a number or a vector, ``axes`` is the paper's frame ``V(q)`` with columns ``q, i⊗q, j⊗q, −k⊗q``. The
        sign of its last column does not matter there, but would flip off-diagonal elements of a matrix. So Λ is
        read in the right-handed coordinates ν, and ``axes`` are its eigenvectors.
        """
        q = np.asarray(mode_wxyz, float)
        if q.shape != (4,):
            raise ArgumentError(f"the mode must be one unit quaternion wxyz of shape (4,), got shape {q.shape}")
        if not abs(np.linalg.norm(q) - 1.0) < _UNIT_TOLERANCE:
            raise ArgumentError(f"the mode must be a unit quaternion wxyz, got {q} of length {np.linalg.norm(q):g}")
        axes = quaternion.frame(quaternion.normalize(q))
        lam = np.asarray(concentrations, float)
        if lam.shape == ():
            return cls(axes, np.full(3, lam))
        if lam.shape != (3, 3):
            return cls(axes, lam)
        values, vectors = np.linalg.eigh(_symmetric(lam, "the concentration matrix"))
        if values[0] < -1e-10 * np.abs(values).max():
            raise ArgumentError(f"the concentration matrix must be positive semi-definite, eigenvalues {values}")
        axes[:, 1:] = axes[:, 1:] * [1.0, 1.0, -1.0] @ vectors
        return cls(axes, np.maximum(values, 0.0))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Bingham:
        """The distribution with density ∝ ``exp(xᵀ A x)``, for any symmetric matrix A (4, 4).

        The mode is the top eigenvector (its first non-zero component positive), the concentrations are the
        distances of the other eigenvalues below the top one, ascending. A and A + cI are one distribution.
        """
        A = np.asarray(matrix, float)
        if A.shape != (4, 4):
            raise ArgumentError(f"the matrix must have shape (4, 4), got {A.shape}")
        values, vectors = np.linalg.eigh(_symmetric(A, "the matrix"))
        axes = vectors[:, ::-1].copy()
        axes[:, 0] = quaternion.canonical(axes[:, 0])
        return cls(axes, values[3] - values[2::-1])

    @classmethod
    def fit(cls, samples: ArrayLike, weights: ArrayLike | None = None) -> Bingham:
        """Maximum likelihood from unit quaternions, blind to their signs.

        The axes are the eigenvectors of the scatter matrix ``S = Σ wᵢ xᵢ xᵢᵀ / Σ wᵢ``, and the concentrations
        solve ``E[(vₖ · x)²] = vₖᵀ S vₖ``, so that ``fit(samples).second_moment()`` is S.

        Parameters
        ----------
        samples
            (n, 4) unit quaternions, n ≥ 4, spanning all of ℝ⁴.
        weights
            (n,) ≥ 0, equal if left out; only their ratios matter.

        Returns
        -------
        Bingham
            Concentrations ascending; the first non-zero component of the mode is positive.

        Raises
        ------
        ArgumentError
            If the samples do not span ℝ⁴ (too few, identical, on a great circle …); the likelihood has no maximum.
        """
        x, w = _checked_samples(samples, weights)
        # singular values of the samples keep twice the digits of the eigenvalues of S
        _, singular, vt = np.linalg.svd(np.sqrt(w)[:, None] * x, full_matrices=False)
        moments = singular**2 / np.sum(singular**2)
        if moments[3] < _SMALLEST_MOMENT:
            raise ArgumentError(
                "cannot fit a Bingham distribution: the samples span fewer than 4 dimensions (identical, or on one "
                "great circle or sphere), so a concentration would be infinite; give more varied samples"
            )
        axes = vt.T.copy()
        axes[:, 0] = quaternion.canonical(axes[:, 0])
        return cls(axes, _concentrations_from_moments(moments))

    @property
    def mode(self) -> Array:
        """The mode v₀ (4,), ``wxyz``; −v₀ is one too."""
        return self.axes[:, 0]

    @cached_property
    def log_normalizer(self) -> float:
        """Log F(λ); see :func:`log_normalizer`."""
        return float(log_normalizer(self.concentrations))

    def logpdf(self, x: ArrayLike) -> Array:
        """Log density ``−Σ λₖ (vₖ · x)² − log F`` (...) of quaternions (..., 4), with respect to area on S³.

        x is taken as it is; off the sphere this is the quadratic form that :meth:`grad_logpdf` differentiates.
        """
        return np.asarray(-np.square(self._components(x)) @ self.concentrations - self.log_normalizer)

    def grad_logpdf(self, x: ArrayLike) -> Array:
        """Euclidean gradient ``−2 Σ λₖ vₖ (vₖ · x)`` in ℝ⁴, (..., 4), of :meth:`logpdf` at x (..., 4)."""
        return np.asarray(-2.0 * (self._components(x) * self.concentrations) @ self.axes[:, 1:].T)

    def riemannian_gradient(self, x: ArrayLike) -> Array:
        """Gradient on the sphere, :meth:`grad_logpdf` times ``I − x xᵀ``, (..., 4), at unit x (..., 4)."""
        return sphere.project(x, self.grad_logpdf(x))

    def second_moment(self) -> Array:
        """``E[x xᵀ] = Σ vₖ E[(vₖ · x)²] vₖᵀ``, (4, 4), of trace 1."""
        return np.asarray((self.axes * self._squares) @ self.axes.T)

    def entropy(self) -> float:
        """Entropy ``−E[log p] = log F + Σ λₖ E[(vₖ · x)²]`` in nats, with respect to area on S³."""
        return self.log_normalizer + float(self.concentrations @ self._squares[1:])

    def rotation_sigma(self) -> Array:
        """Standard deviations ``√(2/λₖ)`` (3,) of the rotation angle about each axis vₖ, in radians.

        A small-angle relation, for λₖ ≫ 1; infinite where λₖ = 0. The order is that of ``concentrations``.
        """
        return sigma_from_concentration(self.concentrations)

    def sample(self, rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
        """Independent exact draws, ``(*size, 4)``, each with a random sign.

        Rejection from the angular central Gaussian ``(xᵀ Ω x)⁻²``, Ω = I + 2A/b, with A = Σ λₖ vₖ vₖᵀ and b
        chosen to reject least (Kent, Ganeiber & Mardia 2018). The share accepted is 1 at λ = 0 and falls to 0.447
        when all three λₖ are large.
        """
        shape = (size,) if isinstance(size, int) else tuple(size)
        missing = int(np.prod(shape))
        full = np.concatenate([[0.0], self.concentrations])
        omega, log_bound = _envelope(full)
        parts: list[Array] = []
        while missing > 0:
            n = 2 * missing + 16
            x = quaternion.normalize(rng.standard_normal((n, 4)) / np.sqrt(omega))
            square = x * x
            log_ratio = 2.0 * np.log(square @ omega) - square @ full - log_bound
            accepted = x[-rng.standard_exponential(n) < log_ratio][:missing]
            parts.append(accepted)
            missing -= len(accepted)
        draws = np.concatenate(parts) if parts else np.empty((0, 4))
        return (draws @ self.axes.T).reshape(*shape, 4)

    @cached_property
    def _squares(self) -> Array:
        """``E[(vₖ · x)²]``, (4,)."""
        return _second_moments(_with_mode(self.concentrations))

    def _components(self, x: ArrayLike) -> Array:
        """``vₖ · x`` for k = 1 … 3, (..., 3)."""
        points = np.asarray(x, float)
        if points.ndim == 0 or points.shape[-1] != 4:
            raise ArgumentError(f"quaternions need a last dimension of 4 (wxyz), got shape {points.shape}")
        return np.asarray(points @ self.axes[:, 1:])


def _symmetric(matrix: Array, what: str) -> Array:
    """The symmetric part of a matrix that is symmetric up to rounding."""
    if not np.all(np.isfinite(matrix)):
        raise ArgumentError(f"{what} must be finite")
    off = np.abs(matrix - matrix.T).max()
    if off > 1e-9 * np.abs(matrix).max():
        raise ArgumentError(f"{what} must be symmetric, but differs from its transpose by {off:.1e}")
    return np.asarray(0.5 * (matrix + matrix.T))


def _checked_samples(samples: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """Unit quaternions (n, 4) and weights (n,) of sum 1, or an error that says what is wrong with them."""
    x = np.asarray(samples, float)
    if x.ndim != 2 or x.shape[1] != 4:
        raise ArgumentError(f"samples must have shape (n, 4), got {x.shape}")
    w = np.ones(len(x)) if weights is None else np.asarray(weights, float)
    if w.shape != (len(x),):
        raise ArgumentError(f"weights must have shape ({len(x)},), one for each sample, got {w.shape}")
    if not np.all(np.isfinite(w)) or np.any(w < 0.0):
        raise ArgumentError("weights must be finite and ≥ 0")
    bad = np.flatnonzero(~(np.abs(np.linalg.norm(x, axis=1) - 1.0) < _UNIT_TOLERANCE))
    if bad.size:
        raise ArgumentError(f"samples must be unit quaternions, but sample {bad[0]} is {x[bad[0]]}")
    if np.count_nonzero(w) < 4:
        raise ArgumentError(f"a Bingham fit needs at least 4 samples of positive weight, got {np.count_nonzero(w)}")
    return quaternion.normalize(x), w / w.sum()
