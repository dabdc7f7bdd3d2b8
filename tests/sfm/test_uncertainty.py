"""Half the difference of two halves scatters as the estimate does; draws are as wide as it says. Without images or COLMAP."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.sfm_scene import Made, make
from tempose.analysis.summary import tangent
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.sfm import uncertainty as resample
from tempose.sfm.lengths import baseline_lengths
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import Pairs, guided_pairs
from tempose.sfm.synchronise import Synchronised, SyncOptions, synchronise
from tempose.sfm.uncertainty import NEIGHBOURHOODS, Halves, aligned, half_differences, mixed, neighbourhoods, widening
from tempose.sfm.views import Views, recalibrated

EXACT = SfmOptions(sync=SyncOptions(floor_rot_deg=0.0, floor_direction_deg=0.0), calibration_error=0.0)


def apart(poses: Poses, reference: Poses) -> np.ndarray:
    return tangent(*aligned(poses.wxyz, poses.position, reference), reference)


def estimate(views: Views, truth: Poses, options: SfmOptions = EXACT) -> tuple[Pairs, Synchronised]:
    """Cameras from one guided round that starts at the truth."""
    pairs = guided_pairs(views, truth, options.pairs)
    return pairs, synchronise(views.names, pairs, *baseline_lengths(views, pairs, options.scale), truth, options.sync)


def halves(views: Views, pairs: Pairs, found: Synchronised, options: SfmOptions = EXACT, **more) -> Halves:
    return half_differences(views, pairs, found, replace(options, **more))


def test_neighbourhoods_are_compact_and_equal() -> None:
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (1000, 3)) * [4.0, 1.0, 1.0]
    points[7] = np.nan
    cell = neighbourhoods(points, 16)
    assert cell[7] == -1
    count = np.bincount(cell[cell >= 0], minlength=16)
    assert count.min() >= 62 and count.max() <= 63
    side = np.array([np.ptp(points[cell == k], axis=0) for k in range(16)])
    assert np.all(np.median(side, axis=0) < [2.2, 1.3, 1.3])  # two cuts of the long side, 8, and one of each other, 2
    few = neighbourhoods(points[:3], 16)
    assert len(set(few.tolist())) == 3


def scatter(made: Made, noise, n_sets: int, replicates: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean square of the errors of the orientations and positions over sets of noise, and what halves say of it."""
    true, said = np.zeros(2), np.zeros(2)
    for k in range(n_sets):
        keypoints = tuple(x + e for x, e in zip(made.views.keypoints, noise(k), strict=True))
        views = replace(made.views, keypoints=keypoints)
        pairs, found = estimate(views, made.poses)
        error = apart(made.poses, found.poses)
        off = halves(views, pairs, found, replicates=replicates, seed=k).off
        true += [np.mean(error[:, :3] ** 2), np.mean(error[:, 3:] ** 2)]
        said += [np.mean(off[..., :3] ** 2), np.mean(off[..., 3:] ** 2)]
    return true / n_sets, said / n_sets


def test_halves_scatter_as_the_estimate_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise of every image point for itself, and with noise that neighbours share.

    In the second case halves that cut through neighbourhoods are too sure, which shows that the test can tell.
    """
    n_views, n_points, n_sets = 4, 128, 10
    made = make(2, n_views=n_views, n_points=n_points, noise_px=0.0)

    def alone(k: int) -> np.ndarray:
        return 0.3 * np.random.default_rng(k).standard_normal((n_views, n_points, 2))

    true, said = scatter(made, alone, n_sets, 4)
    assert np.all(np.abs(np.log(said / true)) < np.log(1.6)), said / true

    place = neighbourhoods(made.points, 32)

    def together(k: int) -> np.ndarray:
        return 0.3 * np.random.default_rng(k).standard_normal((n_views, 32, 2))[:, place]

    monkeypatch.setattr(resample, "NEIGHBOURHOODS", 32)
    true, said = scatter(made, together, n_sets, 4)
    assert np.all(np.abs(np.log(said / true)) < np.log(1.7)), said / true
    monkeypatch.setattr(resample, "neighbourhoods", lambda points, count: np.arange(len(points)) % count)
    cut = scatter(made, together, n_sets, 4)[1]
    assert np.all(cut < 0.5 * true), cut / true


def test_an_error_of_the_calibration_is_seen() -> None:
    """Without image noise only the calibration is left: halves move as the cameras do for the same change of K."""
    made = make(3, n_views=5, n_points=80, noise_px=0.0)
    options = replace(EXACT, calibration_error=1e-3)
    pairs, found = estimate(made.views, made.poses)
    moved = halves(made.views, pairs, found, options, replicates=5)
    assert np.all(moved.calibration == moved.calibration[:, :1]) and moved.calibration.std() > 3e-4  # one camera
    for off, change in zip(moved.off, moved.calibration, strict=True):
        views = resample._recalibrated(made.views, change)
        _, other = estimate(views, made.poses)
        # halves have fewer points and the weights of the unchanged calibration: not the same to the last digit
        np.testing.assert_allclose(off, apart(other.poses, found.poses), atol=0.2 * np.abs(off).max())
    twice = halves(made.views, pairs, found, replace(options, calibration_error=2e-3), replicates=5)
    np.testing.assert_allclose(twice.off, 2.0 * moved.off, atol=0.2 * np.abs(twice.off).max())  # lengths are medians


def test_recalibration_is_undone_by_the_other_calibration() -> None:
    """A point seen by a camera with a longer focal length, another principal point and distortion."""
    rng = np.random.default_rng(0)
    K = np.array([[1000.0, 0.0, 500.0], [0.0, 900.0, 400.0], [0.0, 0.0, 1.0]])
    ray = rng.uniform(-0.4, 0.4, (50, 2))
    f, x, y, k = change = np.array([2e-3, 1e-3, -2e-3, 3e-3])
    pixel = ray * (1.0 - k * np.sum(ray**2, axis=1, keepdims=True)) * [1000.0, 900.0]  # what the true lens makes of it
    pixel = pixel * (1.0 + f) + [500.0 + 1000.0 * x, 400.0 + 900.0 * y]
    other, straight = recalibrated(K[None], np.zeros(50, np.int64), pixel, change[None])
    found = (straight - other[0, :2, 2]) / np.diag(other[0])[:2]
    assert np.abs(found - ray).max() < 2e-5 < 0.01 * np.abs((pixel - K[:2, 2]) / [1000.0, 900.0] - ray).max()


def test_a_pair_that_cannot_be_split_keeps_its_own_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(4, n_views=4, n_points=100, noise_px=0.3)
    pairs, found = estimate(made.views, made.poses)
    monkeypatch.setattr(resample, "_FEWEST", 10**6)
    off = halves(made.views, pairs, found, replicates=60)
    # edges of the pairs' own covariances, now independent; lengths come from the same points and do not move
    assert 0.6 < widening(found, off) < 1.1


def test_widening_moves_no_optimum() -> None:
    made = make(5, n_views=5, n_points=100, noise_px=0.4)
    _, found = estimate(made.views, made.poses)
    wide = found.widened(7.0)
    again = minimise(Curvature(Posterior(wide.graph)), made.poses).poses
    assert np.abs(apart(again, found.poses)).max() < 1e-6
    np.testing.assert_allclose(wide.graph.concentration * 7.0, found.graph.concentration)


def test_mixed_draws_have_the_covariance_they_should() -> None:
    rng = np.random.default_rng(0)
    poses, n, r, count = make(6, n_views=5).poses, 5, 12, 1500

    def in_gauge(x: np.ndarray) -> np.ndarray:
        return np.array([apart(Poses(poses.ids, *resample._moved(poses, one)), poses) for one in x])

    off = in_gauge(1e-3 * rng.standard_normal((r, n, 6)) * [1.0, 2.0, 3.0, 1.0, 1.0, 2.0])
    calibration = 1e-3 * rng.standard_normal((r, n, 4))
    own = in_gauge(2e-3 * rng.standard_normal((count, n, 6)))
    draws = mixed([resample._moved(poses, x) for x in own], Halves(off, calibration), poses)
    moved = np.array([tangent(draw.world_from_node_wxyz, draw.position, poses) for draw in draws])
    changed = np.array([draw.calibration for draw in draws])

    def covariance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.einsum("ra,rb->ab", x.reshape(len(x), -1), y.reshape(len(x), -1)) / len(x)

    blocks = np.einsum("dna,dnb->nab", own, own) / count
    wide = own * np.sqrt(np.repeat(resample._excess_width(off, blocks), 3))
    worth = 1.0 / (1.0 / r + 1.0 / NEIGHBOURHOODS)
    expected = (10.0 * covariance(wide, wide) + worth * covariance(off, off)) / (10.0 + worth - 2.0)
    sigma = np.sqrt(np.diag(expected))
    assert np.abs((covariance(moved, moved) - expected) / np.outer(sigma, sigma)).max() < 5.0 / np.sqrt(count)
    together = worth * covariance(off, calibration) / (10.0 + worth - 2.0)  # draws know which calibration moved them
    sigma_k = np.std(changed, axis=0).ravel()
    assert np.abs((covariance(moved, changed) - together) / np.outer(sigma, sigma_k)).max() < 5.0 / np.sqrt(count)
