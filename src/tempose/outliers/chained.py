"""Robust solutions of graphs whose ids are an order in time: explanations, each fitted, with their probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose._typing import Array, Index, Mask
from tempose.geometry import align, se3
from tempose.geometry import quaternion as quat
from tempose.model.gauge import tied_components
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.outliers.em import RobustFit, fit
from tempose.outliers.explanations import Breaks, Candidates, ExplanationSearch
from tempose.outliers.loose_parts import ACCEPTED, elsewhere, limits
from tempose.outliers.noise import RobustOptions
from tempose.outliers.reading import Candidate
from tempose.outliers.search.skeleton import Skeleton
from tempose.outliers.solutions import Explanation, RobustSolution, Weighing

REPORTED = 4  # explanations, at most
LEAST = 0.02  # probability of one that is reported
_ENOUGH = 0.95  # probability that those that are reported should have together: else they stand for others
_TRIED = 12  # to find the next one that stands for others
_ANCHORS = 9  # nodes from which two sets of poses are compared
IF_FALSE = 1e-6  # prior probability of an edge that an explanation calls wrong; that a link is wrong which it keeps


def solve_explained(
    graph: PoseGraph, bones: Skeleton, search: ExplanationSearch, candidates: Candidates, options: RobustOptions,
    own: Array,
) -> RobustSolution:  # fmt: skip
    """The most probable explanation, fitted with all parameters, and the others with the same noise.

    Explanations whose poses are alike are one; what they disagree on, mostly single edges, is in the verdicts. Where they are too
    many to be told, a few stand for others that differ only in which links of a stretch are the wrong ones.

    Parameters
    ----------
    own
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    """
    groups = _grouped(candidates, (search.sigma_rot, search.sigma_trans))
    reported = _probable(groups)
    if sum(group.probability for group in reported) < _ENOUGH:
        reported, others = _represented(groups, candidates, (search.sigma_rot, search.sigma_trans))
        groups = [*reported, *others]
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
        for x in (*group.members, *group.variants):
            weight = candidates.probability[x] * np.where(own == 1.0, 1.0, bones.spread(candidates.right(x), 1.0))
            is_fitted = k < len(fits) and x in group.members
            if k == 0 and is_fitted:
                share += weight
            else:
                fitted = fits[k].inlier_probability if is_fitted else bones.spread(candidates.found[x].fits, 1.0)
                rest += weight * fitted
    explanations = tuple(
        Explanation(
            group.probability, found.poses, found.likelihood.prior,
            moved_nodes(graph, fits[0].poses, found.poses, (search.sigma_rot, search.sigma_trans)),
            np.flatnonzero(bones.edges)[_given_up(candidates.found[k], found.inlier_probability, bones, search)],
            np.flatnonzero(bones.edges)[_instead(candidates, k, group)],
        )
        for group, k, found in zip(reported, placing, fits, strict=True)
    )  # fmt: skip
    return RobustSolution(fits[0], (), (), Weighing(explanations, share, rest))


def _given_up(one: Candidate, fitted: Array, bones: Skeleton, search: ExplanationSearch) -> Index:
    """Links of the skeleton that an explanation gives up, and those that it keeps but by ``fitted`` (m,) its own fit rejects."""
    return np.union1d(one.given_up, search.links[search.given_up(fitted[bones.edges] > ACCEPTED)])


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
    """Candidates whose poses are alike, the most probable first; others that count as the same; the probability of all."""

    members: list[int]
    probability: float
    variants: list[int] = field(default_factory=list)


def _grouped(candidates: Candidates, sigmas: tuple[float, float]) -> list[_Group]:
    groups: list[_Group] = []
    views = _Views([one.poses for one in candidates.found], sigmas)
    for k, probability in enumerate(candidates.probability.tolist()):
        for group in groups:
            if views.are_alike(group.members[0], k):
                group.members.append(k)
                group.probability += probability
                break
        else:
            groups.append(_Group([k], probability))
    return sorted(groups, key=lambda group: -group.probability)


def _represented(
    groups: list[_Group], candidates: Candidates, sigmas: tuple[float, float]
) -> tuple[list[_Group], list[_Group]]:
    """A few groups that stand for others, the most probable first, and the groups that none of them stands for.

    The first is the most probable of the most probable family; each further one is that which leaves the fewest nodes elsewhere, in
    expectation, than where one of those chosen has them, as long as that is a matter of 2% of a node. A group stands for those of
    its family to which it is the nearest of those chosen; families that are not probable enough to be told at all are left out.
    """
    families = _families(groups, candidates)
    poses = [candidates.found[group.members[0]].poses for group in groups]
    weight, apart_from = np.array([group.probability for group in groups]), _Views(poses, sigmas).apart_from
    total = np.bincount(families, weight)[families]
    weight = np.where(total < LEAST, 0.0, weight)
    chosen = [int(np.lexsort((-weight, -total))[0])]
    apart = [apart_from(chosen[0])]
    while len(chosen) < min(REPORTED, len(groups)):
        left = weight * np.min(apart, axis=0)
        tried = {int(k): apart_from(int(k)) for k in np.argsort(-left, kind="stable")[:_TRIED]}
        gain = {k: float(left.sum() - weight @ np.minimum(np.min(apart, axis=0), found)) for k, found in tried.items()}
        best = max(gain, key=gain.__getitem__)
        if gain[best] < LEAST:
            break
        chosen.append(best)
        apart.append(tried[best])
    nearest = np.argmin(apart, axis=0)
    nearest[chosen] = np.arange(len(chosen))
    stands = families == families[np.array(chosen)[nearest]]
    found = []
    for r, k in enumerate(chosen):
        others = [groups[j] for j in np.flatnonzero(stands & (nearest == r)) if j != k]
        variants = [x for group in others for x in group.members]
        probability = groups[k].probability + sum(group.probability for group in others)
        found.append(_Group(groups[k].members, probability, variants))
    found.sort(key=lambda group: -group.probability)
    reported = _probable(found)
    return reported, [*found[len(reported) :], *(groups[j] for j in np.flatnonzero(~stands))]


def _probable(groups: list[_Group]) -> list[_Group]:
    """Those that are reported, of groups of which the most probable comes first."""
    return [group for group in groups if group.probability >= LEAST][:REPORTED] or groups[:1]


def _families(groups: list[_Group], candidates: Candidates) -> Index:
    """Number of the family of each group: those that believe the same and give links up in the same stretches, wherever there."""
    family, of_breaks = np.arange(len(groups)), dict[Breaks, int]()
    for k, group in enumerate(groups):
        for x in group.members:
            known = of_breaks.setdefault(candidates.breaks[x], k)
            family[family == family[k]] = family[known]
    return np.unique(family, return_inverse=True)[1]


def _instead(candidates: Candidates, k: int, group: _Group) -> Index:
    """Links that variants of explanation k give up and it does not."""
    up = [candidates.found[x].given_up for x in group.variants]
    return np.setdiff1d(np.concatenate(up), candidates.found[k].given_up) if up else np.zeros(0, dtype=np.int64)


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


class _Views:
    """Poses as they are seen from some of their nodes, to be compared without any alignment."""

    def __init__(self, poses: Sequence[Poses], sigmas: tuple[float, float]) -> None:
        self.sigmas = sigmas
        some = np.unique(np.linspace(0, len(poses[0]) - 1, _ANCHORS).astype(np.int64))
        views = [
            se3.a_from_b((one.wxyz[some, None], one.position[some, None]), (one.wxyz[None], one.position[None]))
            for one in poses
        ]
        self.wxyz, self.position = (np.stack([view[k] for view in views]) for k in range(2))

    def are_alike(self, a: int, b: int) -> bool:
        """Whether no node of b lies elsewhere than in a, seen from some of those nodes."""
        angle, distance = limits(self.sigmas)
        return bool(
            _are_alike(
                self.wxyz[a], self.position[a], self.wxyz[b], self.position[b], math.cos(0.5 * angle), distance**2
            )
        )

    def apart_from(self, a: int) -> Array:
        """How many nodes of each (k,) lie elsewhere than in a, seen from that one of those nodes where these are fewest."""
        angle = 2.0 * np.arccos(np.minimum(np.abs(np.einsum("anc,kanc->kan", self.wxyz[a], self.wxyz)), 1.0))
        distance = np.sqrt(np.sum((self.position - self.position[a]) ** 2, axis=3))
        return np.asarray(np.sum(elsewhere(self.sigmas, angle, distance), axis=2).min(axis=1), dtype=float)


@kernel
def _are_alike(wxyz: Any, position: Any, other_wxyz: Any, other_position: Any, least_dot: float, most: float) -> bool:
    """Whether, in some row of views, all nodes have nearly the same rotation, and squared distances up to ``most``."""
    for a in range(wxyz.shape[0]):
        alike = True
        for n in range(wxyz.shape[1]):
            dot, squared = 0.0, 0.0
            for c in range(4):
                dot += wxyz[a, n, c] * other_wxyz[a, n, c]
            for c in range(3):
                squared += (position[a, n, c] - other_position[a, n, c]) ** 2
            if abs(dot) < least_dot or squared > most:
                alike = False
                break
        if alike:
            return True
    return False


def moved_nodes(graph: PoseGraph, a: Poses, b: Poses, sigmas: tuple[float, float], landmarks: bool = False) -> Index:
    """Rows of the nodes with an orientation, and of ``landmarks`` if wanted, that lie elsewhere after robust alignment.

    What is tied to the world is aligned together, and of the rest each component by itself. σ of an edge in radians and length.
    """
    turns = ~graph.is_landmark
    if graph.world is not None:
        turns[graph.world] = False
    frame = np.where(tied_components(graph), -1, np.arange(graph.n_components))[graph.component]
    angle, distance = np.zeros(graph.n_nodes), np.zeros(graph.n_nodes)
    for k in np.unique(frame[turns]):
        rows, common = frame == k, turns & (frame == k)
        motion = align((b.wxyz[common], b.position[common]), (a.wxyz[common], a.position[common]), robust=True)
        wxyz, position = motion.apply(b.wxyz[rows], b.position[rows])
        angle[rows] = quat.angle_between(a.wxyz[rows], wxyz)
        distance[rows] = np.linalg.norm(a.position[rows] - position, axis=1)
    apart = elsewhere(sigmas, np.where(turns, angle, 0.0), distance)
    return np.flatnonzero(apart & (turns | graph.is_landmark if landmarks else turns))
