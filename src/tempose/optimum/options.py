"""Where the optimiser starts, and what it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tempose._support.options import option, require
from tempose.dynamics.options import Langevin
from tempose.errors import OptionError

STARTS = {
    "tree": "measurements chained along the most certain spanning tree",
    "best-tree": "the best, by U, of the most certain spanning tree and shortest-path trees from several roots",
    "chordal": "rotations by least squares over free matrices, then positions by one linear solve",
    "spectral": "rotations from eigenvectors of the connection Laplacian, then positions by one linear solve",
    "random": "uniform rotations, positions normal at the scale of the graph",
    "identity": "all nodes at the origin, unrotated",
    "given": "the poses in the graph file",
}


def phases(text: str) -> tuple[tuple[float, int], ...]:
    """``1:200,10:200`` as ((1, 200), (10, 200))."""
    try:
        return tuple((float(beta), int(steps)) for beta, steps in (part.split(":") for part in text.split(",")))
    except ValueError:
        raise OptionError(f"expected BETA:STEPS[,BETA:STEPS…], for instance 1:200,10:200, not {text!r}") from None


@dataclass(frozen=True)
class Newton:
    """Second order, to machine precision."""

    name: ClassVar[str] = "newton"


@dataclass(frozen=True)
class TgMcmc(Langevin):
    """The paper's sampler at β → ∞.

    Parameters
    ----------
    steps
        At most this many steps at β → ∞.
    anneal
        Phases (β, steps) before β → ∞: a schedule of rising inverse temperatures, for bad starts.
    tolerance
        Relative fall of U over a block of steps below which it stops.
    then_newton
        Hand over to :class:`Newton` in the end.
    """

    scheme: str = "boa"
    steps: int = option(400, "most TG-MCMC steps at β → ∞", metavar="N")
    anneal: tuple[tuple[float, int], ...] = option(
        (), "phases of N steps at rising β before that", metavar="B:N,...", parse=phases
    )
    tolerance: float = 1e-9
    then_newton: bool = False
    name: ClassVar[str] = "tg-mcmc"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.steps >= 0, f"the number of steps cannot be negative ({self.steps})")
        good = all(0 < beta < math.inf and steps >= 0 for beta, steps in self.anneal)
        require(good, "annealing phases need positive, finite β and non-negative numbers of steps")


Optimiser = Newton | TgMcmc

OPTIMISERS = {
    "newton": "second order, to machine precision",
    "tg-mcmc": "the paper's sampler at β → ∞",
    "both": "one after the other",
}


def optimiser_named(name: str) -> Optimiser:
    """The optimiser of a name in :data:`OPTIMISERS`."""
    require(name in OPTIMISERS, f"unknown optimiser {name!r}: choose one of {', '.join(OPTIMISERS)}")
    return Newton() if name == "newton" else TgMcmc(then_newton=name == "both")
