"""Which pairs of photographs are worth matching."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tempose._typing import Array
from tempose.errors import ArgumentError, OptionError
from tempose.geometry.geodesy import enu_from_geodetic
from tempose.sfm.photographs import Photograph
from tempose.sfm.retrieval import most_similar

PAIRINGS = ("auto", "all", "similar", "sequence", "gps")
"""All; each with those most like it, next to it in time, or nearest by GPS; ``auto``: all of few, similar ones of many."""
FEW = 40
"""Up to so many photographs, ``auto`` matches all pairs."""
# chosen on: EPFL photographs castle-P30, HJ-P25, fountain and entry in one folder
NEIGHBOURS = 30
"""Others that a photograph is matched with, by similarity or by GPS."""
NEXT, ALSO_NEXT = 10, 2
"""Photographs after it that one is matched with in a sequence, and besides similar ones."""

Pairing = set[tuple[int, int]]


def choose_pairs(kind: str, photographs: list[Photograph], alike: Callable[[], Array]) -> Pairing:
    """Pairs (i < j) of photographs to match.

    Parameters
    ----------
    kind
        One of :data:`PAIRINGS`.
    photographs
        In the order of their names.
    alike
        Makes the similarity (n, n) of all pairs, if it is needed.
    """
    n = len(photographs)
    match kind:
        case "all":
            return {(i, j) for i in range(n) for j in range(i + 1, n)}
        case "auto":
            if n <= FEW:
                return choose_pairs("all", photographs, alike)
            return most_similar(alike(), NEIGHBOURS) | _in_sequence(photographs, ALSO_NEXT)
        case "similar":
            return most_similar(alike(), NEIGHBOURS)
        case "sequence":
            return _in_sequence(photographs, NEXT) | _in_sequence(photographs, n, doubling=True)
        case "gps":
            return most_similar(-_distances(photographs), NEIGHBOURS)
    raise OptionError(f"unknown pairs {kind!r}: choose one of {', '.join(PAIRINGS)}")


def _in_sequence(photographs: list[Photograph], most: int, *, doubling: bool = False) -> Pairing:
    """Each with the next ones in time, if all say when they were taken, else by name; or 1, 2, 4, … after it."""
    times = [one.exif.time if one.exif else "" for one in photographs]
    order = sorted(range(len(times)), key=lambda k: (times[k] if all(times) else "", k))
    steps = [1 << k for k in range(most.bit_length())] if doubling else list(range(1, most + 1))
    pairs = [(order[k], order[k + step]) for step in steps for k in range(len(order) - step)]
    return {(min(pair), max(pair)) for pair in pairs}


def _distances(photographs: list[Photograph]) -> Array:
    """Horizontal distances (n, n), metres."""
    places = []
    for one in photographs:
        if one.exif is None or one.exif.lat_deg is None or one.exif.lon_deg is None:
            raise ArgumentError(
                f"pairs by GPS need a position in the EXIF of every photograph, and {one.name} has none; use --match similar"
            )
        places.append((one.exif.lat_deg, one.exif.lon_deg))
    lat, lon = np.array(places).T
    at = enu_from_geodetic(lat, lon, np.zeros(len(lat)), (lat[0], lon[0], 0.0))[:, :2]
    return np.asarray(np.linalg.norm(at[:, None] - at[None], axis=2))
