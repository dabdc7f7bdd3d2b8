"""The demo on first use, which compiles, and again; ``--kernels`` says what each kernel costs to compile.

    python benchmarks/first_use.py [--kernels]

Seconds on the clock depend on what else runs; those of processor time, the compiling process included, depend on it less. Python's
own bytecode is there before, as it is after an installation.
"""

from __future__ import annotations

import argparse
import compileall
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tempose
from tempose._support.tables import text_table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--kernels", action="store_true", help="compile in this process only, and list the kernels")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["NUMBA_CACHE_DIR"] = str(Path(home) / "cache")
        if arguments.kernels:
            kernels(home)
            return
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        compileall.compile_dir(str(Path(tempose.__file__).parent), quiet=2)
        rows = [("", "seconds", "processor seconds")]
        for name in ("first use", "later use"):
            wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "tempose", "demo", "--quiet", "-o", str(Path(home) / name)]
            subprocess.run(command, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            rows.append((name, f"{time.perf_counter() - wall:.1f}", f"{busy:.1f}"))
        print(text_table(rows, left=(0,)))


def kernels(home: str) -> None:
    from numba.core import event

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # on one core nothing is compiled elsewhere
    open_: list[tuple[str, float, list[float]]] = []
    found: list[tuple[float, float, str]] = []

    class Watch(event.Listener):  # type: ignore[misc]
        def on_start(self, one: Any) -> None:
            source = one.data["dispatcher"].py_func
            open_.append((f"{source.__module__}.{source.__name__}", time.process_time(), [0.0]))

        def on_end(self, one: Any) -> None:
            name, began, inner = open_.pop()
            took = time.process_time() - began
            if open_:
                open_[-1][2][0] += took
            found.append((took - inner[0], took, name))

    event.register("numba:compile", Watch())
    from tempose.cli import main as command

    command(["demo", "--quiet", "-o", str(Path(home) / "demo")])
    rows = [(name, f"{own:.2f}", f"{whole:.2f}") for own, whole, name in sorted(found, reverse=True) if whole > 0.1]
    total = f"{sum(own for own, _, _ in found):.2f}"
    print(text_table([("kernel", "own", "with those it calls"), *rows, ("all", total, "")], left=(0,)))


if __name__ == "__main__":
    main()
