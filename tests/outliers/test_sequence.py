"""Ids in time: when they are, what the chain is, and which loop closures say the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.outliers.clusters import Clusters
from tempose.outliers.sequence import Sequence


@pytest.fixture(scope="module")
def walk() -> tempose.simulation.Simulated:
    return tempose.simulate(60, shape="manhattan", planar=True, sigma_rot_deg=0.5, sigma_trans=0.01, seed=4)


def sequence_of(graph: tempose.PoseGraph) -> Sequence:
    found = Sequence.of(graph)
    assert found is not None
    return found


def test_a_walk_is_a_sequence_and_a_dense_graph_is_not(walk: tempose.simulation.Simulated) -> None:
    assert Sequence.of(walk.graph) is not None
    dense = tempose.simulate(30, completeness=0.5, seed=1).graph
    assert Sequence.of(dense) is None  # consecutive ids are joined no more often than others
    nameless = replace(walk.graph, node_ids=tuple("a" * (k + 1) for k in range(walk.graph.n_nodes)))
    assert Sequence.of(nameless) is None


def test_an_order_is_evident_if_chance_does_not_make_it(walk: tempose.simulation.Simulated) -> None:
    """Twenty scans of which every second pair was registered, and all of the consecutive ones: that is no chance."""
    complete = tempose.simulate(20, completeness=1.0, seed=1).graph
    apart = np.abs(complete.edge_i - complete.edge_j)
    others = np.random.default_rng(0).random(complete.n_edges) < 0.6
    assert Sequence.of(complete.with_edges((apart == 1) | others)) is not None
    fewer = np.random.default_rng(1).random(complete.n_edges) < 0.7
    assert Sequence.of(complete.with_edges((fewer & (apart == 1)) | others)) is None  # negative control: by chance


def test_the_order_does_not_depend_on_the_order_of_nodes(walk: tempose.simulation.Simulated) -> None:
    first = sequence_of(walk.graph)
    shuffled = walk.graph.subgraph(np.random.default_rng(0).permutation(walk.graph.n_nodes))
    second = sequence_of(shuffled)
    assert [shuffled.node_ids[k] for k in np.argsort(second.rank)] == [
        walk.graph.node_ids[k] for k in np.argsort(first.rank)
    ]
    assert second.is_link.sum() == first.is_link.sum() == walk.graph.n_nodes - 1


def test_poses_are_chained_without_loop_closures(walk: tempose.simulation.Simulated) -> None:
    sequence = sequence_of(walk.graph)
    wxyz, position = sequence.chain_poses.wxyz, sequence.chain_poses.position
    links = np.flatnonzero(sequence.is_link)
    i, j = walk.graph.edge_i[links], walk.graph.edge_j[links]
    q, t = se3.a_from_b((wxyz[j], position[j]), (wxyz[i], position[i]))
    assert np.max(quat.angle_between(q, walk.graph.j_from_i_wxyz[links])) < 1e-9
    assert np.allclose(t, walk.graph.j_from_i_t[links], atol=1e-9)


def test_segments_end_where_links_are_given_up(walk: tempose.simulation.Simulated) -> None:
    sequence = sequence_of(walk.graph)
    kept = np.ones(walk.graph.n_edges, dtype=bool)
    lost = np.flatnonzero(sequence.is_link)[[10, 30]]
    kept[lost] = False
    segment = sequence.segments(kept)
    ends = np.sort(sequence.rank[sequence.later[lost]])
    assert segment[np.argsort(sequence.rank)].tolist() == [0] * ends[0] + [1] * (ends[1] - ends[0]) + [2] * (
        60 - ends[1]
    )


def test_displacements_bring_the_later_end_to_where_the_edge_has_it(walk: tempose.simulation.Simulated) -> None:
    sequence = sequence_of(walk.graph)
    poses = sequence.chain_poses
    q, t = sequence.displacements(poses)
    k = int(np.flatnonzero(~sequence.is_link)[0])
    a, b = sequence.earlier[k], sequence.later[k]
    moved = se3.compose((q[k], t[k]), (poses.wxyz[b], poses.position[b]))
    measured = walk.graph.measured(np.array([b]), np.array([a]), np.array([k]))
    wanted = se3.compose((poses.wxyz[a], poses.position[a]), (measured[0][0], measured[1][0]))
    assert quat.angle_between(moved[0], wanted[0]) < 1e-9
    assert np.allclose(moved[1], wanted[1])


def test_look_alikes_are_clusters_of_their_own() -> None:
    """Every edge of an alias is in one cluster or a few, and none of them has a right edge."""
    made = tempose.simulate(120, shape="manhattan", planar=True, sigma_rot_deg=0.5, sigma_trans=0.01, aliases=2, seed=3)
    sequence = sequence_of(made.graph)
    clusters = Clusters.of(sequence, sequence.chain_poses, np.radians(0.5), 0.01)
    assert np.all((clusters.of_edge >= 0) == ~sequence.is_link)
    assert clusters.size.sum() == np.sum(~sequence.is_link)
    for alias in range(2):
        edges = np.flatnonzero(made.alias == alias)
        labels, counts = np.unique(clusters.of_edge[edges], return_counts=True)
        assert counts.max() >= 0.5 * len(edges)
        assert not np.any(np.isin(clusters.of_edge[~made.is_wrong & ~sequence.is_link], labels[counts > 1]))
    # control: with σ a hundred times too small nothing is alike
    alone = Clusters.of(sequence, sequence.chain_poses, np.radians(0.005), 0.0001)
    assert np.mean(alone.size == 1) > 0.95


def test_clusters_do_not_depend_on_the_direction_or_order_of_edges() -> None:
    made = tempose.simulate(80, shape="manhattan", sigma_rot_deg=0.5, sigma_trans=0.01, aliases=1, seed=5)
    order = np.random.default_rng(1).permutation(made.graph.n_edges)
    g = made.graph
    shuffled = replace(
        g, edge_i=g.edge_i[order], edge_j=g.edge_j[order], j_from_i_wxyz=g.j_from_i_wxyz[order],
        j_from_i_t=g.j_from_i_t[order], concentration=g.concentration[order],
        translation_precision=g.translation_precision[order],
    )  # fmt: skip
    first, second = (
        Clusters.of(s, s.chain_poses, np.radians(0.5), 0.01) for s in (sequence_of(g), sequence_of(shuffled))
    )
    same_first = first.of_edge[order][:, None] == first.of_edge[order][None]
    same_second = second.of_edge[:, None] == second.of_edge[None]
    assert np.array_equal(same_first, same_second)
