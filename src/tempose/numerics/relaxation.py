"""Compiled loops over nodes and edges for starting points and certificates: arrays in, arrays out, no validation.

An edge from i to j carries ``j_from_i = (Q, t)``, so that ``R_i ≈ R_j Q`` and ``p_i ≈ p_j + R_j t`` for the
world_from_node poses ``(R, p)``. ``axes`` is a tuple of as many entries as the space has dimensions, d = 2 or 3: its length is
known to the compiler, which so makes a kernel for the plane and one for space.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose._typing import Array
from tempose.geometry.compiled import product, turned


@kernel
def chain(order: Any, parent: Any, edge: Any, edge_i: Any, measured: Any, t: Any, wxyz: Any, position: Any) -> None:
    """Chain measured motions from the roots outwards; the poses of the roots are given in ``wxyz``, ``position``."""
    for k in range(order.shape[0]):
        child = order[k]
        above = parent[child]
        if above < 0:
            continue
        e = edge[child]
        q = (measured[e, 0], measured[e, 1], measured[e, 2], measured[e, 3])
        d = (t[e, 0], t[e, 1], t[e, 2])
        a = (wxyz[above, 0], wxyz[above, 1], wxyz[above, 2], wxyz[above, 3])
        if edge_i[e] == child:  # measured as parent_from_child
            w = product(a, q)
            x = turned(a, d)
            sign = 1.0
        else:  # child_from_parent
            w = product(a, (q[0], -q[1], -q[2], -q[3]))
            x = turned(w, d)
            sign = -1.0
        norm = 1.0 / np.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2] + w[3] * w[3])
        for c in range(4):
            wxyz[child, c] = w[c] * norm
        for c in range(3):
            position[child, c] = position[above, c] + sign * x[c]


@kernel
def nearest_rotations(A: Any, wxyz: Any) -> None:
    """Quaternions of the rotations nearest to the matrices ``A`` (n, 3, 3), whatever their rank or determinant.

    ``tr(RᵀA) = qᵀKq`` with a symmetric 4×4 matrix K (Davenport); its largest eigenvector by Jacobi rotations.
    """
    K, V = np.empty((4, 4)), np.empty((4, 4))
    for node in range(A.shape[0]):
        B = A[node]
        K[0, 0] = B[0, 0] + B[1, 1] + B[2, 2]
        K[1, 1] = B[0, 0] - B[1, 1] - B[2, 2]
        K[2, 2] = B[1, 1] - B[0, 0] - B[2, 2]
        K[3, 3] = B[2, 2] - B[0, 0] - B[1, 1]
        K[0, 1] = K[1, 0] = B[2, 1] - B[1, 2]
        K[0, 2] = K[2, 0] = B[0, 2] - B[2, 0]
        K[0, 3] = K[3, 0] = B[1, 0] - B[0, 1]
        K[1, 2] = K[2, 1] = B[0, 1] + B[1, 0]
        K[1, 3] = K[3, 1] = B[0, 2] + B[2, 0]
        K[2, 3] = K[3, 2] = B[1, 2] + B[2, 1]
        for a in range(4):
            for b in range(4):
                V[a, b] = 1.0 if a == b else 0.0
        for _ in range(30):
            off, scale = 0.0, 0.0
            for a in range(4):
                scale += K[a, a] * K[a, a]
                for b in range(a + 1, 4):
                    off += K[a, b] * K[a, b]
            if off <= 1e-32 * scale or off == 0.0:
                break
            for a in range(3):
                for b in range(a + 1, 4):
                    if K[a, b] == 0.0:
                        continue
                    theta = (K[b, b] - K[a, a]) / (2.0 * K[a, b])
                    t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0))
                    if theta < 0.0:
                        t = -t
                    c = 1.0 / np.sqrt(t * t + 1.0)
                    s = t * c
                    for k in range(4):
                        x, y = K[k, a], K[k, b]
                        K[k, a], K[k, b] = c * x - s * y, s * x + c * y
                    for k in range(4):
                        x, y = K[a, k], K[b, k]
                        K[a, k], K[b, k] = c * x - s * y, s * x + c * y
                    for k in range(4):
                        x, y = V[k, a], V[k, b]
                        V[k, a], V[k, b] = c * x - s * y, s * x + c * y
        best = 0
        for k in range(1, 4):
            if K[k, k] > K[best, best]:
                best = k
        norm = 0.0
        for k in range(4):
            norm += V[k, best] * V[k, best]
        for k in range(4):
            wxyz[node, k] = V[k, best] / np.sqrt(norm)


def nearest_plane_rotations(A: Array, wxyz: Array) -> None:
    """The same in the plane, for matrices (n, 2, 2): the angle whose rotation has the largest ``tr(RᵀA)``."""
    half = 0.5 * np.arctan2(A[:, 1, 0] - A[:, 0, 1], A[:, 0, 0] + A[:, 1, 1])
    wxyz[:, 0], wxyz[:, 1], wxyz[:, 2], wxyz[:, 3] = np.cos(half), 0.0, 0.0, np.sin(half)


@kernel
def connection_blocks(
    axes: Any, edge_i: Any, edge_j: Any, Q: Any, weight: Any, held: Any, diagonal: Any, off: Any, rhs: Any
) -> None:
    """Normal equations of ``Σ w ‖Y_i − QᵀY_j‖²`` over d×d matrices ``Y = Rᵀ``, with ``Y = I`` at ``held`` nodes.

    ``diagonal``, ``rhs`` (n, d, d) are zero on entry; ``off`` (m, d, d) is the block (i, j).
    """
    d = len(axes)
    for e in range(edge_i.shape[0]):
        i, j, w = edge_i[e], edge_j[e], weight[e]
        for a in range(d):
            diagonal[i, a, a] += w
            diagonal[j, a, a] += w
        coupled = not (held[i] or held[j])
        for a in range(d):
            for b in range(d):
                off[e, a, b] = -w * Q[e, b, a] if coupled else 0.0
        if held[j]:
            for a in range(d):
                for b in range(d):
                    rhs[i, a, b] += w * Q[e, b, a]
        if held[i]:
            for a in range(d):
                for b in range(d):
                    rhs[j, a, b] += w * Q[e, a, b]
    for k in range(held.shape[0]):
        if held[k]:
            for a in range(d):
                for b in range(d):
                    diagonal[k, a, b] = rhs[k, a, b] = 1.0 if a == b else 0.0


@kernel
def position_blocks(
    axes: Any, edge_i: Any, edge_j: Any, R: Any, P: Any, force: Any, held: Any, diagonal: Any, off: Any, rhs: Any
) -> None:
    """Normal equations of ``½ Σ |f − (δ_i − δ_j)|²`` in the metric ``R_j P R_jᵀ``, for changes δ of positions.

    ``f`` (m, d), in the world, is what is left of each translation; ``P`` is (m, d, d); ``held`` positions do not change.
    """
    d = len(axes)
    W, T = np.zeros((3, 3)), np.empty((3, 3))
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        for a in range(d):
            for b in range(d):
                T[a, b] = 0.0
                for c in range(d):
                    T[a, b] += R[j, a, c] * P[e, c, b]
        for a in range(d):
            for b in range(d):
                W[a, b] = 0.0
                for c in range(d):
                    W[a, b] += T[a, c] * R[j, b, c]
        coupled = not (held[i] or held[j])
        for a in range(d):
            pull = 0.0
            for b in range(d):
                pull += W[a, b] * force[e, b]
                diagonal[i, a, b] += W[a, b]
                diagonal[j, a, b] += W[a, b]
                off[e, a, b] = -W[a, b] if coupled else 0.0
            rhs[i, a] += pull
            rhs[j, a] -= pull
    for k in range(held.shape[0]):
        if held[k]:
            for a in range(d):
                rhs[k, a] = 0.0
                for b in range(d):
                    diagonal[k, a, b] = 1.0 if a == b else 0.0


@kernel
def quadratic_blocks(
    axes: Any, edge_i: Any, edge_j: Any, Q: Any, t: Any, arm: Any, kappa: Any, tau: Any, diagonal: Any, off: Any
) -> None:
    """Blocks of M with ``2U = tr(X M Xᵀ)``, ``X_i = [p_i R_i]``: ``diagonal`` (n, d+1, d+1), ``off`` (m, …) at (i, j).

    An edge is ``κ‖R_i − R_j Q‖² + τ|X_i (1, arm) − X_j (1, t)|²``; no row in ``arm`` stands for zeros.
    """
    d = len(axes)
    h, a = np.zeros(d + 1), np.empty(d + 1)
    h[0] = a[0] = 1.0
    for e in range(edge_i.shape[0]):
        i, j, k, s = edge_i[e], edge_j[e], kappa[e], tau[e]
        for c in range(d):
            a[1 + c] = t[e, c]
            if arm.shape[0] > 0:
                h[1 + c] = arm[e, c]
        for b in range(d + 1):
            for c in range(d + 1):
                diagonal[i, b, c] += s * h[b] * h[c]
                diagonal[j, b, c] += s * a[b] * a[c]
                off[e, b, c] = -s * h[b] * a[c]
        for b in range(d):
            diagonal[i, 1 + b, 1 + b] += k
            diagonal[j, 1 + b, 1 + b] += k
            for c in range(d):
                off[e, 1 + b, 1 + c] -= k * Q[e, c, b]


@kernel
def lifted_gradient(
    axes: Any, edge_i: Any, edge_j: Any, Q: Any, t: Any, arm: Any, kappa: Any, tau: Any, X: Any, gradient: Any
) -> float:
    """Write ``X M`` into ``gradient``, from residuals; return ``½ tr(X M Xᵀ)``.

    ``X`` (n, d+1, r) holds p_i and the columns of the r×d matrix Y_i as r-vectors.
    """
    d = len(axes)
    r = X.shape[2]
    gradient[:] = 0.0
    energy = 0.0
    for e in range(edge_i.shape[0]):
        i, j, k, s = edge_i[e], edge_j[e], kappa[e], tau[e]
        for x in range(r):
            f = X[i, 0, x] - X[j, 0, x]
            for b in range(d):
                f -= X[j, 1 + b, x] * t[e, b]
            if arm.shape[0] > 0:
                for b in range(d):
                    f += X[i, 1 + b, x] * arm[e, b]
            energy += 0.5 * s * f * f
            f *= s
            gradient[i, 0, x] += f
            gradient[j, 0, x] -= f
            for b in range(d):
                gradient[j, 1 + b, x] -= f * t[e, b]
            if arm.shape[0] > 0:
                for b in range(d):
                    gradient[i, 1 + b, x] += f * arm[e, b]
            for a in range(d):
                c = X[i, 1 + a, x]
                for b in range(d):
                    c -= X[j, 1 + b, x] * Q[e, b, a]
                energy += 0.5 * k * c * c
                c *= k
                gradient[i, 1 + a, x] += c
                for b in range(d):
                    gradient[j, 1 + b, x] -= c * Q[e, b, a]
    return energy


@kernel
def multipliers(axes: Any, X: Any, gradient: Any, out: Any) -> None:
    """Symmetric part of ``Y_iᵀ (X M)_i`` (n, d, d), the Lagrange multipliers of ``Y_iᵀY_i = I``."""
    d = len(axes)
    r = X.shape[2]
    for i in range(X.shape[0]):
        for a in range(d):
            for b in range(a, d):
                total = 0.0
                for x in range(r):
                    total += X[i, 1 + a, x] * gradient[i, 1 + b, x] + X[i, 1 + b, x] * gradient[i, 1 + a, x]
                out[i, a, b] = out[i, b, a] = 0.5 * total


@kernel
def orthonormalise(axes: Any, X: Any) -> None:
    """Replace every Y_i by its polar factor ``Y (YᵀY)^(−1/2)``: a second-order retraction on the Stiefel manifold."""
    d = len(axes)
    r = X.shape[2]
    A, V, T, y = np.empty((d, d)), np.empty((d, d)), np.empty((d, d)), np.empty(d)
    for i in range(X.shape[0]):
        for a in range(d):
            for b in range(a, d):
                total = 0.0
                for x in range(r):
                    total += X[i, 1 + a, x] * X[i, 1 + b, x]
                A[a, b] = A[b, a] = total
            for b in range(d):
                V[a, b] = 1.0 if a == b else 0.0
        for _ in range(30):  # Jacobi rotations
            off, size = 0.0, 0.0
            for a in range(d):
                size += A[a, a] * A[a, a]
                for b in range(a + 1, d):
                    off += A[a, b] * A[a, b]
            if off <= 1e-34 * size:
                break
            for a in range(d - 1):
                for b in range(a + 1, d):
                    if A[a, b] == 0.0:
                        continue
                    theta = (A[b, b] - A[a, a]) / (2.0 * A[a, b])
                    t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0))
                    if theta < 0.0:
                        t = -t
                    c = 1.0 / np.sqrt(t * t + 1.0)
                    s = t * c
                    for k in range(d):
                        p, q = A[k, a], A[k, b]
                        A[k, a], A[k, b] = c * p - s * q, s * p + c * q
                    for k in range(d):
                        p, q = A[a, k], A[b, k]
                        A[a, k], A[b, k] = c * p - s * q, s * p + c * q
                    for k in range(d):
                        p, q = V[k, a], V[k, b]
                        V[k, a], V[k, b] = c * p - s * q, s * p + c * q
        for a in range(d):
            for b in range(d):
                T[a, b] = 0.0
                for k in range(d):
                    T[a, b] += V[a, k] * V[b, k] / np.sqrt(A[k, k])
        for x in range(r):
            for b in range(d):
                y[b] = X[i, 1 + b, x]
            for a in range(d):
                total = 0.0
                for b in range(d):
                    total += T[a, b] * y[b]
                X[i, 1 + a, x] = total


@kernel
def apply(axes: Any, edge_i: Any, edge_j: Any, diagonal: Any, off: Any, V: Any, out: Any) -> None:
    """``out = S V`` for a symmetric matrix of (d+1)×(d+1) blocks and ``V`` (n, d+1, r)."""
    d = len(axes)
    r = V.shape[2]
    for k in range(V.shape[0]):
        for a in range(d + 1):
            for x in range(r):
                total = 0.0
                for b in range(d + 1):
                    total += diagonal[k, a, b] * V[k, b, x]
                out[k, a, x] = total
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        for a in range(d + 1):
            for b in range(d + 1):
                value = off[e, a, b]
                if value != 0.0:
                    for x in range(r):
                        out[i, a, x] += value * V[j, b, x]
                        out[j, b, x] += value * V[i, a, x]


@kernel
def tangent(axes: Any, X: Any, V: Any) -> None:
    """Project V (in place) on the tangent space at X: take ``Y sym(Yᵀ V)`` away at every node."""
    d = len(axes)
    r = X.shape[2]
    S = np.empty((d, d))
    for i in range(X.shape[0]):
        for a in range(d):
            for b in range(a, d):
                total = 0.0
                for x in range(r):
                    total += X[i, 1 + a, x] * V[i, 1 + b, x] + X[i, 1 + b, x] * V[i, 1 + a, x]
                S[a, b] = S[b, a] = 0.5 * total
        for a in range(d):
            for x in range(r):
                total = 0.0
                for b in range(d):
                    total += S[a, b] * X[i, 1 + b, x]
                V[i, 1 + a, x] -= total
