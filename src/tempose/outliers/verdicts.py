"""Which edges to distrust: their posterior inlier probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._typing import Array, Index
from tempose.model.graph import PoseGraph
from tempose.outliers.noise import Parameters

DISTRUSTED = 0.5


@dataclass(frozen=True, eq=False)
class EdgeVerdicts:
    """What a robust solve says about each edge.

    Attributes
    ----------
    graph
        The measurements, with the precisions that were used.
    inlier_probability
        Posterior probability (m,) that each edge is right; its prior probability where nothing checks it.
    parameters
        Noise levels, share of inliers and tail that were used.
    estimated
        Whether the noise levels were estimated.
    """

    graph: PoseGraph
    inlier_probability: Array
    parameters: Parameters
    estimated: bool

    @property
    def distrusted(self) -> Index:
        """Edges that are more probably wrong than right, the worst first."""
        rows = np.flatnonzero(self.inlier_probability < DISTRUSTED)
        return rows[np.argsort(self.inlier_probability[rows], kind="stable")]

    def name(self, edge: int) -> str:
        """``12 → 57``."""
        return self.graph.edge_name(edge)

    def facts(self, most: int = 20) -> dict[str, Any]:
        """Plain values for JSON."""
        sigma_rot, sigma_trans = self.graph.median_sigmas
        worst = self.distrusted[:most]
        return {
            "parameters": self.parameters.facts(),
            "noise": "auto" if self.estimated else "given",
            "sigma_rot_deg": math.degrees(sigma_rot),
            "sigma_trans": plain(sigma_trans),
            "core": "gaussian" if math.isinf(self.parameters.tail) else "heavy-tailed",
            "distrusted_edges": len(self.distrusted),
            "most_distrusted": [
                {"i": i, "j": j, "inlier_probability": float(self.inlier_probability[k])}
                for k, (i, j) in zip(worst, self.graph.edge_names(worst), strict=True)
            ],
        }
