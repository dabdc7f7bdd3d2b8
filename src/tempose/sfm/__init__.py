"""Photographs → pairs → scales → poses → points with error bars (extra ``sfm``).

One file per stage. Pixels have their centre at .5, COLMAP's convention, and are free of lens distortion, so that every
camera is a pinhole ``K``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.sfm.bundle import Adjustment as Adjustment
    from tempose.sfm.bundle import AdjustOptions as AdjustOptions
    from tempose.sfm.bundle import adjust as adjust
    from tempose.sfm.options import SfmOptions as SfmOptions
    from tempose.sfm.pipeline import Reconstruction as Reconstruction
    from tempose.sfm.pipeline import read_views as read_views
    from tempose.sfm.pipeline import reconstruct_views as reconstruct_views
    from tempose.sfm.points import Structure as Structure
    from tempose.sfm.points import StructureOptions as StructureOptions
    from tempose.sfm.refine import settle as settle
    from tempose.sfm.scene import Scene as Scene

_WHERE = {
    "AdjustOptions": "bundle",
    "Adjustment": "bundle",
    "adjust": "bundle",
    "SfmOptions": "options",
    "Reconstruction": "pipeline",
    "read_views": "pipeline",
    "reconstruct_views": "pipeline",
    "Structure": "points",
    "StructureOptions": "points",
    "settle": "refine",
    "Scene": "scene",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
