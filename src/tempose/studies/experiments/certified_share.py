"""How often does a random start end at the proven optimum? With Newton alone, and with the Riemannian staircase.

From a good (chordal) start the same is shown once per graph. Where all shares are zero, the relaxation behind the
certificate is not tight at that noise: there is then no proof to be had this way, for any poses.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from tempose._support.tables import text_table
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.proof import solve_to_certificate
from tempose.optimum.starts import start_poses
from tempose.simulation import simulate
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

SHAPES = ("sphere", "torus")
NOISE_DEG = (5.0, 10.0, 15.0, 20.0)
SHARES = {"newton": "Newton alone", "staircase": "with staircase", "chordal": "chordal start, alone"}


def cells(options: RunOptions) -> list[Cell]:
    """Shapes × noise × graphs."""
    nodes, starts = (40, 2) if options.quick else (100, 5)
    return [
        {"shape": shape, "noise_deg": noise, "nodes": nodes, "starts": starts, "seed": seed}
        for shape, noise in itertools.product(SHAPES, NOISE_DEG)
        for seed in options.seed_list(4, 1)
    ]


def run(cell: Cell) -> list[Row]:
    """How many starts on one graph end in a proof."""
    graph = simulate(
        cell["nodes"],
        shape=cell["shape"],
        completeness=1.0,
        sigma_rot_deg=cell["noise_deg"],
        sigma_trans=0.1,
        seed=cell["seed"],
    ).graph
    posterior = Posterior(graph)
    curvature = Curvature(posterior)

    def proved(start: str, number: int, max_rank: int | None = None) -> bool:
        first = start_poses(graph, start, np.random.default_rng(number))
        highest = {} if max_rank is None else {"max_rank": max_rank}
        return solve_to_certificate(posterior, first, curvature=curvature, **highest).certificate.certified is True

    alone = [proved("random", k, 3) for k in range(cell["starts"])]
    climbed = [done or proved("random", k) for k, done in enumerate(alone)]
    return [{"newton": sum(alone), "staircase": sum(climbed), "chordal": int(proved("chordal", 0, 3))}]


def table(rows: list[Row]) -> list[Row]:
    """Proofs, and starts, by shape and noise."""
    lines = []
    for shape, noise in dict.fromkeys((row["shape"], row["noise_deg"]) for row in rows):
        here = [row for row in rows if (row["shape"], row["noise_deg"]) == (shape, noise)]
        line: Row = {"shape": shape, "noise_deg": noise, **{name: sum(row[name] for row in here) for name in SHARES}}
        lines.append({**line, "starts": sum(row["starts"] for row in here), "graphs": len(here)})
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Shares against the noise, one panel per shape."""
    figure, axes = figures.panels(len(SHAPES))
    for ax, shape in zip(axes, SHAPES, strict=True):
        lines = [line for line in result.table if line["shape"] == shape]
        for (name, words), marker in zip(SHARES.items(), "os^", strict=True):
            count = "graphs" if name == "chordal" else "starts"
            ax.plot(
                [r["noise_deg"] for r in lines], [r[name] / r[count] for r in lines], f"{marker}-", ms=4, label=words
            )
        ax.set_ylim(-0.04, 1.04)
        figures.label(ax, "rotation noise, degrees", "share that ends in a proof", shape)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Proofs of all starts."""
    lines = [["shape", "rotation noise", *SHARES.values()]]
    for r in result.table:
        counts = [f"{r[name]}/{r['graphs' if name == 'chordal' else 'starts']}" for name in SHARES]
        lines.append([r["shape"], f"{r['noise_deg']:g}°", *counts])
    return text_table(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
