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

The similarity itself, and which ties take part, is :mod:`.datum`. Where nobody says how good GPS is, what all fixes of one receiver
share (:data:`SHARED_M`) is added to the place of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tempose._support.packages import require
from tempose._support.plain import plain
from tempose._typing import Array, Index, Mask, PathLike
from tempose.errors import NotApplicable
from tempose.geometry import Similarity
from tempose.geometry import quaternion as quat
from tempose.geometry.geodesy import geodetic_from_enu
from tempose.sfm.adjustment.gauges import image_from_frame
from tempose.sfm.adjustment.linear import BLOCK
from tempose.sfm.adjustment.posterior import BundlePosterior
from tempose.sfm.datum import Fit
from tempose.sfm.scene import Scene
from tempose.sfm.ties import Ties

SHARED_M = (3.0, 3.0, 6.0)
"""1σ of what all fixes of one receiver have in common, where nobody says how good they are: east, north, up."""
_VAGUE_DEG = 20.0
_COLUMNS_AT_ONCE = 16


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
        From :func:`~tempose.sfm.ties.gps_ties`, :func:`~tempose.sfm.ties.control_ties`, or both.
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
    fit = Fit(posterior, ties)
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


# ---------------------------------------------------------------------- everything else follows


def _moved(scene: Scene, posterior: BundlePosterior, fit: Fit, C: Array) -> Scene:
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


def _bent(scene: Scene, posterior: BundlePosterior, fit: Fit, C: Array) -> tuple[Scene, Bending]:
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
