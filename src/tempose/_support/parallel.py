"""Independent tasks on all cores, handed back as they end."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import copy_context
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from tempose.errors import Interrupted, OptionError

T = TypeVar("T")
R = TypeVar("R")

_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def work_off(function: Callable[[T], R], tasks: Iterable[T], jobs: int | None = None) -> Iterator[tuple[T, R]]:
    """Each task with what ``function`` made of it, as they are finished.

    Always in other processes, even for one job: there, compiled kernels and BLAS have one thread, so that a number does not
    depend on how many others are computed beside it. They end with this one, even if it is killed. Function and tasks must be
    picklable.

    Parameters
    ----------
    jobs
        Processes; by default one per core.

    Raises
    ------
    Interrupted
        If a process dies.
    """
    jobs = job_count(jobs)
    todo = list(tasks)
    if not todo:
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
            raise Interrupted(f"a process of its own for {module} ended with {process.returncode}: {[*said, ''][-1]}")
        return json.loads(made.read_text())


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
