r"""Triangles: the shortest cycles, which tell good edges from bad ones before any pose is known.

Around a triangle of good edges the measured motions compose to nearly nothing; with a wrong edge they do not, but by chance or by
design. An edge is *supported* if several triangles through it, with different third nodes, close. How tightly is taken from
the graph: no noise level is needed.

1. Every edge gets its third-best closing angle :math:`r_3` (second- or first-best where so few triangles exist).
2. The spanning tree with the least :math:`r_3` is found. The median of :math:`r_3` on its edges is the narrow noise level
   :math:`\sigma_R`: what the best-supported skeleton of the graph needs, whatever the share of wrong edges.
3. :math:`\sigma_t` is the same for translations, from the triangles whose rotations close.
4. Distances around triangles are then taken in units of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tempose._typing import Array, Index
from tempose.model.bingham import sigma_from_concentration
from tempose.model.graph import PoseGraph
from tempose.model.topology import SpanningTree
from tempose.optimum.trees import rotation_weights
from tempose.outliers.search import _triangles
from tempose.outliers.search.skeleton import skeleton

BEST = 3  # triangles of an edge that count
_CLOSES = math.radians(30.0)  # a triangle that is further off says nothing about the noise
CHI_MEDIAN = {1: 0.6745, 2: 1.1774, 3: 1.5382}  # median length of a standard normal vector
_MOST_SHIFTS = 200_000


@dataclass(frozen=True, eq=False)
class HalfEdges:
    """The edges seen from each of their ends: rows ``start[v]`` to ``start[v + 1]`` are those of node v, by neighbour.

    Attributes
    ----------
    neighbour, edge, twin
        Node at the other end, row of the edge, and row of the same edge seen from there (2m,).
    wxyz, t
        Measured ``neighbour_from_node`` (2m, 4), (2m, 3); zeros where there is no translation.
    """

    start: Index
    neighbour: Index
    edge: Index
    twin: Index
    wxyz: Array
    t: Array

    @classmethod
    def of(cls, graph: PoseGraph) -> HalfEdges:
        """All half edges of a graph."""
        m = graph.n_edges
        here = np.concatenate([graph.edge_i, graph.edge_j])
        there = np.concatenate([graph.edge_j, graph.edge_i])
        edge = np.concatenate([np.arange(m), np.arange(m)])
        order = np.lexsort((there, here))
        place = np.empty(2 * m, dtype=np.int64)
        place[order] = np.arange(2 * m)
        start = np.concatenate([[0], np.cumsum(graph.degree)]).astype(np.int64)
        wxyz, t = graph.measured(here[order], there[order], edge[order])
        return cls(start, there[order], edge[order], place[(order + m) % (2 * m)], wxyz, t)


@dataclass(frozen=True, eq=False)
class Triangles:
    """What the triangles of a graph say about its edges.

    Attributes
    ----------
    n_triangles
        All of them, parallel edges counted.
    count, closed
        Triangles through each edge (m,), and those that close: within three times the narrow noise of three edges.
    distance
        The least distances (m, 3) around triangles through each edge, in units of the narrow noise, one for each third node,
        increasing; infinite where there are fewer.
    sigma_rot, sigma_trans
        The narrow noise of one edge, radians and length per axis; σ_t is NaN without translations.
    measured
        Whether triangles told the noise; if not, the stated noise stands in.
    """

    n_triangles: int
    count: Index
    closed: Index
    distance: Array
    sigma_rot: float
    sigma_trans: float
    measured: bool

    @property
    def support(self) -> Array:
        """Support of each edge (m,), 0 … 3: sum of ``1/(1 + d²)`` over its best triangles."""
        return np.asarray(np.sum(1.0 / (1.0 + self.distance**2), axis=1))

    @property
    def breaks(self) -> Array:
        """Share of the triangles through each edge that do not close (m,); 0 for edges in no triangle."""
        return np.where(self.count > 0, 1.0 - self.closed / np.maximum(self.count, 1), 0.0)


def triangles(graph: PoseGraph, halves: HalfEdges | None = None) -> Triangles:
    """Enumerate the triangles of a graph and measure how they close."""
    halves = halves or HalfEdges.of(graph)
    first = _close(graph, halves, 1.0, 0.0, 0.0)
    sigma_rot, measured = _narrow_rotation(graph, np.sqrt(first.value))
    sigma_trans = _narrow_translation(graph, halves, sigma_rot) if measured else math.nan
    if not measured:
        sigma_rot = float(np.median(sigma_from_concentration(rotation_weights(graph)))) if graph.n_edges else 1.0
    if not np.isfinite(sigma_trans):
        sigma_trans = _stated_sigma_trans(graph)
    rot = 1.0 / (3.0 * sigma_rot**2)
    trans = 1.0 / (3.0 * sigma_trans**2) if np.isfinite(sigma_trans) else 0.0
    turns = int(np.sum(graph.axes < 3))
    again = _close(graph, halves, rot, trans, 3.0**2 * (turns + graph.dimension if trans else turns))
    return Triangles(
        first.total, again.count, again.closed, np.sqrt(again.value), sigma_rot, sigma_trans, measured
    )  # fmt: skip


def supported_tree(graph: PoseGraph, found: Triangles, prior: Array | None = None) -> SpanningTree:
    """Maximum spanning tree by support; where support says nothing, by prior probability, then by stated certainty."""
    weight = rotation_weights(graph)
    certain = weight / (weight.max(initial=0.0) or 1.0)
    belief = np.full(graph.n_edges, 0.5) if prior is None else prior
    # an edge that is believed to be right beats any support, which wrong edges can lend each other
    rank = (certain, belief, found.support, found.closed, belief > 0.9)
    order = np.lexsort(rank)
    place = np.empty(graph.n_edges)
    place[order] = np.arange(graph.n_edges)
    return graph.spanning_tree(place)


def cycle_facts(graph: PoseGraph, most: int = 20) -> dict[str, Any]:
    """What the triangles say before any solve, as plain values: the noise they show, and the edges that break most of them.

    An edge is listed if fewer than a quarter of its triangles close, at least two do not, and a typical edge does better; the most
    broken triangles come first.
    """
    graph = skeleton(graph).graph
    found = triangles(graph)
    open_ = found.count - found.closed
    inside = found.count > 0
    typical = float(np.median(found.breaks[inside])) if np.any(inside) else 0.0
    bad = np.flatnonzero((found.breaks > 0.75) & (found.breaks > typical) & (open_ >= 2))
    bad = bad[np.lexsort((-open_[bad], -found.breaks[bad]))]
    listed = [f"{graph.edge_name(k)} ({open_[k]} of {found.count[k]})" for k in bad[:most]]
    return {
        "n_triangles": found.n_triangles,
        "edges_in_no_triangle": int(np.sum(~inside)),
        "sigma_rot_deg_shown_by_triangles": math.degrees(found.sigma_rot) if found.measured else None,
        "sigma_trans_shown_by_triangles": found.sigma_trans
        if found.measured and math.isfinite(found.sigma_trans)
        else None,
        "n_edges_that_break_triangles": len(bad),
        "edges_that_break_triangles": listed,
    }


@dataclass(frozen=True, eq=False)
class _Closures:
    value: Array
    count: Index
    closed: Index
    total: int


def _close(graph: PoseGraph, halves: HalfEdges, rot: float, trans: float, limit: float) -> _Closures:
    m = graph.n_edges
    value, apex = np.full((m, BEST), np.inf), np.full((m, BEST), -1, dtype=np.int64)
    count, closed = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    total = _triangles.triangles(
        halves.start, halves.neighbour, halves.edge, halves.wxyz, halves.t, graph.has_translation[halves.edge],
        rot, trans, limit, value, apex, count, closed,
    )  # fmt: skip
    return _Closures(value, count, closed, int(total))


def _narrow_rotation(graph: PoseGraph, angle: Array) -> tuple[float, bool]:
    """Median over the best-supported tree of the third-best closing angle, or the second, or the first."""
    for k in reversed(range(BEST)):
        tree = graph.spanning_tree(-np.where(np.isfinite(angle[:, k]), angle[:, k], 10.0))
        used = angle[tree.edge[tree.edge >= 0], k]
        closing = used[used < _CLOSES]
        if len(closing) >= max(3, 0.2 * len(used)):
            return max(float(np.median(closing)), 1e-9), True
    return math.nan, False


def _narrow_translation(graph: PoseGraph, halves: HalfEdges, sigma_rot: float) -> float:
    if not graph.has_translation.any():
        return math.nan
    out = np.empty(_MOST_SHIFTS)
    found = _triangles.shifts_of_closed(
        halves.start, halves.neighbour, halves.wxyz, halves.t, graph.has_translation[halves.edge],
        (3.0 * sigma_rot) ** 2, out,
    )  # fmt: skip
    if not found:
        return math.nan
    return max(math.sqrt(float(np.median(out[:found]))) / (CHI_MEDIAN[graph.dimension] * math.sqrt(3.0)), 1e-12)


def _stated_sigma_trans(graph: PoseGraph) -> float:
    stated = np.einsum("maa->m", graph.translation_precision_matrices)[graph.has_translation] / 3.0
    stated = stated[stated > 0.0]
    return float(1.0 / np.sqrt(np.median(stated))) if len(stated) else math.nan
