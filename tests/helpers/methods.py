"""Graphs without noise, and how far an estimate is from the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose.analysis.accuracy import pose_errors
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods import Estimate
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.simulation import Simulated, simulate


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def exact(nodes: int = 20, completeness: float = 0.45, seed: int = 3) -> Simulated:
    """A graph without noise, with weights that differ a hundredfold, and ten pairs measured twice, in reverse."""
    made = simulate(nodes, completeness=completeness, sigma_rot_deg=0.0, sigma_trans=0.0, seed=seed)
    g, r = made.graph, rng(1)
    back = se3.inverse((g.j_from_i_wxyz[:10], g.j_from_i_t[:10]))
    m = g.n_edges + 10
    graph = replace(
        g,
        edge_i=np.concatenate([g.edge_i, g.edge_j[:10]]),
        edge_j=np.concatenate([g.edge_j, g.edge_i[:10]]),
        j_from_i_wxyz=np.concatenate([g.j_from_i_wxyz, back[0]]),
        j_from_i_t=np.concatenate([g.j_from_i_t, back[1]]),
        concentration=1000.0 * 10.0 ** r.uniform(-1, 1, m),
        translation_precision=500.0 * 10.0 ** r.uniform(-1, 1, m),
    )
    return Simulated(graph, made.truth)


def rotation_only(graph: PoseGraph) -> PoseGraph:
    return replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan))


def disturbed(truth: Poses, angle: float = 0.2, shift: float = 0.2) -> Poses:
    r = rng(5)
    return Poses(
        truth.ids,
        quat.multiply(quat.exp(angle * r.standard_normal((len(truth), 3))), truth.wxyz),
        truth.position + shift * r.standard_normal((len(truth), 3)),
    )


def worst(estimate: Estimate, truth: Poses) -> tuple[float, float]:
    errors = pose_errors(estimate.poses, truth)
    return float(np.radians(errors.max_rotation_deg)), errors.max_translation


def parts(graph: PoseGraph) -> PoseGraph:
    """The same graph without the edges between its first five nodes and the others."""
    return graph.with_edges((graph.edge_i < 5) == (graph.edge_j < 5))
