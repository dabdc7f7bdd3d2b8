"""How much the assumed concentration λ matters (the paper's appendix, "Hyper-parameter Selection")."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tempose import streams
from tempose.experiments import figures, synthetic
from tempose.experiments.base import Cell, Experiment, Result, Row, RunOptions, over_seeds
from tempose.experiments.descent import PAPER_STEPS, common_step, measured, paper_dynamics, paper_graph, watch
from tempose.inference.chain import GeodesicChain
from tempose.optimum.starts import random_poses
from tempose.posterior import Posterior
from tempose.solver import solve

METHODS = ("tg-mcmc", "tempose")
"""800 steps of the paper's optimiser from a random start, and the minimum of U: what it would reach in the end."""

LAMBDAS = (1.0, 3.0, 10.0, 30.0, 100.0, 350.0, 900.0, 3000.0, 10000.0)
QUICK_LAMBDAS = (10.0, 500.0)


def cells(options: RunOptions) -> list[Cell]:
    """Assumed λ × seeds × methods."""
    nodes, steps = (synthetic.QUICK_NODES, 200) if options.quick else (synthetic.NODES, PAPER_STEPS)
    return [
        {"data": "synthetic", "nodes": nodes, "steps": steps, "lambda": lam, "seed": seed, "method": method}
        for lam in (QUICK_LAMBDAS if options.quick else LAMBDAS)
        for seed in options.seed_list(synthetic.SEEDS, synthetic.QUICK_SEEDS)
        for method in METHODS
    ]


def run(cell: Cell) -> list[Row]:
    """Assume λ, whatever the truth, and estimate."""
    data = paper_graph(cell["nodes"], 0.5, cell["seed"])
    graph = replace(data.graph, concentration=np.asarray(cell["lambda"]))
    posterior = Posterior(graph)
    if cell["method"] == "tempose":
        poses = solve(graph, draws=0).estimate
    else:
        start = random_poses(graph, streams.generator(cell["seed"], "start"))
        chain = GeodesicChain(posterior, start, streams.key(cell["seed"], "optimise"))
        poses = watch(chain, paper_dynamics(common_step(posterior, start)), [cell["steps"]], lambda k, poses: None)
    return [measured(posterior, poses, data.truth)]


def table(rows: list[Row]) -> list[Row]:
    """Mean errors by λ and method."""
    return over_seeds(rows, ("data", "lambda", "method"), ("mean_rotation_deg", "mean_translation"))


def draw(result: Result, home: Path) -> list[Path]:
    """Rotation and translation errors against λ."""
    figure, axes = figures.panels(2)
    for ax, value in zip(axes, ("mean_rotation_deg", "mean_translation"), strict=True):
        figures.curves(ax, result.table, "lambda", value)
        figures.label(ax, "assumed λ", synthetic.VALUES[value], log_x=True, log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


EXPERIMENT = Experiment(cells, run, table, draw, methods=False)
