"""L1 and iteratively reweighted rotation averaging, then positions by least squares."""

from __future__ import annotations

import numpy as np

from tempose._typing import Array
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.methods._kernels import rotation_errors, shrink
from tempose.methods.base import Averaging, Estimate, synchronisation_method
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.relaxations import with_positions
from tempose.optimum.trees import best_tree_poses, rotation_weights

LOSSES = {
    "geman-mcclure": "ρ = s² e² / (s² + e²): beyond the scale s an edge loses its weight",
    "half-norm": "ρ = √|e|: no scale to choose",
}


@synchronisation_method(connected=True)
def irls(
    graph: PoseGraph, *, scale_deg: float | None = None, l1_iterations: int = 10, iterations: int = 100,
    tolerance: float = 1e-10, start: Poses | None = None,
) -> Estimate:  # fmt: skip
    """Robust rotation averaging in the Lie algebra: first L1, then Geman–McClure weights.

    Chatterjee & Govindu, "Efficient and robust large-scale rotation averaging", ICCV 2013; today's standard in
    structure from motion. Positions are then least squares given the rotations. See :func:`robust_rotations`.
    """
    wxyz, converged, done = robust_rotations(
        graph, scale_deg=scale_deg, l1_iterations=l1_iterations, iterations=iterations, tolerance=tolerance, start=start
    )
    return Estimate(with_positions(graph, wxyz), "converged" if converged else "iteration limit", done)


@synchronisation_method(connected=True)
def irls_half(
    graph: PoseGraph, *, l1_iterations: int = 10, iterations: int = 100, tolerance: float = 1e-7,
    start: Poses | None = None,
) -> Estimate:  # fmt: skip
    """The same with the loss √|e|, which needs no scale.

    Chatterjee & Govindu, "Robust relative rotation averaging", PAMI 2018, who found it the best of many losses.
    """
    wxyz, converged, done = robust_rotations(
        graph, "half-norm", l1_iterations=l1_iterations, iterations=iterations, tolerance=tolerance, start=start
    )
    return Estimate(with_positions(graph, wxyz), "converged" if converged else "iteration limit", done)


def robust_rotations(
    graph: PoseGraph, loss: str = "geman-mcclure", *, scale_deg: float | None = None, l1_iterations: int = 10,
    iterations: int = 100, tolerance: float = 1e-10, start: Poses | None = None,
) -> tuple[Array, bool, int]:  # fmt: skip
    """Rotations (n, 4), world_from_node; whether they have converged; iterations taken.

    Each edge leaves a rotation vector ``e = log(R_j R_ij R_iᵀ)``, and corrections ω obey ``ω_i − ω_j = e`` to first
    order. The first rounds minimise ``Σ w |ω_i − ω_j − e|₁``, which outliers hardly move; the others
    ``Σ w φ |ω_i − ω_j − e|²`` with the weights of the loss, of ``r² = w̃|e|²``: Geman–McClure ``φ = (s²/(s² + r²))²``;
    half-norm ``φ = (ε² + r²)^(-3/4)``, ε a hundredth of the median r after the first rounds.

    Parameters
    ----------
    loss
        One of :data:`LOSSES`.
    scale_deg
        The residual s beyond which an edge loses its weight, for edges of the median concentration; for others it is
        scaled by their relative uncertainty (w̃). The authors use 5°, which throws away good edges where the noise is
        of that size; by default it is therefore 2.5 times the residual that the noise predicts, within 5° and 20°.
    start
        Poses to start from; by default the best, by U, of a few spanning trees.
    """
    if loss not in LOSSES:
        raise OptionError(f"unknown loss {loss!r}: choose one of {', '.join(LOSSES)}")
    w = rotation_weights(graph)
    relative = w / np.median(w)
    wxyz = (best_tree_poses(graph) if start is None else start).wxyz
    plain = Averaging(graph, np.ones(graph.n_edges))

    def left(wxyz: Array) -> Array:
        error = np.empty((graph.n_edges, 3))
        rotation_errors(graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, wxyz, error)
        return error

    done, converged = 0, False
    for _ in range(l1_iterations):
        move = least_absolute(plain, left(wxyz), np.sqrt(relative))
        wxyz = quat.normalize(quat.multiply(quat.exp(move), wxyz))
        done += 1
        if float(np.abs(move).max()) < 1e-3:
            break
    if scale_deg is None:
        scale_deg = float(np.clip(np.degrees(2.5 * np.sqrt(6.0 / np.median(w))), 5.0, 20.0))
    scale = np.radians(scale_deg)
    if loss == "half-norm":
        scale = max(0.01 * float(np.median(np.sqrt(relative) * np.linalg.norm(left(wxyz), axis=1))), 1e-6)
    power = 2.0 if loss == "geman-mcclure" else 0.75
    for _ in range(iterations):
        error = left(wxyz)
        phi = (1.0 + relative * np.sum(error * error, axis=1) / scale**2) ** -power
        move = Averaging(graph, relative * phi).solve(error)
        wxyz = quat.normalize(quat.multiply(quat.exp(move), wxyz))
        done += 1
        if float(np.abs(move).max()) < tolerance:
            converged = True
            break
    anchor = wxyz[graph.anchors[0]]
    return quat.normalize(quat.multiply(quat.conjugate(anchor), wxyz)), converged, done


def least_absolute(graph_average: Averaging, b: Array, weights: Array, iterations: int = 100) -> Array:
    """``argmin Σ w |x_i − x_j − b|₁`` (n, k), by the alternating direction method of multipliers.

    Splits off ``z = x_i − x_j − b``: x by least squares with one factored matrix, z by soft thresholds.
    """
    i, j = graph_average.graph.edge_i, graph_average.graph.edge_j
    limit = weights * max(float(np.median(np.abs(b))), 1e-12)  # the weights over the penalty of the method
    size = max(float(np.abs(b).max()), 1e-300)
    z, dual, pull = np.zeros_like(b), np.zeros_like(b), b.copy()
    for _ in range(iterations):
        x = graph_average.solve(pull)
        if shrink(i, j, x, b, limit, z, dual, pull) < 1e-4 * size:
            break
    return x
