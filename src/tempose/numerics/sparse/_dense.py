"""Dense kernels for the fronts: everything is built on one 8 × 6 tile that lives in vector registers.

Fronts are small (tens to hundreds of rows), where a library BLAS spends its time on call overhead, and where its
result depends on its number of threads. These kernels are compiled with the tree traversal that calls them, run on
the thread that calls them, and always sum in the same order.

Matrices are stored by columns, and given by the address of their first element and the stride between columns. The
tile kernels may *read* up to 7 rows beyond the last: arrays must have :data:`PADDING` spare elements at their end.
They never write beyond the shape they are given.

numba's disk cache does not follow imports: after a change here, touch ``_numeric.py``.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from math import inf, sqrt
from typing import Any
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tempose._support.compiling import inlined, kernel

PADDING = 8
# constants are NumPy scalars: for a plain int, a kernel would be compiled once more for that very value
# tile: 12 accumulators of 4 doubles, 2 for A and 1 for B use 15 of the 16 registers of AVX2
ROWS, COLUMNS = np.int64(8), np.int64(6)
# packed panel: 147 kB, for the second-level cache
PANEL_ROWS, DEPTH = np.int64(96), np.int64(192)
# pivots eliminated before the rest of the front is updated
BLOCK_COLUMNS = np.int64(96)
ZERO, ONE = np.int64(0), np.int64(1)
# offsets in the scratch array of a thread
_RECIPROCALS = ZERO
_PACKED_B = ROWS
_PACKED_A = _PACKED_B + ROWS * DEPTH
SCRATCH = _PACKED_A + PANEL_ROWS * DEPTH + PADDING


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

    def leave_unless(self, j: int, columns: Any, done: Any) -> None:
        """Jump to ``done`` unless column j is wanted."""
        wanted = self.builder.append_basic_block("column")
        self.builder.cbranch(self.builder.icmp_signed("<", self.constant(j), columns), wanted, done)
        self.builder.position_at_end(wanted)

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


def _function(name: str, kinds: list[Any], emit: Any) -> Any:
    """Make a function of numbers out of code that emits its body.

    Its machine code exists once: inlining it at every call would multiply the time of compilation. Its name holds a
    hash of the code, so that kernels cached on disk never meet another version of it.
    """

    def define(module: Any, symbol: str, arguments: list[Any]) -> Any:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), arguments), symbol)
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        function.attributes.add("nounwind")
        body = ir.IRBuilder(function.append_basic_block("entry"))
        emit(body, *function.args)
        body.ret_void()
        return function

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        arguments = [context.get_value_type(kind) for kind in kinds]
        digest = crc32(str(define(ir.Module(), name, arguments)).encode())
        symbol = f"tempose_{name}_{digest:08x}"
        known = builder.module.globals.get(symbol)
        builder.call(known or define(builder.module, symbol, arguments), values)
        return context.get_dummy_value()

    def typing(typingctx: Any, *values: Any) -> Any:
        return types.void(*kinds), codegen

    names = ["typingctx", *(f"x{k}" for k in range(len(kinds)))]
    definition: Any = typing
    definition.__signature__ = Signature([Parameter(x, Parameter.POSITIONAL_OR_KEYWORD) for x in names])
    return intrinsic(definition)


def _product_tile(rows: int) -> Any:
    """Make C ← α A Bᵀ, or C + α A Bᵀ if ``add`` is not zero, for C of ``rows`` × ``columns``, columns ≤ 6."""

    def emit_body(
        builder: Any, a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, c: Any, c_stride: Any, columns: Any,
        alpha: Any, add: Any,
    ) -> None:  # fmt: skip
        emit = _Emitter(builder, rows)
        product = emit.product(a, a_stride, b, b_stride, depth)
        factor, step = emit.broadcast(alpha), emit.bytes(c_stride)
        done = builder.append_basic_block("done")
        with builder.if_else(builder.icmp_signed("!=", add, emit.constant(0))) as branches:
            for branch, add_old in zip(branches, (True, False), strict=True):
                with branch:
                    place = c
                    for j, column in enumerate(product):
                        emit.leave_unless(j, columns, done)
                        old = emit.load(place) if add_old else [emit.zero] * emit.parts
                        emit.store(emit.multiply_add(column, factor, old), place)
                        place = builder.add(place, step)
        builder.branch(done)
        builder.position_at_end(done)

    return _function(f"product{rows}", [*[types.int64] * 8, types.float64, types.int64], emit_body)


def _solve_tile(rows: int) -> Any:
    """Make C ← (C - A Bᵀ) T⁻ᵀ for C of ``rows`` × ``columns``, columns ≤ 6.

    T is lower triangular with the stride of B; the reciprocals of its diagonal are given apart.
    """

    def emit_body(
        builder: Any, a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, c: Any, c_stride: Any, columns: Any,
        t: Any, reciprocals: Any,
    ) -> None:  # fmt: skip
        emit = _Emitter(builder, rows)
        product = emit.product(a, a_stride, b, b_stride, depth)
        step, t_step = emit.bytes(c_stride), emit.bytes(b_stride)
        corners = [t]
        for _ in range(COLUMNS - 1):
            corners.append(builder.add(corners[-1], t_step))
        done = builder.append_basic_block("done")
        place = c
        solved: list[list[Any]] = []
        for j in range(COLUMNS):
            emit.leave_unless(j, columns, done)
            old = emit.load(place)
            column = [builder.fsub(x, y) for x, y in zip(old, product[j], strict=True)]
            for p in range(j):
                factor = builder.fsub(emit.zero, emit.load_scalar(corners[p], j))
                column = emit.multiply_add(solved[p], factor, column)
            scale = emit.load_scalar(reciprocals, j)
            solved.append([builder.fmul(x, scale) for x in column])
            emit.store(solved[j], place)
            place = builder.add(place, step)
        builder.branch(done)
        builder.position_at_end(done)

    return _function(f"solve{rows}", [types.int64] * 10, emit_body)


def _copy_strip(rows: int) -> Any:
    """Make a copy of a matrix of ``rows`` rows, with another stride."""

    def emit_body(builder: Any, a: Any, a_stride: Any, depth: Any, c: Any, c_stride: Any) -> None:
        emit = _Emitter(builder, rows)
        tools: Any = cgutils
        with tools.for_range(builder, depth) as loop:
            column = emit.load(builder.add(a, emit.bytes(builder.mul(loop.index, a_stride))))
            emit.store(column, builder.add(c, emit.bytes(builder.mul(loop.index, c_stride))))

    return _function(f"copy{rows}", [types.int64] * 5, emit_body)


def _move(add: bool) -> Any:
    """Make C ← A, or C ← C + A, for matrices of rows × columns: short columns, so 4, 2 and 1 elements at a time."""

    def emit_body(builder: Any, a: Any, a_stride: Any, c: Any, c_stride: Any, rows: Any, columns: Any) -> None:
        tools: Any = cgutils
        wide = _Emitter(builder, 4)
        fours = builder.sdiv(rows, wide.constant(4))
        with tools.for_range(builder, columns) as outer:
            source = builder.add(a, wide.bytes(builder.mul(outer.index, a_stride)))
            target = builder.add(c, wide.bytes(builder.mul(outer.index, c_stride)))

            def step(emit: _Emitter, row: Any) -> None:
                of, to = builder.add(source, emit.bytes(row)), builder.add(target, emit.bytes(row))
                value = emit.load(of)
                if add:
                    value = [builder.fadd(x, y) for x, y in zip(emit.load(to), value, strict=True)]
                emit.store(value, to)

            with tools.for_range(builder, fours) as inner:
                step(wide, builder.mul(inner.index, wide.constant(4)))
            for size in (2, 1):
                left = builder.and_(rows, wide.constant(size))
                with builder.if_then(builder.icmp_signed("!=", left, wide.constant(0))):
                    step(_Emitter(builder, size), builder.and_(rows, wide.constant(-2 * size)))

    return _function("add" if add else "copy", [types.int64] * 6, emit_body)


add_to, copy_to = _move(True), _move(False)
_product8, _product4, _product2, _product1 = (_product_tile(rows) for rows in (8, 4, 2, 1))
_solve8, _solve4, _solve2, _solve1 = (_solve_tile(rows) for rows in (8, 4, 2, 1))
_copy8, _copy4, _copy2 = (_copy_strip(rows) for rows in (8, 4, 2))


@inlined(early=True, cache=False)
def at(array: Any, offset: Any) -> Any:
    """Address of an element of a flat array of doubles."""
    return np.int64(array.ctypes.data + 8 * offset)


@kernel(error_model="numpy")
def _product(a: Any, a_stride: Any, b: Any, b_stride: Any, depth: Any, c: Any, c_stride: Any, rows: Any, columns: Any,
             alpha: Any, add: Any) -> Any:  # fmt: skip
    """C ← [C +] α A Bᵀ for a tile of at most 8 × 6."""
    if rows == 8:
        _product8(a, a_stride, b, b_stride, depth, c, c_stride, columns, alpha, add)
        return
    if rows & 4:
        _product4(a, a_stride, b, b_stride, depth, c, c_stride, columns, alpha, add)
        a += 32
        c += 32
    if rows & 2:
        _product2(a, a_stride, b, b_stride, depth, c, c_stride, columns, alpha, add)
        a += 16
        c += 16
    if rows & 1:
        _product1(a, a_stride, b, b_stride, depth, c, c_stride, columns, alpha, add)


@kernel(error_model="numpy")
def multiply(a: Any, a_stride: Any, rows: Any, b: Any, b_stride: Any, columns: Any, depth: Any, c: Any, c_stride: Any,
             alpha: Any, add: Any, lower: Any, scratch: Any) -> Any:  # fmt: skip
    """C ← [C +] α A Bᵀ with C of rows × columns; all arguments but α are integers, ``scratch`` an address.

    With ``lower``, tiles entirely above the diagonal are left out; other elements above it may be overwritten.
    """
    if max(rows, columns) * depth <= 16384:
        for j in range(0, columns, COLUMNS):
            w = min(COLUMNS, columns - j)
            for i in range(j * lower, rows, ROWS):
                _product(a + 8 * i, a_stride, b + 8 * j, b_stride, depth, c + 8 * (i + j * c_stride), c_stride,
                         min(ROWS, rows - i), w, alpha, add)  # fmt: skip
        return
    packed_a, packed_b = scratch + 8 * _PACKED_A, scratch + 8 * _PACKED_B
    for p in range(0, depth, DEPTH):
        d = min(DEPTH, depth - p)
        for first in range(0, rows, PANEL_ROWS):
            last = min(rows, first + PANEL_ROWS)
            for i in range(first, last, ROWS):
                _copy8(a + 8 * (i + p * a_stride), a_stride, d, packed_a + 8 * (i - first) * d, ROWS)
            for j in range(0, columns, COLUMNS):
                if lower and last <= j:
                    break
                strip = b + 8 * (j + p * b_stride)
                _copy4(strip, b_stride, d, packed_b, COLUMNS)
                _copy2(strip + 32, b_stride, d, packed_b + 32, COLUMNS)
                w = min(COLUMNS, columns - j)
                for i in range(first, last, ROWS):
                    if i + ROWS > j * lower:
                        _product(packed_a + 8 * (i - first) * d, ROWS, packed_b, COLUMNS, d,
                                 c + 8 * (i + j * c_stride), c_stride, min(ROWS, last - i), w,
                                 alpha, add + p)  # fmt: skip


@kernel(error_model="numpy")
def solve_columns(x: Any, x_stride: Any, first: Any, rows: Any, t: Any, t_stride: Any, base: Any, j: Any, w: Any,
                  scratch: Any) -> Any:  # fmt: skip
    """One step of X ← X T⁻ᵀ: columns j … j + w - 1 (w ≤ 6) of rows ``first`` … ``rows - 1``.

    Columns ``base`` … j - 1 have been solved, those before ``base`` taken into account. The reciprocals of the
    diagonal of T must be in scratch.
    """
    depth = j - base
    b = t + 8 * (j + base * t_stride)
    corner = t + 8 * (j + j * t_stride)
    reciprocals = scratch + 8 * _RECIPROCALS
    for i in range(first, rows, ROWS):
        h = min(ROWS, rows - i)
        a = x + 8 * (i + base * x_stride)
        c = x + 8 * (i + j * x_stride)
        if h == 8:
            _solve8(a, x_stride, b, t_stride, depth, c, x_stride, w, corner, reciprocals)
            continue
        if h & 4:
            _solve4(a, x_stride, b, t_stride, depth, c, x_stride, w, corner, reciprocals)
            a += 32
            c += 32
        if h & 2:
            _solve2(a, x_stride, b, t_stride, depth, c, x_stride, w, corner, reciprocals)
            a += 16
            c += 16
        if h & 1:
            _solve1(a, x_stride, b, t_stride, depth, c, x_stride, w, corner, reciprocals)


@inlined(early=True, error_model="numpy", cache=False)
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


@kernel(error_model="numpy", cache=False)
def factor_front(L: Any, p: Any, m: Any, k: Any, update: Any, scratch: Any) -> Any:
    """Eliminate the k pivots of the m × k panel at L[p], and write -L21 L21ᵀ to the lower triangle at ``update``.

    Columns are factored six at a time, left-looking within blocks of ``BLOCK_COLUMNS``, right-looking between them.
    Returns the number of positive pivots: k, or fewer if the front is not positive definite.
    """
    u = m - k
    panel, work = at(L, p), at(scratch, 0)
    for base in range(0, k, BLOCK_COLUMNS):
        end = min(k, base + BLOCK_COLUMNS)
        for j in range(base, end, COLUMNS):
            w = min(COLUMNS, end - j)
            row = panel + 8 * (j + base * m)
            _product(row, m, row, m, j - base, panel + 8 * (j + j * m), m, w, w, -1.0, ONE)
            good = _factor_corner(L, p + j + j * m, m, w, scratch)
            if good < w:
                return j + good
            solve_columns(panel, m, j + w, m, panel, m, base, j, w, work)
        if end < k:
            a = panel + 8 * (end + base * m)
            multiply(a, m, m - end, a, m, k - end, end - base, panel + 8 * (end + end * m), m, -1.0, ONE, ONE, work)
        if u > 0:
            a = panel + 8 * (k + base * m)
            multiply(a, m, u, a, m, u, end - base, update, u, -1.0, base, ONE, work)
    return k


@kernel(error_model="numpy", cache=False)
def take_reciprocals(L: Any, p: Any, m: Any, j: Any, w: Any, scratch: Any) -> Any:
    """Put the reciprocal diagonal of columns j … of the panel at L[p] into scratch, for :func:`solve_columns`."""
    for e in range(w):
        scratch[_RECIPROCALS + e] = 1.0 / L[p + (j + e) * (m + 1)]


@kernel(error_model="numpy", cache=False)
def mirror(Z: Any, k: Any) -> Any:
    """Copy the lower triangle of the k × k matrix at the beginning of Z to the upper one."""
    for j in range(k):
        for i in range(j):
            Z[i + j * k] = Z[j + i * k]


@kernel(error_model="numpy", cache=False)
def inverse_of_pivots(L: Any, p: Any, m: Any, k: Any, N: Any, Z: Any, scratch: Any) -> Any:
    """N ← L11⁻ᵀ, upper triangular with zeros below, and Z ← (L11 L11ᵀ)⁻¹ = N Nᵀ; both k × k with stride k."""
    for e in range(k * k):
        N[e] = 0.0
        Z[e] = 0.0
    for j in range(k):
        N[j * (k + 1)] = 1.0
    panel, n, z, work = at(L, p), at(N, 0), at(Z, 0), at(scratch, 0)
    for base in range(0, k, BLOCK_COLUMNS):
        end = min(k, base + BLOCK_COLUMNS)
        if base > 0:
            multiply(n, k, base, panel + 8 * base, m, end - base, base, n + 8 * base * k, k, -1.0, ONE, ZERO, work)
        for j in range(base, end, COLUMNS):
            w = min(COLUMNS, end - j)
            take_reciprocals(L, p, m, j, w, scratch)
            solve_columns(n, k, ZERO, j + w, panel, m, base, j, w, work)
        a = n + 8 * base * k
        multiply(a, k, end, a, k, end, end - base, z, k, 1.0, ONE, ONE, work)
    mirror(Z, k)


@kernel(error_model="numpy", cache=False)
def solve_back(X: Any, rows: Any, L: Any, p: Any, m: Any, k: Any, scratch: Any) -> Any:
    """X1 ← (X1 - X2 L21) L11⁻¹ for X = [X1, X2] of rows × m with stride ``rows``."""
    x, packed = at(X, 0), at(scratch, _PACKED_B)
    for j in range((k - 1) // COLUMNS * COLUMNS, -1, -COLUMNS):
        w = min(COLUMNS, k - j)
        c = j * rows
        for base in range(j + w, m, DEPTH):
            depth = min(DEPTH, m - base)
            for e in range(w):
                q = p + base + (j + e) * m
                for r in range(depth):
                    scratch[_PACKED_B + r * COLUMNS + e] = L[q + r]
            for i in range(0, rows, ROWS):
                a = x + 8 * (i + base * rows)
                _product(a, rows, packed, COLUMNS, depth, x + 8 * (c + i), rows, min(ROWS, rows - i), w, -1.0, ONE)
        for e in range(w - 1, -1, -1):
            q = p + (j + e) * m + j
            for i in range(e + 1, w):
                factor = L[q + i]
                for r in range(rows):
                    X[c + e * rows + r] -= factor * X[c + i * rows + r]
            factor = 1.0 / L[q + e]
            for r in range(rows):
                X[c + e * rows + r] *= factor
