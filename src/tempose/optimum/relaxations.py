"""Linear problems near the one to solve: rotations over free matrices, then positions given the rotations.

The relaxations find the rotations first, from the rotation measurements alone, and then the positions, which given
the rotations are the solution of one linear system:

- ``chordal``: minimise ``Σ λ ‖R_i − R_j R_ij‖²`` over free d×d matrices with one node per part held, then take
  the nearest rotations (Martinec & Pajdla 2007; Carlone et al. 2015);
- ``spectral``: the d smallest eigenvectors of the connection Laplacian, relative to the nodes' weights, per
  part, then the nearest rotations (Arie-Nachimson et al. 2012).

Both find the exact rotations of a graph without noise, whatever its weights. Parts are what measured rotations tie together; they
are turned against each other by what else ties them (:mod:`tempose.optimum.joining`). Fixed nodes are merged first.
"""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.numerics import relaxation as _kernels
from tempose.numerics.laplacian import Laplacian
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError, Symbolic, analyze
from tempose.numerics.sparse.ordering import Order
from tempose.optimum.joining import joined, nearest_rotations, rotation_parts
from tempose.optimum.merged import fixed_poses, merged, placed
from tempose.optimum.trees import most_certain_tree, rotation_weights, tree_poses

_DENSE_UP_TO = 40  # nodes: below this a dense eigensolver is quicker than a sparse one
_factors: weakref.WeakKeyDictionary[PoseGraph, Factor | None] = weakref.WeakKeyDictionary()
_orders: weakref.WeakKeyDictionary[PoseGraph, Order] = weakref.WeakKeyDictionary()
_patterns: weakref.WeakKeyDictionary[PoseGraph, dict[int, Symbolic]] = weakref.WeakKeyDictionary()


def pattern(graph: PoseGraph, block: int) -> Symbolic:
    """The analysed sparsity pattern of a graph, one block per node and edge; kept as long as the graph lives."""
    known = _patterns.setdefault(graph, {})
    if block not in known:
        order = known_order(graph)
        known[block] = analyze(graph.n_nodes, graph.edge_i, graph.edge_j, block=block, order=order)
        remember_order(graph, known[block].first_order)
    return known[block]


def known_order(graph: PoseGraph) -> Order | None:
    """The order of elimination that was found good for the pattern of a graph, if it was looked for.

    It is what a search would find again, so that no result depends on what was computed before.
    """
    return _orders.get(graph)


def remember_order(graph: PoseGraph, order: Order) -> None:
    """Keep the order that was found for the pattern of a graph as long as the graph lives."""
    _orders[graph] = order


def chordal_rotations(graph: PoseGraph, weights: ArrayLike | None = None) -> Array:
    """Rotations (n, 4), world_from_node, by least squares over free d×d matrices; anchors are where they are held.

    Parameters
    ----------
    weights
        Positive weight per edge (m,); by default :func:`rotation_weights`. Edges that measure no rotation have none.
    """
    part = merged(graph)
    g = part.graph
    w = rotation_weights(graph) if weights is None else np.asarray(weights, float)
    return _in_place(graph, _in_one_frame(g, _chordal(g, w[part.edges])))


def _chordal(graph: PoseGraph, weights: Array) -> Array:
    """The rotations of each rotation part in a frame of its own."""
    n, m, d = graph.n_nodes, graph.n_edges, graph.dimension
    w = np.where(graph.has_rotation, weights, 0.0)
    held = _one_of_each(graph, rotation_parts(graph))
    diagonal, off, rhs = np.zeros((n, d, d)), np.empty((m, d, d)), np.zeros((n, d, d))
    _kernels.connection_blocks(_axes(graph), graph.edge_i, graph.edge_j, _measured(graph), w, held, diagonal, off, rhs)
    try:
        transposed = pattern(graph, d).factor(diagonal, off).solve(rhs.reshape(d * n, d)).reshape(n, d, d)
        pattern(graph, d).release()
    except NotPositiveDefiniteError:  # the weights are too far apart for double precision
        return tree_poses(graph, most_certain_tree(graph)).wxyz
    return nearest_rotations(np.swapaxes(transposed, 1, 2))


def spectral_rotations(graph: PoseGraph) -> Array:
    """Rotations (n, 4), world_from_node, from the smallest eigenvectors of ``L x = μ D x``; anchors are where they are held.

    L is the connection Laplacian (d×d blocks ``Σw I`` and ``−w R_ijᵀ``), D its diagonal.
    """
    g = merged(graph).graph
    wxyz = np.tile(quat.IDENTITY, (g.n_nodes, 1))
    tied = g if np.all(g.has_rotation) else g.with_edges(g.has_rotation)
    d, held = g.dimension, np.flatnonzero(_one_of_each(g, tied.component))
    several = tied.n_components > 1
    for c in np.flatnonzero(np.bincount(tied.component) > 1):
        members = np.flatnonzero(tied.component == c)
        piece = tied.subgraph(members) if several else tied
        vectors = _smallest_eigenvectors(piece).reshape(piece.n_nodes, d, d)
        if np.sum(np.linalg.det(vectors)) < 0.0:
            vectors[:, :, -1] *= -1.0
        found = nearest_rotations(np.swapaxes(vectors, 1, 2))
        anchor = found[np.searchsorted(members, held[tied.component[held] == c][0])]
        wxyz[members] = quat.multiply(quat.conjugate(anchor), found)
    return _in_place(graph, _in_one_frame(g, wxyz))


def _smallest_eigenvectors(graph: PoseGraph) -> Array:
    """The d smallest eigenvectors (dn, d) of the connection Laplacian of a connected graph, relative to D."""
    n, m, d = graph.n_nodes, graph.n_edges, graph.dimension
    w = rotation_weights(graph)
    diagonal, off = np.zeros((n, d, d)), np.empty((m, d, d))
    nobody = np.zeros(n, dtype=bool)
    _kernels.connection_blocks(
        _axes(graph), graph.edge_i, graph.edge_j, _measured(graph), w, nobody, diagonal, off, np.zeros((n, d, d))
    )
    root = np.sqrt(diagonal[:, 0, 0])
    off /= (root[graph.edge_i] * root[graph.edge_j])[:, None, None]
    unit = np.tile(np.eye(d), (n, 1, 1))
    if n <= _DENSE_UP_TO:
        dense = np.eye(d * n)
        i, j = (d * rows[:, None] + np.arange(d) for rows in (graph.edge_i, graph.edge_j))
        np.add.at(dense, (i[:, :, None], j[:, None, :]), off)
        np.add.at(dense, (j[:, :, None], i[:, None, :]), np.swapaxes(off, 1, 2))
        vectors = np.linalg.eigh(dense)[1][:, :d]
    else:
        shift = 1e-6
        factor = pattern(graph, d).factor(unit * (1.0 + shift), off)
        inverse = LinearOperator((d * n, d * n), matvec=factor.solve, dtype=np.float64)
        # the answer without noise is a good first guess, and makes the result reproducible
        R = quat.to_matrix(_chordal(graph, w))[:, :d, :d]
        guess = np.swapaxes(R, 1, 2) * root[:, None, None]
        try:
            vectors = eigsh(inverse, k=d, which="LA", v0=guess.sum(axis=2).reshape(-1), tol=1e-8)[1]
        except ArpackNoConvergence as stopped:
            vectors = stopped.eigenvectors
            if vectors.shape[1] < d:
                vectors = guess.reshape(d * n, d)
    return np.asarray(vectors / np.repeat(root, d)[:, None], dtype=np.float64)


def _axes(graph: PoseGraph) -> tuple[int, ...]:
    return tuple(range(graph.dimension))


def _measured(graph: PoseGraph) -> Array:
    """Measured rotations as matrices (m, d, d)."""
    return np.ascontiguousarray(quat.to_matrix(graph.j_from_i_wxyz)[:, : graph.dimension, : graph.dimension])


def _one_of_each(graph: PoseGraph, label: Index) -> Mask:
    """Which nodes (n,) stand for the part they are in: an anchor or a fixed node where a part has one, else its first."""
    first = np.concatenate([graph.anchors, np.flatnonzero(graph.is_fixed), np.arange(graph.n_nodes)])
    chosen = np.zeros(graph.n_nodes, dtype=bool)
    chosen[first[np.unique(label[first], return_index=True)[1]]] = True
    return chosen


def _in_one_frame(graph: PoseGraph, wxyz: Array) -> Array:
    """Rotations of the rotation parts, each in a frame of its own, in one frame per component."""
    part = rotation_parts(graph)
    if len(np.unique(part[part >= 0])) == graph.n_components:
        return wxyz
    inside = (part[graph.edge_i] == part[graph.edge_j]) & (part[graph.edge_i] >= 0)
    alone = replace(graph.with_edges(inside), fixed=(), fixed_at=None)
    return joined(graph, wxyz, positions_given_rotations(alone, wxyz), part)[0]


def _in_place(graph: PoseGraph, wxyz: Array) -> Array:
    """Rotations of the merged graph's nodes as those of all nodes, with the fixed ones as they are held."""
    part = merged(graph)
    wxyz = quat.normalize(wxyz)
    if not graph.is_fixed.any():
        return wxyz
    return part.expand(Poses(part.graph.node_ids, wxyz, np.zeros((len(wxyz), 3)))).wxyz


# ---------------------------------------------------------------------- positions


def with_positions(graph: PoseGraph, wxyz: Array) -> Poses:
    """Poses of the given rotations and the best positions for them."""
    base = None
    if len(np.unique(position_holds(graph))) > graph.n_components:  # some positions hang on rotation-only edges
        base = tree_poses(graph, most_certain_tree(graph)).position
    return placed(graph, Poses(graph.node_ids, wxyz, positions_given_rotations(graph, wxyz, base)))


def position_holds(graph: PoseGraph) -> Index:
    """One row for every set of nodes whose positions are tied together by translations of positive precision.

    An anchor of the graph or a fixed node where the set has one, else its first node.
    """
    n = graph.n_nodes
    P = graph.translation_precision
    weight = P if P.ndim == 1 else np.trace(P, axis1=1, axis2=2)
    edge = graph.has_translation & (weight > 0.0)
    if np.array_equal(edge, graph.has_translation):
        label = graph.position_component
    else:
        tied = sparse.csr_array((np.ones(int(edge.sum())), (graph.edge_i[edge], graph.edge_j[edge])), shape=(n, n))
        label = csgraph.connected_components(tied, directed=False)[1].astype(np.int64)
    return np.flatnonzero(_one_of_each(graph, label))


def positions_given_rotations(graph: PoseGraph, wxyz: Array, base: Array | None = None) -> Array:
    """The positions (n, 3) that minimise U for fixed rotations, exactly: one sparse linear solve.

    Given the rotations, ``p_i − p_j`` is measured as ``R_j (t + B s) − R_i arm`` in the metric ``R_j P R_jᵀ``.

    Parameters
    ----------
    wxyz
        world_from_node rotations (n, 4).
    base
        Positions (n, 3), zero by default. Of each set of nodes tied together by translations, one node keeps its base
        position, since U says nothing about it. Where precisions are singular, directions that U says nothing about
        stay near the base, too. Fixed nodes are where they are held.
    """
    n, m, d = graph.n_nodes, graph.n_edges, graph.dimension
    position = np.zeros((n, 3)) if base is None else np.array(base, dtype=np.float64)
    held = graph.is_fixed.copy()
    position[held] = fixed_poses(graph)[1][held]
    held[position_holds(graph)] = True
    if m == 0 or held.all():
        return position
    i, j = graph.edge_i, graph.edge_j
    force = _measured_shifts(graph, wxyz) - (position[i] - position[j])
    if graph.translation_precision.ndim == 1:
        weight = graph.translation_precision * graph.has_translation
        laplacian = Laplacian(n, i, j, held, pattern(graph, 1))
        factor = _position_factor(graph, laplacian, weight)
        if factor is not None:
            position[:, :d] += factor.solve(laplacian.pull(weight, np.ascontiguousarray(force[:, :d])))
        return position
    P = np.ascontiguousarray(graph.translation_precision_matrices[:, :d, :d])
    R = np.ascontiguousarray(quat.to_matrix(wxyz)[:, :d, :d])
    diagonal, off, rhs = np.zeros((n, d, d)), np.empty((m, d, d)), np.zeros((n, d))
    _kernels.position_blocks(_axes(graph), i, j, R, P, force, held, diagonal, off, rhs)
    k = np.arange(d)
    scale = np.trace(diagonal, axis1=1, axis2=2) / d
    for share in (0.0, 1e-10):
        diagonal[:, k, k] += share * np.maximum(scale, 1e-6 * scale.max())[:, None]
        try:
            position[:, :d] += pattern(graph, d).factor(diagonal, off).solve(rhs.reshape(-1)).reshape(n, d)
            break
        except NotPositiveDefiniteError:
            continue
    return position


def _position_factor(graph: PoseGraph, laplacian: Laplacian, weight: Array) -> Factor | None:
    """Factor of the positions' Laplacian, kept as long as the graph lives; ``None`` if double precision cannot hold it."""
    if graph not in _factors:
        degree = laplacian.degree(weight)
        found = None
        for added in (0.0, 1e-10 * np.maximum(degree, 1e-6 * degree.max())):
            try:
                found = laplacian.factor(weight, added)
                break
            except NotPositiveDefiniteError:
                continue
        _factors[graph] = found
    return _factors[graph]


def _measured_shifts(graph: PoseGraph, wxyz: Array) -> Array:
    """What every edge measures of ``p_i − p_j``, in the world (m, 3), given the rotations."""
    i, j = graph.edge_i, graph.edge_j
    t = np.nan_to_num(graph.j_from_i_t)
    if graph.coupling is not None:
        e = quat.multiply(graph.j_from_i_wxyz, quat.multiply(quat.conjugate(wxyz[i]), wxyz[j]))
        t = t + np.einsum("mab,mb->ma", graph.coupling, 2.0 * e[:, :1] * e[:, 1:])
    shift = quat.rotate(wxyz[j], t)
    return shift if graph.arm is None else shift - quat.rotate(wxyz[i], graph.arm)
