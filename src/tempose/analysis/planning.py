r"""Error bars of a network before anything is measured, and which further measurement would help most.

A covariance needs no measured values, only where nodes are about, which edges there will be, and how sure each: the measurements
are taken to be exact, and :math:`\Sigma = H^{-1}` is that of a solve (:mod:`tempose.optimum.laplace`).

A further edge with information Ω and derivative J takes :math:`\Delta\Sigma = \Sigma J^T(\Omega^{-1} + J\Sigma J^T)^{-1}J\Sigma`
away. Its gain is the share of the mean variance of the positions that goes,
:math:`\mathrm{tr}\,\Delta\Sigma_{pp} / \mathrm{tr}\,\Sigma_{pp}`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array
from tempose.analysis.edge_checks import edge_predictions
from tempose.analysis.ellipses import CONFIDENCE, Ellipses, error_ellipses
from tempose.analysis.reliability import Reliability, reliability
from tempose.analysis.summary import NodeSummary, node_summary
from tempose.errors import ArgumentError, GraphError
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace, edge_jacobians
from tempose.simulation.measuring import Noise, measured_with, with_world


@dataclass(frozen=True, eq=False)
class Plan:
    """What a network will be worth.

    Attributes
    ----------
    graph
        Its edges, with exact measurements.
    nodes
        Where nodes are, and their error bars.
    reliability
        Of its edges.
    laplace
        The Gaussian behind it.
    """

    graph: PoseGraph
    nodes: NodeSummary
    reliability: Reliability
    laplace: Laplace

    def ellipses(self, confidence: float = CONFIDENCE) -> Ellipses:
        """Horizontal error ellipses and vertical σ of all nodes."""
        known = np.where(self.nodes.determined, 1.0, np.nan)[:, None, None]
        return error_ellipses(self.nodes.covariance[:, 3:, 3:] * known, confidence)

    def gains(self, candidates: PoseGraph) -> Array:
        """Share (k,) of the mean position variance that each of the edges of another graph would take away, one by one.

        Parameters
        ----------
        candidates
            Edges between nodes of the plan, or from them to the world, if the plan is tied to it; their values are not looked at.
        """
        laplace, graph = self.laplace, self.graph
        extra = _joined(graph, candidates)
        Ji, Jj = edge_jacobians(extra, laplace.poses)
        selected = laplace.marginals(Gauge(graph, "world" if np.any(graph.is_fixed) else "anchor"))
        before = float(np.einsum("naa->", selected[:, 3:, 3:]))
        if not before > 0.0:
            raise ArgumentError("no position of the plan can be improved: all are held")
        out = np.empty(candidates.n_edges)
        for k in range(candidates.n_edges):
            i, j = int(extra.edge_i[k]), int(extra.edge_j[k])
            right = np.zeros((graph.n_nodes, 6, 6))
            right[i] += Ji[k].T
            right[j] += Jj[k].T
            columns = laplace.curvature.solve(laplace.factor, right)
            taken = Ji[k] @ columns[i] + Jj[k] @ columns[j]
            weight = np.linalg.solve(np.eye(6) + extra.information[k] @ taken, extra.information[k])
            out[k] = np.einsum("nab,bc,nac->", columns[:, 3:], weight, columns[:, 3:]) / before
        return out


def plan(graph: PoseGraph, poses: Poses | None = None, gauge: str = "auto") -> Plan:
    """Error bars and reliability of a network.

    Parameters
    ----------
    graph
        Its edges with their precisions; their values are not looked at.
    poses
        Where its nodes will be, about, in the graph's own coordinates; by default its initial poses.
    gauge
        What error bars refer to, as of a solve.
    """
    placed = graph.initial if poses is None else poses
    if placed is None:
        raise GraphError(
            "a plan needs to know where nodes will be, about: give the graph poses (VERTEX lines), or poses= (--where)"
        )
    placed = with_world(graph, placed)
    if graph.fixed_at is not None and len(graph.fixed_at):  # what is held is where it is held
        wxyz, position = np.array(placed.wxyz), np.array(placed.position)
        rows = [graph.index[name] for name in graph.fixed_at.ids if name != WORLD]
        held = graph.fixed_at.select([name for name in graph.fixed_at.ids if name != WORLD])
        if len(graph.fixed) > 1 or graph.world is not None:
            wxyz[rows], position[rows] = held.wxyz, held.position
        placed = Poses(placed.ids, wxyz, position)
    still = np.tile(quat.IDENTITY, (graph.n_edges, 1))
    exact = measured_with(graph, placed, Noise(still, np.zeros((graph.n_edges, 3))))
    exact = replace(exact, initial=placed, fixed_at=placed.select([*graph.fixed]))
    posterior = Posterior(exact)
    curvature = Curvature(posterior)
    try:
        laplace = Laplace(curvature, placed)
    except NotPositiveDefiniteError:
        raise GraphError("the planned measurements do not determine all poses; plan more of them") from None
    chosen = Gauge.parse(exact, gauge)
    nodes = node_summary(placed, laplace.marginals(chosen), chosen, "laplace")
    found = edge_predictions(posterior, placed, curvature)
    return Plan(exact, nodes, reliability(exact, placed, found), laplace)


def nearby(graph: PoseGraph, poses: Poses, reach: float) -> PoseGraph:
    """Candidates: pairs of poses at most ``reach`` apart that are not measured yet, as sure as the edge in the middle.

    The median λ and τ of the edges between poses stand for all.
    """
    if not 0.0 < reach < np.inf:
        raise ArgumentError(f"the reach is {reach!r}; expected a length above zero")
    posed = np.flatnonzero(
        ~graph.is_landmark & (np.arange(graph.n_nodes) != (-1 if graph.world is None else graph.world))
    )
    p = poses.select(graph.node_ids).position[posed]
    near = np.linalg.norm(p[:, None] - p[None], axis=2) <= reach
    measured = {frozenset(pair) for pair in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)}
    pairs = [
        (int(posed[a]), int(posed[b]))
        for a, b in np.argwhere(np.triu(near, 1))
        if frozenset((int(posed[a]), int(posed[b]))) not in measured
    ]
    usual = graph.is_relative & ~graph.is_landmark[graph.edge_i] & (graph.ranks[0] > 0) & (graph.ranks[1] > 0)
    if not np.any(usual):
        raise ArgumentError(
            "no edge measures a whole pose: there is no noise to take for others; give candidates in a file"
        )
    turn = float(np.median(graph.mean_concentration[usual]))
    P = graph.marginal_translation_precision[usual][:, : graph.dimension, : graph.dimension]
    shift = float(np.median(np.einsum("maa->m", P) / graph.dimension))
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return PoseGraph(
        graph.node_ids,
        ends[:, 0],
        ends[:, 1],
        np.tile(quat.IDENTITY, (len(ends), 1)),
        np.zeros((len(ends), 3)),
        np.full(len(ends), turn),
        np.full(len(ends), shift),
        dimension=graph.dimension,
        landmarks=graph.landmarks,
    )


def _joined(graph: PoseGraph, candidates: PoseGraph) -> PoseGraph:
    """The candidates as edges between the rows of the plan's nodes."""
    if candidates.dimension != graph.dimension:
        raise ArgumentError("the candidates are planar and the plan is not, or the other way round")
    for name in candidates.node_ids:
        if name not in graph.index:
            known = "the plan is not tied to the world" if name == WORLD else f"there is no node {name!r} in the plan"
            raise ArgumentError(f"a candidate cannot be judged: {known}")
    rows = np.array([graph.index[name] for name in candidates.node_ids], dtype=np.int64)
    return replace(
        candidates,
        node_ids=graph.node_ids,
        edge_i=rows[candidates.edge_i],
        edge_j=rows[candidates.edge_j],
        initial=None,
        fixed=(),
        fixed_at=None,
        landmarks=graph.landmarks,
        world_origin=graph.world_origin,
    )
