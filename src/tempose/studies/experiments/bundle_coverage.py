"""Are the error bars of an adjusted model right, with unknown intrinsics? COLMAP's synthetic data sets, and a negative control."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support import streams
from tempose._support.packages import require
from tempose._typing import Array
from tempose.io.colmap.model import model_poses
from tempose.sfm.accuracy import camera_errors, point_errors
from tempose.sfm.adjusted import AdjustedOptions, adjust_database
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of
from tempose.sfm.adjustment.problem import USUAL, bundle_of
from tempose.sfm.adjustment.readjust import readjust
from tempose.sfm.adjustment.systematic import ModelError
from tempose.sfm.given import scene_of
from tempose.sfm.mapping import MappingOptions
from tempose.studies import figures, photographs
from tempose.studies.coverage import LEVELS, column, shares
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, over_seeds
from tempose.studies.store import Cell, Row

SETTINGS: dict[str, dict[str, Any]] = {
    "6 cameras": {"frames": 6, "points": 150, "noise_px": 0.3, "lens": "SIMPLE_RADIAL"},
    "10 cameras, 1 px": {"frames": 10, "points": 300, "noise_px": 1.0, "lens": "RADIAL"},
    "two lenses": {"frames": 5, "rigs": 2, "points": 200, "noise_px": 0.5, "lens": "SIMPLE_RADIAL"},
    "fisheye": {"frames": 8, "points": 200, "noise_px": 0.5, "lens": "OPENCV_FISHEYE"},
    "wrong matches": {"frames": 8, "points": 200, "noise_px": 0.3, "lens": "SIMPLE_RADIAL", "wrong": 0.03},
    "from matches": {"frames": 8, "points": 250, "noise_px": 0.5, "lens": "SIMPLE_RADIAL", "matches": 1.0},
    "from matches, a tenth wrong": {"frames": 9, "points": 250, "noise_px": 0.5, "lens": "RADIAL", "matches": 0.9},
}
"""Those from matches are databases, and go the whole way of ``tempose sfm``; the others are models, adjusted from the truth."""
CLAIMS = ("estimated", "taken as exact")
"""The calibration is found in the adjustment, or held at a focal length that is 1% off and believed: the negative control."""
KINDS = ("orientation", "position", "point", "focal")
PARAMETERS = {
    "SIMPLE_RADIAL": (1280.0, 512.0, 384.0, -0.1),
    "RADIAL": (1280.0, 512.0, 384.0, -0.1, 0.02),
    "OPENCV_FISHEYE": (640.0, 640.0, 512.0, 384.0, 0.02, 0.01, 0.0, 0.0),
}
_COLUMNS = tuple(column(kind, level) for kind in KINDS for level in LEVELS)
_OFF = {"estimated": 0.03, "taken as exact": 0.01}  # of the focal length where the adjustment starts


def cells(options: RunOptions) -> list[Cell]:
    """Data sets of every setting, adjusted in both ways."""
    photographs.check_needs()
    settings = list(SETTINGS)[:1] if options.quick else SETTINGS
    return [
        {"setting": name, **SETTINGS[name], "claim": claim, "seed": seed}
        for seed, name, claim in itertools.product(options.seed_list(24, 2), settings, CLAIMS)
    ]


def run(cell: Cell) -> list[Row]:
    """Share of the truths of one data set inside the regions of each level."""
    squared = squared_errors(cell)
    focal = {"focal": squared.pop("focal")}
    return [shares(squared, 3) | shares(focal, 1)]


def squared_errors(cell: Cell) -> dict[str, Array]:
    """Normalised errors of cameras, points and focal lengths of one data set."""
    return _from_matches(cell) if "matches" in cell else _from_a_model(cell)


def _from_matches(cell: Cell) -> dict[str, Array]:
    """Through the mapper and the choice of what is free, from a database that knows little of its camera."""
    pycolmap = require("pycolmap", "synthetic data sets")
    parameters = np.array(PARAMETERS[cell["lens"]])
    is_free = cell["claim"] == "estimated"
    options = pycolmap.SyntheticDatasetOptions(
        num_rigs=1,
        num_cameras_per_rig=1,
        num_frames_per_rig=cell["frames"],
        num_points3D=cell["points"],
        inlier_match_ratio=cell["matches"],
        camera_model_id=pycolmap.CameraModelId.__members__[cell["lens"]],
        camera_params=parameters.tolist(),
    )
    pycolmap.set_random_seed(cell["seed"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database.db"
        with pycolmap.Database.open(path) as database:
            truth = pycolmap.synthesize_dataset(options, database)
            noise = pycolmap.SyntheticNoiseOptions(point2D_stddev=cell["noise_px"])
            pycolmap.synthesize_noise(noise, truth, database)
            for camera in database.read_all_cameras():
                start = parameters.copy()
                start[0] *= 1.0 + _OFF[cell["claim"]]
                if is_free:
                    camera.model = pycolmap.CameraModelId.SIMPLE_RADIAL
                    start = np.array([*start[:3], 0.0])
                camera.params, camera.has_prior_focal_length = start, not is_free
                database.update_camera(camera)
        mapping = MappingOptions(refined=USUAL if is_free else (), verify=True)
        found = adjust_database(path, AdjustedOptions(mapping, error=ModelError(0.0, 0.0))).models[0]
    orientation, position = camera_errors(found.scene, model_poses(truth))
    return {
        "orientation": orientation,
        "position": position,
        "point": point_errors(found.scene, model_poses(truth), _true_points(found.model, found.posterior, truth)),
        "focal": _focal_errors(found.posterior, parameters) if is_free else np.zeros(0),
    }


def _true_points(model: Any, found: BundlePosterior, truth: Any) -> Array:
    """Where the points of a model are in truth (p, 3), by most of the image points of each; NaN where none has two."""
    of_image = {image.name: [p.point3D_id for p in image.points2D] for image in truth.images.values()}
    out = np.full((len(found.bundle.point_numbers), 3), np.nan)
    for row, number in enumerate(found.bundle.point_numbers.tolist()):
        seen = [(model.images[e.image_id].name, e.point2D_idx) for e in model.points3D[number].track.elements]
        (which, count), *_ = Counter(of_image[name][k] for name, k in seen).most_common(1)
        if count >= 2 and which in truth.points3D:
            out[row] = truth.points3D[which].xyz
    return out


def _from_a_model(cell: Cell) -> dict[str, Array]:
    pycolmap = require("pycolmap", "synthetic data sets")
    parameters = PARAMETERS[cell["lens"]]
    options = pycolmap.SyntheticDatasetOptions(
        num_rigs=cell.get("rigs", 1),
        num_cameras_per_rig=1,
        num_frames_per_rig=cell["frames"],
        num_points3D=cell["points"],
        num_points2D_without_point3D=0,
        camera_model_id=pycolmap.CameraModelId.__members__[cell["lens"]],
        camera_params=list(parameters),
    )
    pycolmap.set_random_seed(cell["seed"])
    model = pycolmap.synthesize_dataset(options)
    truth, points = model_poses(model), bundle_of(model).position
    rng = streams.generator(cell["seed"], "simulate")
    for image in model.images.values():
        for point in image.points2D:
            wide = 20.0 if rng.random() < cell.get("wrong", 0.0) else cell["noise_px"]
            point.xy = point.xy + wide * rng.standard_normal(2)
    is_free = cell["claim"] == "estimated"
    bundle = bundle_of(model)
    for camera in bundle.cameras:
        start = np.array(parameters)
        start[list(camera.lens.focal)] *= 1.0 + _OFF[cell["claim"]]
        if is_free:
            start[list(camera.lens.further)] = 0.0
        model.cameras[camera.number].params = start
    free = ("focal", "distortion") if is_free else ()
    loss_px = readjust(model, free)
    found = posterior_of(bundle_of(model, free), PosteriorOptions(loss_px=loss_px, error=ModelError(0.0, 0.0)))
    scene = scene_of(found, model)
    orientation, position = camera_errors(scene, truth)
    return {
        "orientation": orientation,
        "position": position,
        "point": point_errors(scene, truth, points),
        "focal": _focal_errors(found, np.array(parameters)) if is_free else np.zeros(0),
    }


def _focal_errors(found: Any, truth: Array) -> Array:
    """Squared errors over variances of the first focal length of each camera."""
    off = [camera.parameters[0] - truth[0] for camera in found.bundle.cameras]
    variance = [found.intrinsics_covariance(row)[0, 0] for row in range(len(off))]
    return np.asarray(np.square(off) / np.array(variance))


def table(rows: list[Row]) -> list[Row]:
    """Mean share over the data sets of every setting and claim, and over all settings; standard errors are over data sets."""
    everything = [{**row, "setting": "all"} for row in rows]
    return over_seeds([*rows, *everything], ["setting", "claim"], _COLUMNS)


def draw(result: Result, home: Path) -> list[Path]:
    """Coverage of each kind and level where the calibration is estimated, settings side by side."""
    figure, axes = figures.panels(len(KINDS), width=3.6)
    lines = [line for line in result.table if line["claim"] == CLAIMS[0]]
    for ax, kind in zip(axes, KINDS, strict=True):
        figures.coverage_dots(ax, lines, "setting", kind, LEVELS)
        figures.label(ax, "", "truths inside the 50, 80 and 95 % regions" if kind == KINDS[0] else "", f"{kind}s")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Coverage of all data sets, and of the control."""
    lines = [
        {
            "kind": f"{kind}, {level * 100:.0f}%",
            "claim": line["claim"],
            "share": line[name],
            "share_se": line[f"{name}_se"],
        }
        for line in result.table
        if line["setting"] == "all"
        for kind in KINDS
        for level in LEVELS
        for name in [column(kind, level)]
        if line.get(name) is not None
    ]
    return as_text(lines, "kind", "claim", "share", "inside, by what is claimed of the calibration")


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
