"""The scalar Laplacian of a graph: the matrix of ``Σ w (x_i − x_j)²``, with some nodes held, and its Cholesky factor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose._typing import Array, Index, Mask
from tempose.numerics.sparse import Factor, Symbolic, analyze


class Laplacian:
    """The Laplacian of one graph for any weights of its edges.

    Parameters
    ----------
    n, edge_i, edge_j
        The number of nodes, and the rows of those that each edge joins (m,).
    held
        Nodes (n,) whose values are zero; none by default, where the weights' factor needs something ``added``.
    symbolic
        The analysed pattern of the graph with blocks of one number, if it is known.
    edge_by_edge
        Sum the weights at a node in the order of the edges, in place of those that start there first: either way, what is
        built on it keeps its last digits.
    """

    def __init__(
        self,
        n: int,
        edge_i: Index,
        edge_j: Index,
        held: Mask | None = None,
        symbolic: Symbolic | None = None,
        *,
        edge_by_edge: bool = False,
    ) -> None:
        self.n, self.edge_i, self.edge_j, self.edge_by_edge = n, edge_i, edge_j, edge_by_edge
        self.held: Mask = np.zeros(n, dtype=bool) if held is None else held
        self.crosses = self.held[edge_i] | self.held[edge_j]
        self.symbolic = symbolic or analyze(n, edge_i, edge_j, block=1)

    def degree(self, weights: Array) -> Array:
        """Sum of the weights at each node (n,)."""
        if self.edge_by_edge:
            ends = np.stack([self.edge_i, self.edge_j], axis=1).reshape(-1)
            return np.asarray(np.bincount(ends, np.repeat(weights, 2), self.n))
        return np.asarray(np.bincount(self.edge_i, weights, self.n) + np.bincount(self.edge_j, weights, self.n))

    def factor(self, weights: Array, added: Array | float = 0.0) -> Factor:
        """Cholesky factor for weights (m,), with something added to the diagonal (n,)."""
        diagonal = np.where(self.held, 1.0, self.degree(weights) + added)
        off = np.where(self.crosses, 0.0, -weights)
        return self.symbolic.factor(diagonal.reshape(-1, 1, 1), off.reshape(-1, 1, 1))

    def pull(self, weights: Array, b: Array) -> Array:
        """Right-hand side (n, k) of the least squares ``min Σ w |x_i − x_j − b|²`` with differences b (m, k)."""
        out = np.empty((self.n, b.shape[1]))
        divergence(self.edge_i, self.edge_j, weights, b, out)
        out[self.held] = 0.0
        return out


@kernel
def divergence(edge_i: Any, edge_j: Any, weights: Any, b: Any, out: Any) -> None:
    """``out = Σ w b`` over the edges that start at a node minus those that end there: out (n, k), b (m, k)."""
    out[:] = 0.0
    for e in range(edge_i.shape[0]):
        for c in range(b.shape[1]):
            pull = weights[e] * b[e, c]
            out[edge_i[e], c] += pull
            out[edge_j[e], c] -= pull
