"""Sentences about a graph: what it has, how its noise is taken, what nothing determines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tempose._support.words import plural, word_for
from tempose._typing import Index, Mask
from tempose.analysis.shared_errors import SharedErrors
from tempose.describe.common import ANY_TURN_DEG, listed
from tempose.model.gauge import tied_components
from tempose.model.graph import WORLD, PoseGraph
from tempose.optimum.hessian import Undetermined
from tempose.outliers.correlation import NOTABLE, ChainCorrelation
from tempose.outliers.noise import FEWEST_SPARE, GROUPS, MOTIONS, Parameters

NO_GAUSSIAN = "the Hessian at the estimate is not positive definite: there is no Gaussian approximation there"


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


def shared_errors(found: SharedErrors | None, allowed_for: bool) -> list[str]:
    """That errors of edges that meet are not independent, if they are not."""
    if found is None or not found.is_shared:
        return []
    then = (
        "so error bars are"
        if allowed_for
        else "error bars of independent errors are too small; --edge-errors shared has"
    )
    return [f"edges that meet err alike (p = {found.p_value:.2g} for independent errors): {then} wider ones"]


def error_bars(errors_shared: bool, by_place: bool) -> str:
    """What error bars take for granted: that edges share errors or not, those between two places or any that meet."""
    if errors_shared and by_place:
        return (
            "error bars count the loop closures between two places as one, since they may share errors; if every edge errs by "
            "itself: --edge-errors independent"
        )
    if errors_shared:
        return "error bars are for edges that share errors; if every edge errs by itself: --edge-errors independent"
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
