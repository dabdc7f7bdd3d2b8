"""Simulated worlds with look-alike places: whether verdicts and error bars are right where wrong edges agree."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose.errors import TemposeError
from tempose.outliers import Robust
from tempose.simulation import Simulated, simulate
from tempose.simulation.wrong import is_odometry
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions, over_seeds
from tempose.studies.store import Cell, Row
from tempose.studies.wrong_edges import binned, coverage, reliability, scores

WORLDS, QUICK_WORLDS = 200, 3
NODES, QUICK_NODES = (60, 100), (40, 50)
ALIASES = (1, 4)
"""Fewest and most look-alike places of a world."""
WRONG_LOOPS = (0.0, 0.1)
"""Share of the loop closures that are wrong each by itself."""
SIGMA_DEG, SIGMA = 1.0, 0.05
TRUST = 0.99
"""Of the trusted odometry; as many of its edges are right, each by itself, in worlds with and without trust."""
MODELS: dict[str, dict[str, Any]] = {"robust": {}, "independent": {"repeats": "independent"}}
"""Options of :class:`tempose.outliers.Robust` of each model of wrong edges; the second is the negative control."""
VALUES = ("brier", "log_score", "sure_share", "precision", "recall", "pairs_95", "nodes_95", "pairs_spread")
FEWEST = 3  # worlds of a bin that is drawn
_COLOURS = ("#6a3d9a", "#f28e2b", "#1f9ed1", "#8a8f98")


def world(seed: int, nodes: tuple[int, int] = NODES) -> Simulated:
    """A path on streets or a wandering one, in the plane or in space, with look-alikes, lone wrong loops and odometry."""
    rng = streams.generator(seed, "calibrate")
    n = int(rng.integers(nodes[0], nodes[1] + 1))
    return simulate(
        n,
        shape=("manhattan", "trajectory")[seed % 2],
        planar=seed % 4 < 2,
        sigma_rot_deg=SIGMA_DEG,
        sigma_trans=SIGMA,
        aliases=int(rng.integers(ALIASES[0], ALIASES[1] + 1)),
        wrong_loops=float(rng.choice(WRONG_LOOPS)),
        wrong_odometry=int(rng.binomial(n - 1, 1.0 - TRUST)) / (n - 1),
        seed=seed,
    )


def cells(options: RunOptions) -> list[Cell]:
    """Worlds × trust × models."""
    nodes = QUICK_NODES if options.quick else NODES
    return [
        {"nodes": list(nodes), "trust": trust, "model": model, "seed": seed}
        for seed, trust, model in itertools.product(options.seed_list(WORLDS, QUICK_WORLDS), (None, TRUST), MODELS)
    ]


def run(cell: Cell) -> list[Row]:
    """Scores of one world, and how many of its loops and of its odometry have which probability."""
    made = world(cell["seed"], tuple(cell["nodes"]))
    robust = Robust(trust_odometry=cell["trust"], **MODELS[cell["model"]])
    try:
        solution = solve(made.graph, robust=robust, noise="auto", draws=0, certify=False, analyse=False)
    except (TemposeError, FloatingPointError) as why:
        return [{"status": "failed", "message": str(why)}]
    assert solution.verdicts is not None
    p, right, steps = solution.verdicts.inlier_probability, ~made.is_wrong, is_odometry(made.graph)
    found = scores(p, right)
    sigma_rot, sigma_trans = solution.graph.median_sigmas
    row: Row = {
        "status": "solved",
        "n_nodes": made.graph.n_nodes,
        "aliases": int(made.alias.max(initial=-1)) + 1,
        "alias_edges": int(np.sum(made.alias >= 0)),
        **found,
        "sure_share": found["sure_right"] / found["sure"] if found["sure"] else None,
        "sigma_rot_ratio": float(np.degrees(sigma_rot)) / SIGMA_DEG,
        "sigma_trans_ratio": sigma_trans / SIGMA,
        **coverage(solution, made.truth, streams.generator(cell["seed"], "resample")),
    }
    parts = {"odometry": steps, "loops": ~steps}
    return [row, *({"of": name, **line} for name, of in parts.items() for line in binned(p[of], right[of]))]


def table(rows: list[Row]) -> list[Row]:
    """Scores over worlds by trust and model, then the reliability of loops and of all edges."""
    whole = [row for row in rows if "bin" not in row]
    lines = over_seeds(whole, ("trust", "model"), VALUES)
    for line in lines:
        here = [row for row in whole if _key(row) == _key(line)]
        line["failed"] = sum(row["status"] == "failed" for row in here)
        sure = sum(row.get("sure", 0) for row in here)
        line |= {"sure": sure, "sure_right": sum(row.get("sure_right", 0) for row in here)}
    for trust, model in dict.fromkeys(_key(row) for row in rows):
        bins = [row for row in rows if _key(row) == (trust, model) and "bin" in row]
        for of, kept in (("loops", [row for row in bins if row["of"] == "loops"]), ("all", _summed(bins))):
            lines += [{"trust": trust, "model": model, "of": of, **line} for line in reliability(kept)]
    return lines


def _key(row: Row) -> tuple[Any, Any]:
    return row["trust"], row["model"]


def _summed(rows: list[Row]) -> list[Row]:
    """Odometry and loops of a world in one."""
    sums: dict[tuple[int, int], Row] = {}
    for row in rows:
        known = sums.setdefault((row["seed"], row["bin"]), {"bin": row["bin"], "edges": 0, "stated": 0.0, "right": 0})
        for name in ("edges", "stated", "right"):
            known[name] += row[name]
    return list(sums.values())


def _name(trust: float | None, model: str) -> str:
    return model if trust is None else f"{model}, odometry {trust:g}"


def draw(result: Result, home: Path) -> list[Path]:
    """Reliability of loops and of all edges, and coverage."""
    figure, axes = figures.panels(3, width=3.5, height=3.3)
    settings = list(dict.fromkeys(_key(row) for row in result.table))
    for ax, of in zip(axes[:2], ("loops", "all"), strict=True):
        ax.plot([0, 1], [0, 1], color="#8a8f98", linewidth=1.0)
        for colour, (trust, model) in zip(itertools.cycle(_COLOURS), settings):
            bins = [row for row in result.table if _key(row) == (trust, model) and row.get("of") == of]
            bins = [row for row in bins if row["graphs"] >= FEWEST]
            ax.errorbar(
                [b["stated"] for b in bins],
                [b["right"] for b in bins],
                [2.0 * b["right_se"] for b in bins],
                fmt="o",
                markersize=4,
                linewidth=1.0,
                capsize=2,
                color=colour,
                label=_name(trust, model),
            )
        ax.set_ylim(-0.04, 1.04)
        title = "loop closures" if of == "loops" else "all edges"
        figures.label(ax, "stated inlier probability", "share of edges that are right", title)
    axes[1].legend(fontsize=7, frameon=False, loc="lower right")
    lines = [{**row, "name": _name(*_key(row))} for row in result.table if "of" not in row]
    for kind, colour in (("pairs_95", "#6a3d9a"), ("nodes_95", "#1f9ed1")):
        axes[2].errorbar(
            range(len(lines)),
            [line[kind] if line[kind] is not None else np.nan for line in lines],
            [2.0 * (line[f"{kind}_se"] or 0.0) for line in lines],
            fmt="o",
            capsize=2,
            color=colour,
            label=kind.partition("_")[0],
        )
    axes[2].axhline(0.95, color="#8a8f98", linewidth=1.0)
    axes[2].set_xticks(range(len(lines)), [line["name"] for line in lines], rotation=20, ha="right", fontsize=7)
    axes[2].set_xlim(-0.5, len(lines) - 0.5)
    axes[2].set_ylim(0.0, 1.02)
    axes[2].legend(fontsize=7, frameon=False)
    figures.label(axes[2], "", "true poses inside", "95 % regions")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Scores of each setting, then the reliability of its loops."""
    lines = [["", "worlds", "failed", "Brier", "log score", "p > 0.9: right", "pairs inside", "nodes inside"]]
    for row in result.table:
        if "of" not in row:
            sure = f"{row['sure_right']} of {row['sure']}"
            found = [f"{row[name]:.3f}" if row[name] is not None else "–" for name in ("brier", "log_score")]
            held = [f"{row[name]:.3f}" if row[name] is not None else "–" for name in ("pairs_95", "nodes_95")]
            lines.append([_name(*_key(row)), str(row["n"]), str(row["failed"]), *found, sure, *held])
    bins = [["loop closures", "stated", "right", "edges", "worlds"]]
    for row in result.table:
        if row.get("of") == "loops":
            right = f"{row['right']:.3f}±{row['right_se']:.2g}"
            bins.append([_name(*_key(row)), f"{row['stated']:.3f}", right, str(row["edges"]), str(row["graphs"])])
    return text_table(lines) + "\n\n" + text_table(bins)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
