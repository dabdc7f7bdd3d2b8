"""Plain covariances of all cameras and points of an adjusted model, next to pycolmap's ``estimate_ba_covariance``.

    python benchmarks/covariances.py [--frames 100] [--points 50000] [--views 6]

Both start from the same adjusted model in memory and give covariances of cameras and calibration, in the same gauge. Of the
points COLMAP gives ``V⁻¹`` alone, as if the cameras were known; tempose gives that and what they inherit from cameras and
calibration. What a model is turned into first, arrays for tempose and a problem for Ceres, is not part of the ratio; how long the
arrays take is printed. Interleaved, the best of several; compiling is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pycolmap

from tempose.geometry import quaternion as quat
from tempose.sfm.adjustment.covariance import Covariance, Inverse
from tempose.sfm.adjustment.gauges import TwoFrames
from tempose.sfm.adjustment.linear import cross_matrix, linearise
from tempose.sfm.adjustment.problem import Bundle, bundle_of
from tempose.sfm.adjustment.reduced import reduce


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=100)
    parser.add_argument("--points", type=int, default=50_000)
    parser.add_argument("--views", type=int, default=6, help="photographs that see a point")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    pycolmap.logging.minloglevel = 3
    model = synthetic(arguments.frames, arguments.points, arguments.views)
    adjuster, building = timed(lambda: adjusted(model))
    bundle, reading = timed(lambda: bundle_of(model))
    small = synthetic(5, 50, 3)
    adjusted(small)
    covariances(bundle_of(small), None)  # compiles
    options = pycolmap.BACovarianceOptions()
    options.damping = 0.0
    held = gauge(bundle, pycolmap.estimate_ba_covariance(options, model, adjuster))
    ours, theirs = [], []
    for _ in range(arguments.repeats):
        found, seconds = timed(lambda: covariances(bundle, held))
        ours.append(seconds)
        reference, seconds = timed(lambda: pycolmap.estimate_ba_covariance(options, model, adjuster))
        theirs.append(seconds)
    (wall, processor), (their_wall, their_processor) = min(ours), min(theirs)
    print(f"{len(bundle.names)} photographs, {len(bundle.position)} points, {len(bundle.point_of)} image points")
    print(f"{'':28} {'seconds':>8} {'of all cores':>13}")
    print(f"{'model to arrays':28} {reading[0]:8.2f} {reading[1]:13.2f}")
    print(f"{'adjustment by Ceres':28} {building[0]:8.2f} {building[1]:13.2f}")
    print(f"{'tempose':28} {wall:8.2f} {processor:13.2f}")
    print(f"{'estimate_ba_covariance':28} {their_wall:8.2f} {their_processor:13.2f}")
    print(f"{'ratio':28} {their_wall / wall:8.1f} {their_processor / processor:13.1f}")
    print(f"largest relative difference: {difference(bundle, found, reference):.1e}")


def timed(call: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """What a call gives, and how long it took, by the clock and of all cores together."""
    wall, processor = time.perf_counter(), time.process_time()
    value = call()
    return value, (time.perf_counter() - wall, time.process_time() - processor)


def synthetic(frames: int, points: int, views: int) -> Any:
    """A model of photographs all around some points, half a pixel of noise."""
    pycolmap.set_random_seed(0)
    options = pycolmap.SyntheticDatasetOptions(
        num_rigs=1, num_cameras_per_rig=1, num_frames_per_rig=frames, num_points3D=points, track_length=views
    )
    options.num_points2D_without_point3D = 0
    model = pycolmap.synthesize_dataset(options)
    pycolmap.synthesize_noise(pycolmap.SyntheticNoiseOptions(point2D_stddev=0.5), model)
    return model


def adjusted(model: Any) -> Any:
    """Adjusted in place; Ceres' problem, in a gauge of two cameras."""
    settings = pycolmap.BundleAdjustmentOptions()
    settings.print_summary = False
    settings.refine_sensor_from_rig = False
    config = pycolmap.BundleAdjustmentConfig()
    for number in model.images:
        config.add_image(number)
    config.fix_gauge(pycolmap.BundleAdjustmentGauge.TWO_CAMS_FROM_WORLD)
    adjuster = pycolmap.create_default_ceres_bundle_adjuster(settings, config, model)
    adjuster.solve()
    return adjuster


def covariances(bundle: Bundle, held: TwoFrames | None) -> tuple[Covariance, np.ndarray]:
    """Of frames and cameras, and of points (p, 3, 3), per squared pixel of noise."""
    reduced = reduce(linearise(bundle))
    found = Covariance(Inverse.of(reduced, held), 1.0, np.zeros((6 * reduced.linear.nodes.count, 0)))
    found.of_images  # noqa: B018 - computed when asked for
    return found, reduced.point_inverse + found.of_points


def gauge(bundle: Bundle, theirs: Any) -> TwoFrames:
    """The gauge in which COLMAP's covariances are."""
    sizes = [theirs.get_cam_cov_from_world(int(number)) for number in bundle.numbers]
    first = next(k for k, C in enumerate(sizes) if C is None)
    second = next(k for k, C in enumerate(sizes) if C is not None and len(C) == 5)
    other = next(k for k in range(len(sizes)) if k not in (first, second))
    frames = int(bundle.frame_of[first]), int(bundle.frame_of[second])
    inverse = Inverse.of(reduce(linearise(bundle)))
    T = to_colmap(bundle, other)
    off = []
    for axis in range(3):  # COLMAP holds the one along which the two are farthest apart
        C = Inverse(inverse.reduced, inverse.factor, TwoFrames(*frames, axis)).blocks[0][bundle.frame_of[other]]
        off.append(np.abs(T @ C @ T.T - sizes[other]).max())
    return TwoFrames(*frames, int(np.argmin(off)))


def to_colmap(bundle: Bundle, k: int) -> np.ndarray:
    """From (rotation, position) in the world to COLMAP's (half the rotation, translation) of ``camera_from_world``."""
    R = quat.to_matrix(bundle.poses.wxyz[k]).T
    T = np.zeros((6, 6))
    T[:3, :3], T[3:, 3:] = -0.5 * R, -R
    T[3:, :3] = cross_matrix(-R @ bundle.poses.position[k]) @ R
    return T


def difference(bundle: Bundle, ours: tuple[Covariance, np.ndarray], theirs: Any) -> float:
    """Of cameras, and of points as if the cameras were known."""
    found = ours[0]
    off = []
    for k, number in enumerate(bundle.numbers.tolist()):
        C, T = theirs.get_cam_cov_from_world(number), to_colmap(bundle, k)
        if C is not None and len(C) == 6:
            off.append(np.abs(T @ found.of_images[k] @ T.T - C).max() / np.abs(C).max())
    own = found.inverse.reduced.point_inverse
    for k, number in enumerate(bundle.point_numbers.tolist()):
        C = theirs.get_point_cov(number)
        off.append(np.abs(own[k] - C).max() / np.abs(C).max())
    return float(max(off))


if __name__ == "__main__":
    main()
