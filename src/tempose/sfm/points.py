"""Points with error bars: from poses, their posterior draws, and what the cameras saw.

For fixed poses a point is a small least-squares problem. It is solved for the estimate, and again for every posterior draw
of the poses. Two things make a point uncertain, and they are kept apart:

* the noise of its own image points, ``σ² (Σ JᵀJ)⁻¹`` averaged over the draws (law of total covariance, first term);
* the uncertainty of the poses and of the calibration, the covariance of the point over the draws (second term).

All covariances are in the frame and the gauge of the poses that were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array, Index, Mask
from tempose.errors import GraphError, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.views import recalibrated

_TRIANGLE = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])  # places of (xx, xy, xz, yy, yz, zz) in a symmetric matrix


class PointStatus(IntEnum):
    """What is to be said against a point; only ``GOOD`` is good, the rest are kept and marked."""

    GOOD = 0
    NARROW = 1  # the rays meet under too small an angle: the depth is hardly known
    FEW_VIEWS = 2  # fewer than two views agree
    BEHIND = 3  # no place in front of the cameras explains the views
    UNSTABLE = 4  # the least squares did not converge, for the estimate or for too many of the draws

    @property
    def label(self) -> str:
        """For people and files."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class StructureOptions:
    """How points are made.

    Parameters
    ----------
    max_residual_px
        A view farther than this from the point's projection is a wrong match and takes no part.
    min_angle_deg
        Below this widest angle between two of its rays a point is marked ``narrow``.
    sigma_px
        Standard deviation of an image point per axis; ``None`` estimates it from the residuals.
    max_failed_share
        A point whose least squares fails for a larger share of the draws is marked ``unstable``.
    max_steps
        Of Levenberg–Marquardt for one point.
    """

    max_residual_px: float = 4.0
    min_angle_deg: float = 1.5
    sigma_px: float | None = None
    max_failed_share: float = 0.1
    max_steps: int = 50

    def __post_init__(self) -> None:
        if not self.max_residual_px > 0.0:
            raise OptionError(f"max_residual_px must be positive, not {self.max_residual_px}")
        if self.sigma_px is not None and not self.sigma_px > 0.0:
            raise OptionError(f"sigma_px must be positive, not {self.sigma_px}")


@dataclass(frozen=True, eq=False)
class Observations:
    """What the cameras saw, sorted by point.

    Parameters
    ----------
    point_of, camera_of
        Point and camera of each observation (k,), counted from 0; ``camera_of`` are rows of the poses.
    pixel
        Image points (k, 2), free of lens distortion, in the pixel frame of the intrinsics.
    n_points
        Number of points, those without observations included.
    """

    point_of: Index
    camera_of: Index
    pixel: Array
    n_points: int

    @classmethod
    def sorted_by_point(cls, point_of: ArrayLike, camera_of: ArrayLike, pixel: ArrayLike) -> Observations:
        """Observations in any order."""
        points, cameras = np.asarray(point_of, np.int64), np.asarray(camera_of, np.int64)
        pixels = np.asarray(pixel, float)
        if points.ndim != 1 or cameras.shape != points.shape or pixels.shape != (len(points), 2):
            raise GraphError(
                "observations need points (k,), cameras (k,) and pixels (k, 2), "
                f"not {points.shape}, {cameras.shape}, {pixels.shape}"
            )
        order = np.lexsort((cameras, points))
        count = int(points.max(initial=-1)) + 1
        return cls(points[order], cameras[order], np.ascontiguousarray(pixels[order]), count)

    def __len__(self) -> int:
        return len(self.point_of)

    @cached_property
    def first(self) -> Index:
        """Observations of point p are ``first[p]:first[p+1]``, (n_points + 1,)."""
        return np.searchsorted(self.point_of, np.arange(self.n_points + 1))


@dataclass(frozen=True, eq=False)
class Structure:
    """Points and how sure they are; every array has one row per point.

    Attributes
    ----------
    position
        Points for the estimated poses (p, 3); NaN where there is none.
    mean
        Mean over the draws (p, 3); ``position`` if there were no draws.
    image_covariance, pose_covariance
        Shares of the points' own image noise and of the poses (p, 3, 3).
    status
        A :class:`PointStatus` each (p,).
    n_views
        Views that agree (p,).
    angle_deg
        Widest angle between two rays (p,), degrees.
    rms_px
        Root mean square reprojection error per axis of the used views (p,).
    used
        Which observations took part (k,).
    sigma_px
        Image noise per axis, given or estimated.
    n_draws
        Draws behind ``pose_covariance``.
    """

    position: Array
    mean: Array
    image_covariance: Array
    pose_covariance: Array
    status: Index
    n_views: Index
    angle_deg: Array
    rms_px: Array
    used: Mask
    sigma_px: float
    n_draws: int

    @property
    def covariance(self) -> Array:
        """Total covariance (p, 3, 3)."""
        return self.image_covariance + self.pose_covariance

    @property
    def sigma(self) -> Array:
        """1σ per axis (p,), the root mean square over three axes, in scene units."""
        return rms_sigma(self.covariance)

    @cached_property
    def diameter(self) -> float:
        """Of the scene: twice the distance from the median point within which 95% of the good points lie."""
        good = self.position[self.good]
        if len(good) == 0:
            return float("nan")
        return 2.0 * float(np.quantile(np.linalg.norm(good - np.median(good, axis=0), axis=1), 0.95))

    @property
    def relative_sigma(self) -> Array:
        """:attr:`sigma` in units of the scene's diameter (p,)."""
        return self.sigma / self.diameter

    @property
    def good(self) -> Mask:
        """Which points (p,) nothing is to be said against."""
        return np.asarray(self.status == PointStatus.GOOD)

    def counts(self) -> dict[PointStatus, int]:
        """Number of points of each status."""
        return {one: int(np.sum(self.status == one)) for one in PointStatus}


def rms_sigma(covariance: Array) -> Array:
    """1σ per axis (p,): root mean square over the three axes of covariances (p, 3, 3)."""
    out: Array = np.sqrt(np.trace(covariance, axis1=-2, axis2=-1) / 3.0)
    return out


def projections(intrinsics: ArrayLike, world_from_node_wxyz: ArrayLike, position: ArrayLike) -> Array:
    """``P = K [R | t]`` (n, 3, 4) of cameras with intrinsics (3, 3) or (n, 3, 3), ``K₃₃ = 1``."""
    rotation = np.swapaxes(quat.to_matrix(world_from_node_wxyz), -1, -2)
    translation = -np.einsum("nab,nb->na", rotation, np.asarray(position, float))
    return np.ascontiguousarray(
        np.asarray(intrinsics, float) @ np.concatenate([rotation, translation[..., None]], axis=-1)
    )


class CameraDraw(NamedTuple):
    """Cameras of one draw: quaternions (n, 4), positions (n, 3), and the change of their calibration (n, 4), if any."""

    world_from_node_wxyz: Array
    position: Array
    calibration: Array | None = None

    def seen(self, K: Array, observations: Observations) -> tuple[Array, Array]:
        """Projections (n, 3, 4), and the observed pixels (k, 2) without their distortion."""
        pixel = observations.pixel
        if self.calibration is not None:
            K, pixel = recalibrated(K, observations.camera_of, pixel, self.calibration)
        return projections(K, self.world_from_node_wxyz, self.position), pixel


def reconstruct(
    poses: Poses,
    intrinsics: ArrayLike,
    observations: Observations,
    draws: Sequence[CameraDraw | tuple[Array, Array]] = (),
    options: StructureOptions | None = None,
    progress: ProgressHook = silent,
) -> Structure:
    """Triangulate and refine every point, for the estimate and for each posterior draw of the poses.

    Parameters
    ----------
    poses
        Estimated camera poses; the rows that ``observations.camera_of`` counts.
    intrinsics
        Pinhole calibration, (3, 3) or (n, 3, 3), upper triangular with ``K₃₃ = 1``.
    observations
        What the cameras saw.
    draws
        Posterior draws, or pairs of quaternions and positions, in the same gauge as ``poses``.
    options
        See :class:`StructureOptions`.
    progress
        Told of the draws.
    """
    options = options or StructureOptions()
    K = np.broadcast_to(np.asarray(intrinsics, float), (len(poses), 3, 3))
    _check(observations, len(poses))
    solved = _estimate(poses, K, observations, options)
    status = _judge(solved, np.diff(observations.first), options)
    image_information = solved.normal / solved.sigma_px**2
    over_draws = _Moments(solved.point)
    image = np.zeros((observations.n_points, 3, 3))
    usable = status <= PointStatus.NARROW
    for count, draw in enumerate(draws, 1):
        point, normal, outcome = _again(solved, *CameraDraw(*draw).seen(K, observations), observations, options)
        found = (outcome == 0) & usable
        over_draws.add(point, found)
        image[found] += _inverse(normal[found] / solved.sigma_px**2)
        progress(Progress("points", count, len(draws)))
    if over_draws.n_draws:
        status[usable & (over_draws.count < (1.0 - options.max_failed_share) * over_draws.n_draws)] = (
            PointStatus.UNSTABLE
        )
        image /= np.maximum(over_draws.count, 1)[:, None, None]
    else:
        image[usable] = _inverse(image_information[usable])
    known = status <= PointStatus.NARROW
    nothing = ~(known | (status == PointStatus.UNSTABLE))
    return Structure(
        position=np.where(nothing[:, None], np.nan, solved.point),
        mean=np.where(known[:, None], over_draws.mean(), np.nan),
        image_covariance=np.where(known[:, None, None], image, np.nan),
        pose_covariance=np.where(known[:, None, None], over_draws.covariance(), np.nan),
        status=status,
        n_views=solved.n_views,
        angle_deg=np.degrees(solved.angle),
        rms_px=np.sqrt(solved.cost / np.maximum(2 * solved.n_views, 1)),
        used=solved.used,
        sigma_px=solved.sigma_px,
        n_draws=over_draws.n_draws,
    )


@dataclass(frozen=True, eq=False)
class _Solved:
    """Points for the estimated poses."""

    point: Array
    normal: Array  # Σ JᵀJ (p, 3, 3), per squared pixel
    cost: Array  # sum of squared residuals (p,)
    outcome: Index
    used: Mask
    n_views: Index
    angle: Array
    sigma_px: float


def _estimate(poses: Poses, K: Array, observations: Observations, options: StructureOptions) -> _Solved:
    from tempose.sfm import _triangulation as triangulation

    p, k = observations.n_points, len(observations)
    P = projections(K, poses.wxyz, poses.position)
    ray = _rays(poses, K, observations)
    point, normal = np.zeros((p, 3)), np.zeros((p, 6))
    cost, angle = np.zeros(p), np.zeros(p)
    outcome, used = np.zeros(p, np.int64), np.zeros(k, np.bool_)
    first, camera_of, pixel = observations.first, observations.camera_of, observations.pixel
    centre = np.ascontiguousarray(poses.position)
    triangulation.select_and_refine(
        P,
        centre,
        ray,
        first,
        camera_of,
        pixel,
        options.max_residual_px,
        options.max_steps,
        point,
        used,
        normal,
        cost,
        outcome,
    )
    triangulation.widest_angle(centre, first, camera_of, used, point, angle)
    n_views = np.bincount(observations.point_of[used], minlength=p)
    sigma_px = options.sigma_px or _noise(cost, n_views, outcome)
    return _Solved(point, normal[:, _TRIANGLE], cost, outcome, used, n_views, angle, sigma_px)


def _again(
    solved: _Solved, P: Array, pixel: Array, observations: Observations, options: StructureOptions
) -> tuple[Array, Array, Index]:
    """Points for other cameras, from where they are, on the same views."""
    from tempose.sfm import _triangulation as triangulation

    p = observations.n_points
    point, normal = solved.point.copy(), np.zeros((p, 6))
    cost, outcome = np.zeros(p), np.zeros(p, np.int64)
    triangulation.refine(
        P,
        observations.first,
        observations.camera_of,
        pixel,
        solved.used,
        options.max_steps,
        point,
        normal,
        cost,
        outcome,
    )
    return point, normal[:, _TRIANGLE], outcome


def _rays(poses: Poses, K: Array, observations: Observations) -> Array:
    """Unit viewing directions in the world (k, 3)."""
    homogeneous = np.concatenate([observations.pixel, np.ones((len(observations), 1))], axis=1)
    direction = np.einsum("kab,kb->ka", np.linalg.inv(K)[observations.camera_of], homogeneous)
    direction = quat.rotate(poses.wxyz[observations.camera_of], direction)
    return np.ascontiguousarray(direction / np.linalg.norm(direction, axis=1, keepdims=True))


def _noise(cost: Array, n_views: Index, outcome: Index) -> float:
    """Image noise per axis from the residuals: 2 numbers a view, 3 unknowns a point.

    What the poses are wrong by is in the residuals too, so that without bundle adjustment this overstates the noise.
    """
    known = (outcome == 0) & (n_views >= 2)
    freedom = float(np.sum(2 * n_views[known] - 3))
    return float(np.sqrt(np.sum(cost[known]) / freedom)) if freedom > 0.0 else float("nan")


def _judge(solved: _Solved, n_seen: Index, options: StructureOptions) -> Index:
    status = np.full(len(solved.point), PointStatus.GOOD)
    status[np.degrees(solved.angle) < options.min_angle_deg] = PointStatus.NARROW
    status[solved.outcome == 2] = PointStatus.UNSTABLE
    status[solved.outcome == 1] = PointStatus.BEHIND
    status[(n_seen < 2) | ((solved.n_views < 2) & (status != PointStatus.BEHIND))] = PointStatus.FEW_VIEWS
    return status


class _Moments:
    """Running mean and covariance of points over draws, from deviations to a reference."""

    def __init__(self, reference: Array) -> None:
        self.reference = reference
        self.count = np.zeros(len(reference), np.int64)
        self.n_draws = 0
        self._sum = np.zeros((len(reference), 3))
        self._squares = np.zeros((len(reference), 3, 3))

    def add(self, point: Array, valid: Mask) -> None:
        d = np.where(valid[:, None], point - self.reference, 0.0)
        self.n_draws += 1
        self.count += valid
        self._sum += d
        self._squares += d[:, :, None] * d[:, None, :]

    def mean(self) -> Array:
        return self.reference + self._sum / np.maximum(self.count, 1)[:, None]

    def covariance(self) -> Array:
        n = np.maximum(self.count, 1)[:, None, None]
        centred = self._squares - self._sum[:, :, None] * self._sum[:, None, :] / n
        out: Array = centred / np.maximum(n - 1, 1)
        return out


def _inverse(information: Array) -> Array:
    """Inverses of positive matrices (p, 3, 3); ∞ variances where a direction is not seen at all."""
    out = np.full(information.shape, np.inf)
    scale = np.trace(information, axis1=-2, axis2=-1)
    seen = np.linalg.det(information) > 1e-30 * scale**3
    out[seen] = np.linalg.inv(information[seen])
    return out


def _check(observations: Observations, n_cameras: int) -> None:
    if len(observations) and not 0 <= observations.camera_of.min() <= observations.camera_of.max() < n_cameras:
        raise GraphError(f"an observation names camera {observations.camera_of.max()}; there are {n_cameras}")
    if not np.all(np.isfinite(observations.pixel)):
        bad = int(np.flatnonzero(~np.all(np.isfinite(observations.pixel), axis=1))[0])
        raise GraphError(f"an image point of point {observations.point_of[bad]} is not finite")
