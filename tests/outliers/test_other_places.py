"""Loop closures of one place do not vouch for each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tempose
from helpers.lying import unnamed
from tempose.analysis.edge_checks import check_edges
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.outliers.other_places import most_believed
from tempose.simulation import Simulated

SIGMA_DEG, SIGMA = 1.0, 0.05


def circle(
    places: tuple[int, ...], seen: int = 4, displaced: float = 0.0, seed: int = 0
) -> tuple[Simulated, PoseGraph, Any]:
    """A walk of 60 steps; at each place ``seen`` nodes meet those of 30 steps later, ``displaced`` from where these are."""
    made = tempose.simulate(
        60, shape="trajectory", loops_per_node=0.0, sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA, planar=True, seed=seed
    )
    rng, truth = np.random.default_rng(seed), made.truth
    pairs = [(first + k, first + 30 + k) for first in places for k in range(seen)]
    return made, _with_edges(made.graph, truth, pairs, rng, displaced), np.repeat(np.arange(len(places)), seen)


def _with_edges(graph: PoseGraph, truth: Any, pairs: Any, rng: Any, displaced: float) -> PoseGraph:
    i, j = np.array(pairs).T
    wxyz, t = se3.compose(se3.inverse((truth.wxyz[j], truth.position[j])), (truth.wxyz[i], truth.position[i]))
    turn = np.zeros((len(i), 3))
    turn[:, 2] = rng.normal(0.0, np.radians(SIGMA_DEG), len(i))
    shift = np.zeros((len(i), 3))
    shift[:, :2] = (
        rng.normal(0.0, SIGMA, (len(i), 2))
        + quat.rotate(quat.conjugate(truth.wxyz[j]), np.eye(3)[:1] * displaced)[:, :2]
    )
    of = {
        "edge_i": i, "edge_j": j, "j_from_i_wxyz": quat.multiply(quat.exp(turn), wxyz), "j_from_i_t": t + shift,
        "concentration": np.repeat(graph.concentration[:1], len(i), axis=0),
        "translation_precision": np.repeat(graph.translation_precision[:1], len(i), axis=0),
    }  # fmt: skip
    return replace(graph, **{name: np.concatenate([getattr(graph, name), one]) for name, one in of.items()})


def believed(graph: PoseGraph, prior: float = 0.7) -> Any:
    """The most that edges may be believed at the optimum of all of them; its verdicts edge by edge."""
    posterior = Posterior(graph, RobustLikelihood.of(graph, prior))
    poses = tempose.solve(graph, draws=0, certify=False).estimate
    most = most_believed(posterior, poses, np.ones(graph.n_edges))
    alone = check_edges(posterior, poses).inlier_probability(posterior.likelihood)
    return most, alone


def test_what_a_place_says_is_judged_by_the_graph_without_it() -> None:
    made, graph, place = circle((2, 12, 22))
    most, _ = believed(graph)
    loops = np.arange(made.graph.n_edges, graph.n_edges)
    assert np.all(most[: made.graph.n_edges] == 1.0)
    for one in range(3):
        members, told = loops[place == one], []
        for k in members:  # each by itself, beside the graph without its place
            kept = np.ones(graph.n_edges, dtype=bool)
            kept[np.setdiff1d(members, [k])] = False
            part = graph.with_edges(kept)
            checks = check_edges(Posterior(part), tempose.solve(part, draws=0, certify=False).estimate)
            told.append(checks.inlier_probability(RobustLikelihood.of(part, 0.7))[int(kept[:k].sum())])
        assert most[members] == pytest.approx(float(np.median(told)), abs=0.02)
    assert most[loops].min() > 0.9  # the three confirm each other


def test_loop_closures_of_one_place_do_not_vouch_for_each_other() -> None:
    """A look-alike that was seen ten times, and nothing else that tells: it bends the chain, and its edges agree."""
    made, graph, _ = circle((10,), seen=10, displaced=4.0)
    most, alone = believed(graph)
    loops = np.arange(made.graph.n_edges, graph.n_edges)
    assert alone[loops].min() > 0.95  # edge by edge: the negative control
    assert np.all(most[loops] == 0.5)
    _, right, _ = circle((10,), seen=10)
    assert believed(right)[0][loops].min() > 0.7
    apart = right.with_edges(np.arange(right.n_edges) != 14)  # nothing else holds the two parts together
    assert believed(apart)[0][loops - 1] == pytest.approx(0.7)


def test_certain_edges_stay_certain() -> None:
    made, graph, _ = circle((10,), seen=10, displaced=4.0)
    prior = np.full(graph.n_edges, 0.7)
    prior[made.graph.n_edges + 3] = 1.0
    poses = tempose.solve(graph, draws=0, certify=False).estimate
    most = most_believed(Posterior(graph, RobustLikelihood.of(graph, prior)), poses, np.ones(graph.n_edges))
    assert most is not None and most[made.graph.n_edges + 3] == 1.0 and most[made.graph.n_edges + 4] == 0.5


def test_without_an_order_nothing_is_said() -> None:
    graph = unnamed(tempose.simulate(20, completeness=0.5, seed=1).graph)
    assert believed(graph)[0] is None
