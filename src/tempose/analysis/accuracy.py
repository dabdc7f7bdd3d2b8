"""How far poses are from the truth, and how well they agree with their graph.

All errors are after alignment, which is part of the result: an error without its alignment means nothing. Only where the
graph itself says where the world is, errors without alignment (``"none"``) mean something too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from tempose._typing import NodeId
from tempose.errors import GraphError
from tempose.geometry import ALIGNMENTS, align, se3
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals


@dataclass(frozen=True)
class PoseErrors:
    """Errors of an estimate against the truth.

    Rotations in degrees, lengths in the unit of the truth. MRE and MTE are the paper's mean rotation and translation
    errors; ATE is the root mean square of position errors; RPE the root mean square over consecutive nodes of the
    error of their relative pose (which needs no alignment, but carries its scale).
    """

    n_nodes: int
    alignment: str
    robust: bool
    scale: float
    mean_rotation_deg: float
    median_rotation_deg: float
    max_rotation_deg: float
    mean_translation: float
    median_translation: float
    max_translation: float
    ate_rmse: float
    rpe_rotation_deg: float
    rpe_translation: float

    def as_dict(self) -> dict[str, float | int | str | bool]:
        """Plain dictionary for JSON, with the alignment also in words."""
        return {**asdict(self), "alignment_in_words": ALIGNMENTS[self.alignment]}


def pose_errors(
    estimate: Poses,
    truth: Poses,
    alignment: str = "se3",
    *,
    robust: bool = False,
    landmarks: Iterable[NodeId] = (),
) -> PoseErrors:
    """Compare the nodes that both sets have, after aligning the estimate to the truth.

    ``landmarks`` count for positions only: rotations, also that of the alignment, and RPE are those of the other nodes.
    """
    estimate, truth = common(estimate, truth)
    points = set(landmarks)
    turned = np.array([name not in points for name in truth.ids], dtype=bool)
    fit = align(
        (estimate.wxyz, estimate.position), (truth.wxyz, truth.position), alignment, robust=robust, turned=turned
    )
    moved = estimate.moved(fit)
    rotation = np.degrees(quat.angle_between(truth.wxyz, moved.wxyz))[turned]
    if not len(rotation):
        rotation = np.array([np.nan])
    distance = np.linalg.norm(truth.position - moved.position, axis=1)
    posed = [name for name in truth.ids if name not in points]
    rpe_rotation, rpe_translation = _relative_errors(moved.select(posed), truth.select(posed))
    return PoseErrors(
        len(truth), alignment, robust, fit.scale,
        float(rotation.mean()), float(np.median(rotation)), float(rotation.max()),
        float(distance.mean()), float(np.median(distance)), float(distance.max()),
        float(np.sqrt(np.mean(distance**2))), rpe_rotation, rpe_translation,
    )  # fmt: skip


def common(a: Poses, b: Poses) -> tuple[Poses, Poses]:
    """The nodes that both have, in the order of ``b``."""
    ids: list[NodeId] = [name for name in b.ids if name in a.index]
    if not ids:
        raise GraphError(
            f"the two pose sets share no node (one starts with {a.ids[:3]}, the other with {b.ids[:3]}); "
            "check that their ids mean the same"
        )
    return a.select(ids), b.select(ids)


def _relative_errors(a: Poses, b: Poses) -> tuple[float, float]:
    """Root mean square error of the motion between consecutive nodes."""
    if len(a) < 2:
        return 0.0, 0.0
    steps = []
    for poses in (a, b):
        first, second = (poses.wxyz[:-1], poses.position[:-1]), (poses.wxyz[1:], poses.position[1:])
        steps.append(se3.a_from_b(first, second))
    error = se3.a_from_b(steps[1], steps[0])
    angle = np.degrees(quat.angle(error[0]))
    return float(np.sqrt(np.mean(angle**2))), float(np.sqrt(np.mean(np.sum(error[1] ** 2, axis=1))))


def graph_consistency(graph: PoseGraph, poses: Poses) -> float:
    """The paper's g_c: 1 − mean residual angle / π; 1 is perfect, 0 all off by 180°. NaN if no edge measures a rotation."""
    measured = graph.ranks[0] > 0.0
    if not np.any(measured):
        return float("nan")
    return float(1.0 - np.mean(residuals(graph, poses).angle[measured]) / np.pi)
