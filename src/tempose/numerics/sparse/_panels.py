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

from tempose._support.compiling import kernel

from ._dense import COLUMNS, SCRATCH, ZERO, at, inverse_of_pivots, multiply
from ._numeric import _shape
from ._vectors import add1, add6, add6_two, transposed1, transposed3_two, transposed6

LANES = np.int64(8)  # right-hand sides that are solved together: the rows of a tile


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
            add6(at(P, p + j * (m + 1)), m, at(x, own + j), at(work, j), m - j)
        for j in range(whole, k):
            add1(at(P, p + j * (m + 1)), m, at(x, own + j), at(work, j), m - j)
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
            transposed6(at(P, p + j * (m + 1)), m, at(work, j), at(x, own + j), m - j)
        for j in range(whole, k):
            transposed1(at(P, p + j * (m + 1)), m, at(work, j), at(x, own + j), m - j)


@kernel(error_model="numpy")
def forward_two(tree: Any, P: Any, x: Any, y: Any, work: Any, other: Any) -> None:
    """:func:`forward` of two vectors at a time, to the same bits: P is read once for both."""
    b = tree.block
    for s in range(tree.start.size - 1):
        k, _, m, p = _shape(tree, s)
        own = tree.start[s] * b
        for r in range(m):
            work[r] = other[r] = 0.0
        whole = k // COLUMNS * COLUMNS
        for j in range(0, whole, COLUMNS):
            add6_two(at(P, p + j * (m + 1)), m, at(x, own + j), at(y, own + j), at(work, j), at(other, j), m - j)
        for j in range(whole, k):
            add1(at(P, p + j * (m + 1)), m, at(x, own + j), at(work, j), m - j)
            add1(at(P, p + j * (m + 1)), m, at(y, own + j), at(other, j), m - j)
        for r in range(k):
            x[own + r], y[own + r] = work[r], other[r]
        r = k
        for e in range(tree.pointer[s], tree.pointer[s + 1]):
            i = tree.rows[e] * b
            for c in range(b):
                x[i + c] += work[r + c]
                y[i + c] += other[r + c]
            r += b


@kernel(error_model="numpy")
def backward_two(tree: Any, P: Any, x: Any, y: Any, work: Any, other: Any) -> None:
    """:func:`backward` of two vectors at a time, to the same bits: P is read once for both."""
    b = tree.block
    for s in range(tree.start.size - 2, -1, -1):
        k, _, m, p = _shape(tree, s)
        own = tree.start[s] * b
        for r in range(k):
            work[r], other[r] = x[own + r], y[own + r]
        r = k
        for e in range(tree.pointer[s], tree.pointer[s + 1]):
            i = tree.rows[e] * b
            for c in range(b):
                work[r + c], other[r + c] = x[i + c], y[i + c]
            r += b
        whole = k // COLUMNS * COLUMNS
        for j in range(0, whole, COLUMNS):
            for h in range(j, j + COLUMNS, COLUMNS // 2):
                transposed3_two(
                    at(P, p + h * m + j), m, at(work, j), at(other, j), at(x, own + h), at(y, own + h), m - j
                )
        for j in range(whole, k):
            transposed1(at(P, p + j * (m + 1)), m, at(work, j), at(x, own + j), m - j)
            transposed1(at(P, p + j * (m + 1)), m, at(other, j), at(y, own + j), m - j)


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
