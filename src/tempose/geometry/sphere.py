"""The sphere S³ as a manifold: exponential map, logarithm, projection and the geodesic flow of the paper.

Points and tangent vectors are in the ambient ℝ⁴. Lengths are arc lengths on the sphere, which are *half* the
rotation angles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array


def project(x: ArrayLike, a: ArrayLike) -> Array:
    """``P(x) a = (I − x xᵀ) a``: project ambient vectors (..., 4) on the tangent space at ``x``."""
    x, a = np.asarray(x, float), np.asarray(a, float)
    return np.asarray(a - np.sum(x * a, axis=-1, keepdims=True) * x)


def geodesic_flow(x: ArrayLike, v: ArrayLike, time: ArrayLike = 1.0) -> tuple[Array, Array]:
    """Point and velocity after following the geodesic through ``x`` with velocity ``v`` for ``time``.

    The paper's flow with ``α = ‖v‖``: ``x(t) = x cos αt + (v/α) sin αt``, ``v(t) = −α x sin αt + v cos αt``;
    the division by α is removable and exact at ``v = 0``.
    """
    x, v = np.asarray(x, float), np.asarray(v, float)
    t = np.asarray(time, float)[..., None]
    alpha = np.linalg.norm(v, axis=-1, keepdims=True)
    c, s = np.cos(alpha * t), np.sin(alpha * t)
    return x * c + v * t * np.sinc(alpha * t / np.pi), -alpha * x * s + v * c


def exp(x: ArrayLike, v: ArrayLike) -> Array:
    """``Exp(x, v) = x cos θ + v sin θ / θ`` with ``θ = ‖v‖``."""
    return geodesic_flow(x, v)[0]


def log(x: ArrayLike, y: ArrayLike) -> Array:
    """Tangent vector at ``x`` whose exponential is ``y``; its length is the arc from x to y, in [0, π].

    For the shortest *rotation* between ``x`` and ``±y`` choose the sign of ``y`` first.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    across = project(x, y)
    sine = np.linalg.norm(across, axis=-1, keepdims=True)
    arc = np.arctan2(sine, np.sum(x * y, axis=-1, keepdims=True))
    return np.asarray(across * np.where(sine > 0.0, arc / np.where(sine > 0.0, sine, 1.0), 1.0))
