r"""Whether edges that meet share their errors, and error bars for edges that do.

A scan that is bent is bent in every registration of it. The error that is in all edges of a node moves the node, and no
residual shows it; twenty edges then make a node no surer than a few. What residuals do show is that edges that meet err alike
where their other ends are joined too, in the corners of triangles. With :math:`d_{k,a}` the displacement of node a, in units of σ,
that would make edge k fit, times the root of the edge's weight,

.. math::  T = \sum_{\text{corners}} d_{k,a}^T d_{l,a} \Big/ \sum_{k,a} |d_{k,a}|^2 .

It is compared with that of errors as long as the residuals, but of random directions, projected as the fit projects errors:
long ones, as heavy tails have, count as they are. The p-value is that of a Monte Carlo test for too large a T.

If errors are shared, neither a sharp core nor many edges make a node sure. The error bars are then those of the ordinary problem of
the kept edges, its noise the root mean square of their residuals, or that of the fit if it is larger. Where ids are an order in
time, the edges between two places, each a stretch of the way, count as one, as they do in verdicts
(:mod:`tempose.outliers.clusters`), and links between consecutive ids count as they are; else :data:`EDGES_AS_ONE` count as one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.prediction import whitened_residuals
from tempose.outliers.clusters import stretch
from tempose.outliers.correlation import Projection
from tempose.outliers.noise import Parameters
from tempose.outliers.search.skeleton import skeleton
from tempose.outliers.sequence import Sequence

# chosen on: 3DMatch, right edges of all seven scenes; 5.4 puts 95% of the true nodes into the 95% regions
EDGES_AS_ONE = 5.0
"""So many edges that share their errors count as one where ids are no order in time."""
DRAWS = 199  # the least p-value is then 0.005
SIGNIFICANT = 0.01
_KEPT = 0.5  # probability of moving the poses, of edges that the noise is taken from
_LEAST_LEFT = 0.2  # share of the numbers that residuals show, at least: where poses use up all, they show nothing
_A_LITTLE = 1e-6  # weight of the others, so that no node is free
_FEWEST = 30  # corners of triangles worth testing
_MOST = 20_000  # corners that are looked at
_AT_ONCE = 25  # draws projected together


@dataclass(frozen=True)
class SharedErrors:
    """How edges that meet in corners of triangles err together.

    Attributes
    ----------
    corners
        How many pairs of edges were compared.
    correlation
        T less its mean for independent errors.
    p_value
        That independent errors give as large a T.
    """

    corners: int
    correlation: float
    p_value: float

    @property
    def is_shared(self) -> bool:
        """Whether independent errors are ruled out."""
        return self.p_value <= SIGNIFICANT


def corners_of(graph: PoseGraph, kept: Mask, rng: np.random.Generator) -> Index:
    """Pairs of kept edges that meet and whose other ends are joined: rows (c, 5) of node, edge, its end there (0: i), edge, end.

    Of a graph with many, those at randomly chosen nodes.
    """
    motions = ~graph.is_absolute & ~graph.is_landmark[graph.edge_i] & ~graph.is_landmark[graph.edge_j]
    usable = np.flatnonzero(motions & kept)
    i, j = graph.edge_i[usable], graph.edge_j[usable]
    node, other = np.concatenate([i, j]), np.concatenate([j, i])
    edge, end = np.tile(usable, 2), np.repeat([0, 1], len(usable))
    joined = np.unique(node * graph.n_nodes + other)
    order = np.argsort(node, kind="stable")
    start = np.searchsorted(node[order], np.arange(graph.n_nodes + 1))
    found, count = [np.zeros((0, 5), dtype=np.int64)], 0
    for a in rng.permutation(graph.n_nodes).tolist():
        here = order[start[a] : start[a + 1]]
        first, second = np.triu_indices(len(here), 1)
        b, c = other[here[first]], other[here[second]]
        pair = b * graph.n_nodes + c
        near = joined[np.minimum(np.searchsorted(joined, pair), len(joined) - 1)] == pair
        one, two = here[first[near]], here[second[near]]
        found.append(np.stack([np.full(len(one), a), edge[one], end[one], edge[two], end[two]], axis=1))
        count += len(one)
        if count >= _MOST:
            break
    return np.concatenate(found)[:_MOST]


def shared_errors(
    posterior: Posterior, estimate: Poses, rng: np.random.Generator, *, draws: int = DRAWS
) -> SharedErrors | None:
    """Test the edges of a graph at its optimum; ``None`` if there are too few triangles.

    Edges count as a robust likelihood weights them.
    """
    graph = posterior.graph
    kept = _kept(posterior, estimate)
    corners = corners_of(graph, kept, rng)
    if len(corners) < _FEWEST:
        return None
    weight = np.ones(graph.n_edges)
    if posterior.likelihood is not None:
        weight = np.maximum(posterior.likelihood.weight(posterior.energies(estimate)), _A_LITTLE)
    fit = Projection.at(graph, estimate, weight)
    if fit is None:
        return None
    displaced = _Displacements.of(fit, weight, corners, kept)
    length = [np.linalg.norm(fit.observed[:, part], axis=1)[:, None, None] for part in (slice(0, 3), slice(3, 6))]
    null = []
    for first in range(0, draws, _AT_ONCE):
        noise = rng.standard_normal((graph.n_edges, 6, min(_AT_ONCE, draws - first)))
        noise = np.einsum("mab,mbk->mak", fit.range, noise)
        for part, long in zip((slice(0, 3), slice(3, 6)), length, strict=True):
            noise[:, part] *= long / np.maximum(np.linalg.norm(noise[:, part], axis=1, keepdims=True), 1e-300)
        null.append(displaced.alike(fit.of(noise)))
    drawn = np.concatenate(null)
    observed = float(displaced.alike(fit.observed[:, :, None])[0])
    p_value = float((1 + np.sum(drawn >= observed)) / (1 + draws))
    return SharedErrors(len(corners), observed - float(drawn.mean()), p_value)


@dataclass(frozen=True, eq=False)
class _Displacements:
    """How far each end of every edge would have to move to fit it, in units of σ, times the root of the edge's weight."""

    at: Array  # (2, m, 6, 6): for i and for j
    corners: Index
    kept: Mask

    @classmethod
    def of(cls, fit: Projection, weight: Array, corners: Index, kept: Mask) -> _Displacements:
        sigma_rot, sigma_trans = fit.graph.median_sigmas
        unit = np.repeat(np.nan_to_num([1.0 / sigma_rot, 1.0 / sigma_trans]), 3)
        ends = [np.linalg.pinv(K, rcond=1e-9) for K in (fit.of_i, fit.of_j)]  # K has the root of the weight already
        return cls(weight[:, None, None] ** 0.5 * unit[:, None] * np.stack(ends), corners, kept)

    def alike(self, residual: Array) -> Array:
        """T (k,) of residuals (m, 6, k)."""
        moved = self.at @ residual
        _, one, at_one, two, at_two = self.corners.T
        size = np.sum(moved[:, self.kept] ** 2, axis=(0, 1, 2))
        together = np.einsum("cak,cak->k", moved[at_one, one], moved[at_two, two])
        return np.asarray(together / np.maximum(size, 1e-300))


def _kept(posterior: Posterior, estimate: Poses) -> Mask:
    if posterior.likelihood is None:
        return np.ones(posterior.graph.n_edges, dtype=bool)
    return np.asarray(posterior.likelihood.moving_probability(posterior.energies(estimate)) > _KEPT)


def shared_laplace(posterior: Posterior, estimate: Poses, beta: float = 1.0) -> Laplace | None:
    """Gaussian approximation for edges that share their errors; ``None`` if the kept edges do not hold the nodes.

    Only motions between poses share errors: fixes, attitudes and sightings of landmarks keep their noise.
    """
    stated, kept = posterior.graph, _kept(posterior, estimate)
    motions = kept & ~stated.is_absolute & ~stated.is_landmark[stated.edge_i]
    weight = np.where(kept, np.where(motions, independent_share(stated, motions), 1.0), _A_LITTLE)
    graph = _reweighted(stated, weight)
    numbers = [one * weight * kept for one in stated.ranks]  # those that are independent
    total = float(sum(one.sum() for one in numbers))
    left = (
        1.0 - Curvature(Posterior(graph)).determined(estimate) / total if total else 0.0
    )  # of each of them, by residuals
    squares = weight[:, None] * whitened_residuals(stated, estimate)[0] ** 2
    scales = []
    for count, part in zip(numbers, (slice(0, 3), slice(3, 6)), strict=True):
        expected = max(left, _LEAST_LEFT) * float(count[motions].sum())
        shown = float(np.sqrt(squares[motions, part].sum() / expected)) if expected >= 1.0 else 1.0
        scales.append(max(shown, 1.0))  # a few residuals may be small by chance: no reason to be surer than the fit
    curvature = Curvature(Posterior(Parameters(scales[0], scales[1], 1.0, np.inf, 1.0).graph(graph)))
    try:
        factor = curvature.factor(estimate.wxyz, estimate.position, exact=False)
    except NotPositiveDefiniteError:
        return None
    return Laplace(curvature, estimate, beta, factor)


def independent_share(graph: PoseGraph, kept: Mask) -> Array:
    """How much each edge (m,) has to say if edges share errors, among those ``kept`` (m,): 1, or its share of a place."""
    bones = skeleton(graph)
    sequence = Sequence.of(bones.graph)
    if sequence is None:
        return np.full(graph.n_edges, 1.0 / EDGES_AS_ONE)
    loops = np.flatnonzero(kept[bones.edges] & ~sequence.is_link)
    share = np.ones(bones.graph.n_edges)
    place = stretch(bones.graph.n_nodes)
    ends = np.stack([sequence.rank[end[loops]] // place for end in (sequence.earlier, sequence.later)])
    _, of_edge, count = np.unique(ends, axis=1, return_inverse=True, return_counts=True)
    share[loops] = 1.0 / count[of_edge.reshape(-1)]
    return bones.spread(share, 1.0)


def _reweighted(graph: PoseGraph, weight: Array) -> PoseGraph:
    return replace(
        graph,
        concentration=_weighted(graph.concentration, weight),
        translation_precision=_weighted(graph.translation_precision, weight),
    )


def _weighted(value: Array, weight: Array) -> Array:
    return np.asarray(value * weight.reshape(-1, *(1,) * (value.ndim - 1)))
