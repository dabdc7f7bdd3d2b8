"""Odds of the two ways round an ambiguous loop: exact, Gaussian, and by the samplers from starts in either mode.

    python examples/ambiguous_loop.py --figure docs/figures/modes.png

A straight path of 8 nodes, and one loop closure that says the last node looks back, by about 180°. Either every step turned a
little to the left, or every step turned a little to the right. With σ the same for all rotations the odds are known as a
series (``tempose.simulation.ambiguous_loop_odds``).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import tempose
from tempose.analysis.modes import find_modes, gaussian_odds, search
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.simulation import ambiguous_loop, ambiguous_loop_odds

NODES, SIGMA_DEG = 8, 15.0
ANGLES = (165.0, 170.0, 175.0, 180.0)
RUNS = (("jumping", "shorter"), ("tempering", "shorter"), ("tempering", "longer"))


@dataclass(frozen=True)
class Row:
    """One closure angle: exact and Gaussian probability of the shorter way, and (p, standard error) of every run."""

    angle: float
    exact: float
    gaussian: float
    found: tuple[tuple[float, float], ...]


def run(angle: float, draws: dict[str, int], seed: int) -> Row:
    """All numbers of one angle."""
    graph = ambiguous_loop(NODES, SIGMA_DEG, angle)
    posterior = Posterior(graph)
    curvature = Curvature(posterior)
    first = tempose.solve(graph, draws=0, certify=False).estimate
    both = search(curvature, 1.0, first, 12, np.random.default_rng(seed))
    if len(both) != 2:
        raise SystemExit(f"{angle}°: {len(both)} modes were found, there should be 2")
    gaussian = float(gaussian_odds([Laplace(curvature, one) for one in both])[0])
    found = []
    for sampler, start in RUNS:
        begin = both[0] if start == "shorter" else both[1]
        with tempfile.TemporaryDirectory() as home:
            solution = tempose.solve(
                replace(graph, initial=begin), start="given", certify=False, sampler=sampler, seed=seed, chains=2,
                draws=draws[sampler], starts=13 if sampler == "jumping" else 1, directory=home,
            )  # fmt: skip
            assert solution.draws is not None
            modes = find_modes(curvature, solution.draws, both[0])
            found.append((modes[modes.home].probability, modes[modes.home].error))
    return Row(angle, ambiguous_loop_odds(NODES, SIGMA_DEG, angle), gaussian, tuple(found))


def figure(rows: list[Row], path: Path) -> None:
    """The two explanations, and the odds against the angle."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), constrained_layout=True)
    graph = ambiguous_loop(NODES, SIGMA_DEG, 175.0)
    solution = tempose.solve(graph, starts=13, draws=400, seed=1)
    assert solution.modes is not None and solution.draws is not None
    colours = ("tab:blue", "tab:orange")
    for k, mode in enumerate(solution.modes.modes):
        for wxyz, position in list(solution.modes.draws(solution.draws, k))[:40]:
            x = solution.gauge.align(wxyz, position, mode.poses)[1]
            left.plot(x[:, 0], x[:, 1], color=colours[k], alpha=0.12, lw=1)
        x = solution.gauge.align(mode.poses.wxyz, mode.poses.position, solution.estimate)[1]
        label = f"mode {k + 1}: {100 * mode.probability:.0f}% ± {100 * mode.error:.0f}"
        left.plot(x[:, 0], x[:, 1], "o-", color=colours[k], ms=4, label=label)
    left.set(aspect="equal", xlabel="x", ylabel="y", title="Draws of both modes, closure 175°", xlim=(-4.0, 9.0))
    left.legend(frameon=False, loc="upper right")

    angle = np.linspace(162.0, 180.0, 100)
    right.plot(angle, [ambiguous_loop_odds(NODES, SIGMA_DEG, a) for a in angle], "k-", lw=1, label="exact")
    for k, ((sampler, start), marker) in enumerate(zip(RUNS, "so^", strict=True)):
        p, error = np.array([row.found[k] for row in rows]).T
        words = sampler if sampler == "jumping" else f"tempering from the {start} way"
        right.errorbar(
            np.array([row.angle for row in rows]) + 0.25 * (k - 1), p, error, fmt=marker, ms=4, capsize=2, label=words
        )
    right.set(xlabel="closure, degrees", ylabel="probability of the shorter way", title="Odds of the two explanations")
    right.legend(frameon=False)
    fig.savefig(path, dpi=130)


def main() -> None:
    """Print the table; write the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000, help="draws of jumping; tempering gets half (default 2000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--figure", type=Path, metavar="PNG")
    arguments = parser.parse_args()
    draws = {"jumping": arguments.draws, "tempering": arguments.draws // 2}
    rows = []
    words = [name if name == "jumping" else f"{name}, start in the {way}" for name, way in RUNS]
    print("| closure | exact | Gaussian | " + " | ".join(words) + " |")
    print("|---|---|---|" + "---|" * len(RUNS))
    for angle in ANGLES:
        row = run(angle, draws, arguments.seed)
        rows.append(row)
        cells = [f"{p:.3f} ± {error:.3f}" for p, error in row.found]
        print(f"| {angle:g}° | {row.exact:.4f} | {row.gaussian:.4f} | " + " | ".join(cells) + " |", flush=True)
    z = np.array([[(p - row.exact) / error for p, error in row.found] for row in rows])
    print(f"\nroot mean square of (found − exact) / standard error: {np.sqrt(np.mean(z**2)):.2f} ({z.size} runs)")
    if arguments.figure is not None:
        figure(rows, arguments.figure)


if __name__ == "__main__":
    main()
