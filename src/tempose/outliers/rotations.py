"""Rotations alone: steps and leverages from one number per edge, where a graph has no translations.

With concentrations λ and weights w, ``Σ w λ sin²(θ/2)`` lies below the quadratic form of the Laplacian with weights ``wλ/2``,
and close to it where residuals are small. So one scalar factorisation serves all three axes: it gives a step that lowers U,
and, as effective resistances, the share of each edge's freedom that the poses have used up.
"""

from __future__ import annotations

import numpy as np

from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.laplacian import Laplacian
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError


def applies(graph: PoseGraph) -> bool:
    """Whether the graph has rotations only, of three equally certain axes, and nothing else holds its nodes."""
    if graph.is_planar or graph.world is not None or len(graph.fixed) > 1 or not np.all(graph.has_rotation):
        return False
    return graph.concentration.ndim == 1 and not np.any(graph.has_translation)


class RotationsAlone:
    """Steps and leverages by the Laplacian of a graph, its anchors held."""

    def __init__(self, graph: PoseGraph) -> None:
        self.graph = graph
        self.held = np.zeros(graph.n_nodes, dtype=bool)
        self.held[graph.anchors] = True
        self.laplacian = Laplacian(graph.n_nodes, graph.edge_i, graph.edge_j, self.held)

    def factor(self, weights: Array) -> Factor:
        """Cholesky factor for weights (m,); edges without any still count a little, so that no node is free."""
        return self.laplacian.factor(np.maximum(weights, 1e-9 * float(weights.max(initial=1e-300))))

    def lower(self, posterior: Posterior, poses: Poses, steps: int, least_gain: float = 1e-4) -> Poses:
        """Some steps down U, each with the weights of the edges where it begins, until one gains less than that share of U."""
        wxyz = poses.wxyz
        value, gradient = posterior.gradient_at(wxyz, poses.position)
        for _ in range(steps):
            try:
                step = self.factor(_weights(posterior, wxyz)).solve(np.where(self.held[:, None], 0.0, gradient[:, :3]))
            except NotPositiveDefiniteError:
                break
            for _ in range(6):
                trial = quat.normalize(quat.multiply(quat.exp(-step), wxyz))
                lower, new_gradient = posterior.gradient_at(trial, poses.position)
                if lower <= value:
                    break
                step = 0.3 * step
            else:
                break
            gain, wxyz, value, gradient = value - lower, trial, lower, new_gradient
            if gain < least_gain * abs(value):
                break
        return Poses(poses.ids, wxyz, poses.position)

    def used(self, posterior: Posterior, poses: Poses) -> Array:
        """What the poses have used of each edge's three numbers (m,): ``3 · λ/2 · effective resistance``."""
        graph = self.graph
        diagonal, off = self.factor(_weights(posterior, poses.wxyz)).selected_inverse()
        variance = np.where(self.held, 0.0, diagonal.reshape(-1))
        i, j = graph.edge_i, graph.edge_j
        cross = np.where(self.laplacian.crosses, 0.0, off.reshape(-1))
        return np.asarray(1.5 * posterior.graph.concentration * (variance[i] + variance[j] - 2.0 * cross))


def _weights(posterior: Posterior, wxyz: Array) -> Array:
    """Weights ``wλ/2`` (m,) of the Laplacian."""
    from tempose.numerics.layout import rows

    weight = 0.5 * posterior.graph.concentration
    if posterior.likelihood is not None:
        state = rows(len(wxyz))
        state[:, :4] = wxyz
        weight = weight * posterior.likelihood.weight(posterior.energies_of(state))
    return np.asarray(weight)
