"""Lines of g2o files by their tags: what each kind holds, and their fields as numbers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tempose._support.words import plural
from tempose._typing import Array, Index, PathLike
from tempose.errors import ParseError
from tempose.geometry import quaternion as quat
from tempose.io._text import (
    NumberReader,
    Rows,
    content_lines,
    read_text,
    with_content,
)
from tempose.io.g2o import bulk
from tempose.model.measurements import about_z

FORMAT = "g2o"
LARGE = 4_000_000
"""From this many bytes on the usual lines are read by compiled code, which must be compiled once (seconds)."""
PRIOR = "INLIER_PRIOR"
"""Tag of the prior probability that an edge is right, for robust solves; other software skips it."""
OFFSET = "PARAMS_SE3OFFSET"
TORO_PLANAR = "EDGE2"
SWITCHES = ("VERTEX_SWITCH", "EDGE_SWITCH_PRIOR", "PARAMS_SE2OFFSET")
"""Lines that belong to switchable edges, or say nothing: what they hold is not needed."""
# what a rotation vector is in units of each meaning of a rotation information block
ANGLE_SCALE = {"rotation-vector": 1.0, "quaternion-vector": 0.5}

POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
TORO = ["x", "y", "z", "roll", "pitch", "yaw"]
PLANAR = ["x", "y", "theta"]
POINT = ["x", "y", "z"]
POINT2 = ["x", "y"]
QUATERNION = ["qw", "qx", "qy", "qz"]
VECTORS = [f"{axis} in the {frame}" for frame in ("world", "node") for axis in "xyz"]


@dataclass(frozen=True)
class LineKind:
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
    switch: bool = False
    """Whether the id of a switch stands after those of the nodes."""

    @property
    def n_errors(self) -> int:
        """How many numbers the information is about."""
        return {7: 6, 6: 6, 4: 3}.get(len(self.names), len(self.names)) if self.names is not VECTORS else 3

    @property
    def n_informations(self) -> int:
        """How many numbers of the upper triangle of its information an edge has."""
        return self.n_errors * (self.n_errors + 1) // 2

    @property
    def all_ids(self) -> int:
        """How many integers an edge begins with."""
        return self.n_ids + self.offset + self.switch


VERTICES = {
    "VERTEX_SE3:QUAT": LineKind(POSE),
    "VERTEX3": LineKind(TORO),
    "VERTEX_SE2": LineKind(PLANAR, planar=True),
    "VERTEX2": LineKind(PLANAR, planar=True),
    "VERTEX_TRACKXYZ": LineKind(POINT, landmark=True),
    "VERTEX_POINT_XYZ": LineKind(POINT, landmark=True),
    "VERTEX_XYZ": LineKind(POINT, landmark=True),
    "VERTEX_XY": LineKind(POINT2, planar=True, landmark=True),
}
EDGES = {
    "EDGE_SE3:QUAT": LineKind(POSE, half_angle=True),
    "EDGE3": LineKind(TORO),
    "EDGE_SE2": LineKind(PLANAR, planar=True),
    TORO_PLANAR: LineKind(PLANAR, planar=True),
    "EDGE_SE3_SWITCHABLE": LineKind(POSE, half_angle=True, switch=True),
    "EDGE_SE2_SWITCHABLE": LineKind(PLANAR, planar=True, switch=True),
    "EDGE_SE3_TRACKXYZ": LineKind(POINT, landmark=True, offset=True),
    "EDGE_SE3_POINT_XYZ": LineKind(POINT, landmark=True, offset=True),
    "EDGE_SE2_XY": LineKind(POINT2, planar=True, landmark=True),
    "EDGE_SE3_PRIOR": LineKind(POSE, n_ids=1, offset=True, half_angle=True),
    "EDGE_SE3_XYZPRIOR": LineKind(POINT, n_ids=1, offset=True),
    "EDGE_SE3_XYZ_PRIOR": LineKind(POINT, n_ids=1, offset=True),
    "EDGE_SE3_PRIORXY": LineKind(POINT2, n_ids=1),
    "EDGE_SE3_PRIORXYZ": LineKind(POINT, n_ids=1),
    "EDGE_SE3_PRIORQUAT": LineKind(QUATERNION, n_ids=1),
    "EDGE_SE3_PRIORVEC": LineKind(VECTORS, n_ids=1),
    "EDGE_POINTXYZ_PRIOR": LineKind(POINT, n_ids=1, landmark=True),
    "EDGE_PRIOR_SE2": LineKind(PLANAR, n_ids=1, planar=True),
    "EDGE_PRIOR_SE2_XY": LineKind(POINT2, n_ids=1, planar=True),
    "EDGE_PRIOR_XY": LineKind(POINT2, n_ids=1, planar=True, landmark=True),
}
NOT_IN_THE_MODEL = {
    "EDGE_BEARING_SE2_XY": "a bearing without a distance is not in the model",
    "EDGE_PROJECT_DEPTH": "pixels are not in the model",
    "EDGE_PROJECT_DISPARITY": "pixels are not in the model",
}
TRANSLATION_FIRST = np.array([3, 4, 5, 0, 1, 2])  # g2o's order from ours, and ours from g2o's
THETA_LAST = np.array([3, 4, 2])


@dataclass(frozen=True)
class TagLines:
    """Lines of one tag: their numbers, and their fields after the tag; those that were read in bulk already as numbers."""

    line: list[int]
    fields: list[list[str]]
    bulk: list[Rows] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.line) + sum(map(len, self.bulk))

    @property
    def first(self) -> int:
        """Number of the first line."""
        return min([*self.line[:1], *(int(rows.line[0]) for rows in self.bulk[:1])])


@dataclass(frozen=True)
class Tagged(Mapping[str, TagLines]):
    """The lines of a file, by their tags, in the order of their first occurrence."""

    path: PathLike
    groups: dict[str, TagLines]
    points: bool = False
    """Whether a number that was read in bulk has a decimal point."""

    def __getitem__(self, tag: str) -> TagLines:
        return self.groups[tag]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def words(self, line: Index, span: Index) -> Array:
        """Coordinates as they stand in the file, text (k, 3), of lines (k,): where among the fields, and how many (k, 2)."""
        kept = {number: row for group in self.values() for number, row in zip(group.line, group.fields, strict=True)}
        missing = np.array([number for number in line.tolist() if number not in kept], dtype=np.int64)
        if len(missing):
            kept |= {number: text.split()[1:] for number, text in bulk.text_lines(self.path, missing).items()}
        return np.array(
            [
                [*kept[number][first : first + count], *["0"] * (3 - count)]
                for number, (first, count) in zip(line.tolist(), span.tolist(), strict=True)
            ],
            dtype=object,
        ).reshape(-1, 3)


def lines_by_tag(path: PathLike) -> Tagged:
    """The lines of a file, by their tags; the usual ones of a large file as numbers."""
    if bulk.is_large(path, LARGE) and sys.byteorder == "little":  # as digits are added up
        try:
            return _in_bulk(path)
        except bulk.UnusualError:
            pass  # the careful reader says what is wrong
    return Tagged(path, _by_tag(path, content_lines(read_text(path))))


def _in_bulk(path: PathLike) -> Tagged:
    columns = [
        *(bulk.Columns(tag, 1, len(kind.names)) for tag, kind in VERTICES.items()),
        *(bulk.Columns(tag, kind.all_ids, len(kind.names) + kind.n_informations) for tag, kind in EDGES.items()),
    ]
    before, points, odd, read = 1, False, [], dict[str, list[Rows]]()
    for piece in bulk.pieces(path, columns):
        for tag, rows in piece.rows.items():
            read.setdefault(tag, []).append(replace(rows, line=rows.line + before))
        odd += with_content((before + row, line.decode("utf-8", errors="replace")) for row, line in piece.odd)
        before += piece.n_lines
        points |= piece.points
    groups = _by_tag(path, odd)
    for tag, parts in read.items():
        groups.setdefault(tag, TagLines([], [])).bulk.extend(parts)
    return Tagged(path, dict(sorted(groups.items(), key=lambda item: item[1].first)), points)


def _by_tag(path: PathLike, lines: Iterable[tuple[int, str]]) -> dict[str, TagLines]:
    tagged: dict[str, TagLines] = {}
    for number, text in lines:
        tag, *words = text.split()
        group = tagged.get(tag)
        if group is None:
            group = tagged[tag] = TagLines([], [])
            start = tag.replace(";", ",").partition(",")[0]
            if start != tag and is_known(start):
                raise ParseError(path, number, f"{start} is followed by {tag[len(start)]!r}; g2o separates by blanks")
        group.line.append(number)
        group.fields.append(words)
    return tagged


def is_known(tag: str) -> bool:
    """Whether lines of a tag are read."""
    return tag in VERTICES or tag in EDGES or tag in ("FIX", PRIOR, OFFSET, *SWITCHES)


def _tag_counts(counts: Mapping[str, int]) -> str:
    shown = [
        f"{tag if tag.isprintable() and len(tag) <= 40 else repr(tag[:40])} ({n})"
        for tag, n in list(counts.items())[:8]
    ]
    return ", ".join(shown) + (f" and {len(counts) - 8} others" if len(counts) > 8 else "")


def tell_unknown(tagged: Tagged, notices: list[str]) -> None:
    """A notice about lines that are not read."""
    unknown = Counter({tag: group.count for tag, group in tagged.items() if not is_known(tag)})
    switchable = sum(group.count for tag, group in tagged.items() if tag in EDGES and EDGES[tag].switch)
    if switchable:
        edges = plural(switchable, "switchable edge")
        notices.append(f"{edges} read as edges like others, without their switches; --robust judges which are wrong")
    if unknown:
        listed = _tag_counts(dict(unknown.most_common()))
        why = "; ".join(dict.fromkeys(NOT_IN_THE_MODEL[tag] for tag in unknown if tag in NOT_IN_THE_MODEL))
        lines = plural(unknown.total(), "line")
        notices.append(f"{lines} with an unknown tag skipped: {listed}{'; ' + why if why else ''}")


def what_there_is(tagged: Tagged) -> str:
    """What a file has, for errors about what it lacks."""
    if not tagged:
        return "; the file is empty"
    return f"; the file has {_tag_counts({tag: group.count for tag, group in tagged.items()})}"


def rows_of(tagged: Tagged, numbers: NumberReader, tag: str, names: list[str], n_ids: int) -> Rows:
    """The lines of a tag as numbers."""
    group = tagged.get(tag, TagLines([], []))
    rows = numbers.rows(group.line, group.fields, names, n_ids, tag)
    return Rows.joined([rows, *group.bulk]) if group.bulk else rows


def motion(names: list[str], values: Array) -> tuple[Array, Array]:
    """Quaternions wxyz (not yet of unit length) and translations from the fields of a vertex or an edge."""
    still = np.tile(quat.IDENTITY, (len(values), 1))
    if names is POSE:
        return values[:, [6, 3, 4, 5]], values[:, :3]
    if names is TORO:
        roll, pitch, yaw = (quat.exp(values[:, 3 + k, None] * np.eye(3)[k]) for k in range(3))
        return quat.multiply(yaw, quat.multiply(pitch, roll)), values[:, :3]
    if names is PLANAR:
        return about_z(values[:, 2]), np.column_stack([values[:, :2], np.zeros(len(values))])
    if names is QUATERNION:
        return values[:, :4], np.zeros((len(values), 3))
    if names is VECTORS:
        return still, np.zeros((len(values), 3))
    return still, np.column_stack([values[:, : len(names)], np.zeros((len(values), 3 - len(names)))])
