"""Which samplers pass simulation-based calibration? The right ones, the paper's, and one that is wrong on purpose.

One setting (6 nodes, 3° and 0.05 noise, flat priors), the same graphs for every sampler. "as printed" are the paper's own
numbers, β = 1000 and h = 0.001, which by its missing √h mean β = 1: the best case for it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tempose import paper
from tempose._support.tables import text_table
from tempose.options import SolveOptions
from tempose.sampling import Geodesic
from tempose.studies import figures
from tempose.studies.calibration.fitting import FitRow, fit
from tempose.studies.calibration.harness import CHAINS
from tempose.studies.calibration.result import FEWEST_GRAPHS, Calibration
from tempose.studies.calibration.settings import Setting
from tempose.studies.coverage import LEVELS, column
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

SETTING = Setting("control", 6, 0.5, 3.0, 0.05)
_PRINTED = Geodesic(scheme="boa", scheme_noise="paper")
_PAPER = replace(_PRINTED, step=paper.STEP[0], friction=paper.FRICTION, coordinates="paper", mass="identity", thin=100)
SAMPLERS: dict[str, dict[str, Any]] = {
    "auto": {},
    "geodesic-mh": {"sampler": "geodesic-mh"},
    "baoab": {"sampler": "geodesic"},
    "boa as printed": {"sampler": _PAPER, "beta": paper.BETA},
    "boa as printed, automatic step": {"sampler": _PRINTED},
    "auto at beta = 1.3": {"beta": 1.3},
}


def cells(options: RunOptions) -> list[Cell]:
    """Samplers × graphs; a graph is a number, the seed is that of all."""
    graphs = len(options.seed_list(40, FEWEST_GRAPHS))
    chosen = list(SAMPLERS)[:: len(SAMPLERS) - 1] if options.quick else SAMPLERS
    return [{"control": name, "graph": k, "seed": options.seed} for name in chosen for k in range(graphs)]


def run(cell: Cell) -> list[Row]:
    """The ranks of one graph under one sampler."""
    options = SolveOptions(chains=CHAINS, **SAMPLERS[cell["control"]])
    return [fit(SETTING, cell["graph"], options, cell["seed"]).found()]


def table(rows: list[Row]) -> list[Row]:
    """Verdict and coverage of every sampler."""
    lines = []
    for name in dict.fromkeys(row["control"] for row in rows):
        found = tuple(FitRow.of_row(SETTING.name, row) for row in rows if row["control"] == name)
        result = Calibration((SETTING,), found, {}, rows[0]["seed"])
        worst = result.worst()
        line: Row = {
            "control": name,
            "graphs": len(found),
            "calibrated": result.calibrated,
            "least_corrected_p": None if worst is None else worst.corrected,
            "worst": result.verdict if worst is None else worst.quantity,
            "finding": "" if worst is None or result.calibrated else worst.finding,
        }
        for level in LEVELS:
            covered = result.coverage(SETTING.name, "node", level)
            line |= {column("node", level): covered.share, f"{column('node', level)}_se": covered.error}
        lines.append(line)
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Coverage of the regions of nodes, by sampler."""
    figure, axes = figures.panels(1, width=5.5, height=3.8)
    figures.coverage_dots(axes[0], result.table, "control", "node", LEVELS)
    figures.label(axes[0], "", "true nodes inside the 50, 80 and 95 % regions")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """One line per sampler."""
    lines = [["sampler", "least corrected p", *(f"node {level:.0%}" for level in LEVELS), "worst quantity"]]
    for r in result.table:
        p = "–" if r["least_corrected_p"] is None else f"{r['least_corrected_p']:.1g}"
        shares = [f"{100 * r[c]:.1f} ± {100 * r[f'{c}_se']:.1f}" for c in (column("node", level) for level in LEVELS)]
        lines.append([r["control"], p, *shares, f"{r['worst']}: {r['finding']}" if r["finding"] else r["worst"]])
    return text_table(lines, left=(0, len(lines[0]) - 1))


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
