"""Every format keeps the same promises: what is written is read, a defect is told by file and line, directions by equation."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from scipy.spatial.transform import Rotation

from helpers.every_graph import KINDS, graph_of, random_poses
from tempose.errors import FileError, GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io import FORMATS, ReadOptions, csvfile, read_graph, read_poses, write_graph, write_poses
from tempose.io.files import edges_measure, left_out
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals

OPTIONS = ReadOptions(sigma_rot_deg=2.0, sigma_trans=0.05)
NODES = tuple(range(1, 7))
PAIRS = [(a, b) for a in NODES for b in NODES if a < b <= a + 3]


def truth() -> Poses:
    rng = np.random.default_rng(3)
    return Poses(NODES, quat.random_uniform(rng, len(NODES)), rng.standard_normal((len(NODES), 3)))


def matrices(poses: Poses) -> np.ndarray:
    """``world_from_node`` (n, 4, 4)."""
    out = np.tile(np.eye(4), (len(poses), 1, 1))
    out[:, :3, :3], out[:, :3, 3] = quat.to_matrix(poses.wxyz), poses.position
    return out


def words(values: object) -> str:
    return " ".join(repr(float(x)) for x in np.ravel(values))


# ---------------------------------------------------------------------- each format's own equation, in the plainest code


def g2o_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """``EDGE_SE3:QUAT i j``: the measurement is i_from_j, so ``X_i⁻¹ X_j``; quaternions are ``x y z w``."""
    information = " ".join("1" if a == b else "0" for a in range(6) for b in range(a, 6))
    lines = []
    for i, j in PAIRS:
        M = np.linalg.inv(world[i]) @ world[j]
        w, x, y, z = quat.from_matrix(M[:3, :3])
        lines.append(f"EDGE_SE3:QUAT {i} {j} {words([*M[:3, 3], x, y, z, w])} {information}")
    path.write_text("\n".join(lines) + "\n")


def toro_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """``EDGE3 i j x y z roll pitch yaw``: ``X_i⁻¹ X_j``, ``R = Rz(yaw) Ry(pitch) Rx(roll)``."""
    information = " ".join("1" if a == b else "0" for a in range(6) for b in range(a, 6))
    lines = []
    for i, j in PAIRS:
        M = np.linalg.inv(world[i]) @ world[j]
        yaw, pitch, roll = Rotation.from_matrix(M[:3, :3]).as_euler("ZYX")
        lines.append(f"EDGE3 {i} {j} {words([*M[:3, 3], roll, pitch, yaw])} {information}")
    path.write_text("\n".join(lines) + "\n")


def pyfg_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """``EDGE_SE3:QUAT time a b``: ``X_a⁻¹ X_b``; covariances."""
    covariance = " ".join("0.5" if a == b else "0" for a in range(6) for b in range(a, 6))
    lines = []
    for i, j in PAIRS:
        M = np.linalg.inv(world[i]) @ world[j]
        w, x, y, z = quat.from_matrix(M[:3, :3])
        lines.append(f"EDGE_SE3:QUAT 0.5 A{i} A{j} {words([*M[:3, 3], x, y, z, w])} {covariance}")
    path.write_text("\n".join(lines) + "\n")


def open3d_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """``transformation = T_target⁻¹ T_source``, column after column; nodes count from 0."""
    edges = [
        {
            "source_node_id": i - 1,
            "target_node_id": j - 1,
            "transformation": (np.linalg.inv(world[j]) @ world[i]).T.ravel().tolist(),
            "information": (np.eye(6) * 2.5).ravel().tolist(),
            "uncertain": False,
        }
        for i, j in PAIRS
    ]
    nodes = [{"pose": M.T.ravel().tolist()} for M in world.values()]
    path.write_text(json.dumps({"class_name": "PoseGraph", "nodes": nodes, "edges": edges}, indent=1) + "\n")


def csv_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """A row measures j_from_i: ``X_j⁻¹ X_i``; quaternions are ``w x y z``."""
    lines = ["i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau"]
    for i, j in PAIRS:
        M = np.linalg.inv(world[j]) @ world[i]
        lines.append(f"{i},{j}," + words([*quat.from_matrix(M[:3, :3]), *M[:3, 3], 10, 20]).replace(" ", ","))
    path.write_text("\n".join(lines) + "\n")


def log_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """A block ``i j n`` maps fragment j into fragment i: ``X_i⁻¹ X_j``."""
    blocks = []
    for i, j in PAIRS:
        rows = (words(row) for row in np.linalg.inv(world[i]) @ world[j])
        blocks.append("\n".join([f"{i} {j} {len(NODES)}", *rows]))
    path.write_text("\n".join(blocks) + "\n")


def epfl_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """``Qrel = R_iᵀ R_j`` with ``R`` camera to world; nodes count from 1."""
    path.write_text("".join(f"{i},{j}\n" for i, j in PAIRS))
    rows = [quat.from_matrix((world[i].T @ world[j])[:3, :3]) for i, j in PAIRS]
    path.with_name(path.name.replace("Edges", "Qrel")).write_text(
        "".join(words(q).replace(" ", ",") + "\n" for q in rows)
    )


def onedsfm_graph(path: Path, world: dict[int, np.ndarray]) -> None:
    """``R_i R_jᵀ`` with ``R`` world to camera, and the direction from i to j."""
    lines = []
    for i, j in PAIRS:
        M = np.linalg.inv(world[i]) @ world[j]
        lines.append(f"{i} {j} {words(M[:3, :3])} {words(M[:3, 3] / np.linalg.norm(M[:3, 3]))}")
    path.write_text("\n".join(lines) + "\n")


def g2o_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    lines = []
    for k, M in world.items():
        w, x, y, z = quat.from_matrix(M[:3, :3])
        lines.append(f"VERTEX_SE3:QUAT {k} {words([*M[:3, 3], x, y, z, w])}")
    path.write_text("\n".join(lines) + "\n")


def toro_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    lines = []
    for k, M in world.items():
        yaw, pitch, roll = Rotation.from_matrix(M[:3, :3]).as_euler("ZYX")
        lines.append(f"VERTEX3 {k} {words([*M[:3, 3], roll, pitch, yaw])}")
    path.write_text("\n".join(lines) + "\n")


def pyfg_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    lines = []
    for k, M in world.items():
        w, x, y, z = quat.from_matrix(M[:3, :3])
        lines.append(f"VERTEX_SE3:QUAT 0.5 A{k} {words([*M[:3, 3], x, y, z, w])}")
    path.write_text("\n".join(lines) + "\n")


def csv_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    lines = ["id,x,y,z,qw,qx,qy,qz"]
    lines += [f"{k}," + words([*M[:3, 3], *quat.from_matrix(M[:3, :3])]).replace(" ", ",") for k, M in world.items()]
    path.write_text("\n".join(lines) + "\n")


def log_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    blocks = ["\n".join([f"{k} {k} {len(world)}", *(words(row) for row in M)]) for k, M in world.items()]
    path.write_text("\n".join(blocks) + "\n")


def tum_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    lines = []
    for k, M in world.items():
        w, x, y, z = quat.from_matrix(M[:3, :3])
        lines.append(f"{k} {words([*M[:3, 3], x, y, z, w])}")
    path.write_text("\n".join(lines) + "\n")


def kitti_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    path.write_text("".join(words(M[:3]) + "\n" for M in world.values()))


def euroc_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    lines = ["#timestamp [ns],p_RS_R_x [m],p_RS_R_y [m],p_RS_R_z [m],q_RS_w [],q_RS_x [],q_RS_y [],q_RS_z []"]
    lines += [f"{k}," + words([*M[:3, 3], *quat.from_matrix(M[:3, :3])]).replace(" ", ",") for k, M in world.items()]
    path.write_text("\n".join(lines) + "\n")


def epfl_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    path.write_text("".join(words(quat.from_matrix(M[:3, :3])).replace(" ", ",") + "\n" for M in world.values()))


def onedsfm_poses(path: Path, world: dict[int, np.ndarray]) -> None:
    """Bundler's cameras look along −z with y up: ``R_gt = R diag(1, −1, −1)``, camera to world."""
    names = [f"images/{k}.jpg" for k in range(len(NODES) + 1)]
    path.with_name("list.txt").write_text("".join(f"{name} 0 1000\n" for name in names))
    cells = {name: np.empty(len(world), dtype=object) for name in ("namesList", "R_gt", "T_gt")}
    for row, (k, M) in enumerate(world.items()):
        cells["namesList"][row] = names[k]
        cells["R_gt"][row], cells["T_gt"][row] = M[:3, :3] @ np.diag([1.0, -1.0, -1.0]), M[:3, 3].reshape(3, 1)
    savemat(path, cells)


Write = Callable[[Path, dict[int, np.ndarray]], None]


@dataclass(frozen=True)
class Format:
    """How a format is written by its own equation, and what it cannot hold."""

    graph: Write | None = None
    poses: Write | None = None
    graph_file: str = ""
    poses_file: str = ""
    rotations_only: bool = False
    written: bool = True  # by tempose, too
    from_zero: bool = False  # nodes have no names but their numbers, from 0
    prefix: str = ""  # of names that numbers get

    def names(self, ids: Sequence[int]) -> tuple[int | str, ...]:
        """What nodes with these ids, from 1, are called after reading."""
        if self.from_zero:
            return tuple(k - 1 for k in ids)
        return tuple(f"{self.prefix}{k}" if self.prefix else k for k in ids)


TABLE = {
    "g2o": Format(g2o_graph, g2o_poses, "a.g2o", "p.g2o"),
    "csv": Format(csv_graph, csv_poses, "a.csv", "p.csv"),
    "toro": Format(toro_graph, toro_poses, "a.toro", "p.toro"),
    "pyfg": Format(pyfg_graph, pyfg_poses, "a.pyfg", "p.pyfg", prefix="A"),
    "open3d": Format(open3d_graph, open3d_graph, "a.json", "p.json", from_zero=True),
    "3dmatch": Format(log_graph, log_poses, "a.log", "p.log"),
    "tum": Format(None, tum_poses, "", "p.tum"),
    "kitti": Format(None, kitti_poses, "", "p.kitti", from_zero=True),
    "euroc": Format(None, euroc_poses, "", "data.csv"),
    "epfl-rotations": Format(epfl_graph, epfl_poses, "Scene_Edges.txt", "Scene_Qabs.txt", rotations_only=True),
    "1dsfm": Format(onedsfm_graph, onedsfm_poses, "EGs.txt", "truth.mat", rotations_only=True, written=False),
}
GRAPHS = [name for name, one in TABLE.items() if one.graph is not None]


def test_no_format_is_left_out() -> None:
    assert set(TABLE) == set(FORMATS) - {"rosbag"}  # binary, by another package: tests/io/test_rosbag.py


# ---------------------------------------------------------------------- directions


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_by_its_equation_fits_the_true_poses_and_no_others(tmp_path: Path, name: str) -> None:
    one, poses = TABLE[name], truth()
    assert one.graph is not None
    one.graph(tmp_path / one.graph_file, dict(zip(NODES, matrices(poses), strict=True)))
    graph = read_graph(tmp_path / one.graph_file, OPTIONS)
    names = one.names(NODES)
    assert sorted(graph.node_ids) == list(names) and graph.n_edges == len(PAIRS)
    poses = replace(poses, ids=names)
    assert graph.has_translation.all() != one.rotations_only

    def off(candidate: Poses) -> tuple[float, float]:
        r = residuals(graph, candidate.select(graph.node_ids))
        return float(np.max(r.angle)), float(np.max(np.abs(np.nan_to_num(r.translation))))

    assert max(off(poses)) < 1e-7
    pairs = list(zip(one.names([i for i, _ in PAIRS]), one.names([j for _, j in PAIRS]), strict=True))
    assert graph.edge_names() == pairs  # as the file has them, whichever way the model turns them
    assert graph.edge_name(1) == "{} → {}".format(*pairs[1])
    wxyz, position = se3.inverse((poses.wxyz, poses.position))
    assert off(Poses(names, wxyz, position))[0] > 0.5  # negative control: node_from_world taken for world_from_node


@pytest.mark.parametrize("name", TABLE)
def test_poses_by_their_equation(tmp_path: Path, name: str) -> None:
    one, poses = TABLE[name], truth()
    assert one.poses is not None
    one.poses(tmp_path / one.poses_file, dict(zip(NODES, matrices(poses), strict=True)))
    found = read_poses(tmp_path / one.poses_file)
    assert found.ids == one.names(NODES)
    assert np.max(quat.angle_between(found.wxyz, poses.wxyz)) < 1e-7
    if name != "epfl-rotations":
        np.testing.assert_allclose(found.position, poses.position, atol=1e-12)


# ---------------------------------------------------------------------- there and back


def measured(rotations_only: bool) -> PoseGraph:
    rng = np.random.default_rng(5)
    m = len(PAIRS)
    t = np.full((m, 3), np.nan) if rotations_only else rng.standard_normal((m, 3))
    return PoseGraph.from_concentrations(PAIRS, quat.random_uniform(rng, m), t, concentration=50.0)


@pytest.mark.parametrize("name", [name for name in GRAPHS if TABLE[name].written])
def test_a_graph_comes_back(tmp_path: Path, name: str) -> None:
    one = TABLE[name]
    graph = measured(one.rotations_only)
    names = one.names(graph.node_ids)
    graph = replace(graph, node_ids=names, initial=Poses.identity(names))
    path = tmp_path / one.graph_file
    write_graph(path, graph)
    again = read_graph(path, OPTIONS)
    assert again.origin["format"] == name

    def edges(g: PoseGraph) -> dict[tuple[object, object], tuple[np.ndarray, np.ndarray]]:
        ends = zip(g.edge_i.tolist(), g.edge_j.tolist(), strict=True)
        poses = zip(g.j_from_i_wxyz, g.j_from_i_t, strict=True)
        return {(g.node_ids[i], g.node_ids[j]): pose for (i, j), pose in zip(ends, poses, strict=True)}

    assert edges_measure(path) == again.measures
    before, after = edges(graph), edges(again)
    assert set(before) == set(after)
    for ends, (wxyz, t) in before.items():
        assert quat.angle_between(wxyz, after[ends][0]) < 1e-7
        np.testing.assert_allclose(after[ends][1], t, atol=1e-14)
    write_graph(tmp_path / f"again_{one.graph_file}", again)  # a second time nothing changes any more
    twice = read_graph(tmp_path / f"again_{one.graph_file}", OPTIONS)
    np.testing.assert_array_equal(twice.j_from_i_t, again.j_from_i_t)
    np.testing.assert_allclose(twice.j_from_i_wxyz, again.j_from_i_wxyz, atol=1e-15)


@pytest.mark.parametrize("name", [name for name, one in TABLE.items() if one.written])
def test_poses_come_back(tmp_path: Path, name: str) -> None:
    path, poses = tmp_path / TABLE[name].poses_file, truth()
    if name == "epfl-rotations":
        poses = replace(poses, position=np.zeros((len(NODES), 3)))
    poses = replace(poses, ids=TABLE[name].names(poses.ids))
    write_poses(path, poses, format=name)
    again = read_poses(path)
    assert again.ids == poses.ids
    np.testing.assert_allclose(
        again.wxyz * np.sign(np.sum(again.wxyz * poses.wxyz, axis=1))[:, None], poses.wxyz, atol=1e-14
    )
    np.testing.assert_allclose(again.position, poses.position, atol=1e-14)


def test_what_is_not_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="read and not written"):
        write_graph(tmp_path / "EGs.txt", measured(True))
    with pytest.raises(FileError, match="poses and no edges"):
        write_graph(tmp_path / "a.tum", measured(False))


def holds(name: str, path: Path, graph: PoseGraph) -> bool:
    """Whether a format can hold a graph; if not, it says so in a line, and leaves no file."""
    with contextlib.suppress(GraphError):
        write_graph(path, graph)
        return True
    with pytest.raises(GraphError, match=r"\.csv") as caught:
        write_graph(path, graph)
    assert "\n" not in str(caught.value) and not list(path.parent.iterdir())
    return False


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in GRAPHS if TABLE[name].written])
def test_every_kind_of_graph_comes_back_or_is_refused_in_a_line(tmp_path: Path, name: str, kind: str) -> None:
    """The same energies of all edges at any poses; a format that cannot hold a graph says so, and leaves no file."""
    rng = np.random.default_rng(12)
    graph, path = graph_of(kind, rng), tmp_path / TABLE[name].graph_file
    graph = replace(graph, initial=graph.initial or random_poses(graph, rng))
    if name != "csv" and not holds(name, path, graph):
        return
    write_graph(path, graph)
    if name in ("3dmatch", "epfl-rotations"):
        assert "no place for precisions" in str(left_out(graph, path))
        return
    # at random poses the fixed node is far from where it is measured
    again = csvfile.read_graph(path, trusted=True) if name == "csv" else read_graph(path)
    if name == "pyfg":
        points = set(graph.landmarks)
        called = {k: k if k == WORLD else f"{'L' if k in points else 'A'}{k}" for k in graph.node_ids}
        graph = replace(
            graph,
            node_ids=tuple(called.values()),
            landmarks=tuple(called[k] for k in graph.landmarks),
            initial=None,
            fixed_at=None,
        )
    assert left_out(graph, path) is None
    assert set(again.node_ids) == set(graph.node_ids) and again.dimension == graph.dimension
    assert set(again.landmarks) == set(graph.landmarks) and again.fixed == graph.fixed
    for _ in range(3):
        poses = random_poses(graph, rng)
        energies = [Posterior(g).energies(poses.select(g.node_ids)) for g in (graph, again)]
        np.testing.assert_allclose(energies[0], energies[1], rtol=1e-9, atol=1e-11)


def test_g2o_holds_all_but_lever_arms_between_nodes(tmp_path: Path) -> None:
    """What is refused above is what has to be."""
    refused = set()
    for kind in KINDS:
        graph = graph_of(kind, rng := np.random.default_rng(12))
        graph = replace(graph, initial=random_poses(graph, rng))
        (tmp_path / kind).mkdir()
        if not holds("g2o", tmp_path / kind / "a.g2o", graph):
            refused.add(kind)
    assert refused == {kind for kind in KINDS if "arm" in kind or "combined" in kind}
    lonely = PoseGraph((1, 2, 3), [0], [1], [[1, 0, 0, 0]], [[0, 0, 0]], np.ones(1), np.ones(1))
    with pytest.raises(GraphError, match="node 3 is in no edge between nodes"):
        write_graph(tmp_path / "a.g2o", lonely)


# ---------------------------------------------------------------------- defects


def spoilt(path: Path, line: int) -> None:
    """Replace the last number of a line by a word."""
    lines = path.read_text().split("\n")
    lines[line - 1] = lines[line - 1][:-1].rstrip("0123456789.-e") + "x"
    path.write_text("\n".join(lines))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_defect_of_a_graph_is_told_by_file_and_line(tmp_path: Path, name: str) -> None:
    one = TABLE[name]
    assert one.graph is not None
    path = tmp_path / one.graph_file
    one.graph(path, dict(zip(NODES, matrices(truth()), strict=True)))
    spoilt(path, 3)
    with pytest.raises(ParseError) as caught:
        read_graph(path, OPTIONS)
    assert caught.value.line == 3
    assert str(caught.value).startswith(f"{path}:3: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in TABLE if name != "1dsfm"])  # a MATLAB file has no lines
def test_a_defect_of_poses_is_told_by_file_and_line(tmp_path: Path, name: str) -> None:
    one = TABLE[name]
    assert one.poses is not None
    path = tmp_path / one.poses_file
    one.poses(path, dict(zip(NODES, matrices(truth()), strict=True)))
    spoilt(path, 3)
    with pytest.raises(ParseError) as caught:
        read_poses(path)
    assert caught.value.line == 3
    assert str(caught.value).startswith(f"{path}:3: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TABLE)
def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParseError, match="p") as caught:
        read_poses(tmp_path / "nowhere" / TABLE[name].poses_file)
    assert "nowhere" in str(caught.value)
