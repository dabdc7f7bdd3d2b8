"""Compiled loops over triangles: arrays in, arrays out, no validation.

They read the graph by *half edges*: the half edges of node v are rows ``start[v]`` to ``start[v + 1]``, sorted by neighbour u,
and carry the measured ``u_from_v = (q, t)``. The readable twins are in ``tests/outliers/search/test_basin.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose.geometry.compiled import product, turned


@inlined(early=True)
def closure(q: Any, t: Any, ab: Any, bc: Any, ac: Any) -> Any:
    """What is left around a triangle: 4 sin²(θ/2) and |translation|² of ``c_from_b b_from_a`` against ``c_from_a``."""
    first = (q[ab, 0], q[ab, 1], q[ab, 2], q[ab, 3])
    second = (q[bc, 0], q[bc, 1], q[bc, 2], q[bc, 3])
    w, x, y, z = product(second, first)
    dot = w * q[ac, 0] + x * q[ac, 1] + y * q[ac, 2] + z * q[ac, 3]
    s = turned(second, (t[ab, 0], t[ab, 1], t[ab, 2]))
    u, v, r = s[0] + t[bc, 0] - t[ac, 0], s[1] + t[bc, 1] - t[ac, 1], s[2] + t[bc, 2] - t[ac, 2]
    return 4.0 * max(1.0 - dot * dot, 0.0), u * u + v * v + r * r


@kernel
def keep_best(value: Any, apex: Any, e: int, d: float, c: int) -> None:
    """Put a triangle with distance d and third node c among the best of edge e, one for each third node."""
    k = value.shape[1]
    at = k - 1
    for a in range(k):
        if apex[e, a] == c:
            at = a
            break
    if d >= value[e, at]:
        return
    while at > 0 and value[e, at - 1] > d:
        value[e, at], apex[e, at] = value[e, at - 1], apex[e, at - 1]
        at -= 1
    value[e, at], apex[e, at] = d, c


@kernel
def triangles_of(a: int, start: Any, neighbour: Any, mark: Any) -> Any:
    """All triangles (t, 3) whose first node is a, as half edges a → b, b → c and a → c with a < b < c.

    ``mark`` (n,) must be −1 everywhere, and is left so. Parallel edges make triangles of their own.
    """
    for k in range(start[a], start[a + 1]):
        if neighbour[k] > a:
            mark[neighbour[k]] = k  # the last half edge from a to each node
    total = 0
    for again in range(2):  # count, then write
        found = np.empty((total, 3), np.int64)
        total = 0
        for k in range(start[a], start[a + 1]):
            b = neighbour[k]
            if b <= a:
                continue
            for h in range(start[b], start[b + 1]):
                c = neighbour[h]
                if c <= b or mark[c] < 0:
                    continue
                g = mark[c]
                while g >= start[a] and neighbour[g] == c:
                    if again:
                        found[total, 0], found[total, 1], found[total, 2] = k, h, g
                    total += 1
                    g -= 1
    for k in range(start[a], start[a + 1]):
        mark[neighbour[k]] = -1
    return found


@kernel
def triangles(
    start: Any, neighbour: Any, edge: Any, q: Any, t: Any, has_t: Any, rot: float, trans: float, limit: float,
    value: Any, apex: Any, count: Any, closed: Any,
) -> int:  # fmt: skip
    """All triangles: per edge the least distances ``d² = rot · 4 sin²(θ/2) + trans · |r|²``, one per third node.

    ``start`` … are half edges whose (q, t) are ``u_from_v``. Writes ``value``, ``apex`` (m, k), and how many triangles each
    edge is in, and how many of them close with d² below ``limit``.
    """
    n = start.shape[0] - 1
    mark = np.full(n, -1, np.int64)
    total = 0
    for a in range(n):
        found = triangles_of(a, start, neighbour, mark)
        total += found.shape[0]
        for x in range(found.shape[0]):
            k, h, g = found[x, 0], found[x, 1], found[x, 2]
            turned, moved = closure(q, t, k, h, g)
            d = rot * turned
            if has_t[k] and has_t[h] and has_t[g]:
                d += trans * moved
            keep_best(value, apex, edge[k], d, neighbour[h])
            keep_best(value, apex, edge[h], d, a)
            keep_best(value, apex, edge[g], d, neighbour[k])
            good = 1 if d < limit else 0
            for e in (edge[k], edge[h], edge[g]):
                count[e] += 1
                closed[e] += good
    return total


@kernel
def shifts_of_closed(start: Any, neighbour: Any, q: Any, t: Any, has_t: Any, limit: float, out: Any) -> int:
    """Squared translations left around triangles whose rotations close, 4 sin²(θ/2) < limit; at most ``len(out)`` of them."""
    n = start.shape[0] - 1
    mark = np.full(n, -1, np.int64)
    count = 0
    for a in range(n):
        found = triangles_of(a, start, neighbour, mark)
        for x in range(found.shape[0]):
            k, h, g = found[x, 0], found[x, 1], found[x, 2]
            turned, moved = closure(q, t, k, h, g)
            if turned < limit and has_t[k] and has_t[h] and has_t[g]:
                if count == out.shape[0]:
                    return count
                out[count] = moved
                count += 1
    return count
