"""Photographs of which somebody else knows something: tourists' against a calibration, a toy against COLMAP, a drone's against GPS.

``reichstag``: ten photographs by ten cameras, against poses of a model of many more photographs; COLMAP's mappers beside ours.
``kermit``: nobody knows the truth; COLMAP's mappers, each with error bars of its own, against ours. ``drone``: GPS in EXIF, whose
residuals should be as large as expected. All by the default way of ``tempose sfm``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array
from tempose.analysis.accuracy import pose_errors
from tempose.analysis.regions import inside, squared_distance
from tempose.analysis.summary import tangent
from tempose.geometry import align
from tempose.geometry import quaternion as quat
from tempose.io.colmap.model import model_poses, open_model
from tempose.io.gps import exif_fixes
from tempose.model.poses import Poses
from tempose.sfm import georeference, gps_ties
from tempose.sfm.accuracy import camera_errors
from tempose.sfm.adjusted import AdjustedOptions, adjust_database
from tempose.sfm.given import GivenModel, with_error_bars
from tempose.sfm.mapping import MappingOptions
from tempose.sfm.scene import Scene
from tempose.studies import figures, photographs
from tempose.studies.experiment import DataMissing, Experiment, Result, RunOptions, as_text, data_folder
from tempose.studies.store import Cell, Row

DATA = ("reichstag", "kermit", "drone")
MAPPERS = ("incremental", "global")
KINDS = {"orientation": slice(0, 3), "position": slice(3, 6)}


def cells(options: RunOptions) -> list[Cell]:
    """Every folder of photographs."""
    photographs.check_needs("photos")
    return [{"data": name} for name in (("kermit",) if options.quick else DATA)]


def run(cell: Cell) -> list[Row]:
    """One or more lines of numbers."""
    name = cell["data"]
    database = photographs.others(name)
    made = adjust_database(database, AdjustedOptions(MappingOptions(verify=True))).models[0]
    if name == "reichstag":
        return against_truth(made, read_benchmark(data_folder("photos") / name / "calibration"))
    return against_gps(made) if name == "drone" else beside_mappers(made)


def against_truth(made: GivenModel, truth: Poses) -> list[Row]:
    """Errors of ours and of COLMAP's mappers, positions over the scatter of the true ones; regions of ours."""
    scatter = float(np.sqrt(np.mean(np.sum((truth.position - truth.position.mean(axis=0)) ** 2, axis=1))))
    rows: list[Row] = []
    for by in (*MAPPERS, "tempose"):
        poses = (
            made.scene.poses if by == "tempose" else model_poses(open_model(photographs.mapped_others("reichstag", by)))
        )
        turned, placed = (pose_errors(poses, truth, kind) for kind in ("sim3", "positions-sim3"))
        rows.append(
            {
                "by": by,
                "n": turned.n_nodes,
                "rotation_deg": turned.mean_rotation_deg,
                "position": placed.mean_translation / scatter,
            }
        )
    squared = dict(zip(KINDS, camera_errors(made.scene, truth), strict=True))
    rows[-1] |= judged(squared)
    return rows


def beside_mappers(made: GivenModel) -> list[Row]:
    """Differences of COLMAP's mappers from ours over both covariances; small is right, as they have the photographs in common."""
    rows: list[Row] = []
    for by in MAPPERS:
        other = with_error_bars(photographs.mapped_others("kermit", by)).scene
        off, C = differences(made.scene, other)
        squared = {kind: squared_distance(off[:, c], C[:, c, c]) for kind, c in KINDS.items()}
        scatter = np.sqrt(
            np.mean(np.sum((made.scene.poses.position - made.scene.poses.position.mean(axis=0)) ** 2, axis=1))
        )
        mean = {kind: float(np.mean(np.linalg.norm(off[:, c], axis=1))) for kind, c in KINDS.items()}
        row = {"by": by, "n": len(off), "rotation_deg": float(np.degrees(mean["orientation"]))}
        rows.append({**row, "position": mean["position"] / float(scatter), **judged(squared)})
    return rows


def differences(scene: Scene, other: Scene) -> tuple[Array, Array]:
    """Displacements (n, 6) of the cameras of both, aligned by rotation, scale and translation, and the sum of covariances."""
    both = [name for name in scene.poses.ids if name in other.poses.index]
    ours, theirs = scene.poses.select(both), other.poses.select(both)
    fit = align((theirs.wxyz, theirs.position), (ours.wxyz, ours.position), "sim3")
    R = quat.to_matrix(fit.wxyz)
    move = np.zeros((6, 6))
    move[:3, :3], move[3:, 3:] = R, fit.scale * R
    C = scene.camera_covariance[[scene.poses.index[name] for name in both]]
    C = C + move @ other.camera_covariance[[other.poses.index[name] for name in both]] @ move.T
    return tangent(*fit.apply(theirs.wxyz, theirs.position), ours), C


def judged(squared: dict[str, Array]) -> Row:
    """How many cameras are inside their 95% regions, and the mean squared error over its variance."""
    out: Row = {}
    for kind, values in squared.items():
        out |= {f"inside_{kind}": int(inside(values, 0.95, 3).sum()), f"nees_{kind}": float(np.mean(values)) / 3.0}
    return out


def against_gps(made: GivenModel) -> list[Row]:
    """Residuals of GPS in units of what they should be, and how well the scale is known."""
    fixes = exif_fixes(data_folder("photos") / "drone", made.posterior.bundle.names)
    if fixes is None:
        raise DataMissing("the photographs of the drone have no places in their EXIF")
    placed = georeference(
        made.scene, made.posterior, gps_ties(made.posterior, fixes), fixes.geodetic_origin, fixes.origin, bend=True
    )
    used = placed.sigmas[placed.used]
    flat, up = np.median(placed.ties.sigma[placed.used][:, [0, 2]], axis=0)
    return [
        {
            "by": "tempose",
            "n": len(placed.ties),
            "n_used": int(placed.used.sum()),
            "gps_sigma_horizontal_m": float(flat),
            "gps_sigma_vertical_m": float(up),
            "residual_sigmas": float(np.sqrt(np.mean(used**2))),
            "largest_sigmas": float(used.max()),
            "scale_sigma": placed.scale_sigma,
            "camera_sigma_m": float(np.median(placed.scene.camera_sigma[1])),
        }
    ]


def read_benchmark(folder: Path) -> Poses:
    """Poses of the image-matching benchmark: ``calibration_IMAGE.h5`` with R and T, ``camera_from_world``."""
    h5py = require("h5py", "the calibration of reichstag")
    names, wxyz, t = [], [], []
    for path in sorted(folder.glob("calibration_*.h5")):
        with h5py.File(path) as file:
            names.append(f"{path.stem.removeprefix('calibration_')}.jpg")
            wxyz.append(quat.from_matrix(file["R"][()]))
            t.append(np.ravel(file["T"][()]))
    return Poses.from_node_from_world(tuple(names), np.array(wxyz), np.array(t))


def table(rows: list[Row]) -> list[Row]:
    """As they are."""
    return rows


def draw(result: Result, home: Path) -> list[Path]:
    """Mean squared errors over their variances."""
    lines = [line for line in result.table if "nees_position" in line]
    figure, (ax,) = figures.panels(1, width=4.2)
    ax.axhline(1.0, color="#8a8f98", linewidth=1.0)
    names = [f"{line['data']}, {line['by']}" for line in lines]
    for kind, mark in zip(KINDS, "os", strict=True):
        ax.plot(range(len(names)), [line[f"nees_{kind}"] for line in lines], mark, fillstyle="none", label=f"{kind}s")
    ax.set_yscale("log")
    ax.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=7)
    figures.label(ax, "", "squared error over variance", "")
    ax.legend(fontsize=7)
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Every number of every line."""
    skipped = ("data", "by")
    lines: list[dict[str, Any]] = [
        {"what": f"{line['data']}, {line['by']}", "number": name, "value": float(value)}
        for line in result.table
        for name, value in line.items()
        if name not in skipped and value is not None
    ]
    names = dict.fromkeys(line["what"] for line in lines)
    parts = [as_text([one for one in lines if one["what"] == name], "number", "what", "value", "") for name in names]
    return "\n".join(parts)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
