"""The one way to compile a kernel: by decorators that a type checker sees through.

Compiled code is kept on disk beside its source, and runs without Python's global lock.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast, overload

from numba import njit, typeof
from numba.core import event

from tempose._support.progress import compiler_news

KERNELS = {
    "geometry": ("rotations and motions", 5.0),
    "numerics": ("the potential, its derivatives and the sparse solver", 20.0),
    "io": ("the reader of large files", 5.0),
    "optimum": ("the optimiser", 5.0),
    "outliers": ("the search for wrong edges", 15.0),
    "sampling": ("the sampler", 15.0),
    "analysis": ("what the draws say", 5.0),
    "dynamics": ("the paper's sampler", 10.0),
    "methods": ("the methods to compare with", 5.0),
    "sfm": ("the geometry of photographs", 25.0),
}
"""By room: what its kernels are for, and about how many seconds they take to compile."""

F = TypeVar("F", bound=Callable[..., Any])


@overload
def kernel(function: F) -> F: ...


@overload
def kernel(*, error_model: str = "python", parallel: bool = False, cache: bool = True) -> Callable[[F], F]: ...


def kernel(function: Any = None, *, error_model: str = "python", parallel: bool = False, cache: bool = True) -> Any:
    """Compile a function.

    The compiler has no liberties with arithmetic (``fastmath``): kernels that had some gave other bits on first use than when they
    were read from disk.

    Parameters
    ----------
    error_model
        ``numpy`` divides by zero without asking.
    parallel
        Share loops over ``prange`` among threads.
    cache
        ``False`` for functions that cannot be kept on disk by themselves; they are, in those that call them.
    """
    compiler = njit(cache=cache, nogil=True, **_flags(error_model, parallel))
    return compiler if function is None else compiler(function)


@overload
def inlined(function: F) -> F: ...


@overload
def inlined(*, early: bool = False, error_model: str = "python", cache: bool = True) -> Callable[[F], F]: ...


def inlined(function: Any = None, *, early: bool = False, error_model: str = "python", cache: bool = True) -> Any:
    """Compile a function into each of its callers.

    Parameters
    ----------
    early
        Put it in before types are known, by numba; else the optimiser puts it in at last.
    error_model, cache
        As for :func:`kernel`.
    """
    how: dict[str, Any] = {"inline": "always"} if early else {"forceinline": True}
    compiler = njit(cache=cache, **how, **_flags(error_model, False))
    return compiler if function is None else compiler(function)


def _flags(error_model: str, parallel: bool) -> dict[str, Any]:
    return {
        **({} if error_model == "python" else {"error_model": error_model}),
        **({"parallel": True} if parallel else {}),
    }


def interpreted(compiled: F, **instead: Any) -> F:
    """The source of a kernel for Python to run, with other things in place of some of the globals it uses."""
    source = _dispatcher(compiled).py_func
    return cast(F, FunctionType(source.__code__, {**source.__globals__, **instead}, source.__name__))


def compile_for(compiled: Callable[..., Any], *like: Any) -> None:
    """Compile a kernel, and keep it on disk, for arguments of the types of these; do not run it."""
    kind: Any = typeof
    _dispatcher(compiled).compile(tuple(kind(x) for x in like))


def is_kept(compiled: Callable[..., Any]) -> bool:
    """Whether compiled code of the module of a kernel is on disk, from an earlier run and of this version of its source."""
    dispatcher = _dispatcher(compiled)
    source = Path(dispatcher.py_func.__code__.co_filename)
    kept = Path(dispatcher.stats.cache_path or ".").glob(f"{source.stem}.*.nbi")
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in kept)


class _Compiles(event.Listener):
    """Tells what is being compiled: numba says so for what it does not find on disk."""

    def on_start(self, event: Any) -> None:
        """Of one kernel."""
        source = getattr(event.data.get("dispatcher"), "py_func", None)
        package, _, rest = getattr(source, "__module__", "").partition(".")
        room = rest.partition(".")[0]
        if package == "tempose" and room in KERNELS:
            compiler_news.tell(*KERNELS[room])

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


event.register("numba:compile", _Compiles())  # type: ignore[no-untyped-call]


class _Ahead:
    """Processes that compile kernels which this one will need later."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []


_ahead = _Ahead()
_END_WITH_PARENT = (  # its end of the pipe is closed by its death, however it dies
    "import os, threading; threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start(); "
)


@contextmanager
def compiling_ahead(calls: Iterable[str]) -> Iterator[None]:
    """Within, other processes compile: one for each ``module:function``, which is called without arguments.

    What they compile they keep on disk, and they end with this process, even if it is killed. numba compiles one kernel at a
    time in a process, so only processes use several cores. Whoever needs the kernels waits by :func:`await_ahead`; a process
    that fails costs time and nothing else.
    """
    for call in calls:
        module, function = call.split(":")
        source = f"{_END_WITH_PARENT}from {module} import {function}; {function}()"
        quiet = subprocess.DEVNULL
        _ahead.running.append(
            subprocess.Popen([sys.executable, "-P", "-c", source], stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
        )
    try:
        yield
    finally:
        for process in _ahead.running:
            process.kill()
        await_ahead()


def await_ahead(on_waiting: Callable[[], None] | None = None, on_end: Callable[[], None] | None = None) -> None:
    """Wait until the processes that compile ahead have ended, so that nothing is compiled twice."""
    waits = bool(_ahead.running)
    if waits:
        compiler_news.tell(*KERNELS["sampling"])
    if waits and on_waiting is not None:
        on_waiting()
    while _ahead.running:
        process = _ahead.running.pop()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    if waits and on_end is not None:
        on_end()


def _dispatcher(compiled: Any) -> Any:
    return compiled
