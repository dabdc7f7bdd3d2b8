"""Gaussian uncertainty at the optimum: marginal, joint and relative covariances from the exact Hessian.

``Σ = H⁻¹/β`` with the gauge held at one node per component comes from the selected inverse of the sparse factor, all
nodes at once. Another gauge is a linear map of the same coordinates: with ``θ`` the motion it takes back and ``G_i`` the
effect of a motion on node i, ``x_i → x_i − G_i θ``, hence

    Σ_i → Σ_i − G_i C_i − C_iᵀG_iᵀ + G_i V G_iᵀ,   C_i = Cov(θ, x_i),  V = Cov(θ).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tempose._typing import Array, Index, Mask, NodeId
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.gauge import Gauge, part_means
from tempose.model.poses import Poses
from tempose.model.relative import RelativeSummary
from tempose.numerics.sparse import Factor
from tempose.optimum.hessian import Curvature


class Laplace:
    """The Gaussian approximation of the tempered posterior around an optimum.

    Coordinates are those of :mod:`tempose.model.gauge`: world-frame rotation vector, then position, six per node.
    """

    def __init__(self, curvature: Curvature, poses: Poses, beta: float = 1.0, factor: Factor | None = None) -> None:
        self.curvature = curvature
        self.poses = poses
        self.beta = beta
        self.factor = factor or curvature.factor(poses.wxyz, poses.position)

    @cached_property
    def _selected(self) -> tuple[Array, Array]:
        """Blocks of H⁻¹: of the nodes (n, 6, 6) and of the edges (m, 6, 6), in the order of the posterior's table."""
        return self.factor.selected_inverse()

    def marginals(self, gauge: Gauge) -> Array:
        """Covariances (n, 6, 6) of all nodes in a gauge."""
        held = self.curvature.held
        sigma = self._selected[0] / self.beta
        sigma = np.where(held[:, :, None] | held[:, None, :], 0.0, sigma)
        graph = self.curvature.posterior.graph
        if self._is_held_gauge(gauge):
            return sigma
        if gauge.kind == "free":
            return self._free_marginals(sigma)
        turn, shift = gauge.functional()
        turn = turn * np.isin(graph.component, graph.component[self.curvature.rotation_anchor])
        p = self.poses.position
        out = np.empty_like(sigma)
        n = graph.n_nodes
        rank = _rank_within(graph.component, graph.position_component)
        for k in range(int(rank.max()) + 1):
            here = (rank == k)[graph.position_component]
            free = np.isin(graph.position_component, graph.position_component[self.curvature.position_anchor])
            A = _gauge_functionals(n, turn, shift * here * free, p, graph.component)  # (6n, 6) summed over components
            out[here] = self._taken_back(sigma, A.reshape(n, 6, 6), held)[here]
        return gauge.clear_held(out)

    def rotation_frame(self, farthest: float) -> Array:
        r"""Weights (n,) of a mean rotation that stands still better than any node, for each component that can be turned.

        All nodes whose rotation relative to the most central node a varies by a standard deviation below ``farthest``
        (radians, in any direction) weigh the same, a itself included, and the others nothing. Central is where
        :math:`\sum_i \mathrm{tr}\,\mathrm{Cov}(\omega_i - \omega_a)`, that is
        :math:`n\,\mathrm{tr}\,\Sigma_{aa} - 2\,\mathrm{tr}\sum_i \Sigma_{ia}` and a constant, is least.
        Where priors hold rotations all weights are zero.
        """
        graph = self.curvature.posterior.graph
        own = self._rotation_covariances()
        size = np.bincount(graph.component)[graph.component]
        trace = np.einsum("naa->n", own)
        spread = size * trace - 2.0 * np.einsum("naa->n", self._rotation_columns(np.ones(graph.n_nodes)))
        weights, at_center = np.zeros(graph.n_nodes), np.zeros(graph.n_nodes)
        parts = [np.flatnonzero(graph.component == graph.component[row]) for row in self.curvature.rotation_anchor]
        centers = []
        for members in parts:
            excess = spread[members] - spread[members].min()
            centers.append(members[np.argmax(excess <= 1e-6 * excess.max())])  # the first: rounding decides no tie
        at_center[centers] = 1.0
        cross = self._rotation_columns(at_center)
        for members, center in zip(parts, centers, strict=True):
            between = cross[members] + np.swapaxes(cross[members], 1, 2)
            widest = np.linalg.eigvalsh(own[members] + own[center] - between)[:, -1]
            near = members[(widest < farthest**2) | (members == center)]
            weights[near] = 1.0 / len(near)
        return weights

    def _rotation_covariances(self) -> Array:
        """Covariances (n, 3, 3) of rotations, in the gauge held by the curvature."""
        held = self.curvature.held[:, :3]
        return np.where(held[:, :, None] | held[:, None, :], 0.0, self._selected[0][:, :3, :3]) / self.beta

    def _rotation_columns(self, weights: Array) -> Array:
        """``Cov(ω_i, Σ_j w_j ω_j)`` (n, 3, 3), in the gauge held by the curvature."""
        held, n = self.curvature.held.reshape(-1, 1), len(weights)
        right = np.zeros((n, 6, 3))
        right[:, :3] = weights[:, None, None] * np.eye(3)
        found = self.factor.solve(np.where(held, 0.0, right.reshape(6 * n, 3)))
        return np.asarray(np.where(held, 0.0, found).reshape(n, 6, 3)[:, :3]) / self.beta

    def edge_covariances(self) -> Array:
        """Covariances (m, 6, 6) of what every edge measures, in j's frame, rotation first: all from one selected inverse.

        Of ``j_from_i``, or with a lever arm of i's rotation and of the arm's end, seen from j.
        """
        graph = self.curvature.posterior.graph
        held = self.curvature.held
        diagonal, off = self._selected
        diagonal = np.where(held[:, :, None] | held[:, None, :], 0.0, diagonal)
        i, j = graph.edge_i, graph.edge_j
        cross = np.empty((graph.n_edges, 6, 6))
        cross[self.curvature.posterior.edge_order] = off
        cross = np.where(held[i][:, :, None] | held[j][:, None, :], 0.0, cross)
        Rt = np.swapaxes(quat.to_matrix(self.poses.wxyz[j]), 1, 2)
        Ji, Jj = np.zeros((graph.n_edges, 6, 6)), np.zeros((graph.n_edges, 6, 6))
        Jj[:, :3, :3], Ji[:, :3, :3] = -Rt, Rt
        apart = self.poses.position[i] - self.poses.position[j]
        if graph.arm is not None:
            end = quat.rotate(self.poses.wxyz[i], graph.arm)
            apart = apart + end
            Ji[:, 3:, :3] = -Rt @ se3.hat(end)
        Jj[:, 3:, :3] = Rt @ se3.hat(apart)
        Jj[:, 3:, 3:], Ji[:, 3:, 3:] = -Rt, Rt
        mixed = Ji @ cross @ np.swapaxes(Jj, 1, 2)
        own = Ji @ diagonal[i] @ np.swapaxes(Ji, 1, 2) + Jj @ diagonal[j] @ np.swapaxes(Jj, 1, 2)
        return (own + mixed + np.swapaxes(mixed, 1, 2)) / self.beta

    def spread(self, rng: np.random.Generator) -> Poses:
        """A draw from the approximation, shrunk where it would turn a node by over a radian: a start for a chain."""
        x = self.factor.solve_Lt(rng.standard_normal(6 * len(self.poses))).reshape(-1, 6) / np.sqrt(self.beta)
        x = np.where(self.curvature.held, 0.0, x)
        x *= min(1.0, 1.0 / max(float(np.linalg.norm(x[:, :3], axis=1).max(initial=0.0)), 1e-300))
        wxyz = quat.normalize(quat.multiply(quat.exp(x[:, :3]), self.poses.wxyz))
        return Poses(self.poses.ids, wxyz, self.poses.position + x[:, 3:])

    def _is_held_gauge(self, gauge: Gauge) -> bool:
        if not gauge.holds_nodes:
            return False
        curvature = self.curvature
        return set(curvature.rotation_anchor.tolist()) <= set(gauge.anchors.tolist()) and set(
            curvature.position_anchor.tolist()
        ) <= set(gauge.position_anchors.tolist())

    def _free_marginals(self, sigma: Array) -> Array:
        """The free network: the motion that fits all displacements of a component's positions best is taken back.

        ``θ_turn = I⁻¹ Σ r_i × δ_i`` with ``r_i`` from the centroid and ``I = Σ |r_i|² − r_i r_iᵀ``, and
        ``θ_shift = mean δ − θ_turn × centroid``.
        """
        graph, held, p = self.curvature.posterior.graph, self.curvature.held, self.poses.position
        n, comp = graph.n_nodes, graph.component
        center = part_means(p, comp)
        lever = se3.hat(p - center[comp])
        inertia = np.zeros((graph.n_components, 3, 3))
        np.add.at(inertia, comp, np.swapaxes(lever, 1, 2) @ lever)
        A = np.zeros((n, 6, 6))  # rows: coordinates of the node; columns: θ
        A[:, 3:, :3] = np.swapaxes(np.linalg.pinv(inertia, hermitian=True)[comp] @ lever, 1, 2)
        A[:, 3:, 3:] = np.eye(3) / np.bincount(comp)[comp][:, None, None]
        A[:, 3:, 3:] += A[:, 3:, :3] @ np.swapaxes(se3.hat(center), 1, 2)[comp]
        return self._taken_back(sigma, A, held)

    def _taken_back(self, sigma: Array, A: Array, held: Mask) -> Array:
        """``Σ_i − G_i C_i − C_iᵀ G_iᵀ + G_i V G_iᵀ`` for a gauge motion ``θ = Σ A_iᵀ x_i`` per component."""
        graph, n = self.curvature.posterior.graph, len(A)
        columns = self.factor.solve(np.where(held.reshape(-1, 1), 0.0, A.reshape(6 * n, 6))) / self.beta
        columns = np.where(held.reshape(-1, 1), 0.0, columns).reshape(n, 6, 6)
        V = np.zeros((graph.n_components, 6, 6))
        np.add.at(V, graph.component, np.swapaxes(A, 1, 2) @ columns)
        G = _motion_effect(self.poses.position)
        GC = G @ np.swapaxes(columns, 1, 2)
        moved = sigma - GC - np.swapaxes(GC, 1, 2) + G @ V[graph.component] @ np.swapaxes(G, 1, 2)
        return np.asarray(0.5 * (moved + np.swapaxes(moved, 1, 2)))

    def joint(self, a: NodeId, b: NodeId) -> Array:
        """Joint covariance (12, 12) of two nodes, in the gauge held by the curvature."""
        ra, rb = self.poses.row(a), self.poses.row(b)
        rows = [ra, rb]
        held = self.curvature.held[rows].reshape(-1)
        sigma = np.block([[self.factor.inverse_blocks([i], [j])[0] for j in rows] for i in rows]) / self.beta
        return np.where(held[:, None] | held[None, :], 0.0, sigma)

    def relative(self, a: NodeId, b: NodeId) -> RelativeSummary:
        """The pose of ``b`` seen from ``a``; independent of the gauge.

        With world perturbations, ``R_aᵀR_b`` turns by ``R_aᵀ(ω_b − ω_a)`` and ``R_aᵀ(p_b − p_a)`` moves by
        ``R_aᵀ(δ_b − δ_a + [p_b − p_a]× ω_a)``.
        """
        ra, rb = self.poses.row(a), self.poses.row(b)
        wxyz, p = self.poses.wxyz, self.poses.position
        mean = se3.a_from_b((wxyz[ra], p[ra]), (wxyz[rb], p[rb]))
        Rt = quat.to_matrix(wxyz[ra]).T
        J = np.zeros((6, 12))
        J[:3, :3], J[:3, 6:9] = -Rt, Rt
        J[3:, :3], J[3:, 3:6], J[3:, 9:] = Rt @ se3.hat(p[rb] - p[ra]), -Rt, Rt
        return RelativeSummary(a, b, mean, J @ self.joint(a, b) @ J.T, "laplace")


def _motion_effect(position: Array) -> Array:
    """``G_i`` (n, 6, 6): what a turn about the origin and a shift of the world do to each node."""
    G = np.tile(np.eye(6), (len(position), 1, 1))
    G[:, 3:, :3] = -se3.hat(position)
    return G


def _gauge_functionals(n: int, turn: Array, shift: Array, position: Array, component: Index) -> Array:
    """Columns (6n, 6) whose products with x are θ = (turn, shift about the origin), summed over components.

    ``θ_rot = Σ turn_i ω_i`` and ``θ_shift = Σ shift_i (δ_i − θ_rot × p_i)``.
    """
    A = np.zeros((n, 6, 6))
    for k in range(3):
        A[:, k, k] = turn
        A[:, 3 + k, 3 + k] = shift
    center = np.stack([np.bincount(component, shift * position[:, k]) for k in range(3)], axis=1)
    # −θ_rot × p̄ = [p̄]× θ_rot, as rows of θ_shift acting on ω_i
    lever = se3.hat(center[component]) * turn[:, None, None]
    A[:, :3, 3:] += np.swapaxes(lever, 1, 2)
    return A.reshape(6 * n, 6)


def _rank_within(component: Index, part: Index) -> Index:
    """Number each position part within its component (parts,)."""
    owner = np.zeros(int(part.max()) + 1, dtype=np.int64)
    owner[part] = component
    rank = np.zeros(len(owner), dtype=np.int64)
    seen: dict[int, int] = {}
    for k, c in enumerate(owner.tolist()):
        rank[k] = seen.get(c, 0)
        seen[c] = rank[k] + 1
    return rank
