"""The scalar Laplacian against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.graphs import random_graph
from tempose.numerics.laplacian import Laplacian, divergence
from tempose.numerics.sparse import NotPositiveDefiniteError

RNG = np.random.default_rng


def incidence(n: int, edge_i: np.ndarray, edge_j: np.ndarray) -> np.ndarray:
    matrix = np.zeros((len(edge_i), n))
    matrix[np.arange(len(edge_i)), edge_i] += 1.0
    matrix[np.arange(len(edge_j)), edge_j] -= 1.0
    return matrix


def test_divergence_is_the_transposed_difference() -> None:
    g = random_graph(RNG(0), 9, 20)
    w, b, out = RNG(1).random(20), RNG(2).standard_normal((20, 2)), np.empty((9, 2))
    divergence(g.edge_i, g.edge_j, w, b, out)
    np.testing.assert_allclose(out, incidence(9, g.edge_i, g.edge_j).T @ (w[:, None] * b), atol=1e-13)


@pytest.mark.parametrize("added", [0.0, 0.3])
def test_it_solves_least_squares_with_held_nodes(added: float) -> None:
    g = random_graph(RNG(0), 9, 20)
    w, b = RNG(1).random(20) + 0.1, RNG(2).standard_normal((20, 2))
    held = np.arange(9) == 4
    B, free = incidence(9, g.edge_i, g.edge_j), ~held
    laplacian = Laplacian(9, g.edge_i, g.edge_j, held)
    found = laplacian.factor(w, added).solve(laplacian.pull(w, b))
    matrix = B.T @ (w[:, None] * B) + added * np.eye(9)
    expected = np.zeros((9, 2))
    expected[free] = np.linalg.solve(matrix[np.ix_(free, free)], (B.T @ (w[:, None] * b))[free])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    for one in (laplacian, Laplacian(9, g.edge_i, g.edge_j, held, edge_by_edge=True)):
        np.testing.assert_allclose(one.degree(w), np.abs(B).T @ w, rtol=1e-14)


def test_without_a_held_node_it_is_singular() -> None:
    laplacian = Laplacian(2, np.array([0]), np.array([1]))
    with pytest.raises(NotPositiveDefiniteError):
        laplacian.factor(np.ones(1))
