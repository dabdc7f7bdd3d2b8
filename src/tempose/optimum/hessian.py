"""The Hessian of U as a sparse block matrix, with the gauge taken out.

Without fixed nodes U does not change when a whole component is moved, so its Hessian is singular in up to six directions per
component. They are removed by holding coordinates of one node per component: its rotation if turning the component costs
nothing, its position if shifting it costs nothing. The determinant and all gauge-free quantities do not depend on
which node is held; absolute covariances do, and :mod:`tempose.optimum.laplace` moves them to any other gauge.

A component that is tied to fixed nodes or to the world may still be free in some directions: to turn about the only point where
it was fixed, or about the line through two of them. These are the rigid motions that cost nothing, the null space of a 6×6 matrix;
a spring at one node holds them, as stiff as what else holds that node. It changes nothing that U says anything about.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.geometry import se3
from tempose.model import topology
from tempose.model.gauge import tied_components
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError, Symbolic, analyze
from tempose.optimum.relaxations import known_order, remember_order

_LITTLE, _REGULAR = (
    1e-9,
    1e12,
)  # stiffness that reveals what is loose; variance over stiffness beyond which a factor is rounding
_COSTS_NOTHING = 1e-10  # relative to what motions cost at all


@dataclass(frozen=True, eq=False)
class Undetermined:
    """What the measurements say nothing about, of a part of the graph that is tied to fixed nodes or to the world.

    Attributes
    ----------
    component
        Component of the graph.
    nodes
        Rows of the nodes that move.
    kind
        ``point``: it can be turned about a point; ``line``: about a line; ``shift``: it can be shifted.
    directions
        In how many independent directions.
    """

    component: int
    nodes: Index
    kind: Literal["point", "line", "shift"]
    directions: int


@dataclass(frozen=True, eq=False)
class FreeMotions:
    """Rigid motions of some nodes that cost nothing.

    ``about`` is a point (3,); ``motions`` (6, k) are turns about it and shifts: the first ``turns`` by one radian about axes at
    right angles, and then shifts by one unit of length. ``spring`` is the row of the node that holds them.
    """

    nodes: Index
    about: Array
    motions: Array
    turns: int
    spring: int

    def at(self, position: Array) -> Array:
        """What the motions do to nodes at positions (n, 3): (n, 6, k)."""
        return np.asarray(motion_effect(position - self.about) @ self.motions)


def motion_effect(lever: Array) -> Array:
    """``G_i`` (n, 6, 6): what a turn about a point and a shift of the world do to nodes at ``lever`` (n, 3) from it."""
    G = np.tile(np.eye(6), (len(lever), 1, 1))
    G[:, 3:, :3] = -se3.hat(lever)
    return G


class Curvature:
    """Second derivatives of a posterior's U in the chart ``R_i → Exp(ω_i) R_i``, ``p_i → p_i + δ_i``.

    Six coordinates per node, rotation (world-frame rotation vector, radians) first. Of these the matrices have those that the
    graph is about, ``graph.axes``: b = 6 of them, or 3 in the plane. :meth:`restrict` and :meth:`expand` go to and fro.

    Attributes
    ----------
    held
        Coordinates (n, 6) that do not change: what is not free at all, and what is held in place of the gauge.
    rotation_anchor, position_anchor
        Rows of the nodes whose rotation, and whose position, is held in place of the gauge.
    """

    def __init__(self, posterior: Posterior) -> None:
        self.posterior = posterior
        graph = posterior.graph
        self.rotation_anchor, self.position_anchor = _anchors(graph)
        held = ~graph.free
        held[self.rotation_anchor, :3] = True
        held[self.position_anchor, 3:] = True
        self.held: Mask = held

    def __reduce__(self) -> tuple[type[Curvature], tuple[Posterior]]:
        return Curvature, (self.posterior,)

    # ------------------------------------------------------------------ coordinates

    def restrict(self, x: Array) -> Array:
        """The coordinates (n, b, …) that the graph is about, of six (n, 6, …)."""
        axes = self.posterior.graph.axes
        return x if len(axes) == 6 else np.ascontiguousarray(x[:, axes])

    def expand(self, x: Array) -> Array:
        """Six coordinates (n, 6, …) from those (n, b, …) that the graph is about; the others are zero."""
        axes = self.posterior.graph.axes
        if len(axes) == 6:
            return x
        out = np.zeros((len(x), 6, *x.shape[2:]))
        out[:, axes] = x
        return out

    def expand_blocks(self, blocks: Array) -> Array:
        """The same for rows and columns of blocks (k, b, b)."""
        axes = self.posterior.graph.axes
        if len(axes) == 6:
            return blocks
        out = np.zeros((len(blocks), 6, 6))
        out[:, axes[:, None], axes] = blocks
        return out

    def solve(self, factor: Factor, rhs: Array) -> Array:
        """``H⁻¹ rhs`` (n, 6, …) for a right-hand side in six coordinates; what is held is zero on both sides."""
        held = self.held.reshape(*self.held.shape, *[1] * (rhs.ndim - 2))
        right = self.restrict(np.where(held, 0.0, rhs))
        found = factor.solve(right.reshape(right.shape[0] * right.shape[1], *right.shape[2:])).reshape(right.shape)
        return np.asarray(np.where(held, 0.0, self.expand(found)))

    @property
    def dimension(self) -> int:
        """Degrees of freedom left when the gauge is held."""
        return int(np.sum(~self.held))

    def determined(self, poses: Poses) -> int:
        """Degrees of freedom that the measurements determine: :attr:`dimension` without the motions that cost nothing."""
        loose = sum(int(free.motions.shape[1]) for free in self.free_motions(poses.position, poses.wxyz))
        return self.dimension - loose

    # ------------------------------------------------------------------ matrices

    @cached_property
    def inner(self) -> Index:
        """Edges of the posterior's table, in its order, between nodes that are not fixed: all that the factor knows of."""
        table, fixed = self.posterior.edge_table, self.posterior.graph.is_fixed
        return np.flatnonzero(~(fixed[table.source] | fixed[self._target]))

    @cached_property
    def _target(self) -> Index:
        table = self.posterior.edge_table
        return np.repeat(np.arange(self.posterior.graph.n_nodes), np.diff(table.start))

    @cached_property
    def symbolic(self) -> Symbolic:
        """Ordering and fill, computed once for the graph; edges of fixed nodes, which are held, are left out."""
        graph, source = self.posterior.graph, self.posterior.edge_table.source
        whole = len(self.inner) == graph.n_edges
        order = known_order(graph) if whole else None
        found = analyze(graph.n_nodes, source[self.inner], self._target[self.inner], block=len(graph.axes), order=order)
        if whole:
            remember_order(graph, found.first_order)
        return found

    def blocks(self, wxyz: Array, position: Array, *, exact: bool = True) -> tuple[Array, Array]:
        """Diagonal blocks (n, b, b) and edge blocks (m, b, b) on the graph's axes, gauge not yet held."""
        return _blocks(self.posterior, wxyz, position, exact)

    def hold(self, diagonal: Array, off: Array) -> tuple[Array, Array]:
        """Replace the held coordinates by an identity that touches nothing else (in place)."""
        source, target = self.posterior.edge_table.source, self._target
        held = self.held[:, self.posterior.graph.axes]
        nodes = np.flatnonzero(held.any(axis=1))
        free = ~held[nodes]
        diagonal[nodes] *= free[:, :, None] & free[:, None, :]
        k = np.arange(held.shape[1])
        diagonal[nodes[:, None], k, k] += ~free
        touched = np.zeros(len(diagonal), dtype=bool)
        touched[nodes] = True
        edges = np.flatnonzero(touched[source] | touched[target])
        off[edges] *= ~held[source[edges]][:, :, None] & ~held[target[edges]][:, None, :]
        return diagonal, off

    def factored(self, diagonal: Array, off: Array) -> Factor:
        """Cholesky factor of a matrix of blocks (n, b, b) and (m, b, b) that are held already."""
        return self.symbolic.factor(diagonal, off if len(self.inner) == len(off) else off[self.inner])

    def held_blocks(self, wxyz: Array, position: Array, *, exact: bool = True) -> tuple[Array, Array]:
        """The blocks with the gauge held, and what is not determined by a spring."""
        diagonal, off = self.hold(*self.blocks(wxyz, position, exact=exact))
        axes = self.posterior.graph.axes
        for free in self.free_motions(position, wxyz):
            k = free.spring
            size = np.sqrt(np.maximum(np.diagonal(diagonal[k]), 1e-300))
            basis = np.linalg.qr(size[:, None] * free.at(position[k : k + 1])[0][axes])[0]
            diagonal[k] += size[:, None] * (basis @ basis.T) * size
        return diagonal, off

    def factor(self, wxyz: Array, position: Array, *, exact: bool = True, damping: float = 0.0) -> Factor:
        """Cholesky factor with the gauge held; ``damping`` adds that share of the Gauss–Newton diagonal."""
        diagonal, off = self.held_blocks(wxyz, position, exact=exact)
        if damping:
            k = np.arange(diagonal.shape[1])
            scale = np.abs(diagonal[:, k, k])
            diagonal[:, k, k] += damping * np.maximum(scale, 1e-12 * scale.max())
        return self.factored(diagonal, off)

    # ------------------------------------------------------------------ motions that cost nothing

    def gauge_motions(self, poses: Poses) -> Array:
        """Directions (6n, k) in which U does not change: turns and shifts of whole components, to first order."""
        graph = self.posterior.graph
        columns = []
        for row in self.rotation_anchor:
            members = graph.component == graph.component[row]
            for k in graph.axes[graph.axes < 3]:
                axis = np.eye(3)[k]
                x = np.zeros((graph.n_nodes, 6))
                x[members, :3] = axis
                x[members, 3:] = np.cross(axis, poses.position[members])
                x[graph.is_landmark, :3] = 0.0
                columns.append(x.reshape(-1))
        for row in self.position_anchor:
            members = graph.position_component == graph.position_component[row]
            for k in graph.axes[graph.axes >= 3]:
                x = np.zeros((graph.n_nodes, 6))
                x[members, k] = 1.0
                columns.append(x.reshape(-1))
        for free in self.free_motions(poses.position, poses.wxyz):
            moved = np.zeros((graph.n_nodes, 6, free.motions.shape[1]))
            moved[free.nodes] = free.at(poses.position[free.nodes])
            moved *= graph.free[:, :, None]
            columns += list(moved.reshape(6 * graph.n_nodes, -1).T)
        return np.stack(columns, axis=1) if columns else np.zeros((6 * graph.n_nodes, 0))

    @cached_property
    def _tied_pieces(self) -> tuple[Index, Posterior] | None:
        """Pieces that tied components fall into without their fixed nodes (n,), −1 elsewhere; and what ties them."""
        graph = self.posterior.graph
        fixed = graph.is_fixed
        loose = ~tied_components(graph)[graph.component] | fixed if graph.n_nodes else fixed
        if np.all(loose):
            return None
        inner = ~(fixed[graph.edge_i] | fixed[graph.edge_j])
        piece = topology.components(graph.n_nodes, graph.edge_i[inner], graph.edge_j[inner])
        number = np.unique(piece[~loose], return_inverse=True)[1].reshape(-1)
        out = np.full(graph.n_nodes, -1, dtype=np.int64)
        out[~loose] = number
        ties = fixed[graph.edge_i] != fixed[graph.edge_j]
        return out, Posterior(graph.with_edges(ties))

    def free_motions(self, position: Array, wxyz: Array) -> list[FreeMotions]:
        """Rigid motions of what is tied to fixed nodes or the world that cost nothing all the same."""
        if self._tied_pieces is None:
            return []
        piece, absolute = self._tied_pieces
        graph = self.posterior.graph
        axes, rows = graph.axes, piece >= 0
        count = int(piece.max()) + 1
        total = np.bincount(piece[rows], minlength=count)
        center = (
            np.stack([np.bincount(piece[rows], position[rows, k], count) for k in range(3)], axis=1) / total[:, None]
        )
        G = motion_effect(position[rows] - center[piece[rows]])[:, axes[:, None], axes]
        free = ~self.held[rows][:, axes]
        D = _blocks(absolute, wxyz, position, False)[0][rows] * (free[:, :, None] & free[:, None, :])
        cost = np.zeros((count, len(axes), len(axes)))
        np.add.at(cost, piece[rows], np.swapaxes(G, 1, 2) @ D @ G)
        # shifts that are held already are not to be held again; nor is a landmark alone to be turned
        allowed = np.ones((count, len(axes)), dtype=bool)
        shifted = self.held[:, 3:][:, axes[axes >= 3] - 3].all(axis=1) & rows
        allowed[np.ix_(np.unique(piece[shifted]), np.flatnonzero(axes >= 3))] = False
        poses = np.bincount(piece[rows & ~graph.is_landmark], minlength=count) > 0
        allowed[np.ix_(np.flatnonzero(~poses), np.flatnonzero(axes < 3))] = False
        size = np.sqrt(np.maximum(np.einsum("caa->ca", cost), 0.0))
        unit = np.where(size > 1e-12 * size.max(initial=0.0), size, 1.0)
        scaled = cost / (unit[:, :, None] * unit[:, None, :])
        scaled[:, np.arange(len(axes)), np.arange(len(axes))] += ~allowed
        scaled *= (allowed[:, :, None] & allowed[:, None, :]) | np.eye(len(axes), dtype=bool)
        values, vectors = np.linalg.eigh(scaled)
        found = []
        for c in np.flatnonzero(values[:, 0] < _COSTS_NOTHING):
            motions = np.zeros((6, int(np.sum(values[c] < _COSTS_NOTHING))))
            motions[axes] = vectors[c][:, values[c] < _COSTS_NOTHING] / unit[c][:, None]
            nodes = np.flatnonzero(piece == c)
            spring = nodes[~graph.is_landmark[nodes]] if poses[c] else nodes
            length = float(np.abs(position[nodes] - center[c]).max()) or 1.0
            motions, turns = _turns_and_shifts(motions, length)
            found.append(FreeMotions(nodes, center[c], motions, turns, int(spring[0])))
        return found

    def loose_nodes(self, poses: Poses) -> Index:
        """Rows of nodes that can move although nothing rigid does, such as a pose that has seen one landmark only.

        Empty if the Gauss–Newton matrix is regular. Else a little stiffness is given to every coordinate; what hardly
        anything else holds is then as soft as that.
        """
        diagonal, off = self.held_blocks(poses.wxyz, poses.position, exact=False)
        stiffness = np.einsum("naa->na", diagonal).copy()
        try:
            variance = np.einsum("naa->na", self.factored(diagonal, off).selected_inverse()[0])
            if np.all(variance * stiffness < _REGULAR):
                return np.empty(0, dtype=np.int64)
        except NotPositiveDefiniteError:
            pass
        k = np.arange(diagonal.shape[1])
        diagonal[:, k, k] += np.where(stiffness > 0.0, _LITTLE * stiffness, 1.0)
        try:
            variance = np.einsum("naa->na", self.factored(diagonal, off).selected_inverse()[0])
        except NotPositiveDefiniteError:
            return np.empty(0, dtype=np.int64)
        soft = (variance * stiffness > 1e-3 / _LITTLE) | (stiffness == 0.0)
        return np.flatnonzero(np.any(soft & ~self.held[:, self.posterior.graph.axes], axis=1))

    @cached_property
    def is_tied(self) -> Mask:
        """Which nodes (n,) edges that measure a whole motion tie to a held one: rounding apart, these are determined."""
        graph = self.posterior.graph
        if self.posterior.likelihood is not None:  # an edge that is given up ties nothing
            return np.zeros(graph.n_nodes, dtype=bool)
        whole = graph.freedom == (3 if graph.is_planar else 6)
        part = topology.components(graph.n_nodes, graph.edge_i[whole], graph.edge_j[whole])
        return np.isin(part, part[np.all(self.held[:, graph.axes], axis=1)])

    def undetermined(self, poses: Poses) -> tuple[Undetermined, ...]:
        """What is not determined, of all that is tied to fixed nodes or to the world."""
        graph = self.posterior.graph
        found: list[Undetermined] = []
        tied = tied_components(graph)
        for row in self.position_anchor:
            component = int(graph.component[row])
            if tied[component]:
                nodes = np.flatnonzero(graph.position_component == graph.position_component[row])
                found.append(Undetermined(component, nodes, "shift", graph.dimension))
        for free in self.free_motions(poses.position, poses.wxyz):
            component = int(graph.component[free.nodes[0]])
            turns = free.turns
            if turns:
                kind: Literal["point", "line"] = "point" if turns > 1 or graph.is_planar else "line"
                found.append(Undetermined(component, free.nodes, kind, turns))
            if free.motions.shape[1] > turns:
                found.append(Undetermined(component, free.nodes, "shift", free.motions.shape[1] - turns))
        return tuple(found)


def _turns_and_shifts(motions: Array, length: float) -> tuple[Array, int]:
    """A basis of motions (6, k) whose first columns are turns by a radian, and the others shifts by one; how many turn."""
    motions = motions / np.linalg.norm(motions * np.array([length] * 3 + [1.0] * 3)[:, None], axis=0)
    _, size, rows = np.linalg.svd(motions[:3] * length)
    turns = int(np.sum(size > 1e-6))
    motions = motions @ rows.T
    motions[:, :turns] /= np.linalg.norm(motions[:3, :turns], axis=0)
    motions[:3, turns:] = 0.0
    motions[:, turns:] = np.linalg.qr(motions[:, turns:])[0]
    return motions, turns


def _blocks(posterior: Posterior, wxyz: Array, position: Array, exact: bool) -> tuple[Array, Array]:
    graph = posterior.graph
    if not graph.is_planar:
        return spatial_blocks(posterior, wxyz, position, exact)
    from tempose.numerics.planar import planar_hessian

    diagonal, off = np.empty((len(wxyz), 3, 3)), np.empty((graph.n_edges, 3, 3))
    planar_hessian(posterior.edge_table, wxyz, position, exact, diagonal, off)
    return diagonal, off


def spatial_blocks(posterior: Posterior, wxyz: Array, position: Array, exact: bool) -> tuple[Array, Array]:
    """Blocks of the Hessian as in space, on the graph's axes."""
    from tempose.numerics.hessian import hessian

    graph = posterior.graph
    b = len(graph.axes)
    diagonal, off = np.empty((len(wxyz), b, b)), np.empty((graph.n_edges, b, b))
    hessian(posterior.edge_table, wxyz, position, exact, graph.axes, diagonal, off)
    return diagonal, off


def _anchors(graph: PoseGraph) -> tuple[Index, Index]:
    """Rows whose rotation, and rows whose position, must be held for the Hessian to be regular."""
    tied = tied_components(graph)
    rotation = [int(row) for row in graph.anchors if not tied[graph.component[row]] and not graph.is_landmark[row]]
    position = []
    fixed = graph.is_fixed & tied[graph.component] if graph.n_nodes else graph.is_fixed
    anchored = np.zeros(int(graph.position_component.max()) + 1 if graph.n_nodes else 0, dtype=bool)
    anchored[graph.position_component[fixed]] = True
    rank = np.full(graph.n_nodes, 2)
    rank[~graph.is_landmark] = 1
    rank[graph.anchors] = 0
    order = np.lexsort((np.arange(graph.n_nodes), rank, graph.position_component))
    first = order[np.unique(graph.position_component[order], return_index=True)[1]]
    for c, row in enumerate(first):
        if not anchored[c]:
            position.append(int(row))
    return np.array(rotation, dtype=np.int64), np.array(position, dtype=np.int64)
