r"""Splitting HMC on the rotations, with all positions integrated out: exact at any β, and nearly as good as independent.

**Collapse.** Given the rotations U is a quadratic in the positions, with correlated translations and lever arms too; its matrix is
:math:`C(R) = \sum_{ij} E_{ij}^T R_j P_{ij} R_j^T E_{ij}`, :math:`E_{ij}\, p = p_i - p_j`. So :math:`e^{-\beta U}` integrated over
positions is :math:`e^{-\beta U_c}` with

.. math::  U_c(R) = \min_p U(R, p) + \frac{1}{2\beta} \log\det C(R),

and positions given rotations are :math:`N(p^*(R), (\beta C)^{-1})`, drawn exactly for each kept draw. The gradient of the
first part is that of U by the rotations at the minimising positions; that of the second needs the blocks of :math:`C^{-1}` on
nodes and edges, a selected inverse. If every translation has the same precision in all directions, C is one constant matrix for
each axis, factored once, and the second part a constant.

**Chart.** :math:`R_i = \mathrm{Exp}(\omega_i) \hat R_i` around the optimum, :math:`|\omega_i| < \pi`. The target density is
:math:`e^{-\beta U_c} \prod_i 2(1 - \cos|\omega_i|)/|\omega_i|^2`, and zero outside. In the plane ω is an angle, and the product
is 1.

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
Metropolis test of the total makes it exact. The kicks are timed and weighted such that what is cubic in W, its leading term,
causes no error of first order (:func:`kick_plan`). In the tails of a wide posterior, where W is not small, a trajectory with few
kicks may be rejected for long; so now and then, at random, one has many, and leads out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tempose._support import streams
from tempose._support.parallel import on_threads
from tempose._typing import Array, Mask
from tempose.errors import NotApplicable
from tempose.model.gauge import tied_components
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.numerics.laplacian import Laplacian
from tempose.numerics.sparse import Factor, NotPositiveDefiniteError, analyze
from tempose.optimum.laplace import Laplace
from tempose.sampling.sampler import Cause, Chain, Draw, Tuned

if TYPE_CHECKING:
    from tempose.numerics.chart import Axes, Frame
    from tempose.numerics.sparse.repeated import Panels
    from tempose.sampling._kernels import Model, Turning


KICKS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
TURN = 0.5 * math.pi  # from one draw to an independent one, for a Gaussian
LONGEST = 1.15 * TURN  # beyond, squares of coordinates lose more than a tenth of their effective draws
# chosen on: energy errors of simulated trajectories: 1000 nodes, seeds 12, 13; 10 000, 11 to 13; 30 000 and 100 000, 11, 12
SHORTER = 0.92  # of an equal part: the first and the last of three or more
RARELY_REJECTED = 0.95  # acceptance beyond which a longer turn is not worth pilots of its own
JITTER = 0.15  # relative, of the turn: no mode is in step with it
GLANCE, PILOT = 8, 48  # trajectories to judge a number of kicks by: to give it up, and to compare it
PILOTS = 2  # chains that share these
# chosen on: simulated graphs and the g2o files of benchmarks/samplers.py, which runs is not recorded
LEAST_ACCEPTANCE = 0.7
CAREFUL, CAREFULLY = 16, 4  # every so many trajectories, at random, one with so many times the kicks
FARTHEST = math.pi / 16  # radians, standard deviation: so that π/2 is out of reach
NOT_NARROW = 0.2  # radians along an edge: where a few kicks may not lead out of the tails
WARMUP = 25


@dataclass(frozen=True, eq=False)
class Point:
    """The target at one place."""

    y: Array  # (n b,) whitened coordinates, b = 6, or 3 in the plane
    remainder: float  # W; infinite outside the chart
    gradient: Array  # (n b,) of W by y
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
        If something of the poses is not determined, so that the Gaussian at the optimum is none of the posterior.
    """

    goes_together = True  # whether all chains have one model
    is_small = True  # whether W begins with what is cubic

    def __init__(self, laplace: Laplace, metric: tuple[Array, Array] | None = None) -> None:
        self.posterior = laplace.curvature.posterior
        self._made_of: tuple[object, ...] = laplace, metric
        self._around(laplace, 1.0, frame_of(laplace), metric)

    def __reduce__(self) -> tuple[type[CollapsedTarget], tuple[object, ...]]:
        return type(
            self
        ), self._made_of  # a recipe: factors and tables are larger, and their arrays lie as kernels want them

    def _around(
        self, laplace: Laplace, weights: Array | float, frame: Frame, metric: tuple[Array, Array] | None = None
    ) -> None:
        """Set up chart and metric at an optimum of the problem with these weights of the edges (m,)."""
        from tempose.numerics.sparse.repeated import panels
        from tempose.sampling._kernels import Model

        curvature, center = laplace.curvature, laplace.poses
        if curvature.free_motions(center.position, center.wxyz):
            raise NotApplicable(
                "the sampler collapsed needs a Gaussian at the optimum: something that is tied to the world can still be moved at "
                "no cost; use the sampler geodesic-mh (or auto, which chooses it)",
                cause=Cause.PARTLY_DETERMINED,
            )
        self.laplace, self.beta, self.center, self.held = laplace, laplace.beta, center, curvature.held
        self.precision = PositionPrecision(self.posterior, self.held, center.wxyz)
        self.careful = widest_edge(laplace) > NOT_NARROW
        table, axes = self.posterior.edge_table, self.precision.axes
        positions, turning = self.precision.panels(weights), self.precision.turning(weights)
        diagonal, off = metric or curvature.hold(*curvature.blocks(center.wxyz, center.position))
        self.model = Model(
            axes, panels(laplace.factor), positions, positions, self.precision.is_scalar, turning,
            self.posterior.edge_blocks, table.start, table.source, diagonal, off,
            center.wxyz, center.position, np.where(self.held, 0.0, 1.0), frame,
        )  # fmt: skip

    def at(self, y: Array, model: Model | None = None) -> Point:
        """Evaluate the target, or that of another model in the same chart."""
        from tempose.numerics.layout import rows
        from tempose.sampling._kernels import evaluate

        n, work = len(self.held), self.posterior.workspace()
        state, gradient = rows(n), np.empty((1, len(y)))
        (remainder,) = evaluate(model or self.model, self.beta, y.reshape(1, -1), work, rows(n), [state], gradient)
        return Point(y, remainder, gradient[0], state)

    def follow(
        self, point: Point, velocity: Array, turn: float, kicks: int, model: Model | None = None
    ) -> tuple[Point, Array]:
        """Where the dynamics leads in a time, and the velocity there."""
        return self.follow_all([point], [velocity], [turn], kicks, model)[0]

    def follow_all(
        self, points: list[Point], velocities: list[Array], turns: list[float], kicks: int, model: Model | None = None
    ) -> list[tuple[Point, Array]]:
        """The same from several points, each with a time of its own: to the same bits, and faster for two at a time."""
        from tempose.numerics.layout import rows
        from tempose.sampling._kernels import follow

        n, work = len(self.held), self.posterior.workspace()
        y, gradient = np.stack([one.y for one in points]), np.stack([one.gradient for one in points])
        v, state = np.stack(velocities), [rows(n) for _ in points]
        plans = [kick_plan(turn, kicks, small=self.is_small) for turn in turns]
        remainder = follow(model or self.model, self.beta, plans, y, v, work, rows(n), state, gradient)
        return [(Point(*one), v[k]) for k, one in enumerate(zip(y, remainder, gradient, state, strict=True))]

    def draw_positions(
        self, point: Point, rng: np.random.Generator, model: Model | None = None
    ) -> tuple[Array, Array, float]:
        """Quaternions (n, 4), positions (n, 3) drawn given them, and U."""
        from tempose.numerics.layout import rows
        from tempose.numerics.potential import gradient

        state, axes = rows(len(point.state)), list(self.precision.axes.shifts)
        state[:] = point.state
        normal = rng.standard_normal((len(state), len(axes)))
        noise = self.precision.spread(model or self.model, point.state, normal) / math.sqrt(self.beta)
        for a in axes:
            state[:, 4 + a] += np.where(self.held[:, 3 + a], 0.0, noise[:, a])
        potential = gradient(self.posterior.edge_blocks, state, self.posterior.workspace(), rows(len(state)))
        return state[:, :4], state[:, 4:7], float(potential)

    def chain(self, arrays: dict[str, Array], kicks: int, thin: int, turn: float = TURN) -> CollapsedChain:
        """A chain that begins at, or goes on from, a state."""
        return CollapsedChain(self, arrays["y"], kicks, thin, turn)


class CollapsedChain:
    """A running chain; see :class:`tempose.sampling.sampler.Chain`."""

    def __init__(self, target: CollapsedTarget, y: Array, kicks: int, thin: int, turn: float = TURN) -> None:
        self.target, self.kicks, self.thin, self.turn = target, kicks, thin, turn
        self.point = target.at(y)

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        return {"y": self.point.y}

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw."""
        accepted, gradients = 0.0, 0
        for _ in range(self.thin):
            kicks = self.choose_kicks(rng)
            accepted += self.sweep(rng, kicks) / self.thin
            gradients += kicks
        wxyz, position, potential = self.draw_positions(rng)
        return Draw(wxyz, position, potential, accepted, gradients)

    def choose_kicks(self, rng: np.random.Generator) -> int:
        """Kicks of the next trajectory: now and then, at random, many."""
        careful = self.target.careful and rng.integers(CAREFUL) == 0
        return self.kicks * (CAREFULLY if careful else 1)

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
        velocity, turn, level = self.begin(rng)
        return self.end(*self.propose(velocity, turn, kicks), level)

    def begin(self, rng: np.random.Generator) -> tuple[Array, float, float]:
        """The random numbers of a trajectory: velocity, time, and the level that decides on acceptance."""
        velocity = rng.standard_normal(len(self.point.y))
        return velocity, self.turn * (1.0 + JITTER * rng.uniform(-1.0, 1.0)), rng.random()

    def end(self, point: Point, error: float, level: float) -> float:
        """Accept or reject where a trajectory has led; return the probability of acceptance."""
        probability = math.exp(min(0.0, -error)) if not math.isnan(error) else 0.0
        if level < probability:
            self.point = point
        return probability

    def propose(self, velocity: Array, turn: float, kicks: int) -> tuple[Point, float]:
        """Follow the dynamics for a time; return where it ends and by how much its energy has grown."""
        point, v = self.follow(velocity, turn, kicks)
        return point, energy(point, v) - energy(self.point, velocity)


def energy(point: Point, velocity: Array) -> float:
    """The Hamiltonian."""
    from tempose.sampling._kernels import half_square

    return float(point.remainder + half_square(point.y, velocity))


def advance_together(chains: Sequence[CollapsedChain], rngs: Sequence[np.random.Generator]) -> list[Draw]:
    """The next draw of each chain, all of one target: what :meth:`CollapsedChain.advance` makes, to the same bits, and faster."""
    target, thin = chains[0].target, chains[0].thin
    accepted, gradients = [0.0] * len(chains), [0] * len(chains)
    for _ in range(thin):
        kicks = [chain.choose_kicks(rng) for chain, rng in zip(chains, rngs, strict=True)]
        if min(kicks) < max(kicks):
            rates = [chain.trajectory(rng, count) for chain, rng, count in zip(chains, rngs, kicks, strict=True)]
        else:
            begun = [chain.begin(rng) for chain, rng in zip(chains, rngs, strict=True)]
            velocities, turns, levels = map(list, zip(*begun, strict=True))
            ends = target.follow_all([chain.point for chain in chains], velocities, turns, kicks[0])
            rates = [
                chain.end(point, energy(point, v) - energy(chain.point, velocity), level)
                for chain, (point, v), velocity, level in zip(chains, ends, velocities, levels, strict=True)
            ]
        for k in range(len(chains)):
            accepted[k] += rates[k] / thin
            gradients[k] += kicks[k]
    return [
        Draw(*chain.draw_positions(rng), accepted[k], gradients[k])
        for k, (chain, rng) in enumerate(zip(chains, rngs, strict=True))
    ]


def kick_plan(turn: float, kicks: int, *, small: bool = True) -> tuple[Array, Array]:
    r"""Times :math:`t_0 = 0 \dots t_k = T` of the kicks of a turn T, and their weights :math:`w_0 \dots w_k`.

    To first order in W the energy error of a trajectory is that of the quadrature :math:`\sum_j w_j \dot W(t_j)` for
    :math:`\int \dot W\,dt` along the exact turn. For a cubic W, its leading term, :math:`\dot W` has the frequencies 1 and 3; so
    from two kicks on the trapezoidal weights get the smallest change that integrates these exactly. What is quartic, and what is
    quadratic because the Hessian elsewhere is another, adds 2 and 4: where W is ``small``, the first and last part of three or more
    are a little shorter, which takes much of the error of 2 away. (Weights that integrate 2 exactly are further from equal, and
    fail where a few directions are stiff, as in large graphs.) Where W is not small, equal parts are better. Times and weights are
    symmetric, so the trajectory is reversible.
    """
    times = np.linspace(0.0, turn, kicks + 1)
    if small and kicks >= 3:
        end = SHORTER * turn / kicks
        times[1:-1] = np.linspace(end, turn - end, kicks - 1)
    return times, _weights(times, (1.0, 3.0) if kicks > 1 else ())


def _weights(times: Array, frequencies: tuple[float, ...]) -> Array:
    """Trapezoidal weights with the smallest change that integrates cosines about the middle exactly."""
    part, turn = np.diff(times), float(times[-1])
    weights: Array = 0.5 * (np.append(part, 0.0) + np.append(0.0, part))
    done: list[tuple[Array, float, float]] = []  # orthogonal combinations of the cosines, their squares and integrals
    for frequency in frequencies:
        cosine, integral = np.cos(frequency * (times - 0.5 * turn)), 2.0 * math.sin(0.5 * frequency * turn) / frequency
        for other, square, its in done:
            along = math.fsum(cosine * other) / square
            cosine, integral = cosine - along * other, integral - along * its
        square = math.fsum(cosine * cosine)
        weights = weights + (integral - math.fsum(cosine * weights)) / square * cosine
        done.append((cosine, square, integral))
    return weights


@dataclass(frozen=True, eq=False)
class CollapsedSampler:
    """Chains of splitting HMC on the rotations; see the module."""

    target: CollapsedTarget
    kicks: int
    thin: int = 1
    warmup: int = WARMUP
    turn: float = TURN
    name: str = "collapsed"

    def settings(self) -> dict[str, object]:
        """What decides the draws."""
        return {"kicks": self.kicks, "turn": self.turn, "thin": self.thin, "warmup": self.warmup}

    def start(self, rng: np.random.Generator) -> Chain:
        """A chain that starts at a draw of the Gaussian approximation, shrunk if it would leave the chart."""
        return self.target.chain({"y": inside(self.target, rng)}, self.kicks, self.thin, self.turn)

    def resume(self, arrays: dict[str, Array]) -> Chain:
        """A chain that goes on from :meth:`CollapsedChain.arrays`."""
        return self.target.chain(arrays, self.kicks, self.thin, self.turn)

    def advance(self, chains: Sequence[Any], rngs: Sequence[np.random.Generator]) -> list[Draw]:
        """The next draw of each of several chains: at the same time, if nothing but the place tells their targets apart."""
        if self.target.goes_together:
            return advance_together(chains, rngs)
        return [chain.advance(rng) for chain, rng in zip(chains, rngs, strict=True)]


def inside(target: CollapsedTarget, rng: np.random.Generator) -> Array:
    """Whitened coordinates drawn from the Gaussian approximation, shrunk if they would leave the chart."""
    factor, turns = target.laplace.factor, list(target.precision.axes.turns)
    y = rng.standard_normal(factor.symbolic.block * len(target.held))
    x = factor.solve_Lt(y).reshape(len(target.held), -1)[:, : len(turns)] / math.sqrt(target.beta)
    angle = float(np.linalg.norm(np.where(target.held[:, turns], 0.0, x), axis=1).max(initial=0.0))
    return y * min(1.0, 1.0 / max(angle, 1e-300))


def tune_target(
    target: CollapsedTarget, seed: int, *, thin: int = 1, warmup: int = WARMUP, longest: float = LONGEST
) -> Tuned:
    """The sampler with the kicks and the turn that pilot chains, side by side, found best, and how well it was accepted there.

    With acceptance a, a fraction ``a / (2 − a)`` of independent proposals is effective. That per kick decides, times a once
    more, because acceptance varies from place to place: where it is low a chain sticks, and its worst coordinates with it.

    A draw that is rejected is the last one again, so that draws a quarter of a turn apart have the correlation 1 − a. Where that
    matters, and W is small, turns of three kicks or more, whose parts are short, are longer (:func:`longer_turn`), up to
    ``longest``, if pilots find that worth it: the product of the effective draws of means and of squares decides.
    """
    streams_ = [streams.generator(seed, "tune", k) for k in range(PILOTS)]
    pilots = [(target.chain({"y": inside(target, rng)}, 1, 1), rng) for rng in streams_]

    def judge(kicks: int, trajectories: int, turn: float = TURN) -> float:
        def rates(pilot: tuple[CollapsedChain, np.random.Generator]) -> list[float]:
            chain, rng = pilot
            chain.turn = turn
            return [chain.sweep(rng, kicks) for _ in range(trajectories // PILOTS)]

        return float(np.mean(list(on_threads(rates, pilots))))

    for kicks in KICKS[3:]:  # until it moves, then to equilibrium
        if (moved := judge(kicks, GLANCE)) > 0.5:
            break
    if moved > 0.1:
        judge(kicks, PILOT // 2)
    best, acceptance, merit = KICKS[-1], 0.0, -1.0
    for kicks in KICKS if moved > 0.1 else ():
        if merit * kicks >= 1.0:  # more cannot be worth more, were all accepted
            break
        if judge(kicks, GLANCE) < 0.5 * LEAST_ACCEPTANCE:
            continue
        rate = judge(kicks, PILOT)
        worth = rate**2 / (2.0 - rate) / kicks
        if rate >= LEAST_ACCEPTANCE and worth > merit:
            best, acceptance, merit = kicks, rate, worth
        if rate > 0.9:
            break
    turn = TURN
    if target.is_small and best >= 3 and longest > TURN and 0.0 < acceptance < RARELY_REJECTED:
        longer = min(longer_turn(acceptance), longest)
        rate = judge(best, PILOT, longer)
        if rate >= LEAST_ACCEPTANCE and math.prod(efficiency(rate, longer)) > math.prod(efficiency(acceptance, TURN)):
            turn, acceptance = min(longer_turn(rate), longest), rate
    return Tuned(CollapsedSampler(target, best, thin, warmup, turn), acceptance)


def longer_turn(acceptance: float) -> float:
    r"""The turn φ at which a chain's draws, rejected ones among them, are uncorrelated: :math:`1 - a + a \cos\varphi = 0`."""
    return math.acos(max(1.0 - 1.0 / acceptance, -1.0))


def efficiency(acceptance: float, turn: float) -> tuple[float, float]:
    """Effective draws a draw of coordinates, and of their squares, for a Gaussian, were acceptance the same everywhere."""
    wide = JITTER * turn
    first = math.cos(turn) * math.sin(wide) / wide  # the mean of cos over the jitter, and of cos²
    second = 0.5 + 0.5 * math.cos(2.0 * turn) * math.sin(2.0 * wide) / (2.0 * wide)
    kept = (1.0 - acceptance + acceptance * one for one in (first, second))
    means, squares = ((1.0 - one) / (1.0 + one) for one in kept)
    return means, squares


def axes_of(graph: PoseGraph) -> Axes:
    """The axes of a graph in space, or in the plane."""
    from tempose.numerics.chart import PLANE, SPACE

    return PLANE if graph.is_planar else SPACE


def widest_edge(laplace: Laplace) -> float:
    """Largest standard deviation per axis of the rotation along an edge that measures it, radians."""
    graph = laplace.curvature.posterior.graph
    measured = graph.mean_concentration > 0.0
    variance = np.einsum("maa->m", laplace.edge_covariances()[measured, :3, :3]) / (1.0 if graph.is_planar else 3.0)
    return math.sqrt(float(variance.max(initial=0.0)))


def frame_of(laplace: Laplace, farthest: float = FARTHEST) -> Frame:
    """What stands still in the chart at an optimum; ``farthest`` as in :meth:`Laplace.rotation_frame`.

    Landmarks have no rotation that could turn with the others: they are in a component of their own.
    """
    from tempose.numerics.chart import Frame

    graph = laplace.curvature.posterior.graph
    component = np.where(graph.is_landmark, graph.n_components, graph.component)
    return Frame(component, laplace.rotation_frame(farthest), graph.n_components + 1)


class PositionPrecision:
    """The precision C of the positions given the rotations, for any weights of the edges.

    Parameters
    ----------
    posterior, held
        The problem, and which coordinates (n, 6) do not move.
    wxyz
        Rotations (n, 4), those of the optimum: where C is meant if it depends on them.

    Attributes
    ----------
    of_edges
        Mean precision along the axes (m,) of each translation.
    is_scalar
        Whether all translations have one precision in all directions, so that C is the same (n, n) for each axis.
    is_turning
        Whether C depends on the rotations: some translation that has not was measured in axes that can turn.
    """

    def __init__(self, posterior: Posterior, held: Mask, wxyz: Array) -> None:
        graph = posterior.graph
        self.axes = axes_of(graph)
        d = len(self.axes.shifts)
        self.wxyz, self.free = np.array(wxyz), np.where(held, 0.0, 1.0)
        self.matrices = graph.translation_precision_matrices
        self.of_edges = _scalars(self.matrices[:, :d, :d])
        spread = np.abs(self.matrices[:, :d, :d] - self.of_edges[:, None, None] * np.eye(d)).max(
            axis=(1, 2), initial=0.0
        )
        uneven = spread > 1e-12 * np.abs(self.of_edges)
        self.is_scalar = not np.any(uneven)
        # a node that is held for the gauge only turns with the frame of the chart
        still = held[:, self.axes.turns].all(axis=1) & tied_components(graph)[graph.component]
        self.is_turning = bool(np.any(uneven & ~still[graph.edge_j]))
        self.held = held[:, 3]
        joins = ~self.held[graph.edge_i] & ~self.held[graph.edge_j]
        known = np.flatnonzero(graph.has_translation)
        self.edges = known[np.argsort(~joins[known], kind="stable")]  # those between free positions first
        self.ends = graph.edge_i[self.edges], graph.edge_j[self.edges]
        if self.is_scalar:
            self.laplacian = Laplacian(graph.n_nodes, graph.edge_i, graph.edge_j, self.held)
            self.symbolic = self.laplacian.symbolic
        else:
            self.pairs = int(joins[known].sum())
            i, j = (end[: self.pairs] for end in self.ends)
            self.symbolic = analyze(graph.n_nodes, i, j, block=d)

    def factor(self, weights: Array | float = 1.0, state: Array | None = None) -> Factor:
        """Cholesky factor with the precision of every edge multiplied by its weight (m,), at rotations ``state`` (n, ≥ 4)."""
        if self.is_scalar:
            return self.laplacian.factor(weights * self.of_edges)
        return self._factor(self._translations(weights), self.wxyz if state is None else state)

    def is_definite(self, weights: Array, state: Array | None = None) -> bool:
        """Whether positions are determined in all directions, given that all nodes are tied to one that is held."""
        if self.is_scalar:
            return True
        try:
            self._factor(self._translations(weights), self.wxyz if state is None else state, margin=1e-12)
        except NotPositiveDefiniteError:
            return False
        return True

    def _factor(self, turning: Turning, state: Array, margin: float = 0.0) -> Factor:
        from tempose.sampling._kernels import position_blocks, turn_precisions

        d = len(self.axes.shifts)
        diagonal, off = np.empty((len(self.held), d, d)), np.empty((self.pairs, d, d))
        turned = np.empty_like(turning.precision)
        turn_precisions(turning, state, turned)
        position_blocks(self.axes, turning, turned, self.free, diagonal, off)
        return self.symbolic.factor(diagonal, off, shift=-margin * float(diagonal.max(initial=0.0)))

    def panels(self, weights: Array | float = 1.0) -> Panels:
        """The same at the optimum, for many solves."""
        from tempose.numerics.sparse.repeated import panels

        return panels(self.factor(weights), lanes=self.is_scalar)

    def turning(self, weights: Array | float = 1.0) -> Turning:
        """What C is made of at any rotations; nothing if it does not depend on them."""
        return self._translations(weights, self.is_turning)

    def _translations(self, weights: Array | float, wanted: bool = True) -> Turning:
        from tempose.numerics.sparse.repeated import pattern
        from tempose.sampling._kernels import Turning

        edges = self.edges if wanted else self.edges[:0]
        weighted = (np.broadcast_to(weights, len(self.matrices))[:, None, None] * self.matrices)[edges]
        source, target = (end[: len(edges)] for end in self.ends)
        return Turning(pattern(self.symbolic), source, target, np.ascontiguousarray(weighted))

    def spread(self, model: Model, state: Array, normal: Array) -> Array:
        """``C⁻¹ᐟ²`` times standard normal numbers (n, d): what positions differ by from their mean, given rotations, at β = 1."""
        from tempose.numerics.sparse.repeated import solve_lanes, solve_Lt

        if self.is_turning:
            return self._factor(model.turning, state).solve_Lt(normal.reshape(-1)).reshape(normal.shape)
        if self.is_scalar:
            return solve_lanes(model.positions, normal, forward=False)
        return solve_Lt(model.positions, normal.reshape(-1)).reshape(normal.shape)


def _scalars(precision: Array) -> Array:
    return np.asarray(np.einsum("maa->m", precision) / precision.shape[-1])
