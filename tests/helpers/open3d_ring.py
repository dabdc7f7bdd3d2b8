"""A small ring with correlated information, which Open3D has optimised: its poses are recorded where this is used."""

from __future__ import annotations

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses


def ring() -> PoseGraph:
    """Five nodes, six edges, every information full."""
    rng = np.random.default_rng(21)
    truth = quat.exp(rng.normal(0.0, 0.4, (5, 3))), rng.normal(0.0, 2.0, (5, 3))
    pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
    a, b = (np.array(x) for x in zip(*pairs, strict=True))
    z = se3.a_from_b((truth[0][a], truth[1][a]), (truth[0][b], truth[1][b]))
    noise = quat.exp(rng.normal(0.0, 0.01, (6, 3))), rng.normal(0.0, 0.01, (6, 3))
    wxyz, t = se3.compose(z, noise)
    root = rng.normal(0.0, 30.0, (6, 6, 6))
    information = root @ np.swapaxes(root, 1, 2) + 500.0 * np.eye(6)
    start = Poses(tuple(range(5)), *truth)
    return PoseGraph.from_arrays(pairs, wxyz=wxyz, translations=t, information=information, initial=start)
