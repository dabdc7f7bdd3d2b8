r"""Whether the errors of consecutive edges are independent of each other.

Odometry errs with a memory: a bias of the gyroscope, a wheel that is too small. Then errors add up along the chain in proportion to
the number n of edges, not to √n, and noise that was estimated from short loops is too small over long ones. In units of their σ the
residuals at the optimum are, to first order, a projection of the errors ε,

.. math::  \hat r = (I - K (K^T K)^{-1} K^T)\, \varepsilon ,

K the derivatives by the poses. Neighbours in :math:`\hat r` are alike even if those in ε are independent, as a loop spreads what
it does not close over all of its edges. So their sums over L consecutive edges,

.. math::  T_L = \sum_k \Big| \sum_{l < L} \hat r_{k + l} \Big|^2 \Big/ \sum_k |\hat r_k|^2 ,

for rotations and for translations and for L = 2, 4, 8, …, are compared with those of drawn independent ε, projected in the
same way: one factorisation, and a solve per draw. The largest excess of log T, in standard deviations, among the lengths is
ranked among those of the draws; its p-value is that of a Monte Carlo test, exactly uniform for independent Gaussian errors as far
as the problem is linear. A small one is confirmed by more draws: only at most 2 in 1000 count.
How many times larger than for independent errors √T is says how much too small σ is over such a distance,
at least: the fit takes its share of what errors add up to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.model.graph import PoseGraph
from tempose.model.order import recorded, steps_apart
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace, edge_jacobians
from tempose.optimum.prediction import Predictions, predictions, whitened_residuals

DRAWS = 199  # the least p-value is then 0.005
MANY = 999  # draws in all, if the first find a small p-value
_SMALL = 0.02
SIGNIFICANT = 0.002  # noise is widened on account of it, so that one false alarm in a hundred graphs would be too many
NOTABLE = 1.1  # factor of σ below which there is nothing to say: estimated noise is seldom known better
_CLEAR = 2.0  # standard deviations of independent errors: lengths that count for the size of the effect
_SHORTEST = 32  # edges of a chain worth testing
_AT_ONCE = 25  # draws solved together
_NEARLY, _MOST_ROUNDS = 0.01, 12  # of what is left out: how exactly it is told, and rounds of conjugate gradients
_A_LITTLE = 1e-6  # of an edge that was rejected, so that no node is free
_PARTS = ("rotations", "translations")


@dataclass(frozen=True, eq=False)
class ChainCorrelation:
    """How sums of consecutive residuals compare with those of independent errors.

    Attributes
    ----------
    edges
        How many edges the chain has.
    lengths
        Numbers L (k,) of consecutive edges that are summed.
    ratio
        Observed :math:`T_L` over its mean for independent errors (2, k): of rotations, of translations. NaN if there are none.
    excess
        The same of log T, in standard deviations of independent errors (2, k).
    p_value
        Of the largest excess.
    """

    edges: int
    lengths: Index
    ratio: Array
    excess: Array
    p_value: float

    @property
    def is_correlated(self) -> bool:
        """Whether independent errors are ruled out."""
        return self.p_value <= SIGNIFICANT

    @property
    def worst(self) -> tuple[str, int, float]:
        """Of which part and over how many edges σ is too small by the largest factor, and that factor; of what is no chance."""
        ratio = np.where(self.excess > min(_CLEAR, float(np.nanmax(self.excess))) - 1e-9, self.ratio, -np.inf)
        part, k = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        return _PARTS[int(part)], int(self.lengths[k]), float(np.sqrt(self.ratio[part, k]))

    @property
    def widening(self) -> tuple[float, float]:
        """How many times too small σ of rotations and of translations is over the length where it is so most; else 1."""
        if not self.is_correlated:
            return 1.0, 1.0
        clear = np.where(self.excess > _CLEAR, self.ratio, 1.0)  # NaN is not above anything
        rotations, translations = np.sqrt(clear.max(axis=1, initial=1.0)).tolist()
        return rotations if rotations >= NOTABLE else 1.0, translations if translations >= NOTABLE else 1.0


def chain_of(graph: PoseGraph) -> Index:
    """Edges (k,) between consecutive poses, in their order, one for each step; −1 where a step was not measured."""
    order = recorded(graph)
    links = np.flatnonzero(steps_apart(graph) == 1)
    if order is None or not len(links):
        return np.zeros(0, dtype=np.int64)
    step, first = np.unique(
        np.minimum(order.place[graph.edge_i[links]], order.place[graph.edge_j[links]]), return_index=True
    )
    return np.insert(links[first], np.flatnonzero(np.diff(step) > 1) + 1, -1)


def _forwards(graph: PoseGraph) -> Mask:
    """Which edges (m,) lead on in time."""
    order = recorded(graph)
    assert order is not None
    return np.asarray(order.place[graph.edge_j] > order.place[graph.edge_i])


def chain_correlation(
    posterior: Posterior, estimate: Poses, rng: np.random.Generator, *, draws: int = DRAWS
) -> ChainCorrelation | None:
    """Test the odometry of a graph at its optimum; ``None`` if there is no chain, or nothing checks it.

    Parameters
    ----------
    posterior
        With the noise that is to be judged. Edges count as a robust likelihood weights them.
    """
    graph = posterior.graph
    chain = chain_of(graph)
    if len(chain) < _SHORTEST:
        return None
    weight = np.ones(graph.n_edges)
    if posterior.likelihood is not None:
        weight = np.maximum(posterior.likelihood.weight(posterior.energies(estimate)), _A_LITTLE)
    residual = Projection.at(graph, estimate, weight)
    if residual is None:
        return None
    sign = np.where(_forwards(graph), 1.0, -1.0)[:, None, None]
    longest = max(len(chain) // 3, 2)
    lengths = 2 ** np.arange(1, int(np.log2(longest)) + 1)
    observed = _sums(sign * residual.observed[:, :, None], chain, lengths)

    def drawn(count: int) -> Array:
        """T (2, k, count) of independent errors."""
        sizes = [min(_AT_ONCE, count - k) for k in range(0, count, _AT_ONCE)]
        noise = (rng.standard_normal((graph.n_edges, 6, size)) for size in sizes)
        return np.concatenate([_sums(sign * residual.of(one), chain, lengths) for one in noise], axis=2)

    null = drawn(draws)
    excess, p_value = _excess(observed, null)
    if p_value <= _SMALL and draws < MANY:
        null = np.concatenate([null, drawn(MANY - draws)], axis=2)
        excess, p_value = _excess(observed, null)
    if np.all(np.isnan(excess)):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = observed[:, :, 0] / null.mean(axis=2)
    return ChainCorrelation(int(np.sum(chain >= 0)), lengths, ratio, excess, p_value)


def _excess(observed: Array, null: Array) -> tuple[Array, float]:
    """Excess (2, k) of log T (2, k, 1) over drawn ones (2, k, draws), in standard deviations; the p-value of the largest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        every = np.log(np.concatenate([observed, null], axis=2))
        center, spread = every.mean(axis=2, keepdims=True), every.std(axis=2, keepdims=True)
        excess = np.where(spread > 0.0, (every - center) / spread, np.nan)
    if np.all(np.isnan(excess)):
        return excess[:, :, 0], 1.0
    largest = np.nanmax(excess.reshape(-1, every.shape[2]), axis=0)
    return excess[:, :, 0], float(np.mean(largest >= largest[0]))


def weighted(graph: PoseGraph, weight: Array) -> PoseGraph:
    """The same with the information of edges multiplied by weights (m,)."""
    turns, moves = (
        one * weight.reshape(-1, *(1,) * (one.ndim - 1)) for one in (graph.concentration, graph.translation_precision)
    )
    return replace(graph, concentration=turns, translation_precision=moves)


@dataclass(frozen=True, eq=False)
class Projection:
    """Whitened residuals at the optimum, and what independent errors would leave there."""

    observed: Array  # (m, 6)
    graph: PoseGraph
    estimate: Poses
    curvature: Curvature
    factor: Factor
    of_i: Array  # (m, 6, 6) derivatives of the whitened residuals
    of_j: Array
    range: Array  # (m, 6, 6)

    @classmethod
    def at(cls, graph: PoseGraph, estimate: Poses, weight: Array) -> Projection | None:
        """In the ordinary problem of edges with weights (m,); ``None`` if that has no minimum."""
        posterior = Posterior(weighted(graph, weight))
        curvature = Curvature(posterior)
        try:
            factor = curvature.factor(estimate.wxyz, estimate.position, exact=False)
        except NotPositiveDefiniteError:
            return None
        observed, A, range_ = whitened_residuals(posterior.graph, estimate)
        Ji, Jj = edge_jacobians(graph, estimate)
        return cls(observed, graph, estimate, curvature, factor, A @ Ji, A @ Jj, range_)

    def predictions(self, weight: Array) -> Predictions:
        """What the others predict for every edge, the weights (m,) being those that the edges have here."""
        laplace = Laplace(self.curvature, self.estimate, 1.0, self.factor, exact=False)
        return predictions(self.graph, self.estimate, laplace.edge_covariances(), weight)

    def of(self, noise: Array) -> Array:
        """What the fit leaves (m, 6, k) of errors (m, 6, k)."""
        graph, noise = self.graph, np.einsum("mab,mbk->mak", self.range, noise)
        rhs = np.zeros((graph.n_nodes, 6, noise.shape[2]))
        np.add.at(rhs, graph.edge_i, np.einsum("mba,mbk->mak", self.of_i, noise))
        np.add.at(rhs, graph.edge_j, np.einsum("mba,mbk->mak", self.of_j, noise))
        moved = self.curvature.solve(self.factor, rhs)
        return np.asarray(noise - self.of_i @ moved[graph.edge_i] - self.of_j @ moved[graph.edge_j])

    def without(self, edges: Index, group: Index) -> Array:
        """Residuals (k, 6) of some edges if their group (k,), 0 … g − 1, were left out, to first order: ``(I − S)⁻¹ r``.

        S is the whitened covariance of what the group measures. By conjugate gradients, for all groups at once, to a hundredth;
        infinite where that is not reached: then hardly anything else checks the group.
        """
        graph, count = self.graph, int(group.max(initial=-1)) + 1
        i, j, of_i, of_j = graph.edge_i[edges], graph.edge_j[edges], self.of_i[edges], self.of_j[edges]

        def sums(a: Array, b: Array) -> Array:
            return np.asarray(np.bincount(group, np.sum(a * b, axis=1), count), dtype=float)

        def applied(x: Array) -> Array:
            """``(I − S) x``."""
            rhs = np.zeros((graph.n_nodes, count, 6))
            np.add.at(rhs, (i, group), np.einsum("kba,kb->ka", of_i, x))
            np.add.at(rhs, (j, group), np.einsum("kba,kb->ka", of_j, x))
            moved = self.curvature.solve(self.factor, np.swapaxes(rhs, 1, 2))
            back = np.einsum("kab,kb->ka", of_i, moved[i, :, group]) + np.einsum("kab,kb->ka", of_j, moved[j, :, group])
            return np.asarray(x - back)

        x, left = np.zeros((len(edges), 6)), self.observed[edges]
        direction, square = left, sums(left, left)
        enough = _NEARLY**2 * square
        for _ in range(_MOST_ROUNDS):
            if np.all(square <= enough):
                break
            image = applied(direction)
            bend = sums(direction, image)
            step = np.where((square > enough) & (bend > 0.0), square / np.where(bend > 0.0, bend, 1.0), 0.0)
            x, left = x + step[group, None] * direction, left - step[group, None] * image
            before, square = square, sums(left, left)
            direction = left + (square / np.where(before > 0.0, before, 1.0))[group, None] * direction
        return np.where((square <= enough)[group, None], x, np.inf)


def _sums(residual: Array, chain: Index, lengths: Index) -> Array:
    """T (2, len(lengths), k) of residuals (m, 6, k) along the chain; sums do not cross steps that were not measured."""
    r = np.where((chain >= 0)[:, None, None], residual[chain], 0.0)
    gaps = np.concatenate([[0], np.cumsum(chain < 0)])
    run = np.concatenate([np.zeros((1, *r.shape[1:])), np.cumsum(r, axis=0)])
    out = np.zeros((2, len(lengths), r.shape[2]))
    for part, axes in enumerate((slice(0, 3), slice(3, 6))):
        total = np.sum(r[:, axes] ** 2, axis=(0, 1))
        for n, length in enumerate(lengths.tolist()):
            whole = (gaps[length:] == gaps[:-length])[:, None, None]
            sums = np.where(whole, run[length:, axes] - run[:-length, axes], 0.0)
            out[part, n] = np.sum(sums**2, axis=(0, 1)) / np.where(total > 0.0, total, np.inf)
    return out
