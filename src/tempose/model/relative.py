"""The pose of one node seen from another, with its uncertainty: one shape, whoever found it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, NodeId
from tempose.model.pose import Pose


@dataclass(frozen=True)
class RelativeSummary:
    """Posterior of the pose of ``b`` seen from ``a``; it needs no gauge.

    ``mean`` is ``a_from_b`` as (wxyz, translation); ``covariance`` (6, 6) is of the perturbation in a's frame,
    ``R = Exp(ω) R̂``, ``t = t̂ + δ``, rotation first. ``axes`` says how many axes rotations and positions have: 3 and 3, 1
    and 2 in the plane, and no rotation if ``b`` is a landmark.
    """

    a: NodeId
    b: NodeId
    mean: tuple[Array, Array]
    covariance: Array
    source: str
    n_draws: int = 0
    axes: tuple[int, int] = (3, 3)

    @property
    def pose(self) -> Pose:
        """The mean ``a_from_b``."""
        return Pose(*self.mean)

    @property
    def sigma_rot_deg(self) -> float:
        """Standard deviation per axis, degrees; NaN if there is no rotation."""
        if not self.axes[0]:
            return math.nan
        return float(np.degrees(np.sqrt(np.trace(self.covariance[:3, :3]) / self.axes[0])))

    @property
    def sigma_pos(self) -> float:
        """Standard deviation per axis, length units."""
        return float(np.sqrt(np.trace(self.covariance[3:, 3:]) / self.axes[1]))
