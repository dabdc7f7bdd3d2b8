"""Are the error bars of cameras right on photographs? True cameras of the EPFL scenes inside the regions."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np

from tempose.sfm.accuracy import camera_errors
from tempose.sfm.options import SfmOptions
from tempose.sfm.pipeline import reconstruct_views
from tempose.studies import figures, photographs
from tempose.studies.coverage import LEVELS, column, shares
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

CALIBRATIONS = {"as assumed": None, "taken as perfect": 0.0}
KINDS = ("orientation", "position")


def cells(options: RunOptions) -> list[Cell]:
    """Every scene, with the error of the calibration that is assumed and without any."""
    photographs.check_needs("epfl")
    scenes = photographs.QUICK if options.quick else photographs.SCENES
    return [
        {"data": scene, "calibration": name, "seed": options.seed}
        for scene, name in itertools.product(scenes, CALIBRATIONS)
    ]


def run(cell: Cell) -> list[Row]:
    """Share of the true cameras inside the regions of each level, and the median 1σ."""
    options = SfmOptions(seed=cell["seed"], calibration_error=CALIBRATIONS[cell["calibration"]])
    scene = reconstruct_views(photographs.views(cell["data"]), options).scene
    squared = dict(zip(KINDS, camera_errors(scene, photographs.truth(cell["data"])), strict=True))
    sigma_rot, sigma_pos = scene.camera_sigma
    return [
        {
            **shares(squared, 3),
            "median_sigma_rot_deg": float(np.median(sigma_rot)),
            "median_sigma_pos": float(np.median(sigma_pos)),
        }
    ]


def table(rows: list[Row]) -> list[Row]:
    """The scenes, and all cameras together."""
    out = list(rows)
    for name in dict.fromkeys(row["calibration"] for row in rows):
        part = [row for row in rows if row["calibration"] == name]
        line: Row = {"data": "all", "calibration": name}
        for kind in KINDS:
            count = [row[f"n_{kind}"] for row in part]
            line[f"n_{kind}"] = sum(count)
            for level in LEVELS:
                share = column(kind, level)
                line[share] = float(np.average([row[share] for row in part], weights=count))
        out.append(line)
    return out


def draw(result: Result, home: Path) -> list[Path]:
    """Share inside the 95% regions by scene."""
    figure, axes = figures.panels(2, width=4.2)
    names = list(dict.fromkeys(line["data"] for line in result.table))
    for ax, kind in zip(axes, KINDS, strict=True):
        ax.axhline(0.95, color="#8a8f98", linewidth=1.0)
        for calibration, colour in zip(CALIBRATIONS, ("#6a3d9a", "#f28e2b"), strict=True):
            lines = {line["data"]: line for line in result.table if line["calibration"] == calibration}
            ax.plot(
                [names.index(name) for name in lines],
                [line[f"{kind}_95"] for line in lines.values()],
                "o",
                color=colour,
                label=f"calibration {calibration}",
            )
        ax.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=7)
        ax.set_ylim(0.0, 1.02)
        figures.label(ax, "", "true cameras inside the 95 % regions" if kind == KINDS[0] else "", f"{kind}s")
    figures.legend(figure, axes[0])
    return figures.save(figure, home)


def text(result: Result) -> str:
    """How many cameras of each scene are inside."""
    lines = ["cameras inside the 50, 80 and 95 % regions"]
    for line in result.table:
        told = ", ".join(
            f"{kind}s " + " ".join(f"{line[column(kind, level)] * line[f'n_{kind}']:.0f}" for level in LEVELS)
            for kind in KINDS
        )
        lines.append(f"{line['data']}, calibration {line['calibration']}: {told} of {line['n_position']}")
    return "\n".join(lines)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
