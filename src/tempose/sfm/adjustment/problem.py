"""What is adjusted, as plain arrays: frames, cameras with their free parameters, points, and what was seen.

A *frame* is what moves as one body: the pose of a single photograph, or of a rig that took several at once (the places of
cameras on their rig are taken as known). A *camera* is a lens with its parameters, shared by all photographs taken with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Index, Mask, PathLike
from tempose.errors import GraphError, OptionError
from tempose.geometry import quaternion as quat
from tempose.io.colmap.model import Seen, open_model, what_is_seen
from tempose.model.poses import Poses
from tempose.sfm.adjustment.lenses import Lens, lens_of

GROUPS = ("focal", "centre", "distortion")
"""Parameters of a camera that are free or fixed together."""
FEWEST_SEEN = 6
"""A photograph that sees fewer points of others has no error bar: nothing checks its pose."""
USUAL = ("focal", "distortion")
"""What COLMAP's bundle adjustment refines unless it is told otherwise: not the principal point."""


@dataclass(frozen=True, eq=False)
class Camera:
    """A lens with its parameters.

    Attributes
    ----------
    number
        In the model.
    model, lens
        COLMAP's name, and the functions.
    size
        Width and height, pixels.
    parameters
        (m,), in COLMAP's order.
    free
        Which of them were estimated (m,); the others are taken as known.
    """

    number: int
    model: str
    size: tuple[int, int]
    parameters: Array
    free: Mask

    @property
    def lens(self) -> Lens:
        """The camera model's functions."""
        return lens_of(self.model)

    @property
    def focal_px(self) -> float:
        """Mean focal length, pixels; of a panorama what one radian is."""
        if not self.lens.focal:
            return float(self.size[0] / (2.0 * np.pi))
        return float(np.mean(self.parameters[list(self.lens.focal)]))


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle adjustment problem at some values of its unknowns.

    Attributes
    ----------
    names, numbers
        Of the photographs (n,).
    frame_of, camera_of
        Frame and camera (rows) of each photograph (n,).
    frame_wxyz, frame_position
        ``world_from_frame`` (f, 4) and (f, 3).
    camera_from_frame
        Of each photograph: quaternions (n, 4) and translations (n, 3); the identity unless it was taken by a rig.
    cameras
        The lenses.
    point_numbers, position
        Of the points (p,), and where they are (p, 3).
    point_of, image_of, pixel
        Point and photograph of each observation (k,), and where it was seen (k, 2); sorted by point.
    left_out
        Names of photographs with a pose that see too few points.
    """

    names: tuple[str, ...]
    numbers: Index
    frame_of: Index
    camera_of: Index
    frame_wxyz: Array
    frame_position: Array
    camera_from_frame: tuple[Array, Array]
    cameras: tuple[Camera, ...]
    point_numbers: Index
    position: Array
    point_of: Index
    image_of: Index
    pixel: Array
    left_out: tuple[str, ...] = ()

    @property
    def n_frames(self) -> int:
        """Bodies that move."""
        return len(self.frame_wxyz)

    @property
    def metric(self) -> bool:
        """Whether a rig's known lengths fix the scale."""
        return bool(np.any(self.camera_from_frame[1] != 0.0))

    @cached_property
    def poses(self) -> Poses:
        """``world_from_camera`` of the photographs, ids are their names."""
        wxyz, t = self.camera_from_frame
        turned = quat.multiply(self.frame_wxyz[self.frame_of], quat.conjugate(wxyz))
        return Poses(self.names, turned, self.frame_position[self.frame_of] - quat.rotate(turned, t))

    @cached_property
    def first(self) -> Index:
        """Observations of point p are ``first[p]:first[p+1]``, (p + 1,)."""
        return np.searchsorted(self.point_of, np.arange(len(self.position) + 1))


def free_parameters(model: str, groups: tuple[str, ...]) -> Mask:
    """Which parameters (m,) of a camera model belong to the groups."""
    unknown = [name for name in groups if name not in GROUPS]
    if unknown:
        raise OptionError(f"{unknown[0]!r} is no group of a camera's parameters; choose of {', '.join(GROUPS)}")
    lens = lens_of(model)
    free = np.zeros(len(lens.names), dtype=bool)
    for name, places in zip(GROUPS, (lens.focal, lens.centre, lens.further), strict=True):
        free[list(places)] = name in groups
    return free


def read_bundle(folder: PathLike, free: tuple[str, ...] = USUAL) -> Bundle:
    """The bundle of a COLMAP model on disk; see :func:`bundle_of`."""
    return bundle_of(open_model(folder), free)


def bundle_of(model: Any, free: tuple[str, ...] = USUAL) -> Bundle:
    """The bundle of a pycolmap ``Reconstruction``, at its values.

    Parameters
    ----------
    model
        With poses and points.
    free
        Groups of intrinsics that were estimated, of all cameras. A model does not say which; these are COLMAP's defaults.
    """
    posed = sorted((image for image in model.images.values() if image.has_pose), key=lambda image: image.name)
    seen = what_is_seen(model)
    images = _seeing_enough(posed, seen)
    if len(images) < 2:
        raise GraphError(
            f"{len(images)} of the model's {len(posed)} photographs with a pose see {FEWEST_SEEN} points of others; error bars "
            "need at least two"
        )
    row_of_frame = {number: k for k, number in enumerate(sorted({image.frame_id for image in images}))}
    row_of_camera = {number: k for k, number in enumerate(sorted({image.camera_id for image in images}))}
    frame_wxyz, frame_position = _inverse_motions([model.frames[n].rig_from_world for n in row_of_frame])
    offsets = [_on_rig(model, image) for image in images]
    numbers, names = np.array([image.image_id for image in images]), {image.name for image in images}
    points, point_of, image_of, pixel = _observations(seen, numbers)
    return Bundle(
        tuple(image.name for image in images),
        numbers,
        np.array([row_of_frame[image.frame_id] for image in images]),
        np.array([row_of_camera[image.camera_id] for image in images]),
        frame_wxyz,
        frame_position,
        (np.array([wxyz for wxyz, _ in offsets]), np.array([t for _, t in offsets])),
        tuple(_camera(model, number, free) for number in row_of_camera),
        points,
        seen.position[np.searchsorted(seen.number, points)],
        point_of,
        image_of,
        pixel,
        tuple(image.name for image in posed if image.name not in names),
    )


def bundle_again(before: Bundle, model: Any, free: tuple[str, ...] = USUAL) -> Bundle:
    """:func:`bundle_of` of the same model after it was adjusted: same photographs, points and image points, other values."""
    frame = dict(zip(before.frame_of.tolist(), before.numbers.tolist(), strict=True))  # a photograph of each frame
    motions = [model.frames[model.images[frame[row]].frame_id].rig_from_world for row in range(before.n_frames)]
    frame_wxyz, frame_position = _inverse_motions(motions)
    seen = what_is_seen(model)
    return replace(
        before,
        frame_wxyz=frame_wxyz,
        frame_position=frame_position,
        cameras=tuple(_camera(model, camera.number, free) for camera in before.cameras),
        position=seen.position[np.searchsorted(seen.number, before.point_numbers)],
    )


def write_back(bundle: Bundle, model: Any) -> None:
    """Give a pycolmap ``Reconstruction`` the values of a bundle that was made of it."""
    pycolmap = require("pycolmap", "bundle adjustment")
    frame = dict(zip(bundle.frame_of.tolist(), bundle.numbers.tolist(), strict=True))
    for row, (wxyz, place) in enumerate(zip(bundle.frame_wxyz, bundle.frame_position, strict=True)):
        world_from_rig = pycolmap.Rigid3d(pycolmap.Rotation3d(np.roll(wxyz, -1)), place)
        model.frames[model.images[frame[row]].frame_id].rig_from_world = world_from_rig.inverse()
    for camera in bundle.cameras:
        model.cameras[camera.number].params = camera.parameters
    for number, place in zip(bundle.point_numbers.tolist(), bundle.position, strict=True):
        model.points3D[number].xyz = place


def _camera(model: Any, number: int, free: tuple[str, ...]) -> Camera:
    one = model.cameras[number]
    size = (one.width, one.height)
    return Camera(number, one.model.name, size, np.array(one.params), free_parameters(one.model.name, free))


def _seeing_enough(images: list[Any], model: Seen) -> list[Any]:
    """The images that see enough points which others of them see, too."""
    seen = [np.unique(model.tracks[image.image_id]) for image in images]
    kept = np.ones(len(images), dtype=bool)
    while kept.any():
        number, count = np.unique(np.concatenate([s for s, k in zip(seen, kept, strict=True) if k]), return_counts=True)
        shared = number[count > 1]
        enough = kept & np.array([np.isin(one, shared).sum() >= FEWEST_SEEN for one in seen])
        if np.array_equal(enough, kept):
            break
        kept = enough
    return [image for image, k in zip(images, kept, strict=True) if k]


def _inverse_motions(motions: list[Any]) -> tuple[Array, Array]:
    """Quaternions wxyz and positions of the inverses of pycolmap's rigid motions."""
    inverses = [motion.inverse() for motion in motions]
    wxyz = quat.normalize(np.array([np.roll(one.rotation.quat, 1) for one in inverses]))
    return wxyz, np.array([one.translation for one in inverses])


def _on_rig(model: Any, image: Any) -> tuple[Array, Array]:
    """``camera_from_frame`` of a photograph."""
    rig, sensor = model.frames[image.frame_id].rig, model.cameras[image.camera_id].sensor_id
    if rig.is_ref_sensor(sensor):
        return np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
    motion = rig.sensor_from_rig(sensor)
    return quat.normalize(np.roll(motion.rotation.quat, 1)), np.array(motion.translation)


def _observations(seen: Seen, numbers: Index) -> tuple[Index, Index, Index, Array]:
    """Numbers of the points, and point (row), photograph (row) and pixel of all that is seen, sorted by point."""
    tracks = [seen.tracks[number] for number in numbers.tolist()]
    image_of = np.repeat(np.arange(len(tracks)), [len(one) for one in tracks])
    pixel = np.concatenate([seen.pixels[number] for number in numbers.tolist()])
    points, point_of = np.unique(np.concatenate(tracks), return_inverse=True)
    order = np.argsort(point_of, kind="stable")  # photographs ascend already
    return points, point_of[order], image_of[order], np.ascontiguousarray(pixel[order])
