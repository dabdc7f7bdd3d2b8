"""Linear problems near the one to solve: rotations over free matrices, then positions given the rotations.

The relaxations find the rotations first, from the rotation measurements alone, and then the positions, which given
the rotations are the solution of one linear system:

- ``chordal``: minimise ``Σ λ ‖R_i − R_j R_ij‖²`` over free 3×3 matrices with one node per component held, then take
  the nearest rotations (Martinec & Pajdla 2007; Carlone et al. 2015);
- ``spectral``: the three smallest eigenvectors of the connection Laplacian, relative to the nodes' weights, per
  component, then the nearest rotations (Arie-Nachimson et al. 2012).

Both find the exact rotations of a graph without noise, whatever its weights.
"""

from __future__ import annotations

import weakref

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.numerics import relaxation as _kernels
from tempose.numerics.sparse import NotPositiveDefiniteError, Symbolic, analyze
from tempose.optimum.trees import most_certain_tree, rotation_weights, tree_poses

_DENSE_UP_TO = 40  # nodes: below this a dense eigensolver is quicker than a sparse one
_patterns: weakref.WeakKeyDictionary[PoseGraph, dict[int, Symbolic]] = weakref.WeakKeyDictionary()


def pattern(graph: PoseGraph, block: int) -> Symbolic:
    """The analysed sparsity pattern of a graph, one block per node and edge; kept as long as the graph lives."""
    known = _patterns.setdefault(graph, {})
    if block not in known:
        known[block] = analyze(graph.n_nodes, graph.edge_i, graph.edge_j, block=block)
    return known[block]


def chordal_rotations(graph: PoseGraph, weights: ArrayLike | None = None) -> Array:
    """Rotations (n, 4), world_from_node, by least squares over free 3×3 matrices; anchors are the identity.

    Parameters
    ----------
    weights
        Positive weight per edge (m,); by default :func:`rotation_weights`.
    """
    n, m = graph.n_nodes, graph.n_edges
    w = rotation_weights(graph) if weights is None else np.asarray(weights, float)
    held = np.zeros(n, dtype=bool)
    held[graph.anchors] = True
    diagonal, off, rhs = np.zeros((n, 3, 3)), np.empty((m, 3, 3)), np.zeros((n, 3, 3))
    Q = quat.to_matrix(graph.j_from_i_wxyz)
    _kernels.connection_blocks(graph.edge_i, graph.edge_j, Q, w, held, diagonal, off, rhs)
    try:
        transposed = pattern(graph, 3).factor(diagonal, off).solve(rhs.reshape(3 * n, 3)).reshape(n, 3, 3)
    except NotPositiveDefiniteError:  # the weights are too far apart for double precision
        return tree_poses(graph, most_certain_tree(graph)).wxyz
    wxyz = np.empty((n, 4))
    _kernels.nearest_rotations(np.ascontiguousarray(np.swapaxes(transposed, 1, 2)), wxyz)
    return wxyz


def spectral_rotations(graph: PoseGraph) -> Array:
    """Rotations (n, 4), world_from_node, from the smallest eigenvectors of ``L x = μ D x``; anchors are the identity.

    L is the connection Laplacian (3×3 blocks ``Σw I`` and ``−w R_ijᵀ``), D its diagonal.
    """
    wxyz = np.tile(quat.IDENTITY, (graph.n_nodes, 1))
    several = graph.n_components > 1
    for c in np.flatnonzero(np.bincount(graph.component) > 1):
        members = np.flatnonzero(graph.component == c)
        part = graph.subgraph(members) if several else graph
        vectors = _smallest_eigenvectors(part).reshape(part.n_nodes, 3, 3)
        if np.sum(np.linalg.det(vectors)) < 0.0:
            vectors = -vectors
        found = np.empty((part.n_nodes, 4))
        _kernels.nearest_rotations(np.ascontiguousarray(np.swapaxes(vectors, 1, 2)), found)
        anchor = found[np.searchsorted(members, graph.anchors[c])]
        wxyz[members] = quat.multiply(quat.conjugate(anchor), found)
    return wxyz


def _smallest_eigenvectors(graph: PoseGraph) -> Array:
    """The three smallest eigenvectors (3n, 3) of the connection Laplacian of a connected graph, relative to D."""
    n, m = graph.n_nodes, graph.n_edges
    w = rotation_weights(graph)
    diagonal, off = np.zeros((n, 3, 3)), np.empty((m, 3, 3))
    Q = quat.to_matrix(graph.j_from_i_wxyz)
    _kernels.connection_blocks(
        graph.edge_i, graph.edge_j, Q, w, np.zeros(n, dtype=bool), diagonal, off, np.zeros((n, 3, 3))
    )
    root = np.sqrt(diagonal[:, 0, 0])
    off /= (root[graph.edge_i] * root[graph.edge_j])[:, None, None]
    unit = np.tile(np.eye(3), (n, 1, 1))
    if n <= _DENSE_UP_TO:
        dense = np.eye(3 * n)
        i, j = (3 * rows[:, None] + np.arange(3) for rows in (graph.edge_i, graph.edge_j))
        np.add.at(dense, (i[:, :, None], j[:, None, :]), off)
        np.add.at(dense, (j[:, :, None], i[:, None, :]), np.swapaxes(off, 1, 2))
        vectors = np.linalg.eigh(dense)[1][:, :3]
    else:
        shift = 1e-6
        factor = pattern(graph, 3).factor(unit * (1.0 + shift), off)
        inverse = LinearOperator((3 * n, 3 * n), matvec=factor.solve, dtype=np.float64)
        # the answer without noise is a good first guess, and makes the result reproducible
        guess = np.swapaxes(quat.to_matrix(chordal_rotations(graph)), 1, 2) * root[:, None, None]
        try:
            vectors = eigsh(inverse, k=3, which="LA", v0=guess.sum(axis=2).reshape(-1), tol=1e-8)[1]
        except ArpackNoConvergence as stopped:
            vectors = stopped.eigenvectors
            if vectors.shape[1] < 3:
                vectors = guess.reshape(3 * n, 3)
    return np.asarray(vectors / np.repeat(root, 3)[:, None], dtype=np.float64)


# ---------------------------------------------------------------------- positions


def with_positions(graph: PoseGraph, wxyz: Array) -> Poses:
    """Poses of the given rotations and the best positions for them."""
    base = None
    if len(np.unique(position_holds(graph))) > graph.n_components:  # some positions hang on rotation-only edges
        base = tree_poses(graph, most_certain_tree(graph)).position
    return Poses(graph.node_ids, wxyz, positions_given_rotations(graph, wxyz, base))


def position_holds(graph: PoseGraph) -> Index:
    """One row for every set of nodes whose positions are tied together by translations of positive precision.

    An anchor of the graph where the set has one, else its first node.
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
    first = np.concatenate([graph.anchors, np.arange(n)])
    return first[np.unique(label[first], return_index=True)[1]]


def positions_given_rotations(graph: PoseGraph, wxyz: Array, base: Array | None = None) -> Array:
    """The positions (n, 3) that minimise U for fixed rotations, exactly: one sparse linear solve.

    Parameters
    ----------
    wxyz
        world_from_node rotations (n, 4).
    base
        Positions (n, 3), zero by default. Of each set of nodes tied together by translations, one node keeps its base
        position, since U says nothing about it. Where precisions are singular, directions that U says nothing about
        stay near the base, too.
    """
    n, m = graph.n_nodes, graph.n_edges
    position = np.zeros((n, 3)) if base is None else np.array(base, dtype=np.float64)
    held = np.zeros(n, dtype=bool)
    held[position_holds(graph)] = True
    if m == 0 or held.all():
        return position
    scalar = graph.translation_precision.ndim == 1
    P = (
        (graph.translation_precision * graph.has_translation)[:, None, None]
        if scalar
        else graph.translation_precision_matrices
    )
    R, t = quat.to_matrix(wxyz), np.nan_to_num(graph.j_from_i_t)
    diagonal, off, rhs = np.zeros((n, 3, 3)), np.empty((m, 3, 3)), np.zeros((n, 3))
    _kernels.position_blocks(graph.edge_i, graph.edge_j, R, P, t, held, position, diagonal, off, rhs)
    symbolic = pattern(graph, 3)
    try:
        return position + symbolic.factor(diagonal, off).solve(rhs.reshape(-1)).reshape(n, 3)
    except NotPositiveDefiniteError:
        k = np.arange(3)
        scale = np.trace(diagonal, axis1=1, axis2=2) / 3.0
        diagonal[:, k, k] += 1e-10 * np.maximum(scale, 1e-6 * scale.max())[:, None]
        try:
            return position + symbolic.factor(diagonal, off).solve(rhs.reshape(-1)).reshape(n, 3)
        except NotPositiveDefiniteError:  # weights beyond what double precision can hold
            return position
