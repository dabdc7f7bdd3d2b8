"""g2o files: vertices, edges and information matrices of a pose graph.

Lines, fields separated by blanks; ``#`` starts a comment::

    VERTEX_SE3:QUAT id  x y z  qx qy qz qw
    EDGE_SE3:QUAT   i j x y z  qx qy qz qw  Ω11 Ω12 … Ω16 Ω22 … Ω66      (upper triangle by rows, order x y z, rotation)
    VERTEX_SE2      id  x y θ
    EDGE_SE2        i j x y θ  Ωxx Ωxy Ωxθ Ωyy Ωyθ Ωθθ
    VERTEX3         id  x y z  roll pitch yaw                            (TORO; R = Rz(yaw) Ry(pitch) Rx(roll))
    EDGE3           i j x y z  roll pitch yaw  Ω11 … Ω66                 (upper triangle, order x y z roll pitch yaw)
    FIX             id [id …]
    INLIER_PRIOR    i j p                                                (tempose's own; of the last edge line i j above)

A vertex is ``X = world_from_node``. An edge measures ``Z ≈ X_i⁻¹ X_j = i_from_j``, with information about the error
``E = Z⁻¹ X_i⁻¹ X_j``, whose axes are those of node j. A tempose edge measures ``target_from_source`` and has its
precisions in the target's frame; hence line ``i j Z Ω`` becomes the edge with source j, target i and measurement Z as
it stands, and with ``ν = vec(q_Z ⊗ conj(q_i⁻¹ q_j)) = −R_Z vec(q_E)`` its precisions are

    ½ eᵀΩe = νᵀΛν  ⇒  Λ = 2 R_Z Ω_R R_Zᵀ   (Ω_R about the rotation vector e ≈ 2 vec(q_E): GTSAM, SE-Sync)
                      Λ = ½ R_Z Ω_R R_Zᵀ   (Ω_R about vec(q_E) itself: g2o)
    P = R_Z Ω_t R_Zᵀ.

``precision="isotropic"`` takes one number for each block by the trace rule, ``λ = 6/tr(Ω_R⁻¹)`` (a quarter of it for
g2o's meaning) and ``τ = 3/tr(Ω_t⁻¹)``, exactly SE-Sync's ``κ = λ/4`` and ``τ``. Correlations between translation and
rotation are not in the model: they are dropped, counted and told.

A zero block says nothing: with Ω_t = 0 the edge becomes rotation-only, with Ω_R = 0 its concentration is 0, and with
both the edge is dropped. Each is counted and told. A block that is zero along some axes only is kept as it is by
``precision="full"`` and refused otherwise, as the trace rule has no value for it; an indefinite block is refused.

Planar edges become 3D ones with z = 0 and a rotation about z. The file is silent about z, roll and pitch; they get the
precisions of what it speaks about: roll and pitch that of θ, z the trace-rule mean of x and y. The plane's optimum does
not depend on this choice, and an error bar out of the plane means nothing. Ωθθ and the information of TORO's angles are
about angles, whatever ``rotation_information`` says: ``λ = 2Ω``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tempose._typing import Array, Index, Mask, NodeId, PathLike
from tempose.errors import OptionError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io._text import (
    NumberReader,
    Rows,
    content_lines,
    integer_ids,
    number_text,
    plural,
    read_text,
    unit_quaternions,
    write_text,
)
from tempose.io.options import ROTATION_INFORMATION, ReadOptions
from tempose.model import precision as precisions
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

FORMAT = "g2o"
PRIOR = "INLIER_PRIOR"
"""Tag of the prior probability that an edge is right, for robust solves; other software skips it."""
# λ = scale · Ω for each meaning of a rotation information block
CONCENTRATION_SCALE = {"rotation-vector": 2.0, "quaternion-vector": 0.5}

_POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
_TORO = ["x", "y", "z", "roll", "pitch", "yaw"]
_PLANAR = ["x", "y", "theta"]
_VERTICES = {"VERTEX_SE3:QUAT": _POSE, "VERTEX_SE2": _PLANAR, "VERTEX3": _TORO}
_EDGES = {"EDGE_SE3:QUAT": _POSE, "EDGE_SE2": _PLANAR, "EDGE3": _TORO}
_UPPER = {d: np.triu_indices(d) for d in (3, 6)}


# ---------------------------------------------------------------------- reading


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a pose graph; see the module for columns and equations, :class:`ReadOptions` for the choices."""
    options = options or ReadOptions()
    notices: list[str] = []
    numbers = NumberReader(path)
    tagged = _by_tag(path)
    vertices = _read_vertices(tagged, numbers, notices)
    edges = _read_edges(tagged, numbers, notices)
    fixed = _read_fixed(tagged, numbers)
    edges = _with_inlier_priors(edges, _rows(tagged, numbers, PRIOR, ["i", "j", "probability"], 2), numbers)
    numbers.finish(notices)
    _tell_unknown(tagged, notices)
    if not len(edges.line):
        expected = "expected EDGE_SE3:QUAT lines (or EDGE_SE2, EDGE3)"
        raise ParseError(path, None, f"no edges found: {expected}{_what_there_is(tagged)}")

    index, initial = _nodes(vertices, edges, notices)
    for line, name in fixed:
        if name not in index:
            raise ParseError(path, line, f"FIX names node {name}, which no VERTEX or EDGE line mentions")
    counts: dict[str, int] = {}
    edges = _refuse_and_drop(path, edges, options, notices, counts)
    concentration, precision = _precisions(edges, options, notices, counts)
    if options.sigma_rot_deg is not None or options.sigma_trans is not None:
        notices.append("the given standard deviations were not used: the file has information matrices of its own")
    t = np.where(precisions.is_zero(edges.omega_t)[:, None], np.nan, edges.t)
    return PoseGraph(
        tuple(index),
        np.array([index[k] for k in edges.ends[:, 1].tolist()], dtype=np.int64),
        np.array([index[k] for k in edges.ends[:, 0].tolist()], dtype=np.int64),
        edges.wxyz,
        t,
        concentration,
        precision,
        initial=initial,
        fixed=tuple(dict.fromkeys(name for _, name in fixed)),
        inlier_prior=edges.inlier_prior,
        notices=tuple(notices),
        origin={
            "file": Path(path).name,
            "format": FORMAT,
            "rotation_information": options.rotation_information,
            "precision": options.precision,
            **{name: str(count) for name, count in counts.items()},
        },
    )


def read_poses(path: PathLike) -> Poses:
    """The vertices of a g2o file."""
    notices: list[str] = []
    numbers = NumberReader(path)
    tagged = _by_tag(path)
    vertices = _read_vertices(tagged, numbers, notices)
    numbers.finish(notices)
    if not len(vertices.line):
        expected = "expected VERTEX_SE3:QUAT lines (or VERTEX_SE2, VERTEX3)"
        raise ParseError(path, None, f"no vertices found: {expected}{_what_there_is(tagged)}")
    return vertices.poses()


@dataclass(frozen=True)
class _Tag:
    """Lines of one tag: their numbers, and their fields after the tag."""

    line: list[int]
    fields: list[list[str]]


def _by_tag(path: PathLike) -> dict[str, _Tag]:
    tagged: dict[str, _Tag] = {}
    for number, text in content_lines(read_text(path)):
        tag, *fields = text.split()
        group = tagged.get(tag)
        if group is None:
            group = tagged[tag] = _Tag([], [])
            start = tag.replace(";", ",").partition(",")[0]
            if start != tag and _known(start):
                raise ParseError(path, number, f"{start} is followed by {tag[len(start)]!r}; g2o separates by blanks")
        group.line.append(number)
        group.fields.append(fields)
    return tagged


def _known(tag: str) -> bool:
    return tag in _VERTICES or tag in _EDGES or tag in ("FIX", PRIOR)


def _tag_counts(counts: Mapping[str, int]) -> str:
    shown = [
        f"{tag if tag.isprintable() and len(tag) <= 40 else repr(tag[:40])} ({n})"
        for tag, n in list(counts.items())[:8]
    ]
    return ", ".join(shown) + (f" and {len(counts) - 8} others" if len(counts) > 8 else "")


def _tell_unknown(tagged: dict[str, _Tag], notices: list[str]) -> None:
    unknown = Counter({tag: len(group.line) for tag, group in tagged.items() if not _known(tag)})
    if unknown:
        listed = _tag_counts(dict(unknown.most_common()))
        notices.append(f"{plural(unknown.total(), 'line')} with an unknown tag skipped: {listed}")


def _what_there_is(tagged: dict[str, _Tag]) -> str:
    if not tagged:
        return "; the file is empty"
    return f"; the file has {_tag_counts({tag: len(group.line) for tag, group in tagged.items()})}"


def _rows(tagged: dict[str, _Tag], numbers: NumberReader, tag: str, names: list[str], n_ids: int) -> Rows:
    group = tagged.get(tag, _Tag([], []))
    return numbers.rows(group.line, group.fields, names, n_ids, tag)


def _motion(tag: str, values: Array) -> tuple[Array, Array]:
    """Quaternions wxyz (not yet of unit length) and translations from the fields of a vertex or an edge."""
    if tag.endswith("SE2"):
        half = 0.5 * values[:, 2]
        zero = np.zeros(len(values))
        wxyz = np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1)
        return wxyz, np.stack([values[:, 0], values[:, 1], zero], axis=1)
    if tag.endswith("3"):
        roll, pitch, yaw = (quat.exp(values[:, 3 + k, None] * np.eye(3)[k]) for k in range(3))
        return quat.multiply(yaw, quat.multiply(pitch, roll)), values[:, :3]
    return values[:, [6, 3, 4, 5]], values[:, :3]


@dataclass(frozen=True)
class _Vertices:
    line: Index
    ids: Index
    wxyz: Array
    position: Array

    def poses(self) -> Poses:
        return Poses(tuple(self.ids.tolist()), self.wxyz, self.position)


def _read_vertices(tagged: dict[str, _Tag], numbers: NumberReader, notices: list[str]) -> _Vertices:
    parts = []
    for tag, names in _VERTICES.items():
        rows = _rows(tagged, numbers, tag, ["id", *names], 1)
        parts.append((rows.line, rows.ids[:, 0], *_motion(tag, rows.values)))
    line, ids, wxyz, position = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(line, kind="stable")
    line, ids, wxyz, position = line[order], ids[order], wxyz[order], position[order]
    wxyz = unit_quaternions(numbers.path, line, wxyz, "vertices", notices)
    _, first = np.unique(ids, return_index=True)
    if len(first) < len(ids):
        row_of: dict[int, int] = {}
        for k, name in enumerate(ids.tolist()):
            before = row_of.setdefault(name, k)
            if not (np.array_equal(wxyz[k], wxyz[before]) and np.array_equal(position[k], position[before])):
                why = f"node {name} has another pose here than in line {line[before]}; keep one of the two"
                raise ParseError(numbers.path, int(line[k]), why)
        notices.append(f"{plural(len(ids) - len(first), 'vertex', 'vertices')} repeated word for word; kept once")
        keep = np.sort(first)
        line, ids, wxyz, position = line[keep], ids[keep], wxyz[keep], position[keep]
    return _Vertices(line, ids, wxyz, position)


@dataclass(frozen=True)
class _Edges:
    """Edges in file order, information blocks (m, 3, 3) in the file's frame, rotations as concentrations λ."""

    line: Index
    ends: Index
    wxyz: Array
    t: Array
    omega_t: Array
    omega_r: Array
    cross: Array
    half_angle: Mask
    """Whether the rotation block is subject to ``rotation_information``."""
    inlier_prior: Array
    """Prior probability that the edge is right; NaN where the file says nothing."""

    def keep(self, mask: Mask) -> _Edges:
        return _Edges(*(getattr(self, name)[mask] for name in self.__dataclass_fields__))


def _read_edges(tagged: dict[str, _Tag], numbers: NumberReader, notices: list[str]) -> _Edges:
    parts = []
    for tag, names in _EDGES.items():
        planar = names is _PLANAR
        d = 3 if planar else 6
        information = [f"information {a}{b}" for a, b in zip(*(1 + k for k in _UPPER[d]), strict=True)]
        rows = _rows(tagged, numbers, tag, ["i", "j", *names, *information], 2)
        omega = np.zeros((len(rows), d, d))
        omega[:, _UPPER[d][0], _UPPER[d][1]] = omega[:, _UPPER[d][1], _UPPER[d][0]] = rows.values[:, len(names) :]
        if planar:
            omega = _planar_information(numbers.path, rows, omega)
        half_angle = np.full(len(rows), names is _POSE)
        blocks = omega[:, :3, :3], omega[:, 3:, 3:], omega[:, :3, 3:]
        none = np.full(len(rows), np.nan)
        parts.append((rows.line, rows.ids, *_motion(tag, rows.values), *blocks, half_angle, none))
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    line, ends, wxyz, *rest = (column[order] for column in columns)
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if len(loops):
        k = int(loops[0])
        raise ParseError(numbers.path, int(line[k]), f"the edge joins node {ends[k, 0]} to itself; remove it")
    return _Edges(line, ends, unit_quaternions(numbers.path, line, wxyz, "edges", notices), *rest)


def _with_inlier_priors(edges: _Edges, rows: Rows, numbers: NumberReader) -> _Edges:
    """The edges with the probability of each ``INLIER_PRIOR`` line, which belongs to the last edge of these ids above it."""
    of_pair: dict[tuple[int, ...], list[int]] = {}
    for k, pair in enumerate(edges.ends.tolist() if len(rows) else []):
        of_pair.setdefault(tuple(pair), []).append(k)
    prior = edges.inlier_prior.copy()
    for line, (i, j), p in zip(rows.line.tolist(), rows.ids.tolist(), rows.values[:, -1].tolist(), strict=True):
        above = [k for k in of_pair.get((i, j), []) if edges.line[k] < line]
        if not above:
            raise ParseError(numbers.path, line, f"{PRIOR} needs an edge line {i} {j} above it; there is none")
        if not 0.0 < p <= 1.0:
            raise ParseError(numbers.path, line, f"{PRIOR} must be above 0 and at most 1, not {p:g}")
        if not np.isnan(prior[above[-1]]):
            raise ParseError(numbers.path, line, f"the edge in line {edges.line[above[-1]]} has an {PRIOR} already")
        prior[above[-1]] = p
    return replace(edges, inlier_prior=prior)


def _planar_information(path: PathLike, rows: Rows, omega: Array) -> Array:
    """Information (m, 6, 6) of planar edges given that of (x, y, θ): see the module for the axes it does not name."""
    out = np.zeros((len(omega), 6, 6))
    plane = omega[:, :2, :2]
    zero = precisions.is_zero(plane)
    bad = np.flatnonzero(~precisions.is_definite(plane) & ~zero)
    if len(bad):
        raise ParseError(path, int(rows.line[bad[0]]), "the information of x and y is not positive definite")
    out[:, :2, :2] = plane
    out[:, 2, 2] = precisions.trace_rule(plane)
    out[:, 3:, 3:] = omega[:, 2, 2][:, None, None] * np.eye(3)
    out[:, :2, 5] = out[:, 5, :2] = omega[:, :2, 2]
    return out


def _read_fixed(tagged: dict[str, _Tag], numbers: NumberReader) -> list[tuple[int, int]]:
    group = tagged.get("FIX", _Tag([], []))
    found = []
    for line, fields in zip(group.line, group.fields, strict=True):
        if not fields:
            raise ParseError(numbers.path, line, "FIX names no node; expected FIX id [id …]")
        found += [(line, numbers.integer(token, line, "id")) for token in fields]
    return found


def _nodes(vertices: _Vertices, edges: _Edges, notices: list[str]) -> tuple[dict[NodeId, int], Poses | None]:
    """Row of each node, vertices first, and the vertices as a start if every node has one."""
    index: dict[NodeId, int] = {name: k for k, name in enumerate(vertices.ids.tolist())}
    declared = len(index)
    for name in np.unique(edges.ends).tolist():  # in the order of their numbers, whichever edge comes first
        index.setdefault(name, len(index))
    missing = len(index) - declared
    if missing == 0:
        return index, vertices.poses()
    if declared == 0:
        notices.append(f"no VERTEX lines: {plural(missing, 'node')} taken from the edges")
    else:
        first = list(index)[declared]
        line = edges.line[np.flatnonzero(np.any(edges.ends == first, axis=1))[0]]
        notices.append(
            f"{plural(missing, 'node')} without a VERTEX line (first: {first} in line {line}) taken from the edges; "
            "the vertices are not complete and not used as a start"
        )
    return index, None


def _refuse_and_drop(
    path: PathLike, edges: _Edges, options: ReadOptions, notices: list[str], counts: dict[str, int]
) -> _Edges:
    """Edges whose information makes sense; those that carry none at all are left out."""
    zero_t, zero_r = precisions.is_zero(edges.omega_t), precisions.is_zero(edges.omega_r)
    singular = np.zeros(len(edges.line), dtype=bool)
    for block, zero, name in ((edges.omega_t, zero_t, "translation"), (edges.omega_r, zero_r, "rotation")):
        usable, kept = precisions.is_definite(block) | zero, precisions.is_semidefinite(block)
        bad = np.flatnonzero(~(kept if options.precision == "full" else usable))
        if len(bad):
            hint = "; it is zero along some axis, which --precision full accepts" if kept[bad[0]] else ""
            why = f"the 3×3 information of the {name} is not positive definite{hint}"
            raise ParseError(path, int(edges.line[bad[0]]), why)
        singular |= ~usable
    counts["singular_edges"] = int(np.sum(singular))
    counts["rotation_only_edges"] = int(np.sum(zero_t & ~zero_r))
    counts["translation_only_edges"] = int(np.sum(zero_r & ~zero_t))
    counts["dropped_edges"] = int(np.sum(zero_t & zero_r))
    for name, what in (
        ("rotation_only_edges", "zero translation information: rotation only"),
        ("translation_only_edges", "zero rotation information: translation only (concentration 0)"),
        ("dropped_edges", "zero information left out"),
        ("singular_edges", "no information along some axis"),
    ):
        if counts[name]:
            notices.append(f"{plural(counts[name], 'edge')} with {what}")
    if counts["dropped_edges"] == len(edges.line):
        raise ParseError(path, None, "no edge carries any information: every information matrix is zero")
    _judge_correlations(path, edges, options, notices, counts)
    return edges.keep(~(zero_t & zero_r)) if counts["dropped_edges"] else edges


def _judge_correlations(
    path: PathLike, edges: _Edges, options: ReadOptions, notices: list[str], counts: dict[str, int]
) -> None:
    """Count the 3×3 blocks between translation and rotation, which the model has no place for."""
    some = np.flatnonzero(np.any(edges.cross, axis=(1, 2)))
    whole = np.zeros((len(some), 6, 6))
    whole[:, :3, :3], whole[:, 3:, 3:] = edges.omega_t[some], edges.omega_r[some]
    whole[:, :3, 3:], whole[:, 3:, :3] = edges.cross[some], np.swapaxes(edges.cross[some], 1, 2)
    indefinite = some[precisions.is_indefinite(whole)]
    counts["dropped_correlations"] = len(some)
    counts["indefinite_edges"] = len(indefinite)
    if len(indefinite):
        line = int(edges.line[indefinite[0]])
        if options.precision == "full":
            why = "the 6×6 information is indefinite, its 3×3 blocks are not; --precision isotropic reads these"
            raise ParseError(path, line, why)
        notices.append(
            f"{plural(len(indefinite), 'edge')} with an indefinite 6×6 information matrix (first: line {line}); "
            "only its diagonal 3×3 blocks, which are positive definite, are used"
        )
    if len(some):
        count = plural(len(some), "edge")
        notices.append(f"translation–rotation correlations of {count} dropped: they are not in the model")


def _precisions(edges: _Edges, options: ReadOptions, notices: list[str], counts: dict[str, int]) -> tuple[Array, Array]:
    """Concentrations and precisions of the edges, in the frame of their target, as ``options.precision`` asks."""
    scale = np.where(edges.half_angle, CONCENTRATION_SCALE[options.rotation_information], 2.0)
    rotation, translation = scale[:, None, None] * edges.omega_r, edges.omega_t
    spread_r, spread_t = precisions.spread(rotation), precisions.spread(translation)
    if options.precision == "isotropic":
        counts["reduced_edges"] = int(np.sum((spread_r > precisions.ROUND) | (spread_t > precisions.ROUND)))
        notice = precisions.reduction_notice(spread_r, spread_t)
        if notice:
            notices.append(notice)
        return precisions.trace_rule(rotation), precisions.trace_rule(translation)
    counts["reduced_edges"] = 0
    rotation, translation = precisions.turned(rotation, edges.wxyz), precisions.turned(translation, edges.wxyz)
    return precisions.simplest(rotation), precisions.simplest(translation)


# ---------------------------------------------------------------------- writing


def write_graph(
    path: PathLike, graph: PoseGraph, poses: Poses | None = None, rotation_information: str = "rotation-vector"
) -> None:
    """Write a pose graph; the inverse of :func:`read_graph` with the same ``rotation_information``.

    Vertices are ``poses``, or the graph's initial poses, or none. A rotation-only edge gets a zero translation with
    zero information.
    """
    if rotation_information not in ROTATION_INFORMATION:
        known = ", ".join(ROTATION_INFORMATION)
        raise OptionError(f"rotation_information is {rotation_information!r}; expected one of {known}")
    ids = integer_ids(graph.node_ids, FORMAT)
    shown = poses.select(graph.node_ids) if poses is not None else graph.initial
    lines = [] if shown is None else _vertex_lines(ids, shown)
    lines += [f"FIX {name}" for name in graph.fixed]
    given = graph.has_translation
    scale = CONCENTRATION_SCALE[rotation_information]
    back = quat.conjugate(graph.j_from_i_wxyz)
    omega = np.zeros((graph.n_edges, 6, 6))
    tau = np.where(
        given[:, None, None], graph.translation_precision_matrices, 0.0
    )  # where there is no translation it may be NaN
    omega[:, :3, :3] = precisions.turned(tau, back)
    omega[:, 3:, 3:] = precisions.turned(graph.concentration_matrices, back) / scale
    values = np.concatenate(
        [
            np.where(given[:, None], graph.j_from_i_t, 0.0),
            graph.j_from_i_wxyz[:, [1, 2, 3, 0]],
            omega[:, _UPPER[6][0], _UPPER[6][1]],
        ],
        axis=1,
    )
    prior = np.full(graph.n_edges, np.nan) if graph.inlier_prior is None else graph.inlier_prior
    for i, j, row, p in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), values.tolist(), prior.tolist(), strict=True):
        lines.append(f"EDGE_SE3:QUAT {ids[j]} {ids[i]} {' '.join(map(number_text, row))}")
        if not np.isnan(p):
            lines.append(f"{PRIOR} {ids[j]} {ids[i]} {number_text(p)}")
    write_text(path, "\n".join(lines) + "\n")


def write_poses(path: PathLike, poses: Poses) -> None:
    """Write poses as the vertices of a g2o file."""
    write_text(path, "\n".join(_vertex_lines(integer_ids(poses.ids, FORMAT), poses)) + "\n")


def _vertex_lines(ids: list[int], poses: Poses) -> list[str]:
    values = np.concatenate([poses.position, poses.wxyz[:, [1, 2, 3, 0]]], axis=1).tolist()
    return [f"VERTEX_SE3:QUAT {name} {' '.join(map(number_text, row))}" for name, row in zip(ids, values, strict=True)]
