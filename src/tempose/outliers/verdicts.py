"""Which edges to distrust: their posterior inlier probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._typing import Array, Index, Mask
from tempose.model.graph import PoseGraph
from tempose.model.topology import series
from tempose.outliers.noise import Parameters

DISTRUSTED = 0.5


def one_wrong_of_each(graph: PoseGraph, kept: Mask, probability: Array) -> Array:
    """Probabilities (m,) of edges being right, from those given that all others are: of edges in a row at most one is wrong.

    A cycle that does not close speaks against every link of a long way, as each is predicted by all the others. But one wrong edge
    explains it: with the odds w of each edge of a row, k is wrong with probability ``w_k / (1 + Σ w)``. ``kept``
    (m,) are the edges that hold the poses.
    """
    rows = np.flatnonzero(kept)
    row = series(graph.n_nodes, graph.edge_i[rows], graph.edge_j[rows])
    given = np.maximum(probability[rows], np.finfo(float).tiny)
    with np.errstate(divide="ignore"):
        odds = np.log1p(-given) - np.log(given)
    highest = np.zeros(int(row.max(initial=-1)) + 1)
    np.maximum.at(highest, row, odds)
    total = highest + np.log(np.exp(-highest) + np.bincount(row, np.exp(odds - highest[row]), len(highest)))
    out = probability.copy()
    several = np.bincount(row)[row] > 1
    out[rows[several]] = -np.expm1((odds - total[row])[several])
    return out


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
    alone
        The same probability (m,) before a doubt that edges have in common, which is no reason to think that one of a row is wrong;
        by default there is none.
    """

    graph: PoseGraph
    inlier_probability: Array
    parameters: Parameters
    estimated: bool
    alone: Array | None = None

    @property
    def one_of(self) -> Index:
        """Edges in a row, the longest, one of which is more probably wrong than not, while nothing tells which; mostly none.

        The motions of a row, of edges in series, are known together only, by what closes its cycles.
        """
        right = self.inlier_probability if self.alone is None else self.alone
        kept = np.flatnonzero(right >= DISTRUSTED)
        row = series(self.graph.n_nodes, self.graph.edge_i[kept], self.graph.edge_j[kept])
        size = np.bincount(row)
        doubtful = np.where(size > 1, size * (np.bincount(row, 1.0 - right[kept]) > DISTRUSTED), 0)
        return kept[row == np.argmax(doubtful)] if np.any(doubtful) else kept[:0]

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
