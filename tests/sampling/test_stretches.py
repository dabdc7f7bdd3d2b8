"""Chains on an executor: the bytes of one machine, wherever they are cut, and whoever is lost."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers.clusters import local_cluster
from helpers.tasks import die_in_stretch
from tempose._support.cluster import workers
from tempose._support.progress import DRAWING, WARM_UP, Progress
from tempose.dynamics.descent import Watch
from tempose.errors import Interrupted
from tempose.model.graph import PoseGraph
from tempose.sampling import stretches
from tempose.simulation import ambiguous_loop, simulate

SAMPLERS = ("collapsed", "geodesic", "geodesic-mh", "baoab-mh", "tempering")


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as made:
        yield made


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw a stretch."""
    monkeypatch.setattr(stretches, "SECONDS", 0.0)


def chain_files(home: Path) -> dict[str, bytes]:
    """Draws, energies, costs and checkpoints of all chains."""
    found = {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("chain-*")}
    assert any(name.endswith(".state.npz") for name in found)
    return found


def graph_of() -> PoseGraph:
    return simulate(6, seed=1).graph


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_sampler_has_the_same_bytes_there(tmp_path: Path, pool: Executor, short: None, sampler: str) -> None:
    how = {"draws": 12, "chains": 3, "seed": 4, "sampler": sampler, "analyse": False}
    tempose.solve(graph_of(), directory=tmp_path / "here", **how)
    tempose.solve(graph_of(), directory=tmp_path / "there", executor=pool, **how)
    assert chain_files(tmp_path / "there") == chain_files(tmp_path / "here")


@pytest.mark.parametrize("how", [{"robust": True}, {"starts": 12, "sampler": "jumping"}], ids=["robust", "jumping"])
def test_wrong_edges_and_several_modes(tmp_path: Path, pool: Executor, short: None, how: dict[str, object]) -> None:
    graph = ambiguous_loop(6, 18.0, 172.0) if "starts" in how else graph_of()
    tempose.solve(graph, directory=tmp_path / "here", draws=10, chains=2, analyse=False, **how)
    tempose.solve(graph, directory=tmp_path / "there", draws=10, chains=2, analyse=False, executor=pool, **how)
    assert chain_files(tmp_path / "there") == chain_files(tmp_path / "here")


def test_what_was_begun_here_is_gone_on_with_there_and_back(tmp_path: Path, pool: Executor, short: None) -> None:
    how = {"chains": 2, "seed": 3, "analyse": False}
    tempose.solve(graph_of(), directory=tmp_path / "whole", draws=40, **how)
    places = [None, pool, None, pool]
    for draws, executor in zip((10, 20, 30, 40), places, strict=True):
        stop, seen = threading.Event(), []

        def hook(watch: Watch, stop=stop, seen=seen) -> None:
            seen.append(watch.step)
            if len(seen) == 3:
                stop.set()  # in the middle; the same call goes on

        tempose.solve(
            graph_of(), directory=tmp_path / "parts", draws=draws, executor=executor, stop=stop, hook=hook, **how
        )
        made = tempose.solve(graph_of(), directory=tmp_path / "parts", draws=draws, executor=executor, **how)
        assert made.draws is not None and made.draws.n_draws == draws
    assert chain_files(tmp_path / "parts") == chain_files(tmp_path / "whole")


def test_progress_and_hooks_hear_of_every_draw(pool: Executor) -> None:
    heard: list[Progress] = []
    steps: list[tuple[int, int]] = []
    made = tempose.solve(
        graph_of(), draws=20, chains=2, executor=pool, analyse=False, progress=heard.append,
        hook=lambda watch: steps.append((watch.chain, watch.step)),
    )  # fmt: skip
    assert made.draws is not None and made.draws.n_draws == 20
    assert len(set(steps)) == len(steps) == 20
    for phase in (WARM_UP, DRAWING):
        last = [one for one in heard if one.phase == phase][-1]
        assert last.done == last.total > 0


class _Forgetful(ThreadPoolExecutor):
    """Workers that never have the sampler already."""

    asked = 0

    def submit(self, function, /, task):  # type: ignore[override]
        self.asked += 1
        stretches._kept.clear()
        return super().submit(function, task)


def test_a_worker_without_the_sampler_is_sent_it(tmp_path: Path, short: None) -> None:
    how = {"draws": 6, "chains": 1, "analyse": False}
    tempose.solve(graph_of(), directory=tmp_path / "here", **how)
    with _Forgetful(1) as pool:
        tempose.solve(graph_of(), directory=tmp_path / "there", executor=pool, **how)
        assert pool.asked > 1.5 * 6  # all but the first stretch are asked for twice
    assert chain_files(tmp_path / "there") == chain_files(tmp_path / "here")


def test_a_sampler_travels_without_its_factors(tmp_path: Path) -> None:
    """What is packed is of the size of the graph, and makes the same sampler."""
    seen: list[stretches.Packed] = []
    honest = stretches.Packed.of

    class Watched(stretches.Packed):
        @classmethod
        def of(cls, sampler):
            seen.append(honest(sampler))
            return seen[-1]

    graph = simulate(200, shape="trajectory", seed=1).graph
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr("tempose.sampling.driver.Packed", Watched)
        tempose.solve(graph, draws=2, chains=1, executor=pool, analyse=False)
    assert len(seen[0].data) < 2 * len(pickle.dumps(graph)) + 20_000
    again = pickle.loads(seen[0].data)
    assert not again.target.center.wxyz.flags.writeable  # kernels are compiled for arrays that cannot be written to
    assert not again.target.posterior.graph.edge_i.flags.writeable
    assert np.isfinite(again.start(np.random.default_rng(0)).arrays()["y"]).all()


class _Deadly(Executor):
    """An executor whose first worker that gets to a chain's seventh draw is killed."""

    def __init__(self, executor: Executor, mark: Path) -> None:
        self.executor, self.mark = executor, str(mark)

    def submit(self, function, task) -> Future:  # type: ignore[override, type-arg]
        assert function.args == (stretches.advance,)
        return self.executor.submit(partial(function.func, partial(die_in_stretch, self.mark)), task)


def test_a_worker_that_is_killed_in_a_chain_changes_nothing(tmp_path: Path, short: None) -> None:
    how = {"draws": 20, "chains": 2, "analyse": False}
    tempose.solve(graph_of(), directory=tmp_path / "here", **how)
    with (
        local_cluster() as cluster,
        workers(cluster.scheduler_address) as executor,
    ):
        assert executor is not None
        deadly = _Deadly(executor, tmp_path / "died")
        tempose.solve(graph_of(), directory=tmp_path / "there", executor=deadly, **how)
    assert (tmp_path / "died").exists()
    assert chain_files(tmp_path / "there") == chain_files(tmp_path / "here")


def test_a_pool_that_breaks_leaves_what_it_made(tmp_path: Path, short: None) -> None:
    """Negative control: what cannot be survived is told, and the same call goes on from what there is."""
    how = {"draws": 20, "chains": 1, "analyse": False}
    tempose.solve(graph_of(), directory=tmp_path / "here", **how)
    with ProcessPoolExecutor(1, get_context("spawn")) as broken:
        deadly = _Deadly(broken, tmp_path / "died")
        with pytest.raises(Interrupted, match="a worker was lost"):
            tempose.solve(graph_of(), directory=tmp_path / "there", executor=deadly, **how)
    left = (tmp_path / "there" / "draws" / "chain-00.energy.f64").stat().st_size // 8
    assert 0 < left < 20
    tempose.solve(graph_of(), directory=tmp_path / "there", **how)
    assert chain_files(tmp_path / "there") == chain_files(tmp_path / "here")
