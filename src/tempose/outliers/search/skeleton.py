"""What the search for basins looks at: poses and the motions measured between them; the rest is placed afterwards.

An edge without a full rotation has no motion to compose, so fixes, attitudes, directions and sightings of landmarks tell
nothing before poses are known. Once they are, fixes tell where the whole lies, and sightings where the landmarks are; each
robustly, since some of them may be wrong as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempose._support import streams
from tempose._typing import AnyArray, Array, Index, Mask
from tempose.geometry import quaternion as quat
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.optimum.joining import joined
from tempose.optimum.merged import fixed_poses, placed

_TRIALS = 60  # subsets of the fixes: one of three right ones is among them as long as a half of all are
_ROUNDS = 5  # of reweighting


@dataclass(frozen=True, eq=False)
class Skeleton:
    """The poses of a graph and the motions between them.

    Attributes
    ----------
    graph
        Poses, and edges with a full rotation between them; lever arms and correlations are worked into the translations.
    whole
        The graph itself.
    edges
        Which of its edges (m,) are in the skeleton.
    same
        The edge (m,) that each is a copy of, or itself, if copies were left out.
    """

    graph: PoseGraph
    whole: PoseGraph
    edges: Mask
    same: Index | None = None

    def once(self, same: Index) -> Skeleton:
        """Without measurements that are listed again; ``same`` (m,) is the edge that each is a copy of, or itself."""
        copy = same != np.arange(len(same))
        if not np.any(copy[self.edges]):
            return self
        return replace(self, graph=self.graph.with_edges(~copy[self.edges]), edges=self.edges & ~copy, same=same)

    def spread(self, of_skeleton: AnyArray, elsewhere: float) -> Array:
        """Numbers of the skeleton's edges as numbers of all edges (m,); copies have those of their original."""
        out = np.full(self.whole.n_edges, elsewhere)
        out[self.edges] = of_skeleton
        return out if self.same is None else out[self.same]

    @property
    def is_all(self) -> bool:
        """Whether there is nothing else in the graph."""
        return self.graph is self.whole

    def completed(self, poses: Poses) -> Poses:
        """Poses of all nodes, from those of the skeleton's."""
        if self.is_all:
            return poses
        graph = self.whole
        rows = np.array([graph.index[name] for name in poses.ids], dtype=np.int64)
        wxyz, position = fixed_poses(graph)
        part = np.full(graph.n_nodes, -1, dtype=np.int64)
        at_wxyz, at = wxyz.copy(), position.copy()
        wxyz[rows], position[rows] = poses.wxyz, poses.position
        part[rows] = self.graph.component
        for c in range(self.graph.n_components):  # those with a fixed node go where that is held
            here = rows[self.graph.component == c]
            fixed = here[graph.is_fixed[here]]
            if len(fixed):
                turn = quat.normalize(quat.multiply(at_wxyz[fixed[0]], quat.conjugate(wxyz[fixed[0]])))
                position[here] = at[fixed[0]] + quat.rotate(turn, position[here] - position[fixed[0]])
                wxyz[here] = quat.multiply(turn, wxyz[here])
        known = np.zeros(graph.n_nodes, dtype=bool)
        known[np.isin(part, part[graph.is_fixed & (part >= 0)]) & (part >= 0)] = True
        known |= graph.is_fixed & ~graph.is_landmark
        part[known] = part.max() + 1
        return self._placed(wxyz, position, part)

    def _placed(self, wxyz: Array, position: Array, part: Index) -> Poses:
        """Parts moved to where most of the other edges want them, and landmarks to where most poses see them."""
        graph = self.whole
        fixes = np.flatnonzero(graph.is_absolute & (graph.ranks[1] == graph.dimension))
        choices: list[Mask] = [np.ones(graph.n_edges, dtype=bool)]
        few = graph.dimension
        if len(fixes) > few:
            rng = streams.generator(0, "start")
            for _ in range(_TRIALS):
                kept = np.ones(graph.n_edges, dtype=bool)
                kept[fixes] = False
                kept[rng.permutation(fixes)[:few]] = True
                choices.append(kept)
        found = [self._joined(np.where(kept, 1.0, 0.0), wxyz, position, part) for kept in choices]
        best = min(found, key=lambda one: float(np.median(_misses(graph, one, fixes)))) if len(fixes) else found[0]
        for _ in range(_ROUNDS):
            best = self._joined(self._weights(best), best.wxyz, best.position, part)
        return best

    def _weights(self, poses: Poses) -> Array:
        """How well each edge fits (m,), 1 at best and where it is of the skeleton; by the misses that are usual here."""
        graph, weight = self.whole, np.ones(self.whole.n_edges)
        for here in (graph.is_absolute, graph.is_landmark[graph.edge_i] & ~graph.is_absolute):
            rows = np.flatnonzero(here & graph.has_translation & ~self.edges)
            if len(rows):
                miss = _misses(graph, poses, rows)
                weight[rows] = (1.0 + (miss / max(float(np.median(miss)), 1e-300)) ** 2 / graph.dimension) ** -2
        return weight

    def _joined(self, weight: Array, wxyz: Array, position: Array, part: Index) -> Poses:
        graph, P = self.whole, self.whole.translation_precision
        weighted = replace(graph, translation_precision=P * weight.reshape(-1, *(1,) * (P.ndim - 1)))
        wxyz, position = joined(weighted, wxyz, position, part)
        return placed(graph, Poses(graph.node_ids, wxyz, _with_landmarks(graph, wxyz, position)))


def skeleton(graph: PoseGraph) -> Skeleton:
    """The skeleton of a graph; the graph itself if it has nothing but motions between poses."""
    edges = graph.has_rotation & ~graph.is_absolute
    plain = np.all(edges) and graph.coupling is None and graph.arm is None and not graph.landmarks
    if plain and graph.world is None and not np.any(graph.is_fixed):
        return Skeleton(graph, graph, edges)
    kept = graph.with_edges(edges)
    t = kept.j_from_i_t
    if kept.arm is not None:
        t = t - quat.rotate(kept.j_from_i_wxyz, kept.arm)
    P = kept.translation_precision
    poses = np.flatnonzero(~graph.is_landmark & ~_is_world(graph))
    bare = replace(
        kept, j_from_i_t=t, coupling=None, arm=None, fixed=(), fixed_at=None, initial=None,
        translation_precision=P if kept.coupling is None else kept.marginal_translation_precision,
    )  # fmt: skip
    return Skeleton(bare.subgraph(poses), graph, edges)


def _is_world(graph: PoseGraph) -> Mask:
    out = np.zeros(graph.n_nodes, dtype=bool)
    if graph.world is not None:
        out[graph.world] = True
    return out


def _misses(graph: PoseGraph, poses: Poses, edges: Index) -> Array:
    """By how far translations miss, at least by their σ (k,)."""
    d = graph.dimension
    sigma = np.sqrt(d / np.trace(graph.translation_precision_matrices[edges, :d, :d], axis1=1, axis2=2))
    return np.asarray(np.maximum(np.linalg.norm(residuals(graph, poses).translation[edges], axis=1), sigma))


def _with_landmarks(graph: PoseGraph, wxyz: Array, position: Array) -> Array:
    """Positions with each landmark where the sighting says that has the others nearest to it."""
    position = position.copy()
    t = np.nan_to_num(graph.j_from_i_t)
    for row in np.flatnonzero(graph.is_landmark & ~graph.is_fixed):
        e = np.flatnonzero((graph.edge_i == row) & graph.has_translation)
        if len(e):
            seen = position[graph.edge_j[e]] + quat.rotate(wxyz[graph.edge_j[e]], t[e])
            apart = np.linalg.norm(seen[:, None] - seen[None], axis=2)
            position[row] = seen[int(np.argmin(np.sum(apart, axis=1)))]
    return position
