"""Poses and graphs from tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tempose._support.words import plural
from tempose._typing import Array, NodeId, PathLike
from tempose.errors import ParseError
from tempose.geometry import quaternion as quat
from tempose.io._text import (
    NumberReader,
    exact_difference,
)
from tempose.io.csvfile.tables import (
    ARM,
    COUPLING,
    FORMAT,
    PAIRS,
    POSE,
    TURN,
    CsvTable,
    read_name,
    read_table,
)
from tempose.io.options import ReadOptions
from tempose.model import absolute
from tempose.model import precision as precisions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.measurements import origin_of
from tempose.model.poses import Poses

_JOINT_AXES = {3: ["rx", "ry", "rz", "x", "y", "z"], 2: ["theta", "x", "y"]}
_JOINT_ROWS = {3: np.arange(6), 2: np.array([2, 3, 4])}
_ALIASES = (("x", "tx"), ("y", "ty"), ("z", "tz"))


def read_poses(path: PathLike, *, exact: bool = False, origin: Array | None = None) -> Poses:
    """Read a table of poses; see :mod:`tempose.io.csvfile` for the columns. Landmarks, which have no orientation, are unturned.

    ``exact``: to the bit, as :func:`write_poses` wrote them. ``origin`` (3,) is subtracted from the positions, digit by digit.
    """
    return read_vertices(path, exact=exact, origin=origin)[0]


def read_vertices(
    path: PathLike, *, exact: bool = False, origin: Array | None = None
) -> tuple[Poses, bool, tuple[NodeId, ...]]:
    """The poses of a table, whether it is planar, and which nodes are landmarks: those without an orientation."""
    table = read_table(path, ["id", *POSE])
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
        wxyz[turned] = table.numbers(reader, turned, TURN) if as_it_stands else table.turns(reader, turned, "poses", [])
    reader.finish([])
    first: dict[NodeId, int] = {}
    for r in rows:
        name = read_name(path, table.line[r], table.cells[r][table.column["id"]], "id")
        if first.setdefault(name, r) != r:
            before = table.line[first[name]]
            raise ParseError(path, table.line[r], f"node {name!r} is in line {before} already; keep one of the two")
    has_turn = set(turned)
    landmarks = tuple(name for name, r in first.items() if r not in has_turn)
    return Poses(tuple(first), wxyz, position), table.is_planar, landmarks


# ---------------------------------------------------------------------- graphs


def read_graph(path: PathLike, options: ReadOptions | None = None, *, trusted: bool = False) -> PoseGraph:
    """Read a graph; see :mod:`tempose.io.csvfile` for columns and equations.

    ``trusted``: it may contradict itself, others have judged it.
    """
    options = options or ReadOptions()
    notices: list[str] = []
    table = read_table(path, ["i", "j", *TURN], _ALIASES)
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
    own = [read_name(path, table.line[r], table.cells[r][table.column["i"]], "i") for r in declared]
    ids: dict[NodeId, int] = {}
    for name, r in zip(own, declared, strict=True):
        if name in ids:
            raise ParseError(path, table.line[r], f"node {name!r} is declared twice; keep one of the two rows")
        ids[name] = len(ids)
    ends = []
    for r in edges:
        i, j = (read_name(path, table.line[r], table.cells[r][table.column[column]], column) for column in "ij")
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
    arm = _optional(table, reader, edges, ARM[dimension], "lever arm")
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


def _split(table: CsvTable) -> tuple[list[int], list[int]]:
    """Rows that declare a node (``j`` empty), and rows that are edges."""
    column = table.column["j"]
    declared = [r for r, row in enumerate(table.cells) if not row[column].strip()]
    gone = set(declared)
    return declared, [r for r in range(len(table.cells)) if r not in gone]


def _any(table: CsvTable, row: int, names: Sequence[str]) -> bool:
    return any(name in table.column and table.cells[row][table.column[name]].strip() for name in names)


def _has_pose(table: CsvTable, row: int, is_landmark: bool, shift_names: Sequence[str]) -> bool:
    return table.filled(row, [*([] if is_landmark else table.turn_names), *shift_names], "pose of the node")


def _marks(table: CsvTable, reader: NumberReader, name: str, rows: Sequence[int]) -> list[int]:
    """The integers of a column, 0 where it is empty or not there."""
    if name not in table.column:
        return [0] * len(rows)
    return [
        reader.integer(cell or "0", table.line[r], name)
        for r, (cell,) in zip(rows, table.pick(rows, [name]), strict=True)
    ]


def _landmarks(table: CsvTable, reader: NumberReader, rows: Sequence[int], names: Sequence[NodeId]) -> set[NodeId]:
    return {name for name, mark in zip(names, _marks(table, reader, "landmark", rows), strict=True) if mark > 0}


def _fixed(table: CsvTable, reader: NumberReader, rows: list[int], names: list[NodeId]) -> list[NodeId]:
    rank = {name: place for name, place in zip(names, _marks(table, reader, "fixed", rows), strict=True) if place > 0}
    return sorted(rank, key=lambda name: rank[name])


def _optional(table: CsvTable, reader: NumberReader, edges: list[int], names: list[str], what: str) -> Array:
    """Columns (m, k) that may be missing or empty: zero there."""
    out = np.zeros((len(edges), len(names)))
    given = [k for k, r in enumerate(edges) if table.filled(r, names, what)]
    if given:
        out[given] = table.numbers(reader, [edges[k] for k in given], names)
    return out


def _read_inlier_prior(table: CsvTable, reader: NumberReader, edges: list[int]) -> Array | None:
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
    table: CsvTable,
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
    coupling = _optional(table, reader, edges, COUPLING[dimension], "coupling")
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
    table: CsvTable, reader: NumberReader, edges: list[int], turned: list[int], moved: list[int], dimension: int
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


def _inverses(table: CsvTable, edges: list[int], covariance: Array) -> Array:
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
    table: CsvTable,
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
    pairs = PAIRS[dimension]
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
