"""Small simulated graphs of every kind that the model knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.simulation import Simulated, simulate

ISOTROPIC: dict[str, dict[str, Any]] = {
    "plain": {},
    "planar": {"planar": True},
    "gps": {"gps": 6, "gps_sigma": 0.05},
    "gps with lever arms": {"gps": 6, "gps_sigma": 0.05, "lever_arm": 0.5},
    "planar gps": {"planar": True, "gps": 4, "lever_arm": 0.4},
    "attitudes": {"attitudes": 3},
    "landmarks": {"landmarks": 6},
    "planar landmarks": {"planar": True, "landmarks": 6},
    "fixed": {"fixed": 3},
    "planar fixed": {"planar": True, "fixed": 3},
    "mixed": {"gps": 5, "attitudes": 2, "landmarks": 5, "fixed": 2, "lever_arm": 0.3},
    "planar mixed": {"planar": True, "gps": 5, "attitudes": 2, "landmarks": 5, "fixed": 2, "lever_arm": 0.3},
}
CORRELATED: dict[str, dict[str, Any]] = {
    "correlated": {"correlated": "random"},
    "planar correlated": {"planar": True, "correlated": True},
    "anisotropic gps": {"gps": 6, "gps_up": 3.0},
    "correlated mixed": {"correlated": "random", **ISOTROPIC["mixed"]},
    "planar correlated mixed": {"correlated": "random", **ISOTROPIC["planar mixed"]},
}
KINDS = ISOTROPIC | CORRELATED


def made(kind: str, nodes: int = 12, **more: Any) -> Simulated:
    """A simulated graph of a kind, with the true poses of all its nodes, the world included."""
    simulated = simulate(nodes, **{"completeness": 0.5, "sigma_rot_deg": 2.0, "seed": 3, **KINDS[kind], **more})
    graph, truth = simulated.graph, simulated.truth
    if graph.world is None:
        return simulated
    wxyz, position = np.vstack([truth.wxyz, quat.IDENTITY]), np.vstack([truth.position, np.zeros(3)])
    return replace(simulated, truth=Poses((*truth.ids, WORLD), wxyz, position).select(graph.node_ids))


def without_noise(graph: PoseGraph, truth: Poses) -> PoseGraph:
    """The same graph with measurements that agree with the truth."""
    q, c = quat.conjugate(truth.wxyz), truth.position
    i, j = graph.edge_i, graph.edge_j
    seen = c[i] if graph.arm is None else c[i] + quat.rotate(truth.wxyz[i], graph.arm)
    rotation = quat.normalize(quat.multiply(q[j], quat.conjugate(q[i])))
    # what is not measured says something else, so that reading it shows
    wrong = quat.exp(np.array([0.0, 0.0, 1.0])) * np.ones((len(i), 1))
    return replace(
        graph,
        j_from_i_wxyz=np.where((graph.mean_concentration > 0.0)[:, None], rotation, wrong),
        j_from_i_t=np.where(graph.has_translation[:, None], quat.rotate(q[j], seen - c[j]), np.nan),
    )
