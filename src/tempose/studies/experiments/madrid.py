"""Rotation averaging of the internet photographs of Madrid's Metropolis (1DSfM): errors and seconds of every method."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from tempose.errors import NotApplicable
from tempose.io import ReadOptions, onedsfm
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.simulation import simulate
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies import real_data as real
from tempose.studies.coverage import rotations_within
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, data_folder
from tempose.studies.store import Cell, Row

SIGMA_DEG = 1.0
"""Stated noise: one for all edges, so that only methods with a noise model of their own notice its size."""
INLIER_DEG = 5.0
"""The oracle uses the edges within this of the truth."""
QUICK_NODES = 40
LIMITS = {"r-godec": {"iterations": 300}}
"""Options of methods that would otherwise take minutes; their status then says that they were stopped."""


@cache
def data(nodes: int | None) -> tuple[PoseGraph, Poses]:
    """Measured rotations of 394 cameras and the truth of 176 of them; or of the best connected among these only."""
    folder = data_folder("madrid")
    graph, truth = onedsfm.read_graph(folder, ReadOptions(sigma_rot_deg=SIGMA_DEG)), onedsfm.read_poses(folder)
    if nodes is None:
        return graph, truth
    known = np.array([graph.index[name] for name in truth.ids])
    return graph.subgraph(known[np.argsort(-graph.degree[known], kind="stable")[:nodes]]), truth


def cells(options: RunOptions) -> list[Cell]:
    """All methods, COLMAP's averaging and the oracle."""
    data_folder("madrid")
    named = real.method_cells(options, ("Madrid",), ("colmap", "oracle"))
    return [{**cell, "nodes": QUICK_NODES if options.quick else None} for cell in named]


def run(cell: Cell) -> list[Row]:
    """One method, timed after a first call on a tiny graph."""
    chosen = real.method(cell, real.oracle(INLIER_DEG, certify=False), **LIMITS.get(cell["method"], {}))
    tiny = simulate(6, completeness=1.0, sigma_rot_deg=SIGMA_DEG, sigma_trans=0.0)
    rotations = replace(tiny.graph, j_from_i_t=np.full((tiny.graph.n_edges, 3), np.nan))
    with suppress(NotApplicable):  # said again, with its reason, by the measurement
        chosen(rotations, tiny.truth)
    row = real.measure(chosen, *data(cell["nodes"]), timed=True)
    return [row | error_bars(*data(cell["nodes"])) if cell["method"] == "robust" else row]


def error_bars(graph: PoseGraph, truth: Poses) -> Row:
    """Of a robust solve: true rotations inside the 95% regions that it reports, and inside those of independent errors."""
    solution = solve(graph, robust=True, noise="auto", draws=0, certify=False, analyse=False)
    known = truth.select([name for name in truth.ids if name in graph.index])
    around = {"inside_95": solution.analysis.error_bars, "inside_95_independent": solution.analysis.laplace}
    return {name: None if one is None else rotations_within(one, known, 0.95) for name, one in around.items()}


def table(rows: list[Row]) -> list[Row]:
    """Errors and seconds."""
    errors = ("mean_rotation_deg", "median_rotation_deg", "mean_rotation_deg_l2", "median_rotation_deg_l2")
    times, bars = ("seconds", "cpu_seconds", "iterations"), ("inside_95", "inside_95_independent")
    return real.columns(rows, ("data", "method", "n_compared", *errors, *times, *bars, "status", "message"))


def draw(result: Result, home: Path) -> list[Path]:
    """Errors, circles for means and bars for medians, and seconds."""
    figure, axes = figures.panels(2, width=4.0, height=3.6)
    real.dots(axes[0], result.table, {"mean_rotation_deg": "o", "median_rotation_deg": "|"}, names=True)
    figures.label(axes[0], "rotation error, degrees: mean (●) and median (|)", "")
    timed = [row if row["method"] != "oracle" else {**row, "cpu_seconds": None} for row in result.table]
    real.dots(axes[1], timed, {"cpu_seconds": "s"}, names=False)
    figures.label(axes[1], "seconds of processor time", "")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Mean and median error after L1 alignment, times, and true cameras inside the 95% regions, by method."""
    shown = {"mean_rotation_deg": "mean °", "median_rotation_deg": "median °", "cpu_seconds": "cpu s", "seconds": "s"}
    shown |= {"inside_95": "inside 95 %", "inside_95_independent": "if independent"}
    lines = [
        {"method": row["method"], "column": column, "value": row[name]}
        for row in result.table
        for name, column in shown.items()
    ]
    return as_text(lines, "method", "column", "value", "rotation errors, L1 alignment")


EXPERIMENT = Experiment(cells, run, table, draw, text, seeds=False, timed=True)
