"""EIG-SE(3): all motions at once from eigenvectors of one sparse matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from tempose._typing import Array
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.methods.base import (
    Estimate,
    anchored,
    motion_weights,
    motions,
    nearest_rotations,
    synchronisation_method,
    typical_length,
)
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.numerics.blocks import block_matrix
from tempose.optimum.relaxations import pattern

VARIANTS = {
    "top": "the four leading eigenvectors of the averaging matrix D⁻¹(W ∘ Z)",
    "null": "the four smallest right singular vectors of I − D⁻¹(W ∘ Z)",
}

_GUARD = 4  # vectors carried along with those wanted, so that the iteration converges quickly
_SHIFT = 1e-9
_MOST_ENTRIES = 50_000_000  # of the squared matrix


@synchronisation_method(connected=True)
def eig_se3(graph: PoseGraph, *, variant: str = "top") -> Estimate:
    """Synchronise motions by a spectral decomposition.

    Arrigoni, Rossi & Fusiello, "Spectral synchronization of multiple views in SE(3)", SIAM J. Imaging Sciences 2016
    (arXiv 2015). Stack the 4×4 matrices ``M_i`` (node_from_world) into M (4n, 4). Without noise each is the mean of what
    its neighbours predict, ``D⁻¹(W ∘ Z) M = M`` with Z the block matrix of the measured motions, W the weights and D
    their row sums: M is spanned by eigenvectors of eigenvalue 1. With noise it is taken from the nearest
    eigenvectors or singular vectors. The combination of them whose fourth rows are 0, 0, 0, 1 is M, up to the projection of
    its rotations to SO(3).

    Parameters
    ----------
    variant
        One of :data:`VARIANTS`. ``top`` is computed from the structure of the matrix: three of its eigenvectors have
        fourth rows of zero and are those of the rotations alone; the other has eigenvalue 1 whatever the noise, fourth
        rows of one, and is the solution of a linear system. ``null`` mixes the noise of rotations and translations
        (in units of their typical length).
    """
    return Estimate(_synchroniser(variant)(graph, motion_weights(graph)), "closed form", message=f"variant {variant}")


@synchronisation_method(connected=True)
def eig_se3_irls(graph: PoseGraph, *, variant: str = "top", iterations: int = 50, tolerance: float = 1e-4) -> Estimate:
    """EIG-SE(3), reweighted: edges that disagree with the others lose their weight.

    Cauchy weights ``1/(1 + (r/c)²)`` with r the Frobenius norm of the difference of measured and fitted motion
    (translations in units of their typical length) and ``c = 2.385 · 1.4826 · median(r)``, times the edge's own weight,
    until no weight changes by more than ``tolerance``.
    """
    synchronise = _synchroniser(variant)
    given = motion_weights(graph)
    measured = motions(graph)
    length = typical_length(measured[1])
    robust = np.ones(graph.n_edges)
    status, done = "iteration limit", 0
    while done < iterations:
        done += 1
        poses = synchronise(graph, given * robust)
        residual = _residual(graph, poses, measured, length)
        scale = max(2.385 * 1.4826 * float(np.median(residual)), 1e-6)
        before, robust = robust, 1.0 / (1.0 + (residual / scale) ** 2)
        if float(np.abs(robust - before).max()) < tolerance:
            status = "converged"
            break
    low = int(np.sum(robust < 0.1))
    return Estimate(
        poses, status, done, message=f"{low} of {graph.n_edges} edges have lost nine tenths of their weight"
    )


def _residual(graph: PoseGraph, poses: Poses, measured: tuple[Array, Array], length: float) -> Array:
    """Frobenius distance (m,) of measured and fitted 4×4 motions, translations in units of ``length``."""
    q, t = poses.node_from_world
    fitted = se3.compose((q[graph.edge_j], t[graph.edge_j]), se3.inverse((q[graph.edge_i], t[graph.edge_i])))
    turn = quat.to_matrix(measured[0]) - quat.to_matrix(fitted[0])
    shift = (measured[1] - fitted[1]) / length
    return np.asarray(np.sqrt(np.sum(turn * turn, axis=(1, 2)) + np.sum(shift * shift, axis=1)))


def _synchroniser(variant: str) -> Callable[[PoseGraph, Array], Poses]:
    if variant not in VARIANTS:
        raise OptionError(f"unknown variant {variant!r} of EIG-SE(3): choose one of {', '.join(VARIANTS)}")
    return _from_top if variant == "top" else _from_null


def _poses(graph: PoseGraph, rotations: Array, t: Array) -> Poses:
    """Poses from matrices (n, 3, 3) near node_from_world rotations, up to one sign, and translations (n, 3)."""
    if float(np.sum(np.linalg.det(rotations))) < 0.0:
        rotations = -rotations
    return anchored(graph, *se3.inverse((nearest_rotations(rotations), t)))


def _from_top(graph: PoseGraph, weights: Array) -> Poses:
    """Leading eigenvectors of ``D⁻¹(W ∘ Z)``, from its symmetric rotation part ``B = D^-½ (W ∘ R) D^-½``.

    The fourth eigenvector is ``(x_i; 1)`` with ``(I − D⁻¹(W ∘ R)) x = D⁻¹ Σ w t``. Its part along the other three only
    chooses the origin of the world, and is left out.
    """
    n = graph.n_nodes
    wxyz, t = motions(graph)
    back = se3.inverse((wxyz, t))
    root = np.sqrt(_degree(graph, weights))
    w = np.tile(weights, 2)
    target, source = np.concatenate([graph.edge_j, graph.edge_i]), np.concatenate([graph.edge_i, graph.edge_j])
    R = quat.to_matrix(np.concatenate([wxyz, back[0]])) * (w / (root[target] * root[source]))[:, None, None]
    defect = sparse.csc_array(sparse.eye_array(3 * n) - block_matrix(n, target, source, R))
    unit = np.broadcast_to((1.0 + _SHIFT) * np.eye(3), (n, 3, 3))
    solve = pattern(graph, 3).factor(unit, -R[graph.n_edges :]).solve
    V = smallest_eigenvectors(defect, solve, 3)
    pull = w[:, None] * np.concatenate([t, back[1]])
    f = np.stack([np.bincount(target, column, n) for column in pull.T], axis=1) / root[:, None]

    def shape_only(x: Array) -> Array:
        return np.asarray(x - V @ (V.T @ x))

    rest = shape_only(f.ravel())
    y = np.zeros(3 * n)
    for _ in range(3):  # the shift of the factored matrix is undone by refinement
        y = shape_only(y + solve(rest))
        rest = shape_only(f.ravel() - defect @ y)
    scale = 1.0 / root
    return _poses(graph, V.reshape(n, 3, 3) * scale[:, None, None], y.reshape(n, 3) * scale[:, None])


def _from_null(graph: PoseGraph, weights: Array) -> Poses:
    """Smallest right singular vectors of ``I − D⁻¹(W ∘ Z)``."""
    wxyz, t = motions(graph)
    length = typical_length(t)
    defect = defect_matrix(graph, (wxyz, t / length), weights)
    square = sparse.csc_array(defect.T @ defect)
    if square.nnz > _MOST_ENTRIES:
        raise NotApplicable(f"too large: its squared matrix has {square.nnz} entries; use variant top")
    factor = splu(sparse.csc_array(square + _SHIFT * sparse.eye_array(square.shape[0])), permc_spec="MMD_AT_PLUS_A")
    vectors = smallest_eigenvectors(square, factor.solve, 4)
    blocks = vectors.reshape(graph.n_nodes, 4, 4)
    last = blocks[:, 3, :]
    origin = np.linalg.lstsq(last, np.ones(graph.n_nodes), rcond=None)[0]
    axes = np.linalg.svd(last)[2][1:].T  # the combinations whose fourth rows vanish
    return _poses(graph, blocks[:, :3] @ axes, length * blocks[:, :3] @ origin)


def _degree(graph: PoseGraph, weights: Array) -> Array:
    n = graph.n_nodes
    return np.asarray(np.bincount(graph.edge_i, weights, n) + np.bincount(graph.edge_j, weights, n), dtype=np.float64)


def defect_matrix(graph: PoseGraph, measured: tuple[Array, Array], weights: Array) -> sparse.csr_array:
    """The sparse matrix ``I − D⁻¹(W ∘ Z)`` (4n, 4n)."""
    target, source = np.concatenate([graph.edge_j, graph.edge_i]), np.concatenate([graph.edge_i, graph.edge_j])
    back = se3.inverse(measured)
    Z = np.zeros((2 * graph.n_edges, 4, 4))
    Z[:, :3, :3] = quat.to_matrix(np.concatenate([measured[0], back[0]]))
    Z[:, :3, 3] = np.concatenate([measured[1], back[1]])
    Z[:, 3, 3] = 1.0
    Z *= (np.tile(weights, 2) / _degree(graph, weights)[target])[:, None, None]
    return sparse.csr_array(sparse.eye_array(4 * graph.n_nodes) - block_matrix(graph.n_nodes, target, source, Z))


def smallest_eigenvectors(matrix: sparse.csc_array, inverse: Callable[[Array], Array], k: int) -> Array:
    """Eigenvectors (size, k) of the k smallest eigenvalues of a positive semi-definite matrix.

    By block inverse iteration, which, unlike a Lanczos iteration, finds equal eigenvalues at once.

    Parameters
    ----------
    inverse
        Applies the inverse of the matrix, or of one with the same eigenvectors that is slightly shifted.
    """
    size = matrix.shape[0]
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((size, min(k + _GUARD, size))))[0]
    for _ in range(100):
        before = V[:, :k]
        V = np.linalg.qr(inverse(V))[0]
        V = V @ np.linalg.eigh(V.T @ (matrix @ V))[1]
        drift = V[:, :k] - before @ (before.T @ V[:, :k])
        if float(np.linalg.norm(drift)) < 1e-10:
            break
    return np.asarray(V[:, :k])
