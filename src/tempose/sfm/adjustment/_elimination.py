"""The elimination of points from the normal equations, compiled.

Observations are sorted by point, those of point p are ``first[p]:first[p+1]``. Observation k depends on its point, on the node
``frame[k]`` by ``by_frame[k]`` (2, 6), and on the nodes ``camera_first[k]`` to ``camera_last[k] - 1`` by six columns of
``by_camera[k]`` each. Points, and shares of them, do not depend on each other, so any number of threads gives the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from tempose._support.compiling import inlined, kernel
from tempose.sfm.adjustment.linear import BLOCK


@kernel
def point_inverses(first: Any, weight: Any, by_point: Any, least: Any, V: Any, inverse: Any, sound: Any) -> None:
    """Information (p, 3, 3) of every point, and its inverse where it is well conditioned.

    ``sound`` (p,): whether the smallest eigenvalue is more than ``least`` of the largest for sure; nothing is inverted elsewhere.
    """
    for p in range(len(first) - 1):
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
def found(nodes: Any, low: Any, high: Any, node: Any, likely: Any) -> Any:
    """Where a node stands in ascending nodes, between two places; ``likely`` is where it would be if none were left out."""
    if likely < high and nodes[likely] == node:
        return likely
    while low < high:
        middle = (low + high) // 2
        if nodes[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def _block(row_first: Any, column: Any, a: Any, b: Any) -> Any:
    """Which block is in row a and column b."""
    return found(column, row_first[a], row_first[a + 1], b, row_first[a] + b - a)


@inlined
def _joined(nodes: Any, begin: Any, count: Any, node: Any) -> Any:
    """Put a node among ``count`` ascending ones, unless it is there; returns how many there are then."""
    at = begin + count
    while at > begin and nodes[at - 1] > node:
        at -= 1
    if at > begin and nodes[at - 1] == node:
        return count
    for k in range(begin + count, at, -1):
        nodes[k] = nodes[k - 1]
    nodes[at] = node
    return count + 1


@kernel
def point_nodes(
    first: Any, frame: Any, camera_first: Any, camera_last: Any, widest: Any, nodes: Any, count: Any
) -> None:
    """Nodes that each point hangs on, ascending, and how many (p,).

    A camera has at most ``widest``, so that there is room for those of point p from ``(1 + widest) first[p]`` on.
    """
    for p in range(len(first) - 1):
        begin, many = (1 + widest) * first[p], 0
        for k in range(first[p], first[p + 1]):
            many = _joined(nodes, begin, many, frame[k])
            for c in range(camera_first[k], camera_last[k]):
                many = _joined(nodes, begin, many, c)
        count[p] = many


@kernel
def pattern(first: Any, widest: Any, nodes: Any, link_first: Any, node: Any, shared: Any) -> None:
    """Nodes (l,) of all points without gaps, and which share a point: bit b % 64 of ``shared[a, b // 64]``, a < b."""
    for p in range(len(first) - 1):
        begin, end = link_first[p], link_first[p + 1]
        for i in range(begin, end):
            node[i] = nodes[(1 + widest) * first[p] + i - begin]
        for i in range(begin, end):
            for j in range(i + 1, end):
                shared[node[i], node[j] // 64] |= np.uint64(1) << np.uint64(node[j] % 64)


# Whole arrays and places in them, not views: a view counts its users, for which threads wait on each other.


@inlined
def _add_cross(out: Any, at: Any, weight: Any, J: Any, k: Any, start: Any, by_point: Any) -> None:
    """Add ``w Jᵀ Jₚ`` (6, 3) of observation k, of six columns of its J (2, …)."""
    for c in range(BLOCK):
        u, v = weight[k] * J[k, 0, start + c], weight[k] * J[k, 1, start + c]
        for d in range(3):
            out[at, c, d] += u * by_point[k, 0, d] + v * by_point[k, 1, d]


@inlined
def _add_block(out: Any, s: Any, e: Any, weight: Any, k: Any, A: Any, a: Any, B: Any, b: Any) -> None:
    """Add ``w Aᵀ B`` (6, 6) of observation k, of six columns of each."""
    for c in range(BLOCK):
        u, v = weight[k] * A[k, 0, a + c], weight[k] * A[k, 1, a + c]
        for d in range(BLOCK):
            out[s, e, c, d] += u * B[k, 0, b + d] + v * B[k, 1, b + d]


@kernel(parallel=True)
def eliminate(
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
    row_first: Any,
    column: Any,
    share: Any,
    most: Any,
    link: Any,
    block: Any,
) -> None:
    """``K = V⁻¹ Wᵀ`` (l, 3, 6) of all links, and blocks (s, b, 6, 6) of ``U − W K``.

    Share s has the points ``share[s]`` to ``share[s+1] - 1``, with at most ``most`` links each. Blocks of row a are
    ``row_first[a]:row_first[a+1]``, at ``column`` (b,), itself first.
    """
    for s in prange(len(share) - 1):
        W = np.empty((most, BLOCK, 3))
        for p in range(share[s], share[s + 1]):
            begin, end = link_first[p], link_first[p + 1]
            for i in range(end - begin):
                for c in range(BLOCK):
                    for d in range(3):
                        W[i, c, d] = 0.0
            for k in range(first[p], first[p + 1]):
                _add_cross(W, found(node, begin, end, frame[k], end) - begin, weight, by_frame, k, 0, by_point)
                e = row_first[frame[k]]
                _add_block(block, s, e, weight, k, by_frame, 0, by_frame, 0)
                for c in range(camera_first[k], camera_last[k]):
                    at = BLOCK * (c - camera_first[k])
                    _add_cross(W, found(node, begin, end, c, end) - begin, weight, by_camera, k, at, by_point)
                    e = _block(row_first, column, frame[k], c)
                    _add_block(block, s, e, weight, k, by_frame, 0, by_camera, at)
                    for d in range(c, camera_last[k]):
                        e, other = _block(row_first, column, c, d), BLOCK * (d - camera_first[k])
                        _add_block(block, s, e, weight, k, by_camera, at, by_camera, other)
            for i in range(begin, end):
                for c in range(BLOCK):
                    x, y, z = W[i - begin, c, 0], W[i - begin, c, 1], W[i - begin, c, 2]
                    for r in range(3):
                        link[i, r, c] = inverse[p, r, 0] * x + inverse[p, r, 1] * y + inverse[p, r, 2] * z
            for i in range(begin, end):
                for j in range(i, end):
                    e = _block(row_first, column, node[i], node[j])
                    for r in range(BLOCK):
                        x, y, z = W[i - begin, r, 0], W[i - begin, r, 1], W[i - begin, r, 2]
                        for c in range(BLOCK):
                            block[s, e, r, c] -= x * link[j, 0, c] + y * link[j, 1, c] + z * link[j, 2, c]


@kernel(parallel=True)
def pull(
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
    link: Any,
    share: Any,
    column: Any,
    displacement: Any,
    out: Any,
    own: Any,
) -> None:
    """What displaced image points (k, 2, m) pull at: right-hand sides (s, 6 n, …), and own shifts (p, 3, m) of the points.

    The displacements of point p act on the columns from ``column[p]`` on.
    """
    m = displacement.shape[2]
    for s in prange(len(share) - 1):
        force = np.empty((3, m))
        for p in range(share[s], share[s + 1]):
            to = column[p]
            force[:] = 0.0
            for k in range(first[p], first[p + 1]):
                for r in range(2):
                    for c in range(BLOCK):
                        x, row = weight[k] * by_frame[k, r, c], BLOCK * frame[k] + c
                        for d in range(m):
                            out[s, row, to + d] += x * displacement[k, r, d]
                    for c in range(BLOCK * (camera_last[k] - camera_first[k])):
                        x, row = weight[k] * by_camera[k, r, c], BLOCK * camera_first[k] + c
                        for d in range(m):
                            out[s, row, to + d] += x * displacement[k, r, d]
                    for c in range(3):
                        x = weight[k] * by_point[k, r, c]
                        for d in range(m):
                            force[c, d] += x * displacement[k, r, d]
            for i in range(link_first[p], link_first[p + 1]):
                for c in range(BLOCK):
                    row = BLOCK * node[i] + c
                    for r in range(3):
                        x = link[i, r, c]
                        for d in range(m):
                            out[s, row, to + d] -= x * force[r, d]
            for r in range(3):
                for d in range(m):
                    own[p, r, d] = (
                        inverse[p, r, 0] * force[0, d] + inverse[p, r, 1] * force[1, d] + inverse[p, r, 2] * force[2, d]
                    )


@kernel(parallel=True)
def follow(link_first: Any, node: Any, link: Any, x: Any, out: Any) -> None:
    """``−K x`` (p, 3, m): how points follow frames and cameras that are displaced by x (6 n, m)."""
    m = x.shape[1]
    for p in prange(len(link_first) - 1):
        for r in range(3):
            for d in range(m):
                out[p, r, d] = 0.0
            for i in range(link_first[p], link_first[p + 1]):
                for c in range(BLOCK):
                    y, row = link[i, r, c], BLOCK * node[i] + c
                    for d in range(m):
                        out[p, r, d] -= y * x[row, d]
