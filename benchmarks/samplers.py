"""Effective draws per gradient and per second: our samplers, the paper's BOA, and NUTS in BlackJAX, in one run.

    python benchmarks/samplers.py                        # a random graph of 50 nodes and those of TEMPOSE_DATA
    python benchmarks/samplers.py GRAPH.g2o ...          # these graphs
    python benchmarks/samplers.py --scaling              # one family of graphs, 100 to 10 000 nodes
    python benchmarks/samplers.py --scaling --sizes 100000 --draws 300
    python benchmarks/samplers.py --scaling --seed 11    # the same family, other graphs: to choose something on
    python benchmarks/samplers.py --kinds                # in space and in the plane, correlated or not
    python benchmarks/samplers.py --robust               # edges that may be wrong: simulated, and of TEMPOSE_DATA

The effective sample size is that of the worst of all rotation coordinates (logarithm at the optimum, one node held), by
Geyer's initial monotone sequence, of one chain. The worst of thousands of *estimates* is low even for perfect draws: the
column ``if indep.`` is what as many independent normal numbers would get. ``again`` is free of that choice: the worst ten
coordinates (of many, the worst thousandth) of one half of the draws, measured in the other half; twice their median, which is again
compared with that of independent numbers. ``of 2000`` is the same for at most so many coordinates, evenly
spaced: the worst ten of 300 000 are more extreme than those of 300. ``squares`` is ``again`` for the squares of the coordinates'
distances from their means: what error bars are made of. Seconds are of processor time, without tuning (its own column) and
compilation. ``× NUTS`` compares with NUTS, diagonal mass matrix. BOA has the exact noise and our masses (with the
printed noise it does not sample the posterior at all); it accepts everything, so β(U − U*), which should be half the degrees of
freedom, shows its error. NUTS needs ``pip install '.[bench]'``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

import tempose
from tempose.dynamics.chain import Dynamics
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.starts import start_poses
from tempose.sampling.choice import Problem, choose
from tempose.sampling.tuning import tune

SAMPLERS = ("collapsed", "geodesic-mh", "boa", "nuts", "nuts-dense")
FEW = 2000  # coordinates, evenly spaced, for a measure that does not change with their number
DENSE = 1000  # dimensions up to which a dense mass matrix can be learnt


def effective(x, squares=False):
    """Effective sizes (d,) of draws (n, d), or of squares, by blocks of columns, those that do not change left out."""
    blocks = (x[:, k : k + 500].astype(float) for k in range(0, x.shape[1], 500))
    moving = (block[:, np.ptp(block, axis=0) > 0.0] for block in blocks)
    return np.concatenate([_effective((b - b.mean(axis=0)) ** 2 if squares else b) for b in moving])


def _effective(x):
    n = len(x)
    x = x - x.mean(axis=0)
    f = np.fft.rfft(x, 2 * n, axis=0)
    rho = np.fft.irfft(np.abs(f) ** 2, axis=0)[:n] / np.sum(x**2, axis=0)
    pairs = rho[0 : n // 2 * 2 : 2] + rho[1 : n // 2 * 2 : 2]
    pairs = np.minimum.accumulate(np.where(np.cumprod(pairs > 0.0, axis=0), pairs, 0.0), axis=0)
    return n / np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / np.log10(n))


def if_independent(n, d):
    """Worst effective size of d columns of n independent normal numbers."""
    rng = np.random.default_rng(0)
    return min(_effective(rng.standard_normal((n, min(500, d - k)))).min() for k in range(0, d, 500))


def again(x, squares=False):
    """Effective draws a draw, in one half of draws (n, d), of the coordinates that were worst in the other; 1 if independent.

    Of the coordinates' means, or of the ``squares`` of their distances from them.
    """
    half = len(x) // 2
    numbers = np.random.default_rng(0).standard_normal((half, 500))
    first, second, independent = (effective(one, squares) for one in (x[:half], x[half : 2 * half], numbers))
    count = max(10, len(first) // 1000)
    found = np.median(second[np.argsort(first)[:count]]) + np.median(first[np.argsort(second)[:count]])
    return found / 2.0 / np.median(independent)


@dataclass(frozen=True)
class Case:
    """A graph, its optimum and what samplers need of it."""

    name: str
    graph: tempose.PoseGraph
    beta: float

    @cached_property
    def optimum(self):
        """Curvature and minimum."""
        curvature = Curvature(Posterior(self.graph))
        return curvature, minimise(curvature, start_poses(self.graph, "chordal", np.random.default_rng(0)))

    @cached_property
    def problem(self) -> Problem:
        """The sampling problem at the optimum."""
        curvature, best = self.optimum
        tuning = tune(curvature, best.poses)
        dynamics = Dynamics(Scheme("baoab"), tuning.step, tuning.friction, self.beta)
        laplace = None if tuning.laplace is None else Laplace(curvature, best.poses, self.beta, tuning.laplace)
        return Problem(curvature.posterior, best.poses, laplace, tuning, dynamics)

    @property
    def leapfrogs(self) -> float:
        """Leapfrog steps to turn the slowest mode by half a period, with a step that the fastest one accepts."""
        tuning = self.problem.tuning
        return math.pi * tuning.fastest / tuning.slowest


@dataclass(frozen=True)
class Run:
    """Rotation coordinates (draws, d), β(U − U*), and what they cost."""

    omega: np.ndarray
    excess: float
    acceptance: float
    gradients: float
    seconds: float
    tuning_seconds: float


def robust_case(name: str, graph: tempose.PoseGraph, beta: float) -> Case:
    """The case of a robust solve with estimated noise, and what its default draws and looking back at them cost."""
    began, clock = time.process_time(), time.perf_counter()
    without = tempose.solve(graph, robust=True, noise="auto", draws=0, certify=False)
    middle, middle_clock = time.process_time(), time.perf_counter()
    tempose.solve(graph, robust=True, noise="auto", certify=False)
    end, end_clock = time.process_time(), time.perf_counter()
    print(
        f"{name}: {graph.n_nodes} nodes, {graph.n_edges} edges: {middle - began:.1f} s without draws; the default draws add "
        f"{(end - middle) - (middle - began):.1f} s of processor time, "
        f"{(end_clock - middle_clock) - (middle_clock - clock):.1f} s on the clock",
        flush=True,
    )
    case = Case(name, without.posterior.graph, beta)
    curvature = Curvature(without.posterior)
    case.__dict__["optimum"] = curvature, minimise(curvature, without.estimate)
    return case


def rotations(case: Case, wxyz: np.ndarray) -> np.ndarray:
    """Rotation vectors at the optimum, the anchor held, of quaternions (..., n, 4)."""
    curvature, best = case.optimum
    anchor = curvature.rotation_anchor[0]
    back = quat.multiply(best.poses.wxyz[anchor], quat.conjugate(wxyz[..., anchor, :]))
    omega = quat.log(quat.multiply(quat.multiply(back, wxyz), quat.conjugate(best.poses.wxyz)))
    return np.delete(omega, anchor, axis=-2).reshape(-1)


def run_ours(case: Case, name: str, draws: int, kicks: int | None = None) -> Run:
    began = time.process_time()
    problem = case.problem
    if name == "boa":
        boa = replace(problem.dynamics, scheme=Scheme("boa"))
        sampler = choose("geodesic", replace(problem, dynamics=boa)).sampler
    elif name == "collapsed" and kicks is not None:
        sampler = problem.collapsed({"kicks": kicks})[0]
    else:
        sampler = choose(name, problem).sampler
    tuned = time.process_time() - began
    rng = np.random.default_rng(3)
    chain = sampler.start(rng)
    for _ in range(sampler.warmup):
        chain.advance(rng)
    chain_seconds, energy, cost = 0.0, [], []
    omega = np.empty((draws, 3 * (len(case.graph.node_ids) - 1)), dtype=np.float32)  # half the memory of large graphs
    for k in range(draws):
        began = time.process_time()
        draw = chain.advance(rng)
        chain_seconds += time.process_time() - began
        omega[k] = rotations(case, draw.wxyz)
        energy.append(draw.potential)
        cost.append((draw.acceptance, draw.gradients))
    acceptance, gradients = np.mean(cost, axis=0)
    excess = case.beta * (np.mean(energy) - case.optimum[1].potential)
    return Run(omega, excess, acceptance, gradients, chain_seconds, tuned)


def run_nuts(case: Case, draws: int, budget: float, dense: bool) -> Run | str:
    """A run, or why there is none."""
    try:
        import nuts
    except ImportError as error:
        return f"not run: {error}; pip install '.[bench]'"
    d = 6 * (case.graph.n_nodes - 1)
    if dense and d > DENSE:
        return f"not run: a dense mass matrix of {d} × {d} cannot be learnt from a warm-up"
    best = case.optimum[1]
    value = nuts.log_density(case.graph, best.poses, case.beta)
    warmup = 1000 if dense else 500
    one = nuts.gradient_seconds(value, np.zeros(d))
    expected = case.leapfrogs * one * (warmup + draws)
    if expected > budget:
        return (
            f"not run: {one * 1e3:.1f} ms a gradient, about {case.leapfrogs:.0f} gradients a draw (from the slowest and the "
            f"fastest mode): {expected / 60:.0f} minutes for {draws} draws (--budget)"
        )
    found = nuts.run(value, np.zeros(d), draws, warmup, 0, dense=dense)
    x = found.draws.reshape(draws, -1, 6)
    from tempose.model.poses import Poses

    potentials = []
    for each in x:
        move = np.concatenate([np.zeros((1, 6)), each])
        wxyz = quat.multiply(quat.exp(move[:, :3]), best.poses.wxyz)
        potentials.append(
            case.problem.posterior.potential(Poses(case.graph.node_ids, wxyz, best.poses.position + move[:, 3:]))
        )
    excess = case.beta * (np.mean(potentials) - best.potential)
    return Run(
        x[:, :, :3].reshape(draws, -1), excess, found.acceptance.mean(), found.leapfrogs.mean(), found.seconds,
        found.warmup_seconds,
    )  # fmt: skip


HEADER = (
    f"{'graph':34s} {'sampler':12s} {'accept':>6s} {'grad/draw':>9s} {'draws':>6s} {'worst':>6s} {'median':>6s} "
    f"{'if indep.':>9s} {'ESS/grad':>9s} {'again':>9s} {'of 2000':>9s} {'squares':>9s} {'ESS/s':>9s} "
    f"{'× NUTS':>7s} {'ms/grad':>8s} {'tuning s':>8s} {'β(U−U*)':>9s} {'dof/2':>8s}"
)


def rows(case: Case, samplers: list[str], draws: int, budget: float, kicks: int | None) -> Iterator[str]:
    """One line per sampler, NUTS first, so that the others can be compared with it."""
    compared = math.nan
    for name in sorted(samplers, key=lambda name: name != "nuts"):
        count = min(draws, 1000) if name == "geodesic-mh" or name == "boa" else draws
        theirs = "nuts" in name
        result = run_nuts(case, count, budget, name == "nuts-dense") if theirs else run_ours(case, name, count, kicks)
        if isinstance(result, str):
            yield f"{case.name:34s} {name:12s} {result}"
            continue
        ess = effective(result.omega)
        per_second = ess.min() / result.seconds
        if name == "nuts":
            compared = per_second
        ratio = f"{per_second / compared:7.0f}" if math.isfinite(compared) else "      –"
        n, d = result.omega.shape
        few = result.omega[:, :: max(1, d // FEW)]
        yield (
            f"{case.name:34s} {name:12s} {result.acceptance:6.2f} {result.gradients:9.2f} {n:6d} {ess.min():6.0f} "
            f"{np.median(ess):6.0f} {if_independent(n, d):9.0f} {ess.min() / n / result.gradients:9.4f} "
            f"{again(result.omega) / result.gradients:9.4f} {again(few) / result.gradients:9.4f} "
            f"{again(result.omega, True) / result.gradients:9.4f} {per_second:9.2f} "
            f"{ratio} {1e3 * result.seconds / n / result.gradients:8.2f} {result.tuning_seconds:8.1f} "
            f"{result.excess:9.1f} {0.5 * case.optimum[0].dimension:8.1f}"
        )


def robust_graphs(paths: list[Path]) -> Iterator[tuple[str, tempose.PoseGraph]]:
    """A simulated graph of 60 nodes and about 600 edges, a third of them wrong, and registrations of scans."""
    made = tempose.simulate(60, completeness=0.34, sigma_rot_deg=2.0, sigma_trans=0.05, wrong_edges=0.33, seed=1)
    yield "random 60, a third wrong", made.graph
    folder = os.environ.get("TEMPOSE_DATA")
    if not paths and not folder:
        raise SystemExit("TEMPOSE_DATA is not set: name the graphs to measure")
    scenes = [Path(folder or "") / "threedmatch" / f"iclnuim-{one}-evaluation" for one in ("livingroom1", "office1")]
    for path in paths or scenes:
        yield path.name, tempose.read_graph(path, tempose.ReadOptions(sigma_rot_deg=2.0, sigma_trans=0.05))


def graphs(arguments: argparse.Namespace) -> Iterator[tuple[str, tempose.PoseGraph]]:
    if arguments.robust:
        yield from robust_graphs(arguments.graphs)
        return
    if arguments.scaling:
        for n in arguments.sizes:
            yield f"{n} nodes", tempose.simulate(n, shape="trajectory", seed=arguments.seed).graph
        return
    if arguments.kinds:
        shapes = (("grid", 125, 1.0), ("trajectory", 300, 0.3), ("sphere", 1000, 0.5))
        for (shape, n, share), planar, correlated in itertools.product(shapes, (False, True), (False, True)):
            if planar and shape == "sphere":
                continue
            made = tempose.simulate(n, shape=shape, completeness=share, planar=planar, correlated=correlated, seed=1)
            yield f"{shape} {n}{', planar' * planar}{', correlated' * correlated}", made.graph
        return
    if not arguments.graphs:
        yield "random 50", tempose.simulate(50, completeness=0.5, sigma_rot_deg=3.0, sigma_trans=0.05, seed=1).graph
        folder = os.environ.get("TEMPOSE_DATA")
        if not folder:
            raise SystemExit("TEMPOSE_DATA is not set: name the graphs to measure")
        names = ("smallGrid3D", "sphere2500", "torus3D")
        arguments.graphs = [Path(folder) / "g2o" / f"{name}.g2o" for name in names]
    for path in arguments.graphs:
        yield path.stem, tempose.read_graph(path, tempose.ReadOptions(precision="isotropic"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", type=Path)
    parser.add_argument("--scaling", action="store_true", help="graphs of one family and several sizes")
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1000, 10_000], help="nodes for --scaling")
    parser.add_argument("--seed", type=int, default=1, help="of the graphs for --scaling")
    parser.add_argument("--kinds", action="store_true", help="graphs in space and in the plane, correlated or not")
    parser.add_argument("--robust", action="store_true", help="graphs with wrong edges, and what default draws cost")
    parser.add_argument(
        "--samplers", nargs="+", choices=SAMPLERS,
        help="default: all, with --scaling collapsed, with --kinds and --robust collapsed and geodesic-mh",
    )  # fmt: skip
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--kicks", type=int, help="of collapsed, instead of tuning: gradients a draw")
    parser.add_argument("--beta", type=float, default=1.0)
    parser.add_argument(
        "--budget", type=float, default=600.0, help="seconds that a run of NUTS may be expected to take"
    )
    arguments = parser.parse_args()
    few = 1 if arguments.scaling else 2 if arguments.kinds or arguments.robust else None
    samplers = arguments.samplers or list(SAMPLERS[:few])
    make = robust_case if arguments.robust else Case
    print(HEADER, flush=True)
    for name, graph in graphs(arguments):
        for line in rows(
            make(name, graph, arguments.beta), samplers, arguments.draws, arguments.budget, arguments.kicks
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
