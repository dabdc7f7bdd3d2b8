"""CSV tables, tempose's own format: the one that holds every graph and every name.

The first row names the columns, which may stand in any order; the separator is a comma, a semicolon or a tab (with a
semicolon or tab, numbers may have decimal commas). Lines that start with ``#`` are comments.

**Graph**, one row per edge::

    i, j, qw, qx, qy, qz, tx, ty, tz, lambda, tau

measures ``j_from_i``: ``x_j = R(q) x_i + t``, with potential

    U = λ |ν|² + ½ τ |t − R_j (c_i − c_j)|²,   ν = vec(q ⊗ conj(q_j q̄_i)),   |ν| = sin(θ/2).

- ``tx, ty, tz`` empty, or left out of the table: a rotation-only edge (its ``tau`` is not looked at).
- instead of ``lambda``: ``lambda_1, lambda_2, lambda_3`` (``νᵀ diag(λ) ν``) or the upper triangle ``lambda_xx,
  lambda_xy, lambda_xz, lambda_yy, lambda_yz, lambda_zz`` (``νᵀΛν``); instead of ``tau``: ``tau_1, tau_2, tau_3`` or
  ``tau_xx … tau_zz``; axes of node j.
  Read with ``precision="full"`` they are kept, otherwise reduced by the trace rule ``λ = 3/tr(Λ⁻¹)``.
- without a ``lambda`` (``tau``) column, ``sigma_rot_deg`` (``sigma_trans``) must be given: ``λ = 2/σ²``, ``τ = 1/σ²``.
- the optional column ``inlier_prior`` holds the prior probability, above 0 and at most 1, that the edge is right, for robust
  solves; empty where the edge has none of its own.
- a row with an empty ``j`` declares node i; its q and t, if given, are the node's pose ``world_from_node``, a start and
  not a measurement. A number from 1 in the optional column ``fixed`` declares the node fixed, the first one first.

**Poses**, one row per node, ``world_from_node``: ``x_world = R(q) x_node + (x, y, z)``; more columns are ignored::

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
from tempose.io._text import NumberReader, number_text, plural, read_text, unit_quaternions, write_text
from tempose.io.options import ReadOptions
from tempose.model import precision as precisions
from tempose.model.graph import PoseGraph
from tempose.model.poses import POSE_COLUMNS, Poses

FORMAT = "csv"
_Q = ["qw", "qx", "qy", "qz"]
_T = ["tx", "ty", "tz"]
_POSE = list(POSE_COLUMNS)
_PAIRS = ["xx", "xy", "xz", "yy", "yz", "zz"]
_UPPER = np.triu_indices(3)
_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


# ---------------------------------------------------------------------- tables and names


@dataclass(frozen=True)
class _Table:
    """A table with a header: column numbers by name, and the rows with their line."""

    path: PathLike
    column: dict[str, int]
    line: list[int]
    cells: list[list[str]]

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


def _read_table(path: PathLike, required: Sequence[str]) -> _Table:
    text = read_text(path)
    names, delimiter = header(text)
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
    return _Table(path, {name: k for k, name in enumerate(names)}, line, cells)


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


def _write_table(path: PathLike, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    write_text(path, csv_lines(names, rows))


# ---------------------------------------------------------------------- poses


def read_poses(path: PathLike, *, exact: bool = False) -> Poses:
    """Read a table of poses; see the module for the columns. ``exact``: to the bit, as :func:`write_poses` wrote them."""
    table = _read_table(path, ["id", *_POSE])
    if not table.cells:
        raise ParseError(path, None, "no poses found: the table has a header only")
    reader = NumberReader(path)
    rows = range(len(table.cells))
    values = table.numbers(reader, rows, _POSE)
    reader.finish([])
    first: dict[NodeId, int] = {}
    for r in rows:
        name = _read_name(path, table.line[r], table.cells[r][table.column["id"]], "id")
        if first.setdefault(name, r) != r:
            before = table.line[first[name]]
            raise ParseError(path, table.line[r], f"node {name!r} is in line {before} already; keep one of the two")
    wxyz = values[:, 3:] if exact else unit_quaternions(path, table.lines(rows), values[:, 3:], "poses", [])
    return Poses(tuple(first), wxyz, values[:, :3])


def write_poses(path: PathLike, poses: Poses) -> None:
    """Write a table of poses."""
    values = np.concatenate([poses.position, poses.wxyz], axis=1).tolist()
    rows = ([name_text(name), *map(number_text, row)] for name, row in zip(poses.ids, values, strict=True))
    _write_table(path, ["id", *_POSE], rows)


# ---------------------------------------------------------------------- reading a graph


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a graph; see the module for columns and equations."""
    options = options or ReadOptions()
    notices: list[str] = []
    table = _read_table(path, ["i", "j", *_Q])
    reader = NumberReader(path)
    declared, edges = _split(table)
    if not edges:
        raise ParseError(path, None, "no edges found: expected rows with i, j and qw, qx, qy, qz")
    ids: dict[NodeId, int] = {}
    for r in declared:
        name = _read_name(path, table.line[r], table.cells[r][table.column["i"]], "i")
        if name in ids:
            raise ParseError(path, table.line[r], f"node {name!r} is declared twice; keep one of the two rows")
        ids[name] = len(ids)
    initial, fixed = _declarations(table, reader, declared, list(ids), notices)
    ends = np.empty((len(edges), 2), dtype=np.int64)
    for k, r in enumerate(edges):
        for side, column in enumerate("ij"):
            name = _read_name(path, table.line[r], table.cells[r][table.column[column]], column)
            ends[k, side] = ids.setdefault(name, len(ids))
        if ends[k, 0] == ends[k, 1]:
            raise ParseError(path, table.line[r], f"the edge joins node {name!r} to itself; remove it")
    if initial is not None and len(initial) < len(ids):
        missing = plural(len(ids) - len(initial), "node")
        notices.append(f"{missing} without a pose; the poses given are not used as a start")
        initial = None
    line = table.lines(edges)
    wxyz = unit_quaternions(path, line, table.numbers(reader, edges, _Q), "edges", notices)
    moved = [k for k, r in enumerate(edges) if table.filled(r, _T, "translation")]
    t = np.full((len(edges), 3), np.nan)
    t[moved] = table.numbers(reader, [edges[k] for k in moved], _T) if moved else 0.0
    concentration, precision = _read_precisions(table, reader, edges, moved, options, notices)
    inlier_prior = _read_inlier_prior(table, reader, edges)
    reader.finish(notices)
    return PoseGraph(
        tuple(ids),
        ends[:, 0],
        ends[:, 1],
        wxyz,
        t,
        concentration,
        precision,
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
    )


def _split(table: _Table) -> tuple[list[int], list[int]]:
    """Rows that declare a node (``j`` empty), and rows that are edges."""
    column = table.column["j"]
    declared = [r for r, row in enumerate(table.cells) if not row[column].strip()]
    gone = set(declared)
    return declared, [r for r in range(len(table.cells)) if r not in gone]


def _declarations(
    table: _Table, reader: NumberReader, rows: list[int], ids: list[NodeId], notices: list[str]
) -> tuple[Poses | None, list[NodeId]]:
    rank: dict[NodeId, int] = {}
    if "fixed" in table.column:
        for name, r, (cell,) in zip(ids, rows, table.pick(rows, ["fixed"]), strict=True):
            place = reader.integer(cell or "0", table.line[r], "fixed")
            if place > 0:
                rank[name] = place
    fixed = sorted(rank, key=lambda name: rank[name])
    names = [*_Q, *_T]
    posed = [k for k, r in enumerate(rows) if table.filled(r, names, "pose of the node")]
    if not posed:
        return None, fixed
    values = table.numbers(reader, [rows[k] for k in posed], names)
    wxyz = unit_quaternions(table.path, table.lines([rows[k] for k in posed]), values[:, :4], "nodes", notices)
    return Poses(tuple(ids[k] for k in posed), wxyz, values[:, 4:]), fixed


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


def _read_precisions(
    table: _Table, reader: NumberReader, edges: list[int], moved: list[int], options: ReadOptions, notices: list[str]
) -> tuple[Array, Array]:
    every = range(len(edges))
    rotation, translation = (
        _read_precision(
            table, reader, name, edges, used, default, option, getattr(options, option) is not None, notices
        )
        for name, used, default, option in (
            ("lambda", every, options.default_concentration, "sigma_rot_deg"),
            ("tau", moved, options.default_precision, "sigma_trans"),
        )
    )
    if options.precision == "full":
        return rotation, translation
    for name, value in (("lambda", rotation), ("tau", translation)):
        blocks = _matrices(value)
        bad = np.flatnonzero(~precisions.is_definite(blocks) & ~precisions.is_zero(blocks))
        if len(bad):
            why = f"the {name} matrix is not positive definite; precision full keeps it as it is"
            raise ParseError(table.path, table.line[edges[bad[0]]], why)
    joint = precisions.joint(_matrices(rotation), _matrices(translation), None)
    notice = precisions.reduction_notice(joint, 3, options.precision)
    notices.extend([notice] if notice else [])
    return precisions.marginal_numbers(joint)[:2]


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
) -> Array:
    """One kind of precision as (m,), (m, 3) or (m, 3, 3), zero where ``used`` does not name the edge."""
    shapes = [[name], [f"{name}_{k}" for k in (1, 2, 3)], [f"{name}_{pair}" for pair in _PAIRS]]
    found = [names for names in shapes if any(column in table.column for column in names)]
    m = len(edges)
    if not found:
        if default is None and len(used):
            raise ParseError(table.path, None, f"there is no column {name!r}; add one, or give {option} for all edges")
        return np.full(m, default or 0.0)
    if len(found) > 1 or any(column not in table.column for column in found[0]):
        expected = " or ".join(",".join(names) for names in shapes)
        raise ParseError(table.path, None, f"the columns of {name} do not fit together; expected {expected}")
    if given:
        notices.append(f"{option} was not used: the table has a column of its own for it")
    names = found[0]
    values = np.zeros((m, len(names)))
    values[list(used)] = table.numbers(reader, [edges[k] for k in used], names) if len(used) else 0.0
    if len(names) == 6:
        full = np.zeros((m, 3, 3))
        full[:, _UPPER[0], _UPPER[1]] = full[:, _UPPER[1], _UPPER[0]] = values
        bad = ~precisions.is_semidefinite(full)
    else:
        full = values[:, 0] if len(names) == 1 else values
        bad = np.any(values < 0.0, axis=1)
    if bad.any():
        line = table.line[edges[int(np.flatnonzero(bad)[0])]]
        raise ParseError(table.path, line, f"{name} is negative or indefinite; a precision is 0 or more")
    if len(names) == 3 and name == "tau":  # a translation has no three-number form: its axes are a diagonal matrix
        return _matrices(values)
    return full


# ---------------------------------------------------------------------- writing a graph


def write_graph(path: PathLike, graph: PoseGraph, poses: Poses | None = None) -> None:
    """Write a graph with everything it holds but its notices and origin; read it with ``precision="full"``."""
    shown = poses.select(graph.node_ids) if poses is not None else graph.initial
    lambda_names, lambda_rows = _precision_columns("lambda", graph.concentration, np.ones(graph.n_edges, dtype=bool))
    tau_names, tau_rows = _precision_columns("tau", graph.translation_precision, graph.has_translation)
    prior_names = [] if graph.inlier_prior is None else ["inlier_prior"]
    prior = np.empty(0) if graph.inlier_prior is None else graph.inlier_prior
    prior_rows = [["" if np.isnan(x) else number_text(x)] for x in prior.tolist()] or [[]] * graph.n_edges
    fixed = ["fixed"] if graph.fixed else []
    names = ["i", "j", *_Q, *_T, *lambda_names, *tau_names, *prior_names, *fixed]
    name_of = [name_text(name) for name in graph.node_ids]
    rows = []
    in_order = dict.fromkeys(np.stack([graph.edge_i, graph.edge_j], axis=1).reshape(-1).tolist())
    if shown is not None or fixed or list(in_order) != list(range(graph.n_nodes)):
        blank = [""] * (len(lambda_names) + len(tau_names) + len(prior_names))
        pose = [[""] * 7] * graph.n_nodes
        if shown is not None:
            pose = _texts(np.concatenate([shown.wxyz, shown.position], axis=1))
        rank = {name: str(k) for k, name in enumerate(graph.fixed, 1)}
        for k, name in enumerate(graph.node_ids):
            mark = [rank.get(name, "")] if fixed else []
            rows.append([name_of[k], "", *pose[k], *blank, *mark])
    q = _texts(graph.j_from_i_wxyz)
    t = [row if given else [""] * 3 for row, given in zip(_texts(graph.j_from_i_t), graph.has_translation, strict=True)]
    last = [""] if fixed else []
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        rows.append([name_of[i], name_of[j], *q[k], *t[k], *lambda_rows[k], *tau_rows[k], *prior_rows[k], *last])
    _write_table(path, names, rows)


def _texts(values: Array) -> list[list[str]]:
    return [[number_text(x) for x in row] for row in values.tolist()]


def _precision_columns(name: str, value: Array, used: Mask) -> tuple[list[str], list[list[str]]]:
    if value.ndim == 1:
        names, values = [name], value[:, None]
    elif value.ndim == 2:
        names, values = [f"{name}_{k}" for k in (1, 2, 3)], value
    else:
        names, values = [f"{name}_{pair}" for pair in _PAIRS], value[:, _UPPER[0], _UPPER[1]]
    return names, [row if u else [""] * len(names) for row, u in zip(_texts(values), used, strict=True)]
