"""Tasks in other processes."""

from __future__ import annotations

import os

import pytest

from tempose._support.parallel import work_off
from tempose.errors import OptionError, TemposeError


def _square(x: int) -> int:
    return x * x


def _threads(_: int) -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


def _die(x: int) -> int:
    if x == 1:
        os._exit(1)  # as the kernel does when memory is short
    return x


def test_every_task_comes_back_once() -> None:
    assert sorted(work_off(_square, range(20), jobs=2)) == [(x, x * x) for x in range(20)]
    assert list(work_off(_square, [], jobs=2)) == []


def test_workers_have_one_thread_and_the_parent_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "5")
    assert list(work_off(_threads, [0], jobs=1)) == [(0, "1")]
    assert os.environ["OPENBLAS_NUM_THREADS"] == "5"


def test_a_worker_that_dies_is_told_in_one_line() -> None:
    with pytest.raises(TemposeError, match="a worker process died"):
        list(work_off(_die, range(3), jobs=1))
    with pytest.raises(OptionError, match="at least one process"):
        list(work_off(_square, [1], jobs=0))
