"""Are the error bars of planar graphs right on real trajectories? True relative poses inside the regions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose._typing import Array
from tempose.analysis.accuracy import pose_errors
from tempose.analysis.regions import squared_distance
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io import ReadOptions, read_graph
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.solver import solve
from tempose.studies import figures
from tempose.studies.coverage import LEVELS, column, shares
from tempose.studies.experiment import Experiment, Result, RunOptions, data_folder
from tempose.studies.store import Cell, Row

MIRRORED = "kitti_00, sideways motion mirrored"
"""Its odometry moves sideways against the truth and against its own loops (correlation −0.80 and 0.999): put right here, to see."""
DATA = ("manhattanOlson3500", "kitti_00", MIRRORED)
NOISE = ("given", "auto")
PAIRS_OF = ("neighbours", "100 nodes apart", "any two", "seen from the first")
"""Kinds of pairs."""
PAIRS = 400


@cache
def scene(name: str, precision: str) -> tuple[PoseGraph, Poses]:
    """A planar graph and its true poses."""
    folder, file = data_folder("g2o2d"), name.split(",")[0]
    graph = read_graph(folder / f"{file}.g2o", ReadOptions(precision=precision))
    truth = (
        _chained(folder / f"{file}_groundtruth.txt") if file != "kitti_00" else _kitti(folder / f"{file}_truth.kitti")
    )
    return _mirrored(graph) if name == MIRRORED else graph, truth.select(graph.node_ids)


def _mirrored(graph: PoseGraph) -> PoseGraph:
    """The graph with the other sign of the sideways motion between consecutive nodes."""
    t = graph.j_from_i_t.copy()
    t[graph.edge_i == graph.edge_j + 1, 1] *= -1.0
    return replace(graph, j_from_i_t=t)


def _chained(path: Path) -> Poses:
    """Poses from the consecutive edges of a file of noise-free lines ``EDGE2 i j x y θ …``."""
    rows = [line.split()[1:6] for line in path.read_text().splitlines() if line.startswith("EDGE2")]
    steps = {int(row[0]): np.array(row[2:], dtype=float) for row in rows if int(row[1]) == int(row[0]) + 1}
    heading, position, poses = 0.0, np.zeros(2), [(0.0, 0.0, 0.0)]
    for k in range(len(steps)):
        x, y, turn = steps[k]
        c, s = np.cos(heading), np.sin(heading)
        position = position + np.array([c * x - s * y, s * x + c * y])
        heading += turn
        poses.append((*position, heading))
    return _planar(np.array(poses))


def _kitti(path: Path) -> Poses:
    """KITTI's rows 3×4 of world_from_camera seen from above: x is the camera's z, y is minus the camera's x."""
    rows = np.loadtxt(path).reshape(-1, 3, 4)
    return _planar(np.column_stack([rows[:, 2, 3], -rows[:, 0, 3], np.arctan2(-rows[:, 0, 2], rows[:, 2, 2])]))


def _planar(poses: Array) -> Poses:
    """Poses of rows x, y, θ."""
    zero, half = np.zeros(len(poses)), 0.5 * poses[:, 2]
    wxyz = np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)
    return Poses(tuple(range(len(poses))), wxyz, np.column_stack([poses[:, :2], zero]))


def cells(options: RunOptions) -> list[Cell]:
    """Graphs × noise × what is kept of the precisions."""
    data_folder("g2o2d")
    names = DATA[:1] if options.quick else DATA
    return [
        {"data": name, "noise": noise, "precision": precision, "seed": options.seed}
        for name, noise, precision in itertools.product(names, NOISE, ("isotropic", "full"))
        if name.startswith("kitti_00") or precision == "isotropic"  # Manhattan's blocks are multiples of the identity
    ]


def run(cell: Cell) -> list[Row]:
    """One row for each kind of pairs: true relative poses inside the regions, errors, and the noise found."""
    graph, truth = scene(cell["data"], cell["precision"])
    solution = solve(graph, draws=0, noise=cell["noise"], seed=cell["seed"], analyse=False)
    errors = pose_errors(solution.estimate, truth, landmarks=graph.landmarks)
    laplace = solution.laplace
    if laplace is None:
        return [{"status": "no Gaussian approximation"}]
    rng = streams.generator(cell["seed"], "resample")
    rows: list[Row] = []
    for kind in PAIRS_OF:
        squared = []
        for a, b in _pairs(graph.n_nodes, kind, rng):
            found = laplace.relative(graph.node_ids[a], graph.node_ids[b])
            q, t = se3.a_from_b((truth.wxyz[a], truth.position[a]), (truth.wxyz[b], truth.position[b]))
            error = np.concatenate([quat.log(quat.multiply(q, quat.conjugate(found.mean[0]))), t - found.mean[1]])
            axes = graph.axes
            squared.append(float(squared_distance(error[axes], found.covariance[np.ix_(axes, axes)])))
        rows.append(
            {
                "pairs": kind,
                **shares({"pose": np.array(squared)}, 3),
                "median_squared": float(np.median(squared)),
                "reduced_chi_square": solution.reduced_chi_square,
                "mean_rotation_deg": errors.mean_rotation_deg,
                "mean_translation": errors.mean_translation,
                "certified": solution.certificate is not None and bool(solution.certificate.certified),
            }
        )
    return rows


def _pairs(n: int, kind: str, rng: np.random.Generator) -> list[tuple[int, int]]:
    if kind == "any two":
        return [(int(a), int(b)) for a, b in (rng.choice(n, 2, replace=False) for _ in range(PAIRS))]
    if kind == "seen from the first":
        return [(0, int(b)) for b in 1 + rng.choice(n - 1, PAIRS, replace=False)]
    reach = 1 if kind == "neighbours" else 100
    return [(int(a), int(a) + reach) for a in rng.choice(n - reach, PAIRS, replace=False)]


def table(rows: list[Row]) -> list[Row]:
    """As they come."""
    return rows


def draw(result: Result, home: Path) -> list[Path]:
    """Share inside against the stated probability, one line for each setting."""
    figure, axes = figures.panels(len(PAIRS_OF), width=3.2)
    for ax, kind in zip(axes, PAIRS_OF, strict=True):
        ax.plot([0, 1], [0, 1], color="#8a8f98", linewidth=1.0)
        for line in result.table:
            if line.get("pairs") != kind:
                continue
            found = [line[column("pose", level)] for level in LEVELS]
            ax.plot(LEVELS, found, "o-", label=f"{line['data']}, {line['precision']}, noise {line['noise']}")
        ax.set_ylim(0.0, 1.02)
        figures.label(ax, "stated probability", "true poses inside" if kind == PAIRS_OF[0] else "", kind)
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """What share of the true relative poses is inside, for each kind of pairs."""
    head = ("graph", "precision", "noise", "pairs", *(f"{100 * level:.0f} %" for level in LEVELS), "χ²", "error")
    lines = [list(head)]
    for line in result.table:
        if "pairs" not in line:
            lines.append([line["data"], line["precision"], line["noise"], line["status"], *[""] * (len(LEVELS) + 2)])
            continue
        found = [f"{line[column('pose', level)]:.3f}" for level in LEVELS]
        error = f"{line['mean_rotation_deg']:.3g}°, {line['mean_translation']:.3g}"
        chi = f"{line['reduced_chi_square']:.3g}"
        lines.append([line["data"], line["precision"], line["noise"], line["pairs"], *found, chi, error])
    return text_table(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
