"""COLMAP's files: what is written is read back, and what cannot be read is told in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io.colmap.cameras import ColmapCamera, read_camera
from tempose.io.colmap.database import count_rows, read_database
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
    with pytest.raises(ParseError, match="cannot be read as a COLMAP database"):
        read_database(tmp_path / "text.db")
    assert count_rows(tmp_path / "none.db", "matches") == count_rows(tmp_path / "text.db", "matches") == 0
