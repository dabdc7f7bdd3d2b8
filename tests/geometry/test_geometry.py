from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import tempose
from tempose.errors import ArgumentError, OptionError
from tempose.geometry import ALIGNMENTS, Similarity, align, se3, sphere
from tempose.geometry import quaternion as quat

SHAPES = [(), (5,), (2, 3)]
SAMPLES = {
    "uniform": lambda rng, s: quat.random_uniform(rng, s),
    "gaussian": lambda rng, s: quat.exp(rng.standard_normal((*s, 3))),
    "tiny": lambda rng, s: quat.exp(1e-7 * rng.standard_normal((*s, 3))),
    "near pi": lambda rng, s: quat.exp((np.pi - 1e-7) * unit(rng.standard_normal((*s, 3)))),
}


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rotation_group(shape: tuple[int, ...], kind: str, sign: float) -> None:
    rng = np.random.default_rng(1)
    q, r = sign * SAMPLES[kind](rng, shape), SAMPLES[kind](rng, shape)
    x = rng.standard_normal((*shape, 3))
    scipy_q = Rotation.from_quat(np.roll(q, -1, axis=-1).reshape(-1, 4))
    matrix = quat.to_matrix(q)
    np.testing.assert_allclose(matrix.reshape(-1, 3, 3), scipy_q.as_matrix(), atol=1e-14)
    np.testing.assert_allclose(quat.to_matrix(quat.multiply(q, r)), matrix @ quat.to_matrix(r), atol=1e-14)
    np.testing.assert_allclose(quat.rotate(q, x), np.einsum("...ij,...j->...i", matrix, x), atol=1e-14)
    np.testing.assert_allclose(quat.multiply(q, quat.conjugate(q)), np.broadcast_to(quat.IDENTITY, q.shape), atol=1e-15)
    np.testing.assert_allclose(quat.from_matrix(matrix), quat.canonical(q), atol=1e-14)
    np.testing.assert_allclose(quat.angle(q).reshape(-1), scipy_q.magnitude(), rtol=1e-13)
    omega = quat.log(q)
    np.testing.assert_allclose(np.linalg.norm(omega, axis=-1), quat.angle(q), rtol=1e-14)
    np.testing.assert_allclose(quat.to_matrix(quat.exp(omega)), matrix, atol=1e-14)
    assert quat.exp(omega).shape == q.shape


@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-160, 1e-12, 1e-7, 0.4999, 0.5001, 3.0, np.pi - 1e-9])
def test_exp_and_log_are_inverse_to_relative_accuracy(size: float) -> None:
    omega = size * unit(np.random.default_rng(2).standard_normal((20, 3)))
    np.testing.assert_allclose(quat.log(quat.exp(omega)), omega, rtol=1e-13, atol=1e-320)


def test_frame_is_the_papers_matrix() -> None:
    q1, q2, q3, q4 = q = quat.random_uniform(np.random.default_rng(3))
    expected = [[q1, -q2, -q3, q4], [q2, q1, q4, q3], [q3, -q4, q1, -q2], [q4, q3, -q2, -q1]]
    np.testing.assert_array_equal(quat.frame(q), expected)
    np.testing.assert_allclose(quat.frame(q).T @ quat.frame(q), np.eye(4), atol=1e-15)


def test_mean_ignores_signs() -> None:
    rng = np.random.default_rng(4)
    center = quat.random_uniform(rng)
    q = quat.multiply(quat.exp(0.1 * rng.standard_normal((200, 3))), center)
    flipped = q * rng.choice([-1.0, 1.0], (200, 1))
    np.testing.assert_allclose(quat.mean(flipped), quat.mean(q), atol=1e-14)
    assert quat.angle_between(quat.mean(q), center) < 0.03


@pytest.mark.parametrize("speed", [0.0, 1e-9, 0.3, 4.0])
def test_geodesic_flow_solves_its_equation(speed: float) -> None:
    rng = np.random.default_rng(5)
    x = quat.random_uniform(rng, 6)
    v = speed * unit(sphere.project(x, rng.standard_normal((6, 4))))
    y, w = sphere.geodesic_flow(x, v, 0.7)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), 1.0, atol=1e-15)
    np.testing.assert_allclose(np.sum(y * w, axis=1), 0.0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), speed, atol=1e-14)
    half = sphere.geodesic_flow(*sphere.geodesic_flow(x, v, 0.35), 0.35)
    np.testing.assert_allclose(half[0], y, atol=1e-14)
    e = 1e-6
    derivative = (sphere.geodesic_flow(x, v, 0.7 + e)[0] - sphere.geodesic_flow(x, v, 0.7 - e)[0]) / (2 * e)
    np.testing.assert_allclose(derivative, w, atol=1e-8)
    if speed * 0.7 < np.pi:
        np.testing.assert_allclose(sphere.log(x, y), 0.7 * v, atol=1e-14)
        np.testing.assert_allclose(sphere.exp(x, 0.7 * v), y, atol=1e-15)


@pytest.mark.parametrize("size", [1e-9, 0.01, 0.49999, 0.50001, 2.0, np.pi - 1e-9])
def test_se3_exp_log(size: float) -> None:
    rng = np.random.default_rng(6)
    twist = np.concatenate([size * unit(rng.standard_normal((30, 3))), rng.standard_normal((30, 3))], axis=1)
    np.testing.assert_allclose(se3.log(se3.exp(twist)), twist, rtol=1e-12, atol=1e-14)
    J = se3.left_jacobian(twist[:, :3])
    np.testing.assert_allclose(
        J @ se3.left_jacobian_inverse(twist[:, :3]), np.broadcast_to(np.eye(3), J.shape), atol=1e-13
    )


def test_se3_exp_is_the_matrix_exponential() -> None:
    from scipy.linalg import expm

    twist = np.random.default_rng(7).standard_normal(6)
    M = np.zeros((4, 4))
    M[:3, :3], M[:3, 3] = se3.hat(twist[:3]), twist[3:]
    q, t = se3.exp(twist)
    np.testing.assert_allclose(expm(M)[:3, :3], quat.to_matrix(q), atol=1e-14)
    np.testing.assert_allclose(expm(M)[:3, 3], t, atol=1e-14)


def test_se3_compose_and_inverse() -> None:
    rng = np.random.default_rng(8)
    a, b = ((quat.random_uniform(rng, 4), rng.standard_normal((4, 3))) for _ in range(2))
    x = rng.standard_normal((4, 3))
    both = se3.compose(a, b)
    by_steps = quat.rotate(a[0], quat.rotate(b[0], x) + b[1]) + a[1]
    np.testing.assert_allclose(quat.rotate(both[0], x) + both[1], by_steps, atol=1e-14)
    nothing = se3.compose(se3.inverse(a), a)
    np.testing.assert_allclose(nothing[1], 0.0, atol=1e-14)
    moved = se3.geodesic_flow(a, np.zeros(3), np.ones(3), 2.0)
    np.testing.assert_allclose(moved[1], a[1] + 2.0)


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in ALIGNMENTS if kind != "none"])
def test_alignment_recovers_a_similarity(kind: str, robust: bool) -> None:
    rng = np.random.default_rng(9)
    poses = quat.random_uniform(rng, 30), rng.standard_normal((30, 3))
    scale = 2.5 if kind.endswith("sim3") else 1.0
    truth = Similarity(quat.random_uniform(rng), rng.standard_normal(3), scale)
    found = align(poses, truth.apply(*poses), kind, robust=robust)
    assert quat.angle_between(found.wxyz, truth.wxyz) < 1e-12
    np.testing.assert_allclose(found.translation, truth.translation, atol=1e-12)
    assert found.scale == pytest.approx(scale, rel=1e-12)


def test_robust_alignment_of_rotations_without_positions() -> None:
    """All positions at the origin: the rotation is found all the same, one grossly wrong node or not."""
    rng = np.random.default_rng(5)
    wxyz, nowhere = quat.random_uniform(rng, 9), np.zeros((9, 3))
    turn = quat.random_uniform(rng)
    turned = quat.multiply(turn, wxyz)
    turned[4] = quat.multiply(quat.exp([1.0, 0.0, 0.0]), turned[4])
    found = align((wxyz, nowhere), (turned, nowhere), robust=True)
    assert quat.angle_between(found.wxyz, turn) < 1e-6
    np.testing.assert_array_equal(found.translation, 0.0)


def test_robust_alignment_resists_outliers_and_least_squares_does_not() -> None:
    rng = np.random.default_rng(10)
    wxyz, position = quat.random_uniform(rng, 40), rng.standard_normal((40, 3))
    bad_wxyz, bad_position = wxyz.copy(), position.copy()
    bad_wxyz[:8] = quat.random_uniform(rng, 8)
    bad_position[:8] += 50.0
    for kind in ("se3", "positions-se3"):
        robust = align((bad_wxyz, bad_position), (wxyz, position), kind, robust=True)
        plain = align((bad_wxyz, bad_position), (wxyz, position), kind)
        assert quat.angle(robust.wxyz) < 1e-6
        assert np.linalg.norm(robust.translation) < 1e-5
        assert np.linalg.norm(plain.translation) > 1.0


def test_alignment_minimises_what_it_says() -> None:
    rng = np.random.default_rng(11)
    a, b = ((quat.random_uniform(rng, 12), rng.standard_normal((12, 3))) for _ in range(2))
    weights = rng.uniform(0.1, 1.0, 12)

    def cost(s: Similarity, part: str) -> float:
        wxyz, position = s.apply(*a)
        if part == "rotation":
            return float(np.sum(weights * np.sum((quat.to_matrix(b[0]) - quat.to_matrix(wxyz)) ** 2, axis=(1, 2))))
        return float(np.sum(weights * np.sum((b[1] - position) ** 2, axis=1)))

    best = align(a, b, "sim3", weights=weights)
    for _ in range(50):
        turned = Similarity(
            quat.multiply(quat.exp(0.1 * rng.standard_normal(3)), best.wxyz), best.translation, best.scale
        )
        assert cost(turned, "rotation") >= cost(best, "rotation")
        shifted = Similarity(
            best.wxyz, best.translation + 0.1 * rng.standard_normal(3), best.scale + 0.1 * rng.standard_normal()
        )
        assert cost(shifted, "position") >= cost(best, "position")
    umeyama = align(a, b, "positions-sim3", weights=weights)
    for _ in range(50):
        other = Similarity(
            quat.multiply(quat.exp(0.1 * rng.standard_normal(3)), umeyama.wxyz),
            umeyama.translation + 0.1 * rng.standard_normal(3), umeyama.scale,
        )  # fmt: skip
        assert cost(other, "position") >= cost(umeyama, "position")


def test_alignment_errors_teach() -> None:
    with pytest.raises(OptionError, match="choose one of se3, sim3"):
        align((np.zeros((1, 4)), np.zeros((1, 3))), (np.zeros((1, 4)), np.zeros((1, 3))), "affine")
    with pytest.raises(ArgumentError, match="cannot align 1 poses to 2"):
        align((np.zeros((1, 4)), np.zeros((1, 3))), (np.zeros((2, 4)), np.zeros((2, 3))))


def test_poses_are_aligned_as_they_are() -> None:
    truth = tempose.simulate(5, seed=1).truth
    moved = tempose.Poses(truth.ids, truth.wxyz, 2.0 * truth.position + 1.0)
    found = tempose.align(moved, truth, "sim3")
    np.testing.assert_allclose([found.scale, *found.translation], [0.5, -0.5, -0.5, -0.5], atol=1e-12)
    pairs = tempose.align((moved.wxyz, moved.position), (truth.wxyz, truth.position), "sim3")
    np.testing.assert_array_equal(found.translation, pairs.translation)
