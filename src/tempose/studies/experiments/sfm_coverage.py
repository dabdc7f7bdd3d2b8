"""Are the error bars of cameras and points right? Data sets of COLMAP's own making, through the whole pipeline."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array, Index
from tempose.io.colmap.model import model_poses
from tempose.model.poses import Poses
from tempose.sfm.accuracy import camera_errors, point_errors
from tempose.sfm.options import SfmOptions
from tempose.sfm.pipeline import read_views, reconstruct_views
from tempose.sfm.scene import Scene
from tempose.sfm.synchronise import SyncOptions
from tempose.sfm.views import Views
from tempose.studies import figures, photographs
from tempose.studies.coverage import LEVELS, column, shares
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, over_seeds
from tempose.studies.store import Cell, Row

SETTINGS: dict[str, dict[str, Any]] = {
    "6 cameras": {"cameras": 6, "points": 150, "noise_px": 0.3, "source": "database"},
    "8 cameras, 1 px": {"cameras": 8, "points": 300, "noise_px": 1.0, "source": "database"},
    "short tracks": {"cameras": 10, "points": 400, "noise_px": 0.3, "source": "model", "track_length": 5},
    "few pairs": {"cameras": 10, "points": 200, "noise_px": 0.5, "source": "database", "missing_pairs": 0.5},
    "wrong matches": {"cameras": 8, "points": 200, "noise_px": 0.3, "source": "database", "right_matches": 0.8},
}
KINDS = ("orientation", "position", "point")
EXACT = SfmOptions(sync=SyncOptions(floor_rot_deg=0.0, floor_direction_deg=0.0), calibration_error=0.0)
"""For cameras that are calibrated perfectly, as those of COLMAP's data sets are."""
_COLUMNS = tuple(column(kind, level) for kind in KINDS for level in LEVELS)


def cells(options: RunOptions) -> list[Cell]:
    """Data sets of every setting."""
    photographs.check_needs()
    settings = list(SETTINGS)[:1] if options.quick else SETTINGS
    return [
        {"setting": name, **SETTINGS[name], "seed": seed}
        for seed, name in itertools.product(options.seed_list(12, 2), settings)
    ]


@dataclass(frozen=True, eq=False)
class Made:
    """A data set with its truth.

    Attributes
    ----------
    source
        Database, or folder of a model.
    poses
        True cameras.
    points
        True points (p, 3).
    label
        Per view, the true point (row of ``points``) of every keypoint that is read from ``source``; −1 for none.
    """

    source: Path
    poses: Poses
    points: Array
    label: tuple[Index, ...]


def make(folder: Path, cell: Cell) -> Made:
    """Synthesise a data set: cameras on a sphere of radius 5 around a cube of points of side 2, all looking inwards."""
    pycolmap = require("pycolmap", "synthetic data sets")
    options = pycolmap.SyntheticDatasetOptions(
        num_rigs=1,
        num_cameras_per_rig=1,
        num_frames_per_rig=cell["cameras"],
        num_points3D=cell["points"],
        track_length=cell.get("track_length", -1),
        inlier_match_ratio=cell.get("right_matches", 1.0),
        camera_has_prior_focal_length=True,
    )
    if "missing_pairs" in cell:
        options.match_config = pycolmap.SyntheticDatasetMatchConfig.SPARSE
        options.match_sparsity = cell["missing_pairs"]
    pycolmap.set_random_seed(cell["seed"])
    database = pycolmap.Database.open(folder / "database.db")
    model = pycolmap.synthesize_dataset(options, database)
    pycolmap.synthesize_noise(pycolmap.SyntheticNoiseOptions(point2D_stddev=cell["noise_px"]), model, database)
    database.close()
    model.write_text(folder)
    images = sorted(model.images.values(), key=lambda image: image.name)
    row = {point: k for k, point in enumerate(model.points3D)}
    label = [np.array([row.get(p.point3D_id, -1) for p in image.points2D], np.int64) for image in images]
    from_model = cell["source"] == "model"
    return Made(
        folder if from_model else folder / "database.db",
        model_poses(model).select([image.name for image in images]),
        np.array([point.xyz for point in model.points3D.values()]),
        tuple(labels[labels >= 0] if from_model else labels for labels in label),
    )


def run(cell: Cell) -> list[Row]:
    """Share of the true cameras and points of one data set inside the regions of each level."""
    return [shares(squared_errors(cell), 3)]


def squared_errors(cell: Cell) -> dict[str, Array]:
    """Normalised errors of the cameras and points of one data set."""
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder), cell)
        views = read_views(made.source, Path(folder) / "unused.db")
        scene = reconstruct_views(views, replace(EXACT, seed=cell["seed"])).scene
    which = true_points(scene, views, made.label)
    truth = np.where(which[:, None] >= 0, made.points[which], np.nan)
    return normalised_errors(scene, made.poses, truth)


def true_points(scene: Scene, views: Views, label: tuple[Index, ...]) -> Index:
    """Which true point (p,) each point is, by most of the keypoints it was made of; −1 where none has two."""
    o, used = scene.observations, scene.structure.used
    at = [views.names.index(str(name)) for name in scene.poses.ids]
    of_pixel = [dict(zip(map(bytes, views.keypoints[k]), label[k].tolist(), strict=True)) for k in at]
    out = np.full(o.n_points, -1)
    labels = np.array([of_pixel[c][bytes(x)] for c, x in zip(o.camera_of, o.pixel, strict=True)], np.int64)
    for p, (first, last) in enumerate(itertools.pairwise(o.first)):
        here = labels[first:last][used[first:last]]
        names, count = np.unique(here[here >= 0], return_counts=True)
        if len(names) and count.max() >= 2:
            out[p] = names[np.argmax(count)]
    return out


def normalised_errors(scene: Scene, truth: Poses, points: Array) -> dict[str, Array]:
    """Squared errors over covariances of the cameras and the good points; ``points`` as in :func:`point_errors`."""
    orientation, position = camera_errors(scene, truth)
    return {"orientation": orientation, "position": position, "point": point_errors(scene, truth, points)}


def table(rows: list[Row]) -> list[Row]:
    """Mean share over the data sets of every setting, and over all of them.

    Errors within a data set hang together; the standard error is over data sets, which do not.
    """
    everything = [{**row, "setting": "all"} for row in rows]
    return over_seeds([*rows, *everything], ["setting"], _COLUMNS)


def draw(result: Result, home: Path) -> list[Path]:
    """Coverage of each kind and level, settings side by side, with bars of two standard errors."""
    figure, axes = figures.panels(3, width=3.6)
    for ax, kind in zip(axes, KINDS, strict=True):
        figures.coverage_dots(ax, result.table, "setting", kind, LEVELS)
        figures.label(ax, "", "truths inside the 50, 80 and 95 % regions" if kind == KINDS[0] else "", f"{kind}s")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Coverage of all data sets."""
    lines = [
        {"kind": kind, "level": f"{100 * level:.0f}%", "share": line[name], "share_se": line[f"{name}_se"]}
        for line in result.table[-1:]
        for kind in KINDS
        for level in LEVELS
        for name in [column(kind, level)]
    ]
    return as_text(lines, "kind", "level", "share", f"inside, {result.table[-1]['n']} data sets")


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
