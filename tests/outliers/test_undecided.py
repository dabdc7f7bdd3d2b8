"""Solutions between which odds do not decide: explanations, as probable as edges speak for them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tempose
from helpers.lying import listed_again, lying, unnamed
from tempose import describe
from tempose.analysis.accuracy import pose_errors
from tempose.analysis.trust import Doubt, Trust
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.outliers import Robust, undecided
from tempose.outliers.em import fit
from tempose.outliers.estimate import _solution
from tempose.outliers.noise import RobustOptions
from tempose.report.solution_page import write_report
from tempose.simulation import simulate
from tempose.solver import Solution
from tempose.studies.experiments.robust import clusters

NODES, ACROSS = 24, 28


@pytest.fixture(scope="module")
def two() -> tuple[PoseGraph, np.ndarray, Poses, Solution]:
    """Two halves, and as many edges between them that agree on a false motion as right ones; draws of both explanations."""
    graph, wrong, truth = halves(ACROSS // 2)
    return graph, wrong, truth, solved(graph, draws=40)


def halves(false: int) -> tuple[PoseGraph, np.ndarray, Poses]:
    """Of the edges between two halves so many agree on a false motion."""
    made = simulate(NODES, completeness=1.0, sigma_rot_deg=2.0, sigma_trans=0.05, seed=4)
    between = np.flatnonzero(across(made.graph))
    kept = np.ones(made.graph.n_edges, dtype=bool)
    kept[np.random.default_rng(1).permutation(between)[ACROSS:]] = False
    graph, wrong = lying(replace(made, graph=made.graph.with_edges(kept)), false)
    graph = unnamed(graph)
    return graph, wrong, Poses(graph.node_ids, made.truth.wxyz, made.truth.position)


def across(graph: PoseGraph) -> np.ndarray:
    return np.asarray((graph.edge_i < NODES // 2) != (graph.edge_j < NODES // 2))


def solved(graph: PoseGraph, robust: Robust | bool = True, draws: int = 0, **more: Any) -> Solution:
    return tempose.solve(graph, robust=robust, noise="auto", draws=draws, certify=False, seed=1, **more)


def off_deg(poses: Poses, truth: Poses) -> float:
    return float(pose_errors(poses, truth).max_rotation_deg)


def test_as_many_edges_for_each_of_two_solutions_are_two_explanations(two: Any) -> None:
    graph, wrong, truth, solution = two
    assert [one.probability for one in solution.explanations] == pytest.approx([0.5, 0.5])
    assert solution.headline == "do not trust it: two explanations: 50% and 50%"
    assert "--trust-odometry" not in solution.summary()  # there is no odometry
    assert f"believes {graph.n_edges - ACROSS // 2} of {graph.n_edges} edges" in solution.summary()
    errors = sorted(off_deg(one.poses, truth) for one in solution.explanations)
    assert errors[0] < 3.0 and errors[1] > 30.0
    p, between = solution.verdicts.inlier_probability, across(graph)
    assert np.allclose(p[between], 0.5, atol=0.1) and np.all(p[~between] > 0.8)
    best = int(off_deg(solution.explanations[0].poses, truth) > 3.0)
    own = solution.explanation_inliers(best)
    assert np.all(own[wrong] < 0.2) and np.all(own[~wrong] > 0.8)


def test_draws_are_of_both_and_all_comes_back(two: Any, tmp_path: Path) -> None:
    solution = two[-1]
    assert np.bincount(np.ravel(solution.draws.explanation)).tolist() == [solution.draws.n_draws // 2] * 2
    solution.save(tmp_path)
    again = Solution.load(tmp_path)
    assert again.summary() == solution.summary()
    assert again.weighing.of_solutions
    assert again.analysis.errors_shared and "--edge-errors independent" in again.summary()
    sigma = [one.nodes.sigma_pos[1:] for one in (solution, solved(two[0], edge_errors="independent"))]
    assert np.all(sigma[0] > 1.5 * sigma[1])  # who is wrong about edges that agree may be wrong about their errors
    np.testing.assert_array_equal(again.verdicts.inlier_probability, solution.verdicts.inlier_probability)
    write_report(tmp_path / "report.html", solution)
    page = (tmp_path / "report.html").read_text()
    assert "edges believed" in page and "given up" not in re.sub("<script.*", "", page, flags=re.DOTALL)


def test_edges_that_are_listed_twice_speak_once(two: Any) -> None:
    graph, wrong, _, solution = two
    again = solved(listed_again(graph, np.flatnonzero(wrong)))
    expected = [one.probability for one in solution.explanations]
    assert [one.probability for one in again.explanations] == pytest.approx(expected)


def test_who_says_that_wrong_edges_are_independent_gets_one_answer(two: Any) -> None:
    """Negative control: half of the edges between the halves are wrong, and all that are kept are believed."""
    graph, _, _, _ = two
    alone = solved(graph, Robust(repeats="independent"))
    assert not alone.explanations and alone.verdicts.inlier_probability[across(graph)].max() > 0.99


def test_where_odds_do_not_decide_nobody_says_that_wrong_edges_are_independent() -> None:
    made = simulate(16, completeness=1.0, sigma_rot_deg=1.0, seed=3)
    graph, wrong = lying(made, 20)
    turns = replace(unnamed(graph), j_from_i_t=np.full((graph.n_edges, 3), np.nan))  # of which agreement tells nothing
    solution = solved(turns)
    findings = {one.doubt: one for one in solution.judgement.findings}
    assert solution.weighing.of_solutions and solution.analysis.agreement is None
    assert np.array_equal(np.sort(solution.verdicts.distrusted), np.flatnonzero(wrong))
    assert "independent of each other" not in solution.summary()
    said = describe.doubt(findings[Doubt.MANY_DISTRUSTED], solution.edge_checks, solution.weighing)
    assert said == "17% of the edges are distrusted"
    assert describe.INDEPENDENT in solved(turns, Robust(repeats="independent")).summary()  # negative control


def test_wrong_edges_that_agree_tell_that_errors_are_shared() -> None:
    """Those that meet do not err alike, and no other solution competes."""
    made = simulate(30, completeness=0.5, seed=0)
    solution = solved(unnamed(clusters(made, 0.15, 0).graph))
    assert not solution.explanations and not any("err alike" in one for one in solution.notices)
    assert solution.analysis.agreement.agreeing > 0.0
    assert Doubt.SHARED in dict(solution.doubts) and solution.analysis.errors_shared
    alone = solved(unnamed(simulate(30, completeness=0.5, wrong_edges=0.15, seed=0).graph))  # negative control
    assert len(alone.verdicts.distrusted) > 20 and Doubt.SHARED not in dict(alone.doubts)
    assert not alone.analysis.errors_shared


@pytest.mark.parametrize(("false", "other"), [(7, 8 / 30), (21, 8 / 30), (3, 4 / 30)])
def test_a_solution_is_as_probable_as_edges_speak_for_it(false: int, other: float) -> None:
    graph, _, truth = halves(false)
    solution = solved(graph)
    assert [one.probability for one in solution.explanations] == pytest.approx([1.0 - other, other])
    assert solution.judgement.trust is (Trust.NOT if other > 0.2 else Trust.CARE)
    is_right = [off_deg(one.poses, truth) < 3.0 for one in solution.explanations]
    assert is_right == ([True, False] if false < ACROSS / 2 else [False, True])


def test_more_starts_do_not_take_the_estimate_or_its_draws_to_another_explanation() -> None:
    """The more probable explanation, by what is trusted, has the higher U."""
    graph, wrong, _ = halves(ACROSS - 3)
    graph = replace(graph, inlier_prior=np.where(across(graph) & ~wrong, 0.8, np.nan))
    solution = solved(graph, starts=20, draws=40)
    one, two = solution.explanations
    U = [solution.posterior.potential(each.poses) for each in (one, two)]
    assert one.probability > 0.7 and U[0] > U[1] + 100.0
    assert solution.potential == U[0] and np.array_equal(solution.estimate.wxyz, one.poses.wxyz)
    assert any(solution.posterior.potential(other) < U[0] - 100.0 for other in solution.others)  # they do find it
    own = solution.draws.of_explanation(0)
    assert own.sampler == "collapsed" and min(energy.min() for energy in own.energies) > U[0]
    assert "20 starts change nothing" in " ".join(solution.notices)


def test_what_an_explanation_moves_is_in_the_component_that_it_is_about() -> None:
    a, other = (
        halves(ACROSS // 2)[0],
        unnamed(simulate(12, completeness=1.0, sigma_rot_deg=2.0, sigma_trans=0.05, seed=1).graph),
    )
    names = ("edge_i", "edge_j", "j_from_i_wxyz", "j_from_i_t", "concentration", "translation_precision")
    more = {name: getattr(other, name) + NODES * name.startswith("edge") for name in names}
    solution = solved(joined(a, [f"{name} too" for name in other.node_ids], more))
    one, two = solution.explanations
    assert len(one.moved) == 0
    assert two.moved.tolist() in (list(range(NODES // 2)), list(range(NODES // 2, NODES)))


def test_a_doubt_that_edges_have_in_common_is_no_wrong_edge_in_a_row() -> None:
    """Those that agree are a tenth of the edges: so much is doubted of all others, and of a row of twelve together."""
    graph, _, truth = halves(ACROSS // 2)
    solution = solved(with_row(graph, truth, 12))
    p = solution.verdicts.inlier_probability[-12:]
    assert np.all(p > 0.85) and np.sum(1.0 - p) > 0.5
    assert Doubt.ONE_OF_MANY not in [one.doubt for one in solution.judgement.findings]
    verdicts = solution.analysis.predicted_verdicts
    assert len(verdicts.one_of) == 0
    assert len(replace(verdicts, alone=None).one_of) == 12  # negative control: as if each were doubted by itself


def test_a_solution_that_moves_a_landmark_alone_goes_on_to_compete() -> None:
    """Seven sightings of a landmark at one place, and five at another."""
    plain, _, truth = halves(ACROSS // 2)
    here, there = np.array([3.0, 0.0, 0.0]), np.array([-3.0, 2.0, 1.0])
    graph = with_landmark(plain, truth, [here] * 7 + [there] * 5)
    own, options, wxyz = np.full(graph.n_edges, np.nan), RobustOptions("given"), np.vstack([truth.wxyz, quat.IDENTITY])
    starts = [Poses(graph.node_ids, wxyz, np.vstack([truth.position, at])) for at in (here, there)]
    fits = [fit(graph, start, options, own_probability=own) for start in starts]
    found = _solution(fits[0], fits)
    assert len(found.competitors) == len(found.alternatives) == 1
    solution = undecided.undecided(found, own, options)
    assert solution.weighing is not None and len(solution.weighing.explanations) == 2 and not solution.alternatives
    (one,) = solution.competitors
    assert one.moved.tolist() == [graph.index["mark"]]
    assert one.kept_by_chosen == np.sum(solution.fit.inlier_probability > 0.5)


def with_landmark(graph: PoseGraph, truth: Poses, places: list[np.ndarray]) -> PoseGraph:
    """The same with a landmark, that one node after the other sees at these places."""
    n, k = graph.n_nodes, len(places)
    seen = quat.rotate(quat.conjugate(truth.wxyz[:k]), np.array(places) - truth.position[:k])
    added = {
        "j_from_i_wxyz": np.tile([1.0, 0.0, 0.0, 0.0], (k, 1)),
        "j_from_i_t": seen + 0.05 * np.random.default_rng(5).standard_normal((k, 3)),
        "concentration": np.zeros(k),
        "translation_precision": graph.translation_precision[:k],
        "edge_i": np.full(k, n),
        "edge_j": np.arange(k),
    }
    return joined(graph, ["mark"], added, landmarks=("mark",))


def with_row(graph: PoseGraph, truth: Poses, steps: int) -> PoseGraph:
    """The same with another way from its first node to its second, of right edges in a row."""
    n, rng = graph.n_nodes, np.random.default_rng(3)
    wxyz = np.vstack([truth.wxyz, quat.random_uniform(rng, steps - 1)])
    position = np.vstack([truth.position, rng.standard_normal((steps - 1, 3))])
    i, j = np.array([0, *range(n, n + steps - 1)]), np.array([*range(n, n + steps - 1), 1])
    q, t = se3.a_from_b((wxyz[j], position[j]), (wxyz[i], position[i]))
    added = {
        "j_from_i_wxyz": q,
        "j_from_i_t": t,
        "concentration": graph.concentration[:steps],
        "translation_precision": graph.translation_precision[:steps],
        "edge_i": i,
        "edge_j": j,
    }
    return joined(graph, [f"on the way {chr(97 + k)}" for k in range(steps - 1)], added)


def joined(graph: PoseGraph, ids: list[str], more: dict[str, np.ndarray], **others: Any) -> PoseGraph:
    """A graph and more nodes and edges."""
    arrays = {name: np.concatenate([getattr(graph, name), added]) for name, added in more.items()}
    return PoseGraph((*graph.node_ids, *ids), **arrays, **others)


@pytest.mark.parametrize("trust", [0.6, 0.7, 0.8, 0.99])
def test_what_is_trusted_is_given_up_for_its_odds(trust: float) -> None:
    """Three right edges, which are trusted, against 25 that agree on a false motion."""
    graph, wrong, truth = halves(ACROSS - 3)
    right = across(graph) & ~wrong
    understated = replace(graph, concentration=9.0 * graph.concentration)  # 2°, and said to be a third of that
    solution = solved(replace(understated, inlier_prior=np.where(right, trust, np.nan)))
    assert solution.verdicts.facts()["sigma_rot_deg"] == pytest.approx(2.0, rel=0.1)  # whichever is reported
    kept = [solution.explanation_kept(k) for k in range(len(solution.explanations))]
    probability = np.array([one.probability for one in solution.explanations])
    true = np.array([off_deg(one.poses, truth) < 3.0 for one in solution.explanations])
    gives_up = np.array([not np.any(one & right) for one in kept])
    assert true.sum() == 1
    assert probability[gives_up].sum() / probability[true][0] == pytest.approx(
        26.0 * (1.0 / trust - 1.0) ** 3 * (trust < 0.9), rel=1e-6
    )
    assert gives_up[0] == (trust < 0.75)  # 26 to 1 is for the lie what (P / (1 - P))³ is for the truth


def test_most_edges_wrong_and_agreeing_are_believed_by_nobody() -> None:
    """What an explanation keeps are the edges that fit it, even where those that do not are as probable."""
    bad = clusters(simulate(50, completeness=0.5, seed=501), 0.6, 501)
    solution = solved(bad.graph)
    assert solution.judgement.trust is Trust.NOT and solution.analysis.agreement.share_right < 0.5
    assert solution.verdicts.inlier_probability.max() < 0.7
    for k, one in enumerate(solution.explanations):
        energies, kept = Posterior(solution.graph).energies(one.poses), solution.explanation_kept(k)
        assert 200 < kept.sum() < 400 and energies[kept].max() < energies[~kept].min()


def test_wrong_edges_that_err_each_by_itself_leave_one_solution() -> None:
    """Negative control: as ever."""
    for seed in range(3):
        made = simulate(24, completeness=0.6, wrong_edges=0.4, seed=seed)
        solution = solved(unnamed(made.graph))
        assert not solution.explanations and not solution.analysis.errors_shared
        assert Doubt.UNDECIDED not in [one.doubt for one in solution.judgement.findings]


@pytest.mark.parametrize("seed", [7, 30])
def test_nodes_that_one_edge_each_takes_elsewhere_are_no_agreement(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worse minimum keeps several edges that the chosen one rejects, each of which moves a part of its own."""
    graph = simulate(100, completeness=0.1, wrong_edges=0.2, seed=seed).graph
    solution = solved(graph)
    assert not solution.explanations and Doubt.COMPETING in [one.doubt for one in solution.judgement.findings]
    monkeypatch.setattr(undecided, "_agreeing", lambda one, _: len(one.moved))  # negative control: as if they agreed
    assert len(solved(graph).explanations) > 1
