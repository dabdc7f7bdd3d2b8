"""TG-MCMC with the paper's constants, watched step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tempose import paper
from tempose.analysis.accuracy import graph_consistency, pose_errors
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.sampling.tuning import tune
from tempose.simulation import Simulated, simulate
from tempose.studies.store import Row

LAMBDA, VARIANCE = 500.0, 0.03  # within the paper's ranges


def paper_graph(nodes: int, completeness: float, seed: int) -> Simulated:
    """A random graph whose noise is the paper's: λ and σ² of the likelihood, drawn from it."""
    return simulate(
        nodes,
        completeness=completeness,
        sigma_rot_deg=math.degrees(math.sqrt(2.0 / LAMBDA)),
        sigma_trans=math.sqrt(VARIANCE),
        seed=seed,
    )


def common_step(posterior: Posterior, start: Poses) -> float:
    """The paper's step for a graph: the longest stable one in its range."""
    return paper.longest_step(tune(Curvature(posterior), start, identity_mass=True).fastest, paper.FRICTION)


def paper_dynamics(step: float, *, friction: float = paper.FRICTION, beta: float = math.inf) -> Dynamics:
    """The paper's BOA as printed; at β = ∞, without noise, it is its optimiser."""
    return Dynamics(Scheme("boa", "paper"), step, friction, beta, "paper")


def watch(
    chain: GeodesicChain, dynamics: Dynamics, iterations: Sequence[int], see: Callable[[int, Poses], None]
) -> Poses:
    """Run a chain, call ``see`` with the poses at the given step numbers (rising), and return the last."""
    done = 0
    for iteration in iterations:
        if iteration > done:
            chain.run(dynamics, iteration - done)
        done = iteration
        see(iteration, chain.poses)
    return chain.poses


def measured(posterior: Posterior, poses: Poses, truth: Poses) -> Row:
    """U, errors after SE(3) alignment, and consistency."""
    errors = pose_errors(poses, truth)
    return {
        "potential": posterior.potential(poses),
        "mean_rotation_deg": errors.mean_rotation_deg,
        "mean_translation": errors.mean_translation if posterior.graph.has_translation.any() else None,
        "graph_consistency": graph_consistency(posterior.graph, poses),
    }
