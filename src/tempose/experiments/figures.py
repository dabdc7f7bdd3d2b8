"""The look that all figures share; matplotlib is imported where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tempose.experiments.base import Row

Axes = Any  # matplotlib has no types here and may not be installed

_COLOURS = (
    "#8a8f98", "#4e79a7", "#76b7b2", "#59a14f", "#b07aa1", "#9c755f", "#edc948", "#ff9da7", "#3b3f46", "#1f9ed1", "#f28e2b",
    "#d62728", "#6a3d9a", "#bcbd22", "#0b6e4f", "#e377c2",
)  # fmt: skip
_MARKERS = "sv^<>dDpPXo*hH"


def blank(width: float, height: float) -> Any:
    """A figure (inches) without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(columns: int, *, width: float = 3.9, height: float = 3.1) -> tuple[Any, list[Axes]]:
    """A figure of panels side by side, each of this size in inches, and their axes."""
    figure = blank(width * columns, height)
    axes = [figure.add_subplot(1, columns, k + 1) for k in range(columns)]
    for ax in axes:
        ax.tick_params(labelsize=8)
        ax.grid(color="#e4e7ec", linewidth=0.6)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return figure, axes


def style(method: str) -> dict[str, Any]:
    """Look of a method, the same in every figure; the project's own stand out, variants ("pgd (short)") are dashed."""
    from tempose.baselines import METHODS

    name, _, variant = method.partition(" ")
    number = list(METHODS).index(name) if name in METHODS else 0
    own = method.startswith(("tempose", "tg-mcmc"))
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "markersize": 5.0 if own else 3.5,
        "linewidth": 2.0 if own else 1.1,
        "linestyle": "--" if variant else "-",
        "zorder": 4 if own else 2,
    }


def _plain_style(number: int) -> dict[str, Any]:
    """Look of curves that are not methods."""
    return {"color": _COLOURS[1 + number], "marker": _MARKERS[number], "markersize": 3.5, "linewidth": 1.1}


def curves(ax: Axes, table: Sequence[Row], x: str, y: str, by: str = "method") -> None:
    """One curve per value of ``by``: mean of ``y`` against ``x``, with bars of two standard errors."""
    for number, name in enumerate(dict.fromkeys(row[by] for row in table)):
        points = [row for row in table if row[by] == name and row[y] is not None]
        if points:
            bars = [2.0 * (row[f"{y}_se"] or 0.0) for row in points]
            ax.errorbar(
                [row[x] for row in points], [row[y] for row in points], bars,
                label=name, elinewidth=0.8, capsize=1.5, **(style(str(name)) if by == "method" else _plain_style(number)),
            )  # fmt: skip


def label(ax: Axes, x: str, y: str, title: str = "", *, log_x: bool = False, log_y: bool = False) -> None:
    """Name the axes, with their units."""
    if log_x:
        ax.set_xscale("log")
    if log_y:
        ax.set_yscale("log")
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.set_title(title, fontsize=10)


def legend(figure: Any, ax: Axes) -> None:
    """One legend for all panels, at the right."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=8, frameon=False)


def save(figure: Any, home: Path, name: str = "figure", *, svg: bool = False) -> list[Path]:
    """Write the figure as PNG (and SVG), without the date, so that the same numbers give the same file."""
    paths = [home / f"{name}.png"] + ([home / f"{name}.svg"] if svg else [])
    for path in paths:
        figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
    return paths
