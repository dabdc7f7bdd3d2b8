"""The paper's theorem, measured: ``|E Û_N − U*| = O(β/(Nh) + h/β + 1/β)`` for BOA, term by term.

``Û_N`` is the mean of U over the first N iterates of a chain that starts at a fixed place away from the optimum; the
expectation is the mean over many chains. The graph has 8 nodes and 22 edges (see ``schemes_table.py``), masses are
one, positions are coordinates, U* comes from Newton's method. Four sweeps:

* N, at several β: the transient falls as 1/N, down to a floor;
* β: the floor is (6n − 6)/(2β) times a factor of the scheme;
* h, at fixed friction c: what the scheme adds to (6n − 6)/(2β), the theorem's h/β;
* c, at fixed h: the same, which is a function of c·h.

    python examples/ergodic_error.py --figure docs/figures/ergodic_error.png
    python examples/ergodic_error.py --quick
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from schemes_table import small_graph, squared_frequencies, stationary_mean

from tempose._support import streams
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.newton import Minimum

Array = NDArray[np.float64]

STEP, FRICTION = 0.002, 100.0
BETAS = (1.0, 10.0, 100.0, 1000.0)
MORE_BETAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0)
COLD = 100.0  # β of the sweeps over h and c: U is quadratic to 1e-4 there
STEPS = (0.0005, 0.001, 0.002, 0.004, 0.006, 0.008)
TRANSIENT_STEPS = (0.00025, 0.0005, 0.001, 0.002, 0.004)
FRICTIONS = (30.0, 100.0, 300.0, 1000.0, 3000.0)
SCHEMES = {"BOA exact": Scheme("boa"), "BOA euler": Scheme("boa", "euler"), "BAOAB": Scheme("baoab")}
COLOURS = {"BOA exact": "#1f77b4", "BOA euler": "#d62728", "BAOAB": "#2ca02c"}


@dataclass(frozen=True)
class Estimate:
    """A mean over chains and its standard error."""

    value: Array
    error: Array

    @classmethod
    def over_chains(cls, x: Array) -> Estimate:
        """From one row per chain."""
        return cls(x.mean(axis=0), x.std(axis=0, ddof=1) / math.sqrt(len(x)))


def slope(x: Array, y: Array, error: Array) -> tuple[float, float]:
    """Slope of log y against log x by weighted least squares, and its standard error from the errors of y."""
    u, w = np.log(x), (y / error) ** 2
    u = u - np.sum(w * u) / np.sum(w)
    spread = np.sum(w * u * u)
    return float(np.sum(w * u * np.log(y)) / spread), float(1.0 / math.sqrt(spread))


class Experiment:
    """One graph, its optimum, and chains on it."""

    def __init__(self, seed: int, chains: int, progress: Progress) -> None:
        self.posterior: Posterior
        self.minimum: Minimum
        self.posterior, curvature, self.minimum = small_graph(seed)
        self.omega2 = squared_frequencies(curvature, self.minimum)
        self.seed, self.chains, self.progress = seed, chains, progress
        self.floor = len(self.omega2) / 2.0  # times 1/β: (6n − 6)/2
        rng = streams.generator(seed, "start")
        n = self.posterior.graph.n_nodes
        turn = quat.exp(0.4 * rng.standard_normal((n, 3)))
        best = self.minimum.poses
        self.start = Poses(best.ids, quat.multiply(turn, best.wxyz), best.position + 0.4 * rng.standard_normal((n, 3)))
        self._runs = 0

    def energies(self, dynamics: Dynamics, steps: int, start: Poses, task: Any, keep: int = 0) -> Array:
        """U − U* at the iterates 1 … ``steps`` of every chain (chains, steps), or the means of its last ``keep``."""
        first = int(dynamics.scheme.name == "boa")  # its gradient, and so its energy, is that of the iterate before
        rows = []
        for _ in range(self.chains):
            chain = GeodesicChain(self.posterior, start, streams.key(self.seed, "chain", self._runs))
            self._runs += 1
            energy = chain.run(dynamics, steps + first)[first:] - self.minimum.potential
            rows.append(energy[-keep:].mean(keepdims=True) if keep else energy)
            self.progress.advance(task)
        return np.array(rows)

    def stationary(self, dynamics: Dynamics, steps: int, task: Any) -> Estimate:
        """⟨U⟩ − U* of the chain's own equilibrium, from chains that start at the optimum and forget it first."""
        slowest = float(self.omega2.min())
        relaxation = max(dynamics.friction / slowest, 2.0 / dynamics.friction)
        forget = math.ceil(3.0 * relaxation / dynamics.step)
        usual = FRICTION / slowest / STEP
        steps = round(steps * min(4.0, max(1.0, relaxation / dynamics.step / usual)))  # slow chains run longer
        rows = self.energies(dynamics, forget + steps, self.minimum.poses, task, keep=steps)
        return Estimate.over_chains(rows[:, 0])


def pm(value: float, error: float) -> str:
    """Value and error with the digits that the error leaves."""
    d = max(0, 1 - math.floor(math.log10(error))) if error > 0.0 else 3
    return f"{value:.{d}f} ± {error:.{d}f}"


# ---------------------------------------------------------------------- the four sweeps


def sweep_n(x: Experiment, steps: int, task: Any) -> dict[float, tuple[Array, Estimate, Estimate, Estimate]]:
    """For each β: N, E Û_N − U*, its part above the floor, and N times that part at the end (the transient)."""
    found = {}
    counts = np.unique(np.geomspace(1, steps, 25).astype(np.int64))
    for beta in BETAS:
        rows = x.energies(Dynamics(SCHEMES["BOA exact"], STEP, FRICTION, beta), 2 * steps, x.start, task)
        running = np.cumsum(rows[:, :steps], axis=1)[:, counts - 1] / counts
        above = running - rows[:, steps:].mean(axis=1, keepdims=True)
        found[beta] = (counts, *map(Estimate.over_chains, (running, above, above * counts)))
    return found


def print_n(x: Experiment, found: dict[float, tuple[Array, Estimate, Estimate, Estimate]], settled: int) -> None:
    """Table of the transient: slope in N, and its size against β."""
    begin = x.posterior.potential(x.start) - x.minimum.potential
    print(f"\n1. N: BOA exact, h = {STEP}, c = {FRICTION:g}, start at U − U* = {begin:.0f}\n")
    last = found[BETAS[0]][0][-1]
    print(f"| β | slope of the transient in N | transient × N | E Û_N − U* at N = {last} | (6n − 6)/(2β) |")
    print("|---|---|---|---|---|")
    size, error = [], []
    for beta, (counts, running, above, total) in found.items():
        use = (counts >= settled) & (above.value > 5.0 * above.error)
        rate = pm(*slope(counts[use], above.value[use], above.error[use])) if use.sum() > 1 else "–"
        k = int(np.flatnonzero(counts >= settled)[0])
        size.append(total.value[k])
        error.append(total.error[k])
        end = pm(running.value[-1], running.error[-1])
        print(f"| {beta:g} | {rate} | {pm(size[-1], error[-1])} | {end} | {x.floor / beta:g} |")
    rate = slope(np.array(BETAS), np.array(size), np.array(error))
    print(f"\ntransient × N against β: slope {pm(*rate)} (bound: 1)")


def transient_against_h(x: Experiment, task: Any) -> None:
    """The transient's dependence on h: constant in N·h."""
    size, error = [], []
    for h in TRANSIENT_STEPS:
        count = round(3.0 / h)
        rows = x.energies(Dynamics(SCHEMES["BOA exact"], h, FRICTION, COLD), 2 * count, x.start, task)
        total = Estimate.over_chains(np.sum(rows[:, :count] - rows[:, count:].mean(axis=1, keepdims=True), axis=1))
        size.append(float(total.value))
        error.append(float(total.error))
    hs, y, e = np.array(TRANSIENT_STEPS), np.array(size), np.array(error)
    print(f"\ntransient × N at β = {COLD:g} against h (bound: slope −1)\n")
    print("| h |" + "".join(f" {h:g} |" for h in hs) + "\n|---|" + "---|" * len(hs))
    print("| transient × N |" + "".join(f" {pm(*v)} |" for v in zip(size, error, strict=True)))
    rates = [pm(*slope(hs[k : k + 2], y[k : k + 2], e[k : k + 2])) for k in range(len(hs) - 1)]
    print("| slope to the next |" + "".join(f" {rate} |" for rate in rates) + " |")


def sweep_beta(x: Experiment, steps: int, task: Any) -> dict[str, Estimate]:
    """⟨U⟩ − U* against β."""
    found = {}
    for name, scheme in SCHEMES.items():
        each = [x.stationary(Dynamics(scheme, STEP, FRICTION, beta), steps, task) for beta in MORE_BETAS]
        found[name] = Estimate(np.array([e.value for e in each]), np.array([e.error for e in each]))
    return found


def print_beta(x: Experiment, found: dict[str, Estimate]) -> None:
    """Table of β(⟨U⟩ − U*) and the slopes."""
    betas = np.array(MORE_BETAS)
    print(f"\n2. β: β(⟨U⟩ − U*) in equilibrium, h = {STEP}, c = {FRICTION:g}; (6n − 6)/2 = {x.floor:g}\n")
    print("| scheme |" + "".join(f" β = {b:g} |" for b in betas) + " linear theory | slope of ⟨U⟩ − U* for β ≥ 1 |")
    print("|---|" + "---|" * (len(betas) + 2))
    for name, e in found.items():
        cells = "".join(f" {b * v:.2f} ± {b * s:.2f} |" for b, v, s in zip(betas, e.value, e.error, strict=True))
        use = betas >= 1.0
        theory = stationary_mean(SCHEMES[name], STEP, FRICTION, 1.0, x.omega2)
        print(f"| {name} |{cells} {theory:.2f} | {pm(*slope(betas[use], e.value[use], e.error[use]))} |")
    exact = found["BOA exact"]
    bias, error = np.abs(exact.value - x.floor / betas), exact.error
    use = betas >= 10.0
    rate = slope(betas[use], bias[use], error[use])
    print(f"\nbias of BOA exact, |⟨U⟩ − U* − {x.floor:g}/β|, against β ≥ 10: slope {pm(*rate)} (bound: −1)")


def sweep_bias(x: Experiment, steps: int, along_h: bool, task: Any) -> dict[str, Estimate]:
    """β(⟨U⟩ − U*) − (6n − 6)/2 at large β, against h or against c."""
    points = [(h, FRICTION) for h in STEPS] if along_h else [(0.001, c) for c in FRICTIONS]
    found = {}
    for name, scheme in SCHEMES.items():
        each = [x.stationary(Dynamics(scheme, h, c, COLD), steps, task) for h, c in points]
        value, error = np.array([e.value for e in each]), np.array([e.error for e in each])
        found[name] = Estimate(COLD * value - x.floor, COLD * error)
    return found


def print_bias(x: Experiment, along_h: dict[str, Estimate], along_c: dict[str, Estimate]) -> None:
    """Tables of the bias against h and c with their closed forms."""
    hs = np.array(STEPS)
    print(f"\n3. h: β(⟨U⟩ − U*) − {x.floor:g} at β = {COLD:g}, c = {FRICTION:g}; linear theory in brackets\n")
    print("| scheme |" + "".join(f" h = {h:g} |" for h in hs) + f" χ² of {len(hs)} |")
    print("|---|" + "---|" * (len(hs) + 1))
    lines, use = [], hs <= 0.002
    for name, e in along_h.items():
        theory = np.array([stationary_mean(SCHEMES[name], h, FRICTION, 1.0, x.omega2) for h in hs]) - x.floor
        cells = "".join(f" {v:.2f} ± {s:.2f} ({t:.2f}) |" for v, s, t in zip(e.value, e.error, theory, strict=True))
        print(f"| {name} |{cells} {np.sum(((e.value - theory) / e.error) ** 2):.1f} |")
        if name != "BAOAB":
            rate = pm(*slope(hs[use], np.abs(e.value[use]), e.error[use]))
            expected = slope(hs[use], np.abs(theory[use]), e.error[use])[0]
            lines.append(f"bias of {name} against h ≤ 0.002: slope {rate}, linear theory {expected:.2f} (bound: 1)")
    print("", *lines, sep="\n")
    print(f"\n4. c: the same at h = 0.001, β = {COLD:g}\n")
    print("| scheme |" + "".join(f" c·h = {0.001 * c:g} |" for c in FRICTIONS) + "\n|---|" + "---|" * len(FRICTIONS))
    for name, e in along_c.items():
        theory = [stationary_mean(SCHEMES[name], 0.001, c, 1.0, x.omega2) - x.floor for c in FRICTIONS]
        cells = "".join(f" {v:.2f} ± {s:.2f} ({t:.2f}) |" for v, s, t in zip(e.value, e.error, theory, strict=True))
        print(f"| {name} |{cells}")


# ---------------------------------------------------------------------- figure


def draw(
    path: Path, x: Experiment, by_n: dict[float, tuple[Array, Estimate, Estimate, Estimate]],
    by_beta: dict[str, Estimate], by_h: dict[str, Estimate], by_c: dict[str, Estimate],
) -> None:  # fmt: skip
    """Four panels, one per sweep."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 10})
    figure, ((one, two), (three, four)) = plt.subplots(2, 2, figsize=(9.5, 7.2), constrained_layout=True)
    draw_n(one, x, by_n)

    betas, ends = np.array(MORE_BETAS), np.array([MORE_BETAS[0], MORE_BETAS[-1]])
    two.plot(ends, x.floor / ends, "k--", lw=0.8, label="(6n − 6)/(2β)")
    for name, e in by_beta.items():
        two.errorbar(betas, e.value, 2 * e.error, fmt="o", ms=4, mfc="none", color=COLOURS[name], label=name)
    two.set(xscale="log", yscale="log", xlabel="β", ylabel="⟨U⟩ − U* in equilibrium")
    two.set_title(f"The floor goes as 1/β (h = {STEP:g}, c = {FRICTION:g})")
    two.legend(frameon=False)

    fine = np.geomspace(STEPS[0], STEPS[-1], 60)
    for name, e in by_h.items():
        colour = COLOURS[name]
        theory = [stationary_mean(SCHEMES[name], h, FRICTION, 1.0, x.omega2) - x.floor for h in fine]
        three.errorbar(STEPS, e.value, 2 * e.error, fmt="o", ms=4, color=colour, label=name)
        three.plot(fine, theory, color=colour, lw=1)
    straight = x.floor * FRICTION * fine / 2.0
    three.plot(fine, straight, "k--", lw=0.8, label="±(6n − 6)/2 · ch/2")
    three.plot(fine, -straight, "k--", lw=0.8)
    three.set(xlabel="step h", ylabel="β(⟨U⟩ − U*) − (6n − 6)/2", ylim=(-0.5 * x.floor, 0.95 * x.floor))
    three.set_title(f"BOA's bias is of first order in h (c = {FRICTION:g})")
    three.legend(frameon=False)

    ch = 0.001 * np.array(FRICTIONS)
    curve = np.geomspace(ch[0] / 1.5, ch[-1] * 1.3, 80)
    four.plot(curve, (1.0 + np.exp(-curve)) / 2.0, color=COLOURS["BOA exact"], lw=1, label="(1 + e^(−ch))/2")
    four.plot(curve, -curve / np.expm1(-curve), color=COLOURS["BOA euler"], lw=1, label="ch/(1 − e^(−ch))")
    four.axhline(1.0, color=COLOURS["BAOAB"], lw=1)
    for name, e in by_c.items():
        value, error = 1.0 + e.value / x.floor, 2 * e.error / x.floor
        four.errorbar(ch, value, error, fmt="o", ms=4, color=COLOURS[name], label=name)
    four.set(xscale="log", yscale="log", xlabel="damping per step ch", ylabel="β(⟨U⟩ − U*) / ((6n − 6)/2)")
    four.set_title("… and a function of ch (h = 0.001)")
    four.set_yticks([0.5, 1.0, 2.0, 3.0], ["0.5", "1", "2", "3"])
    four.minorticks_off()
    four.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def draw_n(axis: Any, x: Experiment, by_n: dict[float, tuple[Array, Estimate, Estimate, Estimate]]) -> None:
    """The transient and its floors."""
    shades = ("#440154", "#31688e", "#35b779", "#c8b400")
    for colour, (beta, (counts, running, _, _)) in zip(shades, by_n.items(), strict=True):
        error = 2 * running.error
        axis.errorbar(counts, running.value, error, fmt="o-", ms=3, lw=1, color=colour, label=f"β = {beta:g}")
        floor = stationary_mean(SCHEMES["BOA exact"], STEP, FRICTION, beta, x.omega2)
        axis.axhline(floor, color=colour, ls=":", lw=1)
    counts, _, _, total = by_n[BETAS[-1]]
    far = counts > 100
    axis.plot(counts[far], 2.0 * total.value[-1] / counts[far], "k--", lw=0.8, label="slope −1")
    axis.set(xscale="log", yscale="log", xlabel="iterates N", ylabel="$E\\,\\hat{U}_N - U^*$")
    axis.set_title("The transient goes as 1/N, whatever β, to a floor (dotted)")
    axis.legend(frameon=False)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the sweeps, print the tables, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=24, help="chains behind every expectation (default 24)")
    parser.add_argument("--steps", type=int, default=16_384, help="steps of each chain (default 16384; slow ones ×4)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the graph and of the chains (default 0)")
    parser.add_argument("--figure", type=Path, help="write the figure here (needs matplotlib)")
    parser.add_argument("--quick", action="store_true", help="4 chains of 1024 steps")
    options = parser.parse_args(arguments)
    if options.quick:
        options.chains, options.steps = min(options.chains, 4), min(options.steps, 1024)

    sweeps = len(BETAS) + len(TRANSIENT_STEPS) + len(SCHEMES) * (len(MORE_BETAS) + len(STEPS) + len(FRICTIONS))
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("chains", total=sweeps * options.chains)
        x = Experiment(options.seed, options.chains, progress)
        edges, best = x.posterior.graph.n_edges, x.minimum
        print(f"8 nodes, {edges} edges, U* = {best.potential:.4f} ({best.status}); {options.chains} chains")
        print_n(x, by_n := sweep_n(x, options.steps, task), settled=min(1500, options.steps // 2))
        transient_against_h(x, task)
        print_beta(x, by_beta := sweep_beta(x, options.steps, task))
        by_h = sweep_bias(x, options.steps, True, task)
        print_bias(x, by_h, by_c := sweep_bias(x, options.steps, False, task))
    if options.figure:
        draw(options.figure, x, by_n, by_beta, by_h, by_c)
        print(f"\nwrote {options.figure}")


if __name__ == "__main__":
    main()
