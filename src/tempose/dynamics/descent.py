"""TG-MCMC as an optimiser: β → ∞, or a schedule of rising β, until U stops falling."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tempose._typing import Array
from tempose.dynamics.chain import Dynamics, GeodesicChain
from tempose.dynamics.schemes import Scheme
from tempose.model.poses import Poses
from tempose.model.posterior import Posterior

Phase = tuple[float, int]  # inverse temperature, steps
_BLOCK = 25


@dataclass(frozen=True)
class Watch:
    """What a hook sees: called every few steps of an optimisation and before every kept draw of a chain."""

    phase: str  # "optimise" or "sample"
    chain: int
    step: int
    potential: float
    beta: float
    poses: Poses


Hook = Callable[[Watch], None]


@dataclass(frozen=True)
class Descent:
    """Result of :func:`optimise`.

    ``status`` is ``converged`` (U fell by less than the tolerance), ``step limit``, or ``diverged`` (U rose without
    bound even after the step was cut; the best poses seen are returned all the same).
    """

    poses: Poses
    status: str
    potential: float
    steps: int
    trace: Array  # (k, 2): step number, U
    step: float  # step size in the end


def optimise(
    posterior: Posterior,
    start: Poses,
    *,
    scheme: Scheme,
    step: float,
    friction: float,
    key: NDArray[np.uint64],
    schedule: tuple[Phase, ...] = ((math.inf, 800),),
    coordinates: str = "position",
    inverse_mass: Array | None = None,
    batch: int = 0,
    tolerance: float = 1e-9,
    on_block: Hook | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Descent:
    """Run TG-MCMC through a schedule of (β, steps) phases and keep the best poses.

    At β = ∞ a phase ends early when U falls by less than ``tolerance`` (relative) over a block of steps. If U grows a
    hundredfold, the step was too long for this graph: it is halved, and the phase goes on from the best poses.
    """
    chain = GeodesicChain(posterior, start, key, inverse_mass)
    best, best_value = chain.state, chain.potential()
    trace = [(0.0, best_value)]
    limit = 100.0 * (best_value + posterior.graph.n_edges)
    status, cuts, total = "step limit", 0, 0
    for beta, steps in schedule:
        done = 0
        status = "step limit"
        while done < steps and not should_stop():
            block = min(_BLOCK, steps - done)
            chain.run(Dynamics(scheme, step, friction, beta, coordinates, batch), block)
            done += block
            total += block
            value = chain.potential()
            if not value < limit and math.isinf(beta):
                cuts += 1
                if cuts > 30:
                    status = "diverged"
                    break
                step, friction = 0.5 * step, 2.0 * friction
                restart = GeodesicChain(posterior, best, key, inverse_mass)
                restart.stop_motion()
                chain = restart
                continue
            trace.append((float(total), value))
            if on_block is not None:
                on_block(Watch("optimise", 0, total, value, beta, chain.poses))
            before = best_value
            if value < best_value:
                best, best_value = chain.state, value
            if (
                math.isinf(beta)
                and not batch
                and abs(before - value) <= tolerance * (abs(value) + 1e-12)
                and value <= before
            ):
                status = "converged"
                break
    poses = Poses(start.ids, best.wxyz, best.position)
    return Descent(poses, status, best_value, total, np.array(trace), step)
