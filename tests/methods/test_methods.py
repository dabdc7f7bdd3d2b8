"""Every method against something independent: exact graphs, dense solvers, brute force, planted structure."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from helpers.kinds import KINDS
from helpers.kinds import made as made_of
from helpers.methods import disturbed, exact, rng, rotation_only, worst
from tempose import describe, paper
from tempose._support import streams
from tempose.analysis.accuracy import pose_errors
from tempose.cli import main
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io import read_poses
from tempose.methods import METHODS, Estimate, compare
from tempose.methods.base import Averaging, motion_weights, motions
from tempose.methods.chordal import chordal
from tempose.methods.eig import defect_matrix, eig_se3, eig_se3_irls
from tempose.methods.external import gtsam_gnc
from tempose.methods.godec import decompose, r_godec
from tempose.methods.govindu import govindu
from tempose.methods.irls import irls, irls_half, least_absolute
from tempose.methods.ours import tg_mcmc
from tempose.methods.ozyesil import locations, ozyesil, parallel_rigid
from tempose.methods.pgd import pgd
from tempose.methods.torsello import torsello
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.optimum.relaxations import chordal_rotations
from tempose.simulation import Simulated, corrupt, simulate
from tempose.simulation.wrong import is_odometry
from tempose.studies.wrong_edges import chain

Method = Callable[..., Estimate]


def corrupted(made: Simulated, share: float, seed: int = 0) -> Simulated:
    """The paper's outliers: turned by 60° to 80° about random axes, shifted by [0, 1]."""
    g, r = made.graph, rng(seed)
    bad = r.permutation(g.n_edges)[: round(share * g.n_edges)]
    axis = quat.random_uniform(r, len(bad))[:, 1:]
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    q, t = g.j_from_i_wxyz.copy(), g.j_from_i_t.copy()
    q[bad] = quat.multiply(quat.exp(axis * np.radians(r.uniform(60, 80, (len(bad), 1)))), q[bad])
    t[bad] += r.uniform(0, 1, (len(bad), 3))
    return Simulated(replace(g, j_from_i_wxyz=q, j_from_i_t=t), made.truth)


# ---------------------------------------------------------------------- without noise


def test_the_papers_sampler_is_exact_given_enough_steps() -> None:
    made = exact()
    longer = replace(paper.preset().optimiser, steps=20_000, tolerance=0.0)
    assert max(worst(tg_mcmc(made.graph, optimiser=longer), made.truth)) < 1e-8


@pytest.mark.parametrize("method", [govindu, torsello, irls, irls_half, pgd])
def test_iterations_find_the_exact_poses_from_a_wrong_start(method: Method) -> None:
    made = exact()
    graph = replace(made.graph, concentration=np.asarray(1000.0), translation_precision=np.asarray(500.0))
    estimate = method(graph, start=disturbed(made.truth), iterations=5000)
    assert estimate.status == "converged"
    assert estimate.iterations > 2
    assert max(worst(estimate, made.truth)) < 1e-8


# ---------------------------------------------------------------------- with noise


def test_reweighting_survives_outliers_that_break_least_squares() -> None:
    made = corrupted(simulate(30, completeness=0.6, seed=2, sigma_rot_deg=1.0, sigma_trans=0.02), 0.2)
    for method in (chordal, govindu, torsello, eig_se3):
        assert pose_errors(method(made.graph).poses, made.truth).mean_rotation_deg > 3.0
    for method in (irls, irls_half, eig_se3_irls, r_godec, ozyesil):
        assert pose_errors(method(made.graph).poses, made.truth).mean_rotation_deg < 1.0
    for method in (eig_se3_irls, ozyesil):
        assert pose_errors(method(made.graph).poses, made.truth).mean_translation < 0.04
    assert "54 of 270" in r_godec(made.graph).message


# ---------------------------------------------------------------------- one by one


def chordal_cost(graph: PoseGraph, wxyz: np.ndarray) -> float:
    R, Q = quat.to_matrix(wxyz), quat.to_matrix(graph.j_from_i_wxyz)
    return float(np.sum(graph.mean_concentration[:, None, None] * (R[graph.edge_i] - R[graph.edge_j] @ Q) ** 2))


def tiny(seed: int = 0) -> PoseGraph:
    """Four nodes, all pairs, rotations only, with noise of 20°."""
    made = simulate(4, completeness=1.0, sigma_rot_deg=20.0, sigma_trans=0.1, seed=seed)
    weights = 10.0 ** rng(seed).uniform(-0.5, 0.5, made.graph.n_edges)
    return replace(rotation_only(made.graph), concentration=weights)


def brute_force(graph: PoseGraph, cost: Callable[[np.ndarray], np.ndarray], start: np.ndarray) -> np.ndarray:
    """Rotations that minimise ``Σ w cost(residual quaternion)``, first node held, by a general minimiser."""

    def place(x: np.ndarray) -> np.ndarray:
        turn = np.concatenate([np.zeros((1, 3)), x.reshape(-1, 3)])
        return quat.multiply(quat.exp(turn), start)

    def total(x: np.ndarray) -> float:
        q = place(x)
        left = quat.multiply(quat.multiply(q[graph.edge_j], graph.j_from_i_wxyz), quat.conjugate(q[graph.edge_i]))
        return float(np.sum(graph.concentration * cost(left)))

    found = optimize.minimize(total, np.zeros(3 * (graph.n_nodes - 1)), method="BFGS", options={"gtol": 1e-10})
    return place(found.x)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_govindu_minimises_squared_angles(seed: int) -> None:
    graph = tiny(seed)
    found = govindu(graph).poses.wxyz
    expected = brute_force(graph, lambda q: quat.angle(q) ** 2, found)
    assert np.max(quat.angle_between(found, expected)) < 1e-5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_torsello_minimises_squared_quaternion_differences(seed: int) -> None:
    graph = tiny(seed)
    found = torsello(graph).poses.wxyz
    expected = brute_force(graph, lambda q: 2.0 - 2.0 * np.abs(q[:, 0]), found)
    assert np.max(quat.angle_between(found, expected)) < 1e-5


def test_govindu_splits_the_error_of_a_loop_by_the_variances() -> None:
    """A loop of screws about one axis: angle and height are shared out as in a resistor network, 1/w each."""
    angle, height = np.array([0.5, 0.7, -0.9]), np.array([1.0, -0.4, 0.2])
    zero = np.zeros(3)
    weight_rot, weight_t = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0, 1.0])
    graph = PoseGraph.from_concentrations(
        [(0, 1), (1, 2), (2, 0)], quat.exp(np.stack([zero, zero, angle], axis=1)), np.stack([zero, zero, height], axis=1),
        concentration=weight_rot, translation_precision=weight_t,
    )  # fmt: skip
    poses = govindu(graph).poses
    q, t = poses.node_from_world
    i, j = graph.edge_i, graph.edge_j
    fitted = se3.compose((q[j], t[j]), se3.inverse((q[i], t[i])))
    off = quat.log(quat.multiply(graph.j_from_i_wxyz, quat.conjugate(fitted[0])))[:, 2]
    np.testing.assert_allclose(off, angle.sum() / weight_rot / np.sum(1.0 / weight_rot), atol=1e-9)
    np.testing.assert_allclose(height - fitted[1][:, 2], height.sum() / weight_t / np.sum(1.0 / weight_t), atol=1e-9)


def test_torsello_is_carried_along_by_a_motion_of_the_world() -> None:
    made = simulate(10, completeness=0.8, sigma_rot_deg=10.0, sigma_trans=0.2, seed=4)
    a = torsello(made.graph, start=disturbed(made.truth)).poses
    far = replace(made.truth, position=made.truth.position + 1000.0)
    b = torsello(made.graph, start=disturbed(far)).poses
    np.testing.assert_allclose(a.position, b.position, atol=1e-7)


@pytest.mark.parametrize("variant", ["top", "null"])
def test_eig_against_dense_solvers(variant: str) -> None:
    made = simulate(15, completeness=0.6, sigma_rot_deg=8.0, sigma_trans=0.2, seed=7)
    graph = replace(made.graph, concentration=10.0 ** rng(0).uniform(1, 3, made.graph.n_edges))
    wxyz, t = motions(graph)
    length = np.sqrt(np.mean(np.sum(t * t, axis=1)))
    defect = defect_matrix(graph, (wxyz, t / length), motion_weights(graph)).toarray()
    if variant == "top":
        values, vectors = np.linalg.eig(np.eye(60) - defect)
        order = np.argsort(-values.real)[:4]
        basis = np.linalg.qr(np.real(vectors[:, order]))[0]
    else:
        basis = np.linalg.svd(defect)[2][-4:].T
    blocks = basis.reshape(15, 4, 4)
    axes = np.linalg.svd(blocks[:, 3])[2][1:].T
    R = blocks[:, :3] @ axes
    if variant == "top":  # eigenvectors of D⁻¹Z are at right angles in the metric D
        w = motion_weights(graph)
        degree = np.bincount(graph.edge_i, w, 15) + np.bincount(graph.edge_j, w, 15)
        R = R @ np.linalg.inv(np.linalg.cholesky(np.einsum("n,nab,nac->bc", degree, R, R))).T
    U, _, Vt = np.linalg.svd(R * np.sign(np.sum(np.linalg.det(R))))
    nearest = (U * np.linalg.det(U @ Vt)[:, None, None] ** np.array([0, 0, 1])) @ Vt
    found = quat.to_matrix(quat.conjugate(eig_se3(graph, variant=variant).poses.wxyz))
    between = np.swapaxes(found, 1, 2) @ nearest  # the same world, turned
    np.testing.assert_allclose(between, np.broadcast_to(between[0], (15, 3, 3)), atol=1e-9)
    # translations: node_from_world up to the choice of the origin
    x = blocks[:, :3] @ np.linalg.lstsq(blocks[:, 3], np.ones(15), rcond=None)[0] * length
    estimated = eig_se3(graph, variant=variant).poses.node_from_world[1]
    span = np.concatenate([R, found], axis=2).reshape(45, 6)
    left = (estimated - x).reshape(45)
    left -= span @ np.linalg.lstsq(span, left, rcond=None)[0]
    assert np.abs(left).max() < 1e-8
    with pytest.raises(OptionError, match="variant"):
        eig_se3(graph, variant="middle")


def test_the_decomposition_finds_planted_parts() -> None:
    r, n, p = rng(2), 40, 400
    R = quat.to_matrix(quat.random_uniform(r, n))
    low, high = np.triu_indices(n, 1)
    chosen = np.sort(r.permutation(len(low))[:p])
    a, b = low[chosen], high[chosen]
    blocks = R[a] @ np.swapaxes(R[b], 1, 2)
    outlier = r.random(p) < 0.15
    blocks[outlier] = quat.to_matrix(quat.random_uniform(r, int(outlier.sum())))
    found = decompose(n, a, b, blocks, np.ones(p), threshold=1e-3, iterations=20_000, tolerance=1e-9)
    assert found.converged
    low_rank = found.factor @ found.factor.T
    planted = R.reshape(3 * n, 3) @ R.reshape(3 * n, 3).T
    assert np.abs(low_rank - planted).max() < 2e-3  # soft thresholds bias by about the threshold
    np.testing.assert_array_equal(np.linalg.norm(found.sparse, axis=(1, 2)) > 0.02, outlier)


def test_the_decomposition_without_outliers_is_exact() -> None:
    r, n = rng(3), 20
    R = quat.to_matrix(quat.random_uniform(r, n))
    a, b = np.triu_indices(n, 1)
    keep = r.random(len(a)) < 0.4
    a, b = a[keep], b[keep]
    found = decompose(n, a, b, R[a] @ np.swapaxes(R[b], 1, 2), r.uniform(0.2, 1, len(a)), 0.05, 5000, 1e-12)
    planted = R.reshape(3 * n, 3) @ R.reshape(3 * n, 3).T
    np.testing.assert_allclose(found.factor @ found.factor.T, planted, atol=1e-8)
    assert not np.any(found.sparse)


def test_least_absolute_deviations_against_linear_programming() -> None:
    made = simulate(8, completeness=0.7, seed=1)
    graph = made.graph
    m, n = graph.n_edges, graph.n_nodes
    b, w = rng(0).standard_t(2, (m, 1)), rng(1).uniform(0.5, 2.0, m)
    x = least_absolute(Averaging(graph, np.ones(m)), b, w, iterations=5000)
    value = np.sum(w * np.abs(x[graph.edge_i, 0] - x[graph.edge_j, 0] - b[:, 0]))
    B = np.zeros((m, n))
    B[np.arange(m), graph.edge_i], B[np.arange(m), graph.edge_j] = 1.0, -1.0
    A = np.block([[B, -np.eye(m)], [-B, -np.eye(m)]])
    bounds = [(None, None)] * n + [(0, None)] * m
    best = optimize.linprog(np.concatenate([np.zeros(n), w]), A, np.concatenate([b[:, 0], -b[:, 0]]), bounds=bounds).fun
    assert value == pytest.approx(best, rel=2e-3)
    assert value >= best - 1e-9


def test_locations_against_a_general_solver() -> None:
    made = simulate(6, completeness=1.0, sigma_rot_deg=5.0, sigma_trans=0.2, seed=3)
    graph = made.graph
    i, j, n, m = graph.edge_i, graph.edge_j, graph.n_nodes, graph.n_edges
    wxyz = made.truth.wxyz
    gamma = quat.rotate(wxyz[j], graph.j_from_i_t / np.linalg.norm(graph.j_from_i_t, axis=1, keepdims=True))
    w = rng(0).uniform(0.5, 2.0, m)

    def value(position: np.ndarray) -> float:
        span = position[i] - position[j]
        d = np.maximum(1.0, np.sum(gamma * span, axis=1))
        return float(np.sum(w * np.linalg.norm(span - d[:, None] * gamma, axis=1)))

    found, converged, _ = locations(graph, gamma, w)
    assert converged

    # cutting planes: |e| is the largest uᵀe, so that few unit vectors u give a linear programme whose value is below the least
    size, e = 3 * n + m, np.arange(m)
    take = np.zeros((3 * m, size))  # rows (edge, axis): the deviation p_i − p_j − d γ
    for k in range(3):
        take[3 * e + k, 3 * i + k], take[3 * e + k, 3 * j + k], take[3 * e + k, 3 * n + e] = 1.0, -1.0, -gamma[:, k]
    held = [(0.0, 0.0)] * 3 + [(None, None)] * (3 * n - 3)
    bounds = held + [(1.0, None)] * m + [(0.0, None)] * m
    cost = np.concatenate([np.zeros(size), w])
    edge, unit = np.repeat(e, 6), np.tile(np.vstack([np.eye(3), -np.eye(3)]), (m, 1))
    above, below = np.inf, -np.inf
    for _ in range(100):
        rows = np.einsum("ck,cks->cs", unit, take.reshape(m, 3, size)[edge])
        lengths = np.zeros((len(edge), m))
        lengths[np.arange(len(edge)), edge] = -1.0
        best = optimize.linprog(cost, np.hstack([rows, lengths]), np.zeros(len(edge)), bounds=bounds)
        deviation = (take @ best.x[:size]).reshape(m, 3)
        below, above = best.fun, min(above, value(best.x[: 3 * n].reshape(n, 3)))
        if above - below < 1e-7 * above:
            break
        norm = np.linalg.norm(deviation, axis=1)
        far = norm > 1e-12
        edge, unit = np.concatenate([edge, e[far]]), np.vstack([unit, deviation[far] / norm[far, None]])
    assert above == pytest.approx(below, rel=1e-6)
    assert value(found) == pytest.approx(below, rel=1e-6)
    assert value(3.0 * made.truth.position) > 1.01 * below


def test_parallel_rigidity() -> None:
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    for edges, rigid in [
        (ring, True),  # four edges in space close in one way only
        ([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], False),  # five do not
        ([*ring, (0, 2)], True),  # two triangles on one side
        ([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)], False),  # two triangles at one corner scale apart
        ([(0, 1), (1, 2), (2, 0)], True),
    ]:
        graph = PoseGraph.from_concentrations(
            edges, np.tile(quat.IDENTITY, (len(edges), 1)), np.ones((len(edges), 3)), concentration=1.0
        )
        assert parallel_rigid(graph) is rigid


@pytest.mark.parametrize(("start", "near"), [("tree", 1e-5), ("random", 1e-2)])
def test_gradient_descent_falls_to_the_optimum(start: str, near: float) -> None:
    made = simulate(20, completeness=0.8, seed=5)
    values: list[float] = []
    estimate = pgd(made.graph, start=start, seed=1, hook=lambda watch: values.append(watch.potential))
    assert np.all(np.diff(values) <= 1e-12 * np.array(values[:-1]))
    best = METHODS["tempose"][0](made.graph)
    assert values[-1] == pytest.approx(Posterior(made.graph).potential(best.poses), rel=near)
    assert len(values) == estimate.iterations


def test_gradient_descent_steps_like_the_sampler_at_infinite_beta() -> None:
    made = simulate(10, completeness=0.6, seed=5)
    start = disturbed(made.truth)
    h = 1e-5
    chain = GeodesicChain(Posterior(made.graph), start, streams.key(0, "optimise"))
    chain.run(Dynamics(Scheme("boa", "paper"), h, 1e9, np.inf, "paper"), 1)
    moved = pgd(made.graph, step=h, iterations=1, start=start).poses
    turn = quat.log(quat.multiply(chain.poses.wxyz, quat.conjugate(start.wxyz)))
    assert np.abs(turn).max() > 1e-9
    np.testing.assert_allclose(
        quat.log(quat.multiply(moved.wxyz, quat.conjugate(start.wxyz))), turn, atol=1e-4 * np.abs(turn).max()
    )
    step = chain.poses.position - start.position
    np.testing.assert_allclose(moved.position - start.position, step, atol=1e-4 * np.abs(step).max())


def test_chordal_against_gtsam() -> None:
    gtsam = pytest.importorskip("gtsam")
    made = simulate(12, completeness=0.6, sigma_rot_deg=10.0, seed=1)
    # GTSAM ties the first node to the identity by two measurements in a row: to an extra node, and on to the identity
    g = made.graph
    graph = replace(
        g,
        node_ids=(*g.node_ids, 12),
        edge_i=np.append(g.edge_i, 0),
        edge_j=np.append(g.edge_j, 12),
        j_from_i_wxyz=np.concatenate([g.j_from_i_wxyz, [quat.IDENTITY]]),
        j_from_i_t=np.concatenate([g.j_from_i_t, np.zeros((1, 3))]),
        concentration=np.append(np.full(g.n_edges, 50.0), 25.0),
        translation_precision=np.asarray(1.0),
        fixed=(12,),
    )
    factors = gtsam.NonlinearFactorGraph()
    noise = gtsam.noiseModel.Isotropic.Sigma(6, 1.0)
    for i, j, q, t in zip(g.edge_i, g.edge_j, g.j_from_i_wxyz, g.j_from_i_t, strict=True):
        factors.add(gtsam.BetweenFactorPose3(int(j), int(i), gtsam.Pose3(gtsam.Rot3.Quaternion(*q), t), noise))
    factors.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), noise))
    theirs = gtsam.InitializePose3.computeOrientationsChordal(gtsam.InitializePose3.buildPose3graph(factors))
    R = quat.to_matrix(chordal_rotations(graph))[:12]
    expected = np.array([theirs.atRot3(k).matrix() for k in range(12)])
    np.testing.assert_allclose(R, expected, atol=1e-6)


# ---------------------------------------------------------------------- refusals and the table


def test_the_table_has_every_method_and_why_one_is_missing(tmp_path: Path) -> None:
    made = simulate(10, completeness=0.8, seed=1)
    graph = rotation_only(made.graph)
    result = compare(graph, made.truth)
    assert [row.method for row in result.rows] == list(METHODS)
    rows = {row.method: row for row in result.rows}
    assert rows["ozyesil"].status == "left out" and "direction" in rows["ozyesil"].message
    assert rows["ozyesil"].potential is None
    assert rows["chordal"].mean_translation is None  # nothing is known about positions
    assert rows["chordal"].mean_rotation_deg == pytest.approx(
        pose_errors(chordal(graph).poses, made.truth).mean_rotation_deg
    )
    written = result.save(tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "table.json").read_text())
    assert [row["method"] for row in facts["rows"]] == list(METHODS)
    with open(tmp_path / "out" / "table.csv") as handle:
        assert [row["method"] for row in csv.DictReader(handle)] == list(METHODS)
    assert {path.stem for path in (tmp_path / "out" / "poses").iterdir()} == set(result.poses)
    np.testing.assert_array_equal(
        read_poses(tmp_path / "out" / "poses" / "chordal.csv").wxyz, result.poses["chordal"].wxyz
    )
    pytest.importorskip("matplotlib")
    assert (tmp_path / "out" / "compare.png") in written
    assert (tmp_path / "out" / "compare.png").stat().st_size > 1000


def test_other_software_stands_beside_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """GTSAM's graduated non-convexity comes as near to the truth as the robust solve; without GTSAM the row says so."""
    made = simulate(20, completeness=0.6, seed=2)
    graph = corrupt(made.graph, 0.2, seed=2, kind="uniform").graph
    assert "gnc" not in {row.method for row in compare(graph, methods=["tree"]).rows}
    monkeypatch.setitem(sys.modules, "gtsam", None)
    (row,) = compare(graph, made.truth, ["gnc"]).rows
    expected = "gtsam is needed for graduated non-convexity: pip install 'tempose[interop]'"
    assert (row.status, row.message) == ("left out", expected)
    monkeypatch.undo()
    pytest.importorskip("gtsam")
    gnc, robust = compare(graph, made.truth, ["gnc", "robust"]).rows
    assert gnc.mean_rotation_deg == pytest.approx(robust.mean_rotation_deg, rel=0.15)


@pytest.mark.parametrize("planar", [False, True])
def test_gnc_can_be_told_right_edges_and_a_start(planar: bool) -> None:
    """With a third of the loops wrong its own start is misled; told the odometry, and begun there, it is at the oracle."""
    pytest.importorskip("gtsam")
    made = simulate(
        100, shape="manhattan", planar=planar, sigma_rot_deg=1.0, sigma_trans=0.05, wrong_loops=0.35, seed=3
    )
    oracle = pose_errors(METHODS["tempose"][0](made.right).poses, made.truth).mean_rotation_deg
    told = gtsam_gnc(made.graph, is_odometry(made.graph), chain(made.graph)).poses
    assert pose_errors(told, made.truth).mean_rotation_deg < 1.15 * oracle
    assert told.position[0] == pytest.approx(np.zeros(3), abs=1e-4)
    alone = gtsam_gnc(made.graph).poses
    assert pose_errors(alone, made.truth).mean_rotation_deg > 1.5 * oracle


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.g2o"
    assert main(["simulate", "--nodes", "10", "--seed", "1", "-o", str(path), "--quiet"]) == 0
    truth = str(path.with_name("g.truth.g2o"))

    def facts(*more: str) -> dict[str, Any]:
        assert main(["compare", str(path), "--methods", "chordal,tempose", "--json", *more]) == 0
        return dict(json.loads(capsys.readouterr().out))

    assert facts()["rows"][0]["mean_rotation_deg"] is None
    row = facts("--truth", truth)["rows"][1]
    assert row["method"] == "tempose" and 0.0 < row["mean_rotation_deg"] < 5.0
    assert main(["compare", str(path), "--methods", "tree,chordal", "--truth", truth, "-o", str(tmp_path / "c")]) == 0
    out = capsys.readouterr().out
    assert "MRE" in out and "chordal" in out and "table.json" in out
    assert main(["compare", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "eig-se3" in listed and "gnc" in listed
    assert main(["compare", str(path), "--methods", "magic"]) == 2
    assert "unknown method 'magic'" in capsys.readouterr().err
    assert main(["compare"]) == 2


# ---------------------------------------------------------------------- the paper's noise, on graphs the paper does not have


@pytest.mark.parametrize("kind", KINDS)
def test_the_papers_noise_is_about_motions_between_poses(kind: str) -> None:
    graph = made_of(kind).graph
    given = paper.with_paper_noise(graph)
    motion = graph.is_relative & ~graph.is_landmark[graph.edge_i]
    for before, after in zip(graph.ranks, given.ranks, strict=True):
        np.testing.assert_array_equal(before, after)  # nothing becomes measured that was not
    np.testing.assert_allclose(given.information[~motion], graph.information[~motion])
    lam = given.mean_concentration[motion & graph.has_rotation]
    assert np.all(lam == lam[0]) and paper.LAMBDA[0] <= lam[0] <= paper.LAMBDA[1]
    axes = np.arange(3) < graph.dimension
    P = given.translation_precision_matrices[motion][:, axes][:, :, axes]
    np.testing.assert_allclose(P, np.broadcast_to(np.sqrt(1000.0) * np.eye(graph.dimension), P.shape))
    assert given.coupling is None or not np.any(given.coupling[motion])
    kept = not np.all(motion)
    assert ("keep theirs" in describe.paper_noise(given)) == kept
    assert f"λ = {lam[0]:g} and σ² = 0.0316" in describe.paper_noise(given)


@pytest.mark.parametrize("kind", ["gps", "mixed", "planar mixed", "correlated mixed"])
def test_methods_run_on_every_kind_of_graph_or_are_left_out_with_their_reason(kind: str) -> None:
    rows = compare(made_of(kind).graph, methods=["chordal", "govindu", "tg-mcmc", "tempose"]).rows
    assert [row.status == "left out" for row in rows] == [False, True, False, False]
    assert "synchronises relative poses only" in rows[1].message
    assert all(0.0 < row.graph_consistency <= 1.0 for row in rows if row.graph_consistency is not None)
