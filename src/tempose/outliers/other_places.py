r"""What other places say of loop closures, on long ways.

Loop closures of one place are right together or wrong together, so that they cannot vouch for each other: what each of ten predicts
for the others is what all of them claim. Up to 400 nodes explanations see to that (:mod:`tempose.outliers.reading`). On longer ways
an edge that the poses keep is not believed more than the graph without its place makes of it: its prior probability if nothing else
tells, however many say the same, and one half if the rest contradicts it, as it may for errors that it does not know of.

The place of a cluster (:mod:`tempose.outliers.clusters`) are all loop closures between nodes as near in time, at both ends, as
neighbours are. They are left out, the poses settle without them, and predict what the cluster measures.
"""

from __future__ import annotations

import numpy as np

from tempose._typing import Array, Mask
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import lowered
from tempose.outliers.clusters import Clusters, stretch
from tempose.outliers.correlation import Projection, weighted
from tempose.outliers.em import originals
from tempose.outliers.loose_parts import ACCEPTED
from tempose.outliers.search.skeleton import skeleton
from tempose.outliers.sequence import Sequence

_STEPS, _LITTLE = 6, 1e-3  # of Newton's method, and nats that a further one has to gain
_MOST = 200_000  # nodes times clusters that are looked at, the largest first: a few seconds


def most_believed(posterior: Posterior, poses: Poses, inlier_probability: Array) -> Array | None:
    """The most (m,) that edges may be believed, 1 if only their own say counts; ``None`` where nothing tells an order in time.

    Edges that are certain beforehand stay so.

    Parameters
    ----------
    inlier_probability
        Of each edge (m,), given the poses.
    """
    graph, likelihood = posterior.graph, posterior.likelihood
    bones = skeleton(graph).once(originals(graph))
    sequence = Sequence.of(bones.graph)
    if likelihood is None or sequence is None:
        return None
    sigma_rot, sigma_trans = graph.median_sigmas
    clusters = Clusters.of(sequence, sequence.chain_poses, sigma_rot, sigma_trans)
    kept, weight = inlier_probability > ACCEPTED, likelihood.weight(posterior.energies(poses))
    ends = np.stack([sequence.rank[sequence.earlier], sequence.rank[sequence.later]], axis=1)
    loops = np.flatnonzero(kept[bones.edges] & ~sequence.is_link)
    most = np.ones(graph.n_edges)
    for c in np.argsort(-clusters.size, kind="stable")[: _MOST // graph.n_nodes].tolist():
        members = np.intersect1d(clusters.members[c], loops)
        apart = np.abs(ends[loops, None] - ends[members]).max(axis=2).min(axis=1, initial=graph.n_nodes)
        place = np.zeros(len(sequence.gap))
        place[loops[apart <= stretch(graph.n_nodes)]] = 1.0
        if place.sum() < 2:
            continue
        own = np.zeros(len(sequence.gap))
        own[members] = 1.0
        of_place, of_cluster = (bones.spread(one, 0.0) > 0.5 for one in (place, own))
        told = _by_others(posterior, poses, kept, of_place, weight)[of_cluster]
        most[of_cluster] = max(float(np.median(told)), 0.5)
    return np.where(likelihood.prior == 1.0, 1.0, most)


def _by_others(posterior: Posterior, poses: Poses, kept: Mask, place: Mask, weight: Array) -> Array:
    """Probability (m,) of the edges of a place by what the kept ones elsewhere predict; their prior if these fall apart."""
    graph, likelihood = posterior.graph, posterior.likelihood
    assert likelihood is not None
    out, held = likelihood.prior.copy(), graph.with_edges(kept)
    if _parts(graph, kept & ~place) > _parts(graph, kept):
        return out
    without = np.where(place, 0.0, weight)[kept]
    settled = lowered(Curvature(Posterior(weighted(held, without))), poses, max_steps=_STEPS, least_gain=_LITTLE)
    found = Projection.at(held, settled, without)
    if found is None:
        return out
    seen = found.predictions(without)
    here, (z2, freedom) = np.flatnonzero(kept), seen.distance
    all_z2, all_freedom, spread = np.zeros(graph.n_edges), np.zeros(graph.n_edges), np.zeros(graph.n_edges)
    all_z2[here], all_freedom[here], spread[here] = z2, freedom, seen.log_spread
    return np.where(place, likelihood.predicted_probability(all_z2, all_freedom, spread), out)


def _parts(graph: PoseGraph, edges: Mask) -> int:
    return graph.with_edges(edges).n_components
