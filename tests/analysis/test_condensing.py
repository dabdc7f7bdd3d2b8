"""A session as edges between a few nodes: its optimum and its covariances of pairs, to rounding, and how much is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempose.analysis.condensing import Condensed, condense
from tempose.cli import main
from tempose.errors import GraphError
from tempose.io import read_graph, write_graph
from tempose.io.options import ReadOptions
from tempose.model.graph import PoseGraph
from tempose.model.merging import merge
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.simulation import simulate


def gaussian(graph: PoseGraph, start: Poses) -> Laplace:
    curvature = Curvature(Posterior(graph))
    return Laplace(curvature, minimise(curvature, start).poses)


def compare(session: Laplace, found: Condensed, tolerance: float = 1e-7) -> Laplace:
    """Optimum and covariances of all pairs with an edge are those of the session."""
    graph = found.graph
    assert graph.initial is not None
    small = gaussian(graph, graph.initial)
    assert small.curvature.posterior.potential(small.poses) < 1e-20
    for i, j in {tuple(sorted(pair)) for pair in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)}:
        a, b = graph.node_ids[i], graph.node_ids[j]
        one, two = session.relative(a, b), small.relative(a, b)
        assert np.allclose(one.mean[1], two.mean[1], atol=1e-9, rtol=0.0)
        scale = np.sqrt(np.diag(one.covariance))
        scale[scale == 0.0] = 1.0
        assert np.allclose((one.covariance - two.covariance) / scale / scale[:, None], 0.0, atol=tolerance)
    return small


def test_two_nodes_lose_nothing() -> None:
    made = simulate(60, shape="trajectory", seed=1)
    session = gaussian(made.graph, made.truth)
    found = condense(session, [3, 50])
    assert found.loss < 1e-9 and found.graph.n_edges == 1 and found.dimension == 6
    compare(session, found)


@pytest.mark.parametrize("planar", [False, True])
def test_pairs_of_three_nodes_are_exact(planar: bool) -> None:
    made = simulate(60, shape="trajectory", seed=1, planar=planar)
    session = gaussian(made.graph, made.truth)
    found = condense(session, [0, 11, 25])
    assert found.mismatch < 1e-7 and found.graph.n_edges == 3
    assert 0.0 <= found.loss < 0.1
    compare(session, found)


@pytest.mark.parametrize("planar", [False, True])
def test_pairs_have_the_covariance_of_the_session(planar: bool) -> None:
    made = simulate(60, shape="trajectory", seed=1, planar=planar)
    session = gaussian(made.graph, made.truth)
    keep = [0, 11, 25, 40, 59]
    found = condense(session, keep)
    small = compare(session, found, 1.5 * found.mismatch + 1e-7)
    assert found.mismatch < 0.02  # where no positive information would make it exact
    assert found.graph.n_edges >= 4
    # the divergence, from the two joint covariances themselves
    rows = [np.array([k.poses.row(name) for name in keep]) for k in (session, small)]
    axes = made.graph.axes
    joint = []
    for laplace, row in zip((session, small), rows, strict=True):
        b, k = len(axes), len(row)
        a, c = (x.reshape(-1) for x in np.meshgrid(row, row, indexing="ij"))
        held = laplace.curvature.held[:, axes]
        block = laplace.factor.inverse_blocks(a, c) * ~(held[a][:, :, None] | held[c][:, None, :])
        joint.append(block.reshape(k, k, b, b).transpose(0, 2, 1, 3).reshape(k * b, k * b)[b:, b:])
    product = np.linalg.solve(joint[1], joint[0])  # node 0 is held in both
    want = 0.5 * (np.trace(product) - np.linalg.slogdet(product)[1] - len(product))
    assert found.loss == pytest.approx(want, rel=1e-5, abs=1e-9)
    assert found.loss < 0.01 * found.dimension


def test_a_star_alone_loses_more() -> None:
    """Negative control: fewer edges, more loss; and the pairs without an edge have other covariances."""
    from tempose.analysis import condensing

    made = simulate(60, shape="trajectory", seed=1)
    session = gaussian(made.graph, made.truth)
    keep = [0, 11, 25, 40]
    most, condensing.MOST_EDGES = condensing.MOST_EDGES, 0
    try:
        star = condense(session, keep)
    finally:
        condensing.MOST_EDGES = most
    assert star.graph.n_edges == 3
    assert star.loss > condense(session, keep).loss + 0.1
    small = compare(session, star)
    one, two = session.relative(25, 40), small.relative(25, 40)
    assert not np.allclose(one.covariance, two.covariance, rtol=0.05)


def test_sessions_that_are_condensed_merge_like_whole_ones(tmp_path: Path) -> None:
    """Two halves of a trajectory that share two nodes: each condensed to these, then merged, beside the whole."""
    made = simulate(40, shape="trajectory", seed=4)
    graph = made.graph
    first = graph.subgraph(np.arange(0, 21))
    keep_edges = ~((graph.edge_i <= 20) & (graph.edge_j <= 20))
    second = graph.with_edges(keep_edges)
    names = {k for k in np.unique(np.concatenate([second.edge_i, second.edge_j])).tolist()}
    second = second.subgraph(np.array(sorted(names)))
    border = sorted({graph.node_ids[k] for k in names} & set(first.node_ids))
    if second.n_components > 1 or len(border) < 2:
        pytest.fail("the example does not have two halves that share nodes")
    small = condense(gaussian(first, made.truth.select(first.node_ids)), border)
    write_graph(tmp_path / "first.csv", small.graph)
    read = read_graph(tmp_path / "first.csv", ReadOptions(precision="full"))
    whole = gaussian(graph, made.truth)
    both = merge([read, second], ["a", "b"], shared_ids=True)
    merged = gaussian(both, made.truth.select(both.node_ids))
    far = [name for name in second.node_ids if name not in border]
    a, b = whole.relative(far[0], far[-1]), merged.relative(far[0], far[-1])
    assert np.linalg.norm(a.mean[1] - b.mean[1]) < 0.05 * np.sqrt(np.trace(a.covariance[3:, 3:]))
    assert np.trace(b.covariance) == pytest.approx(np.trace(a.covariance), rel=0.05)


def test_what_cannot_be_kept_is_told() -> None:
    made = simulate(12, shape="trajectory", seed=1, landmarks=3)
    session = gaussian(made.graph, made.truth)
    with pytest.raises(GraphError, match="at least two"):
        condense(session, [0])
    with pytest.raises(GraphError, match="landmark"):
        condense(session, [0, made.graph.landmarks[0]])
    with pytest.raises(GraphError, match="no node"):
        condense(session, [0, 999])


def test_the_command_writes_a_graph_that_is_read_again(tmp_path: Path, capsys) -> None:
    made = simulate(30, shape="trajectory", seed=2)
    write_graph(tmp_path / "g.g2o", made.graph)
    assert main(["condense", str(tmp_path / "g.g2o"), "--keep", "0,10-12,29", "-o", str(tmp_path / "c.csv")]) == 0
    said = capsys.readouterr().out
    assert "5 of 30 nodes" in said and "nats" in said
    graph = read_graph(tmp_path / "c.csv", ReadOptions(precision="full"))
    assert set(graph.node_ids) == {0, 10, 11, 12, 29}
    assert main(["condense", str(tmp_path / "g.g2o"), "--keep", "0,x", "-o", str(tmp_path / "d.csv")]) == 1
    assert "'x'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["condense", str(tmp_path / "g.g2o"), "-o", str(tmp_path / "d.csv")])
