"""A pose is a value: the group, its matrix and scipy's rotation agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tempose.errors import GraphError
from tempose.geometry import quaternion as quat
from tempose.model.pose import Pose
from tempose.model.poses import Poses


def some(seed: int) -> Pose:
    rng = np.random.default_rng(seed)
    return Pose(quat.random_uniform(rng), rng.standard_normal(3))


def test_the_group_is_that_of_matrices() -> None:
    a, b, x = some(1), some(2), np.random.default_rng(3).standard_normal((5, 3))
    np.testing.assert_allclose((a @ b).matrix, a.matrix @ b.matrix, atol=1e-14)
    np.testing.assert_allclose(a.inverse().matrix, np.linalg.inv(a.matrix), atol=1e-14)
    np.testing.assert_allclose((a @ a.inverse()).matrix, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(a @ x, x @ a.matrix[:3, :3].T + a.matrix[:3, 3], atol=1e-14)
    np.testing.assert_allclose(Pose.identity().matrix, np.eye(4))
    assert not np.allclose((a @ b).matrix, (b @ a).matrix)


def test_scipy_and_matrices_go_round() -> None:
    a = some(4)
    np.testing.assert_allclose(a.rotation.as_matrix(), a.matrix[:3, :3], atol=1e-14)
    np.testing.assert_allclose(Pose.from_rotation(a.rotation, a.position).matrix, a.matrix, atol=1e-14)
    np.testing.assert_allclose(Pose.from_matrix(a.matrix).matrix, a.matrix, atol=1e-14)
    assert Pose.from_rotation(Rotation.from_rotvec([0.0, 0.0, np.pi / 2])).wxyz == pytest.approx(
        [np.sqrt(0.5), 0, 0, np.sqrt(0.5)]
    )
    assert repr(Pose.identity()) == "Pose(wxyz=[1. 0. 0. 0.], position=[0. 0. 0.])"


@pytest.mark.parametrize(
    ("wxyz", "position", "message"),
    [
        ([1, 0, 0], [0, 0, 0], "wxyz of a pose must be 4"),
        ([2, 0, 0, 0], [0, 0, 0], "unit length"),
        ([1, 0, 0, 0], [0, np.inf, 0], "position of a pose must be 3 finite"),
    ],
)
def test_a_pose_is_checked(wxyz: list[float], position: list[float], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Pose(np.array(wxyz), np.array(position))


def test_poses_are_a_mapping_of_poses() -> None:
    rng = np.random.default_rng(5)
    poses = Poses(("a", 2, "c"), quat.random_uniform(rng, 3), rng.standard_normal((3, 3)))
    assert list(poses) == ["a", 2, "c"] and 2 in poses and "z" not in poses
    np.testing.assert_allclose(np.stack([poses[name].matrix for name in poses]), poses.matrices(), atol=1e-15)
    again = Poses.from_matrices(poses.ids, poses.matrices())
    np.testing.assert_allclose(again.matrices(), poses.matrices(), atol=1e-14)
    np.testing.assert_allclose(poses.rotations.as_matrix(), poses.matrices()[:, :3, :3], atol=1e-14)
    np.testing.assert_allclose((poses["a"] @ poses.relative("a", 2)).matrix, poses[2].matrix, atol=1e-14)
    with pytest.raises(GraphError, match="no node 'z' among these 3 poses"):
        poses["z"]
    with pytest.raises(GraphError, match="no rotation"):
        Poses.from_matrices([1], [np.diag([1.0, 1.0, 2.0, 1.0])])
