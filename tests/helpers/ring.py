"""Cameras on an arc and what they see, without images."""

from __future__ import annotations

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.points import Observations, projections

K = np.array([[800.0, 1.0, 320.0], [0.0, 790.0, 240.0], [0.0, 0.0, 1.0]])


def ring(rng: np.random.Generator, cameras: int = 6, points: int = 40) -> tuple[Poses, np.ndarray]:
    """Cameras on an arc that look at a cloud around the origin."""
    angle = np.linspace(-0.5, 0.5, cameras)
    position = np.stack([8 * np.sin(angle), 0.3 * rng.normal(size=cameras), -8 * np.cos(angle)], axis=1)
    wxyz = quat.exp(np.stack([np.zeros(cameras), -angle, np.zeros(cameras)], axis=1))
    return Poses(tuple(range(cameras)), wxyz, position), rng.normal(size=(points, 3))


def seen(poses: Poses, points: np.ndarray, sigma_px: float, rng: np.random.Generator) -> Observations:
    P = projections(K, poses.wxyz, poses.position)
    h = np.einsum("nab,pb->pna", P[:, :, :3], points) + P[None, :, :, 3]
    pixel = h[..., :2] / h[..., 2:] + sigma_px * rng.normal(size=(len(points), len(poses), 2))
    point_of, camera_of = np.meshgrid(np.arange(len(points)), np.arange(len(poses)), indexing="ij")
    return Observations.sorted_by_point(point_of.ravel(), camera_of.ravel(), pixel.reshape(-1, 2))
