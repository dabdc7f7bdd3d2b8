"""What every sampler is: a recipe for chains, and chains that make one draw after the other.

A sampler holds everything that was tuned and is frozen from then on; a chain holds the state. All randomness of a draw
comes from the generator it is given, so the driver decides which random numbers belong to which draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tempose._typing import Array


class Cause(StrEnum):
    """Why a sampler was chosen, or does not apply."""

    ASKED = "asked for"
    MODES = "several modes"
    MODES_WITHOUT_JUMPS = "several modes, no jumps"
    WIDE = "wide posterior"
    NO_MINIMUM = "no strict minimum"
    ANISOTROPIC_EDGES = "anisotropic translations"  # of earlier versions, as the next
    ANISOTROPIC_PRIORS = "anisotropic priors"
    PARTLY_DETERMINED = "partly determined"
    TEMPERED_MIXTURE = "wrong edges, tempered"
    LOOSE_WITHOUT_WRONG_EDGES = "no strict minimum of the kept edges"
    REJECTED = "pilot run rejected"
    INTEGRATED_OUT = "positions integrated out"


@dataclass(frozen=True)
class Reason:
    """A cause, and the number behind it: modes, degrees, or the share of a pilot run that was accepted."""

    cause: Cause = Cause.ASKED
    value: float = 0.0

    def facts(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"cause": self.cause, "value": self.value}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Reason:
        """The inverse of :meth:`facts`."""
        return cls(Cause(facts["cause"]), float(facts["value"]))


@dataclass(frozen=True)
class Draw:
    """One draw and what it cost.

    Attributes
    ----------
    wxyz, position
        world_from_node (n, 4) and (n, 3).
    potential
        U there.
    acceptance
        Mean probability of acceptance on the way from the last draw; 1 for schemes that accept everything.
    gradients
        Gradients of U evaluated on the way.
    """

    wxyz: Array
    position: Array
    potential: float
    acceptance: float
    gradients: int


class Chain(Protocol):
    """A running chain."""

    def advance(self, rng: np.random.Generator) -> Draw:
        """The next draw: a function of the state and the generator alone."""

    def arrays(self) -> dict[str, Array]:
        """The state: what :meth:`Sampler.resume` needs to continue to the same bits."""


class Sampler(Protocol):
    """A tuned sampler; several chains may run at the same time."""

    @property
    def name(self) -> str:
        """As in :data:`tempose.sampling.options.SAMPLERS`."""

    @property
    def warmup(self) -> int:
        """Draws to throw away at the start of each chain."""

    def settings(self) -> dict[str, object]:
        """All numbers that decide the draws, for the record."""

    def start(self, rng: np.random.Generator) -> Chain:
        """A new chain."""

    def resume(self, arrays: dict[str, Array]) -> Chain:
        """A chain that goes on from a state."""


@runtime_checkable
class SideBySide(Protocol):
    """A sampler whose chains keep to one thread each, even where the graph is large, and that draws faster for several together."""

    def advance(self, chains: Sequence[Any], rngs: Sequence[np.random.Generator]) -> list[Draw]:
        """What :meth:`Chain.advance` of each makes, to the same bits."""


@dataclass(frozen=True)
class Tuned:
    """A sampler and the mean acceptance of its pilot chain (0 if nothing was ever good enough)."""

    sampler: Sampler
    acceptance: float
