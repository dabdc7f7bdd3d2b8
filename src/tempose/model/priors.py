"""Independent priors on the absolute poses: measurements of all nodes against the world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array
from tempose.errors import ArgumentError
from tempose.geometry import quaternion as quat
from tempose.model import precision
from tempose.model.graph import WORLD, PoseGraph

if TYPE_CHECKING:
    from tempose.model.bingham import Bingham


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

    def added_to(self, graph: PoseGraph) -> PoseGraph:
        """The graph with an edge between the world and every node that says the same, never doubted by a robust likelihood.

        A prior on the paper's ``(q_i, t_i)`` is a measurement of node_from_world, an edge from the world to the node; one on
        world positions is an edge from the node to the world. In a planar graph what the prior says about the plane is left.
        """
        if self.is_flat:
            return graph
        nodes = np.array([row for row, name in enumerate(graph.node_ids) if name != WORLD], dtype=np.int64)
        n, world = len(nodes), graph.n_nodes if graph.world is None else graph.world
        inward = self.translation_precision is not None and not self.on_position  # the axes are those of the node
        mode, Lambda = self._rotations(n, graph.is_planar, inward)
        t, P = self._translations(n, graph.is_planar)
        # means are in the user's coordinates; t_i is where the user's origin is, seen from the node
        arm = np.tile(-graph.world_origin * inward, (n, 1))
        t = t if inward else t - graph.world_origin
        if np.any(graph.is_landmark[nodes] & (inward | np.any(Lambda, axis=(1, 2)))):
            raise ArgumentError("landmarks have no rotation: only priors on positions (on_position) apply to all nodes")
        ids = graph.node_ids if graph.world is not None else (*graph.node_ids, WORLD)
        ends = (np.full(n, world), nodes) if inward else (nodes, np.full(n, world))
        trusted = np.full(graph.n_edges, np.nan) if graph.inlier_prior is None else graph.inlier_prior
        return replace(
            graph,
            node_ids=ids,
            edge_i=np.append(graph.edge_i, ends[0]),
            edge_j=np.append(graph.edge_j, ends[1]),
            j_from_i_wxyz=np.vstack([graph.j_from_i_wxyz, mode if inward else quat.conjugate(mode)]),
            j_from_i_t=np.vstack([graph.j_from_i_t, t]),
            concentration=precision.joined(graph.concentration, Lambda, 3),
            translation_precision=precision.joined(graph.translation_precision, P, graph.dimension),
            inlier_prior=np.append(trusted, np.ones(n)),
            coupling=None if graph.coupling is None else np.concatenate([graph.coupling, np.zeros((n, 3, 3))]),
            arm=np.vstack([np.zeros((graph.n_edges, 3)) if graph.arm is None else graph.arm, arm]),
        )

    def _rotations(self, n: int, planar: bool, inward: bool) -> tuple[Array, Array]:
        """Modes (n, 4), node_from_world, and Λ (n, 3, 3) in the axes of the node, or else of the world."""
        if self.rotation is None:
            return np.tile(quat.IDENTITY, (n, 1)), np.zeros((n, 3, 3))
        if planar:  # among turns about z a Bingham is one, and qᵀAq has two eigenvectors
            values, vectors = np.linalg.eigh(self.rotation_matrices(n)[:, ::3, ::3])
            mode = np.zeros((n, 4))
            mode[:, ::3] = vectors[:, :, 1]
            return mode, (values[:, 1] - values[:, 0])[:, None, None] * np.eye(3)
        each = self._binghams(n)
        mode, axes = np.array([b.mode for b in each]), np.array([b.axes[:, 1:].T for b in each])
        # the residual of a world → node edge is mode ⊗ q̄, of a node → world edge mode̅ ⊗ q
        back = quat.conjugate(mode)[:, None, :]
        v = (quat.multiply(axes, back) if inward else quat.multiply(back, axes))[:, :, 1:]
        concentration = np.array([b.concentrations for b in each])
        Lambda = np.einsum("nka,nk,nkb->nab", v, concentration, v)
        round_ = np.all(concentration == concentration[:, :1], axis=1)
        return mode, np.where(round_[:, None, None], concentration[:, :1, None] * np.eye(3), Lambda)

    def _translations(self, n: int, planar: bool) -> tuple[Array, Array]:
        """Means (n, 3), NaN if flat, and precisions (n, 3, 3)."""
        mean, P = self.gaussian(n)
        if not len(mean):
            return np.full((n, 3), np.nan), np.zeros((n, 3, 3))
        if planar:  # z = 0: the square is completed by what the plane's part has to do with it
            P2 = P[:, :2, :2]
            shift = np.linalg.pinv(P2, hermitian=True) @ P[:, :2, 2:] @ mean[:, 2:, None]
            flat = np.zeros((n, 3))
            flat[:, :2] = mean[:, :2] + shift[:, :, 0]
            P, mean = np.zeros((n, 3, 3)), flat
            P[:, :2, :2] = P2
        return mean, P

    def _binghams(self, n: int) -> tuple[Bingham, ...]:
        if self.rotation is None:
            return ()
        each = self.rotation if isinstance(self.rotation, tuple) else (self.rotation,) * n
        if len(each) != n:
            raise ArgumentError(f"{len(each)} rotation priors for {n} nodes; give one, or one per node")
        return each

    def rotation_matrices(self, n: int) -> Array:
        """Matrices A (n, 4, 4), or (0, 4, 4) if flat, with ``U = −qᵀ A q`` for node_from_world quaternions."""
        if self.rotation is None:
            return np.empty((0, 4, 4))
        return np.array([-(b.axes[:, 1:] * b.concentrations) @ b.axes[:, 1:].T for b in self._binghams(n)])

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
