"""The posterior of the paper: potential U, its gradient, priors, any inverse temperature.

``U = −log p(poses | graph) + const``; the tempered density is ``exp(−βU)`` with respect to the product of the sphere's
area measure (orientations) and Lebesgue measure (positions). U has no normalising constants: it is 0 for a graph that
fits perfectly.

This module holds the readable implementation, which is the definition, and the door to the compiled one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array, Index
from tempose.errors import ArgumentError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.robust import RobustLikelihood

if TYPE_CHECKING:
    from tempose.model.bingham import Bingham
    from tempose.numerics.potential import EdgeBlocks, EdgeTable, PriorTable


PARALLEL_FROM_EDGES = 20_000  # below this one thread is faster than waking a second
_MOST_GROUPS = 16  # of nodes: twice the number of threads that can share the edges of a random graph


@dataclass(frozen=True, eq=False)
class Priors:
    """Independent priors on the absolute poses; what is ``None`` is flat.

    Parameters
    ----------
    rotation
        Bingham prior on every ``q_i`` (node_from_world), one for all nodes or one per node.
    translation_mean, translation_precision
        Gaussian prior: mean (3,) or (n, 3) and precision, a scalar 1/σ², (3, 3) or (n, 3, 3).
    on_position
        Put the Gaussian on the world positions ``c_i`` instead of the paper's ``t_i = −R_i c_i``. For mean zero and a
        scalar precision the two are the same.
    """

    rotation: Bingham | tuple[Bingham, ...] | None = None
    translation_mean: ArrayLike = 0.0
    translation_precision: ArrayLike | None = None
    on_position: bool = False

    @property
    def is_flat(self) -> bool:
        """Whether there is no prior at all, so that the gauge is free."""
        return self.rotation is None and self.translation_precision is None

    def rotation_matrices(self, n: int) -> Array:
        """Matrices A (n, 4, 4), or (0, 4, 4) if flat, with ``U = −qᵀ A q`` for node_from_world quaternions."""
        if self.rotation is None:
            return np.empty((0, 4, 4))
        each = self.rotation if isinstance(self.rotation, tuple) else (self.rotation,) * n
        if len(each) != n:
            raise ArgumentError(f"{len(each)} rotation priors for {n} nodes; give one, or one per node")
        return np.array([-(b.axes[:, 1:] * b.concentrations) @ b.axes[:, 1:].T for b in each])

    def gaussian(self, n: int) -> tuple[Array, Array]:
        """Mean (n, 3) and precision (n, 3, 3), or empty arrays if flat."""
        if self.translation_precision is None:
            return np.empty((0, 3)), np.empty((0, 3, 3))
        precision = np.asarray(self.translation_precision, float)
        if precision.ndim == 0:
            precision = float(precision) * np.eye(3)
        try:
            mean = np.broadcast_to(np.asarray(self.translation_mean, float), (n, 3))
            precision = np.broadcast_to(precision, (n, 3, 3))
        except ValueError:
            raise ArgumentError(
                f"the translation prior must broadcast to means ({n}, 3) and precisions ({n}, 3, 3)"
            ) from None
        if not np.all(np.isfinite(mean)) or np.any(np.linalg.eigvalsh(precision)[:, 0] < 0.0):
            raise ArgumentError("the translation prior needs finite means and positive semi-definite precisions")
        return np.ascontiguousarray(mean), np.ascontiguousarray(precision)


@dataclass(frozen=True)
class Residuals:
    """What each edge disagrees with, given poses.

    Attributes
    ----------
    nu
        ``ν = vec(q_ij ⊗ conj(q_j q̄_i))`` (m, 3) in j's frame, signed so that its scalar partner is ≥ 0;
        ``|ν| = sin(θ/2)``.
    translation
        ``t_ij − μ_ij`` (m, 3) in j's frame, ``μ_ij = R_j (c_i − c_j)``; NaN for edges without a translation.
    angle
        Rotation residual θ (m,), radians.
    """

    nu: Array
    translation: Array
    angle: Array


def residuals(graph: PoseGraph, poses: Poses) -> Residuals:
    """Edge residuals, by the equations of the paper, for poses in the graph's node order."""
    q, _ = poses.node_from_world
    c = poses.position
    i, j = graph.edge_i, graph.edge_j
    relative = quat.multiply(q[j], quat.conjugate(q[i]))
    error = quat.multiply(graph.j_from_i_wxyz, quat.conjugate(relative))
    error = np.where(error[:, :1] < 0.0, -error, error)
    mu = quat.rotate(q[j], c[i] - c[j])
    return Residuals(error[:, 1:], graph.j_from_i_t - mu, quat.angle(error))


@dataclass(frozen=True, eq=False)
class Posterior:
    """U and its gradient for a graph and priors, and a robust likelihood of the edges if one is given."""

    graph: PoseGraph
    priors: Priors = Priors()
    likelihood: RobustLikelihood | None = None

    # ------------------------------------------------------------------ the definition

    def potential_by_edge(self, poses: Poses) -> tuple[Array, Array]:
        """Rotation and translation terms of each edge's energy (m,), ``νᵀΛν`` and ``½ rᵀPr``."""
        r = residuals(self.graph, poses)
        t = np.nan_to_num(r.translation)
        rotation = np.einsum("ma,mab,mb->m", r.nu, self.graph.concentration_matrices, r.nu)
        return rotation, 0.5 * np.einsum("ma,mab,mb->m", t, self.graph.translation_precision_matrices, t)

    def energies(self, poses: Poses) -> Array:
        """Quadratic energy of each edge (m,), ``νᵀΛν + ½ rᵀPr``."""
        rotation, translation = self.potential_by_edge(poses)
        return rotation + translation

    def reference_potential(self, poses: Poses) -> float:
        """U by the equations, slowly: the definition that the compiled kernels are tested against."""
        n = len(poses)
        q, t = poses.node_from_world
        energy = self.energies(poses)
        total = float(energy.sum() if self.likelihood is None else self.likelihood.potential(energy).sum())
        bingham = self.priors.rotation_matrices(n)
        if len(bingham):
            total -= float(np.einsum("na,nab,nb->", q, bingham, q))
        mean, precision = self.priors.gaussian(n)
        if len(mean):
            d = (poses.position if self.priors.on_position else t) - mean
            total += 0.5 * float(np.einsum("na,nab,nb->", d, precision, d))
        return total

    # ------------------------------------------------------------------ compiled

    @cached_property
    def edge_order(self) -> Index:
        """Rows of the graph's edges in the order of :attr:`edge_table`: by target, then by source."""
        return np.lexsort((self.graph.edge_i, self.graph.edge_j))

    @cached_property
    def edge_table(self) -> EdgeTable:
        """The edges in rows, sorted by target (see :mod:`tempose.numerics.potential`): for Hessians."""
        return _edge_table(self, full=not self.graph.is_isotropic)

    @cached_property
    def full_edge_table(self) -> EdgeTable:
        """The same with full precisions even if the graph is isotropic: what the minibatch kernel reads."""
        return _edge_table(self, full=True)

    @cached_property
    def prior_table(self) -> PriorTable:
        """The priors as the kernels want them."""
        from tempose.numerics.potential import PriorTable

        n = self.graph.n_nodes
        flip = np.diag([1.0, -1.0, -1.0, -1.0])  # q = ā
        mean, precision = self.priors.gaussian(n)
        return PriorTable(flip @ self.priors.rotation_matrices(n) @ flip, mean, precision, self.priors.on_position)

    @property
    def runs_parallel(self) -> bool:
        """Whether the graph is large enough for several threads to pay."""
        return self.graph.n_edges >= PARALLEL_FROM_EDGES

    @cached_property
    def edge_blocks(self) -> EdgeBlocks:
        """The edges in the order and layout of the gradient kernel."""
        return _edge_blocks(self, self._groups)[0]

    @property
    def _groups(self) -> int:
        groups = 4 * math.isqrt(self.graph.n_edges // PARALLEL_FROM_EDGES) if self.runs_parallel else 1
        return min(groups, _MOST_GROUPS)

    @cached_property
    def edge_slots(self) -> Index:
        """Row of the edge at each place (K, BLOCK) of :attr:`edge_blocks`; m, one too many, where there is none."""
        return _edge_blocks(self, self._groups)[1]

    def weighted_blocks(self, weights: Array) -> EdgeBlocks:
        """The edges of the ordinary problem in which the energy of each is multiplied by its weight (m,)."""
        from tempose.numerics.potential import BLOCK, FULL_WIDTH, ISO_WIDTH

        blocks = self.edge_blocks
        width = ISO_WIDTH if self.graph.is_isotropic else FULL_WIDTH
        edge = blocks.edge[:, : width * BLOCK].copy()
        edge.reshape(len(edge), width, BLOCK)[:, 7:] *= np.append(weights, 0.0)[self.edge_slots][:, None, :]
        return blocks._replace(edge=edge)

    def workspace(self) -> Array:
        """Fresh scratch memory for the gradient kernel; one per thread of control."""
        return np.zeros(len(self.edge_blocks.tile) - 1)

    def gradient(self, poses: Poses) -> tuple[float, Array]:
        """U and its gradient (n, 6): by world-frame rotation vectors (a → exp(ω/2) a), then by positions."""
        return self.gradient_at(poses.wxyz, poses.position)

    def gradient_at(self, wxyz: Array, position: Array, work: Array | None = None) -> tuple[float, Array]:
        """The same for plain arrays of world_from_node quaternions (n, 4) and positions (n, 3)."""
        from tempose.numerics.memory import rows

        state, out = rows(len(wxyz)), rows(len(wxyz))
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
        return float(evaluate(blocks, self.prior_table, state, work, out))

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


def _edge_rows(posterior: Posterior, full: bool) -> Array:
    """Numbers of each edge (m, width) as in :data:`tempose.numerics.potential.ISO_WIDTH` and its neighbours."""
    graph = posterior.graph
    if full:
        upper = np.triu_indices(3)
        parts = [graph.concentration_matrices[:, *upper], graph.translation_precision_matrices[:, *upper]]
    else:
        parts = [graph.concentration[:, None], (graph.translation_precision * graph.has_translation)[:, None]]
    if posterior.likelihood is not None:
        parts.append(posterior.likelihood.rows)
    return np.concatenate([graph.j_from_i_wxyz, np.nan_to_num(graph.j_from_i_t), *parts], axis=1)


def _edge_table(posterior: Posterior, full: bool) -> EdgeTable:
    from tempose.numerics.potential import EdgeTable

    graph, order = posterior.graph, posterior.edge_order
    start = np.concatenate([[0], np.cumsum(np.bincount(graph.edge_j, minlength=graph.n_nodes))]).astype(np.int64)
    return EdgeTable(start, graph.edge_i[order].astype(np.int32), _edge_rows(posterior, full)[order])


def _edge_blocks(posterior: Posterior, groups: int) -> tuple[EdgeBlocks, Index]:
    """Tiles of edges between pairs of node groups, in rounds of disjoint pairs; and which edge is where.

    Groups are ranges of nodes with about the same number of edge ends; ``groups`` is 1 or even. All pairs are played as
    in a tournament: after the edges within the groups, round r has the pairs a + b ≡ 2r (mod ``groups`` − 1), in which
    the last group stands in for the missing partner a ≡ r.
    """
    from tempose.numerics.potential import BLOCK, EdgeBlocks

    graph = posterior.graph
    i, j, m = graph.edge_i, graph.edge_j, graph.n_edges
    before = np.cumsum(graph.degree) - graph.degree
    group = np.minimum(before * groups // max(2 * m, 1), groups - 1)
    low, high = np.minimum(group[i], group[j]), np.maximum(group[i], group[j])
    meet = np.where(high == groups - 1, low, (low + high) * (groups // 2) % max(groups - 1, 1))  # groups/2 = 1/2
    turn = np.where(low == high, 0, 1 + meet)
    order = np.lexsort((i, j, low, turn))

    # tiles by round and lower group; those of the first round are there even if empty
    tile_of = turn * groups + low
    used = np.union1d(np.arange(groups), tile_of)
    count = np.bincount(np.searchsorted(used, tile_of), minlength=len(used))
    slots = -(-count // BLOCK) * BLOCK
    first, first_slot = np.cumsum(count) - count, np.cumsum(slots) - slots
    place = np.arange(slots.sum()) - np.repeat(first_slot, slots)  # within the tile; past its last edge, repeat that
    at = order[np.repeat(first, slots) + np.minimum(place, np.repeat(count, slots) - 1)]
    edge = _edge_rows(posterior, full=not graph.is_isotropic)[at]
    filling = place >= np.repeat(count, slots)
    edge[filling, 7:] = 0.0  # no weight
    shape, width = (len(at) // BLOCK, BLOCK), edge.shape[1]
    blocks = EdgeBlocks(
        target=j[at].astype(np.uint32).reshape(shape),
        source=i[at].astype(np.uint32).reshape(shape),
        edge=np.ascontiguousarray(edge.reshape(*shape, width).transpose(0, 2, 1)).reshape(shape[0], width * BLOCK),
        tile=np.append(first_slot, len(at)) // BLOCK,
        round=np.append(np.flatnonzero(np.diff(used // groups, prepend=-1)), len(used)),
        group=np.searchsorted(group, np.arange(groups + 1)),
    )
    return blocks, np.where(filling, m, at).reshape(shape)
