"""COLMAP databases: cameras, keypoints and matches."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._typing import Array, Index
from tempose.errors import ParseError
from tempose.sfm.cameras import Intrinsics, undistort
from tempose.sfm.views import Views

_PAIR = 2147483647  # COLMAP's pair_id is image_id1 * 2147483647 + image_id2


def read_database(path: str | Path, fewest_matches: int = 15, *, photographs: Path | None = None) -> Views:
    """Read cameras, keypoints and putative matches (before any verification) of a COLMAP database.

    Matches whose two keypoints lie at the same two places as an earlier one (SIFT gives a place several orientations)
    are the same measurement and are dropped. Pairs with fewer than ``fewest_matches`` are left out. ``photographs`` is the
    folder it was made from, if the user does not know of the database.
    """
    path = Path(path)
    if not path.is_file():
        raise ParseError(path, None, "no such file; expected a COLMAP database")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return _read(connection, photographs or path, fewest_matches)
    except (sqlite3.DatabaseError, ValueError) as error:
        raise ParseError(
            path,
            None,
            f"cannot be read as a COLMAP database ({error}); is it whole, and has COLMAP finished writing it?",
        ) from None
    except KeyError as error:
        raise ParseError(path, None, f"an image has camera {error}, which the database does not have") from None


def _read(connection: sqlite3.Connection, path: Path, fewest: int) -> Views:
    cameras = {
        row[0]: Intrinsics.from_colmap(row[1], row[2], row[3], np.frombuffer(row[4], dtype=np.float64))
        for row in connection.execute("SELECT camera_id, model, width, height, params FROM cameras")
    }
    images = list(connection.execute("SELECT image_id, name, camera_id FROM images ORDER BY name"))
    if not images:
        raise ParseError(path, None, "the database has no images; run COLMAP's feature extraction on it first")
    row_of = {image: row for row, (image, _, _) in enumerate(images)}
    keypoints: list[Array] = [np.empty((0, 2)) for _ in images]
    for image, rows, cols, data in connection.execute("SELECT image_id, rows, cols, data FROM keypoints"):
        if image in row_of and rows:
            pixel = np.frombuffer(data, dtype=np.float32).reshape(rows, cols)[:, :2].astype(np.float64)
            keypoints[row_of[image]] = undistort(cameras[images[row_of[image]][2]], pixel)
    pairs, matches = _read_matches(connection, row_of, keypoints, fewest)
    if not len(pairs):
        raise ParseError(
            path, None,
            f"no two of its {len(images)} images share {fewest} matches; have they been matched, and do they overlap enough?",
        )  # fmt: skip
    each = [cameras[camera] for _, _, camera in images]
    guessed = connection.execute("SELECT COUNT(*) FROM cameras WHERE NOT prior_focal_length").fetchone()[0]
    notices = (
        f"{guessed} of the database's {len(cameras)} cameras have no focal length from a calibration, only a guess",
    )
    return Views(
        tuple(name for _, name, _ in images), np.array([c.K for c in each]), np.array([c.size for c in each]),
        tuple(keypoints), pairs, matches, notices if guessed else (), not guessed,
    )  # fmt: skip


def _read_matches(
    connection: sqlite3.Connection, row_of: dict[int, int], keypoints: list[Array], fewest: int
) -> tuple[Index, tuple[Index, ...]]:
    found: dict[tuple[int, int], Index] = {}
    for pair_id, rows, data in connection.execute("SELECT pair_id, rows, data FROM matches"):
        first, second = divmod(pair_id, _PAIR)
        if not rows or first not in row_of or second not in row_of:
            continue
        match = np.frombuffer(data, dtype=np.uint32).reshape(rows, 2).astype(np.int64)
        i, j = row_of[first], row_of[second]
        if np.any(match.max(axis=0) >= [len(keypoints[i]), len(keypoints[j])]):
            raise ValueError(f"matches of images {first} and {second} name keypoints that are not there")
        if i > j:
            i, j, match = j, i, match[:, ::-1]
        match = distinct(match, keypoints[i], keypoints[j])
        if len(match) >= fewest:
            found[i, j] = match
    order = sorted(found)
    return np.array(order, dtype=np.int64).reshape(-1, 2), tuple(found[p] for p in order)


def distinct(match: Index, pixel_i: Array, pixel_j: Array) -> Index:
    """The matches (k, 2) without those that repeat the places of an earlier one."""
    places: NDArray[Any] = np.concatenate([pixel_i[match[:, 0]], pixel_j[match[:, 1]]], axis=1)
    _, first = np.unique(places, axis=0, return_index=True)
    return match[np.sort(first)]
