"""Errors that edges share: p-values are uniform where there are none, and five copies of an edge count as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from tempose import describe
from tempose.analysis.shared_errors import (
    EDGES_AS_ONE,
    SharedErrors,
    corners_of,
    independent_share,
    shared_errors,
    shared_laplace,
)
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.outliers import Robust
from tempose.simulation import simulate
from tempose.simulation.wrong import is_odometry
from tempose.solution import Solution
from tempose.solver import solve
from tempose.studies.coverage import rotations_within
from tempose.studies.rough_edges import rough_world

SIGMA_DEG, SIGMA = 0.5, 0.02


def fitted(graph: PoseGraph, truth: Poses) -> tuple[Posterior, Poses]:
    posterior = Posterior(graph)
    return posterior, minimise(Curvature(posterior), truth).poses


def made(seed: int, tails: bool = False, share: float = 0.0) -> tuple[PoseGraph, Poses]:
    """A ring of nodes, each joined to the next four; a part ``share`` of their variance is a displacement of the node for them."""
    n, rng = 20, np.random.default_rng(seed)
    truth = simulate(n, sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA, seed=seed).truth
    i, j = np.repeat(np.arange(n), 4), (np.repeat(np.arange(n), 4) + np.tile(np.arange(1, 5), n)) % n
    m = len(i)
    error, common = np.sqrt(1.0 - share) * rng.standard_normal((m, 6)), np.sqrt(share) * rng.standard_normal((n, 6))
    if tails:
        error /= np.sqrt(rng.chisquare(2.0, m) / 2.0)[:, None]
    moved = (
        quat.multiply(quat.exp(np.radians(SIGMA_DEG) * common[:, :3]), truth.wxyz),
        truth.position + SIGMA * common[:, 3:],
    )
    q, t = se3.a_from_b((truth.wxyz[j], truth.position[j]), (moved[0][i], moved[1][i]))
    turned = quat.multiply(quat.exp(np.radians(SIGMA_DEG) * error[:, :3]), q)
    precision = np.full(m, 2.0 / np.radians(SIGMA_DEG) ** 2), np.full(m, 1.0 / SIGMA**2)
    return PoseGraph(truth.ids, i, j, turned, t + SIGMA * error[:, 3:], *precision), truth


def p_value(seed: int, **kind: float) -> float:
    found = shared_errors(*fitted(*made(seed, **kind)), np.random.default_rng(1000 + seed), draws=39)
    assert found is not None
    return found.p_value


@pytest.mark.parametrize("tails", [False, True])
def test_p_values_of_independent_errors_are_uniform(tails: bool) -> None:
    found = np.array([p_value(seed, tails=tails) for seed in range(60)])
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert np.mean(found <= 0.05) < 0.15


def test_errors_that_are_common_to_edges_that_meet_are_found() -> None:
    assert np.median([p_value(seed, share=0.7) for seed in range(5)]) <= 0.05


def test_corners_are_pairs_of_edges_of_a_triangle() -> None:
    graph = made(1)[0]
    pairs = {frozenset(pair) for pair in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)}
    kept = np.ones(graph.n_edges, dtype=bool)
    found = corners_of(graph, kept, np.random.default_rng(0))
    ends = np.stack([graph.edge_i, graph.edge_j])
    for node, one, at_one, two, at_two in found.tolist():
        assert ends[at_one, one] == node == ends[at_two, two] and one != two
        assert frozenset((int(ends[1 - at_one, one]), int(ends[1 - at_two, two]))) in pairs
    triangles = sum(
        {frozenset((a, b)), frozenset((b, c)), frozenset((a, c))} <= pairs
        for a in range(20)
        for b in range(a)
        for c in range(b)
    )
    assert len(found) == 3 * triangles
    kept[0] = False
    assert not np.any(corners_of(graph, kept, np.random.default_rng(0))[:, [1, 3]] == 0)


def test_a_chain_has_nothing_to_compare() -> None:
    world = simulate(30, shape="trajectory", loops_per_node=0.0, seed=1)
    assert shared_errors(*fitted(world.graph, world.truth), np.random.default_rng(0)) is None


def test_edges_that_are_copies_count_as_one() -> None:
    graph, truth = made(3)
    named = tuple("scan" + "'" * k for k in range(graph.n_nodes))  # no order in time
    graph, truth = replace(graph, node_ids=named), replace(truth, ids=named)
    posterior, poses = fitted(graph, truth)
    single = Laplace(Curvature(posterior), poses).marginals(Gauge.parse(graph, "anchor"))
    copies = np.tile(np.arange(graph.n_edges), int(EDGES_AS_ONE))
    repeated = Posterior(graph.with_edges(copies))
    wide = shared_laplace(repeated, poses)
    assert wide is not None
    # the noise is that of the residuals, of which the poses have taken a part
    numbers = 6.0 * graph.n_edges
    noise = 2.0 * posterior.potential(poses) / (numbers - 6.0 * 19.0)
    found = wide.marginals(Gauge.parse(repeated.graph, "anchor"))
    ratio = np.sqrt(np.einsum("naa->na", found)[1:] / np.einsum("naa->na", single)[1:])
    assert ratio == pytest.approx(np.full((19, 6), np.sqrt(noise)), rel=0.1)
    control = Laplace(Curvature(repeated), poses).marginals(Gauge.parse(repeated.graph, "anchor"))
    assert np.trace(control[5]) == pytest.approx(np.trace(single[5]) / EDGES_AS_ONE)


def test_loop_closures_between_two_places_count_as_one() -> None:
    world = simulate(40, shape="manhattan", planar=True, loops_per_node=0.5, seed=6)
    graph, kept = world.graph, np.ones(world.graph.n_edges, dtype=bool)
    share = independent_share(graph, kept)
    links = is_odometry(graph)
    assert np.all(share[links] == 1.0) and np.all(share[~links] <= 1.0)
    place = np.array(graph.node_ids) // 6  # ids are ranks here
    pairs = {
        tuple(sorted((place[i], place[j]))) for i, j in zip(graph.edge_i[~links], graph.edge_j[~links], strict=True)
    }
    assert share[~links].sum() == pytest.approx(len(pairs))
    copied = graph.with_edges(
        np.concatenate([np.arange(graph.n_edges), np.flatnonzero(~links), np.flatnonzero(~links)])
    )
    again = independent_share(copied, np.ones(copied.n_edges, dtype=bool))
    assert again.sum() == pytest.approx(share.sum())  # saying it three times says nothing new
    poses = fitted(graph, world.truth)[1]
    found = (shared_laplace(Posterior(one), poses) for one in (graph, copied))
    once, thrice, control = (
        np.einsum("naa->na", one.marginals(Gauge.parse(graph, "anchor")))[1:, [2, 3, 4]]
        for one in (*found, Laplace(Curvature(Posterior(copied)), poses))
        if one is not None
    )
    np.testing.assert_allclose(once, thrice, rtol=1e-6)
    assert np.median(thrice / control) > 1.44


def test_wrong_edges_do_not_widen_and_a_sharp_core_does_not_narrow() -> None:
    world = simulate(20, completeness=0.6, sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA, seed=4)
    graph = world.graph
    right = shared_laplace(*fitted(graph, world.truth))
    bad = graph.j_from_i_t.copy()
    bad[::10] += 5.0
    solution = solve(replace(graph, j_from_i_t=bad), robust=Robust(tail=1.0), noise="auto", draws=0, certify=False)
    wide = replace(solution.analysis, errors_shared=True).error_bars
    assert right is not None and wide is not None and solution.laplace is not None
    gauge = Gauge.parse(graph, "anchor")
    sigma = [np.sqrt(np.trace(one.marginals(gauge)[:, 3:, 3:].sum(axis=0))) for one in (right, wide)]
    assert sigma[1] == pytest.approx(sigma[0], rel=0.2)


def test_few_residuals_that_are_small_by_chance_do_not_narrow_error_bars() -> None:
    """Of a chain with few loop closures or none, residuals say hardly anything about the noise: those of a tree are zero."""
    ratio = []
    for seed in range(6):
        world = simulate(
            30, shape="trajectory", completeness=0.08, sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA, seed=seed
        )
        posterior, poses = fitted(world.graph, world.truth)
        shared, gauge = shared_laplace(posterior, poses), Gauge.parse(world.graph, "anchor")
        assert shared is not None
        own = Laplace(
            Curvature(posterior), poses, 1.0, Curvature(posterior).factor(poses.wxyz, poses.position, exact=False)
        )
        sigma = [np.einsum("naa->na", one.marginals(gauge))[1:] for one in (shared, own)]
        ratio.append(float(np.min(sigma[0] / sigma[1])))
    assert min(ratio) > 1.0 - 1e-6


def test_a_solve_says_what_its_error_bars_assume_and_keeps_it(tmp_path: Path) -> None:
    world = simulate(8, seed=2)
    plain = solve(world.graph, draws=40, certify=False)
    shared = solve(world.graph, draws=40, certify=False, edge_errors="shared")
    assert np.array_equal(plain.estimate.wxyz, shared.estimate.wxyz) and plain.nodes is not None
    assert shared.draws is not None and plain.draws is not None and shared.fingerprint == plain.fingerprint
    assert plain.nodes.source == "draws" and shared.nodes is not None and shared.nodes.source == "laplace"
    assert "every edge errs by itself" in plain.summary() and "share errors" in shared.summary()
    again = Solution.load(shared.save(tmp_path))
    assert again.nodes is not None and np.array_equal(again.nodes.covariance, shared.nodes.covariance)
    assert np.array_equal(again.relative(0, 3).covariance, shared.relative(0, 3).covariance)
    assert shared.facts()["uncertainty"]["edge_errors"] == "shared"


def test_error_bars_allow_for_edges_that_contradict_each_other(tmp_path: Path) -> None:
    graph, truth = rough_world("alike", 602, nodes=50)
    found = solve(graph, robust=True, noise="auto", draws=0, certify=False)
    assert found.likelihood is not None and found.likelihood.is_precise_only
    assert found.facts()["uncertainty"]["edge_errors"] == "shared"
    assert any("times as noisy as usual" in one for one in found.notices)
    assert "rough edges contradict precise ones" in found.summary()
    reported, independent = found.analysis.error_bars, found.analysis.laplace
    assert reported is not None and independent is not None
    assert rotations_within(reported, truth, 0.95) > 0.85
    assert rotations_within(independent, truth, 0.95) < 0.85  # negative control
    assert found.verdicts is not None and np.mean(found.verdicts.inlier_probability > 0.5) > 0.9
    again = Solution.load(found.save(tmp_path))
    assert again.likelihood is not None and again.likelihood.is_precise_only and again.analysis.errors_shared
    assert np.array_equal(again.likelihood.rows, found.likelihood.rows)
    alone = solve(graph, robust=True, noise="auto", draws=0, certify=False, edge_errors="independent")
    assert alone.facts()["uncertainty"]["edge_errors"] == "independent"
    assert np.array_equal(alone.estimate.wxyz, found.estimate.wxyz)


def test_only_shared_errors_are_worth_a_notice() -> None:
    assert describe.shared_errors(None, False) == describe.shared_errors(SharedErrors(100, 0.01, 0.2), False) == []
    told, allowed_for = (describe.shared_errors(SharedErrors(100, 0.1, 0.005), so)[0] for so in (False, True))
    assert "p = 0.005" in told and "--edge-errors shared" in told
    assert "p = 0.005" in allowed_for and "--edge-errors" not in allowed_for
