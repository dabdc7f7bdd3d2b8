"""The gauge: the best similarity between two sets of poses of the same nodes.

A pose graph fixes its poses up to a motion of the world (and a scale, if it came from cameras), so two solutions can
only be compared after alignment, and an error means nothing until its alignment is stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array
from tempose.errors import ArgumentError, OptionError
from tempose.geometry import quaternion as quat


@dataclass(frozen=True)
class Similarity:
    """``x ↦ scale · R(wxyz) x + translation``, from the source's world to the target's."""

    wxyz: Array
    translation: Array
    scale: float = 1.0

    def apply(self, world_from_node_wxyz: ArrayLike, position: ArrayLike) -> tuple[Array, Array]:
        """Move poses: orientations (..., 4) and positions (..., 3) in the source's world into the target's."""
        moved = self.scale * quat.rotate(self.wxyz, position) + self.translation
        return quat.multiply(self.wxyz, world_from_node_wxyz), moved


ALIGNMENTS = {
    "se3": "rotation from the orientations, then translation from the positions",
    "sim3": "rotation from the orientations, then scale and translation from the positions",
    "positions-se3": "rotation and translation from the positions alone (Umeyama)",
    "positions-sim3": "rotation, scale and translation from the positions alone (Umeyama)",
    "none": "none: both are in the same world",
}


class PoseArrays(Protocol):
    """What has quaternions (n, 4) and positions (n, 3) of nodes."""

    @property
    def wxyz(self) -> Array:
        """Orientations."""

    @property
    def position(self) -> Array:
        """Positions."""


def _arrays(poses: tuple[ArrayLike, ArrayLike] | PoseArrays) -> tuple[Array, Array]:
    wxyz, position = poses if isinstance(poses, tuple | list) else (poses.wxyz, poses.position)
    return np.asarray(wxyz, float), np.asarray(position, float)


def align(
    source: tuple[ArrayLike, ArrayLike] | PoseArrays,
    target: tuple[ArrayLike, ArrayLike] | PoseArrays,
    kind: str = "se3",
    *,
    robust: bool = False,
    weights: ArrayLike | None = None,
    turned: ArrayLike | None = None,
) -> Similarity:
    """Similarity that moves the ``source`` poses on the ``target`` poses.

    Parameters
    ----------
    source, target
        :class:`tempose.Poses`, or ``(world_from_node_wxyz (n, 4), position (n, 3))``, of the same nodes in the same order.
    kind
        One of :data:`ALIGNMENTS`.
    robust
        Minimise the sum of distances (L1, by reweighting) instead of their squares, so that a few grossly wrong
        nodes do not drag the frame with them.
    weights
        One non-negative weight per node.
    turned
        Which nodes (n,) have an orientation, by default all; at least one must, unless positions alone are aligned.

    Notes
    -----
    With rotations ``A_i`` and ``B_i``, the chordal best ``G`` minimises ``Σ w_i ‖B_i − G A_i‖²``: it is the mean of the
    quaternions ``b_i ⊗ ā_i``. Given the rotation, scale and translation are linear least squares.
    """
    if kind not in ALIGNMENTS:
        raise OptionError(f"unknown alignment {kind!r}: choose one of {', '.join(ALIGNMENTS)}")
    a_wxyz, a = _arrays(source)
    b_wxyz, b = _arrays(target)
    if len(a) != len(b) or len(a) == 0:
        raise ArgumentError(f"cannot align {len(a)} poses to {len(b)}: the two sets need the same nodes, at least one")
    base = np.ones(len(a)) if weights is None else np.asarray(weights, float)
    has_turn = np.ones(len(a)) if turned is None else np.asarray(turned, float)
    if kind == "none":
        return Similarity(quat.IDENTITY, np.zeros(3))
    by_positions = kind.startswith("positions")
    with_scale = kind.endswith("sim3")

    if not by_positions and not np.any(has_turn):
        raise ArgumentError(f"nothing that is compared has an orientation; align by positions-{kind} instead")
    w_rot, w_pos = base * has_turn, base
    nearest = 1e-9 * float(np.max(np.abs(b - b.mean(0)))) or 1.0  # all at one place: nothing to weigh
    for _ in range(100 if robust else 1):
        if by_positions:
            result = _umeyama(a, b, w_pos, with_scale)
        else:
            wxyz = quat.mean(quat.multiply(b_wxyz, quat.conjugate(a_wxyz)), w_rot)
            result = _given_rotation(wxyz, a, b, w_pos, with_scale)
        if not robust:
            break
        moved_wxyz, moved = result.apply(a_wxyz, a)
        new_rot = base * has_turn / np.maximum(quat.angle_between(b_wxyz, moved_wxyz), 1e-9)
        new_pos = base / np.maximum(np.linalg.norm(b - moved, axis=1), nearest)
        new_rot, new_pos = new_rot / (new_rot.sum() or 1.0), new_pos / new_pos.sum()
        change = np.abs(new_rot - w_rot).sum() + np.abs(new_pos - w_pos).sum()
        w_rot, w_pos = new_rot, new_pos
        if change < 1e-10:
            break
    return result


def _given_rotation(wxyz: Array, a: Array, b: Array, w: Array, with_scale: bool) -> Similarity:
    turned = quat.rotate(wxyz, a)
    mean_a, mean_b = np.average(turned, axis=0, weights=w), np.average(b, axis=0, weights=w)
    scale = 1.0
    if with_scale:
        da, db = turned - mean_a, b - mean_b
        spread = float(np.sum(w * np.sum(da * da, axis=1)))
        scale = float(np.sum(w * np.sum(da * db, axis=1)) / spread) if spread > 0 else 1.0
    return Similarity(wxyz, mean_b - scale * mean_a, scale)


def _umeyama(a: Array, b: Array, w: Array, with_scale: bool) -> Similarity:
    mean_a, mean_b = np.average(a, axis=0, weights=w), np.average(b, axis=0, weights=w)
    covariance = np.einsum("n,na,nb->ab", w, b - mean_b, a - mean_a)
    u, _, vt = np.linalg.svd(covariance)
    u[:, -1] *= np.sign(np.linalg.det(u) * np.linalg.det(vt))
    return _given_rotation(quat.from_matrix(u @ vt), a, b, w, with_scale)
