"""Rotations in the plane: ``λ sin²(θ/2)`` is the energy of a von Mises angle with κ = λ/2.

What :mod:`tempose.model.bingham` is for rotations in space, with one concentration. The density with respect to the uniform
probability on the circle is ``exp(−λ sin²(θ/2)) / (e^{−λ/2} I₀(λ/2))``; for small angles λ = 2/σ², as in space.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tempose._typing import Array
from tempose.errors import ArgumentError


def log_normalizer(concentration: ArrayLike) -> Array:
    """Logarithm of the mean over the circle of ``exp(−λ sin²(θ/2))``, for λ ≥ 0 of any shape; 0 at λ = 0."""
    return np.asarray(np.log(special.i0e(0.5 * _checked(concentration))))


def log_normalizer_gradient(concentration: ArrayLike) -> Array:
    """Its derivative by λ, ``−E[sin²(θ/2)] = −½ (1 − I₁(λ/2)/I₀(λ/2))``, to a relative 1e-12.

    For large λ the difference is taken from its asymptotic series, where the two nearly cancel.
    """
    kappa = 0.5 * _checked(concentration)
    direct = 1.0 - special.i1e(kappa) / special.i0e(kappa)
    x = 1.0 / np.maximum(kappa, 100.0)
    series = x * (0.5 + x * (0.125 + x * (0.125 + x * (25.0 / 128.0 + x * (13.0 / 32.0 + x * 1073.0 / 1024.0)))))
    return np.asarray(-0.5 * np.where(kappa > 300.0, series, direct))


def angle_sigma(concentration: ArrayLike) -> Array:
    """Standard deviation of the angle θ in (−π, π], radians, to a relative 1e-12; ``√(2/λ)`` for λ ≫ 1, ``π/√3`` at 0."""
    kappa = np.atleast_1d(0.5 * _checked(concentration))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half = np.minimum(np.pi, 12.0 / np.sqrt(np.maximum(kappa, 1e-3)))[..., None]  # beyond, the density is below 1e-30
    theta = 0.5 * half * (nodes + 1.0)
    density = weights * np.exp(-2.0 * kappa[..., None] * np.sin(0.5 * theta) ** 2)
    out = np.sqrt(np.sum(density * theta**2, axis=-1) / np.sum(density, axis=-1))
    return np.asarray(out.reshape(np.shape(concentration)))


def sample(rng: np.random.Generator, concentration: ArrayLike, size: int | tuple[int, ...] | None = None) -> Array:
    """Angles in (−π, π], independent exact draws; uniform where λ = 0."""
    return np.asarray(rng.vonmises(0.0, 0.5 * _checked(concentration), size))


def _checked(concentration: ArrayLike) -> Array:
    value = np.asarray(concentration, float)
    if not np.all(value >= 0.0):
        raise ArgumentError(f"a concentration must be ≥ 0 (larger = surer), got {value.min():g}")
    return value
