"""The look that all figures share; matplotlib is imported where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from tempose._support.files import write_atomically
from tempose.studies.store import Row

Axes = Any  # matplotlib has no types here and may not be installed

_LOOK = {
    "tree": "#8a8f98 s",
    "chordal": "#4e79a7 v",
    "govindu": "#76b7b2 ^",
    "torsello": "#59a14f <",
    "eig-se3": "#b07aa1 >",
    "eig-se3-irls": "#9c755f d",
    "r-godec": "#d4ac0d D",
    "ozyesil": "#ff9da7 p",
    "pgd": "#3b3f46 x",
    "irls": "#1f9ed1 P",
    "tg-mcmc": "#f28e2b o",
    "tempose": "#d62728 *",
    "robust": "#6a3d9a s",
    "gnc": "#e377c2 X",
    "oracle": "#000000 _",
}
_MORE = ("#bcbd22 H", "#0b6e4f X", "#17becf 2", "#7f3b08 3")  # methods that come later
_OWN = ("tempose", "robust", "tg-mcmc")


def blank(width: float, height: float) -> Any:
    """A figure (inches) without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(columns: int, rows: int = 1, *, width: float = 3.9, height: float = 3.1) -> tuple[Any, list[Axes]]:
    """A figure of panels, each of this size in inches, and their axes, row by row."""
    figure = blank(width * columns, height * rows)
    axes = [figure.add_subplot(rows, columns, k + 1) for k in range(rows * columns)]
    for ax in axes:
        ax.tick_params(labelsize=8)
        ax.grid(color="#e4e7ec", linewidth=0.6)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return figure, axes


def style(method: str) -> dict[str, Any]:
    """Look of a method, the same in every figure; the project's own stand out, variants ("pgd (short)") are dashed."""
    from tempose.methods import METHODS

    name, _, variant = method.partition(" ")
    others = [other for other in METHODS if other not in _LOOK]
    look = _LOOK.get(name) or _MORE[(others.index(name) if name in others else 0) % len(_MORE)]
    own = name.startswith(_OWN)
    return {
        "color": look.split()[0],
        "marker": look.split()[1],
        "markersize": 5.5 if own else 3.5,
        "linewidth": 2.0 if own else 1.1,
        "linestyle": "--" if variant else ":" if name == "pgd" else "-",  # pgd often lies on another curve
        "zorder": {"pgd": 6, "tempose": 5}.get(name, 4 if own else 2),
    }


def _plain_style(number: int) -> dict[str, Any]:
    """Look of curves that are not methods."""
    colour, marker = list(_LOOK.values())[1 + number % (len(_LOOK) - 1)].split()
    return {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.1}


def curves(ax: Axes, table: Sequence[Row], x: str, y: str, by: str = "method", marks: bool = True) -> None:
    """One curve per value of ``by``: mean of ``y`` against ``x``, with bars of two standard errors; points on demand."""
    for number, name in enumerate(dict.fromkeys(row[by] for row in table)):
        points = [row for row in table if row[by] == name and row[y] is not None]
        if points:
            look = style(str(name)) if by == "method" else _plain_style(number)
            look |= {} if marks else {"marker": ""}
            bars = [2.0 * (row[f"{y}_se"] or 0.0) for row in points]
            ax.errorbar(
                [row[x] for row in points],
                [row[y] for row in points],
                bars,
                label=name,
                elinewidth=0.8,
                capsize=1.5,
                **look,
            )


def coverage_dots(ax: Axes, table: Sequence[Row], names: str, kind: str, levels: Sequence[float]) -> None:
    """Shares of truths inside regions, with bars of two standard errors, above names; lines where they should be."""
    for level in levels:
        share = f"{kind}_{100 * level:.0f}"
        ax.axhline(level, color="#8a8f98", linewidth=1.0)
        ax.errorbar(
            range(len(table)),
            [line[share] for line in table],
            [2.0 * (line[f"{share}_se"] or 0.0) for line in table],
            fmt="o",
            markersize=4,
            capsize=2,
            color="#6a3d9a",
            linewidth=1.2,
        )
    ax.set_xticks(range(len(table)), [line[names] for line in table], rotation=35, ha="right", fontsize=7)
    ax.set_ylim(0.0, 1.02)


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


def save(figure: Any, home: Path, *, dpi: int = 90) -> list[Path]:
    """Write ``figure.png`` without the date, so that the same numbers give the same file."""
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=dpi, metadata={"Software": None})
    write_atomically(home / "figure.png", picture.getvalue())
    return [home / "figure.png"]
