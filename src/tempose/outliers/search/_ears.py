"""Kernels of :mod:`tempose.outliers.search.ears`: shortest ways through a graph, and what errors add up to along them.

What errors add up to is kept as eleven *sums* over the edges of a way, in a fixed order: of σ_R², of σ_R² x (3), of σ_R² x xᵀ (its
six different numbers, row by row) and of σ_t², x the middle of an edge in the world. They are enough to know the covariance of
where the way leads to, seen from any point.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose.geometry.compiled import product, turned

SUMS = 11


@kernel
def add_edge(a: Any, b: Any, rot: float, trans: float, sums: Any) -> None:
    """Add an edge between points a and b, with variances ``rot`` and ``trans``, to the sums of a way."""
    x, y, z = 0.5 * (a[0] + b[0]), 0.5 * (a[1] + b[1]), 0.5 * (a[2] + b[2])
    sums[0] += rot
    sums[1] += rot * x
    sums[2] += rot * y
    sums[3] += rot * z
    sums[4] += rot * x * x
    sums[5] += rot * x * y
    sums[6] += rot * x * z
    sums[7] += rot * y * y
    sums[8] += rot * y * z
    sums[9] += rot * z * z
    sums[10] += trans


@kernel
def spread(
    start: Any, neighbour: Any, edge: Any, twin: Any, half_wxyz: Any, half_t: Any, cost: Any, rot: Any, trans: Any,
    placed: Any, wxyz: Any, position: Any, via: Any, branch: Any, sums: Any, depth: Any, target: int = -1,
) -> None:  # fmt: skip
    """Reach all other nodes from those that are placed, each by the cheapest way, and place them there.

    Parameters
    ----------
    cost
        Of each edge (m,); infinite ones are not used.
    via, branch
        Filled (n,): the half edge that leads to each node, and the one by which its way has left the placed nodes; −1 for these.
    sums
        Filled (n, 11): of the way from the placed nodes.
    depth
        Filled (n,): edges of that way.
    target
        Node at which to stop; all are reached by default.
    """
    n = placed.shape[0]
    distance, done = np.full(n, np.inf), np.zeros(n, dtype=np.bool_)
    queue = [(0.0, -1)]
    for v in range(n):
        via[v], branch[v], depth[v] = -1, -1, 0
        sums[v] = 0.0
        if placed[v]:
            distance[v] = 0.0
            queue.append((0.0, v))
    heapq.heapify(queue)
    while len(queue) > 0:
        far, v = heapq.heappop(queue)
        if v < 0 or done[v]:
            continue
        done[v] = True
        if via[v] >= 0:
            h = via[v]
            parent = neighbour[twin[h]]
            k = twin[h]  # parent_from_node
            turn = (wxyz[parent, 0], wxyz[parent, 1], wxyz[parent, 2], wxyz[parent, 3])
            q = product(turn, half_wxyz[k])
            t = turned(turn, half_t[k])
            for c in range(4):
                wxyz[v, c] = q[c]
            for c in range(3):
                position[v, c] = position[parent, c] + t[c]
            for c in range(sums.shape[1]):
                sums[v, c] = sums[parent, c]
            add_edge(position[parent], position[v], rot[edge[h]], trans[edge[h]], sums[v])
            branch[v] = h if placed[parent] else branch[parent]
            depth[v] = depth[parent] + 1
        if v == target:
            break
        for h in range(start[v], start[v + 1]):
            u = neighbour[h]
            if done[u] or placed[u]:
                continue
            there = far + cost[edge[h]]
            if there < distance[u]:
                distance[u] = there
                via[u] = h
                heapq.heappush(queue, (there, u))
    for v in range(n):
        if not done[v]:
            via[v] = -1


@kernel
def between(
    start: Any, neighbour: Any, edge: Any, twin: Any, rot: Any, trans: Any, inside: Any, position: Any,
    first: Any, second: Any, sums: Any,
) -> None:  # fmt: skip
    """Add the way of least variance between two placed nodes along edges ``inside`` (m,) to the sums (k, 11) of each pair."""
    n = position.shape[0]
    distance, via, seen = np.full(n, np.inf), np.full(n, -1), np.full(n, -1)
    for pair in range(first.shape[0]):
        a, b = first[pair], second[pair]
        if a == b:
            continue
        touched = [a]
        distance[a] = 0.0
        queue = [(0.0, a)]
        while len(queue) > 0:
            far, v = heapq.heappop(queue)
            if v == b:
                break
            if seen[v] == pair:
                continue
            seen[v] = pair
            for h in range(start[v], start[v + 1]):
                u = neighbour[h]
                if not inside[edge[h]] or seen[u] == pair:
                    continue
                there = far + rot[edge[h]]
                if there < distance[u]:
                    if distance[u] == np.inf:
                        touched.append(u)
                    distance[u] = there
                    via[u] = h
                    heapq.heappush(queue, (there, u))
        if distance[b] == np.inf:
            sums[pair, 0] = np.inf  # nothing joins them
        else:
            v = b
            while v != a:
                h = via[v]
                parent = neighbour[twin[h]]
                add_edge(position[parent], position[v], rot[edge[h]], trans[edge[h]], sums[pair])
                v = parent
        for v in touched:
            distance[v], via[v] = np.inf, -1
