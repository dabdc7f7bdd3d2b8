"""A set of named absolute poses, and one of them as a value."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tempose._support.packages import require
from tempose._typing import Array, NodeId
from tempose.errors import GraphError
from tempose.geometry import Similarity, se3
from tempose.geometry import quaternion as quat
from tempose.model.pose import Pose, matrices_of_motions, motions_of_matrices, rotation_of_wxyz

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

POSE_COLUMNS = ("x", "y", "z", "qw", "qx", "qy", "qz")
SHOWN = 8
"""Rows of a table in a notebook."""


@dataclass(frozen=True, eq=False)
class Poses:
    """Absolute poses of named nodes.

    Stored as ``world_from_node``: orientation and the node's position in the world (the convention of g2o and TUM).
    The paper and COLMAP use the inverse, :attr:`node_from_world`.

    Parameters
    ----------
    ids
        One name per node, integers or strings, no two the same.
    wxyz
        ``world_from_node`` rotations (n, 4), unit quaternions.
    position
        Node positions in the world (n, 3).
    """

    ids: tuple[NodeId, ...]
    wxyz: Array
    position: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", plain_ids(self.ids))
        for name, width in (("wxyz", 4), ("position", 3)):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != (len(self.ids), width):
                raise GraphError(
                    f"{name} of {len(self.ids)} poses must have shape ({len(self.ids)}, {width}), not {value.shape}"
                )
            finite = np.isfinite(value)
            if not finite.all():
                raise GraphError(f"the {name} of node {self.ids[int(finite.all(axis=1).argmin())]!r} is not finite")
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        if len(self.index) != len(self.ids):
            raise GraphError(f"node {first_repeated(self.ids)!r} occurs twice in a set of poses: ids must be unique")
        with np.errstate(over="ignore"):
            off = np.abs(np.linalg.norm(self.wxyz, axis=1) - 1.0)
        if len(off) and off.max() > 1e-6:
            raise GraphError(
                f"the quaternion of node {self.ids[int(off.argmax())]!r} is not of unit length; normalise it"
            )

    def __reduce__(self) -> tuple[type[Poses], tuple[object, ...]]:
        return Poses, (self.ids, self.wxyz, self.position)  # made anew, so that copies cannot be changed either

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self.ids)

    def __contains__(self, node: object) -> bool:
        return node in self.index

    def __getitem__(self, node: NodeId) -> Pose:
        """``world_from_node`` of one node."""
        row = self.row(node)
        return Pose(self.wxyz[row], self.position[row])

    def row(self, node: NodeId) -> int:
        """Row of a node, with a clear error if there is none."""
        try:
            return self.index[node]
        except KeyError:
            raise GraphError(f"there is no node {node!r} among these {len(self)} poses") from None

    @cached_property
    def index(self) -> dict[NodeId, int]:
        """Row of each id."""
        return dict(zip(self.ids, range(len(self.ids)), strict=True))

    @property
    def node_from_world(self) -> tuple[Array, Array]:
        """The paper's ``(q_i, t_i)``: quaternions (n, 4) and translations (n, 3), ``x_i = R_i x_w + t_i``."""
        return se3.inverse((self.wxyz, self.position))

    @classmethod
    def from_node_from_world(cls, ids: Sequence[NodeId], wxyz: ArrayLike, t: ArrayLike) -> Poses:
        """Poses given as the paper's ``(q_i, t_i)``."""
        return cls(tuple(ids), *se3.inverse((wxyz, t)))

    @classmethod
    def from_matrices(cls, ids: Sequence[NodeId], matrices: ArrayLike) -> Poses:
        """Poses given as matrices ``world_from_node`` (n, 4, 4)."""
        return cls(tuple(ids), *motions_of_matrices(np.asarray(matrices, float).reshape(-1, 4, 4), "a pose"))

    @classmethod
    def identity(cls, ids: Sequence[NodeId]) -> Poses:
        """All nodes at the origin, unrotated."""
        return cls(tuple(ids), np.tile(quat.IDENTITY, (len(ids), 1)), np.zeros((len(ids), 3)))

    def select(self, ids: Sequence[NodeId]) -> Poses:
        """The poses of ``ids``, in that order."""
        if tuple(ids) == self.ids:
            return self
        try:
            rows = np.fromiter((self.index[name] for name in ids), dtype=np.int64, count=len(ids))
        except KeyError as missing:
            raise GraphError(f"there is no pose for node {missing.args[0]!r}") from None
        return Poses(tuple(ids), self.wxyz[rows], self.position[rows])

    def with_identity(self, node: NodeId) -> Poses:
        """The same poses, and a node at the origin, unrotated, if it has no pose."""
        if node in self.index:
            return self
        return Poses((*self.ids, node), np.vstack([self.wxyz, quat.IDENTITY]), np.vstack([self.position, np.zeros(3)]))

    def shifted(self, by: ArrayLike) -> Poses:
        """The same poses with ``by`` (3,) added to all positions."""
        return Poses(self.ids, self.wxyz, self.position + np.asarray(by, float))

    def relative(self, a: NodeId, b: NodeId) -> Pose:
        """The pose of ``b`` seen from ``a``, ``a_from_b``."""
        seen, other = self[a], self[b]
        return Pose(*se3.a_from_b((seen.wxyz, seen.position), (other.wxyz, other.position)))

    @property
    def rotations(self) -> Rotation:
        """All ``world_from_node`` rotations, for scipy."""
        return rotation_of_wxyz(self.wxyz)

    def matrices(self) -> Array:
        """``world_from_node`` as matrices ``[R p; 0 1]`` (n, 4, 4)."""
        return matrices_of_motions(self.wxyz, self.position)

    def to_pandas(self) -> Any:
        """A ``DataFrame`` with one row per node: ``x y z`` and ``qw qx qy qz``, ``world_from_node``."""
        pandas = require("pandas", "tables of poses")
        columns = dict(zip(POSE_COLUMNS, np.column_stack([self.position, self.wxyz]).T, strict=True))
        return pandas.DataFrame(columns, index=pandas.Index(list(self.ids), name="id"))

    def __repr__(self) -> str:
        names = ", ".join(map(repr, self.ids[:3])) + (", …" if len(self) > 3 else "")
        return f"Poses({len(self)} nodes: {names})"

    def _repr_html_(self) -> str:
        rows = [
            (name, *(f"{x:.4g}" for x in (*p, *q)))
            for name, p, q in zip(self.ids[:SHOWN], self.position, self.wxyz, strict=False)
        ]
        return html_table(("node", *POSE_COLUMNS), rows, len(self), "world_from_node")

    def moved(self, similarity: Similarity) -> Poses:
        """The same poses seen from another world frame."""
        return Poses(self.ids, *similarity.apply(self.wxyz, self.position))


def html_table(header: Sequence[str], rows: Sequence[Sequence[object]], total: int, caption: str) -> str:
    """A small table for a notebook, which says how many rows it leaves out."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(x))}</td>" for x in row) + "</tr>" for row in rows)
    more = f"; the first {len(rows)} of {total}" if total > len(rows) else ""
    return f"<table><caption>{escape(caption + more)}</caption><tr>{head}</tr>{body}</table>"


def plain_id(node: Any) -> Any:
    """A node id as Python has it: NumPy's integers become plain ones; everything else is left for others to judge."""
    return operator.index(node) if isinstance(node, np.integer) else node


def plain_ids(nodes: Sequence[Any]) -> tuple[Any, ...]:
    """The same for many, and at once where they are plain already."""
    nodes = tuple(nodes)
    return nodes if set(map(type, nodes)) <= {int, str} else tuple(map(plain_id, nodes))


def first_repeated(ids: Sequence[NodeId]) -> NodeId:
    """The first name that occurs a second time."""
    seen: set[NodeId] = set()
    for name in ids:
        if name in seen:
            return name
        seen.add(name)
    raise ValueError("no repeated id")
