"""Edges in a row: a cycle that does not close speaks against each of them, and one wrong edge explains it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose.analysis.edge_checks import check_edges
from tempose.analysis.trust import Doubt, Trust
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.outliers import Robust
from tempose.outliers.verdicts import one_wrong_of_each

N = 24


def ring(miss: float) -> PoseGraph:
    """A way around a circle that comes back where it began, but for a shift of its last step; every node 1 from the next."""
    build = tempose.GraphBuilder()
    turn = quat.exp(np.array([0.0, 0.0, 2.0 * math.pi / N]))
    for k in range(N):
        shift = np.array([1.0 + (miss if k == N - 1 else 0.0), 0.0, 0.0])
        build.add_edge(k, (k + 1) % N, wxyz=turn, translation=shift, sigma_rot_deg=0.1, sigma_trans=0.01)
    return build.build()


def test_of_edges_in_a_row_at_most_one_is_wrong() -> None:
    graph = ring(0.0)
    alone = np.full(N, 0.2)  # odds of 4 to 1 against each, were all others right
    together = one_wrong_of_each(graph, np.ones(N, dtype=bool), alone)
    assert together == pytest.approx(1.0 - 4.0 / (1.0 + 4.0 * N)) and np.sum(1.0 - alone) > 1.0 > np.sum(1.0 - together)
    uneven = np.array([0.2, *[0.9] * (N - 1)])
    odds = 1.0 / uneven - 1.0
    assert one_wrong_of_each(graph, np.ones(N, dtype=bool), uneven) == pytest.approx(1.0 - odds / (1.0 + odds.sum()))
    sure = np.array([0.0, *[1.0] * (N - 1)])
    assert np.array_equal(one_wrong_of_each(graph, np.ones(N, dtype=bool), sure), sure)
    opened = np.arange(N) > 0  # without one edge the others are bridges, each as it was
    assert np.array_equal(one_wrong_of_each(graph, opened, uneven), uneven)


def test_where_every_edge_is_in_several_cycles_nothing_changes() -> None:
    made = tempose.simulate(12, completeness=0.8, seed=1)
    alone = np.random.default_rng(0).uniform(0.1, 1.0, made.graph.n_edges)
    assert np.array_equal(one_wrong_of_each(made.graph, np.ones(made.graph.n_edges, dtype=bool), alone), alone)


def test_a_ring_that_does_not_close_has_one_wrong_edge_and_says_so() -> None:
    """It misses by ten times what the errors of all its edges add up to: one is wrong, any of them."""
    solution = tempose.solve(
        ring(0.5), robust=Robust(inlier_probability=1.0 - 1e-9), noise="given", draws=0, certify=False
    )
    assert solution.verdicts is not None
    p = solution.verdicts.inlier_probability
    assert np.sum(1.0 - p) == pytest.approx(1.0, abs=0.05) and p.min() > 0.8
    assert len(solution.verdicts.one_of) == N and solution.judgement.trust is Trust.NOT
    drawn = tempose.solve(
        ring(0.5), robust=Robust(inlier_probability=1.0 - 1e-9), noise="given", draws=20, certify=False
    )  # few draws do not find out
    for one in (solution, drawn):
        assert Doubt.ONE_OF_MANY in {found.doubt for found in one.judgement.findings}
    likelihood = solution.posterior.likelihood
    assert likelihood is not None
    by_themselves = check_edges(solution.posterior, solution.poses).inlier_probability(likelihood)
    assert np.sum(1.0 - by_themselves) > 5.0  # the negative control: each given that all others are right
    closed = tempose.solve(ring(0.01), robust=True, noise="given", draws=0, certify=False)
    assert closed.verdicts is not None and closed.verdicts.inlier_probability.min() > 0.99
    assert len(closed.verdicts.one_of) == 0
    assert len(replace(closed.verdicts, inlier_probability=np.full(N, 0.97)).one_of) == N
