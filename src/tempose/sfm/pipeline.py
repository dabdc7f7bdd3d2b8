"""Photographs, a COLMAP database or a COLMAP model → cameras and points with error bars."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.packages import require
from tempose._typing import Array
from tempose.analysis.summary import tangent
from tempose.errors import TemposeError
from tempose.io.colmap.cameras import read_camera
from tempose.io.colmap.model import is_model
from tempose.model.poses import Poses
from tempose.options import SolveOptions
from tempose.sfm.features import Progress, build_database, silent
from tempose.sfm.motion import Motion, estimate_motion, lengths, own_scale_errors
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import Pairs
from tempose.sfm.points import CameraDraw, StructureOptions, reconstruct
from tempose.sfm.scene import Scene
from tempose.sfm.tracks import observations
from tempose.sfm.uncertainty import Halves, half_differences, mixed, widening
from tempose.sfm.views import Views, read_database_views, read_model_views
from tempose.solution import Solution
from tempose.solver import solve

_DRAWS_PER_POINT_DRAW = 10  # cameras' covariances use all draws, points one of these many


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """All there is: the motion, the posterior of the cameras, the scene, and how long each stage took."""

    views: Views
    motion: Motion
    solution: Solution
    scene: Scene
    seconds: dict[str, float]

    def facts(self) -> dict[str, Any]:
        """Plain numbers for ``sfm.json``."""
        s, scene = self.motion.synchronised, self.scene
        sigma_rot, sigma_pos = scene.camera_sigma
        good = scene.structure.sigma[scene.structure.status == 0]
        return {
            "status": self.solution.status,
            "n_views": len(self.views),
            "n_cameras": len(scene.poses),
            "n_pairs_matched": len(self.views.pairs),
            "n_pairs": len(self.motion.pairs),
            "n_pairs_in_graph": s.graph.n_edges,
            "refused": [
                {"pair": [self.views.names[i], self.views.names[j]], "why": why}
                for i, j, why in self.motion.pairs.refused
            ],
            "distrusted": [
                {"pair": [self.views.names[k] for k in self.motion.pairs.views[one.row]], "why": one.why}
                for one in s.distrusted()
            ],
            "excess_rot_deg": float(np.degrees(s.excess[0])),
            "excess_direction_deg": float(np.degrees(s.excess[1])),
            "median_sigma_rot_deg": _median(sigma_rot),
            "median_sigma_pos": _median(sigma_pos),
            "points": scene.structure.counts(),
            "sigma_px": scene.structure.sigma_px,
            "diameter": scene.structure.diameter,
            "median_sigma_point": _median(good),
            "draws": scene.structure.n_draws,
            "gauge": scene.gauge,
            "unit": scene.unit,
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
            "notices": list(self.motion.notices),
        }


def _median(x: Array) -> float | None:
    finite = x[np.isfinite(x)]
    return float(np.median(finite)) if len(finite) else None


def read_views(
    source: str | Path, database: str | Path, intrinsics: str | Path | None = None, progress: Progress = silent
) -> Views:
    """Views of a folder of photographs, of a COLMAP database or of a COLMAP model.

    Features and matches of photographs go to ``database``; what is there already is not made again.
    """
    source = Path(source)
    if source.is_file():
        return read_database_views(source)
    if not source.is_dir():
        raise TemposeError(
            f"{source}: no such file or folder; give a folder of photographs, a COLMAP database or model"
        )
    if is_model(source):
        return read_model_views(source)
    given = None if intrinsics is None else read_camera(intrinsics)
    notices = build_database(source, database, given, progress)
    views = read_database_views(database, photographs=source)
    return replace(views, notices=tuple(notices), calibrated=given is not None)


def reconstruct_views(
    views: Views, options: SfmOptions | None = None, *, truth: Poses | None = None, images: Path | None = None,
    directory: Path | None = None, progress: Progress = silent,
) -> Reconstruction:  # fmt: skip
    """Cameras and points with error bars.

    Parameters
    ----------
    views
        From :func:`read_views`.
    options
        See :class:`SfmOptions`.
    truth
        True camera poses, needed for scales from the truth.
    images
        Folder of the photographs, for the colours of the points.
    directory
        Where the draws go; a temporary one if not given.
    """
    options = options or SfmOptions()
    clock = _Clock()
    motion = estimate_motion(views, options, truth, progress)
    clock("poses")
    found = motion.synchronised
    halves = None
    if options.draws:
        halves = _half_differences(views, motion, options, truth, progress)
        found = found.widened(widening(found, halves, options.seed))
    clock("noise")
    solving = SolveOptions(draws=_DRAWS_PER_POINT_DRAW * options.draws, seed=options.seed, start="given")
    solution = solve(
        replace(found.graph, initial=found.poses), solving, directory=directory,
        progress=lambda now: progress(now.phase, now.done, now.total),
    )  # fmt: skip
    poses = solution.estimate
    error = options.error_of(views.calibrated)
    known = f"calibration known to {100.0 * error:g}%" if error else "calibration taken as perfect"
    unit, scale = ("m", "metric") if options.scales == "truth" else ("units", "the median baseline is 1")
    part = _select(views, poses)
    moved = [] if solution.draws is None or halves is None else mixed(solution.draws, halves, poses, options.seed)
    clock("draws")
    seen = observations(part, _renumbered(motion.pairs, views, part))
    structure = reconstruct(
        poses, part.K, seen, moved[::_DRAWS_PER_POINT_DRAW],
        replace(options.structure, sigma_px=options.structure.sigma_px or motion.pairs.sigma_px),
        lambda done: progress("points", done, max(options.draws, 1)),
    )  # fmt: skip
    clock("points")
    scene = Scene(
        poses, part.K, part.size, _camera_covariance(moved, poses), seen, structure,
        None if images is None else sample_colours(images, part, seen),
        f"each draw aligned with the estimate by rotation, scale and translation of all cameras; {known}; {scale}", unit,
    )  # fmt: skip
    clock("colours")
    return Reconstruction(views, motion, solution, scene, clock.seconds)


def bare_scene(
    views: Views, pairs: Pairs, poses: Poses, options: StructureOptions | None = None, gauge: str = "no error bars"
) -> Scene:
    """Cameras and points without draws: where bundle adjustment starts."""
    part = _select(views, poses)
    seen = observations(part, _renumbered(pairs, views, part))
    structure = reconstruct(poses, part.K, seen, (), options)
    return Scene(poses, part.K, part.size, np.full((len(poses), 6, 6), np.nan), seen, structure, None, gauge)


def _half_differences(
    views: Views, motion: Motion, options: SfmOptions, truth: Poses | None, progress: Progress
) -> Halves:
    own = None
    if options.scales == "tracks":
        own = own_scale_errors(views, motion.pairs)  # hardly other for a half, and long to find
    return half_differences(
        views, motion.pairs, motion.synchronised, lambda seen, pairs: lengths(seen, pairs, options, truth, own)[0],
        options.pairs.loss_px, calibration_error=options.error_of(views.calibrated), replicates=options.replicates,
        seed=options.seed, progress=lambda done: progress("noise", done, options.replicates),
    )  # fmt: skip


class _Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.last, self.seconds = time.perf_counter(), dict[str, float]()

    def __call__(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage], self.last = now - self.last, now


def _select(views: Views, poses: Poses) -> Views:
    """The views that have a pose, in the order of the poses, without pairs."""
    rows = [views.names.index(str(name)) for name in poses.ids]
    return replace(
        views, names=tuple(views.names[k] for k in rows), K=views.K[rows], size=views.size[rows],
        keypoints=tuple(views.keypoints[k] for k in rows), pairs=np.empty((0, 2), dtype=np.int64), matches=(),
    )  # fmt: skip


def _renumbered(pairs: Pairs, views: Views, part: Views) -> Pairs:
    """Pairs whose views are rows of ``part``; those outside it are left out."""
    new = {name: k for k, name in enumerate(part.names)}
    row = np.array([new.get(name, -1) for name in views.names])[pairs.views].reshape(-1, 2)
    keep = np.flatnonzero((row >= 0).all(axis=1))
    return replace(pairs.some(keep), views=row[keep])


def _camera_covariance(draws: list[CameraDraw], reference: Poses) -> Array:
    if len(draws) < 2:
        return np.full((len(reference), 6, 6), np.nan)
    off = np.array([tangent(draw.world_from_node_wxyz, draw.position, reference) for draw in draws])
    off -= off.mean(axis=0)
    return np.asarray(np.einsum("dna,dnb->nab", off, off) / (len(draws) - 1))


def sample_colours(folder: Path, views: Views, seen: Any) -> NDArray[np.uint8] | None:
    """Mean colour (p, 3) of every point over its views; ``None`` if the photographs are not there."""
    pycolmap = require("pycolmap", "colours of points")
    total, count = np.zeros((seen.n_points, 3)), np.zeros(seen.n_points)
    for row, name in enumerate(views.names):
        at = np.flatnonzero(seen.camera_of == row)
        bitmap = pycolmap.Bitmap.read(folder / name, True) if (folder / name).is_file() else None
        if bitmap is None:
            continue
        picture = np.asarray(bitmap.to_array())[..., :3]
        x, y = np.floor(seen.pixel[at]).astype(np.int64).T  # pixel centres are at .5
        inside = (x >= 0) & (y >= 0) & (x < picture.shape[1]) & (y < picture.shape[0])
        np.add.at(total, seen.point_of[at[inside]], picture[y[inside], x[inside]].astype(float))
        np.add.at(count, seen.point_of[at[inside]], 1.0)
    if not count.any():
        return None
    return np.round(np.where(count[:, None] > 0, total / np.maximum(count, 1.0)[:, None], 128.0)).astype(np.uint8)
