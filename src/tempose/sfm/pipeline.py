"""Photographs, a COLMAP database or a COLMAP model → cameras and points with error bars."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose.errors import GraphError, OptionError, TemposeError
from tempose.inference.summary import tangent
from tempose.options import SolveOptions
from tempose.poses import Poses
from tempose.sfm.database import read_database
from tempose.sfm.features import Progress, build_database, read_intrinsics
from tempose.sfm.model import is_model, read_model
from tempose.sfm.resample import aligned, image_noise, own_factors
from tempose.sfm.scales import ScaleOptions, Scales, average_scales, depths_of_pair, join, measure_ratios, scale_error
from tempose.sfm.scene import Scene
from tempose.sfm.structure import StructureOptions, reconstruct
from tempose.sfm.synchronise import Synchronised, SyncOptions, synchronise
from tempose.sfm.tracks import observations
from tempose.sfm.twoview import PairOptions, Pairs, estimate_pairs, guided_pairs
from tempose.sfm.views import Views
from tempose.solution import Solution
from tempose.solver import solve

Array = NDArray[np.float64]

SCALES = ("tracks", "truth")
_TRUE_SCALE_SIGMA = 5e-4  # of the logarithm of a baseline that was given
_DRAWS_PER_POINT_DRAW = 10  # cameras' covariances use all draws, points one of these many


@dataclass(frozen=True)
class SfmOptions:
    """From views to points.

    Parameters
    ----------
    scales
        ``tracks``: lengths of baselines from shared points; ``truth``: from true positions (the paper's protocol).
    rounds
        Guided rounds: predict each pair from all, choose its matches anew, adjust it, synchronise again.
    draws
        Posterior draws of the cameras for which the points are made again.
    replicates
        Sets of fresh image noise that say how wide the posterior of the cameras must be.
    seed
        Same seed, same result.
    """

    scales: str = "tracks"
    rounds: int = 3
    draws: int = 40
    replicates: int = 10
    seed: int = 0
    pairs: PairOptions = field(default_factory=PairOptions)
    scale: ScaleOptions = field(default_factory=ScaleOptions)
    sync: SyncOptions = field(default_factory=SyncOptions)
    structure: StructureOptions = field(default_factory=StructureOptions)

    def __post_init__(self) -> None:
        if self.scales not in SCALES:
            raise OptionError(f"unknown scales {self.scales!r}: choose one of {', '.join(SCALES)}")
        if self.draws < 0 or self.rounds < 0 or self.seed < 0:
            raise OptionError("draws, rounds and seed must not be negative")
        if self.replicates < 1:
            raise OptionError(f"at least one set of fresh noise is needed, not {self.replicates}")


@dataclass(frozen=True, eq=False)
class Motion:
    """Cameras before any draw: the last pairs, their scales, and the robust optimum of their graph.

    Attributes
    ----------
    first
        Pairs as they came from their matches alone.
    pairs
        Pairs of the last round.
    scale
        Length of each pair's baseline (m,), NaN where unknown.
    synchronised
        Poses and graph.
    notices
        One line each: what was left out and why.
    """

    first: Pairs
    pairs: Pairs
    scale: Array
    synchronised: Synchronised
    notices: tuple[str, ...]


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


def _silent(phase: str, done: float, total: float) -> None:
    pass


# ---------------------------------------------------------------------- stages


def read_views(
    source: str | Path, database: str | Path, intrinsics: str | Path | None = None, progress: Progress = _silent
) -> Views:
    """Views of a folder of photographs, of a COLMAP database or of a COLMAP model.

    Features and matches of photographs go to ``database``; what is there already is not made again.
    """
    source = Path(source)
    if source.is_file():
        return read_database(source)
    if not source.is_dir():
        raise TemposeError(
            f"{source}: no such file or folder; give a folder of photographs, a COLMAP database or model"
        )
    if is_model(source):
        return read_model(source)
    given = None if intrinsics is None else read_intrinsics(intrinsics)
    notices = build_database(source, database, given, progress)
    return replace(read_database(database), notices=tuple(notices))


def estimate_motion(
    views: Views, options: SfmOptions | None = None, truth: Poses | None = None, progress: Progress = _silent,
    first: Pairs | None = None,
) -> Motion:  # fmt: skip
    """Pairs, scales and poses, in guided rounds; ``first`` are pairs that :func:`estimate_pairs` has made before."""
    options = options or SfmOptions()
    if options.scales == "truth" and truth is None:
        raise OptionError("scales from the truth need true positions of the cameras")
    total = len(views.pairs)
    if first is None:
        first = estimate_pairs(views, options.pairs, options.seed, lambda done: progress("pairs", done, total))
    pairs = first
    if not len(pairs):
        i, j, why = pairs.refused[0]
        raise GraphError(
            f"none of the {total} matched pairs has a usable relative pose; for instance {views.names[i]} and "
            f"{views.names[j]}: {why}"
        )
    found: Synchronised | None = None
    for k in range(options.rounds + 1):
        scale, sigma = lengths(views, pairs, options, truth)
        found = synchronise(views.names, pairs, scale, sigma, None if found is None else found.poses, options.sync)
        progress("rounds", k + 1, options.rounds + 1)
        if k < options.rounds:
            pairs = _or_before(pairs_of_posed(views, found.poses, options.pairs), pairs, found)
    assert found is not None
    return Motion(first, pairs, scale, found, _notices(views, first, pairs, found))


def lengths(views: Views, pairs: Pairs, options: SfmOptions, truth: Poses | None = None) -> tuple[Array, Array]:
    """Length of every baseline and σ of its logarithm."""
    if options.scales == "truth":
        assert truth is not None
        place = truth.select(views.names).position
        length = np.linalg.norm(place[pairs.views[:, 0]] - place[pairs.views[:, 1]], axis=1)
        return length, np.full(len(pairs), _TRUE_SCALE_SIGMA)
    found = scales_from_tracks(views, pairs, options.scale)
    return np.exp(found.log_scale), found.sigma


def scales_from_tracks(views: Views, pairs: Pairs, options: ScaleOptions | None = None) -> Scales:
    """Relative scales of all pairs from the depths of the points they share; the median baseline is 1."""
    options = options or ScaleOptions()
    parts, own = [], np.zeros(len(pairs))
    for row, ((i, j), pose, match) in enumerate(zip(pairs.views.tolist(), pairs.poses, pairs.matches, strict=True)):
        rays = views.rays(i, match[:, 0]), views.rays(j, match[:, 1])
        sigma = pose.sigma_px / float(views.focal[i].mean())
        own[row] = scale_error(pose.rotation, pose.direction, pose.covariance, rays)
        parts.append(depths_of_pair(row, (i, j), match, pose.rotation, pose.direction, rays, sigma, options))
    if len(pairs) == 1:  # two views: nothing to compare with, the baseline is the unit
        return Scales(np.zeros(1), np.zeros(1), np.ones(0))
    return average_scales(len(pairs), measure_ratios(join(parts), options, own), own)


def _or_before(guided: Pairs, before: Pairs, found: Synchronised) -> Pairs:
    """Guided pairs, and those that fitted before but found too few matches by the predicted pose, as they were."""
    have = set(map(tuple, guided.views.tolist()))
    fitted = found.edges.row[found.keep]
    back = [k for k in fitted.tolist() if tuple(before.views[k].tolist()) not in have]
    return Pairs(
        np.concatenate([guided.views, before.views[back]]), (*guided.poses, *(before.poses[k] for k in back)),
        (*guided.matches, *(before.matches[k] for k in back)), guided.refused,
    )  # fmt: skip


def pairs_of_posed(views: Views, poses: Poses, options: PairOptions | None = None) -> Pairs:
    """Guided pairs of the views that have a pose."""
    return guided_pairs(_of_part(views, poses), _on_all(poses, views.names), options)


def _of_part(views: Views, poses: Poses) -> Views:
    """The same views with only the pairs whose two cameras have a pose."""
    has = np.array([name in poses.index for name in views.names])
    keep = np.flatnonzero(has[views.pairs].all(axis=1))
    return replace(views, pairs=views.pairs[keep], matches=tuple(views.matches[k] for k in keep))


def _on_all(poses: Poses, names: Sequence[str]) -> Poses:
    """Poses in the order of the views; those without one stand at the origin and take part in no pair."""
    everywhere = Poses.identity(names)
    rows = [everywhere.index[name] for name in poses.ids]
    wxyz, position = everywhere.wxyz.copy(), everywhere.position.copy()
    wxyz[rows], position[rows] = poses.wxyz, poses.position
    return Poses(tuple(names), wxyz, position)


def _notices(views: Views, first: Pairs, pairs: Pairs, found: Synchronised) -> tuple[str, ...]:
    out = list(views.notices)
    for i, j, why in first.refused:
        if "agree" not in why and "explains" not in why.split(",")[0]:
            out.append(f"pair {views.names[i]}, {views.names[j]}: {why}")
    lost = [name for name in views.names if name not in found.poses.index]
    if lost:
        listed = ", ".join(lost[:5]) + (", …" if len(lost) > 5 else "")
        out.append(
            f"{len(lost)} of {len(views)} views do not hang together with the rest and are left out: {listed}; "
            "photographs between them and the others would join them"
        )
    wrong = len(found.edges.row) - len(found.keep)
    if wrong:
        out.append(f"{wrong} of {len(pairs)} pairs contradict the others and are left out")
    return tuple(out)


# ---------------------------------------------------------------------- all of it


def reconstruct_views(
    views: Views, options: SfmOptions | None = None, *, truth: Poses | None = None, images: Path | None = None,
    directory: Path | None = None, progress: Progress = _silent,
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
    if options.draws:
        found = found.with_own(_own_factors(views, motion, options, truth, progress), options.sync)
    clock("noise")
    solving = SolveOptions(draws=_DRAWS_PER_POINT_DRAW * options.draws, seed=options.seed, start="given")
    solution = solve(
        replace(found.graph, initial=found.poses), solving, directory=directory,
        progress=lambda now: progress(now.phase, now.done, now.total),
    )  # fmt: skip
    poses = solution.estimate
    unit, gauge = ("m", "metric") if options.scales == "truth" else ("units", "the median baseline is 1")
    part = _select(views, poses)
    draws = () if solution.draws is None else solution.draws
    moved = [aligned(wxyz, position, poses) for wxyz, position in draws]
    clock("draws")
    seen = observations(part, _renumbered(motion.pairs, views, part))
    structure = reconstruct(
        poses, part.K, seen, moved[::_DRAWS_PER_POINT_DRAW],
        replace(options.structure, sigma_px=options.structure.sigma_px or image_noise(motion.pairs)),
        lambda done: progress("points", done, max(options.draws, 1)),
    )  # fmt: skip
    clock("points")
    scene = Scene(
        poses, part.K, part.size, _camera_covariance(moved, poses), seen, structure,
        None if images is None else sample_colours(images, part, seen),
        f"each draw aligned with the estimate by rotation, scale and translation of all cameras; {gauge}", unit,
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


def _own_factors(
    views: Views, motion: Motion, options: SfmOptions, truth: Poses | None, progress: Progress
) -> tuple[float, float]:
    return own_factors(
        views, motion.pairs, motion.synchronised, lambda v, p: lengths(v, p, options, truth)[0], options.pairs.loss_px,
        options.sync, replicates=options.replicates, seed=options.seed,
        progress=lambda done: progress("noise", done, options.replicates),
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
    return Pairs(row[keep], tuple(pairs.poses[k] for k in keep), tuple(pairs.matches[k] for k in keep))


def _camera_covariance(draws: list[tuple[Array, Array]], reference: Poses) -> Array:
    if len(draws) < 2:
        return np.full((len(reference), 6, 6), np.nan)
    off = np.array([tangent(wxyz, position, reference) for wxyz, position in draws])
    off -= off.mean(axis=0)
    return np.asarray(np.einsum("dna,dnb->nab", off, off) / (len(draws) - 1))


def sample_colours(folder: Path, views: Views, seen: Any) -> NDArray[np.uint8] | None:
    """Mean colour (p, 3) of every point over its views; ``None`` if the photographs are not there."""
    from tempose.sfm.cameras import require_pycolmap

    pycolmap = require_pycolmap("colours of points")
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
