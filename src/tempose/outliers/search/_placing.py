"""Compiled loops that place nodes where their neighbours agree, and settle them: arrays in, arrays out, no validation.

They read the graph by *half edges*: the half edges of node v are rows ``start[v]`` to ``start[v + 1]``, sorted by neighbour u,
and carry the measured ``u_from_v = (q, t)``, so that u predicts ``R_v = R_u q`` and ``p_v = p_u + R_u t`` (world_from_node).
The readable twins are in ``tests/outliers/search/test_votes.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose.geometry.compiled import product, turned


@kernel
def predict(wxyz: Any, position: Any, u: int, q: Any, t: Any, h: int, out_q: Any, out_p: Any, row: int) -> None:
    """Write the pose of v that its neighbour u predicts along half edge h."""
    a = (wxyz[u, 0], wxyz[u, 1], wxyz[u, 2], wxyz[u, 3])
    w = product(a, (q[h, 0], q[h, 1], q[h, 2], q[h, 3]))
    x = turned(a, (t[h, 0], t[h, 1], t[h, 2]))
    for c in range(4):
        out_q[row, c] = w[c]
    for c in range(3):
        out_p[row, c] = position[u, c] + x[c]


@kernel
def agreement(pq: Any, pp: Any, x: int, y: int, rot: Any, trans: Any, freedom: Any) -> Any:
    """How much two predictions agree, 1 at best: ``(1 + e/d)⁻²`` with e their energy under both edges' noise, d numbers."""
    dot = pq[x, 0] * pq[y, 0] + pq[x, 1] * pq[y, 1] + pq[x, 2] * pq[y, 2] + pq[x, 3] * pq[y, 3]
    e = 4.0 * max(1.0 - dot * dot, 0.0) * rot[x] * rot[y] / (rot[x] + rot[y])
    both = trans[x] + trans[y]
    if trans[x] > 0.0 and trans[y] > 0.0:
        u, v, w = pp[x, 0] - pp[y, 0], pp[x, 1] - pp[y, 1], pp[x, 2] - pp[y, 2]
        e += (u * u + v * v + w * w) * trans[x] * trans[y] / both
    k = 1.0 + e / min(freedom[x], freedom[y])
    return 1.0 / (k * k)


@kernel
def blend(
    pq: Any, pp: Any, first: int, last: int, best: int, rot: Any, trans: Any, freedom: Any, q: Any, p: Any
) -> None:
    """Mean of the predictions first … last weighted by how much they agree with the best; written into q (4,) and p (3,)."""
    q[:] = 0.0
    p[:] = 0.0
    total = 0.0
    for x in range(first, last):
        if rot[x] <= 0.0:
            continue
        k = agreement(pq, pp, best, x, rot, trans, freedom)
        dot = pq[x, 0] * pq[best, 0] + pq[x, 1] * pq[best, 1] + pq[x, 2] * pq[best, 2] + pq[x, 3] * pq[best, 3]
        sign = k if dot >= 0.0 else -k
        for c in range(4):
            q[c] += sign * pq[x, c]
        if trans[x] > 0.0:
            for c in range(3):
                p[c] += k * pp[x, c]
            total += k
    length = math.sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3])
    for c in range(4):
        q[c] /= length
    for c in range(3):
        p[c] = p[c] / total if total > 0.0 else pp[best, c]


@kernel
def grow(
    start: Any, neighbour: Any, twin: Any, q: Any, t: Any, rot: Any, trans: Any, freedom: Any, prior: Any, bonus: Any,
    seeds: Any, wxyz: Any, position: Any, support: Any,
) -> None:  # fmt: skip
    """Place node after node where most of its placed neighbours agree that it is, the surest first.

    A node's score is the largest sum, over the predictions that agree with one of them, of agreement × prior, plus that
    one's bonus. ``seeds`` orders the nodes that may begin a component; ``support`` (n,) gets the score at which each node
    was placed, 0 at seeds. ``twin`` is the same edge seen from its other end.
    """
    n = start.shape[0] - 1
    halves = neighbour.shape[0]
    pq, pp = np.zeros((halves, 4)), np.zeros((halves, 3))
    known = np.zeros(halves, np.bool_)
    mass = np.zeros(halves)
    active = np.zeros(halves)  # rotation precision of predictions that exist, 0 for the others
    placed = np.zeros(n, np.bool_)
    score, choice = np.zeros(n), np.full(n, -1, np.int64)
    next_seed = 0
    for _ in range(n):
        v, best = -1, 0.0
        for u in range(n):
            if not placed[u] and score[u] > best:
                v, best = u, score[u]
        if v < 0:
            while placed[seeds[next_seed]]:
                next_seed += 1
            v = seeds[next_seed]
        else:
            blend(pq, pp, start[v], start[v + 1], choice[v], active, trans, freedom, wxyz[v], position[v])
        support[v] = best
        placed[v] = True
        for k in range(start[v], start[v + 1]):
            u = neighbour[k]
            if placed[u]:
                continue
            h = twin[k]
            predict(wxyz, position, v, q, t, h, pq, pp, h)
            known[h], active[h] = True, rot[h]
            mass[h] = prior[h]
            for x in range(start[u], start[u + 1]):
                if known[x] and x != h:
                    a = agreement(pq, pp, h, x, rot, trans, freedom)
                    mass[h] += a * prior[x]
                    mass[x] += a * prior[h]
            for x in range(start[u], start[u + 1]):
                if known[x] and mass[x] + bonus[x] > score[u]:
                    score[u], choice[u] = mass[x] + bonus[x], x


@kernel
def vote(
    start: Any, neighbour: Any, q: Any, t: Any, rot: Any, trans: Any, freedom: Any, prior: Any, wxyz: Any, position: Any,
    new_wxyz: Any, new_position: Any, best: Any, present: Any,
) -> None:  # fmt: skip
    """Where its neighbours want each node to be, how many agree on that (``best``), and with its present pose (``present``)."""
    n = start.shape[0] - 1
    for v in range(n):
        first, last = start[v], start[v + 1]
        d = last - first
        pq, pp = np.empty((d + 1, 4)), np.empty((d + 1, 3))
        r, s, f = np.empty(d + 1), np.empty(d + 1), np.empty(d + 1)
        for k in range(d):
            predict(wxyz, position, neighbour[first + k], q, t, first + k, pq, pp, k)
            r[k], s[k], f[k] = rot[first + k], trans[first + k], freedom[first + k]
        for c in range(4):
            pq[d, c] = wxyz[v, c]
        for c in range(3):
            pp[d, c] = position[v, c]
        top, choice = -1.0, -1
        for x in range(d):
            total = 0.0
            for y in range(d):
                total += prior[first + y] * agreement(pq, pp, x, y, r, s, f)
            if total > top:
                top, choice = total, x
        best[v], present[v] = max(top, 0.0), 0.0
        if choice < 0:
            continue
        r[d], s[d], f[d] = 1e30, 1e30, 6.0  # the pose itself has no noise
        for y in range(d):
            present[v] += prior[first + y] * agreement(pq, pp, d, y, r, s, f)
        # the mean of those who agree, by the noise of single predictions
        blend(pq, pp, 0, d, choice, r, s, f, new_wxyz[v], new_position[v])
        for c in range(4):
            pq[d, c] = new_wxyz[v, c]
        for c in range(3):
            pp[d, c] = new_position[v, c]
        best[v] = 0.0
        for y in range(d):
            best[v] += prior[first + y] * agreement(pq, pp, d, y, r, s, f)


@kernel
def edge_energies(
    edge_i: Any, edge_j: Any, q: Any, t: Any, rot: Any, trans: Any, wxyz: Any, position: Any, error: Any, shift: Any,
    energy: Any,
) -> None:  # fmt: skip
    """Of every edge: rotation vector ``log(q_j q_ij q̄_i)``, world vector ``p_j + R_j t_ij − p_i``, and its energy."""
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        a = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
        m = product(a, (q[e, 0], q[e, 1], q[e, 2], q[e, 3]))
        w, x, y, z = product(m, (wxyz[i, 0], -wxyz[i, 1], -wxyz[i, 2], -wxyz[i, 3]))
        s2 = x * x + y * y + z * z
        length = math.sqrt(s2)
        factor = 2.0 * math.atan2(length, abs(w)) / length if length > 1e-150 else 2.0
        if w < 0.0:
            factor = -factor
        error[e, 0], error[e, 1], error[e, 2] = factor * x, factor * y, factor * z
        total = 4.0 * s2 * rot[e]
        if trans[e] > 0.0:
            d = turned(a, (t[e, 0], t[e, 1], t[e, 2]))
            squared = 0.0
            for c in range(3):
                shift[e, c] = position[j, c] + d[c] - position[i, c]
                squared += shift[e, c] * shift[e, c]
            total += squared * trans[e]
        energy[e] = total
