"""How many truths lie inside regions of stated probability: one rule for calibration and experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tempose._typing import Array
from tempose.analysis.regions import LEVELS, inside, squared_distance
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.poses import Poses
from tempose.model.relative import RelativeSummary
from tempose.optimum.laplace import Laplace
from tempose.studies.store import Row

__all__ = ["LEVELS", "Coverage", "central", "column", "coverage", "pair_distance", "rotations_within", "shares"]


@dataclass(frozen=True)
class Coverage:
    """Share of truths inside a region of probability ``level``, over all truths of all graphs.

    ``error`` is one standard error; the truths of a graph are not independent, so it is from graph to graph.
    """

    level: float
    share: float
    error: float
    graphs: int

    def __str__(self) -> str:
        return f"{100 * self.share:.1f} ± {100 * self.error:.1f}"


def coverage(by_graph: Sequence[ArrayLike], level: float) -> Coverage:
    """Coverage of the regions of probability ``level``.

    Parameters
    ----------
    by_graph
        Per graph, the probability of the smallest region that holds each truth: the rank of its distance among draws, or
        :func:`tempose.analysis.regions.probability_within`.
    level
        Of the regions.
    """
    graphs = [u for u in (np.asarray(one, float).reshape(-1) for one in by_graph) if len(u)]
    if not graphs:
        return Coverage(level, np.nan, np.nan, 0)
    held = np.array([np.mean(u < level) for u in graphs])
    n, count = len(held), sum(len(u) for u in graphs)
    floor = np.sqrt(level * (1.0 - level) / count)  # if all truths of a small run are inside, it still is not certain
    error = max(float(np.std(held, ddof=1) / np.sqrt(n)) if n > 1 else 0.0, floor)
    return Coverage(level, float(held.mean()), float(error), n)


def column(kind: str, level: float) -> str:
    """Name of the column with the share of a kind of truths inside, for instance ``position_95``."""
    return f"{kind}_{100 * level:.0f}"


def shares(squared: Mapping[str, Array], dimension: int) -> Row:
    """Shares inside the regions of all levels, by kind, and how many truths there are; NaN has no truth.

    Parameters
    ----------
    squared
        Squared distances of the truths of each kind.
    dimension
        Of an error.
    """
    known = {kind: distance[np.isfinite(distance)] for kind, distance in squared.items()}
    row: Row = {f"n_{kind}": len(distance) for kind, distance in known.items()}
    for kind, distance in known.items():
        for level in LEVELS:
            row[column(kind, level)] = float(np.mean(inside(distance, level, dimension))) if len(distance) else None
    return row


def rotations_within(laplace: Laplace, truth: Poses, level: float) -> float:
    """Share of the true rotations, seen from the most central node, inside their regions of probability ``level``."""
    a = truth.ids[central(laplace, truth)]
    found = [pair_distance(laplace.relative(a, b), truth, dimension=3) for b in truth.ids if b != a]
    return float(np.mean(inside(np.array(found), level, 3)))


def central(laplace: Laplace, truth: Poses) -> int:
    """Row of the most central node; of one in the middle of the truth, if the truth of that one is unknown."""
    weights = laplace.rotation_frame(0.0)  # nobody but the most central node is that near to it
    rows = np.array([laplace.poses.row(name) for name in truth.ids])
    return int(np.argmax(weights[rows])) if np.any(weights[rows]) else len(truth) // 2


def pair_distance(found: RelativeSummary, truth: Poses, *, dimension: int = 6) -> float:
    """Squared distance of the true relative pose of two nodes from its estimate.

    Parameters
    ----------
    found
        Pose of ``b`` seen from ``a``.
    dimension
        6, or 3 for the rotation alone.
    """
    wxyz, position, mean, covariance = truth.wxyz, truth.position, found.mean, found.covariance
    a, b = truth.row(found.a), truth.row(found.b)
    q, t = se3.a_from_b((wxyz[a], position[a]), (wxyz[b], position[b]))
    error = np.concatenate([quat.log(quat.multiply(q, quat.conjugate(mean[0]))), t - mean[1]])
    return float(squared_distance(error[:dimension], covariance[:dimension, :dimension]))
