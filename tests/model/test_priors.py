"""Priors as edges to the world: the same potential, for every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.every_graph import about_z, graph_of
from helpers.every_graph import random_poses as poses_of
from helpers.kernels import positive_definite, random_graph, random_poses, random_priors
from tempose.errors import ArgumentError
from tempose.geometry import quaternion as quat
from tempose.model.bingham import Bingham
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors


def energy(priors: Priors, poses: Poses) -> float:
    """−log of the priors' density by their definition, 0 at best."""
    n = len(poses)
    q, t = poses.node_from_world
    total = 0.0
    bingham = priors.rotation_matrices(n)
    if len(bingham):
        total -= float(np.einsum("na,nab,nb->", q, bingham, q))
    mean, precision = priors.gaussian(n)
    if len(mean):
        d = (poses.position if priors.on_position else t) - mean
        total += 0.5 * float(np.einsum("na,nab,nb->", d, precision, d))
    return total


def of_all(graph: PoseGraph, poses: Poses) -> Poses:
    """The poses, and the world's."""
    if len(poses) == graph.n_nodes:
        return poses
    return Poses(graph.node_ids, np.vstack([poses.wxyz, quat.IDENTITY]), np.vstack([poses.position, np.zeros(3)]))


KINDS = ["bingham", "gaussian on t", "gaussian on position", "both"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("precision", ["isotropic", "axes", "full"])
def test_edges_have_the_potential_of_the_priors(kind: str, precision: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    graph, poses = random_graph(rng, 5, 14, precision, 0.2), random_poses(rng, 5)
    priors = random_priors(rng, 5, kind)
    added = priors.added_to(graph)
    assert added.node_ids == (*graph.node_ids, WORLD)
    assert added.n_edges == graph.n_edges + 5
    expected = Posterior(graph).reference_potential(poses) + energy(priors, poses)
    assert Posterior(added).reference_potential(of_all(added, poses)) == pytest.approx(expected, rel=1e-12)
    # what is at stake: a prior misplaced by a thousandth is noticed
    moved = Poses(poses.ids, quat.multiply(quat.exp([1e-3, 0, 0]), poses.wxyz), poses.position + 1e-3)
    other = Posterior(graph).reference_potential(poses) + energy(priors, moved)
    assert abs(other - expected) > 1e-7 * expected


@pytest.mark.parametrize("on_position", [False, True])
def test_what_is_isotropic_stays_so(on_position: bool) -> None:
    """The paper's own priors keep the graph certifiable."""
    rng = np.random.default_rng(5)
    graph, poses = random_graph(rng, 5, 14, "isotropic"), random_poses(rng, 5)
    priors = Priors(Bingham.from_mode(quat.random_uniform(rng), 3.0), rng.standard_normal(3), 0.7, on_position)
    added = priors.added_to(graph)
    assert added.is_isotropic
    expected = Posterior(graph).reference_potential(poses) + energy(priors, poses)
    assert Posterior(added).potential(of_all(added, poses)) == pytest.approx(expected, rel=1e-12)


def test_flat_priors_add_nothing() -> None:
    graph = random_graph(np.random.default_rng(6), 5, 14, "full")
    assert Priors().added_to(graph) is graph


@pytest.mark.parametrize("kind", ["planar", "planar coupling"])
@pytest.mark.parametrize("on_position", [False, True])
def test_in_the_plane_the_same_up_to_a_constant(kind: str, on_position: bool) -> None:
    rng = np.random.default_rng(7)
    graph = graph_of(kind, rng)
    n = graph.n_nodes
    rotation = tuple(Bingham.from_mode(quat.random_uniform(rng), c) for c in rng.uniform(0.0, 9.0, (n, 3)))
    priors = Priors(rotation, rng.standard_normal((n, 3)), positive_definite(rng, n, 1.0), on_position)
    added = priors.added_to(graph)
    assert added.is_planar
    off = []
    for _ in range(5):
        poses = poses_of(graph, rng)
        after = Posterior(added).reference_potential(of_all(added, poses))
        off.append(after - Posterior(graph).reference_potential(poses) - energy(priors, poses))
    np.testing.assert_allclose(off, off[0], atol=1e-10)


def test_the_graphs_own_world_initial_poses_and_arms_are_kept() -> None:
    rng = np.random.default_rng(8)
    graph = graph_of("world", rng)
    poses = poses_of(graph, rng)
    graph = replace(graph, initial=poses, arm=rng.standard_normal((graph.n_edges, 3)))
    n = graph.n_nodes - 1
    priors = random_priors(rng, n, "both")
    added = priors.added_to(graph)
    assert added.node_ids == graph.node_ids
    single = poses.select(graph.reported)
    expected = Posterior(graph).reference_potential(poses) + energy(priors, single)
    assert Posterior(added).reference_potential(poses) == pytest.approx(expected, rel=1e-12)
    alone = random_graph(rng, 5, 14, "isotropic")
    alone = replace(alone, initial=random_poses(rng, 5))
    assert random_priors(rng, 5, "both").added_to(alone).initial[WORLD].position == pytest.approx(0.0)


def test_a_robust_likelihood_never_doubts_them() -> None:
    rng = np.random.default_rng(9)
    graph = random_graph(rng, 5, 14, "isotropic")
    added = random_priors(rng, 5, "both").added_to(graph)
    assert np.all(np.isnan(added.inlier_prior[:14]))
    assert np.all(added.inlier_prior[14:] == 1.0)


def test_landmarks_have_priors_on_positions_only() -> None:
    rng = np.random.default_rng(10)
    graph = graph_of("landmarks", rng)
    with pytest.raises(ArgumentError, match="landmarks have no rotation"):
        Priors(translation_precision=1.0).added_to(graph)
    assert Priors(translation_precision=1.0, on_position=True).added_to(graph).n_edges == graph.n_edges + graph.n_nodes


def test_an_angle_prior_in_the_plane() -> None:
    """λ sin²((θ − θ₀)/2), whatever else the Bingham says."""
    mode = about_z(np.array(0.4))
    graph = graph_of("planar", np.random.default_rng(11))
    added = Priors(Bingham.from_mode(mode, [5.0, 6.0, 7.0])).added_to(graph)
    np.testing.assert_allclose(added.concentration[-graph.n_nodes :], 7.0)
    np.testing.assert_allclose(np.abs(quat.multiply(added.j_from_i_wxyz[-1], mode)[0]), 1.0)
