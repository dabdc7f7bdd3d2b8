"""Distrusted edges that agree with each other: found where they do, with the part they would move, and not by chance."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers.lying import lying
from tempose import describe
from tempose.analysis.trust import Doubt, Trust
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.outliers import Robust
from tempose.outliers import competing as module
from tempose.outliers.competing import alternatives
from tempose.simulation import Simulated, corrupt, simulate

LIKE_OTHERS = [44 / 65, 21 / 65]  # 43 edges for the one, 20 for the other, by Laplace's rule


@pytest.fixture(scope="module")
def made() -> Simulated:
    return simulate(16, completeness=1.0, sigma_rot_deg=1.0, sigma_trans=0.01, seed=3)


@pytest.mark.parametrize("translations", [True, False])
def test_edges_that_agree_are_found_with_the_part_they_move(made: Simulated, translations: bool) -> None:
    graph, wrong = lying(made, 20)
    if not translations:
        graph = replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan))
    (one,) = alternatives(graph, made.truth, (~wrong).astype(float))
    assert len(one.nodes) >= 7  # a node that no lying edge joins is left where it is
    assert set(one.nodes.tolist()) <= set(range(8)) or set(one.nodes.tolist()) <= set(range(8, 16))
    assert set(one.edges.tolist()) <= set(np.flatnonzero(wrong).tolist())
    assert len(one.edges) >= 18  # at the 0.99 quantile
    assert 40 <= one.against <= 64 - 20
    assert one.chance < 1e-10
    before, after = (residuals(graph, poses) for poses in (made.truth, one.moved(made.truth)))
    assert np.degrees(before.angle[wrong]).min() > 50.0
    assert np.degrees(after.angle[wrong]).max() < 6.0
    if translations:
        assert np.linalg.norm(after.translation[wrong], axis=1).max() < 0.3
    assert f"{len(one.edges)} distrusted edges agree with each other" in describe.alternative(one)
    assert f"{len(one.nodes)} nodes" in describe.alternative(one)
    assert f"{one.against} edges that fit the reported poses speak against that" in describe.alternative(one)


def test_a_motion_within_the_noise_is_no_alternative(made: Simulated) -> None:
    graph, wrong = lying(made, 20, (quat.exp([0.0, 0.0, 0.06]), np.zeros(3)))
    assert alternatives(graph, made.truth, (~wrong).astype(float)) == ()


def planar(graph: PoseGraph, wrong: np.ndarray, seed: int) -> tuple[PoseGraph, Poses]:
    """The same edges in a plane; wrong ones turn about the same axis, so that they agree more often."""
    rng, n, m = np.random.default_rng(seed), graph.n_nodes, graph.n_edges
    up = np.array([0.0, 0.0, 1.0])
    flat = np.array([1.0, 1.0, 0.0])
    poses = Poses(
        graph.node_ids, quat.exp(rng.uniform(-np.pi, np.pi, (n, 1)) * up), 2.0 * rng.standard_normal((n, 3)) * flat
    )
    i, j = graph.edge_i, graph.edge_j
    q, t = se3.a_from_b((poses.wxyz[j], poses.position[j]), (poses.wxyz[i], poses.position[i]))
    turn = np.where(wrong, rng.uniform(-np.pi, np.pi, m), 0.05 * rng.standard_normal(m))
    shift = np.where(wrong, 2.0, 0.05)[:, None] * rng.standard_normal((m, 3)) * flat
    return replace(graph, j_from_i_wxyz=quat.multiply(q, quat.exp(turn[:, None] * up)), j_from_i_t=t + shift), poses


@pytest.mark.parametrize("kind", ["poses", "rotations", "planar"])
def test_independent_wrong_edges_do_not_agree(kind: str) -> None:
    for seed, share in itertools.product(range(4), (0.2, 0.5, 0.8)):
        made = simulate(40, completeness=0.4, seed=seed)
        bad = corrupt(made.graph, share, seed=seed, kind="uniform")
        graph, truth = bad.graph, made.truth
        if kind == "planar":
            graph, truth = planar(graph, bad.is_wrong, seed)
        elif kind == "rotations":
            graph = replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan))
        assert alternatives(graph, truth, (~bad.is_wrong).astype(float)) == ()


def test_the_cut_is_the_smallest() -> None:
    graph = simulate(9, completeness=0.5, seed=2).graph
    source, sink = np.zeros(9, dtype=bool), np.zeros(9, dtype=bool)
    source[[0, 3]], sink[[1, 7]] = True, True

    def crossing(inside: np.ndarray) -> int:
        return int(np.sum(inside[graph.edge_i] != inside[graph.edge_j]))

    every = (np.array(bits, dtype=bool) for bits in itertools.product((False, True), repeat=9))
    least = min(crossing(inside) for inside in every if np.all(inside[source]) and not np.any(inside[sink]))
    found = module._cut(graph, source, sink)
    assert np.all(found[source])
    assert not np.any(found[sink])
    assert crossing(found) == least


@pytest.mark.parametrize("repeats", ["cluster", "independent"])
def test_a_solve_says_so_and_says_it_again_when_resumed(made: Simulated, tmp_path: Path, repeats: str) -> None:
    graph, wrong = lying(made, 20)
    robust = Robust(repeats=repeats)
    options = {"robust": robust, "noise": "auto", "draws": 0, "certify": False, "directory": tmp_path}
    solution = tempose.solve(graph, **options)
    told = [line for line in solution.notices if "agree with each other" in line]
    if repeats == "cluster":  # told as an explanation
        assert not told
        assert [one.probability for one in solution.explanations] == pytest.approx(LIKE_OTHERS, abs=0.01)
        assert set(np.flatnonzero(solution.explanation_inliers(0) < 0.5)) == set(np.flatnonzero(wrong))
        assert np.all(solution.explanation_inliers(1)[wrong] > 0.5)
    else:
        assert len(told) == 1 and not solution.explanations
        assert set(solution.verdicts.distrusted.tolist()) == set(np.flatnonzero(wrong).tolist())
    again = tempose.solve(graph, **options)
    assert again.notices == solution.notices
    np.testing.assert_array_equal(again.estimate.wxyz, solution.estimate.wxyz)
    assert again.summary() == solution.summary()


def test_distrusted_edges_that_agree_are_a_doubt(made: Simulated) -> None:
    robust = Robust(repeats="independent")
    solution = tempose.solve(lying(made, 20)[0], robust=robust, noise="auto", draws=0, certify=False)
    found = {one.doubt: one for one in solution.judgement.findings}[Doubt.OTHER_PLACES]
    assert (found.trust, found.value) == (Trust.CARE, 1.0)
    assert "distrusted edges agree on another place of 1 part" in solution.summary()
    wrong = corrupt(made.graph, 20 / made.graph.n_edges, seed=5)  # negative control: as many, each by itself
    alone = tempose.solve(wrong.graph, robust=robust, noise="auto", draws=0, certify=False)
    assert len(alone.verdicts.distrusted) == 20 and Doubt.OTHER_PLACES not in dict(alone.doubts)
