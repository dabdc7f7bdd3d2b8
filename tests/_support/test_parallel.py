"""Tasks in other processes."""

from __future__ import annotations

import os

import pytest

from helpers.tasks import die, square, threads
from tempose._support.parallel import work_off
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
