"""Calibration of robust solves: probabilities of edges, noise levels, and coverage of poses, with no noise level given."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.streams import generator
from tempose._typing import Array
from tempose.model.poses import Poses
from tempose.optimum.laplace import Laplace
from tempose.simulation import corrupt, simulate
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.coverage import LEVELS, column, pair_distance, shares
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

SETTINGS: dict[str, dict[str, Any]] = {
    "poses": {"nodes": 50, "sigma_rot_deg": 3.0, "sigma_trans": 0.05, "rotations_only": False},
    "rotations": {"nodes": 40, "sigma_rot_deg": 10.0, "sigma_trans": 0.05, "rotations_only": True},
}
"""Wide noise of rotations alone leaves real doubt about edges; with accurate poses there is hardly any."""
SHARES = {"poses": (0.0, 0.3, 0.5, 0.7), "rotations": (0.1, 0.3, 0.5)}
BINS = np.array([0.0, 0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98, 1.0])
PAIRS = 40
FEWEST = 5  # edges in a bin that is drawn


def cells(options: RunOptions) -> list[Cell]:
    """Graphs of both kinds, with shares of wrong edges."""
    plan = []
    for name, seed in itertools.product(SETTINGS, options.seed_list(20, 1)):
        for share in SHARES[name][1:2] if options.quick else SHARES[name]:
            nodes = 20 if options.quick else SETTINGS[name]["nodes"]
            plan.append({"setting": name, **SETTINGS[name], "nodes": nodes, "share": share, "seed": seed})
    return plan


def run(cell: Cell) -> list[Row]:
    """Solve one graph whose precisions say nothing; a row of its numbers, and one for each bin of probabilities."""
    made = simulate(
        cell["nodes"],
        completeness=0.5,
        sigma_rot_deg=cell["sigma_rot_deg"],
        sigma_trans=cell["sigma_trans"],
        seed=cell["seed"],
    )
    graph = made.graph
    if cell["rotations_only"]:
        graph = replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan))
    bad = corrupt(graph, cell["share"], seed=cell["seed"], kind="uniform")
    unknown = replace(bad.graph, concentration=np.asarray(2.0), translation_precision=np.asarray(1.0))
    solution = solve(unknown, robust=True, noise="auto", draws=0, certify=False, seed=cell["seed"])
    verdicts, laplace = solution.verdicts, solution.laplace
    assert verdicts is not None
    sigma_rot, sigma_trans = solution.graph.median_sigmas
    row: Row = {
        "sigma_rot_ratio": np.degrees(sigma_rot) / cell["sigma_rot_deg"],
        "sigma_trans_ratio": None if cell["rotations_only"] else sigma_trans / cell["sigma_trans"],
        "pi_error": abs(verdicts.parameters.inlier_probability - (1.0 - cell["share"])),
        **({} if laplace is None else shares({"inside": distances(laplace, made.truth, cell)}, _dimension(cell))),
    }
    p, right = verdicts.inlier_probability, ~bad.is_wrong
    which = np.clip(np.searchsorted(BINS, p, side="right") - 1, 0, len(BINS) - 2)
    bins = [
        {
            "bin": k,
            "edges": int(np.sum(which == k)),
            "stated": float(p[which == k].sum()),
            "right": int(right[which == k].sum()),
        }
        for k in range(len(BINS) - 1)
    ]
    return [{name: None if value is None else float(value) for name, value in row.items()}, *bins]


def distances(laplace: Laplace, truth: Poses, cell: Cell) -> Array:
    """Squared distances of true relative poses by the Gaussian approximation, for random pairs of nodes."""
    rng = generator(cell["seed"], "calibrate")
    pairs = [rng.choice(len(truth), 2, replace=False).tolist() for _ in range(PAIRS)]
    size = _dimension(cell)
    return np.array(
        [pair_distance(laplace.relative(truth.ids[a], truth.ids[b]), truth, dimension=size) for a, b in pairs]
    )


def _dimension(cell: Cell) -> int:
    return 3 if cell["rotations_only"] else 6


def table(rows: list[Row]) -> list[Row]:
    """Means and standard errors over the seeds of every setting and share, then the reliability of every setting."""
    lines: list[Row] = []
    names = ("sigma_rot_ratio", "sigma_trans_ratio", "pi_error", *(column("inside", level) for level in LEVELS))
    for setting, share in dict.fromkeys((row["setting"], row["share"]) for row in rows):
        here = [row for row in rows if (row["setting"], row["share"]) == (setting, share) and "bin" not in row]
        line: Row = {"setting": setting, "share": share, "n": len(here)}
        for name in names:
            values = np.array([row[name] for row in here if row.get(name) is not None])
            line[name] = float(values.mean()) if len(values) else None
            line[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
            line[f"{name}_worst"] = (
                float(values[np.argmax(np.abs(values - 1.0))]) if "ratio" in name and len(values) else None
            )
        lines.append(line)
    for setting in dict.fromkeys(row["setting"] for row in rows):
        for k in range(len(BINS) - 1):
            here = [row for row in rows if row["setting"] == setting and row.get("bin") == k]
            edges, stated, right = (sum(row[name] for row in here) for name in ("edges", "stated", "right"))
            if edges:
                share_right = right / edges
                error = float(np.sqrt(max(share_right * (1.0 - share_right), 0.25 / edges) / edges))
                lines.append(
                    {
                        "setting": setting,
                        "from": float(BINS[k]),
                        "to": float(BINS[k + 1]),
                        "edges": edges,
                        "stated": stated / edges,
                        "right": share_right,
                        "right_se": error,
                    }
                )
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Reliability of the probabilities, noise levels found, and coverage."""
    figure, axes = figures.panels(3, width=3.5, height=3.1)
    colours = {"poses": "#6a3d9a", "rotations": "#1f9ed1"}
    axes[0].plot([0, 1], [0, 1], color="#8a8f98", linewidth=1.0)
    for setting, colour in colours.items():
        bins = [line for line in result.table if line["setting"] == setting and line.get("edges", 0) >= FEWEST]
        axes[0].errorbar(
            [b["stated"] for b in bins],
            [b["right"] for b in bins],
            [b["right_se"] for b in bins],
            fmt="o",
            markersize=4,
            color=colour,
            label=setting,
        )
        lines = [line for line in result.table if line["setting"] == setting and "share" in line]
        for name, marker in (("sigma_rot_ratio", "o"), ("sigma_trans_ratio", "s")):
            kept = [line for line in lines if line[name] is not None]
            if kept:
                kind = "rotation" if "rot" in name else "translation"
                axes[1].errorbar(
                    [line["share"] for line in kept],
                    [line[name] for line in kept],
                    [line[f"{name}_se"] or 0.0 for line in kept],
                    marker=marker,
                    markersize=4,
                    linewidth=1.2,
                    color=colour,
                    linestyle="-" if "rot" in name else "--",
                    label=f"{setting}, {kind}",
                )
        for level in LEVELS:
            name = column("inside", level)
            axes[2].errorbar(
                [line["share"] for line in lines],
                [line[name] for line in lines],
                [line[f"{name}_se"] or 0.0 for line in lines],
                marker="o",
                markersize=4,
                linewidth=1.2,
                color=colour,
                label=setting if level == LEVELS[0] else None,
            )
    axes[0].set_ylim(-0.04, 1.04)
    for level in (1.0, 0.9, 1.1):
        axes[1].axhline(level, color="#8a8f98", linewidth=1.0, linestyle="-" if level == 1.0 else ":")
    for level in LEVELS:
        axes[2].axhline(level, color="#8a8f98", linewidth=1.0)
    figures.label(axes[0], "stated inlier probability", "share of edges that are right", "reliability")
    figures.label(axes[1], "share of wrong edges", "estimated σ / true σ", "noise levels")
    figures.label(axes[2], "share of wrong edges", "true poses inside", "50, 80 and 95 % regions")
    for ax in axes:
        ax.legend(fontsize=7, frameon=False)
    return figures.save(figure, home)


EXPERIMENT = Experiment(cells, run, table, draw, methods=False)
