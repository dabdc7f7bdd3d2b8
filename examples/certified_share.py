"""How often does a random start end at the proven optimum? With Newton alone, and with the Riemannian staircase.

    python examples/certified_share.py --graphs 4 --starts 5
    python examples/certified_share.py --quick

From a good (chordal) start the same is shown once per graph. Where all shares are zero, the relaxation behind the
certificate is not tight at that noise: there is then no proof to be had this way, for any poses.
"""

from __future__ import annotations

import argparse

import numpy as np

import tempose
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.proof import solve_to_certificate
from tempose.optimum.starts import start_poses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=4, help="graphs per row (default 4)")
    parser.add_argument("--starts", type=int, default=5, help="random starts per graph (default 5)")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="one small graph per row, in seconds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.graphs, arguments.starts, arguments.nodes = 1, 2, 40
    total = arguments.graphs * arguments.starts
    print(f"{arguments.nodes} nodes, sigma_trans 0.1, {arguments.graphs} graphs x {arguments.starts} random starts")
    print(f"{'shape':>8} {'sigma_rot':>9} {'Newton alone':>13} {'with staircase':>15} {'chordal start, alone':>21}")
    for shape in ("sphere", "torus"):
        for noise in (5.0, 10.0, 15.0, 20.0):
            alone = climbed = good = 0
            for seed in range(arguments.seed, arguments.seed + arguments.graphs):
                graph = tempose.simulate(
                    arguments.nodes, shape=shape, completeness=1.0, sigma_rot_deg=noise, sigma_trans=0.1, seed=seed
                ).graph
                posterior = Posterior(graph)
                curvature = Curvature(posterior)
                chordal = start_poses(graph, "chordal", np.random.default_rng(0))
                good += bool(
                    solve_to_certificate(posterior, chordal, max_rank=3, curvature=curvature).certificate.certified
                )
                for k in range(arguments.starts):
                    start = start_poses(graph, "random", np.random.default_rng(k))
                    first = solve_to_certificate(posterior, start, max_rank=3, curvature=curvature)
                    alone += bool(first.certificate.certified)
                    second = (
                        first
                        if first.certificate.certified
                        else solve_to_certificate(posterior, start, curvature=curvature)
                    )
                    climbed += bool(second.certificate.certified)
            print(
                f"{shape:>8} {noise:8.0f}° {alone:>9d}/{total} {climbed:>11d}/{total} {good:>17d}/{arguments.graphs}",
                flush=True,
            )


if __name__ == "__main__":
    main()
