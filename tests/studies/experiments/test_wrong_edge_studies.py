"""Studies of wrong edges: their worlds, rows by other means, tables, texts and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempose.errors import TemposeError
from tempose.outliers.beliefs import Beliefs, current_beliefs
from tempose.simulation.wrong import is_odometry
from tempose.solver import solve
from tempose.studies.experiment import Result, RunOptions, load
from tempose.studies.experiments import kitti_loops, lookalikes, manhattan, scenes, scenes_left_out
from tempose.studies.wrong_edges import coverage, largest_part


def shown(name: str, rows: list[dict[str, Any]], home: Path) -> list[dict[str, Any]]:
    """The table of rows, after its text and figure were made."""
    pytest.importorskip("matplotlib")
    experiment = load(name)
    result = Result(name, RunOptions(quick=True), rows, experiment.table(rows))
    assert len(experiment.text(result).splitlines()) > 1
    assert experiment.draw(result, home) == [home / "figure.png"]
    assert result.facts()["table"]
    return result.table


def test_worlds_are_of_all_kinds_and_odometry_is_as_right_as_is_said() -> None:
    made = [lookalikes.world(seed) for seed in range(40)]
    assert {one.graph.is_planar for one in made} == {True, False}
    assert {int(one.alias.max()) + 1 for one in made} == {1, 2, 3, 4}
    n = np.array([one.graph.n_nodes for one in made])
    assert n.min() >= 60 and n.max() <= 100
    wrong = sum(int(np.sum(one.is_wrong & is_odometry(one.graph))) for one in made)
    expected = 0.01 * float((n - 1).sum())
    assert abs(wrong - expected) < 4.0 * np.sqrt(expected)


def test_whoever_knew_the_wrong_edges_of_a_world_would_be_calibrated() -> None:
    """So what is missing in a solve's regions is due to its verdicts."""
    inside, spread = [], []
    for seed in range(8):
        made = lookalikes.world(seed)
        right = largest_part(made.right)
        solution = solve(right, noise="auto", draws=0, certify=False, analyse=False)
        row = coverage(solution, made.truth.select(right.node_ids), np.random.default_rng(seed))
        inside.append(row["nodes_95"])
        spread.append(row["pairs_spread"])
    assert np.mean(inside) > 0.88 and np.mean(spread) == pytest.approx(1.0, abs=0.15)


def test_lookalikes(tmp_path: Path) -> None:
    cells = [cell for cell in lookalikes.cells(RunOptions(quick=True, seeds=1)) if cell["trust"] is not None]
    found = {cell["model"]: [{**cell, **row} for row in lookalikes.run(cell)] for cell in cells}
    rows = found["robust"]
    whole, bins = rows[0], rows[1:]
    assert found["independent"][0]["brier"] != whole["brier"]  # the negative control is another model
    made = lookalikes.world(cells[0]["seed"], lookalikes.QUICK_NODES)
    assert whole["edges"] == made.graph.n_edges == sum(row["edges"] for row in bins)
    assert sum(row["right"] for row in bins) == np.sum(~made.is_wrong) and whole["wrong"] == made.is_wrong.sum()
    assert 0.0 <= whole["brier"] <= 1.0 and 0.0 <= whole["nodes_95"] <= 1.0
    failed = cells[0] | {"seed": 9, "status": "failed", "message": "no"}
    table = shown("lookalikes", [*rows, failed], tmp_path)
    assert table[0]["n"] == 1 and table[0]["failed"] == 1 and table[0]["sure"] == whole["sure"]
    assert sum(row["edges"] for row in table if row.get("of") == "all") == made.graph.n_edges


def test_manhattan(tmp_path: Path) -> None:
    cells = [cell for cell in load("manhattan").cells(RunOptions(quick=True)) if cell["method"] != "robust"]
    cells = [cell for cell in cells if not cell["planar"]]
    rows = [{**cell, **manhattan.run(cell)[0]} for cell in cells]
    table = {row["method"]: row for row in shown("manhattan", rows, tmp_path)}
    assert table["oracle"]["rotation_ratio"] == table["oracle"]["position_ratio_worst"] == 1.0
    own = table["robust+odometry"]
    assert own["rotation_ratio"] == pytest.approx(1.0, abs=0.1) and own["excess_worst"] < 0.01
    assert own["gap_worst"] < 1e-9
    assert own["recall"] == 1.0 and own["sigma_rot_ratio"] == pytest.approx(1.0, abs=0.2)
    assert own["within"] == own["all_right"] == 1 and own["ratio_worst"] <= 1.05 and "cpu_seconds" not in own
    (timed,) = load("manhattan-large").run(cells[0])
    assert timed["cpu_seconds"] > 0.0 and {**rows[0], **timed} == {**timed, **rows[0]}
    large = load("manhattan-large").cells(RunOptions(seeds=3))
    own = [cell for cell in large if not cell["method"].startswith("gnc")]
    assert large[: len(own)] == own == sorted(own, key=lambda cell: cell["seed"])  # one world after the other, GNC last
    assert len(own) == 3 * 18 and {cell["seed"] for cell in large[len(own) :]} == {0, 1}
    sizes = {cell["nodes"] for cell in load("manhattan-large").cells(RunOptions())}
    assert sizes == {3500} and {cell["nodes"] for cell in load("manhattan").cells(RunOptions())} == {500}


def test_tables_of_real_data(tmp_path: Path) -> None:
    """Of made-up rows: what is pooled is weighted by edges and nodes; who failed is counted."""
    scored = {"edges": 10, "wrong": 2, "sure": 8, "sure_right": 6, "brier": 0.2, "log_score": 1.0, "pairs_95": 0.5}
    errors = {
        "status": "finished",
        "n_compared": 30,
        "mean_rotation_deg": 2.0,
        "mean_translation": 0.1,
        "nodes_95": 0.5,
    }
    rows: list[dict[str, Any]] = [
        {"data": "a", "method": "robust", "trust": None, **scored, **errors},
        {"data": "b", "method": "robust", "trust": None, **scored, **errors, "brier": 0.5, "edges": 30, "n_compared": 10,
         "nodes_95": 0.9},
        {"data": "a", "method": "gnc", "trust": None, "status": "left out", "message": "no gtsam"},
        {"data": "b", "method": "chain", "trust": None, "status": "finished", "n_compared": 10, "mean_rotation_deg": 1.0,
         "mean_translation": 1.0},
    ]  # fmt: skip
    (tmp_path / "scenes").mkdir()
    table = shown("scenes", rows, tmp_path / "scenes")
    pooled = next(row for row in table if (row["data"], row["method"]) == ("all", "robust"))
    assert pooled["brier"] == pytest.approx((0.2 * 10 + 0.5 * 30) / 40) and pooled["sure_right"] == 12
    assert pooled["nodes_95"] == pytest.approx((0.5 * 30 + 0.9 * 10) / 40)
    cell = {"data": "kitti_00", "kind": "independent", "share": 0.1, "trust": None, "seed": 0, "status": "finished"}
    good = {**cell, "right_kept": 0.9, "recall": 1.0, "position_ratio": 1.1, "odometry_rejected": 3}
    (tmp_path / "kitti").mkdir()
    (line,) = shown("kitti-loops", [good, {**cell, "seed": 1, "status": "failed"}], tmp_path / "kitti")
    assert (line["n"], line["failed"], line["right_kept"], line["odometry_rejected"]) == (1, 1, 0.9, 3)


def test_plans_on_real_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPOSE_DATA", str(tmp_path))
    for name, folder in (("scenes", "threedmatch"), ("kitti-loops", "g2o2d")):
        with pytest.raises(TemposeError, match=f"needs the data set {folder}"):
            load(name).cells(RunOptions())
        (tmp_path / folder).mkdir()
    assert len({cell["data"] for cell in scenes.cells(RunOptions())}) == 7
    assert {cell["trust"] for cell in scenes.cells(RunOptions())} == {None, *scenes.TRUST}
    plan = kitti_loops.cells(RunOptions(seeds=2))
    assert len(plan) == 2 * 2 * (1 + 2 * 3 * 2) and sum(cell["kind"] == "as it is" for cell in plan) == 2 * 2
    assert {cell["data"] for cell in plan} == set(kitti_loops.DATA)


def test_a_scan_that_is_left_out_has_no_say_in_its_beliefs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of made-up losses: the others choose, whatever the scan itself would like; and the solve is by what they chose."""
    (tmp_path / "threedmatch").mkdir()
    monkeypatch.setenv("TEMPOSE_DATA", str(tmp_path))
    plan = scenes_left_out.cells(RunOptions())
    assert len(plan) == 7 * (1 + len(scenes.TRUST) + 1)
    assert all(len(cell["others"]) == 6 and cell["data"] not in cell["others"] for cell in plan)
    wishes = {"hotel1": 3, "hotel_uc": 5}
    solved: list[Beliefs] = []

    def lost(name: str, seed: int) -> np.ndarray:
        return np.where(
            np.arange(len(scenes_left_out.GRID)) == wishes.get(name, 5), 0.0, 10.0 if name in wishes else 1.0
        )

    def solve_now(cell: dict[str, Any]) -> list[dict[str, Any]]:
        solved.append(current_beliefs())
        return [{"status": "finished"}]

    monkeypatch.setattr(scenes_left_out, "squared_errors", lost)
    monkeypatch.setattr(scenes, "run", solve_now)
    one = next(cell for cell in plan if cell["data"] == "hotel1")
    (row,) = scenes_left_out.run(one)
    assert solved == [scenes_left_out.GRID[5]] and row["misfit"] == scenes_left_out.GRID[5].misfit
    wishes["home_at"] = 3  # the negative control: who is not left out is heard
    wishes["hotel_uc"] = 3
    scenes_left_out.run(one)
    assert solved[-1] == scenes_left_out.GRID[3] and current_beliefs() == Beliefs()


@pytest.mark.usefixtures("data")
def test_a_real_scan_beside_its_chain() -> None:
    cell = {"data": "hotel_uc", "seed": 0, "trust": None}
    (chain,), (oracle,) = (scenes.run({**cell, "method": name}) for name in ("chain", "oracle"))
    assert chain["n_compared"] == oracle["n_compared"] and oracle["mean_rotation_deg"] < chain["mean_rotation_deg"]


@pytest.mark.usefixtures("data")
def test_loops_of_the_car_are_replaced() -> None:
    for kind in ("independent", "lookalikes"):
        bad = kitti_loops.make({"data": "kitti_00", "nodes": 4541, "kind": kind, "share": 0.3, "seed": 0})
        assert bad.is_wrong.sum() == 41 and not np.any(bad.is_wrong & is_odometry(bad.graph))
    plain = kitti_loops.make({"data": "kitti_00", "nodes": kitti_loops.QUICK_NODES, "kind": "as it is"})
    assert not plain.is_wrong.any() and np.sum(~is_odometry(plain.graph)) > 5
