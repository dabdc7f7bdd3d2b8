"""g2o files: vertices, edges and information matrices of a pose graph, in space or in the plane.

Lines, fields separated by blanks; ``#`` starts a comment. Ω stands for the upper triangle of the information, by rows, in
the order of the fields it is about::

    VERTEX_SE3:QUAT      id  x y z  qx qy qz qw
    EDGE_SE3:QUAT        i j x y z  qx qy qz qw  Ω                       (21 numbers, order x y z, rotation)
    VERTEX3, EDGE3       as these, with roll pitch yaw                   (TORO; R = Rz(yaw) Ry(pitch) Rx(roll))
    VERTEX_TRACKXYZ      id  x y z                                       (a landmark; also VERTEX_POINT_XYZ, VERTEX_XYZ)
    EDGE_SE3_TRACKXYZ    i j offset  x y z  Ω                            (landmark j seen from i; also EDGE_SE3_POINT_XYZ)
    PARAMS_SE3OFFSET     offset  x y z  qx qy qz qw                      (node_from_sensor)
    EDGE_SE3_PRIOR       i offset  x y z  qx qy qz qw  Ω                 (pose of the sensor in the world)
    EDGE_SE3_XYZPRIOR    i offset  x y z  Ω                              (its position; also EDGE_SE3_XYZ_PRIOR)
    EDGE_POINTXYZ_PRIOR  i x y z  Ω                                      (position of a landmark)
    EDGE_SE3_PRIORXY     i x y  Ω                                        (hdl_graph_slam, as are the next three)
    EDGE_SE3_PRIORXYZ    i x y z  Ω
    EDGE_SE3_PRIORQUAT   i qw qx qy qz  Ω
    EDGE_SE3_PRIORVEC    i  direction in the world (3)  the same in the node (3)  Ω

    VERTEX_SE2           id  x y θ
    EDGE_SE2             i j x y θ  Ω                                    (6 numbers)
    VERTEX_XY            id  x y                                         (a landmark)
    EDGE_SE2_XY          i j x y  Ω
    EDGE_PRIOR_SE2       i x y θ  Ω
    EDGE_PRIOR_SE2_XY    i x y  Ω                                        (of a landmark: EDGE_PRIOR_XY)

    FIX                  id [id …]                                       (held where its vertex is)
    INLIER_PRIOR         i [j] p                                         (tempose's own; of the last such line above)

A vertex is ``X = world_from_node``. An edge measures ``Z ≈ X_i⁻¹ X_j = i_from_j``, with information about the error
``E = Z⁻¹ X_i⁻¹ X_j``, whose axes are those of node j. A tempose edge measures ``target_from_source`` and has its
precisions in the target's frame; hence line ``i j Z Ω`` becomes the edge with source j, target i and measurement Z as
it stands, and with ``ν = vec(q_Z ⊗ conj(q_i⁻¹ q_j)) = −R_Z vec(q_E)`` and ``r = −R_Z t_E`` its precisions are

    ½ eᵀΩe = νᵀΛν + ½ (r + Bs)ᵀP(r + Bs),   s = 2wν,   Λ, P and B those of Ω (model/precision.py), turned by R_Z

for small errors, where e has the rotation vector ≈ 2 vec(q_E) (GTSAM, SE-Sync). If Ω is about vec(q_E) itself (g2o), its
rotation block is a quarter of it and what ties the two a half.

A prior is an edge with i = the world. With an offset ``P = node_from_sensor`` its error is ``E = Z⁻¹ X P``: the measured
orientation of the node is ``q_Z q̄_P``, the position is that of the point t_P of the node, its lever arm, and the precisions
are turned by R_Z. ``EDGE_SE3_XYZPRIOR`` and ``PRIORXY…`` have errors in the world's axes (g2o itself does not look at the
offset of the former; here it is the lever arm). ``PRIORQUAT`` is about the difference of vector parts, ``vec(q) − vec(q_Z)
= ½ Gω`` with ``G = w − [vec(q_Z)]×`` and ω in the world, so its information about ω is ``¼ GᵀΩG``. ``PRIORVEC`` is about
``R(q̄) d − m``; with Ω a multiple ω of the identity across m this is ``2ω sin²(tilt/2)`` exactly
(:func:`tempose.model.absolute.direction`); other Ω are replaced by such a multiple, and told. A landmark seen through an offset
P is at ``P m`` in the node's frame, with precisions turned by R_P.

``precision="full"``, the default, keeps all that; a graph whose blocks are all multiples of the identity, without
correlations, becomes one of one number each. ``"isotropic"`` takes one number for each block, ``λ = 2 d_R/tr Σ_RR`` and
``τ = d/tr Σ_tt`` with Σ = Ω⁻¹, so that correlated errors are as large as they are; ``"se-sync"`` takes the blocks of Ω,
``λ = 2 d_R/tr(Ω_RR⁻¹) = 4κ`` and ``τ = d/tr(Ω_tt⁻¹)``, exactly SE-Sync's numbers.

A zero block says nothing: with Ω_t = 0 the edge becomes rotation-only, with Ω_R = 0 its concentration is 0, and with
both the edge is dropped. Each is counted and told. A block that is zero along some axes only is kept as it is by
``precision="full"`` and refused otherwise, as the trace rule has no value for it; an indefinite block is refused, and so
is an indefinite whole unless its correlations are dropped.

Planar lines make a planar graph; a file is planar or it is not. Ωθθ, the information of TORO's angles and that of the
quaternion lines of hdl_graph_slam are what they are, whatever ``rotation_information`` says.

Coordinates beyond 10 000 are those of a map: a whole-numbered origin is subtracted from vertices and priors, digit by
digit, kept as ``world_origin`` and added again on writing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from tempose._typing import Array, Index, Mask, NodeId, PathLike
from tempose.errors import GraphError, OptionError, ParseError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io._text import (
    NumberReader,
    Rows,
    content_lines,
    exact_difference,
    exact_sum_text,
    integer_ids,
    number_text,
    plural,
    read_text,
    unit_quaternions,
    write_text,
)
from tempose.io.options import ROTATION_INFORMATION, ReadOptions
from tempose.model import absolute
from tempose.model import precision as precisions
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.measurements import about_z, origin_of
from tempose.model.poses import Poses

FORMAT = "g2o"
PRIOR = "INLIER_PRIOR"
"""Tag of the prior probability that an edge is right, for robust solves; other software skips it."""
OFFSET = "PARAMS_SE3OFFSET"
# what a rotation vector is in units of each meaning of a rotation information block
ANGLE_SCALE = {"rotation-vector": 1.0, "quaternion-vector": 0.5}

_POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
_TORO = ["x", "y", "z", "roll", "pitch", "yaw"]
_PLANAR = ["x", "y", "theta"]
_POINT = ["x", "y", "z"]
_POINT2 = ["x", "y"]
_QUATERNION = ["qw", "qx", "qy", "qz"]
_VECTORS = [f"{axis} in the {frame}" for frame in ("world", "node") for axis in "xyz"]


@dataclass(frozen=True)
class _Kind:
    """What the lines of a tag hold, after the ids of their nodes."""

    names: list[str]
    planar: bool = False
    landmark: bool = False
    """Of vertices: whether it is one. Of edges: whether their last node is."""
    n_ids: int = 2
    offset: bool = False
    """Whether the id of a sensor's offset stands before the fields."""
    half_angle: bool = False
    """Whether the rotation block is subject to ``rotation_information``."""

    @property
    def n_errors(self) -> int:
        """How many numbers the information is about."""
        return {7: 6, 6: 6, 4: 3}.get(len(self.names), len(self.names)) if self.names is not _VECTORS else 3


_VERTICES = {
    "VERTEX_SE3:QUAT": _Kind(_POSE),
    "VERTEX3": _Kind(_TORO),
    "VERTEX_SE2": _Kind(_PLANAR, planar=True),
    "VERTEX_TRACKXYZ": _Kind(_POINT, landmark=True),
    "VERTEX_POINT_XYZ": _Kind(_POINT, landmark=True),
    "VERTEX_XYZ": _Kind(_POINT, landmark=True),
    "VERTEX_XY": _Kind(_POINT2, planar=True, landmark=True),
}
_EDGES = {
    "EDGE_SE3:QUAT": _Kind(_POSE, half_angle=True),
    "EDGE3": _Kind(_TORO),
    "EDGE_SE2": _Kind(_PLANAR, planar=True),
    "EDGE_SE3_TRACKXYZ": _Kind(_POINT, landmark=True, offset=True),
    "EDGE_SE3_POINT_XYZ": _Kind(_POINT, landmark=True, offset=True),
    "EDGE_SE2_XY": _Kind(_POINT2, planar=True, landmark=True),
    "EDGE_SE3_PRIOR": _Kind(_POSE, n_ids=1, offset=True, half_angle=True),
    "EDGE_SE3_XYZPRIOR": _Kind(_POINT, n_ids=1, offset=True),
    "EDGE_SE3_XYZ_PRIOR": _Kind(_POINT, n_ids=1, offset=True),
    "EDGE_SE3_PRIORXY": _Kind(_POINT2, n_ids=1),
    "EDGE_SE3_PRIORXYZ": _Kind(_POINT, n_ids=1),
    "EDGE_SE3_PRIORQUAT": _Kind(_QUATERNION, n_ids=1),
    "EDGE_SE3_PRIORVEC": _Kind(_VECTORS, n_ids=1),
    "EDGE_POINTXYZ_PRIOR": _Kind(_POINT, n_ids=1, landmark=True),
    "EDGE_PRIOR_SE2": _Kind(_PLANAR, n_ids=1, planar=True),
    "EDGE_PRIOR_SE2_XY": _Kind(_POINT2, n_ids=1, planar=True),
    "EDGE_PRIOR_XY": _Kind(_POINT2, n_ids=1, planar=True, landmark=True),
}
_NOT_IN_THE_MODEL = {
    "EDGE_BEARING_SE2_XY": "a bearing without a distance is not in the model",
    "EDGE_PROJECT_DEPTH": "pixels are not in the model",
    "EDGE_PROJECT_DISPARITY": "pixels are not in the model",
}
_TRANSLATION_FIRST = np.array([3, 4, 5, 0, 1, 2])  # g2o's order from ours, and ours from g2o's
_THETA_LAST = np.array([3, 4, 2])


# ---------------------------------------------------------------------- reading


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a pose graph; see the module for columns and equations, :class:`ReadOptions` for the choices."""
    options = options or ReadOptions()
    notices: list[str] = []
    numbers = NumberReader(path)
    tagged = _by_tag(path)
    skipped = _skipped_vertices(tagged)
    vertices = _read_vertices(tagged, numbers, notices)
    edges = _read_edges(tagged, numbers, options, notices)
    fixed = _read_fixed(tagged, numbers)
    edges = _with_inlier_priors(edges, tagged, numbers)
    numbers.finish(notices)
    edges, fixed = _without_skipped(edges, fixed, skipped, notices)
    _tell_unknown(tagged, notices)
    if not np.any(~edges.absolute):
        expected = "expected EDGE_SE3:QUAT lines (or EDGE_SE2, EDGE3)"
        raise ParseError(path, None, f"no edges found: {expected}{_what_there_is(tagged)}")
    dimension = _dimension(path, vertices, edges)
    index, landmarks, initial = _nodes(path, vertices, edges, notices)
    for line, name in fixed:
        if name not in index:
            raise ParseError(path, line, f"FIX names node {name}, which no VERTEX or EDGE line mentions")

    origin = origin_of(np.concatenate([vertices.position, edges.t[edges.absolute & edges.has_point]]))
    if np.any(origin):
        vertices = replace(vertices, position=exact_difference(vertices.words, origin))
        edges = _shifted(edges, origin)
        initial = None if initial is None else vertices.poses()
    counts: dict[str, int] = {}
    edges = _refuse_and_drop(path, edges, dimension, options, notices, counts)
    noise = _noise(edges, dimension, options, notices, counts)
    if options.sigma_rot_deg is not None or options.sigma_trans is not None:
        notices.append("the given standard deviations were not used: the file has information matrices of its own")
    names: list[NodeId] = [*index, *([WORLD] if edges.absolute.any() else [])]
    target = [len(index) if k else index[name] for k, name in zip(edges.absolute, edges.target.tolist(), strict=True)]
    held = tuple(dict.fromkeys(name for _, name in fixed))
    known = vertices.poses()
    lost = [(line, name) for line, name in fixed if name not in known]
    if lost and (len(held) > 1 or edges.absolute.any()):
        why = f"FIX holds node {lost[0][1]}, and no VERTEX line says where, as it must if more than one thing is fixed"
        raise ParseError(path, lost[0][0], why)
    graph = PoseGraph(
        tuple(names),
        np.array([index[k] for k in edges.source.tolist()], dtype=np.int64),
        np.array(target, dtype=np.int64),
        edges.wxyz,
        np.where(precisions.is_zero(edges.information[:, 3:, 3:])[:, None], np.nan, edges.t),
        *noise[:2],
        initial=initial,
        fixed=held,
        inlier_prior=edges.inlier_prior,
        notices=tuple(notices),
        origin={
            "file": Path(path).name,
            "format": FORMAT,
            "rotation_information": options.rotation_information,
            "precision": options.precision,
            **{name: str(count) for name, count in counts.items()},
        },
        dimension=dimension,
        coupling=noise.coupling,
        arm=edges.arm,
        landmarks=landmarks,
        fixed_at=known.select([name for name in held if name in known]),
        world_origin=origin,
    )
    for k, sigmas in zip(*absolute.contradictions(graph), strict=True):
        why = f"node {edges.source[k]} is measured {sigmas:.3g} σ from where FIX holds it; one of the two is wrong"
        raise ParseError(path, int(edges.line[k]), why)
    return graph


def read_poses(path: PathLike) -> Poses:
    """The vertices of a g2o file; landmarks, which have no orientation, are unturned."""
    return read_vertices(path)[0]


def read_vertices(path: PathLike) -> tuple[Poses, bool, tuple[NodeId, ...]]:
    """The vertices of a g2o file, whether they are planar, and which of them are landmarks."""
    notices: list[str] = []
    numbers = NumberReader(path)
    tagged = _by_tag(path)
    vertices = _read_vertices(tagged, numbers, notices)
    numbers.finish(notices)
    if not len(vertices.line):
        expected = "expected VERTEX_SE3:QUAT lines (or VERTEX_SE2, VERTEX3)"
        raise ParseError(path, None, f"no vertices found: {expected}{_what_there_is(tagged)}")
    landmarks = tuple(vertices.ids[vertices.landmark].tolist())
    return vertices.poses(), bool(vertices.planar.all()), landmarks


@dataclass(frozen=True)
class _Tag:
    """Lines of one tag: their numbers, and their fields after the tag."""

    line: list[int]
    fields: list[list[str]]


def _by_tag(path: PathLike) -> dict[str, _Tag]:
    tagged: dict[str, _Tag] = {}
    for number, text in content_lines(read_text(path)):
        tag, *words = text.split()
        group = tagged.get(tag)
        if group is None:
            group = tagged[tag] = _Tag([], [])
            start = tag.replace(";", ",").partition(",")[0]
            if start != tag and _known(start):
                raise ParseError(path, number, f"{start} is followed by {tag[len(start)]!r}; g2o separates by blanks")
        group.line.append(number)
        group.fields.append(words)
    return tagged


def _known(tag: str) -> bool:
    return tag in _VERTICES or tag in _EDGES or tag in ("FIX", PRIOR, OFFSET)


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
        why = "; ".join(dict.fromkeys(_NOT_IN_THE_MODEL[tag] for tag in unknown if tag in _NOT_IN_THE_MODEL))
        lines = plural(unknown.total(), "line")
        notices.append(f"{lines} with an unknown tag skipped: {listed}{'; ' + why if why else ''}")


def _what_there_is(tagged: dict[str, _Tag]) -> str:
    if not tagged:
        return "; the file is empty"
    return f"; the file has {_tag_counts({tag: len(group.line) for tag, group in tagged.items()})}"


def _skipped_vertices(tagged: dict[str, _Tag]) -> set[int]:
    """Ids of vertices of kinds that are not read."""
    return {
        int(words[0])
        for tag, group in tagged.items()
        if tag.startswith("VERTEX") and not _known(tag)
        for words in group.fields
        if words
        and words[0].removeprefix("-").isascii()
        and words[0].removeprefix("-").isdigit()
        and len(words[0]) < 20
    }


def _without_skipped(
    edges: _Edges, fixed: list[tuple[int, int]], skipped: set[int], notices: list[str]
) -> tuple[_Edges, list[tuple[int, int]]]:
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


def _rows(tagged: dict[str, _Tag], numbers: NumberReader, tag: str, names: list[str], n_ids: int) -> Rows:
    group = tagged.get(tag, _Tag([], []))
    return numbers.rows(group.line, group.fields, names, n_ids, tag)


def _motion(names: list[str], values: Array) -> tuple[Array, Array]:
    """Quaternions wxyz (not yet of unit length) and translations from the fields of a vertex or an edge."""
    still = np.tile(quat.IDENTITY, (len(values), 1))
    if names is _POSE:
        return values[:, [6, 3, 4, 5]], values[:, :3]
    if names is _TORO:
        roll, pitch, yaw = (quat.exp(values[:, 3 + k, None] * np.eye(3)[k]) for k in range(3))
        return quat.multiply(yaw, quat.multiply(pitch, roll)), values[:, :3]
    if names is _PLANAR:
        return about_z(values[:, 2]), np.column_stack([values[:, :2], np.zeros(len(values))])
    if names is _QUATERNION:
        return values[:, :4], np.zeros((len(values), 3))
    if names is _VECTORS:
        return still, np.zeros((len(values), 3))
    return still, np.column_stack([values[:, : len(names)], np.zeros((len(values), 3 - len(names)))])


# ---------------------------------------------------------------------- vertices


@dataclass(frozen=True)
class _Vertices:
    line: Index
    ids: Index
    wxyz: Array
    position: Array
    words: Array
    """The position as it stands in the file, text (k, 3)."""
    planar: Mask
    landmark: Mask

    def poses(self) -> Poses:
        return Poses(tuple(self.ids.tolist()), self.wxyz, self.position)

    def keep(self, rows: Mask | Index) -> _Vertices:
        return _Vertices(*(getattr(self, f.name)[rows] for f in fields(self)))


def _words(group: _Tag, first: int, count: int) -> Array:
    """Coordinates as they stand in the file, text (k, 3)."""
    return np.array(
        [[*row[first : first + count], *["0"] * (3 - count)] for row in group.fields], dtype=object
    ).reshape(-1, 3)


def _read_vertices(tagged: dict[str, _Tag], numbers: NumberReader, notices: list[str]) -> _Vertices:
    parts = []
    for tag, kind in _VERTICES.items():
        rows = _rows(tagged, numbers, tag, ["id", *kind.names], 1)
        words = _words(tagged.get(tag, _Tag([], [])), 1, 2 if kind.planar else 3)
        flags = np.full(len(rows), kind.planar), np.full(len(rows), kind.landmark)
        parts.append((rows.line, rows.ids[:, 0], *_motion(kind.names, rows.values), words, *flags))
    all_of = _Vertices(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    all_of = all_of.keep(np.argsort(all_of.line, kind="stable"))
    line, ids = all_of.line, all_of.ids
    all_of = replace(all_of, wxyz=unit_quaternions(numbers.path, line, all_of.wxyz, "vertices", notices))
    _, first = np.unique(ids, return_index=True)
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
class _Edges:
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
    words: Array
    """The translation as it stands in the file, text (m, 3)."""
    arm: Array
    information: Array
    """Joint information (m, 6, 6), rotation vector in radians first, about its own axes."""
    turn: Array
    """Quaternions (m, 4) that turn its axes to those of the target."""
    inlier_prior: Array
    """Prior probability that the edge is right; NaN where the file says nothing."""

    def keep(self, rows: Mask | Index) -> _Edges:
        return _Edges(*(getattr(self, f.name)[rows] for f in fields(self)))


def _read_edges(tagged: dict[str, _Tag], numbers: NumberReader, options: ReadOptions, notices: list[str]) -> _Edges:
    offsets = _read_offsets(tagged, numbers, notices)
    parts = []
    for tag, kind in _EDGES.items():
        if tag in tagged or tag == "EDGE_SE3:QUAT":
            parts.append(_read_kind(tag, kind, tagged, numbers, offsets, options, notices))
    edges = _Edges(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(_Edges)))
    edges = edges.keep(np.argsort(edges.line, kind="stable"))
    loops = np.flatnonzero((edges.source == edges.target) & ~edges.absolute)
    if len(loops):
        k = int(loops[0])
        raise ParseError(
            numbers.path, int(edges.line[k]), f"the edge joins node {edges.source[k]} to itself; remove it"
        )
    return edges


def _read_offsets(tagged: dict[str, _Tag], numbers: NumberReader, notices: list[str]) -> dict[int, tuple[Array, Array]]:
    rows = _rows(tagged, numbers, OFFSET, ["id", *_POSE], 1)
    wxyz, t = _motion(_POSE, rows.values)
    wxyz = unit_quaternions(numbers.path, rows.line, wxyz, "offsets", notices)
    return {int(name): (q, shift) for name, q, shift in zip(rows.ids[:, 0], wxyz, t, strict=True)}


def _read_kind(
    tag: str,
    kind: _Kind,
    tagged: dict[str, _Tag],
    numbers: NumberReader,
    offsets: dict[int, tuple[Array, Array]],
    options: ReadOptions,
    notices: list[str],
) -> _Edges:
    """The edges of one tag, as the equations of the module have them."""
    d = kind.n_errors
    upper = np.triu_indices(d)
    information = [f"information {a}{b}" for a, b in zip(*(1 + k for k in upper), strict=True)]
    ids = ["i", "j"][: kind.n_ids] + ["offset"] * kind.offset
    rows = _rows(tagged, numbers, tag, [*ids, *kind.names, *information], len(ids))
    m, path = len(rows), numbers.path
    own = np.zeros((m, d, d))
    own[:, upper[0], upper[1]] = own[:, upper[1], upper[0]] = rows.values[:, len(kind.names) :]
    wxyz, t = _motion(kind.names, rows.values)
    wxyz = unit_quaternions(path, rows.line, wxyz, "edges", notices)
    still, zero = np.tile(quat.IDENTITY, (m, 1)), np.zeros((m, 3))
    joint, turn, arm = np.zeros((m, 6, 6)), wxyz, zero
    offset = (still, zero)
    if kind.offset:
        offset = _offsets_of(path, rows, ids.index("offset"), offsets)
    if kind.names in (_POSE, _TORO):
        joint = own[:, _TRANSLATION_FIRST[:, None], _TRANSLATION_FIRST]
        if kind.half_angle:
            scale = ANGLE_SCALE[options.rotation_information]
            joint[:, :3, :] *= scale
            joint[:, :, :3] *= scale
        if kind.n_ids == 1:
            wxyz, arm = quat.multiply(wxyz, quat.conjugate(offset[0])), offset[1]
    elif kind.names is _PLANAR:
        joint[:, _THETA_LAST[:, None], _THETA_LAST] = own
    elif kind.names is _QUATERNION:
        G = wxyz[:, :1, None] * np.eye(3) - se3.hat(wxyz[:, 1:])
        joint[:, :3, :3], turn = 0.25 * np.swapaxes(G, 1, 2) @ own @ G, still
        joint = 0.5 * (joint + np.swapaxes(joint, 1, 2))
    elif kind.names is _VECTORS:
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
    has_point = kind.names not in (_QUATERNION, _VECTORS)
    words = _words(tagged.get(tag, _Tag([], [])), len(ids), min(len(kind.names), 2 if d == 2 or kind.planar else 3))
    return _Edges(
        rows.line,
        rows.ids[:, 0 if prior else 1],
        rows.ids[:, 0],
        np.full(m, prior),
        np.full(m, kind.planar),
        np.full(m, kind.landmark),
        np.full(m, kind.names in (_POSE, _TORO, _PLANAR)),
        np.full(m, has_point),
        wxyz,
        t,
        words,
        arm,
        joint,
        turn,
        np.full(m, np.nan),
    )


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
    """Quaternions and informations in the world's axes of directions; see the module."""
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


def _with_inlier_priors(edges: _Edges, tagged: dict[str, _Tag], numbers: NumberReader) -> _Edges:
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


def _read_fixed(tagged: dict[str, _Tag], numbers: NumberReader) -> list[tuple[int, int]]:
    group = tagged.get("FIX", _Tag([], []))
    found = []
    for line, words in zip(group.line, group.fields, strict=True):
        if not words:
            raise ParseError(numbers.path, line, "FIX names no node; expected FIX id [id …]")
        found += [(line, numbers.integer(token, line, "id")) for token in words]
    return found


# ---------------------------------------------------------------------- the parts together


def _first_lines(names: Iterable[int], lines: Iterable[int], into: dict[int, int]) -> dict[int, int]:
    for name, line in zip(names, lines, strict=True):
        into[name] = min(line, into.get(name, line))
    return into


def _where(vertices: _Vertices, edges: _Edges, of_vertices: Mask, of_sources: Mask, of_targets: Mask) -> dict[int, int]:
    """The line in which each node first occurs, among some vertices and ends of edges."""
    out = _first_lines(vertices.ids[of_vertices].tolist(), vertices.line[of_vertices].tolist(), {})
    _first_lines(edges.source[of_sources].tolist(), edges.line[of_sources].tolist(), out)
    of_targets = of_targets & ~edges.absolute
    return _first_lines(edges.target[of_targets].tolist(), edges.line[of_targets].tolist(), out)


def _dimension(path: PathLike, vertices: _Vertices, edges: _Edges) -> int:
    """2 or 3; a file that is both is refused."""
    kinds = np.concatenate([vertices.planar, edges.planar])
    if kinds.all() or not kinds.any():
        return 2 if kinds.any() else 3
    flat = _where(vertices, edges, vertices.planar, edges.planar, edges.planar)
    solid = _where(vertices, edges, ~vertices.planar, ~edges.planar, ~edges.planar)
    both = set(flat) & set(solid)
    if both:
        name = min(both, key=lambda k: max(flat[k], solid[k]))
        first, second = sorted([(flat[name], "planar"), (solid[name], "3D")])
        why = f"node {name} is {second[1]} here and {first[1]} in line {first[0]}; an edge cannot join the two"
        raise ParseError(path, second[0], why)
    first, second = sorted([(min(flat.values()), "planar"), (min(solid.values()), "3D")])
    why = f"the line is {second[1]}, line {first[0]} is {first[1]}; a graph is one of the two: split the file"
    raise ParseError(path, second[0], why)


def _landmarks_and_poses(vertices: _Vertices, edges: _Edges) -> tuple[dict[int, int], dict[int, int]]:
    """The line in which each landmark, and each node with an orientation, first occurs; nothing if there are no landmarks."""
    if not vertices.landmark.any() and not edges.landmark.any():
        return {}, {}
    none = np.zeros(len(edges.line), dtype=bool)
    points = _where(vertices, edges, vertices.landmark, edges.landmark, none)
    return points, _where(vertices, edges, ~vertices.landmark, ~edges.landmark, ~none)


def _nodes(
    path: PathLike, vertices: _Vertices, edges: _Edges, notices: list[str]
) -> tuple[dict[NodeId, int], tuple[NodeId, ...], Poses | None]:
    """Row of each node, vertices first, the landmarks among them, and the vertices as a start if every node has one."""
    points, posed = _landmarks_and_poses(vertices, edges)
    for name in sorted(set(points) & set(posed), key=lambda k: max(points[k], posed[k])):
        first, second = sorted([(points[name], "a landmark"), (posed[name], "a pose")])
        raise ParseError(path, second[0], f"node {name} is {second[1]} here and {first[1]} in line {first[0]}")
    measured = set(edges.source.tolist())
    unseen = [name for name in vertices.ids[vertices.landmark].tolist() if name not in measured]
    if unseen:
        notices.append(f"{plural(len(unseen), 'landmark')} that nothing measures left out")
    gone = set(unseen)
    shown = [name for name in vertices.ids.tolist() if name not in gone]
    index: dict[NodeId, int] = {name: k for k, name in enumerate(shown)}
    declared = len(index)
    relative = ~edges.absolute
    for name in np.unique(np.concatenate([edges.source[relative], edges.target[relative]])).tolist():
        index.setdefault(name, len(index))  # in the order of their numbers, whichever edge comes first
    for k in np.flatnonzero(edges.absolute):
        if edges.source[k] not in index:
            why = f"the prior is of node {edges.source[k]}, which no VERTEX or EDGE line mentions"
            raise ParseError(path, int(edges.line[k]), why)
    missing = len(index) - declared
    landmarks = tuple(name for name in index if name in points)
    if missing == 0:
        return index, landmarks, vertices.poses()
    if declared == 0:
        notices.append(f"no VERTEX lines: {plural(missing, 'node')} taken from the edges")
    else:
        first_new = list(index)[declared]
        line = edges.line[np.flatnonzero((edges.source == first_new) | (edges.target == first_new))[0]]
        notices.append(
            f"{plural(missing, 'node')} without a VERTEX line (first: {first_new} in line {line}) taken from the edges; "
            "the vertices are not complete and not used as a start"
        )
    return index, landmarks, None


def _shifted(edges: _Edges, origin: Array) -> _Edges:
    """What is known about single nodes, less an origin, digit by digit."""
    moved = edges.absolute & edges.has_point
    t = edges.t.copy()
    t[moved] = exact_difference(edges.words[moved], origin)
    return replace(edges, t=t)


def _refuse_and_drop(
    path: PathLike, edges: _Edges, dimension: int, options: ReadOptions, notices: list[str], counts: dict[str, int]
) -> _Edges:
    """Edges whose information makes sense; those that carry none at all are left out."""
    zero_t, zero_r = (precisions.is_zero(edges.information[:, a, a]) for a in (slice(3, 6), slice(0, 3)))
    singular = np.zeros(len(edges.line), dtype=bool)
    for axes, zero, name in (
        (precisions.TRANSLATION[dimension], zero_t, "translation"),
        (precisions.ROTATION[dimension], zero_r, "rotation"),
    ):
        block = edges.information[:, axes[:, None], axes]
        usable, kept = precisions.is_definite(block) | zero, precisions.is_semidefinite(block)
        bad = np.flatnonzero(~(kept if options.precision == "full" else usable))
        if len(bad):
            hint = "; it is zero along some axis, which --precision full accepts" if kept[bad[0]] else ""
            size = {1: "", 2: "2×2 ", 3: "3×3 "}[len(axes)]
            why = f"the {size}information of the {name} is not positive definite{hint}"
            raise ParseError(path, int(edges.line[bad[0]]), why)
        singular |= ~usable & edges.complete
    counts["singular_edges"] = int(np.sum(singular))
    counts["rotation_only_edges"] = int(np.sum(zero_t & ~zero_r & edges.complete))
    counts["translation_only_edges"] = int(np.sum(zero_r & ~zero_t & edges.complete))
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
    """Refuse what ties translation to rotation more closely than can be, unless correlations are dropped anyway."""
    some = np.flatnonzero(precisions.is_correlated(edges.information))
    counts["correlated_edges"] = len(some)
    whole = edges.information[some]
    indefinite = some[precisions.is_jointly_indefinite(whole)]
    counts["indefinite_edges"] = len(indefinite)
    hint = "; its diagonal blocks are not: --precision se-sync uses these alone"
    if len(indefinite) and options.precision != "se-sync":
        raise ParseError(path, int(edges.line[indefinite[0]]), f"the information matrix is indefinite{hint}")
    if len(indefinite):
        line = int(edges.line[indefinite[0]])
        notices.append(
            f"{plural(len(indefinite), 'edge')} with an indefinite information matrix (first: line {line}); "
            "only its diagonal blocks, which are positive definite, are used"
        )
    tied = some[precisions.ties_the_unmeasured(whole)]
    if len(tied) and options.precision == "full":
        why = "the information matrix is singular: it ties the translation to a rotation that it does not measure"
        raise ParseError(path, int(edges.line[tied[0]]), f"{why}; --precision se-sync uses its diagonal blocks alone")
    if options.precision == "isotropic":
        scaled = precisions.lowest(precisions.without_zeros(whole))
        bad = some[scaled <= 1e-12]
        if len(bad):
            why = "the information matrix is singular, so that no one number stands for it; --precision full keeps it"
            raise ParseError(path, int(edges.line[bad[0]]), why)


def _noise(
    edges: _Edges, dimension: int, options: ReadOptions, notices: list[str], counts: dict[str, int]
) -> precisions.EdgeNoise:
    """How sure the edges are, in the frame of their target, as ``options.precision`` asks."""
    counts["reduced_edges"] = 0
    if options.precision == "full":
        return precisions.noise(edges.information, edges.turn, dimension)
    if options.precision == "se-sync":
        edges = replace(edges, information=_uncorrelated(edges.information)) if counts["indefinite_edges"] else edges
    spreads = precisions.spreads(edges.information, dimension)
    reduced = (spreads[0] > precisions.ROUND) | (spreads[1] > precisions.ROUND)
    counts["reduced_edges"] = int(np.sum(reduced | precisions.is_correlated(edges.information)))
    notice = precisions.reduction_notice(edges.information, dimension, options.precision)
    notices.extend([notice] if notice else [])
    one_number = precisions.marginal_numbers if options.precision == "isotropic" else precisions.block_numbers
    return one_number(edges.information, dimension)


def _uncorrelated(information: Array) -> Array:
    """The same with the correlations of indefinite matrices dropped: they mean nothing."""
    out = np.array(information)
    bad = precisions.is_jointly_indefinite(information)
    out[bad, 3:, :3] = out[bad, :3, 3:] = 0.0
    return out


# ---------------------------------------------------------------------- writing


def write_graph(
    path: PathLike, graph: PoseGraph, poses: Poses | None = None, rotation_information: str = "rotation-vector"
) -> None:
    """Write a pose graph; the inverse of :func:`read_graph` with the same ``rotation_information``.

    Vertices are ``poses``, in the graph's own coordinates, or the graph's initial poses, or those of the fixed nodes. A
    rotation-only edge gets a zero translation with zero information. What the format has no line for is refused.
    """
    if rotation_information not in ROTATION_INFORMATION:
        known = ", ".join(ROTATION_INFORMATION)
        raise OptionError(f"rotation_information is {rotation_information!r}; expected one of {known}")
    ids = integer_ids(graph.reported, FORMAT)
    _refuse_to_write(graph)
    shown = graph.initial if poses is None else poses
    lines = []
    if shown is not None:
        lines = _vertex_lines(shown.select(graph.reported), graph.is_planar, graph.landmarks, graph.world_origin)
    elif len(graph.fixed) > 1 or np.any(graph.fixed_at.position) or np.any(graph.fixed_at.wxyz[:, 1:]):  # type: ignore[union-attr]
        held = [name for name in graph.fixed if name != WORLD]
        lines = _vertex_lines(graph.fixed_at.select(held), graph.is_planar, graph.landmarks, graph.world_origin)  # type: ignore[union-attr]
    if shown is None:
        _refuse_unnamed(graph)
    lines += [f"FIX {name}" for name in graph.fixed if name != WORLD]
    tag, offset, information = _line_kinds(graph), _offset_ids(graph), _informations(graph, rotation_information)
    if any(_EDGES[name].offset for name in tag):
        arms = {0: np.zeros(3)} if graph.arm is None else {int(o): a for o, a in zip(offset, graph.arm, strict=True)}
        arms.setdefault(0, np.zeros(3))
        lines += [f"{OFFSET} {o} {' '.join(map(number_text, arms[o].tolist()))} 0 0 0 1" for o in sorted(arms)]
    prior = np.full(graph.n_edges, np.nan) if graph.inlier_prior is None else graph.inlier_prior
    shift = np.where(graph.has_translation[:, None], graph.j_from_i_t, 0.0).tolist()
    xyzw = graph.j_from_i_wxyz[:, [1, 2, 3, 0]].tolist()
    angle = (2.0 * np.arctan2(graph.j_from_i_wxyz[:, 3], graph.j_from_i_wxyz[:, 0])).tolist()
    for k, (i, j, p) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), prior.tolist(), strict=True)):
        kind = _EDGES[tag[k]]
        d = 2 if kind.planar else 3
        ends = f"{ids[i]}" if kind.n_ids == 1 else f"{ids[j]} {ids[i]}"
        point = [number_text(x) for x in shift[k][:d]]
        if kind.n_ids == 1:
            point = [exact_sum_text(x, o) for x, o in zip(shift[k][:d], graph.world_origin[:d], strict=True)]
        turn = {id(_POSE): xyzw[k], id(_PLANAR): [angle[k]]}.get(id(kind.names), [])
        upper = information[k][np.ix_(*[_axes_of(kind)] * 2)][np.triu_indices(kind.n_errors)].tolist()
        where = [str(int(offset[k]))] if kind.offset else []
        lines.append(" ".join([tag[k], ends, *where, *point, *map(number_text, [*turn, *upper])]))
        if not np.isnan(p):
            lines.append(f"{PRIOR} {ends} {number_text(p)}")
    write_text(path, "\n".join(lines) + "\n")


def _axes_of(kind: _Kind) -> Index:
    """Rows of a joint information, rotation first, in the order of a line."""
    if kind.names is _POSE:
        return _TRANSLATION_FIRST
    return _THETA_LAST if kind.names is _PLANAR else np.arange(3, 3 + kind.n_errors)


def _refuse_to_write(graph: PoseGraph) -> None:
    """One line for what a g2o file has no place for."""
    from_world = graph.edge_i == graph.world if graph.world is not None else np.zeros(graph.n_edges, dtype=bool)
    arms = np.zeros(graph.n_edges, dtype=bool) if graph.arm is None else np.any(graph.arm, axis=1)
    tied = np.zeros(graph.n_edges, dtype=bool) if graph.coupling is None else np.any(graph.coupling, axis=(1, 2))
    point = (graph.ranks[0] == 0) & (graph.is_absolute | graph.is_landmark[graph.edge_i])
    for bad, what in (
        (from_world, "measures the world from a node, for which g2o files have no line"),
        (arms & ~graph.is_absolute & ~from_world, "has a lever arm, which g2o files have for priors only"),
        (tied & point, "ties a position to a rotation that it does not measure, for which g2o files have no place"),
        (arms & graph.is_planar, "has a lever arm, for which planar g2o files have no place"),
    ):
        if np.any(bad):
            k = int(np.argmax(bad))
            i, j = graph.node_ids[graph.edge_i[k]], graph.node_ids[graph.edge_j[k]]
            raise GraphError(f"edge {k} ({i!r} → {j!r}) {what}; write .csv")


def _refuse_unnamed(graph: PoseGraph) -> None:
    """One line for a node that neither a vertex nor an edge would name."""
    relative = ~graph.is_absolute
    named = set(graph.edge_i[relative].tolist()) | set(graph.edge_j[relative].tolist())
    for name in graph.reported:
        if graph.index[name] not in named and name not in graph.fixed:
            raise GraphError(
                f"node {name!r} is in no edge between nodes, and has no pose: g2o cannot name it; write .csv"
            )


def _line_kinds(graph: PoseGraph) -> list[str]:
    """Tag of each edge's line."""
    tags = {
        False: ("EDGE_SE3:QUAT", "EDGE_SE3_TRACKXYZ", "EDGE_SE3_PRIOR", "EDGE_SE3_XYZPRIOR", "EDGE_POINTXYZ_PRIOR"),
        True: ("EDGE_SE2", "EDGE_SE2_XY", "EDGE_PRIOR_SE2", "EDGE_PRIOR_SE2_XY", "EDGE_PRIOR_XY"),
    }[graph.is_planar]
    turns, single = graph.ranks[0] > 0, graph.is_absolute  # those from the world have been refused
    landmark = graph.is_landmark[graph.edge_i]
    column = np.select([single & landmark, single & ~turns, single, landmark], [4, 3, 2, 1], 0)
    return [tags[k] for k in column]


def _offset_ids(graph: PoseGraph) -> Index:
    """Which offset each edge has (m,): 0 for none, then by their first edge."""
    arms = np.zeros((graph.n_edges, 3)) if graph.arm is None else graph.arm
    number: dict[tuple[float, ...], int] = {(0.0, 0.0, 0.0): 0}
    return np.array([number.setdefault(tuple(arm), len(number)) for arm in arms.tolist()], dtype=np.int64)


def _informations(graph: PoseGraph, rotation_information: str) -> Array:
    """Joint informations (m, 6, 6) about the axes of the line of each edge, rotation first."""
    joint = graph.information
    positions = (graph.ranks[0] == 0) & (graph.is_absolute | graph.is_landmark[graph.edge_i])
    back = np.where(positions[:, None], quat.IDENTITY, quat.conjugate(graph.j_from_i_wxyz))
    out = precisions.turned_jointly(joint, back)
    if graph.is_planar:
        round_ = precisions.is_multiple_of_identity(joint[:, 3:5, 3:5])
        out[round_, 3:, 3:] = joint[round_, 3:, 3:]
        out[:, 2, 2] = joint[:, 2, 2]
        return out
    scale = 1.0 / ANGLE_SCALE[rotation_information]
    out[:, :3, :] *= scale
    out[:, :, :3] *= scale
    return out


def write_poses(
    path: PathLike,
    poses: Poses,
    planar: bool = False,
    landmarks: Iterable[NodeId] = (),
    world_origin: Array | None = None,
) -> None:
    """Write poses as the vertices of a g2o file; ``world_origin`` (3,) is added to their positions."""
    integer_ids(poses.ids, FORMAT)
    origin = np.zeros(3) if world_origin is None else world_origin
    write_text(path, "\n".join(_vertex_lines(poses, planar, landmarks, origin)) + "\n")


def _vertex_lines(poses: Poses, planar: bool, landmarks: Iterable[NodeId], origin: Array) -> list[str]:
    points = set(landmarks)
    tags = ("VERTEX_SE2", "VERTEX_XY") if planar else ("VERTEX_SE3:QUAT", "VERTEX_TRACKXYZ")
    turns = poses.wxyz[:, [1, 2, 3, 0]]
    if planar:
        turns = 2.0 * np.arctan2(poses.wxyz[:, 3:], poses.wxyz[:, :1])
    lines = []
    for name, position, turn in zip(poses.ids, poses.position.tolist(), turns.tolist(), strict=True):
        point = [exact_sum_text(x, o) for x, o in zip(position, origin.tolist(), strict=True)][: 2 if planar else 3]
        words = [*point, *([] if name in points else map(number_text, turn))]
        lines.append(" ".join([tags[name in points], str(name), *words]))
    return lines
