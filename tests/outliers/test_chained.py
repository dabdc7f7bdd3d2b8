"""Fits of explanations: what one keeps is right, and their poses are the lowest that are near."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.outliers import chained
from tempose.outliers.em import repeated


def walk(loops_per_node: float = 0.5):
    return tempose.simulate(60, shape="manhattan", planar=True, seed=4, loops_per_node=loops_per_node)


def is_link(graph: PoseGraph) -> np.ndarray:
    number = np.array(graph.node_ids)
    return np.abs(number[graph.edge_i] - number[graph.edge_j]) == 1


def with_repeats(graph: PoseGraph, links: int, loops: int) -> PoseGraph:
    """Every link, and every loop closure, that many times; each second copy the other way round."""
    edge = np.arange(graph.n_edges)
    rows = np.concatenate([np.repeat(edge[is_link(graph)], links), np.repeat(edge[~is_link(graph)], loops)])
    ends = [(graph.node_ids[graph.edge_i[e]], graph.node_ids[graph.edge_j[e]]) for e in rows]
    return PoseGraph.from_concentrations(
        ends, graph.j_from_i_wxyz[rows], graph.j_from_i_t[rows], concentration=graph.concentration[rows],
        translation_precision=graph.translation_precision[rows], dimension=2,
    )  # fmt: skip


@pytest.mark.parametrize("copies", [(2, 1), (1, 3)])
def test_measurements_that_are_listed_twice_do_not_make_the_noise_collapse(copies):
    """Copies agree with each other exactly: taken for measurements, they say that there is no noise, and all else is wrong."""
    graph = with_repeats(walk().graph, *copies)
    solution = tempose.solve(graph, robust=True, noise="auto", draws=0, certify=False, analyse=False)
    found = solution.parameters
    assert 0.7 < found.rotation_scale < 1.4 and 0.7 < found.translation_scale < 1.4
    right = solution.likelihood.inlier_probability(solution.posterior.energies(solution.estimate))
    assert np.mean(right) > 0.95  # double links outweigh a loop closure or two
    once = graph.with_edges(~repeated(graph))
    assert repeated(graph).sum() == graph.n_edges - walk().graph.n_edges
    assert not np.any(repeated(once))
    rng = np.random.default_rng(0)  # negative control: copies that err, by as little as 0.01σ, are measurements
    turn = quat.exp(np.radians(0.03) * rng.standard_normal((graph.n_edges, 1)) * np.array([0.0, 0.0, 1.0]))
    assert not np.any(repeated(replace(graph, j_from_i_wxyz=quat.multiply(turn, graph.j_from_i_wxyz))))


def test_a_copy_may_be_the_inverse():
    graph = tempose.simulate(8, seed=1).graph
    i, j = graph.edge_i[3], graph.edge_j[3]
    q, t = graph.j_from_i_wxyz[3], graph.j_from_i_t[3]
    back = quat.conjugate(q), -quat.rotate(quat.conjugate(q), t)
    doubled = PoseGraph.from_concentrations(
        [*zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True), (int(j), int(i))],
        np.vstack([graph.j_from_i_wxyz, back[0]]), np.vstack([graph.j_from_i_t, back[1]]),
        concentration=np.append(graph.concentration, graph.concentration[3]),
        translation_precision=np.append(graph.translation_precision, graph.translation_precision[3]),
    )  # fmt: skip
    assert np.flatnonzero(repeated(doubled)).tolist() == [graph.n_edges]


def test_links_that_an_explanation_keeps_are_right_in_it():
    """At poses where one is not, another explanation holds; so draws of this one do not go there."""
    made = walk()
    solution = tempose.solve(made.graph, robust=True, noise="auto", draws=0, certify=False, analyse=False)
    links = is_link(solution.graph)
    for one in solution.weighing.explanations:
        kept = links.copy()
        kept[one.given_up] = False
        assert one.prior[kept].min() >= 1.0 - 1e-6
        assert np.all(one.prior[one.given_up] <= 1e-6)
        assert one.prior[~links].max() < 1.0 - 1e-6  # loop closures are left to themselves


def test_poses_are_alike_if_no_node_lies_elsewhere() -> None:
    """The comparison that stops at the first node says what counting all of them says; positions may not count."""
    rng = np.random.default_rng(3)
    turn, shift = rng.normal(0.0, 1.0, (6, 3)), rng.normal(0.0, 3.0, (6, 3))
    found = []
    for size in (0.0, 1e-3, 0.02, 0.1, 0.5):
        for moved in range(6):  # one node, by more and more
            w, t = turn.copy(), shift.copy()
            w[moved] += size * rng.standard_normal(3)
            t[moved] += size * rng.standard_normal(3)
            found.append(Poses(tuple(range(6)), quat.exp(w), t))
    for sigmas in ((0.01, 0.01), (0.001, 0.05), (0.01, float("nan"))):
        views = chained._Views(found, sigmas)
        alike = [[views.are_alike(a, b) for b in range(len(found))] for a in range(len(found))]
        assert np.array_equal(alike, [views.apart_from(a) == 0.0 for a in range(len(found))])
        assert 0.05 < np.mean(alike) < 0.95
