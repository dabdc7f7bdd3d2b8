"""Four chains on one thread and on all cores, and ``tempose solve`` beside ``tempose solve --draws 0``; ratios of one run.

    python benchmarks/chains.py [--draws 400] [--repeats 3] [--only-solves] [GRAPH ...]

Takes turns between the columns and keeps the least time of each, so that other programs disturb all of them alike. Solves are
the command as people run it, from the start of Python to the page, once what it compiles is kept; ``same bytes`` says whether the
draws of a solve that may use one core only are those of one that may use all.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tempose
from tempose._support.parallel import cores
from tempose._support.tables import text_table
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.sampling.collapsed import CollapsedTarget, tune_target
from tempose.sampling.driver import SamplingPlan, sample

GRAPHS = ("sphere2500", "torus3D", "parking-garage")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help="g2o files (default: three of TEMPOSE_DATA)")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only-solves", action="store_true", help="leave out the chains by themselves")
    arguments = parser.parse_args()
    home = Path(os.environ.get("TEMPOSE_DATA", ".")) / "g2o"
    alone = ("1 thread", f"{cores()} threads", "ratio", "cores busy", "same bytes")
    whole = ("--draws 0", "default", "ratio", "processor s", "default", "same bytes")
    rows = [("graph", *(() if arguments.only_solves else alone), *whole)]
    for path in map(Path, arguments.graphs or [home / f"{name}.g2o" for name in GRAPHS]):
        first = () if arguments.only_solves else chains(path, arguments.draws, arguments.repeats)
        rows.append((path.stem, *first, *solves(path, arguments.repeats)))
    print(text_table(rows, left=(0,)))


def chains(path: Path, draws: int, repeats: int) -> tuple[str, ...]:
    graph = tempose.read_graph(path)
    posterior = tempose.Posterior(graph)
    best = tempose.solve(graph, draws=0, certify=False).estimate
    laplace = Laplace(Curvature(posterior), best)
    sampler = tune_target(CollapsedTarget(laplace), 0).sampler
    plan = SamplingPlan(1.0, 4, draws // 4, 0)
    least: dict[int, tuple[float, float]] = {}
    made = set()
    for _ in range(repeats):
        for threads in (1, cores()):
            with tempfile.TemporaryDirectory() as folder:
                wall, busy = time.perf_counter(), time.process_time()
                found = sample(posterior, sampler, plan, Path(folder), threads=threads)
                took = time.perf_counter() - wall, time.process_time() - busy
                least[threads] = min(least.get(threads, took), took)
                made.add(b"".join(array.tobytes() for array in found.arrays))
    one, all_ = least[1], least[cores()]
    return (
        f"{one[0]:.2f} s",
        f"{all_[0]:.2f} s",
        f"{one[0] / all_[0]:.2f}×",
        f"{all_[1] / all_[0]:.2f}",
        str(len(made) == 1),
    )


def solves(path: Path, repeats: int) -> tuple[str, ...]:
    """Seconds without and with draws, their ratio, processor seconds of both, and whether one core makes the same draws."""
    command([path, "--draws", "8"], cores())  # so that everything is compiled
    least: dict[bool, tuple[float, float]] = {}
    made = {command([path], 1)[2]}
    for _ in range(repeats):
        for is_default in (False, True):
            wall, busy, draws = command([path] if is_default else [path, "--draws", "0"], cores())
            least[is_default] = min(least.get(is_default, (wall, busy)), (wall, busy))
            made |= {draws} if is_default else set()
    without, default = least[False], least[True]
    return (
        f"{without[0]:.2f} s", f"{default[0]:.2f} s", f"{default[0] / without[0]:.1f}×", f"{without[1]:.1f}",
        f"{default[1]:.1f}", str(len(made) == 1),
    )  # fmt: skip


def command(words: list[object], may_use: int) -> tuple[float, float, bytes]:
    """Seconds and processor seconds of ``tempose solve`` on so many cores, and a checksum of its draws."""
    own = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-m", "tempose", "solve", *map(str, words), "-o", str(Path(folder) / "result")]
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        os.sched_setaffinity(0, own[:may_use])
        try:
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        finally:
            os.sched_setaffinity(0, own)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        made = hashlib.sha256()
        for file in sorted(Path(folder).rglob("chain-*.f64")):
            made.update(file.read_bytes())
        return wall, busy, made.digest()


if __name__ == "__main__":
    main()
