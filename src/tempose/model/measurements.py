"""Measured relative poses as people have them, with σ in degrees and length units, as the arrays of a graph.

An edge (a, b) measures the pose of b seen from a, ``Z ≈ X_a⁻¹ X_b = a_from_b`` with ``X = world_from_node``, and its noise
is that of the error ``Z⁻¹ X_a⁻¹ X_b``, whose axes are those of b: the convention of g2o's ``EDGE_SE3:QUAT a b Z Ω`` and of
GTSAM's ``BetweenFactor(a, b, Z, noise)``. In the model's own terms it is an edge from b to a with ``j_from_i = Z``, and
its precisions are turned to a's axes (the equations are in :mod:`tempose.io.g2o`).

What is known about a single node is a measurement with a = the world, and a landmark is a node b of which only the
position is measured. In the plane a rotation is an angle θ in radians, a translation two numbers, and a joint information
(3, 3) has the order θ, x, y: the rotation first, as in space. (g2o's planar lines, and GTSAM's ``Pose2``, have x, y, θ.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array, Mask, NodeId
from tempose.errors import GraphError
from tempose.model import precision
from tempose.model.pose import motions_of_matrices, wxyz_of_matrices, wxyz_of_rotation

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

Measures = Literal["a_from_b", "b_from_a"]
LARGE = 10_000.0
"""Coordinates of the world beyond this are those of a map."""
Pairs = Sequence[tuple[NodeId, NodeId]]


def oriented(pairs: Pairs, measures: Measures) -> Pairs:
    """The pairs in the order in which each measures the pose of its second node seen from its first."""
    if measures not in ("a_from_b", "b_from_a"):
        raise GraphError(
            f"an edge measures 'a_from_b' (the pose of b seen from a) or 'b_from_a', not {measures!r}: choose one"
        )
    return pairs if measures == "a_from_b" else [(b, a) for a, b in pairs]


def motions(
    pairs: Pairs,
    rotation: Rotation | ArrayLike | None,
    translation: ArrayLike | None,
    wxyz: ArrayLike | None,
    transform: ArrayLike | None,
) -> tuple[Array, Array]:
    """Measured ``a_from_b`` as quaternions (m, 4) and translations (m, 3), NaN for edges that have none."""
    what = name_of(pairs, 0)
    if sum(x is not None for x in (rotation, wxyz, transform)) != 1 or (
        transform is not None and translation is not None
    ):
        raise GraphError(
            f"{what}: give rotation= or wxyz=, with translation= unless it is rotation-only; or transform="
        )
    if transform is not None:
        matrices = np.asarray(transform, float)
        _pairs_up(matrices, pairs, "transforms", 2)
        return motions_of_matrices(matrices, what)
    found = _rotations(pairs, rotation) if wxyz is None else np.asarray(wxyz, float)
    _pairs_up(found, pairs, "rotations", 1)
    _refuse(~_near_unit(found), pairs, "has a quaternion that is not of unit length; give it as w, x, y, z, normalised")
    t = np.full((len(pairs), 3), np.nan) if translation is None else np.asarray(translation, float)
    _pairs_up(t, pairs, "translations", 1)
    if t.shape[1] != 3:
        raise GraphError(f"{what} has a translation of {t.shape[1]} numbers; give 3, or None for rotation-only")
    return found, t


def planar_motions(pairs: Pairs, angle: ArrayLike | None, translation: ArrayLike | None) -> tuple[Array, Array]:
    """Measured ``a_from_b`` in the plane, angles (m,) and translations (m, 2), as motions in space."""
    if angle is None:
        raise GraphError(f"{name_of(pairs, 0)}: a planar measurement needs angle=, in radians")
    theta = np.asarray(angle, float)
    _pairs_up(theta, pairs, "angles", 0)
    _refuse(~np.isfinite(theta), pairs, "has an angle that is not finite")
    t = np.full((len(pairs), 2), np.nan) if translation is None else np.asarray(translation, float)
    _pairs_up(t, pairs, "translations", 1)
    if t.shape[1] != 2:
        raise GraphError(f"{name_of(pairs, 0)} has a translation of {t.shape[1]} numbers; in the plane give 2")
    return about_z(theta), np.column_stack([t, np.where(np.isnan(t[:, 0]), np.nan, 0.0)])


def about_z(angle: ArrayLike) -> Array:
    """Quaternions (…, 4) of rotations about z by an angle (…), radians."""
    half = 0.5 * np.asarray(angle, float)
    zero = np.zeros(half.shape)
    return np.stack([np.cos(half), zero, zero, np.sin(half)], axis=-1)


def informations(
    pairs: Pairs,
    has_translation: Mask,
    sigma_rot_deg: ArrayLike | None,
    sigma_trans: ArrayLike | None,
    information: ArrayLike | None,
    planar: bool = False,
) -> Array:
    """Joint informations (m, 6, 6) of edges, rotation vector in radians first, in the axes of b.

    Of standard deviations, or of informations (m, 6, 6), in the plane (m, 3, 3), as they are.
    """
    if (information is None) == (sigma_rot_deg is None) or (information is not None and sigma_trans is not None):
        raise GraphError(
            f"{name_of(pairs, 0)}: say how sure it is, by sigma_rot_deg= (degrees) and sigma_trans=, or by information="
        )
    if information is not None:
        return _checked(pairs, np.asarray(information, float), has_translation, planar)
    if sigma_trans is None and np.any(has_translation):
        where = name_of(pairs, int(np.argmax(has_translation)))
        raise GraphError(f"{where} has a translation and no sigma_trans: give its σ, in the unit of the translations")
    axes = (1, 2) if planar else (3, 3)
    rotation = 1.0 / _variances(pairs, np.radians(np.asarray(sigma_rot_deg, float)), "sigma_rot_deg", axes[0])
    shift = 1.0 / _variances(
        pairs, np.asarray(1.0 if sigma_trans is None else sigma_trans, float), "sigma_trans", axes[1]
    )
    diagonal = np.column_stack([rotation, shift * has_translation[:, None]])
    whole = diagonal[:, :, None] * np.eye(diagonal.shape[1])
    return precision.in_the_plane(whole) if planar else whole


def position_informations(
    what: str, d: int, sigma: ArrayLike | None, covariance: ArrayLike | None, information: ArrayLike | None
) -> Array:
    """Information (3, 3) of a measured point of d = 2 or 3 coordinates; ``what`` names it in messages.

    σ is one number, or one per axis, infinite along an axis that was not measured.
    """
    if sum(x is not None for x in (sigma, covariance, information)) != 1:
        raise GraphError(
            f"{what}: say how sure it is, by one of sigma=, covariance= ({d}×{d}) and information= ({d}×{d})"
        )
    out = np.zeros((3, 3))
    if sigma is not None:
        values = np.asarray(sigma, float)
        if values.shape not in ((), (d,)) or np.any(np.isnan(values)) or np.any(values <= 0.0):
            raise GraphError(f"{what}: sigma is one number above zero, or {d}, one per axis, not {values.tolist()}")
        out[:d, :d] = np.diag(np.broadcast_to(1.0 / values**2, d))
        if not np.any(out):
            raise GraphError(f"{what}: its sigma is infinite along every axis, so that it says nothing; leave it out")
        return out
    given = np.asarray(covariance if information is None else information, float)
    name = "covariance" if information is None else "information"
    if given.shape != (d, d) or not np.all(np.isfinite(given)) or not np.allclose(given, given.T, rtol=1e-9, atol=0.0):
        raise GraphError(f"{what}: {name} is a symmetric {d}×{d} matrix of finite numbers")
    if name == "covariance":
        if not precision.is_definite(given[None])[0]:
            raise GraphError(
                f"{what}: its covariance is singular or indefinite; give information= if an axis is not known"
            )
        given = np.linalg.inv(given)
        given = 0.5 * (given + given.T)
    elif not precision.is_semidefinite(given[None])[0] or not np.any(given):
        raise GraphError(f"{what}: its information is zero or indefinite; it must be positive semi-definite")
    out[:d, :d] = given
    return out


def origin_of(points: Array) -> Array:
    """What to subtract from coordinates of the world (k, 3) so that no digits are lost: whole numbers, or nothing.

    Nothing unless a coordinate is beyond :data:`LARGE`; the median of the points then, along the axes that are.
    """
    large = np.max(np.abs(points), axis=0, initial=0.0) > LARGE
    return np.where(large, np.round(np.median(points, axis=0)), 0.0) if np.any(large) else np.zeros(3)


def name_of(pairs: Pairs, k: int) -> str:
    """``edge 'a' → 'b'``, for messages."""
    return f"edge {pairs[k][0]!r} → {pairs[k][1]!r}" if len(pairs) else "the graph"


def _rotations(pairs: Pairs, rotation: Rotation | ArrayLike | None) -> Array:
    from scipy.spatial.transform import Rotation

    if isinstance(rotation, Rotation):
        return wxyz_of_rotation(rotation)
    matrices = np.asarray(rotation, float)
    if matrices.ndim < 3:
        raise GraphError(
            f"{name_of(pairs, 0)}: rotation= takes a scipy Rotation or a 3×3 matrix; a quaternion goes to wxyz=, "
            "a rotation vector to rotation=Rotation.from_rotvec(…)"
        )
    return wxyz_of_matrices(matrices, name_of(pairs, 0) if len(pairs) == 1 else "one of the edges")


def _checked(pairs: Pairs, information: Array, has_translation: Mask, planar: bool) -> Array:
    """Joint informations (m, 6, 6) that make sense; without a translation only the rotation's block is looked at."""
    d, order = (3, "angle in radians, then x and y") if planar else (6, "rotation vector in radians, then translation")
    if information.shape != (len(pairs), d, d):
        raise GraphError(
            f"{name_of(pairs, 0)}: information must be {d}×{d} ({order}), not of shape {information.shape[1:]}"
        )
    _refuse(~np.all(np.isfinite(information), axis=(1, 2)), pairs, "has an information that is not finite")
    whole = precision.in_the_plane(information) if planar else np.array(information)
    scale = np.max(np.abs(whole), axis=(1, 2), initial=0.0)
    asymmetry = np.max(np.abs(whole - np.swapaxes(whole, 1, 2)), axis=(1, 2), initial=0.0)
    _refuse(asymmetry > 1e-9 * scale, pairs, "has an information that is not symmetric")
    whole = 0.5 * (whole + np.swapaxes(whole, 1, 2))
    _refuse(
        precision.is_correlated(whole) & ~has_translation,
        pairs,
        "has an information that ties its rotation to a translation, and no translation",
    )
    whole[~has_translation, 3:, 3:] = 0.0
    _refuse(
        ~precision.is_semidefinite(whole[:, :3, :3]) | ~precision.is_semidefinite(whole[:, 3:, 3:]),
        pairs,
        "has an information that is not positive semi-definite",
    )
    _refuse(
        precision.is_jointly_indefinite(whole),
        pairs,
        f"has an information whose blocks do not fit together: the whole {d}×{d} is indefinite; mind the order: {order}",
    )
    _refuse(precision.is_zero(whole), pairs, "has an information of zero, so that it says nothing; leave it out")
    _refuse(
        precision.ties_the_unmeasured(whole),
        pairs,
        f"has a singular {d}×{d} information, which ties its translation to a rotation that it does not measure",
    )
    return whole


def _variances(pairs: Pairs, sigma: Array, name: str, axes: int) -> Array:
    """Squares (m, axes) of σ given for all edges (), for each edge (m,), or for each axis of each (m, axes)."""
    m = len(pairs)
    if sigma.shape not in ((), (m,), (m, axes)):
        raise GraphError(
            f"{name} has shape {sigma.shape}; give one number, one per edge ({m},) or one per axis ({m}, {axes})"
        )
    full = np.broadcast_to(sigma if sigma.ndim != 1 else sigma[:, None], (m, axes))
    _refuse(~np.all(np.isfinite(full) & (full > 0.0), axis=1), pairs, f"has a {name} that is not above zero")
    return full**2


def _near_unit(wxyz: Array) -> Mask:
    if wxyz.shape[1:] != (4,):
        raise GraphError(f"quaternions have four numbers, w x y z, not {wxyz.shape[1:]}")
    return np.asarray(np.abs(np.linalg.norm(wxyz, axis=1) - 1.0) <= 1e-3)


def _pairs_up(value: Array, pairs: Pairs, name: str, ndim: int) -> None:
    if value.ndim != ndim + 1 or len(value) != len(pairs):
        raise GraphError(f"{name} of shape {value.shape} do not go with {len(pairs)} edges: give one of them per edge")


def _refuse(bad: Mask, pairs: Pairs, why: str) -> None:
    if np.any(bad):
        raise GraphError(f"{name_of(pairs, int(np.argmax(bad)))} {why}")
