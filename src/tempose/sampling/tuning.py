"""Masses, step size, friction and thinning from the curvature of U at the optimum: no knob needed.

With mass matrix M (one scalar per node for rotation, one for position) the dynamics of a mode is that of an oscillator
of frequency ω, ``ω²`` an eigenvalue of ``M⁻¹H``. The fastest mode limits the step, the slowest decides how long it takes
until a draw has forgotten the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tempose._typing import Array
from tempose.dynamics.chain import inverse_masses
from tempose.model.poses import Poses
from tempose.numerics.blocks import symmetric_matrix
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature

STEP_TIMES_FREQUENCY = 1.0  # of the fastest mode; BAOAB is stable below 2 and exact for Gaussians
MOST_THINNING = 1_000
MOST_MINIBATCH_THINNING = 100_000


@dataclass(frozen=True)
class Tuning:
    """What :func:`tune` found."""

    inverse_mass: Array  # (n, 2); zero for what cannot change
    step: float
    friction: float
    thin: int
    fastest: float  # frequencies of the fastest and the slowest mode
    slowest: float
    laplace: Factor | None  # factor of the exact Hessian, if it is positive definite


def tune(curvature: Curvature, poses: Poses, *, identity_mass: bool = False) -> Tuning:
    """Tune the sampler at (or near) a minimum of U."""
    wxyz, position = poses.wxyz, poses.position
    diagonal, off = curvature.held_blocks(wxyz, position)
    laplace: Factor | None = None
    try:
        laplace = curvature.factored(diagonal, off)
    except NotPositiveDefiniteError:
        diagonal, off = curvature.held_blocks(wxyz, position, exact=False)
    graph = curvature.posterior.graph
    mass = masses(curvature, diagonal, identity_mass)
    weight = np.repeat(mass * [0.25, 1.0], 3, axis=1)[:, graph.axes]  # kinetic energy ½ m|u|² with ω = 2u
    fastest = math.sqrt(_largest(curvature, diagonal, off, weight))
    slowest = math.sqrt(_smallest(curvature, laplace, poses, weight)) if laplace is not None else fastest / 30.0
    step = STEP_TIMES_FREQUENCY / fastest
    friction = 2.0 * slowest
    thin = int(np.clip(math.ceil(3.0 / (slowest * step)), 1, MOST_THINNING))
    return Tuning(inverse_masses(graph, 1.0 / mass), step, friction, thin, fastest, slowest, laplace)


HEATING = 0.02
"""Share by which stochastic gradients may raise the temperature, where no step is given."""
_DAMPING = 1.0  # friction times step with stochastic gradients


def minibatch_motion(batch: int, n_edges: int, longest: float, slowest: float) -> tuple[float, float, int]:
    """Step h, friction c and thinning for gradients of ``batch`` edges, which raise the temperature by about :data:`HEATING`.

    The gradient of b of m edges, drawn with replacement, has a variance of about (m/b) H/β: at equilibrium the squared gradients of
    the edges add up to H/β. It adds ``h² (m/b) / (2 (1 − e^(−ch)))`` to the temperature, in units of it and with masses from the
    diagonal of H; c·h = 1 here. A mode of frequency ω then needs about 1/(ωh)² steps to forget.
    """
    kept = -math.expm1(-_DAMPING)
    step = min(longest, math.sqrt(2.0 * kept * HEATING * batch / max(n_edges, 1)))
    thin = int(np.clip(math.ceil(1.0 / (slowest * step) ** 2), 1, MOST_MINIBATCH_THINNING))
    return step, _DAMPING / step, thin


def heating(step: float, friction: float, batch: int, n_edges: int) -> float:
    """Share by which stochastic gradients raise the temperature, predicted as in :func:`minibatch_motion`."""
    return float(step**2 * n_edges / batch / (-2.0 * math.expm1(-friction * step))) if batch else 0.0


def masses(curvature: Curvature, diagonal: Array, identity: bool) -> Array:
    """Scalar masses (n, 2) from the diagonal of the Hessian; held nodes move like the others."""
    if identity:
        return np.ones((len(diagonal), 2))
    turns = int(np.sum(curvature.posterior.graph.axes < 3))
    trace = np.stack(
        [np.trace(diagonal[:, part, part], axis1=1, axis2=2) / count for part, count in (
            (slice(turns), turns), (slice(turns, None), diagonal.shape[1] - turns),
        )], axis=1,
    )  # fmt: skip
    held = np.stack([curvature.held[:, :3].all(axis=1), curvature.held[:, 3:].all(axis=1)], axis=1)
    typical = np.array([np.median(trace[~held[:, k], k]) if np.any(~held[:, k]) else 1.0 for k in range(2)])
    trace = np.where(held, typical, trace)
    return np.asarray(np.maximum(trace, 1e-6 * typical) * [4.0, 1.0])


def _largest(curvature: Curvature, diagonal: Array, off: Array, weight: Array) -> float:
    """Largest eigenvalue of M⁻¹H by power iteration, with a little to spare."""
    root = np.where(curvature.held[:, curvature.posterior.graph.axes], 0.0, 1.0 / np.sqrt(weight)).reshape(-1)
    table = curvature.posterior.edge_table
    target = np.repeat(np.arange(len(diagonal)), np.diff(table.start))
    matrix = symmetric_matrix(table.source.astype(np.int64), target, diagonal, off)
    x = np.random.default_rng(0).standard_normal(root.shape) * (root > 0)
    value = 1.0
    for _ in range(40):
        x /= max(_norm(x), 1e-300)
        x = root * (matrix @ (root * x))
        value = _norm(x)
    return 1.05 * max(value, 1e-300)


def _norm(x: Array, weight: Array | float = 1.0) -> float:
    """√Σ w x², in this thread: a library's threads would fight with those of the chains."""
    return math.sqrt(float(np.sum(weight * x * x)))


def _smallest(curvature: Curvature, factor: Factor, poses: Poses, weight: Array) -> float:
    """Smallest eigenvalue of M⁻¹H among motions that change the shape, by inverse iteration.

    Moving a whole component costs nothing and is no mode of the posterior: such motions are projected out in the
    metric M. What is left is orthogonal to them, so the factor with one node held solves for it exactly.
    """
    graph = curvature.posterior.graph
    axes = graph.axes
    motions = curvature.gauge_motions(poses).reshape(len(poses), 6, -1)
    moves_held = np.any(motions[~graph.free], axis=0)  # with a fixed node held there is no such motion
    free_motions = np.ascontiguousarray(motions[:, axes][:, :, ~moves_held]).reshape(weight.size, -1)
    weighted = weight.reshape(-1, 1) * free_motions
    # sums, not products of matrices: the same bits wherever the arrays lie in memory
    gram = np.array([np.sum(weighted * motion[:, None], axis=0) for motion in free_motions.T])

    def shape_only(x: Array) -> Array:
        if not free_motions.shape[1]:
            return x
        share = np.linalg.solve(gram, np.sum(weighted * x[:, None], axis=0))
        return np.asarray(x - np.sum(free_motions * share, axis=1))

    x = shape_only(np.random.default_rng(1).standard_normal(weight.size))
    w, held = weight.reshape(-1), curvature.held[:, axes].reshape(-1)
    value = 1.0
    for _ in range(15):
        x /= max(_norm(x, w), 1e-300)
        rhs = np.where(held, 0.0, w * x)
        x = shape_only(factor.solve(rhs))
        value = _norm(x, w)
    return 1.0 / max(value, 1e-300)
