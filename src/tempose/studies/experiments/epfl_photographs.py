"""Photographs whose calibration is unknown, given, or from EXIF: errors beside COLMAP's mappers, and whether error bars are right.

The EPFL scenes from the same features and verified pairs: COLMAP's incremental mapper and GLOMAP with intrinsics refined (held
where they are given), and what ``tempose sfm`` makes of the incremental model. The amplitude of the lens fields that a scene is
judged with is as many times what its residuals show as makes the true cameras of the *other* scenes likeliest.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from tempose._typing import Array
from tempose.analysis.summary import tangent
from tempose.geometry import align
from tempose.io.colmap.model import model_poses, open_model
from tempose.model.poses import Poses
from tempose.sfm.adjustment.covariance import Covariance
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of
from tempose.sfm.adjustment.residual_fields import residual_amplitude
from tempose.sfm.adjustment.systematic import ModelError
from tempose.sfm.calibration import calibrate
from tempose.studies import figures, photographs
from tempose.studies.coverage import column
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text
from tempose.studies.experiments.epfl_bundle import BARS, GRID, KINDS, judged, left_out
from tempose.studies.store import Cell, Row

MAPPERS = ("incremental", "global")
OURS = "tempose"
METHODS = (*MAPPERS, OURS)


def cells(options: RunOptions) -> list[Cell]:
    """Every scene, whatever is known."""
    photographs.check_needs("epfl")
    scenes = photographs.QUICK if options.quick else photographs.SCENES
    return [{"known": known, "data": scene} for known, scene in itertools.product(photographs.KNOWN, scenes)]


def run(cell: Cell) -> list[Row]:
    """Errors of COLMAP's mappers and of ours, and how our error bars, plain and with their terms, fit the truth."""
    scene, known = cell["data"], cell["known"]
    model = open_model(photographs.mapped(scene, known, MAPPERS[0]))
    done = calibrate(model, photographs.refined(known), ModelError())
    return by_mappers(scene, known) + by_tempose(done.posterior, done.refined, scene, known)


def by_mappers(scene: str, known: str) -> list[Row]:
    """Errors of COLMAP's mappers."""
    rows: list[Row] = []
    for mapper in MAPPERS:
        model = open_model(photographs.mapped(scene, known, mapper))
        rows.append({"bars": mapper, **photographs.errors(model_poses(model), scene, scaled=True, known=known)})
    return rows


def by_tempose(found: BundlePosterior, refined: tuple[str, ...], scene: str, known: str) -> list[Row]:
    """Errors of ours, and how error bars fit the truth."""
    row: Row = {
        "bars": OURS,
        **photographs.errors(found.bundle.poses, scene, scaled=True, known=known),
        "camera_model": found.bundle.cameras[0].model,
        "refined": ",".join(refined),
        "clustering": found.clustering,
    }
    return [row, *error_bars(found, photographs.truth(scene, known))]


def error_bars(found: BundlePosterior, truth: Poses) -> list[Row]:
    """How plain, cluster-robust and whole error bars fit the true cameras, for all amplitudes of the lens fields."""
    bundle, loss_px = found.bundle, found.options.loss_px
    held = posterior_of(bundle, PosteriorOptions(loss_px=loss_px, error=ModelError(lens=0.0)))
    lens = posterior_of(bundle, PosteriorOptions(loss_px=loss_px, error=ModelError(lens=GRID[0], calibration=0.0)))
    plain = Covariance(held.noise.inverse, held.sigma_px**2, held.noise.columns[:, :0]).of_images
    off, noise = displaced(found, truth), held.noise.of_images
    rows = [judged(off, plain, BARS[0], 0.0), judged(off, noise, BARS[1], 0.0)]
    shown = residual_amplitude(held)
    for amplitude in GRID:
        total = noise + held.model.of_images + (amplitude / GRID[0]) ** 2 * lens.model.of_images
        rows.append(judged(off, total, BARS[2], amplitude) | {"shown": shown})
    return rows


def displaced(found: BundlePosterior, truth: Poses) -> Array:
    """Displacements (n, 6) of the true cameras, aligned with the estimate by rotation, scale and translation."""
    poses = found.bundle.poses
    true = truth.select(poses.ids)
    fit = align((true.wxyz, true.position), (poses.wxyz, poses.position), "sim3")
    return tangent(*fit.apply(true.wxyz, true.position), poses)


def table(rows: list[Row]) -> list[Row]:
    """Errors, then error bars of every scene and of all cameras."""
    return [row for row in rows if row["bars"] in METHODS] + left_out(rows, "known", photographs.KNOWN)


def draw(result: Result, home: Path) -> list[Path]:
    """Mean rotation errors by scene, a panel for each setting."""
    settings = list(dict.fromkeys(line["known"] for line in result.table))
    figure, axes = figures.panels(len(settings), width=3.6)
    names = list(dict.fromkeys(line["data"] for line in result.table if line["bars"] in METHODS))
    for ax, known in zip(axes, settings, strict=True):
        for method, colour in zip(METHODS, ("#4e79a7", "#f28e2b", "#6a3d9a"), strict=True):
            lines = [line for line in result.table if line["known"] == known and line["bars"] == method]
            at = [names.index(line["data"]) for line in lines]
            ax.plot(at, [line["mean_rotation_deg"] for line in lines], "o", color=colour, label=method)
        ax.set_yscale("log")
        ax.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=7)
        figures.label(ax, "", "mean rotation error, °" if known == settings[0] else "", told(known))
    axes[0].legend(fontsize=7)
    return figures.save(figure, home)


def told(known: str) -> str:
    """A setting in words."""
    return f"known: {known}" if known in photographs.KNOWN else known


def text(result: Result) -> str:
    """Errors by method, then true cameras inside the 95% regions and the mean squared error over its variance."""
    errors = [line for line in result.table if line["bars"] in METHODS]
    parts = []
    for name, what in (
        ("mean_rotation_deg", "rotation error, degrees"),
        ("mean_translation_m", "position error, metres"),
    ):
        lines = [
            {"scene": f"{told(one['known'])}, {one['data']}", "by": one["bars"], "error": one[name]} for one in errors
        ]
        parts.append(as_text(lines, "scene", "by", "error", f"mean {what}"))
    bars = [line for line in result.table if line["bars"] in BARS]
    for name, what in (("inside", "inside the 95% regions"), ("nees", "squared error over variance")):
        lines = [
            {
                "scene": f"{told(one['known'])}, {one['data']}, {kind}",
                "bars": one["bars"],
                "value": one[column(kind, 0.95)] if name == "inside" else one[f"nees_{kind}"],
            }
            for one in bars
            for kind in KINDS
        ]
        parts.append(as_text(lines, "scene", "bars", "value", what))
    chosen = [line for line in bars if line["lens_error"]]
    lens = [
        {"scene": f"{told(one['known'])}, {one['data']}", "what": name, "value": one[column_of]}
        for one in chosen
        for name, column_of in (("shown", "shown"), ("times, by the others", "factor"), ("lens error", "lens_error"))
    ]
    return "\n".join([*parts, as_text(lens, "scene", "what", "value", "lens")])


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
