"""Where to start: random poses, identity, a spanning tree, or the poses that came with the graph."""

from __future__ import annotations

import numpy as np

from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.graph import PoseGraph, SpanningTree
from tempose.poses import Poses

STARTS = {
    "tree": "measurements chained along the most certain spanning tree",
    "random": "uniform rotations, positions normal at the scale of the graph",
    "identity": "all nodes at the origin, unrotated",
    "given": "the poses in the graph file",
}


def start_poses(graph: PoseGraph, kind: str, rng: np.random.Generator) -> Poses:
    """Poses to start from.

    Parameters
    ----------
    kind
        One of :data:`STARTS`.
    rng
        Used by ``random`` only.
    """
    if kind == "tree":
        return tree_poses(graph, graph.spanning_tree())
    if kind == "random":
        return random_poses(graph, rng)
    if kind == "identity":
        return Poses.identity(graph.node_ids)
    if kind == "given":
        if graph.initial is None:
            raise OptionError("the graph has no poses of its own to start from; use another start, for instance tree")
        return graph.initial
    raise OptionError(f"unknown start {kind!r}: choose one of {', '.join(STARTS)}")


def tree_poses(graph: PoseGraph, tree: SpanningTree) -> Poses:
    """Chain the measured motions along a tree; roots are at the origin, edges without translation add none."""
    wxyz = np.tile(quat.IDENTITY, (graph.n_nodes, 1))
    position = np.zeros((graph.n_nodes, 3))
    depth = np.zeros(graph.n_nodes, dtype=np.int64)
    for node in tree.order:
        if tree.parent[node] >= 0:
            depth[node] = depth[tree.parent[node]] + 1
    order = tree.order[np.argsort(depth[tree.order], kind="stable")]
    for level in np.split(order, np.cumsum(np.bincount(depth[order]))[:-1]) if len(order) else []:
        child = level[tree.parent[level] >= 0]
        if len(child):
            parent = tree.parent[child]
            parent_from_child = graph.measured(child, parent, tree.edge[child])
            wxyz[child], position[child] = se3.compose((wxyz[parent], position[parent]), parent_from_child)
    return Poses(graph.node_ids, quat.normalize(wxyz), position)


def random_poses(graph: PoseGraph, rng: np.random.Generator) -> Poses:
    """Uniform rotations; normal positions whose spread is that of the measured translations."""
    t = graph.j_from_i_t[graph.has_translation]
    scale = float(np.sqrt(np.mean(np.sum(t * t, axis=1)) / 3.0)) if len(t) else 1.0
    wxyz = quat.random_uniform(rng, graph.n_nodes)
    return Poses(graph.node_ids, wxyz, scale * rng.standard_normal((graph.n_nodes, 3)))
