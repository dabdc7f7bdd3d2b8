"""From a graph with wrong edges to its robust posterior, and the problem of the edges that it keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tempose.errors import OptionError
from tempose.graph import PoseGraph
from tempose.optimum.starts import start_poses
from tempose.poses import Poses
from tempose.posterior import Posterior, Priors
from tempose.robust.estimate import RobustFit, RobustOptions, fit

Array = NDArray[np.float64]


def own_probabilities(graph: PoseGraph, trust_odometry: float | None = None) -> Array:
    """Prior inlier probabilities (m,) of the edges that have one of their own, NaN for the others.

    The graph's ``inlier_prior`` comes first; then ``trust_odometry``, for edges between consecutive integer ids.
    """
    own = np.full(graph.n_edges, np.nan)
    if trust_odometry is not None:
        if not all(isinstance(name, int) for name in graph.node_ids):
            raise OptionError("odometry is known by consecutive integer ids, and this graph has ids that are text")
        number = np.array(graph.node_ids, dtype=np.int64)
        consecutive = np.abs(number[graph.edge_i] - number[graph.edge_j]) == 1
        if not np.any(consecutive):
            raise OptionError("there is no odometry to trust: no edge joins consecutive ids")
        own[consecutive] = trust_odometry
    if graph.inlier_prior is not None:
        own = np.where(np.isnan(graph.inlier_prior), own, graph.inlier_prior)
    return own


def solve_robust(
    graph: PoseGraph, options: RobustOptions, own: Array, rng: np.random.Generator, *, priors: Priors | None = None,
    start: str = "chordal",
) -> RobustFit:  # fmt: skip
    """Poses and parameters from the most promising start: the poses of the file if these are asked for, else searched."""
    kinds = ["given"] if start == "given" else ["chordal", "tree"]
    fits = [fit(graph, start_poses(graph, kind, rng), options, priors=priors, own_probability=own) for kind in kinds]
    return max(fits, key=lambda found: found.log_evidence)


def kept_problem(posterior: Posterior, poses: Poses) -> Posterior:
    """The ordinary problem of the kept edges: every edge weighted by ρ′, its inlier probability (times its core's weight).

    A stationary point of the robust U is one of this problem, so what can be proven about the ordinary problem can be
    proven about its poses, as long as it is the right edges that were kept.
    """
    if posterior.likelihood is None:
        return posterior
    weight = posterior.likelihood.weight(posterior.energies(poses))
    graph = posterior.graph

    def weighted(value: Array) -> Array:
        return value * weight.reshape(-1, *(1,) * (value.ndim - 1))

    return Posterior(
        replace(graph, concentration=weighted(graph.concentration), precision=weighted(graph.precision)),
        posterior.priors,
    )
