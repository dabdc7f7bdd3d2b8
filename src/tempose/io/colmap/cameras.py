"""Cameras as COLMAP stores them: a model by name, an image size, and the model's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Index, PathLike
from tempose.errors import NotApplicable, ParseError

_PINHOLES = {0: "SIMPLE_PINHOLE", 1: "PINHOLE"}  # COLMAP's numbers of the models without distortion


@dataclass(frozen=True, eq=False)
class ColmapCamera:
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
    def numbered(cls, model: int, width: int, height: int, params: Array) -> ColmapCamera:
        """A camera by COLMAP's number of the model, as databases have it."""
        return cls(_PINHOLES.get(model, model), width, height, params)

    @classmethod
    def pinhole(cls, K: Array, size: Index) -> ColmapCamera:
        """A camera without distortion: its matrix (3, 3), and width and height (2,)."""
        return cls("PINHOLE", int(size[0]), int(size[1]), np.array([K[0, 0], K[1, 1], K[0, 2], K[1, 2]]))

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
        K = np.array(self.pycolmap().calibration_matrix())
        if K[0, 1] != 0.0:
            raise NotApplicable(f"cameras with skew ({self.model}) are not supported; undistort the images first")
        return K

    def undistorted(self, pixel: Array) -> Array:
        """Pixels (k, 2) where the pinhole with the camera's ``K`` would have seen the same rays."""
        if self.is_pinhole or not len(pixel):
            return pixel
        ray = np.array(self.pycolmap().cam_from_img(pixel))
        return ray * np.diag(self.K)[:2] + self.K[:2, 2]

    def pycolmap(self) -> Any:
        """The same camera as pycolmap's."""
        pycolmap = require("pycolmap", f"a camera of the model {self.model}")
        model = pycolmap.CameraModelId(self.model) if isinstance(self.model, int) else self.model
        return pycolmap.Camera(model=model, width=self.width, height=self.height, params=self.params)


def read_camera(path: PathLike) -> ColmapCamera:
    """A camera from a file: nine numbers of ``K``, or a line of COLMAP's ``cameras.txt``.

    ``K`` is taken to count whole numbers at pixel centres, as most calibrations do; COLMAP counts .5 there, and so
    its principal point is larger by .5.
    """
    path = Path(path)
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise ParseError(path, None, f"cannot be read ({error})") from None
    if lines and len(lines[0]) > 4 and not _is_number(lines[0][1]):
        try:
            params = np.array([float(x) for x in lines[0][4:]])
            return ColmapCamera(lines[0][1], int(lines[0][2]), int(lines[0][3]), params)
        except ValueError:
            raise ParseError(
                path, 1, "expected CAMERA_ID MODEL WIDTH HEIGHT PARAMS…, as in COLMAP's cameras.txt"
            ) from None
    words = [word for line in lines for word in line]
    if len(words) != 9 or not all(map(_is_number, words)):
        raise ParseError(path, None, "expected the nine numbers of K, or a line of COLMAP's cameras.txt")
    K = np.array([float(x) for x in words]).reshape(3, 3)
    if K[0, 1] or np.any(K[2] != [0.0, 0.0, 1.0]) or not (K[0, 0] > 0.0 and K[1, 1] > 0.0):
        raise ParseError(path, None, "K must have positive focal lengths, no skew and a last row 0 0 1")
    return ColmapCamera("PINHOLE", 0, 0, np.array([K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5]))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
