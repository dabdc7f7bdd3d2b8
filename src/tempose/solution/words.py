"""A solution in sentences: which of them are said, and in what order; :mod:`tempose.describe` has the sentences."""

from __future__ import annotations

import math

import numpy as np

from tempose import describe
from tempose._support.words import plural
from tempose.analysis.accuracy import graph_consistency
from tempose.analysis.diagnostics import Level
from tempose.analysis.overview import precisions
from tempose.outliers.solutions import is_by_place, is_undecided
from tempose.sampling.draws import Draws
from tempose.solution.answers import Answers


def headline(solution: Answers) -> str:
    """The first line of :meth:`summary`: whether to trust the result, and the one reason that matters most."""
    return describe.judgement(solution.judgement, solution.edge_checks, solution.weighing, _reasons(solution))


def _reasons(solution: Answers) -> list[str]:
    """What speaks for the result, where nothing speaks against it."""
    checked, verdicts = solution.edge_checks.n_checked, solution.verdicts
    noise = "estimated" if solution.options.noise == "auto" else "stated"
    if verdicts is None or not len(verdicts.distrusted):
        reasons = [f"{checked} edges agree with each other within the {noise} noise"]
    else:
        kept = solution.graph.n_edges - len(verdicts.distrusted)
        reasons = [
            f"{kept} of {solution.graph.n_edges} edges agree with each other within the {noise} noise and outweigh the rest"
        ]
    if solution.certificate is not None and solution.certificate.certified and not solution.is_proof_a_detail:
        reasons.append("no better poses exist")
    if solution.diagnostics is not None:
        reasons.append(f"draws are {solution.diagnostics.level}")
    return reasons


def summary_lines(solution: Answers) -> list[str]:
    """All that is said in a terminal."""
    graph = solution.graph
    lines = [
        headline(solution),
        *describe.further_doubts(solution.judgement, solution.edge_checks, solution.weighing),
        *_explanation_lines(solution),
        f"{describe.counts(graph)}: {solution.status}",
        f"U = {solution.potential:.6g} at the estimate; graph consistency {graph_consistency(graph, solution.estimate):.4f}",
    ]
    chi = solution.reduced_chi_square
    if math.isfinite(chi) and solution.parameters is None:
        lines.append(f"reduced χ² {chi:.3g}: {describe.noise_fit(solution.global_test)}")
        lines += describe.scaling(solution.options.scale, solution.scaled_by)
    elif solution.parameters is not None and solution.verdicts is None:
        lines.append(describe.estimated_noise(graph, solution.parameters))
    found = precisions(graph)
    if found is not None:
        lines.append(describe.precisions(found))
    if solution.certificate is not None and not solution.is_proof_a_detail:
        lines.append(f"{solution.certificate.status}: {describe.certificate(solution.certificate)}")
    if solution.draws is not None:
        lines += _draw_lines(solution, solution.draws)
    lines += error_bar_lines(solution)
    if solution.nodes is not None:
        lines.append(describe.error_bars(solution.analysis.errors_shared, is_by_place(solution.analysis.weighing)))
    if solution.diagnostics is not None:
        verdict = describe.verdict(solution.diagnostics)
        known = solution.diagnostics.level is not Level.CANNOT_TELL
        lines += [f"the draws are {verdict}" if known else verdict, *describe.advice(solution.diagnostics)]
    if solution.verdicts is None:
        lines.append(describe.edge_checks(solution.edge_checks))
    else:
        lines += [
            describe.noise(solution.verdicts),
            describe.distrusted(solution.verdicts, contested=solution.is_contested),
        ]
        agreed = solution.analysis.agreement
        agree = agreed is not None and agreed.agreeing > 0.0
        told = agree if is_undecided(solution.weighing) else not is_by_place(solution.weighing)
        if told and len(solution.verdicts.distrusted):
            lines.append(describe.agreement(agreed))
    if solution.certificate is not None and solution.is_proof_a_detail:
        lines.append(describe.kept_proof(solution.certificate))
    return [*lines, describe.legend(draws=solution.draws is not None)]


def _explanation_lines(solution: Answers) -> list[str]:
    if solution.weighing is None or not solution.is_contested:
        return []
    each = range(len(solution.explanations))
    nodes = [solution.explanation_nodes(k) for k in each]
    believed = [int(solution.explanation_kept(k).sum()) for k in each] if solution.weighing.of_solutions else None
    return describe.explanations(solution.explanations, solution.graph, nodes, believed)


def _condition(solution: Answers) -> str:
    """What everything about the estimate depends on, to be put into a sentence."""
    return f", {describe.IF_FIRST}" if solution.is_contested else ""


def draw_counts(solution: Answers) -> list[int]:
    """How many draws are of each explanation; of the only one, if there are no others."""
    if solution.draws is None:
        return []
    label = np.concatenate([np.zeros(0, dtype=np.int64), *solution.draws.explanation])
    return [int(c) for c in np.bincount(label, minlength=max(len(solution.explanations), 1))]


def _draw_lines(solution: Answers, draws: Draws) -> list[str]:
    own = draws.of_explanation(0)
    of_which, given = describe.draws_of(draw_counts(solution)), _condition(solution)
    return [
        f"{draws.n_draws} draws at β = {solution.options.beta:g}{of_which}, mean U = {own.mean_potential:.6g}{given}",
        f"drawn by {describe.sampler(draws.sampler)} ({describe.reason(draws.reason)}): acceptance {draws.acceptance:.2f}, "
        f"{plural(draws.gradients_per_draw, 'gradient')} a draw",
    ]


def error_bar_lines(solution: Answers) -> list[str]:
    """The lines of :meth:`summary` about error bars, in words; each mode for itself, since nothing is averaged across them."""
    nodes, modes = solution.nodes, solution.modes
    if modes is None or len(modes) == 1:
        if nodes is None:
            return []
        source = "the draws" if nodes.source == "draws" else "the Gaussian approximation"
        return [f"median 1σ per axis{_condition(solution)}: {describe.sigmas(nodes)} ({nodes.gauge}; from {source})"]
    lines = [describe.modes(modes), *describe.modes_advice(modes)]
    for k, mode in enumerate(modes.modes[:5]):
        own = solution.mode_nodes(k)
        words = "" if own is None else f", median 1σ per axis {describe.sigmas(own)}"
        which = ", the estimate's" if k == modes.home else f" (poses.mode-{k + 1}.csv)"
        lines.append(f"mode {k + 1}{which}: U = {mode.potential:.6g}{words}")
    return (
        lines if nodes is None else [*lines, f"σ are {nodes.gauge}; from the draws in each mode{_condition(solution)}"]
    )
