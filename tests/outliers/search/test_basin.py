"""Finding the basin among wrong edges: triangles, growing, joining, votes; what is identified and what competes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose import describe
from tempose.analysis.accuracy import pose_errors
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.optimum.relaxations import chordal_rotations, with_positions
from tempose.outliers import estimate as model
from tempose.outliers.em import RobustOptions, fit
from tempose.outliers.estimate import odometry_hints, own_probabilities, solve_robust
from tempose.outliers.loose_parts import loose_parts
from tempose.outliers.search import votes
from tempose.outliers.search.basin import averaged, find_basins
from tempose.outliers.search.triangles import HalfEdges, cycle_facts, supported_tree, triangles
from tempose.outliers.search.votes import Narrow
from tempose.simulation import Simulated, simulate


def spoil(made: Simulated, share: float, seed: int) -> tuple[PoseGraph, np.ndarray]:
    """Random motions in place of a share of the measurements."""
    graph, rng = made.graph, np.random.default_rng(seed)
    wrong = np.zeros(graph.n_edges, dtype=bool)
    wrong[rng.permutation(graph.n_edges)[: round(share * graph.n_edges)]] = True
    wxyz = np.where(wrong[:, None], quat.random_uniform(rng, graph.n_edges), graph.j_from_i_wxyz)
    t = np.where(wrong[:, None], np.sqrt(2.0) * rng.standard_normal((graph.n_edges, 3)), graph.j_from_i_t)
    return replace(graph, j_from_i_wxyz=wxyz, j_from_i_t=t), wrong


def rotations_only(graph: PoseGraph) -> PoseGraph:
    return replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan))


@pytest.fixture(scope="module")
def made() -> Simulated:
    return simulate(30, completeness=0.6, seed=3)


# ---------------------------------------------------------------------- triangles


def plain_triangles(graph: PoseGraph) -> list[tuple[tuple[int, int, int], float, float]]:
    """Edges, closing angle and closing translation of all triangles, by the geometry module."""
    between: dict[tuple[int, int], list[int]] = {}
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        between.setdefault((min(i, j), max(i, j)), []).append(k)
    found = []
    for a, b, c in itertools.combinations(range(graph.n_nodes), 3):
        for edges in itertools.product(between.get((a, b), []), between.get((b, c), []), between.get((a, c), [])):
            steps = [
                graph.measured(np.array([s]), np.array([t]), np.array([k]))
                for s, t, k in zip((a, b, a), (b, c, c), edges, strict=True)
            ]
            wxyz, t = se3.compose(steps[1], steps[0])
            angle = quat.angle_between(wxyz, steps[2][0])[0]
            found.append((edges, float(angle), float(np.linalg.norm(t - steps[2][1]))))
    return found


def test_triangles_are_those_of_the_definition() -> None:
    graph, _ = spoil(simulate(9, completeness=0.7, seed=1), 0.3, 2)
    twice = [0, 1]  # parallel edges, one of them turned round
    wxyz, t = se3.inverse((graph.j_from_i_wxyz[twice], graph.j_from_i_t[twice]))
    graph = PoseGraph(
        graph.node_ids,
        np.concatenate([graph.edge_i, graph.edge_j[twice]]),
        np.concatenate([graph.edge_j, graph.edge_i[twice]]),
        np.concatenate([graph.j_from_i_wxyz, wxyz]),
        np.concatenate([graph.j_from_i_t, t]),
        graph.concentration[0],
        graph.translation_precision[0],
    )
    found = triangles(graph)
    plain = plain_triangles(graph)
    assert found.n_triangles == len(plain)
    count = np.zeros(graph.n_edges, dtype=int)
    closed = np.zeros(graph.n_edges, dtype=int)
    best: list[dict[int, float]] = [{} for _ in range(graph.n_edges)]
    for edges, angle, shift in plain:
        d2 = (2.0 * np.sin(angle / 2.0)) ** 2 / (3.0 * found.sigma_rot**2) + shift**2 / (3.0 * found.sigma_trans**2)
        nodes = set(graph.edge_i[list(edges)].tolist()) | set(graph.edge_j[list(edges)].tolist())
        for k in edges:
            (apex,) = nodes - {int(graph.edge_i[k]), int(graph.edge_j[k])}
            best[k][apex] = min(best[k].get(apex, np.inf), float(np.sqrt(d2)))
            count[k] += 1
            closed[k] += d2 < 9.0 * 6.0
    np.testing.assert_array_equal(found.count, count)
    np.testing.assert_array_equal(found.closed, closed)
    for k, by_apex in enumerate(best):
        want = sorted(by_apex.values())[:3]
        np.testing.assert_allclose(found.distance[k, : len(want)], want, rtol=1e-9)
        assert np.all(np.isinf(found.distance[k, len(want) :]))


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("sigma_deg", [0.1, 3.0])
def test_triangles_show_the_noise_level(share: float, sigma_deg: float) -> None:
    graph, _ = spoil(simulate(40, completeness=0.6, sigma_rot_deg=sigma_deg, sigma_trans=0.02, seed=4), share, 5)
    found = triangles(graph)
    assert found.measured
    assert 0.5 * sigma_deg < np.degrees(found.sigma_rot) < 3.0 * sigma_deg
    assert 0.5 * 0.02 < found.sigma_trans < 4.0 * 0.02


def test_right_edges_are_supported_and_make_the_tree(made: Simulated) -> None:
    graph, wrong = spoil(made, 0.4, 1)
    found = triangles(graph)
    assert np.median(found.support[~wrong]) > 5.0 * np.median(found.support[wrong])
    tree = supported_tree(graph, found)
    assert not np.any(wrong[tree.edge[tree.edge >= 0]])
    plain = graph.spanning_tree()  # negative control: nothing but support tells them apart
    assert np.any(wrong[plain.edge[plain.edge >= 0]])
    facts = cycle_facts(graph)
    names = {f"{i} → {j}" for i, j in zip(graph.edge_i[wrong], graph.edge_j[wrong], strict=True)}
    assert facts["n_edges_that_break_triangles"] > 0.6 * wrong.sum()
    assert all(line.split(" (")[0] in names for line in facts["edges_that_break_triangles"])


# ---------------------------------------------------------------------- growing, joining, votes, settling


def narrow_of(graph: PoseGraph, prior: np.ndarray | None = None) -> tuple[Narrow, np.ndarray]:
    halves, found = HalfEdges.of(graph), triangles(graph)
    return Narrow.of(graph, halves, found.sigma_rot, found.sigma_trans, prior), found.support


def test_energies_are_those_of_the_residuals(made: Simulated) -> None:
    narrow, _ = narrow_of(made.graph)
    rng = np.random.default_rng(0)
    poses = Poses(made.graph.node_ids, quat.random_uniform(rng, 30), rng.standard_normal((30, 3)))
    energy, error, shift = narrow.energies(poses)
    left = residuals(made.graph, poses)
    want = narrow.rot * 4.0 * np.sum(left.nu**2, axis=1) + narrow.trans * np.sum(left.translation**2, axis=1)
    np.testing.assert_allclose(energy, want, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(error, axis=1), left.angle, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(shift, axis=1), np.linalg.norm(left.translation, axis=1), rtol=1e-9)


@pytest.mark.parametrize("start", ["grow", "merge"])
@pytest.mark.parametrize("translations", [True, False])
def test_starts_are_exact_without_noise(start: str, translations: bool) -> None:
    made = simulate(25, completeness=0.6, sigma_rot_deg=0.0, sigma_trans=0.0, seed=2)
    graph, _ = spoil(made, 0.5 if translations else 0.3, 7)
    graph = graph if translations else rotations_only(graph)
    halves = HalfEdges.of(graph)
    narrow = Narrow.of(graph, halves, 1e-3, 1e-3)
    support = triangles(graph, halves).support
    poses = votes.grow(narrow, support, np.arange(25)) if start == "grow" else votes.merge(narrow, support)
    errors = pose_errors(poses, made.truth)
    assert errors.max_rotation_deg < 1e-2
    if translations:
        assert errors.max_translation < 1e-3


def test_settling_leaves_a_stationary_point(made: Simulated) -> None:
    """Of rotations; with translations they are left where the rotations measured want them, and positions follow."""
    graph = rotations_only(spoil(made, 0.3, 1)[0])
    narrow, _ = narrow_of(graph)
    poses, loss, converged = votes.settle(narrow, made.truth, iterations=300, tolerance=1e-9)
    assert converged
    rng = np.random.default_rng(1)
    for _ in range(5):  # no direction goes down
        turn = 1e-3 * rng.standard_normal((30, 3))
        for sign in (1.0, -1.0):
            other = Poses(poses.ids, quat.multiply(quat.exp(sign * turn), poses.wxyz), poses.position)
            assert narrow.loss(narrow.weights(other)) > loss


def test_votes_bring_back_a_lost_node(made: Simulated) -> None:
    graph, _ = spoil(made, 0.3, 1)
    narrow, _ = narrow_of(graph)
    wxyz, position = made.truth.wxyz.copy(), made.truth.position.copy()
    wxyz[7], position[7] = quat.random_uniform(np.random.default_rng(0)), position[7] + 3.0
    moved, count = votes.vote(narrow, Poses(made.truth.ids, wxyz, position))
    assert count >= 1
    assert np.degrees(quat.angle_between(moved.wxyz[7], made.truth.wxyz[7])) < 8.0
    assert np.linalg.norm(moved.position[7] - made.truth.position[7]) < 0.2
    settled = votes.settle(narrow, made.truth).poses
    _, none = votes.vote(narrow, settled)  # all are where they belong
    assert none == 0


# ---------------------------------------------------------------------- basins


@pytest.mark.parametrize("share", [0.0, 0.5, 0.7])
def test_the_basin_is_the_right_one_without_any_noise_level(share: float) -> None:
    made = simulate(50, completeness=0.5, seed=11)
    graph, wrong = spoil(made, share, 12)
    lying = replace(
        graph, concentration=graph.concentration * 1e4, translation_precision=graph.translation_precision * 1e-3
    )  # never used
    oracle = tempose.solve(graph.with_edges(~wrong), draws=0, certify=False).estimate
    best = pose_errors(oracle, made.truth).mean_rotation_deg
    found = find_basins(lying).best
    assert pose_errors(found.poses, made.truth, robust=True).mean_rotation_deg < 2.0 * best
    if share:
        assert np.mean(found.weights[~wrong]) > 5.0 * np.mean(found.weights[wrong])
    fitted = solve_robust(lying, RobustOptions(), np.full(graph.n_edges, np.nan), np.random.default_rng(0)).fit
    assert pose_errors(fitted.poses, made.truth, robust=True).mean_rotation_deg < 1.05 * best


def test_rotations_alone_are_averaged() -> None:
    made = simulate(40, completeness=0.6, sigma_rot_deg=1.0, seed=5)
    graph, _ = spoil(made, 0.4, 6)
    found, _ = averaged(rotations_only(graph))
    assert pose_errors(found.poses, made.truth, robust=True).mean_rotation_deg < 1.0


def test_a_chain_with_long_cycles_has_no_triangles_and_is_solved() -> None:
    made = simulate(64, shape="torus", completeness=0.9, sigma_rot_deg=0.5, sigma_trans=0.02, seed=2)
    graph = made.graph
    assert cycle_facts(graph)["n_triangles"] == counted(graph) == 0
    search = find_basins(graph)
    assert search.triangles.n_triangles == 0
    best = pose_errors(tempose.solve(graph, draws=0, certify=False).estimate, made.truth).mean_rotation_deg
    assert pose_errors(search.best.poses, made.truth).mean_rotation_deg < 2.0 * best


def counted(graph: PoseGraph) -> int:
    """Triangles of nodes, by the cube of the adjacency matrix."""
    adjacent = np.zeros((graph.n_nodes, graph.n_nodes), dtype=np.int64)
    adjacent[graph.edge_i, graph.edge_j] = adjacent[graph.edge_j, graph.edge_i] = 1
    return int(np.trace(np.linalg.matrix_power(adjacent, 3))) // 6


def test_triangles_are_counted() -> None:
    graph = simulate(12, completeness=0.6, seed=3).graph
    assert cycle_facts(graph)["n_triangles"] == counted(graph) > 20


# ---------------------------------------------------------------------- what is identified, what competes


def two_groups(n: int = 8, seed: int = 0) -> tuple[Simulated, np.ndarray]:
    """Two complete groups of n nodes, and which node is in the second."""
    made = simulate(2 * n, completeness=1.0, sigma_rot_deg=1.0, sigma_trans=0.01, seed=seed)
    return made, np.arange(2 * n) >= n


def test_parts_held_by_one_accepted_edge_are_named() -> None:
    made, second = two_groups()
    graph = made.graph
    across = second[graph.edge_i] != second[graph.edge_j]
    probability = np.ones(graph.n_edges)
    probability[np.flatnonzero(across)[1:]] = 0.0
    (part,) = loose_parts(graph, probability)
    assert len(part.nodes) == 8
    assert part.edge == np.flatnonzero(across)[0]
    assert "on the edge" in describe.loose_parts(graph, (part,))[0]
    probability[across] = 0.0
    (part,) = loose_parts(graph, probability)
    assert part.edge == -1
    assert "not identified" in describe.loose_parts(graph, (part,))[0]
    assert loose_parts(graph, np.ones(graph.n_edges)) == ()


def test_a_node_beyond_a_loose_node_belongs_to_the_same_part() -> None:
    made = simulate(8, completeness=1.0, seed=0)
    graph = made.graph
    low, high = np.minimum(graph.edge_i, graph.edge_j), np.maximum(graph.edge_i, graph.edge_j)
    keep = (high < 6) | ((low == 5) & (high == 6)) | ((low == 6) & (high == 7))
    (part,) = loose_parts(graph, keep.astype(float))
    assert part.nodes.tolist() == [6, 7]


def test_competing_solutions_are_reported_and_trust_decides() -> None:
    """Half of the edges between two groups agree on a wrong motion of the second one."""
    made, second = two_groups(seed=3)
    q, t = made.truth.node_from_world
    turn = (quat.exp([0.0, 0.0, np.pi / 2.0]), np.array([1.0, 2.0, 0.0]))
    world_from_node = se3.compose(turn, se3.inverse((q[second], t[second])))
    false_q, false_t = q.copy(), t.copy()
    false_q[second], false_t[second] = se3.inverse(world_from_node)
    graph = made.graph
    i, j = graph.edge_i, graph.edge_j
    across = np.flatnonzero(second[i] != second[j])
    consecutive = np.abs(i - j) == 1
    rng = np.random.default_rng(0)
    lying = rng.permutation(across[~consecutive[across]])[:33]
    wxyz, shift = graph.j_from_i_wxyz.copy(), graph.j_from_i_t.copy()
    wxyz[lying], shift[lying] = se3.compose(
        (false_q[j[lying]], false_t[j[lying]]), se3.inverse((false_q[i[lying]], false_t[i[lying]]))
    )
    shift[lying] += 0.01 * rng.standard_normal((len(lying), 3))
    wxyz[lying] = quat.multiply(quat.exp(np.radians(1.0) * rng.standard_normal((len(lying), 3))), wxyz[lying])
    graph = replace(graph, j_from_i_wxyz=quat.normalize(wxyz), j_from_i_t=shift)
    false = Poses(made.truth.ids, quat.conjugate(false_q), -quat.rotate(quat.conjugate(false_q), false_t))
    right, wrong = fit(graph, made.truth), fit(graph, false)
    assert wrong.log_evidence > right.log_evidence  # 33 edges outvote 31
    (rival,) = model._competitors(wrong, [right, wrong])
    assert rival.moved.tolist() in (np.flatnonzero(second).tolist(), np.flatnonzero(~second).tolist())
    assert (rival.kept, rival.kept_by_chosen) == (56 + 31, 56 + 33)
    assert rival.log_odds == pytest.approx(wrong.log_evidence - right.log_evidence)
    assert "keeps 87 edges where the one reported keeps 89" in describe.competitor(rival)
    own = np.full(graph.n_edges, np.nan)
    assert model._trusting([right, wrong], own) == [right, wrong]
    own[np.setdiff1d(across, lying)[:6]] = 0.99
    assert model._trusting([right, wrong], own) == [right]


def test_a_fit_that_only_rejects_more_does_not_compete(made: Simulated) -> None:
    found = fit(made.graph, made.truth)
    elsewhere = found.poses.position.copy()
    elsewhere[np.argmin(made.graph.degree)] += 5.0  # all edges of one node contradict it there, and are rejected
    poses = Poses(found.poses.ids, found.poses.wxyz, elsewhere)
    other = replace(found, poses=poses, log_evidence=found.log_evidence - 10.0)
    kept = [int(np.sum(one.inlier_probability > 0.5)) for one in (found, other)]
    assert 0.95 * kept[0] <= kept[1] < 0.98 * kept[0]
    assert model._competitors(found, [found, other]) == ()
    assert len(model._competitors(other, [found, other])) == 1  # the other way round it is one, and the better


def test_a_fit_that_takes_all_noise_for_wide_does_not_compete(made: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, wrong = spoil(made, 0.75, 1)
    blurred = replace(
        graph, concentration=graph.concentration / 300.0, translation_precision=graph.translation_precision / 300.0
    )
    start = with_positions(graph, chordal_rotations(graph))
    narrow = fit(graph, made.truth)
    wide = fit(blurred, start, RobustOptions(noise="given", inlier_probability=0.95))
    assert wide.log_evidence < narrow.log_evidence
    assert np.sum(wide.inlier_probability > 0.5) > np.sum(~wrong)  # it accepts more than all right edges
    assert model._competitors(narrow, [narrow, wide]) == ()
    monkeypatch.setattr(model, "_MUCH_WIDER", np.inf)
    assert len(model._competitors(narrow, [narrow, wide])) == 1


def test_hints_are_for_the_search_alone(made: Simulated) -> None:
    steps = np.abs(made.graph.edge_i - made.graph.edge_j)
    own = own_probabilities(made.graph, 0.99)
    hints = odometry_hints(made.graph, own, 0.99)
    assert np.all(hints[steps == 1] == 0.99)
    assert np.all(np.isnan(own[steps > 1]))
    np.testing.assert_allclose(hints[steps == 2], 0.99**2)
    assert np.all(np.isnan(hints[steps > 5]))


def test_solve_says_what_hangs_on_one_edge() -> None:
    made, second = two_groups(seed=1)
    graph = made.graph
    across = np.flatnonzero(second[graph.edge_i] != second[graph.edge_j])
    keep = np.ones(graph.n_edges, dtype=bool)
    keep[across[1:]] = False
    solution = tempose.solve(graph.with_edges(keep), robust=True, noise="auto", draws=0, certify=False)
    assert any("alone, which nothing confirms" in line for line in solution.notices)
