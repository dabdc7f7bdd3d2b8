"""Do the error bars predict the errors? The Gaussian covariances at the optimum against known truths.

    python examples/covariance_check.py --graphs 200
    python examples/covariance_check.py --sphere       # needs TEMPOSE_DATA

For simulated graphs at low noise, the squared normalised error of a relative pose is χ² with six degrees of freedom:
its mean is 6 and the share inside the 50, 80 and 95 % regions is just that. sphere2500 comes with its noise-free edges;
its rotation information can be read in two ways that differ by a factor of four, and the truth tells which is meant.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from scipy.stats import chi2

import tempose
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.optimum.trees import tree_poses

LEVELS = (0.5, 0.8, 0.95)


def normalised(solution: tempose.Solution, truth: tempose.Poses, pairs: np.ndarray) -> np.ndarray:
    """Squared normalised errors of relative poses."""
    values = []
    wxyz, position = truth.wxyz, truth.position
    for a, b in pairs.tolist():
        ids = solution.graph.node_ids
        found = solution.relative(ids[a], ids[b])
        true = se3.a_from_b((wxyz[a], position[a]), (wxyz[b], position[b]))
        turn = quat.log(quat.multiply(true[0], quat.conjugate(found.mean[0])))
        error = np.concatenate([turn, true[1] - found.mean[1]])
        values.append(float(error @ np.linalg.solve(found.covariance, error)))
    return np.array(values)


def report(name: str, values: np.ndarray, independent: int) -> None:
    """One line: mean and coverage, with the Monte Carlo error of as many independent values as there are."""
    shares = [float(np.mean(values < chi2.ppf(level, 6))) for level in LEVELS]
    errors = [np.sqrt(level * (1 - level) / independent) for level in LEVELS]
    cells = "  ".join(
        f"{100 * level:.0f} %: {100 * share:5.1f} ± {100 * error:.1f}"
        for level, share, error in zip(LEVELS, shares, errors, strict=True)
    )
    print(
        f"{name:<34} mean/6 {values.mean() / 6:5.2f}  median/5.35 {np.median(values) / 5.348:5.2f}  {cells}", flush=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=200, help="simulated graphs per row (default 200)")
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first graph (default 0)")
    parser.add_argument("--sphere", action="store_true", help="sphere2500 and its truth instead")
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    if arguments.sphere:
        if "TEMPOSE_DATA" not in os.environ:
            parser.exit(1, "set TEMPOSE_DATA to the folder of real data sets\n")
        folder = Path(os.environ["TEMPOSE_DATA"]) / "g2o"
        perfect = tempose.read_graph(folder / "sphere2500_groundtruth.txt")
        truth = tree_poses(perfect, perfect.spanning_tree())
        for meaning in ("rotation-vector", "quaternion-vector"):
            for precision in ("isotropic", "full"):
                options = tempose.ReadOptions(rotation_information=meaning, precision=precision)
                solution = tempose.solve(tempose.read_graph(folder / "sphere2500.g2o", options), draws=0)
                pairs = rng.integers(0, 2500, (200, 2))
                pairs = pairs[pairs[:, 0] != pairs[:, 1]]
                values, factor = normalised(solution, truth, pairs), solution.reduced_chi_square
                report(f"{meaning}, {precision}", values, len(pairs))
                report(f"  noise scaled by χ² = {factor:.3f}", values / factor, len(pairs))
        print("(one graph: its 200 pairs are not independent, so the true Monte Carlo errors are larger)")
        return
    for shape, completeness in (("random", 0.5), ("random", 0.1), ("sphere", 1.0), ("trajectory", 1.0)):
        values = []
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.graphs):
            made = tempose.simulate(
                30, shape=shape, completeness=completeness, sigma_rot_deg=0.5, sigma_trans=0.01, seed=seed
            )
            pairs = np.array([rng.choice(30, 2, replace=False)])
            values.append(normalised(tempose.solve(made.graph, draws=0), made.truth, pairs))
        report(f"{shape}, completeness {completeness}", np.concatenate(values), arguments.graphs)


if __name__ == "__main__":
    main()
