"""Do the error bars predict the errors? Gaussian covariances at the optimum against known truths, at low noise.

The squared normalised error of a relative pose is χ² with six degrees of freedom: its mean is 6, and the share inside the 50,
80 and 95 % regions is just that.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose._support.tables import text_table
from tempose.analysis.regions import probability_within
from tempose.simulation import simulate
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.coverage import LEVELS, column, coverage, pair_distance
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

GRAPHS = {"random, half of all pairs": ("random", 0.5), "random, a tenth": ("random", 0.1)}
GRAPHS |= {"sphere": ("sphere", 1.0), "trajectory": ("trajectory", 1.0)}
NODES = 30


def cells(options: RunOptions) -> list[Cell]:
    """Kinds of graphs × seeds, and a random pair of nodes of each."""
    rng = np.random.default_rng(0)
    plan: list[Cell] = []
    for name in GRAPHS:
        for seed in options.seed_list(200, 4):
            a, b = rng.choice(NODES, 2, replace=False).tolist()
            plan.append({"graphs": name, "seed": seed, "a": a, "b": b})
    return plan


def run(cell: Cell) -> list[Row]:
    """Squared normalised error of one relative pose."""
    shape, completeness = GRAPHS[cell["graphs"]]
    made = simulate(
        NODES, shape=shape, completeness=completeness, sigma_rot_deg=0.5, sigma_trans=0.01, seed=cell["seed"]
    )
    laplace = solve(made.graph, draws=0).laplace
    assert laplace is not None
    a, b = cell["a"], cell["b"]
    return [{"squared": pair_distance(laplace.relative(made.truth.ids[a], made.truth.ids[b]), made.truth)}]


def table(rows: list[Row]) -> list[Row]:
    """Mean, median and coverage of every kind of graphs."""
    lines = []
    for name in dict.fromkeys(row["graphs"] for row in rows):
        squared = np.array([row["squared"] for row in rows if row["graphs"] == name])
        lines.append({"graphs": name, "n": len(squared), **summary(squared)})
    return lines


def summary(squared: np.ndarray) -> Row:
    """Mean and median over those of χ²₆, and the shares inside with their standard errors if all were independent."""
    row: Row = {"mean": float(squared.mean() / 6.0), "median": float(np.median(squared) / 5.348)}
    for level in LEVELS:
        covered = coverage([[u] for u in probability_within(squared, 6)], level)
        row |= {column("inside", level): covered.share, f"{column('inside', level)}_se": covered.error}
    return row


def draw(result: Result, home: Path) -> list[Path]:
    """Shares inside, with bars of two standard errors."""
    figure, axes = figures.panels(1, width=5.0)
    figures.coverage_dots(axes[0], result.table, "graphs", "inside", LEVELS)
    figures.label(axes[0], "", "truths inside the 50, 80 and 95 % regions")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """One line per kind of graphs."""
    return covered_text(result.table, "graphs")


def covered_text(table: list[Row], first: str) -> str:
    """Mean, median and coverage in percent."""
    lines = [[first, "mean/6", "median/5.35", *(f"inside {level:.0%}" for level in LEVELS)]]
    for r in table:
        inside = [f"{100 * r[c]:.1f} ± {100 * r[f'{c}_se']:.1f}" for c in (column("inside", level) for level in LEVELS)]
        lines.append([r[first], f"{r['mean']:.2f}", f"{r['median']:.2f}", *inside])
    return text_table(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
