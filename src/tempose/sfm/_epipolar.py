"""Compiled loops over matches: two-view geometry with the points eliminated. Arrays in, arrays out, no validation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tempose._support.compiling import kernel

CORRECTIONS = 3  # Newton steps of the closest pair of points that meets the epipolar constraint; two reach rounding


@kernel
def epipolar_row(R: Any, t: Any, f1: Any, f2: Any, x1: Any, x2: Any, row: Any) -> float:
    """Signed distance (pixels) of one match from the nearest pair of points that meets ``x2ᵀ[t]×R x1 = 0``.

    ``row`` (6,) receives its derivative by a rotation vector ω (R → Exp(ω)R) and by t, with the points eliminated: the
    derivative of the constraint at the nearest pair, over the length of the constraint's gradient there.
    """
    a0, a1, b0, b1 = x1[0], x1[1], x2[0], x2[1]
    r = 0.0
    for _ in range(CORRECTIONS):
        y0 = R[0, 0] * a0 + R[0, 1] * a1 + R[0, 2]
        y1 = R[1, 0] * a0 + R[1, 1] * a1 + R[1, 2]
        y2 = R[2, 0] * a0 + R[2, 1] * a1 + R[2, 2]
        l0, l1, l2 = t[1] * y2 - t[2] * y1, t[2] * y0 - t[0] * y2, t[0] * y1 - t[1] * y0
        m0, m1, m2 = b1 * t[2] - t[1], t[0] - b0 * t[2], b0 * t[1] - b1 * t[0]  # x2 × t
        k0 = R[0, 0] * m0 + R[1, 0] * m1 + R[2, 0] * m2
        k1 = R[0, 1] * m0 + R[1, 1] * m1 + R[2, 1] * m2
        e = b0 * l0 + b1 * l1 + l2
        g0, g1, g2, g3 = k0 / f1[0], k1 / f1[1], l0 / f2[0], l1 / f2[1]  # per pixel
        gg = g0 * g0 + g1 * g1 + g2 * g2 + g3 * g3
        if gg < 1e-300:
            row[:] = 0.0
            return 0.0
        g = math.sqrt(gg)
        # linearised at the present pair, measured from the observed one
        d0, d1 = (x1[0] - a0) * f1[0], (x1[1] - a1) * f1[1]
        d2, d3 = (x2[0] - b0) * f2[0], (x2[1] - b1) * f2[1]
        r = (e + g0 * d0 + g1 * d1 + g2 * d2 + g3 * d3) / g
        ty = t[0] * y0 + t[1] * y1 + t[2] * y2
        xy = b0 * y0 + b1 * y1 + y2
        row[0] = (b0 * ty - t[0] * xy) / g
        row[1] = (b1 * ty - t[1] * xy) / g
        row[2] = (ty - t[2] * xy) / g
        row[3] = (y1 - y2 * b1) / g
        row[4] = (y2 * b0 - y0) / g
        row[5] = (y0 * b1 - y1 * b0) / g
        a0, a1 = x1[0] - r * g0 / g / f1[0], x1[1] - r * g1 / g / f1[1]
        b0, b1 = x2[0] - r * g2 / g / f2[0], x2[1] - r * g3 / g / f2[1]
    return r


@kernel
def distances(R: Any, t: Any, f1: Any, f2: Any, x1: Any, x2: Any, out: Any) -> None:
    """Signed epipolar distances (k,), pixels, of normalised matches (k, 2); NaN where the point lies behind a camera."""
    row = np.empty(6)
    for k in range(len(x1)):
        out[k] = epipolar_row(R, t, f1, f2, x1[k], x2[k], row)
        # depths of the two rays by least squares: z1 y − z2 x2 = −t
        y0 = R[0, 0] * x1[k, 0] + R[0, 1] * x1[k, 1] + R[0, 2]
        y1 = R[1, 0] * x1[k, 0] + R[1, 1] * x1[k, 1] + R[1, 2]
        y2 = R[2, 0] * x1[k, 0] + R[2, 1] * x1[k, 1] + R[2, 2]
        b0, b1 = x2[k, 0], x2[k, 1]
        yy, yb, bb = y0 * y0 + y1 * y1 + y2 * y2, y0 * b0 + y1 * b1 + y2, b0 * b0 + b1 * b1 + 1.0
        yt, bt = y0 * t[0] + y1 * t[1] + y2 * t[2], b0 * t[0] + b1 * t[1] + t[2]
        det = yy * bb - yb * yb
        z1, z2 = yb * bt - bb * yt, yy * bt - yb * yt
        if not (det > 0.0 and z1 > 0.0 and z2 > 0.0):
            out[k] = np.nan


@kernel
def normal_equations(
    R: Any, t: Any, basis: Any, f1: Any, f2: Any, x1: Any, x2: Any, scale: float, A: Any, b: Any
) -> float:
    """Gauss–Newton matrix A (5, 5) and gradient b (5,) of ``Σ ½c² log(1 + r²/c²)``; returns the sum."""
    A[:] = 0.0
    b[:] = 0.0
    row, j = np.empty(6), np.empty(5)
    cost = 0.0
    for k in range(len(x1)):
        r = epipolar_row(R, t, f1, f2, x1[k], x2[k], row)
        q = r * r / (scale * scale)
        w = 1.0 / (1.0 + q)
        cost += 0.5 * scale * scale * math.log1p(q)
        for a in range(3):
            j[a] = row[a]
        for a in range(2):
            j[3 + a] = row[3] * basis[0, a] + row[4] * basis[1, a] + row[5] * basis[2, a]
        for a in range(5):
            b[a] += w * r * j[a]
            for c in range(a + 1):
                A[a, c] += w * j[a] * j[c]
    for a in range(5):
        for c in range(a):
            A[c, a] = A[a, c]
    return cost


@kernel
def rows(R: Any, t: Any, basis: Any, f1: Any, f2: Any, x1: Any, x2: Any, r: Any, J: Any) -> None:
    """Residuals (k,) and Jacobian (k, 5) of all matches."""
    row = np.empty(6)
    for k in range(len(x1)):
        r[k] = epipolar_row(R, t, f1, f2, x1[k], x2[k], row)
        J[k, :3] = row[:3]
        for a in range(2):
            J[k, 3 + a] = row[3] * basis[0, a] + row[4] * basis[1, a] + row[5] * basis[2, a]


@kernel
def tangent_basis(t: Any) -> Any:
    """Two unit vectors, the columns of (3, 2), orthogonal to a unit vector and to each other."""
    least = 0
    for a in range(1, 3):
        if abs(t[a]) < abs(t[least]):
            least = a
    out = np.empty((3, 2))
    for a in range(3):
        out[a, 0] = (1.0 if a == least else 0.0) - t[least] * t[a]
    out[:, 0] /= math.sqrt(np.sum(out[:, 0] ** 2))
    out[0, 1] = t[1] * out[2, 0] - t[2] * out[1, 0]
    out[1, 1] = t[2] * out[0, 0] - t[0] * out[2, 0]
    out[2, 1] = t[0] * out[1, 0] - t[1] * out[0, 0]
    return out


@kernel
def turned(R: Any, omega: Any) -> Any:
    """``Exp(ω) R`` by Rodrigues' formula."""
    angle2 = omega[0] ** 2 + omega[1] ** 2 + omega[2] ** 2
    angle = math.sqrt(angle2)
    a = 1.0 - angle2 / 6.0 if angle < 1e-4 else math.sin(angle) / angle
    b = 0.5 - angle2 / 24.0 if angle < 1e-4 else (1.0 - math.cos(angle)) / angle2
    out = np.empty((3, 3))
    for c in range(3):
        x, y, z = R[0, c], R[1, c], R[2, c]
        u, v, w = omega[1] * z - omega[2] * y, omega[2] * x - omega[0] * z, omega[0] * y - omega[1] * x
        out[0, c] = x + a * u + b * (omega[1] * w - omega[2] * v)
        out[1, c] = y + a * v + b * (omega[2] * u - omega[0] * w)
        out[2, c] = z + a * w + b * (omega[0] * v - omega[1] * u)
    return out


@kernel
def refine(
    R: Any, t: Any, f1: Any, f2: Any, x1: Any, x2: Any, scale: float, tolerance: float, most_steps: int
) -> tuple[Any, Any]:
    """Levenberg–Marquardt on a rotation (3, 3) and a unit direction (3,) with the cost of ``normal_equations``.

    It ends when a step can lower the cost by no more than ``tolerance · c²/2``.
    """
    A, b, A_new, b_new = np.empty((5, 5)), np.empty(5), np.empty((5, 5)), np.empty(5)
    basis, damping = tangent_basis(t), 1e-4
    cost = normal_equations(R, t, basis, f1, f2, x1, x2, scale, A, b)
    for _ in range(most_steps):
        M = A.copy()
        for a in range(5):
            M[a, a] += damping * A[a, a] + 1e-12
        step = np.linalg.solve(M, -b)
        R_new = turned(R, step[:3])
        t_new = t + basis @ step[3:]
        t_new /= math.sqrt(np.sum(t_new**2))
        basis_new = tangent_basis(t_new)
        cost_new = normal_equations(R_new, t_new, basis_new, f1, f2, x1, x2, scale, A_new, b_new)
        if cost_new <= cost:
            decrement = -np.sum(b * step)  # twice the predicted fall, in squared pixels
            R, t, basis, cost, damping = R_new, t_new, basis_new, cost_new, max(0.1 * damping, 1e-12)
            A[:], b[:] = A_new, b_new
            if decrement < tolerance * scale * scale:
                break
        else:
            damping *= 10.0
            if damping > 1e8:
                break
    return R, t
