"""A tempered mixture of two Gaussians (the paper's appendix, "Illustration of tempered posteriors")."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._typing import Array
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

WEIGHTS, MEANS, SIGMA = (0.7, 0.3), (-1.3, 1.3), 0.7  # the paper prints a picture, not the numbers
ANNEALING = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 12.0)  # before the last β
STEP, FRICTION = 0.1, 1.0
EDGES = np.linspace(-4.0, 4.0, 81)
GRID = np.linspace(-8.0, 8.0, 16001)


def potential(x: Array) -> Array:
    """U = −log density of the mixture."""
    return -np.log(sum(w * np.exp(-0.5 * ((x - m) / SIGMA) ** 2) for w, m in zip(WEIGHTS, MEANS, strict=True)))


def slope(x: Array) -> Array:
    """dU/dx."""
    parts = np.stack([w * np.exp(-0.5 * ((x - m) / SIGMA) ** 2) for w, m in zip(WEIGHTS, MEANS, strict=True)])
    pull = np.stack([(x - m) / SIGMA**2 for m in MEANS])
    return np.asarray(np.sum(parts * pull, axis=0) / np.sum(parts, axis=0))


def density(x: Array, beta: float) -> Array:
    """Normalised ``exp(−βU)``, by quadrature."""
    lowest = potential(GRID).min()
    constant = np.trapezoid(np.exp(-beta * (potential(GRID) - lowest)), GRID)
    return np.asarray(np.exp(-beta * (potential(x) - lowest)) / constant)


def right_share(beta: float) -> float:
    """Probability of the right half under ``exp(−βU)``."""
    right = GRID[GRID >= 0.0]
    return float(np.trapezoid(density(right, beta), right))


def langevin(x: Array, beta: float, steps: int, rng: np.random.Generator) -> Array:
    """Walkers moved by BAOAB, the package's exact scheme, on the line."""
    v = rng.standard_normal(x.shape) / math.sqrt(beta)
    keep = math.exp(-FRICTION * STEP)
    noise = math.sqrt((1.0 - keep * keep) / beta)
    pull = slope(x)
    for _ in range(steps):
        v -= 0.5 * STEP * pull
        x = x + 0.5 * STEP * v
        v = keep * v + noise * rng.standard_normal(x.shape)
        x = x + 0.5 * STEP * v
        pull = slope(x)
        v -= 0.5 * STEP * pull
    return x


def cells(options: RunOptions) -> list[Cell]:
    """β with and without annealing."""
    walkers, steps = (2000, 300) if options.quick else (5000, 1000)
    size = {"walkers": walkers, "steps": steps, "seed": options.seed}
    return [
        {"beta": beta, "annealed": annealed, **size} for beta, annealed in ((1.0, False), (20.0, False), (20.0, True))
    ]


def run(cell: Cell) -> list[Row]:
    """Walkers from a broad start, to a histogram."""
    rng = streams.generator(cell["seed"], "chain")
    x: Array = rng.uniform(-3.0, 3.0, int(cell["walkers"]))
    for beta in (*ANNEALING, cell["beta"]) if cell["annealed"] else (cell["beta"],):
        x = langevin(x, beta, cell["steps"], rng)
    counts, _ = np.histogram(x, EDGES)
    share = float(np.mean(x >= 0.0))
    middle = 0.5 * (EDGES[:-1] + EDGES[1:])
    height = counts / (len(x) * np.diff(EDGES))
    exact = density(middle, cell["beta"])
    return [
        {"x": a, "drawn": b, "exact": c, "right_drawn": share} for a, b, c in zip(middle, height, exact, strict=True)
    ]


def table(rows: list[Row]) -> list[Row]:
    """Probability of the right mode, exact and drawn, for each run."""
    lines = {}
    for row in rows:
        drawn, walkers = row["right_drawn"], row["walkers"]
        lines[row["beta"], row["annealed"]] = {
            "beta": row["beta"],
            "annealed": row["annealed"],
            "right_exact": right_share(row["beta"]),
            "right_drawn": drawn,
            "right_drawn_se": math.sqrt(drawn * (1.0 - drawn) / walkers),
        }
    return list(lines.values())


def draw(result: Result, home: Path) -> list[Path]:
    """Exact density and histogram, one panel per run."""
    figure, axes = figures.panels(3, width=3.3, height=2.7)
    for ax, line in zip(axes, result.table, strict=True):
        rows = [row for row in result.rows if (row["beta"], row["annealed"]) == (line["beta"], line["annealed"])]
        x = [row["x"] for row in rows]
        ax.bar(x, [row["drawn"] for row in rows], width=EDGES[1] - EDGES[0], color="#9fb6d6", label="drawn")
        fine = np.linspace(EDGES[0], EDGES[-1], 801)
        ax.plot(fine, density(fine, line["beta"]), color="#d62728", linewidth=1.4, label="exact")
        how = "β raised from 1 to" if line["annealed"] else "β ="
        figures.label(ax, "x", "density", f"{how} {line['beta']:g}")
    axes[0].legend(fontsize=8, frameon=False)
    return figures.save(figure, home)


def text(result: Result) -> str:
    """The share of the right mode, exact and drawn."""
    return "\n".join(
        f"β = {line['beta']:g}{' (raised from 1)' if line['annealed'] else ''}: right mode {line['right_exact']:.3g} exact, "
        f"{line['right_drawn']:.3g}±{line['right_drawn_se']:.1g} drawn"
        for line in result.table
    )


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
