"""Seven real scans of rooms (3DMatch): verdicts, errors and coverage by trust in odometry, beside other methods."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose._typing import Mask
from tempose.analysis.accuracy import pose_errors
from tempose.analysis.regions import LEVELS
from tempose.errors import MissingPackage, NotApplicable, TemposeError
from tempose.methods.external import gtsam_gnc, open3d_line_process
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.outliers import Robust
from tempose.solution import Solution
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies import real_data as real
from tempose.studies.experiment import Experiment, Result, RunOptions, data_folder
from tempose.studies.experiments.threedmatch import ALL_SCENES, agreeing, scene
from tempose.studies.store import Cell, Row
from tempose.studies.wrong_edges import (
    chain,
    coverage,
    largest_part,
    odometry,
    scores,
    shared_coverage,
    with_errors,
)

QUICK = ("hotel_uc",)
TRUST = (0.9, 0.95, 0.99, 0.999, 0.999999)
PLAIN = "robust"
OTHERS = ("chain", "gnc", "gnc+odometry", "line-process", "oracle")
"""``line-process`` is Open3D's, with certain odometry. The oracle knows the right edges and estimates their noise: its coverage is
what no verdict can better."""


def method(trust: float | None) -> str:
    """Name of a robust solve."""
    return PLAIN if trust is None else f"robust {trust:g}"


def cells(options: RunOptions) -> list[Cell]:
    """Scenes × robust solves and others."""
    data_folder("threedmatch")
    trusts = (None, 0.99) if options.quick else (None, *TRUST)
    names = QUICK if options.quick else tuple(ALL_SCENES)
    own: list[Cell] = [{"method": method(trust), "trust": trust} for trust in trusts]
    plan = [*own, *({"method": name, "trust": None} for name in OTHERS)]
    return [{"data": name, "seed": options.seed, **one} for name, one in itertools.product(names, plan)]


def run(cell: Cell) -> list[Row]:
    """One solve of one scan."""
    graph, truth = scene(cell["data"])
    known = [k for k, name in enumerate(graph.node_ids) if name in truth.index]
    judged = np.isin(graph.edge_i, known) & np.isin(graph.edge_j, known)
    part = graph.subgraph(known)
    right = agreeing(part, truth.select(part.node_ids))
    held = largest_part(part.with_edges(right))
    try:
        if cell["method"].startswith(PLAIN):
            return [_robust(cell, graph, truth.select(held.node_ids), judged, right)]
        if cell["method"] == "oracle":
            return [_oracle(cell, held, truth.select(held.node_ids))]
        poses = _other(cell["method"], graph)
    except (NotApplicable, MissingPackage) as why:
        return [{"status": "left out", "message": str(why)}]
    except TemposeError as why:
        return [{"status": "failed", "message": str(why)}]
    return [{"status": "finished", **_errors(poses, truth.select(held.node_ids))}]


def _robust(cell: Cell, graph: PoseGraph, truth: Poses, judged: Mask, right: Mask) -> Row:
    robust = Robust(trust_odometry=cell["trust"])
    solution = solve(graph, robust=robust, noise="auto", draws=0, certify=False, analyse=False, seed=cell["seed"])
    assert solution.verdicts is not None
    return {
        "status": "finished",
        **_errors(solution.poses, truth),
        **scores(solution.verdicts.inlier_probability[judged], right),
        **coverage(with_errors(solution, shared=False), truth, streams.generator(cell["seed"], "resample")),
        **shared_coverage(solution, truth, LEVELS),
        **_noise(solution),
    }


def _oracle(cell: Cell, held: PoseGraph, truth: Poses) -> Row:
    solution = solve(held, noise="auto", draws=0, certify=False, analyse=False, seed=cell["seed"])
    found = coverage(solution, truth, streams.generator(cell["seed"], "resample"))
    found |= shared_coverage(solution, truth, LEVELS)
    return {"status": "finished", **_errors(solution.poses, truth), **found, **_noise(solution)}


def _noise(solution: Solution) -> Row:
    sigma_rot, sigma_trans = solution.graph.median_sigmas
    return {"sigma_rot_deg": float(np.degrees(sigma_rot)), "sigma_trans": sigma_trans}


def _other(name: str, graph: PoseGraph) -> Poses:
    if name == "chain":
        return chain(graph)
    if name == "gnc":
        return gtsam_gnc(graph).poses
    if name == "line-process":
        return open3d_line_process(graph, odometry(graph), chain(graph)).poses
    assert name == "gnc+odometry"
    return gtsam_gnc(graph, odometry(graph), chain(graph)).poses


def _errors(poses: Poses, truth: Poses) -> Row:
    """On the nodes that right edges connect, after robust alignment."""
    found = pose_errors(poses, truth, robust=True)
    return {
        "n_compared": found.n_nodes,
        "mean_rotation_deg": found.mean_rotation_deg,
        "mean_translation": found.mean_translation,
    }


_COLUMNS = (
    "data", "method", "trust", "status", "n_compared", "mean_rotation_deg", "mean_translation", "edges", "wrong", "sure",
    "sure_right", "brier", "log_score", "precision", "recall", "right_kept", "pairs_95", "nodes_95", "pairs_spread",
    "shared_50", "shared_80", "shared_95", "sigma_rot_deg", "sigma_trans", "message",
)  # fmt: skip


def table(rows: list[Row]) -> list[Row]:
    """A line per scene and method, then all scenes together: scores over edges, errors and coverage over nodes."""
    lines = real.columns(rows, _COLUMNS)
    for name in dict.fromkeys(row["method"] for row in rows):
        here = [row for row in lines if row["method"] == name and row["n_compared"]]
        if not here:
            continue
        pooled: Row = dict.fromkeys(_COLUMNS)
        pooled |= {"data": "all", "method": name, "trust": here[0]["trust"], "status": f"{len(here)} scenes"}
        for value, weight in (
            *((value, "edges") for value in ("brier", "log_score")),
            *(
                (value, "n_compared")
                for value in (
                    "mean_rotation_deg",
                    "mean_translation",
                    "pairs_95",
                    "nodes_95",
                    "pairs_spread",
                    "shared_50",
                    "shared_80",
                    "shared_95",
                )
            ),
        ):
            used = [row for row in here if row[value] is not None]
            if used:
                pooled[value] = sum(row[value] * row[weight] for row in used) / sum(row[weight] for row in used)
        for value in ("n_compared", "edges", "wrong", "sure", "sure_right"):
            if all(row[value] is not None for row in here):
                pooled[value] = sum(row[value] for row in here)
        lines.append(pooled)
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Errors of every method on each scene, and Brier score and coverage against the trust in odometry."""
    names = [name for name in dict.fromkeys(row["data"] for row in result.table) if name != "all"]
    figure, axes = figures.panels(len(names) + 2, width=2.4 if len(names) > 1 else 3.6, height=3.4)
    for k, name in enumerate(names):
        real.dots(axes[k], real.of(result.table, name), {"mean_rotation_deg": "o"}, names=k == 0)
        figures.label(axes[k], "rotation error, degrees", "", name)
    for ax, value, what in ((axes[-2], "brier", "Brier score"), (axes[-1], "shared_95", "true nodes in 95 % regions")):
        for name in (*names, "all"):
            rows = [row for row in real.of(result.table, name) if row[value] is not None and row["method"] != "oracle"]
            look = {"color": "#000000", "linewidth": 2.0} if name == "all" else {"linewidth": 1.0}
            ax.plot(range(len(rows)), [row[value] for row in rows], "o-", markersize=3, label=name, **look)
            ax.set_xticks(range(len(rows)), [_trust(row) for row in rows], rotation=35, ha="right", fontsize=7)
        ax.set_ylim(0.0, 1.02)
        figures.label(ax, "trust in odometry", "", what)
    axes[-1].legend(fontsize=6, frameon=False)
    return figures.save(figure, home)


def _trust(row: Row) -> str:
    return "none" if row["trust"] is None else f"{row['trust']:g}"


def text(result: Result) -> str:
    """Errors by method and scene; then what the verdicts of the robust solves are worth."""
    names = list(dict.fromkeys(row["data"] for row in result.table))
    methods = list(dict.fromkeys(row["method"] for row in result.table))
    found = {(row["data"], row["method"]): row for row in result.table}
    parts = []
    for value, title, digits in (
        ("mean_rotation_deg", "mean rotation error °", 1),
        ("mean_translation", "mean translation error m", 2),
        ("sure", "p > 0.9: right of edges", None),
        ("brier", "Brier score", 3),
        *((f"shared_{p}", f"true nodes inside {p} % regions", 2) for p in (50, 80, 95)),
        ("pairs_95", "--edge-errors independent: true pairs inside 95 %", 2),
        ("nodes_95", "--edge-errors independent: true nodes inside 95 %", 2),
        ("pairs_spread", "--edge-errors independent: error bars too small by", 1),
    ):
        lines = [[title, *names]]
        for name in methods:
            rows = [found.get((data, name), {}) for data in names]
            if any(row.get(value) is not None for row in rows):
                lines.append([name, *(_shown(row, value, digits) for row in rows)])
        parts.append(text_table(lines))
    return "\n\n".join(parts)


def _shown(row: Row, value: str, digits: int | None) -> str:
    if row.get(value) is None:
        return "–"
    return f"{row['sure_right']}/{row['sure']}" if digits is None else f"{row[value]:.{digits}f}"


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
