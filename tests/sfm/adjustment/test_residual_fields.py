"""Errors of a lens are found in residuals, as large as they are; where there are none, none are found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.bundles import adjust, make
from tempose.sfm.adjustment.posterior import BundlePosterior, posterior_of, with_error
from tempose.sfm.adjustment.problem import bundle_of
from tempose.sfm.adjustment.residual_fields import ABSORBED, _left, residual_amplitude, with_lens_error
from tempose.sfm.adjustment.systematic import ModelError, lens_fields

pytest.importorskip("pycolmap", reason="needs the extra sfm")


def found_with(amplitude: float, seed: int) -> BundlePosterior:
    """A bundle whose lens displaces image points by smooth fields, adjusted."""
    model = make(seed, frames=8, points=300, sigma_px=0.2).adjusted
    rng = np.random.default_rng(seed)
    weight = amplitude * rng.standard_normal(30)
    for image in model.images.values():
        camera = model.cameras[image.camera_id]
        xy = np.array([point.xy for point in image.points2D])
        moved = xy + lens_fields(xy, (camera.width, camera.height)) @ weight
        for point, at in zip(image.points2D, moved, strict=True):
            point.xy = at
    adjust(model)
    return posterior_of(bundle_of(model))


@pytest.mark.parametrize("amplitude", [2e-4, 8e-4])
def test_the_amplitude_is_found(amplitude: float) -> None:
    found = [residual_amplitude(found_with(amplitude, seed)) for seed in range(3)]
    # each of about 20 fields that show: a sixth off
    assert np.exp(np.mean(np.log(np.array(found) / amplitude))) == pytest.approx(1.0, abs=0.3)


def test_nothing_is_found_where_nothing_is() -> None:
    shown = [residual_amplitude(found_with(0.0, seed)) for seed in range(3)]
    assert max(shown) < 2e-5  # 0.2 px of noise are 2e-4 of the image
    assert residual_amplitude(found_with(0.0, 0), 1e-3) == pytest.approx(5e-4, rel=0.03)  # better is not believed


def test_what_is_usual_stays_where_residuals_tell_nothing() -> None:
    few = posterior_of(bundle_of(make(0, frames=3, points=12).adjusted))
    assert residual_amplitude(few, 1e-5) == pytest.approx(1e-5, rel=0.2)


def test_error_bars_follow() -> None:
    """Five times what shows, whether more or less than is usual; what was said otherwise stays."""
    found = found_with(4e-4, 1)
    shown = residual_amplitude(found)
    wider = with_lens_error(found)
    assert wider.options.error.lens == pytest.approx(ABSORBED * shown) and wider.noise is found.noise
    ratio = wider.options.error.lens / found.options.error.lens
    both = [with_error(one, replace(one.options.error, calibration=0.0)).model.of_images for one in (found, wider)]
    np.testing.assert_allclose(both[1], ratio**2 * both[0], rtol=1e-9, atol=1e-18)
    for error in (ModelError(estimate=False), ModelError(0.0)):
        asked = with_error(found, error)
        assert with_lens_error(asked) is asked


def test_what_is_left_is_square_to_everything_that_can_follow() -> None:
    """The projection: what the unknowns absorb leaves nothing, and what is left moves nothing."""
    found = found_with(0.0, 2)
    bundle, lin = found.bundle, found.linear
    rng = np.random.default_rng(0)
    moved = rng.standard_normal((len(bundle.point_of), 2, 3))
    left = _left(found, moved)
    pulled, own = found.noise.inverse.reduced.pull(left)
    assert np.abs(pulled).max() < 1e-6 * np.abs(found.noise.inverse.reduced.pull(moved)[0]).max()
    assert np.abs(own).max() < 1e-6
    by_points = np.einsum("kab,kb->ka", lin.by_point, rng.standard_normal(bundle.position.shape)[bundle.point_of])
    np.testing.assert_allclose(_left(found, by_points[:, :, None]), 0.0, atol=1e-6 * np.abs(by_points).max())
