"""Poses and graphs as tables."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tempose._support.tables import csv_lines
from tempose._typing import Array, Mask, NodeId, PathLike
from tempose.io._text import (
    exact_sum_text,
    number_text,
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


def write_poses(
    path: PathLike, poses: Poses, landmarks: Iterable[NodeId] = (), world_origin: Array | None = None
) -> None:
    """Write a table of poses, ``landmarks`` without an orientation; ``world_origin`` (3,) is added to their positions."""
    points = set(landmarks)
    position = point_texts(poses.position, world_origin)
    turns = [[""] * 4 if name in points else q for name, q in zip(poses.ids, _texts(poses.wxyz), strict=True)]
    rows = ([name_text(name), *p, *q] for name, p, q in zip(poses.ids, position, turns, strict=True))
    write_text(path, csv_lines(["id", *POSE], rows))


def point_texts(position: Array, origin: Array | None) -> list[list[str]]:
    """Positions (n, 3) plus an origin (3,), as text with all digits."""
    if origin is None or not np.any(origin):
        return _texts(position)
    shift = origin.tolist()
    return [[exact_sum_text(x, o) for x, o in zip(row, shift, strict=True)] for row in position.tolist()]


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
    everywhere = np.ones(m, dtype=bool)
    groups = [
        _precision_columns("lambda", graph.concentration, everywhere, d),
        _precision_columns("tau", graph.translation_precision, graph.has_translation, d),
    ]
    if graph.coupling is not None:
        some = np.any(graph.coupling, axis=(1, 2))
        values = graph.coupling.reshape(m, 9) if d == 3 else graph.coupling[:, :2, 2]
        groups.append(
            (COUPLING[d], [row if u else [""] * len(row) for row, u in zip(_texts(values), some, strict=True)])
        )
    from_world = graph.edge_i == (-1 if graph.world is None else graph.world)
    to_world = graph.edge_j == (-1 if graph.world is None else graph.world)
    arm = np.zeros((m, 3)) if graph.arm is None else graph.arm
    arm = np.where(from_world[:, None], arm + origin, arm)
    if np.any(arm):
        some = np.any(arm, axis=1)
        groups.append((ARM[d], [row[:d] if u else [""] * d for row, u in zip(_texts(arm), some, strict=True)]))
    if graph.inlier_prior is not None:
        texts = [["" if np.isnan(x) else number_text(x)] for x in graph.inlier_prior.tolist()]
        groups.append((["inlier_prior"], texts))
    marks = [*(["fixed"] if graph.fixed else []), *(["landmark"] if graph.landmarks else [])]
    more = [name for names, _ in groups for name in names]
    turn_names, shift_names = (TURN, ["tx", "ty", "tz"]) if d == 3 else (["theta"], ["tx", "ty"])
    names = ["i", "j", *turn_names, *shift_names, *more, *marks]
    name_of = [name_text(name) for name in graph.node_ids]
    rows = []
    ends = np.stack([graph.edge_i, graph.edge_j], axis=1).reshape(-1).tolist()
    in_order = [k for k in dict.fromkeys(ends) if k != graph.world]
    if (
        shown is not None
        or marks
        or in_order != [k for k in range(n) if k != graph.world]
        or graph.world not in (None, *ends)
    ):
        rank = {name: str(k) for k, name in enumerate(graph.fixed, 1)}
        points = set(graph.landmarks)
        held = graph.fixed_at
        known = shown if shown is not None else held if held is not None and len(graph.fixed) else None
        if shown is None and len(graph.fixed) == 1 and _at_identity(held):
            known = None
        cells_of = {} if known is None else dict(zip(known.ids, _pose_texts(known, d, origin), strict=True))
        blank = [""] * len(more)
        for k, name in enumerate(graph.node_ids):
            if name == WORLD and k in ends and name not in rank:
                continue
            pose = (
                list(cells_of.get(name, [""] * (len(turn_names) + d)))
                if name != WORLD
                else [""] * (len(turn_names) + d)
            )
            if name in points:
                pose[: len(turn_names)] = [""] * len(turn_names)
            mark = [rank.get(name, "") if which == "fixed" else "1" * (name in points) for which in marks]
            rows.append([name_of[k], "", *pose, *blank, *mark])
    turns = _turn_texts(graph.j_from_i_wxyz, d)
    shifts = _texts(graph.j_from_i_t)
    fixes = np.flatnonzero(to_world)
    exact = dict(zip(fixes.tolist(), point_texts(np.nan_to_num(graph.j_from_i_t[fixes]), origin), strict=True))
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        t = exact.get(k, shifts[k])[:d] if graph.has_translation[k] else [""] * d
        cells = [cell for _, columns in groups for cell in columns[k]]
        rows.append([name_of[i], name_of[j], *turns[k], *t, *cells, *[""] * len(marks)])
    head = "# world_origin " + " ".join(str(int(x)) for x in origin) + "\n" if np.any(origin) else ""
    return head + csv_lines(names, rows)


def _at_identity(poses: Poses | None) -> bool:
    return poses is None or not (np.any(poses.position) or np.any(poses.wxyz[:, 1:]))


def _turn_texts(wxyz: Array, d: int) -> list[list[str]]:
    return _texts(wxyz if d == 3 else 2.0 * np.arctan2(wxyz[:, 3:], wxyz[:, :1]))


def _pose_texts(poses: Poses, d: int, origin: Array) -> list[list[str]]:
    """Cells of the pose of each node: rotation, then position."""
    points = point_texts(poses.position, origin)
    return [[*turn, *point[:d]] for turn, point in zip(_turn_texts(poses.wxyz, d), points, strict=True)]


def _texts(values: Array) -> list[list[str]]:
    return [[number_text(x) for x in row] for row in values.tolist()]


def _precision_columns(name: str, value: Array, used: Mask, d: int) -> tuple[list[str], list[list[str]]]:
    if value.ndim == 1:
        names, values = [name], value[:, None]
    elif value.ndim == 2:
        names, values = [f"{name}_{k}" for k in (1, 2, 3)], value
    else:
        upper = np.triu_indices(d)
        names, values = [f"{name}_{pair}" for pair in PAIRS[d]], value[:, upper[0], upper[1]]
    return names, [row if u else [""] * len(names) for row, u in zip(_texts(values), used, strict=True)]
