"""Rows of edges: without any two of which a graph falls apart, but not without one."""

from __future__ import annotations

import numpy as np
import pytest

from tempose.model.topology import bridges, components, series


def rows_by_removal(n: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """The same by taking out every pair of edges."""
    m, whole = len(i), components(n, i, j).max()
    of = np.arange(m)
    holding = set(bridges(n, i, j).tolist())
    for a in range(m):
        for b in range(a + 1, m):
            kept = np.setdiff1d(np.arange(m), [a, b])
            if not {a, b} & holding and components(n, i[kept], j[kept]).max() > whole:
                of[b] = of[a]
    return of


@pytest.mark.parametrize("seed", range(30))
def test_rows_are_those_that_come_apart_by_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = 9, int(rng.integers(6, 16))
    i = rng.integers(0, n, m)
    j = (i + rng.integers(1, n, m)) % n
    found, wanted = series(n, i, j), rows_by_removal(n, i, j)
    assert np.array_equal(found[:, None] == found, wanted[:, None] == wanted)


def test_a_ring_is_one_row_and_a_chord_makes_three() -> None:
    i = np.arange(8)
    assert len(np.unique(series(8, i, (i + 1) % 8))) == 1
    found = series(8, np.append(i, 0), np.append((i + 1) % 8, 3))
    assert len(np.unique(found)) == 3 and len(np.unique(found[:3])) == len(np.unique(found[3:8])) == 1
    assert len(np.unique(series(4, np.arange(3), np.arange(1, 4)))) == 3  # bridges, each by itself
