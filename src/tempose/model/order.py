"""The order in which nodes were recorded, as their names tell it.

Robots, scanners and cameras number what they record: 0, 1, 2, …; keyframes 0, 7, 12, …; milliseconds; ``x12``, ``kf_0012.png``.
The node with the next number is the next one in time, however much larger the number is: numbers in between belong to landmarks,
or to frames that nobody kept. Names that differ in their letters, or in a second number, are several series (robots, cameras), and
so are numbers a hundred usual steps apart (sessions): the end of one and the beginning of the next are no neighbours.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tempose._typing import Index, Mask, NodeId
from tempose.errors import NotApplicable
from tempose.model.graph import PoseGraph

_ANOTHER_SESSION = 100  # times the usual difference between consecutive numbers
_DIGITS = re.compile(r"(\d+)")


class TimeOrder(NamedTuple):
    """The order in time of names.

    Attributes
    ----------
    place
        Of each (n,); that of the next one is larger by one.
    label
        The number in each name (n,).
    """

    place: Index
    label: Index


def numbered(names: Sequence[NodeId]) -> TimeOrder | None:
    """The order of names; ``None`` if some name has no number, or two of a series have the same one."""
    if all(isinstance(name, int) for name in names):
        label, series = np.array(names, dtype=np.int64), np.zeros(len(names), dtype=np.int64)
    else:
        read = _read(names)
        if read is None:
            return None
        label, series = read
    order = np.lexsort((label, series))
    apart, inside = np.diff(label[order]), np.diff(series[order]) == 0
    if np.any(apart[inside] == 0):
        return None
    usual = np.median(apart[inside]) if inside.any() else 1.0
    is_next = inside & (apart < _ANOTHER_SESSION * usual)
    place = np.empty(len(names), dtype=np.int64)
    place[order[:1]], place[order[1:]] = 0, np.cumsum(np.where(is_next, 1, 2 * len(names)))
    return TimeOrder(place, label)


def _read(names: Sequence[NodeId]) -> tuple[Index, Index] | None:
    """The number in each name (n,), of several the one of most values, and the series (n,) that the rest makes it a part of."""
    pieces = [_DIGITS.split(str(name)) for name in names]
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, one in enumerate(pieces):
        alike[tuple(one[::2])].append(row)  # the letters
    label, series = np.empty(len(names), dtype=np.int64), np.empty(len(names), dtype=np.int64)
    of_series: dict[tuple[str, ...], int] = {}
    for letters, rows in alike.items():
        columns = list(zip(*(pieces[row][1::2] for row in rows), strict=True))
        if not columns:
            return None
        counting = max(range(len(columns)), key=lambda c: len(set(columns[c])))
        if max(map(len, columns[counting])) > 18:
            return None  # more than a number has: a hash
        for k, row in enumerate(rows):
            others = (*letters, *(column[k] for c, column in enumerate(columns) if c != counting))
            label[row], series[row] = int(columns[counting][k]), of_series.setdefault(others, len(of_series))
    return label, series


def recorded(graph: PoseGraph) -> TimeOrder | None:
    """The order of the poses of a graph, by its rows (n,); −1 for landmarks and the world."""
    rows = np.flatnonzero(_is_pose(graph))
    found = numbered([graph.node_ids[row] for row in rows.tolist()])
    if found is None:
        return None
    place, label = np.full((2, graph.n_nodes), -1, dtype=np.int64)
    place[rows], label[rows] = found
    return TimeOrder(place, label)


def steps_apart(graph: PoseGraph) -> Index:
    """How many steps in time the ends of each edge (m,) are apart; 0 where it is no motion between poses, or nobody knows."""
    found = recorded(graph)
    if found is None:
        return np.zeros(graph.n_edges, dtype=np.int64)
    motion = graph.has_rotation & ~graph.is_absolute
    return np.where(motion, np.abs(found.place[graph.edge_i] - found.place[graph.edge_j]), 0)


def known_order(graph: PoseGraph) -> TimeOrder:
    """The same; it must be known."""
    found = recorded(graph)
    if found is None:
        raise NotApplicable(
            "odometry is known by the numbers in the names of poses, in the order of recording; here some name has no number, or "
            "two have the same one"
        )
    return found


def _is_pose(graph: PoseGraph) -> Mask:
    out = ~graph.is_landmark
    if graph.world is not None:
        out[graph.world] = False
    return out
