"""What sphere2500's rotation information means: its covariances, read in two ways, against its noise-free edges.

The two readings differ by a factor of four, and the truth tells which is meant. Pairs of one graph are not independent, so the
true Monte Carlo errors are larger than those stated.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import numpy as np

from tempose.io import ReadOptions, read_graph
from tempose.model.poses import Poses
from tempose.optimum.trees import tree_poses
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.coverage import LEVELS, pair_distance
from tempose.studies.experiment import Experiment, Result, RunOptions, data_folder
from tempose.studies.experiments.covariance import covered_text, summary
from tempose.studies.store import Cell, Row

READINGS = list(itertools.product(("rotation-vector", "quaternion-vector"), ("isotropic", "full")))
PAIRS, QUICK_PAIRS = 200, 20


@cache
def truth() -> Poses:
    """Poses by the noise-free edges."""
    perfect = read_graph(data_folder("g2o") / "sphere2500_groundtruth.txt")
    return tree_poses(perfect, perfect.spanning_tree())


def cells(options: RunOptions) -> list[Cell]:
    """The readings."""
    data_folder("g2o")
    pairs = QUICK_PAIRS if options.quick else PAIRS
    return [{"rotation": r, "precision": p, "pairs": pairs, "seed": options.seed} for r, p in READINGS]


def run(cell: Cell) -> list[Row]:
    """Squared normalised errors of random pairs under one reading, and the reduced χ² of the fit."""
    reading = (cell["rotation"], cell["precision"])
    options = ReadOptions(rotation_information=reading[0], precision=reading[1])
    graph = read_graph(data_folder("g2o") / "sphere2500.g2o", options)
    solution = solve(graph, draws=0)
    assert solution.laplace is not None
    rng = np.random.default_rng(cell["seed"])
    ids = graph.node_ids
    pairs = rng.integers(0, len(ids), (len(READINGS), cell["pairs"], 2))[READINGS.index(reading)].tolist()
    return [
        {
            "squared": pair_distance(solution.laplace.relative(ids[a], ids[b]), truth()),
            "reduced_chi_square": solution.reduced_chi_square,
        }
        for a, b in pairs
        if a != b
    ]


def table(rows: list[Row]) -> list[Row]:
    """Every reading, with the noise as stated and scaled by the reduced χ²."""
    lines = []
    for reading in dict.fromkeys((row["rotation"], row["precision"]) for row in rows):
        here = [row for row in rows if (row["rotation"], row["precision"]) == reading]
        squared, factor = np.array([row["squared"] for row in here]), here[0]["reduced_chi_square"]
        for noise, by in (("as stated", 1.0), (f"scaled by χ² = {factor:.3f}", factor)):
            line: Row = {"reading": f"{', '.join(reading)}, noise {noise}", "reduced_chi_square": factor}
            lines.append({**line, "n": len(squared), **summary(squared / by)})
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Shares inside, noise scaled."""
    figure, axes = figures.panels(1, width=6.0, height=4.2)
    figures.coverage_dots(axes[0], result.table[1::2], "reading", "inside", LEVELS)
    figures.label(axes[0], "", "truths inside the 50, 80 and 95 % regions")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Two lines per reading."""
    return covered_text(result.table, "reading")


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
