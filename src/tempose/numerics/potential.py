"""The potential U and its gradient over all edges.

State: rows (n, 8) of world_from_node quaternions ``a``, world positions ``p`` and one unused number. With measured
``(q, t) = j_from_i``, all residuals are formed in the world frame, where the two ends of an edge share their gradient:

    (s, w) = a_j ⊗ q ⊗ ā_i          world-frame rotation residual, |w| = sin(θ/2) = |ν|
    ρ      = R(a_j) t − (p_i − p_j)  world-frame translation residual
    U      = λ|w|² + ½ τ|ρ|²         (isotropic)

Gradients are with respect to world-frame rotation vectors ω (``a → exp(ω/2) a``) and positions, rows (n, 8) with two
unused numbers:

    ∂U/∂ω_j = λ s w + τ m × ρ,  ∂U/∂ω_i = −λ s w,  ∂U/∂p_j = τρ = −∂U/∂p_i,  m = R(a_j) t.

Full 3×3 precisions act on the residuals in j's frame, ``ν = R(a_j)ᵀ w`` and ``R(a_j)ᵀ ρ``; there the translation's residual
also has its coupling to the rotation, and the arm of node i, :func:`full_edge`.

With a robust likelihood (:mod:`tempose.model.robust`) an edge of energy e has the potential ρ(e): its gradient is that of e
times ρ′(e), so edges go through the same arithmetic and are weighted afterwards.

Edges come in blocks. Each goes through three loops: collect the poses at both ends in columns, compute (the compiler
makes that loop four edges wide), and distribute the results to the nodes. Blocks come in tiles, tiles in rounds; the
tiles of a round share no node, so that threads need no locks and every sum has one order, whatever their number. The
first round is special: its tiles hold the edges within each group of nodes, and begin with zeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from tempose._support.compiling import inlined, kernel
from tempose.geometry.compiled import multiply, rotate
from tempose.numerics.layout import BLOCK, FULL_WIDTH, ROBUST_WIDTH, ROW
from tempose.numerics.memory import add_columns, prefetch, rows_to_columns, subtract_columns

_COLUMNS = 16


@inlined
def _symmetric(xx: Any, xy: Any, xz: Any, yy: Any, yz: Any, zz: Any, x: Any, y: Any, z: Any) -> Any:
    """Symmetric matrix times a vector."""
    return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z


@inlined
def isotropic_edge(edge: Any, b: Any, at: Any, stride: Any, aj: Any, ai: Any, d: Any) -> Any:
    """Energy, −∂U/∂ω_i, ∂U/∂p_j and ∂U/∂ω_j of one edge with numbers ``edge[b, at + c stride]``, d = p_i − p_j."""
    jw, jx, jy, jz = aj
    iw, ix, iy, iz = ai
    q0, q1, q2, q3 = edge[b, at], edge[b, at + stride], edge[b, at + 2 * stride], edge[b, at + 3 * stride]
    t0, t1, t2 = edge[b, at + 4 * stride], edge[b, at + 5 * stride], edge[b, at + 6 * stride]
    lam, tau = edge[b, at + 7 * stride], edge[b, at + 8 * stride]
    b0, b1, b2, b3 = multiply(jw, jx, jy, jz, q0, q1, q2, q3)
    s, x, y, z = multiply(b0, b1, b2, b3, iw, -ix, -iy, -iz)
    m0, m1, m2 = rotate(jw, jx, jy, jz, t0, t1, t2)
    f0, f1, f2 = m0 - d[0], m1 - d[1], m2 - d[2]
    energy = lam * (x * x + y * y + z * z) + 0.5 * tau * (f0 * f0 + f1 * f1 + f2 * f2)
    ls = lam * s
    x, y, z = ls * x, ls * y, ls * z
    f0, f1, f2 = tau * f0, tau * f1, tau * f2
    swing = (x + (m1 * f2 - m2 * f1), y + (m2 * f0 - m0 * f2), z + (m0 * f1 - m1 * f0))
    return energy, (x, y, z), (f0, f1, f2), swing


@inlined
def full_edge(edge: Any, b: Any, at: Any, stride: Any, aj: Any, ai: Any, d: Any) -> Any:
    """The same for full precisions, a coupling B of the translation to the rotation, and a lever arm.

    Turning j by ω multiplies the residual quaternion (w, ν) in j's frame by ``exp(η/2)`` on the right, η = R(a_j)ᵀω: with
    ``f = P(r + Bs)``, s = 2wν, and ``g = Bᵀf`` the rotation's part of the gradient, in j's frame, is
    ``w(Λν + w g) − ν × (Λν + w g) − ν(ν·g)``. The force acts on i at the end of its arm.
    """
    jw, jx, jy, jz = aj
    iw, ix, iy, iz = ai
    q0, q1, q2, q3 = edge[b, at], edge[b, at + stride], edge[b, at + 2 * stride], edge[b, at + 3 * stride]
    t0, t1, t2 = edge[b, at + 4 * stride], edge[b, at + 5 * stride], edge[b, at + 6 * stride]
    b0, b1, b2, b3 = multiply(q0, q1, q2, q3, iw, -ix, -iy, -iz)
    w, x, y, z = multiply(b0, b1, b2, b3, jw, jx, jy, jz)
    h0, h1, h2 = _symmetric(
        edge[b, at + 7 * stride], edge[b, at + 8 * stride], edge[b, at + 9 * stride],
        edge[b, at + 10 * stride], edge[b, at + 11 * stride], edge[b, at + 12 * stride], x, y, z,
    )  # fmt: skip
    energy = x * h0 + y * h1 + z * h2
    # the residual in j's frame is t − R(a_j)ᵀ(p_i + m − p_j) + B s
    m0, m1, m2 = rotate(iw, ix, iy, iz, edge[b, at + 28 * stride], edge[b, at + 29 * stride], edge[b, at + 30 * stride])
    d0, d1, d2 = d[0] + m0, d[1] + m1, d[2] + m2
    k0, k1, k2 = rotate(jw, -jx, -jy, -jz, d0, d1, d2)
    B00, B01, B02 = edge[b, at + 19 * stride], edge[b, at + 20 * stride], edge[b, at + 21 * stride]
    B10, B11, B12 = edge[b, at + 22 * stride], edge[b, at + 23 * stride], edge[b, at + 24 * stride]
    B20, B21, B22 = edge[b, at + 25 * stride], edge[b, at + 26 * stride], edge[b, at + 27 * stride]
    double = 2.0 * w
    k0 = t0 - k0 + double * (B00 * x + B01 * y + B02 * z)
    k1 = t1 - k1 + double * (B10 * x + B11 * y + B12 * z)
    k2 = t2 - k2 + double * (B20 * x + B21 * y + B22 * z)
    p0, p1, p2 = _symmetric(
        edge[b, at + 13 * stride], edge[b, at + 14 * stride], edge[b, at + 15 * stride],
        edge[b, at + 16 * stride], edge[b, at + 17 * stride], edge[b, at + 18 * stride], k0, k1, k2,
    )  # fmt: skip
    energy += 0.5 * (k0 * p0 + k1 * p1 + k2 * p2)
    g0, g1, g2 = B00 * p0 + B10 * p1 + B20 * p2, B01 * p0 + B11 * p1 + B21 * p2, B02 * p0 + B12 * p1 + B22 * p2
    dot = x * g0 + y * g1 + z * g2
    h0, h1, h2 = h0 + w * g0, h1 + w * g1, h2 + w * g2
    v0, v1, v2 = rotate(
        jw, jx, jy, jz,
        w * h0 - (y * h2 - z * h1) - dot * x, w * h1 - (z * h0 - x * h2) - dot * y, w * h2 - (x * h1 - y * h0) - dot * z,
    )  # fmt: skip
    f0, f1, f2 = rotate(jw, jx, jy, jz, p0, p1, p2)  # the force in the world frame
    turn = (v0 + (m1 * f2 - m2 * f1), v1 + (m2 * f0 - m0 * f2), v2 + (m0 * f1 - m1 * f0))
    swing = (v0 + (d1 * f2 - d2 * f1), v1 + (d2 * f0 - d0 * f2), v2 + (d0 * f1 - d1 * f0))
    return energy, turn, (f0, f1, f2), swing


@inlined
def robust_edge(energy: Any, log_odds: Any, least: Any, half: Any, scale: Any) -> Any:
    """ρ, ρ′ and ρ″ of an energy; least = ε, half = (ν + d)/2 and scale = 2/ν of the core: 1, 0 and 0 if it is Gaussian."""
    core, slope, bend = least * energy, least, 0.0
    if scale > 0.0:
        heavy = half * scale / (1.0 + scale * energy)
        core += half * math.log1p(scale * energy)
        slope += heavy
        bend = -heavy * scale / (1.0 + scale * energy)
    x = core + log_odds  # log odds of outlier against inlier
    small = math.exp(-abs(x))
    outlier = (1.0 if x > 0.0 else small) / (1.0 + small)
    inlier = (small if x > 0.0 else 1.0) / (1.0 + small)
    at_zero = max(log_odds, 0.0) + math.log1p(math.exp(-abs(log_odds)))
    rho = min(core, -log_odds) - math.log1p(small) + at_zero
    return rho, inlier * slope, inlier * bend - inlier * outlier * slope * slope


@kernel
def _make_robust(edge: Any, b: Any, column: Any) -> None:
    """Replace energies and gradients of block b in ``column`` by those of ρ."""
    at = (edge.shape[1] // BLOCK - ROBUST_WIDTH) * BLOCK
    for k in range(BLOCK):
        rho, weight, _ = robust_edge(
            column[k + 12 * BLOCK],
            edge[b, at + k], edge[b, at + BLOCK + k], edge[b, at + 2 * BLOCK + k], edge[b, at + 3 * BLOCK + k],
        )  # fmt: skip
        for c in range(12):
            column[k + c * BLOCK] *= weight
        column[k + 12 * BLOCK] = rho


@kernel
def _collect(blocks: Any, b: Any, ahead: Any, state: Any, column: Any) -> None:
    """Poses at the ends of the edges of block b in columns: a_i (4), p_i (4 with one unused), then the same of j."""
    source, target, edge = blocks.source, blocks.target, blocks.edge
    width = edge.shape[1] // BLOCK
    for k in range(0, BLOCK, 4):
        rows_to_columns(state, source[b, k], source[b, k + 1], source[b, k + 2], source[b, k + 3], column, k)
        rows_to_columns(
            state, target[b, k], target[b, k + 1], target[b, k + 2], target[b, k + 3], column, k + 8 * BLOCK
        )
        at = (ahead * BLOCK + k) * width
        for line in range(0, 4 * width, ROW):
            prefetch(edge, at + line)


@inlined
def _ends(column: Any, k: Any) -> Any:
    """a_j, a_i and p_i − p_j of edge k."""
    aj = (column[k + 8 * BLOCK], column[k + 9 * BLOCK], column[k + 10 * BLOCK], column[k + 11 * BLOCK])
    ai = (column[k], column[k + BLOCK], column[k + 2 * BLOCK], column[k + 3 * BLOCK])
    d0 = column[k + 4 * BLOCK] - column[k + 12 * BLOCK]
    d1 = column[k + 5 * BLOCK] - column[k + 13 * BLOCK]
    d2 = column[k + 6 * BLOCK] - column[k + 14 * BLOCK]
    return aj, ai, (d0, d1, d2)


@inlined
def _write(column: Any, k: Any, energy: Any, turn: Any, push: Any, swing: Any) -> None:
    """−∂U/∂ω_i and −∂U/∂p_i, then ∂U/∂ω_j and ∂U/∂p_j, then the energy."""
    column[k], column[k + BLOCK], column[k + 2 * BLOCK] = turn
    column[k + 3 * BLOCK], column[k + 4 * BLOCK], column[k + 5 * BLOCK] = push
    column[k + 6 * BLOCK], column[k + 7 * BLOCK], column[k + 8 * BLOCK] = swing
    column[k + 9 * BLOCK], column[k + 10 * BLOCK], column[k + 11 * BLOCK] = push
    column[k + 12 * BLOCK] = energy


@kernel
def _compute_isotropic(edge: Any, b: Any, column: Any) -> None:
    """Replace the poses of block b in ``column`` by gradients and energies."""
    for k in range(BLOCK):
        aj, ai, d = _ends(column, k)
        energy, turn, push, swing = isotropic_edge(edge, b, k, BLOCK, aj, ai, d)
        _write(column, k, energy, turn, push, swing)


@kernel
def _compute_full(edge: Any, b: Any, column: Any) -> None:
    for k in range(BLOCK):
        aj, ai, d = _ends(column, k)
        energy, turn, push, swing = full_edge(edge, b, k, BLOCK, aj, ai, d)
        _write(column, k, energy, turn, push, swing)


@kernel
def _distribute(blocks: Any, b: Any, ahead: Any, state: Any, column: Any, out: Any) -> Any:
    """Add the results of block b to the gradients of its nodes; return their energy."""
    source, target = blocks.source, blocks.target
    e0 = e1 = e2 = e3 = 0.0
    for k in range(0, BLOCK, 4):
        subtract_columns(out, source[b, k], source[b, k + 1], source[b, k + 2], source[b, k + 3], column, k)
        add_columns(out, target[b, k], target[b, k + 1], target[b, k + 2], target[b, k + 3], column, k + 6 * BLOCK)
        e0 += column[k + 12 * BLOCK]
        e1 += column[k + 12 * BLOCK + 1]
        e2 += column[k + 12 * BLOCK + 2]
        e3 += column[k + 12 * BLOCK + 3]
        for later in range(k, k + 4):
            node = np.int64(source[ahead, later])
            prefetch(state, ROW * node)
            prefetch(out, ROW * node)
    return (e0 + e1) + (e2 + e3)


@kernel
def _tile(blocks: Any, full: Any, robust: Any, t: Any, state: Any, out: Any) -> Any:
    """Add the gradients of tile t to ``out``, or begin with them if t is in the first round; return the energy.

    ``full`` and ``robust`` are those of ``blocks``: only of an argument does numba see that it is ``None``.
    """
    column = np.empty(_COLUMNS * BLOCK)
    edge = blocks.edge
    first, last = blocks.tile[t], blocks.tile[t + 1]
    energy = 0.0
    if t < blocks.group.shape[0] - 1:
        for node in range(blocks.group[t], blocks.group[t + 1]):
            for k in range(ROW):
                out[node, k] = 0.0
    for b in range(first, last):
        ahead = min(b + 1, last - 1)
        _collect(blocks, b, ahead, state, column)
        if full is None:
            _compute_isotropic(edge, b, column)
        else:
            _compute_full(edge, b, column)
        if robust is not None:
            _make_robust(edge, b, column)
        energy += _distribute(blocks, b, ahead, state, column, out)
    return energy


@kernel
def gradient(blocks: Any, state: Any, energies: Any, out: Any) -> Any:
    """Write the gradient (∂U/∂ω, ∂U/∂p) of U into ``out`` (n, 8) and return U; ``energies`` (T,) is scratch."""
    total = 0.0
    for t in range(energies.shape[0]):
        total += _tile(blocks, blocks.full, blocks.robust, t, state, out)
    return total


# A function of its own rather than a second compilation of the same: numba's cache would confuse the two.
@kernel(parallel=True)
def gradient_parallel(blocks: Any, state: Any, energies: Any, out: Any) -> Any:
    """The same, to the last bit, on all threads."""
    for r in range(blocks.round.shape[0] - 1):
        for t in prange(blocks.round[r], blocks.round[r + 1]):
            energies[t] = _tile(blocks, blocks.full, blocks.robust, t, state, out)
    total = 0.0
    for t in range(energies.shape[0]):
        total += energies[t]
    return total


@kernel
def edge_energies(table: Any, state: Any, out: Any) -> None:
    """Write the quadratic energy of every edge of ``table``, in its order, into ``out`` (m,)."""
    isotropic = table.edge.shape[1] < FULL_WIDTH
    for j in range(state.shape[0]):
        aj = (state[j, 0], state[j, 1], state[j, 2], state[j, 3])
        for e in range(table.start[j], table.start[j + 1]):
            i = table.source[e]
            ai = (state[i, 0], state[i, 1], state[i, 2], state[i, 3])
            d = (state[i, 4] - state[j, 4], state[i, 5] - state[j, 5], state[i, 6] - state[j, 6])
            if isotropic:
                out[e] = isotropic_edge(table.edge, e, 0, 1, aj, ai, d)[0]
            else:
                out[e] = full_edge(table.edge, e, 0, 1, aj, ai, d)[0]


@kernel
def minibatch_gradient(table: Any, state: Any, edges: Any, weight: Any, out: Any) -> Any:
    """Unbiased gradient from the listed ``edges`` (pairs target, row), each counted ``weight`` times.

    ``table`` holds full precisions. Returns the matching unbiased estimate of U.
    """
    out[:] = 0.0
    energy = 0.0
    for b in range(edges.shape[0]):
        j, e = edges[b, 0], edges[b, 1]
        i = table.source[e]
        aj = (state[j, 0], state[j, 1], state[j, 2], state[j, 3])
        ai = (state[i, 0], state[i, 1], state[i, 2], state[i, 3])
        d = (state[i, 4] - state[j, 4], state[i, 5] - state[j, 5], state[i, 6] - state[j, 6])
        one, turn, push, swing = full_edge(table.edge, e, 0, 1, aj, ai, d)
        share = weight
        if table.edge.shape[1] > FULL_WIDTH:
            last = table.edge[e, FULL_WIDTH:]
            one, slope, _ = robust_edge(one, last[0], last[1], last[2], last[3])
            share *= slope
        energy += weight * one
        for k in range(3):
            out[i, k] -= share * turn[k]
            out[j, k] += share * swing[k]
            out[i, 3 + k] -= share * push[k]
            out[j, 3 + k] += share * push[k]
    return energy
