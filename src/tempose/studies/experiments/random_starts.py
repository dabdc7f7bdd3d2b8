"""From random starts to the optimum: TG-MCMC at β → ∞ against projected gradient descent with the same step.

Graphs are the paper's synthetic ones (50 nodes), in three settings: dense, sparse, and sparse with much noise, where
U has local minima. In each pair of rows both methods minimise the same U from the same start for the same number of
iterations; gradient descent moves by ``−h²∇U`` and puts the quaternions back on the sphere.

* ``paper``: the preset: λ and σ² in the paper's ranges, c = 1000, h in 0.001 … 0.008, its translations, unit masses;
* ``default``: the graph's own precisions, world positions, masses from the Hessian, little friction (c·h = 0.05);
* ``annealed``: the same with a schedule of rising β for the first half of the iterations.

U* is the lowest minimum that is known, from the truth and from where each run ended.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose import paper
from tempose._support import streams
from tempose._support.tables import text_table
from tempose._typing import Array
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
from tempose.studies import figures
from tempose.studies.experiment import Experiment, Result, RunOptions
from tempose.studies.store import Cell, Row

SETTINGS = {"dense": (0.5, 3.0, 0.05), "sparse": (0.05, 5.0, 0.05), "sparse, noisy": (0.05, 20.0, 0.1)}
"""Completeness, σ of rotations in degrees, σ of translations."""
RUNS = {
    "TG-MCMC, paper": ("paper", "tg-mcmc"),
    "PGD, same h": ("paper", "pgd"),
    "TG-MCMC, default": ("default", "tg-mcmc"),
    "PGD, same h and masses": ("default", "pgd"),
    "TG-MCMC, annealed": ("default", "annealed"),
}
"""Which U and step, and how it is minimised."""
KINDS = ("paper", "default")
OPTIMA = {kind: f"optimum, {kind}" for kind in KINDS}
"""The lines of the optima that runs are compared with."""
ANNEAL = (0.01, 0.03, 0.1, 0.3, 1.0)  # inverse temperatures of the first half of an annealed run
BLOCK = 25  # iterations between two looks at U
CLOSE = 0.01  # relative distance to U* that counts as success


def cells(options: RunOptions) -> list[Cell]:
    """Settings × graphs, each with a start of its own."""
    size = {"nodes": paper.NODES, "iterations": 400 if options.quick else 2000}
    return [{"setting": name, **size, "seed": seed} for name in SETTINGS for seed in options.seed_list(40, 2)]


# ---------------------------------------------------------------------- the runs


@dataclass(frozen=True, eq=False)
class Minimisation:
    """What is minimised, and what a step of TG-MCMC does, found from the curvature at the start as ``solve`` does."""

    posterior: Posterior
    curvature: Curvature
    start: Poses
    step: float
    friction: float
    coordinates: str
    inverse_mass: Array

    @classmethod
    def of(cls, kind: str, made: Simulated, start: Poses) -> Minimisation:
        """The potential and the settings of the preset ``paper``, or of the default."""
        graph, printed = made.graph, kind == "paper"
        if printed:
            graph = paper.with_paper_noise(graph)
        curvature = Curvature(Posterior(graph))
        tuning = tune(curvature, start, identity_mass=printed)
        step = paper.longest_step(tuning.fastest, paper.FRICTION) if printed else 0.7 * tuning.step
        friction = paper.FRICTION if printed else 0.05 / step
        coordinates = "paper" if printed else "position"
        return cls(curvature.posterior, curvature, start, step, friction, coordinates, tuning.inverse_mass)


@dataclass(frozen=True, eq=False)
class Descended:
    """Where a run ended, and U on the way (k, 2): iteration, U."""

    poses: Poses
    trace: Array


def tg_mcmc(problem: Minimisation, iterations: int, seed: int, *, anneal: bool = False) -> Descended:
    """The paper's sampler at β → ∞, after rising temperatures if asked."""
    each = iterations // (2 * len(ANNEAL)) // BLOCK * BLOCK
    warm = tuple((beta, each) for beta in ANNEAL) if anneal else ()
    found = optimise(
        problem.posterior,
        problem.start,
        scheme=Scheme("boa"),
        step=problem.step,
        friction=problem.friction,
        key=streams.key(seed, "optimise"),
        schedule=(*warm, (math.inf, iterations - len(warm) * each)),
        coordinates=problem.coordinates,
        inverse_mass=problem.inverse_mass,
        tolerance=0.0,
    )
    return Descended(found.poses, found.trace)


def projected_gradient(problem: Minimisation, iterations: int) -> Descended:
    """Gradient descent by ``−h² M⁻¹∇U`` in ℝ⁴ × ℝ³ with the quaternions divided by their length after each step.

    The gradient in ℝ⁴ is the one tangent to the sphere; a radial part would only rescale the step. Unlike the method
    ``pgd`` it has masses, and never shortens the step.
    """
    wxyz, position = problem.start.wxyz, problem.start.position
    turn, push = (problem.step**2 * part for part in (problem.inverse_mass[:, :1], problem.inverse_mass[:, 1:]))
    work = problem.posterior.workspace()
    trace, best = [], (np.inf, wxyz, position)
    for k in range(iterations + 1):
        value, gradient = problem.posterior.gradient_at(wxyz, position, work)
        best = min(best, (value, wxyz, position), key=lambda seen: seen[0])
        if k % BLOCK == 0:
            trace.append((float(k), value))
        by_rotation, by_position = gradient[:, :3], gradient[:, 3:]
        if problem.coordinates == "paper":  # at fixed t = −Rᵀp the position turns with the node
            by_rotation = by_rotation + np.cross(position, by_position)
            t = quat.rotate(quat.conjugate(wxyz), push * by_position - position)
        omega = np.pad(2.0 * turn * by_rotation, ((0, 0), (1, 0)))
        wxyz = quat.normalize(wxyz - quat.multiply(omega, wxyz))
        position = -quat.rotate(wxyz, t) if problem.coordinates == "paper" else position - push * by_position
    return Descended(Poses(problem.start.ids, *best[1:]), np.array(trace))


def _descend(how: str, problem: Minimisation, iterations: int, seed: int) -> Descended:
    if how == "pgd":
        return projected_gradient(problem, iterations)
    return tg_mcmc(problem, iterations, seed, anneal=how == "annealed")


def run(cell: Cell) -> list[Row]:
    """All runs on one graph, and the optima they are compared with."""
    completeness, degrees, length = SETTINGS[cell["setting"]]
    made = simulate(
        cell["nodes"], completeness=completeness, sigma_rot_deg=degrees, sigma_trans=length, seed=cell["seed"]
    )
    start = random_poses(made.graph, streams.generator(cell["seed"], "start"))
    rows: list[Row] = []
    for kind in KINDS:
        problem = Minimisation.of(kind, made, start)
        runs = {
            name: _descend(how, problem, cell["iterations"], cell["seed"])
            for name, (which, how) in RUNS.items()
            if which == kind
        }
        polished = {name: minimise(problem.curvature, done.poses) for name, done in runs.items()}
        candidates = [minimise(problem.curvature, made.truth), *polished.values()]
        optimum = min(candidates, key=lambda found: found.potential)
        for name, done in runs.items():
            reached = polished[name].potential < optimum.potential * (1.0 + 1e-6)
            rows.append(
                {"run": name, "basin": reached, **_measured(problem, done, optimum.potential, cell, made.truth)}
            )
        proved = certify(problem.posterior, optimum.poses).certified is True
        rows.append({"run": OPTIMA[kind], "proved": proved, **_errors(optimum.poses, made.truth)})
    return rows


def _measured(problem: Minimisation, done: Descended, best: float, cell: Cell, truth: Poses) -> Row:
    above = done.trace[:, 1] / best - 1.0
    close = done.trace[above < CLOSE, 0]
    return {
        "excess": problem.posterior.potential(done.poses) / best - 1.0,
        "reached": float(close[0]) if len(close) else None,
        **_errors(done.poses, truth),
        "curve": np.interp(np.arange(0, cell["iterations"] + 1, BLOCK), done.trace[:, 0], above).tolist(),
    }


def _errors(poses: Poses, truth: Poses) -> Row:
    errors = pose_errors(poses, truth)
    return {"mean_rotation_deg": errors.mean_rotation_deg, "mean_translation": errors.mean_translation}


# ---------------------------------------------------------------------- what is shown


def table(rows: list[Row]) -> list[Row]:
    """Means and standard deviations over the graphs.

    ``success`` is the share of runs that end within 1% of U*, ``basin`` of those that Newton's method then takes to U*,
    ``iterations`` those to 1% of the runs that get there, counted in blocks of 25; ``proved`` the share of optima that are
    proved to be global.
    """
    lines = []
    for setting, name in dict.fromkeys((row["setting"], row["run"]) for row in rows):
        here = [row for row in rows if (row["setting"], row["run"]) == (setting, name)]
        line: Row = {"setting": setting, "run": name, "graphs": len(here)}
        if name in OPTIMA.values():
            line["proved"] = float(np.mean([row["proved"] for row in here]))
        else:
            excess, arrived = (
                np.array([row["excess"] for row in here]),
                [r["reached"] for r in here if r["reached"] is not None],
            )
            line |= {
                "success": float(np.mean(excess < CLOSE)),
                "basin": float(np.mean([row["basin"] for row in here])),
                "iterations": float(np.mean(arrived)) if arrived else None,
                "iterations_sd": float(np.std(arrived)) if arrived else None,
                "median_excess": float(np.median(excess)),
            }
        for value in ("mean_rotation_deg", "mean_translation"):
            found = np.array([row[value] for row in here])
            line |= {value: float(found.mean()), f"{value}_sd": float(found.std())}
        lines.append(line)
    return lines


def draw(result: Result, home: Path) -> list[Path]:
    """Median of U/U* − 1 against the iteration, with quartiles, one panel per setting."""
    shown = list(dict.fromkeys(row["setting"] for row in result.rows))
    figure, axes = figures.panels(len(shown), width=3.6, height=3.6)
    styles = (("#1f77b4", "-"), ("#1f77b4", "--"), ("#d62728", "-"), ("#d62728", "--"), ("#2ca02c", "-"))
    for ax, setting in zip(axes, shown, strict=True):
        for name, (colour, line) in zip(RUNS, styles, strict=True):
            rows = [row for row in result.rows if (row["setting"], row["run"]) == (setting, name)]
            curves = np.maximum([row["curve"] for row in rows], 1e-9)
            low, middle, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
            at = BLOCK * np.arange(len(middle))
            ax.plot(at, middle, color=colour, ls=line, lw=1.3, label=name)
            ax.fill_between(at, low, high, color=colour, alpha=0.12, lw=0)
        ax.axhline(CLOSE, color="k", ls=":", lw=0.8)
        completeness, degrees, length = SETTINGS[setting]
        title = f"{setting}: {100 * completeness:g}% of pairs, {degrees:g}°, {length:g}"
        figures.label(ax, "iteration", "U/U* − 1: median and quartiles" if ax is axes[0] else "", title, log_y=True)
        ax.set_ylim(1e-7, None)
    figures.legend(figure, axes[0])
    return figures.save(figure, home, dpi=130)


def text(result: Result) -> str:
    """One table per setting."""
    names = dict.fromkeys(row["setting"] for row in result.table)
    return "\n\n".join(_setting(name, [row for row in result.table if row["setting"] == name]) for name in names)


def _setting(name: str, rows: list[Row]) -> str:
    _, degrees, length = SETTINGS[name]
    head = f"{name}: {paper.NODES} nodes, σ = {degrees:g}° and {length:g}, {rows[0]['graphs']} graphs"
    lines = [["method", "success", "basin", "iterations to 1%", "median U/U* − 1", "MRE, °", "MTE"]]
    for r in rows:
        shares = ["", "", "", ""]
        if "success" in r:
            when = "–" if r["iterations"] is None else f"{r['iterations']:.0f} ± {r['iterations_sd']:.0f}"
            end = f"{r['median_excess']:.1e}" if r["median_excess"] > 1e-12 else "< 1e-12"
            shares = [f"{100 * r['success']:.0f}%", f"{100 * r['basin']:.0f}%", when, end]
        turned = f"{r['mean_rotation_deg']:.2f} ± {r['mean_rotation_deg_sd']:.2f}"
        lines.append([r["run"], *shares, turned, f"{r['mean_translation']:.3f} ± {r['mean_translation_sd']:.3f}"])
    proved = {kind: r["proved"] for kind, name in OPTIMA.items() for r in rows if r["run"] == name}
    share = ", ".join(f"{kind} {100 * known:.0f}%" for kind, known in proved.items())
    return f"{head}\n{text_table(lines)}\nU* is proved to be the global optimum in: {share}"


EXPERIMENT = Experiment(cells, run, table, draw, text, methods=False)
