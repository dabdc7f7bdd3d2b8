"""Planar graphs, landmarks and the world against their truth: what is written, read back and compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempose.cli import main
from tempose.io.files import read_vertices
from tempose.simulation import simulate


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
