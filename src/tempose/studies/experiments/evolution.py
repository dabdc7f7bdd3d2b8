"""The pose graph from a random start to the solution (the paper's appendix, "Graph Evolution")."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support import streams
from tempose.dynamics.chain import GeodesicChain
from tempose.geometry import align
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.starts import random_poses
from tempose.simulation import Simulated, simulate
from tempose.simulation.graphs import measure
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row
from tempose.studies.watched import common_step, measured, paper_dynamics, watch

FRAMES = (0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 140, 160, 180, 200, 250, 300, 350, 400, 500, 600, 700, 800)
STRIP = (0, 30, 60, 100, 200, 800)
NEAR = 1.2  # cameras whose directions from the object are nearer than this (radians) see the same side of it
SIGMA_ROT_DEG, SIGMA_TRANS = 3.6, 0.17  # the paper's λ ≈ 500, σ² ≈ 0.03


def cameras(nodes: int, seed: int) -> Simulated:
    """Cameras around an object, each measured against those that see the same side of it."""
    truth = simulate(nodes, shape="sphere", seed=seed).truth
    side = truth.position / np.linalg.norm(truth.position, axis=1, keepdims=True)
    i, j = np.triu_indices(nodes, 1)
    pairs = np.stack([i, j], axis=1)[np.arccos(np.clip(np.sum(side[i] * side[j], axis=1), -1.0, 1.0)) < NEAR]
    graph = measure(truth, pairs, np.radians(SIGMA_ROT_DEG), SIGMA_TRANS, streams.generator(seed, "simulate", 1))
    return Simulated(graph, truth)


def cells(options: RunOptions) -> list[Cell]:
    """One run."""
    return [{"nodes": 20 if options.quick else 60, "steps": 200 if options.quick else 800, "seed": options.seed}]


def run(cell: Cell) -> list[Row]:
    """Positions of all nodes at every frame, aligned to the truth."""
    data = cameras(cell["nodes"], cell["seed"])
    posterior = Posterior(data.graph)
    start = random_poses(data.graph, streams.generator(cell["seed"], "start"))
    rows: list[Row] = []

    def see(iteration: int, poses: Poses) -> None:
        truth = data.truth
        fit = align((poses.wxyz, poses.position), (truth.wxyz, truth.position), "se3")
        moved, numbers = poses.moved(fit), measured(posterior, poses, truth)
        rows.extend(
            {"iteration": iteration, "node": k, **numbers, **dict(zip("xyz", at.tolist(), strict=True))}
            for k, at in enumerate(moved.position)
        )

    chain = GeodesicChain(posterior, start, streams.key(cell["seed"], "optimise"))
    step = common_step(posterior, start)
    watch(chain, paper_dynamics(step), [k for k in FRAMES if k <= cell["steps"]], see)
    return rows


def table(rows: list[Row]) -> list[Row]:
    """Energy and errors at every frame."""
    wanted = ("iteration", "potential", "mean_rotation_deg", "mean_translation", "graph_consistency")
    return [{name: row[name] for name in wanted} for row in rows if row["node"] == 0]


def draw(result: Result, home: Path) -> list[Path]:
    """A strip of six frames, and all of them as an animation."""
    from matplotlib.animation import FuncAnimation, PillowWriter

    cell = result.rows[0]
    data = cameras(cell["nodes"], cell["seed"])
    frames = {row["iteration"]: row for row in result.table}
    strip = [k for k in STRIP if k in frames]
    figure = figures.blank(2.2 * len(strip), 2.4)
    for k, iteration in enumerate(strip):
        _frame(figure.add_subplot(1, len(strip), k + 1, projection="3d"), result, data, frames[iteration])
    written = figures.save(figure, home, dpi=75)

    figure = figures.blank(3.6, 3.8)
    ax = figure.add_subplot(projection="3d")

    def show(iteration: int) -> None:
        ax.clear()
        _frame(ax, result, data, frames[iteration])

    order = [*frames, *[max(frames)] * 8]  # rest at the end
    FuncAnimation(figure, show, frames=order).save(home / "evolution.gif", PillowWriter(fps=5), dpi=70)
    return [*written, home / "evolution.gif"]


def _frame(ax: Any, result: Result, data: Simulated, line: Row) -> None:
    """Nodes and edges at one iteration, with the true positions as rings."""
    at = np.array([[r["x"], r["y"], r["z"]] for r in result.rows if r["iteration"] == line["iteration"]])
    true = data.truth.position
    lines = at[np.stack([data.graph.edge_i, data.graph.edge_j], axis=1)]
    ax.add_collection3d(
        import_module("mpl_toolkits.mplot3d.art3d").Line3DCollection(lines, colors="#b9c2d0", linewidths=0.3)
    )
    ax.scatter(*true.T, s=16, facecolors="none", edgecolors="#59a14f", linewidths=0.7, depthshade=False)
    ax.scatter(*at.T, s=9, c=np.arange(len(at)), cmap="plasma", depthshade=False)
    reach = 1.3 * float(np.abs(true).max())
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), zlim=(-reach, reach))
    ax.set_box_aspect((1, 1, 1), zoom=1.6)
    ax.set_axis_off()
    ax.set_title(f"step {line['iteration']}: {line['mean_rotation_deg']:.3g}°", fontsize=9)


def text(result: Result) -> str:
    """The frames of the strip."""
    return "\n".join(
        f"step {line['iteration']}: U {line['potential']:.4g}, {line['mean_rotation_deg']:.3g}°, {line['mean_translation']:.3g}"
        for line in result.table
        if line["iteration"] in STRIP
    )


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
