"""Locations from directions by a convex programme: least unsquared deviations."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from tempose._typing import Array
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.methods.base import Averaging, Estimate, synchronisation_method, translation_weights
from tempose.methods.irls import robust_rotations
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses


@synchronisation_method(connected=True)
def ozyesil(graph: PoseGraph, *, iterations: int = 5000, tolerance: float = 1e-10) -> Estimate:
    """Robust rotations, then locations from the directions of the translations alone, then one scale.

    Özyeşil & Singer, "Robust camera location estimation by convex programming", CVPR 2015. With the world-frame unit
    direction γ of each edge,

    ``min Σ w |p_i − p_j − d γ|  over positions p and lengths d ≥ 1``.

    The constraint keeps the solution from shrinking to a point. Lengths of the measured translations are not used,
    as for cameras, except for the one scale in the end: the weighted median ratio of measured to estimated length.
    Rotations are those of :func:`tempose.methods.irls.irls`; see :func:`locations` for the optimisation.

    Raises
    ------
    NotApplicable
        If edges lack translations, or if directions do not determine the locations (the graph is not parallel rigid).
    """
    missing = int(np.sum(~graph.has_translation))
    if missing:
        raise NotApplicable(f"needs the direction of every edge; {missing} of {graph.n_edges} carry a rotation only")
    length = np.linalg.norm(graph.j_from_i_t, axis=1)
    if np.any(length == 0.0):
        raise NotApplicable(f"needs the direction of every edge; {int(np.sum(length == 0.0))} translations are zero")
    if not parallel_rigid(graph):
        raise NotApplicable("directions alone do not fix these positions: the graph is not parallel rigid")
    wxyz, _, _ = robust_rotations(graph)
    direction = quat.rotate(wxyz[graph.edge_j], graph.j_from_i_t / length[:, None])
    weight = np.sqrt(translation_weights(graph))
    position, converged, done = locations(graph, direction, weight / weight.mean(), iterations, tolerance)
    found = np.sum(direction * (position[graph.edge_i] - position[graph.edge_j]), axis=1)
    ratio = length / np.maximum(found, 1e-12)
    order = np.argsort(ratio)
    share = np.cumsum((weight * found)[order])
    scale = float(ratio[order][np.searchsorted(share, 0.5 * share[-1])])
    position = scale * (position - position[graph.anchors[0]])
    return Estimate(
        Poses(graph.node_ids, wxyz, position), "converged" if converged else "iteration limit", done,
        message=f"{int(np.sum(found < 1.0 + 1e-6))} of {graph.n_edges} lengths are at their lower bound",
    )  # fmt: skip


def locations(
    graph: PoseGraph, direction: Array, weights: Array, iterations: int = 5000, tolerance: float = 1e-10
) -> tuple[Array, bool, int]:
    """Positions (n, 3) that minimise ``Σ w |p_i − p_j − d γ|`` over ``d ≥ 1``; converged?; iterations.

    Alternating directions: ``p_i − p_j = d γ + e`` is enforced by multipliers; positions are one solve with a factored
    Laplacian, and lengths and deviations have a closed form, ``d = max(1, γᵀu)`` and the shrunk rest.

    Parameters
    ----------
    direction
        Unit vectors γ (m, 3) from j to i in the world.
    """
    average = Averaging(graph, np.ones(graph.n_edges))
    i, j = graph.edge_i, graph.edge_j
    rho = 1.0
    target, dual = direction.copy(), np.zeros_like(direction)
    position = np.zeros((graph.n_nodes, 3))
    for done in range(1, iterations + 1):
        position = average.solve(target - dual)
        span = position[i] - position[j]
        u = span + dual
        d = np.maximum(1.0, np.sum(direction * u, axis=1))[:, None]
        rest = u - d * direction
        norm = np.linalg.norm(rest, axis=1, keepdims=True)
        before, target = (
            target,
            d * direction + rest * np.maximum(1.0 - (weights / rho)[:, None] / np.maximum(norm, 1e-300), 0.0),
        )
        dual = u - target
        primal, moved = float(np.abs(span - target).max()), float(np.abs(target - before).max())
        size = float(np.abs(target).max())
        if max(primal, moved) < tolerance * size:
            return position, True, done
        if done % 50 == 0 and done <= 1000:  # keep both residuals of one size, while it helps
            change = 2.0 if primal > 10.0 * rho * moved else 0.5 if rho * moved > 10.0 * primal else 1.0
            rho, dual = rho * change, dual / change
    return position, False, iterations


def parallel_rigid(graph: PoseGraph) -> bool:
    """Whether directions of the edges fix the shape, for positions in general: nothing but shift and scale is free.

    Tried at random positions: the matrix ``Σ (e_i − e_j)(e_i − e_j)ᵀ ⊗ (I − γγᵀ)`` must have rank 3n − 4.
    """
    n, i, j = graph.n_nodes, graph.edge_i, graph.edge_j
    if n == 2:
        return True
    key = np.unique(np.minimum(i, j) * n + np.maximum(i, j))
    i, j = key // n, key % n
    if 2 * len(key) < 3 * n - 4:
        return False
    position = np.random.default_rng(0).standard_normal((n, 3))
    gamma = position[i] - position[j]
    gamma /= np.linalg.norm(gamma, axis=1, keepdims=True)
    block = np.eye(3) - gamma[:, :, None] * gamma[:, None, :]
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
    data = np.concatenate([block, block, -block, -block])
    at = np.arange(3)
    shape = data.shape
    matrix = sparse.csc_array(
        (
            data.ravel(),
            (
                np.broadcast_to(3 * rows[:, None, None] + at[:, None], shape).ravel(),
                np.broadcast_to(3 * columns[:, None, None] + at, shape).ravel(),
            ),
        ),
        shape=(3 * n, 3 * n),
    )
    if n <= 200:
        values = np.linalg.eigvalsh(matrix.toarray())[:5]
    else:
        try:
            values = np.sort(eigsh(matrix, k=5, sigma=-1e-4, which="LM", return_eigenvectors=False))
        except ArpackNoConvergence:
            return False
    return bool(values[4] > 1e-9)
