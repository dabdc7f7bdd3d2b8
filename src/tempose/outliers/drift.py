r"""How much it says that places agree with the chain of consecutive edges, or with each other: less, the more the chain may drift.

The errors of links add up. Those of k rotations add up to :math:`\sigma_R\sqrt k`, and what lies beyond a link is moved by its
turn, by more the farther away it is. To first order, with L the way from each link to the later end of a loop closure,

.. math::

    \Sigma = \sum_{\text{links}} \begin{pmatrix} \sigma_R^2 & \sigma_R^2 [L]_\times \\ -\sigma_R^2 [L]_\times &
             \sigma_t^2 + \sigma_R^2 (|L|^2 - L L^T) \end{pmatrix}

is the covariance of the motion by which the chain misses what the loop closure says, which adds its own. With c the density of a
right measurement where it fits exactly, and o that of wrong ones, agreement says

.. math::  v = \log\frac co - \tfrac12 \log\det \Sigma/\sigma^2 - \tfrac12 z^2, \qquad z^2 = \text{miss}^T \Sigma^{-1}\, \text{miss}

(with tails that are the lighter the more links there are). Many links that drift far reach any place, and then it says nothing.
And a loop closure that a chain can reach only by being bent far more than it drifts speaks against both, :math:`v < 0`: each of
twenty links fits if it is bent by 2σ, but all of them in one direction do not.

Where one place is known, the next one is known better than by the whole way between its ends: only the links between the two drift.
So places are taken in one after the other, those that agree best first, each by the chain or by another cluster of loop closures
that was taken in before, whichever says more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose._typing import Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.geometry.compiled import turned
from tempose.outliers.clusters import Clusters, stretch
from tempose.outliers.sequence import Sequence

NEAR = 6
"""Links whose mistake a loop closure may share, at most."""
_TAIL = 4.0  # ν of a single edge, as in growth; that of a sum of k is about k times as large


@dataclass(frozen=True, eq=False)
class Across:
    """Places whose ends lie in different segments.

    Attributes
    ----------
    cells
        Their numbers (a,).
    joined
        The two segments (a, 2) that each joins.
    pair
        A number for these two (a,).
    cluster
        Of each (a,).
    one
        Number of a group (a,): places of one cluster, or next to each other at both ends, that join the same segments. One mistake
        would make all of them.
    """

    cells: Index
    joined: Index
    pair: Index
    cluster: Index
    one: Index

    @property
    def groups(self) -> dict[tuple[int, tuple[int, int]], int]:
        """The group of each cluster between two segments."""
        ends = map(tuple, self.joined.tolist())
        return {(c, (a, b)): one for c, (a, b), one in zip(self.cluster.tolist(), ends, self.one.tolist(), strict=True)}


@dataclass(frozen=True, eq=False)
class PlaceTies:
    """What ties each place that loop closures speak of (a cell of :class:`Clusters`) to the chain and to others.

    Attributes
    ----------
    clusters
        Of the places.
    edge
        The loop closure (k,) that speaks for each place.
    by_chain
        v (k,) by the chain between its ends, as measured.
    near
        Links (k,) of that chain whose mistake the place may share.
    by_other
        v (k, k) of the second place by what the first one says and the links between; −∞ where these are no fewer than the
        chain has. ``None`` on long ways, where errors have a memory and drift is more than independent ones add up to.
    links
        Links (k, k) that are between.
    """

    clusters: Clusters
    edge: Index
    by_chain: Array
    near: Array
    by_other: Array | None
    links: Index

    @classmethod
    def of(cls, clusters: Clusters, gain: Array, sigma_rot: float, sigma_trans: float, long: bool) -> PlaceTies:
        """The ties of all places; ``gain`` is log c/o of each edge (m,), σ that of an edge per axis in radians and length."""
        sequence = clusters.sequence
        near = clusters.cell_mean(np.minimum(sequence.gap, NEAR).astype(float))
        if long:
            v = gain - 0.5 * np.sum(sequence.graph.ranks, axis=0)
            none = np.zeros((0, 0), dtype=np.int64)
            return cls(clusters, _typical(clusters, v), clusters.cell_mean(v), near, None, none)
        v = gain + log_density(sequence, sigma_rot, sigma_trans)
        edge = _typical(clusters, v)
        return cls(clusters, edge, v[edge], near, *_by_others(sequence, edge, gain[edge], sigma_rot, sigma_trans))

    @property
    def _stretch(self) -> tuple[Index, Index]:
        """Ranks of the ends of the loop closures that speak for places."""
        sequence = self.clusters.sequence
        return sequence.rank[sequence.earlier[self.edge]], sequence.rank[sequence.later[self.edge]]

    def among(self, agreeing: Mask, segment: Index) -> tuple[Array, Array]:
        """What ties each of the places (k,) that agree with the chain, v, and the links (k,) whose mistake it may share.

        ``segment`` has the number of the segment of each node (n,), if links are given up.
        """
        cells = np.flatnonzero(agreeing)
        v, near = self.by_chain[cells], self.near[cells]
        if self.by_other is not None and len(cells) > 1:
            here = segment[self.clusters.sequence.earlier[self.edge[cells]]]
            _take_in(cells, self.clusters.of_edge[self.edge[cells]], here, self.by_other, self.links, v, near)
        return v, near

    def across(self, cells: Mask, segment: Index) -> Across | None:
        """Those of some places (k,) whose ends lie in different segments, by which of them are one; ``None`` on long ways."""
        sequence = self.clusters.sequence
        if self.by_other is None:
            return None
        a, b = segment[sequence.earlier[self.edge]], segment[sequence.later[self.edge]]
        rows = np.flatnonzero(cells & (a != b))
        first, last = (ranks[rows] for ranks in self._stretch)
        joined = np.stack([np.minimum(a, b), np.maximum(a, b)], axis=1)[rows]
        of = self.clusters.of_edge[self.edge[rows]]
        pair = joined @ np.array([len(segment), 1])
        return Across(rows, joined, pair, of, _side_by_side(first, last, pair, of, stretch(len(segment))))

    def again(self, across: Across, places: Mask, told: Mask) -> Array:
        """What clusters (c,) say that repeat others on how two segments lie, v; 0 where none of these tells.

        What the clusters ``places`` (c,) say is known to begin with, since all that follows lies where they put it; what ``told``
        (c,) say counts elsewhere. The others are taken in one after the other.
        """
        v, of, one = np.zeros(self.clusters.count), across.cluster, across.one
        if self.by_other is None or len(of) < 2:
            return v
        of_cell = np.where(_any_of(places[of], one), math.inf, 0.0)
        _take_in(across.cells, one, across.pair, self.by_other, self.links, of_cell, np.zeros(len(of)))
        of_cell[_any_of((places | told)[of], one)] = 0.0
        best = np.lexsort((-of_cell, one))
        best = best[np.unique(one[best], return_index=True)[1]]  # of each
        v[of[best]] = of_cell[best]
        return v

    def bends(self, agreeing: Mask) -> float:
        """By how much more than it drifts the chain is bent to reach places that agree with it, in nats, at least.

        It is summed over places whose stretches of the chain do not overlap.
        """
        cells = np.flatnonzero(agreeing & (self.by_chain < 0.0)) if self.by_other is not None else ()
        if len(cells) == 0:
            return 0.0
        first, last = self._stretch
        so_far = [(-1, 0.0)]  # where stretches end, and the most that those up to there add up to
        for c in cells[np.argsort(last[cells], kind="stable")].tolist():
            total = next(most for end, most in reversed(so_far) if end <= first[c]) - float(self.by_chain[c])
            if total > so_far[-1][1]:
                so_far.append((int(last[c]), total))
        return so_far[-1][1]


def _typical(clusters: Clusters, v: Array) -> Index:
    """The loop closure (k,) of each place that has the median of what its loop closures have."""
    loops = np.flatnonzero(clusters.cell >= 0)
    loops = loops[np.lexsort((v[loops], clusters.cell[loops]))]
    begin = np.searchsorted(clusters.cell[loops], np.arange(len(clusters.cell_size)))
    return np.asarray(loops[begin + (clusters.cell_size - 1) // 2])


def log_density(sequence: Sequence, sigma_rot: float, sigma_trans: float) -> Array:
    """Logarithm of the density (m,) of what each loop closure says if it and the chain are right, over c.

    σ of an edge per axis are in radians and length; the chain is taken as measured.
    """
    steps = np.abs(sequence.rank[sequence.later] - sequence.rank[sequence.earlier])
    return _log_density(*misses(sequence, sigma_rot, sigma_trans), steps + 1.0, len(sequence.graph.axes))


def _any_of(mask: Mask, group: Index) -> Mask:
    """Whether any one of its group is so (k,)."""
    return np.asarray(np.bincount(group, mask)[group] > 0)


@kernel
def _side_by_side(first: Any, last: Any, pair: Any, cluster: Any, reach: int) -> Any:
    """Number of the group of each place: those of one cluster, or next to each other at both ends, that join the same segments."""
    label = np.arange(first.shape[0])
    for a in range(first.shape[0]):
        for b in range(a):
            near = abs(first[a] - first[b]) <= reach and abs(last[a] - last[b]) <= reach
            if label[a] != label[b] and pair[a] == pair[b] and (near or cluster[a] == cluster[b]):
                old, new = max(label[a], label[b]), min(label[a], label[b])
                for k in range(first.shape[0]):
                    if label[k] == old:
                        label[k] = new
    return label


def _log_density(squared: Array, log_det: Array, edges: Array, freedom: int) -> Array:
    tail = _TAIL * edges
    return np.asarray(-0.5 * log_det - 0.5 * (tail + freedom) * np.log1p(squared / tail))


def misses(sequence: Sequence, sigma_rot: float, sigma_trans: float) -> tuple[Array, Array]:
    """By how much the chain misses what each loop closure says, z² (m,), and log det Σ/σ² (m,)."""
    graph, poses = sequence.graph, sequence.chain_poses
    position = poses.position[np.argsort(sequence.rank)]
    first, last = sequence.rank[sequence.earlier], sequence.rank[sequence.later]
    end, steps = position[last], (last - first).astype(float)
    total = _between(position, first, last)
    outer = _between(position[:, :, None] * position[:, None, :], first, last)
    lever = steps[:, None] * end - total  # sums over the links between
    levers = steps[:, None, None] * end[:, :, None] * end[:, None, :] - end[:, :, None] * total[:, None, :]
    levers += outer - total[:, :, None] * end[:, None, :]
    identity, ratio = np.eye(3), sigma_rot / sigma_trans
    covariance = np.zeros((graph.n_edges, 6, 6))  # in units of σ
    covariance[:, :3, :3] = (steps + 1.0)[:, None, None] * identity
    covariance[:, 3:, :3] = -ratio * _cross(lever)
    covariance[:, :3, 3:] = np.swapaxes(covariance[:, 3:, :3], 1, 2)
    swept = np.einsum("maa->m", levers)[:, None, None] * identity - levers
    covariance[:, 3:, 3:] = (steps + 1.0)[:, None, None] * identity + ratio**2 * swept
    covariance = covariance[:, graph.axes[:, None], graph.axes]
    wxyz, t = sequence.displacements(poses)
    at = poses.position[sequence.later]
    miss = np.concatenate([quat.log(wxyz) / sigma_rot, (quat.rotate(wxyz, at) + t - at) / sigma_trans], axis=1)
    miss = miss[:, graph.axes]
    squared = np.einsum("ma,ma->m", miss, np.linalg.solve(covariance, miss[:, :, None])[:, :, 0])
    return squared, np.asarray(np.linalg.slogdet(covariance)[1])


def _between(values: Array, first: Index, last: Index) -> Array:
    """Sums (m, …) of values from one row, inclusive, to another, exclusive."""
    until = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    return np.asarray(until[last] - until[first])


def _cross(x: Array) -> Array:
    """Matrices (m, 3, 3) of cross products with vectors (m, 3)."""
    out = np.zeros((len(x), 3, 3))
    out[:, 0, 1], out[:, 0, 2], out[:, 1, 2] = -x[:, 2], x[:, 1], -x[:, 0]
    return out - np.swapaxes(out, 1, 2)


def _by_others(
    sequence: Sequence, edges: Index, gain: Array, sigma_rot: float, sigma_trans: float
) -> tuple[Array, Index]:
    """How much each loop closure (k,) says by another one, v (k, k), and the links (k, k) between; of one variance on all axes."""
    poses = sequence.chain_poses
    wxyz, t = sequence.displacements(poses)
    position = poses.position[np.argsort(sequence.rank)]
    sums = np.concatenate([np.zeros((1, 4)), np.cumsum(np.c_[position, np.sum(position**2, axis=1)], axis=0)])
    v, links = np.full((len(edges),) * 2, -np.inf), np.zeros((len(edges),) * 2, dtype=np.int64)
    turns, moves = (1.0, 2.0) if sequence.graph.is_planar else (3.0, 3.0)
    _pairs(
        sequence.rank[sequence.earlier[edges]], sequence.rank[sequence.later[edges]], wxyz[edges], t[edges], position, sums,
        gain, sigma_rot, sigma_trans, turns, moves, v, links,
    )  # fmt: skip
    return v, links


@kernel
def _pairs(
    first: Any, last: Any, wxyz: Any, t: Any, position: Any, sums: Any, gain: Any, sigma_rot: float, sigma_trans: float,
    turns: float, moves: float, v: Any, links: Any,
) -> None:  # fmt: skip
    """What a says of b, and the links between the ends of both."""
    swept = min(turns, 2.0) / moves  # share of the squared way that a turn sweeps along each axis
    for a in range(first.shape[0]):
        for b in range(first.shape[0]):
            between = abs(first[a] - first[b]) + abs(last[a] - last[b])
            links[a, b] = between
            if a == b or between >= last[b] - first[b]:
                continue
            x = (position[last[b], 0], position[last[b], 1], position[last[b], 2])
            p = turned((wxyz[a, 0], wxyz[a, 1], wxyz[a, 2], wxyz[a, 3]), x)
            q = turned((wxyz[b, 0], wxyz[b, 1], wxyz[b, 2], wxyz[b, 3]), x)
            q = (q[0] + t[b, 0], q[1] + t[b, 1], q[2] + t[b, 2])  # where b has its later end
            shift = (p[0] + t[a, 0] - q[0]) ** 2 + (p[1] + t[a, 1] - q[1]) ** 2 + (p[2] + t[a, 2] - q[2]) ** 2
            dot = wxyz[a, 0] * wxyz[b, 0] + wxyz[a, 1] * wxyz[b, 1] + wxyz[a, 2] * wxyz[b, 2] + wxyz[a, 3] * wxyz[b, 3]
            angle = 2.0 * math.acos(min(abs(dot), 1.0))
            lever = _squared_ways(sums, first[a], first[b], q) + _squared_ways(sums, last[a], last[b], x)
            rot = between + 2.0
            trans = rot + swept * lever * (sigma_rot / sigma_trans) ** 2
            squared = (angle / sigma_rot) ** 2 / rot + shift / sigma_trans**2 / trans
            tail = _TAIL * rot
            v[a, b] = gain[b] - 0.5 * (turns * math.log(rot) + moves * math.log(trans))
            v[a, b] -= 0.5 * (tail + turns + moves) * math.log1p(squared / tail)


@inlined
def _squared_ways(sums: Any, a: Any, b: Any, x: Any) -> Any:
    """Sum of the squared distances from a point to the nodes between two ranks."""
    low, high = min(a, b), max(a, b)
    along = 0.0
    for c in range(3):
        along += x[c] * (sums[high, c] - sums[low, c])
    return sums[high, 3] - sums[low, 3] - 2.0 * along + (high - low) * (x[0] ** 2 + x[1] ** 2 + x[2] ** 2)


@kernel
def _take_in(cells: Any, cluster: Any, segment: Any, by_other: Any, between: Any, v: Any, near: Any) -> None:
    """Raise v of places to what other clusters in their segment say of them, these taken in one after the other."""
    known = np.zeros(cells.shape[0], dtype=np.bool_)
    for _ in range(cells.shape[0]):
        top = -1
        for x in range(cells.shape[0]):
            if not known[x] and (top < 0 or v[x] > v[top]):
                top = x
        if top < 0:
            return
        for x in range(cells.shape[0]):  # all of its cluster
            known[x] = known[x] or cluster[x] == cluster[top]
        for x in range(cells.shape[0]):
            if cluster[x] == cluster[top]:
                for y in range(cells.shape[0]):
                    if not known[y] and segment[y] == segment[x] and by_other[cells[x], cells[y]] > v[y]:
                        v[y] = by_other[cells[x], cells[y]]
                        near[y] = min(between[cells[x], cells[y]], NEAR)
