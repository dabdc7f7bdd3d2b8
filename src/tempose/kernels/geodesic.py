"""The steps of TG-MCMC on S³ × ℝ³, fused over nodes.

A scheme is compiled to a list of operations, rows of ``ops`` (k, 4):

    DRIFT    (0, δ, –, –)   a ← exp(δ u) a,  p ← p + δ v          the appendix's step A: an exact geodesic
    VELOCITY (1, f, δ, s)   v ← f v − δ M⁻¹∇U + s M^(−1/2) z      the appendix's steps B and O, fused

A tangent vector at ``a`` in ℝ⁴ is ``u ⊗ a`` with a pure quaternion ``u``; geodesics keep ``u`` constant, so the paper's
flow is a quaternion product, the projected noise ``P(a) z`` is three independent normals, and ``∇U`` on the sphere is
``2 ∂U/∂ω`` (arc length is half the rotation angle).

``paper_t`` selects the coordinates: the paper's translations ``t_i = −R_iᵀ p_i`` or the world positions ``p_i``. Both
have the same posterior; the second is better conditioned far from the origin.
"""

from __future__ import annotations

import math
import types

import numpy as np
from numba import njit, prange

from tempose.kernels import potential
from tempose.kernels.operations import DRIFT, VELOCITY
from tempose.kernels.potential import NODES_PER_BLOCK, _multiply, _rotate, minibatch_gradient
from tempose.kernels.random import normal_pair, philox, uniform

BATCH_LANE = 1 << 20  # lanes from here on choose minibatches, lower ones make noise


@njit(cache=True, inline="always")
def _cos_sinc(x2):  # type: ignore[no-untyped-def]
    """cos x and sin(x)/x from x²: one polynomial for the common small angles, so that platforms agree."""
    if x2 < 0.25:
        c = 1.0 - x2 / 2.0 * (1.0 - x2 / 12.0 * (1.0 - x2 / 30.0 * (1.0 - x2 / 56.0 * (1.0 - x2 / 90.0 * (
            1.0 - x2 / 132.0 * (1.0 - x2 / 182.0))))))  # fmt: skip
        s = 1.0 - x2 / 6.0 * (1.0 - x2 / 20.0 * (1.0 - x2 / 42.0 * (1.0 - x2 / 72.0 * (1.0 - x2 / 110.0 * (
            1.0 - x2 / 156.0 * (1.0 - x2 / 210.0))))))  # fmt: skip
        return c, s
    x = math.sqrt(x2)
    return math.cos(x), math.sin(x) / x


@njit(cache=True, inline="always")
def _drift(wxyz, position, velocity, node, step, paper_t):  # type: ignore[no-untyped-def]
    u0, u1, u2 = velocity[node, 0], velocity[node, 1], velocity[node, 2]
    w, x, y, z = wxyz[node, 0], wxyz[node, 1], wxyz[node, 2], wxyz[node, 3]
    p0, p1, p2 = position[node, 0], position[node, 1], position[node, 2]
    if paper_t:
        p0, p1, p2 = _rotate(w, -x, -y, -z, -p0, -p1, -p2)
    p0 += step * velocity[node, 3]
    p1 += step * velocity[node, 4]
    p2 += step * velocity[node, 5]
    c, s = _cos_sinc((u0 * u0 + u1 * u1 + u2 * u2) * (step * step))
    s *= step
    w, x, y, z = _multiply(c, s * u0, s * u1, s * u2, w, x, y, z)
    unit = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w * unit, x * unit, y * unit, z * unit
    if paper_t:
        p0, p1, p2 = _rotate(w, x, y, z, -p0, -p1, -p2)
    wxyz[node, 0], wxyz[node, 1], wxyz[node, 2], wxyz[node, 3] = w, x, y, z
    position[node, 0], position[node, 1], position[node, 2] = p0, p1, p2


@njit(cache=True, inline="always")
def _kick(wxyz, position, velocity, g, inverse_mass, node, step, paper_t):  # type: ignore[no-untyped-def]
    g0, g1, g2 = g[node, 0], g[node, 1], g[node, 2]
    f0, f1, f2 = g[node, 3], g[node, 4], g[node, 5]
    if paper_t:  # at fixed t the position turns with the node; ∂U/∂t = −Rᵀ ∂U/∂p
        p0, p1, p2 = position[node, 0], position[node, 1], position[node, 2]
        g0 += p1 * f2 - p2 * f1
        g1 += p2 * f0 - p0 * f2
        g2 += p0 * f1 - p1 * f0
        f0, f1, f2 = _rotate(wxyz[node, 0], -wxyz[node, 1], -wxyz[node, 2], -wxyz[node, 3], -f0, -f1, -f2)
    turn, push = 2.0 * step * inverse_mass[node, 0], step * inverse_mass[node, 1]
    velocity[node, 0] -= turn * g0
    velocity[node, 1] -= turn * g1
    velocity[node, 2] -= turn * g2
    velocity[node, 3] -= push * f0
    velocity[node, 4] -= push * f1
    velocity[node, 5] -= push * f2


@njit(cache=True, inline="always")
def _noise(velocity, inverse_mass, node, size, key, step, lane):  # type: ignore[no-untyped-def]
    a, b = normal_pair(key[0], key[1], node, step, lane)
    c, d = normal_pair(key[0], key[1], node, step, lane + 1)
    e, f = normal_pair(key[0], key[1], node, step, lane + 2)
    turn, push = size * math.sqrt(inverse_mass[node, 0]), size * math.sqrt(inverse_mass[node, 1])
    velocity[node, 0] += turn * a
    velocity[node, 1] += turn * b
    velocity[node, 2] += turn * c
    velocity[node, 3] += push * d
    velocity[node, 4] += push * e
    velocity[node, 5] += push * f


def _node_pass(ops, first, last, wxyz, position, velocity, g, inverse_mass, key, step, paper_t):  # type: ignore[no-untyped-def]
    """Apply operations ``first:last`` to every node; none of them may need a newer gradient than ``g``."""
    n = wxyz.shape[0]
    for block in prange((n + NODES_PER_BLOCK - 1) // NODES_PER_BLOCK):
        for node in range(block * NODES_PER_BLOCK, min(n, (block + 1) * NODES_PER_BLOCK)):
            for o in range(first, last):
                if ops[o, 0] == DRIFT:
                    _drift(wxyz, position, velocity, node, ops[o, 1], paper_t)
                else:
                    if ops[o, 1] != 1.0:
                        for c in range(6):
                            velocity[node, c] *= ops[o, 1]
                    if ops[o, 2] != 0.0:
                        _kick(wxyz, position, velocity, g, inverse_mass, node, ops[o, 2], paper_t)
                    if ops[o, 3] != 0.0:
                        _noise(velocity, inverse_mass, node, ops[o, 3], key, step, 3 * o)


node_pass = njit(cache=True, nogil=True)(_node_pass)
node_pass_parallel = njit(cache=True, parallel=True)(_node_pass)
gradient = potential.gradient


@njit(cache=True, nogil=True)
def choose_batch(table, key, step, edges):  # type: ignore[no-untyped-def]
    """Fill ``edges`` (b, 2) with (target, row) of edges drawn uniformly with replacement."""
    m = table.source.shape[0]
    s = np.uint64(step)
    for b in range(edges.shape[0]):
        w0, w1, _, _ = philox(
            np.uint64(b), np.uint64(BATCH_LANE), s & np.uint64(0xFFFFFFFF), s >> np.uint64(32), key[0], key[1]
        )
        row = min(np.int64(uniform(w0, w1) * m), m - 1)
        edges[b, 1] = row
        edges[b, 0] = np.searchsorted(table.start, row, side="right") - 1


@njit(cache=True, nogil=True)
def advance(
    table, prior, ops, first_step, n_steps, wxyz, position, velocity, g, fresh, inverse_mass, key, paper_t, work,
    batch, energies,
):  # fmt: skip  # type: ignore[no-untyped-def]
    """Run ``n_steps`` steps of the scheme ``ops`` in place; return whether ``g`` belongs to the final state.

    ``energies`` (n_steps,) receives U (or its minibatch estimate) at the last gradient of each step. A gradient is
    computed only when an operation needs one and the state has moved since the last.
    """
    n_ops = ops.shape[0]
    for k in range(n_steps):
        step = first_step + k
        o = 0
        while o < n_ops:
            if ops[o, 0] == VELOCITY and ops[o, 2] != 0.0 and not fresh:
                if batch.shape[0] > 0:
                    choose_batch(table, key, step, batch)
                    weight = table.source.shape[0] / batch.shape[0]
                    energies[k] = minibatch_gradient(table, prior, wxyz, position, batch, weight, g)
                else:
                    energies[k] = gradient(table, prior, wxyz, position, work, g)
                fresh = True
            elif o == 0 and k > 0:
                energies[k] = energies[k - 1]
            stop = o
            moved = False
            while stop < n_ops and not (moved and ops[stop, 0] == VELOCITY and ops[stop, 2] != 0.0):
                moved = moved or ops[stop, 0] == DRIFT
                stop += 1
            node_pass(ops, o, stop, wxyz, position, velocity, g, inverse_mass, key, step, paper_t)
            fresh = fresh and not moved
            o = stop
    return fresh


# The same loop, interpreted, over the parallel kernels: for large graphs, where one pass dwarfs a Python call.
advance_parallel = types.FunctionType(
    advance.py_func.__code__,
    {**globals(), "gradient": potential.gradient_parallel, "node_pass": node_pass_parallel},
    "advance_parallel",
)
