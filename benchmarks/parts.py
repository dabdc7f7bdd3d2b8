"""One graph in parts on a dask cluster of 1, 2 and 4 worker processes whose memory it does not fit into, beside one process.

    python benchmarks/parts.py [--nodes 40000] [--parts 8] [--memory 700MB] [--workers 1 2 4]

A simulated trajectory with loop closures, from the truth; optimum and the covariances of all nodes. "memory" is the largest that a
worker ever had (of the one process, likewise), imports and compiled code included; "moved" counts arrays between root and parts. In
the last rows a worker is killed in the middle, which must change nothing, and one worker is asked for the whole graph, which must
fail. Needs dask.distributed: pip install '.[cluster]'.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

from tempose._support.cluster import workers
from tempose._support.tables import text_table
from tempose.partitioned import minimise_in_parts
from tempose.simulation import simulate


def whole(nodes: int) -> tuple[float, float, float]:
    """U, seconds and peak memory (MB) of the graph in one process, marginals included."""
    from tempose.model.posterior import Posterior
    from tempose.optimum.hessian import Curvature
    from tempose.optimum.newton import minimise

    made = simulate(nodes, shape="trajectory", seed=0)
    begin = time.perf_counter()
    curvature = Curvature(Posterior(made.graph))
    found = minimise(curvature, made.truth)
    sigma = curvature.factor(found.poses.wxyz, found.poses.position).selected_inverse()[0]
    np.save(os.path.join(tempfile.gettempdir(), f"whole-{nodes}.npy"), np.einsum("naa->n", sigma))
    return found.potential, time.perf_counter() - begin, peak()


def peak() -> float:
    """Largest memory of this process so far, MB."""
    with open("/proc/self/status") as file:
        return next(float(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1e3


def main() -> None:
    """Print the table."""
    import dask
    import distributed

    # a worker that is nearly full goes on, and is killed when it is; it would wait for memory that nothing frees
    dask.config.set({f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")})
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=40_000)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--memory", default="700MB")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--whole", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.whole:
        print(*whole(arguments.nodes))
        return
    said = subprocess.run(
        [sys.executable, __file__, "--whole", "--nodes", str(arguments.nodes)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    value, seconds, memory = map(float, said.split())
    trace = np.load(os.path.join(tempfile.gettempdir(), f"whole-{arguments.nodes}.npy"))
    made = simulate(arguments.nodes, shape="trajectory", seed=0)
    rows = [
        [
            "where",
            "optimum + marginals",
            "memory a worker",
            "moved up, down",
            "U beside one process",
            "variances beside",
        ]
    ]
    rows.append(["one process", f"{seconds:.1f} s", f"{memory:.0f} MB", "", "", ""])
    print(*rows[-1], flush=True)
    extra, took = [], 0.0
    for count in arguments.workers:
        with distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50,
            memory_limit=arguments.memory,
        ) as cluster, distributed.Client(cluster) as client, tempfile.TemporaryDirectory() as folder:  # fmt: skip
            last = count == arguments.workers[-1]
            for killed in (False, True) if last and count > 1 else (False,):
                with workers(cluster.scheduler_address) as executor:
                    begin = time.perf_counter()
                    if killed:
                        pids = list(client.run(os.getpid).values())
                        threading.Timer(0.3 * took, os.kill, (pids[0], 9)).start()
                    with minimise_in_parts(
                        made.graph, made.truth, parts=arguments.parts, executor=executor, directory=folder
                    ) as found:
                        sigma = np.einsum("naa->n", found.covariances())
                        took = time.perf_counter() - begin
                        traffic = found.traffic
                        sizes = np.bincount(found.dissection.part[found.dissection.part >= 0])
                most = max(client.run(peak).values())
                off = np.max(np.abs(sigma / trace - 1.0)[sigma > 0.0])
                rows.append(
                    [
                        f"{count} workers{', one killed' if killed else ''}",
                        f"{took:.1f} s",
                        f"{most:.0f} MB",
                        f"{traffic.up / 1e6:.1f}, {traffic.down / 1e6:.1f} MB",
                        f"{found.potential / value - 1.0:+.1e}",
                        f"{off:.1e}",
                    ]
                )
                print(*rows[-1], flush=True)  # the table follows; a run may be long
            if last:
                extra.append(
                    f"{arguments.parts} parts of {sizes.min()} to {sizes.max()} nodes, {len(found.dissection.separators)} between"
                )
                try:
                    client.submit(whole, arguments.nodes, pure=False).result()
                    extra.append(f"the whole graph in one worker with {arguments.memory}: it fits; give it less")
                except distributed.scheduler.KilledWorker:
                    extra.append(
                        f"the whole graph in one worker with {arguments.memory}: killed for lack of memory, as it must be"
                    )
    print(text_table(rows))
    print(*extra, sep="\n")


if __name__ == "__main__":
    main()
