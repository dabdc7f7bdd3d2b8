"""COLMAP's files: what is written is read back, and what cannot be read is told in one line."""

from __future__ import annotations

import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tempose.cli import main
from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io import read_graph, read_poses
from tempose.io.colmap.cameras import ColmapCamera, read_camera
from tempose.io.colmap.database import read_database
from tempose.io.colmap.model import ModelPoints, is_model, model_poses, read_model, write_model
from tempose.model.poses import Poses

K = np.array([[1000.0, 0.0, 500.0], [0.0, 1010.0, 400.0], [0.0, 0.0, 1.0]])


def test_camera_files(tmp_path: Path) -> None:
    file = tmp_path / "K.txt"
    file.write_text("1000 0 500\n0 1010 400\n0 0 1\n")
    np.testing.assert_allclose(read_camera(file).K, [[1000, 0, 500.5], [0, 1010, 400.5], [0, 0, 1]])
    file.write_text("# cameras\n1 PINHOLE 1000 800 1000 1010 500 400\n")
    np.testing.assert_allclose(read_camera(file).K, K)
    for bad in ("1 2 3", "1000 5 500 0 1000 400 0 0 1", "1 PINHOLE wide 800 1000 1010 500 400", "-1 0 0 0 1 0 0 0 1"):
        file.write_text(bad)
        with pytest.raises(ParseError, match=r"K\.txt"):
            read_camera(file)


def test_a_pinhole_needs_no_pycolmap_and_has_no_distortion() -> None:
    camera = ColmapCamera.pinhole(K, np.array([1000, 800]))
    assert camera.is_pinhole and camera.size == (1000, 800) and np.array_equal(camera.K, K)
    pixel = np.array([[1.0, 2.0]])
    assert camera.undistorted(pixel) is pixel
    assert ColmapCamera.numbered(0, 10, 10, np.array([5.0, 1.0, 2.0])).model == "SIMPLE_PINHOLE"


def test_distortion_is_taken_out() -> None:
    """The pinhole sees the ray that the camera saw."""
    pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")
    camera = ColmapCamera("SIMPLE_RADIAL", 1000, 800, np.array([1000.0, 500.0, 400.0, 0.1]))
    ray = np.array([[0.1, -0.2], [0.3, 0.25]])
    seen = np.array([camera.pycolmap().img_from_cam(np.append(one, 1.0)) for one in ray])
    straight = 500.0 + 1000.0 * ray[:, 0]
    assert np.abs(seen[:, 0] - straight).max() > 1.0
    np.testing.assert_allclose(camera.undistorted(seen)[:, 0], straight, atol=1e-6)
    assert pycolmap is not None


def some_model() -> tuple[Poses, ModelPoints]:
    """Three cameras, two points with the numbers 3 and 8; the second camera sees only the second point."""
    wxyz = quat.normalize(np.random.default_rng(0).standard_normal((3, 4)))
    poses = Poses(("a.jpg", "b.jpg", "c.jpg"), wxyz, np.arange(9.0).reshape(3, 3))
    points = ModelPoints(
        number=np.array([3, 8]),
        position=np.array([[0.1, 0.2, 0.3], [1e-17, -2.0, 3.0]]),
        error_px=np.array([0.5, 0.25]),
        colour=None,
        camera_of=np.array([0, 2, 0, 1, 2]),
        point_of=np.array([0, 0, 1, 1, 1]),
        pixel=np.array([[1.5, 2.5], [3.25, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 0.1]]),
    )
    return poses, points


def test_poses_of_a_model_are_read_like_any_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By eval, info and convert, without pycolmap; a graph it is not."""
    poses, points = some_model()
    model = tmp_path / "model"
    write_model(model, poses, np.tile(K, (3, 1, 1)), np.tile([1000, 800], (3, 1)), points)
    found = read_poses(model)
    assert found.ids == poses.ids
    np.testing.assert_allclose(found.position, poses.position, atol=1e-12)
    assert np.max(quat.angle_between(found.wxyz, poses.wxyz)) < 1e-7
    with pytest.raises(ParseError, match=r"holds poses and no edges; tempose sfm makes a graph of it"):
        read_graph(model)
    assert main(["info", str(model)]) == 0 and "3 poses and no edges" in capsys.readouterr().out
    assert main(["convert", str(model), str(tmp_path / "p.csv")]) == 0
    assert main(["eval", str(model), str(tmp_path / "p.csv"), "--json"]) == 0
    lines = (model / "images.txt").read_text().split("\n")
    turned = next(k for k, line in enumerate(lines) if line and not line.startswith("#"))
    lines[turned] = " ".join(["1", "9", *lines[turned].split()[2:]])  # no unit quaternion
    (model / "images.txt").write_text("\n".join(lines))
    with pytest.raises(ParseError, match="is not a unit quaternion"):
        read_poses(model)


def test_binary_poses_are_those_of_pycolmap(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")
    poses, points = some_model()
    write_model(tmp_path, poses, np.tile(K, (3, 1, 1)), np.tile([1000, 800], (3, 1)), points)
    model = pycolmap.Reconstruction(tmp_path)
    (tmp_path / "binary").mkdir()
    model.write_binary(tmp_path / "binary")
    found, same = read_poses(tmp_path / "binary"), model_poses(model)
    np.testing.assert_allclose(found.position, same.select(found.ids).position, atol=1e-12)


def test_a_model_comes_back_as_it_was_written(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")
    poses, points = some_model()
    write_model(tmp_path / "model", poses, np.tile(K, (3, 1, 1)), np.tile([1000, 800], (3, 1)), points)
    assert is_model(tmp_path / "model") and not is_model(tmp_path)
    found = read_model(tmp_path / "model")
    assert found.names == poses.ids and all(np.array_equal(camera.K, K) for camera in found.cameras)
    assert [tracks.tolist() for tracks in found.tracks] == [[3, 8], [8], [3, 8]]
    np.testing.assert_array_equal(np.concatenate(found.pixels), points.pixel[[0, 2, 3, 1, 4]])
    model = pycolmap.Reconstruction(tmp_path / "model")
    back = model_poses(model).select(poses.ids)
    np.testing.assert_allclose(back.position, poses.position, atol=1e-12)
    assert quat.angle_between(back.wxyz, poses.wxyz).max() < 1e-7
    for row, number in enumerate(points.number.tolist()):
        point = model.points3D[number]
        assert np.array_equal(point.xyz, points.position[row]) and point.error == points.error_px[row]
        ends = {
            (e.image_id - 1, tuple(model.images[e.image_id].points2D[e.point2D_idx].xy)) for e in point.track.elements
        }
        own = points.point_of == row
        assert ends == set(zip(points.camera_of[own].tolist(), map(tuple, points.pixel[own].tolist()), strict=True))


def test_what_cannot_be_written_or_read_is_told(tmp_path: Path) -> None:
    poses, points = some_model()
    skewed = np.tile(np.where(np.arange(9).reshape(3, 3) == 1, 2.0, K), (3, 1, 1))
    with pytest.raises(GraphError, match="no skew"):
        write_model(tmp_path, poses, skewed, np.tile([1000, 800], (3, 1)), points)
    with pytest.raises(ParseError, match="no such file"):
        read_database(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("not SQLite")
    with pytest.raises(ParseError, match="not a COLMAP database"):
        read_database(tmp_path / "text.db")
    with closing(sqlite3.connect(tmp_path / "torn.db")) as connection:
        connection.execute("CREATE TABLE matches (pair_id INTEGER)")
    torn = (tmp_path / "torn.db").read_bytes().replace(b"pair_id INTEGER", b"pair_id\xff\xfeNTEGER")
    (tmp_path / "torn.db").write_bytes(torn)  # an error of Python's module, which has no code of SQLite
    with pytest.raises(ParseError, match="cannot be read as a COLMAP database"):
        read_database(tmp_path / "torn.db")


TABLES = """
CREATE TABLE cameras (camera_id INTEGER PRIMARY KEY, model, width, height, params, prior_focal_length);
CREATE TABLE images (image_id INTEGER PRIMARY KEY, name, camera_id);
CREATE TABLE keypoints (image_id INTEGER PRIMARY KEY, rows, cols, data);
CREATE TABLE descriptors (image_id INTEGER PRIMARY KEY, rows, cols, data);
CREATE TABLE matches (pair_id INTEGER PRIMARY KEY, rows, cols, data);
CREATE TABLE two_view_geometries (pair_id INTEGER PRIMARY KEY, rows, cols, data, config);
"""


def small_database(path: Path, *spoil: str) -> Path:
    with closing(sqlite3.connect(path)) as base:
        base.executescript(TABLES)
        base.execute("INSERT INTO cameras VALUES (1, 1, 1000, 800, ?, 1)", [np.array([900.0, 900, 500, 400]).tobytes()])
        for k in (1, 2):
            base.execute("INSERT INTO images VALUES (?, ?, 1)", [k, f"{k}.jpg"])
            pixel = np.arange(6, dtype=np.float32).tobytes()
            base.execute("INSERT INTO keypoints VALUES (?, 3, 2, ?)", [k, pixel])
        pair = np.array([[0, 1], [2, 0]], dtype=np.uint32).tobytes()
        base.execute("INSERT INTO matches VALUES (?, 2, 2, ?)", [2147483647 + 2, pair])
        for statement in spoil:
            base.execute(statement)
        base.commit()
    return path


def test_a_database_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / "wal.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")  # which wants a file beside it even to be read
        made.execute("CREATE TABLE images (image_id INTEGER)")
        made.commit()
    code = (
        "import resource, signal, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from tempose.io.colmap.database import _open, _opened\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))\n"
        "try:\n    _opened(Path(sys.argv[1]), 'mode=ro')\n    print('no need')\n"
        "except sqlite3.OperationalError:\n    print(_open(Path(sys.argv[1])).execute('SELECT count(*) FROM images').fetchone())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == "(0,)\n"


@pytest.mark.parametrize("name", ["a#b", "a?mode=memory", "100%41", "ü b", "a%23?#"])
def test_databases_in_folders_of_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = small_database(folder / f"{name}.db")
    found = read_database(path)
    assert found.names == ("1.jpg", "2.jpg") and found.matches[0, 1].tolist() == [[0, 1], [2, 0]]
    assert [p.name for p in tmp_path.iterdir()] == [name] and [p.name for p in folder.iterdir()] == [f"{name}.db"]


@pytest.mark.parametrize(
    "spoil",
    [
        f"UPDATE {table} SET {column} = {value}"
        for table, columns in {
            "cameras": ["model", "width", "height", "params"],
            "images": ["name", "camera_id"],
            "keypoints": ["rows", "cols", "data"],
            "matches": ["rows", "data"],
        }.items()
        for column in columns
        for value in ("'text'", "NULL", "-5", "1e300", "x'00ff'", "4000000000000")
        if not (column == "name" and value == "'text'")
    ],
)
def test_cells_that_hold_something_else(tmp_path: Path, spoil: str) -> None:
    path = small_database(tmp_path / "a.db", spoil)
    with pytest.raises(ParseError, match="cannot be read as a COLMAP database"):
        read_database(path)


def test_a_view_in_place_of_a_table_is_refused(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x FROM n) SELECT x AS camera_id FROM n"
    path = small_database(tmp_path / "a.db", "DROP TABLE cameras", f"CREATE VIEW cameras AS {endless}")
    with pytest.raises(ParseError, match="no table of COLMAP"):
        read_database(path)


def binary_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "cameras.bin").write_bytes(struct.pack("<QIiQQ4d", 1, 7, 1, 1000, 800, 1000.0, 1010.0, 500.0, 400.0))
    image = (
        struct.pack("<I7dI", 1, 1, 0, 0, 0, 0, 0, 0, 7)
        + b"a b.jpg\0"
        + struct.pack("<Qddqddq", 2, 1.5, 2.5, 9, 3, 4, -1)
    )
    (folder / "images.bin").write_bytes(struct.pack("<Q", 1) + image)
    (folder / "points3D.bin").write_bytes(struct.pack("<Q", 0))
    return folder


def test_a_binary_model(tmp_path: Path) -> None:
    found = read_model(binary_model(tmp_path / "model"))
    assert found.names == ("a b.jpg",) and found.tracks[0].tolist() == [9] and found.pixels[0].tolist() == [[1.5, 2.5]]
    np.testing.assert_allclose(found.cameras[0].K, K)


def test_binary_models_that_are_cut_or_count_wrongly(tmp_path: Path) -> None:
    """The counts of such files made pycolmap hang, or ask for more memory than there is."""
    folder = binary_model(tmp_path / "model")
    for name in ("cameras.bin", "images.bin"):
        data = (folder / name).read_bytes()
        for size in range(len(data)):
            (folder / name).write_bytes(data[:size])
            with pytest.raises(ParseError, match=name):
                read_model(folder)
        (folder / name).write_bytes(struct.pack("<Q", 1 << 60) + data[8:])
        with pytest.raises(ParseError, match="cut off"):
            read_model(folder)
        (folder / name).write_bytes(data + b"more")
        with pytest.raises(ParseError, match="more in it"):
            read_model(folder)
        (folder / name).write_bytes(data)


def test_cameras_with_the_wrong_parameters(tmp_path: Path) -> None:
    file = tmp_path / "cameras.txt"
    for bad in ("1 PINHOLE 10 10 5", "1 NO_SUCH 10 10 5 5 5 5", "1 PINHOLE 10 10 nan 5 5 5", "1 RADIAL 10 10 -5 5 5 0 0",
                "1 PINHOLE 10 10 1e300 5 5 5", "1 PINHOLE -1 10 5 5 5 5"):  # fmt: skip
        file.write_text(bad)
        with pytest.raises(ParseError, match=r"cameras\.txt:1"):
            read_camera(file)
