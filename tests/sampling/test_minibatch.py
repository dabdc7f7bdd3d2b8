"""Stochastic gradients: how hot they make the posterior, beside what is predicted, and beside exact moments."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose._support.progress import DRAWING, Progress
from tempose.errors import OptionError
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.sampling import Geodesic
from tempose.sampling.minibatch import draw_by_minibatches
from tempose.sampling.tuning import HEATING, heating, minibatch_motion
from tempose.simulation import simulate

MADE = simulate(8, completeness=0.8, sigma_rot_deg=2.0, seed=1)
FREE = 6 * 8 - 6


def temperature(potential: np.ndarray) -> tuple[float, float]:
    """⟨U⟩ − U* in units of what a Gaussian of this many dimensions has, with its error by means of 20 batches."""
    best = minimise(Curvature(Posterior(MADE.graph)), MADE.truth).potential
    means = np.array([part.mean() for part in np.array_split(potential, 20)]) - best
    return float(means.mean()) / (0.5 * FREE), float(means.std(ddof=1) / np.sqrt(20)) / (0.5 * FREE)


def test_a_tenth_of_the_edges_gives_the_temperature_that_is_predicted(tmp_path: Path) -> None:
    draws = draw_by_minibatches(MADE.graph, MADE.truth, tmp_path, batch=4, draws=1000, chains=2, thin=400, seed=3)
    found, error = temperature(np.concatenate(draws.energies))
    said = json.loads((tmp_path / "draws.json").read_text())
    assert said["heating"] == pytest.approx(HEATING, rel=1e-9)
    assert abs(found - 1.0 - HEATING) < 4.0 * error + 0.03  # a few percent: what is predicted is of a Gaussian
    assert error < 0.03


def test_a_long_step_is_as_much_too_hot_as_predicted(tmp_path: Path) -> None:
    """Negative control: ten times the heating is seen."""
    how = Geodesic(batch=4, step=0.25, friction=4.0, thin=60)
    share = heating(0.25, 4.0, 4, MADE.graph.n_edges)
    solution = tempose.solve(MADE.graph, draws=1000, chains=2, sampler=how, seed=2)
    assert solution.draws is not None
    found, error = temperature(np.concatenate(solution.draws.energies))
    assert share > 0.15
    assert found > 1.0 + 0.5 * share + 3.0 * error


def test_solve_chooses_step_and_friction_for_minibatches() -> None:
    solution = tempose.solve(MADE.graph, draws=600, chains=2, sampler=Geodesic(batch=6), seed=2)
    assert solution.draws is not None
    found, error = temperature(np.concatenate(solution.draws.energies))
    assert abs(found - 1.0 - HEATING) < 4.0 * error + 0.03


def test_a_run_that_is_stopped_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    few = {"batch": 4, "chains": 1, "thin": 5, "seed": 1, "descent": 50, "draws": 20}
    whole = draw_by_minibatches(MADE.graph, MADE.truth, tmp_path / "a", **few)
    stop = threading.Event()

    def after_seven(news: Progress) -> None:
        if news.phase == DRAWING and news.done >= 7:
            stop.set()

    part = draw_by_minibatches(MADE.graph, MADE.truth, tmp_path / "b", progress=after_seven, stop=stop, **few)
    assert 7 <= part.n_draws < 20
    again = draw_by_minibatches(MADE.graph, MADE.truth, tmp_path / "b", **few)
    assert all(map(np.array_equal, whole.arrays, again.arrays))


def test_numbers() -> None:
    step, friction, thin = minibatch_motion(10, 1000, 1.0, 0.5)
    assert heating(step, friction, 10, 1000) == pytest.approx(HEATING)
    assert step * friction == pytest.approx(1.0)
    assert thin == int(np.ceil(1.0 / (0.5 * step) ** 2))
    assert minibatch_motion(1000, 10, 0.1, 0.5)[0] == 0.1
    assert heating(0.1, 1.0, 0, 10) == 0.0
    with pytest.raises(OptionError, match="at least one"):
        draw_by_minibatches(MADE.graph, MADE.truth, "nowhere", batch=0)
