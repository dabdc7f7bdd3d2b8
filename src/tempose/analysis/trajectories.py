"""Two trajectories of the same motion: which poses belong together by time, and how far their clocks are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tempose._typing import Array, Index
from tempose.errors import ArgumentError, GraphError, OptionError
from tempose.geometry import align
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses

UNITS = ("frames", "length", "degrees")
_TOLERANCE = 0.1  # of a length, for pairs that are to be that far apart: evo's
_MOST = 400  # poses that an offset is searched with
_WORSE = 1.5  # an offset is known if the errors grow by this factor within the search
_SHORTEST = 0.5  # share of the shorter trajectory that must overlap with the other


@dataclass(frozen=True, eq=False)
class Matched:
    """Poses that belong together, under one set of ids: those of the trajectory with fewer poses.

    Attributes
    ----------
    estimate, truth
        As many poses each.
    offset
        Seconds that were added to the times of the estimate.
    largest
        Largest difference in time of two that were matched, seconds.
    """

    estimate: Poses
    truth: Poses
    offset: float
    largest: float


def match_times(few: Array, many: Array, max_difference: float) -> tuple[Index, Index]:
    """For each time in ``few`` the nearest in ``many``, if it is at most ``max_difference`` away: rows of both."""
    order = np.argsort(many, kind="stable")
    sorted_ = many[order]
    after = np.minimum(np.searchsorted(sorted_, few, side="right"), len(many) - 1)
    before = np.maximum(after - 1, 0)
    nearest = np.where(np.abs(few - sorted_[before]) <= np.abs(sorted_[after] - few), before, after)
    rows = np.flatnonzero(np.abs(sorted_[nearest] - few) <= max_difference)
    return rows, order[nearest[rows]]


def match(
    estimate: Poses, times: Array, truth: Poses, true_times: Array, max_difference: float = 0.01, offset: float = 0.0
) -> Matched:
    """Poses of two trajectories that belong together by time, as evo matches them.

    Each pose of the trajectory with fewer poses goes with the nearest in time of the other.

    Parameters
    ----------
    estimate, truth
        The trajectories.
    times, true_times
        Their times (n,), (k,), seconds.
    max_difference
        Seconds that two times may differ.
    offset
        Seconds to add to the times of the estimate.
    """
    if not max_difference >= 0.0:
        raise OptionError(f"max_difference is {max_difference!r}; expected seconds, not negative")
    shifted = times + offset
    if len(truth) > len(estimate):
        rows, other = match_times(shifted, true_times, max_difference)
        pairs = rows, other
    else:
        other, rows = match_times(true_times, shifted, max_difference)
        pairs = rows, other
    if not len(rows):
        gap = _gap(shifted, true_times)
        raise GraphError(
            f"no two poses are within {max_difference:g} s of each other: {gap}; give a larger --max-difference, or "
            "--time-offset if the clocks differ"
        )
    few = estimate if len(truth) > len(estimate) else truth
    ids = [few.ids[k] for k in (pairs[0] if few is estimate else pairs[1])]
    one, two = (
        Poses(tuple(ids), poses.wxyz[k], poses.position[k]) for poses, k in zip((estimate, truth), pairs, strict=True)
    )
    return Matched(one, two, offset, float(np.max(np.abs(shifted[pairs[0]] - true_times[pairs[1]]))))


def _gap(a: Array, b: Array) -> str:
    spans = [f"{x.min():.3f} to {x.max():.3f} s" for x in (a, b)]
    return f"the estimate is from {spans[0]}, the truth from {spans[1]}"


def find_offset(
    estimate: Poses, times: Array, truth: Poses, true_times: Array, within: float = 10.0, with_scale: bool = False
) -> float:
    """Seconds to add to the times of the estimate so that both trajectories have the same shape.

    The offset that leaves the least root mean square distance between the estimate and the truth, interpolated at the shifted
    times, after the best rigid motion between them (with a scale, if asked for). Searched at the steps of the finer trajectory
    and then refined.

    Parameters
    ----------
    within
        Largest offset, seconds; beyond it, or where less than half of the shorter trajectory overlaps, nothing is tried.

    Raises
    ------
    ArgumentError
        If positions do not tell: the errors are about the same at all offsets, as on a straight line at constant speed.
    """
    if not 0.0 < within < np.inf:
        raise OptionError(f"the largest offset is {within!r}; expected seconds, above zero")
    order, true_order = np.argsort(times, kind="stable"), np.argsort(true_times, kind="stable")
    some = order[np.unique(np.linspace(0, len(order) - 1, min(_MOST, len(order))).astype(int))]
    t, p = times[some], estimate.position[some]
    at, there = true_times[true_order], truth.position[true_order]
    if len(t) < 3 or len(at) < 3 or np.ptp(at) == 0.0 or np.ptp(t) == 0.0:
        raise ArgumentError("an offset in time needs at least three poses of each trajectory")
    needed = _SHORTEST * min(np.ptp(t), np.ptp(at))

    def error(offset: float) -> float:
        inside = (t + offset >= at[0]) & (t + offset <= at[-1])
        if inside.sum() < 3 or np.ptp(t[inside]) < needed:
            return np.inf
        target = np.column_stack([np.interp(t[inside] + offset, at, axis) for axis in there.T])
        still = np.tile(quat.IDENTITY, (len(target), 1))
        fit = align((still, p[inside]), (still, target), "positions-sim3" if with_scale else "positions-se3")
        moved = fit.apply(still, p[inside])[1]
        return float(np.sqrt(np.mean(np.sum((moved - target) ** 2, axis=1))))

    step = min(float(np.median(np.diff(times[order]))), float(np.median(np.diff(at)))) or within / 100.0
    step = max(step, within / 1000.0)
    grid = np.arange(-np.ceil(within / step), np.ceil(within / step) + 1) * step
    errors = np.array([error(x) for x in grid])
    if not np.any(np.isfinite(errors)):
        raise ArgumentError(
            f"the trajectories do not overlap at any offset within {within:g} s: {_gap(times, true_times)}"
        )
    best = float(grid[np.argmin(errors)])
    low, high = best - step, best + step
    for _ in range(40):  # golden section
        a, b = high - 0.6180339887498949 * (high - low), low + 0.6180339887498949 * (high - low)
        low, high = (low, b) if error(a) < error(b) else (a, high)
    best = 0.5 * (low + high)
    least, most = error(best), float(np.max(errors[np.isfinite(errors)]))
    size = float(np.sqrt(np.mean(np.sum((p - p.mean(axis=0)) ** 2, axis=1))))
    if not most > max(_WORSE * least, 1e-6 * size):
        raise ArgumentError(
            f"positions do not tell the offset in time: they differ by {least:.3g} at the best and by {most:.3g} at the worst"
        )
    return best


def pairs_apart(poses: Poses, delta: float = 1.0, unit: str = "frames", all_pairs: bool = False) -> tuple[Index, Index]:
    """Rows of the first and the second pose of pairs that are ``delta`` apart, as evo chooses them.

    Parameters
    ----------
    poses
        In their order along the way.
    delta, unit
        How far: in ``frames`` (a whole number), as ``length`` of the path, or in ``degrees`` turned on the way.
    all_pairs
        Pairs that overlap, too; by default a pair begins where the one before it ends. By length: those within a tenth of it.
    """
    if unit not in UNITS:
        raise OptionError(f"unknown unit {unit!r}: choose one of {', '.join(UNITS)}")
    n = len(poses)
    if not 0.0 < delta < np.inf or (unit == "frames" and delta != int(delta)):
        raise OptionError(
            f"delta is {delta!r}; expected {'a whole number' if unit == 'frames' else 'a number'} above zero"
        )
    if unit == "frames":
        starts = np.arange(0, n, 1 if all_pairs else int(delta))
        first, second = starts, starts + int(delta)
        return first[second < n], second[second < n]
    if unit == "length":
        step = np.linalg.norm(np.diff(poses.position, axis=0), axis=1)
    else:
        if all_pairs:
            raise OptionError("all pairs are by frames or by length; leave one of the two out")
        step = np.radians(1.0) ** -1.0 * quat.angle_between(poses.wxyz[:-1], poses.wxyz[1:])
    if all_pairs:
        way = np.concatenate([[0.0], np.cumsum(step)])
        found = []
        for k in range(n - 1):
            apart = np.abs(way[k + 1 :] - way[k] - delta)
            nearest = int(np.argmin(apart))
            if apart[nearest] <= _TOLERANCE * delta:
                found.append((k, k + 1 + nearest))
    else:
        ends, so_far = [0], 0.0
        for k, length in enumerate(step.tolist(), start=1):
            so_far += length
            if so_far >= delta:
                ends.append(k)
                so_far = 0.0
        found = list(zip(ends, ends[1:], strict=False))
    rows = np.array(found, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]
