"""Plain covariances against COLMAP's and against the dense inverse; gauges; rigs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.bundles import adjust, make
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.sfm.adjustment.covariance import Covariance, Inverse
from tempose.sfm.adjustment.gauges import TwoFrames, constraints, motions
from tempose.sfm.adjustment.linear import Linear, cross_matrix, linearise
from tempose.sfm.adjustment.problem import Bundle, bundle_of
from tempose.sfm.adjustment.reduced import Reduced, reduce

pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")


def plain(reduced: Reduced, gauge: TwoFrames | None = None) -> Covariance:
    """Independent noise of one pixel."""
    return Covariance(Inverse.of(reduced, gauge), 1.0, np.zeros((6 * reduced.linear.nodes.count, 0)))


def full_derivatives(lin: Linear) -> np.ndarray:
    """Of all residuals by all unknowns: frames and cameras (nodes), then points."""
    bundle, nodes = lin.bundle, lin.nodes
    J = np.zeros((len(bundle.point_of), 2, 6 * nodes.count + 3 * len(bundle.position)))
    for k, (p, i) in enumerate(zip(bundle.point_of, bundle.image_of, strict=True)):
        f, c = bundle.frame_of[i], bundle.camera_of[i]
        J[k, :, 6 * f : 6 * f + 6] = lin.by_frame[k]
        J[k, :, nodes.rows(c)] = lin.by_camera[k, :, : len(nodes.free[c])].T
        J[k, :, 6 * nodes.count + 3 * p : 6 * nodes.count + 3 * p + 3] = lin.by_point[k]
    return J.reshape(-1, J.shape[2])


def moved(bundle: Bundle, x: np.ndarray) -> Bundle:
    """The bundle with all unknowns displaced."""
    nodes = linearise(bundle).nodes
    f, n = bundle.n_frames, nodes.count
    step = x[: 6 * f].reshape(f, 6)
    cameras = []
    for c, camera in enumerate(bundle.cameras):
        parameters = camera.parameters.copy()
        parameters[nodes.free[c]] += x[nodes.rows(c)]
        cameras.append(replace(camera, parameters=parameters))
    return replace(
        bundle,
        frame_wxyz=quat.multiply(quat.exp(step[:, :3]), bundle.frame_wxyz),
        frame_position=bundle.frame_position + step[:, 3:],
        cameras=tuple(cameras),
        position=bundle.position + x[6 * n :].reshape(-1, 3),
    )


@pytest.mark.parametrize(
    ("model", "rigs", "cameras"), [("OPENCV", 1, 1), ("FULL_OPENCV", 1, 2), ("SIMPLE_RADIAL", 2, 1)]
)
def test_derivatives_of_all_unknowns(model: str, rigs: int, cameras: int) -> None:
    bundle = bundle_of(
        make(1, model, frames=3, points=8, rigs=rigs, cameras=cameras).adjusted, ("focal", "centre", "distortion")
    )
    lin = linearise(bundle)
    J, h = full_derivatives(lin), 1e-6
    used = np.setdiff1d(np.arange(J.shape[1]), lin.nodes.unused)
    for column in used:
        e = np.zeros(J.shape[1])
        e[column] = h
        slope = (linearise(moved(bundle, e)).residual - linearise(moved(bundle, -e)).residual).ravel() / (2 * h)
        np.testing.assert_allclose(J[:, column], slope, rtol=1e-5, atol=2e-4)


def colmap_tangent(bundle: Bundle, k: int) -> np.ndarray:
    """From (rotation, position) in the world to COLMAP's (half the rotation, translation) of ``camera_from_world``."""
    R = quat.to_matrix(bundle.poses.wxyz[k]).T
    T = np.zeros((6, 6))
    T[:3, :3], T[3:, 3:] = -0.5 * R, -R
    T[3:, :3] = cross_matrix(-R @ bundle.poses.position[k]) @ R
    return T


@pytest.mark.parametrize("model", ["SIMPLE_RADIAL", "OPENCV"])
def test_covariances_are_colmaps(model: str) -> None:
    """Cameras, two cameras together and points alone, in COLMAP's gauge, to 1e-6; and its cost."""
    made = make(0, model).adjusted
    adjuster, cost = adjust(made)
    options = pycolmap.BACovarianceOptions()
    options.damping = 0.0
    theirs = pycolmap.estimate_ba_covariance(options, made, adjuster)
    bundle = bundle_of(made)
    numbers = [int(n) for n in bundle.numbers]
    first = next(k for k, n in enumerate(numbers) if theirs.get_cam_cov_from_world(n) is None)
    second = next(k for k, n in enumerate(numbers) if k != first and len(theirs.get_cam_cov_from_world(n)) == 5)
    others = [k for k in range(len(numbers)) if k not in (first, second)]
    reduced = reduce(linearise(bundle))
    assert cost == pytest.approx(0.5 * np.sum(reduced.linear.residual**2), rel=1e-9)
    off = []
    for axis in range(3):  # COLMAP holds the one along which the two are farthest apart
        gauge = TwoFrames(int(bundle.frame_of[first]), int(bundle.frame_of[second]), axis)
        ours = plain(reduced, gauge)
        k, j = others[0], others[1]
        T, U = colmap_tangent(bundle, k), colmap_tangent(bundle, j)
        pairs = [
            (T @ ours.of_images[k] @ T.T, theirs.get_cam_cov_from_world(numbers[k])),
            (
                T @ ours.image_blocks(np.array([k]), np.array([j]))[0] @ U.T,
                theirs.get_cam_cross_cov_from_world(numbers[k], numbers[j]),
            ),
        ]
        # COLMAP's covariance of a point takes the cameras as known
        own = reduced.point_inverse
        pairs += [(own[p], theirs.get_point_cov(int(n))) for p, n in enumerate(bundle.point_numbers)]
        off.append(max(np.abs(a - b).max() / np.abs(b).max() for a, b in pairs))
    assert min(off) < 1e-6
    assert sorted(off)[1] > 1e-3  # another gauge is noticed


def test_everything_moved_together_changes_nothing() -> None:
    for rigs, cameras in ((1, 1), (1, 2)):
        bundle = bundle_of(make(2, frames=4, points=30, rigs=rigs, cameras=cameras).adjusted)
        reduced = reduce(linearise(bundle))
        n = reduced.linear.nodes.count
        S = dense(reduced)
        G = np.concatenate([motions(bundle), np.zeros((6 * (n - bundle.n_frames), 6 if cameras == 2 else 7))])
        assert G.shape[1] == (6 if cameras == 2 else 7)  # the rig's lengths are known
        assert np.abs(S @ G).max() < 1e-6 * np.abs(S).max()


def dense(reduced: Reduced) -> np.ndarray:
    n = len(reduced.diagonal)
    S = np.zeros((n, 6, n, 6))
    S[np.arange(n), :, np.arange(n)] = reduced.diagonal
    for (i, j), block in zip(reduced.pairs, reduced.off_diagonal, strict=True):
        S[i, :, j], S[j, :, i] = block, block.T
    return S.reshape(6 * n, 6 * n)


@pytest.mark.parametrize(("model", "cameras"), [("SIMPLE_RADIAL", 1), ("FULL_OPENCV", 2), ("PINHOLE", 1)])
def test_sparse_is_dense(model: str, cameras: int) -> None:
    """All blocks of the sparse inverse in the aligned gauge against the dense pseudo-inverse of all normal equations."""
    made = make(3, model, frames=5, points=40, cameras=cameras).adjusted
    bundle = bundle_of(made, ("focal",) if model == "FULL_OPENCV" else ("focal", "distortion"))
    reduced = reduce(linearise(bundle))
    nodes, n = reduced.linear.nodes, 6 * reduced.linear.nodes.count
    J = full_derivatives(reduced.linear)
    used = np.setdiff1d(np.arange(J.shape[1]), nodes.unused)
    held = np.zeros((J.shape[1], 6 if bundle.metric else 7))
    held[: 6 * bundle.n_frames] = constraints(bundle)
    H, B = (J.T @ J)[np.ix_(used, used)], held[used]
    size = B.shape[1]
    corner = np.linalg.inv(np.block([[H, B], [B.T, np.zeros((size, size))]]))[: len(used), : len(used)]
    expected = np.zeros((J.shape[1], J.shape[1]))
    expected[np.ix_(used, used)] = corner
    ours = plain(reduced)
    f = bundle.n_frames
    for k in range(f):
        np.testing.assert_allclose(
            ours.diagonal[k],
            expected[6 * k : 6 * k + 6, 6 * k : 6 * k + 6],
            rtol=1e-5,
            atol=1e-7 * np.abs(corner[: 6 * f, : 6 * f]).max(),
        )
    total = ours.of_points + reduced.point_inverse
    for p in range(len(total)):
        rows = slice(n + 3 * p, n + 3 * p + 3)
        np.testing.assert_allclose(total[p], expected[rows, rows], rtol=1e-5, atol=1e-6 * np.abs(total[p]).max())
    for c in range(len(bundle.cameras)):
        rows = nodes.rows(c)
        np.testing.assert_allclose(ours.of_camera(c), expected[np.ix_(rows, rows)], rtol=1e-5, atol=1e-12)


def test_parts_that_share_nothing_are_refused() -> None:
    bundle = bundle_of(make(4, frames=6, points=40).adjusted)
    half = bundle.frame_of[bundle.image_of] < 3
    apart = (bundle.point_of % 2 == 0) == half
    reduced = reduce(
        linearise(
            replace(bundle, point_of=bundle.point_of[apart], image_of=bundle.image_of[apart], pixel=bundle.pixel[apart])
        )
    )
    # one camera shared by both parts would join them: its calibration is taken as known
    fixed = replace(bundle, cameras=tuple(replace(c, free=np.zeros(4, bool)) for c in bundle.cameras))
    lin = linearise(
        replace(fixed, point_of=bundle.point_of[apart], image_of=bundle.image_of[apart], pixel=bundle.pixel[apart])
    )
    with pytest.raises(NotApplicable, match="falls into 2 parts"):
        reduce(lin).factor()
    assert len(reduced.pairs) > len(reduce(lin).pairs)
