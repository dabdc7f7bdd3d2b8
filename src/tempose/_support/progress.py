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


WARM_UP, DRAWING = "warming up", "drawing"
"""Stages of the samplers."""

ProgressHook = Callable[[Progress], None]
"""What is called with a :class:`Progress`, often."""


class CompilerNews:
    """Who is told that kernels are being compiled, with what they are for and how long they usually take; nobody by default.

    Kept apart from what compiles, so that asking for it imports no compiler.
    """

    def __init__(self) -> None:
        self.listener: Callable[[str, float], None] | None = None
        self._told: set[str] = set()

    def tell(self, what: str, usual_seconds: float) -> None:
        """Pass it on, once for each thing."""
        if self.listener is not None and what not in self._told:
            self._told.add(what)
            self.listener(what, usual_seconds)


compiler_news = CompilerNews()


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
