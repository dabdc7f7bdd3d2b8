"""Noise levels, share of inliers and weight of the tails, estimated together with the poses (empirical Bayes).

Alternately, the poses minimise U for the current parameters, and the parameters follow from the residuals
(:mod:`tempose.outliers.noise`): a local search, which ends in the basin it begins in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tempose._typing import Array, Index, Mask
from tempose.errors import NotApplicable
from tempose.geometry import align, se3
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.model.robust import RobustLikelihood, outlier_spread
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.leverage import used_of_edges
from tempose.optimum.newton import lowered, minimise
from tempose.outliers import rotations
from tempose.outliers.noise import (
    CHANGE,
    FEWEST_SPARE,
    MOTIONS,
    EdgeEnergies,
    Parameters,
    RobustOptions,
    change,
    log_prior,
)

FIRST_INLIER_PROBABILITY = 0.7
_FIRST_CHOICE = 2  # round after which the tail is chosen for the first time
_ANY_TURN = 1.8  # radians per axis of a rotation of which nothing is known
_A_LITTLE = 1e-6  # of an edge, so that no node is free
_SAME = (
    1e-6  # radians, and of the spread of translations: two measurements of one motion never agree as closely by chance
)
# chosen on: simulated rotations with rough edges (benchmarks/rough_edges.py, seeds 500 to 803); 0.3 at most if each errs by itself
_DIFFERENT = 0.5  # squared distance over the variance that precise edges leave: as if they knew half of what all know
SCALELESS = 1.0  # ν below: errors have no scale, and rough edges, those noisier than σ, may outvote the precise ones
_EXACT = 1e-9  # radians, and of the spread of translations: residuals below are rounding


@dataclass(frozen=True, eq=False)
class RobustFit:
    """Poses and parameters that explain a graph with wrong edges.

    Attributes
    ----------
    poses
        A minimum of the robust U.
    graph
        The measurements, with the estimated precisions.
    likelihood
        ρ of every edge.
    parameters
        What was estimated (or given).
    status
        ``converged`` or ``round limit``.
    log_likelihood
        Of the measurements given the poses, normalised.
    log_evidence
        The same with poses and estimated noise levels integrated out around these (Laplace's approximation), with the
        prior of the latter, up to a constant of the graph: what compares fits.
        A likelihood alone prefers fits that interpolate a few edges, whose poses are that much narrower.
    """

    poses: Poses
    graph: PoseGraph
    likelihood: RobustLikelihood
    parameters: Parameters
    status: str
    rounds: int
    log_likelihood: float
    log_evidence: float

    @property
    def posterior(self) -> Posterior:
        """U at the estimated parameters."""
        return Posterior(self.graph, self.likelihood)

    @cached_property
    def energies(self) -> Array:
        """Quadratic energy (m,) of every edge at the poses."""
        return Posterior(self.graph).energies(self.poses)

    @cached_property
    def inlier_probability(self) -> Array:
        """Probability (m,) that each edge is an inlier, at the poses."""
        return self.likelihood.inlier_probability(self.energies)

    @property
    def sigma_rot_deg(self) -> float:
        """Median σ of a measured rotation, degrees per axis."""
        return math.degrees(self.graph.median_sigmas[0])

    @property
    def sigma_trans(self) -> float:
        """Median σ of a measured translation per axis; NaN if there are none."""
        return self.graph.median_sigmas[1]


def fit(
    graph: PoseGraph,
    start: Poses,
    options: RobustOptions | None = None,
    *,
    own_probability: Array | None = None,
    first: Parameters | None = None,
) -> RobustFit:
    """Estimate poses and parameters together, from ``start``: a local search, which ends in the basin it begins in.

    Parameters
    ----------
    own_probability
        Prior inlier probabilities (m,) of edges that have one of their own, NaN for the others.
    first
        Parameters to begin with; by default those that explain the residuals at ``start`` best.
    """
    options = options or RobustOptions()
    own = np.full(graph.n_edges, np.nan) if own_probability is None else own_probability
    if options.noise == "auto":
        again = repeated(graph)
        if np.any(again):  # what is listed twice agrees with itself: that says nothing about noise
            once = fit(graph.with_edges(~again), start, options, own_probability=own[~again], first=first)
            p = once.parameters
            known = replace(options, noise="given", inlier_probability=p.inlier_probability, tail=p.tail)
            return fit(graph, once.poses, known, own_probability=own, first=p)
        require_loops(graph, start)
    every, precise = fit_both(graph, start, options, own, first)
    return every if precise is None or not _differ(precise, every) else precise


def fit_both(
    graph: PoseGraph, start: Poses, options: RobustOptions, own: Array, first: Parameters | None = None
) -> tuple[RobustFit, RobustFit | None]:
    """What all edges tell, and what the precise ones alone tell, where errors of rotations have no scale.

    The latter begin at ``start`` or where all edges have led from there, whichever leads lower.
    """
    first = first_parameters(graph, start, options, own) if first is None else first
    every = _fitted(_Stage(graph, own), start, options, first)
    if every.parameters.tail >= SCALELESS or not rotations.applies(graph):
        return every, None
    stage, p = _Stage(graph, own, precise_only=True), every.parameters
    near = min((stage.approach(one, p) for one in (start, every.poses)), key=stage.posterior(p).potential)
    return every, _fitted(stage, near, replace(options, tail=p.tail), p)


def _fitted(stage: _Stage, start: Poses, options: RobustOptions, first: Parameters) -> RobustFit:
    """Poses and parameters in turns, from ``start`` and the ``first`` parameters."""
    own, parameters, poses = stage.own, first, start
    status, free_tail, choices, released = "round limit", options.tail is None, 0, False
    for number in range(1, options.rounds + 1):
        poses, left = stage.improve(poses, parameters)
        updated = left.settled(parameters, options, own)
        moved = change(parameters, updated)
        parameters = updated
        if moved < CHANGE or number == _FIRST_CHOICE:
            chosen = left.with_best_tail(parameters, options, own) if free_tail and choices < 4 else parameters
            if chosen.tail == parameters.tail and moved < CHANGE:
                freed = (
                    parameters
                    if released or options.noise != "auto"
                    else _released(parameters, left.spare(parameters, own))
                )
                if freed is parameters:
                    status = "converged"
                    break
                chosen, released = freed, True  # at the stated noise there is enough to tell it after all
            parameters, choices = chosen, choices + int(chosen.tail != parameters.tail)
    poses = stage.approach(poses, parameters)
    curvature = stage.curvature(parameters)
    poses = minimise(curvature, poses).poses
    posterior = curvature.posterior
    assert posterior.likelihood is not None
    log_likelihood = float(posterior.likelihood.log_density(posterior.energies(poses)).sum())
    evidence = log_likelihood + _log_volume(curvature, poses, parameters.outlier_sigma)
    if options.noise == "auto":
        evidence += left.log_evidence_of_scales(parameters, own)
    return RobustFit(poses, posterior.graph, posterior.likelihood, parameters, status, number, log_likelihood, evidence)


def _differ(precise: RobustFit, every: RobustFit) -> bool:
    """Whether poses that precise edges tell differ from those that all tell by more than independent errors let them.

    If errors are independent all edges know more than the precise ones, and the difference has the variance that they know less
    (Hausman's test of a model): none to speak of where precise edges hold most of what is known. So half of the nodes must be
    farther apart than :data:`_DIFFERENT` allows.
    """
    graph = precise.graph
    try:
        laplace = Laplace(Curvature(precise.posterior), precise.poses)
    except NotPositiveDefiniteError:
        return False
    variance = np.trace(laplace.marginals(Gauge(graph, "centroid"))[:, :3, :3], axis1=1, axis2=2)
    a, b = precise.poses, every.poses
    moved = b.moved(align((b.wxyz, b.position), (a.wxyz, a.position), robust=True))
    return bool(np.median(quat.angle_between(a.wxyz, moved.wxyz) ** 2 / variance) > _DIFFERENT)


def repeated(graph: PoseGraph) -> Mask:
    """Edges (m,) that are the same measurement as an earlier one, in either direction: equal but for rounding."""
    return np.asarray(originals(graph) != np.arange(graph.n_edges))


def originals(graph: PoseGraph) -> Index:
    """Of each edge (m,) the first that is the same measurement, itself if there is no earlier one."""
    back = graph.edge_i > graph.edge_j
    q, t = graph.j_from_i_wxyz, np.nan_to_num(graph.j_from_i_t)
    inverse = se3.inverse((q, t))
    q, t = (np.where(back[:, None], b, a) for a, b in zip((q, t), inverse, strict=True))
    ends = np.stack([np.minimum(graph.edge_i, graph.edge_j), np.maximum(graph.edge_i, graph.edge_j)], axis=1)
    measured = np.concatenate([quat.canonical(q), t / outlier_spread(graph)], axis=1)
    out = np.arange(graph.n_edges)
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    same = np.all(np.diff(ends[order], axis=0) == 0, axis=1)
    for pair in np.split(order, np.flatnonzero(~same) + 1) if np.any(same) else ():
        for k, e in enumerate(pair.tolist() if len(pair) > 1 else ()):
            before = [f for f in pair[:k].tolist() if out[f] == f]
            alike = [f for f in before if np.all(np.abs(measured[f] - measured[e]) < _SAME)]
            out[e] = alike[0] if alike else e
    return out


def require_loops(graph: PoseGraph, poses: Poses | None = None) -> None:
    """Refuse to estimate noise where no measurement is checked by others.

    ``poses``, if there are any yet, show what of a graph that is tied to the world is not determined.

    Raises
    ------
    NotApplicable
        If rotations, or translations, form no loop.
    """
    tied = graph.world is not None or len(graph.fixed) > 1  # what is known about single nodes checks chains, too
    if tied:
        curvature = Curvature(Posterior(graph))
        taken = curvature.dimension if poses is None else curvature.determined(poses)
        if graph.freedom.sum() > taken:
            return
    turns, moves = graph.ranks
    translations = int(np.sum(moves > 0))
    oriented = graph.n_nodes - len(graph.landmarks)
    spare_rotations = int(np.sum(turns > 0)) - (oriented - graph.n_components)
    spare_translations = translations - (graph.n_nodes - len(np.unique(graph.position_component)))
    for what, spare in (("rotations", spare_rotations), ("translations", spare_translations if translations else 1)):
        if spare < 1:
            raise NotApplicable(
                f"the noise of {what} cannot be estimated: no edge is checked by others (there are no loops); give it "
                "(noise given, with sigma_rot_deg and sigma_trans for files that do not say)"
            )


def first_parameters(graph: PoseGraph, poses: Poses, options: RobustOptions, own: Array) -> Parameters:
    """The parameters of a Gaussian core that explain the residuals at ``poses`` best, by a search over scales."""
    pi = options.inlier_probability or FIRST_INLIER_PROBABILITY
    spread = options.outlier_sigma or outlier_spread(graph)
    parameters = Parameters(1.0, 1.0, pi, math.inf if options.tail is None else options.tail, spread)
    parameters = replace(parameters, least_scales=options.least_scales)
    rotation, translation, cross = energies_by_part(graph, poses)
    # edges that the start was built from fit it exactly and say nothing about noise
    exact = _fits_exactly(graph, poses, spread)
    turns, moves = graph.ranks
    left = EdgeEnergies(graph, rotation, translation, np.where(exact, turns, 0.0), np.where(exact, moves, 0.0), cross)
    if options.noise == "given":
        return parameters
    candidates = []
    between = ~graph.is_absolute & ~graph.is_landmark[graph.edge_i]
    alone, moved = Posterior(graph).potential_by_edge(poses)  # the second is of what rotations leave unexplained
    between &= ~exact
    taken = _numbers_of_poses(graph)
    for s in _scales(alone[between & (turns > 0)], int(np.sum(graph.axes < 3))):
        for t in _scales(moved[between & (moves > 0)], graph.dimension):
            trial = replace(parameters, rotation_scale=s, translation_scale=t)
            for _ in range(3):
                trial = left.updated(trial, replace(options, noise="given"), own)
            volume = taken[0] * math.log(s) + taken[1] * math.log(t)  # of the poses, as far as it depends on the noise
            candidates.append((left.log_likelihood(trial, own) + volume + log_prior(s) + log_prior(t), trial))
    best = max(candidates, key=lambda pair: pair[0])[1]
    for _ in range(30):
        best = left.updated(best, options, own)
    return best


def _numbers_of_poses(graph: PoseGraph) -> tuple[int, int]:
    """How many numbers of orientations and of positions the measurements determine."""
    oriented = graph.n_nodes - len(graph.landmarks) - graph.n_components
    placed = graph.n_nodes - len(np.unique(graph.position_component)) if np.any(graph.has_translation) else 0
    return oriented * int(np.sum(graph.axes < 3)), placed * graph.dimension


def _released(p: Parameters, spare: Mapping[str, float]) -> Parameters:
    """The parameters with the noise of motions no longer kept as stated, where twice as many numbers as needed tell it."""
    kept = tuple(name for name in p.kept if name not in MOTIONS or spare.get(name, 0.0) < 2.0 * FEWEST_SPARE)
    return p if kept == p.kept else replace(p, kept=kept)


def _fits_exactly(graph: PoseGraph, poses: Poses, spread: float) -> Mask:
    """Edges (m,) without any residual but rounding."""
    (turns, moves), found = graph.ranks, residuals(graph, poses)
    scene = spread + float(np.ptp(poses.position, axis=0).max(initial=0.0))
    still = (turns == 0) | (2.0 * np.linalg.norm(found.nu, axis=1) < _EXACT)
    return np.asarray(
        still & ((moves == 0) | (np.linalg.norm(np.nan_to_num(found.translation), axis=1) < _EXACT * scene))
    )


def _log_volume(curvature: Curvature, poses: Poses, spread: float) -> float:
    """Logarithm of the volume of the Gaussian around the poses, gauge held.

    Where rejected edges leave a node free it would have none: then they hold it to any orientation, and to where ``spread``
    says that translations lead.
    """
    try:
        factor = curvature.factor(poses.wxyz, poses.position)
    except NotPositiveDefiniteError:
        posterior = curvature.posterior
        graph, weight = posterior.graph, _weights(posterior, poses)
        P = graph.translation_precision_matrices
        with np.errstate(divide="ignore"):
            turn = 2.0 / _ANY_TURN**2 / graph.mean_concentration
            move = graph.dimension / spread**2 / np.trace(P, axis1=1, axis2=2)
        least = (np.where(np.isfinite(one), one, 0.0) for one in (turn, move))
        curvature = Curvature(_weighted(graph, *(np.maximum(weight, one) for one in least)))
        try:
            factor = curvature.factor(poses.wxyz, poses.position, exact=False)
        except NotPositiveDefiniteError:
            return -math.inf
    return 0.5 * curvature.dimension * math.log(2.0 * math.pi) - 0.5 * factor.log_determinant()


def _scales(energy: Array, freedom: int) -> Array:
    """Factors of σ: none, and those at which some share of the edges, from a twentieth to all, would be as it should."""
    energy = energy[energy > 0.0]
    if not len(energy):
        return np.ones(1)
    return np.unique([1.0, *np.sqrt(np.quantile(2.0 * energy, [0.05, 0.15, 0.3, 0.6, 1.0]) / freedom)])


class _Stage:
    """Steps of the poses, and what they leave over, for parameters that change; the structure is analysed once."""

    def __init__(self, graph: PoseGraph, own: Array, *, precise_only: bool = False) -> None:
        self.stated, self.own, self.precise_only = graph, own, precise_only
        self.first: Curvature | None = None
        self.rotations_alone = rotations.RotationsAlone(graph) if rotations.applies(graph) else None

    def posterior(self, p: Parameters) -> Posterior:
        likelihood = p.likelihood(self.stated, self.own)
        return Posterior(p.graph(self.stated), likelihood.precise_only() if self.precise_only else likelihood)

    def curvature(self, p: Parameters) -> Curvature:
        """Second derivatives at these parameters."""
        curvature = Curvature(self.posterior(p))
        if self.first is None:
            self.first = curvature
        else:
            curvature.__dict__["symbolic"] = self.first.symbolic
        return curvature

    def approach(self, poses: Poses, p: Parameters) -> Poses:
        """Come near enough to a minimum for Newton's method, where there is a cheaper way than that."""
        if self.rotations_alone is None:
            return poses
        return self.rotations_alone.lower(self.posterior(p), poses, steps=200, least_gain=1e-10)

    def improve(self, poses: Poses, p: Parameters) -> tuple[Poses, EdgeEnergies]:
        """Lower U by a few steps."""
        if self.rotations_alone is not None:
            posterior = self.posterior(p)
            poses = self.rotations_alone.lower(posterior, poses, steps=8)
            used, nothing = self.rotations_alone.used(posterior, poses), np.zeros(self.stated.n_edges)
            parts, weights = Posterior(self.stated).potential_by_edge(poses), _weights(posterior, poses)
            return poses, EdgeEnergies(self.stated, *parts, used, nothing, weights=weights)
        curvature = self.curvature(p)
        poses = lowered(curvature, poses, max_steps=4)
        return poses, _residuals(self.stated, curvature, poses)


def energies_by_part(graph: PoseGraph, poses: Poses) -> tuple[Array, Array, Array | None]:
    """Energy of each edge at the stated noise (m,): of its rotation, its translation, and what both have a share in.

    ``νᵀΛν + ½ (Bs)ᵀP(Bs)``, ``½ rᵀPr`` and ``rᵀPBs``, which scale with 1/σ_R², 1/σ_t² and 1/(σ_R σ_t).
    """
    rotation, translation = Posterior(graph).potential_by_edge(poses)
    if graph.coupling is None:
        return rotation, translation, None
    found, P = residuals(graph, poses), graph.translation_precision_matrices
    r = np.nan_to_num(found.translation)
    moved = np.nan_to_num(found.unexplained) - r
    rotation = rotation + 0.5 * np.einsum("ma,mab,mb->m", moved, P, moved)
    return rotation, 0.5 * np.einsum("ma,mab,mb->m", r, P, r), np.einsum("ma,mab,mb->m", r, P, moved)


def _residuals(graph: PoseGraph, curvature: Curvature, poses: Poses) -> EdgeEnergies:
    rotation, translation, cross = energies_by_part(graph, poses)
    scaled, weights = curvature.posterior.graph, _weights(curvature.posterior, poses)
    try:
        factor = curvature.factor(poses.wxyz, poses.position, exact=False)
    except NotPositiveDefiniteError:  # some node is held by no edge that counts
        weights = np.maximum(weights, _A_LITTLE)
        curvature = Curvature(_weighted(scaled, weights, weights))
        try:
            factor = curvature.factor(poses.wxyz, poses.position, exact=False)
        except NotPositiveDefiniteError:  # nothing tells the noise
            return EdgeEnergies(graph, rotation, translation, *graph.ranks, cross)
    sigma = Laplace(curvature, poses, 1.0, factor).edge_covariances()
    return EdgeEnergies(graph, rotation, translation, *used_of_edges(scaled, sigma), cross, weights)


def _weights(posterior: Posterior, poses: Poses) -> Array:
    """Weights (m,) of the edges at the poses."""
    assert posterior.likelihood is not None
    return posterior.likelihood.weight(posterior.energies(poses))


def _weighted(graph: PoseGraph, turn: Array, move: Array) -> Posterior:
    """The ordinary problem of edges with weights (m,) of their rotations and translations."""

    def weighted(value: Array, weight: Array) -> Array:
        return value * weight.reshape(-1, *(1,) * (value.ndim - 1))

    turns, moves = weighted(graph.concentration, turn), weighted(graph.translation_precision, move)
    return Posterior(replace(graph, concentration=turns, translation_precision=moves))
