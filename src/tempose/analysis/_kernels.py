"""What is computed for every node and every draw, compiled: the readable twins are in the modules that use it.

Series are of one number: chains of equal length, one after the other (chains · draws,). The estimators of
:mod:`tempose.analysis.diagnostics` look at each chain as two halves, here the first draws of all halves, then the second, and so
on; ``place`` says where among them a draw lies, −1 for the middle one of an odd number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tempose._support.compiling import inlined, kernel
from tempose.geometry.compiled import multiply, rotate

_TINY = 1e-150  # as in tempose.geometry.quaternion
CONSTANT = 1e-15  # a series that varies by less does not vary
UNFINISHED = -1.0  # in place of an effective sample size that needs more lags


# ---------------------------------------------------------------------- poses


@kernel
def align_rows(
    draws: Any,
    first: Any,
    turn: Any,
    center: Any,
    offset: Any,
    component: Any,
    part: Any,
    turns: Any,
    at: Any,
    out: Any,
) -> None:
    """Write the poses of the nodes from ``first`` on, in all draws (k, n, 7) of a chain, to ``out[:, at : at + k]`` (rows, ·, 7).

    ``turn`` (k, c, 4), ``center`` (c, 3) and ``offset`` (k, parts, 3) are those of :meth:`tempose.model.gauge.Gauge.motions`;
    ``turns`` (n,) is false for landmarks.
    """
    for t in range(draws.shape[0]):
        for row in range(out.shape[0]):
            k = first + row
            c, g = component[k], part[k]
            w, x, y, z = turn[t, c, 0], turn[t, c, 1], turn[t, c, 2], turn[t, c, 3]
            a0, a1, a2, a3 = draws[t, k, 0], draws[t, k, 1], draws[t, k, 2], draws[t, k, 3]
            if turns[k]:
                a0, a1, a2, a3 = multiply(w, x, y, z, a0, a1, a2, a3)
            p0, p1, p2 = rotate(
                w, x, y, z, draws[t, k, 4] - center[c, 0], draws[t, k, 5] - center[c, 1], draws[t, k, 6] - center[c, 2]
            )
            s = at + t
            out[row, s, 0], out[row, s, 1], out[row, s, 2], out[row, s, 3] = a0, a1, a2, a3
            out[row, s, 4] = center[c, 0] + p0 + offset[t, g, 0]
            out[row, s, 5] = center[c, 1] + p1 + offset[t, g, 1]
            out[row, s, 6] = center[c, 2] + p2 + offset[t, g, 2]


@inlined
def _tangent(poses: Any, row: Any, s: Any, q: Any, p: Any) -> Any:
    """World-frame coordinates (ω, δ) of a pose about another (q, p)."""
    w, x, y, z = multiply(
        poses[row, s, 0], poses[row, s, 1], poses[row, s, 2], poses[row, s, 3], q[0], -q[1], -q[2], -q[3]
    )
    if w < 0.0:
        w, x, y, z = -w, -x, -y, -z
    length = math.sqrt(x * x + y * y + z * z)
    f = 2.0 * math.atan2(length, w) / length if length > _TINY else 2.0 / max(w, 0.5)
    return f * x, f * y, f * z, poses[row, s, 4] - p[0], poses[row, s, 5] - p[1], poses[row, s, 6] - p[2]


@kernel
def tangents(poses: Any, wxyz: Any, position: Any, out: Any) -> None:
    """Coordinates (rows, 6, draws) of poses (rows, draws, 7) about one of each node, (rows, 4) and (rows, 3)."""
    for row in range(poses.shape[0]):
        q, p = wxyz[row], position[row]
        for s in range(poses.shape[1]):
            a, b, c, d, e, f = _tangent(poses, row, s, q, p)
            out[row, 0, s], out[row, 1, s], out[row, 2, s] = a, b, c
            out[row, 3, s], out[row, 4, s], out[row, 5, s] = d, e, f


@kernel
def moments(poses: Any, wxyz: Any, position: Any, scatter: Any) -> None:
    """Replace references (rows, 4) and (rows, 3) by mean poses, found in two steps; write the sums (rows, 6, 6) about them."""
    total = np.empty(6)
    count = poses.shape[1]
    for row in range(poses.shape[0]):
        q, p, square = wxyz[row], position[row], scatter[row]
        for _ in range(2):  # the mean in the tangent space at the reference, then at that mean
            total[:] = 0.0
            for s in range(count):
                x0, x1, x2, x3, x4, x5 = _tangent(poses, row, s, q, p)
                total[0] += x0
                total[1] += x1
                total[2] += x2
                total[3] += x3
                total[4] += x4
                total[5] += x5
            x, y, z = total[0] / count, total[1] / count, total[2] / count
            half = 0.5 * math.sqrt(x * x + y * y + z * z)
            f = 0.5 * math.sin(half) / half if half > 0.0 else 0.5
            a0, a1, a2, a3 = multiply(math.cos(half), f * x, f * y, f * z, q[0], q[1], q[2], q[3])
            norm = math.sqrt(a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3)
            q[0], q[1], q[2], q[3] = a0 / norm, a1 / norm, a2 / norm, a3 / norm
            for a in range(3):
                p[a] += total[3 + a] / count
        square[:] = 0.0
        for s in range(count):
            total[0], total[1], total[2], total[3], total[4], total[5] = _tangent(poses, row, s, q, p)
            for a in range(6):
                for b in range(a + 1):
                    square[a, b] += total[a] * total[b]
        for a in range(6):
            for b in range(a):
                square[b, a] = square[a, b]


# ---------------------------------------------------------------------- series


@kernel
def _two_lags(x: Any, chains: Any, n: Any, lag: Any) -> Any:
    """``Σ x_t x_{t+lag}`` over all chains, draw after draw (n · chains,), and the same with ``lag + 1``."""
    there, next_ = x[lag * chains :], x[(lag + 1) * chains :]
    m = next_.size
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = 0.0
    for k in range(0, m - 3, 4):
        a0 += x[k] * there[k]
        b0 += x[k] * next_[k]
        a1 += x[k + 1] * there[k + 1]
        b1 += x[k + 1] * next_[k + 1]
        a2 += x[k + 2] * there[k + 2]
        b2 += x[k + 2] * next_[k + 2]
        a3 += x[k + 3] * there[k + 3]
        b3 += x[k + 3] * next_[k + 3]
    for k in range(m // 4 * 4, m):
        a0 += x[k] * there[k]
        b0 += x[k] * next_[k]
    for k in range(m, there.size):
        a1 += x[k] * there[k]
    return (a0 + a1) + (a2 + a3), (b0 + b1) + (b2 + b3)


@kernel
def _deviations(x: Any, chains: Any, n: Any, mean: Any) -> Any:
    """Take the mean of each chain off a series (n · chains,); return the variance within chains, and that of their means."""
    within = middle = between = 0.0
    mean[:] = 0.0
    for t in range(n):
        for c in range(chains):
            mean[c] += x[t * chains + c]
    for c in range(chains):
        mean[c] /= n
        middle += mean[c] / chains
    for c in range(chains):
        between += (mean[c] - middle) ** 2
    s0 = s1 = 0.0
    for t in range(n):
        for c in range(0, chains, 2):  # halves of chains: an even number
            k = t * chains + c
            x[k] -= mean[c]
            x[k + 1] -= mean[c + 1]
            s0 += x[k] * x[k]
            s1 += x[k + 1] * x[k + 1]
    within = (s0 + s1) / (n - 1) / chains
    return within, between / (chains - 1)


@kernel
def _is_constant(x: Any) -> Any:
    """Whether a series varies by less than :data:`CONSTANT`."""
    low = high = x[0]
    for k in range(x.size):
        if not abs(x[k] - x[0]) < CONSTANT:
            return False
        low, high = min(low, x[k]), max(high, x[k])
    return high - low < CONSTANT


@kernel(error_model="numpy")
def effective_size(x: Any, chains: Any, n: Any, within: Any, between: Any, most: Any) -> Any:
    """ESS of what :func:`_deviations` leaves and returns; :data:`UNFINISHED` if it takes more than ``most`` lags.

    Few lags are summed faster than a Fourier transform has all of them.
    """
    size = float(chains * n)
    total = within * (n - 1.0) / n + between
    tau, least, last = 0.0, math.inf, max((n - 3) // 2, 0)
    rho = 1.0
    for pair in range(last + 1):
        if 2 * pair + 1 > most:
            return UNFINISHED
        odd, even = _two_lags(x, chains, n, 2 * pair + 1)
        both = rho + (1.0 - (within - odd / size) / total)
        if pair == last or not both > 0.0:
            tau = -1.0 + 2.0 * tau + (rho if rho > 0.0 or both >= 0.0 else 0.0)
            break
        least = min(least, both)
        tau += least
        rho = 1.0 - (within - even / size) / total
    if math.isnan(tau):
        return math.nan
    return size / max(tau, 1.0 / math.log10(size))


@kernel(error_model="numpy")
def _ess(x: Any, chains: Any, most: Any, mean: Any) -> Any:
    """ESS of a series (n · chains,), which is overwritten."""
    if _is_constant(x):
        return float(x.size)
    n = x.size // chains
    within, between = _deviations(x, chains, n, mean)
    return effective_size(x, chains, n, within, between, most)


@kernel(error_model="numpy")
def _rhat(within: Any, between: Any, n: Any) -> Any:
    """R-hat, from the variance within chains and that of their means."""
    return math.sqrt((n * between / within + n - 1) / n)


@kernel
def _normal_scores(ordered: Any, place: Any, scores: Any, out: Any) -> None:
    """Scores of the ranks of values in order, from those of 1, 1.5, 2 and so on: equal values get that of their mean rank."""
    begin = 0
    while begin < ordered.size:
        end = begin + 1
        while end < ordered.size and ordered[end] == ordered[begin]:
            end += 1
        for k in range(begin, end):
            out[place[k]] = scores[begin + end - 1]
        begin = end


@kernel(error_model="numpy")
def judge(
    series: Any, order: Any, place: Any, chains: Any, scores: Any, tail_at: Any, tail_part: Any, most: Any, out: Any
) -> None:
    """R-hat, bulk and tail ESS, and the errors of mean and σ, into ``out`` (k, 5), of series (k, S) of so many chains.

    Parameters
    ----------
    order
        What sorts each series (k, S).
    scores
        Of the ranks 1, 1.5, 2, … of what the halves hold.
    tail_at, tail_part
        Where in the order the 5% and 95% quantiles lie: after so many values, and this part of the way to the next.
    most
        Lags to look at; an answer that needs more is :data:`UNFINISHED`.
    """
    size, halves = series.shape[1], 2 * chains
    used = scores.size // 2 + 1
    n = used // halves
    x, ordered, folded, means = np.empty(used), np.empty(used), np.empty(used), np.empty(halves)
    at, folded_at, of_tail = np.empty(used, np.int64), np.empty(used, np.int64), np.empty(2)
    for row in range(series.shape[0]):
        here, rank = series[row], order[row]
        count = 0
        for k in range(size):
            where = place[rank[k]]
            if where >= 0:
                ordered[count], at[count] = here[rank[k]], where
                count += 1
        _normal_scores(ordered, at, scores, x)
        is_constant = _is_constant(x)
        within, between = _deviations(x, halves, n, means)
        rhat = _rhat(within, between, n)
        out[row, 1] = float(used) if is_constant else effective_size(x, halves, n, within, between, most)
        # distances to the median, in order: from the middle outwards, the nearer of the two sides first
        low, high = used // 2 - 1, used // 2
        median = 0.5 * (ordered[low] + ordered[high])
        for k in range(used):
            if high == used or (low >= 0 and median - ordered[low] < ordered[high] - median):
                folded[k], folded_at[k] = median - ordered[low], at[low]
                low -= 1
            else:
                folded[k], folded_at[k] = ordered[high] - median, at[high]
                high += 1
        _normal_scores(folded, folded_at, scores, x)
        within, between = _deviations(x, halves, n, means)
        other = _rhat(within, between, n)
        out[row, 0] = other if math.isnan(other) or other > rhat else rhat
        for tail in range(2):
            a = here[rank[tail_at[tail]]]
            b = here[rank[min(tail_at[tail] + 1, size - 1)]]
            part = tail_part[tail]
            bound = a + (b - a) * part if part < 0.5 else b - (b - a) * (1.0 - part)
            for k in range(used):
                x[at[k]] = 1.0 if ordered[k] <= bound else 0.0
            of_tail[tail] = _ess(x, halves, most, means)
        out[row, 2] = min(of_tail[0], of_tail[1])
        mean = square = fourth = 0.0
        for k in range(size):
            mean += here[k]
        mean /= size
        for k in range(size):
            if place[k] >= 0:
                x[place[k]] = here[k]
            square += (here[k] - mean) ** 2
        ess = _ess(x, halves, most, means)
        out[row, 3] = math.sqrt(square / (size - 1) / ess) if ess > 0.0 else ess
        square /= size
        for k in range(size):
            y = (here[k] - mean) ** 2
            if place[k] >= 0:
                x[place[k]] = y
            fourth += (y - square) ** 2
        ess = _ess(x, halves, most, means)
        out[row, 4] = math.sqrt(fourth / size) / math.sqrt(ess * square) / 2.0 if ess > 0.0 else ess


@kernel(error_model="numpy")
def judge_spread(x: Any, axes: Any, place: Any, chains: Any, most: Any, out: Any) -> None:
    """σ per axis, root mean square over some of the axes, and its error, into ``out`` (rows, 2), of series (rows, 6, S).

    ``most`` as in :func:`judge`.
    """
    size, used = x.shape[2], 0
    for k in range(size):
        used += place[k] >= 0
    square, halves, means = np.empty(size), np.empty(used), np.empty(2 * chains)
    for row in range(x.shape[0]):
        square[:] = 0.0
        for a in axes:
            here, mean = x[row, a], 0.0
            for k in range(size):
                mean += here[k]
            mean /= size
            for k in range(size):
                square[k] += (here[k] - mean) ** 2 / axes.size
        mean = fourth = 0.0
        for k in range(size):
            mean += square[k]
        mean /= size
        for k in range(size):
            fourth += (square[k] - mean) ** 2
            if place[k] >= 0:
                halves[place[k]] = square[k]
        ess = _ess(halves, 2 * chains, most, means)
        out[row, 0] = math.sqrt(mean)
        out[row, 1] = math.sqrt(fourth / size) / math.sqrt(ess * mean) / 2.0 if ess > 0.0 else ess
