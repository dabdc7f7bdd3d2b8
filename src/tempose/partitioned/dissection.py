"""Nested dissection: nodes in parts that touch each other only through separators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from tempose._typing import Index, Mask
from tempose.errors import OptionError

_MIDDLE = (0.35, 0.65)  # a cut leaves at least this share of the nodes on either side, if there is one that does


@dataclass(frozen=True, eq=False)
class Share:
    """What belongs to a part: rows of the nodes inside, of those at its border, and of the edges that touch the inside."""

    inside: Index
    border: Index
    edges: Index

    @property
    def nodes(self) -> Index:
        """The inside, then the border."""
        return np.concatenate([self.inside, self.border])


@dataclass(frozen=True, eq=False)
class Dissection:
    """Which part each node is in.

    Attributes
    ----------
    part
        (n,) number of the part; −1 for the separators.
    n_parts
        How many there are; one of them may be empty.
    """

    part: Index
    n_parts: int

    @property
    def separators(self) -> Index:
        """Rows of the nodes between the parts."""
        return np.flatnonzero(self.part < 0)

    def shares(self, edge_i: Index, edge_j: Index) -> list[Share]:
        """What belongs to each part."""
        owner, out = np.maximum(self.part[edge_i], self.part[edge_j]), []
        for number in range(self.n_parts):
            mine = np.flatnonzero(owner == number)
            touched = np.unique(np.concatenate([edge_i[mine], edge_j[mine]]))
            out.append(Share(np.flatnonzero(self.part == number), touched[self.part[touched] < 0], mine))
        return out

    def between(self, edge_i: Index, edge_j: Index) -> Index:
        """Rows of the edges that join two separators: they are no part's."""
        return np.flatnonzero((self.part[edge_i] < 0) & (self.part[edge_j] < 0))


def joined(source: Index, target: Index, borders: list[Index]) -> tuple[Index, list[Index]]:
    """Pairs (e, 2) of separators that an edge or some part joins, and where in them those of each part are.

    ``borders`` are numbers of separators; those of a part are joined, each with all before it.
    """
    found = [np.column_stack([source, target])]
    for border in borders:
        a, b = np.tril_indices(len(border), -1)
        found.append(np.column_stack([border[a], border[b]]))
    size = np.cumsum([0, *map(len, found)])
    return np.concatenate(found), [np.arange(*ends) for ends in zip(size[1:-1], size[2:], strict=True)]


def dissect(n: int, edge_i: Index, edge_j: Index, parts: int, between: Mask | None = None) -> Dissection:
    """Cut a graph into parts of about the same size.

    Each cut takes the fewest nodes among the levels of a breadth-first search from the rim that leave enough on both sides: a
    trajectory is cut across, whatever its loops are.

    Parameters
    ----------
    n
        Number of nodes.
    edge_i, edge_j
        Ends (m,) of the edges.
    parts
        How many; a power of two is cut most evenly.
    between
        Nodes (n,) that are to be among the separators.
    """
    if parts < 1:
        raise OptionError(f"at least one part is needed, not {parts}")
    ones = np.ones(2 * len(edge_i))
    both = np.concatenate([edge_i, edge_j]), np.concatenate([edge_j, edge_i])
    adjacency = csr_array((ones, both), shape=(n, n))
    part = np.full(n, -1, dtype=np.int64)
    inside = np.ones(n, dtype=bool) if between is None else ~between
    whole = np.flatnonzero(inside)
    pieces: list[Index] = [whole]
    done: list[Index] = []
    while pieces:
        if len(pieces) + len(done) >= parts:
            break
        largest = int(np.argmax([len(piece) for piece in pieces]))
        piece = pieces.pop(largest)
        halves = _halves(adjacency, piece)
        if halves is None:
            done.append(piece)
        else:
            pieces += halves
    for number, piece in enumerate([*done, *pieces]):
        part[piece] = number
    return Dissection(part, len(done) + len(pieces))


def _halves(adjacency: csr_array, nodes: Index) -> list[Index] | None:
    """Two sides of a cut through some nodes, the nodes of the cut left out; ``None`` if there is none to make."""
    own = adjacency[nodes][:, nodes]
    count, label = connected_components(own, directed=False)
    if count > 1:  # nothing to cut: share out whole components, the largest first
        size = np.bincount(label)
        side, weight = np.zeros(count, dtype=np.int64), [0, 0]
        for c in np.argsort(-size, kind="stable"):
            side[c] = int(weight[1] < weight[0])
            weight[side[c]] += int(size[c])
        if min(weight) >= _MIDDLE[0] * len(nodes):
            return [nodes[side[label] == 0], nodes[side[label] == 1]]
        big = label == int(np.argmax(size))
        halves = _halves(adjacency, nodes[big])
        if halves is None:
            return None
        smaller = int(np.argmin([len(half) for half in halves]))
        halves[smaller] = np.sort(np.concatenate([halves[smaller], nodes[~big]]))
        return halves
    if len(nodes) < 3:
        return None
    rim = breadth_first_order(own, 0, directed=False, return_predecessors=False)[-1]
    order, before = breadth_first_order(own, rim, directed=False)
    level = np.zeros(len(nodes), dtype=np.int64)
    for k in order[1:].tolist():
        level[k] = level[before[k]] + 1
    size = np.bincount(level)
    if len(size) < 3:
        return None
    below = np.concatenate([[0], np.cumsum(size)[:-1]]) / len(nodes)
    above = 1.0 - below - size / len(nodes)
    inner = np.arange(1, len(size) - 1)
    fair = inner[(below[inner] >= _MIDDLE[0]) & (above[inner] >= _MIDDLE[0])]
    cut = int(fair[np.argmin(size[fair])]) if len(fair) else int(inner[np.argmax(np.minimum(below, above)[inner])])
    return [nodes[level < cut], nodes[level > cut]]
