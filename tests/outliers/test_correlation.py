"""Errors of consecutive edges: p-values are uniform where they are independent, and small where they are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from helpers.graphs import random_graph
from helpers.kernels import random_poses
from helpers.walks import STEPS, walk
from tempose import describe
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.outliers.correlation import ChainCorrelation, Projection, chain_correlation, chain_of


def p_value(seed: int, memory: float, **kind: bool) -> float:
    graph, truth = walk(seed, memory, **kind)
    posterior = Posterior(graph)
    fitted = minimise(Curvature(posterior), truth).poses
    found = chain_correlation(posterior, fitted, np.random.default_rng(1000 + seed), draws=99)
    assert found is not None
    return found.p_value


@pytest.mark.parametrize("planar", [False, True])
def test_p_values_of_independent_errors_are_uniform(planar):
    found = np.array([p_value(seed, 0.0, planar=planar) for seed in range(100)])
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert np.mean(found <= 0.05) < 0.12


@pytest.mark.parametrize("kind", [{}, {"planar": True}, {"backwards": True}])
def test_correlated_errors_are_found(kind):
    found = [p_value(seed, 0.9, **kind) for seed in range(5)]
    assert np.median(found) <= 0.01


def test_the_factor_is_that_of_the_sums():
    """Errors with memory 0.9 add up over long distances as independent ones √((1 + 0.9)/(1 − 0.9)) = 4.4 times as large."""
    factors = []
    for seed in range(8):
        graph, truth = walk(seed, 0.9)
        posterior = Posterior(graph)
        found = chain_correlation(posterior, minimise(Curvature(posterior), truth).poses, np.random.default_rng(seed))
        assert found is not None
        assert found.edges == STEPS
        factors.append(found.worst[2])
        assert max(found.widening) == found.worst[2]
        (line,) = describe.correlated_errors(found)
        assert line.startswith("errors of consecutive edges are correlated (p = 0.00")
    assert 1.5 < np.median(factors) < 5.0
    graph, truth = walk(1, 0.0)
    found = chain_correlation(
        Posterior(graph), minimise(Curvature(Posterior(graph)), truth).poses, np.random.default_rng(0)
    )
    assert found is not None
    assert found.widening == (1.0, 1.0)
    assert describe.correlated_errors(found) == []


def test_what_the_fit_leaves_is_a_projection():
    rng = np.random.default_rng(2)
    graph = random_graph(rng, 6, 15, "full")
    poses = random_poses(rng, 6)
    projection = Projection.at(graph, poses, rng.uniform(0.2, 1.0, 15))
    assert projection is not None
    noise = rng.standard_normal((15, 6, 3))
    once = projection.of(noise)
    assert projection.of(once) == pytest.approx(once, abs=1e-9)
    assert abs(float(np.sum(once * (noise - once)))) < 1e-8
    assert np.abs(noise - once).max() > 0.1


def test_at_the_optimum_the_residuals_are_what_the_fit_leaves():
    graph, truth = walk(3, 0.0)
    posterior = Posterior(graph)
    fitted = minimise(Curvature(posterior), truth).poses
    projection = Projection.at(graph, fitted, np.ones(graph.n_edges))
    assert projection is not None
    r = projection.observed[:, :, None]
    assert projection.of(r) == pytest.approx(r, abs=1e-3)
    elsewhere = Projection.at(graph, truth, np.ones(graph.n_edges))  # negative control
    assert elsewhere is not None
    assert np.abs(elsewhere.of(elsewhere.observed[:, :, None])[:, :, 0] - elsewhere.observed).max() > 0.1


@pytest.mark.parametrize("planar", [False, True])
def test_residuals_of_edges_left_out_are_those_of_the_rest(planar: bool):
    """Two groups of edges, each left out by itself and the rest fitted again; and a group that nothing else checks."""
    graph, truth = walk(3, 0.0, planar=planar)
    fitted = minimise(Curvature(Posterior(graph)), truth).poses
    projection = Projection.at(graph, fitted, np.ones(graph.n_edges))
    assert projection is not None
    loops = np.setdiff1d(np.arange(graph.n_edges), chain_of(graph))
    edges, group = loops[[0, 1, 5]], np.array([0, 0, 1])
    found = projection.without(edges, group)
    for one in range(2):
        out = edges[group == one]
        rest = graph.with_edges(np.setdiff1d(np.arange(graph.n_edges), out))
        again = minimise(Curvature(Posterior(rest)), fitted).poses
        left = Projection.at(graph, again, np.ones(graph.n_edges))
        assert left is not None
        size = np.linalg.norm(left.observed[out])
        assert np.linalg.norm(found[group == one] - left.observed[out]) < 0.1 * size
        assert np.linalg.norm(projection.observed[out] - left.observed[out]) > 0.3 * size  # negative control
    assert np.all(np.isinf(projection.without(loops, np.zeros(len(loops), dtype=np.int64))))


def test_the_chain_is_in_order_with_its_gaps_and_needs_numbers():
    graph, _ = walk(0, 0.0)
    order = np.random.default_rng(0).permutation(graph.n_edges)
    mixed = graph.with_edges(order[np.isin(order, [0, 1, 2, 5, 6, 130])])
    chain = chain_of(mixed)
    assert (chain < 0).tolist() == [False, False, False, True, False, False]
    low = [min(mixed.node_ids[mixed.edge_i[k]], mixed.node_ids[mixed.edge_j[k]]) for k in chain if k >= 0]
    assert low == [0, 1, 2, 5, 6]
    named = replace(mixed, node_ids=tuple(f"n{10 * k}" for k in graph.node_ids))
    assert np.array_equal(chain_of(named), chain)
    nameless = replace(graph, node_ids=tuple("a" * (k + 1) for k in range(graph.n_nodes)))
    assert len(chain_of(nameless)) == 0
    assert chain_correlation(Posterior(mixed), Poses.identity(mixed.node_ids), np.random.default_rng(0)) is None


def test_noise_is_widened_for_hardly_any_chance() -> None:
    """One in 200 draws as large was enough before, and one in a hundred graphs with independent errors was widened."""
    lengths, ratio, excess = np.array([2, 4]), np.array([[1.1, 2.25], [1.0, 1.0]]), np.array([[2.5, 4.0], [0.0, 0.1]])
    assert ChainCorrelation(100, lengths, ratio, excess, 0.005).widening == (1.0, 1.0)
    assert ChainCorrelation(100, lengths, ratio, excess, 0.001).widening == (1.5, 1.0)
