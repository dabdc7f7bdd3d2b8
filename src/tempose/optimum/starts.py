"""Where to start: random poses, identity, spanning trees, relaxations, or the poses that came with the graph."""

from __future__ import annotations

import numpy as np

from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.merged import placed
from tempose.optimum.options import STARTS
from tempose.optimum.relaxations import chordal_rotations, spectral_rotations, with_positions
from tempose.optimum.trees import best_tree_poses, most_certain_tree, tree_poses


def start_poses(graph: PoseGraph, kind: str, rng: np.random.Generator) -> Poses:
    """Poses to start from.

    Parameters
    ----------
    kind
        One of :data:`tempose.optimum.options.STARTS`.
    rng
        Used by ``random`` only.
    """
    if kind == "tree":
        return tree_poses(graph, most_certain_tree(graph))
    if kind == "best-tree":
        return best_tree_poses(graph)
    if kind == "chordal":
        return with_positions(graph, chordal_rotations(graph))
    if kind == "spectral":
        return with_positions(graph, spectral_rotations(graph))
    if kind == "random":
        return random_poses(graph, rng)
    if kind == "identity":
        return placed(graph, Poses.identity(graph.node_ids))
    if kind == "given":
        if graph.initial is None:
            raise NotApplicable("the graph has no poses of its own to start from; use another start, for instance tree")
        return placed(graph, graph.initial)
    raise OptionError(f"unknown start {kind!r}: choose one of {', '.join(STARTS)}")


def random_poses(graph: PoseGraph, rng: np.random.Generator) -> Poses:
    """Uniform rotations; normal positions whose spread is that of the measured translations.

    In the plane rotations are uniform on the circle; fixed nodes are where they are held.
    """
    t = graph.j_from_i_t[graph.has_translation]
    scale = float(np.sqrt(np.mean(np.sum(t * t, axis=1)) / graph.dimension)) if len(t) else 1.0
    if graph.is_planar:
        half = rng.uniform(-0.5 * np.pi, 0.5 * np.pi, graph.n_nodes)
        wxyz = np.stack([np.cos(half), 0.0 * half, 0.0 * half, np.sin(half)], axis=1)
    else:
        wxyz = quat.random_uniform(rng, graph.n_nodes)
    position = scale * rng.standard_normal((graph.n_nodes, 3))
    position[:, graph.dimension :] = 0.0
    at = graph.fixed_at
    if at is not None and len(at):
        rows = [graph.index[name] for name in at.ids]
        wxyz[rows], position[rows] = at.wxyz, at.position
    return Poses(graph.node_ids, wxyz, position)
