"""Camera models: from what COLMAP stores to pinholes and undistorted pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Index
from tempose.errors import NotApplicable

_PINHOLES = {0: "SIMPLE_PINHOLE", 1: "PINHOLE"}  # COLMAP's numbers of the models without distortion


@dataclass(frozen=True, eq=False)
class Intrinsics:
    """One camera as COLMAP has it.

    Parameters
    ----------
    model
        COLMAP's name or number of the model.
    width, height
        Pixels.
    params
        In COLMAP's order for the model; pixel centres at .5.
    """

    model: int | str
    width: int
    height: int
    params: Array

    @classmethod
    def from_colmap(cls, model: int | str, width: int, height: int, params: Array) -> Intrinsics:
        """A camera by COLMAP's model number (databases) or name (text files)."""
        return cls(_PINHOLES.get(model, model) if isinstance(model, int) else model, width, height, params)

    @property
    def is_pinhole(self) -> bool:
        """Whether the model has no distortion."""
        return self.model in _PINHOLES.values()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        return self.width, self.height

    @property
    def K(self) -> Array:
        """Pinhole matrix (3, 3): the model's focal lengths and principal point, its distortion left out."""
        if self.model == "SIMPLE_PINHOLE":
            f, cx, cy = self.params
            return np.array([[f, 0.0, cx], [0.0, f, cy], [0.0, 0.0, 1.0]])
        if self.model == "PINHOLE":
            fx, fy, cx, cy = self.params
            return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
        K = np.array(self.colmap().calibration_matrix())
        if K[0, 1] != 0.0:
            raise NotApplicable(f"cameras with skew ({self.model}) are not supported; undistort the images first")
        return K

    def colmap(self) -> Any:
        """The same camera as pycolmap's."""
        pycolmap = require_pycolmap(f"a camera of the model {self.model}")
        model = pycolmap.CameraModelId(self.model) if isinstance(self.model, int) else self.model
        return pycolmap.Camera(model=model, width=self.width, height=self.height, params=self.params)


def undistort(camera: Intrinsics, pixel: Array) -> Array:
    """Pixels (k, 2) where the pinhole with the camera's ``K`` would have seen the same rays."""
    if camera.is_pinhole or not len(pixel):
        return pixel
    ray = np.array(camera.colmap().cam_from_img(pixel))
    return ray * np.diag(camera.K)[:2] + camera.K[:2, 2]


def recalibrated(K: Array, camera_of: Index, pixel: Array, change: Array) -> tuple[Array, Array]:
    """Pinholes (n, 3, 3) and pixels (k, 2) of a slightly other calibration.

    ``change`` (n, 4): relative change of the focal lengths; of the principal point in x and y, in focal lengths; and of the
    radial distortion, the relative displacement of a pixel that is one focal length from the principal point.
    """
    focal, centre = np.stack([K[:, 0, 0], K[:, 1, 1]], axis=1), K[:, :2, 2]
    ray = (pixel - centre[camera_of]) / focal[camera_of]
    radial = 1.0 + change[camera_of, 3:] * np.sum(ray**2, axis=1, keepdims=True)
    out = K.copy()
    out[:, [0, 1], [0, 1]] = focal * (1.0 + change[:, :1])
    out[:, :2, 2] += focal * change[:, 1:3]
    return out, np.ascontiguousarray(centre[camera_of] + focal[camera_of] * ray * radial)


def require_pycolmap(what: str) -> Any:
    """The module pycolmap, or one line that says how to get it."""
    return require("pycolmap", what)
