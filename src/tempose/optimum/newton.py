"""Second-order minimisation of U to machine precision.

Steps with the Gauss–Newton matrix far from the optimum, with the exact Hessian near it. Residuals of pose graphs are not
small, so that Gauss–Newton alone creeps in the end; but far away the exact Hessian, even where it is positive definite,
trusts second derivatives beyond where they hold.

**Bends.** Long graphs are stiff across and soft along: a weakly held loop of a thousand nodes swings like a rope, and U is a
narrow valley that bends. A straight step along the valley ends up on its wall, where U is higher than before, and a trust
region that answers by shorter steps creeps. So every step is *corrected with the factor it was made with*: the same matrix
applied to the gradient at the end of the step leads back to the floor (a second-order correction). A solve costs a small
part of a factorisation, and a step with one correction converges cubically. Positions follow the rotations around the
bend exactly, by one linear solve. Only a step that is no good even then is shortened, and only what no length helps is damped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.merged import placed
from tempose.optimum.relaxations import positions_given_rotations

_SENSELESS = 1e8  # radians of a turn in one step: nothing is left of its digits
# chosen on: simulated trajectories of 3000 nodes, 3° and 6° noise, completeness 0.02, 0.1 and 0.5, seeds 11 to 15
_BEND = 1e-4  # radians: steps that turn something by more take the best positions at their end
# chosen on: simulated trajectories of 3000 nodes, 3° and 6° noise, completeness 0.02, 0.1 and 0.5, seeds 11 to 15
_MOST_CORRECTIONS = 3
# chosen on: simulated trajectories of 3000 nodes, 3° and 6° noise, completeness 0.02, 0.1 and 0.5, seeds 11 to 15
_SMALL = 1e-6  # of U: with less than this left to gain, the exact Hessian
# chosen on: simulated trajectories of 3000 nodes, 3° and 6° noise, completeness 0.02, 0.1 and 0.5, seeds 11 to 15
_SLOW, _NEAR = 0.01, 0.1  # Gauss–Newton steps below 0.1 radians that leave more than 1% to gain are slow
_CREEPING = 40  # steps without the exact Hessian; those that lower U by less than 1e-6 of it together lead nowhere
_MOST_LENGTHS, _SHORTER, _ENOUGH = 5, 0.4, 0.01  # of a step; and the share of the predicted gain that counts as one


@dataclass(frozen=True)
class NewtonStep:
    """One factorisation and what came of it."""

    potential: float
    gradient_norm: float
    decrement: float  # predicted decrease of U
    matrix: str  # "exact" or "gauss-newton"
    damping: float
    accepted: bool


@dataclass(frozen=True)
class Minimum:
    """Result of :func:`minimise`.

    Attributes
    ----------
    status
        ``converged`` (no step can lower U by more than rounding), ``step limit``, or ``stalled`` (no damping gave a
        decrease although the gradient is not at rounding level; or steps creep, as they do where the Hessian is positive
        definite only beyond double precision).
    potential, gradient_norm
        U and the largest entry of its gradient, held coordinates left out.
    decrement
        Newton decrement ``½ gᵀH⁻¹g``: what a further step is predicted to gain.
    is_minimum
        Whether the exact Hessian is positive definite there.
    """

    poses: Poses
    status: str
    potential: float
    gradient_norm: float
    decrement: float
    is_minimum: bool
    steps: tuple[NewtonStep, ...] = field(repr=False)


class _Point(NamedTuple):
    """Rotations, positions, U, and its gradient without what is held."""

    wxyz: Array
    position: Array
    value: float
    gradient: Array

    @property
    def norm(self) -> float:
        return float(np.abs(self.gradient).max(initial=0.0))


class _Ground:
    """U of a posterior as steps see it."""

    def __init__(self, curvature: Curvature) -> None:
        self.posterior = curvature.posterior
        self.free = ~curvature.held
        self.work = self.posterior.workspace()
        graph = self.posterior.graph
        self.projects = self.posterior.likelihood is None and bool(np.any(graph.has_translation))

    def at(self, wxyz: Array, position: Array) -> _Point:
        value, gradient = self.posterior.gradient_at(wxyz, position, self.work)
        return _Point(wxyz, position, value, np.where(self.free, gradient, 0.0))

    def moved(self, point: _Point, delta: Array) -> _Point:
        """The point a step leads to; where it turns anything by more than :data:`_BEND`, with the best positions there.

        A step that a nearly singular Hessian has blown up leads nowhere: U is infinite there.
        """
        if not _angle(delta) < _SENSELESS:
            return point._replace(value=np.inf)
        wxyz = quat.normalize(quat.multiply(quat.exp(delta[:, :3]), point.wxyz))
        position = point.position + delta[:, 3:]
        if self.projects and _angle(delta) > _BEND:
            position = positions_given_rotations(self.posterior.graph, wxyz, point.position)
        return self.at(wxyz, position)


def minimise(
    curvature: Curvature,
    start: Poses,
    *,
    max_steps: int = 200,
) -> Minimum:
    """Minimise U from ``start``; U never increases by more than its own rounding."""
    here, status, decrement, steps = _descended(curvature, start, max_steps, 0.0)
    is_minimum = bool(steps) and steps[-1].matrix == "exact" and steps[-1].damping == 0.0
    if not is_minimum:
        is_minimum = _is_positive_definite(curvature, here.wxyz, here.position)
    poses = Poses(start.ids, here.wxyz, here.position)
    return Minimum(poses, status, here.value, here.norm, decrement, is_minimum, tuple(steps))


def lowered(curvature: Curvature, start: Poses, *, max_steps: int, least_gain: float = 0.0) -> Poses:
    """Poses after some steps of :func:`minimise`, for searches: nobody asks whether they are a minimum.

    ``least_gain`` is what a further step has to be predicted to lower U by.
    """
    here = _descended(curvature, start, max_steps, least_gain)[0]
    return Poses(start.ids, here.wxyz, here.position)


def _descended(
    curvature: Curvature, start: Poses, max_steps: int, least_gain: float
) -> tuple[_Point, str, float, list[NewtonStep]]:
    """Where steps lead to, how they ended, the last Newton decrement, and the steps."""
    posterior = curvature.posterior
    ground = _Ground(curvature)
    start = placed(posterior.graph, start)
    here = ground.at(start.wxyz.copy(), start.position.copy())
    rounding = 1e-15 * np.sqrt(max(posterior.graph.n_edges, 1))
    floor = _rounding_floor(posterior, here.position)
    steps: list[NewtonStep] = []
    damping, status, decrement = 0.0, "step limit", np.inf
    exact = posterior.likelihood is not None  # such posteriors are minimised from where they nearly were before
    failed_at, small = np.inf, _SMALL
    factor: Factor | None = None
    while len(steps) < max_steps:
        del factor  # the next one takes over its memory
        factor, matrix = _factor(curvature, here.wxyz, here.position, damping, exact)
        delta = -curvature.solve(factor, here.gradient)
        decrement = _decrement(here.gradient, delta)
        noise = rounding * abs(here.value) + floor
        if exact and matrix != "exact":
            failed_at = decrement
        if decrement <= 10.0 * noise:
            there, accepted = _polished(curvature, factor, ground, here, delta, noise)
            steps.append(NewtonStep(here.value, here.norm, decrement, matrix, damping, accepted))
            here = there
            if matrix == "exact":
                status = "converged"
                break
            if exact and damping > 1e12:
                status = "stalled"
                break
            if exact:  # the exact Hessian is not positive definite here: a saddle, or singular
                damping = max(10.0 * damping, 1e-4)
            exact = True
            continue
        share = 1.0
        for _ in range(1 if matrix == "exact" else _MOST_LENGTHS):
            there, left = _corrected(curvature, factor, ground, ground.moved(here, share * delta), noise)
            accepted = there.value <= here.value - _ENOUGH * share * decrement
            if accepted:
                break
            share *= _SHORTER
        steps.append(NewtonStep(here.value, here.norm, decrement, matrix, damping, accepted))
        if accepted:
            here, damping = there, 0.0 if damping < 1e-8 else 0.01 * damping
            slow = left > _SLOW * decrement and _angle(delta) < _NEAR
            exact = (matrix == "exact" or left <= small * here.value or slow) and left < 0.1 * failed_at
            if left < least_gain:
                status = "little to gain"
                break
        elif matrix == "exact":  # it trusted second derivatives too far
            exact, failed_at, small = False, decrement, 0.01 * small
        elif damping > 1e12:
            status = "stalled"
            break
        else:
            damping = max(10.0 * damping, 1e-6)
        if _creeps(steps, here.value):
            status = "stalled"
            break
    return here, status, decrement, steps


def _creeps(steps: list[NewtonStep], value: float) -> bool:
    """Whether the last steps had no exact Hessian and gained next to nothing."""
    last = steps[-_CREEPING:]
    inexact = len(last) == _CREEPING and not any(step.matrix == "exact" for step in last)
    return inexact and last[0].potential - value <= _SMALL * value


def _corrected(
    curvature: Curvature, factor: Factor, ground: _Ground, point: _Point, noise: float
) -> tuple[_Point, float]:
    """The point after further steps with the same factor, while they lower U and pay; and what the next is predicted to gain."""
    left = last = np.inf
    for _ in range(_MOST_CORRECTIONS):
        delta = -curvature.solve(factor, point.gradient)
        left = _decrement(point.gradient, delta)
        if left <= 10.0 * noise or left > 0.25 * last:
            break
        last = left
        there = ground.moved(point, delta)
        if not there.value < point.value:
            break
        point = there
    return point, left


def _polished(
    curvature: Curvature, factor: Factor, ground: _Ground, point: _Point, delta: Array, noise: float
) -> tuple[_Point, bool]:
    """At rounding level: the point after at most two steps that make the gradient smaller, and whether there was any."""
    best = point
    for _ in range(2):
        there = ground.moved(best, delta)
        if not (there.norm < best.norm and there.value <= point.value + noise):
            break
        best = there
        delta = -curvature.solve(factor, best.gradient)
    return best, best is not point


def _decrement(gradient: Array, delta: Array) -> float:
    return max(-0.5 * float(np.sum(gradient * delta)), 0.0)


def _angle(delta: Array) -> float:
    """The largest turn of a step about any axis, radians."""
    return float(np.abs(delta[:, :3]).max(initial=0.0))


def _rounding_floor(posterior: Posterior, position: Array) -> float:
    """What U amounts to when all residuals are at rounding: the least that can be told from zero."""
    graph = posterior.graph
    size = float(np.abs(position).max(initial=1.0))
    translation = np.einsum("maa->", graph.translation_precision_matrices) if graph.n_edges else 0.0
    return 1e-30 * float(graph.mean_concentration.sum() + translation * size**2) + 1e-300


def _is_positive_definite(curvature: Curvature, wxyz: Array, position: Array) -> bool:
    try:
        curvature.factor(wxyz, position)
    except NotPositiveDefiniteError:
        return False
    return True


def _factor(curvature: Curvature, wxyz: Array, position: Array, damping: float, exact: bool) -> tuple[Factor, str]:
    """The exact Hessian if wanted and positive definite, else the Gauss–Newton matrix, with more damping if need be."""
    if exact:
        try:
            return curvature.factor(wxyz, position, exact=True, damping=damping), "exact"
        except NotPositiveDefiniteError:
            pass
    while True:
        try:
            return curvature.factor(wxyz, position, exact=False, damping=damping), "gauss-newton"
        except NotPositiveDefiniteError:
            damping = max(10.0 * damping, 1e-10)
            if damping > 1e12:
                raise
