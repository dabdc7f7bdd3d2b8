"""One run at a time in a directory; a lock goes with the process that holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import tempose
from tempose._support.files import at_work_in, clear_leftovers, write_atomically
from tempose._support.locks import NAME, locked
from tempose.errors import FileError
from tempose.sampling import Auto

HOLD = """
import sys, time
from tempose._support.locks import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_two_solves_in_one_directory(tmp_path: Path) -> None:
    """The second is refused in one line; the first ends as if nothing had been."""
    graph, how = tempose.simulate(6, seed=1).graph, {"draws": 8, "chains": 1, "sampler": Auto(thin=1)}
    inside, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        inside.set()
        assert go_on.wait(120)

    first = threading.Thread(target=lambda: tempose.solve(graph, directory=tmp_path, hook=wait, **how))
    first.start()
    try:
        assert inside.wait(120)
        with pytest.raises(FileError, match=r"another run of tempose \(process \d+\) is writing here"):
            tempose.solve(graph, directory=tmp_path, **how)
    finally:
        go_on.set()
        first.join()
    assert (tmp_path / "draws" / "chain-00.energy.f64").stat().st_size == 8 * 8
    assert not (tmp_path / NAME).exists()


def test_a_lock_is_released_by_death(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(FileError, match=f"process {holder.pid}"), locked(tmp_path):
        pass
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert (tmp_path / NAME).exists()  # the file stays, the lock does not
    with at_work_in(tmp_path):
        pass
    assert not (tmp_path / NAME).exists()


def test_who_has_it_may_take_it_again(tmp_path: Path) -> None:
    with locked(tmp_path):
        with locked(tmp_path):
            pass
        assert (tmp_path / NAME).exists()
        caught: list[BaseException] = []

        def other() -> None:
            try:
                with locked(tmp_path):
                    pass
            except FileError as error:
                caught.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(caught) == 1


def test_what_a_killed_run_was_writing_is_cleared(tmp_path: Path) -> None:
    left = [tmp_path / ".poses.csv.0123abcd.tmp", tmp_path / "draws" / ".chain-00.state.npz.00000000.tmp"]
    kept = [tmp_path / ".poses.csv.mine.tmp", tmp_path / "poses.tmp", tmp_path / ".0123abcd.tmp"]
    (tmp_path / "draws").mkdir()
    for path in (*left, *kept):
        path.write_bytes(b"half")
    graph = tempose.simulate(6, seed=1).graph
    tempose.solve(graph, directory=tmp_path, draws=0, certify=False)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)


def test_what_is_being_written_is_not_cleared(tmp_path: Path) -> None:
    from tempose._support.locks import hold

    busy = tmp_path / ".a.0123abcd.tmp"
    with open(busy, "xb") as file:
        hold(file.fileno())
        clear_leftovers(tmp_path)
        write_atomically(tmp_path / "a", b"1")
        assert busy.exists()
    write_atomically(tmp_path / "a", b"2")
    assert not busy.exists()
