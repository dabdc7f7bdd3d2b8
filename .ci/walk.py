"""The walk of a command through the house: modules in the order of their first call, and where calls go back and forth.

    python .ci/walk.py solve GRAPH -o DIR      # any command of tempose, run in this process
    python .ci/walk.py --rooms sfm DATABASE -o DIR

A line is a module, indented by how many modules of the package stand above it on the stack when it is first called, with
the function that was called. What is compiled is not seen, and what is called while a module is being imported does not count.
At the end: pairs of modules that call each other, with one call in each direction. A callback (a progress hook, a function
that was handed down) shows there as well, marked where the callee was defined inside a function. All threads are watched.
Run the command once before, so that its kernels are compiled: compiling under the watch takes many minutes.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType

PACKAGE = "tempose"


@dataclass
class Walk:
    """What is recorded.

    Attributes
    ----------
    order
        Modules by first call: depth and function.
    calls
        For each caller and callee module, the first call: names of the two functions.
    """

    order: dict[str, tuple[int, str]] = field(default_factory=dict)
    calls: dict[tuple[str, str], str] = field(default_factory=dict)
    _seen: set[tuple[CodeType, CodeType | None]] = field(default_factory=set)

    def profile(self, frame: FrameType, event: str, argument: object) -> None:
        """For ``sys.setprofile``."""
        if event != "call":
            return
        code = frame.f_code
        key = code, None if frame.f_back is None else frame.f_back.f_code
        if key in self._seen:
            return
        self._seen.add(key)
        if (name := module_of(frame)) is None:
            return
        stack = list(callers(frame))
        if not any(is_import(one) for one in _frames(frame.f_back)):
            self.order.setdefault(name, (len(dict.fromkeys(stack)), code.co_qualname))
            caller = next(iter(stack), None)
            if caller is not None and caller != name:
                self.calls.setdefault((caller, name), code.co_qualname)

    def back_and_forth(self) -> list[str]:
        """Pairs of modules that call each other; the one that was reached first comes first."""
        place = {name: k for k, name in enumerate(self.order)}
        both = [(a, b) for a, b in self.calls if (b, a) in self.calls and place[a] < place[b]]
        return [
            f"{short(a)} → {short(b)}: {_marked(self.calls[a, b])}; back: {_marked(self.calls[b, a])}" for a, b in both
        ]

    def rooms(self) -> list[str]:
        """The rooms in order of first call."""
        return list(dict.fromkeys(short(name).split(".")[0] for name in self.order))


def module_of(frame: FrameType) -> str | None:
    """The module of the package that a frame runs in, if it runs a function that is written there."""
    written = frame.f_code.co_filename == frame.f_globals.get("__file__")  # dataclasses write functions of their own
    return _package_module(frame) if written and is_function(frame.f_code) else None


def is_import(frame: FrameType) -> bool:
    """Whether a frame runs the body of a module or of a class of the package."""
    return not is_function(frame.f_code) and _package_module(frame) is not None


def _package_module(frame: FrameType) -> str | None:
    name = str(frame.f_globals.get("__name__", ""))
    return name if name == PACKAGE or name.startswith(f"{PACKAGE}.") else None


def is_function(code: CodeType) -> bool:
    """Whether this is the code of a function, not the body of a module or a class."""
    return bool(code.co_flags & inspect.CO_OPTIMIZED)


def callers(frame: FrameType) -> Iterator[str]:
    """Modules of the package above a frame on its stack, the nearest first."""
    return (name for one in _frames(frame.f_back) if (name := module_of(one)) is not None)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def short(module: str) -> str:
    """A module's name without the package's."""
    return module.removeprefix(f"{PACKAGE}.")


def _marked(function: str) -> str:
    return f"{function} (callback)" if "<locals>" in function else function


def watch(command: Callable[[], int]) -> Walk:
    """Record the walk of a function, which says by a number other than 0 that it failed."""
    walk = Walk()
    threading.setprofile(walk.profile)
    sys.setprofile(walk.profile)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            code = command()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    if code:
        raise SystemExit(code)
    return walk


def main(*arguments: str) -> int:
    """Print the walk of a command."""
    rooms = arguments[:1] == ("--rooms",)
    if not arguments[rooms:]:
        print(__doc__, file=sys.stderr)
        return 2
    from tempose.cli import main as run

    walk = watch(lambda: run(list(arguments[rooms:])))
    if not rooms:
        for k, (name, (depth, function)) in enumerate(walk.order.items(), 1):
            print(f"{k:3d}  {'  ' * depth}{short(name)}  ({function})")
        print()
    print(f"{len(walk.order)} modules; rooms: {' → '.join(walk.rooms())}")
    both = walk.back_and_forth()
    print(f"modules that call each other: {len(both)}")
    for line in both:
        print(f"  {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
