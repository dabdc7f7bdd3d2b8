"""What all commands share: printing and progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tempose._support.plain import json_text
from tempose._support.progress import DRAWING, WARM_UP, compiler_news, silent
from tempose._support.tables import text_table
from tempose.errors import printable

if TYPE_CHECKING:
    from pathlib import Path

    from tempose._support.progress import ProgressHook


def say(arguments: argparse.Namespace, *lines: str) -> None:
    """Print lines for people: on standard output, or on standard error when that carries JSON."""
    if not arguments.quiet:
        for line in "\n".join(lines).split("\n"):
            print(printable(line), file=sys.stderr if arguments.json else sys.stdout)


def notice(arguments: argparse.Namespace, *lines: str) -> None:
    """Print notices on standard error."""
    whisper(arguments, *(f"note: {line}" for line in lines))


def whisper(arguments: argparse.Namespace, *lines: str) -> None:
    """Print lines on standard error, above the bars if there are any."""
    if not arguments.quiet:
        for line in lines:
            _printer.say(printable(line))


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


def open_page(arguments: argparse.Namespace, page: Path) -> None:
    """Show a page in the browser if asked to; say where it is if there is none."""
    if not getattr(arguments, "open", False):
        return
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        notice(arguments, f"no browser could be started here: open {page} yourself")


def compiled_before() -> bool:
    """Whether the kernels have been compiled by an earlier run: numba keeps them on disk, wherever it may write."""
    from tempose._support.compiling import is_kept
    from tempose.numerics.potential import gradient

    return is_kept(gradient)


def announce_compiling(arguments: argparse.Namespace) -> None:
    """Say what is being compiled, when it is, and how long that usually takes."""

    def said(what: str, usual_seconds: float) -> None:
        _printer.say(
            f"compiling {what}, once after installation: usually {usual_seconds:.0f} s on an idle core …",
        )

    compiler_news.listener = None if arguments.quiet else said


class _Printer:
    """Prints lines on standard error, above the bars if there are any."""

    def __init__(self) -> None:
        self.say: Callable[[str], None] = self.plain

    def plain(self, line: str) -> None:
        """Where there are no bars."""
        print(printable(line), file=sys.stderr, flush=True)


_printer = _Printer()


@contextmanager
def progress_bar(arguments: argparse.Namespace) -> Iterator[ProgressHook]:
    """Bars with an estimate of the time left, on standard error; news of what will take long."""
    if arguments.quiet:
        yield silent
        return
    from tempose._support.bars import Forecast, bars

    if not sys.stderr.isatty():
        yield Forecast(silent, _printer.plain, WARM_UP, DRAWING)
        return
    with bars(transient=True) as (hook, say_above):
        _printer.say = say_above
        try:
            yield Forecast(hook, say_above, WARM_UP, DRAWING)
        finally:
            _printer.say = _printer.plain
