"""What all commands share: printing and progress."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tempose._support.plain import json_text
from tempose._support.progress import silent
from tempose._support.tables import text_table
from tempose.errors import printable

if TYPE_CHECKING:
    from tempose._support.progress import Progress, ProgressHook


def say(arguments: argparse.Namespace, *lines: str) -> None:
    """Print lines for people: on standard output, or on standard error when that carries JSON."""
    if not arguments.quiet:
        for line in "\n".join(lines).split("\n"):
            print(printable(line), file=sys.stderr if arguments.json else sys.stdout)


def notice(arguments: argparse.Namespace, *lines: str) -> None:
    """Print notices on standard error."""
    if not arguments.quiet:
        for line in lines:
            print(printable(f"note: {line}"), file=sys.stderr)


def emit(arguments: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Print the result as JSON if asked to."""
    if arguments.json:
        print(json_text(facts), end="")


def table(arguments: argparse.Namespace, rows: list[tuple[str, str]], title: str = "") -> None:
    """Print two columns."""
    if arguments.quiet or arguments.json:
        return
    if title:
        print(printable(title))
    print(text_table([(printable(a), printable(b)) for a, b in rows], left=(0, 1), indent="  "))


def compiled_before() -> bool:
    """Whether the kernels have been compiled by an earlier run: numba keeps them on disk, wherever it may write."""
    from tempose._support.compiling import is_kept
    from tempose.numerics.potential import gradient

    return is_kept(gradient)


class _Announced:
    """Progress that begins with the news that kernels are being compiled, if they are: after all mistakes have been told."""

    def __init__(self, quiet: bool, hook: ProgressHook) -> None:
        self.pending, self.hook = not quiet, hook

    def __call__(self, now: Progress) -> None:
        """Pass it on."""
        if self.pending:
            self.pending = False
            if not compiled_before():
                print("Compiling kernels, once after installation: this takes up to half a minute …", file=sys.stderr)
        self.hook(now)


@contextmanager
def progress_bar(arguments: argparse.Namespace) -> Iterator[ProgressHook]:
    """A bar with an estimate of the time left, on standard error."""
    if arguments.quiet or not sys.stderr.isatty():
        yield _Announced(arguments.quiet, silent)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = [
        TextColumn("{task.description:>12}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    ]
    lock = threading.Lock()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def update(now: Progress) -> None:
            with lock:
                if now.phase not in tasks:
                    tasks[now.phase] = bar.add_task(now.phase, total=now.total)
                bar.update(tasks[now.phase], completed=now.done, total=now.total)

        yield _Announced(False, update)
