r"""Scale and place of an adjusted model, from GPS and control points, with what is uncertain about them.

A model stands in a frame of its own, and its error bars are relative to that. What ties it to the world are *ties*: photographs
whose places were measured (GPS), and points that were surveyed and seen in photographs (control). With :math:`a_i` where the model
has a tie, the world has it at

.. math:: y_i = s R a_i + t + \varepsilon_i, \qquad \mathrm{Cov}\,\varepsilon = (sR) Z (sR)^T + \mathrm{diag}(\sigma_i^2),

Z the joint covariance of all ties in the model, from its bundle adjustment: ties of one model err together, as it bends. The
similarity is found by generalised least squares with this matrix. It is as good as its weights: the estimate of its seven numbers
θ = K y has the covariance :math:`C = (J^T W J)^{-1}`, and what is anywhere in the model, q, has in the world the error

.. math:: sR\,\delta q + J_q\,\delta\theta, \qquad \delta\theta = -K (sR\,\delta z + e),

which is the model's own, the datum's, and what they have in common. Its covariance is exact to first order; metres. The model is
moved as a whole and keeps its shape; or it is *bent*, which is the joint adjustment of photographs and ties, to first order: with
:math:`v = y - \hat y` after the similarity, everything moves by :math:`\mathrm{Cov}(q, z) W v` as well, and has the covariance

.. math:: \Sigma_q - Q Q^T + A C A^T, \qquad Q = \mathrm{Cov}(q, z) W^{1/2}, \quad A = J_q - Q W^{1/2} J .

A tie that is farther off than its σ and the model allow (:data:`OUTSIDE`, divided by the number of ties) takes no part; the worst
goes first, and the rest is fitted again. Where nobody says how good GPS is, its scatter is estimated from the residuals (horizontal
and vertical), and what all fixes of one receiver share (:data:`SHARED_M`) is added to the place of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincc

from tempose._support.packages import require
from tempose._support.plain import plain
from tempose._typing import Array, Index, Mask, PathLike
from tempose.errors import ArgumentError, NotApplicable
from tempose.geometry import Similarity, align
from tempose.geometry import quaternion as quat
from tempose.geometry.geodesy import geodetic_from_enu
from tempose.io.control import ImagePoints
from tempose.io.gps import Fixes
from tempose.sfm.adjustment.gauges import image_from_frame
from tempose.sfm.adjustment.linear import BLOCK, cross_matrix, linearise
from tempose.sfm.adjustment.posterior import BundlePosterior
from tempose.sfm.adjustment.problem import Bundle
from tempose.sfm.adjustment.reduced import Reduced, reduce
from tempose.sfm.adjustment.systematic import displacements
from tempose.sfm.scene import Scene

OUTSIDE = 0.001
"""Probability below which a tie is not what its σ says, for all ties together."""
SHARED_M = (3.0, 3.0, 6.0)
"""1σ of what all fixes of one receiver have in common, where nobody says how good they are: east, north, up."""
ASSUMED_M = (5.0, 5.0, 10.0)
"""1σ of a fix where nobody says it and there are too few to estimate it."""
CLICK_PX = 1.0
"""1σ per axis of a control point in a photograph, if its table does not say."""
_ENOUGH = 6  # fixes, for an estimate of their scatter
_LEAST_M = 0.01
_MOST_LEFT_OUT = 1.0 / 3.0
_VAGUE_DEG = 20.0
_STEPS = 30
_COLUMNS_AT_ONCE = 16
_FAR = 5.0  # standard deviations from the first fit


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


class Bending(NamedTuple):
    """What a bent model has moved by, after the similarity.

    Rotation and place of photographs (n, 6) in the world, points (p, 3), and all parameters of each camera.
    """

    pose: Array
    point: Array
    parameters: tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class Georeferenced:
    """A model in the world.

    Attributes
    ----------
    scene
        Moved, in metres; error bars include those of scale, rotation and place.
    similarity
        ``world_from_model``.
    covariance
        Of rotation (radians), translation of the ties' middle (metres) and logarithm of the scale, (7, 7).
    ties, used
        What ties it to the world, and which of them took part (k,).
    residual
        Measured less where the model has it (k, 3), metres; NaN where not measured.
    residual_covariance
        What it should be (k, 3, 3).
    estimated
        Whether the scatter of GPS was estimated from the residuals.
    origin
        Latitude, longitude (degrees) and height of the frame's origin, x east, y north, z up; ``None``: the frame is a map's.
    map_origin
        What was subtracted from a map's coordinates (3,).
    bending
        If the model was bent: what it has moved by.
    """

    scene: Scene
    similarity: Similarity
    covariance: Array
    ties: Ties
    used: Mask
    residual: Array
    residual_covariance: Array
    estimated: bool
    origin: tuple[float, float, float] | None
    map_origin: Array
    bending: Bending | None = None

    @property
    def sigmas(self) -> Array:
        """How many standard deviations each tie is off (k,): the root mean square of its measured coordinates."""
        out = np.full(len(self.ties), np.nan)
        for k in range(len(out)):
            has = np.isfinite(self.residual[k])
            if has.any():
                v, C = self.residual[k, has], self.residual_covariance[k][np.ix_(has, has)]
                out[k] = np.sqrt(v @ np.linalg.pinv(C, hermitian=True) @ v / has.sum())
        return out

    @property
    def scale_sigma(self) -> float:
        """Relative 1σ of the scale."""
        return float(np.sqrt(self.covariance[6, 6]))

    @property
    def geodetic(self) -> Array | None:
        """Latitude, longitude (degrees) and height (metres) of the cameras (n, 3)."""
        return None if self.origin is None else geodetic_from_enu(self.scene.poses.position, self.origin)

    def facts(self) -> dict[str, Any]:
        """Plain numbers for ``sfm.json``."""
        rot, place = np.degrees(np.sqrt(np.diag(self.covariance)[:3])), np.sqrt(np.diag(self.covariance)[3:6])
        return {
            "frame": "map" if self.origin is None else "east north up",
            "origin": None if self.origin is None else list(self.origin),
            "map_origin": self.map_origin.tolist(),
            "scale": self.similarity.scale,
            "wxyz": self.similarity.wxyz.tolist(),
            "translation": self.similarity.translation.tolist(),
            "sigma_scale": self.scale_sigma,
            "sigma_rot_deg": rot.tolist(),
            "sigma_place": place.tolist(),
            "sigma_gps_estimated": self.estimated,
            "bent": self.bending is not None,
            "ties": [
                {
                    "name": self.ties.names[k],
                    "kind": self.ties.kind[k],
                    "used": bool(self.used[k]),
                    "sigma": plain(self.ties.sigma[k]),
                    "residual": plain(self.residual[k]),
                    "expected": plain(np.sqrt(np.diag(self.residual_covariance[k]))),
                    "sigmas": plain(self.sigmas[k]),
                }
                for k in range(len(self.ties))
            ],
        }


# ---------------------------------------------------------------------- ties


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


# ---------------------------------------------------------------------- the similarity


def georeference(
    scene: Scene,
    posterior: BundlePosterior,
    ties: Ties,
    origin: tuple[float, float, float] | None = None,
    map_origin: Array | None = None,
    *,
    bend: bool = False,
) -> Georeferenced:
    """Move a model to where its ties are.

    Parameters
    ----------
    scene, posterior
        The model, and what is uncertain about it.
    ties
        From :func:`gps_ties`, :func:`control_ties`, or both.
    origin, map_origin
        Where the origin of the ties' frame is.
    bend
        Adjust photographs and ties together, to first order; else the model keeps its shape.
    """
    if (measured := _measured(ties)).sum() < (6 if posterior.bundle.metric else 7) or len(_rows_used(ties)) < 3:
        raise NotApplicable(
            f"{len(_rows_used(ties))} places of photographs or points ({int(measured.sum())} coordinates) do not say where and how "
            "large the model is; at least three are needed, not on one line"
        )
    fit = _Fit(posterior, ties)
    fit.select()
    C = fit.solved()[1]
    vague = np.degrees(np.sqrt(np.diag(C)[:3].max()))
    if not vague < _VAGUE_DEG:
        raise NotApplicable(
            f"the measured places do not say how the model is turned (1σ {vague:.0f}°): they are on a line, or too close together "
            "for their σ; control points off the line do"
        )
    if fit.estimated:
        C = C.copy()
        C[3:6, 3:6] += np.diag(np.square(SHARED_M))
    residual, expected = fit.residuals(bend=bend)
    moved, bending = _bent(scene, posterior, fit, C) if bend else (_moved(scene, posterior, fit, C), None)
    return Georeferenced(
        moved,
        fit.similarity,
        C,
        replace(ties, sigma=fit.sigma),
        fit.used,
        residual,
        expected,
        fit.estimated,
        origin,
        np.zeros(3) if map_origin is None else map_origin,
        bending,
    )


def _measured(ties: Ties) -> Mask:
    """Coordinates (3 k,) of ties that take part."""
    part = np.array([kind != "check" for kind in ties.kind])
    return np.asarray((part[:, None] & ~np.isinf(ties.sigma)).ravel())


def _rows_used(ties: Ties) -> Index:
    return np.flatnonzero(np.array([kind != "check" for kind in ties.kind]))


class _Fit:
    """Generalised least squares of a similarity, with ties left out one at a time.

    Parameters
    ----------
    posterior
        Of the model.
    ties
        With where they are in the world.
    """

    def __init__(self, posterior: BundlePosterior, ties: Ties) -> None:
        self.ties, self.posterior = ties, posterior
        self.has_scale = not posterior.bundle.metric
        self.columns = ties.follow @ posterior.model.columns + ties.own_columns
        noise = ties.follow @ posterior.noise.times(ties.follow.T)
        self.Z = noise + self.columns @ self.columns.T
        for k in range(len(ties)):
            self.Z[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] += ties.own[k]
        self.used = np.array([kind != "check" for kind in ties.kind])
        unknown = np.isnan(ties.sigma).any(axis=1)
        self.unknown = unknown
        self.sigma = np.where(np.isnan(ties.sigma), ASSUMED_M, ties.sigma)
        self.estimated = bool(unknown.any())
        self.middle = ties.at[self.used].mean(axis=0)
        self._start()

    def _start(self) -> None:
        """Positions alone, by the sum of distances: a few wrong ones do not matter."""
        full = self.used & np.isfinite(self.sigma).all(axis=1)
        if full.sum() < 3:
            raise NotApplicable(f"{int(full.sum())} places have a height; at least three are needed to begin with")
        still = np.tile(quat.IDENTITY, (int(full.sum()), 1))
        kind = "positions-sim3" if self.has_scale else "positions-se3"
        found = align((still, self.ties.at[full]), (still, self.ties.world[full]), kind, robust=True)
        self.rotation, self.scale = quat.to_matrix(found.wxyz), found.scale
        self.place = found.scale * self.rotation @ self.middle + found.translation

    @property
    def similarity(self) -> Similarity:
        """``world_from_model``."""
        wxyz = quat.from_matrix(self.rotation[None])[0]
        return Similarity(wxyz, self.place - self.scale * self.rotation @ self.middle, self.scale)

    def arms(self, at: Array) -> Array:
        """Places (…, 3) of the model relative to the middle, in the world."""
        return np.asarray(self.scale * (at - self.middle) @ self.rotation.T)

    def jacobian(self, at: Array) -> Array:
        """Derivatives (…, 3, 7) of places in the world by rotation, translation and logarithm of the scale."""
        arm = self.arms(at)
        out = np.zeros((*arm.shape, 7))
        out[..., :3] = -cross_matrix(arm)
        out[..., 3:6] = np.eye(3)
        out[..., 6] = arm if self.has_scale else 0.0
        return out

    def covariance(self) -> Array:
        """Of all residuals (3 k, 3 k), before anything is fitted; infinite σ are left out."""
        turn = self.turn()
        return np.asarray(
            turn @ self.Z @ turn.T + np.diag(np.where(np.isinf(self.sigma), 0.0, self.sigma).ravel() ** 2)
        )

    def solved(self) -> tuple[Array, Array]:
        """Fit; the gain K (7, 3 k) and the covariance (7, 7)."""
        ties = self.ties
        part = self.part()
        free = np.arange(7 if self.has_scale else 6)
        for _ in range(_STEPS):
            J = self.jacobian(ties.at).reshape(-1, 7)[np.ix_(part, free)]
            S = self.covariance()[np.ix_(part, part)]
            WJ = np.linalg.solve(S, J)
            normal = J.T @ WJ
            value = np.linalg.eigvalsh(normal)
            if not value[0] > 1e-12 * value[-1]:
                raise NotApplicable(
                    "the measured places are on one line, or at one place: they do not say how the model is turned about it"
                )
            C = np.linalg.inv(normal)
            gain = C @ WJ.T
            world = self.arms(ties.at) + self.place
            step = np.zeros(7)
            step[free] = gain @ (ties.world - world).ravel()[part]
            self.rotation = quat.to_matrix(quat.exp(step[None, :3]))[0] @ self.rotation
            self.place, self.scale = self.place + step[3:6], self.scale * float(np.exp(step[6]))
            if step[free] @ normal @ step[free] < 1e-16 * len(part):
                break
        K, full = np.zeros((7, 3 * len(ties))), np.zeros((7, 7))
        K[np.ix_(free, part)] = gain
        full[np.ix_(free, free)] = C
        return K, full

    def residuals(self, *, bend: bool = False) -> tuple[Array, Array]:
        """Of all ties (k, 3), NaN where not measured, and what is expected of them (k, 3, 3)."""
        K, _ = self.solved()
        k = len(self.ties)
        M = np.eye(3 * k) - self.jacobian(self.ties.at).reshape(-1, 7) @ K
        off = (self.ties.world - self.arms(self.ties.at) - self.place).ravel()
        if bend:
            part, turn = self.part(), self.turn()
            follow = (turn @ self.Z @ turn.T)[:, part] @ np.linalg.inv(self.covariance()[np.ix_(part, part)])
            off = off - follow @ off[part]
            M = M - follow @ M[part]
        C = (M @ self.covariance() @ M.T).reshape(k, 3, k, 3)[np.arange(k), :, np.arange(k)]
        return np.where(np.isinf(self.sigma), np.nan, off.reshape(k, 3)), C

    def part(self) -> Index:
        """Coordinates (of 3 k) that take part."""
        return np.flatnonzero((self.used[:, None] & np.isfinite(self.sigma)).ravel())

    def turn(self) -> Array:
        """Displacements of all ties in the model to those in the world (3 k, 3 k)."""
        return np.asarray(np.kron(np.eye(len(self.ties)), self.scale * self.rotation), dtype=float)

    def select(self) -> None:
        """Leave out what contradicts the rest, and estimate what nobody says.

        From the fit by distances, which a few wrong places hardly move: those far off go at once, the worst goes as long as it is
        outside, and what agrees with the rest after all comes back.
        """
        part = self.used.copy()
        count, bound = int(part.sum()), OUTSIDE / int(part.sum())
        self._estimate(refit=False)
        away = self._squared(self.ties.world - self.arms(self.ties.at) - self.place, self._marginal())
        near = np.sort(away[part])[int(np.ceil((1.0 - _MOST_LEFT_OUT) * count)) - 1]
        self.used = part & (away <= max(_FAR**2, near))
        may_return = part.copy()
        for _ in range(3 * count):
            self._estimate()
            off, C = self.residuals()
            squared = self._squared(off, C)
            p = gammaincc(0.5 * np.isfinite(off).sum(axis=1), 0.5 * squared * np.isfinite(off).sum(axis=1))
            back = may_return & ~self.used & (p > bound)
            may_return &= ~back  # once
            self.used |= back
            worst = self._outside(bound)
            if worst is not None:
                self.used[worst] = False
            elif not back.any():
                break
        left = count - int(self.used.sum())
        if self.used.sum() < max(3.0, (1.0 - _MOST_LEFT_OUT) * count) or self._outside(bound) is not None:
            raise NotApplicable(
                f"{left} of {count} measured places contradict the model and each other; are they of these photographs, and are "
                "their σ right?"
            )

    def _outside(self, bound: float) -> int | None:
        """The tie that is farthest outside of what is expected of it, of those that take part."""
        off, C = self.residuals()
        squared, has = self._squared(off, C), np.isfinite(off).sum(axis=1)
        worst = int(np.argmax(np.where(self.used, squared, -1.0)))
        return worst if gammaincc(0.5 * has[worst], 0.5 * squared[worst] * has[worst]) < bound else None

    def _marginal(self) -> Array:
        """Of the residuals of single ties (k, 3, 3), before anything is fitted."""
        k = len(self.ties)
        return np.asarray(self.covariance().reshape(k, 3, k, 3)[np.arange(k), :, np.arange(k)])

    def _squared(self, off: Array, C: Array) -> Array:
        """Squared normalised residuals (k,), over their freedom; 0 where nothing was measured."""
        out = np.zeros(len(off))
        for k, residual in enumerate(off):
            has = np.isfinite(residual) & np.isfinite(self.sigma[k])
            if has.any():
                inverse = np.linalg.pinv(C[k][np.ix_(has, has)], rcond=1e-9, hermitian=True)
                out[k] = residual[has] @ inverse @ residual[has] / has.sum()
        return out

    def _estimate(self, *, refit: bool = True) -> None:
        """The scatter of fixes that nobody says, horizontally and vertically: by the medians of the residuals, a few times."""
        some = self.used & self.unknown
        if not self.estimated or some.sum() < _ENOUGH:
            return
        height = np.isfinite(self.sigma[:, 2])
        for _ in range(10 if refit else 1):
            if refit:
                self.solved()
            off = np.abs(self.ties.world - self.arms(self.ties.at) - self.place)
            share = np.sqrt(some.sum() / (some.sum() - 7.0 / 3.0))
            flat = max(1.4826 * share * float(np.median(off[some, :2])), _LEAST_M)
            up = (
                max(1.4826 * share * float(np.median(off[some & height, 2])), _LEAST_M)
                if (some & height).any()
                else 0.0
            )
            before = self.sigma.copy()
            self.sigma[self.unknown, :2] = flat
            self.sigma[self.unknown & height, 2] = up
            if np.allclose(before, self.sigma, rtol=1e-3):
                return


# ---------------------------------------------------------------------- everything else follows


def _moved(scene: Scene, posterior: BundlePosterior, fit: _Fit, C: Array) -> Scene:
    """Cameras and points in the world, with their covariances."""
    K, _ = fit.solved()
    weights = fit.turn().T @ K.T  # (3 k, 7): displacements of ties in the model, as they act on θ
    by_model = fit.columns.T @ weights
    shared = posterior.noise.times(fit.ties.follow.T @ weights) + posterior.model.columns @ by_model
    bundle, R, sR = posterior.bundle, fit.rotation, fit.scale * fit.rotation

    pose = image_from_frame(bundle) @ shared.reshape(-1, BLOCK, 7)[bundle.frame_of]
    A = np.zeros((6, 6))
    A[:3, :3], A[3:, 3:] = R, sR
    J = np.zeros((len(bundle.names), 6, 7))
    J[:, :3, :3] = np.eye(3)
    J[:, 3:] = fit.jacobian(bundle.poses.position)
    cameras = _covariance(A @ scene.camera_covariance @ A.T, J, A @ pose, C)

    point = posterior.noise.inverse.reduced.follow(shared)
    if posterior.model.point_columns is not None:
        point = point + posterior.model.point_columns @ by_model
    s = scene.structure
    own = sR @ s.image_covariance @ sR.T
    total = _covariance(sR @ s.covariance @ sR.T, fit.jacobian(bundle.position), sR @ point, C)
    where = fit.arms(bundle.position) + fit.place
    structure = replace(s, position=where, mean=where, image_covariance=own, pose_covariance=total - own)
    moved = scene.poses.moved(fit.similarity)
    return replace(
        scene,
        poses=moved,
        camera_covariance=cameras,
        structure=structure,
        gauge=replace(scene.gauge, metric=True, placed=True),
    )


def _bent(scene: Scene, posterior: BundlePosterior, fit: _Fit, C: Array) -> tuple[Scene, Bending]:
    """Cameras, points and calibration adjusted together with the ties, to first order."""
    bundle, R, sR = posterior.bundle, fit.rotation, fit.scale * fit.rotation
    part = fit.part()
    root = np.linalg.cholesky(np.linalg.inv(fit.covariance()[np.ix_(part, part)]))
    off = (fit.ties.world - fit.arms(fit.ties.at) - fit.place).ravel()[part]
    pulled, design = root.T @ off, root.T @ fit.jacobian(fit.ties.at).reshape(-1, 7)[part]
    columns = fit.turn().T[:, part] @ root  # (3 k, m): displacements of ties in the model
    by_model = fit.columns.T @ columns
    nodes = posterior.noise.times(fit.ties.follow.T @ columns) + posterior.model.columns @ by_model

    A = np.zeros((6, 6))
    A[:3, :3], A[3:, 3:] = R, sR
    pose = A @ image_from_frame(bundle) @ nodes.reshape(-1, BLOCK, len(part))[bundle.frame_of]
    J = np.zeros((len(bundle.names), 6, 7))
    J[:, :3, :3] = np.eye(3)
    J[:, 3:] = fit.jacobian(bundle.poses.position)
    left = J - pose @ design
    cameras = A @ scene.camera_covariance @ A.T - pose @ np.swapaxes(pose, 1, 2) + left @ C @ np.swapaxes(left, 1, 2)

    s, p = scene.structure, len(bundle.position)
    explained, shift, seen = np.zeros((p, 3, 3)), np.zeros((p, 3)), np.zeros((p, 3, 7))
    for start in range(0, len(part), _COLUMNS_AT_ONCE):
        some = slice(start, start + _COLUMNS_AT_ONCE)
        point = posterior.noise.inverse.reduced.follow(nodes[:, some])
        if posterior.model.point_columns is not None:
            point = point + posterior.model.point_columns @ by_model[:, some]
        point = sR @ point
        explained += point @ np.swapaxes(point, 1, 2)
        shift += point @ pulled[some]
        seen += point @ design[some]
    left = fit.jacobian(bundle.position) - seen
    own = sR @ s.image_covariance @ sR.T
    total = sR @ s.covariance @ sR.T - explained + left @ C @ np.swapaxes(left, 1, 2)
    where = fit.arms(bundle.position) + fit.place + shift
    step = pose @ pulled
    moved = scene.poses.moved(fit.similarity)
    poses = replace(moved, wxyz=quat.multiply(quat.exp(step[:, :3]), moved.wxyz), position=moved.position + step[:, 3:])
    parameters = []
    for row, camera in enumerate(bundle.cameras):
        change = np.zeros(len(camera.parameters))
        change[posterior.linear.nodes.free[row]] = nodes[posterior.linear.nodes.rows(row)] @ pulled
        parameters.append(change)
    bent = replace(
        scene,
        poses=poses,
        camera_covariance=cameras,
        structure=replace(s, position=where, mean=where, image_covariance=own, pose_covariance=total - own),
        gauge=replace(scene.gauge, metric=True, placed=True),
    )
    return bent, Bending(step, shift, tuple(parameters))


def _covariance(own: Array, J: Array, shared: Array, C: Array) -> Array:
    """``Σ + J C Jᵀ − c Jᵀ − J cᵀ`` of blocks (n, d, d), with J and c (n, d, 7)."""
    J_t = np.swapaxes(J, 1, 2)
    cross = shared @ J_t
    return np.asarray(own + J @ C @ J_t - cross - np.swapaxes(cross, 1, 2))


def write_placed(
    directory: PathLike, model: Any, found: Georeferenced, posterior: BundlePosterior, is_text: bool
) -> None:
    """A COLMAP model where it is in the world."""
    pycolmap = require("pycolmap", "writing a model")
    moved, similarity = pycolmap.Reconstruction(model), found.similarity
    turn = pycolmap.Rotation3d(np.roll(similarity.wxyz, -1))
    moved.transform(pycolmap.Sim3d(similarity.scale, turn, similarity.translation))
    if found.bending is not None:
        bundle, poses = posterior.bundle, found.scene.poses
        for row, number in enumerate(bundle.numbers.tolist()):
            image = moved.images[number]
            world_from_camera = pycolmap.Rigid3d(pycolmap.Rotation3d(np.roll(poses.wxyz[row], -1)), poses.position[row])
            image.frame.set_cam_from_world(image.camera_id, world_from_camera.inverse())
        for number, place in zip(bundle.point_numbers.tolist(), found.scene.structure.position, strict=True):
            moved.points3D[number].xyz = place
        for camera, change in zip(bundle.cameras, found.bending.parameters, strict=True):
            moved.cameras[camera.number].params = camera.parameters + change
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    (moved.write_text if is_text else moved.write_binary)(target)
