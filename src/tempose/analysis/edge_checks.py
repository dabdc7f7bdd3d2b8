"""Posterior predictive: the relative pose of any two nodes, and how surprising each measured edge is given the rest.

The check of an edge compares its measurement with what all *other* edges predict for it. Linearised at the optimum this
needs no refit. With r the edge's whitened residual there (``U_edge = ½|r|²``), A its Jacobian and Σ the covariance of the
fitted relative pose, r has covariance ``V = I − AΣAᵀ``, and

    z² = rᵀ V⁻¹ r

is exactly the squared Mahalanobis distance between the measurement and its leave-one-out prediction: χ² with as many
degrees of freedom as the rest of the graph determines, if the model is right. ``tr V`` is what the rest can check; on a
bridge it is 0, whatever the measurement says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from tempose._support.parallel import on_threads
from tempose._typing import Array, Index, NodeId
from tempose.analysis.reliability import Reliability, reliability
from tempose.analysis.summary import displacement, mean_motion, relative_draws
from tempose.errors import ArgumentError, DrawsError, GraphError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.model.bingham import Bingham
from tempose.model.graph import PoseGraph
from tempose.model.pieces import alone, pieces
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.robust import RobustLikelihood
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.prediction import Predictions, information_roots, predictions
from tempose.sampling.draws import Draws

_PER_EDGE = ("z2", "freedom", "p_value", "p_rotation", "p_translation", "log_spread", "redundancy")
SURPRISING = 0.01  # of the worst edge, corrected for the number of edges


# ---------------------------------------------------------------------- any two nodes


@dataclass(frozen=True, eq=False)
class RelativePredictive:
    """Draws of ``a_from_b``, the pose of b seen from a, with or without the noise of a new measurement.

    Attributes
    ----------
    wxyz, translation
        Rotations (draws, 4) and translations (draws, 3).
    noisy
        Whether these are predicted measurements rather than poses.
    """

    a: NodeId
    b: NodeId
    wxyz: Array
    translation: Array
    noisy: bool

    @cached_property
    def mean(self) -> tuple[Array, Array]:
        """Mean rotation (4,) and translation (3,)."""
        return mean_motion((self.wxyz, self.translation))

    @cached_property
    def covariance(self) -> Array:
        """Covariance (6, 6) of ``R = Exp(ω) R̂``, ``t = t̂ + δ`` in a's frame; rotation (radians) first."""
        x = self._tangent(self.wxyz, self.translation)
        return np.asarray(np.cov(x, rowvar=False))

    def tail_probability(self, wxyz: ArrayLike, translation: ArrayLike | None = None) -> float:
        """Share of the draws at least as far from their mean as a given pose: a small one is a surprise.

        Distance is by the draws' own covariance; without a translation, of rotations alone. (1 + count)/(1 + draws),
        so that it is never 0.
        """
        k = 3 if translation is None else 6
        given = self._tangent(np.asarray(wxyz, float), np.zeros(3) if translation is None else np.asarray(translation))
        inverse = np.linalg.pinv(self.covariance[:k, :k], hermitian=True)
        x = self._tangent(self.wxyz, self.translation)[:, :k]
        distance = np.einsum("sa,ab,sb->s", x, inverse, x)
        return float((1 + np.sum(distance >= given[:k] @ inverse @ given[:k])) / (1 + len(x)))

    def _tangent(self, wxyz: Array, translation: Array) -> Array:
        return displacement((wxyz, translation), self.mean)


def predict_relative(
    draws: Draws,
    a: NodeId,
    b: NodeId,
    *,
    concentration: ArrayLike | None = None,
    precision: ArrayLike | None = None,
    rng: np.random.Generator | None = None,
) -> RelativePredictive:
    """Posterior draws of ``a_from_b``, the pose of b seen from a, measured or not; no gauge enters.

    Both must be of one component. An edge of a graph measures ``j_from_i``: a is its j.

    Parameters
    ----------
    concentration, precision
        Noise of a new measurement, if that is to be predicted: Bingham concentration, a scalar λ, (3,) or (3, 3), and
        Gaussian precision, a scalar 1/σ² or (3, 3), both in a's frame. Leave both out for the pose itself.
    rng
        Needed for noise.
    """
    index = {name: row for row, name in enumerate(draws.ids)}
    for name in (a, b):
        if name not in index:
            raise GraphError(f"there is no node {name!r} among the {len(index)} nodes of these draws")
    if draws.n_draws < 2:
        raise DrawsError(f"a prediction needs at least 2 draws, there are {draws.n_draws}")
    wxyz, t = relative_draws(draws, index[a], index[b])
    noisy = concentration is not None or precision is not None
    if noisy and rng is None:
        raise ArgumentError("give a random generator (rng) to draw measurement noise")
    if concentration is not None and rng is not None:
        noise = Bingham.from_mode(quat.IDENTITY, concentration)
        wxyz = quat.multiply(noise.sample(rng, len(wxyz)), wxyz)
    if precision is not None and rng is not None:
        matrix = np.asarray(precision, float) * np.eye(3) if np.ndim(precision) == 0 else np.asarray(precision, float)
        try:
            root = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise ArgumentError("the precision of a predicted translation must be positive definite") from None
        t = t + np.linalg.solve(root.T, rng.standard_normal((3, len(t)))).T
    return RelativePredictive(a, b, quat.canonical(wxyz), t, noisy)


# ---------------------------------------------------------------------- every measured edge


@dataclass(frozen=True, eq=False)
class EdgeChecks:
    """How surprising each edge is, given all the others.

    Attributes
    ----------
    z2
        Squared distance (m,) of the measurement from its leave-one-out prediction, in units of its predictive covariance.
    freedom
        Degrees of freedom (m,): numbers of the edge that the rest determines; 0 where nothing checks it.
    p_value
        Probability (m,) of a distance at least as large if the model is right; NaN where nothing checks the edge.
    p_rotation, p_translation
        The same for either part alone: of the translation, for what the rotation's error does not explain of it.
    log_spread
        Logarithm (m,) of how much wider than the edge's own noise the prediction is: ``log det(I + S)``, S the whitened
        covariance of what the rest says.
    redundancy
        Share (m,) of the edge's noise that shows up in its residual, 0 … 1: low means that an error here could hide.
    determined
        Whether all poses are determined; if not, nothing is checked.
    """

    edges: tuple[tuple[NodeId, NodeId], ...]
    z2: Array
    freedom: Index
    p_value: Array
    p_rotation: Array
    p_translation: Array
    log_spread: Array
    redundancy: Array
    determined: bool = True

    @classmethod
    def joined(cls, parts: Sequence[EdgeChecks], graph: PoseGraph) -> EdgeChecks:
        """Those of some edges of a graph after those of others."""
        if len(parts) == 1:
            return parts[0]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in parts]) for name in _PER_EDGE}
        return replace(parts[0], edges=tuple(graph.edge_names()), **arrays)

    @property
    def n_checked(self) -> int:
        """Edges that something checks."""
        return int(np.sum(self.freedom > 0))

    @property
    def order(self) -> Index:
        """Rows of the checked edges, the most surprising first (by p, then by distance where p underflows)."""
        rows = np.flatnonzero(self.freedom > 0)
        return rows[np.lexsort((-self.z2[rows], self.p_value[rows]))]

    @property
    def corrected_p(self) -> float:
        """Probability that the most surprising of that many edges is as surprising as it is; NaN without checked edges."""
        if not self.n_checked:
            return math.nan
        return float(-np.expm1(self.n_checked * np.log1p(-min(float(self.p_value[self.order[0]]), 1.0 - 1e-16))))

    @property
    def suspects(self) -> Index:
        """Edges too surprising for their number (Bonferroni, 1%), the most surprising first."""
        return self.order[self.p_value[self.order] < SURPRISING / max(self.n_checked, 1)]

    @property
    def scatter(self) -> float:
        """How much the typical edge scatters, over what was stated: the root of the median ratio of z² to χ²'s median."""
        rows = self.order
        return (
            float(np.sqrt(np.median(self.z2[rows] / special.chdtri(self.freedom[rows], 0.5))))
            if len(rows)
            else math.nan
        )

    @property
    def misfits(self) -> Index:
        """Edges too surprising for their number even if the noise is what the others show (never less than was stated)."""
        rows = self.order
        p = special.chdtrc(self.freedom[rows], self.z2[rows] / max(self.scatter, 1.0) ** 2)
        return rows[p < SURPRISING / max(self.n_checked, 1)]

    def inlier_probability(self, likelihood: RobustLikelihood) -> Array:
        """Probability (m,) that each edge is right, from what the rest predicts for it; its prior where nothing checks it."""
        return likelihood.predicted_probability(self.z2, self.freedom, self.log_spread)

    def facts(self, most: int = 10) -> dict[str, Any]:
        """Plain values for JSON: the verdict and the ``most`` most surprising edges."""
        return {
            "checked_edges": self.n_checked,
            "suspects": len(self.suspects),
            "corrected_p": self.corrected_p if self.n_checked else None,
            "most_surprising": [
                {
                    "i": self.edges[k][0],
                    "j": self.edges[k][1],
                    "p": float(self.p_value[k]),
                    "z": float(np.sqrt(self.z2[k] / self.freedom[k])),
                    "redundancy": float(self.redundancy[k]),
                }
                for k in self.order[:most]
            ],
        }


def edge_predictions(posterior: Posterior, estimate: Poses, curvature: Curvature | None = None) -> Predictions | None:
    """What the others predict for every edge, at the optimum, from one factorisation; ``None`` if poses are not determined."""
    laplace = _gauss_newton(posterior, estimate, curvature)
    if laplace is None:
        return None
    return predictions(posterior.graph, estimate, laplace.edge_covariances(), _weights(posterior, estimate))


def _gauss_newton(posterior: Posterior, estimate: Poses, curvature: Curvature | None) -> Laplace | None:
    """The Gaussian by Gauss–Newton: then AΣAᵀ is a projection's block, between 0 and I, however large the residuals."""
    curvature = curvature or Curvature(posterior)
    try:
        factor = curvature.factor(estimate.wxyz, estimate.position, exact=False)
    except NotPositiveDefiniteError:
        return None
    return Laplace(curvature, estimate, 1.0, factor, exact=False)


def _weights(posterior: Posterior, estimate: Poses) -> Array | None:
    """With which each edge takes part (m,); ``None`` if all do."""
    return None if posterior.likelihood is None else posterior.likelihood.weight(posterior.energies(estimate))


def checks_and_reliability(
    posterior: Posterior, estimate: Poses, curvature: Curvature | None = None
) -> tuple[EdgeChecks, Reliability]:
    """How surprising each edge is, and whether an error of it could be seen: from one factorisation, some edges at a time."""
    graph = posterior.graph
    laplace = _gauss_newton(posterior, estimate, curvature)
    if laplace is None:
        return checks_of(graph, None), reliability(graph, estimate, None)
    laplace.give_up_factor()
    weight = _weights(posterior, estimate)

    def of(edges: slice) -> tuple[EdgeChecks, Reliability]:
        some, poses = alone(graph, estimate, edges)
        found = predictions(some, poses, laplace.edge_covariances(edges), None if weight is None else weight[edges])
        return checks_of(some, found), reliability(some, poses, found)

    laplace.edge_covariances(slice(0))  # what all threads need, by one of them
    checks, reliabilities = zip(*on_threads(of, pieces(graph.n_edges)), strict=True)
    return EdgeChecks.joined(checks, graph), Reliability.joined(reliabilities)


def check_edges(posterior: Posterior, estimate: Poses, curvature: Curvature | None = None) -> EdgeChecks:
    """Check every edge against the rest, at the optimum, all from one factorisation.

    Gaussian: trust it where errors are small enough for the model to be linear about the optimum (σ up to about 20°). A
    gross error spoils the point of linearisation too; it still stands out, but :func:`leave_one_out` gives its distance.
    """
    return checks_of(posterior.graph, edge_predictions(posterior, estimate, curvature))


def checks_of(graph: PoseGraph, found: Predictions | None) -> EdgeChecks:
    """The same from predictions that have been made."""
    m = graph.n_edges
    pairs = tuple(graph.edge_names())
    if found is None:
        nothing = np.full(m, np.nan)
        none = np.zeros(m, dtype=np.int64)
        return EdgeChecks(pairs, nothing, none, nothing, nothing, nothing, np.zeros(m), np.zeros(m), determined=False)
    z2, freedom = found.distance
    z2_rot, freedom_rot = found.distance_of(slice(0, 3))
    z2_pos, freedom_pos = found.distance_of(slice(3, 6))
    size = np.einsum("maa->m", found.range_)
    redundancy = np.clip(np.einsum("maa->m", found.covariance) / np.maximum(size, 1.0), 0.0, 1.0)
    return EdgeChecks(
        pairs, np.where(freedom > 0, z2, np.nan), freedom, _tail(z2, freedom), _tail(z2_rot, freedom_rot),
        _tail(z2_pos, freedom_pos), found.log_spread, redundancy,
    )  # fmt: skip


def leave_one_out(posterior: Posterior, estimate: Poses, edge: int) -> tuple[float, int, float]:
    """Refit without one edge and compare it with the prediction: z², degrees of freedom and p-value.

    Exact up to the Gaussian approximation at the *new* optimum. NaN, 0, NaN if the edge is a bridge.
    """
    graph = posterior.graph
    i, j = graph.node_ids[graph.edge_i[edge]], graph.node_ids[graph.edge_j[edge]]
    rest = graph.with_edges(np.arange(graph.n_edges) != edge)
    a, b = estimate.row(i), estimate.row(j)
    if rest.component[a] != rest.component[b]:
        return math.nan, 0, math.nan
    reduced = Posterior(rest)
    curvature = Curvature(reduced)
    minimum = minimise(curvature, estimate)
    try:
        predicted = Laplace(curvature, minimum.poses).relative(j, i)
    except NotPositiveDefiniteError:
        return math.nan, 0, math.nan
    root, range_ = (x[edge] for x in information_roots(graph))
    if rest.position_component[a] != rest.position_component[b]:
        root[3:], range_[3:] = 0.0, 0.0
    (wxyz, t), sigma = predicted.mean, predicted.covariance
    if graph.coupling is not None:
        joint = np.eye(6)
        joint[3:, :3] = graph.coupling[edge]
        root = root @ joint
    if graph.arm is not None:  # the relative turn ω of i swings the point that was measured
        swing = np.eye(6)
        at = quat.rotate(wxyz, graph.arm[edge])
        t, swing[3:, :3] = t + at, -se3.hat(at)
        sigma = swing @ sigma @ swing.T
    omega = quat.log(quat.multiply(graph.j_from_i_wxyz[edge], quat.conjugate(wxyz)))
    error = root @ np.concatenate([omega, np.nan_to_num(graph.j_from_i_t[edge] - t)])
    z2 = float(error @ np.linalg.solve(np.eye(6) + root @ sigma @ root.T, error))
    freedom = round(float(np.trace(range_)))
    return z2, freedom, float(_tail(np.array([z2]), np.array([freedom]))[0])


def _tail(z2: Array, freedom: Index) -> Array:
    """χ² tail probability (m,), NaN without degrees of freedom."""
    return np.where(freedom > 0, special.gammaincc(0.5 * np.maximum(freedom, 1), 0.5 * z2), np.nan)
