"""COLMAP databases of made-up scenes: any cameras, places and points, with every shared point as a match."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses

WIDTH, HEIGHT = 1024, 768
TRUE = (1280.0, 512.0, 384.0, -0.1)
GUESS = (1228.8, 512.0, 384.0, 0.0)


def looking_at(place: Array, target: Array, roll: float = 0.0) -> Array:
    """Quaternions ``world_from_camera`` (n, 4) of cameras at places (n, 3) that look at targets (n, 3)."""
    forward = target - place
    forward = forward / np.linalg.norm(forward, axis=1, keepdims=True)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right = right / np.linalg.norm(right, axis=1, keepdims=True)
    R = np.stack([right, np.cross(forward, right), forward], axis=2)
    about = quat.exp(np.tile([0.0, 0.0, roll], (len(place), 1)))
    return np.asarray(quat.multiply(quat.from_matrix(R), about))


def arc(n: int, radius: float = 6.0, seed: int = 0) -> Poses:
    """Cameras on an arc of 100° around the origin, at different heights and distances."""
    rng = np.random.default_rng(seed)
    angle = np.linspace(-0.9, 0.9, n)
    reach = radius * rng.uniform(0.85, 1.15, n)
    place = np.stack([reach * np.sin(angle), -reach * np.cos(angle), rng.uniform(-1.5, 1.5, n)], axis=1)
    wxyz = looking_at(place, rng.uniform(-0.3, 0.3, (n, 3)), 0.3)
    return Poses(tuple(f"{k:03d}.jpg" for k in range(n)), wxyz, place)


def write(
    path: Path,
    poses: Poses,
    points: Array,
    *,
    true: Sequence[Sequence[float]] = (TRUE,),
    guess: Sequence[float] = GUESS,
    cameras: Sequence[int] | None = None,
    prior: bool = False,
    noise_px: float = 0.4,
    seed: int = 0,
) -> None:
    """A database with SIMPLE_RADIAL cameras.

    ``true`` are the parameters that photographs are taken with, in turn; ``cameras`` says which share a camera of the database
    (all by default), and ``guess`` is what it says of each.
    """
    import pycolmap

    rng = np.random.default_rng(seed)
    n = len(poses)
    of = [0] * n if cameras is None else list(cameras)
    seen: list[Array] = []
    database = pycolmap.Database.open(path)
    numbers = {}
    for one in sorted(set(of)):
        camera = pycolmap.Camera(model="SIMPLE_RADIAL", width=WIDTH, height=HEIGHT, params=list(guess))
        camera.has_prior_focal_length = prior
        numbers[one] = database.write_camera(camera)
    images = []
    for k in range(n):
        lens = pycolmap.Camera(model="SIMPLE_RADIAL", width=WIDTH, height=HEIGHT, params=list(true[k % len(true)]))
        y = quat.rotate(quat.conjugate(poses.wxyz[k]), points - poses.position[k])
        pixel = np.array([np.full(2, np.nan) if z <= 0.1 else lens.img_from_cam([x, w, z]) for x, w, z in y], float)
        pixel += noise_px * rng.standard_normal(pixel.shape)
        inside = np.all((pixel > 0.0) & (pixel < [WIDTH, HEIGHT]), axis=1)
        rows = np.flatnonzero(inside)
        seen.append(rows)
        image = pycolmap.Image(name=str(poses.ids[k]), camera_id=numbers[of[k]])
        images.append(database.write_image(image))
        database.write_keypoints(images[-1], pixel[rows].astype(np.float32))
    for i in range(n):
        for j in range(i + 1, n):
            _, a, b = np.intersect1d(seen[i], seen[j], return_indices=True)
            if len(a):
                database.write_matches(images[i], images[j], np.stack([a, b], axis=1).astype(np.uint32))
    database.close()


def cloud(count: int, seed: int = 0, size: float = 2.0) -> Array:
    """Points in a cube around the origin."""
    return np.random.default_rng(seed + 1000).uniform(-size, size, (count, 3))
