"""Four chains on one thread and on all cores, and a whole solve beside one without draws; ratios measured in one run.

    python benchmarks/chains.py [--draws 400] [--repeats 3] [GRAPH ...]

Takes turns between the columns and keeps the least time of each, so that other programs disturb all of them alike.
"""

from __future__ import annotations

import argparse
import os
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
    arguments = parser.parse_args()
    home = Path(os.environ.get("TEMPOSE_DATA", ".")) / "g2o"
    rows = [
        (
            "graph",
            "1 thread",
            f"{cores()} threads",
            "ratio",
            "cores busy",
            "same bytes",
            "--draws 0",
            "default",
            "ratio",
        )
    ]
    for path in arguments.graphs or [home / f"{name}.g2o" for name in GRAPHS]:
        rows.append((Path(path).stem, *chains(Path(path), arguments.draws, arguments.repeats), *solves(Path(path))))
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


def solves(path: Path) -> tuple[str, ...]:
    graph, took = tempose.read_graph(path), []
    for draws in (0, None):
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            solution = tempose.solve(graph, draws=draws, directory=folder)
            solution.save(folder)
            tempose.write_report(Path(folder) / "report.html", solution)
            took.append(time.perf_counter() - began)
    return f"{took[0]:.1f} s", f"{took[1]:.1f} s", f"{took[1] / took[0]:.1f}×"


if __name__ == "__main__":
    main()
