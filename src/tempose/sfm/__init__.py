"""Photographs → pairs → lengths → poses → points with error bars (extra ``sfm``).

One file per stage, in this order:

1. :mod:`.photographs`: which camera took which; :mod:`.pairing` (by :mod:`.retrieval`): which pairs are worth matching;
   :mod:`.features`: all of them to a COLMAP database; :mod:`.views`: a database or a model to views with matches.
2. :mod:`.two_views`: the relative pose of one pair and its covariance; :mod:`.pairs`: of all pairs.
3. :mod:`.lengths`: how long the pairs' baselines are.
4. :mod:`.synchronise`: the pose graph and its robust optimum; :mod:`.motion`: stages 2 to 4 in guided rounds.
5. :mod:`.uncertainty`: how far the cameras may be off, from halves of the points.
6. :mod:`.tracks`: which image points are one point; :mod:`.points`: the points and their covariances.
7. :mod:`.scene`: the result; :mod:`.files`: on disk; :mod:`.words`: in sentences; :mod:`.colours`: in pictures.

:mod:`.pipeline` runs them: the paper's way, ``--posterior graph``. On top: :mod:`.bundle` adjusts a scene, :mod:`.accuracy`
compares one with the truth.

Pixels have their centre at .5, COLMAP's convention, and are free of lens distortion, so that every camera is a pinhole
``K``.

The default way begins and ends alike, with other stages between: :mod:`.mapping` makes models of a database by COLMAP's
mappers, :mod:`.calibration` adjusts them and chooses which intrinsics are free, :mod:`.adjustment` has the error bars of a bundle
adjustment, with any of COLMAP's camera models; :mod:`.adjusted` runs them. :mod:`.given` puts the same error bars on a COLMAP model
that exists, and :mod:`.beside` solves the pose graph beside an adjusted model. :mod:`.placing` puts either in metres, by
GPS and control points (:mod:`.ties`, :mod:`.datum`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.sfm.adjusted import AdjustedDatabase as AdjustedDatabase
    from tempose.sfm.adjusted import AdjustedOptions as AdjustedOptions
    from tempose.sfm.adjusted import adjust_database as adjust_database
    from tempose.sfm.adjustment.posterior import BundlePosterior as BundlePosterior
    from tempose.sfm.adjustment.posterior import PosteriorOptions as PosteriorOptions
    from tempose.sfm.adjustment.posterior import posterior_of as posterior_of
    from tempose.sfm.adjustment.problem import Bundle as Bundle
    from tempose.sfm.adjustment.problem import read_bundle as read_bundle
    from tempose.sfm.adjustment.systematic import ModelError as ModelError
    from tempose.sfm.bundle import Adjustment as Adjustment
    from tempose.sfm.bundle import AdjustOptions as AdjustOptions
    from tempose.sfm.bundle import adjust as adjust
    from tempose.sfm.bundle import adjust_in_rounds as adjust_in_rounds
    from tempose.sfm.bundle import adjust_until_stable as adjust_until_stable
    from tempose.sfm.features import FeatureOptions as FeatureOptions
    from tempose.sfm.files import load_scene as load_scene
    from tempose.sfm.given import GivenModel as GivenModel
    from tempose.sfm.given import GivenOptions as GivenOptions
    from tempose.sfm.given import with_error_bars as with_error_bars
    from tempose.sfm.mapping import MappingOptions as MappingOptions
    from tempose.sfm.options import SfmOptions as SfmOptions
    from tempose.sfm.pipeline import Reconstruction as Reconstruction
    from tempose.sfm.pipeline import read_views as read_views
    from tempose.sfm.pipeline import reconstruct_views as reconstruct_views
    from tempose.sfm.placing import Georeferenced as Georeferenced
    from tempose.sfm.placing import georeference as georeference
    from tempose.sfm.points import PointStatus as PointStatus
    from tempose.sfm.points import Structure as Structure
    from tempose.sfm.points import StructureOptions as StructureOptions
    from tempose.sfm.scene import Scene as Scene
    from tempose.sfm.ties import control_ties as control_ties
    from tempose.sfm.ties import gps_ties as gps_ties

_WHERE = {
    "AdjustedDatabase": "adjusted",
    "AdjustedOptions": "adjusted",
    "adjust_database": "adjusted",
    "MappingOptions": "mapping",
    "BundlePosterior": "adjustment.posterior",
    "PosteriorOptions": "adjustment.posterior",
    "posterior_of": "adjustment.posterior",
    "Bundle": "adjustment.problem",
    "read_bundle": "adjustment.problem",
    "ModelError": "adjustment.systematic",
    "GivenModel": "given",
    "GivenOptions": "given",
    "with_error_bars": "given",
    "AdjustOptions": "bundle",
    "Adjustment": "bundle",
    "adjust": "bundle",
    "adjust_in_rounds": "bundle",
    "adjust_until_stable": "bundle",
    "load_scene": "files",
    "FeatureOptions": "features",
    "Georeferenced": "placing",
    "control_ties": "ties",
    "georeference": "placing",
    "gps_ties": "ties",
    "SfmOptions": "options",
    "Reconstruction": "pipeline",
    "read_views": "pipeline",
    "reconstruct_views": "pipeline",
    "PointStatus": "points",
    "Structure": "points",
    "StructureOptions": "points",
    "Scene": "scene",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
