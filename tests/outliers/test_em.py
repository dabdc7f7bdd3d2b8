"""Noise, share of inliers and tails estimated with the poses: what was simulated comes back, without bias."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize

from helpers.wrong_edges import rotations_only, with_wrong_edges, without_noise_levels
from tempose import describe
from tempose.analysis.accuracy import pose_errors
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.starts import start_poses
from tempose.outliers import em as estimate
from tempose.outliers import rotations
from tempose.outliers.em import RobustOptions, fit, fit_both
from tempose.outliers.noise import FEWEST_SPARE, EdgeEnergies, Parameters, _both_scales, _Sums, log_prior, tails
from tempose.simulation import simulate
from tempose.studies.rough_edges import rough_world


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
@pytest.mark.parametrize("rotation_only", [False, True])
def test_parameters_come_back_without_any_noise_level(share, rotation_only):
    made = simulate(40, completeness=0.6, sigma_rot_deg=4.0, sigma_trans=0.1, seed=5)
    graph, wrong = with_wrong_edges(made, share, 1)
    if rotation_only:
        graph = rotations_only(graph)
    found = fit(without_noise_levels(graph), made.truth)
    assert found.status == "converged"
    assert found.sigma_rot_deg == pytest.approx(4.0, rel=0.1)
    assert math.isnan(found.sigma_trans) if rotation_only else found.sigma_trans == pytest.approx(0.1, rel=0.1)
    assert found.parameters.inlier_probability == pytest.approx(1.0 - share, abs=0.03)
    gamma = found.inlier_probability
    assert np.mean(gamma[~wrong]) > 0.97
    if share:
        assert np.mean(gamma[wrong]) < 0.03
    oracle = fit(graph.with_edges(~wrong), made.truth, RobustOptions("given", 1.0, math.inf))
    if not rotation_only:
        errors = [pose_errors(f.poses, made.truth).mean_rotation_deg for f in (found, oracle)]
        assert errors[0] < 1.05 * errors[1]


def test_sigma_is_unbiased_although_the_poses_were_fitted_too():
    ratios = []
    for seed in range(25):  # 12 nodes, 20 edges: the poses use up more than half of all numbers
        made = simulate(12, completeness=0.28, sigma_rot_deg=2.0, sigma_trans=0.05, seed=seed)
        found = fit(without_noise_levels(made.graph), made.truth, RobustOptions("auto", 1.0, math.inf))
        ratios.append([(found.sigma_rot_deg / 2.0) ** 2, (found.sigma_trans / 0.05) ** 2])
    mean, error = np.mean(ratios, axis=0), np.std(ratios, axis=0) / 5.0
    assert np.all(np.abs(mean - 1.0) < 3.5 * error)
    assert np.all(error < 0.15)
    uncorrected = mean * (
        1.0 - 66.0 / (6 * made.graph.n_edges)
    )  # negative control: without the degrees of freedom used
    assert np.all(uncorrected < 0.6)


def test_heavy_tails_are_found_where_they_are():
    rng = np.random.default_rng(3)
    made = simulate(40, completeness=0.6, seed=2)
    graph = made.graph
    q, t = made.truth.node_from_world
    i, j = graph.edge_i, graph.edge_j
    wxyz, translation = se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))
    scale = 1.0 / np.sqrt(rng.gamma(1.0, 1.0, len(i)))[:, None]  # ν = 2
    turn = quat.exp(np.radians(2.0) * scale * rng.standard_normal((len(i), 3)))
    translation = translation + 0.04 * scale * rng.standard_normal((len(i), 3))
    heavy = replace(graph, j_from_i_wxyz=quat.multiply(turn, wxyz), j_from_i_t=translation)
    found = fit(without_noise_levels(heavy), made.truth)
    assert found.parameters.tail in (1.0, 2.0, 4.0)
    assert found.sigma_rot_deg == pytest.approx(2.0, rel=0.15)
    gaussian = fit(without_noise_levels(heavy), made.truth, RobustOptions(tail=math.inf))
    assert gaussian.log_likelihood < found.log_likelihood - 10.0
    assert gaussian.sigma_rot_deg > 1.2 * found.sigma_rot_deg  # inflated by the tails
    assert math.isinf(fit(without_noise_levels(graph), made.truth).parameters.tail)  # and not where they are not


def test_rotations_whose_errors_have_no_scale_get_the_heaviest_tails():
    rng = np.random.default_rng(5)
    made = simulate(40, completeness=0.8, seed=2)
    graph, turns = made.graph, made.truth.wxyz
    exact = quat.multiply(quat.conjugate(turns[graph.edge_j]), turns[graph.edge_i])
    direction = rng.standard_normal((graph.n_edges, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    angle = np.radians(np.exp(rng.uniform(math.log(0.1), math.log(50.0), graph.n_edges)))  # log-uniform
    noisy = replace(graph, j_from_i_wxyz=quat.multiply(quat.exp(angle[:, None] * direction), exact))
    alone = rotations_only(noisy)
    found = fit(without_noise_levels(alone), made.truth)
    assert found.parameters.tail < 1.0
    limited = fit(without_noise_levels(alone), made.truth, RobustOptions(tail=1.0))
    assert limited.log_likelihood < found.log_likelihood - 20.0
    errors = [pose_errors(one.poses, made.truth).mean_rotation_deg for one in (found, limited)]
    assert errors[0] < errors[1]
    few = np.arange(alone.n_edges) < 5 * alone.n_nodes
    assert min(tails(alone)) < 1.0 == min(tails(alone.with_edges(few)))  # poses could be put onto the peak of the core
    assert min(tails(noisy)) == 1.0  # with translations such a core would outlast the density of wrong ones
    assert math.isinf(fit(without_noise_levels(rotations_only(graph)), made.truth).parameters.tail)


@pytest.mark.parametrize("seed", [601, 603])
def test_rough_edges_that_err_alike_do_not_outvote_precise_ones(seed):
    graph, truth = rough_world("alike", seed, nodes=50)
    every, precise = fit_both(graph, truth, RobustOptions(), np.full(graph.n_edges, np.nan))
    found = fit(graph, truth)
    assert precise is not None and found.likelihood.is_precise_only
    assert np.array_equal(found.poses.wxyz, precise.poses.wxyz)
    errors = [pose_errors(one.poses, truth).mean_rotation_deg for one in (found, every)]
    assert errors[0] < 0.7 * errors[1]
    assert np.mean(found.inlier_probability) > 0.9  # rough ones are right, but do not move the poses
    assert np.mean(found.likelihood.moving_probability(found.energies)) < 0.6
    # negative control: errors as large, each in its own direction
    graph, truth = rough_world("each by itself", seed, nodes=50)
    every, precise = fit_both(graph, truth, RobustOptions(), np.full(graph.n_edges, np.nan))
    found = fit(graph, truth)
    assert found.parameters.tail < 1.0 and precise is not None and not found.likelihood.is_precise_only
    assert np.array_equal(found.poses.wxyz, every.poses.wxyz)
    errors = [pose_errors(one.poses, truth).mean_rotation_deg for one in (found, precise)]
    assert errors[0] < errors[1]


def test_rotations_alone_have_a_shortcut_to_the_same_numbers():
    made = simulate(30, sigma_rot_deg=4.0, seed=8)
    graph = rotations_only(with_wrong_edges(made, 0.3, 2)[0])
    posterior = Posterior(graph, likelihood=RobustLikelihood.of(graph, 0.7, tail=4.0))
    assert rotations.applies(graph)
    alone = rotations.RotationsAlone(graph)
    near = alone.lower(posterior, made.truth, 200, 1e-13)
    best = minimise(Curvature(posterior), made.truth)
    assert posterior.potential(near) == pytest.approx(best.potential, rel=1e-9)
    found = alone.used(posterior, best.poses)
    expected = estimate._residuals(graph, Curvature(posterior), best.poses).used_rotation
    kept = posterior.likelihood.inlier_probability(posterior.energies(best.poses)) > 0.5
    assert found[kept] == pytest.approx(expected[kept], rel=0.02)
    weight = posterior.likelihood.weight(posterior.energies(best.poses))
    assert weight @ found == pytest.approx(3 * (graph.n_nodes - 1), rel=1e-6)  # all that the poses have


def test_given_values_stay():
    made = simulate(20, seed=1)
    graph, _ = with_wrong_edges(made, 0.2, 4)
    found = fit(graph, made.truth, RobustOptions("given", inlier_probability=0.6, tail=5.0))
    p = found.parameters
    assert (p.rotation_scale, p.translation_scale, p.inlier_probability, p.tail) == (1.0, 1.0, 0.6, 5.0)
    assert found.graph.concentration == pytest.approx(graph.concentration)


def test_edges_with_a_probability_of_their_own_keep_it():
    made = simulate(20, seed=1)
    graph, wrong = with_wrong_edges(made, 0.5, 4)
    own = np.where(np.arange(graph.n_edges) < 30, 0.999, np.nan)
    found = fit(graph, made.truth, own_probability=own)
    assert np.all(found.likelihood.prior[:30] == 0.999)
    rest = found.likelihood.prior[30:]
    assert np.all(rest == rest[0])
    assert rest[0] == pytest.approx(np.mean(~wrong[30:]), abs=0.05)


def test_parameters_converge_to_the_same_from_other_beginnings():
    made = simulate(25, seed=9)
    graph, _ = with_wrong_edges(made, 0.4, 4)
    first = estimate.first_parameters(graph, made.truth, RobustOptions(), np.full(graph.n_edges, np.nan))
    found = [
        fit(graph, made.truth, first=replace(first, rotation_scale=s * first.rotation_scale)).sigma_rot_deg
        for s in (0.3, 1.0, 3.0)
    ]
    assert found[0] == pytest.approx(found[1], rel=0.01)
    assert found[2] == pytest.approx(found[1], rel=0.01)


def test_noise_is_not_made_up_where_nothing_checks_anything():
    made = simulate(12, shape="sphere", seed=1)
    chain = made.graph.with_edges(np.abs(made.graph.edge_i - made.graph.edge_j) == 1)
    with pytest.raises(NotApplicable, match="noise of rotations cannot be estimated: no edge is checked"):
        fit(chain, made.truth)
    assert fit(chain, made.truth, RobustOptions("given")).status == "converged"
    few = made.graph.j_from_i_t.copy()
    few[np.abs(made.graph.edge_i - made.graph.edge_j) != 1] = np.nan
    with pytest.raises(NotApplicable, match="noise of translations"):
        fit(replace(made.graph, j_from_i_t=few), made.truth)


@pytest.mark.parametrize(
    ("bad", "words"), [({"noise": "none"}, "noise"), ({"inlier_probability": 0.0}, "inlier"), ({"tail": -1.0}, "tail")]
)
def test_bad_options_are_refused(bad, words):
    with pytest.raises(OptionError, match=words):
        RobustOptions(**bad)


def test_an_energy_is_never_negative_whatever_rounding_leaves_of_what_the_poses_have_used() -> None:
    """As when the noise is about to collapse, and the covariances are rounding."""
    graph = simulate(6, completeness=1.0, seed=0).graph
    zero = np.zeros(graph.n_edges)
    rounded = np.where(np.arange(graph.n_edges) == 2, -2.2, 0.3)
    energy = EdgeEnergies(graph, zero, zero, zero, rounded).energy(Parameters(1e-6, 1e-6, 0.8, 1.0, 1.0))
    assert energy[2] == 0.0
    np.testing.assert_allclose(np.delete(energy, 2), 0.15)


# ---------------------------------------------------------------------- noise that cannot collapse


def test_the_prior_of_a_scale_is_a_density_of_its_logarithm():
    assert integrate.quad(lambda x: math.exp(log_prior(math.exp(x))), -80, 80)[0] == pytest.approx(1.0, rel=1e-9)
    assert integrate.quad(lambda x: math.exp(log_prior(math.exp(x))), -80, 0)[0] == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize(
    ("energy", "left"), [(0.0, 0.0), (1e-9, 0.5), (3.0, 0.0), (7.0, 12.0), (1e-7, 400.0), (1e9, 300.0)]
)
def test_the_scale_is_where_likelihood_times_prior_is_largest(energy, left):
    def value(log_s: float) -> float:
        return left * log_s + energy * math.exp(-2.0 * log_s) - log_prior(math.exp(log_s))

    found = _Sums(energy, left).scale()
    best = optimize.minimize_scalar(value, bounds=(-20.0, 20.0), method="bounded", options={"xatol": 1e-10}).x
    assert math.log(found) == pytest.approx(best, abs=1e-5)
    if left >= 300.0:  # what is well determined hardly moves
        assert found == pytest.approx(math.sqrt(2.0 * energy / left), rel=0.6 / left)


def test_scales_that_correlated_edges_share_have_the_same_prior():
    a, b, cross = _Sums(4.0, 9.0), _Sums(0.6, 14.0), -1.9

    def value(log: np.ndarray) -> float:
        s, t = np.exp(log)
        return 9.0 * log[0] + 14.0 * log[1] + 4.0 / s**2 + cross / (s * t) + 0.6 / t**2 - log_prior(s) - log_prior(t)

    best = optimize.minimize(value, [0.0, 0.0], tol=1e-12).x
    assert np.log(_both_scales(a, b, cross)) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("tail", [math.inf, 4.0, 1.0])
def test_a_tree_has_no_spare_numbers_whatever_the_core(tail):
    made = simulate(80, shape="trajectory", sigma_rot_deg=3.0, sigma_trans=0.05, seed=3)
    wrong = np.abs(made.graph.edge_i - made.graph.edge_j) != 1
    t = made.graph.j_from_i_t + np.where(wrong, 1e3, 0.0)[:, None]
    graph = replace(made.graph, j_from_i_t=t)
    chain = graph.with_edges(~wrong)
    poses = start_poses(chain, "tree", np.random.default_rng(0))
    p = Parameters(1.0, 1.0, 0.7, tail, 2.0)
    own = np.full(graph.n_edges, np.nan)
    left = estimate._residuals(graph, Curvature(Posterior(graph, p.likelihood(graph, own))), poses)
    spare = left.spare(p, own)
    assert spare["rotation_scale"] < 0.01 * graph.n_edges  # curved rotations have a bit more than three
    assert spare["translation_scale"] < 0.01 * graph.n_edges  # curved rotations have a bit more than three
    honest = made.graph  # negative control: where the other edges are right there are
    fitted = minimise(Curvature(Posterior(honest, p.likelihood(honest, own))), made.truth).poses
    left = estimate._residuals(honest, Curvature(Posterior(honest, p.likelihood(honest, own))), fitted)
    assert left.spare(p, own)["rotation_scale"] > 1.5 * np.sum(wrong) > 10.0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["tree", "chordal"])
def test_poses_that_interpolate_some_edges_do_not_make_the_noise_collapse(seed, kind):
    made = simulate(150, shape="trajectory", sigma_rot_deg=3.0, sigma_trans=0.05, seed=seed)
    graph, _ = with_wrong_edges(made, 0.15, seed)
    found = fit(graph, start_poses(graph, kind, np.random.default_rng(seed)))
    p = found.parameters
    assert 0.5 < p.rotation_scale < 3.0
    assert 0.5 < p.translation_scale < 3.0
    assert 0.0 < p.inlier_probability < 1.0
    assert np.all(np.isfinite([found.log_likelihood, found.log_evidence]))
    assert np.all(np.isfinite(found.inlier_probability))
    best = fit(graph, made.truth)
    assert found.log_evidence < best.log_evidence + 1e-3


def test_noise_that_few_edges_check_is_kept_as_stated():
    made = simulate(60, shape="trajectory", sigma_rot_deg=3.0, sigma_trans=0.05, seed=1)
    step = np.abs(made.graph.edge_i - made.graph.edge_j)
    few = made.graph.with_edges((step == 1) | (np.cumsum(step > 1) * (step > 1) % 40 == 1))
    spare = 3 * (few.n_edges - 59)
    assert 0 < spare < FEWEST_SPARE
    found = fit(few, made.truth)
    assert found.parameters.kept == ("rotation_scale", "translation_scale")
    assert (found.parameters.rotation_scale, found.parameters.translation_scale) == (1.0, 1.0)
    assert any("rotations between poses is kept as stated" in line for line in describe.kept_noise(found.parameters))
    known = fit(few, made.truth, RobustOptions("auto", 1.0, math.inf))  # all edges right: there is nothing to lose
    assert known.parameters.kept == ()
    assert known.parameters.rotation_scale != 1.0
    assert fit(made.graph, made.truth).parameters.kept == ()
