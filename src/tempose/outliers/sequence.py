"""Ids that are an order in time: the chain of consecutive nodes, and what every other edge says about it.

Robots and scanners number what they record as they go. Then edges between consecutive ids are odometry, mostly right, and the
others are loop closures, of which neighbours repeat each other. Whether ids are such an order is told from the graph alone:
consecutive ones are joined much more often than any two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from tempose._typing import Index, Mask, Motion
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.order import recorded
from tempose.model.poses import Poses
from tempose.optimum.trees import tree_poses

_LEAST_JOINED = 0.4  # of consecutive ids, for them to be an order in time
_MUCH_MORE = 2.0  # times as often as any two
_BY_CHANCE = 1e-3  # or more often than one order of names in a thousand has it


@dataclass(frozen=True, eq=False)
class Sequence:
    """A graph whose ids are an order in time.

    Attributes
    ----------
    graph
        Poses, and motions between them (:class:`tempose.outliers.search.skeleton.Skeleton`).
    place
        Of each node (n,) in time: that of the next one is larger by one, where sessions end by many (:mod:`tempose.model.order`).
    rank
        Number of each node (n,) in that order.
    gap
        How many steps in time apart the ends of each edge (m,) are.
    """

    graph: PoseGraph
    place: Index
    rank: Index
    gap: Index

    @classmethod
    def of(cls, graph: PoseGraph) -> Sequence | None:
        """The sequence, if there is one."""
        order = recorded(graph) if graph.n_nodes >= 3 else None
        if order is None or np.any(order.place < 0):
            return None
        place = order.place
        rank = np.empty(graph.n_nodes, dtype=np.int64)
        rank[np.argsort(place, kind="stable")] = np.arange(graph.n_nodes)
        gap = np.abs(place[graph.edge_i] - place[graph.edge_j])
        if not np.any(gap == 1):
            return None
        found = cls(graph, place, rank, gap)
        return found if graph.has_translation.all() and found._is_evident() else None

    def _is_evident(self) -> bool:
        """Whether consecutive ids are joined much more often than any two."""
        n = self.graph.n_nodes
        first, second = self.rank[self.earlier], self.rank[self.later]
        pairs = np.unique(first * n + second)
        consecutive = np.unique(first[self.is_link])
        elsewhere = 0.5 * n * (n - 1) - (n - 1)
        joined, others = len(consecutive) / (n - 1), (len(pairs) - len(consecutive)) / max(elsewhere, 1.0)
        chance = special.bdtrc(len(consecutive) - 1, n - 1, min(others, 1.0))
        return bool(joined >= _LEAST_JOINED and (joined >= _MUCH_MORE * others or chance < _BY_CHANCE))

    @cached_property
    def is_link(self) -> Mask:
        """Which edges (m,) join consecutive ids."""
        return np.asarray(self.gap == 1)

    @cached_property
    def earlier(self) -> Index:
        """Row of the end with the smaller id (m,)."""
        graph = self.graph
        return np.where(self.rank[graph.edge_i] < self.rank[graph.edge_j], graph.edge_i, graph.edge_j)

    @cached_property
    def later(self) -> Index:
        """Row of the other end (m,)."""
        graph = self.graph
        return np.asarray(graph.edge_i + graph.edge_j - self.earlier)

    @cached_property
    def chain(self) -> Mask:
        """Edges (m,) of the spanning tree of smallest gaps: the chain, and what bridges its missing links."""
        tree = self.graph.spanning_tree(-self.gap.astype(float))
        used = np.zeros(self.graph.n_edges, dtype=bool)
        used[tree.edge[tree.edge >= 0]] = True
        return used

    @cached_property
    def chain_poses(self) -> Poses:
        """Poses chained along these edges: no solver at all."""
        return tree_poses(self.graph, self.graph.spanning_tree(-self.gap.astype(float)))

    def segments(self, kept: Mask) -> Index:
        """Number of the segment that each node (n,) is in, if links outside ``kept`` (m,) are given up."""
        joined = np.zeros(self.graph.n_nodes, dtype=bool)
        joined[self.rank[self.later[self.is_link & kept]]] = True  # to the one before
        return np.asarray((np.cumsum(~joined) - 1)[self.rank])

    def displacements(self, poses: Poses) -> Motion:
        """The motion (m, 4), (m, 3) of the world that would bring the later end of each edge to where the edge has it."""
        wxyz, position = poses.wxyz, poses.position
        edge = np.arange(self.graph.n_edges)
        measured = self.graph.measured(self.later, self.earlier, edge)  # earlier_from_later
        wanted = se3.compose((wxyz[self.earlier], position[self.earlier]), measured)
        return se3.compose(wanted, se3.inverse((wxyz[self.later], position[self.later])))
