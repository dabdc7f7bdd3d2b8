"""Dense kernels for the fronts: everything is built on one 8 × 6 tile that lives in vector registers.

Fronts are small (tens to hundreds of rows), where a library BLAS spends its time on call overhead, and where its
result depends on its number of threads. These kernels are compiled with the tree traversal that calls them, run on
the thread that calls them, and always sum in the same order.

Matrices are stored by columns in flat arrays and given by the address of their first element and the stride
between columns. The tile kernels may *read* up to 7 rows beyond the last: arrays must have :data:`PADDING` spare
elements at their end. They never write beyond the shape they are given.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

PADDING = 8
ROWS, COLUMNS = 8, 6  # of a tile: 12 accumulators of 4 doubles, 2 for A and 1 for B fill the 16 registers of AVX2
PANEL_ROWS, DEPTH = 96, 192  # of a packed panel: 147 kB, for the second-level cache
BLOCK_COLUMNS = 96  # pivots eliminated before the rest of the front is updated
SCRATCH = ROWS * COLUMNS + COLUMNS**2 + COLUMNS + COLUMNS * DEPTH + PANEL_ROWS * DEPTH
_TRIANGLE = ROWS * COLUMNS
_RECIPROCALS = _TRIANGLE + COLUMNS**2
_PACKED_B = _RECIPROCALS + COLUMNS
_PACKED_A = _PACKED_B + COLUMNS * DEPTH


class _Emitter:
    """Vector code of a tile of ``rows`` (8, 4, 2 or 1) × 6: a few shorthands over the LLVM builder."""

    def __init__(self, builder: Any, rows: int) -> None:
        self.builder = builder
        self.width = min(rows, 4)
        self.parts = rows // self.width
        self.integer, self.double = ir.IntType(64), ir.DoubleType()
        self.vector = ir.VectorType(self.double, self.width)
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        insert: Any = cgutils.get_or_insert_function
        self.fused = insert(builder.module, kind, f"llvm.fmuladd.v{self.width}f64")
        self.zero = ir.Constant(self.vector, [0.0] * self.width)

    def constant(self, value: int) -> Any:
        return ir.Constant(self.integer, value)

    def bytes(self, stride: Any) -> Any:
        return self.builder.mul(stride, self.constant(8))

    def _pointer(self, address: Any, offset: int, kind: Any) -> Any:
        place = self.builder.add(address, self.constant(8 * offset))
        return self.builder.inttoptr(place, kind.as_pointer())

    def load(self, address: Any) -> list[Any]:
        """Load one column of the tile."""
        column = []
        for part in range(self.parts):
            value = self.builder.load(self._pointer(address, part * self.width, self.vector))
            value.align = 8
            column.append(value)
        return column

    def store(self, column: list[Any], address: Any) -> None:
        for part, value in enumerate(column):
            self.builder.store(value, self._pointer(address, part * self.width, self.vector)).align = 8

    def broadcast(self, scalar: Any) -> Any:
        undefined = ir.Constant(self.vector, ir.Undefined)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        first = self.builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(first, undefined, lanes)

    def load_scalar(self, address: Any, offset: int) -> Any:
        return self.broadcast(self.builder.load(self._pointer(address, offset, self.double)))

    def multiply_add(self, column: list[Any], factor: Any, total: list[Any]) -> list[Any]:
        return [self.builder.call(self.fused, [x, factor, t]) for x, t in zip(column, total, strict=True)]

    def product(self, a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any) -> list[list[Any]]:
        """Six columns of Σₚ A[:, p] B[:, p]ᵀ: a loop with all sums in registers."""
        builder = self.builder
        before = builder.block
        loop, after = builder.append_basic_block("depth"), builder.append_basic_block("product")
        a_step, b_step = self.bytes(a_stride), self.bytes(b_stride)
        builder.cbranch(builder.icmp_signed(">", depth, self.constant(0)), loop, after)

        builder.position_at_end(loop)
        counters = [builder.phi(self.integer) for _ in range(3)]
        sums = [[builder.phi(self.vector) for _ in range(self.parts)] for _ in range(COLUMNS)]
        left = self.load(counters[1])
        totals = [self.multiply_add(left, self.load_scalar(counters[2], j), sums[j]) for j in range(COLUMNS)]
        steps = zip(counters, (self.constant(0), a, b), (self.constant(1), a_step, b_step), strict=True)
        for counter, begin, step in steps:
            counter.add_incoming(begin, before)
            counter.add_incoming(builder.add(counter, step), loop)
        again = builder.icmp_signed("<", builder.add(counters[0], self.constant(1)), depth)
        builder.cbranch(again, loop, after)

        builder.position_at_end(after)
        result = []
        for j in range(COLUMNS):
            result.append([builder.phi(self.vector) for _ in range(self.parts)])
            for part in range(self.parts):
                sums[j][part].add_incoming(self.zero, before)
                sums[j][part].add_incoming(totals[j][part], loop)
                result[j][part].add_incoming(self.zero, before)
                result[j][part].add_incoming(totals[j][part], loop)
        return result


def _product_tile(rows: int) -> Any:
    """Make C ← α A Bᵀ, or C + α A Bᵀ if ``add`` is not zero, for C of ``rows`` × 6."""

    def define(typingctx: Any, a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, c: Any, c_stride: Any,
               alpha: Any, add: Any) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            a, a_stride, b, b_stride, depth, c, c_stride, alpha, add = values
            emit = _Emitter(builder, rows)
            product = emit.product(a, a_stride, b, b_stride, depth)
            factor, step = emit.broadcast(alpha), emit.bytes(c_stride)
            adding = builder.icmp_signed("!=", add, emit.constant(0))
            with builder.if_else(adding) as branches:
                for branch, add_old in zip(branches, (True, False), strict=True):
                    with branch:
                        place = c
                        for column in product:
                            old = emit.load(place) if add_old else [emit.zero] * emit.parts
                            emit.store(emit.multiply_add(column, factor, old), place)
                            place = builder.add(place, step)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7, types.float64, types.int64), codegen

    return intrinsic(define)


def _solve_tile(rows: int) -> Any:
    """Make C ← (C - A Bᵀ) T⁻ᵀ for C of ``rows`` × 6, T lower triangular with its reciprocal diagonal given."""

    def define(typingctx: Any, a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, c: Any, c_stride: Any,
               t: Any, t_stride: Any, reciprocals: Any) -> Any:  # fmt: skip
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            a, a_stride, b, b_stride, depth, c, c_stride, t, t_stride, reciprocals = values
            emit = _Emitter(builder, rows)
            product = emit.product(a, a_stride, b, b_stride, depth)
            step, t_step = emit.bytes(c_stride), emit.bytes(t_stride)
            places, corners = [c], [t]
            for _ in range(COLUMNS - 1):
                places.append(builder.add(places[-1], step))
                corners.append(builder.add(corners[-1], t_step))
            solved: list[list[Any]] = []
            for j in range(COLUMNS):
                old = emit.load(places[j])
                column = [builder.fsub(x, y) for x, y in zip(old, product[j], strict=True)]
                for p in range(j):
                    factor = builder.fsub(emit.zero, emit.load_scalar(corners[p], j))
                    column = emit.multiply_add(solved[p], factor, column)
                scale = emit.load_scalar(reciprocals, j)
                solved.append([builder.fmul(x, scale) for x in column])
                emit.store(solved[j], places[j])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 10), codegen

    return intrinsic(define)


_product8, _product4, _product2, _product1 = (_product_tile(rows) for rows in (8, 4, 2, 1))
_solve8, _solve4, _solve2, _solve1 = (_solve_tile(rows) for rows in (8, 4, 2, 1))


@njit(inline="always")
def at(array: Any, offset: Any) -> Any:
    """Address of an element of a flat array of doubles."""
    return np.int64(array.ctypes.data + 8 * offset)


@njit
def _product(a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, c: Any, c_stride: Any, rows: Any,
             alpha: Any, add: Any) -> Any:  # fmt: skip
    if rows == 8:
        _product8(a, a_stride, b, b_stride, depth, c, c_stride, alpha, add)
        return
    if rows & 4:
        _product4(a, a_stride, b, b_stride, depth, c, c_stride, alpha, add)
        a += 32
        c += 32
    if rows & 2:
        _product2(a, a_stride, b, b_stride, depth, c, c_stride, alpha, add)
        a += 16
        c += 16
    if rows & 1:
        _product1(a, a_stride, b, b_stride, depth, c, c_stride, alpha, add)


@njit
def _solve(a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, c: Any, c_stride: Any, rows: Any,
           t: Any, t_stride: Any, reciprocals: Any) -> Any:  # fmt: skip
    if rows == 8:
        _solve8(a, a_stride, b, b_stride, depth, c, c_stride, t, t_stride, reciprocals)
        return
    if rows & 4:
        _solve4(a, a_stride, b, b_stride, depth, c, c_stride, t, t_stride, reciprocals)
        a += 32
        c += 32
    if rows & 2:
        _solve2(a, a_stride, b, b_stride, depth, c, c_stride, t, t_stride, reciprocals)
        a += 16
        c += 16
    if rows & 1:
        _solve1(a, a_stride, b, b_stride, depth, c, c_stride, t, t_stride, reciprocals)


@njit
def _tile(a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, C: Any, c: Any, c_stride: Any, rows: Any,
          columns: Any, alpha: Any, add: Any, scratch: Any) -> Any:  # fmt: skip
    """C ← [C +] α A Bᵀ for at most 8 × 6 elements of C at offset c; a and b are addresses."""
    if columns == COLUMNS:
        _product(a, a_stride, b, b_stride, depth, at(C, c), c_stride, rows, alpha, add)
        return
    _product8(a, a_stride, b, b_stride, depth, at(scratch, 0), ROWS, alpha, 0)
    for j in range(columns):
        for i in range(rows):
            value = scratch[j * ROWS + i]
            if add:
                value += C[c + j * c_stride + i]
            C[c + j * c_stride + i] = value


@njit
def _pack(A: Any, a: Any, stride: Any, rows: Any, depth: Any, width: Any, P: Any, p: Any) -> Any:
    """Copy A into strips of ``width`` rows in which the tile kernels read consecutive memory."""
    for first in range(0, rows, width):
        count = min(width, rows - first)
        for k in range(depth):
            source = a + first + k * stride
            for i in range(count):
                P[p + i] = A[source + i]
            p += width


@njit
def multiply(A: Any, a: Any, a_stride: Any, rows: Any, B: Any, b: Any, b_stride: Any, columns: Any, depth: Any,
             C: Any, c: Any, c_stride: Any, alpha: Any, add: Any, lower: Any, scratch: Any) -> Any:  # fmt: skip
    """C ← [C +] α A Bᵀ with C of rows × columns.

    With ``lower``, tiles entirely above the diagonal are left out; other elements above it may be overwritten.
    """
    if rows * depth <= 16384:
        for j in range(0, columns, COLUMNS):
            w = min(COLUMNS, columns - j)
            for i in range(j if lower else 0, rows, ROWS):
                h = min(ROWS, rows - i)
                _tile(at(A, a + i), a_stride, at(B, b + j), b_stride, depth, C, c + i + j * c_stride, c_stride,
                      h, w, alpha, add, scratch)  # fmt: skip
        return
    for p in range(0, depth, DEPTH):
        d = min(DEPTH, depth - p)
        for i in range(0, rows, PANEL_ROWS):
            height = min(PANEL_ROWS, rows - i)
            _pack(A, a + i + p * a_stride, a_stride, height, d, ROWS, scratch, _PACKED_A)
            for j in range(0, columns, COLUMNS):
                if lower and i + height <= j:
                    break
                w = min(COLUMNS, columns - j)
                _pack(B, b + j + p * b_stride, b_stride, w, d, COLUMNS, scratch, _PACKED_B)
                for r in range(0, height, ROWS):
                    if not lower or i + r + ROWS > j:
                        h = min(ROWS, height - r)
                        _tile(at(scratch, _PACKED_A + r * d), ROWS, at(scratch, _PACKED_B), COLUMNS, d,
                              C, c + i + r + j * c_stride, c_stride, h, w, alpha, add or p > 0, scratch)  # fmt: skip


@njit
def solve_columns(X: Any, x: Any, x_stride: Any, first: Any, rows: Any, T: Any, t: Any, t_stride: Any, j: Any,
                  base: Any, w: Any, scratch: Any) -> Any:  # fmt: skip
    """One step of X ← X T⁻ᵀ: columns j … j + w - 1 (w ≤ 6) of rows ``first`` … ``rows - 1``.

    Columns ``base`` … j - 1 have been solved, those before ``base`` taken into account. The reciprocals of the
    diagonal of T must be in scratch.
    """
    depth = j - base
    b = at(T, t + j + base * t_stride)
    if w == COLUMNS:
        for i in range(first, rows, ROWS):
            _solve(at(X, x + i + base * x_stride), x_stride, b, t_stride, depth, at(X, x + i + j * x_stride), x_stride,
                   min(ROWS, rows - i), at(T, t + j + j * t_stride), t_stride, at(scratch, _RECIPROCALS))  # fmt: skip
        return
    for i in range(first, rows, ROWS):
        h = min(ROWS, rows - i)
        c = x + i + j * x_stride
        _tile(at(X, x + i + base * x_stride), x_stride, b, t_stride, depth, X, c, x_stride, h, w, -1.0, 1, scratch)
        for e in range(w):
            for k in range(e):
                factor = T[t + j + e + (j + k) * t_stride]
                for r in range(h):
                    X[c + e * x_stride + r] -= factor * X[c + k * x_stride + r]
            for r in range(h):
                X[c + e * x_stride + r] *= scratch[_RECIPROCALS + e]


@njit
def take_reciprocals(T: Any, t: Any, t_stride: Any, j: Any, w: Any, scratch: Any) -> Any:
    """Put the reciprocal diagonal of columns j … of T into scratch, for :func:`solve_columns`."""
    for e in range(w):
        scratch[_RECIPROCALS + e] = 1.0 / T[t + (j + e) * (t_stride + 1)]


@njit
def _factor_corner(L: Any, q: Any, stride: Any, w: Any, scratch: Any) -> Any:
    """Cholesky factor of the w × w block at q, reciprocal pivots to scratch; return the good pivots."""
    for c in range(w):
        d = L[q + c + c * stride]
        for p in range(c):
            d -= L[q + c + p * stride] * L[q + c + p * stride]
        if not 0.0 < d < inf:
            return c
        d = sqrt(d)
        L[q + c + c * stride] = d
        d = 1.0 / d
        scratch[_RECIPROCALS + c] = d
        for r in range(c + 1, w):
            value = L[q + r + c * stride]
            for p in range(c):
                value -= L[q + r + p * stride] * L[q + c + p * stride]
            L[q + r + c * stride] = value * d
    return w


@njit
def factor_front(L: Any, p: Any, m: Any, k: Any, U: Any, q: Any, scratch: Any) -> Any:
    """Eliminate the k pivots of the m × k panel at L[p], and write -L21 L21ᵀ to the lower triangle at U[q].

    Columns are factored six at a time, left-looking within blocks of ``BLOCK_COLUMNS``, right-looking between them.
    Returns the number of positive pivots: k, or fewer if the front is not positive definite.
    """
    u = m - k
    for base in range(0, k, BLOCK_COLUMNS):
        end = min(k, base + BLOCK_COLUMNS)
        for j in range(base, end, COLUMNS):
            w = min(COLUMNS, end - j)
            row = at(L, p + j + base * m)
            corner = p + j + j * m
            _tile(row, m, row, m, j - base, L, corner, m, w, w, -1.0, 1, scratch)
            good = _factor_corner(L, corner, m, w, scratch)
            if good < w:
                return j + good
            solve_columns(L, p, m, j + w, m, L, p, m, j, base, w, scratch)
        if end < k:
            a = p + end + base * m
            multiply(L, a, m, m - end, L, a, m, k - end, end - base, L, p + end + end * m, m, -1.0, 1, True, scratch)
        if u > 0:
            a = p + k + base * m
            multiply(L, a, m, u, L, a, m, u, end - base, U, q, u, -1.0, base > 0, True, scratch)
    return k


@njit
def inverse_transposed(L: Any, p: Any, m: Any, k: Any, N: Any, scratch: Any) -> Any:
    """N ← L11⁻ᵀ, upper triangular, k × k with stride k; elements below the diagonal are zero."""
    for e in range(k * k):
        N[e] = 0.0
    for j in range(k):
        N[j * (k + 1)] = 1.0
    for j in range(0, k, COLUMNS):
        w = min(COLUMNS, k - j)
        take_reciprocals(L, p, m, j, w, scratch)
        solve_columns(N, 0, k, 0, j + w, L, p, m, j, 0, w, scratch)
