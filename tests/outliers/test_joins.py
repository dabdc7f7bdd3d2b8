"""Parts that single edges join although others contradict them: their probabilities, and that the first line tells."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tempose
from tempose.outliers.em import RobustFit, fit
from tempose.outliers.joins import _probabilities, contested_joins, likeliest_joins
from tempose.outliers.noise import RobustOptions
from tempose.outliers.search.skeleton import skeleton
from tempose.solution import Solution

ACCEPTED = 0.5


def two_squares() -> tempose.PoseGraph:
    """Nodes 0 to 3 and 4 to 7, each held by cycles; between them the edge 3 – 4, and 2 – 5 and 1 – 6, which say otherwise."""
    build = tempose.GraphBuilder(planar=True)
    for first in (0, 4):
        for a, b in ((0, 1), (1, 2), (2, 3), (0, 3), (0, 2)):
            build.add_edge(
                first + a, first + b, angle=0.0, translation=[b - a, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1
            )
    for a, b, t in ((3, 4, 1.0), (2, 5, 20.0), (1, 6, -30.0)):
        build.add_edge(a, b, angle=0.0, translation=[t, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)
    return build.build()


def test_probabilities_are_those_of_a_sum_over_all_sets_of_right_edges() -> None:
    graph, prior = two_squares(), np.full(13, 0.9)
    prior[-2:] = 0.6, 0.3
    accepted = np.arange(13) < 11
    (join,), together = contested_joins(graph, accepted, prior)
    assert together == pytest.approx(join.probability)
    assert (join.edge, join.rivals.tolist()) == (10, [11, 12])
    assert len(join.nodes) == 4
    weight = {}
    for right in itertools.product((True, False), repeat=3):
        if sum(right) <= 1:  # no two of them agree
            weight[right] = math.prod(p if one else 1.0 - p for p, one in zip(prior[-3:], right, strict=True))
    total = sum(weight.values())
    expected = [sum(w for right, w in weight.items() if right[k]) / total for k in range(3)]
    assert [join.probability, *join.rival_probability] == pytest.approx(expected)
    # control: an edge that nothing contradicts keeps its prior, and is not contested
    assert contested_joins(graph.with_edges(np.arange(13) < 11), accepted[:11], prior[:11]) == ((), 1.0)
    # nor is there anything to tell if a second edge confirms the first
    assert contested_joins(graph, np.arange(13) < 12, prior) == ((), 1.0)


def test_the_edge_that_is_trusted_most_joins_two_sides() -> None:
    """Whichever edge a fit began with: all of them fit exactly, so that it stays there."""
    graph, prior = two_squares(), np.full(13, 0.9)
    prior[-3:] = 0.99, 0.3, 0.3
    bones = skeleton(graph)
    options = RobustOptions("given", 0.9, math.inf, 10.0)

    def refit(poses: tempose.Poses) -> RobustFit:
        return fit(graph, poses, options, own_probability=prior)

    for edge, shift in ((10, 0.0), (11, 20.0 - 3.0), (12, -30.0 - 5.0)):
        position = np.zeros((8, 3))
        position[:, 0] = np.arange(8.0)
        position[4:, 0] += shift
        begun = refit(tempose.Poses(graph.node_ids, np.tile([1.0, 0.0, 0.0, 0.0], (8, 1)), position))
        assert np.flatnonzero(begun.inlier_probability[-3:] > ACCEPTED).tolist() == [edge - 10]
        found, weighing = likeliest_joins(begun, bones, refit)
        assert np.flatnonzero(found.inlier_probability[-3:] > ACCEPTED).tolist() == [0]
        assert weighing is not None
        assert weighing.explanations[0].probability == max(one.probability for one in weighing.explanations) > 0.9


def test_sides_are_seen_from_the_largest_part_that_is_confirmed() -> None:
    """Four nodes that cycles hold, and eight in a row that hang on them: these are loose, although they are more."""
    build = tempose.GraphBuilder(planar=True)
    for a, b in ((0, 1), (1, 2), (2, 3), (0, 3), *((k, k + 1) for k in range(3, 11)), (0, 11)):
        build.add_edge(a, b, angle=0.0, translation=[b - a, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)
    joins, _ = contested_joins(build.build(), np.arange(13) < 12, np.full(13, 0.9))
    assert [one.nodes.tolist() for one in joins] == [list(range(k, 12)) for k in range(4, 12)]


def a_square_and_a_tail(*rivals: tuple[int, int]) -> tempose.PoseGraph:
    """Nodes 0 to 3, which cycles hold, eleven in a row behind them, and edges that say otherwise."""
    build = tempose.GraphBuilder(planar=True)
    for a, b in ((0, 1), (1, 2), (2, 3), (0, 3), *((k, k + 1) for k in range(3, 14))):
        build.add_edge(a, b, angle=0.0, translation=[b - a, 0.0], sigma_rot_deg=1.0, sigma_trans=0.1)
    for a, b in rivals:
        build.add_edge(a, b, angle=0.0, translation=[30.0, 7.0 * a], sigma_rot_deg=1.0, sigma_trans=0.1)
    return build.build()


@pytest.mark.parametrize("rivals", [((1, 14),), ((1, 8), (2, 14)), ((1, 5), (0, 9), (7, 14))])
def test_of_a_way_that_is_contradicted_one_link_is_wrong_and_nobody_knows_which(rivals) -> None:
    """Beside the sum over all sets of right edges in which every rival that is right has a wrong link of its own on its way."""
    graph, tail = a_square_and_a_tail(*rivals), 11
    prior = np.full(graph.n_edges, 0.99)
    prior[-len(rivals) :] = np.linspace(0.9, 0.8, len(rivals))
    joins, together = contested_joins(graph, np.arange(graph.n_edges) < 15, prior)
    ways = [[k for k in range(tail) if max(a, 3) <= 3 + k < b] for a, b in rivals]
    p, total, right, all_right = prior[4:], 0.0, np.zeros(tail + len(rivals)), 0.0
    contested = sorted({k for way in ways for k in way})
    for wrong in itertools.chain.from_iterable(itertools.combinations(contested, n) for n in range(5)):
        for chosen in itertools.product((True, False), repeat=len(rivals)):
            needs = [way for way, one in zip(ways, chosen, strict=True) if one]
            if not any(
                len(set(taken)) == len(needs) and all(k in way for k, way in zip(taken, needs, strict=True))
                for taken in itertools.permutations(wrong, len(needs))
            ):
                continue
            state = np.array([k not in wrong for k in range(tail)] + list(chosen))
            weight = float(np.prod(np.where(state, p, 1.0 - p)))
            total, right = total + weight, right + weight * state
            all_right += weight * (not wrong)
    found = np.array([one.probability for one in sorted(joins, key=lambda one: one.edge)])
    assert found == pytest.approx(right[contested] / total, abs=0.01)
    assert together == pytest.approx(all_right / total, abs=0.03)
    odds = prior / (1.0 - prior)
    apart = [odds[one.edge] / (1.0 + odds[one.edge] + odds[one.rivals].sum()) for one in joins]
    assert min(apart) < min(found) - 0.01  # the negative control: each link by itself against its rivals
    of_rivals = {int(r): float(q) for one in joins for r, q in zip(one.rivals, one.rival_probability, strict=True)}
    assert [of_rivals[15 + k] for k in range(len(rivals))] == pytest.approx(right[tail:] / total, abs=0.03)


def test_many_rivals_of_one_bridge_and_many_bridges_of_one_rival_are_exact() -> None:
    """However many: a sum over matchings one by one would have to stop somewhere."""
    w, many = np.array([9.0]), np.linspace(0.5, 2.0, 40)
    right, of_rivals, together = _probabilities(w, many, np.ones((40, 1), dtype=bool))
    assert right == pytest.approx(9.0 / (10.0 + many.sum())) and together == pytest.approx(right[0])
    assert of_rivals == pytest.approx(many / (10.0 + many.sum()))
    right, of_rivals, together = _probabilities(many, w, np.ones((1, 40), dtype=bool))
    alone = 1.0 / (1.0 + many)
    total = 1.0 + 9.0 * alone.sum()
    assert right == pytest.approx((1.0 - 9.0 * alone / total) * (1.0 - alone))
    assert of_rivals == pytest.approx(1.0 - 1.0 / total) and together == pytest.approx(np.prod(1.0 - alone) / total)


def test_a_part_is_not_left_with_a_wrong_edge_for_there_being_many_links() -> None:
    """A fit that holds the end of a chain by a wrong edge and gives up a trusted link: every other was even with that one."""
    graph = a_square_and_a_tail((1, 14))
    prior, options, bones = np.full(16, 0.99), RobustOptions("given", 0.9, math.inf, 10.0), skeleton(graph)
    prior[-1] = 0.8

    def refit(poses: tempose.Poses) -> RobustFit:
        return fit(graph, poses, options, own_probability=prior)

    position = np.zeros((15, 3))
    position[:, 0] = np.arange(15.0)
    position[8:, :2] += np.array([30.0 + 1.0, 7.0]) - position[14, :2]
    begun = refit(tempose.Poses(graph.node_ids, np.tile([1.0, 0.0, 0.0, 0.0], (15, 1)), position))
    assert np.flatnonzero(begun.inlier_probability < ACCEPTED).tolist() == [8]  # the link 7 – 8
    found, weighing = likeliest_joins(begun, bones, refit)
    assert np.flatnonzero(found.inlier_probability < ACCEPTED).tolist() == [15]
    assert weighing is not None and weighing.explanations[0].probability > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("planar", [True, False])
def test_wrong_links_are_found_and_what_hangs_on_single_edges_is_told(planar: bool, tmp_path) -> None:
    """Before there were ears and joins, such a world was 80° off, its first line "solved"."""
    made = tempose.simulate(450, shape="manhattan", planar=planar, wrong_odometry=0.05, wrong_loops=0.05, seed=31)
    solution = tempose.solve(made.graph, robust=True, noise="auto", draws=0, certify=False)
    assert solution.verdicts is not None and solution.parameters is not None and solution.weighing is not None
    assert solution.parameters.rotation_scale == pytest.approx(1.0, abs=0.15)
    assert solution.parameters.translation_scale == pytest.approx(1.0, abs=0.15)
    p = solution.verdicts.inlier_probability
    assert np.mean(~made.is_wrong[p > 0.9]) > 0.98
    assert np.mean(p[~made.is_wrong] > 0.5) > 0.9
    assert solution.is_contested
    assert "hang on single edges that others contradict" in solution.headline
    assert solution.summary().startswith(solution.headline)
    again = Solution.load(solution.save(tmp_path))
    assert again.headline == solution.headline


@pytest.mark.slow
def test_where_all_links_are_right_the_first_line_is_as_usual() -> None:
    made = tempose.simulate(450, shape="manhattan", planar=True, sigma_rot_deg=1.0, wrong_loops=0.1, seed=31)
    solution = tempose.solve(made.graph, robust=True, noise="auto", draws=0, certify=False)
    assert not solution.is_contested
    assert "hang on single edges" not in solution.headline
    assert np.all((solution.verdicts.inlier_probability > ACCEPTED) == ~made.is_wrong)
