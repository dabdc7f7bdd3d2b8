"""Quaternions in compiled code: the scalar twins of :mod:`tempose.geometry.quaternion`, once for all kernels."""

from __future__ import annotations

from typing import Any

from tempose._support.compiling import inlined


@inlined
def rotate(w: Any, x: Any, y: Any, z: Any, a: Any, b: Any, c: Any) -> Any:
    """Vector (a, b, c) turned by the quaternion (w, x, y, z)."""
    u = 2.0 * (y * c - z * b)
    v = 2.0 * (z * a - x * c)
    t = 2.0 * (x * b - y * a)
    return a + w * u + (y * t - z * v), b + w * v + (z * u - x * t), c + w * t + (x * v - y * u)


@inlined
def multiply(aw: Any, ax: Any, ay: Any, az: Any, bw: Any, bx: Any, by: Any, bz: Any) -> Any:
    """Hamilton product of the quaternions a and b, number by number."""
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


@inlined
def product(a: Any, b: Any) -> Any:
    """:func:`multiply` of two that come as tuples, or as rows of an array."""
    return multiply(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3])


@inlined
def turned(q: Any, x: Any) -> Any:
    """:func:`rotate` of a vector by a quaternion that come as tuples, or as rows of an array."""
    return rotate(q[0], q[1], q[2], q[3], x[0], x[1], x[2])
