"""One experiment: draw a graph with its truth, fit it as a user would, and see where the truth lies among the draws."""

from __future__ import annotations

import math
import tempfile
import time
import zlib
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Literal

import numpy as np
from scipy import stats

from tempose._support import streams
from tempose._typing import Array, Index
from tempose.analysis.diagnostics import COORDINATES, FEWEST_DRAWS, ess_bulk
from tempose.analysis.regions import probability_within, squared_distance
from tempose.errors import TemposeError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.options import SolveOptions
from tempose.sampling.draws import Draws
from tempose.simulation.measuring import with_world
from tempose.solution import Solution
from tempose.solver import solve
from tempose.studies.calibration.settings import Case, Setting, draw_case
from tempose.studies.store import Row

KEPT = 99  # draws the truth is ranked among: the levels 50, 80 and 95 % are then whole ranks
FIRST_DRAWS = 300
MOST_DRAWS = 20_000
MOST_PAIRS = 6
WORLD = -1  # in place of a node: the world frame

GROUPS = {
    "U": "U",
    **{f"node {c}": "node" for c in COORDINATES},
    **{f"pair {c}": "pair" for c in COORDINATES},
    "node distance": "distance",
    "pair distance": "distance",
    **{f"landmark {c}": "landmark" for c in COORDINATES[3:]},
    "landmark distance": "landmark",
    "χ²": "fit",
    "edge": "fit",
}
"""The group of each quantity that is ranked: those of a group are drawn alike."""
QUANTITIES = tuple(GROUPS)
"""What is ranked, one number per graph each: U, the six coordinates of a random node (relative to the gauge node, or in
the world if that means something) and of a random pair that was not measured, and the Mahalanobis distance of both. In the
plane the three coordinates that there are; the position of a random landmark; and where noise is small the p-values of χ² and
of a random edge against the rest, for two more settings of the same test."""


@dataclass(frozen=True)
class FitRow:
    """What came of one graph. All ranks are as shares in [0, 1]: uniform if the draws come from the posterior.

    Attributes
    ----------
    setting, graph
        Name of the setting and number of the graph in it.
    status
        ``ranked``; ``correlated`` if there were fewer than :data:`KEPT` nearly independent draws among
        :data:`MOST_DRAWS`; ``failed`` if there are no draws.
    sampler
        That drew.
    draws, thin, kept
        Draws made, the share that is nearly independent (1 in ``thin``), and how many of these were ranked.
    ranks
        By name of :data:`QUANTITIES`.
    nodes, pairs
        Rank of the distance of every node, and of up to :data:`MOST_PAIRS` unmeasured pairs.
    nodes_laplace, pairs_laplace
        Probability that the Gaussian approximation gives to a smaller distance; ``None`` where there is none.
    message
        Why it failed.
    """

    setting: str
    graph: int
    status: Literal["ranked", "correlated", "failed"]
    sampler: str = ""
    draws: int = 0
    thin: int = 0
    kept: int = 0
    seconds: float = 0.0
    ranks: dict[str, float] = field(default_factory=dict)
    nodes: list[float] = field(default_factory=list)
    pairs: list[float] = field(default_factory=list)
    nodes_laplace: list[float | None] = field(default_factory=list)
    pairs_laplace: list[float | None] = field(default_factory=list)
    message: str = ""

    def found(self) -> Row:
        """All but which graph it was, as plain values."""
        return {name: value for name, value in asdict(self).items() if name not in ("setting", "graph")}

    @classmethod
    def of_row(cls, setting: str, row: Row) -> FitRow:
        """From what :meth:`found` said, with the number of the ``graph``; other columns do not matter."""
        known = {one.name for one in fields(cls)} - {"setting"}
        return cls(setting, **{name: value for name, value in row.items() if name in known})


def fit(setting: Setting, graph: int, options: SolveOptions, seed: int) -> FitRow:
    """Run the experiment ``graph`` of a setting: a function of its arguments alone."""
    began = time.perf_counter()
    rng = streams.generator(seed, "calibrate", (zlib.crc32(setting.name.encode()) << 32) | graph)
    case = draw_case(setting, rng)
    options = replace(options, seed=int(rng.integers(1 << 32)))
    frames = _Frames.choose(case, setting.has_priors or case.graph.world is not None, rng)
    try:
        row = _rank(case, frames, options, rng, setting.checks_fit)
    except TemposeError as error:
        row = FitRow("", 0, "failed", message=str(error))
    return replace(row, setting=setting.name, graph=graph, seconds=round(time.perf_counter() - began, 4))


@dataclass(frozen=True, eq=False)
class _Frames:
    """Rows ``(a, b)`` of relative poses to look at: all nodes, then some unmeasured pairs; and one of each to rank.

    ``axes`` are the coordinates that each of them has; ``landmark`` is −1 if there is none.
    """

    pairs: Index
    n_nodes: int
    node: int
    pair: int
    landmark: int
    axes: tuple[Index, ...]

    @classmethod
    def choose(cls, case: Case, absolute: bool, rng: np.random.Generator) -> _Frames:
        graph, n, anchor = case.graph, len(case.truth), int(case.graph.anchors[0])
        nodes = [(WORLD, b) for b in range(n)] if absolute else [(anchor, b) for b in range(n) if b != anchor]
        others = unmeasured_pairs(graph)
        others = rng.permutation(others)[:MOST_PAIRS]
        pairs = np.concatenate([np.array(nodes), others])
        seen = graph.is_landmark[pairs[:, 1]]
        axes = tuple(graph.axes[graph.axes >= 3] if landmark else graph.axes for landmark in seen)
        poses, points = np.flatnonzero(~seen[: len(nodes)]), np.flatnonzero(seen[: len(nodes)])
        node = int(poses[rng.integers(len(poses))])
        landmark = int(points[rng.integers(len(points))]) if len(points) else -1
        return cls(pairs, len(nodes), node, len(nodes), landmark, axes)


def unmeasured_pairs(graph: PoseGraph) -> Index:
    """Pairs (k, 2) of rows of poses that no edge joins; all pairs if there are none."""
    poses = np.flatnonzero(~graph.is_landmark[: len(graph.reported)])
    low, high = (poses[k] for k in np.triu_indices(len(poses), 1))
    joined = set(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True))
    free = np.array([(a, b) not in joined and (b, a) not in joined for a, b in zip(low, high, strict=True)])
    pairs = np.stack([low, high], axis=1)
    return pairs[free] if free.any() else pairs


def _rank(
    case: Case, frames: _Frames, options: SolveOptions, rng: np.random.Generator, checks_fit: bool = False
) -> FitRow:
    wanted = FIRST_DRAWS
    looked_at = frames.pairs[[frames.node, frames.pair]]
    moving = np.concatenate([frames.axes[frames.node], 6 + frames.axes[frames.pair]])
    with tempfile.TemporaryDirectory(prefix="tempose-") as home:
        while True:
            solution = solve(case.graph, options, priors=case.priors, directory=home, draws=wanted, analyse=False)
            draws, estimate = solution.draws, solution.estimate
            assert draws is not None
            poses, energy = _stacked(draws)
            few = _coordinates(poses[..., :4], poses[..., 4:], estimate, looked_at)
            few = few.reshape(*energy.shape, -1)[..., moving]
            thin = _thinning(np.concatenate([energy[..., None], few], axis=-1))
            kept = energy.size // thin
            if kept >= KEPT or wanted >= MOST_DRAWS:
                break
            wanted = min(MOST_DRAWS, max(2 * wanted, math.ceil(1.2 * KEPT * thin)))
        chosen = _spread_out(energy.shape, thin)
        poses, energy = poses.reshape(-1, *poses.shape[2:])[chosen], energy.reshape(-1)[chosen]
        posterior = solution.posterior
        x = _coordinates(poses[..., :4], poses[..., 4:], estimate, frames.pairs)
        true = _coordinates(case.truth.wxyz, case.truth.position, estimate, frames.pairs)
        laplace = _laplace_levels(solution.laplace, case.graph, frames, true)
        fit_ranks = _fit_ranks(solution, rng) if checks_fit else {}

    axes = frames.axes
    distance = [_distance_rank(true[k, axes[k]], x[:, k, axes[k]], rng) for k in range(len(frames.pairs))]
    ranks = {"U": _share(posterior.potential(with_world(posterior.graph, case.truth)), energy, rng)}
    for name, at in (("node", frames.node), ("pair", frames.pair), ("landmark", frames.landmark)):
        if at >= 0:
            for k in axes[at]:
                ranks[f"{name} {COORDINATES[k]}"] = _share(true[at, k], x[:, at, k], rng)
            ranks[f"{name} distance"] = distance[at]
    ranks |= fit_ranks
    n = frames.n_nodes
    return FitRow(
        "",
        0,
        "ranked" if kept >= KEPT else "correlated",
        draws.sampler,
        draws.n_draws,
        thin,
        len(energy),
        ranks=ranks,
        nodes=distance[:n],
        pairs=distance[n:],
        nodes_laplace=laplace[:n],
        pairs_laplace=laplace[n:],
    )


def _fit_ranks(solution: Solution, rng: np.random.Generator) -> dict[str, float]:
    """p-values of χ² and of a random edge that something checks."""
    graph, checks = solution.graph, solution.edge_checks
    spare = float(graph.freedom.sum()) - Curvature(solution.posterior).dimension
    ranks = {"χ²": float(stats.chi2.sf(2.0 * solution.potential, spare))}
    rows = np.flatnonzero(checks.freedom > 0)
    if len(rows):
        ranks["edge"] = float(checks.p_value[rows[rng.integers(len(rows))]])
    return ranks


def _stacked(draws: Draws) -> tuple[Array, Array]:
    """Draws (chains, draws, n, 7) and U (chains, draws), as many of each chain as the shortest has: some have one more."""
    length = min(len(a) for a in draws.arrays)
    return np.stack([np.asarray(a[:length]) for a in draws.arrays]), np.stack([e[:length] for e in draws.energies])


def _coordinates(wxyz: Array, position: Array, reference: Poses, pairs: Index) -> Array:
    """Relative poses ``a_from_b`` (..., pairs, 6) about those of a reference: rotation vector and translation in a's frame.

    Where a is :data:`WORLD`, b's own pose in the world.
    """
    world = np.concatenate([quat.IDENTITY, np.zeros(3)])

    def relative(wxyz: Array, position: Array) -> tuple[Array, Array]:
        poses = np.concatenate([wxyz, position], axis=-1)
        poses = np.concatenate([poses, np.broadcast_to(world, (*poses.shape[:-2], 1, 7))], axis=-2)  # row −1
        a, b = poses[..., pairs[:, 0], :], poses[..., pairs[:, 1], :]
        return se3.a_from_b((a[..., :4], a[..., 4:]), (b[..., :4], b[..., 4:]))

    q, t = relative(wxyz, position)
    q_hat, t_hat = relative(reference.wxyz, reference.position)
    return np.concatenate([quat.log(quat.multiply(q, quat.conjugate(q_hat))), t - t_hat], axis=-1)


def _thinning(series: Array) -> int:
    """How many draws (chains, draws, quantities) apart they are nearly independent, by the worst effective sample size."""
    chains, length, _ = series.shape
    if length < FEWEST_DRAWS or not np.all(np.isfinite(series)):
        return 1
    worst = float(np.nanmin(ess_bulk(np.moveaxis(series, -1, 0))))
    return max(1, int(np.ceil(chains * length / worst - 0.5)))


def _spread_out(shape: tuple[int, ...], thin: int) -> Index:
    """At most :data:`KEPT` of the draws (chains, draws), as rows of the flat array: every ``thin``-th of each chain."""
    number = np.arange(math.prod(shape)).reshape(shape)[:, ::-1][:, ::thin].reshape(-1)
    if len(number) <= KEPT:
        return number
    return number[np.linspace(0, len(number) - 1, KEPT).round().astype(np.int64)]


def _share(truth: float, draws: Array, rng: np.random.Generator) -> float:
    """Where the truth lies among draws, in (0, 1): uniform if all are exchangeable. Ties are broken at random."""
    below, tied = int(np.sum(draws < truth)), int(np.sum(draws == truth))
    return float((below + (tied + 1) * rng.random()) / (len(draws) + 1))


def _distance_rank(truth: Array, draws: Array, rng: np.random.Generator) -> float:
    """Rank of the truth's Mahalanobis distance; mean and covariance treat the truth and the draws alike.

    So the truth is exchangeable with the draws, and the region of the ``p(L + 1)`` least distances holds it with
    probability exactly p.
    """
    pool = np.concatenate([truth[None], draws])
    pool = pool - pool.mean(axis=0)
    if not np.all(np.isfinite(pool)):
        return 1.0
    inverse = np.linalg.pinv(pool.T @ pool / len(pool), hermitian=True)
    squared = np.einsum("sa,ab,sb->s", pool, inverse, pool)
    return _share(squared[0], squared[1:], rng)


def _laplace_levels(laplace: Laplace | None, graph: PoseGraph, frames: _Frames, true: Array) -> list[float | None]:
    """Least probability of a Gaussian region that holds the truth: ``P(χ²_d ≤ eᵀ Σ⁻¹ e)``, of the d coordinates there are."""
    if laplace is None:
        return [None] * len(frames.pairs)
    levels: list[float | None] = []
    for (a, b), error, axes in zip(frames.pairs.tolist(), true, frames.axes, strict=True):
        ids = graph.node_ids
        covariance = (
            laplace.joint(ids[b], ids[b])[:6, :6] if a == WORLD else laplace.relative(ids[a], ids[b]).covariance
        )
        distance = squared_distance(error[axes], covariance[np.ix_(axes, axes)])
        levels.append(float(probability_within(distance, len(axes))))
    return levels
