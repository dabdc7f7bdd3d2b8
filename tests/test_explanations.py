"""Several explanations: the headline, each one's poses and error bars, the files and the page."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import tempose
from helpers.two_explanations import TURN, contested, links, out_and_back
from tempose import describe
from tempose.errors import ArgumentError
from tempose.outliers.solutions import Competitor
from tempose.report.solution_page import report_data, write_report

PROMISES = ("certif", "global optimum", "proof", "proven")


@pytest.fixture(scope="module", params=[True, False], ids=["planar", "space"])
def solution(request):
    return contested(request.param)


def test_the_summary_begins_with_both_and_ends_with_what_is_proven(solution):
    lines = solution.summary().splitlines()
    told = "do not trust it: two explanations: 55% and 45%"
    assert lines[0] == solution.headline == solution.facts()["headline"] == told
    assert lines[1] == "also: 1 part of the graph hangs on a single edge"
    assert lines[2] == "may help: --trust-odometry"
    first = describe.links_given_up(solution.graph, solution.explanations[0])
    assert sorted(map(int, first.split(" → "))) == [TURN, TURN + 1]
    assert lines[3] == f"explanation 1, the one reported (poses.csv): gives up {first}"
    assert lines[4].startswith(f"explanation 2 (poses.explanation-2.csv): nodes elsewhere: 1 ({TURN}); gives up ")
    assert lines[5].endswith("nodes, 57 edges, 1 component: solved")
    assert sum("median 1σ per axis, if explanation 1 is the true one: " in line for line in lines) == 1
    assert not any(word in line for line in lines[:-2] for word in PROMISES)
    assert lines[-1].startswith("(U is how badly poses explain the measurements")
    assert lines[-2] == describe.kept_proof(solution.certificate)
    assert solution._repr_html_().startswith(f"<div><b>{told}</b>")


def test_edges_that_one_explanation_each_calls_wrong_are_not_called_fine(solution):
    """Each link of the turn is wrong in one explanation only: neither is distrusted, and both are named."""
    weighing = replace(
        solution.weighing, share=np.full(57, 0.53), rest=0.5 * (np.arange(57) != links(solution.graph)[1])
    )
    one = replace(solution, weighing=weighing, analysis=replace(solution.analysis, weighing=weighing))
    assert len(one.verdicts.distrusted) == 0
    line = describe.distrusted(one.verdicts, contested=True)
    assert line in one.summary() and line.startswith("no edge of 57 is more probably wrong than right, since each ")
    assert all(one.verdicts.name(k) in line for k in links(solution.graph))
    assert [fact.tone for fact in report_data(one).headline if fact.label == "distrusted edges"] == ["neutral"]
    assert describe.distrusted(one.verdicts) == "no edge of 57 is distrusted"  # negative control: of a single one


def test_one_that_is_sure_is_told_as_ever(solution):
    """Negative control: what makes the headline is the probability, not that explanations were searched for."""
    first = solution.weighing.explanations[0]
    for probability, is_contested in ((0.96, False), (0.94, True)):
        weighing = replace(solution.weighing, explanations=(replace(first, probability=probability),))
        one = replace(solution, weighing=weighing, analysis=replace(solution.analysis, weighing=weighing))
        assert one.is_contested == is_contested
        assert ("one explanation: 94%; 6% for others" in one.headline) == is_contested
        assert ("if explanation 1" in one.summary()) == is_contested
        assert (report_data(one).explanations is not None) == is_contested


def test_parts_on_contested_edges_without_another_way_have_no_card(solution):
    loose = np.full(solution.graph.n_nodes, -1)
    loose[:3] = 0
    first = replace(solution.weighing.explanations[0], probability=0.2)
    for explanations, cards in (((first,), False), ((first, solution.weighing.explanations[1]), True)):
        weighing = replace(solution.weighing, explanations=explanations, loose=loose)
        one = replace(solution, weighing=weighing, analysis=replace(solution.analysis, weighing=weighing))
        told = "3 nodes of 31, in 1 part, hang on single edges that others contradict"
        assert told in one.headline and one.headline.startswith("do not trust it: ")
        assert (report_data(one).explanations is not None) == cards


def test_the_second_has_its_own_poses_in_the_same_frame_and_its_own_error_bars(solution):
    graph, (wrong, right) = solution.graph, links(solution.graph)
    for k, edge in enumerate((wrong, right)):
        alone = tempose.solve(graph.with_edges(np.arange(graph.n_edges) != edge), draws=0)
        assert solution.explanation_nodes(k).sigma_pos == pytest.approx(alone.nodes.sigma_pos, rel=1e-3)
        assert solution.explanation_nodes(k).sigma_rot_deg == pytest.approx(alone.nodes.sigma_rot_deg, rel=1e-3)
        inliers = solution.explanation_inliers(k)
        assert inliers[edge] < 1e-3 and inliers[wrong + right - edge] > 0.5  # a bridge then, with its prior
    a, b = (one.poses.position for one in solution.explanations)
    apart = np.linalg.norm(a - b, axis=1)
    stays = np.arange(len(apart)) != TURN
    assert apart[stays].max() < 1e-4
    # node 16 is at (14, 0.5), and the wrong link sees it from 15 at (0.5, 1), turned by 1.2 too much
    back = np.array([[math.cos(1.2), math.sin(1.2)], [-math.sin(1.2), math.cos(1.2)]])
    false = np.array([14.0, 0.5]) - back @ [0.5, 1.0]
    assert apart[TURN] == pytest.approx(np.linalg.norm(false - [15.0, 0.0]), abs=0.1)
    raw = solution.weighing.explanations[1].poses.position  # negative control: it came in a frame of its own
    assert np.linalg.norm(raw - a, axis=1)[stays].min() > 1.0
    for k in (-1, 2):
        with pytest.raises(ArgumentError, match=f"there is no explanation {k}: there are 2"):
            solution.explanation_nodes(k)


def test_files_hold_both_and_reload(solution, tmp_path):
    solution.save(tmp_path)
    assert json.loads((tmp_path / "result.json").read_text())["headline"] == solution.headline
    again = tempose.Solution.load(tmp_path)
    assert again.summary() == solution.summary()
    for one, same in zip(solution.explanations, again.explanations, strict=True):
        assert same.probability == one.probability
        assert same.poses.position == pytest.approx(one.poses.position, abs=1e-9)
        for name in ("prior", "moved", "given_up"):
            assert np.array_equal(getattr(same, name), getattr(one, name))
    with open(tmp_path / "poses.explanation-2.csv") as handle:
        rows = list(csv.DictReader(handle))
    x = np.array([[float(row["x"]), float(row["y"])] for row in rows])
    assert x == pytest.approx(solution.explanations[1].poses.position[:, :2], abs=1e-9)
    sigma = np.array([float(row["sigma_pos"]) for row in rows])
    assert sigma == pytest.approx(solution.explanation_nodes(1).sigma_pos)
    with open(tmp_path / "edges.csv") as handle:
        column = [float(row["inlier_probability_if_2"]) for row in csv.DictReader(handle)]
    assert column == pytest.approx(solution.explanation_inliers(1))


def test_the_page_has_a_card_each(solution, tmp_path):
    data = report_data(solution)
    [other] = data.variants  # to switch to
    assert (data.label, other.label) == ("explanation 1, 55%", "explanation 2, 45%")
    assert other.positions == pytest.approx(solution.explanations[1].poses.position)
    assert other.edge_outlier == pytest.approx(1.0 - solution.explanation_inliers(1))
    assert not any(word in f"{fact.label} {fact.value} {fact.note}" for fact in data.headline for word in PROMISES)
    assert [fact.tone for fact in data.headline if fact.label == "status"] == ["neutral"]
    assert [fact.tone for fact in data.details] == ["neutral"]
    first, second = data.explanations.cards
    assert np.flatnonzero(first.marked).tolist() == np.flatnonzero(second.marked).tolist() == [TURN]
    write_report(tmp_path / "report.html", solution)
    text = (tmp_path / "report.html").read_text()
    block = re.search(r'<section class="explanations".*?</section>', text, re.S)[0]
    assert text.index(block) < text.index('<ul class="tiles">')
    shares = [int(share) for share in re.findall(r'<p class="value">(\d+)%</p>', block)]
    assert shares == [55, 45]
    assert "<h2>Two explanations: 55% and 45%</h2>" in block
    for svg in re.findall(r"<svg.*?</svg>", block, re.S):
        count = {name: path.count("M") for name, path in re.findall(r'<path class="(\w+)" d="(.*?)"', svg)}
        assert (count["nodes"], count["moved"], count["lost"]) == (30, 1, 1)
        assert count["edges"] == 56  # all but the link that it gives up
    assert len(re.findall(r"<svg", block)) == 2
    places = [re.search(r'class="nodes" d="(.*?)"', svg)[1] for svg in re.findall(r"<svg.*?</svg>", block, re.S)]
    assert places[0] == places[1]  # the same view: what both agree on lies at the same place


@pytest.mark.parametrize("seed", range(5))
def test_percentages_add_up_to_at_most_a_hundred(seed):
    rng = np.random.default_rng(seed)
    beyond = 0
    for _ in range(200):
        p = rng.dirichlet(np.full(5, 0.5))[:4]
        p[1] = p[0] if rng.random() < 0.3 and 2 * p[0] + p[2] + p[3] < 1.0 else p[1]
        p *= min(1.0, 1.0 / p.sum())
        exact = 100.0 * np.append(p, 1.0 - p.sum())
        shown = np.array([float(share.rstrip("%")) if share[:1].isdigit() else 0.0 for share in describe.shares(p)])
        assert shown.sum() <= 100.0
        assert np.all(np.abs(shown - exact) < 1.0 + 1e-6)
        assert p[0] != p[1] or shown[0] == shown[1]
        beyond += np.rint(exact).sum() > 100.0
    assert beyond > 10  # negative control: rounding each for itself


def test_numbers_are_words_up_to_four():
    def told(*p: float) -> str:
        return describe.explained([SimpleNamespace(probability=x) for x in p])

    assert told(0.8) == "one explanation: 80%; 20% for others"
    assert told(0.5, 0.3, 0.2) == "three explanations: 50%, 30% and 20%"
    assert told(0.25, 0.25, 0.25, 0.2) == "four explanations: 25%, 25%, 25% and 20%; 5% for others"
    assert told(0.6, 0.1, 0.1, 0.1, 0.1).startswith("5 explanations: 60%, ")
    assert told(0.997, 0.003) == "two explanations: 100% and <1%"


@pytest.mark.parametrize(
    ("log_odds", "words"),
    [
        (166.0, "odds more than 1000 to 1 for the one reported, if wrong edges are independent of each other"),
        (math.log(20.0), "odds 20 to 1 for the one reported, if wrong edges are independent of each other"),
        (-3.0, "the measurements alone would prefer it"),
    ],
)
def test_odds_are_never_larger_than_anybody_should_believe(log_odds, words):
    fit = SimpleNamespace(graph=out_and_back(True))
    line = describe.competitor(Competitor(fit, log_odds, np.array([TURN]), 50, 56))
    assert words in line and "e^" not in line


def test_runs_of_ids_are_short():
    graph = out_and_back(True)

    def told(*rows: int) -> str:
        return describe.nodes_elsewhere(graph, SimpleNamespace(moved=np.array(rows, dtype=np.int64)))

    assert told(3, *range(12, 19)) == "8 (3, 12 to 18)"
    assert told(1, 2, 4) == "3 (1, 2, 4)"
    assert told() == "none"
