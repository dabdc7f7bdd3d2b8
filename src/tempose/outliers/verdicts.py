"""Which edges to distrust: their posterior inlier probabilities, in words and numbers."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._typing import Array, Index
from tempose.model.graph import PoseGraph
from tempose.outliers.noise import Parameters

DISTRUSTED = 0.5
KEPT = "for the problem of the kept edges, each weighted by its inlier probability"  # what proofs are about


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
        """``12 – 57``."""
        ids = self.graph.node_ids
        return f"{ids[self.graph.edge_i[edge]]} – {ids[self.graph.edge_j[edge]]}"

    def sentences(self, most: int = 5) -> list[str]:
        """The noise and the verdicts in words."""
        p = self.parameters
        core = "Gaussian" if math.isinf(p.tail) else f"heavy-tailed (ν = {p.tail:g})"
        noise = "estimated" if self.estimated else "as given"
        lines = [
            f"noise {noise}: {self.noise_text()} per axis; inliers are {core}, "
            f"{100.0 * p.inlier_probability:.3g} % of the edges"
        ]
        worst = self.distrusted
        if not len(worst):
            return [*lines, f"no edge of {self.graph.n_edges} is distrusted"]
        listed = ", ".join(f"{self.name(k)} ({self.inlier_probability[k]:.2f})" for k in worst[:most])
        more = ", …" if len(worst) > most else ""
        return [*lines, f"{len(worst)} of {self.graph.n_edges} edges distrusted; worst: {listed}{more}"]

    def noise_text(self) -> str:
        """Median σ of rotations and translations."""
        sigma_rot, sigma_trans = self.graph.median_sigmas
        text = f"σ = {math.degrees(sigma_rot):.3g}°"
        return text if math.isnan(sigma_trans) else f"{text} and {sigma_trans:.3g}"

    def facts(self, most: int = 20) -> dict[str, Any]:
        """Plain values for JSON."""
        sigma_rot, sigma_trans = self.graph.median_sigmas
        ids = self.graph.node_ids
        return {
            "parameters": plain(asdict(self.parameters)),  # an infinite tail is null
            "noise": "auto" if self.estimated else "given",
            "sigma_rot_deg": math.degrees(sigma_rot),
            "sigma_trans": plain(sigma_trans),
            "core": "gaussian" if math.isinf(self.parameters.tail) else "heavy-tailed",
            "distrusted_edges": len(self.distrusted),
            "most_distrusted": [
                {
                    "i": ids[self.graph.edge_i[k]],
                    "j": ids[self.graph.edge_j[k]],
                    "inlier_probability": float(self.inlier_probability[k]),
                }
                for k in self.distrusted[:most].tolist()
            ],
        }


def parameters_from_facts(facts: dict[str, Any]) -> Parameters:
    """The inverse of what :meth:`EdgeVerdicts.facts` says about parameters."""
    values = dict(facts["parameters"])
    return Parameters(**{**values, "tail": math.inf if values["tail"] is None else values["tail"]})
