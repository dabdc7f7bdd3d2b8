"""Where the Gaussian approximation is wrong: coverage of its 95 % regions and of the sampler's, as the noise grows.

    python examples/laplace_coverage.py --graphs 100 -o laplace

Sparse graphs (8 nodes on a random spanning tree with one loop), σ = 2° … 40° per axis. The Gaussian has the exact Hessian at the
optimum: it is the best a point estimate can offer. Writes ``laplace_coverage.png`` (needs matplotlib) and a table.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import tempose
from tempose._support import streams
from tempose.geometry import se3
from tempose.studies.calibration import Calibration, Setting, calibrate
from tempose.studies.calibration.settings import draw_case

NOISE_DEG = (2.0, 5.0, 10.0, 20.0, 30.0, 40.0)
LEVEL = 0.95
SETTINGS = [Setting(f"sparse, {noise:g}°", 8, 0.25, noise, 0.3) for noise in NOISE_DEG]
REGIONS = {
    "node": ("draws, every node", "#1f5fa8", "o-"),
    "pair": ("draws, unmeasured pairs", "#2e8b57", "s-"),
    "node, Gaussian": ("Gaussian, every node", "#1f5fa8", "o--"),
    "pair, Gaussian": ("Gaussian, unmeasured pairs", "#2e8b57", "s--"),
}


def draw_coverage(axes: Any, result: Calibration) -> None:
    for region, (label, colour, style) in REGIONS.items():
        found = [result.coverage(setting.name, region, LEVEL) for setting in SETTINGS]
        white = "white" if "Gaussian" in region else colour
        axes.errorbar(
            NOISE_DEG, [100 * c.share for c in found], [200 * c.error for c in found], fmt=style, color=colour,
            mfc=white, ms=5, lw=1.2, capsize=2, label=label,
        )  # fmt: skip
    axes.axhline(100 * LEVEL, color="black", lw=1)
    axes.set(xlabel="rotation noise per axis, degrees", ylabel="truths inside the 95 % region, %", ylim=(0, 102))
    axes.legend(fontsize=8, loc="lower left")


def draw_example(axes: Any, seed: int) -> None:
    """Where one node of one graph at 30° may be: draws, and the Gaussian's ellipse."""
    case = draw_case(SETTINGS[4], streams.generator(seed, "calibrate"))
    solution = tempose.solve(case.graph, draws=4000, seed=seed)
    assert solution.draws is not None and solution.laplace is not None
    ids, anchor = case.graph.node_ids, int(case.graph.anchors[0])
    sigmas = [solution.laplace.relative(ids[anchor], name)[1][3:5, 3:5] for name in ids]
    node = int(np.argmax([np.trace(sigma) for sigma in sigmas]))
    rows = np.concatenate([np.asarray(a[:, [anchor, node]]) for a in solution.draws.arrays])
    xy = se3.a_from_b((rows[:, 0, :4], rows[:, 0, 4:]), (rows[:, 1, :4], rows[:, 1, 4:]))[1][:, :2]
    (_, mean), covariance = solution.laplace.relative(ids[anchor], ids[node])
    angle = np.linspace(0, 2 * np.pi, 200)
    radius = np.sqrt(-2.0 * np.log(1.0 - LEVEL))  # of a Gaussian in the plane
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ np.linalg.cholesky(covariance[3:5, 3:5]).T
    inside = np.linalg.solve(np.linalg.cholesky(covariance[3:5, 3:5]), (xy - mean[:2]).T)
    share = np.mean(np.sum(inside**2, axis=0) < radius**2)
    true = case.truth
    back = se3.inverse((true.wxyz[anchor], true.position[anchor]))
    truth = se3.compose(back, (true.wxyz[node], true.position[node]))[1]
    axes.scatter(*xy.T, s=3, color="#8aa8cc", lw=0, label="draws")
    axes.plot(
        *(mean[:2] + radius * ring).T, color="#b3261e", label=f"95 % ellipse of the Gaussian: holds {share:.0%} of them"
    )
    axes.plot(*mean[:2], "+", color="#b3261e", ms=9, label="optimum")
    axes.plot(*truth[:2], "*", color="black", ms=10, label="truth")
    axes.set(xlabel="x", ylabel="y", title=f"position of node {ids[node]} seen from node {ids[anchor]}, σ = 30°")
    axes.title.set_fontsize(9)
    axes.set_aspect("equal", adjustable="datalim")
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=100, help="graphs per noise level (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the graphs (default 0)")
    parser.add_argument("--jobs", type=int, help="processes (default: one per core)")
    parser.add_argument("-o", "--output", default="laplace", metavar="DIR", help="directory (default: laplace)")
    arguments = parser.parse_args()
    home = Path(arguments.output)
    result = calibrate(SETTINGS, graphs=arguments.graphs, seed=arguments.seed, jobs=arguments.jobs, directory=home)
    print(f"{'':<12}" + "".join(f"{region + ' 95%':>22}" for region in REGIONS))
    for setting in SETTINGS:
        cells = [result.coverage(setting.name, region, LEVEL) for region in REGIONS]
        print(f"{setting.name:<12}" + "".join(f"{c!s:>22}" for c in cells))
    print(result.verdict)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_coverage(left, result)
    draw_example(right, arguments.seed)
    figure.savefig(home / "laplace_coverage.png", dpi=110)
    print(f"written to {home / 'laplace_coverage.png'}")


if __name__ == "__main__":
    main()
