r"""From the chain outwards: loop closures are taken in as soon as what is already known predicts them.

Along a chain of odometry poses drift, but it is known by how much. Every loop closure is compared with its prediction, the
covariance of the drift included (:mod:`tempose.optimum.prediction`): it is right with log odds

.. math::

    \log\frac{\pi}{1 - \pi} + \log\frac{c}{o} - \mathrm{core}\left(\tfrac{z^2}{2 s^2}\right) - \tfrac12 \log\det(I + S) - d \log s,

s the factor of the stated noise that makes all of them together most probable. Of those that are right with a probability above
0.9 the ones that are predicted most narrowly are taken in, the poses are fitted again, and the drift is smaller by what they say.
A wrong one has the less room to hide the later it comes; one that turns out to be contradicted leaves again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from tempose._typing import Array, Mask
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import lowered
from tempose.optimum.prediction import Predictions, predictions
from tempose.outliers.sequence import Sequence

_TAIL = 4.0  # ν of the core: neither chains nor loop closures are as Gaussian as they are said to be
_SURE = math.log(9.0)  # log odds above which a loop closure is taken in
_CONTRADICTED = -3.0  # and below which it leaves
_AT_ONCE = 10  # loop closures, at least: or the better half of those that are sure
_ROUNDS = 60
_NOTHING = 1e-9  # weight of an edge that takes no part
_FACTORS = np.geomspace(1.0 / 40.0, 40.0, 75)  # of the stated noise
_STATED = math.log(10.0)  # σ of the logarithm of that factor, beforehand


@dataclass(frozen=True, eq=False)
class Grown:
    """Poses that the chain and the loop closures taken in agree on.

    Attributes
    ----------
    accepted
        Chain and loop closures that were taken in (m,).
    factor
        Of the stated noise.
    """

    poses: Poses
    accepted: Mask
    factor: float


def grow_from_chain(sequence: Sequence, own: Array | None = None) -> Grown:
    """Begin with the chain, which stays as it is, and take in what it predicts, round after round.

    Parameters
    ----------
    own
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others, which have an even chance.
    """
    graph, chain = sequence.graph, sequence.chain | sequence.is_link
    prior = np.full(graph.n_edges, 0.5) if own is None else np.clip(np.where(np.isnan(own), 0.5, own), 1e-6, 1.0 - 1e-6)
    likelihood = RobustLikelihood.of(graph, prior, tail=_TAIL, outlier_sigma=extent(sequence.chain_poses))
    pattern = Curvature(Posterior(graph)).symbolic
    poses, inside, factor = sequence.chain_poses, chain.copy(), 1.0
    for _ in range(_ROUNDS):
        poses, found = _predicted(graph, poses, inside, pattern)
        if found is None:
            break
        odds, factor = _log_odds(likelihood, found, ~chain)
        new = np.flatnonzero(~inside & (odds > _SURE))
        leaving = inside & ~chain & (odds < _CONTRADICTED)
        if not len(new) and not np.any(leaving):
            break
        new = new[np.argsort(found.log_spread[new], kind="stable")]
        inside[new[: max(_AT_ONCE, len(new) // 2)]] = True
        inside[leaving] = False
    return Grown(poses, inside, factor)


def extent(poses: Poses) -> float:
    """Spread per axis of the vectors between any two nodes: wrong loop closures join nodes that may be anywhere."""
    return math.sqrt(2.0 * float(np.mean(np.var(poses.position, axis=0)))) or 1.0


def _predicted(graph: PoseGraph, poses: Poses, inside: Mask, pattern: object) -> tuple[Poses, Predictions | None]:
    """The poses that some edges want, and what they predict for all; no predictions if they do not hold the graph."""
    weight = np.where(inside, 1.0, _NOTHING)

    def weighted(value: Array) -> Array:
        return value * weight.reshape(-1, *(1,) * (value.ndim - 1))

    curvature = Curvature(
        Posterior(
            replace(
                graph,
                concentration=weighted(graph.concentration),
                translation_precision=weighted(graph.translation_precision),
            )
        )
    )
    curvature.__dict__["symbolic"] = pattern
    poses = lowered(curvature, poses, max_steps=6)
    try:
        factor = curvature.factor(poses.wxyz, poses.position, exact=False)
    except NotPositiveDefiniteError:
        return poses, None
    sigma = Laplace(curvature, poses, 1.0, factor).edge_covariances()
    return poses, predictions(graph, poses, sigma, inside.astype(float))


def _log_odds(likelihood: RobustLikelihood, found: Predictions, loops: Mask) -> tuple[Array, float]:
    """Log odds (m,) of being right, at the factor of the noise that makes the loop closures together most probable."""
    z2, freedom = found.distance
    share = freedom / likelihood.freedom
    base = share * (likelihood.log_inlier - likelihood.log_outlier) - 0.5 * found.log_spread
    base = base + np.log(likelihood.prior) - np.log1p(-likelihood.prior)
    checked = loops & (freedom > 0)

    def at(factor: float) -> Array:
        return np.asarray(base - freedom * math.log(factor) - likelihood.core(0.5 * z2 / factor**2))

    def merit(factor: float) -> float:
        return float(-special.log_expit(-at(factor)[checked]).sum() - 0.5 * (math.log(factor) / _STATED) ** 2)

    best = max(_FACTORS, key=merit)
    return np.where(freedom > 0, at(float(best)), -math.inf), float(best)
