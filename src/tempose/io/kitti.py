"""KITTI trajectories: one pose per line, twelve numbers, no names and no times.

Columns, separated by blanks: the rows of a 3×4 matrix, one after the other::

    r11 r12 r13 t1  r21 r22 r23 t2  r31 r32 r33 t3

The matrix is ``world_from_node``: ``x_world = R x_node + t``, t the node's position. Nodes are numbered from 0 by their lines.
Times are in a file of their own (``times.txt``, one number per line: :mod:`tempose.io.times`). Rotations within 1e-3 of
orthonormal are replaced by the nearest rotation; others are refused.
"""

from __future__ import annotations

import numpy as np

from tempose._typing import PathLike
from tempose.errors import GraphError, ParseError
from tempose.io._text import NumberReader, content_lines, number_text, read_text, rotation_matrices, write_text
from tempose.model.poses import Poses

FORMAT = "kitti"
_COLUMNS = [f"r{row}{column}" if column < 4 else f"t{row}" for row in (1, 2, 3) for column in (1, 2, 3, 4)]


def read_poses(path: PathLike) -> Poses:
    """Read a trajectory; see the module for the columns."""
    notices: list[str] = []
    numbers = NumberReader(path)
    lines = content_lines(read_text(path))
    rows = numbers.rows([n for n, _ in lines], [text.split() for _, text in lines], _COLUMNS, 0, "a KITTI line")
    numbers.finish(notices)
    if not len(rows):
        raise ParseError(path, None, "no poses found: expected lines of twelve numbers, the rows of a 3×4 matrix")
    matrix = rows.values.reshape(-1, 3, 4)
    wxyz = rotation_matrices(path, rows.line, matrix[:, :, :3], notices)
    return Poses(tuple(range(len(rows))), wxyz, matrix[:, :, 3])


def write_poses(path: PathLike, poses: Poses) -> None:
    """Write a trajectory. Lines have no names: the nodes must be 0, 1, 2, … in this order."""
    wrong = next((name for row, name in enumerate(poses.ids) if name != row), None)
    if wrong is not None:
        raise GraphError(
            f"KITTI files name nodes by their lines, 0, 1, 2, …, and node {wrong!r} is out of order; write .tum or .csv"
        )
    rows = np.asarray(poses.matrices()[:, :3].reshape(-1, 12)).tolist()
    write_text(path, "".join(" ".join(map(number_text, row)) + "\n" for row in rows))
