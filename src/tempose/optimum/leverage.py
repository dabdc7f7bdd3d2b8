"""How much of each measurement the fitted poses have used up: leverages."""

from __future__ import annotations

import numpy as np

from tempose._typing import Array
from tempose.model.graph import PoseGraph


def used_of_edges(graph: PoseGraph, sigma: Array) -> tuple[Array, Array]:
    """``tr(ΩΣ)`` of every edge in its two parts (m,), (m,), of the rotation and of the translation.

    Ω is the joint information of the edge, and its parts are the traces of the diagonal blocks of ΩΣ: what the poses have used
    of the numbers of either.

    Parameters
    ----------
    sigma
        Covariances (m, 6, 6) of what each edge measures, in j's frame, rotation first.
    """
    P, B = graph.translation_precision_matrices, graph.coupling
    rotation = 0.5 * np.einsum("mab,mba->m", graph.concentration_matrices, sigma[:, :3, :3])
    moved = sigma[:, 3:]  # Cov(r + Bs, (s, r))
    if B is not None:
        moved = moved + B @ sigma[:, :3]
        rotation = rotation + np.einsum("mab,mac,mcb->m", B, P, moved[:, :, :3])
    translation = np.einsum("mab,mba->m", P, moved[:, :, 3:])
    # what is below zero is rounding, of matrices that are nearly singular; above the number of what is measured it may be, for an
    # edge that hardly counts. The parts of correlated edges may leave this, not their sum
    if B is None:
        return np.maximum(rotation, 0.0), np.maximum(translation, 0.0)
    below = np.minimum(rotation + translation, 0.0)
    return np.asarray(rotation - 0.5 * below), np.asarray(translation - 0.5 * below)
