"""The elimination of points from the normal equations, compiled.

Observations are sorted by point, those of point p are ``first[p]:first[p+1]``. Observation k depends on its point, on the node
``frame[k]`` by ``by_frame[k]`` (2, 6), and on the nodes ``camera_first[k]`` to ``camera_last[k] - 1`` by six columns of
``by_camera[k]`` each. Points, and rows of the matrix, do not depend on each other, so any number of threads gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from tempose._support.compiling import inlined, kernel
from tempose.sfm.adjustment.linear import BLOCK


@kernel(parallel=True)
def point_inverses(first: Any, weight: Any, by_point: Any, least: Any, V: Any, inverse: Any, sound: Any) -> None:
    """Information (p, 3, 3) of every point, and its inverse where it is well conditioned.

    ``sound`` (p,): whether the smallest eigenvalue is more than ``least`` of the largest for sure; nothing is inverted elsewhere.
    """
    for p in prange(len(first) - 1):
        xx = xy = xz = yy = yz = zz = 0.0
        for k in range(first[p], first[p + 1]):
            for r in range(2):
                x, y, z = by_point[k, r, 0], by_point[k, r, 1], by_point[k, r, 2]
                wx, wy, wz = weight[k] * x, weight[k] * y, weight[k] * z
                xx += wx * x
                xy += wx * y
                xz += wx * z
                yy += wy * y
                yz += wy * z
                zz += wz * z
        V[p, 0, 0], V[p, 1, 1], V[p, 2, 2] = xx, yy, zz
        V[p, 0, 1] = V[p, 1, 0] = xy
        V[p, 0, 2] = V[p, 2, 0] = xz
        V[p, 1, 2] = V[p, 2, 1] = yz
        a, b, c = yy * zz - yz * yz, xz * yz - xy * zz, xy * yz - xz * yy
        determinant, trace = xx * a + xy * b + xz * c, xx + yy + zz
        # the two larger eigenvalues multiply to at most a quarter of the squared trace
        sound[p] = determinant > 0.25 * least * trace * trace * trace and trace > 0.0
        if sound[p]:
            t = 1.0 / determinant
            inverse[p, 0, 0], inverse[p, 1, 1], inverse[p, 2, 2] = (
                t * a,
                t * (xx * zz - xz * xz),
                t * (xx * yy - xy * xy),
            )
            inverse[p, 0, 1] = inverse[p, 1, 0] = t * b
            inverse[p, 0, 2] = inverse[p, 2, 0] = t * c
            inverse[p, 1, 2] = inverse[p, 2, 1] = t * (xy * xz - xx * yz)


@inlined
def _joined(nodes: Any, count: Any, node: Any) -> Any:
    """Put a node into the first ``count`` of ascending nodes, unless it is there; returns how many there are then."""
    at = count
    while at > 0 and nodes[at - 1] > node:
        at -= 1
    if at > 0 and nodes[at - 1] == node:
        return count
    for k in range(count, at, -1):
        nodes[k] = nodes[k - 1]
    nodes[at] = node
    return count + 1


@inlined
def _nodes(begin: Any, end: Any, frame: Any, camera_first: Any, camera_last: Any, nodes: Any) -> Any:
    """Nodes that observations ``begin`` to ``end`` depend on, ascending; returns how many."""
    count = 0
    for k in range(begin, end):
        count = _joined(nodes, count, frame[k])
        for c in range(camera_first[k], camera_last[k]):
            count = _joined(nodes, count, c)
    return count


@inlined
def _found(nodes: Any, low: Any, high: Any, node: Any) -> Any:
    """Where a node stands in ascending nodes, between two places."""
    while low < high:
        middle = (low + high) // 2
        if nodes[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@kernel(parallel=True)
def count_links(first: Any, frame: Any, camera_first: Any, camera_last: Any, widest: Any, count: Any) -> None:
    """How many nodes (p,) each point hangs on; a camera has at most ``widest``."""
    for p in prange(len(first) - 1):
        nodes = np.empty((first[p + 1] - first[p]) * (1 + widest), np.int64)
        count[p] = _nodes(first[p], first[p + 1], frame, camera_first, camera_last, nodes)


@kernel(parallel=True)
def links(
    first: Any,
    frame: Any,
    camera_first: Any,
    camera_last: Any,
    weight: Any,
    by_frame: Any,
    by_camera: Any,
    by_point: Any,
    inverse: Any,
    link_first: Any,
    node: Any,
    W: Any,
    link: Any,
) -> None:
    """Nodes (l,) of all points, blocks ``W`` (l, 6, 3) of the normal equations between them, and ``V⁻¹ Wᵀ`` (l, 3, 6)."""
    widest = by_camera.shape[2] // BLOCK
    for p in prange(len(first) - 1):
        begin, end = link_first[p], link_first[p + 1]
        scratch = np.empty((first[p + 1] - first[p]) * (1 + widest), np.int64)
        _nodes(first[p], first[p + 1], frame, camera_first, camera_last, scratch)
        for i in range(begin, end):
            node[i] = scratch[i - begin]
            W[i] = 0.0
        for k in range(first[p], first[p + 1]):
            _add_cross(W[_found(node, begin, end, frame[k])], weight[k], by_frame[k], 0, by_point[k])
            for c in range(camera_first[k], camera_last[k]):
                start = BLOCK * (c - camera_first[k])
                _add_cross(W[_found(node, begin, end, c)], weight[k], by_camera[k], start, by_point[k])
        V = inverse[p]
        for i in range(begin, end):
            for c in range(BLOCK):
                x, y, z = W[i, c, 0], W[i, c, 1], W[i, c, 2]
                for r in range(3):
                    link[i, r, c] = V[r, 0] * x + V[r, 1] * y + V[r, 2] * z


@inlined
def _add_cross(out: Any, weight: Any, J: Any, start: Any, by_point: Any) -> None:
    """Add ``w Jᵀ Jₚ`` (6, 3), of six columns of J (2, …)."""
    for c in range(BLOCK):
        u, v = weight * J[0, start + c], weight * J[1, start + c]
        for d in range(3):
            out[c, d] += u * by_point[0, d] + v * by_point[1, d]


@inlined
def _add_block(out: Any, weight: Any, A: Any, a: Any, B: Any, b: Any) -> None:
    """Add ``w Aᵀ B`` (6, 6), of six columns of each."""
    for c in range(BLOCK):
        u, v = weight * A[0, a + c], weight * A[1, a + c]
        for d in range(BLOCK):
            out[c, d] += u * B[0, b + d] + v * B[1, b + d]


@kernel
def by_node(node: Any, n: Any, start: Any, order: Any) -> None:
    """Links in the order of their nodes: those of node a are ``order[start[a]:start[a+1]]``, ascending."""
    start[:] = 0
    for i in range(len(node)):
        start[node[i] + 1] += 1
    for a in range(n):
        start[a + 1] += start[a]
    place = start[:-1].copy()
    for i in range(len(node)):
        order[place[node[i]]] = i
        place[node[i]] += 1


@inlined
def _mark(a: Any, start: Any, order: Any, owner: Any, link_first: Any, node: Any, marked: Any) -> None:
    """Nodes beyond a that hang on one of its points."""
    for s in range(start[a], start[a + 1]):
        i = order[s]
        for j in range(i + 1, link_first[owner[i] + 1]):
            marked[node[j]] = True


@kernel(parallel=True)
def count_pairs(start: Any, order: Any, owner: Any, link_first: Any, node: Any, count: Any) -> None:
    """How many nodes beyond it share a point with each node (n,)."""
    n = len(count)
    for t in prange(n):
        a = t // 2 if t % 2 == 0 else n - 1 - t // 2  # the first have most
        marked = np.zeros(n, np.bool_)
        _mark(a, start, order, owner, link_first, node, marked)
        count[a] = marked.sum()


@kernel(parallel=True)
def matrix(
    first: Any,
    frame: Any,
    camera_first: Any,
    camera_last: Any,
    weight: Any,
    by_frame: Any,
    by_camera: Any,
    link_first: Any,
    node: Any,
    owner: Any,
    W: Any,
    link: Any,
    start: Any,
    order: Any,
    pair_first: Any,
    second: Any,
    diagonal: Any,
    off: Any,
) -> None:
    """``U − W V⁻¹ Wᵀ``: blocks (n, 6, 6) of nodes and (e, 6, 6) of pairs, the pairs of node a at ``pair_first[a]``."""
    n = len(diagonal)
    for t in prange(n):
        a = t // 2 if t % 2 == 0 else n - 1 - t // 2
        marked = np.zeros(n, np.bool_)
        _mark(a, start, order, owner, link_first, node, marked)
        place = np.empty(n, np.int64)
        count = pair_first[a]
        for b in range(n):
            if marked[b]:
                second[count], place[b] = b, count
                off[count] = 0.0
                count += 1
        diagonal[a] = 0.0
        for s in range(start[a], start[a + 1]):
            i = order[s]
            p = owner[i]
            for k in range(first[p], first[p + 1]):
                if frame[k] == a:
                    _add_block(diagonal[a], weight[k], by_frame[k], 0, by_frame[k], 0)
                    for c in range(camera_first[k], camera_last[k]):
                        _add_block(
                            off[place[c]], weight[k], by_frame[k], 0, by_camera[k], BLOCK * (c - camera_first[k])
                        )
                elif camera_first[k] <= a < camera_last[k]:
                    own = BLOCK * (a - camera_first[k])
                    _add_block(diagonal[a], weight[k], by_camera[k], own, by_camera[k], own)
                    for c in range(a + 1, camera_last[k]):
                        _add_block(
                            off[place[c]], weight[k], by_camera[k], own, by_camera[k], BLOCK * (c - camera_first[k])
                        )
            for j in range(i, link_first[p + 1]):
                out = diagonal[a] if j == i else off[place[node[j]]]
                for r in range(BLOCK):
                    x, y, z = W[i, r, 0], W[i, r, 1], W[i, r, 2]
                    for c in range(BLOCK):
                        out[r, c] -= x * link[j, 0, c] + y * link[j, 1, c] + z * link[j, 2, c]
