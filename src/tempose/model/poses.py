"""A set of named absolute poses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array, NodeId
from tempose.errors import GraphError
from tempose.geometry import Similarity, se3
from tempose.geometry import quaternion as quat


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
        object.__setattr__(self, "ids", tuple(self.ids))
        for name, width in (("wxyz", 4), ("position", 3)):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.shape != (len(self.ids), width):
                raise GraphError(
                    f"{name} of {len(self.ids)} poses must have shape ({len(self.ids)}, {width}), not {value.shape}"
                )
            bad = np.flatnonzero(~np.all(np.isfinite(value), axis=1))
            if len(bad):
                raise GraphError(f"the {name} of node {self.ids[bad[0]]!r} is not finite")
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        if len(self.index) != len(self.ids):
            raise GraphError(f"node {first_repeated(self.ids)!r} occurs twice in a set of poses: ids must be unique")
        off = np.abs(np.linalg.norm(self.wxyz, axis=1) - 1.0)
        if len(off) and off.max() > 1e-6:
            raise GraphError(
                f"the quaternion of node {self.ids[int(off.argmax())]!r} is not of unit length; normalise it"
            )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def index(self) -> dict[NodeId, int]:
        """Row of each id."""
        return {name: row for row, name in enumerate(self.ids)}

    @property
    def node_from_world(self) -> tuple[Array, Array]:
        """The paper's ``(q_i, t_i)``: quaternions (n, 4) and translations (n, 3), ``x_i = R_i x_w + t_i``."""
        return se3.inverse((self.wxyz, self.position))

    @classmethod
    def from_node_from_world(cls, ids: Sequence[NodeId], wxyz: ArrayLike, t: ArrayLike) -> Poses:
        """Poses given as the paper's ``(q_i, t_i)``."""
        return cls(tuple(ids), *se3.inverse((wxyz, t)))

    @classmethod
    def identity(cls, ids: Sequence[NodeId]) -> Poses:
        """All nodes at the origin, unrotated."""
        return cls(tuple(ids), np.tile(quat.IDENTITY, (len(ids), 1)), np.zeros((len(ids), 3)))

    def select(self, ids: Sequence[NodeId]) -> Poses:
        """The poses of ``ids``, in that order."""
        try:
            rows = np.fromiter((self.index[name] for name in ids), dtype=np.int64, count=len(ids))
        except KeyError as missing:
            raise GraphError(f"there is no pose for node {missing.args[0]!r}") from None
        return Poses(tuple(ids), self.wxyz[rows], self.position[rows])

    def moved(self, similarity: Similarity) -> Poses:
        """The same poses seen from another world frame."""
        return Poses(self.ids, *similarity.apply(self.wxyz, self.position))


def first_repeated(ids: Sequence[NodeId]) -> NodeId:
    """The first name that occurs a second time."""
    seen: set[NodeId] = set()
    for name in ids:
        if name in seen:
            return name
        seen.add(name)
    raise ValueError("no repeated id")
