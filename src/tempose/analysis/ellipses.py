"""Horizontal error ellipses and vertical σ of positions, as surveyors draw them.

x is east, y is north, z is up. The ellipse with probability p of a horizontal covariance Σ has the half axes ``√(λ q)``, λ the
eigenvalues of Σ and ``q = −2 ln(1 − p)`` the quantile of χ² with two degrees of freedom (5.991 for 95%); its azimuth is that of
the major axis, clockwise from north, 0° … 180°.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array
from tempose.errors import OptionError

CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Ellipses:
    """Ellipses of n positions.

    Attributes
    ----------
    major, minor
        Half axes (n,) of the horizontal ellipse.
    azimuth_deg
        Of the major axis (n,), clockwise from north.
    sigma_vertical
        Standard deviation (n,) of the height; one σ, whatever the confidence.
    confidence
        Probability of the ellipse.
    """

    major: Array
    minor: Array
    azimuth_deg: Array
    sigma_vertical: Array
    confidence: float


def error_ellipses(covariance: Array, confidence: float = CONFIDENCE) -> Ellipses:
    """Ellipses of position covariances (n, 3, 3) in the axes of the world; NaN where these are."""
    if not 0.0 < confidence < 1.0:
        raise OptionError(f"confidence is {confidence!r}; expected a probability between 0 and 1")
    known = np.all(np.isfinite(covariance), axis=(1, 2))
    flat = np.where(known[:, None, None], covariance, 0.0)[:, :2, :2]
    values, vectors = np.linalg.eigh(flat)
    scale = math.sqrt(-2.0 * math.log1p(-confidence))
    azimuth = np.degrees(np.arctan2(vectors[:, 0, 1], vectors[:, 1, 1])) % 180.0
    half = scale * np.sqrt(np.maximum(values, 0.0))
    vertical = np.sqrt(np.maximum(covariance[:, 2, 2], 0.0))
    lost = np.where(known, 1.0, np.nan)
    return Ellipses(half[:, 1] * lost, half[:, 0] * lost, azimuth * lost, vertical * lost, confidence)
