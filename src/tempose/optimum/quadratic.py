r"""The potential as a quadratic form: what certificates and the staircase are made of.

With isotropic concentrations λ and precisions :math:`τ` and ``κ = λ/4``, in the terms of an edge from i to j with measured
``j_from_i = (Q, t)``, lever arm h and world_from_node poses ``(R, p)``,

.. math::

    2U = \sum κ \|R_i - R_j Q\|^2 + τ |p_i + R_i h - p_j - R_j t|^2 = \operatorname{tr}(X M X^T),
    \quad X = [p_1\, R_1\, p_2\, R_2 \dots],

M is a sparse positive semi-definite matrix of (d+1)×(d+1) blocks, d = 3 or, for a planar graph, 2 (``‖R − R'‖² = 8 sin²(θ/2)`` in
both). It is the same for every number r of rows of X: r = d is the pose graph, r > d its lifting, where ``Y_i`` (r×d, orthonormal
columns) stands for ``R_i``. A landmark has a row for its position only; the others are zero. Fixed nodes are merged into
one per component first (:mod:`tempose.optimum.merged`), which is then as free as any.

A row of M for the position of one node is redundant in every set of nodes tied together by translations, since
shifting them together changes nothing: that node's position is held, which is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.numerics import relaxation as _kernels
from tempose.numerics.sparse import NotPositiveDefiniteError, Symbolic, analyze
from tempose.optimum.relaxations import pattern, position_holds


class Solves(Protocol):
    """What a factor is asked here, wherever it is."""

    def solve(self, rhs: Array) -> Array:
        """``A⁻¹ rhs``, of (n b,) or (n b, k)."""


@dataclass(frozen=True, eq=False)
class Hubs:
    """What has to be added to the blocks of a form when the positions of a component are ``p_i = u_i + Y_a c_i``.

    a is one of its nodes, the hub, and c_i where that has node i in its own frame at some point X: there u is zero. The form does
    not change, yet no number in it is larger than edges are long, however far the graph reaches: rounding has less to work on.

    Attributes
    ----------
    diagonal, off
        To be added to the diagonal blocks (n, d+1, d+1); and new blocks of nodes with their hubs.
    size
        The new diagonal entries, and those of the positions times the squares of u.
    nodes
        The hubs.
    pairs
        Rows and columns of the graph's edges, and of the new blocks after them.
    """

    diagonal: Array
    off: Array
    size: float
    nodes: Index
    pairs: tuple[Index, Index]
    problem: Quadratic = field(repr=False)

    @cached_property
    def symbolic(self) -> Symbolic:
        """Of these pairs: the order of the graph, but hubs last."""
        order, last = self.problem.symbolic.order, np.zeros(len(self.diagonal), dtype=bool)
        last[self.nodes] = True
        order = np.concatenate([order[~last[order]], order[last[order]]])
        return analyze(len(last), *self.pairs, block=self.diagonal.shape[-1], order=order)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The matrix M of an isotropic graph, and matrices that differ from it on the diagonal blocks.

    Points X are (n, d+1, r): position and the d columns of ``Y_i``, each an r-vector.
    """

    graph: PoseGraph

    def __post_init__(self) -> None:
        if not self.graph.is_isotropic:
            raise NotApplicable("the quadratic form needs one concentration and one precision per edge")

    @property
    def d(self) -> int:
        """Dimension of the space."""
        return self.graph.dimension

    @property
    def axes(self) -> tuple[int, ...]:
        """As many entries as dimensions: what the kernels know d from."""
        return tuple(range(self.d))

    @cached_property
    def symbolic(self) -> Symbolic:
        """Ordering and fill for (d+1)×(d+1) blocks."""
        return pattern(self.graph, self.d + 1)

    @cached_property
    def edges(self) -> tuple[tuple[int, ...], Index, Index, Array, Array, Array, Array, Array]:
        """``axes, i, j, Q, t, arm, κ, τ`` of every edge; no arm at all if none has one."""
        g, d = self.graph, self.d
        Q, t = quat.to_matrix(g.j_from_i_wxyz)[:, :d, :d], np.nan_to_num(g.j_from_i_t)[:, :d]
        arm = np.empty((0, d)) if g.arm is None else np.ascontiguousarray(g.arm[:, :d])
        Q, t = np.ascontiguousarray(Q), np.ascontiguousarray(t)
        return (
            self.axes,
            g.edge_i,
            g.edge_j,
            Q,
            t,
            arm,
            g.concentration / 4.0,
            g.translation_precision * g.has_translation,
        )

    @cached_property
    def blocks(self) -> tuple[Array, Array]:
        """M: diagonal blocks (n, d+1, d+1) and edge blocks (m, d+1, d+1) at (i, j)."""
        b = self.d + 1
        diagonal, off = np.zeros((self.graph.n_nodes, b, b)), np.empty((self.graph.n_edges, b, b))
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
        k = np.arange(1, self.d + 1)
        return np.asarray(self.blocks[0][:, k, k].mean(axis=1), dtype=np.float64)

    @cached_property
    def _held_off(self) -> Array:
        off = self.blocks[1].copy()
        off[self.held[self.graph.edge_i], 0, :] = 0.0
        off[self.held[self.graph.edge_j], :, 0] = 0.0
        return off

    # ------------------------------------------------------------------ points

    def point(self, poses: Poses) -> Array:
        """Poses as X (n, d+1, d), positions relative to their centre."""
        d = self.d
        X = np.empty((len(poses), d + 1, d))
        X[:, 0] = (poses.position - poses.position.mean(axis=0))[:, :d] if len(poses) else 0.0
        X[:, 1:] = np.swapaxes(quat.to_matrix(poses.wxyz), 1, 2)[:, :d, :d]
        return X

    def gradient(self, X: Array) -> tuple[float, Array]:
        """``½ tr(X M Xᵀ)``, which is U at r = d, and its gradient ``X M`` (n, d+1, r), from residuals."""
        out = np.empty_like(X)
        return float(_kernels.lifted_gradient(*self.edges, X, out)), out

    def multipliers(self, X: Array, gradient: Array) -> Array:
        """``Λ_i``: symmetric part of ``Y_iᵀ (X M)_i`` (n, d, d)."""
        out = np.empty((len(X), self.d, self.d))
        _kernels.multipliers(self.axes, X, gradient, out)
        return out

    @cached_property
    def _position_factor(self) -> Solves | None:
        """Factor of the positions' part of M, a weighted graph Laplacian; ``None`` if it is singular to rounding."""
        diagonal = np.where(self.held, 1.0, self.blocks[0][:, 0, 0])
        try:
            return self.factored(diagonal[:, None, None], self._held_off[:, :1, :1])
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
        """``(M − diag(0, Λ)) V`` for V (n, d+1, r)."""
        diagonal = self.blocks[0].copy()
        diagonal[:, 1:, 1:] -= multipliers
        out = np.empty_like(V)
        i, j = self.graph.edge_i, self.graph.edge_j
        _kernels.apply(self.axes, i, j, diagonal, self.blocks[1], np.ascontiguousarray(V), out)
        return out

    def factor(self, multipliers: Array | None, shift: Array | float, hubs: Hubs | None = None) -> Solves:
        """Factor of ``M − diag(0, Λ) + diag(0, shift I)``, held positions replaced by the identity.

        With ``hubs`` that of the same form in their coordinates.

        Raises
        ------
        NotPositiveDefiniteError
            If the matrix is not positive definite.
        """
        diagonal = self.blocks[0].copy()
        if multipliers is not None:
            diagonal[:, 1:, 1:] -= multipliers
        k = np.arange(1, self.d + 1)
        diagonal[:, k, k] += np.broadcast_to(shift, len(diagonal))[:, None]
        diagonal[self.held, 0, :] = diagonal[self.held, :, 0] = 0.0
        diagonal[self.held, 0, 0] = 1.0
        nothing = self.scale == 0.0  # a node that no edge says anything about: its rows are zero
        diagonal[nothing[:, None] & (np.arange(self.d + 1) > 0), 1:] = 0.0
        diagonal[np.flatnonzero(nothing)[:, None], k, k] = 1.0
        if hubs is None:
            return self.factored(diagonal, self._held_off)
        return self.factored(diagonal + hubs.diagonal, np.concatenate([self._held_off, hubs.off]), hubs)

    def factored(self, diagonal: Array, off: Array, hubs: Hubs | None = None) -> Solves:
        """Factor of a matrix with blocks (n, b, b) of the nodes and (m, b, b) of the edges, those to hubs after them."""
        symbolic = pattern(self.graph, diagonal.shape[-1]) if hubs is None else hubs.symbolic
        return symbolic.factor(diagonal, off)

    def release(self) -> None:
        """Give back memory of factors that are no longer used."""
        self.symbolic.release()

    def hubs(self, X: Array) -> Hubs:
        """The form with the positions of each component relative to where one of its nodes has them at X."""
        graph, d, n = self.graph, self.d, self.graph.n_nodes
        turns = np.flatnonzero(self.scale > 0.0)
        found, first = np.unique(graph.component[turns], return_index=True)
        hub = np.full(graph.n_components, -1, dtype=np.int64)
        hub[found] = turns[first]
        of = hub[graph.component]
        some = of >= 0
        c, rest = np.zeros((n, d)), X[:, 0].copy()
        rest[some] -= X[of[some], 0]
        c[some] = np.einsum("nr,nar->na", rest[some], X[of[some], 1:])
        rest[some] -= np.einsum("na,nar->nr", c[some], X[of[some], 1:])
        _, i, j, _, t, arm, _, tau = self.edges
        apart = c[i] - c[j]
        one = np.ones((len(i), 1))
        near = np.hstack([one, arm if len(arm) else np.zeros((len(i), d))])
        off = np.zeros((n, d + 1, d + 1))
        np.add.at(off[:, :, 1:], i, (tau[:, None] * near)[:, :, None] * apart[:, None, :])
        np.add.at(off[:, :, 1:], j, -(tau[:, None] * np.hstack([one, t]))[:, :, None] * apart[:, None, :])
        off[self.held, 0, :] = 0.0
        diagonal = np.zeros((n, d + 1, d + 1))
        own = of[i] >= 0
        np.add.at(diagonal[:, 1:, 1:], of[i[own]], (tau[own, None] * apart[own])[:, :, None] * apart[own][:, None, :])
        size = float(np.einsum("naa->", diagonal) + np.sum(self.blocks[0][:, 0, 0, None] * rest**2))
        rows = np.flatnonzero(some & (of != np.arange(n)))
        chosen = hub[found]
        diagonal[chosen] += off[chosen] + np.swapaxes(off[chosen], 1, 2)
        pairs = np.concatenate([i, rows]), np.concatenate([j, of[rows]])
        return Hubs(diagonal, off[rows], size, chosen, pairs, self)
