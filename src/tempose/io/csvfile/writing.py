"""Poses and graphs as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tempose._support.tables import csv_lines
from tempose._typing import Array, Mask, NodeId, PathLike
from tempose.io._text import (
    number_rows,
    number_text,
    point_rows,
    write_text,
)
from tempose.io.csvfile.tables import (
    ARM,
    COUPLING,
    PAIRS,
    POSE,
    TURN,
    name_text,
)
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses

_AT_ONCE = 10_000  # edges whose cells are in memory


def write_poses(
    path: PathLike, poses: Poses, landmarks: Iterable[NodeId] = (), world_origin: Array | None = None
) -> None:
    """Write a table of poses, ``landmarks`` without an orientation; ``world_origin`` (3,) is added to their positions."""
    points = set(landmarks)
    position = point_rows(poses.position, world_origin)
    turns = [[""] * 4 if name in points else q for name, q in zip(poses.ids, number_rows(poses.wxyz), strict=True)]
    rows = ([name_text(name), *p, *q] for name, p, q in zip(poses.ids, position, turns, strict=True))
    write_text(path, csv_lines(["id", *POSE], rows))


def write_graph(path: PathLike, graph: PoseGraph, poses: Poses | None = None) -> None:
    """Write a graph with everything it holds but its notices and origin; read it with ``precision="full"``.

    ``poses``, in the graph's own coordinates, take the place of its initial ones.
    """
    write_text(path, graph_text(graph, poses))


def graph_text(graph: PoseGraph, poses: Poses | None = None) -> str:
    """What :func:`write_graph` writes."""
    d = graph.dimension
    m, n = graph.n_edges, graph.n_nodes
    shown = graph.initial if poses is None else poses.with_identity(WORLD).select(graph.node_ids)
    origin = graph.world_origin
    arm = _written_arms(graph)
    more = [name for names, _ in _edge_cells(graph, arm, slice(0)) for name in names]
    marks = [*(["fixed"] if graph.fixed else []), *(["landmark"] if graph.landmarks else [])]
    turn_names, shift_names = (TURN, ["tx", "ty", "tz"]) if d == 3 else (["theta"], ["tx", "ty"])
    names = ["i", "j", *turn_names, *shift_names, *more, *marks]
    name_of = [name_text(name) for name in graph.node_ids]
    ends = np.stack([graph.edge_i, graph.edge_j], axis=1).reshape(-1).tolist()
    in_order = [k for k in dict.fromkeys(ends) if k != graph.world]
    has_nodes = (
        shown is not None
        or bool(marks)
        or in_order != [k for k in range(n) if k != graph.world]
        or graph.world not in (None, *ends)
    )
    names_world = graph.world in ends
    del ends, in_order
    empty, blank = [""] * len(more), [""] * len(marks)

    def lines() -> Iterator[list[str]]:
        for name, pose, mark in _node_rows(graph, shown, marks) if has_nodes else ():
            if name != WORLD or not names_world or name in graph.fixed:
                yield [name_text(name), "", *pose, *empty, *mark]
        for begin in range(0, m, _AT_ONCE):
            for row in _edge_rows(graph, arm, slice(begin, min(begin + _AT_ONCE, m)), name_of):
                yield row + blank

    head = "# world_origin " + " ".join(str(int(x)) for x in origin) + "\n" if np.any(origin) else ""
    return head + csv_lines(names, lines())


def _node_rows(
    graph: PoseGraph, shown: Poses | None, marks: list[str]
) -> Iterator[tuple[NodeId, list[str], list[str]]]:
    """Names, cells of the poses and marks of all nodes; the pose of a node that has none to show is empty."""
    d, held = graph.dimension, graph.fixed_at
    n_turns = len(TURN) if d == 3 else 1
    rank = {name: str(k) for k, name in enumerate(graph.fixed, 1)}
    points = set(graph.landmarks)
    known = shown
    if shown is None and graph.fixed and not (len(graph.fixed) == 1 and _at_identity(held)):
        known = held
    for begin in range(0, graph.n_nodes, _AT_ONCE):
        ids = graph.node_ids[begin : begin + _AT_ONCE]
        cells: dict[NodeId, list[str]] = {}
        if known is not None:
            placed = [name for name in ids if name != WORLD and name in known]
            cells = dict(zip(placed, _pose_texts(known.select(placed), d, graph.world_origin), strict=True))
        for name in ids:
            pose = cells.get(name, [""] * (n_turns + d))
            if name in points:
                pose[:n_turns] = [""] * n_turns
            yield name, pose, [rank.get(name, "") if which == "fixed" else "1" * (name in points) for which in marks]


def _edge_rows(graph: PoseGraph, arm: Array | None, part: slice, name_of: list[str]) -> Iterator[list[str]]:
    """Cells of some edges, one line each."""
    d, origin = graph.dimension, graph.world_origin
    turns, shifts = _turn_texts(graph.j_from_i_wxyz[part], d), number_rows(graph.j_from_i_t[part])
    fixes = np.flatnonzero(graph.edge_j[part] == (-1 if graph.world is None else graph.world))
    for k, point in zip(fixes.tolist(), point_rows(np.nan_to_num(graph.j_from_i_t[part][fixes]), origin), strict=True):
        shifts[k] = point
    groups = [columns for _, columns in _edge_cells(graph, arm, part)]
    ends = zip(graph.edge_i[part].tolist(), graph.edge_j[part].tolist(), strict=True)
    for k, ((i, j), known) in enumerate(zip(ends, graph.has_translation[part].tolist(), strict=True)):
        t = shifts[k][:d] if known else [""] * d
        yield [name_of[i], name_of[j], *turns[k], *t, *(cell for columns in groups for cell in columns[k])]


def _written_arms(graph: PoseGraph) -> Array | None:
    """Lever arms (m, 3) in the coordinates of the file, ``None`` if there are none."""
    from_world = graph.edge_i == (-1 if graph.world is None else graph.world)
    arm = np.zeros((graph.n_edges, 3)) if graph.arm is None else graph.arm
    arm = np.where(from_world[:, None], arm + graph.world_origin, arm)
    return arm if np.any(arm) else None


def _edge_cells(graph: PoseGraph, arm: Array | None, part: slice) -> list[tuple[list[str], list[list[str]]]]:
    """Names of the columns beside the motions, and their cells for some edges: noise, lever arms, priors."""
    d = graph.dimension
    known = graph.has_translation[part]
    groups = [
        _precision_columns("lambda", graph.concentration[part], np.ones_like(known), d),
        _precision_columns("tau", graph.translation_precision[part], known, d),
    ]
    if graph.coupling is not None:
        coupling = graph.coupling[part]
        values = coupling.reshape(len(coupling), 9) if d == 3 else coupling[:, :2, 2]
        groups.append((COUPLING[d], _where(np.any(coupling, axis=(1, 2)), number_rows(values))))
    if arm is not None:
        groups.append((ARM[d], _where(np.any(arm[part], axis=1), number_rows(arm[part, :d]))))
    if graph.inlier_prior is not None:
        texts = [["" if np.isnan(x) else number_text(x)] for x in graph.inlier_prior[part].tolist()]
        groups.append((["inlier_prior"], texts))
    return groups


def _where(used: Mask, texts: list[list[str]]) -> list[list[str]]:
    """Lines of cells, empty where they are not used."""
    return [row if u else [""] * len(row) for row, u in zip(texts, used.tolist(), strict=True)]


def _at_identity(poses: Poses | None) -> bool:
    return poses is None or not (np.any(poses.position) or np.any(poses.wxyz[:, 1:]))


def _turn_texts(wxyz: Array, d: int) -> list[list[str]]:
    return number_rows(wxyz if d == 3 else 2.0 * np.arctan2(wxyz[:, 3:], wxyz[:, :1]))


def _pose_texts(poses: Poses, d: int, origin: Array) -> list[list[str]]:
    """Cells of the pose of each node: rotation, then position."""
    points = point_rows(poses.position, origin)
    return [[*turn, *point[:d]] for turn, point in zip(_turn_texts(poses.wxyz, d), points, strict=True)]


def _precision_columns(name: str, value: Array, used: Mask, d: int) -> tuple[list[str], list[list[str]]]:
    if value.ndim == 1:
        names, values = [name], value[:, None]
    elif value.ndim == 2:
        names, values = [f"{name}_{k}" for k in (1, 2, 3)], value
    else:
        upper = np.triu_indices(d)
        names, values = [f"{name}_{pair}" for pair in PAIRS[d]], value[:, upper[0], upper[1]]
    return names, _where(used, number_rows(values))
