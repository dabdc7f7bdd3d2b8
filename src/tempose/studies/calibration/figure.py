"""The figure of a calibration: rank curves that must stay in a band, and coverage bars that must reach a line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tempose.studies import figures
from tempose.studies.calibration.fitting import GROUPS
from tempose.studies.calibration.result import Calibration
from tempose.studies.calibration.uniformity import CONFIDENCE, uniform_band
from tempose.studies.coverage import LEVELS

_COLOURS = {
    "U": "#b3261e",
    "node": "#1f5fa8",
    "pair": "#2e8b57",
    "distance": "#8a4fbf",
    "landmark": "#d98e04",
    "fit": "#555555",
}
_BARS = {"node": "#1f5fa8", "pair": "#2e8b57", "node, Gaussian": "#c9d6e8", "pair, Gaussian": "#cfe6d8"}


def draw_calibration(result: Calibration, directory: Path) -> list[Path]:
    """Write ``figure.png``; nothing without ranks."""
    settings = [setting for setting in result.settings if len(result.of(setting.name)) >= 2]
    if not settings:
        return []
    across = 2 * min(2, len(settings))
    figure, axes = figures.panels(across, math.ceil(2 * len(settings) / across), width=3.3, height=2.5)
    for unused in axes[2 * len(settings) :]:
        unused.remove()
    for k, setting in enumerate(settings):
        left, right = axes[2 * k : 2 * k + 2]
        _rank_curves(left, result, setting.name, sum(len(result.quantities(one.name)) for one in settings))
        _coverage_bars(right, result, setting.name)
        left.set_title(f"{setting.name} ({len(result.of(setting.name))} graphs)", fontsize=9, loc="left")
        if k == 0:
            left.legend(fontsize=6.5, ncols=2, loc="lower left", framealpha=0.7)
            right.legend(fontsize=6.5, loc="lower right", framealpha=0.9)
    figure.suptitle(
        f"Rank of the truth minus uniform (band: {CONFIDENCE:.0%} for all curves together), and coverage of regions",
        fontsize=10,
    )
    return figures.save(figure, directory)


def _rank_curves(axes: Any, result: Calibration, setting: str, curves: int) -> None:
    """Empirical distribution function of each quantity's ranks minus the uniform one."""
    band = uniform_band(len(result.of(setting)), curves)
    axes.axhspan(-band, band, color="#eeeeee", zorder=0)
    axes.axhline(0.0, color="#999999", lw=0.6)
    labelled: set[str] = set()
    largest = band
    for quantity in result.quantities(setting):
        u = np.sort(result.ranks(setting, quantity))
        n = len(u)
        x = np.concatenate([[0.0], np.repeat(u, 2), [1.0]])
        y = np.concatenate([np.repeat(np.arange(n + 1) / n, 2)]) - x
        largest = max(largest, float(np.abs(y).max()))
        group = GROUPS[quantity]
        label = None if group in labelled else group
        labelled.add(group)
        axes.plot(x, y, color=_COLOURS[group], lw=1.6 if group == "U" else 0.8, alpha=0.9, label=label)
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(-1.15 * largest, 1.15 * largest)
    figures.label(axes, "rank of the truth", "")


def _coverage_bars(axes: Any, result: Calibration, setting: str) -> None:
    """Shares of truths inside, drawn at each nominal level, with two standard errors."""
    width = 0.8 / len(_BARS)
    for b, (region, colour) in enumerate(_BARS.items()):
        found = [result.coverage(setting, region, level) for level in LEVELS]
        at = np.arange(len(LEVELS)) - 0.4 + width * (b + 0.5)
        axes.bar(
            at,
            [100 * c.share for c in found],
            width,
            color=colour,
            label=region,
            yerr=[200 * c.error for c in found],
            error_kw={"elinewidth": 0.7},
        )
    for k, level in enumerate(LEVELS):
        axes.plot([k - 0.45, k + 0.45], [100 * level] * 2, color="black", lw=1.0)
    axes.set_xticks(range(len(LEVELS)), [f"{level:.0%}" for level in LEVELS], fontsize=7)
    axes.set_ylim(0, 108)
    figures.label(axes, "", "truths inside, %")
