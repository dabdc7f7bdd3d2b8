"""The collapsed target in one piece of compiled code; the mathematics is in :mod:`tempose.sampling.collapsed`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempose._support.compiling import interpreted, kernel
from tempose._typing import Array, Index
from tempose.numerics import potential
from tempose.numerics.chart import Frame, center, center_back, couple, place, pull_back, push_back
from tempose.numerics.layout import EdgeBlocks, PriorTable
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


@kernel
def spread(panels: Panels, y: Any, scale: Any, free: Any, omega: Any) -> None:
    """Rotation vectors x (n, 3), one node held, of the whitened coordinates y (6n,)."""
    x = y.copy()
    backward(panels.tree, panels.forward, x, np.empty(6 * panels.tree.tallest))
    for j in range(omega.shape[0]):
        k = panels.tree.order[j]
        for a in range(3):
            omega[k, a] = scale * free[k, a] * x[6 * j + a]


@kernel
def gather(panels: Panels, g: Any, scale: Any, free: Any, out: Any) -> None:
    """The gradient (6n,) by y, given that by ω (n, 3)."""
    for j in range(g.shape[0]):
        k = panels.tree.order[j]
        for a in range(3):
            out[6 * j + a] = scale * free[k, a] * g[k, a]
            out[6 * j + 3 + a] = 0.0
    forward(panels.tree, panels.forward, out, np.empty(6 * panels.tree.tallest))


@kernel
def conditional_means(panels: Panels, g: Any, coupled: Any, free: Any, state: Any, shift: Any) -> None:
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


@kernel
def evaluate(model: Model, beta: Any, y: Any, work: Any, g: Any, state: Any, out: Any) -> Any:
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


@kernel
def follow(
    model: Model, beta: Any, part: Any, weights: Any, y: Any, v: Any, work: Any, g: Any, state: Any, out: Any
) -> Any:
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
evaluate_parallel = interpreted(evaluate, gradient=potential.gradient_parallel)
follow_parallel = interpreted(follow, evaluate=evaluate_parallel)
