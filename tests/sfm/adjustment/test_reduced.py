"""Compiled elimination of points against plain dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest

from helpers.bundles import make
from tempose.sfm.adjustment.linear import Linear, linearise
from tempose.sfm.adjustment.problem import bundle_of
from tempose.sfm.adjustment.reduced import Reduced, reduce

pytest.importorskip("pycolmap", reason="needs the extra sfm")


def some(model: str = "SIMPLE_RADIAL", cameras: int = 1, groups: tuple[str, ...] = ("focal", "distortion")) -> Linear:
    """Derivatives of a small bundle: some observations are behind the camera, one point is seen by nobody."""
    bundle = bundle_of(make(5, model, frames=5, points=30, cameras=cameras).adjusted, groups)
    position = bundle.position.copy()
    position[3] = 1.2 * bundle.poses.position[0]  # behind the first camera: all look inwards
    unseen = bundle.point_of != 7
    return linearise(
        replace(
            bundle,
            position=position,
            point_of=bundle.point_of[unseen],
            image_of=bundle.image_of[unseen],
            pixel=bundle.pixel[unseen],
        )
    )


def by_nodes(lin: Linear) -> np.ndarray:
    """Derivatives (k, 2, 6 n) by all unknowns of frames and cameras."""
    bundle, nodes = lin.bundle, lin.nodes
    out = np.zeros((len(bundle.point_of), 2, 6 * nodes.count))
    for k, i in enumerate(bundle.image_of):
        f, c = bundle.frame_of[i], bundle.camera_of[i]
        out[k, :, 6 * f : 6 * f + 6] = lin.by_frame[k]
        out[k, :, nodes.rows(c)] = lin.by_camera[k, :, : len(nodes.free[c])].T
    return out


def plain(lin: Linear, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``U − W V⁻¹ Wᵀ`` (6 n, 6 n), ``V⁻¹`` (p, 3, 3) and ``V⁻¹ Wᵀ`` (p, 3, 6 n)."""
    J, w = by_nodes(lin), np.where(lin.kept, weight, 0.0)
    S = np.einsum("k,kra,krb->ab", w, J, J)
    p = len(lin.bundle.position)
    inverse, K = np.zeros((p, 3, 3)), np.zeros((p, 3, J.shape[2]))
    for row in range(p):
        here = lin.bundle.point_of == row
        V = np.einsum("k,kra,krb->ab", w[here], lin.by_point[here], lin.by_point[here])
        W = np.einsum("k,kra,krb->ab", w[here], J[here], lin.by_point[here])
        inverse[row] = np.linalg.pinv(V, rcond=1e-10, hermitian=True)
        K[row] = inverse[row] @ W.T
        S -= W @ K[row]
    return S, inverse, K


def dense(reduced: Reduced) -> np.ndarray:
    n = len(reduced.diagonal)
    S = np.zeros((n, 6, n, 6))
    S[np.arange(n), :, np.arange(n)] = reduced.diagonal
    for (i, j), block in zip(reduced.pairs, reduced.off_diagonal, strict=True):
        S[i, :, j], S[j, :, i] = block, block.T
    return S.reshape(6 * n, 6 * n)


CASES = [
    ("SIMPLE_RADIAL", 1, ("focal", "distortion")),
    ("FULL_OPENCV", 2, ("focal", "centre", "distortion")),
    ("PINHOLE", 2, ()),
]
"""One camera with one node; two on a rig, with two nodes each; calibration held, so that cameras have no node."""


@pytest.mark.parametrize(("model", "cameras", "groups"), CASES)
def test_the_matrix_is_the_plain_one(model: str, cameras: int, groups: tuple[str, ...]) -> None:
    lin = some(model, cameras, groups)
    weight = np.random.default_rng(0).uniform(0.1, 1.0, len(lin.kept))
    assert 0 < np.sum(~lin.kept) < len(lin.kept)
    reduced = reduce(lin, weight)
    S, inverse, K = plain(lin, weight)
    used = np.setdiff1d(np.arange(len(S)), lin.nodes.unused)
    J = by_nodes(lin)[lin.kept][:, :, used]
    scale = np.linalg.norm(J.reshape(-1, len(used)), axis=0)  # of what is subtracted from
    off = (dense(reduced) - S)[np.ix_(used, used)] / scale[:, None] / scale
    assert np.abs(off).max() < 1e-10
    np.testing.assert_allclose(reduced.point_inverse, inverse, rtol=1e-7, atol=1e-12 * np.abs(inverse).max())
    assert reduced.unknown[7] and not reduced.unknown[:3].any()
    x = np.random.default_rng(1).standard_normal((len(S), 4))
    np.testing.assert_allclose(reduced.follow(x), -K @ x, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("model", "cameras", "groups"), CASES)
def test_right_hand_sides_are_the_plain_ones(model: str, cameras: int, groups: tuple[str, ...]) -> None:
    lin = some(model, cameras, groups)
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.1, 1.0, len(lin.kept))
    reduced, (_, inverse, K), J = reduce(lin, weight), plain(lin, weight), by_nodes(lin)
    moved = rng.standard_normal((len(lin.kept), 2, 3))
    w, p = np.where(lin.kept, weight, 0.0), len(lin.bundle.position)
    force = np.einsum("k,kra,krm->kam", w, lin.by_point, moved)
    by_point = np.stack([force[lin.bundle.point_of == row].sum(axis=0) for row in range(p)])
    expected = np.einsum("k,kra,krm->am", w, J, moved) - np.einsum("pan,pam->nm", K, by_point)
    sides, own = reduced.pull(moved)
    np.testing.assert_allclose(sides, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(own, inverse @ by_point, rtol=1e-6, atol=1e-12)
    group = lin.bundle.point_of % 4
    apart = reduced.gradient(moved[..., 0], group, 4)
    assert np.allclose(apart.sum(axis=1), expected[:, 0], rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    alone = np.where((group == 2)[:, None, None], moved[..., :1], 0.0)
    assert np.allclose(apart[:, 2], reduced.pull(alone)[0][:, 0], rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    assert not np.allclose(apart[:, 1], apart[:, 2])
    decrease = np.einsum("pa,pab,pb->", by_point[..., 0], inverse, by_point[..., 0])
    assert reduced.own_decrease(moved[..., 0]) == pytest.approx(decrease, rel=1e-8)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    lin, before = some(), numba.get_num_threads()
    results = []
    for threads in (1, before):
        numba.set_num_threads(threads)
        reduced = reduce(lin)
        results.append((reduced.diagonal, reduced.off_diagonal, reduced.link, reduced.pull(lin.by_point)[0]))
    numba.set_num_threads(before)
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))
