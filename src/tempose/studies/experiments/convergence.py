"""The error while TG-MCMC optimises, and then samples (the paper's Figure 2e)."""

from __future__ import annotations

from pathlib import Path

from tempose import paper
from tempose._support import streams
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.starts import random_poses
from tempose.sampling.tuning import tune
from tempose.solver import solve
from tempose.studies import figures, synthetic
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, over_seeds
from tempose.studies.store import Cell, Row
from tempose.studies.watched import common_step, measured, paper_dynamics, paper_graph, watch

SAMPLERS = ("tg-mcmc as printed", "tempose")
"""How the second half draws: BOA with the printed noise at β = 1000, or BAOAB with the exact one at β = 1."""

VALUES = {"excess": "U − U*", **synthetic.VALUES}
PANELS = ("mean_rotation_deg", "mean_translation", "excess")
_EVERY = 20  # steps


def cells(options: RunOptions) -> list[Cell]:
    """Seeds × samplers."""
    nodes, steps = (synthetic.QUICK_NODES, 200) if options.quick else (synthetic.NODES, paper.STEPS)
    return [
        {"nodes": nodes, "completeness": 0.5, "steps": steps, "seed": seed, "method": method}
        for seed in options.seed_list(synthetic.SEEDS, synthetic.QUICK_SEEDS)
        for method in SAMPLERS
    ]


def run(cell: Cell) -> list[Row]:
    """Optimise from a random start, then sample for as many steps from where that ended."""
    data = paper_graph(cell["nodes"], cell["completeness"], cell["seed"])
    posterior = Posterior(data.graph)
    start = random_poses(data.graph, streams.generator(cell["seed"], "start"))
    best, step = solve(data.graph, draws=0, analyse=False).potential, common_step(posterior, start)
    rows: list[Row] = []

    def see_from(first: int, phase: str, iteration: int, poses: Poses) -> None:
        row = measured(posterior, poses, data.truth)
        rows.append({"phase": phase, "iteration": first + iteration, **row, "excess": row["potential"] - best})

    chain = GeodesicChain(posterior, start, streams.key(cell["seed"], "optimise"))
    marks = range(0, cell["steps"] + 1, _EVERY)
    end = watch(chain, paper_dynamics(step), marks, lambda k, poses: see_from(0, "optimise", k, poses))
    key = streams.key(cell["seed"], "chain")
    if cell["method"] == "tempose":
        tuning = tune(Curvature(posterior), end)
        chain = GeodesicChain(posterior, end, key, tuning.inverse_mass)
        dynamics = Dynamics(Scheme("baoab"), tuning.step, tuning.friction, 1.0)
    else:
        chain, dynamics = GeodesicChain(posterior, end, key), paper_dynamics(step, beta=paper.BETA)
    watch(chain, dynamics, marks[1:], lambda k, poses: see_from(cell["steps"], "sample", k, poses))
    return rows


def table(rows: list[Row]) -> list[Row]:
    """Means over the seeds by sampler and step."""
    return over_seeds(rows, ("method", "phase", "iteration"), PANELS)


def draw(result: Result, home: Path) -> list[Path]:
    """Errors against steps, with a line where sampling begins; the energy of what is sampled."""
    figure, axes = figures.panels(3)
    cell, sampled = result.rows[0], [row for row in result.table if row["phase"] == "sample"]
    for ax, value in zip(axes[:2], PANELS, strict=False):
        figures.curves(ax, result.table, "iteration", value, marks=False)
        ax.axvline(cell["steps"], color="#9aa1ad", linewidth=1.0, linestyle=":")
        figures.label(ax, "step: optimising, then sampling", VALUES[value], log_y=True)
    figures.curves(axes[2], sampled, "iteration", "excess", marks=False)
    expected = (6 * cell["nodes"] - 6) / 2.0
    axes[2].axhline(expected, color="black", linewidth=1.0, linestyle=":", label="exact: (6n − 6)/2")
    axes[2].set_ylim(0.0, None)
    figures.label(axes[2], "step: sampling", VALUES["excess"])
    figures.legend(figure, axes[2])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Errors and energy at the start, at the end of the optimisation, and of sampling."""
    steps = result.rows[0]["steps"]
    shown = [row for row in result.table if row["iteration"] in (0, steps // 2, steps, 2 * steps)]
    return "\n\n".join(as_text(shown, "method", "iteration", value, VALUES[value]) for value in PANELS)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
