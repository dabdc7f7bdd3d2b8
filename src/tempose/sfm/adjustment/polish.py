r"""The last steps of a bundle adjustment with a Cauchy loss, by Newton's method with the points eliminated.

Close to the optimum Ceres creeps: it takes fifty steps and more from a change of the cost by a ten-thousandth to none. Here the
curvature of the loss is that along each residual and across it: with weights :math:`w = \rho' = 1 / (1 + r^2/c^2)` it is
:math:`w (1 - 2 w r^2/c^2)`, at least a tenth of w, and w. So a few steps do. They end where what is left to go is a few
hundredths of a standard deviation of the noise, of all cameras together. Points with matches far off may take long to decide,
and move nothing else.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose._typing import Array
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.sfm.adjustment.covariance import Inverse
from tempose.sfm.adjustment.linear import BLOCK, Linear, linearise
from tempose.sfm.adjustment.problem import Bundle
from tempose.sfm.adjustment.reduced import reduce

_LEAST_CURVATURE = 0.1  # of an observation, over its weight
_CLOSE, _CLOSE_WITH_POINTS = 1e-3, 0.1  # squared standard deviations, of all frames and cameras, and of everything
_MOST_STEPS = 30
_HALVINGS = 5


def polished(bundle: Bundle, loss_px: float, sigma_px: float) -> Bundle | None:
    """The bundle at the optimum; ``None`` if it was not reached.

    Parameters
    ----------
    bundle
        Near the optimum.
    loss_px
        Scale of the Cauchy loss, pixels.
    sigma_px
        Image noise per axis, by which it is told how near is near enough.
    """
    lin = linearise(bundle)
    for _ in range(_MOST_STEPS):
        try:
            nodes, points, left = _step(lin, loss_px)
        except NotApplicable:
            return None
        if left[0] < _CLOSE * sigma_px**2 and sum(left) < _CLOSE_WITH_POINTS * sigma_px**2:
            return lin.bundle
        cost = _cost(lin, loss_px)
        for halving in range(_HALVINGS):
            share = 0.5**halving
            found = linearise(_moved(lin, share * nodes, share * points))
            if np.array_equal(found.kept, lin.kept) and _cost(found, loss_px) < cost:
                lin = found
                break
        else:
            return None
    return None


def _step(lin: Linear, loss_px: float) -> tuple[Array, Array, tuple[float, float]]:
    """Steps of frames and cameras (6 n,) and of points (p, 3), and how far these are: of the former, and of points alone."""
    squared = np.sum(lin.residual**2, axis=1)
    weight = 1.0 / (1.0 + squared / loss_px**2)
    along = weight * np.maximum(1.0 - 2.0 * weight * squared / loss_px**2, _LEAST_CURVATURE)
    ray = lin.residual / np.sqrt(np.maximum(squared, 1e-300))[:, None]
    root = (np.sqrt(along) - np.sqrt(weight))[:, None, None] * ray[:, :, None] * ray[:, None, :]
    root[:, [0, 1], [0, 1]] += np.sqrt(weight)[:, None]
    whitened = replace(lin, by_frame=root @ lin.by_frame, by_point=root @ lin.by_point, by_camera=root @ lin.by_camera)
    reduced = reduce(whitened)
    sides, own = reduced.pull(lin.residual[:, :, None] * (weight / np.sqrt(along))[:, None, None])
    nodes = -Inverse.of(reduced).solve(sides)
    points = reduced.follow(nodes)[..., 0] - own[..., 0]
    force = np.einsum("k,ka,kab->kb", np.where(lin.kept, weight, 0.0), lin.residual, lin.by_point)
    alone = float(np.sum(force * own[lin.bundle.point_of, :, 0]))
    return nodes[:, 0], points, (-float(sides[:, 0] @ nodes[:, 0]), alone)


def _cost(lin: Linear, loss_px: float) -> float:
    return float(np.sum(np.log1p(np.sum(lin.residual**2, axis=1) / loss_px**2)))


def _moved(lin: Linear, nodes: Array, points: Array) -> Bundle:
    """The bundle with frames, cameras and points displaced."""
    bundle = lin.bundle
    step = nodes[: BLOCK * bundle.n_frames].reshape(-1, BLOCK)
    cameras = []
    for row, camera in enumerate(bundle.cameras):
        parameters = camera.parameters.copy()
        parameters[lin.nodes.free[row]] += nodes[lin.nodes.rows(row)]
        cameras.append(replace(camera, parameters=parameters))
    return replace(
        bundle,
        frame_wxyz=quat.multiply(quat.exp(step[:, :3]), bundle.frame_wxyz),
        frame_position=bundle.frame_position + step[:, 3:],
        cameras=tuple(cameras),
        position=bundle.position + points,
    )
