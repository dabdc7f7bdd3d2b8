"""Tasks in other processes, and on threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from helpers.processes import ends, is_running
from helpers.tasks import die, square, threads
from tempose._support.parallel import in_own_process, on_threads, work_off
from tempose.errors import Interrupted, OptionError


def test_every_task_comes_back_once() -> None:
    assert sorted(work_off(square, range(20), jobs=2)) == [(x, x * x) for x in range(20)]
    assert list(work_off(square, [], jobs=2)) == []


def test_workers_have_one_thread_and_the_parent_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "5")
    assert list(work_off(threads, [0], jobs=1)) == [(0, "1")]
    assert os.environ["OPENBLAS_NUM_THREADS"] == "5"


def test_a_worker_that_dies_is_told_in_one_line() -> None:
    with pytest.raises(Interrupted, match="a worker process died"):
        list(work_off(die, range(3), jobs=1))
    with pytest.raises(OptionError, match="at least one process"):
        list(work_off(square, [1], jobs=0))


WAITS = """
import time
from helpers.tasks import process
from tempose._support.parallel import work_off
if __name__ == "__main__":
    for _, pid in work_off(process, [0], jobs=1):
        print(pid, flush=True)
        time.sleep(600)
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=env)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert is_running(worker)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert ends(worker)


def test_threads_hand_back_in_order_and_take_no_more_than_they_can_hold() -> None:
    begun, lock = [0], threading.Lock()

    def slow_first(k: int) -> int:
        with lock:
            begun[0] += 1
        time.sleep(0.02 if k == 0 else 0.0)
        return k

    results = on_threads(slow_first, range(1000))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert begun[0] < 1000
    assert list(results) == list(range(3, 1000))
    with pytest.raises(ZeroDivisionError):
        list(on_threads(lambda k: 1 // k, [1, 0]))


def test_a_process_of_its_own() -> None:
    """What dies in it does not end this one, and is told."""
    assert in_own_process("json:dumps", {"a": [1, 2]}) == '{"a": [1, 2]}'
    with pytest.raises(Interrupted, match="ended with 7"):
        in_own_process("os:_exit", 7)
    with pytest.raises(Interrupted, match="ended with 1: ValueError: math domain error"):
        in_own_process("math:sqrt", -1)


def test_a_process_of_its_own_from_a_script() -> None:
    """One without ``if __name__ == "__main__"``; it has one thread, too."""
    source = (
        "from tempose._support.parallel import in_own_process; "
        "print(in_own_process('math:sqrt', 9.0), in_own_process('os:getenv', 'OMP_NUM_THREADS'))"
    )
    said = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["3.0", "1"]
