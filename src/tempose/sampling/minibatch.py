"""Draws of graphs too large to factorise: TG-MCMC with the gradient of a few edges at a time, as the paper proposes.

What it needs is the table of the edges and two numbers per node; nothing is factorised, and nothing is solved. What it promises:

- the stochastic gradient is unbiased, and every step costs the same whatever the graph;
- its noise heats the posterior, by a share that :func:`tempose.sampling.tuning.minibatch_motion` keeps near 2% by the size of the
  step (``heating`` in ``draws.json``): every σ is about 1% too large, and no Metropolis test takes that away;
- a run that is stopped goes on to the same bits.

What it cannot promise: that the start is near the best optimum (there is no certificate), and that the chains have forgotten it.
Modes of frequency ω, in units of the stiffest, need about 1/(ωh)² steps, and h falls with √(b/m): long trajectories, which are
soft, are out of reach; dense graphs are what it is for. The diagnostics of the draws (R̂, effective draws) say whether it was
enough.
"""

from __future__ import annotations

import math
import threading
from pathlib import Path

import numpy as np

from tempose._support import streams
from tempose._support.progress import ProgressHook, silent
from tempose.dynamics.chain import Dynamics, inverse_masses
from tempose.dynamics.descent import Descent, optimise
from tempose.dynamics.schemes import Scheme
from tempose.errors import OptionError
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior
from tempose.optimum.hessian import Curvature
from tempose.sampling.draws import Draws
from tempose.sampling.driver import SamplingPlan, sample
from tempose.sampling.geodesic import GeodesicSampler
from tempose.sampling.tuning import heating, masses, minibatch_motion

FASTEST = math.sqrt(12.0)
"""Bound of the frequency of any mode, with masses from the traces of the diagonal blocks: an edge touches two nodes, and a node has
two traces of three numbers each."""


def draw_by_minibatches(
    graph: PoseGraph,
    start: Poses,
    directory: str | Path,
    *,
    batch: int,
    draws: int = 1000,
    chains: int = 4,
    thin: int = 1000,
    beta: float = 1.0,
    seed: int = 0,
    descent: int = 2000,
    progress: ProgressHook = silent,
    stop: threading.Event | None = None,
) -> Draws:
    """Draws by stochastic gradients, without any factorisation; see the module for what they are worth.

    Parameters
    ----------
    graph, start
        The graph, and poses to come down from.
    directory
        Where the draws are written; a run that was stopped there is continued.
    batch
        Edges per gradient.
    draws, chains
        All draws together, and in how many chains.
    thin
        Steps from draw to draw; :func:`tempose.sampling.tuning.minibatch_motion` says how many a mode needs.
    beta, seed
        As for :func:`tempose.solve`.
    descent
        Steps of the descent before, with all edges.
    stop
        Ends the run after the current draw; the same call goes on from there.
    """
    if batch < 1:
        raise OptionError(f"a minibatch of {batch} edges makes no sense; give at least one")
    posterior = Posterior(graph)
    curvature = Curvature(posterior)
    start = start.select(graph.node_ids)
    diagonal = curvature.blocks(start.wxyz, start.position, exact=False)[0]
    inverse = inverse_masses(graph, 1.0 / masses(curvature, diagonal, False))
    longest = 1.0 / FASTEST
    found: Descent = optimise(
        posterior, start, scheme=Scheme("baoab"), step=longest, friction=0.5, key=streams.key(seed, "optimise"),
        schedule=((math.inf, descent),), inverse_mass=inverse,
    )  # fmt: skip
    step, friction, _ = minibatch_motion(batch, graph.n_edges, longest, 1.0)
    dynamics = Dynamics(Scheme("baoab"), step, friction, beta, "position", batch)
    sampler = GeodesicSampler(posterior, found.poses, None, inverse, dynamics, thin, 2)
    each = tuple(len(part) for part in np.array_split(np.arange(draws), chains))
    said: dict[str, object] = {"heating": heating(step, friction, batch, graph.n_edges)}
    plan = SamplingPlan(beta, chains, each, seed)
    return sample(posterior, sampler, plan, Path(directory), description=said, progress=progress, stop=stop)
