"""Photographs by lenses that bend, by two zooms, and turned ones: EPFL scenes, warped, so that the truth is known.

Nothing is told of the cameras. Beside ``tempose sfm`` stand COLMAP's mappers on the same features and verified pairs; error bars
are judged as in ``epfl-photographs``, the factor of a scene's lens fields chosen by all variants of the other scenes.
"""

from __future__ import annotations

import itertools

from tempose.sfm.adjusted import AdjustedOptions, adjust_database
from tempose.sfm.mapping import MappingOptions
from tempose.studies import photographs
from tempose.studies.experiment import Experiment, RunOptions
from tempose.studies.experiments.epfl_bundle import left_out
from tempose.studies.experiments.epfl_photographs import METHODS, by_mappers, by_tempose, draw, text
from tempose.studies.store import Cell, Row
from tempose.studies.warping import VARIANTS

SCENES = ("Herz-Jesus-P8", "fountain-P11", "entry-P10")


def cells(options: RunOptions) -> list[Cell]:
    """Every variant of the scenes."""
    photographs.check_needs("epfl")
    scenes = photographs.QUICK if options.quick else SCENES
    return [{"known": variant, "data": scene} for scene, variant in itertools.product(scenes, VARIANTS)]


def run(cell: Cell) -> list[Row]:
    """Errors of COLMAP's mappers and of ours, and how our error bars fit the truth."""
    scene, variant = cell["data"], cell["known"]
    made = adjust_database(
        photographs.warped_database(scene, variant), AdjustedOptions(MappingOptions(verify=True))
    ).models[0]
    return by_mappers(scene, variant) + by_tempose(made.posterior, made.options.refined, scene, variant)


def table(rows: list[Row]) -> list[Row]:
    """Errors, then error bars of every scene and of all cameras."""
    return [row for row in rows if row["bars"] in METHODS] + left_out(rows, "known", VARIANTS)


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
