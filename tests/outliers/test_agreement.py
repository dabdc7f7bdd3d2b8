"""How often wrong edges agree with each other, and what that makes of verdicts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tempose
from helpers.lying import listed_again, turned_round, unnamed
from tempose import describe
from tempose.analysis.trust import Doubt, Trust
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.outliers import Robust
from tempose.outliers.agreement import Agreement, _within, agreement, said_again, worth_of_clusters
from tempose.outliers.beliefs import OF_CHAIN
from tempose.outliers.clusters import Clusters
from tempose.outliers.explanations import ExplanationSearch
from tempose.outliers.sequence import Sequence
from tempose.simulation import Simulated
from tempose.studies.experiments.robust import clusters

N_GRAPHS = 6


def independent(seed: int, **kind: Any) -> Simulated:
    return tempose.simulate(30, completeness=0.5, wrong_edges=0.4, seed=seed, **kind)


@pytest.mark.parametrize(
    "kind", [{}, {"planar": True}, {"sigma_rot_deg": 10.0, "sigma_trans": 0.3}], ids=["space", "plane", "much noise"]
)
def test_independent_wrong_edges_agree_by_chance_only(kind: dict[str, Any]) -> None:
    found = []
    for seed in range(N_GRAPHS):
        made = independent(seed, **kind)
        right = (~made.is_wrong).astype(float)
        here = agreement(made.graph, made.truth, right, right * 0.0 + 0.5)
        assert here is not None
        assert here.called_wrong == pytest.approx(made.is_wrong.mean(), abs=0.02)
        found.append(here.agreeing)
        if here.agreeing == 0.0:
            assert np.array_equal(here.verdict(right), right) and here.share_right == 1.0
    assert np.mean(found) < 0.02 and max(found) < 0.1


def test_agreement_by_chance_is_taken_off() -> None:
    """Negative control: with so much noise nearly every wrong edge says what some other one says."""
    made = independent(1, sigma_rot_deg=10.0, sigma_trans=0.3)
    rows, sigmas = np.flatnonzero(made.is_wrong), made.graph.median_sigmas
    says, by_chance = said_again(made.graph, made.truth, rows, ~made.is_wrong, sigmas)
    assert says.mean() > 0.5 and by_chance.mean() > says.mean() - 0.15


def test_false_motions_between_groups_agree() -> None:
    made = tempose.simulate(30, completeness=0.5, seed=3)
    bad = clusters(made, 0.4, 3)
    found = agreement(bad.graph, made.truth, (~bad.is_wrong).astype(float), np.full(bad.graph.n_edges, 0.5))
    assert found is not None
    q, v = found.called_wrong, found.agreeing
    assert q == pytest.approx(bad.is_wrong.mean(), abs=0.02) and v > 0.9
    assert found.share_right == pytest.approx((1.0 - q) / (1.0 - q + q * v))
    assert np.all(bad.is_wrong[found.repeated])
    p = found.verdict((~bad.is_wrong).astype(float))
    assert p[found.fits] == pytest.approx(found.share_right) and p[found.repeated] == pytest.approx(
        1.0 - found.share_right
    )


def test_verdicts_are_lower_by_what_agreement_is_worth() -> None:
    fits, repeated = np.array([True, False, False, False]), np.array([False, True, False, False])
    found = Agreement(0.5, 0.6, fits, repeated, np.ones(4, dtype=bool))
    s = 0.5 / (0.5 + 0.3)
    p = np.array([0.9, 0.1, 0.1, 0.8])  # the last one is far off, and believed because tails are heavy
    assert found.share_right == pytest.approx(s)
    assert found.verdict(p) == pytest.approx([0.9 * s, 0.05 * s + 0.9 * (1.0 - s), 0.05 * s, 0.4 * s])
    assert np.array_equal(replace(found, agreeing=0.0).verdict(p), p)
    assert replace(found, called_wrong=1.0, agreeing=1.0).share_right == 0.0
    assert replace(found, called_wrong=1.0, agreeing=0.0).share_right == 1.0
    others = np.array([True, False, True, True])  # an edge that is certain, or a fix
    assert replace(found, judged=others).verdict(p) == pytest.approx([0.9 * s, 0.1, 0.05 * s, 0.4 * s])


def found_in(graph: PoseGraph, poses: Poses, right: Any) -> Agreement:
    here = agreement(graph, poses, np.asarray(right, dtype=float), np.full(graph.n_edges, 0.5))
    assert here is not None
    return here


def test_copies_of_an_edge_do_not_agree_with_it() -> None:
    made = independent(1)
    graph = listed_again(made.graph, np.arange(made.graph.n_edges))
    once, both = (found_in(one, made.truth, np.tile(~made.is_wrong, k)) for one, k in ((made.graph, 1), (graph, 2)))
    assert once.agreeing == both.agreeing == 0.0 and both.called_wrong == once.called_wrong
    says, _ = said_again(graph, made.truth, np.flatnonzero(~both.fits), both.fits, graph.median_sigmas)
    assert says.mean() > 0.95  # the negative control
    made = tempose.simulate(30, completeness=0.5, seed=3)
    bad = clusters(made, 0.4, 3)
    found = found_in(listed_again(bad.graph, np.arange(bad.graph.n_edges)), made.truth, np.tile(~bad.is_wrong, 2))
    half = bad.graph.n_edges
    assert found.agreeing > 0.9 and np.array_equal(found.repeated[:half], found.repeated[half:])


def test_edges_of_their_own_precision_fit_by_that() -> None:
    """Four in ten are ten times as rough as the others, and say so; no edge is wrong."""
    for seed in range(4):
        fine = tempose.simulate(30, completeness=0.5, sigma_rot_deg=1.0, sigma_trans=0.02, seed=seed)
        rough = tempose.simulate(30, completeness=0.5, sigma_rot_deg=10.0, sigma_trans=0.2, seed=seed)
        some = np.arange(fine.graph.n_edges) % 5 < 2
        mixed = {
            name: np.where(some.reshape(-1, *(1,) * (a.ndim - 1)), b, a)
            for name in ("j_from_i_wxyz", "j_from_i_t", "concentration", "translation_precision")
            for a, b in ((getattr(fine.graph, name), getattr(rough.graph, name)),)
        }
        found = found_in(replace(fine.graph, **mixed), fine.truth, np.ones(fine.graph.n_edges))
        assert found.called_wrong < 0.05 and found.agreeing == 0.0
        as_if_alike = found_in(
            replace(fine.graph, **{k: mixed[k] for k in ("j_from_i_wxyz", "j_from_i_t")}), fine.truth, some + 1
        )
        assert as_if_alike.called_wrong > 0.3  # the negative control


@pytest.mark.parametrize("other_way", [False, True])
def test_how_large_a_scene_is_and_from_which_end_edges_are_listed_does_not_matter(other_way: bool) -> None:
    made = tempose.simulate(30, completeness=0.5, sigma_trans=0.005, seed=3)
    bad = clusters(made, 0.4, 3)
    here = bad.graph  # turns of 3° move the far end of an edge by forty times the noise of its translation
    graph = turned_round(here, np.arange(0, here.n_edges, 2)) if other_way else here
    assert found_in(graph, made.truth, ~bad.is_wrong).agreeing > 0.85


def test_certain_edges_and_rotations_alone_are_left_alone() -> None:
    made = tempose.simulate(30, completeness=0.5, seed=3)
    bad = clusters(made, 0.4, 3)
    right, prior = (~bad.is_wrong).astype(float), np.full(bad.graph.n_edges, 0.5)
    assert agreement(bad.graph, made.truth, right, prior + 0.5) is None  # nothing can be wrong
    prior[np.flatnonzero(~bad.is_wrong)[:20]] = 1.0
    found = agreement(bad.graph, made.truth, right, prior)
    assert found is not None and found.share_right < 0.8
    p = found.verdict(right)
    assert np.all(p[prior == 1.0] == 1.0) and p[prior < 1.0].max() == pytest.approx(found.share_right)
    unplaced = replace(bad.graph, j_from_i_t=np.full_like(bad.graph.j_from_i_t, np.nan))
    assert agreement(unplaced, made.truth, right, prior) is None
    few = unplaced.j_from_i_t.copy()
    few[:5] = bad.graph.j_from_i_t[:5]
    here = agreement(replace(unplaced, j_from_i_t=few), made.truth, right, prior)
    assert here is not None and here.agreeing == 0.0  # turns alone agree by chance


@pytest.mark.parametrize("planar", [False, True], ids=["space", "plane"])
def test_the_kernel_is_its_plain_twin(planar: bool) -> None:
    made = tempose.simulate(
        14, completeness=0.7, planar=planar, wrong_edges=0.4, sigma_rot_deg=12.0, sigma_trans=0.3, seed=5
    )
    bad = made if planar else clusters(made, 0.3, 5)
    sigmas = bad.graph.median_sigmas
    fits = _within(bad.graph, made.truth, sigmas)
    rows = np.flatnonzero(~fits)
    says, by_chance = said_again(bad.graph, made.truth, rows, fits, sigmas)
    again, chance = plain(bad.graph, made.truth, rows, fits, sigmas)
    assert says.tolist() == again and 0.1 < says.mean() < 1.0
    assert by_chance == pytest.approx(chance, abs=1e-12) and 0.0 < np.mean(chance) < 1.0


def plain(
    graph: PoseGraph, poses: Poses, rows: Any, fits: Any, sigmas: tuple[float, float]
) -> tuple[list[bool], list[float]]:
    """Pair by pair, with the package's own quaternions."""
    turns, moves = int(np.sum(graph.axes < 3)), graph.dimension
    near = np.eye(graph.n_nodes, dtype=bool)
    near[graph.edge_i[fits], graph.edge_j[fits]] = near[graph.edge_j[fits], graph.edge_i[fits]] = True

    def motion(row: int, back: bool) -> Any:
        a, b = (graph.edge_j, graph.edge_i) if back else (graph.edge_i, graph.edge_j)
        i, j, edge = a[row : row + 1], b[row : row + 1], np.array([row])
        wanted = se3.compose((poses.wxyz[i], poses.position[i]), graph.measured(j, i, edge))
        return se3.compose(wanted, se3.inverse((poses.wxyz[j], poses.position[j])))

    says, pairs = [False] * len(rows), np.zeros(len(rows))
    tally = {"elsewhere": 0, "turned": 0, "turned alike, elsewhere": 0, "at one place, turned": 0}
    for x, e in enumerate(rows):
        for y, f in enumerate(rows):
            for back in (False, True) if y > x else ():
                k, other = (graph.edge_j[f], graph.edge_i[f]) if back else (graph.edge_i[f], graph.edge_j[f])
                if not (near[graph.edge_i[e], k] and near[graph.edge_j[e], other]):
                    continue
                ways = 2.0 + (k != graph.edge_i[e]) + (other != graph.edge_j[e])
                one, two = motion(e, False), motion(f, back)
                angle, nearest = float(quat.angle_between(one[0], two[0])[0]), math.inf
                lever = [sigmas[0] ** 2 * float(np.sum(graph.j_from_i_t[row] ** 2)) for row in (e, f)]
                for ends, a, b, levers in (
                    ([graph.edge_j[e], other], one, two, lever[0] + (0.0 if back else lever[1])),
                    ([graph.edge_i[e], k], se3.inverse(one), se3.inverse(two), lever[1] if back else 0.0),
                ):
                    at = poses.position[ends]
                    apart = quat.rotate(a[0], at) + a[1] - quat.rotate(b[0], at) - b[1]
                    squared = float(np.sum(apart**2, axis=1).min())
                    nearest = min(nearest, squared / (ways * sigmas[1] ** 2 + levers))
                turned, shift = (angle / sigmas[0]) ** 2 / ways, nearest
                alike, there = turned < 9.0 * turns, shift < 9.0 * moves
                away, far = turned > 36.0 * turns, shift > 36.0 * moves
                pairs[[x, y]] += 1.0
                tally["elsewhere"] += far
                tally["turned"] += away
                tally["turned alike, elsewhere"] += alike and far
                tally["at one place, turned"] += there and away
                if alike and there:
                    says[x] = says[y] = True
    numbers = int(np.sum(graph.axes < 3))
    angle = min(3.0 * sigmas[0] * math.sqrt(numbers * 4.0), math.pi)
    uniform = angle / math.pi if numbers == 1 else (angle - math.sin(angle)) / math.pi
    turn = (tally["turned alike, elsewhere"] + uniform) / (tally["elsewhere"] + 1)
    place = (tally["at one place, turned"] + 1) / (tally["turned"] + 1)
    return says, [-math.expm1(-count * turn * place) for count in pairs]


@pytest.fixture(scope="module")
def misled() -> tuple[Simulated, Any, tempose.Solution]:
    """A graph without an order in time in which half of the edges between groups of nodes agree on false motions."""
    made = tempose.simulate(30, completeness=0.5, seed=2)
    bad = clusters(made, 0.5, 2)
    return made, bad, tempose.solve(unnamed(bad.graph), robust=True, noise="auto", draws=0)


def test_a_solve_doubts_what_agrees_where_wrong_edges_agree(misled: Any, tmp_path: Any) -> None:
    _, bad, solution = misled
    found = solution.analysis.agreement
    assert found is not None and found.agreeing > 0.5 and found.share_right < 0.8
    p = solution.verdicts.inlier_probability
    assert p.max() <= found.share_right
    assert np.mean((p - ~bad.is_wrong) ** 2) < 0.3
    assert solution.judgement.trust is Trust.NOT
    assert Doubt.ALIKE in [one.doubt for one in solution.judgement.findings]
    assert describe.agreement(found) in solution.summary()
    solution.save(tmp_path)
    assert json.loads((tmp_path / "result.json").read_text())["agreement"] == found.facts()
    again = tempose.Solution.load(tmp_path)
    assert again.summary() == solution.summary()
    assert np.array_equal(again.verdicts.inlier_probability, p)


def test_who_says_that_wrong_edges_are_independent_is_believed(misled: Any) -> None:
    """Negative control: the same verdicts as ever."""
    _, bad, solution = misled
    alone = tempose.solve(unnamed(bad.graph), robust=Robust(repeats="independent"), noise="auto", draws=0)
    assert alone.analysis.agreement is None and describe.INDEPENDENT in alone.summary()
    p, before = solution.verdicts.inlier_probability, alone.verdicts.inlier_probability
    assert np.array_equal(solution.poses.wxyz, alone.poses.wxyz)
    assert before.max() > 0.99 and p.max() < 0.8
    assert np.allclose(solution.explanation_inliers(0), solution.analysis.agreement.verdict(before))


def test_independent_wrong_edges_have_the_verdicts_that_they_had() -> None:
    made = independent(4)
    solution = tempose.solve(unnamed(made.graph), robust=True, noise="auto", draws=0)
    alone = tempose.solve(unnamed(made.graph), robust=Robust(repeats="independent"), noise="auto", draws=0)
    assert np.array_equal(solution.verdicts.inlier_probability, alone.verdicts.inlier_probability)
    assert "those found agree no more often than by chance" in solution.summary()


# ---------------------------------------------------------------------- with an order in time


def in_order(made: Simulated) -> tuple[Clusters, Any]:
    """Clusters of the loop closures of a walk, and its poses."""
    sequence = Sequence.of(made.graph)
    assert sequence is not None
    sigma_rot, sigma_trans = made.graph.median_sigmas
    return Clusters.of(sequence, sequence.chain_poses, sigma_rot, sigma_trans), made.truth


def test_look_alikes_that_do_not_agree_with_each_other_leave_clusters_their_worth() -> None:
    worth = []
    for seed in range(4):
        made = tempose.simulate(60, shape="manhattan", sigma_rot_deg=1.0, aliases=3, seed=seed)
        found, truth = in_order(made)
        believed = found.accepted(~made.is_wrong)
        worth.append(worth_of_clusters(found, truth, ~made.is_wrong, believed, made.graph.median_sigmas))
    assert np.mean(worth) > 0.95


def test_clusters_that_others_contradict_together_are_worth_little() -> None:
    """Right loop closures that nobody believes all say the same: that nothing has moved."""
    made = tempose.simulate(120, shape="manhattan", sigma_rot_deg=4.0, seed=3)
    found, truth = in_order(made)
    believed = np.zeros(found.count, dtype=bool)
    fits = found.sequence.is_link | (np.arange(made.graph.n_edges) % 2 == 0)
    rows = np.flatnonzero(~found.sequence.is_link)
    sigmas = made.graph.median_sigmas
    says, by_chance = said_again(made.graph, truth, rows, fits, sigmas, found.of_edge[rows])
    again, _ = said_again(made.graph, truth, rows, fits, sigmas)
    assert says.sum() < again.sum()  # edges of one cluster are one mistake
    worth = worth_of_clusters(found, truth, fits, believed, sigmas)
    for kind in range(3):
        here = found.kind == kind
        if here.any():
            q = (here.sum() + 0.5) / (here.sum() + 1.0)
            each = [found.of_edge[rows] == c for c in np.flatnonzero(here)]
            chance = np.mean([1.0 - np.prod(1.0 - by_chance[one]) for one in each])  # that one edge of a cluster agrees
            beyond = np.mean([says[one].any() for one in each]) - chance
            errors = beyond / math.sqrt(2.0 * chance * (1.0 - chance) / here.sum())
            v = beyond / (1.0 - chance) if errors > 2.0 else 0.0
            assert worth[kind] == pytest.approx((1.0 - q) / (1.0 - q + q * v))
    assert worth.min() < 0.5
    believed[:] = True
    assert np.array_equal(worth_of_clusters(found, truth, fits, believed, sigmas), np.ones(3))  # negative control


def test_what_a_chain_confirms_keeps_its_probability() -> None:
    made = tempose.simulate(50, shape="manhattan", aliases=2, wrong_odometry=0.02, wrong_loops=0.2, seed=5)
    sequence = Sequence.of(made.graph)
    assert sequence is not None
    search = ExplanationSearch(sequence, np.full(made.graph.n_edges, np.nan), np.random.default_rng(0))
    candidates = search.run([])
    less = replace(candidates)
    less.__dict__["worth"] = np.array([0.3, 0.4, 0.5])
    for k, one in enumerate(candidates.found[:20]):
        right, role = less.right(k), one.evidence.role
        expected = np.where(one.doubted, 0.0, np.where(role == OF_CHAIN, 1.0, less.worth[candidates.clusters.kind]))
        assert np.array_equal(right[~sequence.is_link], expected[candidates.clusters.of_edge[~sequence.is_link]])
        assert np.all(right[sequence.is_link] == 1.0)
    assert np.all(less.inlier_probability() <= candidates.inlier_probability() + 1e-12)
