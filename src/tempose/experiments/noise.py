"""Errors of every method against the noise (the paper's Figure 2a, b)."""

from __future__ import annotations

from pathlib import Path

from tempose.experiments import figures, synthetic
from tempose.experiments.base import Cell, Experiment, Result, Row, RunOptions, over_seeds

VARIANCES = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
QUICK_VARIANCES = (0.005, 0.05)


def cells(options: RunOptions) -> list[Cell]:
    """Noise levels × seeds × methods."""
    nodes = synthetic.QUICK_NODES if options.quick else synthetic.NODES
    levels = QUICK_VARIANCES if options.quick else VARIANCES
    settings = [{"nodes": nodes, "completeness": synthetic.COMPLETENESS, "variance": level} for level in levels]
    return synthetic.method_cells(options, settings)


def run(cell: Cell) -> list[Row]:
    """One method on one graph."""
    data = synthetic.random_graph(cell["nodes"], cell["completeness"], cell["variance"], cell["seed"])
    return synthetic.method_row(cell["method"], data.graph, data.truth)


def table(rows: list[Row]) -> list[Row]:
    """Mean errors by noise and method."""
    return over_seeds(rows, ("variance", "method"), synthetic.ERRORS)


def draw(result: Result, home: Path) -> list[Path]:
    """Two panels: rotations and translations."""
    figure, axes = figures.panels(2)
    for ax, value, unit in zip(axes, synthetic.ERRORS, ("rotation error, degrees", "translation error"), strict=True):
        figures.curves(ax, result.table, "variance", value)
        figures.label(ax, "variance of the noise (rad², length²)", f"mean {unit}", log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


EXPERIMENT = Experiment(cells, run, table, draw)
