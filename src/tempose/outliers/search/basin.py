r"""Finding the basin: starts that wrong edges cannot lead astray, improved at a narrow noise level.

The posterior of a graph with wrong edges has many modes, and every local method ends in the one it starts in. So several
starts are made, all from how the measurements agree with each other (:mod:`tempose.outliers.search.triangles`,
:mod:`tempose.outliers.search.votes`):

- the spanning tree of the edges in most closed triangles,
- nodes placed one after the other where their placed neighbours agree,
- parts joined where the edges between them agree (small graphs only: it is cubic),

at the narrow noise level that the triangles show and, on small graphs, at halves and quarters of it. Each start settles under
the narrow loss and is improved by node votes as long as the loss falls. Graphs without triangles, whose cycles are long, start
from the chordal relaxation and from the most certain tree as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.relaxations import chordal_rotations, with_positions
from tempose.optimum.trees import most_certain_tree, tree_poses
from tempose.outliers.search import votes
from tempose.outliers.search.skeleton import Skeleton, skeleton
from tempose.outliers.search.triangles import HalfEdges, Triangles, supported_tree, triangles
from tempose.outliers.search.votes import Narrow

_SMALL = 2e8  # nodes × Σ degree²: below, joining parts costs well under a second
_LARGE = 1e9  # Σ degree²: above, growing and voting cost minutes
_LEVELS = (1.0, 0.5, 0.25)
_SAME = 0.3  # two basins are one if no edge's weight differs by more


@dataclass(frozen=True, eq=False)
class Basin:
    """A mode of the narrow loss.

    Attributes
    ----------
    poses
        Where it is.
    loss
        Narrow loss there, at the level that the triangles show: comparable between basins of one graph.
    weights
        How well each edge fits (m,), 1 at best.
    origin
        The start it was reached from, in words.
    """

    poses: Poses
    loss: float
    weights: Array
    origin: str


@dataclass(frozen=True, eq=False)
class Search:
    """What :func:`find_basins` found: basins by increasing loss, what the triangles say, and the noise level they show.

    Triangles and level are of the ``skeleton``, if the graph has more than motions between poses.
    """

    basins: tuple[Basin, ...]
    triangles: Triangles
    level: Narrow
    skeleton: Skeleton | None = None

    @property
    def best(self) -> Basin:
        """The basin of least loss."""
        return self.basins[0]


def find_basins(
    graph: PoseGraph, *, own_probability: Array | None = None, votes_rounds: int = 4, iterations: int = 20
) -> Search:
    """Search for the modes of a graph with wrong edges; needs no noise level, only how edges' precisions compare.

    Parameters
    ----------
    own_probability
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    votes_rounds, iterations
        Most rounds of votes of each start, and most reweighted least-squares steps in each round.
    """
    bones = skeleton(graph)
    own = None if own_probability is None else own_probability[bones.edges]
    search = _find_basins(bones.graph, own, votes_rounds, iterations)
    if bones.is_all:
        return search
    return replace(search, basins=tuple(_whole(basin, bones) for basin in search.basins), skeleton=bones)


def _whole(basin: Basin, bones: Skeleton) -> Basin:
    """A basin of the skeleton as one of its graph."""
    weights = np.ones(bones.whole.n_edges)
    weights[bones.edges] = basin.weights
    return replace(basin, poses=bones.completed(basin.poses), weights=weights)


def _find_basins(graph: PoseGraph, own_probability: Array | None, votes_rounds: int, iterations: int) -> Search:
    halves = HalfEdges.of(graph)
    found = triangles(graph, halves)
    prior = None if own_probability is None else np.where(np.isnan(own_probability), 0.5, own_probability)
    level = Narrow.of(graph, halves, found.sigma_rot, found.sigma_trans, prior)
    basins: list[Basin] = []
    small = _is_small(level)
    for narrow, start, origin in _starts(level, found, prior):
        rounds = votes_rounds if small else 0
        basins.append(_basin(level, improve(narrow, start, votes_rounds=rounds, iterations=iterations), origin))
    basins.sort(key=lambda basin: basin.loss)
    if not small:  # votes are dear: for the best start only
        best = improve(level, basins[0].poses, votes_rounds=votes_rounds, iterations=iterations)
        basins[0] = _basin(level, best, basins[0].origin)
    return Search(tuple(_distinct(basins)), found, level)


def _is_small(narrow: Narrow) -> bool:
    return narrow.graph.n_nodes * votes.cost(narrow) <= _SMALL


def _basin(level: Narrow, poses: Poses, origin: str) -> Basin:
    weights = level.weights(poses)
    return Basin(poses, level.loss(weights), weights, origin)


def improve(narrow: Narrow, start: Poses, *, votes_rounds: int = 4, iterations: int = 20) -> Poses:
    """Settle under the narrow loss, and move nodes to where their neighbours want them as long as that lowers it."""
    poses, loss, _ = votes.settle(narrow, start, iterations=iterations)
    for _ in range(votes_rounds if votes.cost(narrow) <= _LARGE else 0):
        moved, count = votes.vote(narrow, poses)
        if not count:
            break
        settled, lower, _ = votes.settle(narrow, moved, iterations=iterations)
        if lower >= loss - 1e-3 * abs(loss):
            break
        poses, loss = settled, lower
    return poses


def _starts(level: Narrow, found: Triangles, prior: Array | None) -> Iterator[tuple[Narrow, Poses, str]]:
    graph, support = level.graph, found.support
    yield level, tree_poses(graph, supported_tree(graph, found, prior)), "tree of supported edges"
    small = _is_small(level)
    if votes.cost(level) <= _LARGE:
        at_node = np.bincount(graph.edge_i, support, graph.n_nodes) + np.bincount(graph.edge_j, support, graph.n_nodes)
        seeds = np.argsort(-at_node, kind="stable").astype(np.int64)
        for factor in _LEVELS if small else _LEVELS[:1]:
            narrow = level.narrowed(factor)
            yield narrow, votes.grow(narrow, support, seeds), f"grown at {factor:g} of the narrow noise"
            if small:
                yield narrow, votes.merge(narrow, support), f"joined at {factor:g} of the narrow noise"
    if not found.measured:
        yield level, with_positions(graph, chordal_rotations(graph)), "chordal relaxation"
        yield level, tree_poses(graph, most_certain_tree(graph)), "most certain tree"


def _distinct(basins: list[Basin]) -> Iterator[Basin]:
    kept: list[Basin] = []
    for basin in basins:
        if all(np.abs(basin.weights - other.weights).max(initial=0.0) > _SAME for other in kept):
            kept.append(basin)
            yield basin


def averaged(graph: PoseGraph) -> tuple[Basin, bool]:
    """The best basin, settled to the end, and whether it has converged: robust averaging without any noise level."""
    bones = skeleton(graph)
    search = find_basins(bones.graph)
    rest = votes.settle(search.level, search.best.poses, iterations=100)
    found = _basin(search.level, rest.poses, search.best.origin)
    return found if bones.is_all else _whole(found, bones), rest.converged
