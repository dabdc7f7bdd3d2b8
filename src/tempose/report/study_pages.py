"""Pages of comparisons and of calibrations: a verdict, charts, and the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import write_atomically
from tempose._support.words import plural
from tempose._typing import PathLike
from tempose.methods.compare import KNOWN, Comparison, MethodRow
from tempose.report.widgets import Fact, PageFrame, Tone, banner, text
from tempose.studies.calibration.fitting import GROUPS
from tempose.studies.calibration.result import REGIONS, Calibration
from tempose.studies.calibration.uniformity import uniform_band
from tempose.studies.coverage import LEVELS

_SCRIPTS = ("util.js", "charts.js", "study.js")
ORDERS = 20.0
"""Values whose largest is so many times the least are shown on a logarithmic axis."""
OURS = "tempose"
_PANELS = {
    "mean_rotation_deg": ("Mean rotation error", "°"),
    "mean_translation": ("Mean translation error", ""),
    "potential": ("U, minus log posterior", ""),
    "graph_consistency": ("1 − graph consistency", ""),
    "seconds": ("Seconds", "s"),
}
_CELLS = ("mean_rotation_deg", "median_rotation_deg", "mean_translation", "median_translation", "graph_consistency",
          "potential", "iterations", "seconds")  # fmt: skip
_HEADS = (
    "method",
    "mean error °",
    "median °",
    "mean error",
    "median",
    "consistency",
    "U",
    "iterations",
    "seconds",
    "status",
)


# ---------------------------------------------------------------------- comparison of methods


def write_comparison_page(path: PathLike, result: Comparison, title: str) -> Path:
    """Write the page of ``tempose compare``; return where.

    Parameters
    ----------
    path
        The file.
    result
        What was compared.
    title
        E.g. the name of the graph's file.
    """
    ran = [row for row in result.rows if row.potential is not None]
    charts = [chart for name in _PANELS if (chart := _bars(name, ran)) is not None]
    parts = {
        "heading": "All methods",
        "key": "",
        "head": "".join(f'<th scope="col">{text(name)}</th>' for name in _HEADS),
        "rows": "".join(_row(row) for row in result.rows),
    }
    subtitle = f"{result.n_nodes} nodes, {result.n_edges} edges, {len(result.rows)} methods"
    alignment = "no truth is given: U says how well the poses explain the measurements"
    if result.alignment is not None:
        alignment = f"errors after {result.facts()['alignment_in_words']}"
    return _write(
        path, title, subtitle, comparison_verdict(result), charts, parts, [("errors", alignment)], "study.html"
    )


def comparison_verdict(result: Comparison) -> Fact:
    """Which method does best, by how much, and how many could not run."""
    key, what, unit = (
        ("potential", "U", "") if result.alignment is None else ("mean_rotation_deg", "mean rotation error", "°")
    )
    ran = sorted((row for row in result.rows if getattr(row, key) is not None), key=lambda row: getattr(row, key))
    left = len(result.rows) - len(ran)
    lost = f"{left} of {len(result.rows)} methods could not run on this graph; the table says why" if left else ""
    if not ran:
        return Fact("verdict", "No method could run", lost, "bad")
    lines = [f"least {what}: {getattr(ran[0], key):.4g}{unit}"]
    if len(ran) > 1:
        lines[0] += f"; next is {ran[1].method} with {getattr(ran[1], key):.4g}{unit}"
    return Fact("verdict", f"{ran[0].method} is best", "\n".join([*lines, *([lost] if lost else [])]))


def _bars(name: str, rows: Sequence[MethodRow]) -> dict[str, Any] | None:
    """One chart: bars of a number, sorted; ``None`` if no method has it."""
    label, unit = _PANELS[name]
    found = [(row.method, getattr(row, name)) for row in rows]
    if name == "graph_consistency":
        found = [(method, None if value is None else 1.0 - value) for method, value in found]
    found = [(method, None if value is None or not np.isfinite(value) else float(value)) for method, value in found]
    values = [value for _, value in found if value is not None]
    if not values:
        return None
    found.sort(key=lambda item: np.inf if item[1] is None else item[1])
    return {
        "kind": "bars",
        "label": label,
        "unit": unit,
        "log": is_logarithmic(values),
        "names": [method for method, _ in found],
        "values": [value for _, value in found],
        "marked": next((k for k, (method, _) in enumerate(found) if method == OURS), None),
    }


def is_logarithmic(values: Sequence[float]) -> bool:
    """Whether values differ so much that bars on a straight axis would hide the small ones."""
    positive = [value for value in values if value > 0.0]
    return len(positive) > 1 and max(positive) > ORDERS * min(positive)


def _row(row: MethodRow) -> str:
    cells = [getattr(row, name) for name in _CELLS]
    shown = "".join(f"<td>{'–' if value is None else text(f'{value:.4g}')}</td>" for value in cells)
    told = row.status + (f": {row.message}" if row.message else "")
    about = KNOWN[row.method][1] if row.method in KNOWN else ""
    return f'<tr><td title="{text(about)}">{text(row.method)}</td>{shown}<td class="words">{text(told)}</td></tr>'


# ---------------------------------------------------------------------- calibration


def write_calibration_page(path: PathLike, result: Calibration) -> Path:
    """Write the page of ``tempose calibrate``; return where.

    Parameters
    ----------
    path
        The file.
    result
        What was found.
    """
    settings = [setting for setting in result.settings if len(result.of(setting.name)) >= 2]
    curves = sum(len(result.quantities(setting.name)) for setting in settings)
    charts: list[dict[str, Any]] = []
    for setting in settings:
        worst = result.worst(setting.name)
        stats = f"{len(result.of(setting.name))} graphs" + (
            "" if worst is None else f" · least corrected p = {worst.corrected:.2g}"
        )
        charts.append(_curves(result, setting.name, stats, curves))
        charts.append(_shares(result, setting.name))
    head, *rows = result.cells()
    key = (
        '<p class="gauge">Left: where the truth ranks among the draws, minus what would be expected; '
        "all curves stay in the band with probability 99% if the error bars are right. Right: how many truths "
        "lie inside the regions; the lines are where the bars should end.</p>"
    )
    parts = {
        "heading": "All settings",
        "key": key if charts else "",
        "head": "".join(f'<th scope="col">{text(name)}</th>' for name in head),
        "rows": "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows),
    }
    counts = ((len(result.rows), "simulated graph"), (len(result.settings), "setting"), (len(result.tests), "test"))
    subtitle = ", ".join(plural(count, thing) for count, thing in counts)
    rows_ = [(setting.name, setting.words()) for setting in result.settings] + [("seed", str(result.seed))]
    options = [(name.replace("_", " "), str(value)) for name, value in result.options.items()]
    return _write(
        path, "Calibration", subtitle, calibration_verdict(result), charts, parts, [*rows_, *options], "study.html"
    )


def calibration_verdict(result: Calibration) -> Fact:
    """Whether error bars are what they say."""
    tone: Tone = "neutral" if result.calibrated is None else "good" if result.calibrated else "bad"
    return Fact("verdict", result.finding[0].upper() + result.finding[1:], result.reason, tone)


def _curves(result: Calibration, setting: str, stats: str, count: int) -> dict[str, Any]:
    """Empirical distribution functions of the ranks minus the uniform one, and the band of all of them together."""
    curves = []
    for quantity in result.quantities(setting):
        u = np.sort(result.ranks(setting, quantity))
        x = np.concatenate([[0.0], np.repeat(u, 2), [1.0]])
        y = np.repeat(np.arange(len(u) + 1) / len(u), 2) - x
        curves.append({"name": quantity, "group": GROUPS[quantity], "x": _short(x), "y": _short(y)})
    band = uniform_band(len(result.of(setting)), count)
    return {"kind": "curves", "label": f"{setting}: ranks of the truth", "stats": stats, "band": band, "curves": curves}


def _short(values: np.ndarray[Any, np.dtype[np.float64]]) -> list[float]:
    return [round(float(value), 4) for value in values]


def _shares(result: Calibration, setting: str) -> dict[str, Any]:
    """Shares of truths inside the regions, with their standard errors."""
    series = []
    for region in REGIONS:
        found = [result.coverage(setting, region, level) for level in LEVELS]
        known = [np.isfinite(one.share) for one in found]
        series.append(
            {
                "name": region,
                "share": [float(one.share) if ok else None for one, ok in zip(found, known, strict=True)],
                "error": [float(one.error) if ok else 0.0 for one, ok in zip(found, known, strict=True)],
            }
        )
    names = "bars: nodes and pairs by the draws, then by the Gaussian approximation"
    return {
        "kind": "shares",
        "label": f"{setting}: truths inside",
        "stats": names,
        "levels": list(LEVELS),
        "series": series,
    }


def _write(
    path: PathLike,
    title: str,
    subtitle: str,
    verdict: Fact,
    charts: Sequence[dict[str, Any]],
    parts: Mapping[str, str],
    settings: Sequence[tuple[str, str]],
    template: str,
) -> Path:
    frame = PageFrame(
        title,
        subtitle,
        metadata.version("tempose"),
        [],
        [],
        settings,
        _SCRIPTS,
        {"charts": list(charts)},
        banner(verdict),
    )
    write_atomically(path, frame.around(template, parts).encode("utf-8", "replace"))
    return Path(path)
