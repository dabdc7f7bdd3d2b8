"""What studies of wrong edges share: scores of verdicts, regions of all explanations together, and the bare chain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.analysis.regions import inside, squared_distance, squared_radius
from tempose.errors import NotApplicable
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.relative import RelativeSummary
from tempose.optimum.laplace import Laplace
from tempose.optimum.trees import tree_poses
from tempose.simulation.wrong import is_odometry
from tempose.solution import Solution
from tempose.studies.coverage import central
from tempose.studies.store import Row

SURE = 0.9
"""Edges above this probability are those a user would act on."""
LEVEL = 0.95
"""Of the regions."""
BINS = np.array([0.0, 0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.98, 1.0])
NUMBERS = 6
"""Of a pose in space."""
LEAST = 1e-6
"""Probabilities are taken to be at least this far from 0 and 1 where their logarithm is scored: one infinity says nothing."""
PAIRS, MOST_NODES = 100, 300
"""Pairs of nodes whose relative pose is looked for in its region; and most nodes that are looked for from one of them."""


# ---------------------------------------------------------------------- verdicts


def scores(probability: Array, right: Mask) -> Row:
    """Of stated inlier probabilities (m,) against which edges (m,) are right.

    ``brier`` is the mean of (p − right)², ``log_score`` that of −log p or −log(1 − p); ``sure`` edges have p above
    :data:`SURE`. Edges are rejected at p ≤ 0.5: ``precision`` is the share of wrong ones among the rejected, ``recall`` the share
    of rejected ones among the wrong, ``right_kept`` the share of the right ones that are kept.
    """
    if not len(probability):
        return {"edges": 0}
    p = np.clip(probability, LEAST, 1.0 - LEAST)
    sure, rejected = probability > SURE, probability <= 0.5
    return {
        "edges": len(probability),
        "wrong": int(np.sum(~right)),
        "sure": int(sure.sum()),
        "sure_right": int(np.sum(right & sure)),
        "rejected": int(rejected.sum()),
        "brier": float(np.mean((probability - right) ** 2)),
        "log_score": float(-np.mean(np.log(np.where(right, p, 1.0 - p)))),
        "precision": _share(rejected & ~right, rejected),
        "recall": _share(rejected & ~right, ~right),
        "right_kept": _share(right & ~rejected, right),
    }


def _share(part: Mask, whole: Mask) -> float | None:
    return float(part.sum() / whole.sum()) if whole.any() else None


def binned(probability: Array, right: Mask) -> list[Row]:
    """For each of :data:`BINS` that has edges: how many, the sum of their probabilities, and how many are right."""
    which = np.clip(np.searchsorted(BINS, probability, side="right") - 1, 0, len(BINS) - 2)
    return [
        {
            "bin": k,
            "edges": int(np.sum(which == k)),
            "stated": float(probability[which == k].sum()),
            "right": int(right[which == k].sum()),
        }
        for k in np.unique(which).tolist()
    ]


def reliability(rows: Sequence[Row]) -> list[Row]:
    """Stated probability and share of right edges in each bin, over the rows of many graphs.

    ``right_se`` is the standard error of that share if the probabilities are right. The edges of a graph in a bin stand and fall
    together, as those of one cluster do, so it is from graph to graph: ``sqrt(Σ edges² p (1 − p)) / Σ edges``. What is seen from
    graph to graph would not do: where all of three are right there is no spread, and three in four would have been no surprise.
    """
    lines = []
    for k in range(len(BINS) - 1):
        here = [row for row in rows if row.get("bin") == k and row["edges"]]
        edges, stated = (np.array([row[name] for row in here], dtype=float) for name in ("edges", "stated"))
        if not len(here):
            continue
        total = float(edges.sum())
        lines.append(
            {
                "from": float(BINS[k]),
                "to": float(BINS[k + 1]),
                "graphs": len(here),
                "edges": int(total),
                "stated": float(stated.sum()) / total,
                "right": sum(row["right"] for row in here) / total,
                "right_se": math.sqrt(max(float(stated @ (edges - stated)), 0.0)) / total,
            }
        )
    return lines


# ---------------------------------------------------------------------- regions


def explained(solution: Solution) -> list[Laplace]:
    """The Gaussian regions of all explanations that a solution reports: together they are its answer."""
    found = [solution.analysis.explanation(k).error_bars for k in range(max(len(solution.explanations), 1))]
    return [one for one in found if one is not None]


def nearest_explanation(solution: Solution, truth: Poses, pairs: Sequence[tuple[int, int]]) -> Array:
    """Squared distances (k,) of the true relative poses of pairs of rows of the truth, each by the explanation nearest to it."""
    least = np.full(len(pairs), np.inf)
    for laplace in explained(solution):
        axes = laplace.curvature.posterior.graph.axes
        found = [_distance(laplace.relative(truth.ids[a], truth.ids[b]), truth, axes) for a, b in pairs]
        least = np.fmin(least, found)
    return least


def _distance(found: RelativeSummary, truth: Poses, axes: Index) -> float:
    a, b = truth.row(found.a), truth.row(found.b)
    q, t = se3.a_from_b((truth.wxyz[a], truth.position[a]), (truth.wxyz[b], truth.position[b]))
    error = np.concatenate([quat.log(quat.multiply(q, quat.conjugate(found.mean[0]))), t - found.mean[1]])
    return float(squared_distance(error[axes], found.covariance[np.ix_(axes, axes)]))


def random_pairs(n: int, rng: np.random.Generator, count: int = PAIRS) -> list[tuple[int, int]]:
    """Pairs of two different rows."""
    drawn = (rng.choice(n, 2, replace=False).tolist() for _ in range(count))
    return [(a, b) for a, b in drawn]


def coverage(solution: Solution, truth: Poses, rng: np.random.Generator) -> Row:
    """Share of true poses in the 95% regions: of random pairs seen from each other, and of all nodes seen from one.

    Both need no alignment; of a large graph :data:`MOST_NODES` nodes are looked at, evenly along the path. The one node is the
    one that the solution knows best, chosen without the truth: its poses relative to the others have the smallest covariances.
    ``pairs_spread`` is how many times too small error bars are: the median distance over the one that it should be.
    """
    if solution.analysis.error_bars is None:
        return {"pairs_95": None, "nodes_95": None, "pairs_spread": None}
    dimension = len(solution.graph.axes)
    pairs = nearest_explanation(solution, truth, random_pairs(len(truth), rng))
    nodes = node_distances(solution, truth)
    return {
        "pairs_95": float(np.mean(inside(pairs, LEVEL, dimension))),
        "nodes_95": float(np.mean(inside(nodes, LEVEL, dimension))),
        "pairs_spread": float(np.sqrt(np.median(pairs) / squared_radius(0.5, dimension))),
    }


def node_distances(solution: Solution, truth: Poses) -> Array:
    """Squared distances (k,) of the true poses of nodes, seen from the most central one, by the explanation nearest to each."""
    assert solution.analysis.error_bars is not None
    center = central(solution.analysis.error_bars, truth)
    seen = np.unique(np.linspace(0, len(truth) - 1, MOST_NODES).astype(np.int64)).tolist()
    return nearest_explanation(solution, truth, [(center, b) for b in seen if b != center])


def with_errors(solution: Solution, *, shared: bool) -> Solution:
    """The same solution with error bars for edges that share errors, or that do not."""
    return replace(solution, analysis=replace(solution.analysis, errors_shared=shared))


def shared_coverage(solution: Solution, truth: Poses, levels: Sequence[float]) -> Row:
    """Share of true nodes in regions of these levels, seen from the most central one, if edges share errors."""
    shared = with_errors(solution, shared=True)
    if shared.analysis.error_bars is None:
        return {}
    squared = node_distances(shared, truth)
    return {f"shared_{round(100 * level)}": float(np.mean(inside(squared, level, NUMBERS))) for level in levels}


# ---------------------------------------------------------------------- likelihoods, chains


def potential(posterior: Posterior, poses: Poses) -> float:
    """−log of the robust likelihood of all measurements, normalised, so that fits of different noise can be compared."""
    assert posterior.likelihood is not None
    return -float(posterior.likelihood.log_density(posterior.energies(poses)).sum())


def chain(graph: PoseGraph) -> Poses:
    """The spanning tree of the smallest gaps between ids, no solver at all: odometry where it was measured."""
    ids = graph.node_ids
    gap = [abs(int(ids[i]) - int(ids[j])) for i, j in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)]
    return tree_poses(graph, graph.spanning_tree(-np.array(gap, dtype=np.float64)))


def odometry(graph: PoseGraph) -> Mask:
    """Which edges (m,) are between consecutive ids; there must be some."""
    found = is_odometry(graph)
    if not found.any():
        raise NotApplicable("no edge joins consecutive ids")
    return found


def largest_part(graph: PoseGraph) -> PoseGraph:
    """The largest connected part."""
    return graph.subgraph(np.flatnonzero(graph.component == int(np.bincount(graph.component).argmax())))
