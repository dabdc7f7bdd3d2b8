"""Too little memory is said in one line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tempose
from tempose._support.memory import OUT_OF_MEMORY, is_lack_of_memory
from tempose.cli import main
from tempose.io import write_graph

resource = pytest.importorskip("resource", reason="limits on memory are not known here")


@pytest.mark.parametrize("size", [300_000_000, 560_000_000])  # where imports failed, and where BLAS waited for ever
def test_less_than_the_libraries_take(size: int, tmp_path: Path) -> None:
    write_graph(tmp_path / "g.csv", tempose.simulate(6, seed=1).graph)
    command = [sys.executable, "-m", "tempose", "solve", str(tmp_path / "g.csv"), "-o", str(tmp_path / "out")]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )  # fmt: skip
    assert run.returncode == 1
    (line,) = run.stderr.splitlines()
    assert f"{size // 10**6} MB of memory are allowed (ulimit -v)" in line and "the same command goes on" in line


def test_how_libraries_say_it() -> None:
    from_library = ImportError("x.so: failed to map segment from shared object")
    for error in (MemoryError(), OSError(errno.ENOMEM, "x"), from_library, RuntimeError("can't start new thread")):
        assert is_lack_of_memory(error)
    wrapped = OSError("Could not find/load shared object file 'libllvmlite.so'")
    assert is_lack_of_memory(wrapped)
    for error in (ImportError("No module named x"), OSError(errno.ENOENT, "x"), RuntimeError("x"), ValueError("x")):
        assert not is_lack_of_memory(error)


def test_draws_are_kept_when_memory_runs_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tempose.analysis.analysis import Analysis

    write_graph(tmp_path / "g.csv", tempose.simulate(6, seed=1).graph)
    solve = ["solve", str(tmp_path / "g.csv"), "--draws", "40", "--quiet", "-o"]

    def no_room(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Analysis, "complete", no_room)
        assert main([*solve, str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == f"tempose: {OUT_OF_MEMORY}\n"
    assert tempose.read_draws(tmp_path / "out" / "draws").n_draws == 40
    before = (tmp_path / "out" / "draws" / "chain-00.f64").read_bytes()
    assert main([*solve, str(tmp_path / "out")]) == 0
    assert main([*solve, str(tmp_path / "whole")]) == 0
    assert (tmp_path / "out" / "draws" / "chain-00.f64").read_bytes() == before
    assert (tmp_path / "out" / "poses.csv").read_bytes() == (tmp_path / "whole" / "poses.csv").read_bytes()
