"""Bundle adjustment, by pycolmap (Ceres): cameras, points or both, with calibrated cameras.

Once from any start (:func:`adjust`); from poses, in rounds that choose the matches by them (:func:`adjust_in_rounds`); and
from any poses on given tracks until nothing changes (:func:`adjust_until_stable`).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Mask
from tempose.errors import GraphError, OptionError
from tempose.io.colmap.model import numbered_poses
from tempose.model.poses import Poses
from tempose.sfm.files import write_colmap
from tempose.sfm.pairs import Pairs, pairs_of_posed, renumbered
from tempose.sfm.points import PointStatus, StructureOptions, reconstruct
from tempose.sfm.scene import Scene, SceneGauge
from tempose.sfm.tracks import observations
from tempose.sfm.two_views import PairOptions
from tempose.sfm.views import Views

FREE = ("all", "points", "poses")
ALL_VIEWS = StructureOptions(max_residual_px=1e6, min_angle_deg=0.0)
"""Every view of a track takes part, however far off."""
_NARROWEST_PX = 4.0


class AdjustStatus(StrEnum):
    """How bundle adjustment ended."""

    CONVERGED = "converged"
    OUT_OF_STEPS = "out of steps"
    FAILED = "failed"


_STATUS = {"CONVERGENCE": AdjustStatus.CONVERGED, "NO_CONVERGENCE": AdjustStatus.OUT_OF_STEPS}  # by Ceres' names


@dataclass(frozen=True)
class AdjustOptions:
    """What bundle adjustment may move, and when it stops.

    Parameters
    ----------
    free
        ``"all"``, ``"points"`` (cameras stay) or ``"poses"`` (points stay).
    loss_px
        Scale of a Cauchy loss on the reprojection error in pixels; ``None`` is least squares.
    max_iterations
        Of Levenberg–Marquardt.
    function_tolerance
        Stop when a step lowers the cost by less than this share.
    """

    free: str = "all"
    loss_px: float | None = None
    max_iterations: int = 200
    function_tolerance: float = 1e-8

    def __post_init__(self) -> None:
        if self.free not in FREE:
            raise OptionError(f"free is {self.free!r}; expected one of {', '.join(FREE)}")
        if self.loss_px is not None and not self.loss_px > 0.0:
            raise OptionError(f"loss_px must be positive, not {self.loss_px}")


@dataclass(frozen=True, eq=False)
class Adjustment:
    """Where bundle adjustment ended.

    Attributes
    ----------
    poses
        Cameras, ids as in the scene.
    position
        Points (p, 3), NaN for those that were not good at the start and took no part.
    initial_cost, final_cost
        Half the (robust) sum of squared pixel errors.
    n_iterations
        Steps tried.
    seconds, processor_seconds
        Of the solver alone, and what it took of all cores together.
    status
        How it ended.
    """

    poses: Poses
    position: Array
    initial_cost: float
    final_cost: float
    n_iterations: int
    seconds: float
    processor_seconds: float
    status: AdjustStatus


def adjust(scene: Scene, options: AdjustOptions | None = None) -> Adjustment:
    """Bundle adjustment of the good points of a scene; intrinsics stay as they are.

    The gauge is fixed by two cameras where poses move: the result is in the frame of the start, and comparing it with
    anything needs an alignment.
    """
    options = options or AdjustOptions()
    pycolmap = require("pycolmap", "bundle adjustment")
    if not scene.structure.good.any():
        raise GraphError("there is no point to adjust: no views agree on one; start from better poses")
    with tempfile.TemporaryDirectory() as directory:
        write_colmap(directory, scene)
        model = pycolmap.Reconstruction(directory)
    settings = pycolmap.BundleAdjustmentOptions()
    settings.print_summary = False
    settings.refine_focal_length = settings.refine_principal_point = settings.refine_extra_params = False
    settings.refine_rig_from_world = options.free != "points"
    settings.refine_points3D = options.free != "poses"
    ceres = settings.ceres
    if options.loss_px is not None:
        ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
        ceres.loss_function_scale = options.loss_px
    ceres.solver_options.max_num_iterations = options.max_iterations
    ceres.solver_options.function_tolerance = options.function_tolerance
    ceres.solver_options.gradient_tolerance = 1e-10
    config = pycolmap.BundleAdjustmentConfig()
    for index in model.images:
        config.add_image(index)
    if options.free == "all":
        config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    adjuster: Any = pycolmap.create_default_bundle_adjuster(settings, config, model)
    began = time.process_time()
    summary = adjuster.solve().ceres_summary
    spent = time.process_time() - began
    return Adjustment(
        poses=numbered_poses(model, scene.poses.ids),
        position=_points(model, len(scene.structure.status)),
        initial_cost=float(summary.initial_cost),
        final_cost=float(summary.final_cost),
        n_iterations=int(summary.num_successful_steps + summary.num_unsuccessful_steps),
        seconds=float(summary.total_time_in_seconds),
        processor_seconds=spent,
        status=_STATUS.get(summary.termination_type.name, AdjustStatus.FAILED),
    )


def _points(model: Any, count: int) -> Array:
    """Positions (p, 3) of a pycolmap model whose point numbers are rows + 1."""
    position = np.full((count, 3), np.nan)
    for index, point in model.points3D.items():
        position[index - 1] = point.xyz
    return position


def reprojection_cost(scene: Scene) -> float:
    """Half the sum of squared pixel errors of the good points, as bundle adjustment counts it."""
    s = scene.structure
    return float(np.sum(s.rms_px[s.good] ** 2 * s.n_views[s.good]))


# ---------------------------------------------------------------------- in rounds


def bare_scene(views: Views, pairs: Pairs, poses: Poses, options: StructureOptions | None = None) -> Scene:
    """Cameras and points without draws: where bundle adjustment starts."""
    part = views.some(poses.ids)
    seen = observations(part, renumbered(pairs, views, part))
    structure = reconstruct(poses, part.K, seen, (), options)
    unknown = np.full((len(poses), 6, 6), np.nan)
    return Scene(poses, part.K, part.size, unknown, seen, structure, None, SceneGauge())


@dataclass(frozen=True)
class Selection:
    """Which matches and points take part in one bundle adjustment, and its loss.

    Parameters
    ----------
    select_px
        Matches within this distance of the epipolar line that the poses predict join.
    fewest_views
        Points seen by fewer views take no part: two views check a match only across the epipolar line.
    min_angle_deg
        Points whose rays meet under less take no part.
    loss_px
        Scale of the Cauchy loss.
    """

    select_px: float
    fewest_views: int
    min_angle_deg: float
    loss_px: float


# chosen on: EPFL photographs HJ-P8, castle-P19, entry and fountain
COARSE = Selection(select_px=2.0, fewest_views=3, min_angle_deg=1.5, loss_px=0.3)
# chosen on: EPFL photographs HJ-P8, castle-P19, entry and fountain
FINE = Selection(select_px=1.0, fewest_views=2, min_angle_deg=0.3, loss_px=0.15)
"""Once the poses are good to a fraction of a pixel, what three views check is sorted out by a narrow loss, too."""


@dataclass(frozen=True, eq=False)
class Round:
    """One round of :func:`adjust_until_stable`.

    Attributes
    ----------
    adjustment
        Where bundle adjustment ended.
    used
        Observations (k,) that took part.
    point_seconds, seconds
        Processor time of making the points, and of that and the adjustment.
    stable
        Whether nothing changes any more.
    """

    adjustment: Adjustment
    used: Mask
    point_seconds: float
    seconds: float
    stable: bool


def adjust_in_rounds(
    views: Views, poses: Poses, rounds: Sequence[Selection] = (COARSE, FINE, FINE)
) -> list[Adjustment]:
    """Bundle adjustment from the given poses, matches chosen by the poses; one result per round, the last is the best."""
    done: list[Adjustment] = []
    for one in rounds:
        now = done[-1].poses if done else poses
        # also pairs with too few matches for a relative pose of their own
        pairs = pairs_of_posed(views, now, PairOptions(fewest=8, fewest_share=0.0, select_px=one.select_px))
        scene = bare_scene(views, pairs, now, StructureOptions(min_angle_deg=one.min_angle_deg))
        options = AdjustOptions(loss_px=one.loss_px, function_tolerance=1e-6)
        done.append(adjust(_several_views(scene, one.fewest_views), options))
    return done


def adjust_until_stable(scene: Scene, poses: Poses, most: int = 50, change: float = 1e-3) -> Iterator[Round]:
    """Rounds of points, filter and least squares from any start, until nothing changes.

    The tracks are those of ``scene``, whatever the poses. Of each, the views take part that agree on a point within 4
    pixels, or within three times what all views of half the tracks agree on: a bad start begins wide and narrows as it
    gets better. They are chosen anew in every round.

    Parameters
    ----------
    most
        Rounds.
    change
        The last round is the first in which a smaller share of the observations joins or leaves, and the cost per observation
        changes by a smaller share.
    """
    before, cost = np.zeros(len(scene.observations), dtype=bool), np.inf
    for _ in range(most):
        began = time.process_time()
        whole = reconstruct(poses, scene.intrinsics, scene.observations, (), ALL_VIEWS)
        width = max(_NARROWEST_PX, 3.0 * float(np.median(whole.rms_px[whole.status != PointStatus.BEHIND])))
        filtered = StructureOptions(max_residual_px=width)
        structure = reconstruct(poses, scene.intrinsics, scene.observations, (), filtered)
        points = time.process_time() - began
        found = adjust(replace(scene, poses=poses, structure=structure), AdjustOptions(function_tolerance=1e-6))
        used = structure.used & structure.good[scene.observations.point_of]
        per_view = found.final_cost / max(int(used.sum()), 1)
        same = np.sum(used != before) < change * used.sum() and abs(per_view - cost) < change * cost
        yield Round(found, used, points, points + found.processor_seconds, bool(same))
        if same:
            return
        before, cost, poses = used, per_view, found.poses


def _several_views(scene: Scene, fewest: int) -> Scene:
    """The same scene, points of fewer views marked."""
    s = scene.structure
    few = s.good & (s.n_views < fewest)
    return replace(scene, structure=replace(s, status=np.where(few, PointStatus.FEW_VIEWS, s.status)))
