"""What points inherit from the covariance of frames and cameras, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from tempose._support.compiling import inlined, kernel


@inlined
def _place(first: Any, second: Any, a: Any, b: Any) -> Any:
    """Where the pair a < b stands in the sorted list of pairs."""
    low, high = first[a], first[a + 1]
    while low < high:
        middle = (low + high) // 2
        if second[middle] < b:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(parallel=True)
def inherited(
    link_first: Any, link_node: Any, link: Any, pair_first: Any, pair_second: Any, diagonal: Any, off: Any, out: Any
) -> None:
    """``K Σ Kᵀ`` (p, 3, 3) of every point.

    ``pair_first`` (n + 1,) and ``pair_second`` (e,) list the pairs of nodes by their first; ``diagonal`` (n, 6, 6) and ``off``
    (e, 6, 6) are the blocks of Σ.
    """
    for p in prange(len(link_first) - 1):
        total, half = np.zeros((3, 3)), np.empty((3, 6))
        for i in range(link_first[p], link_first[p + 1]):
            for j in range(i, link_first[p + 1]):
                a, b = link_node[i], link_node[j]
                block = diagonal[a] if i == j else off[_place(pair_first, pair_second, a, b)]
                for r in range(3):
                    half[r] = 0.0
                    for c in range(6):
                        x = link[i, r, c]
                        for d in range(6):
                            half[r, d] += x * block[c, d]
                for r in range(3):
                    for s in range(3):
                        x = 0.0
                        for d in range(6):
                            x += half[r, d] * link[j, s, d]
                        total[r, s] += x
                        if i != j:
                            total[s, r] += x
        out[p] = total
