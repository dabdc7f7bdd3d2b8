"""Tasks for other processes, which must find them by name."""

from __future__ import annotations

import os


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
