from __future__ import annotations

import numpy as np
import pytest

from helpers.graphs import random_graph
from tempose.analysis.accuracy import graph_consistency, pose_errors
from tempose.errors import GraphError
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.optimum.trees import tree_poses
from tempose.simulation import SHAPES, simulate

EDGES = [(0, 1), (1, 2), (2, 0), (2, "a"), ("a", "b"), ("b", "a"), (2**62, -5)]


def build(edges=EDGES, **changes):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    m = len(edges)
    values = {"concentration": 100.0, "translation_precision": 4.0, **changes}
    return PoseGraph.from_concentrations(edges, quat.random_uniform(rng, m), rng.standard_normal((m, 3)), **values)


def test_structure() -> None:
    graph = build()
    assert graph.node_ids == (0, 1, 2, "a", "b", 2**62, -5)
    assert graph.n_components == 2
    assert graph.component.tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert graph.bridges.tolist() == [3, 6]  # 2–a; the double edge a–b is none
    assert graph.anchors.tolist() == [0, 5]
    assert build(fixed=("b",)).anchors.tolist() == [4, 5]
    assert graph.degree.tolist() == [2, 2, 3, 3, 2, 1, 1]
    assert [g.node_ids for g in graph.components()] == [(0, 1, 2, "a", "b"), (2**62, -5)]
    assert graph.subgraph([3, 4]).n_edges == 2


def test_bridges_against_removal() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        n, m = int(rng.integers(3, 12)), int(rng.integers(2, 16))
        i = rng.integers(0, n, m)
        j = (i + 1 + rng.integers(0, n - 1, m)) % n
        graph = PoseGraph(tuple(range(n)), i, j, quat.random_uniform(rng, m), rng.standard_normal((m, 3)), 1.0, 1.0)
        expected = [k for k in range(m) if graph.with_edges(np.arange(m) != k).n_components > graph.n_components]
        assert graph.bridges.tolist() == expected


def test_spanning_tree_is_the_best_one() -> None:
    import itertools

    rng = np.random.default_rng(2)
    for _ in range(10):
        graph = random_graph(rng, 5, 8)
        weights = rng.uniform(1, 10, 8)
        tree = graph.spanning_tree(weights)
        chosen = sorted(tree.edge[tree.edge >= 0].tolist())
        best = max(
            sum(weights[list(c)]) for c in itertools.combinations(range(8), 4)
             if graph.with_edges(np.isin(np.arange(8), c)).n_components == 1
        )  # fmt: skip
        assert weights[chosen].sum() == pytest.approx(best)
        poses = tree_poses(graph, tree)
        r = residuals(graph, poses)
        assert np.abs(r.angle[chosen]).max() < 1e-12
        assert np.abs(r.translation[chosen]).max() < 1e-12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"concentration": -1.0}, r"edge 0 \(0 → 1\) has a rotation concentration that is not finite"),
        ({"concentration": np.nan}, "concentration that is not finite"),
        ({"translation_precision": np.full((7, 3, 3), -np.eye(3))}, "translation precision that is not finite and positive"),
        ({"concentration": np.ones((6,))}, r"shape \(6,\); expected a scalar or one of \(7,\)"),
        ({"fixed": ("zz",)}, "fixed node 'zz' is not in the graph"),
    ],
)  # fmt: skip
def test_bad_precisions_are_refused_by_edge(changes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        build(**changes)


def test_bad_edges_are_refused_by_name() -> None:
    with pytest.raises(GraphError, match=r"edge 1 \('a' → 'a'\) joins a node to itself"):
        build([("a", "b"), ("a", "a")])
    with pytest.raises(GraphError, match="whose length is not 1"):
        PoseGraph.from_concentrations([(0, 1)], [[1.0, 1.0, 0.0, 0.0]], [[0, 0, 0]], concentration=1.0)
    with pytest.raises(GraphError, match="partly NaN"):
        PoseGraph.from_concentrations([(0, 1)], [[1.0, 0, 0, 0]], [[0, np.nan, 0]], concentration=1.0)
    with pytest.raises(GraphError, match="infinite translation"):
        PoseGraph.from_concentrations([(0, 1)], [[1.0, 0, 0, 0]], [[np.inf] * 3], concentration=1.0)
    with pytest.raises(GraphError, match="occurs twice|declared twice"):
        PoseGraph((1, 1), [0], [1], [[1.0, 0, 0, 0]], [[0, 0, 0]], 1.0, 1.0)


def test_graphs_are_immutable() -> None:
    graph = build()
    with pytest.raises(ValueError, match="read-only"):
        graph.j_from_i_t[0] = 0.0
    with pytest.raises(AttributeError):
        graph.node_ids = ()  # type: ignore[misc]


def test_potential_is_additive_over_components_and_duplicates() -> None:
    rng = np.random.default_rng(3)
    graph = build()
    poses = Poses(graph.node_ids, quat.random_uniform(rng, 7), rng.standard_normal((7, 3)))
    total = Posterior(graph).potential(poses)
    parts = sum(Posterior(g).potential(poses.select(g.node_ids)) for g in graph.components())
    assert total == pytest.approx(parts, rel=1e-13)
    twice = graph.with_edges(np.ones(7, dtype=bool)).subgraph(range(7))
    doubled = PoseGraph(
        twice.node_ids, np.tile(twice.edge_i, 2), np.tile(twice.edge_j, 2), np.tile(twice.j_from_i_wxyz, (2, 1)),
        np.tile(twice.j_from_i_t, (2, 1)), np.tile(twice.concentration, 2), np.tile(twice.translation_precision, 2),
    )  # fmt: skip
    assert Posterior(doubled).potential(poses) == pytest.approx(2 * total, rel=1e-13)


def test_isotropic_potential_is_se_syncs_objective() -> None:
    """U = F/2 with κ = λ/4, τ = 1/σ², in matrices, written out independently of the package's residuals."""
    rng = np.random.default_rng(4)
    graph = random_graph(rng, 6, 14)
    poses = Poses(graph.node_ids, quat.random_uniform(rng, 6), rng.standard_normal((6, 3)))
    R, p = quat.to_matrix(poses.wxyz), poses.position
    F = 0.0
    for k in range(graph.n_edges):  # the edge j_from_i is SE-Sync's edge from j to i
        a, b = graph.edge_j[k], graph.edge_i[k]
        R_ab, t_ab = quat.to_matrix(graph.j_from_i_wxyz[k]), graph.j_from_i_t[k]
        F += graph.concentration[k] / 4 * np.sum((R[b] - R[a] @ R_ab) ** 2)
        F += graph.translation_precision[k] * np.sum((p[b] - p[a] - R[a] @ t_ab) ** 2)
    assert Posterior(graph).potential(poses) == pytest.approx(F / 2, rel=1e-13)


@pytest.mark.parametrize("shape", SHAPES)
def test_simulated_noise_is_the_likelihoods_own(shape: str) -> None:
    made = simulate(300, shape=shape, seed=5, sigma_rot_deg=4.0, sigma_trans=0.2)
    assert made.graph.n_components == 1
    rotation, translation = Posterior(made.graph).potential_by_edge(made.truth)
    m = made.graph.n_edges
    for part in (rotation, translation):  # each is half a χ² with 3 degrees of freedom
        assert abs(part.mean() - 1.5) < 4 * np.sqrt(1.5 / m)
    again = simulate(300, shape=shape, seed=5, sigma_rot_deg=4.0, sigma_trans=0.2)
    np.testing.assert_array_equal(made.graph.j_from_i_wxyz, again.graph.j_from_i_wxyz)


def test_random_graphs_have_the_papers_completeness() -> None:
    for e in (0.1, 0.5, 0.9):
        graph = simulate(50, completeness=e, seed=1).graph
        assert 2 * graph.n_edges / 50**2 == pytest.approx(e, abs=0.02)
        pairs = np.sort(np.stack([graph.edge_i, graph.edge_j], axis=1), axis=1)
        assert len(np.unique(pairs, axis=0)) == graph.n_edges


def test_metrics_by_hand() -> None:
    rng = np.random.default_rng(6)
    truth = Poses(tuple(range(20)), quat.random_uniform(rng, 20), rng.standard_normal((20, 3)))
    turn = np.zeros((20, 3))
    turn[3] = [0.0, 0.0, np.radians(10.0)]
    moved = truth.position.copy()
    moved[5] += [3.0, 0.0, 4.0]
    estimate = Poses(truth.ids, quat.multiply(quat.exp(turn), truth.wxyz), moved)
    errors = pose_errors(estimate, truth, robust=True)
    assert errors.mean_rotation_deg == pytest.approx(0.5, rel=1e-6)
    assert errors.median_rotation_deg == pytest.approx(0.0, abs=1e-6)
    assert errors.mean_translation == pytest.approx(0.25, rel=1e-6)
    assert errors.max_translation == pytest.approx(5.0, rel=1e-6)
    assert errors.ate_rmse == pytest.approx(5.0 / np.sqrt(20), rel=1e-6)
    some = Poses((7, 3, 99), estimate.wxyz[[7, 3, 0]], estimate.position[[7, 3, 0]])
    assert pose_errors(some, truth).n_nodes == 2
    with pytest.raises(GraphError, match="share no node"):
        pose_errors(Poses(("x",), truth.wxyz[:1], truth.position[:1]), truth)


def test_graph_consistency_is_one_for_the_truth_and_zero_at_pi() -> None:
    made = simulate(20, seed=1, sigma_rot_deg=0.0, sigma_trans=0.0)
    assert graph_consistency(made.graph, made.truth) == pytest.approx(1.0, abs=1e-12)
    pair = PoseGraph.from_concentrations([(0, 1)], [[1.0, 0, 0, 0]], concentration=1.0)
    opposite = Poses((0, 1), [[1.0, 0, 0, 0], [0, 1.0, 0, 0]], np.zeros((2, 3)))
    assert graph_consistency(pair, opposite) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["anchor", "centroid", "free", "node:7"])
def test_gauges_remove_any_motion_of_the_world(kind: str) -> None:
    from tempose.geometry import Similarity

    rng = np.random.default_rng(8)
    made = simulate(10, seed=2)
    gauge = Gauge.parse(made.graph, kind)
    moved = made.truth.moved(Similarity(quat.random_uniform(rng), rng.standard_normal(3)))
    wxyz, position = gauge.align(moved.wxyz, moved.position, made.truth)
    assert quat.angle_between(wxyz, made.truth.wxyz).max() < 1e-12
    np.testing.assert_allclose(position, made.truth.position, atol=1e-12)
    with pytest.raises(GraphError, match="no node '77'|node 77"):
        Gauge.parse(made.graph, "node:77")


def test_graph_consistency_is_about_edges_that_measure_a_rotation() -> None:
    made = simulate(
        12, seed=1, sigma_rot_deg=0.0, sigma_trans=0.0, gps=6, gps_sigma=0.1, landmarks=4, landmark_sigma=0.1
    )
    truth = made.truth.with_identity("world").select(made.graph.node_ids)
    assert graph_consistency(made.graph, truth) == pytest.approx(1.0, abs=1e-12)
    only = made.graph.with_edges(made.graph.ranks[0] == 0.0)
    assert np.isnan(graph_consistency(only, truth))
