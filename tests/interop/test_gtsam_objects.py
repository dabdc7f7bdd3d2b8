"""GTSAM's factor graphs, values, marginals and priors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tempose
from helpers.every_graph import graph_of, random_poses
from tempose.errors import GraphError
from tempose.geometry import quaternion as quat
from tempose.interop import graph_from_gtsam, to_gtsam, to_gtsam_prior
from tempose.model.posterior import Posterior

gtsam = pytest.importorskip("gtsam")


def exact(planar: bool) -> tempose.PoseGraph:
    """A graph without noise in its measurements, one node held: all Hessians agree."""
    rng = np.random.default_rng(4)
    graph = tempose.GraphBuilder(planar=planar)
    turns = [rng.normal(0.0, 0.6, 3) * ([0, 0, 1] if planar else [1, 1, 1]) for _ in range(5)]
    points = [rng.normal(0.0, 2.0, 3) * ([1, 1, 0] if planar else [1, 1, 1]) for _ in range(5)]
    poses = [tempose.Pose(quat.exp(w), p) for w, p in zip(turns, points, strict=True)]
    size = 3 if planar else 6
    for a, b in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)):
        root = rng.normal(0.0, 10.0, (size, size))
        information = root @ root.T + 40 * np.eye(size)
        z = poses[a].inverse() @ poses[b]
        assert isinstance(z, tempose.Pose)
        graph.add_edge(f"x{a}", f"x{b}", transform=z, information=information)
    for k, pose in enumerate(poses):
        graph.add_node(f"x{k}", pose, fixed=k == 0)
    return graph.build()


@pytest.mark.parametrize("planar", [False, True])
def test_marginals_are_those_of_gtsam(planar: bool) -> None:
    graph = exact(planar)
    solution = tempose.solve(graph, draws=0)
    theirs = to_gtsam(graph)
    marginals = gtsam.Marginals(theirs.factors, theirs.values)
    table = solution.covariances("gtsam")
    assert table.axes == (("x", "y", "theta") if planar else ("rx", "ry", "rz", "x", "y", "z"))
    for (name,), ours in zip(table.names, table.covariance, strict=True):
        np.testing.assert_allclose(ours, marginals.marginalCovariance(theirs.keys[name]), rtol=1e-6, atol=1e-10)


def test_in_tempose_order_they_are_others() -> None:
    """Negative control."""
    graph = exact(False)
    theirs = to_gtsam(graph)
    marginal = gtsam.Marginals(theirs.factors, theirs.values).marginalCovariance(theirs.keys["x3"])
    ours = tempose.solve(graph, draws=0).covariance("x3")
    assert np.max(np.abs(ours - marginal)) > 0.01 * np.max(np.abs(marginal))


@pytest.mark.parametrize("kind", ["isotropic", "full", "coupling", "planar", "planar full", "planar coupling"])
def test_there_and_back(kind: str) -> None:
    rng = np.random.default_rng(3)
    graph = graph_of(kind, rng)
    theirs = to_gtsam(graph, random_poses(graph, rng))
    again = graph_from_gtsam(theirs.factors, theirs.values)
    assert again.initial is not None and again.n_edges == graph.n_edges
    for _ in range(3):
        poses = random_poses(graph, rng)
        energies = [Posterior(g).energies(poses.select(g.node_ids)) for g in (graph, again)]
        np.testing.assert_allclose(energies[0], energies[1], rtol=1e-8, atol=1e-10)


def test_errors_are_those_of_gtsam() -> None:
    """Twice the potential is GTSAM's chi-square, to second order in small errors."""
    graph = exact(False)
    rng = np.random.default_rng(5)
    base = graph.initial
    assert base is not None
    turn = quat.multiply(base.wxyz, quat.exp(rng.normal(0.0, 1e-4, (5, 3))))
    moved = tempose.Poses(base.ids, turn, base.position + rng.normal(0.0, 1e-4, (5, 3)))
    theirs = to_gtsam(graph, moved)
    errors = [theirs.factors.at(k).error(theirs.values) for k in range(graph.n_edges)]
    np.testing.assert_allclose(Posterior(graph).energies(moved), errors, rtol=2e-3)


@pytest.mark.parametrize("planar", [False, True])
def test_g2o_files_of_gtsam_are_read_and_ours_by_gtsam(tmp_path: Path, planar: bool) -> None:
    """Informations and measurements of all edges, both ways; GTSAM's rotation blocks are about rotation vectors, as ours."""
    from tempose.io import read_graph, write_graph

    graph = exact(planar)
    numbered = graph_from_gtsam(*_by_number(graph, planar))
    theirs = to_gtsam(numbered)
    gtsam.writeG2o(theirs.factors, theirs.values, str(tmp_path / "theirs.g2o"))
    found = read_graph(tmp_path / "theirs.g2o")
    np.testing.assert_allclose(found.j_from_i_t, numbered.j_from_i_t, atol=1e-4)  # six digits in the file
    np.testing.assert_allclose(found.information, numbered.information, rtol=1e-3, atol=0.02)
    write_graph(tmp_path / "ours.g2o", numbered)
    factors, values = gtsam.readG2o(str(tmp_path / "ours.g2o"), not planar)
    again = graph_from_gtsam(factors, values)
    np.testing.assert_allclose(again.information, numbered.information, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.j_from_i_t, numbered.j_from_i_t, atol=1e-12)


def _by_number(graph: tempose.PoseGraph, planar: bool):
    """The factors of a graph under plain numbers, without those that hold nodes."""
    theirs = to_gtsam(graph)
    factors, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    number = {key: k for k, key in enumerate(theirs.keys.values())}
    for k in range(graph.n_edges):
        factors.add(theirs.factors.at(k).rekey([number[key] for key in theirs.factors.at(k).keys()]))  # noqa: SIM118
    for key, k in number.items():
        values.insert(k, theirs.values.atPose2(key) if planar else theirs.values.atPose3(key))
    return factors, values


def test_priors_positions_and_held_nodes() -> None:
    factors = gtsam.NonlinearFactorGraph()
    noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([0.1, 0.1, 0.1, 0.2, 0.2, 0.2]))
    huber = gtsam.noiseModel.Robust.Create(gtsam.noiseModel.mEstimator.Huber.Create(1.345), noise)
    step = gtsam.Pose3(gtsam.Rot3.Ypr(0.3, 0.2, 0.1), np.array([1.0, 2.0, 3.0]))
    factors.add(gtsam.BetweenFactorPose3(0, 1, step, noise))
    factors.add(gtsam.BetweenFactorPose3(1, gtsam.symbol("y", 2), step, huber))
    factors.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), gtsam.noiseModel.Constrained.All(6)))
    factors.add(gtsam.PriorFactorPose3(1, step, noise))
    factors.add(gtsam.GPSFactor(1, np.array([1.0, 2.0, 3.0]), gtsam.noiseModel.Isotropic.Sigma(3, 0.5)))
    graph = graph_from_gtsam(factors)
    assert graph.reported == (0, 1, "y2") and graph.fixed == (0,)
    assert graph.n_edges == 4 and len(graph.notices) == 1 and "robust noise" in graph.notices[0]
    again = graph_from_gtsam(to_gtsam(graph).factors)
    np.testing.assert_allclose(again.information, graph.information, rtol=1e-9)
    factors.add(gtsam.BetweenFactorPose2(5, 6, gtsam.Pose2(), gtsam.noiseModel.Isotropic.Sigma(3, 1.0)))
    with pytest.raises(GraphError, match="planar and spatial"):
        graph_from_gtsam(factors)


def test_what_is_not_in_the_model_is_refused() -> None:
    factors = gtsam.NonlinearFactorGraph()
    factors.add(gtsam.BetweenFactorRot3(0, 1, gtsam.Rot3(), gtsam.noiseModel.Isotropic.Sigma(3, 1.0)))
    with pytest.raises(GraphError, match="BetweenFactorRot3 are not in the model"):
        graph_from_gtsam(factors)
    for kind, why in (("landmarks", "landmark"), ("arm", "lever arm"), ("singular", "whole pose")):
        with pytest.raises(GraphError, match=why):
            to_gtsam(graph_of(kind, np.random.default_rng(1)))
    lost = tempose.GraphBuilder().add_edge("left wheel", 2, wxyz=[1, 0, 0, 0], sigma_rot_deg=1.0)
    with pytest.raises(GraphError, match="cannot be a key"):
        to_gtsam(lost.build())


def test_a_prior_of_a_solved_node_keeps_it_there() -> None:
    """A graph that is tied by the prior alone has the prior's covariance."""
    graph = exact(False)
    solution = tempose.solve(graph, draws=0)
    factors = gtsam.NonlinearFactorGraph()
    factors.add(to_gtsam_prior(solution, "x3"))
    values = gtsam.Values()
    key = gtsam.symbol("x", 3)
    values.insert(key, gtsam.Pose3())
    best = gtsam.LevenbergMarquardtOptimizer(factors, values).optimize()
    np.testing.assert_allclose(best.atPose3(key).matrix(), solution["x3"].pose.matrix, atol=1e-6)
    covariance = gtsam.Marginals(factors, best).marginalCovariance(key)
    np.testing.assert_allclose(
        covariance, solution.covariances("gtsam", nodes=["x3"]).covariance[0], rtol=1e-6, atol=1e-12
    )
    with pytest.raises(GraphError, match="singular"):
        to_gtsam_prior(solution, "x0")
