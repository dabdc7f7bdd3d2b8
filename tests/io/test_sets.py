"""Data sets of several files: EPFL rotations, 1DSfM, scenes of 3DMatch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from tempose.errors import FileError, GraphError, OptionError, ParseError, TemposeError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io import ReadOptions, read_graph, read_poses, write_graph, write_poses
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals

SIGMA = ReadOptions(sigma_rot_deg=1.0, sigma_trans=0.1)
FLIP = np.diag([1.0, -1.0, -1.0])


def some_poses(rng: np.random.Generator, ids: range) -> Poses:
    return Poses(tuple(ids), quat.random_uniform(rng, len(ids)), rng.standard_normal((len(ids), 3)))


def pairs_of(ids: range, gap: int = 3) -> list[tuple[int, int]]:
    return [(a, b) for a in ids for b in ids if a < b <= a + gap]


def angles_deg(graph: PoseGraph, truth: Poses) -> np.ndarray:
    """Residual angles of the edges between nodes whose true pose is known."""
    known = [k for k, name in enumerate(graph.node_ids) if name in truth.index]
    part = graph.subgraph(known)
    return np.degrees(residuals(part, truth.select(part.node_ids)).angle)


# ---------------------------------------------------------------------- EPFL rotations


def write_scene(folder: Path, name: str = "Scene") -> Poses:
    """A scene without noise, written by the simplest means: ``Qrel = R(Qabs_i)ᵀ R(Qabs_j)``, both directions."""
    truth = some_poses(np.random.default_rng(0), range(1, 8))
    R = quat.to_matrix(truth.wxyz)
    both = [p for a, b in pairs_of(range(1, 8)) for p in ((a, b), (b, a))]
    (folder / f"{name}_Edges.txt").write_text("".join(f"{i},{j}\n" for i, j in both))
    relative = [quat.from_matrix(R[i - 1].T @ R[j - 1]) for i, j in both]
    for ending, rows in (("Qrel", relative), ("Qabs", truth.wxyz)):
        (folder / f"{name}_{ending}.txt").write_text("".join(",".join(map(repr, q.tolist())) + "\n" for q in rows))
    return truth


@pytest.mark.parametrize("name", ["Scene_Edges.txt", "Scene_Qrel.txt", "Scene_Qabs.txt", "Scene", ""])
def test_epfl_scene_by_any_of_its_names(tmp_path, name):
    truth = write_scene(tmp_path)
    graph = read_graph(tmp_path / name, SIGMA)
    assert (graph.n_nodes, graph.n_edges) == (7, len(pairs_of(range(1, 8))))
    assert not graph.has_translation.any()
    assert graph.notices == ("15 lines repeat a pair in the other direction, with the same rotation; left out",)
    assert angles_deg(graph, truth).max() < 1e-10
    np.testing.assert_allclose(read_poses(tmp_path / name).wxyz, truth.wxyz, atol=1e-15)
    wrong = Poses(truth.ids, quat.conjugate(truth.wxyz), truth.position)  # the other convention does not fit
    assert np.median(angles_deg(graph, wrong)) > 10.0


def test_epfl_directions_that_differ_are_two_measurements(tmp_path):
    write_scene(tmp_path)
    file = tmp_path / "Scene_Qrel.txt"
    lines = file.read_text().split("\n")
    q = np.array(lines[1].split(","), float)
    lines[1] = ",".join(map(repr, quat.multiply(q, quat.exp([1e-3, 0, 0])).tolist()))
    file.write_text("\n".join(lines))
    assert read_graph(tmp_path, SIGMA).n_edges == len(pairs_of(range(1, 8))) + 1


def test_epfl_round_trip(tmp_path):
    write_scene(tmp_path)
    graph, truth = read_graph(tmp_path / "Scene", SIGMA), read_poses(tmp_path / "Scene")
    write_graph(tmp_path / "again_Edges.txt", graph)
    write_poses(tmp_path / "again_Qabs.txt", truth)
    again = read_graph(tmp_path / "again", SIGMA)
    for field in ("edge_i", "edge_j", "j_from_i_wxyz", "concentration"):
        np.testing.assert_array_equal(getattr(graph, field), getattr(again, field))
    np.testing.assert_array_equal(read_poses(tmp_path / "again").wxyz, truth.wxyz)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("Scene_Edges.txt", "1,2\n2;3\n", "Scene_Edges.txt:2: a line has 1 field, expected 2: i j"),
        ("Scene_Edges.txt", "1,2\n3,3\n" + "1,2\n" * 28, "Scene_Edges.txt:2: the edge joins node 3 to itself"),
        ("Scene_Edges.txt", "1,2\n", "Scene_Qrel.txt: has 30 rotations for 1 pair in Scene_Edges.txt"),
        ("Scene_Qrel.txt", "1,0,0,0\n" * 3 + "1,0,x,0\n", "Scene_Qrel.txt:4: qy is 'x'; expected a number"),
        ("Scene_Qrel.txt", "1,0,0,0.5\n" * 30, "Scene_Qrel.txt:1: the quaternion has length 1.11803"),
        ("Scene_Edges.txt", "\n", "Scene_Edges.txt: is empty; expected lines of i,j"),
    ],
)
def test_epfl_errors_name_file_and_line(tmp_path, file, text, message):
    write_scene(tmp_path)
    (tmp_path / file).write_text(text)
    with pytest.raises(ParseError, match="^" + str(tmp_path / message).replace(".", r"\.")):
        read_graph(tmp_path / "Scene", SIGMA)


def test_epfl_refusals(tmp_path):
    write_scene(tmp_path)
    with pytest.raises(OptionError, match="sigma_rot_deg"):
        read_graph(tmp_path / "Scene")
    graph = read_graph(tmp_path / "Scene", SIGMA)
    with pytest.raises(GraphError, match="count nodes from 1"):
        write_graph(
            tmp_path / "x_Edges.txt", PoseGraph.from_concentrations([(0, 1)], [[1, 0, 0, 0]], concentration=1.0)
        )
    with pytest.raises(GraphError, match="has translations"):
        write_graph(
            tmp_path / "x_Edges.txt",
            PoseGraph.from_concentrations([(1, 2)], [[1, 0, 0, 0]], [[1, 0, 0]], concentration=1.0),
        )
    with pytest.raises(GraphError, match="without gaps"):
        write_poses(tmp_path / "x_Qabs.txt", Poses.identity((1, 3)))
    write_graph(tmp_path / "Other_Edges.txt", graph)
    with pytest.raises(ParseError, match=r"holds several scenes; name one of Other, Scene, as in .*Other$"):
        read_graph(tmp_path, SIGMA)


# ---------------------------------------------------------------------- 1DSfM


def write_1dsfm(folder: Path) -> Poses:
    """A data set without noise by the equations of its authors: ``R = R_i R_jᵀ``, world to camera; t points from i to j."""
    truth = some_poses(np.random.default_rng(1), range(2, 9))
    R = {k: quat.to_matrix(q).T for k, q in zip(truth.ids, truth.wxyz, strict=True)}  # camera_from_world
    c = dict(zip(truth.ids, truth.position, strict=True))
    lines = []
    for i, j in pairs_of(range(2, 9)):
        t = R[i] @ (c[j] - c[i])
        lines.append(" ".join(map(repr, [i, j, *(R[i] @ R[j].T).ravel().tolist(), *(t / np.linalg.norm(t)).tolist()])))
    (folder / "EGs.txt").write_text("\n".join(lines) + "\n")
    (folder / "list.txt").write_text("".join(f"images/{k}.jpg 0 {1000 + k}\n" for k in range(10)))
    known = [6, 3, 4]  # in another order than list.txt
    write_truth(folder, [f"images/{k}.jpg" for k in known], [R[k].T @ FLIP for k in known], [c[k] for k in known])
    return truth


def write_truth(folder: Path, names: list, rotations: list, centres: list) -> None:
    cells = {}
    for name, values in (("namesList", names), ("R_gt", rotations), ("T_gt", centres)):
        cells[name] = np.empty(len(values), dtype=object)
        for k, value in enumerate(values):
            cells[name][k] = value if name != "T_gt" else np.asarray(value).reshape(3, 1)
    savemat(folder / "truth.mat", cells)


@pytest.mark.parametrize("name", ["", "EGs.txt"])
def test_1dsfm(tmp_path, name):
    truth = write_1dsfm(tmp_path)
    graph = read_graph(tmp_path / name, SIGMA)
    assert graph.node_ids == tuple(range(2, 9))
    assert graph.notices == ("the file gives directions of translations, not lengths; only the rotations are used",)
    assert not graph.has_translation.any()
    assert angles_deg(graph, truth).max() < 1e-6
    poses = read_poses(tmp_path / name)
    assert poses.ids == (6, 3, 4)
    np.testing.assert_allclose(quat.angle_between(poses.wxyz, truth.select(poses.ids).wxyz), 0.0, atol=1e-7)
    np.testing.assert_allclose(poses.position, truth.select(poses.ids).position, atol=1e-12)
    np.testing.assert_array_equal(read_poses(tmp_path / "truth.mat").position, poses.position)


def test_1dsfm_errors_name_file_and_line(tmp_path):
    write_1dsfm(tmp_path)
    with pytest.raises(OptionError, match=r"EGs\.txt: 1DSfM files hold no precisions; .*sigma_rot_deg"):
        read_graph(tmp_path)
    with pytest.raises(FileError, match="read and not written"):
        write_graph(tmp_path / "EGs.txt", read_graph(tmp_path, SIGMA))
    lines = (tmp_path / "EGs.txt").read_text().split("\n")
    for bad, message in (
        (lines[1].rsplit(" ", 1)[0], r"EGs\.txt:2: a line has 13 fields, expected 14"),
        (lines[1].replace("2 4", "4 4", 1), r"EGs\.txt:2: the edge joins node 4 to itself"),
        ("2 4 1 0 0 0 1 0 0 0 -1 1 0 0", r"EGs\.txt:2: the 3×3 matrix is no rotation \(within 0\.001\): it mirrors"),
    ):
        (tmp_path / "EGs.txt").write_text("\n".join([lines[0], bad, *lines[2:]]))
        with pytest.raises(ParseError, match=message):
            read_graph(tmp_path, SIGMA)


@pytest.mark.parametrize(
    ("names", "rotations", "message"),
    [
        (["images/1.jpg", "images/99.jpg"], [FLIP, FLIP], "'images/99.jpg' is not in list.txt"),
        (["images/1.jpg", "images/1.jpg"], [FLIP, FLIP], "'images/1.jpg' occurs twice"),
        (["images/1.jpg", "images/2.jpg"], [FLIP], "2, 1 and 2 entries"),
        (["images/1.jpg", "images/2.jpg"], [FLIP, np.eye(2)], "an entry of R_gt is not 3×3 finite numbers"),
        (["images/1.jpg", "images/2.jpg"], [FLIP, 2 * FLIP], "truth.mat: the 3×3 matrix is no rotation"),
    ],
)
def test_1dsfm_truth_that_does_not_fit(tmp_path, names, rotations, message):
    write_1dsfm(tmp_path)
    write_truth(tmp_path, names, rotations, [[0, 0, 0], [1, 2, 3]])
    with pytest.raises(ParseError, match=message):
        read_poses(tmp_path)


def test_1dsfm_truth_that_is_none(tmp_path):
    write_1dsfm(tmp_path)
    (tmp_path / "truth.mat").write_text("this is no MATLAB file, but long enough to have a header of its own")
    with pytest.raises(ParseError, match="is no MATLAB file"):
        read_poses(tmp_path)
    savemat(tmp_path / "truth.mat", {"R_gt": 1.0})
    with pytest.raises(ParseError, match="has no variable namesList"):
        read_poses(tmp_path)
    (tmp_path / "truth.mat").unlink()
    with pytest.raises(ParseError, match=r"there is no \.mat file"):
        read_poses(tmp_path)


# ---------------------------------------------------------------------- scenes of 3DMatch


def write_fragments(folder: Path) -> Poses:
    truth = some_poses(np.random.default_rng(2), range(9))
    blocks = {
        "gt.log": [(a, b) for a, b in pairs_of(range(9), 2) if (a < 6) == (b < 6)],
        "3dmatch.log": pairs_of(range(9)),
    }
    for name, ends in blocks.items():
        i, j = (np.array(column) for column in zip(*ends, strict=True))
        inverse = se3.inverse((truth.wxyz[i], truth.position[i]))
        wxyz, t = se3.compose(inverse, (truth.wxyz[j], truth.position[j]))
        graph = PoseGraph(tuple(range(9)), j, i, wxyz, t, 1.0, 1.0)
        write_graph(folder / name, graph)
    return truth


def test_threedmatch_folder(tmp_path):
    """Pairs of the truth leave nodes 6…8 unconnected: only the others have a true pose."""
    truth = write_fragments(tmp_path)
    graph, poses = read_graph(tmp_path, SIGMA), read_poses(tmp_path)
    assert (graph.n_nodes, graph.n_edges) == (9, len(pairs_of(range(9))))
    assert poses.ids == tuple(range(6))
    first = se3.inverse((truth.wxyz[0], truth.position[0]))
    wxyz, position = se3.compose(first, (truth.wxyz[:6], truth.position[:6]))
    np.testing.assert_allclose(quat.angle_between(poses.wxyz, wxyz), 0.0, atol=1e-7)
    np.testing.assert_allclose(poses.position, position, atol=1e-10)
    assert angles_deg(graph, poses).max() < 1e-5


def test_true_pairs_that_disagree_are_refused(tmp_path):
    write_fragments(tmp_path)
    pairs = read_graph(tmp_path / "gt.log", SIGMA)
    t = pairs.j_from_i_t.copy()
    t[3, 0] += 0.05
    write_graph(
        tmp_path / "gt.log",
        PoseGraph(pairs.node_ids, pairs.edge_i, pairs.edge_j, pairs.j_from_i_wxyz, t, 1.0, 1.0),
    )
    with pytest.raises(ParseError, match=r"gt\.log: the pair \d \d disagrees with the others by .*° and 0\.05"):
        read_poses(tmp_path)


def test_folder_that_is_no_data_set(tmp_path):
    with pytest.raises(TemposeError, match="is a directory; give a file, or the folder of a known data set"):
        read_graph(tmp_path)


# ---------------------------------------------------------------------- the files themselves


@pytest.mark.parametrize(
    ("scene", "nodes", "edges", "median_deg"),
    [("HerzJesuP8", 8, 23, 0.06), ("HerzJesuP25", 25, 172, 0.08), ("FountainP11", 11, 45, 0.06),
     ("EntryP10", 10, 44, 0.08), ("CastleP19", 19, 64, 0.3), ("CastleP30", 30, 174, 0.25)],
)  # fmt: skip
def test_epfl_data(data, scene, nodes, edges, median_deg):
    graph, truth = read_graph(data / "epfl_rotations" / scene, SIGMA), read_poses(data / "epfl_rotations" / scene)
    assert (graph.n_nodes, graph.n_edges, len(truth)) == (nodes, edges, nodes)
    assert np.median(angles_deg(graph, truth)) < median_deg


def test_epfl_truth_is_that_of_the_cameras(data):
    """``Qabs`` is the camera-to-world rotation of the benchmark's own files."""
    truth = read_poses(data / "epfl_rotations" / "CastleP19")
    files = sorted((data / "epfl" / "castle-P19" / "gt_dense_cameras").glob("*.camera"))
    R = np.array([np.array(f.read_text().split(), float)[12:21].reshape(3, 3) for f in files])
    np.testing.assert_allclose(np.degrees(quat.angle_between(truth.wxyz, quat.from_matrix(R))), 0.0, atol=1e-4)


def test_madrid_data(data):
    graph, truth = read_graph(data / "madrid", SIGMA), read_poses(data / "madrid")
    assert (graph.n_nodes, graph.n_edges, graph.n_components, len(truth)) == (394, 23784, 1, 176)
    angle = angles_deg(graph, truth)
    assert np.mean(angle > 20.0) == pytest.approx(0.23, abs=0.01)
    assert np.percentile(angle, 20) < 2.0
    unflipped = Poses(truth.ids, quat.from_matrix(quat.to_matrix(truth.wxyz) @ FLIP), truth.position)
    assert np.percentile(angles_deg(graph, unflipped), 20) > 5.0


@pytest.mark.parametrize(
    ("scene", "known", "inliers"),
    [("7-scenes-redkitchen-evaluation", 60, 0.93), ("sun3d-hotel_uc-scan3-evaluation", 55, 0.81),
     ("sun3d-hotel_umd-maryland_hotel1-evaluation", 33, 0.69), ("sun3d-home_at-home_at_scan1_2013_jan_1-evaluation", 59, 0.57),
     ("sun3d-mit_76_studyroom-76-1studyroom2-evaluation", 66, 0.35)],
)  # fmt: skip
def test_threedmatch_data(data, scene, known, inliers):
    graph, truth = read_graph(data / "threedmatch" / scene, SIGMA), read_poses(data / "threedmatch" / scene)
    assert len(truth) == known
    part = graph.subgraph([k for k, name in enumerate(graph.node_ids) if name in truth.index])
    left = residuals(part, truth.select(part.node_ids))
    right = (np.degrees(left.angle) < 15.0) & (np.linalg.norm(left.translation, axis=1) < 0.3)
    assert np.mean(right) == pytest.approx(inliers, abs=0.03)
