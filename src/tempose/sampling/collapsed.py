r"""Splitting HMC on the rotations, with all positions integrated out: exact at any β, and nearly as good as independent.

**Collapse.** If every translation has the same precision in all directions, U is a quadratic in the positions whose
matrix C does not depend on the rotations. So :math:`e^{-\beta U}` integrated over positions is
:math:`e^{-\beta U_c}` with :math:`U_c(R) = \min_p U(R, p)`; its gradient is that of U by the rotations at the minimising
positions, and positions given rotations are :math:`N(p^*(R), (\beta C)^{-1})`, drawn exactly for each kept draw.

**Chart.** :math:`R_i = \mathrm{Exp}(\omega_i) \hat R_i` around the optimum, :math:`|\omega_i| < \pi`. The target density is
:math:`e^{-\beta U_c} \prod_i 2(1 - \cos|\omega_i|)/|\omega_i|^2`, and zero outside.

**Frame.** In this chart a turn Ω of everything turns deformations by ½Ω only, so that the posterior is bent where Ω is large. With
one node held Ω is how that node moves against the rest. So instead a mean of all rotations stands still; the volume factor that
this brings is in :mod:`tempose.numerics.chart`. The mean is of nodes that π/2, where it would no longer be unique, is eight
standard deviations away for; if there are none, one node is held.

**Metric.** With the exact Hessian H of U at the optimum and S the Schur complement of its positions, carry dummy
positions d with :math:`x = (\omega, d) \sim` the density :math:`e^{-\frac12 \beta x^T H x - W(\omega)}`,

.. math::  W(\omega) = \beta U_c - \sum_i \log \frac{2(1 - \cos|\omega_i|)}{|\omega_i|^2} - \tfrac12 \beta\, \omega^T S \omega .

Integrating d out leaves the target. In :math:`y = \sqrt\beta L^T x`, :math:`H = L L^T`, the Hamiltonian is
:math:`\tfrac12|y|^2 + \tfrac12|v|^2 + W`: its first part turns (y, v) rigidly, which is done exactly, in time π/2 from one
independent draw to the next; its second is small and kicks v. Kick, turn, kick is reversible and preserves volume, so a
Metropolis test of the total makes it exact. The kicks are weighted such that what is cubic in W, its leading term,
causes no error of first order (:func:`kick_weights`). In the tails of a wide posterior, where W is not small, a trajectory with few
kicks may be rejected for long; so now and then, at random, one has many, and leads out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempose._support import streams
from tempose._typing import Array, Mask
from tempose.errors import NotApplicable
from tempose.model.posterior import Posterior
from tempose.numerics.laplacian import Laplacian
from tempose.numerics.sparse import Factor
from tempose.optimum.laplace import Laplace
from tempose.sampling.sampler import Cause, Chain, Draw, Tuned

if TYPE_CHECKING:
    from tempose.numerics.chart import Frame


KICKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
TURN = 0.5 * math.pi  # from one draw to an independent one, for a Gaussian
JITTER = 0.15  # relative, of the turn: no mode is in step with it
GLANCE, PILOT = 8, 48  # trajectories to judge a number of kicks by: to give it up, and to compare it
# chosen on: simulated graphs and the g2o files of benchmarks/samplers.py, which runs is not recorded
LEAST_ACCEPTANCE = 0.7
CAREFUL, CAREFULLY = 16, 4  # every so many trajectories, at random, one with so many times the kicks
FARTHEST = math.pi / 16  # radians, standard deviation: so that π/2 is out of reach
NOT_NARROW = 0.2  # radians along an edge: where a few kicks may not lead out of the tails
WARMUP = 25


@dataclass(frozen=True, eq=False)
class Point:
    """The target at one place."""

    y: Array  # (6n,) whitened coordinates
    remainder: float  # W; infinite outside the chart
    gradient: Array  # (6n,) of W by y
    state: Array  # (n, 8) rotations, and the positions' conditional mean


class CollapsedTarget:
    """W and its gradient.

    Parameters
    ----------
    laplace
        The optimum, the Hessian's factor, β.
    metric
        Blocks (diagonal, edges) of the matrix that ``laplace.factor`` is of, if that is not the exact Hessian: still
        exact, as W makes up for the difference, but slower (``benchmarks/sampler_designs.py``).

    Raises
    ------
    NotApplicable
        If the precision of positions depends on the rotations, so that they cannot be integrated out.
    """

    def __init__(self, laplace: Laplace, metric: tuple[Array, Array] | None = None) -> None:
        from tempose.numerics.sparse.repeated import panels
        from tempose.sampling._kernels import Model

        curvature = laplace.curvature
        self.laplace = laplace
        self.beta = laplace.beta
        self.posterior = curvature.posterior
        self.center = laplace.poses
        self.held = curvature.held
        positions = PositionPrecision(self.posterior, self.held).factor()
        self.careful = widest_edge(laplace) > NOT_NARROW
        table = self.posterior.edge_table
        diagonal, off = metric or curvature.hold(*curvature.blocks(self.center.wxyz, self.center.position))
        self.model = Model(
            panels(laplace.factor), panels(positions, lanes=True),
            self.posterior.edge_blocks, self.posterior.prior_table, table.start, table.source, diagonal, off,
            self.center.wxyz, self.center.position, np.where(self.held, 0.0, 1.0), frame_of(laplace),
        )  # fmt: skip

    def at(self, y: Array) -> Point:
        """Evaluate the target."""
        from tempose.numerics.layout import rows
        from tempose.sampling import _kernels

        n, work = len(self.held), self.posterior.workspace()
        state, gradient = rows(n), np.empty(6 * n)
        evaluate = _kernels.evaluate_parallel if self.posterior.runs_parallel else _kernels.evaluate
        remainder = float(evaluate(self.model, self.beta, y, work, rows(n), state, gradient))
        return Point(y, remainder, gradient, state)

    def follow(self, point: Point, velocity: Array, turn: float, kicks: int) -> tuple[Point, Array]:
        """Where the dynamics leads in a time, and the velocity there."""
        from tempose.numerics.layout import rows
        from tempose.sampling import _kernels

        n, work = len(self.held), self.posterior.workspace()
        y, v, gradient, state = point.y.copy(), velocity.copy(), point.gradient.copy(), rows(n)
        follow = _kernels.follow_parallel if self.posterior.runs_parallel else _kernels.follow
        weights = kick_weights(turn, kicks)
        remainder = float(follow(self.model, self.beta, turn / kicks, weights, y, v, work, rows(n), state, gradient))
        return Point(y, remainder, gradient, state), v

    def draw_positions(self, point: Point, rng: np.random.Generator) -> tuple[Array, Array, float]:
        """Quaternions (n, 4), positions (n, 3) drawn given them, and U."""
        from tempose.numerics.layout import rows
        from tempose.numerics.sparse.repeated import solve_lanes

        state = rows(len(point.state))
        state[:] = point.state
        noise = solve_lanes(self.model.positions, rng.standard_normal((len(state), 3)), forward=False)
        noise /= math.sqrt(self.beta)
        state[:, 4:7] += np.where(self.held[:, 3:], 0.0, noise)
        potential = self.posterior.gradient_into(state, self.posterior.workspace(), rows(len(state)))
        return state[:, :4], state[:, 4:7], potential

    def chain(self, arrays: dict[str, Array], kicks: int, thin: int) -> CollapsedChain:
        """A chain that begins at, or goes on from, a state."""
        return CollapsedChain(self, arrays["y"], kicks, thin)


class CollapsedChain:
    """A running chain; see :class:`tempose.sampling.sampler.Chain`."""

    def __init__(self, target: CollapsedTarget, y: Array, kicks: int, thin: int) -> None:
        self.target, self.kicks, self.thin = target, kicks, thin
        self.point = target.at(y)

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        return {"y": self.point.y}

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw."""
        accepted, gradients = 0.0, 0
        for _ in range(self.thin):
            careful = self.target.careful and rng.integers(CAREFUL) == 0
            kicks = self.kicks * (CAREFULLY if careful else 1)
            accepted += self.sweep(rng, kicks) / self.thin
            gradients += kicks
        wxyz, position, potential = self.draw_positions(rng)
        return Draw(wxyz, position, potential, accepted, gradients)

    def sweep(self, rng: np.random.Generator, kicks: int) -> float:
        """Everything between two draws of the positions; return the probability of acceptance."""
        return self.trajectory(rng, kicks)

    def draw_positions(self, rng: np.random.Generator) -> tuple[Array, Array, float]:
        """Quaternions, positions and U of a draw."""
        return self.target.draw_positions(self.point, rng)

    def follow(self, velocity: Array, turn: float, kicks: int) -> tuple[Point, Array]:
        """Where the dynamics leads in a time, and the velocity there."""
        return self.target.follow(self.point, velocity, turn, kicks)

    def trajectory(self, rng: np.random.Generator, kicks: int) -> float:
        """Propose and accept or reject; return the probability of acceptance."""
        velocity = rng.standard_normal(len(self.point.y))
        turn, level = TURN * (1.0 + JITTER * rng.uniform(-1.0, 1.0)), rng.random()
        point, error = self.propose(velocity, turn, kicks)
        probability = math.exp(min(0.0, -error)) if not math.isnan(error) else 0.0
        if level < probability:
            self.point = point
        return probability

    def propose(self, velocity: Array, turn: float, kicks: int) -> tuple[Point, float]:
        """Follow the dynamics for a time; return where it ends and by how much its energy has grown."""
        before = self.point.remainder + 0.5 * float(self.point.y @ self.point.y + velocity @ velocity)
        point, v = self.follow(velocity, turn, kicks)
        return point, point.remainder + 0.5 * float(point.y @ point.y + v @ v) - before


def follow_by_parts(
    evaluate: Callable[[Array], Point], point: Point, velocity: Array, turn: float, kicks: int
) -> tuple[Point, Array]:
    """The dynamics as in :meth:`CollapsedTarget.follow`, for any target that can be evaluated."""
    c, s = math.cos(turn / kicks), math.sin(turn / kicks)
    first, *others = kick_weights(turn, kicks)
    v = velocity - first * point.gradient
    for weight in others:
        y, v = c * point.y + s * v, c * v - s * point.y
        point = evaluate(y)
        v = v - weight * point.gradient
    return point, v


def kick_weights(turn: float, kicks: int) -> Array:
    r"""Weights :math:`w_0 \dots w_k` of the kicks at the ends of k equal parts of a turn T.

    To first order in W the energy error of a trajectory is that of the quadrature :math:`\sum_j w_j \dot W(t_j)` for
    :math:`\int \dot W\,dt` along the exact turn, and for a cubic W, its leading term, :math:`\dot W` has the frequencies 1
    and 3. So from two kicks on the trapezoidal weights get the smallest change that integrates these exactly; weights
    stay symmetric, so the trajectory stays reversible.
    """
    h = turn / kicks
    weights = np.full(kicks + 1, h)
    weights[0] = weights[-1] = 0.5 * h
    if kicks > 1:
        times = np.arange(kicks + 1) * h - 0.5 * turn
        one, three = np.cos(times), np.cos(3.0 * times)
        a, b, c = one @ one, one @ three, three @ three
        r, s = 2.0 * math.sin(0.5 * turn) - one @ weights, 2.0 / 3.0 * math.sin(1.5 * turn) - three @ weights
        det = a * c - b * b
        weights += (c * r - b * s) / det * one + (a * s - b * r) / det * three
    return weights


@dataclass(frozen=True, eq=False)
class CollapsedSampler:
    """Chains of splitting HMC on the rotations; see the module."""

    target: CollapsedTarget
    kicks: int
    thin: int = 1
    warmup: int = WARMUP
    name: str = "collapsed"

    def settings(self) -> dict[str, object]:
        """What decides the draws."""
        return {"kicks": self.kicks, "thin": self.thin, "warmup": self.warmup}

    def start(self, rng: np.random.Generator) -> Chain:
        """A chain that starts at a draw of the Gaussian approximation, shrunk if it would leave the chart."""
        return self.target.chain({"y": inside(self.target, rng)}, self.kicks, self.thin)

    def resume(self, arrays: dict[str, Array]) -> Chain:
        """A chain that goes on from :meth:`CollapsedChain.arrays`."""
        return self.target.chain(arrays, self.kicks, self.thin)


def inside(target: CollapsedTarget, rng: np.random.Generator) -> Array:
    """Whitened coordinates drawn from the Gaussian approximation, shrunk if they would leave the chart."""
    y = rng.standard_normal(6 * len(target.held))
    x = np.where(target.held, 0.0, target.laplace.factor.solve_Lt(y).reshape(-1, 6)) / math.sqrt(target.beta)
    angle = float(np.linalg.norm(x[:, :3], axis=1).max(initial=0.0))
    return y * min(1.0, 1.0 / max(angle, 1e-300))


def tune_target(target: CollapsedTarget, seed: int, *, thin: int = 1, warmup: int = WARMUP) -> Tuned:
    """The sampler with the number of kicks that a pilot chain found best, and how well it was accepted there.

    With acceptance a, a fraction ``a / (2 − a)`` of independent proposals is effective. That per kick decides, times a once
    more, because acceptance varies from place to place: where it is low a chain sticks, and its worst coordinates with it.
    """
    rng = streams.generator(seed, "tune")
    chain = target.chain({"y": inside(target, rng)}, 1, 1)

    def judge(kicks: int, trajectories: int) -> float:
        return float(np.mean([chain.sweep(rng, kicks) for _ in range(trajectories)]))

    for kicks in KICKS[3:]:  # until it moves, then to equilibrium
        if (moved := judge(kicks, GLANCE)) > 0.5:
            break
    if moved > 0.1:
        judge(kicks, PILOT // 2)
    best, acceptance, merit = KICKS[-1], 0.0, -1.0
    for kicks in KICKS if moved > 0.1 else ():
        if judge(kicks, GLANCE) < 0.5 * LEAST_ACCEPTANCE:
            continue
        rate = judge(kicks, PILOT)
        worth = rate**2 / (2.0 - rate) / kicks
        if rate >= LEAST_ACCEPTANCE and worth > merit:
            best, acceptance, merit = kicks, rate, worth
        if rate > 0.9 or (merit > 0.0 and 1.0 / kicks < merit):
            break
    return Tuned(CollapsedSampler(target, best, thin, warmup), acceptance)


def widest_edge(laplace: Laplace) -> float:
    """Largest standard deviation per axis of the rotation along an edge, radians."""
    variance = np.einsum("maa->m", laplace.edge_covariances()[:, :3, :3]) / 3.0
    return math.sqrt(float(variance.max(initial=0.0)))


def frame_of(laplace: Laplace, farthest: float = FARTHEST) -> Frame:
    """What stands still in the chart at an optimum; ``farthest`` as in :meth:`Laplace.rotation_frame`."""
    from tempose.numerics.chart import Frame

    graph = laplace.curvature.posterior.graph
    return Frame(graph.component, laplace.rotation_frame(farthest), graph.n_components)


class PositionPrecision:
    """The precision C of the positions, (n, n), one axis of three, for any weights of the edges."""

    def __init__(self, posterior: Posterior, held: Mask) -> None:
        graph = posterior.graph
        self.of_edges = _scalars(
            graph.translation_precision_matrices,
            "a translation with a different precision along different axes",
            Cause.ANISOTROPIC_EDGES,
        )
        prior = _scalars(
            posterior.priors.gaussian(graph.n_nodes)[1],
            "a prior with a different precision along different axes",
            Cause.ANISOTROPIC_PRIORS,
        )
        self.prior = prior if len(prior) else np.zeros(graph.n_nodes)
        self.laplacian = Laplacian(graph.n_nodes, graph.edge_i, graph.edge_j, held[:, 3])

    def factor(self, weights: Array | float = 1.0) -> Factor:
        """Cholesky factor with the precision of every edge multiplied by its weight (m,)."""
        return self.laplacian.factor(weights * self.of_edges, self.prior)


def _scalars(precision: Array, what: str, cause: Cause) -> Array:
    scalar: Array = np.einsum("maa->m", precision) / 3.0
    spread = np.abs(precision - scalar[:, None, None] * np.eye(3)).max(axis=(1, 2), initial=0.0)
    if np.any(spread > 1e-12 * np.abs(scalar)):
        raise NotApplicable(
            f"the sampler collapsed cannot integrate the positions out: there is {what}, so that their precision depends "
            "on the rotations; use the sampler geodesic-mh (or auto, which chooses it)",
            cause=cause,
        )
    return scalar
