"""What points inherit from the covariance of frames and cameras, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from tempose._support.compiling import inlined, kernel
from tempose.sfm.adjustment._elimination import found


@inlined
def _add(link: Any, i: Any, block: Any, e: Any, share: Any, out: Any) -> None:
    """Add a share of ``K B`` (3, 6)."""
    for r in range(3):
        for c in range(6):
            x = share * link[i, r, c]
            for d in range(6):
                out[r, d] += x * block[e, c, d]


@kernel(parallel=True)
def inherited(
    link_first: Any, link_node: Any, link: Any, pair_first: Any, pair_second: Any, diagonal: Any, off: Any, out: Any
) -> None:
    """``K Σ Kᵀ`` (p, 3, 3) of every point.

    ``pair_first`` (n + 1,) and ``pair_second`` (e,) list the pairs of nodes by their first; ``diagonal`` (n, 6, 6) and ``off``
    (e, 6, 6) are the blocks of Σ.
    """
    # places in arrays, not views: a view counts its users, for which threads wait on each other
    for p in prange(len(link_first) - 1):
        half = np.empty((3, 6))
        for j in range(link_first[p], link_first[p + 1]):
            half[:] = 0.0
            for i in range(link_first[p], j):
                a, b = link_node[i], link_node[j]
                e = found(pair_second, pair_first[a], pair_first[a + 1], b, pair_first[a] + b - a - 1)
                _add(link, i, off, e, 1.0, half)
            _add(link, j, diagonal, link_node[j], 0.5, half)
            for r in range(3):
                for s in range(3):
                    x = 0.0
                    for d in range(6):
                        x += half[r, d] * link[j, s, d]
                    out[p, r, s] += x
                    out[p, s, r] += x
