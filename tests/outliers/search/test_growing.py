"""Growth from the chain: right loop closures come in, wrong ones stay out, whatever noise is stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tempose
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.prediction import predictions
from tempose.outliers.search.growing import grow_from_chain
from tempose.outliers.sequence import Sequence


@pytest.mark.parametrize("planar", [True, False])
@pytest.mark.parametrize("stated", [0.1, 1.0, 5.0])
def test_wrong_loops_stay_out_at_any_stated_noise(planar: bool, stated: float) -> None:
    made = tempose.simulate(
        150, shape="manhattan", planar=planar, sigma_rot_deg=0.5, sigma_trans=0.02, wrong_loops=0.4, seed=8
    )
    graph = replace(
        made.graph,
        concentration=made.graph.concentration / stated**2,
        translation_precision=made.graph.translation_precision / stated**2,
    )
    sequence = Sequence.of(graph)
    assert sequence is not None
    grown = grow_from_chain(sequence)
    loops = ~sequence.is_link
    assert not np.any(grown.accepted & made.is_wrong)
    assert np.mean(grown.accepted[loops & ~made.is_wrong]) > 0.95
    assert grown.factor * stated == pytest.approx(1.0, rel=0.35)


def test_predictions_are_those_of_a_fit_without_the_edge() -> None:
    """z² of an edge that took part is the one it has if it takes none: both compare it with what the others say."""
    graph = tempose.simulate(12, completeness=0.6, sigma_rot_deg=0.5, sigma_trans=0.02, seed=2).graph
    curvature = Curvature(Posterior(graph))
    poses = minimise(curvature, tempose.solve(graph, draws=0, analyse=False).estimate).poses
    factor = curvature.factor(poses.wxyz, poses.position, exact=False)
    inside = predictions(graph, poses, Laplace(curvature, poses, 1.0, factor).edge_covariances())
    k = 3
    weight = np.where(np.arange(graph.n_edges) == k, 1e-9, 1.0)
    without = replace(
        graph,
        concentration=graph.concentration * weight,
        translation_precision=graph.translation_precision * weight,
    )
    other = Curvature(Posterior(without))
    refit = minimise(other, poses).poses
    sigma = Laplace(other, refit, 1.0, other.factor(refit.wxyz, refit.position, exact=False)).edge_covariances()
    outside = predictions(graph, refit, sigma, (weight > 0.5).astype(float))
    assert outside.distance[0][k] == pytest.approx(inside.distance[0][k], rel=0.02)
    assert outside.log_spread[k] == pytest.approx(inside.log_spread[k], rel=0.02)
    # control: without the correction for its own pull the distance is too small
    assert np.sum(inside.residual[k] ** 2) < 0.8 * outside.distance[0][k]
