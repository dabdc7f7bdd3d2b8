"""COLMAP databases: cameras, keypoints and putative matches, and what an earlier run has left in one.

They are SQLite files, read with Python's own SQLite. pycolmap has another copy of it: nothing here may be called while
pycolmap writes to the same file, because closing a file in one copy drops the locks that the other holds.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose._typing import Array, Index, PathLike
from tempose.errors import ParseError
from tempose.io.colmap.cameras import ColmapCamera

_PAIR = 2147483647  # COLMAP's pair_id is image_id1 * 2147483647 + image_id2


@dataclass(frozen=True, eq=False)
class ColmapDatabase:
    """Images in the order of their names, and the matches between them.

    Attributes
    ----------
    names
        File names of the images.
    cameras
        One per image.
    keypoints
        Per image, pixels (k, 2), lens distortion included.
    matches
        By two rows of images, the first smaller: rows of keypoints (k, 2) in the first and the second.
    n_cameras, n_guessed
        Cameras of the database, and those whose focal length comes from no calibration.
    """

    names: tuple[str, ...]
    cameras: tuple[ColmapCamera, ...]
    keypoints: tuple[Array, ...]
    matches: dict[tuple[int, int], Index]
    n_cameras: int
    n_guessed: int


def read_database(path: PathLike) -> ColmapDatabase:
    """Read cameras, keypoints and putative matches (before any verification)."""
    path = Path(path)
    if not path.is_file():
        raise ParseError(path, None, "no such file; expected a COLMAP database")
    try:
        with closing(_open(path)) as connection:
            return _read(connection)
    except (sqlite3.DatabaseError, ValueError) as error:
        raise ParseError(
            path,
            None,
            f"cannot be read as a COLMAP database ({error}); is it whole, and has COLMAP finished writing it?",
        ) from None
    except KeyError as error:
        raise ParseError(path, None, f"an image has camera {error}, which the database does not have") from None


def _open(path: Path, seconds: float = 5.0) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=seconds)


def _read(connection: sqlite3.Connection) -> ColmapDatabase:
    cameras = {
        row[0]: ColmapCamera.numbered(row[1], row[2], row[3], np.frombuffer(row[4], dtype=np.float64))
        for row in connection.execute("SELECT camera_id, model, width, height, params FROM cameras")
    }
    images = list(connection.execute("SELECT image_id, name, camera_id FROM images ORDER BY name"))
    row_of = {image: row for row, (image, _, _) in enumerate(images)}
    keypoints: list[Array] = [np.empty((0, 2)) for _ in images]
    for image, rows, cols, data in connection.execute("SELECT image_id, rows, cols, data FROM keypoints"):
        if image in row_of and rows:
            pixel = np.frombuffer(data, dtype=np.float32).reshape(rows, cols)[:, :2].astype(np.float64)
            keypoints[row_of[image]] = pixel
    return ColmapDatabase(
        tuple(name for _, name, _ in images),
        tuple(cameras[camera] for _, _, camera in images),
        tuple(keypoints),
        _read_matches(connection, row_of, keypoints),
        len(cameras),
        connection.execute("SELECT COUNT(*) FROM cameras WHERE NOT prior_focal_length").fetchone()[0],
    )


def _read_matches(
    connection: sqlite3.Connection, row_of: dict[int, int], keypoints: list[Array]
) -> dict[tuple[int, int], Index]:
    found: dict[tuple[int, int], Index] = {}
    for pair_id, rows, data in connection.execute("SELECT pair_id, rows, data FROM matches"):
        first, second = divmod(pair_id, _PAIR)
        if not rows or first not in row_of or second not in row_of:
            continue
        match = np.frombuffer(data, dtype=np.uint32).reshape(rows, 2).astype(np.int64)
        i, j = row_of[first], row_of[second]
        if np.any(match.max(axis=0) >= [len(keypoints[i]), len(keypoints[j])]):
            raise ValueError(f"matches of images {first} and {second} name keypoints that are not there")
        found[min(i, j), max(i, j)] = match if i < j else match[:, ::-1]
    return {pair: found[pair] for pair in sorted(found)}


# ---------------------------------------------------------------------- what an earlier run has left


@dataclass(frozen=True, eq=False)
class Contents:
    """What a database was made of.

    Attributes
    ----------
    names
        Of its images.
    params
        Parameters of each camera.
    matched, verified
        Whether any pair has matches, and whether any has a two-view geometry.
    """

    names: frozenset[str]
    params: tuple[Array, ...]
    matched: bool
    verified: bool


def contents(path: Path) -> Contents:
    """What a database was made of; ``sqlite3.Error`` where it cannot be read."""
    with closing(_open(path)) as connection:
        names = frozenset(name for (name,) in connection.execute("SELECT name FROM images"))
        params = tuple(np.frombuffer(data) for (data,) in connection.execute("SELECT params FROM cameras"))
        matched, verified = (
            bool(connection.execute(f"SELECT EXISTS(SELECT 1 FROM {table})").fetchone()[0])
            for table in ("matches", "two_view_geometries")
        )
    return Contents(names, params, matched, verified)


def count_rows(path: Path, table: str) -> int:
    """Rows of a table; 0 where there is no such table or file."""
    if not path.exists():
        return 0
    try:
        with closing(_open(path, seconds=1.0)) as connection:
            return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
    except sqlite3.Error:
        return 0


def focal_length(path: Path) -> tuple[float, bool]:
    """Focal length of the (one) camera of a database, pixels, and whether it comes from EXIF."""
    with closing(_open(path)) as connection:
        params, known = connection.execute("SELECT params, prior_focal_length FROM cameras").fetchone()
    return float(np.frombuffer(params)[0]), bool(known)
