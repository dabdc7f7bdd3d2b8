"""Large graphs: factor, solve and selected inverse beside SuperLU and GTSAM; trajectories to the certified optimum.

    python benchmarks/large.py                      # needs: pip install '.[bench]'; TEMPOSE_DATA adds sphere2500 and torus3D
    python benchmarks/large.py --only trajectory --most 100000
    python benchmarks/large.py --steps --sizes 10000,30000 --seeds 1,2,3,4,5
    python benchmarks/large.py --steps --sizes 2000 --seeds 21,22,23,24,25 --sigma-rot-deg 6 --completeness 0.02 --alone
    python benchmarks/large.py --steps --files sphere2500,torus3D,parking-garage --alone     # of TEMPOSE_DATA
    python benchmarks/large.py --steps --sizes 1000,3000 --seeds 1,2,3 --certifiable 600     # beside GTSAM's proof
    python benchmarks/large.py --orders --sizes 10000,30000,100000,300000 --seeds 1,2,3     # operations of both orders
    python benchmarks/large.py --million            # 10⁶ nodes: optimum, proof, all marginals, memory

All columns of a row are measured in one run; ``--cpu`` takes the time of the processor, all threads together, which says more on
a busy machine (the columns ``1→all`` then say nothing). The matrix is the Gauss–Newton matrix of the graph at its chordal
start. ``order`` says whether minimum degree (md) or nested dissection by METIS (nd) was kept; ``flops`` is the work of
minimum degree over that of the order kept. ``1→all`` is the time on one thread over that on all cores (bytes are compared, too).
SuperLU gets the same matrix, in its symmetric mode with minimum degree, and so does CHOLMOD (by way of cvxopt, supernodal, in its
own order, its analysis not counted); GTSAM's time is that of eliminating the linearised graph (``optimize`` of the Gaussian factor
graph, in its own order).

``--certifiable`` adds GTSAM's Riemannian staircase (``gtsam.RiemannianStaircaseOptimizer``, from 4.3 on) on the same problem,
rotations and positions, from its own chordal start: an augmented Lagrangian, then a Cholesky factor of the certificate matrix plus
10⁻³. It runs in a process of its own, which is stopped after so many seconds by the clock. Its default settings stop while
rotations are still off by 1%; here constraints are asked for to 10⁻⁸.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from block_cholesky import assembled
from scipy.sparse import tril
from scipy.sparse.linalg import splu

import tempose
from optimum import gtsam_optimum, gtsam_potential, gtsam_problem
from tempose._support import parallel
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.posterior import Posterior
from tempose.numerics.sparse import ordering
from tempose.numerics.sparse.block_cholesky import Symbolic, _adjacency
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify, solve_to_certificate
from tempose.optimum.starts import start_poses

ONE_THREAD: Callable[[], int] = lambda: 1  # noqa: E731
ALL = parallel.cores
CLOCK: Callable[[], float] = time.perf_counter


def graphs(only: str, most: int) -> Iterator[tuple[str, str, tempose.PoseGraph]]:
    """Family, name and graph."""
    if "TEMPOSE_DATA" in os.environ:
        for name in ("sphere2500", "torus3D"):
            if only in name:
                path = Path(os.environ["TEMPOSE_DATA"]) / "g2o" / f"{name}.g2o"
                yield name, name, tempose.read_graph(path, tempose.ReadOptions(precision="isotropic"))
    for shape, sizes in (
        ("trajectory", (10_000, 30_000, 100_000, 300_000, 1_000_000)),
        ("grid", (10_648, 29_791, 97_336)),
    ):
        for n in sizes:
            if n <= most and only in shape:
                yield shape, f"{shape} {n}", tempose.simulate(n, shape=shape, seed=1).graph


def best(call: Callable[[], Any], seconds: float = 3.0) -> tuple[float, Any]:
    """The shortest of a few runs, in seconds, and what it returned; slow calls run once."""
    shortest, spent, result = np.inf, 0.0, None
    while True:
        result = None  # a large factor need not be there twice
        began = CLOCK()
        result = call()
        took = CLOCK() - began
        shortest, spent = min(shortest, took), spent + took
        if spent > seconds:
            return shortest, result


def on_one_and_all(call: Callable[[], Any], same: Callable[[Any], np.ndarray]) -> tuple[float, float]:
    """Seconds on one thread and on all cores; the bytes must agree."""
    parallel.cores = ONE_THREAD
    one, result = best(call)
    first, result = same(result), None
    parallel.cores = ALL
    all_, result = best(call)
    assert np.array_equal(first, same(result)), "the number of threads changed the bytes"
    return one, all_


def superlu(curvature: Curvature, diagonal: np.ndarray, off: np.ndarray) -> Any:
    b = diagonal.shape[1]
    table = curvature.posterior.edge_table
    pairs = np.column_stack([table.source, curvature._target])
    return assembled(len(diagonal), pairs, diagonal, off) if b == 6 else None


def linear(only: str, most: int, peers: bool) -> None:
    head = f"{'graph':>18} {'edges':>8} {'order':>5} {'Gflop':>7} {'flops':>6}"
    head += f" {'fill GB':>7} {'analyse':>8} {'factor':>8} {'1→all':>6}"
    print(
        head
        + f" {'solve':>8} {'1→all':>6} {'inverse':>8} {'1→all':>6} {'SuperLU':>8} {'ratio':>6} {'CHOLMOD':>8} {'ratio':>6} "
        f"{'GTSAM':>8} {'ratio':>6}"
    )
    growth: dict[str, list[tuple[float, ...]]] = {}
    for family, name, graph in graphs(only, most):
        posterior = Posterior(graph)
        curvature = Curvature(posterior)
        start = start_poses(graph, "chordal", np.random.default_rng(0))
        diagonal, off = curvature.held_blocks(start.wxyz, start.position, exact=False)
        pairs = np.column_stack([graph.edge_i, graph.edge_j])
        analyse, _ = best(lambda p=pairs, n=graph.n_nodes: Symbolic(n, p, 6), 0.0)
        symbolic = curvature.symbolic
        pattern = _adjacency(graph.n_nodes, pairs)
        ratio = ordering.operations(pattern, ordering.minimum_degree(pattern))
        ratio /= ordering.operations(pattern, symbolic.first_order.nodes)
        factor = curvature.factored(diagonal, off)
        rhs = np.random.default_rng(1).standard_normal(6 * graph.n_nodes)
        f1, f2 = on_one_and_all(lambda: curvature.factored(diagonal, off), lambda f: f.solve(rhs))  # noqa: B023
        s1, s2 = on_one_and_all(lambda: factor.solve(rhs), lambda x: x)  # noqa: B023
        i1, i2 = on_one_and_all(factor.selected_inverse, lambda x: x[0])
        lu = elimination = other = np.nan
        if peers:
            matrix = superlu(curvature, diagonal, off)
            how = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
            if symbolic.flops < 2e11:  # SuperLU takes minutes beyond, and its indices end at 2³¹ numbers
                lu, _ = best(lambda: splu(matrix, **how), 0.0)  # noqa: B023
                other = cholmod_factor(matrix)
            if graph.n_nodes <= 100_000:
                elimination = gtsam_elimination(graph, start)
        kind = {"minimum degree": "md", "nested dissection": "nd"}[symbolic.ordering]
        print(
            f"{name:>18} {graph.n_edges:8d} {kind:>5} {symbolic.flops / 1e9:7.2f} {ratio:6.2f} {8e-9 * symbolic.nonzeros:7.2f} "
            f"{analyse:8.3f} {f2:8.3f} {f1 / f2:6.2f} {s2:8.4f} {s1 / s2:6.2f} {i2:8.3f} {i1 / i2:6.2f} "
            f"{lu:8.2f} {lu / f2:6.1f} {other:8.3f} {other / f2:6.1f} {elimination:8.2f} {elimination / f2:6.1f}",
            flush=True,
        )
        growth.setdefault(family, []).append((graph.n_nodes, analyse, f2, s2, i2))
    for family, rows in growth.items():
        if len(rows) > 1:
            n, *times = np.log(np.array(rows)).T
            slopes = " ".join(
                f"{name} n^{np.polyfit(n, t, 1)[0]:.2f}"
                for name, t in zip(("analyse", "factor", "solve", "inverse"), times, strict=True)
            )
            print(f"{family}: {slopes}")


def cholmod_factor(matrix: Any) -> float:
    """Seconds of CHOLMOD's numerical factorisation."""
    try:
        from cvxopt import cholmod, spmatrix
    except ImportError:
        return float("nan")
    lower = tril(matrix, format="coo")
    given = spmatrix(lower.data, lower.row.astype(int), lower.col.astype(int), lower.shape)
    cholmod.options["supernodal"] = 2
    factor = cholmod.symbolic(given)
    return best(lambda: cholmod.numeric(given, factor), 1.0)[0]


def gtsam_elimination(graph: tempose.PoseGraph, start: tempose.Poses) -> float:
    """Seconds to eliminate the linearised graph once."""
    try:
        import gtsam
    except ImportError:
        return float("nan")
    values = gtsam.Values()
    for k, (R, p) in enumerate(zip(quat.to_matrix(start.wxyz), start.position, strict=True)):
        values.insert(k, gtsam.Pose3(gtsam.Rot3(R), p))
    problem = gtsam_problem(graph).linearize(values)
    return best(problem.optimize, 0.0)[0]


def step_graphs(options: argparse.Namespace) -> Iterator[tuple[str, tempose.PoseGraph, tempose.Poses | None]]:
    """Name, graph and true poses, where they are known."""
    for name in filter(None, options.files.split(",")):
        path = Path(os.environ["TEMPOSE_DATA"]) / "g2o" / f"{name}.g2o"
        yield name, tempose.read_graph(path, tempose.ReadOptions(precision="isotropic")), None
    more = {"sigma_rot_deg": options.sigma_rot_deg, "completeness": options.completeness}
    given = {name: value for name, value in more.items() if value is not None}
    for n in [] if options.files else [int(x) for x in options.sizes.split(",")]:
        for seed in (int(x) for x in options.seeds.split(",")):
            made = tempose.simulate(n, shape=options.shape, seed=seed, **given)
            yield f"{n}, seed {seed}", made.graph, made.truth


def certifiable(graph: tempose.PoseGraph, limit: float) -> tuple[float, float, str]:
    """Seconds of GTSAM's staircase, U of its rounded solution, and its verdict; NaN if it does not end in time."""
    context = multiprocessing.get_context("spawn")  # threads do not survive a fork
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_certifiable, args=(graph, CLOCK is time.process_time, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv() if ours.poll(limit) else (np.nan, np.nan, f"more than {limit:.0f} s")
    except EOFError:
        return np.nan, np.nan, "failed"
    finally:
        process.kill()
        process.join()


def _certifiable(graph: tempose.PoseGraph, cpu: bool, answer: Any) -> None:
    import gtsam
    from gtsam.symbol_shorthand import R, T

    clock = time.process_time if cpu else time.perf_counter
    problem, whole, turns = gtsam.NonlinearFactorGraph(), gtsam_problem(graph), quat.to_matrix(graph.j_from_i_wxyz)
    for k, (i, j) in enumerate(zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)):
        noise = gtsam.noiseModel.Isotropic.Variance(3, 4.0 / graph.concentration[k])
        problem.add(gtsam.FrobeniusBetweenFactorRot3(R(j), R(i), gtsam.Rot3(turns[k]), noise))
        precision = graph.translation_precision[k]
        problem.add(gtsam.RelativeTranslationFactor3(R(j), T(j), T(i), graph.j_from_i_t[k], precision))
    began = clock()
    start, initial = gtsam.InitializePose3.initialize(whole), gtsam.Values()
    for k in range(graph.n_nodes):
        pose = start.atPose3(k)
        initial.insert(R(k), np.asfortranarray(pose.rotation().matrix().T))
        initial.insert(T(k), pose.translation().reshape(1, 3))
    settings = gtsam.RiemannianStaircaseParams()
    settings.pMin, settings.pMax = 3, 10
    inner = settings.getAlmParams()
    inner.updatePolicy, inner.initialMuEq = gtsam.AugmentedLagrangianUpdatePolicy.Aggressive, 100.0
    inner.maxIterations, inner.absoluteViolationTolerance = 200, 1e-8
    settings.setAlmParams(inner)
    result = gtsam.RiemannianStaircaseOptimizer(problem, initial, settings).optimize()
    took = clock() - began
    rounded = result.roundedValues()
    turn = np.array([rounded.atMatrix(R(k)).T for k in range(graph.n_nodes)])
    mirror = np.sign(np.linalg.det(turn[0])) * np.eye(3)  # it may have found the mirror image
    position = np.array([rounded.atMatrix(T(k)).ravel() for k in range(graph.n_nodes)]) @ mirror
    poses = tempose.Poses(graph.node_ids, quat.from_matrix(mirror @ turn), position)
    verdict = f"rank {result.finalRank}, {'certified' if result.certified else 'not certified'}"
    answer.send((took, Posterior(graph).potential(poses), verdict))


def steps(options: argparse.Namespace, peers: bool) -> None:
    print(
        f"{'graph':>18} {'edges':>8} {'steps':>5} {'from truth':>10} {'start s':>8} {'newton s':>8} {'proof s':>8} "
        f"{'eigenvalue':>10} {'gap of U':>9} {'GTSAM s':>8} {'ratio':>6} {'its U/ours':>10} {'GB':>5}  {'proof':13}"
        + ("  its staircase s, ratio, U/ours" if options.certifiable else "")
    )
    for name, graph, truth in step_graphs(options):
        clock = [CLOCK()]
        posterior = Posterior(graph)
        start = start_poses(graph, "chordal", np.random.default_rng(0))
        clock.append(CLOCK())
        curvature = Curvature(posterior)
        minimum = minimise(curvature, start)
        clock.append(CLOCK())
        proof = certify(posterior, minimum.poses)
        clock.append(CLOCK())
        again = "–" if truth is None else str(len(minimise(curvature, truth).steps))
        begin, newton, certificate = np.diff(clock)
        theirs, value = np.nan, np.nan
        if peers:
            problem = gtsam_problem(graph)
            theirs, values = best(lambda p=problem: gtsam_optimum(p), 0.0)
            value = gtsam_potential(graph, values) / minimum.potential
        print(
            f"{name:>18} {graph.n_edges:8d} {len(minimum.steps):5d} {again:>10} {begin:8.2f} {newton:8.2f} "
            f"{certificate:8.2f} {proof.min_eigenvalue:10.2g} {proof.relative_suboptimality:9.1e} {theirs:8.1f} "
            f"{theirs / (begin + newton + certificate):6.1f} {value:10.6f} {peak():5.2f}  {proof.status:13}",
            end="" if options.certifiable else "\n",
            flush=True,
        )
        if options.certifiable:
            seconds, other, verdict = certifiable(graph, options.certifiable)
            ratio = seconds / (begin + newton + certificate)
            print(f"  {seconds:8.1f} {ratio:6.0f} {other / minimum.potential:.6f}  {verdict}", flush=True)


def orders(options: argparse.Namespace) -> None:
    """Operations of a factor by minimum degree and by nested dissection, and how they grow."""
    print(f"{'graph':>18} {'edges':>8} {'minimum degree':>15} {'nested dissection':>18} {'ratio':>6}")
    rows = []
    for name, graph, _ in step_graphs(options):
        pattern = _adjacency(graph.n_nodes, np.column_stack([graph.edge_i, graph.edge_j]))
        both = [
            ordering.operations(pattern, order(pattern))
            for order in (ordering.minimum_degree, ordering.nested_dissection)
        ]
        rows.append([graph.n_nodes, *both, min(both)])
        print(f"{name:>18} {graph.n_edges:8d} {both[0]:15.3g} {both[1]:18.3g} {both[0] / both[1]:6.2f}", flush=True)
    if len({row[0] for row in rows}) > 1:
        n, *counts = np.log(np.array(rows)).T
        slopes = [f"n^{np.polyfit(n, count, 1)[0]:.2f}" for count in counts]
        print("minimum degree {}, nested dissection {}, the better of the two {}".format(*slopes))


def peak() -> float:
    """Largest memory of this process so far, GB: of the largest graph yet, GTSAM's included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def million(n: int) -> None:
    """A trajectory of 10⁶ nodes and about 2·10⁶ edges."""
    began = CLOCK()

    def lap(name: str) -> None:
        print(f"{name:>12} {CLOCK() - began:8.1f} s, peak {peak():5.2f} GB", flush=True)

    graph = tempose.simulate(n, shape="trajectory", seed=1).graph
    lap(f"{graph.n_edges} edges")
    posterior = Posterior(graph)
    curvature = Curvature(posterior)
    start = start_poses(graph, "chordal", np.random.default_rng(0))
    lap("start")
    solved = solve_to_certificate(posterior, start, curvature=curvature)
    lap("optimum")
    proof = solved.certificate
    print(
        f"{len(solved.minimum.steps)} steps, {solved.minimum.status}, {proof.status}, gap {proof.relative_suboptimality:.2g} of U"
    )
    Laplace(curvature, solved.poses).marginals(Gauge(graph))
    lap("marginals")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="graphs whose name contains this")
    parser.add_argument("--most", type=int, default=100_000, help="nodes")
    parser.add_argument("--steps", action="store_true", help="trajectories to the certified optimum instead")
    parser.add_argument("--orders", action="store_true", help="count operations of both orders instead")
    parser.add_argument("--sizes", default="10000,30000,100000", help="nodes for --steps")
    parser.add_argument("--seeds", default="1,2,3,4,5", help="for --steps")
    parser.add_argument(
        "--million", type=int, nargs="?", const=1_000_000, help="a trajectory of so many nodes, with memory"
    )
    parser.add_argument("--shape", default="trajectory", help="for --steps")
    parser.add_argument("--sigma-rot-deg", type=float, help="noise for --steps")
    parser.add_argument("--completeness", type=float, help="of loops, for --steps")
    parser.add_argument("--files", default="", help="graphs of TEMPOSE_DATA for --steps, in place of simulated ones")
    parser.add_argument(
        "--certifiable", type=float, default=0.0, help="seconds that GTSAM's staircase gets, for --steps"
    )
    parser.add_argument("--cpu", action="store_true", help="processor time in place of the clock")
    parser.add_argument("--alone", action="store_true", help="leave SuperLU and GTSAM out")
    options = parser.parse_args()
    if options.cpu:
        global CLOCK
        CLOCK = time.process_time
    if options.orders:
        orders(options)
    elif options.million:
        million(options.million)
    elif options.steps:
        steps(options, not options.alone)
    else:
        linear(options.only, options.most, not options.alone)


if __name__ == "__main__":
    main()
