"""Draws agree with those of an independent sampler on an independent implementation of the density, and with Laplace."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from tempose.analysis.diagnostics import mcse_mean
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.simulation import measure

pytest.importorskip("blackjax", reason="BlackJAX is not installed: pip install '.[bench]'")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import nuts

CHAINS, DRAWS = 2, 2000


def dense_graph() -> PoseGraph:
    """8 nodes, 22 edges, σ_θ = 0.05, σ_t = 0.1."""
    rng = np.random.default_rng(1)
    truth = Poses(tuple(range(8)), quat.random_uniform(rng, 8), rng.standard_normal((8, 3)))
    pairs = np.array([(a, b) for a in range(8) for b in range(a + 1, 8)])[rng.permutation(28)[:22]]
    return measure(truth, pairs, 0.05, 0.1, rng)


def wide_ring() -> PoseGraph:
    """Five nodes in a ring, σ_θ = 12°: bananas."""
    rng = np.random.default_rng(2)
    truth = Poses(tuple(range(5)), quat.random_uniform(rng, 5), rng.standard_normal((5, 3)))
    return measure(truth, np.array([(k, (k + 1) % 5) for k in range(5)]), math.radians(12.0), 0.3, rng)


def mixed_graph() -> PoseGraph:
    """Some edges without a translation, precisions over a decade."""
    rng = np.random.default_rng(3)
    truth = Poses(tuple(range(6)), quat.random_uniform(rng, 6), rng.standard_normal((6, 3)))
    pairs = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 2), (1, 4), (3, 5)])
    graph = measure(truth, pairs, 0.08, 0.2, rng)
    t = graph.j_from_i_t.copy()
    t[[6, 8]] = np.nan
    scale = 10.0 ** rng.uniform(-0.5, 0.5, (2, len(pairs)))
    return replace(
        graph,
        j_from_i_t=t,
        concentration=graph.concentration * scale[0],
        translation_precision=graph.translation_precision * scale[1],
    )


GRAPHS = {"dense": dense_graph, "wide ring": wide_ring, "mixed": mixed_graph}


def coordinates(draws: tempose.Draws, center: Poses) -> np.ndarray:
    """World-frame rotation vectors and positions (chains, draws, 6(n − 1)) about the centre, the first node held."""
    pose = np.stack([np.asarray(a) for a in draws.arrays])
    back = quat.multiply(center.wxyz[0], quat.conjugate(pose[..., :1, :4]))
    wxyz = quat.multiply(back, pose[..., :4])
    position = quat.rotate(back, pose[..., 4:] - pose[..., :1, 4:]) + center.position[0]
    omega = quat.log(quat.multiply(wxyz, quat.conjugate(center.wxyz)))
    x = np.concatenate([omega, position - center.position], axis=-1)[..., 1:, :]
    return x.reshape(*x.shape[:2], -1)


def moments(x: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Series (k, chains, draws) whose means are the means and all second moments about ``center``."""
    x = x - center
    first, second = np.triu_indices(x.shape[-1])
    return np.moveaxis(np.concatenate([x, x[..., first] * x[..., second]], axis=-1), -1, 0)


def scores(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Differences of all first and second moments in units of their Monte Carlo standard errors."""
    center = b.mean(axis=(0, 1))
    one, two = moments(a, center), moments(b, center)
    error = np.hypot(mcse_mean(one), mcse_mean(two))
    return (one.mean(axis=(1, 2)) - two.mean(axis=(1, 2))) / error


def nuts_draws(graph: PoseGraph, center: Poses, beta: float = 1.0) -> np.ndarray:
    value = nuts.log_density(graph, center, beta)
    start = np.zeros(6 * (graph.n_nodes - 1))
    return np.stack([nuts.run(value, start, DRAWS, 600, seed).draws for seed in range(CHAINS)])


def test_the_two_densities_are_the_same() -> None:
    for make in GRAPHS.values():
        graph = make()
        solution = tempose.solve(graph, draws=0)
        center, posterior = solution.estimate, Posterior(graph)
        value = nuts.log_density(graph, center, 1.7)
        rng = np.random.default_rng(0)
        for _ in range(3):
            x = 0.3 * rng.standard_normal((graph.n_nodes, 6))
            x[0] = 0.0
            wxyz = quat.multiply(quat.exp(x[:, :3]), center.wxyz)
            theta = np.linalg.norm(x[1:, :3], axis=1)
            volume = np.sum(np.log(2.0 * (1.0 - np.cos(theta)) / theta**2))
            expected = -1.7 * posterior.potential(Poses(graph.node_ids, wxyz, center.position + x[:, 3:])) + volume
            assert float(value(x[1:].reshape(-1))) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_means_and_covariances_agree_with_nuts(name: str) -> None:
    graph = GRAPHS[name]()
    solution = tempose.solve(graph, draws=20_000, chains=4, seed=1, sampler="collapsed")
    other = tempose.solve(graph, draws=4_000, chains=4, seed=2, sampler="geodesic-mh")
    assert solution.draws is not None and other.draws is not None
    reference = nuts_draws(graph, solution.estimate)
    for draws in (solution.draws, other.draws):
        z = scores(coordinates(draws, solution.estimate), reference)
        assert np.abs(z).max() < 5.0
        assert np.mean(z**2) < 2.0  # 1 if they agree and the errors are right; the moments are correlated
    # negative control: a tenth more noise would be noticed
    hot = coordinates(solution.draws, solution.estimate) * 1.1
    assert np.abs(scores(hot, reference)).max() > 5.0


@pytest.mark.slow
def test_all_three_agree_with_laplace_at_low_noise() -> None:
    graph, beta = dense_graph(), 1e4
    solution = tempose.solve(graph, draws=20_000, chains=4, beta=beta, sampler="collapsed")
    assert solution.draws is not None
    reference = nuts_draws(graph, solution.estimate, beta)
    drawn = coordinates(solution.draws, solution.estimate)
    assert solution.laplace is not None
    expected = np.einsum("naa->na", solution.laplace.marginals(solution.gauge))[1:].reshape(-1)
    for x in (drawn, reference):
        square = np.moveaxis(x**2, -1, 0)
        assert np.abs((square.mean(axis=(1, 2)) - expected) / mcse_mean(square)).max() < 4.5
