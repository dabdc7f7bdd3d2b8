"""Robust solves from end to end: verdicts, files, proofs, the command line."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers.wrong_edges import with_wrong_edges, without_noise_levels
from tempose import describe
from tempose.analysis.accuracy import pose_errors
from tempose.cli import main
from tempose.errors import GraphError, NotApplicable, OptionError, ParseError, TemposeError
from tempose.io import ReadOptions, read_graph, write_graph, write_poses
from tempose.optimum.proof import certify
from tempose.outliers.estimate import kept_problem, own_probabilities
from tempose.outliers.options import Robust
from tempose.report.solution_page import report_data
from tempose.simulation import corrupt, simulate

PROMISES = ("certif", "global optimum", "proof", "proven")


@pytest.fixture(scope="module")
def problem():
    made = simulate(25, completeness=0.6, sigma_rot_deg=3.0, sigma_trans=0.05, seed=4)
    graph, wrong = with_wrong_edges(made, 0.15, 2)
    return made, graph, wrong


@pytest.fixture(scope="module")
def solution(problem, tmp_path_factory):
    _, graph, _ = problem
    home = tmp_path_factory.mktemp("robust")
    return tempose.solve(without_noise_levels(graph), robust=True, noise="auto", draws=0, directory=home)


def test_wrong_edges_are_found_and_the_poses_are_those_of_the_others(problem, solution):
    made, graph, wrong = problem
    verdicts = solution.verdicts
    assert set(verdicts.distrusted) == set(np.flatnonzero(wrong))
    assert np.all(np.diff(verdicts.inlier_probability[verdicts.distrusted]) >= 0)
    oracle = tempose.solve(graph.with_edges(~wrong), draws=0)
    errors = [pose_errors(s.estimate, made.truth).mean_rotation_deg for s in (solution, oracle)]
    assert errors[0] < 1.05 * errors[1]
    plain = tempose.solve(graph, draws=0)  # negative control
    assert pose_errors(plain.estimate, made.truth).mean_rotation_deg > 3.0 * errors[0]
    assert f"{wrong.sum()} of {graph.n_edges} edges distrusted; worst: " in solution.summary()
    assert "noise estimated: σ = " in solution.summary()
    assert f"{100.0 * verdicts.inlier_probability.mean():.3g} % of the edges" in solution.summary()


def test_noise_that_too_little_checks_is_called_stated(solution):
    kept = replace(solution.verdicts.parameters, kept=("rotation_scale",), rotation_scale=1.0, translation_scale=1.0)
    found = describe.noise(replace(solution.verdicts, parameters=kept))
    assert found.startswith("noise as stated (too little checks it): σ = ")
    one = replace(kept, translation_scale=1.1)  # negative control: one of the two is estimated
    assert describe.noise(replace(solution.verdicts, parameters=one)).startswith("noise estimated: σ = ")


def test_covariances_are_those_of_the_kept_edges(problem, solution):
    _, graph, wrong = problem
    oracle = tempose.solve(solution.graph.with_edges(~wrong), draws=0)
    ratio = solution.nodes.sigma_rot_deg[1:] / oracle.nodes.sigma_rot_deg[1:]
    assert ratio == pytest.approx(np.ones_like(ratio), rel=0.02)
    assert graph.n_nodes == len(ratio) + 1


def test_the_proof_is_about_the_kept_edges_and_says_so(solution):
    assert solution.certificate.certified
    assert "problem of the kept edges" in describe.certificate(solution.certificate)
    weighted = kept_problem(solution.posterior, solution.estimate)
    gradient = weighted.gradient(solution.estimate)[1]
    assert np.abs(gradient).max() < 1e-5  # the same stationary point
    assert certify(weighted, solution.estimate).certified
    page = report_data(solution)  # edges were rejected: nothing that could be read as a promise stands on top
    assert not any(word in f"{fact.label} {fact.value} {fact.note}" for fact in page.headline for word in PROMISES)
    assert [(fact.label, fact.tone) for fact in page.details] == [("proof about the kept edges", "neutral")]
    *lines, last, _ = solution.summary().splitlines()
    assert not any(word in line for line in lines for word in PROMISES)
    assert last == describe.kept_proof(solution.certificate)
    found = solution.analysis.agreement  # random ids are no order in time
    assert found.agreeing == 0.0 and describe.agreement(found) in lines


def test_a_robust_solve_that_rejects_nothing_keeps_its_proof_on_top():
    """Negative control."""
    made = simulate(12, completeness=0.8, sigma_rot_deg=2.0, seed=1)
    for robust in (False, True):
        solution = tempose.solve(made.graph, robust=robust, draws=0)
        assert not solution.is_proof_a_detail
        lines = solution.summary().splitlines()
        agree = "58 edges agree with each other within the stated noise, no better poses exist"
        assert lines[0] == solution.headline == f"trust it: {agree}"
        assert lines[1] == "12 nodes, 58 edges, 1 component: solved"
        assert any(line.startswith("certified: ") for line in lines[:5])
        assert describe.INDEPENDENT not in lines and not any("wrong edges" in line for line in lines)
        page = report_data(solution)
        assert [fact.tone for fact in page.headline if fact.value == "global optimum"] == ["good"]
        assert not page.details and page.explanations is None


def test_files_hold_the_verdicts_and_reload(solution, tmp_path):
    solution.save(tmp_path)
    with open(tmp_path / "edges.csv") as handle:
        rows = list(csv.DictReader(handle))
    saved = np.array([float(row["inlier_probability"]) for row in rows])
    assert saved == pytest.approx(solution.verdicts.inlier_probability)
    facts = json.loads((tmp_path / "result.json").read_text())["robust"]
    assert facts["distrusted_edges"] == len(solution.verdicts.distrusted)
    assert facts["sigma_rot_deg"] == pytest.approx(3.0, rel=0.1)
    again = tempose.Solution.load(tmp_path)
    assert again.parameters == solution.parameters
    assert again.verdicts.inlier_probability == pytest.approx(solution.verdicts.inlier_probability, abs=1e-9)
    assert again.posterior.potential(again.estimate) == pytest.approx(solution.potential, rel=1e-9)
    assert again.summary() == solution.summary()


def test_a_second_run_takes_the_estimate_of_the_first(problem, tmp_path):
    _, graph, _ = problem
    options = {"robust": True, "noise": "auto", "draws": 0, "directory": tmp_path}
    first = tempose.solve(graph, **options)
    second = tempose.solve(graph, **options)
    assert second.parameters == first.parameters
    assert np.array_equal(second.estimate.wxyz, first.estimate.wxyz)
    assert second.certificate == first.certificate


def test_noise_can_be_estimated_without_wrong_edges(problem):
    made, _, _ = problem
    solution = tempose.solve(without_noise_levels(made.graph), noise="auto", draws=0)
    assert solution.likelihood is None
    assert solution.reduced_chi_square == pytest.approx(1.0, abs=0.02)
    assert solution.graph.median_sigmas == pytest.approx((math.radians(3.0), 0.05), rel=0.1)
    assert solution.certificate.certified
    sigma_rot, sigma_trans = solution.graph.median_sigmas
    assert f"noise estimated: σ = {math.degrees(sigma_rot):.3g}° and {sigma_trans:.3g} per axis" in solution.summary()
    assert "stated noise" not in solution.summary()
    facts = {fact.label: fact.value for fact in report_data(solution).headline}
    assert "fit" not in facts and facts["estimated noise"].startswith("σ = ")


def test_given_noise_is_left_alone(problem):
    _, graph, wrong = problem
    solution = tempose.solve(graph, robust=Robust(inlier_probability=0.9, tail="gaussian"), draws=0)
    assert np.array_equal(solution.graph.concentration, graph.concentration)
    assert np.all(solution.likelihood.prior == 0.9)
    assert len(solution.verdicts.distrusted) == wrong.sum()


def test_an_edge_that_nothing_checks_keeps_its_prior(problem):
    _, graph, _ = problem
    ids = (*graph.node_ids, 99)
    bridge = replace(
        graph, node_ids=ids, edge_i=np.append(graph.edge_i, 3), edge_j=np.append(graph.edge_j, len(ids) - 1),
        j_from_i_wxyz=np.vstack([graph.j_from_i_wxyz, [1, 0, 0, 0]]), j_from_i_t=np.vstack([graph.j_from_i_t, [1, 0, 0]]),
        concentration=np.append(graph.concentration, graph.concentration[0]),
        translation_precision=np.append(graph.translation_precision, graph.translation_precision[0]),
    )  # fmt: skip
    solution = tempose.solve(bridge, robust=Robust(inlier_probability=0.8), draws=0)
    assert solution.verdicts.inlier_probability[-1] == 0.8


# ---------------------------------------------------------------------- priors of edges


def test_trusted_odometry_and_priors_of_the_file(problem):
    _, graph, _ = problem
    own = own_probabilities(graph, 0.99)
    consecutive = np.abs(graph.edge_i - graph.edge_j) == 1
    assert np.all(own[consecutive] == 0.99)
    assert np.all(np.isnan(own[~consecutive]))
    prior = np.full(graph.n_edges, np.nan)
    first = int(np.flatnonzero(consecutive)[0])
    prior[first] = 0.5
    marked = replace(graph, inlier_prior=prior)
    assert own_probabilities(marked, 0.99)[first] == 0.5  # the file knows better
    solution = tempose.solve(marked, robust=Robust(trust_odometry=0.99), draws=0)
    assert solution.likelihood.prior[first] == 0.5
    assert np.sum(solution.likelihood.prior == 0.99) == consecutive.sum() - 1
    named = replace(graph, node_ids=tuple("n" * (k + 1) for k in range(graph.n_nodes)))
    with pytest.raises(NotApplicable, match="numbers in the names"):
        own_probabilities(named, 0.99)


def test_priors_of_edges_round_trip_through_csv(problem, tmp_path):
    _, graph, _ = problem
    prior = np.where(np.arange(graph.n_edges) % 3 == 0, 0.25, np.nan)
    write_graph(tmp_path / "g.csv", replace(graph, inlier_prior=prior, fixed=(2,)))
    again = read_graph(tmp_path / "g.csv", ReadOptions(precision="full"))
    assert np.array_equal(again.inlier_prior, prior, equal_nan=True)
    assert np.array_equal(again.with_edges(prior == 0.25).inlier_prior, prior[prior == 0.25])
    text = (tmp_path / "g.csv").read_text().replace("0.25", "1.25", 1)
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(ParseError, match=r"inlier_prior is 1\.25; expected above 0"):
        read_graph(tmp_path / "bad.csv")
    with pytest.raises(GraphError, match="prior inlier probability"):
        replace(graph, inlier_prior=np.zeros(graph.n_edges))
    with pytest.raises(GraphError, match="one number per edge"):
        replace(graph, inlier_prior=np.ones(3))


# ---------------------------------------------------------------------- the command line


def test_command_line_without_any_noise_level(problem, tmp_path: Path, capsys):
    made, graph, wrong = problem
    file = tmp_path / "g.csv"
    write_graph(file, graph)
    table = [row for row in csv.reader(file.read_text().splitlines()) if row]
    keep = [k for k, name in enumerate(table[0]) if name not in ("lambda", "tau")]
    file.write_text("\n".join(",".join(row[k] for k in keep) for row in table) + "\n")
    write_poses(tmp_path / "truth.csv", made.truth)
    command = ["solve", str(file), "-o", str(tmp_path / "out"), "--robust", "--draws", "0", "--quiet"]
    assert main(command) == 1  # no precisions, no noise levels
    assert "sigma_rot_deg" in capsys.readouterr().err
    assert main([*command, "--noise", "auto", "--trust-odometry", "--tail", "gaussian"]) == 0
    assert json.loads((tmp_path / "out/result.json").read_text())["robust"]["distrusted_edges"] == wrong.sum()
    assert "distrusted edge" in (tmp_path / "out/report.html").read_text()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: Robust(tail="fat"), "tail must be"),
        (lambda: Robust(trust_odometry=0.0), "trust odometry must be"),
        (lambda: tempose.SolveOptions(noise="loud"), "unknown noise"),
        (lambda: tempose.SolveOptions(robust=True, optimiser="tg-mcmc"), "optimiser newton"),
    ],
)
def test_bad_options_are_refused(bad, words):
    with pytest.raises(TemposeError, match=words):
        bad()


# ---------------------------------------------------------------------- calibration


def test_probabilities_are_calibrated_and_regions_hold_the_truth():
    """Rotations with noise so wide that uniform outliers can hide in it: of the edges given p, a share p is right."""
    from tempose.analysis.regions import inside
    from tempose.studies.experiments.robust_calibration import distances

    stated, right, held, found = [], [], [], []
    for seed in range(6):
        made = simulate(25, completeness=0.5, sigma_rot_deg=15.0, seed=seed)
        rotations = replace(made.graph, j_from_i_t=np.full((made.graph.n_edges, 3), np.nan))
        bad = corrupt(rotations, 0.3, seed=seed, kind="uniform")
        graph = replace(without_noise_levels(bad.graph), initial=made.truth)
        solution = tempose.solve(graph, robust=True, noise="auto", start="given", draws=0, certify=False)
        found.append([math.degrees(solution.graph.median_sigmas[0]), solution.parameters.inlier_probability])
        stated.append(solution.verdicts.inlier_probability)
        right.append(~bad.is_wrong)
        far = distances(solution.laplace, made.truth, {"seed": seed, "rotations_only": True})
        held.append(np.mean(inside(far, 0.8, 3)))
    assert np.mean(found, axis=0) == pytest.approx([15.0, 0.7], rel=0.1)
    p, r = np.concatenate(stated), np.concatenate(right)
    doubtful = (p > 0.05) & (p < 0.95)
    assert doubtful.sum() > 60
    error = np.sqrt(np.sum(p * (1.0 - p))) / len(p)
    assert abs(np.mean(r) - np.mean(p)) < 3.5 * error
    for low, high in ((0.05, 0.5), (0.5, 0.85), (0.85, 0.95)):
        here = (p > low) & (p < high)
        error = np.sqrt(np.mean(p[here] * (1.0 - p[here])) / here.sum())
        assert abs(np.mean(r[here]) - np.mean(p[here])) < 3.5 * error
    sharp = np.where(p > 0.5, 0.99, 0.01)  # negative control: certainty about the same edges is refuted
    error = np.sqrt(0.01 / doubtful.sum())
    assert abs(np.mean(r[doubtful] == (p[doubtful] > 0.5)) - np.mean(np.maximum(sharp, 1 - sharp))) > 3.5 * error
    assert np.mean(held) == pytest.approx(0.8, abs=0.1)


def test_the_experiment_sums_its_rows_up():
    from tempose.studies.experiments import robust_calibration as wrong_edges

    cell = {"setting": "poses", **wrong_edges.SETTINGS["poses"], "nodes": 12, "share": 0.0, "seed": 3}
    rows = [{**cell, **row} for row in wrong_edges.run(cell)]
    first, *bins = wrong_edges.table(rows)
    assert first["n"] == 1
    assert first["sigma_rot_ratio"] == pytest.approx(1.0, abs=0.25)
    assert sum(line["edges"] for line in bins) == simulate(12, completeness=0.5, seed=3).graph.n_edges
    assert bins[-1]["right"] == 1.0


def test_trust_may_be_given_to_a_range_of_ids() -> None:
    graph = tempose.simulate(40, shape="manhattan", planar=True, seed=2).graph
    own = own_probabilities(graph, 0.99, (10, 20))
    ids = np.array(graph.node_ids)
    steps = np.abs(ids[graph.edge_i] - ids[graph.edge_j])
    inside = (np.minimum(ids[graph.edge_i], ids[graph.edge_j]) >= 10) & (
        np.maximum(ids[graph.edge_i], ids[graph.edge_j]) <= 20
    )
    assert np.array_equal(~np.isnan(own), (steps == 1) & inside) and np.sum(~np.isnan(own)) == 10
    assert Robust(trust_odometry=0.99, trust_ids="10:20").trusted_range == (10, 20)
    for wrong in ("20:10", "ten", "3"):
        with pytest.raises(OptionError, match="two ids"):
            Robust(trust_odometry=0.99, trust_ids=wrong)
    with pytest.raises(OptionError, match="how much"):
        Robust(trust_ids="10:20")
