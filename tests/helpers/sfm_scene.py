"""Synthetic views of a known scene, without any image: for the tests of the stages from pairs to points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.views import Views

Array = NDArray[np.float64]

K = np.array([[1000.0, 0.0, 500.0], [0.0, 1000.0, 400.0], [0.0, 0.0, 1.0]])


@dataclass(frozen=True, eq=False)
class Made:
    views: Views
    poses: Poses
    points: Array


def look_at(centre: Array, target: Array) -> Array:
    """world_from_node rotation of a camera (z ahead, y down) that looks at a target."""
    z = (target - centre) / np.linalg.norm(target - centre)
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def project(poses: Poses, points: Array) -> Array:
    """Pixels (n, p, 2)."""
    R, t = quat.to_matrix(poses.node_from_world[0]), poses.node_from_world[1]
    x = np.einsum("nab,pb->npa", R, points) + t[:, None]
    return x[..., :2] / x[..., 2:] * np.diag(K)[:2] + K[:2, 2]


def make(
    seed: int = 0, n_views: int = 6, n_points: int = 200, noise_px: float = 0.3, wrong: float = 0.0,
    flat: bool = False, still: bool = False, track_length: int | None = None,
) -> Made:  # fmt: skip
    """Cameras on an arc around a ball of points; ``flat`` puts the points in a plane, ``still`` the cameras at one place."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1.0, 1.0, (n_points, 3)) * ([1.0, 1.0, 0.0] if flat else [1.0, 1.0, 1.0])
    angle = np.linspace(-0.5, 0.5, n_views)
    centre = 5.0 * np.stack([np.sin(angle), 0.2 * np.cos(3.0 * angle), -np.cos(angle)], axis=1)
    centre += 0.2 * rng.standard_normal((n_views, 3))
    aim = 0.2 * rng.standard_normal((n_views, 3))
    if still:
        centre[:] = centre[0]
    rotation = np.array([look_at(c, a) for c, a in zip(centre, aim, strict=True)])
    names = tuple(f"{k:02d}.jpg" for k in range(n_views))
    poses = Poses(names, quat.from_matrix(rotation), centre)
    pixel = project(poses, points) + noise_px * rng.standard_normal((n_views, n_points, 2))
    seen = np.ones((n_views, n_points), bool)
    if track_length is not None:
        start = rng.integers(0, n_views - track_length + 1, n_points)
        row = np.arange(n_views)[:, None]
        seen = (row >= start) & (row < start + track_length)
    pairs, matches = [], []
    for i in range(n_views):
        for j in range(i + 1, n_views):
            both = np.flatnonzero(seen[i] & seen[j])
            if len(both) < 15:
                continue
            match = np.stack([both, both], axis=1)
            mixed = rng.random(len(both)) < wrong
            match[mixed, 1] = rng.permutation(match[mixed, 1])
            pairs.append((i, j))
            matches.append(match)
    size = np.tile([1000, 800], (n_views, 1))
    views = Views(names, np.tile(K, (n_views, 1, 1)), size, tuple(pixel), np.array(pairs), tuple(matches))
    return Made(views, poses, points)
