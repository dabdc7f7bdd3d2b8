r"""Solutions between which odds do not decide, as explanations.

Where nothing tells an order in time, odds between two solutions rest on wrong edges being independent of each other. That they are
not is seen in three ways: those that are called wrong agree with each other (:mod:`tempose.outliers.agreement`); edges that the
chosen solution rejects agree on another one; or the noise has a heavy tail, so that there is no saying where wrong begins. Odds
of e^100 to 1 mean nothing there: of two sets of edges that agree either may be the one of look-alikes.

Each of these solutions is an explanation. One that keeps b edges that the chosen one rejects, and rejects a that the chosen one
keeps, is

.. math::  \frac{b + 1}{a + 1} \prod_{\text{trusted}} \frac{P}{1 - P}

times as probable: an edge that is contested is as likely to be right as any other, so that a solution is as probable as edges speak
for it (by Laplace's rule). One node that twenty edges hold and two wrong ones want elsewhere is moved in one of seven cases, not in
one of two, and not never. The product is over the edges that somebody trusts: to give one up costs its prior odds, as where there
is an order.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import special

from tempose._typing import Array, Index, Mask
from tempose.model.poses import Poses
from tempose.outliers.agreement import agreement, verdict
from tempose.outliers.beliefs import log_odds
from tempose.outliers.chained import LEAST, REPORTED, moved_nodes
from tempose.outliers.em import RobustFit, fit, originals
from tempose.outliers.loose_parts import ACCEPTED, spread
from tempose.outliers.noise import RobustOptions
from tempose.outliers.solutions import Competitor, Explanation, RobustSolution, Weighing


def odds_decide(found: RobustSolution) -> bool:
    """Whether odds between solutions mean something: wrong edges are far off, and agree no more often than by chance."""
    chosen = found.fit
    if found.alternatives or math.isfinite(chosen.parameters.tail):
        return False
    if any(_agreeing(one, chosen) > 0 for one in found.competitors):
        return False
    agreed = agreement(chosen.graph, chosen.poses, chosen.inlier_probability, chosen.likelihood.prior)
    return agreed is None or agreed.agreeing == 0.0


def undecided(found: RobustSolution, own: Array, options: RobustOptions) -> RobustSolution:
    """The most probable of the chosen solution and all that compete with it, and these as explanations.

    Parameters
    ----------
    own
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    """
    graph = found.fit.graph
    sigmas = spread(graph, found.fit.poses, _kept(found.fit))
    fits = [found.fit]
    others = [one.fit.poses for one in found.competitors] + [one.moved(found.fit.poses) for one in found.alternatives]
    settled = [_settled(found.fit, poses, own, options) for poses in others]
    for here in settled:  # with the noise of the chosen one, which may lead some to the same poses
        if all(len(moved_nodes(graph, known.poses, here.poses, sigmas)) for known in fits):
            fits.append(here)
    if len(fits) == 1:
        return found
    probability = special.softmax([_log_probability(one, found.fit, own) for one in fits])
    order = np.argsort(-probability, kind="stable")
    probability, fits = probability[order], [fits[k] for k in order]
    agreed = [agreement(graph, one.poses, one.inlier_probability, one.likelihood.prior) for one in fits]
    nothing = np.zeros(graph.n_edges)
    rest = probability[0] * verdict(agreed[0], nothing)  # linear in the probability that is to be weighed
    share = probability[0] * verdict(agreed[0], nothing + 1.0) - rest
    for k in range(1, len(fits)):
        rest += probability[k] * verdict(agreed[k], fits[k].inlier_probability)
    explanations = tuple(
        Explanation(
            float(probability[k]), one.poses, one.likelihood.prior,
            moved_nodes(graph, fits[0].poses, one.poses, sigmas), np.zeros(0, dtype=np.int64),
        )
        for k, one in enumerate(fits[:REPORTED])
        if k == 0 or probability[k] >= LEAST
    )  # fmt: skip
    rivals = tuple(
        _against(fits[0], one, moved_nodes(graph, fits[0].poses, here.poses, sigmas, landmarks=True))
        for one, here in zip(found.competitors, settled, strict=False)
        if all(len(moved_nodes(graph, known.poses, here.poses, sigmas, landmarks=True)) for known in fits)
    )  # those that move landmarks alone: no explanation has them
    left = tuple(one for one in found.alternatives if not any(accepts(here, one.edges) for here in fits))
    return RobustSolution(fits[0], rivals, left, Weighing(explanations, share, rest, of_solutions=True))


def accepts(found: RobustFit, edges: Index) -> bool:
    """Whether a solution accepts most of some edges."""
    return bool(np.mean(_kept(found)[edges]) > 0.5)


def _against(chosen: RobustFit, other: Competitor, moved: Index) -> Competitor:
    """A competitor of the solution that is chosen now."""
    log_odds = chosen.log_evidence - other.fit.log_evidence
    return replace(other, log_odds=log_odds, moved=moved, kept_by_chosen=int(np.sum(_kept(chosen))))


def _settled(known: RobustFit, start: Poses, own: Array, options: RobustOptions) -> RobustFit:
    """A fit from other poses, with the noise of a known one."""
    p = known.parameters
    same = RobustOptions("given", p.inlier_probability, p.tail, p.outlier_sigma, options.rounds)
    return replace(fit(known.graph, start, same, own_probability=own), parameters=p)


def _kept(found: RobustFit) -> Mask:
    return np.asarray(found.inlier_probability > ACCEPTED)


def _agreeing(other: Competitor, chosen: RobustFit) -> int:
    """How many edges agree with others on what a competing solution says: of each part that it moves one fits anyhow."""
    here, there, first = _kept(other.fit), _kept(chosen), _first(chosen)
    parts = chosen.graph.with_edges(here & there).component[other.moved]
    return int(np.sum(here & ~there & first)) - len(np.unique(parts))


def _first(found: RobustFit) -> Mask:
    """Edges (m,) that are no copies of earlier ones: what is listed twice was measured once."""
    return np.asarray(originals(found.graph) == np.arange(found.graph.n_edges))


def _log_probability(found: RobustFit, chosen: RobustFit, own: Array) -> float:
    """Logarithm of how probable a solution is, up to a constant."""
    free, here, there = np.isnan(own) & _first(found), _kept(found), _kept(chosen)
    contested = np.sum(here & ~there & free), np.sum(there & ~here & free)
    return math.log1p(contested[0]) - math.log1p(contested[1]) + _log_trust(found, own) - _log_trust(chosen, own)


def _log_trust(found: RobustFit, own: Array) -> float:
    """Logarithm of the odds of what a solution keeps, of the edges that have a prior probability of their own."""
    said = ~np.isnan(own) & _first(found)
    return float(log_odds(own[said]) @ _kept(found)[said])
