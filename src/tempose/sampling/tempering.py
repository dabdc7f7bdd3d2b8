r"""Parallel tempering: replicas at falling β exchange places, so that a draw at the wanted β finds its way between modes.

The joint target of the replicas is :math:`\prod_k e^{-\beta_k U(x_k)}`, :math:`\beta_0` the wanted one. A sweep moves each
replica by one trajectory of geodesic Hamiltonian Monte Carlo at its own β (:mod:`tempose.sampling.geodesic`) and then
exchanges neighbours k and k + 1 with probability

.. math:: \min\bigl(1, e^{(\beta_k - \beta_{k+1})(U_k - U_{k+1})}\bigr),

the even pairs in one sweep, the odd ones in the next. Every move leaves the joint target as it is, so what is at
:math:`\beta_0` comes from the tempered posterior exactly, whatever the ladder. With the pairs in turn a replica goes up and
down the ladder in about as many sweeps as there are rungs (Syed, Bouchard-Côté, Deligiannidis & Doucet, *Non-reversible
parallel tempering*, JRSS B 2022).

**The ladder** is found by pilot sweeps. At its hot end an edge may turn over: its energy can rise by no more than
:math:`\lambda + 2\tau|t|^2`, and :math:`\beta` times the median of that over the edges is :data:`HOTTEST`. Between, rungs are
placed where neighbours are refused equally often, and there are as many as give the acceptance :data:`SWAPS`: about
:math:`\sqrt{d/2\pi}\,\log(\beta_0/\beta_{hot}) / (1 - \text{SWAPS})` in d dimensions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tempose._support import streams
from tempose._typing import Array, Index
from tempose.dynamics.chain import Momentum, inverse_masses
from tempose.errors import NotApplicable
from tempose.model import topology
from tempose.model.posterior import Posterior
from tempose.numerics.layout import DRIFT, VELOCITY
from tempose.sampling.geodesic import SETTLING, TARGET, MetropolisSampler
from tempose.sampling.sampler import Draw

HOTTEST = 4.0  # energy, in units of 1/β, that turning an edge over costs at the hot end
SWAPS = 0.5  # acceptance of an exchange
MOST_RUNGS = 400
MOST_STEPS = 15  # per trajectory: a replica has many of them on its way up and down
PILOT = (30, 60, 120)  # sweeps of each round of tuning
THIN_PER_RUNG = 0.5  # sweeps per draw: a replica needs about as many as there are rungs to the hot end and back
WARMUP = 25  # draws
SETTLE = 80  # trajectories at the start of a chain


@dataclass(frozen=True, eq=False)
class TemperingSampler:
    """Replicas on a ladder of β; the draws are those of the first rung.

    Parameters
    ----------
    rungs
        One geodesic sampler per β, the wanted β first, then falling.
    thin, warmup
        Sweeps per draw, and draws thrown away at the start.
    """

    rungs: tuple[MetropolisSampler, ...]
    thin: int = 1
    warmup: int = 0
    name: str = "tempering"

    @property
    def betas(self) -> Array:
        """Inverse temperatures, falling."""
        return np.array([rung.dynamics.beta for rung in self.rungs])

    def settings(self) -> dict[str, object]:
        """What decides the draws."""
        return {
            "betas": self.betas.tolist(), "steps": [rung.steps for rung in self.rungs],
            "step": [rung.dynamics.step for rung in self.rungs], "coordinates": self.rungs[0].dynamics.coordinates,
            "thin": self.thin, "warmup": self.warmup,
        }  # fmt: skip

    def start(self, rng: np.random.Generator) -> TemperingChain:
        """A new chain: all replicas near the optimum, brought to the energies of their β."""
        base = self.rungs[0]
        starts = [base.center if base.laplace is None else base.laplace.spread(rng) for _ in self.rungs]
        chain = TemperingChain(self, np.stack([s.wxyz for s in starts]), np.stack([s.position for s in starts]))
        chain.settle(rng)
        return chain

    def resume(self, arrays: dict[str, Array]) -> TemperingChain:
        """A chain that goes on from a state."""
        return TemperingChain(self, arrays["wxyz"], arrays["position"], arrays["potential"], int(arrays["parity"]))


class TemperingChain:
    """The replicas of one chain; see :class:`tempose.sampling.sampler.Chain`.

    Parameters
    ----------
    wxyz, position
        Poses (rungs, n, 4) and (rungs, n, 3) of the replica at each rung.
    potential
        U of each (rungs,), if known.
    parity
        Which pairs of neighbours are next: even (0) or odd (1).
    """

    def __init__(
        self, sampler: TemperingSampler, wxyz: Array, position: Array, potential: Array | None = None, parity: int = 0
    ) -> None:
        from tempose.numerics.layout import rows

        self.sampler, self.parity = sampler, parity
        base, (count, n) = sampler.rungs[0], wxyz.shape[:2]
        self.posterior = base.posterior
        self.betas = sampler.betas
        self.momentum = Momentum(base.posterior.graph, base.inverse_mass)
        self.inverse_mass = inverse_masses(base.posterior.graph, base.inverse_mass)
        self.steps = np.array([rung.steps for rung in sampler.rungs])
        self.step = np.array([rung.dynamics.step for rung in sampler.rungs])
        self._state = rows(count * n).reshape(count, n, 8)
        self._state[:, :, :4], self._state[:, :, 4:7] = wxyz, position
        self._gradient, self._work = rows(n), base.posterior.workspace()
        self.potential = (
            np.array([self.posterior.gradient_into(one, self._work, self._gradient) for one in self._state])
            if potential is None
            else potential.copy()
        )

    def arrays(self) -> dict[str, Array]:
        """What the chain continues from."""
        state = self._state
        return {
            "wxyz": state[:, :, :4].copy(), "position": state[:, :, 4:7].copy(), "potential": self.potential.copy(),
            "parity": np.array(float(self.parity)),
        }  # fmt: skip

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw."""
        accepted, gradients = 0.0, 0
        for _ in range(self.sampler.thin):
            rates, count = self.sweep(rng)
            accepted += float(rates[0]) / self.sampler.thin
            gradients += count
        first = self._state[0]
        return Draw(first[:, :4].copy(), first[:, 4:7].copy(), float(self.potential[0]), accepted, gradients)

    def sweep(self, rng: np.random.Generator) -> tuple[Array, int]:
        """Move every replica, exchange; return the acceptance of each rung's move and the number of gradients."""
        rates, gradients = self.move(rng)
        accept = self.exchange_rates()
        for k in range(self.parity, len(accept), 2):
            if rng.random() < accept[k]:
                pair, swapped = [k, k + 1], [k + 1, k]
                self._state[pair], self.potential[pair] = self._state[swapped], self.potential[swapped]
        self.parity = 1 - self.parity
        return rates, gradients

    def move(self, rng: np.random.Generator, share: float = 1.0) -> tuple[Array, int]:
        """One trajectory of each replica, with a share of its step; the same as :mod:`tempose.sampling.geodesic`."""
        from tempose.numerics.steps import advance_replicas

        before, potential = self._state.copy(), np.empty_like(self.potential)
        velocity = self.momentum.draw(rng, self.betas[:, None, None], (len(before),))
        steps = rng.integers(-(-self.steps // 2), self.steps + self.steps // 2 + 1)
        level = rng.random(len(before))
        energy = self.potential + self._kinetic(velocity)
        advance_replicas(
            self.posterior.edge_blocks, leapfrogs(share * self.step), steps, self._state,
            velocity, self.inverse_mass, self._gradient, self._work, potential,
        )  # fmt: skip
        error = self.betas * (potential + self._kinetic(velocity) - energy)
        rates = np.exp(np.minimum(0.0, -np.where(np.isfinite(error), error, np.inf)))
        refused = ~(level < rates)
        self._state[refused] = before[refused]
        self.potential = np.where(refused, self.potential, potential)
        return rates, int(steps.sum())

    def settle(self, rng: np.random.Generator) -> None:
        """Come to typical energies with short steps: from the bottom of a wide posterior a full one is never accepted."""
        for share in SETTLING:
            for _ in range(SETTLE // len(SETTLING)):
                self.move(rng, share)

    def exchange_rates(self) -> Array:
        """Probability (rungs − 1,) that neighbours would be exchanged."""
        return np.asarray(np.exp(np.minimum(0.0, np.diff(self.betas) * np.diff(self.potential))))

    def _kinetic(self, velocity: Array) -> Array:
        return np.asarray(0.5 * np.einsum("na,kna->k", self.momentum.mass, velocity**2))


def leapfrogs(step: Array) -> Array:
    """Kick, geodesic, kick (rungs, 3, 4) for the kernels, of each step."""
    ops = np.zeros((len(step), 3, 4))
    ops[:, ::2, 0], ops[:, 1, 0] = VELOCITY, DRIFT
    ops[:, ::2, 1] = 1.0
    ops[:, ::2, 2] = 0.5 * step[:, None]
    ops[:, 1, 1] = step
    return ops


def hottest(posterior: Posterior, beta: float) -> float:
    """The β at which an ordinary edge may turn over, at most ``beta``."""
    graph = posterior.graph
    turned = np.linalg.eigvalsh(graph.concentration_matrices)[:, -1]
    axes = np.full(graph.n_edges, 3.0) if graph.translation_precision.ndim == 1 else np.maximum(graph.ranks[1], 1.0)
    mean = np.einsum("maa->m", graph.translation_precision_matrices) / axes
    shift = mean * np.sum(np.nan_to_num(graph.j_from_i_t) ** 2, axis=1)
    return min(beta, HOTTEST / max(float(np.median(turned + 2.0 * shift)), 1e-300))


def first_guess(posterior: Posterior, beta: float) -> tuple[int, float]:
    """How many rungs a Gaussian of as many dimensions would need, and the logarithm of the ladder's range.

    Raises
    ------
    NotApplicable
        If they are too many, or hot replicas would get lost.
    """
    if posterior.likelihood is not None and not _held_together(posterior):
        raise NotApplicable(
            "tempering does not work with a robust likelihood of translations: no edge holds a hot replica, and it never "
            "comes back; use another sampler, and --starts to see the Gaussian odds of other modes"
        )
    span = math.log(beta / hottest(posterior, beta))
    return _rungs(math.sqrt(int(posterior.graph.free.sum()) / (2.0 * math.pi)) * span), span


def _held_together(posterior: Posterior) -> bool:
    """Whether edges that are certainly right hold every node that has a place at all."""
    graph, likelihood = posterior.graph, posterior.likelihood
    sure = graph.has_translation if likelihood is None else graph.has_translation & (likelihood.prior == 1.0)
    parts = topology.components(graph.n_nodes, graph.edge_i[sure], graph.edge_j[sure])
    return len(np.unique(parts)) == len(np.unique(graph.position_component))


def tune_tempering(
    cold: MetropolisSampler, slowest: float, seed: int, *, thin: int | None = None, warmup: int | None = None
) -> TemperingSampler:
    """Find the ladder and each rung's step by pilot sweeps.

    Parameters
    ----------
    cold
        The tuned sampler at the wanted β.
    slowest
        Frequency of the slowest mode, which decides how long a trajectory is.
    """
    rng = streams.generator(seed, "tune", 2)
    beta = cold.dynamics.beta
    rungs, span = first_guess(cold.posterior, beta)
    log_betas = math.log(beta) - span * np.linspace(0.0, 1.0, rungs)
    log_steps = np.full(rungs, math.log(cold.dynamics.step))
    wanted = 0.5 * math.pi / slowest
    chain: TemperingChain | None = None
    for sweeps in PILOT:
        sampler = _ladder(cold, log_betas, log_steps, wanted)
        chain = sampler.start(rng) if chain is None else _moved(sampler, chain)
        accept = np.zeros(rungs - 1)
        for k in range(1, sweeps + 1):
            rates, _ = chain.sweep(rng)
            log_steps += (rates - TARGET) / math.sqrt(k)
            np.minimum(log_steps, math.log(2.0 * cold.dynamics.step), out=log_steps)
            chain.step, chain.steps = np.exp(log_steps), _steps(wanted, log_steps)
            accept += chain.exchange_rates() / sweeps
        barrier = np.concatenate([[0.0], np.cumsum(1.0 - accept)])
        rungs = _rungs(float(barrier[-1]))
        place = np.interp(np.linspace(0.0, barrier[-1], rungs), barrier, np.arange(len(barrier)))
        log_betas, log_steps = (np.interp(place, np.arange(len(barrier)), x) for x in (log_betas, log_steps))
    sampler = _ladder(cold, log_betas, log_steps, wanted)
    return replace(sampler, thin=thin or math.ceil(THIN_PER_RUNG * rungs), warmup=WARMUP if warmup is None else warmup)


def recorded_tempering(cold: MetropolisSampler, settings: dict[str, Any]) -> TemperingSampler:
    """The sampler of :meth:`TemperingSampler.settings`."""
    rungs = tuple(
        replace(cold, dynamics=replace(cold.dynamics, beta=beta, step=step), steps=steps)
        for beta, step, steps in zip(settings["betas"], settings["step"], settings["steps"], strict=True)
    )
    return TemperingSampler(rungs, settings["thin"], settings["warmup"])


def _rungs(barrier: float) -> int:
    """How many rungs a sum of refusals along the ladder asks for."""
    rungs = max(2, math.ceil(barrier / (1.0 - SWAPS)) + 1)
    if rungs > MOST_RUNGS:
        raise NotApplicable(
            f"tempering would need about {rungs} inverse temperatures for this graph (at most {MOST_RUNGS}): it is too "
            "large or too precise; look for modes from several starts instead (--starts 20 --sampler jumping)"
        )
    return rungs


def _steps(wanted: float, log_steps: Array) -> Index:
    return np.clip(np.ceil(wanted / np.exp(log_steps)), 1, MOST_STEPS).astype(np.int64)


def _ladder(cold: MetropolisSampler, log_betas: Array, log_steps: Array, wanted: float) -> TemperingSampler:
    counts = _steps(wanted, log_steps).tolist()
    rungs = tuple(
        replace(
            cold,
            dynamics=replace(cold.dynamics, beta=math.exp(b) if k else cold.dynamics.beta, step=math.exp(h)),
            steps=count,
        )
        for k, (b, h, count) in enumerate(zip(log_betas.tolist(), log_steps.tolist(), counts, strict=True))
    )
    return TemperingSampler(rungs)


def _moved(sampler: TemperingSampler, old: TemperingChain) -> TemperingChain:
    """The replicas of a chain on another ladder, each at the rung next to its own."""
    nearest = np.abs(np.log(sampler.betas)[:, None] - np.log(old.betas)).argmin(axis=1)
    arrays = old.arrays()
    return TemperingChain(sampler, *(arrays[name][nearest] for name in ("wxyz", "position", "potential")))
