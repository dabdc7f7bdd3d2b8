"""The exponential chart at a fixed set of rotations, ``R_i = Exp(ω_i) R̂_i``, and products with sparse block matrices.

With θ = |ω|, the left Jacobian of the chart, ``Exp(ω + dω) = Exp(J dω) Exp(ω)``, and its determinant are

    J = I + (1 − cos θ)/θ² [ω]× + (θ − sin θ)/θ³ [ω]×²,   det J = 2(1 − cos θ)/θ² = (sin(θ/2) / (θ/2))².
"""

from __future__ import annotations

import math

from numba import njit

from tempose.kernels.potential import _multiply

_SMALL = 0.01  # θ² below which series are more accurate than the formulas


@njit(cache=True, nogil=True)
def place(omega, center, state):  # type: ignore[no-untyped-def]
    """Write the quaternions of ``Exp(ω) R̂`` into ``state`` (n, 8); return the largest |ω|²."""
    largest = 0.0
    for k in range(omega.shape[0]):
        x, y, z = omega[k, 0], omega[k, 1], omega[k, 2]
        square = x * x + y * y + z * z
        largest = max(largest, square)
        half = 0.5 * math.sqrt(square)
        s = 0.5 * (math.sin(half) / half if half > 1e-8 else 1.0)
        w, x, y, z = _multiply(
            math.cos(half), s * x, s * y, s * z, center[k, 0], center[k, 1], center[k, 2], center[k, 3]
        )
        unit = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
        state[k, 0], state[k, 1], state[k, 2], state[k, 3] = w * unit, x * unit, y * unit, z * unit
    return largest


@njit(cache=True, nogil=True)
def pull_back(omega, g, beta, out):  # type: ignore[no-untyped-def]
    """Write the gradient (n, 3) of ``βU − Σ log det J`` by ω into ``out``, given ``g = ∂U/∂ω_world``; return the sum."""
    total = 0.0
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


@njit(cache=True, nogil=True)
def couple(start, source, diagonal, off, omega, out):  # type: ignore[no-untyped-def]
    """``out = H_pω ω`` (n, 3): the positions' rows of a symmetric matrix of 6 × 6 blocks times rotation vectors (n, 3)."""
    for j in range(omega.shape[0]):
        for a in range(3):
            s = 0.0
            for b in range(3):
                s += diagonal[j, 3 + a, b] * omega[j, b]
            out[j, a] = s
    for j in range(omega.shape[0]):
        for e in range(start[j], start[j + 1]):
            i = source[e]
            for a in range(3):
                s = t = 0.0
                for b in range(3):
                    s += off[e, 3 + a, b] * omega[j, b]
                    t += off[e, b, 3 + a] * omega[i, b]
                out[i, a] += s
                out[j, a] += t


@njit(cache=True, nogil=True)
def push_back(start, source, diagonal, off, omega, d, out):  # type: ignore[no-untyped-def]
    """``out = H_ωω ω + H_ωp d`` (n, 3): the rotations' rows of the same matrix."""
    for j in range(omega.shape[0]):
        for a in range(3):
            s = 0.0
            for b in range(3):
                s += diagonal[j, a, b] * omega[j, b] + diagonal[j, a, 3 + b] * d[j, b]
            out[j, a] = s
    for j in range(omega.shape[0]):
        for e in range(start[j], start[j + 1]):
            i = source[e]
            for a in range(3):
                s = t = 0.0
                for b in range(3):
                    s += off[e, a, b] * omega[j, b] + off[e, a, 3 + b] * d[j, b]
                    t += off[e, b, a] * omega[i, b] + off[e, 3 + b, a] * d[i, b]
                out[i, a] += s
                out[j, a] += t
