"""Reading g2o text: line by line, and in bulk by compiled code, which large files are read by. One run, one process each.

    python benchmarks/reading.py [--nodes 100000] [FILE ...]

Simulated trajectories with loop closures, once with one number per edge and once with a full 6×6 information, or the files that
are given. "CPU" counts all threads; "memory" is the largest the process ever had, the graph included. Compiling is left out: each
way reads a small file first.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tempose._support.tables import text_table

CHILD = """
import json, resource, sys, time
from tempose.io.g2o import lines, read_graph
lines.LARGE = int(sys.argv[1])
read_graph(sys.argv[2])
best = None
for _ in range(int(sys.argv[4])):
    wall, cpu = time.perf_counter(), time.process_time()
    graph = read_graph(sys.argv[3])
    took = time.perf_counter() - wall, time.process_time() - cpu
    best = took if best is None else tuple(map(min, best, took))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(json.dumps({"edges": graph.n_edges, "wall": best[0], "cpu": best[1], "peak": peak}))
"""


def write(path: Path, nodes: int, full: bool) -> None:
    """A simulated file, each edge ten digits a number; with correlations if it shall be full."""
    from dataclasses import replace

    import numpy as np

    from tempose.io import write_graph
    from tempose.simulation import simulate

    simulated = simulate(nodes, shape="trajectory", seed=0)
    graph = simulated.graph
    if full:
        m = graph.n_edges
        rng = np.random.default_rng(0)
        root = rng.standard_normal((m, 3, 3))
        matrices = root @ np.swapaxes(root, 1, 2) + np.eye(3)
        graph = replace(
            graph,
            concentration=700.0 * matrices,
            translation_precision=400.0 * matrices[::-1],
            coupling=0.1 * rng.standard_normal((m, 3, 3)),
        )
    write_graph(path, graph, simulated.truth)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.g2o"
        write(small, 30, False)
        files = list(arguments.files)
        for full in () if files else (False, True):
            files.append(Path(folder) / ("full.g2o" if full else "isotropic.g2o"))
            write(files[-1], arguments.nodes, full)
        rows = []
        for file in files:
            found = []
            for large in (1 << 60, 0):
                command = [sys.executable, "-c", CHILD, str(large), str(small), str(file), str(arguments.repeats)]
                found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            old, new = found
            rows.append(
                [
                    file.name,
                    str(old["edges"]),
                    f"{file.stat().st_size / 1e6:.0f} MB",
                    f"{old['edges'] / old['wall']:,.0f}",
                    f"{new['edges'] / new['wall']:,.0f}",
                    f"{old['wall'] / new['wall']:.1f}x",
                    f"{old['cpu'] / new['cpu']:.1f}x",
                    f"{new['edges'] / new['cpu']:,.0f}",
                    f"{old['peak']:.2f} → {new['peak']:.2f} GB",
                ]
            )
    head = [
        "file",
        "edges",
        "text",
        "edges/s by lines",
        "in bulk",
        "ratio",
        "ratio of CPU",
        "edges per CPU s",
        "memory",
    ]
    print(text_table([head, *rows]))


if __name__ == "__main__":
    main()
