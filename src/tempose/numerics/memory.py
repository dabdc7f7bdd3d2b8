"""Moving numbers between nodes and columns, and asking for memory before it is needed.

A node's pose or gradient is a row of eight numbers, one cache line, so that visiting a node costs one access. The
arithmetic of edges wants columns instead, one number of many edges side by side. The functions here transpose four
rows at a time in registers, which compilers do not find out by themselves.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from tempose.numerics.layout import BLOCK, ROW

_insert: Any = cgutils.get_or_insert_function
_double, _word, _size = ir.DoubleType(), ir.IntType(32), ir.IntType(64)


def _address(context: Any, builder: Any, kind: Any, array: Any, offset: Any, width: int) -> Any:
    """Pointer to ``width`` doubles from element ``offset`` of a contiguous array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), ir.VectorType(_double, width).as_pointer())


def _offset(builder: Any, kind: Any, index: Any, scale: int, plus: int) -> Any:
    """``index * scale + plus`` as a 64-bit number."""
    if kind.bitwidth < 64:
        index = (builder.sext if kind.signed else builder.zext)(index, _size)
    return builder.add(builder.mul(index, _size(scale)), _size(plus))


def _shuffled(builder: Any, a: Any, b: Any, *lanes: int) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_word, len(lanes)), lanes))


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Four vectors of four as the four vectors of their first, second, third and fourth numbers."""
    low = [_shuffled(builder, rows[k], rows[k + 1], 0, 4, 2, 6) for k in (0, 2)]
    high = [_shuffled(builder, rows[k], rows[k + 1], 1, 5, 3, 7) for k in (0, 2)]
    return [_shuffled(builder, *pair, *lanes) for lanes in ((0, 1, 4, 5), (2, 3, 6, 7)) for pair in (low, high)]


def _prefetch(typing_context: Any, array: Any, offset: Any) -> Any:
    """``prefetch(array, offset)``: ask for the cache line that holds an element of a contiguous array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = builder.bitcast(
            _address(context, builder, signature.args[0], arguments[0], arguments[1], 1), cgutils.voidptr_t
        )
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _word, _word, _word])
        function = _insert(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, _word(0), _word(3), _word(1)])  # to read, keep in all levels, data
        return context.get_dummy_value()

    return types.void(array, offset), generate


def _rows_to_columns(typing_context: Any, table: Any, i0: Any, i1: Any, i2: Any, i3: Any, column: Any, at: Any) -> Any:
    """``rows_to_columns(table, i0, i1, i2, i3, column, at)``: ``column[at + c BLOCK + k] = table[i_k, c]``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        for half in (0, 4):
            four = []
            for kind, index in zip(signature.args[1:5], arguments[1:5], strict=True):
                offset = _offset(builder, kind, index, ROW, half)
                four.append(
                    builder.load(_address(context, builder, signature.args[0], arguments[0], offset, 4), align=8)
                )
            for c, vector in enumerate(_transposed(builder, four)):
                offset = _offset(builder, signature.args[6], arguments[6], 1, (half + c) * BLOCK)
                builder.store(vector, _address(context, builder, signature.args[5], arguments[5], offset, 4), align=8)
        return context.get_dummy_value()

    return types.void(table, i0, i1, i2, i3, column, at), generate


def _accumulate(operation: str) -> Any:
    """Make ``f(table, i0, i1, i2, i3, column, at)``: ``table[i_k, c] ±= column[at + c BLOCK + k]`` for c < 6.

    One row after the other, so that they may be the same.
    """

    def accumulate(typing_context: Any, table: Any, i0: Any, i1: Any, i2: Any, i3: Any, column: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vectors = []
            for c in range(6):
                offset = _offset(builder, signature.args[6], arguments[6], 1, c * BLOCK)
                address = _address(context, builder, signature.args[5], arguments[5], offset, 4)
                vectors.append(builder.load(address, align=8))
            first = _transposed(builder, vectors[:4])
            last = [_shuffled(builder, vectors[4], vectors[5], k, 4 + k) for k in range(4)]
            for k in range(4):
                for start, width, change in ((0, 4, first[k]), (4, 2, last[k])):
                    offset = _offset(builder, signature.args[1 + k], arguments[1 + k], ROW, start)
                    address = _address(context, builder, signature.args[0], arguments[0], offset, width)
                    changed = getattr(builder, operation)(builder.load(address, align=8), change)
                    builder.store(changed, address, align=8)
            return context.get_dummy_value()

        return types.void(table, i0, i1, i2, i3, column, at), generate

    return accumulate


prefetch: Any = intrinsic(_prefetch)
rows_to_columns: Any = intrinsic(_rows_to_columns)
add_columns: Any = intrinsic(_accumulate("fadd"))
subtract_columns: Any = intrinsic(_accumulate("fsub"))
