"""A finished reconstruction: cameras and points with their error bars."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.points import Observations, Structure, rms_sigma

_LEVEL_WEIGHT = 0.1  # of the images' upper edges beside their rows, in finding what is up


@dataclass(frozen=True)
class SceneGauge:
    """Relative to what the error bars of a scene are, and what fixes its scale.

    Each draw of the cameras is aligned with the estimate, by rotation, scale and translation of all of them.

    Parameters
    ----------
    metric
        Whether lengths are those of true baselines, metres; else the median baseline is 1.
    calibration_error
        What the error bars take the calibration to be known to, as
        :attr:`~tempose.sfm.options.SfmOptions.calibration_error`; ``None`` if there are no error bars.
    given
        Whether frame, unit and calibration are those of a COLMAP model; its error bars say themselves what they contain.
    placed
        Whether measured places say where the scene is: error bars are of the world then, z is up.
    """

    metric: bool = False
    calibration_error: float | None = None
    given: bool = False
    placed: bool = False


@dataclass(frozen=True, eq=False)
class Scene:
    """Cameras and points.

    Parameters
    ----------
    poses
        Camera poses, ids are image names.
    intrinsics, image_size
        Pinhole calibration (n, 3, 3) and width, height (n, 2) in pixels.
    camera_covariance
        Covariances of the poses (n, 6, 6), tangent order (rotation, position), radians and scene units, world frame; NaN
        where unknown.
    observations, structure
        What was seen and the points made of it.
    colour
        Photographic colours (p, 3), or ``None``.
    gauge
        Relative to what every σ is, and what fixes the scale.
    """

    poses: Poses
    intrinsics: Array
    image_size: Index
    camera_covariance: Array
    observations: Observations
    structure: Structure
    colour: NDArray[np.uint8] | None
    gauge: SceneGauge

    @property
    def unit(self) -> str:
        """Of length."""
        return "m" if self.gauge.metric else "units"

    @property
    def camera_sigma(self) -> tuple[Array, Array]:
        """1σ per axis of the orientations (degrees) and of the positions (scene units), each (n,)."""
        return np.degrees(rms_sigma(self.camera_covariance[:, :3, :3])), rms_sigma(self.camera_covariance[:, 3:, 3:])

    @cached_property
    def middle(self) -> Array:
        """Median of the good points (3,)."""
        good = self.structure.position[self.structure.good]
        return np.asarray(np.median(good if len(good) else self.poses.position, axis=0))

    @cached_property
    def bulk_radius(self) -> float:
        """Distance from the middle within which three quarters of the good points lie: what a first view shows."""
        good = self.structure.position[self.structure.good]
        if len(good) == 0:
            return 1.0
        return max(float(np.quantile(np.linalg.norm(good - self.middle, axis=1), 0.75)), 1e-9)

    @property
    def viewing_direction(self) -> Array:
        """Where the cameras look on average, a unit vector; the first one's direction if they look all around."""
        forward = quat.rotate(self.poses.wxyz, np.array([0.0, 0.0, 1.0]))
        together = forward.mean(axis=0)
        if np.linalg.norm(together) < 0.2:
            together = forward[0]
        return np.asarray(together / np.linalg.norm(together))

    @cached_property
    def upright(self) -> Array:
        """Rows right, forward and up (3, 3) of the scene as people stand in it: cameras are held level.

        Up is the direction that is most nearly square to all image rows, on the side of the images' upper edges, or z where
        measured places say so; forward is where the cameras look on average.
        """
        sideways = quat.rotate(self.poses.wxyz, np.array([1.0, 0.0, 0.0]))
        upwards = quat.rotate(self.poses.wxyz, np.array([0.0, -1.0, 0.0]))
        mean = upwards.mean(axis=0)
        mean = mean / np.linalg.norm(mean) if np.linalg.norm(mean) > 1e-6 else upwards[0]
        # rows that are all parallel leave a choice: the mean of the upper edges decides
        square = sideways.T @ sideways / len(sideways) + _LEVEL_WEIGHT * (np.eye(3) - np.outer(mean, mean))
        up = np.linalg.eigh(square)[1][:, 0]
        up = up * (1.0 if up @ mean >= 0.0 else -1.0)
        if self.gauge.placed:
            up = np.array([0.0, 0.0, 1.0])
        for direction in (
            self.viewing_direction,
            mean,
            upwards[0],
            sideways[0],
        ):  # straight down has no forward of its own
            forward = direction - (direction @ up) * up
            if np.linalg.norm(forward) > 0.1:
                break
        forward = forward / np.linalg.norm(forward)
        return np.stack([np.cross(forward, up), forward, up])
