"""Compiled loops over nodes and edges for starting points and certificates: arrays in, arrays out, no validation.

An edge from i to j carries ``j_from_i = (Q, t)``, so that ``R_i ≈ R_j Q`` and ``p_i ≈ p_j + R_j t`` for the
world_from_node poses ``(R, p)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import kernel
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


@kernel
def connection_blocks(
    edge_i: Any, edge_j: Any, Q: Any, weight: Any, held: Any, diagonal: Any, off: Any, rhs: Any
) -> None:
    """Normal equations of ``Σ w ‖Y_i − QᵀY_j‖²`` over 3×3 matrices ``Y = Rᵀ``, with ``Y = I`` at ``held`` nodes.

    ``diagonal``, ``rhs`` (n, 3, 3) are zero on entry; ``off`` (m, 3, 3) is the block (i, j).
    """
    for e in range(edge_i.shape[0]):
        i, j, w = edge_i[e], edge_j[e], weight[e]
        for a in range(3):
            diagonal[i, a, a] += w
            diagonal[j, a, a] += w
        coupled = not (held[i] or held[j])
        for a in range(3):
            for b in range(3):
                off[e, a, b] = -w * Q[e, b, a] if coupled else 0.0
        if held[j]:
            for a in range(3):
                for b in range(3):
                    rhs[i, a, b] += w * Q[e, b, a]
        if held[i]:
            for a in range(3):
                for b in range(3):
                    rhs[j, a, b] += w * Q[e, a, b]
    for k in range(held.shape[0]):
        if held[k]:
            for a in range(3):
                for b in range(3):
                    diagonal[k, a, b] = rhs[k, a, b] = 1.0 if a == b else 0.0


@kernel
def position_blocks(
    edge_i: Any, edge_j: Any, R: Any, P: Any, t: Any, held: Any, position: Any, diagonal: Any, off: Any, rhs: Any
) -> None:
    """Normal equations of ``½ Σ |p_j + R_j t − p_i|²`` in the metric ``R_j P R_jᵀ``, for changes of ``position``.

    ``P`` is (m, 3, 3) or (m, 1, 1) for scalars; ``held`` positions do not change.
    """
    full = P.shape[1] == 3
    W, T, residual = np.zeros((3, 3)), np.empty((3, 3)), np.empty(3)
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        for a in range(3):
            m = R[j, a, 0] * t[e, 0] + R[j, a, 1] * t[e, 1] + R[j, a, 2] * t[e, 2]
            residual[a] = m - (position[i, a] - position[j, a])
        if full:
            for a in range(3):
                for b in range(3):
                    T[a, b] = R[j, a, 0] * P[e, 0, b] + R[j, a, 1] * P[e, 1, b] + R[j, a, 2] * P[e, 2, b]
            for a in range(3):
                for b in range(3):
                    W[a, b] = T[a, 0] * R[j, b, 0] + T[a, 1] * R[j, b, 1] + T[a, 2] * R[j, b, 2]
        else:
            for a in range(3):
                W[a, a] = P[e, 0, 0]
        coupled = not (held[i] or held[j])
        for a in range(3):
            force = W[a, 0] * residual[0] + W[a, 1] * residual[1] + W[a, 2] * residual[2]
            rhs[i, a] += force
            rhs[j, a] -= force
            for b in range(3):
                diagonal[i, a, b] += W[a, b]
                diagonal[j, a, b] += W[a, b]
                off[e, a, b] = -W[a, b] if coupled else 0.0
    for k in range(held.shape[0]):
        if held[k]:
            for a in range(3):
                rhs[k, a] = 0.0
                for b in range(3):
                    diagonal[k, a, b] = 1.0 if a == b else 0.0


@kernel
def quadratic_blocks(edge_i: Any, edge_j: Any, Q: Any, t: Any, kappa: Any, tau: Any, diagonal: Any, off: Any) -> None:
    """Blocks of M with ``2U = tr(X M Xᵀ)``, ``X_i = [p_i R_i]``: ``diagonal`` (n, 4, 4), ``off`` (m, 4, 4) at (i, j).

    An edge is ``κ‖R_i − R_j Q‖² + τ|p_i − p_j − R_j t|²``, and ``p_j + R_j t = X_j a`` with ``a = (1, t)``.
    """
    a = np.empty(4)
    for e in range(edge_i.shape[0]):
        i, j, k, s = edge_i[e], edge_j[e], kappa[e], tau[e]
        a[0] = 1.0
        for c in range(3):
            a[1 + c] = t[e, c]
        diagonal[i, 0, 0] += s
        for c in range(4):
            for d in range(4):
                diagonal[j, c, d] += s * a[c] * a[d]
                off[e, c, d] = 0.0
            off[e, 0, c] = -s * a[c]
        for c in range(3):
            diagonal[i, 1 + c, 1 + c] += k
            diagonal[j, 1 + c, 1 + c] += k
            for d in range(3):
                off[e, 1 + c, 1 + d] -= k * Q[e, d, c]


@kernel
def lifted_gradient(edge_i: Any, edge_j: Any, Q: Any, t: Any, kappa: Any, tau: Any, X: Any, gradient: Any) -> float:
    """Write ``X M`` into ``gradient``, from residuals; return ``½ tr(X M Xᵀ)``.

    ``X`` (n, 4, r) holds p_i and the three columns of the r×3 matrix Y_i as r-vectors.
    """
    r = X.shape[2]
    gradient[:] = 0.0
    energy = 0.0
    for e in range(edge_i.shape[0]):
        i, j, k, s = edge_i[e], edge_j[e], kappa[e], tau[e]
        for x in range(r):
            y0, y1, y2 = X[j, 1, x], X[j, 2, x], X[j, 3, x]
            d0 = X[i, 1, x] - (y0 * Q[e, 0, 0] + y1 * Q[e, 1, 0] + y2 * Q[e, 2, 0])
            d1 = X[i, 2, x] - (y0 * Q[e, 0, 1] + y1 * Q[e, 1, 1] + y2 * Q[e, 2, 1])
            d2 = X[i, 3, x] - (y0 * Q[e, 0, 2] + y1 * Q[e, 1, 2] + y2 * Q[e, 2, 2])
            f = X[i, 0, x] - X[j, 0, x] - (y0 * t[e, 0] + y1 * t[e, 1] + y2 * t[e, 2])
            energy += 0.5 * (k * (d0 * d0 + d1 * d1 + d2 * d2) + s * f * f)
            d0 *= k
            d1 *= k
            d2 *= k
            f *= s
            gradient[i, 0, x] += f
            gradient[j, 0, x] -= f
            gradient[i, 1, x] += d0
            gradient[i, 2, x] += d1
            gradient[i, 3, x] += d2
            for b in range(3):
                gradient[j, 1 + b, x] -= d0 * Q[e, b, 0] + d1 * Q[e, b, 1] + d2 * Q[e, b, 2] + f * t[e, b]
    return energy


@kernel
def multipliers(X: Any, gradient: Any, out: Any) -> None:
    """Symmetric part of ``Y_iᵀ (X M)_i`` (n, 3, 3), the Lagrange multipliers of ``Y_iᵀY_i = I``."""
    r = X.shape[2]
    for i in range(X.shape[0]):
        for a in range(3):
            for b in range(a, 3):
                total = 0.0
                for x in range(r):
                    total += X[i, 1 + a, x] * gradient[i, 1 + b, x] + X[i, 1 + b, x] * gradient[i, 1 + a, x]
                out[i, a, b] = out[i, b, a] = 0.5 * total


@kernel
def orthonormalise(X: Any) -> None:
    """Replace every Y_i by its polar factor ``Y (YᵀY)^(−1/2)``: a second-order retraction on the Stiefel manifold."""
    r = X.shape[2]
    A, V, T = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3))
    for i in range(X.shape[0]):
        for a in range(3):
            for b in range(a, 3):
                total = 0.0
                for x in range(r):
                    total += X[i, 1 + a, x] * X[i, 1 + b, x]
                A[a, b] = A[b, a] = total
            for b in range(3):
                V[a, b] = 1.0 if a == b else 0.0
        for _ in range(30):  # Jacobi rotations
            off = A[0, 1] * A[0, 1] + A[0, 2] * A[0, 2] + A[1, 2] * A[1, 2]
            if off <= 1e-34 * (A[0, 0] * A[0, 0] + A[1, 1] * A[1, 1] + A[2, 2] * A[2, 2]):
                break
            for a in range(2):
                for b in range(a + 1, 3):
                    if A[a, b] == 0.0:
                        continue
                    theta = (A[b, b] - A[a, a]) / (2.0 * A[a, b])
                    t = 1.0 / (abs(theta) + np.sqrt(theta * theta + 1.0))
                    if theta < 0.0:
                        t = -t
                    c = 1.0 / np.sqrt(t * t + 1.0)
                    s = t * c
                    for k in range(3):
                        p, q = A[k, a], A[k, b]
                        A[k, a], A[k, b] = c * p - s * q, s * p + c * q
                    for k in range(3):
                        p, q = A[a, k], A[b, k]
                        A[a, k], A[b, k] = c * p - s * q, s * p + c * q
                    for k in range(3):
                        p, q = V[k, a], V[k, b]
                        V[k, a], V[k, b] = c * p - s * q, s * p + c * q
        for a in range(3):
            for b in range(3):
                T[a, b] = 0.0
                for k in range(3):
                    T[a, b] += V[a, k] * V[b, k] / np.sqrt(A[k, k])
        for x in range(r):
            y0, y1, y2 = X[i, 1, x], X[i, 2, x], X[i, 3, x]
            for a in range(3):
                X[i, 1 + a, x] = T[a, 0] * y0 + T[a, 1] * y1 + T[a, 2] * y2


@kernel
def apply(edge_i: Any, edge_j: Any, diagonal: Any, off: Any, V: Any, out: Any) -> None:
    """``out = S V`` for a symmetric matrix of 4×4 blocks and ``V`` (n, 4, r)."""
    r = V.shape[2]
    for k in range(V.shape[0]):
        for a in range(4):
            for x in range(r):
                out[k, a, x] = (
                    diagonal[k, a, 0] * V[k, 0, x] + diagonal[k, a, 1] * V[k, 1, x]
                    + diagonal[k, a, 2] * V[k, 2, x] + diagonal[k, a, 3] * V[k, 3, x]
                )  # fmt: skip
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        for a in range(4):
            for b in range(4):
                value = off[e, a, b]
                if value != 0.0:
                    for x in range(r):
                        out[i, a, x] += value * V[j, b, x]
                        out[j, b, x] += value * V[i, a, x]


@kernel
def tangent(X: Any, V: Any) -> None:
    """Project V (in place) on the tangent space at X: take ``Y sym(Yᵀ V)`` away at every node."""
    r = X.shape[2]
    S = np.empty((3, 3))
    for i in range(X.shape[0]):
        for a in range(3):
            for b in range(a, 3):
                total = 0.0
                for x in range(r):
                    total += X[i, 1 + a, x] * V[i, 1 + b, x] + X[i, 1 + b, x] * V[i, 1 + a, x]
                S[a, b] = S[b, a] = 0.5 * total
        for a in range(3):
            for x in range(r):
                V[i, 1 + a, x] -= S[a, 0] * X[i, 1, x] + S[a, 1] * X[i, 2, x] + S[a, 2] * X[i, 3, x]
