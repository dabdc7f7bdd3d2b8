"""Products of a few columns with a vector, as vector code of our own: always the same sums in the same order.

A compiler that may reorder sums does so as it sees fit, and it sees a kernel that was compiled a moment ago otherwise than
the same kernel read from disk. So none of our sums is left to it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ._dense import _Emitter, _function


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


def _add_product(count: int, sides: int = 1) -> Any:
    """Make y ← y + A x for A of rows × ``count``: addresses of A, of each x and of its y. Sums are those of one side alone."""

    def emit_body(builder: Any, a: Any, stride: Any, *rest: Any) -> None:
        xs, ys, rows = rest[:sides], rest[sides:-1], rest[-1]
        columns = _columns(builder, a, stride, count)
        index = ir.IntType(64)
        factors = []
        for x in xs:
            pointer = builder.inttoptr(x, ir.DoubleType().as_pointer())
            factors.append([builder.load(builder.gep(pointer, [ir.Constant(index, j)])) for j in range(count)])

        def step(emit: _Emitter, row: Any) -> None:
            offset = emit.bytes(row)
            totals = [emit.load(builder.add(y, offset)) for y in ys]
            for j, column in enumerate(columns):
                left = emit.load(builder.add(column, offset))
                totals = [
                    emit.multiply_add(left, emit.broadcast(factor[j]), total)
                    for factor, total in zip(factors, totals, strict=True)
                ]
            for total, y in zip(totals, ys, strict=True):
                emit.store(total, builder.add(y, offset))

        _pieces(builder, rows, step)

    return _function(f"add_product{count}x{sides}", [types.int64] * (3 + 2 * sides), emit_body)


def _transposed_product(count: int, sides: int = 1) -> Any:
    """Make y ← Aᵀ x for A of rows × ``count``: addresses of A, of each x and of its y. Sums are those of one side alone."""

    def emit_body(builder: Any, a: Any, stride: Any, *rest: Any) -> None:
        xs, ys, rows = rest[:sides], rest[sides:-1], rest[-1]
        columns = _columns(builder, a, stride, count)
        tools: Any = cgutils
        # by width of the vector, its number, column, side: promoted to registers
        sums: dict[tuple[int, int, int, int], Any] = {}
        for size in (8, 4, 2, 1):
            emit = _Emitter(builder, size)
            for part in range(emit.parts):
                for j in range(count):
                    for side in range(sides):
                        place = tools.alloca_once(builder, emit.vector)
                        builder.store(emit.zero, place)
                        sums[size, part, j, side] = place

        def step(emit: _Emitter, row: Any) -> None:
            offset = emit.bytes(row)
            size = emit.width * emit.parts
            right = [emit.load(builder.add(x, offset)) for x in xs]
            for j, column in enumerate(columns):
                left = emit.load(builder.add(column, offset))
                for part in range(emit.parts):
                    for side in range(sides):
                        place = sums[size, part, j, side]
                        old = builder.load(place)
                        builder.store(builder.call(emit.fused, [left[part], right[side][part], old]), place)

        _pieces(builder, rows, step)
        for side, y in enumerate(ys):
            target = builder.inttoptr(y, ir.DoubleType().as_pointer())
            for j in range(count):
                four = [builder.load(sums[(*key, j, side)]) for key in ((8, 0), (8, 1), (4, 0))]
                whole = builder.fadd(builder.fadd(four[0], four[1]), four[2])
                lanes = [_lane(builder, whole, k) for k in range(4)]
                total = builder.fadd(builder.fadd(lanes[0], lanes[1]), builder.fadd(lanes[2], lanes[3]))
                pair = builder.load(sums[2, 0, j, side])
                total = builder.fadd(total, builder.fadd(_lane(builder, pair, 0), _lane(builder, pair, 1)))
                total = builder.fadd(total, _lane(builder, builder.load(sums[1, 0, j, side]), 0))
                builder.store(total, builder.gep(target, [ir.Constant(ir.IntType(64), j)]))

    return _function(f"transposed_product{count}x{sides}", [types.int64] * (3 + 2 * sides), emit_body)


def _lane(builder: Any, vector: Any, k: int) -> Any:
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), k))


add6, add1 = _add_product(6), _add_product(1)
transposed6, transposed1 = _transposed_product(6), _transposed_product(1)
# for two vectors at a time, which read the columns once; three columns, so that their sums fit the registers
add6_two, transposed3_two = _add_product(6, 2), _transposed_product(3, 2)
