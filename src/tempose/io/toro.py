"""TORO graphs: vertices and edges with Euler angles in space, angles in the plane.

::

    VERTEX3  id   x y z roll pitch yaw
    EDGE3    i j  x y z roll pitch yaw  Ω        (21 numbers, the upper triangle by rows, order x y z roll pitch yaw)
    VERTEX2  id   x y θ
    EDGE2    i j  x y θ  Ω_xx Ω_xy Ω_yy Ω_θθ Ω_xθ Ω_yθ

``R = Rz(yaw) Ry(pitch) Rx(roll)``; an edge measures ``Z ≈ X_i⁻¹ X_j``, with the information of angles in radians, as g2o
files have it (:mod:`tempose.io.g2o`, which reads these lines too). **The information of EDGE2 is not in the order of a
triangle.** Some programs write it by rows all the same, ``Ω_xx Ω_xy Ω_xθ Ω_yy Ω_yθ Ω_θθ``: where TORO's order would make matrices
that are no information, and that of rows does not, it is read by rows, and told.

There is no line for fixed nodes, landmarks and what is known about single nodes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tempose._typing import Array, PathLike
from tempose.geometry import quaternion as quat
from tempose.io import g2o
from tempose.io._held import refuse_all_but_motions
from tempose.io._text import exact_sum_text, integer_ids, number_text, write_text
from tempose.io.options import ReadOptions
from tempose.model import precision as precisions
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

FORMAT = "toro"
_ORDER = np.array([3, 4, 5, 0, 1, 2])
_PLANE = ((3, 3), (3, 4), (4, 4), (2, 2), (3, 2), (4, 2))


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a graph; see the module for the columns."""
    graph = g2o.read_graph(path, options)
    return replace(graph, origin={**graph.origin, "format": FORMAT})


def read_poses(path: PathLike) -> Poses:
    """Read the vertices."""
    return g2o.read_poses(path)


def write_graph(path: PathLike, graph: PoseGraph, poses: Poses | None = None) -> None:
    """Write a graph; the inverse of :func:`read_graph`. A rotation-only edge gets a zero translation with zero information."""
    refuse_all_but_motions(graph, "TORO files", planar=True)
    ids = integer_ids(graph.node_ids, "TORO")
    shown = graph.initial if poses is None else poses
    lines = [] if shown is None else _vertex_lines(shown.select(graph.node_ids), graph.is_planar, graph.world_origin)
    information = precisions.turned_jointly(graph.information, quat.conjugate(graph.j_from_i_wxyz))
    shift = np.nan_to_num(graph.j_from_i_t)
    turns = _angles(graph.j_from_i_wxyz)
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        if graph.is_planar:
            values = [*shift[k, :2], turns[k, 2], *(information[k][ab] for ab in _PLANE)]
        else:
            whole = information[k][np.ix_(_ORDER, _ORDER)]
            values = [*shift[k], *turns[k], *whole[np.triu_indices(6)]]
        tag = "EDGE2" if graph.is_planar else "EDGE3"
        lines.append(" ".join([tag, str(ids[j]), str(ids[i]), *(number_text(float(x)) for x in values)]))
    write_text(path, "\n".join(lines) + "\n")


def write_poses(path: PathLike, poses: Poses, planar: bool = False) -> None:
    """Write poses as vertices."""
    write_text(path, "\n".join(_vertex_lines(poses, planar, np.zeros(3))) + "\n")


def _vertex_lines(poses: Poses, planar: bool, origin: Array) -> list[str]:
    ids = integer_ids(poses.ids, "TORO")
    lines = []
    for name, p, turn in zip(ids, poses.position.tolist(), _angles(poses.wxyz).tolist(), strict=True):
        point = [exact_sum_text(x, o) for x, o in zip(p, origin.tolist(), strict=True)]
        words = [*point[:2], number_text(turn[2])] if planar else [*point, *map(number_text, turn)]
        lines.append(" ".join(["VERTEX2" if planar else "VERTEX3", str(name), *words]))
    return lines


def _angles(wxyz: Array) -> Array:
    """Roll, pitch and yaw (n, 3) of quaternions (n, 4); roll is 0 where only its sum with yaw is known."""
    R = quat.to_matrix(wxyz)
    level = np.hypot(R[:, 0, 0], R[:, 1, 0])
    locked = level < 1e-9
    roll = np.where(locked, 0.0, np.arctan2(R[:, 2, 1], R[:, 2, 2]))
    yaw = np.where(locked, np.arctan2(-R[:, 0, 1], R[:, 1, 1]), np.arctan2(R[:, 1, 0], R[:, 0, 0]))
    return np.column_stack([roll, np.arctan2(-R[:, 2, 0], level), yaw])
