"""Metropolis-adjusted versions of the splitting schemes: generalised Hamiltonian Monte Carlo on (S³ × ℝ³)ⁿ.

Repeated, a scheme is an endless word, and where it is cut into steps does not matter for what it samples. Cut before its
friction: ``baoab`` is O, then A B A; ``aboba`` is O, then B A B; ``boa`` is O, then B A (Langevin letters, half steps of a
letter merged). O is the exact Ornstein–Uhlenbeck step, which leaves ``exp(−βE)``, ``E = U + ½ vᵀMv``, alone. What follows
is deterministic and preserves volume; it is accepted with probability ``min(1, exp(−β ΔE))``, and where it is not, the
chain stays and its velocity is turned round (Horowitz 1991): that makes the pair exact at any step size.

The test needs a move that, velocities turned round, is its own inverse. A B A and B A B are. B A is not: its inverse
is A B, so a fair coin decides the order, and each is the other's way back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tempose._support import streams
from tempose._typing import Array
from tempose.dynamics.chain import GeodesicChain, Momentum
from tempose.dynamics.schemes import Scheme
from tempose.errors import OptionError
from tempose.sampling.geodesic import DualAveraging, GeodesicStart, state_arrays
from tempose.sampling.sampler import Draw
from tempose.sampling.tuning import MOST_THINNING

TARGET = 0.95  # acceptance of a single step: every refusal turns the chain back
PILOT = 400  # steps
WARMUP = 10


def after_friction(scheme: str) -> str:
    """The letters of a scheme that follow its friction, cyclically: ``abba`` of ``baoab``.

    Raises
    ------
    OptionError
        If the scheme has friction in several places.
    """
    name = Scheme(scheme, letters="langevin").name
    first = name.index("o")
    turned = (name[first:] + name[:first]).lstrip("o")
    if "o" in turned.rstrip("o"):
        raise OptionError(
            f"scheme {scheme!r} has friction in several places, so no Metropolis test fits between: use baoab, aboba or boa"
        )
    return turned.rstrip("o")


@dataclass(frozen=True, eq=False)
class AdjustedSampler(GeodesicStart):
    """A splitting scheme with a Metropolis test at each step, ``thin`` steps a draw."""

    scheme: str = "baoab"

    @property
    def name(self) -> str:
        """As in :data:`tempose.sampling.options.SAMPLERS`."""
        return f"{self.scheme}-mh"

    def settings(self) -> dict[str, object]:
        """What decides the draws."""
        d = self.dynamics
        return {
            "scheme": self.scheme, "step": d.step, "friction": d.friction, "coordinates": d.coordinates,
            "thin": self.thin, "warmup": self.warmup,
        }  # fmt: skip

    def start(self, rng: np.random.Generator) -> AdjustedChain:
        """A new chain."""
        return AdjustedChain(self, self._begin(rng))

    def resume(self, arrays: dict[str, Array]) -> AdjustedChain:
        """A chain that goes on from a state."""
        return AdjustedChain(self, self._continue(arrays), float(arrays["potential"]))


class AdjustedChain:
    """A running chain of :class:`AdjustedSampler`."""

    def __init__(self, sampler: AdjustedSampler, chain: GeodesicChain, potential: float | None = None) -> None:
        self.sampler, self.chain = sampler, chain
        self.potential = chain.potential() if potential is None else potential
        self.momentum = Momentum(sampler.posterior.graph, sampler.inverse_mass)
        self.beta = sampler.dynamics.beta
        letters = after_friction(sampler.scheme)
        self.orders = [letters] if letters == letters[::-1] else [letters, letters[::-1]]
        self.set_step(sampler.dynamics.step)

    def set_step(self, step: float) -> None:
        """Change the step size; at friction zero and β → ∞ the O that a scheme must have does nothing."""
        d = self.sampler.dynamics
        self.decay = math.exp(-d.friction * step)
        self.moves = [
            replace(d, scheme=Scheme(order + "o", letters="langevin"), step=step, friction=0.0, beta=math.inf)
            for order in self.orders
        ]

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        return {**state_arrays(self.chain.state), "potential": np.array(self.potential)}

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw."""
        taken = [self.step(rng) for _ in range(self.sampler.thin)]
        acceptance = sum(probability for probability, _ in taken) / len(taken)
        return Draw(*self.chain.current(), self.potential, acceptance, sum(count for _, count in taken))

    def step(self, rng: np.random.Generator) -> tuple[float, int]:
        """Friction and noise, then a move that is accepted or turned back; its probability, gradients evaluated."""
        chain = self.chain
        noise = math.sqrt((1.0 - self.decay**2) / self.beta)
        chain.velocity[:] = self.decay * chain.velocity + noise * self.momentum.draw(rng, 1.0)
        which, level = int(rng.integers(len(self.moves))), rng.random()
        before, potential = chain.state, self.potential
        error, gradients = self.propose(which)
        probability = math.exp(min(0.0, -error)) if math.isfinite(error) else 0.0
        if not level < probability:
            chain.restore(replace(before, velocity=-before.velocity))
            self.potential = potential
        return probability, gradients

    def propose(self, which: int) -> tuple[float, int]:
        """Make a move; return by how much βE has grown, and how many gradients that took."""
        before = self.potential + self.momentum.kinetic(self.chain.velocity)
        at_last_kick = float(self.chain.run(self.moves[which], 1)[-1])
        ends_with_kick = self.orders[which][-1] == "b"
        self.potential = at_last_kick if ends_with_kick else self.chain.potential()
        return self.beta * (
            self.potential + self.momentum.kinetic(self.chain.velocity) - before
        ), 1 if ends_with_kick else 2


def tune_adjusted(sampler: AdjustedSampler, slowest: float, seed: int) -> AdjustedSampler:
    """Tune the step to an acceptance of :data:`TARGET`, and the steps between draws to the slowest mode's frequency."""
    rng = streams.generator(seed, "tune", 2)
    chain = sampler.start(rng)
    averaging = DualAveraging(sampler.dynamics.step, TARGET)
    for _ in range(PILOT):
        chain.set_step(averaging.step)
        averaging.learn(chain.step(rng)[0])
    step = averaging.average_step
    thin = sampler.thin or int(np.clip(math.ceil(3.0 / (slowest * step)), 1, MOST_THINNING))
    return replace(sampler, dynamics=replace(sampler.dynamics, step=step), thin=thin)
