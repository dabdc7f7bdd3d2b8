"""The seven scans again, each solved with beliefs that the other six have chosen."""

from __future__ import annotations

import functools
import itertools
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose._typing import Array
from tempose.outliers.beliefs import HOPEFUL, LONELY, WORRIED, Beliefs, believing
from tempose.outliers.estimate import explain, own_probabilities
from tempose.outliers.explanations import ExplanationSearch
from tempose.outliers.search.growing import grow_from_chain
from tempose.outliers.search.skeleton import skeleton
from tempose.outliers.sequence import Sequence
from tempose.studies.experiment import Experiment, Result, RunOptions, data_folder
from tempose.studies.experiments import scenes
from tempose.studies.experiments.threedmatch import ALL_SCENES, agreeing, scene
from tempose.studies.store import Cell, Row

QUICK = ("hotel_uc", "hotel1")
_POSSIBLE = {
    "worried": (WORRIED,),
    "hopeful": (HOPEFUL,),
    "either": (HOPEFUL, WORRIED),
    "any": (HOPEFUL, WORRIED, LONELY),
}
WORLDS = {name: tuple(replace(world, lone=None) for world in worlds) for name, worlds in _POSSIBLE.items()} | {
    f"{name} by number": _POSSIBLE[name] for name in ("either", "any")
}
"""Which sorts of graphs are thought possible, and whether the number of lone loop closures tells them; the default is the last."""
GRID = tuple(
    Beliefs(alike=alike, split=split, worlds=worlds, misfit=misfit)
    for alike, split, worlds, misfit in itertools.product((0.02, 1.0 / 7.0), (0.05, 0.2), WORLDS.values(), (0.0, 0.2))
)
"""Beliefs to choose from."""


def cells(options: RunOptions) -> list[Cell]:
    """Trust × scenes, with the oracle, which tells how many edges count as one."""
    data_folder("threedmatch")
    trusts = (None,) if options.quick else (None, *scenes.TRUST)
    names = QUICK if options.quick else tuple(ALL_SCENES)
    plan: list[Cell] = [{"method": scenes.method(trust), "trust": trust} for trust in trusts]
    plan.append({"method": "oracle", "trust": None})
    return [
        {"data": name, "others": [one for one in names if one != name], "seed": options.seed, **one}
        for one, name in itertools.product(plan, names)
    ]


def run(cell: Cell) -> list[Row]:
    """One scan, with the beliefs that are best on the others."""
    if cell["method"] == "oracle":
        return scenes.run(cell)
    lost = np.sum([squared_errors(name, cell["seed"]) for name in cell["others"]], axis=0)
    best = int(np.argmin(lost))
    with believing(GRID[best]):
        (row,) = scenes.run(cell)
    name = next(name for name, worlds in WORLDS.items() if worlds == GRID[best].worlds)
    return [{**row, **asdict(GRID[best]), "worlds": name}]


@functools.cache
def squared_errors(name: str, seed: int) -> Array:
    """Sum of (p − right)² over the edges of a scan, for all beliefs of the grid, each by a search of its own.

    Beliefs tell what a search finds, too, so that weighing again what others have found would judge them by explanations that they
    do not meet. No odometry is trusted, so that all solves of a scan have the same beliefs.
    """
    graph, truth = scene(name)
    known = [k for k, node in enumerate(graph.node_ids) if node in truth.index]
    judged = np.isin(graph.edge_i, known) & np.isin(graph.edge_j, known)
    part = graph.subgraph(known)
    right = agreeing(part, truth.select(part.node_ids))
    own = own_probabilities(graph)
    bones = skeleton(graph)
    sequence = Sequence.of(bones.graph)
    assert sequence is not None and bones.is_all
    grown = grow_from_chain(sequence, own)
    lost = []
    for beliefs in GRID:
        search = ExplanationSearch(sequence, own, streams.generator(seed, "start"), beliefs)
        stated = explain(search, bones, None, grown).inlier_probability()[judged]
        lost.append(float(np.sum((stated - right) ** 2)))
    return np.array(lost)


def table(rows: list[Row]) -> list[Row]:
    """That of the scenes, and what was chosen."""
    lines = scenes.table(rows)
    chosen = {(row["data"], row["method"]): row for row in rows if "misfit" in row}
    names = ("alike", "split", "worlds", "misfit")
    return [
        {**line, **{name: chosen.get((line["data"], line["method"]), {}).get(name) for name in names}} for line in lines
    ]


def draw(result: Result, home: Path) -> list[Path]:
    """As for the scenes."""
    return scenes.draw(result, home)


def text(result: Result) -> str:
    """Errors and verdicts, then the beliefs that the other scenes have chosen."""
    lines = [["chosen by the others", "scene", "v", "split", "worlds", "misfit"]]
    for row in result.table:
        if row["misfit"] is not None:
            numbers = f"{row['alike']:.3g}", f"{row['split']:g}", row["worlds"], f"{row['misfit']:g}"
            lines.append([row["method"], row["data"], *numbers])
    return scenes.text(result) + "\n\n" + text_table(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
