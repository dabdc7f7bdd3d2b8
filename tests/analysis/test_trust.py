"""One judgement on a result: each doubt by a graph that has it, and none where there is nothing to doubt."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import tempose
from helpers.two_explanations import contested
from tempose import describe
from tempose.analysis.trust import Doubt, Trust
from tempose.cli import main
from tempose.optimum.certificate import Proof
from tempose.outliers import Robust
from tempose.report.page import render_page
from tempose.report.solution_page import report_data
from tempose.simulation import simulate


def doubts(solution):
    return [one.doubt for one in solution.judgement.findings]


def scaled(graph, sigma):
    """With σ of every edge multiplied by a factor."""
    return replace(
        graph,
        concentration=graph.concentration / sigma**2,
        translation_precision=graph.translation_precision / sigma**2,
    )


@pytest.fixture(scope="module")
def good():
    return simulate(20, completeness=0.5, sigma_rot_deg=2.0, seed=3).graph


def test_a_graph_whose_noise_is_as_stated_is_trusted(good):
    solution = tempose.solve(good, draws=0)
    assert solution.judgement.trust is Trust.TRUST and not doubts(solution) and not solution.judgement.options
    assert solution.headline.startswith("trust it: ") and "next:" not in solution.summary()
    told = report_data(solution).verdict
    assert (told.value, told.tone) == ("Trust it", "good") and told.note.startswith(
        solution.headline[len("trust it: ") :]
    )


@pytest.mark.parametrize(
    ("sigma", "doubt", "trust"),
    [
        (0.2, Doubt.NOISE_UNDERSTATED, Trust.NOT),
        (0.6, Doubt.NOISE_UNDERSTATED, Trust.CARE),
        (3.0, Doubt.NOISE_OVERSTATED, Trust.CARE),
        (30.0, Doubt.NOISE_OVERSTATED, Trust.NOT),
    ],
)
def test_noise_that_is_stated_wrong_is_found_and_what_helps_is_named(good, sigma, doubt, trust):
    solution = tempose.solve(scaled(good, sigma), draws=0)
    first = solution.judgement.findings[0]
    assert (first.doubt, first.trust) == (doubt, trust)
    assert first.value == pytest.approx(1.0 / sigma, rel=0.1)
    assert first.options == ("--noise", "auto")
    again = tempose.solve(scaled(good, sigma), noise="auto", draws=0)  # what was advised does help
    assert again.judgement.trust is Trust.TRUST


def test_edges_that_were_computed_are_no_reason_to_estimate_their_noise(good):
    """Condensed edges fit to rounding: their noise is not overstated, and estimating it would make error bars of nothing."""
    session = tempose.solve(good, draws=0)
    condensed = tempose.analysis.condense(session.laplace, [0, 3, 7]).graph
    solution = tempose.solve(condensed, draws=0)
    assert [one.doubt for one in solution.judgement.findings] == [Doubt.NO_SCATTER]
    assert solution.judgement.trust is Trust.CARE and not solution.judgement.options
    assert "nothing tells whether the stated noise is right" in solution.headline


def test_wrong_edges_are_named_with_the_command_that_finds_them(tmp_path, capsys):
    file = str(tmp_path / "wrong.g2o")
    assert main(["simulate", "--nodes", "20", "--wrong-edges", "0.2", "--seed", "4", "-o", file, "--quiet"]) == 0
    out = str(tmp_path / "first")
    assert main(["solve", file, "-o", out, "--draws", "0", "--no-report", "--noise", "given"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("do not trust it: ") and lines[0].endswith(" edges contradict the rest")
    command = lines[-1].removeprefix("next: tempose ")
    assert command == f"solve {file} -o {out}-2 --draws 0 --no-report --robust --noise auto"
    assert main(command.split()) == 0
    assert not capsys.readouterr().out.startswith("do not trust it")
    facts = json.loads((tmp_path / "first" / "result.json").read_text())["trust"]
    assert facts["verdict"] == "do not trust it" and facts["next"] == ["--robust", "--noise", "auto"]
    assert facts["findings"][0]["doubt"] == "edges contradict the rest"


def test_the_page_has_the_verdict_then_the_picture_then_numbers(good):
    text = render_page(report_data(tempose.solve(scaled(good, 0.2), draws=0)))
    places = [
        text.index(part) for part in ('class="banner bad"', "Do not trust it", 'id="viewer"', '<ul class="tiles">')
    ]
    assert places == sorted(places)


def test_a_chain_is_checked_by_nothing():
    graph = simulate(10, shape="trajectory", loops_per_node=0.0, seed=1).graph
    assert doubts(tempose.solve(graph, draws=0)) == [Doubt.UNCHECKED]


def test_an_answer_that_is_another_one_time_in_five_is_not_to_be_trusted():
    solution = contested(True)
    first = solution.judgement.findings[0]
    assert (first.doubt, first.trust, first.value) == (Doubt.UNDECIDED, Trust.NOT, pytest.approx(55.0))
    one, other = solution.weighing.explanations
    likely = replace(one, probability=0.85), replace(other, probability=0.15)
    weighing = replace(solution.weighing, explanations=likely)
    more = replace(solution, weighing=weighing, analysis=replace(solution.analysis, weighing=weighing))
    assert more.judgement.trust is Trust.CARE


def test_few_draws_are_too_few_and_good_ones_no_doubt(good):
    few = tempose.solve(good, draws=8)
    assert Doubt.DRAWS_TOO_FEW in doubts(few) and few.judgement.trust is Trust.CARE
    many = tempose.solve(good, draws=1200, seed=1)
    assert not doubts(many) and "draws are " in many.headline


@pytest.mark.parametrize(
    ("too_large", "starts", "advised"), [(False, 1, "20"), (False, 20, None), (True, 1, "3"), (True, 3, None)]
)
def test_as_many_starts_are_advised_as_somebody_would_wait_for(good, too_large, starts, advised):
    solution = tempose.solve(good, draws=0)
    certificate = replace(
        solution.certificate,
        status="not certified",
        certified=False,
        proof=Proof.NEGATIVE_EIGENVALUE,
        relative_suboptimality=0.037,
        too_large=too_large,
    )
    solution = replace(solution, certificate=certificate, options=replace(solution.options, starts=starts))
    assert doubts(solution) == [Doubt.NOT_PROVEN]
    assert solution.judgement.options == (() if advised is None else ("--starts", advised))
    page = render_page(report_data(solution))
    for text in (page, solution.summary()):
        assert "local optimum, up to 3.7% of U above the best" in text
        assert ("--starts" in text) == (advised is not None)
        assert advised is None or f"--starts {advised}" in text


def test_doubts_come_back_from_the_file(tmp_path):
    solution = contested(True)
    kept = replace(solution, doubts=((Doubt.SHARED, np.nan), (Doubt.COMPETING, 2.0)))
    kept.save(tmp_path)
    again = tempose.Solution.load(tmp_path)
    assert again.summary() == kept.summary()
    assert "edges share errors" in again.summary()
    assert "other solutions" not in again.summary()  # explanations, with probabilities, are told in their place


def test_every_doubt_has_its_words(good):
    solution = tempose.solve(good, draws=0)
    first = tempose.solve(scaled(good, 0.6), draws=0).judgement.findings[0]
    for one in Doubt:
        if one is not Doubt.UNDECIDED:
            assert describe.doubt(replace(first, doubt=one), solution.edge_checks, None)


def test_a_map_that_distrusts_most_loop_closures_rests_on_its_chain():
    """Five wrong links, seven in ten loop closures right: an explanation by which most are wrong was trusted."""
    kind = {"shape": "manhattan", "planar": True, "wrong_loops": 0.3}
    made = simulate(60, wrong_odometry=0.08, seed=30000, **kind)
    solution = tempose.solve(made.graph, robust=True, noise="auto", draws=0)
    assert Doubt.MOST_LOOPS in doubts(solution) and solution.judgement.trust is not Trust.TRUST
    assert "% of the loop closures are distrusted, so that the map rests on consecutive edges" in solution.summary()
    by_hand = tempose.solve(made.graph, robust=Robust(trust_odometry=0.99), noise="auto", draws=0)
    assert Doubt.MOST_LOOPS not in doubts(by_hand)  # who vouches for the chain knows
    honest = simulate(60, seed=101, **kind | {"planar": False})  # the negative control: three in ten are distrusted
    assert not doubts(tempose.solve(honest.graph, robust=True, noise="auto", draws=0))


@pytest.mark.parametrize(("prior", "doubt"), [(1e-9, Doubt.UNHELD), (0.9, Doubt.LOOSE_PARTS)])
def test_a_node_that_no_edge_holds_is_not_to_be_trusted(good, prior, doubt):
    """The only edge of a node is hardly ever right, or probably."""
    touched = np.flatnonzero((good.edge_i == 0) | (good.edge_j == 0))
    kept = np.ones(good.n_edges, dtype=bool)
    kept[touched[1:]] = False
    priors = np.full(good.n_edges, np.nan)
    priors[touched[0]] = prior
    graph = replace(good, inlier_prior=priors).with_edges(kept)
    solution = tempose.solve(graph, robust=True, noise="auto", draws=0)
    assert doubt in doubts(solution)
    assert (solution.judgement.trust is Trust.NOT) == (doubt is Doubt.UNHELD)
