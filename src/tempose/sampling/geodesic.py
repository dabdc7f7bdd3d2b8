"""The geodesic splitting schemes as samplers: unadjusted, as in the paper, and Metropolis-adjusted.

The adjusted one (for adjusted versions of each scheme see :mod:`tempose.sampling.adjusted`) is Hamiltonian Monte Carlo
on (S³ × ℝ³)ⁿ: fresh velocities from ``N(0, M⁻¹/β)``, then some steps
kick(h/2), geodesic(h), kick(h/2), each of which is reversible and preserves the product of the sphere's area and Lebesgue
measure, then acceptance with probability ``min(1, exp(−β ΔE))``, ``E = U + ½ vᵀMv``. It needs no chart, no Hessian at
the optimum that means anything, no isotropy and no flat prior: slower than :mod:`tempose.sampling.collapsed`, never wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tempose._support import streams
from tempose._typing import Array
from tempose.dynamics.chain import ChainState, Dynamics, GeodesicChain, Momentum
from tempose.dynamics.schemes import Scheme
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.laplace import Laplace
from tempose.sampling.sampler import Chain, Draw, Tuned

TARGET = 0.8  # acceptance the step is tuned to
PILOT = 80  # trajectories
PILOT_STEPS = 60  # at most, per trajectory
MOST_STEPS = 1_000
SETTLING = (0.1, 0.25, 0.5, 1.0)  # shares of the step with which a new chain comes to equilibrium
WARMUP = 25


def _random_key(rng: np.random.Generator) -> NDArray[np.uint64]:
    return rng.integers(0, 1 << 32, 2, dtype=np.uint64)


def state_arrays(state: ChainState) -> dict[str, Array]:
    """A state as named arrays, for a checkpoint."""
    return {
        "wxyz": state.wxyz, "position": state.position, "velocity": state.velocity, "step": np.array(float(state.step))
    }  # fmt: skip


def _state(arrays: dict[str, Array]) -> ChainState:
    return ChainState(arrays["wxyz"], arrays["position"], arrays["velocity"], int(arrays["step"]))


@dataclass(frozen=True, eq=False)
class GeodesicStart:
    """What all these samplers need: the posterior, where to start, the masses."""

    posterior: Posterior
    center: Poses
    laplace: Laplace | None  # chains start at its draws, else at the centre
    inverse_mass: Array
    dynamics: Dynamics
    thin: int = 1
    warmup: int = WARMUP

    def _begin(self, rng: np.random.Generator) -> GeodesicChain:
        start = self.center if self.laplace is None else self.laplace.spread(rng)
        chain = GeodesicChain(self.posterior, start, _random_key(rng), self.inverse_mass)
        chain.thermalise(self.dynamics.beta)
        return chain

    def _continue(self, arrays: dict[str, Array]) -> GeodesicChain:
        key = np.zeros(2, dtype=np.uint64)  # replaced before the first step
        return GeodesicChain(self.posterior, _state(arrays), key, self.inverse_mass)


@dataclass(frozen=True, eq=False)
class GeodesicSampler(GeodesicStart):
    """TG-MCMC: ``thin`` steps of a splitting scheme from draw to draw, all accepted, so with an error of its step."""

    name: str = "geodesic"

    def settings(self) -> dict[str, object]:
        """What decides the draws."""
        d = self.dynamics
        return {
            "scheme": d.scheme.name, "noise": d.scheme.noise, "letters": d.scheme.letters, "step": d.step,
            "friction": d.friction, "coordinates": d.coordinates, "batch": d.batch, "thin": self.thin,
            "warmup": self.warmup,
        }  # fmt: skip

    def start(self, rng: np.random.Generator) -> Chain:
        """A new chain."""
        return SchemeChain(self, self._begin(rng))

    def resume(self, arrays: dict[str, Array]) -> Chain:
        """A chain that goes on from a state."""
        return SchemeChain(self, self._continue(arrays))


class SchemeChain:
    """A running chain of :class:`GeodesicSampler`."""

    def __init__(self, sampler: GeodesicSampler, chain: GeodesicChain) -> None:
        self.sampler, self.chain = sampler, chain

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        return state_arrays(self.chain.state)

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw."""
        self.chain.key = _random_key(rng)
        self.chain.run(self.sampler.dynamics, self.sampler.thin)
        return Draw(*self.chain.current(), self.chain.potential(), 1.0, self.sampler.thin)


@dataclass(frozen=True, eq=False)
class MetropolisSampler(GeodesicStart):
    """Geodesic Hamiltonian Monte Carlo with about ``steps`` steps a trajectory, ``thin`` trajectories a draw."""

    steps: int = 10
    name: str = "geodesic-mh"

    def settings(self) -> dict[str, object]:
        """What decides the draws."""
        return {
            "step": self.dynamics.step, "steps": self.steps, "coordinates": self.dynamics.coordinates,
            "thin": self.thin, "warmup": self.warmup,
        }  # fmt: skip

    def start(self, rng: np.random.Generator) -> MetropolisChain:
        """A new chain, brought to typical energies: from the bottom of a wide posterior a full step is never accepted."""
        chain = MetropolisChain(self, self._begin(rng))
        for share in SETTLING:
            chain.leapfrog = replace(chain.leapfrog, step=share * self.dynamics.step)
            chain.steps = min(self.steps, PILOT_STEPS)
            for _ in range(PILOT // len(SETTLING)):
                chain.trajectory(rng)
        return MetropolisChain(self, chain.chain, chain.potential)

    def resume(self, arrays: dict[str, Array]) -> MetropolisChain:
        """A chain that goes on from a state."""
        return MetropolisChain(self, self._continue(arrays), float(arrays["potential"]))


class MetropolisChain:
    """A running chain of :class:`MetropolisSampler`."""

    def __init__(self, sampler: MetropolisSampler, chain: GeodesicChain, potential: float | None = None) -> None:
        self.sampler, self.chain = sampler, chain
        self.potential = chain.potential() if potential is None else potential
        self.momentum = Momentum(sampler.posterior.graph, sampler.inverse_mass)
        # "obabo" without friction is kick, geodesic, kick; β → ∞ takes its noise away
        d = sampler.dynamics
        self.leapfrog = replace(d, scheme=Scheme("obabo"), friction=0.0, beta=math.inf)
        self.beta, self.steps = d.beta, sampler.steps

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        return {**state_arrays(self.chain.state), "potential": np.array(self.potential)}

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw."""
        taken = [self.trajectory(rng) for _ in range(self.sampler.thin)]
        acceptance = sum(probability for probability, _ in taken) / len(taken)
        gradients = sum(count for _, count in taken)
        return Draw(*self.chain.current(), self.potential, acceptance, gradients)

    def trajectory(self, rng: np.random.Generator) -> tuple[float, int]:
        """Propose and accept or reject; return the probability of acceptance and the number of gradients."""
        chain = self.chain
        chain.velocity[:] = self.momentum.draw(rng, self.beta)
        steps = int(rng.integers(-(-self.steps // 2), self.steps + self.steps // 2 + 1))
        level = rng.random()
        before, potential = chain.state, self.potential
        error = self.propose(steps)
        probability = math.exp(min(0.0, -error)) if math.isfinite(error) else 0.0
        if not level < probability:
            chain.restore(before)
            self.potential = potential
        return probability, steps

    def propose(self, steps: int) -> float:
        """Follow the dynamics; return by how much βE has grown."""
        before = self.potential + self.momentum.kinetic(self.chain.velocity)
        self.potential = float(self.chain.run(self.leapfrog, steps)[-1])
        return self.beta * (self.potential + self.momentum.kinetic(self.chain.velocity) - before)


class DualAveraging:
    """A step size on its way to a wanted acceptance: Hoffman & Gelman (2014), with their constants.

    Steps are at most twice the first; :attr:`step` is the next to try, :attr:`average_step` what to keep.
    """

    def __init__(self, step: float, target: float) -> None:
        self.target = target
        self._first = self._log = math.log(step)
        self._most = self._first + math.log(2.0)
        self._count, self._lag, self._average = 0, 0.0, 0.0

    @property
    def step(self) -> float:
        """The step to try next."""
        return math.exp(self._log)

    @property
    def average_step(self) -> float:
        """The weighted mean of all steps tried."""
        return math.exp(self._average)

    def learn(self, rate: float) -> None:
        """Take in the acceptance that the last step had."""
        self._count += 1
        k = self._count
        self._lag += (self.target - rate - self._lag) / (k + 10.0)
        self._log = min(self._most - math.sqrt(k) / 0.05 * self._lag, self._most)
        weight = k**-0.75
        self._average = weight * self._log + (1.0 - weight) * self._average


def tune_metropolis(sampler: MetropolisSampler, slowest: float, seed: int) -> Tuned:
    """Tune the step to an acceptance of :data:`TARGET` by dual averaging, and the trajectory to the slowest mode.

    ``slowest`` is the frequency of that mode: a quarter of its period takes it from one draw to an independent one.
    """
    rng = streams.generator(seed, "tune", 1)
    chain = sampler.start(rng)
    wanted = 0.5 * math.pi / slowest
    averaging, rates = DualAveraging(sampler.dynamics.step, TARGET), []
    for _ in range(PILOT):
        chain.leapfrog = replace(chain.leapfrog, step=averaging.step)
        chain.steps = int(np.clip(wanted / averaging.step, 1, PILOT_STEPS))
        rates.append(chain.trajectory(rng)[0])
        averaging.learn(rates[-1])
    step = averaging.average_step
    steps = int(np.clip(math.ceil(wanted / step), 1, MOST_STEPS))
    tuned = replace(sampler, dynamics=replace(sampler.dynamics, step=step), steps=steps)
    return Tuned(tuned, float(np.mean(rates[PILOT // 2 :])))
