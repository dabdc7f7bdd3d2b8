"""Photographs made of others, so that the truth is still known: with distortion, cropped as by a zoom, or turned by 90°."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from tempose._support.packages import require
from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.photographs import find_images

CROP = 8
"""One part in so many is cut off at each side of a photograph that is to look as if taken with a longer lens."""
_ITERATIONS = 30


class Warping(NamedTuple):
    """What is done to photographs.

    Attributes
    ----------
    k1
        Radial distortion of all: a ray (x, y) is seen where (x, y) (1 + k1 r²) was.
    cropped, turned
        Every so manieth photograph is cropped, or turned by 90°, from the second or the first on; 0: none is.
    """

    k1: float = 0.0
    cropped: int = 0
    turned: int = 0

    def is_cropped(self, k: int) -> bool:
        """Whether photograph k is."""
        return bool(self.cropped) and k % self.cropped == 1

    def is_turned(self, k: int) -> bool:
        """Whether photograph k is."""
        return bool(self.turned) and k % self.turned == 0


VARIANTS: dict[str, Warping] = {
    "k1=-0.25": Warping(k1=-0.25),
    "k1=-0.1": Warping(k1=-0.1),
    "k1=0.1": Warping(k1=0.1),
    "zoom": Warping(cropped=2),
    "turned": Warping(turned=3),
}


def write_warped(source: Path, target: Path, warping: Warping) -> None:
    """Warp all photographs of a folder that has their matrix K in ``K.txt``."""
    pycolmap = require("pycolmap", "reading photographs")
    target.mkdir(parents=True)
    K = np.loadtxt(source / "K.txt")
    for k, name in enumerate(find_images(source)):
        image = pycolmap.Bitmap.read(source / name, as_rgb=True).to_array()
        out = bent(image, K, warping.k1) if warping.k1 else image
        if warping.is_cropped(k):
            height, width = out.shape[:2]
            out = out[height // CROP : height - height // CROP, width // CROP : width - width // CROP]
        if warping.is_turned(k):
            out = np.rot90(out)
        pycolmap.Bitmap.from_array(np.ascontiguousarray(out)).write(target / name)


def bent(image: NDArray[np.uint8], K: Array, k1: float) -> NDArray[np.uint8]:
    """An image (h, w, 3) without distortion as a lens with distortion would see it; black where nothing was seen."""
    rows, columns = np.mgrid[0 : image.shape[0], 0 : image.shape[1]].astype(float)
    seen = np.stack([(columns - K[0, 2]) / K[0, 0], (rows - K[1, 2]) / K[1, 1]])
    ray = seen.copy()
    for _ in range(_ITERATIONS):
        ray = seen / (1.0 + k1 * np.sum(ray**2, axis=0))
    at = [ray[1] * K[1, 1] + K[1, 2], ray[0] * K[0, 0] + K[0, 2]]
    out = [map_coordinates(image[..., c].astype(float), at, order=1, mode="constant") for c in range(3)]
    return np.asarray(np.clip(np.round(np.stack(out, axis=-1)), 0, 255).astype(np.uint8))


def turned_truth(truth: Poses, warping: Warping) -> Poses:
    """True poses of warped photographs, which are in the order of their names."""
    quarter = quat.from_matrix(np.array([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]]))[0]
    wxyz = truth.wxyz.copy()
    for k, row in enumerate(np.argsort(truth.ids)):
        if warping.is_turned(k):
            wxyz[row] = quat.multiply(wxyz[row], quarter)
    return Poses(truth.ids, wxyz, truth.position)
