"""Points with error bars: the compiled least squares against scipy, and coverage against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import least_squares

from helpers.ring import K, ring, seen
from tempose.errors import GraphError, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.points import Observations, PointStatus, StructureOptions, projections, reconstruct


def test_exact_views_give_the_exact_points() -> None:
    rng = np.random.default_rng(1)
    poses, points = ring(rng)
    found = reconstruct(poses, K, seen(poses, points, 0.0, rng))
    assert np.abs(found.position - points).max() < 1e-9
    assert found.counts()[PointStatus.GOOD] == len(points) and found.used.all()


def test_least_squares_and_its_covariance_equal_scipy() -> None:
    rng = np.random.default_rng(2)
    poses, points = ring(rng, points=5)
    obs = seen(poses, points, 0.7, rng)
    found = reconstruct(poses, K, obs, options=StructureOptions(sigma_px=0.7, max_residual_px=20.0))
    P = projections(K, poses.wxyz, poses.position)
    for p in range(5):
        rows = slice(obs.first[p], obs.first[p + 1])

        def residual(x: np.ndarray, rows: slice = rows) -> np.ndarray:
            h = P[obs.camera_of[rows]] @ np.append(x, 1.0)
            return (h[:, :2] / h[:, 2:] - obs.pixel[rows]).ravel()

        exact = least_squares(residual, points[p], xtol=1e-15, ftol=1e-15, gtol=1e-15)
        assert np.abs(found.position[p] - exact.x).max() < 1e-7
        assert found.rms_px[p] == pytest.approx(np.sqrt(2 * exact.cost / len(exact.fun)), rel=1e-9)
        expected = 0.7**2 * np.linalg.inv(exact.jac.T @ exact.jac)
        assert np.allclose(found.covariance[p], expected, rtol=1e-5)


def _perturbed(poses: Poses, rng: np.random.Generator, sigma: float) -> Poses:
    n = len(poses)
    turned = quat.multiply(quat.exp(sigma * 0.1 * rng.normal(size=(n, 3))), poses.wxyz)
    return Poses(poses.ids, turned, poses.position + sigma * rng.normal(size=(n, 3)))


def _mahalanobis(seed: int, keep_pose_share: bool = True) -> np.ndarray:
    """Normalised errors of points whose poses come from a Gaussian posterior around a wrong estimate."""
    rng = np.random.default_rng(seed)
    truth, points = ring(rng, points=30)
    obs = seen(truth, points, 0.5, rng)
    estimate = _perturbed(truth, rng, 0.01)
    draws = [(d.wxyz, d.position) for d in (_perturbed(estimate, rng, 0.01) for _ in range(60))]
    found = reconstruct(estimate, K, obs, draws, StructureOptions(sigma_px=0.5, max_residual_px=50.0))
    covariance = found.covariance if keep_pose_share else found.image_covariance
    error = found.position - points
    return np.einsum("pa,pab,pb->p", error, np.linalg.inv(covariance), error)


def test_error_bars_cover_and_without_the_poses_share_they_do_not() -> None:
    squared = np.concatenate([_mahalanobis(seed) for seed in range(40)])
    for level in (0.5, 0.8, 0.95):
        # points of one scene share their poses: 40 scenes are the independent sample
        error = 2.6 * np.sqrt(level * (1 - level) / 40)
        # 60 draws estimate a covariance: Hotelling's T² instead of χ²
        limit = stats.f.ppf(level, 3, 57) * 3 * 59 / 57
        assert abs(np.mean(squared < limit) - level) < error, level
    careless = np.concatenate([_mahalanobis(seed, keep_pose_share=False) for seed in range(10)])
    assert np.mean(careless < stats.chi2.ppf(0.95, 3)) < 0.6


def test_shares_are_told_apart() -> None:
    rng = np.random.default_rng(3)
    poses, points = ring(rng)
    obs = seen(poses, points, 0.5, rng)
    same = [(poses.wxyz, poses.position)] * 4
    found = reconstruct(poses, K, obs, same, StructureOptions(sigma_px=0.5))
    alone = reconstruct(poses, K, obs, options=StructureOptions(sigma_px=0.5))
    assert np.abs(found.pose_covariance).max() < 1e-18
    assert np.allclose(found.image_covariance, alone.image_covariance, rtol=1e-6)


def test_wrong_matches_take_no_part() -> None:
    rng = np.random.default_rng(4)
    poses, points = ring(rng, points=200)
    obs = seen(poses, points, 0.3, rng)
    wrong = rng.random(len(obs)) < 0.1
    pixel = obs.pixel.copy()
    pixel[wrong] += rng.choice([-1, 1], size=(wrong.sum(), 2)) * rng.uniform(20, 100, size=(wrong.sum(), 2))
    found = reconstruct(poses, K, Observations.sorted_by_point(obs.point_of, obs.camera_of, pixel))
    assert np.mean(found.used == ~wrong) > 0.998
    assert found.sigma_px == pytest.approx(0.3, rel=0.05)
    assert np.median(np.linalg.norm(found.position - points, axis=1)) < 0.01


def test_what_is_not_known_is_marked() -> None:
    rng = np.random.default_rng(5)
    poses, points = ring(rng, points=4)
    points[0] = [0.0, 0.0, 5000.0]  # far away: nearly parallel rays
    obs = seen(poses, points, 0.2, rng)
    keep = ~((obs.point_of == 1) & (obs.camera_of > 0))  # one view
    pixel = obs.pixel.copy()
    lonely = obs.point_of == 2
    pixel[lonely] += 300.0 * rng.normal(size=(lonely.sum(), 2))  # nothing agrees
    found = reconstruct(poses, K, Observations.sorted_by_point(obs.point_of[keep], obs.camera_of[keep], pixel[keep]))
    counts = found.counts()
    assert counts[PointStatus.NARROW] == 1 and counts[PointStatus.GOOD] >= 1 and sum(counts.values()) == 4
    assert found.status[1] == PointStatus.FEW_VIEWS and np.isnan(found.covariance[1]).all()
    assert found.angle_deg[0] < 1.5 and np.isfinite(found.sigma[0])


def test_the_order_of_the_observations_does_not_matter() -> None:
    rng = np.random.default_rng(6)
    poses, points = ring(rng)
    obs = seen(poses, points, 0.5, rng)
    order = rng.permutation(len(obs))
    again = Observations.sorted_by_point(obs.point_of[order], obs.camera_of[order], obs.pixel[order])
    assert np.array_equal(reconstruct(poses, K, obs).position, reconstruct(poses, K, again).position)


def test_bad_input_is_told() -> None:
    rng = np.random.default_rng(7)
    poses, points = ring(rng, points=3)
    obs = seen(poses, points, 0.5, rng)
    with pytest.raises(GraphError, match="camera 9; there are 6"):
        reconstruct(poses, K, Observations.sorted_by_point([0], [9], [[0.0, 0.0]]))
    with pytest.raises(GraphError, match="not finite"):
        reconstruct(poses, K, Observations.sorted_by_point([0], [1], [[np.nan, 0.0]]))
    with pytest.raises(OptionError, match="sigma_px"):
        StructureOptions(sigma_px=-1.0)
    with pytest.raises(GraphError, match="pixels"):
        Observations.sorted_by_point([0, 1], [1, 1], obs.pixel[:1])
