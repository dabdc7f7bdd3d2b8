"""Bundle adjustment problems with known truth, by COLMAP."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Made(NamedTuple):
    """A synthetic model with noisy image points, adjusted from the truth, and the truth."""

    adjusted: Any
    truth: Any


PARAMETERS = {
    "SIMPLE_RADIAL": [1280.0, 512.0, 384.0, 0.05],
    "OPENCV": [1280.0, 1250.0, 512.0, 384.0, 0.05, 0.01, 0.001, -0.002],
    "FULL_OPENCV": [1280.0, 1250.0, 512.0, 384.0, 0.05, 0.01, 0.001, -0.002, 0.01, 0.01, 0.0, 0.0],
    "PINHOLE": [1280.0, 1250.0, 512.0, 384.0],
}


def make(
    seed: int = 0,
    model: str = "SIMPLE_RADIAL",
    frames: int = 6,
    points: int = 60,
    sigma_px: float = 0.5,
    rigs: int = 1,
    cameras: int = 1,
) -> Made:
    """Cameras all around some points; ``rigs`` of ``cameras`` each."""
    import pycolmap

    pycolmap.set_random_seed(seed)
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig = rigs, cameras
    options.num_frames_per_rig, options.num_points3D = frames, points
    options.camera_model_id = pycolmap.CameraModelId.__members__[model]
    options.camera_params = PARAMETERS[model]
    options.num_points2D_without_point3D = 0
    truth = pycolmap.synthesize_dataset(options)
    noisy = pycolmap.Reconstruction(truth)
    rng = np.random.default_rng(seed)
    for image in noisy.images.values():
        for point in image.points2D:
            point.xy = point.xy + sigma_px * rng.standard_normal(2)
    return Made(noisy, truth)


def adjust(model: Any, gauge: bool = True, refine_centre: bool = False) -> tuple[Any, float]:
    """Least squares by COLMAP; returns the adjuster, which keeps what its covariances need, and the final cost."""
    import pycolmap

    settings = pycolmap.BundleAdjustmentOptions()
    settings.print_summary = False
    settings.refine_principal_point = refine_centre
    settings.refine_sensor_from_rig = False
    settings.ceres.solver_options.function_tolerance = 1e-14
    settings.ceres.solver_options.gradient_tolerance = 1e-12
    config = pycolmap.BundleAdjustmentConfig()
    for number in model.images:
        config.add_image(number)
    if gauge:
        config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    adjuster = pycolmap.create_default_ceres_bundle_adjuster(settings, config, model)
    return adjuster, float(adjuster.solve().ceres_summary.final_cost)
