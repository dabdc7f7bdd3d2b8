"""Covariances of draws against numpy's, digit for digit, where draws are few and n − 1 is not n."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose import describe
from tempose.analysis.summary import median_sigma, relative_summary, summarise
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.gauge import Gauge
from tempose.model.poses import Poses
from tempose.report.solution_page import report_data
from tempose.sampling.draws import Draws
from tempose.simulation import simulate

COUNT = 5


def few_draws() -> tuple[Poses, Draws, np.ndarray]:
    """Five draws about the truth with node 0 held, and their tangent coordinates (draws, n, 6), of mean zero."""
    made = simulate(4, completeness=1.0, seed=1)
    truth, rng = made.truth, np.random.default_rng(2)
    x = 1e-4 * rng.standard_normal((COUNT, 4, 6))
    x[:, 0] = 0.0
    x -= x.mean(axis=0)
    rows = [
        np.concatenate([quat.multiply(quat.exp(one[:, :3]), truth.wxyz), truth.position + one[:, 3:]], axis=1)
        for one in x
    ]
    return truth, Draws(truth.ids, 1.0, (np.array(rows[:2]), np.array(rows[2:])), (np.zeros(2), np.zeros(3))), x


def test_covariance_of_a_node_is_that_of_numpy() -> None:
    truth, draws, x = few_draws()
    gauge = Gauge(simulate(4, completeness=1.0, seed=1).graph, "anchor")
    found = summarise(draws, truth, gauge)
    assert found.n_draws == COUNT
    for node in range(1, 4):
        expected = np.cov(x[:, node].T)  # by n − 1
        np.testing.assert_allclose(found.covariance[node], expected, atol=2e-3 * np.abs(expected).max())
        sigma = np.degrees(np.sqrt(np.trace(expected[:3, :3]) / 3.0))
        assert found.sigma_rot_deg[node] == pytest.approx(sigma, rel=2e-3)


def test_covariance_of_a_relative_pose_is_that_of_numpy() -> None:
    truth, draws, _ = few_draws()
    found = relative_summary(draws, truth, 1, 3)
    poses = np.concatenate(draws.arrays)
    wxyz, t = se3.a_from_b((poses[:, 1, :4], poses[:, 1, 4:]), (poses[:, 3, :4], poses[:, 3, 4:]))
    turn = quat.log(quat.multiply(wxyz, quat.conjugate(wxyz[0])))
    expected = np.cov(np.concatenate([turn, t], axis=1).T)
    np.testing.assert_allclose(found.covariance, expected, atol=2e-3 * np.abs(expected).max())


def test_which_precisions_were_used_is_told_everywhere() -> None:
    """Every rotation is tied to a translation with correlation 0.6: without it σ would be √(1 − 0.6²) = 0.8 times as large."""
    sigma = np.array([0.02, 0.02, 0.02, 0.1, 0.1, 0.2])  # rotation first
    correlation = np.eye(6) + 0.6 * (np.eye(6, k=3) + np.eye(6, k=-3))
    information = np.linalg.inv(sigma[:, None] * correlation * sigma)
    builder = tempose.GraphBuilder()
    for a, b in ((0, 1), (1, 2), (0, 2)):
        builder.add_edge(a, b, wxyz=[1.0, 0.0, 0.0, 0.0], translation=[float(b - a), 0.0, 0.0], information=information)
    solution = tempose.solve(builder.build(), draws=0)
    found = solution.facts()["precisions"]
    assert found["used"] == "full" and found["correlated_edges"] == 3
    assert found["sigma_between_axes"] == pytest.approx({"rotation": 1.0, "translation": 2.0}, rel=1e-6)
    assert found["sigma_if_correlations_dropped"] == pytest.approx({"rotation": 0.8, "translation": 0.8}, rel=1e-6)
    sentence = found["sentence"]
    assert "2 times for translations" in sentence and "σ would be 0.8 times as large for rotations" in sentence
    assert sentence in solution.summary().split("\n")
    assert sentence in [fact.note for fact in report_data(solution).headline]
    plain = tempose.solve(tempose.simulate(6, completeness=1.0).graph, draws=0)
    assert plain.facts()["precisions"] == {"used": "isotropic"} and "precisions" not in plain.summary()


def test_measured_along_some_axes_only_is_not_one_number() -> None:
    made = tempose.simulate(6, completeness=1.0, gps=4, seed=1).graph
    precision = made.translation_precision_matrices.copy()
    precision[made.is_absolute, 2, 2] = 0.0  # no heights
    found = tempose.solve(replace(made, translation_precision=precision), draws=0).facts()["precisions"]
    assert found["open_edges"] == 4 and "4 edges without information along some axis" in found["sentence"]
    assert "would say the same" not in found["sentence"]


def test_medians_are_of_nodes_that_are_not_held() -> None:
    """One edge, one node held: the median σ is the other's."""
    builder = tempose.GraphBuilder()
    builder.add_edge(0, 1, wxyz=[1, 0, 0, 0], translation=[1.0, 0.0, 0.0], sigma_rot_deg=2.0, sigma_trans=0.05)
    solution = tempose.solve(builder.build(), draws=0)
    assert solution.facts()["uncertainty"]["median_sigma_rot_deg"] == pytest.approx(2.0, rel=1e-3)
    assert median_sigma(np.array([0.0, 0.0])) == 0.0 and np.isnan(median_sigma(np.array([np.nan])))
    assert median_sigma(np.array([0.0, 3.0, np.nan])) == 3.0


def test_edges_of_an_undetermined_graph_are_not_said_to_lack_loops() -> None:
    builder = tempose.GraphBuilder(planar=True)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        builder.add_edge(a, b, angle=0.0, translation=[float(b - a), 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)
    tree = tempose.solve(builder.build().with_edges(np.array([True, True, False])), draws=0)
    assert "there are no loops" in tree.summary()
    builder.add_sighting(0, "x", [1.0, 1.0], sigma=0.1).add_sighting("lost", "x", [1.0, 1.0], sigma=0.1)
    loose = tempose.solve(builder.build(), draws=0)
    assert "not all poses are determined" in loose.summary() and "no loops" not in loose.summary()


def test_counts_are_in_the_singular_and_know_a_fixed_node_beside_the_world() -> None:
    builder = tempose.GraphBuilder().add_node(0, np.eye(4), fixed=True).add_landmark("x")
    builder.add_edge(0, 1, wxyz=[1.0, 0.0, 0.0, 0.0], translation=[1.0, 0.0, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)
    builder.add_sighting(1, "x", [0.0, 1.0, 0.0], sigma=0.1)
    assert (
        describe.counts(builder.build()) == "2 nodes, 1 landmark, 2 edges, 1 component"
    )  # one that is fixed is the frame
    builder.add_position(1, [1.0, 0.0, 0.0], sigma=0.1)
    expected = "2 nodes, 1 landmark, 2 edges, 1 absolute measurement, 1 fixed node, 1 component"
    assert describe.counts(builder.build()) == expected
