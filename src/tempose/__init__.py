"""tempose: the posterior of a pose graph.

>>> import tempose
>>> graph = tempose.read_graph("graph.g2o")  # or tempose.GraphBuilder(), edge by edge
>>> solution = tempose.solve(graph)
>>> print(solution.summary())
>>> solution.covariance(graph.node_ids[-1])
>>> tempose.plot(solution, "graph.png")

What is public: the names of this table, and those in ``__all__`` of the namespaces below it. All of them are imported when
first used, so that importing the package is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:  # for type checkers and editors; tests/test_api.py checks that it is the table below
    from tempose._support.progress import Progress as Progress
    from tempose.analysis.accuracy import pose_errors as pose_errors
    from tempose.errors import TemposeError as TemposeError
    from tempose.geometry.alignment import align as align
    from tempose.io import read_graph as read_graph
    from tempose.io import read_poses as read_poses
    from tempose.io import write_graph as write_graph
    from tempose.io import write_poses as write_poses
    from tempose.io.options import ReadOptions as ReadOptions
    from tempose.model.builder import GraphBuilder as GraphBuilder
    from tempose.model.graph import PoseGraph as PoseGraph
    from tempose.model.pose import Pose as Pose
    from tempose.model.poses import Poses as Poses
    from tempose.model.posterior import Posterior as Posterior
    from tempose.model.priors import Priors as Priors
    from tempose.options import SolveOptions as SolveOptions
    from tempose.report.solution_page import plot as plot
    from tempose.report.solution_page import write_report as write_report
    from tempose.sampling.draws import Draws as Draws
    from tempose.sampling.draws import read_draws as read_draws
    from tempose.simulation import simulate as simulate
    from tempose.solution import Solution as Solution
    from tempose.solver import solve as solve

_WHERE = {
    # what is known
    "GraphBuilder": "model.builder",
    "PoseGraph": "model.graph",
    "Pose": "model.pose",
    "Poses": "model.poses",
    "Priors": "model.priors",
    "Posterior": "model.posterior",
    "simulate": "simulation",
    # files
    "ReadOptions": "io.options",
    "read_graph": "io",
    "read_poses": "io",
    "write_graph": "io",
    "write_poses": "io",
    "read_draws": "sampling.draws",
    # solving and asking
    "solve": "solver",
    "Progress": "_support.progress",
    "SolveOptions": "options",
    "Solution": "solution",
    "Draws": "sampling.draws",
    "align": "geometry.alignment",
    "pose_errors": "analysis.accuracy",
    # looking
    "plot": "report.solution_page",
    "write_report": "report.solution_page",
    # what goes wrong; the kinds are in tempose.errors
    "TemposeError": "errors",
}

NAMESPACES = {
    "errors": "what goes wrong, by meaning",
    "geometry": "quaternions, rigid motions, alignment",
    "model": "the graph, the gauge, the Bingham distribution, the posterior",
    "io": "files of graphs and poses",
    "simulation": "graphs with known truth",
    "optimum": "the optimisers, as objects with their options",
    "partitioned": "one graph in parts, on several machines",
    "outliers": "wrong edges",
    "sampling": "the samplers, as objects with their options",
    "dynamics": "the splitting schemes of TG-MCMC",
    "analysis": "what draws and optima say",
    "solution": "the result of a solve",
    "describe": "results in words",
    "paper": "all that is only the paper's: its numbers and its preset",
    "interop": "objects of GTSAM and pycolmap, both ways",
    "methods": "the methods the paper compares with",
    "sfm": "photographs to points with error bars",
    "studies": "calibration and experiments",
}
"""Modules whose ``__all__`` is public, too."""

__all__, _get, __dir__ = lazy_names(__name__, _WHERE, NAMESPACES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("tempose")
    return _get(name)
