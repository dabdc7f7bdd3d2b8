"""CSV tables, tempose's own format: the one that holds every graph and every name.

The first row names the columns, which may stand in any order; the separator is a comma, a semicolon or a tab (with a
semicolon or tab, numbers may have decimal commas). Lines that start with ``#`` are comments.

**Graph**, one row per edge::

    i, j, qw, qx, qy, qz, tx, ty, tz, lambda, tau

measures ``j_from_i``: ``x_j = R(q) x_i + t``, with potential

    U = λ |ν|² + ½ τ |t − R_j (c_i − c_j)|²,   ν = vec(q ⊗ conj(q_j q̄_i)),   |ν| = sin(θ/2).

- ``tx, ty, tz`` (or ``x, y, z``) empty, or left out of the table: a rotation-only edge (its ``tau`` is not looked at).
- ``qw, qx, qy, qz`` empty: an edge that measures a position only (its ``lambda`` is not looked at).
- instead of ``lambda``: ``lambda_1, lambda_2, lambda_3`` (``νᵀ diag(λ) ν``) or the upper triangle ``lambda_xx,
  lambda_xy, lambda_xz, lambda_yy, lambda_yz, lambda_zz`` (``νᵀΛν``); instead of ``tau``: ``tau_1, tau_2, tau_3`` or
  ``tau_xx … tau_zz``; axes of node j. Or ``sigma_rot_deg`` (degrees) and ``sigma_trans``: ``λ = 2/σ²``, ``τ = 1/σ²``; without
  any such column the options of these names must be given.
- errors of rotation and translation that are correlated: ``coupling_xx … coupling_zz``, the nine numbers of B by rows
  (``½ τ |r + Bs|²``, ``s = 2wν``; :class:`tempose.model.graph.PoseGraph`). Or, in place of all these, the joint information or
  covariance of the error (rotation vector in radians, translation) of measured against true, in the axes of j: its upper
  triangle ``info_rx_rx, info_rx_ry, …, info_z_z`` or ``cov_rx_rx …``, axes in the order ``rx ry rz x y z``; cells of what was
  not measured are empty.
- ``arm_x, arm_y, arm_z``: the point of node i that the translation is about, in i's frame (``c_i + R_iᵀ arm`` in place of c_i).
- the optional column ``inlier_prior`` holds the prior probability, above 0 and at most 1, that the edge is right, for robust
  solves; empty where the edge has none of its own.
- a row with an empty ``j`` declares node i; its q and t, if given, are the node's pose ``world_from_node``, a start and
  not a measurement. A number from 1 in the optional column ``fixed`` declares the node fixed there, the first one first; a 1 in
  the column ``landmark``, here or in a row that starts at it, that it has a position only.
- a row with ``world`` for j is about node i alone: ``tx, ty, tz`` is its measured position (of its antenna, with an arm), q its
  measured orientation ``world_from_node``, precisions in the axes of the world.

**In the plane** ``theta`` (radians) or ``theta_deg`` stands in place of ``qw, qx, qy, qz``, and there is no z::

    i, j, theta, tx, ty, lambda, tau

with ``tau_xx, tau_xy, tau_yy`` for a matrix, ``coupling_x, coupling_y`` for B, ``info_theta_theta, info_theta_x, …, info_y_y`` for
the joint information (θ in radians first), and ``arm_x, arm_y``.

Coordinates of the world beyond 10 000 are those of a map: a whole-numbered origin is subtracted, digit by digit, and added
again on writing, with the comment ``# world_origin x y z`` that says what it was.

**Poses**, one row per node, ``world_from_node``: ``x_world = R(q) x_node + (x, y, z)``, in the plane ``theta`` in place of q and
no z; more columns are ignored. A landmark has a position only: its cells of q or ``theta`` are empty::

    id, x, y, z, qw, qx, qy, qz

A name that is a plain decimal integer within 64 bits is an integer; every other name is text. Text that looks like an
integer, that begins with ``#`` or ``'``, or that begins or ends with a blank is written with an apostrophe in front
(``'7``; ``007`` needs none), which reading removes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose._support.tables import csv_lines
from tempose._typing import Array, Index, Mask, NodeId, PathLike
from tempose.errors import GraphError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io._text import (
    NumberReader,
    exact_difference,
    exact_sum_text,
    number_text,
    plural,
    read_text,
    unit_quaternions,
    write_text,
)
from tempose.io.options import ReadOptions
from tempose.model import absolute
from tempose.model import precision as precisions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.measurements import about_z, origin_of
from tempose.model.poses import POSE_COLUMNS, Poses

FORMAT = "csv"
_Q = ["qw", "qx", "qy", "qz"]
_POSE = list(POSE_COLUMNS)
_PAIRS = {3: ["xx", "xy", "xz", "yy", "yz", "zz"], 2: ["xx", "xy", "yy"]}
_COUPLING = {3: [f"coupling_{a}{b}" for a in "xyz" for b in "xyz"], 2: ["coupling_x", "coupling_y"]}
_ARM = {3: ["arm_x", "arm_y", "arm_z"], 2: ["arm_x", "arm_y"]}
_JOINT_AXES = {3: ["rx", "ry", "rz", "x", "y", "z"], 2: ["theta", "x", "y"]}
_JOINT_ROWS = {3: np.arange(6), 2: np.array([2, 3, 4])}
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_ORIGIN = re.compile(r"^#\s*world_origin\s+(-?\d{1,15})\s+(-?\d{1,15})\s+(-?\d{1,15})\s*$", re.MULTILINE)


# ---------------------------------------------------------------------- tables and names


@dataclass(frozen=True)
class _Table:
    """A table with a header: column numbers by name, and the rows with their line."""

    path: PathLike
    column: dict[str, int]
    line: list[int]
    cells: list[list[str]]
    origin: Array | None
    """What the table says was subtracted from coordinates of the world (3,)."""

    @property
    def is_planar(self) -> bool:
        return not any(name in self.column for name in _Q) and bool({"theta", "theta_deg"} & set(self.column))

    @property
    def turn_names(self) -> list[str]:
        """Columns of rotations."""
        if not self.is_planar:
            return _Q
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
        return np.array([self.line[r] for r in rows], dtype=np.int64)


def header(text: str) -> tuple[list[str], str]:
    """Column names of the first row that is not a comment, in lower case, and the separator."""
    first = next((line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    delimiter = max(",;\t", key=first.count)
    return [cell.strip().strip('"').strip().lower() for cell in first.split(delimiter)], delimiter


def _read_table(path: PathLike, required: Sequence[str], aliases: Sequence[tuple[str, str]] = ()) -> _Table:
    text = read_text(path)
    names, delimiter = header(text)
    for other, name in aliases:
        if name not in names and other in names:
            names[names.index(other)] = name
    if "theta" in names or "theta_deg" in names:
        required = [name for name in required if name not in (*_Q, "z")]
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
    return _Table(path, {name: k for k, name in enumerate(names)}, line, cells, origin)


class NamedColumns:
    """A table with a row per node, for readers of other tables: its columns by name, and errors with their line."""

    def __init__(self, path: PathLike, key: str) -> None:
        self._table = _read_table(path, [key])
        if not self._table.cells:
            raise ParseError(path, None, "the table has a header only")
        self._reader = NumberReader(path)
        self._rows = range(len(self._table.cells))
        column = self._table.column[key]
        self.lines = tuple(self._table.line)
        self.names: tuple[NodeId, ...] = tuple(
            _read_name(path, line, row[column], key) for line, row in zip(self.lines, self._table.cells, strict=True)
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


def _read_name(path: PathLike, line: int, cell: str, column: str) -> NodeId:
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
    """A node's name as it stands in a table: text that looks like a number has an apostrophe in front."""
    if isinstance(name, int):
        if not -(2**63) <= name < 2**63:
            raise GraphError(f"node {name} is beyond the 64-bit integers; rename it")
        return str(int(name))
    if "\0" in name or "\r" in name:
        raise GraphError(f"node {name!r} has a control character in its name that CSV cannot hold; rename it")
    plain = name and name == name.strip() and name[0] not in "'#" and not _INTEGER.fullmatch(name)
    return name if plain else "'" + name


def _write_table(path: PathLike, names: Sequence[str], rows: Iterable[Sequence[str]], head: str = "") -> None:
    write_text(path, head + csv_lines(names, rows))


# ---------------------------------------------------------------------- poses


def read_poses(path: PathLike, *, exact: bool = False, origin: Array | None = None) -> Poses:
    """Read a table of poses; see the module for the columns. Landmarks, which have no orientation, are unturned.

    ``exact``: to the bit, as :func:`write_poses` wrote them. ``origin`` (3,) is subtracted from the positions, digit by digit.
    """
    return read_vertices(path, exact=exact, origin=origin)[0]


def read_vertices(
    path: PathLike, *, exact: bool = False, origin: Array | None = None
) -> tuple[Poses, bool, tuple[NodeId, ...]]:
    """The poses of a table, whether it is planar, and which nodes are landmarks: those without an orientation."""
    table = _read_table(path, ["id", *_POSE])
    if not table.cells:
        raise ParseError(path, None, "no poses found: the table has a header only")
    reader = NumberReader(path)
    rows = range(len(table.cells))
    names = ["x", "y"] if table.is_planar else ["x", "y", "z"]
    position = np.zeros((len(rows), 3))
    position[:, : len(names)] = table.numbers(reader, rows, names)
    if origin is not None and np.any(origin):
        words = np.array(table.pick(rows, names), dtype=object)
        position[:, : len(names)] = exact_difference(words, origin[: len(names)])
    turned = [r for r in rows if table.filled(r, table.turn_names, "rotation")]
    wxyz = np.tile(quat.IDENTITY, (len(rows), 1))
    if turned:
        as_it_stands = exact and not table.is_planar
        wxyz[turned] = table.numbers(reader, turned, _Q) if as_it_stands else table.turns(reader, turned, "poses", [])
    reader.finish([])
    first: dict[NodeId, int] = {}
    for r in rows:
        name = _read_name(path, table.line[r], table.cells[r][table.column["id"]], "id")
        if first.setdefault(name, r) != r:
            before = table.line[first[name]]
            raise ParseError(path, table.line[r], f"node {name!r} is in line {before} already; keep one of the two")
    has_turn = set(turned)
    landmarks = tuple(name for name, r in first.items() if r not in has_turn)
    return Poses(tuple(first), wxyz, position), table.is_planar, landmarks


def write_poses(
    path: PathLike, poses: Poses, landmarks: Iterable[NodeId] = (), world_origin: Array | None = None
) -> None:
    """Write a table of poses, ``landmarks`` without an orientation; ``world_origin`` (3,) is added to their positions."""
    points = set(landmarks)
    position = point_texts(poses.position, world_origin)
    turns = [[""] * 4 if name in points else q for name, q in zip(poses.ids, _texts(poses.wxyz), strict=True)]
    rows = ([name_text(name), *p, *q] for name, p, q in zip(poses.ids, position, turns, strict=True))
    _write_table(path, ["id", *_POSE], rows)


def point_texts(position: Array, origin: Array | None) -> list[list[str]]:
    """Positions (n, 3) plus an origin (3,), as text with all digits."""
    if origin is None or not np.any(origin):
        return _texts(position)
    shift = origin.tolist()
    return [[exact_sum_text(x, o) for x, o in zip(row, shift, strict=True)] for row in position.tolist()]


# ---------------------------------------------------------------------- reading a graph


_ALIASES = (("x", "tx"), ("y", "ty"), ("z", "tz"))


def read_graph(path: PathLike, options: ReadOptions | None = None, *, trusted: bool = False) -> PoseGraph:
    """Read a graph; see the module for columns and equations. ``trusted``: it may contradict itself, others have judged it."""
    options = options or ReadOptions()
    notices: list[str] = []
    table = _read_table(path, ["i", "j", *_Q], _ALIASES)
    reader = NumberReader(path)
    declared, edges = _split(table)
    if not edges:
        raise ParseError(path, None, "no edges found: expected rows with i, j and qw, qx, qy, qz")
    dimension = 2 if table.is_planar else 3
    if dimension == 2 and "tz" in table.column:
        raise ParseError(
            path, None, "the table has theta, so that it is planar, and a column for z; remove one of the two"
        )
    shift_names = ["tx", "ty", "tz"][:dimension]
    own = [_read_name(path, table.line[r], table.cells[r][table.column["i"]], "i") for r in declared]
    ids: dict[NodeId, int] = {}
    for name, r in zip(own, declared, strict=True):
        if name in ids:
            raise ParseError(path, table.line[r], f"node {name!r} is declared twice; keep one of the two rows")
        ids[name] = len(ids)
    ends = []
    for r in edges:
        i, j = (_read_name(path, table.line[r], table.cells[r][table.column[column]], column) for column in "ij")
        if i == j:
            raise ParseError(path, table.line[r], f"the edge joins node {i!r} to itself; remove it")
        ends.append((i, j))
        ids.setdefault(i, len(ids)), ids.setdefault(j, len(ids))
    if WORLD in ids:  # comes last
        ids = {name: k for k, name in enumerate([*(name for name in ids if name != WORLD), WORLD])}
    landmarks = _landmarks(table, reader, [*declared, *edges], [*own, *(i for i, _ in ends)])

    turned = [k for k, r in enumerate(edges) if table.filled(r, table.turn_names, "rotation")]
    moved = [k for k, r in enumerate(edges) if table.filled(r, shift_names, "translation")]
    for r in edges:
        if not _any(table, r, [*table.turn_names, *shift_names]):
            raise ParseError(
                path, table.line[r], f"the row measures nothing: {table.turn_names[0]} is empty, and so is tx"
            )
    wxyz, t = np.tile(quat.IDENTITY, (len(edges), 1)), np.full((len(edges), 3), np.nan)
    wxyz[turned] = table.turns(reader, [edges[k] for k in turned], "edges", notices) if turned else 0.0
    t[moved] = 0.0
    t[np.ix_(moved, range(dimension))] = table.numbers(reader, [edges[k] for k in moved], shift_names) if moved else 0.0
    arm = _optional(table, reader, edges, _ARM[dimension], "lever arm")
    arm = np.column_stack([arm, np.zeros((len(edges), 3 - dimension))])

    posed = [k for k, r in enumerate(declared) if _has_pose(table, r, own[k] in landmarks, shift_names)]
    places = np.zeros((len(posed), 3))
    places[:, :dimension] = table.numbers(reader, [declared[k] for k in posed], shift_names) if posed else 0.0
    to_world = [k for k in moved if ends[k][1] == WORLD]
    origin = origin_of(np.concatenate([places, t[to_world]])) if table.origin is None else table.origin
    if np.any(origin):
        for rows, values in (([declared[k] for k in posed], places), ([edges[k] for k in to_world], None)):
            if rows:
                words = np.array(table.pick(rows, shift_names), dtype=object)
                exact = exact_difference(words, origin[:dimension])
                if values is not None:
                    values[:, :dimension] = exact
                else:
                    t[np.ix_(to_world, range(dimension))] = exact
        from_world = [k for k, (i, _) in enumerate(ends) if i == WORLD]
        arm[from_world] -= origin
    turns = np.tile(quat.IDENTITY, (len(posed), 1))
    whole = [k for k in range(len(posed)) if own[posed[k]] not in landmarks]
    if whole:
        turns[whole] = table.turns(reader, [declared[posed[k]] for k in whole], "nodes", notices)
    known = Poses(tuple(own[k] for k in posed), turns, places)
    fixed = _fixed(table, reader, declared, own)
    lost = [name for name in fixed if name not in known and name != WORLD]
    if lost and (len(fixed) > 1 or WORLD in ids):
        why = f"node {lost[0]!r} is fixed, and nothing says where, as it must if more than one thing is: give its pose"
        raise ParseError(path, table.line[declared[own.index(lost[0])]], why)
    missing = [name for name in ids if name not in known and name != WORLD]
    initial = known if len(posed) and not missing else None
    if missing and any(name not in fixed for name in known):
        notices.append(f"{plural(len(missing), 'node')} without a pose; the poses given are not used as a start")

    noise = _read_noise(table, reader, edges, turned, moved, dimension, options, notices)
    inlier_prior = _read_inlier_prior(table, reader, edges)
    reader.finish(notices)
    graph = PoseGraph(
        tuple(ids),
        np.array([ids[i] for i, _ in ends], dtype=np.int64),
        np.array([ids[j] for _, j in ends], dtype=np.int64),
        wxyz,
        t,
        *noise[:2],
        inlier_prior=inlier_prior,
        initial=initial,
        fixed=tuple(fixed),
        notices=tuple(notices),
        origin={
            "file": Path(path).name,
            "format": FORMAT,
            "rotation_information": "lambda",
            "precision": options.precision,
            "sigma_rot_deg": repr(options.sigma_rot_deg),
            "sigma_trans": repr(options.sigma_trans),
        },
        dimension=dimension,
        coupling=noise.coupling,
        arm=arm,
        landmarks=tuple(name for name in ids if name in landmarks),
        fixed_at=known.select([name for name in fixed if name in known]),
        world_origin=origin,
    )
    for k, sigmas in () if trusted else zip(*absolute.contradictions(graph), strict=True):
        name = next(name for name in ends[k] if name != WORLD)
        why = f"node {name!r} is measured {sigmas:.3g} σ from where it is fixed; one of the two is wrong"
        raise ParseError(path, table.line[edges[k]], why)
    return graph


def _split(table: _Table) -> tuple[list[int], list[int]]:
    """Rows that declare a node (``j`` empty), and rows that are edges."""
    column = table.column["j"]
    declared = [r for r, row in enumerate(table.cells) if not row[column].strip()]
    gone = set(declared)
    return declared, [r for r in range(len(table.cells)) if r not in gone]


def _any(table: _Table, row: int, names: Sequence[str]) -> bool:
    return any(name in table.column and table.cells[row][table.column[name]].strip() for name in names)


def _has_pose(table: _Table, row: int, is_landmark: bool, shift_names: Sequence[str]) -> bool:
    return table.filled(row, [*([] if is_landmark else table.turn_names), *shift_names], "pose of the node")


def _marks(table: _Table, reader: NumberReader, name: str, rows: Sequence[int]) -> list[int]:
    """The integers of a column, 0 where it is empty or not there."""
    if name not in table.column:
        return [0] * len(rows)
    return [
        reader.integer(cell or "0", table.line[r], name)
        for r, (cell,) in zip(rows, table.pick(rows, [name]), strict=True)
    ]


def _landmarks(table: _Table, reader: NumberReader, rows: Sequence[int], names: Sequence[NodeId]) -> set[NodeId]:
    return {name for name, mark in zip(names, _marks(table, reader, "landmark", rows), strict=True) if mark > 0}


def _fixed(table: _Table, reader: NumberReader, rows: list[int], names: list[NodeId]) -> list[NodeId]:
    rank = {name: place for name, place in zip(names, _marks(table, reader, "fixed", rows), strict=True) if place > 0}
    return sorted(rank, key=lambda name: rank[name])


def _optional(table: _Table, reader: NumberReader, edges: list[int], names: list[str], what: str) -> Array:
    """Columns (m, k) that may be missing or empty: zero there."""
    out = np.zeros((len(edges), len(names)))
    given = [k for k, r in enumerate(edges) if table.filled(r, names, what)]
    if given:
        out[given] = table.numbers(reader, [edges[k] for k in given], names)
    return out


def _read_inlier_prior(table: _Table, reader: NumberReader, edges: list[int]) -> Array | None:
    """Prior inlier probabilities (m,), NaN where empty; ``None`` without the column."""
    name = "inlier_prior"
    if name not in table.column:
        return None
    given = [k for k, r in enumerate(edges) if table.filled(r, [name], name)]
    prior = np.full(len(edges), np.nan)
    if given:
        prior[given] = table.numbers(reader, [edges[k] for k in given], [name])[:, 0]
    for k in given:
        if not 0.0 < prior[k] <= 1.0:
            raise ParseError(
                table.path, table.line[edges[k]], f"{name} is {prior[k]:g}; expected above 0 and at most 1, or nothing"
            )
    return prior


def _read_noise(
    table: _Table,
    reader: NumberReader,
    edges: list[int],
    turned: list[int],
    moved: list[int],
    dimension: int,
    options: ReadOptions,
    notices: list[str],
) -> precisions.EdgeNoise:
    """How sure the edges are, as ``options.precision`` asks."""
    joint = _read_joint(table, reader, edges, turned, moved, dimension)
    coupling = _optional(table, reader, edges, _COUPLING[dimension], "coupling")
    tied = np.zeros((len(edges), 3, 3))
    if dimension == 3:
        tied[:] = coupling.reshape(-1, 3, 3)
    else:
        tied[:, :2, 2] = coupling
    if joint is not None:
        still = np.tile(quat.IDENTITY, (len(edges), 1))
        full = precisions.noise(joint, still, dimension)
    else:
        parts = (
            _read_precision(table, reader, name, edges, used, default, option, getattr(options, option) is not None,
                            notices, dimension)
            for name, used, default, option in (
                ("lambda", turned, options.default_concentration, "sigma_rot_deg"),
                ("tau", moved, options.default_precision, "sigma_trans"),
            )
        )  # fmt: skip
        concentration, precision = parts
        full = precisions.EdgeNoise(concentration, precision, tied)
        joint = precisions.joint(_matrices(full.concentration), _matrices(full.translation_precision), tied)
        if dimension == 2:
            keep = np.isin(np.arange(6), _JOINT_ROWS[2])
            joint = joint * (keep[:, None] & keep)
    if options.precision == "full":
        return full
    for name, axes in (("lambda", precisions.ROTATION), ("tau", precisions.TRANSLATION)):
        blocks = joint[:, axes[dimension][:, None], axes[dimension]]
        bad = np.flatnonzero(~precisions.is_definite(blocks) & ~precisions.is_zero(blocks))
        if len(bad):
            why = f"the {name} matrix is not positive definite; precision full keeps it as it is"
            raise ParseError(table.path, table.line[edges[bad[0]]], why)
    notice = precisions.reduction_notice(joint, dimension, options.precision)
    notices.extend([notice] if notice else [])
    one_number = precisions.marginal_numbers if options.precision == "isotropic" else precisions.block_numbers
    return one_number(joint, dimension)


def _read_joint(
    table: _Table, reader: NumberReader, edges: list[int], turned: list[int], moved: list[int], dimension: int
) -> Array | None:
    """Joint informations (m, 6, 6) in j's axes, if the table has them, or covariances."""
    axes, rows_of = _JOINT_AXES[dimension], _JOINT_ROWS[dimension]
    upper = np.triu_indices(len(axes))
    for prefix in ("info", "cov"):
        names = [f"{prefix}_{axes[a]}_{axes[b]}" for a, b in zip(*upper, strict=True)]
        if not any(name in table.column for name in names):
            continue
        lacking = next((name for name in names if name not in table.column), None)
        others = [name for name in table.column if name.startswith(("lambda", "tau", "coupling"))]
        if lacking is not None or others:
            why = f"there is no column {lacking!r}" if lacking else f"{others[0]!r} says it again"
            raise ParseError(
                table.path, None, f"the columns {names[0]} … {names[-1]} say how sure edges are, but {why}"
            )
        cells = [[cell or "0" for cell in row] for row in table.pick(edges, names)]
        values = reader.rows([table.line[r] for r in edges], cells, names, 0).values
        own = np.zeros((len(edges), len(axes), len(axes)))
        own[:, upper[0], upper[1]] = own[:, upper[1], upper[0]] = values
        seen = np.zeros((len(edges), 6), dtype=bool)
        seen[np.ix_(turned, range(3))] = True
        seen[np.ix_(moved, range(3, 6))] = True
        own *= seen[:, rows_of][:, :, None] & seen[:, rows_of][:, None, :]
        whole = np.zeros((len(edges), 6, 6))
        if prefix == "cov":
            own = _inverses(table, edges, own)
        whole[:, rows_of[:, None], rows_of] = own
        bad = np.flatnonzero(precisions.is_jointly_indefinite(whole))
        if len(bad):
            raise ParseError(
                table.path, table.line[edges[bad[0]]], f"the matrix of the {prefix}_ columns is indefinite"
            )
        tied = np.flatnonzero(precisions.ties_the_unmeasured(whole))
        if len(tied):
            why = "is singular: it ties the translation to a rotation that it does not measure"
            raise ParseError(table.path, table.line[edges[tied[0]]], f"the matrix of the {prefix}_ columns {why}")
        return whole
    return None


def _inverses(table: _Table, edges: list[int], covariance: Array) -> Array:
    """Inverses of covariances (m, d, d) among the axes that have a variance."""
    out = np.zeros(covariance.shape)
    for k, own in enumerate(covariance):
        known = np.flatnonzero(np.diagonal(own) != 0.0)
        block = own[np.ix_(known, known)]
        if not precisions.is_definite(block[None])[0]:
            why = "the covariance is singular or indefinite; use info_ columns if an axis was not measured"
            raise ParseError(table.path, table.line[edges[k]], why)
        inverse = np.linalg.inv(block)
        out[k][np.ix_(known, known)] = 0.5 * (inverse + inverse.T)
    return out


def _matrices(value: Array) -> Array:
    if value.ndim == 3:
        return value
    return (value if value.ndim == 2 else np.repeat(value[:, None], 3, axis=1))[:, :, None] * np.eye(3)


def _read_precision(
    table: _Table,
    reader: NumberReader,
    name: str,
    edges: list[int],
    used: Sequence[int],
    default: float | None,
    option: str,
    given: bool,
    notices: list[str],
    dimension: int,
) -> Array:
    """One kind of precision as (m,), (m, 3) or (m, 3, 3), zero where ``used`` does not name the edge."""
    pairs = _PAIRS[dimension]
    shapes = [[name], [f"{name}_{k}" for k in (1, 2, 3)][:dimension], [f"{name}_{pair}" for pair in pairs]]
    if dimension == 2 and name == "lambda":
        shapes = shapes[:1]
    found = [names for names in shapes if any(column in table.column for column in names)]
    m = len(edges)
    rows = [edges[k] for k in used]
    if not found and option in table.column:
        sigma = table.numbers(reader, rows, [option])[:, 0]
        for r in [r for r, x in zip(rows, sigma, strict=True) if not 1e-50 < x < 1e50]:
            raise ParseError(table.path, table.line[r], f"{option} is not above zero")
        values = np.zeros(m)
        values[list(used)] = 2.0 / np.radians(sigma) ** 2 if name == "lambda" else 1.0 / sigma**2
        return values
    if not found:
        if default is None and len(used):
            raise ParseError(table.path, None, f"there is no column {name!r}; add one, or give {option} for all edges")
        values = np.zeros(m)
        values[list(used)] = default or 0.0
        return values
    if len(found) > 1 or any(column not in table.column for column in found[0]):
        expected = " or ".join(",".join(names) for names in shapes)
        raise ParseError(table.path, None, f"the columns of {name} do not fit together; expected {expected}")
    if given:
        notices.append(f"{option} was not used: the table has a column of its own for it")
    names = found[0]
    values = np.zeros((m, len(names)))
    values[list(used)] = table.numbers(reader, rows, names) if len(used) else 0.0
    if names[-1].endswith(pairs[-1]):
        full = np.zeros((m, 3, 3))
        upper = np.triu_indices(dimension)
        full[:, upper[0], upper[1]] = full[:, upper[1], upper[0]] = values
        bad = ~precisions.is_semidefinite(full)
    else:
        full = values[:, 0] if len(names) == 1 else values
        bad = np.any(values < 0.0, axis=1)
    if bad.any():
        line = table.line[edges[int(np.flatnonzero(bad)[0])]]
        raise ParseError(table.path, line, f"{name} is negative or indefinite; a precision is 0 or more")
    if full.ndim == 2 and name == "tau":  # a translation has no three-number form: its axes are a diagonal matrix
        return _matrices(np.column_stack([values, np.zeros((m, 3 - dimension))]))
    return full


# ---------------------------------------------------------------------- writing a graph


def write_graph(path: PathLike, graph: PoseGraph, poses: Poses | None = None) -> None:
    """Write a graph with everything it holds but its notices and origin; read it with ``precision="full"``.

    ``poses``, in the graph's own coordinates, take the place of its initial ones.
    """
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
            (_COUPLING[d], [row if u else [""] * len(row) for row, u in zip(_texts(values), some, strict=True)])
        )
    from_world = graph.edge_i == (-1 if graph.world is None else graph.world)
    to_world = graph.edge_j == (-1 if graph.world is None else graph.world)
    arm = np.zeros((m, 3)) if graph.arm is None else graph.arm
    arm = np.where(from_world[:, None], arm + origin, arm)
    if np.any(arm):
        some = np.any(arm, axis=1)
        groups.append((_ARM[d], [row[:d] if u else [""] * d for row, u in zip(_texts(arm), some, strict=True)]))
    if graph.inlier_prior is not None:
        texts = [["" if np.isnan(x) else number_text(x)] for x in graph.inlier_prior.tolist()]
        groups.append((["inlier_prior"], texts))
    marks = [*(["fixed"] if graph.fixed else []), *(["landmark"] if graph.landmarks else [])]
    more = [name for names, _ in groups for name in names]
    turn_names, shift_names = (_Q, ["tx", "ty", "tz"]) if d == 3 else (["theta"], ["tx", "ty"])
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
    exact = point_texts(np.nan_to_num(graph.j_from_i_t), origin)
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        t = (exact[k] if to_world[k] else shifts[k])[:d] if graph.has_translation[k] else [""] * d
        cells = [cell for _, columns in groups for cell in columns[k]]
        rows.append([name_of[i], name_of[j], *turns[k], *t, *cells, *[""] * len(marks)])
    head = "# world_origin " + " ".join(str(int(x)) for x in origin) + "\n" if np.any(origin) else ""
    _write_table(path, names, rows, head)


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
        names, values = [f"{name}_{pair}" for pair in _PAIRS[d]], value[:, upper[0], upper[1]]
    return names, [row if u else [""] * len(names) for row, u in zip(_texts(values), used, strict=True)]
