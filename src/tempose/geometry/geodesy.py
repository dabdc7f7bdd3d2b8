"""Latitude, longitude and height on the WGS84 ellipsoid as metres in a local frame: x east, y north, z up."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array

SEMI_MAJOR = 6_378_137.0  # metres
FLATTENING = 1.0 / 298.257223563


def ecef_from_geodetic(lat_deg: ArrayLike, lon_deg: ArrayLike, height: ArrayLike) -> Array:
    """Earth-centred, earth-fixed coordinates (…, 3), metres, of points given in degrees and metres above the ellipsoid.

    With ``N = a / √(1 − e² sin² φ)`` and ``e² = f(2 − f)``: ``((N + h) cos φ cos λ, (N + h) cos φ sin λ, (N(1 − e²) + h) sin φ)``.
    """
    lat, lon, h = np.radians(lat_deg), np.radians(lon_deg), np.asarray(height, float)
    e2 = FLATTENING * (2.0 - FLATTENING)
    N = SEMI_MAJOR / np.sqrt(1.0 - e2 * np.sin(lat) ** 2)
    across = (N + h) * np.cos(lat)
    return np.stack([across * np.cos(lon), across * np.sin(lon), (N * (1.0 - e2) + h) * np.sin(lat)], axis=-1)


def enu_axes(lat_deg: float, lon_deg: float) -> Array:
    """Rows (3, 3): the directions east, north and up at a place, in earth-centred, earth-fixed coordinates."""
    lat, lon = np.radians(lat_deg), np.radians(lon_deg)
    return np.array(
        [
            [-np.sin(lon), np.cos(lon), 0.0],
            [-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)],
            [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)],
        ]
    )


def enu_from_geodetic(
    lat_deg: ArrayLike, lon_deg: ArrayLike, height: ArrayLike, origin: tuple[float, float, float]
) -> Array:
    """Metres east, north and up (…, 3) of an origin that is given like the points: latitude, longitude, height."""
    there = ecef_from_geodetic(lat_deg, lon_deg, height) - ecef_from_geodetic(*origin)
    return np.asarray(there @ enu_axes(origin[0], origin[1]).T)


def geodetic_from_enu(position: ArrayLike, origin: tuple[float, float, float]) -> Array:
    """Latitude, longitude (degrees) and height (…, 3) of places given in metres east, north and up of an origin."""
    here = np.asarray(position, float) @ enu_axes(origin[0], origin[1]) + ecef_from_geodetic(*origin)
    e2 = FLATTENING * (2.0 - FLATTENING)
    across = np.hypot(here[..., 0], here[..., 1])
    lat = np.arctan2(here[..., 2], across * (1.0 - e2))
    for _ in range(10):  # of Bowring's kind: each adds four digits near the ground
        N = SEMI_MAJOR / np.sqrt(1.0 - e2 * np.sin(lat) ** 2)
        lat = np.arctan2(here[..., 2] + e2 * N * np.sin(lat), across)
    N = SEMI_MAJOR / np.sqrt(1.0 - e2 * np.sin(lat) ** 2)
    # one of the two loses digits: at the poles the first, at the equator the second
    height = across * np.cos(lat) + here[..., 2] * np.sin(lat) - SEMI_MAJOR**2 / N
    return np.stack([np.degrees(lat), np.degrees(np.arctan2(here[..., 1], here[..., 0])), height], axis=-1)
