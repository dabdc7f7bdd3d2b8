"""Simulated rotations whose errors have no scale: rough edges that err alike, or each by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose._support import streams
from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.simulation import simulate

BLOCKS = 6  # of cameras; edges within a block are precise
KINDS = ("alike", "each by itself", "independent")
_PRECISE = np.radians(0.2)  # σ per axis of every edge
_TAIL = 0.125  # ν of independent errors
_SIGMA = np.radians(1.0)  # and their σ


def rough_world(kind: str, seed: int, *, nodes: int = 100, rough: float = 0.85) -> tuple[PoseGraph, Poses]:
    """Rotations, σ stated as 1°, of which 80% are measured, and the true ones.

    ``alike``: of the edges between two blocks a share ``rough`` errs the same way, by a fifth to twice the same 1° to 20°.
    ``each by itself``: by as much, but each in a direction of its own. ``independent``: errors of Student's distribution
    with ν = 1/8, whatever the blocks.
    """
    made = simulate(nodes, completeness=0.8, sigma_rot_deg=1.0, sigma_trans=0.0, seed=seed)
    rng = streams.generator(seed, "simulate", 1)
    graph, turns = made.graph, made.truth.wxyz
    i, j, m = graph.edge_i, graph.edge_j, graph.n_edges
    if kind == "independent":
        error = _SIGMA * rng.standard_normal((m, 3)) / np.sqrt(1e-4 + rng.gamma(0.5 * _TAIL, 2.0 / _TAIL, m))[:, None]
    else:
        block = rng.integers(0, BLOCKS, nodes)
        towards = np.radians(10.0 ** rng.uniform(0.0, 1.0, (BLOCKS, BLOCKS)))[:, :, None] * _unit(rng, BLOCKS, BLOCKS)
        common = (towards - towards.transpose(1, 0, 2))[block[i], block[j]]
        off = np.where(rng.random(m) < rough, 10.0 ** rng.uniform(-0.7, 0.3, m), 0.0)[:, None] * common
        if kind == "each by itself":
            off = np.linalg.norm(off, axis=1, keepdims=True) * _unit(rng, m)
        error = quat.rotate(quat.conjugate(turns[j]), off) + _PRECISE * rng.standard_normal((m, 3))
    exact = quat.multiply(quat.conjugate(turns[j]), turns[i])
    measured = quat.multiply(quat.exp(error), exact)
    return replace(graph, j_from_i_wxyz=measured, j_from_i_t=np.full((m, 3), np.nan)), made.truth


def _unit(rng: np.random.Generator, *shape: int) -> Array:
    """Directions (…, 3)."""
    v = rng.standard_normal((*shape, 3))
    return np.asarray(v / np.linalg.norm(v, axis=-1, keepdims=True))
