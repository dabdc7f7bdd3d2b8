"""Long lists of edges are looked at in pieces: what is said about each edge is the same."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from helpers.every_graph import KINDS, graph_of, random_poses
from tempose.analysis.analysis import Analysis
from tempose.model import pieces
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.optimum import laplace
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.starts import start_poses
from tempose.simulation import simulate


@pytest.mark.parametrize("kind", KINDS)
def test_an_edge_alone_is_the_same_edge(kind: str) -> None:
    rng = np.random.default_rng(1)
    graph = graph_of(kind, rng)
    poses = random_poses(graph, rng)
    whole, part = residuals(graph, poses), slice(5, 21)
    some, where = pieces.alone(graph, poses, part)
    found = residuals(some, where)
    for one in fields(found):
        assert np.array_equal(getattr(found, one.name), getattr(whole, one.name)[part], equal_nan=True)
    assert np.array_equal(some.information, graph.information[part])
    assert [where.ids[k] for k in some.edge_i] == [graph.node_ids[k] for k in graph.edge_i[part]]
    for mine, theirs in zip(some.ranks, graph.ranks, strict=True):
        assert np.array_equal(mine, theirs[part])


def graphs() -> list[tuple[str, PoseGraph]]:
    return [
        ("in space", simulate(40, completeness=0.2, seed=1).graph),
        ("in the plane", simulate(40, completeness=0.2, seed=2, planar=True).graph),
        ("correlated, with fixes", simulate(40, completeness=0.2, seed=3, correlated=True, gps=8, lever_arm=0.3).graph),
        ("with landmarks", simulate(30, completeness=0.2, seed=4, landmarks=6).graph),
    ]


@pytest.mark.parametrize(("name", "graph"), graphs(), ids=lambda x: x if isinstance(x, str) else "")
def test_pieces_say_what_the_whole_says(name: str, graph: PoseGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = Posterior(graph)
    poses = minimise(Curvature(posterior), start_poses(graph, "chordal", np.random.default_rng(0))).poses

    def said() -> Analysis:
        return Analysis(posterior, poses, Gauge(graph), 1.0, None)

    whole = said()
    want = whole.edge_checks, whole.reliability, whole.surprise, whole.nodes
    monkeypatch.setattr(pieces, "AT_ONCE", 17)
    monkeypatch.setattr(laplace, "_LARGE", 0)  # factors are given up, and made again
    found = said()
    assert len(list(pieces.pieces(graph.n_edges))) > 2
    for mine, theirs in zip((found.edge_checks, found.reliability), want[:2], strict=True):
        for one in fields(mine):
            a, b = getattr(mine, one.name), getattr(theirs, one.name)
            same = np.allclose(a, b, rtol=1e-9, atol=0.0, equal_nan=True) if isinstance(a, np.ndarray) else a == b
            assert same, one.name
    assert np.allclose(found.surprise, want[2], rtol=1e-12, equal_nan=True)
    assert found.nodes is not None and want[3] is not None
    assert np.array_equal(found.nodes.covariance, want[3].covariance)


def test_a_factor_that_was_given_up_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = simulate(20, completeness=0.3, seed=5)
    curvature = Curvature(Posterior(made.graph))
    around = laplace.Laplace(curvature, made.truth, exact=False)
    want = around.relative(0, 7).covariance
    around.give_up_factor()
    assert around._factor is not None  # a small one is kept
    monkeypatch.setattr(laplace, "_LARGE", 0)
    around.give_up_factor()
    assert around._factor is None
    assert np.array_equal(around.relative(0, 7).covariance, want)
