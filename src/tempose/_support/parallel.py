"""Independent tasks on all cores, handed back as they end."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from tempose.errors import Interrupted, OptionError

T = TypeVar("T")
R = TypeVar("R")

_LOST_BY_DASK = ("KilledWorker", "CommClosedError", "FutureCancelledError")
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


LOST = 3
"""How often a task whose worker was lost is computed again before that is an error."""


def work_off(
    function: Callable[[T], R], tasks: Iterable[T], jobs: int | None = None, executor: Executor | None = None
) -> Iterator[tuple[T, R]]:
    """Each task with what ``function`` made of it, as they are finished.

    Always in other processes, even for one job: there, compiled kernels and BLAS have one thread, so that a number does not
    depend on how many others are computed beside it. They end with this one, even if it is killed. Function and tasks must be
    picklable.

    Parameters
    ----------
    jobs
        Processes; by default one per core.
    executor
        Where to compute instead: any pool of the standard library, or :func:`tempose._support.cluster.workers`. There, too, each
        task has one thread. A task whose worker is lost is computed again.

    Raises
    ------
    Interrupted
        If a process dies; of an executor, if a task loses its worker again and again.
    """
    jobs = job_count(jobs)
    todo = list(tasks)
    if not todo:
        return
    if executor is not None:
        yield from _elsewhere(function, todo, executor)
        return
    with _one_thread_each():
        # spawned: a forked child of a process with threads may hang
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(jobs, len(todo)), context, initializer=_depend_on_the_parent)
        waiting: dict[Future[R], T] = {}
        try:
            for task in todo:
                waiting[pool.submit(function, task)] = task
                if len(waiting) < 4 * jobs:  # so that a stopped run leaves little behind that nobody waits for
                    continue
                yield from _take(waiting)
            while waiting:
                yield from _take(waiting)
        except BrokenProcessPool:
            raise Interrupted(
                "a worker process died, perhaps for lack of memory: what is finished is kept, and the same command goes on "
                "from there (try --jobs 1)"
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def in_order(function: Callable[[T], R], tasks: Iterable[T], executor: Executor | None) -> Iterator[R]:
    """What ``function`` makes of each task, in the order of the tasks: on an executor, or here, one after the other."""
    if executor is None:
        yield from map(function, tasks)
        return
    early: dict[int, R] = {}
    due = 0
    for (k, _), result in work_off(Numbered(function), list(enumerate(tasks)), executor=executor):
        early[k] = result
        while due in early:
            yield early.pop(due)
            due += 1


@dataclass(frozen=True)
class Numbered:
    """A function of numbered tasks, which can be told apart when they come back."""

    function: Callable[[Any], Any]

    def __call__(self, task: tuple[int, Any]) -> Any:
        """What the function makes of the task without its number."""
        return self.function(task[1])


def in_own_process(call: str, task: Any) -> Any:
    """What ``module:function`` makes of a task in another process, both as JSON has them.

    For native code that may end its process or meddle with its threads. It has one thread for compiled kernels and BLAS, ends with
    this process even if that is killed, and works from scripts without ``if __name__ == "__main__"``, too.

    Raises
    ------
    Interrupted
        If the process dies.
    """
    module, function = call.split(":")
    home = str(Path(__file__).parents[2])  # where this package is, however it was found
    source = (
        "import json, os, sys, threading; "
        "threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start(); "  # the pipe ends with the parent
        f"sys.path.insert(0, {home!r}); from {module} import {function}; "
        f"out = {function}(json.load(open(sys.argv[1]))); json.dump(out, open(sys.argv[2], 'w'))"
    )
    with tempfile.TemporaryDirectory(prefix="tempose-") as folder, _one_thread_each():
        given, made, errors = (Path(folder) / name for name in ("task.json", "made.json", "errors.txt"))
        given.write_text(json.dumps(task))
        with errors.open("wb") as heard:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", source, str(given), str(made)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=heard,
            )
            with process:  # waits, and closes the pipe
                try:
                    process.wait()
                except BaseException:
                    process.kill()
                    raise
        said = errors.read_text(errors="replace").strip().splitlines()
        if process.returncode or not made.exists():
            raise Interrupted(
                f"a process of its own for {module} ended with {process.returncode}: {(said or [''])[-1]}"
            )
        return json.loads(made.read_text())


def _elsewhere(function: Callable[[T], R], tasks: Sequence[T], executor: Executor) -> Iterator[tuple[T, R]]:
    """Tasks on an executor that somebody else made and will close."""
    alone = functools.partial(with_one_thread, function)
    lost = dict.fromkeys(range(len(tasks)), 0)
    waiting: dict[Future[R], int] = {executor.submit(alone, task): k for k, task in enumerate(tasks)}
    try:
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                k = waiting.pop(future)
                try:
                    result = future.result()
                except BaseException as error:
                    if not is_loss(error):
                        raise
                    lost[k] += 1
                    # a broken pool takes nothing more; dask has tried several workers when it says so
                    if lost[k] > LOST or isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
                        raise Interrupted(
                            f"a worker was lost with a part of the work that none can do ({type(error).__name__}): "
                            "what is finished is kept, and the same command goes on from there; perhaps it needs more memory"
                        ) from None
                    waiting[executor.submit(alone, tasks[k])] = k
                else:
                    yield tasks[k], result
    finally:
        for future in waiting:
            future.cancel()


def is_loss(error: BaseException) -> bool:
    """Whether an error says that a worker went away, not that its work was wrong."""
    return isinstance(error, BrokenExecutor | CancelledError) or type(error).__name__ in _LOST_BY_DASK


def with_one_thread(function: Callable[[T], R], task: T) -> R:
    """What ``function`` makes of a task, compiled kernels and BLAS with one thread where that can be asked for."""
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with _one_thread_of_blas():
            return function(task)
    finally:
        numba.set_num_threads(before)


def _one_thread_of_blas() -> AbstractContextManager[object]:
    try:
        limits: AbstractContextManager[object] = import_module("threadpoolctl").threadpool_limits(1)
    except ImportError:  # workers of dask have one thread each by its own settings
        return nullcontext()
    return limits


def on_threads(function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
    """What ``function`` makes of each task, in the order of the tasks, on as many threads as there are cores.

    For work that leaves Python's lock alone, as that of NumPy on large arrays does. Only a few results wait at a time. Each runs
    in a copy of the context of the first ``next``: ``np.errstate`` holds there, too.
    """
    threads, todo = cores(), iter(tasks)
    with ThreadPoolExecutor(threads) as pool:

        def begin(task: T) -> Future[R]:
            return pool.submit(copy_context().run, function, task)

        waiting = deque(map(begin, islice(todo, 2 * threads)))
        while waiting:
            result = waiting.popleft().result()
            waiting.extend(map(begin, islice(todo, 1)))
            yield result


def job_count(jobs: int | None) -> int:
    """The number of processes asked for, by default one per core."""
    if jobs is not None and jobs < 1:
        raise OptionError(f"at least one process is needed, not {jobs}")
    return cores() if jobs is None else jobs


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _take(waiting: dict[Future[R], T]) -> Iterator[tuple[T, R]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        yield waiting.pop(future), future.result()


def _depend_on_the_parent() -> None:
    """Leave interrupts to the parent, and end with it: a parent that is killed cannot say that there is nothing more to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, name="parent", daemon=True).start()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Within, processes that are started compute with one thread."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
