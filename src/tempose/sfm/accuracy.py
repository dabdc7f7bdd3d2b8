"""Cameras and points against the truth, in units of their own error bars."""

from __future__ import annotations

import numpy as np

from tempose._typing import Array
from tempose.analysis.regions import squared_distance
from tempose.analysis.summary import tangent
from tempose.geometry import align
from tempose.geometry.alignment import Similarity
from tempose.model.poses import Poses
from tempose.sfm.scene import Scene


def camera_errors(scene: Scene, truth: Poses) -> tuple[Array, Array]:
    """Squared errors over covariances of the orientations and positions that have a truth, χ² with 3 degrees of freedom.

    The truth, in any similarity frame, is aligned with the estimate as the draws are.
    """
    rows = _known(scene, truth)
    poses, true = scene.poses.select([scene.poses.ids[k] for k in rows]), _part(scene, truth)
    off, C = tangent(*_into(scene, truth).apply(true.wxyz, true.position), poses), scene.camera_covariance[rows]
    return squared_distance(off[:, :3], C[:, :3, :3]), squared_distance(off[:, 3:], C[:, 3:, 3:])


def point_errors(scene: Scene, truth: Poses, points: Array) -> Array:
    """The same of the good points; ``points`` (p, 3) are true places in the frame of ``truth``, NaN where there is none."""
    moved = _into(scene, truth).apply(np.tile([1.0, 0.0, 0.0, 0.0], (len(points), 1)), points)[1]
    good = np.flatnonzero(scene.structure.good)
    return squared_distance((moved - scene.structure.position)[good], scene.structure.covariance[good])


def _known(scene: Scene, truth: Poses) -> list[int]:
    return [k for k, name in enumerate(scene.poses.ids) if name in truth.index]


def _part(scene: Scene, truth: Poses) -> Poses:
    """The truth of the scene's cameras, in their order."""
    return truth.select([scene.poses.ids[k] for k in _known(scene, truth)])


def _into(scene: Scene, truth: Poses) -> Similarity:
    """The similarity that takes the frame of the truth to that of the estimate."""
    true = _part(scene, truth)
    poses = scene.poses.select(true.ids)
    return align((true.wxyz, true.position), (poses.wxyz, poses.position), "sim3")
