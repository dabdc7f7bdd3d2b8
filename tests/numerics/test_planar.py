"""The planar Hessian against the one of space, on the axes of the plane."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.kinds import made
from tempose.geometry import quaternion as quat
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.numerics.planar import planar_hessian
from tempose.optimum.hessian import spatial_blocks

KINDS = ["planar", "planar gps", "planar landmarks", "planar correlated", "planar correlated mixed"]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_spatial_hessian_on_the_axes_of_the_plane(kind: str, robust: bool, exact: bool) -> None:
    graph = made(kind).graph
    rng, n = np.random.default_rng(0), graph.n_nodes
    half = rng.uniform(-np.pi, np.pi, n)  # ± q alike
    wxyz = np.stack([np.cos(half), 0.0 * half, 0.0 * half, np.sin(half)], axis=1)
    wxyz[graph.is_landmark | graph.is_fixed] = quat.IDENTITY
    position = np.column_stack([2.0 * rng.standard_normal((n, 2)), np.zeros(n)])
    m = graph.n_edges
    likelihood = RobustLikelihood(np.full(m, 0.5), np.full(m, 3.0), np.zeros(m), graph.freedom, 4.0)
    posterior = Posterior(graph, likelihood=likelihood if robust else None)
    expected = spatial_blocks(posterior, wxyz, position, exact)
    found = np.empty((n, 3, 3)), np.empty((graph.n_edges, 3, 3))
    planar_hessian(posterior.edge_table, wxyz, position, exact, *found)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-11 * np.abs(other).max())
