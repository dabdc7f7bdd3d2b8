"""How the kernels want their arrays: states in rows, edges in tables and in blocks, steps as rows of operations.

Everything here is made of plain arrays and knows no graph. Nothing is compiled, so whoever prepares arrays need not load
the compiler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tempose._typing import Array, Index

ROW = 8  # doubles in a cache line of 64 bytes
BLOCK = 64  # edges
ISO_WIDTH = 9  # q (4), t (3), λ, τ
FULL_WIDTH = 31  # q (4), t (3), Λ (6: xx xy xz yy yz zz), P (6), B (9: by rows), arm (3)
WEIGHTS = {ISO_WIDTH: slice(7, 9), FULL_WIDTH: slice(7, 19)}  # what an edge of energy w e has w times: λ, τ or Λ, P
ROBUST_WIDTH = 4  # after either: a, ε, (ν + d)/2, 2/ν, as in tempose.model.robust

# Codes of a time step's operations
DRIFT = 0.0  # (DRIFT, δ, –, –)
VELOCITY = 1.0  # (VELOCITY, decay, kick, noise)


class EdgeTable(NamedTuple):
    """Edges in rows, sorted by their target node j: for minibatches and Hessians."""

    start: Index  # (n + 1,) edges of target j are start[j]:start[j+1]
    source: NDArray[np.int32]  # (m,) node i
    edge: Array  # (m, ISO_WIDTH) or (m, FULL_WIDTH), or ROBUST_WIDTH more


class EdgeBlocks(NamedTuple):
    """Edges in blocks of columns, sorted by round, tile and target: for the gradient.

    The last block of a tile is filled up with copies of its last edge that have no weight.
    """

    target: NDArray[np.uint32]  # (K, BLOCK) node j
    source: NDArray[np.uint32]  # (K, BLOCK) node i
    edge: Array  # (K, width * BLOCK) number c of edge k at c * BLOCK + k
    tile: Index  # (T + 1,) tile t has blocks tile[t]:tile[t+1]
    round: Index  # (R + 1,) round r has tiles round[r]:round[r+1]
    group: Index  # (G + 1,) tile t < G has the edges within the nodes group[t]:group[t+1]
    full: bool | None  # None if all edges have short rows: code for full ones is not compiled then
    robust: bool | None  # None without a robust likelihood


def rows(n: int) -> Array:
    """Zeros (n, 8), each row a cache line."""
    memory = np.zeros(ROW * (n + 1))
    first = -(memory.ctypes.data // 8) % ROW
    return memory[first : first + ROW * n].reshape(n, ROW)


def edge_rows(
    j_from_i_wxyz: Array,
    j_from_i_t: Array,
    concentration: Array,
    precision: Array,
    robust: Array | None = None,
    coupling: Array | None = None,
    arm: Array | None = None,
) -> Array:
    """Numbers of each edge (m, width): :data:`ISO_WIDTH` for scalar (m,) precisions, :data:`FULL_WIDTH` for (m, 3, 3).

    Parameters
    ----------
    precision
        Of translations; zero for edges that have none.
    robust
        The numbers (m, :data:`ROBUST_WIDTH`) of a robust likelihood, which come last.
    coupling, arm
        B (m, 3, 3) and arms (m, 3), zero if left out; only beside full precisions.
    """
    m = len(j_from_i_wxyz)
    if concentration.ndim == 1:
        parts = [concentration[:, None], precision[:, None]]
    else:
        upper = np.triu_indices(3)
        parts = [concentration[:, *upper], precision[:, *upper]]
        parts.append(np.zeros((m, 9)) if coupling is None else coupling.reshape(m, 9))
        parts.append(np.zeros((m, 3)) if arm is None else arm)
    if robust is not None:
        parts.append(robust)
    return np.concatenate([j_from_i_wxyz, np.nan_to_num(j_from_i_t), *parts], axis=1)


def by_target(edge_i: Index, edge_j: Index) -> Index:
    """The edges in the order of an :class:`EdgeTable`: by target, then by source."""
    return np.lexsort((edge_i, edge_j))


def edge_table(n: int, edge_i: Index, edge_j: Index, rows: Array) -> EdgeTable:
    """The table of edges between n nodes with their :func:`edge_rows`."""
    order = by_target(edge_i, edge_j)
    start = np.concatenate([[0], np.cumsum(np.bincount(edge_j, minlength=n))]).astype(np.int64)
    return EdgeTable(start, edge_i[order].astype(np.int32), rows[order])


def edge_blocks(n: int, edge_i: Index, edge_j: Index, rows: Array, groups: int) -> tuple[EdgeBlocks, Index]:
    """Tiles of edges between pairs of node groups, in rounds of disjoint pairs; and which edge is where.

    Groups are ranges of nodes with about the same number of edge ends; ``groups`` is 1 or even. All pairs are played as
    in a tournament: after the edges within the groups, round r has the pairs a + b ≡ 2r (mod ``groups`` − 1), in which
    the last group stands in for the missing partner a ≡ r.
    """
    i, j, m = edge_i, edge_j, len(edge_i)
    degree = np.bincount(np.concatenate([i, j]), minlength=n).astype(np.int64)
    before = np.cumsum(degree) - degree
    group = np.minimum(before * groups // max(2 * m, 1), groups - 1)
    low, high = np.minimum(group[i], group[j]), np.maximum(group[i], group[j])
    meet = np.where(high == groups - 1, low, (low + high) * (groups // 2) % max(groups - 1, 1))  # groups/2 = 1/2
    turn = np.where(low == high, 0, 1 + meet)
    order = np.lexsort((i, j, low, turn))

    # tiles by round and lower group; those of the first round are there even if empty
    tile_of = turn * groups + low
    used = np.union1d(np.arange(groups), tile_of)
    count = np.bincount(np.searchsorted(used, tile_of), minlength=len(used))
    slots = -(-count // BLOCK) * BLOCK
    first, first_slot = np.cumsum(count) - count, np.cumsum(slots) - slots
    place = np.arange(slots.sum()) - np.repeat(first_slot, slots)  # within the tile; past its last edge, repeat that
    at = order[np.repeat(first, slots) + np.minimum(place, np.repeat(count, slots) - 1)]
    edge = rows[at]
    filling = place >= np.repeat(count, slots)
    edge[filling, 7:] = 0.0  # no weight, no coupling, no arm
    shape, width = (len(at) // BLOCK, BLOCK), edge.shape[1]
    blocks = EdgeBlocks(
        target=j[at].astype(np.uint32).reshape(shape),
        source=i[at].astype(np.uint32).reshape(shape),
        edge=np.ascontiguousarray(edge.reshape(*shape, width).transpose(0, 2, 1)).reshape(shape[0], width * BLOCK),
        tile=np.append(first_slot, len(at)) // BLOCK,
        round=np.append(np.flatnonzero(np.diff(used // groups, prepend=-1)), len(used)),
        group=np.searchsorted(group, np.arange(groups + 1)),
        full=True if width >= FULL_WIDTH else None,
        robust=None if width in WEIGHTS else True,
    )
    return blocks, np.where(filling, m, at).reshape(shape)
