"""Robust solutions of graphs whose ids are an order in time: explanations, each fitted, with their probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.geometry import align, se3
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.outliers.em import RobustFit, fit
from tempose.outliers.explanations import Candidates, ExplanationSearch
from tempose.outliers.loose_parts import elsewhere
from tempose.outliers.noise import RobustOptions
from tempose.outliers.search.skeleton import Skeleton
from tempose.outliers.solutions import Explanation, RobustSolution, Weighing

REPORTED = 4  # explanations, at most
LEAST = 0.02  # probability of one that is reported
_ANCHORS = 9  # nodes from which two sets of poses are compared
IF_FALSE = 1e-6  # prior probability of an edge that an explanation calls wrong; that a link is wrong which it keeps


def solve_explained(
    graph: PoseGraph, bones: Skeleton, search: ExplanationSearch, candidates: Candidates, options: RobustOptions,
    own: Array,
) -> RobustSolution:  # fmt: skip
    """The most probable explanation, fitted with all parameters, and the others with the same noise.

    Explanations whose poses are alike are one; what they disagree on, mostly single edges, is in the verdicts.

    Parameters
    ----------
    own
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    """
    groups = _grouped(candidates, (search.sigma_rot, search.sigma_trans))
    reported = [group for group in groups if group.probability >= LEAST][:REPORTED] or groups[:1]
    fits: list[RobustFit] = []
    placing = [_placing(candidates, group) for group in reported]
    for k in placing:
        prior = _prior(candidates, k, search.sequence.is_link, bones, own)
        start = bones.completed(candidates.found[k].poses)
        if not fits:
            fits.append(_fitted(graph, start, options, prior, bones.is_all))
            continue
        p = fits[0].parameters
        same = RobustOptions("given", p.inlier_probability, p.tail, p.outlier_sigma, options.rounds)
        fits.append(_fitted(fits[0].graph, start, same, prior, bones.is_all))
    share, rest = np.zeros(graph.n_edges), np.zeros(graph.n_edges)
    for k, group in enumerate(groups):
        for x in group.members:
            weight = candidates.probability[x] * bones.spread(candidates.right(x), 1.0)
            if k == 0:
                share += weight
            else:
                fitted = fits[k].inlier_probability if k < len(fits) else bones.spread(candidates.found[x].fits, 1.0)
                rest += weight * fitted
    explanations = tuple(
        Explanation(
            group.probability, found.poses, found.likelihood.prior,
            moved_nodes(graph, fits[0].poses, found.poses, (search.sigma_rot, search.sigma_trans)),
            np.flatnonzero(bones.edges)[candidates.found[k].given_up],
        )
        for group, k, found in zip(reported, placing, fits, strict=True)
    )  # fmt: skip
    return RobustSolution(fits[0], (), (), Weighing(explanations, share, rest))


def _fitted(graph: PoseGraph, start: Poses, options: RobustOptions, prior: Array, is_all: bool) -> RobustFit:
    """The fit of an explanation; from the poses that all its edges want as well, if there are more than the skeleton has.

    Fixes and sightings were placed robustly, which may leave a right one out.
    """
    found = fit(graph, start, options, own_probability=prior)
    believed = ~(prior <= IF_FALSE)
    if is_all or graph.with_edges(believed).n_components > graph.n_components:
        return found
    wanted = minimise(Curvature(Posterior(graph.with_edges(believed))), start).poses
    return max(found, fit(graph, wanted, options, own_probability=prior), key=lambda one: one.log_evidence)


@dataclass
class _Group:
    """Candidates whose poses are alike, the most probable first, and their probability together."""

    members: list[int]
    probability: float


def _grouped(candidates: Candidates, sigmas: tuple[float, float]) -> list[_Group]:
    groups: list[_Group] = []
    views = _Views(candidates, sigmas)
    for k, probability in enumerate(candidates.probability.tolist()):
        for group in groups:
            if views.alike(group.members[0], k):
                group.members.append(k)
                group.probability += probability
                break
        else:
            groups.append(_Group([k], probability))
    return sorted(groups, key=lambda group: -group.probability)


def _placing(candidates: Candidates, group: _Group) -> int:
    """The most probable of those of a group that leave the fewest parts unplaced.

    They have the same poses. What some of them doubt, and leave nothing to hold a part with, is in the verdicts.
    """
    sequence = candidates.clusters.sequence

    def parts(k: int) -> int:
        return sequence.graph.with_edges(candidates.found[k].fits).n_components

    return min(group.members, key=parts)


def _prior(candidates: Candidates, k: int, links: Mask, bones: Skeleton, own: Array) -> Array:
    """Prior inlier probabilities (m,) if explanation k is true: hardly any for rejected clusters and links given up.

    Links that it keeps are right: poses at which one is not belong to another explanation, and so do those at which a loop closure
    is right that it does not believe. What it believes is right edge by edge, as far as it fits.
    """
    one, clusters = candidates.found[k], candidates.clusters
    called_wrong = clusters.spread(~one.believed, False).astype(bool)
    called_wrong[one.given_up] = True
    wrong = bones.spread(called_wrong, 0.0) > 0.5
    kept = bones.spread(links, 0.0) > 0.5
    prior = np.where(kept & ~wrong, np.fmax(own, 1.0 - IF_FALSE), own)
    return np.where(wrong & ~(own == 1.0), IF_FALSE, prior)


def _apart(a: Poses, b: Poses, sigmas: tuple[float, float]) -> Mask:
    """Whether nodes (n,) of two sets of poses lie elsewhere after robust alignment."""
    moved = b.moved(align((b.wxyz, b.position), (a.wxyz, a.position), robust=True))
    distance = np.linalg.norm(a.position - moved.position, axis=1)
    return elsewhere(sigmas, quat.angle_between(a.wxyz, moved.wxyz), distance)


class _Views:
    """Poses of candidates as they are seen from some of their nodes, to be compared without any alignment."""

    def __init__(self, candidates: Candidates, sigmas: tuple[float, float]) -> None:
        self.sigmas, self.views = sigmas, []
        for one in candidates.found:
            q, t = one.poses.wxyz, one.poses.position
            some = np.unique(np.linspace(0, len(q) - 1, _ANCHORS).astype(np.int64))
            self.views.append(se3.a_from_b((q[some, None], t[some, None]), (q[None], t[None])))

    def alike(self, a: int, b: int) -> bool:
        """Whether no node lies elsewhere, seen from one of those nodes."""
        (qa, ta), (qb, tb) = self.views[a], self.views[b]
        angle = 2.0 * np.arccos(np.minimum(np.abs(np.einsum("knc,knc->kn", qa, qb)), 1.0))
        apart = elsewhere(self.sigmas, angle, np.sqrt(np.sum((ta - tb) ** 2, axis=2)))
        return bool(np.any(~np.any(apart, axis=1)))


def moved_nodes(graph: PoseGraph, a: Poses, b: Poses, sigmas: tuple[float, float]) -> Index:
    """Rows of the nodes with an orientation that lie elsewhere; σ of an edge in radians and length."""
    rows = np.flatnonzero(~graph.is_landmark)
    rows = rows[rows != graph.world] if graph.world is not None else rows
    names = [graph.node_ids[k] for k in rows]
    return np.asarray(rows[_apart(a.select(names), b.select(names), sigmas)])
