"""Noise from residuals, neighbours that err together, errors of the camera model, draws; and that truths lie inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helpers.bundles import adjust, make
from tempose.analysis.regions import squared_distance, squared_radius
from tempose.analysis.summary import tangent
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import align
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of
from tempose.sfm.adjustment.problem import Bundle, bundle_of
from tempose.sfm.adjustment.systematic import MOST_COLUMNS, ModelError, displacements, is_middle
from tempose.sfm.uncertainty import neighbourhoods

pytest.importorskip("pycolmap", reason="needs the extra sfm")

PERFECT = PosteriorOptions(error=ModelError(0.0, 0.0))


def adjusted(seed: int = 0, **kind: Any) -> Bundle:
    model = make(seed, **kind).adjusted
    adjust(model)
    return bundle_of(model)


def off(truth: Bundle, found: Bundle) -> np.ndarray:
    """Displacements (n, 6) from found to true cameras, in the aligned gauge."""
    fit = align((truth.poses.wxyz, truth.poses.position), (found.poses.wxyz, found.poses.position), "sim3")
    return tangent(*fit.apply(truth.poses.wxyz, truth.poses.position), found.poses)


def seen_elsewhere(model: Any, bundle: Bundle, by: np.ndarray) -> None:
    """Displace the image points (k, 2) of a pycolmap model."""
    which = {
        (int(i), int(n)): k
        for k, (i, n) in enumerate(
            zip(bundle.numbers[bundle.image_of], bundle.point_numbers[bundle.point_of], strict=True)
        )
    }
    for image in model.images.values():
        for point in image.points2D:
            if point.has_point3D():
                point.xy = point.xy + by[which[image.image_id, point.point3D_id]]


def test_noise_is_estimated() -> None:
    found = posterior_of(adjusted(0, frames=8, points=400, sigma_px=0.7), PERFECT)
    assert found.sigma_px == pytest.approx(0.7, rel=0.03)
    assert found.clustering == pytest.approx(1.0, abs=0.35) and found.n_cells == 32
    assert found.step_sigmas.max() < 1e-3  # adjusted
    assert found.model.columns.shape[1] == 0


def test_a_step_leads_to_the_optimum() -> None:
    made = make(1, frames=6, points=150).adjusted
    before = bundle_of(made)
    found = posterior_of(before, replace(PERFECT, prior=False))
    adjust(made)
    there = off(bundle_of(made), before)
    step = found.step.reshape(-1, 6)[: before.n_frames]
    np.testing.assert_allclose(step, there, atol=0.05 * np.abs(there).max())
    assert np.median(found.step_sigmas) > 0.5


def test_errors_of_the_camera_model_move_what_their_columns_say() -> None:
    """Image points displaced by a field, and everything adjusted again."""
    made = make(2, frames=6, points=150, sigma_px=1e-3)
    adjust(made.adjusted)
    before = bundle_of(made.adjusted)
    error = ModelError(lens=2e-5, calibration=None)
    found = posterior_of(before, PosteriorOptions(error=error, prior=False))
    fields = displacements(before, error)
    assert fields.shape[2] == 2 * 15 + 2  # the lens in x and y, and a principal point that is held in the middle
    for column in (3, 20, 31):
        model = make(2, frames=6, points=150, sigma_px=1e-3).adjusted
        seen_elsewhere(model, before, fields[:, :, column])
        adjust(model)
        after = bundle_of(model)
        moved = found.model.columns[:, column].reshape(-1, 6)[: before.n_frames]
        np.testing.assert_allclose(moved, off(after, before), atol=0.03 * np.abs(moved).max())
        fit = align((after.poses.wxyz, after.poses.position), (before.poses.wxyz, before.poses.position), "sim3")
        there = fit.apply(np.tile([1.0, 0.0, 0.0, 0.0], (len(after.position), 1)), after.position)[1]
        follow = found.model.inverse.reduced.follow(found.model.columns)[..., column]
        assert found.model.point_columns is not None
        expected = follow + found.model.point_columns[..., column]
        np.testing.assert_allclose(expected, there - before.position, atol=0.05 * np.abs(expected).max())


def test_neighbours_that_err_together_are_noticed() -> None:
    """The same displacement of all points of a neighbourhood in a photograph: plain error bars are too narrow, clustered hold."""
    plain, clustered = [], []
    for seed in range(12):
        made = make(100 + seed, frames=6, points=300, sigma_px=0.1)
        true = bundle_of(made.truth)
        rng = np.random.default_rng(seed)
        cell = neighbourhoods(true.position, 64)[true.point_of]
        common = 0.5 * rng.standard_normal((64, len(true.names), 2))
        seen_elsewhere(made.adjusted, true, common[cell, true.image_of])
        adjust(made.adjusted)
        bundle = bundle_of(made.adjusted)
        error = off(true, bundle)
        found = posterior_of(bundle, PERFECT)
        assert found.clustering > 1.5
        alone = posterior_of(bundle, replace(PERFECT, sigma_px=found.sigma_px))
        for out, one in ((plain, alone), (clustered, found)):
            out.append(squared_distance(error[:, :3], one.camera_covariance[:, :3, :3]).mean() / 3.0)
    assert np.mean(plain) > 2.0
    assert np.mean(clustered) == pytest.approx(1.0, abs=0.5)


def inside(found: BundlePosterior, true: Bundle, level: float) -> tuple[float, float, float]:
    """Shares of true orientations, positions and points inside their regions."""
    bundle, C = found.bundle, found.camera_covariance
    error = off(true, bundle)
    fit = align((true.poses.wxyz, true.poses.position), (bundle.poses.wxyz, bundle.poses.position), "sim3")
    at = fit.apply(np.tile([1.0, 0.0, 0.0, 0.0], (len(true.position), 1)), true.position)[1]
    total = found.point_own + found.point_inherited + found.point_model
    squared = (
        squared_distance(error[:, :3], C[:, :3, :3]),
        squared_distance(error[:, 3:], C[:, 3:, 3:]),
        squared_distance(at - bundle.position, total),
    )
    return tuple(float(np.mean(x < squared_radius(level, 3))) for x in squared)  # type: ignore[return-value]


def test_truths_are_inside() -> None:
    """24 data sets with unknown focal length and distortion; points too narrow where the calibration is taken as exact."""
    shares, exact = [], []
    for seed in range(24):
        made = make(200 + seed, frames=7, points=120, sigma_px=0.6)
        adjust(made.adjusted)
        true = bundle_of(made.truth)
        shares.append(inside(posterior_of(bundle_of(made.adjusted), PERFECT), true, 0.8))
        exact.append(inside(posterior_of(bundle_of(made.adjusted, ()), PERFECT), true, 0.8))
    error = np.std(shares, axis=0) / np.sqrt(len(shares))
    assert np.all(np.abs(np.mean(shares, axis=0) - 0.8) < 3.0 * error + 0.02)
    assert np.mean(exact, axis=0)[2] < 0.8 - 2.0 * error[2]


def test_draws_scatter_as_covariances_say() -> None:
    found = posterior_of(adjusted(3, frames=5, points=80), PosteriorOptions(error=ModelError(lens=1e-4)))
    draws = list(found.draws(1500))
    poses = found.bundle.poses
    x = np.array([tangent(one.wxyz, one.position, poses) for one in draws])
    sigma = np.sqrt(np.diagonal(found.camera_covariance, axis1=1, axis2=2))
    np.testing.assert_allclose(x.std(axis=0), sigma, rtol=0.1)
    points = np.array([one.points for one in draws]).std(axis=0)
    total = found.point_own + found.point_inherited + found.point_model
    np.testing.assert_allclose(points, np.sqrt(np.diagonal(total, axis1=1, axis2=2)), rtol=0.12)
    focal = np.array([one.parameters[0] for one in draws]).std(axis=0)
    np.testing.assert_allclose(focal[[0, 3]], np.sqrt(np.diag(found.intrinsics_covariance(0))), rtol=0.1)
    assert focal[1] == 0.0  # the principal point is held
    i, j = np.array([0]), np.array([3])
    np.testing.assert_allclose(
        np.einsum("da,db->ab", x[:, 0], x[:, 3]) / len(x),
        found.pair_covariance(i, j)[0],
        atol=0.1 * np.sqrt(np.outer(sigma[0], sigma[3])).max() ** 2,
    )
    again = next(iter(found.draws(1)))
    np.testing.assert_array_equal(again.position, draws[0].position)


def test_many_cameras_are_thinned() -> None:
    """Random combinations of the columns of many cameras stand for all: the covariance stays."""
    bundle = adjusted(4, frames=1, points=60, rigs=8)
    assert len(bundle.cameras) == 8
    fields = displacements(bundle, ModelError())
    assert fields.shape[2] == MOST_COLUMNS < 8 * 32
    one = bundle.camera_of[bundle.image_of] == 0
    expected = displacements(replace(bundle, cameras=bundle.cameras), ModelError(lens=0.0))[
        one
    ]  # 16 columns: not thinned
    assert expected.shape[2] == 16
    mean = np.mean(np.sum(fields[one] ** 2, axis=2))
    lens = 15 * (ModelError().lens * 1024) ** 2
    assert mean == pytest.approx(lens + np.mean(np.sum(expected**2, axis=2)), rel=0.4)


def test_held_intrinsics_and_the_middle() -> None:
    bundle = adjusted(5, frames=4, points=60)
    assert is_middle(bundle.cameras[0])
    assert ModelError().of_held(bundle.cameras[0]) == {"centre": 0.005}
    moved = replace(bundle.cameras[0], parameters=bundle.cameras[0].parameters + np.array([0.0, 3.0, 0.0, 0.0]))
    assert ModelError().of_held(moved) == {"centre": 0.001}
    held = replace(moved, free=np.zeros(4, dtype=bool))
    assert ModelError(calibration=0.0).of_held(held) == {"focal": 0.0, "centre": 0.0, "distortion": 0.0}


def test_an_undetermined_focal_length_is_reported_wide() -> None:
    """Two photographs with a camera each: the prior, which is as good as nothing, keeps the matrix regular."""
    bundle = adjusted(6, frames=1, points=60, rigs=2)
    found = posterior_of(bundle, PERFECT)
    for row in range(2):
        assert np.sqrt(found.intrinsics_covariance(row)[0, 0]) > 0.02 * 1280.0


def test_nothing_to_estimate_noise_from() -> None:
    bundle = adjusted(7, frames=2, points=60)
    few = bundle.point_of < 5
    with pytest.raises(NotApplicable, match="do not determine 2 photographs"):
        posterior_of(
            replace(
                bundle,
                position=bundle.position[:5],
                point_numbers=bundle.point_numbers[:5],
                point_of=bundle.point_of[few],
                image_of=bundle.image_of[few],
                pixel=bundle.pixel[few],
            )
        )


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="loss_px must be positive"):
        PosteriorOptions(loss_px=0.0)
    with pytest.raises(OptionError, match="relative to the image's size"):
        ModelError(lens=0.5)
    with pytest.raises(OptionError, match="'zoom' is no group"):
        bundle_of(make(0, frames=2, points=10).adjusted, ("zoom",))
