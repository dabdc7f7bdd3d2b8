"""From pairs with scales to poses: the pose graph, what its pairs disagree by, and a robust optimum.

A pair's own covariance knows the noise of its matches. It does not know what all matches of a pair share (calibration,
lens, the shutter), so pairs disagree by more than they say. That excess is estimated from the disagreement itself and
added to every pair: a variance of rotations, and one of directions. What all pairs of a set share does not show even
there; for that there is a floor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array, Index
from tempose.errors import GraphError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.trees import most_certain_tree, tree_poses
from tempose.sfm.pairs import Pairs

_MEDIAN_CHI2_3 = 2.3659738843753377  # median of χ² with 3 degrees of freedom
_TINY = 1e-6  # radians: the precision of pairs without noise must stay finite
_MEDIAN_CHI2_2 = 1.3862943611198906  # with 2


@dataclass(frozen=True)
class SyncOptions:
    """How poses are made of pairs.

    Parameters
    ----------
    floor_rot_deg, floor_direction_deg
        Error per axis of every pair that no number of matches averages out, because all share the calibration and the
        lens. It keeps the pairs with most matches from outweighing all others; 0 for perfectly calibrated cameras.
    width
        Of the Geman–McClure loss, in standard deviations of an edge.
    first_width
        Where the width starts; it shrinks by ``shrink`` every round.
    rounds
        Reweighted solves.
    outlier_weight
        Edges below this weight are called wrong and leave the graph.
    """

    # chosen on: EPFL photographs, which scenes is not recorded
    floor_rot_deg: float = 0.03
    # chosen on: EPFL photographs, which scenes is not recorded
    floor_direction_deg: float = 0.06
    width: float = 3.0
    first_width: float = 30.0
    shrink: float = 0.6
    rounds: int = 20
    outlier_weight: float = 0.1


@dataclass(frozen=True, eq=False)
class Synchronised:
    """Poses of the views, and the graph they are the optimum of.

    Attributes
    ----------
    poses
        One per view of the largest connected part.
    graph
        Pairs that are not outliers, with the precisions the optimum and the draws use: those that fit worse than their
        covariance says are taken for less precise.
    edges
        The pairs of the part with their own covariances.
    keep
        Rows of ``edges`` that are the edges of ``graph``.
    excess
        What pairs disagree by beyond their own covariance and the floor, per axis, radians: rotations, directions.
    """

    poses: Poses
    graph: PoseGraph
    edges: Edges
    keep: Index
    excess: tuple[float, float]

    def distrusted(self) -> list[Distrusted]:
        """The pairs that contradict the others and are left out of the graph, and by how much."""
        out = np.setdiff1d(np.arange(len(self.edges.row)), self.keep)
        found = residuals(self.edges.base, self.poses)
        energy = np.sum(Posterior(self.edges.graph(self.excess)).potential_by_edge(self.poses), axis=0)
        freedom = np.where(self.edges.base.has_translation, 6.0, 3.0)
        measured = self.edges.scale[:, None] * self.edges.direction
        across = _angle_between(measured, measured - found.translation)
        return [
            Distrusted(
                int(self.edges.row[k]),
                float(np.degrees(found.angle[k])),
                float(np.degrees(across[k])),
                float(np.sqrt(2.0 * energy[k] / freedom[k])),
            )
            for k in out
        ]

    def widened(self, factor: float) -> Synchronised:
        """The same with all variances of the graph times a factor, which moves no optimum."""
        graph = replace(
            self.graph,
            concentration=self.graph.concentration / factor,
            translation_precision=self.graph.translation_precision / factor,
        )
        return replace(self, graph=graph)


@dataclass(frozen=True)
class Distrusted:
    """A pair that contradicts the others.

    Attributes
    ----------
    row
        Among the pairs.
    rotation_deg, direction_deg
        Angle between its rotation, and the direction of its baseline, and what the poses predict; NaN for the direction
        of a pair whose baseline has no length.
    sigmas
        Root mean square of the residual in standard deviations of the pair, floor and excess included.
    """

    row: int
    rotation_deg: float
    direction_deg: float
    sigmas: float


def synchronise(
    names: tuple[str, ...],
    pairs: Pairs,
    scale: Array,
    sigma_log_scale: Array,
    start: Poses | None = None,
    options: SyncOptions | None = None,
) -> Synchronised:
    """Robust optimum of the pose graph of all pairs.

    Parameters
    ----------
    names
        Of the views.
    pairs
        Relative poses.
    scale
        Length of every baseline (m,); NaN where it is not known: such a pair gives its rotation only.
    sigma_log_scale
        Standard deviation of its logarithm (m,).
    start
        Poses from an earlier round; used if they cover the graph's largest part.
    """
    options = options or SyncOptions()
    if not len(pairs):
        raise GraphError("no pair of views has a usable relative pose")
    edges = Edges.of_largest_part(names, pairs, scale, sigma_log_scale, options)
    ids = edges.base.node_ids
    if start is None or any(name not in start.index for name in ids):
        graph, start = edges.graph(), None
        poses = tree_poses(graph, most_certain_tree(graph))
    else:
        poses = start.select(ids)
    excess, weight = (0.0, 0.0), np.ones(len(edges.row))
    for k in range(options.rounds):
        if k or start is not None:
            width = max(options.width, options.first_width * options.shrink**k)
            excess = edges.excess(poses)
            weight = _weights(edges.graph(excess), poses, width)
        poses = minimise(Curvature(Posterior(_weighted(edges.graph(excess), weight))), poses).poses
    weight = _weights(edges.graph(excess), poses, options.width)
    keep = _keep(edges.graph(excess), weight, options.outlier_weight)
    trust = np.minimum(weight / _typical(options.width), 1.0)
    graph = _some_edges(_weighted(edges.graph(excess), trust), keep)
    return Synchronised(minimise(Curvature(Posterior(graph)), poses).poses, graph, edges, keep, excess)


@dataclass(frozen=True, eq=False)
class Edges:
    """The pairs of one connected part as edges whose covariance can grow.

    Attributes
    ----------
    base
        Nodes and measured motions; its precisions mean nothing.
    row
        Row of each edge among the pairs (m,).
    own
        Covariances (m, 6, 6) of the pairs, as :attr:`tempose.sfm.pairs.PairPose.covariance`.
    scale, sigma_log_scale
        Lengths of the baselines (m,), NaN where unknown, and σ of their logarithms.
    floor
        Variance per axis of rotations and of directions that every edge has on top, radians².
    """

    base: PoseGraph
    row: Index
    direction: Array
    own: Array
    scale: Array
    sigma_log_scale: Array
    floor: tuple[float, float]

    @classmethod
    def of_largest_part(
        cls, names: tuple[str, ...], pairs: Pairs, scale: Array, sigma: Array, options: SyncOptions
    ) -> Edges:
        """Edges of the largest part whose positions hang together."""
        m = len(pairs)
        wxyz, direction = quat.from_matrix(pairs.rotation), pairs.direction
        whole = PoseGraph(
            names, pairs.views[:, 0], pairs.views[:, 1], wxyz, scale[:, None] * direction, np.ones(m), np.ones(m)
        )
        label = whole.position_component
        part = label == np.argmax(np.bincount(label))
        row = np.flatnonzero(part[pairs.views].all(axis=1))
        floor = np.radians([options.floor_rot_deg, options.floor_direction_deg]) ** 2 + _TINY**2
        return cls(
            whole.subgraph(np.flatnonzero(part)),
            row,
            direction[row],
            pairs.covariance[row],
            scale[row],
            sigma[row],
            (float(floor[0]), float(floor[1])),
        )

    def graph(self, excess: tuple[float, float] = (0.0, 0.0)) -> PoseGraph:
        """Precisions of the own covariance, and the floor and the excess (σ, radians) on top."""
        rotation, direction = self._blocks((self.floor[0] + excess[0] ** 2, self.floor[1] + excess[1] ** 2))
        s = np.where(np.isfinite(self.scale), self.scale, 1.0)
        return replace(
            self.base,
            concentration=np.asarray(2.0 * np.linalg.inv(rotation)),
            translation_precision=np.linalg.inv(direction) / (s**2)[:, None, None],
        )

    def _blocks(self, more: tuple[float, float]) -> tuple[Array, Array]:
        """Covariances (m, 3, 3) of the rotations, and of the translations in units of the baseline."""
        along = self.direction[:, :, None] * self.direction[:, None, :]
        variance = np.where(np.isfinite(self.sigma_log_scale), self.sigma_log_scale, 1.0) ** 2 + _TINY**2
        rotation = self.own[:, :3, :3] + more[0] * np.eye(3)
        direction = self.own[:, 3:, 3:] + more[1] * (np.eye(3) - along)
        return rotation, direction + variance[:, None, None] * along

    def excess(self, poses: Poses) -> tuple[float, float]:
        """Excess (σ, radians) of rotations and directions for which the median residual is what its covariance says."""
        found = residuals(self.base, poses)
        unspent = max(1.0 - (self.base.n_nodes - 1) / max(len(self.row), 1), 0.1)  # fitted poses took the rest
        rotation, direction = self._blocks(self.floor)
        tau_rot = _excess(2.0 * found.nu, rotation, np.eye(3), _MEDIAN_CHI2_3 * unspent)
        placed = np.isfinite(self.scale)
        across = found.translation[placed] / self.scale[placed, None]
        u = self.direction[placed]
        across -= np.sum(across * u, axis=1, keepdims=True) * u
        shape = np.eye(3) - u[:, :, None] * u[:, None, :]
        return tau_rot, _excess(across, direction[placed], shape, _MEDIAN_CHI2_2 * unspent)


def _excess(residual: Array, own: Array, shape: Array, median: float) -> float:
    """τ ≥ 0 with ``median rᵀ(C + τ² shape)⁻¹r`` as given, by bisection; 0 if the residuals are smaller already."""

    def middle(tau: float) -> float:
        inverse = np.linalg.inv(own + (tau**2 + 1e-12) * shape)
        return float(np.median(np.einsum("ma,mab,mb->m", residual, inverse, residual)))

    if len(residual) == 0 or middle(0.0) <= median:
        return 0.0
    low, high = -16.0, 1.0  # log τ
    for _ in range(40):
        tau = 0.5 * (low + high)
        low, high = (tau, high) if middle(float(np.exp(tau))) > median else (low, tau)
    return float(np.exp(0.5 * (low + high)))


def _angle_between(a: Array, b: Array) -> Array:
    """Angles (m,), radians, between vectors (m, 3)."""
    return np.asarray(np.arctan2(np.linalg.norm(np.cross(a, b), axis=1), np.sum(a * b, axis=1)))


def _weights(graph: PoseGraph, poses: Poses, width: float) -> Array:
    """Geman–McClure weights (m,) at the given width in standard deviations."""
    rotation, translation = Posterior(graph).potential_by_edge(poses)
    freedom = np.where(graph.has_translation, 6.0, 3.0)
    return np.asarray(1.0 / (1.0 + 2.0 * (rotation + translation) / freedom / width**2) ** 2)


def _typical(width: float) -> float:
    """Weight of an edge that is off by as much as its covariance says."""
    return float(1.0 / (1.0 + 1.0 / width**2) ** 2)


def _weighted(graph: PoseGraph, weight: Array) -> PoseGraph:
    w = np.maximum(weight, 1e-9)[:, None, None]  # nothing falls off the graph while it is being solved
    return replace(graph, concentration=graph.concentration * w, translation_precision=graph.translation_precision * w)


def _some_edges(graph: PoseGraph, rows: Index) -> PoseGraph:
    keep = np.zeros(graph.n_edges, dtype=bool)
    keep[rows] = True
    return graph.with_edges(keep)


def _keep(graph: PoseGraph, weight: Array, least: float) -> Index:
    """Rows of the edges to keep: those that fit, and of the others the best that hold the graph together."""
    keep = weight >= least
    tree = graph.spanning_tree(np.where(graph.has_translation, weight, 1e-12 * weight))
    keep[tree.edge[tree.edge >= 0]] = True
    return np.flatnonzero(keep)
