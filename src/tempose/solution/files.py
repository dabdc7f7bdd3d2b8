"""The files of a solution: what is written, and what is read again (:mod:`tempose.io.result_directory` knows how)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tempose import describe
from tempose.analysis.analysis import Analysis
from tempose.analysis.diagnostics import Diagnostics
from tempose.analysis.summary import NodeSummary, reported
from tempose.analysis.trust import doubts_from, errors_told_shared
from tempose.errors import DrawsError, GraphError, OptionError
from tempose.io.csvfile import name_text
from tempose.io.result_directory import StoredResult, Table, read_result, with_poses, write_result
from tempose.model.gauge import Gauge
from tempose.model.posterior import Posterior
from tempose.optimum.certificate import Certificate
from tempose.options import SolveOptions
from tempose.outliers.noise import Parameters
from tempose.outliers.solutions import Weighing, is_by_place
from tempose.sampling.draws import copy_draws, read_draws, refuse_other_run
from tempose.solution import facts
from tempose.solution.answers import Answers
from tempose.solution.parts import Status


def save(solution: Answers, home: Path, *, bare: bool, record: Mapping[str, Any]) -> Path:
    """Write the files of a solution, or with ``bare`` only what a run that goes on needs."""
    refuse_other_run(home / "draws", {"fingerprint": solution.draws_fingerprint})
    told = {**(facts.bare_facts(solution) if bare else facts.facts(solution)), **solution.record, **record}
    n_draws = 0 if solution.draws is None else solution.draws.n_draws
    stored = StoredResult(
        told,
        solution.graph,
        solution.likelihood,
        solution.estimate,
        solution.trace,
        solution.others,
        {} if solution.weighing is None else solution.weighing.arrays(),
        {}
        if bare or solution.nodes is None
        else {
            **solution.nodes.arrays(),
            "all_draws": np.array(n_draws),
        },
    )
    if bare:
        write_result(home, stored, for_others=False)
        return home
    tables = {"edges.csv": _edge_table(solution)}
    for k, mode in enumerate(solution.modes.modes if solution.modes is not None else ()):
        if solution.modes is not None and k != solution.modes.home:
            columns = _sigma_columns(solution, solution.mode_nodes(k), None)
            tables[f"poses.mode-{k + 1}.csv"] = with_poses(
                reported(solution.graph, mode.poses), columns, solution.graph.is_planar
            )
    for k, one in enumerate(solution.explanations[1:], start=1):
        columns = _sigma_columns(solution, solution.explanation_nodes(k), None)
        shown = reported(solution.graph, one.poses)
        tables[describe.explanation_file(k)] = with_poses(shown, columns, solution.graph.is_planar)
    if solution.draws is not None and solution.draws.directory is not None:
        there = home / "draws"
        if solution.draws.directory.resolve() != there.resolve():
            copy_draws(solution.draws, there)
    write_result(home, stored, pose_columns(solution), tables)
    return home


def stored_fields(directory: str | Path) -> dict[str, Any]:
    """All fields of a solution that was saved: estimate, draws and settings."""
    home = Path(directory)
    stored = read_result(home)
    try:
        return _fields(home, stored)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, OptionError, GraphError):
        raise DrawsError(f"{home}: not a result of this version of tempose; solve the graph again") from None


def _fields(home: Path, stored: StoredResult) -> dict[str, Any]:
    facts = stored.facts
    options = SolveOptions.from_dict(facts["options"])
    gauge = Gauge.parse(stored.graph, options.gauge)
    draws = read_draws(home / "draws") if (home / "draws" / "draws.json").exists() else None
    if draws is not None and draws.fingerprint != facts["draws_fingerprint"]:
        raise DrawsError(
            f"{home}: the draws there belong to another solve than result.json; solve again, with --overwrite"
        )
    parameters = None if facts["parameters"] is None else Parameters.from_facts(facts["parameters"])
    proof = None if facts["certificate"] is None else Certificate.from_facts(facts["certificate"])
    scaled_by = facts["scaling"]["variance_factor"]
    if type(scaled_by) not in (int, float) or not 0.0 < scaled_by < math.inf:
        raise ValueError(scaled_by)
    posterior = Posterior(stored.graph, stored.likelihood)
    weighing = Weighing.from_arrays(stored.graph.node_ids, stored.explanations) if stored.explanations else None
    doubts = doubts_from(facts["optimiser"]["doubts"])
    told = errors_told_shared(weighing, doubts)
    analysis = Analysis(
        posterior,
        stored.estimate,
        gauge,
        options.beta,
        None if draws is None else draws.of_explanation(0),
        parameters,
        options.noise == "auto",
        weighing=weighing,
        errors_shared=options.shares_errors(is_by_place(weighing), posterior.is_precise_only, told),
        scaled_by=scaled_by,
        may_repeat=options.may_repeat,
    )
    found = 0 if draws is None else draws.n_draws
    if stored.nodes and int(stored.nodes["all_draws"]) == found:  # else there are more by now
        analysis = analysis.with_nodes(NodeSummary.from_arrays(gauge, stored.nodes))
    return dict(
        graph=stored.graph,
        options=options,
        status=Status(facts["status"]),
        estimate=stored.estimate,
        potential=facts["potential"],
        draws=draws,
        gauge=gauge,
        trace=stored.trace,
        certificate=proof,
        notices=tuple(facts["notices"]),
        seconds=facts["seconds"],
        version=facts["version"],
        analysis=analysis,
        optimiser_status=facts["optimiser"]["status"],
        optimum_notices=tuple(facts["optimiser"]["notices"]),
        doubts=doubts,
        scaled_by=scaled_by,
        tuning=facts["tuning"],
        likelihood=stored.likelihood,
        parameters=parameters,
        others=stored.others,
        weighing=weighing,
        fingerprint=facts["fingerprint"],
        draws_fingerprint=facts["draws_fingerprint"],
        record={name: facts[name] for name in ("input",) if name in facts},
    )


def pose_columns(solution: Answers) -> Table:
    """What stands beside the poses in ``poses.csv``."""
    return _sigma_columns(solution, solution.nodes, solution.analysis.own_diagnostics)


def _sigma_columns(solution: Answers, nodes: NodeSummary | None, found: Diagnostics | None) -> Table:
    graph, axes = solution.graph, solution.graph.axes
    rows = [graph.index[name] for name in graph.reported]
    header: list[str] = ["component"]
    columns: list[Any] = [graph.component[rows]]
    if nodes is None:
        return header, columns
    names = np.array(["rx_deg", "ry_deg", "rz_deg", "x", "y", "z"])
    header += ["sigma_rot_deg", "sigma_pos", "entropy", *(f"sigma_{a}" for a in names[axes])]
    deviation = np.sqrt(np.maximum(np.einsum("naa->na", nodes.covariance), 0.0))
    deviation[:, :3] = np.degrees(deviation[:, :3])
    deviation[~nodes.determined, 3:] = np.nan
    deviation[graph.is_landmark[rows], :3] = np.nan
    columns += [nodes.sigma_rot_deg, nodes.sigma_pos, nodes.entropy, *deviation[:, axes].T]
    if nodes.source == "draws" and found is not None:
        sigmas = np.column_stack([nodes.sigma_rot_deg, nodes.sigma_pos, deviation[:, axes]])
        mcse = found.mcse_sd * np.where(np.arange(6) < 3, np.degrees(1.0), 1.0)
        errors = np.column_stack([found.sigma_rot_deg_mcse, found.sigma_pos_mcse, mcse[:, axes]])[rows]
        header += [f"mcse_{name}" for name in header if name.startswith("sigma_")]
        columns += list(np.where(sigmas == 0.0, 0.0, errors).T)  # what is held has no error
    return header, columns


def _edge_table(solution: Answers) -> Table:
    graph, names, r = solution.graph, solution.graph.edge_names(), solution.residuals
    table: dict[str, Any] = {
        "i": [name_text(a) for a, _ in names],
        "j": [name_text(b) for _, b in names],
        "rotation_deg": np.where(graph.ranks[0] > 0, np.degrees(r.angle), np.nan),
        "translation": np.linalg.norm(r.translation, axis=1),
        "surprise": solution.surprise,
        "p_value": solution.edge_checks.p_value,
        "redundancy": solution.reliability.redundancy,
        "mde_rot_deg": solution.reliability.mde_rot_deg,
        "mde_trans": solution.reliability.mde_trans,
        "external_reliability": solution.reliability.external,
    }
    if solution.verdicts is not None:
        table["inlier_probability"] = solution.verdicts.inlier_probability
    for k in range(1, len(solution.explanations)):  # if that explanation is the true one
        table[f"inlier_probability_if_{k + 1}"] = solution.explanation_inliers(k)
    return list(table), list(table.values())
