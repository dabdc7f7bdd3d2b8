"""What correlated edges cost: the same graphs with one number each and with full, correlated information, side by side.

    python benchmarks/correlated.py

Poses from the chordal start to the minimum of U, and all marginals: seconds of processor time, the least of several runs, in turn.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import tempose
from tempose._support.tables import text_table
from tempose.model.graph import PoseGraph
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.relaxations import chordal_rotations, with_positions


def solve(graph: PoseGraph) -> tuple[float, float, int]:
    """Seconds to the minimum, seconds for all marginals, Newton steps."""
    began = time.process_time()
    curvature = Curvature(Posterior(graph))
    found = minimise(curvature, with_positions(graph, chordal_rotations(graph)))
    middle = time.process_time()
    Laplace(curvature, found.poses).marginals(tempose.model.Gauge(graph))
    return middle - began, time.process_time() - middle, len(found.steps)


def best(run: Callable[[], tuple[float, float, int]], repeats: int) -> tuple[float, float, int]:
    """The least of several runs."""
    runs = [run() for _ in range(repeats)]
    return min(r[0] for r in runs), min(r[1] for r in runs), runs[0][2]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rows = [["graph", "edges", "isotropic", "correlated", "ratio", "marginals", "correlated", "ratio", "steps"]]
    for shape, nodes in (("sphere", 2500), ("grid", 3375), ("trajectory", 5000)):
        made = [
            tempose.simulate(nodes, shape=shape, sigma_rot_deg=2.0, correlated=correlated, seed=1).graph
            for correlated in (None, "registration")
        ]
        for graph in made:
            solve(graph)  # compile
        (a, b, k), (c, d, m) = (best(lambda graph=graph: solve(graph), repeats) for graph in made)
        rows.append([shape, str(made[0].n_edges), *(f"{x:.3g}" for x in (a, c, c / a, b, d, d / b)), f"{k}, {m}"])
    print(text_table(rows))


if __name__ == "__main__":
    main()
