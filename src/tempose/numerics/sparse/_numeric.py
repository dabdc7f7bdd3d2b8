"""Compiled kernels of the numeric phases: factor, triangular solves, selected inverse.

Notation, for one supernode s: its front has ``k`` pivot columns and ``u`` further rows (scalars), ``m = k + u``.
The panel of s in ``L`` is the m × k matrix [L11; L21] stored by columns; its update matrix is the u × u lower
triangle at ``tree.update[s]`` of the stack.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tempose._support.compiling import inlined, kernel

from ._dense import (
    COLUMNS,
    ONE,
    SCRATCH,
    ZERO,
    add_to,
    at,
    copy_to,
    factor_front,
    inverse_of_pivots,
    mirror,
    multiply,
    solve_back,
    solve_columns,
    take_reciprocals,
)
from ._vectors import add1, add6, transposed1, transposed6

Array = np.ndarray[Any, np.dtype[Any]]


class Tree(NamedTuple):
    """The assembly tree as flat arrays; blocks are counted in nodes, offsets in scalars."""

    block: int
    tallest: int  # blocks in the tallest front
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


@inlined(early=True, cache=False)
def _shape(tree: Any, s: Any) -> Any:
    k = (tree.start[s + 1] - tree.start[s]) * tree.block
    u = (tree.pointer[s + 1] - tree.pointer[s]) * tree.block
    return k, u, k + u, tree.panel[s]


@inlined(early=True, error_model="numpy", cache=False)
def _load(tree: Any, s: Any, diagonal: Any, off: Any, shift: Any, L: Any) -> Any:
    """Write the blocks of A (+ shift · I) into the panel of s; of diagonal blocks the lower triangle."""
    b = tree.block
    k, _, m, p = _shape(tree, s)
    for j in range(k):
        for i in range(p + j * m + j // b * b, p + (j + 1) * m):
            L[i] = 0.0
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


@kernel(error_model="numpy", cache=False)
def _runs(relative: Any, begin: Any, end: Any, split: Any, run: Any) -> Any:
    """Cut the rows of a child into runs that stay adjacent in the parent, and on one side of row ``split``.

    Run r is rows ``run[r]`` … ``run[r + 1] - 1`` (in blocks, from ``begin``). Returns the number of runs, and of
    those before ``split``.
    """
    count = 0
    before = 0
    for e in range(begin, end):
        if e == begin or relative[e] != relative[e - 1] + 1 or relative[e] == split:
            run[count] = e - begin
            if relative[e] < split:
                before = count + 1
            count += 1
    run[count] = end - begin
    return count, before


@kernel(error_model="numpy", cache=False)
def _extend_add(
    target: Any, stride: Any, shift: Any, first: Any, last: Any, runs: Any, run: Any,
    relative: Any, source: Any, u: Any, b: Any,
) -> Any:  # fmt: skip
    """Add the columns of runs ``first`` … ``last - 1`` of a child's update matrix to the parent.

    ``relative`` are the child's rows in the parent's front; rows and columns of the target begin at ``shift``. The
    lower triangle is meant; blocks on the diagonal are added whole.
    """
    for r in range(first, last):
        column = relative[run[r]] - shift
        for j in range(run[r], run[r + 1]):
            # within its own run a column begins at its diagonal block
            to = target + 8 * b * (column * stride + column)
            of = source + 8 * b * (j * u + j)
            add_to(of, u, to, stride, (run[r + 1] - j) * b, b)
            for e in range(r + 1, runs):
                to = target + 8 * b * (column * stride + relative[run[e]] - shift)
                of = source + 8 * b * (j * u + run[e])
                add_to(of, u, to, stride, (run[e + 1] - run[e]) * b, b)
            column += 1


@kernel(error_model="numpy")
def factor(tree: Any, first: Any, last: Any, diagonal: Any, off: Any, shift: Any, L: Any, stack: Any) -> Any:
    """Factor the supernodes ``first`` … ``last - 1``; return the column that broke, or -1."""
    scratch = np.empty(SCRATCH)
    run = np.empty(tree.tallest + 1, np.int64)
    b = tree.block
    for s in range(first, last):
        k, u, m, p = _shape(tree, s)
        columns = tree.start[s + 1] - tree.start[s]
        _load(tree, s, diagonal, off, shift, L)
        for e in range(tree.child_pointer[s], tree.child_pointer[s + 1]):
            c = tree.child[e]
            begin, end = tree.pointer[c], tree.pointer[c + 1]
            runs, before = _runs(tree.relative, begin, end, columns, run)
            _extend_add(
                at(L, p), m, ZERO, ZERO, before, runs, run, tree.relative[begin:end], at(stack, tree.update[c]),
                (end - begin) * b, b,
            )  # fmt: skip
        q = at(stack, tree.update[s])
        good = factor_front(L, p, m, k, q, scratch)
        if good < k:
            return tree.start[s] + good // b
        for e in range(tree.child_pointer[s], tree.child_pointer[s + 1]):
            c = tree.child[e]
            begin, end = tree.pointer[c], tree.pointer[c + 1]
            runs, before = _runs(tree.relative, begin, end, columns, run)
            _extend_add(
                q, u, columns, before, runs, runs, run, tree.relative[begin:end], at(stack, tree.update[c]),
                (end - begin) * b, b,
            )  # fmt: skip
    return -1


@inlined(early=True, error_model="numpy", cache=False)
def _forward_front(L: Any, p: Any, m: Any, k: Any, w: Any, few: Any) -> Any:
    """w1 ← L11⁻¹ w1, w2 ← w2 - L21 w1: one sweep over the panel, six columns at a time; ``few`` has room for as many."""
    for c in range(0, k, COLUMNS):
        end = min(c + COLUMNS, k)
        for j in range(c, end):
            t = w[j]
            for i in range(c, j):
                t -= w[i] * L[p + i * m + j]
            w[j] = t / L[p + j * m + j]
            few[j - c] = -w[j]
        if end - c == COLUMNS:
            add6(at(L, p + c * m + end), m, at(few, 0), at(w, end), m - end)
        else:
            for j in range(c, end):
                add1(at(L, p + j * m + end), m, at(few, j - c), at(w, end), m - end)


@inlined(early=True, error_model="numpy", cache=False)
def _backward_front(L: Any, p: Any, m: Any, k: Any, w: Any, few: Any) -> Any:
    """w1 ← L11⁻ᵀ (w1 - L21ᵀ w2): the same sweep, backwards."""
    for c in range((k - 1) // COLUMNS * COLUMNS, -1, -COLUMNS):
        end = min(c + COLUMNS, k)
        if end - c == COLUMNS:
            transposed6(at(L, p + c * m + end), m, at(w, end), at(few, 0), m - end)
        else:
            for j in range(c, end):
                transposed1(at(L, p + j * m + end), m, at(w, end), at(few, j - c), m - end)
        for j in range(end - 1, c - 1, -1):
            t = w[j] - few[j - c]
            for i in range(j + 1, end):
                t -= w[i] * L[p + j * m + i]
            w[j] = t / L[p + j * m + j]


@kernel(error_model="numpy")
def solve_one(tree: Any, L: Any, x: Any, transposed: Any, work: Any) -> Any:
    """Overwrite the vector x by L⁻¹ x, or by L⁻ᵀ x."""
    solve_part(tree, 0, tree.start.size - 1, L, x, x, transposed, work)


@kernel(error_model="numpy")
def solve_part(tree: Any, first: Any, last: Any, L: Any, x: Any, beyond: Any, transposed: Any, work: Any) -> Any:
    """What supernodes ``first`` … ``last - 1`` contribute to :func:`solve_one`.

    What L⁻¹ takes from rows of later supernodes is taken from the same rows of ``beyond``, which may be x itself.
    """
    b, few = tree.block, np.empty(COLUMNS)
    limit = tree.start[last]
    for step in range(last - first):
        s = last - 1 - step if transposed else first + step
        k, _, m, p = _shape(tree, s)
        own = tree.start[s] * b
        for r in range(k):
            work[r] = x[own + r]
        r = k
        for e in range(tree.pointer[s], tree.pointer[s + 1]):
            i = tree.rows[e] * b
            if transposed or tree.rows[e] < limit:
                for y in range(b):
                    work[r + y] = x[i + y]
            else:
                for y in range(b):
                    work[r + y] = beyond[i + y]
            r += b
        if transposed:
            _backward_front(L, p, m, k, work, few)
        else:
            _forward_front(L, p, m, k, work, few)
            r = k
            for e in range(tree.pointer[s], tree.pointer[s + 1]):
                i = tree.rows[e] * b
                if tree.rows[e] < limit:
                    for y in range(b):
                        x[i + y] = work[r + y]
                else:
                    for y in range(b):
                        beyond[i + y] = work[r + y]
                r += b
        for r in range(k):
            x[own + r] = work[r]


@kernel(error_model="numpy")
def solve_many(
    tree: Any, first: Any, last: Any, L: Any, x: Any, beyond: Any, count: Any, transposed: Any, work: Any
) -> Any:
    """The same as :func:`solve_part` for ``count`` right-hand sides, which are adjacent for every row."""
    scratch = np.empty(SCRATCH)
    b = tree.block
    length = b * count
    limit = tree.start[last]
    for step in range(last - first):
        s = last - 1 - step if transposed else first + step
        k, u, m, p = _shape(tree, s)
        own = tree.start[s] * length
        if not transposed:
            for j in range(0, k, COLUMNS):
                w = min(COLUMNS, k - j)
                take_reciprocals(L, p, m, j, w, scratch)
                solve_columns(at(x, own), count, ZERO, count, at(L, p), m, ZERO, j, w, at(scratch, 0))
            multiply(
                at(x, own), count, count, at(L, p + k), m, u, k, at(work, 0), count, 1.0, ZERO, ZERO, at(scratch, 0)
            )  # fmt: skip
            w = 0
            for e in range(tree.pointer[s], tree.pointer[s + 1]):
                i = tree.rows[e] * length
                if tree.rows[e] < limit:
                    for y in range(length):
                        x[i + y] -= work[w + y]
                else:
                    for y in range(length):
                        beyond[i + y] -= work[w + y]
                w += length
        else:
            for y in range(k * count):
                work[y] = x[own + y]
            w = k * count
            for e in range(tree.pointer[s], tree.pointer[s + 1]):
                i = tree.rows[e] * length
                for y in range(length):
                    work[w + y] = x[i + y]
                w += length
            solve_back(work, count, L, p, m, k, scratch)
            for y in range(k * count):
                x[own + y] = work[y]


@kernel(error_model="numpy")
def selected_inverse(
    tree: Any, first: Any, last: Any, L: Any, stack: Any, Z: Any, N: Any, K: Any, diagonal: Any, off: Any
) -> Any:
    """Blocks of A⁻¹ on the pattern of A, of supernodes ``last - 1`` down to ``first``; what is above them comes before.

    At its turn each supernode finds Z22, full, in the place of its update matrix. Z is the k × m matrix [Z11, Z12],
    N = L11⁻ᵀ, K = N L21ᵀ (the transpose of K in the module's formula).

    Z11 is made symmetric to the last bit. Rounding that is antisymmetric would go on with one sign in Z12 and the other in Z22,
    and such errors grow from supernode to supernode: by 15 digits in 500 nodes of a long band.
    """
    scratch = np.empty(SCRATCH)
    run = np.empty(tree.tallest + 1, np.int64)
    b = tree.block
    for s in range(last - 1, first - 1, -1):
        k, u, m, p = _shape(tree, s)
        q = tree.update[s]
        inverse_of_pivots(L, p, m, k, N, Z, scratch)
        if u > 0:
            n, t, z11, z12, z22 = at(N, 0), at(K, 0), at(Z, 0), at(Z, k * k), at(stack, q)
            multiply(n, k, k, at(L, p + k), m, u, k, t, k, 1.0, ZERO, ZERO, at(scratch, 0))
            multiply(t, k, k, z22, u, u, u, z12, k, -1.0, ZERO, ZERO, at(scratch, 0))
            multiply(t, k, k, z12, k, k, u, z11, k, -1.0, ONE, ONE, at(scratch, 0))
            mirror(Z, k)
        for j in range(tree.start[s + 1] - tree.start[s]):
            v = tree.order[tree.start[s] + j]
            o = j * b * (k + 1)
            for y in range(b):
                for x in range(y, b):
                    diagonal[v, x, y] = Z[o + y * k + x]
                    diagonal[v, y, x] = Z[o + y * k + x]
        for e in range(tree.entry_pointer[s], tree.entry_pointer[s + 1]):
            v = tree.entry[e]
            place = tree.entry_place[e] - p
            o = (place % m) * k + place // m
            for y in range(b):
                for x in range(b):
                    if tree.entry_flip[e]:
                        off[v, y, x] = Z[o + x * k + y]
                    else:
                        off[v, x, y] = Z[o + x * k + y]
        for e in range(tree.child_pointer[s], tree.child_pointer[s + 1]):
            _restrict(tree, tree.child[e], k, Z, q, u, stack, run)


@inlined(early=True, error_model="numpy", cache=False)
def _restrict(tree: Any, c: Any, k: Any, Z: Any, q: Any, u: Any, stack: Any, run: Any) -> Any:
    """Copy the part of the parent's inverse (panel Z and Z22 at q) that child c needs to the child's place, full."""
    b = tree.block
    begin, end = tree.pointer[c], tree.pointer[c + 1]
    n = (end - begin) * b
    base = tree.update[c]
    runs, before = _runs(tree.relative, begin, end, k // b, run)
    split = run[before] * b
    for r in range(runs):
        width = (run[r + 1] - run[r]) * b
        column = tree.relative[begin + run[r]] * b
        to = at(stack, base + run[r] * b * n)
        for e in range(before if r < before else runs):
            row = tree.relative[begin + run[e]] * b
            height = (run[e + 1] - run[e]) * b
            if e < before:
                copy_to(at(Z, column * k + row), k, to + 8 * run[e] * b, n, height, width)
            else:
                copy_to(at(stack, q + (column - k) * u + row - k), u, to + 8 * run[e] * b, n, height, width)
    # the block between the child's rows that are pivots of the parent and the others, by symmetry
    for first in range(split, n, 8):
        for j in range(split):
            for i in range(first, min(first + 8, n)):
                stack[base + i + j * n] = stack[base + j + i * n]
