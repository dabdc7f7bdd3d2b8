"""The experiments on real data: what they measure, and on the data themselves numbers that others have found, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tempose.analysis.accuracy import pose_errors
from tempose.errors import NotApplicable, TemposeError
from tempose.geometry import quaternion as quat
from tempose.methods import METHODS, Estimate
from tempose.model.poses import Poses
from tempose.simulation import corrupt, simulate
from tempose.studies import real_data as real
from tempose.studies import runner
from tempose.studies.experiment import RunOptions, load
from tempose.studies.experiments import epfl_rotations as epfl
from tempose.studies.experiments import madrid, threedmatch

NAMES = {"epfl-rotations": "epfl_rotations", "threedmatch": "threedmatch", "madrid": "madrid"}


@pytest.mark.parametrize("name", NAMES)
def test_plans(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPOSE_DATA", str(tmp_path))
    with pytest.raises(TemposeError, match=f"needs the data set {NAMES[name]}, which is not in"):
        load(name).cells(RunOptions())
    (tmp_path / NAMES[name]).mkdir()
    for quick in (False, True):
        cells = load(name).cells(RunOptions(quick=quick))
        assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells)
        assert {cell["method"] for cell in cells} > set(METHODS)
        assert [json.loads(json.dumps(cell)) for cell in cells] == cells
    chosen = load(name).cells(RunOptions(methods=("irls",)))
    assert {cell["method"] for cell in chosen} == {"irls"}
    monkeypatch.delenv("TEMPOSE_DATA")
    with pytest.raises(TemposeError, match="set TEMPOSE_DATA to the folder"):
        load(name).cells(RunOptions())


def test_both_alignments_are_measured() -> None:
    """One of nine nodes is off by 60°: in the L1 sense the others fit, in least squares all bear a part of it."""
    made = simulate(9, completeness=1.0, seed=1)
    wxyz = made.truth.wxyz.copy()
    wxyz[4] = quat.multiply(quat.exp([np.pi / 3.0, 0.0, 0.0]), wxyz[4])
    poses = Poses(made.truth.ids, wxyz, made.truth.position)
    row = real.measure(lambda graph, truth: Estimate(poses, "made up", seconds=3.0), made.graph, made.truth, timed=True)
    assert row["mean_rotation_deg"] == pytest.approx(60.0 / 9.0, abs=1e-5)
    assert row["median_rotation_deg"] == pytest.approx(0.0, abs=1e-5)
    assert row["median_rotation_deg_l2"] > 4.0
    assert (row["seconds"], row["status"], row["n_compared"]) == (3.0, "made up", 9)
    assert row["mean_translation"] == pytest.approx(0.0, abs=1e-9)


def test_a_method_that_does_not_apply_is_left_out_with_its_reason() -> None:
    def refuse(graph: Any, truth: Any) -> Estimate:
        raise NotApplicable("too many nodes")

    made = simulate(5)
    assert real.measure(refuse, made.graph, made.truth) == {"status": "left out", "message": "too many nodes"}


def test_the_oracle_uses_the_right_edges_and_no_others() -> None:
    made = simulate(15, completeness=0.8, sigma_rot_deg=1.0, sigma_trans=0.02, seed=2)
    wrong = corrupt(made.graph, 0.4, seed=1)
    expected = METHODS["tempose"][0](wrong.graph.with_edges(~wrong.is_wrong)).poses
    found = real.oracle(15.0, 0.2)(wrong.graph, made.truth).poses
    assert pose_errors(found, expected).max_rotation_deg < 1e-4
    unfair = real.oracle(180.0, 10.0)(wrong.graph, made.truth).poses
    assert pose_errors(unfair, expected).mean_rotation_deg > 5.0


def test_the_papers_table_is_beside_ours() -> None:
    rows = [{"data": "CastleP30", "method": m, "seed": 0, "mean_rotation_deg": 1.0} for m in ("r-godec", "colmap")]
    first, second = epfl.table(rows)
    assert (first["paper_deg"], first["paper_best_deg"], first["paper_tg_mcmc_deg"]) == (0.780, 0.530, 0.622)
    assert second["paper_deg"] is None
    average = {m: np.mean([epfl.PAPER[s][m] for s in epfl.PAPER]) for m in epfl.PAPER["EntryP10"]}
    for name, printed in {"ozyesil": 1.075, "r-godec": 0.498, "govindu": 0.230, "tg-mcmc": 0.227}.items():
        assert average[name] == pytest.approx(printed, abs=6e-4)  # the paper's last row: nothing was copied wrongly


# ---------------------------------------------------------------------- the data themselves


def measured(module: Any, name: str, method: str, *more: Any) -> dict[str, Any]:
    cell = {"data": name, "seed": 0, "method": method, "nodes": None}
    return module.run(cell)[0]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("eig-se3", (0.043, 0.138, 0.024, 0.52, 1.19, 0.85)),
        ("irls", (0.043, 0.068, 0.024, 0.29, 0.99, 0.75)),
        ("irls-half", (0.029, 0.060, 0.022, 0.031, 0.73, 0.56)),
    ],
)
def test_epfl_errors_are_those_others_have_found(data: Path, method: str, expected: tuple[float, ...]) -> None:
    """Spectral, COLMAP's loss and √|e| by other implementations, after least-squares alignment."""
    for scene, value in zip(epfl.PAPER, expected, strict=True):
        assert measured(epfl, scene, method)["mean_rotation_deg_l2"] == pytest.approx(value, rel=0.12), scene


def test_madrid_errors_are_those_others_have_found(data: Path) -> None:
    spectral, oracle = (measured(madrid, "Madrid", name) for name in ("eig-se3", "oracle"))
    assert (spectral["mean_rotation_deg"], spectral["median_rotation_deg"]) == pytest.approx((11.5, 5.7), rel=0.01)
    assert (oracle["mean_rotation_deg"], oracle["median_rotation_deg"]) == pytest.approx((0.66, 0.59), rel=0.03)
    assert spectral["n_compared"] == 176
    averaged = measured(madrid, "Madrid", "irls-half")
    assert averaged["mean_rotation_deg"] < 5.6
    assert averaged["median_rotation_deg"] < 1.05


@pytest.mark.parametrize(("scene", "degrees"), [("redkitchen", 1.5), ("hotel_uc", 2.6), ("home_at", 2.7)])
def test_threedmatch_oracle(data: Path, scene: str, degrees: float) -> None:
    assert measured(threedmatch, scene, "oracle")["mean_rotation_deg"] == pytest.approx(degrees, abs=0.25)


def test_quick_run_writes_table_and_figure(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    # cells run here, without the cost of other processes
    monkeypatch.setattr(runner, "work_off", lambda run, cells, jobs, executor: ((cell, run(cell)) for cell in cells))
    options = RunOptions(quick=True, methods=("chordal", "ozyesil"))
    for name in NAMES:
        outcome = runner.run_experiment(name, tmp_path / name, options)
        assert (tmp_path / name / "figure.png").stat().st_size > 5000
        rows = {row["method"]: row for row in outcome.result.table}
        assert rows["chordal"]["mean_rotation_deg"] > 0.0
        assert (rows["ozyesil"]["mean_rotation_deg"] is None) == (name != "threedmatch")
