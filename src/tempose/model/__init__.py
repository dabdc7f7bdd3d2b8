"""What is known: poses, graphs, priors, and the posterior they define."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.model.bingham import Bingham as Bingham
    from tempose.model.builder import GraphBuilder as GraphBuilder
    from tempose.model.gauge import Gauge as Gauge
    from tempose.model.graph import PoseGraph as PoseGraph
    from tempose.model.pose import Pose as Pose
    from tempose.model.poses import Poses as Poses
    from tempose.model.posterior import Posterior as Posterior
    from tempose.model.priors import Priors as Priors
    from tempose.model.relative import RelativeSummary as RelativeSummary
    from tempose.model.residuals import Residuals as Residuals
    from tempose.model.robust import RobustLikelihood as RobustLikelihood

_WHERE = {
    "RelativeSummary": "relative",
    "Residuals": "residuals",
    "Bingham": "bingham",
    "GraphBuilder": "builder",
    "Gauge": "gauge",
    "PoseGraph": "graph",
    "Pose": "pose",
    "Poses": "poses",
    "Posterior": "posterior",
    "Priors": "priors",
    "RobustLikelihood": "robust",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
