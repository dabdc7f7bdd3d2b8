"""Diagnostics: equal to ArviZ, right where the truth is known, and not to be flattered."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tempose
from tempose import describe
from tempose.analysis import aligned
from tempose.analysis import diagnostics as diag
from tempose.analysis.summary import summarise
from tempose.errors import ArgumentError
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.report.solution_page import report_data
from tempose.sampling import Auto
from tempose.sampling.draws import Draws
from tempose.simulation import simulate

Array = NDArray[np.float64]


def ar1(rng: np.random.Generator, phi: float, shape: tuple[int, ...]) -> Array:
    """Stationary AR(1) of unit variance along the last axis."""
    x = rng.standard_normal(shape)
    for t in range(1, shape[-1]):
        x[..., t] = phi * x[..., t - 1] + np.sqrt(1.0 - phi * phi) * x[..., t]
    return x


def wave(chains: int, draws: int) -> Array:
    """A series without random numbers, with ties: the reference below must not depend on a generator."""
    t = np.arange(chains * draws, dtype=float).reshape(chains, draws)
    return np.round(np.sin(0.37 * t) + 0.3 * np.cos(1.7 * t * t) + 0.01 * t / draws, 3)


# from arviz_stats.base.array_stats 0.8.0: rhat(x), ess(x, method="bulk"), ess(x, method="tail", prob=0.05),
# ess(x, method="mean"), ess(x, method="sd"), mcse(x, method="mean"), with x = wave(...), chain_axis=0, draw_axis=1
REFERENCE: dict[tuple[int, int], tuple[float, ...]] = {
    (2, 20): (1.11039456008, 10.9793075261, 22.4438902743, 10.1592350184, 28.0272571235, 0.213874666058),
    (4, 101): (0.993079357369, 92.961861875, 288.416923924, 85.4058682734, 212.863877958, 0.0783007304982),
    (3, 500): (0.999157434513, 334.78673076, 1117.29278304, 306.163101473, 800.651094001, 0.0419797593521),
}
FUNCTIONS = (diag.rhat, diag.ess_bulk, diag.ess_tail, diag.ess_mean, diag.ess_sd, diag.mcse_mean)


@pytest.mark.parametrize("shape", list(REFERENCE))
def test_stored_numbers_of_arviz(shape: tuple[int, int]) -> None:
    x = wave(*shape)
    np.testing.assert_allclose([float(f(x)) for f in FUNCTIONS], REFERENCE[shape], rtol=1e-6)


def test_equal_to_arviz() -> None:
    stats = pytest.importorskip("arviz_stats.base").array_stats
    axes: dict[str, Any] = {"chain_axis": 0, "draw_axis": 1}
    pairs: list[tuple[Callable[[Array], Array], Callable[[Array], Any]]] = [
        (diag.rhat, lambda y: stats.rhat(y, **axes)),
        (diag.ess_bulk, lambda y: stats.ess(y, method="bulk", **axes)),
        (diag.ess_tail, lambda y: stats.ess(y, method="tail", prob=0.05, **axes)),
        (diag.ess_mean, lambda y: stats.ess(y, method="mean", **axes)),
        (diag.ess_sd, lambda y: stats.ess(y, method="sd", **axes)),
        (diag.mcse_mean, lambda y: stats.mcse(y, method="mean", **axes)),
        # ArviZ takes the ESS of the values for the error of sd
        (lambda y: diag.mcse_sd(y) * np.sqrt(diag.ess_sd(y) / diag.ess_mean(y)), lambda y: stats.mcse(y, method="sd", **axes)),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    for chains in (2, 4):
        for draws in (7, 8, 9, 101, 400):
            for phi in (0.0, 0.5, 0.95, -0.6):
                x = ar1(rng, phi, (3, chains, draws))
                x[0] = np.round(x[0], 1)  # ties
                for ours, theirs in pairs:
                    np.testing.assert_allclose(ours(x), [float(theirs(y)) for y in x], rtol=1e-6)
    assert float(diag.energy_mixing(x[0])[0]) == pytest.approx(float(stats.bfmi(x[0], **axes)[0]), rel=1e-6)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.5])
def test_ess_of_ar1(phi: float) -> None:
    x = ar1(np.random.default_rng(1), phi, (200, 4, 1000))
    expected = 4000 * (1.0 - phi) / (1.0 + phi)
    assert np.mean(diag.ess_mean(x)) == pytest.approx(expected, rel=0.06)
    assert np.mean(diag.ess_bulk(x)) == pytest.approx(expected, rel=0.06)
    squares = 4000 * (1.0 - phi**2) / (1.0 + phi**2)
    assert np.mean(diag.ess_sd(x)) == pytest.approx(squares, rel=0.06)


@pytest.mark.parametrize("phi", [0.0, 0.8, -0.5])
def test_monte_carlo_errors_cover(phi: float) -> None:
    x = ar1(np.random.default_rng(2), phi, (600, 4, 500))
    mean, sd = x.mean(axis=(1, 2)), x.std(axis=(1, 2), ddof=1)
    for error, size in ((mean, diag.mcse_mean(x)), (sd - 1.0, diag.mcse_sd(x))):
        z = error / size
        assert np.std(z) == pytest.approx(1.0, abs=0.12)  # 600 repetitions: ±0.03, and the error's own error
        assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.03)


def test_antithetic_draws_do_not_flatter_sigma() -> None:
    x = ar1(np.random.default_rng(3), -0.9, (300, 4, 500))
    true = np.std(x.std(axis=(1, 2), ddof=1))
    assert np.mean(diag.mcse_sd(x)) == pytest.approx(true, rel=0.15)
    as_arviz = diag.mcse_sd(x) * np.sqrt(diag.ess_sd(x) / diag.ess_mean(x))
    assert np.mean(as_arviz) < 0.7 * true


def test_rhat_sees_shift_scale_drift_and_one_chain() -> None:
    x = np.random.default_rng(4).standard_normal((4, 500))
    assert diag.rhat(x) < 1.01
    assert diag.rhat(x + np.array([[0.0], [0.0], [0.0], [0.7]])) > 1.05
    assert diag.rhat(x * [[1.0], [1.0], [1.0], [3.0]]) > 1.05  # same mean: only the folded ranks see it
    assert diag.rhat(x[:1] + np.linspace(0.0, 2.0, 500)) > 1.05
    assert diag.rhat(np.random.default_rng(5).standard_cauchy((4, 500))) < 1.01
    with pytest.raises(ArgumentError, match="at least 4 draws"):
        diag.rhat(x[:, :3])


def test_energy_mixing() -> None:
    rng = np.random.default_rng(6)
    assert diag.energy_mixing(ar1(rng, 0.0, (1, 5000)))[0] == pytest.approx(2.0, abs=0.1)
    assert diag.energy_mixing(ar1(rng, 0.95, (1, 5000)))[0] == pytest.approx(0.1, abs=0.03)


# ---------------------------------------------------------------------- compiled


@pytest.mark.parametrize(("chains", "length"), [(1, 4), (1, 5), (2, 6), (2, 9), (4, 50), (3, 101), (4, 250)])
def test_compiled_series_are_the_readable_ones(chains: int, length: int) -> None:
    """With ties, constants, two values only, anti-correlation, one far value; and where it takes more lags than are summed."""
    rng = np.random.default_rng(10)
    x = np.concatenate([ar1(rng, phi, (6, chains, length)) for phi in (0.0, 0.5, -0.7, 0.99)])
    x[0] = np.round(x[0], 1)
    x[1] = x[1] > 0.0
    x[2, 0, 0] = 1e6
    x[3] = 3.0 + 1e-4 * x[3]
    y, made = x.reshape(len(x), -1), diag._Series(chains, length)
    with np.errstate(invalid="ignore", divide="ignore"):
        slow = made.judged_slowly(y)
        alone = [f(x) for f in (diag.rhat, diag.ess_bulk, diag.ess_tail, diag.mcse_mean, diag.mcse_sd)]
    np.testing.assert_array_equal(slow, np.stack(alone, axis=-1))
    np.testing.assert_allclose(made.judged(y), slow, rtol=1e-9)
    z = x.reshape(4, 6, -1)
    for along in (np.arange(3), np.array([4]), np.array([3, 5])):
        np.testing.assert_allclose(made.spread(z, along), made.spread_slowly(z, along), rtol=1e-9)


def test_slow_chains_are_left_to_the_readable_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the above: some series need more lags, and what is made of them then is used."""
    x = ar1(np.random.default_rng(11), 0.98, (3, 4, 200)).reshape(3, -1)
    made = diag._Series(4, 200)
    fine = made.judged(x)
    np.testing.assert_allclose(fine, made.judged_slowly(x), rtol=1e-9)
    monkeypatch.setattr(made, "judged_slowly", lambda y: np.full((len(y), 5), 7.0))
    assert np.all(made.judged(x) == 7.0)
    monkeypatch.setattr(diag, "_DIRECT", 10_000)
    np.testing.assert_allclose(made.judged(x), fine, rtol=1e-9)


# ---------------------------------------------------------------------- draws of poses


def made_draws(
    graph: PoseGraph, truth: Poses, x: Array, rng: np.random.Generator, *, flip: bool = True, move: bool = True
) -> Draws:
    """Draws with tangent coordinates x (n, 6, chains, draws), each in a random frame and with random quaternion signs."""
    n, _, chains, length = x.shape
    arrays = []
    for c in range(chains):
        out = np.empty((length, n, 7))
        for k in range(length):
            wxyz = quat.multiply(quat.exp(x[:, :3, c, k]), truth.wxyz)
            position = truth.position + x[:, 3:, c, k]
            if move:
                turn = quat.random_uniform(rng)
                wxyz, position = quat.multiply(turn, wxyz), quat.rotate(turn, position) + rng.standard_normal(3)
            if flip:
                wxyz = wxyz * rng.choice([-1.0, 1.0], n)[:, None]
            out[k, :, :4], out[k, :, 4:] = wxyz, position
        arrays.append(out)
    energies = tuple(rng.gamma(6.0, size=(chains, length)))
    return Draws(graph.node_ids, 1.0, tuple(arrays), energies)


@pytest.fixture(scope="module")
def small() -> tuple[PoseGraph, Poses]:
    made = simulate(6, seed=1)
    return made.graph, made.truth


def coordinates(rng: np.random.Generator, phi: float, chains: int, length: int, n: int = 6) -> Array:
    x = 0.05 * ar1(rng, phi, (n, 6, chains, length))
    x[0] = 0.0  # the anchor
    return x


def test_independent_draws_are_good(small: tuple[PoseGraph, Poses]) -> None:
    graph, truth = small
    rng = np.random.default_rng(7)
    x = coordinates(rng, 0.0, 4, 400)
    draws = made_draws(graph, truth, x, rng)
    result = diag.diagnose(draws, truth, Gauge(graph))
    assert result.level == "good" and not describe.advice(result)
    assert describe.verdict(result).startswith("good: R-hat ≤ 1.00")
    # frames, signs and the held node make no difference: the numbers are those of the series that were put in
    np.testing.assert_allclose(result.ess_bulk[1:], diag.ess_bulk(x[1:]), rtol=1e-6)
    np.testing.assert_allclose(result.ess_tail[1:], diag.ess_tail(x[1:]), rtol=1e-6)
    # the two draws next to the median are equally far from it: rounding decides their order
    np.testing.assert_allclose(result.rhat[1:], diag.rhat(x[1:]), rtol=1e-4)
    np.testing.assert_allclose(result.mcse_sd[1:], diag.mcse_sd(x[1:]), rtol=1e-6)
    assert np.all(np.isnan(result.ess_bulk[0])) and np.isnan(result.node_ess[0]) and result.stuck == 0
    assert result.worst_ess_bulk.value == min(np.nanmin(result.ess_bulk), result.energy_ess_bulk)
    assert result.facts()["level"] == "good" and [describe.verdict(result), *describe.advice(result)] == [
        describe.verdict(result)
    ]


@pytest.mark.parametrize("kind", ["anchor", "centroid", "node:3"])
def test_compiled_diagnostics_are_the_readable_ones(
    small: tuple[PoseGraph, Poses], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, truth = small
    rng = np.random.default_rng(9)
    draws, gauge = made_draws(graph, truth, coordinates(rng, 0.5, 3, 61), rng), Gauge.parse(graph, kind)
    readable = diag.diagnose(draws, truth, gauge)
    monkeypatch.setattr(aligned, "COMPILED", 0)
    compiled = diag.diagnose(draws, truth, gauge)
    for name in ("ess_bulk", "ess_tail", "mcse_mean", "mcse_sd", "sigma_rot_deg_mcse", "sigma_pos_mcse"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(readable, name), rtol=1e-9)
    # the two draws next to the median are equally far from it: rounding decides their order
    np.testing.assert_allclose(compiled.rhat, readable.rhat, rtol=1e-3)


def test_blocks_do_not_change_anything(small: tuple[PoseGraph, Poses], monkeypatch: pytest.MonkeyPatch) -> None:
    graph, truth = small
    rng = np.random.default_rng(8)
    draws = made_draws(graph, truth, coordinates(rng, 0.5, 2, 60), rng)
    for kind in ("anchor", "centroid", "node:3"):
        monkeypatch.setattr(aligned, "COMPILED", 0)
        whole = diag.diagnose(draws, truth, Gauge.parse(graph, kind))
        monkeypatch.setattr(diag, "_BLOCK_VALUES", 1)
        one = diag.diagnose(draws, truth, Gauge.parse(graph, kind))
        monkeypatch.undo()
        for name in ("rhat", "ess_tail", "mcse_sd", "sigma_pos_mcse"):
            np.testing.assert_allclose(getattr(one, name), getattr(whole, name), rtol=1e-12)
        assert np.isnan(whole.rhat).any() == (kind != "centroid")


def test_errors_of_reported_sigmas_cover() -> None:
    made = simulate(20, seed=1)
    graph, truth = made.graph, made.truth
    z = []
    for seed in range(6):
        rng = np.random.default_rng([9, seed])
        draws = made_draws(graph, truth, coordinates(rng, 0.6, 4, 60, 20), rng, flip=False)
        result, nodes = diag.diagnose(draws, truth, Gauge(graph)), summarise(draws, truth, Gauge(graph))
        z.append((nodes.sigma_rot_deg - np.degrees(0.05))[1:] / result.sigma_rot_deg_mcse[1:])
        z.append((nodes.sigma_pos - 0.05)[1:] / result.sigma_pos_mcse[1:])
        relative = result.sigma_relative_error[1:] * 0.05
        assert np.all(relative >= 0.7 * result.sigma_pos_mcse[1:])
    assert np.std(np.concatenate(z)) == pytest.approx(1.0, abs=0.2)  # 228 values


def test_disagreeing_and_sticky_chains_are_called_bad(
    small: tuple[PoseGraph, Poses], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, truth = small
    rng = np.random.default_rng(10)
    x = coordinates(rng, 0.0, 4, 150)
    x[4, 1, 2] += 0.2  # one coordinate of one chain
    shifted = diag.diagnose(made_draws(graph, truth, x, rng), truth, Gauge(graph))
    assert shifted.level == "bad" and "chains disagree" in describe.verdict(shifted)
    assert (shifted.worst_rhat.node, shifted.worst_rhat.coordinate) == (graph.node_ids[4], "ry")
    assert any("have not met" in line for line in describe.advice(shifted))

    few = diag.diagnose(made_draws(graph, truth, coordinates(rng, 0.0, 4, 12), rng), truth, Gauge(graph))
    assert few.worst_rhat.value > diag.RHAT_BAD and not few.chains_disagree  # independent draws, but 12 of them
    assert "12 draws a chain are too few to see" in describe.verdict(few)
    assert not any("modes" in line for line in describe.advice(few)) and any(
        "--draws" in line for line in describe.advice(few)
    )
    x = coordinates(rng, 0.0, 4, 50)
    x[4, 1, 2] += 1.0  # by more than chance explains
    assert diag.diagnose(made_draws(graph, truth, x, rng), truth, Gauge(graph)).chains_disagree

    sticky = diag.diagnose(made_draws(graph, truth, coordinates(rng, 0.97, 4, 150), rng), truth, Gauge(graph))
    assert sticky.level == "bad" and any("--thin" in line for line in describe.advice(sticky))

    made = made_draws(graph, truth, coordinates(rng, 0.0, 4, 60), rng)
    few = diag.diagnose(made, truth, Gauge(graph))
    assert few.level == "usable" and any("take more draws" in line for line in describe.advice(few))
    assert f"every σ is known to ±{100 * few.worst_sigma_error.value:.2g}% or better, but " in describe.verdict(few)
    monkeypatch.setattr(diag, "SIGMA_USABLE", 0.001)
    assert diag.diagnose(made, truth, Gauge(graph)).level == "not good"


def test_stuck_coordinates_are_not_mistaken_for_held_ones(small: tuple[PoseGraph, Poses]) -> None:
    graph, truth = small
    rng = np.random.default_rng(11)
    x = coordinates(rng, 0.0, 4, 150)
    x[3] = 0.0
    result = diag.diagnose(made_draws(graph, truth, x, rng, move=False), truth, Gauge(graph))
    assert result.level == "bad" and result.stuck == 6 and "6 coordinates never moved" in describe.verdict(result)


def test_one_chain_few_draws_and_uneven_chains(small: tuple[PoseGraph, Poses]) -> None:
    graph, truth = small
    rng = np.random.default_rng(12)
    one = diag.diagnose(made_draws(graph, truth, coordinates(rng, 0.0, 1, 1000), rng), truth, Gauge(graph))
    assert one.level == "not good" and "one chain" in describe.verdict(one) and np.isfinite(one.worst_rhat.value)
    for length in (0, 1, 3):
        draws = made_draws(graph, truth, coordinates(rng, 0.0, 2, length), rng)
        few = diag.diagnose(draws, truth, Gauge(graph))
        assert few.level == "cannot tell" and describe.verdict(few).startswith("cannot tell") and describe.advice(few)
        assert few.facts()["worst_rhat"]["value"] is None
    nothing = diag.diagnose(Draws(graph.node_ids, 1.0, (), ()), truth, Gauge(graph))
    assert nothing.level == "cannot tell"

    full = made_draws(graph, truth, coordinates(rng, 0.0, 3, 100), rng)
    cut = tuple(a[:k] for a, k in zip(full.arrays, (100, 80, 5), strict=True))
    energies = tuple(e[:k] for e, k in zip(full.energies, (100, 80, 5), strict=True))
    uneven = diag.diagnose(replace(full, arrays=cut, energies=energies), truth, Gauge(graph))
    assert (uneven.n_chains, uneven.draws_per_chain) == (2, 80) and "left out" in describe.verdict(uneven)


def test_diverged_draws_are_bad(small: tuple[PoseGraph, Poses]) -> None:
    graph, truth = small
    rng = np.random.default_rng(14)
    draws = made_draws(graph, truth, coordinates(rng, 0.0, 2, 20), rng)
    draws.energies[1][7] = np.nan
    result = diag.diagnose(draws, truth, Gauge(graph))
    assert (
        result.level == "bad"
        and "1 draw is not finite" in describe.verdict(result)
        and "--step" in describe.advice(result)[0]
    )


def test_everything_held() -> None:
    poses = Poses((0,), quat.IDENTITY[None], np.zeros((1, 3)))
    graph = PoseGraph((0,), np.empty(0), np.empty(0), np.empty((0, 4)), np.empty((0, 3)), 1.0, 1.0)  # type: ignore[arg-type]
    draws = Draws((0,), 1.0, (np.tile(np.array([1.0, 0, 0, 0, 0, 0, 0]), (10, 1, 1)),), (np.zeros(10),))
    assert diag.diagnose(draws, poses, Gauge(graph)).level == "cannot tell"


def test_positions_that_nothing_determines_are_left_out() -> None:
    made = simulate(5, seed=3)
    graph = replace(made.graph, j_from_i_t=np.full((made.graph.n_edges, 3), np.nan))
    rng = np.random.default_rng(13)
    result = diag.diagnose(
        made_draws(graph, made.truth, coordinates(rng, 0.0, 2, 50, 5), rng), made.truth, Gauge(graph)
    )
    assert np.all(np.isnan(result.rhat[:, 3:])) and np.all(np.isfinite(result.rhat[1:, :3]))
    assert result.stuck == 0 and np.all(np.isnan(result.sigma_pos_mcse)) and np.all(result.sigma_relative_error[1:] > 0)


# ---------------------------------------------------------------------- in a solution


def test_a_solution_says_it_everywhere(tmp_path: Path) -> None:
    made = simulate(8, seed=2)
    solution = tempose.solve(made.graph, draws=80, chains=2, sampler=Auto(thin=20), certify=False)
    found = solution.diagnostics
    assert found is not None and found.level in ("not good", "bad")
    assert f"the draws are {describe.verdict(found)}" in solution.summary().splitlines()
    assert describe.edge_checks(solution.edge_checks) in solution.summary()
    home = solution.save(tmp_path)
    facts = json.loads((home / "result.json").read_text())
    words = {"verdict": describe.verdict(found), "advice": describe.advice(found)}
    assert facts["diagnostics"] == json.loads(json.dumps({**found.facts(), **words}))
    assert facts["predictive"]["checked_edges"] == made.graph.n_edges
    with open(home / "edges.csv", newline="") as handle:
        first = next(csv.DictReader(handle))
    assert float(first["p_value"]) == pytest.approx(solution.edge_checks.p_value[0])
    assert float(first["redundancy"]) == pytest.approx(solution.reliability.redundancy[0])
    assert float(first["mde_trans"]) == pytest.approx(solution.reliability.mde_trans[0])
    with open(home / "poses.csv", newline="") as handle:
        table = list(csv.DictReader(handle))
    assert float(table[0]["mcse_sigma_x"]) == 0.0 and float(table[0]["sigma_x"]) == 0.0
    assert float(table[3]["mcse_sigma_pos"]) == pytest.approx(found.sigma_pos_mcse[3])
    assert float(table[3]["mcse_sigma_ry_deg"]) == pytest.approx(np.degrees(found.mcse_sd[3, 1]))
    assert 0.01 < float(table[3]["mcse_sigma_rot_deg"]) / float(table[3]["sigma_rot_deg"]) < 0.5
    data = report_data(solution)
    tiles = {fact.label: fact for fact in data.headline}
    assert tiles["draws"].value == found.level and tiles["draws"].tone in ("warn", "bad")
    assert tiles["edges that contradict the rest"].value == "none"
    assert [h.label for h in data.histograms][1:] == ["Effective draws"]
    again = tempose.Solution.load(home)
    assert again.diagnostics is not None and describe.verdict(again.diagnostics) == describe.verdict(found)
    assert tempose.solve(made.graph, draws=0, certify=False).diagnostics is None
