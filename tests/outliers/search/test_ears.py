"""Growth by ears: what errors add up to along ways, and parts that only right edges hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose._support.compiling import interpreted
from tempose._typing import Mask
from tempose.geometry import align
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.trees import tree_poses
from tempose.outliers.search import _ears
from tempose.outliers.search.ears import _covariances, grow_by_ears, joined
from tempose.outliers.search.growing import extent, grow_from_chain
from tempose.outliers.search.triangles import HalfEdges
from tempose.outliers.sequence import Sequence


def blocks(graph: PoseGraph, kept: Mask) -> np.ndarray:
    """Part (n,) that each node is in, if nothing but cycles of some edges holds nodes together."""
    some = graph.with_edges(kept)
    whole = np.ones(some.n_edges, dtype=bool)
    whole[some.bridges] = False
    return some.with_edges(whole).component


def forest(kernel, graph: PoseGraph, placed: Mask, cost: np.ndarray):
    h, n = HalfEdges.of(graph), graph.n_nodes
    wxyz, position = np.tile(quat.IDENTITY, (n, 1)), np.zeros((n, 3))
    via, branch, depth = (np.empty(n, dtype=np.int64) for _ in range(3))
    sums = np.empty((n, _ears.SUMS))
    rot, trans = np.full(graph.n_edges, 0.01), np.full(graph.n_edges, 0.04)
    kernel(
        h.start, h.neighbour, h.edge, h.twin, h.wxyz, h.t, cost, rot, trans, placed, wxyz, position, via, branch, sums,
        depth,
    )  # fmt: skip
    return wxyz, position, via, branch, sums, depth


def test_ways_are_cheapest_and_lead_where_their_edges_say() -> None:
    graph = tempose.simulate(30, completeness=0.2, seed=1).graph
    cost = np.random.default_rng(0).uniform(1.0, 2.0, graph.n_edges)
    placed = np.arange(30) == 4
    wxyz, position, via, _, sums, depth = forest(_ears.spread, graph, placed, cost)
    edge = HalfEdges.of(graph).edge
    tree = graph.with_edges(np.isin(np.arange(graph.n_edges), edge[via[via >= 0]]))
    assert tree.n_edges == 29  # a spanning tree
    expected = tree_poses(tree, tree.spanning_tree(np.ones(29)))
    i, j = graph.edge_i, graph.edge_j
    found = Poses(graph.node_ids, wxyz, position)
    relative = expected.moved(align((expected.wxyz, expected.position), (wxyz, position)))
    assert found.position == pytest.approx(relative.position, abs=1e-9)
    far = np.zeros(30)
    for node in np.argsort(depth, kind="stable"):
        if via[node] >= 0:
            k = edge[via[node]]
            far[node] = far[i[k] + j[k] - node] + cost[k]
    assert np.all(np.abs(far[i] - far[j]) <= cost + 1e-12)  # nothing is cheaper
    assert sums[:, 0] == pytest.approx(0.01 * depth)
    assert sums[:, 10] == pytest.approx(0.04 * depth)
    plain = forest(interpreted(_ears.spread), graph, placed, cost)
    assert all(np.allclose(a, b) for a, b in zip((wxyz, position, via, sums), (*plain[:3], plain[4]), strict=True))


@pytest.mark.parametrize("compiled", [True, False])
def test_cycles_are_the_ways_of_a_forest_from_one_end_to_the_other(compiled: bool) -> None:
    """The shortest way around each edge, as :func:`spread` finds it; none where it is too long, or where there is none."""
    graph = tempose.simulate(40, shape="manhattan", loops_per_node=0.4, seed=2).graph
    h, m, most = HalfEdges.of(graph), graph.n_edges, 20
    rot, trans = np.full(m, 0.01), np.full(m, 0.04)
    ways, length = np.full((m, most), -1), np.empty(m, dtype=np.int64)
    wxyz, position, sums = np.empty((m, 4)), np.empty((m, 3)), np.empty((m, _ears.SUMS))
    kernel = _ears.cycles if compiled else interpreted(_ears.cycles)
    kernel(
        h.start, h.neighbour, h.edge, h.twin, h.wxyz, h.t, rot, trans, graph.edge_i, graph.edge_j, ways, length, wxyz,
        position, sums,
    )  # fmt: skip
    for k in range(m):
        i, j = graph.edge_i[k], graph.edge_j[k]
        cost = np.where(np.arange(m) == k, np.inf, 1.0)
        at, where, via, _, added, depth = forest(_ears.spread, graph, np.arange(40) == i, cost)
        if via[j] < 0 or depth[j] > most:
            assert length[k] == -1
            continue
        way, node = [], j
        while via[node] >= 0:
            way.append(h.edge[via[node]])
            node = h.neighbour[h.twin[via[node]]]
        assert ways[k, : length[k]].tolist() == way
        for found, expected in ((wxyz[k], at[j]), (position[k], where[j]), (sums[k], added[j])):
            assert np.array_equal(found, expected) if compiled else np.allclose(found, expected)
    assert np.any(length < 0) and np.any(length > 3)


def test_the_blame_for_an_ear_is_shared_among_its_edges() -> None:
    """A square with node 0 placed: the way to 2 over 1, that to 3, and the edge between 2 and 3 that closes the ear."""
    graph = tempose.simulate(4, completeness=1.0, seed=0).graph
    ends = np.sort(np.stack([graph.edge_i, graph.edge_j], axis=1), axis=1).tolist()
    square = [ends.index(pair) for pair in ([0, 1], [1, 2], [0, 3], [2, 3])]
    graph = graph.with_edges(np.array(square))
    h = HalfEdges.of(graph)
    cost = np.array([1.0, 1.0, 1.0, 9.0])
    via = forest(_ears.spread, graph, np.arange(4) == 0, cost)[2]
    for accepted, expected in (([], [0.25] * 4), ([0], [0.0, 1 / 3, 1 / 3, 1 / 3])):
        for kernel in (_ears.suspect, interpreted(_ears.suspect)):
            blame = np.zeros(4)
            known = np.isin(np.arange(4), accepted)
            kernel(h.neighbour, h.edge, h.twin, via, np.array([3]), np.array([[2, 3]]), known, blame)
            assert blame == pytest.approx(expected)


def test_covariances_are_those_of_noisy_ways() -> None:
    """A way of 12 edges with small errors, drawn 20 000 times, seen from its end."""
    rng, n, draws = np.random.default_rng(3), 12, 20_000
    steps = rng.standard_normal((n, 3))
    at = np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])
    sums = np.zeros((1, _ears.SUMS))
    for a, b in zip(at[:-1], at[1:], strict=True):
        _ears.add_edge(a, b, 0.01**2, 0.03**2, sums[0])
    found = _covariances(sums, at[-1:], 1.0, 1.0)[0]
    middle = 0.5 * (at[:-1] + at[1:])
    turn, shift = 0.01 * rng.standard_normal((draws, n, 3)), 0.03 * rng.standard_normal((draws, n, 3))
    end = np.sum(np.cross(turn, at[-1] - middle) + shift, axis=1)
    drawn = np.cov(np.concatenate([turn.sum(axis=1), end], axis=1).T)
    scale = np.sqrt(np.outer(np.diag(drawn), np.diag(drawn)))
    assert np.abs(found - drawn).max() < np.max(0.05 * scale)
    assert np.all(np.abs((found - drawn) / scale) < 0.05)
    elsewhere = _covariances(sums, np.zeros((1, 3)), 1.0, 1.0)[0]  # control: seen from where it begins
    assert np.any(np.abs((elsewhere - drawn) / scale) > 0.2)


@pytest.mark.parametrize("planar", [True, False])
@pytest.mark.parametrize("stated", [1.0, 4.0])
def test_right_edges_hold_the_parts_where_links_are_wrong(planar: bool, stated: float) -> None:
    made = tempose.simulate(
        150, shape="manhattan", planar=planar, sigma_rot_deg=1.0, sigma_trans=0.03, wrong_odometry=0.08, wrong_loops=0.1,
        seed=5,
    )  # fmt: skip
    graph = replace(
        made.graph,
        concentration=made.graph.concentration / stated**2,
        translation_precision=made.graph.translation_precision / stated**2,
    )
    sequence = Sequence.of(graph)
    assert sequence is not None
    wide = extent(sequence.chain_poses)
    sure, *_ = grow_by_ears(graph, sequence.is_link, wide, np.random.default_rng(0))
    assert not np.any(sure.accepted & made.is_wrong)
    true = blocks(graph, ~made.is_wrong)
    main = true == np.bincount(true).argmax()
    assert np.mean(sure.part[main] == sure.part[main][0]) > 0.9
    assert np.array(sure.scales) * stated == pytest.approx([1.0, 1.0], rel=0.5)
    # control: from the chain, as if no link were wrong, few right loop closures are found
    loops = ~sequence.is_link & ~made.is_wrong
    assert np.mean(grow_from_chain(sequence).accepted[loops]) < 0.6 < np.mean(sure.accepted[loops])


def test_without_cycles_nothing_grows() -> None:
    graph = tempose.simulate(20, shape="trajectory", seed=1).graph
    chain = graph.with_edges(np.abs(graph.edge_i - graph.edge_j) == 1)
    assert grow_by_ears(chain, np.ones(19, dtype=bool), 1.0, np.random.default_rng(0)) == ()


def test_parts_are_joined_as_they_are() -> None:
    made = tempose.simulate(12, completeness=0.5, sigma_rot_deg=0.0, sigma_trans=0.0, seed=3)
    graph, truth = made.graph, made.truth
    left = np.arange(12) < 6
    inside = left[graph.edge_i] == left[graph.edge_j]
    turn = quat.exp(np.array([0.0, 0.0, 1.0]))
    apart = Poses(
        truth.ids,
        np.where(left[:, None], truth.wxyz, quat.multiply(turn, truth.wxyz)),
        np.where(left[:, None], truth.position, quat.rotate(turn, truth.position) + 1.0),
    )
    poses = joined(graph, apart, inside, np.zeros(graph.n_edges))
    found = np.linalg.norm(poses.position[:, None] - poses.position[None], axis=2)
    true = np.linalg.norm(truth.position[:, None] - truth.position[None], axis=2)
    assert found == pytest.approx(true, abs=1e-5)
    control = np.linalg.norm(apart.position[:, None] - apart.position[None], axis=2)
    assert np.abs(control - true).max() > 0.1
