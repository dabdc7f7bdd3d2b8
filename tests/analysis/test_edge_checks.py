"""Posterior predictive: relative poses of any two nodes, and p-values of edges that are uniform if the model is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from helpers.kernels import with_world
from tempose import describe
from tempose.analysis.edge_checks import EdgeChecks, check_edges, leave_one_out, predict_relative
from tempose.analysis.summary import relative_summary
from tempose.errors import ArgumentError, DrawsError, GraphError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.sampling.draws import Draws
from tempose.simulation import Simulated, measure, simulate


def checked(graph: PoseGraph, start: Poses, priors: Priors | None = None) -> tuple[EdgeChecks, Posterior, Poses]:
    posterior = Posterior((priors or Priors()).added_to(graph))
    curvature = Curvature(posterior)
    minimum = minimise(curvature, with_world(posterior.graph, start))
    return check_edges(posterior, minimum.poses, curvature), posterior, minimum.poses


def cloud(rng: np.random.Generator, draws: int = 4000, sigma: float = 0.1) -> Draws:
    """Two nodes: one still, one of independent Gaussian coordinates about a pose; each draw in its own frame."""
    wxyz = quat.multiply(quat.exp(sigma * rng.standard_normal((draws, 3))), quat.exp([0.3, -0.2, 1.0]))
    position = np.array([1.0, 2.0, 3.0]) + sigma * rng.standard_normal((draws, 3))
    frame = (quat.random_uniform(rng, draws), rng.standard_normal((draws, 3)))
    still = se3.compose(frame, (np.tile(quat.IDENTITY, (draws, 1)), np.zeros((draws, 3))))
    other = se3.compose(frame, (wxyz, position))
    arrays = np.stack([np.concatenate(still, axis=1), np.concatenate(other, axis=1)], axis=1)
    return Draws(("a", "b"), 1.0, (arrays[: draws // 2], arrays[draws // 2 :]), (np.zeros(draws // 2),) * 2)


def gaussian_draws(laplace: Laplace, rng: np.random.Generator, count: int = 200) -> Draws:
    each = [laplace.spread(rng) for _ in range(count)]
    array = np.stack([np.concatenate([poses.wxyz, poses.position], axis=1) for poses in each])
    return Draws(laplace.poses.ids, 1.0, (array,), (np.zeros(count),))


# ---------------------------------------------------------------------- any two nodes


def test_relative_pose_is_that_of_the_summary() -> None:
    draws = cloud(np.random.default_rng(0))
    prediction = predict_relative(draws, "a", "b")
    reference = Poses(("a", "b"), np.tile(quat.IDENTITY, (2, 1)), np.zeros((2, 3)))
    summary = relative_summary(draws, reference, "a", "b")
    np.testing.assert_allclose(prediction.covariance, summary.covariance, rtol=1e-6, atol=1e-9)
    assert quat.angle_between(prediction.mean[0], summary.mean[0]) < 1e-9
    np.testing.assert_allclose(prediction.mean[1], [1.0, 2.0, 3.0], atol=0.01)
    assert not prediction.noisy


def test_predicted_measurement_adds_its_noise() -> None:
    rng = np.random.default_rng(1)
    full = np.array([[900.0, 300.0, 0.0], [300.0, 500.0, 0.0], [0.0, 0.0, 200.0]])
    prediction = predict_relative(cloud(rng, 20_000), "a", "b", concentration=full, precision=full, rng=rng)
    expected = np.zeros((6, 6))
    expected[:3, :3] = 0.01 * np.eye(3) + 2.0 * np.linalg.inv(full)
    expected[3:, 3:] = 0.01 * np.eye(3) + np.linalg.inv(full)
    np.testing.assert_allclose(prediction.covariance, expected, atol=0.0006)
    assert prediction.noisy


def test_tail_probability_is_uniform_under_the_prediction() -> None:
    rng = np.random.default_rng(2)
    prediction = predict_relative(cloud(rng), "a", "b")
    fresh = predict_relative(cloud(rng, 200), "a", "b")
    p = [prediction.tail_probability(q, t) for q, t in zip(fresh.wxyz, fresh.translation, strict=True)]
    p_rotation = [prediction.tail_probability(-q) for q in fresh.wxyz]
    assert stats.kstest(p, "uniform").pvalue > 0.01 and stats.kstest(p_rotation, "uniform").pvalue > 0.01
    assert prediction.tail_probability(fresh.wxyz[0], fresh.translation[0] + 1.0) == 1 / 4001


def test_bad_requests() -> None:
    draws = cloud(np.random.default_rng(3), 10)
    with pytest.raises(GraphError, match="no node 'c'"):
        predict_relative(draws, "a", "c")
    with pytest.raises(ArgumentError, match="random generator"):
        predict_relative(draws, "a", "b", concentration=100.0)
    with pytest.raises(ArgumentError, match="positive definite"):
        predict_relative(draws, "a", "b", precision=np.zeros((3, 3)), rng=np.random.default_rng(0))
    with pytest.raises(DrawsError, match="at least 2 draws"):
        predict_relative(Draws(("a", "b"), 1.0, (), ()), "a", "b")


def test_prediction_covers_new_measurements() -> None:
    """Draws of the posterior, plus noise, predict measurements of a pair that was never measured."""
    p = []
    for seed in range(20):
        made = simulate(6, completeness=0.5, sigma_rot_deg=4.0, seed=seed)
        _, posterior, estimate = checked(made.graph, made.truth)
        draws = gaussian_draws(Laplace(Curvature(posterior), estimate), np.random.default_rng([14, seed]))
        rng = np.random.default_rng(seed)
        pairs = np.array([[0, 5], [4, 1]])
        again = measure(made.truth, pairs, np.radians(4.0), 0.05, rng)
        for k, (i, j) in enumerate(pairs.tolist()):
            prediction = predict_relative(
                draws, j, i, concentration=again.concentration[k], precision=again.translation_precision[k], rng=rng
            )
            p.append(prediction.tail_probability(again.j_from_i_wxyz[k], again.j_from_i_t[k]))
    assert stats.kstest(p, "uniform").pvalue > 0.01


# ---------------------------------------------------------------------- every measured edge


def anisotropic(seed: int) -> Simulated:
    """A graph with full, different precisions, whose noise is as declared."""
    rng = np.random.default_rng([4, seed])
    made = simulate(8, completeness=0.5, seed=seed)
    m = made.graph.n_edges
    A = rng.standard_normal((m, 3, 3)) + 2.0 * np.eye(3)
    information = 400.0 * A @ np.swapaxes(A, 1, 2)
    exact = measure(made.truth, np.stack([made.graph.edge_i, made.graph.edge_j], axis=1), 0.0, 0.0, rng)
    root = np.linalg.cholesky(np.linalg.inv(information))
    omega = np.sqrt(2.0) * np.einsum("mab,mb->ma", root, rng.standard_normal((m, 3)))
    t = exact.j_from_i_t + np.einsum("mab,mb->ma", root, rng.standard_normal((m, 3)))
    wxyz = quat.multiply(quat.exp(omega), exact.j_from_i_wxyz)
    noisy = replace(
        exact, j_from_i_wxyz=wxyz, j_from_i_t=t, concentration=information, translation_precision=information
    )
    return Simulated(noisy, made.truth)


@pytest.mark.parametrize("kind", ["dense", "loop", "rotation-only edges", "anisotropic"])
def test_p_values_are_uniform_when_the_model_is_right(kind: str) -> None:
    rng = np.random.default_rng(5)
    p: list[list[float]] = [[], [], []]
    for seed in range(90):
        if kind == "anisotropic":
            made = anisotropic(seed)
        else:
            made = simulate(8, completeness=0.5 if kind != "loop" else 0.3, sigma_rot_deg=5.0, seed=1000 + seed)
        graph = made.graph
        if kind == "rotation-only edges":
            graph = replace(graph, j_from_i_t=np.where(rng.random((graph.n_edges, 1)) < 0.3, np.nan, graph.j_from_i_t))
        checks = checked(graph, made.truth)[0]
        for out, values in zip(p, (checks.p_value, checks.p_rotation, checks.p_translation), strict=True):
            known = values[np.isfinite(values)]
            if len(known):
                out.append(float(rng.choice(known)))  # one of each graph: they must be independent
    for values_ in p:
        assert len(values_) > 50
        assert stats.kstest(values_, "uniform").pvalue > 0.003


def test_wrongly_declared_noise_is_seen() -> None:
    made = simulate(40, completeness=0.3, sigma_rot_deg=5.0, seed=6)
    right = checked(made.graph, made.truth)[0]
    assert (
        not len(right.suspects) and right.corrected_p > 0.01 and "no edge is surprising" in describe.edge_checks(right)
    )
    tight = replace(
        made.graph,
        concentration=9.0 * made.graph.concentration,
        translation_precision=9.0 * made.graph.translation_precision,
    )
    wrong = checked(tight, made.truth)[0]
    assert np.nanmean(wrong.p_value < 0.05) > 0.7 and np.nanmean(right.p_value < 0.05) < 0.12


@pytest.mark.parametrize("rotation", [False, True])
def test_a_gross_outlier_is_the_most_surprising(rotation: bool) -> None:
    for seed in range(8):
        made = simulate(25, completeness=0.25, sigma_rot_deg=2.0, seed=seed)
        rng = np.random.default_rng([7, seed])
        wxyz, t = made.graph.j_from_i_wxyz.copy(), made.graph.j_from_i_t.copy()
        k = int(
            rng.choice(np.flatnonzero(np.min(made.graph.degree[[made.graph.edge_i, made.graph.edge_j]], axis=0) > 2))
        )
        if rotation:
            wxyz[k] = quat.multiply(quat.exp(np.array([0.0, 1.5, 0.0])), wxyz[k])
        else:
            t[k] += 1.0
        checks, posterior, estimate = checked(replace(made.graph, j_from_i_wxyz=wxyz, j_from_i_t=t), made.truth)
        assert checks.order[0] == k and k in checks.suspects and checks.corrected_p < 1e-6
        part = checks.p_rotation if rotation else checks.p_translation
        assert part[k] < 1e-6
        assert leave_one_out(posterior, estimate, k)[2] < 1e-6
        i, j = checks.edges[k]
        assert f"most of all {i} → {j}" in describe.edge_checks(checks)
        assert checks.facts()["most_surprising"][0]["i"] == i


def test_the_check_equals_a_refit_without_the_edge() -> None:
    made = simulate(8, completeness=0.5, sigma_rot_deg=0.5, sigma_trans=0.01, seed=8)
    without = np.arange(made.graph.n_edges)[:, None] % 4 == 0
    graph = replace(made.graph, j_from_i_t=np.where(without, np.nan, made.graph.j_from_i_t))
    priors = Priors(translation_mean=made.truth.position, translation_precision=4.0, on_position=True)
    for given in (Priors(), priors):
        checks, posterior, estimate = checked(graph, made.truth, given)
        for k in range(0, graph.n_edges, 2):
            z2, freedom, p = leave_one_out(posterior, estimate, k)
            assert freedom == checks.freedom[k]
            assert z2 == pytest.approx(checks.z2[k], rel=0.01, abs=0.02)
            assert p == pytest.approx(checks.p_value[k], abs=0.01)


def test_nothing_checks_a_tree_or_a_bridge() -> None:
    made = simulate(10, completeness=0.01, seed=9)
    tree, posterior, estimate = checked(made.graph, made.truth)
    assert tree.n_checked == 0 and np.all(np.isnan(tree.p_value)) and "no loops" in describe.edge_checks(tree)
    assert np.all(tree.redundancy < 1e-6) and np.isnan(tree.corrected_p) and tree.facts()["corrected_p"] is None
    assert leave_one_out(posterior, estimate, 0)[1] == 0

    made = simulate(12, completeness=0.2, seed=11)
    some = checked(made.graph, made.truth)[0]
    bridges = np.isin(np.arange(made.graph.n_edges), made.graph.bridges)
    assert bridges.any() and not bridges.all()
    np.testing.assert_array_equal(some.freedom, np.where(bridges, 0, 6))


def test_redundancy_adds_up() -> None:
    """The residuals of a graph have as many degrees of freedom as it has numbers, minus those it determines."""
    made = simulate(15, completeness=0.4, sigma_rot_deg=1.0, seed=10)
    checks = checked(made.graph, made.truth)[0]
    assert np.sum(checks.redundancy) * 6 == pytest.approx(6 * made.graph.n_edges - 6 * 14, rel=1e-6)


def test_directions_without_information_are_not_counted() -> None:
    made = simulate(8, completeness=0.6, seed=12)
    flat = np.tile(np.diag([400.0, 400.0, 0.0]), (made.graph.n_edges, 1, 1))
    flat[1:, 2, 2] = 400.0
    checks = checked(replace(made.graph, translation_precision=flat), made.truth)[0]
    assert checks.freedom[0] == 5 and np.all(checks.freedom[1:] == 6)
