"""Diffusion of dual quaternions along the graph."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods.base import (
    Estimate,
    anchored,
    motion_weights,
    motions,
    start_on_tree,
    synchronisation_method,
    typical_length,
)
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

_ROUNDS = 20  # of diffusion between two looks at the signs


@synchronisation_method(connected=True)
def torsello(
    graph: PoseGraph, *, iterations: int = 3000, tolerance: float = 1e-12, start: Poses | None = None
) -> Estimate:
    """Let every pose become the mean of what its neighbours predict for it, again and again.

    Torsello, Rodolà & Albarelli, "Multiview registration via graph diffusion of dual quaternions", CVPR 2011. Poses are
    unit dual quaternions; node i's prediction from its neighbour j is ``x̂_j x̂_ij``, and the mean is the weighted sum,
    projected back to unit dual quaternions (dual-quaternion linear blending). A node keeps half of its own
    value in each round, without which the diffusion on a bipartite graph would swap its two sides for ever. The steady
    state is the same, and every rigid motion of the world moves it along.

    Parameters
    ----------
    iterations, tolerance
        Stop when no rotation moves by more than ``tolerance`` radians in a round and no position by that times the
        typical length of an edge. The number of rounds grows with the square of the graph's diameter.
    start
        Poses to start from; by default a spanning tree.
    """
    measured = motions(graph)
    i, j, n, m = graph.edge_i, graph.edge_j, graph.n_nodes, graph.n_edges
    weight = np.tile(motion_weights(graph), 2)
    target, source = np.concatenate([i, j]), np.concatenate([j, i])
    degree = np.bincount(target, weight, n)[:, None]
    back = se3.inverse(measured)
    step = to_dual((np.concatenate([measured[0], back[0]]), np.concatenate([measured[1], back[1]])))

    first = start_on_tree(graph) if start is None else start
    x = to_dual((first.wxyz, first.position))
    length = typical_length(measured[1])
    signs = np.zeros(2 * m)
    status, done = "iteration limit", 0
    while done < iterations and status != "converged":
        new_signs = np.where(np.sum(quat.multiply(x[source, :4], step[:, :4]) * x[target, :4], axis=1) < 0.0, -1.0, 1.0)
        steady = bool(np.all(new_signs == signs))
        if not steady:  # q and −q are one rotation: take the one on the side of the pose it predicts
            signs = new_signs
            predict = prediction_matrix(n, target, source, step * (signs * weight)[:, None])
        for _ in range(_ROUNDS):
            blend = unit(degree * x + (predict @ x.ravel()).reshape(n, 8))
            change = np.abs(blend - x)
            x = blend
            done += 1
            if max(float(change[:, :4].max()), float(change[:, 4:].max()) / length) < 0.5 * tolerance:
                status = "converged" if steady else status
                break
    return Estimate(anchored(graph, *to_motion(x)), status, done)


# ---------------------------------------------------------------------- dual quaternions (n, 8): real part, dual part


def to_dual(motion: tuple[Array, Array]) -> Array:
    """Unit dual quaternions ``r + ε ½ t r`` of motions (r, t)."""
    wxyz, t = motion
    pure = np.concatenate([np.zeros_like(t[:, :1]), t], axis=1)
    return np.concatenate([wxyz, 0.5 * quat.multiply(pure, wxyz)], axis=1)


def to_motion(x: Array) -> tuple[Array, Array]:
    """Motions of unit dual quaternions."""
    return x[:, :4], 2.0 * quat.multiply(x[:, 4:], quat.conjugate(x[:, :4]))[:, 1:]


def prediction_matrix(n: int, target: Index, source: Index, step: Array) -> sparse.csr_array:
    """The sparse matrix (8n, 8n) that adds up ``x̂_source step`` at the targets, with ``ε² = 0``."""
    right = np.swapaxes(quat.multiply(np.eye(4), step.reshape(-1, 2, 1, 4)), 2, 3)  # x ⊗ s as a matrix, (k, 2, 4, 4)
    rows, columns = np.arange(4)[:, None], np.arange(4)[None, :]
    place = [(0, 0, 0), (4, 4, 0), (4, 0, 1)]  # real from real, dual from dual, dual from real
    shape = (len(step), 4, 4)
    at_row = [np.broadcast_to(8 * target[:, None, None] + r + rows, shape).ravel() for r, _, _ in place]
    at_column = [np.broadcast_to(8 * source[:, None, None] + c + columns, shape).ravel() for _, c, _ in place]
    data = [right[:, part].ravel() for _, _, part in place]
    indices = (np.concatenate(at_row), np.concatenate(at_column))
    return sparse.csr_array((np.concatenate(data), indices), shape=(8 * n, 8 * n))


def unit(x: Array) -> Array:
    """Divide by the dual norm: a real part of unit length, and a dual part at right angles to it."""
    x = x / np.linalg.norm(x[:, :4], axis=1, keepdims=True)
    along = np.sum(x[:, :4] * x[:, 4:], axis=1, keepdims=True)
    return np.concatenate([x[:, :4], x[:, 4:] - along * x[:, :4]], axis=1)
