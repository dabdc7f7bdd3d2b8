"""``transforms.json``: the convention by its equation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.io.transforms import write_transforms
from tempose.model.poses import Poses


def test_a_point_has_the_same_pixel_in_both_conventions(tmp_path: Path) -> None:
    """Ours: x right, y down, z ahead. Theirs: x right, y up, −z ahead; pixels have y down in both."""
    rng = np.random.default_rng(1)
    poses = Poses(("a.jpg", "b.jpg"), quat.normalize(rng.normal(size=(2, 4))), rng.normal(size=(2, 3)))
    K = np.array([[[800.0, 0, 320], [0, 810, 240], [0, 0, 1]]] * 2)
    write_transforms(tmp_path / "transforms.json", poses, K, np.array([[640, 480]] * 2), points="points.ply")
    found = json.loads((tmp_path / "transforms.json").read_text())
    assert found["ply_file_path"] == "points.ply" and [one["file_path"] for one in found["frames"]] == [
        "a.jpg",
        "b.jpg",
    ]
    for k, frame in enumerate(found["frames"]):
        R, p = quat.to_matrix(poses.wxyz[k]), poses.position[k]
        seen = np.array([0.3, -0.2, 4.0])  # in our camera: right, above the middle, ahead
        ours = K[k] @ seen
        theirs = np.linalg.inv(np.array(frame["transform_matrix"])) @ np.append(R @ seen + p, 1.0)
        u = frame["fl_x"] * theirs[0] / -theirs[2] + frame["cx"]
        v = frame["fl_y"] * -theirs[1] / -theirs[2] + frame["cy"]
        np.testing.assert_allclose([u, v], ours[:2] / ours[2])
        assert (frame["w"], frame["h"]) == (640, 480)
        assert np.linalg.det(np.array(frame["transform_matrix"])[:3, :3]) > 0.999
