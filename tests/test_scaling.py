"""The choice to scale the noise by the variance factor: never, always, if the test fails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.errors import ArgumentError, OptionError


@pytest.fixture(scope="module")
def claimed() -> tempose.PoseGraph:
    """Measurements three times as noisy as they say."""
    made = tempose.simulate(15, completeness=0.4, sigma_rot_deg=1.0, sigma_trans=0.05, seed=2)
    return made.graph.scaled_noise(1 / 3)


def test_scaled_noise_scales_every_sigma(claimed: tempose.PoseGraph) -> None:
    factor = np.linspace(0.5, 2.0, claimed.n_edges)
    wide = claimed.scaled_noise(factor)
    np.testing.assert_allclose(wide.information, claimed.information / factor[:, None, None] ** 2, rtol=1e-12)
    with pytest.raises(ArgumentError, match="positive and finite"):
        claimed.scaled_noise(0.0)


def test_error_bars_are_those_of_the_scaled_noise(claimed: tempose.PoseGraph, tmp_path: Path) -> None:
    plain = tempose.solve(claimed, draws=0)
    scaled = tempose.solve(claimed, draws=0, scale="if-test-fails")
    test = plain.global_test
    assert test.passed is False and 6.0 < test.variance_factor < 12.0  # 9, with 10% of statistical error
    np.testing.assert_allclose(scaled.estimate.position, plain.estimate.position, atol=1e-9)
    np.testing.assert_allclose(scaled.covariance(9), plain.covariance(9) * test.variance_factor, rtol=1e-6)
    np.testing.assert_allclose(scaled.potential, plain.potential / test.variance_factor, rtol=1e-9)
    assert scaled.certificate.certified and scaled.certificate.potential == pytest.approx(scaled.potential)
    # the test stays about what was stated, the verdict is about what error bars are for
    assert scaled.global_test.variance_factor == pytest.approx(test.variance_factor)
    assert plain.headline.startswith("do not trust it") and scaled.headline.startswith("trust it:")
    assert "scaled by the variance factor, as the global test rejects the stated noise" in scaled.summary()
    scaled.save(tmp_path / "r")
    facts = scaled.facts()["scaling"]
    assert facts == {"choice": "if-test-fails", "applied": True, "variance_factor": test.variance_factor}
    again = tempose.Solution.load(tmp_path / "r")
    assert again.scaled_by == test.variance_factor and again.global_test.passed is False
    np.testing.assert_allclose(again.covariance(9), scaled.covariance(9), rtol=1e-9)


def test_noise_that_fits_is_left_alone_unless_asked(claimed: tempose.PoseGraph) -> None:
    """Negative control."""
    right = claimed.scaled_noise(3.0)
    left = tempose.solve(right, draws=0, scale="if-test-fails")
    assert left.scaled_by == 1.0 and left.facts()["scaling"]["applied"] is False
    assert "the noise holds as stated" in left.summary()
    always = tempose.solve(right, draws=0, scale="always")
    assert always.scaled_by == pytest.approx(left.reduced_chi_square) and always.scaled_by != 1.0


def test_draws_are_of_the_scaled_noise_and_go_on(claimed: tempose.PoseGraph, tmp_path: Path) -> None:
    options = tempose.SolveOptions(draws=400, chains=2, scale="always", certify=False)
    first = tempose.solve(claimed, options, directory=tmp_path / "r")
    ratio = first.nodes.sigma_pos[1:] / tempose.solve(claimed, draws=0, certify=False).nodes.sigma_pos[1:]
    assert np.median(ratio) == pytest.approx(np.sqrt(first.scaled_by), rel=0.1)
    more = tempose.solve(claimed, options.changed(draws=600), directory=tmp_path / "r")
    np.testing.assert_array_equal(next(iter(more.draws))[1], next(iter(first.draws))[1])


def test_noise_that_is_estimated_is_not_scaled() -> None:
    with pytest.raises(OptionError, match="scale is for noise that was stated"):
        tempose.SolveOptions(scale="always", noise="auto")
