"""Factor graphs of PyFactorGraph: poses and landmarks with names, in space or in the plane.

Lines, fields separated by blanks. Σ stands for the upper triangle of the **covariance**, by rows, positions first; rotations are
rotation vectors, or angles, in radians::

    VERTEX_SE3:QUAT        time name  x y z  qx qy qz qw
    VERTEX_XYZ             name  x y z                                      (a landmark: it has no time)
    EDGE_SE3:QUAT          time a b  x y z  qx qy qz qw  Σ                   (21 numbers, order x y z, rotation)
    EDGE_SE3_XYZ           time a landmark  x y z  Σ                         (6 numbers)
    VERTEX_SE3:QUAT:PRIOR  time name  x y z  qx qy qz qw  Σ
    VERTEX_XYZ:PRIOR       time name  x y z  Σ

    VERTEX_SE2             time name  x y θ
    VERTEX_XY              name  x y
    EDGE_SE2               time a b  x y θ  Σ                                (6 numbers, order x y θ)
    EDGE_SE2_XY            time a landmark  x y  Σ                           (3 numbers)
    VERTEX_SE2:PRIOR       time name  x y θ  Σ
    VERTEX_XY:PRIOR        time name  x y  Σ

A vertex is ``X = world_from_node``; a line ``a b`` measures ``Z ≈ X_a⁻¹ X_b``, with the covariance of the error ``Z⁻¹ X_a⁻¹ X_b``
in the axes of b, as in g2o files; priors are about ``Z⁻¹ X``, those of points about positions in the world. Vertices are
PyFactorGraph's **true** values: a start here, never used as more. Names are kept as they are (``A0``, ``L3``). Distances
(``EDGE_RANGE``) are not in the model: left out, counted and told.

Written are the same lines. PyFactorGraph names poses by a capital letter and a number, landmarks by ``L`` and a number: node
7 becomes ``A7``, landmark 7 ``L7``, and other names are refused. Times are the numbers of the nodes' rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tempose._support.words import plural
from tempose._typing import Array, Index, NodeId, PathLike
from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io._reduced import as_asked
from tempose.io._text import (
    NumberReader,
    Rows,
    content_lines,
    exact_sum_text,
    number_text,
    read_text,
    unit_quaternions,
    write_text,
)
from tempose.io.options import ReadOptions
from tempose.model import precision as precisions
from tempose.model.builder import GraphBuilder
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.pose import Pose
from tempose.model.poses import Poses

FORMAT = "pyfg"
_SPACE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
_RANGE = "EDGE_RANGE"


@dataclass(frozen=True)
class _Kind:
    """What a line holds: how many names, whether a time stands before them, fields, and how many numbers Σ is about."""

    names: int
    fields: list[str]
    errors: int = 0
    timed: bool = True
    planar: bool = False


_POSES = {"VERTEX_SE3:QUAT": _Kind(1, _SPACE), "VERTEX_SE2": _Kind(1, ["x", "y", "theta"], planar=True)}
_POINTS = {
    "VERTEX_XYZ": _Kind(1, ["x", "y", "z"], timed=False),
    "VERTEX_XY": _Kind(1, ["x", "y"], timed=False, planar=True),
}
_POSE_EDGES = {"EDGE_SE3:QUAT": _Kind(2, _SPACE, 6), "EDGE_SE2": _Kind(2, ["x", "y", "theta"], 3, planar=True)}
_POINT_EDGES = {"EDGE_SE3_XYZ": _Kind(2, ["x", "y", "z"], 3), "EDGE_SE2_XY": _Kind(2, ["x", "y"], 2, planar=True)}
_POSE_PRIORS = {
    "VERTEX_SE3:QUAT:PRIOR": _Kind(1, _SPACE, 6),
    "VERTEX_SE2:PRIOR": _Kind(1, ["x", "y", "theta"], 3, planar=True),
}
_POINT_PRIORS = {
    "VERTEX_XYZ:PRIOR": _Kind(1, ["x", "y", "z"], 3),
    "VERTEX_XY:PRIOR": _Kind(1, ["x", "y"], 2, planar=True),
}
_KINDS = {**_POSES, **_POINTS, **_POSE_EDGES, **_POINT_EDGES, **_POSE_PRIORS, **_POINT_PRIORS}
_NAME = re.compile(r"[A-Z][0-9]+")


@dataclass(frozen=True)
class _Lines:
    """Lines of one tag: names of their nodes, fields (k, d) and covariances (k, e, e)."""

    tag: str
    rows: Rows
    names: list[list[str]]
    values: Array
    covariance: Array


def _read(path: PathLike, notices: list[str]) -> dict[str, _Lines]:
    tagged: dict[str, tuple[list[int], list[list[str]]]] = {}
    skipped: dict[str, int] = {}
    for number, text in content_lines(read_text(path)):
        tag, *words = text.split()
        if tag not in _KINDS:
            skipped[tag] = skipped.get(tag, 0) + 1
            continue
        line, fields = tagged.setdefault(tag, ([], []))
        line.append(number)
        fields.append(words)
    numbers = NumberReader(path)
    found = {tag: _numbers(path, tag, *lines, numbers) for tag, lines in tagged.items()}
    numbers.finish(notices)
    if len({_KINDS[tag].planar for tag in found}) > 1:
        second = max(min(one.rows.line) for one in found.values() if len(one.rows))
        raise ParseError(
            path, int(second), "planar and 3D lines in one file; a graph is one of the two: split the file"
        )
    if skipped:
        shown = ", ".join(f"{tag[:40]!r} ({n})" for tag, n in list(skipped.items())[:8])
        why = "; a distance without a direction is not in the model" if _RANGE in skipped else ""
        notices.append(f"{plural(sum(skipped.values()), 'line')} of other kinds skipped: {shown}{why}")
    return found


def _numbers(path: PathLike, tag: str, line: list[int], fields: list[list[str]], numbers: NumberReader) -> _Lines:
    kind = _KINDS[tag]
    upper = np.triu_indices(kind.errors)
    covariance = [f"covariance {a + 1}{b + 1}" for a, b in zip(*upper, strict=True)]
    columns = [*(["time"] if kind.timed else []), *kind.fields, *covariance]
    first = int(kind.timed)
    width = kind.names + len(columns)
    for number, row in zip(line, fields, strict=True):
        if len(row) != width:
            expected = [*columns[:first], "name", *(["name"] if kind.names == 2 else []), *kind.fields]
            more = f" and {len(covariance)} numbers of a covariance" if covariance else ""
            raise ParseError(
                path, number, f"{tag} has {plural(len(row), 'field')}, expected {width}: {' '.join(expected)}{more}"
            )
    names = [row[first : first + kind.names] for row in fields]
    rows = numbers.rows(line, [[*row[:first], *row[first + kind.names :]] for row in fields], columns, 0, tag)
    values = rows.values[:, first : first + len(kind.fields)]
    own = np.zeros((len(rows), kind.errors, kind.errors))
    own[:, upper[0], upper[1]] = own[:, upper[1], upper[0]] = rows.values[:, first + len(kind.fields) :]
    return _Lines(tag, rows, names, values, own)


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a factor graph; see the module for columns and equations."""
    options = options or ReadOptions()
    notices: list[str] = []
    found = _read(path, notices)
    if not any(tag in found for tag in (*_POSE_EDGES, *_POINT_EDGES)):
        raise ParseError(path, None, "no edges found: expected EDGE_SE3:QUAT or EDGE_SE2 lines")
    builder = GraphBuilder(planar=_KINDS[next(iter(found))].planar)
    _refuse_twice(path, found)
    said = [one for lines in found.values() for one in _said(path, lines, notices)]
    for one in sorted(
        said, key=lambda one: (one.tag not in _POSES and one.tag not in _POINTS, one.line)
    ):  # nodes first
        try:
            _tell(builder, one)
        except GraphError as error:
            raise ParseError(path, one.line, str(error)) from None
    try:
        graph = builder.build()
    except GraphError as error:
        raise ParseError(path, None, str(error)) from None
    graph = replace(
        graph,
        notices=(*notices, *graph.notices),
        origin={
            "file": Path(path).name,
            "format": FORMAT,
            "rotation_information": "rotation-vector",
            "precision": options.precision,
        },
    )
    return as_asked(path, graph, options)


@dataclass(frozen=True)
class _Said:
    """What one line says."""

    line: int
    tag: str
    names: list[str]
    pose: Pose
    point: Array
    information: Array


def _said(path: PathLike, lines: _Lines, notices: list[str]) -> list[_Said]:
    wxyz, shift = _motions(path, lines, notices)
    information = _informations(path, lines)
    d = 2 if _KINDS[lines.tag].planar else 3
    return [
        _Said(line, lines.tag, lines.names[k], Pose(wxyz[k], shift[k]), lines.values[k, :d], information[k])
        for k, line in enumerate(lines.rows.line.tolist())
    ]


def _tell(builder: GraphBuilder, one: _Said) -> None:
    """Tell the builder what a line says."""
    first, last = one.names[0], one.names[-1]
    if one.tag in _POSES:
        builder.add_node(first, one.pose)
    elif one.tag in _POINTS:
        builder.add_landmark(first, one.point)
    elif one.tag in _POSE_EDGES:
        builder.add_edge(first, last, transform=one.pose, information=one.information)
    elif one.tag in _POINT_EDGES:
        builder.add_sighting(first, last, one.point, information=one.information)
    elif one.tag in _POSE_PRIORS:
        builder.add_pose_prior(first, one.pose, information=one.information)
    else:
        builder.add_position(first, one.point, information=one.information)


def _motions(path: PathLike, lines: _Lines, notices: list[str]) -> tuple[Array, Array]:
    """Quaternions (k, 4) and translations (k, 3); points are unturned."""
    values, count = lines.values, len(lines.values)
    wxyz = np.tile(quat.IDENTITY, (count, 1))
    if values.shape[1] == 7:
        wxyz = unit_quaternions(path, lines.rows.line, values[:, [6, 3, 4, 5]], "poses and edges", notices)
    elif _KINDS[lines.tag].planar and values.shape[1] == 3:
        half = 0.5 * values[:, 2]
        wxyz = np.column_stack([np.cos(half), np.zeros((count, 2)), np.sin(half)])
    d = 2 if _KINDS[lines.tag].planar else 3
    return wxyz, np.column_stack([values[:, :d], np.zeros((count, 3 - d))])


def _informations(path: PathLike, lines: _Lines) -> Array:
    """Inverses of the covariances, rotation first where there is one."""
    covariance = lines.covariance
    e = covariance.shape[1]
    if not e:
        return np.zeros((len(covariance), 0, 0))
    bad = np.flatnonzero(~precisions.is_definite(covariance))
    if len(bad):
        raise ParseError(path, int(lines.rows.line[bad[0]]), "the covariance is not positive definite")
    out = np.linalg.inv(covariance)
    out = 0.5 * (out + np.swapaxes(out, 1, 2))
    if lines.tag in _POSE_EDGES or lines.tag in _POSE_PRIORS:
        order: Index = np.array([3, 4, 5, 0, 1, 2] if e == 6 else [2, 0, 1])
        out = out[:, order[:, None], order]
    return np.asarray(out, dtype=np.float64)


def read_vertices(path: PathLike) -> tuple[Poses, bool, tuple[NodeId, ...]]:
    """The vertices, whether they are planar, and which of them are landmarks."""
    notices: list[str] = []
    found = {tag: lines for tag, lines in _read(path, notices).items() if tag in _POSES or tag in _POINTS}
    if not found:
        raise ParseError(path, None, "no vertices found: expected VERTEX_SE3:QUAT or VERTEX_SE2 lines")
    _refuse_twice(path, found)
    names = [name for lines in found.values() for (name,) in lines.names]
    landmarks = [name for tag, lines in found.items() if tag in _POINTS for (name,) in lines.names]
    parts = [_motions(path, lines, notices) for lines in found.values()]
    wxyz, position = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Poses(tuple(names), wxyz, position), all(_KINDS[tag].planar for tag in found), tuple(landmarks)


def _refuse_twice(path: PathLike, found: dict[str, _Lines]) -> None:
    """An error for a vertex that occurs twice."""
    where: dict[str, int] = {}
    for tag, lines in found.items():
        if tag in _POSES or tag in _POINTS:
            for (name,), line in zip(lines.names, lines.rows.line.tolist(), strict=True):
                if where.setdefault(name, line) != line:
                    first = where[name]
                    raise ParseError(path, line, f"node {name!r} occurs in line {first} already; keep one of the two")


def read_poses(path: PathLike) -> Poses:
    """The vertices; landmarks, which have no orientation, are unturned."""
    return read_vertices(path)[0]


# ---------------------------------------------------------------------- writing


def write_graph(path: PathLike, graph: PoseGraph, poses: Poses | None = None) -> None:
    """Write a factor graph; the inverse of :func:`read_graph`. What the format has no line for is refused."""
    names = _names(graph.reported, set(graph.landmarks))
    _refuse(graph)
    shown = graph.initial if poses is None else poses
    lines = []
    if shown is not None:
        lines = _vertex_lines(shown.select(graph.reported), graph.is_planar, graph.landmarks, graph.world_origin)
    d = graph.dimension
    landmark = graph.is_landmark[graph.edge_i]
    turns = graph.ranks[0] > 0
    back = np.where(turns[:, None], quat.conjugate(graph.j_from_i_wxyz), quat.IDENTITY)
    information = precisions.turned_jointly(graph.information, back)
    angle = (2.0 * np.arctan2(graph.j_from_i_wxyz[:, 3], graph.j_from_i_wxyz[:, 0])).tolist()
    tags = (
        ("EDGE_SE2", "EDGE_SE2_XY", "VERTEX_SE2:PRIOR", "VERTEX_XY:PRIOR")
        if d == 2
        else ("EDGE_SE3:QUAT", "EDGE_SE3_XYZ", "VERTEX_SE3:QUAT:PRIOR", "VERTEX_XYZ:PRIOR")
    )
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        single = bool(graph.is_absolute[k])
        axes = _axes(d, bool(turns[k]))
        covariance = np.linalg.inv(information[k][np.ix_(axes, axes)])
        covariance = 0.5 * (covariance + covariance.T)
        origin = graph.world_origin if single else np.zeros(3)
        point = [
            exact_sum_text(x, o) for x, o in zip(graph.j_from_i_t[k, :d].tolist(), origin[:d].tolist(), strict=True)
        ]
        turn = [] if not turns[k] else [angle[k]] if d == 2 else graph.j_from_i_wxyz[k, [1, 2, 3, 0]].tolist()
        upper = covariance[np.triu_indices(len(axes))].tolist()
        ends = [names[i]] if single else [names[j], names[i]]
        tag = tags[2 * single + (bool(landmark[k]) or not turns[k])]
        lines.append(" ".join([tag, str(i), *ends, *point, *map(number_text, [*turn, *upper])]))
    write_text(path, "\n".join(lines) + "\n")


def write_poses(path: PathLike, poses: Poses, planar: bool = False, landmarks: tuple[NodeId, ...] = ()) -> None:
    """Write poses as the vertices of a factor graph."""
    write_text(path, "\n".join(_vertex_lines(poses, planar, landmarks, np.zeros(3))) + "\n")


def _axes(d: int, turns: bool) -> list[int]:
    """Rows of a joint information, rotation first, in the order of a line."""
    if d == 2:
        return [3, 4, 2] if turns else [3, 4]
    return [3, 4, 5, 0, 1, 2] if turns else [3, 4, 5]


def _names(ids: tuple[NodeId, ...], points: set[NodeId]) -> list[str]:
    out = []
    for name in ids:
        text = f"{'L' if name in points else 'A'}{name}" if isinstance(name, int) and name >= 0 else str(name)
        if not _NAME.fullmatch(text) or (text[0] == "L") != (name in points):
            raise GraphError(
                f"node {name!r}: PyFactorGraph wants names of a capital letter and a number, L for landmarks; write .csv"
            )
        out.append(text)
    if len(set(out)) < len(out):
        raise GraphError("two nodes would have one name in a PyFactorGraph file; write .csv")
    return out


def _refuse(graph: PoseGraph) -> None:
    """One line for what the format has no place for."""
    from_world = graph.edge_i == graph.world if graph.world is not None else np.zeros(graph.n_edges, dtype=bool)
    arms = np.zeros(graph.n_edges, dtype=bool) if graph.arm is None else np.any(graph.arm, axis=1)
    full = np.where(graph.is_landmark[graph.edge_i], graph.dimension, 3 if graph.is_planar else 6)
    point = graph.is_absolute & (graph.ranks[0] == 0) & graph.is_landmark[graph.edge_i]
    for bad, what in (
        (from_world, "measures the world from a node"),
        (arms, "has a lever arm"),
        ((graph.freedom < full) & ~point, "does not measure a whole pose"),
    ):
        if np.any(bad):
            k = int(np.argmax(bad))
            i, j = graph.edge_names([k])[0]
            raise GraphError(f"edge {k} ({i!r} → {j!r}) {what}, for which PyFactorGraph files have no line; write .csv")
    held = [name for name in graph.fixed if name != WORLD]
    if held:
        raise GraphError(f"node {held[0]!r} is fixed, for which PyFactorGraph files have no line; write .csv or .g2o")


def _vertex_lines(poses: Poses, planar: bool, landmarks: tuple[NodeId, ...], origin: Array) -> list[str]:
    points = set(landmarks)
    names = _names(poses.ids, points)
    tags = ("VERTEX_SE2", "VERTEX_XY") if planar else ("VERTEX_SE3:QUAT", "VERTEX_XYZ")
    turns = 2.0 * np.arctan2(poses.wxyz[:, 3:], poses.wxyz[:, :1]) if planar else poses.wxyz[:, [1, 2, 3, 0]]
    lines = []
    for k, (name, p, turn) in enumerate(zip(poses.ids, poses.position.tolist(), turns.tolist(), strict=True)):
        point = [exact_sum_text(x, o) for x, o in zip(p, origin.tolist(), strict=True)][: 2 if planar else 3]
        is_point = name in points
        head = [tags[is_point], *([] if is_point else [str(k)]), names[k]]
        lines.append(" ".join([*head, *point, *([] if is_point else map(number_text, turn))]))
    return lines
