"""How separators grow: simulated trajectories and 3D grids cut into parts of about the same size, and what the root then holds.

    python benchmarks/separators.py [--size 4000] [--nodes 10000 30000 100000] [--shape trajectory]

"border" is the mean over parts; "root" the factor of the separators, every border joined; "up" what the parts send to
the root in one step of Newton's method.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from tempose._support.tables import text_table
from tempose.numerics.sparse import analyze
from tempose.partitioned import dissect
from tempose.simulation import simulate


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[10_000, 30_000, 100_000])
    parser.add_argument("--size", type=int, default=4000)
    parser.add_argument("--shape", default="trajectory")
    arguments = parser.parse_args()
    rows = [["nodes", "edges", "parts", "cut in", "separators", "border", "largest", "root", "root flops", "up"]]
    for nodes in arguments.nodes:
        graph = simulate(nodes, shape=arguments.shape, seed=0).graph
        begin = time.perf_counter()
        cut = dissect(graph.n_nodes, graph.edge_i, graph.edge_j, max(1, round(graph.n_nodes / arguments.size)))
        seconds = time.perf_counter() - begin
        owner = np.maximum(cut.part[graph.edge_i], cut.part[graph.edge_j])
        number = np.cumsum(cut.part < 0) - 1
        pairs, sizes = [], []
        own = owner < 0
        pairs.append(np.column_stack([number[graph.edge_i[own]], number[graph.edge_j[own]]]))
        for k in range(cut.n_parts):
            mine = owner == k
            touched = np.unique(np.concatenate([graph.edge_i[mine], graph.edge_j[mine]]))
            border = number[touched[cut.part[touched] < 0]]
            a, b = np.tril_indices(len(border), -1)
            pairs.append(np.column_stack([border[a], border[b]]))
            sizes.append(len(border))
        found = np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)
        symbolic = analyze(len(cut.separators), found[:, 0], found[:, 1], block=6)
        up = sum((6 * size) ** 2 * 8 for size in sizes)
        rows.append(
            [
                f"{graph.n_nodes:,}", f"{graph.n_edges:,}", str(cut.n_parts), f"{seconds:.1f} s", f"{len(cut.separators):,}",
                f"{np.mean(sizes):.0f}", str(max(sizes)), f"{symbolic.nonzeros * 8 / 1e6:.0f} MB",
                f"{symbolic.flops:.1e}", f"{up / 1e6:.0f} MB",
            ]
        )  # fmt: skip
    print(text_table(rows))


if __name__ == "__main__":
    main()
