"""Where to start: random poses, identity, spanning trees, relaxations, or the poses that came with the graph.

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
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.topology import SpanningTree
from tempose.numerics import relaxation as _kernels
from tempose.numerics.sparse import NotPositiveDefiniteError, Symbolic, analyze
from tempose.optimum.options import STARTS

_DENSE_UP_TO = 40  # nodes: below this a dense eigensolver is quicker than a sparse one


def start_poses(graph: PoseGraph, kind: str, rng: np.random.Generator) -> Poses:
    """Poses to start from.

    Parameters
    ----------
    kind
        One of :data:`tempose.optimum.options.STARTS`.
    rng
        Used by ``random`` only.
    """
    if kind == "tree":
        return tree_poses(graph, most_certain_tree(graph))
    if kind == "best-tree":
        return best_tree_poses(graph)
    if kind == "chordal":
        return with_positions(graph, chordal_rotations(graph))
    if kind == "spectral":
        return with_positions(graph, spectral_rotations(graph))
    if kind == "random":
        return random_poses(graph, rng)
    if kind == "identity":
        return Poses.identity(graph.node_ids)
    if kind == "given":
        if graph.initial is None:
            raise NotApplicable("the graph has no poses of its own to start from; use another start, for instance tree")
        return graph.initial
    raise OptionError(f"unknown start {kind!r}: choose one of {', '.join(STARTS)}")


# ---------------------------------------------------------------------- simple starts


def random_poses(graph: PoseGraph, rng: np.random.Generator) -> Poses:
    """Uniform rotations; normal positions whose spread is that of the measured translations."""
    t = graph.j_from_i_t[graph.has_translation]
    scale = float(np.sqrt(np.mean(np.sum(t * t, axis=1)) / 3.0)) if len(t) else 1.0
    wxyz = quat.random_uniform(rng, graph.n_nodes)
    return Poses(graph.node_ids, wxyz, scale * rng.standard_normal((graph.n_nodes, 3)))


# ---------------------------------------------------------------------- trees


def most_certain_tree(graph: PoseGraph) -> SpanningTree:
    """Spanning tree of the largest rotation concentrations; edges without a translation only where there is no other."""
    if graph.has_translation.all():
        return graph.spanning_tree()
    rank = np.empty(graph.n_edges)
    rank[np.lexsort((graph.mean_concentration, graph.has_translation))] = np.arange(graph.n_edges)
    return graph.spanning_tree(rank)


def tree_poses(graph: PoseGraph, tree: SpanningTree) -> Poses:
    """Chain the measured motions along a tree; roots are at the origin, edges without translation add none."""
    wxyz = np.tile(quat.IDENTITY, (graph.n_nodes, 1))
    position = np.zeros((graph.n_nodes, 3))
    t = np.nan_to_num(graph.j_from_i_t)
    _kernels.chain(tree.order, tree.parent, tree.edge, graph.edge_i, graph.j_from_i_wxyz, t, wxyz, position)
    return Poses(graph.node_ids, wxyz, position)


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
        # a path without translations is a last resort
        cost = np.where(graph.has_translation, length, length + length.sum())
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
    from tempose.model.posterior import Posterior

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


# ---------------------------------------------------------------------- relaxations

_patterns: weakref.WeakKeyDictionary[PoseGraph, dict[int, Symbolic]] = weakref.WeakKeyDictionary()


def pattern(graph: PoseGraph, block: int) -> Symbolic:
    """The analysed sparsity pattern of a graph, one block per node and edge; kept as long as the graph lives."""
    known = _patterns.setdefault(graph, {})
    if block not in known:
        known[block] = analyze(graph.n_nodes, graph.edge_i, graph.edge_j, block=block)
    return known[block]


def rotation_weights(graph: PoseGraph) -> Array:
    """Positive weight of each edge's rotation (m,): its mean concentration, and hardly anything where that is zero."""
    weight = graph.mean_concentration
    positive = weight[weight > 0.0]
    least = float(positive.min()) * 1e-3 if len(positive) else 1.0
    return np.where(weight > 0.0, weight, least)


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
