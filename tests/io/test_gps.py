"""Measured positions from a table of their own: known points of the earth, and graphs that are told where they are."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tempose.cli import main
from tempose.errors import ParseError
from tempose.geometry import geodesy
from tempose.geometry import quaternion as quat
from tempose.io import read_graph, write_graph
from tempose.io.gps import read_fixes, with_fixes
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.simulation import simulate


def test_known_points_of_the_ellipsoid() -> None:
    """The axes of WGS84 by definition, and a point with its neighbour as other software has them."""
    a, b = 6378137.0, 6356752.314245179
    np.testing.assert_allclose(geodesy.ecef_from_geodetic(0, 0, 0), [a, 0, 0], atol=1e-8)
    np.testing.assert_allclose(geodesy.ecef_from_geodetic(0, 90, 10), [0, a + 10, 0], atol=1e-8)
    np.testing.assert_allclose(geodesy.ecef_from_geodetic(-90, 30, 5), [0, 0, -b - 5], atol=1e-8)
    here = (42.0, -82.0, 200.0)
    np.testing.assert_allclose(
        geodesy.ecef_from_geodetic(*here), [660675.2518247, -4700948.68316, 4245737.66222], atol=1e-5
    )
    there = (42.002582, -81.997752, 1139.7018)
    np.testing.assert_allclose(geodesy.enu_from_geodetic(*there, here), [186.277521, 286.842228, 939.692621], atol=0.05)
    north = geodesy.enu_from_geodetic(42.0001, -82.0, 200.0, here)
    assert north[1] == pytest.approx(11.107, abs=2e-3) and abs(north[0]) < 1e-9  # a minute of arc is 1.85 km


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fixes.csv"
    path.write_text(text)
    return path


def loop() -> tuple[PoseGraph, Poses]:
    made = simulate(10, seed=3, sigma_rot_deg=1e-6, sigma_trans=1e-9)
    graph = made.graph
    return PoseGraph(
        graph.node_ids, graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, graph.j_from_i_t, graph.concentration,
        graph.translation_precision, initial=made.truth, fixed=(graph.node_ids[0],),
    ), made.truth  # fmt: skip


@pytest.mark.parametrize("height", [True, False])
def test_a_graph_is_told_where_it_is(tmp_path: Path, height: bool) -> None:
    """Turned and shifted to UTM: the start is there, the fixes fit it, digits survive, the gauge's FIX is released."""
    graph, truth = loop()
    turn, shift = quat.exp([0.0, 0.0, 1.0]), np.array([691_000.0, 5_334_000.0, 520.0])
    there = quat.rotate(turn, truth.position)
    rows = [0, 3, 5, 8]
    cells = [
        f"{graph.node_ids[k]},{shift[0] + there[k, 0]:.6f},{shift[1] + there[k, 1]:.6f},"
        + (f"{shift[2] + there[k, 2]:.6f}" if height else "") + ",0.02,0.05"
        for k in rows
    ]  # fmt: skip
    fixes = read_fixes(written(tmp_path, "\n".join(["id,x,y,z,sigma_h,sigma_v", *cells])))
    found = with_fixes(graph, fixes)
    assert found.node_ids == (*graph.node_ids, WORLD) and found.fixed == () and found.n_edges == graph.n_edges + 4
    assert any("1 node no longer fixed" in line for line in found.notices)
    assert np.all(found.world_origin == np.round(found.world_origin)) and found.world_origin[2] == 0.0
    np.testing.assert_allclose(
        found.j_from_i_t[-4:, :2] + (found.world_origin - shift)[:2], there[rows, :2], rtol=0, atol=1e-6
    )
    precision = found.translation_precision[-1]
    np.testing.assert_allclose(precision, np.diag([2500, 2500, 400.0 * height]))
    assert found.freedom[-1] == (3 if height else 2)
    if height:
        assert found.initial is not None
        r = residuals(found, found.initial)
        assert np.abs(r.translation).max() < 2e-6 and r.angle[:-4].max() < 1e-6
    write_graph(tmp_path / "out.csv", found)
    again = read_graph(tmp_path / "out.csv")
    np.testing.assert_array_equal(again.j_from_i_t, found.j_from_i_t)
    np.testing.assert_array_equal(again.world_origin, found.world_origin)


def test_latitudes_become_metres_east_north_and_up(tmp_path: Path) -> None:
    graph, _ = loop()
    a, b = graph.node_ids[2], graph.node_ids[4]
    table = f"id,lat,lon,height,sigma,inlier_prior,arm_z\n{a},48.137,11.575,520,2,,\n{b},48.138,11.575,521,2,0.9,1.5\n"
    found = with_fixes(graph, read_fixes(written(tmp_path, table)))
    np.testing.assert_allclose(found.j_from_i_t[-2:], [[0, 0, 0], [0, 111.205, 1.0]], atol=2e-2)
    assert found.origin["geodetic_origin"] == "48.137 11.575 520.0" and not np.any(found.world_origin)
    assert any("up of the first fix (latitude 48.137, longitude 11.575, height 520.0)" in one for one in found.notices)
    assert found.inlier_prior is not None and found.inlier_prior[-1] == 0.9 and found.arm is not None
    assert found.arm[-1].tolist() == [0, 0, 1.5] and found.is_isotropic


def test_planar_graphs_take_the_plane(tmp_path: Path) -> None:
    (tmp_path / "g.g2o").write_text(
        "VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 1 0 0\nVERTEX_SE2 2 1 1 0\n"
        "EDGE_SE2 0 1 1 0 0 10 0 0 10 0 300\nEDGE_SE2 1 2 0 1 0 10 0 0 10 0 300\n"
    )
    graph = read_graph(tmp_path / "g.g2o")
    found = with_fixes(graph, read_fixes(written(tmp_path, "id,x,y,z,sigma\n0,5,5,9,0.1\n1,5,6,9,0.1\n2,4,6,9,0.1\n")))
    assert found.is_planar and any("heights of positions not used" in line for line in found.notices)
    assert found.initial is not None and found.translation_precision.ndim == 1
    np.testing.assert_allclose(found.initial.position[:3, :2], [[5, 5], [5, 6], [4, 6]], atol=1e-12)
    np.testing.assert_allclose(found.j_from_i_t[-3:], [[5, 5, 0], [5, 6, 0], [4, 6, 0]])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("id,x,y,z\n0,1,2,3\n", None, "nothing says how sure"),
        ("id,x,z,sigma\n0,1,2,3\n", None, "no column 'y'"),
        ("id,x,y,z,sigma\n0,1,2,3,0\n", 2, "sigma is not above zero"),
        ("id,x,y,z,sigma\n0,1,2,3,\n", 2, "sigma is not above zero"),
        ("id,x,y,z,sigma_h\n0,1,2,3,1\n", 2, "has a height and no sigma_v"),
        ("id,lat,lon,sigma\n0,91,2,3\n", 2, "latitude"),
        ("id,x,y,z,sigma\n99,1,2,3,1\n", 2, "no node 99 in the graph"),
        ("id,x,y,z,sigma,inlier_prior\n0,1,2,3,1,2\n", 2, "inlier_prior"),
        ("id,x,y,z,sigma\n0,1,a,3,1\n", 2, "y is 'a'"),
        (
            "id,lat,lon,z,sigma\n0,48,11,3,1\n",
            None,
            "the column 'z' is not known; known are id, lat, lon, height, sigma",
        ),
        (
            "id,x,y,altitude,sigma\n0,1,2,3,1\n",
            None,
            "the column 'altitude' is not known; known are id, x, y, z, sigma",
        ),
        ("id,lat,lon,alt,height,sigma\n0,48,11,3,3,1\n", None, "'height' and 'alt' mean the same"),
        ("id,x,y,z,sigma,sigma_v\n0,1,2,3,1,9\n", None, "'sigma_v' says again what sigma say"),
    ],
)
def test_defects_are_told_by_file_and_line(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    graph, _ = loop()
    with pytest.raises(ParseError) as caught:
        with_fixes(graph, read_fixes(written(tmp_path, text)))
    assert caught.value.line == line and words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("height", ["height", "altitude", "alt", "elevation"])
def test_other_names_of_latitude_longitude_and_height(tmp_path: Path, height: str) -> None:
    rows = "\n0,48,11,520,1\n1,48.001,11,530,1\n"
    plain = read_fixes(written(tmp_path, "id,lat,lon,height,sigma" + rows))
    other = read_fixes(written(tmp_path, f"id,latitude,longitude,{height},sigma" + rows))
    assert np.array_equal(plain.position, other.position) and other.has_height.all()
    assert other.position[1, 2] == pytest.approx(10.0, abs=0.01)


def test_a_fix_that_contradicts_fixed_nodes(tmp_path: Path) -> None:
    graph, truth = loop()
    held = PoseGraph(
        **{**{name: getattr(graph, name) for name in graph.__dataclass_fields__}, "fixed": graph.node_ids[:2]}
    )
    p = truth.position[1] + [1.0, 0, 0]
    path = written(tmp_path, f"id,x,y,z,sigma\n{graph.node_ids[1]},{p[0]},{p[1]},{p[2]},0.01\n")
    with pytest.raises(ParseError, match=r"fixes\.csv:2: the position is 100 σ from where node 1 is fixed"):
        with_fixes(held, read_fixes(path))
    with pytest.raises(ParseError, match="tied to a world of its own"):
        with_fixes(held, read_fixes(written(tmp_path, "id,lat,lon,sigma\n1,48,11,1\n")))


def test_the_command_line_says_what_is_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, truth = loop()
    write_graph(tmp_path / "g.csv", graph)
    rows = [f"{k},{x + 691000},{y + 5334000},{z},0.02" for k, (x, y, z) in zip(truth.ids, truth.position, strict=True)]
    path = written(tmp_path, "\n".join(["id,x,y,z,sigma", *rows[:4]]))
    assert main(["convert", str(tmp_path / "g.csv"), str(tmp_path / "h.g2o"), "--gps", str(path)]) == 0
    assert "10 nodes" in (said := capsys.readouterr().out) and "4 measured positions" in said
    assert main(["info", str(tmp_path / "h.g2o"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["measured_positions"] == 4 and facts["dimension"] == 3 and facts["n_nodes"] == 10
    assert facts["world_origin"][0] == pytest.approx(691000, abs=10)
    assert main(["info", str(tmp_path / "h.g2o")]) == 0
    assert "4 absolute measurements" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "h.g2o"), "--all"]) == 0
    said = capsys.readouterr().out
    assert "measured positions" in said and "landmarks" not in said


def test_poses_stay_planar_and_landmarks_stay_landmarks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "VERTEX_SE2 0 1 2 0.5\nVERTEX_XY 7 3 4\n"
    (tmp_path / "a.g2o").write_text(text)
    assert main(["convert", str(tmp_path / "a.g2o"), str(tmp_path / "b.g2o"), "--poses"]) == 0
    assert (tmp_path / "b.g2o").read_text() == text
    capsys.readouterr()
    assert main(["convert", str(tmp_path / "a.g2o"), str(tmp_path / "b.tum")]) == 0
    assert "1 landmark left out" in "".join(capsys.readouterr())
    assert len((tmp_path / "b.tum").read_text().split("\n")) == 3
