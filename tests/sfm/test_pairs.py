"""Two-view adjustment, scales from shared points, tracks: on synthetic views, without images or COLMAP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from scipy.stats import chi2, kstest

from helpers.sfm_scene import K, make
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.sfm import _epipolar as epipolar
from tempose.sfm import words
from tempose.sfm.lengths import ScaleOptions, average_scales, measure_ratios
from tempose.sfm.pairs import Pairs, guided_pairs
from tempose.sfm.synchronise import SyncOptions, synchronise
from tempose.sfm.tracks import observations
from tempose.sfm.two_views import (
    PairCause,
    PairOptions,
    adjust_pair,
    distances,
    homography_residual,
    noise_within,
    refine_pair,
)
from tempose.sfm.views import normalised

FOCAL = np.array([1000.0, 1000.0])


def relative(made, i, j):
    """True j_from_i rotation and unit direction, and the baseline."""
    q, _ = made.poses.node_from_world
    R = quat.to_matrix(q)
    offset = R[j] @ (made.poses.position[i] - made.poses.position[j])
    return np.ascontiguousarray(R[j] @ R[i].T), offset / np.linalg.norm(offset), float(np.linalg.norm(offset))


def rays(made, i, j):
    row = [list(map(tuple, made.views.pairs.tolist())).index((i, j))][0]
    match = made.views.matches[row]
    return made.views.rays(i, match[:, 0]), made.views.rays(j, match[:, 1])


def nearest_by_optimisation(R, t, x, y):
    """Least total displacement (pixels) of two image points whose rays meet: over the point in space."""

    def residual(p):
        q = R @ p + t
        return 1000.0 * np.concatenate([p[:2] / p[2] - x, q[:2] / q[2] - y])

    start = np.array([*x, 1.0]) * 5.0 / np.linalg.norm(t) * np.linalg.norm(t)
    best = min((least_squares(residual, s * start, xtol=1e-15, ftol=1e-15, gtol=1e-15) for s in (0.3, 1.0, 3.0)),
               key=lambda found: found.cost)  # fmt: skip
    return np.sqrt(2.0 * best.cost)


def test_distance_is_the_one_of_bundle_adjustment() -> None:
    made = make(1, noise_px=2.0)
    R, t, _ = relative(made, 0, 3)
    x, y = rays(made, 0, 3)
    found = distances(R, t, (FOCAL, FOCAL), (x, y))
    wanted = [nearest_by_optimisation(R, t, a, b) for a, b in zip(x[:20], y[:20], strict=True)]
    np.testing.assert_allclose(np.abs(found[:20]), wanted, rtol=1e-5, atol=1e-7)


def test_jacobian_is_the_derivative_of_the_distance() -> None:
    from tempose.sfm import _epipolar as epipolar

    made = make(2, noise_px=1.0)
    R, t, _ = relative(made, 1, 4)
    x, y = rays(made, 1, 4)
    basis = epipolar.tangent_basis(t)
    r, J = np.empty(len(x)), np.empty((len(x), 5))
    epipolar.rows(R, t, basis, FOCAL, FOCAL, x, y, r, J)
    for k, step in enumerate(1e-6 * np.eye(5)):
        ends = []
        for sign in (1.0, -1.0):
            moved = np.ascontiguousarray(quat.to_matrix(quat.exp(sign * step[:3])) @ R)
            u = t + sign * basis @ step[3:]
            ends.append(distances(moved, u / np.linalg.norm(u), (FOCAL, FOCAL), (x, y)))
        np.testing.assert_allclose(J[:, k], (ends[0] - ends[1]) / 2e-6, rtol=2e-3, atol=1e-2 * np.abs(J[:, k]).max())


def test_covariance_of_a_pair_is_right() -> None:
    """Normalised errors over noise seeds are χ² with 5 degrees of freedom; with the noise halved they are not."""
    normalised_errors = []
    for seed in range(200):
        made = make(7, n_views=2, n_points=120, noise_px=0.0)
        rng = np.random.default_rng([5, seed])
        noisy = [k + 0.3 * rng.standard_normal(k.shape) for k in made.views.keypoints]
        R, t, _ = relative(made, 0, 1)
        found = adjust_pair(R, t, (FOCAL, FOCAL), (normalised(K, noisy[0]), normalised(K, noisy[1])))
        assert not isinstance(found, str)
        omega = quat.log(quat.from_matrix(R @ found.rotation.T))
        off = np.concatenate([omega, t - found.direction])
        normalised_errors.append(off @ np.linalg.pinv(found.covariance, rcond=1e-9, hermitian=True) @ off)
    assert kstest(normalised_errors, chi2(5).cdf).pvalue > 1e-3
    assert kstest(np.array(normalised_errors) * 2.0, chi2(5).cdf).pvalue < 1e-6


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0, 1.4])
def test_noise_is_found_although_its_tails_are_cut_off(sigma: float) -> None:
    r = np.abs(sigma * np.random.default_rng(0).standard_normal(100_000))
    kept = r[r < 2.0]
    assert noise_within(float(np.median(kept)), 2.0) == pytest.approx(sigma, rel=0.02)
    if sigma >= 1.0:  # without regard to the cut it is too small
        assert np.median(kept) / 0.6745 < 0.96 * sigma
    assert noise_within(0.0, 2.0) == 0.0 and noise_within(1.5, 2.0) == 2.0


def test_wrong_matches_do_not_hurt_and_too_few_are_refused() -> None:
    made = make(3, n_points=200, noise_px=0.2, wrong=0.4)
    found = guided_pairs(made.views, made.poses)
    R, t, _ = relative(made, 0, 1)
    angle = quat.angle(quat.from_matrix(found.poses[0].rotation @ R.T))
    assert np.degrees(angle) < 0.1 and np.degrees(np.arccos(found.poses[0].direction @ t)) < 0.3
    none = guided_pairs(made.views, made.poses, PairOptions(fewest=190))
    why = none.refused[0].why
    assert len(none) < len(found) and why.cause is PairCause.TOO_FEW and not why.cause.is_degenerate
    assert why.n_matches == 200 and why.n_agree < why.n_needed == 190
    assert words.refusal(why) == f"{why.n_agree} of its 200 matches agree on a relative pose, 190 are needed"


def test_homography_tells_a_plane_from_depth() -> None:
    flat, deep = make(4, flat=True, noise_px=0.1), make(4, noise_px=0.1)
    assert np.quantile(homography_residual(*rays(flat, 0, 5)), 0.95) * 1000 < 0.5
    assert np.median(homography_residual(*rays(deep, 0, 5))) * 1000 > 3.0


def scales_of(made, pairs):
    from tempose.sfm.lengths import scales_from_tracks

    return scales_from_tracks(made.views, pairs)


def test_scales_from_shared_points() -> None:
    made = make(5, n_views=6, n_points=300, noise_px=0.2)
    pairs = guided_pairs(made.views, made.poses)
    truth = np.log([relative(made, i, j)[2] for i, j in pairs.views])
    found = scales_of(made, pairs)
    error = found.log_scale - truth
    error -= np.median(error)
    assert found.known.all() and np.max(np.abs(error)) < 0.01
    # a pair whose pose is wrong spoils its own scale, not that of the others
    turned = replace(pairs.poses[3], rotation=quat.to_matrix(quat.exp([0.0, 0.05, 0.0])) @ pairs.poses[3].rotation)
    poses = tuple(turned if k == 3 else p for k, p in enumerate(pairs.poses))
    spoilt = scales_of(made, replace(pairs, poses=poses)).log_scale - truth
    spoilt -= np.median(spoilt)
    assert np.max(np.abs(np.delete(spoilt, 3))) < 0.015 < 0.04 < abs(spoilt[3])


def test_pairs_that_share_nothing_have_no_scale() -> None:
    empty = np.empty(0, dtype=np.int64)
    from tempose.sfm.lengths import Depths

    ratios = measure_ratios(Depths(empty, empty, empty, np.empty(0), np.empty(0)), ScaleOptions())
    assert not average_scales(3, ratios).known.any()


def test_tracks_join_matches_and_leave_out_contradictions() -> None:
    made = make(6, n_views=3, n_points=40, noise_px=0.1)
    found = guided_pairs(made.views, made.poses, PairOptions(fewest=20))
    seen = observations(made.views, found)
    assert seen.n_points == 40 and len(seen) == 120
    # view 1's keypoint 0 now also matches view 2's keypoint 1: two places of view 2 in one track
    extra = np.vstack([found.matches[2], [[0, 1]]])
    bad = Pairs(found.views, found.poses, (*found.matches[:2], extra))
    seen = observations(made.views, bad)
    joined = np.bincount(seen.point_of)
    assert seen.n_points < 40 and np.all(joined <= 3)


def test_synchronisation_recovers_poses_and_finds_the_excess() -> None:
    from tempose.analysis.accuracy import pose_errors

    made = make(8, n_views=8, n_points=300, noise_px=0.1)
    pairs = guided_pairs(made.views, made.poses)
    length = np.array([relative(made, i, j)[2] for i, j in pairs.views])
    sigma = np.full(len(pairs), 1e-3)
    exact = SyncOptions(floor_rot_deg=0.0, floor_direction_deg=0.0)
    found = synchronise(made.views.names, pairs, length, sigma, options=exact)
    errors = pose_errors(found.poses, made.poses)
    assert errors.mean_rotation_deg < 0.02 and errors.mean_translation < 0.003
    assert np.degrees(found.excess[0]) < 0.02
    # errors that all matches of a pair share: 0.2° per axis
    rng = np.random.default_rng(0)
    shaken = tuple(
        replace(p, rotation=quat.to_matrix(quat.exp(np.radians(0.2) * rng.standard_normal(3))) @ p.rotation)
        for p in pairs.poses
    )
    found = synchronise(made.views.names, replace(pairs, poses=shaken), length, sigma, options=exact)
    assert 0.12 < np.degrees(found.excess[0]) < 0.3
    # and three grossly wrong pairs leave the graph
    gross = tuple(
        replace(p, rotation=quat.to_matrix(quat.exp([0.0, 1.0, 0.0])) @ p.rotation) if k in (2, 9, 20) else p
        for k, p in enumerate(pairs.poses)
    )
    found = synchronise(made.views.names, replace(pairs, poses=gross), length, sigma, options=exact)
    assert set(range(len(pairs))) - set(found.keep.tolist()) == {2, 9, 20}
    told = found.distrusted()
    assert [one.row for one in told] == [2, 9, 20] and all(one.sigmas > 100.0 for one in told)
    assert all(abs(one.rotation_deg - np.degrees(1.0)) < 0.2 and one.direction_deg < 0.2 for one in told)
    assert "rotation is off by 57°" in words.distrust(told[0])
    assert pose_errors(found.poses, made.poses).mean_rotation_deg < 0.02


def test_options_are_checked() -> None:

    with pytest.raises(OptionError, match="positive"):
        PairOptions(loss_px=0.0)
    with pytest.raises(OptionError, match="at least 8"):
        PairOptions(fewest=3)


def plain_refine(R, t, focal, ray, loss_px):
    """The same optimum by scipy, over a rotation vector and the tangent plane of the direction."""
    basis = np.linalg.svd(t[None])[2][1:].T

    def at(x):
        direction = t + basis @ x[3:]
        return quat.to_matrix(quat.exp(x[:3])) @ R, direction / np.linalg.norm(direction)

    def residual(x):
        q = (distances(*at(x), focal, ray) / loss_px) ** 2
        return loss_px * np.sqrt(np.log1p(q))

    return at(least_squares(residual, np.zeros(5), xtol=1e-14, ftol=1e-14, gtol=1e-14).x)


@pytest.mark.parametrize("seed", range(4))
def test_the_compiled_adjustment_finds_the_optimum(seed: int) -> None:
    made = make(seed, noise_px=0.5, wrong=0.05)
    R, t, _ = relative(made, 0, 3)
    bent = quat.to_matrix(quat.exp(np.array([0.01, -0.02, 0.01]))) @ R
    found = refine_pair(bent, t, (FOCAL, FOCAL), rays(made, 0, 3), 0.5, 1e-14)
    plain = plain_refine(R, t, (FOCAL, FOCAL), rays(made, 0, 3), 0.5)
    np.testing.assert_allclose(
        found[0], plain[0], atol=5e-5
    )  # the square root of the loss bends at 0, which slows scipy
    np.testing.assert_allclose(found[1], plain[1], atol=5e-5)
    A, b = np.empty((5, 5)), np.empty(5)
    epipolar.normal_equations(*found, epipolar.tangent_basis(found[1]), FOCAL, FOCAL, *rays(made, 0, 3), 0.5, A, b)
    assert np.abs(np.linalg.solve(A, b)).max() < 1e-8
    np.testing.assert_allclose(found[0] @ found[0].T, np.eye(3), atol=1e-12)


def test_the_compiled_rotation_and_basis() -> None:
    rng = np.random.default_rng(0)
    for size in (0.0, 1e-6, 1e-3, 1.0, 3.0):
        omega = size * rng.standard_normal(3)
        R = quat.to_matrix(quat.exp(rng.standard_normal(3)))
        np.testing.assert_allclose(epipolar.turned(R, omega), quat.to_matrix(quat.exp(omega)) @ R, atol=1e-14)
        t = rng.standard_normal(3)
        t /= np.linalg.norm(t)
        whole = np.column_stack([t, epipolar.tangent_basis(t)])
        np.testing.assert_allclose(whole.T @ whole, np.eye(3), atol=1e-14)


def test_a_cut_inside_the_noise_is_widened() -> None:
    """Matches beyond 2 px belong to the noise of 1 px; the pair says so, and its noise is found to be 1 px."""
    made = make(5, n_points=400, noise_px=1.0)
    R, t, _ = relative(made, 1, 4)
    pose = adjust_pair(R, t, (FOCAL, FOCAL), rays(made, 1, 4), PairOptions())
    assert pose.inlier.mean() > 0.985  # of 400 within two standard deviations: 0.954
    assert abs(pose.sigma_px - 1.0) < 0.2  # 1.03 ± 0.07 over seeds
    quiet = make(5, n_points=400, noise_px=0.2, wrong=0.2)
    pose = adjust_pair(R, t, (FOCAL, FOCAL), rays(quiet, 1, 4), PairOptions())
    far = np.abs(distances(pose.rotation, pose.direction, (FOCAL, FOCAL), rays(quiet, 1, 4))) > 2.0
    assert far.sum() > 30 and not pose.inlier[far].any()
