r"""Parts of a graph that know their own rotations, turned against each other by what else ties them together.

Measured rotations tie nodes into *parts*; a landmark belongs to none. Two parts can share

- points: a translation between them (a GPS fix is one, from the world) is a point known in the frames of both, and so is a
  landmark that both have seen;
- directions, where an edge knows its rotation about all axes but one, such as gravity;
- rotations, if a part was left out of another for other reasons.

All of these ask for the rotation G that takes the frame of one part to that of the other with the least
:math:`\sum w |b - \bar b - G (a - \bar a)|^2 + \dots`, the nearest rotation to
:math:`C = \sum w (b - \bar b)(a - \bar a)^T + \dots` (Horn, Umeyama). The axis of G that is known worst says how much two parts
have in common; each part joins the one it has most in common with, until there is nothing left to join.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tempose._typing import AnyArray, Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.model import topology
from tempose.model.graph import PoseGraph
from tempose.numerics import relaxation as _kernels

_FILLED_IN = 100  # rounds of guessing the coordinate that a point lacks
_FEW = 8  # parts that see one landmark: up to this many, every two of them share it


def rotation_parts(graph: PoseGraph) -> Index:
    """Which nodes are tied by measured rotations: the number of each node's part (n,), −1 for landmarks."""
    carries = graph.has_rotation
    label = topology.components(graph.n_nodes, graph.edge_i[carries], graph.edge_j[carries])
    return np.where(graph.is_landmark, -1, label)


def nearest_rotations(A: Array) -> Array:
    """Quaternions (n, 4) of the rotations nearest to matrices (n, 3, 3), or (n, 2, 2) in the plane."""
    wxyz = np.empty((len(A), 4))
    if A.shape[1] == 2:
        _kernels.nearest_plane_rotations(A, wxyz)
    else:
        _kernels.nearest_rotations(np.ascontiguousarray(A), wxyz)
    return wxyz


@dataclass(frozen=True)
class _Ties:
    """Vectors (k, 3) of two parts, in their frames, that should be the same once the parts agree.

    Points that differ by one and the same shift are of one ``group``; directions are of none, −1. Along ``unknown`` (k, 3), in the
    frame of b, nothing is known of a point; zero where all is.
    """

    part_a: Index
    part_b: Index
    a: Array
    b: Array
    weight: Array
    group: Index
    unknown: Array


def joined(graph: PoseGraph, wxyz: Array, position: Array, part: Index) -> tuple[Array, Array]:
    """Poses that are right within each part, moved so that the parts of a component agree.

    Parameters
    ----------
    wxyz, position
        world_from_node rotations (n, 4) and positions (n, 3), in each part's own frame; of landmarks they are not read.
    part
        Number of each node's part (n,), −1 for landmarks. A part that has a fixed node stands still.
    """
    wxyz, position = wxyz.copy(), position.copy()
    while True:
        ties = _ties(graph, wxyz, position, part)
        if len(ties.part_a) == 0:
            return wxyz, position
        order, parent = _forest(graph, ties, part)
        turn, shift = np.tile(quat.IDENTITY, (int(part.max()) + 1, 1)), np.zeros((int(part.max()) + 1, 3))
        root = np.arange(len(turn))
        for child in order:
            above = int(parent[child])
            G, by = _fit(ties, child, above, graph.dimension)
            turn[child] = quat.multiply(turn[above], G)
            shift[child] = shift[above] + quat.rotate(turn[above], by)
            root[child] = root[above]
        rows = part >= 0
        wxyz[rows] = quat.normalize(quat.multiply(turn[part[rows]], wxyz[rows]))
        position[rows] = shift[part[rows]] + quat.rotate(turn[part[rows]], position[rows])
        part = np.where(rows, root[part], -1)


def _ties(graph: PoseGraph, wxyz: Array, position: Array, part: Index) -> _Ties:
    """All that ties different parts together."""
    i, j, d = graph.edge_i, graph.edge_j, graph.dimension
    P = graph.translation_precision_matrices
    weight = np.trace(P, axis1=1, axis2=2) / d
    landmark = graph.is_landmark[i]
    inside = graph.has_translation & ((part[i] == part[j]) | landmark)
    hangs = topology.components(graph.n_nodes, i[inside], j[inside])  # positions that are right relative to each other
    seen = position[j] + quat.rotate(wxyz[j], np.nan_to_num(graph.j_from_i_t))
    across = (part[i] != part[j]) & ~landmark

    e = np.flatnonzero(across & (weight > 0.0))
    own = position[i[e]] if graph.arm is None else position[i[e]] + quat.rotate(wxyz[i[e]], graph.arm[e])
    ends = np.stack([part[i[e]], part[j[e]], hangs[i[e]], hangs[j[e]]], axis=1)
    found: list[tuple[AnyArray, ...]] = [
        (ends, own, seen[e], weight[e], quat.rotate(wxyz[j[e]], _unknown_axes(P[e], d)))
    ]
    e = np.flatnonzero(landmark & (weight > 0.0))
    found.append(_shared_landmarks(i[e], part[j[e]], hangs[j[e]], seen[e], weight[e]))
    ends, a, b, w, unknown = (np.concatenate(x) for x in zip(*found, strict=True))
    group = np.unique(ends, axis=0, return_inverse=True)[1].reshape(-1)

    e = np.flatnonzero(across & (graph.mean_concentration > 0.0))
    axis, size = _known_directions(graph, e)
    back = quat.multiply(wxyz[i[e]], quat.conjugate(graph.j_from_i_wxyz[e]))
    for k in range(3):
        known = np.flatnonzero(size[:, k] > 0.0)
        ends = np.concatenate([ends[:, :2], np.stack([part[i[e[known]]], part[j[e[known]]]], axis=1)])
        a = np.concatenate([a, quat.rotate(back[known], axis[known, :, k])])
        b = np.concatenate([b, quat.rotate(wxyz[j[e[known]]], axis[known, :, k])])
        w, group = np.append(w, size[known, k]), np.append(group, np.full(len(known), -1))
        unknown = np.concatenate([unknown, np.zeros((len(known), 3))])
    return _Ties(ends[:, 0], ends[:, 1], a, b, w, group, unknown)


def _unknown_axes(P: Array, d: int) -> Array:
    """The axis (m, 3) along which each precision says nothing, zero if there is none; two such axes leave a point useless."""
    out = np.zeros((len(P), 3))
    values, vectors = np.linalg.eigh(P[:, :d, :d])
    if len(P):
        lacking = values[:, 0] <= 1e-12 * values[:, -1]
        out[lacking, :d] = vectors[lacking, :, 0]
    return out


def _known_directions(graph: PoseGraph, e: Index) -> tuple[Array, Array]:
    """Axes (k, 3, 3), as columns, that the rotation of each edge leaves in place, and their weights (k, 3) in ``w |b − a|²``.

    A full rotation leaves all three; one that is not measured about a single axis leaves that axis.
    """
    axis, size = np.tile(np.eye(3), (len(e), 1, 1)), np.zeros((len(e), 3))
    full = graph.has_rotation[e]
    size[full, : graph.dimension] = graph.mean_concentration[e[full], None] / 4.0
    if not np.all(full):
        rest = np.flatnonzero(~full)
        values, vectors = np.linalg.eigh(graph.concentration_matrices[e[rest]])
        axis[rest] = vectors
        size[rest, 0] = np.where(values[:, 1] > 1e-12 * values[:, 2], 0.5 * values[:, 1], 0.0)
    return axis, size


def _shared_landmarks(landmark: Index, part: Index, hangs: Index, seen: Array, weight: Array) -> tuple[AnyArray, ...]:
    """Landmarks that several parts have seen: where they are in the frames of every two of them."""
    if len(landmark) == 0:
        return np.empty((0, 4), dtype=np.int64), *(np.empty((0, 3)),) * 2, np.empty(0), np.empty((0, 3))
    views, at = np.unique(np.stack([landmark, part, hangs], axis=1), axis=0, return_inverse=True)
    at = at.reshape(-1)
    total = np.bincount(at, weight, len(views))
    mean = np.stack([np.bincount(at, weight * seen[:, k], len(views)) for k in range(3)], axis=1) / total[:, None]
    start = np.searchsorted(views[:, 0], np.unique(views[:, 0]))
    first, second = [], []
    for low, high in zip(start, np.append(start, len(views))[1:], strict=True):
        best = low + int(np.argmax(total[low:high]))
        for one in range(low, high):
            partners = range(one + 1, high) if high - low <= _FEW else [best]
            for other in partners:
                if views[one, 1] != views[other, 1]:
                    first.append(one)
                    second.append(other)
    x, y = np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)
    ends = np.stack([views[x, 1], views[y, 1], views[x, 2], views[y, 2]], axis=1)
    both = total[x] * total[y] / (total[x] + total[y])
    return ends, mean[x], mean[y], both, np.zeros((len(x), 3))


def _centred(x: Array, weight: Array, group: Index) -> Array:
    """Points relative to the mean of their group; directions, of no group, as they are."""
    out, points = x.copy(), group >= 0
    if np.any(points):
        g, w = group[points], weight[points]
        total = np.maximum(np.bincount(g, w), 1e-300)
        mean = np.stack([np.bincount(g, w * x[points, k]) for k in range(3)], axis=1) / total[:, None]
        out[points] -= mean[g]
    return out


def _in_common(ties: _Ties, planar: bool) -> tuple[Index, Array]:
    """Pairs of parts (k, 2) that share something, and how firmly each holds its worst-known axis (k,)."""
    ends = np.sort(np.stack([ties.part_a, ties.part_b], axis=1), axis=1)
    pairs, which = np.unique(ends, axis=0, return_inverse=True)
    which = which.reshape(-1)
    firm = np.full(len(pairs), np.inf)
    for vectors in (ties.a, ties.b):
        x = _centred(vectors, ties.weight, ties.group)
        scatter = np.zeros((len(pairs), 3, 3))
        np.add.at(scatter, which, ties.weight[:, None, None] * x[:, :, None] * x[:, None, :])
        values = np.linalg.eigvalsh(scatter)
        firm = np.minimum(firm, values.sum(axis=1) if planar else values[:, 0] + values[:, 1])
    size = np.zeros(len(pairs))
    np.add.at(size, which, ties.weight * np.sum(ties.a**2 + ties.b**2, axis=1))
    return pairs, np.where(firm > 1e-10 * size, firm, 0.0)


def _forest(graph: PoseGraph, ties: _Ties, part: Index) -> tuple[list[int], Index]:
    """Who joins whom: parts in the order of joining, and the part that each of them joins.

    Every part chooses the one it has most in common with. Where nothing is determined any more, what is left joins all the same.
    """
    pairs, firm = _in_common(ties, graph.is_planar)
    if np.any(firm > 0.0):
        pairs, firm = pairs[firm > 0.0], firm[firm > 0.0]
    rank = np.empty(len(pairs))
    rank[np.argsort(-firm, kind="stable")] = np.arange(1, len(pairs) + 1)  # 1 is the firmest
    n = int(part.max()) + 1
    best = np.full(n, np.inf)
    for side in (0, 1):
        np.minimum.at(best, pairs[:, side], rank)
    chosen = (rank == best[pairs[:, 0]]) | (rank == best[pairs[:, 1]])
    tree = csgraph.minimum_spanning_tree(
        sparse.csr_array((rank[chosen], (pairs[chosen, 0], pairs[chosen, 1])), shape=(n, n))
    )
    both = sparse.csr_array(tree + tree.T)
    size = np.bincount(part[part >= 0], minlength=n).astype(float)
    size[part[graph.is_fixed & (part >= 0)]] = np.inf  # what is fixed stands still, and others come to it
    order: list[int] = []
    parent = np.full(n, -1, dtype=np.int64)
    done = np.zeros(n, dtype=bool)
    for root in np.argsort(-size, kind="stable"):
        if done[root] or size[root] == 0.0:
            continue
        visited, before = csgraph.breadth_first_order(both, int(root), directed=False)
        done[visited] = True
        parent[visited[1:]] = before[visited[1:]]
        order += visited[1:].tolist()
    return order, parent


def _fit(ties: _Ties, child: int, parent: int, d: int) -> tuple[Array, Array]:
    """The motion, a quaternion (4,) and a shift (3,), that takes the frame of one part to that of another."""
    forward: Mask = (ties.part_a == child) & (ties.part_b == parent)
    rows = np.flatnonzero(forward | ((ties.part_b == child) & (ties.part_a == parent)))
    ahead = forward[rows][:, None]
    x, y = np.where(ahead, ties.a[rows], ties.b[rows]), np.where(ahead, ties.b[rows], ties.a[rows])
    weight, group, unknown = ties.weight[rows], ties.group[rows], ties.unknown[rows]
    lacking = unknown.any(axis=1)
    along = (
        np.sum(unknown * (x - y), axis=1)[:, None] * unknown
    )  # to begin with as if the frames had this axis in common
    x, y = x - np.where(~ahead, along, 0.0), y + np.where(ahead, along, 0.0)
    for _ in range(_FILLED_IN if np.any(lacking) else 1):
        u, v = (_centred(z, weight, group)[:, :d] for z in (x, y))
        turn = nearest_rotations(np.einsum("k,ka,kb->ab", weight, v, u)[None])[0]
        points = group >= 0
        total = float(weight[points].sum())
        by = weight[points] @ (y[points] - quat.rotate(turn, x[points])) / total if total > 0.0 else np.zeros(3)
        if np.any(lacking):  # let the coordinate that is not known be the one that fits
            off = quat.rotate(turn, x) + by - y
            off = np.where(ahead, off, -quat.rotate(quat.conjugate(turn), off))
            along = np.sum(unknown * off, axis=1)[:, None] * unknown
            x, y = x + np.where(~ahead, along, 0.0), y + np.where(ahead, along, 0.0)
    return turn, by
