"""A posterior with its optimum, ready for any sampler; means with their Monte Carlo error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tempose.dynamics.chain import Dynamics
from tempose.dynamics.schemes import Scheme
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior, Priors
from tempose.optimum.hessian import Curvature
from tempose.optimum.laplace import Laplace
from tempose.optimum.newton import minimise
from tempose.sampling.choice import Problem, choose
from tempose.sampling.draws import Draws
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.tuning import tune


@dataclass(frozen=True)
class Case:
    posterior: Posterior
    best: Poses
    lowest: float

    def problem(self, beta: float = 1.0, thin: int | None = None) -> Problem:
        curvature = Curvature(self.posterior)
        tuning = tune(curvature, self.best)
        laplace = Laplace(curvature, self.best, beta)
        dynamics = Dynamics(Scheme("baoab"), tuning.step, tuning.friction, beta)
        return Problem(self.posterior, self.best, laplace, tuning, dynamics, thin, None, True, 0)

    def run(self, name: str, draws: int, directory: Path, beta: float = 1.0, chains: int = 1, seed: int = 0) -> Draws:
        if name == "tempering":  # dear, and nearly independent: a few draws will do
            draws = min(draws, 800)
        sampler = choose(name, self.problem(beta, thin=2 if name == "tempering" else None)).sampler
        return sample(self.posterior, sampler, SamplingPlan(beta, chains, draws, seed), directory)


def optimum(graph: PoseGraph, start: Poses, priors: Priors | None = None) -> Case:
    posterior = Posterior(graph, priors or Priors())
    best = minimise(Curvature(posterior), start)
    assert best.status == "converged"
    return Case(posterior, best.poses, best.potential)


def mean_and_error(x: np.ndarray, batches: int = 30) -> tuple[float, float]:
    means = x[: len(x) // batches * batches].reshape(batches, -1).mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(batches))
