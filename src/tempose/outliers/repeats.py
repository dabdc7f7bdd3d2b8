r"""Loop closures that say the same, in the evidence of a fit: those of a cluster that it rejects are one mistake.

Between a fit that keeps a look-alike seen n times and one that rejects it, evidence of independent wrong edges counts n mistakes.
But whoever takes one place for another does so again a step later. The first edge of a wrong cluster is a mistake, with the density
o; each of the others says what those before it have said, up to the noise of both and of the chain between: its density is
about :math:`c\, e^{-\mathrm{core}(d/2)}\, S^{-d/2}`, S the variance of that prediction in units of the edge's own. Clusters that a
fit keeps need no such count: their edges agree with its poses, whose volume has shrunk by as much.
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
    spread
        Variance (m,) of what an edge says, given those before it in its cluster, in units of its own; infinite for the first.
    """

    label: Index
    spread: Array

    @classmethod
    def none(cls, n_edges: int) -> Repeats:
        """No edge repeats another."""
        return cls(np.full(n_edges, -1), np.full(n_edges, np.inf))

    @classmethod
    def of(cls, clusters: Clusters, edges: Mask) -> Repeats:
        """Those of clusters in the skeleton, whose ``edges`` of the graph (m,) these are.

        What a cluster says walks at random along its edges in their order, a variance of 1 for every step of the chain, and
        every edge sees it with a variance of 1: a Kalman filter.
        """
        sequence, out = clusters.sequence, cls.none(len(edges))
        first, second = sequence.rank[sequence.earlier], sequence.rank[sequence.later]
        spread = np.full(sequence.graph.n_edges, np.inf)
        for members in clusters.members:
            ordered = members[np.lexsort((second[members], first[members]))]
            known = 1.0
            for before, here in itertools.pairwise(ordered.tolist()):
                predicted = known + abs(first[here] - first[before]) + abs(second[here] - second[before])
                spread[here], known = predicted + 1.0, predicted / (predicted + 1.0)
        out.label[edges], out.spread[edges] = clusters.of_edge, spread
        return out


def counted_once(found: RobustFit, repeats: Repeats) -> RobustFit:
    """The fit, its evidence with the edges of a cluster that it rejects counted as one mistake.

    The first of them is a mistake; the others repeat it as precisely as right ones would. Single edges that are rejected from a
    cluster that is kept are mistakes of their own.
    """
    likelihood, repeated = found.likelihood, np.isfinite(repeats.spread)
    label = repeats.label[repeated]
    wrong = (1.0 - found.inlier_probability)[repeated]
    freedom = likelihood.freedom[repeated]
    gain = -likelihood.log_odds - likelihood.core(0.5 * likelihood.freedom)
    gain = np.maximum(gain[repeated] - 0.5 * freedom * np.log(repeats.spread[repeated]), 0.0)
    gain = np.where(wrong > 0.5, gain, 0.0)
    count = np.maximum(np.bincount(label), 1)
    rejected = np.bincount(label, wrong) / count > 0.5
    return replace(found, log_evidence=found.log_evidence + float(np.bincount(label, gain) @ rejected))
