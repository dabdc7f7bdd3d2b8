"""Trajectories of EuRoC MAV and other ASL data sets: comma-separated, times in nanoseconds.

The first line is a comment that names the columns; of each row the first eight are read::

    #timestamp [ns], p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z [], …

The pose is ``world_from_node``: ``x_world = R(q) x_node + p`` (R, the reference, is the world; S, the sensor, the node). The
quaternion has its **scalar first**. The time in nanoseconds, an integer, names the node. Velocities and biases, which stand
behind these columns in ``state_groundtruth_estimate0/data.csv``, are not poses and are not read.
"""

from __future__ import annotations

from tempose._typing import NodeId, PathLike
from tempose.errors import GraphError, ParseError
from tempose.io._text import (
    NumberReader,
    beginning,
    content_lines,
    integer_ids,
    number_text,
    read_text,
    unit_quaternions,
    write_text,
)
from tempose.model.poses import Poses

FORMAT = "euroc"
NANOSECOND = 1e-9
_HEADER = "#timestamp [ns], p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z []"
_COLUMNS = ["timestamp", "p_x", "p_y", "p_z", "q_w", "q_x", "q_y", "q_z"]


def is_trajectory(path: PathLike) -> bool:
    """Whether a comma-separated file begins as those of ASL data sets do, with a comment about time stamps."""
    return beginning(path).lstrip("\ufeff").startswith(("#timestamp", "# timestamp"))


def read_poses(path: PathLike) -> Poses:
    """Read a trajectory; see the module for the columns."""
    notices: list[str] = []
    numbers = NumberReader(path)
    lines = content_lines(read_text(path))
    fields = [[word.strip() for word in text.split(",")] for _, text in lines]
    fields = [row[:8] if len(row) > 8 else row for row in fields]
    rows = numbers.rows([n for n, _ in lines], fields, _COLUMNS, 1, "a line of a EuRoC file")
    numbers.finish(notices)
    if not len(rows):
        raise ParseError(path, None, "no poses found: expected rows of " + ", ".join(_COLUMNS))
    first: dict[NodeId, int] = {}
    for name, line in zip(rows.ids[:, 0].tolist(), rows.line.tolist(), strict=True):
        if first.setdefault(name, line) != line:
            raise ParseError(path, line, f"timestamp {name} occurs in line {first[name]} already; keep one of the two")
    wxyz = unit_quaternions(path, rows.line, rows.values[:, 3:7], "poses", notices)
    return Poses(tuple(first), wxyz, rows.values[:, :3])


def write_poses(path: PathLike, poses: Poses) -> None:
    """Write a trajectory; node ids must be integers, times in nanoseconds."""
    for name in poses.ids:
        if not isinstance(name, int):
            raise GraphError(
                f"node {name!r} is no integer, and EuRoC files name nodes by their times in nanoseconds; write .tum or .csv"
            )
    ids = integer_ids(poses.ids, "EuRoC")
    rows = zip(ids, poses.position.tolist(), poses.wxyz.tolist(), strict=True)
    lines = [", ".join([str(name), *map(number_text, [*point, *turn])]) for name, point, turn in rows]
    write_text(path, "\n".join([_HEADER, *lines]) + "\n")
