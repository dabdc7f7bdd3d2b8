"""Compiled loops of the search for the basin: arrays in, arrays out, no validation.

They read the graph by *half edges*: the half edges of node v are rows ``start[v]`` to ``start[v + 1]``, sorted by neighbour u,
and carry the measured ``u_from_v = (q, t)``, so that u predicts ``R_v = R_u q`` and ``p_v = p_u + R_u t`` (world_from_node).
The readable twins are in ``tests/test_basin.py``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from tempose.optimum._kernels import multiply, turn

# the functions are compiled by call, not by decorator, so that a type checker sees plain functions
_compile: Any = njit(cache=True, nogil=True)
_inline: Any = njit(cache=True, inline="always")


def _closure(q: Any, t: Any, ab: Any, bc: Any, ac: Any) -> Any:
    """What is left around a triangle: 4 sin²(θ/2) and |translation|² of ``c_from_b b_from_a`` against ``c_from_a``."""
    first = (q[ab, 0], q[ab, 1], q[ab, 2], q[ab, 3])
    second = (q[bc, 0], q[bc, 1], q[bc, 2], q[bc, 3])
    w, x, y, z = multiply(second, first)
    dot = w * q[ac, 0] + x * q[ac, 1] + y * q[ac, 2] + z * q[ac, 3]
    s = turn(second, (t[ab, 0], t[ab, 1], t[ab, 2]))
    u, v, r = s[0] + t[bc, 0] - t[ac, 0], s[1] + t[bc, 1] - t[ac, 1], s[2] + t[bc, 2] - t[ac, 2]
    return 4.0 * max(1.0 - dot * dot, 0.0), u * u + v * v + r * r


closure: Any = _inline(_closure)


def _keep_best(value: Any, apex: Any, e: int, d: float, c: int) -> None:
    """Put a triangle with distance d and third node c among the best of edge e, one for each third node."""
    k = value.shape[1]
    at = k - 1
    for a in range(k):
        if apex[e, a] == c:
            at = a
            break
    if d >= value[e, at]:
        return
    while at > 0 and value[e, at - 1] > d:
        value[e, at], apex[e, at] = value[e, at - 1], apex[e, at - 1]
        at -= 1
    value[e, at], apex[e, at] = d, c


keep_best: Any = _compile(_keep_best)


def _triangles(
    start: Any, neighbour: Any, edge: Any, q: Any, t: Any, has_t: Any, rot: float, trans: float, limit: float,
    value: Any, apex: Any, count: Any, closed: Any,
) -> int:  # fmt: skip
    """All triangles: per edge the least distances ``d² = rot · 4 sin²(θ/2) + trans · |r|²``, one per third node.

    ``start`` … are half edges whose (q, t) are ``u_from_v``. Writes ``value``, ``apex`` (m, k), and how many triangles each
    edge is in, and how many of them close with d² below ``limit``.
    """
    n = start.shape[0] - 1
    mark = np.full(n, -1, np.int64)  # last half edge of a to each node
    total = 0
    for a in range(n):
        for k in range(start[a], start[a + 1]):
            if neighbour[k] > a:
                mark[neighbour[k]] = k
        for k in range(start[a], start[a + 1]):
            b = neighbour[k]
            if b <= a:
                continue
            for h in range(start[b], start[b + 1]):
                c = neighbour[h]
                if c <= b or mark[c] < 0:
                    continue
                g = mark[c]
                while g >= start[a] and neighbour[g] == c:  # all parallel edges
                    turned, moved = closure(q, t, k, h, g)
                    d = rot * turned
                    if has_t[k] and has_t[h] and has_t[g]:
                        d += trans * moved
                    keep_best(value, apex, edge[k], d, c)
                    keep_best(value, apex, edge[h], d, a)
                    keep_best(value, apex, edge[g], d, b)
                    good = 1 if d < limit else 0
                    for e in (edge[k], edge[h], edge[g]):
                        count[e] += 1
                        closed[e] += good
                    total += 1
                    g -= 1
        for k in range(start[a], start[a + 1]):
            mark[neighbour[k]] = -1
    return total


triangles: Any = _compile(_triangles)


def _shifts_of_closed(start: Any, neighbour: Any, q: Any, t: Any, has_t: Any, limit: float, out: Any) -> int:
    """Squared translations left around triangles whose rotations close, 4 sin²(θ/2) < limit; at most ``len(out)`` of them."""
    n = start.shape[0] - 1
    mark = np.full(n, -1, np.int64)
    found = 0
    for a in range(n):
        for k in range(start[a], start[a + 1]):
            if neighbour[k] > a:
                mark[neighbour[k]] = k
        for k in range(start[a], start[a + 1]):
            b = neighbour[k]
            if b <= a:
                continue
            for h in range(start[b], start[b + 1]):
                c = neighbour[h]
                if c <= b or mark[c] < 0:
                    continue
                g = mark[c]
                turned, moved = closure(q, t, k, h, g)
                if turned < limit and has_t[k] and has_t[h] and has_t[g] and found < out.shape[0]:
                    out[found] = moved
                    found += 1
        for k in range(start[a], start[a + 1]):
            mark[neighbour[k]] = -1
    return found


shifts_of_closed: Any = _compile(_shifts_of_closed)


def _predict(wxyz: Any, position: Any, u: int, q: Any, t: Any, h: int, out_q: Any, out_p: Any, row: int) -> None:
    """Write the pose of v that its neighbour u predicts along half edge h."""
    a = (wxyz[u, 0], wxyz[u, 1], wxyz[u, 2], wxyz[u, 3])
    w = multiply(a, (q[h, 0], q[h, 1], q[h, 2], q[h, 3]))
    x = turn(a, (t[h, 0], t[h, 1], t[h, 2]))
    for c in range(4):
        out_q[row, c] = w[c]
    for c in range(3):
        out_p[row, c] = position[u, c] + x[c]


predict: Any = _compile(_predict)


def _agreement(pq: Any, pp: Any, x: int, y: int, rot: Any, trans: Any, freedom: Any) -> Any:
    """How much two predictions agree, 1 at best: ``(1 + e/d)⁻²`` with e their energy under both edges' noise, d numbers."""
    dot = pq[x, 0] * pq[y, 0] + pq[x, 1] * pq[y, 1] + pq[x, 2] * pq[y, 2] + pq[x, 3] * pq[y, 3]
    e = 4.0 * max(1.0 - dot * dot, 0.0) * rot[x] * rot[y] / (rot[x] + rot[y])
    both = trans[x] + trans[y]
    if trans[x] > 0.0 and trans[y] > 0.0:
        u, v, w = pp[x, 0] - pp[y, 0], pp[x, 1] - pp[y, 1], pp[x, 2] - pp[y, 2]
        e += (u * u + v * v + w * w) * trans[x] * trans[y] / both
    k = 1.0 + e / min(freedom[x], freedom[y])
    return 1.0 / (k * k)


agreement: Any = _compile(_agreement)


def _blend(
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


blend: Any = _compile(_blend)


def _grow(
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


grow: Any = _compile(_grow)


def _vote(
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


vote: Any = _compile(_vote)


def _edge_energies(
    edge_i: Any, edge_j: Any, q: Any, t: Any, rot: Any, trans: Any, wxyz: Any, position: Any, error: Any, shift: Any,
    energy: Any,
) -> None:  # fmt: skip
    """Of every edge: rotation vector ``log(q_j q_ij q̄_i)``, world vector ``p_j + R_j t_ij − p_i``, and its energy."""
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        a = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
        m = multiply(a, (q[e, 0], q[e, 1], q[e, 2], q[e, 3]))
        w, x, y, z = multiply(m, (wxyz[i, 0], -wxyz[i, 1], -wxyz[i, 2], -wxyz[i, 3]))
        s2 = x * x + y * y + z * z
        length = math.sqrt(s2)
        factor = 2.0 * math.atan2(length, abs(w)) / length if length > 1e-150 else 2.0
        if w < 0.0:
            factor = -factor
        error[e, 0], error[e, 1], error[e, 2] = factor * x, factor * y, factor * z
        total = 4.0 * s2 * rot[e]
        if trans[e] > 0.0:
            d = turn(a, (t[e, 0], t[e, 1], t[e, 2]))
            squared = 0.0
            for c in range(3):
                shift[e, c] = position[j, c] + d[c] - position[i, c]
                squared += shift[e, c] * shift[e, c]
            total += squared * trans[e]
        energy[e] = total


edge_energies: Any = _compile(_edge_energies)


def _laplacian(edge_i: Any, edge_j: Any, weight: Any, b: Any, diagonal: Any, off: Any, rhs: Any) -> None:
    """Blocks of ``Σ w |x_i − x_j − b|²``: diagonal (n,), off-diagonal (m,), right-hand side (n, 3)."""
    diagonal[:] = 0.0
    rhs[:] = 0.0
    for e in range(edge_i.shape[0]):
        i, j, w = edge_i[e], edge_j[e], weight[e]
        diagonal[i] += w
        diagonal[j] += w
        off[e] = -w
        for c in range(3):
            pull = w * b[e, c]
            rhs[i, c] += pull
            rhs[j, c] -= pull


laplacian: Any = _compile(_laplacian)


def _between(
    wxyz: Any, position: Any, edge_i: Any, edge_j: Any, q: Any, t: Any, e: int, in_a: bool, g: Any, x: Any, at: Any
) -> None:
    """The motion ``a_from_b`` of two parts' frames that edge e asks for, and where in b it holds.

    ``in_a`` says that node i is in part a (and j in b). Writes the quaternion g[e], the translation x[e], and the position at[e],
    in b's frame, of the edge's node in b.
    """
    i, j = edge_i[e], edge_j[e]
    a = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
    m = multiply(a, (q[e, 0], q[e, 1], q[e, 2], q[e, 3]))  # node i as j predicts it, in j's part
    d = turn(a, (t[e, 0], t[e, 1], t[e, 2]))
    px, py, pz = position[j, 0] + d[0], position[j, 1] + d[1], position[j, 2] + d[2]
    b = (wxyz[i, 0], wxyz[i, 1], wxyz[i, 2], wxyz[i, 3])
    if in_a:  # take the prediction, in b's frame, to where i is, in a's
        w = multiply(b, (m[0], -m[1], -m[2], -m[3]))
        r = turn(w, (px, py, pz))
        for c in range(3):
            x[e, c] = position[i, c] - r[c]
            at[e, c] = position[j, c]
    else:  # take where i is, in b's frame, to the prediction, in a's
        w = multiply(m, (b[0], -b[1], -b[2], -b[3]))
        r = turn(w, (position[i, 0], position[i, 1], position[i, 2]))
        x[e, 0], x[e, 1], x[e, 2] = px - r[0], py - r[1], pz - r[2]
        for c in range(3):
            at[e, c] = position[i, c]
    for c in range(4):
        g[e, c] = w[c]


between: Any = _compile(_between)


def _same_motion(g: Any, x: Any, at: Any, a: int, b: int, rot: Any, trans: Any, reach: float) -> Any:
    """How much edges a and b ask for the same motion between two parts, 1 at best; as :func:`_agreement`, at b's node.

    Over the distance between the two nodes the rotation noise of edge a swings the other's position.
    """
    dot = g[a, 0] * g[b, 0] + g[a, 1] * g[b, 1] + g[a, 2] * g[b, 2] + g[a, 3] * g[b, 3]
    e = 4.0 * max(1.0 - dot * dot, 0.0) * rot[a] * rot[b] / (rot[a] + rot[b])
    if trans[a] > 0.0 and trans[b] > 0.0:
        here = (at[b, 0], at[b, 1], at[b, 2])
        first = turn((g[a, 0], g[a, 1], g[a, 2], g[a, 3]), here)
        second = turn((g[b, 0], g[b, 1], g[b, 2], g[b, 3]), here)
        squared, lever = 0.0, 0.0
        for c in range(3):
            d = first[c] + x[a, c] - second[c] - x[b, c]
            squared += d * d
            lever += (at[a, c] - at[b, c]) ** 2
        e += squared / (1.0 / trans[a] + 1.0 / trans[b] + lever / rot[a])
    k = 1.0 + e / reach
    return 1.0 / (k * k)


same_motion: Any = _compile(_same_motion)


def _merge(
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


def _carry_over(
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
        moved = turn((g[e, 0], g[e, 1], g[e, 2], g[e, 3]), (middle[0], middle[1], middle[2]))
        for c in range(4):
            mean_q[c] += w * g[e, c] if dot >= 0.0 else -w * g[e, c]
        if trans[e] > 0.0 or trans[lead] == 0.0:
            total += w
            for c in range(3):
                mean_p[c] += w * (moved[c] + x[e, c])
    mean_q /= math.sqrt(np.sum(mean_q * mean_q))
    mean_p /= total
    turned = (mean_q[0], mean_q[1], mean_q[2], mean_q[3])
    for v in range(n):
        if part[v] != b:
            continue
        w = multiply(turned, (wxyz[v, 0], wxyz[v, 1], wxyz[v, 2], wxyz[v, 3]))
        d = turn(turned, (position[v, 0] - middle[0], position[v, 1] - middle[1], position[v, 2] - middle[2]))
        for c in range(4):
            wxyz[v, c] = w[c]
        for c in range(3):
            position[v, c] = mean_p[c] + d[c]
        part[v] = a


_carry: Any = _compile(_carry_over)
merge: Any = _compile(_merge)
