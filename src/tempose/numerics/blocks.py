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
