r"""What everything can be moved by together, and what an error bar holds still.

Photographs do not know where the world is, how it is turned and, unless a rig of known size took them, how large it is. A gauge
says which combinations :math:`B^T x` of the frames' displacements are zero.

* ``aligned`` (default): every draw is aligned with the estimate by all photographs: the mean of their rotations is zero, that of
  their displacements, and so is the change of their scatter about their middle. To first order this is the alignment of
  :func:`tempose.geometry.align` (``sim3``), the gauge of the pose graph's error bars.
* ``two frames``: the first frame is held, and one coordinate of the translation (``camera_from_world``) of the second, as
  COLMAP's bundle adjustment does. Error bars then grow with the distance from the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tempose._typing import Array
from tempose.errors import GraphError
from tempose.geometry import quaternion as quat
from tempose.sfm.adjustment.linear import cross_matrix
from tempose.sfm.adjustment.problem import Bundle


class TwoFrames(NamedTuple):
    """The rows of two frames: the pose of the first is held, and of the second one coordinate of ``frame_from_world``."""

    first: int
    second: int
    axis: int


def motions(bundle: Bundle) -> Array:
    """Displacements of the frames (6 f, 7) that nothing notices: rotations about and a scale from their middle, translations.

    Six columns where a rig fixes the scale.
    """
    f = bundle.n_frames
    arm = bundle.frame_position - bundle.frame_position.mean(axis=0)
    out = np.zeros((f, 6, 7))
    out[:, :3, :3] = np.eye(3)
    out[:, 3:, :3] = -cross_matrix(arm)  # φ × arm
    out[:, 3:, 3:6] = np.eye(3)
    out[:, 3:, 6] = arm
    return out[:, :, : 6 if bundle.metric else 7].reshape(6 * f, -1)


def image_from_frame(bundle: Bundle) -> Array:
    """How the pose of a photograph follows its frame (n, 6, 6), tangents (rotation, position), world frame."""
    out = np.tile(np.eye(6), (len(bundle.names), 1, 1))
    out[:, 3:, :3] = -cross_matrix(bundle.poses.position - bundle.frame_position[bundle.frame_of])
    return out


def constraints(bundle: Bundle, gauge: TwoFrames | None = None) -> Array:
    """The combinations B (6 f, 7) of the frames' displacements that are held; aligned unless two frames are given."""
    f, size = bundle.n_frames, 6 if bundle.metric else 7
    out = np.zeros((f, 6, 7))
    if gauge is not None:
        if gauge.first == gauge.second:
            raise GraphError("the gauge of two frames needs two of them")
        out[gauge.first, :, :6] = np.eye(6)
        # t = −Rᵀ C changes by −Rᵀ (d + C × ω)
        to_frame = quat.to_matrix(bundle.frame_wxyz[gauge.second]).T
        out[gauge.second, 3:, 6] = -to_frame[gauge.axis]
        out[gauge.second, :3, 6] = -(to_frame @ cross_matrix(bundle.frame_position[gauge.second]))[gauge.axis]
        return out[:, :, :size].reshape(6 * f, size)
    place = bundle.poses.position
    arm = place - place.mean(axis=0)
    held = np.zeros((len(place), 6, 7))
    held[:, :6, :6] = np.eye(6)
    held[:, 3:, 6] = arm
    held = np.swapaxes(image_from_frame(bundle), 1, 2) @ held
    np.add.at(out, bundle.frame_of, held)
    return out[:, :, :size].reshape(6 * f, size)
