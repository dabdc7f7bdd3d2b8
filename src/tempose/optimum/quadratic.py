r"""The potential as a quadratic form: what certificates and the staircase are made of.

With isotropic concentrations λ and precisions :math:`τ`, flat priors, and ``κ = λ/4``, in the terms of an edge from i
to j with measured ``j_from_i = (Q, t)`` and world_from_node poses ``(R, p)``,

.. math::

    2U = \sum κ \|R_i - R_j Q\|^2 + τ |p_i - p_j - R_j t|^2 = \operatorname{tr}(X M X^T),
    \quad X = [p_1\, R_1\, p_2\, R_2 \dots],

M is a sparse positive semi-definite matrix of 4×4 blocks, the same for every number r of rows of X: r = 3 is the pose
graph, r > 3 its lifting, where ``Y_i`` (r×3, orthonormal columns) stands for ``R_i``.

A row of M for the position of one node is redundant in every set of nodes tied together by translations, since
shifting them together changes nothing: that node's position is held, which is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.numerics import relaxation as _kernels
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError, Symbolic
from tempose.optimum.relaxations import pattern, position_holds


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The matrix M of an isotropic graph, and matrices that differ from it on the diagonal blocks.

    Points X are (n, 4, r): position and the three columns of ``Y_i``, each an r-vector.
    """

    graph: PoseGraph

    def __post_init__(self) -> None:
        if not self.graph.is_isotropic:
            raise NotApplicable("the quadratic form needs one concentration and one precision per edge")

    @cached_property
    def symbolic(self) -> Symbolic:
        """Ordering and fill for 4×4 blocks."""
        return pattern(self.graph, 4)

    @cached_property
    def edges(self) -> tuple[Index, Index, Array, Array, Array, Array]:
        """``i, j, Q, t, κ, τ`` of every edge."""
        g = self.graph
        Q, t = quat.to_matrix(g.j_from_i_wxyz), np.nan_to_num(g.j_from_i_t)
        return g.edge_i, g.edge_j, Q, t, g.concentration / 4.0, g.translation_precision * g.has_translation

    @cached_property
    def blocks(self) -> tuple[Array, Array]:
        """M: diagonal blocks (n, 4, 4) and edge blocks (m, 4, 4) at (i, j)."""
        diagonal, off = np.zeros((self.graph.n_nodes, 4, 4)), np.empty((self.graph.n_edges, 4, 4))
        _kernels.quadratic_blocks(*self.edges, diagonal, off)
        return diagonal, off

    @cached_property
    def held(self) -> Mask:
        """Nodes (n,) whose position is held."""
        held = np.zeros(self.graph.n_nodes, dtype=bool)
        held[position_holds(self.graph)] = True
        return held

    @cached_property
    def scale(self) -> Array:
        """Mean diagonal entry of M's rotation rows at each node (n,): the size of its numbers."""
        k = np.arange(1, 4)
        return np.asarray(self.blocks[0][:, k, k].mean(axis=1), dtype=np.float64)

    @cached_property
    def _held_off(self) -> Array:
        off = self.blocks[1].copy()
        off[self.held[self.graph.edge_i], 0, :] = 0.0
        off[self.held[self.graph.edge_j], :, 0] = 0.0
        return off

    # ------------------------------------------------------------------ points

    def point(self, poses: Poses, rank: int = 3) -> Array:
        """Poses as X (n, 4, rank), positions relative to their centre; rows beyond the third are zero."""
        X = np.zeros((len(poses), 4, rank))
        X[:, 0, :3] = poses.position - poses.position.mean(axis=0) if len(poses) else 0.0
        X[:, 1:, :3] = np.swapaxes(quat.to_matrix(poses.wxyz), 1, 2)
        return X

    def gradient(self, X: Array) -> tuple[float, Array]:
        """``½ tr(X M Xᵀ)``, which is U at r = 3, and its gradient ``X M`` (n, 4, r), from residuals."""
        out = np.empty_like(X)
        return float(_kernels.lifted_gradient(*self.edges, X, out)), out

    def multipliers(self, X: Array, gradient: Array) -> Array:
        """``Λ_i``: symmetric part of ``Y_iᵀ (X M)_i`` (n, 3, 3)."""
        out = np.empty((len(X), 3, 3))
        _kernels.multipliers(X, gradient, out)
        return out

    @cached_property
    def _position_factor(self) -> Factor | None:
        """Factor of the positions' part of M, a weighted graph Laplacian; ``None`` if it is singular to rounding."""
        diagonal = np.where(self.held, 1.0, self.blocks[0][:, 0, 0])
        try:
            return pattern(self.graph, 1).factor(diagonal[:, None, None], self._held_off[:, :1, :1])
        except NotPositiveDefiniteError:
            return None

    def best_positions(self, X: Array, gradient: Array) -> Array:
        """X with the positions that minimise the form for its rotations; ``gradient`` is ``X M``."""
        if self._position_factor is None:
            return X
        better = X.copy()
        better[:, 0] -= self._position_factor.solve(np.where(self.held[:, None], 0.0, gradient[:, 0]))
        return better

    # ------------------------------------------------------------------ matrices

    def matrix_times(self, multipliers: Array, V: Array) -> Array:
        """``(M − diag(0, Λ)) V`` for V (n, 4, r)."""
        diagonal = self.blocks[0].copy()
        diagonal[:, 1:, 1:] -= multipliers
        out = np.empty_like(V)
        _kernels.apply(self.graph.edge_i, self.graph.edge_j, diagonal, self.blocks[1], np.ascontiguousarray(V), out)
        return out

    def factor(self, multipliers: Array | None, shift: Array | float) -> Factor:
        """Factor of ``M − diag(0, Λ) + diag(0, shift I)``, held positions replaced by the identity.

        Raises
        ------
        NotPositiveDefiniteError
            If the matrix is not positive definite.
        """
        diagonal = self.blocks[0].copy()
        if multipliers is not None:
            diagonal[:, 1:, 1:] -= multipliers
        k = np.arange(1, 4)
        diagonal[:, k, k] += np.broadcast_to(shift, len(diagonal))[:, None]
        diagonal[self.held, 0, :] = diagonal[self.held, :, 0] = 0.0
        diagonal[self.held, 0, 0] = 1.0
        nothing = self.scale == 0.0  # a node that no edge says anything about: its rows are zero
        diagonal[nothing[:, None] & (np.arange(4) > 0), 1:] = 0.0
        diagonal[np.flatnonzero(nothing)[:, None], k, k] = 1.0
        return self.symbolic.factor(diagonal, self._held_off)
