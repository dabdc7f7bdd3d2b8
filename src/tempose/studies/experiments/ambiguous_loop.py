"""Odds of the two ways round an ambiguous loop: exact, Gaussian, and by the samplers from starts in either mode.

A straight path of 8 nodes, and one loop closure that says the last node looks back, by about 180°. Either every step turned a
little to the left, or every step turned a little to the right. With σ the same for all rotations the odds are known as a
series (:func:`tempose.simulation.ambiguous_loop_odds`).
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.tables import text_table
from tempose.analysis.modes import find_modes, gaussian_odds, search
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.simulation import ambiguous_loop, ambiguous_loop_odds
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

NODES, SIGMA_DEG = 8, 15.0
ANGLES_DEG = (165.0, 170.0, 175.0, 180.0)
RUNS = {"jumping": ("jumping", 0), "tempering, start in the shorter": ("tempering", 0)}
RUNS |= {"tempering, start in the longer": ("tempering", 1)}
"""Sampler, and the mode it starts in: 0 the shorter way, 1 the longer."""


def cells(options: RunOptions) -> list[Cell]:
    """Angles of the closure × runs; tempering has half the draws of jumping."""
    draws = {"jumping": 200, "tempering": 100} if options.quick else {"jumping": 2000, "tempering": 1000}
    angles = ANGLES_DEG[1:2] if options.quick else ANGLES_DEG
    return [
        {"angle_deg": angle, "run": name, "draws": draws[RUNS[name][0]], "seed": options.seed}
        for angle, name in itertools.product(angles, RUNS)
    ]


def run(cell: Cell) -> list[Row]:
    """Probability of the shorter way: exact, Gaussian, and as drawn."""
    graph = ambiguous_loop(NODES, SIGMA_DEG, cell["angle_deg"])
    curvature = Curvature(Posterior(graph))
    first = solve(graph, draws=0, certify=False).estimate
    both = search(curvature, 1.0, first, 12, np.random.default_rng(cell["seed"]))
    assert len(both) == 2, f"{len(both)} modes at {cell['angle_deg']}°"
    sampler, start = RUNS[cell["run"]]
    with tempfile.TemporaryDirectory() as home:
        solution = solve(
            replace(graph, initial=both[start]),
            start="given",
            certify=False,
            sampler=sampler,
            seed=cell["seed"],
            chains=2,
            draws=cell["draws"],
            starts=13 if sampler == "jumping" else 1,
            directory=home,
        )
        assert solution.draws is not None
        modes = find_modes(curvature, solution.draws, both[0])
        found = modes[modes.home]
    return [
        {
            "exact": ambiguous_loop_odds(NODES, SIGMA_DEG, cell["angle_deg"]),
            "gaussian": float(gaussian_odds([Laplace(curvature, one) for one in both])[0]),
            "found": found.probability,
            "error": found.error,
        }
    ]


def table(rows: list[Row]) -> list[Row]:
    """All runs, and how far each is off in standard errors."""
    names = ("angle_deg", "run", "exact", "gaussian", "found", "error")
    return [{**{name: row[name] for name in names}, "z": (row["found"] - row["exact"]) / row["error"]} for row in rows]


def draw(result: Result, home: Path) -> list[Path]:
    """The two explanations, and the odds against the angle."""
    figure, (left, right) = figures.panels(2, width=4.5, height=3.8)
    _draw_modes(left)
    angle = np.linspace(162.0, 180.0, 100)
    right.plot(angle, [ambiguous_loop_odds(NODES, SIGMA_DEG, a) for a in angle], "k-", lw=1, label="exact")
    for k, (name, marker) in enumerate(zip(RUNS, "so^", strict=True)):
        rows = [row for row in result.table if row["run"] == name]
        x = [row["angle_deg"] + 0.25 * (k - 1) for row in rows]
        bars = [row["error"] for row in rows]
        right.errorbar(x, [row["found"] for row in rows], bars, fmt=marker, ms=4, capsize=2, label=name)
    figures.label(right, "closure, degrees", "probability of the shorter way", "Odds of the two explanations")
    right.legend(frameon=False, fontsize=8)
    return figures.save(figure, home, dpi=130)


def _draw_modes(ax: Any) -> None:
    solution = solve(ambiguous_loop(NODES, SIGMA_DEG, 175.0), starts=13, draws=400, seed=1)
    assert solution.modes is not None and solution.draws is not None
    for k, (mode, colour) in enumerate(zip(solution.modes.modes, ("tab:blue", "tab:orange"), strict=False)):
        for wxyz, position in list(solution.modes.draws(solution.draws, k))[:40]:
            x = solution.gauge.align(wxyz, position, mode.poses)[1]
            ax.plot(x[:, 0], x[:, 1], color=colour, alpha=0.12, lw=1)
        x = solution.gauge.align(mode.poses.wxyz, mode.poses.position, solution.estimate)[1]
        words = f"mode {k + 1}: {100 * mode.probability:.0f}% ± {100 * mode.error:.0f}"
        ax.plot(x[:, 0], x[:, 1], "o-", color=colour, ms=4, label=words)
    ax.set(aspect="equal", xlim=(-4.0, 9.0))
    figures.label(ax, "x", "y", "Draws of both modes, closure 175°")
    ax.legend(frameon=False, loc="upper right", fontsize=8)


def text(result: Result) -> str:
    """Odds by angle, and the root mean square of what is off."""
    lines = [["closure", "exact", "Gaussian", *RUNS]]
    for angle in dict.fromkeys(row["angle_deg"] for row in result.table):
        rows = [row for row in result.table if row["angle_deg"] == angle]
        drawn = [f"{row['found']:.3f} ± {row['error']:.3f}" for row in rows]
        lines.append([f"{angle:g}°", f"{rows[0]['exact']:.4f}", f"{rows[0]['gaussian']:.4f}", *drawn])
    off = np.sqrt(np.mean([row["z"] ** 2 for row in result.table]))
    told = f"root mean square of (found − exact) / standard error: {off:.2f} ({len(result.table)} runs)"
    return f"{text_table(lines)}\n{told}"


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
