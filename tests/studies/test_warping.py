"""Warped photographs: what was seen at a pixel is where the camera model says it must be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.studies.warping import CROP, VARIANTS, Warping, bent, turned_truth, write_warped

K = np.array([[160.0, 0.0, 101.0], [0.0, 160.0, 78.0], [0.0, 0.0, 1.0]])
SIZE = (200, 150)


def dot(x: float, y: float) -> np.ndarray:
    """A white spot on black (h, w, 3)."""
    v, u = np.mgrid[0 : SIZE[1], 0 : SIZE[0]]
    spot = 255.0 * np.exp(-0.5 * ((u - x) ** 2 + (v - y) ** 2) / 3.0**2)
    return np.repeat(spot[..., None], 3, axis=2).astype(np.uint8)


def centre(image: np.ndarray) -> np.ndarray:
    """Where the spot is, (x, y)."""
    weight = image[..., 0].astype(float)
    weight[weight < 60.0] = 0.0
    v, u = np.mgrid[0 : image.shape[0], 0 : image.shape[1]]
    return np.array([(u * weight).sum(), (v * weight).sum()]) / weight.sum()


@pytest.mark.parametrize("k1", [-0.25, 0.1])
def test_a_ray_is_seen_where_the_distortion_puts_it(k1: float) -> None:
    at = np.array([150.0, 40.0])
    ray = (at - K[:2, 2]) / 160.0
    expected = ray * (1.0 + k1 * (ray @ ray)) * 160.0 + K[:2, 2]
    np.testing.assert_allclose(centre(bent(dot(*at), K, k1)), expected, atol=0.15)
    assert np.linalg.norm(expected - at) > 0.9  # it has moved


def test_turned_cameras_see_their_turned_images(tmp_path: Path) -> None:
    """A point is projected by the turned pose to where it is in the turned image; the pose as it was does not do it."""
    pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")
    source, point = tmp_path / "in", np.array([0.2, -0.1, 2.0])
    source.mkdir()
    np.savetxt(source / "K.txt", K)
    wxyz = quat.exp(np.array([[0.02, -0.05, 0.03]] * 4) * np.arange(4)[:, None])
    truth = Poses(tuple(f"{k}.png" for k in range(4)), wxyz, np.zeros((4, 3)))

    def projected(poses: Poses, k: int, middle: np.ndarray) -> np.ndarray:
        y = quat.rotate(quat.conjugate(poses.wxyz[k]), point)
        return 160.0 * y[:2] / y[2] + middle

    for k in range(4):
        image = dot(*projected(truth, k, K[:2, 2]))
        pycolmap.Bitmap.from_array(image).write(source / f"{k}.png")
    write_warped(source, tmp_path / "out", VARIANTS["turned"])
    turned = turned_truth(truth, VARIANTS["turned"])
    for k in range(4):
        image = pycolmap.Bitmap.read(tmp_path / "out" / f"{k}.png", as_rgb=True).to_array()
        is_turned = k % 3 == 0
        assert image.shape[:2] == ((200, 150) if is_turned else (150, 200))
        middle = np.array([K[1, 2], SIZE[0] - 1 - K[0, 2]]) if is_turned else K[:2, 2]
        np.testing.assert_allclose(projected(turned, k, middle), centre(image), atol=0.3)
        assert (np.linalg.norm(projected(truth, k, middle) - centre(image)) > 5.0) == is_turned


def test_every_other_photograph_is_cropped(tmp_path: Path) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")
    source = tmp_path / "in"
    source.mkdir()
    np.savetxt(source / "K.txt", K)
    for k in range(3):
        pycolmap.Bitmap.from_array(dot(120.0, 70.0)).write(source / f"{k}.png")
    write_warped(source, tmp_path / "out", Warping(cropped=2))
    images = [pycolmap.Bitmap.read(tmp_path / "out" / f"{k}.png", as_rgb=True).to_array() for k in range(3)]
    assert [one.shape[:2] for one in images] == [(150, 200), (150 - 2 * (150 // CROP), 150), (150, 200)]
    np.testing.assert_allclose(centre(images[0]) - centre(images[1]), [200 // CROP, 150 // CROP], atol=0.01)
