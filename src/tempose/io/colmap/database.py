"""COLMAP databases: cameras, keypoints and putative matches, and what an earlier run has left in one.

They are SQLite files, read with Python's own SQLite. pycolmap has another copy of it: nothing here may be called while
pycolmap writes to the same file, because closing a file in one copy drops the locks that the other holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tempose._typing import Array, Index, PathLike
from tempose.errors import ArgumentError, ParseError
from tempose.io.colmap.cameras import ColmapCamera

_TABLES = ("cameras", "images", "keypoints", "descriptors", "matches", "two_view_geometries")
_PAIR_TABLES = ("matches", "two_view_geometries")
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


_SQLITE = b"SQLite format 3\0"


def read_database(path: PathLike) -> ColmapDatabase:
    """Read cameras, keypoints and putative matches (before any verification)."""
    path = Path(path)
    if not path.is_file():
        raise ParseError(path, None, "no such file; expected a COLMAP database")
    with open(path, "rb") as file:
        head = file.read(len(_SQLITE))
    if head and not _SQLITE.startswith(head):  # an empty file is an empty database
        raise ParseError(
            path,
            None,
            "not a COLMAP database; expected one, a COLMAP model, or a folder of photographs (a graph is for 'tempose solve')",
        )
    try:
        with closing(_open(path)) as connection:
            return _read(connection)
    except (sqlite3.Error, ValueError, OverflowError, ArgumentError) as error:
        raise ParseError(
            path,
            None,
            f"cannot be read as a COLMAP database ({error}); is it whole, and has COLMAP finished writing it?",
        ) from None


def _open(path: Path) -> sqlite3.Connection:
    """Read-only. Tables must be tables: a view could compute for ever.

    A database that was written with a log beside it wants to make a file there even to be read. Where there is no room for one, and
    no log is left over, it is read as it stands.
    """
    try:
        return _opened(path, "mode=ro")
    except sqlite3.OperationalError as error:
        beside = (path.with_name(path.name + end) for end in ("-wal", "-journal"))
        is_of_disk = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR  # Python's own have no code
        if not is_of_disk or any(one.exists() and one.stat().st_size for one in beside):
            raise
        return _opened(path, "mode=ro&immutable=1")


def _opened(path: Path, how: str) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)
    try:
        for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
            wrong = kind == "view" or (kind == "table" and "virtual" in str(text)[:20].lower())
            if wrong and name in _TABLES:
                raise sqlite3.DatabaseError(f"{name} is no table of COLMAP's")
    except BaseException:
        connection.close()
        raise
    return connection


def _read(connection: sqlite3.Connection) -> ColmapDatabase:
    cameras = {}
    for row in connection.execute("SELECT camera_id, model, width, height, params FROM cameras"):
        number, model, width, height = (_whole(cell, "cameras") for cell in row[:4])
        cameras[number] = ColmapCamera.numbered(model, width, height, np.frombuffer(_blob(row[4], 8), dtype=np.float64))
    images = []
    for image, name, camera in connection.execute("SELECT image_id, name, camera_id FROM images ORDER BY name"):
        if not isinstance(name, str) or not name:
            raise ValueError("an image has no name")
        if _whole(camera, "images") not in cameras:
            raise ValueError(f"an image has camera {camera}, which the database does not have")
        images.append((_whole(image, "images"), name, camera))
    row_of = {image: row for row, (image, _, _) in enumerate(images)}
    keypoints: list[Array] = [np.empty((0, 2)) for _ in images]
    for image, rows, cols, data in connection.execute("SELECT image_id, rows, cols, data FROM keypoints"):
        if image in row_of and _whole(rows, "keypoints"):
            if not 2 <= _whole(cols, "keypoints") <= 6:
                raise ValueError(f"keypoints of image {image} have {cols} numbers each")
            pixel = np.frombuffer(_blob(data, 4), dtype=np.float32).reshape(rows, cols)[:, :2].astype(np.float64)
            if not np.all(np.isfinite(pixel)):
                raise ValueError(f"a keypoint of image {image} is not finite")
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
        first, second = divmod(_whole(pair_id, "matches"), _PAIR)
        if not _whole(rows, "matches") or first not in row_of or second not in row_of:
            continue
        match = np.frombuffer(_blob(data, 4), dtype=np.uint32).reshape(rows, 2).astype(np.int64)
        if first == second:
            raise ValueError(f"image {first} is matched with itself")
        i, j = row_of[first], row_of[second]
        if np.any(match.max(axis=0) >= [len(keypoints[i]), len(keypoints[j])]):
            raise ValueError(f"matches of images {first} and {second} name keypoints that are not there")
        found[min(i, j), max(i, j)] = match if i < j else match[:, ::-1]
    return {pair: found[pair] for pair in sorted(found)}


def _whole(cell: object, table: str) -> int:
    """A cell that must hold a whole number from 0 on: SQLite lets any cell hold anything."""
    if not isinstance(cell, int) or cell < 0:
        raise ValueError(f"a cell of the table {table} is no whole number from 0 on")
    return cell


def _blob(cell: object, size: int) -> bytes:
    """A cell that must hold numbers of so many bytes each."""
    if not isinstance(cell, bytes) or len(cell) % size:
        raise ValueError("a cell does not hold the numbers that it should")
    return cell


# ---------------------------------------------------------------------- what an earlier run has left


@dataclass(frozen=True, eq=False)
class Contents:
    """What a database was made of.

    Attributes
    ----------
    camera_of
        Number of the camera of each image, by the image's name.
    params
        Parameters of each camera.
    matched, verified
        Whether any pair has matches, and whether any has a two-view geometry.
    """

    camera_of: dict[str, int]
    params: tuple[Array, ...]
    matched: bool
    verified: bool


def contents(path: Path) -> Contents:
    """What a database was made of; every cell is looked at, since COLMAP itself, which goes on from it, does not.

    Raises
    ------
    ParseError
        If it cannot be read.
    """
    read_database(path)
    try:
        return _contents(path)
    except (sqlite3.Error, ValueError, OverflowError) as error:
        raise ParseError(path, None, f"cannot be read as a COLMAP database ({error})") from None


def _contents(path: Path) -> Contents:
    with closing(_open(path)) as connection:
        for table, sizes in (
            ("keypoints", "4"),
            ("descriptors", "1, 4"),
            ("matches", "4"),
            ("two_view_geometries", "4"),
        ):
            sound = (
                "typeof(rows) = 'integer' AND typeof(cols) = 'integer' AND rows >= 0 AND cols >= 0 AND (rows = 0 OR "
                f"(typeof(data) = 'blob' AND length(data) / (rows * max(cols, 1)) IN ({sizes})"
                " AND length(data) % (rows * max(cols, 1)) = 0))"
            )
            if connection.execute(f"SELECT EXISTS(SELECT 1 FROM {table} WHERE NOT ({sound}))").fetchone()[0]:
                raise ValueError(f"a row of the table {table} is not what COLMAP writes")
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise ValueError("it is damaged")
        camera_of = {name: int(camera) for name, camera in connection.execute("SELECT name, camera_id FROM images")}
        params = tuple(np.frombuffer(_blob(data, 8)) for (data,) in connection.execute("SELECT params FROM cameras"))
        matched, verified = (
            bool(connection.execute(f"SELECT EXISTS(SELECT 1 FROM {table})").fetchone()[0])
            for table in ("matches", "two_view_geometries")
        )
    return Contents(camera_of, params, matched, verified)


def in_one_file(path: Path) -> None:
    """Put what SQLite keeps beside a database into it; nobody else may have it open. Readers then leave nothing beside it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)


class PairRows(NamedTuple):
    """Rows of the tables ``matches`` and ``two_view_geometries`` of a database, as they are."""

    matches: list[tuple[Any, ...]]
    geometries: list[tuple[Any, ...]]


def read_pair_rows(path: Path, pair_ids: Sequence[int]) -> PairRows:
    """The rows of some pairs, in their order; those that a database does not have are left out."""
    with closing(sqlite3.connect(path)) as connection:
        found = [
            [
                row
                for number in pair_ids
                for row in connection.execute(f"SELECT * FROM {table} WHERE pair_id = ?", (number,))
            ]
            for table in _PAIR_TABLES
        ]
    return PairRows(*found)


def write_pair_rows(path: Path, rows: PairRows) -> None:
    """Put rows into a database of the same kind, all or none; nobody else may have it open."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, some in zip(_PAIR_TABLES, rows, strict=True):
            if some:
                places = ", ".join("?" * len(some[0]))
                connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", some)


def focal_lengths(path: Path) -> list[tuple[float, bool]]:
    """Focal length of each camera of a database, pixels, and whether it comes from EXIF."""
    try:
        with closing(_open(path)) as connection:
            rows = connection.execute("SELECT params, prior_focal_length FROM cameras ORDER BY rowid").fetchall()
        found = [(float(np.frombuffer(_blob(params, 8))[0]), bool(known)) for params, known in rows]
        if not found:
            raise ValueError("it has no cameras")
        return found
    except (sqlite3.Error, ValueError, IndexError) as error:
        raise ParseError(path, None, f"has no camera with a focal length ({error})") from None
