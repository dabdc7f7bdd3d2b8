"""The whole Hessian as one array."""

from __future__ import annotations

import numpy as np

from tempose.model.poses import Poses
from tempose.optimum.hessian import Curvature


def dense(curvature: Curvature, poses: Poses, exact: bool = True) -> np.ndarray:
    diagonal, off = curvature.blocks(poses.wxyz, poses.position, exact=exact)
    table = curvature.posterior.edge_table
    n = len(poses)
    b = diagonal.shape[-1]
    H = np.zeros((n, b, n, b))
    for node in range(n):
        H[node, :, node, :] += diagonal[node]
        for e in range(table.start[node], table.start[node + 1]):
            H[table.source[e], :, node, :] += off[e]
            H[node, :, table.source[e], :] += off[e].T
    return H.reshape(b * n, b * n)
