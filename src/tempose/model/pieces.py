"""A long list of edges, some at a time: what is computed edge by edge need not be in memory for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

AT_ONCE = 50_000
"""Edges of a piece: 14 MB for every 6×6 matrix of each."""
_PER_EDGE = (
    "edge_i", "edge_j", "j_from_i_wxyz", "j_from_i_t", "concentration", "translation_precision", "inlier_prior", "coupling",
    "arm",
)  # fmt: skip


def pieces(n_edges: int) -> Iterator[slice]:
    """All edges in pieces of :data:`AT_ONCE`; one piece, if empty, of a graph without edges."""
    for begin in range(0, max(n_edges, 1), AT_ONCE):
        yield slice(begin, min(begin + AT_ONCE, n_edges))


def alone(graph: PoseGraph, poses: Poses, edges: slice) -> tuple[PoseGraph, Poses]:
    """Some edges as a graph of the nodes that they join, none of them fixed but the world; and the poses of these nodes.

    What an edge measures and how well, its residual, and everything else that depends on its own two nodes is the same there.
    """
    if edges.start == 0 and edges.stop == graph.n_edges:
        return graph, poses
    values = {name: getattr(graph, name) for name in _PER_EDGE}
    some: dict[str, Any] = {name: None if value is None else value[edges] for name, value in values.items()}
    rows = np.unique(np.concatenate([some["edge_i"], some["edge_j"]]))
    ids = tuple(graph.node_ids[k] for k in rows.tolist())
    points = set(graph.landmarks)
    some |= {name: np.searchsorted(rows, some[name]) for name in ("edge_i", "edge_j")}
    found = replace(
        graph, node_ids=ids, initial=None, fixed=(), fixed_at=None, notices=(),
        landmarks=tuple(name for name in ids if name in points), **some,
    )  # fmt: skip
    return found, Poses(ids, poses.wxyz[rows], poses.position[rows])
