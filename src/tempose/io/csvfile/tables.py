"""Tables with a header, and names of nodes in them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tempose._support.tables import FORMULA
from tempose._support.words import plural
from tempose._typing import Array, Index, Mask, NodeId, PathLike
from tempose.errors import GraphError, ParseError
from tempose.io._text import (
    NumberReader,
    read_text,
    unit_quaternions,
)
from tempose.model.measurements import about_z
from tempose.model.poses import POSE_COLUMNS

FORMAT = "csv"
TURN = ["qw", "qx", "qy", "qz"]
POSE = list(POSE_COLUMNS)
PAIRS = {3: ["xx", "xy", "xz", "yy", "yz", "zz"], 2: ["xx", "xy", "yy"]}
COUPLING = {3: [f"coupling_{a}{b}" for a in "xyz" for b in "xyz"], 2: ["coupling_x", "coupling_y"]}
ARM = {3: ["arm_x", "arm_y", "arm_z"], 2: ["arm_x", "arm_y"]}
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_ORIGIN = re.compile(r"^#\s*world_origin\s+(-?\d{1,15})\s+(-?\d{1,15})\s+(-?\d{1,15})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class CsvTable:
    """A table with a header: column numbers by name, and the rows with their line."""

    path: PathLike
    column: dict[str, int]
    line: list[int]
    cells: list[list[str]]
    origin: Array | None
    """What the table says was subtracted from coordinates of the world (3,)."""

    @property
    def is_planar(self) -> bool:
        """Whether rotations are angles in the plane."""
        return not any(name in self.column for name in TURN) and bool({"theta", "theta_deg"} & set(self.column))

    @property
    def turn_names(self) -> list[str]:
        """Columns of rotations."""
        if not self.is_planar:
            return TURN
        return ["theta"] if "theta" in self.column else ["theta_deg"]

    def turns(self, reader: NumberReader, rows: Sequence[int], what: str, notices: list[str]) -> Array:
        """Quaternions (k, 4) of some rows."""
        values = self.numbers(reader, rows, self.turn_names)
        if self.is_planar:
            return about_z(values[:, 0] if "theta" in self.column else np.radians(values[:, 0]))
        return unit_quaternions(self.path, self.lines(rows), values, what, notices)

    def pick(self, rows: Sequence[int], names: Sequence[str]) -> list[list[str]]:
        """The named cells of some rows."""
        columns = [self.column[name] for name in names]
        return [[self.cells[r][c].strip() for c in columns] for r in rows]

    def numbers(self, reader: NumberReader, rows: Sequence[int], names: Sequence[str]) -> Array:
        """The named cells of some rows as numbers."""
        picked = self.pick(rows, names)
        for r, row in zip(rows, picked, strict=True):
            if "" in row:
                raise ParseError(self.path, self.line[r], f"{names[row.index('')]} is empty; expected a number")
        return reader.rows([self.line[r] for r in rows], picked, names, 0).values

    def filled(self, row: int, names: Sequence[str], what: str) -> bool:
        """Whether the cells of a group are filled; some but not all is an error."""
        given = [name for name in names if name in self.column and self.cells[row][self.column[name]].strip()]
        if given and len(given) < len(names):
            missing = next(name for name in names if name not in given)
            raise ParseError(self.path, self.line[row], f"the {what} is incomplete: {missing} is empty")
        return bool(given)

    def lines(self, rows: Sequence[int]) -> Index:
        """Line numbers of some rows."""
        return np.array([self.line[r] for r in rows], dtype=np.int64)


def header(text: str) -> tuple[list[str], str]:
    """Column names of the first row that is not a comment, in lower case, and the separator."""
    first = next((line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    delimiter = max(",;\t", key=first.count)
    return [cell.strip().strip('"').strip().lower() for cell in first.split(delimiter)], delimiter


def read_table(path: PathLike, required: Sequence[str], aliases: Sequence[tuple[str, str]] = ()) -> CsvTable:
    """A table that has the required columns; ``aliases`` are other names and what they stand for."""
    text = read_text(path)
    names, delimiter = header(text)
    for other, name in aliases:
        if name not in names and other in names:
            names[names.index(other)] = name
    if "theta" in names or "theta_deg" in names:
        required = [name for name in required if name not in (*TURN, "z")]
    for name in required:
        if name not in names:
            expected = f"expected the columns {','.join(required)} in the first row"
            raise ParseError(path, None, f"there is no column {name!r}; {expected}")
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        raise ParseError(path, None, f"the column {repeated!r} occurs twice")
    line, cells, started = [], [], False
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        before = 0
        for row in reader:
            number, before = before + 1, reader.line_num
            if not row or row[0].lstrip().startswith("#") or not any(cell.strip() for cell in row):
                continue
            if not started:  # the header
                started = True
                continue
            if len(row) != len(names):
                raise ParseError(path, number, f"the row has {plural(len(row), 'cell')}, the header {len(names)}")
            line.append(number)
            cells.append(row)
    except csv.Error as error:
        raise ParseError(path, reader.line_num, f"is not valid CSV: {error}") from None
    told = _ORIGIN.search(text)
    origin = None if told is None else np.array([float(x) for x in told.groups()])
    return CsvTable(path, {name: k for k, name in enumerate(names)}, line, cells, origin)


class NamedColumns:
    """A table with a row per node, for readers of other tables: its columns by name, and errors with their line."""

    def __init__(self, path: PathLike, key: str) -> None:
        self._table = read_table(path, [key])
        if not self._table.cells:
            raise ParseError(path, None, "the table has a header only")
        self._reader = NumberReader(path)
        self._rows = range(len(self._table.cells))
        column = self._table.column[key]
        self.lines = tuple(self._table.line)
        self.names: tuple[NodeId, ...] = tuple(
            read_name(path, line, row[column], key) for line, row in zip(self.lines, self._table.cells, strict=True)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(self._table.column)

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self._table.column

    def words(self, names: Sequence[str]) -> Array:
        """Cells as text (k, d); empty where there is no such column."""
        columns = [
            self._table.pick(self._rows, [name]) if self.has(name) else [[""]] * len(self._rows) for name in names
        ]
        return np.array([[cell for (cell,) in row] for row in zip(*columns, strict=True)], dtype=object)

    def numbers(self, names: Sequence[str]) -> Array:
        """Cells as numbers (k, d), none of them empty."""
        return self._table.numbers(self._reader, self._rows, names)

    def optional(self, name: str, default: float) -> Array:
        """A column as numbers (k,), with a default where it is empty or not there."""
        words = self.words([name])[:, 0]
        given = [r for r in self._rows if words[r]]
        out = np.full(len(self._rows), default)
        if given:
            out[given] = self._table.numbers(self._reader, given, [name])[:, 0]
        return out

    def refuse(self, bad: Mask, why: str) -> None:
        """An error for the first row that is bad (k,)."""
        for r in np.flatnonzero(bad):
            raise ParseError(self._table.path, self.lines[r], why)


def read_name(path: PathLike, line: int, cell: str, column: str) -> NodeId:
    """The name of a node as a cell says it."""
    text = cell.lstrip()
    if text.startswith("'"):
        return text[1:]
    text = text.rstrip()
    if not text:
        raise ParseError(path, line, f"{column} is empty; expected the name of a node")
    if not _INTEGER.fullmatch(text):
        return text
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ParseError(
            path, line, f"{column} is {text[:40]}, beyond 64 bits; put an apostrophe in front to mean text"
        )
    return int(text)


def name_text(name: NodeId) -> str:
    """A node's name as it stands in a table: text that looks like a number or a formula has an apostrophe in front."""
    if isinstance(name, int):
        if not -(2**63) <= name < 2**63:
            raise GraphError(f"node {name} is beyond the 64-bit integers; rename it")
        return str(int(name))
    if "\0" in name or "\r" in name:
        raise GraphError(f"node {name!r} has a control character in its name that CSV cannot hold; rename it")
    plain = name and name == name.strip() and not name.startswith(("'", "#", *FORMULA)) and not _INTEGER.fullmatch(name)
    return name if plain else "'" + name
