"""Diffusion of dual quaternions along the graph."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tempose.baselines.base import (
    Array,
    Estimate,
    anchored,
    baseline,
    motion_weights,
    motions,
    start_on_tree,
    typical_length,
)
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.graph import PoseGraph
from tempose.poses import Poses


@baseline(connected=True)
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
    gather = sparse.csr_array((weight, (target, np.arange(2 * m))), shape=(n, 2 * m))
    degree = np.bincount(target, weight, n)[:, None]
    back = se3.inverse(measured)
    step = to_dual((np.concatenate([measured[0], back[0]]), np.concatenate([measured[1], back[1]])))

    first = start_on_tree(graph) if start is None else start
    x = to_dual((first.wxyz, first.position))
    length = typical_length(measured[1])
    status, done = "iteration limit", 0
    while done < iterations:
        done += 1
        predicted = multiply(x[source], step)
        same_sign = np.where(np.sum(predicted[:, :4] * x[target, :4], axis=1, keepdims=True) < 0.0, -1.0, 1.0)
        blend = unit(degree * x + gather @ (same_sign * predicted))
        change = np.abs(blend - x)
        x = blend
        if max(float(change[:, :4].max()), float(change[:, 4:].max()) / length) < 0.5 * tolerance:
            status = "converged"
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


def multiply(a: Array, b: Array) -> Array:
    """Product of dual quaternions, ``ε² = 0``."""
    dual = quat.multiply(a[:, :4], b[:, 4:]) + quat.multiply(a[:, 4:], b[:, :4])
    return np.concatenate([quat.multiply(a[:, :4], b[:, :4]), dual], axis=1)


def unit(x: Array) -> Array:
    """Divide by the dual norm: a real part of unit length, and a dual part at right angles to it."""
    x = x / np.linalg.norm(x[:, :4], axis=1, keepdims=True)
    along = np.sum(x[:, :4] * x[:, 4:], axis=1, keepdims=True)
    return np.concatenate([x[:, :4], x[:, 4:] - along * x[:, :4]], axis=1)
