r"""Placing nodes where most of their neighbours agree they are, and settling there with a narrow, redescending loss.

Two poses of one node that two neighbours predict agree by :math:`(1 + e/d)^{-2}`, e their energy under the noise of both
edges and d the numbers in it (3, or 6 with translations). The same function of an edge's own energy weighs it when the poses
settle: the loss of Geman and McClure, which beyond a few σ forgets an edge altogether. Where the noise level is narrow, a
good start is kept, and what does not fit is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tempose._typing import Array, Index
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.numerics.laplacian import Laplacian
from tempose.optimum.relaxations import pattern
from tempose.optimum.trees import rotation_weights
from tempose.outliers.search import _joining, _placing
from tempose.outliers.search.triangles import HalfEdges

_HOLD = 1e-9  # of the largest diagonal: holds the gauge, and nodes that no edge with weight reaches


@dataclass(frozen=True, eq=False)
class Narrow:
    """A graph at a narrow noise level: what growing, voting and settling read.

    Attributes
    ----------
    rot, trans
        Factors (m,) of 4 sin²(θ/2) and of squared lengths in an edge's energy: ``1/(2σ²)``, scaled by how certain the edge
        is said to be relative to the others; ``trans`` is 0 for edges without a translation.
    freedom
        3 or 6 (m,); 1 or 3 in the plane.
    odds
        Prior odds π/(1 − π) of being right (m,), relative to an even chance: the weight of an edge's vote.
    reach
        Energy (m,) at which an edge has lost three quarters of its weight: its numbers, times 1 + log odds if these are above
        even.
    """

    graph: PoseGraph
    halves: HalfEdges
    rot: Array
    trans: Array
    freedom: Array
    odds: Array
    reach: Array

    @classmethod
    def of(
        cls, graph: PoseGraph, halves: HalfEdges, sigma_rot: float, sigma_trans: float, prior: Array | None = None
    ) -> Narrow:
        """The graph with the noise of an edge of median certainty set to σ_R (radians) and σ_t."""
        w = rotation_weights(graph)
        rot = 0.5 / sigma_rot**2 * w / np.median(w)
        trans = np.zeros(graph.n_edges)
        if graph.has_translation.any() and np.isfinite(sigma_trans):
            stated = np.einsum("maa->m", graph.translation_precision_matrices)
            has = stated > 0.0
            trans[has] = 0.5 / sigma_trans**2 * stated[has] / np.median(stated[has])
        turns = float(np.sum(graph.axes < 3))
        freedom = np.where(trans > 0.0, turns + graph.dimension, turns)
        p = np.full(graph.n_edges, 0.5) if prior is None else np.clip(prior, 0.01, 0.99)
        odds = p / (1.0 - p)
        return cls(graph, halves, rot, trans, freedom, odds, freedom * (1.0 + np.maximum(np.log(odds), 0.0)))

    def narrowed(self, factor: float) -> Narrow:
        """The same with all noise multiplied by a factor."""
        return replace(self, rot=self.rot / factor**2, trans=self.trans / factor**2)

    def loss(self, weights: Array) -> float:
        """The narrow loss ``Σ reach (1 − √w)`` of edges with these weights (m,)."""
        return float(np.sum(self.reach * (1.0 - np.sqrt(weights))))

    def energies(self, poses: Poses) -> tuple[Array, Array, Array]:
        """Energy (m,), rotation vector left (m, 3) and world shift left (m, 3) of every edge."""
        return self._energies(poses.wxyz, poses.position)

    def _energies(self, wxyz: Array, position: Array) -> tuple[Array, Array, Array]:
        g, m = self.graph, self.graph.n_edges
        error, shift, energy = np.empty((m, 3)), np.zeros((m, 3)), np.empty(m)
        _placing.edge_energies(
            g.edge_i, g.edge_j, g.j_from_i_wxyz, g.j_from_i_t, self.rot, self.trans, wxyz, position, error, shift, energy,
        )  # fmt: skip
        return energy, error, shift

    def weights(self, poses: Poses) -> Array:
        """How well each edge fits (m,), 1 at best."""
        return (1.0 + self.energies(poses)[0] / self.reach) ** -2


def cost(narrow: Narrow) -> float:
    """Σ degree², the pairs of predictions that growing and voting compare."""
    return float(np.sum(narrow.graph.degree.astype(np.float64) ** 2))


def grow(narrow: Narrow, support: Array, seeds: Index) -> Poses:
    """Poses placed one after the other, each where most of its placed neighbours agree.

    Parameters
    ----------
    support
        Of each edge (m,), 0 … 3: it decides where a single neighbour must, since two that agree are worth more.
    seeds
        Nodes (n,) in the order in which they may begin a component.
    """
    h, n = narrow.halves, narrow.graph.n_nodes
    wxyz, position = np.tile(quat.IDENTITY, (n, 1)), np.zeros((n, 3))
    _placing.grow(
        h.start, h.neighbour, h.twin, h.wxyz, h.t, narrow.rot[h.edge], narrow.trans[h.edge], narrow.freedom[h.edge],
        narrow.odds[h.edge], (0.3 * support * narrow.odds)[h.edge], seeds, wxyz, position, np.zeros(n),
    )  # fmt: skip
    return Poses(narrow.graph.node_ids, wxyz, position)


def vote(narrow: Narrow, poses: Poses, margin: float = 0.5) -> tuple[Poses, int]:
    """Poses with every node moved to where its neighbours want it, if ``margin`` votes more are for it; and how many were.

    Of two neighbours that want to move only the one with the larger gain does.
    """
    h, n = narrow.halves, narrow.graph.n_nodes
    wxyz, position = poses.wxyz.copy(), poses.position.copy()
    best, present = np.zeros(n), np.zeros(n)
    _placing.vote(
        h.start, h.neighbour, h.wxyz, h.t, narrow.rot[h.edge], narrow.trans[h.edge], narrow.freedom[h.edge],
        narrow.odds[h.edge], poses.wxyz, poses.position, wxyz, position, best, present,
    )  # fmt: skip
    gain = np.where(best > present + margin, best - present, 0.0)
    i, j = narrow.graph.edge_i, narrow.graph.edge_j
    rival = np.zeros(n)
    np.maximum.at(rival, i, gain[j])
    np.maximum.at(rival, j, gain[i])
    moves = (gain > 0.0) & (gain >= rival)
    return (
        Poses(
            poses.ids,
            np.where(moves[:, None], wxyz, poses.wxyz),
            np.where(moves[:, None], position, poses.position),
        ),
        int(moves.sum()),
    )


class Settled(NamedTuple):
    """Poses at rest, their narrow loss, and whether they had come to rest when the iterations were used up."""

    poses: Poses
    loss: float
    converged: bool


def settle(narrow: Narrow, poses: Poses, *, iterations: int = 50, tolerance: float = 0.02) -> Settled:
    """Reweighted least squares under the narrow loss.

    Rotations and positions take turns, each a Laplacian system. What translations say about rotations is left to the fit that
    follows. It stops when no node moves by more than ``tolerance`` σ.
    """
    g = narrow.graph
    wxyz, position = poses.wxyz, poses.position
    moving, largest = bool(np.any(narrow.trans > 0.0)), np.inf
    step_rot = tolerance / np.sqrt(2.0 * float(np.median(narrow.rot)))
    step_trans = tolerance / np.sqrt(2.0 * float(np.median(narrow.trans[narrow.trans > 0.0]))) if moving else 0.0
    laplacian = Laplacian(g.n_nodes, g.edge_i, g.edge_j, symbolic=pattern(g, 1), edge_by_edge=True)
    for _ in range(iterations):
        energy, error, _ = narrow._energies(wxyz, position)
        turn = _solve(laplacian, narrow.rot * (1.0 + energy / narrow.reach) ** -2, error)
        wxyz = quat.normalize(quat.multiply(quat.exp(turn), wxyz))
        largest = float(np.abs(turn).max()) / step_rot
        if moving:
            energy, _, shift = narrow._energies(wxyz, position)
            move = _solve(laplacian, narrow.trans * (1.0 + energy / narrow.reach) ** -2, shift)
            position = position + move
            largest = max(largest, float(np.abs(move).max()) / step_trans)
        if largest < 1.0:
            break
    settled = Poses(g.node_ids, wxyz, position)
    return Settled(settled, narrow.loss(narrow.weights(settled)), largest < 1.0)


def _solve(laplacian: Laplacian, weight: Array, b: Array) -> Array:
    """``argmin Σ w |x_i − x_j − b|²`` (n, 3), the smallest of them."""
    hold = _HOLD * float(laplacian.degree(weight).max(initial=1e-300))
    return np.asarray(laplacian.factor(weight, hold).solve(laplacian.pull(weight, b)))


def merge(narrow: Narrow, support: Array) -> Poses:
    """Poses by joining parts, single nodes at first, always the two whose crossing edges agree best on how they lie.

    Unlike :func:`grow` it weighs all edges between two parts at once, so that a few wrong edges that agree with each other
    do not decide where a well-held part goes. Cubic in the number of nodes in dense graphs.
    """
    g, n = narrow.graph, narrow.graph.n_nodes
    wxyz, position = np.tile(quat.IDENTITY, (n, 1)), np.zeros((n, 3))
    _joining.merge(
        g.edge_i, g.edge_j, g.j_from_i_wxyz, np.nan_to_num(g.j_from_i_t), narrow.rot, narrow.trans, narrow.freedom,
        narrow.odds, 0.3 * support * narrow.odds, wxyz, position,
    )  # fmt: skip
    return Poses(g.node_ids, wxyz, position)
