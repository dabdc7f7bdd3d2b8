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
from tempose.kernels.elementary import cos_sinc
from tempose.kernels.operations import DRIFT, VELOCITY
from tempose.kernels.potential import FULL_WIDTH, EdgeTable, _multiply, _rotate, minibatch_gradient
from tempose.kernels.random import NODES_PER_BLOCK, block_of_normals, uniform

NO_TABLE = EdgeTable(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty((0, FULL_WIDTH)))  # without minibatches
BATCH_LANE = 1 << 20  # lanes from here on choose minibatches, lower ones make noise


@njit(cache=True, inline="always")
def _drift(state, velocity, node, step, paper_t):  # type: ignore[no-untyped-def]
    u0, u1, u2 = velocity[node, 0], velocity[node, 1], velocity[node, 2]
    w, x, y, z = state[node, 0], state[node, 1], state[node, 2], state[node, 3]
    p0, p1, p2 = state[node, 4], state[node, 5], state[node, 6]
    if paper_t:
        p0, p1, p2 = _rotate(w, -x, -y, -z, -p0, -p1, -p2)
    p0 += step * velocity[node, 3]
    p1 += step * velocity[node, 4]
    p2 += step * velocity[node, 5]
    square = (u0 * u0 + u1 * u1 + u2 * u2) * (step * step)
    if square < 0.6:  # the square of a bit less than π/4
        c, s = cos_sinc(square)
    else:
        angle = math.sqrt(square)
        c, s = math.cos(angle), math.sin(angle) / angle
    s *= step
    w, x, y, z = _multiply(c, s * u0, s * u1, s * u2, w, x, y, z)
    unit = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
    w, x, y, z = w * unit, x * unit, y * unit, z * unit
    if paper_t:
        p0, p1, p2 = _rotate(w, x, y, z, -p0, -p1, -p2)
    state[node, 0], state[node, 1], state[node, 2], state[node, 3] = w, x, y, z
    state[node, 4], state[node, 5], state[node, 6] = p0, p1, p2


@njit(cache=True, inline="always")
def _kick(state, velocity, g, inverse_mass, node, decay, step, paper_t):  # type: ignore[no-untyped-def]
    g0, g1, g2, f0, f1, f2 = g[node, 0], g[node, 1], g[node, 2], g[node, 3], g[node, 4], g[node, 5]
    if paper_t:  # at fixed t the position turns with the node; ∂U/∂t = −Rᵀ ∂U/∂p
        p0, p1, p2 = state[node, 4], state[node, 5], state[node, 6]
        g0 += p1 * f2 - p2 * f1
        g1 += p2 * f0 - p0 * f2
        g2 += p0 * f1 - p1 * f0
        f0, f1, f2 = _rotate(state[node, 0], -state[node, 1], -state[node, 2], -state[node, 3], -f0, -f1, -f2)
    turn, push = 2.0 * step * inverse_mass[node, 0], step * inverse_mass[node, 1]
    velocity[node, 0] = decay * velocity[node, 0] - turn * g0
    velocity[node, 1] = decay * velocity[node, 1] - turn * g1
    velocity[node, 2] = decay * velocity[node, 2] - turn * g2
    velocity[node, 3] = decay * velocity[node, 3] - push * f0
    velocity[node, 4] = decay * velocity[node, 4] - push * f1
    velocity[node, 5] = decay * velocity[node, 5] - push * f2


@njit(cache=True, error_model="numpy")
def _pass_over_block(ops, first, last, block, state, velocity, g, inverse_mass, key, step, paper_t):  # type: ignore[no-untyped-def]
    """Apply operations ``first:last`` to a block of nodes; none of them may need a newer gradient than ``g``."""
    begin, end = block * NODES_PER_BLOCK, min(state.shape[0], (block + 1) * NODES_PER_BLOCK)
    noise = np.empty(6 * NODES_PER_BLOCK)
    for o in range(first, last):
        if ops[o, 0] == DRIFT:
            for node in range(begin, end):
                _drift(state, velocity, node, ops[o, 1], paper_t)
            continue
        decay, kick, size = ops[o, 1], ops[o, 2], ops[o, 3]
        if kick != 0.0:
            for node in range(begin, end):
                _kick(state, velocity, g, inverse_mass, node, decay, kick, paper_t)
        elif decay != 1.0:
            velocity[begin:end] *= decay
        if size != 0.0:
            block_of_normals(key, step, 3 * o, begin, end - begin, noise)
            for node in range(begin, end):
                turn, push = size * math.sqrt(inverse_mass[node, 0]), size * math.sqrt(inverse_mass[node, 1])
                k = node - begin
                velocity[node, 0] += turn * noise[k]
                velocity[node, 1] += turn * noise[k + NODES_PER_BLOCK]
                velocity[node, 2] += turn * noise[k + 2 * NODES_PER_BLOCK]
                velocity[node, 3] += push * noise[k + 3 * NODES_PER_BLOCK]
                velocity[node, 4] += push * noise[k + 4 * NODES_PER_BLOCK]
                velocity[node, 5] += push * noise[k + 5 * NODES_PER_BLOCK]


@njit(cache=True, nogil=True)
def node_pass(ops, first, last, n_blocks, state, velocity, g, inverse_mass, key, step, paper_t):  # type: ignore[no-untyped-def]
    """Apply operations ``first:last`` to every node."""
    for block in range(n_blocks):
        _pass_over_block(ops, first, last, block, state, velocity, g, inverse_mass, key, step, paper_t)


@njit(cache=True, parallel=True)
def node_pass_parallel(ops, first, last, n_blocks, state, velocity, g, inverse_mass, key, step, paper_t):  # type: ignore[no-untyped-def]
    """The same on all threads."""
    for block in prange(n_blocks):
        _pass_over_block(ops, first, last, block, state, velocity, g, inverse_mass, key, step, paper_t)


gradient = potential.gradient


@njit(cache=True, nogil=True)
def choose_batch(table, key, step, edges):  # type: ignore[no-untyped-def]
    """Fill ``edges`` (b, 2) with (target, row) of edges drawn uniformly with replacement."""
    m = table.source.shape[0]
    for b in range(edges.shape[0]):
        row = min(np.int64(uniform(key[0], key[1], b, step, BATCH_LANE) * m), m - 1)
        edges[b, 1] = row
        edges[b, 0] = np.searchsorted(table.start, row, side="right") - 1


@njit(cache=True, nogil=True)
def advance(  # type: ignore[no-untyped-def]
    blocks, table, prior, ops, first_step, n_steps, state, velocity, g, fresh, inverse_mass, key, paper_t, work,
    batch, energies,
):  # fmt: skip
    """Run ``n_steps`` steps of the scheme ``ops`` in place; return whether ``g`` belongs to the final state.

    ``batch`` (b, 2) is scratch for minibatches of b edges drawn from ``table``; with b = 0 all ``blocks`` are used.

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
                    energies[k] = minibatch_gradient(table, prior, state, batch, weight, g)
                else:
                    energies[k] = gradient(blocks, prior, state, work, g)
                fresh = True
            elif o == 0 and k > 0:
                energies[k] = energies[k - 1]
            stop = o
            moved = False
            while stop < n_ops and not (moved and ops[stop, 0] == VELOCITY and ops[stop, 2] != 0.0):
                moved = moved or ops[stop, 0] == DRIFT
                stop += 1
            node_pass(ops, o, stop, work.node_energy.shape[0], state, velocity, g, inverse_mass, key, step, paper_t)
            fresh = fresh and not moved
            o = stop
    return fresh


# The same loop, interpreted, over the parallel kernels: for large graphs, where one pass dwarfs a Python call.
advance_parallel = types.FunctionType(
    advance.py_func.__code__,
    {**globals(), "gradient": potential.gradient_parallel, "node_pass": node_pass_parallel},
    "advance_parallel",
)
