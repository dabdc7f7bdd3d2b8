r"""Loop closures that say the same, in the evidence of a fit: those of a cluster that it rejects are one mistake.

Between a fit that keeps a look-alike seen n times and one that rejects it, evidence of independent wrong edges counts n mistakes.
But whoever takes one place for another does so again a step later. The first rejected edge of a wrong cluster is a mistake, with
the density o; each of the others says what those before it have said, up to the noise of both and of the chain between: its
density is about :math:`c\, e^{-\mathrm{core}(d/2)}\, S^{-d/2}`, S the variance of that prediction in units of the edge's own.
Clusters that a fit keeps need no such count: their edges agree with its poses, whose volume has shrunk by as much.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.outliers.clusters import Clusters
from tempose.outliers.em import RobustFit


@dataclass(frozen=True, eq=False)
class Repeats:
    """Edges that say the same as others.

    Attributes
    ----------
    label
        Number of the cluster of each edge (m,); −1 for those in none.
    ends
        Places in time (m, 2) of the earlier and the later end of each edge.
    """

    label: Index
    ends: Index

    @classmethod
    def none(cls, n_edges: int) -> Repeats:
        """No edge repeats another."""
        return cls(np.full(n_edges, -1), np.zeros((n_edges, 2), dtype=np.int64))

    @classmethod
    def of(cls, clusters: Clusters, edges: Mask) -> Repeats:
        """Those of clusters in the skeleton, whose ``edges`` of the graph (m,) these are."""
        sequence, out = clusters.sequence, cls.none(len(edges))
        out.label[edges] = clusters.of_edge
        out.ends[edges] = np.stack([sequence.rank[sequence.earlier], sequence.rank[sequence.later]], axis=1)
        return out

    def spread(self, rejected: Mask) -> Array:
        """Variance (m,) of what a rejected edge says, given the rejected ones before it in its cluster, in units of its own.

        Infinite for the first of them, and for edges that are not rejected. What a cluster says walks at random along its edges in
        their order, a variance of 1 for every step of the chain, and every edge sees it with a variance of 1: a Kalman filter.
        """
        spread = np.full(len(self.label), np.inf)
        rows = np.flatnonzero(rejected & (self.label >= 0))
        rows = rows[np.lexsort((self.ends[rows, 1], self.ends[rows, 0], self.label[rows]))]
        known = 1.0
        for before, here in itertools.pairwise(rows.tolist()):
            if self.label[before] != self.label[here]:
                known = 1.0
                continue
            predicted = known + float(np.abs(self.ends[here] - self.ends[before]).sum())
            spread[here], known = predicted + 1.0, predicted / (predicted + 1.0)
        return spread


def counted_once(found: RobustFit, repeats: Repeats) -> RobustFit:
    """The fit, its evidence with the edges of a cluster that it rejects counted as one mistake.

    The first of those that it rejects is a mistake; the others repeat it as precisely as right ones would. Edges that are rejected
    from a cluster of which as many are kept are mistakes of their own.
    """
    gain, spread = _repeated(found, repeats)
    return replace(found, log_evidence=found.log_evidence + float(np.maximum(gain - spread, 0.0).sum()))


def in_doubt(found: RobustFit, repeats: Repeats) -> float:
    """How much more evidence a fit that was counted once may have: if repetitions said exactly what they repeat.

    How uncertain the way between two edges of a cluster is, is known roughly, and a little for each of many edges is much.
    """
    gain, spread = _repeated(found, repeats)
    return float((np.maximum(gain, 0.0) - np.maximum(gain - spread, 0.0)).sum())


def _repeated(found: RobustFit, repeats: Repeats) -> tuple[Array, Array]:
    """For edges that repeat a mistake (k,): log density over a mistake's if they do exactly, and how much less it is by the way."""
    likelihood, inside = found.likelihood, repeats.label >= 0
    wrong = found.inlier_probability < 0.5
    if not np.any(wrong & inside):
        return np.zeros(0), np.zeros(0)
    label = repeats.label[inside]
    mostly = np.bincount(label, wrong[inside]) > 0.5 * np.bincount(label)
    spread = repeats.spread(wrong & inside & mostly[repeats.label])
    again = np.isfinite(spread)
    half = 0.5 * likelihood.freedom
    return (-likelihood.log_odds - likelihood.core(half))[again], half[again] * np.log(spread[again])
