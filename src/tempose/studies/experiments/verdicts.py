"""How often the verdict on a result is right: of those to trust, 95 % of the true relative poses lie inside their 95 % regions.

Small simulated worlds of many kinds, solved as a person would: at first without any option, then with what the verdict advises.
A result misleads if fewer than :data:`HELD` of the truths of its graph lie inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support import streams
from tempose._support.plain import plain
from tempose._support.tables import text_table
from tempose.analysis.regions import inside, squared_distance
from tempose.analysis.trust import Trust
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.outliers.options import Robust
from tempose.simulation import Simulated, simulate
from tempose.simulation.wrong import is_odometry
from tempose.solution import Solution
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

LEVEL = 0.95
HELD = 0.8  # share of the truths of a graph; with all in order nineteen of twenty, but they are not independent
PAIRS = 30
_LOOP: dict[str, Any] = {"shape": "manhattan", "loop_reach": 3.0}


def _stated(factor: float) -> Callable[[PoseGraph, int], PoseGraph]:
    """σ of all edges stated ``factor`` times as large as it is."""

    def changed(graph: PoseGraph, seed: int) -> PoseGraph:
        return replace(
            graph,
            concentration=graph.concentration / factor**2,
            translation_precision=graph.translation_precision / factor**2,
        )

    return changed


def _biased(graph: PoseGraph, seed: int) -> PoseGraph:
    """Every motion between consecutive nodes turned the same way by one σ about z: errors that add up along the chain."""
    turn = np.array([0.0, 0.0, graph.median_sigmas[0]])
    links = np.flatnonzero(is_odometry(graph))
    later = np.where(graph.edge_i[links] > graph.edge_j[links], 1.0, -1.0)
    wxyz = graph.j_from_i_wxyz.copy()
    wxyz[links] = quat.multiply(quat.exp(later[:, None] * turn), wxyz[links])
    return replace(graph, j_from_i_wxyz=wxyz)


def _as_it_is(graph: PoseGraph, seed: int) -> PoseGraph:
    return graph


WORLDS: dict[str, tuple[Mapping[str, Any], Callable[[PoseGraph, int], PoseGraph]]] = {
    "plain": ({"completeness": 0.3}, _as_it_is),
    "plain, planar": ({"planar": True, **_LOOP}, _as_it_is),
    "plain, a path": (_LOOP, _as_it_is),
    "σ stated a third": ({"completeness": 0.3}, _stated(1.0 / 3.0)),
    "σ stated 0.75 times": ({"completeness": 0.3}, _stated(0.75)),
    "σ stated 3 times": ({"completeness": 0.3}, _stated(3.0)),
    "one edge in ten wrong": ({"completeness": 0.3, "wrong_edges": 0.1}, _as_it_is),
    "one loop in four wrong": ({**_LOOP, "planar": True, "wrong_loops": 0.25}, _as_it_is),
    "two look-alike places": ({**_LOOP, "aliases": 2, "alias_nodes": 4}, _as_it_is),
    "odometry turns one way": ({**_LOOP, "planar": True}, _biased),
}
"""By name: what is simulated, and what is done to it."""

HOW: dict[str, dict[str, Any]] = {
    "no option": {},
    "--noise auto": {"noise": "auto"},
    "--robust": {"robust": Robust()},
    "--robust --noise auto": {"robust": Robust(), "noise": "auto"},
}
"""By the words of the command line: options of the solve."""
_ASKED = {
    "plain": list(HOW),
    "plain, planar": ["no option", "--noise auto"],
    "plain, a path": ["no option", "--noise auto"],
    "σ stated a third": ["no option", "--noise auto"],
    "σ stated 0.75 times": ["no option", "--noise auto"],
    "σ stated 3 times": ["no option", "--noise auto"],
    "one edge in ten wrong": ["no option", "--robust", "--robust --noise auto"],
    "one loop in four wrong": ["no option", "--robust", "--robust --noise auto"],
    "two look-alike places": ["no option", "--robust --noise auto"],
    "odometry turns one way": ["no option", "--noise auto"],
}


def cells(options: RunOptions) -> list[Cell]:
    """Worlds × ways to solve × seeds; seeds of the graphs are far from those that constants were chosen on."""
    return [
        {"world": world, "how": how, "nodes": 25 if options.quick else 40, "seed": seed}
        for world, asked in _ASKED.items()
        for how in asked
        for seed in options.seed_list(20, 1)
    ]


def made(cell: Cell) -> tuple[PoseGraph, Simulated]:
    """The graph of a cell, and what it was made from."""
    how, change = WORLDS[cell["world"]]
    found = simulate(cell["nodes"], sigma_rot_deg=2.0, sigma_trans=0.05, seed=190_000 + cell["seed"], **how)
    return change(found.graph, cell["seed"]), found


def run(cell: Cell) -> list[Row]:
    """The verdict on one result, and how many truths its regions hold."""
    graph, found = made(cell)
    solution = solve(graph, draws=0, seed=cell["seed"], **HOW[cell["how"]])
    first = solution.judgement.findings[:1]
    return [
        {
            "verdict": str(solution.judgement.trust),
            "doubt": str(first[0].doubt) if first else "",
            "variance_factor": plain(solution.reduced_chi_square),
            "held": share_held(solution, found.truth, cell["seed"]),
        }
    ]


def share_held(solution: Solution, truth: Poses, seed: int) -> float | None:
    """Share of true relative poses of pairs, nodes and all, inside the 95 % regions; ``None`` without error bars."""
    if solution.laplace is None:
        return None
    rng = streams.generator(seed, "check", 2)
    ids, axes = np.array(solution.graph.reported), solution.graph.axes
    held = []
    for _ in range(PAIRS):
        a, b = (int(one) for one in rng.choice(ids, 2, replace=False))
        one = solution.relative(a, b)
        i, j = truth.row(a), truth.row(b)
        q, t = se3.a_from_b((truth.wxyz[i], truth.position[i]), (truth.wxyz[j], truth.position[j]))
        error = np.concatenate([quat.log(quat.multiply(q, quat.conjugate(one.mean[0]))), t - one.mean[1]])
        squared = squared_distance(error[axes], one.covariance[np.ix_(axes, axes)])
        held.append(bool(inside(squared, LEVEL, len(axes))))
    return float(np.mean(held))


def table(rows: list[Row]) -> list[Row]:
    """By world and way to solve, and over all: how many results have each verdict, what their regions hold, how many mislead."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["world"], row["how"]), []).append(row)
    groups["all", "all"] = list(rows)
    lines = []
    for (world, how), own in groups.items():
        for trust in Trust:
            held = [row["held"] for row in own if row["verdict"] == str(trust) and row["held"] is not None]
            lines.append(
                {
                    "world": world,
                    "how": how,
                    "verdict": str(trust),
                    "results": sum(row["verdict"] == str(trust) for row in own),
                    "held": float(np.mean(held)) if held else None,
                    "held_se": float(np.std(held, ddof=1) / np.sqrt(len(held))) if len(held) > 1 else None,
                    "mislead": sum(share < HELD for share in held),
                }
            )
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """What the regions of single results hold, by their verdict."""
    figure, axes = figures.panels(1, width=6.0, height=3.6)
    ax = np.atleast_1d(axes)[0]
    for k, trust in enumerate(Trust):
        held = sorted(row["held"] for row in result.rows if row["verdict"] == str(trust) and row["held"] is not None)
        ax.plot(np.full(len(held), k) + np.linspace(-0.3, 0.3, len(held)), [100 * x for x in held], ".", ms=4)
    ax.axhline(100 * LEVEL, color="black", lw=1)
    ax.set_xticks(range(len(Trust)), [str(one) for one in Trust])
    figures.label(ax, "verdict", "true relative poses inside 95 % regions, %")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Counts of verdicts, and of results that mislead, of each kind; below, what regions hold by verdict."""
    lines = [["world", "solved with", *(f"{one}: results (mislead)" for one in Trust)]]
    by: dict[tuple[str, str], list[Row]] = {}
    for line in result.table:
        by.setdefault((line["world"], line["how"]), []).append(line)
    for (world, how), own in by.items():
        lines.append([world, how, *(f"{line['results']} ({line['mislead']})" for line in own)])
    held = [
        f"{line['verdict']}: {100 * line['held']:.1f} ± {100 * (line['held_se'] or 0.0):.1f}% of the truths inside 95% regions"
        for line in by["all", "all"]
        if line["held"] is not None
    ]
    return "\n".join([text_table(lines, left=(0, 1)), *held])


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
