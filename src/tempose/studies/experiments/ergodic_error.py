"""The paper's theorem, measured: ``|E Û_N − U*| = O(β/(Nh) + h/β + 1/β)`` for BOA, term by term.

``Û_N`` is the mean of U over the first N iterates of a chain that starts at a fixed place away from the optimum; the
expectation is the mean over many chains. The graph has 8 nodes and 22 edges, masses are one, positions are coordinates, U*
comes from Newton's method. Five sweeps:

* N, at several β: the transient falls as 1/N, down to a floor;
* the transient against h, which is constant in N·h for small h;
* β: the floor is (6n − 6)/(2β) times a factor of the scheme;
* h, at fixed friction c: what the scheme adds to (6n − 6)/(2β), the theorem's h/β;
* c, at fixed h: the same, which is a function of c·h.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support import streams
from tempose._support.tables import text_table
from tempose._typing import Array
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.poses import Poses
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.linear_theory import small_graph, squared_frequencies, stationary_mean
from tempose.studies.store import Cell, Row

STEP, FRICTION = 0.002, 100.0
BETAS = (1.0, 10.0, 100.0, 1000.0)
MORE_BETAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0)
COLD = 100.0  # β of the sweeps over h and c: U is quadratic to 1e-4 there
STEPS = (0.0005, 0.001, 0.002, 0.004, 0.006, 0.008)
TRANSIENT_STEPS = (0.00025, 0.0005, 0.001, 0.002, 0.004)
FRICTIONS = (30.0, 100.0, 300.0, 1000.0, 3000.0)
SHORT_STEP = 0.001  # of the sweep over c
SCHEMES = {"BOA exact": Scheme("boa"), "BOA euler": Scheme("boa", "euler"), "BAOAB": Scheme("baoab")}
COLOURS = {"BOA exact": "#1f77b4", "BOA euler": "#d62728", "BAOAB": "#2ca02c"}
FLOOR = 21.0  # (6n − 6)/2, times 1/β


def cells(options: RunOptions) -> list[Cell]:
    """One cell per expectation; ``first`` numbers its chains, so that none has the random numbers of another."""
    chains, steps = (4, 1024) if options.quick else (24, 16_384)
    points: list[tuple[str, str, float, float, float]] = [("N", "BOA exact", STEP, FRICTION, b) for b in BETAS]
    points += [("transient", "BOA exact", h, FRICTION, COLD) for h in TRANSIENT_STEPS]
    points += [("beta", scheme, STEP, FRICTION, b) for scheme in SCHEMES for b in MORE_BETAS]
    points += [("h", scheme, h, FRICTION, COLD) for scheme in SCHEMES for h in STEPS]
    points += [("c", scheme, SHORT_STEP, c, COLD) for scheme in SCHEMES for c in FRICTIONS]
    names = ("sweep", "scheme", "step", "friction", "beta")
    size = {"chains": chains, "steps": steps, "seed": options.seed}
    return [{**dict(zip(names, point, strict=True)), **size, "first": k * chains} for k, point in enumerate(points)]


# ---------------------------------------------------------------------- one expectation


class Chains:
    """The chains of a cell, on its graph."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.posterior, curvature, self.minimum = small_graph(cell["seed"])
        self.omega2 = squared_frequencies(curvature, self.minimum)
        self.dynamics = Dynamics(SCHEMES[cell["scheme"]], cell["step"], cell["friction"], cell["beta"])

    def away(self) -> Poses:
        """A fixed place away from the optimum."""
        rng = streams.generator(self.cell["seed"], "start")
        best, n = self.minimum.poses, self.posterior.graph.n_nodes
        turn = quat.exp(0.4 * rng.standard_normal((n, 3)))
        return Poses(best.ids, quat.multiply(turn, best.wxyz), best.position + 0.4 * rng.standard_normal((n, 3)))

    def energies(self, steps: int, start: Poses, keep: int = 0) -> Array:
        """U − U* at the iterates 1 … ``steps`` of every chain (chains, steps), or the means of its last ``keep``."""
        before = int(
            self.dynamics.scheme.name == "boa"
        )  # its gradient, and so its energy, is that of the iterate before
        rows = []
        for k in range(self.cell["first"], self.cell["first"] + self.cell["chains"]):
            chain = GeodesicChain(self.posterior, start, streams.key(self.cell["seed"], "chain", k))
            energy = chain.run(self.dynamics, steps + before)[before:] - self.minimum.potential
            rows.append(energy[-keep:].mean(keepdims=True) if keep else energy)
        return np.array(rows)

    def stationary(self, steps: int) -> Array:
        """⟨U⟩ − U* (chains,) in equilibrium, by chains that start at the optimum and forget it first."""
        slowest, d = float(self.omega2.min()), self.dynamics
        relaxation = max(d.friction / slowest, 2.0 / d.friction)
        forget = math.ceil(3.0 * relaxation / d.step)
        usual = FRICTION / slowest / STEP
        steps = round(steps * min(4.0, max(1.0, relaxation / d.step / usual)))  # slow chains run longer
        return self.energies(forget + steps, self.minimum.poses, keep=steps)[:, 0]


def mean_and_error(x: Array) -> tuple[Array, Array]:
    """Mean over chains (first axis), and its standard error."""
    return x.mean(axis=0), x.std(axis=0, ddof=1) / math.sqrt(len(x))


def run(cell: Cell) -> list[Row]:
    """Rows of one expectation: for the sweep over N one per N, else one."""
    chains = Chains(cell)
    if cell["sweep"] == "N":
        return _against_n(chains, cell["steps"])
    if cell["sweep"] == "transient":
        count = round(3.0 / cell["step"])
        u = chains.energies(2 * count, chains.away())
        value, error = mean_and_error(np.sum(u[:, :count] - u[:, count:].mean(axis=1, keepdims=True), axis=1))
        return [{"value": float(value), "error": float(error)}]
    value, error = mean_and_error(chains.stationary(cell["steps"]))
    d = chains.dynamics
    linear = stationary_mean(d.scheme, d.step, d.friction, d.beta, chains.omega2)
    return [{"value": float(value), "error": float(error), "linear": linear}]


def _against_n(chains: Chains, steps: int) -> list[Row]:
    """For each N: E Û_N − U*, its part above the floor, and N times that part (the transient)."""
    start = chains.away()
    counts = np.unique(np.geomspace(1, steps, 25).astype(np.int64))
    u = chains.energies(2 * steps, start)
    running = np.cumsum(u[:, :steps], axis=1)[:, counts - 1] / counts
    above = running - u[:, steps:].mean(axis=1, keepdims=True)
    found = {"value": running, "above": above, "transient": above * counts}
    columns = {name: mean_and_error(x) for name, x in found.items()}
    begin = chains.posterior.potential(start) - chains.minimum.potential
    return [
        {"N": int(n), "start": begin}
        | {name: float(mean[k]) for name, (mean, _) in columns.items()}
        | {f"{name}_error" if name != "value" else "error": float(error[k]) for name, (_, error) in columns.items()}
        for k, n in enumerate(counts)
    ]


# ---------------------------------------------------------------------- what is shown


def table(rows: list[Row]) -> list[Row]:
    """All expectations with their errors."""
    left_out = ("chains", "steps", "seed", "first")
    return [{name: value for name, value in row.items() if name not in left_out} for row in rows]


def slope(x: Array, y: Array, error: Array) -> tuple[float, float]:
    """Slope of log y against log x by weighted least squares, and its standard error from the errors of y."""
    u, w = np.log(x), (y / error) ** 2
    u = u - np.sum(w * u) / np.sum(w)
    spread = np.sum(w * u * u)
    return float(np.sum(w * u * np.log(y)) / spread), float(1.0 / math.sqrt(spread))


def pm(value: float, error: float) -> str:
    """Value and error with the digits that the error leaves."""
    d = max(0, 1 - math.floor(math.log10(error))) if error > 0.0 else 3
    return f"{value:.{d}f} ± {error:.{d}f}"


def _column(rows: list[Row], *names: str) -> tuple[Array, ...]:
    return tuple(np.array([row[name] for row in rows]) for name in names)


def _of(result: Result, sweep: str, **settings: Any) -> list[Row]:
    return [
        row for row in result.table if row["sweep"] == sweep and all(row[name] == x for name, x in settings.items())
    ]


def text(result: Result) -> str:
    """The tables of all sweeps, with slopes."""
    return "\n\n".join([_text_n(result), _text_transient(result), _text_beta(result), _text_h(result), _text_c(result)])


def _text_n(result: Result) -> str:
    begin = _of(result, "N")[0]["start"]
    head = f"1. N: BOA exact, h = {STEP}, c = {FRICTION:g}, start at U − U* = {begin:.0f}"
    last = max(row["N"] for row in _of(result, "N"))
    settled = min(1500, last // 2)
    lines = [["β", "slope of the transient in N", "transient × N", f"E Û_N − U* at N = {last}", "(6n − 6)/(2β)"]]
    sizes = []
    for beta in BETAS:
        rows = _of(result, "N", beta=beta)
        n, value, error, above, above_error = _column(rows, "N", "value", "error", "above", "above_error")
        use = (n >= settled) & (above > 5.0 * above_error)
        rate = pm(*slope(n[use], above[use], above_error[use])) if use.sum() > 1 else "–"
        first = next(row for row in rows if row["N"] >= settled)
        sizes.append((first["transient"], first["transient_error"]))
        lines.append([f"{beta:g}", rate, pm(*sizes[-1]), pm(value[-1], error[-1]), f"{FLOOR / beta:g}"])
    rate = pm(*slope(np.array(BETAS), *np.array(sizes).T))
    return f"{head}\n{text_table(lines)}\ntransient × N against β: slope {rate} (bound: 1)"


def _text_transient(result: Result) -> str:
    h, y, e = _column(_of(result, "transient"), "step", "value", "error")
    rates = [pm(*slope(h[k : k + 2], y[k : k + 2], e[k : k + 2])) for k in range(len(h) - 1)]
    lines = [["h", *(f"{one:g}" for one in h)], ["transient × N", *map(pm, y, e)], ["slope to the next", *rates, ""]]
    return f"transient × N at β = {COLD:g} against h (bound: slope −1)\n{text_table(lines)}"


def _text_beta(result: Result) -> str:
    head = f"2. β: β(⟨U⟩ − U*) in equilibrium, h = {STEP}, c = {FRICTION:g}; (6n − 6)/2 = {FLOOR:g}"
    lines = [["scheme", *(f"β = {b:g}" for b in MORE_BETAS), "linear theory", "slope of ⟨U⟩ − U* for β ≥ 1"]]
    for scheme in SCHEMES:
        beta, value, error, linear = _column(_of(result, "beta", scheme=scheme), "beta", "value", "error", "linear")
        use = beta >= 1.0
        found = [f"{b * v:.2f} ± {b * s:.2f}" for b, v, s in zip(beta, value, error, strict=True)]
        lines.append([scheme, *found, f"{beta[-1] * linear[-1]:.2f}", pm(*slope(beta[use], value[use], error[use]))])
    beta, value, error = _column(_of(result, "beta", scheme="BOA exact"), "beta", "value", "error")
    use = beta >= 10.0
    rate = pm(*slope(beta[use], np.abs(value - FLOOR / beta)[use], error[use]))
    told = f"bias of BOA exact, |⟨U⟩ − U* − {FLOOR:g}/β|, against β ≥ 10: slope {rate} (bound: −1)"
    return f"{head}\n{text_table(lines)}\n{told}"


def bias(result: Result, sweep: str, scheme: str) -> tuple[Array, Array, Array]:
    """β(⟨U⟩ − U*) − (6n − 6)/2 along a sweep at β = 100, its error, and linear theory."""
    value, error, linear = _column(_of(result, sweep, scheme=scheme), "value", "error", "linear")
    return COLD * value - FLOOR, COLD * error, COLD * linear - FLOOR


def _text_h(result: Result) -> str:
    h, told = np.array(STEPS), []
    lines = [["scheme", *(f"h = {one:g}" for one in h), f"χ² of {len(h)}"]]
    use = h <= 0.002
    for scheme in SCHEMES:
        value, error, theory = bias(result, "h", scheme)
        found = [f"{v:.2f} ± {s:.2f} ({t:.2f})" for v, s, t in zip(value, error, theory, strict=True)]
        lines.append([scheme, *found, f"{np.sum(((value - theory) / error) ** 2):.1f}"])
        if scheme != "BAOAB":
            rate = pm(*slope(h[use], np.abs(value[use]), error[use]))
            expected = slope(h[use], np.abs(theory[use]), error[use])[0]
            told.append(f"bias of {scheme} against h ≤ 0.002: slope {rate}, linear theory {expected:.2f} (bound: 1)")
    head = f"3. h: β(⟨U⟩ − U*) − {FLOOR:g} at β = {COLD:g}, c = {FRICTION:g}; linear theory in brackets"
    return "\n".join([head, text_table(lines), *told])


def _text_c(result: Result) -> str:
    lines = [["scheme", *(f"c·h = {SHORT_STEP * c:g}" for c in FRICTIONS)]]
    for scheme in SCHEMES:
        rows = zip(*bias(result, "c", scheme), strict=True)
        lines.append([scheme, *(f"{v:.2f} ± {s:.2f} ({t:.2f})" for v, s, t in rows)])
    return f"4. c: the same at h = {SHORT_STEP:g}, β = {COLD:g}\n{text_table(lines)}"


def draw(result: Result, home: Path) -> list[Path]:
    """Four panels: N, β, h and c."""
    figure, (one, two, three, four) = figures.panels(2, 2, width=4.75, height=3.6)
    _, curvature, minimum = small_graph(result.options.seed)
    omega2 = squared_frequencies(curvature, minimum)
    _draw_n(one, result, omega2)

    ends = np.array([MORE_BETAS[0], MORE_BETAS[-1]])
    two.plot(ends, FLOOR / ends, "k--", lw=0.8, label="(6n − 6)/(2β)")
    for scheme, colour in COLOURS.items():
        beta, value, error = _column(_of(result, "beta", scheme=scheme), "beta", "value", "error")
        two.errorbar(beta, value, 2 * error, fmt="o", ms=4, mfc="none", color=colour, label=scheme)
    title = f"The floor goes as 1/β (h = {STEP:g}, c = {FRICTION:g})"
    figures.label(two, "β", "⟨U⟩ − U* in equilibrium", title, log_x=True, log_y=True)

    fine = np.geomspace(STEPS[0], STEPS[-1], 60)
    for scheme, colour in COLOURS.items():
        value, error, _ = bias(result, "h", scheme)
        three.errorbar(STEPS, value, 2 * error, fmt="o", ms=4, color=colour, label=scheme)
        theory = [stationary_mean(SCHEMES[scheme], h, FRICTION, 1.0, omega2) - FLOOR for h in fine]
        three.plot(fine, theory, color=colour, lw=1)
    straight = FLOOR * FRICTION * fine / 2.0
    three.plot(fine, straight, "k--", lw=0.8, label="±(6n − 6)/2 · ch/2")
    three.plot(fine, -straight, "k--", lw=0.8)
    three.set_ylim(-0.5 * FLOOR, 0.95 * FLOOR)
    figures.label(three, "step h", "β(⟨U⟩ − U*) − (6n − 6)/2", f"BOA's bias is of first order in h (c = {FRICTION:g})")
    _draw_c(four, result)
    for ax in (one, two, three, four):
        ax.legend(frameon=False, fontsize=8)
    return figures.save(figure, home, dpi=130)


def _draw_n(ax: Any, result: Result, omega2: Array) -> None:
    """The transient and its floors."""
    for beta, colour in zip(BETAS, ("#440154", "#31688e", "#35b779", "#c8b400"), strict=True):
        n, value, error, transient = _column(_of(result, "N", beta=beta), "N", "value", "error", "transient")
        ax.errorbar(n, value, 2 * error, fmt="o-", ms=3, lw=1, color=colour, label=f"β = {beta:g}")
        ax.axhline(stationary_mean(SCHEMES["BOA exact"], STEP, FRICTION, beta, omega2), color=colour, ls=":", lw=1)
    far = n > 100
    ax.plot(n[far], 2.0 * transient[-1] / n[far], "k--", lw=0.8, label="slope −1")
    title = "The transient goes as 1/N, whatever β, to a floor (dotted)"
    figures.label(ax, "iterates N", "$E\\,\\hat{U}_N - U^*$", title, log_x=True, log_y=True)


def _draw_c(ax: Any, result: Result) -> None:
    """The bias as a function of c·h."""
    ch = SHORT_STEP * np.array(FRICTIONS)
    curve = np.geomspace(ch[0] / 1.5, ch[-1] * 1.3, 80)
    ax.plot(curve, (1.0 + np.exp(-curve)) / 2.0, color=COLOURS["BOA exact"], lw=1, label="(1 + e^(−ch))/2")
    ax.plot(curve, -curve / np.expm1(-curve), color=COLOURS["BOA euler"], lw=1, label="ch/(1 − e^(−ch))")
    ax.axhline(1.0, color=COLOURS["BAOAB"], lw=1)
    for scheme, colour in COLOURS.items():
        value, error, _ = bias(result, "c", scheme)
        ax.errorbar(ch, 1.0 + value / FLOOR, 2 * error / FLOOR, fmt="o", ms=4, color=colour, label=scheme)
    title = f"… and a function of ch (h = {SHORT_STEP:g})"
    figures.label(ax, "damping per step ch", "β(⟨U⟩ − U*) / ((6n − 6)/2)", title, log_x=True, log_y=True)
    ax.set_yticks([0.5, 1.0, 2.0, 3.0], ["0.5", "1", "2", "3"])
    ax.minorticks_off()


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False, seeds=False)
