"""Spanning trees of a graph, and poses chained along them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.topology import SpanningTree
from tempose.numerics import relaxation as _kernels


def rotation_weights(graph: PoseGraph) -> Array:
    """Positive weight of each edge's rotation (m,): its mean concentration, and hardly anything where that is zero."""
    weight = graph.mean_concentration
    positive = weight[weight > 0.0]
    least = float(positive.min()) * 1e-3 if len(positive) else 1.0
    return np.where(weight > 0.0, weight, least)


def most_certain_tree(graph: PoseGraph) -> SpanningTree:
    """Spanning tree of the largest rotation concentrations; edges without a translation only where there is no other."""
    if graph.has_translation.all():
        return graph.spanning_tree()
    rank = np.empty(graph.n_edges)
    rank[np.lexsort((graph.mean_concentration, graph.has_translation))] = np.arange(graph.n_edges)
    return graph.spanning_tree(rank)


def tree_poses(graph: PoseGraph, tree: SpanningTree) -> Poses:
    """Chain the measured motions along a tree; roots are at the origin, edges without translation add none."""
    wxyz = np.tile(quat.IDENTITY, (graph.n_nodes, 1))
    position = np.zeros((graph.n_nodes, 3))
    t = np.nan_to_num(graph.j_from_i_t)
    _kernels.chain(tree.order, tree.parent, tree.edge, graph.edge_i, graph.j_from_i_wxyz, t, wxyz, position)
    return Poses(graph.node_ids, wxyz, position)


def shortest_path_tree(graph: PoseGraph, roots: ArrayLike, cost: ArrayLike | None = None) -> SpanningTree:
    """Tree of shortest paths from the nearest of ``roots``, of which there must be one in every component.

    Parameters
    ----------
    cost
        Positive length of each edge (m,); by default its rotation variance, ``1/λ``, so that the path to every node
        is the most certain one.
    """
    if cost is None:
        weight = rotation_weights(graph)
        length = weight.max(initial=0.0) / weight
        # a path without translations is a last resort
        cost = np.where(graph.has_translation, length, length + length.sum())
    cost = np.asarray(cost, float)
    n = graph.n_nodes
    low, high = np.minimum(graph.edge_i, graph.edge_j), np.maximum(graph.edge_i, graph.edge_j)
    order = np.lexsort((cost, high, low))  # the best of parallel edges comes first
    key = (low * n + high)[order]
    best = order[np.concatenate([[True], np.diff(key) > 0])] if len(order) else order
    shape = (n, n)
    lengths = sparse.csr_array((cost[best], (low[best], high[best])), shape=shape)
    number = sparse.csr_array((best + 1, (low[best], high[best])), shape=shape)
    roots = np.asarray(roots, dtype=np.int64)
    distance, before, _ = csgraph.dijkstra(
        lengths, directed=False, indices=roots, min_only=True, return_predecessors=True
    )
    parent = np.where(before >= 0, before, -1).astype(np.int64)
    edge = np.full(n, -1, dtype=np.int64)
    child = np.flatnonzero(parent >= 0)
    if len(child):
        a, b = np.minimum(child, parent[child]), np.maximum(child, parent[child])
        edge[child] = np.asarray(number[a, b]).reshape(-1).astype(np.int64) - 1
    return SpanningTree(np.argsort(distance, kind="stable").astype(np.int64), parent, edge)


def best_tree_poses(graph: PoseGraph, n_roots: int = 4) -> Poses:
    """The tree with the lowest U: the most certain spanning tree, or shortest paths from one of several roots.

    The roots tried in each component are its anchor, its node of highest degree, and the middle of a long path.
    """
    posterior = Posterior(graph)
    best = tree_poses(graph, most_certain_tree(graph))
    if graph.n_edges == 0:
        return best
    value = posterior.potential(best)
    for roots in _root_candidates(graph)[:n_roots]:
        poses = tree_poses(graph, shortest_path_tree(graph, roots))
        here = posterior.potential(poses)
        if here < value:
            best, value = poses, here
    return best


def _root_candidates(graph: PoseGraph) -> list[Index]:
    """Sets of one root per component."""
    component, n = graph.component, graph.n_nodes
    by_degree = np.lexsort((np.arange(n), -graph.degree, component))
    busiest = by_degree[np.unique(component[by_degree], return_index=True)[1]]
    adjacency = sparse.csr_array((np.ones(graph.n_edges), (graph.edge_i, graph.edge_j)), shape=(n, n))

    def hops(roots: Index) -> Array:
        distance = csgraph.dijkstra(adjacency, directed=False, indices=roots, unweighted=True, min_only=True)
        return np.asarray(distance, dtype=np.float64)

    def one_per_component(score: Array) -> Index:
        order = np.lexsort((-score, component))
        return order[np.unique(component[order], return_index=True)[1]].astype(np.int64)

    far = one_per_component(hops(graph.anchors))
    farther = one_per_component(hops(far))
    middle = one_per_component(-np.maximum(hops(far), hops(farther)))
    return [graph.anchors, busiest.astype(np.int64), middle, far]
