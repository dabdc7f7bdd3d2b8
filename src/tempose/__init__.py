"""tempose: the posterior of a pose graph.

>>> import tempose
>>> graph = tempose.read_graph("graph.g2o")
>>> solution = tempose.solve(graph)
>>> print(solution.summary())
>>> solution.covariance(graph.node_ids[-1])
>>> tempose.plot(solution, "graph.png")

The public names are imported when first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tempose.bingham import Bingham
    from tempose.errors import DrawsError, GraphError, OptionError, ParseError, TemposeError
    from tempose.gauge import Gauge
    from tempose.geometry import Similarity, align
    from tempose.graph import PoseGraph
    from tempose.inference.draws import Draws, read_draws
    from tempose.io import ReadOptions, read_graph, read_poses, write_graph, write_poses
    from tempose.metrics import PoseErrors, graph_consistency, pose_errors
    from tempose.options import SolveOptions, preset
    from tempose.poses import Poses
    from tempose.posterior import Posterior, Priors, residuals
    from tempose.report.build import plot, write_report
    from tempose.simulation import Simulated, simulate
    from tempose.solution import Solution
    from tempose.solver import solve

_WHERE = {
    "Bingham": "bingham",
    "DrawsError": "errors",
    "GraphError": "errors",
    "OptionError": "errors",
    "ParseError": "errors",
    "TemposeError": "errors",
    "Gauge": "gauge",
    "Similarity": "geometry",
    "align": "geometry",
    "PoseGraph": "graph",
    "Draws": "inference.draws",
    "read_draws": "inference.draws",
    "ReadOptions": "io",
    "read_graph": "io",
    "read_poses": "io",
    "write_graph": "io",
    "write_poses": "io",
    "PoseErrors": "metrics",
    "graph_consistency": "metrics",
    "pose_errors": "metrics",
    "SolveOptions": "options",
    "preset": "options",
    "Poses": "poses",
    "Posterior": "posterior",
    "Priors": "posterior",
    "residuals": "posterior",
    "plot": "report.build",
    "write_report": "report.build",
    "Simulated": "simulation",
    "simulate": "simulation",
    "Solution": "solution",
    "solve": "solver",
}

__all__ = [  # noqa: RUF022  (the order of the table above)
    "Bingham", "DrawsError", "GraphError", "OptionError", "ParseError", "TemposeError", "Gauge", "Similarity", "align",
    "PoseGraph", "Draws", "read_draws", "ReadOptions", "read_graph", "read_poses", "write_graph", "write_poses",
    "PoseErrors", "graph_consistency", "pose_errors", "SolveOptions", "preset", "Poses", "Posterior", "Priors",
    "residuals", "plot", "write_report", "Simulated", "simulate", "Solution", "solve",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("tempose")
    if name not in _WHERE:
        raise AttributeError(f"module 'tempose' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"tempose.{_WHERE[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
