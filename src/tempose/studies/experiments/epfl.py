"""Rotation and position errors on the six EPFL scenes from the photographs, beside the paper's Table 1 and COLMAP."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose.errors import NotApplicable
from tempose.io.colmap.model import model_poses
from tempose.methods import METHODS
from tempose.model.poses import Poses
from tempose.paper import TABLE_1
from tempose.sfm.bundle import adjust_in_rounds
from tempose.sfm.lengths import baseline_lengths
from tempose.sfm.options import SfmOptions
from tempose.sfm.synchronise import Edges
from tempose.studies import figures, photographs
from tempose.studies import real_data as real
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text
from tempose.studies.store import Cell, Row

STAGES = ("truth", "tracks", "adjusted", "glomap", "incremental")
"""Cameras by true lengths of baselines, by estimated ones, bundle adjustment from there, and COLMAP's mappers."""


def cells(options: RunOptions) -> list[Cell]:
    """Scenes × stages."""
    photographs.check_needs("epfl")
    names = photographs.QUICK if options.quick else photographs.SCENES
    return [{"data": name, "seed": options.seed, "stage": stage} for name in names for stage in STAGES]


def run(cell: Cell) -> list[Row]:
    """All that starts from one scene and one kind of scales, or one of COLMAP's mappers."""
    if cell["stage"] in ("truth", "tracks"):
        return _ours(cell["data"], cell["stage"])
    if cell["stage"] == "adjusted":
        return _adjusted(cell["data"])
    return _colmap(cell["data"], cell["stage"])


def _ours(scene: str, scales: str) -> list[Row]:
    """Every method on the pairs as they come from their matches, and ours with guided rounds."""
    scaled = scales == "tracks"
    motion, views = photographs.motion(scene, scales), photographs.views(scene)
    options = SfmOptions(scales=scales)
    scale, sigma = baseline_lengths(views, motion.first, options.scale, options.true_poses(photographs.truth(scene)))
    # the paper's σ² is a number without a unit: the median baseline is the unit of length for every method
    unit = float(np.nanmedian(scale))
    graph = Edges.of_largest_part(views.names, motion.first, scale / unit, sigma, options.sync).graph()
    rows: list[Row] = []
    for name, (method, *_) in METHODS.items():
        try:
            found = method(graph).poses
        except NotApplicable as why:
            rows.append({"method": name, "status": "left out", "message": str(why)})
            continue
        poses = Poses(found.ids, found.wxyz, unit * found.position)
        rows.append({"method": name, **photographs.errors(poses, scene, scaled=scaled), "status": "finished"})
    ours = motion.synchronised.poses
    rows.append({"method": "sfm", **photographs.errors(ours, scene, scaled=scaled), "status": "finished"})
    return rows


def _adjusted(scene: str) -> list[Row]:
    """Bundle adjustment from our cameras with estimated scales."""
    ours = photographs.motion(scene, "tracks").synchronised.poses
    adjusted = adjust_in_rounds(photographs.views(scene), ours)[-1]
    found = photographs.errors(adjusted.poses, scene, scaled=True)
    return [{"method": "sfm + BA", **found, "status": adjusted.status}]


def _colmap(scene: str, stage: str) -> list[Row]:
    """One of COLMAP's mappers on the same matches, with its default verification and fixed intrinsics."""
    pycolmap = require("pycolmap", "COLMAP's mappers")
    pycolmap.logging.minloglevel = 3  # what it has to say would run through the progress bar
    with tempfile.TemporaryDirectory() as home:
        database = Path(home) / "database.db"
        shutil.copy(photographs.verified_database(scene), database)
        variants = (
            {"incremental + BA": _incremental}
            if stage == "incremental"
            else {"glomap": _glomap, "glomap + BA": _glomap_ba}
        )
        return [
            _row(name, make(pycolmap, database, Path(home) / name, scene), scene) for name, make in variants.items()
        ]


def _glomap(pycolmap: Any, database: Path, home: Path, scene: str, adjusted: bool = False) -> Any:
    options = pycolmap.GlobalPipelineOptions()
    mapper = options.mapper
    for name in ("focal_length", "principal_point", "extra_params"):
        setattr(mapper.bundle_adjustment, f"refine_{name}", False)
    mapper.skip_bundle_adjustment = mapper.skip_retriangulation = not adjusted
    home.mkdir()
    return pycolmap.global_mapping(database, photographs.images(scene), home, options)


def _glomap_ba(pycolmap: Any, database: Path, home: Path, scene: str) -> Any:
    return _glomap(pycolmap, database, home, scene, True)


def _incremental(pycolmap: Any, database: Path, home: Path, scene: str) -> Any:
    options = pycolmap.IncrementalPipelineOptions()
    options.min_model_size = 3
    for name in ("focal_length", "principal_point", "extra_params"):
        setattr(options, f"ba_refine_{name}", False)
    for name in ("focal_length", "extra_params"):
        setattr(options.mapper, f"abs_pose_refine_{name}", False)
    home.mkdir()
    return pycolmap.incremental_mapping(database, photographs.images(scene), home, options)


def _row(method: str, models: Any, scene: str) -> Row:
    if not models:
        return {"method": method, "status": "left out", "message": "COLMAP has made no model"}
    model = max(models.values(), key=lambda one: one.num_reg_images())
    found = photographs.errors(model_poses(model), scene, scaled=True)
    return {"method": method, **found, "status": "finished"}


def table(rows: list[Row]) -> list[Row]:
    """Errors, and the paper's: of the same method, the best of all, and TG-MCMC's."""
    lines = real.columns(
        rows, ("data", "stage", "method", "n_compared", "mean_rotation_deg", "mean_translation_m", "status", "message")
    )
    for line in lines:
        paper = TABLE_1[line["data"]]
        best = [min(column) for column in zip(*paper.values(), strict=True)]
        for k, unit in enumerate(("deg", "m")):
            line[f"paper_{unit}"] = paper[line["method"]][k] if line["method"] in paper else None
            line[f"paper_best_{unit}"], line[f"paper_tg_mcmc_{unit}"] = best[k], paper["tg-mcmc"][k]
        line["scales"] = {"truth": "true", "tracks": "estimated", "adjusted": "estimated"}.get(
            line["stage"], "COLMAP's"
        )
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Rotation and position errors by scene: ours, COLMAP's and the paper's."""
    shown = [name for name in photographs.SCENES if real.of(result.table, name)]
    lines = {
        ("truth", "sfm"): "#d62728 *",
        ("tracks", "sfm"): "#6a3d9a *",
        ("adjusted", "sfm + BA"): "#e377c2 *",
        ("glomap", "glomap"): "#1f9ed1 o",
        ("glomap", "glomap + BA"): "#4e79a7 o",
        ("incremental", "incremental + BA"): "#59a14f s",
    }
    figure, axes = figures.panels(2, width=4.6, height=3.4)
    for ax, value, paper, unit in (
        (axes[0], "mean_rotation_deg", "paper_tg_mcmc_deg", "mean rotation error, degrees"),
        (axes[1], "mean_translation_m", "paper_tg_mcmc_m", "mean position error, metres"),
    ):
        for (stage, method), look in lines.items():
            of = {row["data"]: row[value] for row in result.table if (row["stage"], row["method"]) == (stage, method)}
            colour, marker = look.split()
            label = f"{method}, {'true' if stage == 'truth' else 'estimated'} scales" if method == "sfm" else method
            ax.plot(
                range(len(shown)), [of.get(name) for name in shown], marker, color=colour, linestyle="-", label=label
            )
        theirs = [real.of(result.table, name)[0][paper] for name in shown]
        ax.plot(range(len(shown)), theirs, "kx--", linewidth=1.0, label="the paper's TG-MCMC, true scales")
        ax.set_xticks(range(len(shown)), shown, rotation=30, ha="right", fontsize=8)
        figures.label(ax, "", unit, log_y=True)
    axes[0].set_yticks(
        [0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"]
    )  # it has one power of ten only
    axes[0].minorticks_off()
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Rotation and position errors, by method and scene."""
    rows = [{**row, "line": f"{row['method']} ({row['scales']} scales)"} for row in result.table]
    return "\n\n".join(
        as_text(rows, "line", "data", value, title)
        for value, title in (
            ("mean_rotation_deg", "mean rotation error °, rotations aligned by rotations"),
            ("mean_translation_m", "mean position error m, positions aligned by positions (with scale unless true)"),
        )
    )


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
