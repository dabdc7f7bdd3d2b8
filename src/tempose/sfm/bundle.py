"""Bundle adjustment from any start, by pycolmap (Ceres): cameras, points or both, with calibrated cameras."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array
from tempose.errors import GraphError, OptionError
from tempose.io.colmap.model import model_poses
from tempose.model.poses import Poses
from tempose.sfm.points import GOOD
from tempose.sfm.scene import Scene

FREE = ("all", "points", "poses")


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
        ``"converged"``, ``"out of steps"`` or ``"failed"``.
    """

    poses: Poses
    position: Array
    initial_cost: float
    final_cost: float
    n_iterations: int
    seconds: float
    processor_seconds: float
    status: str


def adjust(scene: Scene, options: AdjustOptions | None = None) -> Adjustment:
    """Bundle adjustment of the good points of a scene; intrinsics stay as they are.

    The gauge is fixed by two cameras where poses move: the result is in the frame of the start, and comparing it with
    anything needs an alignment.
    """
    options = options or AdjustOptions()
    pycolmap = require("pycolmap", "bundle adjustment")
    if not np.any(scene.structure.status == GOOD):
        raise GraphError("there is no point to adjust: no views agree on one; start from better poses")
    with tempfile.TemporaryDirectory() as directory:
        scene.write_colmap(directory)
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
    name = summary.termination_type.name
    return Adjustment(
        poses=model_poses(model).select(scene.poses.ids),
        position=_points(model, len(scene.structure.status)),
        initial_cost=float(summary.initial_cost),
        final_cost=float(summary.final_cost),
        n_iterations=int(summary.num_successful_steps + summary.num_unsuccessful_steps),
        seconds=float(summary.total_time_in_seconds),
        processor_seconds=spent,
        status={"CONVERGENCE": "converged", "NO_CONVERGENCE": "out of steps"}.get(name, "failed"),
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
    good = s.status == GOOD
    return float(np.sum(s.rms_px[good] ** 2 * s.n_views[good]))
