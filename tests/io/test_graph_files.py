"""Open3D, PyFactorGraph, TORO and the g2o lines of other programs: by hand, against their software, with defects and mutants."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers.mutants import read_or_refused
from helpers.open3d_ring import ring
from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io import ReadOptions, read_graph, read_poses, write_graph, write_poses
from tempose.io.files import left_out, read_vertices
from tempose.model.graph import WORLD
from tempose.model.posterior import Posterior

# nodes 1 to 4 seen from node 0, rows of 3×4 matrices, after Open3D 0.20 has optimised the file of `ring`
OPEN3D = """
0.78493452 -0.599212269 -0.157551439 -0.677497023 0.39999573 0.684285798 -0.609718265 -3.866200998 0.473160877 0.41556901 0.776801894 -2.246151742
0.306826456 -0.306491119 -0.901066435 3.93802111 0.540082373 0.835611578 -0.10032109 -5.305270777 0.783689069 -0.455868933 0.42191819 -0.797273238
0.489615606 -0.850662279 -0.191442539 1.376644159 0.845496444 0.516843376 -0.134196456 -3.228924988 0.213101671 -0.096159307 0.972286514 -1.998194112
-0.193591905 -0.128717891 -0.972601603 4.968490405 0.918048424 0.325846081 -0.225857086 -3.534077947 0.345990269 -0.936619472 0.055088093 1.267554139
"""  # noqa: E501


def refused(read, path: Path, line: int | None, *words: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(path)
    assert caught.value.line == line, str(caught.value)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def put(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ---------------------------------------------------------------------- Open3D


def test_the_optimum_is_that_of_open3d(tmp_path: Path) -> None:
    """Correlated informations mean the same to both: to second order in residuals of 0.01, hence 2e-6 of lengths of 5."""
    write_graph(tmp_path / "ring.json", ring())
    solution = tempose.solve(read_graph(tmp_path / "ring.json"), draws=0)
    theirs = np.array([float(x) for x in OPEN3D.split()]).reshape(4, 3, 4)
    ours = np.array([solution.poses.relative(0, k).matrix[:3] for k in range(1, 5)])
    np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_an_optimum_without_correlations_is_another(tmp_path: Path) -> None:
    """Negative control."""
    write_graph(tmp_path / "ring.json", ring())
    solution = tempose.solve(read_graph(tmp_path / "ring.json", ReadOptions(precision="isotropic")), draws=0)
    theirs = np.array([float(x) for x in OPEN3D.split()]).reshape(4, 3, 4)
    ours = np.array([solution.poses.relative(0, k).matrix[:3] for k in range(1, 5)])
    assert np.max(np.abs(ours - theirs)) > 1e-3


def test_uncertain_edges_are_those_that_may_be_wrong(tmp_path: Path) -> None:
    path = tmp_path / "ring.json"
    write_graph(path, ring())
    content = json.loads(path.read_text())
    assert not any(edge["uncertain"] for edge in content["edges"])
    assert read_graph(path).inlier_prior is None
    content["edges"][5]["uncertain"] = True
    path.write_text(json.dumps(content))
    graph = read_graph(path)
    np.testing.assert_array_equal(graph.inlier_prior, [1, 1, 1, 1, 1, np.nan])
    write_graph(path, graph)
    assert [edge["uncertain"] for edge in json.loads(path.read_text())["edges"]] == [False] * 5 + [True]
    assert left_out(graph, path) is None


def test_counted_points_are_told(tmp_path: Path) -> None:
    write_graph(tmp_path / "ring.json", ring())
    assert not read_graph(tmp_path / "ring.json").notices
    content = json.loads((tmp_path / "ring.json").read_text())
    for edge in content["edges"]:
        edge["information"] = (np.eye(6) * 500).ravel().tolist()
    assert "count corresponding points" in read_graph(put(tmp_path / "b.json", json.dumps(content))).notices[0]


def test_open3d_defects(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_graph(path, ring())
    whole = path.read_text()

    def changed(change) -> Path:
        content = json.loads(whole)
        change(content)
        return put(path, json.dumps(content))

    refused(read_graph, put(path, whole[:100]), whole[:100].count("\n") + 1, "JSON")
    refused(read_graph, put(path, '{"class_name": "PointCloud"}'), None, "no pose graph of Open3D")
    refused(read_graph, changed(lambda c: c["edges"][2].update(source_node_id=9)), None, "edge 2: source_node_id is 9")
    refused(
        read_graph, changed(lambda c: c["edges"][2].update(source_node_id=2)), None, "edge 2 joins node 2 to itself"
    )
    refused(read_graph, changed(lambda c: c["edges"][1]["information"].pop()), None, "35 numbers, expected 36")
    refused(
        read_graph, changed(lambda c: c["edges"][1]["information"].__setitem__(0, "x")), None, "'x'; expected a finite"
    )
    refused(read_graph, changed(lambda c: c["edges"][1]["information"].__setitem__(1, 9e9)), None, "not symmetric")
    refused(
        read_graph, changed(lambda c: c["edges"][1]["information"].__setitem__(0, -1.0)), None, "positive semi-definite"
    )
    refused(
        read_graph, changed(lambda c: c["nodes"][1]["pose"].__setitem__(3, 1.0)), None, "node 1", "column after column"
    )
    refused(read_graph, changed(lambda c: c["nodes"][1]["pose"].__setitem__(0, 7.0)), None, "no rotation")
    refused(read_graph, changed(lambda c: c.pop("nodes")), None, "no list of nodes")
    refused(read_graph, changed(lambda c: c.update(edges=[])), None, "no edges")
    graph = tempose.GraphBuilder().add_edge(
        "a", "b", wxyz=[1, 0, 0, 0], translation=[1, 0, 0], sigma_rot_deg=1, sigma_trans=1
    )
    with pytest.raises(GraphError, match="a pose for every node"):
        write_graph(path, graph.build())
    graph.add_node("a", np.eye(4)).add_node("b", np.eye(4))
    with pytest.raises(GraphError, match="number their nodes"):
        write_graph(path, graph.build())


# ---------------------------------------------------------------------- PyFactorGraph

PYFG = """VERTEX_SE3:QUAT 0.000000000 A0 0.0 0.0 0.0 0.0 0.0 0.0 1.0
VERTEX_SE3:QUAT 1.000000000 A1 1.0 2.0 3.0 0.0 0.0 0.6 0.8
VERTEX_XYZ L0 4.0 5.0 6.0
VERTEX_SE3:QUAT:PRIOR 0.0 A0 0 0 0 0 0 0 1 0.01 0 0 0 0 0 0.01 0 0 0 0 0.01 0 0 0 0.04 0 0 0.04 0 0.04
EDGE_SE3:QUAT 1.0 A0 A1 1 2 3 0 0 0.6 0.8 0.01 0 0 0 0 0 0.01 0 0 0 0 0.01 0 0 0 0.04 0 0 0.04 0 0.04
EDGE_SE3_XYZ 0.0 A0 L0 4 5 6 0.09 0 0 0.09 0 0.09
EDGE_RANGE 0.0 A0 L0 8.77 0.25
"""


def test_pyfg_by_hand(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path / "a.pyfg", PYFG))
    assert graph.node_ids == ("A0", "A1", "L0", WORLD) and graph.landmarks == ("L0",)
    assert "EDGE_RANGE" in graph.notices[0] and "distance without a direction" in graph.notices[0]
    edge = graph.information[graph.edge_i.tolist().index(1)]
    np.testing.assert_allclose(np.diag(edge), [25, 25, 25, 100, 100, 100])  # translation first in the file
    np.testing.assert_allclose(Posterior(graph).energies(graph.initial), 0.0, atol=1e-20)
    poses, planar, landmarks = read_vertices(tmp_path / "a.pyfg")
    assert poses.ids == ("A0", "A1", "L0") and landmarks == ("L0",) and not planar
    np.testing.assert_allclose(poses["A1"].wxyz, [0.8, 0, 0, 0.6])


def test_pyfg_defects(tmp_path: Path) -> None:
    path = tmp_path / "a.pyfg"
    refused(read_graph, put(path, PYFG.replace("A0 A1 1 2 3", "A0 A1 1 2")), 5, "30 fields, expected 31")
    refused(read_graph, put(path, PYFG.replace("A0 A1 1 2 3", "A0 A1 1 2 x")), 5, "z is 'x'")
    refused(read_graph, put(path, PYFG.replace("A0 A1 1", "A0 A0 1")), 5, "joins a node to itself")
    refused(
        read_graph, put(path, PYFG.replace("0.09 0 0 0.09 0 0.09", "0.09 0 0 0 0 0.09")), 6, "not positive definite"
    )
    refused(read_graph, put(path, PYFG.replace("A1 1.0 2.0", "A0 1.0 2.0")), 2, "occurs in line 1 already")
    refused(read_graph, put(path, PYFG.replace("XYZ L0 4.0", "XYZ world 4.0")), 3, "the world itself")
    refused(read_graph, put(path, PYFG + "VERTEX_SE2 0 B0 1 2 3\n"), 8, "planar and 3D lines")
    refused(read_graph, put(path, PYFG.split("EDGE")[0]), None, "no edges found")
    with pytest.raises(GraphError, match="a capital letter and a number"):
        write_poses(path, tempose.Poses.identity(["left"]))
    with pytest.raises(GraphError, match="a capital letter and a number"):
        write_poses(path, tempose.Poses.identity(["L1"]))  # would be a landmark


# ---------------------------------------------------------------------- TORO


def test_planar_toro_has_an_order_of_its_own(tmp_path: Path) -> None:
    """xx xy yy θθ xθ yθ; files that have rows instead are recognised where they can be."""
    own = "VERTEX2 0 0 0 0\nVERTEX2 1 1 0 0.1\nEDGE2 0 1 1 0 0.1 50 1 60 100 2 3\n"
    graph = read_graph(put(tmp_path / "a.toro", own))
    assert graph.is_planar and graph.origin["format"] == "toro" and not graph.notices
    R = np.array([[np.cos(0.1), -np.sin(0.1)], [np.sin(0.1), np.cos(0.1)]])
    np.testing.assert_allclose(graph.information[0][3:5, 3:5], R @ [[50, 1], [1, 60]] @ R.T)
    np.testing.assert_allclose(graph.information[0][2, 2], 100)
    np.testing.assert_allclose(R.T @ graph.information[0][3:5, 2], [2, 3])
    rows = read_graph(put(tmp_path / "b.graph", own.replace("50 1 60 100 2 3", "50 1 2 60 3 100")))
    np.testing.assert_allclose(rows.information, graph.information, atol=1e-12)  # in TORO's order: no information
    assert "read by rows" in rows.notices[0]


def test_planar_toro_is_written_in_its_order(tmp_path: Path) -> None:
    graph = tempose.GraphBuilder(planar=True)
    information = np.array([[100.0, 2, 3], [2, 50, 1], [3, 1, 60]])  # θ, x, y
    graph.add_edge(0, 1, angle=0.0, translation=[1, 0], information=information)
    write_graph(tmp_path / "a.toro", graph.build())
    words = (tmp_path / "a.toro").read_text().split()
    assert words[:3] == ["EDGE2", "0", "1"]
    np.testing.assert_allclose([float(x) for x in words[3:]], [1, 0, 0, 50, 1, 60, 100, 2, 3], atol=1e-12)


def test_toro_at_a_pitch_of_ninety_degrees(tmp_path: Path) -> None:
    up = quat.exp(np.array([[0.0, np.pi / 2, 0.0]]))
    poses = tempose.Poses(
        (1, 2), np.vstack([up, quat.multiply(quat.exp(np.array([[0.0, 0.0, 0.7]])), up)]), np.zeros((2, 3))
    )
    write_poses(tmp_path / "a.toro", poses)
    assert np.max(quat.angle_between(read_poses(tmp_path / "a.toro").wxyz, poses.wxyz)) < 1e-7


# ---------------------------------------------------------------------- g2o of RTAB-Map

INFO = "100 0 0 0 0 0 100 0 0 0 0 100 0 0 0 25 0 0 25 0 25"
RTABMAP = f"""PARAMS_SE3OFFSET 0 0.000000 0.000000 0.000000 0.000000 0.000000 0.000000 1.000000
VERTEX_SE3:QUAT 1 0 0 0 0 0 0 1
VERTEX_SE3:QUAT 2 1 0 0 0 0 0 1
VERTEX_SE3:QUAT 3 2 0 0 0 0 0 1
VERTEX_TRACKXYZ 11 1 1 0
EDGE_SE3:QUAT 1 2 1 0 0 0 0 0 1 {INFO}
EDGE_SE3:QUAT 2 3 1 0 0 0 0 0 1 {INFO}
VERTEX_SWITCH 12 1
EDGE_SWITCH_PRIOR 12 1 1.0
EDGE_SE3_SWITCHABLE 1 3 12 2 0 0 0 0 0 1 {INFO}
EDGE_SE3_TRACKXYZ 1 11 0 1 1 0 100 0 0 100 0 100
EDGE_POINTXYZ_PRIOR 3 2 0 0 4 0 0 4 0 4
EDGE_SE3_PRIOR 1 0 0 0 0 0 0 0 1 {INFO}
"""


def test_every_line_of_rtabmap_is_read(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path / "a.g2o", RTABMAP))
    assert graph.node_ids == (1, 2, 3, 11, WORLD) and graph.landmarks == (11,) and graph.n_edges == 6
    assert len(graph.notices) == 1 and "1 switchable edge read" in graph.notices[0]
    np.testing.assert_allclose(Posterior(graph).energies(graph.initial), 0.0, atol=1e-20)
    position = [k for k in range(6) if graph.is_absolute[k] and graph.edge_i[k] == 2]
    np.testing.assert_allclose(np.diag(graph.information[position[0]]), [0, 0, 0, 4, 4, 4])
    planar = "VERTEX_SE2 1 0 0 0\nVERTEX_SE2 2 1 0 0\nVERTEX_SWITCH 9 1\nEDGE_SE2_SWITCHABLE 1 2 9 1 0 0 4 0 0 4 0 9\n"
    assert read_graph(put(tmp_path / "b.g2o", "PARAMS_SE2OFFSET 0 0 0 0\n" + planar)).n_edges == 1


def test_a_point_of_a_landmark_stays_one(tmp_path: Path) -> None:
    """Negative control: the prior of a landmark does not make a pose of it."""
    graph = read_graph(put(tmp_path / "a.g2o", RTABMAP.replace("PRIOR 3 2 0 0", "PRIOR 11 1 1 0")))
    assert graph.landmarks == (11,)


# ---------------------------------------------------------------------- mutants


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("a.pyfg", PYFG),
        (
            "a.toro",
            "VERTEX2 0 0 0 0\nVERTEX2 1 1 0 0.1\nEDGE2 0 1 1 0 0.1 50 1 60 100 2 3\nEDGE2 1 0 -1 0 -0.1 5 0 6 7 0 0\n",
        ),
        ("a.g2o", RTABMAP),
    ],
)
def test_mutants_are_read_or_refused(tmp_path: Path, name: str, seed: str) -> None:
    outcomes = read_or_refused(read_graph, tmp_path / name, seed.encode(), 400)
    assert set(outcomes) == {"ParseError", "read"} and min(outcomes.values()) > 20


def test_mutants_of_open3d_are_read_or_refused(tmp_path: Path) -> None:
    write_graph(tmp_path / "seed.json", ring())
    seed = (tmp_path / "seed.json").read_bytes()
    outcomes = read_or_refused(read_graph, tmp_path / "a.json", seed, 200)
    content = json.loads(seed)
    content["edges"] = content["edges"][:1]
    content["nodes"] = content["nodes"][:2]
    outcomes += read_or_refused(read_graph, tmp_path / "b.json", json.dumps(content, indent=0).encode(), 200)
    assert set(outcomes) == {"ParseError", "read"} and min(outcomes.values()) > 5
    refused(read_graph, put(tmp_path / "a.json", "[" * 100_000), None, "JSON")
