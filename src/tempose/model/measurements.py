"""Measured relative poses as people have them, with σ in degrees and length units, as the arrays of a graph.

An edge (a, b) measures the pose of b seen from a, ``Z ≈ X_a⁻¹ X_b = a_from_b`` with ``X = world_from_node``, and its noise
is that of the error ``Z⁻¹ X_a⁻¹ X_b``, whose axes are those of b: the convention of g2o's ``EDGE_SE3:QUAT a b Z Ω`` and of
GTSAM's ``BetweenFactor(a, b, Z, noise)``. In the model's own terms it is an edge from b to a with ``j_from_i = Z``, and
its precisions are turned to a's axes (the equations are in :mod:`tempose.io.g2o`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from tempose._typing import Array, Mask, NodeId
from tempose.errors import GraphError
from tempose.model import precision
from tempose.model.pose import motions_of_matrices, wxyz_of_matrices, wxyz_of_rotation

Measures = Literal["a_from_b", "b_from_a"]
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


def precisions(
    pairs: Pairs,
    wxyz: Array,
    has_translation: Mask,
    sigma_rot_deg: ArrayLike | None,
    sigma_trans: ArrayLike | None,
    information: ArrayLike | None,
) -> tuple[Array, Array]:
    """Rotation concentrations and translation precisions (m, 3, 3) of edges, in the axes of a, from noise in those of b.

    ``λ = 2/σ²`` and ``τ = 1/σ²``; of a 6×6 information Ω (rotation vector in radians first) ``Λ = 2Ω_R`` and ``P = Ω_t``.
    """
    if (information is None) == (sigma_rot_deg is None) or (information is not None and sigma_trans is not None):
        raise GraphError(
            f"{name_of(pairs, 0)}: say how sure it is, by sigma_rot_deg= (degrees) and sigma_trans=, or by information="
        )
    if information is not None:
        rotation, shift = _blocks(pairs, np.asarray(information, float))
    else:
        if sigma_trans is None and np.any(has_translation):
            where = name_of(pairs, int(np.argmax(has_translation)))
            raise GraphError(
                f"{where} has a translation and no sigma_trans: give its σ, in the unit of the translations"
            )
        rotation = 2.0 / _variances(pairs, np.radians(np.asarray(sigma_rot_deg, float)), "sigma_rot_deg")
        shift = 1.0 / _variances(pairs, np.asarray(1.0 if sigma_trans is None else sigma_trans, float), "sigma_trans")
        rotation, shift = rotation[:, :, None] * np.eye(3), shift[:, :, None] * np.eye(3)
    return precision.turned(rotation, wxyz), precision.turned(shift * has_translation[:, None, None], wxyz)


def name_of(pairs: Pairs, k: int) -> str:
    """``edge 'a' → 'b'``, for messages."""
    return f"edge {pairs[k][0]!r} → {pairs[k][1]!r}" if len(pairs) else "the graph"


def _rotations(pairs: Pairs, rotation: Rotation | ArrayLike | None) -> Array:
    if isinstance(rotation, Rotation):
        return wxyz_of_rotation(rotation)
    matrices = np.asarray(rotation, float)
    if matrices.ndim < 3:
        raise GraphError(
            f"{name_of(pairs, 0)}: rotation= takes a scipy Rotation or a 3×3 matrix; a quaternion goes to wxyz=, "
            "a rotation vector to rotation=Rotation.from_rotvec(…)"
        )
    return wxyz_of_matrices(matrices, name_of(pairs, 0) if len(pairs) == 1 else "one of the edges")


def _blocks(pairs: Pairs, information: Array) -> tuple[Array, Array]:
    """The rotation's and the translation's block (m, 3, 3) of 6×6 informations, times 2 the former."""
    if information.shape != (len(pairs), 6, 6):
        raise GraphError(
            f"{name_of(pairs, 0)}: information must be 6×6 (rotation vector in radians, then translation), "
            f"not of shape {information.shape[1:]}"
        )
    _refuse(
        np.any(information[:, :3, 3:] != 0.0, axis=(1, 2)) | np.any(information[:, 3:, :3] != 0.0, axis=(1, 2)),
        pairs,
        "has an information that ties rotation to translation (non-zero 3×3 blocks off the diagonal), which is not in the "
        "model; set them to zero, and mind the order: rotation first",
    )
    rotation, shift = information[:, :3, :3], information[:, 3:, 3:]
    bad = ~np.all(np.isfinite(information), axis=(1, 2))
    safe = [np.where(bad[:, None, None], np.eye(3), block) for block in (rotation, shift)]
    bad |= ~precision.is_semidefinite(safe[0]) | ~precision.is_semidefinite(safe[1])
    _refuse(bad, pairs, "has an information that is not finite and positive semi-definite")
    return 2.0 * rotation, shift


def _variances(pairs: Pairs, sigma: Array, name: str) -> Array:
    """Squares (m, 3) of σ given for all edges (), for each edge (m,), or for each axis of each (m, 3)."""
    m = len(pairs)
    if sigma.shape not in ((), (m,), (m, 3)):
        raise GraphError(
            f"{name} has shape {sigma.shape}; give one number, one per edge ({m},) or one per axis ({m}, 3)"
        )
    full = np.broadcast_to(sigma if sigma.ndim != 1 else sigma[:, None], (m, 3))
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
