"""Camera models: COLMAP's own images of points, and derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest

from tempose.errors import NotApplicable
from tempose.sfm.adjustment.lenses import LENSES, derivatives, lens_of, project

pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")


def example(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Parameters with distortion, and points in front of the camera and behind it."""
    rng = np.random.default_rng(0)
    lens = LENSES[name]
    parameters = np.array(pycolmap.Camera.create_from_model_name(1, name, 1000.0, 1000, 800).params)
    parameters[list(lens.further)] += rng.uniform(0.01, 0.05, len(lens.further))
    if len(lens.focal) == 2:
        parameters[1] = 1100.0
    point = np.concatenate([0.6 * rng.normal(size=(60, 2)), rng.uniform(1.0, 3.0, (60, 1))], axis=1)
    point[::6, 2] *= -1.0
    point[1, :2] = 0.0
    return parameters, point


def test_every_model_of_colmap_is_known() -> None:
    assert set(LENSES) == set(pycolmap.CameraModelId.__members__) - {"INVALID"}
    with pytest.raises(NotApplicable, match="KODAK is not known; known are SIMPLE_PINHOLE"):
        lens_of("KODAK")


@pytest.mark.parametrize("name", LENSES)
def test_model_is_colmaps(name: str) -> None:
    parameters, point = example(name)
    lens, camera = LENSES[name], pycolmap.Camera.create_from_model_name(1, name, 1000.0, 1000, 800)
    camera.params = parameters
    assert lens.names == tuple(word.strip() for word in camera.params_info.split(","))
    assert [list(lens.focal), list(lens.centre), list(lens.further)] == [
        list(camera.focal_length_idxs()),
        list(camera.principal_point_idxs()),
        list(camera.extra_params_idxs()),
    ]
    theirs = [camera.img_from_cam(x) for x in point]
    expected = np.array([[np.nan, np.nan] if x is None else x for x in theirs])
    np.testing.assert_allclose(project(lens, parameters, point), expected, rtol=1e-11, equal_nan=True)


@pytest.mark.parametrize("name", LENSES)
def test_derivatives_are_those_of_differences(name: str) -> None:
    parameters, point = example(name)
    lens, h = LENSES[name], 1e-6
    point = point[np.isfinite(project(lens, parameters, point)).all(axis=1)]
    by_point, by_parameter = derivatives(lens, parameters, point)

    def differences(move: object, size: int) -> np.ndarray:
        return np.stack([(move(h * e) - move(-h * e)) / (2 * h) for e in np.eye(size)], axis=2)  # type: ignore[operator]

    np.testing.assert_allclose(
        by_point, differences(lambda d: project(lens, parameters, point + d), 3), rtol=1e-6, atol=1e-4
    )
    np.testing.assert_allclose(
        by_parameter, differences(lambda d: project(lens, parameters + d, point), len(parameters)), rtol=1e-6, atol=1e-4
    )
