"""The whole way: photographs, a COLMAP database or a COLMAP model → cameras and points with error bars."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._support.progress import ProgressHook, silent
from tempose.analysis.summary import median_sigma
from tempose.errors import ParseError
from tempose.io.colmap.cameras import read_camera
from tempose.io.colmap.model import is_model
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.options import SolveOptions
from tempose.sfm import words
from tempose.sfm.colours import sample_colours
from tempose.sfm.features import FeatureOptions, build_database
from tempose.sfm.motion import Motion, estimate_motion
from tempose.sfm.options import DRAWS_PER_POINT_DRAW, SfmOptions
from tempose.sfm.pairs import renumbered
from tempose.sfm.points import reconstruct
from tempose.sfm.scene import Scene, SceneGauge
from tempose.sfm.tracks import observations
from tempose.sfm.uncertainty import camera_covariance, half_differences, mixed, widening
from tempose.sfm.views import Views, read_database_views, read_model_views
from tempose.solver import solve


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """All there is.

    Attributes
    ----------
    views, motion
        What was given, and the cameras before any draw.
    graph
        The pose graph whose posterior was drawn from: that of the motion, as wide as halves of the points say.
    status
        How the solve of the graph ended.
    scene
        Cameras and points with their error bars.
    seconds
        How long each stage took.
    """

    views: Views
    motion: Motion
    graph: PoseGraph
    status: str
    scene: Scene
    seconds: dict[str, float]

    @property
    def notices(self) -> tuple[str, ...]:
        """One line each: what was assumed, what was left out and why."""
        return words.notices(self.views, self.motion.first, self.motion.pairs, self.motion.synchronised)

    def facts(self) -> dict[str, Any]:
        """Plain numbers for ``sfm.json``."""
        s, scene = self.motion.synchronised, self.scene
        sigma_rot, sigma_pos = scene.camera_sigma
        return {
            "status": self.status,
            "n_views": len(self.views),
            "n_cameras": len(scene.poses),
            "n_pairs_matched": len(self.views.pairs),
            "n_pairs": len(self.motion.pairs),
            "n_pairs_in_graph": s.graph.n_edges,
            "refused": [
                {"pair": self._names(one.first, one.second), "cause": one.why.cause, "why": words.refusal(one.why)}
                for one in self.motion.pairs.refused
            ],
            "distrusted": [
                {"pair": self._names(*self.motion.pairs.views[one.row]), "why": words.distrust(one)}
                for one in s.distrusted()
            ],
            "excess_rot_deg": float(np.degrees(s.excess[0])),
            "excess_direction_deg": float(np.degrees(s.excess[1])),
            "median_sigma_rot_deg": plain(median_sigma(sigma_rot)),
            "median_sigma_pos": plain(median_sigma(sigma_pos)),
            "points": {status.label: count for status, count in scene.structure.counts().items()},
            "sigma_px": scene.structure.sigma_px,
            "diameter": scene.structure.diameter,
            "median_sigma_point": plain(median_sigma(scene.structure.sigma[scene.structure.good])),
            "draws": scene.structure.n_draws,
            "gauge": words.gauge(scene.gauge),
            "unit": scene.unit,
            "seconds": {name: round(value, 2) for name, value in self.seconds.items()},
            "notices": list(self.notices),
        }

    def _names(self, *rows: int) -> list[str]:
        return [self.views.names[k] for k in rows]


def read_views(
    source: str | Path,
    database: str | Path,
    intrinsics: str | Path | None = None,
    progress: ProgressHook = silent,
    features: FeatureOptions | None = None,
    executor: Executor | None = None,
) -> Views:
    """Views of a folder of photographs, of a COLMAP database or of a COLMAP model.

    Features and matches of photographs go to ``database``; what is there already is not made again. Pairs are matched on the
    ``executor``, if there is one, whose workers see the database.
    """
    source = Path(source)
    if source.is_file():
        return read_database_views(source)
    if not source.is_dir():
        raise ParseError(
            source, None, "no such file or folder; give a folder of photographs, a COLMAP database or model"
        )
    if is_model(source):
        return read_model_views(source)
    camera = None if intrinsics is None else read_camera(intrinsics)
    remarks = build_database(source, database, camera, progress, features, executor=executor)
    views = read_database_views(database, photographs=source)
    return replace(views, remarks=tuple(remarks), calibrated=camera is not None)


def reconstruct_views(
    views: Views,
    options: SfmOptions | None = None,
    *,
    truth: Poses | None = None,
    images: Path | None = None,
    progress: ProgressHook = silent,
    executor: Executor | None = None,
) -> Reconstruction:
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
    progress
        Told of every stage.
    executor
        Where pairs, halves of the points and chains are worked on instead, to the same bytes: any pool of the standard library,
        or the workers of a cluster.
    """
    options = options or SfmOptions()
    clock = _Clock()
    motion = estimate_motion(views, options, truth, progress, executor=executor)
    clock("poses")
    found, halves = motion.synchronised, None
    if options.draws:
        halves = half_differences(views, motion.pairs, found, options, options.true_poses(truth), progress, executor)
        found = found.widened(widening(found, halves, options.seed))
    clock("noise")
    graph = replace(found.graph, initial=found.poses)
    solving = SolveOptions(draws=options.camera_draws, seed=options.seed, start="given")
    solution = solve(graph, solving, progress=progress, analyse=False, executor=executor)
    poses = solution.estimate
    moved = [] if solution.draws is None or halves is None else mixed(solution.draws, halves, poses, options.seed)
    clock("draws")
    part = views.some(poses.ids)
    seen = observations(part, renumbered(motion.pairs, views, part))
    sigma_px = options.structure.sigma_px or motion.pairs.sigma_px
    structure = reconstruct(
        poses,
        part.K,
        seen,
        moved[::DRAWS_PER_POINT_DRAW],
        replace(options.structure, sigma_px=sigma_px),
        progress,
    )
    clock("points")
    scene = Scene(
        poses,
        part.K,
        part.size,
        camera_covariance(moved, poses),
        seen,
        structure,
        None if images is None else sample_colours(images, part, seen),
        SceneGauge(options.scales == "truth", options.error_of(views.calibrated) if moved else None),
    )
    clock("colours")
    return Reconstruction(views, motion, graph, solution.status, scene, clock.seconds)


class _Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.last, self.seconds = time.perf_counter(), dict[str, float]()

    def __call__(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage], self.last = now - self.last, now
