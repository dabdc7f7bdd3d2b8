"""KITTI, EuRoC, tables of times, and packed files: by hand, with their defects, and after mutations."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from helpers.mutants import read_or_refused
from tempose.cli import main
from tempose.errors import GraphError, ParseError
from tempose.io import read_graph, read_poses, write_graph, write_poses
from tempose.io.files import time_stamps
from tempose.io.times import read_times
from tempose.model.poses import Poses

KITTI = "0 -1 0 1 1 0 0 2 0 0 1 3\n1 0 0 4 0 1 0 5 0 0 1 6\n"
EUROC = (
    "#timestamp, p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z [], v_RS_R_x [m s^-1]\n"
    "1403636580838555648,4.688319,-1.786938,0.783338,0.8,0,0,0.6,-0.027876\n"
    "1403636580843555328,1,2,3,1,0,0,0,9\n"
)


def refused(read, path: Path, line: int | None, *words: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(path)
    assert caught.value.line == line, str(caught.value)
    for word in words:
        assert word in str(caught.value)


def put(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_kitti_by_hand(tmp_path: Path) -> None:
    for name in ("a.kitti", "poses.txt"):  # by its ending, and by its content
        poses = read_poses(put(tmp_path / name, KITTI))
        assert poses.ids == (0, 1)
        np.testing.assert_allclose(poses.position, [[1, 2, 3], [4, 5, 6]])
        np.testing.assert_allclose(
            poses.wxyz[0], np.array([1, 0, 0, 1]) / np.sqrt(2)
        )  # x of the node is y of the world
    refused(read_poses, put(tmp_path / "a.kitti", KITTI.replace("3\n", "\n")), 1, "11 fields", "expected 12")
    refused(read_poses, put(tmp_path / "a.kitti", KITTI.replace("1 0 0 4", "2 0 0 4")), 2, "no rotation")
    refused(read_poses, put(tmp_path / "a.kitti", "\n"), None, "no poses")
    refused(read_graph, put(tmp_path / "a.kitti", KITTI), None, "KITTI files hold poses and no edges")
    with pytest.raises(GraphError, match="node 5 is out of order"):
        write_poses(tmp_path / "b.kitti", Poses((0, 5), [[1, 0, 0, 0]] * 2, np.zeros((2, 3))))


def test_euroc_by_hand(tmp_path: Path) -> None:
    path = put(tmp_path / "data.csv", EUROC)
    poses = read_poses(path)
    assert poses.ids == (1403636580838555648, 1403636580843555328)
    np.testing.assert_allclose(poses.position[0], [4.688319, -1.786938, 0.783338])
    np.testing.assert_allclose(poses.wxyz[0], [0.8, 0, 0, 0.6])
    np.testing.assert_allclose(
        time_stamps(path, poses), [1403636580.838555648, 1403636580.843555328], rtol=0, atol=3e-7
    )
    refused(read_poses, put(tmp_path / "a.csv", EUROC.replace("1,2,3,1", "1,2,x,1")), 3, "p_z is 'x'")
    refused(read_poses, put(tmp_path / "a.csv", EUROC.replace(",1,0,0,0,9", "")), 3, "4 fields, expected 8")
    refused(read_poses, put(tmp_path / "a.csv", EUROC.replace("843555328", "838555648")), 3, "in line 2 already")
    refused(read_graph, put(tmp_path / "a.csv", EUROC), None, "EuRoC files hold poses and no edges")
    with pytest.raises(GraphError, match="times in nanoseconds"):
        write_poses(tmp_path / "b.euroc", Poses(("a",), [[1, 0, 0, 0]], np.zeros((1, 3))))


def test_trajectories_are_converted(tmp_path: Path) -> None:
    put(tmp_path / "data.csv", EUROC)
    assert main(["convert", str(tmp_path / "data.csv"), str(tmp_path / "out.tum"), "--quiet"]) == 0
    assert read_poses(tmp_path / "out.tum").ids == (1403636580838555648, 1403636580843555328)


def test_a_graph_is_not_taken_for_a_trajectory_by_what_it_replaces(tmp_path: Path) -> None:
    put(tmp_path / "data.csv", EUROC)
    graph = "i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau\n1,2,1,0,0,0,1,2,3,4,5\n"
    assert main(["convert", str(put(tmp_path / "g.csv", graph)), str(tmp_path / "data.csv"), "--quiet"]) == 0
    assert read_graph(tmp_path / "data.csv").n_edges == 1


def test_files_of_evo_are_read_and_ours_by_evo(tmp_path: Path) -> None:
    pytest.importorskip("evo")
    from evo.core.trajectory import PosePath3D, PoseTrajectory3D
    from evo.tools import file_interface

    rng = np.random.default_rng(1)
    wxyz = rng.normal(size=(4, 4))
    wxyz /= np.linalg.norm(wxyz, axis=1, keepdims=True)
    stamps = 1403636580.25 + np.arange(4)
    theirs = PoseTrajectory3D(rng.normal(size=(4, 3)), wxyz, stamps)
    file_interface.write_tum_trajectory_file(str(tmp_path / "e.tum"), theirs)
    file_interface.write_kitti_poses_file(str(tmp_path / "e.kitti"), PosePath3D(theirs.positions_xyz, wxyz))
    for name in ("e.tum", "e.kitti"):
        found = read_poses(tmp_path / name)
        np.testing.assert_allclose(found.position, theirs.positions_xyz, atol=1e-9)
        np.testing.assert_allclose(np.abs(np.sum(found.wxyz * wxyz, axis=1)), 1.0, atol=1e-9)
    ours = read_poses(tmp_path / "e.kitti")
    write_poses(tmp_path / "o.kitti", ours)
    write_poses(tmp_path / "o.tum", ours)
    write_poses(tmp_path / "o.csv", Poses(tuple(range(10**18, 10**18 + 4)), ours.wxyz, ours.position), format="euroc")
    for read, name in (
        (file_interface.read_kitti_poses_file, "o.kitti"),
        (file_interface.read_tum_trajectory_file, "o.tum"),
        (file_interface.read_euroc_csv_trajectory, "o.csv"),
    ):
        again = read(str(tmp_path / name))
        np.testing.assert_allclose(again.positions_xyz, ours.position, atol=1e-12)
        np.testing.assert_allclose(np.abs(np.sum(again.orientations_quat_wxyz * ours.wxyz, axis=1)), 1.0, atol=1e-9)


def test_times_by_hand(tmp_path: Path) -> None:
    assert read_times(put(tmp_path / "t.csv", "time,id,more\n0.5,7,x\n0.25,a,y\n")) == {7: 0.5, "a": 0.25}
    assert read_times(put(tmp_path / "t.csv", "id;time_ns\n7;500000000\n")) == {7: 0.5}
    assert read_times(put(tmp_path / "times.txt", "0.0e+00\n1.037e-01\n")) == {0: 0.0, 1: 0.1037}
    refused(read_times, put(tmp_path / "t.csv", "id,time\n1,x\n"), 2, "'x'")
    refused(read_times, put(tmp_path / "t.csv", "id,time\n1,2\n1,3\n"), 3, "a time already")
    refused(read_times, put(tmp_path / "t.csv", "id,when\n1,2\n"), None, "no column says when")
    refused(read_times, put(tmp_path / "t.csv", "id,time,stamp\n1,2,3\n"), None, "both say when")
    refused(read_times, put(tmp_path / "t.csv", "\n"), None, "is empty")


# ---------------------------------------------------------------------- packed


def test_every_text_format_may_be_packed(tmp_path: Path) -> None:
    graph = read_graph(put(tmp_path / "a.csv", "i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau\n1,2,1,0,0,0,1,2,3,4,5\n"))
    for name in ("b.g2o.gz", "b.csv.gz"):
        write_graph(tmp_path / name, graph)
        assert (tmp_path / name).read_bytes()[:2] == b"\x1f\x8b"
        np.testing.assert_array_equal(read_graph(tmp_path / name).j_from_i_t, graph.j_from_i_t)
    first = (tmp_path / "b.g2o.gz").read_bytes()
    write_graph(tmp_path / "b.g2o.gz", graph)
    assert (tmp_path / "b.g2o.gz").read_bytes() == first  # no time of writing in it
    poses = read_poses(put(tmp_path / "a.kitti", KITTI))
    for name in ("p.tum.gz", "p.kitti.gz", "p.log.gz", "p.csv.gz", "p.txt.gz", "p.euroc.gz", "p.g2o.gz"):
        write_poses(tmp_path / name, poses)
        np.testing.assert_allclose(read_poses(tmp_path / name).position, poses.position)
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(EUROC.encode()))
    assert len(read_poses(tmp_path / "data.csv.gz")) == 2


def test_a_damaged_packed_file_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(KITTI.encode() * 50)
    for data in (whole[:30], whole[:2] + b"\0" * 20, whole[:-6]):
        (tmp_path / "a.kitti.gz").write_bytes(data)
        refused(read_poses, tmp_path / "a.kitti.gz", None, "gzip-compressed and damaged")


# ---------------------------------------------------------------------- mutants


@pytest.mark.parametrize(
    ("name", "seed"), [("a.kitti", KITTI), ("data.csv", EUROC), ("a.tum", "1.5 1 2 3 0 0 0.6 0.8\n")]
)
def test_mutants_of_poses_are_read_or_refused(tmp_path: Path, name: str, seed: str) -> None:
    outcomes = read_or_refused(read_poses, tmp_path / name, seed.encode(), 400)
    assert outcomes["ParseError"] > 50 and outcomes["read"] > 20 and len(outcomes) == 2


def test_mutants_of_times_are_read_or_refused(tmp_path: Path) -> None:
    outcomes = read_or_refused(read_times, tmp_path / "t.csv", b"id,time\n1,2.5\n2,3.5\na,4.5\n", 400)
    assert outcomes["ParseError"] > 50 and outcomes["read"] > 20 and len(outcomes) == 2
