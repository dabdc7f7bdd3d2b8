"""The steps of TG-MCMC on S³ × ℝ³, fused over nodes.

A scheme is compiled to a list of operations, rows of ``ops`` (k, 4):

    DRIFT    (0, δ, –, –)   a ← exp(δ u) a,  p ← p + δ v          the appendix's step A: an exact geodesic
    VELOCITY (1, f, δ, s)   v ← f v − δ M⁻¹∇U + s M^(−1/2) z      the appendix's steps B and O, fused

A tangent vector at ``a`` in ℝ⁴ is ``u ⊗ a`` with a pure quaternion ``u``; geodesics keep ``u`` constant, so the paper's
flow is a quaternion product, the projected noise ``P(a) z`` is three independent normals, and ``∇U`` on the sphere is
``2 ∂U/∂ω`` (arc length is half the rotation angle).

``paper_t`` selects the coordinates: the paper's translations ``t_i = −R_iᵀ p_i`` or the world positions ``p_i``. Both
have the same posterior; the second is better conditioned far from the origin.

A node whose inverse masses are zero stays where it is, to the last bit. In a planar graph (``planar``) there is noise in the
plane only; forces out of it there are none, so that rotations stay about z and positions at z = 0, exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from tempose._support.compiling import inlined, interpreted, kernel
from tempose.geometry.compiled import multiply, rotate
from tempose.numerics import potential
from tempose.numerics.elementary import cos_sinc
from tempose.numerics.layout import DRIFT, FULL_WIDTH, VELOCITY, EdgeTable
from tempose.numerics.potential import minibatch_gradient
from tempose.numerics.random import NODES_PER_BLOCK, block_of_normals, uniform

NO_TABLE = EdgeTable(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty((0, FULL_WIDTH)))  # without minibatches
BATCH_LANE = 1 << 20  # lanes from here on choose minibatches, lower ones make noise


# Numbers in and numbers out: an array passed to a function with branches is counted as in use, once per node.


@inlined
def _drift(a: Any, p: Any, u: Any, v: Any, step: Any, paper_t: Any) -> Any:
    """Pose (a, p) after following its geodesic for ``step``."""
    w, x, y, z = a
    p0, p1, p2 = p
    if paper_t:
        p0, p1, p2 = rotate(w, -x, -y, -z, -p0, -p1, -p2)
    p0, p1, p2 = p0 + step * v[0], p1 + step * v[1], p2 + step * v[2]
    square = (u[0] * u[0] + u[1] * u[1] + u[2] * u[2]) * (step * step)
    if square < 0.6:  # a bit less than (π/4)²
        c, s = cos_sinc(square)
    else:
        angle = math.sqrt(square)
        c, s = math.cos(angle), math.sin(angle) / angle
    s *= step
    w, x, y, z = multiply(c, s * u[0], s * u[1], s * u[2], w, x, y, z)
    unit = 1.5 - 0.5 * (w * w + x * x + y * y + z * z)  # Newton's step to the sphere: all that rounding errors need
    w, x, y, z = w * unit, x * unit, y * unit, z * unit
    if paper_t:
        p0, p1, p2 = rotate(w, x, y, z, -p0, -p1, -p2)
    return (w, x, y, z), (p0, p1, p2)


@inlined
def _at_fixed_t(a: Any, p: Any, turn: Any, push: Any) -> Any:
    """Gradient in the paper's coordinates: at fixed t the position turns with the node, and ∂U/∂t = −Rᵀ ∂U/∂p."""
    turn = (
        turn[0] + (p[1] * push[2] - p[2] * push[1]),
        turn[1] + (p[2] * push[0] - p[0] * push[2]),
        turn[2] + (p[0] * push[1] - p[1] * push[0]),
    )
    return turn, rotate(a[0], -a[1], -a[2], -a[3], -push[0], -push[1], -push[2])


@inlined
def _pose(state: Any, node: Any) -> Any:
    a = (state[node, 0], state[node, 1], state[node, 2], state[node, 3])
    return a, (state[node, 4], state[node, 5], state[node, 6])


@inlined
def _halves(rows: Any, node: Any) -> Any:
    """Rotation and translation part of a row of velocities or gradients."""
    return (rows[node, 0], rows[node, 1], rows[node, 2]), (rows[node, 3], rows[node, 4], rows[node, 5])


@kernel(error_model="numpy")
def _pass_over_block(
    ops: Any,
    first: Any,
    last: Any,
    block: Any,
    state: Any,
    velocity: Any,
    g: Any,
    inverse_mass: Any,
    key: Any,
    step: Any,
    paper_t: Any,
    planar: Any,
) -> None:
    """Apply operations ``first:last`` to a block of nodes; none of them may need a newer gradient than ``g``."""
    begin, end = block * NODES_PER_BLOCK, min(state.shape[0], (block + 1) * NODES_PER_BLOCK)
    noise = np.zeros(6 * NODES_PER_BLOCK)
    for o in range(first, last):
        if ops[o, 0] == DRIFT:
            for node in range(begin, end):
                if inverse_mass[node, 0] == 0.0 and inverse_mass[node, 1] == 0.0:
                    continue
                a, p = _pose(state, node)
                u, v = _halves(velocity, node)
                a, p = _drift(a, p, u, v, ops[o, 1], paper_t)
                state[node, 0], state[node, 1], state[node, 2], state[node, 3] = a
                state[node, 4], state[node, 5], state[node, 6] = p
            continue
        decay, kick, size = ops[o, 1], ops[o, 2], ops[o, 3]
        if size != 0.0:
            block_of_normals(key, step, 3 * o, begin, end - begin, noise)
            if planar:
                noise[: 2 * NODES_PER_BLOCK] = 0.0
                noise[5 * NODES_PER_BLOCK :] = 0.0
        for node in range(begin, end):
            turn, push = _halves(g, node)
            if paper_t and kick != 0.0:
                a, p = _pose(state, node)
                turn, push = _at_fixed_t(a, p, turn, push)
            mass0, mass1 = inverse_mass[node, 0], inverse_mass[node, 1]
            kick0, kick1 = 2.0 * kick * mass0, kick * mass1
            size0, size1 = size * math.sqrt(mass0), size * math.sqrt(mass1)
            k = node - begin
            u, v = _halves(velocity, node)
            velocity[node, 0] = decay * u[0] - kick0 * turn[0] + size0 * noise[k]
            velocity[node, 1] = decay * u[1] - kick0 * turn[1] + size0 * noise[k + NODES_PER_BLOCK]
            velocity[node, 2] = decay * u[2] - kick0 * turn[2] + size0 * noise[k + 2 * NODES_PER_BLOCK]
            velocity[node, 3] = decay * v[0] - kick1 * push[0] + size1 * noise[k + 3 * NODES_PER_BLOCK]
            velocity[node, 4] = decay * v[1] - kick1 * push[1] + size1 * noise[k + 4 * NODES_PER_BLOCK]
            velocity[node, 5] = decay * v[2] - kick1 * push[2] + size1 * noise[k + 5 * NODES_PER_BLOCK]


@kernel
def node_pass(
    ops: Any,
    first: Any,
    last: Any,
    state: Any,
    velocity: Any,
    g: Any,
    inverse_mass: Any,
    key: Any,
    step: Any,
    paper_t: Any,
    planar: Any,
) -> None:
    """Apply operations ``first:last`` to every node."""
    for block in range((state.shape[0] + NODES_PER_BLOCK - 1) // NODES_PER_BLOCK):
        _pass_over_block(ops, first, last, block, state, velocity, g, inverse_mass, key, step, paper_t, planar)


@kernel(parallel=True)
def node_pass_parallel(
    ops: Any,
    first: Any,
    last: Any,
    state: Any,
    velocity: Any,
    g: Any,
    inverse_mass: Any,
    key: Any,
    step: Any,
    paper_t: Any,
    planar: Any,
) -> None:
    """The same on all threads."""
    for block in prange((state.shape[0] + NODES_PER_BLOCK - 1) // NODES_PER_BLOCK):
        _pass_over_block(ops, first, last, block, state, velocity, g, inverse_mass, key, step, paper_t, planar)


gradient = potential.gradient


@kernel
def choose_batch(table: EdgeTable, key: Any, step: Any, edges: Any) -> None:
    """Fill ``edges`` (b, 2) with (target, row) of edges drawn uniformly with replacement."""
    m = table.source.shape[0]
    for b in range(edges.shape[0]):
        row = min(np.int64(uniform(key[0], key[1], b, step, BATCH_LANE) * m), m - 1)
        edges[b, 1] = row
        edges[b, 0] = np.searchsorted(table.start, row, side="right") - 1


@kernel
def advance(
    blocks: Any,
    table: EdgeTable,
    ops: Any,
    first_step: Any,
    n_steps: Any,
    state: Any,
    velocity: Any,
    g: Any,
    fresh: Any,
    inverse_mass: Any,
    key: Any,
    paper_t: Any,
    planar: Any,
    work: Any,
    batch: Any,
    energies: Any,
) -> Any:
    """Run ``n_steps`` steps of the scheme ``ops`` in place; return whether ``g`` belongs to the final state.

    ``batch`` (b, 2) is scratch for minibatches of b edges drawn from ``table``; with b = 0 all ``blocks`` are used, and
    ``work`` (T,) is scratch for them.

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
                    energies[k] = minibatch_gradient(table, state, batch, weight, g)
                else:
                    energies[k] = gradient(blocks, state, work, g)
                fresh = True
            elif o == 0 and k > 0:
                energies[k] = energies[k - 1]
            stop = o
            moved = False
            while stop < n_ops and not (moved and ops[stop, 0] == VELOCITY and ops[stop, 2] != 0.0):
                moved = moved or ops[stop, 0] == DRIFT
                stop += 1
            node_pass(ops, o, stop, state, velocity, g, inverse_mass, key, step, paper_t, planar)
            fresh = fresh and not moved
            o = stop
    return fresh


@kernel
def advance_replicas(
    blocks: Any,
    ops: Any,
    steps: Any,
    state: Any,
    velocity: Any,
    inverse_mass: Any,
    g: Any,
    work: Any,
    energies: Any,
) -> None:
    """Run ``steps[k]`` steps of the noise-free ``ops[k]`` from ``state[k]``, for each replica k, in position coordinates.

    ``energies`` (k,) receives U at the last gradient of each; ``g`` (n, 8) is scratch. Without noise a planar graph needs no
    care.
    """
    key, batch = np.zeros(2, np.uint64), np.empty((0, 2), np.int64)
    for k in range(state.shape[0]):
        trace = np.empty(steps[k])
        advance(
            blocks, NO_TABLE, ops[k], 0, steps[k], state[k], velocity[k], g, False, inverse_mass, key, False, False,
            work, batch, trace,
        )  # fmt: skip
        energies[k] = trace[-1]


# The loop of `advance`, interpreted, over the parallel kernels: for large graphs, where one pass dwarfs a Python call.
advance_parallel = interpreted(advance, gradient=potential.gradient_parallel, node_pass=node_pass_parallel)
