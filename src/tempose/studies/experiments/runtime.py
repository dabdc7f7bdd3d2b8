"""Time of every method against the size of the graph (the paper's Table 2, its part on synchronisation)."""

from __future__ import annotations

from pathlib import Path

from tempose import paper
from tempose.methods import METHODS
from tempose.simulation import simulate
from tempose.studies import figures
from tempose.studies import real_data as real
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, over_seeds
from tempose.studies.store import Cell, Row

DEGREE = 12  # edges at a node, in the sweep
SIZES, QUICK_SIZES = (10, 20, 50, 100, 200, 500, 1000), (10, 30)
MOST_NODES = {"robust": 500}
"""Where a method is not run on larger graphs: it would take minutes."""


def cells(options: RunOptions) -> list[Cell]:
    """Sizes × seeds × methods, and the paper's two sizes."""
    sizes = [("sweep", n, n * DEGREE // 2) for n in (QUICK_SIZES if options.quick else SIZES)]
    if not options.quick:
        sizes += [(name, *size) for name, size in paper.SIZES.items()]
    return [
        {"data": data, "nodes": n, "edges": m, "seed": seed, "method": method}
        for data, n, m in sizes
        for seed in options.seed_list(3, 1)
        for method in options.method_list(METHODS)
    ]


def run(cell: Cell) -> list[Row]:
    """One method on one graph, timed after a first call on a tiny one."""
    n, method = cell["nodes"], cell["method"]
    if n > MOST_NODES.get(method, n):
        return [{"status": "left out", "message": f"too slow beyond {MOST_NODES[method]} nodes"}]
    chosen = METHODS[method][0]
    chosen(simulate(6, completeness=1.0, sigma_rot_deg=1.0, sigma_trans=0.01).graph)
    completeness = min(1.0, 2.0 * cell["edges"] / n**2)
    data = simulate(n, completeness=completeness, sigma_rot_deg=3.0, sigma_trans=0.05, seed=cell["seed"])
    return [real.measure(lambda graph, truth: chosen(graph), data.graph, data.truth, timed=True)]


def table(rows: list[Row]) -> list[Row]:
    """Mean seconds, of the processor and on the clock, by size and method."""
    return over_seeds(rows, ("data", "nodes", "edges", "method"), ("cpu_seconds", "seconds"))


def draw(result: Result, home: Path) -> list[Path]:
    """Seconds against nodes."""
    figure, axes = figures.panels(1, width=5.4, height=3.6)
    figures.curves(axes[0], [row for row in result.table if row["data"] == "sweep"], "nodes", "cpu_seconds")
    figures.label(axes[0], f"nodes ({DEGREE} edges at each)", "seconds of one core", log_x=True, log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Seconds of one core by size."""
    sized = [{**row, "size": f"{row['nodes']}/{row['edges']}"} for row in result.table]
    return as_text(sized, "method", "size", "cpu_seconds", "seconds of one core, by nodes/edges")


EXPERIMENT = Experiment(cells, run, table, draw, text, timed=True)
