"""What the lines of a g2o file say: vertices, edges, which nodes are fixed, and how likely edges are."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from tempose._support.words import plural
from tempose._typing import Array, Index, Mask, PathLike
from tempose.errors import ParseError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io._text import (
    NumberReader,
    Rows,
    unit_quaternions,
)
from tempose.io.g2o.lines import (
    ANGLE_SCALE,
    EDGES,
    OFFSET,
    PLANAR,
    POSE,
    PRIOR,
    QUATERNION,
    THETA_LAST,
    TORO,
    TORO_PLANAR,
    TRANSLATION_FIRST,
    VECTORS,
    VERTICES,
    LineKind,
    Tagged,
    TagLines,
    is_known,
    motion,
    rows_of,
)
from tempose.io.options import ReadOptions
from tempose.model import absolute
from tempose.model import precision as precisions
from tempose.model.poses import Poses


@dataclass(frozen=True)
class VertexLines:
    """Vertices in file order, landmarks unturned."""

    line: Index
    ids: Index
    wxyz: Array
    position: Array
    span: Index
    """Where in its line the position is: after how many of the fields, and how many (k, 2)."""
    planar: Mask
    landmark: Mask

    def poses(self) -> Poses:
        """The same as poses."""
        return Poses(tuple(self.ids.tolist()), self.wxyz, self.position)

    def keep(self, rows: Mask | Index) -> VertexLines:
        """Some of them."""
        return VertexLines(*(getattr(self, f.name)[rows] for f in fields(self)))


def vertices_of(tagged: Tagged, numbers: NumberReader, notices: list[str]) -> VertexLines:
    """All vertices; one that is repeated word for word counts once."""
    parts = []
    for tag, kind in VERTICES.items():
        rows = rows_of(tagged, numbers, tag, ["id", *kind.names], 1)
        span = np.tile([1, 2 if kind.planar else 3], (len(rows), 1))
        flags = np.full(len(rows), kind.planar), np.full(len(rows), kind.landmark)
        parts.append((rows.line, rows.ids[:, 0], *motion(kind.names, rows.values), span, *flags))
    all_of = VertexLines(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    if np.any(all_of.line[1:] < all_of.line[:-1]):
        all_of = all_of.keep(np.argsort(all_of.line, kind="stable"))
    line, ids = all_of.line, all_of.ids
    all_of = replace(all_of, wxyz=unit_quaternions(numbers.path, line, all_of.wxyz, "vertices", notices))
    first = np.arange(len(ids)) if np.all(ids[1:] > ids[:-1]) else np.unique(ids, return_index=True)[1]
    if len(first) < len(ids):
        row_of: dict[int, int] = {}
        for k, name in enumerate(ids.tolist()):
            before = row_of.setdefault(name, k)
            if not all(np.array_equal(x[k], x[before]) for x in (all_of.wxyz, all_of.position)):
                why = f"node {name} has another pose here than in line {line[before]}; keep one of the two"
                raise ParseError(numbers.path, int(line[k]), why)
        notices.append(f"{plural(len(ids) - len(first), 'vertex', 'vertices')} repeated word for word; kept once")
        all_of = all_of.keep(np.sort(first))
    return all_of


# ---------------------------------------------------------------------- edges


@dataclass(frozen=True)
class EdgeLines:
    """Edges in file order: tempose's sources and targets, and what they measure."""

    line: Index
    source: Index
    target: Index
    absolute: Mask
    """Whether the target is the world."""
    planar: Mask
    landmark: Mask
    """Whether the source is a landmark."""
    complete: Mask
    """Whether the line is of a kind that measures rotation and translation."""
    has_point: Mask
    """Whether the line has a translation or a position."""
    wxyz: Array
    t: Array
    span: Index
    """Where in its line the translation is: after how many of the fields, and how many (m, 2)."""
    arm: Array
    information: Array
    """Joint information (m, 6, 6), rotation vector in radians first, about its own axes."""
    turn: Array
    """Quaternions (m, 4) that turn its axes to those of the target."""
    inlier_prior: Array
    """Prior probability that the edge is right; NaN where the file says nothing."""

    def keep(self, rows: Mask | Index) -> EdgeLines:
        """Some of them."""
        return EdgeLines(*(getattr(self, f.name)[rows] for f in fields(self)))


def edges_of(tagged: Tagged, numbers: NumberReader, options: ReadOptions, notices: list[str]) -> EdgeLines:
    """All edges and priors."""
    offsets = _read_offsets(tagged, numbers, notices)
    parts = []
    for tag, kind in EDGES.items():
        if tag in tagged or tag == "EDGE_SE3:QUAT":
            parts.append(_read_kind(tag, kind, tagged, numbers, offsets, options, notices))
    parts = [part for part in parts if len(part.line)] or parts[:1]
    edges = (
        parts[0]
        if len(parts) == 1
        else EdgeLines(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(EdgeLines)))
    )
    if np.any(edges.line[1:] < edges.line[:-1]):
        edges = edges.keep(np.argsort(edges.line, kind="stable"))
    loops = np.flatnonzero((edges.source == edges.target) & ~edges.absolute)
    if len(loops):
        k = int(loops[0])
        raise ParseError(
            numbers.path, int(edges.line[k]), f"the edge joins node {edges.source[k]} to itself; remove it"
        )
    return edges


def _read_offsets(tagged: Tagged, numbers: NumberReader, notices: list[str]) -> dict[int, tuple[Array, Array]]:
    rows = rows_of(tagged, numbers, OFFSET, ["id", *POSE], 1)
    wxyz, t = motion(POSE, rows.values)
    wxyz = unit_quaternions(numbers.path, rows.line, wxyz, "offsets", notices)
    return {int(name): (q, shift) for name, q, shift in zip(rows.ids[:, 0], wxyz, t, strict=True)}


def _read_kind(
    tag: str,
    kind: LineKind,
    tagged: Tagged,
    numbers: NumberReader,
    offsets: dict[int, tuple[Array, Array]],
    options: ReadOptions,
    notices: list[str],
) -> EdgeLines:
    """The edges of one tag, as the equations of :mod:`tempose.io.g2o` have them."""
    d = kind.n_errors
    upper = np.triu_indices(d)
    information = [f"information {a}{b}" for a, b in zip(*(1 + k for k in upper), strict=True)]
    ids = ["i", "j"][: kind.n_ids] + ["offset"] * kind.offset + ["switch"] * kind.switch
    rows = rows_of(tagged, numbers, tag, [*ids, *kind.names, *information], len(ids))
    m, path = len(rows), numbers.path
    entry = np.empty((d, d), dtype=np.int64)  # where in the upper triangle each entry of the matrix is
    entry[upper] = entry.T[upper] = len(kind.names) + np.arange(len(upper[0]))
    in_our_order = kind.names in (POSE, TORO)
    if in_our_order:
        entry = entry[TRANSLATION_FIRST[:, None], TRANSLATION_FIRST]
    own = np.take(rows.values, entry, axis=1)
    if tag == TORO_PLANAR:
        own = _in_the_order_of_toro(own, notices)
    wxyz, t = motion(kind.names, rows.values)
    wxyz = unit_quaternions(path, rows.line, wxyz, "edges", notices)
    still, zero = np.tile(quat.IDENTITY, (m, 1)), np.zeros((m, 3))
    joint, turn, arm = np.zeros((0 if in_our_order else m, 6, 6)), wxyz, zero
    offset = (still, zero)
    if kind.offset:
        offset = _offsets_of(path, rows, ids.index("offset"), offsets)
    if in_our_order:
        joint = own
        scale = ANGLE_SCALE[options.rotation_information]
        if kind.half_angle and scale != 1.0:
            joint[:, :3, :] *= scale
            joint[:, :, :3] *= scale
        if kind.n_ids == 1:
            wxyz, arm = quat.multiply(wxyz, quat.conjugate(offset[0])), offset[1]
    elif kind.names is PLANAR:
        joint[:, THETA_LAST[:, None], THETA_LAST] = own
    elif kind.names is QUATERNION:
        G = wxyz[:, :1, None] * np.eye(3) - se3.hat(wxyz[:, 1:])
        joint[:, :3, :3], turn = 0.25 * np.swapaxes(G, 1, 2) @ own @ G, still
        joint = 0.5 * (joint + np.swapaxes(joint, 1, 2))
    elif kind.names is VECTORS:
        wxyz, joint[:, :3, :3] = _directions(path, rows, own, notices)
        turn = still
    else:
        joint[:, 3 : 3 + d, 3 : 3 + d], turn = own, still
        if kind.landmark and kind.n_ids == 2:
            turn, t = offset[0], se3.compose(offset, (still, t))[1] if kind.offset else t
        elif kind.offset:
            arm = offset[1]
            if np.any(arm):
                notices.append(f"offsets of {tag} lines taken as lever arms; g2o itself does not look at them")
    prior = kind.n_ids == 1
    has_point = kind.names not in (QUATERNION, VECTORS)
    span = np.tile([len(ids), min(len(kind.names), 2 if d == 2 or kind.planar else 3)], (m, 1))
    return EdgeLines(
        rows.line,
        rows.ids[:, 0 if prior else 1],
        rows.ids[:, 0],
        np.full(m, prior),
        np.full(m, kind.planar),
        np.full(m, kind.landmark),
        np.full(m, kind.names in (POSE, TORO, PLANAR)),
        np.full(m, has_point),
        wxyz,
        t,
        span,
        arm,
        joint,
        turn,
        np.full(m, np.nan),
    )


def _in_the_order_of_toro(by_rows: Array, notices: list[str]) -> Array:
    """Informations (m, 3, 3) of EDGE2 lines, which have xx xy yy θθ xθ yθ; by rows where only that makes sense, and told."""
    xx, xy, yy, tt, xt, yt = by_rows[:, *np.triu_indices(3)].T
    toro = np.array([[xx, xy, xt], [xy, yy, yt], [xt, yt, tt]]).transpose(2, 0, 1)
    if np.all(precisions.is_semidefinite(toro)) or not np.all(precisions.is_semidefinite(by_rows)):
        return toro
    notices.append("EDGE2 informations read by rows (xx xy xθ yy yθ θθ): in TORO's order they would be none")
    return by_rows


def _offsets_of(
    path: PathLike, rows: Rows, column: int, offsets: dict[int, tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Rotation (m, 4) and translation (m, 3) of the sensor's offset that each line names."""
    wxyz, t = np.tile(quat.IDENTITY, (len(rows), 1)), np.zeros((len(rows), 3))
    for k, name in enumerate(rows.ids[:, column].tolist()):
        if name not in offsets:
            raise ParseError(path, int(rows.line[k]), f"names offset {name}, for which there is no {OFFSET} line")
        wxyz[k], t[k] = offsets[name]
    return wxyz, t


def _directions(path: PathLike, rows: Rows, own: Array, notices: list[str]) -> tuple[Array, Array]:
    """Quaternions and informations in the world's axes of directions; see :mod:`tempose.io.g2o`."""
    known, seen = rows.values[:, :3], rows.values[:, 3:6]
    for k in np.flatnonzero(~(np.any(known, axis=1) & np.any(seen, axis=1))):
        raise ParseError(path, int(rows.line[k]), "the direction is zero")
    unit = seen / np.linalg.norm(seen, axis=1, keepdims=True)
    across = np.linalg.svd(unit[:, None, :])[2][:, 1:]  # two axes across each
    plane = across @ own @ np.swapaxes(across, 1, 2)
    bad = np.flatnonzero(~precisions.is_definite(plane) & ~precisions.is_zero(plane))
    if len(bad):
        raise ParseError(path, int(rows.line[bad[0]]), "the information across the direction is not positive definite")
    odd = int(np.sum(precisions.spread(plane) > 1.0 + 1e-6))
    if odd:
        notices.append(
            f"{plural(odd, 'direction')} with another precision along one axis than along the other: averaged"
        )
    wxyz, concentration = absolute.direction(seen, known, precisions.trace_rule(plane))
    return wxyz, 0.5 * concentration


def with_inlier_priors(edges: EdgeLines, tagged: Tagged, numbers: NumberReader) -> EdgeLines:
    """The edges with the probability of each ``INLIER_PRIOR`` line, which belongs to the last edge of these ids above it."""
    group = tagged.get(PRIOR)
    if group is None:
        return edges
    of_ids: dict[tuple[int, ...], list[int]] = {}
    for k, (i, j, single) in enumerate(zip(edges.target.tolist(), edges.source.tolist(), edges.absolute, strict=True)):
        of_ids.setdefault((j,) if single else (i, j), []).append(k)
    prior = edges.inlier_prior.copy()
    for line, words in zip(group.line, group.fields, strict=True):
        names = ["i", "probability"] if len(words) == 2 else ["i", "j", "probability"]
        row = numbers.rows([line], [words], names, len(names) - 1, PRIOR)
        ids, p = tuple(row.ids[0].tolist()), float(row.values[0, 0])
        above = [k for k in of_ids.get(ids, []) if edges.line[k] < line]
        if not above:
            named = " ".join(map(str, ids))
            raise ParseError(numbers.path, line, f"{PRIOR} needs an edge line {named} above it; there is none")
        if not 0.0 < p <= 1.0:
            raise ParseError(numbers.path, line, f"{PRIOR} must be above 0 and at most 1, not {p:g}")
        if not np.isnan(prior[above[-1]]):
            raise ParseError(numbers.path, line, f"the edge in line {edges.line[above[-1]]} has an {PRIOR} already")
        prior[above[-1]] = p
    return replace(edges, inlier_prior=prior)


def fixed_of(tagged: Tagged, numbers: NumberReader) -> list[tuple[int, int]]:
    """Line and node of everything that FIX lines name."""
    group = tagged.get("FIX", TagLines([], []))
    found = []
    for line, words in zip(group.line, group.fields, strict=True):
        if not words:
            raise ParseError(numbers.path, line, "FIX names no node; expected FIX id [id …]")
        found += [(line, numbers.integer(token, line, "id")) for token in words]
    return found


# ---------------------------------------------------------------------- vertices that are not read


def skipped_vertices(tagged: Tagged) -> set[int]:
    """Ids of vertices of kinds that are not read."""
    return {
        int(words[0])
        for tag, group in tagged.items()
        if tag.startswith("VERTEX") and not is_known(tag)
        for words in group.fields
        if words
        and words[0].removeprefix("-").isascii()
        and words[0].removeprefix("-").isdigit()
        and len(words[0]) < 20
    }


def without_skipped(
    edges: EdgeLines, fixed: list[tuple[int, int]], skipped: set[int], notices: list[str]
) -> tuple[EdgeLines, list[tuple[int, int]]]:
    """Edges and FIX lines without those of vertices that were skipped, which are told."""
    if not skipped:
        return edges, fixed
    gone = np.isin(edges.source, list(skipped)) | (np.isin(edges.target, list(skipped)) & ~edges.absolute)
    kept = [(line, name) for line, name in fixed if name not in skipped]
    told = [plural(int(gone.sum()), "edge")] if gone.any() else []
    told += [f"{len(fixed) - len(kept)} FIX"] if len(kept) < len(fixed) else []
    vertices = plural(len(skipped), "vertex of a kind that is", "vertices of kinds that are")
    notices.append(f"{vertices} not in the model left out{', with ' + ' and '.join(told) if told else ''}")
    return edges.keep(~gone), kept
