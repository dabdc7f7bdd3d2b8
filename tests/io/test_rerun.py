"""Recordings for rerun."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.cli import main
from tempose.geometry import quaternion as quat
from tempose.io.rerun import _ellipsoids


def test_ellipsoids_hold_95_percent() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(3, 3))
    half, wxyz = _ellipsoids((root @ root.T)[None])
    points = rng.normal(size=(20000, 3)) @ root.T
    inside = np.sum((points @ quat.to_matrix(wxyz[0]) / half[0]) ** 2, axis=1) < 1.0
    assert abs(np.mean(inside) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 20000)


def test_a_solve_becomes_a_recording(tmp_path: Path) -> None:
    pytest.importorskip("rerun")
    tempose.solve(tempose.simulate(6, seed=1).graph, draws=0).save(tmp_path / "r")
    assert main(["export", str(tmp_path / "r"), str(tmp_path / "r.rrd"), "--quiet"]) == 0
    data = (tmp_path / "r.rrd").read_bytes()
    assert data[:3] == b"RRF" and b"ellipsoids" in data and b"positions" in data
