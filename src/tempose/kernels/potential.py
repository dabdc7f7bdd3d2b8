"""The potential U and its gradient over all edges and priors.

State: ``wxyz`` (n, 4) world_from_node quaternions ``a`` and ``position`` (n, 3) world positions ``p``. With measured
``(q, t) = j_from_i``, all residuals are formed in the world frame, where the two ends of an edge share their gradient:

    (s, w) = a_j ⊗ q ⊗ ā_i          world-frame rotation residual, |w| = sin(θ/2) = |ν|
    ρ      = R(a_j) t − (p_i − p_j)  world-frame translation residual
    U      = λ|w|² + ½ τ|ρ|²         (isotropic)

Gradients are with respect to world-frame rotation vectors ω (``a → exp(ω/2) a``) and positions:

    ∂U/∂ω_j = λ s w + τ m × ρ,  ∂U/∂ω_i = −λ s w,  ∂U/∂p_j = τρ = −∂U/∂p_i,  m = R(a_j) t.

Full 3×3 precisions act on the residuals in j's frame, ``ν = R(a_j)ᵀ w`` and ``R(a_j)ᵀ ρ``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Array = NDArray[np.float64]

ISO_WIDTH = 9  # q (4), t (3), λ, τ
FULL_WIDTH = 19  # q (4), t (3), Λ (6: xx xy xz yy yz zz), P (6)
NODES_PER_BLOCK = 256


class EdgeTable(NamedTuple):
    """Edges sorted by their target node j, cut in chunks that are processed independently."""

    start: NDArray[np.int64]  # (n + 1,) edges of target j are start[j]:start[j+1]
    source: NDArray[np.int32]  # (m,) node i
    edge: Array  # (m, ISO_WIDTH) or (m, FULL_WIDTH)
    chunk: NDArray[np.int64]  # (K + 1,) chunk k covers targets chunk[k]:chunk[k+1]
    low: NDArray[np.int64]  # (K,) the nodes chunk k touches lie in low[k]:high[k]
    high: NDArray[np.int64]


class PriorTable(NamedTuple):
    """Priors per node; arrays of length 0 where flat."""

    bingham: Array  # (n, 4, 4): U = −aᵀ B a for world_from_node a
    mean: Array  # (n, 3)
    precision: Array  # (n, 3, 3)
    on_position: bool  # the Gaussian is on the world position, else on the paper's t_i = −R_iᵀ p_i


class Workspace(NamedTuple):
    """Scratch: one accumulator of (gradient by ω, gradient by position) per chunk."""

    partial: Array  # (K, n, 6), zero between calls
    energy: Array  # (K,)
    node_energy: Array  # (number of node blocks,)


@njit(cache=True, inline="always")
def _rotate(w, x, y, z, a, b, c):  # type: ignore[no-untyped-def]
    """Vector (a, b, c) turned by the quaternion (w, x, y, z)."""
    u = 2.0 * (y * c - z * b)
    v = 2.0 * (z * a - x * c)
    t = 2.0 * (x * b - y * a)
    return a + w * u + (y * t - z * v), b + w * v + (z * u - x * t), c + w * t + (x * v - y * u)


@njit(cache=True, inline="always")
def _multiply(aw, ax, ay, az, bw, bx, by, bz):  # type: ignore[no-untyped-def]
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )


@njit(cache=True, inline="always")
def _symmetric(edge, e, at, x, y, z):  # type: ignore[no-untyped-def]
    """Symmetric matrix stored as six numbers in ``edge[e, at:]``, times a vector."""
    xx, xy, xz = edge[e, at], edge[e, at + 1], edge[e, at + 2]
    yy, yz, zz = edge[e, at + 3], edge[e, at + 4], edge[e, at + 5]
    return xx * x + xy * y + xz * z, xy * x + yy * y + yz * z, xz * x + yz * y + zz * z


@njit(cache=True)
def _edges_isotropic(table, wxyz, position, first, last, out):  # type: ignore[no-untyped-def]
    """Add the gradients of all edges with target in ``first:last`` to ``out`` (n, 6); return their energy."""
    energy = 0.0
    edge = table.edge
    for j in range(first, last):
        begin, end = table.start[j], table.start[j + 1]
        if begin == end:
            continue
        jw, jx, jy, jz = wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3]
        px, py, pz = position[j, 0], position[j, 1], position[j, 2]
        # R(a_j), once for all edges of this target
        r00, r01, r02 = 1.0 - 2.0 * (jy * jy + jz * jz), 2.0 * (jx * jy - jw * jz), 2.0 * (jx * jz + jw * jy)
        r10, r11, r12 = 2.0 * (jx * jy + jw * jz), 1.0 - 2.0 * (jx * jx + jz * jz), 2.0 * (jy * jz - jw * jx)
        r20, r21, r22 = 2.0 * (jx * jz - jw * jy), 2.0 * (jy * jz + jw * jx), 1.0 - 2.0 * (jx * jx + jy * jy)
        g0 = g1 = g2 = g3 = g4 = g5 = 0.0
        for e in range(begin, end):
            i = table.source[e]
            iw, ix, iy, iz = wxyz[i, 0], wxyz[i, 1], wxyz[i, 2], wxyz[i, 3]
            b0, b1, b2, b3 = _multiply(jw, jx, jy, jz, edge[e, 0], edge[e, 1], edge[e, 2], edge[e, 3])
            s, x, y, z = _multiply(b0, b1, b2, b3, iw, -ix, -iy, -iz)
            lam = edge[e, 7]
            tau = edge[e, 8]
            energy += lam * (x * x + y * y + z * z)
            ls = lam * s
            x *= ls
            y *= ls
            z *= ls
            t0, t1, t2 = edge[e, 4], edge[e, 5], edge[e, 6]
            m0 = r00 * t0 + r01 * t1 + r02 * t2
            m1 = r10 * t0 + r11 * t1 + r12 * t2
            m2 = r20 * t0 + r21 * t1 + r22 * t2
            f0 = m0 - (position[i, 0] - px)
            f1 = m1 - (position[i, 1] - py)
            f2 = m2 - (position[i, 2] - pz)
            energy += 0.5 * tau * (f0 * f0 + f1 * f1 + f2 * f2)
            f0 *= tau
            f1 *= tau
            f2 *= tau
            g0 += x + (m1 * f2 - m2 * f1)
            g1 += y + (m2 * f0 - m0 * f2)
            g2 += z + (m0 * f1 - m1 * f0)
            g3 += f0
            g4 += f1
            g5 += f2
            out[i, 0] -= x
            out[i, 1] -= y
            out[i, 2] -= z
            out[i, 3] -= f0
            out[i, 4] -= f1
            out[i, 5] -= f2
        out[j, 0] += g0
        out[j, 1] += g1
        out[j, 2] += g2
        out[j, 3] += g3
        out[j, 4] += g4
        out[j, 5] += g5
    return energy


@njit(cache=True, inline="always")
def _full_edge(edge, e, aj, pj, ai, pi):  # type: ignore[no-untyped-def]
    """Energy, −∂U/∂ω_i, the part of ∂U/∂ω_j due to the translation, and ∂U/∂p_j of one edge with full precisions.

    Turning j by ω multiplies the residual quaternion in j's frame by ``exp(η/2)`` on the right, η = R(a_j)ᵀω, hence
    ``∂U/∂ω_j = R(a_j)(s Λν − ν × Λν) = −∂U/∂ω_i``.
    """
    jw, jx, jy, jz = aj
    iw, ix, iy, iz = ai
    b0, b1, b2, b3 = _multiply(jw, jx, jy, jz, edge[e, 0], edge[e, 1], edge[e, 2], edge[e, 3])
    s, x, y, z = _multiply(b0, b1, b2, b3, iw, -ix, -iy, -iz)
    n0, n1, n2 = _rotate(jw, -jx, -jy, -jz, x, y, z)
    h0, h1, h2 = _symmetric(edge, e, 7, n0, n1, n2)
    energy = n0 * h0 + n1 * h1 + n2 * h2
    w0, w1, w2 = _rotate(jw, jx, jy, jz, h0, h1, h2)  # Λν in the world frame
    c0, c1, c2 = y * w2 - z * w1, z * w0 - x * w2, x * w1 - y * w0  # w × Λν
    m0, m1, m2 = _rotate(jw, jx, jy, jz, edge[e, 4], edge[e, 5], edge[e, 6])
    f0 = m0 - (pi[0] - pj[0])
    f1 = m1 - (pi[1] - pj[1])
    f2 = m2 - (pi[2] - pj[2])
    k0, k1, k2 = _rotate(jw, -jx, -jy, -jz, f0, f1, f2)
    q0, q1, q2 = _symmetric(edge, e, 13, k0, k1, k2)
    energy += 0.5 * (k0 * q0 + k1 * q1 + k2 * q2)
    u0, u1, u2 = _rotate(jw, jx, jy, jz, q0, q1, q2)  # P ρ in the world frame
    # the residual in j's frame is t − R(a_j)ᵀ(p_i − p_j): only the second part turns with j
    d0, d1, d2 = m0 - f0, m1 - f1, m2 - f2
    turn = (s * w0 - c0, s * w1 - c1, s * w2 - c2)
    swing = (d1 * u2 - d2 * u1, d2 * u0 - d0 * u2, d0 * u1 - d1 * u0)
    return energy, turn, swing, (u0, u1, u2)


@njit(cache=True)
def _edges_full(table, wxyz, position, first, last, out):  # type: ignore[no-untyped-def]
    """The same as :func:`_edges_isotropic` for full precisions."""
    energy = 0.0
    for j in range(first, last):
        aj = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
        pj = (position[j, 0], position[j, 1], position[j, 2])
        for e in range(table.start[j], table.start[j + 1]):
            i = table.source[e]
            ai = (wxyz[i, 0], wxyz[i, 1], wxyz[i, 2], wxyz[i, 3])
            pi = (position[i, 0], position[i, 1], position[i, 2])
            one, turn, swing, u = _full_edge(table.edge, e, aj, pj, ai, pi)
            energy += one
            for k in range(3):
                out[j, k] += turn[k] + swing[k]
                out[i, k] -= turn[k]
                out[j, 3 + k] += u[k]
                out[i, 3 + k] -= u[k]
    return energy


@njit(cache=True)
def _add_prior(prior, wxyz, position, node, g):  # type: ignore[no-untyped-def]
    """Add node's prior gradient to ``g`` (n, 6); return its energy."""
    w, x, y, z = wxyz[node, 0], wxyz[node, 1], wxyz[node, 2], wxyz[node, 3]
    energy = 0.0
    if prior.bingham.shape[0] > 0:
        b = prior.bingham[node]
        e0 = b[0, 0] * w + b[0, 1] * x + b[0, 2] * y + b[0, 3] * z
        e1 = b[1, 0] * w + b[1, 1] * x + b[1, 2] * y + b[1, 3] * z
        e2 = b[2, 0] * w + b[2, 1] * x + b[2, 2] * y + b[2, 3] * z
        e3 = b[3, 0] * w + b[3, 1] * x + b[3, 2] * y + b[3, 3] * z
        energy -= w * e0 + x * e1 + y * e2 + z * e3
        _, h1, h2, h3 = _multiply(e0, e1, e2, e3, w, -x, -y, -z)
        g[node, 0] -= h1
        g[node, 1] -= h2
        g[node, 2] -= h3
    if prior.precision.shape[0] > 0:
        p0, p1, p2 = position[node, 0], position[node, 1], position[node, 2]
        P, mean = prior.precision[node], prior.mean[node]
        if prior.on_position:
            d0, d1, d2 = p0 - mean[0], p1 - mean[1], p2 - mean[2]
        else:  # t = −Rᵀ p
            t0, t1, t2 = _rotate(w, -x, -y, -z, -p0, -p1, -p2)
            d0, d1, d2 = t0 - mean[0], t1 - mean[1], t2 - mean[2]
        f0 = P[0, 0] * d0 + P[0, 1] * d1 + P[0, 2] * d2
        f1 = P[1, 0] * d0 + P[1, 1] * d1 + P[1, 2] * d2
        f2 = P[2, 0] * d0 + P[2, 1] * d1 + P[2, 2] * d2
        energy += 0.5 * (d0 * f0 + d1 * f1 + d2 * f2)
        if not prior.on_position:
            f0, f1, f2 = _rotate(w, x, y, z, -f0, -f1, -f2)
            # turning the node by ω at fixed p turns t by the opposite: ∂U/∂ω = f × p with f = ∂U/∂p
            g[node, 0] += f1 * p2 - f2 * p1
            g[node, 1] += f2 * p0 - f0 * p2
            g[node, 2] += f0 * p1 - f1 * p0
        g[node, 3] += f0
        g[node, 4] += f1
        g[node, 5] += f2
    return energy


def _gradient(table, prior, wxyz, position, work, out):  # type: ignore[no-untyped-def]
    """Write the gradient (∂U/∂ω, ∂U/∂p) of U into ``out`` (n, 6) and return U."""
    n = wxyz.shape[0]
    n_chunks = table.chunk.shape[0] - 1
    isotropic = table.edge.shape[1] == ISO_WIDTH
    for k in prange(n_chunks):
        if isotropic:
            work.energy[k] = _edges_isotropic(
                table, wxyz, position, table.chunk[k], table.chunk[k + 1], work.partial[k]
            )
        else:
            work.energy[k] = _edges_full(table, wxyz, position, table.chunk[k], table.chunk[k + 1], work.partial[k])
    blocks = work.node_energy.shape[0]
    for block in prange(blocks):
        energy = 0.0
        for node in range(block * NODES_PER_BLOCK, min(n, (block + 1) * NODES_PER_BLOCK)):
            for c in range(6):
                out[node, c] = 0.0
            for k in range(n_chunks):
                if table.low[k] <= node < table.high[k]:
                    for c in range(6):
                        out[node, c] += work.partial[k, node, c]
                        work.partial[k, node, c] = 0.0
            energy += _add_prior(prior, wxyz, position, node, out)
        work.node_energy[block] = energy
    total = 0.0
    for k in range(n_chunks):
        total += work.energy[k]
    for block in range(blocks):
        total += work.node_energy[block]
    return total


gradient = njit(cache=True, nogil=True)(_gradient)
gradient_parallel = njit(cache=True, parallel=True)(_gradient)


@njit(cache=True, nogil=True)
def minibatch_gradient(table, prior, wxyz, position, edges, weight, out):  # type: ignore[no-untyped-def]
    """Unbiased gradient from the listed ``edges`` (pairs target, row), each counted ``weight`` times, and all priors.

    Returns the matching unbiased estimate of U.
    """
    n = wxyz.shape[0]
    out[:] = 0.0
    energy = 0.0
    for b in range(edges.shape[0]):
        j, e = edges[b, 0], edges[b, 1]
        i = table.source[e]
        aj = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
        ai = (wxyz[i, 0], wxyz[i, 1], wxyz[i, 2], wxyz[i, 3])
        pj = (position[j, 0], position[j, 1], position[j, 2])
        pi = (position[i, 0], position[i, 1], position[i, 2])
        one, turn, swing, u = _full_edge(table.edge, e, aj, pj, ai, pi)
        energy += weight * one
        for k in range(3):
            out[j, k] += weight * (turn[k] + swing[k])
            out[i, k] -= weight * turn[k]
            out[j, 3 + k] += weight * u[k]
            out[i, 3 + k] -= weight * u[k]
    for node in range(n):
        energy += _add_prior(prior, wxyz, position, node, out)
    return energy
