"""Bundle adjustment of a COLMAP model, its poses, points and free groups of intrinsics: by pycolmap (Ceres), and polished here."""

from __future__ import annotations

from typing import Any

from tempose._support.packages import require
from tempose.errors import Interrupted
from tempose.geometry import align
from tempose.sfm.adjustment.linear import linearise
from tempose.sfm.adjustment.polish import polished
from tempose.sfm.adjustment.posterior import robust_sigma_px
from tempose.sfm.adjustment.problem import USUAL, Bundle, bundle_again, bundle_of, write_back

EFFICIENT = 2.385
"""Scale of a Cauchy loss in units of the noise at which it loses 5% to least squares where noise is Gaussian."""
_MOST_STEPS = 100
_MOST_ROUNDS = 4
_SETTLED = 0.05
_ROUGH, _EXACT = 1e-4, 1e-8  # share of the cost below which a step is the last: to find the scale, and the end


def readjust(
    model: Any, free: tuple[str, ...] = USUAL, loss_px: float | None = None, bundle: Bundle | None = None
) -> float:
    """Adjust a pycolmap ``Reconstruction`` in place, with a Cauchy loss; returns the scale of the loss, pixels.

    The scale is that of ``loss_px``, or 2.385 times the noise that the median residual says, taken anew until it stays within
    5%. The result is aligned with the poses as they were. ``bundle`` is an earlier one of the same model, which saves time.
    """
    pycolmap = require("pycolmap", "bundle adjustment")
    pycolmap.logging.minloglevel = 3  # steps that are tried and given up are no news; what fails is raised
    before = bundle_of(model, free) if bundle is None else bundle_again(bundle, model, free)
    scale = loss_px or EFFICIENT * robust_sigma_px(linearise(before))
    for _ in range(_MOST_ROUNDS if loss_px is None else 0):
        _adjust(pycolmap, model, free, scale, _ROUGH)
        measured = EFFICIENT * robust_sigma_px(linearise(bundle_again(before, model, free)))
        if abs(measured - scale) < _SETTLED * scale:
            break
        scale = measured
    if loss_px is not None:
        _adjust(pycolmap, model, free, scale, _ROUGH)
    here = bundle_again(before, model, free)
    found = None if here.left_out else polished(here, scale, scale / EFFICIENT)
    if found is None:
        _adjust(pycolmap, model, free, scale, _EXACT)
    else:
        write_back(found, model)
    after = bundle_again(before, model, free)
    kind = "se3" if after.metric else "sim3"
    fit = align((after.poses.wxyz, after.poses.position), (before.poses.wxyz, before.poses.position), kind)
    turned = pycolmap.Rotation3d(fit.wxyz[[1, 2, 3, 0]])
    model.transform(pycolmap.Sim3d(fit.scale, turned, fit.translation))
    model.update_point_3d_errors()
    return scale


def _adjust(pycolmap: Any, model: Any, free: tuple[str, ...], loss_px: float, tolerance: float) -> None:
    settings = pycolmap.BundleAdjustmentOptions()
    settings.print_summary = False
    settings.refine_focal_length = "focal" in free
    settings.refine_principal_point = "centre" in free
    settings.refine_extra_params = "distortion" in free
    settings.refine_sensor_from_rig = False
    ceres = settings.ceres
    ceres.loss_function_type = pycolmap.LossFunctionType.CAUCHY
    ceres.loss_function_scale = loss_px
    ceres.solver_options.num_threads = 1  # with more the last digits, and so the bytes of a result, differ
    ceres.solver_options.max_num_iterations = _MOST_STEPS
    ceres.solver_options.function_tolerance = tolerance
    ceres.solver_options.gradient_tolerance = 1e-8
    config = pycolmap.BundleAdjustmentConfig()
    for number, image in model.images.items():
        if image.has_pose:
            config.add_image(number)
    config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    adjuster: Any = pycolmap.create_default_bundle_adjuster(settings, config, model)
    if adjuster.solve().ceres_summary.termination_type.name == "FAILURE":
        raise Interrupted("bundle adjustment failed: the model's poses or points are not finite; look at them")
