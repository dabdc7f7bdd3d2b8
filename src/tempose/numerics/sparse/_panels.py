"""Compiled kernels for many solves with one factor: triangular solves as products of panels with vectors.

Of supernode s with panel [L11; L21] is kept, by columns and with the same m × k shape, ``P = [N; −K]`` with
``N = L11⁻¹`` (zeros above its diagonal) and ``K = L21 N``. Then, with w1 the pivots' part of a vector and w2 the rest,

    L⁻¹, up the tree:     w1 ← N w1,              w2 ← w2 − K w1
    L⁻ᵀ, down the tree:   w1 ← Nᵀ w1 − Kᵀ w2 = Pᵀ w

without divisions or chains of dependent operations. Both read each number of P once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from tempose._support.compiling import kernel

from ._dense import COLUMNS, SCRATCH, ZERO, _Emitter, _function, at, inverse_of_pivots, multiply
from ._numeric import _shape

LANES = np.int64(8)  # right-hand sides that are solved together: the rows of a tile


def _pieces(builder: Any, rows: Any, step: Any) -> None:
    """Call ``step(emit, row)`` for 8 rows at a time, then for what is left: 4, 2 and 1."""
    tools: Any = cgutils
    wide = _Emitter(builder, 8)
    with tools.for_range(builder, builder.sdiv(rows, wide.constant(8))) as loop:
        step(wide, builder.mul(loop.index, wide.constant(8)))
    for size in (4, 2, 1):
        left = builder.and_(rows, wide.constant(size))
        with builder.if_then(builder.icmp_signed("!=", left, wide.constant(0))):
            step(_Emitter(builder, size), builder.and_(rows, wide.constant(-2 * size)))


def _columns(builder: Any, a: Any, stride: Any, count: int) -> list[Any]:
    """Addresses of ``count`` columns."""
    step = builder.mul(stride, ir.Constant(ir.IntType(64), 8))
    found = [a]
    for _ in range(count - 1):
        found.append(builder.add(found[-1], step))
    return found


def _add_product(count: int) -> Any:
    """Make y ← y + A x for A of rows × ``count``: addresses of A, x and y."""

    def emit_body(builder: Any, a: Any, stride: Any, x: Any, y: Any, rows: Any) -> None:
        columns = _columns(builder, a, stride, count)
        pointer = builder.inttoptr(x, ir.DoubleType().as_pointer())
        index = ir.IntType(64)
        factors = [builder.load(builder.gep(pointer, [ir.Constant(index, j)])) for j in range(count)]

        def step(emit: _Emitter, row: Any) -> None:
            offset = emit.bytes(row)
            total = emit.load(builder.add(y, offset))
            for column, factor in zip(columns, factors, strict=True):
                total = emit.multiply_add(emit.load(builder.add(column, offset)), emit.broadcast(factor), total)
            emit.store(total, builder.add(y, offset))

        _pieces(builder, rows, step)

    return _function(f"add_product{count}", [types.int64] * 5, emit_body)


def _transposed_product(count: int) -> Any:
    """Make y ← Aᵀ x for A of rows × ``count``: addresses of A, x and y."""

    def emit_body(builder: Any, a: Any, stride: Any, x: Any, y: Any, rows: Any) -> None:
        columns = _columns(builder, a, stride, count)
        tools: Any = cgutils
        sums: dict[tuple[int, int, int], Any] = {}  # by width of the vector, its number, column: promoted to registers
        for size in (8, 4, 2, 1):
            emit = _Emitter(builder, size)
            for part in range(emit.parts):
                for j in range(count):
                    place = tools.alloca_once(builder, emit.vector)
                    builder.store(emit.zero, place)
                    sums[size, part, j] = place

        def step(emit: _Emitter, row: Any) -> None:
            offset = emit.bytes(row)
            size = emit.width * emit.parts
            right = emit.load(builder.add(x, offset))
            for j, column in enumerate(columns):
                left = emit.load(builder.add(column, offset))
                for part in range(emit.parts):
                    place = sums[size, part, j]
                    old = builder.load(place)
                    builder.store(builder.call(emit.fused, [left[part], right[part], old]), place)

        _pieces(builder, rows, step)
        target = builder.inttoptr(y, ir.DoubleType().as_pointer())
        for j in range(count):
            four = [builder.load(sums[key]) for key in ((8, 0, j), (8, 1, j), (4, 0, j))]
            whole = builder.fadd(builder.fadd(four[0], four[1]), four[2])
            lanes = [_lane(builder, whole, k) for k in range(4)]
            total = builder.fadd(builder.fadd(lanes[0], lanes[1]), builder.fadd(lanes[2], lanes[3]))
            pair = builder.load(sums[2, 0, j])
            total = builder.fadd(total, builder.fadd(_lane(builder, pair, 0), _lane(builder, pair, 1)))
            total = builder.fadd(total, _lane(builder, builder.load(sums[1, 0, j]), 0))
            builder.store(total, builder.gep(target, [ir.Constant(ir.IntType(64), j)]))

    return _function(f"transposed_product{count}", [types.int64] * 5, emit_body)


def _lane(builder: Any, vector: Any, k: int) -> Any:
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), k))


_add6, _add1 = _add_product(6), _add_product(1)
_transposed6, _transposed1 = _transposed_product(6), _transposed_product(1)


@kernel(error_model="numpy")
def invert(tree: Any, L: Any, N: Any, Z: Any, P: Any) -> None:
    """Write all panels P, given scratch for two matrices of pivots."""
    scratch = np.empty(SCRATCH)
    for s in range(tree.start.size - 1):
        k, u, m, p = _shape(tree, s)
        inverse_of_pivots(L, p, m, k, N, Z, scratch)  # N is L11⁻ᵀ here
        for j in range(k):
            for i in range(k):
                P[p + i + j * m] = N[j + i * k]
        if u > 0:
            multiply(at(L, p + k), m, u, at(N, 0), k, k, k, at(P, p + k), m, -1.0, ZERO, ZERO, at(scratch, 0))


@kernel(error_model="numpy")
def forward(tree: Any, P: Any, x: Any, work: Any) -> None:
    """Overwrite the vector x, in elimination order, by L⁻¹ x."""
    b = tree.block
    for s in range(tree.start.size - 1):
        k, _, m, p = _shape(tree, s)
        own = tree.start[s] * b
        for r in range(m):
            work[r] = 0.0
        whole = k // COLUMNS * COLUMNS
        for j in range(0, whole, COLUMNS):
            _add6(at(P, p + j * (m + 1)), m, at(x, own + j), at(work, j), m - j)
        for j in range(whole, k):
            _add1(at(P, p + j * (m + 1)), m, at(x, own + j), at(work, j), m - j)
        for r in range(k):
            x[own + r] = work[r]
        r = k
        for e in range(tree.pointer[s], tree.pointer[s + 1]):
            i = tree.rows[e] * b
            for y in range(b):
                x[i + y] += work[r + y]
            r += b


@kernel(error_model="numpy")
def backward(tree: Any, P: Any, x: Any, work: Any) -> None:
    """Overwrite the vector x, in elimination order, by L⁻ᵀ x."""
    b = tree.block
    for s in range(tree.start.size - 2, -1, -1):
        k, _, m, p = _shape(tree, s)
        own = tree.start[s] * b
        for r in range(k):
            work[r] = x[own + r]
        r = k
        for e in range(tree.pointer[s], tree.pointer[s + 1]):
            i = tree.rows[e] * b
            for y in range(b):
                work[r + y] = x[i + y]
            r += b
        whole = k // COLUMNS * COLUMNS
        for j in range(0, whole, COLUMNS):
            _transposed6(at(P, p + j * (m + 1)), m, at(work, j), at(x, own + j), m - j)
        for j in range(whole, k):
            _transposed1(at(P, p + j * (m + 1)), m, at(work, j), at(x, own + j), m - j)


@kernel(error_model="numpy")
def transpose(tree: Any, P: Any, Q: Any) -> None:
    """Write every panel's transpose, k × m by columns: what :func:`backward_lanes` reads."""
    for s in range(tree.start.size - 1):
        k, _, m, p = _shape(tree, s)
        for j in range(k):
            for i in range(m):
                Q[p + j + i * k] = P[p + i + j * m]


@kernel(error_model="numpy")
def forward_lanes(tree: Any, P: Any, x: Any, work: Any, scratch: Any) -> None:
    """Overwrite x, rows of :data:`LANES` right-hand sides in elimination order, by L⁻¹ x."""
    length = tree.block * LANES
    for s in range(tree.start.size - 1):
        k, _, m, p = _shape(tree, s)
        own = tree.start[s] * length
        multiply(at(x, own), LANES, LANES, at(P, p), m, m, k, at(work, 0), LANES, 1.0, ZERO, ZERO, at(scratch, 0))
        for r in range(k * LANES):
            x[own + r] = work[r]
        r = k * LANES
        for e in range(tree.pointer[s], tree.pointer[s + 1]):
            i = tree.rows[e] * length
            for y in range(length):
                x[i + y] += work[r + y]
            r += length


@kernel(error_model="numpy")
def backward_lanes(tree: Any, Q: Any, x: Any, work: Any, scratch: Any) -> None:
    """Overwrite x, rows of :data:`LANES` right-hand sides in elimination order, by L⁻ᵀ x."""
    length = tree.block * LANES
    for s in range(tree.start.size - 2, -1, -1):
        k, _, m, p = _shape(tree, s)
        own = tree.start[s] * length
        for r in range(k * LANES):
            work[r] = x[own + r]
        r = k * LANES
        for e in range(tree.pointer[s], tree.pointer[s + 1]):
            i = tree.rows[e] * length
            for y in range(length):
                work[r + y] = x[i + y]
            r += length
        multiply(at(work, 0), LANES, LANES, at(Q, p), k, k, m, at(x, own), LANES, 1.0, ZERO, ZERO, at(scratch, 0))
