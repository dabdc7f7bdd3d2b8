"""How long work says how far it is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Where long work is: ``phase`` in words, ``done`` of ``total`` units of work in it."""

    phase: str
    done: float
    total: float


ProgressHook = Callable[[Progress], None]
"""What is called with a :class:`Progress`, often."""


def silent(progress: Progress) -> None:
    """The hook of whoever does not want to know."""


def counted(progress: ProgressHook, phase: str, total: float) -> Callable[[int], None]:
    """What several threads call with the number of units of work they have done since the last call."""
    lock, done = threading.Lock(), 0

    def add(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            progress(Progress(phase, done, total))

    return add
