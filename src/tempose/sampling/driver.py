"""Several chains of any sampler, written to disk as they go."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.files import make_directory
from tempose._support.parallel import cores
from tempose._support.progress import DRAWING, WARM_UP, ProgressHook, counted, silent
from tempose._typing import Array, NodeId
from tempose.dynamics.descent import Hook, Watch
from tempose.errors import DrawsError
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.sampling.draws import Draws, DrawWriter, read_draws, write_description
from tempose.sampling.sampler import Chain, Draw, Sampler, SideBySide
from tempose.sampling.stretches import Packed, stretches

Step = tuple[Chain, np.random.Generator]
"""A chain that is to be advanced, and the random numbers of its next draw."""
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
    one per core; a thread with two chains or more takes them two at a time. Nothing on the way to a draw is left to a library of
    linear algebra, which would start threads of its own that fight with these. ``stop`` ends the run after the current draw;
    what was drawn is kept and a later call with the same plan goes on where it ended, to the same bits.

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

    def record_of(number: int) -> _Record:
        return _Record(
            DrawWriter(directory, number, posterior.graph.n_nodes, mark, plan.counts[number]),
            sampler.warmup, plan.first_chain + number, plan.beta, posterior.graph.node_ids, warmed, drawn, hook,
        )  # fmt: skip

    def resumed(record: _Record) -> Chain | None:
        if record.state is None:
            return None
        return _resumed(sampler, record.state, streams.generator(plan.seed, "start", record.stream), directory)

    def asking(number: int) -> Generator[Step, Draw, None]:
        """Ask for one draw after the other, and write what comes."""
        with closing(record_of(number)) as record:
            chain = resumed(record) or sampler.start(streams.generator(plan.seed, "start", record.stream))
            for k in range(record.made, sampler.warmup + plan.counts[number]):
                if stop.is_set():
                    break
                draw = yield chain, streams.of_draw(plan.seed, record.stream, k)
                record.take((draw,) if k >= sampler.warmup else (), 1, chain.arrays)
            record.end()

    def run_together(numbers: Sequence[int]) -> None:
        """Chains side by side on one thread."""
        with ExitStack() as stack:
            running = [stack.enter_context(closing(asking(number))) for number in numbers]
            asked = [(one, step) for one in running if (step := next(one, None)) is not None]
            while asked:
                draws = _advance(sampler, [step for _, step in asked])
                sent = [(one, _send(one, draw)) for (one, _), draw in zip(asked, draws, strict=True)]
                asked = [(one, step) for one, step in sent if step is not None]

    if executor is not None:
        packed = Packed.of(sampler)

        def run_there(numbers: Sequence[int]) -> None:
            """A chain on the executor, a stretch at a time."""
            (number,) = numbers
            with closing(record_of(number)) as record:
                resumed(record)  # if that can be: a worker's word would be another
                last = sampler.warmup + plan.counts[number]
                parts = stretches(packed, executor, plan.seed, record.stream, record.made, last, record.state)
                while not stop.is_set() and (made := next(parts, None)) is not None:
                    record.take(made.draws, made.count, functools.partial(dict, made.state))
                record.end()

        # they wait; how many workers there are, the executor knows
        _on_threads(run_there, [[number] for number in chains], max(1, len(chains)), stop)
        return read_draws(directory)
    threads = max(1, min(len(chains), threads or cores()))
    one_by_one = posterior.runs_parallel and not isinstance(sampler, SideBySide)  # each gradient takes all cores
    if one_by_one or len(chains) == 1:
        for number in chains:
            run_together([number])
    else:
        posterior.potential(
            Poses.identity(posterior.graph.node_ids)
        )  # compile and build tables once, before the threads
        size = 2 if len(chains) >= 2 * threads else 1
        _on_threads(run_together, [chains[k : k + size] for k in range(0, len(chains), size)], threads, stop)
    return read_draws(directory)


class _Record:
    """What is written of one chain, and told.

    Attributes
    ----------
    state
        That it goes on from; ``None`` for a new chain.
    made
        Draws so far, with those of the warm-up.
    """

    def __init__(
        self, writer: DrawWriter, warmup: int, stream: int, beta: float, ids: tuple[NodeId, ...],
        warmed: Callable[[int], None], drawn: Callable[[int], None], hook: Hook | None,
    ) -> None:  # fmt: skip
        self.stream, self._writer, self._warmup, self._beta, self._ids = stream, writer, warmup, beta, ids
        self._warmed, self._drawn, self._hook = warmed, drawn, hook
        self.state = writer.open()
        self.made, self._saved = 0, 0.0
        self._arrays: Callable[[], dict[str, Array]] | None = None
        self._is_warm = self.state is not None
        if self._is_warm:
            self.made, self._saved = warmup + writer.n_draws, time.monotonic()
            warmed(warmup)
            drawn(writer.n_draws)

    def take(self, draws: Sequence[Draw], count: int, arrays: Callable[[], dict[str, Array]]) -> None:
        """The next draws, how many were made with those of the warm-up, and what gives the state after them."""
        self.made += count
        self._arrays = arrays
        self._warmed(count - len(draws))
        for k, draw in enumerate(draws, self.made - len(draws)):
            self._writer.append(draw)
            if self._hook is not None:
                poses = Poses(self._ids, draw.wxyz, draw.position)
                self._hook(Watch("sample", self.stream, k, draw.potential, self._beta, poses))
            self._drawn(1)
        if self.made >= self._warmup and (not self._is_warm or time.monotonic() - self._saved > _CHECKPOINT_SECONDS):
            self._writer.checkpoint(arrays())
            self._is_warm, self._saved = True, time.monotonic()

    def end(self) -> None:
        """Save the state, unless it is still warming up."""
        if self._is_warm and self._arrays is not None:
            self._writer.checkpoint(self._arrays())

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


def _on_threads(
    run: Callable[[Sequence[int]], None], groups: list[list[int]], threads: int, stop: threading.Event
) -> None:
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(run, numbers) for numbers in groups]
        try:
            wait(futures)
        except KeyboardInterrupt:
            stop.set()
            raise
        for future in futures:
            future.result()


def _advance(sampler: Sampler, steps: Sequence[Step]) -> list[Draw]:
    """The draws that chains ask for."""
    if isinstance(sampler, SideBySide):
        return sampler.advance([chain for chain, _ in steps], [rng for _, rng in steps])
    return [chain.advance(rng) for chain, rng in steps]


def _send(running: Generator[Step, Draw, None], draw: Draw) -> Step | None:
    """Hand a chain its draw; what it asks for next, ``None`` if it has ended."""
    try:
        return running.send(draw)
    except StopIteration:
        return None


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
