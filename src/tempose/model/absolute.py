"""What is known about single nodes: positions, directions, and measurements that contradict where a node is held.

All are edges to the world; see :class:`tempose.model.graph.PoseGraph`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.precision import joined
from tempose.model.residuals import residuals

CONTRADICTS = 10.0
"""From how many σ on a measurement of a node contradicts where the node is held, and is no noise."""


def turn_between(source: Array, target: Array) -> Array:
    """The smallest rotations (m, 4) that take unit vectors (m, 3) to others; half turns about any axis across."""
    cross = np.cross(source, target)
    scalar = 1.0 + np.sum(source * target, axis=1)
    opposite = scalar < 1e-12
    across = np.cross(source, np.eye(3)[np.argmin(np.abs(source), axis=1)])
    wxyz = np.column_stack([np.where(opposite, 0.0, scalar), np.where(opposite[:, None], across, cross)])
    return quat.normalize(wxyz)


def direction(in_node: Array, in_world: Array, precision: Array) -> tuple[Array, Array]:
    """Quaternions (m, 4) and concentrations (m, 3, 3) of edges to the world that measure a direction.

    A vector that is ``in_world`` (m, 3) was seen ``in_node`` (m, 3); both are taken at unit length. With n the former and
    ω = 1/σ² the precision (m,) of the angle between them, ``Λ = 2ω (I − nnᵀ)`` makes ``U = 2ω sin²(tilt/2)`` exactly, for
    every tilt and whatever the turn about n.
    """
    n = in_world / np.linalg.norm(in_world, axis=1, keepdims=True)
    seen = in_node / np.linalg.norm(in_node, axis=1, keepdims=True)
    across = np.eye(3) - n[:, :, None] * n[:, None, :]
    return turn_between(seen, n), 2.0 * np.asarray(precision)[:, None, None] * across


def contradictions(graph: PoseGraph) -> tuple[Index, Array]:
    """Edges (k,) that say a fixed node is elsewhere than it is held, and by how many σ (k,)."""
    edges = np.flatnonzero(graph.is_absolute & graph.is_fixed[graph.edge_i] & graph.is_fixed[graph.edge_j])
    if not len(edges) or graph.fixed_at is None:
        return edges, np.empty(0)
    held = Poses.identity(graph.node_ids)
    wxyz, position = held.wxyz.copy(), held.position.copy()
    rows = [graph.index[name] for name in graph.fixed_at.ids]
    wxyz[rows], position[rows] = graph.fixed_at.wxyz, graph.fixed_at.position
    r = residuals(graph, Poses(graph.node_ids, wxyz, position))
    nu, left = r.nu[edges], np.nan_to_num(r.unexplained[edges])
    energy = np.einsum("ma,mab,mb->m", nu, graph.concentration_matrices[edges], nu)
    energy += 0.5 * np.einsum("ma,mab,mb->m", left, graph.translation_precision_matrices[edges], left)
    sigmas = np.sqrt(2.0 * energy)
    bad = sigmas > CONTRADICTS
    return edges[bad], sigmas[bad]


def with_positions(
    graph: PoseGraph, nodes: Index, position: Array, precision: Array, arm: Array, inlier_prior: Array
) -> PoseGraph:
    """The graph with measured positions of nodes in the world.

    Parameters
    ----------
    graph
        The graph; it gets a world if it has none.
    nodes
        Their rows (k,).
    position
        (k, 3), in the coordinates of the graph.
    precision
        (k, 3, 3), in the world's axes.
    arm
        The points of the nodes that were measured, in their frames (k, 3).
    inlier_prior
        Prior probability that each is right (k,), NaN for none.
    """
    m, k = graph.n_edges, len(nodes)
    world = graph.n_nodes if graph.world is None else graph.world
    noise = joined(graph.translation_precision, precision, graph.dimension)
    still = np.zeros((k, *graph.concentration.shape[1:]))
    trusted = np.full(m, np.nan) if graph.inlier_prior is None else graph.inlier_prior
    return replace(
        graph,
        node_ids=graph.node_ids if graph.world is not None else (*graph.node_ids, WORLD),
        edge_i=np.append(graph.edge_i, nodes),
        edge_j=np.append(graph.edge_j, np.full(k, world)),
        j_from_i_wxyz=np.vstack([graph.j_from_i_wxyz, np.tile(quat.IDENTITY, (k, 1))]),
        j_from_i_t=np.vstack([graph.j_from_i_t, position]),
        concentration=np.concatenate([graph.concentration, still]),
        translation_precision=noise,
        inlier_prior=np.append(trusted, inlier_prior),
        coupling=None if graph.coupling is None else np.concatenate([graph.coupling, np.zeros((k, 3, 3))]),
        arm=np.vstack([np.zeros((m, 3)) if graph.arm is None else graph.arm, arm]),
    )
