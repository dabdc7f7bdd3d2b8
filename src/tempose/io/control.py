"""Where surveyed points are in photographs: a table of image points.

The first row names the columns, in any order (separators and comments as in :mod:`tempose.io.csvfile`)::

    image, x, y, point, sigma_px

- ``x`` and ``y`` are pixels from the upper left corner of the image, whose first pixel has its middle at 0.5, 0.5.
- ``sigma_px`` is 1σ per axis of the pointing; it may be missing, or empty: 1 pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, PathLike
from tempose.errors import ParseError
from tempose.io import csvfile

_COLUMNS = ("image", "x", "y", "point", "sigma_px")


@dataclass(frozen=True, eq=False)
class ImagePoints:
    """Points seen in photographs.

    Attributes
    ----------
    path, lines
        The file, and where each stands in it.
    images, points
        Names (k,).
    pixel
        (k, 2).
    sigma_px
        1σ per axis (k,), NaN where it is not said.
    """

    path: PathLike
    lines: tuple[int, ...]
    images: tuple[str, ...]
    points: tuple[str, ...]
    pixel: Array
    sigma_px: Array


def read_image_points(path: PathLike) -> ImagePoints:
    """Read a table of image points; see the module for the columns."""
    table = csvfile.NamedColumns(path, "image")
    for name in _COLUMNS[:4]:
        if not table.has(name):
            raise ParseError(path, None, f"there is no column {name!r}; expected {','.join(_COLUMNS)}")
    unknown = next((name for name in table.columns if name and name not in _COLUMNS), None)
    if unknown is not None:
        raise ParseError(path, None, f"the column {unknown!r} is not known; known are {', '.join(_COLUMNS)}")
    images, points = (tuple(str(cell) for cell in table.words([name])[:, 0]) for name in ("image", "point"))
    table.refuse(np.array([not name for name in points]), "the point has no name")
    pixel = table.numbers(["x", "y"])
    sigma = table.optional("sigma_px", np.nan)
    table.refuse(~np.isnan(sigma) & ~(sigma > 0.0), "sigma_px is not above zero")
    return ImagePoints(path, table.lines, images, points, pixel, sigma)
