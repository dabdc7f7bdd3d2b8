"""Rotations whose errors have no scale: the poses that all edges tell, those that precise ones tell, and which is reported.

    python benchmarks/rough_edges.py [--worlds 3] [--seed 900] [--nodes 120]

Mean rotation errors are divided by those of all edges, so that less than 1 is better; `consensus` beside them. The last two
columns are the share of true rotations, seen from the most central node, inside the 95% regions that are reported, and inside
those of independent errors.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import tempose
from tempose.analysis.accuracy import pose_errors
from tempose.methods import METHODS
from tempose.outliers.em import fit_both
from tempose.outliers.noise import RobustOptions
from tempose.outliers.search.basin import find_basins
from tempose.studies.coverage import rotations_within
from tempose.studies.rough_edges import KINDS, rough_world


def main() -> None:
    """Print one line per kind of world, and one per world."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--worlds", type=int, default=3)
    ask.add_argument("--seed", type=int, default=900)
    ask.add_argument("--nodes", type=int, default=120)
    asked = ask.parse_args()
    rough = ((kind, share) for kind in KINDS for share in ((0.5, 0.7, 0.85) if kind == "alike" else (0.85,)))
    for kind, share in rough:
        rows = []
        for seed in range(asked.seed, asked.seed + asked.worlds):
            graph, truth = rough_world(kind, seed, nodes=asked.nodes, rough=share)
            solution = tempose.solve(graph, robust=True, noise="auto", draws=0, certify=False)
            start, none = find_basins(graph).best.poses, np.full(graph.n_edges, np.nan)
            both = [one.poses for one in fit_both(graph, start, RobustOptions(), none) if one is not None]
            poses = [both[0], both[-1], solution.estimate, METHODS["consensus"][0](graph).poses]
            every, precise, chosen, consensus = (
                pose_errors(one, truth, robust=True).mean_rotation_deg for one in poses
            )
            around = (solution.analysis.error_bars, solution.analysis.laplace)
            bars = [math.nan if one is None else rotations_within(one, truth, 0.95) for one in around]
            only = solution.likelihood is not None and solution.likelihood.is_precise_only
            row = (every, precise / every, chosen / every, consensus / every, float(only), *bars)
            rows.append(row)
            print(f"  {kind} {share} {seed}", " ".join(f"{x:.3f}" for x in row), flush=True)
        found = np.array(rows)
        mean = [*np.exp(np.mean(np.log(found[:, :4]), axis=0)), *np.mean(found[:, 4:], axis=0)]
        names = ("all", "precise/all", "reported/all", "consensus/all", "precise reported", "inside 95%", "independent")
        print(f"{kind} {share}:", ", ".join(f"{a} {b:.2f}" for a, b in zip(names, mean, strict=True)), flush=True)


if __name__ == "__main__":
    main()
