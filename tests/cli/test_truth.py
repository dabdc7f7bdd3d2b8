"""Planar graphs, landmarks and the world against their truth: what is written, read back and compared."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tempose.analysis.accuracy import graph_consistency, pose_errors
from tempose.cli import main
from tempose.errors import ArgumentError
from tempose.geometry import Similarity
from tempose.geometry import quaternion as quat
from tempose.io import read_poses, write_poses
from tempose.io.files import read_vertices
from tempose.model.graph import WORLD
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.simulation import simulate
from tempose.solution import Solution


@pytest.mark.parametrize("planar", [True, False])
def test_the_truth_is_as_planar_as_its_graph_and_landmarks_are_landmarks(tmp_path: Path, planar: bool) -> None:
    more = ["--shape", "trajectory", "--landmarks", "3", *(["--planar"] if planar else [])]
    assert main(["simulate", "--nodes", "12", *more, "--seed", "2", "-o", str(tmp_path / "g.g2o"), "--quiet"]) == 0
    tags = {line.split()[0] for line in (tmp_path / "g.truth.g2o").read_text().splitlines()}
    assert tags == ({"VERTEX_SE2", "VERTEX_XY"} if planar else {"VERTEX_SE3:QUAT", "VERTEX_TRACKXYZ"})
    made = simulate(12, shape="trajectory", planar=planar, landmarks=3, seed=2)
    poses, is_planar, landmarks = read_vertices(tmp_path / "g.truth.g2o")
    assert is_planar == planar and landmarks == made.graph.landmarks and poses.ids == made.truth.ids
    np.testing.assert_allclose(poses.position, made.truth.position, atol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(poses.wxyz * made.truth.wxyz, axis=1)), 1.0, atol=1e-12)


@pytest.fixture(scope="module", params=[True, False], ids=["plane", "space"])
def outdoors(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A solved graph with landmarks and fixes, its truth beside it."""
    home = tmp_path_factory.mktemp("outdoors")
    more = ["--shape", "trajectory", "--landmarks", "3", "--gps-nodes", "6", *(["--planar"] if request.param else [])]
    assert main(["simulate", "--nodes", "15", *more, "--seed", "4", "-o", str(home / "g.g2o"), "--quiet"]) == 0
    given = ["-o", str(home / "out"), "--draws", "40", "--no-report", "--truth", str(home / "g.truth.g2o")]
    assert main(["solve", str(home / "g.g2o"), *given, "--quiet"]) == 0
    return home


def test_landmarks_have_no_orientation_in_tables(outdoors: Path, tmp_path: Path) -> None:
    solution = Solution.load(outdoors / "out")
    points = set(map(str, solution.graph.landmarks))
    turning = ("qw", "qx", "qy", "qz", "theta_deg")
    with open(outdoors / "out" / "poses.csv", newline="") as file:
        for row in csv.DictReader(file):
            turns = [row[name] for name in row if name in turning or "sigma_r" in name]
            assert len(turns) > 5 and all((cell == "") == (row["id"] in points) for cell in turns)
            assert float(row["sigma_pos"]) > 0 and float(row["x"]) < 1e9
    poses, _, landmarks = read_vertices(outdoors / "out" / "poses.csv")
    assert landmarks == solution.graph.landmarks and poses.ids == solution.poses.ids
    np.testing.assert_array_equal(poses.position, solution.poses.position)
    write_poses(tmp_path / "a.csv", poses, landmarks=landmarks)
    again = read_vertices(tmp_path / "a.csv")
    assert again[2] == landmarks and np.array_equal(again[0].wxyz, read_poses(tmp_path / "a.csv").wxyz)


def test_a_result_in_the_world_is_compared_with_and_without_alignment(
    outdoors: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, truth = str(outdoors / "out"), str(outdoors / "g.truth.g2o")
    capsys.readouterr()
    assert main(["eval", out, truth, "--json"]) == 0
    aligned = json.loads(capsys.readouterr().out)
    assert main(["eval", out, truth, "--json", "--alignment", "none"]) == 0
    plain = json.loads(capsys.readouterr().out)
    found, true = Solution.load(outdoors / "out"), read_poses(truth)
    there = true.select(found.poses.ids)
    distance = np.linalg.norm(found.poses.position - there.position, axis=1)
    turned = [name not in found.graph.landmarks for name in there.ids]
    angle = np.degrees(quat.angle_between(found.poses.wxyz, there.wxyz))[turned]
    assert plain["mean_translation"] == pytest.approx(distance.mean(), rel=1e-9)
    assert plain["mean_rotation_deg"] == pytest.approx(angle.mean(), rel=1e-9)
    assert aligned["without_alignment"]["mean_rotation_deg"] == plain["mean_rotation_deg"]
    assert "without_alignment" not in plain and aligned["n_nodes"] == 18
    assert aligned["ate_rmse"] != plain["ate_rmse"]
    assert aligned["graph_consistency"] == pytest.approx(graph_consistency(found.graph, found.estimate), abs=1e-9)
    assert main(["eval", out, truth]) == 0
    assert "without alignment" in capsys.readouterr().out
    assert main(["eval", str(outdoors / "out" / "poses.g2o"), truth, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean_rotation_deg"] == pytest.approx(aligned["mean_rotation_deg"])


def test_a_result_of_a_graph_that_floats_is_aligned_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, out = str(tmp_path / "g.g2o"), str(tmp_path / "out")
    assert main(["simulate", "--nodes", "8", "-o", graph, "--quiet"]) == 0
    given = ["--draws", "0", "--no-report", "--truth", str(tmp_path / "g.truth.g2o")]
    capsys.readouterr()
    assert main(["solve", graph, "-o", out, *given]) == 0
    said = capsys.readouterr().out
    assert "(SE(3) alignment)" in said and "no alignment" not in said
    assert main(["eval", out, str(tmp_path / "g.truth.g2o"), "--json"]) == 0
    assert "without_alignment" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("robust", [True, False])
def test_orientations_of_landmarks_count_for_nothing(robust: bool) -> None:
    """Moved as a whole, all poses fit again; landmarks, whose orientation stays the identity, must not drag the rotation."""
    truth = simulate(10, landmarks=6, seed=1).truth
    points = truth.ids[10:]
    moved = truth.moved(Similarity(quat.exp([0.5, -1.0, 2.0]), np.array([3.0, 2.0, 1.0])))
    wxyz = np.array(moved.wxyz)
    wxyz[10:] = quat.IDENTITY
    estimate = Poses(truth.ids, wxyz, moved.position)
    errors = pose_errors(estimate, truth, robust=robust, landmarks=points)
    assert errors.max_rotation_deg < 1e-5 and errors.max_translation < 1e-8 and errors.n_nodes == 16
    assert errors.rpe_rotation_deg < 1e-5 and errors.rpe_translation < 1e-8
    assert pose_errors(estimate, truth, robust=robust).max_rotation_deg > 10.0  # as if they had one
    here = np.array(estimate.position)
    here[12] += [0.0, 0.0, 1.0]
    assert pose_errors(Poses(truth.ids, wxyz, here), truth, landmarks=points).max_translation > 0.5
    only = truth.select(points)
    with pytest.raises(ArgumentError, match="positions-se3"):
        pose_errors(only, only, landmarks=points)
    assert np.isnan(pose_errors(only, only, "positions-se3", landmarks=points).mean_rotation_deg)


def test_residuals_do_not_need_the_world() -> None:
    made = simulate(6, gps=3, seed=1)
    assert made.graph.world is not None and WORLD not in made.truth
    whole = made.truth.with_identity(WORLD)
    ours, theirs = (residuals(made.graph, poses) for poses in (made.truth, whole))
    assert np.array_equal(ours.unexplained, theirs.unexplained) and np.array_equal(ours.angle, theirs.angle)
    assert graph_consistency(made.graph, made.truth) == graph_consistency(made.graph, whole)
