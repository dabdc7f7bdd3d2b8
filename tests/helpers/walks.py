"""Walks whose odometry errs with a memory, or without."""

from __future__ import annotations

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

SIGMA = 0.01  # radians, and 5 times that of translations
STEPS = 120


def walk(
    seed: int, memory: float, planar: bool = False, backwards: bool = False, steps: int = STEPS
) -> tuple[PoseGraph, Poses]:
    """Laps around a square, each closed to the first one; errors of a step are ``memory`` times those before."""
    rng = np.random.default_rng(seed)
    n = steps + 1
    turn = quat.exp(np.where(np.arange(n)[:, None] % 10 == 9, [0.0, 0.0, np.pi / 2], 0.0))
    wxyz, position = np.tile(quat.IDENTITY, (n, 1)), np.zeros((n, 3))
    for k in range(1, n):  # world to node
        wxyz[k] = quat.multiply(turn[k], wxyz[k - 1])
        position[k] = position[k - 1] + quat.rotate(quat.conjugate(wxyz[k]), np.array([1.0, 0.0, 0.0]))
    ids = tuple(range(n))
    poses = Poses(ids, quat.conjugate(wxyz), position)
    i = np.concatenate([np.arange(steps), np.arange(40, n, 3)])
    j = np.concatenate([np.arange(1, n), np.arange(40, n, 3) % 40])
    if backwards:
        i, j = j, i
    m = len(i)
    error = rng.standard_normal((m, 6))
    if planar:
        error[:, [0, 1, 5]] = 0.0
    for k in range(1, steps):
        error[k] = memory * error[k - 1] + np.sqrt(1.0 - memory**2) * error[k]
    if backwards:
        error[:steps] *= -1.0
    q = quat.multiply(wxyz[j], quat.conjugate(wxyz[i]))
    t = quat.rotate(wxyz[j], position[i] - position[j])
    measured = quat.multiply(quat.exp(SIGMA * error[:, :3]), q)
    graph = PoseGraph(
        ids, i, j, measured, t + 5.0 * SIGMA * error[:, 3:], np.full(m, 2.0 / SIGMA**2), np.full(m, 0.04 / SIGMA**2),
        dimension=2 if planar else 3,
    )  # fmt: skip
    return graph, poses
