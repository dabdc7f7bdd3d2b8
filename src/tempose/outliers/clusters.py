r"""Loop closures that say the same: one observation made several times.

A place that is seen again is seen from several neighbouring nodes, and so is a place that only looks like another. Their edges are
right together or wrong together, so that what they say counts once. Two edges (i, j) and (i', j') belong together if i and i' are
neighbours in time, and so are j and j', and if both would displace the chain alike: within :math:`k\sigma\sqrt{2 + s}`, s the
steps along the chain between their ends, each step as uncertain as an edge.

A stretch that is seen again across a wrong link makes two clusters, one on either side of it, which go on where the other ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose._typing import AnyArray, Array, Index, Mask
from tempose.geometry.compiled import turned
from tempose.model.poses import Poses
from tempose.outliers.sequence import Sequence

# chosen on: 3DMatch, all seven scenes: the purest clusters of 2, 3 and 4
_ALIKE = 3.0  # σ
_NEIGHBOURS = 6  # ids apart, at least
_PLACE = 0.02  # of all nodes: as far apart neighbours may be on long ways
FEW = 5
"""Edges that make a cluster a large one."""
# chosen on: 400 simulated worlds with look-alikes (seeds 21000 to 21399), of 1, 2, 3, 4 and 6
_GOES_ON = 3  # ids apart, at both ends, of the edges with which a cluster goes on where another ends
KINDS = ("single", "few", "many")


@dataclass(frozen=True, eq=False)
class Clusters:
    """Edges that are no links of the chain, by what they say.

    Attributes
    ----------
    of_edge
        Number of the cluster of each edge (m,); −1 for links.
    size
        Edges in each cluster.
    cell
        Number of the place that each edge (m,) speaks of, smaller than its cluster: neighbours in time at both ends; −1 for links.
    """

    sequence: Sequence
    of_edge: Index
    size: Index
    cell: Index

    @classmethod
    def of(cls, sequence: Sequence, poses: Poses, sigma_rot: float, sigma_trans: float) -> Clusters:
        """Clusters of the edges that displace ``poses`` alike; σ of an edge in radians and length per axis."""
        graph, place = sequence.graph, sequence.place
        loops = np.flatnonzero(~sequence.is_link)
        loops = loops[np.lexsort((sequence.rank[sequence.later[loops]], sequence.rank[sequence.earlier[loops]]))]
        wxyz, t = sequence.displacements(poses)
        reach = stretch(graph.n_nodes)
        label = np.arange(len(loops))
        _joined(
            place[sequence.earlier[loops]], place[sequence.later[loops]], wxyz[loops], t[loops],
            poses.position[sequence.later[loops]], reach, _ALIKE * sigma_rot, _ALIKE * sigma_trans, label,
        )  # fmt: skip
        of_edge = np.full(graph.n_edges, -1, dtype=np.int64)
        of_edge[loops] = np.unique(label, return_inverse=True)[1]
        cell = np.full(graph.n_edges, -1, dtype=np.int64)
        ends = [sequence.rank[end[loops]] // reach for end in (sequence.earlier, sequence.later)]
        cell[loops] = np.unique(np.stack([of_edge[loops], *ends]), axis=1, return_inverse=True)[1]
        return cls(sequence, of_edge, np.bincount(of_edge[loops], minlength=0), cell)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.size)

    @cached_property
    def cell_size(self) -> Index:
        """Edges in each cell."""
        return np.bincount(self.cell[self.cell >= 0])

    @cached_property
    def members(self) -> tuple[Index, ...]:
        """Edges of each cluster."""
        order = np.argsort(self.of_edge, kind="stable")
        ends = np.searchsorted(self.of_edge[order], np.arange(self.count + 1))
        return tuple(order[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True))

    @cached_property
    def kind(self) -> Index:
        """0, 1, 2 (:data:`KINDS`) for clusters of one edge, of a few, and of many."""
        return np.where(self.size == 1, 0, np.where(self.size < FEW, 1, 2))

    def mean(self, of_edges: Array) -> Array:
        """Mean over the edges of each cluster."""
        return np.bincount(self._labels[0], of_edges[self._loops]) / self.size

    def cell_mean(self, of_edges: Array) -> Array:
        """Mean over the edges of each cell."""
        return np.bincount(self._labels[1], of_edges[self._loops]) / self.cell_size

    @cached_property
    def _loops(self) -> Index:
        return np.flatnonzero(self.of_edge >= 0)

    @cached_property
    def _labels(self) -> tuple[Index, Index]:
        return self.of_edge[self._loops], self.cell[self._loops]

    def spread(self, of_clusters: AnyArray, links: Any) -> AnyArray:
        """Numbers of clusters as numbers of edges (m,), those of links given."""
        out = np.broadcast_to(np.asarray(links), self.of_edge.shape).astype(np.result_type(of_clusters, links))
        out[self._loops] = of_clusters[self._labels[0]]
        return out

    @cached_property
    def side_by_side(self) -> tuple[Index, Index, Index]:
        """Edges of one cluster that are next to those of another at both ends, either way round, and by how many ids."""
        from scipy.spatial import cKDTree

        loops, ends = self._loops, self._ends
        pairs = cKDTree(ends).query_pairs(_GOES_ON, p=math.inf, output_type="ndarray").reshape(-1, 2)
        a, b = np.concatenate([pairs, pairs[:, ::-1]]).T
        other = self._labels[0][a] != self._labels[0][b]
        a, b = a[other], b[other]
        return loops[a], loops[b], np.abs(ends[a] - ends[b]).max(axis=1, initial=0)

    @cached_property
    def surroundings(self) -> Array:
        """Share (c, k) of all pairs of nodes that are within 0 to 3 ids of an edge of each cluster, at both ends."""
        n, (first, second) = self.sequence.graph.n_nodes, self._ends.T
        out = np.empty((self.count, _GOES_ON + 1))
        for near in range(_GOES_ON + 1):
            step = np.arange(-near, near + 1)
            i, j = np.broadcast_arrays(first[:, None, None] + step[:, None], second[:, None, None] + step)
            cluster = np.broadcast_to(self._labels[0][:, None, None], i.shape)
            inside = (i >= 0) & (j < n) & (i + 1 < j)
            number = np.unique((cluster[inside] * n + i[inside]) * n + j[inside])
            out[:, near] = np.bincount(number // (n * n), minlength=self.count)
        return out / max(0.5 * (n - 1) * (n - 2), 1.0)

    @cached_property
    def _ends(self) -> Index:
        """Ranks (k, 2) of the ends of the edges in clusters, the earlier first."""
        sequence, loops = self.sequence, self._loops
        return np.stack([sequence.rank[sequence.earlier[loops]], sequence.rank[sequence.later[loops]]], axis=1)

    def accepted(self, fits: Mask) -> Mask:
        """Clusters most of whose edges fit."""
        return np.asarray(self.mean(fits.astype(float)) > 0.5)


def stretch(n_nodes: int) -> int:
    """Ids that are one place: 6, or 2% of all."""
    return max(_NEIGHBOURS, round(_PLACE * n_nodes))


@kernel
def _joined(
    first: Any, second: Any, wxyz: Any, t: Any, at: Any, reach: int, alike_rot: float, alike_trans: float,
    label: Any,
) -> None:  # fmt: skip
    """Give edges that displace alike one label; they come sorted by ``first``.

    Displacements are compared at the later end of either edge, where they agree best.
    """
    m = first.shape[0]
    for a in range(m):
        for b in range(a + 1, m):
            apart = first[b] - first[a]
            if apart > reach:
                break
            other = abs(second[b] - second[a])
            if other > reach:
                continue
            steps = 2.0 + apart + other
            dot = wxyz[a, 0] * wxyz[b, 0] + wxyz[a, 1] * wxyz[b, 1] + wxyz[a, 2] * wxyz[b, 2] + wxyz[a, 3] * wxyz[b, 3]
            angle = 2.0 * math.acos(min(abs(dot), 1.0))
            if angle > alike_rot * math.sqrt(steps):
                continue
            nearest = math.inf
            for where in (a, b):
                x = (at[where, 0], at[where, 1], at[where, 2])
                u = turned((wxyz[a, 0], wxyz[a, 1], wxyz[a, 2], wxyz[a, 3]), x)
                v = turned((wxyz[b, 0], wxyz[b, 1], wxyz[b, 2], wxyz[b, 3]), x)
                squared = 0.0
                for c in range(3):
                    squared += (u[c] + t[a, c] - v[c] - t[b, c]) ** 2
                nearest = min(nearest, squared)
            if nearest < alike_trans * alike_trans * steps:
                old, new = max(label[a], label[b]), min(label[a], label[b])
                if old != new:
                    for k in range(m):
                        if label[k] == old:
                            label[k] = new
