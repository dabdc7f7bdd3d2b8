"""From a solution to the page and the picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempose import describe
from tempose._support.words import plural
from tempose._typing import Array, Index
from tempose.analysis.accuracy import graph_consistency, pose_errors
from tempose.analysis.overview import precisions
from tempose.analysis.summary import NodeSummary, median_sigma
from tempose.analysis.trust import Trust
from tempose.geometry import align
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.outliers.verdicts import DISTRUSTED, EdgeVerdicts
from tempose.report.explanation_cards import ExplanationCard, Explanations
from tempose.report.page import ReportData, Trace, Variant, places, write_page
from tempose.report.widgets import Fact, Histogram, Tone, trust_fact
from tempose.solution import Solution

_MOST_GHOSTS = 20
_MOST_VARIANTS = 8  # to switch between
_WHAT_HOLDS = (
    "The measurements can be read in more than one way: each explanation calls different ones wrong. Picture and tables show the "
    "explanation that is chosen above the picture; all other numbers hold if explanation 1 is the true one."
)
_GROUPS = {
    **dict.fromkeys(
        ("edges that contradict the rest", "distrusted edges", "fit", "proof", "estimated noise", "noise", "share of inliers",
         "graph consistency", "reliability", "precisions"), "Do the measurements agree?"
    ),
    **dict.fromkeys(
        ("median rotation σ", "median position σ", "error to truth", "modes", "draws"), "How sure are the poses?"
    ),
    **dict.fromkeys(("status", "U at the estimate", "mean U of the draws"), "The run"),
}  # fmt: skip
"""Heading of each tile; what has none is about the measurements."""


def report_data(solution: Solution, truth: Poses | None = None, length_unit: str = "units") -> ReportData:
    """Everything the report shows, as plain arrays and strings."""
    graph, estimate = solution.graph, solution.estimate
    nodes = solution.nodes
    r = solution.residuals
    shown = len(graph.reported)  # the world, which is no place in the picture, comes last
    between = graph.is_relative
    fixes = np.flatnonzero((graph.edge_j == graph.world) & (graph.ranks[1] == graph.dimension))
    verdicts = solution.verdicts
    label, variants = _variants(solution)
    return ReportData(
        title=Path(graph.origin.get("file", "pose graph")).name,
        subtitle=describe.counts(graph),
        verdict=_trust(solution),
        headline=_headline(solution, truth, length_unit),
        details=_verdict(solution) if solution.is_proof_a_detail else [],
        explanations=_explanations(solution, length_unit),
        settings=_settings(solution),
        notices=[*solution.notices, *_advice(solution)],
        node_ids=[str(name) for name in graph.reported],
        positions=estimate.position[:shown] + graph.world_origin,
        world_from_node_wxyz=estimate.wxyz[:shown],
        component=graph.component[:shown],
        sigma_rot_deg=None if nodes is None else nodes.sigma_rot_deg[:shown],
        sigma_pos=None if nodes is None else nodes.sigma_pos[:shown],
        position_covariance=None if nodes is None else nodes.covariance[:shown, 3:, 3:],
        gauge=""
        if nodes is None
        else f"1σ per axis (root mean square over the axes), {nodes.gauge}{_of_mode(solution)}{_condition(solution)}",
        length_unit=length_unit,
        edges=graph.edge_ends[between],
        edge_rotation_deg=np.where(graph.has_rotation, np.degrees(r.angle), np.nan)[between],
        edge_translation=np.linalg.norm(r.translation, axis=1)[between],
        edge_surprise=None if solution.surprise is None else solution.surprise[between],
        edge_outlier=None if verdicts is None else 1.0 - verdicts.inlier_probability[between],
        draw_positions=_ghosts(solution),
        truth_positions=_aligned_truth(solution, truth),
        planar=graph.is_planar,
        kind=_kinds(graph)[:shown],
        fix_nodes=graph.edge_i[fixes],
        fix_positions=graph.j_from_i_t[fixes] + graph.world_origin,
        label=label,
        variants=variants,
        traces=_traces(solution),
        histograms=_histograms(solution),
        version=solution.version,
    )


def _kinds(graph: PoseGraph) -> Index:
    """What each node is (n,), in the page's numbers."""
    return np.where(graph.is_landmark, 1, np.where(graph.is_fixed, 2, 0))


def write_report(path: str | Path, solution: Solution, truth: Poses | None = None, length_unit: str = "units") -> None:
    """Write the self-contained HTML page."""
    write_page(path, report_data(solution, truth, length_unit))


def plot(solution: Solution, path: str | Path | None = None, truth: Poses | None = None) -> Any:
    """Picture of the graph with its uncertainty: saved to ``path``, or returned as a matplotlib axes."""
    from tempose.report import plots

    data = report_data(solution, truth)
    return plots.save_picture(data, path) if path is not None else plots.plot_graph(data)


def _headline(solution: Solution, truth: Poses | None, unit: str) -> list[Fact]:
    facts = [
        Fact(
            "status",
            solution.status,
            f"in {solution.seconds:.1f} s",
            "neutral" if solution.status == "solved" else "warn",
        ),
        *([] if solution.is_proof_a_detail else _verdict(solution)),
        *_modes_verdict(solution),
        *_sampling_verdict(solution),
        *(
            _surprise_verdict(solution)
            if solution.verdicts is None
            else _distrust_verdict(solution.verdicts, solution.is_contested)
        ),
        Fact("U at the estimate", f"{solution.potential:.6g}", "minus log posterior, 0 would be a perfect fit"),
        *_fit(solution),
        *_reliability(solution),
        *_precisions(solution),
        Fact(
            "graph consistency",
            f"{graph_consistency(solution.graph, solution.estimate):.4f}",
            "1 = rotations agree with every edge",
        ),
    ]
    nodes, draws = solution.nodes, solution.analysis.draws
    if nodes is not None:
        rot, pos = median_sigma(nodes.sigma_rot_deg), median_sigma(nodes.sigma_pos)
        source = f"{nodes.n_draws} draws{_of_mode(solution)}" if nodes.source == "draws" else "Gaussian approximation"
        source += _condition(solution)
        facts.append(Fact("median rotation σ", f"{rot:.3g}°", f"per axis, from {source}"))
        if np.isfinite(pos):
            facts.append(Fact("median position σ", f"{pos:.3g} {unit}", f"per axis, from {source}"))
    if draws is not None and draws.n_draws:
        facts.append(
            Fact(
                "mean U of the draws",
                f"{draws.mean_potential:.6g}",
                f"{draws.n_draws} draws in {plural(draws.n_chains, 'chain')} at β = {draws.beta:g}{_condition(solution)}",
            )
        )
    if truth is not None:
        landmarks = solution.graph.landmarks
        errors = pose_errors(solution.poses, truth, landmarks=landmarks)
        note = "means, after SE(3) alignment"
        if solution.gauge.kind == "world":
            plain = pose_errors(solution.poses, truth, "none", landmarks=landmarks)
            note += f"; without: {plain.mean_rotation_deg:.3g}°, {plain.mean_translation:.3g} {unit}"
        value = f"{errors.mean_rotation_deg:.3g}°, {errors.mean_translation:.3g} {unit}"
        facts.append(Fact("error to truth", value, note))
    order = list(dict.fromkeys(_GROUPS.values()))
    grouped = [replace(fact, group=_GROUPS.get(fact.label, order[0])) for fact in facts]
    return sorted(grouped, key=lambda fact: order.index(fact.group))


def _trust(solution: Solution) -> Fact:
    """Whether to trust it, why, and how sure it is, before anything else."""
    found, nodes = solution.judgement, solution.nodes
    why = solution.headline.partition(": ")[2]
    more = describe.further_doubts(found, solution.edge_checks, solution.weighing)
    if nodes is not None:
        more.append(f"median 1σ per axis{_condition(solution)}: {describe.sigmas(nodes)}")
    return trust_fact(found.trust, why, *more)


def _fit(solution: Solution) -> list[Fact]:
    if solution.parameters is not None and solution.verdicts is None:  # χ² is 1 whatever the noise: it was made so
        note = describe.estimated_noise(solution.graph, solution.parameters)
        return [Fact("estimated noise", describe.noise_levels(solution.graph), note)]
    if (
        solution.verdicts is not None and solution.verdicts.estimated
    ):  # so it was here, and the noise has its tile already
        return []
    chi = solution.reduced_chi_square
    if not np.isfinite(chi):
        return [Fact("fit", "unchecked", "as many unknowns as measurements", "neutral")]
    fits = describe.noise_fits(solution.global_test)
    low, high = solution.global_test.bounds
    note = f"reduced χ², 1 if the stated noise is right; within {low:.3g} and {high:.3g} in 95% of such graphs"
    scale = "" if fits or solution.scaled_by != 1.0 else f"; here every σ should be {np.sqrt(chi):.2g} times as large"
    scale += "".join(f"; {said}" for said in describe.scaling(solution.options.scale, solution.scaled_by))
    return [Fact("fit", f"{chi:.3g}", note + scale, "good" if fits else "warn")]


def _reliability(solution: Solution) -> list[Fact]:
    """The edge whose undetected error could do most, and how much redundancy there is."""
    found, graph = solution.reliability, solution.graph
    k = found.weakest
    if k is None:
        return []
    note = f"median redundancy of an edge; {describe.reliability(found, graph)}"
    return [Fact("reliability", f"{float(np.median(found.redundancy)):.2f}", note)]


def _precisions(solution: Solution) -> list[Fact]:
    found = precisions(solution.graph)
    return [] if found is None else [Fact("precisions", found["used"], describe.precisions(found))]


def _verdict(solution: Solution) -> list[Fact]:
    proof = solution.certificate
    if proof is None:
        return []
    if proof.certified:
        kept = "" if solution.likelihood is None else f" {describe.KEPT}"
        gap = f"proven{kept}: no poses are better by more than {proof.relative_suboptimality:.1g} of U"
        if solution.is_proof_a_detail:
            return [Fact("proof about the kept edges", "no better poses for these", describe.kept_proof(proof))]
        good: Tone = (
            "good" if solution.judgement.trust is Trust.TRUST else "neutral"
        )  # green reads as: this is the answer
        return [Fact("proof", "global optimum", gap, good)]
    if proof.certified is None:
        return [Fact("proof", f"U* ≥ {proof.lower_bound:.4g}", describe.certificate(proof), "neutral")]
    return [Fact("proof", "none", describe.certificate(proof), "warn")]


def _explanations(solution: Solution, unit: str) -> Explanations | None:
    """Each explanation with its own poses and error bars, if there is anything to choose between.

    Where parts hang on contested edges and no other way of joining them is probable, the verdict says all there is to say.
    """
    joins_only = (
        solution.weighing is not None and solution.weighing.loose is not None and len(solution.explanations) == 1
    )
    if not solution.is_contested or joins_only:
        return None
    assert solution.weighing is not None
    graph, found = solution.graph, solution.explanations
    shown = len(graph.reported)
    elsewhere = np.zeros((len(found), graph.n_nodes), dtype=bool)
    for k, one in enumerate(found):
        elsewhere[k, one.moved] = True
    elsewhere[0] = elsewhere.any(axis=0)  # of the first, what the others move
    ends = np.stack([graph.edge_i, graph.edge_j], axis=1)
    cards = []
    for k, (one, share) in enumerate(zip(found, describe.shares([one.probability for one in found]), strict=False)):
        nodes = solution.explanation_nodes(k)
        kept = solution.explanation_kept(k)
        rows = [("poses", describe.explanation_file(k))]
        if k:
            rows.append(("nodes elsewhere", describe.nodes_elsewhere(graph, one)))
        if not solution.weighing.of_solutions:
            rows.append(("links given up", describe.links_given_up(graph, one)))
        rows.append(("edges believed", f"{int(kept.sum())} of {int(graph.is_relative.sum())}"))
        if nodes is not None:
            rot, pos = median_sigma(nodes.sigma_rot_deg), median_sigma(nodes.sigma_pos)
            rows.append(("median σ", f"{rot:.3g}°" + (f" and {pos:.3g} {unit}" if np.isfinite(pos) else "")))
        cards.append(
            ExplanationCard(
                f"Explanation {k + 1}", share, rows,
                places(one.poses.position[:shown], one.poses.wxyz[:shown])[0], elsewhere[k, :shown],
                ends[kept], ends[one.given_up],
            )
        )  # fmt: skip
    headline = describe.contested(solution.weighing)
    return Explanations(headline[0].upper() + headline[1:], _WHAT_HOLDS, cards, graph.is_planar)


def _variants(solution: Solution) -> tuple[str, list[Variant]]:
    """What else the poses may be, to switch to: the other explanations, else the other modes; and what the first is called."""
    graph, modes, found = solution.graph, solution.modes, solution.explanations
    if len(found) > 1:
        shares = describe.shares([one.probability for one in found])
        names = [f"explanation {k + 1}, {share}" for k, share in zip(range(len(found)), shares, strict=False)]
        others = [
            _variant(
                graph, names[k], found[k].poses, solution.explanation_nodes(k), solution.analysis.explanation(k).surprise,
                1.0 - solution.explanation_inliers(k),
            )
            for k in range(1, min(len(found), _MOST_VARIANTS))
        ]  # fmt: skip
        return names[0], others
    if modes is None or len(modes) < 2:
        return "", []
    shares = describe.shares([mode.probability for mode in modes.modes])
    names = [f"mode {k + 1}" + (f", {share}" if modes.weighed else "") for k, share in enumerate(shares)]
    others = []
    for k in [k for k in range(len(modes)) if k != modes.home][: _MOST_VARIANTS - 1]:
        poses = modes[k].poses
        there = Poses(poses.ids, *solution.gauge.align(poses.wxyz, poses.position, solution.estimate))
        surprise = replace(solution.analysis, estimate=poses, draws=None).surprise
        others.append(_variant(graph, names[k], there, solution.mode_nodes(k), surprise, None))
    return names[modes.home], others


def _variant(
    graph: PoseGraph, label: str, poses: Poses, nodes: NodeSummary | None, surprise: Array, outlier: Array | None
) -> Variant:
    shown, between = len(graph.reported), graph.is_relative
    r = residuals(graph, poses)
    return Variant(
        label=label,
        positions=poses.position[:shown] + graph.world_origin,
        world_from_node_wxyz=poses.wxyz[:shown],
        sigma_rot_deg=None if nodes is None else nodes.sigma_rot_deg[:shown],
        sigma_pos=None if nodes is None else nodes.sigma_pos[:shown],
        position_covariance=None if nodes is None else nodes.covariance[:shown, 3:, 3:],
        edge_rotation_deg=np.where(graph.has_rotation, np.degrees(r.angle), np.nan)[between],
        edge_translation=np.linalg.norm(r.translation, axis=1)[between],
        edge_surprise=surprise[between],
        edge_outlier=None if outlier is None else outlier[between],
    )


def _condition(solution: Solution) -> str:
    return f", {describe.IF_FIRST}" if solution.is_contested else ""


def _sampling_verdict(solution: Solution) -> list[Fact]:
    found = solution.diagnostics
    if found is None:
        return []
    tone = {"good": "good", "usable": "neutral", "not good": "warn", "bad": "bad"}.get(found.level, "neutral")
    return [Fact("draws", found.level, describe.verdict_reason(found), tone)]  # type: ignore[arg-type]


def _modes_verdict(solution: Solution) -> list[Fact]:
    modes = solution.modes
    if modes is None or len(modes) == 1:
        return []
    lines = [
        describe.modes(modes),
        f"poses and σ on this page are of mode {modes.home + 1}, the estimate's; the draws shown are of all modes",
    ]
    return [Fact("modes", str(len(modes)), "; ".join(lines), "neutral" if modes.weighed else "warn")]


def _of_mode(solution: Solution) -> str:
    modes = solution.modes
    return "" if modes is None or len(modes) == 1 else f"; of mode {modes.home + 1} of {len(modes)}"


def _advice(solution: Solution) -> list[str]:
    modes, found = solution.modes, solution.diagnostics
    return [
        *(describe.modes_advice(modes) if modes is not None else ()),
        *(describe.advice(found) if found is not None else ()),
    ]


def _surprise_verdict(solution: Solution) -> list[Fact]:
    checks = solution.edge_checks
    if not checks.n_checked:
        return [Fact("edges that contradict the rest", "cannot tell", describe.edge_checks(checks))]
    count = len(checks.suspects)
    return [
        Fact(
            "edges that contradict the rest",
            str(count) if count else "none",
            describe.edge_checks(checks),
            "warn" if count else "good",
        )
    ]


def _distrust_verdict(verdicts: EdgeVerdicts, is_contested: bool) -> list[Fact]:
    noise, distrusted = describe.noise(verdicts), describe.distrusted(verdicts, contested=is_contested)
    count = len(verdicts.distrusted)
    tone: Tone = "warn" if count else "neutral" if is_contested else "good"
    p = verdicts.parameters.inlier_probability
    return [
        Fact("distrusted edges", str(count) if count else "none", distrusted, tone),
        Fact("noise", describe.noise_levels(verdicts.graph), noise),
        Fact("share of inliers", f"{p:.3g}", "prior probability of an edge without one of its own"),
    ]


def _histograms(solution: Solution) -> list[Histogram]:
    charts = []
    if solution.verdicts is not None:
        gamma = solution.verdicts.inlier_probability
        charts.append(Histogram("Inlier probabilities of the edges", gamma, things="edges"))
    if solution.edge_checks.n_checked:
        p = solution.edge_checks.p_value
        if solution.verdicts is not None:
            p = p[solution.verdicts.inlier_probability >= DISTRUSTED]
        charts.append(Histogram("p-values of the edges given the rest (flat if the model is right)", p, things="edges"))
    if solution.diagnostics is not None and solution.diagnostics.level != "cannot tell":
        charts.append(Histogram("Effective draws", solution.diagnostics.node_ess, reference=400.0, things="nodes"))
    return charts


def _settings(solution: Solution) -> list[tuple[str, str]]:
    rows = [(key.replace("_", " "), str(value)) for key, value in solution.graph.origin.items()]
    rows += [
        (key.replace("_", " "), "automatic" if value is None else str(value))
        for key, value in solution.options.as_dict().items()
    ]
    rows += [(key.replace("_", " "), f"{value:.4g}") for key, value in solution.tuning.items()]
    return [
        *rows,
        ("gauge", str(solution.gauge)),
        ("seconds", f"{solution.seconds:.2f}"),
        ("tempose version", solution.version),
    ]


def _ghosts(solution: Solution) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    draws = solution.analysis.draws
    if draws is None or draws.n_draws == 0:
        return None
    chosen = set(np.linspace(0, draws.n_draws - 1, min(_MOST_GHOSTS, draws.n_draws)).astype(int).tolist())
    kept = [
        solution.gauge.align(wxyz, position, solution.estimate)[1]
        for k, (wxyz, position) in enumerate(draws)
        if k in chosen
    ]
    return np.stack(kept)[:, : len(solution.graph.reported)] + solution.graph.world_origin


def _aligned_truth(solution: Solution, truth: Poses | None) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """True positions in the frame of the estimate, which is the truth's own in the gauge ``world``; NaN for nodes without."""
    if truth is None:
        return None
    graph, estimate = solution.graph, solution.estimate.select(solution.graph.reported)
    ids = [name for name in estimate.ids if name in truth.index]
    if not ids:
        return None
    a, b = truth.select(ids), estimate.select(ids)
    there = b.position + graph.world_origin
    position = a.position
    if solution.gauge.kind != "world":
        turned = ~graph.is_landmark[[graph.index[name] for name in ids]]
        kind = "se3" if turned.any() else "positions-se3"
        position = a.moved(align((a.wxyz, a.position), (b.wxyz, there), kind, turned=turned)).position
    out = np.full((len(estimate), 3), np.nan)
    out[[estimate.index[name] for name in ids]] = position
    return out


def _traces(solution: Solution) -> list[Trace]:
    trace = solution.trace
    traces = [Trace("Energy while optimising", trace[:, 0], np.maximum(trace[:, 1], 1e-300), ylabel="U", log=True)]
    draws = solution.analysis.draws
    if draws is not None and draws.n_draws:
        energy = np.concatenate(draws.energies)
        ends = np.cumsum([len(e) for e in draws.energies])[:-1]
        marks = [(float(end), f"chain {k + 2}") for k, end in enumerate(ends)]
        traces.append(
            Trace("Energy of the draws", np.arange(len(energy), dtype=float), energy, ylabel="U", marks=marks)
        )
    return traces
