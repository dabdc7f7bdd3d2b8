"""Covariances of draws against numpy's, digit for digit, where draws are few and n − 1 is not n."""

from __future__ import annotations

import numpy as np
import pytest

from tempose.analysis.summary import relative_summary, summarise
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.gauge import Gauge
from tempose.model.poses import Poses
from tempose.sampling.draws import Draws
from tempose.simulation import simulate

COUNT = 5


def few_draws() -> tuple[Poses, Draws, np.ndarray]:
    """Five draws about the truth with node 0 held, and their tangent coordinates (draws, n, 6), of mean zero."""
    made = simulate(4, completeness=1.0, seed=1)
    truth, rng = made.truth, np.random.default_rng(2)
    x = 1e-4 * rng.standard_normal((COUNT, 4, 6))
    x[:, 0] = 0.0
    x -= x.mean(axis=0)
    rows = [
        np.concatenate([quat.multiply(quat.exp(one[:, :3]), truth.wxyz), truth.position + one[:, 3:]], axis=1)
        for one in x
    ]
    return truth, Draws(truth.ids, 1.0, (np.array(rows[:2]), np.array(rows[2:])), (np.zeros(2), np.zeros(3))), x


def test_covariance_of_a_node_is_that_of_numpy() -> None:
    truth, draws, x = few_draws()
    gauge = Gauge(simulate(4, completeness=1.0, seed=1).graph, "anchor")
    found = summarise(draws, truth, gauge)
    assert found.n_draws == COUNT
    for node in range(1, 4):
        expected = np.cov(x[:, node].T)  # by n − 1
        np.testing.assert_allclose(found.covariance[node], expected, atol=2e-3 * np.abs(expected).max())
        sigma = np.degrees(np.sqrt(np.trace(expected[:3, :3]) / 3.0))
        assert found.sigma_rot_deg[node] == pytest.approx(sigma, rel=2e-3)


def test_covariance_of_a_relative_pose_is_that_of_numpy() -> None:
    truth, draws, _ = few_draws()
    found = relative_summary(draws, truth, 1, 3)
    poses = np.concatenate(draws.arrays)
    wxyz, t = se3.a_from_b((poses[:, 1, :4], poses[:, 1, 4:]), (poses[:, 3, :4], poses[:, 3, 4:]))
    turn = quat.log(quat.multiply(wxyz, quat.conjugate(wxyz[0])))
    expected = np.cov(np.concatenate([turn, t], axis=1).T)
    np.testing.assert_allclose(found.covariance, expected, atol=2e-3 * np.abs(expected).max())
