"""COLMAP models: read as text or binary, written as text.

Images hold ``cam_from_world``, quaternion ``wxyz``; an image point is a pixel and the number of its point, a point a place,
a colour, its mean reprojection error in pixels, and the image points it is seen as. Columns as in COLMAP's documentation.
"""

from __future__ import annotations

import itertools
import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.files import make_directory, write_atomically
from tempose._support.packages import require
from tempose._typing import Array, Index, PathLike
from tempose.errors import ArgumentError, GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io._text import LARGEST, content_lines, read_text
from tempose.io.colmap.cameras import ColmapCamera
from tempose.model.poses import Poses

NEEDED = ("cameras", "images", "points3D")
_GREY = 160


@dataclass(frozen=True, eq=False)
class ColmapModel:
    """Images of a model in the order of their names, and the image points of its tracks.

    Attributes
    ----------
    names
        File names of the images.
    cameras
        One per image.
    pixels
        Per image, its image points (k, 2) that belong to a track, lens distortion included.
    tracks
        Per image, the number (k,) of the point that each is seen of.
    """

    names: tuple[str, ...]
    cameras: tuple[ColmapCamera, ...]
    pixels: tuple[Array, ...]
    tracks: tuple[Index, ...]


def is_model(folder: Path) -> bool:
    """Whether a folder holds a COLMAP model; a part of one is refused."""
    for suffix in (".txt", ".bin"):
        missing = [f"{name}{suffix}" for name in NEEDED if not (folder / f"{name}{suffix}").exists()]
        if not missing:
            return True
        if len(missing) == 1:
            raise ParseError(folder, None, f"is a COLMAP model without {missing[0]}; is it whole?")
    return False


def open_model(folder: PathLike) -> Any:
    """The pycolmap ``Reconstruction`` of a folder, after its files have been checked here: some would keep pycolmap for ever."""
    folder = Path(folder)
    pycolmap = require("pycolmap", "reading a COLMAP model")
    here = read_model(folder)
    for name, check in {"points3D.bin": _check_points, "rigs.bin": _check_rigs, "frames.bin": _check_frames}.items():
        if (folder / name).exists():
            check(_Bytes(folder / name))
    try:
        model = pycolmap.Reconstruction(folder)
        named = [image.name for image in model.images.values()]
    except (ValueError, RuntimeError, IndexError, MemoryError) as error:
        said = [*str(error).splitlines(), type(error).__name__][0][:200]
        raise ParseError(folder, None, f"cannot be read as a COLMAP model ({said}); is it whole?") from None
    if len(named) != len(here.names):
        raise ParseError(folder, None, "images.bin and what belongs to it do not fit each other; is the model whole?")
    seen = np.unique(np.concatenate([*here.tracks, np.empty(0, dtype=np.int64)]))
    points = np.fromiter(model.points3D.keys(), dtype=np.uint64, count=len(model.points3D)).astype(np.int64)
    lost = np.setdiff1d(seen, points)
    if len(lost):
        raise ParseError(folder, None, f"point {lost[0]} is seen by an image and is not among the points; is it whole?")
    for what, found in _motions(model).items():
        if not all(_is_motion(one) for one in found):
            raise ParseError(folder, None, f"a {what} has no pose: its numbers are no rotation, or too large")
    if not all(np.all(np.abs(point.xyz) <= LARGEST) for point in model.points3D.values()):
        raise ParseError(folder, None, "a point has no position: its numbers are too large")
    return model


def _is_motion(one: Any) -> bool:
    with np.errstate(all="ignore"):
        off = abs(float(np.linalg.norm(one.rotation.quat)) - 1.0)
    return off <= 1e-3 and bool(np.all(np.abs(one.translation) <= LARGEST))


def _motions(model: Any) -> dict[str, list[Any]]:
    """Poses of frames, and of sensors on their rigs."""
    on_rigs = [pose for rig in model.rigs.values() for pose in rig.non_ref_sensors.values() if pose is not None]
    return {"frame": [f.rig_from_world for f in model.frames.values() if f.has_pose], "sensor of a rig": on_rigs}


def read_model(folder: PathLike) -> ColmapModel:
    """Read images and tracks; poses and points of the model are left."""
    folder = Path(folder)
    binary = (folder / "images.bin").exists() and (folder / "cameras.bin").exists()
    suffix, read_cameras, read_images = (
        (".bin", _binary_cameras, _binary_images) if binary else (".txt", _text_cameras, _text_images)
    )
    cameras = read_cameras(folder / f"cameras{suffix}")
    images = sorted(read_images(folder / f"images{suffix}"), key=lambda image: image.name)
    for before, image in itertools.pairwise(images):
        if before.name == image.name:
            raise ParseError(folder, None, f"two images are called {image.name!r}")
    for image in images:
        if image.camera not in cameras:
            raise ParseError(
                folder, None, f"image {image.name!r} has camera {image.camera}, which the model does not have"
            )
        if not np.all(np.isfinite(image.pixel)):
            raise ParseError(folder, None, f"an image point of {image.name!r} is not finite")
    return ColmapModel(
        tuple(image.name for image in images),
        tuple(cameras[image.camera] for image in images),
        tuple(image.pixel[image.track >= 0] for image in images),
        tuple(image.track[image.track >= 0] for image in images),
    )


@dataclass(frozen=True, eq=False)
class _Image:
    """Number, name, number of the camera, image points (k, 2), the point each is seen of (k,), -1 for none, and the pose.

    The pose is COLMAP's ``cam_from_world``: ``wxyz`` and translation (7,).
    """

    number: int
    name: str
    camera: int
    pixel: Array
    track: Index
    pose: Array


class _Bytes:
    """Reads a binary file from front to back."""

    def __init__(self, path: Path) -> None:
        self.path, self.at = path, 0
        try:
            self.data = path.read_bytes()
        except OSError as error:
            raise ParseError(path, None, f"cannot be read: {error.strerror}") from None

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if not 0 <= size <= len(self.data) - self.at:
            raise ParseError(self.path, None, "is cut off, or not of a COLMAP model; is it whole?")
        self.at += size
        return self.data[self.at - size : self.at]

    def numbers(self, form: str) -> tuple[Any, ...]:
        """The next numbers, little-endian, as :mod:`struct` calls them."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def count(self, each: int) -> int:
        """The next number, which counts things of at least so many bytes that follow."""
        (number,) = self.numbers("Q")
        if number * each > len(self.data) - self.at:
            raise ParseError(self.path, None, "is cut off, or not of a COLMAP model; is it whole?")
        return int(number)

    def name(self) -> str:
        """The next text, which ends with a zero byte."""
        end = self.data.find(b"\0", self.at)
        name = self.take(end - self.at).decode("utf-8", "replace") if end >= 0 else ""
        if not name:
            raise ParseError(self.path, None, "an image has no name; is the model whole?")
        self.take(1)
        return name

    def finish(self) -> None:
        """Refuse what is left over."""
        if self.at != len(self.data):
            raise ParseError(self.path, None, "has more in it than it counts; is it of a COLMAP model?")


def _binary_cameras(path: Path) -> dict[int, ColmapCamera]:
    file, found = _Bytes(path), {}
    for _ in range(file.count(24)):
        number, model, width, height = file.numbers("IiQQ")
        size = ColmapCamera.parameter_count(model)
        if size < 0:
            raise ParseError(path, None, f"camera {number} is of a model ({model}) that is not known")
        params = np.array(file.numbers(f"{size}d"))
        found[number] = _camera(path, None, ColmapCamera.numbered, model, width, height, params)
    file.finish()
    return found


def _binary_images(path: Path) -> list[_Image]:
    file, found = _Bytes(path), []
    for _ in range(file.count(69)):
        number, *pose, camera = file.numbers("I7dI")
        name, count = file.name(), file.count(24)
        points = np.frombuffer(file.take(24 * count), dtype=[("xy", "<f8", 2), ("point", "<i8")])
        track = points["point"].astype(np.int64)
        found.append(_Image(number, name, camera, points["xy"].copy(), track, np.array(pose)))
    file.finish()
    return found


def _check_points(file: _Bytes) -> None:
    for _ in range(file.count(51)):
        file.take(43)  # number, x y z, colour, error
        file.take(8 * file.count(8))


def _check_rigs(file: _Bytes) -> None:
    for _ in range(file.count(8)):
        _, sensors = file.numbers("II")
        file.take(8 if sensors else 0)
        for _ in range(1, sensors):
            _, _, has_pose = file.numbers("iI?")
            file.take(56 if has_pose else 0)


def _check_frames(file: _Bytes) -> None:
    for _ in range(file.count(68)):
        file.take(64)  # numbers of the frame and its rig, its pose
        (count,) = file.numbers("I")
        file.take(16 * count)


def _text_cameras(path: Path) -> dict[int, ColmapCamera]:
    found = {}
    for number, line in content_lines(read_text(path)):
        words = line.split()
        try:
            key, size, params = int(words[0]), (int(words[2]), int(words[3])), np.array([float(w) for w in words[4:]])
        except (ValueError, IndexError, OverflowError):
            raise ParseError(path, number, "expected CAMERA_ID MODEL WIDTH HEIGHT PARAMS…") from None
        found[key] = _camera(path, number, ColmapCamera, words[1], *size, params)
    return found


def _text_images(path: Path) -> list[_Image]:
    """Two lines an image; the second is empty where no image point was found."""
    lines, found = iter(enumerate(read_text(path).split("\n"), 1)), []
    for number, line in lines:
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        seen_in, points = next(lines, (number, ""))
        cells = points.split()
        try:
            key, camera, name = int(words[0]), int(words[8]), words[9]
            pose = np.array([float(word) for word in words[1:8]])
            if len(cells) % 3:
                raise ValueError("not in threes")
            xy = np.array([float(w) for k, w in enumerate(cells) if k % 3 < 2]).reshape(-1, 2)
            track = np.array([int(w) for w in cells[2::3]], dtype=np.int64)
        except (ValueError, IndexError, OverflowError):
            raise ParseError(
                path, seen_in, "expected IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then a line of X Y POINT3D_ID …"
            ) from None
        found.append(_Image(key, name, camera, xy, track, pose))
    return found


def _camera(path: Path, line: int | None, make: Callable[..., ColmapCamera], *facts: Any) -> ColmapCamera:
    try:
        return make(*facts)
    except ArgumentError as error:
        raise ParseError(path, line, str(error)) from None


def read_model_poses(folder: PathLike) -> Poses:
    """Poses ``world_from_node`` of the images of a model, text or binary; ids are their file names, in order."""
    folder = Path(folder)
    binary = (folder / "images.bin").exists() and (folder / "cameras.bin").exists()
    file = folder / ("images.bin" if binary else "images.txt")
    images = sorted(_binary_images(file) if binary else _text_images(file), key=lambda image: image.name)
    pose = np.array([image.pose for image in images]).reshape(-1, 7)
    off = np.abs(np.linalg.norm(pose[:, :4], axis=1) - 1.0)
    if not np.all(np.isfinite(pose)) or np.any(off > 1e-3):
        bad = int(np.argmax(~np.all(np.isfinite(pose), axis=1) | (off > 1e-3)))
        raise ParseError(
            file, None, f"the pose of image {images[bad].name!r} is not a unit quaternion and a translation"
        )
    return Poses.from_node_from_world([image.name for image in images], quat.normalize(pose[:, :4]), pose[:, 4:])


@dataclass(frozen=True, eq=False)
class Seen:
    """What the images of a model see, and its points.

    Attributes
    ----------
    pixels, tracks
        By the number of an image: its image points (k, 2) that belong to a track, and the number (k,) of the point of each.
    number, position, colour
        Of the points: (p,), ascending, (p, 3) and (p, 3).
    """

    pixels: dict[int, Array]
    tracks: dict[int, Index]
    number: Index
    position: Array
    colour: NDArray[np.uint8]


def what_is_seen(model: Any) -> Seen:
    """Image points and points of a pycolmap model, by way of its binary files: one by one they would take far longer.

    Images without a pose are not in these files.
    """
    pixels, tracks = {}, {}
    with tempfile.TemporaryDirectory(prefix="tempose-") as folder:
        model.write_binary(folder)
        for image in _binary_images(Path(folder) / "images.bin"):
            on_track = image.track >= 0
            pixels[image.number], tracks[image.number] = image.pixel[on_track], image.track[on_track]
        number, position, colour = _binary_points(Path(folder) / "points3D.bin")
    return Seen(pixels, tracks, number, position, colour)


def _binary_points(path: Path) -> tuple[Index, Array, NDArray[np.uint8]]:
    """Numbers, positions and colours, in the order of the numbers."""
    data = path.read_bytes()
    (count,), at, starts = struct.unpack_from("<Q", data), 8, []
    for _ in range(count):
        starts.append(at)
        at += 51 + 8 * struct.unpack_from("<Q", data, at + 43)[0]
    head = np.frombuffer(data, dtype=np.uint8)[np.array(starts, dtype=np.int64)[:, None] + np.arange(43)]
    rows = np.ascontiguousarray(head).view([("number", "<i8"), ("xyz", "<f8", 3), ("rgb", "u1", 3), ("error", "<f8")])
    rows = rows.reshape(-1)[np.argsort(rows["number"].ravel(), kind="stable")]
    return rows["number"].astype(np.int64), rows["xyz"].astype(float), rows["rgb"].copy()


def model_poses(model: Any) -> Poses:
    """Poses of the images of a pycolmap model that have one, ids are their names."""
    placed = [image for image in model.images.values() if image.has_pose]
    return _image_poses([image.name for image in placed], placed)


def numbered_poses(model: Any, names: Sequence[int | str]) -> Poses:
    """Poses of the images of a pycolmap model that :func:`write_model` has written: their numbers are rows + 1.

    A text model ends names at the first space, so that they may not be what they were.
    """
    return _image_poses(names, [model.images[row + 1] for row in range(len(names))])


def _image_poses(names: Sequence[int | str], images: list[Any]) -> Poses:
    wxyz = np.array([np.roll(image.cam_from_world().rotation.quat, 1) for image in images]).reshape(-1, 4)
    t = np.array([image.cam_from_world().translation for image in images]).reshape(-1, 3)
    return Poses.from_node_from_world(names, quat.normalize(wxyz), t)


# ---------------------------------------------------------------------- writing


@dataclass(frozen=True, eq=False)
class ModelPoints:
    """Points to be written.

    Attributes
    ----------
    number
        Of each point (p,), from 1.
    position
        World (p, 3).
    error_px
        Mean reprojection error (p,), pixels.
    colour
        (p, 3), or ``None`` for grey.
    camera_of, point_of
        Image (row of the poses) and point (row of ``number``) of each image point (k,), sorted by point.
    pixel
        (k, 2).
    """

    number: Index
    position: Array
    error_px: Array
    colour: NDArray[np.uint8] | None
    camera_of: Index
    point_of: Index
    pixel: Array


def write_model(directory: PathLike, poses: Poses, K: Array, size: Index, points: ModelPoints) -> None:
    """Write ``cameras.txt``, ``images.txt`` and ``points3D.txt``; every image has a pinhole camera of its own.

    Parameters
    ----------
    directory
        Made if it is not there.
    poses
        ``world_from_node``, ids are image names.
    K, size
        Pinholes (n, 3, 3), and width and height (n, 2), pixels.
    points
        And where they are seen.
    """
    if np.any(K[:, 0, 1]):
        raise GraphError("COLMAP's pinhole camera has no skew; this reconstruction's cameras do")
    target = make_directory(directory)
    order = np.argsort(points.camera_of, kind="stable")
    starts = np.searchsorted(points.camera_of[order], np.arange(len(poses) + 1))
    place = np.zeros(len(order), np.int64)  # number of an image point within its image
    place[order] = np.arange(len(order)) - starts[points.camera_of[order]]
    write_atomically(target / "cameras.txt", _cameras_text(K, size).encode())
    write_atomically(target / "images.txt", _images_text(poses, points, order, starts).encode())
    write_atomically(target / "points3D.txt", _points_text(points, place).encode())


def _cameras_text(K: Array, size: Index) -> str:
    rows = ["# CAMERA_ID MODEL WIDTH HEIGHT fx fy cx cy"]
    for k, (one, (width, height)) in enumerate(zip(K, size.tolist(), strict=True), 1):
        numbers = [one[0, 0], one[1, 1], one[0, 2], one[1, 2]]
        rows.append(" ".join([str(k), "PINHOLE", str(width), str(height), *(repr(float(x)) for x in numbers)]))
    return "\n".join(rows) + "\n"


def _images_text(poses: Poses, points: ModelPoints, order: Index, starts: Index) -> str:
    q, t = poses.node_from_world
    q = quat.canonical(q)
    rows = ["# IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME, then X Y POINT3D_ID of each image point"]
    for k, name in enumerate(poses.ids):
        rows.append(" ".join([str(k + 1), *map(str, q[k].tolist() + t[k].tolist()), str(k + 1), str(name)]))
        seen = order[starts[k] : starts[k + 1]]
        pixel, numbers = points.pixel[seen].tolist(), points.number[points.point_of[seen]].tolist()
        rows.append(" ".join(f"{x!r} {y!r} {number}" for (x, y), number in zip(pixel, numbers, strict=True)))
    return "\n".join(rows) + "\n"


def _points_text(points: ModelPoints, place: Index) -> str:
    rows = ["# POINT3D_ID X Y Z R G B ERROR, then IMAGE_ID POINT2D_IDX of each view"]
    first = np.searchsorted(points.point_of, np.arange(len(points.number) + 1))
    for p, number in enumerate(points.number.tolist()):
        colour = [_GREY] * 3 if points.colour is None else points.colour[p].tolist()
        track = [f"{points.camera_of[k] + 1} {place[k]}" for k in range(first[p], first[p + 1])]
        values = [number, *points.position[p].tolist(), *colour, float(points.error_px[p])]
        rows.append(" ".join([*map(str, values), *track]))
    return "\n".join(rows) + "\n"
