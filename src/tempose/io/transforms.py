r"""``transforms.json``: cameras for NeRF and Gaussian splatting (instant-ngp, nerfstudio).

``transform_matrix`` is :math:`\begin{pmatrix} R D & p \\ 0 & 1 \end{pmatrix}` with R, p of world_from_camera and
D = diag(1, −1, −1): these programs have cameras that look along −z with y up, tempose and COLMAP ones that look along z with y
down. The world's axes stay as they are. Pixels are pinhole ones: photographs with distortion are to be undistorted first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tempose._support.files import write_atomically
from tempose._support.plain import json_text
from tempose._typing import Array, Index, PathLike
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses

_OPENGL_FROM_OPENCV = np.diag([1.0, -1.0, -1.0])


def write_transforms(
    path: PathLike,
    poses: Poses,
    intrinsics: Array,
    image_size: Index,
    names: Sequence[str] | None = None,
    points: str | None = None,
) -> None:
    """Write cameras.

    Parameters
    ----------
    path
        The file, ``transforms.json`` by custom.
    poses
        world_from_camera.
    intrinsics, image_size
        (n, 3, 3), pixels; (n, 2): width and height.
    names
        Of the photographs, relative to the file; the ids of the poses by default.
    points
        Name of a PLY of points to start splats from.
    """
    frames = []
    for k, name in enumerate(poses.ids):
        matrix = np.eye(4)
        matrix[:3, :3] = quat.to_matrix(poses.wxyz[k]) @ _OPENGL_FROM_OPENCV
        matrix[:3, 3] = poses.position[k]
        K, (width, height) = intrinsics[k], image_size[k]
        frames.append(
            {
                "file_path": str(name) if names is None else names[k],
                "fl_x": float(K[0, 0]),
                "fl_y": float(K[1, 1]),
                "cx": float(K[0, 2]),
                "cy": float(K[1, 2]),
                "w": int(width),
                "h": int(height),
                "transform_matrix": matrix.tolist(),
            }
        )
    whole = {"camera_model": "PINHOLE", **({} if points is None else {"ply_file_path": points}), "frames": frames}
    write_atomically(path, json_text(whole).encode())
