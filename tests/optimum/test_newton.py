"""Hessian, Newton and covariances against finite differences, known optima and simulation."""

from __future__ import annotations

import numpy as np
import pytest

import tempose
from helpers.graphs import random_graph
from helpers.hessian import dense
from helpers.kernels import with_world
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.optimum import newton
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import lowered, minimise
from tempose.optimum.starts import start_poses
from tempose.optimum.trees import tree_poses
from tempose.simulation import simulate

RNG = np.random.default_rng(0)
PRIORS = {
    "flat": Priors(),
    "both": Priors(
        Bingham.from_mode(quat.random_uniform(RNG), np.array([3.0, 5.0, 9.0])),
        RNG.standard_normal(3),
        np.diag([1.0, 2.0, 3.0]),
    ),
    "position": Priors(None, RNG.standard_normal(3), np.diag([1.0, 2.0, 3.0]), on_position=True),
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", ["scalar", "vector", "full"])
def test_hessian_is_the_second_derivative_of_u(kind: str, prior: str) -> None:
    rng = np.random.default_rng(1)
    graph = random_graph(rng, 6, 14, kind, rotation_only=True)
    posterior = Posterior(PRIORS[prior].added_to(graph))
    poses = Poses(graph.node_ids, quat.random_uniform(rng, 6), rng.standard_normal((6, 3)))
    poses = with_world(posterior.graph, poses)
    H = dense(Curvature(posterior), poses)
    np.testing.assert_allclose(H, H.T, atol=1e-12)
    e = 1e-3

    def U(x: np.ndarray) -> float:
        x = x.reshape(-1, 6)
        return posterior.reference_potential(
            Poses(poses.ids, quat.multiply(quat.exp(x[:, :3]), poses.wxyz), poses.position + x[:, 3:])
        )

    for _ in range(8):
        d = rng.standard_normal(6 * len(poses))
        f = [U(k * e * d) for k in (-2, -1, 0, 1, 2)]
        second = (-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * e * e)
        assert d @ H @ d == pytest.approx(second, rel=1e-6)
    broken = H.copy()
    broken[0, 7] *= 1.01  # negative control: a wrong entry is seen
    d = np.zeros(6 * len(poses))
    d[[0, 7]] = 1.0
    f = [U(k * e * d) for k in (-2, -1, 0, 1, 2)]
    second = (-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * e * e)
    assert d @ H @ d == pytest.approx(second, rel=1e-6)


def test_gauss_newton_is_positive_semidefinite_and_equal_at_a_perfect_fit() -> None:
    rng = np.random.default_rng(2)
    made = simulate(8, seed=1, sigma_rot_deg=0.0, sigma_trans=0.0)
    curvature = Curvature(Posterior(made.graph))
    exact, approximate = dense(curvature, made.truth), dense(curvature, made.truth, exact=False)
    np.testing.assert_allclose(exact, approximate, atol=1e-3 * np.abs(exact).max() * 1e-6)
    wild = Poses(made.truth.ids, quat.random_uniform(rng, 8), rng.standard_normal((8, 3)))
    assert np.linalg.eigvalsh(dense(curvature, wild, exact=False))[0] > -1e-9 * np.abs(exact).max()
    assert np.linalg.eigvalsh(dense(curvature, wild))[0] < 0.0  # while the exact one is indefinite out there


@pytest.mark.parametrize(
    ("name", "twice_u"), [("smallGrid3D", 1025.398056), ("sphere2500", 1687.005814), ("parking-garage", 1.262524)]
)
def test_known_optima(data, name: str, twice_u: float) -> None:  # type: ignore[no-untyped-def]
    graph = tempose.read_graph(data / "g2o" / f"{name}.g2o", tempose.ReadOptions(precision="isotropic"))
    result = minimise(Curvature(Posterior(graph)), tree_poses(graph, graph.spanning_tree()))
    assert result.status == "converged"
    assert result.is_minimum
    assert 2.0 * result.potential == pytest.approx(twice_u, abs=6e-7)
    assert result.gradient_norm < 1e-9


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", ["scalar", "vector", "full"])
def test_newton_reaches_rounding_and_never_climbs(kind: str, prior: str) -> None:
    rng = np.random.default_rng(3)
    for seed in range(5):
        graph = random_graph(np.random.default_rng(seed), 8, 20, kind)
        posterior = Posterior(PRIORS[prior].added_to(graph))
        start = Poses(graph.node_ids, quat.random_uniform(rng, 8), rng.standard_normal((8, 3)))
        start = with_world(posterior.graph, start)
        result = minimise(Curvature(posterior), start)
        assert result.status == "converged"
        energies = [step.potential for step in result.steps]
        assert all(b <= a * (1 + 1e-13) for a, b in zip(energies, energies[1:], strict=False))
        assert result.gradient_norm < 1e-8 * posterior.potential(start)


@pytest.mark.parametrize("seed", [31, 32, 33])
def test_soft_loops_take_as_many_steps_from_the_chordal_start_as_from_the_truth(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand nodes with 6° of noise and few closures: U is a valley that bends."""
    made = simulate(1000, shape="trajectory", seed=seed, completeness=0.05, sigma_rot_deg=6.0)
    curvature = Curvature(Posterior(made.graph))
    start = start_poses(made.graph, "chordal", np.random.default_rng(0))
    best, found = minimise(curvature, made.truth), minimise(curvature, start)
    assert best.status == found.status == "converged" and best.is_minimum and found.is_minimum
    assert found.potential == pytest.approx(best.potential, rel=1e-12)
    assert len(found.steps) <= len(best.steps) + 4 <= 14
    monkeypatch.setattr(newton, "_MOST_CORRECTIONS", 0)  # negative control: straight steps creep along the bend
    straight = minimise(curvature, start)
    assert straight.potential == pytest.approx(best.potential, rel=1e-12)
    assert len(straight.steps) > 2 * len(found.steps)


def test_a_search_stops_where_little_is_to_gain() -> None:
    graph = tempose.simulate(150, shape="manhattan", sigma_rot_deg=3.0, seed=1).graph
    curvature, start = Curvature(Posterior(graph)), start_poses(graph, "tree", np.random.default_rng(0))
    best = minimise(curvature, start)
    above = [
        curvature.posterior.potential(lowered(curvature, start, max_steps=20, least_gain=gain)) - best.potential
        for gain in (1e3, 1e-3, 0.0)
    ]
    assert above[0] > 1.0 and 1e-3 > above[1] > 1e-9 > abs(above[2])
    same = lowered(curvature, start, max_steps=2)
    assert np.array_equal(same.wxyz, minimise(curvature, start, max_steps=2).poses.wxyz)


def test_steps_that_creep_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Near the optimum, without the exact Hessian and with steps far too short, as where rounding spoils both."""
    made = simulate(60, shape="trajectory", seed=1, sigma_rot_deg=6.0)
    curvature = Curvature(Posterior(made.graph))
    best = minimise(curvature, made.truth).poses
    start = Poses(best.ids, best.wxyz, best.position + 1e-4 * RNG.standard_normal(best.position.shape))

    def stiff(c: Curvature, wxyz: np.ndarray, position: np.ndarray, *_: object) -> object:
        return c.factor(wxyz, position, exact=False, damping=1e4), "gauss-newton"

    monkeypatch.setattr(newton, "_factor", stiff)
    found = minimise(curvature, start)
    assert found.status == "stalled" and len(found.steps) == newton._CREEPING
    monkeypatch.setattr(newton, "_CREEPING", 1000)  # negative control
    assert minimise(curvature, start).status == "step limit"


def test_optimum_does_not_depend_on_where_the_world_is() -> None:
    from tempose.geometry import Similarity

    made = simulate(15, seed=2)
    curvature = Curvature(Posterior(made.graph))
    a = minimise(curvature, made.truth)
    b = minimise(
        curvature, made.truth.moved(Similarity(quat.random_uniform(np.random.default_rng(1)), np.full(3, 1e3)))
    )
    assert a.potential == pytest.approx(b.potential, rel=1e-12)


@pytest.mark.parametrize("gauge", ["anchor", "centroid", "free", "node:5"])
def test_marginals_are_those_of_the_dense_gaussian(gauge: str) -> None:
    """In any gauge: transform a dense covariance by finite differences of the gauge's own alignment."""
    made = simulate(9, seed=3, sigma_rot_deg=1.0)
    curvature = Curvature(Posterior(made.graph))
    best = minimise(curvature, made.truth).poses
    laplace = Laplace(curvature, best, beta=2.0)
    held = curvature.held.reshape(-1)
    H = dense(curvature, best)
    sigma = np.zeros_like(H)
    sigma[np.ix_(~held, ~held)] = np.linalg.inv(H[np.ix_(~held, ~held)]) / 2.0
    rule = Gauge.parse(made.graph, gauge)
    e, n = 1e-6, len(best)
    J = np.empty((6 * n, 6 * n))
    from tempose.analysis.summary import tangent

    for k in range(6 * n):
        ends = []
        for sign in (1, -1):
            x = np.zeros(6 * n)
            x[k] = sign * e
            x = x.reshape(n, 6)
            moved = rule.align(quat.multiply(quat.exp(x[:, :3]), best.wxyz), best.position + x[:, 3:], best)
            ends.append(tangent(*moved, best).reshape(-1))
        J[:, k] = (ends[0] - ends[1]) / (2 * e)
    expected = (J @ sigma @ J.T).reshape(n, 6, n, 6)
    found = laplace.marginals(rule)
    for node in range(n):
        np.testing.assert_allclose(found[node], expected[node, :, node], atol=2e-8 * np.abs(expected).max())


def test_edge_and_relative_covariances_agree_with_the_joint() -> None:
    made = simulate(9, seed=3)
    curvature = Curvature(Posterior(made.graph))
    laplace = Laplace(curvature, minimise(curvature, made.truth).poses)
    by_edge = laplace.edge_covariances()
    for k in (0, 5, 11):
        i, j = made.graph.edge_i[k], made.graph.edge_j[k]
        np.testing.assert_allclose(by_edge[k], laplace.relative(int(j), int(i)).covariance, rtol=1e-9, atol=1e-15)


def test_surprise_is_one_on_average_and_blind_on_bridges() -> None:
    values = []
    for seed in range(20):
        made = simulate(20, seed=seed, completeness=0.2)
        values.append(tempose.solve(made.graph, draws=0).surprise ** 2)
    squares = np.concatenate(values)
    squares = squares[~np.isnan(squares)]  # bridges
    assert abs(squares.mean() - 1.0) < 4 * squares.std() / np.sqrt(len(squares))
    chain = simulate(6, seed=1, shape="random", completeness=1e-9).graph  # a tree: all bridges
    assert np.all(np.isnan(tempose.solve(chain, draws=0).surprise))


def test_low_noise_coverage_of_the_gaussian_regions() -> None:
    """Squared normalised errors of relative poses over simulated graphs are χ² with six degrees of freedom."""
    from scipy.stats import chi2

    from tempose.geometry import se3

    values = []
    for seed in range(60):
        made = simulate(10, seed=seed, sigma_rot_deg=0.5, sigma_trans=0.02)
        solution = tempose.solve(made.graph, draws=0)
        for a, b in ((0, 5), (3, 9)):
            summary = solution.relative(a, b)
            w, p = made.truth.wxyz, made.truth.position
            truth = se3.a_from_b((w[a], p[a]), (w[b], p[b]))
            x = np.concatenate(
                [quat.log(quat.multiply(truth[0], quat.conjugate(summary.mean[0]))), truth[1] - summary.mean[1]]
            )
            values.append(float(x @ np.linalg.solve(summary.covariance, x)))
    values = np.array(values)
    for level in (0.5, 0.8, 0.95):
        inside = np.mean(values < chi2.ppf(level, 6))
        assert abs(inside - level) < 4 * np.sqrt(level * (1 - level) / len(values))


@pytest.mark.parametrize(
    "edges",
    [[(0, 1)], [(0, 1), (0, 1), (1, 0)], [(0, 1), (1, 2), (2, 0), (2, 3)], [(0, 1), (2, 3)]],
    ids=["single", "duplicates", "bridge", "two components"],
)
@pytest.mark.parametrize("weight", [1e-5, 1.0, 1e5])
def test_graphs_that_break_others(edges: list[tuple[int, int]], weight: float) -> None:
    rng = np.random.default_rng(5)
    m = len(edges)
    scale = weight ** np.linspace(0, 2, m)  # up to ten orders of magnitude between edges
    graph = PoseGraph.from_concentrations(
        edges,
        quat.exp(0.1 * rng.standard_normal((m, 3))),
        rng.standard_normal((m, 3)),
        concentration=scale,
        translation_precision=scale,
    )
    solution = tempose.solve(graph, draws=0)
    assert solution.status == "solved"
    assert np.isfinite(solution.potential)
    assert solution.nodes is not None
    if len(graph.bridges) == m:
        assert solution.potential == pytest.approx(0.0, abs=1e-20 * scale.max() + 1e-25)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("length", [1e9, 1e200, np.inf, np.nan])
def test_a_step_that_was_blown_up_leads_nowhere(length: float) -> None:
    made = tempose.simulate(6, completeness=1.0, seed=0)
    ground = newton._Ground(Curvature(Posterior(made.graph)))
    here = ground.at(made.truth.wxyz, made.truth.position)
    delta = np.zeros((6, 6))
    delta[2, 1] = length
    there = ground.moved(here, delta)
    assert there.value == np.inf and there.wxyz is here.wxyz
    delta[2, 1] = 1.0  # negative control
    assert np.isfinite(ground.moved(here, delta).value)
