"""Coverage: one rule, right for what is Gaussian and not for what is not."""

from __future__ import annotations

import numpy as np
import pytest

from tempose._typing import Array
from tempose.analysis.regions import LEVELS, inside, probability_within, squared_distance
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.poses import Poses
from tempose.model.relative import RelativeSummary
from tempose.studies.coverage import column, coverage, pair_distance, shares


def errors(width: float, n: int = 2000) -> tuple[Array, Array]:
    """Errors (n, 3) and the covariances (n, 3, 3) they have if ``width`` is 1."""
    rng = np.random.default_rng(5)
    root = rng.standard_normal((n, 3, 3))
    return width * np.einsum("nab,nb->na", root, rng.standard_normal((n, 3))), root @ np.swapaxes(root, 1, 2)


@pytest.mark.parametrize(("width", "right"), [(1.0, True), (1.2, False)])
def test_both_ways_to_count_agree_and_find_the_right_width(width: float, right: bool) -> None:
    distance = squared_distance(*errors(width))
    row = shares({"point": distance}, 3)
    for level in LEVELS:
        counted = coverage([[u] for u in probability_within(distance, 3)], level)
        assert row[column("point", level)] == counted.share
        assert (abs(counted.share - level) < 4.0 * counted.error) == right


def test_distances_are_those_of_a_linear_solve() -> None:
    error, covariance = errors(1.0, 5)
    expected = [e @ np.linalg.solve(c, e) for e, c in zip(error, covariance, strict=True)]
    assert squared_distance(error, covariance) == pytest.approx(expected, rel=1e-9)
    assert inside(np.array([2.36, 2.37]), 0.5, 3).tolist() == [True, False]  # the median of χ²₃ is 2.366


def test_what_has_no_truth_is_not_counted() -> None:
    row = shares({"position": np.array([0.1, np.nan, 100.0]), "point": np.array([np.nan])}, 3)
    assert (row["n_position"], row["position_95"]) == (2, 0.5)
    assert (row["n_point"], row["point_95"]) == (0, None)
    assert np.isnan(coverage([[]], 0.5).share)


def test_the_error_of_a_pair_is_seen_from_its_first_node() -> None:
    rng = np.random.default_rng(1)
    truth = Poses([0, 1], quat.random_uniform(rng, 2), rng.standard_normal((2, 3)))
    poses = [(truth.wxyz[k], truth.position[k]) for k in (0, 1)]
    q, t = se3.a_from_b(poses[0], poses[1])
    off = np.array([0.1, 0.0, 0.0, 0.0, 0.2, 0.0])
    mean = (q, t - off[3:])
    assert pair_distance(RelativeSummary(0, 1, mean, np.eye(6), "laplace"), truth) == pytest.approx(0.04)
    turned = quat.multiply(quat.conjugate(quat.exp(off[:3])), q)
    assert pair_distance(RelativeSummary(0, 1, (turned, t), np.eye(6), "laplace"), truth, dimension=3) == pytest.approx(
        0.01
    )
    assert (
        pair_distance(RelativeSummary(1, 0, mean, np.eye(6), "laplace"), truth) > 0.1
    )  # the other way round is another pose
