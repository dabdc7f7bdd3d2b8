r"""The Riemannian staircase: out of a local optimum, by way of more dimensions.

A local optimum of U is in general not one of the lifted problem (:mod:`tempose.optimum.quadratic`), where every
rotation ``R_i`` is replaced by an r×d matrix ``Y_i`` with orthonormal columns, r > d: the negative eigenvector of the
certificate matrix, put in the new row of X, is a direction of descent. So lift, step, minimise, and test again, one
row more at a time (Boumal 2015; Rosen et al. 2019). For r large enough every local optimum of the lifted problem passes
the test, usually for r = d + 1 or d + 2. The lifted optimum is rounded back to rotations and refined by Newton steps.

A lifted point that passes the test proves a lower bound on U*, whether or not the rounded poses attain it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array
from tempose.model.poses import Poses
from tempose.numerics import relaxation as _kernels
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.certificate import (
    TOLERANCE,
    Dual,
    examine,
)
from tempose.optimum.joining import nearest_rotations
from tempose.optimum.quadratic import Quadratic, Solves
from tempose.optimum.relaxations import with_positions

MOST_WORK = 2e11
"""Operations that a climb may be expected to take (:func:`expected_work`): a minute or two on one core.

Beyond it, from about 50 000 nodes of a trajectory on, the staircase is left out. A count and no clock decides, so that results
do not depend on the machine.
"""
_OUTER, _INNER = 10, 20  # steps per rank, and solves per step, of a typical climb
_PER_NUMBER = (
    16.0  # a solve waits for memory: as long as so many operations for each number of the factor and each column
)


def expected_work(problem: Quadratic) -> float:
    """Operations that one rank of the staircase is expected to take, from the pattern alone."""
    symbolic = problem.symbolic
    solve = _PER_NUMBER * symbolic.nonzeros * (problem.d + 1)
    return _OUTER * (symbolic.flops + _INNER * solve)


@dataclass(frozen=True)
class LiftedStep:
    """One rank of the staircase: where it ended and what the certificate said there."""

    rank: int
    potential: float
    gradient_norm: float
    iterations: int
    min_eigenvalue: float
    passed: bool


@dataclass(frozen=True)
class Staircase:
    """Result of :func:`climb`.

    Attributes
    ----------
    poses
        Lifted optimum, rounded to poses; not yet refined.
    lower_bound
        Best lower bound on U* proven on the way.
    passed
        Whether the last lifted point passed the test: ``lower_bound`` is then as good as the relaxation gets.
    """

    poses: Poses
    lower_bound: float
    passed: bool
    steps: tuple[LiftedStep, ...]


def climb(
    problem: Quadratic, poses: Poses, direction: Array, *, tolerance: float = TOLERANCE, max_rank: int = 8
) -> Staircase:
    """Climb the staircase from stationary ``poses`` along the negative ``direction`` (n, d+1) of their certificate."""
    X = problem.point(poses)
    bound, passed = 0.0, False
    steps = []
    for rank in range(problem.d + 1, max_rank + 1):
        X = _escape(problem, X, direction)
        X, norm, iterations = minimise_lifted(problem, X)
        dual = Dual.at(problem, X)
        verdict = examine(dual, tolerance)
        bound = max(bound, verdict.lower_bound)
        passed = verdict.direction is None
        steps.append(LiftedStep(rank, dual.energy, norm, iterations, verdict.min_eigenvalue, passed))
        if verdict.direction is None or dual.energy - verdict.lower_bound <= tolerance * dual.energy:
            passed = True
            break
        direction = verdict.direction
    return Staircase(round_to_poses(problem, X), bound, passed, tuple(steps))


def _escape(problem: Quadratic, X: Array, direction: Array) -> Array:
    """X with one more row, moved along ``direction`` in it as long as that lowers the form."""
    value = problem.gradient(X)[0]
    lifted = np.concatenate([X, np.zeros((*X.shape[:2], 1))], axis=2)
    along = np.zeros_like(lifted)
    along[:, :, -1] = direction / np.abs(direction[:, 1:]).max()
    best, best_value = lifted, value
    length = 1.0
    for _ in range(40):
        trial, here, _ = _moved(problem, lifted, length * along)
        if here < best_value:
            best, best_value = trial, here
        elif best_value < value:
            break
        length *= 0.5
    if best is lifted:  # rounding hides the descent: leave the stationary point all the same
        best = _moved(problem, lifted, 1e-3 * along)[0]
    return best


def _moved(problem: Quadratic, X: Array, step: Array) -> tuple[Array, float, Array]:
    """The point reached by a step, with the best positions for its rotations; the form there, and ``X M``."""
    trial = X + step
    _kernels.orthonormalise(problem.axes, trial)
    value, gradient = problem.gradient(trial)
    better = problem.best_positions(trial, gradient)
    lower, there = problem.gradient(better)
    return (better, lower, there) if lower < value else (trial, value, gradient)


def round_to_poses(problem: Quadratic, X: Array) -> Poses:
    """Poses near a lifted point: project on its d main directions, take the nearest rotations, then positions.

    Components are rounded one by one, since each has a frame of its own.
    """
    graph, d = problem.graph, problem.d
    R = np.tile(np.eye(d), (graph.n_nodes, 1, 1))
    turns = problem.scale > 0.0  # the others have no rotation that means anything
    for c in range(graph.n_components):
        rows = np.flatnonzero((graph.component == c) & turns)
        if len(rows) == 0:
            continue
        Y = X[rows, 1:].reshape(d * len(rows), -1)
        main = np.linalg.svd(Y, full_matrices=False)[2][:d] if len(rows) > 1 else np.eye(d, X.shape[2])
        part = (Y @ main.T).reshape(len(rows), d, d)  # transposed rotations
        if np.sum(np.sign(np.linalg.det(part))) < 0.0:
            part[:, :, -1] *= -1.0
        R[rows] = np.swapaxes(part, 1, 2)
    return with_positions(graph, nearest_rotations(R))


# ---------------------------------------------------------------------- optimisation at fixed rank


class _Preconditioner:
    """Solves with ``S + diag(0, shift I)``, S the certificate matrix at the current point.

    On tangent vectors the Hessian is S, so this is a Newton step wherever the shift, just large enough to make the
    matrix positive definite, is small; the shift is remembered from one point to the next.
    """

    def __init__(self, problem: Quadratic) -> None:
        self.problem = problem
        self.scale = np.maximum(problem.scale, 1e-12 * problem.scale.max(initial=0.0))
        self.relative = 1e-3
        self.factor: Solves | None = None

    def update(self, multipliers: Array) -> None:
        """Factor at a new point."""
        self.factor = None
        self.relative = max(0.1 * self.relative, 1e-6)
        while self.factor is None:
            try:
                self.factor = self.problem.factor(multipliers, self.relative * self.scale)
            except NotPositiveDefiniteError:
                self.relative *= 4.0

    def __call__(self, X: Array, V: Array) -> Array:
        if self.factor is None:
            raise RuntimeError("the preconditioner was not updated")
        rhs = V.copy()
        rhs[self.problem.held, 0] = 0.0
        return tangent(X, self.factor.solve(rhs.reshape(X.shape[1] * len(V), -1)).reshape(V.shape))


def tangent(X: Array, V: Array) -> Array:
    """Project V on the tangent space at X: positions free, ``Y_iᵀ V_i`` antisymmetric."""
    out = V.copy()
    _kernels.tangent(tuple(range(X.shape[1] - 1)), X, out)
    return out


def minimise_lifted(
    problem: Quadratic, X: Array, *, max_iterations: int = 200, precision: float = 1e-13
) -> tuple[Array, float, int]:
    """Riemannian trust region with truncated conjugate gradients (Absil et al. 2007) on ``½ tr(X M Xᵀ)``.

    Returns the point, the norm of its gradient in the preconditioner's metric, and the number of iterations. Stops when
    the square of that norm, about twice what a further step would gain, is a share ``precision`` of the form's value.
    """
    precondition = _Preconditioner(problem)
    held = problem.held
    X, value, euclidean = _moved(problem, X, np.zeros_like(X))
    radius = np.inf
    norm, iterations = np.inf, 0
    while iterations < max_iterations:
        iterations += 1
        gradient = tangent(X, euclidean)
        gradient[held, 0] = 0.0
        lam = problem.multipliers(X, euclidean)
        precondition.update(lam)
        z = precondition(X, gradient)
        norm = float(np.sqrt(max(np.sum(gradient * z), 0.0)))
        if norm * norm <= precision * value or value == 0.0:
            break
        forcing = min(0.01, norm / np.sqrt(value))  # superlinear once the gradient is small
        radius = min(radius, 10.0 * norm) if np.isfinite(radius) else norm

        def hessian(V: Array, lam: Array = lam, X: Array = X) -> Array:
            out = tangent(X, problem.matrix_times(lam, V))
            out[held, 0] = 0.0
            return out

        while True:
            step, model, at_edge = _truncated_cg(X, gradient, z, hessian, precondition, radius, forcing)
            trial, new_value, new_euclidean = _moved(problem, X, step)
            gain = (value - new_value) / -model if model < 0.0 else 0.0
            length = radius
            if gain < 0.25:
                radius *= 0.25
            elif gain > 0.75 and at_edge:
                radius *= 3.0
            if gain > 0.05 and new_value < value:
                break
            if -model <= 1e-15 * value or length < 1e-8 * norm:  # rounding
                return X, norm, iterations
        X, value, euclidean = trial, new_value, new_euclidean
    return X, norm, iterations


def _truncated_cg(
    X: Array,
    gradient: Array,
    z: Array,
    hessian: Callable[[Array], Array],
    precondition: Callable[[Array, Array], Array],
    radius: float,
    forcing: float,
    max_iterations: int = 150,
) -> tuple[Array, float, bool]:
    """Minimise the quadratic model in the preconditioner's ball; return step, model value, and if it hit the ball."""
    step, Hstep = np.zeros_like(gradient), np.zeros_like(gradient)
    residual, direction = gradient.copy(), -z
    rz = float(np.sum(residual * z))
    first = rz
    # lengths in the metric of the preconditioner, by recurrence (Conn, Gould & Toint 2000, §7.5.1)
    ss, sd, dd = 0.0, 0.0, rz

    def model() -> float:
        return float(np.sum(step * gradient) + 0.5 * np.sum(step * Hstep))

    for _ in range(max_iterations):
        Hd = hessian(direction)
        curvature = float(np.sum(direction * Hd))
        alpha = rz / curvature if curvature != 0.0 else np.inf
        longer = ss + 2.0 * alpha * sd + alpha * alpha * dd if curvature > 0.0 else np.inf
        if curvature <= 0.0 or longer >= radius * radius:
            tau = (-sd + np.sqrt(sd * sd + dd * max(radius * radius - ss, 0.0))) / dd
            step += tau * direction
            Hstep += tau * Hd
            return step, model(), True
        step += alpha * direction
        Hstep += alpha * Hd
        residual += alpha * Hd
        ss = longer
        z = precondition(X, residual)
        new = float(np.sum(residual * z))
        if new <= first * forcing:
            break
        beta = new / rz
        rz = new
        sd, dd = beta * (sd + alpha * dd), new + beta * beta * dd
        direction = -z + beta * direction
    return step, model(), False
