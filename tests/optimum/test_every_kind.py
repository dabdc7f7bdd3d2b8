"""Planar, correlated, absolute, landmark and fixed: starts, optima, proofs and covariances of every kind of graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.hessian import dense
from helpers.kinds import ISOTROPIC, KINDS, made, without_noise
from helpers.planar import planar_graph
from tempose.analysis.summary import tangent
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.gauge import Gauge, tied_components
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.certificate import Dual, isotropic_below, smallest_eigenpair
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.merged import between_fixed, merged, placed
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify, solve_to_certificate
from tempose.optimum.quadratic import Quadratic
from tempose.optimum.relaxations import positions_given_rotations
from tempose.optimum.starts import start_poses
from tempose.simulation import simulate

OPTIMA = {  # 2U*: one λ and one τ per edge, and the whole information
    "intel": (50.080976, 45.004696),
    "MIT": (40.240730, 41.158904),
    "kitti_00": (99.819310, 98.322011),
    "city10000": (511.982797, 511.982797),
    "manhattanOlson3500": (146.072199, 146.072199),
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def somewhere(graph: PoseGraph, seed: int = 0, size: float = 1.0, about: Poses | None = None) -> Poses:
    """Random poses, or those about others, that the graph allows."""
    about = placed(graph, Poses.identity(graph.node_ids)) if about is None else about
    x = np.where(graph.free, size * rng(seed).standard_normal((graph.n_nodes, 6)), 0.0)
    return Poses(
        graph.node_ids, quat.normalize(quat.multiply(quat.exp(x[:, :3]), about.wxyz)), about.position + x[:, 3:]
    )


# ---------------------------------------------------------------------- known optima


@pytest.mark.parametrize("full", [False, True], ids=["isotropic", "full"])
@pytest.mark.parametrize("name", OPTIMA)
def test_planar_optima(data: Path, name: str, full: bool) -> None:
    graph = planar_graph(data / "g2o2d" / f"{name}.g2o", full)
    posterior = Posterior(graph)
    found = minimise(Curvature(posterior), start_poses(graph, "chordal", rng()))
    assert found.status == "converged" and found.is_minimum
    assert 2.0 * found.potential == pytest.approx(OPTIMA[name][full], abs=1e-6)
    result = certify(posterior, found.poses)
    if not full:
        assert result.certified is True
    assert result.lower_bound <= found.potential


# ---------------------------------------------------------------------- starts


@pytest.mark.parametrize("start", ["tree", "best-tree", "chordal", "spectral"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_every_start_is_the_truth(kind: str, start: str) -> None:
    simulated = made(kind, nodes=20)
    graph = without_noise(simulated.graph, simulated.truth)
    poses = start_poses(graph, start, rng())
    scale = float(np.sum(graph.mean_concentration) + np.trace(graph.translation_precision_matrices.sum(axis=0)))
    assert Posterior(graph).potential(poses) <= 1e-20 * scale
    fixed = graph.is_fixed
    np.testing.assert_allclose(poses.position[fixed], simulated.truth.position[fixed], atol=1e-12)
    if np.any(tied_components(graph)) and not Curvature(Posterior(graph)).undetermined(
        poses
    ):  # nothing is left to choose
        np.testing.assert_allclose(poses.position, simulated.truth.position, atol=1e-7)
    if graph.is_planar:
        assert np.all(poses.wxyz[:, 1:3] == 0.0) and np.all(poses.position[:, 2] == 0.0)


def parts_that_share(points: int, planar: bool = False, seed: int = 0) -> tuple[PoseGraph, Poses]:
    """Two robots that never met, each with odometry of its own, and landmarks that both have seen."""
    g, n = rng(seed), 5
    truth_q = quat.random_uniform(g, 2 * n)
    truth_p = np.concatenate(
        [g.standard_normal((n, 3)), 3.0 + g.standard_normal((n, 3)), g.standard_normal((points, 3))]
    )
    if planar:
        truth_q[:, 1:3], truth_p[:, 2] = 0.0, 0.0
        truth_q = quat.normalize(truth_q)
    ids = tuple([f"a{k}" for k in range(n)] + [f"b{k}" for k in range(n)] + [f"L{k}" for k in range(points)])
    truth = Poses(ids, np.concatenate([truth_q, np.tile(quat.IDENTITY, (points, 1))]), truth_p)
    chain = [(k + 1, k) for k in range(n - 1)] + [(n + k + 1, n + k) for k in range(n - 1)]
    sights = [(2 * n + k, row) for k in range(points) for row in (k % n, n + k % n)]
    i, j = np.array(chain + sights).T
    m = len(i)
    concentration = np.where(np.arange(m) < len(chain), 100.0, 0.0)
    graph = PoseGraph(
        ids, i, j, np.tile(quat.IDENTITY, (m, 1)), np.zeros((m, 3)), concentration, np.full(m, 50.0),
        dimension=2 if planar else 3, landmarks=ids[2 * n :],
    )  # fmt: skip
    return without_noise(graph, truth), truth


@pytest.mark.parametrize("start", ["tree", "best-tree", "chordal", "spectral"])
@pytest.mark.parametrize("planar", [False, True])
def test_parts_that_share_landmarks_find_each_other(planar: bool, start: str) -> None:
    graph, truth = parts_that_share(5, planar)
    poses = start_poses(graph, start, rng())
    assert Posterior(graph).potential(poses) < 1e-20
    moved = Gauge(graph).align(poses.wxyz, poses.position, truth)
    np.testing.assert_allclose(moved[1], truth.position, atol=1e-9)


@pytest.mark.parametrize("start", ["tree", "chordal", "spectral"])
def test_directions_and_fixes_without_a_height_are_enough_together(start: str) -> None:
    """Gravity at one node, and three fixes whose height is not known: turned right side up."""
    simulated = made("plain", nodes=15)
    n = simulated.graph.n_nodes
    i = np.concatenate([simulated.graph.edge_i, [2, 5, 9, 4, 0]])
    j = np.concatenate([simulated.graph.edge_j, np.full(5, n)])
    m, extra = len(i), 5
    Λ, P = np.zeros((m, 3, 3)), np.zeros((m, 3, 3))
    Λ[:-extra] = 200.0 * np.eye(3)
    P[:-extra] = 100.0 * np.eye(3)
    P[-extra:-1] = np.diag([50.0, 50.0, 0.0])
    P[-2] = 50.0 * np.eye(3)
    Λ[-1] = np.diag([80.0, 80.0, 0.0])
    t = np.zeros((m, 3))
    t[-1] = np.nan
    graph = PoseGraph((*range(n), WORLD), i, j, np.tile(quat.IDENTITY, (m, 1)), t, Λ, P)
    truth = Poses(
        graph.node_ids,
        np.vstack([simulated.truth.wxyz, quat.IDENTITY]),
        np.vstack([simulated.truth.position, np.zeros(3)]),
    )
    graph = without_noise(graph, truth)
    # the height is not known, and what stands in its place is wrong; so is the turn about the vertical
    t = graph.j_from_i_t.copy()
    t[-extra:-2, 2] = 0.0
    q = graph.j_from_i_wxyz.copy()
    q[-1] = quat.multiply(quat.exp(np.array([0.0, 0.0, 2.0])), q[-1])
    graph = replace(graph, j_from_i_t=t, j_from_i_wxyz=q)
    posterior = Posterior(graph)
    assert posterior.potential(truth) < 1e-20
    found = minimise(Curvature(posterior), start_poses(graph, start, rng()))
    assert found.potential < 1e-18
    np.testing.assert_allclose(found.poses.position, truth.position, atol=1e-7)


@pytest.mark.parametrize("planar", [False, True])
def test_four_fixes_on_thirty_nodes_put_the_graph_where_it_belongs(planar: bool) -> None:
    for seed in range(6):
        simulated = made(
            "planar gps" if planar else "gps", nodes=30, completeness=0.1, gps=4, gps_sigma=0.02, seed=seed
        )
        posterior = Posterior(simulated.graph)
        curvature = Curvature(posterior)
        found = [
            minimise(curvature, start_poses(simulated.graph, kind, rng())) for kind in ("tree", "chordal", "spectral")
        ]
        assert certify(posterior, found[1].poses).certified is True
        for one in found:
            assert one.potential == pytest.approx(found[1].potential, rel=1e-9)
        sigma = Laplace(curvature, found[1].poses).marginals(Gauge.parse(simulated.graph, "auto"))
        off = found[1].poses.position - simulated.truth.position
        assert np.all(np.abs(off) < 5.0 * np.sqrt(np.einsum("nkk->nk", sigma))[:, 3:] + 1e-12)


def test_positions_are_the_best_for_their_rotations() -> None:
    for kind in KINDS:
        simulated = made(kind)
        poses = somewhere(simulated.graph, 1, 0.3, simulated.truth)
        best = replace(poses, position=positions_given_rotations(simulated.graph, poses.wxyz, poses.position))
        posterior = Posterior(simulated.graph)
        (_, before), (_, after) = posterior.gradient(poses), posterior.gradient(best)
        free = simulated.graph.free[:, 3:]
        assert np.abs(after[:, 3:][free]).max() < 1e-9 * np.abs(before).max(), kind
        fixed = simulated.graph.is_fixed
        np.testing.assert_array_equal(best.position[fixed], simulated.truth.position[fixed])


# ---------------------------------------------------------------------- the merged graph and the certificate


@pytest.mark.parametrize("kind", KINDS)
def test_merging_fixed_nodes_changes_nothing(kind: str) -> None:
    graph = made(kind).graph
    part = merged(graph)
    poses = somewhere(graph, 2)
    constant = Posterior(graph.with_edges(between_fixed(graph))).potential(poses)
    reduced = part.reduce(poses)
    expected = Posterior(graph).potential(poses)
    assert Posterior(part.graph).potential(reduced) + constant == pytest.approx(expected, rel=1e-12)
    back = part.expand(reduced)
    np.testing.assert_allclose(back.position, poses.position, atol=1e-12)
    assert np.sum(part.graph.is_fixed) <= part.graph.n_components


def dense_form(graph: PoseGraph) -> np.ndarray:
    """M from the definition, row by row."""
    n, d = graph.n_nodes, graph.dimension
    rows = []
    for e, (i, j) in enumerate(zip(graph.edge_i, graph.edge_j, strict=True)):
        Q, t = quat.to_matrix(graph.j_from_i_wxyz[e])[:d, :d], graph.j_from_i_t[e, :d]
        for c in range(d):
            row = np.zeros((n, d + 1))
            row[i, 1 + c] += 1.0
            row[j, 1:] -= Q[:, c]
            rows.append(np.sqrt(graph.concentration[e] / 4.0) * row.reshape(-1))
        if not np.isnan(t[0]):
            row = np.zeros((n, d + 1))
            row[i, 0] += 1.0
            row[i, 1:] += 0.0 if graph.arm is None else graph.arm[e, :d]
            row[j, 0] -= 1.0
            row[j, 1:] -= t
            rows.append(np.sqrt(graph.translation_precision[e]) * row.reshape(-1))
    J = np.array(rows)
    return J.T @ J


@pytest.mark.parametrize("kind", ISOTROPIC)
def test_the_quadratic_form_and_its_certificate_matrix(kind: str) -> None:
    simulated = made(kind, sigma_rot_deg=10.0)
    part = merged(simulated.graph)
    graph, d = part.graph, simulated.graph.dimension
    problem = Quadratic(graph)
    X = problem.point(part.reduce(somewhere(simulated.graph, 4)))
    value, gradient = problem.gradient(X)
    n = graph.n_nodes
    M = dense_form(graph)
    assert value == pytest.approx(0.5 * np.trace(X.reshape(-1, d).T @ M @ X.reshape(-1, d)), rel=1e-12)
    np.testing.assert_allclose(gradient.reshape(-1, d), M @ X.reshape(-1, d), atol=1e-10 * np.abs(M).max())
    lam = problem.multipliers(X, gradient)
    V = rng(1).standard_normal((n, d + 1, 4))
    S = M.copy()
    for k in range(n):
        a = slice((d + 1) * k + 1, (d + 1) * (k + 1))
        S[a, a] -= lam[k]
    expected = (S @ V.reshape(-1, 4)).reshape(V.shape)
    np.testing.assert_allclose(problem.matrix_times(lam, V), expected, atol=1e-10 * np.abs(S).max())
    turning = np.repeat(problem.scale > 0.0, d + 1) & (np.arange((d + 1) * n) % (d + 1) > 0)
    p = (d + 1) * np.arange(n)
    r = np.flatnonzero(turning)
    reduced = S[np.ix_(r, r)] - S[np.ix_(r, p)] @ np.linalg.pinv(S[np.ix_(p, p)]) @ S[np.ix_(p, r)]
    lowest = float(np.linalg.eigvalsh(reduced)[0])
    dual = Dual(problem, lam, value, value, 0.0)
    shift = max(-lowest, 0.0) + 1.0
    factor = dual.proves(shift)
    assert factor is not None
    assert smallest_eigenpair(problem, factor, shift)[1] == pytest.approx(lowest, abs=1e-7 * np.abs(reduced).max())
    assert dual.proves(-lowest + 1e-6 * np.abs(reduced).max()) is not None
    assert dual.proves(-lowest - 1e-6 * np.abs(reduced).max()) is None
    counted = 0.5 * d * np.sum(problem.scale > 0.0) * shift
    assert dual.lower_bound(shift) == max(value - counted, 0.0)


@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("kind", ["plain", "planar", "mixed", "planar mixed"])
def test_the_form_about_hubs_is_the_same_form(kind: str, rank: int) -> None:
    """Its factor solves what the other solves, in other coordinates of the positions."""
    simulated = made(kind)
    part = merged(simulated.graph)
    problem, d = Quadratic(part.graph), simulated.graph.dimension
    X = problem.point(part.reduce(somewhere(simulated.graph, 4)))
    X = np.concatenate([X, 0.1 * rng(1).standard_normal((*X.shape[:2], rank))], axis=2)
    hubs = problem.hubs(X)
    right = rng(2).standard_normal((part.graph.n_nodes, d + 1))
    right[:, 0] = 0.0
    right[problem.scale == 0.0] = 0.0
    shift = 0.3 * problem.scale
    one, two = (problem.factor(None, shift, h).solve(right.reshape(-1)).reshape(right.shape) for h in (None, hubs))
    np.testing.assert_allclose(one[:, 1:], two[:, 1:], atol=1e-9 * np.abs(one).max())
    logs = [problem.factor(None, shift, h).log_determinant() for h in (None, hubs)]
    assert logs[0] == pytest.approx(logs[1], rel=1e-12)


def test_about_hubs_a_long_way_leaves_little_rounding() -> None:
    graph = simulate(300, shape="trajectory", planar=True, sigma_rot_deg=0.2, sigma_trans=0.01, seed=1).graph
    t = 30.0 * graph.j_from_i_t
    problem = Quadratic(replace(graph, j_from_i_t=t))
    X = problem.point(minimise(Curvature(Posterior(problem.graph)), start_poses(problem.graph, "chordal", rng())).poses)
    dual = Dual.at(problem, X)
    near = dual.about_hubs(X)
    assert near.rounding < 0.2 * dual.rounding
    assert near.proves(1e-9 * problem.scale) is not None


@pytest.mark.parametrize("kind", ISOTROPIC)
def test_optima_are_certified_and_nothing_is_below_the_bound(kind: str) -> None:
    for seed in range(3):
        simulated = made(kind, seed=seed)
        posterior = Posterior(simulated.graph)
        solved = solve_to_certificate(posterior, start_poses(simulated.graph, "chordal", rng()))
        certificate = solved.certificate
        assert solved.minimum.status == "converged"
        assert certificate.certified is True
        assert certificate.potential == pytest.approx(posterior.potential(solved.poses), rel=1e-9)
        assert solved.potential <= posterior.potential(simulated.truth)
        curvature = Curvature(posterior)
        for k in range(4):
            other = minimise(curvature, somewhere(simulated.graph, k, 2.0), max_steps=100)
            assert other.potential >= certificate.lower_bound - 1e-9 * solved.potential
            worse = certify(posterior, other.poses)
            assert worse.lower_bound <= solved.potential * (1.0 + 1e-9)
        moved = somewhere(simulated.graph, 7, 0.05, solved.poses)
        assert certify(posterior, moved).certified is False


@pytest.mark.parametrize("planar", [False, True])
def test_the_staircase_unwinds_a_ring_that_hangs_on_the_world(planar: bool) -> None:
    n = 12
    i = np.concatenate([np.arange(n), [0, 3, 6, 9]])
    j = np.concatenate([(np.arange(n) + 1) % n, np.full(4, n)])
    m = len(i)
    turn = np.zeros((m, 3))
    turn[:n, 2] = 0.02 * rng(1).standard_normal(n)
    graph = PoseGraph(
        (*range(n), WORLD), i, j, quat.exp(turn), np.zeros((m, 3)), np.append(np.full(n, 8.0), np.zeros(4)), np.full(m, 4.0),
        dimension=2 if planar else 3,
    )  # fmt: skip
    angle = np.zeros((n + 1, 3))
    angle[:n, 2] = 2.0 * np.pi * np.arange(n) / n
    twisted = Poses(graph.node_ids, quat.exp(angle), np.zeros((n + 1, 3)))
    posterior = Posterior(graph)
    stuck = solve_to_certificate(posterior, twisted, max_rank=3)
    assert stuck.potential == pytest.approx(n * 8.0 * np.sin(np.pi / n) ** 2, rel=0.1)
    assert stuck.certificate.certified is False
    free = solve_to_certificate(posterior, twisted)
    assert free.certificate.certified is True
    assert free.potential < 0.1 * stuck.potential
    assert free.staircase[0].rank == (3 if planar else 4)


@pytest.mark.parametrize("kind", ["correlated", "planar correlated", "planar correlated mixed", "anisotropic gps"])
def test_the_isotropic_graph_below_lies_below(kind: str) -> None:
    graph = made(kind).graph
    below, exact = isotropic_below(graph)
    assert not exact
    assert np.any(below.concentration > 0.0) and np.any(below.translation_precision > 0.0)
    for k in range(30):
        poses = somewhere(graph, k, 10.0 ** rng(k).uniform(-3, 1))
        energy, least = Posterior(graph).energies(poses), Posterior(below).energies(poses)
        assert np.all(least <= energy * (1.0 + 1e-12) + 1e-12)


# ---------------------------------------------------------------------- Newton


@pytest.mark.parametrize("kind", KINDS)
def test_newton_converges_from_every_kind_of_start(kind: str) -> None:
    simulated = made(kind)
    posterior = Posterior(simulated.graph)
    curvature = Curvature(posterior)
    found = [
        minimise(curvature, start_poses(simulated.graph, start, rng())) for start in ("tree", "chordal", "spectral")
    ]
    found.append(minimise(curvature, somewhere(simulated.graph, 1, 0.1, simulated.truth)))
    for one in found:
        assert one.status == "converged" and one.is_minimum
        assert one.potential == pytest.approx(found[0].potential, rel=1e-10)
        assert one.gradient_norm < 1e-8 * posterior.potential(somewhere(simulated.graph, 1))
        fixed = simulated.graph.is_fixed
        np.testing.assert_array_equal(one.poses.position[fixed], simulated.truth.position[fixed])
        if simulated.graph.is_planar:
            assert np.all(one.poses.wxyz[:, 1:3] == 0.0) and np.all(one.poses.position[:, 2] == 0.0)


# ---------------------------------------------------------------------- covariances


def reference_covariance(curvature: Curvature, poses: Poses) -> np.ndarray:
    """Inverse of the dense Hessian with the gauge held, in six coordinates per node (6n, 6n)."""
    axes = curvature.posterior.graph.axes
    free = np.flatnonzero(~curvature.held.reshape(-1))
    place = (6 * np.arange(len(poses))[:, None] + axes).reshape(-1)
    H = np.zeros((6 * len(poses), 6 * len(poses)))
    H[np.ix_(place, place)] = dense(curvature, poses)
    sigma = np.zeros_like(H)
    sigma[np.ix_(free, free)] = np.linalg.inv(H[np.ix_(free, free)])
    return sigma


def alignment_map(rule: Gauge, poses: Poses) -> np.ndarray:
    """What a gauge does to small changes (6n, 6n), by differences of its own alignment."""
    e, n = 1e-5, len(poses)
    exists = np.zeros((n, 6), dtype=bool)
    exists[:, rule.graph.axes] = True
    exists[rule.graph.is_landmark, :3] = False
    J = np.zeros((6 * n, 6 * n))
    for k in np.flatnonzero(exists):
        ends = []
        for sign in (1, -1):
            x = np.zeros(6 * n)
            x[k] = sign * e
            x = x.reshape(n, 6)
            moved = rule.align(quat.multiply(quat.exp(x[:, :3]), poses.wxyz), poses.position + x[:, 3:], poses)
            ends.append(tangent(*moved, poses).reshape(-1))
        J[:, k] = (ends[0] - ends[1]) / (2 * e)
    return J * exists.reshape(-1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gauge", ["auto", "world", "anchor", "centroid", "free", "node:5"])
def test_marginals_are_those_of_the_dense_gaussian(kind: str, gauge: str) -> None:
    """In any gauge: a dense covariance mapped by differences of what the gauge does to draws."""
    simulated = made(kind)
    curvature = Curvature(Posterior(simulated.graph))
    best = minimise(curvature, simulated.truth).poses
    rule = Gauge.parse(simulated.graph, gauge)
    J = alignment_map(rule, best)
    n = len(best)
    expected = (J @ reference_covariance(curvature, best) @ J.T).reshape(n, 6, n, 6) / 2.0
    found = Laplace(curvature, best, beta=2.0).marginals(rule)
    for node in range(n):
        np.testing.assert_allclose(found[node], expected[node, :, node], atol=1e-7 * np.abs(expected).max())
    if gauge == "world" and np.any(tied_components(simulated.graph)):
        turned = tangent(*rule.align(best.wxyz, best.position + 1.0, best), best)
        rows = tied_components(simulated.graph)[simulated.graph.component] & (
            simulated.graph.position_component == simulated.graph.position_component[simulated.graph.anchors[0]]
        )
        np.testing.assert_allclose(turned[rows, 3:], 1.0)  # draws are not moved


@pytest.mark.parametrize("kind", KINDS)
def test_edge_covariances_are_those_of_the_dense_gaussian(kind: str) -> None:
    simulated = made(kind)
    graph = simulated.graph
    curvature = Curvature(Posterior(graph))
    best = minimise(curvature, simulated.truth).poses
    sigma, e, n = reference_covariance(curvature, best), 1e-6, len(best)
    found = Laplace(curvature, best).edge_covariances()

    def seen(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        x = x.reshape(n, 6)
        wxyz, p = quat.multiply(quat.exp(x[:, :3]), best.wxyz), best.position + x[:, 3:]
        i, j = graph.edge_i[k], graph.edge_j[k]
        arm = np.zeros(3) if graph.arm is None else graph.arm[k]
        end = wxyz[i], p[i] + quat.rotate(wxyz[i], arm)
        return se3.a_from_b((wxyz[j], p[j]), end)

    for k in range(0, graph.n_edges, 5):
        middle = seen(np.zeros(6 * n), k)
        J = np.empty((6, 6 * n))
        for c in range(6 * n):
            (q1, t1), (q0, t0) = (seen(s * e * np.eye(6 * n)[c], k) for s in (1, -1))
            turns = [quat.log(quat.multiply(q, quat.conjugate(middle[0]))) for q in (q1, q0)]
            J[:, c] = np.concatenate([turns[0] - turns[1], t1 - t0]) / (2 * e)
        np.testing.assert_allclose(found[k], J @ sigma @ J.T, atol=1e-6 * np.abs(sigma).max())


@pytest.mark.parametrize("kind", ["plain", "planar", "gps", "planar gps", "landmarks", "fixed"])
@pytest.mark.parametrize("gauge", ["world", "anchor", "centroid", "free", "node:5"])
def test_map_coordinates_cost_nothing(kind: str, gauge: str) -> None:
    """5·10⁶ m from the origin and with millimetres of noise the same σ as at the origin, from the Gaussian and from draws."""
    simulated = made(kind, sigma_rot_deg=0.05, sigma_trans=0.001, **({"gps_sigma": 0.001} if "gps" in kind else {}))
    graph, far = simulated.graph, np.array([4.5e5, 5.1e6, 0.0 if "planar" in kind else 800.0])
    here = minimise(Curvature(Posterior(graph)), simulated.truth).poses
    t = graph.j_from_i_t.copy()
    t[graph.is_absolute] += far
    shifted = np.array([[0.0] if name == WORLD else [1.0] for name in graph.node_ids]) * far
    there = Poses(here.ids, here.wxyz, here.position + shifted)
    at = graph.fixed_at
    assert at is not None
    at = Poses(
        at.ids, at.wxyz, at.position + np.array([0.0 if name == WORLD else 1.0 for name in at.ids])[:, None] * far
    )
    away = replace(graph, j_from_i_t=t, fixed_at=at)
    near_gauge, far_gauge = Gauge.parse(graph, gauge), Gauge.parse(away, gauge)
    near = Laplace(Curvature(Posterior(graph)), here).marginals(near_gauge)
    distant = Laplace(Curvature(Posterior(away)), there).marginals(far_gauge)
    rows = np.arange(graph.n_nodes) != graph.world  # which is far away now, and so moves a lot when the others are held
    size = np.sqrt(np.einsum("nkk->nk", near[rows]))
    np.testing.assert_allclose(np.sqrt(np.einsum("nkk->nk", distant[rows])), size, rtol=1e-6, atol=1e-9 * size.max())
    x = np.where(graph.free, 1e-3 * rng(2).standard_normal((graph.n_nodes, 6)), 0.0)
    turned = quat.multiply(quat.exp(x[:, :3]), here.wxyz)
    one = near_gauge.align(turned, here.position + x[:, 3:], here)
    two = far_gauge.align(turned, there.position + x[:, 3:], there)
    np.testing.assert_allclose(one[0], two[0], atol=1e-9)
    np.testing.assert_allclose((one[1] - here.position)[rows], (two[1] - there.position)[rows], atol=1e-8)


# ---------------------------------------------------------------------- what is not determined


def tied_at(
    simulated: PoseGraph, truth: Poses, P: np.ndarray, Λ: np.ndarray, rows: list[int]
) -> tuple[PoseGraph, Poses]:
    """A graph with edges from some of its nodes to the world, of given precisions, without noise of their own."""
    n, k = simulated.n_nodes, len(rows)
    m = simulated.n_edges
    full = np.concatenate([simulated.translation_precision_matrices, np.tile(P, (k, 1, 1))])
    if simulated.is_planar:
        full[:, 2] = full[:, :, 2] = 0.0
    turning = np.concatenate([simulated.concentration_matrices, np.tile(Λ, (k, 1, 1))])
    t = np.concatenate([simulated.j_from_i_t, truth.position[rows]])
    if not np.any(P):
        t[m:] = np.nan
    graph = PoseGraph(
        (*range(n), WORLD),
        np.concatenate([simulated.edge_i, rows]),
        np.concatenate([simulated.edge_j, np.full(k, n)]),
        np.concatenate([simulated.j_from_i_wxyz, truth.wxyz[rows]]),
        t,
        turning[:, 2, 2] if simulated.is_planar else turning,
        full,
        dimension=simulated.dimension,
    )
    wxyz, position = np.vstack([truth.wxyz, quat.IDENTITY]), np.vstack([truth.position, np.zeros(3)])
    return graph, Poses(graph.node_ids, wxyz, position)


NOTHING, ALL, LEVEL = np.zeros((3, 3)), 5e3 * np.eye(3), np.diag([5e3, 5e3, 0.0])
PARTLY = {
    "one fix": (False, ALL, NOTHING, [4], [("point", 3)]),
    "two fixes": (False, ALL, NOTHING, [4, 7], [("line", 1)]),
    "three fixes": (False, ALL, NOTHING, [4, 7, 9], []),
    "one planar fix": (True, LEVEL, NOTHING, [4], [("point", 1)]),
    "two planar fixes": (True, LEVEL, NOTHING, [4, 7], []),
    "an attitude": (False, NOTHING, ALL, [4], [("shift", 3)]),
    "a planar attitude": (True, NOTHING, ALL, [4], [("shift", 2)]),
    "a direction and a fix": (False, ALL, LEVEL, [4], [("line", 1)]),
    "heights of nothing, and directions": (False, LEVEL, ALL, [4, 7, 9], [("shift", 1)]),
}


@pytest.mark.parametrize("case", PARTLY)
def test_what_is_not_determined_is_named_and_not_small(case: str) -> None:
    planar, P, Λ, rows, expected = PARTLY[case]
    simulated = made("planar" if planar else "plain")
    graph, _ = tied_at(simulated.graph, simulated.truth, P, Λ, rows)
    curvature = Curvature(Posterior(graph))
    found = minimise(curvature, start_poses(graph, "chordal", rng()))
    assert found.status == "converged" and found.is_minimum
    named = curvature.undetermined(found.poses)
    assert [(one.kind, one.directions) for one in named] == expected
    for one in named:
        np.testing.assert_array_equal(one.nodes, np.arange(graph.n_nodes - 1))
    laplace = Laplace(curvature, found.poses)
    world = laplace.marginals(Gauge.parse(graph, "auto"))
    turn, shift = (np.sqrt(np.einsum("naa->n", world[:-1, k, k])) for k in (slice(0, 3), slice(3, 6)))
    kinds = {kind for kind, _ in expected}
    assert np.all(turn > 1.0) if kinds & {"point", "line"} else np.all(turn < 0.3)
    if not kinds:
        assert np.all(shift < 1.0)
    if case.startswith("heights"):
        assert np.all(np.sqrt(world[:-1, 5, 5]) > 100.0) and np.all(np.sqrt(world[:-1, 3, 3]) < 1.0)
    # seen from one of the nodes, a tie that leaves all motions free says nothing at all
    if case in ("one fix", "one planar fix", "an attitude", "a planar attitude"):
        without = Curvature(Posterior(simulated.graph))
        alone = Laplace(without, minimise(without, simulated.truth).poses)
        node = laplace.marginals(Gauge.parse(graph, "node:5"))[:-1]
        expected_node = alone.marginals(Gauge.parse(simulated.graph, "node:5"))
        size = np.sqrt(np.einsum("nkk->nk", expected_node))
        turned = quat.multiply(found.poses.wxyz[0], quat.conjugate(alone.poses.wxyz[0]))
        J = np.kron(np.eye(2), quat.to_matrix(turned))
        np.testing.assert_allclose(node, J @ expected_node @ J.T, atol=1e-6 * size.max() ** 2)
        relative = laplace.relative(2, 8)
        np.testing.assert_allclose(relative.covariance, alone.relative(2, 8).covariance, rtol=1e-6, atol=1e-12)


def test_robots_that_share_only_the_world_are_undetermined_on_their_own() -> None:
    """One with a fix, one with three: the first can turn about its fix, whatever ties the second."""
    one, two = made("plain", nodes=6), made("plain", nodes=7, seed=5)
    parts = [
        tied_at(one.graph, one.truth, ALL, NOTHING, [2])[0],
        tied_at(two.graph, two.truth, ALL, NOTHING, [0, 3, 5])[0],
    ]
    shift = np.array([0, 6])
    i = np.concatenate([g.edge_i + s for g, s in zip(parts, shift, strict=True)])
    j = np.concatenate([np.where(g.edge_j == g.world, 13, g.edge_j + s) for g, s in zip(parts, shift, strict=True)])
    both = [np.concatenate([getattr(g, name) for g in parts]) for name in (
        "j_from_i_wxyz", "j_from_i_t", "concentration", "translation_precision")]  # fmt: skip
    graph = PoseGraph((*range(13), WORLD), i, j, *both)
    assert graph.n_components == 1
    curvature = Curvature(Posterior(graph))
    found = minimise(curvature, start_poses(graph, "chordal", rng()))
    assert found.status == "converged" and found.is_minimum
    (only,) = curvature.undetermined(found.poses)
    assert (only.kind, only.directions) == ("point", 3)
    np.testing.assert_array_equal(only.nodes, np.arange(6))
    laplace = Laplace(curvature, found.poses)
    turn = np.sqrt(np.einsum("naa->n", laplace.marginals(Gauge.parse(graph, "auto"))[:, :3, :3]))
    assert np.all(turn[:6] > 1.0) and np.all(turn[6:13] < 0.3)
    assert np.sqrt(np.trace(laplace.relative(1, 9).covariance[:3, :3])) > 1.0
    assert np.sqrt(np.trace(laplace.relative(1, 4).covariance[:3, :3])) < 0.3
    turn = np.sqrt(np.einsum("naa->n", laplace.marginals(Gauge.parse(graph, "node:9"))[:, :3, :3]))
    assert np.all(turn[:6] > 1.0) and np.all(turn[6:13] < 0.3)
