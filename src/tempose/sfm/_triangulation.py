"""Points from many views with the cameras fixed: selection of the views that agree, and least squares.

A camera is its 3×4 projection ``P = K [R | t]`` (node_from_world), a pixel is ``(h₀, h₁)/h₂`` with ``h = P (x, 1)``, and a
point is in front where ``h₂ > 0``. Observations are sorted by point: those of point p are ``first[p]:first[p+1]``. Points
do not depend on each other, so any number of threads gives the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from tempose._support.compiling import inlined, kernel

CONVERGED, BEHIND, STALLED = 0, 1, 2
_MOST_PAIRS = 60  # of views tried as hypotheses of a point
_SMALL_STEP = 1e-10  # squared length of the last step, in squared pixels


@inlined(early=True)
def _project(P: Any, x: Any, y: Any, z: Any) -> Any:
    h0 = P[0, 0] * x + P[0, 1] * y + P[0, 2] * z + P[0, 3]
    h1 = P[1, 0] * x + P[1, 1] * y + P[1, 2] * z + P[1, 3]
    h2 = P[2, 0] * x + P[2, 1] * y + P[2, 2] * z + P[2, 3]
    return h0 / h2, h1 / h2, h2


@kernel
def _solve3(a: Any, g: Any, damping: Any) -> Any:
    """Solve ``(A + damping·diag A) d = g`` for A = (xx, xy, xz, yy, yz, zz); the last value tells whether A is positive."""
    xx, yy, zz = a[0] * (1.0 + damping), a[3] * (1.0 + damping), a[5] * (1.0 + damping)
    if not xx > 0.0:
        return 0.0, 0.0, 0.0, False
    l10, l20 = a[1] / xx, a[2] / xx
    d1 = yy - l10 * a[1]
    if not d1 > 1e-14 * yy:
        return 0.0, 0.0, 0.0, False
    e = a[4] - l10 * a[2]
    l21 = e / d1
    d2 = zz - l20 * a[2] - l21 * e
    if not d2 > 1e-14 * zz:
        return 0.0, 0.0, 0.0, False
    y1 = g[1] - l10 * g[0]
    y2 = g[2] - l20 * g[0] - l21 * y1
    z = y2 / d2
    y = y1 / d1 - l21 * z
    return g[0] / xx - l10 * y - l20 * z, y, z, True


@kernel
def _linearise(
    P: Any, camera_of: Any, pixel: Any, used: Any, begin: Any, end: Any, x: Any, y: Any, z: Any, a: Any, g: Any
) -> Any:
    """Normal matrix and right-hand side of the reprojection error; returns its sum of squares, or ∞ behind a camera."""
    a[:] = 0.0
    g[:] = 0.0
    cost = 0.0
    for k in range(begin, end):
        if not used[k]:
            continue
        Q = P[camera_of[k]]
        u, v, depth = _project(Q, x, y, z)
        if not depth > 0.0:
            return math.inf
        ru, rv = pixel[k, 0] - u, pixel[k, 1] - v
        cost += ru * ru + rv * rv
        jux, juy, juz = (
            (Q[0, 0] - u * Q[2, 0]) / depth,
            (Q[0, 1] - u * Q[2, 1]) / depth,
            (Q[0, 2] - u * Q[2, 2]) / depth,
        )
        jvx, jvy, jvz = (
            (Q[1, 0] - v * Q[2, 0]) / depth,
            (Q[1, 1] - v * Q[2, 1]) / depth,
            (Q[1, 2] - v * Q[2, 2]) / depth,
        )
        a[0] += jux * jux + jvx * jvx
        a[1] += jux * juy + jvx * jvy
        a[2] += jux * juz + jvx * jvz
        a[3] += juy * juy + jvy * jvy
        a[4] += juy * juz + jvy * jvz
        a[5] += juz * juz + jvz * jvz
        g[0] += jux * ru + jvx * rv
        g[1] += juy * ru + jvy * rv
        g[2] += juz * ru + jvz * rv
    return cost


@kernel
def _refine(
    P: Any, camera_of: Any, pixel: Any, used: Any, begin: Any, end: Any, point: Any, normal: Any, most_steps: Any
) -> Any:
    """Levenberg–Marquardt on one point, in place; returns the outcome and the sum of squared residuals."""
    a, g = np.empty(6), np.empty(3)
    fresh_a, fresh_g = np.empty(6), np.empty(3)
    x, y, z = point[0], point[1], point[2]
    cost = _linearise(P, camera_of, pixel, used, begin, end, x, y, z, a, g)
    if cost == math.inf:
        return BEHIND, cost
    damping, outcome = 1e-6, STALLED
    for _ in range(most_steps):
        dx, dy, dz, positive = _solve3(a, g, damping)
        gain = g[0] * dx + g[1] * dy + g[2] * dz
        if positive and gain < _SMALL_STEP:
            outcome = CONVERGED
            break
        fresh = math.inf
        if positive:
            fresh = _linearise(P, camera_of, pixel, used, begin, end, x + dx, y + dy, z + dz, fresh_a, fresh_g)
        if fresh <= cost:
            x, y, z, cost = x + dx, y + dy, z + dz, fresh
            a, fresh_a = fresh_a, a
            g, fresh_g = fresh_g, g
            damping = max(0.1 * damping, 1e-12)
        else:
            damping = 10.0 * max(damping, 1e-6)
            if damping > 1e12:
                break
    point[0], point[1], point[2] = x, y, z
    normal[:] = a
    return outcome, cost


@kernel
def _meet(c1: Any, d1: Any, c2: Any, d2: Any, out: Any) -> Any:
    """Midpoint of the shortest line between two rays (centre, unit direction); False if they are parallel."""
    dot = d1[0] * d2[0] + d1[1] * d2[1] + d1[2] * d2[2]
    sine2 = 1.0 - dot * dot
    if sine2 < 1e-12:
        return False
    b0, b1, b2 = c2[0] - c1[0], c2[1] - c1[1], c2[2] - c1[2]
    along1 = b0 * d1[0] + b1 * d1[1] + b2 * d1[2]
    along2 = b0 * d2[0] + b1 * d2[1] + b2 * d2[2]
    s = (along1 - dot * along2) / sine2
    t = (dot * along1 - along2) / sine2
    for k in range(3):
        out[k] = 0.5 * (c1[k] + s * d1[k] + c2[k] + t * d2[k])
    return s > 0.0 and t > 0.0


@kernel
def _score(P: Any, camera_of: Any, pixel: Any, begin: Any, end: Any, point: Any, limit2: Any) -> Any:
    """Truncated sum of squared residuals, in units of the truncation."""
    total = 0.0
    for k in range(begin, end):
        u, v, depth = _project(P[camera_of[k]], point[0], point[1], point[2])
        r2 = (pixel[k, 0] - u) ** 2 + (pixel[k, 1] - v) ** 2
        total += min(r2 / limit2, 1.0) if depth > 0.0 else 1.0
    return total


@kernel
def _select(P: Any, camera_of: Any, pixel: Any, begin: Any, end: Any, point: Any, limit2: Any, used: Any) -> Any:
    """Mark the observations within the limit of a point; returns their number."""
    count = 0
    for k in range(begin, end):
        u, v, depth = _project(P[camera_of[k]], point[0], point[1], point[2])
        used[k] = depth > 0.0 and (pixel[k, 0] - u) ** 2 + (pixel[k, 1] - v) ** 2 < limit2
        count += used[k]
    return count


@kernel(parallel=True)
def select_and_refine(
    P: Any,
    centre: Any,
    ray: Any,
    first: Any,
    camera_of: Any,
    pixel: Any,
    limit_px: Any,
    most_steps: Any,
    point: Any,
    used: Any,
    normal: Any,
    cost: Any,
    outcome: Any,
) -> None:
    """Estimate every point from the views that agree on it.

    Each pair of views (up to a number) proposes the point where its rays meet; the proposal that most views see within
    ``limit_px`` is refined on those views, which are chosen once more and refined again.
    """
    limit2 = limit_px * limit_px
    for p in prange(len(first) - 1):
        begin, end = first[p], first[p + 1]
        views = end - begin
        best, trial = math.inf, np.empty(3)
        pairs = views * (views - 1) // 2
        stride = max(1, pairs // _MOST_PAIRS)
        number = 0
        for i in range(begin, end):
            for j in range(begin, i):
                number += 1
                if number % stride == 0 and _meet(centre[camera_of[i]], ray[i], centre[camera_of[j]], ray[j], trial):
                    score = _score(P, camera_of, pixel, begin, end, trial, limit2)
                    if score < best:
                        best = score
                        point[p] = trial
        outcome[p] = BEHIND
        if best == math.inf:
            used[begin:end] = False
            continue
        for _ in range(2):
            if _select(P, camera_of, pixel, begin, end, point[p], limit2, used) < 2:
                outcome[p] = STALLED
                break
            outcome[p], cost[p] = _refine(P, camera_of, pixel, used, begin, end, point[p], normal[p], most_steps)


@kernel(parallel=True)
def refine(
    P: Any,
    first: Any,
    camera_of: Any,
    pixel: Any,
    used: Any,
    most_steps: Any,
    point: Any,
    normal: Any,
    cost: Any,
    outcome: Any,
) -> None:
    """Least squares for every point from where it is, on its used observations."""
    for p in prange(len(first) - 1):
        outcome[p], cost[p] = _refine(
            P, camera_of, pixel, used, first[p], first[p + 1], point[p], normal[p], most_steps
        )


@kernel(parallel=True)
def widest_angle(centre: Any, first: Any, camera_of: Any, used: Any, point: Any, angle: Any) -> None:
    """Largest angle (radians) under which a point is seen from two of its used views."""
    for p in prange(len(first) - 1):
        widest = 0.0
        for i in range(first[p], first[p + 1]):
            if not used[i]:
                continue
            a = point[p] - centre[camera_of[i]]
            for j in range(first[p], i):
                if used[j]:
                    b = point[p] - centre[camera_of[j]]
                    nx, ny, nz = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]
                    dot = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
                    widest = max(widest, math.atan2(math.sqrt(nx * nx + ny * ny + nz * nz), dot))
        angle[p] = widest
