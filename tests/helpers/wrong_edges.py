"""Graphs with wrong edges, without noise levels, without translations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.simulation import Simulated


def without_noise_levels(graph: PoseGraph) -> PoseGraph:
    """The same measurements, all stated to have σ = 1 rad and 1 unit of length."""
    return replace(graph, concentration=np.asarray(2.0), translation_precision=np.asarray(1.0))


def with_wrong_edges(made: Simulated, share: float, seed: int) -> tuple[PoseGraph, np.ndarray]:
    """Replace a share of the measurements by uniform rotations and translations as long as the others."""
    graph, rng = made.graph, np.random.default_rng([seed, 77])
    wrong = np.zeros(graph.n_edges, dtype=bool)
    wrong[rng.permutation(graph.n_edges)[: round(share * graph.n_edges)]] = True
    wxyz, t = graph.j_from_i_wxyz.copy(), graph.j_from_i_t.copy()
    wxyz[wrong] = quat.random_uniform(rng, int(wrong.sum()))
    t[wrong] = np.sqrt(np.mean(t**2)) * rng.standard_normal((int(wrong.sum()), 3))
    if graph.is_planar:
        wxyz[:, 1:3], t[:, 2] = 0.0, 0.0
        wxyz /= np.linalg.norm(wxyz, axis=1, keepdims=True)
    return replace(graph, j_from_i_wxyz=wxyz, j_from_i_t=t), wrong


def rotations_only(graph: PoseGraph) -> PoseGraph:
    return replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan))
