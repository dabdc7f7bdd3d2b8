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
    placed: Any, wxyz: Any, position: Any, via: Any, branch: Any, sums: Any, depth: Any,
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
def cycles(
    start: Any, neighbour: Any, edge: Any, twin: Any, half_wxyz: Any, half_t: Any, rot: Any, trans: Any, edge_i: Any,
    edge_j: Any, ways: Any, length: Any, wxyz: Any, position: Any, sums: Any,
) -> None:  # fmt: skip
    """The shortest way around every edge, from its first node to its second: :func:`spread` for unit costs, from one to the other.

    Parameters
    ----------
    ways, length
        Filled (m, most), (m,): the edges of the way, from its end, and how many; −1 where there is none of at most so many.
    wxyz, position, sums
        Filled (m, 4), (m, 3), (m, 11): where the way leads to if it begins at the origin, and what errors add up to.
    """
    n, most = start.shape[0] - 1, ways.shape[1]
    distance, via, done = np.full(n, np.inf), np.full(n, -1), np.zeros(n, dtype=np.bool_)
    halves = np.empty(most, dtype=np.int64)
    for k in range(edge_i.shape[0]):
        a, b = edge_i[k], edge_j[k]
        touched = [a]
        distance[a] = 0.0
        queue = [(0.0, a)]
        while len(queue) > 0:
            far, v = heapq.heappop(queue)
            if v == b or far > most:
                break
            if done[v]:
                continue
            done[v] = True
            for h in range(start[v], start[v + 1]):
                u = neighbour[h]
                if done[u] or edge[h] == k:
                    continue
                there = far + 1.0
                if there < distance[u]:
                    if distance[u] == np.inf:
                        touched.append(u)
                    distance[u] = there
                    via[u] = h
                    heapq.heappush(queue, (there, u))
        length[k] = -1
        sums[k] = 0.0
        if 0.0 < distance[b] <= most:
            count, v = 0, b
            while v != a:
                halves[count] = via[v]
                ways[k, count] = edge[via[v]]
                v = neighbour[twin[via[v]]]
                count += 1
            length[k] = count
            q, x = (1.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
            for step in range(count - 1, -1, -1):
                back = twin[halves[step]]  # parent_from_node
                t = turned(q, half_t[back])
                q = product(q, half_wxyz[back])
                y = (x[0] + t[0], x[1] + t[1], x[2] + t[2])
                add_edge(x, y, rot[edge[back]], trans[edge[back]], sums[k])
                x = y
            for c in range(4):
                wxyz[k, c] = q[c]
            for c in range(3):
                position[k, c] = x[c]
        for v in touched:
            distance[v], via[v], done[v] = np.inf, -1, False


@kernel
def along(neighbour: Any, edge: Any, twin: Any, via: Any, order: Any, value: Any, out: Any) -> None:
    """Sums (n,) of a value of edges (m,) along the way to each node of a forest; ``order`` has parents before children."""
    for k in range(order.shape[0]):
        v = order[k]
        h = via[v]
        out[v] = out[neighbour[twin[h]]] + value[edge[h]] if h >= 0 else 0.0


@kernel
def suspect(neighbour: Any, edge: Any, twin: Any, via: Any, ears: Any, ends: Any, accepted: Any, blame: Any) -> None:
    """Share the blame for each of some ears, edges (k,) that join the ways to two nodes (k, 2), among its edges not accepted."""
    for k in range(ears.shape[0]):
        count = 1
        for sharing in (False, True):
            if sharing:
                blame[ears[k]] += 1.0 / count
            for side in range(2):
                v = ends[k, side]
                while via[v] >= 0:
                    e = edge[via[v]]
                    if not accepted[e]:
                        if sharing:
                            blame[e] += 1.0 / count
                        else:
                            count += 1
                    v = neighbour[twin[via[v]]]


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
