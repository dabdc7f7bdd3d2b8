"""Sparse matrices of small dense blocks, for scipy."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tempose._typing import Array, Index


def block_matrix(n: int, row: Index, column: Index, blocks: Array) -> sparse.csr_array:
    """Sparse matrix (kn, kn) of k×k blocks at block rows and columns; blocks at one place are added."""
    k = blocks.shape[1]
    rows = np.broadcast_to(k * row[:, None, None] + np.arange(k)[:, None], blocks.shape)
    columns = np.broadcast_to(k * column[:, None, None] + np.arange(k), blocks.shape)
    return sparse.csr_array((blocks.ravel(), (rows.ravel(), columns.ravel())), shape=(k * n, k * n))


def symmetric_matrix(row: Index, column: Index, diagonal: Array, off: Array) -> sparse.bsr_array:
    """Sparse symmetric matrix (kn, kn) of diagonal blocks (n, k, k) and of blocks (m, k, k) at block rows and columns.

    Every block is stored once for either triangle, and products with vectors add from left to right.
    """
    n, m, k = len(diagonal), len(off), diagonal.shape[1]
    own = np.arange(n)
    rows, columns = np.concatenate([own, row, column]), np.concatenate([own, column, row])
    order = np.lexsort((columns, rows))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    blocks = np.empty((n + 2 * m, k, k))
    blocks[place[:n]], blocks[place[n : n + m]] = diagonal, off
    blocks[place[n + m :]] = np.swapaxes(off, 1, 2)
    start = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return sparse.bsr_array((blocks, columns[order], start), shape=(k * n, k * n))
