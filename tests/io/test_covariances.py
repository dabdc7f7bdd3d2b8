"""Covariances as tables and arrays."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.cli import main
from tempose.errors import FileError, ParseError
from tempose.io import read_covariances, write_covariances
from tempose.model.conventions import CONVENTIONS


@pytest.fixture(scope="module", params=[False, True], ids=["space", "plane"])
def solved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tempose.Solution]:
    home = tmp_path_factory.mktemp("result")
    made = tempose.simulate(8, shape="trajectory", planar=request.param, landmarks=2, seed=3)
    solution = tempose.solve(made.graph, draws=0)
    return solution.save(home / "out"), solution


def rows_of(path: Path) -> list[dict[str, str]]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_files_hold_what_the_solution_says(
    solved: tuple[Path, tempose.Solution], tmp_path: Path, convention: str
) -> None:
    home, solution = solved
    if solution.graph.is_planar and convention == "colmap":
        assert main(["export", str(home), str(tmp_path / "a.csv"), "--convention", "colmap"]) == 2
        return
    for name in ("a.csv", "a.npz"):
        assert main(["export", str(home), str(tmp_path / name), "--convention", convention, "--quiet"]) == 0
    table, again = solution.covariances(convention), read_covariances(tmp_path / "a.npz")
    assert again.names == table.names and again.axes == table.axes and again.gauge == table.gauge
    np.testing.assert_allclose(again.covariance, table.covariance, rtol=1e-9, atol=1e-15)
    rows = rows_of(tmp_path / "a.csv")
    assert [row["id"] for row in rows] == [str(name) for (name,) in table.names]
    d = len(table.axes)
    for row, sigma in zip(rows, again.covariance, strict=True):
        for a in range(d):
            for b in range(a, d):
                cell = row[f"cov_{table.axes[a]}_{table.axes[b]}"]
                assert cell == "" if np.isnan(sigma[a, b]) else float(cell) == sigma[a, b]
    assert f"# convention {convention}: " in (tmp_path / "a.csv").read_text()
    landmark = [k for k, (name,) in enumerate(table.names) if name in solution.graph.landmarks]
    assert np.isnan(table.covariance[landmark]).any() and np.isnan(table.wxyz[landmark]).all()


def test_pairs_are_relative_poses(solved: tuple[Path, tempose.Solution], tmp_path: Path) -> None:
    home, solution = solved
    assert main(["export", str(home), str(tmp_path / "p.csv"), "--pairs", "0:5,3:1", "--quiet"]) == 0
    rows = rows_of(tmp_path / "p.csv")
    assert [(row["a"], row["b"]) for row in rows] == [("0", "5"), ("3", "1")]
    found = solution.relative(3, 1)
    np.testing.assert_allclose(float(rows[1]["x"]), found.mean[1][0], rtol=1e-9)
    np.testing.assert_allclose(float(rows[1]["cov_x_x"]), found.covariance[3, 3], rtol=1e-7)
    assert main(["export", str(home), str(tmp_path / "p.csv"), "--pairs", "0-5"]) == 2
    assert main(["export", str(home), str(tmp_path / "p.csv"), "--pairs", "0:99"]) == 1


def test_no_other_files(solved: tuple[Path, tempose.Solution], tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"\.csv or \.npz"):
        write_covariances(tmp_path / "a.txt", solved[1].covariances())
    for data in (b"", b"PK", b"\x93NUMPY"):
        (tmp_path / "a.npz").write_bytes(data)
        with pytest.raises(ParseError, match=r"no \.npz file of covariances"):
            read_covariances(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=1)
    with pytest.raises(ParseError, match="there is no array"):
        read_covariances(tmp_path / "b.npz")
    with pytest.raises(ParseError, match="no such file"):
        read_covariances(tmp_path / "c.npz")
