"""Sentences about the edges: tests, noise, verdicts."""

from __future__ import annotations

import math

import numpy as np

from tempose._support.words import plural, word_for
from tempose.analysis.edge_checks import EdgeChecks
from tempose.analysis.reliability import GlobalTest, Reliability
from tempose.describe.common import listed
from tempose.model.graph import PoseGraph
from tempose.model.robust import RobustLikelihood
from tempose.outliers.agreement import Agreement
from tempose.outliers.noise import Parameters
from tempose.outliers.verdicts import EdgeVerdicts

INDEPENDENT = (
    "wrong edges are taken as independent of each other here: where they repeat each other, as look-alike places make them, "
    "these probabilities are too sure"
)


def agreement(found: Agreement | None) -> str:
    """What is assumed of wrong edges, where nothing tells in which order nodes were recorded."""
    if found is None:
        return INDEPENDENT
    if found.agreeing == 0.0:
        return "wrong edges are taken as independent of each other: those found agree no more often than by chance"
    return (
        f"{100 * found.agreeing:.0f}% of the edges that do not fit agree with each other, as look-alike places make them; so those "
        f"that fit are right in {100 * found.share_right:.0f}% of the cases at most, and probabilities are lower by that"
    )


def global_test(test: GlobalTest) -> str:
    """Whether the measurements fit each other as well as their noise says."""
    if test.passed is None:
        return "global test: nothing to test, as many unknowns as measurements"
    low, high = test.bounds
    said = f"variance factor {test.variance_factor:.3g}, {low:.3g} to {high:.3g} at a level of {100 * test.level:g}%"
    return f"global test {'passed' if test.passed else 'failed'}: {said}, {test.freedom:g} degrees of freedom"


def scaling(choice: str, variance_factor: float) -> list[str]:
    """What became of the choice to scale the noise by the variance factor."""
    if choice == "never":
        return []
    if variance_factor == 1.0:
        return ["the noise holds as stated: the global test does not reject it, or there is nothing to test"]
    why = "as asked" if choice == "always" else "as the global test rejects the stated noise"
    return [f"every σ is {math.sqrt(variance_factor):.3g} times as stated: scaled by the variance factor, {why}"]


def reliability(found: Reliability, graph: PoseGraph) -> str:
    """What an undetected error of the weakest edge could do."""
    k = found.weakest
    assert k is not None
    name = graph.edge_name(k)
    unchecked = int(np.sum(np.isinf(found.external)))
    if unchecked:
        edges = f"{plural(unchecked, 'edge')} {word_for(unchecked, 'is', 'are')}"
        return f"{edges} checked by nothing: any error there stays undetected (first: {name})"
    return (
        f"an error that just stays undetected (level {100 * found.level:g}%, power {100 * found.power:g}%) moves the poses "
        f"by at most {found.external[k]:.1f} of their σ (edge {name})"
    )


def edge_checks(checks: EdgeChecks) -> str:
    """Whether an edge contradicts the rest."""
    if not checks.determined:
        return "no edge is checked by the others: not all poses are determined"
    if not checks.n_checked:
        return "no edge is checked by the others: there are no loops"
    worst = int(checks.order[0])
    name = "{} → {}".format(*checks.edges[worst])
    if not len(checks.suspects):
        return (
            f"no edge is surprising: the most surprising of {checks.n_checked} is {name}, p = {checks.corrected_p:.2g}"
        )
    return (
        f"{len(checks.suspects)} of {checks.n_checked} edges are too far off for their noise, most of all {name} "
        f"({math.sqrt(checks.z2[worst] / checks.freedom[worst]):.3g} times its expected distance)"
    )


def noise_levels(graph: PoseGraph) -> str:
    """Median σ of rotations and translations."""
    sigma_rot, sigma_trans = graph.median_sigmas
    found = [f"{math.degrees(sigma_rot):.3g}°"] * (not math.isnan(sigma_rot))
    return f"σ = {' and '.join(found + [f'{sigma_trans:.3g}'] * (not math.isnan(sigma_trans)))}"


def estimated_noise(graph: PoseGraph, p: Parameters) -> str:
    """The noise that a solve without wrong edges has estimated, and how it differs from what was stated."""
    return (
        f"noise estimated: {noise_levels(graph)} per axis, {p.rotation_scale:.3g} times (rotations) and "
        f"{p.translation_scale:.3g} times (translations) as stated"
    )


def noise(verdicts: EdgeVerdicts) -> str:
    """The noise of a robust solve, and the share of its inliers, of all edges by their verdicts."""
    p = verdicts.parameters
    core = "Gaussian" if math.isinf(p.tail) else f"heavy-tailed (ν = {p.tail:g})"
    told = "estimated" if verdicts.estimated else "as given"
    if verdicts.estimated and p.kept and p.rotation_scale == p.translation_scale == 1.0:
        told = "as stated (too little checks it)"
    return (
        f"noise {told}: {noise_levels(verdicts.graph)} per axis; inliers are {core}, "
        f"{100.0 * float(np.mean(verdicts.inlier_probability)):.3g} % of the edges"
    )


def precise_only(likelihood: RobustLikelihood) -> list[str]:
    """That only precise edges tell the poses, if it is so."""
    if not likelihood.is_precise_only:
        return []
    return [
        f"errors of edges have no scale (ν = {likelihood.tail:g}), and rough edges contradict precise ones by more than "
        f"independent errors would: only edges at most {likelihood.least_weight**-0.5:.2g} times as noisy as usual move poses and "
        "draws; noise and verdicts are of all edges"
    ]


def distrusted(verdicts: EdgeVerdicts, most: int = 5, *, contested: bool = False) -> str:
    """Which edges are distrusted; ``contested``: there are several explanations, which may call different ones wrong."""
    worst = verdicts.distrusted
    if not len(worst) and contested:
        doubtful = np.argsort(verdicts.inlier_probability, kind="stable")[:most].tolist()
        names = [f"{verdicts.name(k)} ({verdicts.inlier_probability[k]:.2f})" for k in doubtful]
        return (
            f"no edge of {verdicts.graph.n_edges} is more probably wrong than right, since each explanation gives up others; "
            f"least probable: {', '.join(names)}"
        )
    if not len(worst):
        return f"no edge of {verdicts.graph.n_edges} is distrusted"
    names = [f"{verdicts.name(k)} ({verdicts.inlier_probability[k]:.2f})" for k in worst]
    return f"{len(worst)} of {plural(verdicts.graph.n_edges, 'edge')} distrusted; worst: {listed(names, most)}"
