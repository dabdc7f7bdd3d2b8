"""What the accepted edges do and do not identify: parts that hang on a single edge, or on none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals
from tempose.outliers.search.triangles import CHI_MEDIAN

ACCEPTED = 0.5


def spread(graph: PoseGraph, poses: Poses, accepted: Mask) -> tuple[float, float]:
    """σ of accepted edges, radians and length: the graph's, or that of their median residual, if larger (tails are heavy)."""
    left, (sigma_rot, sigma_trans) = residuals(graph, poses), graph.median_sigmas
    between = accepted & graph.has_rotation & ~graph.is_absolute
    placed = between & graph.has_translation
    if between.any():
        turn = float(np.median(left.angle[between])) / CHI_MEDIAN[int(np.sum(graph.axes < 3))]
        sigma_rot = float(np.fmax(sigma_rot, turn))
    if placed.any():
        shift = float(np.median(np.linalg.norm(left.translation[placed], axis=1))) / CHI_MEDIAN[graph.dimension]
        sigma_trans = float(np.fmax(sigma_trans, shift))
    return sigma_rot, sigma_trans


def limits(sigmas: tuple[float, float]) -> tuple[float, float]:
    """Angle (radians) and distance beyond which poses are different places: ten σ and 5°, twenty σ_t.

    ``sigmas`` are those of an edge, of rotation (radians) and of translation (NaN: positions do not count).
    """
    return max(10.0 * sigmas[0], math.radians(5.0)), math.inf if math.isnan(sigmas[1]) else 20.0 * sigmas[1]


def elsewhere(sigmas: tuple[float, float], angle: Array, distance: Array) -> Mask:
    """Whether poses that differ by this angle (radians) and distance are different places."""
    most_angle, most_distance = limits(sigmas)
    return np.asarray((angle > most_angle) | (distance > most_distance))


@dataclass(frozen=True, eq=False)
class LoosePart:
    """Nodes whose place relative to the rest nothing confirms.

    Attributes
    ----------
    nodes
        Rows of the smaller side.
    edge
        The one accepted edge that holds it; −1 if there is none.
    """

    nodes: Index
    edge: int


def loose_parts(graph: PoseGraph, inlier_probability: Array) -> tuple[LoosePart, ...]:
    """Parts of each component that one accepted edge holds, or none, the largest first; parts of parts are left out.

    Parameters
    ----------
    inlier_probability
        Of each edge (m,); those above one half are accepted.
    """
    rows = np.flatnonzero(inlier_probability > ACCEPTED)
    kept = graph.with_edges(inlier_probability > ACCEPTED)
    parts = []
    for c in range(graph.n_components):
        pieces, sizes = np.unique(kept.component[graph.component == c], return_counts=True)
        main = pieces[np.argmax(sizes)]  # of equal ones the first
        parts += [LoosePart(np.flatnonzero(kept.component == p), -1) for p in pieces if p != main]
        parts += [
            LoosePart(side, int(rows[k]))
            for k, side in _hanging(kept, np.flatnonzero(kept.component == main))
        ]  # fmt: skip
    world = [] if graph.world is None else [graph.world]
    parts = [part for part in parts if part.nodes.tolist() != world]  # the world hangs on nothing
    return tuple(sorted(parts, key=lambda part: (-len(part.nodes), int(part.nodes[0]))))


def _hanging(kept: PoseGraph, members: Index) -> list[tuple[int, Index]]:
    """Bridges of a connected piece with the nodes beyond each, seen from its largest part that no bridge splits."""
    inside = np.zeros(kept.n_nodes, dtype=bool)
    inside[members] = True
    bridges = kept.bridges[inside[kept.edge_i[kept.bridges]]]
    if not len(bridges):
        return []
    whole = np.ones(kept.n_edges, dtype=bool)
    whole[bridges] = False
    block = kept.with_edges(whole).component
    blocks, sizes = np.unique(block[members], return_counts=True)
    core = int(blocks[np.argmax(sizes)])
    found = []
    for k in bridges[(block[kept.edge_i[bridges]] == core) | (block[kept.edge_j[bridges]] == core)]:
        without = np.ones(kept.n_edges, dtype=bool)
        without[k] = False
        end = kept.edge_j[k] if block[kept.edge_i[k]] == core else kept.edge_i[k]
        cut = kept.with_edges(without).component
        found.append((int(k), np.flatnonzero(cut == cut[end])))
    return found
