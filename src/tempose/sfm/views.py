"""Views and their matches: what the stages from pairs to points work on, and how COLMAP's files become them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempose._typing import Array, Index, PathLike
from tempose.errors import ParseError
from tempose.io.colmap.cameras import ColmapCamera
from tempose.io.colmap.database import ColmapDatabase, read_database
from tempose.io.colmap.model import read_model
from tempose.sfm.photographs import OneCamera

FEWEST_MATCHES = 15
"""Pairs with fewer matches are left out."""


class GuessedCameras(NamedTuple):
    """How many of a database's cameras have no focal length from a calibration."""

    n_guessed: int
    n_cameras: int


class FoundFocalLength(NamedTuple):
    """No calibration was given: the focal length that pairs say, where the search for it began, and whether EXIF said so."""

    found_px: float
    start_px: float
    from_exif: bool


class FoundFocalLengths(NamedTuple):
    """The same of several cameras."""

    cameras: tuple[FoundFocalLength, ...]


class UnreadableImage(NamedTuple):
    """A file that is no image and is left out."""

    name: str


class OtherSize(NamedTuple):
    """An image that is left out because its size is not the usual one; width and height."""

    name: str
    size: tuple[int, int]
    usual: tuple[int, int]


class SharedCameras(NamedTuple):
    """Which photographs share intrinsics, and what the user asked for (``auto``, ``single``, ``each``)."""

    cameras: tuple[OneCamera, ...]
    asked: str


class ChosenPairs(NamedTuple):
    """How many of all pairs are matched, and how they were chosen."""

    n_pairs: int
    n_all: int
    asked: str


Remark = (
    GuessedCameras | FoundFocalLength | FoundFocalLengths | UnreadableImage | OtherSize | SharedCameras | ChosenPairs
)
"""What a user should know of how views were made."""


@dataclass(frozen=True, eq=False)
class Views:
    """Photographs as pinhole cameras with keypoints, and matches between pairs of them.

    Parameters
    ----------
    names
        One file name per view; these become the node ids.
    K
        Pinhole matrices (n, 3, 3), pixels, pixel centres at .5.
    size
        Width and height (n, 2), pixels.
    keypoints
        Per view, undistorted pixels (k, 2).
    pairs
        Rows of the two views (m, 2) of each matched pair, first < second.
    matches
        Per pair, rows of keypoints (k, 2) in the first and the second view.
    remarks
        What a user should know of how they were made.
    calibrated
        Whether ``K`` comes from a calibration; else the focal length was found from the pairs, or guessed.
    """

    names: tuple[str, ...]
    K: Array
    size: Index
    keypoints: tuple[Array, ...]
    pairs: Index
    matches: tuple[Index, ...]
    remarks: tuple[Remark, ...] = ()
    calibrated: bool = True

    def __len__(self) -> int:
        return len(self.names)

    @property
    def focal(self) -> Array:
        """Focal lengths (n, 2), pixels."""
        return np.stack([self.K[:, 0, 0], self.K[:, 1, 1]], axis=1)

    def rays(self, view: int, keypoints: Index) -> Array:
        """Normalised image coordinates (k, 2) of some keypoints of a view: ``(x/z, y/z)`` in the camera's frame."""
        return normalised(self.K[view], self.keypoints[view][keypoints])

    def match_rays(self, i: int, j: int, match: Index) -> tuple[Array, Array]:
        """:meth:`rays` of matches (k, 2) in view i and in view j."""
        return self.rays(i, match[:, 0]), self.rays(j, match[:, 1])

    def some(self, names: Sequence[object]) -> Views:
        """The views of these names, in their order, without pairs."""
        rows = [self.names.index(str(name)) for name in names]
        return replace(
            self,
            names=tuple(self.names[k] for k in rows),
            K=self.K[rows],
            size=self.size[rows],
            keypoints=tuple(self.keypoints[k] for k in rows),
            pairs=np.empty((0, 2), dtype=np.int64),
            matches=(),
        )


def normalised(K: Array, pixel: Array) -> Array:
    """Pixels (..., 2) of a pinhole camera as ``(x/z, y/z)``."""
    return np.asarray((pixel - K[:2, 2]) / np.array([K[0, 0], K[1, 1]]))  # COLMAP's cameras have no skew


def recalibrated(K: Array, camera_of: Index, pixel: Array, change: Array) -> tuple[Array, Array]:
    """Pinholes (n, 3, 3) and pixels (k, 2) of a slightly other calibration.

    ``change`` (n, 4): relative change of the focal lengths; of the principal point in x and y, in focal lengths; and of the
    radial distortion, the relative displacement of a pixel that is one focal length from the principal point.
    """
    focal, centre = np.stack([K[:, 0, 0], K[:, 1, 1]], axis=1), K[:, :2, 2]
    ray = (pixel - centre[camera_of]) / focal[camera_of]
    radial = 1.0 + change[camera_of, 3:] * np.sum(ray**2, axis=1, keepdims=True)
    out = K.copy()
    out[:, [0, 1], [0, 1]] = focal * (1.0 + change[:, :1])
    out[:, :2, 2] += focal * change[:, 1:3]
    return out, np.ascontiguousarray(centre[camera_of] + focal[camera_of] * ray * radial)


# ---------------------------------------------------------------------- from COLMAP's files


def read_database_views(
    path: PathLike, photographs: Path | None = None, cameras: Mapping[str, ColmapCamera] | None = None
) -> Views:
    """Views of a COLMAP database, with its putative matches.

    Matches whose two keypoints lie at the same two places as an earlier one (SIFT gives a place several orientations)
    are the same measurement and are dropped. ``photographs`` is the folder it was made from, if the user does not know of
    the database. ``cameras`` have other calibrations than the database, by the name of the image; other images are left out.
    """
    found = read_matched_database(path, photographs)
    if cameras is not None:
        found = _calibrated(found, cameras)
    keypoints = tuple(c.undistorted(pixel) for c, pixel in zip(found.cameras, found.keypoints, strict=True))
    matches = {(i, j): distinct(match, keypoints[i], keypoints[j]) for (i, j), match in found.matches.items()}
    kept = {pair: match for pair, match in matches.items() if len(match) >= FEWEST_MATCHES}
    if not kept:
        raise _too_few_matches(found, photographs or Path(path))
    return Views(
        found.names,
        np.array([c.K for c in found.cameras]),
        np.array([c.size for c in found.cameras]),
        keypoints,
        np.array(list(kept), dtype=np.int64),
        tuple(kept.values()),
        (GuessedCameras(found.n_guessed, found.n_cameras),) if found.n_guessed else (),
        not found.n_guessed,
    )


def _calibrated(found: ColmapDatabase, cameras: Mapping[str, ColmapCamera]) -> ColmapDatabase:
    rows = [row for row, name in enumerate(found.names) if name in cameras]
    new = {row: k for k, row in enumerate(rows)}
    return ColmapDatabase(
        tuple(found.names[row] for row in rows),
        tuple(cameras[found.names[row]] for row in rows),
        tuple(found.keypoints[row] for row in rows),
        {(new[i], new[j]): match for (i, j), match in found.matches.items() if i in new and j in new},
        len(cameras),
        0,
    )


def read_matched_database(path: PathLike, photographs: Path | None = None) -> ColmapDatabase:
    """A COLMAP database with images and matches; ``photographs`` as in :func:`read_database_views`."""
    found, origin = read_database(path), photographs or Path(path)
    if not found.names:
        raise ParseError(origin, None, "the database has no images; run COLMAP's feature extraction on it first")
    if all(len(match) < FEWEST_MATCHES for match in found.matches.values()):
        raise _too_few_matches(found, origin)
    return found


def _too_few_matches(found: ColmapDatabase, origin: Path) -> ParseError:
    return ParseError(
        origin,
        None,
        f"no two of its {len(found.names)} images share {FEWEST_MATCHES} matches; have they been matched, and do they "
        "overlap enough?",
    )


def distinct(match: Index, pixel_i: Array, pixel_j: Array) -> Index:
    """The matches (k, 2) without those that repeat the places of an earlier one."""
    places: NDArray[Any] = np.concatenate([pixel_i[match[:, 0]], pixel_j[match[:, 1]]], axis=1)
    _, first = np.unique(places, axis=0, return_index=True)
    return match[np.sort(first)]


def read_model_views(folder: PathLike) -> Views:
    """Views of a COLMAP model. Its poses and points are not used: two image points of one track are a match."""
    found = read_model(folder)
    n = len(found.names)
    if not n:
        raise ParseError(folder, None, "the COLMAP model has no images")
    pairs, matches = [], []
    for i in range(n):
        for j in range(i + 1, n):
            _, a, b = np.intersect1d(found.tracks[i], found.tracks[j], return_indices=True)
            if len(a) >= FEWEST_MATCHES:
                pairs.append((i, j))
                matches.append(np.stack([a, b], axis=1).astype(np.int64))
    if not pairs:
        raise ParseError(folder, None, f"no two of its {n} images share {FEWEST_MATCHES} points")
    return Views(
        found.names,
        np.array([c.K for c in found.cameras]),
        np.array([c.size for c in found.cameras]),
        tuple(c.undistorted(pixel) for c, pixel in zip(found.cameras, found.pixels, strict=True)),
        np.array(pairs, dtype=np.int64),
        tuple(matches),
    )
