"""Points again for every posterior draw: 40 draws of 20 000 points, next to COLMAP and scipy, in one run.

    python benchmarks/structure.py               # needs: pip install '.[sfm]'

Synthetic: 30 cameras on an arc, points in a box, each seen by 6 cameras in a row, 0.5 px of noise; draws are the poses with
0.01° and 0.001 of noise. tempose: triangulates and refines all points for the estimate and for every draw, covariances
included, on all threads. COLMAP: bundle adjustment (Ceres) of the points alone with the poses of a draw held, on one draw, times
the number of draws, the points handed over outside the clock; no covariances. scipy: ``least_squares`` per point, on a
few points of one draw, times their number. Compilation and imports are excluded.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.points import Observations, StructureOptions, projections, reconstruct

Array = NDArray[np.float64]
K = np.array([[1500.0, 0.0, 750.0], [0.0, 1500.0, 500.0], [0.0, 0.0, 1.0]])
CAMERAS, VIEWS_PER_POINT, NOISE_PX = 30, 6, 0.5


def make(n_points: int, rng: np.random.Generator) -> tuple[Poses, Array, Observations]:
    """Cameras, true points and what was seen."""
    angle = np.linspace(-1.0, 1.0, CAMERAS)
    position = 8.0 * np.stack([np.sin(angle), 0.05 * rng.standard_normal(CAMERAS), -np.cos(angle)], axis=1)
    poses = Poses(
        tuple(f"{k:02d}" for k in range(CAMERAS)),
        quat.exp(np.stack([np.zeros(CAMERAS), -angle, np.zeros(CAMERAS)], axis=1)),
        position,
    )
    points = rng.uniform(-1.5, 1.5, (n_points, 3))
    first = rng.integers(0, CAMERAS - VIEWS_PER_POINT + 1, n_points)
    camera = (first[:, None] + np.arange(VIEWS_PER_POINT)).ravel()
    point = np.repeat(np.arange(n_points), VIEWS_PER_POINT)
    P = projections(K, poses.wxyz, poses.position)
    h = np.einsum("kab,kb->ka", P[camera][:, :, :3], points[point]) + P[camera][:, :, 3]
    pixel = h[:, :2] / h[:, 2:] + NOISE_PX * rng.standard_normal((len(point), 2))
    return poses, points, Observations.sorted_by_point(point, camera, pixel)


def posterior_draws(poses: Poses, count: int, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Poses with noise."""
    n = len(poses)
    return [
        (
            quat.multiply(quat.exp(np.radians(0.01) * rng.standard_normal((n, 3))), poses.wxyz),
            poses.position + 0.001 * rng.standard_normal((n, 3)),
        )
        for _ in range(count)
    ]


def colmap_seconds(seen: Observations, points: Array, draw: tuple[Array, Array], threads: int) -> tuple[float, Array]:
    """Seconds of COLMAP's bundle adjustment of the points for one draw, and where it puts them."""
    import pycolmap

    pycolmap.logging.minloglevel = 2
    model = pycolmap.Reconstruction()
    camera = pycolmap.Camera(
        model="PINHOLE", width=1500, height=1000, params=[K[0, 0], K[1, 1], K[0, 2], K[1, 2]], camera_id=1
    )
    model.add_camera_with_trivial_rig(camera)
    wxyz, position = draw
    rotation = np.swapaxes(quat.to_matrix(wxyz), -1, -2)
    for c in range(CAMERAS):
        mine = seen.pixel[seen.camera_of == c]
        image = pycolmap.Image(
            name=f"{c:02d}",
            camera_id=1,
            image_id=c + 1,
            points2D=pycolmap.Point2DList([pycolmap.Point2D(x) for x in mine]),
        )
        pose = pycolmap.Rigid3d(pycolmap.Rotation3d(rotation[c]), -rotation[c] @ position[c])
        model.add_image_with_trivial_frame(image, pose)
    place = np.empty(len(seen), dtype=np.int64)  # row among its camera's image points
    for c in range(CAMERAS):
        at = np.flatnonzero(seen.camera_of == c)
        place[at] = np.arange(len(at))
    ids = []
    for p in range(seen.n_points):
        rows = range(seen.first[p], seen.first[p + 1])
        track = pycolmap.Track([pycolmap.TrackElement(int(seen.camera_of[k]) + 1, int(place[k])) for k in rows])
        ids.append(model.add_point3D(points[p], track))
    config = pycolmap.BundleAdjustmentConfig()
    for c in range(CAMERAS):
        config.add_image(c + 1)
        config.set_constant_rig_from_world_pose(c + 1)
    config.set_constant_cam_intrinsics(1)
    options = pycolmap.BundleAdjustmentOptions(print_summary=False)
    options.ceres.solver_options.num_threads = threads
    adjuster = pycolmap.create_default_bundle_adjuster(options, config, model)
    began = time.perf_counter()
    adjuster.solve()
    seconds = time.perf_counter() - began
    return seconds, np.array([model.points3D[k].xyz for k in ids])


def scipy_seconds(seen: Observations, points: Array, draw: tuple[Array, Array], count: int) -> float:
    """Seconds a point of one least-squares call each."""
    P = projections(K, *draw)
    began = time.perf_counter()
    for p in range(count):
        rows = slice(seen.first[p], seen.first[p + 1])
        cameras, pixel = P[seen.camera_of[rows]], seen.pixel[rows]

        def residual(x: Array, cameras: Array = cameras, pixel: Array = pixel) -> Any:
            h = cameras @ np.append(x, 1.0)
            return (h[:, :2] / h[:, 2:] - pixel).ravel()

        least_squares(residual, points[p], method="lm")
    return (time.perf_counter() - began) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--scipy-points", type=int, default=200, help="points that scipy solves (default 200)")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    warm = make(100, rng)
    reconstruct(warm[0], K, warm[2], posterior_draws(warm[0], 2, rng))
    poses, _, seen = make(arguments.points, rng)
    draws = posterior_draws(poses, arguments.draws, rng)
    began = time.perf_counter()
    found = reconstruct(poses, K, seen, draws, StructureOptions(sigma_px=NOISE_PX))
    ours = time.perf_counter() - began
    import numba

    threads = numba.get_num_threads()
    again = reconstruct(Poses(poses.ids, *draws[0]), K, seen, options=StructureOptions(sigma_px=NOISE_PX))
    print(
        f"{arguments.draws} draws of {arguments.points} points, {len(seen)} image points, {threads} threads; "
        f"{found.good.sum()} good"
    )
    print(f"tempose                {ours:8.2f} s")
    try:
        one, theirs = colmap_seconds(seen, found.position, draws[0], threads)
    except ImportError:
        print("COLMAP is left out: it needs pycolmap (pip install '.[sfm]')")
    else:
        total = one * (arguments.draws + 1)
        apart = float(np.median(np.linalg.norm(theirs - again.position, axis=1) / again.sigma))
        print(f"COLMAP, points only    {total:8.2f} s  ({total / ours:.1f} × as long; results {apart:.1e} σ apart)")
    count = min(arguments.scipy_points, arguments.points)
    total = scipy_seconds(seen, found.position, draws[0], count) * arguments.points * (arguments.draws + 1)
    print(f"scipy, point by point  {total:8.2f} s  ({total / ours:.0f} × as long)")


if __name__ == "__main__":
    main()
