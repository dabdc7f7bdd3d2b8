"""The collapsed target in one piece of compiled code; the mathematics is in :mod:`tempose.sampling.collapsed`."""

from __future__ import annotations

import math
import types
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from tempose._typing import Array, Index
from tempose.numerics import potential
from tempose.numerics.chart import Frame, center, center_back, couple, place, pull_back, push_back
from tempose.numerics.potential import EdgeBlocks, PriorTable
from tempose.numerics.sparse.repeated import (
    LANES,
    PADDING,
    SCRATCH,
    Panels,
    backward,
    backward_lanes,
    forward,
    forward_lanes,
)


class Model(NamedTuple):
    """All that the target depends on, apart from β and the place."""

    hessian: Panels  # of H, six coordinates a node
    positions: Panels  # of C, one of three axes
    blocks: EdgeBlocks
    prior: PriorTable
    start: Index  # edges of target j are start[j]:start[j+1]
    source: NDArray[np.int32]
    diagonal: Array  # (n, 6, 6), (m, 6, 6): H
    off: Array
    wxyz: Array  # the centre
    position: Array
    free: Array  # (n, 6) 0 where held, else 1
    frame: Frame


gradient = potential.gradient


@njit(cache=True, nogil=True)
def spread(panels, y, scale, free, omega):  # type: ignore[no-untyped-def]
    """Rotation vectors x (n, 3), one node held, of the whitened coordinates y (6n,)."""
    x = y.copy()
    backward(panels.tree, panels.forward, x, np.empty(6 * panels.tree.tallest))
    for j in range(omega.shape[0]):
        k = panels.tree.order[j]
        for a in range(3):
            omega[k, a] = scale * free[k, a] * x[6 * j + a]


@njit(cache=True, nogil=True)
def gather(panels, g, scale, free, out):  # type: ignore[no-untyped-def]
    """The gradient (6n,) by y, given that by ω (n, 3)."""
    for j in range(g.shape[0]):
        k = panels.tree.order[j]
        for a in range(3):
            out[6 * j + a] = scale * free[k, a] * g[k, a]
            out[6 * j + 3 + a] = 0.0
    forward(panels.tree, panels.forward, out, np.empty(6 * panels.tree.tallest))


@njit(cache=True, nogil=True)
def conditional_means(panels, g, coupled, free, state, shift):  # type: ignore[no-untyped-def]
    """Move the positions in ``state`` by ``−C⁻¹ ∂U/∂p``, and write ``−C⁻¹ H_pω ω``, the dummies' mean, to ``shift``."""
    tree = panels.tree
    x = np.zeros(LANES * state.shape[0] + PADDING)
    for j in range(state.shape[0]):
        k = tree.order[j]
        for a in range(3):
            x[LANES * j + a] = free[k, 3 + a] * g[k, 3 + a]
            x[LANES * j + 3 + a] = free[k, 3 + a] * coupled[k, a]
    work, scratch = np.empty(LANES * tree.tallest + PADDING), np.empty(SCRATCH)
    forward_lanes(tree, panels.forward, x, work, scratch)
    backward_lanes(tree, panels.backward, x, work, scratch)
    for j in range(state.shape[0]):
        k = tree.order[j]
        for a in range(3):
            state[k, 4 + a] -= free[k, 3 + a] * x[LANES * j + a]
            shift[k, a] = -free[k, 3 + a] * x[LANES * j + 3 + a]


@njit(cache=True, nogil=True)
def evaluate(model, beta, y, work, g, state, out):  # type: ignore[no-untyped-def]
    """W at y; its gradient by y into ``out`` (6n,), rotations and the positions' conditional means into ``state`` (n, 8).

    ``work`` (tiles of the gradient kernel) and ``g`` (n, 8) are scratch. Outside the chart W is infinite.
    """
    n = state.shape[0]
    x, coupled, shift, pulled = np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3))
    omega = np.empty((n, 3))
    scale = 1.0 / math.sqrt(beta)
    spread(model.hessian, y, scale, model.free, x)
    center(model.frame, x, omega)
    largest = place(omega, model.wxyz, state)
    state[:, 4:7] = model.position
    gradient(model.blocks, model.prior, state, work, g)
    couple(model.start, model.source, model.diagonal, model.off, x, coupled)
    # one solve for the conditional means of the positions: of U, and of its quadratic approximation
    conditional_means(model.positions, g, coupled, model.free, state, shift)
    energy = gradient(model.blocks, model.prior, state, work, g)
    push_back(model.start, model.source, model.diagonal, model.off, x, shift, coupled)  # S x
    volume = pull_back(omega, g, beta, pulled)
    volume += center_back(model.frame, omega, pulled)
    quadratic = 0.0
    for k in range(n):
        for a in range(3):
            quadratic += x[k, a] * coupled[k, a]
            pulled[k, a] -= beta * coupled[k, a]
    gather(model.hessian, pulled, scale, model.free, out)
    remainder = beta * (energy - 0.5 * quadratic) - volume
    return remainder if largest < math.pi**2 and math.isfinite(remainder) else math.inf


@njit(cache=True, nogil=True)
def follow(model, beta, part, weights, y, v, work, g, state, out):  # type: ignore[no-untyped-def]
    """Kick, and turn by ``part`` and kick as often as there are more weights; return W at the end.

    ``y``, ``v`` and the gradient ``out`` (6n,) are those at the beginning, and overwritten by those at the end.
    """
    c, s = math.cos(part), math.sin(part)
    v -= weights[0] * out
    remainder = math.inf
    for k in range(1, len(weights)):
        ahead = c * y + s * v
        v[:] = c * v - s * y
        y[:] = ahead
        remainder = evaluate(model, beta, y, work, g, state, out)
        v -= weights[k] * out
    return remainder


# The same, interpreted, over the parallel gradient: for large graphs, where one gradient dwarfs a Python call.
_parallel = {**globals(), "gradient": potential.gradient_parallel}
evaluate_parallel = types.FunctionType(evaluate.py_func.__code__, _parallel, "evaluate_parallel")
follow_parallel = types.FunctionType(
    follow.py_func.__code__, {**_parallel, "evaluate": evaluate_parallel}, "follow_parallel"
)
