"""Lie-algebraic averaging of motions."""

from __future__ import annotations

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods.base import (
    Averaging,
    Estimate,
    anchored,
    motions,
    start_on_tree,
    synchronisation_method,
    translation_weights,
    typical_length,
)
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.trees import rotation_weights


@synchronisation_method(connected=True)
def govindu(
    graph: PoseGraph, *, iterations: int = 200, tolerance: float = 1e-11, start: Poses | None = None
) -> Estimate:
    """Average the motions of a graph in the Lie algebra of SE(3).

    Govindu, "Lie-algebraic averaging for globally consistent motion estimation", CVPR 2004. With world_from_node
    poses X, each edge leaves the motion ``ΔX = X_j X_ij X_i⁻¹``. To first order of Baker–Campbell–Hausdorff the twists
    m of the corrections ``X ← exp(m) X`` obey ``m_i − m_j = log ΔX``: a linear least-squares problem, solved and applied
    until nothing moves. Its rotation rows are weighted by the concentrations, its translation rows by the precisions.

    Parameters
    ----------
    iterations, tolerance
        Stop when no rotation moves by more than ``tolerance`` radians and no position by that times the typical
        length of an edge.
    start
        Poses to start from; by default a spanning tree, with the origin in the middle of its positions, since twists
        depend on the origin.
    """
    measured = motions(graph)
    i, j = graph.edge_i, graph.edge_j
    by_rotation = Averaging(graph, rotation_weights(graph))
    by_translation = Averaging(graph, translation_weights(graph))
    first = start_on_tree(graph) if start is None else start
    wxyz, position = first.wxyz, first.position - first.position.mean(axis=0)
    length = typical_length(measured[1])
    status, done = "iteration limit", 0
    while done < iterations:
        done += 1
        predicted = se3.compose((wxyz[j], position[j]), measured)
        twist = se3.log(se3.compose(predicted, se3.inverse((wxyz[i], position[i]))))
        move = np.concatenate([by_rotation.solve(twist[:, :3]), by_translation.solve(twist[:, 3:])], axis=1)
        wxyz, position = se3.compose(se3.exp(move), (wxyz, position))
        wxyz = quat.normalize(wxyz)
        if max(float(np.abs(move[:, :3]).max()), float(np.abs(move[:, 3:]).max()) / length) < tolerance:
            status = "converged"
            break
    return Estimate(anchored(graph, wxyz, position), status, done)
