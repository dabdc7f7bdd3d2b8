"""One chain of TG-MCMC: a state on (S³ × ℝ³)ⁿ that is pushed forward by a compiled scheme."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tempose._typing import Array
from tempose.dynamics.options import COORDINATES
from tempose.dynamics.schemes import Scheme
from tempose.errors import OptionError
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior


@dataclass(frozen=True)
class Dynamics:
    """How a chain moves.

    Parameters
    ----------
    scheme
        Order of the steps and kind of noise.
    step
        Step size h.
    friction
        Friction c; ``c·h`` is the damping per step.
    beta
        Inverse temperature; ``inf`` optimises.
    coordinates
        One of :data:`tempose.dynamics.options.COORDINATES`.
    batch
        Edges per stochastic gradient, drawn with replacement and reweighted (unbiased); 0 uses them all.
    """

    scheme: Scheme
    step: float
    friction: float
    beta: float = 1.0
    coordinates: str = "position"
    batch: int = 0

    def __post_init__(self) -> None:
        if self.coordinates not in COORDINATES:
            raise OptionError(f"unknown coordinates {self.coordinates!r}: choose one of {', '.join(COORDINATES)}")
        if self.batch < 0:
            raise OptionError(f"a minibatch of {self.batch} edges makes no sense; use 0 for all edges")
        self.operations  # noqa: B018  (validates step, friction and beta)

    @cached_property
    def operations(self) -> Array:
        """The scheme compiled for the kernels."""
        return self.scheme.operations(self.step, self.friction, self.beta)


@dataclass(frozen=True)
class ChainState:
    """All that is needed to continue a chain to the same bits."""

    wxyz: Array  # (n, 4) world_from_node
    position: Array  # (n, 3)
    velocity: Array  # (n, 6) world-frame u with tangent vector u ⊗ a, then the translation's velocity
    step: int  # steps taken: the counter of the random stream


def inverse_masses(graph: PoseGraph, given: Array) -> Array:
    """Inverse masses (n, 2) with zeros for rotations and positions that cannot change: infinitely heavy."""
    movable = np.stack([graph.free[:, :3].any(axis=1), graph.free[:, 3:].any(axis=1)], axis=1)
    return np.ascontiguousarray(np.where(movable, given, 0.0), float)


class Momentum:
    """Masses of the coordinates that can change, for fresh velocities and the kinetic energy ``½ vᵀMv``."""

    def __init__(self, graph: PoseGraph, inverse_mass: Array) -> None:
        inverse = np.repeat(inverse_masses(graph, inverse_mass), 3, axis=1) * graph.free
        with np.errstate(divide="ignore"):
            self._mass = 1.0 / inverse  # infinite where nothing moves
        self.mass: Array = np.where(graph.free, self._mass, 0.0)

    def draw(self, rng: np.random.Generator, beta: float | Array, count: tuple[int, ...] = ()) -> Array:
        """Velocities (*count, n, 6) from their equilibrium ``N(0, M⁻¹/β)``; ``beta`` broadcasts."""
        return np.asarray(rng.standard_normal((*count, *self._mass.shape)) / np.sqrt(beta * self._mass))

    def kinetic(self, velocity: Array) -> float:
        """Kinetic energy of velocities (n, 6)."""
        return 0.5 * float(np.sum(self.mass * velocity**2))


class GeodesicChain:
    """A running chain.

    Parameters
    ----------
    posterior
        What to sample or minimise.
    start
        Initial poses in the graph's node order, or a :class:`ChainState` to continue from.
    key
        Random stream (2,), see :mod:`tempose._support.streams`.
    inverse_mass
        Inverse masses (n, 2) of rotation and translation of each node; ones in the paper. What a node does not have, or
        what is held, does not move, whatever its mass.
    """

    def __init__(
        self,
        posterior: Posterior,
        start: Poses | ChainState,
        key: NDArray[np.uint64],
        inverse_mass: Array | None = None,
    ) -> None:
        from tempose.numerics.layout import rows

        n = posterior.graph.n_nodes
        self.posterior = posterior
        self.key = key
        self.inverse_mass = inverse_masses(posterior.graph, np.ones((n, 2)) if inverse_mass is None else inverse_mass)
        if isinstance(start, Poses):
            start = ChainState(start.wxyz, start.position, np.zeros((n, 6)), 0)
        self._state = rows(n)
        self._wxyz, self._position = self._state[:, :4], self._state[:, 4:7]
        self._wxyz[:], self._position[:] = start.wxyz, start.position
        self._velocity = start.velocity.copy()
        self._step = start.step
        self._gradient = rows(n)
        self._fresh = False
        self._work = posterior.workspace()

    @property
    def state(self) -> ChainState:
        """A copy of the current state."""
        return ChainState(self._wxyz.copy(), self._position.copy(), self._velocity.copy(), self._step)

    def restore(self, state: ChainState) -> None:
        """Go back (or on) to a state."""
        self._wxyz[:], self._position[:], self._velocity[:] = state.wxyz, state.position, state.velocity
        self._step = state.step
        self._fresh = False

    @property
    def velocity(self) -> Array:
        """The velocities (n, 6), to be read or overwritten."""
        return self._velocity

    @property
    def poses(self) -> Poses:
        """The current poses."""
        return Poses(self.posterior.graph.node_ids, self._wxyz, self._position)

    def current(self) -> tuple[Array, Array]:
        """Views of the current quaternions (n, 4) and positions (n, 3): valid until the next step."""
        return self._wxyz, self._position

    def potential(self) -> float:
        """U at the current poses (with all edges)."""
        from tempose.numerics.layout import rows

        return self.posterior.gradient_into(self._state, self._work, rows(len(self._state)))

    def thermalise(self, beta: float) -> None:
        """Draw fresh velocities from their equilibrium ``N(0, M⁻¹/β)``, on a lane of the stream of its own."""
        from tempose.numerics.random import fill_normals

        z = np.empty((len(self._wxyz), 6))
        fill_normals(self.key[0], self.key[1], self._step, 1 << 19, z)
        scale = np.repeat(np.sqrt(self.inverse_mass / beta), 3, axis=1)
        self._velocity[:] = scale * z * self.posterior.graph.free

    def stop_motion(self) -> None:
        """Set all velocities to zero."""
        self._velocity[:] = 0.0

    def run(self, dynamics: Dynamics, steps: int) -> Array:
        """Advance by ``steps``; return U at the last gradient of each step (an estimate of it with minibatches)."""
        from tempose.numerics import steps as geodesic

        energies = np.full(steps, np.nan)
        parallel = self.posterior.runs_parallel and dynamics.batch == 0
        advance = geodesic.advance_parallel if parallel else geodesic.advance
        table = self.posterior.full_edge_table if dynamics.batch else geodesic.NO_TABLE
        # a full gradient is a function of the state alone, so a resumed chain may recompute it; a stochastic one is not
        fresh = self._fresh and not dynamics.batch
        self._fresh = bool(
            advance(
                self.posterior.edge_blocks, table, dynamics.operations, self._step, steps,
                self._state, self._velocity, self._gradient, fresh, self.inverse_mass, self.key,
                dynamics.coordinates == "paper", self.posterior.graph.is_planar, self._work,
                np.empty((dynamics.batch, 2), np.int64), energies,
            )
        )  # fmt: skip
        self._fresh = self._fresh and not dynamics.batch
        self._step += steps
        return energies
