"""Graphs in which edges agree on a false motion, and names that are no order in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.simulation import Simulated

FALSE = (quat.exp([0.3, 0.0, 1.2]), np.array([1.0, 2.0, 0.0]))  # the motion of the world that lying edges agree on


def lying(made: Simulated, count: int, motion: tuple[np.ndarray, np.ndarray] = FALSE) -> tuple[PoseGraph, np.ndarray]:
    """Some of the edges between the two halves of the nodes measure as if the second half were moved."""
    graph, truth = made.graph, made.truth
    second = np.arange(graph.n_nodes) >= graph.n_nodes // 2
    across = np.flatnonzero(second[graph.edge_i] != second[graph.edge_j])
    wrong = np.isin(np.arange(graph.n_edges), np.random.default_rng(0).permutation(across)[:count])
    wxyz, position = se3.compose(motion, (truth.wxyz, truth.position))
    false = Poses(
        truth.ids, np.where(second[:, None], wxyz, truth.wxyz), np.where(second[:, None], position, truth.position)
    )
    i, j = graph.edge_i, graph.edge_j
    honest, told = (se3.a_from_b((p.wxyz[j], p.position[j]), (p.wxyz[i], p.position[i])) for p in (truth, false))
    noise = quat.multiply(graph.j_from_i_wxyz, quat.conjugate(honest[0]))
    told = quat.multiply(noise, told[0]), told[1] + graph.j_from_i_t - honest[1]
    return replace(
        graph,
        j_from_i_wxyz=np.where(wrong[:, None], told[0], graph.j_from_i_wxyz),
        j_from_i_t=np.where(wrong[:, None], told[1], graph.j_from_i_t),
    ), wrong


def unnamed(graph: PoseGraph) -> PoseGraph:
    """The same with names that are no order in time."""
    return replace(graph, node_ids=tuple("node" + "".join(chr(97 + int(d)) for d in str(k)) for k in graph.node_ids))


def turned_round(graph: PoseGraph, rows: np.ndarray) -> PoseGraph:
    """The same measurements, some of them listed from their other ends."""
    i, j = graph.edge_i.copy(), graph.edge_j.copy()
    i[rows], j[rows] = j[rows], i[rows]
    wxyz, t = graph.j_from_i_wxyz.copy(), graph.j_from_i_t.copy()
    wxyz[rows], t[rows] = se3.inverse((wxyz[rows], t[rows]))
    return replace(graph, edge_i=i, edge_j=j, j_from_i_wxyz=wxyz, j_from_i_t=t)


def listed_again(graph: PoseGraph, rows: np.ndarray) -> PoseGraph:
    """The same with some measurements once more, from their other ends."""
    every = np.concatenate([np.arange(graph.n_edges), rows])
    names = ("edge_i", "edge_j", "j_from_i_wxyz", "j_from_i_t", "concentration", "translation_precision")
    longer = replace(graph, **{name: getattr(graph, name)[every] for name in names})
    return turned_round(longer, np.arange(graph.n_edges, len(every)))
