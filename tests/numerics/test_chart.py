"""The chart of the collapsed sampler: its frame, its volume and what central means, against plain definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.kernels import with_world
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.numerics.chart import PLANE, SPACE, Frame, center, center_back, couple, place, pull_back, push_back
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.simulation import simulate

N = 4
WEIGHTS = {"one node": [0.0, 0.0, 1.0, 0.0], "some": [0.0, 0.5, 0.2, 0.3], "all": [0.25, 0.25, 0.25, 0.25]}


def rotations(frame: Frame, x: np.ndarray) -> np.ndarray:
    """Quaternions (n, 4) at rotation vectors x (n, 3)."""
    omega, state = np.empty_like(x), np.empty((len(x), 8))
    center(frame, x, omega)
    place(omega, np.tile(quat.IDENTITY, (len(x), 1)), state)
    return state[:, :4]


def log_volume(frame: Frame, x: np.ndarray) -> tuple[float, np.ndarray]:
    """The log of the chart's volume factor, and its gradient by x."""
    omega, g = np.empty_like(x), np.empty_like(x)
    center(frame, x, omega)
    total = pull_back(SPACE, omega, np.zeros((len(x), 3)), 1.0, g)
    total += center_back(SPACE, frame, omega, g)
    return total, -g


def relative(frame: Frame, x: np.ndarray) -> np.ndarray:
    """Rotations of nodes 1, 2, … as node 0, the held one, sees them."""
    wxyz = rotations(frame, x)
    return quat.multiply(quat.conjugate(wxyz[:1]), wxyz[1:])


def jacobian(frame: Frame, x: np.ndarray, step: float = 1e-5) -> float:
    """Log determinant of how relative rotations turn as x moves, node 0 held: by differences, no formula of the chart."""
    here, columns = quat.conjugate(relative(frame, x)), []
    for k in range(3, x.size):
        ends = []
        for sign in (1.0, -1.0):
            moved = x.copy().reshape(-1)
            moved[k] += sign * step
            ends.append(quat.log(quat.multiply(relative(frame, moved.reshape(x.shape)), here)).reshape(-1))
        columns.append((ends[0] - ends[1]) / (2.0 * step))
    return float(np.linalg.slogdet(np.array(columns))[1])


def somewhere(rng: np.random.Generator, size: float) -> np.ndarray:
    x = size * rng.standard_normal((N, 3))
    x[0] = 0.0
    return x


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("size", [0.05, 0.35])
def test_the_volume_is_that_of_relative_rotations(weights: str, size: float) -> None:
    rng = np.random.default_rng(1)
    frame = Frame(np.zeros(N, dtype=np.int64), np.array(WEIGHTS[weights]), 1)
    for _ in range(5):
        x = somewhere(rng, size)
        assert log_volume(frame, x)[0] == pytest.approx(jacobian(frame, x), abs=1e-7)


def test_without_the_frames_factor_the_volume_would_be_wrong() -> None:
    """Negative control: the product of the nodes' factors alone."""
    frame = Frame(np.zeros(N, dtype=np.int64), np.array(WEIGHTS["all"]), 1)
    x = somewhere(np.random.default_rng(1), 0.35)
    omega, g = np.empty_like(x), np.empty_like(x)
    center(frame, x, omega)
    alone = pull_back(SPACE, omega, np.zeros((N, 3)), 1.0, g)
    assert abs(alone - jacobian(frame, x)) > 0.01


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("size", [0.1, 0.35])  # on both sides of where a series ends
def test_gradient_of_the_volume(weights: str, size: float) -> None:
    rng = np.random.default_rng(2)
    frame = Frame(np.zeros(N, dtype=np.int64), np.array(WEIGHTS[weights]), 1)
    x, direction = somewhere(rng, size), somewhere(rng, 1.0)
    ahead, behind = (log_volume(frame, x + sign * 1e-5 * direction)[0] for sign in (1.0, -1.0))
    assert (ahead - behind) / 2e-5 == pytest.approx(np.vdot(log_volume(frame, x)[1], direction), rel=1e-6, abs=1e-9)


def test_frames_of_components_are_apart_and_none_changes_nothing() -> None:
    rng = np.random.default_rng(3)
    x = 0.2 * rng.standard_normal((2 * N, 3))
    component = np.repeat(np.arange(2), N)
    both = Frame(component, np.r_[WEIGHTS["some"], np.zeros(N)], 2)
    omega = np.empty_like(x)
    center(both, x, omega)
    np.testing.assert_allclose(np.array(WEIGHTS["some"]) @ omega[:N], 0.0, atol=1e-16)
    np.testing.assert_array_equal(omega[N:], x[N:])
    first = log_volume(Frame(component[:N], np.array(WEIGHTS["some"]), 1), x[:N])[0]
    second = log_volume(Frame(component[:N], np.zeros(N), 1), x[N:])[0]
    assert log_volume(both, x)[0] == pytest.approx(first + second, abs=1e-14)


def test_a_node_of_the_mean_must_stay_where_the_mean_is_unique() -> None:
    frame = Frame(np.zeros(2, dtype=np.int64), np.array([0.5, 0.5]), 1)
    for angle, inside in ((0.99 * math.pi, True), (1.01 * math.pi, False)):  # half of it on either side of the mean
        x = np.array([[0.0, 0.0, 0.0], [angle, 0.0, 0.0]])
        assert math.isfinite(log_volume(frame, x)[0]) == inside


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_plane_has_no_volume_factor(weights: str) -> None:
    """Relative angles are differences of coordinates, whatever stands still; gradients are as in space, along one axis."""
    rng = np.random.default_rng(5)
    frame = Frame(np.zeros(N, dtype=np.int64), np.array(WEIGHTS[weights]), 1)
    x, pull = np.zeros((N, 3)), np.zeros((N, 3))
    x[1:, 2], pull[:, 2] = 0.3 * rng.standard_normal(N - 1), rng.standard_normal(N)
    wxyz = rotations(frame, x)
    assert not np.any(wxyz[:, 1:3])
    np.testing.assert_allclose(quat.log(relative(frame, x))[:, 2], x[1:, 2], atol=1e-15)
    omega, g = np.empty_like(x), np.empty_like(x)
    center(frame, x, omega)
    assert pull_back(PLANE, omega, pull, 2.0, g) + center_back(PLANE, frame, omega, g) == 0.0
    by_x = 2.0 * (pull[:, 2] - np.array(WEIGHTS[weights]) * pull[:, 2].sum())  # of 2 Σ pull ω
    np.testing.assert_allclose(g[:, 2], by_x, atol=1e-14)
    assert not np.any(g[:, :2])


def test_products_with_smaller_blocks() -> None:
    """``H_pω ω`` and ``H_ωω ω + H_ωp d`` of dense matrices, in space and in the plane."""
    rng = np.random.default_rng(6)
    n, pairs = 5, np.array([(1, 0), (3, 0), (0, 2), (4, 2), (2, 3), (0, 4)])  # by target
    start = np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 1], minlength=n))])
    for axes, b in ((SPACE, 6), (PLANE, 3)):
        t = len(axes.turns)
        diagonal, off = rng.standard_normal((n, b, b)), rng.standard_normal((len(pairs), b, b))
        diagonal += np.swapaxes(diagonal, 1, 2)
        H = np.zeros((n, b, n, b))
        for k in range(n):
            H[k, :, k] = diagonal[k]
        for (i, j), block in zip(pairs, off, strict=True):
            H[i, :, j], H[j, :, i] = block, block.T
        omega, d = np.zeros((2, n, 3))
        omega[:, axes.turns], d[:, axes.shifts] = rng.standard_normal((n, t)), rng.standard_normal((n, b - t))
        got = np.zeros((n, 3))
        couple(axes, start, pairs[:, 0].astype(np.int32), diagonal, off, omega, got)
        turned = np.einsum("iakb,kb->ia", H[:, :, :, :t], omega[:, axes.turns])
        np.testing.assert_allclose(got[:, axes.shifts], turned[:, t:], atol=1e-13)
        push_back(axes, start, pairs[:, 0].astype(np.int32), diagonal, off, omega, d, got)
        turned += np.einsum("iakb,kb->ia", H[:, :, :, t:], d[:, axes.shifts])
        np.testing.assert_allclose(got[:, axes.turns], turned[:, :t], atol=1e-13)


def test_the_frame_is_of_nodes_near_the_most_central_one() -> None:
    made = simulate(20, sigma_rot_deg=2.0, seed=4)
    curvature = Curvature(Posterior(made.graph))
    laplace = Laplace(curvature, minimise(curvature, made.truth).poses, beta=2.0)
    marginals = [laplace.marginals(Gauge.parse(made.graph, f"node:{name}"))[:, :3, :3] for name in made.graph.node_ids]
    best = int(np.argmin([np.einsum("naa->", one) for one in marginals]))
    assert best != made.graph.anchors[0]
    widest = np.sqrt(np.linalg.eigvalsh(marginals[best])[:, -1])
    farthest = float(np.median(widest))
    expected = (widest < farthest) | (np.arange(20) == best)
    np.testing.assert_allclose(laplace.rotation_frame(farthest), expected / expected.sum())
    assert np.flatnonzero(laplace.rotation_frame(0.0)).tolist() == [best]


def test_where_a_prior_holds_rotations_no_mean_does() -> None:
    from tempose.model.bingham import Bingham

    made = simulate(8, seed=4)
    prior = Bingham.from_mode(quat.IDENTITY, np.array([3.0, 5.0, 9.0]))
    graph = Priors(prior).added_to(made.graph)
    curvature = Curvature(Posterior(graph))
    laplace = Laplace(curvature, minimise(curvature, with_world(graph, made.truth)).poses)
    np.testing.assert_array_equal(laplace.rotation_frame(1.0), 0.0)
