"""Stretches of a chain on other machines: from a state, some draws, and the state that follows them.

A stretch is a function of the sampler, the seed, the chain's number and the state before it: whoever computes it makes the same
draws, and where a chain is cut does not matter. Workers see no files of the run. A sampler travels as the recipe it is made from
(graph, poses, settings), once to each worker, which keeps the last it was sent.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from tempose._support import streams
from tempose._support.parallel import work_off
from tempose._typing import Array
from tempose.sampling.sampler import Draw, Sampler

SECONDS = 2.0
"""How long a worker computes before it hands over what it has: what is lost at most with a worker, or with the run itself."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A sampler on its way.

    Attributes
    ----------
    name
        What a worker knows it by.
    data
        The sampler, pickled; empty where the worker may have it already.
    """

    name: str
    data: bytes

    @classmethod
    def of(cls, sampler: Sampler) -> Packed:
        """Pack a sampler."""
        data = pickle.dumps(sampler)
        return cls(hashlib.sha256(data).hexdigest(), data)


@dataclass(frozen=True, eq=False)
class Stretch:
    """What a worker is asked for: draws of a chain from one number on, warm-up counted, up to another.

    Attributes
    ----------
    sampler
        With its data, or without.
    seed, stream
        Whose random numbers.
    begin, end
        Number of the first draw, and of the one after the last.
    state
        Before the first; ``None`` for a new chain.
    seconds
        After which it is to end, with the draw it is at.
    """

    sampler: Packed
    seed: int
    stream: int
    begin: int
    end: int
    state: dict[str, Array] | None
    seconds: float


@dataclass(frozen=True, eq=False)
class MadeStretch:
    """What came of a stretch: the draws that are kept, how many were made with those of the warm-up, and the state after them."""

    draws: tuple[Draw, ...]
    count: int
    state: dict[str, Array]


_kept: dict[str, Sampler] = {}  # one: memory is that of one


def advance(stretch: Stretch) -> MadeStretch | None:
    """Make draws; ``None`` if the sampler is not here and did not come along."""
    packed = stretch.sampler
    sampler = _kept.get(packed.name)
    if sampler is None:
        if not packed.data:
            return None
        sampler = pickle.loads(packed.data)
        _kept.clear()
        _kept[packed.name] = sampler
    if stretch.state is None:
        chain = sampler.start(streams.generator(stretch.seed, "start", stretch.stream))
    else:
        chain = sampler.resume(stretch.state)
    ends, draws, number = time.monotonic() + stretch.seconds, [], stretch.begin
    while number < stretch.end:
        draw = chain.advance(streams.of_draw(stretch.seed, stretch.stream, number))
        if number >= sampler.warmup:
            draws.append(draw)
        number += 1
        if time.monotonic() > ends:
            break
    return MadeStretch(tuple(draws), number - stretch.begin, chain.arrays())


def stretches(
    packed: Packed, executor: Executor, seed: int, stream: int, begin: int, end: int, state: dict[str, Array] | None
) -> Iterator[MadeStretch]:
    """A chain from draw ``begin`` to draw ``end``, a stretch at a time, on the workers of an executor.

    Raises
    ------
    Interrupted
        If a stretch loses its worker again and again.
    """
    sent = packed
    while begin < end:
        made = _computed(Stretch(sent, seed, stream, begin, end, state, SECONDS), packed, executor)
        yield made
        begin, state = begin + made.count, made.state
        sent = replace(packed, data=b"")


def _computed(stretch: Stretch, packed: Packed, executor: Executor) -> MadeStretch:
    for task in (stretch, replace(stretch, sampler=packed)):
        ((_, made),) = work_off(advance, [task], executor=executor)
        if made is not None:
            return made
    raise AssertionError("a stretch that brings its sampler is made")
