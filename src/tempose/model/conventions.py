"""Covariances of poses as other software has them: frame, order and chart of each, by its equation.

A pose is ``X = (R, p)``, ``world_from_node`` (or ``a_from_b``, with a for the world). All covariances are of small changes about
it; with ``ω, δ`` tempose's own, to first order:

=========  ==================================================  ======================================================
tempose    ω, δ                                                ``R' = Exp(ω) R``, ``p' = p + δ``: world's axes, radians
gtsam      ``Rᵀω, Rᵀδ``                                        ``X' = X Exp(ξ)`` (``Pose3``): node's axes, rotation first
ros        δ, ω                                                ``PoseWithCovariance``: fixed axes, position first
g2o        ``Rᵀδ, ½Rᵀω``                                       ``X' = X · (v, q)`` (``VertexSE3``): q the quaternion's vector
colmap     ``−½Rᵀω, −Rᵀδ − [t]×(−Rᵀω)`` with ``t = −Rᵀp``      ``cam_from_world``: ``q' = (√(1−|v|²), v) ⊗ q``, ``t' = t + δt``
=========  ==================================================  ======================================================

In the plane: tempose θ, x, y; gtsam (``Pose2``) x, y of the node, θ; ros as in space, zero for what is not in the plane; g2o
(``VertexSE2``) x, y, θ of the world; colmap has no planar poses.

Rotations are half as large in g2o and COLMAP, which take the vector part of a quaternion: their variances are a quarter. COLMAP's
are those of its bundle adjustment and of ``refine_absolute_pose``; its functions for composed poses expect a left perturbation
of the whole pose instead, ``δt = [t]×ω + …``, and whole angles.
"""

from __future__ import annotations

import numpy as np

from tempose._typing import Array, Index
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3

CONVENTIONS = {
    "tempose": "rotation vector and position in the world's axes: R' = Exp(ω) R, p' = p + δ",
    "gtsam": "right perturbation X' = X Exp(ξ), the node's axes, rotation first (Pose3); x, y, θ in the plane (Pose2)",
    "ros": "position, then rotation about fixed axes, of PoseWithCovariance",
    "g2o": "right perturbation by translation and quaternion vector, the node's axes (VertexSE3); x, y, θ of the world (VertexSE2)",
    "colmap": "cam_from_world: quaternion vector from the left, then translation",
}
"""Conventions, by name, and what each is."""

AXES = {
    "tempose": ("rx", "ry", "rz", "x", "y", "z"),
    "gtsam": ("rx", "ry", "rz", "x", "y", "z"),
    "ros": ("x", "y", "z", "rx", "ry", "rz"),
    "g2o": ("x", "y", "z", "qx", "qy", "qz"),
    "colmap": ("qx", "qy", "qz", "tx", "ty", "tz"),
}
"""Names of the six axes, in order."""

PLANAR_AXES = {
    "tempose": ("theta", "x", "y"),
    "gtsam": ("x", "y", "theta"),
    "ros": AXES["ros"],
    "g2o": ("x", "y", "theta"),
}
"""The same of a planar pose."""

_PLANE = np.array([2, 3, 4])  # of the six coordinates: θ, x, y


def axes_of(convention: str, planar: bool = False) -> tuple[str, ...]:
    """Names of the axes of a convention, in order."""
    if convention not in CONVENTIONS:
        raise OptionError(f"unknown convention {convention!r}: choose one of {', '.join(CONVENTIONS)}")
    if planar and convention not in PLANAR_AXES:
        raise OptionError(f"{convention} has no planar poses: choose one of {', '.join(PLANAR_AXES)}")
    return (PLANAR_AXES if planar else AXES)[convention]


def jacobians(wxyz: Array, position: Array, convention: str) -> Array:
    """Derivatives (n, 6, 6) of the coordinates of a convention by tempose's, of poses (n, 4), (n, 3)."""
    axes_of(convention)
    n = len(wxyz)
    Rt = np.swapaxes(quat.to_matrix(wxyz), 1, 2)
    J = np.zeros((n, 6, 6))
    if convention == "tempose":
        J[:] = np.eye(6)
    elif convention == "gtsam":
        J[:, :3, :3] = J[:, 3:, 3:] = Rt
    elif convention == "ros":
        J[:, :3, 3:] = J[:, 3:, :3] = np.eye(3)
    elif convention == "g2o":
        J[:, :3, 3:], J[:, 3:, :3] = Rt, 0.5 * Rt
    else:
        t = -np.einsum("nab,nb->na", Rt, position)
        J[:, :3, :3], J[:, 3:, 3:] = -0.5 * Rt, -Rt
        J[:, 3:, :3] = se3.hat(t) @ Rt
    return J


def converted(covariance: Array, wxyz: Array, position: Array, convention: str, planar: bool = False) -> Array:
    """Covariances (n, 6, 6) of tempose in another convention: (n, 6, 6), of planar poses (n, 3, 3) unless for ROS.

    Parameters
    ----------
    covariance
        Rotation first, the world's axes.
    wxyz, position
        The poses that they are about: (n, 4), (n, 3).
    convention
        One of :data:`CONVENTIONS`.
    planar
        Whether the poses are planar.
    """
    axes_of(convention, planar)
    if planar and convention == "g2o":
        order: Index = np.array([3, 4, 2])
        return np.asarray(covariance[:, order[:, None], order])
    J = jacobians(wxyz, position, convention)
    out = J @ covariance @ np.swapaxes(J, 1, 2)
    out = 0.5 * (out + np.swapaxes(out, 1, 2))
    if not planar or convention == "ros":
        return np.asarray(out)
    order = np.array([3, 4, 2]) if convention == "gtsam" else _PLANE
    return np.asarray(out[:, order[:, None], order])
