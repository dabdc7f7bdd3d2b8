"""The same problem with the fixed nodes of every component merged into one.

Fixed nodes stand still relative to each other. With ``a_from_k`` the known pose of a fixed node k seen from another, a, the
node k is ``X_k = X_a · a_from_k`` wherever a is, so that an edge to or from k is one to or from a whose measurement is composed
with ``a_from_k``. What is left depends on relative poses only, like any graph: relaxations, the quadratic form and its
certificate need to know nothing about fixed nodes, nor about the world, which is one of them.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

_known: weakref.WeakKeyDictionary[PoseGraph, Merged] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Merged:
    """A graph and its equivalent in which every component has at most one fixed node.

    Attributes
    ----------
    graph
        The equivalent; the given graph itself, if that is so already.
    rows, edges
        Rows of its nodes and of its edges among those of the given graph.
    """

    given: weakref.ReferenceType[PoseGraph]
    graph: PoseGraph
    rows: Index
    edges: Index

    def reduce(self, poses: Poses) -> Poses:
        """Poses of the given graph's nodes as poses of the equivalent."""
        return poses if len(self.rows) == len(poses) else poses.select(self.graph.node_ids)

    def expand(self, poses: Poses) -> Poses:
        """The inverse of :meth:`reduce`: fixed nodes are where they are held, and their components move with them."""
        given = self.given()
        if given is None:
            raise RuntimeError("the graph is gone")
        wxyz, position = np.tile(quat.IDENTITY, (given.n_nodes, 1)), np.zeros((given.n_nodes, 3))
        wxyz[self.rows], position[self.rows] = poses.wxyz, poses.position
        return placed(given, Poses(given.node_ids, wxyz, position))


def merged(graph: PoseGraph) -> Merged:
    """The equivalent of a graph; kept as long as the graph lives."""
    found = _known.get(graph)
    if found is None:
        found = _merge(graph)
        if found.graph is not graph:  # a graph that is its own equivalent would keep itself alive
            _known[graph] = found
    return found


def fixed_poses(graph: PoseGraph) -> tuple[Array, Array]:
    """Where the fixed nodes are held, as rotations (n, 4) and positions (n, 3); the identity for the others."""
    wxyz, position = np.tile(quat.IDENTITY, (graph.n_nodes, 1)), np.zeros((graph.n_nodes, 3))
    at = graph.fixed_at
    if at is not None and len(at):
        rows = [graph.index[name] for name in at.ids]
        wxyz[rows], position[rows] = at.wxyz, at.position
    return wxyz, position


def placed(graph: PoseGraph, poses: Poses) -> Poses:
    """The same poses with the fixed nodes where they are held.

    A component whose anchor is fixed elsewhere is moved as a whole first.
    """
    fixed = graph.is_fixed
    if not fixed.any():
        return poses
    at_wxyz, at = fixed_poses(graph)
    away = np.any(quat.canonical(poses.wxyz) != quat.canonical(at_wxyz), axis=1) | np.any(poses.position != at, axis=1)
    if not np.any(away & fixed):
        return poses
    wxyz, position = poses.wxyz.copy(), poses.position.copy()
    for c, a in enumerate(graph.anchors):
        if fixed[a] and away[a]:
            here = graph.component == c
            turn = quat.normalize(quat.multiply(at_wxyz[a], quat.conjugate(wxyz[a])))
            position[here] = at[a] + quat.rotate(turn, position[here] - position[a])
            wxyz[here] = quat.multiply(turn, wxyz[here])
    wxyz[fixed], position[fixed] = at_wxyz[fixed], at[fixed]
    return Poses(poses.ids, wxyz, position)


def between_fixed(graph: PoseGraph) -> Mask:
    """Which edges (m,) join two fixed nodes: their energy is a constant."""
    return np.asarray(graph.is_fixed[graph.edge_i] & graph.is_fixed[graph.edge_j])


def _merge(graph: PoseGraph) -> Merged:
    fixed, n = graph.is_fixed, graph.n_nodes
    gone = fixed.copy()
    if fixed.any():
        anchor = graph.anchors[graph.component]
        gone &= anchor != np.arange(n)
    if not gone.any():
        return Merged(weakref.ref(graph), graph, np.arange(n), np.arange(graph.n_edges))
    wxyz, position = fixed_poses(graph)
    a_from_k = se3.a_from_b((wxyz[anchor], position[anchor]), (wxyz, position))
    q, shift = (
        np.where(gone[:, None], x, same) for x, same in zip(a_from_k, (quat.IDENTITY, np.zeros(3)), strict=True)
    )
    row = np.where(gone, anchor, np.arange(n))
    new_row = np.cumsum(~gone) - 1
    keep = ~between_fixed(graph)
    i, j = graph.edge_i[keep], graph.edge_j[keep]
    part = graph.with_edges(keep)
    arm = np.zeros((len(i), 3)) if part.arm is None else part.arm
    A = quat.to_matrix(q[j])
    turned = bool(gone[j].any())
    rotations = quat.multiply(q[j], quat.multiply(part.j_from_i_wxyz, quat.conjugate(q[i])))
    rows = np.flatnonzero(~gone)
    landmarks = graph.is_landmark & ~fixed
    equivalent = PoseGraph(
        tuple(graph.node_ids[k] for k in rows),
        new_row[row[i]],
        new_row[row[j]],
        np.where((gone[i] | gone[j])[:, None], quat.normalize(rotations), part.j_from_i_wxyz),
        np.where(gone[j][:, None], shift[j] + quat.rotate(q[j], part.j_from_i_t), part.j_from_i_t),
        _turned(A, part.concentration, turned),
        _turned(A, part.translation_precision, turned),
        dimension=graph.dimension,
        coupling=None if part.coupling is None else A @ part.coupling @ np.swapaxes(A, 1, 2),
        arm=shift[i] + quat.rotate(q[i], arm),
        landmarks=tuple(graph.node_ids[k] for k in np.flatnonzero(landmarks)),
    )
    return Merged(weakref.ref(graph), equivalent, rows, np.flatnonzero(keep))


def _turned(A: Array, precision: Array, turned: bool) -> Array:
    """Precisions (m,), (m, 3) or (m, 3, 3) in axes that are turned by A (m, 3, 3)."""
    if precision.ndim == 1 or not turned:
        return precision
    full = precision if precision.ndim == 3 else precision[:, :, None] * np.eye(3)
    out = A @ full @ np.swapaxes(A, 1, 2)
    return np.asarray(0.5 * (out + np.swapaxes(out, 1, 2)))
