"""A posterior with its optimum, ready for any sampler; means with their Monte Carlo error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from helpers.kernels import with_world
from tempose.analysis.modes import search
from tempose.dynamics.chain import Dynamics
from tempose.dynamics.schemes import Scheme
from tempose.geometry import quaternion as quat
from tempose.model.graph import WORLD, PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.model.priors import Priors
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.optimum.starts import start_poses
from tempose.sampling.choice import Problem, choose
from tempose.sampling.draws import Draws
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.tuning import tune
from tempose.simulation import ambiguous_loop, measure, simulate


@dataclass(frozen=True)
class Case:
    posterior: Posterior
    best: Poses
    lowest: float
    modes: tuple[Poses, ...] = ()

    def problem(self, beta: float = 1.0, thin: int | None = None) -> Problem:
        curvature = Curvature(self.posterior)
        tuning = tune(curvature, self.best)
        laplace = Laplace(curvature, self.best, beta)
        dynamics = Dynamics(Scheme("baoab"), tuning.step, tuning.friction, beta)
        return Problem(self.posterior, self.best, laplace, tuning, dynamics, thin, modes=self.modes)

    def run(
        self,
        name: str,
        draws: int,
        directory: Path,
        beta: float = 1.0,
        chains: int = 1,
        seed: int = 0,
        thin: int | None = None,
    ) -> Draws:
        if name == "tempering":  # dear, and nearly independent: a few draws will do
            draws, thin = min(draws, 800), thin or 2
        sampler = choose(name, self.problem(beta, thin)).sampler
        return sample(self.posterior, sampler, SamplingPlan(beta, chains, draws, seed), directory)


def optimum(graph: PoseGraph, start: Poses, priors: Priors | None = None) -> Case:
    posterior = Posterior((priors or Priors()).added_to(graph))
    best = minimise(Curvature(posterior), with_world(posterior.graph, start))
    assert best.status == "converged"
    return Case(posterior, best.poses, best.potential)


def mean_and_error(x: np.ndarray, batches: int = 30) -> tuple[float, float]:
    means = x[: len(x) // batches * batches].reshape(batches, -1).mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(batches))


def eight_nodes() -> Case:
    """The test graph of the design notes: 8 nodes, 22 edges, σ_θ = 0.05, σ_t = 0.1."""
    rng = np.random.default_rng(1)
    truth = Poses(tuple(range(8)), quat.random_uniform(rng, 8), rng.standard_normal((8, 3)))
    pairs = np.array([(a, b) for a in range(8) for b in range(a + 1, 8)])[rng.permutation(28)[:22]]
    return optimum(measure(truth, pairs, 0.05, 0.1, rng), truth)


def with_parts(seed: int = 5) -> tuple[PoseGraph, Poses]:
    """Two components, some edges without a translation, anisotropic rotations: the collapse is still exact."""
    rng = np.random.default_rng(seed)
    truth = Poses(tuple(range(7)), quat.random_uniform(rng, 7), rng.standard_normal((7, 3)))
    pairs = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (4, 5), (5, 6), (6, 4)])
    graph = measure(truth, pairs, 0.05, 0.1, rng)
    t = graph.j_from_i_t.copy()
    t[[2, 3, 7]] = np.nan  # node 3 has no translation at all
    return replace(graph, j_from_i_t=t, concentration=np.tile([600.0, 900.0, 1500.0], (8, 1))), truth


EVERY_GRAPH: dict[str, dict[str, object]] = {
    "planar": {"planar": True},
    "planar and correlated": {"planar": True, "correlated": True},
    "correlated": {"correlated": True},
    "absolute": {"gps": 3, "gps_up": 3.0, "lever_arm": 0.2, "attitudes": 1},
    "landmarks": {"landmarks": 3, "sightings": 3},
    "fixed": {"fixed": 2},
    "planar and mixed": {"planar": True, "correlated": True, "gps": 2, "landmarks": 2, "fixed": 1},
}


def one_of_every(kind: str) -> Case:
    """A graph of six nodes of a kind, and its optimum."""
    made = simulate(6, completeness=0.8, sigma_rot_deg=3.0, sigma_trans=0.1, seed=3, **EVERY_GRAPH[kind])  # type: ignore[arg-type]
    start = made.truth if made.graph.world is None else made.truth.with_identity(WORLD).select(made.graph.node_ids)
    return optimum(made.graph, start)


def two_modes() -> Case:
    """A loop of six rotations that cannot close, with a mode on either side: for the sampler jumping."""
    posterior = Posterior(ambiguous_loop(6, 18.0, 172.0))
    curvature = Curvature(posterior)
    start = minimise(curvature, start_poses(posterior.graph, "tree", np.random.default_rng(0))).poses
    deepest, other = search(curvature, 1.0, start, 12, np.random.default_rng(0))
    return Case(posterior, deepest, posterior.potential(deepest), (other,))
