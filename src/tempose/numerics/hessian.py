"""Second derivatives of U in the chart ``R_i → Exp(ω_i) R_i``, ``p_i → p_i + δ_i`` (world_from_node).

Every node has six coordinates (ω, δ). For an edge from i to j with residual quaternion ``(s, ν)`` in j's frame,
``h = Λν`` and ``y = s h + h × ν`` (the gradient), a turn ``η = R_jᵀω`` gives to second order

    U_rot = … + ½ dᵀK d + ½ η_iᵀ[y]× η_j,   d = η_j − η_i,   K = ½ (sI + [ν]×)ᵀ Λ (sI + [ν]×) − ½ (h·ν) I

where the first part of K is the Gauss–Newton term. For the translation, with
``D = p_i − p_j``, ``Δ = δ_i − δ_j``, ``u`` the world-frame force ``R_j P (residual)`` and ``P_w = R_j P R_jᵀ``,

    U_trans = … + ½ |[D]×ω_j + Δ|²_{P_w} + u·(ω_j × Δ − ½ ω_j × (ω_j × D)).

Full rows also have a coupling B and an arm. With ``g = BᵀP (residual)`` the gradient y gets ``J_sᵀ g``,
``J_s = s²I + s[ν]× − ννᵀ`` the derivative of 2sν, and K gets ``−s(g·ν) I − ½ (νcᵀ + cνᵀ)``, c = s g + g × ν. In the world
frame, m the arm, ``D = p_i + m − p_j`` and ``A = R_j B J_s R_jᵀ``, the residual changes by ``W_j ω_j + W_i ω_i − Δ``,

    W_j = A − [D]×,   W_i = [m]× − A,   and   u·((ω_j × (ω_i × m)) − ½ ω_i × (ω_i × m))

is what the arm adds in second order.

With a robust likelihood the Hessian of an edge is ``ρ′ H + ρ″ g gᵀ``, H and g those of its energy; the Gauss–Newton matrix
leaves the second term out, which is never positive: what is left is the weighted problem of expectation maximisation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import compile_for, inlined, kernel
from tempose._typing import Array, Index
from tempose.geometry.compiled import multiply, rotate
from tempose.numerics.layout import FULL_WIDTH, ISO_WIDTH, ROBUST_WIDTH, EdgeTable
from tempose.numerics.potential import full_edge, isotropic_edge, robust_edge


@inlined(early=True)
def _matrix(w: Any, x: Any, y: Any, z: Any, R: Any) -> None:
    R[0, 0], R[0, 1], R[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    R[1, 0], R[1, 1], R[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    R[2, 0], R[2, 1], R[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


@kernel
def _conjugate_by(R: Any, S: Any, out: Any, tmp: Any) -> None:
    """``out = R S Rᵀ``."""
    for a in range(3):
        for b in range(3):
            tmp[a, b] = R[a, 0] * S[0, b] + R[a, 1] * S[1, b] + R[a, 2] * S[2, b]
    for a in range(3):
        for b in range(3):
            out[a, b] = tmp[a, 0] * R[b, 0] + tmp[a, 1] * R[b, 1] + tmp[a, 2] * R[b, 2]


@kernel
def _hat(v: Any, out: Any) -> None:
    out[0, 0] = out[1, 1] = out[2, 2] = 0.0
    out[0, 1], out[0, 2], out[1, 2] = -v[2], v[1], -v[0]
    out[1, 0], out[2, 0], out[2, 1] = v[2], -v[1], v[0]


@kernel
def _translation_blocks(D: Any, Pw: Any, u: Any, exact: Any, W: Any, WP: Any, turn: Any, cross: Any) -> None:
    """∂²/∂ω_j∂ω_j into ``turn`` and ∂²/∂ω_j∂Δ into ``cross``."""
    _hat(D, W)
    for a in range(3):
        for b in range(3):  # [D]×ᵀ P_w
            WP[a, b] = W[0, a] * Pw[0, b] + W[1, a] * Pw[1, b] + W[2, a] * Pw[2, b]
    for a in range(3):
        for b in range(3):
            turn[a, b] = WP[a, 0] * W[0, b] + WP[a, 1] * W[1, b] + WP[a, 2] * W[2, b]
            cross[a, b] = WP[a, b]
    if exact:
        dot = u[0] * D[0] + u[1] * D[1] + u[2] * D[2]
        for a in range(3):
            for b in range(3):
                turn[a, b] -= 0.5 * (u[a] * D[b] + D[a] * u[b])
            turn[a, a] += dot
        _hat(u, W)
        for a in range(3):
            for b in range(3):
                cross[a, b] -= W[a, b]


@kernel
def _arm_blocks(D: Any, m: Any, A: Any, Pw: Any, u: Any, exact: Any, s3: Any, Hi: Any, Hj: Any, Hij: Any) -> None:
    """Add to the rotations' blocks, and write all others, of a translation with coupling and arm; ``s3`` (4, 3, 3) scratch."""
    Wi, Wj, PWi, PWj = s3[0], s3[1], s3[2], s3[3]
    _hat(m, Wi)
    _hat(D, Wj)
    for a in range(3):
        for b in range(3):
            Wi[a, b] -= A[a, b]
            Wj[a, b] = A[a, b] - Wj[a, b]
    for a in range(3):
        for b in range(3):
            PWi[a, b] = Pw[a, 0] * Wi[0, b] + Pw[a, 1] * Wi[1, b] + Pw[a, 2] * Wi[2, b]
            PWj[a, b] = Pw[a, 0] * Wj[0, b] + Pw[a, 1] * Wj[1, b] + Pw[a, 2] * Wj[2, b]
    for a in range(3):
        for b in range(3):
            Hi[a, b] += Wi[0, a] * PWi[0, b] + Wi[1, a] * PWi[1, b] + Wi[2, a] * PWi[2, b]
            Hj[a, b] += Wj[0, a] * PWj[0, b] + Wj[1, a] * PWj[1, b] + Wj[2, a] * PWj[2, b]
            Hij[a, b] += Wi[0, a] * PWj[0, b] + Wi[1, a] * PWj[1, b] + Wi[2, a] * PWj[2, b]
    if exact:
        along_m = u[0] * m[0] + u[1] * m[1] + u[2] * m[2]
        along_D = u[0] * D[0] + u[1] * D[1] + u[2] * D[2]
        for a in range(3):
            for b in range(3):
                Hi[a, b] -= 0.5 * (u[a] * m[b] + m[a] * u[b])
                Hj[a, b] -= 0.5 * (u[a] * D[b] + D[a] * u[b])
                Hij[a, b] += u[a] * m[b]
            Hi[a, a] += along_m
            Hj[a, a] += along_D
            Hij[a, a] -= along_m
        _hat(u, Wj)
        for a in range(3):
            for b in range(3):
                PWj[a, b] -= Wj[a, b]
    for a in range(3):
        for b in range(3):
            Hi[3 + a, b] = Hi[b, 3 + a] = -PWi[a, b]
            Hj[3 + a, b] = Hj[b, 3 + a] = PWj[a, b]
            Hij[b, 3 + a] = PWi[a, b]  # ω_i, δ_j
            Hij[3 + a, b] = -PWj[a, b]  # δ_i, ω_j
            Hi[3 + a, 3 + b] = Hj[3 + a, 3 + b] = Pw[a, b]
            Hij[3 + a, 3 + b] = -Pw[a, b]


@kernel
def _unpack(edge: Any, e: Any, full: Any, L: Any, P: Any, B: Any) -> None:
    if full is None:
        for a in range(3):
            for b in range(3):
                L[a, b] = P[a, b] = 0.0
            L[a, a] = edge[e, 7]
            P[a, a] = edge[e, 8]
    else:
        k = 7
        for a in range(3):
            for b in range(a, 3):
                L[a, b] = L[b, a] = edge[e, k]
                P[a, b] = P[b, a] = edge[e, k + 6]
                k += 1
            for b in range(3):
                B[a, b] = edge[e, 19 + 3 * a + b]


@kernel
def _edge_blocks(
    edge: Any,
    e: Any,
    full: Any,
    aj: Any,
    pj: Any,
    ai: Any,
    pi: Any,
    exact: Any,
    s3: Any,
    v3: Any,
    Hi: Any,
    Hj: Any,
    Hij: Any,
) -> None:
    """The three 6×6 blocks of one edge. ``s3`` (14, 3, 3) and ``v3`` (7, 3) are scratch."""
    R, L, P, K, J, T, Pw, Y, turn, cross = s3[0], s3[1], s3[2], s3[3], s3[4], s3[5], s3[6], s3[7], s3[8], s3[9]
    B, A = s3[10], s3[11]
    D, u, y, h, m, g, c = v3[0], v3[1], v3[2], v3[3], v3[4], v3[5], v3[6]
    _unpack(edge, e, full, L, P, B)
    _matrix(aj[0], aj[1], aj[2], aj[3], R)
    b0, b1, b2, b3 = multiply(aj[0], aj[1], aj[2], aj[3], edge[e, 0], edge[e, 1], edge[e, 2], edge[e, 3])
    s, x0, x1, x2 = multiply(b0, b1, b2, b3, ai[0], -ai[1], -ai[2], -ai[3])
    n0, n1, n2 = rotate(aj[0], -aj[1], -aj[2], -aj[3], x0, x1, x2)
    for a in range(3):
        h[a] = L[a, 0] * n0 + L[a, 1] * n1 + L[a, 2] * n2
    # the translation's residual, and its force u in the world frame
    _conjugate_by(R, P, Pw, T)
    for a in range(3):
        D[a] = pi[a] - pj[a]
    f0, f1, f2 = rotate(aj[0], aj[1], aj[2], aj[3], edge[e, 4], edge[e, 5], edge[e, 6])
    if full is not None:
        m[0], m[1], m[2] = rotate(ai[0], ai[1], ai[2], ai[3], edge[e, 28], edge[e, 29], edge[e, 30])
        for a in range(3):
            D[a] += m[a]
            c[a] = 2.0 * s * (B[a, 0] * n0 + B[a, 1] * n1 + B[a, 2] * n2)
        c0, c1, c2 = rotate(aj[0], aj[1], aj[2], aj[3], c[0], c[1], c[2])
        f0, f1, f2 = f0 + c0, f1 + c1, f2 + c2
    f0, f1, f2 = f0 - D[0], f1 - D[1], f2 - D[2]
    for a in range(3):
        u[a] = Pw[a, 0] * f0 + Pw[a, 1] * f1 + Pw[a, 2] * f2
    # K = ½ (sI + [ν])ᵀ Λ (sI + [ν]) (Gauss–Newton) − ½ (h·ν) I
    y[0] = s * h[0] + h[1] * n2 - h[2] * n1
    y[1] = s * h[1] + h[2] * n0 - h[0] * n2
    y[2] = s * h[2] + h[0] * n1 - h[1] * n0
    J[0, 0] = J[1, 1] = J[2, 2] = s
    J[0, 1], J[0, 2], J[1, 2] = -n2, n1, -n0
    J[1, 0], J[2, 0], J[2, 1] = n2, -n1, n0
    for a in range(3):
        for b in range(3):
            T[a, b] = L[a, 0] * J[0, b] + L[a, 1] * J[1, b] + L[a, 2] * J[2, b]
    for a in range(3):
        for b in range(3):
            K[a, b] = 0.5 * (J[0, a] * T[0, b] + J[1, a] * T[1, b] + J[2, a] * T[2, b])
    if exact:
        dot = 0.5 * (h[0] * n0 + h[1] * n1 + h[2] * n2)
        for a in range(3):
            K[a, a] -= dot
    if full is not None:
        n = h  # from here on ν
        n[0], n[1], n[2] = n0, n1, n2
        for a in range(3):
            for b in range(3):
                J[a, b] = s * J[a, b] - n[a] * n[b]  # J_s
        for a in range(3):
            for b in range(3):
                Y[a, b] = B[a, 0] * J[0, b] + B[a, 1] * J[1, b] + B[a, 2] * J[2, b]
        _conjugate_by(R, Y, A, T)
        if exact:
            for a in range(3):
                T[0, a] = R[0, a] * u[0] + R[1, a] * u[1] + R[2, a] * u[2]
            for a in range(3):
                g[a] = B[0, a] * T[0, 0] + B[1, a] * T[0, 1] + B[2, a] * T[0, 2]
            for a in range(3):
                y[a] += J[0, a] * g[0] + J[1, a] * g[1] + J[2, a] * g[2]
            c[0] = s * g[0] + (g[1] * n2 - g[2] * n1)
            c[1] = s * g[1] + (g[2] * n0 - g[0] * n2)
            c[2] = s * g[2] + (g[0] * n1 - g[1] * n0)
            dot = s * (g[0] * n0 + g[1] * n1 + g[2] * n2)
            for a in range(3):
                for b in range(3):
                    K[a, b] -= 0.5 * (n[a] * c[b] + c[a] * n[b])
                K[a, a] -= dot
    _conjugate_by(R, K, J, T)  # K in the world frame, in J
    for a in range(3):
        for b in range(3):
            Hj[a, b] = J[a, b]
            Hi[a, b] = J[a, b]
            Hij[a, b] = -J[a, b]
    if exact:
        y0, y1, y2 = y[0], y[1], y[2]
        for a in range(3):
            y[a] = 0.5 * (R[a, 0] * y0 + R[a, 1] * y1 + R[a, 2] * y2)
        _hat(y, Y)
        for a in range(3):
            for b in range(3):
                Hij[a, b] += Y[a, b]
    if full is not None:
        _arm_blocks(D, m, A, Pw, u, exact, s3[12:], Hi, Hj, Hij)
        return
    _translation_blocks(D, Pw, u, exact, Y, T, turn, cross)
    for a in range(3):
        for b in range(3):
            Hj[a, b] += turn[a, b]
            Hj[a, 3 + b] = -cross[a, b]
            Hj[3 + b, a] = -cross[a, b]
            Hj[3 + a, 3 + b] = Pw[a, b]
            Hi[a, 3 + b] = 0.0
            Hi[3 + a, b] = 0.0
            Hi[3 + a, 3 + b] = Pw[a, b]
            Hij[a, 3 + b] = 0.0  # ω_i, δ_j
            Hij[3 + b, a] = cross[a, b]  # δ_i, ω_j
            Hij[3 + a, 3 + b] = -Pw[a, b]


@kernel
def _make_robust(
    edge: Any,
    e: Any,
    full: Any,
    aj: Any,
    pj: Any,
    ai: Any,
    pi: Any,
    exact: Any,
    gi: Any,
    gj: Any,
    Hi: Any,
    Hj: Any,
    Hij: Any,
) -> None:
    """Turn the blocks of an edge's energy into those of ρ; ``gi`` and ``gj`` (6,) are scratch."""
    a, b = (aj[0], aj[1], aj[2], aj[3]), (ai[0], ai[1], ai[2], ai[3])
    d = (pi[0] - pj[0], pi[1] - pj[1], pi[2] - pj[2])
    if full is None:
        energy, turn, push, swing = isotropic_edge(edge, e, 0, 1, a, b, d)
    else:
        energy, turn, push, swing = full_edge(edge, e, 0, 1, a, b, d)
    last = edge.shape[1] - ROBUST_WIDTH
    _, slope, bend = robust_edge(energy, edge[e, last], edge[e, last + 1], edge[e, last + 2], edge[e, last + 3])
    if not exact:
        bend = 0.0
    for k in range(3):
        gi[k], gi[3 + k] = -turn[k], -push[k]
        gj[k], gj[3 + k] = swing[k], push[k]
    for r in range(6):
        for c in range(6):
            Hi[r, c] = slope * Hi[r, c] + bend * gi[r] * gi[c]
            Hj[r, c] = slope * Hj[r, c] + bend * gj[r] * gj[c]
            Hij[r, c] = slope * Hij[r, c] + bend * gi[r] * gj[c]


@kernel
def _hessian(
    table: Any, full: Any, robust: Any, wxyz: Any, position: Any, exact: Any, axes: Any, diagonal: Any, off: Any
) -> None:
    """:func:`hessian`; ``full`` and ``robust`` are ``None`` where edges are not, and code for that is not compiled."""
    n, size = wxyz.shape[0], axes.shape[0]
    s3, v3 = np.empty((16, 3, 3)), np.empty((7, 3))
    Hi, Hj, Hij = np.empty((6, 6)), np.empty((6, 6)), np.empty((6, 6))
    gi, gj = np.empty(6), np.empty(6)
    for j in range(n):
        for a in range(size):
            for b in range(size):
                diagonal[j, a, b] = 0.0
    for j in range(n):
        for e in range(table.start[j], table.start[j + 1]):
            i = table.source[e]
            _edge_blocks(table.edge, e, full, wxyz[j], position[j], wxyz[i], position[i], exact, s3, v3, Hi, Hj, Hij)
            if robust is not None:
                _make_robust(
                    table.edge, e, full, wxyz[j], position[j], wxyz[i], position[i], exact, gi, gj, Hi, Hj, Hij
                )
            for a in range(size):
                for b in range(size):
                    diagonal[j, a, b] += Hj[axes[a], axes[b]]
                    diagonal[i, a, b] += Hi[axes[a], axes[b]]
                    off[e, a, b] = Hij[axes[a], axes[b]]


def hessian(
    table: EdgeTable, wxyz: Array, position: Array, exact: bool, axes: Index, diagonal: Array, off: Array
) -> None:
    """Write the blocks of the Hessian (``exact``) or of the Gauss–Newton matrix, on those ``axes`` (b,) of the six.

    ``diagonal`` (n, b, b); ``off`` (m, b, b) has for each edge of ``table``, in its order, the block (i, j).
    """
    width = table.edge.shape[1]
    full = None if width < FULL_WIDTH else True
    robust = None if width in (ISO_WIDTH, FULL_WIDTH) else True
    wxyz, position = np.array(wxyz), np.array(position)  # read-only arrays are another type: one is compiled
    _hessian(table, full, robust, wxyz, position, exact, axes, diagonal, off)


def compile_hessian() -> None:
    """Compile :func:`hessian` for edges with one number per rotation and translation."""
    poses, blocks, index = np.empty((0, 4)), np.empty((0, 6, 6)), np.empty(0, np.int64)
    table = EdgeTable(index, np.empty(0, np.int32), poses)
    compile_for(_hessian, table, None, None, poses, poses, True, index, blocks, blocks)
