"""Projected gradient descent against TG-MCMC as an optimiser (the paper's appendix, "Projected Gradient Descent")."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from tempose import paper
from tempose._support import streams
from tempose.dynamics.chain import GeodesicChain
from tempose.dynamics.descent import Watch
from tempose.methods import METHODS
from tempose.model.posterior import Posterior
from tempose.optimum.starts import random_poses
from tempose.solver import solve
from tempose.studies import figures, synthetic
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, over_seeds
from tempose.studies.store import Cell, Row
from tempose.studies.watched import (
    common_step,
    measured,
    paper_dynamics,
    paper_graph,
    watch,
)

DAMPING = {  # c h of each TG-MCMC; None is the paper's c = 1000
    "tg-mcmc": None,
    "tg-mcmc (low friction)": 0.05,
}
VALUES = {"excess": "U − U*", **synthetic.VALUES}
PANELS = ("excess", "mean_rotation_deg", "graph_consistency")


def recorded(steps: int) -> list[int]:
    """Steps at which the state is looked at: dense at first."""
    ladder = [0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300, 400, 500, 600, 700, 800]
    return [k for k in ladder if k <= steps]


def cells(options: RunOptions) -> list[Cell]:
    """Seeds × optimisers, each from the same random start with the same step."""
    nodes, steps = (synthetic.QUICK_NODES, 100) if options.quick else (synthetic.NODES, paper.STEPS)
    return [
        {"nodes": nodes, "completeness": 0.5, "steps": steps, "seed": seed, "method": method}
        for seed in options.seed_list(synthetic.SEEDS, synthetic.QUICK_SEEDS)
        for method in ("pgd", *DAMPING)
    ]


def run(cell: Cell) -> list[Row]:
    """One descent, watched."""
    data = paper_graph(cell["nodes"], cell["completeness"], cell["seed"])
    posterior = Posterior(data.graph)
    start = random_poses(data.graph, streams.generator(cell["seed"], "start"))
    step, wanted = common_step(posterior, start), recorded(cell["steps"])
    best = solve(data.graph, draws=0, analyse=False).potential
    seen = {0: start}
    if cell["method"] == "pgd":

        def hook(now: Watch) -> None:
            if now.step in wanted:
                seen[now.step] = now.poses

        METHODS["pgd"][0](data.graph, step=step, iterations=cell["steps"], tolerance=0.0, start=start, hook=hook)
    else:
        damping = DAMPING[cell["method"]]
        friction = paper.FRICTION if damping is None else damping / step
        chain = GeodesicChain(posterior, start, streams.key(cell["seed"], "optimise"))
        watch(chain, paper_dynamics(step, friction=friction), wanted, seen.__setitem__)
    rows = [{"iteration": k, "step": step, **measured(posterior, poses, data.truth)} for k, poses in seen.items()]
    return [{**row, "excess": row["potential"] - best} for row in rows]


def table(rows: list[Row]) -> list[Row]:
    """Means over the seeds by optimiser and iteration."""
    return over_seeds(rows, ("method", "iteration"), (*PANELS, "mean_translation", "step"))


def draw(result: Result, home: Path) -> list[Path]:
    """Energy, error, consistency against iterations."""
    figure, axes = figures.panels(3)
    for ax, value in zip(axes, PANELS, strict=True):
        figures.curves(ax, result.table, "iteration", value, marks=False)
        ax.set_xscale("symlog", linthresh=1)
        figures.label(ax, "iteration", VALUES[value], log_y=value != "graph_consistency")
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def lead(rows: list[Row]) -> tuple[float, float]:
    """How many times as far TG-MCMC is as projected descent after as many iterations, and what its friction predicts.

    Measured: three quarters of the way, where projected descent has reached some U, over the iteration at which TG-MCMC had
    it. Predicted: velocity that decays by ``e^(−ch)`` a step makes steps longer by ``1/(1 − e^(−ch))``. Means over the seeds.
    """
    measured_leads, predicted = [], []
    for seed in dict.fromkeys(row["seed"] for row in rows):
        paths = [[r for r in rows if r["seed"] == seed and r["method"] == method] for method in ("pgd", "tg-mcmc")]
        target = paths[0][3 * len(paths[0]) // 4]
        heights = [-math.log(max(r["excess"], 1e-300)) for r in paths[1]]  # rising, as interp needs
        reached = np.interp(-math.log(max(target["excess"], 1e-300)), heights, [r["iteration"] for r in paths[1]])
        measured_leads.append(target["iteration"] / reached)
        predicted.append(1.0 / (1.0 - math.exp(-paper.FRICTION * target["step"])))
    return float(np.mean(measured_leads)), float(np.mean(predicted))


def text(result: Result) -> str:
    """Energy and rotation error along the way, and how far apart the two are."""
    shown = [row for row in result.table if row["iteration"] in (0, 10, 50, 100, 200, 400, 800)]
    parts = [as_text(shown, "method", "iteration", value, VALUES[value]) for value in PANELS[:2]]
    found, predicted = lead(result.rows)
    parts.append(f"tg-mcmc is {found:.4f} times as far as pgd; longer steps 1/(1 − e^(−ch)) predict {predicted:.4f}")
    return "\n\n".join(parts)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
