"""Scores of verdicts by hand, regions against draws of the noise, and the bare chain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tempose.analysis.accuracy import pose_errors
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.outliers import Robust
from tempose.outliers.solutions import Explanation, Weighing
from tempose.simulation import simulate
from tempose.solver import solve
from tempose.studies import wrong_edges as study


def test_scores_are_those_by_hand() -> None:
    p, right = np.array([1.0, 0.95, 0.6, 0.5, 0.0]), np.array([True, False, True, True, False])
    row = study.scores(p, right)
    assert (row["edges"], row["wrong"], row["sure"], row["sure_right"], row["rejected"]) == (5, 2, 2, 1, 2)
    assert row["brier"] == pytest.approx((0.95**2 + 0.4**2 + 0.5**2) / 5.0)
    expected = -(np.log(0.05) + np.log(0.6) + np.log(0.5) + 2.0 * np.log(1.0 - 1e-6)) / 5.0
    assert row["log_score"] == pytest.approx(expected)
    assert (row["precision"], row["recall"], row["right_kept"]) == (0.5, 0.5, pytest.approx(2.0 / 3.0))
    assert study.scores(p[:1], right[:1])["recall"] is None and study.scores(p[:0], right[:0]) == {"edges": 0}
    sure_and_wrong = study.scores(np.array([1.0]), np.array([False]))
    assert sure_and_wrong["log_score"] == pytest.approx(-np.log(study.LEAST))


def test_bins_hold_every_edge_once() -> None:
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(500), [0.0, 1.0, 0.98, 0.02]])
    rows = study.binned(p, p > 0.5)
    assert sum(row["edges"] for row in rows) == 504 and sum(row["stated"] for row in rows) == pytest.approx(p.sum())
    for row in rows:
        mean = row["stated"] / row["edges"]
        assert study.BINS[row["bin"]] <= mean <= study.BINS[row["bin"] + 1]


def test_reliability_is_on_the_diagonal_if_probabilities_are_right_and_its_error_is_from_graph_to_graph() -> None:
    """In each graph ten edges stand and fall together: the error is √10 times that of independent edges."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(4000):
        p = rng.uniform(0.8, 0.9)
        rows += study.binned(np.full(10, p), np.full(10, rng.random() < p))
    (line,) = study.reliability(rows)
    assert (line["graphs"], line["edges"]) == (4000, 40_000)
    assert line["right_se"] == pytest.approx(np.sqrt(0.85 * 0.15 / 4000.0), rel=0.01)
    few = [row for row in rows if row["right"]][:3]  # no spread from graph to graph, and no surprise
    (line_of_few,) = study.reliability(few)
    assert line_of_few["right"] == 1.0 and 1.0 - line_of_few["stated"] < 2.0 * line_of_few["right_se"]
    assert abs(line["right"] - line["stated"]) < 4.0 * line["right_se"]
    overconfident = study.reliability([row | {"stated": 0.89 * row["edges"]} for row in rows])[0]
    assert abs(overconfident["right"] - overconfident["stated"]) > 5.0 * line["right_se"]


@pytest.mark.parametrize("planar", [False, True])
def test_regions_hold_true_poses_as_often_as_they_say(planar: bool) -> None:
    """Right edges of known noise; and with error bars three times too small they do not."""
    pairs, nodes, narrow, spread = [], [], [], []
    for seed in range(6):
        made = simulate(30, shape="manhattan", planar=planar, sigma_rot_deg=0.5, sigma_trans=0.03, seed=seed)
        solution = solve(made.graph, draws=0, certify=False, analyse=False)
        row = study.coverage(solution, made.truth, np.random.default_rng(seed))
        pairs.append(row["pairs_95"])
        nodes.append(row["nodes_95"])
        sure = replace(
            made.graph,
            concentration=9.0 * made.graph.concentration,
            translation_precision=9.0 * made.graph.translation_precision,
        )
        solution = solve(sure, draws=0, certify=False, analyse=False)
        row = study.coverage(solution, made.truth, np.random.default_rng(seed))
        narrow.append(row["pairs_95"])
        spread.append(row["pairs_spread"])
    assert np.mean(pairs) > 0.88 and np.mean(nodes) > 0.85 and np.mean(narrow) < 0.6
    assert np.mean(spread) == pytest.approx(3.0, rel=0.25)


def test_a_truth_elsewhere_is_outside_and_one_explanation_that_holds_it_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = simulate(20, shape="manhattan", sigma_rot_deg=0.5, sigma_trans=0.03, seed=1)
    solution = solve(made.graph, draws=0, certify=False, analyse=False)
    turned = quat.multiply(quat.exp([0.0, 0.0, np.pi]), made.truth.wxyz)
    half = np.arange(20) < 10
    false = Poses(made.truth.ids, np.where(half[:, None], made.truth.wxyz, turned), made.truth.position)
    across = [(0, 15), (3, 12), (9, 10)]
    assert np.all(study.nearest_explanation(solution, false, across) > 1000.0)
    assert np.all(study.nearest_explanation(solution, made.truth, across) < 30.0)
    other = solve(made.graph, draws=0, certify=False, analyse=False).laplace
    assert other is not None and solution.laplace is not None
    other.poses = false
    both = [solution.laplace, other]
    monkeypatch.setattr(study, "explained", lambda solution: both)
    assert study.nearest_explanation(solution, false, across) == pytest.approx(np.zeros(3), abs=1e-9)


def test_regions_are_those_of_every_explanation_reported() -> None:
    made = simulate(20, seed=1, wrong_edges=0.1)
    solution = solve(made.graph, robust=Robust(), draws=0, certify=False, analyse=False)
    assert solution.likelihood is not None and len(study.explained(solution)) == 1
    m, none = made.graph.n_edges, np.zeros(0, dtype=np.int64)
    doubted = np.minimum(solution.likelihood.prior, 0.5)
    both = Weighing(
        tuple(Explanation(0.5, solution.estimate, p, none, none) for p in (solution.likelihood.prior, doubted)),
        np.full(m, 0.5),
        np.full(m, 0.5),
    )
    two = replace(solution, weighing=both, analysis=replace(solution.analysis, weighing=both))
    first, second = study.explained(two)
    assert first is two.laplace
    assert second.curvature.posterior.likelihood is not None
    assert second.curvature.posterior.likelihood.prior is doubted


def test_the_chain_is_the_odometry() -> None:
    made = simulate(60, shape="manhattan", wrong_loops=1.0, sigma_rot_deg=0.0, sigma_trans=0.0, seed=2)
    assert pose_errors(study.chain(made.graph), made.truth).max_translation < 1e-9
    assert study.odometry(made.graph).sum() == 59
    with pytest.raises(NotApplicable, match="consecutive"):
        study.odometry(made.graph.with_edges(~study.odometry(made.graph)))


def test_the_potential_is_the_likelihood_of_the_fit() -> None:
    made = simulate(20, seed=1, wrong_edges=0.1)
    solution = solve(made.graph, robust=Robust(), draws=0, certify=False, analyse=False)
    likelihood = solution.likelihood
    assert likelihood is not None
    found = study.potential(solution.posterior, solution.estimate)
    assert found == pytest.approx(-likelihood.log_density(solution.posterior.energies(solution.estimate)).sum())
    assert study.potential(solution.posterior, made.truth) > found
