"""Mean rotation error of every method on the six EPFL scenes, beside the paper's Table 1."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tempose.io import ReadOptions, epfl_rotations
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.paper import TABLE_1
from tempose.studies import figures
from tempose.studies import real_data as real
from tempose.studies.experiment import Experiment, Result, RunOptions, as_text, data_folder
from tempose.studies.store import Cell, Row

PAPER = {
    folder: {method: errors[0] for method, errors in TABLE_1[scene].items()}
    for folder, scene in {
        "HerzJesuP8": "Herz-Jesus-P8",
        "HerzJesuP25": "Herz-Jesus-P25",
        "FountainP11": "fountain-P11",
        "EntryP10": "entry-P10",
        "CastleP19": "castle-P19",
        "CastleP30": "castle-P30",
    }.items()
}
"""Mean rotation errors of the paper's Table 1, degrees."""

QUICK = ("FountainP11",)
SIGMA_DEG = 0.1
"""Stated noise: one for all edges, so that only methods with a noise model of their own notice its size."""


@cache
def scene(name: str) -> tuple[PoseGraph, Poses]:
    """Measured and true rotations."""
    path = data_folder("epfl_rotations") / name
    return epfl_rotations.read_graph(path, ReadOptions(sigma_rot_deg=SIGMA_DEG)), epfl_rotations.read_poses(path)


def cells(options: RunOptions) -> list[Cell]:
    """Scenes × methods, COLMAP's averaging among them."""
    data_folder("epfl_rotations")
    return real.method_cells(options, QUICK if options.quick else tuple(PAPER), ("colmap",))


def run(cell: Cell) -> list[Row]:
    """One method on one scene."""
    return [real.measure(real.method(cell), *scene(cell["data"]))]


def table(rows: list[Row]) -> list[Row]:
    """Errors under both alignments, and the paper's: of the same method, the best of all, and TG-MCMC's."""
    lines = real.columns(
        rows,
        ("data", "method", "mean_rotation_deg", "mean_rotation_deg_l2", "median_rotation_deg", "status", "message"),
    )
    for line in lines:
        paper = PAPER[line["data"]]
        line |= {
            "paper_deg": paper.get(line["method"]),
            "paper_best_deg": min(paper.values()),
            "paper_tg_mcmc_deg": paper["tg-mcmc"],
        }
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """A panel per scene: errors after L2 alignment as dots, the paper's best and TG-MCMC as lines."""
    shown = [name for name in PAPER if real.of(result.table, name)]
    width = min(3, len(shown))
    figure, axes = figures.panels(width, -(-len(shown) // width), width=3.3, height=3.3)
    for k, (ax, name) in enumerate(zip(axes, shown, strict=False)):
        rows = real.of(result.table, name)
        for value, look in (("paper_best_deg", ":"), ("paper_tg_mcmc_deg", "--")):
            label = "paper's best" if look == ":" else "paper's TG-MCMC"
            ax.axvline(rows[0][value], color="#555b66", linestyle=look, linewidth=1.2, label=label)
        real.dots(ax, rows, {"mean_rotation_deg_l2": "o"}, names=k % width == 0)
        figures.label(ax, "mean rotation error, degrees" if k >= len(shown) - width else "", "", name)
    axes[0].legend(fontsize=7, frameon=False, loc="lower right")
    return figures.save(figure, home)


def text(result: Result) -> str:
    """Mean rotation errors after L2 alignment, by method and scene."""
    title = "mean rotation error °, L2 alignment"
    return as_text(result.table, "method", "data", "mean_rotation_deg_l2", title)


EXPERIMENT = Experiment(cells, run, table, draw, text, seeds=False)
