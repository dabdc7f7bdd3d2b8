"""The exponential chart at a fixed set of rotations, ``R_i = Exp(ω_i) R̂_i``, and products with sparse block matrices.

With θ = |ω|, the left Jacobian of the chart, ``Exp(ω + dω) = Exp(J dω) Exp(ω)``, and its determinant are

    J = I + (1 − cos θ)/θ² [ω]× + (θ − sin θ)/θ³ [ω]×²,   det J = 2(1 − cos θ)/θ² = (sin(θ/2) / (θ/2))².

**Frame.** A component that can be turned freely is turned such that a mean of its rotation vectors stands still,
``ω_i = x_i − Σ w_j x_j``, where x holds one node. Rotations up to a common one are an integral over ``Σ w_i ω_i = 0`` with the
density ``Π det J(ω_i) · det M``, M how the mean moves when all are turned:

    M = Σ w_i J(ω_i)⁻¹ = I + Σ w_i e(θ_i) (ω_i ω_iᵀ − θ_i² I),   e = 1/θ² − (1 + cos θ)/(2 θ sin θ).

There is one such turn only, if every node of the mean has ``θ < π/2``: on the line between two, all distances to nodes of the
mean would be below π, where their squares are strictly convex. Beyond, the density is zero.

**In the plane** angles add: J = 1 and M = 1, so that no volume factor is left; the rest is the same with one axis of rotation.
Arrays are those of space, (n, 3), and zero off the axes of the plane; only the blocks of matrices are smaller.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempose._support.compiling import inlined
from tempose.geometry.compiled import multiply

_SMALL = 0.01  # θ² below which series are more accurate than the formulas


class Axes(NamedTuple):
    """Which axes nodes turn about and shift along: tuples, so that kernels are compiled for their lengths."""

    turns: tuple[int, ...]
    shifts: tuple[int, ...]


SPACE, PLANE = Axes((0, 1, 2), (0, 1, 2)), Axes((2,), (0, 1))


class Frame(NamedTuple):
    """What stands still: a weighted mean of rotation vectors per component, or nothing where the weights are zero."""

    component: NDArray[np.int64]  # (n,)
    weight: NDArray[np.float64]  # (n,) sums to one, or zero, in each component
    components: int  # how many


@inlined(early=True)
def center(frame: Frame, x: Any, out: Any) -> None:
    """``ω_i = x_i − Σ w_j x_j``, (n, 3)."""
    mean = np.zeros((frame.components, 3))
    for k in range(x.shape[0]):
        if frame.weight[k] > 0.0:
            for a in range(3):
                mean[frame.component[k], a] += frame.weight[k] * x[k, a]
    for k in range(x.shape[0]):
        for a in range(3):
            out[k, a] = x[k, a] - mean[frame.component[k], a]


@inlined(early=True)
def center_back(axes: Axes, frame: Frame, omega: Any, g: Any) -> Any:
    """From the gradient by ω (n, 3) to that by x, of a potential minus ``log det M``, in place; return the latter."""
    bent = len(axes.turns) == 3
    total, shared = 0.0, np.zeros((frame.components, 3))
    M, around = np.zeros((frame.components, 3, 3)), np.empty(3)
    for k in range(omega.shape[0]):
        w, c = frame.weight[k], frame.component[k]
        if w > 0.0:
            square = omega[k, 0] ** 2 + omega[k, 1] ** 2 + omega[k, 2] ** 2
            if square >= 0.25 * math.pi**2:
                return -math.inf
            if bent:
                e, _ = _inverse_jacobian(square)
                for a in range(3):
                    M[c, a, a] += w * (1.0 - e * square)
                    for b in range(3):
                        M[c, a, b] += w * e * omega[k, a] * omega[k, b]
    for c in range(frame.components):
        if M[c, 0, 0] > 0.0:
            total += math.log(_invert(M[c]))
    for k in range(omega.shape[0]):
        w, c = frame.weight[k], frame.component[k]
        if bent and w > 0.0:
            e, slope = _inverse_jacobian(omega[k, 0] ** 2 + omega[k, 1] ** 2 + omega[k, 2] ** 2)
            trace = M[c, 0, 0] + M[c, 1, 1] + M[c, 2, 2]
            square = quadratic = 0.0
            for a in range(3):
                around[a] = M[c, a, 0] * omega[k, 0] + M[c, a, 1] * omega[k, 1] + M[c, a, 2] * omega[k, 2]
                square += omega[k, a] * omega[k, a]
                quadratic += omega[k, a] * around[a]
            radial = slope * (quadratic - square * trace) - 2.0 * e * trace
            for a in range(3):
                g[k, a] -= w * (2.0 * e * around[a] + radial * omega[k, a])
        for a in range(3):
            shared[c, a] += g[k, a]
    for k in range(omega.shape[0]):
        for a in range(3):
            g[k, a] -= frame.weight[k] * shared[frame.component[k], a]
    return total


@inlined(early=True)
def _inverse_jacobian(square: Any) -> Any:
    """e(θ) of ``J⁻¹ = I − ½[ω]× + e [ω]×²``, and its derivative by θ divided by θ, given θ²."""
    if square < 0.05:
        e = 1.0 / 12.0 + square * (
            1.0 / 720.0 + square * (1.0 / 30240.0 + square * (1.0 / 1209600.0 + square / 47900160.0))
        )
        slope = 1.0 / 360.0 + square * (1.0 / 7560.0 + square * (1.0 / 201600.0 + square / 5987520.0))
        return e, slope
    theta = math.sqrt(square)
    sine, cosine = math.sin(theta), math.cos(theta)
    e = 1.0 / square - (1.0 + cosine) / (2.0 * theta * sine)
    return e, (-2.0 / square + (1.0 + cosine) * (theta + sine) / (2.0 * theta * sine * sine)) / square


@inlined(early=True)
def _invert(A: Any) -> Any:
    """Replace a symmetric 3 × 3 matrix by its inverse; return its determinant."""
    a, b, c, d, e, f = A[0, 0], A[0, 1], A[0, 2], A[1, 1], A[1, 2], A[2, 2]
    p, q, r = d * f - e * e, c * e - b * f, b * e - c * d
    determinant = a * p + b * q + c * r
    A[0, 0], A[0, 1], A[0, 2] = p / determinant, q / determinant, r / determinant
    A[1, 0], A[1, 1], A[1, 2] = A[0, 1], (a * f - c * c) / determinant, (b * c - a * e) / determinant
    A[2, 0], A[2, 1], A[2, 2] = A[0, 2], A[1, 2], (a * d - b * b) / determinant
    return determinant


@inlined(early=True)
def place(omega: Any, center: Any, state: Any) -> Any:
    """Write the quaternions of ``Exp(ω) R̂`` into ``state`` (n, 8); return the largest |ω|²."""
    largest = 0.0
    for k in range(omega.shape[0]):
        x, y, z = omega[k, 0], omega[k, 1], omega[k, 2]
        square = x * x + y * y + z * z
        largest = max(largest, square)
        half = 0.5 * math.sqrt(square)
        s = 0.5 * (math.sin(half) / half if half > 1e-8 else 1.0)
        w, x, y, z = multiply(
            math.cos(half), s * x, s * y, s * z, center[k, 0], center[k, 1], center[k, 2], center[k, 3]
        )
        unit = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
        state[k, 0], state[k, 1], state[k, 2], state[k, 3] = w * unit, x * unit, y * unit, z * unit
    return largest


@inlined(early=True)
def pull_back(axes: Axes, omega: Any, g: Any, beta: Any, out: Any) -> Any:
    """Write the gradient (n, 3) of ``βU − Σ log det J`` by ω into ``out``, given ``g = ∂U/∂ω_world``; return the sum."""
    total = 0.0
    if len(axes.turns) == 1:
        out[:] = 0.0
        for k in range(omega.shape[0]):
            out[k, axes.turns[0]] = beta * g[k, axes.turns[0]]
        return total
    for k in range(omega.shape[0]):
        x, y, z = omega[k, 0], omega[k, 1], omega[k, 2]
        square = x * x + y * y + z * z
        if square < _SMALL:
            a = 0.5 - square * (1.0 / 24.0 - square * (1.0 / 720.0 - square / 40320.0))
            b = 1.0 / 6.0 - square * (1.0 / 120.0 - square * (1.0 / 5040.0 - square / 362880.0))
            c = 1.0 / 6.0 + square * (1.0 / 360.0 + square * (1.0 / 15120.0 + square / 604800.0))
            total -= square * (1.0 / 12.0 + square * (1.0 / 1440.0 + square * (1.0 / 90720.0 + square / 4838400.0)))
        else:
            theta = math.sqrt(square)
            sine, cosine = math.sin(0.5 * theta), math.cos(0.5 * theta)
            a = 2.0 * sine * sine / square
            b = (theta - math.sin(theta)) / (square * theta)
            c = (2.0 / theta - cosine / sine) / theta
            total += 2.0 * math.log(abs(2.0 * sine / theta))
        g0, g1, g2 = g[k, 0], g[k, 1], g[k, 2]
        c0, c1, c2 = y * g2 - z * g1, z * g0 - x * g2, x * g1 - y * g0
        d0, d1, d2 = y * c2 - z * c1, z * c0 - x * c2, x * c1 - y * c0
        out[k, 0] = beta * (g0 - a * c0 + b * d0) + c * x  # Jᵀ g, and what the volume adds
        out[k, 1] = beta * (g1 - a * c1 + b * d1) + c * y
        out[k, 2] = beta * (g2 - a * c2 + b * d2) + c * z
    return total


@inlined(early=True)
def couple(axes: Axes, start: Any, source: Any, diagonal: Any, off: Any, omega: Any, out: Any) -> None:
    """``out = H_pω ω`` (n, 3): the positions' rows of a symmetric matrix of b × b blocks times rotation vectors (n, 3)."""
    turns, shifts = axes.turns, axes.shifts
    t = len(turns)
    for j in range(omega.shape[0]):
        for a in range(len(shifts)):
            s = 0.0
            for b in range(t):
                s += diagonal[j, t + a, b] * omega[j, turns[b]]
            out[j, shifts[a]] = s
    for j in range(omega.shape[0]):
        for e in range(start[j], start[j + 1]):
            i = source[e]
            for a in range(len(shifts)):
                to_i = to_j = 0.0
                for b in range(t):
                    to_i += off[e, t + a, b] * omega[j, turns[b]]
                    to_j += off[e, b, t + a] * omega[i, turns[b]]
                out[i, shifts[a]] += to_i
                out[j, shifts[a]] += to_j


@inlined(early=True)
def push_back(axes: Axes, start: Any, source: Any, diagonal: Any, off: Any, omega: Any, d: Any, out: Any) -> None:
    """``out = H_ωω ω + H_ωp d`` (n, 3): the rotations' rows of the same matrix."""
    turns, shifts = axes.turns, axes.shifts
    t = len(turns)
    for j in range(omega.shape[0]):
        for a in range(t):
            s = 0.0
            for b in range(len(shifts)):
                turned = diagonal[j, a, b] * omega[j, turns[b]] if b < t else 0.0
                s += turned + diagonal[j, a, t + b] * d[j, shifts[b]]
            out[j, turns[a]] = s
    for j in range(omega.shape[0]):
        for e in range(start[j], start[j + 1]):
            i = source[e]
            for a in range(t):
                to_i = to_j = 0.0
                for b in range(len(shifts)):
                    turned = off[e, a, b] * omega[j, turns[b]] if b < t else 0.0
                    to_i += turned + off[e, a, t + b] * d[j, shifts[b]]
                    turned = off[e, b, a] * omega[i, turns[b]] if b < t else 0.0
                    to_j += turned + off[e, t + b, a] * d[i, shifts[b]]
                out[i, turns[a]] += to_i
                out[j, turns[a]] += to_j
