"""Recordings for rerun (``.rrd``): poses with their 95% ellipsoids, edges and points. Needs rerun-sdk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import chdtri

from tempose._support.files import write_atomically
from tempose._support.packages import require
from tempose._typing import Array, Index, PathLike
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses

_CONFIDENCE = 0.95


def write_recording(
    path: PathLike,
    poses: Poses,
    covariance: Array | None = None,
    edges: Index | None = None,
    points: Array | None = None,
    colours: Array | None = None,
) -> None:
    """Write a recording.

    Parameters
    ----------
    path
        The file, ``.rrd``.
    poses
        world_from_node.
    covariance
        (n, 6, 6), rotation vector and position in the world; positions become ellipsoids that hold 95%.
    edges
        (m, 2): rows of the poses that they connect.
    points, colours
        (p, 3), and bytes (p, 3).
    """
    rr = require("rerun", "recordings for rerun")
    recording = rr.RecordingStream("tempose")
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "recording.rrd")
        recording.save(file)
        for k, name in enumerate(poses.ids):
            rotation = rr.Quaternion(xyzw=poses.wxyz[k, [1, 2, 3, 0]])
            recording.log(
                f"nodes/{_part(name)}", rr.Transform3D(translation=poses.position[k], rotation=rotation), static=True
            )
        recording.log("positions", rr.Points3D(poses.position, labels=[str(name) for name in poses.ids]), static=True)
        if covariance is not None:
            half, turn = _ellipsoids(covariance[:, 3:, 3:])
            turned = [rr.Quaternion(xyzw=one[[1, 2, 3, 0]]) for one in turn]
            shown = rr.Ellipsoids3D(centers=poses.position, half_sizes=half, quaternions=turned)
            recording.log("ellipsoids 95%", shown, static=True)
        if edges is not None and len(edges):
            recording.log("edges", rr.LineStrips3D(poses.position[edges]), static=True)
        if points is not None:
            recording.log("points", rr.Points3D(points, colors=colours), static=True)
        recording.flush()
        recording.disconnect()
        write_atomically(path, Path(file).read_bytes())


def _part(name: Any) -> str:
    """A name as a part of a path of entities."""
    return "".join(c if c.isalnum() or c in "-_." else f"\\{c}" for c in str(name))


def _ellipsoids(covariance: Array) -> tuple[Array, Array]:
    """Half axes (n, 3) and orientation wxyz (n, 4) of the regions of 95%."""
    values, axes = np.linalg.eigh(np.nan_to_num(covariance))
    axes = axes * np.where(np.linalg.det(axes) < 0.0, -1.0, 1.0)[:, None, None]
    half = np.sqrt(np.maximum(values, 0.0) * chdtri(3, 1.0 - _CONFIDENCE))
    return half, np.array([quat.from_matrix(one) for one in axes])
