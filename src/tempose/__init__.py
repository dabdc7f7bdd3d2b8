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
    from tempose.analysis.accuracy import PoseErrors, graph_consistency, pose_errors
    from tempose.errors import DrawsError, GraphError, OptionError, ParseError, TemposeError
    from tempose.geometry import Similarity, align
    from tempose.io import ReadOptions, read_graph, read_poses, write_graph, write_poses
    from tempose.model.bingham import Bingham
    from tempose.model.gauge import Gauge
    from tempose.model.graph import PoseGraph
    from tempose.model.poses import Poses
    from tempose.model.posterior import Posterior, Priors, residuals
    from tempose.options import SolveOptions, preset
    from tempose.report.solution_page import plot, write_report
    from tempose.sampling.draws import Draws, read_draws
    from tempose.simulation import Simulated, simulate
    from tempose.solution import Solution
    from tempose.solver import solve

_WHERE = {
    "Bingham": "model.bingham",
    "DrawsError": "errors",
    "GraphError": "errors",
    "OptionError": "errors",
    "ParseError": "errors",
    "TemposeError": "errors",
    "Gauge": "model.gauge",
    "Similarity": "geometry",
    "align": "geometry",
    "PoseGraph": "model.graph",
    "Draws": "sampling.draws",
    "read_draws": "sampling.draws",
    "ReadOptions": "io",
    "read_graph": "io",
    "read_poses": "io",
    "write_graph": "io",
    "write_poses": "io",
    "PoseErrors": "analysis.accuracy",
    "graph_consistency": "analysis.accuracy",
    "pose_errors": "analysis.accuracy",
    "SolveOptions": "options",
    "preset": "options",
    "Poses": "model.poses",
    "Posterior": "model.posterior",
    "Priors": "model.posterior",
    "residuals": "model.posterior",
    "plot": "report.solution_page",
    "write_report": "report.solution_page",
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
