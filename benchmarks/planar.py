"""Planar graphs: time to the certified optimum and to all marginal covariances, next to GTSAM's Pose2, in one run.

    python benchmarks/planar.py                  # needs TEMPOSE_DATA and: pip install '.[bench]'
    python benchmarks/planar.py --without-peer   # tempose alone, and what the same graph costs when it is lifted to 3D

Both sides get the same isotropic graph in memory; reading, imports and compilation are excluded. GTSAM: chordal initialisation of
the rotations (its own, which is for 3D, of the lifted rotations) or LAGO, its initialisation for the plane, whichever gets to the
end sooner, and Levenberg–Marquardt with its defaults, no certificate; then ``Marginals`` for every pose. tempose: chordal start,
Newton, certificate; then the covariances of all poses by one selected inverse. Times are the best of a few runs.
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


def best_of(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    times, result = [], None
    for _ in range(repeats):
        began = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - began)
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


def lifted(graph: tempose.PoseGraph) -> tempose.PoseGraph:
    """The same graph in three dimensions."""
    return replace(graph, dimension=3)


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

    began = time.perf_counter()
    marginals = gtsam.Marginals(problem, values)
    base = time.perf_counter() - began
    chosen = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
    began = time.perf_counter()
    for k in chosen:
        marginals.marginalCovariance(int(k))
    return base + (time.perf_counter() - began) * n / len(chosen)


def numbered(graph: tempose.PoseGraph) -> tempose.PoseGraph:
    """Nodes named by their rows, which is what the peer gets."""
    return replace(graph, node_ids=tuple(range(graph.n_nodes)), initial=None, fixed=(), fixed_at=None)


def compare(data: Path, repeats: int, sample: int, peer: bool) -> None:
    against = "GTSAM" if peer else "lifted to 3D"
    print(f"{'':>19} {'optimum, seconds':^44} {'':>8}   all marginals, seconds")
    print(
        f"{'graph':>19} {'tempose':>8} {'2U':>11} {'proof':>9} {against:>13} {'2U':>11} {'ratio':>7} "
        f"{'tempose':>9} {against:>13} {'ratio':>7}"
    )
    for name in FILES:
        read = tempose.read_graph(data / "g2o2d" / f"{name}.g2o", tempose.ReadOptions(precision="isotropic"))
        graph = numbered(read)
        seconds, covariances, minimum, certificate = ours(graph, repeats)
        if peer:
            problem, in_space = gtsam_problem(graph), gtsam_lifted(graph)
            runs = [
                best_of(lambda p=problem, s=in_space, n=graph.n_nodes: gtsam_chordal(p, s, n), max(1, repeats // 2)),
                best_of(lambda p=problem: gtsam_lago(p), max(1, repeats // 2)),
            ]
            reached = min(gtsam_potential(graph, values) for _, values in runs)
            theirs, values = min((r for r in runs if gtsam_potential(graph, r[1]) < 1.01 * reached), key=lambda r: r[0])
            their_u, their_cov = gtsam_potential(graph, values), gtsam_marginals(problem, values, graph.n_nodes, sample)
        else:
            theirs, their_cov, other, _ = ours(lifted(graph), repeats)
            their_u = other.potential
        print(
            f"{name:>19} {seconds:8.3f} {2 * minimum.potential:11.5f} {'certified' if certificate.certified else '–':>9} "
            f"{theirs:13.3f} {2 * their_u:11.5f} {theirs / seconds:6.1f}x {covariances:9.4f} {their_cov:13.3f} "
            f"{their_cov / covariances:6.0f}x",
            flush=True,
        )
    print("\n2U in tempose's model on both sides")
    if peer and sample < 10_000:
        print(f"GTSAM's marginals are timed on {sample} poses at most and scaled to all.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--without-peer", action="store_true", help="the same graphs lifted to 3D in place of GTSAM")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--sample", type=int, default=1_000_000, help="time GTSAM's marginals on at most this many poses and scale"
    )
    arguments = parser.parse_args()
    if "TEMPOSE_DATA" not in os.environ:
        parser.exit(1, "set TEMPOSE_DATA to the folder of real data sets\n")
    compare(Path(os.environ["TEMPOSE_DATA"]), arguments.repeats, arguments.sample, not arguments.without_peer)


if __name__ == "__main__":
    main()
