"""Planar graphs: time to the certified optimum and to all marginal covariances, next to GTSAM's Pose2, in one run.

    python benchmarks/planar.py                  # needs TEMPOSE_DATA and: pip install '.[bench]'
    python benchmarks/planar.py --without-peer   # tempose alone, and what the same graph costs when it is lifted to 3D

Both sides get the same isotropic graph in memory; reading, imports and compilation are excluded. GTSAM: chordal initialisation (its
own, which is for 3D, of the lifted graph) or LAGO, its initialisation for the plane, and Levenberg–Marquardt with its defaults, no
certificate; then ``Marginals`` for every pose. tempose: chordal start, Newton, certificate; then the covariances of all poses by
one selected inverse. Times are the best of a few runs; ``--cpu`` counts seconds of the processor, all threads together, which a
busy machine distorts less.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
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

FILES = ["MIT", "intel", "manhattanOlson3500", "kitti_00", "city10000"]


clock = time.perf_counter


def best_of(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    times, result = [], None
    for _ in range(repeats):
        began = clock()
        result = run()
        times.append(clock() - began)
    return min(times), result


def fresh(graph: tempose.PoseGraph) -> tempose.PoseGraph:
    """A copy that nothing is known about yet."""
    return replace(graph)


def tempose_optimum(graph: tempose.PoseGraph) -> tuple[Any, Any, Curvature]:
    graph = fresh(graph)
    posterior = Posterior(graph)
    curvature = Curvature(posterior)
    minimum = minimise(curvature, start_poses(graph, "chordal", np.random.default_rng(0)))
    return minimum, certify(posterior, minimum.poses), curvature


def ours(graph: tempose.PoseGraph, repeats: int) -> tuple[float, float, Any, Any]:
    """Seconds to the optimum and its certificate, and to all covariances; the minimum and the certificate."""
    minimum, _, curvature = tempose_optimum(graph)  # compile
    seconds, (minimum, certificate, curvature) = best_of(lambda: tempose_optimum(graph), repeats)
    gauge = Gauge(graph)
    Laplace(curvature, minimum.poses).marginals(gauge)
    covariances, _ = best_of(lambda: Laplace(curvature, minimum.poses).marginals(gauge), repeats)
    return seconds, covariances, minimum, certificate


# ---------------------------------------------------------------------- the peer


def gtsam_problem(graph: tempose.PoseGraph) -> Any:
    """The same measurements as between factors of planar poses; the prior last, or its initialisation refuses."""
    import gtsam

    problem = gtsam.NonlinearFactorGraph()
    angle = 2.0 * np.arctan2(graph.j_from_i_wxyz[:, 3], graph.j_from_i_wxyz[:, 0])
    for k in range(graph.n_edges):
        sigma_rot, sigma_trans = np.sqrt(2.0 / graph.concentration[k]), np.sqrt(1.0 / graph.translation_precision[k])
        noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([sigma_trans, sigma_trans, sigma_rot]))
        pose = gtsam.Pose2(*graph.j_from_i_t[k, :2], angle[k])
        problem.add(gtsam.BetweenFactorPose2(int(graph.edge_j[k]), int(graph.edge_i[k]), pose, noise))
    problem.add(gtsam.PriorFactorPose2(0, gtsam.Pose2(), gtsam.noiseModel.Diagonal.Sigmas(np.full(3, 1e-6))))
    return problem


def gtsam_lifted(graph: tempose.PoseGraph) -> Any:
    """The same in three dimensions, for the chordal initialisation."""
    import gtsam

    problem = gtsam.NonlinearFactorGraph()
    rotations = quat.to_matrix(graph.j_from_i_wxyz)
    for k in range(graph.n_edges):
        sigma_rot, sigma_trans = np.sqrt(2.0 / graph.concentration[k]), np.sqrt(1.0 / graph.translation_precision[k])
        noise = gtsam.noiseModel.Diagonal.Sigmas(np.array([sigma_rot] * 3 + [sigma_trans] * 3))
        pose = gtsam.Pose3(gtsam.Rot3(rotations[k]), graph.j_from_i_t[k])
        problem.add(gtsam.BetweenFactorPose3(int(graph.edge_j[k]), int(graph.edge_i[k]), pose, noise))
    problem.add(gtsam.PriorFactorPose3(0, gtsam.Pose3(), gtsam.noiseModel.Diagonal.Sigmas(np.full(6, 1e-6))))
    return problem


def gtsam_chordal(problem: Any, in_space: Any, n: int) -> Any:
    import gtsam

    spatial, initial = gtsam.InitializePose3.initialize(in_space), gtsam.Values()
    for k in range(n):
        pose = spatial.atPose3(k)
        initial.insert(k, gtsam.Pose2(pose.x(), pose.y(), pose.rotation().yaw()))
    return gtsam.LevenbergMarquardtOptimizer(problem, initial, gtsam.LevenbergMarquardtParams()).optimize()


def gtsam_lago(problem: Any) -> Any:
    import gtsam

    initial = gtsam.lago.initialize(problem)
    return gtsam.LevenbergMarquardtOptimizer(problem, initial, gtsam.LevenbergMarquardtParams()).optimize()


def gtsam_potential(graph: tempose.PoseGraph, values: Any) -> float:
    """U of GTSAM's solution in our model."""
    x, y, angle = np.array([(p.x(), p.y(), p.theta()) for p in (values.atPose2(k) for k in range(graph.n_nodes))]).T
    zero = np.zeros_like(x)
    wxyz = np.stack([np.cos(angle / 2), zero, zero, np.sin(angle / 2)], axis=1)
    return Posterior(graph).potential(tempose.Poses(graph.node_ids, wxyz, np.stack([x, y, zero], axis=1)))


def gtsam_marginals(problem: Any, values: Any, n: int, most: int) -> float:
    """Seconds for all n marginals; beyond ``most`` of them scaled from an even sample (which is unfair to its caches)."""
    import gtsam

    began = clock()
    marginals = gtsam.Marginals(problem, values)
    base = clock() - began
    chosen = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
    began = clock()
    for k in chosen:
        marginals.marginalCovariance(int(k))
    return base + (clock() - began) * n / len(chosen)


def compare(data: Path, repeats: int, sample: int) -> None:
    print(f"{'':>19} {'optimum, seconds':^78}   all marginals, seconds")
    print(
        f"{'graph':>19} {'tempose':>8} {'2U':>11} {'proof':>9} {'chordal+LM':>10} {'2U':>11} {'ratio':>6} "
        f"{'LAGO+LM':>8} {'2U':>11} {'ratio':>6} {'tempose':>9} {'GTSAM':>8} {'ratio':>7}"
    )
    for name in FILES:
        graph = read(data, name)
        seconds, covariances, minimum, certificate = ours(graph, repeats)
        problem, in_space, few = gtsam_problem(graph), gtsam_lifted(graph), max(1, repeats // 2)
        chordal, values = best_of(lambda p=problem, s=in_space, n=graph.n_nodes: gtsam_chordal(p, s, n), few)
        lago, other = best_of(lambda p=problem: gtsam_lago(p), few)
        theirs = gtsam_marginals(problem, values, graph.n_nodes, sample)
        print(
            f"{name:>19} {seconds:8.3f} {2 * minimum.potential:11.5f} {'certified' if certificate.certified else '–':>9} "
            f"{chordal:10.3f} {2 * gtsam_potential(graph, values):11.5f} {chordal / seconds:5.1f}x "
            f"{lago:8.3f} {2 * gtsam_potential(graph, other):11.5f} {lago / seconds:5.1f}x "
            f"{covariances:9.4f} {theirs:8.2f} {theirs / covariances:6.0f}x",
            flush=True,
        )
    print("\n2U in tempose's model on both sides (GTSAM minimises squared angles, tempose sin²(θ/2))")
    if sample < 10_000:
        print(f"GTSAM's marginals are timed on {sample} poses at most and scaled to all.")


def against_space(data: Path, repeats: int) -> None:
    print(f"{'graph':>19} {'optimum':>9} {'lifted':>9} {'ratio':>7} {'marginals':>10} {'lifted':>9} {'ratio':>7}")
    for name in FILES:
        graph = read(data, name)
        flat, flat_covariances, _, _ = ours(graph, repeats)
        space, space_covariances, _, _ = ours(replace(graph, dimension=3), repeats)
        print(
            f"{name:>19} {flat:9.3f} {space:9.3f} {space / flat:6.1f}x "
            f"{flat_covariances:10.4f} {space_covariances:9.4f} {space_covariances / flat_covariances:6.1f}x",
            flush=True,
        )


def read(data: Path, name: str) -> tempose.PoseGraph:
    """A file's graph, with nodes named by their rows, which is what the peer gets."""
    graph = tempose.read_graph(data / "g2o2d" / f"{name}.g2o", tempose.ReadOptions(precision="isotropic"))
    return replace(graph, node_ids=tuple(range(graph.n_nodes)), initial=None, fixed=(), fixed_at=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-peer", action="store_true", help="the same graphs lifted to 3D in place of GTSAM")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--sample", type=int, default=1_000_000, help="time GTSAM's marginals on at most this many poses and scale"
    )
    parser.add_argument("--cpu", action="store_true", help="count the processor's seconds, not those on the wall")
    arguments = parser.parse_args()
    global clock
    clock = time.process_time if arguments.cpu else time.perf_counter
    if "TEMPOSE_DATA" not in os.environ:
        parser.exit(1, "set TEMPOSE_DATA to the folder of real data sets\n")
    data = Path(os.environ["TEMPOSE_DATA"])
    if arguments.without_peer:
        against_space(data, arguments.repeats)
    else:
        compare(data, arguments.repeats, arguments.sample)


if __name__ == "__main__":
    main()
