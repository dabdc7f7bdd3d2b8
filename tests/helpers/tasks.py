"""Tasks for other processes, which must find them by name."""

from __future__ import annotations

import os
from pathlib import Path

from tempose.partitioned import blocks
from tempose.partitioned import parts as work
from tempose.sampling import stretches


def square(x: int) -> int:
    return x * x


def threads(_: int) -> str | None:
    return os.environ.get("OPENBLAS_NUM_THREADS")


def process(_: int) -> int:
    return os.getpid()


def die(x: int) -> int:
    if x == 1:
        os._exit(1)  # as the kernel does when memory is short
    return x


def die_once(task: tuple[str, int]) -> int:
    """The square, but the worker that comes to 3 first dies of it: that it did is written down."""
    mark, x = task
    if x == 3 and not os.path.exists(mark):
        with open(mark, "w"):
            pass
        os._exit(1)
    return x * x


def always_die(_: int) -> int:
    os._exit(1)


def die_in(mark: str, task: work.Step) -> tuple[float, float]:
    """A step, in whose midst the first worker that gets to part 1 is killed."""
    if task.at.part == 1 and task.state == 2 and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), 9)
    return work.descend(task)


def die_in_stretch(mark: str, stretch: stretches.Stretch) -> stretches.MadeStretch | None:
    """A stretch of a chain; the first worker that comes beyond the thirtieth draw, warm-up counted, is killed."""
    if stretch.begin > 30 and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), 9)
    return stretches.advance(stretch)


def die_in_blocks(mark: str, held: blocks.Held) -> object:
    """A part of a matrix eliminated; the first worker that gets one is killed."""
    if not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), 9)
    return blocks.eliminate_blocks(held)
