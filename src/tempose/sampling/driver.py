"""Several chains of any sampler, written to disk as they go."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
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
from tempose.sampling.sampler import Chain, Draw, Sampler
from tempose.sampling.stretches import Packed, stretches

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
    executor: Executor | None = None,
) -> Draws:
    """Run (or continue) the chains of a plan in ``directory``; return all draws made so far.

    The random numbers of a draw are a function of seed, chain and the draw's number, whatever the ``threads`` do, by default
    one per core. Nothing on the way to a draw is left to a library of linear algebra, which would start threads of its own
    that fight with these. ``stop`` ends the run after the current draw; what was drawn is kept and a later call with the
    same plan goes on where it ended, to the same bits.

    With an ``executor`` chains run on its workers, a stretch of some seconds at a time (:mod:`tempose.sampling.stretches`), and
    draws come back to ``directory``: the same bytes, and what was begun in one way can be gone on with in the other. ``stop`` ends
    the run after the current stretches.
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

    packed = None if executor is None else Packed.of(sampler)

    def parts_of(stream: int, first: int, last: int, state: dict[str, Array] | None) -> Iterator[_Part]:
        chain = None
        if state is not None:
            chain = _resumed(sampler, state, streams.generator(plan.seed, "start", stream), directory)
        if packed is None or executor is None:
            return _here(sampler, chain, plan.seed, stream, first, last, stop)
        return _there(packed, executor, plan.seed, stream, first, last, state, stop)

    def run_chain(number: int) -> None:
        stream, wanted = plan.first_chain + number, plan.counts[number]
        writer = DrawWriter(directory, number, posterior.graph.n_nodes, mark, wanted)
        state = writer.open()
        try:
            made = 0 if state is None else sampler.warmup + writer.n_draws
            is_warm, saved, arrays = False, 0.0, None
            if state is not None:
                warmed(sampler.warmup)
                drawn(writer.n_draws)
                is_warm, saved = True, time.monotonic()
            for draws, count, arrays in parts_of(stream, made, sampler.warmup + wanted, state):
                made += count
                warmed(count - len(draws))
                for k, draw in enumerate(draws, made - len(draws)):
                    writer.append(draw)
                    if hook is not None:
                        poses = Poses(posterior.graph.node_ids, draw.wxyz, draw.position)
                        hook(Watch("sample", stream, k, draw.potential, plan.beta, poses))
                    drawn(1)
                if made >= sampler.warmup and (not is_warm or time.monotonic() - saved > _CHECKPOINT_SECONDS):
                    writer.checkpoint(arrays())
                    is_warm, saved = True, time.monotonic()
            if is_warm and arrays is not None:
                writer.checkpoint(arrays())
        finally:
            writer.close()

    if executor is not None:
        _on_threads(
            run_chain, chains, max(1, len(chains)), stop
        )  # they wait; how many workers there are, the executor knows
        return read_draws(directory)
    if posterior.runs_parallel or len(chains) == 1:
        for number in chains:
            run_chain(number)
    else:
        posterior.potential(
            Poses.identity(posterior.graph.node_ids)
        )  # compile and build tables once, before the threads
        _on_threads(run_chain, chains, max(1, min(len(chains), threads or cores())), stop)
    return read_draws(directory)


def _on_threads(run_chain: Callable[[int], None], chains: list[int], threads: int, stop: threading.Event) -> None:
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(run_chain, number) for number in chains]
        try:
            wait(futures)
        except KeyboardInterrupt:
            stop.set()
            raise
        for future in futures:
            future.result()


_Part = tuple[Sequence[Draw], int, Callable[[], dict[str, Array]]]
"""Some draws of a chain, how many were made with those of the warm-up, and what gives the state after them."""


def _here(
    sampler: Sampler, chain: Chain | None, seed: int, stream: int, first: int, last: int, stop: threading.Event
) -> Iterator[_Part]:
    """A chain in this process, a draw at a time."""
    if chain is None:
        chain = sampler.start(streams.generator(seed, "start", stream))
    for number in range(first, last):
        if stop.is_set():
            return
        draw = chain.advance(streams.of_draw(seed, stream, number))
        yield (draw,) if number >= sampler.warmup else (), 1, chain.arrays


def _there(
    packed: Packed, executor: Executor, seed: int, stream: int, first: int, last: int, state: dict[str, Array] | None,
    stop: threading.Event,
) -> Iterator[_Part]:  # fmt: skip
    """A chain on an executor, a stretch at a time."""
    if stop.is_set():
        return
    for made in stretches(packed, executor, seed, stream, first, last, state):
        yield made.draws, made.count, functools.partial(dict, made.state)
        if stop.is_set():
            return


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
