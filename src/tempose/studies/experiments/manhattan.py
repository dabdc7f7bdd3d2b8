"""Manhattan worlds whose loops are partly wrong: errors beside GTSAM's GNC and the oracle, and whether the best mode is found."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.tables import text_table
from tempose.analysis.accuracy import pose_errors
from tempose.errors import MissingPackage, NotApplicable, TemposeError
from tempose.methods import METHODS
from tempose.methods.external import gtsam_gnc
from tempose.model.poses import Poses
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.outliers import Robust, RobustOptions, fit
from tempose.outliers.estimate import own_probabilities
from tempose.simulation import Simulated, simulate
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions, over_seeds
from tempose.studies.store import Cell, Row
from tempose.studies.wrong_edges import chain, odometry, potential, scores

NODES, QUICK_NODES = 500, 60
SHARES, QUICK_SHARES = (0.1, 0.3, 0.5), (0.3,)
SEEDS, QUICK_SEEDS = 20, 1
SIGMA_DEG, SIGMA = 1.0, 0.05
TRUST = 0.99
RUNS = ("robust", "robust+odometry", "gnc", "gnc+odometry", "oracle")
_VALUES = (
    "rotation_ratio", "position_ratio", "mean_rotation_deg", "mean_translation", "gap", "excess", "precision", "recall",
    "sigma_rot_ratio", "sigma_trans_ratio", "truth_collapsed", "ratio", "sure", "sure_right",
)  # fmt: skip
NEAR = 1.05
"""Times the oracle's errors: as good as knowing which edges are right."""
_BY = ("planar", "share", "method")


def make(cell: Cell) -> Simulated:
    """The world of a cell: odometry right, a share of the loops wrong, each by itself."""
    return simulate(
        cell["nodes"],
        shape="manhattan",
        planar=cell["planar"],
        sigma_rot_deg=SIGMA_DEG,
        sigma_trans=SIGMA,
        wrong_loops=cell["share"],
        seed=cell["seed"],
    )


def cells(nodes: int, beside: int | None, options: RunOptions) -> list[Cell]:
    """Seed × plane and space × share × run: a study that is stopped has looked at all kinds of worlds alike.

    GNC comes last, on the first ``beside`` seeds; on all by default.
    """
    size, shares = (QUICK_NODES, QUICK_SHARES) if options.quick else (nodes, SHARES)
    seeds = options.seed_list(SEEDS, QUICK_SEEDS)
    worlds = list(itertools.product(seeds, (True, False), shares))
    own = [(*world, name) for world in worlds for name in RUNS if not name.startswith("gnc")]
    gnc = [(*world, name) for world in worlds for name in RUNS if name.startswith("gnc") and world[0] in seeds[:beside]]
    return [
        {"nodes": size, "planar": planar, "share": share, "seed": seed, "method": name}
        for seed, planar, share, name in own + gnc
    ]


def run(cell: Cell, *, timed: bool = False) -> list[Row]:
    """One run of one world; with the processor seconds of the answer if they are asked for."""
    made, seconds = make(cell), Seconds()
    (row,) = _run(made, cell["method"], seconds)
    return [{**row, "cpu_seconds": seconds.spent} if timed else row]


class Seconds:
    """A clock of the processor time of what is done within it."""

    spent: float | None = None

    def __enter__(self) -> None:
        self.begin = time.process_time()

    def __exit__(self, *why: object) -> None:
        self.spent = time.process_time() - self.begin


def _run(made: Simulated, name: str, seconds: Seconds) -> list[Row]:
    try:
        if name.startswith("robust"):
            return [_robust(made, TRUST if name == "robust+odometry" else None, seconds)]
        if name == "oracle":
            with seconds:
                known = METHODS["tempose"][0](made.right).poses
            return [_errors(known, made.truth)]
        told: dict[str, Any] = {}
        if name == "gnc+odometry":
            told = {"known": odometry(made.graph), "start": chain(made.graph)}
        with seconds:
            poses = gtsam_gnc(made.graph, **told).poses
        return [_errors(poses, made.truth)]
    except (NotApplicable, MissingPackage) as why:
        return [{"status": "left out", "message": str(why)}]
    except TemposeError as why:
        return [{"status": "failed", "message": str(why)}]


def _robust(made: Simulated, trust: float | None, seconds: Seconds) -> Row:
    """Errors and verdicts; and how far U, and −log likelihood, lie above what a fit reaches from the truth.

    ``gap`` is of U at the noise that was found, minimised from the truth; ``excess`` of a fit that finds the noise anew.

    That fit takes wrong translations for as wide, and odometry for as trustworthy, as the solve does, which finds both by itself.
    If its noise collapses, its likelihood is without bound, and nothing is compared with it.
    """
    graph = made.graph
    with seconds:
        solution = solve(
            graph, robust=Robust(trust_odometry=trust), noise="auto", draws=0, certify=False, analyse=False
        )
    assert solution.verdicts is not None
    assert solution.likelihood is not None
    assert solution.parameters is not None
    own = np.where(odometry(graph), solution.likelihood.prior, own_probabilities(graph, trust))
    known = RobustOptions("auto", outlier_sigma=solution.parameters.outlier_sigma)
    best = fit(graph, made.truth, known, own_probability=own)
    reached = minimise(Curvature(solution.posterior), made.truth)
    sigma_rot, sigma_trans = solution.graph.median_sigmas
    collapsed, here = best.status == "collapsed", potential(solution.posterior, solution.estimate)
    return {
        **_errors(solution.estimate, made.truth),
        **scores(solution.verdicts.inlier_probability, ~made.is_wrong),
        "gap": solution.posterior.potential(solution.estimate) - reached.potential,
        "excess": None if collapsed else here - potential(best.posterior, best.poses),
        "truth_collapsed": float(collapsed),
        "sigma_rot_ratio": float(np.degrees(sigma_rot)) / SIGMA_DEG,
        "sigma_trans_ratio": sigma_trans / SIGMA,
    }


def _errors(poses: Poses, truth: Poses) -> Row:
    found = pose_errors(poses, truth)
    return {
        "status": "finished",
        "mean_rotation_deg": found.mean_rotation_deg,
        "mean_translation": found.mean_translation,
    }


def table(rows: list[Row]) -> list[Row]:
    """Means over the seeds, with ratios to the oracle's errors; the worst of each, and how many are not found.

    ``ratio`` is the larger one of rotations and positions, ``within`` how many of these are at most :data:`NEAR`, ``all_right`` in
    how many worlds every verdict is right.
    """
    oracle = {_world(row): row for row in rows if row["method"] == "oracle"}
    scored = []
    for row in rows:
        best = oracle.get(_world(row), {})
        ratios = {}
        for ratio, error in (("rotation_ratio", "mean_rotation_deg"), ("position_ratio", "mean_translation")):
            known = row.get(error) is not None and best.get(error)
            ratios[ratio] = row[error] / best[error] if known else None
        found = [value for value in ratios.values() if value is not None]
        scored.append({**row, **ratios, "ratio": max(found, default=None)})
    timed = ("cpu_seconds",) if any("cpu_seconds" in row for row in rows) else ()
    lines = over_seeds(scored, _BY, (*_VALUES, *timed))
    for line in lines:
        here = [row for row in scored if all(row[name] == line[name] for name in _BY)]
        for name in ("rotation_ratio", "position_ratio", "ratio", "gap", "excess", *timed):
            line[f"{name}_worst"] = max((row[name] for row in here if row.get(name) is not None), default=None)
        line["within"] = sum(row["ratio"] is not None and row["ratio"] <= NEAR for row in here)
        line["all_right"] = sum(row.get("precision") == row.get("recall") == 1.0 for row in here)
        line["failed"] = sum(row["status"] == "failed" for row in here)
    return sorted(lines, key=lambda line: (not line["planar"], line["share"], RUNS.index(line["method"])))


def _world(row: Row) -> tuple[Any, ...]:
    return row["nodes"], row["planar"], row["share"], row["seed"]


def draw(result: Result, home: Path) -> list[Path]:
    """Errors in units of the oracle's, of rotations and positions, in the plane and in space."""
    figure, axes = figures.panels(2, 2, width=3.9, height=2.9)
    panels = itertools.product(("rotation_ratio", "position_ratio"), (True, False))
    for ax, (value, planar) in zip(axes, panels, strict=True):
        lines = [row for row in result.table if row["planar"] == planar]
        for name in RUNS[:-1]:
            points = [row for row in lines if row["method"] == name and row[value] is not None]
            look = figures.style(name.partition("+")[0]) | {"linestyle": "--" if "+" in name else "-"}
            look |= {"markerfacecolor": "white"} if "+" in name else {}
            bars = [2.0 * (row[f"{value}_se"] or 0.0) for row in points]
            ax.errorbar([row["share"] for row in points], [row[value] for row in points], bars, label=name, **look)
        ax.axhline(1.0, color="#8a8f98", linewidth=1.0)
        what = f"{value.partition('_')[0]} error / oracle's"
        figures.label(ax, "share of wrong loops", what, "plane" if planar else "space", log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """A line per setting and run: ratios to the oracle (mean, worst), the worst excess, verdicts, noise."""
    head = (
        "|wrong|run|n|failed|within 1.05|median|worst|rotation|worst|position|worst|gap of U|excess|precision|recall|all right"
        "|σ rot|σ trans|collapsed from truth|seconds|most"
    )
    lines = [head.split("|")]
    for row in result.table:
        names = ("ratio_median", "ratio_worst", "rotation_ratio", "rotation_ratio_worst", "position_ratio", "position_ratio_worst",
                 "gap_worst", "excess_worst", "precision", "recall", "all_right", "sigma_rot_ratio", "sigma_trans_ratio",
                 "truth_collapsed", "cpu_seconds", "cpu_seconds_worst")  # fmt: skip
        judged = row["precision"] is not None
        found = [
            "–" if row.get(name) is None or (name == "all_right" and not judged) else f"{row[name]:.3g}"
            for name in names
        ]
        where = "plane" if row["planar"] else "space"
        counts = [str(row[name]) for name in ("n", "failed", "within")]
        lines.append([where, f"{row['share']:g}", row["method"], *counts, *found])
    return text_table(lines, left=(0, 2))


def experiment(nodes: int, *, timed: bool = False, beside: int | None = None) -> Experiment:
    """The study at one size; with processor times, and GNC on fewer seeds, if that is asked for."""
    cells_of = partial(cells, nodes, beside)
    return Experiment(cells_of, partial(run, timed=timed), table, draw, text, methods=False, timed=timed)


EXPERIMENT = experiment(NODES)
