"""Derivatives of image points by points and frames, compiled; on one thread, which takes less than compiling for several."""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import kernel


@kernel
def camera_coordinates(
    camera_from_world: Any, centre: Any, image_of: Any, point_of: Any, position: Any, out: Any
) -> None:
    """``R (X − C)`` (k, 3) of every observation."""
    for k in range(len(image_of)):
        i, p = image_of[k], point_of[k]
        x, y, z = position[p, 0] - centre[i, 0], position[p, 1] - centre[i, 1], position[p, 2] - centre[i, 2]
        for r in range(3):
            R = camera_from_world[i, r]
            out[k, r] = R[0] * x + R[1] * y + R[2] * z


@kernel
def chain(
    camera_from_world: Any,
    arm_from: Any,
    image_of: Any,
    point_of: Any,
    position: Any,
    residual: Any,
    by_point: Any,
    by_camera: Any,
    by_frame: Any,
    kept: Any,
) -> None:
    """From derivatives by camera coordinates, which ``by_point`` (k, 2, 3) holds at first, to those by point and by frame.

    ``arm_from`` (n, 3) is where the frame of each photograph is. What is not finite takes no part: it becomes zero.
    """
    for k in range(len(image_of)):
        i, p = image_of[k], point_of[k]
        R = camera_from_world[i]
        sound = True
        for r in range(2):
            a, b, c = by_point[k, r, 0], by_point[k, r, 1], by_point[k, r, 2]
            x = a * R[0, 0] + b * R[1, 0] + c * R[2, 0]
            y = a * R[0, 1] + b * R[1, 1] + c * R[2, 1]
            z = a * R[0, 2] + b * R[1, 2] + c * R[2, 2]
            by_point[k, r, 0], by_point[k, r, 1], by_point[k, r, 2] = x, y, z
            sound = sound and np.isfinite(x + y + z) and np.isfinite(residual[k, r])
            for q in range(by_camera.shape[2]):
                sound = sound and np.isfinite(by_camera[k, r, q])
        kept[k] = sound
        for r in range(2):
            if not sound:
                residual[k, r] = 0.0
                by_point[k, r] = 0.0
                by_camera[k, r] = 0.0
            u, v, w = by_point[k, r, 0], by_point[k, r, 1], by_point[k, r, 2]
            x, y, z = (
                position[p, 0] - arm_from[i, 0],
                position[p, 1] - arm_from[i, 1],
                position[p, 2] - arm_from[i, 2],
            )
            # the row times [arm]×
            by_frame[k, r, 0] = v * z - w * y
            by_frame[k, r, 1] = w * x - u * z
            by_frame[k, r, 2] = u * y - v * x
            by_frame[k, r, 3], by_frame[k, r, 4], by_frame[k, r, 5] = -u, -v, -w
