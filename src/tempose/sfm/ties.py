"""What ties a model to the world: photographs whose places were measured (GPS), and surveyed points that they see (control)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array
from tempose.errors import ArgumentError, NotApplicable
from tempose.geometry import quaternion as quat
from tempose.io.control import ImagePoints
from tempose.io.gps import Fixes
from tempose.sfm.adjustment.gauges import image_from_frame
from tempose.sfm.adjustment.linear import BLOCK, cross_matrix, linearise
from tempose.sfm.adjustment.posterior import BundlePosterior
from tempose.sfm.adjustment.problem import Bundle
from tempose.sfm.adjustment.reduced import Reduced, reduce
from tempose.sfm.adjustment.systematic import displacements

CLICK_PX = 1.0
"""1σ per axis of a control point in a photograph, if its table does not say."""
_STEPS = 30


@dataclass(frozen=True, eq=False)
class Ties:
    """Places that are known in the model and in the world.

    Attributes
    ----------
    names
        Of photographs or points (k,).
    kind
        ``gps``, ``control`` or ``check`` (k,); the last take no part and are compared.
    at
        In the model (k, 3).
    world, sigma
        In the world (k, 3), metres, and their 1σ: NaN where nobody says, infinite where it was not measured.
    follow
        How they follow frames and cameras of the bundle (3 k, 6 n).
    own
        Covariances (k, 3, 3) in the model besides what they follow by: of clicks.
    own_columns
        Displacements (3 k, m) by errors of the camera model, besides what they follow by.
    """

    names: tuple[str, ...]
    kind: tuple[str, ...]
    at: Array
    world: Array
    sigma: Array
    follow: Array
    own: Array
    own_columns: Array

    def __len__(self) -> int:
        return len(self.names)

    def together(self, other: Ties) -> Ties:
        """All of both."""
        return Ties(
            self.names + other.names,
            self.kind + other.kind,
            *(
                np.concatenate([getattr(self, name), getattr(other, name)])
                for name in ("at", "world", "sigma", "follow", "own", "own_columns")
            ),
        )


def gps_ties(posterior: BundlePosterior, fixes: Fixes) -> Ties:
    """Photographs with measured places; those that the model does not have are left out."""
    bundle = posterior.bundle
    row_of = {name: k for k, name in enumerate(bundle.names)}
    rows = [k for k, name in enumerate(fixes.ids) if str(name) in row_of]
    if not rows:
        raise ArgumentError(
            f"{fixes.path} has positions of none of the model's {len(bundle.names)} photographs: they are called "
            f"{bundle.names[0]}, …, its rows {fixes.ids[0]}, …"
        )
    image = np.array([row_of[str(fixes.ids[k])] for k in rows])
    arm = quat.rotate(bundle.poses.wxyz[image], fixes.arm[rows])
    if np.any(arm) and not bundle.metric:
        raise NotApplicable("lever arms of GPS are in metres, and the model is not: give the places of the cameras")
    pose = image_from_frame(bundle)[image]
    by_node = pose[:, 3:] - cross_matrix(arm) @ pose[:, :3]
    follow = np.zeros((len(rows), 3, posterior.linear.nodes.count, BLOCK))
    follow[np.arange(len(rows)), :, bundle.frame_of[image]] = by_node
    sigma = fixes.sigma[rows].copy()
    sigma[~fixes.has_height[rows], 2] = np.inf
    m = posterior.model.columns.shape[1]
    return Ties(
        tuple(str(fixes.ids[k]) for k in rows),
        ("gps",) * len(rows),
        bundle.poses.position[image] + arm,
        fixes.position[rows],
        sigma,
        follow.reshape(3 * len(rows), -1),
        np.zeros((len(rows), 3, 3)),
        np.zeros((3 * len(rows), m)),
    )


def control_ties(posterior: BundlePosterior, seen: ImagePoints, surveyed: Fixes, check: Sequence[str] = ()) -> Ties:
    """Surveyed points that are seen in two photographs or more; places in the model by triangulation.

    Parameters
    ----------
    seen
        Where they are in which photographs.
    surveyed
        Where they are in the world.
    check
        Names of those that take no part.
    """
    bundle = posterior.bundle
    row_of = {name: k for k, name in enumerate(bundle.names)}
    known = {str(name): k for k, name in enumerate(surveyed.ids)}
    for name in check:
        if name not in known:
            raise ArgumentError(
                f"{surveyed.path} has no point {name!r} to check; it has {', '.join(list(known)[:5])}, …"
            )
    for name, line in zip(seen.points, seen.lines, strict=True):
        if name not in known:
            raise ArgumentError(f"{seen.path}:{line}: {surveyed.path} has no point {name!r}")
    keep = [k for k, image in enumerate(seen.images) if image in row_of]
    counts: dict[str, set[str]] = {}
    for k in keep:
        counts.setdefault(seen.points[k], set()).add(seen.images[k])
    names = sorted(name for name, images in counts.items() if len(images) > 1)
    if not names:
        raise ArgumentError(f"{seen.path} has no point in two photographs of the model or more; one cannot place it")
    point = {name: k for k, name in enumerate(names)}
    keep = sorted((k for k in keep if seen.points[k] in point), key=lambda k: point[seen.points[k]])
    image = np.array([row_of[seen.images[k]] for k in keep])
    sigma_px = np.where(np.isnan(seen.sigma_px[keep]), CLICK_PX, seen.sigma_px[keep])
    part = replace(
        bundle,
        point_numbers=np.arange(len(names)),
        position=np.zeros((len(names), 3)),
        point_of=np.array([point[seen.points[k]] for k in keep]),
        image_of=image,
        pixel=np.ascontiguousarray(seen.pixel[keep]),
    )
    part, reduced = _triangulated(part, sigma_px**-2.0)
    bad = np.flatnonzero(reduced.unknown)
    if len(bad):
        raise ArgumentError(
            f"{seen.path}: the rays to {names[bad[0]]!r} do not meet; is it the same point in all photographs?"
        )
    n = posterior.linear.nodes.count
    follow = reduced.follow(np.eye(BLOCK * n)).reshape(3 * len(names), -1)
    moved = displacements(part, posterior.options.error, posterior.options.seed)
    own = reduced.pull(moved)[1] if moved.shape[2] else np.zeros((len(names), 3, 0))
    row = [known[name] for name in names]
    sigma = surveyed.sigma[row].copy()
    sigma[~surveyed.has_height[row], 2] = np.inf
    return Ties(
        tuple(names),
        tuple("check" if name in check else "control" for name in names),
        part.position,
        surveyed.position[row],
        sigma,
        follow,
        reduced.point_inverse,
        own.reshape(3 * len(names), -1),
    )


def _triangulated(part: Bundle, weight: Array) -> tuple[Bundle, Reduced]:
    """The points of a bundle where its rays meet, by least squares of image points with these weights (k,)."""
    pycolmap = require("pycolmap", "control points")
    ray = np.zeros((len(part.pixel), 3))
    for k, one in enumerate(part.cameras):
        here = part.camera_of[part.image_of] == k
        camera = pycolmap.Camera(model=one.model, width=one.size[0], height=one.size[1], params=one.parameters)
        rays = camera.cam_ray_from_img(part.pixel[here])
        ray[here] = np.array([[np.nan] * 3 if x is None else x for x in rays], dtype=float).reshape(-1, 3)
    if not np.all(np.isfinite(ray)):
        raise ArgumentError("a control point is where the lens shows nothing; are its pixels those of this photograph?")
    ray = quat.rotate(part.poses.wxyz[part.image_of], ray)
    across = np.eye(3) - ray[:, :, None] * ray[:, None, :]
    place = np.zeros_like(part.position)
    for p in range(len(place)):
        here = part.point_of == p
        A = across[here].sum(axis=0)
        place[p] = np.linalg.lstsq(A, np.einsum("kab,kb->a", across[here], part.poses.position[part.image_of[here]]))[0]
    for _ in range(_STEPS):
        part = replace(part, position=place)
        lin = linearise(part)
        reduced = reduce(lin, weight)
        pull = np.zeros_like(place)
        np.add.at(pull, part.point_of, np.einsum("kab,ka->kb", lin.by_point, (reduced.weight[:, None] * lin.residual)))
        step = -np.einsum("pab,pb->pa", reduced.point_inverse, pull)
        place = place + step
        if np.abs(step).max() <= 1e-12 * max(float(np.abs(place).max()), 1e-12):
            break
    return part, reduced
