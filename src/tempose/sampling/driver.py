"""Several chains of any sampler, written to disk as they go."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.files import make_directory
from tempose._support.parallel import cores
from tempose._support.progress import DRAWING, WARM_UP, ProgressHook, counted, silent
from tempose._typing import Array
from tempose.dynamics.descent import Hook, Watch
from tempose.errors import DrawsError
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.sampling.draws import Draws, DrawWriter, read_draws, write_description
from tempose.sampling.sampler import Chain, Sampler

_CHECKPOINT_SECONDS = 1.0


@dataclass(frozen=True)
class SamplingPlan:
    """What decides the draws, apart from the posterior and the sampler.

    ``draws_per_chain`` is one number for all chains, or one for each. Random numbers are those of chains from ``first_chain``.
    """

    beta: float
    chains: int
    draws_per_chain: int | tuple[int, ...]
    seed: int
    first_chain: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Draws of each chain."""
        each = self.draws_per_chain
        return (each,) * self.chains if isinstance(each, int) else each


def sample(
    posterior: Posterior,
    sampler: Sampler,
    plan: SamplingPlan,
    directory: Path,
    *,
    description: dict[str, object] | None = None,
    progress: ProgressHook = silent,
    hook: Hook | None = None,
    stop: threading.Event | None = None,
    threads: int | None = None,
) -> Draws:
    """Run (or continue) the chains of a plan in ``directory``; return all draws made so far.

    The random numbers of a draw are a function of seed, chain and the draw's number, whatever the ``threads`` do, by default
    one per core. Nothing on the way to a draw is left to a library of linear algebra, which would start threads of its own
    that fight with these. ``stop`` ends the run after the current draw; what was drawn is kept and a later call with the
    same plan goes on where it ended, to the same bits.
    """
    mark = write_description(
        make_directory(directory),
        {
            "ids": list(posterior.graph.node_ids),
            "beta": plan.beta,
            "chains": plan.chains,
            "draws_per_chain": list(plan.counts),
            "seed": plan.seed,
            "sampler": sampler.name,
            **sampler.settings(),
            **(description or {}),
        },
    )
    stop = stop or threading.Event()
    chains = [number for number, count in enumerate(plan.counts) if count]
    warmed = counted(progress, WARM_UP, len(chains) * sampler.warmup)
    drawn = counted(progress, DRAWING, sum(plan.counts))

    def run_chain(number: int) -> None:
        stream, wanted = plan.first_chain + number, plan.counts[number]
        writer = DrawWriter(directory, number, posterior.graph.n_nodes, mark, wanted)
        arrays = writer.open()
        try:
            if arrays is None:
                chain = sampler.start(streams.generator(plan.seed, "start", stream))
                for k in range(sampler.warmup):
                    if stop.is_set():
                        return
                    chain.advance(streams.of_draw(plan.seed, stream, k))
                    warmed(1)
                writer.checkpoint(chain.arrays())
            else:
                warmed(sampler.warmup)
                chain = _resumed(sampler, arrays, streams.generator(plan.seed, "start", stream), directory)
            drawn(writer.n_draws)
            saved = time.monotonic()
            while writer.n_draws < wanted and not stop.is_set():
                made = sampler.warmup + writer.n_draws
                draw = chain.advance(streams.of_draw(plan.seed, stream, made))
                writer.append(draw)
                if hook is not None:
                    poses = Poses(posterior.graph.node_ids, draw.wxyz, draw.position)
                    hook(Watch("sample", stream, made, draw.potential, plan.beta, poses))
                if time.monotonic() - saved > _CHECKPOINT_SECONDS:
                    writer.checkpoint(chain.arrays())
                    saved = time.monotonic()
                drawn(1)
            writer.checkpoint(chain.arrays())
        finally:
            writer.close()

    if posterior.runs_parallel or len(chains) == 1:
        for number in chains:
            run_chain(number)
    else:
        posterior.potential(
            Poses.identity(posterior.graph.node_ids)
        )  # compile and build tables once, before the threads
        with ThreadPoolExecutor(max(1, min(len(chains), threads or cores()))) as pool:
            futures = [pool.submit(run_chain, number) for number in chains]
            try:
                wait(futures)
            except KeyboardInterrupt:
                stop.set()
                raise
            for future in futures:
                future.result()
    return read_draws(directory)


def _resumed(sampler: Sampler, arrays: dict[str, Array], rng: np.random.Generator, directory: Path) -> Chain:
    """A chain that goes on from a state, which must be like that of a new chain: kernels look at no shapes."""
    usual = sampler.start(rng).arrays()
    alike = arrays.keys() == usual.keys() and all(
        array.shape == np.shape(usual[name]) and array.dtype == np.asarray(usual[name]).dtype
        for name, array in arrays.items()
    )
    try:
        if alike:
            return sampler.resume(arrays)
    except (IndexError, ValueError, OverflowError):
        pass
    raise DrawsError(f"{directory}: a checkpoint there is not one of this sampler; draw anew with --overwrite")
