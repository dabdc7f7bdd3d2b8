"""How far poses are from the truth, and how well they agree with their graph.

All errors are after alignment, which is part of the result: an error without its alignment means nothing. Only where the
graph itself says where the world is, errors without alignment (``"none"``) mean something too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tempose._typing import Array, NodeId
from tempose.analysis.trajectories import pairs_apart
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

    ``statistics`` has mean, median, rmse, std, min, max and sse (sum of squares) of four errors, with evo's names for them:
    ``ape_translation``, ``ape_rotation_deg`` of the poses, ``rpe_translation``, ``rpe_rotation_deg`` of the ``n_pairs`` pairs.
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
    n_pairs: int = 0
    statistics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionary for JSON, with the alignment also in words."""
        return {**asdict(self), "alignment_in_words": ALIGNMENTS[self.alignment]}


def pose_errors(
    estimate: Poses,
    truth: Poses,
    alignment: str = "se3",
    *,
    robust: bool = False,
    landmarks: Iterable[NodeId] = (),
    delta: float = 1.0,
    delta_unit: str = "frames",
    all_pairs: bool = False,
) -> PoseErrors:
    """Compare the nodes that both sets have, after aligning the estimate to the truth.

    ``landmarks`` count for positions only: rotations, also that of the alignment, and RPE are those of the other nodes.
    ``delta``, ``delta_unit`` and ``all_pairs`` say which pairs RPE is about, by default consecutive nodes
    (:func:`tempose.analysis.trajectories.pairs_apart`).
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
    rpe_deg, rpe = _relative_errors(moved.select(posed), truth.select(posed), delta, delta_unit, all_pairs)
    found = {
        "ape_translation": distance,
        "ape_rotation_deg": rotation,
        "rpe_translation": rpe,
        "rpe_rotation_deg": rpe_deg,
    }
    statistics = {name: _statistics(errors) for name, errors in found.items()}
    return PoseErrors(
        len(truth), alignment, robust, fit.scale,
        float(rotation.mean()), float(np.median(rotation)), float(rotation.max()),
        float(distance.mean()), float(np.median(distance)), float(distance.max()),
        statistics["ape_translation"]["rmse"],
        statistics["rpe_rotation_deg"]["rmse"] if len(rpe) else 0.0,
        statistics["rpe_translation"]["rmse"] if len(rpe) else 0.0,
        len(rpe),
        statistics,
    )  # fmt: skip


def _statistics(errors: Array) -> dict[str, float]:
    """What evo prints of errors (n,); NaN without any."""
    if not len(errors):
        return dict.fromkeys(("rmse", "mean", "median", "std", "min", "max", "sse"), float("nan"))
    squares = float(np.sum(errors**2))
    return {
        "rmse": float(np.sqrt(squares / len(errors))),
        "mean": float(np.mean(errors)),
        "median": float(np.median(errors)),
        "std": float(np.std(errors)),
        "min": float(np.min(errors)),
        "max": float(np.max(errors)),
        "sse": squares,
    }


def common(a: Poses, b: Poses) -> tuple[Poses, Poses]:
    """The nodes that both have, in the order of ``b``."""
    ids: list[NodeId] = [name for name in b.ids if name in a.index]
    if not ids:
        raise GraphError(
            f"the two pose sets share no node (one starts with {a.ids[:3]}, the other with {b.ids[:3]}); "
            "check that their ids mean the same, or match them by time (--max-difference)"
        )
    return a.select(ids), b.select(ids)


def _relative_errors(a: Poses, b: Poses, delta: float, unit: str, all_pairs: bool) -> tuple[Array, Array]:
    """Errors of the motions between nodes that are apart: angles in degrees (k,) and distances (k,)."""
    first, second = pairs_apart(a, delta, unit, all_pairs)
    steps = [se3.a_from_b((x.wxyz[first], x.position[first]), (x.wxyz[second], x.position[second])) for x in (a, b)]
    error = se3.a_from_b(steps[1], steps[0])
    return np.degrees(quat.angle(error[0])), np.linalg.norm(error[1], axis=1)


def graph_consistency(graph: PoseGraph, poses: Poses) -> float:
    """The paper's g_c: 1 − mean residual angle / π; 1 is perfect, 0 all off by 180°. NaN if no edge measures a rotation."""
    measured = graph.ranks[0] > 0.0
    if not np.any(measured):
        return float("nan")
    return float(1.0 - np.mean(residuals(graph, poses).angle[measured]) / np.pi)
