"""Progress as people see it: a bar for each stage, on a terminal and in notebooks; elsewhere a line when a stage has ended."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tempose._support.progress import Progress, ProgressHook, silent
from tempose.errors import ArgumentError

Say = Callable[[str], None]


@contextmanager
def shown(progress: ProgressHook | bool | None) -> Iterator[ProgressHook]:
    """The hook that long work calls: bars for ``True``, nothing for ``None`` and ``False``, else the one given."""
    if progress is True:
        with bars(transient=False) as (hook, _):
            yield hook
    elif progress is None or progress is False:
        yield silent
    elif callable(progress):
        yield progress
    else:
        raise ArgumentError(f"progress is True, or a function that takes a tempose.Progress, not {progress!r}")


@contextmanager
def bars(*, transient: bool) -> Iterator[tuple[ProgressHook, Say]]:
    """A hook that shows stages on standard error, and what prints a line above them.

    Stages have names, an end, and the time they took. What is ``transient`` is gone when all has ended. Where there is neither a
    terminal nor a notebook a stage is a line, once it has ended.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield _StageLines(), _to_stderr
        return
    columns = [
        TextColumn("{task.description:>22}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    ]  # fmt: skip
    lock = threading.Lock()
    with Bar(*columns, console=console, transient=transient) as bar:
        tasks: dict[str, Any] = {}

        def update(now: Progress) -> None:
            with lock:
                if now.phase not in tasks:
                    tasks[now.phase] = bar.add_task(now.phase, total=now.total)
                bar.update(tasks[now.phase], completed=now.done, total=now.total)

        yield update, lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)


class _StageLines:
    """A line for each stage that has ended, with the seconds it took."""

    def __init__(self) -> None:
        self.lock, self.began, self.ended = threading.Lock(), dict[str, float](), set[str]()

    def __call__(self, now: Progress) -> None:
        """Take note, and print if it is the end of a stage."""
        with self.lock:
            began = self.began.setdefault(now.phase, time.monotonic())
            if now.done >= now.total and now.phase not in self.ended:
                self.ended.add(now.phase)
                count = f"{now.total:.0f} in " if now.total > 1 else ""
                _to_stderr(f"{now.phase}: {count}{time.monotonic() - began:.1f} s")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Forecast:
    """Progress that says beforehand how long draws will take, if that is long: by the time of those of the warm-up.

    Parameters
    ----------
    hook
        What progress is passed on to.
    say
        Prints a line.
    warm_up, work
        Names of the two stages, whose units take equally long.
    """

    LONG = 60.0  # seconds
    PATIENCE = 3.0  # seconds after which the work itself tells, where there was no warm-up

    def __init__(self, hook: ProgressHook, say: Say, warm_up: str, work: str) -> None:
        self.hook, self.say, self.warm_up, self.work = hook, say, warm_up, work
        self.lock, self.told = threading.Lock(), False
        self.first: dict[str, tuple[float, float]] = {}  # when a stage was first heard of, and how far it was then
        self.last: dict[str, tuple[float, float]] = {}

    def __call__(self, now: Progress) -> None:
        """Pass it on, and tell once how long it will take."""
        with self.lock:
            if not self.told and now.phase in (self.warm_up, self.work):
                moment = time.monotonic()
                self.first.setdefault(now.phase, (moment, now.done))
                self.last[now.phase] = moment, now.done
                if now.phase == self.work:
                    self._tell(now)
        self.hook(now)

    def _tell(self, now: Progress) -> None:
        for stage, least in ((self.work, self.PATIENCE), (self.warm_up, 0.2)):
            if stage in self.first:
                (began, before), (ended, after) = self.first[stage], self.last[stage]
                if ended - began > least and after > before:
                    self.told = True
                    left = (ended - began) / (after - before) * (now.total - now.done)
                    if left > self.LONG:
                        self.say(
                            f"{now.total:.0f} draws will take about {duration_text(left)}; Ctrl-C keeps those that there are, "
                            "and the same command goes on from them"
                        )
                    return


def duration_text(seconds: float) -> str:
    """``3 s``, ``5 min``, ``2 h``, ``4 days``."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
