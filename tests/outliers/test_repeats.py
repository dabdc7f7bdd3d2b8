"""Large sequences: what repeats a mistake counts once, links have a share of their own, and correlated errors keep noise wide."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from helpers.walks import walk
from tempose import describe
from tempose.outliers import estimate
from tempose.outliers.clusters import Clusters
from tempose.outliers.em import fit
from tempose.outliers.explanations import ExplanationSearch
from tempose.outliers.noise import Parameters, RobustOptions
from tempose.outliers.repeats import Repeats, counted_once
from tempose.outliers.search.growing import grow_from_chain
from tempose.outliers.sequence import Sequence
from tempose.simulation import replace_loops, simulate


def _lookalikes(nodes: int = 60, seed: int = 1):
    made = simulate(nodes, shape="manhattan", planar=True, sigma_rot_deg=1.0, sigma_trans=0.05, seed=seed)
    bad = replace_loops(made.graph, made.truth, 0.4, "lookalikes", seed=seed, places=1)
    sequence = Sequence.of(bad.graph)
    assert sequence is not None
    return made, bad, Clusters.of(sequence, sequence.chain_poses, math.radians(1.0), 0.05)


def test_a_repeated_edge_is_as_uncertain_as_the_exact_gaussian_says():
    _, _, clusters = _lookalikes()
    sequence = clusters.sequence
    every = np.ones(sequence.graph.n_edges, dtype=bool)
    spread = Repeats.of(clusters, every).spread(every)
    first, second = sequence.rank[sequence.earlier], sequence.rank[sequence.later]
    checked = 0
    for members in clusters.members:
        order = members[np.lexsort((second[members], first[members]))]
        steps = np.abs(np.diff(first[order])) + np.abs(np.diff(second[order]))
        at = np.concatenate([[0.0], np.cumsum(steps)])
        # the first is seen with variance 1, and nothing is known before: the others relative to it
        covariance = np.minimum.outer(at, at) + np.eye(len(order)) + 1e9
        for k in range(1, len(order)):
            known = np.linalg.solve(covariance[:k, :k], covariance[:k, k])
            assert spread[order[k]] == pytest.approx(covariance[k, k] - covariance[:k, k] @ known, rel=1e-3)
            checked += 1
        assert math.isinf(spread[order[0]])
    assert checked > 10


def test_a_look_alike_seen_often_is_one_mistake():
    made, bad, clusters = _lookalikes()
    n = int(bad.is_wrong.sum())
    assert n > 5
    repeats = Repeats.of(clusters, np.ones(bad.graph.n_edges, dtype=bool))
    found = fit(bad.graph, made.truth, RobustOptions("given", outlier_sigma=5.0))
    assert np.all(found.inlier_probability[bad.is_wrong] < 0.01)
    once = counted_once(found, repeats)
    wrong_clusters = len(np.unique(repeats.label[bad.is_wrong]))
    a_mistake = float(np.mean(-found.likelihood.log_odds[bad.is_wrong]))
    regained = once.log_evidence - found.log_evidence
    assert 0.5 * (n - wrong_clusters) * a_mistake < regained < (n - wrong_clusters) * a_mistake
    # negative controls: no clusters; and a fit that keeps what is right has nothing to count
    assert counted_once(found, Repeats.none(bad.graph.n_edges)).log_evidence == found.log_evidence
    good = fit(made.graph, made.truth, RobustOptions("given", outlier_sigma=5.0))
    sequence = Sequence.of(made.graph)
    assert sequence is not None
    right = Clusters.of(sequence, sequence.chain_poses, math.radians(1.0), 0.05)
    assert counted_once(good, Repeats.of(right, np.ones(made.graph.n_edges, dtype=bool))).log_evidence == pytest.approx(
        good.log_evidence
    )


def test_edges_that_repeat_one_that_is_kept_repeat_no_mistake():
    """Of a cluster of four, three are rejected: the first of these is a mistake, whether the fourth comes before it or not."""
    made, bad, _ = _lookalikes()
    found = fit(bad.graph, made.truth, RobustOptions("given", outlier_sigma=5.0))
    wrong = np.flatnonzero(bad.is_wrong)
    kept = int(np.flatnonzero(found.inlier_probability > 0.99)[0])
    regained = {}
    for name, first in (("kept one first", 0), ("kept one last", 100)):
        repeats = Repeats.none(bad.graph.n_edges)
        edges = np.array([kept, *wrong[:3]])
        repeats.label[edges] = 0
        repeats.ends[edges] = [(first, first), (10, 40), (11, 41), (12, 42)]
        assert np.isfinite(repeats.spread(found.inlier_probability < 0.5)).sum() == 2
        regained[name] = counted_once(found, repeats).log_evidence - found.log_evidence
    assert regained["kept one first"] == regained["kept one last"] > 0.0
    # the first is seen with a variance of 1, and two steps away with as much: 1 + 2 + 1; then 3/4 + 2 + 1
    repeats = replace(repeats, label=np.where(np.arange(len(repeats.label)) == kept, -1, repeats.label))
    assert repeats.spread(found.inlier_probability < 0.5)[wrong[:3]] == pytest.approx([math.inf, 4.0, 3.75])
    # negative control: with as many kept as rejected, all are mistakes of their own
    repeats.label[np.flatnonzero(found.inlier_probability > 0.99)[:3]] = 0
    assert counted_once(found, repeats).log_evidence == found.log_evidence


def test_links_have_a_share_of_right_ones_of_their_own():
    made = simulate(80, shape="manhattan", planar=True, sigma_rot_deg=1.0, sigma_trans=0.05, wrong_loops=0.5, seed=3)
    graph = made.graph
    links = np.abs(graph.edge_i - graph.edge_j) == 1
    own, options = np.full(graph.n_edges, np.nan), RobustOptions("given", outlier_sigma=5.0)
    found = estimate._fit(graph, made.truth, options, own, links)
    n = int(links.sum())
    assert found.likelihood.prior[links] == pytest.approx((n + 9.0) / (n + 10.0), abs=1e-3)
    assert found.likelihood.prior[~links] == pytest.approx(0.5, abs=0.1)
    together = estimate._fit(graph, made.truth, options, own, np.zeros_like(links))  # negative control
    assert np.ptp(together.likelihood.prior) == 0.0
    assert together.likelihood.prior[0] > 0.6
    trusted = np.where(links, 0.95, np.nan)
    assert np.all(estimate._fit(graph, made.truth, options, trusted, links).likelihood.prior[links] == 0.95)


def test_wrong_links_lower_the_share_of_right_ones():
    made = simulate(80, shape="manhattan", planar=True, sigma_rot_deg=1.0, sigma_trans=0.05, wrong_odometry=0.1, seed=3)
    graph = made.graph
    links = np.abs(graph.edge_i - graph.edge_j) == 1
    own = np.full(graph.n_edges, np.nan)
    found = estimate._fit(graph, made.truth, RobustOptions("given", outlier_sigma=5.0), own, links)
    right = np.mean(~made.is_wrong[links])
    assert right < 0.93
    assert found.likelihood.prior[links][0] == pytest.approx(right, abs=0.03)


def _surveyed(memory: float):
    graph, _ = walk(0, memory, planar=True, steps=480)
    sequence = Sequence.of(graph)
    assert sequence is not None
    search = ExplanationSearch(sequence, np.full(graph.n_edges, np.nan), np.random.default_rng(0))
    return graph, sequence, search.survey([grow_from_chain(sequence).poses])


def test_correlated_errors_hold_the_noise_wide():
    graph, sequence, likeliest = _surveyed(0.97)
    least = estimate._least_scales(sequence, likeliest, np.random.default_rng(0))
    narrow = fit(graph, likeliest.poses)
    wide = fit(graph, likeliest.poses, RobustOptions(least_scales=least))
    p = wide.parameters
    assert (p.rotation_scale, p.translation_scale) == pytest.approx(least)
    assert p.rotation_scale > 1.5 * narrow.parameters.rotation_scale
    assert p.translation_scale > 1.5 * narrow.parameters.translation_scale
    (line,) = describe.widened_noise(p)
    assert line.startswith("errors of consecutive edges are correlated")
    assert Parameters.from_facts(p.facts()) == p
    _, sequence, likeliest = _surveyed(0.0)  # negative control
    assert estimate._least_scales(sequence, likeliest, np.random.default_rng(0)) == (0.0, 0.0)
    assert describe.widened_noise(narrow.parameters) == []


def test_noise_that_is_larger_than_the_least_is_estimated_as_ever():
    made = simulate(30, completeness=0.6, sigma_rot_deg=4.0, sigma_trans=0.1, seed=5)
    stated = replace(
        made.graph,
        concentration=4.0 * made.graph.concentration,
        translation_precision=4.0 * made.graph.translation_precision,
    )
    free = fit(stated, made.truth).parameters
    held = fit(stated, made.truth, RobustOptions(least_scales=(1.2, 1.2))).parameters
    assert held.rotation_scale == pytest.approx(free.rotation_scale)
    assert held.translation_scale == pytest.approx(free.translation_scale)
    assert free.rotation_scale == pytest.approx(2.0, rel=0.1)
