"""What people give, and what must come out: planar graphs, registrations, GPS, fixed nodes, maps, dumps of other programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tempose
from tempose.analysis.regions import inside, squared_distance
from tempose.errors import ArgumentError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.simulation import Simulated, simulate
from tempose.solution import Solution
from tempose.studies.calibration.settings import misread

SQUARE = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [2.0, 2.0, 0.0], [0.0, 2.0, 0.0]])


def plane(seed: int, **more: Any) -> Simulated:
    """A planar graph with noise of 2° and 0.05."""
    return simulate(25, completeness=0.3, sigma_rot_deg=2.0, planar=True, seed=seed, **more)


def solved(graph: PoseGraph, **more: Any) -> Solution:
    return tempose.solve(graph, **{"draws": 0, "certify": False, **more})


def distances(solution: Solution, made: Simulated) -> np.ndarray:
    """Squared distances of the true nodes, as seen from the first, in units of their covariances."""
    found = []
    first, anchor = made.truth[0], solution.poses[0]
    for node in made.truth.ids[1:]:
        a, b = (one.inverse() @ poses[node] for one, poses in ((first, made.truth), (anchor, solution.poses)))
        turn = quat.log(quat.multiply(a.wxyz, quat.conjugate(b.wxyz)))
        error = np.concatenate([turn, a.position - b.position])[[2, 3, 4]]
        covariance = solution.relative(0, node).covariance[np.ix_([2, 3, 4], [2, 3, 4])]
        found.append(squared_distance(error, covariance))
    return np.array(found)


# ---------------------------------------------------------------------- 1 to 3: the plane


def test_a_planar_graph_fits_its_stated_noise() -> None:
    """Reduced χ² 1 and 5% of the p-values below 0.05; taken for a graph in space, 0.5 and hardly any."""
    chi, p_values, lifted = [], [], []
    for seed in range(8):
        graph = plane(seed).graph
        solution = solved(graph)
        chi.append(solution.reduced_chi_square)
        p_values.append(solution.edge_checks.p_value)
        lifted.append(solved(misread(graph, "lifted")))
    p = np.concatenate(p_values)
    spare = graph.freedom.sum() - 3 * 24
    assert np.mean(chi) == pytest.approx(1.0, abs=4.0 * np.sqrt(2.0 / spare / len(chi)))
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=4.0 * np.sqrt(0.05 * 0.95 / len(p)))
    assert stats.kstest(p, "uniform").pvalue > 1e-3
    assert np.mean([one.reduced_chi_square for one in lifted]) < 0.65
    assert np.mean(np.concatenate([one.edge_checks.p_value for one in lifted]) < 0.05) < 0.02


def test_planar_noise_is_estimated_right_and_regions_hold_what_they_say() -> None:
    """Whatever was stated: σ within its statistical error, and 50/80/95% of the truths inside."""
    ratios, squared = [], []
    for seed in range(12):
        made = plane(seed)
        stated = replace(
            made.graph,
            concentration=made.graph.concentration * 25.0,
            translation_precision=made.graph.translation_precision / 9.0,
        )
        solution = solved(stated, noise="auto")
        sigma_rot, sigma_trans = solution.graph.median_sigmas
        ratios.append((np.degrees(sigma_rot) / 2.0, sigma_trans / 0.05))
        squared.append(distances(solution, made))
    assert np.mean(ratios, axis=0) == pytest.approx([1.0, 1.0], abs=0.04)
    for level in (0.5, 0.8, 0.95):
        shares = np.array([np.mean(inside(one, level, 3)) for one in squared])
        error = max(np.std(shares) / np.sqrt(len(shares)), 0.01)
        assert shares.mean() == pytest.approx(level, abs=4.0 * error)


@pytest.mark.parametrize("seed", [0, 1])
def test_robust_noise_of_a_planar_graph_does_not_collapse(seed: int) -> None:
    solution = solved(plane(seed).graph, noise="auto", robust=True)
    assert np.degrees(solution.graph.median_sigmas[0]) == pytest.approx(2.0, rel=0.2)
    assert len(solution.verdicts.distrusted) == 0


def test_a_planar_node_says_its_angle_and_covariance() -> None:
    graph = tempose.GraphBuilder(planar=True)
    graph.add_edge("a", "b", angle=-2.5, translation=[3.0, 0.0], sigma_rot_deg=2.0, sigma_trans=0.05)
    solution = solved(graph.build())
    b = solution["b"]
    assert b.theta_deg == pytest.approx(np.degrees(-2.5)) and b.position == pytest.approx([3.0, 0.0, 0.0])
    assert b.planar_covariance == pytest.approx(np.diag([np.radians(2.0) ** 2, 0.05**2, 0.05**2]), rel=1e-3, abs=1e-9)


# ---------------------------------------------------------------------- 4: a registration


def registration() -> tuple[str, np.ndarray]:
    """A g2o edge of a scan whose points lie to one side, and the covariance of (translation, rotation)."""
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.uniform(7, 13, 12), rng.uniform(-3, 3, 12), rng.uniform(-1, 1, 12)])
    J = np.concatenate([np.hstack([np.eye(3), -_hat(x)]) for x in points])
    information = J.T @ J / 0.01**2
    numbers = " ".join(repr(float(x)) for x in information[np.triu_indices(6)])
    return f"EDGE_SE3:QUAT 0 1 0 0 0 0 0 0 1 {numbers}\n", np.linalg.inv(information)


def _hat(x: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def test_a_registration_keeps_its_correlations(tmp_path: Path) -> None:
    """σ_t as the scan has it, not several times less; draws and the Gaussian agree."""
    line, covariance = registration()
    path = tmp_path / "scan.g2o"
    path.write_text(line)
    graph = tempose.read_graph(path)
    right = np.sqrt(np.trace(covariance[:3, :3]) / 3.0)
    found = solved(graph).relative(0, 1)
    assert found.sigma_pos == pytest.approx(right, rel=1e-6)
    drawn = solved(graph, draws=2000, seed=1).relative(0, 1)
    assert drawn.sigma_pos == pytest.approx(right, rel=0.1)
    dropped = solved(misread(graph, "dropped")).relative(0, 1)
    assert dropped.sigma_pos < 0.3 * right


# ---------------------------------------------------------------------- 5 and 10: GPS


def located(seed: int = 0) -> Simulated:
    """30 poses, of which 4 have a fix to 2 cm."""
    return simulate(30, shape="trajectory", sigma_rot_deg=1.0, sigma_trans=0.05, gps=4, gps_sigma=0.02, seed=seed)


def test_gps_nodes_are_as_sure_as_their_fixes_with_and_without_draws() -> None:
    made = located()
    fixes = np.flatnonzero(made.graph.is_absolute)
    rows, at = made.graph.edge_i[fixes], made.graph.j_from_i_t[fixes]
    relative = made.graph.subgraph(np.arange(30)).with_edges(np.arange(made.graph.n_edges - 4) >= 0)
    mean, precision = np.zeros((30, 3)), np.zeros((30, 3, 3))
    mean[rows], precision[rows] = at, 2500.0 * np.eye(3)
    priors = Priors(translation_mean=mean, translation_precision=precision, on_position=True)
    for graph in (made.graph, priors.added_to(relative)):
        gaussian = solved(graph)
        drawn = solved(graph, draws=2000, seed=2)
        for solution in (gaussian, drawn):
            assert solution.gauge.kind == "world" and "world" not in solution.poses
            assert np.all(solution.nodes.sigma_pos[rows] < 0.0215)
            assert np.all(solution.nodes.sigma_pos[rows] > 0.012)
        assert drawn.nodes.sigma_pos == pytest.approx(gaussian.nodes.sigma_pos, rel=0.12)
        assert drawn.nodes.sigma_rot_deg == pytest.approx(gaussian.nodes.sigma_rot_deg, rel=0.12)
        error = np.linalg.norm(gaussian.poses.position - made.truth.position, axis=1)
        assert np.all(error[rows] < 5.0 * 0.02)


@pytest.mark.parametrize("seed", range(3))
def test_a_robust_solve_with_four_fixes_is_right(seed: int) -> None:
    made = located(seed)
    solution = solved(made.graph, robust=True, certify=True)
    assert len(solution.verdicts.distrusted) == 0
    plain = solved(made.graph)
    assert solution.poses.position == pytest.approx(plain.poses.position, abs=0.05)
    error = np.linalg.norm(solution.poses.position - made.truth.position, axis=1)
    assert np.all(error < 6.0 * np.sqrt(3.0) * plain.nodes.sigma_pos)


def test_a_wrong_fix_among_several_is_found() -> None:
    made = simulate(30, shape="trajectory", sigma_rot_deg=1.0, gps=8, gps_sigma=0.02, seed=3)
    wrong = int(np.flatnonzero(made.graph.is_absolute)[2])
    t = made.graph.j_from_i_t.copy()
    t[wrong] += [40.0, -30.0, 0.0]
    solution = solved(replace(made.graph, j_from_i_t=t), robust=True)
    assert solution.verdicts.distrusted.tolist() == [wrong]
    assert solution.poses.position == pytest.approx(solved(made.graph).poses.position, abs=0.3)


# ---------------------------------------------------------------------- 6 to 8: fixed nodes and map coordinates


def chain(origin: np.ndarray, fixed: str) -> str:
    """Three poses in a row with slightly contradictory odometry, as g2o lines."""
    where = [origin + np.array([k, 0.0, 0.0]) for k in range(3)]
    poses = "".join(
        f"VERTEX_SE3:QUAT {k} {x!r} {y!r} {z!r} 0 0 0 1\n" for k, (x, y, z) in enumerate(map(_floats, where))
    )
    unit = " ".join(str(100.0 * x) for x in np.eye(6)[np.triu_indices(6)])
    edges = "".join(
        f"EDGE_SE3:QUAT {a} {b} {d} 0 0 0 0 0 1 {unit}\n" for a, b, d in ((0, 1, 1.1), (1, 2, 1.1), (0, 2, 2.1))
    )
    return poses + edges + fixed


def _floats(x: np.ndarray) -> list[float]:
    return [float(value) for value in x]


def test_two_fixed_nodes_are_both_held(tmp_path: Path) -> None:
    path = tmp_path / "two.g2o"
    path.write_text(chain(np.zeros(3), "FIX 0\nFIX 2\n"))
    solution = solved(tempose.read_graph(path))
    assert solution.poses.position[[0, 2]] == pytest.approx(np.array([[0.0, 0, 0], [2.0, 0, 0]]), abs=1e-15)
    assert solution.nodes.sigma_pos[[0, 2]] == pytest.approx([0.0, 0.0])
    assert solution.poses.position[1, 0] == pytest.approx(1.0, abs=1e-6) and solution.nodes.sigma_pos[1] > 0.0


def test_a_node_fixed_on_a_map_stays_there(tmp_path: Path) -> None:
    origin = np.array([500_123.25, 5_400_321.5, 412.125])
    path = tmp_path / "map.g2o"
    path.write_text(chain(origin, "FIX 0\n"))
    solution = solved(tempose.read_graph(path))
    assert solution.poses.position[0] == pytest.approx(origin, abs=1e-9)
    home = solution.save(tmp_path / "result")
    again = tempose.Solution.load(home)
    assert again.poses.position == pytest.approx(solution.poses.position, abs=1e-9)
    written = tempose.read_graph(path).initial is not None and (home / "poses.g2o").read_text()
    first = [float(x) for x in str(written).splitlines()[0].split()[2:5]]
    assert first == pytest.approx(origin, abs=1e-6)


@pytest.mark.parametrize("gauge", ["anchor", "centroid", "free", "node:3"])
def test_sigmas_do_not_depend_on_where_the_map_is(gauge: str) -> None:
    made = simulate(20, sigma_rot_deg=0.5, sigma_trans=0.005, seed=4)
    far = made.truth.position + np.array([500_000.0, 5_400_000.0, 400.0])
    there = replace(made.graph, initial=type(made.truth)(made.truth.ids, made.truth.wxyz, far))
    here = replace(made.graph, initial=made.truth)
    a, b = (solved(graph, gauge=gauge, start="given").nodes for graph in (here, there))
    assert b.sigma_pos == pytest.approx(a.sigma_pos, rel=1e-5, abs=1e-9)
    assert b.sigma_rot_deg == pytest.approx(a.sigma_rot_deg, rel=1e-5, abs=1e-9)


# ---------------------------------------------------------------------- 9: a dump of another program


def test_a_dump_with_planes_is_read_and_solved(tmp_path: Path) -> None:
    path = tmp_path / "dump.g2o"
    more = "VERTEX_PLANE 9 0 0 1 0\nFIX 9\nEDGE_SE3_PLANE 0 9 0 0 1 0 10 0 0 10 0 10\nEDGE_SE3_PRIORXY 0 0 0 1 0 1\n"
    path.write_text(chain(np.zeros(3), "") + more)
    graph = tempose.read_graph(path)
    assert 9 not in graph.node_ids and any("VERTEX_PLANE" in line for line in graph.notices)
    solution = solved(graph)
    assert len(solution.poses) == 3 and np.isfinite(solution.potential)
    assert any("not determined" in line for line in solution.notices)


# ---------------------------------------------------------------------- kinds of noise


def test_noise_is_estimated_for_each_kind_of_measurement() -> None:
    """Fixes, attitudes and sightings with another noise than stated; the motions' own is not disturbed."""
    ratios = []
    for seed in range(6):
        made = simulate(
            30, completeness=0.2, gps=20, gps_sigma=0.1, attitudes=15, attitude_sigma_deg=3.0, landmarks=10, seed=seed
        )
        graph = made.graph
        seen = graph.is_landmark[graph.edge_i]
        factor = np.where(graph.is_absolute, 4.0, np.where(seen, 0.25, 1.0))
        turned = np.where(graph.is_absolute, 9.0, 1.0)
        stated = replace(
            graph,
            concentration=graph.concentration * turned,
            translation_precision=graph.translation_precision * factor,
        )
        p = solved(stated, noise="auto").parameters
        assert p.kept == ()
        ratios.append(
            [p.rotation_scale, p.translation_scale, p.attitude_scale / 3.0, p.fix_scale / 2.0, p.sighting_scale * 2.0]
        )
    assert np.mean(ratios, axis=0) == pytest.approx(np.ones(5), abs=0.15)


def test_few_fixes_keep_their_noise_and_the_result_says_so() -> None:
    solution = solved(simulate(30, gps=4, gps_sigma=0.02, seed=1).graph, noise="auto")
    assert solution.parameters.kept == ("fix_scale",) and solution.parameters.fix_scale == 1.0
    assert any("measured positions is kept as stated" in line for line in solution.notices)


def test_correlated_noise_scales_consistently() -> None:
    """Both scales are found, whichever way they were stated, and the precisions are those of the truth."""
    made = simulate(30, correlated=True, sigma_rot_deg=2.0, seed=0)
    from tempose.outliers.noise import Parameters

    stated = Parameters(3.0, 0.4, 1.0, np.inf, 1.0).graph(made.graph)
    solution = solved(stated, noise="auto")
    p = solution.parameters
    assert (p.rotation_scale * 3.0, p.translation_scale * 0.4) == pytest.approx((1.0, 1.0), abs=0.06)
    ratio = p.translation_scale * 0.4 / (p.rotation_scale * 3.0)
    assert solution.graph.coupling == pytest.approx(made.graph.coupling * ratio, rel=1e-6)
    assert solution.reduced_chi_square == pytest.approx(1.0, abs=0.01)


def test_edge_checks_agree_with_leaving_edges_out() -> None:
    """Correlated edges, fixes on an arm, attitudes and sightings alike."""
    from tempose.analysis.edge_checks import leave_one_out

    made = simulate(
        12,
        sigma_rot_deg=0.5,
        sigma_trans=0.02,
        correlated="random",
        gps=6,
        lever_arm=0.5,
        attitudes=3,
        landmarks=3,
        seed=2,
    )
    solution = solved(made.graph)
    graph, checks = solution.graph, solution.edge_checks
    kinds = [graph.has_rotation & graph.is_relative, graph.is_absolute & graph.has_translation]
    kinds += [graph.is_absolute & graph.has_rotation, graph.is_landmark[graph.edge_i]]
    for here in kinds:
        for k in np.flatnonzero(here)[:3].tolist():
            z2, freedom, _ = leave_one_out(Posterior(graph), solution.estimate, k)
            assert freedom == checks.freedom[k]
            assert checks.z2[k] == pytest.approx(z2, rel=0.1, abs=0.1)


def test_landmarks_have_no_rotation_and_positions_as_sure_as_draws_say() -> None:
    made = simulate(12, landmarks=4, sightings=4, sigma_rot_deg=1.0, seed=5)
    gaussian, drawn = solved(made.graph), solved(made.graph, draws=2000, seed=1)
    landmark = np.isin(gaussian.poses.ids, made.graph.landmarks)
    for solution in (gaussian, drawn):
        assert np.all(np.isnan(solution.nodes.sigma_rot_deg[landmark])) and np.isfinite(solution[0].sigma_rot_deg)
        assert np.all(np.isfinite(solution.nodes.entropy[landmark]))
    assert drawn.nodes.sigma_pos == pytest.approx(gaussian.nodes.sigma_pos, rel=0.12)
    assert np.isnan(gaussian.relative(0, made.graph.landmarks[0]).sigma_rot_deg)


# ---------------------------------------------------------------------- what is not determined


@pytest.mark.parametrize("planar", [True, False])
def test_a_pose_that_saw_one_landmark_only_is_named(planar: bool) -> None:
    d = 2 if planar else 3
    graph = tempose.GraphBuilder(planar=planar)
    still = {"angle": 0.0} if planar else {"wxyz": [1, 0, 0, 0]}
    for a, b, x in (("a", "b", 1.0), ("b", "c", 1.0), ("a", "c", 2.0)):
        graph.add_edge(a, b, translation=[x, 0.0, 0.0][:d], sigma_rot_deg=1.0, sigma_trans=0.02, **still)
    graph.add_sighting("a", "tree", [3.0, 2.0, 1.0][:d], sigma=0.1)
    graph.add_sighting("lost", "tree", [2.0, 2.0, 1.0][:d], sigma=0.1)
    solution = tempose.solve(graph.build(), draws=0)
    assert solution.nodes is None
    assert any("not determined: 1 node (lost)" in line for line in solution.notices)


def test_one_fix_leaves_every_turn_open_with_draws_and_without() -> None:
    graph = tempose.GraphBuilder()
    for k in range(4):
        graph.add_edge(k, (k + 1) % 4, wxyz=[1, 0, 0, 0], translation=SQUARE[(k + 1) % 4] - SQUARE[k],
                       sigma_rot_deg=1.0, sigma_trans=0.02)  # fmt: skip
    graph.add_position(1, [10.0, 10.0, 10.0], sigma=0.02)
    for draws in (0, 100):
        solution = tempose.solve(graph.build(), draws=draws, chains=2)
        assert solution.nodes.source == "laplace"  # no chain could turn the whole that often
        assert np.all(solution.nodes.sigma_rot_deg > 90.0)
        assert solution[1].sigma_pos == pytest.approx(0.02, rel=0.05)
        assert any("turned about a point" in line for line in solution.notices)
        relative = tempose.solve(graph.build(), draws=draws, chains=2, gauge="node:0").nodes
        assert np.nanmax(relative.sigma_rot_deg) < 2.0


def test_poses_without_the_world_are_refused() -> None:
    made = tempose.simulate(6, gps=4, seed=1)
    with pytest.raises(ArgumentError, match="all 7 nodes"):
        Posterior(made.graph).potential(made.truth.select(made.graph.reported))


def test_reduced_chi_square_does_not_count_what_is_not_determined() -> None:
    """One fix says nothing about how the rest fits: U and χ² stay as they are."""
    made = simulate(6, completeness=0.6, seed=3)
    alone = solved(made.graph)
    fix = Priors(
        translation_precision=np.diag([1.0, 1.0, 1.0])[None] * (np.arange(6) == 0)[:, None, None], on_position=True
    )
    tied = solved(fix.added_to(made.graph))
    assert tied.potential == pytest.approx(alone.potential, rel=1e-9)
    assert tied.reduced_chi_square == pytest.approx(alone.reduced_chi_square, rel=1e-9)


def test_priors_are_in_the_coordinates_of_the_map() -> None:
    """Positions and the paper's t_i, given in map coordinates, mean the same wherever the graph's origin is."""
    origin = np.array([500_000.0, 5_400_000.0, 0.0])
    made = simulate(5, completeness=0.8, seed=2)
    shifted = replace(made.graph, world_origin=origin)
    at = made.truth.position + origin
    t = -quat.rotate(quat.conjugate(made.truth.wxyz), at)
    for priors in (
        Priors(translation_mean=at, translation_precision=1e4, on_position=True),
        Priors(translation_mean=t, translation_precision=1e4, on_position=False),
    ):
        graph = priors.added_to(shifted)
        truth = made.truth.with_identity("world").select(graph.node_ids)
        energies = Posterior(graph).energies(truth)[made.graph.n_edges :]
        assert np.all(energies < 1e-6)
