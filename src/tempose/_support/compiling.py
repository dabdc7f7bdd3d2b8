"""The one way to compile a kernel: by decorators that a type checker sees through.

Compiled code is kept on disk beside its source, and runs without Python's global lock.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast, overload

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


@overload
def kernel(function: F) -> F: ...


@overload
def kernel(*, error_model: str = "python", parallel: bool = False, cache: bool = True) -> Callable[[F], F]: ...


def kernel(function: Any = None, *, error_model: str = "python", parallel: bool = False, cache: bool = True) -> Any:
    """Compile a function.

    The compiler has no liberties with arithmetic (``fastmath``): what it makes of them depends on whether the functions that
    a kernel calls were compiled in the same process or read from disk, and so would every bit that follows.

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


def is_kept(compiled: Callable[..., Any]) -> bool:
    """Whether compiled code of the module of a kernel is on disk, from an earlier run."""
    dispatcher = _dispatcher(compiled)
    name = Path(dispatcher.py_func.__code__.co_filename).stem
    return any(Path(dispatcher.stats.cache_path or ".").glob(f"{name}.*.nbi"))


def _dispatcher(compiled: Any) -> Any:
    return compiled
