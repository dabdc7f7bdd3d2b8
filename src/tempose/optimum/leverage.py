"""How much of each measurement the fitted poses have used up: leverages."""

from __future__ import annotations

import numpy as np

from tempose._typing import Array
from tempose.model.graph import PoseGraph


def used_of_edges(graph: PoseGraph, sigma: Array) -> tuple[Array, Array]:
    """``tr(½Λ Σ_R)`` and ``tr(P Σ_{r+Bs})`` of every edge (m,), (m,): of its rotation, and of its translation given that.

    Together ``tr(ΩΣ)``, with Ω the joint information of the edge.

    Parameters
    ----------
    sigma
        Covariances (m, 6, 6) of what each edge measures, in j's frame, rotation first.
    """
    rotation = 0.5 * np.einsum("mab,mba->m", graph.concentration_matrices, sigma[:, :3, :3])
    left = sigma[:, 3:, 3:]
    if graph.coupling is not None:
        B, cross = graph.coupling, sigma[:, :3, 3:]
        mixed = B @ cross
        left = left + mixed + np.swapaxes(mixed, 1, 2) + B @ sigma[:, :3, :3] @ np.swapaxes(B, 1, 2)
    return np.asarray(rotation), np.asarray(np.einsum("mab,mba->m", graph.translation_precision_matrices, left))
