"""The von Mises distribution by quadrature, and draws from it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from tempose.errors import ArgumentError
from tempose.model import von_mises

LAMBDAS = [0.0, 1e-3, 0.7, 12.0, 400.0, 650.0, 3e4]


def over_the_circle(f, lam: float) -> float:  # type: ignore[no-untyped-def]
    """Mean of f(θ) exp(−λ sin²(θ/2)) over the circle."""
    width = min(np.pi, 15.0 / np.sqrt(max(lam, 1.0)))
    value = integrate.quad(lambda x: f(x) * np.exp(-lam * np.sin(0.5 * x) ** 2), 0.0, width, epsabs=0, epsrel=1e-13)[0]
    return float(value / np.pi)


@pytest.mark.parametrize("lam", LAMBDAS)
def test_normaliser_its_gradient_and_sigma(lam: float) -> None:
    total = over_the_circle(lambda x: 1.0, lam)
    assert von_mises.log_normalizer(lam) == pytest.approx(np.log(total), rel=1e-11, abs=1e-13)
    mean = over_the_circle(lambda x: np.sin(0.5 * x) ** 2, lam) / total
    assert -von_mises.log_normalizer_gradient(lam) == pytest.approx(mean, rel=1e-11)
    variance = over_the_circle(lambda x: x * x, lam) / total
    assert von_mises.angle_sigma(lam) == pytest.approx(np.sqrt(variance), rel=1e-11)


def test_small_angles() -> None:
    """λ = 2/σ², as in space."""
    sigma = 1e-3
    assert von_mises.angle_sigma(2.0 / sigma**2) == pytest.approx(sigma, rel=1e-6)
    assert von_mises.angle_sigma(0.0) == pytest.approx(np.pi / np.sqrt(3.0))


def test_the_gradient_is_smooth_where_the_series_takes_over() -> None:
    lam = 600.0 * (1.0 + np.array([-1e-9, 1e-9]))
    low, high = von_mises.log_normalizer_gradient(lam)
    assert low == pytest.approx(high, rel=3e-9)


@pytest.mark.parametrize("lam", [0.0, 0.7, 12.0])
def test_draws(lam: float) -> None:
    draws = von_mises.sample(np.random.default_rng(3), lam, 20_000)
    grid = np.linspace(-np.pi, np.pi, 4001)
    density = np.exp(-lam * np.sin(0.5 * grid) ** 2)
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    assert stats.kstest(draws, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > 1e-3
    other = np.exp(-(1.2 * lam + 0.3) * np.sin(0.5 * grid) ** 2)  # negative control
    wrong = integrate.cumulative_trapezoid(other, grid, initial=0.0)
    assert stats.kstest(draws, lambda x: np.interp(x, grid, wrong / wrong[-1])).pvalue < 1e-3


def test_negative_concentrations_are_refused() -> None:
    with pytest.raises(ArgumentError, match="got -1"):
        von_mises.log_normalizer([1.0, -1.0])
