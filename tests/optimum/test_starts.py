"""Starting points: exact without noise, whatever the graph; positions are the exact minimiser; relaxations match dense."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.numerics import relaxation as _kernels
from tempose.optimum.relaxations import chordal_rotations, positions_given_rotations, spectral_rotations
from tempose.optimum.starts import STARTS, random_poses, start_poses
from tempose.optimum.trees import best_tree_poses, shortest_path_tree, tree_poses
from tempose.simulation import simulate

DATA = os.environ.get("TEMPOSE_DATA")
BUILT = ["tree", "best-tree", "chordal", "spectral"]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def exact_graph(nodes: int = 60, shape: str = "sphere") -> PoseGraph:
    return simulate(nodes, shape=shape, sigma_rot_deg=0.0, sigma_trans=0.0, seed=3).graph


def two_copies(graph: PoseGraph) -> PoseGraph:
    """Two components and an isolated node in between."""
    n = graph.n_nodes
    second = n + 1
    return replace(
        graph,
        node_ids=tuple(range(2 * n + 1)),
        edge_i=np.concatenate([graph.edge_i, graph.edge_i + second]),
        edge_j=np.concatenate([graph.edge_j, graph.edge_j + second]),
        j_from_i_wxyz=np.tile(graph.j_from_i_wxyz, (2, 1)),
        j_from_i_t=np.tile(graph.j_from_i_t, (2, 1)),
        concentration=np.tile(graph.concentration, 2),
        translation_precision=np.tile(graph.translation_precision, 2),
    )


def spread_weights(graph: PoseGraph) -> PoseGraph:
    g = rng(1)
    return replace(
        graph,
        concentration=10.0 ** g.uniform(-5, 5, graph.n_edges),
        translation_precision=10.0 ** g.uniform(-5, 5, graph.n_edges),
    )


def doubled(graph: PoseGraph) -> PoseGraph:
    """Every edge twice, the second time measured the other way round."""
    back_wxyz = quat.conjugate(graph.j_from_i_wxyz)
    back_t = -quat.rotate(back_wxyz, graph.j_from_i_t)
    return replace(
        graph,
        edge_i=np.concatenate([graph.edge_i, graph.edge_j]),
        edge_j=np.concatenate([graph.edge_j, graph.edge_i]),
        j_from_i_wxyz=np.concatenate([graph.j_from_i_wxyz, back_wxyz]),
        j_from_i_t=np.concatenate([graph.j_from_i_t, back_t]),
        concentration=np.tile(graph.concentration, 2),
        translation_precision=np.tile(graph.translation_precision, 2),
    )


def some_without_translation(graph: PoseGraph) -> PoseGraph:
    t = graph.j_from_i_t.copy()
    t[::3] = np.nan
    t[np.any([graph.edge_i == 5, graph.edge_j == 5], axis=0)] = np.nan  # node 5 has no position measurement at all
    return replace(graph, j_from_i_t=t)


def plain(graph: PoseGraph) -> PoseGraph:
    return replace(graph, concentration=np.full(graph.n_edges, 8.0), translation_precision=np.ones(graph.n_edges))


VARIANTS = {
    "plain": plain,
    "two components and an isolated node": lambda g: two_copies(plain(g)),
    "weights over ten orders": spread_weights,
    "duplicate edges": lambda g: doubled(plain(g)),
    "rotation-only edges": lambda g: some_without_translation(plain(g)),
    "some weights zero": lambda g: replace(plain(g), concentration=np.where(np.arange(g.n_edges) % 7 == 0, 0.0, 8.0)),
}


@pytest.mark.parametrize("kind", BUILT)
@pytest.mark.parametrize("variant", VARIANTS)
def test_without_noise_every_start_is_exact(kind: str, variant: str) -> None:
    graph = VARIANTS[variant](exact_graph())
    poses = start_poses(graph, kind, rng())
    scale = float(np.sum(graph.concentration) + np.sum(graph.translation_precision))
    tolerance = 1e-13 if variant == "weights over ten orders" else 1e-20
    assert Posterior(graph).potential(poses) <= tolerance * scale


@pytest.mark.parametrize("kind", BUILT)
def test_degenerate_graphs(kind: str) -> None:
    empty = PoseGraph(("a", "b"), [], [], np.empty((0, 4)), np.empty((0, 3)), np.empty(0), np.empty(0))
    assert len(start_poses(empty, kind, rng())) == 2
    single = PoseGraph.from_concentrations(
        [("a", "b")], [quat.exp([0.1, 0.2, 0.3])], [[1.0, 2.0, 3.0]], concentration=5.0
    )
    assert Posterior(single).potential(start_poses(single, kind, rng())) < 1e-28
    only_rotations = PoseGraph.from_concentrations([("a", "b")], [quat.exp([0.1, 0.2, 0.3])], concentration=5.0)
    assert Posterior(only_rotations).potential(start_poses(only_rotations, kind, rng())) < 1e-28


def test_names() -> None:
    assert set(BUILT) < set(STARTS)
    with pytest.raises(OptionError, match="chordal"):
        start_poses(exact_graph(), "nonsense", rng())
    with pytest.raises(NotApplicable, match="no poses of its own"):
        start_poses(exact_graph(), "given", rng())


@pytest.mark.parametrize("full", [False, True])
def test_positions_are_the_exact_minimiser(full: bool) -> None:
    graph = simulate(40, shape="torus", sigma_rot_deg=20.0, sigma_trans=0.5, seed=1).graph
    if full:
        a = rng(2).standard_normal((graph.n_edges, 3, 3))
        graph = replace(graph, translation_precision=a @ np.swapaxes(a, 1, 2) + 0.01 * np.eye(3))
    poses = random_poses(graph, rng(3))
    best = replace(poses, position=positions_given_rotations(graph, poses.wxyz, poses.position))
    posterior = Posterior(graph)
    value, gradient = posterior.gradient(best)
    _, before = posterior.gradient(poses)
    assert np.abs(gradient[:, 3:]).max() < 1e-10 * np.abs(before[:, 3:]).max()
    for k in range(5):  # and it is a minimum, not only stationary
        moved = replace(best, position=best.position + 0.1 * rng(k).standard_normal(best.position.shape))
        assert posterior.potential(moved) > value
    np.testing.assert_array_equal(best.position[0], poses.position[0])  # the anchor keeps its place


def test_untied_positions_keep_their_place() -> None:
    graph = some_without_translation(simulate(30, shape="sphere", seed=1).graph)
    base = rng(0).standard_normal((30, 3))
    position = positions_given_rotations(graph, random_poses(graph, rng(1)).wxyz, base)
    np.testing.assert_array_equal(position[5], base[5])
    assert np.abs(position - base).max() > 0.1


def test_chordal_minimises_over_free_matrices() -> None:
    """Against a dense least-squares solution of the relaxation, written down edge by edge."""
    graph = simulate(12, shape="random", sigma_rot_deg=25.0, seed=4).graph
    graph = replace(graph, concentration=rng(5).uniform(1.0, 50.0, graph.n_edges))
    n, Q = graph.n_nodes, quat.to_matrix(graph.j_from_i_wxyz)
    rows = []
    for e, (i, j) in enumerate(zip(graph.edge_i, graph.edge_j, strict=True)):
        A = np.zeros((3, 3 * n))  # R_iᵀ − Qᵀ R_jᵀ
        A[:, 3 * i : 3 * i + 3] = np.eye(3)
        A[:, 3 * j : 3 * j + 3] = -Q[e].T
        rows.append(np.sqrt(graph.concentration[e]) * A)
    A = np.concatenate(rows)
    free = np.linalg.lstsq(A[:, 3:], -A[:, :3] @ np.eye(3), rcond=None)[0]
    blocks = np.concatenate([np.eye(3)[None], free.reshape(n - 1, 3, 3)])
    u, _, vt = np.linalg.svd(np.swapaxes(blocks, 1, 2))
    sign = np.sign(np.linalg.det(u @ vt))
    u[:, :, 2] *= sign[:, None]
    expected = u @ vt
    np.testing.assert_allclose(quat.to_matrix(chordal_rotations(graph)), expected, atol=1e-10)


@pytest.mark.parametrize("nodes", [30, 90])  # the dense and the sparse way
def test_spectral_uses_the_smallest_eigenvectors(nodes: int) -> None:
    graph = simulate(nodes, shape="torus", sigma_rot_deg=15.0, seed=4).graph
    n, Q, w = graph.n_nodes, quat.to_matrix(graph.j_from_i_wxyz), graph.concentration
    L = np.zeros((3 * n, 3 * n))
    for e, (i, j) in enumerate(zip(graph.edge_i, graph.edge_j, strict=True)):
        a, b = slice(3 * i, 3 * i + 3), slice(3 * j, 3 * j + 3)
        L[a, a] += w[e] * np.eye(3)
        L[b, b] += w[e] * np.eye(3)
        L[a, b] -= w[e] * Q[e].T
        L[b, a] -= w[e] * Q[e]
    root = np.sqrt(np.diag(L))
    vectors = np.linalg.eigh(L / np.outer(root, root))[1][:, :3] / root[:, None]
    blocks = np.swapaxes(vectors.reshape(n, 3, 3), 1, 2)
    blocks *= np.sign(np.sum(np.linalg.det(blocks)))
    u, _, vt = np.linalg.svd(blocks)
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    R = u @ vt
    expected = R[0].T @ R
    np.testing.assert_allclose(quat.to_matrix(spectral_rotations(graph)), expected, atol=1e-6)


def test_nearest_rotations_against_the_singular_value_decomposition() -> None:
    g = rng(6)
    A = g.standard_normal((500, 3, 3))
    A[0], A[1], A[2] = np.diag([1.0, 1.0, -1.0]), np.zeros((3, 3)), np.outer([1.0, 2.0, 3.0], [0.0, 1.0, 0.0])
    A[3:100] = quat.to_matrix(quat.random_uniform(g, 97)) * g.uniform(1e-8, 1e8, (97, 1, 1))
    wxyz = np.empty((500, 4))
    _kernels.nearest_rotations(A, wxyz)
    np.testing.assert_allclose(np.linalg.norm(wxyz, axis=1), 1.0, atol=1e-12)
    u, s, vt = np.linalg.svd(A)
    s[:, 2] *= np.sign(np.linalg.det(u @ vt))
    best = s.sum(axis=1)  # the largest tr(RᵀA) over rotations
    reached = np.einsum("nab,nab->n", quat.to_matrix(wxyz), A)
    np.testing.assert_allclose(reached, best, rtol=1e-12, atol=1e-12)


def test_trees() -> None:
    graph = simulate(80, shape="sphere", sigma_rot_deg=5.0, seed=2).graph
    posterior = Posterior(graph)
    best = posterior.potential(best_tree_poses(graph))
    plain = posterior.potential(start_poses(graph, "tree", rng()))
    short = posterior.potential(tree_poses(graph, shortest_path_tree(graph, graph.anchors)))
    assert best <= min(plain, short)
    tree = shortest_path_tree(graph, [7], cost=np.ones(graph.n_edges))
    assert tree.parent[7] == -1
    assert np.sum(tree.parent < 0) == 1
    place = np.empty(graph.n_nodes, dtype=int)
    place[tree.order] = np.arange(graph.n_nodes)
    child = np.flatnonzero(tree.parent >= 0)
    assert np.all(place[tree.parent[child]] < place[child])  # parents come first
    ends = np.sort(np.stack([graph.edge_i, graph.edge_j])[:, tree.edge[child]], axis=0)
    np.testing.assert_array_equal(ends, np.sort(np.stack([child, tree.parent[child]]), axis=0))


@pytest.mark.skipif(DATA is None, reason="TEMPOSE_DATA is not set: no graph files to start on")
@pytest.mark.parametrize(
    ("name", "optimum"), [("sphere2500", 1687.005814), ("torus3D", 24227.045558), ("parking-garage", 1.262524)]
)
def test_relaxations_start_near_the_optimum(name: str, optimum: float) -> None:
    from tempose.io import ReadOptions, read_graph

    graph = read_graph(Path(str(DATA)) / "g2o" / f"{name}.g2o", ReadOptions(precision="isotropic"))
    posterior = Posterior(graph)
    for kind in ("chordal", "spectral"):
        value = 2.0 * posterior.potential(start_poses(graph, kind, rng()))
        assert optimum < value < 1.2 * optimum
