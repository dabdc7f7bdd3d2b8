"""Planar graphs, landmarks and the world against their truth: what is written, read back and compared."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tempose.cli import main
from tempose.io import read_poses, write_poses
from tempose.io.files import read_vertices
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
