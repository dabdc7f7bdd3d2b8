"""What a solution is made of: how the solve ended, and one node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from tempose._typing import Array, NodeId
from tempose.model.gauge import Gauge
from tempose.model.pose import Pose


class Status(StrEnum):
    """How a solve ended."""

    SOLVED = "solved"
    INTERRUPTED = "interrupted"  # ended early; what was drawn is kept
    OPTIMISED = "optimised"  # killed while sampling: the optimum is there
    STALLED = "stalled"
    DIVERGED = "diverged"


@dataclass(frozen=True, eq=False)
class NodeEstimate:
    """One node of a solution.

    Attributes
    ----------
    pose
        world_from_node.
    covariance
        6×6: rotation vector (radians), then position, world frame; ``None`` if nothing is known.
    sigma_rot_deg, sigma_pos
        Standard deviation per axis, degrees and length units; NaN if nothing is known, or no translation ties the position.
    gauge
        What all this refers to.
    """

    node: NodeId
    pose: Pose
    covariance: Array | None
    sigma_rot_deg: float
    sigma_pos: float
    gauge: Gauge

    @property
    def position(self) -> Array:
        """Of the node in the world (3,)."""
        return self.pose.position

    @property
    def planar_covariance(self) -> Array | None:
        """3×3 of a planar node: rotation about z (radians), x, y."""
        return None if self.covariance is None else self.covariance[np.ix_([2, 3, 4], [2, 3, 4])]

    @property
    def theta_deg(self) -> float:
        """Angle about z of a planar node, degrees."""
        w, _, _, z = self.pose.wxyz
        return math.degrees(2.0 * math.atan2(z, w) if w >= 0.0 else 2.0 * math.atan2(-z, -w))
