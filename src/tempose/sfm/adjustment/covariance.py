r"""Covariance of frames and cameras, of any two of them and of the points, in a gauge: a sparse inverse plus a few columns.

.. math:: \Sigma = s\, P S^{-1} P^T + X X^T

The first term is image noise that is independent from one observation to the next; columns of X (displacements, in the gauge) are
what errs together. P projects to the gauge (:mod:`.gauges`). Nothing of the size of all unknowns squared is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tempose._typing import Array, Index
from tempose.numerics.sparse.block_cholesky import Factor
from tempose.sfm.adjustment import gauges
from tempose.sfm.adjustment._points import inherited
from tempose.sfm.adjustment.linear import BLOCK
from tempose.sfm.adjustment.reduced import Reduced


@dataclass(frozen=True, eq=False)
class Inverse:
    """``P S⁻¹ Pᵀ``: per squared pixel of noise.

    Attributes
    ----------
    reduced, factor
        The matrix and its factor with some gauge pinned.
    gauge
        What is held; ``None`` aligns by all photographs.
    """

    reduced: Reduced
    factor: Factor
    gauge: gauges.TwoFrames | None = None

    @classmethod
    def of(cls, reduced: Reduced, gauge: gauges.TwoFrames | None = None) -> Inverse:
        """Factor the matrix."""
        return cls(reduced, reduced.factor(), gauge)

    @cached_property
    def _projection(self) -> tuple[Array, Array]:
        """``G (BᵀG)⁻¹`` and B, with rows of zeros for the cameras."""
        bundle, n = self.reduced.linear.bundle, self.reduced.linear.nodes.count
        G, B = gauges.motions(bundle), gauges.constraints(bundle, self.gauge)
        spare = np.zeros((BLOCK * n - len(G), G.shape[1]))
        return np.concatenate([G @ np.linalg.inv(B.T @ G), spare]), np.concatenate([B, spare])

    def in_gauge(self, x: Array) -> Array:
        """Displacements (6 n,) or (6 n, m) of any gauge, in this one."""
        G, B = self._projection
        return np.asarray(x - G @ (B.T @ x))

    def solve(self, rhs: Array) -> Array:
        """``P S⁻¹ rhs``, for right-hand sides (6 n, m) that are gradients."""
        return self.in_gauge(self.factor.solve(rhs))

    def times(self, x: Array) -> Array:
        """``P S⁻¹ Pᵀ x``, for any columns x (6 n, m)."""
        G, B = self._projection
        return self.solve(x - B @ (G.T @ x))

    def draw(self, rng: np.random.Generator, count: int) -> Array:
        """Draws (6 n, count) of the Gaussian with this covariance."""
        return self.in_gauge(self.factor.solve_Lt(rng.standard_normal((len(self._projection[0]), count))))

    @cached_property
    def _held(self) -> tuple[Array, Array]:
        """``S⁻¹ B`` (6 n, 7) and ``Bᵀ S⁻¹ B``."""
        B = self._projection[1]
        solved = self.factor.solve(B)
        return solved, B.T @ solved

    @cached_property
    def blocks(self) -> tuple[Array, Array]:
        """Blocks (n, 6, 6) of single nodes and (e, 6, 6) of the pairs of the pattern."""
        diagonal, off = self.factor.selected_inverse()
        rows = np.arange(len(diagonal))
        first, second = self.reduced.pairs.T
        return self._moved(diagonal, rows, rows), self._moved(off, first, second)

    def pair_blocks(self, i: Index, j: Index) -> Array:
        """Blocks (m, 6, 6) between any nodes i and j (m,)."""
        return self._moved(self.factor.inverse_blocks(i, j), i, j)

    def _moved(self, block: Array, i: Index, j: Index) -> Array:
        """Blocks of ``P A Pᵀ`` from those of ``A = S⁻¹``."""
        G = self._projection[0].reshape(-1, BLOCK, self._projection[0].shape[1])
        solved, middle = self._held
        Y = solved.reshape(G.shape)
        G_j = np.swapaxes(G[j], 1, 2)
        return np.asarray(block - G[i] @ np.swapaxes(Y[j], 1, 2) - Y[i] @ G_j + G[i] @ middle @ G_j)


@dataclass(frozen=True, eq=False)
class Covariance:
    """``scale · P S⁻¹ Pᵀ + X Xᵀ`` of frames and cameras.

    Attributes
    ----------
    inverse
        Independent noise of one squared pixel.
    scale
        Squared pixels.
    columns
        X (6 n, m), in the gauge.
    point_columns
        Displacements (p, 3, m) of the points that the columns make besides those that points inherit; ``None``: none.
    """

    inverse: Inverse
    scale: float
    columns: Array
    point_columns: Array | None = None

    def node(self, i: Index, j: Index) -> Array:
        """Blocks (m, 6, 6) between nodes i and j (m,), any."""
        X = self.columns.reshape(len(self.columns) // BLOCK, BLOCK, self.columns.shape[1])
        together = X[i] @ np.swapaxes(X[j], 1, 2)
        return together if self.scale == 0.0 else together + self.scale * self.inverse.pair_blocks(i, j)

    def times(self, x: Array) -> Array:
        """``Σ x``, for any columns x (6 n, m)."""
        together = self.columns @ (self.columns.T @ x)
        return together if self.scale == 0.0 else together + self.scale * self.inverse.times(x)

    @cached_property
    def diagonal(self) -> Array:
        """Blocks (n, 6, 6) of all nodes."""
        return self._on_pattern[0]

    @cached_property
    def _on_pattern(self) -> tuple[Array, Array]:
        X = self.columns.reshape(len(self.columns) // BLOCK, BLOCK, self.columns.shape[1])
        first, second = self.inverse.reduced.pairs.T
        diagonal, off = X @ np.swapaxes(X, 1, 2), X[first] @ np.swapaxes(X[second], 1, 2)
        if self.scale:
            plain = self.inverse.blocks
            diagonal, off = diagonal + self.scale * plain[0], off + self.scale * plain[1]
        return diagonal, off

    @cached_property
    def of_points(self) -> Array:
        """What points inherit, and what the columns move them by themselves (p, 3, 3): all but their own noise."""
        reduced = self.inverse.reduced
        if self.point_columns is not None and self.scale == 0.0:
            moved = self.point_columns + reduced.follow(self.columns)
            return np.asarray(moved @ np.swapaxes(moved, 1, 2))
        diagonal, off = self._on_pattern
        out = np.zeros((len(reduced.unknown), 3, 3))
        pair_first = np.searchsorted(reduced.pairs[:, 0], np.arange(len(diagonal) + 1))
        second = np.ascontiguousarray(reduced.pairs[:, 1])
        inherited(reduced.link_first, reduced.link_node, reduced.link, pair_first, second, diagonal, off, out)
        return out

    def image_blocks(self, i: Index, j: Index) -> Array:
        """Covariances (m, 6, 6) between the poses of photographs i and j, tangents (rotation, position), world frame."""
        bundle = self.inverse.reduced.linear.bundle
        T = gauges.image_from_frame(bundle)
        return np.asarray(T[i] @ self.node(bundle.frame_of[i], bundle.frame_of[j]) @ np.swapaxes(T[j], 1, 2))

    @cached_property
    def of_images(self) -> Array:
        """Covariances (n, 6, 6) of the poses of all photographs."""
        bundle = self.inverse.reduced.linear.bundle
        T = gauges.image_from_frame(bundle)
        return np.asarray(T @ self.diagonal[bundle.frame_of] @ np.swapaxes(T, 1, 2))

    def of_camera(self, row: int) -> Array:
        """Covariance (m, m) of the free parameters of a camera, in COLMAP's units and order."""
        nodes = self.inverse.reduced.linear.nodes
        places = np.arange(nodes.first[row], nodes.first[row + 1])
        i, j = (grid.ravel() for grid in np.meshgrid(places, places, indexing="ij"))
        size, m = BLOCK * len(places), len(nodes.free[row])
        blocks = self.node(i, j).reshape(len(places), len(places), BLOCK, BLOCK)
        return np.asarray(np.swapaxes(blocks, 1, 2).reshape(size, size)[:m, :m])
