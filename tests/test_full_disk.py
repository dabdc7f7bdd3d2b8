"""A disk without room: nothing is torn, one line says how much is needed, and the same command goes on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose._support.files import append_durably, bytes_text, cannot_write, write_atomically
from tempose.cli import main
from tempose.errors import FileError
from tempose.io import write_graph
from tempose.studies.store import Store

resource = pytest.importorskip("resource", reason="limits on the size of files are not known here")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Within, no file of this process grows beyond so many bytes; what does not fit fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files(home: Path) -> dict[str, bytes]:
    kept = (
        "poses.csv",
        "graph.csv",
        "edges.csv",
        "trace.npy",
        "chain-00.f64",
        "chain-01.energy.f64",
        "chain-01.cost.f64",
    )
    return {path.name: path.read_bytes() for path in home.rglob("*") if path.name in kept}


def test_a_solve_goes_on_after_any_lack_of_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_graph(tmp_path / "g.csv", tempose.simulate(6, seed=1).graph)

    def solve(name: str) -> list[str]:
        return [
            "solve",
            str(tmp_path / "g.csv"),
            "-o",
            str(tmp_path / name),
            "--draws",
            "400",
            "--chains",
            "2",
            "--quiet",
        ]

    assert main(solve("whole")) == 0
    largest = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*") if path.is_file())
    rng, refused = np.random.default_rng(0), 0
    for size in np.exp(rng.uniform(np.log(50), np.log(2 * largest), 12)).astype(int).tolist():
        capsys.readouterr()
        with files_of_at_most(size):
            code = main(solve("full"))
        (line,) = capsys.readouterr().err.splitlines() or [""]
        if code:
            refused += 1
            assert "larger than this process may write" in line and "the same command goes on from here" in line
        page = tmp_path / "full" / "report.html"
        assert not page.exists() or page.read_text().rstrip().endswith("</html>")
        assert not list((tmp_path / "full").rglob("*.tmp"))
        if (tmp_path / "full" / "result.json").exists():
            tempose.Solution.load(tmp_path / "full")
    assert refused >= 5
    assert main(solve("full")) == 0
    assert files(tmp_path / "full") == files(tmp_path / "whole")


def test_an_old_report_survives(tmp_path: Path) -> None:
    write_graph(tmp_path / "g.csv", tempose.simulate(6, seed=1).graph)
    solve = ["solve", str(tmp_path / "g.csv"), "-o", str(tmp_path / "out"), "--draws", "0", "--quiet"]
    assert main(solve) == 0
    before = (tmp_path / "out" / "report.html").read_bytes()
    with files_of_at_most(20_000):
        assert main(solve) == 1
    assert (tmp_path / "out" / "report.html").read_bytes() == before


def test_how_much_room_is_needed(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    said = str(cannot_write(tmp_path / "a", full, 2_345_678))
    assert "the disk is full: 2.35 MB are needed, " in said and " are free; make room, and the same command" in said
    assert "quota" in str(cannot_write(tmp_path / "a", OSError(errno.EDQUOT, "x"), 1))
    assert str(cannot_write(tmp_path / "a", OSError(errno.EACCES, "Permission denied"), 1)).endswith(
        "Permission denied"
    )
    assert [bytes_text(n) for n in (0, 999, 1000, 1.5e9, 2e13)] == ["0 bytes", "999 bytes", "1 kB", "1.5 GB", "20 TB"]


def test_what_is_appended_is_there_or_not(tmp_path: Path) -> None:
    store = Store(tmp_path, "x", {"seed": 0})
    store.add({"seed": 1}, [{"value": 1.0}])
    before = (tmp_path / "cells.jsonl").read_bytes()
    with files_of_at_most(len(before) + 20), pytest.raises(FileError, match="the same command goes on"):
        store.add({"seed": 2}, [{"value": 2.0}])
    assert (tmp_path / "cells.jsonl").read_bytes() == before
    store.add({"seed": 2}, [{"value": 2.0}])
    assert len(Store(tmp_path, "x", {"seed": 0}).finished) == 2
    with open(tmp_path / "a", "ab", buffering=0) as file:
        append_durably(file, b"1" * 10, tmp_path / "a")
        with files_of_at_most(15), pytest.raises(FileError):
            append_durably(file, b"2" * 10, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"1" * 10


def test_a_file_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"old")
    with files_of_at_most(100), pytest.raises(FileError, match="a file of 1 kB is larger"):
        write_atomically(tmp_path / "a", b"x" * 1000)
    assert (tmp_path / "a").read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1
