"""How much the assumed concentration λ matters (the paper's appendix, "Hyper-parameter Selection")."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tempose import paper
from tempose._support import streams
from tempose.dynamics.chain import GeodesicChain
from tempose.io import ReadOptions, epfl_rotations
from tempose.model.posterior import Posterior
from tempose.optimum.starts import random_poses
from tempose.simulation import Simulated
from tempose.solver import solve
from tempose.studies import figures, synthetic
from tempose.studies.experiment import DataMissing, Experiment, Result, RunOptions, as_text, data_folder, over_seeds
from tempose.studies.store import Cell, Row
from tempose.studies.watched import common_step, measured, paper_dynamics, paper_graph, watch

METHODS = ("tg-mcmc", "tempose")
"""800 steps of the paper's optimiser from a random start, and the minimum of U: what it would reach in the end."""

ERRORS = ("mean_rotation_deg", "mean_translation")
LAMBDAS = (1.0, 3.0, 10.0, 30.0, 100.0, 350.0, 900.0, 3000.0, 10000.0)
QUICK_LAMBDAS = (10.0, 500.0)
SCENES, QUICK_SCENES = (
    ("HerzJesuP8", "HerzJesuP25", "FountainP11", "EntryP10", "CastleP19", "CastleP30"),
    ("FountainP11",),
)
"""Real rotations; they have no translations."""


def cells(options: RunOptions) -> list[Cell]:
    """Data × assumed λ × seeds × methods; a seed is that of the synthetic graph, and of the random start."""
    nodes, steps = (synthetic.QUICK_NODES, 200) if options.quick else (synthetic.NODES, paper.STEPS)
    seeds = options.seed_list(synthetic.SEEDS, synthetic.QUICK_SEEDS)
    missing: list[Cell] = []
    scenes: tuple[str, ...] = QUICK_SCENES if options.quick else SCENES
    try:
        data_folder("epfl_rotations")
    except DataMissing as why:
        missing, scenes = [{"data": "EPFL", "lambda": None, "method": "all", "why": str(why)}], ()
    return [
        {"data": data, "nodes": nodes, "steps": steps, "lambda": lam, "seed": seed, "method": method}
        for data in ("synthetic", *scenes)
        for lam in (QUICK_LAMBDAS if options.quick else LAMBDAS)
        for seed in seeds
        for method in METHODS
        if data == "synthetic" or method != "tempose" or seed == seeds[0]  # it starts at no random place
    ] + missing


def run(cell: Cell) -> list[Row]:
    """Assume λ, whatever the truth, and estimate."""
    if "why" in cell:
        return [{"status": "left out", "message": cell["why"]}]
    data = paper_graph(cell["nodes"], 0.5, cell["seed"]) if cell["data"] == "synthetic" else scene(cell["data"])
    graph = replace(data.graph, concentration=np.asarray(cell["lambda"]))
    posterior = Posterior(graph)
    if cell["method"] == "tempose":
        poses = solve(graph, draws=0, analyse=False).estimate
    else:
        start = random_poses(graph, streams.generator(cell["seed"], "start"))
        chain = GeodesicChain(posterior, start, streams.key(cell["seed"], "optimise"))
        poses = watch(chain, paper_dynamics(common_step(posterior, start)), [cell["steps"]], lambda k, poses: None)
    return [measured(posterior, poses, data.truth)]


def scene(name: str) -> Simulated:
    """Measured and true rotations of an EPFL scene."""
    path = data_folder("epfl_rotations") / name
    # any σ will do: λ is replaced
    return Simulated(epfl_rotations.read_graph(path, ReadOptions(sigma_rot_deg=1.0)), epfl_rotations.read_poses(path))


def table(rows: list[Row]) -> list[Row]:
    """Mean errors by λ and method."""
    return over_seeds(rows, ("data", "lambda", "method"), ERRORS)


def draw(result: Result, home: Path) -> list[Path]:
    """Rotation and translation errors of synthetic graphs, rotation errors of real ones, against λ."""
    made = [row for row in result.table if row["data"] == "synthetic"]
    real = [row for row in result.table if row["data"] not in ("synthetic", "EPFL") and row["method"] == "tg-mcmc"]
    figure, axes = figures.panels(3 if real else 2)
    for ax, value in zip(axes, ERRORS, strict=False):
        figures.curves(ax, made, "lambda", value)
        figures.label(ax, "assumed λ", synthetic.VALUES[value], "synthetic", log_x=True, log_y=True)
    axes[0].legend(fontsize=8, frameon=False)
    if real:
        figures.curves(axes[2], real, "lambda", "mean_rotation_deg", by="data")
        label = synthetic.VALUES["mean_rotation_deg"]
        figures.label(axes[2], "assumed λ", label, "EPFL scenes, tg-mcmc", log_x=True, log_y=True)
        axes[2].legend(fontsize=8, frameon=False)
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Errors by λ, one table per value."""
    made = [row for row in result.table if row["data"] == "synthetic"]
    real = [row for row in result.table if row["data"] not in ("synthetic", "EPFL") and row["method"] == "tg-mcmc"]
    parts = [as_text(made, "method", "lambda", value, synthetic.VALUES[value]) for value in ERRORS]
    parts += [as_text(real, "data", "lambda", ERRORS[0], "tg-mcmc, " + synthetic.VALUES[ERRORS[0]])] if real else []
    return "\n\n".join(parts)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
