"""Robust averaging by agreement: no noise level, no share of outliers, no model of them."""

from __future__ import annotations

from tempose.methods.base import Estimate, synchronisation_method
from tempose.model.graph import PoseGraph
from tempose.outliers.search.basin import averaged


@synchronisation_method(connected=False)
def consensus(graph: PoseGraph) -> Estimate:
    """The best basin under a narrow, redescending loss whose width the triangles of the graph show.

    The poses from which a robust solve starts (:mod:`tempose.outliers.search.basin`), settled to the end. On rotations
    with heavy-tailed, correlated errors they are nearer to the truth than the minimum of any model of independent errors.
    """
    basin, converged = averaged(graph)
    return Estimate(basin.poses, "converged" if converged else "iteration limit", message=basin.origin)
