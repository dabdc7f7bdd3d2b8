"""Error bars for a COLMAP model that exists: it stays as it is, or is adjusted again."""

from __future__ import annotations

import shutil
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
from tempose.io.colmap.model import open_model
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of
from tempose.sfm.adjustment.problem import GROUPS, USUAL, Bundle, bundle_of
from tempose.sfm.adjustment.readjust import readjust
from tempose.sfm.adjustment.systematic import ModelError
from tempose.sfm.points import Observations, PointStatus, Structure, StructureOptions, rms_sigma
from tempose.sfm.scene import Scene, SceneGauge

_FEWEST_POINTS = 30
_LEAST_ANGLE_DEG = 0.5
_VAGUE_POSITION, _VAGUE_ROTATION_DEG, _VAGUE_FOCAL = 0.3, 5.0, 0.1
_FAR_FROM_OPTIMUM = 1.0


class ModelDoubt(StrEnum):
    """What speaks against a model; with the first three nothing of it can be used."""

    FEW_POINTS = "few points"
    NO_PARALLAX = "no parallax"
    VAGUE = "vague"
    FOCAL = "focal length"
    NOT_ADJUSTED = "not adjusted"

    @property
    def is_fatal(self) -> bool:
        """Whether the whole is not to be trusted."""
        return self in (ModelDoubt.FEW_POINTS, ModelDoubt.NO_PARALLAX, ModelDoubt.VAGUE)


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
        Where it was read, and pycolmap's ``Reconstruction``.
    posterior, scene
        What is uncertain, and the same for pictures and files.
    adjusted_px
        Scale of the loss it was adjusted with again; ``None``: it is as it was.
    options
        What was to be done.
    """

    folder: Path
    model: Any
    posterior: BundlePosterior
    scene: Scene
    adjusted_px: float | None
    options: GivenOptions

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
                np.median(sigma_pos) < _VAGUE_POSITION * spread and np.median(sigma_rot_deg) < _VAGUE_ROTATION_DEG
            ),
            ModelDoubt.FOCAL: any(sigma > _VAGUE_FOCAL for sigma in self.focal_sigma if np.isfinite(sigma)),
            ModelDoubt.NOT_ADJUSTED: np.median(self.posterior.step_sigmas) > _FAR_FROM_OPTIMUM,
        }
        return tuple(one for one, holds in found.items() if holds)

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
            "lens_error": self.options.error.lens,
            "median_sigma_rot_deg": plain(median_sigma(sigma_rot)),
            "median_sigma_pos": plain(median_sigma(sigma_pos)),
            **{f"median_{name}": plain(median_sigma(values)) for name, values in shares.items()},
            "median_sigma_point": plain(median_sigma(scene.structure.sigma[scene.structure.good])),
            "diameter": plain(scene.structure.diameter),
            "unit": scene.unit,
        }


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
    posterior = posterior_of(bundle, PosteriorOptions(loss_px=scale, error=options.error, seed=options.seed))
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
    colour = np.array([model.points3D[n].color for n in bundle.point_numbers.tolist()], dtype=np.uint8).reshape(-1, 3)
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


def camera_shares(posterior: BundlePosterior) -> dict[str, Array]:
    """1σ per axis of cameras (n,) by noise and by the camera model, apart."""
    out = {}
    for name, covariance in (("noise", posterior.noise.of_images), ("model", posterior.model.of_images)):
        out[f"sigma_rot_{name}_deg"] = np.degrees(rms_sigma(covariance[:, :3, :3]))
        out[f"sigma_pos_{name}"] = rms_sigma(covariance[:, 3:, 3:])
    return out


def write_intrinsics(path: PathLike, posterior: BundlePosterior) -> None:
    """A table of the parameters of all cameras. Those that were held have the σ that is assumed of them, distortion none."""
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
        for k, name in enumerate(camera.lens.names):
            rows.append((camera.number, camera.model, name, camera.parameters[k], int(camera.free[k]), *sigma[:, k]))
    names = ["camera", "model", "parameter", "value", "estimated", "sigma", "sigma_noise", "sigma_model"]
    write_atomically(path, csv_text(names, [list(column) for column in zip(*rows, strict=True)]).encode())


def write_points(path: PathLike, posterior: BundlePosterior, structure: Structure) -> None:
    """A table of the points: COLMAP's numbers, places, σ, its three shares, and the covariance."""
    bundle, known = posterior.bundle, posterior.known[:, None, None]
    total = structure.covariance
    parts = {"own": posterior.point_own, "cameras": posterior.point_inherited, "model": posterior.point_model}
    columns = {
        "point3D_id": bundle.point_numbers,
        **{name: bundle.position[:, k] for k, name in enumerate("xyz")},
        "sigma": structure.sigma,
        **{f"sigma_{name}": rms_sigma(np.where(known, C, np.nan)) for name, C in parts.items()},
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
    if given.adjusted_px is not None:
        is_text = (given.folder / "cameras.txt").exists()
        (given.model.write_text if is_text else given.model.write_binary)(target)
        return
    for file in sorted(given.folder.iterdir()):
        if file.is_file() and file.suffix in (".txt", ".bin", ".ini"):
            shutil.copyfile(file, target / file.name)


def bundle_summary(bundle: Bundle) -> str:
    """How much there is, in a line."""
    lenses = f"{len(bundle.cameras)} camera{'s' if len(bundle.cameras) > 1 else ''}"
    return f"{len(bundle.names)} photographs by {lenses}, {len(bundle.position)} points, {len(bundle.point_of)} image points"
