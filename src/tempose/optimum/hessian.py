"""The Hessian of U as a sparse block matrix, with the gauge taken out.

U does not change when a whole component is moved, so its Hessian is singular in up to six directions per component.
They are removed by holding coordinates of one node per component: its rotation if turning the component costs
nothing, its position if shifting it costs nothing. The determinant and all gauge-free quantities do not depend on
which node is held; absolute covariances do, and :mod:`tempose.optimum.laplace` moves them to any other gauge.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.geometry import Similarity
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import Factor, Symbolic, analyze


class Curvature:
    """Second derivatives of a posterior's U in the chart ``R_i → Exp(ω_i) R_i``, ``p_i → p_i + δ_i``.

    Six coordinates per node, rotation (world-frame rotation vector, radians) first.
    """

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior
        graph = posterior.graph
        self.rotation_anchor, self.position_anchor = _anchors(posterior)
        held = np.zeros((graph.n_nodes, 6), dtype=bool)
        held[self.rotation_anchor, :3] = True
        held[self.position_anchor, 3:] = True
        self.held: Mask = held

    @cached_property
    def symbolic(self) -> Symbolic:
        """Ordering and fill, computed once for the graph."""
        table = self.posterior.edge_table
        target = np.repeat(np.arange(self.posterior.graph.n_nodes), np.diff(table.start))
        return analyze(self.posterior.graph.n_nodes, table.source, target, block=6)

    @property
    def dimension(self) -> int:
        """Degrees of freedom left when the gauge is held."""
        return int(np.sum(~self.held))

    def blocks(self, wxyz: Array, position: Array, *, exact: bool = True) -> tuple[Array, Array]:
        """Diagonal blocks (n, b, b) and edge blocks (m, b, b) on the graph's axes, gauge not yet held."""
        from tempose.numerics.hessian import hessian

        graph = self.posterior.graph
        b = len(graph.axes)
        diagonal, off = np.empty((len(wxyz), b, b)), np.empty((graph.n_edges, b, b))
        hessian(self.posterior.edge_table, self.posterior.prior_table, wxyz, position, exact, graph.axes, diagonal, off)
        return diagonal, off

    def hold(self, diagonal: Array, off: Array) -> tuple[Array, Array]:
        """Replace the held coordinates by an identity that touches nothing else (in place)."""
        table = self.posterior.edge_table
        target = np.repeat(np.arange(len(diagonal)), np.diff(table.start))
        nodes = np.flatnonzero(self.held.any(axis=1))
        free = ~self.held[nodes]
        diagonal[nodes] *= free[:, :, None] & free[:, None, :]
        k = np.arange(6)
        diagonal[nodes[:, None], k, k] += ~free
        touched = np.zeros(len(diagonal), dtype=bool)
        touched[nodes] = True
        edges = np.flatnonzero(touched[table.source] | touched[target])
        off[edges] *= ~self.held[table.source[edges]][:, :, None] & ~self.held[target[edges]][:, None, :]
        return diagonal, off

    def gauge_motions(self, poses: Poses) -> Array:
        """Directions (6n, k) in which U does not change: turns and shifts of whole components, to first order."""
        graph = self.posterior.graph
        columns = []
        for row in self.rotation_anchor:
            members = graph.component == graph.component[row]
            for axis in np.eye(3):
                x = np.zeros((graph.n_nodes, 6))
                x[members, :3] = axis
                x[members, 3:] = np.cross(axis, poses.position[members])
                columns.append(x.reshape(-1))
        for row in self.position_anchor:
            members = graph.position_component == graph.position_component[row]
            for k in range(3):
                x = np.zeros((graph.n_nodes, 6))
                x[members, 3 + k] = 1.0
                columns.append(x.reshape(-1))
        return np.stack(columns, axis=1) if columns else np.zeros((6 * graph.n_nodes, 0))

    def factor(self, wxyz: Array, position: Array, *, exact: bool = True, damping: float = 0.0) -> Factor:
        """Cholesky factor with the gauge held; ``damping`` adds that share of the Gauss–Newton diagonal."""
        diagonal, off = self.hold(*self.blocks(wxyz, position, exact=exact))
        if damping:
            k = np.arange(6)
            scale = np.abs(diagonal[:, k, k])
            diagonal[:, k, k] += damping * np.maximum(scale, 1e-12 * scale.max())
        return self.symbolic.factor(diagonal, off)


def _anchors(posterior: Posterior) -> tuple[Index, Index]:
    """Rows whose rotation, and rows whose position, must be held for the Hessian to be regular."""
    graph = posterior.graph
    rotation = [
        int(row)
        for row in graph.anchors
        if _costs_nothing(posterior, graph.component == graph.component[row], turn=True)
    ]
    position = []
    preferred = set(graph.anchors.tolist())
    for c in range(int(graph.position_component.max()) + 1 if graph.n_nodes else 0):
        members = np.flatnonzero(graph.position_component == c)
        if _costs_nothing(posterior, graph.position_component == c, turn=False):
            position.append(next((int(k) for k in members if int(k) in preferred), int(members[0])))
    return np.array(rotation, dtype=np.int64), np.array(position, dtype=np.int64)


def _costs_nothing(posterior: Posterior, members: Mask, turn: bool) -> bool:
    """Whether turning (shifting) these nodes together leaves U as it is: always without priors, else tried out."""
    if posterior.priors.is_flat:
        return True
    graph = posterior.graph
    rng = np.random.default_rng(0)
    ids = graph.node_ids
    poses = Poses(ids, quat.random_uniform(rng, len(ids)), rng.standard_normal((len(ids), 3)))
    motion = Similarity(
        quat.exp([0.5, -0.7, 0.3]) if turn else quat.IDENTITY, np.zeros(3) if turn else np.array([1.0, -2.0, 3.0])
    )
    moved = poses.moved(motion)
    mixed = Poses(
        ids,
        np.where(members[:, None], moved.wxyz, poses.wxyz),
        np.where(members[:, None], moved.position, poses.position),
    )
    only_priors = Posterior(_without_edges(graph), posterior.priors)
    before, after = only_priors.reference_potential(poses), only_priors.reference_potential(mixed)
    return abs(after - before) <= 1e-12 * (abs(after) + abs(before))


def _without_edges(graph: PoseGraph) -> PoseGraph:
    return graph.with_edges(np.zeros(graph.n_edges, dtype=bool))
