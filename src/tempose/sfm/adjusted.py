"""The default way: a database → models by COLMAP's mappers → calibration chosen, robust bundle adjustment → error bars.

One result per model: photographs of two places in one folder are two models.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import PathLike
from tempose.errors import GraphError, NotApplicable
from tempose.io.colmap.model import open_model
from tempose.sfm.adjustment.systematic import ModelError
from tempose.sfm.calibration import Calibrated, calibrate, zoomed
from tempose.sfm.given import GivenModel, GivenOptions, Origin, scene_of
from tempose.sfm.mapping import Mapped, MappingOptions, map_database
from tempose.sfm.views import Remark, read_matched_database


@dataclass(frozen=True)
class AdjustedOptions:
    """From a database to error bars.

    Parameters
    ----------
    mapping
        How models are made, and which intrinsics are estimated.
    choose
        Whether the camera model, and whether the principal point is free, are to be chosen by the data.
    error
        How well the camera model is known.
    """

    mapping: MappingOptions = field(default_factory=MappingOptions)
    choose: bool = True
    error: ModelError = field(default_factory=ModelError)


@dataclass(frozen=True, eq=False)
class AdjustedDatabase:
    """Everything that was made of a database.

    Attributes
    ----------
    models
        With error bars, the one with most photographs first.
    mapped
        What the mapper made.
    seconds
        How long each stage took.
    """

    models: tuple[GivenModel, ...]
    mapped: Mapped
    seconds: dict[str, float]


def adjust_database(
    database: PathLike,
    options: AdjustedOptions | None = None,
    *,
    images: Path | None = None,
    photographs: Path | None = None,
    remarks: tuple[Remark, ...] = (),
    progress: ProgressHook = silent,
) -> AdjustedDatabase:
    """Models of a database, adjusted, with error bars.

    Parameters
    ----------
    database
        Of COLMAP, with matches; it is not written to.
    options
        See :class:`AdjustedOptions`.
    images
        Folder of the photographs, for the colours of the points.
    photographs
        Folder that the database was made from, if the user does not know of the database.
    remarks
        What is known of how the database was made.
    progress
        Told of every stage.

    Raises
    ------
    NotApplicable
        If no model can be made: the camera only turned, or photographs share too little.
    """
    options = options or AdjustedOptions()
    database = Path(database)
    read_matched_database(database, photographs)  # COLMAP does not look at what it reads
    seconds: dict[str, float] = {}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tempose-") as scratch:
        home = Path(scratch) / "shared"
        home.mkdir()
        mapped = map_database(database, home, options.mapping, progress)
        seconds["mapping"] = time.perf_counter() - began
        done = _calibrated(mapped, options, progress)
        if options.mapping.mapper == "auto" and mapped.mapper == "incremental" and mapped.mostly_alone:
            mapped, done = _better_of_both(mapped, done, database, Path(scratch), options, progress)
        n_zoomed = sum(zoomed(one.found.posterior) for one in done)
        differ = (n_zoomed or mapped.is_scattered) and not mapped.mostly_one_homography
        if differ and mapped.shares_cameras and "focal" in options.mapping.refined:
            home = Path(scratch) / "separate"
            home.mkdir()
            again = map_database(database, home, replace(options.mapping, separate=True), progress)
            better = len(again.largest) > len(mapped.largest)
            if better or (n_zoomed and len(again.largest) == len(mapped.largest)):
                mapped = replace(again, cameras=mapped.cameras, separate=True)
                done, n_zoomed = _calibrated(mapped, options, progress), 0
        if not done:
            raise NotApplicable(no_model(mapped))
    models = []
    for row, model, one in done:
        if images is not None and all((images / image.name).is_file() for image in model.images.values()):
            model.extract_colors_for_all_images(images)
        about = GivenOptions(one.refined, True, options.error, options.mapping.seed)
        origin = Origin(mapped, row, one, n_zoomed, tuple(remarks))
        models.append(
            GivenModel(None, model, one.posterior, scene_of(one.posterior, model), one.loss_px, about, origin)
        )
    seconds["adjustment and error bars"] = time.perf_counter() - began - seconds["mapping"]
    return AdjustedDatabase(tuple(models), mapped, seconds)


class _Done(NamedTuple):
    """A model of the mapper, by its number, pycolmap's ``Reconstruction`` of it, and its calibration."""

    row: int
    model: Any
    found: Calibrated


def _better_of_both(
    mapped: Mapped, done: list[_Done], database: Path, scratch: Path, options: AdjustedOptions, progress: ProgressHook
) -> tuple[Mapped, list[_Done]]:
    """The model of the incremental mapper, or the global one's.

    Where each photograph has a camera of its own, nothing holds focal lengths together, and which matches a mapper takes for
    right decides them. Of models with as many photographs the one is kept whose noise, with what neighbours share, is less.
    """
    home = scratch / "other"
    home.mkdir()
    other = map_database(database, home, replace(options.mapping, mapper="global"), progress)
    if len(other.largest) < len(mapped.largest):
        return mapped, done
    found = _calibrated(other, options, progress)

    def noise(models: list[_Done]) -> float:
        one = models[0].found.posterior
        return one.clustering * one.sigma_px**2

    if found and (not done or len(other.largest) > len(mapped.largest) or noise(found) < noise(done)):
        return other, found
    return mapped, done


def _calibrated(mapped: Mapped, options: AdjustedOptions, progress: ProgressHook) -> list[_Done]:
    """The models that determine something, adjusted."""
    out, settings = [], options.mapping
    for row, folder in enumerate(mapped.folders):
        progress(Progress("adjusting", row, len(mapped.folders)))
        model = open_model(folder)
        try:
            found = calibrate(model, settings.refined, options.error, choose=options.choose, seed=settings.seed)
        except (GraphError, NotApplicable):
            continue  # its photographs count as left out
        out.append(_Done(row, model, found))
    progress(Progress("adjusting", 1, 1))
    return out


def no_model(mapped: Mapped) -> str:
    """Why there is none, and what to do."""
    n = len(mapped.names)
    if not mapped.n_pairs:
        why = f"no two of the {n} photographs share matches that agree with each other; do they overlap enough?"
    elif mapped.mostly_one_homography:
        why = (
            f"{mapped.n_homography} of {mapped.n_pairs} pairs of photographs are explained by a camera that turned without "
            "moving, or by one plane: places cannot be told from that; take photographs from different places"
        )
    else:
        why = (
            f"no two of the {n} photographs, of {mapped.n_pairs} matched pairs, are a start for a model: too few points are "
            "seen under a wide enough angle; take photographs from more different places, or give the calibration (--intrinsics)"
        )
    return f"do not trust it: nothing can be reconstructed; {why}"
