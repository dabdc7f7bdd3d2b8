"""Several chains of TG-MCMC at finite β, written to disk as they go."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempose import streams
from tempose.inference.chain import Dynamics, GeodesicChain
from tempose.inference.draws import Draws, DrawWriter, read_draws, write_description
from tempose.inference.optimise import Hook, Watch
from tempose.optimum.covariance import Laplace
from tempose.poses import Poses
from tempose.posterior import Posterior

Array = NDArray[np.float64]

_CHECKPOINT_SECONDS = 1.0


@dataclass(frozen=True)
class SamplingPlan:
    """Everything that decides the draws, apart from graph and priors."""

    dynamics: Dynamics
    chains: int
    draws_per_chain: int
    thin: int  # steps between kept draws
    warmup: int  # steps before the first
    seed: int


def sample(
    posterior: Posterior,
    center: Poses,
    plan: SamplingPlan,
    directory: Path,
    *,
    inverse_mass: Array | None = None,
    laplace: Laplace | None = None,
    description: dict[str, object] | None = None,
    on_draw: Callable[[int], None] | None = None,
    hook: Hook | None = None,
    stop: threading.Event | None = None,
) -> Draws:
    """Run (or continue) the chains of a plan in ``directory``; return all draws made so far.

    Chains start at ``center``, each spread by the Gaussian approximation if ``laplace`` is given, so that they are
    near equilibrium and independent from the first step. ``stop`` ends the run after the current draw; what was drawn
    is kept and a later call with the same plan goes on where it ended, to the same bits.
    """
    directory.mkdir(parents=True, exist_ok=True)
    n = posterior.graph.n_nodes
    write_description(
        directory,
        {
            "ids": list(posterior.graph.node_ids),
            "beta": plan.dynamics.beta,
            "chains": plan.chains,
            "draws_per_chain": plan.draws_per_chain,
            "seed": plan.seed,
            "thin": plan.thin,
            "warmup": plan.warmup,
            "scheme": plan.dynamics.scheme.name,
            "noise": plan.dynamics.scheme.noise,
            "step": plan.dynamics.step,
            "friction": plan.dynamics.friction,
            "coordinates": plan.dynamics.coordinates,
            "batch": plan.dynamics.batch,
            **(description or {}),
        },
    )
    stop = stop or threading.Event()

    def run_chain(number: int) -> None:
        writer = DrawWriter(directory, number, n)
        state = writer.open()
        key = streams.key(plan.seed, "chain", number)
        if state is None:
            start = center
            if laplace is not None:
                start = laplace.spread(streams.generator(plan.seed, "start", number))
            chain = GeodesicChain(posterior, start, key, inverse_mass)
            chain.thermalise(plan.dynamics.beta)
            writer.checkpoint(chain.state)
        else:
            chain = GeodesicChain(posterior, state, key, inverse_mass)
        if on_draw is not None:
            on_draw(writer.n_draws)
        saved = time.monotonic()
        try:
            while writer.n_draws < plan.draws_per_chain and not stop.is_set():
                chain.run(plan.dynamics, plan.thin + (plan.warmup if writer.n_draws == 0 else 0))
                value = chain.potential()
                writer.append(*chain.current(), value)
                if hook is not None:
                    hook(Watch("sample", number, chain.state.step, value, plan.dynamics.beta, chain.poses))
                if time.monotonic() - saved > _CHECKPOINT_SECONDS:
                    writer.checkpoint(chain.state)
                    saved = time.monotonic()
                if on_draw is not None:
                    on_draw(1)
            writer.checkpoint(chain.state)
        finally:
            writer.close()

    if posterior.runs_parallel or plan.chains == 1:
        for number in range(plan.chains):
            run_chain(number)
    else:
        posterior.gradient_at(center.wxyz, center.position)  # compile and build tables once, before the threads
        with ThreadPoolExecutor(min(plan.chains, os.cpu_count() or 1)) as pool:
            futures = [pool.submit(run_chain, number) for number in range(plan.chains)]
            try:
                wait(futures)
            except KeyboardInterrupt:
                stop.set()
                raise
            for future in futures:
                future.result()
    return read_draws(directory)
