"""A matrix whose first nodes, the interior, are eliminated: what is left for the others, its border, and the way back.

What is factorised is ``A = [[A_II, A_IB], [A_BI, K]]`` with K so stiff that A is positive definite if A_II is. The border comes
last, so that the end of the factor is that of ``S' = K − A_BI A_II⁻¹ A_IB = L_BB L_BBᵀ``.
"""

from __future__ import annotations

import math

import numpy as np

from tempose._typing import Array, Index
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError, Symbolic, analyze

_STIFFER, _STIFFEST = 8.0, 1e12  # how much more K gets if the border breaks, and how much at most


def border_last(n_interior: int, n_border: int, source: Index, target: Index, block: int) -> Symbolic:
    """Order of elimination of all nodes, the border last and every pair of it joined."""
    a, b = (n_interior + x for x in np.tril_indices(n_border, -1))
    last = np.arange(n_interior, n_interior + n_border)
    return analyze(n_interior + n_border, np.append(source, a), np.append(target, b), block=block, last=last)


class Eliminated:
    """A matrix whose interior is eliminated.

    Parameters
    ----------
    symbolic
        From :func:`border_last`.
    n_interior
        Nodes that are eliminated.
    diagonal, off
        Blocks (n, b, b) of all nodes, and (m, b, b) of the pairs but for those of the border, which are nothing.
    stiff
        What K is more than the border's own blocks, at first: numbers (k, b) on its diagonal.

    Raises
    ------
    NotPositiveDefiniteError
        If A_II is not positive definite.
    """

    def __init__(self, symbolic: Symbolic, n_interior: int, diagonal: Array, off: Array, stiff: Array) -> None:
        n, (k, b) = n_interior, stiff.shape
        self.n_interior, self.n_border, self.block = n, k, b
        nothing = np.zeros((k * (k - 1) // 2, b, b))
        whole, own = np.concatenate([off, nothing]), diagonal[n:].copy()
        self.added = np.zeros((k, b, b))
        factor, more = None, 1.0
        while factor is None:
            self.added[:, np.arange(b), np.arange(b)] = more * stiff
            diagonal[n:] = own + self.added
            try:
                factor = symbolic.factor(diagonal, whole)
            except NotPositiveDefiniteError as error:
                if error.node < n or more > _STIFFEST:
                    raise
                more *= _STIFFER
        self.factor: Factor = factor

    def end_of_factor(self) -> Array:
        """L_BB (k b, k b), its rows in the order of the border: ``S' = L_BB L_BBᵀ`` in that order, too."""
        k, b = self.n_border, self.block
        nodes = self.factor.symbolic.order[self.n_interior :] - self.n_interior
        out = np.empty((k, b, k * b))
        out[nodes] = self.factor.last_columns(k).reshape(k, b, k * b)
        return out.reshape(k * b, k * b)

    def seen_from_border(self, inside: Array, end: Array) -> Array:
        """``A_BI A_II⁻¹ x`` (k b, …) of x (n b, …)."""
        right = np.concatenate([inside, np.zeros((len(end), *inside.shape[1:]))])
        return np.asarray(-end @ self.factor.solve_L(right)[len(inside) :])

    def reduced_matrix(self, end: Array) -> Array:
        """S (k b, k b): what is left of the border's own blocks."""
        S, b = np.asarray(end @ end.T), self.block
        for row, block in enumerate(self.added):
            S[row * b : (row + 1) * b, row * b : (row + 1) * b] -= block
        return S

    def inside_from(self, border: Array, right: Array) -> Array:
        """``A_II⁻¹ (right − A_IB x_B)`` for x_B (k b, …)."""
        end = self.end_of_factor()
        seen = self.seen_from_border(right, end)
        return self.factor.solve(np.concatenate([right, seen + end @ (end.T @ border)]))[: len(right)]


def packed(matrix: Array) -> Array:
    """The lower triangle of a symmetric matrix (k, k), row by row, as (k (k + 1) / 2,): half of it need not travel."""
    return np.concatenate([row[: k + 1] for k, row in enumerate(matrix)]) if len(matrix) else np.empty(0)


def unpacked(triangle: Array) -> Array:
    """The inverse of :func:`packed`."""
    size = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
    out = np.empty((size, size))
    begin = 0
    for k in range(size):
        out[k, : k + 1] = out[: k + 1, k] = triangle[begin : begin + k + 1]
        begin += k + 1
    return out
