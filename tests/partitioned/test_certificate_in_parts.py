"""The certificate of a graph in parts: the verdict, the bound and the eigenvalue of one machine."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.clusters import local_cluster
from helpers.tasks import die_in_blocks
from tempose._support.cluster import workers
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.certificate import Certificate, Dual
from tempose.optimum.hessian import Curvature
from tempose.optimum.merged import merged
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify
from tempose.optimum.quadratic import Quadratic
from tempose.optimum.starts import start_poses
from tempose.partitioned import blocks, minimise_in_parts
from tempose.partitioned.elimination import Eliminated, border_last
from tempose.partitioned.hands import Hands
from tempose.partitioned.matrix import FactorInParts, PatternInParts, QuadraticInParts
from tempose.simulation import simulate


def wound_ring(n: int = 16) -> tuple[PoseGraph, Poses]:
    """A ring in the plane whose start goes round once too often: a local optimum that is not the global one."""
    i = np.arange(n)
    step = quat.exp(np.zeros((n, 3)))
    t = np.zeros((n, 3))
    weight = 8.0 + np.sin(i)
    graph = PoseGraph(tuple(range(n)), i, (i + 1) % n, step, t, weight, np.full(n, 4.0), dimension=2)
    angle = np.column_stack([np.zeros((n, 2)), 2.0 * np.pi * i / n])
    return graph, Poses(tuple(range(n)), quat.exp(angle), np.zeros((n, 3)))


def cases() -> Iterator[tuple[str, PoseGraph, Poses]]:
    made = simulate(120, shape="trajectory", seed=2)
    yield "certified", made.graph, made.truth
    made = simulate(60, shape="trajectory", seed=3, planar=True)
    yield "certified, planar", made.graph, made.truth
    made = simulate(40, completeness=0.1, seed=4, gps=6)
    yield "certified, merged", made.graph, made.truth.with_identity("world")
    yield ("not certified, a local optimum", *wound_ring())
    made = simulate(40, shape="trajectory", seed=5)
    matrices = made.graph.translation_precision_matrices * np.array([1.0, 1.5, 2.0])[:, None] * np.eye(3)
    yield "bound only", replace(made.graph, translation_precision=matrices), made.truth


def alike(found: Certificate, wanted: Certificate) -> None:
    assert (found.status, found.proof, found.certified) == (wanted.status, wanted.proof, wanted.certified)
    assert found.failed_components == wanted.failed_components
    scale = abs(wanted.potential)
    assert found.potential == pytest.approx(wanted.potential, rel=1e-12)
    assert found.lower_bound == pytest.approx(wanted.lower_bound, abs=1e-7 * scale)
    assert found.suboptimality == pytest.approx(wanted.suboptimality, rel=1e-4, abs=1e-9 * scale)
    assert found.min_eigenvalue == pytest.approx(wanted.min_eigenvalue, rel=1e-6, nan_ok=True)
    assert (found.direction is None) == (wanted.direction is None)


def lifted(graph: PoseGraph, poses: Poses, direction: np.ndarray) -> float:
    """By how much 2U changes along a direction (n, d+1) of the lifting, for a change of the rotations by one."""
    part = merged(graph)
    problem = Quadratic(part.graph)
    dual = Dual.at(problem, problem.point(part.reduce(poses)))
    v = direction[:, :, None]
    return float(np.sum(v * problem.matrix_times(dual.multipliers, v)) / np.sum(v[:, 1:] ** 2))


@pytest.mark.parametrize(("name", "graph", "start"), list(cases()), ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_parts_prove_what_one_machine_proves(name: str, graph: PoseGraph, start: Poses, n_parts: int) -> None:
    with minimise_in_parts(graph, start, parts=n_parts) as found:
        proven = found.certificate()
        assert proven.status == name.partition(",")[0]
        alike(proven, certify(Posterior(graph), found.poses))
        if proven.direction is not None:
            assert lifted(graph, found.poses, proven.direction) == pytest.approx(proven.min_eigenvalue, rel=1e-6)
        assert found.certificate(tolerance=1e-3).tolerance == 1e-3
        with pytest.raises(OptionError, match="must be positive"):
            found.certificate(tolerance=0.0)


def two_rings() -> tuple[PoseGraph, Poses]:
    """Two components, of which one is wound."""
    graph, wound = wound_ring()
    n = graph.n_nodes
    ids = tuple(range(2 * n))
    both = replace(
        graph, node_ids=ids, edge_i=np.append(graph.edge_i, graph.edge_i + n), edge_j=np.append(graph.edge_j, graph.edge_j + n),
        j_from_i_wxyz=np.tile(graph.j_from_i_wxyz, (2, 1)), j_from_i_t=np.tile(graph.j_from_i_t, (2, 1)),
        concentration=np.tile(graph.concentration, 2), translation_precision=np.tile(graph.translation_precision, 2),
    )  # fmt: skip
    still = np.tile(quat.IDENTITY, (n, 1))
    return both, Poses(ids, np.concatenate([wound.wxyz, still]), np.zeros((2 * n, 3)))


def test_every_component_has_its_proof() -> None:
    graph, start = two_rings()
    with minimise_in_parts(graph, start, parts=3) as found:
        proven = found.certificate()
        assert proven.failed_components == (1, 2)
        alike(proven, certify(Posterior(graph), found.poses))


def test_graphs_that_reach_far_are_proven_about_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = simulate(150, shape="trajectory", planar=True, sigma_rot_deg=0.2, sigma_trans=0.01, seed=1)
    graph = replace(made.graph, j_from_i_t=30.0 * made.graph.j_from_i_t)
    start = minimise(Curvature(Posterior(graph)), start_poses(graph, "chordal", np.random.default_rng(0))).poses
    asked = []
    honest = Quadratic.hubs
    monkeypatch.setattr(Quadratic, "hubs", lambda self, X: asked.append(type(self)) or honest(self, X))
    with minimise_in_parts(graph, start, parts=4) as found:
        proven = found.certificate(tolerance=1e-8)
        assert asked == [QuadraticInParts]
        alike(proven, certify(Posterior(graph), found.poses, tolerance=1e-8))
        assert asked == [QuadraticInParts, Quadratic]


def scattered(rng: np.random.Generator, n: int = 30, b: int = 3) -> tuple[Any, Any, Any, Any, Any]:
    """A random symmetric matrix of blocks on a chain with a few loops: pairs, blocks, and dense."""
    rows = np.concatenate([np.arange(n - 1), rng.integers(0, n - 5, 8)])
    columns = np.concatenate([np.arange(1, n), rows[n - 1 :] + rng.integers(2, 5, 8)])
    diagonal, off = rng.standard_normal((n, b, b)), rng.standard_normal((len(rows), b, b))
    diagonal = diagonal + np.swapaxes(diagonal, 1, 2)
    dense = np.zeros((n, b, n, b))
    dense[np.arange(n), :, np.arange(n)] = diagonal
    for i, j, block in zip(rows, columns, off, strict=True):
        dense[i, :, j] += block
        dense[j, :, i] += block.T
    return rows, columns, diagonal, off, dense.reshape(n * b, n * b)


@pytest.mark.parametrize("n_parts", [1, 2, 4, 7])
def test_a_matrix_in_parts_is_definite_where_the_whole_is(tmp_path: Path, n_parts: int) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows, columns, diagonal, off, dense = scattered(rng)
        lowest = float(np.linalg.eigvalsh(dense)[0])
        pattern = PatternInParts(len(diagonal), rows, columns, n_parts)
        assert len(pattern.shares) == n_parts
        for margin, definite in ((1e-9, True), (1e-2, True), (-1e-9, False), (-1e-2, False), (-3.0, False)):
            shifted = diagonal + (margin - lowest) * np.eye(3)
            if not definite:
                with pytest.raises(NotPositiveDefiniteError):
                    FactorInParts(pattern, Hands(), str(tmp_path), shifted, off)
                continue
            factor = FactorInParts(pattern, Hands(), str(tmp_path), shifted, off)
            right = rng.standard_normal((len(dense), 2))
            exact = np.linalg.solve(dense + (margin - lowest) * np.eye(len(dense)), right)
            for some, wanted in ((right, exact), (right[:, 0], exact[:, 0])):
                assert np.allclose(factor.solve(some), wanted, rtol=0.0, atol=1e-13 / margin * np.abs(exact).max())
    del factor
    assert not list(tmp_path.iterdir())  # files go with their factor


def test_a_border_that_is_too_soft_is_made_stiffer() -> None:
    """What is left for the border does not depend on what is added to it and taken away again."""
    rows, columns, diagonal, off, dense = scattered(np.random.default_rng(1))
    diagonal = diagonal + (0.1 - float(np.linalg.eigvalsh(dense[:84, :84])[0])) * np.eye(3)
    whole = dense + (diagonal[0, 0, 0] - dense[0, 0]) * np.eye(90)
    inside, between = whole[:84, :84], whole[84:, :84]
    inner = (rows < 28) | (columns < 28)
    symbolic = border_last(28, 2, rows[inner], columns[inner], 3)
    for stiff in (1e-3, 1.0, 1e3):
        blocks = np.concatenate([diagonal[:28], np.zeros((2, 3, 3))])
        made = Eliminated(symbolic, 28, blocks, off[inner], np.full((2, 3), stiff))
        assert np.allclose(
            made.reduced_matrix(made.end_of_factor()), -between @ np.linalg.solve(inside, between.T), atol=1e-9
        )
    soft = np.concatenate([diagonal[:28] - 0.2 * np.eye(3), np.zeros((2, 3, 3))])
    with pytest.raises(NotPositiveDefiniteError):  # no stiffness mends the inside
        Eliminated(symbolic, 28, soft, off[inner], np.full((2, 3), 1.0))


def test_processes_prove_the_same() -> None:
    graph, start = wound_ring()
    with minimise_in_parts(graph, start, parts=3) as here:
        want = here.certificate()
    with (
        ProcessPoolExecutor(2, get_context("spawn")) as pool,
        minimise_in_parts(graph, start, parts=3, executor=pool) as there,
    ):
        before = there.traffic.up
        found = there.certificate()
        assert there.traffic.up > before
    assert found.facts() == want.facts()


class _Deadly(Executor):
    """An executor whose first worker that eliminates a part of a matrix is killed."""

    def __init__(self, executor: Executor, mark: Path) -> None:
        self.executor, self.mark = executor, str(mark)

    def submit(self, function, task) -> Future:  # type: ignore[override, type-arg]
        numbered = function.args[0]
        if numbered.function is blocks.eliminate_blocks:
            function = partial(function.func, replace(numbered, function=partial(die_in_blocks, self.mark)))
        return self.executor.submit(function, task)


def test_a_worker_that_is_killed_changes_nothing(tmp_path: Path) -> None:
    made = simulate(80, shape="trajectory", seed=6)
    with minimise_in_parts(made.graph, made.truth, parts=3) as here:
        want = here.certificate()
    with local_cluster() as cluster, workers(cluster.scheduler_address) as executor:
        assert executor is not None
        deadly = _Deadly(executor, tmp_path / "died")
        with minimise_in_parts(made.graph, made.truth, parts=3, executor=deadly) as there:
            alike(there.certificate(), want)
    assert (tmp_path / "died").exists()
