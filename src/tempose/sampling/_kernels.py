"""The collapsed target in one piece of compiled code; the mathematics is in :mod:`tempose.sampling.collapsed`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempose._support.compiling import inlined, kernel
from tempose._typing import Array, Index
from tempose.geometry.compiled import rotate
from tempose.numerics.chart import Axes, Frame, center, center_back, couple, place, pull_back, push_back
from tempose.numerics.layout import EdgeBlocks
from tempose.numerics.potential import gradient
from tempose.numerics.sparse.repeated import (
    LANES,
    PADDING,
    SCRATCH,
    Panels,
    Pattern,
    backward,
    backward_lanes,
    backward_two,
    factor_again,
    forward,
    forward_lanes,
    forward_two,
    inverse_again,
    solve_again,
)


class Turning(NamedTuple):
    """What C(R) is made of, where it turns with the rotations: translations, those between free positions first."""

    pattern: Pattern  # of C, two or three axes
    source: Index  # (k,) node i
    target: Index  # (k,) node j
    precision: Array  # (k, 3, 3) in j's frame; no rows if C does not turn


class Model(NamedTuple):
    """All that the target depends on, apart from β and the place."""

    axes: Axes
    hessian: Panels  # of H, six coordinates a node, or three
    positions: Panels  # of C, one axis for all or all axes, unless it turns
    metric: Panels  # of the positions' part of H
    is_metric: bool  # whether these two are the same, of one axis for all
    turning: Turning
    blocks: EdgeBlocks
    start: Index  # edges of target j are start[j]:start[j+1]
    source: NDArray[np.int32]
    diagonal: Array  # (n, b, b), (m, b, b): H
    off: Array
    wxyz: Array  # the centre
    position: Array
    free: Array  # (n, 6) 0 where held, else 1
    frame: Frame


@kernel
def half_square(y: Any, v: Any) -> Any:
    """``½(|y|² + |v|²)``, in this thread and in one order, as no library of linear algebra promises."""
    s0 = s1 = s2 = s3 = 0.0
    for k in range(0, len(y) - 3, 4):
        s0 += y[k] * y[k] + v[k] * v[k]
        s1 += y[k + 1] * y[k + 1] + v[k + 1] * v[k + 1]
        s2 += y[k + 2] * y[k + 2] + v[k + 2] * v[k + 2]
        s3 += y[k + 3] * y[k + 3] + v[k + 3] * v[k + 3]
    for k in range(len(y) // 4 * 4, len(y)):
        s0 += y[k] * y[k] + v[k] * v[k]
    return 0.5 * ((s0 + s1) + (s2 + s3))


@kernel
def all_tied(source: Any, target: Any, weight: Any, held: Any) -> Any:
    """Whether edges (m,) of positive weight tie every node to one that is held (n,)."""
    n = held.shape[0]
    parent = np.arange(n)  # of a forest: nodes that are tied together have the same root
    for e in range(source.shape[0]):
        if weight[e] > 0.0:
            i, j = source[e], target[e]
            while parent[i] != i:
                parent[i] = parent[parent[i]]
                i = parent[i]
            while parent[j] != j:
                parent[j] = parent[parent[j]]
                j = parent[j]
            parent[i] = j
    found = np.zeros(n, np.bool_)
    for turn in range(2):  # mark the roots of those that are held, then look for others
        for k in range(n):
            root = k
            while parent[root] != root:
                root = parent[root]
            if turn == 0 and held[k]:
                found[root] = True
            elif turn == 1 and not found[root]:
                return False
    return True


@kernel
def spread(axes: Axes, panels: Panels, y: Any, scale: Any, free: Any, omega: Any) -> None:
    """Rotation vectors (r, n, 3), one node held, of r whitened coordinates (r, n b): two at a time, to the same bits as alone."""
    x, b, tree = y.copy(), panels.tree.block, panels.tree
    work, other = np.empty(b * tree.tallest), np.empty(b * tree.tallest)
    for r in range(0, x.shape[0] - 1, 2):
        backward_two(tree, panels.forward, x[r], x[r + 1], work, other)
    if x.shape[0] % 2 == 1:
        backward(tree, panels.forward, x[-1], work)
    for r in range(x.shape[0]):
        for j in range(omega.shape[1]):
            k = tree.order[j]
            for a in range(len(axes.turns)):
                axis = axes.turns[a]
                omega[r, k, axis] = scale * free[k, axis] * x[r, b * j + a]


@kernel
def gather(axes: Axes, panels: Panels, g: Any, scale: Any, free: Any, out: Any) -> None:
    """The gradients (r, n b) by y, given those by ω (r, n, 3): two at a time, to the same bits as alone."""
    b, tree = panels.tree.block, panels.tree
    for r in range(g.shape[0]):
        for j in range(g.shape[1]):
            k = tree.order[j]
            for a in range(len(axes.turns)):
                axis = axes.turns[a]
                out[r, b * j + a] = scale * free[k, axis] * g[r, k, axis]
            for a in range(len(axes.turns), b):
                out[r, b * j + a] = 0.0
    work, other = np.empty(b * tree.tallest), np.empty(b * tree.tallest)
    for r in range(0, out.shape[0] - 1, 2):
        forward_two(tree, panels.forward, out[r], out[r + 1], work, other)
    if out.shape[0] % 2 == 1:
        forward(tree, panels.forward, out[-1], work)


@inlined(early=True)
def conditional_means(axes: Axes, panels: Panels, g: Any, coupled: Any, free: Any, state: Any, shift: Any) -> None:
    """Move the positions in ``state`` by ``−C⁻¹ ∂U/∂p``, and write ``−C⁻¹ H_pω ω``, the dummies' mean, to ``shift``.

    C has one axis for all: all right-hand sides are solved together.
    """
    tree = panels.tree
    x = np.zeros(LANES * state.shape[0] + PADDING)
    for j in range(state.shape[0]):
        k = tree.order[j]
        for a in range(len(axes.shifts)):
            x[LANES * j + a] = free[k, 3 + a] * g[k, 3 + a]
            x[LANES * j + 3 + a] = free[k, 3 + a] * coupled[k, a]
    work, scratch = np.empty(LANES * tree.tallest + PADDING), np.empty(SCRATCH)
    forward_lanes(tree, panels.forward, x, work, scratch)
    backward_lanes(tree, panels.backward, x, work, scratch)
    for j in range(state.shape[0]):
        k = tree.order[j]
        for a in range(len(axes.shifts)):
            state[k, 4 + a] -= free[k, 3 + a] * x[LANES * j + a]
            shift[k, a] = -free[k, 3 + a] * x[LANES * j + 3 + a]


@kernel
def solve_positions(axes: Axes, panels: Panels, right: Any, free: Any, out: Any) -> None:
    """``out = C⁻¹ right``, both (n, 3), for C with one axis for all or with all axes; zero where held."""
    tree, d = panels.tree, len(axes.shifts)
    n = right.shape[0]
    together = tree.block == 1
    stride = LANES if together else np.int64(d)
    x = np.zeros(stride * n + PADDING)
    for j in range(n):
        k = tree.order[j]
        for a in range(d):
            x[stride * j + a] = free[k, 3 + a] * right[k, a]
    work, scratch = np.empty(stride * tree.tallest + PADDING), np.empty(SCRATCH)
    if together:
        forward_lanes(tree, panels.forward, x, work, scratch)
        backward_lanes(tree, panels.backward, x, work, scratch)
    else:
        forward(tree, panels.forward, x, work)
        backward(tree, panels.forward, x, work)
    for j in range(n):
        k = tree.order[j]
        for a in range(d):
            out[k, a] = free[k, 3 + a] * x[stride * j + a]


@kernel
def turn_precisions(turning: Turning, state: Any, out: Any) -> None:
    """``P_w = R_j P R_jᵀ`` (k, 3, 3) of all translations."""
    for e in range(turning.target.shape[0]):
        j = turning.target[e]
        w, x, y, z = state[j, 0], state[j, 1], state[j, 2], state[j, 3]
        P = turning.precision[e]
        a0, a1, a2 = rotate(w, x, y, z, P[0, 0], P[1, 0], P[2, 0])  # the columns of R P
        b0, b1, b2 = rotate(w, x, y, z, P[0, 1], P[1, 1], P[2, 1])
        c0, c1, c2 = rotate(w, x, y, z, P[0, 2], P[1, 2], P[2, 2])
        out[e, 0, 0], out[e, 0, 1], out[e, 0, 2] = rotate(w, x, y, z, a0, b0, c0)
        out[e, 1, 0], out[e, 1, 1], out[e, 1, 2] = rotate(w, x, y, z, a1, b1, c1)
        out[e, 2, 0], out[e, 2, 1], out[e, 2, 2] = rotate(w, x, y, z, a2, b2, c2)


@kernel
def position_blocks(axes: Axes, turning: Turning, P: Any, free: Any, diagonal: Any, off: Any) -> None:
    """Write the blocks (n, d, d) and (pairs, d, d) of C(R), given ``P_w``; an identity where positions are held."""
    d = len(axes.shifts)
    for k in range(diagonal.shape[0]):
        for a in range(d):
            for c in range(d):
                diagonal[k, a, c] = 0.0
            diagonal[k, a, a] = 1.0 - free[k, 3 + a]
    for e in range(turning.source.shape[0]):
        i, j = turning.source[e], turning.target[e]
        for a in range(d):
            for c in range(d):
                diagonal[i, a, c] += free[i, 3 + a] * P[e, a, c]
                diagonal[j, a, c] += free[j, 3 + a] * P[e, a, c]
    for e in range(off.shape[0]):
        for a in range(d):
            for c in range(d):
                off[e, a, c] = -P[e, a, c]


@kernel
def settle(axes: Axes, turning: Turning, L: Any, g: Any, free: Any, state: Any) -> None:
    """Move the positions in ``state`` by ``−C⁻¹ ∂U/∂p``, given the factor of C(R)."""
    tree, d = turning.pattern.tree, len(axes.shifts)
    x = np.empty(d * state.shape[0])
    for j in range(state.shape[0]):
        k = tree.order[j]
        for a in range(d):
            x[d * j + a] = free[k, 3 + a] * g[k, 3 + a]
    solve_again(turning.pattern, L, x)
    for j in range(state.shape[0]):
        k = tree.order[j]
        for a in range(d):
            state[k, 4 + a] -= free[k, 3 + a] * x[d * j + a]


@kernel
def add_torques(axes: Axes, turning: Turning, P: Any, Z: Any, between: Any, free: Any, scale: Any, g: Any) -> None:
    r"""Add ``scale`` times the gradient of ``½ log det C`` by the rotations to ``g``, given ``P_w`` and the blocks of C⁻¹.

    Turning j by ω changes :math:`P_w` by :math:`[\omega]_\times P_w - P_w [\omega]_\times`. With G the covariance of
    :math:`p_i - p_j` the derivative is :math:`\tfrac12 \mathrm{tr}(G\,\mathrm{d}P_w)`: what is not symmetric of :math:`P_w G`.
    """
    G, d = np.zeros((3, 3)), len(axes.shifts)
    for e in range(turning.source.shape[0]):
        i, j = turning.source[e], turning.target[e]
        for a in range(d):
            for c in range(d):
                G[a, c] = free[i, 3 + a] * Z[i, a, c] + free[j, 3 + a] * Z[j, a, c]
        if e < between.shape[0]:
            for a in range(d):
                for c in range(d):
                    G[a, c] -= between[e, a, c] + between[e, c, a]
        x = y = z = 0.0
        for k in range(d):
            x += P[e, 1, k] * G[k, 2] - P[e, 2, k] * G[k, 1]
            y += P[e, 2, k] * G[k, 0] - P[e, 0, k] * G[k, 2]
            z += P[e, 0, k] * G[k, 1] - P[e, 1, k] * G[k, 0]
        g[j, 0] += scale * x
        g[j, 1] += scale * y
        g[j, 2] += scale * z


@kernel
def target(
    model: Model, metric: Any, turning: Any, beta: Any, x: Any, work: Any, g: Any, state: Any, pulled: Any
) -> Any:
    """W and its gradient (n, 3) by x, the rotation vectors (n, 3) with one node held, for one of three kinds of C.

    Code for the others is not compiled: ``metric`` is ``None`` where it is ``model.positions``, ``turning`` where C does not turn.
    """
    n, axes, free = state.shape[0], model.axes, model.free
    coupled, shift, omega = np.zeros((n, 3)), np.zeros((n, 3)), np.empty((n, 3))
    center(model.frame, x, omega)
    largest = place(omega, model.wxyz, state)
    for k in range(n):
        for a in range(3):
            state[k, 4 + a] = model.position[k, a]
    gradient(model.blocks, state, work, g)
    couple(axes, model.start, model.source, model.diagonal, model.off, x, coupled)
    half_log_det = 0.0
    if metric is None:  # one solve for the conditional means of the positions: of U, and of its quadratic approximation
        conditional_means(axes, model.positions, g, coupled, free, state, shift)
        energy = gradient(model.blocks, state, work, g)
    else:
        solve_positions(axes, metric, coupled, free, shift)
        for k in range(n):
            for a in range(3):
                shift[k, a] = -shift[k, a]
        if turning is None:
            moved, push = np.zeros((n, 3)), np.empty((n, 3))
            for k in range(n):
                for a in range(3):
                    push[k, a] = g[k, 3 + a]
            solve_positions(axes, model.positions, push, free, moved)
            for k in range(n):
                for a in range(3):
                    state[k, 4 + a] -= moved[k, a]
            energy = gradient(model.blocks, state, work, g)
        else:
            d, pattern = len(axes.shifts), turning.pattern
            L, stack = np.empty(pattern.nonzeros + PADDING), np.empty(pattern.stack + PADDING)
            own, between = np.empty((n, d, d)), np.empty((pattern.tree.entry.shape[0], d, d))
            turned = np.empty(turning.precision.shape)
            turn_precisions(turning, state, turned)
            position_blocks(axes, turning, turned, free, own, between)
            half_log_det = 0.5 * factor_again(pattern, own, between, L, stack)
            if math.isnan(half_log_det):
                return math.inf
            settle(axes, turning, L, g, free, state)
            energy = gradient(model.blocks, state, work, g)
            inverse_again(pattern, L, stack, own, between)
            add_torques(axes, turning, turned, own, between, free, 1.0 / beta, g)
    push_back(axes, model.start, model.source, model.diagonal, model.off, x, shift, coupled)  # S x
    volume = pull_back(axes, omega, g, beta, pulled)
    volume += center_back(axes, model.frame, omega, pulled)
    quadratic = 0.0
    for k in range(n):
        for a in range(len(axes.turns)):
            axis = axes.turns[a]
            quadratic += x[k, axis] * coupled[k, axis]
            pulled[k, axis] -= beta * coupled[k, axis]
    remainder = beta * (energy - 0.5 * quadratic) - volume + half_log_det
    return remainder if largest < math.pi**2 and math.isfinite(remainder) else math.inf


@kernel
def kick(weight: Any, gradient: Any, v: Any) -> None:
    """``v ← v − weight · gradient``."""
    for k in range(len(v)):
        v[k] -= weight * gradient[k]


@kernel
def turn(c: Any, s: Any, y: Any, v: Any) -> None:
    """Turn (y, v) by the angle whose cosine and sine are given."""
    for k in range(len(y)):
        y[k], v[k] = c * y[k] + s * v[k], c * v[k] - s * y[k]


def bare(model: Model) -> Model:
    """A model without what :func:`target` is given beside it or does not need, so that compiled code need not even unpack it."""
    nothing: Any = None
    return model._replace(hessian=nothing, metric=nothing, turning=nothing)


def evaluate(
    model: Model,
    beta: float,
    y: Array,
    work: Array,
    g: Array,
    state: Sequence[Array],
    out: Array,
) -> list[float]:
    """W at y (r, n b), its gradients by y into ``out`` (r, n b).

    Rotations and the positions' conditional means go into ``state``, r times (n, 8). The Hessian's factor, larger than caches are,
    is read once for two. ``work`` (tiles of the gradient kernel) and ``g`` (n, 8) are scratch. Outside the chart W is infinite.
    """
    even, shape, scale = model.is_metric, (len(y), len(model.free), 3), 1.0 / math.sqrt(beta)
    metric, turning = None if even else model.metric, None if even or not len(model.turning.source) else model.turning
    x, pulled, free = np.zeros(shape), np.zeros(shape), model.free
    spread(model.axes, model.hessian, y, scale, free, x)
    small = bare(model)
    found = [
        float(target(small, metric, turning, beta, one, work, g, there, by_x))
        for one, there, by_x in zip(x, state, pulled, strict=True)
    ]
    gather(model.axes, model.hessian, pulled, scale, free, out)
    return found


def follow(
    model: Model, beta: float, plans: Sequence[tuple[Array, Array]], y: Array, v: Array, work: Array, g: Array,
    state: Sequence[Array], out: Array,
) -> list[float]:  # fmt: skip
    """Kick and turn, and kick; ``plans`` are r times the times of the kicks and their weights; return W at the ends.

    ``y``, ``v`` and the gradients ``out`` (r, n b) are those at the beginning, and overwritten by those at the end.
    """
    for (_, weights), slope, one in zip(plans, out, v, strict=True):
        kick(weights[0], slope, one)
    remainder = [math.inf] * len(y)
    for k in range(1, len(plans[0][0])):
        for (times, _), at, one in zip(plans, y, v, strict=True):
            part = times[k] - times[k - 1]
            turn(math.cos(part), math.sin(part), at, one)
        remainder = evaluate(model, beta, y, work, g, state, out)
        for (_, weights), slope, one in zip(plans, out, v, strict=True):
            kick(weights[k], slope, one)
    return remainder
