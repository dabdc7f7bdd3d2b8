"""Work on executors that others made: pools, and a real cluster of worker processes, one of which is killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from helpers.clusters import local_cluster
from helpers.tasks import always_die, die, die_once, square, threads
from tempose._support.cluster import workers
from tempose._support.parallel import in_order, work_off
from tempose.cli import main
from tempose.errors import Interrupted, MissingPackage, OptionError
from tempose.options import SolveOptions
from tempose.simulation import simulate
from tempose.studies.calibration import Setting, calibrate


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a scheduler with two workers, each a process; those that tests kill come back."""
    with local_cluster() as cluster:
        yield cluster.scheduler_address


def test_every_task_comes_back_once_from_any_executor() -> None:
    want = [(x, x * x) for x in range(20)]
    with ThreadPoolExecutor(2) as pool:
        assert sorted(work_off(square, range(20), executor=pool)) == want
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        assert sorted(work_off(square, range(20), executor=pool)) == want
        with pytest.raises(Interrupted, match="a worker was lost"):
            list(work_off(die, range(3), executor=pool))


def test_results_come_back_in_the_order_of_their_tasks() -> None:
    ended = threading.Event()

    def first_ends_last(k: int) -> int:
        if k == 3:
            ended.set()
        assert k or ended.wait(60.0)
        return k

    with ThreadPoolExecutor(4) as pool:
        assert list(in_order(first_ends_last, range(4), pool)) == [0, 1, 2, 3]
        assert list(in_order(first_ends_last, [], pool)) == []
    assert list(in_order(square, range(4), None)) == [0, 1, 4, 9]


def test_mistakes_of_a_task_are_its_own(address: str) -> None:
    with workers(address) as executor, pytest.raises(TypeError):
        list(work_off(square, ["no number"], executor=executor))  # type: ignore[list-item]


def test_a_worker_that_is_lost_is_survived(address: str, tmp_path: Path) -> None:
    tasks = [(str(tmp_path / "died"), x) for x in range(8)]
    with workers(address) as executor:
        found = dict(work_off(die_once, tasks, executor=executor))
    assert (tmp_path / "died").exists()
    assert found == {task: task[1] ** 2 for task in tasks}
    with workers(address) as executor:
        assert list(work_off(threads, [0], executor=executor)) == [(0, "1")]


def test_a_task_that_kills_every_worker_is_told(address: str) -> None:
    """Negative control: what cannot be survived is no success."""
    with workers(address) as executor, pytest.raises(Interrupted, match="a worker was lost"):
        list(work_off(always_die, [0], executor=executor))


def test_no_scheduler_no_workers_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with workers(None) as nobody:
        assert nobody is None
    monkeypatch.setattr("tempose._support.cluster.WAIT_SECONDS", 0.2)
    monkeypatch.setattr("tempose._support.cluster.WAIT_FOR_WORKERS_SECONDS", 0.2)
    pytest.importorskip("distributed")
    with pytest.raises(OptionError, match="no scheduler answers at 'tcp://127.0.0.1:9'"), workers("tcp://127.0.0.1:9"):
        pass
    monkeypatch.setattr("tempose._support.cluster.WAIT_SECONDS", 10.0)
    with (
        local_cluster(0) as idle,
        pytest.raises(OptionError, match="has no workers; start some: dask worker"),
        workers(idle.scheduler_address),
    ):
        pass
    # not by taking the package from sys.modules: the scheduler of the other tests, in this process, may be starting workers anew
    monkeypatch.setattr("tempose._support.packages.import_module", _no_module)
    with pytest.raises(MissingPackage, match=r"tempose\[cluster\]"), workers("tcp://127.0.0.1:9"):
        pass


def _no_module(name: str) -> None:
    raise ImportError(name)


def test_workers_that_are_lost_are_waited_for(address: str) -> None:
    """The last worker may have died the moment before: who comes then waits until it is back."""
    distributed = pytest.importorskip("distributed")
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        before = set(client.scheduler_info()["workers"])
        for worker in before:
            client.submit(always_die, 0, workers=[worker], retries=0, pure=False)
        while before & set(client.scheduler_info()["workers"]):
            time.sleep(0.01)
    with workers(address) as executor:
        assert dict(work_off(square, range(4), executor=executor)) == {x: x * x for x in range(4)}


def _calibrated(directory: Path, executor: Executor | None) -> list[str]:
    calibrate(
        [Setting("s", nodes=4)],
        graphs=2,
        options=SolveOptions(chains=1),
        jobs=1,
        executor=executor,
        directory=directory,
    )
    return sorted((directory / "cells.jsonl").read_text().splitlines())


def test_calibration_cells_are_the_same_wherever_they_are_computed(address: str, tmp_path: Path) -> None:
    here = _calibrated(tmp_path / "here", None)
    with workers(address) as executor:
        there = _calibrated(tmp_path / "there", executor)
    assert len(here) == 3  # what was asked, and two cells
    assert [_untimed(line) for line in here] == [_untimed(line) for line in there]


def _untimed(line: str) -> object:
    found = json.loads(line)  # a cell, its rows, and a seal of both
    if isinstance(found, list):
        for row in found[1]:
            assert row.pop("seconds") > 0.0
    return found[:2] if isinstance(found, list) else found


def test_many_graphs_at_once_have_the_bytes_of_each_alone(address: str, tmp_path: Path, capsys) -> None:
    from tempose.io import write_graph

    names = []
    for seed in (1, 2):
        names.append(str(tmp_path / f"g{seed}.g2o"))
        write_graph(names[-1], simulate(5, seed=seed).graph)
    how = ["--draws", "20", "--no-report"]
    assert main(["solve", *names, "-o", str(tmp_path / "many"), "--cluster", address, *how]) == 0
    assert "g1" in capsys.readouterr().out
    for name in ("g1", "g2"):
        assert main(["solve", str(tmp_path / f"{name}.g2o"), "-o", str(tmp_path / name), *how]) == 0
        files = sorted(path.name for path in (tmp_path / name / "draws").iterdir() if path.suffix == ".npy")
        for file in [*(f"draws/{one}" for one in files), "poses.csv", "covariances.csv"]:
            if (tmp_path / name / file).exists():
                assert (tmp_path / "many" / name / file).read_bytes() == (tmp_path / name / file).read_bytes(), file
    bad = tmp_path / "bad.g2o"
    bad.write_text("EDGE_SE3:QUAT 0 1\n")
    assert main(["solve", names[0], str(bad), "-o", str(tmp_path / "some"), "--jobs", "1", "--draws", "0"]) == 1
    assert "bad.g2o:1" in capsys.readouterr().out
    assert (tmp_path / "some" / "g1" / "result.json").exists()


def test_chains_of_one_graph_on_a_cluster_have_the_bytes_of_one_machine(address: str, tmp_path: Path, capsys) -> None:
    from tempose.io import write_graph

    name = str(tmp_path / "g.g2o")
    write_graph(name, simulate(5, seed=3).graph)
    for home, more, draws in (("here", [], 20), ("there", ["--cluster", address], 20), ("both", [], 10)):
        how = ["--draws", str(draws), "--chains", "3", "--no-report", *more]
        assert main(["solve", name, "-o", str(tmp_path / home), *how]) == 0
    more = ["--draws", "20", "--chains", "3", "--no-report", "--cluster", address]  # more draws than there were
    assert main(["solve", name, "-o", str(tmp_path / "both"), *more]) == 0
    capsys.readouterr()
    want = {path.name: path.read_bytes() for path in (tmp_path / "here" / "draws").iterdir()}
    assert len(want) == 13  # four files a chain, and what they are
    for home in ("there", "both"):
        assert {path.name: path.read_bytes() for path in (tmp_path / home / "draws").iterdir()} == want
    for file in ("poses.csv", "covariances.csv"):
        if (tmp_path / "here" / file).exists():
            assert (tmp_path / "there" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()


def test_several_graphs_and_options_of_one_do_not_go_together(tmp_path: Path, capsys) -> None:
    assert main(["solve", "a.g2o", "b.g2o", "-o", "x", "--truth", "t.g2o"]) == 2
    assert "--truth is for one graph" in capsys.readouterr().err
    assert main(["solve", "a.g2o", "p/a.csv", "-o", "x"]) == 2
    assert "two of the graphs are called 'a'" in capsys.readouterr().err
