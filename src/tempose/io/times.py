"""When nodes were: their own time stamps, or a table of ids and times.

A table has a header, in any order and with any further columns (separators as in :mod:`tempose.io.csvfile`)::

    id, time            seconds; also called timestamp, stamp or t
    id, time_ns         nanoseconds, integers; also called timestamp_ns

A file of one number per line, as KITTI's ``times.txt``, has the seconds of the nodes 0, 1, 2, …
"""

from __future__ import annotations

import numpy as np

from tempose._typing import Array, NodeId, PathLike
from tempose.errors import ParseError
from tempose.io import csvfile
from tempose.io._text import NumberReader, content_lines, read_text

_SECONDS = ("time", "timestamp", "stamp", "t")
_NANOSECONDS = ("time_ns", "timestamp_ns")


def read_times(path: PathLike) -> dict[NodeId, float]:
    """Seconds of nodes by their ids; see the module for the columns."""
    text = read_text(path)
    lines = content_lines(text)
    if not lines:
        raise ParseError(path, None, "is empty; expected a table id,time or one number per line")
    if all(len(line.split()) == 1 for _, line in lines[:3]) and _is_number(lines[0][1]):
        numbers = NumberReader(path)
        rows = numbers.rows([n for n, _ in lines], [line.split() for _, line in lines], ["time"], 0, "a line of times")
        numbers.finish([])
        return {k: float(t) for k, t in enumerate(rows.values[:, 0])}
    table = csvfile.NamedColumns(path, "id")
    named = [name for name in (*_SECONDS, *_NANOSECONDS) if table.has(name)]
    if len(named) != 1:
        found = "no column says when" if not named else f"the columns {' and '.join(named)} both say when"
        raise ParseError(path, None, f"{found}; expected id,time in seconds, or id,time_ns in nanoseconds")
    seconds = table.numbers(named)[:, 0] * (1e-9 if named[0] in _NANOSECONDS else 1.0)
    out: dict[NodeId, float] = {}
    for name, line, value in zip(table.names, table.lines, seconds.tolist(), strict=True):
        if name in out:
            raise ParseError(path, line, f"node {name!r} has a time already; keep one of the two")
        out[name] = value
    return out


def times_of_names(path: PathLike, ids: tuple[NodeId, ...], unit: float) -> Array:
    """Times (n,) in seconds of nodes that are named by them, in units of ``unit`` seconds."""
    try:
        return np.array([float(name) for name in ids]) * unit
    except (ValueError, OverflowError):
        raise ParseError(path, None, "a node is not named by a number, and its time is not known") from None


def _is_number(word: str) -> bool:
    try:
        return bool(np.isfinite(float(word)))
    except ValueError:
        return False
