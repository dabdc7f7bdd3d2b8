"""Reliability numbers, the global test and ellipses: against textbooks, by simulation, and where they must say no."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import tempose
from tempose.analysis.edge_checks import edge_predictions
from tempose.analysis.ellipses import error_ellipses
from tempose.analysis.reliability import GlobalTest, noncentrality, reliability
from tempose.errors import ArgumentError, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.simulation import measure_again


def test_noncentralities_are_those_of_the_tables() -> None:
    """Baarda's nomograms: δ₀ = 4.13 for 0.1% and 80%, 3.61 for 1% and 85%."""
    assert abs(np.sqrt(noncentrality(1, 0.001, 0.8)) - 4.132) < 1e-3
    assert abs(np.sqrt(noncentrality(1, 0.01, 0.85)) - 3.612) < 1e-3
    for k in range(1, 7):
        x, found = special.chdtri(k, 0.001), noncentrality(k)
        assert abs(stats.ncx2.sf(x, k, found) - 0.8) < 1e-6
    with pytest.raises(OptionError):
        noncentrality(1, 0.9, 0.8)


def line(n: int = 3, sigma: float = 0.1) -> tempose.PoseGraph:
    """The same step measured n times, nothing else: each has a redundancy of 1 − 1/n."""
    graph = tempose.GraphBuilder()
    for _ in range(n):
        graph.add_edge(0, 1, wxyz=[1, 0, 0, 0], translation=[1, 0, 0], sigma_rot_deg=1.0, sigma_trans=sigma)
    return graph.build()


def test_repeated_measurements_by_hand() -> None:
    """S = I/n; with f = 6 numbers a test, ∇ = σ √(λ₀ n/(n−1)) and external √(λ₀/(n−1))."""
    for n in (2, 3, 10):
        found = tempose.solve(line(n), draws=0).reliability
        smallest = noncentrality(6)
        np.testing.assert_allclose(found.redundancy, 1.0 - 1.0 / n, rtol=1e-6)
        np.testing.assert_allclose(found.mde_trans, 0.1 * np.sqrt(smallest * n / (n - 1)), rtol=1e-6)
        np.testing.assert_allclose(found.mde_rot_deg, np.sqrt(smallest * n / (n - 1)), rtol=1e-6)
        np.testing.assert_allclose(found.external, np.sqrt(smallest / (n - 1)), rtol=1e-5)
    alone = tempose.solve(line(1), draws=0).reliability
    assert alone.redundancy[0] < 1e-6 and np.isinf(alone.mde_trans[0]) and np.isinf(alone.external[0])


def network(planar: bool) -> tempose.simulation.Simulated:
    return tempose.simulate(9, shape="grid", planar=planar, sigma_rot_deg=0.5, sigma_trans=0.02, seed=2)


@pytest.mark.parametrize("planar", [False, True])
def test_redundancies_add_up_to_the_degrees_of_freedom(planar: bool) -> None:
    made = network(planar)
    solution = tempose.solve(made.graph, draws=0)
    total = float(solution.reliability.redundancy @ made.graph.freedom)
    assert abs(total - solution.global_test.freedom) < 1e-6 * total


@pytest.mark.parametrize(("planar", "part"), [(True, "rotation"), (False, "translation")])
def test_errors_of_the_minimal_size_are_found_at_the_stated_power(planar: bool, part: str) -> None:
    power_by_simulation(planar, part, trials=40)


@pytest.mark.slow
@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("part", ["rotation", "translation"])
def test_the_power_in_many_graphs(planar: bool, part: str) -> None:
    power_by_simulation(planar, part, trials=250)


def power_by_simulation(planar: bool, part: str, trials: int) -> None:
    """Errors in the worst direction of one edge, over fresh noise; and, as controls, none planted, and a third of the size."""
    made = network(planar)
    graph, truth = made.graph, made.truth
    exact = measure_again_exactly(graph, truth)
    posterior = Posterior(exact)
    found = reliability(exact, truth, edge_predictions(posterior, truth))
    edge = 3
    size = np.radians(found.mde_rot_deg[edge]) if part == "rotation" else found.mde_trans[edge]
    direction = worst_direction(exact, truth, edge, part, planar)
    rng = np.random.default_rng(7)
    hits = {0.0: 0, 1.0: 0, 0.3: 0}
    for _ in range(trials):
        fresh = measure_again(graph, truth, rng)
        for share in hits:
            spoilt = planted(fresh, edge, part, share * size * direction)
            fit = Posterior(spoilt)
            poses = minimise(Curvature(fit), truth).poses
            predictions = edge_predictions(fit, poses)
            assert predictions is not None
            z2, freedom = predictions.distance
            hits[share] += special.gammaincc(0.5 * freedom[edge], 0.5 * z2[edge]) < 0.001
    assert abs(hits[1.0] / trials - 0.8) < 4 * np.sqrt(0.8 * 0.2 / trials)
    assert hits[0.0] <= 3  # 0.25 of 250 expected
    assert hits[0.3] / trials < 0.3


def measure_again_exactly(graph: tempose.PoseGraph, truth: tempose.Poses) -> tempose.PoseGraph:
    from tempose.simulation.measuring import Noise, measured_with

    still = np.tile([1.0, 0.0, 0.0, 0.0], (graph.n_edges, 1))
    return measured_with(graph, truth, Noise(still, np.zeros((graph.n_edges, 3))))


def worst_direction(graph: tempose.PoseGraph, truth: tempose.Poses, edge: int, part: str, planar: bool) -> np.ndarray:
    from tempose.optimum.prediction import whitened_residuals

    predictions = edge_predictions(Posterior(graph), truth)
    assert predictions is not None
    A = whitened_residuals(graph, truth)[1][edge]
    M = (
        (A.T @ predictions.covariance[edge] @ A)[:3, :3]
        if part == "rotation"
        else (A.T @ predictions.covariance[edge] @ A)[3:, 3:]
    )
    axes = ([2] if part == "rotation" else [0, 1]) if planar else [0, 1, 2]
    direction = np.zeros(3)
    direction[axes] = np.linalg.eigh(M[np.ix_(axes, axes)])[1][:, 0]
    return direction


def planted(graph: tempose.PoseGraph, edge: int, part: str, error: np.ndarray) -> tempose.PoseGraph:
    from dataclasses import replace

    wxyz, t = np.array(graph.j_from_i_wxyz), np.array(graph.j_from_i_t)
    if part == "rotation":
        wxyz[edge] = quat.multiply(quat.exp(error), wxyz[edge])
    else:
        t[edge] += error
    return replace(graph, j_from_i_wxyz=wxyz, j_from_i_t=t)


# ---------------------------------------------------------------------- a network of baselines, as in textbooks


def test_a_network_of_baselines_is_adjusted_as_in_textbooks() -> None:
    """Vectors between stations, two of them known: A, W, N = AᵀWA in the plainest code against everything that is said here."""
    rng = np.random.default_rng(8)
    points = rng.uniform(-500.0, 500.0, (5, 3))
    lines = [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (2, 4), (3, 4), (1, 4), (0, 4)]
    graph = tempose.GraphBuilder()
    covariances, measured = [], []
    for k, point in enumerate(points):
        graph.add_node(k, tempose.Pose([1, 0, 0, 0], point), fixed=k < 2)
        if k >= 2:
            graph.add_attitude(k, wxyz=[1, 0, 0, 0], sigma_rot_deg=1e-7)  # axes are those of the world
    for a, b in lines:
        root = rng.normal(0.0, 0.004, (3, 3))
        covariances.append(root @ root.T + 0.003**2 * np.eye(3))
        measured.append(points[b] - points[a] + rng.multivariate_normal(np.zeros(3), covariances[-1]))
        information = np.zeros((6, 6))
        information[3:, 3:] = np.linalg.inv(covariances[-1])
        graph.add_edge(a, b, wxyz=[1, 0, 0, 0], translation=measured[-1], information=information)
    solution = tempose.solve(graph.build(), draws=0)

    A = np.zeros((3 * len(lines), 9))
    misclosure = np.zeros(3 * len(lines))
    for k, (a, b) in enumerate(lines):
        rows = slice(3 * k, 3 * k + 3)
        misclosure[rows] = measured[k]
        for node, sign in ((a, -1.0), (b, 1.0)):
            if node < 2:
                misclosure[rows] -= sign * points[node]
            else:
                A[rows, 3 * node - 6 : 3 * node - 3] = sign * np.eye(3)
    W = np.zeros((len(misclosure), len(misclosure)))
    for k, one in enumerate(covariances):
        W[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = np.linalg.inv(one)
    inverse = np.linalg.inv(A.T @ W @ A)
    x = inverse @ A.T @ W @ misclosure
    v = A @ x - misclosure
    np.testing.assert_allclose(solution.poses.position[2:].ravel(), x, atol=1e-6)
    for k in range(3):
        sigma = inverse[3 * k : 3 * k + 3, 3 * k : 3 * k + 3]
        np.testing.assert_allclose(solution.covariance(k + 2)[3:, 3:], sigma, rtol=1e-4, atol=1e-12)
    np.testing.assert_allclose(solution.global_test.statistic, v @ W @ v, rtol=1e-4)
    assert round(solution.global_test.freedom) == len(misclosure) - 9
    R = np.eye(len(misclosure)) - A @ inverse @ A.T @ W  # redundancy matrix
    edges = [k for k in range(solution.graph.n_edges) if solution.graph.ranks[0][k] == 0]
    smallest = noncentrality(3)
    for k, edge in enumerate(edges):
        rows = slice(3 * k, 3 * k + 3)
        np.testing.assert_allclose(solution.reliability.redundancy[edge], np.trace(R[rows, rows]) / 3, rtol=1e-4)
        M = W[rows, rows] @ R[rows, rows]  # W Q_v W of the line
        np.testing.assert_allclose(
            solution.reliability.mde_trans[edge], np.sqrt(smallest / np.linalg.eigvalsh(0.5 * (M + M.T))[0]), rtol=1e-3
        )


LEVELLING: dict[str, dict[str, Any]] = {
    # output of GNU Gama 1.5.09 (vrmapper.com/gama/1doutput.html); its input was not seen: σ of 5 mm a leg follows from m0 and [pvv]
    "GNU Gama": {
        "known": {"1a": 1000.0},
        "legs": "1a 4 -1.225, 4 3 -0.848, 3 2 1.342, 2 1a 0.720, 1a 2 -0.724, 2 3 -1.335, 3 4 0.842, 4 1a 1.231",
        "sigma": [0.005] * 8,
        "heights": {"4": 998.77513, "3": 997.93325, "2": 999.27487},
        "sigmas": {"4": 0.0031, "3": 0.0035, "2": 0.0031},
        "digits": (5, 4),
        "m0": (5.42 / 5.0, 2),
        "largest": 1.68,
    },
    # Ghilani and Wolf, Adjustment Computations, the weighted level net; quoted from memory. Weights are 12 over the length
    "Ghilani": {
        "known": {"X": 100.0, "Y": 107.5},
        "legs": "X A 5.10, A Y 2.34, Y C -1.25, C X -6.13, A B -0.68, Y B -3.00, B C 1.70",
        "sigma": [math.sqrt(miles / 12.0) for miles in (4, 3, 2, 3, 2, 2, 2)],
        "heights": {"A": 105.150, "B": 104.489, "C": 106.197},
        "digits": (3, 3),
        "m0": (0.107, 3),
    },
}


@pytest.mark.parametrize("name", LEVELLING)
def test_published_levelling_networks_come_out_as_printed(name: str) -> None:
    """Heights, σ, the variance factor and the largest normalised residual, to the digits that were printed."""
    of = LEVELLING[name]
    legs = [(a, b, float(rise)) for a, b, rise in (leg.split() for leg in of["legs"].split(", "))]
    graph = tempose.GraphBuilder()
    for station in sorted({one for leg in legs for one in leg[:2]}):
        pose = tempose.Pose([1, 0, 0, 0], [0.0, 0.0, of["known"].get(f"{station}", 0.0)])
        graph.add_node(f"P{station}", pose, fixed=station in of["known"])
        if station not in of["known"]:  # heights alone: axes are those of the world, and x and y are zero
            graph.add_attitude(f"P{station}", wxyz=[1, 0, 0, 0], sigma_rot_deg=1e-6)
            graph.add_position(f"P{station}", [0.0, 0.0, 0.0], information=np.diag([1e6, 1e6, 0.0]))
    for (a, b, rise), sigma in zip(legs, of["sigma"], strict=True):
        information = np.zeros((6, 6))
        information[5, 5] = 1.0 / sigma**2
        graph.add_edge(f"P{a}", f"P{b}", wxyz=[1, 0, 0, 0], translation=[0.0, 0.0, rise], information=information)
    solution = tempose.solve(graph.build(), draws=0)
    for station, height in of["heights"].items():
        found = solution[f"P{station}"]
        assert found.position[2] == pytest.approx(height, abs=0.51 * 10.0 ** -of["digits"][0])
        if "sigmas" in of:
            assert math.sqrt(found.covariance[5, 5]) == pytest.approx(
                of["sigmas"][station], abs=0.51 * 10.0 ** -of["digits"][1]
            )
    m0, digits = of["m0"]
    assert round(solution.global_test.freedom) == len(legs) - len(of["heights"])
    assert math.sqrt(solution.global_test.variance_factor) == pytest.approx(m0, abs=0.51 * 10.0**-digits)
    if "largest" in of:
        surprise = np.sqrt(solution.edge_checks.z2[solution.graph.is_relative])
        assert np.max(surprise) == pytest.approx(of["largest"], abs=0.0051)


# ---------------------------------------------------------------------- the global test


def test_the_global_test_rejects_at_its_level_and_sees_wrong_noise() -> None:
    made = network(True)
    rng = np.random.default_rng(3)
    trials, failed, doubled = 100, 0, 0
    for _ in range(trials):
        fresh = Posterior(measure_again(made.graph, made.truth, rng))
        poses = minimise(Curvature(fresh), made.truth).poses
        statistic = 2.0 * float(np.sum(fresh.energies(poses)))
        freedom = float(made.graph.freedom.sum()) - Curvature(fresh).determined(poses)
        failed += not GlobalTest(statistic, freedom).passed
        doubled += not GlobalTest(4.0 * statistic, freedom).passed  # noise that is twice what was stated
    assert abs(failed / trials - 0.05) < 4 * np.sqrt(0.05 * 0.95 / trials)
    assert doubled / trials > 0.8  # of few degrees of freedom


def test_the_global_test_by_hand() -> None:
    test = GlobalTest(30.0, 10.0)
    np.testing.assert_allclose(test.bounds, stats.chi2.ppf([0.025, 0.975], 10) / 10)
    assert test.passed is False and "failed: variance factor 3" in tempose.describe.global_test(test)
    assert GlobalTest(0.0, 0.0).passed is None and GlobalTest(0.0, 0.0).facts()["bounds"] is None
    assert "nothing to test" in tempose.describe.global_test(GlobalTest(0.0, 0.0))


# ---------------------------------------------------------------------- ellipses


def test_ellipses_by_hand() -> None:
    """East σ 3, north σ 1: the major axis points east, azimuth 90°; turned 30° clockwise it is at 120°."""
    turn = np.radians(-30.0)
    R = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
    flat = np.diag([9.0, 1.0, 4.0])
    found = error_ellipses(np.array([flat, R @ flat @ R.T, np.full((3, 3), np.nan)]))
    np.testing.assert_allclose(found.major[:2], 3 * np.sqrt(5.991464547), rtol=1e-8)
    np.testing.assert_allclose(found.minor[:2], np.sqrt(5.991464547), rtol=1e-8)
    np.testing.assert_allclose(found.azimuth_deg[:2], [90.0, 120.0])
    np.testing.assert_allclose(found.sigma_vertical[:2], 2.0)
    assert np.isnan(found.major[2])
    with pytest.raises(OptionError):
        error_ellipses(flat[None], 1.0)


def test_ellipses_hold_the_share_they_say() -> None:
    rng = np.random.default_rng(5)
    root = np.array([[0.3, 0.0, 0.0], [0.5, 0.2, 0.0], [0.1, 0.1, 0.4]])
    found = error_ellipses((root @ root.T)[None])
    points = rng.standard_normal((20000, 3)) @ root.T
    along = np.radians(found.azimuth_deg[0])
    axis = np.array([np.sin(along), np.cos(along)])
    u, v = points[:, :2] @ axis, points[:, :2] @ [axis[1], -axis[0]]
    inside = (u / found.major[0]) ** 2 + (v / found.minor[0]) ** 2 < 1.0
    assert abs(inside.mean() - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 20000)


def test_relative_ellipses_are_of_the_difference() -> None:
    solution = tempose.solve(network(False).graph, draws=0)
    laplace = solution.laplace
    assert laplace is not None
    joint = laplace.joint(2, 7)
    sigma = joint[3:6, 3:6] + joint[9:, 9:] - joint[3:6, 9:] - joint[9:, 3:6]
    np.testing.assert_allclose(solution.ellipses(pairs=[(2, 7)]).major, error_ellipses(sigma[None]).major, rtol=1e-9)
    chain = tempose.solve(tempose.simulate(12, shape="trajectory", loops_per_node=0.0, seed=1).graph, draws=0)
    near, far = chain.ellipses(pairs=[(10, 11)]).major[0], chain.ellipses(nodes=[11]).major[0]
    assert near < 0.6 * far  # errors that both share are not in their difference
    other = tempose.solve(network(False).graph, draws=0, gauge="centroid")
    with pytest.raises(ArgumentError, match="held nodes"):
        other.ellipses(pairs=[(2, 7)])
