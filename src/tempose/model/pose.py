"""One rigid motion as a value: compose with ``@``, invert, read as a matrix or as a scipy rotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array
from tempose.errors import GraphError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

ROUNDING = 1e-3
"""How far a rotation matrix may be from orthonormal, or a quaternion from unit length, and still be meant as one."""


@dataclass(frozen=True, eq=False)
class Pose:
    """A rigid motion ``x ↦ R x + p``: the pose of a node is ``world_from_node``, that of b seen from a is ``a_from_b``.

    Frames cancel as they are written: ``world_from_a @ a_from_b`` is ``world_from_b``.

    Parameters
    ----------
    wxyz
        Unit quaternion (4,), scalar first.
    position
        Where the origin of the inner frame is, in the outer one (3,).
    """

    wxyz: Array
    position: Array

    def __post_init__(self) -> None:
        for name, width in (("wxyz", 4), ("position", 3)):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != (width,) or not np.all(np.isfinite(value)):
                raise GraphError(f"the {name} of a pose must be {width} finite numbers, not {value.tolist()}")
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        if abs(float(np.linalg.norm(self.wxyz)) - 1.0) > ROUNDING:
            raise GraphError(f"the quaternion {self.wxyz.tolist()} of a pose is not of unit length; normalise it")

    @classmethod
    def identity(cls) -> Pose:
        """No motion."""
        return cls(quat.IDENTITY, np.zeros(3))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Pose:
        """Pose of a 4×4 matrix ``[R p; 0 1]``."""
        wxyz, position = motions_of_matrices(np.asarray(matrix, float)[None], "the pose")
        return cls(wxyz[0], position[0])

    @classmethod
    def from_rotation(cls, rotation: Rotation, position: ArrayLike = (0.0, 0.0, 0.0)) -> Pose:
        """Pose of a scipy rotation and a position."""
        return cls(wxyz_of_rotation(rotation), np.asarray(position, float))

    @property
    def rotation(self) -> Rotation:
        """The rotation, for scipy."""
        return rotation_of_wxyz(self.wxyz)

    @property
    def matrix(self) -> Array:
        """``[R p; 0 1]`` (4, 4)."""
        return matrices_of_motions(self.wxyz, self.position)

    def inverse(self) -> Pose:
        """``b_from_a`` of ``a_from_b``."""
        return Pose(*se3.inverse((self.wxyz, self.position)))

    @overload
    def __matmul__(self, other: Pose) -> Pose: ...

    @overload
    def __matmul__(self, other: ArrayLike) -> Array: ...

    def __matmul__(self, other: Pose | ArrayLike) -> Pose | Array:
        if isinstance(other, Pose):
            return Pose(*se3.compose((self.wxyz, self.position), (other.wxyz, other.position)))
        return quat.rotate(self.wxyz, other) + self.position

    def __repr__(self) -> str:
        wxyz, position = (np.array2string(x, precision=4, suppress_small=True) for x in (self.wxyz, self.position))
        return f"Pose(wxyz={wxyz}, position={position})"


def wxyz_of_rotation(rotation: Rotation) -> Array:
    """Quaternions (…, 4), scalar first, of scipy rotations."""
    return np.asarray(rotation.as_quat()[..., [3, 0, 1, 2]], dtype=np.float64)


def rotation_of_wxyz(wxyz: Array) -> Rotation:
    """Quaternions (…, 4), scalar first, for scipy."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(wxyz[..., [1, 2, 3, 0]])


def matrices_of_motions(wxyz: Array, translation: Array) -> Array:
    """Motions as matrices ``[R t; 0 1]`` (…, 4, 4)."""
    out = np.zeros((*wxyz.shape[:-1], 4, 4))
    out[..., :3, :3], out[..., :3, 3], out[..., 3, 3] = quat.to_matrix(wxyz), translation, 1.0
    return out


def wxyz_of_matrices(R: Array, what: str) -> Array:
    """Quaternions (m, 4) of rotation matrices (m, 3, 3); ``what`` names them where one is none."""
    if R.ndim != 3 or R.shape[1:] != (3, 3):
        raise GraphError(f"{what} needs a 3×3 rotation matrix, not an array of shape {R.shape[1:]}")
    bad = np.max(np.abs(R @ np.swapaxes(R, 1, 2) - np.eye(3)), axis=(1, 2), initial=0.0) > ROUNDING
    if not np.all(np.isfinite(R)) or np.any(bad) or np.any(np.linalg.det(R) < 0.0):
        raise GraphError(f"{what} has a 3×3 matrix that is no rotation (orthonormal to {ROUNDING:g}, determinant +1)")
    return quat.from_matrix(R)


def motions_of_matrices(matrices: Array, what: str) -> tuple[Array, Array]:
    """Quaternions (m, 4) and translations (m, 3) of matrices ``[R t; 0 1]`` (m, 4, 4)."""
    if matrices.ndim != 3 or matrices.shape[1:] != (4, 4):
        raise GraphError(f"{what} needs a 4×4 matrix [R t; 0 1], not an array of shape {matrices.shape[1:]}")
    if np.any(np.abs(matrices[:, 3] - [0.0, 0.0, 0.0, 1.0]) > 1e-9):
        raise GraphError(f"{what} has a 4×4 matrix whose last row is not 0 0 0 1; is it transposed?")
    return wxyz_of_matrices(matrices[:, :3, :3], what), matrices[:, :3, 3]
