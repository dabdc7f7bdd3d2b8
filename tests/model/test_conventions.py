"""Covariances in the frame and order of other software: by the chart of each, and against the software itself."""

from __future__ import annotations

import numpy as np
import pytest

from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.model.conventions import AXES, CONVENTIONS, axes_of, converted, jacobians

R = quat.to_matrix(quat.exp(np.array([0.3, -0.5, 1.2])))
P = np.array([0.7, -2.0, 3.0])


def rotation(v: np.ndarray) -> np.ndarray:
    return quat.to_matrix(quat.exp(v))


def by_vector(v: np.ndarray) -> np.ndarray:
    """The rotation whose quaternion has the vector part v."""
    return quat.to_matrix(np.array([np.sqrt(1.0 - v @ v), *v]))


# what each software does to a pose (R, p) given six numbers, in the plainest code
CHARTS = {
    "tempose": lambda x: (rotation(x[:3]) @ R, P + x[3:]),
    "gtsam": lambda x: (R @ rotation(x[:3]), P + R @ x[3:]),
    "ros": lambda x: (rotation(x[3:]) @ R, P + x[:3]),
    "g2o": lambda x: (R @ by_vector(x[3:]), P + R @ x[:3]),
    "colmap": lambda x: _from_camera(by_vector(x[:3]) @ R.T, -R.T @ P + x[3:]),
}


def _from_camera(turn: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return turn.T, -turn.T @ t


def test_every_convention_is_tested() -> None:
    assert set(CHARTS) == set(CONVENTIONS) == set(AXES)


@pytest.mark.parametrize("name", CHARTS)
def test_jacobians_by_finite_differences(name: str) -> None:
    """Of tempose's coordinates of a moved pose by those of the convention; its inverse is the Jacobian."""
    h = 1e-6
    columns = []
    for k in range(6):
        ends = []
        for sign in (1.0, -1.0):
            turn, p = CHARTS[name](sign * h * np.eye(6)[k])
            ends.append(np.concatenate([quat.log(quat.from_matrix(turn @ R.T)), p - P]))
        columns.append((ends[0] - ends[1]) / (2 * h))
    wxyz = quat.from_matrix(R)[None]
    np.testing.assert_allclose(jacobians(wxyz, P[None], name)[0] @ np.array(columns).T, np.eye(6), atol=1e-8)


def test_the_conventions_differ() -> None:
    """Negative control: no two give the same matrix."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(6, 6))
    found = [converted((root @ root.T)[None], quat.from_matrix(R)[None], P[None], name)[0] for name in CHARTS]
    for k in range(len(found)):
        for other in found[:k]:
            assert np.max(np.abs(found[k] - other)) > 0.1


def test_colmap_says_the_same() -> None:
    """Of a camera that sees forty known points: ``refine_absolute_pose`` against the Hessian in tempose's own coordinates."""
    pycolmap = pytest.importorskip("pycolmap")
    rng = np.random.default_rng(0)
    points = R @ (rng.normal(size=(3, 40)) + np.array([[0.0], [0.0], [5.0]])) + P[:, None]
    camera = pycolmap.Camera(model="PINHOLE", width=1000, height=1000, params=[800, 800, 500, 500])

    def pixels(x: np.ndarray) -> np.ndarray:
        turn, p = CHARTS["tempose"](x)
        seen = turn.T @ (points - p[:, None])
        return (800 * seen[:2] / seen[2] + 500).T

    motion = pycolmap.Rigid3d(pycolmap.Rotation3d(R.T), -R.T @ P)
    mask = np.ones(40, dtype=bool)
    theirs = pycolmap.refine_absolute_pose(motion, pixels(np.zeros(6)), points.T, mask, camera, return_covariance=True)
    h = 1e-6
    J = np.array([(pixels(h * e) - pixels(-h * e)).ravel() / (2 * h) for e in np.eye(6)]).T
    ours = converted(np.linalg.inv(J.T @ J)[None], quat.from_matrix(R)[None], P[None], "colmap")[0]
    np.testing.assert_allclose(ours, theirs["covariance"], rtol=1e-5, atol=1e-12)


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(OptionError, match="unknown convention"):
        axes_of("ceres")
    with pytest.raises(OptionError, match="colmap has no planar poses"):
        axes_of("colmap", planar=True)
    assert axes_of("gtsam", planar=True) == ("x", "y", "theta") and len(axes_of("ros", planar=True)) == 6
