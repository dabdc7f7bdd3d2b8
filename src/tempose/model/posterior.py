"""The posterior of the paper: potential U, its gradient, any inverse temperature.

``U = −log p(poses | graph) + const``; the tempered density is ``exp(−βU)`` with respect to the product of the sphere's
area measure (orientations) and Lebesgue measure (positions). U has no normalising constants: it is 0 for a graph that
fits perfectly.

This module holds the readable implementation, which is the definition, and the door to the compiled one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tempose._typing import Array, Index
from tempose.errors import ArgumentError
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.model.robust import RobustLikelihood
from tempose.numerics import layout
from tempose.numerics.layout import BLOCK, FULL_WIDTH, ISO_WIDTH, WEIGHTS, EdgeBlocks, EdgeTable

PARALLEL_FROM_EDGES = 20_000  # below this one thread is faster than waking a second
_MOST_GROUPS = 16  # of nodes: twice the number of threads that can share the edges of a random graph


@dataclass(frozen=True, eq=False)
class Posterior:
    """U and its gradient for a graph, and a robust likelihood of the edges if one is given.

    Priors are edges to the world: :meth:`tempose.Priors.added_to`.
    """

    graph: PoseGraph
    likelihood: RobustLikelihood | None = None

    @property
    def is_precise_only(self) -> bool:
        """Whether only precise edges move the poses (:meth:`RobustLikelihood.precise_only`)."""
        return self.likelihood is not None and self.likelihood.is_precise_only

    def __reduce__(self) -> tuple[type[Posterior], tuple[object, ...]]:
        return Posterior, (self.graph, self.likelihood)  # tables are made again where they are needed

    # ------------------------------------------------------------------ the definition

    def potential_by_edge(self, poses: Poses) -> tuple[Array, Array]:
        """Rotation and translation terms of each edge's energy (m,), ``νᵀΛν`` and ``½ (r + Bs)ᵀP(r + Bs)``."""
        r = residuals(self.graph, poses)
        t = np.nan_to_num(r.unexplained)
        rotation = np.einsum("ma,mab,mb->m", r.nu, self.graph.concentration_matrices, r.nu)
        return rotation, 0.5 * np.einsum("ma,mab,mb->m", t, self.graph.translation_precision_matrices, t)

    def energies(self, poses: Poses) -> Array:
        """Quadratic energy of each edge (m,), ``νᵀΛν + ½ (r + Bs)ᵀP(r + Bs)``."""
        rotation, translation = self.potential_by_edge(poses)
        return rotation + translation

    def reference_potential(self, poses: Poses) -> float:
        """U by the equations, slowly: the definition that the compiled kernels are tested against."""
        energy = self.energies(poses)
        return float(energy.sum() if self.likelihood is None else self.likelihood.potential(energy).sum())

    # ------------------------------------------------------------------ compiled

    @cached_property
    def edge_order(self) -> Index:
        """Rows of the graph's edges in the order of :attr:`edge_table`: by target, then by source."""
        return layout.by_target(self.graph.edge_i, self.graph.edge_j)

    @cached_property
    def edge_table(self) -> EdgeTable:
        """The edges in rows, sorted by target (see :mod:`tempose.numerics.potential`): for Hessians."""
        return self._table(full=not self._is_simple)

    @cached_property
    def full_edge_table(self) -> EdgeTable:
        """The same with full precisions even if the graph is isotropic: what the minibatch kernel reads."""
        return self._table(full=True)

    def _table(self, full: bool) -> EdgeTable:
        return layout.edge_table(self.graph.n_nodes, self.graph.edge_i, self.graph.edge_j, self.edge_rows(full))

    def edge_rows(self, full: bool) -> Array:
        """Numbers of each edge; full precisions, or one number each."""
        graph, robust = self.graph, None if self.likelihood is None else self.likelihood.rows
        if full:
            weights = graph.concentration_matrices, graph.translation_precision_matrices
            return layout.edge_rows(
                graph.j_from_i_wxyz, graph.j_from_i_t, *weights, robust, coupling=graph.coupling, arm=graph.arm
            )
        weights = graph.concentration, graph.translation_precision * graph.has_translation
        return layout.edge_rows(graph.j_from_i_wxyz, graph.j_from_i_t, *weights, robust)

    @property
    def _is_simple(self) -> bool:
        """Whether the kernels' short rows say all there is: one λ and one τ per edge, and no arms."""
        return self.graph.is_isotropic and self.graph.arm is None

    @property
    def runs_parallel(self) -> bool:
        """Whether the graph is large enough for several threads to pay."""
        return self.graph.n_edges >= PARALLEL_FROM_EDGES

    @cached_property
    def edge_blocks(self) -> EdgeBlocks:
        """The edges in the order and layout of the gradient kernel."""
        return self._blocks_and_slots[0]

    @cached_property
    def edge_slots(self) -> Index:
        """Row of the edge at each place (K, BLOCK) of :attr:`edge_blocks`; m, one too many, where there is none."""
        return self._blocks_and_slots[1]

    @cached_property
    def _blocks_and_slots(self) -> tuple[EdgeBlocks, Index]:
        graph = self.graph
        groups = 4 * math.isqrt(graph.n_edges // PARALLEL_FROM_EDGES) if self.runs_parallel else 1
        rows = self.edge_rows(full=not self._is_simple)
        return layout.edge_blocks(graph.n_nodes, graph.edge_i, graph.edge_j, rows, min(groups, _MOST_GROUPS))

    def weighted_blocks(self, weights: Array) -> EdgeBlocks:
        """The edges of the ordinary problem in which the energy of each is multiplied by its weight (m,)."""
        blocks = self.edge_blocks
        width = ISO_WIDTH if self._is_simple else FULL_WIDTH
        edge = blocks.edge[:, : width * BLOCK].copy()
        weighted = edge.reshape(len(edge), width, BLOCK)[:, WEIGHTS[width]]
        weighted *= np.append(weights, 0.0)[self.edge_slots][:, None, :]
        return blocks._replace(edge=edge, robust=None)

    def workspace(self) -> Array:
        """Fresh scratch memory for the gradient kernel; one per thread of control."""
        return np.zeros(len(self.edge_blocks.tile) - 1)

    def gradient(self, poses: Poses) -> tuple[float, Array]:
        """U and its gradient (n, 6): by world-frame rotation vectors (a → exp(ω/2) a), then by positions."""
        return self.gradient_at(poses.wxyz, poses.position)

    def gradient_at(self, wxyz: Array, position: Array, work: Array | None = None) -> tuple[float, Array]:
        """The same for plain arrays of world_from_node quaternions (n, 4) and positions (n, 3)."""
        n = self.graph.n_nodes
        if np.shape(wxyz) != (n, 4) or np.shape(position) != (n, 3):
            raise ArgumentError(
                f"U needs the poses of all {n} nodes in the graph's order (the world, if there is one, last), not of {len(wxyz)}"
            )
        state, out = layout.rows(len(wxyz)), layout.rows(len(wxyz))
        state[:, :4], state[:, 4:7] = wxyz, position
        energy = self.gradient_into(state, self.workspace() if work is None else work, out)
        return energy, np.ascontiguousarray(out[:, :6])

    def gradient_into(self, state: Array, work: Array, out: Array, blocks: EdgeBlocks | None = None) -> float:
        """Write the gradient at the kernels' ``state`` into ``out``, both (n, 8), and return U.

        ``blocks`` stand in for the edges, for instance :meth:`weighted_blocks`.
        """
        from tempose.numerics import potential as kernel

        evaluate = kernel.gradient_parallel if self.runs_parallel else kernel.gradient
        blocks = self.edge_blocks if blocks is None else blocks
        return float(evaluate(blocks, state, work, out))

    def energies_of(self, state: Array) -> Array:
        """Quadratic energy of each edge (m,) at the kernels' ``state``."""
        from tempose.numerics.potential import edge_energies

        sorted_by_target, out = np.empty(self.graph.n_edges), np.empty(self.graph.n_edges)
        edge_energies(self.edge_table, state, sorted_by_target)
        out[self.edge_order] = sorted_by_target
        return out

    def potential(self, poses: Poses) -> float:
        """U at the given poses."""
        return self.gradient(poses)[0]

    def log_density(self, poses: Poses, beta: float = 1.0) -> float:
        """Unnormalised log density ``−βU`` of the tempered posterior."""
        return -beta * self.potential(poses)
