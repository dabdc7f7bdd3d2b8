"""A session as a few edges between the nodes that others will meet: a condensed graph.

Let y be the poses of the kept nodes relative to one of them, and Σ their covariance at the optimum, everything else integrated out.
A graph of edges between kept nodes whose measurements agree with the optimum has there the information ``Σ_e A_eᵀ Ω_e A_e``, with
``A_e`` the derivative of what edge e measures. Not every Gaussian is of this form: an edge has 21 numbers, and k nodes need
``6(k−1)(6(k−1)+1)/2``. Of all that are, this is the one closest to the Gaussian in Kullback–Leibler divergence,

    min ½ [tr(Λ Σ) − log det(Λ Σ) − dim],   Λ = Σ_e A_eᵀ Ω_e A_e,

over positive semi-definite Ω_e, a convex problem. The optimum is that of the session, and for every edge whose Ω_e is regular
``A_e Λ⁻¹ A_eᵀ = A_e Σ A_eᵀ``: **the covariance of that pair of nodes is that of the session**. Where the best Ω_e would be negative
along some axis it is zero there, and the pair a little too sure of itself; ``mismatch`` says by how much at most. What is lost
besides is what three and more nodes have in common beyond their pairs; the divergence says how much, in nats. Two nodes lose
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tempose._typing import Array, Index, NodeId
from tempose.errors import GraphError, NotApplicable
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model import precision as precisions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.laplace import Laplace, edge_jacobians

MOST_EDGES = 60
"""Edges at most, beyond those to the first node: the work grows with the cube of their number."""
BARRIER = 1e-9
"""How near an information may come to saying nothing along some axis; covariances of pairs are exact to about this."""
FAINT = 1e-6
"""An edge that says less than this, in units of what is known about its pair, is left out."""


@dataclass(frozen=True, eq=False)
class Condensed:
    """What :func:`condense` makes of a session.

    Attributes
    ----------
    graph
        The kept nodes, with their poses at the optimum as initial ones, and edges between them, full informations.
    loss
        Kullback–Leibler divergence from the session's Gaussian of the kept nodes to that of the graph, in nats.
    dimension
        Degrees of freedom of the kept nodes, which the loss is to be compared with.
    n_pairs
        Pairs of kept nodes that may move.
    mismatch
        By how much at most the covariance of a pair with an edge differs from the session's, in units of its standard deviations.
    """

    graph: PoseGraph
    loss: float
    dimension: int
    n_pairs: int
    mismatch: float
    kept: tuple[NodeId, ...] = field(repr=False, default=())


def condense(laplace: Laplace, keep: Sequence[NodeId]) -> Condensed:
    """A session as edges between some of its nodes; see the module.

    Parameters
    ----------
    laplace
        The Gaussian around the session's optimum.
    keep
        Names of the nodes to keep. Fixed nodes and the world are kept, too.

    Raises
    ------
    GraphError
        If a node does not exist or is a landmark, there are fewer than two, or the graph falls apart.
    NotApplicable
        If something about the kept nodes is not determined.
    """
    graph = laplace.curvature.posterior.graph
    rows = _kept_rows(graph, keep)
    centre, others = rows[0], rows[1:]
    if laplace.curvature.undetermined(laplace.poses):
        raise NotApplicable(
            "the session leaves some motion of its nodes undetermined: no edges say so; add what is missing"
        )
    pairs = _pairs(graph, rows, laplace.poses)
    between = _between(graph, laplace.poses, pairs)
    axes = graph.axes
    b, d = len(axes), len(axes) * len(others)
    Ji, Jj = (J[:, axes[:, None], axes] for J in edge_jacobians(between, laplace.poses.select(between.node_ids)))
    # of the pairs to the centre, which come first: y = J x with the centre held
    own = Ji[: len(others)]
    A = np.zeros((len(pairs), b, len(others), b))
    back = np.linalg.inv(own)
    number = np.full(graph.n_nodes, -1, dtype=np.int64)
    number[others] = np.arange(len(others))
    for e, (i, j) in enumerate(pairs.tolist()):
        for node, J in ((i, Ji[e]), (j, Jj[e])):
            if number[node] >= 0:
                A[e, :, number[node]] += J @ back[number[node]]
    maps = A.reshape(len(pairs), b, d)
    sigma = _relative_covariance(laplace, centre, others, Ji, Jj)
    omega = _closest(maps, sigma)
    faint = np.einsum("eab,eba->e", omega, maps @ sigma @ np.swapaxes(maps, 1, 2)) < FAINT
    return _made(laplace, rows, between.with_edges(~faint), maps[~faint], sigma, omega[~faint])


def _made(laplace: Laplace, rows: Index, part: PoseGraph, maps: Array, sigma: Array, omega: Array) -> Condensed:
    graph = laplace.curvature.posterior.graph
    found = np.einsum("eap,eab,ebq->pq", maps, omega, maps, optimize=True)
    want, have = (maps @ S @ np.swapaxes(maps, 1, 2) for S in (sigma, np.linalg.inv(found)))
    scale = np.sqrt(np.einsum("eaa->ea", want))
    mismatch = float(np.max(np.abs(have - want) / (scale[:, :, None] * scale[:, None, :])))
    product = found @ sigma
    sign, log_determinant = np.linalg.slogdet(product)
    assert sign > 0
    loss = 0.5 * float(np.trace(product) - log_determinant - len(sigma))
    joint = omega
    if graph.is_planar:
        joint = precisions.in_the_plane(omega)
    still = np.tile(quat.IDENTITY, (part.n_edges, 1))
    noise = precisions.noise(joint, still, graph.dimension)
    kept = [graph.node_ids[k] for k in rows]
    named = [one for one in graph.node_ids if one in set(kept)]
    free = len(kept) - int(np.sum(graph.is_fixed[rows]))
    out = PoseGraph(
        tuple(named),
        np.array([named.index(part.node_ids[k]) for k in part.edge_i], dtype=np.int64),
        np.array([named.index(part.node_ids[k]) for k in part.edge_j], dtype=np.int64),
        part.j_from_i_wxyz,
        part.j_from_i_t,
        *noise[:2],
        coupling=noise.coupling,
        initial=laplace.poses.select(named),
        fixed=tuple(one for one in graph.fixed if one in set(kept)),
        fixed_at=graph.fixed_at,
        dimension=graph.dimension,
        world_origin=graph.world_origin,
        measures=graph.measures,
    )
    return Condensed(out, max(loss, 0.0), len(sigma), free * (free - 1) // 2, mismatch, tuple(kept))


def _kept_rows(graph: PoseGraph, keep: Sequence[NodeId]) -> Index:
    """Rows of what is kept; the first is the one that the others are relative to: the world, or a fixed node, if there is one."""
    if graph.n_components > 1:
        raise GraphError(f"the graph falls into {graph.n_components} components: condense each by itself")
    held = [WORLD] if graph.world is not None else list(graph.fixed[:1])
    names = list(dict.fromkeys([*held, *keep]))
    if len(graph.fixed) > 1 or (graph.world is not None and graph.fixed):
        raise NotApplicable(
            "several nodes of the session are fixed: release all but one, or give their poses as priors"
        )
    rows = np.array([graph.row(name) for name in names], dtype=np.int64)
    for name, row in zip(names, rows, strict=True):
        if graph.is_landmark[row]:
            raise GraphError(f"node {name!r} is a landmark, which has no orientation; keep poses")
    if len(rows) < 2:
        raise GraphError("keep at least two nodes: one alone has no edges")
    return rows


def _pairs(graph: PoseGraph, rows: Index, poses: Poses) -> Index:
    """Pairs (e, 2) of nodes that get edges: the first with all, and then the nearest."""
    centre, others = rows[0], rows[1:]
    first = np.column_stack([others, np.full(len(others), centre)])
    a, b = np.triu_indices(len(others), 1)
    apart = np.linalg.norm(poses.position[others[a]] - poses.position[others[b]], axis=1)
    nearest = np.sort(np.argsort(apart, kind="stable")[:MOST_EDGES])
    return np.concatenate([first, np.column_stack([others[a[nearest]], others[b[nearest]]])])


def _between(graph: PoseGraph, poses: Poses, pairs: Index) -> PoseGraph:
    """A graph of these pairs, whose edges measure what the optimum has."""
    i, j = pairs.T
    wxyz, t = se3.a_from_b((poses.wxyz[j], poses.position[j]), (poses.wxyz[i], poses.position[i]))
    if graph.is_planar:  # rounding does not leave the plane
        wxyz = np.column_stack([wxyz[:, 0], np.zeros((len(i), 2)), wxyz[:, 3]])
        wxyz, t = quat.normalize(wxyz), t * np.array([1.0, 1.0, 0.0])
    ones = np.ones(len(i))
    return PoseGraph(graph.node_ids, i, j, quat.normalize(wxyz), t, ones, ones, dimension=graph.dimension)


def _relative_covariance(laplace: Laplace, centre: int, others: Index, Ji: Array, Jj: Array) -> Array:
    """Covariance of the poses relative to the centre (d, d)."""
    curvature = laplace.curvature
    axes = curvature.posterior.graph.axes
    b, k = len(axes), len(others)
    rows = np.append(others, centre)
    a, c = (x.reshape(-1) for x in np.meshgrid(rows, rows, indexing="ij"))
    blocks = laplace.factor.inverse_blocks(a, c) / laplace.beta
    held = curvature.held[:, axes]
    blocks = blocks * ~(held[a][:, :, None] | held[c][:, None, :])
    absolute = blocks.reshape(k + 1, k + 1, b, b).transpose(0, 2, 1, 3).reshape((k + 1) * b, (k + 1) * b)
    T = np.zeros((k, b, k + 1, b))
    for e in range(k):
        T[e, :, e], T[e, :, k] = Ji[e], Jj[e]
    turned = T.reshape(k * b, (k + 1) * b)
    out = turned @ absolute @ turned.T
    return np.asarray(0.5 * (out + out.T))


def _closest(A: Array, sigma: Array) -> Array:
    """Informations (m, b, b), positive semi-definite, whose sum is closest to the inverse of ``sigma``.

    An interior-point method: Newton steps on the divergence with a barrier ``−μ log det Ω_e``, μ falling to :data:`BARRIER`. In
    coordinates whitened by the covariance of each edge, so that all units are alike.
    """
    m, b = A.shape[:2]
    root = np.linalg.cholesky(A @ sigma @ np.swapaxes(A, 1, 2))
    W = np.linalg.solve(root, A)  # of unit covariance
    upper = np.triu_indices(b)
    basis = np.zeros((len(upper[0]), b, b))
    basis[np.arange(len(upper[0])), upper[0], upper[1]] = basis[np.arange(len(upper[0])), upper[1], upper[0]] = 1.0
    flat = basis.reshape(len(basis), b * b)
    x = np.tile(0.5 * np.eye(b), (m, 1, 1))
    mu = 0.1
    while mu >= BARRIER:
        x = _centred(x, W, mu, flat)
        mu *= 0.1
    inverse_root = np.linalg.inv(root)
    omega = np.swapaxes(inverse_root, 1, 2) @ x @ inverse_root
    return np.asarray(0.5 * (omega + np.swapaxes(omega, 1, 2)))


def _centred(x: Array, W: Array, mu: float, flat: Array) -> Array:
    """The minimum for one barrier μ, from x (m, b, b)."""
    m, b = W.shape[:2]
    now = _with_barrier(x, W, mu)
    for _ in range(50):
        inverse = np.linalg.inv(np.einsum("eap,eab,ebq->pq", W, x, W, optimize=True))
        M = np.einsum("eap,pq,fbq->efab", W, inverse, W, optimize=True)
        own = np.linalg.inv(x)
        gradient = (np.eye(b) - M[np.arange(m), np.arange(m)] - mu * own).reshape(m, b * b) @ flat.T
        hessian = np.empty((m, len(flat), m, len(flat)))
        for e in range(m):
            square = np.einsum("fab,fcd->facbd", M[e], M[e]).reshape(m, b * b, b * b)
            square[e] += mu * np.einsum("ab,cd->acbd", own[e], own[e]).reshape(b * b, b * b)
            hessian[e] = np.einsum("rp,fpq,sq->rfs", flat, square, flat, optimize=True)
        H = hessian.reshape(m * len(flat), -1)
        step = -np.linalg.solve(0.5 * (H + H.T), gradient.reshape(-1)).reshape(m, len(flat))
        decrement = -float(np.sum(gradient * step))
        if decrement <= 1e-13 * max(mu, 1e-6):
            break
        change = (step @ flat).reshape(m, b, b)
        length = 1.0
        while length > 1e-10 and not _with_barrier(x + length * change, W, mu) <= now - 1e-4 * length * decrement:
            length *= 0.5
        if length <= 1e-10:  # at rounding
            break
        x = x + length * change
        now = _with_barrier(x, W, mu)
    return x


def _with_barrier(x: Array, W: Array, mu: float) -> float:
    """The divergence, constants apart, and the barrier; infinite outside."""
    try:
        low = np.linalg.cholesky(np.einsum("eap,eab,ebq->pq", W, x, W, optimize=True))
        own = np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        return np.inf
    inside = float(np.log(np.einsum("eaa->ea", own)).sum())
    return float(np.einsum("eaa->", x)) - 2.0 * float(np.log(np.diag(low)).sum()) - 2.0 * mu * inside
