"""The experiments: what they run on, that their numbers do not depend on how they were run, and what they refuse."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempose import cli
from tempose._support.streams import generator, key
from tempose.dynamics.chain import GeodesicChain
from tempose.errors import OptionError, TemposeError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods import METHODS
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.starts import random_poses
from tempose.simulation import corrupt, simulate
from tempose.studies import runner
from tempose.studies import watched as descent
from tempose.studies.experiment import DataMissing, RunOptions, data_folder, left_out, load, over_seeds
from tempose.studies.experiments import convergence, evolution, pgd, runtime, temperature
from tempose.studies.experiments import lambda_ as concentration
from tempose.studies.registry import EXPERIMENTS, USUAL

FEW = RunOptions(quick=True, seeds=2, methods=("tree", "chordal"))


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Cells run here, without the cost of other processes; those that ran are listed."""
    ran: list[dict[str, Any]] = []

    def work_off(function: Callable[[Any], Any], cells: list[Any], jobs: int, executor: object = None) -> Iterator[Any]:
        for cell in cells:
            ran.append(cell)
            yield cell, function(cell)

    monkeypatch.setattr(runner, "work_off", work_off)
    return ran


def contents(home: Path) -> tuple[bytes, bytes]:
    return (home / "table.json").read_bytes(), (home / "table.csv").read_bytes()


# ---------------------------------------------------------------------- plans


NEED_DATA = (
    "epfl-rotations",
    "threedmatch",
    "madrid",
    "epfl",
    "ba-gain",
    "point-uncertainty",
    "epfl-coverage",
    "epfl-bundle",
    "epfl-photographs",
    "warped-photographs",
    "other-photographs",
    "covariance-sphere",
    "planar-truth",
    "scenes",
    "scenes-left-out",
    "kitti-loops",
)


@pytest.mark.parametrize("name", NEED_DATA)
def test_an_experiment_on_real_data_says_what_it_lacks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPOSE_DATA", raising=False)
    with pytest.raises(DataMissing, match="TEMPOSE_DATA"):
        load(name).cells(RunOptions())


@pytest.mark.parametrize("name", [n for n in EXPERIMENTS if n not in NEED_DATA])
def test_every_experiment_has_a_plan_of_different_cells_that_survives_json(name: str) -> None:
    if name in ("sfm-coverage", "bundle-coverage"):
        pytest.importorskip("pycolmap", reason="needs pycolmap (pip install 'tempose[sfm]')")
    for quick in (False, True):
        cells = load(name).cells(RunOptions(quick=quick))
        keys = {json.dumps(cell, sort_keys=True) for cell in cells}
        assert len(keys) == len(cells) > 0
        assert [json.loads(json.dumps(cell)) for cell in cells] == cells


@pytest.mark.parametrize("name", ["noise", "completeness", "outliers", "pgd", "lambda"])
def test_the_full_size_has_thirty_seeds_and_the_papers_nodes(name: str) -> None:
    cells = [cell for cell in load(name).cells(RunOptions()) if "seed" in cell]
    assert {cell["seed"] for cell in cells} == set(range(30))
    assert {cell["nodes"] for cell in cells} == {50}
    if load(name).methods:  # every registered method is there, also those that come later
        assert {cell["method"] for cell in cells} == set(METHODS)


def test_seeds_and_methods_are_those_asked_for() -> None:
    cells = load("outliers").cells(RunOptions(seed=5, seeds=2, methods=("irls", "tempose")))
    assert {cell["seed"] for cell in cells} == {5, 6}
    assert {cell["method"] for cell in cells} == {"irls", "tempose"}


# ---------------------------------------------------------------------- running


def test_the_result_does_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    for jobs in (1, 2):
        outcome = runner.run_experiment("noise", tmp_path / str(jobs), FEW, jobs=jobs)
        assert outcome.written[:2] == [tmp_path / str(jobs) / "table.json", tmp_path / str(jobs) / "table.csv"]
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    facts = json.loads((tmp_path / "1" / "table.json").read_text())
    assert facts["seeds"] == [0, 1] and facts["options"]["methods"] == ["tree", "chordal"]
    assert "tempose" in facts["versions"]


def test_a_killed_run_goes_on_to_the_same_bytes(tmp_path: Path, in_this_process: list[dict[str, Any]]) -> None:
    runner.run_experiment("noise", tmp_path / "whole", FEW)
    total = len(in_this_process)
    stored = (tmp_path / "whole" / "cells.jsonl").read_bytes()
    lines = stored.splitlines(keepends=True)
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "cells.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:30])  # killed while writing
    in_this_process.clear()
    runner.run_experiment("noise", tmp_path / "killed", FEW)
    assert len(in_this_process) == total - 3
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    in_this_process.clear()
    runner.run_experiment("noise", tmp_path / "killed", FEW)
    assert in_this_process == []  # all there


def test_a_new_method_joins_a_finished_run(tmp_path: Path, in_this_process: list[dict[str, Any]]) -> None:
    runner.run_experiment("noise", tmp_path, FEW)
    in_this_process.clear()
    more = replace(FEW, methods=("tree", "chordal", "eig-se3"))
    table = runner.run_experiment("noise", tmp_path, more).result.table
    assert {cell["method"] for cell in in_this_process} == {"eig-se3"}
    assert {row["method"] for row in table} == {"tree", "chordal", "eig-se3"}


@pytest.mark.parametrize(
    ("change", "told"),
    [({"seed": 3}, "seed 0 (now 3)"), ({"quick": False}, "quick True (now False)"), ({"seeds": 9}, "seeds 2 (now 9)")],
)
def test_a_directory_of_other_options_is_refused(
    tmp_path: Path, in_this_process: list[dict[str, Any]], change: dict[str, Any], told: str
) -> None:
    runner.run_experiment("noise", tmp_path, FEW)
    before = (tmp_path / "cells.jsonl").read_bytes()
    with pytest.raises(TemposeError) as raised:
        runner.run_experiment("noise", tmp_path, replace(FEW, **change))
    assert told in str(raised.value) and "choose another directory" in str(raised.value)
    with pytest.raises(TemposeError, match="experiment 'noise'"):
        runner.run_experiment("completeness", tmp_path, FEW)
    assert (tmp_path / "cells.jsonl").read_bytes() == before


def test_files_that_are_not_ours_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cells.jsonl").write_text("my notes\n")
    with pytest.raises(TemposeError, match="not a file of finished cells"):
        runner.run_experiment("noise", tmp_path, FEW)
    assert (tmp_path / "cells.jsonl").read_text() == "my notes\n"
    (tmp_path / "file").write_text("")
    with pytest.raises(TemposeError, match="cannot be a directory to write to"):
        runner.run_experiment("noise", tmp_path / "file", FEW)


def test_without_matplotlib_the_table_is_there(
    tmp_path: Path, in_this_process: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    outcome = runner.run_experiment("noise", tmp_path, FEW)
    assert [path.name for path in outcome.written] == ["table.json", "table.csv"]
    assert any("matplotlib" in notice for notice in outcome.notices)
    assert not (tmp_path / "figure.png").exists()


@pytest.mark.parametrize("name", ["noise", "pgd", "lambda", "temperature", "evolution"])
def test_quick_figures_are_drawn(
    name: str, tmp_path: Path, in_this_process: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.delenv("TEMPOSE_DATA", raising=False)
    options = FEW if load(name).methods else RunOptions(quick=True, seeds=2 if load(name).seeds else None)
    outcome = runner.run_experiment(name, tmp_path, options)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert all(path.exists() for path in outcome.written)


# ---------------------------------------------------------------------- tables


def test_means_and_standard_errors_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    rows = [{"k": k, "x": float(rng.normal()), "y": None} for k in (1, 2) for _ in range(7)]
    rows[0]["x"] = None
    table = over_seeds(rows, ["k"], ["x", "y"])
    for line in table:
        x = np.array([row["x"] for row in rows if row["k"] == line["k"] and row["x"] is not None])
        assert line["n"] == len(x)
        assert line["x"] == pytest.approx(x.mean(), rel=1e-14)
        assert line["x_se"] == pytest.approx(x.std(ddof=1) / math.sqrt(len(x)), rel=1e-14)
        assert line["x_median"] == np.median(x)
        assert line["y"] is line["y_se"] is line["y_median"] is None


def test_methods_that_were_left_out_are_counted_with_the_reason() -> None:
    rows = [{"method": "a", "status": "left out", "message": "why"}] * 2 + [{"method": "b", "status": "converged"}]
    assert left_out(rows) == [{"method": "a", "cells": 2, "why": "why"}]


def test_a_method_too_slow_for_a_size_says_so() -> None:
    cell = {"data": "sweep", "nodes": 5000, "edges": 30000, "seed": 0, "method": "robust"}
    (row,) = runtime.run(cell)
    assert row["status"] == "left out" and "too slow beyond" in row["message"]
    assert set(runtime.MOST_NODES) <= set(METHODS)


# ---------------------------------------------------------------------- what they run on


def test_wrong_edges_are_as_the_paper_says() -> None:
    graph = simulate(40, completeness=0.6, seed=2).graph
    bad = corrupt(graph, 0.3, seed=7)
    assert bad.is_wrong.sum() == round(0.3 * graph.n_edges)
    right = ~bad.is_wrong
    assert np.array_equal(bad.graph.j_from_i_wxyz[right], graph.j_from_i_wxyz[right])
    assert np.array_equal(bad.graph.j_from_i_t[right], graph.j_from_i_t[right])
    was, now = ((g.j_from_i_wxyz[bad.is_wrong], g.j_from_i_t[bad.is_wrong]) for g in (graph, bad.graph))
    turn, shift = se3.compose(now, se3.inverse(was))  # now = wrong ∘ was
    angle = np.degrees(quat.angle(turn))
    assert angle.min() >= 60.0 - 1e-9 and angle.max() <= 80.0 + 1e-9
    assert shift.min() >= -1e-12 and shift.max() <= 1.0 + 1e-12
    # uniform, within 5 standard errors: the angle's mean, the shift's, and no preferred axis
    n = len(angle)
    assert abs(angle.mean() - 70.0) < 5 * 20.0 / math.sqrt(12 * n)
    assert np.all(np.abs(shift.mean(axis=0) - 0.5) < 5 / math.sqrt(12 * n))
    axis = quat.canonical(turn)[:, 1:]
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    assert np.all(np.abs(axis.mean(axis=0)) < 5 / math.sqrt(3 * n))
    # the same precisions; more outliers keep the old ones; another seed is another choice
    assert np.array_equal(bad.graph.concentration, graph.concentration)
    assert np.all(corrupt(graph, 0.5, seed=7).is_wrong[bad.is_wrong])
    assert not np.array_equal(corrupt(graph, 0.3, seed=8).is_wrong, bad.is_wrong)
    with pytest.raises(OptionError, match=r"share of wrong edges"):
        corrupt(graph, 1.5)


def test_projected_gradient_and_tg_mcmc_agree_on_the_first_step_and_end_above_the_optimum() -> None:
    # without momentum yet, one geodesic step of length h²|∇U| and its projection differ in third order
    cell = {"nodes": 12, "completeness": 0.6, "steps": 100, "seed": 1}
    runs = {method: pgd.run({**cell, "method": method}) for method in ("pgd", *pgd.DAMPING)}
    first = [rows[1]["potential"] for rows in runs.values()]
    fall = runs["pgd"][0]["potential"] - first[0]
    assert fall > 0 and np.ptp(first) < 0.01 * fall
    assert all(row["excess"] > -1e-8 for rows in runs.values() for row in rows)
    potentials = [row["potential"] for row in runs["pgd"]]
    assert potentials == sorted(potentials, reverse=True)
    # later, TG-MCMC is ahead by what its remaining velocity explains; with little friction by much more
    rows = [{**cell, "method": method, **row} for method, found in runs.items() for row in found]
    found, predicted = pgd.lead(rows)
    assert found == pytest.approx(predicted, abs=0.003)
    slow = {"pgd": "pgd", "tg-mcmc (low friction)": "tg-mcmc"}
    other = [{**row, "method": slow[row["method"]]} for row in rows if row["method"] in slow]
    assert pgd.lead(other)[0] > predicted + 0.1


def test_sampling_after_optimising_has_the_energy_of_the_posterior() -> None:
    excess = []
    for seed in range(4):
        cell = {"nodes": 8, "completeness": 0.8, "steps": 600, "seed": seed, "method": "tempose"}
        rows = convergence.run(cell)
        assert [row["iteration"] for row in rows][-1] == 1200
        excess += [row["excess"] for row in rows if row["iteration"] > 700]
    expected = (6 * 8 - 6) / 2
    # U − U* of a Gaussian posterior is Gamma(21): σ = √21 a draw; draws 20 steps apart, taken as a fifth independent
    assert abs(np.mean(excess) - expected) < 5 * math.sqrt(expected / (len(excess) / 5))


def test_no_run_of_the_optimiser_is_better_than_the_certified_minimum() -> None:
    for lam in (10.0, 500.0):
        cell = {"data": "synthetic", "nodes": 12, "steps": 300, "lambda": lam, "seed": 3}
        low, high = (concentration.run({**cell, "method": m})[0]["potential"] for m in ("tempose", "tg-mcmc"))
        assert low <= high + 1e-9


def test_lambda_says_that_the_real_data_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEMPOSE_DATA", raising=False)
    (cell,) = [c for c in concentration.cells(RunOptions(quick=True)) if c["data"] == "EPFL"]
    assert concentration.run(cell)[0]["status"] == "left out"
    with pytest.raises(DataMissing, match="set TEMPOSE_DATA"):
        data_folder("epfl_rotations")
    monkeypatch.setenv("TEMPOSE_DATA", "/nowhere")
    with pytest.raises(DataMissing, match="not in /nowhere"):
        data_folder("epfl_rotations")


def test_the_mixture_and_its_slope() -> None:
    x = np.linspace(-4, 4, 41)
    finite = (temperature.potential(x + 1e-5) - temperature.potential(x - 1e-5)) / 2e-5
    assert np.allclose(temperature.slope(x), finite, atol=1e-8)
    parts = zip(temperature.WEIGHTS, temperature.MEANS, strict=True)
    right = sum(w * 0.5 * math.erfc(-m / (temperature.SIGMA * math.sqrt(2.0))) for w, m in parts)
    assert temperature.right_share(1.0) == pytest.approx(right, abs=1e-7)  # trapezoids of 0.001
    for beta in (1.0, 20.0):
        grid = temperature.GRID
        assert np.trapezoid(temperature.density(grid, beta), grid) == pytest.approx(1.0, abs=1e-12)


def test_walkers_find_the_density_at_one_and_are_stuck_at_twenty() -> None:
    size = {"walkers": 4000, "steps": 300, "seed": 1}
    runs = [{"beta": b, "annealed": a, **size} for b, a in ((1.0, False), (20.0, False), (20.0, True))]
    rows = [{**cell, **row} for cell in runs for row in temperature.run(cell)]
    warm, cold, annealed = temperature.table(rows)
    assert abs(warm["right_drawn"] - warm["right_exact"]) < 5 * warm["right_drawn_se"]
    assert cold["right_drawn"] - cold["right_exact"] > 20 * cold["right_drawn_se"]
    assert annealed["right_drawn"] < 0.3 * cold["right_drawn"]


def test_evolution_begins_at_random_and_ends_near_the_truth() -> None:
    table = evolution.table(evolution.run({"nodes": 20, "steps": 200, "seed": 0}))
    assert table[0]["iteration"] == 0 and table[0]["mean_rotation_deg"] > 60.0
    assert table[-1]["iteration"] == 200 and table[-1]["mean_rotation_deg"] < 5.0
    data = evolution.cameras(20, 0)
    assert data.graph.n_components == 1 and 0 < data.graph.n_edges < 190


def test_the_common_step_is_stable_and_in_the_papers_range() -> None:
    data = descent.paper_graph(20, 0.5, 4)
    posterior = Posterior(data.graph)
    start = random_poses(data.graph, generator(4, "start"))
    step = descent.common_step(posterior, start)
    assert 0.001 < step < 0.008  # not because it was cut off at either end
    lowest = posterior.potential(minimise(Curvature(posterior), data.truth).poses)

    def ends(longer: float) -> float:
        chain = GeodesicChain(posterior, start, key(0, "optimise"))
        return float(chain.run(descent.paper_dynamics(longer * step), 600)[-1])

    assert lowest < ends(1.0) < 1.1 * lowest
    assert ends(2.0) > 5.0 * lowest  # negative control: half to spare and no more
    lam = float(np.median(data.graph.mean_concentration))
    assert lam == pytest.approx(descent.LAMBDA, rel=1e-9)


# ---------------------------------------------------------------------- command line


def test_help_lists_every_experiment_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["experiment", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert left.value.code == 0
    assert all(f"{name} {entry.summary}" in text for name, entry in EXPERIMENTS.items())
    with pytest.raises(SystemExit):
        cli.main(["experiment", "pgd", "--help"])
    said = capsys.readouterr().out
    assert "Projected Gradient Descent" in said and "The full size usually takes half a minute" in said
    assert "NeurIPS 2018, https://arxiv.org/abs/1805.12279" in said
    assert set(USUAL) <= set(EXPERIMENTS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["noise", "--methods", "magic"], "unknown method 'magic'"),
        (["noise", "--seeds", "0"], "at least one seed"),
        (["noise", "--seed", "-1"], "must not be negative"),
        (["noise", "--jobs", "0"], "at least one process"),
        (["pgd", "--methods", "tree"], "compares no methods"),
        (["temperature", "--seeds", "3"], "is one run"),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["experiment", *words, "-o", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_command_writes_and_prints_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], in_this_process: list[dict[str, Any]]
) -> None:
    words = ["experiment", "completeness", "--quick", "--seeds", "1", "--methods", "chordal,ozyesil", "--json"]
    assert cli.main([*words, "-o", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == json.loads((tmp_path / "table.json").read_text())


def test_all_runs_each_in_its_place_and_says_which_data_are_missing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    in_this_process: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TEMPOSE_DATA", raising=False)
    for name in set(EXPERIMENTS) - {"temperature", "madrid"}:
        monkeypatch.delitem(EXPERIMENTS, name)
    assert cli.main(["experiment", "all", "--quick", "--seeds", "2", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "temperature" / "table.json").exists()
    assert not (tmp_path / "madrid").exists()
    assert "madrid is left out: needs the data set madrid" in capsys.readouterr().err
