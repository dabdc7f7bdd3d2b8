"""Rotation and translation error of every method on five real scans of rooms (3DMatch)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from tempose._typing import Mask
from tempose.io import ReadOptions, read_graph, read_poses
from tempose.methods.base import Estimate
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.studies import figures
from tempose.studies import real_data as real
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, data_folder
from tempose.studies.store import Cell, Row

SCENES = {
    "redkitchen": "7-scenes-redkitchen-evaluation",
    "hotel_uc": "sun3d-hotel_uc-scan3-evaluation",
    "hotel1": "sun3d-hotel_umd-maryland_hotel1-evaluation",
    "home_at": "sun3d-home_at-home_at_scan1_2013_jan_1-evaluation",
    "studyroom": "sun3d-mit_76_studyroom-76-1studyroom2-evaluation",
}
"""Folder of each scene, by falling share of right edges: 0.93, 0.81, 0.69, 0.57, 0.35."""

ALL_SCENES = {
    **SCENES,
    "livingroom1": "iclnuim-livingroom1-evaluation",
    "office1": "iclnuim-office1-evaluation",
}
"""The same and two rendered ones."""

QUICK = ("hotel_uc",)
# chosen on: 3DMatch, all five scenes
SIGMA_DEG, SIGMA = 2.0, 0.05
"""Stated noise, about that of the right registrations: degrees and metres."""
INLIER_DEG, INLIER = 15.0, 0.3
"""A right registration is within these of the truth: degrees and metres."""


@cache
def scene(name: str) -> tuple[PoseGraph, Poses]:
    """Measured registrations and true poses; the truth of fragments that it does not connect is unknown."""
    path = data_folder("threedmatch") / ALL_SCENES[name]
    return read_graph(path, ReadOptions(sigma_rot_deg=SIGMA_DEG, sigma_trans=SIGMA)), read_poses(path)


def cells(options: RunOptions) -> list[Cell]:
    """Scenes × methods, with the oracle and with trusted odometry."""
    data_folder("threedmatch")
    return real.method_cells(options, QUICK if options.quick else tuple(SCENES), ("robust+odometry", "gnc", "oracle"))


def run(cell: Cell) -> list[Row]:
    """One method on one scan."""
    chosen, found = real.method(cell, real.oracle(INLIER_DEG, INLIER)), []

    def watched(graph: PoseGraph, truth: Poses) -> Estimate:
        found.append(chosen(graph, truth))
        return found[0]

    graph, truth = scene(cell["data"])
    row = real.measure(watched, graph, truth)
    return [{**row, **_rejection(graph, truth, found[0].poses)} if found else row]


def _rejection(graph: PoseGraph, truth: Poses, estimate: Poses) -> Row:
    """Of the edges that the estimate contradicts, which share is wrong; and of the wrong ones, which share it contradicts."""
    known = [k for k, name in enumerate(graph.node_ids) if name in truth.index and name in estimate.index]
    part = graph.subgraph(known)
    wrong, rejected = (~agreeing(part, poses.select(part.node_ids)) for poses in (truth, estimate))
    both = float(np.sum(wrong & rejected))
    return {
        "rejected": int(rejected.sum()),
        "precision": both / float(rejected.sum()) if rejected.any() else None,
        "recall": both / float(wrong.sum()) if wrong.any() else None,
    }


def agreeing(graph: PoseGraph, poses: Poses) -> Mask:
    """Which edges (m,) are within 15° and 0.3 m of poses; if these are the truth, the right ones."""
    left = residuals(graph, poses)
    near = (np.degrees(left.angle) < INLIER_DEG) & (np.linalg.norm(left.translation, axis=1) < INLIER)
    return np.asarray(near)


def table(rows: list[Row]) -> list[Row]:
    """Errors of rotations and translations, and of the edges that an estimate contradicts by 15° or 0.3 m."""
    names = (
        "mean_rotation_deg",
        "median_rotation_deg",
        "mean_translation",
        "median_translation",
        "mean_rotation_deg_l2",
        "rejected",
        "precision",
        "recall",
    )
    return real.columns(rows, ("data", "method", "n_compared", *names, "status", "message"))


def draw(result: Result, home: Path) -> list[Path]:
    """A column per scene: rotations above, translations below; circles are means, bars medians."""
    shown = [name for name in SCENES if real.of(result.table, name)]
    figure, axes = figures.panels(len(shown), 2, width=2.5 if len(shown) > 1 else 4.0, height=3.4)
    for k, ax in enumerate(axes):
        what, unit = ("rotation_deg", "degrees") if k < len(shown) else ("translation", "metres")
        name = shown[k % len(shown)]
        real.dots(
            ax, real.of(result.table, name), {f"mean_{what}": "o", f"median_{what}": "|"}, names=k % len(shown) == 0
        )
        figures.label(ax, f"{what.partition('_')[0]} error, {unit}", "", name if k < len(shown) else "")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Mean rotation and translation errors after L1 alignment, by method and scene."""
    return "\n\n".join(
        as_text(result.table, "method", "data", value, f"mean {what}, L1 alignment")
        for value, what in (("mean_rotation_deg", "rotation error °"), ("mean_translation", "translation error m"))
    )


EXPERIMENT = Experiment(cells, run, table, draw, text, seeds=False)
