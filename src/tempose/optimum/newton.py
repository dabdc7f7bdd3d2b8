"""Second-order minimisation of U to machine precision.

Newton steps with the exact Hessian where it is positive definite, with the Gauss–Newton matrix where it is not, in a
trust region controlled by damping. Residuals of pose graphs are not small, so the second-derivative terms that
Gauss–Newton drops matter: with them 5–8 factorisations suffice where plain Gauss–Newton creeps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.merged import placed
from tempose.optimum.relaxations import positions_given_rotations


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
        decrease although the gradient is not at rounding level).
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


def minimise(
    curvature: Curvature,
    start: Poses,
    *,
    max_steps: int = 200,
) -> Minimum:
    """Minimise U from ``start``; U never increases by more than its own rounding."""
    posterior = curvature.posterior
    free = ~curvature.held
    start = placed(posterior.graph, start)
    wxyz, position = start.wxyz.copy(), start.position.copy()
    work = posterior.workspace()
    value, gradient = posterior.gradient_at(wxyz, position, work)
    rounding = 1e-15 * np.sqrt(max(posterior.graph.n_edges, 1))
    floor = _rounding_floor(posterior, position)
    steps: list[NewtonStep] = []
    damping, status, decrement = 0.0, "step limit", np.inf
    settled = 0
    project = posterior.likelihood is None and bool(np.any(posterior.graph.has_translation))
    for _ in range(max_steps):
        factor, matrix = _factor(curvature, wxyz, position, damping)
        g = np.where(free, gradient, 0.0)
        delta = -curvature.solve(factor, g)
        decrement = max(-0.5 * float(np.sum(g * delta)), 0.0)
        norm = float(np.abs(g).max(initial=0.0))
        noise = rounding * abs(value) + floor
        at_rounding = decrement <= 10.0 * noise
        new_wxyz = quat.normalize(quat.multiply(quat.exp(delta[:, :3]), wxyz))
        new_position = position + delta[:, 3:]
        if project and decrement > 1e-6 * value:  # a long step: let the positions follow the rotations around the bend
            new_position = positions_given_rotations(posterior.graph, new_wxyz, position)
        new_value, new_gradient = posterior.gradient_at(new_wxyz, new_position, work)
        new_norm = float(np.abs(np.where(free, new_gradient, 0.0)).max(initial=0.0))
        accepted = new_value <= value if not at_rounding else new_norm < norm and new_value <= value + noise
        steps.append(NewtonStep(value, norm, decrement, matrix, damping, accepted))
        if accepted:
            gain = (value - new_value) / decrement if decrement > 0.0 else 1.0
            wxyz, position, value, gradient = new_wxyz, new_position, new_value, new_gradient
            damping = (
                0.0 if gain > 0.25 and damping < 1e-6 else damping * (0.1 if gain > 0.5 else 1.0 if gain > 0.1 else 4.0)
            )
        if at_rounding and matrix == "exact":
            settled += 1
            if not accepted or settled >= 2:
                status = "converged"
                break
        elif not accepted:
            if damping > 1e12:
                status = "stalled"
                break
            damping = max(10.0 * damping, 1e-4)
    is_minimum = bool(steps) and steps[-1].matrix == "exact" and steps[-1].damping == 0.0
    if not is_minimum:
        is_minimum = _is_positive_definite(curvature, wxyz, position)
    norm = float(np.abs(np.where(free, gradient, 0.0)).max(initial=0.0))
    return Minimum(Poses(start.ids, wxyz, position), status, value, norm, decrement, is_minimum, tuple(steps))


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


def _factor(curvature: Curvature, wxyz: Array, position: Array, damping: float) -> tuple[Factor, str]:
    """The exact Hessian if it is positive definite, else the Gauss–Newton matrix, with ever more damping if need be."""
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
