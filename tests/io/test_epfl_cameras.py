"""``.camera`` files: what is not a rotation is no camera."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempose.errors import ParseError
from tempose.geometry import quaternion as quat
from tempose.io.epfl_cameras import read_epfl_cameras

R = quat.to_matrix(quat.normalize(np.array([0.3, -0.2, 0.5, 0.7])))


def write(path: Path, rotation: np.ndarray, position: object = (1.0, 2.0, 3.0)) -> None:
    rows = [*np.diag([900.0, 900.0, 1.0]), [0, 0, 0], *rotation, position, [3072, 2048]]
    path.write_text("\n".join(" ".join(repr(float(x)) for x in row) for row in rows) + "\n")


def test_a_rotation_is_read(tmp_path: Path) -> None:
    write(tmp_path / "b.jpg.camera", R)
    write(tmp_path / "a.jpg.camera", R + 1e-6)
    poses = read_epfl_cameras(tmp_path)
    assert poses.ids == ("a.jpg", "b.jpg")
    np.testing.assert_allclose(quat.to_matrix(poses.wxyz), [R, R], atol=3e-6)
    np.testing.assert_allclose(poses.position, [[1, 2, 3]] * 2)


@pytest.mark.parametrize(
    ("matrix", "why"),
    [
        (np.zeros((3, 3)), "no rotation"),
        (R @ np.diag([1.0, 1.0, -1.0]), "mirrors space"),
        (1.5 * R, "no rotation"),
        (R @ np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), "no rotation"),
        (np.full((3, 3), np.nan), "finite"),
        (np.full((3, 3), 1e200), "at most"),
    ],
)
def test_what_is_no_rotation_is_refused(tmp_path: Path, matrix: np.ndarray, why: str) -> None:
    write(tmp_path / "a.jpg.camera", matrix)
    with pytest.raises(ParseError, match=why):
        read_epfl_cameras(tmp_path)


def test_a_position_that_is_none_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.jpg.camera", R, (1.0, np.inf, 0.0))
    with pytest.raises(ParseError, match=r"a\.jpg\.camera:8"):
        read_epfl_cameras(tmp_path)
