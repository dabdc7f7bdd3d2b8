"""Compiled kernels of the numeric phases: factor, triangular solves, selected inverse.

Notation, for one supernode s: its front has ``k`` pivot columns and ``u`` further rows (scalars), ``m = k + u``.
The panel of s in ``L`` is the m × k matrix [L11; L21] stored by columns; its update matrix is the u × u lower
triangle at ``tree.update[s]`` of the stack.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from . import _blas as blas_
from ._blas import L as LEFT
from ._blas import N as PLAIN
from ._blas import R as RIGHT
from ._blas import T as TRANSPOSED

Array = np.ndarray[Any, np.dtype[Any]]

_gemm, _potrf, _potri, _symm, _syrk, _trsm = (
    blas_.gemm, blas_.potrf, blas_.potri, blas_.symm, blas_.syrk, blas_.trsm,
)  # fmt: skip


class Tree(NamedTuple):
    """The assembly tree as flat arrays; blocks are counted in nodes, offsets in scalars."""

    block: int
    order: Array  # column j is node order[j]
    start: Array  # columns start[s] … start[s + 1] - 1 belong to supernode s
    pointer: Array  # rows[pointer[s] : pointer[s + 1]]: its rows below the columns
    rows: Array
    relative: Array  # place of these rows in the parent's front
    panel: Array  # offset of its panel in L
    update: Array  # offset of its update matrix on the stack
    child_pointer: Array
    child: Array
    entry_pointer: Array  # off-diagonal blocks of A that fall in its panel
    entry: Array  # … their index in the caller's list
    entry_place: Array  # … the offset of their first element in L
    entry_flip: Array  # … whether the caller's block is to be transposed


@njit(inline="always")
def _shape(tree: Any, s: Any) -> Any:
    k = (tree.start[s + 1] - tree.start[s]) * tree.block
    u = (tree.pointer[s + 1] - tree.pointer[s]) * tree.block
    return k, u, k + u, tree.panel[s]


@njit
def _load(tree: Any, s: Any, diagonal: Any, off: Any, shift: Any, L: Any) -> Any:
    """Write the blocks of A (+ shift · I) into the panel of s; of diagonal blocks the lower triangle."""
    b = tree.block
    k, _, m, p = _shape(tree, s)
    for e in range(p, p + m * k):
        L[e] = 0.0
    for j in range(tree.start[s], tree.start[s + 1]):
        v = tree.order[j]
        q = p + (j - tree.start[s]) * b * (m + 1)
        for y in range(b):
            for x in range(y, b):
                L[q + y * m + x] = diagonal[v, x, y]
            L[q + y * m + y] += shift
    for e in range(tree.entry_pointer[s], tree.entry_pointer[s + 1]):
        v = tree.entry[e]
        q = tree.entry_place[e]
        if tree.entry_flip[e]:
            for y in range(b):
                for x in range(b):
                    L[q + y * m + x] += off[v, y, x]
        else:
            for y in range(b):
                for x in range(b):
                    L[q + y * m + x] += off[v, x, y]


@njit
def _extend_add(
    target: Any, offset: Any, stride: Any, shift: Any, stop: Any,
    relative: Any, begin: Any, end: Any, j: Any, stack: Any, source: Any, b: Any,
) -> Any:  # fmt: skip
    """Add block columns ``j``, … of a child's update matrix to the parent, while their place is below ``stop``.

    Rows (and columns) of the child go to ``relative - shift`` of the target. Returns the first column left out.
    """
    u = (end - begin) * b
    while j < end and relative[j] < stop:
        for y in range(b):
            to = offset + ((relative[j] - shift) * b + y) * stride - shift * b
            of = source + ((j - begin) * b + y) * u - begin * b
            skip = y
            i = j
            while i < end:
                # consecutive rows stay consecutive in the parent: add them in one run
                run = i + 1
                while run < end and relative[run] == relative[run - 1] + 1:
                    run += 1
                t = to + relative[i] * b
                o = of + i * b
                for x in range(skip, (run - i) * b):
                    target[t + x] += stack[o + x]
                skip = 0
                i = run
        j += 1
    return j


@njit
def _factor_small(L: Any, p: Any, m: Any, k: Any, stack: Any, q: Any, u: Any) -> Any:
    """Factor a small front with plain loops; return the number of pivots that were positive."""
    for c in range(k):
        pc = p + c * m
        d = L[pc + c]
        if not 0.0 < d < inf:
            return c
        d = sqrt(d)
        L[pc + c] = d
        d = 1.0 / d
        for r in range(c + 1, m):
            L[pc + r] *= d
        for j in range(c + 1, k):
            f = L[pc + j]
            pj = p + j * m
            for r in range(j, m):
                L[pj + r] -= f * L[pc + r]
    for j in range(u):
        qj = q + j * u
        f = L[p + k + j]
        for r in range(j, u):
            stack[qj + r] = -f * L[p + k + r]
        for c in range(1, k):
            pc = p + c * m + k
            f = L[pc + j]
            for r in range(j, u):
                stack[qj + r] -= f * L[pc + r]
    return k


@njit
def _factor_front(blas: Any, L: Any, p: Any, m: Any, k: Any, stack: Any, q: Any, u: Any, info: Any) -> Any:
    """Factor the pivots of one front and write its update matrix -L21 L21ᵀ; return the good pivots."""
    if m <= 36:
        return _factor_small(L, p, m, k, stack, q, u)
    _potrf(blas, k, L, p, m, info)
    if info[0] != 0:
        return info[0] - 1
    for c in range(k):  # some libraries let NaN pass
        if not 0.0 < L[p + c * m + c] < inf:
            return c
    if u > 0:
        _trsm(blas, RIGHT, TRANSPOSED, u, k, L, p, m, L, p + k, m)
        _syrk(blas, u, k, -1.0, L, p + k, m, 0.0, stack, q, u)
    return k


@njit(cache=True, nogil=True)
def factor(blas: Any, tree: Any, first: Any, last: Any, diagonal: Any, off: Any, shift: Any, L: Any, stack: Any) -> Any:
    """Factor the supernodes ``first`` … ``last - 1``; return the column that broke, or -1."""
    info = np.zeros(1, np.int32)
    progress = tree.pointer[:-1].copy()
    b = tree.block
    for s in range(first, last):
        k, u, m, p = _shape(tree, s)
        columns = tree.start[s + 1] - tree.start[s]
        _load(tree, s, diagonal, off, shift, L)
        for e in range(tree.child_pointer[s], tree.child_pointer[s + 1]):
            c = tree.child[e]
            begin, end = tree.pointer[c], tree.pointer[c + 1]
            progress[c] = _extend_add(L, p, m, 0, columns, tree.relative, begin, end, begin, stack, tree.update[c], b)
        q = tree.update[s]
        good = _factor_front(blas, L, p, m, k, stack, q, u, info)
        if good < k:
            return tree.start[s] + good // b
        for e in range(tree.child_pointer[s], tree.child_pointer[s + 1]):
            c = tree.child[e]
            begin, end = tree.pointer[c], tree.pointer[c + 1]
            _extend_add(
                stack, q, u, columns, columns + u, tree.relative, begin, end, progress[c], stack, tree.update[c], b
            )
    return -1


@njit(cache=True, nogil=True)
def log_diagonal(tree: Any, L: Any) -> Any:
    """Σ log Lⱼⱼ."""
    total = 0.0
    for s in range(tree.start.size - 1):
        k, _, m, p = _shape(tree, s)
        for c in range(k):
            total += np.log(L[p + c * (m + 1)])
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def solve_one(tree: Any, L: Any, x: Any, transposed: Any, work: Any) -> Any:
    """Overwrite the vector x by L⁻¹ x, or by L⁻ᵀ x."""
    b = tree.block
    if not transposed:
        for s in range(tree.start.size - 1):
            k, _, m, p = _shape(tree, s)
            base = tree.start[s] * b
            for r in range(k):
                work[r] = x[base + r]
            for r in range(k, m):
                work[r] = 0.0
            for c in range(k):
                q = p + c * m
                t = work[c] / L[q + c]
                work[c] = t
                for r in range(c + 1, m):
                    work[r] -= t * L[q + r]
            for r in range(k):
                x[base + r] = work[r]
            r = k
            for e in range(tree.pointer[s], tree.pointer[s + 1]):
                i = tree.rows[e] * b
                for y in range(b):
                    x[i + y] += work[r + y]
                r += b
    else:
        for s in range(tree.start.size - 2, -1, -1):
            k, _, m, p = _shape(tree, s)
            base = tree.start[s] * b
            for r in range(k):
                work[r] = x[base + r]
            r = k
            for e in range(tree.pointer[s], tree.pointer[s + 1]):
                i = tree.rows[e] * b
                for y in range(b):
                    work[r + y] = x[i + y]
                r += b
            for c in range(k - 1, -1, -1):
                q = p + c * m
                t = 0.0
                for r in range(c + 1, m):
                    t += L[q + r] * work[r]
                work[c] = (work[c] - t) / L[q + c]
            for r in range(k):
                x[base + r] = work[r]


@njit(cache=True, nogil=True)
def solve_many(blas: Any, tree: Any, L: Any, x: Any, transposed: Any, work: Any) -> Any:
    """Overwrite every row of x (a right-hand side each) by L⁻¹ x, or by L⁻ᵀ x."""
    b = tree.block
    count = x.shape[0]
    m_ = tree.start.size - 1
    for step in range(m_):
        s = m_ - 1 - step if transposed else step
        k, u, m, p = _shape(tree, s)
        base = tree.start[s] * b
        for h in range(count):
            w = h * m
            for r in range(k):
                work[w + r] = x[h, base + r]
            w += k
            for e in range(tree.pointer[s], tree.pointer[s + 1]):
                i = tree.rows[e] * b
                for y in range(b):
                    work[w + y] = x[h, i + y]
                w += b
        if transposed:
            if u > 0:
                _gemm(blas, TRANSPOSED, k, count, u, -1.0, L, p + k, m, work, k, m, 1.0, work, 0, m)
            _trsm(blas, LEFT, TRANSPOSED, k, count, L, p, m, work, 0, m)
        else:
            _trsm(blas, LEFT, PLAIN, k, count, L, p, m, work, 0, m)
            if u > 0:
                _gemm(blas, PLAIN, u, count, k, -1.0, L, p + k, m, work, 0, m, 1.0, work, k, m)
        for h in range(count):
            w = h * m
            for r in range(k):
                x[h, base + r] = work[w + r]
            if not transposed:
                w += k
                for e in range(tree.pointer[s], tree.pointer[s + 1]):
                    i = tree.rows[e] * b
                    for y in range(b):
                        x[h, i + y] = work[w + y]
                    w += b


@njit
def _inverse_front(
    blas: Any, L: Any, p: Any, m: Any, k: Any, stack: Any, q: Any, u: Any, Z: Any, K: Any, info: Any
) -> Any:
    """Panel [Z11; Z21] of the inverse, from L and from Z22 (lower triangle on the stack)."""
    for c in range(k):
        for r in range(c, k):
            Z[c * m + r] = L[p + c * m + r]
        for r in range(u):
            K[c * u + r] = L[p + c * m + k + r]
    _potri(blas, k, Z, 0, m, info)
    if u > 0:
        _trsm(blas, RIGHT, PLAIN, u, k, L, p, m, K, 0, u)
        _symm(blas, u, k, -1.0, stack, q, u, K, 0, u, Z, k, m)
        # Z11 = (L11 L11ᵀ)⁻¹ + Kᵀ Z22 K; both triangles are formed, only the lower is read
        _gemm(blas, TRANSPOSED, k, k, u, -1.0, K, 0, u, Z, k, m, 1.0, Z, 0, m)


@njit(cache=True, nogil=True)
def selected_inverse(blas: Any, tree: Any, L: Any, stack: Any, Z: Any, K: Any, diagonal: Any, off: Any) -> Any:
    """Blocks of A⁻¹ on the pattern of A, from the root down."""
    info = np.zeros(1, np.int32)
    b = tree.block
    for s in range(tree.start.size - 2, -1, -1):
        k, u, m, p = _shape(tree, s)
        columns = tree.start[s + 1] - tree.start[s]
        q = tree.update[s]
        _inverse_front(blas, L, p, m, k, stack, q, u, Z, K, info)
        for j in range(columns):
            v = tree.order[tree.start[s] + j]
            o = j * b * (m + 1)
            for y in range(b):
                for x in range(y, b):
                    diagonal[v, x, y] = Z[o + y * m + x]
                    diagonal[v, y, x] = Z[o + y * m + x]
        for e in range(tree.entry_pointer[s], tree.entry_pointer[s + 1]):
            v = tree.entry[e]
            o = tree.entry_place[e] - p
            for y in range(b):
                for x in range(b):
                    if tree.entry_flip[e]:
                        off[v, y, x] = Z[o + y * m + x]
                    else:
                        off[v, x, y] = Z[o + y * m + x]
        for e in range(tree.child_pointer[s], tree.child_pointer[s + 1]):
            _restrict(tree, tree.child[e], columns, m, Z, q, u, stack)


@njit
def _restrict(tree: Any, c: Any, columns: Any, m: Any, Z: Any, q: Any, u: Any, stack: Any) -> Any:
    """Copy the part of the parent's inverse (panel Z and Z22 at q) that child c needs to the child's place."""
    b = tree.block
    begin, end = tree.pointer[c], tree.pointer[c + 1]
    n = (end - begin) * b
    for j in range(begin, end):
        place = tree.relative[j]
        for y in range(b):
            to = tree.update[c] + ((j - begin) * b + y) * n - begin * b
            if place < columns:
                of = (place * b + y) * m
                for i in range(j, end):
                    for x in range(b):
                        stack[to + i * b + x] = Z[of + tree.relative[i] * b + x]
            else:
                of = q + ((place - columns) * b + y) * u - columns * b
                for i in range(j, end):
                    for x in range(b):
                        stack[to + i * b + x] = stack[of + tree.relative[i] * b + x]
