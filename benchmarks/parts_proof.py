"""The proof of a graph in parts beside that of one process: verdict, bound, and bytes between root and parts.

    python benchmarks/parts_proof.py [--nodes 3000 10000] [--parts 4] [--seeds 1 2] [--workers 2]
    python benchmarks/parts_proof.py --nodes 2000 --sigma-rot-deg 6 --completeness 0.02 --seeds 21 23

Simulated trajectories with loop closures, from the optimum of one process; parts on worker processes of this machine, one thread
each. "gap" is how far U can be above the global optimum, relative. Seconds are of the proof alone.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tempose._support.tables import text_table
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify
from tempose.partitioned import minimise_in_parts
from tempose.simulation import simulate


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[3000, 10_000])
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--sigma-rot-deg", type=float)
    parser.add_argument("--completeness", type=float)
    arguments = parser.parse_args()
    how = {
        name: vars(arguments)[name] for name in ("sigma_rot_deg", "completeness") if vars(arguments)[name] is not None
    }
    rows = [
        [
            "nodes, seed",
            "one process",
            "gap",
            "seconds",
            "in parts",
            "gap",
            "seconds",
            "moved up, down",
            "bounds differ by",
        ]
    ]
    with ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool:
        for nodes in arguments.nodes:
            for seed in arguments.seeds:
                made = simulate(nodes, shape="trajectory", seed=seed, **how)
                start = minimise(Curvature(Posterior(made.graph)), made.truth).poses
                with minimise_in_parts(made.graph, start, parts=arguments.parts, executor=pool) as found:
                    begin = time.perf_counter()
                    whole = certify(Posterior(made.graph), found.poses)
                    middle, up, down = time.perf_counter(), found.traffic.up, found.traffic.down
                    there = found.certificate()
                    end = time.perf_counter()
                    moved = [
                        (now - before) / 1e6 for now, before in ((found.traffic.up, up), (found.traffic.down, down))
                    ]
                    rows.append(
                        [
                            f"{nodes}, {seed}",
                            whole.status,
                            f"{whole.relative_suboptimality:.1e}",
                            f"{middle - begin:.2f}",
                            there.status,
                            f"{there.relative_suboptimality:.1e}",
                            f"{end - middle:.2f}",
                            f"{moved[0]:.1f}, {moved[1]:.1f} MB",
                            f"{abs(there.lower_bound - whole.lower_bound) / whole.potential:.0e} of U",
                        ]
                    )
                    print(*rows[-1], flush=True)
    print(text_table(rows))


if __name__ == "__main__":
    main()
