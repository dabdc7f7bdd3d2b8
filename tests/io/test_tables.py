"""Tables hold every graph: planar, correlated, with landmarks, priors, fixed nodes and map coordinates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tempose.errors import ParseError
from tempose.geometry import quaternion as quat
from tempose.io import ReadOptions, read_graph, read_poses, write_graph
from tempose.io.result_directory import StoredResult, read_result, write_result
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.measurements import about_z
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior

FAR = np.array([691_000.0, 5_334_000.0, 519_000.0])


def spd(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    a = rng.standard_normal((m, d, d))
    return a @ np.swapaxes(a, 1, 2) + 0.3 * np.eye(d)


def every_graph(planar: bool, seed: int = 0, origin: np.ndarray | None = None) -> PoseGraph:
    """Names of both kinds, a landmark, two fixed nodes, edges to and from the world, arms, correlations, inlier priors."""
    rng = np.random.default_rng(seed)
    ids = ("a", 7, "c", "mark", WORLD)
    ends = np.array([(0, 1), (1, 2), (2, 0), (3, 0), (3, 1), (0, 4), (1, 4), (3, 4), (4, 1), (2, 4)])
    m = len(ends)
    q = about_z(rng.uniform(-3, 3, m)) if planar else quat.random_uniform(rng, m)
    t = rng.standard_normal((m, 3))
    concentration = rng.uniform(1, 9, m) if planar else spd(rng, m, 3)
    precision, coupling, arm = spd(rng, m, 3), rng.standard_normal((m, 3, 3)), np.zeros((m, 3))
    points = ends[:, 0] == 3
    arm[5], arm[8] = [0.1, 0.2, 0.3], [1.0, 0.0, 0.0]
    coupling[[3, 4, 6, 7, 9]] = 0.0
    concentration[points], q[points] = 0.0, quat.IDENTITY
    t[9] = np.nan
    wxyz = about_z(rng.uniform(-3, 3, 5)) if planar else quat.random_uniform(rng, 5)
    position = rng.standard_normal((5, 3))
    wxyz[3:], position[4] = quat.IDENTITY, 0.0
    if planar:
        t[:, 2] *= 0.0
        precision[:, 2, :] = precision[:, :, 2] = 0.0
        coupling[:, 2, :] = coupling[:, :, :2] = 0.0
        arm[:, 2] = position[:, 2] = 0.0
    prior = np.where(np.arange(m) == 5, 0.9, np.nan)
    origin = np.zeros(3) if origin is None else origin * [1, 1, not planar]
    arm[8] -= origin
    poses = Poses(ids, wxyz, position)
    return PoseGraph(
        ids, ends[:, 0], ends[:, 1], q, t, concentration, precision, initial=poses, fixed=("c", "mark"),
        inlier_prior=prior, dimension=2 if planar else 3, coupling=coupling, arm=arm, landmarks=("mark",),
        world_origin=origin,
    )  # fmt: skip


def same(a: PoseGraph, b: PoseGraph) -> None:
    """To the last bit; angles of the plane to rounding."""
    assert a.node_ids == b.node_ids and a.fixed == b.fixed and a.landmarks == b.landmarks and a.dimension == b.dimension
    for name in ("edge_i", "edge_j", "j_from_i_t", "concentration", "inlier_prior", "world_origin"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in ("coupling", "arm", "translation_precision"):
        np.testing.assert_array_equal(np.nan_to_num(getattr(a, name)), np.nan_to_num(getattr(b, name)), err_msg=name)
    np.testing.assert_allclose(a.j_from_i_wxyz, b.j_from_i_wxyz, rtol=0, atol=4e-16)
    for one, other in ((a.initial, b.initial), (a.fixed_at, b.fixed_at)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_array_equal(one.position, other.position)
            np.testing.assert_allclose(one.wxyz, other.wxyz, rtol=0, atol=4e-16)


@pytest.mark.parametrize("origin", [None, FAR])
@pytest.mark.parametrize("planar", [False, True])
def test_a_table_holds_every_graph(tmp_path: Path, planar: bool, origin: np.ndarray | None) -> None:
    graph = every_graph(planar, origin=origin)
    P = graph.translation_precision.copy()
    P[9] = 0.0  # what is not looked at
    graph = replace(graph, translation_precision=P)
    write_graph(tmp_path / "g.csv", graph)
    same(graph, read_graph(tmp_path / "g.csv"))
    bare = replace(graph, initial=None)  # fixed nodes are still where they are
    write_graph(tmp_path / "g.csv", bare)
    same(bare, read_graph(tmp_path / "g.csv"))
    text = (tmp_path / "g.csv").read_text()
    assert ("# world_origin 691000 5334000" in text) == (origin is not None)
    assert ("theta" in text) == planar and ("qw" in text) != planar


@pytest.mark.parametrize("origin", [None, FAR])
@pytest.mark.parametrize("planar", [False, True])
def test_a_result_comes_back_to_the_bit(tmp_path: Path, planar: bool, origin: np.ndarray | None) -> None:
    graph = every_graph(planar, origin=origin)
    assert graph.initial is not None
    stored = StoredResult({"status": "x", "edges_measure": graph.measures}, graph, None, graph.initial, np.zeros(3))
    write_result(tmp_path, stored, (("sigma",), (np.arange(4.0),)))
    again = read_result(tmp_path)
    assert again.estimate.ids == graph.node_ids
    np.testing.assert_array_equal(again.estimate.position, graph.initial.position)
    np.testing.assert_array_equal(again.estimate.wxyz, graph.initial.wxyz)
    np.testing.assert_array_equal(again.graph.world_origin, graph.world_origin)
    shown = read_poses(tmp_path / "poses.csv")
    assert shown.ids == graph.reported
    head, first, *_ = (line.split(",") for line in (tmp_path / "poses.csv").read_text().split("\n"))
    assert ("theta_deg" in head) == planar
    if planar:
        turn = np.radians(float(first[head.index("theta_deg")]))
        np.testing.assert_allclose(quat.angle_between(about_z(turn), shown.wxyz[0]), 0.0, atol=1e-12)
    np.testing.assert_allclose(shown.position, graph.initial.position[:4] + graph.world_origin, rtol=1e-15)


def test_results_for_other_programs(tmp_path: Path) -> None:
    """Integers: a g2o file that is planar, with landmarks, and a TUM file without them, both in map coordinates."""
    graph = every_graph(True, origin=FAR)
    names = {"a": 1, "c": 2, "mark": 3}
    ids = tuple(names.get(name, name) for name in graph.node_ids)
    assert graph.initial is not None
    poses = Poses(ids, graph.initial.wxyz, graph.initial.position)
    named = replace(graph, node_ids=ids, initial=poses, fixed=(2, 3), landmarks=(3,), fixed_at=None)
    write_result(tmp_path, StoredResult({}, named, None, poses, np.zeros(1)))
    text = (tmp_path / "poses.g2o").read_text().split("\n")
    assert [line.split()[:2] for line in text[:4]] == [
        ["VERTEX_SE2", "1"], ["VERTEX_SE2", "7"], ["VERTEX_SE2", "2"], ["VERTEX_XY", "3"]
    ]  # fmt: skip
    assert text[0].split()[2].startswith(("69099", "69100")) and text[0].split()[3].startswith(("533399", "533400"))
    assert read_poses(tmp_path / "poses.tum").ids == (1, 7, 2)


# ---------------------------------------------------------------------- tables by hand


@pytest.fixture
def put(tmp_path: Path):
    def _put(text: str) -> Path:
        path = tmp_path / "a.csv"
        path.write_text(text)
        return path

    return _put


def refused(path: Path, line: int | None, *words: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_graph(path)
    assert caught.value.line == line, str(caught.value)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_planar_table_by_hand(put) -> None:
    graph = read_graph(put("i,j,theta_deg,x,y,sigma_rot_deg,sigma_trans\na,b,90,1,2,2,0.1\nb,c,-45,0,1,2,0.1\n"))
    assert graph.is_planar and graph.is_isotropic
    np.testing.assert_allclose(graph.j_from_i_wxyz[0], [np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    np.testing.assert_allclose(graph.concentration, 2 / np.radians(2.0) ** 2)
    np.testing.assert_allclose(graph.translation_precision, 100.0)
    joint = "i,j,theta,tx,ty,info_theta_theta,info_theta_x,info_theta_y,info_x_x,info_x_y,info_y_y\n"
    tied = read_graph(put(joint + "a,b,0.3,1,2,300,5,-7,10,1,20\n"))
    omega = np.array([[300.0, 5, -7], [5, 10, 1], [-7, 1, 20]])
    np.testing.assert_allclose(tied.information[0][np.ix_([2, 3, 4], [2, 3, 4])], omega, rtol=1e-12)
    covariance = np.linalg.inv(omega)[np.triu_indices(3)]
    cells = ",".join(repr(float(x)) for x in covariance)
    again = read_graph(put(joint.replace("info", "cov") + f"a,b,0.3,1,2,{cells}\n"))
    np.testing.assert_allclose(again.information, tied.information, rtol=1e-9, atol=1e-9)
    poses = read_poses(put("id,x,y,theta\na,1,2,0.5\n"))
    np.testing.assert_allclose(poses.wxyz, about_z([0.5]))
    refused(put("i,j,theta,tx,ty,tz,lambda,tau\na,b,0,1,2,3,1,1\n"), None, "planar", "column for z")


def test_the_joint_columns_are_the_error_of_measured_against_true(put) -> None:
    """In space, axes of j: the potential of a small error is ½ eᵀΩe, e = (rotation vector, translation)."""
    rng = np.random.default_rng(2)
    omega, e = spd(rng, 1, 6)[0], 1e-5 * rng.standard_normal(6)
    axes = ["rx", "ry", "rz", "x", "y", "z"]
    names = [f"info_{a}_{b}" for k, a in enumerate(axes) for b in axes[k:]]
    wxyz, t = quat.multiply(quat.exp(e[:3]), [0.8, 0, 0, 0.6]), np.array([1.0, 2, 3]) + e[3:]
    cells = [repr(float(x)) for x in [*wxyz, *t, *omega[np.triu_indices(6)]]]
    graph = read_graph(put(",".join(["i,j,qw,qx,qy,qz,tx,ty,tz", *names]) + "\na,b," + ",".join(cells) + "\n"))
    poses = Poses(("a", "b"), [[0.8, 0, 0, 0.6], [1, 0, 0, 0]], [[1, 2, 3], [0, 0, 0]])
    assert Posterior(graph).reference_potential(poses) == pytest.approx(0.5 * e @ omega @ e, rel=1e-3)
    refused(put("i,j,qw,qx,qy,qz,info_rx_rx\na,b,1,0,0,0,1\n"), None, "no column 'info_rx_ry'")


def test_positions_and_landmarks_by_hand(put) -> None:
    text = (
        "i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau,landmark,arm_x,arm_y,arm_z\n"
        "a,b,1,0,0,0,1,2,3,50,100,,,,\nb,world,,,,,691002.125,5335000.5,520,,2500,,0.1,0,0.5\ntree,a,,,,,5,6,7,,4,1,,,\n"
    )
    graph = read_graph(put(text))
    assert graph.node_ids == ("a", "b", "tree", WORLD) and graph.landmarks == ("tree",)
    assert graph.world_origin.tolist() == [691002, 5335000, 0]
    np.testing.assert_array_equal(graph.j_from_i_t[1], [0.125, 0.5, 520])
    np.testing.assert_array_equal(graph.arm, [[0, 0, 0], [0.1, 0, 0.5], [0, 0, 0]])
    assert graph.concentration.tolist() == [50, 0, 0] and graph.freedom.tolist() == [6, 3, 3]
    refused(put(text + "a,b,,,,,,,,,,,,,\n"), 5, "measures nothing")
    refused(
        put(text.replace("landmark", "fixed").replace("tree,a,,,,,5,6,7,,4,1", "b,,,,,,,,,,,1")),
        4,
        "nothing says where",
    )
    held = (
        text.replace("tree,a", "b,,1,0,0,0,691002,5335000,521,,,,,,\ntree,a")
        .replace("landmark", "fixed")
        .replace("4,1", "4,")
    )
    refused(put(held.replace("521,,,,,,", "521,,,1,,,")), 3, "'b' is measured", "σ from where it is fixed")


def test_reductions_use_marginal_covariances(put) -> None:
    joint = "i,j,theta,tx,ty,info_theta_theta,info_theta_x,info_theta_y,info_x_x,info_x_y,info_y_y\n"
    omega = np.array([[300.0, 50, -7], [50, 10, 1], [-7, 1, 20]])
    sigma = np.linalg.inv(omega)
    path = put(joint + "a,b,0.3,1,2,300,50,-7,10,1,20\n")
    one = read_graph(path, ReadOptions(precision="isotropic"))
    assert one.concentration[0] == pytest.approx(2 / sigma[0, 0])
    assert one.translation_precision[0] == pytest.approx(2 / np.trace(sigma[1:, 1:]))
    assert "marginal covariances" in one.notices[0]
    assert read_graph(path, ReadOptions(precision="se-sync")).concentration[0] == pytest.approx(600.0)
