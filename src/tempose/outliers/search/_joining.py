"""Compiled loops that join parts of a graph where the edges between them agree: arrays in, arrays out, no validation.

An edge measures ``j_from_i = (q, t)``, so that ``R_i = R_j q`` and ``p_i = p_j + R_j t`` (world_from_node).
The readable twins are in ``tests/outliers/search/test_votes.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose.geometry.compiled import product, turned


@kernel
def between(
    wxyz: Any, position: Any, edge_i: Any, edge_j: Any, q: Any, t: Any, e: int, in_a: bool, g: Any, x: Any, at: Any
) -> None:
    """The motion ``a_from_b`` of two parts' frames that edge e asks for, and where in b it holds.

    ``in_a`` says that node i is in part a (and j in b). Writes the quaternion g[e], the translation x[e], and the position at[e],
    in b's frame, of the edge's node in b.
    """
    i, j = edge_i[e], edge_j[e]
    a = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
    m = product(a, (q[e, 0], q[e, 1], q[e, 2], q[e, 3]))  # node i as j predicts it, in j's part
    d = turned(a, (t[e, 0], t[e, 1], t[e, 2]))
    px, py, pz = position[j, 0] + d[0], position[j, 1] + d[1], position[j, 2] + d[2]
    b = (wxyz[i, 0], wxyz[i, 1], wxyz[i, 2], wxyz[i, 3])
    if in_a:  # take the prediction, in b's frame, to where i is, in a's
        w = product(b, (m[0], -m[1], -m[2], -m[3]))
        r = turned(w, (px, py, pz))
        for c in range(3):
            x[e, c] = position[i, c] - r[c]
            at[e, c] = position[j, c]
    else:  # take where i is, in b's frame, to the prediction, in a's
        w = product(m, (b[0], -b[1], -b[2], -b[3]))
        r = turned(w, (position[i, 0], position[i, 1], position[i, 2]))
        x[e, 0], x[e, 1], x[e, 2] = px - r[0], py - r[1], pz - r[2]
        for c in range(3):
            at[e, c] = position[i, c]
    for c in range(4):
        g[e, c] = w[c]


@kernel
def same_motion(g: Any, x: Any, at: Any, a: int, b: int, rot: Any, trans: Any, reach: float) -> Any:
    """How much edges a and b ask for the same motion between two parts, 1 at best; as :func:`_agreement`, at b's node.

    Over the distance between the two nodes the rotation noise of edge a swings the other's position.
    """
    dot = g[a, 0] * g[b, 0] + g[a, 1] * g[b, 1] + g[a, 2] * g[b, 2] + g[a, 3] * g[b, 3]
    e = 4.0 * max(1.0 - dot * dot, 0.0) * rot[a] * rot[b] / (rot[a] + rot[b])
    if trans[a] > 0.0 and trans[b] > 0.0:
        here = (at[b, 0], at[b, 1], at[b, 2])
        first = turned((g[a, 0], g[a, 1], g[a, 2], g[a, 3]), here)
        second = turned((g[b, 0], g[b, 1], g[b, 2], g[b, 3]), here)
        squared, lever = 0.0, 0.0
        for c in range(3):
            d = first[c] + x[a, c] - second[c] - x[b, c]
            squared += d * d
            lever += (at[a, c] - at[b, c]) ** 2
        e += squared / (1.0 / trans[a] + 1.0 / trans[b] + lever / rot[a])
    k = 1.0 + e / reach
    return 1.0 / (k * k)


@kernel
def merge(
    edge_i: Any, edge_j: Any, q: Any, t: Any, rot: Any, trans: Any, freedom: Any, odds: Any, bonus: Any,
    wxyz: Any, position: Any,
) -> None:  # fmt: skip
    """Join parts, nodes at first, until nothing is left to join: always the two whose crossing edges agree best.

    A pair's score is the largest sum, over the crossing edges that ask for the same motion as one of them, of
    agreement × odds, plus that one's bonus. Poses start at the identity and are written in place, in the frame of each part's
    first node.
    """
    n, m = wxyz.shape[0], edge_i.shape[0]
    part = np.arange(n)
    g, x, at = np.zeros((m, 4)), np.zeros((m, 3)), np.zeros((m, 3))
    score = odds + bonus  # of the pair that an edge joins, led by the edge
    stale = np.zeros(n, np.bool_)  # parts whose edges have not been scored since a join
    crossing, beyond = np.empty(m, np.int64), np.empty(m, np.int64)  # edges out of a part, and the part they lead to
    # parallel edges from the start: score them like any pair
    for e in range(m):
        stale[edge_i[e]] = True
    while True:
        for a in range(n):
            if not stale[a]:
                continue
            count = 0
            for e in range(m):
                pi, pj = part[edge_i[e]], part[edge_j[e]]
                if (pi == a) != (pj == a):
                    crossing[count] = e
                    beyond[count] = pj if pi == a else pi
                    count += 1
            order = np.argsort(beyond[:count], kind="mergesort")  # stable: edges to one part stay in their order
            for k in range(count):
                e = crossing[k]
                between(wxyz, position, edge_i, edge_j, q, t, e, part[edge_i[e]] == a, g, x, at)
            begin = 0
            while begin < count:
                end = begin + 1
                while end < count and beyond[order[end]] == beyond[order[begin]]:
                    end += 1
                for k in range(begin, end):
                    e = crossing[order[k]]
                    score[e] = odds[e] + bonus[e]
                    for h in range(begin, end):
                        if h != k:
                            f = crossing[order[h]]
                            reach = min(freedom[e], freedom[f])
                            score[e] += odds[f] * same_motion(g, x, at, e, f, rot, trans, reach)
                begin = end
            stale[a] = False
        lead, best = -1, 0.0
        for e in range(m):
            if part[edge_i[e]] != part[edge_j[e]] and score[e] > best:
                lead, best = e, score[e]
        if lead < 0:
            return
        a, b = part[edge_i[lead]], part[edge_j[lead]]
        size_a, size_b = 0, 0
        for v in range(n):
            size_a += part[v] == a
            size_b += part[v] == b
        if size_b > size_a:
            a, b = b, a
        _carry(edge_i, edge_j, q, t, rot, trans, freedom, odds, part, a, b, lead, g, x, at, wxyz, position)
        stale[a] = True


@kernel
def _carry(
    edge_i: Any, edge_j: Any, q: Any, t: Any, rot: Any, trans: Any, freedom: Any, odds: Any, part: Any, a: int, b: int,
    lead: int, g: Any, x: Any, at: Any, wxyz: Any, position: Any,
) -> None:  # fmt: skip
    """Move part b into a's frame by the mean of the motions that agree with edge ``lead``."""
    n, m = wxyz.shape[0], edge_i.shape[0]
    middle, size = np.zeros(3), 0
    for v in range(n):
        if part[v] == b:
            size += 1
            for c in range(3):
                middle[c] += position[v, c]
    middle /= size
    between(wxyz, position, edge_i, edge_j, q, t, lead, part[edge_i[lead]] == a, g, x, at)
    mean_q, mean_p, total = np.zeros(4), np.zeros(3), 0.0
    for e in range(m):
        pi, pj = part[edge_i[e]], part[edge_j[e]]
        if not ((pi == a and pj == b) or (pi == b and pj == a)):
            continue
        between(wxyz, position, edge_i, edge_j, q, t, e, pi == a, g, x, at)
        w = odds[e] * same_motion(g, x, at, lead, e, rot, trans, min(freedom[lead], freedom[e]))
        dot = g[e, 0] * g[lead, 0] + g[e, 1] * g[lead, 1] + g[e, 2] * g[lead, 2] + g[e, 3] * g[lead, 3]
        moved = turned((g[e, 0], g[e, 1], g[e, 2], g[e, 3]), (middle[0], middle[1], middle[2]))
        for c in range(4):
            mean_q[c] += w * g[e, c] if dot >= 0.0 else -w * g[e, c]
        if trans[e] > 0.0 or trans[lead] == 0.0:
            total += w
            for c in range(3):
                mean_p[c] += w * (moved[c] + x[e, c])
    mean_q /= math.sqrt(np.sum(mean_q * mean_q))
    mean_p /= total
    motion = (mean_q[0], mean_q[1], mean_q[2], mean_q[3])
    for v in range(n):
        if part[v] != b:
            continue
        w = product(motion, (wxyz[v, 0], wxyz[v, 1], wxyz[v, 2], wxyz[v, 3]))
        d = turned(motion, (position[v, 0] - middle[0], position[v, 1] - middle[1], position[v, 2] - middle[2]))
        for c in range(4):
            wxyz[v, c] = w[c]
        for c in range(3):
            position[v, c] = mean_p[c] + d[c]
        part[v] = a
