"""Where the Gaussian approximation is wrong: coverage of its 95 % regions and of the sampler's, as the noise grows.

Sparse graphs (8 nodes on a random spanning tree with one loop), σ = 2° … 40° per axis. The Gaussian has the exact Hessian at
the optimum: it is the best a point estimate can offer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose.analysis.regions import squared_distance, squared_radius
from tempose.geometry import se3
from tempose.options import SolveOptions
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.calibration.fitting import FitRow, fit
from tempose.studies.calibration.harness import CHAINS
from tempose.studies.calibration.result import REGIONS, Calibration
from tempose.studies.calibration.settings import Setting, draw_case
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

SETTINGS = {noise: Setting(f"sparse, {noise:g}°", 8, 0.25, noise, 0.3) for noise in (2.0, 5.0, 10.0, 20.0, 30.0, 40.0)}
"""By noise in degrees."""
LEVEL = 0.95
EXAMPLE_DEG = 30.0
LOOKS = {
    "node": ("draws, every node", "#1f5fa8", "o-"),
    "pair": ("draws, unmeasured pairs", "#2e8b57", "s-"),
    "node, Gaussian": ("Gaussian, every node", "#1f5fa8", "o--"),
    "pair, Gaussian": ("Gaussian, unmeasured pairs", "#2e8b57", "s--"),
}


def cells(options: RunOptions) -> list[Cell]:
    """Noise × graphs; a graph is a number, the seed is that of all."""
    graphs = len(options.seed_list(100, 4))
    return [{"noise_deg": noise, "graph": k, "seed": options.seed} for noise in SETTINGS for k in range(graphs)]


def run(cell: Cell) -> list[Row]:
    """The ranks of one graph."""
    return [fit(SETTINGS[cell["noise_deg"]], cell["graph"], SolveOptions(chains=CHAINS), cell["seed"]).found()]


def table(rows: list[Row]) -> list[Row]:
    """Coverage of every region at every noise."""
    lines = []
    for noise in dict.fromkeys(row["noise_deg"] for row in rows):
        setting = SETTINGS[noise]
        found = tuple(FitRow.of_row(setting.name, row) for row in rows if row["noise_deg"] == noise)
        result = Calibration((setting,), found, {}, rows[0]["seed"])
        line: Row = {"noise_deg": noise, "graphs": len(found), "failed": sum(result.failures.values())}
        for region in REGIONS:
            covered = result.coverage(setting.name, region, LEVEL)
            line |= {region: covered.share, f"{region}_se": covered.error}
        lines.append(line)
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Coverage against the noise; the draws of a node's position at 30°, and the Gaussian's ellipse."""
    figure, (left, right) = figures.panels(2, width=5.0, height=4.2)
    noise = [line["noise_deg"] for line in result.table]
    for region, (words, colour, style) in LOOKS.items():
        shares = [100 * line[region] for line in result.table]
        bars = [200 * line[f"{region}_se"] for line in result.table]
        inner = "white" if "Gaussian" in region else colour
        left.errorbar(noise, shares, bars, fmt=style, color=colour, mfc=inner, ms=5, lw=1.2, capsize=2, label=words)
    left.axhline(100 * LEVEL, color="black", lw=1)
    left.set_ylim(0, 102)
    figures.label(left, "rotation noise per axis, degrees", "truths inside the 95 % region, %")
    left.legend(fontsize=8, loc="lower left")
    _draw_example(right, result.options.seed)
    return figures.save(figure, home)


def _draw_example(ax: Any, seed: int) -> None:
    """Where one node of one graph may be: draws, and the Gaussian's ellipse."""
    case = draw_case(SETTINGS[EXAMPLE_DEG], streams.generator(seed, "calibrate"))
    solution = solve(case.graph, draws=4000, seed=seed)
    assert solution.draws is not None and solution.laplace is not None
    ids, anchor = case.graph.node_ids, int(case.graph.anchors[0])
    widths = [float(np.trace(solution.laplace.relative(ids[anchor], name).covariance[3:5, 3:5])) for name in ids]
    node = int(np.argmax(widths))
    rows = np.concatenate([np.asarray(a[:, [anchor, node]]) for a in solution.draws.arrays])
    xy = se3.a_from_b((rows[:, 0, :4], rows[:, 0, 4:]), (rows[:, 1, :4], rows[:, 1, 4:]))[1][:, :2]
    found = solution.laplace.relative(ids[anchor], ids[node])
    mean, covariance = found.mean[1][:2], found.covariance[3:5, 3:5]
    limit = squared_radius(LEVEL, 2)
    share = np.mean(squared_distance(xy - mean, covariance) < limit)
    angle = np.linspace(0, 2 * np.pi, 200)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ np.linalg.cholesky(covariance).T
    true = case.truth
    truth = se3.a_from_b((true.wxyz[anchor], true.position[anchor]), (true.wxyz[node], true.position[node]))[1]
    ax.scatter(*xy.T, s=3, color="#8aa8cc", lw=0, label="draws")
    words = f"95 % ellipse of the Gaussian: holds {share:.0%} of them"
    ax.plot(*(mean + np.sqrt(limit) * ring).T, color="#b3261e", label=words)
    ax.plot(*mean, "+", color="#b3261e", ms=9, label="optimum")
    ax.plot(*truth[:2], "*", color="black", ms=10, label="truth")
    ax.set_aspect("equal", adjustable="datalim")
    figures.label(ax, "x", "y", f"position of node {ids[node]} seen from node {ids[anchor]}, σ = {EXAMPLE_DEG:g}°")
    ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False)


def text(result: Result) -> str:
    """Coverage of the 95 % regions in percent."""
    lines = [["inside 95% regions", *(words for words, _, _ in LOOKS.values())]]
    for line in result.table:
        shares = [f"{100 * line[region]:.1f} ± {100 * line[f'{region}_se']:.1f}" for region in LOOKS]
        lines.append([f"{line['noise_deg']:g}°", *shares])
    return text_table(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
