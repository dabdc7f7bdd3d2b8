"""Explanations: what is repeated counts once, what is trusted is trusted, and scores are what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special

import tempose
from tempose.outliers import Robust
from tempose.outliers.beliefs import (
    HOPEFUL,
    LONELY,
    PLACES,
    REPEATS,
    WORRIED,
    Beliefs,
    Evidence,
    World,
    believing,
    log_score,
)
from tempose.outliers.chained import _given_up
from tempose.outliers.drift import Across, PlaceTies
from tempose.outliers.explanations import ExplanationSearch
from tempose.outliers.reading import Candidate, _confirmations, _core, _largest_energy
from tempose.outliers.search.skeleton import skeleton
from tempose.outliers.sequence import Sequence
from tempose.simulation.wrong import is_odometry


def a_loop_and_its_opposite(
    seen: int, right: int = 1, short: float = 0.0
) -> tuple[tempose.PoseGraph, list[tuple[int, int]]]:
    """A robot walks 40 steps along a square, twice round, and a look-alike says ``seen`` times that it is 3 units off.

    ``right`` true loop closures join the two rounds. Three edges over one step and its neighbours are off by ``short``, unless that
    is 0.
    """
    rng = np.random.default_rng(7)
    build = tempose.GraphBuilder(planar=True)
    sides, poses = 5, []
    x, y, heading = 0.0, 0.0, 0.0
    for k in range(2 * 4 * sides + 1):
        poses.append((x, y, heading))
        if k % sides == sides - 1:
            heading += math.pi / 2.0
        x, y = x + math.cos(heading), y + math.sin(heading)

    def relative(a: int, b: int, shift: float = 0.0) -> tuple[float, list[float]]:
        (xa, ya, ha), (xb, yb, hb) = poses[a], poses[b]
        dx, dy = xb + shift - xa, yb - ya
        noise = 0.01 * rng.standard_normal(3)
        t = [
            math.cos(ha) * dx + math.sin(ha) * dy + noise[0],
            -math.sin(ha) * dx + math.cos(ha) * dy + noise[1],
        ]
        return hb - ha + noise[2], t

    def add(a: int, b: int, shift: float = 0.0) -> None:
        angle, t = relative(a, b, shift)
        build.add_edge(a, b, angle=angle, translation=t, sigma_rot_deg=0.6, sigma_trans=0.01)

    for k in range(len(poses) - 1):
        add(k, k + 1)
    wrong = []
    for k in range(right):
        add(2 + 6 * k, 22 + 6 * k)
    for k in range(seen):
        a, b = 8 + k % 4, 28 + k // 4 % 4
        add(a, b, shift=3.0)
        wrong.append((a, b))
    for a, b in ((16, 18), (15, 17), (15, 18)) if short else ():
        add(a, b, shift=short)
    return build.build(), wrong


@pytest.mark.parametrize("seen", [1, 3, 12])  # of 4 noise sets one apart: two clusters, which confirm each other
def test_a_look_alike_counts_once_however_often_it_is_seen(seen: int) -> None:
    """Wherever things may look alike; that nothing does here is a third of what is possible, and says otherwise."""
    graph, _ = a_loop_and_its_opposite(seen)
    with believing(Beliefs(worlds=(HOPEFUL, WORRIED))):
        found = tempose.solve(graph, robust=Robust(trust_odometry=0.99), noise="given", draws=0)
    assert found.verdicts is not None
    p = found.verdicts.inlier_probability[-seen:]
    assert np.all(p < 0.2)
    links = found.verdicts.inlier_probability[: graph.n_nodes - 1]
    assert np.all(links > 0.9)


def test_taken_for_independent_a_look_alike_wins_by_number() -> None:
    """The negative control: twelve edges that agree outweigh any link, and the result is sure of it."""
    graph, _ = a_loop_and_its_opposite(12, right=0)
    sure = tempose.solve(graph, robust=Robust(repeats="independent"), noise="given", draws=0)
    careful = tempose.solve(graph, robust=Robust(), noise="given", draws=0)
    assert sure.verdicts is not None and careful.verdicts is not None
    assert np.all(sure.verdicts.inlier_probability[-12:] > 0.99)
    assert np.all(careful.verdicts.inlier_probability[-12:] < 0.6)
    assert sure.explanations == ()


def test_trust_is_monotonous() -> None:
    """The more links are trusted, the less probable what contradicts them."""
    graph, _ = a_loop_and_its_opposite(8, right=0)
    believed = []
    for trust in (0.5, 0.7, 0.9, 0.99, 0.9999):
        found = tempose.solve(graph, robust=Robust(trust_odometry=trust), noise="given", draws=0)
        assert found.verdicts is not None
        believed.append(float(found.verdicts.inlier_probability[-8:].mean()))
    assert all(later <= before + 1e-6 for before, later in zip(believed[:-1], believed[1:], strict=True))
    assert believed[0] > 2.0 * believed[-1]
    assert believed[-1] < 0.02


def test_the_share_of_right_clusters_is_integrated_out() -> None:
    graph, _ = a_loop_and_its_opposite(8, right=2)
    sequence = Sequence.of(graph)
    assert sequence is not None
    search = ExplanationSearch(sequence, np.full(graph.n_edges, np.nan), np.random.default_rng(0))
    one = search.explanation(sequence.chain_poses)
    role = np.where(one.believed, 3, 0)  # agree with the chain, or wrong
    a, b = search.beliefs.links
    links = special.betaln(a + sequence.is_link.sum(), b) - special.betaln(a, b)
    none = np.zeros(len(search.clues.own_links), dtype=bool)
    evidence = Evidence(role, none, np.zeros(0), np.zeros(0), 0)

    def score(worlds: tuple[World, ...]) -> float:
        return log_score(search.clues, evidence, replace(search.beliefs, worlds=worlds)) - links

    wanted = []
    for world in search.beliefs.worlds:
        total = math.exp(world.log_offered(int(np.sum(search.clusters.kind == 0)), graph.n_nodes))
        for k, (a, b) in enumerate(world.kinds):
            right, wrong = (int(np.sum((role == r) & (search.clusters.kind == k))) for r in (3, 0))
            of = integrate.quad(lambda x, a=a, b=b, n=right, m=wrong: x ** (a - 1 + n) * (1 - x) ** (b - 1 + m), 0, 1)
            total *= of[0] / special.beta(a, b)
        assert score((world,)) == pytest.approx(math.log(total), abs=2e-3)
        wanted.append(total)
    assert len(wanted) == 3 and max(wanted) / min(wanted) > 3.0  # so that it would show if one of them were left out
    assert score(search.beliefs.worlds) == pytest.approx(math.log(np.mean(wanted)), abs=2e-3)
    assert one.given_up.size == 0 and not one.unconfirmed.any()


def search_of(graph: tempose.PoseGraph, own: float = math.nan) -> ExplanationSearch:
    """A search at the stated noise that has seen nothing but the chain and what settles from it."""
    sequence = Sequence.of(graph)
    assert sequence is not None
    priors = np.where(sequence.is_link, own, np.nan)
    search = ExplanationSearch(sequence, priors, np.random.default_rng(0))
    search.set_level(*graph.median_sigmas)
    return search


def test_clusters_that_repeat_others_across_a_break_count_by_the_links_between() -> None:
    """Two lone ones, of which each agrees by a common cause, v = 1/50, or by chance, e⁻³: π integrated out by quadrature."""
    graph, _ = a_loop_and_its_opposite(8, right=2)
    search = search_of(graph)
    search.clues = replace(search.clues, kind=np.array([0, 0, 0]), own=np.full(3, np.nan))
    none = np.zeros(len(search.clues.own_links), dtype=bool)
    role = np.array([PLACES, REPEATS, REPEATS])
    evidence = Evidence(role, none, np.zeros(0), np.zeros(0), 0, again=np.array([9.0, 3.0, 3.0]))
    (a, b), alike = HOPEFUL.kinds[0], search.beliefs.alike
    beliefs = replace(search.beliefs, worlds=(HOPEFUL,))
    said = 1.0 / (alike + math.exp(-3.0))

    def gain(x: float) -> float:
        return (1.0 - x + x * said) ** 2

    wanted = [integrate.quad(lambda x, f=f: f(x) * x**a * (1 - x) ** (b - 1), 0, 1)[0] for f in (gain, lambda _: 1.0)]
    plain = log_score(search.clues, replace(evidence, again=None), beliefs)
    gained = log_score(search.clues, evidence, beliefs) - plain
    assert gained == pytest.approx(math.log(wanted[0] / wanted[1]), abs=2e-3) and gained > 2.0
    nothing = log_score(search.clues, replace(evidence, again=np.array([9.0, 0.0, -4.0])), beliefs)
    assert nothing == pytest.approx(
        plain
    )  # what only drift or nobody tells says nothing, and who places is not repeated
    sure = replace(search.clues, own=np.full(3, math.log(4.0)))  # known to be right with .8
    with_own = [log_score(sure, replace(evidence, again=one), beliefs) for one in (evidence.again, None)]
    assert with_own[0] - with_own[1] == pytest.approx(2.0 * math.log(0.2 + 0.8 * said))


def test_a_chain_is_not_bent_to_keep_what_lies_across_a_wrong_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong link, three look-alikes: clusters across the link counted once, those along a chain bent by 7σ one by one."""
    made = tempose.simulate(
        130, shape="manhattan", aliases=3, wrong_loops=0.1, wrong_odometry=0.01, seed=606
    )  # fmt: skip

    def solved() -> tuple[tempose.Solution, np.ndarray]:
        robust = Robust(trust_odometry=0.99)
        found = tempose.solve(made.graph, robust=robust, noise="auto", draws=0, certify=False, analyse=False)
        assert found.verdicts is not None
        return found, found.verdicts.inlier_probability

    one, p = solved()
    assert np.mean(p[~made.is_wrong] > 0.9) > 0.99
    assert one.explanations[0].given_up.tolist() == np.flatnonzero(is_odometry(made.graph) & made.is_wrong).tolist()
    monkeypatch.setattr(PlaceTies, "again", lambda ties, *_: np.zeros(ties.clusters.count))  # the negative control
    _, p = solved()
    assert np.sum(p[~made.is_wrong] < 0.01) > 5


def test_links_that_an_explanation_keeps_but_its_fit_rejects_are_given_up() -> None:
    graph, _ = a_loop_and_its_opposite(1)
    search = search_of(graph)
    one = search._consider(search.sequence.chain_poses)
    bones = skeleton(graph)
    fitted = np.ones(graph.n_edges)
    assert one.given_up.size == 0 and _given_up(one, fitted, bones, search).size == 0
    fitted[7], fitted[-1] = 0.2, 0.0  # a link, and a loop closure
    assert _given_up(one, fitted, bones, search).tolist() == [7]


def test_a_chain_that_is_bent_to_please_a_loop_pays_for_it() -> None:
    """Forty links, each off by three of its σ, take any loop in; only the sum shows that this is no chance."""
    graph, _ = a_loop_and_its_opposite(0)
    search = search_of(graph)
    straight = search.explanation(search.sequence.chain_poses)
    bent = search.sequence.chain_poses
    along = np.linspace(0.0, 1.0, len(bent))[:, None]
    bent = tempose.Poses(bent.ids, bent.wxyz, bent.position + along * [0.03 * len(bent), 0.0, 0.0])  # 3 σ a link
    pulled = search.explanation(bent)
    links = search.sequence.is_link
    assert pulled.given_up.size == straight.given_up.size == 0 and pulled.fits[links].all()
    assert pulled.evidence.misfit > straight.evidence.misfit + 20.0
    careless = replace(search.beliefs, misfit=0.0)  # the negative control: who only asks what fits does not notice
    scores = [log_score(search.clues, one.evidence, careless) for one in (straight, pulled)]
    assert np.array_equal(pulled.evidence.agreeing, straight.evidence.agreeing) and scores[0] == scores[1]


def test_poses_settle_on_trusted_links() -> None:
    """Three edges that are off by fifteen σ together bend a link that nobody trusts, or not more than 99:1; others stay."""
    graph, _ = a_loop_and_its_opposite(0, short=0.15)
    largest = []
    for own in (math.nan, 0.99, 0.999999):
        search = search_of(graph, own)
        settled = search._consider(search.sequence.chain_poses)
        largest.append(float(search.level.energies(settled.poses)[0][search.sequence.is_link].max()))
    assert largest[0] == largest[1] > 50.0 and largest[2] < 1.0


def test_a_trusted_link_is_bent_before_it_is_given_up() -> None:
    """The limit of what fits grows by the log odds, on the scale of the core; without trust it is what it is for any edge."""
    freedom = np.full(4, 3.0)
    limit = _largest_energy(freedom, np.array([np.nan, 0.3, 0.99, 0.999999]))
    assert limit[0] == limit[1] == pytest.approx(27.0)
    grown = _core(limit[2:], freedom[2:]) - _core(limit[:2], freedom[:2])
    assert grown == pytest.approx(np.log([99.0, 999999.0]))
    assert np.all(np.isfinite(limit)) and limit[3] > limit[2] > limit[0]


def test_a_break_may_lie_anywhere_between_the_places_that_loops_hold() -> None:
    """Whichever link is given up between two loop closures explains them equally well, and all of these count."""
    graph, _ = a_loop_and_its_opposite(8, right=0)
    search = search_of(graph, 0.6)
    wanted = search._try(search._weights(np.ones(search.clusters.count, dtype=bool), np.array([20])))
    assert wanted.given_up.tolist() == [20]
    before = len(search.found)
    search._shift_breaks(wanted)
    alone = [one for one in search.found.values() if one.given_up.size == 1 and one.believed.all()]
    assert len(search.found) > before
    assert {int(one.given_up[0]) for one in alone} >= set(range(12, 27))
    same = [one.log_score for one in alone if 12 <= one.given_up[0] < 27]
    assert np.ptp(same) < 1.0


@pytest.mark.parametrize("lost", [[40], [0, 1, 2]])
def test_a_part_that_nothing_holds_is_put_where_its_link_wants_it(lost: list[int]) -> None:
    """Settling cannot mend it: far away all edges of the part are beyond reach. In the end it is as if it had never been lost."""
    graph, _ = a_loop_and_its_opposite(0, right=3)
    search = search_of(graph, 0.9)
    whole = search._consider(search.sequence.chain_poses)
    search.found.clear()
    position = whole.poses.position.copy()
    position[lost] += [500.0, -300.0, 0.0]
    broken = search._consider(tempose.Poses(whole.poses.ids, whole.poses.wxyz, position))
    assert len(whole.given_up) == 0 and len(broken.given_up) == 1
    search._rejoin(broken)
    best = search._best(1)[0]
    assert len(best.given_up) == 0 and best.log_score > whole.log_score - 1.0
    assert np.abs(best.poses.position - whole.poses.position).max() < 0.3  # what one link was off by


def test_lone_loop_closures_that_are_wrong_speak_for_a_world_in_which_they_are() -> None:
    """And so against the others of their kind, and against clusters: more than by one prior that has seen as much."""
    beliefs, none = Beliefs(worlds=(HOPEFUL, WORRIED)), np.zeros((3, 2))
    hopeful, worried = (replace(beliefs, worlds=(one,)).shares() for one in (HOPEFUL, WORRIED))
    np.testing.assert_allclose(beliefs.shares(), 0.5 * (hopeful + worried))
    np.testing.assert_allclose(hopeful, [2 / 3, 3 / 4, 3 / 4, 9 / 9.5])
    wrong, right = none.copy(), none.copy()
    wrong[0, 1] = right[0, 0] = 4.0
    of_hopeful = (1 / 15) / (
        1 / 15 + 9 / 13
    )  # four wrong ones have the probability 1/15 in one world, 9/13 in the other
    expected = [of_hopeful * one + (1.0 - of_hopeful) * other for one, other in ((2 / 7, 1 / 14), (3 / 4, 1 / 3))]
    np.testing.assert_allclose(beliefs.shares(wrong)[:2], expected)
    assert beliefs.shares(right)[0] > 0.85
    alone = replace(beliefs, worlds=(HOPEFUL,)).shares(wrong)  # the negative control
    assert alone[0] > 0.25 and alone[1] == 0.75
    assert beliefs.shares(none, np.array([90.0, 0.5]))[3] == pytest.approx(99 / 100)


def test_candidates_can_be_weighed_again_by_other_beliefs() -> None:
    graph, _ = a_loop_and_its_opposite(8, right=2)
    search = search_of(graph, 0.6)
    usual = search.run([])
    again = search.candidates(search.beliefs)
    assert np.array_equal(again.probability, usual.probability) and again.prior == usual.prior
    assert [one.key for one in again.found] == [one.key for one in usual.found]
    worried = replace(search.beliefs, worlds=(World(((1.0, 99.0),) * 3),))
    believed = [
        found.inlier_probability()[~search.sequence.is_link].mean() for found in (usual, search.candidates(worried))
    ]
    assert believed[1] < believed[0]
    with believing(worried):
        assert search_of(graph).beliefs == worried
    assert search_of(graph).beliefs == Beliefs()


def test_confirmations() -> None:
    """Three segments: one pair joined twice, the third by a single cluster."""
    joins = {0: {(0, 1)}, 1: {(0, 1)}, 2: {(1, 2)}}
    _, confirming, alone = _three(joins, set())
    assert (confirming, alone) == ({1}, {2})
    _, confirming, alone = _three({**joins, 3: {(0, 2)}}, set())
    assert (confirming, alone) == ({1, 3}, set())
    _, confirming, alone = _three({**joins, 4: {(0, 1)}}, set())
    assert confirming == {1}  # how 0 and 1 lie is confirmed once


def test_clusters_next_to_each_other_do_not_confirm_each_other() -> None:
    """Clusters 0 and 1 are one group between segments 0 and 1; 4 says so from elsewhere."""
    joins = {0: {(0, 1)}, 1: {(1, 0)}, 2: {(1, 2)}, 4: {(0, 1)}}
    cluster, joined = np.array([0, 1, 1, 4]), np.array([[0, 1], [0, 1], [0, 1], [0, 1]])
    for one, wanted in (([0, 0, 0, 3], {4}), ([0, 1, 1, 3], {1}), ([0, 0, 0, 0], set())):
        across = Across(np.arange(4), joined, np.ones(4, dtype=np.int64), cluster, np.array(one))
        _, confirming, _ = _three(joins, set(), across)
        assert confirming == wanted


def test_who_places_segments_alone_is_who_leaves_them_apart() -> None:
    """Against a search of the parts by hand, on random joins of twelve segments."""
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        pairs = [tuple(sorted(rng.choice(12, 2, replace=False).tolist())) for _ in range(16)]
        joins = {c: {pairs[k] for k in rng.choice(16, rng.integers(1, 3))} for c in range(9)}
        placing, _, alone = _confirmations(12, set(), joins, np.zeros(9))
        for c in placing:
            part = np.arange(12)
            for other, ends in joins.items():
                for i, j in ends if other != c else ():
                    part[part == part[i]] = part[j]
            apart = any(part[i] != part[j] for i, j in joins[c])
            assert (c in alone) == apart
            seen.add(apart)
    assert seen == {True, False}


def _three(
    joins: dict[int, set[tuple[int, int]]], within: set[int], across: Across | None = None
) -> tuple[set[int], set[int], set[int]]:
    return _confirmations(3, within, joins, np.zeros(5), across)


def test_explanations_survive_files(tmp_path: Path) -> None:
    graph, _ = a_loop_and_its_opposite(8, right=0)
    home = tmp_path / "result"
    found = tempose.solve(graph, robust=Robust(trust_odometry=0.6), noise="given", draws=0)
    assert len(found.explanations) >= 2
    total = sum(one.probability for one in found.explanations)
    assert 0.8 < total <= 1.0  # the broken link may be any of twenty; a few explanations stand for all of them
    assert any(len(one.or_instead) for one in found.explanations)
    found.save(home)
    again = tempose.Solution.load(home)
    assert again.verdicts is not None and found.verdicts is not None
    np.testing.assert_allclose(again.verdicts.inlier_probability, found.verdicts.inlier_probability, rtol=1e-12)
    for a, b in zip(again.explanations, found.explanations, strict=True):
        assert a.probability == b.probability
        assert np.array_equal(a.poses.position, b.poses.position)
        assert np.array_equal(a.moved, b.moved) and np.array_equal(a.given_up, b.given_up)
        assert np.array_equal(a.or_instead, b.or_instead)
    assert (home / "poses.explanation-2.csv").exists()


def test_a_break_that_was_found_stands_for_those_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """All links of a stretch are tried, or one for each: the probabilities are the same."""
    graph, _ = a_loop_and_its_opposite(6, right=1)
    sequence = Sequence.of(graph)
    assert sequence is not None
    search = ExplanationSearch(sequence, np.full(graph.n_edges, np.nan), np.random.default_rng(0))
    search.run([])

    def of_classes() -> dict[object, float]:
        found, total = search.candidates(), dict[object, float]()
        for one, probability in zip(found.found, found.probability.tolist(), strict=True):
            what = search._breaks(one)[0]
            total[what] = total.get(what, 0.0) + probability
        return total

    every, tried = of_classes(), list(search.found.values())
    with monkeypatch.context() as counting:  # all were tried: nothing stands for anything else
        counting.setattr(search, "_standing_for", lambda found: np.ones(len(found)))
        counted = of_classes()
        assert max(abs(counted.get(what, 0.0) - probability) for what, probability in every.items()) < 0.02
    search.found = {}
    for one in sorted(tried, key=lambda one: -one.log_score):
        if all(search._breaks(one)[0] != search._breaks(other)[0] for other in search.found.values()):
            search._keep(one)
    assert len(search.found) < 0.5 * len(tried)
    likely = [what for what, probability in every.items() if probability > 0.05]
    assert len(likely) > 1
    few = of_classes()
    assert [few[what] for what in likely] == pytest.approx([every[what] for what in likely], abs=0.05)
    monkeypatch.setattr(search, "_standing_for", lambda found: np.ones(len(found)))  # negative control
    alone = of_classes()
    assert max(abs(alone.get(what, 0.0) - every[what]) for what in likely) > 0.15


def _best_with(graph: tempose.PoseGraph, trust: float, pools: list[list[bytes]]) -> Candidate:
    """The best explanation if links are trusted that much, and what was found before they were."""

    class Watched(ExplanationSearch):
        def _look_at(self, pool: list[tuple[np.ndarray, tempose.Poses]]) -> None:
            pools.append([poses.position.tobytes() for _, poses in pool])
            super()._look_at(pool)

    sequence = Sequence.of(graph)
    assert sequence is not None
    search = Watched(sequence, np.where(sequence.is_link, trust, np.nan), np.random.default_rng(0))
    return search.run([]).found[0]


def test_what_is_found_does_not_depend_on_how_much_links_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust only weighs what is found: with more of it no more links are given up."""
    graph, _ = a_loop_and_its_opposite(8, right=0)
    trusts = (0.6, 0.9, 0.99, 0.999999)
    pools: list[list[bytes]] = []
    given_up = [len(_best_with(graph, trust, pools).given_up) for trust in trusts]
    assert all(pool == pools[0] for pool in pools) and len(pools) == len(trusts) and len(pools[0]) > 5
    assert all(more >= less for more, less in zip(given_up[:-1], given_up[1:], strict=True))
    assert given_up[0] > given_up[-1]
    # the negative control: a search at the trust that is asked for finds other things
    monkeypatch.setattr(ExplanationSearch, "_rungs", lambda self: [0.0 + self.own])
    others: list[list[bytes]] = []
    for trust in trusts[::3]:
        _best_with(graph, trust, others)
    assert others[0] != others[1]


def test_only_links_that_are_trusted_alike_and_more_than_not_are_searched_with_other_trust() -> None:
    graph, _ = a_loop_and_its_opposite(4)
    for own, rungs in ((math.nan, 1), (0.3, 1), (0.99, 3), (1.0, 3)):
        search = search_of(graph, own)
        assert len(search._rungs()) == rungs and (rungs > 1 or search._rungs()[0] is search.own)
    search = search_of(graph, 0.99)
    different = ExplanationSearch(search.sequence, np.where(np.arange(graph.n_edges) == 3, 0.9, search.own), search.rng)
    assert len(different._rungs()) == 1


def test_poses_that_bend_trusted_links_settle_again() -> None:
    """What settled with less trust bends a link by fifteen σ: with more it is not taken as it is."""
    graph, _ = a_loop_and_its_opposite(0, short=0.15)
    loose = search_of(graph)
    bent = loose._consider(loose.sequence.chain_poses).poses
    largest = []
    for settled in (loose.settling(), search_of(graph, 0.999999).settling()):  # the latter: as if it were not bent
        search = search_of(graph, 0.999999)
        search._look_at([(settled, bent)])
        kept = [search.level.energies(one.poses)[0][search.sequence.is_link].max() for one in search.found.values()]
        largest.append(float(max(kept)))
    assert largest[0] < 1.0 < 50.0 < largest[1]


def twice_round(*closures: int, wrong: int = 31) -> tempose.PoseGraph:
    """Twice round a square of 20 steps, the link after node ``wrong`` wrong, with right loop closures k to k + 20."""
    rng = np.random.default_rng(3)
    build = tempose.GraphBuilder(planar=True)
    for k in range(40):
        turn = math.pi / 2.0 if k % 5 == 4 else 0.0
        noise = 0.01 * rng.standard_normal(3) + (2.0 if k == wrong else 0.0)
        forward = [math.cos(turn) + noise[0], math.sin(turn) + noise[1]]
        build.add_edge(k, k + 1, angle=turn + noise[2], translation=forward, sigma_rot_deg=0.6, sigma_trans=0.01)
    for k in closures:
        noise = 0.01 * rng.standard_normal(3)
        build.add_edge(k, k + 20, angle=noise[2], translation=noise[:2], sigma_rot_deg=0.6, sigma_trans=0.01)
    return build.build()


@pytest.mark.parametrize(("agreeing", "apart"), [(11, 1), (10, 2), (9, 3)])
def test_a_cluster_that_goes_on_where_another_ends_is_hardly_there_by_chance(agreeing: int, apart: int) -> None:
    """The evidence is the share of the pairs of nodes that are as near to the other one, counted by hand."""
    graph = twice_round(agreeing - 1, agreeing, 12, 13, 14)
    search = search_of(graph, 0.99)
    chain, broken = search._consider(search.sequence.chain_poses), search._try(_without(search, 31))
    assert not chain.evidence.chance and not chain.believed.all() and broken.believed.all()
    assert broken.given_up.tolist() == [31]
    ends = [(k, k + 20) for k in (agreeing - 1, agreeing)]
    pairs = [(i, j) for j in range(41) for i in range(j - 1)]
    near = [any(max(abs(i - a), abs(j - b)) <= apart for a, b in ends) for i, j in pairs]
    assert broken.evidence.chance == pytest.approx((np.mean(near),))
    without = replace(broken.evidence, chance=())
    gained = broken.log_score - log_score(search.clues, without, search.beliefs)
    assert gained == pytest.approx(-math.log(max(np.mean(near), search.beliefs.alike)))


def test_a_cluster_elsewhere_goes_on_nowhere() -> None:
    """The negative control: the same loop closures, across the same wrong link, with the agreeing ones further away."""
    beside, elsewhere = twice_round(10, 11, 12, 13, 14), twice_round(0, 1, 12, 13, 14)
    search = search_of(elsewhere, 0.99)
    assert not search._try(_without(search, 31)).evidence.chance
    stated = []
    for graph in (beside, elsewhere):
        with believing(Beliefs(worlds=(HOPEFUL, WORRIED))):
            found = tempose.solve(graph, robust=Robust(trust_odometry=0.99), noise="given", draws=0)
        assert found.verdicts is not None
        stated.append(float(found.verdicts.inlier_probability[-3:].mean()))
    assert stated[0] > 0.4 and stated[1] < 0.3


def _without(search: ExplanationSearch, link: int) -> np.ndarray:
    """Weights of a tree that believes all clusters and gives up a link."""
    return search._weights(np.ones(search.clusters.count, dtype=bool), np.array([link]))


def test_what_is_said_of_loop_closures_counts() -> None:
    """A look-alike seen three times against a chain: the less loop closures are said to be right, the less it is believed."""
    graph, _ = a_loop_and_its_opposite(3)
    believed = []
    for said in (0.9, 0.5, 0.1):
        robust = Robust(trust_odometry=0.9, inlier_probability=said)
        found = tempose.solve(graph, robust=robust, noise="given", draws=0)
        assert found.verdicts is not None
        believed.append(float(found.verdicts.inlier_probability[-3:].mean()))
    assert believed[0] > 1.5 * believed[1] > 1.5 * 1.5 * believed[2]
    assert Beliefs().expecting(None) == Beliefs().expecting(1.0) == Beliefs()
    np.testing.assert_allclose(Beliefs().expecting(0.3).shares()[:3], 0.3)


def test_where_only_lone_loop_closures_are_wrong_clusters_are_believed() -> None:
    """However many lone ones are wrong: what agrees with nothing is no sign of look-alikes."""
    seen = np.array([[0.0, 12.0], [3.0, 0.0], [2.0, 0.0]])
    without = Beliefs(worlds=(HOPEFUL, WORRIED))  # the negative control: many wrong lone ones make clusters doubtful
    assert np.all(Beliefs().shares(seen)[1:3] > 0.9) and np.all(without.shares(seen)[1:3] < 0.8)
    some_wrong = seen + np.array(
        [[0.0, 0.0], [0.0, 2.0], [0.0, 2.0]]
    )  # then something does look alike, and that world is out
    np.testing.assert_allclose(Beliefs().shares(some_wrong), without.shares(some_wrong), atol=0.01)
    assert replace(Beliefs(), worlds=(LONELY,)).shares()[0] == 0.5


def test_two_wrong_links_are_found_that_only_together_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty nodes, two wrong links and eleven wrong loop closures: what believes all clusters is a start that others miss."""
    made = tempose.simulate(60, shape="manhattan", planar=True, wrong_odometry=0.03, wrong_loops=0.3, seed=30004)
    monkeypatch.setattr("tempose.outliers.explanations._TREES", 0)  # no luck
    found = []
    for _ in range(2):
        search = search_of(made.graph)
        search.run([])
        found.append(search._best(1)[0])
        monkeypatch.setattr(ExplanationSearch, "_credulous", lambda _: [])  # the negative control
    wrong = search.sequence.is_link & made.is_wrong
    assert wrong.sum() == 2 and found[0].log_score > found[1].log_score + 3.0
    assert len(found[0].given_up) >= 2 > len(found[1].given_up)  # which links of a stretch nobody can know


def test_a_few_explanations_stand_for_breaks_anywhere_in_a_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they are as probable as all of them, and verdicts are those of all: no link is wrong for being named first."""
    graph, _ = a_loop_and_its_opposite(8, right=0)
    robust = Robust(trust_odometry=0.6)
    found = tempose.solve(graph, robust=robust, noise="given", draws=0)
    assert found.verdicts is not None and len(found.explanations) > 1
    assert sum(one.probability for one in found.explanations) > 0.9
    monkeypatch.setattr("tempose.outliers.chained._ENOUGH", 0.0)  # the negative control: each break is told by itself
    apart = tempose.solve(graph, robust=robust, noise="given", draws=0)
    assert apart.verdicts is not None and sum(one.probability for one in apart.explanations) < 0.6
    assert not any(len(one.or_instead) for one in apart.explanations)
    np.testing.assert_allclose(found.verdicts.inlier_probability, apart.verdicts.inlier_probability, atol=0.03)
    up = np.concatenate([one.given_up for one in found.explanations])
    assert np.all(found.verdicts.inlier_probability[up] > 0.5)  # each of twenty links may be the wrong one


def test_by_default_too_a_look_alike_counts_once() -> None:
    """That nothing looks alike here is possible, and then it is right; but twelve sightings say no more than five.

    (Noise sets one of three apart: two clusters, which confirm each other.)
    """
    stated = []
    for seen in (5, 12):
        graph, _ = a_loop_and_its_opposite(seen)
        found = tempose.solve(graph, robust=Robust(trust_odometry=0.99), noise="given", draws=0)
        assert found.verdicts is not None
        stated.append(float(found.verdicts.inlier_probability[-seen:].mean()))
    assert stated[1] == pytest.approx(stated[0], abs=0.02) and max(stated) < 0.25


def test_a_break_in_a_short_stretch_of_a_long_way_is_told() -> None:
    """Two nodes of many lie on one side of it or on the other: few, but the first line says so."""
    graph = twice_round(*range(0, 10), *range(13, 20), wrong=31)
    found = tempose.solve(graph, robust=True, noise="given", draws=0)
    assert len(found.explanations) >= 2 and found.is_contested and not found.headline.startswith("trust it:")
    assert sum(one.probability for one in found.explanations) > 0.9
