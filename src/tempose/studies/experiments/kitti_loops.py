"""A car's trajectory (KITTI 00) with its loops as they are, and with a part of them replaced by wrong ones.

The file's odometry moves sideways to the wrong side in curves (:data:`planar_truth.MIRRORED`), an error that no error bar knows of;
so all is done with the file as it is, and with the sign put right.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose.analysis.accuracy import pose_errors
from tempose.errors import TemposeError
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.outliers import Robust
from tempose.simulation import Corrupted, replace_loops
from tempose.simulation.lookalikes import LOOP_KINDS
from tempose.simulation.wrong import is_loop
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions, data_folder, over_seeds
from tempose.studies.experiments.planar_truth import MIRRORED, scene
from tempose.studies.store import Cell, Row
from tempose.studies.wrong_edges import coverage, scores

DATA, PRECISION = ("kitti_00", MIRRORED), "full"
NODES, QUICK_NODES = 4541, 1800
"""All, and few enough for the first of the loops."""
SHARES, QUICK_SHARES = (0.1, 0.3, 0.5), (0.3,)
SEEDS, QUICK_SEEDS = 3, 1
TRUST = 0.99
NOISE = "auto"
_BY = ("data", "kind", "share", "trust")
_VALUES = (
    "right_kept", "precision", "recall", "brier", "position_ratio", "mean_translation", "plain_translation",
    "mean_rotation_deg", "plain_rotation_deg", "pairs_95", "nodes_95", "pairs_spread", "sigma_rot_ratio",
    "sigma_trans_ratio",
)  # fmt: skip


def drive(data: str, nodes: int) -> tuple[PoseGraph, Poses]:
    """The first nodes of the trajectory, and where they truly are."""
    graph, truth = scene(data, PRECISION)
    part = graph.subgraph(np.arange(nodes))
    return part, truth.select(part.node_ids)


def make(cell: Cell) -> Corrupted:
    """The graph of a cell; wrong loops are made with the true poses."""
    graph, truth = drive(cell["data"], cell["nodes"])
    if cell["kind"] == "as it is":
        return Corrupted(graph, np.zeros(graph.n_edges, dtype=bool))
    return replace_loops(graph, truth, cell["share"], cell["kind"], seed=cell["seed"])


def cells(options: RunOptions) -> list[Cell]:
    """As it is, and kinds × shares × seeds; each without trusted odometry and with it, and of either file."""
    data_folder("g2o2d")
    shares = QUICK_SHARES if options.quick else SHARES
    seeds = options.seed_list(SEEDS, QUICK_SEEDS)
    plan: list[Cell] = [{"kind": "as it is", "share": 0.0, "seed": options.seed}]
    plan += [
        {"kind": kind, "share": share, "seed": seed}
        for kind, share, seed in itertools.product(LOOP_KINDS, shares, seeds)
    ]
    nodes, data = (QUICK_NODES, DATA[:1]) if options.quick else (NODES, DATA)
    return [
        {"data": name, "nodes": nodes, **one, "trust": trust}
        for name, one, trust in itertools.product(data, plan, (None, TRUST))
    ]


def run(cell: Cell) -> list[Row]:
    """Verdicts on the loops, errors beside those of the plain solve of the right edges, and coverage."""
    (_, truth), bad = drive(cell["data"], cell["nodes"]), make(cell)
    loops = is_loop(bad.graph)
    plain = solve(bad.graph.with_edges(~bad.is_wrong), draws=0, certify=False, analyse=False)
    least = pose_errors(plain.estimate, truth)
    row: Row = {
        "loops": int(loops.sum()),
        "plain_rotation_deg": least.mean_rotation_deg,
        "plain_translation": least.mean_translation,
    }
    try:
        robust = Robust(trust_odometry=cell["trust"])
        solution = solve(bad.graph, robust=robust, noise=NOISE, draws=0, certify=False, analyse=False)
    except TemposeError as why:
        return [{**row, "status": "failed", "message": str(why)}]
    assert solution.verdicts is not None
    errors, p = pose_errors(solution.estimate, truth), solution.verdicts.inlier_probability
    stated, found = bad.graph.median_sigmas, solution.graph.median_sigmas
    return [
        {
            **row,
            "status": "finished",
            **scores(p[loops], ~bad.is_wrong[loops]),
            "odometry_rejected": int(np.sum(p[~loops] <= 0.5)),
            "mean_rotation_deg": errors.mean_rotation_deg,
            "mean_translation": errors.mean_translation,
            "position_ratio": errors.mean_translation / least.mean_translation,
            "sigma_rot_ratio": found[0] / stated[0],
            "sigma_trans_ratio": found[1] / stated[1],
            **coverage(solution, truth, streams.generator(cell["seed"], "resample")),
        }
    ]


def table(rows: list[Row]) -> list[Row]:
    """Means over the seeds."""
    lines = over_seeds(rows, _BY, _VALUES)
    for line in lines:
        here = [row for row in rows if all(row[name] == line[name] for name in _BY)]
        line["failed"] = sum(row["status"] == "failed" for row in here)
        line["odometry_rejected"] = max((row.get("odometry_rejected", 0) for row in here), default=0)
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Right loops that are kept, wrong ones rejected, position errors, and coverage, against the share of wrong loops.

    Of the file as it is; coverage with the sign put right, if that was run.
    """
    figure, axes = figures.panels(4, width=3.2)
    panels = {
        "right_kept": "right loops kept",
        "recall": "wrong loops rejected",
        "position_ratio": "position error / plain solve's",
        "nodes_95": "true nodes in 95 % regions",
    }
    last = result.table[-1]["data"]
    for ax, (value, what) in zip(axes, panels.items(), strict=True):
        rows = [row for row in result.table if row["data"] == (last if value == "nodes_95" else DATA[0])]
        for colour, kind in zip(("#6a3d9a", "#f28e2b"), LOOP_KINDS, strict=True):
            for trust, style in ((None, "-"), (TRUST, "--")):
                lines = [row for row in rows if row["kind"] in ("as it is", kind) and row["trust"] == trust]
                lines = [row for row in lines if row[value] is not None]
                name = kind if trust is None else f"{kind}, odometry {trust:g}"
                x, y = [row["share"] for row in lines], [row[value] for row in lines]
                ax.plot(x, y, "o", linestyle=style, color=colour, markersize=4, linewidth=1.2, label=name)
        if value != "position_ratio":
            ax.set_ylim(-0.02, 1.04)
        figures.label(ax, "share of wrong loops", "", what, log_y=value == "position_ratio")
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """A line per setting."""
    head = "data|loops|wrong|trust|n|failed|right kept|precision|recall|position error|plain|pairs|nodes inside|σ rot|σ trans"
    lines = [head.split("|")]
    names = ("right_kept", "precision", "recall", "mean_translation", "plain_translation", "pairs_95", "nodes_95",
             "sigma_rot_ratio", "sigma_trans_ratio")  # fmt: skip
    for row in result.table:
        found = ["–" if row[name] is None else f"{row[name]:.3g}" for name in names]
        trust = "–" if row["trust"] is None else f"{row['trust']:g}"
        lines.append([row["data"], row["kind"], f"{row['share']:g}", trust, str(row["n"]), str(row["failed"]), *found])
    return text_table(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
