"""Are the error bars of COLMAP's models right on photographs? EPFL scenes, each judged by what the others chose.

Of every scene COLMAP's incremental mapper makes a model, with the calibration known and held, and with nothing known of it. The
amplitude of the lens fields is the one that makes the true cameras of the *other* scenes likeliest; beside it stand the plain
covariance and the cluster-robust one, without any error of the camera model.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tempose._typing import Array
from tempose.analysis.regions import squared_distance
from tempose.analysis.summary import tangent
from tempose.geometry import align
from tempose.sfm.adjustment.covariance import Covariance
from tempose.sfm.adjustment.posterior import PosteriorOptions, posterior_of
from tempose.sfm.adjustment.problem import USUAL, read_bundle
from tempose.sfm.adjustment.residual_fields import ABSORBED
from tempose.sfm.adjustment.systematic import LENS_ERROR, ModelError
from tempose.studies import figures, photographs
from tempose.studies.coverage import LEVELS, column, shares
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text
from tempose.studies.store import Cell, Row

SETTINGS: dict[str, tuple[str, ...]] = {"unknown calibration": USUAL, "known calibration": ()}
"""Intrinsics that COLMAP estimates."""
KINDS = ("orientation", "position")
GRID = tuple(float(x) for x in np.geomspace(5e-6, 3e-4, 37))
FACTORS = tuple(float(x) for x in np.geomspace(1.0, 20.0, 61))
"""How many times the amplitude that residuals show."""
BARS = ("plain", "cluster-robust", "with the camera model")
_PARTS = (slice(0, 3), slice(3, 6))


def cells(options: RunOptions) -> list[Cell]:
    """Every scene in both settings."""
    photographs.check_needs("epfl")
    scenes = photographs.QUICK if options.quick else photographs.SCENES
    return [{"data": scene, "setting": name} for scene, name in itertools.product(scenes, SETTINGS)]


def run(cell: Cell) -> list[Row]:
    """Shares inside, mean squared error over variance and likelihood of the true cameras, for all amplitudes of the lens fields."""
    is_known = cell["setting"] == "known calibration"
    bundle = read_bundle(photographs.model(cell["data"], is_known), SETTINGS[cell["setting"]])
    held = posterior_of(bundle, PosteriorOptions(error=ModelError(lens=0.0)))
    lens = posterior_of(bundle, PosteriorOptions(error=ModelError(lens=GRID[0], calibration=0.0))).model.of_images
    plain = Covariance(held.noise.inverse, held.sigma_px**2, held.noise.columns[:, :0]).of_images
    truth = photographs.truth(cell["data"]).select(bundle.poses.ids)
    fit = align((truth.wxyz, truth.position), (bundle.poses.wxyz, bundle.poses.position), "sim3")
    off = tangent(*fit.apply(truth.wxyz, truth.position), bundle.poses)
    noise = held.noise.of_images
    found = [judged(off, plain, "plain", 0.0), judged(off, noise, "cluster-robust", 0.0)]
    for amplitude in GRID:
        total = noise + held.model.of_images + (amplitude / GRID[0]) ** 2 * lens
        found.append(judged(off, total, "with the camera model", amplitude))
    return found


def judged(off: Array, covariance: Array, bars: str, amplitude: float) -> Row:
    """Displacements (n, 6) of the true cameras in units of covariances (n, 6, 6)."""
    squared = {kind: squared_distance(off[:, c], covariance[:, c, c]) for kind, c in zip(KINDS, _PARTS, strict=True)}
    spread = sum(np.linalg.slogdet(covariance[:, c, c])[1].mean() for c in _PARTS)
    return {
        "bars": bars,
        "lens_error": amplitude,
        **shares(squared, 3),
        **{f"nees_{kind}": float(np.mean(x)) / 3.0 for kind, x in squared.items()},
        "surprise": float(spread + sum(float(np.mean(x)) for x in squared.values())),
    }


def table(rows: list[Row]) -> list[Row]:
    """Every scene, and all cameras together; a scene's amplitude of systematic error is the likeliest on all other scenes."""
    return left_out(rows, "setting", SETTINGS)


def left_out(rows: list[Row], of: str, settings: Iterable[str]) -> list[Row]:
    """Rows of every setting (a value of the column ``of``) and kind of error bars, by scene, then all cameras together.

    Amplitudes are chosen on the other scenes, all settings: one for all, or, if rows have the amplitude that residuals show
    (``shown``), how many times that is taken.
    """
    scenes = list(dict.fromkeys(row["data"] for row in rows))
    out: list[Row] = []
    for setting, bars in itertools.product(settings, BARS):
        part = [row for row in rows if row[of] == setting and row["bars"] == bars]
        chosen = []
        for scene in scenes:
            mine = [row for row in part if row["data"] == scene]
            if bars == BARS[-1]:
                mine = likeliest(mine, [row for row in rows if row["bars"] == bars and row["data"] != scene])
            chosen += mine
        out += chosen
        if chosen:
            out.append(_together(chosen, {of: setting, "bars": bars}))
    return out


def likeliest(mine: list[Row], others: list[Row]) -> list[Row]:
    """Of the rows of one scene and setting the one with the amplitude that is of least surprise on others, or as is the default."""
    if not mine:
        return []

    def at(rows: list[Row], value: float) -> Row:
        return min(rows, key=lambda row: abs(np.log(row["lens_error"] / (value * row.get("shown", 1.0)))))

    if not others:
        is_shown = "shown" in mine[0]
        return [at(mine, ABSORBED if is_shown else LENS_ERROR) | ({"factor": ABSORBED} if is_shown else {})]
    groups: dict[str, list[Row]] = {}
    for row in others:
        groups.setdefault(str({k: v for k, v in row.items() if k in ("data", "known", "setting")}), []).append(row)
    grid = FACTORS if "shown" in mine[0] else GRID
    best = min(grid, key=lambda x: sum(at(rows, x)["surprise"] for rows in groups.values()))
    return [at(mine, best) | ({"factor": best} if "shown" in mine[0] else {})]


def _together(rows: list[Row], of: dict[str, str]) -> Row:
    line: Row = {"data": "all", **of, "lens_error": None}
    for kind in KINDS:
        count = [row[f"n_{kind}"] for row in rows]
        line[f"n_{kind}"] = sum(count)
        for name in (*(column(kind, level) for level in LEVELS), f"nees_{kind}"):
            line[name] = float(np.average([row[name] for row in rows], weights=count))
    return line


def draw(result: Result, home: Path) -> list[Path]:
    """Share inside the 95% regions by scene and kind of error bars, settings side by side."""
    figure, axes = figures.panels(2, width=4.2)
    names = list(dict.fromkeys(line["data"] for line in result.table))
    for ax, setting in zip(axes, SETTINGS, strict=True):
        ax.axhline(0.95, color="#8a8f98", linewidth=1.0)
        for bars, colour in zip(BARS, ("#f28e2b", "#4e79a7", "#6a3d9a"), strict=True):
            lines = [line for line in result.table if line["setting"] == setting and line["bars"] == bars]
            at = [names.index(line["data"]) for line in lines]
            ax.plot(at, [line["orientation_95"] for line in lines], "o", color=colour, label=f"{bars}, orientations")
            ax.plot(at, [line["position_95"] for line in lines], "s", color=colour, fillstyle="none", label="positions")
        ax.set_xticks(range(len(names)), names, rotation=35, ha="right", fontsize=7)
        ax.set_ylim(-0.02, 1.02)
        figures.label(
            ax, "", "true cameras inside the 95 % regions" if setting == next(iter(SETTINGS)) else "", setting
        )
    axes[0].legend(fontsize=6)
    return figures.save(figure, home)


def text(result: Result) -> str:
    """True cameras inside the 95% regions, as counts, with the mean squared error over its variance."""
    lines = [
        {"scene": f"{line['data']}, {kind}", "bars": f"{line['setting']}: {line['bars']}", "inside": value}
        for line in result.table
        for kind in KINDS
        for value in [line[column(kind, 0.95)]]
    ]
    tables = as_text(lines, "scene", "bars", "inside", "inside 95%")
    nees = [
        {"kind": f"{line['setting']}, {kind}", "bars": line["bars"], "nees": line[f"nees_{kind}"]}
        for line in result.table
        if line["data"] == "all"
        for kind in KINDS
    ]
    amplitudes = {
        line["data"]: line["lens_error"] for line in result.table if line["data"] != "all" and line["lens_error"]
    }
    chosen = ", ".join(f"{name} {value:.2g}" for name, value in amplitudes.items())
    widths = as_text(nees, "kind", "bars", "nees", "squared error over variance")
    return f"{tables}\n{widths}\nlens error chosen by the others: {chosen}"


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
