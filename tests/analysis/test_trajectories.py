"""Matching by time, offsets between clocks, and errors that agree with evo's to the digits it prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.trajectories import START, pair, write_tum
from tempose.analysis.accuracy import pose_errors
from tempose.analysis.trajectories import find_offset, match, match_times, pairs_apart
from tempose.cli import main
from tempose.errors import ArgumentError, GraphError, OptionError
from tempose.io import read_poses, write_poses
from tempose.model.poses import Poses

# evo 1.38.1: evo_ape, evo_rpe tum truth.tum est.tum --t_max_diff 0.02 OPTIONS -r trans_part | angle_deg
# rmse, mean, median, std, min, max, sse
EVO = {
    ("ape_translation", ""): "4.976609 4.692038 4.421005 1.658737 2.318887 7.526309 4457.993977",
    ("ape_rotation_deg", ""): "70.114479 70.106632 70.167413 1.048974 67.378479 72.862800 884887.223002",
    ("ape_translation", "-a"): "0.138186 0.130363 0.136877 0.045835 0.020291 0.227683 3.437159",
    ("ape_rotation_deg", "-a"): "1.896153 1.749430 1.743150 0.731363 0.257681 4.435662 647.171434",
    ("ape_translation", "-as"): "0.051924 0.047668 0.045766 0.020586 0.006861 0.106426 0.485290",
    ("ape_rotation_deg", "-as"): "1.896153 1.749430 1.743150 0.731363 0.257681 4.435662 647.171434",
    ("rpe_translation", "-d 1"): "0.070013 0.064778 0.060426 0.026563 0.010045 0.136859 0.877435",
    ("rpe_rotation_deg", "-d 1"): "2.720799 2.523544 2.377844 1.017090 0.406968 5.281992 1325.091567",
    ("rpe_translation", "-d 5 --all_pairs"): "0.083278 0.077259 0.074468 0.031086 0.014422 0.182309 1.213672",
    ("rpe_rotation_deg", "-d 5 --all_pairs"): "2.656175 2.441549 2.397010 1.045994 0.152024 5.559624 1234.671637",
    ("rpe_translation", "-d 5"): "0.079779 0.074667 0.074468 0.028101 0.014422 0.146251 0.222766",
    ("rpe_rotation_deg", "-d 5"): "2.460630 2.288029 2.393417 0.905329 0.231240 4.478786 211.914456",
    ("rpe_translation", "-d 2 -u m"): "0.149268 0.135411 0.119983 0.062806 0.050503 0.249253 0.289651",
    ("rpe_rotation_deg", "-d 2 -u m"): "2.639825 2.493322 2.255916 0.867193 1.359784 4.310670 90.592790",
    ("rpe_translation", "-d 2 -u m --all_pairs"): "0.123101 0.114401 0.109733 0.045454 0.030310 0.256650 2.591293",
    ("rpe_rotation_deg", "-d 2 -u m --all_pairs"): "2.707197 2.538493 2.449363 0.940726 0.379167 5.306016 1253.244295",
    ("rpe_translation", "-d 30 -u d"): "0.118425 0.108609 0.088329 0.047208 0.051572 0.209300 0.266465",
    ("rpe_rotation_deg", "-d 30 -u d"): "2.658074 2.510653 2.486679 0.872912 0.536458 4.414873 134.241747",
}
ALIGNMENT = {"": "none", "-a": "positions-se3", "-as": "positions-sim3"}
PAIRS = {
    "-d 1": {},
    "-d 5 --all_pairs": {"delta": 5.0, "all_pairs": True},
    "-d 5": {"delta": 5.0},
    "-d 2 -u m": {"delta": 2.0, "delta_unit": "length"},
    "-d 2 -u m --all_pairs": {"delta": 2.0, "delta_unit": "length", "all_pairs": True},
    "-d 30 -u d": {"delta": 30.0, "delta_unit": "degrees"},
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    estimate, _, truth, _ = pair()
    write_tum(tmp_path / "est.tum", estimate)
    write_tum(tmp_path / "truth.tum", truth)
    return tmp_path / "est.tum", tmp_path / "truth.tum"


@pytest.mark.parametrize(("what", "options"), EVO)
def test_errors_are_those_that_evo_prints(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str], what: str, options: str
) -> None:
    more = ["--alignment", ALIGNMENT.get(options, "none")]
    for name, value in PAIRS.get(options, {}).items():
        more += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    assert main(["eval", *map(str, files), "--max-difference", "0.02", *more, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    told = [f"{found['statistics'][what][name]:.6f}" for name in ("rmse", "mean", "median", "std", "min", "max", "sse")]
    assert told == EVO[what, options].split()


def test_another_alignment_gives_other_numbers(files: tuple[Path, Path]) -> None:
    """Negative control: the rotation from the orientations is not evo's -a."""
    estimate, times, truth, true_times = pair()
    found = match(estimate, times, truth, true_times, 0.02)
    errors = pose_errors(found.estimate, found.truth, "se3")
    assert f"{errors.ate_rmse:.6f}" != EVO["ape_translation", "-a"].split()[0]


def test_evo_itself_says_the_same(files: tuple[Path, Path]) -> None:
    pytest.importorskip("evo")
    from evo.core import metrics, sync
    from evo.tools import file_interface

    truth, estimate = (file_interface.read_tum_trajectory_file(str(path)) for path in reversed(files))
    truth, estimate = sync.associate_trajectories(truth, estimate, max_diff=0.02)
    ape = metrics.APE(metrics.PoseRelation.translation_part)
    ape.process_data((truth, estimate))
    a, b = (read_poses(path) for path in files)
    stamps = [np.array([float(name) for name in poses.ids]) for poses in (a, b)]
    found = match(a, stamps[0], b, stamps[1], 0.02)
    ours = pose_errors(found.estimate, found.truth, "none").statistics["ape_translation"]
    theirs = ape.get_all_statistics()
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-9)


# ---------------------------------------------------------------------- matching


def test_each_time_goes_with_the_nearest() -> None:
    few, many = np.array([0.0, 1.04, 2.5, 9.0]), np.array([2.9, 0.02, 1.0, 2.1])
    rows, other = match_times(few, many, 0.05)
    assert rows.tolist() == [0, 1] and other.tolist() == [1, 2]
    rows, other = match_times(few, many, 0.4 + 1e-9)
    assert rows.tolist() == [0, 1, 2] and other.tolist() == [1, 2, 3]  # both neighbours at 0.4: the earlier one


def test_the_shorter_trajectory_loses_no_pose_whichever_it_is() -> None:
    estimate, times, truth, true_times = pair()
    one, other = match(estimate, times, truth, true_times, 0.05), match(truth, true_times, estimate, times, 0.05)
    assert len(one.estimate) == len(other.truth) == len(estimate)
    np.testing.assert_array_equal(one.truth.position, other.estimate.position)
    assert one.estimate.ids == one.truth.ids == estimate.ids


def test_nothing_to_match_says_when_both_are() -> None:
    estimate, times, truth, true_times = pair()
    with pytest.raises(GraphError, match="no two poses are within 0.02 s.*estimate is from 1403637579.*--time-offset"):
        match(estimate, times + 1000.0, truth, true_times, 0.02)
    with pytest.raises(OptionError, match="not negative"):
        match(estimate, times, truth, true_times, -1.0)


@pytest.mark.parametrize("clock", [0.137, -2.3, 0.0])
def test_an_offset_between_clocks_is_found(clock: float) -> None:
    estimate, times, truth, true_times = pair(clock=clock)
    found = find_offset(estimate, times, truth, true_times, with_scale=True)
    assert abs(found - clock) < 0.005  # 0.03 of noise at a speed of 2


def test_a_straight_line_does_not_tell_the_offset() -> None:
    """Negative control."""
    t = np.arange(100) * 0.1
    wxyz = np.tile([1.0, 0.0, 0.0, 0.0], (100, 1))
    line = Poses(tuple(range(100)), wxyz, np.column_stack([t, 2 * t, 0 * t]))
    with pytest.raises(ArgumentError, match="positions do not tell the offset"):
        find_offset(line, t, line, t, within=2.0)


def test_pairs_are_refused_in_a_line() -> None:
    truth = pair()[2]
    for wrong in ({"delta": 0.0}, {"delta": 1.5}, {"unit": "miles"}, {"unit": "degrees", "all_pairs": True}):
        with pytest.raises(OptionError):
            pairs_apart(truth, **wrong)
    first, second = pairs_apart(truth, 7.0)
    assert (second - first == 7).all() and (first[1:] == second[:-1]).all()
    assert len(pairs_apart(truth, 1e9, "length")[0]) == 0


# ---------------------------------------------------------------------- graphs with ids against stamps


def test_a_graph_with_ids_is_compared_through_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimate, times, truth, _ = pair(clock=0.2)
    solved = replace(estimate, ids=tuple(range(100, 100 + len(estimate))))
    write_poses(tmp_path / "solved.csv", solved)
    write_tum(tmp_path / "truth.tum", truth)
    lines = [f"{name},{t!r}" for name, t in zip(solved.ids, times.tolist(), strict=True)]
    (tmp_path / "times.csv").write_text("\n".join(["id,time", *lines[:150]]) + "\n")
    given = ["eval", str(tmp_path / "solved.csv"), str(tmp_path / "truth.tum"), "--times", str(tmp_path / "times.csv")]
    assert (
        main([*given, "--max-difference", "0.03", "--time-offset", "0.2", "--alignment", "positions-sim3", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["n_nodes"] == 150 and found["ate_rmse"] < 0.06
    assert found["matched_by_time"]["time_offset"] == 0.2
    assert main([*given[:3], "--max-difference", "0.03"]) == 2
    assert "give a table of ids and times with --times" in capsys.readouterr().err
    assert main([*given, "--time-offset", "soon"]) == 2
    assert "expected seconds, or auto" in capsys.readouterr().err


def test_kitti_with_its_times_against_euroc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimate, times, truth, true_times = pair()
    write_poses(tmp_path / "e.kitti", replace(estimate, ids=tuple(range(len(estimate)))))
    (tmp_path / "times.txt").write_text("".join(f"{t!r}\n" for t in times.tolist()))
    stamps = tuple(round(t * 1e6) * 1000 for t in true_times)
    write_poses(tmp_path / "data.csv", replace(truth, ids=stamps), format="euroc")
    files = [str(tmp_path / "e.kitti"), str(tmp_path / "data.csv"), "--times", str(tmp_path / "times.txt")]
    assert main(["eval", *files, "--max-difference", "0.02", "--alignment", "positions-se3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["statistics"]["ape_translation"]
    assert f"{found['rmse']:.5f}" == "0.13819"  # evo's, of files with nine digits
    assert min(times) > START
