"""Colours of points: from the photographs, or by how unsure they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempose._support.packages import require
from tempose._typing import Array
from tempose.errors import OptionError
from tempose.sfm.points import Observations, Structure
from tempose.sfm.views import Views

_VIRIDIS = (
    "440154", "48186a", "472d7b", "424086", "3b528b", "33638d", "2c728e", "26828e", "21918c", "1fa088", "28ae80", "3fbc73",
    "5ec962", "84d44b", "addc30", "d8e219", "fde725",
)  # fmt: skip


def sigma_colours(structure: Structure, colours: str = "viridis") -> NDArray[np.uint8]:
    """Colours (p, 3) over log σ, from the 2% to the 98% quantile of the good points; grey where σ is unknown.

    Parameters
    ----------
    structure
        The points.
    colours
        One of :data:`COLOURS`.
    """
    sigma = structure.sigma
    known = np.isfinite(sigma) & (sigma > 0.0)
    out = np.full((len(sigma), 3), 128, np.uint8)
    ends = sigma_ends(structure)
    if ends is None:
        return out
    low, high = np.log(ends)
    out[known] = colour_map(colours)((np.log(sigma[known]) - low) / max(high - low, 1e-12))
    return out


def sigma_ends(structure: Structure) -> tuple[float, float] | None:
    """The σ of the first and of the last colour; ``None`` where no good point has one."""
    sigma = structure.sigma
    good = np.isfinite(sigma) & (sigma > 0.0) & structure.good
    if not good.any():
        return None
    low, high = np.exp(np.quantile(np.log(sigma[good]), [0.02, 0.98]))
    return float(low), float(high)


def jet(x: Array) -> NDArray[np.uint8]:
    """The colour map of the paper's pictures, (n, 3) bytes for values in [0, 1]: blue, cyan, yellow, red."""
    x = np.clip(x, 0.0, 1.0)[:, None]
    return np.asarray(np.rint(255 * np.clip(1.5 - np.abs(4.0 * x - [3.0, 2.0, 1.0]), 0.0, 1.0)), np.uint8)


def viridis(x: Array) -> NDArray[np.uint8]:
    """Equal steps look equal, also without colour: (n, 3) bytes for values in [0, 1], from dark blue by green to yellow."""
    stops = np.array([[int(one[k : k + 2], 16) for k in (0, 2, 4)] for one in _VIRIDIS], float)
    place = np.clip(x, 0.0, 1.0) * (len(stops) - 1)
    return np.asarray(
        np.rint(np.stack([np.interp(place, np.arange(len(stops)), stops[:, k]) for k in range(3)], axis=1)), np.uint8
    )


COLOURS = {"viridis": viridis, "jet": jet}
"""Colour maps by name."""


def colour_map(name: str) -> Callable[[Array], NDArray[np.uint8]]:
    """A colour map by its name."""
    if name not in COLOURS:
        raise OptionError(f"unknown colours {name!r}: choose one of {', '.join(COLOURS)}")
    return COLOURS[name]


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
