"""The geodesic samplers on planar graphs, with landmarks, fixed nodes and the world: moments against quadrature."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from helpers.every_graph import KINDS, about_z, graph_of, random_poses
from helpers.quadrature import Moments, compare, features, moments
from helpers.sampling import mean_and_error
from tempose._support import streams
from tempose.dynamics.chain import Dynamics, GeodesicChain, Momentum
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum import starts
from tempose.sampling.adjusted import AdjustedSampler
from tempose.sampling.geodesic import GeodesicSampler, MetropolisSampler
from tempose.sampling.tempering import TemperingSampler


def planar_trio(correlated: bool = True) -> PoseGraph:
    """Two free poses and a fixed one, wide and inconsistent; a position known for one, with a lever arm."""
    P = np.zeros((5, 3, 3))
    P[:, :2, :2] = [[3.0, 0.8], [0.8, 1.5]]
    B = np.zeros((5, 3, 3))
    B[:4, :2, 2] = [[0.5, -0.4], [-0.6, 0.3], [0.2, 0.7], [0.4, 0.1]]
    arm = np.zeros((5, 3))
    arm[4, :2] = 0.4, -0.3
    angle = np.array([0.4, -0.9, 2.0, 0.3, 0.0])
    t = np.array([[1.0, 0.2, 0], [-0.4, 0.8, 0], [0.3, -0.7, 0], [0.9, 0.1, 0], [0.8, 0.9, 0.0]])
    return PoseGraph(
        ("a", "b", "c", WORLD), [0, 1, 0, 1, 2], [1, 2, 2, 0, 3], about_z(angle), t, [6.0, 4.0, 2.0, 5.0, 0.0], P,
        dimension=2, coupling=B if correlated else None, arm=arm, fixed=("a",), initial=at_start(("a", "b", "c", WORLD)),
    )  # fmt: skip


def planar_landmark() -> PoseGraph:
    """A pose and a landmark, both free, and two fixed poses that see them."""
    angle = np.array([0.5, -0.6, 0.0, 0.0, 0.0])
    t = np.array([[0.6, 0.1, 0], [0.4, 0.7, 0], [1.0, -0.4, 0], [0.2, 0.9, 0], [-0.5, 0.6, 0]])
    return PoseGraph(
        ("a", "b", "c", "l"), [0, 1, 3, 3, 3], [2, 2, 0, 1, 2], about_z(angle), t, [5.0, 3.0, 0, 0, 0], [2.0, 3, 4, 1, 2],
        dimension=2, fixed=("a", "b"), landmarks=("l",), initial=at_start(("a", "b", "c", "l")),
    )  # fmt: skip


def spatial_fix() -> PoseGraph:
    """One free pose: a position with a lever arm, an attitude, a pose with correlated errors, a fixed neighbour."""
    rng = np.random.default_rng(7)
    A = rng.standard_normal((4, 3, 3))
    P = A @ np.swapaxes(A, 1, 2) + np.eye(3)
    Lambda = np.array([np.zeros((3, 3)), np.diag([3.0, 0.0, 3.0]), np.diag([2.0, 4.0, 1.0]), 3.0 * np.eye(3)])
    t = np.array([[0.5, 0.2, -0.3], [np.nan] * 3, [0.1, -0.6, 0.4], [0.3, 0.3, -0.8]])
    arm = np.array([[0.7, 0.0, 0.4], [0, 0, 0], [0, 0, 0], [0, 0, 0.0]])
    B = np.zeros((4, 3, 3))
    B[2] = 0.5 * rng.standard_normal((3, 3))
    return PoseGraph(
        ("k", "f", WORLD), [0, 0, 0, 1], [2, 2, 2, 0], quat.exp(0.7 * rng.standard_normal((4, 3))), t, Lambda, P,
        coupling=B, arm=arm, fixed=("f",), initial=at_start(("k", "f", WORLD)),
    )  # fmt: skip


def at_start(ids: tuple[str, ...]) -> Poses:
    angle, x = {"b": 0.5, "c": -0.8}, {"b": 0.9, "c": 0.4, "l": 0.3, "f": 0.6}
    wxyz = about_z(np.array([angle.get(name, 0.0) for name in ids]))
    return Poses(ids, wxyz, np.array([[x.get(name, 0.0), -0.5 * x.get(name, 0.0), 0.0] for name in ids]))


GRAPHS = {"trio": (planar_trio, 48), "landmark": (planar_landmark, 64), "fix": (spatial_fix, 18)}
BETA = 1.3


def sampler_of(name: str, graph: PoseGraph) -> object:
    posterior = Posterior(graph)
    n = graph.n_nodes
    mass = np.tile([0.1, 0.4], (n, 1))
    assert graph.initial is not None
    if name == "geodesic":
        dynamics = Dynamics(Scheme("baoab"), 0.25, 1.5, BETA)
        return GeodesicSampler(posterior, graph.initial, None, mass, dynamics, 8)
    dynamics = Dynamics(Scheme("baoab"), 0.4, 1.5, BETA)
    if name.endswith("-mh") and name != "geodesic-mh":
        if name == "boa-mh":  # not symmetric, so of first order: shorter steps, more of them
            return AdjustedSampler(posterior, graph.initial, None, mass, replace(dynamics, step=0.15), 12, scheme="boa")
        return AdjustedSampler(posterior, graph.initial, None, mass, dynamics, 6, scheme=name[:-3])
    rung = MetropolisSampler(posterior, graph.initial, None, mass, dynamics, 1, steps=7)
    if name == "geodesic-mh":
        return rung
    hot = replace(rung, dynamics=replace(rung.dynamics, beta=0.4 * BETA))
    return TemperingSampler((rung, hot), 1)


def drawn(name: str, graph: PoseGraph, count: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    chain = sampler_of(name, graph).start(rng)  # type: ignore[attr-defined]
    wxyz, position = np.empty((count, graph.n_nodes, 4)), np.empty((count, graph.n_nodes, 3))
    rates = [chain.advance(rng).acceptance for _ in range(400)]
    assert np.mean(rates) > 0.6  # a chain that stands still has no standard error
    for k in range(count):
        draw = chain.advance(rng)
        wxyz[k], position[k] = draw.wxyz, draw.position
    if graph.is_planar:  # exactly
        assert np.all(wxyz[:, :, 1:3] == 0.0)
        assert np.all(position[:, :, 2] == 0.0)
    fixed = graph.is_fixed
    assert graph.initial is not None
    assert np.all(wxyz[:, fixed] == graph.initial.wxyz[fixed])
    assert np.all(position[:, fixed] == graph.initial.position[fixed])
    return features(wxyz, position, graph.free)


def slow(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.slow)


@cache
def exact(which: str) -> Moments:
    make, count = GRAPHS[which]
    graph = make()
    assert graph.initial is not None
    found, finer = (moments(graph, graph.initial, BETA, k) for k in (count, count + 6))
    assert max(abs(found[key] - finer[key]) for key in found) < 1e-4
    return found


@pytest.mark.parametrize("which", GRAPHS)
@pytest.mark.parametrize("name", ["geodesic", "geodesic-mh", "baoab-mh", slow("aboba-mh"), slow("boa-mh"), "tempering"])
def test_moments(which: str, name: str) -> None:
    draws = drawn(name, GRAPHS[which][0](), 10_000)
    # unadjusted BAOAB has an error of its step, far below the Monte Carlo one here
    assert compare(draws, exact(which), mean_and_error) < 5.0


def test_a_dropped_correlation_is_noticed() -> None:
    """Negative control: the moments of another posterior are far outside the tolerance."""
    graph = planar_trio(correlated=False)
    assert graph.initial is not None
    exact = moments(planar_trio(), graph.initial, BETA, 48)
    assert compare(drawn("geodesic-mh", graph, 20_000), exact, mean_and_error) > 10.0


@pytest.mark.parametrize("coordinates", ["paper", "position"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_held_does_not_move(kind: str, coordinates: str) -> None:
    rng = np.random.default_rng(1)
    graph = graph_of(kind, rng)
    poses = random_poses(graph, rng)
    chain = GeodesicChain(Posterior(graph), poses, streams.key(3, "chain"))
    chain.thermalise(1.0)
    chain.run(Dynamics(Scheme("baoab"), 0.01, 1.0, 1.0, coordinates), 200)
    chain.run(Dynamics(Scheme("boa"), 0.01, 1.0, 1.0, coordinates, batch=5), 50)
    state, fixed = chain.state, graph.is_fixed
    assert np.all(state.velocity[~graph.free] == 0.0)
    assert np.all(state.wxyz[fixed] == poses.wxyz[fixed])
    assert np.all(state.position[fixed] == poses.position[fixed])
    if graph.is_planar:
        assert np.all(state.wxyz[:, 1:3] == 0.0)
        assert np.all(state.position[:, 2] == 0.0)
    moved = np.any(state.position != poses.position, axis=1)
    np.testing.assert_array_equal(moved, ~fixed)
    turned = np.abs(np.sum(state.wxyz * poses.wxyz, axis=1)) < 1.0 - 1e-9
    np.testing.assert_array_equal(turned, ~fixed & ~graph.is_landmark)


def test_momenta_count_what_moves() -> None:
    rng = np.random.default_rng(2)
    graph = graph_of("planar combined", rng)
    momentum = Momentum(graph, rng.uniform(0.5, 2.0, (graph.n_nodes, 2)))
    draws = np.array([momentum.kinetic(momentum.draw(rng, 2.0)) for _ in range(4000)])
    mean, error = mean_and_error(draws)
    assert np.isfinite(mean)
    assert abs(mean - 0.5 * graph.free.sum() / 2.0) < 4.0 * error


def test_random_starts_are_uniform_on_the_circle() -> None:
    graph = graph_of("planar combined", np.random.default_rng(3))
    rng = np.random.default_rng(4)
    many = [starts.random_poses(graph, rng) for _ in range(4000)]
    fixed = graph.is_fixed
    assert graph.fixed_at is not None
    for name in graph.fixed_at.ids:
        assert np.all(many[0].wxyz[graph.row(name)] == graph.fixed_at.wxyz[graph.fixed_at.row(name)])
    wxyz = np.array([poses.wxyz for poses in many])[:, ~fixed]
    assert np.all(wxyz[..., 1:3] == 0.0)
    assert np.all(np.array([poses.position for poses in many])[..., 2] == 0.0)
    angle = 2.0 * np.arctan2(wxyz[..., 3], wxyz[..., 0])
    for k in (1, 2, 3):  # on S³ restricted to turns about z the second would not vanish
        assert np.abs(np.exp(1j * k * angle).mean(axis=0)).max() < 5.0 / np.sqrt(4000)
