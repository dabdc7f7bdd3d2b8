"""Every sentence about a result: from data to words, in one place, and nowhere the other way round.

Functions take the objects of :mod:`tempose.analysis`, :mod:`tempose.optimum` and :mod:`tempose.outliers` and return
lines for people. Terminal, page and ``result.json`` say the same because they ask here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tempose._support.files import bytes_text
from tempose._support.words import plural, word_for
from tempose._typing import Array, Index, Mask, NodeId
from tempose.analysis.diagnostics import (
    ESS_GOOD,
    FEWEST_DRAWS,
    RHAT_BAD,
    RHAT_GOOD,
    Diagnostics,
    Level,
    Trouble,
)
from tempose.analysis.edge_checks import EdgeChecks
from tempose.analysis.modes import Mode, Modes
from tempose.analysis.reliability import GlobalTest, Reliability
from tempose.analysis.shared_errors import SharedErrors
from tempose.analysis.summary import NodeSummary, median_sigma
from tempose.analysis.trust import Doubt, Finding, Judgement, understates
from tempose.geometry import quaternion as quat
from tempose.model.gauge import tied_components
from tempose.model.graph import WORLD, PoseGraph
from tempose.optimum.certificate import Certificate, Proof
from tempose.optimum.hessian import Undetermined
from tempose.outliers.competing import Alternative
from tempose.outliers.correlation import NOTABLE, ChainCorrelation
from tempose.outliers.loose_parts import LoosePart
from tempose.outliers.noise import FEWEST_SPARE, GROUPS, MOTIONS, Parameters
from tempose.outliers.solutions import Competitor, Explanation, RobustSolution, Weighing
from tempose.outliers.verdicts import EdgeVerdicts
from tempose.sampling.sampler import Cause, Reason

__all__ = [
    "advice",
    "alternative",
    "certificate",
    "competing",
    "competitor",
    "contested",
    "correlated_errors",
    "distrusted",
    "edge_checks",
    "error_bars",
    "estimated_noise",
    "explained",
    "explanations",
    "first_look",
    "further_doubts",
    "global_test",
    "judgement",
    "kept_noise",
    "kept_proof",
    "legend",
    "links_given_up",
    "listed",
    "loose",
    "loose_parts",
    "modes",
    "modes_advice",
    "nodes_elsewhere",
    "noise",
    "noise_fit",
    "noise_fits",
    "noise_levels",
    "of_graph",
    "optimiser_trouble",
    "paper_noise",
    "poses_alone",
    "precisions",
    "reason",
    "reliability",
    "room_for_draws",
    "sampler",
    "scaling",
    "seen_rarely",
    "shared_errors",
    "shares",
    "sigmas",
    "slow_mixing",
    "starts",
    "undetermined",
    "verdict",
    "verdict_reason",
    "widened_noise",
]

ANY_TURN_DEG = 100.0  # a rotation of which nothing is known has 180°/√3 = 104° per axis
NO_GAUSSIAN = "the Hessian at the estimate is not positive definite: there is no Gaussian approximation there"
KEPT = "for the problem of the kept edges, each weighted by its inlier probability"
"""What proofs are about after a robust solve."""
IF_FIRST = "if explanation 1 is the true one"
"""What error bars of the estimate refer to where there are several explanations."""
INDEPENDENT = (
    "wrong edges are taken as independent of each other here: where they repeat each other, as look-alike places make them, "
    "these probabilities are too sure"
)
_NUMBERS = ("no", "one", "two", "three", "four")
_MOST_ODDS = 1000  # larger ones would say more about the model than about the graph


def listed(names: Sequence[object], most: int) -> str:
    """The first names, and an ellipsis if there are more."""
    return ", ".join(map(str, names[:most])) + (", …" if len(names) > most else "")


# ---------------------------------------------------------------------- all in all


def judgement(found: Judgement, checks: EdgeChecks, weighing: Weighing | None, reasons: Sequence[str]) -> str:
    """Whether to trust a result, and the one reason that matters most: ``do not trust it: 600 of 814 edges contradict the rest``.

    ``reasons`` are what to say where there is no doubt.
    """
    why = doubt(found.findings[0], checks, weighing) if found.findings else ", ".join(reasons)
    return f"{found.trust}: {why}"


def further_doubts(found: Judgement, checks: EdgeChecks, weighing: Weighing | None) -> list[str]:
    """What else speaks against a result, and what to do next, one line each."""
    rest = [doubt(one, checks, weighing) for one in found.findings[1:]]
    lines = [f"also: {'; '.join(rest)}"] if rest else []
    how = "next: solve again with" if found.surely_helps else "may help:"
    return [*lines, f"{how} {' '.join(found.options)}"] if found.options else lines


def doubt(one: Finding, checks: EdgeChecks, weighing: Weighing | None) -> str:
    """A reason not to trust a result, as part of a sentence."""
    value, count = one.value, 0 if math.isnan(one.value) else round(one.value)
    if one.doubt is Doubt.UNDECIDED and weighing is not None:
        return contested(weighing)
    return {
        Doubt.NOT_CONVERGED: "the optimiser did not converge, so the poses may be far from the best",
        Doubt.NO_ERROR_BARS: "not all poses are determined, so there are no error bars",
        Doubt.HARDLY_DETERMINED: f"orientations are hardly determined, to {value:.0f}° per axis",
        Doubt.CONTRADICTIONS: f"{count} of {plural(checks.n_checked, 'edge')} contradict the rest",
        Doubt.NOISE_UNDERSTATED: f"measurements scatter {value:.2g} times as much as stated, and error bars are too small by that",
        Doubt.NOISE_OVERSTATED: f"measurements scatter only {value:.2g} times as much as stated: error bars are too wide",
        Doubt.DRAWS_BAD: f"the chains disagree with each other (R-hat {value:.3g}), so their error bars mean little",
        Doubt.DRAWS_TOO_FEW: f"the draws are worth {plural(count, 'independent one')}, too few to judge error bars by",
        Doubt.MODES: f"the draws lie in {count} modes whose odds are not known",
        Doubt.COMPETING: "another solution explains the measurements, too"
        if count == 1
        else f"{count} other solutions explain the measurements, too",
        Doubt.MANY_DISTRUSTED: f"{value:.0f}% of the edges are distrusted, each taken for a mistake of its own",
        Doubt.LOOSE_PARTS: f"{plural(count, 'part')} of the graph hang{'s' * (count == 1)} on a single edge or none",
        Doubt.CORRELATED: f"errors along the chain add up to at least {value:.2g} times what independent ones would",
        Doubt.SHARED: "edges that meet err alike, so error bars are too small",
        Doubt.UNDETERMINED: "the measurements do not tie all of it to the world",
        Doubt.UNCHECKED: "there are no loops: no edge is checked by another",
        Doubt.NOT_PROVEN: f"these poses may be a local optimum, up to {value:.2g}% of U above the best",
    }[one.doubt]


# ---------------------------------------------------------------------- the graph


def counts(graph: PoseGraph) -> str:
    """What a graph holds: ``30 planar nodes, 5 landmarks, 80 edges, 4 absolute measurements, 1 component``."""
    landmarks, absolute = len(graph.landmarks), graph.n_edges - int(np.sum(graph.is_relative))
    fixed = [
        name for name in graph.fixed if name != WORLD
    ]  # a single one only says where the frame is, without the world
    parts = [
        plural(len(graph.reported) - landmarks, "planar node" if graph.is_planar else "node"),
        *([plural(landmarks, "landmark")] if landmarks else []),
        plural(graph.n_edges - absolute, "edge"),
        *([plural(absolute, "absolute measurement")] if absolute else []),
        *([plural(len(fixed), "fixed node")] if len(fixed) > (graph.world is None) else []),
        plural(graph.n_components, "component"),
    ]
    return ", ".join(parts)


def of_graph(graph: PoseGraph) -> list[str]:
    """What is unusual about a graph."""
    lines = []
    if graph.n_components > 1:
        sizes = np.sort(np.bincount(graph.component[: len(graph.reported)]))[::-1]
        frame = (
            "; each is tied to the world, which is their common frame"
            if np.all(tied_components(graph))
            else " and has its own frame; poses in different components cannot be compared"
        )
        lines.append(
            f"the graph has {graph.n_components} components ({listed(sizes.tolist(), 5)} nodes): each is solved on its own{frame}"
        )
    if graph.isolated:
        lines.append(
            f"nothing is measured about {plural(len(graph.isolated), 'node')} without edges: {listed(graph.isolated, 5)}, left "
            "at the origin"
        )
    count = int(np.sum(~graph.has_translation & graph.is_relative))
    if count:
        verb = word_for(count, "carries", "carry")
        lines.append(f"{count} of {plural(int(np.sum(graph.is_relative)), 'edge')} {verb} a rotation only")
    return lines + seen_rarely(graph)


def first_look(graph: PoseGraph, facts: Mapping[str, Any], links: int) -> list[str]:
    """What is in a file, before anything is solved, one line each; ``links`` edges lie along a chain of ids."""
    lines = [counts(graph), *of_graph(graph)]
    if links:
        loops = int(np.sum(graph.is_relative)) - links
        lines.append(
            f"ids are an order in time: {plural(links, 'step')} of odometry and {plural(loops, 'loop closure')}"
        )
    levels = [
        f"{spread['median']:.3g}{unit}"
        + (f" (up to {spread['most']:.3g}{unit})" if spread["most"] > 3.0 * spread["median"] else "")
        for spread, unit in ((facts["sigma_rot_deg"], "°"), (facts["sigma_trans"], ""))
        if spread is not None
    ]
    lines.append(f"noise stated: σ = {' and '.join(levels)} per axis" if levels else "no noise is stated")
    turn = facts["sigma_rot_deg"]
    if turn is not None and turn["most"] > ANY_TURN_DEG:
        lines.append(
            f"a σ of {turn['most']:.2g}° says nothing about a rotation: look whether the file's units and precisions are what they "
            "should be"
        )
    shown, shift = facts["sigma_rot_deg_shown_by_triangles"], facts["sigma_trans_shown_by_triangles"]
    if shown is not None:
        length = "" if shift is None else f" and {shift:.3g}"
        lines.append(f"noise that {plural(facts['n_triangles'], 'triangle')} show: about {shown:.3g}°{length} per axis")
    elif not facts["n_triangles"]:
        lines.append("there are no triangles, so that the noise shows only in a solve")
    if facts["n_edges_that_break_triangles"]:
        names = listed(facts["edges_that_break_triangles"], 4)
        lines.append(
            f"{plural(facts['n_edges_that_break_triangles'], 'edge')} break their triangles, most of all {names}"
        )
    if facts["n_bridges"]:
        verb = word_for(facts["n_bridges"], "is", "are")
        lines.append(
            f"{plural(facts['n_bridges'], 'edge')} {verb} checked by nothing (bridges): {listed(facts['bridges'], 4)}"
        )
    if facts["correlated_edges"]:
        lines.append(f"{plural(facts['correlated_edges'], 'edge')} with correlations")
    lines.append(
        "poses to start from are in the file" if facts["has_poses"] else "no poses to start from are in the file"
    )
    return lines


def poses_alone(facts: Mapping[str, Any]) -> list[str]:
    """What is in a file of poses without edges, one line each: of ``overview.of_poses``."""
    lines = [f"{plural(facts['n_nodes'], 'pose')} and no edges: from {facts['first']} to {facts['last']}"]
    if facts["extent"] is not None:
        size = " × ".join(f"{x:.4g}" for x in facts["extent"])
        lines.append(f"{size} length units")
    if facts["median_step"] is not None:
        lines.append(f"{facts['path_length']:.4g} along the path, in steps of {facts['median_step']:.3g}")
    if facts["seconds"] is not None:
        lines.append(f"{facts['seconds']:.4g} s by their time stamps")
    return [
        *lines,
        "poses can be compared (tempose eval) and converted (tempose convert); a solve needs measured edges",
    ]


def undetermined(graph: PoseGraph, found: Sequence[Undetermined]) -> list[str]:
    """What the measurements do not say about parts that are tied to the world or to fixed nodes, one line each."""
    lines = []
    for one in found:
        names = [graph.node_ids[k] for k in one.nodes if k != graph.world]
        what = (
            "the graph" if len(names) == len(graph.reported) else f"{plural(len(names), 'node')} ({listed(names, 5)})"
        )
        how = {
            "point": "can be turned about a point",
            "line": "can be turned about a line",
            "shift": "can be shifted",
        }[one.kind]
        ways = "" if one.directions == 1 else f" in {one.directions} directions"
        lines.append(
            f"not determined: {what} {how}{ways} without contradicting any measurement, and σ is as large as that makes it; "
            "relative poses within it are not affected (--gauge node:ID gives σ relative to a node)"
        )
    return lines


def loose(graph: PoseGraph, rows: Index, is_tied: Mask) -> str:
    """Why there is no Gaussian approximation: which nodes can move, what is beyond rounding, or that the estimate is no minimum.

    ``rows`` are those of nodes that seem to move; of ``is_tied`` (n,) ones that is rounding.
    """
    if not len(rows):
        return NO_GAUSSIAN
    if np.all(is_tied[rows]):
        return (
            f"error bars of {plural(len(rows), 'node')} are too large to be computed: they grow along {graph.n_nodes} nodes beyond "
            "what double precision holds; add loop closures, or solve a part of the graph"
        )
    rows = rows[~is_tied[rows]]
    names = listed([graph.node_ids[k] for k in rows], 5)
    return (
        f"not determined: {plural(len(rows), 'node')} ({names}) can move without contradicting any measurement, so there are no "
        "error bars; measure them from elsewhere, or leave them out"
    )


def seen_rarely(graph: PoseGraph) -> list[str]:
    """Landmarks whose place nothing checks."""
    count = np.bincount(graph.edge_i, weights=graph.ranks[1], minlength=graph.n_nodes)
    free = graph.is_landmark & ~graph.is_fixed
    once = [graph.node_ids[k] for k in np.flatnonzero(free) if count[k] <= graph.dimension]
    if not once:
        return []
    verb = word_for(len(once), "is", "are")
    return [f"{plural(len(once), 'landmark')} ({listed(once, 5)}) {verb} seen once: nothing checks where"]


def kept_noise(parameters: Parameters) -> list[str]:
    """Of estimated noise: which kinds of measurements keep what was stated, and how the others differ from it."""
    lines = [
        f"the noise of {what} is kept as stated (1° and 1 in files that do not state it): fewer than "
        f"{FEWEST_SPARE} of their numbers are checked by others"
        for name, what in {**MOTIONS, **GROUPS}.items()
        if name in parameters.kept
    ]
    for name, what in MOTIONS.items():
        if not 1e-3 < getattr(parameters, name) < 1e3:
            lines.append(
                f"estimated noise of {what}: σ {getattr(parameters, name):.1e} times as stated; look whether the file's units and "
                "precisions are what they should be"
            )
    for name, what in GROUPS.items():
        scale = getattr(parameters, name)
        if name not in parameters.kept and scale != 1.0:
            lines.append(f"estimated noise of {what}: σ {scale:.3g} times as stated")
    return lines


def correlated_errors(found: ChainCorrelation | None) -> list[str]:
    """That errors of consecutive edges are not independent, if they are not."""
    if found is None or not found.is_correlated:
        return []
    part, length, factor = found.worst
    if factor < NOTABLE:
        return []
    return [
        f"errors of consecutive edges are correlated (p = {found.p_value:.2g}): sums of the {part} of {length} edges err "
        f"{factor:.2g} times as much as independent errors would, so that the estimated noise is too small over long "
        "distances by at least that factor; use the stated noise (--noise given) if it is larger"
    ]


def widened_noise(parameters: Parameters) -> list[str]:
    """That estimated noise was held wide, since errors of consecutive edges are not independent, if it was."""
    if max(parameters.least_scales) == 0.0:
        return []
    turns, moves = (f"{one:.2g}" for one in parameters.least_scales)
    return [
        "errors of consecutive edges are correlated: they add up to more than independent ones would, along the chain and all "
        f"loops that it predicts; so the noise is taken to be at least {turns} times (rotations) and {moves} times "
        "(translations) as stated, which is what they add up to, not what single edges show"
    ]


def shared_errors(found: SharedErrors | None) -> list[str]:
    """That errors of edges that meet are not independent, if they are not."""
    if found is None or not found.is_shared:
        return []
    return [
        f"edges that meet err alike (p = {found.p_value:.2g} for independent errors): error bars of independent errors are too "
        "small; --edge-errors shared has wider ones"
    ]


def error_bars(errors_shared: bool, by_place: bool) -> str:
    """What error bars take for granted: that edges share errors or not, those between two places or any that meet."""
    if errors_shared and by_place:
        return (
            "error bars count the loop closures between two places as one, since they may share errors; if every edge errs by "
            "itself: --edge-errors independent"
        )
    if errors_shared:
        return "error bars are for edges that share errors; they are wider than those of independent errors"
    return "error bars hold if every edge errs by itself; if edges that meet share errors, as scans do: --edge-errors shared"


def precisions(facts: Mapping[str, Any]) -> str:
    """Which precisions were used, and what one number per edge would have given: of ``overview.precisions``."""
    axes, lost, count = facts["sigma_between_axes"], facts["sigma_if_correlations_dropped"], facts["correlated_edges"]
    parts = []
    unequal = [f"{ratio:.3g} times for {kind}s" for kind, ratio in axes.items() if ratio > 1.0 + 1e-6]
    if unequal:
        parts.append(
            f"σ differs between axes by up to {' and '.join(unequal)}, which one number per edge "
            "(--precision isotropic) would average"
        )
    if lost is not None:
        parts.append(
            f"{plural(count, 'edge')} with correlations, without which (--precision se-sync) σ would be "
            f"{lost['rotation']:.3g} times as large for rotations and {lost['translation']:.3g} times for translations"
        )
    if facts["open_edges"]:
        parts.append(
            f"{plural(facts['open_edges'], 'edge')} without information along some axis, which no single number can say"
        )
    return "precisions used in full: " + ("; ".join(parts) or "one number per edge would say the same")


def paper_noise(graph: PoseGraph) -> str:
    """What noise the preset of the paper has given to the edges of this graph, and which it has left alone."""
    motion = graph.is_relative & ~graph.is_landmark[graph.edge_i]
    turns, moves = motion & graph.has_rotation, motion & (graph.ranks[1] == graph.dimension)
    given = [f"λ = {np.median(graph.mean_concentration[turns]):g}"] if np.any(turns) else []
    if np.any(moves):
        P = graph.translation_precision
        given.append(f"σ² = {1.0 / np.median(P if P.ndim == 1 else P[moves, 0, 0]):.3g}")
    kept = "; landmarks and measurements of single nodes keep theirs" if not np.all(motion) else ""
    if not given:
        return "noise paper: nothing here has the paper's noise, which is about motions between poses"
    every = "every edge" if not kept else "every motion between poses"
    return f"noise paper: {every} gets {' and '.join(given)}, the paper's ranges, in place of its own{kept}"


# ---------------------------------------------------------------------- the optimum


def optimiser_trouble(status: str) -> list[str]:
    """What an optimiser that did not converge means for the estimate."""
    if status in ("stalled", "diverged"):
        return [f"the optimiser {status}: the estimate may be far from the best; try another start"]
    if status == "step limit":
        return ["the optimiser had not converged when its steps were used up; allow more, or use optimiser newton"]
    return []


def starts(count: int, odds: Array | None) -> str:
    """What came of several starts: the odds of the minima found, the estimate's first, by their Gaussian approximations."""
    if odds is None:
        return f"{count} starts led to no other minimum of U worth mentioning"
    shares = " / ".join(f"{share:.1%}" for share in odds[:5]) + (" / …" if len(odds) > 5 else "")
    return f"{count} starts led to {len(odds)} modes; by their Gaussian approximations {shares}, the estimate's first"


def certificate(proof: Certificate) -> str:
    """What is and what is not proven, in one sentence."""
    about = f"{KEPT}: " if proof.of_kept_edges else ""
    return about + _proof(proof)


def kept_proof(proof: Certificate) -> str:
    """The same where edges were rejected, or where there are other explanations: worded so that nobody reads a promise in it."""
    return (
        f"in detail, about the kept edges alone and not about whether the right ones were kept: {proof.status}, "
        f"each edge weighted by its inlier probability: {_proof(proof)}"
    )


def _proof(c: Certificate) -> str:
    gap, relative = c.suboptimality, f"{c.relative_suboptimality:.2g} of U"
    if c.proof is Proof.CERTIFICATE:
        return (
            f"no poses whatever have a potential more than {gap:.3g} ({relative}) below these: they are the global optimum up "
            "to that, proven in double precision with an allowance for rounding."
        )
    if c.proof is Proof.NEGATIVE_EIGENVALUE:
        where = "" if c.failed_components is None else " (in {} of {} components)".format(*c.failed_components)
        return (
            f"the certificate matrix has the negative eigenvalue {c.min_eigenvalue:.3g}{where}: these poses may be a local "
            f"optimum, or the noise too large for a proof; U is at most {gap:.4g} ({relative}) above the global optimum."
            + (" The staircase, which would tell, was left out: the graph is too large for it." if c.too_large else "")
        )
    if c.proof is Proof.TOO_FAR_APART:
        return (
            "the certificate matrix has no clearly negative eigenvalue, but its weights are too far apart for a proof at "
            f"tolerance {c.tolerance:g} in double precision: U is at most {gap:.3g} ({relative}) above the global optimum."
        )
    if c.proof is Proof.RELAXATION_BELOW:
        return (
            f"the relaxation that the proof rests on was solved, and its optimum {c.lower_bound:.6g} lies below every U found: "
            f"the noise is too large for a proof; these poses, the best found, are at most {gap:.4g} ({relative}) above the "
            "global optimum."
        )
    return (
        "with anisotropic or correlated precisions the certificate does not apply, so these poses are not proven to be the global "
        "optimum; "
        f"but no poses have U below {c.lower_bound:.6g}, a bound on the isotropic problem that lies below this one, hence "
        f"U is at most {gap:.4g} ({relative}) above the global optimum."
    )


def noise_fits(test: GlobalTest) -> bool:
    """Whether the stated noise is right within a factor of √2 of σ, and not too small by more than chance."""
    return 0.5 < test.variance_factor < 2.0 and not understates(test)


def noise_fit(test: GlobalTest) -> str:
    """Whether the stated noise fits."""
    chi = test.variance_factor
    if noise_fits(test):
        return "the stated noise fits"
    return f"the noise is {'over' if chi < 1 else 'under'}stated: σ should be {math.sqrt(chi):.2g} times as large"


def sigmas(nodes: NodeSummary) -> str:
    """Median error bars."""
    rot, pos = median_sigma(nodes.sigma_rot_deg), median_sigma(nodes.sigma_pos)
    open_ = " (rotations are not determined)" if rot > ANY_TURN_DEG else ""
    return f"{rot:.3g}°{open_} and {pos:.3g} length units"


# ---------------------------------------------------------------------- the draws


_LOWER = 1.0  # of U: less makes no difference


_MUCH_ROOM = 1 << 30  # bytes of draws that are worth a word


def room_for_draws(count: int, needed: int) -> list[str]:
    """How much room draws will take on disk, if it is much."""
    return [f"{count} draws will take {bytes_text(needed)} on disk"] if needed > _MUCH_ROOM else []


NOT_DRAWN = (
    "no draws were made: the measurements contradict their stated noise, so that error bars of draws would be as wrong as those "
    "of the Gaussian approximation; --draws N makes N of them all the same"
)
"""Why a solve that nobody gave a number of draws has ended without any."""
BEFORE_DRAWS = "written before the draws: error bars are those of the Gaussian approximation"
"""What a result says that is on disk while draws are made."""


def lower_draws(lower_by: float) -> list[str]:
    """That draws lead to a deeper minimum than the estimate's, if they do."""
    if lower_by < _LOWER:
        return []
    return [
        f"the draws lead to other poses with U lower by {lower_by:.3g}: the estimate is not the best place, but one of several "
        "nearby, and error bars from the draws are of all of these"
    ]


def draws_of(counts: Sequence[int]) -> str:
    """How many draws are of each explanation, to be put into a sentence; nothing if there is one: ``, 29 / 29 / 12 of …``."""
    if len(counts) < 2:
        return ""
    numbers = " / ".join(str(count) for count in counts)
    return f", {numbers} of explanations 1 to {len(counts)}"


def verdict(d: Diagnostics) -> str:
    """What the draws are worth, in one sentence that begins with the level."""
    return f"{d.level}: {verdict_reason(d)}"


def verdict_reason(d: Diagnostics) -> str:
    """The same without the level."""
    reasons = "; ".join(_trouble(d, trouble) for trouble, _ in d.troubles)
    if d.level is Level.CANNOT_TELL:
        return reasons
    sigma = d.worst_sigma_error.value
    if d.level is Level.USABLE:
        return f"every σ is known to ±{100.0 * sigma:.2g}% or better, but {reasons}"
    # the errors themselves come from these draws: they mean nothing if the draws are bad
    known = f"; σ known to ±{100.0 * sigma:.2g}% or better" if math.isfinite(sigma) and d.level != Level.BAD else ""
    if reasons:
        return f"{reasons}{known}"
    return (
        f"R-hat ≤ {d.worst_rhat.value:.3f}, bulk ESS ≥ {d.worst_ess_bulk.value:.0f}, "
        f"tail ESS ≥ {d.worst_ess_tail.value:.0f}{known}"
    )


def _few(d: Diagnostics) -> str:
    return f"{plural(d.draws_per_chain, 'draw')} a chain {word_for(d.draws_per_chain, 'is', 'are')}"


def _trouble(d: Diagnostics, trouble: Trouble) -> str:
    if trouble is Trouble.TOO_FEW:
        return f"{_few(d)} too few to judge, at least {FEWEST_DRAWS} are needed"
    if trouble is Trouble.NOT_FINITE:
        return f"{plural(d.not_finite, 'draw')} {word_for(d.not_finite, 'is', 'are')} not finite, the sampler diverged"
    if trouble is Trouble.NOTHING_MOVES:
        return "nothing moves, every node is held by the gauge"
    if trouble is Trouble.STUCK:
        return f"{plural(d.stuck, 'coordinate')} never moved"
    if trouble is Trouble.TOO_SHORT:
        return f"{_few(d)} too few to see whether the chains agree: R-hat up to {d.worst_rhat}, as chance may have it"
    if trouble in (Trouble.CHAINS_DISAGREE, Trouble.RHAT):
        many, of = int(np.sum(d.rhat > RHAT_GOOD)), int(np.sum(np.isfinite(d.rhat)))
        far = "chains disagree, " if trouble is Trouble.CHAINS_DISAGREE else ""
        return f"{far}R-hat up to {d.worst_rhat}, above {RHAT_GOOD} in {many} of {of} coordinates"
    if trouble in (Trouble.BULK_ESS, Trouble.TAIL_ESS):
        bulk = trouble is Trouble.BULK_ESS
        worst, each = (d.worst_ess_bulk, d.ess_bulk) if bulk else (d.worst_ess_tail, d.ess_tail)
        usual = f", median {np.nanmedian(each):.0f}" if np.any(np.isfinite(each)) else ""
        return f"{'bulk' if bulk else 'tail'} ESS only {worst}{usual}"
    if trouble is Trouble.CREEPS:
        return f"U creeps, energy mixing {d.energy_mixing:.2g} (2 if independent)"
    if trouble is Trouble.ONE_CHAIN:
        return "one chain cannot show that it has seen everything"
    return f"{plural(d.chains_made - d.n_chains, 'chain')} left out, too short"


def advice(d: Diagnostics) -> list[str]:
    """What to do about the draws, one line each; nothing if all is well."""
    found = {trouble for trouble, _ in d.troubles}
    if Trouble.TOO_FEW in found:
        return [f"draw more (--draws {int(ESS_GOOD)} or more)"]
    if Trouble.NOT_FINITE in found:
        return ["use a shorter step (--step)"]
    if Trouble.NOTHING_MOVES in found:
        return []
    lines = []
    total, worst_rhat, least_ess = d.n_chains * d.draws_per_chain, d.worst_rhat.value, d.least_ess
    if d.stuck:
        lines.append("something never moves: most likely every proposal is refused; use a shorter step (--step)")
    if d.chains_disagree:
        lines.append(
            "the chains have not met: allow a longer warm-up (--warmup); if they still differ they sit in separate modes, "
            "which --sampler tempering (small graphs) or --starts 20 can weigh"
        )
    if least_ess < ESS_GOOD:
        factor = 1.2 * ESS_GOOD / max(least_ess, 1.0)
        more = f"--draws {_round_up(total * factor)}"
        if least_ess < 0.2 * total:
            lines.append(f"draws are correlated: keep them {math.ceil(factor)}× further apart (--thin), or take {more}")
        else:
            lines.append(f"for a good verdict take more draws: {more} should do")
    elif RHAT_GOOD < worst_rhat <= RHAT_BAD:
        lines.append(f"take longer chains: --draws {_round_up(2.0 * total)}")
    if d.n_chains == 1:
        lines.append("run several chains (--chains 4): only they can disagree")
    return lines


def _round_up(x: float) -> int:
    """To two digits."""
    unit = int(10 ** max(math.floor(math.log10(x)) - 1, 0))
    return math.ceil(x / unit) * unit


_SAMPLERS = {
    "collapsed": "Hamiltonian steps on the rotations, positions integrated out",
    "geodesic": "the paper's geodesic steps",
    "geodesic-mh": "geodesic steps with a test of each trajectory",
    "tempering": "parallel tempering",
    "jumping": "jumps between the modes found",
}


def sampler(name: str) -> str:
    """How draws were made, in words; the name of the option may be read as a failure."""
    return _SAMPLERS.get(name, f"the scheme {name.removesuffix('-mh')} with a test of each step")


def legend(*, draws: bool) -> str:
    """What the letters mean that a summary uses."""
    more = (
        "; R-hat is 1 where chains agree; ESS is how many independent draws the draws are worth, bulk for means and tail for "
        "intervals"
    )
    return f"(U is how badly poses explain the measurements, 0 at best{more * draws}; all words: docs/reference/glossary.md)"


def reason(why: Reason) -> str:
    """Why a sampler was chosen."""
    if why.cause in (Cause.MODES, Cause.MODES_WITHOUT_JUMPS):
        jumps = ", and jumps between them are not possible" if why.cause is Cause.MODES_WITHOUT_JUMPS else ""
        return f"several starts led to {why.value:.0f} modes{jumps}"
    cannot = {
        Cause.NO_MINIMUM: "there is no strict minimum",
        Cause.ANISOTROPIC_EDGES: "there is a translation with a different precision along different axes",
        Cause.ANISOTROPIC_PRIORS: "there is a prior with a different precision along different axes",
        Cause.PARTLY_DETERMINED: "something that is tied to the world can still be moved at no cost",
        Cause.TEMPERED_MIXTURE: f"wrong edges at β = {why.value:g}",
        Cause.LOOSE_WITHOUT_WRONG_EDGES: "the kept edges have no strict minimum",
    }
    if why.cause in cannot:
        return f"positions cannot be integrated out: {cannot[why.cause]}"
    return {
        Cause.ASKED: "asked for",
        Cause.WIDE: f"the posterior is wide: σ = {why.value:.0f}° for the rotation along an edge",
        Cause.REJECTED: "the posterior is far from Gaussian: a pilot run with positions integrated out was rejected",
        Cause.INTEGRATED_OUT: f"positions can be integrated out, and {why.value:.0%} of a pilot run was accepted",
    }[why.cause]


def slow_mixing(thin: int) -> str:
    """That draws are far apart and still alike."""
    return (
        f"this posterior mixes slowly: draws are {thin} steps apart and still not independent, so their σ may be too small; "
        "set --thin, or trust relative over absolute uncertainties"
    )


def modes(found: Modes) -> str:
    """The modes and their probabilities."""
    if len(found) == 1:
        return "one mode: all draws lie around the estimate" if found.home == 0 else "one mode, not the estimate's"
    if found.crossings == 0:
        counts = " / ".join(str(mode.n_draws) for mode in found.modes)
        return f"{len(found)} modes with {counts} draws, and no chain went from one to another: their odds are unknown"
    shares = " / ".join(_percent(mode) for mode in found.modes[:5]) + (" / …" if len(found) > 5 else "")
    doubt = "" if found.weighed else "; the chains crossed too seldom to be sure of it"
    return f"{len(found)} modes: {shares} ({found.crossings} crossings{doubt})"


def modes_advice(found: Modes) -> list[str]:
    """What to do about modes whose odds are not known, one line each."""
    if found.weighed:
        return []
    if found.crossings == 0:
        return [
            "the chains sit in separate modes: use --sampler tempering (small graphs), or --starts 20 --sampler jumping, to "
            "learn how probable each is"
        ]
    return [
        "the odds of the modes are not yet known well: take more draws (--draws), or keep them further apart (--thin)"
    ]


def _percent(mode: Mode) -> str:
    digits = 0 if not mode.error < 0.005 else 1
    return f"{100.0 * mode.probability:.{digits}f}% ± {max(100.0 * mode.error, 10.0**-digits):.{digits}f}"


# ---------------------------------------------------------------------- the edges


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
    """The noise of a robust solve, and the share of its inliers."""
    p = verdicts.parameters
    core = "Gaussian" if math.isinf(p.tail) else f"heavy-tailed (ν = {p.tail:g})"
    return (
        f"noise {'estimated' if verdicts.estimated else 'as given'}: {noise_levels(verdicts.graph)} per axis; inliers are {core}, "
        f"{100.0 * p.inlier_probability:.3g} % of the edges"
    )


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


def competing(found: RobustSolution, most: int = 3) -> list[str]:
    """Competing explanations, one line each."""
    return [*map(competitor, found.competitors[:most]), *map(alternative, found.alternatives[:most])]


def explained(explanations: Sequence[Explanation]) -> str:
    """How many explanations there are and how probable each is: ``two explanations: 55% and 45%``."""
    *each, rest = shares([one.probability for one in explanations])
    number = _NUMBERS[len(each)] if len(each) < len(_NUMBERS) else str(len(each))
    several = f"{', '.join(each[:-1])} and {each[-1]}" if len(each) > 1 else each[0]
    others = f"; {rest} for others" if rest else ""
    return f"{number} explanation{'s' * (len(each) > 1)}: {several}{others}"


def contested(weighing: Weighing) -> str:
    """What the first line says where other explanations have to be told: how many, or which parts single edges hold."""
    if weighing.loose is None:
        return explained(weighing.explanations)
    parts, nodes = len(np.unique(weighing.loose[weighing.loose >= 0])), int(np.sum(weighing.loose >= 0))
    share, *_ = shares([weighing.explanations[0].probability])
    verb = word_for(nodes, "hangs", "hang")
    return (
        f"{plural(nodes, 'node')} of {len(weighing.loose)}, in {plural(parts, 'part')}, {verb} on single edges that others "
        f"contradict; all of these are right with probability {share}"
    )


def shares(probabilities: Sequence[float]) -> list[str]:
    """Whole percentages, and what is left for others (empty if that rounds to nothing): together at most 100, equal ones alike."""
    exact = 100.0 * np.append(probabilities, max(1.0 - float(np.sum(probabilities)), 0.0))
    whole = np.floor(exact + 1e-6)
    over = np.round(exact - whole, 6)
    for least in np.unique(over[over > 0.0])[
        ::-1
    ]:  # the largest remainders are rounded up, as long as there is room for all alike
        if np.sum(whole) + np.sum(over == least) > 100.0:
            break
        whole[over == least] += 1.0
    *each, rest = (f"{number:.0f}%" if number >= 1.0 else "<1%" for number in whole)
    return [*each, rest if whole[-1] >= 1.0 else ""]


def explanations(found: Sequence[Explanation], graph: PoseGraph, nodes: Sequence[NodeSummary | None]) -> list[str]:
    """The explanations, one line each; ``nodes`` are the error bars of each."""
    lines = []
    for k, (one, own) in enumerate(zip(found, nodes, strict=True)):
        what = [f"nodes elsewhere: {nodes_elsewhere(graph, one)}"] if k else []
        what.append(
            f"gives up {links_given_up(graph, one)}"
            if len(one.given_up)
            else "gives up no edge between consecutive ids"
        )
        if k and own is not None:
            what.append(f"median 1σ per axis {sigmas(own)}, by its Gaussian approximation")
        reported = ", the one reported" if k == 0 else ""
        lines.append(f"explanation {k + 1}{reported} ({explanation_file(k)}): {'; '.join(what)}")
    return lines


def explanation_file(k: int) -> str:
    """Where a result has the poses of explanation ``k``, from 0."""
    return f"poses.explanation-{k + 1}.csv" if k else "poses.csv"


def nodes_elsewhere(graph: PoseGraph, one: Explanation, most: int = 8) -> str:
    """Which nodes lie elsewhere than in the first explanation, and how many: ``8 (3, 12 to 18)``."""
    names = [graph.node_ids[v] for v in one.moved]
    return f"{len(names)} ({listed(_runs(names), most)})" if names else "none"


def _runs(names: Sequence[NodeId]) -> list[str]:
    """Names, with three or more integers in a row as ``12 to 18``."""
    runs: list[list[NodeId]] = []
    for name in names:
        last = runs[-1][-1] if runs else None
        if isinstance(name, int) and isinstance(last, int) and name == last + 1:
            runs[-1].append(name)
        else:
            runs.append([name])
    return [part for run in runs for part in (map(str, run) if len(run) < 3 else [f"{run[0]} to {run[-1]}"])]


def links_given_up(graph: PoseGraph, one: Explanation, most: int = 4) -> str:
    """Which links between consecutive ids an explanation calls wrong."""
    return listed([graph.edge_name(e) for e in one.given_up], most) or "none"


def explanation_facts(graph: PoseGraph, one: Explanation) -> dict[str, Any]:
    """Plain values for JSON."""
    ids = graph.node_ids
    return {
        "probability": one.probability,
        "nodes_elsewhere": [ids[v] for v in one.moved],
        "given_up": [list(pair) for pair in graph.edge_names(one.given_up)],
    }


def competitor(other: Competitor) -> str:
    """Another solution that explains the measurements nearly as well."""
    ids = other.fit.graph.node_ids
    if other.log_odds < 0.0:
        odds = "the measurements alone would prefer it"
    else:
        ratio = (
            f"{math.exp(other.log_odds):.3g}" if other.log_odds < math.log(_MOST_ODDS) else f"more than {_MOST_ODDS}"
        )
        odds = f"odds {ratio} to 1 for the one reported, if wrong edges are independent of each other"
    return (
        f"a competing solution keeps {other.kept} edges where the one reported keeps {other.kept_by_chosen} ({odds}); "
        f"it has {plural(len(other.moved), 'node')} elsewhere: {listed([ids[v] for v in other.moved], 8)}"
    )


def alternative(other: Alternative) -> str:
    """Another place of a part of the graph, on which distrusted edges agree."""
    n, names = len(other.nodes), listed([other.node_ids[v] for v in other.nodes], 8)
    angle = math.degrees(float(quat.angle(other.motion[0])))
    return (
        f"a competing explanation: {len(other.edges)} distrusted edges agree with each other, as independent wrong edges would "
        f"not; by them {n} node{'s' * (n > 1)} ({names}) would lie elsewhere, turned by {angle:.0f}°; "
        f"{other.against} edges that fit the reported poses speak against that"
    )


def loose_parts(graph: PoseGraph, parts: Sequence[LoosePart], most: int = 5) -> list[str]:
    """Parts whose place nothing confirms, one line each."""
    lines = []
    for part in parts[:most]:
        names = listed([graph.node_ids[v] for v in part.nodes], 8)
        what = f"node {names}" if len(part.nodes) == 1 else f"{len(part.nodes)} nodes ({names})"
        if part.edge < 0:
            lines.append(
                f"not identified: no edge that fits the reported poses holds {what}; these mean nothing relative to the rest"
            )
        else:
            verb = word_for(len(part.nodes), "hangs", "hang")
            lines.append(
                f"in the reported poses {what} {verb} on the edge {graph.edge_name(part.edge)} alone, which nothing confirms"
            )
    if len(parts) > most:
        lines.append(f"and {plural(len(parts) - most, 'more part')} that a single edge holds, or none")
    return lines
