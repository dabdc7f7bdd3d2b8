"""Derivatives of U for every kind of edge against differences of the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.every_graph import KINDS, graph_of, random_poses
from helpers.hessian import dense
from helpers.kernels import nudged, numerical_gradient, packed
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.model.robust import RobustLikelihood
from tempose.numerics.potential import minibatch_gradient
from tempose.optimum.hessian import Curvature

ROBUST = {"ordinary": None, "robust": np.inf, "heavy-tailed": 4.0}


def posterior_of(graph: PoseGraph, robust: str, rng: np.random.Generator) -> Posterior:
    if robust == "ordinary":
        return Posterior(graph)
    m = graph.n_edges  # odds such that all edges are in doubt at random poses
    odds = rng.uniform(3.0, 30.0, m)
    return Posterior(
        graph,
        likelihood=RobustLikelihood(np.full(m, 0.5), odds, np.zeros(m), graph.freedom, ROBUST[robust]),  # type: ignore[arg-type]
    )


def numerical_hessian(posterior: Posterior, poses: Poses, h: float = 1e-5) -> np.ndarray:
    """Differences of the compiled gradient, in one chart: the symmetric part, as a turned chart adds only the rest."""
    n, axes = len(poses), posterior.graph.axes
    H = np.empty((n, 6, n, 6))
    for node, k in np.ndindex(n, 6):
        up, down = (posterior.gradient(nudged(poses, node, k, sign * h))[1] for sign in (1.0, -1.0))
        H[node, k] = (up - down) / (2.0 * h)
    H = H[:, axes][:, :, :, axes].reshape(n * len(axes), n * len(axes))
    return 0.5 * (H + H.T)


@pytest.mark.parametrize("robust", ROBUST)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_the_derivative_of_the_definition(kind: str, robust: str) -> None:
    rng = np.random.default_rng(1)
    graph = graph_of(kind, rng)
    poses, posterior = random_poses(graph, rng), posterior_of(graph, robust, rng)
    energy, g = posterior.gradient(poses)
    assert energy == pytest.approx(posterior.reference_potential(poses), rel=1e-13)
    expected = numerical_gradient(posterior, poses)
    assert np.abs(g - expected).max() < 1e-7 * np.abs(expected).max()
    np.testing.assert_allclose(posterior.energies_of(packed(poses)), posterior.energies(poses), rtol=1e-12)
    if graph.is_planar:  # nothing pulls out of the plane
        assert np.all(g[:, [0, 1, 5]] == 0.0)


@pytest.mark.parametrize("robust", ROBUST)
@pytest.mark.parametrize("kind", KINDS)
def test_hessian_is_the_derivative_of_the_gradient(kind: str, robust: str) -> None:
    rng = np.random.default_rng(2)
    graph = graph_of(kind, rng)
    poses, posterior = random_poses(graph, rng), posterior_of(graph, robust, rng)
    H, expected = dense(Curvature(posterior), poses), numerical_hessian(posterior, poses)
    assert np.abs(H - expected).max() < 1e-7 * np.abs(expected).max()


@pytest.mark.parametrize("kind", KINDS)
def test_gauss_newton_matrix_is_the_square_of_the_residuals(kind: str) -> None:
    """``2 JᵀΛJ + JᵀPJ`` with the derivatives J of ν and of r + Bs by differences."""
    rng = np.random.default_rng(3)
    graph = graph_of(kind, rng)
    poses = random_poses(graph, rng)
    n, axes, h = len(poses), graph.axes, 1e-6
    L, P = graph.concentration_matrices, graph.translation_precision_matrices

    def stacked(at: Poses) -> np.ndarray:
        r = residuals(graph, at)
        return np.stack([r.nu, np.nan_to_num(r.unexplained)])

    J = np.stack(
        [
            (stacked(nudged(poses, node, int(k), h)) - stacked(nudged(poses, node, int(k), -h))) / (2.0 * h)
            for node in range(n)
            for k in axes
        ]
    )
    expected = 2.0 * np.einsum("xma,mab,ymb->xy", J[:, 0], L, J[:, 0]) + np.einsum(
        "xma,mab,ymb->xy", J[:, 1], P, J[:, 1]
    )
    H = dense(Curvature(Posterior(graph)), poses, exact=False)
    assert np.abs(H - expected).max() < 1e-7 * np.abs(expected).max()


def with_residual(graph: PoseGraph, poses: Poses, angle: float, rng: np.random.Generator) -> PoseGraph:
    """The same graph, every measured rotation off by one angle."""
    q, _ = poses.node_from_world
    axis = np.tile([0.0, 0.0, 1.0], (graph.n_edges, 1)) if graph.is_planar else rng.standard_normal((graph.n_edges, 3))
    axis = axis / np.linalg.norm(axis, axis=1, keepdims=True) * rng.choice([-1.0, 1.0], (graph.n_edges, 1))
    relative = quat.multiply(q[graph.edge_j], quat.conjugate(q[graph.edge_i]))
    measured = quat.multiply(quat.exp(angle * axis), relative)
    if graph.is_planar:
        measured[:, 1:3] = 0.0
    return replace(graph, j_from_i_wxyz=measured)


@pytest.mark.parametrize("kind", ["coupling and arm", "combined", "planar combined"])
@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, np.pi - 1e-3, np.pi - 1e-9, np.pi])
def test_derivatives_at_extreme_residual_angles(kind: str, angle: float) -> None:
    rng = np.random.default_rng(4)
    graph = graph_of(kind, rng)
    poses = random_poses(graph, rng)
    posterior = Posterior(with_residual(graph, poses, angle, rng))
    energy, g = posterior.gradient(poses)
    assert energy == pytest.approx(posterior.reference_potential(poses), rel=1e-13)
    expected = numerical_gradient(posterior, poses)
    assert np.abs(g - expected).max() < 1e-7 * np.abs(expected).max()
    H, expected = dense(Curvature(posterior), poses), numerical_hessian(posterior, poses)
    assert np.abs(H - expected).max() < 1e-7 * np.abs(expected).max()


@pytest.mark.parametrize("kind", ["coupling and arm", "combined", "planar combined"])
def test_signs_of_quaternions_do_not_matter(kind: str) -> None:
    rng = np.random.default_rng(5)
    graph = graph_of(kind, rng)
    poses = random_poses(graph, rng)
    sign = rng.choice([-1.0, 1.0], (graph.n_edges, 1))
    flipped = replace(graph, j_from_i_wxyz=graph.j_from_i_wxyz * sign)
    turned = Poses(poses.ids, poses.wxyz * rng.choice([-1.0, 1.0], (len(poses), 1)), poses.position)
    one, other = Posterior(graph).gradient(poses), Posterior(flipped).gradient(turned)
    assert other[0] == pytest.approx(one[0], rel=1e-14)
    np.testing.assert_allclose(other[1], one[1], rtol=0.0, atol=1e-13 * np.abs(one[1]).max())
    H, K = dense(Curvature(Posterior(graph)), poses), dense(Curvature(Posterior(flipped)), turned)
    np.testing.assert_allclose(K, H, rtol=0.0, atol=1e-13 * np.abs(H).max())


@pytest.mark.parametrize("robust", ROBUST)
@pytest.mark.parametrize("kind", ["combined", "planar combined"])
def test_minibatches_of_every_edge_add_up(kind: str, robust: str) -> None:
    rng = np.random.default_rng(6)
    graph = graph_of(kind, rng)
    poses, posterior = random_poses(graph, rng), posterior_of(graph, robust, rng)
    table, out = posterior.full_edge_table, np.empty((len(poses), 8))
    target = np.repeat(np.arange(len(poses)), np.diff(table.start))
    batch = np.stack([target, np.arange(graph.n_edges)], axis=1)
    energy = minibatch_gradient(table, packed(poses), batch, 1.0, out)
    expected, g = posterior.gradient(poses)
    assert energy == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(out[:, :6], g, atol=1e-13 * np.abs(g).max())


@pytest.mark.parametrize("kind", ["isotropic", "isotropic arm", "combined", "planar combined"])
def test_weights_multiply_energies_and_nothing_else(kind: str) -> None:
    """Not the coupling, nor the arm."""
    rng = np.random.default_rng(7)
    graph = graph_of(kind, rng)
    poses, posterior = random_poses(graph, rng), posterior_of(graph, "robust", rng)
    weights = rng.uniform(0.0, 2.0, graph.n_edges)
    out = packed(poses)
    energy = posterior.gradient_into(packed(poses), posterior.workspace(), out, posterior.weighted_blocks(weights))
    assert energy == pytest.approx(weights @ posterior.energies(poses), rel=1e-13)
    shape = (-1,) + (1,) * (graph.concentration.ndim - 1)
    ordinary = replace(
        graph,
        concentration=graph.concentration * weights.reshape(shape),
        translation_precision=graph.translation_precision
        * weights.reshape((-1,) + (1,) * (graph.translation_precision.ndim - 1)),
    )
    np.testing.assert_allclose(out[:, :6], Posterior(ordinary).gradient(poses)[1], atol=1e-12 * np.abs(out).max())


def test_a_dropped_coupling_is_noticed() -> None:
    """Negative control: derivatives of the graph without B must fail the comparisons above."""
    rng = np.random.default_rng(8)
    graph = graph_of("coupling", rng)
    poses = random_poses(graph, rng)
    without = Posterior(replace(graph, coupling=None))
    expected = numerical_gradient(Posterior(graph), poses)
    assert np.abs(without.gradient(poses)[1] - expected).max() > 1e-2 * np.abs(expected).max()
