"""Designs of the exact sampler, side by side: what each identity of the posterior is worth.

    python benchmarks/sampler_designs.py GRAPH.g2o [--draws N]

All are splitting Hamiltonian Monte Carlo in the chart at the optimum (exact turn of a Gaussian, kicks by the rest), tuned to
the same acceptance, and differ in what is sampled and in which Gaussian is turned:

* ``anchored``: rotations and positions, the exact Hessian; nothing is integrated out.
* ``one node``: rotations only, positions integrated out; the exact Hessian, one node held.
* ``laplacian``: rotations only, a mean of them standing still; the 2κ-weighted graph Laplacian.
* ``gauss-newton``: the same with the Gauss–Newton matrix of rotations and positions.
* ``hessian``: the same with the exact Hessian: the sampler ``collapsed``.

The effective size is that of the worst rotation coordinate of one chain (see ``benchmarks/samplers.py`` for what the worst
of many would be for independent draws, and for the geodesic samplers and NUTS).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from samplers import effective

import tempose
from tempose.geometry import quaternion as quat
from tempose.model.posterior import Posterior
from tempose.numerics.chart import SPACE, Frame, place, pull_back
from tempose.numerics.layout import rows
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.starts import start_poses
from tempose.sampling.collapsed import CollapsedChain, CollapsedSampler, Point, kick_plan, tune_target
from tempose.sampling.collapsed import CollapsedTarget as Hessian


class Anchored(Hessian):
    """Positions are sampled like rotations: W = βU − log volume − ½βxᵀHx by all coordinates."""

    def at(self, y, model=None):
        """Evaluate the target."""
        n = len(self.held)
        x = np.where(self.held, 0.0, self.laplace.factor.solve_Lt(y).reshape(n, 6)) / np.sqrt(self.beta)
        state, g = rows(n), rows(n)
        omega = np.ascontiguousarray(x[:, :3])
        largest = place(omega, self.center.wxyz, state)
        state[:, 4:7] = self.center.position + x[:, 3:]
        energy = self.posterior.gradient_into(state, self.posterior.workspace(), g)
        gradient, turned = np.zeros((n, 6)), np.empty((n, 3))
        volume = pull_back(SPACE, omega, g, self.beta, turned)
        gradient[:, :3], gradient[:, 3:] = turned, self.beta * g[:, 3:6]
        # βHx = √β L y, and ½βxᵀHx = ½|y|²; held coordinates are standard normal and cost nothing
        whitened = self.laplace.factor.solve_L(np.where(self.held, 0.0, gradient).reshape(-1)) / np.sqrt(self.beta)
        mask = self.laplace.factor.symbolic.order
        free = np.where(self.held[mask].reshape(-1), 0.0, 1.0)
        remainder = self.beta * energy - volume - 0.5 * float(np.sum(free * y**2))
        return Point(y, remainder if largest < np.pi**2 else np.inf, whitened - free * y, state)

    def follow(self, point, velocity, turn, kicks, model=None):
        """Where the dynamics leads, interpreted."""
        times, (first, *others) = kick_plan(turn, kicks)
        v = velocity - first * point.gradient
        for part, weight in zip(np.diff(times), others, strict=True):
            c, s = np.cos(part), np.sin(part)
            y, v = c * point.y + s * v, c * v - s * point.y
            point = self.at(y)
            v = v - weight * point.gradient
        return point, v


def with_metric(laplace: Laplace, diagonal, off) -> Hessian:
    """The collapsed target with another matrix in place of the Hessian."""
    curvature = laplace.curvature
    factor = curvature.factored(*curvature.hold(diagonal, off))
    return Hessian(Laplace(curvature, laplace.poses, laplace.beta, factor), metric=(diagonal, off))


def one_node(laplace: Laplace) -> Hessian:
    """The collapsed target with the gauge held at the first node of each component."""
    target, graph = Hessian(laplace), laplace.curvature.posterior.graph
    weights = np.isin(np.arange(graph.n_nodes), graph.anchors).astype(float)
    target.model = target.model._replace(frame=Frame(graph.component, weights, graph.n_components))
    return target


def laplacian(laplace: Laplace):
    """Blocks of the 2κ-Laplacian (κ = λ/4) on rotations; on the dummy positions the τ-Laplacian, uncoupled."""
    curvature = laplace.curvature
    diagonal, off = curvature.blocks(laplace.poses.wxyz, laplace.poses.position, exact=False)
    graph = curvature.posterior.graph
    off[:, :3, :3] = -0.5 * graph.concentration[curvature.posterior.edge_order][:, None, None] * np.eye(3)
    total = np.bincount(graph.edge_i, graph.concentration, len(diagonal))
    total += np.bincount(graph.edge_j, graph.concentration, len(diagonal))
    diagonal[:, :3, :3] = 0.5 * total[:, None, None] * np.eye(3)
    for blocks in (diagonal, off):
        blocks[:, :3, 3:] = blocks[:, 3:, :3] = 0.0
    return diagonal, off


def measure(name: str, target: Hessian, draws: int) -> str:
    tuned = tune_target(target, 0)
    if tuned.acceptance == 0.0:
        return f"{name:14s} never accepted, with up to {tuned.sampler.settings()['kicks']} kicks"
    assert isinstance(tuned.sampler, CollapsedSampler)
    rng = np.random.default_rng(1)
    chain = tuned.sampler.start(rng)
    assert isinstance(chain, CollapsedChain)
    omega, cost = [], []
    for k in range(draws + tuned.sampler.warmup):
        draw = chain.advance(rng)
        if k >= tuned.sampler.warmup:
            cost.append((draw.acceptance, draw.gradients))
            back = quat.multiply(target.center.wxyz[0], quat.conjugate(draw.wxyz[0]))  # as the first node sees it
            seen = quat.multiply(quat.multiply(back, draw.wxyz), quat.conjugate(target.center.wxyz))
            omega.append(quat.log(seen).reshape(-1))
    x = np.array(omega)
    ess = effective(x[:, np.ptp(x, axis=0) > 1e-12])
    acceptance, gradients = np.mean(cost, axis=0)
    return (
        f"{name:14s} {acceptance:6.2f} {gradients:9.1f} {ess.min():6.0f} {np.median(ess):6.0f} "
        f"{ess.min() / draws / gradients:9.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--draws", type=int, default=400)
    arguments = parser.parse_args()
    graph = tempose.read_graph(arguments.graph, tempose.ReadOptions(precision="isotropic"))
    curvature = Curvature(Posterior(graph))
    best = minimise(curvature, start_poses(graph, "chordal", np.random.default_rng(0)))
    laplace = Laplace(curvature, best.poses)
    designs = {
        "hessian": lambda: Hessian(laplace),
        "one node": lambda: one_node(laplace),
        "gauss-newton": lambda: with_metric(
            laplace, *curvature.blocks(best.poses.wxyz, best.poses.position, exact=False)
        ),
        "laplacian": lambda: with_metric(laplace, *laplacian(laplace)),
        "anchored": lambda: Anchored(laplace),
    }
    print(f"{arguments.graph.stem}, {arguments.draws} draws")
    print(f"{'design':14s} {'accept':>6s} {'grad/draw':>9s} {'worst':>6s} {'median':>6s} {'ESS/grad':>9s}")
    for name, make in designs.items():
        print(measure(name, make(), arguments.draws), flush=True)


if __name__ == "__main__":
    main()
