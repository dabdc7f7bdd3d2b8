r"""The collapsed sampler where edges may be wrong: which ones are is drawn along with the poses.

With a robust likelihood, positions given rotations are no Gaussian; but they are one given, too, which edges are inliers and
what the factor w of each is (:mod:`tempose.model.robust`), and both can be drawn exactly given the poses. So a draw is three:

1. the weights of the edges given the poses: 0 with probability :math:`1 - \gamma`, else 1, or, with a heavy-tailed core,
   :math:`w \sim \varepsilon + \Gamma(\tfrac{\nu + d}2, \tfrac\nu2 + e)`;
2. a trajectory of :mod:`tempose.sampling.collapsed` for the rotations in the ordinary problem of these weights;
3. the positions given both.

The metric is that of the expected weights at the optimum, so that its Gaussian and the target no longer share the precision
of the positions. Only at β = 1: a tempered mixture is none. Weights that leave a node without any translation would leave it
anywhere; they are refused, so the draws are those of the posterior given that the inliers hold the graph together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tempose._typing import Array
from tempose.errors import NotApplicable
from tempose.numerics.sparse import NotPositiveDefiniteError
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.outliers.estimate import kept_problem
from tempose.sampling.collapsed import TURN, CollapsedChain, CollapsedTarget, Point, frame_of
from tempose.sampling.sampler import Cause

if TYPE_CHECKING:
    from tempose.sampling._kernels import Model


@dataclass(frozen=True, eq=False)
class Given:
    """The ordinary problem that is left when the weights of the edges are known."""

    weights: Array  # (m,)
    model: Model


class RobustTarget(CollapsedTarget):
    """W and its gradient, given weights of the edges."""

    goes_together = False
    is_small = False  # weights are others than those of the metric: W is quadratic

    def __init__(self, laplace: Laplace) -> None:
        self.posterior = laplace.curvature.posterior
        self._made_of = (laplace,)
        assert self.posterior.likelihood is not None
        self.likelihood = self.posterior.likelihood
        expected = self.likelihood.weight(self.posterior.energies(laplace.poses))
        metric = _metric(laplace)
        # one node stands still: with heavy tails no rotation of another is out of reach
        self._around(metric, expected, frame_of(metric, 0.0))
        self.expected = self.given(expected)

    def given(self, weights: Array) -> Given:
        """The ordinary problem of these weights."""
        turns = self.precision.is_turning
        model = self.model._replace(
            blocks=self.posterior.weighted_blocks(weights),
            positions=self.model.metric if turns else self.precision.panels(weights),
            turning=self.precision.turning(weights),
            is_metric=False,
        )
        return Given(weights, model)

    def at(self, y: Array, model: Model | None = None) -> Point:
        """Evaluate the target; with the expected weights if none are given."""
        return super().at(y, model or self.expected.model)

    def draw_weights(self, wxyz: Array, position: Array, before: Given, rng: np.random.Generator) -> Given:
        """Weights of the edges given poses; those of before if the new ones do not hold the graph together."""
        from tempose.numerics.layout import rows

        state, likelihood = rows(len(wxyz)), self.likelihood
        state[:, :4], state[:, 4:7] = wxyz, position
        energy = self.posterior.energies_of(state)
        weights = np.where(rng.random(len(energy)) < likelihood.moving_probability(energy), 1.0, 0.0)
        weights *= likelihood.draw_weights(energy, rng)
        lost = (weights == 0.0) & (before.weights > 0.0)
        return before if np.any(lost) and not self.holds_together(weights, wxyz) else self.given(weights)

    def holds_together(self, weights: Array, wxyz: Array | None = None) -> bool:
        """Whether every node is still tied to one that is held."""
        from tempose.sampling._kernels import all_tied

        precision, graph = self.precision, self.posterior.graph
        together = bool(all_tied(graph.edge_i, graph.edge_j, weights * precision.of_edges, precision.held))
        return together and precision.is_definite(weights, wxyz)

    def chain(self, arrays: dict[str, Array], kicks: int, thin: int, turn: float = TURN) -> CollapsedChain:
        """A chain that begins at, or goes on from, a state."""
        return RobustChain(self, arrays, kicks, thin, turn)


class RobustChain(CollapsedChain):
    """A running chain with weights of the edges."""

    target: RobustTarget

    def __init__(
        self, target: RobustTarget, arrays: dict[str, Array], kicks: int, thin: int, turn: float = TURN
    ) -> None:
        self.given = target.given(arrays["weights"]) if "weights" in arrays else target.expected
        super().__init__(target, arrays["y"], kicks, thin, turn)
        self.point = self.evaluate(arrays["y"])
        self.position = arrays["position"] if "position" in arrays else self.point.state[:, 4:7].copy()

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        return {"y": self.point.y, "weights": self.given.weights, "position": self.position}

    def evaluate(self, y: Array) -> Point:
        """The target with the weights as they are now."""
        return self.target.at(y, self.given.model)

    def follow(self, velocity: Array, turn: float, kicks: int) -> tuple[Point, Array]:
        """Where the dynamics with the weights as they are now leads in a time, and the velocity there."""
        return self.target.follow(self.point, velocity, turn, kicks, self.given.model)

    def sweep(self, rng: np.random.Generator, kicks: int) -> float:
        """Weights, a trajectory, positions; return the probability that the trajectory is accepted."""
        self.given = self.target.draw_weights(self.point.state[:, :4], self.position, self.given, rng)
        self.point = self.evaluate(self.point.y)
        probability = self.trajectory(rng, kicks)
        self.drawn = self.target.draw_positions(self.point, rng, self.given.model)
        self.position = self.drawn[1].copy()
        return probability

    def draw_positions(self, rng: np.random.Generator) -> tuple[Array, Array, float]:
        """Quaternions, positions and U of a draw: those that the last sweep ended with."""
        return self.drawn


def _metric(laplace: Laplace) -> Laplace:
    """The Gaussian of the ordinary problem with the expected weights of the edges at the optimum."""
    if laplace.beta != 1.0:
        raise NotApplicable(
            f"the sampler collapsed cannot integrate the positions out: wrong edges at β = {laplace.beta:g}, so that the "
            "posterior is no mixture; use the sampler geodesic-mh (or auto, which chooses it)",
            cause=Cause.TEMPERED_MIXTURE,
        )
    try:
        return Laplace(Curvature(kept_problem(laplace.curvature.posterior, laplace.poses)), laplace.poses)
    except NotPositiveDefiniteError:
        raise NotApplicable(
            "the sampler collapsed cannot integrate the positions out: the kept edges have no strict minimum, so that there "
            "is no metric; use the sampler geodesic-mh (or auto, which chooses it)",
            cause=Cause.LOOSE_WITHOUT_WRONG_EDGES,
        ) from None
