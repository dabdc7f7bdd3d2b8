"""Quaternions in compiled code: the scalar twins of :mod:`tempose.geometry.quaternion`, once for all kernels."""

from __future__ import annotations

from numba import njit


@njit(cache=True, forceinline=True)
def rotate(w, x, y, z, a, b, c):  # type: ignore[no-untyped-def]
    """Vector (a, b, c) turned by the quaternion (w, x, y, z)."""
    u = 2.0 * (y * c - z * b)
    v = 2.0 * (z * a - x * c)
    t = 2.0 * (x * b - y * a)
    return a + w * u + (y * t - z * v), b + w * v + (z * u - x * t), c + w * t + (x * v - y * u)


@njit(cache=True, forceinline=True)
def multiply(aw, ax, ay, az, bw, bx, by, bz):  # type: ignore[no-untyped-def]
    """Hamilton product of the quaternions a and b, number by number."""
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


@njit(cache=True, forceinline=True)
def product(a, b):  # type: ignore[no-untyped-def]
    """:func:`multiply` of two that come as tuples, or as rows of an array."""
    return multiply(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3])


@njit(cache=True, forceinline=True)
def turned(q, x):  # type: ignore[no-untyped-def]
    """:func:`rotate` of a vector by a quaternion that come as tuples, or as rows of an array."""
    return rotate(q[0], q[1], q[2], q[3], x[0], x[1], x[2])
