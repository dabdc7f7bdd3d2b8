"""What the synthetic experiments share: the paper's random graphs, and every method along one setting."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tempose import paper
from tempose.methods import METHODS, evaluate
from tempose.simulation import Simulated, simulate
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, over_seeds
from tempose.studies.store import Cell, Row

NODES, QUICK_NODES = paper.NODES, 15
SEEDS, QUICK_SEEDS = 30, 3
VALUES = {
    "mean_rotation_deg": "mean rotation error, degrees",
    "mean_translation": "mean translation error",
    "graph_consistency": "graph consistency",
}


def random_graph(nodes: int, completeness: float, variance: float, seed: int) -> Simulated:
    """The paper's random graph, with noise of one variance per axis: rad² of rotation vectors, length² of translations."""
    sigma = math.sqrt(variance)
    return simulate(nodes, completeness=completeness, sigma_rot_deg=math.degrees(sigma), sigma_trans=sigma, seed=seed)


def sweep(
    name: str,
    full: Sequence[float],
    quick: Sequence[float],
    make: Callable[[Cell], Simulated],
    fixed: Cell,
    x_label: str,
    values: Sequence[str],
    *,
    log_x: bool = True,
) -> Experiment:
    """Every method on the same random graphs, along the values of one setting.

    Parameters
    ----------
    name
        The setting that changes, a column of cells and table.
    full, quick
        Its values.
    make
        Graph and truth of a cell, from its settings and seed.
    fixed
        The other settings; the number of ``nodes`` is added.
    x_label
        The setting in words, with its unit.
    values
        What is measured, from :data:`VALUES`: one panel each.
    log_x
        Whether the setting has a logarithmic axis.
    """

    def cells(options: RunOptions) -> list[Cell]:
        nodes = QUICK_NODES if options.quick else NODES
        return [
            {"nodes": nodes, **fixed, name: level, "seed": seed, "method": method}
            for level in (quick if options.quick else full)
            for seed in options.seed_list(SEEDS, QUICK_SEEDS)
            for method in options.method_list(METHODS)
        ]

    def run(cell: Cell) -> list[Row]:
        data = make(cell)
        row = asdict(evaluate(cell["method"], data.graph, data.truth))
        return [{name: row[name] for name in (*VALUES, "potential", "iterations", "status", "message")}]

    def table(rows: list[Row]) -> list[Row]:
        return over_seeds(rows, (name, "method"), values)

    def draw(result: Result, home: Path) -> list[Path]:
        figure, axes = figures.panels(len(values))
        for ax, value in zip(axes, values, strict=True):
            figures.curves(ax, result.table, name, value)
            figures.label(ax, x_label, VALUES[value], log_x=log_x, log_y=value != "graph_consistency")
        figures.legend(figure, axes[0])
        return figures.save(figure, home)

    def text(result: Result) -> str:
        return "\n\n".join(
            as_text(result.table, "method", name, value, VALUES[value].split(",")[0]) for value in values
        )

    return Experiment(cells, run, table, draw, text)
