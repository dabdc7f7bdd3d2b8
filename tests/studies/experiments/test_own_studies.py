"""The studies that are not in the paper: their numbers by other means, their tables, texts and figures."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempose.dynamics.schemes import Scheme
from tempose.studies.experiment import Result, RunOptions, load
from tempose.studies.experiments import (
    ambiguous_loop,
    certified_share,
    covariance,
    ergodic_error,
    random_starts,
    schemes,
    verdicts,
)
from tempose.studies.linear_theory import stationary_mean


def small(name: str) -> list[dict[str, Any]]:
    """A few cells of an experiment, cut to seconds."""
    cells = load(name).cells(RunOptions(quick=True))
    if name == "schemes":
        return [cell | {"steps": 3000} for cell in cells[:15]]
    if name == "ergodic-error":
        return [cell | {"chains": 2, "steps": 64, "first": 2 * k} for k, cell in enumerate(cells)]
    if name == "random-starts":
        return [cell | {"nodes": 10, "iterations": 250} for cell in cells[:2]]
    if name == "verdicts":
        return [cell for cell in cells if cell["how"] == "no option"]
    if name == "laplace-coverage":
        return [cell for cell in cells if cell["graph"] < 2]
    if name == "ambiguous-loop":
        return [cells[0] | {"draws": 100}]
    return cells[:4]


STUDIES = [
    "schemes",
    "ergodic-error",
    "random-starts",
    "certified-share",
    "covariance",
    "laplace-coverage",
    "verdicts",
    "ambiguous-loop",
]


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_has_a_table_a_text_and_a_figure(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    experiment = load(name)
    rows = [{**cell, **row} for cell in small(name) for row in experiment.run(cell)]
    if name == "ambiguous-loop":  # one run in place of all three
        rows = [row | {"run": run} for row in rows for run in ambiguous_loop.RUNS]
    result = Result(name, RunOptions(quick=True), rows, experiment.table(rows))
    assert result.facts()["table"]
    assert len(experiment.text(result).splitlines()) > 1
    assert experiment.draw(result, tmp_path) == [tmp_path / "figure.png"]


def test_the_closed_form_is_the_variance_of_the_autoregression() -> None:
    """BOA on one mode, simulated as matrices: the stationary covariance solves S = A S Aᵀ + Q."""
    step, friction, omega2 = 0.003, 300.0, 900.0
    for noise in ("exact", "euler"):
        scheme = Scheme("boa", noise)
        f, s = math.exp(-friction * step), float(scheme.operations(step, friction, 1.0)[0, 3])
        # v ← f v − h ω² x + s z (x as before), then x ← x + h v
        kick = np.array([[1.0, 0.0], [-step * omega2, f]])
        move = np.array([[1.0, step], [0.0, 1.0]])
        A, Q = move @ kick, move @ np.diag([0.0, s * s]) @ move.T
        S = np.linalg.solve(np.eye(4) - np.kron(A, A), Q.reshape(-1)).reshape(2, 2)
        found = stationary_mean(scheme, step, friction, 1.0, np.array([omega2]))
        assert found == pytest.approx(0.5 * omega2 * S[0, 0], rel=1e-9)
    assert stationary_mean(Scheme("baoab"), step, friction, 2.0, np.ones(6)) == 1.5


def test_slopes_are_those_of_power_laws() -> None:
    x = np.array([1.0, 2.0, 5.0, 9.0])
    found, error = ergodic_error.slope(x, 3.0 * x**-1.5, 0.01 * x**-1.5)
    assert found == pytest.approx(-1.5) and 0.0 < error < 0.01


def test_every_chain_of_the_ergodic_error_has_its_own_random_numbers() -> None:
    cells = ergodic_error.cells(RunOptions())
    first = [cell["first"] for cell in cells]
    assert np.diff(first).tolist() == [24] * (len(cells) - 1)


def test_the_right_scheme_has_the_energy_of_the_posterior_and_the_printed_one_has_not() -> None:
    cell = {"variant": "world positions", "seed": 0, "friction": 10.0, "step": 0.003, "steps": 60_000}
    (right,) = schemes.run({**cell, "scheme": "BAOAB, exact OU"})
    (printed,) = schemes.run({**cell, "scheme": "BOA, noise as printed"})
    assert abs(right["excess"] - schemes.EXACT) < 5.0 * right["error"]
    assert printed["excess"] > 100.0 * schemes.EXACT


def test_no_run_is_below_the_optimum_and_the_staircase_proves_at_least_as_much() -> None:
    rows = random_starts.run({"setting": "dense", "nodes": 12, "iterations": 500, "seed": 1})
    assert all(row["excess"] > -1e-9 for row in rows if "excess" in row)
    assert {row["run"] for row in rows} == {*random_starts.RUNS, "optimum, paper", "optimum, default"}
    (row,) = certified_share.run({"shape": "sphere", "noise_deg": 5.0, "nodes": 20, "starts": 2, "seed": 0})
    assert row["staircase"] >= row["newton"] and row["chordal"] == 1


def test_pairs_of_the_covariance_study_are_two_nodes() -> None:
    cells = covariance.cells(RunOptions(seeds=30))
    assert all(cell["a"] != cell["b"] for cell in cells)
    assert len({(cell["a"], cell["b"]) for cell in cells}) > 100


def test_the_odds_of_the_loop_are_compared_in_standard_errors() -> None:
    row = {"angle_deg": 170.0, "run": "jumping", "exact": 0.8, "gaussian": 0.8, "found": 0.7, "error": 0.05}
    assert ambiguous_loop.table([row])[0]["z"] == pytest.approx(-2.0)


def test_verdicts_are_counted_with_what_their_regions_hold() -> None:
    def row(verdict: str, held: float | None, world: str = "plain") -> dict[str, Any]:
        return {"world": world, "how": "no option", "verdict": verdict, "held": held}

    rows = [row("trust it", 0.9), row("trust it", 1.0), row("trust it", 0.5, "odd"), row("do not trust it", None)]
    found = {(line["world"], line["verdict"]): line for line in verdicts.table(rows)}
    plain = found["plain", "trust it"]
    assert (plain["results"], plain["held"], plain["mislead"]) == (2, 0.95, 0)
    assert found["odd", "trust it"]["mislead"] == found["all", "trust it"]["mislead"] == 1
    assert found["all", "do not trust it"]["results"] == 1 and found["all", "do not trust it"]["held"] is None


def test_what_is_stated_too_small_is_not_to_be_trusted_as_it_is() -> None:
    """σ stated 0.75 times: variance factor 1.8, which no chance explains; negative control: as it is."""
    cells = [{"world": world, "how": "no option", "nodes": 40, "seed": 0} for world in ("σ stated 0.75 times", "plain")]
    small_bars, plain = (verdicts.run(cell)[0] for cell in cells)
    assert (small_bars["verdict"], small_bars["doubt"]) == ("trust it with care", "noise understated")
    assert small_bars["held"] < 0.8 < plain["held"] and plain["verdict"] == "trust it"
