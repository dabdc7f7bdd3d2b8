"""Small random graphs of every kind."""

from __future__ import annotations

import numpy as np

from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph


def random_graph(
    rng: np.random.Generator, n: int, m: int, kind: str = "scalar", rotation_only: bool = False
) -> PoseGraph:
    """A connected graph of random, mutually inconsistent measurements: large residuals everywhere."""
    i = np.concatenate([np.arange(n - 1), rng.integers(0, n, m - n + 1)])
    j = np.concatenate([np.arange(1, n), (i[n - 1 :] + 1 + rng.integers(0, n - 1, m - n + 1)) % n])
    A = rng.standard_normal((m, 3, 3))
    A = A @ np.swapaxes(A, 1, 2)
    concentration = {"scalar": rng.uniform(1, 100, m), "vector": rng.uniform(1, 100, (m, 3)), "full": 20 * A}[kind]
    precision = {"scalar": rng.uniform(1, 100, m), "vector": rng.uniform(1, 100, m), "full": A}[kind]
    t = rng.standard_normal((m, 3))
    if rotation_only:
        t[::4] = np.nan
    return PoseGraph(tuple(range(n)), i, j, quat.random_uniform(rng, m), t, concentration, precision)
