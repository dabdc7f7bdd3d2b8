"""How a graph hangs together: components, bridges and spanning trees, as functions of plain arrays.

A graph is ``n`` nodes and the rows ``edge_i``, ``edge_j`` (m,) of the ends of its edges; directions do not matter here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tempose._typing import AnyArray, Array, Index


@dataclass(frozen=True)
class SpanningTree:
    """A rooted spanning forest: nodes in breadth-first order, and each node's parent and the edge to it (−1 at roots)."""

    order: Index
    parent: Index
    edge: Index


def components(n: int, edge_i: Index, edge_j: Index) -> Index:
    """Component number of each node (n,), numbered by their first node; an isolated node is one."""
    tied = sparse.csr_array((np.ones(len(edge_i)), (edge_i, edge_j)), shape=(n, n))
    return _renumber(csgraph.connected_components(tied, directed=False)[1])


def spanning_forest(n: int, edge_i: Index, edge_j: Index, weights: Array, roots: Index) -> SpanningTree:
    """Maximum-weight spanning forest with one root per component; among parallel edges the best is used.

    Parameters
    ----------
    n, edge_i, edge_j
        The graph.
    weights
        Larger is better (m,).
    roots
        One row per component.
    """
    m = len(edge_i)
    order = np.argsort(-weights, kind="stable")  # best first: scipy minimises, so an edge's cost is its rank
    cost = np.empty(m)
    cost[order] = np.arange(1, m + 1)
    low, high = np.minimum(edge_i, edge_j), np.maximum(edge_i, edge_j)
    key = low * n + high
    first = np.lexsort((cost, key))
    unique = first[np.concatenate([[True], np.diff(key[first]) > 0])] if m else first
    best = sparse.csr_array((cost[unique], (low[unique], high[unique])), shape=(n, n))
    tree = csgraph.minimum_spanning_tree(best)
    edge_of = sparse.csr_array(tree + tree.T)
    by_cost = np.empty(m + 1, dtype=np.int64)
    by_cost[cost.astype(np.int64)] = np.arange(m)
    order_all, parent = [], np.full(n, -1, dtype=np.int64)
    for root in roots:
        visited, before = csgraph.breadth_first_order(edge_of, int(root), directed=False)
        order_all.append(visited)
        parent[visited[1:]] = before[visited[1:]]
    nodes = np.concatenate(order_all).astype(np.int64) if order_all else np.empty(0, np.int64)
    edge = np.full(n, -1, dtype=np.int64)
    child = np.flatnonzero(parent >= 0)
    if len(child):
        edge[child] = by_cost[np.asarray(edge_of[child, parent[child]]).reshape(-1).astype(np.int64)]
    return SpanningTree(nodes, parent, edge)


def bridges(n: int, edge_i: Index, edge_j: Index) -> Index:
    """Edges (k,) whose removal splits a component; parallel edges are never bridges.

    Tarjan's search with an explicit stack: an edge is a bridge if nothing below it reaches above it.
    """
    m = len(edge_i)
    ends = np.concatenate([edge_i, edge_j])
    order = np.argsort(ends, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=n))]).tolist()
    neighbour = np.concatenate([edge_j, edge_i])[order].tolist()
    edge_id = (order % max(m, 1)).tolist()
    seen, low = [-1] * n, [0] * n
    cursor = start[:-1].copy()
    found, clock = [], 0
    for root in range(n):
        if seen[root] >= 0:
            continue
        seen[root] = low[root] = clock
        clock += 1
        stack = [(root, -1)]
        while stack:
            node, via = stack[-1]
            if cursor[node] < start[node + 1]:
                k = cursor[node]
                cursor[node] += 1
                other = neighbour[k]
                if edge_id[k] == via:
                    continue
                if seen[other] < 0:
                    seen[other] = low[other] = clock
                    clock += 1
                    stack.append((other, edge_id[k]))
                else:
                    low[node] = min(low[node], seen[other])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    low[above] = min(low[above], low[node])
                    if low[node] > seen[above]:
                        found.append(via)
    return np.array(sorted(found), dtype=np.int64)


def series(n: int, edge_i: Index, edge_j: Index) -> Index:
    """Number (m,) of the row that each edge stands in: those without any two of which a component falls apart, but not without one.

    Every cycle has all edges of a row or none. So edges that are not in a tree get random numbers, and one in the tree gets the
    exclusive or of those whose cycles it is in: the same for those of a row, and for others once in 2⁶⁴. A bridge is a row of one.
    """
    first = np.unique(components(n, edge_i, edge_j), return_index=True)[1]
    tree = spanning_forest(n, edge_i, edge_j, np.zeros(len(edge_i)), first)
    label = np.random.default_rng(0).integers(1, np.iinfo(np.uint64).max, len(edge_i), dtype=np.uint64)
    label[tree.edge[tree.edge >= 0]] = 0
    at = np.zeros(n, dtype=np.uint64)
    np.bitwise_xor.at(at, edge_i, label)
    np.bitwise_xor.at(at, edge_j, label)
    below, parent, edge, found = at.tolist(), tree.parent.tolist(), tree.edge.tolist(), label.tolist()
    for node in tree.order[::-1].tolist():
        if parent[node] >= 0:
            found[edge[node]] = below[node]
            below[parent[node]] ^= below[node]
    label = np.array(found, dtype=np.uint64)
    alone = np.flatnonzero(label == 0)
    rows = np.unique(label, return_inverse=True)[1].astype(np.int64)
    rows[alone] = len(label) + np.arange(len(alone))
    return _renumber(rows)


def _renumber(labels: AnyArray) -> Index:
    """Number labels by first appearance."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)]
