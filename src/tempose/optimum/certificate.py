r"""Proof that poses are the global optimum, or a bound on how far they can be from it.

**The certificate** (Rosen et al., SE-Sync, 2019; with positions kept explicit so that every matrix stays sparse).
With isotropic concentrations, ``2U = tr(X M Xᵀ)`` (:mod:`tempose.optimum.quadratic`) in d = 3 or 2 dimensions. Take *any*
symmetric d×d matrices Λ_i and put ``S = M − diag(0, Λ_i)``, zero at positions. Every feasible X' has orthonormal
rotation blocks, ``tr(R'_i Λ_i R'_iᵀ) = tr Λ_i``, hence

.. math::

    2U(X') = \operatorname{tr}(X' S X'^T) + \sum_i \operatorname{tr} Λ_i .

If ``S + diag(0, η_i I) ⪰ 0`` for numbers ``η_i ≥ 0``, the first term is at least ``−Σ η_i tr(R'_i R'_iᵀ) = −d Σ η_i``,
and so, for all poses X' whatever,

.. math::

    U^* \ge \tfrac12 \sum_i \operatorname{tr} Λ_i - \tfrac d2 \sum_i η_i .

No property of the poses at hand was used: the bound holds for any Λ. The good choice is the multiplier estimate at the
poses X, ``Λ_i = sym(R_iᵀ (X M)_i)``. Then ``½ Σ tr Λ_i = U(X) − ½ Σ p_i·∂U/∂p_i``, which is U(X) when the positions are
the best ones for the rotations; and at a global optimum with moderate noise S is positive semi-definite with the poses
as its null vectors, so that η may be as small as rounding allows. Poses that are not stationary, or not optimal, make S
indefinite, need a larger η, and so get a weaker bound: the slack comes out of the same inequality.

The shifts sit on rotation rows only. ``S + diag(0, η I) ⪰ 0`` with the positions explicit is then equivalent to
``S_red + η I ⪰ 0`` for the Schur complement S_red in which positions are eliminated; and the rotation rows of the
inverse of the former are the inverse of the latter, which gives the smallest eigenvalue of S_red by Lanczos steps that
cost one sparse solve each.

**Rounding.** That the matrix is positive definite is tested by a sparse Cholesky factorisation in double precision,
whose success proves it for a matrix that differs by a few units in the last place of the entries. The reported bound
includes an allowance for this, :data:`ROUNDING` units in the last place of every diagonal entry times the square of the
coordinate it multiplies. It is an allowance, not an interval enclosure. Where it matters, because the graph reaches far, the
factorisation is done once more in coordinates relative to one node (:class:`tempose.optimum.quadratic.Hubs`), which are small.

Nodes without a rotation (landmarks) need no η. Fixed nodes and the world are merged into one node per component, which is free
(:mod:`tempose.optimum.merged`): the value of U does not depend on where it is.

**Everything else.** With anisotropic precisions, U is bounded from below by the isotropic potential with the smallest eigenvalue
of every Λ and P, since ``νᵀΛν ≥ λ_min |ν|²`` and ``rᵀPr ≥ τ_min |r|²``. Where rotation and translation are correlated,
``|s| ≤ 2|ν|`` and ``|r|² ≤ (1 + 1/c) |r + Bs|² + (1 + c) |Bs|²`` for any c > 0, so that with ``b = ‖B‖``

.. math::

    U \ge (λ_{min} - 2 c\, τ_{min} b^2) |ν|^2 + \tfrac12 \tfrac{c}{1 + c} τ_{min} |r|^2 ;

c is chosen to halve λ_min. A lower bound for that problem is one for the given problem, though not a tight one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from tempose._support.plain import plain
from tempose._typing import Array
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.merged import between_fixed, merged
from tempose.optimum.quadratic import Hubs, Quadratic, Solves

TOLERANCE = 1e-6
ROUNDING = 8.0
EPS = float(np.finfo(np.float64).eps)
_DIGITS_UP_TO = 30_000  # rows of the certificate matrix up to which its smallest eigenvalue is computed to many digits
_MOST_SHIFTED = 1e12  # times the scale of rotations, before a proof is given up
_NEGLIGIBLE = 1e-6  # in units of U: a change of the posterior density by one part in a million


class Proof(StrEnum):
    """What a verdict rests on."""

    CERTIFICATE = "certificate"
    NEGATIVE_EIGENVALUE = "negative eigenvalue"
    TOO_FAR_APART = "weights too far apart"
    RELAXATION_BELOW = "optimum of the relaxation below"
    BOUND_ISOTROPIC = "isotropic bound"


@dataclass(frozen=True)
class Certificate:
    """What is proven about poses.

    Attributes
    ----------
    status
        ``certified``: these poses are the global optimum, up to ``suboptimality``. ``not certified``: there is no
        proof; they may or may not be the optimum, and are at most ``suboptimality`` away from it. ``bound only``: the
        certificate does not apply to this posterior, but ``lower_bound`` does.
    certified
        The same as true, false, or ``None`` where the certificate does not apply.
    min_eigenvalue
        Smallest eigenvalue of the certificate matrix with positions eliminated, in the units of the concentrations
        over 4. Where a factorisation settled the matter it is the lower bound −η that this proves (the eigenvalue of
        a certified optimum is zero: the poses are null vectors); else it is computed. NaN if not applicable.
    suboptimality, relative_suboptimality
        Upper bound on ``U − U*``, absolute and divided by U (0 where U is 0).
    lower_bound
        Lower bound on U* over all poses; never below 0.
    potential
        U at the poses.
    proof
        What the verdict rests on; :func:`tempose.describe.certificate` has the sentence.
    tolerance
        Relative suboptimality that would have counted as certified.
    failed_components
        Components without a proof, and all of them, where there are several.
    of_kept_edges
        Whether all this is about the problem of the edges that a robust solve kept, each weighted by its inlier
        probability.
    too_large
        Whether the staircase, which tells a local optimum from noise too large for a proof, was left out because the graph
        is too large for it.
    direction
        (k, d+1), of the merged graph: eigenvector to ``min_eigenvalue`` as (position, rotation columns) of every node, along which
        the lifted problem improves; ``None`` unless the eigenvalue is negative.
    """

    status: str
    certified: bool | None
    min_eigenvalue: float
    suboptimality: float
    relative_suboptimality: float
    lower_bound: float
    potential: float
    proof: Proof
    tolerance: float = TOLERANCE
    failed_components: tuple[int, int] | None = None
    of_kept_edges: bool = False
    too_large: bool = False
    direction: Array | None = field(default=None, repr=False)

    def scaled(self, weight: float) -> Certificate:
        """The same proof for the problem with all of U times ``weight``."""
        names = ("min_eigenvalue", "suboptimality", "lower_bound", "potential")
        return replace(self, **{name: weight * getattr(self, name) for name in names})

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON: all but the direction."""
        facts: dict[str, Any] = plain(
            {one.name: getattr(self, one.name) for one in fields(self) if one.name != "direction"}
        )
        return facts

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Certificate:
        """The inverse of :meth:`facts`; what is not a field is passed over."""
        values = {one.name: facts[one.name] for one in fields(cls) if one.name in facts}
        for name in ("min_eigenvalue", "suboptimality", "relative_suboptimality", "lower_bound", "potential"):
            values[name] = math.nan if values[name] is None else values[name]
        failed = values["failed_components"]
        values["failed_components"] = None if failed is None else tuple(failed)
        return cls(**{**values, "proof": Proof(values["proof"])})


def isotropic_below(graph: PoseGraph) -> tuple[PoseGraph, bool]:
    """The largest isotropic graph whose potential is nowhere above, and whether it is the graph itself."""
    if graph.is_isotropic:
        return graph, True
    d = graph.dimension
    P = graph.translation_precision
    ends = [_eigenvalue_ends(value) for value in (graph.concentration, P if P.ndim < 3 else P[:, :d, :d])]
    exact = all(bool(np.all(high - low <= 1e-12 * high)) for low, high in ends)
    (least, _), (tau, _) = ends
    if graph.coupling is not None:
        b = np.linalg.norm(graph.coupling, 2, axis=(1, 2))
        tied = (b > 0.0) & (tau > 0.0)
        c = np.divide(least, 4.0 * tau * b * b, out=np.ones_like(b), where=tied)
        least, tau = np.where(tied, 0.5 * least, least), np.where(tied, tau * c / (1.0 + c), tau)
        exact = exact and not np.any(tied)
    return replace(graph, concentration=least, translation_precision=tau, coupling=None), exact


def _eigenvalue_ends(value: Array) -> tuple[Array, Array]:
    """Smallest and largest eigenvalue per edge (m,)."""
    if value.ndim == 1:
        return value, value
    if value.ndim == 2:
        return value.min(axis=1), value.max(axis=1)
    eigenvalues = np.linalg.eigvalsh(np.nan_to_num(value))
    return np.maximum(eigenvalues[:, 0], 0.0), eigenvalues[:, -1]


# ---------------------------------------------------------------------- isotropic


@dataclass(frozen=True)
class Dual:
    """The certificate matrix at a point X, at any rank, and what it proves.

    ``value`` is ``½ Σ tr Λ_i``; ``rounding`` the allowance in the bound.
    """

    problem: Quadratic
    multipliers: Array
    value: float
    energy: float
    rounding: float
    hubs: Hubs | None = None

    @classmethod
    def at(cls, problem: Quadratic, X: Array) -> Dual:
        """Multipliers at X, with the positions replaced by the best ones if they are not yet."""
        energy, gradient = problem.gradient(X)
        slack = 0.5 * float(np.sum(X[:, 0] * gradient[:, 0]))
        if abs(slack) > 1e-9 * energy:
            better = problem.best_positions(X, gradient)
            lower, there = problem.gradient(better)
            if lower < energy:
                X, energy, gradient = better, lower, there
                slack = 0.5 * float(np.sum(X[:, 0] * gradient[:, 0]))
        size = problem.d * float(problem.scale.sum()) + float(np.sum(problem.blocks[0][:, 0, 0, None] * X[:, 0] ** 2))
        rounding = 0.5 * ROUNDING * EPS * size
        return cls(problem, problem.multipliers(X, gradient), energy - slack, energy, rounding)

    def proves(self, shift: Array | float) -> Solves | None:
        """The factor of ``S + diag(0, shift I)`` if that is positive definite."""
        try:
            return self.problem.factor(self.multipliers, shift, self.hubs)
        except NotPositiveDefiniteError:
            return None

    def about_hubs(self, X: Array) -> Dual:
        """The same with positions relative to single nodes as they are at X, and so with less rounding."""
        hubs = self.problem.hubs(X)
        size = self.problem.d * float(self.problem.scale.sum()) + hubs.size
        return replace(self, hubs=hubs, rounding=0.5 * ROUNDING * EPS * size)

    def lower_bound(self, shift: Array | float) -> float:
        """The bound on U* that a successful ``proves(shift)`` gives."""
        scale = self.problem.scale
        total = 0.5 * self.problem.d * float(np.sum(np.broadcast_to(shift, len(scale))[scale > 0.0]))
        return max(self.value - total - self.rounding, 0.0)


@dataclass(frozen=True)
class Verdict:
    """Outcome of :func:`examine`: the proven lower bound on the optimum, and the eigenvalue behind it."""

    lower_bound: float
    min_eigenvalue: float
    direction: Array | None


def examine(dual: Dual, tolerance: float) -> Verdict:
    """Test ``S ⪰ 0`` by factorisation at a shift worth a tenth of the tolerance, then at the tolerance itself.

    Only if both fail, compute the smallest eigenvalue and its vector.
    """
    return _by_factor(dual, tolerance) or _by_eigenvalue(dual)


def _by_factor(dual: Dual, tolerance: float) -> Verdict | None:
    scale = dual.problem.scale
    worth = 0.5 * dual.problem.d * float(scale.sum())
    if worth == 0.0:
        return Verdict(0.0, 0.0, None)
    for share in (0.1, 0.9):
        relative = max(share * tolerance * dual.energy / worth, 4.0 * EPS)
        if dual.proves(relative * scale) is not None:
            return Verdict(dual.lower_bound(relative * scale), -float(relative * scale.max()), None)
    return None


def _by_eigenvalue(dual: Dual) -> Verdict:
    problem = dual.problem
    typical = float(np.median(problem.scale[problem.scale > 0.0]))
    shift, factor = 1e-9 * typical, None
    while factor is None:
        shift *= 10.0
        if shift > _MOST_SHIFTED * typical:  # positions are not determined, whatever the rotations are
            return Verdict(0.0, -shift, None)
        factor = dual.proves(shift)
    vector, value = smallest_eigenpair(problem, factor, shift)
    # what a factorisation has shown counts as proven, not what the eigensolver returns
    proven = shift
    for margin in (1e-6, 1e-3, 1e-1):
        trial = max(-value, 0.0) * (1.0 + margin) + margin * 1e-6 * typical
        if trial < proven and dual.proves(trial) is not None:
            proven = trial
            break
    return Verdict(dual.lower_bound(proven), value, vector if value < 0.0 else None)


def smallest_eigenpair(problem: Quadratic, factor: Solves, shift: float) -> tuple[Array, float]:
    """Smallest eigenvalue of S_red and its vector, extended to positions (n, d+1), from a factor of S + shift.

    The rotation rows of the inverse of ``S + diag(0, shift I)`` are ``(S_red + shift I)⁻¹``.
    """
    n, d = problem.graph.n_nodes, problem.d
    size = d * n
    live = np.repeat(problem.scale > 0.0, d)

    def solve(y: Array) -> Array:
        rhs = np.zeros((n, d + 1))
        rhs[:, 1:] = np.where(live, y.reshape(-1), 0.0).reshape(n, d)
        return factor.solve(rhs.reshape(-1)).reshape(n, d + 1)

    def inverse(y: Array) -> Array:
        return np.ascontiguousarray(solve(y)[:, 1:]).reshape(-1)

    if size <= 30:
        dense = np.stack([inverse(e) for e in np.eye(size)], axis=1)
        values, vectors = np.linalg.eigh(0.5 * (dense + dense.T))
    else:
        operator = LinearOperator((size, size), matvec=inverse, dtype=np.float64)
        start = np.random.default_rng(0).standard_normal(size)
        try:
            # what counts is proven by a factorisation: of large graphs a few digits will do
            tol = 1e-9 if size <= _DIGITS_UP_TO else 1e-3
            values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=tol, ncv=min(size - 1, 24), maxiter=300)
        except ArpackNoConvergence as stopped:
            values, vectors = stopped.eigenvalues, stopped.eigenvectors
            if not len(values):
                y = inverse(inverse(start))
                y /= np.linalg.norm(y)
                values, vectors = np.array([float(y @ inverse(y))]), y[:, None]
    y = vectors[:, -1]
    full = solve(y) / values[-1]
    return full, float(1.0 / values[-1] - shift)


def certify_isotropic(
    graph: PoseGraph, poses: Poses, tolerance: float, form: Callable[[PoseGraph], Quadratic] = Quadratic
) -> Certificate:
    """The certificate of poses of an isotropic graph; ``form`` makes the quadratic form of a graph."""
    part = merged(graph)
    reduced = part.reduce(poses)
    problem = form(part.graph)
    X = problem.point(reduced)
    dual = Dual.at(problem, X)
    energy = problem.gradient(X)[0]
    verdict = examine(dual, tolerance)
    problem.release()
    rounding, failed = dual.rounding, None
    if verdict.direction is None and rounding > 0.05 * tolerance * energy > 0.0:
        near = dual.about_hubs(X)
        better = _by_factor(near, tolerance)
        if better is not None and better.lower_bound > verdict.lower_bound:
            verdict, rounding = better, near.rounding
    if verdict.direction is not None and part.graph.n_components > 1:
        energy, verdict, rounding, failed = _by_component(part.graph, reduced, tolerance, form)
    constant = energy_between_fixed(graph, poses)
    verdict = replace(verdict, lower_bound=verdict.lower_bound + constant)
    return _conclude(energy + constant, verdict, rounding, tolerance, failed)


def energy_between_fixed(graph: PoseGraph, poses: Poses) -> float:
    """What the edges between fixed nodes contribute to U, which nothing can change."""
    rows = between_fixed(graph)
    return Posterior(graph.with_edges(rows)).potential(poses) if np.any(rows) else 0.0


def bound_only(energy: float, lower_bound: float, tolerance: float) -> Certificate:
    """What a lower bound of an isotropic problem that is nowhere above says of poses with this U."""
    bound = min(lower_bound, energy)
    gap = energy - bound
    relative = gap / energy if energy > 0.0 else 0.0
    return Certificate("bound only", None, math.nan, gap, relative, bound, energy, Proof.BOUND_ISOTROPIC, tolerance)


def _conclude(
    energy: float, verdict: Verdict, rounding: float, tolerance: float, failed: tuple[int, int] | None = None
) -> Certificate:
    bound = min(verdict.lower_bound, energy)
    gap = energy - bound
    relative = gap / energy if energy > 0.0 else 0.0
    # U of a graph without noise is rounding itself: there is nothing to be relative to
    certified = gap <= tolerance * energy or gap <= min(2.0 * rounding, _NEGLIGIBLE)
    proof = Proof.NEGATIVE_EIGENVALUE if verdict.direction is not None else Proof.TOO_FAR_APART
    return Certificate(
        "certified" if certified else "not certified",
        certified,
        verdict.min_eigenvalue,
        gap,
        relative,
        bound,
        energy,
        Proof.CERTIFICATE if certified else proof,
        tolerance,
        failed,
        direction=verdict.direction,
    )


def with_lower_bound(
    certificate: Certificate, lower_bound: float, tolerance: float = TOLERANCE, *, is_relaxation_optimum: bool = False
) -> Certificate:
    """The certificate, improved by a lower bound on U* that was proven elsewhere.

    Parameters
    ----------
    is_relaxation_optimum
        Whether the bound is the optimum of the relaxation, so that no better one can be had from it.
    """
    energy = certificate.potential
    if certificate.certified is not False or lower_bound <= certificate.lower_bound:
        return certificate
    bound = min(lower_bound, energy)
    verdict = Verdict(bound, certificate.min_eigenvalue, certificate.direction)
    result = _conclude(energy, verdict, 0.0, tolerance)
    if result.certified or not is_relaxation_optimum:
        return result
    return replace(result, proof=Proof.RELAXATION_BELOW)


def _by_component(
    graph: PoseGraph, poses: Poses, tolerance: float, form: Callable[[PoseGraph], Quadratic]
) -> tuple[float, Verdict, float, tuple[int, int]]:
    """Certify every component on its own: potentials and bounds add up."""
    direction = np.zeros((graph.n_nodes, graph.dimension + 1))
    bound = energy = rounding = 0.0
    lowest, failed = np.inf, 0
    for c in range(graph.n_components):
        rows = np.flatnonzero(graph.component == c)
        if len(rows) == 1:
            continue
        part = graph.subgraph(rows)
        problem = form(part)
        X = problem.point(poses.select(part.node_ids))
        dual = Dual.at(problem, X)
        verdict = examine(dual, tolerance)
        here = problem.gradient(X)[0]
        energy, bound, rounding = energy + here, bound + min(verdict.lower_bound, here), rounding + dual.rounding
        failed += verdict.direction is not None
        if verdict.min_eigenvalue < lowest:
            lowest = verdict.min_eigenvalue
            direction[:] = 0.0
            if verdict.direction is not None:
                direction[rows] = verdict.direction
    verdict = Verdict(bound, lowest, direction if failed else None)
    return energy, verdict, rounding, (failed, graph.n_components)
