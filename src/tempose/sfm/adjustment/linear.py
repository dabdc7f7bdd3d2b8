r"""Residuals and their derivatives by all unknowns, at the values of a bundle.

A point X is seen in camera coordinates :math:`y = R_c (X - C)` and in the image at :math:`\pi(y; \kappa)`; the residual is
:math:`r = \pi(y; \kappa) - x`. The frame that carries the camera turns by ω and moves by d, both in the world
(:math:`R' = e^{[\omega]} R`, :math:`C_f' = C_f + d`). With :math:`A = \partial\pi/\partial y`, and because the camera moves with
its frame as one body,

.. math::

    \frac{\partial r}{\partial X} = A R_c, \quad \frac{\partial r}{\partial d} = -A R_c, \quad
    \frac{\partial r}{\partial\omega} = A R_c [X - C_f]_\times .
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.parallel import on_threads
from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.sfm.adjustment._derivatives import camera_coordinates, chain
from tempose.sfm.adjustment.lenses import derivatives, project
from tempose.sfm.adjustment.problem import Bundle

BLOCK = 6
"""Unknowns of a node: a frame's rotation and place, or up to six parameters of a camera."""
_AT_ONCE = 16384  # observations: what is made of them stays in a processor's cache


@dataclass(frozen=True, eq=False)
class Nodes:
    """Where unknowns stand: frames first, then the cameras' free parameters, six to a node, the last one filled up.

    Attributes
    ----------
    n_frames
        Nodes of frames.
    first
        First node of each camera (c + 1,), the last entry is the number of all nodes.
    free
        Which parameters of each camera are unknowns: their places, in COLMAP's order.
    """

    n_frames: int
    first: Index
    free: tuple[Index, ...]

    @classmethod
    def of(cls, bundle: Bundle) -> Nodes:
        """Nodes of a bundle's frames and cameras."""
        free = tuple(np.flatnonzero(camera.free) for camera in bundle.cameras)
        count = [-(-len(one) // BLOCK) for one in free]
        return cls(bundle.n_frames, bundle.n_frames + np.cumsum([0, *count]), free)

    @property
    def count(self) -> int:
        """All nodes."""
        return int(self.first[-1])

    def rows(self, camera: int) -> Index:
        """Rows of a camera's free parameters in the vector of all unknowns of frames and cameras."""
        return np.asarray(BLOCK * self.first[camera] + np.arange(len(self.free[camera])))

    @property
    def unused(self) -> Index:
        """Rows that fill up nodes and mean nothing."""
        mask = np.ones(BLOCK * self.count, dtype=bool)
        mask[: BLOCK * self.n_frames] = False
        for camera in range(len(self.free)):
            mask[self.rows(camera)] = False
        return np.flatnonzero(mask)


@dataclass(frozen=True, eq=False)
class Linear:
    """Residuals and derivatives of all observations that have an image.

    Attributes
    ----------
    bundle, nodes
        What was differentiated, and where its unknowns stand.
    kept
        Observations (k,) of the bundle that take part: those in front of their camera.
    residual
        (k, 2) pixels, projection minus observation; zero where it does not take part.
    by_frame, by_point
        (k, 2, 6) and (k, 2, 3).
    by_camera
        (k, 2, 6 q), q nodes for the camera that has most parameters; columns beyond the camera's own are zero.
    """

    bundle: Bundle
    nodes: Nodes
    kept: Mask
    residual: Array
    by_frame: Array
    by_point: Array
    by_camera: Array


def linearise(bundle: Bundle) -> Linear:
    """Residuals and derivatives."""
    nodes = Nodes.of(bundle)
    k = len(bundle.point_of)
    widest = int(np.max(np.diff(nodes.first), initial=0))
    residual, by_point, by_frame = np.empty((k, 2)), np.empty((k, 2, 3)), np.empty((k, 2, BLOCK))
    by_camera, kept, y = np.zeros((k, 2, BLOCK * widest)), np.empty(k, dtype=bool), np.empty((k, 3))
    poses = bundle.poses
    camera_from_world = np.ascontiguousarray(np.swapaxes(quat.to_matrix(poses.wxyz), 1, 2))
    seen = bundle.image_of, bundle.point_of, bundle.position
    camera_coordinates(camera_from_world, poses.position, *seen, y)

    def differentiate(part: tuple[int, Any]) -> None:
        row, here = part
        camera, free = bundle.cameras[row], nodes.free[row]
        residual[here] = project(camera.lens, camera.parameters, y[here]) - bundle.pixel[here]
        by_point[here], by_parameter = derivatives(camera.lens, camera.parameters, y[here], free)
        by_camera[here, :, : len(free)] = by_parameter

    parts: list[tuple[int, Any]] = []
    if len(bundle.cameras) == 1:
        parts = [(0, slice(start, start + _AT_ONCE)) for start in range(0, k, _AT_ONCE)]
    else:
        seen_by = bundle.camera_of[bundle.image_of]
        order = np.argsort(seen_by, kind="stable")
        first = np.searchsorted(seen_by[order], np.arange(len(bundle.cameras) + 1)).tolist()
        for row, (begin, end) in enumerate(itertools.pairwise(first)):
            parts += [(row, order[at : min(at + _AT_ONCE, end)]) for at in range(begin, end, _AT_ONCE)]
    for _ in on_threads(differentiate, parts) if k > 4 * _AT_ONCE else map(differentiate, parts):
        pass
    arm_from = bundle.frame_position[bundle.frame_of]
    chain(camera_from_world, arm_from, *seen, residual, by_point, by_camera, by_frame, kept)
    return Linear(bundle, nodes, kept, residual, by_frame, by_point, by_camera)


def cross_matrix(v: Array) -> Array:
    """``[v]×`` (…, 3, 3): ``[v]× w = v × w``."""
    out = np.zeros((*v.shape, 3))
    out[..., 0, 1], out[..., 0, 2], out[..., 1, 2] = -v[..., 2], v[..., 1], -v[..., 0]
    return out - np.swapaxes(out, -1, -2)
