"""Compiled kernels of the symbolic analysis: trees and structures on the n × n graph of blocks.

All of them take the symmetric adjacency in compressed rows (``indptr``, ``indices``; no self loops) and never move
it: column ``j`` of the permuted matrix is node ``order[j]``, and node ``v`` is column ``rank[v]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import kernel


@kernel
def elimination_tree(indptr: Any, indices: Any, order: Any, rank: Any) -> Any:
    """Parent of every column: the first subdiagonal nonzero of its column of L (-1 for a root).

    Liu's algorithm: row i links the roots of the subtrees of its entries j < i to i; ``ancestor`` compresses paths.
    """
    n = order.size
    parent = np.full(n, -1, np.int64)
    ancestor = np.full(n, -1, np.int64)
    for i in range(n):
        v = order[i]
        for e in range(indptr[v], indptr[v + 1]):
            j = rank[indices[e]]
            while j != -1 and j < i:
                above = ancestor[j]
                ancestor[j] = i
                if above == -1:
                    parent[j] = i
                j = above
    return parent


@kernel
def postorder(parent: Any) -> Any:
    """Order the nodes of a forest so that every subtree is a contiguous range that ends in its root."""
    n = parent.size
    head = np.full(n, -1, np.int64)
    following = np.full(n, -1, np.int64)
    for j in range(n - 1, -1, -1):
        if parent[j] != -1:
            following[j] = head[parent[j]]
            head[parent[j]] = j
    post = np.empty(n, np.int64)
    stack = np.empty(n, np.int64)
    k = 0
    for root in range(n):
        if parent[root] != -1:
            continue
        stack[0] = root
        top = 0
        while top >= 0:
            j = stack[top]
            child = head[j]
            if child == -1:
                post[k] = j
                k += 1
                top -= 1
            else:
                head[j] = following[child]
                top += 1
                stack[top] = child
    return post


@kernel
def column_counts(indptr: Any, indices: Any, order: Any, rank: Any, parent: Any) -> Any:
    """Subdiagonal blocks in every column of L.

    Row i of L is the part of the tree that joins the entries j < i of row i of A to i; walking it costs O(|L|).
    """
    n = order.size
    count = np.zeros(n, np.int64)
    seen = np.full(n, -1, np.int64)
    for i in range(n):
        v = order[i]
        seen[i] = i
        for e in range(indptr[v], indptr[v + 1]):
            j = rank[indices[e]]
            while j < i and seen[j] != i:
                seen[j] = i
                count[j] += 1
                j = parent[j]
    return count


@kernel
def front_cost(columns: Any, below: Any, block: Any) -> Any:
    """Rough time (ns) to factor a front with ``columns`` pivots and ``below`` further rows, in blocks.

    Overhead, arithmetic, and the memory traffic of the panel and of the update matrix; measured, not critical.
    """
    k = float(columns * block)
    u = float(below * block)
    flops = k * (k * k / 3.0 + k * u + u * u)
    return 200.0 + flops / 30.0 + k * (k + u) + 0.5 * u * u


@kernel
def supernodes(parent: Any, count: Any, block: Any) -> Any:
    """Label every column with its supernode.

    First the fundamental supernodes (runs of columns with nested structure), then a relaxed amalgamation: a child
    joins its parent when one larger front, with the explicit zeros it brings, costs less than two. Labels ascend
    in postorder of the amalgamated tree.
    """
    n = parent.size
    if n == 0:
        return np.zeros(0, np.int64)
    children = np.zeros(n, np.int64)
    for j in range(n):
        if parent[j] != -1:
            children[parent[j]] += 1
    label = np.empty(n, np.int64)
    width = np.zeros(n, np.int64)
    below = np.zeros(n, np.int64)
    last_column = np.zeros(n, np.int64)
    m = -1
    for j in range(n):
        joins = j > 0 and parent[j - 1] == j and count[j - 1] == count[j] + 1 and children[j] == 1
        if not joins:
            m += 1
        label[j] = m
        width[m] += 1
        below[m] = count[j]
        last_column[m] = j
    m += 1

    # children come before their parents, so a supernode has absorbed its own children when its turn comes
    into = np.empty(m, np.int64)
    for c in range(m):
        into[c] = c
        above = parent[last_column[c]]
        if above == -1:
            continue
        s = label[above]
        apart = front_cost(width[c], below[c], block) + front_cost(width[s], below[s], block)
        if front_cost(width[c] + width[s], below[s], block) <= apart:
            width[s] += width[c]
            into[c] = s
    # labels of the surviving tops, in order
    new = np.empty(m, np.int64)
    k = 0
    for s in range(m):
        if into[s] == s:
            new[s] = k
            k += 1
    for s in range(m - 1, -1, -1):
        if into[s] != s:
            new[s] = new[into[s]]
    for j in range(n):
        label[j] = new[label[j]]
    return label


@kernel
def supernode_rows(indptr: Any, indices: Any, order: Any, rank: Any, label: Any, tree: Any) -> Any:
    """Rows of every supernode below its own columns, ascending, in compressed form.

    Row i of L visits the supernodes on the paths from its entries j < i up to its own; as i ascends, each
    supernode collects its rows in order. Returns ``pointer`` and ``rows``.
    """
    n = order.size
    m = tree.size
    pointer = np.zeros(m + 1, np.int64)
    rows = np.empty(0, np.int64)
    for sweep in range(2):
        seen = np.full(m, -1, np.int64)
        fill = pointer[:m].copy()
        for i in range(n):
            v = order[i]
            own = label[i]
            for e in range(indptr[v], indptr[v + 1]):
                j = rank[indices[e]]
                if j > i:
                    continue
                s = label[j]
                while s != own and seen[s] != i:
                    seen[s] = i
                    if sweep == 0:
                        pointer[s + 1] += 1
                    else:
                        rows[fill[s]] = i
                        fill[s] += 1
                    s = tree[s]
        if sweep == 0:
            for s in range(m):
                pointer[s + 1] += pointer[s]
            rows = np.empty(pointer[m], np.int64)
    return pointer, rows


@kernel
def stack_places(tree: Any, size: Any, region: Any) -> Any:
    """Place of every update matrix, on two stacks in each region.

    An update matrix lives from its own front to its parent's. Fronts at even depth use one stack, fronts at odd
    depth the other: when a front is reached, the updates of its children are the top of the other stack, so its
    own can be pushed before theirs are popped. Fronts of different regions share no memory; the update of a front whose parent
    is in another region stays where it is. Returns offsets (stack behind stack) and the total size.
    """
    m = tree.size
    regions = 1
    for s in range(m):
        regions = max(regions, region[s] + 1)
    depth = np.zeros(m, np.int64)
    for s in range(m - 1, -1, -1):
        if tree[s] != -1 and region[tree[s]] == region[s]:
            depth[s] = 1 - depth[tree[s]]
    offset = np.empty(m, np.int64)
    top = np.zeros((regions, 2), np.int64)
    peak = np.zeros((regions, 2), np.int64)
    bottom = np.full(m, -1, np.int64)
    for s in range(m):
        d, r = depth[s], region[s]
        offset[s] = top[r, d]
        if bottom[s] != -1:
            top[r, 1 - d] = bottom[s]
        above = tree[s]
        if above != -1 and region[above] == r and bottom[above] == -1:
            bottom[above] = offset[s]
        top[r, d] = offset[s] + size[s]
        peak[r, d] = max(peak[r, d], top[r, d])
    base = np.zeros((regions, 2), np.int64)
    total = 0
    for r in range(regions):
        for d in range(2):
            base[r, d] = total
            total += peak[r, d]
    for s in range(m):
        offset[s] += base[region[s], depth[s]]
    return offset, total


@kernel
def shares(tree: Any, cost: Any, least: Any) -> Any:
    """Cut the tree of supernodes into tasks that need nothing of each other, and the rest, its top.

    The top are the supernodes with more than ``least`` of work in them and below them. Between these, whole subtrees follow each
    other; as many of them as have ``least`` of work together are one task. Returns the supernodes at which tasks and
    pieces of the top begin, with one behind the last at the end, and whether each is a task.
    """
    m = tree.size
    total = cost.copy()
    for s in range(m):
        if tree[s] != -1:
            total[tree[s]] += total[s]
    begin = np.empty(m + 1, np.int64)
    is_task = np.empty(m, np.bool_)
    count = 0
    work = 0.0
    fresh = True  # a subtree has just ended
    for s in range(m):
        top = total[s] > least
        if s == 0 or top != (total[s - 1] > least) or (not top and fresh and work >= least):
            begin[count] = s
            is_task[count] = not top
            count += 1
            work = 0.0
        work += cost[s]
        fresh = tree[s] == -1 or total[tree[s]] > least
    begin[count] = m
    return begin[: count + 1].copy(), is_task[:count].copy()
