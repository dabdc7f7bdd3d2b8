"""Error bars for a COLMAP model that exists: it stays as it is, or is adjusted again."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import write_atomically
from tempose._support.plain import plain
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._support.tables import csv_text
from tempose._typing import Array, PathLike
from tempose.analysis.summary import median_sigma
from tempose.errors import OptionError
from tempose.io.colmap.cameras import ColmapCamera
from tempose.io.colmap.model import open_model, what_is_seen
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of
from tempose.sfm.adjustment.problem import GROUPS, USUAL, Bundle, bundle_of
from tempose.sfm.adjustment.readjust import readjust
from tempose.sfm.adjustment.residual_fields import with_lens_error
from tempose.sfm.adjustment.systematic import ModelError
from tempose.sfm.calibration import Calibrated
from tempose.sfm.mapping import Mapped
from tempose.sfm.points import Observations, PointStatus, Structure, StructureOptions, rms_sigma
from tempose.sfm.scene import Scene, SceneGauge
from tempose.sfm.views import FoundFocalLength, Remark

_FEWEST_POINTS = 30
_LEAST_ANGLE_DEG = 0.5
_VAGUE_POSITION, _VAGUE_ROTATION_DEG, _VAGUE_FOCAL, _VAGUE_POINT = 0.3, 5.0, 0.1, 0.3
_FAR_FROM_OPTIMUM = 1.0
_FLAT = 0.01
_NEARLY_ALL = 0.95
_OTHER_FOCAL = 0.2
_VAGUE_ON_A_PLANE = 0.01
_UNUSUAL_LENS = 4.0  # times what is usual


class ModelDoubt(StrEnum):
    """What speaks against a model."""

    FEW_POINTS = "few points"
    NO_PARALLAX = "no parallax"
    VAGUE = "vague"
    TURNED = "turned"
    NO_FOCAL = "no focal length"
    PLANE = "plane"
    ZOOM = "zoom"
    MOST_LOST = "most photographs lost"
    FOCAL = "focal length"
    FLAT = "flat"
    EXIF = "exif"
    LOST = "photographs lost"
    LENS = "lens"
    NOT_ADJUSTED = "not adjusted"

    @property
    def is_fatal(self) -> bool:
        """Whether the whole is not to be trusted."""
        return self in _FATAL


_FATAL = (
    ModelDoubt.FEW_POINTS,
    ModelDoubt.NO_PARALLAX,
    ModelDoubt.VAGUE,
    ModelDoubt.TURNED,
    ModelDoubt.NO_FOCAL,
    ModelDoubt.PLANE,
    ModelDoubt.ZOOM,
    ModelDoubt.MOST_LOST,
)


@dataclass(frozen=True, eq=False)
class Origin:
    """How a model was made of photographs.

    Attributes
    ----------
    mapped, row
        What the mapper made of the database, and which of its models this is.
    calibrated
        Which intrinsics were estimated, and why.
    n_zoomed
        Photographs whose focal length differs from that of others by the same camera, though all share one here.
    remarks
        On how the database was made.
    """

    mapped: Mapped
    row: int
    calibrated: Calibrated
    n_zoomed: int = 0
    remarks: tuple[Remark, ...] = ()

    def known_focal(self, numbers: Iterable[int]) -> dict[int, float]:
        """Focal lengths, in pixels, that EXIF or the database knows of these cameras."""
        cameras = self.mapped.cameras
        known = {n: camera.focal_px for n, camera in cameras.items() if camera.has_prior}
        found = [focal for one in self.remarks for focal in focal_lengths(one)]
        if found:  # what such a database has was found from its pairs; where the search began may be from EXIF
            known = {n: focal.start_px for n, focal in zip(sorted(cameras), found, strict=False) if focal.from_exif}
        return {n: known[n] for n in numbers if n in known}


@dataclass(frozen=True)
class GivenOptions:
    """What to do with a model.

    Parameters
    ----------
    refined
        Groups of intrinsics that were estimated with it (a model does not say), and are adjusted by ``readjust``.
    readjust
        Adjust poses, points and these intrinsics again, with a Cauchy loss.
    error
        How well the camera model is known.
    seed
        Same seed, same result.
    """

    refined: tuple[str, ...] = USUAL
    readjust: bool = False
    error: ModelError = field(default_factory=ModelError)
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.refined if name not in GROUPS]
        if unknown:
            raise OptionError(f"{unknown[0]!r} is no group of intrinsics; choose of {', '.join(GROUPS)}, or none")


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A model with error bars.

    Attributes
    ----------
    folder, model
        Where it was read, ``None`` if it was made here, and pycolmap's ``Reconstruction``.
    posterior, scene
        What is uncertain, and the same for pictures and files.
    adjusted_px
        Scale of the loss it was adjusted with again; ``None``: it is as it was.
    options
        What was to be done.
    origin
        How it was made of photographs; ``None``: it was given.
    """

    folder: Path | None
    model: Any
    posterior: BundlePosterior
    scene: Scene
    adjusted_px: float | None
    options: GivenOptions
    origin: Origin | None = None

    @property
    def doubts(self) -> tuple[ModelDoubt, ...]:
        """What speaks against it."""
        structure, bundle = self.scene.structure, self.posterior.bundle
        sigma_rot_deg, sigma_pos = self.scene.camera_sigma
        spread = np.sqrt(np.mean(np.sum((bundle.poses.position - bundle.poses.position.mean(axis=0)) ** 2, axis=1)))
        found = {
            ModelDoubt.FEW_POINTS: structure.good.sum() < _FEWEST_POINTS,
            ModelDoubt.NO_PARALLAX: np.median(structure.angle_deg) < _LEAST_ANGLE_DEG,
            ModelDoubt.VAGUE: not (
                np.median(sigma_pos) < _VAGUE_POSITION * spread
                and np.median(sigma_rot_deg) < _VAGUE_ROTATION_DEG
                and median_sigma(structure.sigma[structure.good]) < _VAGUE_POINT * structure.diameter
            ),
            ModelDoubt.FOCAL: any(sigma > _VAGUE_FOCAL for sigma in self.focal_sigma if np.isfinite(sigma)),
            ModelDoubt.LENS: self.posterior.options.error.lens > _UNUSUAL_LENS * self.options.error.lens,
            ModelDoubt.NOT_ADJUSTED: np.median(self.posterior.step_sigmas) > _FAR_FROM_OPTIMUM,
        }
        if self.origin is not None:
            found |= self._doubts_of_making(self.origin)
        return tuple(one for one in ModelDoubt if found.get(one, False))

    def _doubts_of_making(self, origin: Origin) -> dict[ModelDoubt, bool]:
        """What speaks against a model whose cameras were calibrated by the same photographs."""
        mapped, cameras = origin.mapped, self.posterior.bundle.cameras
        free = [sigma for sigma in self.focal_sigma if np.isfinite(sigma)]
        known = origin.known_focal(camera.number for camera in cameras)
        flat = bool(free) and flatness(self.scene.structure.position[self.scene.structure.good]) < _FLAT
        return {
            ModelDoubt.TURNED: bool(free) and not flat and mapped.n_homography >= _NEARLY_ALL * mapped.n_pairs,
            ModelDoubt.NO_FOCAL: bool(free) and float(np.median(free)) > _VAGUE_FOCAL,
            ModelDoubt.PLANE: flat and not known and float(np.median(free)) > _VAGUE_ON_A_PLANE,
            ModelDoubt.FLAT: flat,
            ModelDoubt.ZOOM: origin.n_zoomed > 0,
            ModelDoubt.EXIF: any(
                abs(np.log(camera.focal_px / known[camera.number])) > _OTHER_FOCAL
                for camera in cameras
                if camera.number in known
            ),
            ModelDoubt.MOST_LOST: 2 * len(mapped.lost) > len(mapped.names),
            ModelDoubt.LOST: 0 < 2 * len(mapped.lost) <= len(mapped.names),
        }

    @property
    def focal_sigma(self) -> list[float]:
        """Relative 1σ of each camera's free focal length; NaN where it was held."""
        out = []
        for row, camera in enumerate(self.posterior.bundle.cameras):
            focal = [k for k, place in enumerate(np.flatnonzero(camera.free)) if place in camera.lens.focal]
            C = self.posterior.intrinsics_covariance(row)
            out.append(float(np.sqrt(np.mean(np.diag(C)[focal])) / camera.focal_px) if focal else float("nan"))
        return out

    def facts(self) -> dict[str, Any]:
        """Plain numbers for ``sfm.json``."""
        scene, p = self.scene, self.posterior
        sigma_rot, sigma_pos = scene.camera_sigma
        shares = camera_shares(p)
        return {
            "posterior": "adjusted",
            "readjusted": self.adjusted_px is not None,
            "loss_px": self.adjusted_px,
            "doubts": [one.value for one in self.doubts],
            "trusted": not any(one.is_fatal for one in self.doubts),
            "n_views": len(p.bundle.names),
            "n_cameras": len(p.bundle.names),
            "n_lenses": len(p.bundle.cameras),
            "refined": list(self.options.refined),
            "points": {status.label: count for status, count in scene.structure.counts().items()},
            "sigma_px": p.sigma_px,
            "clustering": p.clustering,
            "median_step_sigmas": float(np.median(p.step_sigmas)),
            "lens_error": p.options.error.lens,
            "lens_error_estimated": p.options.error.lens != self.options.error.lens,
            "median_sigma_rot_deg": plain(median_sigma(sigma_rot)),
            "median_sigma_pos": plain(median_sigma(sigma_pos)),
            **{f"median_{name}": plain(median_sigma(values)) for name, values in shares.items()},
            "median_sigma_point": plain(median_sigma(scene.structure.sigma[scene.structure.good])),
            "diameter": plain(scene.structure.diameter),
            "unit": scene.unit,
            "calibration": intrinsics_facts(p),
            **({} if self.origin is None else _made_facts(self.origin)),
        }


def _made_facts(origin: Origin) -> dict[str, Any]:
    """How a model was made, for ``sfm.json``."""
    mapped, done = origin.mapped, origin.calibrated
    return {
        "mapper": mapped.mapper,
        "n_views": len(mapped.names),
        "lost": mapped.lost,
        "n_pairs": mapped.n_pairs,
        "n_pairs_one_homography": mapped.n_homography,
        "separate_cameras": mapped.separate,
        "n_zoomed": origin.n_zoomed,
        "centre_sigma": plain(done.centre_sigma),
        "lenses_tried": [
            {"model": one.model, "gain": one.gain, "needed": one.needed, "taken": one.is_taken} for one in done.trials
        ],
    }


def focal_lengths(remark: Remark) -> list[FoundFocalLength]:
    """Those that a remark says were found: of one camera, or of several."""
    several = getattr(remark, "cameras", (remark,))
    return [one for one in several if isinstance(one, FoundFocalLength)]


def flatness(position: Array) -> float:
    """Scatter of points (p, 3) across the plane nearest to nine tenths of them, over that along it."""
    if len(position) < 4:
        return 0.0
    near = position
    for _ in range(5):
        middle = np.median(near, axis=0)
        normal = np.linalg.svd(near - middle, full_matrices=False)[2][2]
        away = np.abs((position - middle) @ normal)
        near = position[away <= np.quantile(away, 0.9)]
    scatter = np.linalg.svd(near - near.mean(axis=0), compute_uv=False)
    return float(scatter[2] / max(scatter[1], 1e-300))


def with_error_bars(
    folder: PathLike, options: GivenOptions | None = None, progress: ProgressHook = silent
) -> GivenModel:
    """Read a COLMAP model, adjust it again if asked, and find its error bars."""
    options = options or GivenOptions()
    folder = Path(folder)
    progress(Progress("model", 0, 3))
    model = open_model(folder)
    scale = readjust(model, options.refined) if options.readjust else None
    progress(Progress("model", 1, 3))
    bundle = bundle_of(model, options.refined)
    posterior = with_lens_error(
        posterior_of(bundle, PosteriorOptions(loss_px=scale, error=options.error, seed=options.seed))
    )
    progress(Progress("model", 2, 3))
    scene = scene_of(posterior, model)
    progress(Progress("model", 3, 3))
    return GivenModel(folder, model, posterior, scene, scale, options)


# ---------------------------------------------------------------------- as a scene


def scene_of(posterior: BundlePosterior, model: Any) -> Scene:
    """The model and its error bars as a scene: for pictures, files and comparisons."""
    bundle = posterior.bundle
    cameras = [ColmapCamera(one.model, *one.size, one.parameters) if one.lens.focal else None for one in bundle.cameras]
    K = np.array([_pinhole(cameras[c], bundle.cameras[c].focal_px, bundle.cameras[c].size) for c in bundle.camera_of])
    seen = what_is_seen(model)
    colour = seen.colour[np.searchsorted(seen.number, bundle.point_numbers)]
    observations = Observations(bundle.point_of, bundle.image_of, bundle.pixel, len(bundle.position))
    return Scene(
        bundle.poses,
        K,
        np.array([bundle.cameras[c].size for c in bundle.camera_of]),
        posterior.camera_covariance,
        observations,
        _structure(posterior, observations),
        colour,
        SceneGauge(metric=bundle.metric, given=True),
    )


def _pinhole(camera: ColmapCamera | None, focal_px: float, size: tuple[int, int]) -> Array:
    """A matrix (3, 3) for drawing the camera; its distortion is left out."""
    width, height = size
    middle = np.array([[focal_px, 0.0, 0.5 * width], [0.0, focal_px, 0.5 * height], [0.0, 0.0, 1.0]])
    return (
        middle
        if camera is None
        else np.array(camera.pycolmap().calibration_matrix()) * [[1, 0, 1], [1, 1, 1], [1, 1, 1]]
    )


def _structure(posterior: BundlePosterior, seen: Observations) -> Structure:
    from tempose.sfm import _triangulation as triangulation

    bundle, lin = posterior.bundle, posterior.linear
    p = len(bundle.position)
    angle = np.zeros(p)
    centre = np.ascontiguousarray(bundle.poses.position)
    triangulation.widest_angle(centre, seen.first, seen.camera_of, lin.kept, bundle.position, angle)
    n_views = np.bincount(bundle.point_of[lin.kept], minlength=p)
    squares = np.bincount(bundle.point_of, weights=np.sum(lin.residual**2, axis=1), minlength=p)
    status = np.full(p, PointStatus.GOOD)
    status[np.degrees(angle) < StructureOptions().min_angle_deg] = PointStatus.NARROW
    status[~posterior.known] = PointStatus.UNSTABLE
    status[n_views < 2] = PointStatus.FEW_VIEWS
    known = posterior.known[:, None, None]
    return Structure(
        position=bundle.position,
        mean=bundle.position,
        image_covariance=np.where(known, posterior.point_own, np.nan),
        pose_covariance=np.where(known, posterior.point_inherited + posterior.point_model, np.nan),
        status=status,
        n_views=n_views,
        angle_deg=np.degrees(angle),
        rms_px=np.sqrt(squares / np.maximum(2 * n_views, 1)),
        used=lin.kept,
        sigma_px=posterior.sigma_px,
        n_draws=0,
    )


# ---------------------------------------------------------------------- files


def camera_shares(posterior: BundlePosterior, scale: float = 1.0) -> dict[str, Array]:
    """1σ per axis of cameras (n,) by noise and by the camera model, apart; lengths times a scale."""
    out = {}
    for name, covariance in (("noise", posterior.noise.of_images), ("model", posterior.model.of_images)):
        out[f"sigma_rot_{name}_deg"] = np.degrees(rms_sigma(covariance[:, :3, :3]))
        out[f"sigma_pos_{name}"] = scale * rms_sigma(covariance[:, 3:, 3:])
    return out


def _intrinsics_rows(posterior: BundlePosterior, changed: Sequence[Array] | None) -> list[tuple[Any, ...]]:
    """Camera, model, parameter, value, whether it was estimated, σ, and σ by noise and by the camera model."""
    rows: list[tuple[Any, ...]] = []
    for row, camera in enumerate(posterior.bundle.cameras):
        sigma = np.full((3, len(camera.parameters)), np.nan)
        held = posterior.options.error.of_held(camera)
        for name, places in (("focal", camera.lens.focal), ("centre", camera.lens.centre)):
            if name in held:
                sigma[0, list(places)] = sigma[2, list(places)] = held[name] * camera.focal_px
        parts = (posterior.noise.of_camera(row), posterior.model.of_camera(row))
        for k, C in enumerate((parts[0] + parts[1], *parts)):
            sigma[k, camera.free] = np.sqrt(np.diag(C))
        value = camera.parameters if changed is None else camera.parameters + changed[row]
        for k, name in enumerate(camera.lens.names):
            rows.append((camera.number, camera.model, name, value[k], int(camera.free[k]), *sigma[:, k]))
    return rows


def intrinsics_facts(posterior: BundlePosterior, changed: Sequence[Array] | None = None) -> list[dict[str, Any]]:
    """The parameters of all cameras for ``sfm.json``, ``changed`` by so much; those that were held have the σ assumed of them."""
    return [
        {
            name: plain(value) if isinstance(value, float) else value
            for name, value in zip(_INTRINSICS, row, strict=True)
        }
        for row in _intrinsics_rows(posterior, changed)
    ]


_INTRINSICS = ("camera", "model", "parameter", "value", "estimated", "sigma", "sigma_noise", "sigma_model")


def write_intrinsics(path: PathLike, calibration: list[dict[str, Any]]) -> None:
    """A table of the parameters of all cameras, of :func:`intrinsics_facts`; distortion that was held has no σ."""
    columns = [[np.nan if one[name] is None else one[name] for one in calibration] for name in _INTRINSICS]
    write_atomically(path, csv_text(list(_INTRINSICS), columns).encode())


def write_points(path: PathLike, posterior: BundlePosterior, structure: Structure, scale: float = 1.0) -> None:
    """A table of the points: COLMAP's numbers, places, σ, its three shares (times a scale), and the covariance."""
    bundle, known = posterior.bundle, posterior.known[:, None, None]
    total = structure.covariance
    parts = {"own": posterior.point_own, "cameras": posterior.point_inherited, "model": posterior.point_model}
    columns = {
        "point3D_id": bundle.point_numbers,
        **{name: structure.position[:, k] for k, name in enumerate("xyz")},
        "sigma": structure.sigma,
        **{f"sigma_{name}": scale * rms_sigma(np.where(known, C, np.nan)) for name, C in parts.items()},
        **{f"cov_{a}{b}": total[:, i, j] for i, a in enumerate("xyz") for j, b in enumerate("xyz") if i <= j},
        "views": structure.n_views,
        "angle_deg": structure.angle_deg,
        "rms_px": structure.rms_px,
        "status": [PointStatus(one).label for one in structure.status.tolist()],
    }
    write_atomically(path, csv_text(list(columns), list(columns.values())).encode())


def write_model_again(directory: PathLike, given: GivenModel) -> None:
    """The model: its files as they were, or those of the adjusted one in the same format."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    if given.folder is None or given.adjusted_px is not None:
        is_text = given.folder is None or (given.folder / "cameras.txt").exists()
        (given.model.write_text if is_text else given.model.write_binary)(target)
        return
    for file in sorted(given.folder.iterdir()):
        if file.is_file() and file.suffix in (".txt", ".bin", ".ini"):
            shutil.copyfile(file, target / file.name)


def bundle_summary(bundle: Bundle) -> str:
    """How much there is, in a line."""
    lenses = f"{len(bundle.cameras)} camera{'s' if len(bundle.cameras) > 1 else ''}"
    return f"{len(bundle.names)} photographs by {lenses}, {len(bundle.position)} points, {len(bundle.point_of)} image points"
