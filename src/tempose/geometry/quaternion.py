"""Unit quaternions: Hamilton product, stored ``wxyz``, ``q`` and ``-q`` one rotation.

All functions are batched over leading dimensions, pure, and in radians. This is the only quaternion product of the
package; the compiled kernels carry scalar twins of it that are tested against these functions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array

IDENTITY: Array = np.array([1.0, 0.0, 0.0, 0.0])

_TINY = 1e-150  # below this the square of a vector part underflows


def multiply(a: ArrayLike, b: ArrayLike) -> Array:
    """Hamilton product ``a ⊗ b`` of quaternions ``(..., 4)``."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    aw, ax, ay, az = a[..., 0], a[..., 1], a[..., 2], a[..., 3]
    bw, bx, by, bz = b[..., 0], b[..., 1], b[..., 2], b[..., 3]
    return np.stack(
        [
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ],
        axis=-1,
    )


def conjugate(q: ArrayLike) -> Array:
    """Conjugate ``q̄``, the inverse of a unit quaternion."""
    return np.asarray(np.asarray(q, float) * np.array([1.0, -1.0, -1.0, -1.0]))


def normalize(q: ArrayLike) -> Array:
    """Scale ``(..., 4)`` to unit length."""
    q = np.asarray(q, float)
    return np.asarray(q / np.linalg.norm(q, axis=-1, keepdims=True))


def canonical(q: ArrayLike) -> Array:
    """The representative of ``±q`` whose first non-zero component is positive."""
    q = np.asarray(q, float)
    first = np.take_along_axis(q, np.argmax(q != 0.0, axis=-1)[..., None], axis=-1)
    return np.where(first < 0.0, -q, q)


def rotate(q: ArrayLike, x: ArrayLike) -> Array:
    """Rotate vectors ``x`` (..., 3) by unit quaternions ``q`` (..., 4): the vector part of ``q ⊗ x ⊗ q̄``."""
    q, x = np.asarray(q, float), np.asarray(x, float)
    w, a, b, c = q[..., 0], q[..., 1], q[..., 2], q[..., 3]
    x0, x1, x2 = x[..., 0], x[..., 1], x[..., 2]
    # twice the cross product of the vector part with x
    t0, t1, t2 = 2.0 * (b * x2 - c * x1), 2.0 * (c * x0 - a * x2), 2.0 * (a * x1 - b * x0)
    return np.stack(
        [x0 + w * t0 + (b * t2 - c * t1), x1 + w * t1 + (c * t0 - a * t2), x2 + w * t2 + (a * t1 - b * t0)], axis=-1
    )


def to_matrix(q: ArrayLike) -> Array:
    """Rotation matrices (..., 3, 3) of unit quaternions."""
    q = np.asarray(q, float)
    w, x, y, z = q[..., 0], q[..., 1], q[..., 2], q[..., 3]
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def from_matrix(R: ArrayLike) -> Array:
    """Unit quaternions of rotation matrices (..., 3, 3), accurate at every angle.

    ``4 q qᵀ`` is linear in R; its column with the largest diagonal entry is the best-conditioned multiple of q.
    """
    R = np.asarray(R, float)
    xx, yy, zz = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    outer = np.empty((*R.shape[:-2], 4, 4))
    outer[..., 0, 0] = 1 + xx + yy + zz
    outer[..., 1, 1] = 1 + xx - yy - zz
    outer[..., 2, 2] = 1 - xx + yy - zz
    outer[..., 3, 3] = 1 - xx - yy + zz
    for (a, b), value in {
        (0, 1): R[..., 2, 1] - R[..., 1, 2],
        (0, 2): R[..., 0, 2] - R[..., 2, 0],
        (0, 3): R[..., 1, 0] - R[..., 0, 1],
        (1, 2): R[..., 0, 1] + R[..., 1, 0],
        (1, 3): R[..., 0, 2] + R[..., 2, 0],
        (2, 3): R[..., 1, 2] + R[..., 2, 1],
    }.items():
        outer[..., a, b] = outer[..., b, a] = value
    best = np.argmax(np.diagonal(outer, axis1=-2, axis2=-1), axis=-1)
    return canonical(normalize(np.take_along_axis(outer, best[..., None, None], axis=-1)[..., 0]))


def exp(rotation_vector: ArrayLike) -> Array:
    """Quaternion of a rotation vector (..., 3): angle times axis, radians."""
    omega = np.asarray(rotation_vector, float)
    half = 0.5 * np.linalg.norm(omega, axis=-1, keepdims=True)
    # np.sinc(x) is sin(πx)/(πx), exact at 0
    return np.concatenate([np.cos(half), 0.5 * np.sinc(half / np.pi) * omega], axis=-1)


def log(q: ArrayLike) -> Array:
    """Rotation vector (..., 3) of unit quaternions, with angle in [0, π], the same for ``q`` and ``-q``."""
    q = np.asarray(q, float)
    q = np.where(q[..., :1] < 0.0, -q, q)
    w, u = q[..., :1], q[..., 1:]
    length = np.linalg.norm(u, axis=-1, keepdims=True)
    safe = np.maximum(length, _TINY)
    return np.where(length > _TINY, 2.0 * np.arctan2(length, w) / safe, 2.0 / np.maximum(w, 0.5)) * u


def angle(q: ArrayLike) -> Array:
    """Rotation angle in [0, π]; by ``atan2``, so exact near 0 and near π, the same for ``±q``."""
    q = np.asarray(q, float)
    return np.asarray(2.0 * np.arctan2(np.linalg.norm(q[..., 1:], axis=-1), np.abs(q[..., 0])))


def angle_between(a: ArrayLike, b: ArrayLike) -> Array:
    """Angle of the rotation that takes ``b`` to ``a``, radians in [0, π]."""
    return angle(multiply(a, conjugate(b)))


def frame(q: ArrayLike) -> Array:
    """The paper's orthonormal frame ``V(q)`` (..., 4, 4), whose columns are ``q, i⊗q, j⊗q, −k⊗q``."""
    q = np.asarray(q, float)
    i, j, k = np.eye(4)[1:]
    return np.stack([q, multiply(i, q), multiply(j, q), -multiply(k, q)], axis=-1)


def random_uniform(rng: np.random.Generator, size: int | tuple[int, ...] = ()) -> Array:
    """Quaternions uniform on S³, hence rotations uniform on SO(3)."""
    shape = (size,) if isinstance(size, int) else tuple(size)
    return normalize(rng.standard_normal((*shape, 4)))


def mean(q: ArrayLike, weights: ArrayLike | None = None) -> Array:
    """Chordal mean (..., 4) of rotations (..., n, 4): the top eigenvector of the second-moment matrix, blind to signs."""
    q = np.asarray(q, float)
    w = np.ones(q.shape[-2]) if weights is None else np.asarray(weights, float)
    _, vectors = np.linalg.eigh(np.einsum("n,...na,...nb->...ab", w, q, q))
    return canonical(vectors[..., -1])
