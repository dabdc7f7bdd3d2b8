"""Which TG-MCMC schemes sample the right distribution: ⟨U⟩ − U* on graphs of 8 nodes and 22 edges.

With flat priors the exact value is ``(6n − 6)/(2β) = 21.0`` at β = 1, up to the square of the noise. Every scheme runs at
three settings of friction c and step h, on several graphs drawn alike; biased schemes depend on the graph, right ones do not.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.linear_theory import small_graph, squared_frequencies, stationary_mean
from tempose.studies.store import Cell, Row

SETTINGS = ((1000.0, 0.001), (1000.0, 0.003), (10.0, 0.003))
"""Friction c and step h."""
SCHEMES: dict[str, tuple[Scheme, float, tuple[float | None, ...]]] = {
    "BOA, noise as printed": (Scheme("boa", "paper"), 1.0, (32016.0, 26027.0, 8337.0)),
    "the same, β = 1000": (Scheme("boa", "paper"), 1000.0, (None, None, None)),
    "BOA, noise √(2ch/β)": (Scheme("boa", "euler"), 1.0, (33.4, 69.1, 22.3)),
    "BOA, exact OU": (Scheme("boa", "exact"), 1.0, (14.5, 11.4, 21.5)),
    "BAOAB, exact OU": (Scheme("baoab", "exact"), 1.0, (21.1, 21.1, 21.1)),
}
"""Scheme, β, and an independent measurement at each setting on another such graph."""
VARIANTS = {
    "paper's coordinates": ("paper", 0),
    "world positions": ("position", 0),
    "world positions, 22 edges per gradient": ("position", 22),
}
"""Coordinates, and edges per stochastic gradient (0: all)."""
STOCHASTIC_GRAPHS = 2
BATCHES = 30  # of a chain, for its Monte Carlo error
EXACT = 21.0


def cells(options: RunOptions) -> list[Cell]:
    """Variants × graphs × schemes × settings."""
    seeds, steps = options.seed_list(5, 2), 30_000 if options.quick else 300_000
    return [
        {"variant": variant, "seed": seed, "scheme": scheme, "friction": friction, "step": step, "steps": steps}
        for variant in list(VARIANTS)[: 1 if options.quick else None]
        for seed in (seeds[:STOCHASTIC_GRAPHS] if VARIANTS[variant][1] else seeds)
        for scheme in SCHEMES
        for friction, step in SETTINGS
    ]


def run(cell: Cell) -> list[Row]:
    """⟨U⟩ − U* over one chain that starts at the optimum, its first tenth left out, and the error by batch means."""
    posterior, curvature, minimum = small_graph(cell["seed"])
    (coordinates, batch), (scheme, beta, _) = VARIANTS[cell["variant"]], SCHEMES[cell["scheme"]]
    friction, step, steps = cell["friction"], cell["step"], cell["steps"]
    number = list(SCHEMES).index(cell["scheme"]) * len(SETTINGS) + SETTINGS.index((friction, step))
    chain = GeodesicChain(posterior, minimum.poses, streams.key(cell["seed"], "chain", number))
    dynamics = Dynamics(scheme, step, friction, beta, coordinates, batch)
    energy = chain.run(dynamics, steps)[steps // 10 :] - minimum.potential
    batches = energy[: len(energy) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
    return [
        {
            "excess": float(energy.mean()),
            "error": float(batches.std(ddof=1) / math.sqrt(BATCHES)),
            "linear": stationary_mean(scheme, step, friction, beta, squared_frequencies(curvature, minimum)),
        }
    ]


def table(rows: list[Row]) -> list[Row]:
    """Mean over the graphs, its Monte Carlo error, the spread between graphs; linear theory and reference."""
    groups: dict[tuple[str, str, float, float], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["variant"], row["scheme"], row["friction"], row["step"]), []).append(row)
    lines = []
    for (variant, scheme, friction, step), found in groups.items():
        value, error, linear = (np.array([row[name] for row in found]) for name in ("excess", "error", "linear"))
        lines.append(
            {
                "variant": variant,
                "scheme": scheme,
                "friction": friction,
                "step": step,
                "graphs": len(found),
                "excess": float(value.mean()),
                "error": float(np.sqrt((error**2).sum()) / len(found)),
                "spread": float(value.std(ddof=1)) if len(found) > 1 else 0.0,
                "linear": float(linear.mean()),
                "reference": SCHEMES[scheme][2][SETTINGS.index((friction, step))],
            }
        )
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """⟨U⟩ − U* over what it should be, one panel per setting: circles measured, bars linear theory."""
    figure, axes = figures.panels(len(SETTINGS), width=3.6, height=2.6)
    colours = dict(zip(VARIANTS, ("#1f77b4", "#2ca02c", "#d62728"), strict=True))
    for ax, (friction, step) in zip(axes, SETTINGS, strict=True):
        for row in result.table:
            if (row["friction"], row["step"]) == (friction, step):
                place, right = list(SCHEMES).index(row["scheme"]), EXACT / SCHEMES[row["scheme"]][1]
                ax.plot(row["linear"] / right, place, "|", color="black", markersize=12)
                first = place == 0
                name = row["variant"] if first else None
                ax.plot(row["excess"] / right, place, "o", color=colours[row["variant"]], ms=4, mfc="none", label=name)
        ax.set_yticks(range(len(SCHEMES)), list(SCHEMES) if ax is axes[0] else [""] * len(SCHEMES), fontsize=8)
        ax.invert_yaxis()
        figures.label(ax, "(⟨U⟩ − U*) / exact", "", f"c = {friction:g}, h = {step:g}", log_x=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """One table per variant."""
    return "\n\n".join(_variant(result, name) for name in VARIANTS if any(r["variant"] == name for r in result.table))


def _variant(result: Result, variant: str) -> str:
    rows = [row for row in result.table if row["variant"] == variant]
    lines = [[f"⟨U⟩ − U*, {variant}", *(f"c = {c:g}, h = {h:g}" for c, h in SETTINGS)]]
    for scheme in SCHEMES:
        lines.append([scheme, *(_measured(row) for row in rows if row["scheme"] == scheme)])
    told = "mean ± Monte Carlo error [spread between graphs]; linear theory; reference. Exact: 21.0 at β = 1"
    return f"{text_table(lines)}\n{told}"


def _measured(row: Row) -> str:
    size = abs(row["excess"])
    d = 0 if size >= 1000.0 else 1 if size >= 100.0 else 2
    known = "–" if row["reference"] is None else f"{row['reference']:g}"
    found = f"{row['excess']:.{d}f} ± {row['error']:.{d}f} [{row['spread']:.{d}f}]"
    return f"{found}; {row['linear']:.{max(d - 1, 0)}f}; {known}"


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
