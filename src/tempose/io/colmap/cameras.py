"""Cameras as COLMAP stores them: a model by name, an image size, and the model's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Index, PathLike
from tempose.errors import ArgumentError, NotApplicable, ParseError
from tempose.io._text import content_lines, read_text

_PINHOLES = ("SIMPLE_PINHOLE", "PINHOLE")
_MODELS = {
    "SIMPLE_PINHOLE": 3, "PINHOLE": 4, "SIMPLE_RADIAL": 4, "RADIAL": 5, "OPENCV": 8, "OPENCV_FISHEYE": 8,
    "FULL_OPENCV": 12, "FOV": 5, "SIMPLE_RADIAL_FISHEYE": 4, "RADIAL_FISHEYE": 5, "THIN_PRISM_FISHEYE": 12,
    "RAD_TAN_THIN_PRISM_FISHEYE": 16, "SIMPLE_DIVISION": 4, "DIVISION": 5, "SIMPLE_FISHEYE": 3, "FISHEYE": 4, "EUCM": 6,
}  # fmt: skip
"""COLMAP's models, each at the place of its number: how many parameters it has. The first is a focal length."""
_ONE_FOCAL_LENGTH = ("SIMPLE_PINHOLE", "SIMPLE_RADIAL", "RADIAL", "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE",
                     "SIMPLE_DIVISION", "SIMPLE_FISHEYE")  # fmt: skip
_LARGEST = 1e9  # no pixel, focal length or distortion is larger


@dataclass(frozen=True, eq=False)
class ColmapCamera:
    """One camera as COLMAP has it.

    Parameters
    ----------
    model
        COLMAP's name of the model.
    width, height
        Pixels.
    params
        In COLMAP's order for the model; pixel centres at .5.
    """

    model: str
    width: int
    height: int
    params: Array

    def __post_init__(self) -> None:
        count = _MODELS.get(self.model)
        if count is None:
            raise ArgumentError(f"cameras of the model {self.model[:40]!r} are not known")
        params = np.asarray(self.params, dtype=np.float64)
        if params.shape != (count,):
            raise ArgumentError(f"a camera of the model {self.model} has {count} parameters, not {params.size}")
        if not np.all(np.abs(params) <= _LARGEST):
            raise ArgumentError(f"a parameter of a camera is not finite, or larger than {_LARGEST:g}")
        if not np.all(params[: 1 if self.model in _ONE_FOCAL_LENGTH else 2] > 0.0):
            raise ArgumentError("the focal length of a camera is not positive")
        if not (0 <= self.width <= _LARGEST and 0 <= self.height <= _LARGEST):
            raise ArgumentError(f"a camera has images of {self.width}×{self.height} pixels")

    @classmethod
    def numbered(cls, model: int, width: int, height: int, params: Array) -> ColmapCamera:
        """A camera by COLMAP's number of the model, as databases and binary models have it."""
        return cls(list(_MODELS)[model] if 0 <= model < len(_MODELS) else str(model), width, height, params)

    @classmethod
    def parameter_count(cls, model: int) -> int:
        """How many parameters the model of this number has; -1 if there is no such model."""
        return list(_MODELS.values())[model] if 0 <= model < len(_MODELS) else -1

    @classmethod
    def pinhole(cls, K: Array, size: Index) -> ColmapCamera:
        """A camera without distortion: its matrix (3, 3), and width and height (2,)."""
        return cls("PINHOLE", int(size[0]), int(size[1]), np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2]]))

    @property
    def is_pinhole(self) -> bool:
        """Whether the model has no distortion."""
        return self.model in _PINHOLES

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
        K = np.array(self.pycolmap().calibration_matrix())
        if K[0, 1] != 0.0:
            raise NotApplicable(f"cameras with skew ({self.model}) are not supported; undistort the images first")
        return K

    def undistorted(self, pixel: Array) -> Array:
        """Pixels (k, 2) where the pinhole with the camera's ``K`` would have seen the same rays."""
        if self.is_pinhole or not len(pixel):
            return pixel
        rays = self.pycolmap().cam_from_img(pixel)
        ray = np.array([[np.nan] * 2 if one is None else one for one in rays], dtype=float).reshape(-1, 2)
        if not np.all(np.isfinite(ray)):
            lost = int(np.sum(~np.isfinite(ray).all(axis=1)))
            raise NotApplicable(
                f"the distortion of a camera ({self.model}) cannot be undone for {lost} of {len(ray)} image points: its "
                "parameters do not fit its images"
            )
        return ray * np.diag(self.K)[:2] + self.K[:2, 2]

    def pycolmap(self) -> Any:
        """The same camera as pycolmap's."""
        pycolmap = require("pycolmap", f"a camera of the model {self.model}")
        return pycolmap.Camera(model=self.model, width=self.width, height=self.height, params=self.params)


def read_camera(path: PathLike) -> ColmapCamera:
    """A camera from a file: nine numbers of ``K``, or a line of COLMAP's ``cameras.txt``.

    ``K`` is taken to count whole numbers at pixel centres, as most calibrations do; COLMAP counts .5 there, and so
    its principal point is larger by .5.
    """
    path = Path(path)
    lines = [line.split() for _, line in content_lines(read_text(path))]
    if lines and len(lines[0]) > 4 and not _is_number(lines[0][1]):
        try:
            params = np.array([float(x) for x in lines[0][4:]])
            return ColmapCamera(lines[0][1], int(lines[0][2]), int(lines[0][3]), params)
        except (ValueError, OverflowError):
            raise ParseError(
                path, 1, "expected CAMERA_ID MODEL WIDTH HEIGHT PARAMS…, as in COLMAP's cameras.txt"
            ) from None
        except ArgumentError as error:
            raise ParseError(path, 1, str(error)) from None
    words = [word for line in lines for word in line]
    if len(words) != 9 or not all(map(_is_number, words)):
        raise ParseError(path, None, "expected the nine numbers of K, or a line of COLMAP's cameras.txt")
    K = np.array([float(x) for x in words]).reshape(3, 3)
    if K[0, 1] or K[1, 0] or np.any(K[2] != [0.0, 0.0, 1.0]) or not (K[0, 0] > 0.0 and K[1, 1] > 0.0):
        raise ParseError(path, None, "K must have positive focal lengths, no skew and a last row 0 0 1")
    try:
        return ColmapCamera("PINHOLE", 0, 0, np.array([K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5]))
    except ArgumentError as error:
        raise ParseError(path, None, str(error)) from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
