"""Bundle adjustment from a spanning tree against bundle adjustment from our poses (the paper's Table 2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tempose.experiments import figures, photographs, real
from tempose.experiments.base import Cell, Experiment, Result, Row, RunOptions, as_text
from tempose.geometry import quaternion as quat
from tempose.optimum.starts import most_certain_tree, tree_poses
from tempose.poses import Poses
from tempose.sfm.adjust import AdjustOptions, adjust
from tempose.sfm.cameras import require_pycolmap
from tempose.sfm.motion import lengths
from tempose.sfm.options import SfmOptions
from tempose.sfm.refine import start_scene
from tempose.sfm.scene import Scene
from tempose.sfm.structure import GOOD, Observations, StructureOptions, reconstruct
from tempose.sfm.synchronise import Edges
from tempose.sfm.twoview import PairOptions, pinhole, ransac_pair

STARTS = ("plain tree", "tree", "sfm")
"""A tree of pairs as RANSAC at COLMAP's default 4 pixels leaves them; one of adjusted pairs; all pairs synchronised."""
_ANY = StructureOptions(max_residual_px=1e6, min_angle_deg=0.0)


def cells(options: RunOptions) -> list[Cell]:
    """Scenes × starts."""
    photographs.check_needs("epfl")
    names = photographs.QUICK if options.quick else photographs.SCENES
    return [{"data": name, "seed": options.seed, "start": start} for name in names for start in STARTS]


def tree(scene: str) -> Poses:
    """Poses chained along the spanning tree of the most certain pairs, baselines as estimated."""
    views, first = photographs.views(scene), photographs.motion(scene, "tracks").first
    options = SfmOptions()
    graph = Edges.of_largest_part(views.names, first, *lengths(views, first, options), options.sync).graph()
    return tree_poses(graph, most_certain_tree(graph))


def plain_tree(scene: str) -> Poses:
    """Poses chained along the tree of most matches, pairs without two-view adjustment; baselines as estimated for ours."""
    pycolmap = require_pycolmap("two-view geometry")
    views, found = photographs.views(scene), photographs.motion(scene, "tracks").synchronised
    base = found.edges.base
    matches = {tuple(pair): match for pair, match in zip(views.pairs.tolist(), views.matches, strict=True)}
    rows = [views.names.index(str(name)) for name in base.node_ids]
    ends = [(rows[i], rows[j]) for i, j in zip(base.edge_i, base.edge_j, strict=True)]
    chosen = base.spanning_tree(np.array([float(len(matches[pair])) for pair in ends]))
    wxyz, t = base.j_from_i_wxyz.copy(), base.j_from_i_t.copy()
    for edge in chosen.edge[chosen.edge >= 0]:
        i, j = ends[edge]
        match = matches[i, j]
        pixels = views.keypoints[i][match[:, 0]], views.keypoints[j][match[:, 1]]
        cameras = pinhole(pycolmap, views.K[i], views.size[i]), pinhole(pycolmap, views.K[j], views.size[j])
        start = ransac_pair(pycolmap, cameras, pixels, PairOptions(ransac_px=4.0), 0)
        if start is not None:
            wxyz[edge], t[edge] = quat.from_matrix(start[0]), np.linalg.norm(t[edge]) * start[1]
    return tree_poses(replace(base, j_from_i_wxyz=wxyz, j_from_i_t=t), chosen)


def common_observations(scene: str) -> Scene:
    """Points of three or more views that agree with our poses: what both starts are adjusted to."""
    views, ours = photographs.views(scene), photographs.motion(scene, "tracks").synchronised.poses
    made = start_scene(views, ours)
    o, s = made.observations, made.structure
    kept = s.used & (s.status[o.point_of] == GOOD)
    point = np.unique(o.point_of[kept], return_inverse=True)[1].reshape(-1)
    seen = Observations.sorted_by_point(point, o.camera_of[kept], o.pixel[kept])
    return replace(made, observations=seen, structure=reconstruct(ours, made.intrinsics, seen, (), _ANY))


def run(cell: Cell) -> list[Row]:
    """Least squares over points, and over points and poses, from one start."""
    made = common_observations(cell["data"])
    if cell["start"] != "sfm":
        poses = (tree if cell["start"] == "tree" else plain_tree)(cell["data"]).select(made.poses.ids)
        made = replace(made, poses=poses, structure=reconstruct(poses, made.intrinsics, made.observations, (), _ANY))
    rows = []
    for free in ("points", "all"):
        found = adjust(made, AdjustOptions(free=free, max_iterations=500, function_tolerance=1e-6))
        rows.append({
            "free": free, "points": made.structure.counts()["good"], "of_points": made.observations.n_points,
            "seconds": found.seconds, "iterations": found.n_iterations, "initial_cost": found.initial_cost,
            "final_cost": found.final_cost, "status": found.status,
            **photographs.errors(found.poses, cell["data"], scaled=True),
        })  # fmt: skip
    return rows


def table(rows: list[Row]) -> list[Row]:
    """Seconds and iterations of both starts, and the gain: seconds from the tree over seconds from our poses."""
    lines = real.columns(
        rows,
        ("data", "start", "free", "points", "of_points", "seconds", "iterations", "initial_cost", "final_cost",
         "mean_rotation_deg", "mean_translation_m", "status"),
    )  # fmt: skip
    ours = {(line["data"], line["free"]): line for line in lines if line["start"] == "sfm"}
    for line in lines:
        other = ours.get((line["data"], line["free"]))
        line["gain"] = line["seconds"] / other["seconds"] if other and line["start"] != "sfm" else None
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Seconds from both starts, by scene."""
    figure, axes = figures.panels(2, width=4.2)
    for ax, value, unit in ((axes[0], "seconds", "seconds"), (axes[1], "iterations", "iterations")):
        rows = [row for row in result.table if row["free"] == "all"]
        names = list(dict.fromkeys(row["data"] for row in rows))
        for start, colour in (("plain tree", "#8a8f98"), ("tree", "#4e79a7"), ("sfm", "#d62728")):
            of = {row["data"]: row[value] for row in rows if row["start"] == start}
            ax.plot(range(len(names)), [of.get(n) for n in names], "o-", color=colour, label=f"from {start}")
        ax.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
        figures.label(ax, "", f"bundle adjustment, {unit}", log_y=True)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Seconds and final costs by scene."""
    rows = [{**row, "line": f"{row['free']} from {row['start']}"} for row in result.table]
    return "\n\n".join(as_text(rows, "line", "data", value, value) for value in ("seconds", "iterations", "final_cost"))


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False, timed=True)
