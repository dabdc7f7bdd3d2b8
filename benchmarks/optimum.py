"""Time to the certified optimum and to all marginal covariances, next to GTSAM, in one run.

    python benchmarks/optimum.py                 # needs TEMPOSE_DATA and: pip install '.[bench]'
    python benchmarks/optimum.py --scaling       # simulated trajectories and grids, 1e3 … 1e5 nodes

Both sides get the same isotropic graph in memory; reading, imports and compilation are excluded. GTSAM: chordal
initialisation and Levenberg–Marquardt with its defaults, no certificate; then ``Marginals`` for every pose. tempose: chordal
start, Newton, certificate; then the covariances of all poses by one selected inverse. Times are the best of a few runs.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tempose
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.proof import certify
from tempose.optimum.starts import start_poses

FILES = ["smallGrid3D", "sphere2500", "torus3D", "parking-garage"]


def best_of(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    times, result = [], None
    for _ in range(repeats):
        began = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - began)
    return min(times), result


def tempose_optimum(graph: tempose.PoseGraph) -> tuple[Any, Any, Curvature, dict[str, float]]:
    """Start, Newton and certificate, each timed."""
    parts, clock = {}, time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        parts[name] = time.perf_counter() - clock
        clock = time.perf_counter()

    posterior = Posterior(graph)
    start = start_poses(graph, "chordal", np.random.default_rng(0))
    lap("start")
    curvature = Curvature(posterior)
    minimum = minimise(curvature, start)
    lap("newton")
    certificate = certify(posterior, minimum.poses)
    lap("certificate")
    return minimum, certificate, curvature, parts


def gtsam_problem(graph: tempose.PoseGraph) -> Any:
    """The same measurements as between factors; the prior last, or its chordal initialisation refuses."""
    import gtsam

    problem = gtsam.NonlinearFactorGraph()
    rotations = quat.to_matrix(graph.j_from_i_wxyz)
    for k in range(graph.n_edges):
        sigma_rot, sigma_trans = np.sqrt(2.0 / graph.concentration[k]), np.sqrt(1.0 / graph.translation_precision[k])
        noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([sigma_rot] * 3 + [sigma_trans] * 3))
        pose = gtsam.Pose3(gtsam.Rot3(rotations[k]), graph.j_from_i_t[k])
        problem.add(gtsam.BetweenFactorPose3(int(graph.edge_j[k]), int(graph.edge_i[k]), pose, noise))
    anchor = gtsam.noiseModel.Diagonal.Sigmas(np.full(6, 1e-6))
    problem.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), anchor))
    return problem


def gtsam_optimum(problem: Any) -> Any:
    import gtsam

    initial = gtsam.InitializePose3.initialize(problem)
    return gtsam.LevenbergMarquardtOptimizer(problem, initial, gtsam.LevenbergMarquardtParams()).optimize()


def gtsam_potential(graph: tempose.PoseGraph, values: Any) -> float:
    """U of GTSAM's solution in our model."""
    poses = [values.atPose3(k) for k in range(graph.n_nodes)]
    wxyz = quat.from_matrix(np.array([p.rotation().matrix() for p in poses]))
    return Posterior(graph).potential(tempose.Poses(graph.node_ids, wxyz, np.array([p.translation() for p in poses])))


def gtsam_marginals(problem: Any, values: Any, n: int, most: int) -> float:
    """Seconds for all n marginals; beyond ``most`` of them scaled from an even sample (which is unfair to its caches)."""
    import gtsam

    began = time.perf_counter()
    marginals = gtsam.Marginals(problem, values)
    base = time.perf_counter() - began
    chosen = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
    began = time.perf_counter()
    for k in chosen:
        marginals.marginalCovariance(int(k))
    return base + (time.perf_counter() - began) * n / len(chosen)


def compare(data: Path, repeats: int, sample: int) -> None:
    print(f"{'':>15} {'tempose':>42} {'GTSAM':>20} {'ratio':>7}   marginals of all poses")
    head = (
        f"{'graph':>15} {'start':>7} {'newton':>7} {'proof':>7} {'total':>7} {'2U':>12} {'total':>7} {'2U':>12} {'':>7}"
    )
    print(head + f" {'tempose':>9} {'GTSAM':>9} {'ratio':>7}")
    for name in FILES:
        graph = tempose.read_graph(data / "g2o" / f"{name}.g2o", tempose.ReadOptions(precision="isotropic"))
        problem = gtsam_problem(graph)
        tempose_optimum(graph)  # compile
        ours, result = best_of(lambda g=graph: tempose_optimum(g), repeats)
        theirs, values = best_of(lambda p=problem: gtsam_optimum(p), max(1, repeats // 2))
        minimum, certificate, curvature, parts = result
        assert certificate.certified, name
        gauge = Gauge(graph)
        Laplace(curvature, minimum.poses).marginals(gauge)
        cov, _ = best_of(lambda c=curvature, m=minimum, g=gauge: Laplace(c, m.poses).marginals(g), repeats)
        theirs_cov = gtsam_marginals(problem, values, graph.n_nodes, sample)
        print(
            f"{name:>15} {parts['start']:7.3f} {parts['newton']:7.3f} {parts['certificate']:7.3f} {ours:7.3f} "
            f"{2 * minimum.potential:12.5f} {theirs:7.3f} {2 * gtsam_potential(graph, values):12.5f} {theirs / ours:6.1f}x "
            f"{cov:9.4f} {theirs_cov:9.2f} {theirs_cov / cov:6.0f}x",
            flush=True,
        )
    print("\nseconds; 2U in tempose's model on both sides (GTSAM minimises geodesic, tempose chordal rotation errors);")
    if sample < 5000:
        print(f"GTSAM's marginals are timed on {sample} poses at most and scaled to all, which overrates their cost.")


def scaling(sizes: list[int]) -> None:
    small = tempose.simulate(100, shape="grid", seed=1).graph
    minimum, _, curvature, _ = tempose_optimum(small)  # compile
    Laplace(curvature, minimum.poses).marginals(Gauge(small))
    print(
        f"{'shape':>11} {'nodes':>8} {'edges':>8} {'optimum':>9} {'proof':>9} {'marginals':>10} {'memory MB':>10} certified"
    )
    for shape in ("trajectory", "grid"):
        totals = []
        for n in sizes:
            graph = tempose.simulate(
                n, shape=shape, completeness=0.5, sigma_rot_deg=1.0, sigma_trans=0.02, seed=1
            ).graph
            minimum, certificate, curvature, parts = tempose_optimum(graph)
            began = time.perf_counter()
            Laplace(curvature, minimum.poses).marginals(Gauge(graph))
            cov = time.perf_counter() - began
            totals.append((graph.n_nodes, parts["start"] + parts["newton"] + parts["certificate"], cov))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
            print(
                f"{shape:>11} {graph.n_nodes:8d} {graph.n_edges:8d} {parts['start'] + parts['newton']:9.2f} "
                f"{parts['certificate']:9.2f} {cov:10.2f} {memory:10.0f} {certificate.certified}",
                flush=True,
            )
        n, t, c = np.log(np.array(totals)).T
        print(f"{'':>11} growth: time ~ n^{np.polyfit(n, t, 1)[0]:.2f}, marginals ~ n^{np.polyfit(n, c, 1)[0]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scaling", action="store_true", help="simulated graphs of growing size instead")
    parser.add_argument("--sizes", default="1000,3000,10000,30000,100000", help="nodes for --scaling")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--sample", type=int, default=1_000_000, help="time GTSAM's marginals on at most this many poses and scale"
    )
    arguments = parser.parse_args()
    if arguments.scaling:
        scaling([int(n) for n in arguments.sizes.split(",")])
    elif "TEMPOSE_DATA" not in os.environ:
        parser.exit(1, "set TEMPOSE_DATA to the folder of real data sets\n")
    else:
        compare(Path(os.environ["TEMPOSE_DATA"]), arguments.repeats, arguments.sample)


if __name__ == "__main__":
    main()
