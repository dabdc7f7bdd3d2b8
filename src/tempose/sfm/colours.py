"""Colours of points: from the photographs, or by how unsure they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempose._support.packages import require
from tempose._typing import Array
from tempose.sfm.points import Observations, Structure
from tempose.sfm.views import Views


def sigma_colours(structure: Structure) -> NDArray[np.uint8]:
    """Jet (p, 3) over log σ, from the 2% to the 98% quantile of the good points; grey where σ is unknown."""
    sigma = structure.sigma
    known = np.isfinite(sigma) & (sigma > 0.0)
    good = known & structure.good
    out = np.full((len(sigma), 3), 128, np.uint8)
    if not good.any():
        return out
    low, high = np.quantile(np.log(sigma[good]), [0.02, 0.98])
    out[known] = jet((np.log(sigma[known]) - low) / max(high - low, 1e-12))
    return out


def jet(x: Array) -> NDArray[np.uint8]:
    """The colour map of the paper's pictures, (n, 3) bytes for values in [0, 1]: blue, cyan, yellow, red."""
    x = np.clip(x, 0.0, 1.0)[:, None]
    return np.asarray(np.rint(255 * np.clip(1.5 - np.abs(4.0 * x - [3.0, 2.0, 1.0]), 0.0, 1.0)), np.uint8)


def sample_colours(folder: Path, views: Views, seen: Observations) -> NDArray[np.uint8] | None:
    """Mean colour (p, 3) of every point over its views; ``None`` if the photographs are not there."""
    pycolmap = require("pycolmap", "colours of points")
    total, count = np.zeros((seen.n_points, 3)), np.zeros(seen.n_points)
    for row, name in enumerate(views.names):
        at = np.flatnonzero(seen.camera_of == row)
        bitmap = pycolmap.Bitmap.read(folder / name, True) if (folder / name).is_file() else None
        if bitmap is None:
            continue
        picture = np.asarray(bitmap.to_array())[..., :3]
        x, y = np.floor(seen.pixel[at]).astype(np.int64).T  # pixel centres are at .5
        inside = (x >= 0) & (y >= 0) & (x < picture.shape[1]) & (y < picture.shape[0])
        np.add.at(total, seen.point_of[at[inside]], picture[y[inside], x[inside]].astype(float))
        np.add.at(count, seen.point_of[at[inside]], 1.0)
    if not count.any():
        return None
    return np.round(np.where(count[:, None] > 0, total / np.maximum(count, 1.0)[:, None], 128.0)).astype(np.uint8)
