"""The last steps of an adjustment end where Ceres' do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")

from helpers.bundles import make  # noqa: E402
from tempose.analysis.summary import tangent  # noqa: E402
from tempose.geometry import align  # noqa: E402
from tempose.sfm.adjustment import readjust as adjusting  # noqa: E402
from tempose.sfm.adjustment.linear import linearise  # noqa: E402
from tempose.sfm.adjustment.polish import polished  # noqa: E402
from tempose.sfm.adjustment.posterior import PosteriorOptions, posterior_of  # noqa: E402
from tempose.sfm.adjustment.problem import Bundle, bundle_again, bundle_of, write_back  # noqa: E402
from tempose.sfm.adjustment.systematic import ModelError  # noqa: E402

LOSS, NOISE = 1.2, 0.5


def wrong_matches(seed: int, **shape: int):
    """A model with half a pixel of noise and a twentieth of its image points 10 px off."""
    model = make(seed, sigma_px=NOISE, **shape).adjusted
    rng = np.random.default_rng([seed, 1])
    for image in model.images.values():
        for point in image.points2D:
            if rng.random() < 0.05:
                point.xy = point.xy + 10.0 * rng.standard_normal(2)
    return model


def off(found: Bundle, reference: Bundle) -> tuple[float, float]:
    """How far poses and intrinsics are from each other, the largest in standard deviations."""
    posterior = posterior_of(reference, PosteriorOptions(loss_px=LOSS, error=ModelError(0.0, 0.0)))
    fit = align(
        (found.poses.wxyz, found.poses.position),
        (reference.poses.wxyz, reference.poses.position),
        "se3" if reference.metric else "sim3",
    )
    moved = tangent(*fit.apply(found.poses.wxyz, found.poses.position), reference.poses)
    sigma = np.sqrt(np.einsum("naa->na", posterior.camera_covariance))
    intrinsics = max(
        np.abs((a.parameters - b.parameters)[b.free] / np.sqrt(np.diag(posterior.intrinsics_covariance(row)))).max()
        for row, (a, b) in enumerate(zip(found.cameras, reference.cameras, strict=True))
    )
    return float(np.abs(moved / sigma).max()), float(intrinsics)


def cost(bundle: Bundle) -> float:
    return float(np.sum(np.log1p(np.sum(linearise(bundle).residual ** 2, axis=1) / LOSS**2)))


def three(**shape: int) -> tuple[Bundle, Bundle, Bundle]:
    """Where a roughly adjusted bundle began, where it is polished to, and where Ceres ends."""
    model, free = wrong_matches(3, **shape), ("focal", "distortion")
    start = bundle_of(model, free)
    adjusting._adjust(pycolmap, model, free, LOSS, adjusting._ROUGH)
    found = polished(bundle_again(start, model, free), LOSS, NOISE)
    assert found is not None
    adjusting._adjust(pycolmap, model, free, LOSS, 1e-12)
    return start, found, bundle_again(start, model, free)


def test_it_ends_where_ceres_does() -> None:
    start, found, exact = three(frames=8, points=150)
    assert max(off(found, exact)) < 0.02
    assert max(off(start, exact)) > 0.5  # negative control: the start is noticed


def test_the_scale_that_a_rig_knows_is_adjusted_too() -> None:
    """Ceres holds it, with the rest of the gauge."""
    _, found, held = three(frames=5, points=150, cameras=2)
    assert found.metric and cost(found) < cost(held)


def test_far_from_the_optimum_it_gives_up() -> None:
    bundle = bundle_of(wrong_matches(3, frames=6, points=60))
    position = bundle.position + 0.5 * np.random.default_rng(0).standard_normal(bundle.position.shape)
    away = replace(bundle, position=position, frame_position=1.3 * bundle.frame_position)
    found = polished(away, LOSS, NOISE)
    assert found is None or max(off(found, polished(bundle, LOSS, NOISE) or bundle)) < 0.05


def test_values_are_written_back() -> None:
    model = make(4, frames=4, points=30, rigs=2, cameras=2).adjusted
    bundle = bundle_of(model)
    moved = replace(
        bundle,
        frame_position=bundle.frame_position + 0.1,
        position=bundle.position + 0.1,
        cameras=tuple(replace(one, parameters=1.01 * one.parameters) for one in bundle.cameras),
    )
    write_back(moved, model)
    after = bundle_of(model)
    np.testing.assert_allclose(after.frame_position, moved.frame_position, atol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(after.frame_wxyz * moved.frame_wxyz, axis=1)), 1.0, atol=1e-12)
    np.testing.assert_allclose(after.poses.position, moved.poses.position, atol=1e-12)
    np.testing.assert_array_equal(after.position, moved.position)
    assert all(np.array_equal(a.parameters, b.parameters) for a, b in zip(after.cameras, moved.cameras, strict=True))
