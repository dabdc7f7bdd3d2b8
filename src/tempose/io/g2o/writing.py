"""A pose graph, or poses alone, as a g2o file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from tempose._typing import Array, Index, NodeId, PathLike
from tempose.errors import GraphError, OptionError
from tempose.geometry import quaternion as quat
from tempose.io._text import (
    integer_ids,
    number_rows,
    number_text,
    point_rows,
    write_text,
)
from tempose.io.g2o.lines import (
    ANGLE_SCALE,
    EDGES,
    FORMAT,
    OFFSET,
    PLANAR,
    POSE,
    PRIOR,
    THETA_LAST,
    TRANSLATION_FIRST,
    LineKind,
)
from tempose.io.options import ROTATION_INFORMATION
from tempose.model import precision as precisions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses

_AT_ONCE = 10_000  # edges or nodes whose numbers are text at a time


def write_graph(
    path: PathLike, graph: PoseGraph, poses: Poses | None = None, rotation_information: str = "rotation-vector"
) -> None:
    """Write a pose graph; the inverse of :func:`read_graph` with the same ``rotation_information``.

    Vertices are ``poses``, in the graph's own coordinates, or the graph's initial poses, or those of the fixed nodes. A
    rotation-only edge gets a zero translation with zero information. What the format has no line for is refused.
    """
    if rotation_information not in ROTATION_INFORMATION:
        known = ", ".join(ROTATION_INFORMATION)
        raise OptionError(f"rotation_information is {rotation_information!r}; expected one of {known}")
    ids = integer_ids(graph.reported, FORMAT)
    _refuse_to_write(graph)
    shown = graph.initial if poses is None else poses
    lines = []
    if shown is not None:
        lines = _vertex_lines(shown.select(graph.reported), graph.is_planar, graph.landmarks, graph.world_origin)
    elif len(graph.fixed) > 1 or np.any(graph.fixed_at.position) or np.any(graph.fixed_at.wxyz[:, 1:]):  # type: ignore[union-attr]
        held = [name for name in graph.fixed if name != WORLD]
        lines = _vertex_lines(graph.fixed_at.select(held), graph.is_planar, graph.landmarks, graph.world_origin)  # type: ignore[union-attr]
    if shown is None:
        _refuse_unnamed(graph)
    lines += [f"FIX {name}" for name in graph.fixed if name != WORLD]
    tag, offset, information = _line_kinds(graph), _offset_ids(graph), _informations(graph, rotation_information)
    if any(EDGES[name].offset for name in tag):
        arms = {0: np.zeros(3)} if graph.arm is None else {int(o): a for o, a in zip(offset, graph.arm, strict=True)}
        arms.setdefault(0, np.zeros(3))
        lines += [f"{OFFSET} {o} {' '.join(map(number_text, arms[o].tolist()))} 0 0 0 1" for o in sorted(arms)]
    prior = np.full(graph.n_edges, np.nan) if graph.inlier_prior is None else graph.inlier_prior
    rows = zip(tag, graph.edge_i.tolist(), graph.edge_j.tolist(), offset.tolist(), prior.tolist(), strict=True)
    for begin in range(0, graph.n_edges, _AT_ONCE):
        part = np.arange(begin, min(begin + _AT_ONCE, graph.n_edges))
        tags = dict.fromkeys(tag[begin : begin + _AT_ONCE])
        numbers = {name: _number_lines(graph, information, name, part, tag) for name in tags}
        for name, i, j, o, p in islice(rows, len(part)):
            kind = EDGES[name]
            ends = f"{ids[i]}" if kind.n_ids == 1 else f"{ids[j]} {ids[i]}"
            lines.append(f"{name} {ends}{f' {o}' if kind.offset else ''} {next(numbers[name])}")
            if not np.isnan(p):
                lines.append(f"{PRIOR} {ends} {number_text(p)}")
    write_text(path, "\n".join(lines) + "\n")


def _number_lines(graph: PoseGraph, information: Array, name: str, part: Index, tag: list[str]) -> Iterator[str]:
    """The numbers of those of some edges (k,) that have a tag: motion, then information."""
    kind = EDGES[name]
    part = np.array([k for k in part.tolist() if tag[k] == name])
    wxyz, d = graph.j_from_i_wxyz[part], 2 if kind.planar else 3
    shift = np.where(graph.has_translation[part, None], graph.j_from_i_t[part], 0.0)[:, :d]
    points = point_rows(shift, graph.world_origin if kind.n_ids == 1 else None)
    turn = {id(POSE): wxyz[:, [1, 2, 3, 0]], id(PLANAR): 2.0 * np.arctan2(wxyz[:, 3:], wxyz[:, :1])}
    axes, (a, b) = _axes_of(kind), np.triu_indices(kind.n_errors)
    upper = information[part][:, axes[a], axes[b]]
    others = number_rows(np.column_stack([turn.get(id(kind.names), wxyz[:, :0]), upper]))
    return (" ".join([*point, *other]) for point, other in zip(points, others, strict=True))


def _axes_of(kind: LineKind) -> Index:
    """Rows of a joint information, rotation first, in the order of a line."""
    if kind.names is POSE:
        return TRANSLATION_FIRST
    return THETA_LAST if kind.names is PLANAR else np.arange(3, 3 + kind.n_errors)


def _refuse_to_write(graph: PoseGraph) -> None:
    """One line for what a g2o file has no place for."""
    from_world = graph.edge_i == graph.world if graph.world is not None else np.zeros(graph.n_edges, dtype=bool)
    arms = np.zeros(graph.n_edges, dtype=bool) if graph.arm is None else np.any(graph.arm, axis=1)
    tied = np.zeros(graph.n_edges, dtype=bool) if graph.coupling is None else np.any(graph.coupling, axis=(1, 2))
    point = (graph.ranks[0] == 0) & (graph.is_absolute | graph.is_landmark[graph.edge_i])
    for bad, what in (
        (from_world, "measures the world from a node, for which g2o files have no line"),
        (arms & ~graph.is_absolute & ~from_world, "has a lever arm, which g2o files have for priors only"),
        (tied & point, "ties a position to a rotation that it does not measure, for which g2o files have no place"),
        (arms & graph.is_planar, "has a lever arm, for which planar g2o files have no place"),
    ):
        if np.any(bad):
            k = int(np.argmax(bad))
            i, j = graph.edge_names([k])[0]
            raise GraphError(f"edge {k} ({i!r} → {j!r}) {what}; write .csv")


def _refuse_unnamed(graph: PoseGraph) -> None:
    """One line for a node that neither a vertex nor an edge would name."""
    relative = ~graph.is_absolute
    named = set(graph.edge_i[relative].tolist()) | set(graph.edge_j[relative].tolist())
    for name in graph.reported:
        if graph.index[name] not in named and name not in graph.fixed:
            raise GraphError(
                f"node {name!r} is in no edge between nodes, and has no pose: g2o cannot name it; write .csv"
            )


def _line_kinds(graph: PoseGraph) -> list[str]:
    """Tag of each edge's line."""
    tags = {
        False: ("EDGE_SE3:QUAT", "EDGE_SE3_TRACKXYZ", "EDGE_SE3_PRIOR", "EDGE_SE3_XYZPRIOR", "EDGE_POINTXYZ_PRIOR"),
        True: ("EDGE_SE2", "EDGE_SE2_XY", "EDGE_PRIOR_SE2", "EDGE_PRIOR_SE2_XY", "EDGE_PRIOR_XY"),
    }[graph.is_planar]
    turns, single = graph.ranks[0] > 0, graph.is_absolute  # those from the world have been refused
    landmark = graph.is_landmark[graph.edge_i]
    column = np.select([single & landmark, single & ~turns, single, landmark], [4, 3, 2, 1], 0)
    return [tags[k] for k in column]


def _offset_ids(graph: PoseGraph) -> Index:
    """Which offset each edge has (m,): 0 for none, then by their first edge."""
    arms = np.zeros((graph.n_edges, 3)) if graph.arm is None else graph.arm
    number: dict[tuple[float, ...], int] = {(0.0, 0.0, 0.0): 0}
    return np.array([number.setdefault(tuple(arm), len(number)) for arm in arms.tolist()], dtype=np.int64)


def _informations(graph: PoseGraph, rotation_information: str) -> Array:
    """Joint informations (m, 6, 6) about the axes of the line of each edge, rotation first."""
    joint = graph.information
    positions = (graph.ranks[0] == 0) & (graph.is_absolute | graph.is_landmark[graph.edge_i])
    back = np.where(positions[:, None], quat.IDENTITY, quat.conjugate(graph.j_from_i_wxyz))
    out = precisions.turned_jointly(joint, back)
    if graph.is_planar:
        round_ = precisions.is_multiple_of_identity(joint[:, 3:5, 3:5])
        out[round_, 3:, 3:] = joint[round_, 3:, 3:]
        out[:, 2, 2] = joint[:, 2, 2]
        return out
    scale = 1.0 / ANGLE_SCALE[rotation_information]
    out[:, :3, :] *= scale
    out[:, :, :3] *= scale
    return out


def write_poses(
    path: PathLike,
    poses: Poses,
    planar: bool = False,
    landmarks: Iterable[NodeId] = (),
    world_origin: Array | None = None,
) -> None:
    """Write poses as the vertices of a g2o file; ``world_origin`` (3,) is added to their positions."""
    integer_ids(poses.ids, FORMAT)
    origin = np.zeros(3) if world_origin is None else world_origin
    write_text(path, "\n".join(_vertex_lines(poses, planar, landmarks, origin)) + "\n")


def _vertex_lines(poses: Poses, planar: bool, landmarks: Iterable[NodeId], origin: Array) -> list[str]:
    points = set(landmarks)
    tags = ("VERTEX_SE2", "VERTEX_XY") if planar else ("VERTEX_SE3:QUAT", "VERTEX_TRACKXYZ")
    turns = poses.wxyz[:, [1, 2, 3, 0]]
    if planar:
        turns = 2.0 * np.arctan2(poses.wxyz[:, 3:], poses.wxyz[:, :1])
    lines: list[str] = []
    for begin in range(0, len(poses), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        position = point_rows(poses.position[part, : 2 if planar else 3], origin)
        for name, point, turn in zip(poses.ids[part], position, number_rows(turns[part]), strict=True):
            lines.append(" ".join([tags[name in points], str(name), *point, *([] if name in points else turn)]))
    return lines
