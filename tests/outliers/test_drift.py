"""How much agreement with a chain says: less the more it drifts, and against both where it takes more than drift."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose.geometry import quaternion as quat
from tempose.outliers import Robust
from tempose.outliers.clusters import Clusters
from tempose.outliers.drift import PlaceTies, log_density, misses
from tempose.outliers.sequence import Sequence

SIGMA_DEG, SIGMA = 1.0, 0.05


def loops_of_a_walk(seed: int, planar: bool, noisy: bool = True) -> Sequence:
    """A walk through turns of one place after another, with loop closures of 1 to 30 steps."""
    rng = np.random.default_rng(seed)
    build = tempose.GraphBuilder(planar=planar)
    turns = np.random.default_rng(99).normal(0.0, 0.4, (31, 3))
    wxyz, position = [quat.IDENTITY], [np.zeros(3)]
    for k in range(30):
        turn = quat.exp(turns[k] * ([0.0, 0.0, 1.0] if planar else 1.0))
        position.append(position[-1] + quat.rotate(wxyz[-1], np.array([1.0, 0.2, 0.0])))
        wxyz.append(quat.multiply(wxyz[-1], turn))
    for a, b in [*((k, k + 1) for k in range(30)), (0, 30), (3, 30), (10, 25), (12, 14)]:
        q = quat.multiply(quat.conjugate(wxyz[a]), wxyz[b])
        t = quat.rotate(quat.conjugate(wxyz[a]), position[b] - position[a])
        error = np.radians(SIGMA_DEG) * rng.standard_normal(3) * noisy
        t = t + SIGMA * rng.standard_normal(3) * noisy
        if planar:
            angle = 2.0 * math.atan2(q[3], q[0]) + error[2]
            build.add_edge(a, b, angle=angle, translation=t[:2], sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA)
        else:
            wrong = quat.multiply(q, quat.exp(error))
            build.add_edge(a, b, wxyz=wrong, translation=t, sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA)
    found = Sequence.of(build.build())
    assert found is not None
    return found


@pytest.mark.parametrize("planar", [True, False])
def test_squared_misses_of_right_loops_are_those_of_their_numbers(planar: bool) -> None:
    draws = [misses(loops_of_a_walk(seed, planar), math.radians(SIGMA_DEG), SIGMA)[0][30:] for seed in range(100)]
    d = 3 if planar else 6
    squared, error = np.mean(draws, axis=0), math.sqrt(2.0 * d / 100)
    assert np.all(np.abs(squared - d) < 4.0 * error + 0.05 * d)  # to first order in the errors
    walk = loops_of_a_walk(0, planar)
    longer = misses(walk, math.radians(SIGMA_DEG), SIGMA)[1][30:]
    assert longer[0] > longer[2] > longer[3]  # by the links between
    alone = d * np.log(np.array([31.0, 28.0, 16.0, 3.0]))  # negative control: without what turns sweep
    assert np.all(longer[:3] > alone[:3] + 1.0)


@pytest.mark.parametrize("planar", [True, False])
def test_where_one_place_is_known_the_next_one_is_known_better(planar: bool) -> None:
    """Loop closures 0 → 30 and 3 → 30 are three links apart: by these, not by thirty, the second is known."""
    ratios, steps = [], []
    for seed in range(60):
        walk = loops_of_a_walk(seed, planar)
        clusters = Clusters.of(walk, walk.chain_poses, 1e-9, 1e-9)  # each by itself
        gain = np.full(walk.graph.n_edges, 20.0)
        ties = PlaceTies.of(clusters, gain, math.radians(SIGMA_DEG), SIGMA, False)
        first, second = (int(np.flatnonzero(ties.edge == k)[0]) for k in (30, 31))
        assert ties.by_other is not None
        ratios.append(ties.by_other[first, second] - ties.by_chain[second])
        v, near = ties.among(np.ones(len(ties.edge), dtype=bool), np.zeros(31, dtype=np.int64))
        assert v[second] >= ties.by_chain[second] and near.max() <= 6.0
        steps.append(int(ties.links[first, second]))
    assert set(steps) == {3} and np.mean(ratios) > (1.0 if planar else 3.0)
    broken = np.array([*[0] * 2, *[1] * 29])  # a link between them is given up: one says nothing of the other
    both = np.isin(ties.edge, (30, 31))
    apart, _ = ties.among(both, broken)
    assert np.array_equal(apart, ties.by_chain[both])


def test_what_is_said_by_others_counts_once() -> None:
    """Two places that say the same of each other: the first is known by the chain, only the second by the first."""
    raised = []
    for seed in range(20):
        walk = loops_of_a_walk(seed, False)
        clusters = Clusters.of(walk, walk.chain_poses, 1e-9, 1e-9)
        ties = PlaceTies.of(clusters, np.full(walk.graph.n_edges, 20.0), math.radians(SIGMA_DEG), SIGMA, False)
        here = np.isin(ties.edge, (30, 31))
        v, _ = ties.among(here, np.zeros(31, dtype=np.int64))
        raised.append(int(np.sum(v > ties.by_chain[here])))
    assert set(raised) <= {0, 1} and np.mean(raised) > 0.8


def test_across_a_break_the_second_place_is_known_by_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What contradicts a chain with a break in it contradicts nothing, and repeats what others across it say."""
    walk = loops_of_a_walk(0, False)
    clusters = Clusters.of(walk, walk.chain_poses, 1e-9, 1e-9)
    ties = PlaceTies.of(clusters, np.full(walk.graph.n_edges, 20.0), math.radians(SIGMA_DEG), SIGMA, False)
    first, second, other = (int(np.flatnonzero(ties.edge == k)[0]) for k in (30, 31, 32))  # 0 – 30, 3 – 30, 10 – 25
    cells = np.isin(ties.edge, (30, 31, 32))
    places, none = np.arange(clusters.count) == clusters.of_edge[30], np.zeros(clusters.count, dtype=bool)
    broken = np.array([0] * 20 + [1] * 11)
    assert ties.by_other is not None
    by_second = ties.by_other[second, other]
    assert by_second > 2.0 > ties.by_other[first, other]

    def across(segment: np.ndarray, told: np.ndarray = none) -> tuple[float, ...]:
        found = ties.across(cells, segment)
        assert found is not None
        said = ties.again(found, places, told)
        assert np.count_nonzero(said) == np.count_nonzero(said[clusters.of_edge[[31, 32]]])
        return tuple(said[clusters.of_edge[[31, 32]]].tolist())

    assert across(broken) == (0.0, by_second)  # 3 – 30 is next to 0 – 30, and would be the same mistake
    monkeypatch.setattr("tempose.outliers.drift.stretch", lambda _: 2)
    assert across(broken) == (ties.by_other[first, second], by_second)
    assert across(broken, np.arange(clusters.count) == clusters.of_edge[31]) == (0.0, by_second)  # counts elsewhere
    assert across(np.zeros(31, dtype=np.int64)) == (0.0, 0.0)  # no break
    assert across(np.array([0] * 2 + [1] * 18 + [2] * 11))[0] == 0.0  # from another part
    assert replace(ties, by_other=None).across(cells, broken) is None  # long ways


def test_bends_add_up_over_stretches_that_do_not_overlap() -> None:
    walk = loops_of_a_walk(0, True)
    clusters = Clusters.of(walk, walk.chain_poses, 1e-9, 1e-9)
    ties = PlaceTies.of(clusters, np.full(walk.graph.n_edges, 20.0), math.radians(SIGMA_DEG), SIGMA, False)
    v = np.empty(len(ties.edge))
    v[[int(np.flatnonzero(ties.edge == k)[0]) for k in (30, 31, 32, 33)]] = (-5.0, -7.0, -4.0, -6.0)
    bent = replace(ties, by_chain=v)
    every = np.ones(len(v), dtype=bool)
    assert bent.bends(every) == 7.0  # 0 to 30, 3 to 30 and 10 to 25 all lie across 12 to 14
    assert bent.bends(ties.edge >= 32) == 6.0
    assert ties.bends(every) == -np.minimum(ties.by_chain, 0.0).min()
    assert replace(bent, by_other=None).bends(every) == 0.0  # long ways


def test_a_chain_is_not_bent_to_reach_a_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links of 3° noise bent by 2σ each reach a place that is turned by 176° and five steps away: that is no drift."""
    made = tempose.simulate(
        45, shape="trajectory", sigma_rot_deg=3.0, aliases=2, wrong_loops=0.1, wrong_odometry=0.02, seed=26011
    )  # fmt: skip

    def verdicts() -> np.ndarray:
        found = tempose.solve(made.graph, robust=Robust(trust_odometry=0.99), noise="auto", draws=0, certify=False)
        assert found.verdicts is not None
        return found.verdicts.inlier_probability[made.alias >= 0]

    assert verdicts().max() < 0.5

    def as_before(clusters: Clusters, gain: np.ndarray, *_: object) -> PlaceTies:
        return PlaceTies.of(clusters, gain, 1.0, 1.0, True)  # whatever the chain drifts by

    monkeypatch.setattr(
        "tempose.outliers.reading.PlaceTies", type("Careless", (), {"of": staticmethod(as_before)})
    )  # the negative control
    assert verdicts().max() > 0.9


def test_a_loop_over_a_chain_that_drifts_far_says_little() -> None:
    walk = loops_of_a_walk(1, False, noisy=False)
    narrow, wide = (log_density(walk, math.radians(s), SIGMA)[30:] for s in (0.1, 10.0))
    assert np.all(wide[:3] < narrow[:3] - 5.0)
