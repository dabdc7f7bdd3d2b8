"""R-GODEC: rotations from a robust low-rank and sparse decomposition with missing data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from tempose._typing import Array, Index
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.methods.base import Estimate, nearest_rotations, synchronisation_method
from tempose.model.graph import PoseGraph
from tempose.optimum.relaxations import with_positions
from tempose.optimum.trees import rotation_weights

LEAST_COMPLETE = 0.05  # share of measured pairs below which filling in the others takes for ever


@synchronisation_method(connected=True)
def r_godec(
    graph: PoseGraph, *, threshold: float | None = None, iterations: int = 5000, tolerance: float = 1e-11
) -> Estimate:
    """Rotations from ``X = L + S + missing``, L of rank 3, S a few wrong blocks; then positions by least squares.

    Arrigoni, Magri, Rossi, Fragneto & Fusiello, "Robust absolute rotation estimation via low-rank and sparse matrix
    decomposition", 3DV 2014. The block matrix of all relative rotations ``R_i R_jᵀ`` has rank 3. See
    :func:`decompose` for the decomposition, and its docstring for how weights enter.

    Parameters
    ----------
    threshold
        Frobenius norm by which a block must disagree to be treated as an outlier. By default three times what the
        median concentration predicts, ``3 √6 σ`` with ``σ = √(2/λ)``, and at least 0.05 (two degrees).
    iterations, tolerance
        Stop when L changes by less than ``tolerance`` relative to its norm.
    """
    n = graph.n_nodes
    low, high = np.minimum(graph.edge_i, graph.edge_j), np.maximum(graph.edge_i, graph.edge_j)
    key, pair = np.unique(low * n + high, return_inverse=True)
    share = 2.0 * len(key) / (n * (n - 1))
    if share < LEAST_COMPLETE:
        raise NotApplicable(
            f"only {100 * share:.2g} % of all pairs are measured; filling in the others needs {100 * LEAST_COMPLETE:g} %"
        )
    # X_ij = R_i R_jᵀ with R node_from_world, so an edge from i to j measures X_ji
    block = quat.to_matrix(graph.j_from_i_wxyz)
    block = np.where((graph.edge_j < graph.edge_i)[:, None, None], block, np.swapaxes(block, 1, 2))
    w = rotation_weights(graph)
    weight = np.bincount(pair, w)
    mean = np.zeros((len(key), 3, 3))
    np.add.at(mean, pair, w[:, None, None] * block)
    mean /= weight[:, None, None]
    if threshold is None:
        threshold = max(3.0 * np.sqrt(6.0) * np.sqrt(2.0 / float(np.median(w))), 0.05)
    found = decompose(n, key // n, key % n, mean, weight / weight.max(), threshold, iterations, tolerance)
    blocks = found.factor.reshape(n, 3, 3)
    if float(np.sum(np.linalg.det(blocks))) < 0.0:
        blocks = -blocks
    wxyz = quat.conjugate(nearest_rotations(blocks))
    anchor = wxyz[graph.anchors[0]]
    wxyz = quat.normalize(quat.multiply(quat.conjugate(anchor), wxyz))
    outliers = int(np.sum(np.any(found.sparse != 0.0, axis=(1, 2))))
    return Estimate(
        with_positions(graph, wxyz), "converged" if found.converged else "iteration limit", found.iterations,
        message=f"{outliers} of {len(key)} measured pairs are in the sparse part",
    )  # fmt: skip


@dataclass(frozen=True)
class Decomposition:
    """``L = factor diag(sign) factorᵀ``, the blocks of S, and how the iteration ended."""

    factor: Array  # (3n, 3), scaled so that L = factor @ factor.T if L is positive semi-definite
    sparse: Array  # (p, 3, 3)
    iterations: int
    converged: bool


def decompose(
    n: int, a: Index, b: Index, blocks: Array, weights: Array, threshold: float, iterations: int, tolerance: float
) -> Decomposition:
    """Decompose a symmetric block matrix, of which the pairs (a, b) are known, into low rank and sparse.

    Minimises ``½ Σ w ‖X − S − L‖² + threshold · Σ w ‖S‖`` over L of rank 3 and blocks S, by turns: unknown
    blocks are filled in from L, S is the block-wise soft threshold of X − L, and L moves to the best rank-3 matrix
    near ``L + w (X − S − L)``, by a warm-started subspace iteration. That matrix is low rank plus sparse, so nothing
    of size n² is formed. The diagonal blocks are known to be the identity.

    Parameters
    ----------
    a, b
        Block rows and columns (p,), a < b.
    blocks
        Known blocks X_ab (p, 3, 3).
    weights
        In (0, 1] (p,): 1 replaces a block by its measurement in one step, 0 would leave it unknown.
    """
    row, column = np.arange(3)[:, None], np.arange(3)[None, :]
    diagonal = np.arange(n)
    at_row = np.concatenate([a, b, diagonal])[:, None, None] * 3 + row
    at_column = np.concatenate([b, a, diagonal])[:, None, None] * 3 + column
    at_row, at_column = (np.broadcast_to(at, (2 * len(a) + n, 3, 3)).ravel() for at in (at_row, at_column))

    # every place holds one value, so a matrix of the values' numbers tells once where each of them goes
    place = sparse.csr_array((np.arange(len(at_row)), (at_row, at_column)), shape=(3 * n, 3 * n))

    def known(values: Array, on_diagonal: Array) -> sparse.csr_array:
        data = np.concatenate([values, np.swapaxes(values, 1, 2), on_diagonal]).ravel()
        return sparse.csr_array((data[place.data], place.indices, place.indptr), shape=place.shape)

    def at_pairs(vectors: Array, values: Array, p: Index, q: Index) -> Array:
        V = vectors.reshape(n, 3, 3)
        return np.asarray((V[p] * values) @ np.swapaxes(V[q], 1, 2))

    w = weights[:, None, None]
    eye = np.broadcast_to(np.eye(3), (n, 3, 3))
    filled = known(blocks * w, eye)
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((3 * n, 3)))[0]
    for _ in range(50):  # the leading eigenvectors with zeros for what is unknown
        vectors = np.linalg.qr(filled @ vectors)[0]
    values, vectors = _ritz(vectors, filled @ vectors)
    wrong = np.zeros_like(blocks)
    converged, done = False, 0
    while done < iterations:
        done += 1
        fitted = at_pairs(vectors, values, a, b)
        residual = blocks - fitted
        norm = np.linalg.norm(residual, axis=(1, 2), keepdims=True)
        wrong = residual * np.maximum(1.0 - threshold / np.maximum(norm, 1e-300), 0.0)
        change = known(w * (residual - wrong), eye - at_pairs(vectors, values, diagonal, diagonal))
        moved = vectors
        for _ in range(2):
            image = vectors @ (values[:, None] * (vectors.T @ moved)) + change @ moved
            moved = np.linalg.qr(image)[0]
        image = vectors @ (values[:, None] * (vectors.T @ moved)) + change @ moved
        new_values, new_vectors = _ritz(moved, image)
        difference = _distance(vectors, values, new_vectors, new_values)
        vectors, values = new_vectors, new_values
        if difference < tolerance * float(np.linalg.norm(values)):
            converged = True
            break
    return Decomposition(vectors * np.sqrt(np.maximum(values, 0.0)), wrong, done, converged)


def _ritz(basis: Array, image: Array) -> tuple[Array, Array]:
    """Best eigenvalues and eigenvectors of a symmetric matrix within a basis, given the basis' image."""
    small = basis.T @ image
    values, turn = np.linalg.eigh(0.5 * (small + small.T))
    return values, basis @ turn


def _distance(a: Array, x: Array, b: Array, y: Array) -> float:
    """Frobenius norm of ``a diag(x) aᵀ − b diag(y) bᵀ``, without cancellation."""
    mix = b.T @ a
    outside = a - b @ mix  # the part of a's span that b's lacks
    within = (mix * x) @ mix.T - np.diag(y)
    cross = (mix * x) @ outside.T
    own = (outside * x) @ (outside.T @ outside) * x
    square = np.sum(within**2) + 2.0 * np.sum(cross**2) + abs(float(np.sum(own * outside)))
    return float(np.sqrt(square))
