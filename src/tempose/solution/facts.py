"""A solution in numbers: the content of ``result.json``."""

from __future__ import annotations

import math
from typing import Any

from tempose import describe
from tempose._support.plain import plain
from tempose.analysis.accuracy import graph_consistency
from tempose.analysis.overview import precisions
from tempose.analysis.summary import median_sigma
from tempose.model.gauge import FRAME, ORDER
from tempose.model.graph import PoseGraph
from tempose.optimum.relaxations import known_order
from tempose.sampling.draws import Draws
from tempose.solution.answers import Answers
from tempose.solution.words import draw_counts, headline


def facts(solution: Answers) -> dict[str, Any]:
    """The content of ``result.json``."""
    found = solution.judgement
    trust = {
        "verdict": found.trust,
        "findings": [
            {**one.facts(), "sentence": describe.doubt(one, solution.edge_checks, solution.weighing)}
            for one in found.findings
        ],
        "next": list(found.options),
        "surely_helps": found.surely_helps,
    }
    return {"headline": headline(solution), "trust": trust, **bare_facts(solution), **_findings(solution)}


def bare_facts(solution: Answers) -> dict[str, Any]:
    """What is known without looking at the draws: what a run that goes on from here needs."""
    draws, proof = solution.draws, solution.certificate
    return {
        "status": solution.status,
        "potential": solution.potential,
        "certified": None if proof is None else proof.certified,
        "certificate": None if proof is None else {**proof.facts(), "sentence": describe.certificate(proof)},
        "n_nodes": len(solution.graph.reported),
        "n_edges": solution.graph.n_edges,
        "n_components": solution.graph.n_components,
        "graph_consistency": plain(graph_consistency(solution.graph, solution.estimate)),
        "beta": solution.options.beta,
        "draws": draws.n_draws if draws is not None else 0,
        "chains": draws.n_chains if draws is not None else 0,
        "mean_potential": plain(draws.of_explanation(0).mean_potential if draws is not None else math.nan),
        "sampler": _sampler_facts(draws),
        "seed": solution.options.seed,
        "version": solution.version,
        "seconds": solution.seconds,
        "parameters": None if solution.parameters is None else solution.parameters.facts(),
        "scaling": {
            "choice": solution.options.scale,
            "applied": solution.scaled_by != 1.0,
            "variance_factor": solution.scaled_by,
        },
        "optimiser": {
            "status": solution.optimiser_status,
            "notices": list(solution.optimum_notices),
            "doubts": [[doubt, plain(value)] for doubt, value in solution.doubts],
            "elimination_order": None if (order := known_order(solution.graph)) is None else order.kind,
        },
        "origin": dict(solution.graph.origin),
        "edges_measure": solution.graph.measures,
        "precisions": _precision_facts(solution.graph),
        "options": solution.options.as_dict(),
        "tuning": solution.tuning,
        "notices": list(solution.notices),
        "fingerprint": solution.fingerprint,
        "draws_fingerprint": solution.draws_fingerprint,
    }


def _findings(solution: Answers) -> dict[str, Any]:
    """What the analysis says."""
    nodes, found = solution.nodes, solution.diagnostics
    words = {} if found is None else {"verdict": describe.verdict(found), "advice": describe.advice(found)}
    return {
        "reduced_chi_square": plain(solution.reduced_chi_square),
        "global_test": solution.global_test.facts(),
        "uncertainty": {
            "source": nodes.source if nodes is not None else None,
            "gauge": str(solution.gauge),
            "edge_errors": "shared" if solution.analysis.errors_shared else "independent",
            "frame": FRAME,
            "order": ORDER,
            "median_sigma_rot_deg": plain(median_sigma(nodes.sigma_rot_deg) if nodes is not None else math.nan),
            "median_sigma_pos": plain(median_sigma(nodes.sigma_pos) if nodes is not None else math.nan),
        },
        "modes": None if solution.modes is None else solution.modes.facts(),
        "diagnostics": None if found is None else {**found.facts(), **words},
        "predictive": {"sentence": describe.edge_checks(solution.edge_checks), **solution.edge_checks.facts()},
        "robust": None if solution.verdicts is None else solution.verdicts.facts(),
        "agreement": None if (agreed := solution.analysis.agreement) is None else agreed.facts(),
        "explanations": [
            {**describe.explanation_facts(solution.graph, one), "draws": _facts_of_draws(solution, k)}
            for k, one in enumerate(solution.explanations)
        ],
    }


def _facts_of_draws(solution: Answers, k: int) -> dict[str, Any] | None:
    """How many draws are of an explanation, and what they are worth."""
    found = solution.explanation_diagnostics(k)
    if found is None:
        return None
    rhat, ess = found.worst_rhat.value, found.least_ess
    return {"count": draw_counts(solution)[k], "level": found.level, "rhat": plain(rhat), "ess": plain(ess)}


def _precision_facts(graph: PoseGraph) -> dict[str, Any]:
    found = precisions(graph)
    return {"used": "isotropic"} if found is None else {**found, "sentence": describe.precisions(found)}


def _sampler_facts(draws: Draws | None) -> dict[str, Any] | None:
    if draws is None:
        return None
    return {
        "name": draws.sampler,
        "reason": describe.reason(draws.reason),
        "acceptance": plain(draws.acceptance),
        "gradients_per_draw": plain(draws.gradients_per_draw),
        "settings": draws.settings,
    }
