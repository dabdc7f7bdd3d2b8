"""Bundle adjustment from our poses, and its bookkeeping."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import least_squares

from helpers.ring import ring, seen
from helpers.sfm_scene import make
from tempose.analysis.accuracy import pose_errors
from tempose.errors import GraphError, OptionError
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.sfm.bundle import (
    AdjustOptions,
    AdjustStatus,
    adjust,
    adjust_in_rounds,
    adjust_until_stable,
    bare_scene,
    reprojection_cost,
)
from tempose.sfm.pairs import guided_pairs
from tempose.sfm.points import PointStatus, StructureOptions, projections, reconstruct
from tempose.sfm.scene import Scene, SceneGauge

pytest.importorskip("pycolmap", reason="needs the extra sfm")

K = np.array([[800.0, 0.0, 320.0], [0.0, 790.0, 240.0], [0.0, 0.0, 1.0]])


def disturbed(sigma: float, seed: int = 1) -> tuple[Scene, Poses, np.ndarray]:
    """A scene built from wrong poses, the true poses and the true points."""
    rng = np.random.default_rng(seed)
    truth, points = ring(rng, points=25)
    truth = Poses(tuple(f"{k}.jpg" for k in truth.ids), truth.wxyz, truth.position)
    obs = seen(truth, points, 0.3, rng)
    n = len(truth)
    turned = quat.multiply(quat.exp(0.1 * sigma * rng.normal(size=(n, 3))), truth.wxyz)
    start = Poses(truth.ids, turned, truth.position + sigma * rng.normal(size=(n, 3)))
    structure = reconstruct(start, K, obs, options=StructureOptions(max_residual_px=200.0))
    scene = Scene(
        start,
        np.tile(K, (n, 1, 1)),
        np.tile([640, 480], (n, 1)),
        np.full((n, 6, 6), np.nan),
        obs,
        structure,
        None,
        SceneGauge(),
    )
    return scene, truth, points


def test_adjustment_finds_the_cameras_again() -> None:
    scene, truth, _ = disturbed(0.05)
    found = adjust(scene)
    before = pose_errors(scene.poses, truth, "sim3").mean_translation
    after = pose_errors(found.poses, truth, "sim3").mean_translation
    assert found.status is AdjustStatus.CONVERGED and found.n_iterations > 1
    assert found.initial_cost == pytest.approx(reprojection_cost(scene), rel=1e-6)
    assert found.final_cost < 0.05 * found.initial_cost and after < 0.2 * before


def test_names_with_spaces_are_no_obstacle() -> None:
    """COLMAP's text models end a name at the first space."""
    scene, _, _ = disturbed(0.02)
    spaced = Poses(tuple(f"photo {k}.jpg" for k in range(len(scene.poses))), scene.poses.wxyz, scene.poses.position)
    found, plain = adjust(dataclasses.replace(scene, poses=spaced)), adjust(scene)
    assert found.poses.ids == spaced.ids and np.array_equal(found.poses.position, plain.poses.position)


def test_points_alone_are_already_at_their_optimum() -> None:
    scene, _, _ = disturbed(0.02)
    found = adjust(scene, AdjustOptions(free="points"))
    assert found.final_cost == pytest.approx(found.initial_cost, rel=1e-8)
    assert np.abs(found.position - scene.structure.position).max() < 1e-5
    assert np.allclose(found.poses.position, scene.poses.position, atol=1e-12)


def test_poses_alone_equal_scipys_resection() -> None:
    scene, truth, points = disturbed(0.02)
    exact_points = dataclasses.replace(scene.structure, position=points)
    found = adjust(dataclasses.replace(scene, structure=exact_points), AdjustOptions(free="poses"))
    obs = scene.observations
    mine = obs.camera_of == 2

    def residual(x: np.ndarray) -> np.ndarray:
        q = quat.multiply(quat.exp(x[:3]), truth.wxyz[2])
        h = np.einsum(
            "ab,kb->ka", projections(K, q[None], x[None, 3:])[0], np.c_[points[obs.point_of[mine]], np.ones(25)]
        )
        return (h[:, :2] / h[:, 2:] - obs.pixel[mine]).ravel()

    exact = least_squares(residual, np.r_[np.zeros(3), truth.position[2]], xtol=1e-15, ftol=1e-15, gtol=1e-15)
    assert np.allclose(found.poses.position[2], exact.x[3:], atol=1e-5)


def test_a_robust_loss_costs_less_than_squares() -> None:
    scene, _, _ = disturbed(0.02)
    assert adjust(scene, AdjustOptions(loss_px=0.5)).initial_cost < reprojection_cost(scene)


def test_rounds_from_a_bad_start_end_where_a_good_start_does() -> None:
    made = make(5, n_views=6, n_points=300, noise_px=0.3)
    scene = bare_scene(made.views, guided_pairs(made.views, made.poses), made.poses)
    rng = np.random.default_rng(0)
    turn = quat.exp(np.radians(1.0) * rng.standard_normal((6, 3)))
    bad = Poses(
        made.poses.ids, quat.multiply(turn, made.poses.wxyz), made.poses.position + 0.1 * rng.standard_normal((6, 3))
    )
    slow, quick = list(adjust_until_stable(scene, bad)), list(adjust_until_stable(scene, made.poses))
    assert slow[-1].stable and quick[-1].stable and np.array_equal(slow[-1].used, quick[-1].used)
    assert slow[0].adjustment.initial_cost > 100.0 * quick[0].adjustment.initial_cost
    assert slow[-1].adjustment.final_cost == pytest.approx(quick[-1].adjustment.final_cost, rel=1e-4)
    assert pose_errors(slow[-1].adjustment.poses, quick[-1].adjustment.poses, "sim3").mean_translation < 1e-3


def test_refining_from_disturbed_poses_finds_the_truth() -> None:
    made = make(6, n_views=6, n_points=300, noise_px=0.1, wrong=0.2)
    rng = np.random.default_rng(0)
    turn = quat.exp(np.radians(0.05) * rng.standard_normal((6, 3)))
    found = adjust_in_rounds(
        made.views, Poses(made.poses.ids, quat.multiply(turn, made.poses.wxyz), made.poses.position)
    )
    off = [pose_errors(one.poses, made.poses, "sim3").mean_rotation_deg for one in found]
    assert len(found) == 3 and off[-1] < 0.01


def test_refusals() -> None:
    scene, _, _ = disturbed(0.02)
    nothing = dataclasses.replace(scene.structure, status=np.full_like(scene.structure.status, PointStatus.FEW_VIEWS))
    with pytest.raises(GraphError, match="no point"):
        adjust(dataclasses.replace(scene, structure=nothing))
    with pytest.raises(OptionError, match="all, points, poses"):
        AdjustOptions(free="cameras")
    with pytest.raises(OptionError, match="positive"):
        AdjustOptions(loss_px=0.0)
