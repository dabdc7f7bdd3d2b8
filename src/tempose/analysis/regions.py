"""Regions of stated probability: how far an error is in units of its own error bar, and whether it is inside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from tempose._typing import Array, Mask

LEVELS = (0.5, 0.8, 0.95)
"""Probabilities of the regions whose coverage is looked at everywhere."""


def squared_distance(error: Array, covariance: Array) -> Array:
    """``eᵀ C⁻¹ e`` (...,) of errors (..., d) with covariances (..., d, d): χ² with d degrees of freedom if they are right."""
    return np.asarray(np.einsum("...a,...ab,...b->...", error, np.linalg.inv(covariance), error))


def probability_within(squared: Array, dimension: int) -> Array:
    """Probability of the smallest Gaussian region that holds an error: uniform in [0, 1] if the error bars are right."""
    return np.asarray(special.chdtr(dimension, squared))


def squared_radius(level: float | Sequence[float], dimension: int) -> Array:
    """Squared distance at the edge of the Gaussian region of probability ``level``."""
    return np.asarray(2.0 * special.gammaincinv(0.5 * dimension, level))


def inside(squared: Array, level: float, dimension: int) -> Mask:
    """Which errors lie inside the region of a level."""
    return np.asarray(squared < squared_radius(level, dimension))
