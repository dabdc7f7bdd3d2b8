"""The certificate proves what it says: known optima pass, local optima do not, bounds hold for any poses."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.slow import slow_size
from tempose import describe
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.optimum import certificate, proof
from tempose.optimum.certificate import Certificate, Dual, isotropic_below, smallest_eigenpair, with_lower_bound
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify, solve_to_certificate
from tempose.optimum.quadratic import Quadratic
from tempose.optimum.staircase import climb, expected_work, minimise_lifted, round_to_poses, tangent
from tempose.optimum.starts import random_poses, start_poses
from tempose.simulation import simulate

DATA = os.environ.get("TEMPOSE_DATA")
OPTIMA = {  # F = 2U
    "tinyGrid3D": 18.519366,
    "smallGrid3D": 1025.398056,
    "sphere2500": 1687.005814,
    "torus3D": 24227.045558,
    "parking-garage": 1.262524,
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def optimum(graph: PoseGraph, start: str = "chordal") -> tuple[Posterior, Poses]:
    posterior = Posterior(graph)
    return posterior, minimise(Curvature(posterior), start_poses(graph, start, rng())).poses


def ring(n: int = 12, noise: float = 0.02) -> tuple[PoseGraph, Poses]:
    """A ring of equal poses, and poses that turn once around on the way: a local optimum, U = n λ sin²(π/n) + …"""
    edges = [(k, (k + 1) % n) for k in range(n)]
    graph = PoseGraph.from_concentrations(
        edges,
        quat.exp(noise * rng(1).standard_normal((n, 3))),
        np.zeros((n, 3)),
        concentration=8.0,
        translation_precision=4.0,
    )
    angle = 2.0 * np.pi * np.arange(n) / n
    return graph, Poses(graph.node_ids, quat.exp(angle[:, None] * np.array([0.0, 0.0, 1.0])), np.zeros((n, 3)))


def best_of_restarts(posterior: Posterior, restarts: int, seed: int) -> float:
    curvature = Curvature(posterior)
    g = rng(seed)
    return min(minimise(curvature, random_poses(posterior.graph, g), max_steps=100).potential for _ in range(restarts))


# ---------------------------------------------------------------------- known optima


@pytest.mark.skipif(DATA is None, reason="TEMPOSE_DATA is not set: no graph files to certify")
@pytest.mark.parametrize("name", OPTIMA)
def test_published_optima_are_certified(name: str) -> None:
    from tempose.io import ReadOptions, read_graph

    graph = read_graph(Path(str(DATA)) / "g2o" / f"{name}.g2o", ReadOptions(precision="isotropic"))
    posterior, poses = optimum(graph)
    result = certify(posterior, poses)
    assert result.certified is True
    assert result.status == "certified"
    assert 2.0 * result.potential == pytest.approx(OPTIMA[name], abs=1e-6)
    assert 0.0 <= result.relative_suboptimality <= 1e-6
    assert result.lower_bound <= result.potential
    assert result.direction is None
    assert "global optimum" in describe.certificate(result)


@pytest.mark.skipif(DATA is None, reason="TEMPOSE_DATA is not set: no graph files to certify")
def test_a_perturbed_optimum_is_not_certified() -> None:
    from tempose.io import read_graph

    graph = read_graph(Path(str(DATA)) / "g2o" / "smallGrid3D.g2o")
    posterior, poses = optimum(graph)
    turned = quat.multiply(quat.exp(1e-3 * rng().standard_normal((len(poses), 3))), poses.wxyz)
    result = certify(posterior, replace(poses, wxyz=turned))
    assert result.certified is False
    assert result.lower_bound <= 0.5 * OPTIMA["smallGrid3D"]
    assert result.direction is not None


# ---------------------------------------------------------------------- the matrix


def dense_certificate(graph: PoseGraph, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M and S with positions eliminated, from the definition: M column by column from the energy's bilinear form."""
    n = graph.n_nodes
    J = []
    for e, (i, j) in enumerate(zip(graph.edge_i, graph.edge_j, strict=True)):
        Q, t = quat.to_matrix(graph.j_from_i_wxyz[e]), graph.j_from_i_t[e]
        for c in range(3):  # column c of R_i − R_j Q
            row = np.zeros((n, 4))
            row[i, 1 + c] += 1.0
            row[j, 1:] -= Q[:, c]
            J.append(np.sqrt(graph.concentration[e] / 4.0) * row.reshape(-1))
        if not np.isnan(t[0]):
            row = np.zeros((n, 4))
            row[i, 0] += 1.0
            row[j, 0] -= 1.0
            row[j, 1:] -= t
            J.append(np.sqrt(graph.translation_precision[e]) * row.reshape(-1))
    J = np.array(J)
    M = J.T @ J
    XM = (M @ X.reshape(4 * n, -1)).reshape(X.shape)
    S = M.copy()
    for k in range(n):
        lam = X[k, 1:] @ XM[k, 1:].T
        S[4 * k + 1 : 4 * k + 4, 4 * k + 1 : 4 * k + 4] -= 0.5 * (lam + lam.T)
    p = 4 * np.arange(n)
    r = np.setdiff1d(np.arange(4 * n), p)
    return M, S[np.ix_(r, r)] - S[np.ix_(r, p)] @ np.linalg.pinv(S[np.ix_(p, p)]) @ S[np.ix_(p, r)]


@pytest.mark.parametrize(("shape", "where"), [("random", "optimum"), ("sphere", "random"), ("torus", "optimum")])
def test_smallest_eigenvalue_against_dense(shape: str, where: str) -> None:
    graph = simulate(20, shape=shape, sigma_rot_deg=20.0, sigma_trans=0.3, seed=2).graph
    graph = replace(graph, concentration=rng(3).uniform(5.0, 80.0, graph.n_edges))
    posterior, poses = optimum(graph)
    if where == "random":
        poses = random_poses(graph, rng(4))
    problem = Quadratic(graph)
    X = problem.point(poses)
    value, gradient = problem.gradient(X)
    assert value == pytest.approx(posterior.potential(poses), rel=1e-12)
    M, reduced = dense_certificate(graph, X)
    np.testing.assert_allclose(gradient.reshape(80, 3), M @ X.reshape(80, 3), atol=1e-9 * np.abs(M).max())
    expected = float(np.linalg.eigvalsh(reduced)[0])
    lam = problem.multipliers(X, gradient)
    dual = Dual(problem, lam, value, value, 0.0)
    shift = max(-expected, 0.0) + 1.0
    factor = dual.proves(shift)
    assert factor is not None
    vector, found = smallest_eigenpair(problem, factor, shift)
    assert found == pytest.approx(expected, abs=1e-7 * np.abs(reduced).max())
    rotation = vector[:, 1:].reshape(-1)
    np.testing.assert_allclose(reduced @ rotation, found * rotation, atol=1e-4 * np.abs(reduced).max())
    # the factorisation test is sharp on both sides of the eigenvalue
    assert dual.proves(-expected + 1e-6 * np.abs(reduced).max()) is not None
    assert dual.proves(-expected - 1e-6 * np.abs(reduced).max()) is None


def test_a_broken_matrix_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the proof depends on the multipliers being right."""
    posterior, poses = optimum(simulate(30, shape="random", seed=1).graph)
    assert certify(posterior, poses).certified is True
    right = Quadratic.multipliers

    def wrong(self: Quadratic, X: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        lam = right(self, X, gradient)
        lam[3] += 1e-2 * self.scale[3] * np.eye(3)
        return lam

    monkeypatch.setattr(Quadratic, "multipliers", wrong)
    assert certify(posterior, poses).certified is False


# ---------------------------------------------------------------------- bounds


@pytest.mark.parametrize("shape", ["random", "sphere", "grid"])
def test_the_bound_holds_for_any_poses(shape: str) -> None:
    """Also for poses that are not stationary, positions included."""
    graph = simulate(27, shape=shape, sigma_rot_deg=10.0, sigma_trans=0.2, seed=5).graph
    posterior, poses = optimum(graph)
    best = certify(posterior, poses)
    assert best.certified is True
    for k, size in enumerate([1e-6, 1e-3, 0.1, 1.0, 10.0]):
        g = rng(k)
        wxyz = quat.multiply(quat.exp(size * g.standard_normal((len(poses), 3))), poses.wxyz)
        for position in (poses.position, poses.position + size * g.standard_normal(poses.position.shape)):
            moved = Poses(poses.ids, wxyz, position)
            result = certify(posterior, moved)
            assert result.lower_bound <= best.potential * (1.0 + 1e-12)
            assert result.potential == pytest.approx(posterior.potential(moved))
            assert result.suboptimality >= result.potential - best.potential - 1e-9 * best.potential
            if result.certified:
                assert result.potential - best.potential <= 1e-6 * result.potential


@pytest.mark.parametrize("kind", ["rotations", "translations", "rotation prior", "position prior"])
def test_bound_of_anisotropic_graphs_and_priors(kind: str) -> None:
    graph = simulate(20, shape="random", sigma_rot_deg=8.0, sigma_trans=0.1, seed=6).graph
    g = rng(7)
    priors = Priors()
    if kind == "rotations":
        graph = replace(graph, concentration=graph.concentration[:, None] * g.uniform(1.0, 2.0, (graph.n_edges, 3)))
    elif kind == "translations":
        a = g.standard_normal((graph.n_edges, 3, 3))
        graph = replace(
            graph,
            translation_precision=graph.translation_precision[:, None, None] * (np.eye(3) + a @ np.swapaxes(a, 1, 2)),
        )
    elif kind == "rotation prior":
        priors = Priors(rotation=Bingham.from_mode(quat.IDENTITY, [2.0, 3.0, 4.0]))
    else:
        priors = Priors(translation_precision=np.diag([0.5, 0.6, 0.9]))
    graph = priors.added_to(graph)
    posterior = Posterior(graph)
    curvature = Curvature(posterior)
    values = [minimise(curvature, start_poses(graph, "chordal", g))]
    values += [minimise(curvature, random_poses(graph, g)) for _ in range(5)]
    best = min(values, key=lambda m: m.potential)
    result = certify(posterior, best.poses)
    assert result.certified is None
    assert result.status == "bound only"
    assert 0.0 < result.lower_bound <= best.potential
    assert result.suboptimality == pytest.approx(best.potential - result.lower_bound)
    assert "not proven" in describe.certificate(result)


@pytest.mark.parametrize("on_position", [False, True])
def test_isotropic_priors_are_inside_the_proof(on_position: bool) -> None:
    """They are edges like any other: the optimum with the paper's own priors is certified."""
    made = simulate(20, shape="random", sigma_rot_deg=4.0, sigma_trans=0.1, seed=6)
    priors = Priors(Bingham.from_mode(quat.IDENTITY, 2.0), [0.1, 0.2, 0.3], 0.5, on_position)
    graph = priors.added_to(made.graph)
    posterior = Posterior(graph)
    best = minimise(Curvature(posterior), start_poses(graph, "chordal", rng(7)))
    result = certify(posterior, best.poses)
    assert result.certified
    assert result.lower_bound == pytest.approx(best.potential, rel=1e-5)


def test_the_isotropic_graph_below_lies_below() -> None:
    graph = simulate(10, seed=1).graph
    a = rng(1).standard_normal((2, graph.n_edges, 3, 3))
    full = replace(
        graph, concentration=a[0] @ np.swapaxes(a[0], 1, 2), translation_precision=a[1] @ np.swapaxes(a[1], 1, 2)
    )
    below, exact = isotropic_below(full)
    assert not exact
    for k in range(20):
        poses = random_poses(graph, rng(k))
        assert Posterior(below).potential(poses) <= Posterior(full).potential(poses)
    same, exact = isotropic_below(replace(graph, concentration=graph.concentration_matrices))
    assert exact
    np.testing.assert_allclose(same.concentration, graph.concentration)


# ---------------------------------------------------------------------- graphs that break others


def test_components_isolated_nodes_and_rotation_only_edges() -> None:
    one, other = (simulate(15, shape="random", sigma_rot_deg=5.0, seed=s).graph for s in (1, 2))
    t = np.concatenate([one.j_from_i_t, other.j_from_i_t])
    t[::5] = np.nan
    both = PoseGraph(
        tuple(range(31)),
        np.concatenate([one.edge_i, other.edge_i + 16]),
        np.concatenate([one.edge_j, other.edge_j + 16]),
        np.concatenate([one.j_from_i_wxyz, other.j_from_i_wxyz]),
        t,
        np.concatenate([one.concentration, other.concentration]),
        np.concatenate([one.translation_precision, other.translation_precision]),
    )
    posterior, poses = optimum(both)
    result = certify(posterior, poses)
    assert result.certified is True
    # spoil one component only: its failure is found, the other's bound is kept
    wxyz = poses.wxyz.copy()
    wxyz[:15] = quat.random_uniform(rng(3), 15)
    spoiled = certify(posterior, replace(poses, wxyz=wxyz))
    assert spoiled.certified is False
    assert "1 of 3 components" in describe.certificate(spoiled)
    assert spoiled.direction is not None
    assert np.abs(spoiled.direction[16:]).max() == 0.0
    assert spoiled.lower_bound <= result.potential
    alone = certify(Posterior(both.subgraph(np.arange(16, 31))), poses.select(tuple(range(16, 31))))
    assert spoiled.lower_bound >= 0.99 * alone.lower_bound


def test_rotations_alone() -> None:
    graph = simulate(20, shape="random", sigma_rot_deg=10.0, seed=1).graph
    posterior, poses = optimum(replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan)))
    assert certify(posterior, poses).certified is True


def test_a_graph_without_noise_is_certified() -> None:
    graph = simulate(30, shape="sphere", sigma_rot_deg=0.0, sigma_trans=0.0, seed=1).graph
    graph = replace(graph, concentration=np.full(graph.n_edges, 10.0), translation_precision=np.ones(graph.n_edges))
    posterior, poses = optimum(graph)
    result = certify(posterior, poses)
    assert result.certified is True
    assert result.suboptimality < 1e-20
    nothing = PoseGraph(("a", "b"), [], [], np.empty((0, 4)), np.empty((0, 3)), np.empty(0), np.empty(0))
    assert certify(Posterior(nothing), Poses.identity(("a", "b"))).certified is True


def test_weights_over_ten_orders_are_never_certified_wrongly() -> None:
    graph = simulate(25, shape="random", sigma_rot_deg=10.0, sigma_trans=0.1, seed=3).graph
    g = rng(1)
    graph = replace(
        graph,
        concentration=10.0 ** g.uniform(-5, 5, graph.n_edges),
        translation_precision=10.0 ** g.uniform(-5, 5, graph.n_edges),
    )
    posterior, poses = optimum(graph)
    result = certify(posterior, poses)
    best = min(posterior.potential(poses), best_of_restarts(posterior, 5, 2))
    assert result.lower_bound <= best * (1.0 + 1e-12)
    if result.certified:
        assert result.potential <= best * (1.0 + 2e-6)


def test_options() -> None:
    graph = simulate(5, seed=1).graph
    with pytest.raises(OptionError, match="tolerance"):
        certify(Posterior(graph), Poses.identity(graph.node_ids), tolerance=0.0)
    with pytest.raises(OptionError, match="rank"):
        solve_to_certificate(Posterior(graph), Poses.identity(graph.node_ids), max_rank=2)


def test_a_bound_from_elsewhere_only_improves() -> None:
    graph, twisted = ring()
    result = certify(Posterior(graph), twisted)
    assert with_lower_bound(result, -1.0) is result
    better = with_lower_bound(result, 0.999 * result.potential)
    assert better.lower_bound == 0.999 * result.potential
    assert better.certified is False
    assert with_lower_bound(result, result.potential * (1.0 - 1e-9)).certified is True


# ---------------------------------------------------------------------- local optima and the staircase


def test_a_twisted_ring_is_not_certified_and_the_staircase_unwinds_it() -> None:
    graph, twisted = ring()
    posterior = Posterior(graph)
    stuck = solve_to_certificate(posterior, twisted, max_rank=3)
    assert stuck.potential == pytest.approx(12 * 8.0 * np.sin(np.pi / 12) ** 2, rel=0.1)  # still wound up
    assert stuck.certificate.certified is False
    assert stuck.certificate.min_eigenvalue < 0.0
    free = solve_to_certificate(posterior, twisted)
    _, poses = optimum(graph)
    assert free.potential == pytest.approx(posterior.potential(poses), rel=1e-9)
    assert free.certificate.certified is True
    assert free.certificate.relative_suboptimality <= 1e-6
    assert stuck.certificate.lower_bound <= free.potential
    assert len(free.staircase) >= 1


def test_too_large_for_the_staircase_is_said_with_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, twisted = ring()
    monkeypatch.setattr(proof, "MOST_WORK", 0.99 * expected_work(Quadratic(graph)))
    result = solve_to_certificate(Posterior(graph), twisted)
    free = solve_to_certificate(Posterior(graph), optimum(graph)[1])
    assert result.staircase == () and result.certificate.too_large and result.certificate.certified is False
    assert 0.0 <= result.certificate.lower_bound <= free.potential < result.potential
    assert "too large for it" in describe.certificate(result.certificate)
    assert Certificate.from_facts(result.certificate.facts()).too_large
    monkeypatch.setattr(proof, "MOST_WORK", 1.01 * expected_work(Quadratic(graph)))  # negative control
    climbed = solve_to_certificate(Posterior(graph), twisted)
    assert climbed.staircase and climbed.certificate.certified and not climbed.certificate.too_large


def test_few_digits_of_the_eigenvalue_prove_nearly_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, twisted = ring()
    posterior = Posterior(graph)
    stuck = minimise(Curvature(posterior), twisted).poses
    exact = certify(posterior, stuck)
    monkeypatch.setattr(certificate, "_DIGITS_UP_TO", 0)
    rough = certify(posterior, stuck)
    assert rough.min_eigenvalue == pytest.approx(exact.min_eigenvalue, rel=2e-3)
    assert rough.suboptimality == pytest.approx(exact.suboptimality, rel=0.15)
    assert rough.lower_bound <= minimise(Curvature(posterior), optimum(graph)[1]).potential


@pytest.mark.parametrize(("shape", "sigma"), [("torus", 5.0), ("sphere", 10.0), ("grid", 5.0)])
def test_the_staircase_reaches_the_optimum_from_random_starts(shape: str, sigma: float) -> None:
    graph = simulate(40, shape=shape, sigma_rot_deg=sigma, completeness=0.3, seed=1).graph
    posterior, poses = optimum(graph)
    assert certify(posterior, poses).certified is True
    climbed = 0
    for seed in range(4):
        result = solve_to_certificate(posterior, random_poses(graph, rng(seed)))
        climbed += len(result.staircase) > 0
        assert result.certificate.certified is True
        assert result.potential == pytest.approx(posterior.potential(poses), rel=2e-6)
    if shape == "torus":
        assert climbed > 0


def test_noise_beyond_proof_gives_a_valid_bound() -> None:
    graph = simulate(27, shape="grid", sigma_rot_deg=60.0, completeness=0.3, seed=1).graph
    posterior = Posterior(graph)
    result = solve_to_certificate(posterior, start_poses(graph, "chordal", rng()))
    best = min(result.potential, best_of_restarts(posterior, 10, 1))
    assert 0.0 < result.certificate.lower_bound <= best
    if result.certificate.certified:
        assert result.potential <= best * (1.0 + 2e-6)


def test_a_gap_of_the_relaxation_is_said_to_be_one() -> None:
    """At this noise the relaxation's optimum has rank above three: no proof exists, and the bound is its value."""
    graph = simulate(100, shape="torus", sigma_rot_deg=20.0, sigma_trans=0.1, seed=0).graph
    result = solve_to_certificate(Posterior(graph), start_poses(graph, "chordal", rng()))
    assert result.certificate.certified is False
    assert result.certificate.lower_bound == pytest.approx(118.8935, abs=1e-3)
    assert 1e-4 < result.certificate.relative_suboptimality < 1e-2
    assert "too large for a proof" in describe.certificate(result.certificate)


def test_lifted_optimisation_and_rounding() -> None:
    graph = simulate(25, shape="random", sigma_rot_deg=10.0, seed=2).graph
    posterior, poses = optimum(graph)
    problem = Quadratic(graph)
    X = rng(1).standard_normal((25, 4, 6))
    Y, _, _ = np.linalg.svd(np.swapaxes(X[:, 1:], 1, 2), full_matrices=False)
    X[:, 1:] = np.swapaxes(Y, 1, 2)
    found, _, _ = minimise_lifted(problem, X)
    gram = found[:, 1:] @ np.swapaxes(found[:, 1:], 1, 2)
    np.testing.assert_allclose(gram, np.tile(np.eye(3), (25, 1, 1)), atol=1e-12)
    value, gradient = problem.gradient(found)
    assert value == pytest.approx(posterior.potential(poses), rel=1e-9)
    assert np.abs(tangent(found, gradient)).max() < 1e-4 * np.abs(gradient).max()
    assert posterior.potential(round_to_poses(problem, found)) == pytest.approx(value, rel=1e-6)


def test_the_gradient_of_the_lifted_form() -> None:
    problem = Quadratic(simulate(8, seed=2).graph)
    X, V = rng(1).standard_normal((2, 8, 4, 5))
    value, gradient = problem.gradient(X)
    h = 1e-6
    slope = (problem.gradient(X + h * V)[0] - problem.gradient(X - h * V)[0]) / (2.0 * h)
    assert slope == pytest.approx(np.sum(gradient * V), rel=1e-7)
    np.testing.assert_allclose(problem.matrix_times(np.zeros((8, 3, 3)), X), gradient, rtol=1e-9, atol=1e-9 * value)


def test_the_climb_reports_its_ranks() -> None:
    graph, twisted = ring()
    posterior = Posterior(graph)
    stuck = minimise(Curvature(posterior), twisted)
    result = certify(posterior, stuck.poses)
    assert result.direction is not None
    climbed = climb(Quadratic(graph), stuck.poses, result.direction)
    assert climbed.passed
    assert [step.rank for step in climbed.steps] == list(range(4, 4 + len(climbed.steps)))
    assert climbed.steps[-1].potential < stuck.potential
    assert climbed.lower_bound <= climbed.steps[-1].potential


# ---------------------------------------------------------------------- certified means no restart is better


def check_against_restarts(seed: int, restarts: int) -> bool:
    shape = ["random", "sphere", "torus", "grid"][seed % 4]
    sigma = [2.0, 8.0, 20.0, 40.0, 70.0][(seed // 4) % 5]
    graph = simulate(
        8 + seed % 13, shape=shape, sigma_rot_deg=sigma, sigma_trans=0.02 * (1 + seed % 7), completeness=0.4, seed=seed
    ).graph
    posterior = Posterior(graph)
    result = solve_to_certificate(posterior, start_poses(graph, "chordal", rng()), max_rank=6)
    best = best_of_restarts(posterior, restarts, seed)
    certificate = result.certificate
    assert certificate.lower_bound <= best * (1.0 + 1e-9)
    if certificate.certified:
        assert best >= result.potential - max(certificate.suboptimality, 1e-9 * result.potential)
    return bool(certificate.certified)


def test_certified_means_that_no_restart_is_better() -> None:
    certified = [check_against_restarts(seed, 5) for seed in range(20)]
    assert 10 <= sum(certified) <= 20


@pytest.mark.slow
def test_certified_means_that_no_restart_is_better_on_many_graphs() -> None:
    graphs = slow_size(80, 200)
    certified = [check_against_restarts(seed, 50) for seed in range(graphs)]
    assert graphs // 2 <= sum(certified) <= graphs


def test_what_is_worth_more_than_a_millionth_of_u_is_not_rounding() -> None:
    """Without noise U* = 0. Precise weights allow much rounding, yet poses 1e-4 above the optimum are not it."""
    made = simulate(10, completeness=0.6, sigma_rot_deg=0.0, sigma_trans=0.0, seed=3)
    weight = 1e13
    posterior = Posterior(
        replace(made.graph, concentration=np.asarray(weight), translation_precision=np.asarray(weight))
    )
    away = np.random.default_rng(0).standard_normal((10, 3))
    for energy, certified in ((1e-8, True), (1e-4, False), (1e-2, False)):
        shift = np.sqrt(energy / posterior.potential(replace(made.truth, position=made.truth.position + 1e-6 * away)))
        found = certify(posterior, replace(made.truth, position=made.truth.position + 1e-6 * shift * away))
        assert found.potential == pytest.approx(energy, rel=1e-3)
        assert found.certified is certified
