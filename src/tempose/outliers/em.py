"""Noise levels, share of inliers and weight of the tails, estimated together with the poses (empirical Bayes).

Alternately, the poses minimise U for the current parameters, and the parameters follow from the residuals
(:mod:`tempose.outliers.noise`): a local search, which ends in the basin it begins in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tempose._typing import Array
from tempose.errors import NotApplicable
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.residuals import residuals
from tempose.model.robust import RobustLikelihood, outlier_spread
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.leverage import used_of_edges
from tempose.optimum.newton import minimise
from tempose.outliers import rotations
from tempose.outliers.noise import CHANGE, EdgeEnergies, Parameters, RobustOptions, change

FIRST_INLIER_PROBABILITY = 0.7
_FIRST_CHOICE = 2  # round after which the tail is chosen for the first time
_LEAST_SCALE = 1e-4  # of the first one: a noise that collapses is an interpolation, not an estimate


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
        ``converged``, ``round limit``, or ``collapsed`` (the noise went to zero: too few edges check each other).
    log_likelihood
        Of the measurements given the poses, normalised.
    log_evidence
        The same with the poses integrated out around these (Laplace's approximation), up to a constant of the graph: what
        compares fits. A likelihood alone prefers fits that interpolate a few edges, whose poses are that much narrower.
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
        require_loops(graph, start)
    if first is None:
        first = first_parameters(graph, start, options, own)
    parameters, poses = first, start
    stage = _Stage(graph, own)
    status, free_tail, choices = "round limit", options.tail is None, 0
    for number in range(1, options.rounds + 1):
        poses, left = stage.improve(poses, parameters)
        updated = left.settled(parameters, options, own)
        moved = change(parameters, updated)
        parameters = updated
        if parameters.rotation_scale < _LEAST_SCALE * first.rotation_scale:
            status = "collapsed"
            break
        if moved < CHANGE or number == _FIRST_CHOICE:
            chosen = left.with_best_tail(parameters, options, own) if free_tail and choices < 4 else parameters
            if chosen.tail == parameters.tail and moved < CHANGE:
                status = "converged"
                break
            parameters, choices = chosen, choices + int(chosen.tail != parameters.tail)
    poses = stage.approach(poses, parameters)
    curvature = stage.curvature(parameters)
    poses = minimise(curvature, poses).poses
    posterior = curvature.posterior
    assert posterior.likelihood is not None
    log_likelihood = float(posterior.likelihood.log_density(posterior.energies(poses)).sum())
    evidence = log_likelihood + _log_volume(curvature, poses)
    return RobustFit(poses, posterior.graph, posterior.likelihood, parameters, status, number, log_likelihood, evidence)


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
    rotation, translation, cross = energies_by_part(graph, poses)
    # edges that the start was built from fit it exactly and say nothing about noise
    energy = Posterior(graph).energies(poses)
    exact = energy <= 1e-20 * np.median(energy)
    turns, moves = graph.ranks
    left = EdgeEnergies(graph, rotation, translation, np.where(exact, turns, 0.0), np.where(exact, moves, 0.0), cross)
    if options.noise == "given":
        return parameters
    candidates = []
    between = ~graph.is_absolute & ~graph.is_landmark[graph.edge_i]
    alone, moved = Posterior(graph).potential_by_edge(poses)  # the second is of what rotations leave unexplained
    for s in _scales(alone[between & (turns > 0)], int(np.sum(graph.axes < 3))):
        for t in _scales(moved[between & (moves > 0)], graph.dimension):
            trial = replace(parameters, rotation_scale=s, translation_scale=t)
            for _ in range(3):
                trial = left.updated(trial, replace(options, noise="given"), own)
            candidates.append((left.log_likelihood(trial, own), trial))
    best = max(candidates, key=lambda pair: pair[0])[1]
    for _ in range(30):
        best = left.updated(best, options, own)
    return best


def _log_volume(curvature: Curvature, poses: Poses) -> float:
    """Logarithm of the volume of the Gaussian around the poses, gauge held."""
    try:
        factor = curvature.factor(poses.wxyz, poses.position)
    except NotPositiveDefiniteError:
        return -math.inf
    return 0.5 * curvature.dimension * math.log(2.0 * math.pi) - 0.5 * factor.log_determinant()


def _scales(energy: Array, freedom: int) -> Array:
    """Factors of σ at which some share of the edges, from a twentieth to all, would be as it should."""
    if not len(energy):
        return np.ones(1)
    largest = float(energy.max())
    energy = energy[energy > 1e-20 * largest] if largest > 0.0 else np.ones(1)
    return np.unique(np.sqrt(np.quantile(2.0 * energy, [0.05, 0.15, 0.3, 0.6, 1.0]) / freedom))


class _Stage:
    """Steps of the poses, and what they leave over, for parameters that change; the structure is analysed once."""

    def __init__(self, graph: PoseGraph, own: Array) -> None:
        self.stated, self.own = graph, own
        self.first: Curvature | None = None
        self.rotations_alone = rotations.RotationsAlone(graph) if rotations.applies(graph) else None

    def posterior(self, p: Parameters) -> Posterior:
        return Posterior(p.graph(self.stated), p.likelihood(self.stated, self.own))

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
            return poses, EdgeEnergies(self.stated, *Posterior(self.stated).potential_by_edge(poses), used, nothing)
        curvature = self.curvature(p)
        poses = minimise(curvature, poses, max_steps=4).poses
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
    try:
        factor = curvature.factor(poses.wxyz, poses.position, exact=False)
    except NotPositiveDefiniteError:  # some node is held by no edge that counts
        nothing = np.zeros(graph.n_edges)
        return EdgeEnergies(graph, rotation, translation, nothing, nothing, cross)
    sigma = Laplace(curvature, poses, 1.0, factor).edge_covariances()
    return EdgeEnergies(graph, rotation, translation, *used_of_edges(curvature.posterior.graph, sigma), cross)
