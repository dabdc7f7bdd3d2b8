"""Coordinates of maps, by pyproj: x, y and z with x to the east, and latitude, longitude and height of WGS84."""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array
from tempose.errors import OptionError


def geodetic_from_map(crs: str, place: Array) -> Array:
    """Latitude, longitude (degrees) and height (k, 3) of places on a map (k, 3)."""
    lon, lat, height = _transformer(crs, to_map=False).transform(*place.T)
    return np.column_stack([lat, lon, height])


def map_from_geodetic(crs: str, geodetic: Array) -> Array:
    """Places on a map (k, 3) of latitude, longitude (degrees) and height (k, 3)."""
    lat, lon, height = geodetic.T
    return np.column_stack(_transformer(crs, to_map=True).transform(lon, lat, height))


def _transformer(crs: str, *, to_map: bool) -> Any:
    """Pyproj's, with east and longitude first on both sides."""
    pyproj = require("pyproj", "coordinates of maps")
    try:
        found = pyproj.CRS.from_user_input(crs)
    except pyproj.exceptions.CRSError:
        raise OptionError(
            f"{crs!r} is no coordinate system that pyproj knows; expected, for instance, EPSG:32632"
        ) from None
    there, earth = found if len(found.axis_info) > 2 else found.to_3d(), pyproj.CRS("EPSG:4979")
    source, target = (earth, there) if to_map else (there, earth)
    return pyproj.Transformer.from_crs(source, target, always_xy=True)
