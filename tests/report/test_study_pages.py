"""Pages of comparisons and calibrations: the charts hold the numbers, names stay names."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from helpers.browser import BROWSER, HOSTILE, shown
from tempose.methods.compare import Comparison, MethodRow
from tempose.report.study_pages import (
    calibration_verdict,
    comparison_verdict,
    is_logarithmic,
    write_calibration_page,
    write_comparison_page,
)
from tempose.studies.calibration.fitting import QUANTITIES, FitRow
from tempose.studies.calibration.result import Calibration
from tempose.studies.calibration.settings import Setting
from tempose.studies.calibration.uniformity import uniform_band


def payload_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def comparison(alignment: str | None = "se3", **changes) -> Comparison:
    errors = {} if alignment is None else {"mean_rotation_deg": 2.0, "mean_translation": 0.1}
    tenth = {name: value / 10 for name, value in errors.items()}
    rows = (
        MethodRow("chordal", "solved", graph_consistency=0.9, potential=50.0, seconds=0.01, **errors),
        MethodRow("tempose", "solved", graph_consistency=0.99, potential=5.0, seconds=2.0, **tenth),
        MethodRow("tree", "left out", message="does <b>not</b> apply"),
    )  # fmt: skip
    return replace(Comparison(rows, {}, 9, 11, alignment), **changes)


def test_bars_are_sorted_and_logarithmic_where_methods_differ_by_orders(tmp_path):
    write_comparison_page(tmp_path / "report.html", comparison(), "a <graph>")
    text = (tmp_path / "report.html").read_text()
    charts = {chart["label"]: chart for chart in payload_of(text)["charts"]}
    rotation, seconds = charts["Mean rotation error"], charts["Seconds"]
    assert rotation["names"] == ["tempose", "chordal"] and rotation["values"] == [0.2, 2.0] and rotation["marked"] == 0
    assert seconds["names"] == ["chordal", "tempose"] and seconds["values"] == [0.01, 2.0]
    assert seconds["log"] and not rotation["log"]  # 200 times as long; 10 times as wrong
    assert charts["1 − graph consistency"]["values"] == pytest.approx([0.01, 0.1])
    assert "does &lt;b&gt;not&lt;/b&gt; apply" in text and "a &lt;graph&gt;" in text
    assert text.index('class="banner') < text.index('id="charts"') < text.index("<table>")


def test_axes():
    assert is_logarithmic([1.0, 21.0]) and not is_logarithmic([1.0, 19.0])
    assert not is_logarithmic([0.0, 5.0]) and not is_logarithmic([5.0])


def test_the_best_method_is_told_with_and_without_truth():
    found = comparison_verdict(comparison())
    assert found.value == "tempose is best" and "0.2°" in found.note and "chordal with 2°" in found.note
    assert "1 of 3 methods" in found.note
    assert "least U: 5" in comparison_verdict(comparison(None)).note
    none = comparison(rows=(MethodRow("tree", "left out", message="no"),))
    assert comparison_verdict(none).tone == "bad"


def calibration(graphs: int = 40, power: float = 1.0) -> Calibration:
    """Ranks that are uniform, or with another power crowded at an end."""
    rng = np.random.default_rng(5)
    names = list(QUANTITIES)[:3]
    rows = []
    for k in range(graphs):
        u = (rng.random((3, 3)) ** power).tolist()
        ranks = dict(zip(names, u[0], strict=True))
        rows.append(
            FitRow(
                "custom",
                k,
                "ranked",
                "collapsed",
                ranks=ranks,
                nodes=u[1],
                pairs=u[2],
                nodes_laplace=u[1],
                pairs_laplace=u[2],
            )
        )
    return Calibration((Setting("custom"),), tuple(rows), {"chains": 2}, 7)


def test_calibration_page_has_the_ranks_and_the_shares(tmp_path):
    result = calibration()
    write_calibration_page(tmp_path / "report.html", result)
    curves, shares = payload_of((tmp_path / "report.html").read_text())["charts"]
    assert curves["band"] == uniform_band(40, 3) and len(curves["curves"]) == 3
    one = curves["curves"][0]
    u = np.sort(result.ranks("custom", one["name"]))
    largest = max(np.max(np.arange(1, 41) / 40 - u), np.max(u - np.arange(40) / 40))
    assert max(abs(y) for y in one["y"]) == pytest.approx(largest, abs=1e-4)  # the statistic of Kolmogorov and Smirnov
    for series in shares["series"]:
        for level, share in zip(shares["levels"], series["share"], strict=True):
            assert share == result.coverage("custom", series["name"], level).share
    assert calibration_verdict(result).tone == "good"
    assert calibration_verdict(calibration(power=8.0)).tone == "bad"  # negative control
    assert calibration_verdict(calibration(3)).tone == "neutral"


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
@pytest.mark.parametrize("kind", ["comparison", "calibration"])
def test_they_run_in_a_browser(tmp_path, kind):
    path = tmp_path / "report.html"
    if kind == "comparison":
        rows = tuple(
            MethodRow(name, "solved", potential=10.0**k, seconds=1.0, message=name) for k, name in enumerate(HOSTILE)
        )
        write_comparison_page(path, comparison(None, rows=rows), HOSTILE[0])
    else:
        write_calibration_page(path, calibration())
    document, said = shown(path.as_uri(), tmp_path / "profile")
    assert 'data-ready="yes"' in document and "CONSOLE" not in said and "<title>hit" not in document
    drawn = document.count('class="bar"') if kind == "comparison" else document.count('class="curve"')
    assert drawn == (2 * len(HOSTILE) if kind == "comparison" else 3)
