"""Effective draws per gradient and per second of the exact samplers on standard graphs.

    python benchmarks/samplers.py [--draws N] [--samplers collapsed geodesic-mh] GRAPH.g2o ...

The effective sample size is that of the worst of all rotation coordinates (logarithm at the optimum, one node held), by
Geyer's initial monotone sequence. Seconds are of processor time.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import tempose
from tempose.geometry import quaternion as quat
from tempose.inference.chain import Dynamics
from tempose.inference.choice import Problem, choose
from tempose.inference.schemes import Scheme
from tempose.inference.tuning import tune
from tempose.optimum.covariance import Laplace
from tempose.optimum.curvature import Curvature
from tempose.optimum.newton import minimise
from tempose.optimum.starts import start_poses
from tempose.posterior import Posterior


def effective(x):
    """Effective sizes (d,) of draws (n, d)."""
    n = len(x)
    x = x - x.mean(axis=0)
    f = np.fft.rfft(x, 2 * n, axis=0)
    rho = np.fft.irfft(np.abs(f) ** 2, axis=0)[:n] / np.sum(x**2, axis=0)
    pairs = rho[0 : n // 2 * 2 : 2] + rho[1 : n // 2 * 2 : 2]
    pairs = np.minimum.accumulate(np.where(np.cumprod(pairs > 0.0, axis=0), pairs, 0.0), axis=0)
    return n / np.maximum(2.0 * pairs.sum(axis=0) - 1.0, 1.0 / np.log10(n))


def measure(path: Path, name: str, n_draws: int, beta: float) -> str:
    graph = tempose.read_graph(path)
    posterior = Posterior(graph)
    curvature = Curvature(posterior)
    best = minimise(curvature, start_poses(graph, "chordal", np.random.default_rng(0)))
    tuning = tune(curvature, best.poses)
    dynamics = Dynamics(Scheme("baoab"), tuning.step, tuning.friction, beta)
    laplace = None if tuning.laplace is None else Laplace(curvature, best.poses, beta, tuning.laplace)
    began = time.process_time()
    choice = choose(name, Problem(posterior, best.poses, laplace, tuning, dynamics))
    tuned = time.process_time() - began
    rng = np.random.default_rng(3)
    chain = choice.sampler.start(rng)
    for _ in range(choice.sampler.warmup):
        chain.advance(rng)
    began = time.process_time()
    energy, omega, cost = [], [], []
    anchor = curvature.rotation_anchor[0]
    for _ in range(n_draws):
        draw = chain.advance(rng)
        back = quat.multiply(best.poses.wxyz[anchor], quat.conjugate(draw.wxyz[anchor]))
        aligned = quat.multiply(back, draw.wxyz)
        omega.append(np.delete(quat.log(quat.multiply(aligned, quat.conjugate(best.poses.wxyz))), anchor, axis=0))
        energy.append(beta * (draw.potential - best.potential))
        cost.append((draw.acceptance, draw.gradients))
    seconds = time.process_time() - began
    ess = effective(np.reshape(omega, (n_draws, -1)))
    acceptance, gradients = np.mean(cost, axis=0)
    return (
        f"{path.stem:15s} {choice.sampler.name:12s} {acceptance:6.2f} {gradients:8.2f} {ess.min():8.0f} {np.median(ess):8.0f} "
        f"{n_draws:6d} {ess.min() / n_draws / gradients:10.3f} {ess.min() / seconds:10.1f} "
        f"{1e3 * seconds / n_draws / gradients:8.2f} "
        f"{tuned:7.1f} {np.mean(energy):10.1f} {0.5 * curvature.dimension:9.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--samplers", nargs="+", default=["collapsed"])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--beta", type=float, default=1.0)
    arguments = parser.parse_args()
    print(
        f"{'graph':15s} {'sampler':12s} {'accept':>6s} {'grad/draw':>8s} {'worstESS':>8s} {'median':>8s} {'draws':>6s} "
        f"{'ESS/grad':>10s} {'ESS/s':>10s} {'ms/grad':>8s} {'tune s':>7s} {'β(U−U*)':>10s} {'dof/2':>9s}"
    )
    for path in arguments.graphs:
        for name in arguments.samplers:
            print(measure(path, name, arguments.draws, arguments.beta), flush=True)


if __name__ == "__main__":
    main()
