"""What each edge disagrees with, by the equations of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Motion
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses


@dataclass(frozen=True)
class Residuals:
    """What each edge disagrees with, given poses.

    Attributes
    ----------
    nu
        ``ν = vec(q_ij ⊗ conj(q_j q̄_i))`` (m, 3) in j's frame, signed so that its scalar partner is ≥ 0;
        ``|ν| = sin(θ/2)``.
    translation
        ``r = t_ij − μ_ij`` (m, 3) in j's frame, ``μ_ij = R_j (c_i + R_iᵀ arm − c_j)``; NaN for edges without a translation.
    unexplained
        ``r + B s`` (m, 3), ``s = 2wν = sin θ · n``: what is left of the translation's residual once the rotation's has
        explained what it can; the same as ``translation`` for edges whose errors are not correlated.
    angle
        Rotation residual θ (m,), radians.
    """

    nu: Array
    translation: Array
    unexplained: Array
    angle: Array


def residuals(graph: PoseGraph, poses: Poses) -> Residuals:
    """Edge residuals, by the equations of the paper, for poses in the graph's node order, with or without the world."""
    relative, seen = predicted(graph, poses)
    error = quat.multiply(graph.j_from_i_wxyz, quat.conjugate(relative))
    error = np.where(error[:, :1] < 0.0, -error, error)
    translation = graph.j_from_i_t - seen
    unexplained = translation
    if graph.coupling is not None:
        s = 2.0 * error[:, :1] * error[:, 1:]
        unexplained = translation + np.einsum("mab,mb->ma", graph.coupling, s)
    return Residuals(error[:, 1:], translation, unexplained, quat.angle(error))


def predicted(graph: PoseGraph, poses: Poses) -> Motion:
    """What every edge would measure without noise: ``q_j q̄_i`` (m, 4) and ``μ_ij = R_j (c_i + R_iᵀ arm − c_j)`` (m, 3)."""
    if graph.world is not None and len(poses) == graph.n_nodes - 1:  # it is the last
        poses = poses.with_identity(WORLD)
    q, c = quat.conjugate(poses.wxyz), poses.position
    i, j = graph.edge_i, graph.edge_j
    seen = c[i] if graph.arm is None else c[i] + quat.rotate(poses.wxyz[i], graph.arm)
    return quat.multiply(q[j], poses.wxyz[i]), quat.rotate(q[j], seen - c[j])
