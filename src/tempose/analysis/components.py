r"""Variance components: how noisy each *group* of measurements is, from how they contradict each other.

Instruments of several kinds state their noise up to a factor of their own. With the stated variances of group g times
:math:`\sigma_g^2`, :math:`2U_g` the energy of its edges at the optimum and :math:`r_g` their redundancy (numbers measured, less
what the poses use up of them),

.. math::  \sigma_g^2 \leftarrow \sigma_g^2 \cdot 2U_g / r_g

is repeated, with poses and redundancies of the new noise, until nothing changes: then :math:`2U_g = r_g` for every group, which is
the equation of restricted maximum likelihood (REML), and what Helmert's estimator, iterated, ends at (Förstner 1979). The standard
error of :math:`\log\sigma_g` is :math:`1/\sqrt{2 r_g}` if other groups are known, and more if they are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tempose._support import streams
from tempose._typing import Array, Index, Mask
from tempose.errors import ArgumentError, GraphError
from tempose.model.graph import PoseGraph
from tempose.model.order import steps_apart
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.leverage import used_of_edges
from tempose.optimum.newton import minimise
from tempose.optimum.starts import start_poses

FEWEST = 20.0
"""Redundancy of a group below which its noise is left as stated: σ would be known to 16% at best."""
CHANGE = 1e-4  # of log σ between rounds
ROUNDS = 200


@dataclass(frozen=True, eq=False)
class VarianceComponents:
    """Factors of the stated σ, by group.

    Attributes
    ----------
    names
        Of the k groups.
    sigma_factor
        (k,): by which every stated σ of the group is to be multiplied.
    redundancy
        (k,): numbers of the group that others check.
    edges
        (k,): how many there are.
    estimated
        (k,): false where the redundancy is too small to say anything, and the noise is left as stated.
    converged
        Whether the factors have settled.
    graph
        The measurements with the estimated noise.
    """

    names: tuple[str, ...]
    sigma_factor: Array
    redundancy: Array
    edges: Index
    estimated: Mask
    converged: bool
    graph: PoseGraph

    @property
    def relative_error(self) -> Array:
        """Standard error (k,) of each factor over the factor, at least; NaN where it was not estimated."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.estimated, 1.0 / np.sqrt(2.0 * np.maximum(self.redundancy, 1e-300)), np.nan)


def edge_kinds(graph: PoseGraph) -> list[str]:
    """What kind each edge is: ``odometry`` (consecutive poses), ``loops``, ``sightings``, ``fixes``, ``attitudes``, ``poses``."""
    seen = graph.is_landmark[graph.edge_i] | graph.is_landmark[graph.edge_j]
    rotation, translation = (rank > 0 for rank in graph.ranks)
    absolute = np.where(~rotation, "fixes", np.where(translation, "poses", "attitudes"))
    relative = np.where(seen, "sightings", np.where(steps_apart(graph) == 1, "odometry", "loops"))
    return [str(kind) for kind in np.where(graph.is_absolute, absolute, relative)]


def variance_components(graph: PoseGraph, groups: Sequence[str], start: Poses | None = None) -> VarianceComponents:
    """Estimate one factor of σ for each group of edges.

    Parameters
    ----------
    graph
        The measurements, with stated noise that holds within a group but for a factor.
    groups
        (m,): the name of the group of each edge, for instance of :func:`edge_kinds`.
    start
        Where to start the optimiser; chordal by default.
    """
    if len(groups) != graph.n_edges:
        raise ArgumentError(
            f"groups has {len(groups)} names, and the graph {graph.n_edges} edges: one for each is needed"
        )
    names = tuple(sorted(set(groups)))
    label = np.array([names.index(one) for one in groups])
    count = np.bincount(label, minlength=len(names)).astype(np.int64)
    poses = start_poses(graph, "chordal", streams.generator(0, "start")) if start is None else start
    log_sigma: Array = np.zeros(len(names))
    redundancy: Array = np.zeros(len(names))
    estimated = np.ones(len(names), dtype=bool)
    converged = False
    for _ in range(ROUNDS):
        scaled = graph.scaled_noise(np.exp(log_sigma)[label])
        poses, energy, left = _at_optimum(scaled, poses)
        redundancy = np.asarray(np.bincount(label, left, len(names)), np.float64)
        estimated = redundancy >= FEWEST
        total = np.bincount(label, 2.0 * energy, len(names))
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(estimated & (total > 0.0), 0.5 * np.log(total / redundancy), 0.0)
        log_sigma = np.where(estimated, log_sigma + np.clip(step, -2.0, 2.0), 0.0)
        if np.max(np.abs(step), initial=0.0) < CHANGE:
            converged = True
            break
    sigma = np.exp(log_sigma)
    return VarianceComponents(names, sigma, redundancy, count, estimated, converged, graph.scaled_noise(sigma[label]))


def _at_optimum(graph: PoseGraph, start: Poses) -> tuple[Poses, Array, Array]:
    """The best poses; energies (m,) there, and what the poses leave of the numbers (m,) of each edge."""
    curvature = Curvature(Posterior(graph))
    poses = minimise(curvature, start).poses
    try:
        sigma = Laplace(curvature, poses, 1.0).edge_covariances()
    except NotPositiveDefiniteError:
        raise GraphError(
            "not all poses are determined, so the noise of groups is not either; take out what hangs loose"
        ) from None
    used = np.sum(used_of_edges(graph, sigma), axis=0)
    return poses, curvature.posterior.energies(poses), np.clip(graph.freedom - used, 0.0, None)
