"""From a graph with wrong edges to its robust posterior: which fits are believed, and whether a chain is asked for its drift."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tempose
from helpers.walks import walk
from tempose.outliers import estimate, reading
from tempose.outliers.em import fit
from tempose.outliers.explanations import ExplanationSearch
from tempose.outliers.noise import RobustOptions
from tempose.outliers.repeats import Repeats
from tempose.outliers.search.growing import grow_from_chain
from tempose.outliers.search.skeleton import skeleton
from tempose.outliers.sequence import Sequence
from tempose.simulation import replace_loops


def a_look_alike() -> tempose.PoseGraph:
    """Forty steps, two right loop closures, and four edges that agree on one displaced place."""
    build = tempose.GraphBuilder(planar=True)

    def add(a: int, b: int, shift: float = 0.0) -> None:
        build.add_edge(a, b, angle=0.0, translation=[b - a + shift, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)

    for k in range(40):
        add(k, k + 1)
    for a, b, shift in ((2, 20, 0.0), (12, 30, 0.0), *((25 + k, 36 + k, 9.0) for k in range(4))):
        add(a, b, shift)
    return build.build()


def searching(graph: tempose.PoseGraph) -> ExplanationSearch:
    sequence = Sequence.of(graph)
    assert sequence is not None
    return ExplanationSearch(sequence, np.full(graph.n_edges, np.nan), np.random.default_rng(0))


def test_a_look_alike_that_was_seen_often_is_one_mistake_and_two_links_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = a_look_alike()
    search, bones = searching(graph), skeleton(graph)

    def made(wrong: list[int], evidence: float, scale: float = 1.0) -> Any:
        p = np.full(46, 0.99)
        p[wrong] = 0.01
        parameters = SimpleNamespace(rotation_scale=scale, translation_scale=1.0)
        return SimpleNamespace(inlier_probability=p, log_evidence=evidence, parameters=parameters)

    right, wrong, doubt = made([42, 43, 44, 45], 0.0), made([28, 35], 30.0), {"nats": 40.0}
    monkeypatch.setattr(estimate, "in_doubt", lambda found, _: doubt["nats"] if found is right else 0.0)

    def believed(*fits: Any) -> list[Any]:
        return estimate._of_few_mistakes(list(fits), search, bones, Repeats.none(46))

    assert believed(right, wrong) == [right]
    doubt["nats"] = 20.0  # negative control: evidence that no counting of repetitions explains
    assert len(believed(right, wrong)) == 2
    loose, unlikely = made([], 90.0, scale=5.0), made([], -90.0, scale=5.0)
    assert any(one is loose for one in believed(right, loose))
    assert believed(right, unlikely) == [right]  # noise explains anything


def test_explanations_that_give_up_hundreds_of_links_are_told_apart() -> None:
    search = searching(walk(0, 0.0, planar=True, steps=600)[0])
    straight = search._keep(search.explanation(search.sequence.chain_poses))
    wild = search.sequence.chain_poses.position + 5.0 * np.random.default_rng(0).standard_normal((601, 3)) * [
        1.0,
        1.0,
        0.0,
    ]
    other = search._keep(search.explanation(replace(search.sequence.chain_poses, position=wild)))
    assert len(other.given_up) > 500
    assert search._best_of_each(9) == [straight, other]


@pytest.mark.parametrize("closing", [True, False])
def test_a_survey_closes_the_loops_of_a_long_way(closing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors with a memory add up to many σ of a loop closure, and half of the loop closures are look-alikes."""
    graph, truth = walk(4, 0.97, planar=True, steps=480)
    bad = replace_loops(graph, truth, 0.5, "lookalikes", seed=4)
    search = searching(bad.graph)
    loops = ~search.sequence.is_link
    if not closing:  # negative control: trees close nothing
        monkeypatch.setattr(search, "_close", lambda one: None)
    found = search.survey([grow_from_chain(search.sequence).poses])
    assert bool(np.mean(found.fits[loops & ~bad.is_wrong]) > 0.95) is closing
    if closing:
        assert not np.any(found.fits & bad.is_wrong)
        assert len(found.given_up) == 0
        least = estimate._least_scales(search.sequence, found, np.random.default_rng(0))
        assert min(least) > 1.2  # of σ, which errors with a memory exceed


@pytest.mark.parametrize("memory", [0.9, 0.97])
@pytest.mark.parametrize("alone", [True, False])
def test_a_survey_closes_lone_loops_of_a_long_way(memory: float, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven right loop closures in 480 steps, each by itself and hidden by drift, and ten wrong ones."""
    graph, truth = walk(2, memory, planar=True, steps=480)
    loops = np.flatnonzero(np.abs(graph.edge_i - graph.edge_j) > 1)
    kept = np.ones(graph.n_edges, dtype=bool)
    kept[loops] = np.arange(len(loops)) % 7 == 0
    bad = replace_loops(graph.with_edges(kept), truth, 0.5, "independent", seed=2)
    search = searching(bad.graph)
    if not alone:  # negative control: only clusters of several edges are closed
        monkeypatch.setattr(search, "_worth_closing", lambda one: np.flatnonzero(search.clusters.size > 1))
    found = search.survey([grow_from_chain(search.sequence).poses])
    right = found.fits[~search.sequence.is_link & ~bad.is_wrong]
    if not alone:
        assert right.sum() <= 5
        return
    assert right.sum() >= 10 and len(right) == 11
    assert not np.any(found.fits & bad.is_wrong)
    assert len(found.given_up) == 0


@pytest.mark.parametrize("is_long", [True, False])
def test_what_a_survey_believes_does_not_widen_its_noise_without_bound(
    is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_long:  # negative control: the bound is one of long ways
        monkeypatch.setattr(reading, "LARGEST", 1000)
    search = searching(walk(0, 0.0, planar=True, steps=480)[0])
    search._shown = None  # no ladders tell the noise
    one = search.explanation(search.sequence.chain_poses)
    turned = one.poses.position @ np.diag([1.5, 1.0, 1.0])  # translations that miss by many σ, all called right
    wild = replace(one, poses=replace(one.poses, position=turned), fits=np.ones_like(one.fits))
    _, sigma_trans = search._shown_level(wild)
    assert bool(sigma_trans == 2.0 * search.sigma_trans) is is_long
    assert sigma_trans >= 2.0 * search.sigma_trans


@pytest.mark.parametrize("wrong_links", [0.0, 0.08])
def test_a_chain_with_wrong_links_is_not_asked_for_its_drift(
    wrong_links: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "LARGEST", 100)  # the rule is one of long ways
    made = tempose.simulate(
        150, shape="manhattan", planar=True, sigma_rot_deg=1.0, wrong_odometry=wrong_links, wrong_loops=0.3, seed=4
    )
    search = searching(made.graph)
    likeliest = search.survey([grow_from_chain(search.sequence).poses])
    found = fit(made.graph, made.truth)
    assert estimate._is_whole(likeliest, found, search, skeleton(made.graph)) == (wrong_links == 0.0)


@pytest.mark.parametrize("off", [0.0, 25.0])
def test_what_the_others_predict_is_drawn_in(off: float) -> None:
    """A way of forty noisy steps and an edge between its ends, which at the open way misses by more than a wrong one would."""
    rng, build = np.random.default_rng(0), tempose.GraphBuilder(planar=True)
    noise = {"sigma_rot_deg": 2.0, "sigma_trans": 0.1}
    for k in range(40):
        shift = [1.0 + 0.1 * rng.standard_normal(), 0.1 * rng.standard_normal()]
        build.add_edge(k, k + 1, angle=np.radians(2.0 * rng.standard_normal()), translation=shift, **noise)
    build.add_edge(0, 40, angle=0.0, translation=[40.0 + off, off], **noise)
    graph = build.build()
    own, links = np.full(graph.n_edges, np.nan), np.arange(graph.n_edges) < 40
    start = Sequence.of(graph)
    assert start is not None
    options = RobustOptions("given", inlier_probability=0.9, tail=np.inf, outlier_sigma=20.0)
    chosen = fit(graph, start.chain_poses, options)
    assert chosen.inlier_probability[40] < 0.01 and np.all(chosen.inlier_probability[:40] > 0.99)
    found = estimate._drawn_in(graph, chosen, options, own, links)
    if off:  # negative control: a wrong edge stays out
        assert found == []
        return
    (closed,) = found
    assert closed.inlier_probability[40] > 0.99
    assert closed.posterior.potential(closed.poses) < chosen.posterior.potential(chosen.poses) - 1.0
    assert closed.log_evidence > chosen.log_evidence
    assert estimate._drawn_in(graph, closed, options, own, links) == []
