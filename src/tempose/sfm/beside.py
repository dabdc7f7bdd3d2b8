"""The pose graph beside the adjusted model: the paper's posterior from the same matches and calibration, and how they differ."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.plain import plain
from tempose._support.progress import ProgressHook, silent
from tempose.analysis.accuracy import pose_errors
from tempose.analysis.summary import median_sigma
from tempose.io.colmap.cameras import ColmapCamera
from tempose.sfm.given import GivenModel
from tempose.sfm.options import SfmOptions
from tempose.sfm.pipeline import Reconstruction, reconstruct_views
from tempose.sfm.views import Views


@dataclass(frozen=True, eq=False)
class GraphBeside:
    """A pose graph's result, and its differences from the adjusted one.

    Attributes
    ----------
    found
        By the pose graph.
    n_both
        Photographs that have a place in both.
    rotation_deg, position
        Mean differences of orientations and positions, aligned by rotation, scale and translation, in degrees and in the unit
        of the adjusted model.
    sigma_ratio_rot, sigma_ratio_pos
        Median σ of the graph over that of the adjusted model.
    """

    found: Reconstruction
    n_both: int
    rotation_deg: float
    position: float
    sigma_ratio_rot: float
    sigma_ratio_pos: float

    def facts(self) -> dict[str, Any]:
        """Plain numbers for ``sfm.json``."""
        return {
            "n_both": self.n_both,
            "mean_rotation_deg": self.rotation_deg,
            "mean_position": self.position,
            "sigma_ratio_rot": plain(self.sigma_ratio_rot),
            "sigma_ratio_pos": plain(self.sigma_ratio_pos),
        }


def found_cameras(given: GivenModel) -> dict[str, ColmapCamera]:
    """The calibration of each photograph of a model, by its name."""
    bundle = given.posterior.bundle
    cameras = [ColmapCamera(one.model, *one.size, one.parameters) for one in bundle.cameras]
    return {name: cameras[row] for name, row in zip(bundle.names, bundle.camera_of, strict=True)}


def graph_beside(
    views: Views,
    given: GivenModel,
    options: SfmOptions | None = None,
    progress: ProgressHook = silent,
    executor: Executor | None = None,
) -> GraphBeside:
    """Solve the pose graph of views that have the calibration of an adjusted model."""
    found = reconstruct_views(views, options, progress=progress, executor=executor)
    adjusted, graph = given.scene, found.scene
    both = [name for name in adjusted.poses.ids if name in graph.poses.index]
    off = pose_errors(graph.poses.select(both), adjusted.poses.select(both), "sim3")
    # σ of positions are in two units: each over the scatter of its own positions
    ratio = [
        median_sigma(graph.camera_sigma[k]) / median_sigma(adjusted.camera_sigma[k]) * unit
        for k, unit in enumerate((1.0, _scatter(adjusted.poses.position) / _scatter(graph.poses.position)))
    ]
    return GraphBeside(found, len(both), off.mean_rotation_deg, off.mean_translation, ratio[0], ratio[1])


def _scatter(position: Any) -> float:
    return float(np.sqrt(np.mean(np.sum((position - position.mean(axis=0)) ** 2, axis=1))))
