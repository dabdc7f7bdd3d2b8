"""A graph in parts: the optimum, marginals and draws of the whole, to rounding, wherever the parts are worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from helpers.clusters import local_cluster
from helpers.tasks import die_in
from tempose._support.cluster import workers
from tempose.errors import GraphError, OptionError
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.partitioned import dissect, minimise_in_parts
from tempose.partitioned import newton as root
from tempose.partitioned import parts as work
from tempose.simulation import simulate


def whole(graph: PoseGraph, start: Poses) -> tuple[Poses, np.ndarray]:
    """Optimum and covariances (n, 6, 6) by one factorisation of everything."""
    curvature = Curvature(Posterior(graph))
    found = minimise(curvature, start)
    assert found.status == "converged"
    sigma = curvature.expand_blocks(curvature.factor(found.poses.wxyz, found.poses.position).selected_inverse()[0])
    return found.poses, sigma * ~(curvature.held[:, :, None] | curvature.held[:, None, :])


def cases() -> Iterator[tuple[str, PoseGraph, Poses]]:
    made = simulate(120, shape="trajectory", seed=2)
    yield "trajectory", made.graph, made.truth
    made = simulate(60, shape="trajectory", seed=3, planar=True)
    yield "planar", made.graph, made.truth
    made = simulate(40, completeness=0.1, seed=4, gps=6)
    yield "with fixes", made.graph, made.truth


@pytest.mark.parametrize(("name", "graph", "truth"), list(cases()), ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_parts_give_the_optimum_and_the_marginals_of_the_whole(name, graph, truth, n_parts) -> None:
    start = (
        truth.select([one for one in graph.node_ids if one in truth]).with_identity("world")
        if "world" in graph.node_ids
        else truth
    )
    poses, sigma = whole(graph, start)
    with minimise_in_parts(graph, start, parts=n_parts) as found:
        assert found.potential == pytest.approx(Posterior(graph).potential(poses), rel=1e-12)
        assert np.allclose(found.poses.position, poses.position, atol=1e-8, rtol=0.0)
        assert np.allclose(np.abs(np.sum(found.poses.wxyz * poses.wxyz, axis=1)), 1.0, atol=1e-14, rtol=0.0)
        assert np.allclose(found.covariances(), sigma, rtol=1e-7, atol=1e-9 * np.abs(sigma).max())
        assert found.dissection.n_parts <= n_parts


def test_draws_have_the_covariance_of_the_whole() -> None:
    made = simulate(30, shape="trajectory", seed=5)
    poses, _ = whole(made.graph, made.truth)
    count = 4000
    with minimise_in_parts(made.graph, made.truth, parts=3) as found:
        draws = found.draws(count, seed=1)
        assert np.array_equal(draws, found.draws(count, seed=1))
        assert not np.array_equal(draws, found.draws(count, seed=2))
    b = draws.shape[1] * 6
    flat = draws.reshape(count, b)
    curvature = Curvature(Posterior(made.graph))
    factor = curvature.factor(poses.wxyz, poses.position)
    true = factor.solve(np.eye(b)) * ~(curvature.held.reshape(-1)[:, None] | curvature.held.reshape(-1))
    scale = np.sqrt(np.maximum(np.diag(true), 1e-300))
    error = (flat.T @ flat / count - true) / scale[:, None] / scale
    free = ~curvature.held.reshape(-1)
    assert np.abs(error[np.ix_(free, free)]).max() < 6.0 * np.sqrt(2.0 / count)  # of all pairs, across parts too
    assert not np.any(flat[:, ~free])


def test_a_border_that_is_forgotten_would_be_noticed(monkeypatch) -> None:
    """Negative control: with a border half as sure the marginals are others."""
    made = simulate(60, shape="trajectory", seed=2)
    _, sigma = whole(made.graph, made.truth)
    honest = work.marginals
    monkeypatch.setattr(root.work, "marginals", lambda task: honest(replace(task, border=2.0 * task.border)))
    with minimise_in_parts(made.graph, made.truth, parts=2) as found:
        assert not np.allclose(found.covariances(), sigma, rtol=1e-3)


def test_cuts_leave_no_edge_between_parts() -> None:
    graph = simulate(500, shape="trajectory", seed=1).graph
    for n_parts in (1, 2, 3, 8):
        cut = dissect(graph.n_nodes, graph.edge_i, graph.edge_j, n_parts)
        a, b = cut.part[graph.edge_i], cut.part[graph.edge_j]
        assert np.all((a == b) | (a < 0) | (b < 0))
        assert cut.n_parts == n_parts
        sizes = np.bincount(cut.part[cut.part >= 0], minlength=n_parts)
        assert sizes.min() > 0.2 * graph.n_nodes / n_parts
    assert len(dissect(4, np.array([0, 1]), np.array([1, 2]), 2, np.array([False, True, False, False])).separators) == 1
    with pytest.raises(OptionError, match="at least one part"):
        dissect(4, np.array([0]), np.array([1]), 0)


def test_what_is_not_determined_is_refused() -> None:
    made = simulate(12, shape="trajectory", seed=1)
    loose = replace(made.graph, translation_precision=made.graph.translation_precision * 0.0)
    with pytest.raises(GraphError, match="singular"), minimise_in_parts(loose, made.truth, parts=2):
        pass


def test_processes_give_the_same_bytes(tmp_path: Path) -> None:
    made = simulate(80, shape="trajectory", seed=6)
    with minimise_in_parts(made.graph, made.truth, parts=3) as here:
        want = here.poses, here.covariances(), here.draws(3)
    with (
        ProcessPoolExecutor(2, get_context("spawn")) as pool,
        minimise_in_parts(made.graph, made.truth, parts=3, executor=pool, directory=tmp_path) as there,
    ):
        assert np.array_equal(there.poses.wxyz, want[0].wxyz)
        assert np.array_equal(there.poses.position, want[0].position)
        assert np.array_equal(there.covariances(), want[1])
        assert np.array_equal(there.draws(3), want[2])
        assert there.traffic.up > 0 and there.traffic.down > 0


class _Deadly:
    """An executor whose worker is killed in the middle of the second step."""

    def __init__(self, executor: Executor, mark: str) -> None:
        self.executor, self.mark = executor, mark

    def submit(self, function, task):
        numbered = function.args[0]
        if numbered.function is work.descend:
            function = partial(function.func, replace(numbered, function=partial(die_in, self.mark)))
        return self.executor.submit(function, task)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """To the bit beside the same cluster; beside this process, whose BLAS may have more threads, to rounding."""
    made = simulate(80, shape="trajectory", seed=6)
    with minimise_in_parts(made.graph, made.truth, parts=3) as here:
        whole = here.poses, here.covariances()
    with (
        local_cluster() as cluster,
        workers(cluster.scheduler_address) as executor,
    ):
        with minimise_in_parts(made.graph, made.truth, parts=3, executor=executor, directory=tmp_path / "a") as there:
            want = there.poses, there.covariances()
        deadly = _Deadly(executor, str(tmp_path / "died"))  # type: ignore[arg-type]
        with minimise_in_parts(made.graph, made.truth, parts=3, executor=deadly, directory=tmp_path / "b") as there:  # type: ignore[arg-type]
            assert (tmp_path / "died").exists()
            assert np.array_equal(there.poses.position, want[0].position)
            assert np.array_equal(there.covariances(), want[1])
    assert np.allclose(want[0].position, whole[0].position, rtol=0.0, atol=1e-9)
    assert np.allclose(want[1], whole[1], rtol=1e-7, atol=1e-9 * np.abs(whole[1]).max())
