"""TUM trajectories: one pose per line, no edges.

Columns, separated by blanks; ``#`` starts a comment::

    timestamp  tx ty tz  qx qy qz qw

The pose is ``world_from_node``: ``x_world = R(q) x_node + t``, t the node's position. The timestamp names the node: an
integer if its value is one (``7``, ``7.000000``), else the text as it stands (``"1305031102.175304"``).
"""

from __future__ import annotations

from decimal import Decimal

from tempose._typing import Array, NodeId, PathLike
from tempose.errors import GraphError, ParseError
from tempose.io._text import (
    NumberReader,
    content_lines,
    integer_ids,
    number_rows,
    point_rows,
    read_text,
    unit_quaternions,
    write_text,
)
from tempose.model.poses import Poses

FORMAT = "tum"
_COLUMNS = ["timestamp", "tx", "ty", "tz", "qx", "qy", "qz", "qw"]


def read_poses(path: PathLike) -> Poses:
    """Read a trajectory; see the module for the columns."""
    notices: list[str] = []
    numbers = NumberReader(path)
    lines = content_lines(read_text(path))
    fields = [text.split() for _, text in lines]
    rows = numbers.rows([number for number, _ in lines], fields, _COLUMNS, 0, "a TUM line")
    numbers.finish(notices)
    if not len(rows):
        raise ParseError(path, None, "no poses found: expected lines of " + " ".join(_COLUMNS))
    ids: dict[NodeId, int] = {}
    for line, row in zip(rows.line.tolist(), fields, strict=True):
        before = ids.setdefault(_name(row[0]), line)
        if before != line:
            raise ParseError(path, line, f"timestamp {row[0]} occurs in line {before} already; keep one of the two")
    wxyz = unit_quaternions(path, rows.line, rows.values[:, [7, 4, 5, 6]], "poses", notices)
    return Poses(tuple(ids), wxyz, rows.values[:, 1:4])


def _name(token: str) -> NodeId:
    try:
        value = Decimal(token.replace(",", "."))
        whole = abs(value) < 2**63 and value == value.to_integral_value()
    except ArithmeticError:  # an exponent beyond Decimal's range
        return token
    return int(value) if whole else token


def write_poses(path: PathLike, poses: Poses, world_origin: Array | None = None) -> None:
    """Write a trajectory; node ids must be numbers, as they take the place of the timestamps.

    ``world_origin`` (3,) is added to the positions.
    """
    for name in poses.ids:
        if isinstance(name, str) and not _is_number(name):
            raise GraphError(f"node {name!r} is no timestamp, and TUM files name nodes by timestamps; write .csv")
    integer_ids([name for name in poses.ids if isinstance(name, int)], "TUM")
    turns = number_rows(poses.wxyz[:, [1, 2, 3, 0]])
    rows = zip(poses.ids, point_rows(poses.position, world_origin), turns, strict=True)
    lines = [" ".join([str(name), *point, *turn]) for name, point, turn in rows]
    write_text(path, "\n".join(["# " + " ".join(_COLUMNS), *lines]) + "\n")


def _is_number(name: str) -> bool:
    try:
        NumberReader("").rows([0], [[name]], ["timestamp"], 0)
    except ParseError:
        return False
    return not any(c.isspace() for c in name) and "," not in name
