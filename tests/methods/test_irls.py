"""Rotation averaging: its kernels against their plain twins, its losses, and COLMAP's averaging beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helpers.graphs import random_graph
from tempose.analysis.accuracy import pose_errors
from tempose.errors import NotApplicable, OptionError
from tempose.geometry import quaternion as quat
from tempose.methods._kernels import rotation_errors, shrink
from tempose.methods.external import colmap_rotation_averaging
from tempose.methods.irls import robust_rotations
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.simulation import corrupt, simulate

RNG = np.random.default_rng


def rotation_only(graph: PoseGraph) -> PoseGraph:
    return replace(graph, j_from_i_t=np.full((graph.n_edges, 3), np.nan))


# ---------------------------------------------------------------------- kernels and their twins


@pytest.mark.parametrize("noise", [0.0, 1e-9, 3.0])
def test_rotation_errors_are_logarithms(noise: float) -> None:
    """Also for exact measurements, tiny errors, and quaternions of either sign."""
    g = random_graph(RNG(0), 9, 60)
    wxyz = quat.random_uniform(RNG(1), 9)
    exact = quat.multiply(quat.conjugate(wxyz[g.edge_j]), wxyz[g.edge_i])
    measured = quat.multiply(exact, quat.exp(noise * RNG(2).standard_normal((60, 3))))
    measured[::2] *= -1.0
    out = np.empty((60, 3))
    rotation_errors(g.edge_i, g.edge_j, measured, wxyz, out)
    left = quat.multiply(quat.multiply(wxyz[g.edge_j], measured), quat.conjugate(wxyz[g.edge_i]))
    np.testing.assert_allclose(out, quat.log(left), rtol=1e-12, atol=1e-15)
    if noise == 3.0:
        assert np.linalg.norm(out, axis=1).max() > 3.0


def test_shrink_is_a_step_of_the_multiplier_method() -> None:
    g = random_graph(RNG(0), 9, 20)
    x, b, z, dual = (RNG(k).standard_normal((n, 3)) for k, n in enumerate((9, 20, 20, 20)))
    limit = RNG(5).random(20)
    gap = x[g.edge_i] - x[g.edge_j] - b
    new_z = np.sign(gap + dual) * np.maximum(np.abs(gap + dual) - limit[:, None], 0.0)
    new_dual = dual + gap - new_z
    far = max(np.abs(gap - new_z).max(), np.abs(new_z - z).max())
    pull = np.empty_like(b)
    assert shrink(g.edge_i, g.edge_j, x, b, limit, z, dual, pull) == pytest.approx(far, rel=1e-12)
    for found, expected in ((z, new_z), (dual, new_dual), (pull, b + new_z - new_dual)):
        np.testing.assert_allclose(found, expected, atol=1e-13)


# ---------------------------------------------------------------------- other people's software


@pytest.mark.parametrize("outliers", [0.0, 0.15])
def test_irls_against_colmap(outliers: float) -> None:
    """Same loss, same scale, both to the end: the same rotations; with another scale other ones."""
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: pip install pycolmap")
    made = simulate(25, completeness=0.5, sigma_rot_deg=3.0, seed=3)
    graph = rotation_only(corrupt(made.graph, outliers, seed=1).graph)
    theirs = colmap_rotation_averaging(
        graph, irls_loss_parameter_sigma=5.0, irls_step_convergence_threshold=1e-10, max_num_irls_iterations=500
    )
    assert theirs.status == "finished"

    def apart(scale_deg: float) -> float:
        wxyz, converged, _ = robust_rotations(graph, scale_deg=scale_deg, iterations=500)
        assert converged
        ours = Poses(graph.node_ids, wxyz, np.zeros((len(wxyz), 3)))
        return pose_errors(ours, theirs.poses).max_rotation_deg

    assert apart(5.0) < 1e-5
    assert apart(10.0) > 1e-2
    # their default stops early: this is why it is set above
    early = pose_errors(colmap_rotation_averaging(graph).poses, theirs.poses).max_rotation_deg
    assert early > 1e-4


def test_colmap_refuses_pairs_measured_twice() -> None:
    pytest.importorskip("pycolmap", reason="pycolmap is not installed: pip install pycolmap")
    graph = rotation_only(random_graph(RNG(0), 3, 20))
    with pytest.raises(NotApplicable, match="one edge per pair"):
        colmap_rotation_averaging(graph)


@pytest.mark.parametrize("seed", [1, 2])
def test_half_norm_is_stationary(seed: int) -> None:
    """Small turns of any node do not lower Σ (ε² + |e|²)^¼, the loss whose weights are used."""
    graph = rotation_only(simulate(12, completeness=0.7, sigma_rot_deg=5.0, seed=seed).graph)
    wxyz, converged, _ = robust_rotations(graph, "half-norm", iterations=2000, tolerance=1e-9)
    assert converged
    start, _, _ = robust_rotations(graph, "half-norm", iterations=0)
    errors = np.empty((graph.n_edges, 3))

    def loss(q: np.ndarray) -> float:
        rotation_errors(graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, q, errors)
        return float(np.sum((epsilon**2 + np.sum(errors**2, axis=1)) ** 0.25))

    rotation_errors(graph.edge_i, graph.edge_j, graph.j_from_i_wxyz, start, errors)
    epsilon = 0.01 * float(np.median(np.linalg.norm(errors, axis=1)))
    here = loss(wxyz)
    assert here < loss(start)
    rng = RNG(seed)
    for size in (1e-2, 1e-3):
        for _ in range(30):
            assert loss(quat.multiply(quat.exp(size * rng.standard_normal((12, 3))), wxyz)) > here


def test_unknown_loss() -> None:
    with pytest.raises(OptionError, match="unknown loss 'huber': choose one of geman-mcclure, half-norm"):
        robust_rotations(simulate(5).graph, "huber")
