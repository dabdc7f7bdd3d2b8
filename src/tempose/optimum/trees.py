"""Spanning trees of a graph, and poses chained along them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.topology import SpanningTree
from tempose.numerics import relaxation as _kernels
from tempose.optimum.joining import joined
from tempose.optimum.merged import fixed_poses, placed


def rotation_weights(graph: PoseGraph) -> Array:
    """Positive weight of each edge's rotation (m,): its mean concentration, and hardly anything where that is zero."""
    weight = graph.mean_concentration
    positive = weight[weight > 0.0]
    least = float(positive.min()) * 1e-3 if len(positive) else 1.0
    return np.where(weight > 0.0, weight, least)


def most_certain_tree(graph: PoseGraph) -> SpanningTree:
    """Spanning tree of the largest rotation concentrations.

    Edges without a translation only where there is no other, and edges that measure no rotation only after these.
    """
    if graph.has_translation.all() and graph.has_rotation.all():
        return graph.spanning_tree()
    rank = np.empty(graph.n_edges)
    order = np.lexsort((graph.mean_concentration, graph.has_translation, graph.has_rotation))
    rank[order] = np.arange(graph.n_edges)
    return graph.spanning_tree(rank)


def tree_poses(graph: PoseGraph, tree: SpanningTree) -> Poses:
    """Chain the measured motions along a tree; roots are at the origin, edges without translation add none.

    An edge that does not measure both ties nothing by itself: what hangs on it, and what hangs on a fixed node, is chained in a
    frame of its own, and joined with the rest by all that they share. Landmarks are where the tree's edge to them says.
    """
    wxyz, position = fixed_poses(graph)
    parent, cut = tree.parent, _cut(graph, tree)
    if np.any(cut):
        parent = np.where(cut, -1, tree.parent)
    t = np.nan_to_num(graph.j_from_i_t)
    _kernels.chain(tree.order, parent, tree.edge, graph.edge_i, graph.j_from_i_wxyz, t, wxyz, position)
    if np.any(cut):
        part = _roots(tree.order, parent)
        for c in np.unique(graph.component[graph.is_fixed]):  # these are in one frame already
            known = graph.is_fixed & (graph.component == c) & ~graph.is_landmark
            part[np.isin(part, part[known])] = part[known][0] if np.any(known) else -1
        part[graph.is_landmark] = -1
        wxyz, position = joined(graph, wxyz, position, part)
        seen = np.flatnonzero(graph.is_landmark & ~graph.is_fixed & (tree.parent >= 0))
        wxyz[graph.is_landmark] = quat.IDENTITY
        below = seen[graph.edge_i[tree.edge[seen]] == seen]
        position[below] = position[tree.parent[below]] + quat.rotate(wxyz[tree.parent[below]], t[tree.edge[below]])
        for k in np.setdiff1d(np.flatnonzero(graph.is_landmark & ~graph.is_fixed), below):  # roots
            e = np.flatnonzero(graph.edge_i == k)[:1]
            position[k] = np.sum(position[graph.edge_j[e]] + quat.rotate(wxyz[graph.edge_j[e]], t[e]), axis=0)
    return placed(graph, Poses(graph.node_ids, wxyz, position))


def _cut(graph: PoseGraph, tree: SpanningTree) -> Mask:
    """Which nodes (n,) do not get their rotation from their parent in the tree."""
    hangs = tree.parent >= 0
    cut = hangs & graph.is_fixed
    if graph.n_edges:
        cut |= hangs & ~graph.has_rotation[tree.edge]
        # without a translation it says where nothing is: others do, if they tie the two at all
        cut |= (
            hangs
            & ~graph.has_translation[tree.edge]
            & (graph.position_component == graph.position_component[tree.parent])
        )
        if graph.arm is not None:  # a lever arm is of no use to a chain
            cut |= hangs & np.any(graph.arm[tree.edge] != 0.0, axis=1)
    return np.asarray(cut)


def _roots(order: Index, parent: Index) -> Index:
    """The root (n,) of the tree that each node is in."""
    root = np.arange(len(parent))
    for k in order.tolist():
        if parent[k] >= 0:
            root[k] = root[parent[k]]
    return root


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
        # a path without translations is a last resort, one without rotations the very last
        length = np.where(graph.has_translation, length, length + length.sum())
        cost = np.where(graph.has_rotation, length, length + length.sum())
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
