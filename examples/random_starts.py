"""From random starts to the optimum: TG-MCMC at β → ∞ against projected gradient descent with the same step.

Graphs are the paper's synthetic ones (50 nodes), in three settings: dense, sparse, and sparse with much noise, where
U has local minima. In each pair of rows both methods minimise the same U from the same start for the same number of
iterations; gradient descent moves by ``−h²∇U`` and puts the quaternions back on the sphere.

* ``paper``: the preset: λ and σ² in the paper's ranges, c = 1000, h in 0.001 … 0.008, its translations, unit masses;
* ``default``: the graph's own precisions, world positions, masses from the Hessian, little friction (c·h = 0.05);
* ``annealed``: the same with a schedule of rising β for the first half of the iterations.

``success`` is the share of runs that end within 1% of U*, ``basin`` of those that Newton's method then takes to U*,
``iterations`` those to 1% (mean ± sd of the runs that get there, counted in blocks of 25). U* is the lowest minimum
that is known, from the truth and from where each run ended; how often it is proved to be the global one stands below
the table. MRE (degrees) and MTE are after SE(3) alignment with the truth, mean ± sd over the graphs.

    python examples/random_starts.py --figure docs/figures/random_starts.png
    python examples/random_starts.py --quick
    python examples/random_starts.py --settings dense --seeds 10
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from tempose import paper
from tempose._support import streams
from tempose.analysis.accuracy import pose_errors
from tempose.dynamics.descent import optimise
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify
from tempose.optimum.starts import random_poses
from tempose.sampling.tuning import tune
from tempose.simulation import Simulated, simulate

Array = NDArray[np.float64]

SETTINGS = {  # completeness, σ in degrees, σ of translations
    "dense": (0.5, 3.0, 0.05),
    "sparse": (0.05, 5.0, 0.05),
    "sparse, noisy": (0.05, 20.0, 0.1),
}
METHODS = {
    "TG-MCMC, paper": ("paper", "tg-mcmc"),
    "PGD, same h": ("paper", "pgd"),
    "TG-MCMC, default": ("default", "tg-mcmc"),
    "PGD, same h and masses": ("default", "pgd"),
    "TG-MCMC, annealed": ("default", "annealed"),
}
STYLES = (("#1f77b4", "-"), ("#1f77b4", "--"), ("#d62728", "-"), ("#d62728", "--"), ("#2ca02c", "-"))
ANNEAL = (0.01, 0.03, 0.1, 0.3, 1.0)  # inverse temperatures of the first half of an annealed run
BLOCK = 25
CLOSE = 0.01  # relative distance to U* that counts as success


@dataclass(frozen=True)
class Run:
    """Where a method ended, and U on the way (k, 2): iteration, U."""

    poses: Poses
    trace: Array


@dataclass(frozen=True)
class Dynamics:
    """What a configuration of TG-MCMC does in one step, found from the curvature at the start as ``solve`` does."""

    step: float
    friction: float
    coordinates: str
    inverse_mass: Array


def configuration(kind: str, made: Simulated, start: Poses) -> tuple[Posterior, Curvature, Dynamics]:
    """The potential and the settings of the preset ``paper``, or of the default."""
    graph = made.graph
    if kind == "paper":
        lam = np.median(np.clip(graph.mean_concentration, *paper.LAMBDA))
        graph = replace(
            graph, concentration=lam, translation_precision=np.asarray(1.0 / math.sqrt(math.prod(paper.SIGMA2)))
        )
    posterior = Posterior(graph)
    curvature = Curvature(posterior)
    tuning = tune(curvature, start, identity_mass=kind == "paper")
    if kind == "paper":
        step, friction = paper.longest_step(tuning.fastest, 1000.0), 1000.0
    else:
        step = 0.7 * tuning.step
        friction = 0.05 / step
    coordinates = "paper" if kind == "paper" else "position"
    return posterior, curvature, Dynamics(step, friction, coordinates, tuning.inverse_mass)


def tg_mcmc(posterior: Posterior, start: Poses, d: Dynamics, iterations: int, seed: int, anneal: bool = False) -> Run:
    """The paper's sampler at β → ∞, after rising temperatures if asked."""
    each = iterations // (2 * len(ANNEAL)) // BLOCK * BLOCK
    warm = tuple((beta, each) for beta in ANNEAL) if anneal else ()
    descent = optimise(
        posterior, start, scheme=Scheme("boa"), step=d.step, friction=d.friction, key=streams.key(seed, "optimise"),
        schedule=(*warm, (math.inf, iterations - len(warm) * each)), coordinates=d.coordinates,
        inverse_mass=d.inverse_mass, tolerance=0.0,
    )  # fmt: skip
    return Run(descent.poses, descent.trace)


def projected_gradient(posterior: Posterior, start: Poses, d: Dynamics, iterations: int) -> Run:
    """Gradient descent by ``−h² M⁻¹∇U`` in ℝ⁴ × ℝ³ with the quaternions divided by their length after each step.

    The gradient in ℝ⁴ is the one tangent to the sphere; a radial part would only rescale the step.
    """
    wxyz, position = start.wxyz, start.position
    turn, push = d.step**2 * d.inverse_mass[:, :1], d.step**2 * d.inverse_mass[:, 1:]
    work = posterior.workspace()
    trace, best = [], (np.inf, wxyz, position)
    for k in range(iterations + 1):
        value, gradient = posterior.gradient_at(wxyz, position, work)
        best = min(best, (value, wxyz, position), key=lambda seen: seen[0])
        if k % BLOCK == 0:
            trace.append((float(k), value))
        by_rotation, by_position = gradient[:, :3], gradient[:, 3:]
        if d.coordinates == "paper":  # at fixed t = −Rᵀp the position turns with the node
            by_rotation = by_rotation + np.cross(position, by_position)
            t = quat.rotate(quat.conjugate(wxyz), push * by_position - position)
        omega = np.pad(2.0 * turn * by_rotation, ((0, 0), (1, 0)))
        wxyz = quat.normalize(wxyz - quat.multiply(omega, wxyz))
        position = -quat.rotate(wxyz, t) if d.coordinates == "paper" else position - push * by_position
    return Run(Poses(start.ids, *best[1:]), np.array(trace))


@dataclass
class Row:
    """Outcomes of one method over all graphs of a setting."""

    excess: list[float]
    basin: list[bool]
    reached: list[float]
    mre: list[float]
    mte: list[float]
    curves: list[Array]


def run_graph(made: Simulated, seed: int, iterations: int, rows: dict[str, Row], proved: dict[str, list[bool]]) -> None:
    """Run all methods on one graph and add their outcomes, and those of the optima, to the rows."""
    start = random_poses(made.graph, streams.generator(seed, "start"))
    for kind in ("paper", "default"):
        posterior, curvature, d = configuration(kind, made, start)
        actions: dict[str, Callable[[], Run]] = {
            "tg-mcmc": lambda p=posterior, d=d: tg_mcmc(p, start, d, iterations, seed),  # type: ignore[misc]
            "pgd": lambda p=posterior, d=d: projected_gradient(p, start, d, iterations),  # type: ignore[misc]
            "annealed": lambda p=posterior, d=d: tg_mcmc(p, start, d, iterations, seed, anneal=True),  # type: ignore[misc]
        }
        runs = {name: actions[how]() for name, (which, how) in METHODS.items() if which == kind}
        polished = {name: minimise(curvature, run.poses) for name, run in runs.items()}
        candidates = [minimise(curvature, made.truth), *polished.values()]
        optimum = min(candidates, key=lambda found: found.potential)
        proved[kind].append(certify(posterior, optimum.poses).certified is True)
        runs[f"optimum, {kind}"] = Run(optimum.poses, np.array([[0.0, optimum.potential]]))
        polished[f"optimum, {kind}"] = optimum
        for name, run in runs.items():
            row = rows[name]
            relative = run.trace[:, 1] / optimum.potential - 1.0
            row.excess.append(posterior.potential(run.poses) / optimum.potential - 1.0)
            row.basin.append(polished[name].potential < optimum.potential * (1.0 + 1e-6))
            close = run.trace[relative < CLOSE, 0]
            row.reached.append(float(close[0]) if len(close) else np.nan)
            errors = pose_errors(run.poses, made.truth)
            row.mre.append(errors.mean_rotation_deg)
            row.mte.append(errors.mean_translation)
            row.curves.append(np.interp(np.arange(0, iterations + 1, BLOCK), run.trace[:, 0], relative))


def print_rows(rows: dict[str, Row]) -> None:
    """The table of one setting."""
    print("| method | success | basin | iterations to 1% | U/U* − 1 at the end, median | MRE, ° | MTE |")
    print("|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        count, basin, excess = np.mean(np.array(row.excess) < CLOSE), np.mean(row.basin), np.median(row.excess)
        reached = np.array(row.reached)
        arrived = reached[np.isfinite(reached)]
        when = f"{arrived.mean():.0f} ± {arrived.std():.0f}" if len(arrived) else "–"
        share = [f"{100 * count:.0f}%", f"{100 * basin:.0f}%", when, f"{excess:.1e}" if excess > 1e-12 else "< 1e-12"]
        if name.startswith("optimum"):
            share = ["", "", "", ""]
        mre, mte = np.array(row.mre), np.array(row.mte)
        errors = f"{mre.mean():.2f} ± {mre.std():.2f} | {mte.mean():.3f} ± {mte.std():.3f}"
        print(f"| {name} | {' | '.join(share)} | {errors} |")


def draw(path: Path, results: dict[str, dict[str, Row]]) -> None:
    """Median of U/U* − 1 against the iteration, with quartiles, one panel per setting."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10})
    figure, axes = plt.subplots(
        1, len(results), figsize=(3.6 * len(results) + 0.6, 3.6), sharey=True, squeeze=False, constrained_layout=True
    )
    for axis, (setting, rows) in zip(axes[0], results.items(), strict=True):
        for name, (colour, line) in zip(METHODS, STYLES, strict=True):
            curves = np.maximum(np.array(rows[name].curves), 1e-9)
            low, middle, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
            at = BLOCK * np.arange(len(middle))
            axis.plot(at, middle, color=colour, ls=line, lw=1.3, label=name)
            axis.fill_between(at, low, high, color=colour, alpha=0.12, lw=0)
        axis.axhline(CLOSE, color="k", ls=":", lw=0.8)
        completeness, degrees, length = SETTINGS[setting]
        axis.set_title(f"{setting}: {100 * completeness:g}% of pairs, {degrees:g}°, {length:g}")
        axis.set(yscale="log", xlabel="iteration", ylim=(1e-7, None))
    axes[0, 0].set_ylabel("U/U* − 1: median and quartiles")
    axes[0, -1].legend(frameon=False, fontsize=7, loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the settings and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40, help="graphs (and starts) per setting (default 40)")
    parser.add_argument("--nodes", type=int, default=50, help="nodes of each graph (default 50)")
    parser.add_argument("--iterations", type=int, default=2000, help="iterations of every method (default 2000)")
    parser.add_argument("--settings", nargs="+", choices=tuple(SETTINGS), default=tuple(SETTINGS), help="default: all")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first graph (default 0)")
    parser.add_argument("--figure", type=Path, help="write the figure here (needs matplotlib)")
    parser.add_argument("--quick", action="store_true", help="two graphs per setting, 400 iterations")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.iterations = min(options.seeds, 2), min(options.iterations, 400)

    results: dict[str, dict[str, Row]] = {}
    for setting in options.settings:
        completeness, degrees, length = SETTINGS[setting]
        rows = {name: Row([], [], [], [], [], []) for name in (*METHODS, "optimum, paper", "optimum, default")}
        proved: dict[str, list[bool]] = {"paper": [], "default": []}
        seeds = range(options.seed, options.seed + options.seeds)
        for seed in track(seeds, setting, console=Console(stderr=True)):
            made = simulate(
                options.nodes, completeness=completeness, sigma_rot_deg=degrees, sigma_trans=length, seed=seed
            )
            run_graph(made, seed, options.iterations, rows, proved)
        size = f"{options.nodes} nodes, {made.graph.n_edges} edges"
        print(f"\n{setting}: {size}, σ = {degrees:g}° and {length:g}, {options.seeds} graphs\n")
        print_rows(rows)
        share = ", ".join(f"{kind} {100 * np.mean(known):.0f}%" for kind, known in proved.items())
        print(f"\nU* is proved to be the global optimum in: {share}")
        results[setting] = rows
    if options.figure:
        draw(options.figure, results)
        print(f"\nwrote {options.figure}")


if __name__ == "__main__":
    main()
