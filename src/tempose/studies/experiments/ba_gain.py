"""Bundle adjustment from a spanning tree against bundle adjustment from our poses (the paper's Table 2).

The tracks are the same for all starts: matches that agree with their pair's own relative pose, joined; no start has chosen
them. From each start, rounds of points, filter and least squares follow until nothing changes. The starts are compared at
one objective: the robust cost of the observations that agree with the best result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempose.model.poses import Poses
from tempose.optimum.trees import most_certain_tree, tree_poses
from tempose.sfm.bundle import ALL_VIEWS, Round, adjust_until_stable, bare_scene
from tempose.sfm.points import Observations, projections, reconstruct
from tempose.sfm.scene import Scene
from tempose.studies import figures, photographs
from tempose.studies import real_data as real
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text
from tempose.studies.store import Cell, Row

STARTS = ("plain tree", "tree", "sfm")
"""The tree of most matches of pairs as COLMAP stores them; the most certain tree of adjusted pairs; all pairs synchronised."""

WITHIN = 0.01
"""A start has arrived when its cost is within this share of the best."""
_LOSS_PX = 1.0


def cells(options: RunOptions) -> list[Cell]:
    """Scenes; all starts of one together, as they are compared with the best of them."""
    photographs.check_needs("epfl")
    names = photographs.QUICK if options.quick else photographs.SCENES
    return [{"data": name, "seed": options.seed} for name in names]


# ---------------------------------------------------------------------- starts


def start(scene: str, kind: str) -> Poses:
    """Poses of one of :data:`STARTS`; all have the lengths of baselines that were estimated for all pairs."""
    found = photographs.motion(scene, "tracks").synchronised
    if kind == "sfm":
        return found.poses
    first = photographs.first_graph(scene)
    if kind == "tree":
        return tree_poses(first, most_certain_tree(first))
    stored = photographs.stored_pairs(scene)
    ends = [(first.node_ids[i], first.node_ids[j]) for i, j in zip(first.edge_i, first.edge_j, strict=True)]
    there = [stored.get(pair) for pair in ends]
    matches = np.array([0.0 if pair is None else float(pair.n_matches) for pair in there])
    chosen = first.spanning_tree(np.where(first.has_translation, matches, 1e-6 * matches))
    wxyz, t = first.j_from_i_wxyz.copy(), first.j_from_i_t.copy()
    for edge in chosen.edge[chosen.edge >= 0]:
        pair = there[edge]
        if pair is not None:  # else no tree of stored pairs reaches this view, and it has the adjusted pair
            wxyz[edge], t[edge] = pair.wxyz, np.linalg.norm(t[edge]) * pair.direction
    return tree_poses(replace(first, j_from_i_wxyz=wxyz, j_from_i_t=t), chosen)


# ---------------------------------------------------------------------- one objective for all


@dataclass(frozen=True, eq=False)
class Objective:
    """Robust cost of given observations as a function of the poses alone: the points are at their optimum."""

    seen: Observations
    intrinsics: NDArray[np.float64]

    @classmethod
    def of(cls, scene: Scene, used: NDArray[np.bool_]) -> Objective:
        """Of the observations that took part in a round."""
        o = scene.observations
        point = np.unique(o.point_of[used], return_inverse=True)[1].reshape(-1)
        return cls(Observations.sorted_by_point(point, o.camera_of[used], o.pixel[used]), scene.intrinsics)

    def __call__(self, poses: Poses) -> float:
        """``Σ ½c² log(1 + r²/c²)`` with c = 1 px; a point that no place explains has residuals of image size."""
        o = self.seen
        point = reconstruct(poses, self.intrinsics, o, (), ALL_VIEWS).position[o.point_of]
        P = projections(self.intrinsics, poses.wxyz, poses.position)[o.camera_of]
        x = np.einsum("kab,kb->ka", P[:, :, :3], point) + P[:, :, 3]
        with np.errstate(invalid="ignore", divide="ignore"):
            square = np.sum((x[:, :2] / x[:, 2:] - o.pixel) ** 2, axis=1)
        square = np.where(np.isfinite(square), square, 1e6)
        return float(0.5 * _LOSS_PX**2 * np.sum(np.log1p(square / _LOSS_PX**2)))


def run(cell: Cell) -> list[Row]:
    """All starts on one scene, each until it has settled."""
    scene = cell["data"]
    ours = photographs.motion(scene, "tracks").synchronised.poses
    tracks = bare_scene(photographs.views(scene), photographs.first_pairs(scene), ours)
    starts = {kind: start(scene, kind).select(ours.ids) for kind in STARTS}
    rounds = {kind: list(adjust_until_stable(tracks, poses)) for kind, poses in starts.items()}
    best = max(rounds.values(), key=lambda done: int(done[-1].used.sum()))
    objective = Objective.of(tracks, best[-1].used)
    costs = {kind: [objective(r.adjustment.poses) for r in done] for kind, done in rounds.items()}
    goal = min(cost for many in costs.values() for cost in many) * (1.0 + WITHIN)
    begun = {kind: photographs.errors(poses, scene, scaled=True) for kind, poses in starts.items()}
    return [
        {
            "start": kind,
            **_spent(done, costs[kind], goal),
            "initial_cost": objective(starts[kind]),
            "start_rotation_deg": begun[kind]["mean_rotation_deg"],
            "start_translation_m": begun[kind]["mean_translation_m"],
            **photographs.errors(done[-1].adjustment.poses, scene, scaled=True),
        }
        for kind, done in rounds.items()
    ]


def _spent(done: list[Round], costs: list[float], goal: float) -> Row:
    """Rounds, steps and seconds until nothing changes, and until the cost is at the goal."""
    seconds = np.cumsum([r.seconds for r in done])
    steps = np.cumsum([r.adjustment.n_iterations for r in done])
    near = next((k for k, cost in enumerate(costs) if cost <= goal), None)
    return {
        "rounds": len(done),
        "iterations": int(steps[-1]),
        "seconds": float(seconds[-1]),
        "point_seconds": sum(r.point_seconds for r in done),
        "rounds_near": None if near is None else near + 1,
        "iterations_near": None if near is None else int(steps[near]),
        "seconds_near": None if near is None else float(seconds[near]),
        "first_observations": int(done[0].used.sum()),
        "observations": int(done[-1].used.sum()),
        "final_cost": costs[-1],
        "status": "settled" if done[-1].stable else "out of rounds",
    }


# ---------------------------------------------------------------------- what is shown


def table(rows: list[Row]) -> list[Row]:
    """Seconds and iterations of all starts, and the gain: seconds from a tree over seconds from our poses."""
    lines = real.columns(
        rows,
        (
            "data",
            "start",
            "start_rotation_deg",
            "start_translation_m",
            "rounds",
            "iterations",
            "seconds",
            "point_seconds",
            "rounds_near",
            "iterations_near",
            "seconds_near",
            "first_observations",
            "observations",
            "initial_cost",
            "final_cost",
            "mean_rotation_deg",
            "mean_translation_m",
            "status",
        ),
    )
    ours = {line["data"]: line for line in lines if line["start"] == "sfm"}
    for line in lines:
        for gain, value in (("gain", "seconds"), ("gain_near", "seconds_near")):
            spent, other = line[value], ours[line["data"]][value]
            line[gain] = spent / other if line["start"] != "sfm" and spent and other else None
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Seconds and steps from all starts, by scene."""
    figure, axes = figures.panels(2, width=4.2)
    for ax, value, unit in ((axes[0], "seconds", "processor seconds"), (axes[1], "iterations", "iterations")):
        names = list(dict.fromkeys(row["data"] for row in result.table))
        for kind, colour in zip(STARTS, ("#8a8f98", "#4e79a7", "#d62728"), strict=True):
            of = {row["data"]: row[value] for row in result.table if row["start"] == kind}
            ax.plot(range(len(names)), [of.get(n) for n in names], "o-", color=colour, label=f"from {kind}")
        ax.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
        figures.label(ax, "", unit, log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Seconds, steps and final costs by scene."""
    return "\n\n".join(
        as_text(result.table, "start", "data", value, value.replace("_", " "))
        for value in ("start_rotation_deg", "rounds", "iterations", "seconds", "gain", "gain_near", "final_cost")
    )


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False, timed=True)
