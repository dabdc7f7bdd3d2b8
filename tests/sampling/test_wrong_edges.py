"""Samplers with wrong edges: exact on graphs small enough to sum over every set of inliers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import csgraph

import tempose
from helpers.kernels import packed, random_graph, random_poses
from helpers.sampling import Case, mean_and_error
from helpers.wrong_edges import rotations_only, with_wrong_edges
from tempose import describe
from tempose.analysis.edge_checks import check_edges
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham, log_normalizer
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.sampling import Geodesic
from tempose.sampling._kernels import all_tied
from tempose.sampling.collapsed import frame_of
from tempose.sampling.wrong_edges import RobustTarget
from tempose.simulation import simulate

EXACT = ("collapsed", "geodesic-mh")
ALL = (*EXACT, "geodesic")
SIGMA_ROT, SIGMA_TRANS, PRIOR = 0.15, 0.1, 0.6


def two_nodes(translations: bool) -> PoseGraph:
    """Five measurements of one motion: three agree, one is somewhat off, one contradicts them."""
    rng = np.random.default_rng(2)
    turn = SIGMA_ROT * rng.standard_normal((5, 3))
    t = SIGMA_TRANS * rng.standard_normal((5, 3)) + [1.0, 0.5, -0.5]
    turn[3, 0] += 3.7 * SIGMA_ROT
    t[3, 1] += 3.4 * SIGMA_TRANS
    turn[4] += [1.0, 1.2, 0.0]
    return PoseGraph.from_concentrations(
        [(0, 1)] * 5, quat.exp(turn), t if translations else None, concentration=2.0 / SIGMA_ROT**2,
        translation_precision=1.0 / SIGMA_TRANS**2,
    )  # fmt: skip


def case(graph: PoseGraph, tail: float = math.inf) -> Case:
    posterior = Posterior(graph, likelihood=RobustLikelihood.of(graph, PRIOR, tail=tail))
    start = Poses(graph.node_ids, np.array([quat.IDENTITY, quat.IDENTITY]), np.array([[0.0] * 3, [-1.0, -0.5, 0.5]]))
    best = minimise(Curvature(posterior), start)
    assert best.is_minimum
    return Case(posterior, best.poses, best.potential)


def summed_over_all_sets(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Exact posterior inlier probability of each edge between two nodes, and mean of ``cos²(θ/2)`` to the first edge.

    Given a set of inliers the rotation is Bingham, with the sum of their matrices, and the translation Gaussian.
    """
    graph, likelihood = posterior.graph, posterior.likelihood
    m, lam = graph.n_edges, float(graph.concentration[0])
    matrices = [Bingham.from_mode(q, lam).axes[:, 1:] for q in graph.j_from_i_wxyz]
    log_weight, member, alignment = [], [], []
    for size in range(1, m + 1):  # no inlier at all: the nodes would not be tied together
        for chosen in itertools.combinations(range(m), size):
            inside = np.isin(np.arange(m), chosen)
            spread = lam * sum(matrices[k] @ matrices[k].T for k in chosen)
            values = np.linalg.eigvalsh(spread)
            bingham = Bingham.from_matrix(-spread)
            total = log_normalizer(values[1:] - values[0]) - values[0]
            if graph.has_translation[0]:
                t, tau = graph.j_from_i_t[inside], float(graph.translation_precision[0])
                total += -0.5 * tau * np.sum((t - t.mean(0)) ** 2) + 1.5 * math.log(2 * math.pi / (tau * size))
            total += np.sum(np.log(likelihood.prior[inside]) + likelihood.log_inlier[inside])
            total += np.sum(np.log1p(-likelihood.prior[~inside]) + likelihood.log_outlier[~inside])
            log_weight.append(total)
            member.append(inside)
            alignment.append(graph.j_from_i_wxyz[0] @ bingham.second_moment() @ graph.j_from_i_wxyz[0])
    weight = np.exp(np.array(log_weight) - max(log_weight))
    weight /= weight.sum()
    return weight @ np.array(member, float), float(weight @ np.array(alignment))


def of_draws(found: Case, draws) -> tuple[np.ndarray, np.ndarray]:
    """Inlier probability of every edge given each draw (s, m), and cos²(θ/2) to the first edge (s,)."""
    posterior, gamma, alignment = found.posterior, [], []
    for wxyz, position in draws:
        poses = Poses(posterior.graph.node_ids, wxyz, position)
        gamma.append(posterior.likelihood.inlier_probability(posterior.energies(poses)))
        q, _ = poses.node_from_world
        relative = quat.multiply(q[1], quat.conjugate(q[0]))
        alignment.append(float(relative @ posterior.graph.j_from_i_wxyz[0]) ** 2)
    return np.array(gamma), np.array(alignment)


@pytest.mark.parametrize(("name", "translations"), [*itertools.product(EXACT, (False, True)), ("tempering", False)])
def test_draws_have_the_probabilities_of_the_sum_over_all_sets(tmp_path: Path, name: str, translations: bool) -> None:
    found = case(two_nodes(translations))
    exact, exact_alignment = summed_over_all_sets(found.posterior)
    assert 0.15 < exact[3] < 0.85  # a real doubt
    assert exact[4] < 0.02
    gamma, alignment = of_draws(found, found.run(name, 2000, tmp_path))
    for k in range(5):
        mean, error = mean_and_error(gamma[:, k])
        assert error < 0.03
        assert abs(mean - exact[k]) < 4.0 * error + 0.002
    mean, error = mean_and_error(alignment)
    assert abs(mean - exact_alignment) < 4.0 * error
    at_the_mode = found.posterior.likelihood.inlier_probability(found.posterior.energies(found.best))
    assert abs(at_the_mode[3] - exact[3]) > 0.05  # negative control: the mode alone gives another answer


@pytest.mark.parametrize("translations", [False, True])
def test_verdicts_without_draws_are_those_of_the_sum_over_all_sets(translations: bool) -> None:
    found = case(two_nodes(translations))
    exact, _ = summed_over_all_sets(found.posterior)
    checks = check_edges(found.posterior, found.best)
    assert checks.inlier_probability(found.posterior.likelihood) == pytest.approx(exact, abs=0.08)


@pytest.mark.parametrize(
    ("tail", "kind"),
    [(2.0, {}), (math.inf, {}), (math.inf, {"correlated": "random"}), (2.0, {"correlated": True, "planar": True})],
)
def test_collapsed_agrees_with_the_summed_out_potential(tmp_path: Path, tail: float, kind: dict[str, object]) -> None:
    """Two exact samplers of one posterior: one with indicators and factors drawn, the other with both summed out."""
    made = simulate(6, completeness=0.7, sigma_rot_deg=6.0, sigma_trans=0.15, seed=3, **kind)  # type: ignore[arg-type]
    graph, _ = with_wrong_edges(made, 0.15, 3)
    posterior = Posterior(graph, likelihood=RobustLikelihood.of(graph, 0.8, tail=tail))
    best = minimise(Curvature(posterior), made.truth)
    found = Case(posterior, best.poses, best.potential)
    means, errors = [], []
    for name in EXACT:
        draws = found.run(name, 2500, tmp_path / name)
        energy = draws.energies[0]
        distance = np.array([np.linalg.norm(position[0] - position[4]) for _, position in draws])
        stats = [mean_and_error(x) for x in (energy, distance, distance**2)]
        means.append([mean for mean, _ in stats])
        errors.append([error for _, error in stats])
    gap, error = np.abs(np.subtract(*means)), np.hypot(*errors)
    assert np.all(gap < 4.0 * error)
    assert error[0] < 1.0


def test_samplers_agree_where_only_precise_edges_move_the_poses(tmp_path: Path) -> None:
    made = simulate(14, completeness=1.0, sigma_rot_deg=1.0, sigma_trans=0.0, seed=3)
    exact = rotations_only(made.graph)
    graph = replace(exact, concentration=exact.concentration / 9.0)  # edges fit so well that no node goes astray
    whole = RobustLikelihood.of(graph, 0.95, tail=0.5)
    means, errors = [], []
    for likelihood in (whole.precise_only(), whole):
        posterior = Posterior(graph, likelihood)
        best = minimise(Curvature(posterior), made.truth)
        found = Case(posterior, best.poses, best.potential)
        for name in EXACT:
            draws = found.run(name, 2000, tmp_path / f"{name}-{likelihood.is_precise_only}")
            turn = np.array([quat.angle_between(wxyz[0], wxyz[4]) for wxyz, _ in draws])
            stats = [mean_and_error(x) for x in (draws.energies[0], turn, turn**2)]
            means.append([mean for mean, _ in stats])
            errors.append([error for _, error in stats])
    assert np.all(np.abs(np.subtract(*means[:2])) < 4.0 * np.hypot(*errors[:2]))
    # negative control: the whole likelihood has another U
    assert abs(means[2][0] - means[0][0]) > 10.0 * math.hypot(errors[2][0], errors[0][0])


@pytest.mark.parametrize("name", ALL)
def test_contract(tmp_path: Path, name: str) -> None:
    """Same seed, same draws; a continued run is the same run; wrong edges are found."""
    made = simulate(10, completeness=0.8, seed=6)
    graph, wrong = with_wrong_edges(made, 0.2, 5)
    options = {"robust": True, "noise": "auto", "sampler": name, "chains": 2, "seed": 4, "start": "given"}
    graph = replace(graph, initial=made.truth)
    whole = tempose.solve(graph, **options, draws=80, directory=tmp_path / "whole")
    tempose.solve(graph, **options, draws=30, directory=tmp_path / "parts")
    parts = tempose.solve(graph, **options, draws=80, directory=tmp_path / "parts")
    assert whole.draws.sampler == name
    for a, b in zip(whole.draws.arrays, parts.draws.arrays, strict=True):
        assert np.array_equal(a, b)
    assert set(whole.verdicts.distrusted) == set(np.flatnonzero(wrong))
    sigma = whole.nodes.sigma_rot_deg[1:] / tempose.solve(graph, **{**options, "draws": 0}).nodes.sigma_rot_deg[1:]
    assert 0.75 < np.median(sigma) < 1.25


def test_stochastic_gradients_work_too(tmp_path: Path) -> None:
    made = simulate(10, completeness=0.8, seed=6)
    graph, wrong = with_wrong_edges(made, 0.2, 5)
    graph = replace(graph, initial=made.truth)
    solution = tempose.solve(graph, robust=True, start="given", draws=40, chains=1, sampler=Geodesic(batch=16, thin=20))
    assert solution.draws.sampler == "geodesic"
    assert set(solution.verdicts.distrusted) == set(np.flatnonzero(wrong))


def test_auto_prefers_collapsed_and_refuses_it_where_it_is_not_exact() -> None:
    made = simulate(12, completeness=0.8, seed=6)
    graph, _ = with_wrong_edges(made, 0.2, 5)
    graph = replace(graph, initial=made.truth)
    assert tempose.solve(graph, robust=True, start="given", draws=8).draws.sampler == "collapsed"
    cold = tempose.solve(graph, robust=True, start="given", draws=8, beta=2.0)
    assert cold.draws.sampler == "geodesic-mh"
    assert "wrong edges at β = 2" in describe.reason(cold.draws.reason)
    with pytest.raises(NotApplicable, match="no mixture"):
        tempose.solve(graph, robust=True, start="given", draws=8, beta=2.0, sampler="collapsed")


# ---------------------------------------------------------------------- the pieces


@pytest.mark.parametrize("kind", ["isotropic", "full"])
def test_weighted_blocks_and_energies(kind: str) -> None:
    rng = np.random.default_rng(5)
    graph = random_graph(rng, 7, 90, kind, rotation_only=0.3)
    posterior = Posterior(graph, likelihood=RobustLikelihood.of(graph, 0.7))
    poses, weights = random_poses(rng, 7), rng.uniform(0.0, 2.0, 90)
    assert posterior.energies_of(packed(poses)) == pytest.approx(posterior.energies(poses), rel=1e-12)
    out = np.zeros((7, 8))
    energy = posterior.gradient_into(packed(poses), posterior.workspace(), out, posterior.weighted_blocks(weights))
    shaped = weights.reshape(-1, *(1,) * (graph.concentration.ndim - 1))
    weighted = Posterior(
        replace(
            graph,
            concentration=graph.concentration * shaped,
            translation_precision=graph.translation_precision * shaped,
        )
    )
    expected = weighted.gradient(poses)
    assert energy == pytest.approx(expected[0], rel=1e-12)
    assert out[:, :6] == pytest.approx(expected[1], rel=1e-10, abs=1e-10)


def test_weights_that_leave_a_node_anywhere_are_refused() -> None:
    found = case(two_nodes(True))
    target = RobustTarget(found.problem().laplace)
    assert not target.holds_together(np.zeros(5))
    assert target.holds_together(np.array([0.0, 0.0, 1.0, 0.0, 0.0]))


def test_whether_all_nodes_are_tied_is_what_connected_components_say() -> None:
    rng, answers = np.random.default_rng(5), []
    for _ in range(300):
        n, m = int(rng.integers(2, 12)), int(rng.integers(1, 24))
        i, j, weight, held = (
            rng.integers(n, size=m),
            rng.integers(n, size=m),
            rng.integers(2, size=m) * 0.3,
            np.zeros(n, bool),
        )
        held[rng.integers(n, size=2)] = True
        links = sparse.csr_array((weight, (i, j)), shape=(n, n))
        links.eliminate_zeros()
        part = csgraph.connected_components(links, directed=False)[1]
        answers.append(bool(np.all(np.isin(part, part[held]))))
        assert all_tied(i, j, weight, held) == answers[-1]
    assert 30 < sum(answers) < 270  # both happen


def test_weights_that_leave_a_direction_open_are_refused() -> None:
    """Two translations, each of which says nothing along an axis: both are needed."""
    graph = two_nodes(True)
    precision = np.tile(np.eye(3) / SIGMA_TRANS**2, (5, 1, 1))
    precision[:2, 2, 2] = 0.0
    precision[1:, 0, 0] = 0.0
    found = case(replace(graph, translation_precision=precision))
    target = RobustTarget(found.problem().laplace)
    assert target.holds_together(np.array([1.0, 1.0, 1.0, 0.0, 0.0]))
    assert not target.holds_together(np.array([1.0, 1.0, 0.0, 0.0, 0.0]))
    assert not target.holds_together(np.array([0.0, 0.0, 1.0, 1.0, 0.0]))


def test_no_rotation_of_a_node_is_out_of_reach() -> None:
    """With wrong edges tails are heavy: a node far from where Laplace has it is improbable, not impossible."""
    made = simulate(8, sigma_rot_deg=1.0, seed=5)
    posterior = Posterior(made.graph, likelihood=RobustLikelihood.of(made.graph, 0.8))
    laplace = Case(posterior, minimise(Curvature(posterior), made.truth).poses, 0.0).problem().laplace
    target = RobustTarget(laplace)
    x = np.zeros((8, 6))
    x[5, 0] = 0.95 * math.pi
    unwhiten = np.stack([target.laplace.factor.solve_Lt(e) for e in np.eye(48)], axis=1)
    y = np.linalg.solve(unwhiten, x.reshape(-1))
    assert math.isfinite(target.at(y).remainder)
    # negative control: the mean of all, which must stay within π/2 of each
    assert math.isinf(target.at(y, target.expected.model._replace(frame=frame_of(target.laplace))).remainder)
