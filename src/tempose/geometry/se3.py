"""Rigid motions as pairs (quaternion wxyz, translation): composition, inverse, exponential and logarithm.

Twists are ordered (rotation, translation), radians first. A motion ``(q, t)`` maps ``x`` to ``R(q) x + t``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array, Motion
from tempose.geometry import quaternion as quat


def compose(a: tuple[ArrayLike, ArrayLike], b: tuple[ArrayLike, ArrayLike]) -> Motion:
    """``a ∘ b``: apply ``b``, then ``a``. With frames: ``x_from_z = compose(x_from_y, y_from_z)``."""
    return quat.multiply(a[0], b[0]), quat.rotate(a[0], b[1]) + np.asarray(a[1], float)


def inverse(a: tuple[ArrayLike, ArrayLike]) -> Motion:
    """Inverse motion: ``y_from_x`` of ``x_from_y``."""
    back = quat.conjugate(a[0])
    return back, -quat.rotate(back, a[1])


def a_from_b(world_from_a: tuple[ArrayLike, ArrayLike], world_from_b: tuple[ArrayLike, ArrayLike]) -> Motion:
    """The pose of b seen from a, given both in the world."""
    return compose(inverse(world_from_a), world_from_b)


def hat(omega: ArrayLike) -> Array:
    """The matrix ``[ω]×`` (..., 3, 3) with ``[ω]× x = ω × x``."""
    omega = np.asarray(omega, float)
    x, y, z = omega[..., 0], omega[..., 1], omega[..., 2]
    out = np.zeros((*omega.shape, 3))
    out[..., 0, 1], out[..., 0, 2], out[..., 1, 2] = -z, y, -x
    out[..., 1, 0], out[..., 2, 0], out[..., 2, 1] = z, -y, x
    return out


def _series(theta2: Array, coefficients: list[float]) -> Array:
    """``Σ c_k (θ²)^k``."""
    return np.asarray(np.polynomial.polynomial.polyval(theta2, coefficients))


def left_jacobian(omega: ArrayLike) -> Array:
    """``J(ω) = I + (1−cos θ)/θ² [ω]× + (θ−sin θ)/θ³ [ω]×²``, which carries the translation of the SE(3) exponential."""
    omega = np.asarray(omega, float)
    theta2 = np.sum(omega * omega, axis=-1)
    theta = np.sqrt(theta2)
    first = 0.5 * np.sinc(0.5 * theta / np.pi) ** 2
    safe = np.maximum(theta, 0.5)
    second = np.where(
        theta < 0.5,
        _series(np.minimum(theta2, 0.25), [1 / 6, -1 / 120, 1 / 5040, -1 / 362880, 1 / 39916800, -1 / 6227020800]),
        (safe - np.sin(safe)) / safe**3,
    )
    W = hat(omega)
    return np.asarray(np.eye(3) + first[..., None, None] * W + second[..., None, None] * (W @ W))


def left_jacobian_inverse(omega: ArrayLike) -> Array:
    """Inverse of :func:`left_jacobian`: ``I − ½[ω]× + (1 − (θ/2) cot(θ/2))/θ² [ω]×²``, finite up to θ < 2π."""
    omega = np.asarray(omega, float)
    theta2 = np.sum(omega * omega, axis=-1)
    theta = np.sqrt(theta2)
    safe = np.maximum(theta, 0.5)
    second = np.where(
        theta < 0.5,
        _series(
            np.minimum(theta2, 0.25),
            [1 / 12, 1 / 720, 1 / 30240, 1 / 1209600, 1 / 47900160, 691 / 1307674368000, 1 / 74724249600],
        ),
        (1.0 - 0.5 * safe * np.cos(0.5 * safe) / np.sin(0.5 * safe)) / safe**2,
    )
    W = hat(omega)
    return np.eye(3) - 0.5 * W + second[..., None, None] * (W @ W)


def exp(twist: ArrayLike) -> Motion:
    """Motion of twists (..., 6), rotation first."""
    twist = np.asarray(twist, float)
    omega, v = twist[..., :3], twist[..., 3:]
    return quat.exp(omega), np.einsum("...ij,...j->...i", left_jacobian(omega), v)


def log(motion: tuple[ArrayLike, ArrayLike]) -> Array:
    """Twist (..., 6), rotation first, of a motion; the inverse of :func:`exp` for angles up to π."""
    omega = quat.log(motion[0])
    v = np.einsum("...ij,...j->...i", left_jacobian_inverse(omega), np.asarray(motion[1], float))
    return np.concatenate([omega, v], axis=-1)


def geodesic_flow(
    motion: tuple[ArrayLike, ArrayLike], omega: ArrayLike, velocity: ArrayLike, time: ArrayLike = 1.0
) -> Motion:
    """Geodesic of the product metric on S³ × ℝ³ (the manifold of the paper).

    ``omega`` (..., 3) is the angular velocity in the outer frame, radians per unit time; ``velocity`` (..., 3) is the
    translation's. Orientation and position move independently, which is what makes every step of TG-MCMC exact.
    """
    t = np.asarray(time, float)[..., None]
    turned = quat.multiply(quat.exp(np.asarray(omega, float) * t), motion[0])
    return turned, np.asarray(motion[1], float) + t * np.asarray(velocity, float)
