"""L1 and iteratively reweighted rotation averaging, then positions by least squares."""

from __future__ import annotations

import numpy as np

from tempose.baselines.base import Array, Averaging, Estimate, baseline, start_on_tree
from tempose.geometry import quaternion as quat
from tempose.graph import PoseGraph
from tempose.optimum.starts import rotation_weights, with_positions
from tempose.poses import Poses


@baseline(connected=True)
def irls(
    graph: PoseGraph, *, scale_deg: float | None = None, l1_iterations: int = 10, iterations: int = 100,
    tolerance: float = 1e-10, start: Poses | None = None,
) -> Estimate:  # fmt: skip
    """Robust rotation averaging in the Lie algebra: first L1, then Geman–McClure weights.

    Chatterjee & Govindu, "Efficient and robust large-scale rotation averaging", ICCV 2013; today's standard in
    structure from motion. Positions are then least squares given the rotations. See :func:`robust_rotations`.
    """
    wxyz, converged, done = robust_rotations(graph, scale_deg, l1_iterations, iterations, tolerance, start)
    return Estimate(with_positions(graph, wxyz), "converged" if converged else "iteration limit", done)


def robust_rotations(
    graph: PoseGraph, scale_deg: float | None = None, l1_iterations: int = 10, iterations: int = 100,
    tolerance: float = 1e-10, start: Poses | None = None,
) -> tuple[Array, bool, int]:  # fmt: skip
    """Rotations (n, 4), world_from_node; whether they have converged; iterations taken.

    Each edge leaves a rotation vector ``e = log(R_j R_ij R_iᵀ)``, and corrections ω obey ``ω_i − ω_j = e`` to first
    order. The first rounds minimise ``Σ w |ω_i − ω_j − e|₁``, which outliers hardly move; the others
    ``Σ w φ |ω_i − ω_j − e|²`` with ``φ = (s²/(s² + w̃|e|²))²``, the weights of the Geman–McClure loss.

    Parameters
    ----------
    scale_deg
        The residual s beyond which an edge loses its weight, for edges of the median concentration; for others it is
        scaled by their relative uncertainty (w̃). The authors use 5°, which throws away good edges where the noise is
        of that size; by default it is therefore 2.5 times the residual that the noise predicts, within 5° and 20°.
    start
        Poses to start from; by default a spanning tree.
    """
    i, j = graph.edge_i, graph.edge_j
    w = rotation_weights(graph)
    relative = w / np.median(w)
    if scale_deg is None:
        scale_deg = float(np.clip(np.degrees(2.5 * np.sqrt(6.0 / np.median(w))), 5.0, 20.0))
    s2 = np.radians(scale_deg) ** 2
    wxyz = (start_on_tree(graph) if start is None else start).wxyz
    plain = Averaging(graph, np.ones(graph.n_edges))

    def left(wxyz: Array) -> Array:
        return quat.log(quat.multiply(quat.multiply(wxyz[j], graph.j_from_i_wxyz), quat.conjugate(wxyz[i])))

    done, converged = 0, False
    for _ in range(l1_iterations):
        move = least_absolute(plain, left(wxyz), np.sqrt(relative))
        wxyz = quat.normalize(quat.multiply(quat.exp(move), wxyz))
        done += 1
        if float(np.abs(move).max()) < 1e-3:
            break
    for _ in range(iterations):
        error = left(wxyz)
        phi = (s2 / (s2 + relative * np.sum(error * error, axis=1))) ** 2
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
    rho = 1.0 / max(float(np.median(np.abs(b))), 1e-12)
    z, dual = np.zeros_like(b), np.zeros_like(b)
    size = max(float(np.abs(b).max()), 1e-300)
    limit = (weights / rho)[:, None]
    for _ in range(iterations):
        x = graph_average.solve(b + z - dual)
        gap = x[i] - x[j] - b
        shifted = gap + dual
        before, z = z, np.sign(shifted) * np.maximum(np.abs(shifted) - limit, 0.0)
        dual = shifted - z
        if max(float(np.abs(gap - z).max()), float(np.abs(z - before).max())) < 1e-4 * size:
            break
    return x
