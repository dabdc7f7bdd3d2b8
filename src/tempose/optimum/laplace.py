"""Gaussian uncertainty at the optimum: marginal, joint and relative covariances from the exact Hessian.

``Σ = H⁻¹/β`` with the gauge held at one node per component comes from the selected inverse of the sparse factor, all
nodes at once. Another gauge is a linear map of the same coordinates: with ``θ`` the motion it takes back and ``G_i`` the
effect of a motion on node i, ``x_i → x_i − G_i θ``, hence

    Σ_i → Σ_i − G_i C_i − C_iᵀG_iᵀ + G_i V G_iᵀ,   C_i = Cov(θ, x_i),  V = Cov(θ).

Turns are about the middle of each component, so that coordinates of any size cost no digits. What is not determined at all
(:meth:`Curvature.free_motions`) is as uncertain as it can be: turns by any angle, shifts by :data:`FAR` times the size of what
moves.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tempose._typing import Array, Index, NodeId
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.relative import RelativeSummary
from tempose.numerics.sparse import Factor
from tempose.optimum.hessian import Curvature, FreeMotions, motion_effect

_LARGE = 1 << 25  # numbers of a factor, a quarter of a gigabyte
FAR = 1e3
"""Standard deviation of a shift that nothing determines, in units of the size of what is shifted."""


class Laplace:
    """The Gaussian approximation of the tempered posterior around an optimum.

    Coordinates are those of :mod:`tempose.model.gauge`: world-frame rotation vector, then position, six per node.
    """

    def __init__(
        self,
        curvature: Curvature,
        poses: Poses,
        beta: float = 1.0,
        factor: Factor | None = None,
        *,
        exact: bool = True,
    ) -> None:
        self.curvature = curvature
        self.poses = poses
        self.beta = beta
        self.exact = exact
        self._factor: Factor | None = factor or curvature.factor(poses.wxyz, poses.position, exact=exact)

    def __getstate__(self) -> dict[str, object]:
        """What the factor is made from again, not the factor."""
        kept = ("curvature", "poses", "beta", "exact")
        return {**{name: getattr(self, name) for name in kept}, "_factor": None}

    @property
    def factor(self) -> Factor:
        """Of the Hessian, or of Gauss–Newton's matrix; made again if it was given up."""
        if self._factor is None:
            self._factor = self.curvature.factor(self.poses.wxyz, self.poses.position, exact=self.exact)
        return self._factor

    def give_up_factor(self) -> None:
        """Free the memory of a large factor, once the blocks of its inverse are known; what asks for it makes it again."""
        if self._factor is not None and self._factor.symbolic.nonzeros > _LARGE:
            self._selected  # noqa: B018
            self._factor = None

    @cached_property
    def _selected(self) -> tuple[Array, Array]:
        """Blocks of H⁻¹ of the nodes (n, 6, 6) and of the edges (m, 6, 6), in the table's order; what is held is zero."""
        curvature = self.curvature
        table, held = curvature.posterior.edge_table, curvature.held
        diagonal, inner = self.factor.selected_inverse()
        diagonal = curvature.expand_blocks(diagonal)
        some = np.flatnonzero(held.any(axis=1))
        diagonal[some] *= ~(held[some][:, :, None] | held[some][:, None, :])
        off = curvature.expand_blocks(inner)
        if len(curvature.inner) < curvature.posterior.graph.n_edges:
            off, inner = np.zeros((curvature.posterior.graph.n_edges, 6, 6)), off
            off[curvature.inner] = inner
        target = np.repeat(np.arange(len(held)), np.diff(table.start))
        touched = np.zeros(len(held), dtype=bool)
        touched[np.flatnonzero(held[:, curvature.posterior.graph.axes].any(axis=1))] = True
        rows = np.flatnonzero(touched[table.source] | touched[target])
        off[rows] *= ~(held[table.source[rows]][:, :, None] | held[target[rows]][:, None, :])
        return diagonal, off

    @cached_property
    def _free_motions(self) -> list[FreeMotions]:
        return self.curvature.free_motions(self.poses.position, self.poses.wxyz)

    def _free_effect(self, free: FreeMotions) -> Array:
        """What motions that cost nothing do to the coordinates of all nodes (n, 6, k), each by its standard deviation."""
        graph, p = self.curvature.posterior.graph, self.poses.position
        size = float(np.linalg.norm(p[free.nodes] - free.about, axis=1).max()) or 1.0
        sigma = np.full(free.motions.shape[1], FAR * size)
        sigma[: free.turns] = np.pi / np.sqrt(3.0)  # of an angle that may be anything
        moved = np.zeros((graph.n_nodes, 6, len(sigma)))
        moved[free.nodes] = free.at(p[free.nodes]) * sigma
        return moved * graph.free[:, :, None]

    def marginals(self, gauge: Gauge) -> Array:
        """Covariances (n, 6, 6) of all nodes in a gauge; zero for what a node does not have."""
        sigma = self._selected[0] / self.beta
        graph = self.curvature.posterior.graph
        n, p = graph.n_nodes, self.poses.position
        lever = p - gauge.middle(p)[graph.component] if n else p
        if gauge.kind == "free":
            parts = [(np.ones(n, dtype=bool), self._free_functionals(lever, gauge))]
        else:
            turn, shift = gauge.functional()
            rank = _rank_within(graph.component, graph.position_component)
            parts = []
            for k in range(int(rank.max(initial=-1)) + 1):
                here = (rank == k)[graph.position_component]
                parts.append((here, _gauge_functionals(n, turn, shift * here, lever, graph.component)))
        out = np.empty_like(sigma)
        for here, A in parts:
            out[here] = self._taken_back(sigma, A, lever)[here]
        exists = np.zeros((n, 6), dtype=bool)
        exists[:, graph.axes] = True
        exists[graph.is_landmark, :3] = False
        out *= exists[:, :, None] & exists[:, None, :]
        return gauge.clear_held(out)

    def rotation_frame(self, farthest: float) -> Array:
        r"""Weights (n,) of a mean rotation that stands still better than any node, for each component that can be turned.

        All nodes whose rotation relative to the most central node a varies by a standard deviation below ``farthest``
        (radians, in any direction) weigh the same, a itself included, and the others nothing. Central is where
        :math:`\sum_i \mathrm{tr}\,\mathrm{Cov}(\omega_i - \omega_a)`, that is
        :math:`n\,\mathrm{tr}\,\Sigma_{aa} - 2\,\mathrm{tr}\sum_i \Sigma_{ia}` and a constant, is least.
        Where the world or fixed nodes hold the rotations all weights are zero.
        """
        graph = self.curvature.posterior.graph
        own = self._selected[0][:, :3, :3] / self.beta
        turns = ~graph.is_landmark
        size = np.bincount(graph.component, turns)[graph.component]
        trace = np.einsum("naa->n", own)
        spread = size * trace - 2.0 * np.einsum("naa->n", self._rotation_columns(np.ones(graph.n_nodes)))
        weights, at_center = np.zeros(graph.n_nodes), np.zeros(graph.n_nodes)
        parts = [
            np.flatnonzero(turns & (graph.component == graph.component[row])) for row in self.curvature.rotation_anchor
        ]
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

    def _rotation_columns(self, weights: Array) -> Array:
        """``Cov(ω_i, Σ_j w_j ω_j)`` (n, 3, 3), in the gauge held by the curvature."""
        right = np.zeros((len(weights), 6, 3))
        right[:, :3] = weights[:, None, None] * np.eye(3)
        return self.curvature.solve(self.factor, right)[:, :3] / self.beta

    def edge_covariances(self, edges: slice = slice(None)) -> Array:
        """Covariances (m, 6, 6) of what every edge measures, in j's frame, rotation first: all from one selected inverse.

        Of ``j_from_i``, or with a lever arm of i's rotation and of the arm's end, seen from j.

        Parameters
        ----------
        edges
            Some of them; all by default.
        """
        graph = self.curvature.posterior.graph
        diagonal, off = self._selected
        i, j = graph.edge_i[edges], graph.edge_j[edges]
        cross = off[self._places[edges]]
        Ji, Jj = edge_jacobians(graph, self.poses, edges)
        mixed = Ji @ cross @ np.swapaxes(Jj, 1, 2)
        own = Ji @ diagonal[i] @ np.swapaxes(Ji, 1, 2) + Jj @ diagonal[j] @ np.swapaxes(Jj, 1, 2)
        return (own + mixed + np.swapaxes(mixed, 1, 2)) / self.beta

    @cached_property
    def _places(self) -> Index:
        """Where each edge (m,) is among the blocks of the selected inverse."""
        order = self.curvature.posterior.edge_order
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return places

    def spread(self, rng: np.random.Generator) -> Poses:
        """A draw from the approximation, shrunk where it would turn a node by over a radian: a start for a chain."""
        b = self.factor.symbolic.block
        x = self.factor.solve_Lt(rng.standard_normal(b * len(self.poses))).reshape(-1, b) / np.sqrt(self.beta)
        x = np.where(self.curvature.held, 0.0, self.curvature.expand(x))
        x *= min(1.0, 1.0 / max(float(np.linalg.norm(x[:, :3], axis=1).max(initial=0.0)), 1e-300))
        wxyz = quat.normalize(quat.multiply(quat.exp(x[:, :3]), self.poses.wxyz))
        return Poses(self.poses.ids, wxyz, self.poses.position + x[:, 3:])

    def _free_functionals(self, lever: Array, gauge: Gauge) -> Array:
        """Columns (n, 6, 6) of the free network: the motion that fits all displacements of a component's positions best.

        ``θ_turn = I⁻¹ Σ r_i × δ_i`` with ``r_i`` from the mean position and ``I = Σ |r_i|² − r_i r_iᵀ``, and ``θ_shift = mean δ −
        θ_turn × mean lever``.
        """
        graph = self.curvature.posterior.graph
        comp, n = graph.component, graph.n_nodes
        share = gauge.counted_positions / np.maximum(np.bincount(comp, gauge.counted_positions), 1.0)[comp]
        mean = np.stack([np.bincount(comp, share * lever[:, k]) for k in range(3)], axis=1)
        arm = se3.hat((lever - mean[comp]) * gauge.counted_positions[:, None])
        inertia = np.zeros((graph.n_components, 3, 3))
        np.add.at(inertia, comp, np.swapaxes(arm, 1, 2) @ arm)
        A = np.zeros((n, 6, 6))  # rows: coordinates of the node; columns: θ
        A[:, 3:, :3] = np.swapaxes(np.linalg.pinv(inertia, hermitian=True)[comp] @ arm, 1, 2)
        A[:, 3:, 3:] = np.eye(3) * share[:, None, None]
        A[:, 3:, 3:] += A[:, 3:, :3] @ np.swapaxes(se3.hat(mean), 1, 2)[comp]
        return A

    def _taken_back(self, sigma: Array, A: Array, lever: Array) -> Array:
        """``Σ_i − G_i C_i − C_iᵀ G_iᵀ + G_i V G_iᵀ`` for gauge motions ``θ = Σ A_iᵀ x_i``, turns about the components' middles."""
        graph = self.curvature.posterior.graph
        G = motion_effect(lever)
        out = sigma
        if np.any(A[~self.curvature.held]):
            columns = self.curvature.solve(self.factor, A) / self.beta
            V = np.zeros((graph.n_components, 6, 6))
            np.add.at(V, graph.component, np.swapaxes(A, 1, 2) @ columns)
            GC = G @ np.swapaxes(columns, 1, 2)
            moved = sigma - GC - np.swapaxes(GC, 1, 2) + G @ V[graph.component] @ np.swapaxes(G, 1, 2)
            out = 0.5 * (moved + np.swapaxes(moved, 1, 2))
        for free in self._free_motions:
            effect = self._free_effect(free)
            back = np.zeros((graph.n_components, 6, effect.shape[2]))
            np.add.at(back, graph.component, np.swapaxes(A, 1, 2) @ effect)
            left = effect - G @ back[graph.component]
            left[np.abs(left) < 1e-9 * np.abs(effect).max()] = 0.0  # what the gauge takes back it takes back altogether
            out = out + left @ np.swapaxes(left, 1, 2)
        return np.asarray(out)

    def joint(self, a: NodeId, b: NodeId) -> Array:
        """Joint covariance (12, 12) of two nodes, in the gauge held by the curvature."""
        rows = [self.poses.row(a), self.poses.row(b)]
        curvature = self.curvature
        held = curvature.held[rows].reshape(-1)
        blocks = [[curvature.expand_blocks(self.factor.inverse_blocks([i], [j]))[0] for j in rows] for i in rows]
        sigma = np.where(held[:, None] | held[None, :], 0.0, np.block(blocks) / self.beta)
        for free in self._free_motions:
            if np.isin(rows, free.nodes).sum() == 1:  # else it moves both or none
                effect = self._free_effect(free)[rows].reshape(12, -1)
                sigma = sigma + effect @ effect.T
        return np.asarray(sigma)

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


def _gauge_functionals(n: int, turn: Array, shift: Array, lever: Array, component: Index) -> Array:
    """Columns (n, 6, 6) whose products with x are θ = (turn, shift) about the middle of each component.

    ``θ_rot = Σ turn_i ω_i`` and ``θ_shift = Σ shift_i (δ_i − θ_rot × r_i)``, r_i from that middle.
    """
    A = np.zeros((n, 6, 6))
    for k in range(3):
        A[:, k, k] = turn
        A[:, 3 + k, 3 + k] = shift
    center = np.stack([np.bincount(component, shift * lever[:, k]) for k in range(3)], axis=1)
    # −θ_rot × r̄ = [r̄]× θ_rot, as rows of θ_shift acting on ω_i
    swing = se3.hat(center[component]) * turn[:, None, None]
    A[:, :3, 3:] += np.swapaxes(swing, 1, 2)
    return A


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


def edge_jacobians(graph: PoseGraph, poses: Poses, edges: slice = slice(None)) -> tuple[Array, Array]:
    """Derivatives (m, 6, 6), (m, 6, 6) of what edges measure, in j's frame, by the coordinates of node i and of node j."""
    i, j = graph.edge_i[edges], graph.edge_j[edges]
    Rt = np.swapaxes(quat.to_matrix(poses.wxyz[j]), 1, 2)
    Ji, Jj = np.zeros((len(i), 6, 6)), np.zeros((len(i), 6, 6))
    Jj[:, :3, :3], Ji[:, :3, :3] = -Rt, Rt
    apart = poses.position[i] - poses.position[j]
    if graph.arm is not None:
        end = quat.rotate(poses.wxyz[i], graph.arm[edges])
        apart = apart + end
        Ji[:, 3:, :3] = -Rt @ se3.hat(end)
    Jj[:, 3:, :3] = Rt @ se3.hat(apart)
    Jj[:, 3:, 3:], Ji[:, 3:, 3:] = -Rt, Rt
    return Ji, Jj
