r"""What the rest of a graph predicts for each of its edges, and how far the measurement is from it.

With r the whitened residual of an edge (:math:`U = \tfrac12|r|^2`), A its Jacobian and Σ the covariance of the fitted pose,
an edge that takes part with weight w pulls the poses that much: r has covariance
:math:`V = (I - wS)(I + (1 - w)S)` with :math:`S = A\Sigma A^T`. With w = 1 that is :math:`I - S`, with w = 0, an edge that was left
out, :math:`I + S`. Either way

.. math::  z^2 = r^T V^{-1} r

is the squared Mahalanobis distance between the measurement and its prediction from the other edges: χ² with as many degrees of
freedom as these determine. On a bridge they determine nothing, whatever the measurement says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tempose._typing import Array, Index
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals

CHECKED = 1e-5  # a direction of an edge is checked if the rest leaves at least this share of its noise to the residual


@dataclass(frozen=True, eq=False)
class Predictions:
    """Measurements of all edges beside what the others predict for them.

    Attributes
    ----------
    residual
        Whitened (m, 6), rotation first.
    covariance
        V of it (m, 6, 6); zero in directions that are not measured.
    range_
        Projections (m, 6, 6) onto what each edge measures.
    taken
        S (m, 6, 6): the whitened covariance of the fitted relative poses.
    weight
        With which each edge took part (m,).
    """

    residual: Array
    covariance: Array
    range_: Array
    taken: Array
    weight: Array

    @cached_property
    def distance(self) -> tuple[Array, Index]:
        """z² (m,) and its degrees of freedom (m,), 0 where nothing checks the edge."""
        return _distance(self.covariance, self.residual)

    def distance_of(self, part: slice) -> tuple[Array, Index]:
        """The same of the rotation, rows 0 to 3, or of the translation."""
        return _distance(self.covariance[:, part, part], self.residual[:, part])

    @cached_property
    def log_spread(self) -> Array:
        """``log det(I + S₋)`` (m,) of the directions that are checked, ``S₋ = S (I − wS)⁻¹`` with the edge itself left out."""
        s = np.clip(np.linalg.eigvalsh(self.taken), 0.0, None)
        weight = self.weight[:, None]
        left = 1.0 - weight * s
        checked = left > CHECKED
        spread = (1.0 + (1.0 - weight) * s) / np.where(checked, left, 1.0)
        return np.asarray(np.sum(np.log(np.where(checked, spread, 1.0)), axis=1))


def predictions(graph: PoseGraph, poses: Poses, sigma: Array, weight: Array | None = None) -> Predictions:
    """Compare every edge with the others, all from one factorisation.

    Parameters
    ----------
    sigma
        Covariances (m, 6, 6) of what each edge measures (:meth:`tempose.optimum.laplace.Laplace.edge_covariances`), by
        Gauss–Newton: then wS is a projection's block, between 0 and I, however large the residuals.
    weight
        With which each edge took part (m,); 1 by default.
    """
    whitened, A, range_ = whitened_residuals(graph, poses)
    taken = A @ sigma @ np.swapaxes(A, 1, 2)
    w = np.ones(graph.n_edges) if weight is None else weight
    W = w[:, None, None]
    V = range_ - taken if weight is None else (range_ - W * taken) @ (range_ + (1.0 - W) * taken)
    return Predictions(whitened, V, range_, taken, w)


def whitened_residuals(graph: PoseGraph, poses: Poses) -> tuple[Array, Array, Array]:
    """Residuals (m, 6) in units of their σ, rotation first; their derivatives (m, 6, 6) by what each edge measures; ranges.

    The ranges (m, 6, 6) are the projections onto the directions that an edge measures.
    """
    root, range_ = information_roots(graph)
    r = residuals(graph, poses)
    whitened = np.einsum("mab,mb->ma", root, np.concatenate([2.0 * r.nu, np.nan_to_num(r.unexplained)], axis=1))
    scalar = np.sqrt(np.maximum(1.0 - np.sum(r.nu**2, axis=1), 0.0))[:, None, None]
    jacobian, twist = np.tile(np.eye(6), (graph.n_edges, 1, 1)), se3.hat(r.nu)
    jacobian[:, :3, :3] = scalar * np.eye(3) + twist  # of 2ν by the rotation vector
    if graph.coupling is not None:  # and of s = 2wν
        J = scalar * scalar * np.eye(3) + scalar * twist - r.nu[:, :, None] * r.nu[:, None, :]
        jacobian[:, 3:, :3] = graph.coupling @ J
    return whitened, root @ jacobian, range_


def information_roots(graph: PoseGraph) -> tuple[Array, Array]:
    """Symmetric roots (m, 6, 6) of ``½Λ`` and P of the edges, and the projections onto their ranges."""
    there = np.zeros(6)  # of a planar graph, the axes that lie in it
    there[graph.axes] = 1.0
    root, range_ = np.zeros((graph.n_edges, 6, 6)), np.zeros((graph.n_edges, 6, 6))
    for part, matrix in (
        (slice(0, 3), 0.5 * graph.concentration_matrices),
        (slice(3, 6), graph.translation_precision_matrices),
    ):
        values, vectors = np.linalg.eigh(matrix * there[part, None] * there[None, part])
        known = values > 1e-12 * np.maximum(values[:, -1:], 1e-300)
        kept = np.where(known, np.sqrt(np.maximum(values, 0.0)), 0.0)
        root[:, part, part] = (vectors * kept[:, None, :]) @ np.swapaxes(vectors, 1, 2)
        range_[:, part, part] = (vectors * known[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return root, range_


def _distance(V: Array, r: Array) -> tuple[Array, Index]:
    """``rᵀV⁺r`` (m,) over the directions in which V is not zero, and their number."""
    values, vectors = np.linalg.eigh(V)
    checked = values > CHECKED
    along = np.einsum("mab,ma->mb", vectors, r)
    z2 = np.sum(np.where(checked, along**2 / np.where(checked, values, 1.0), 0.0), axis=1)
    return z2, checked.sum(axis=1)
