"""The samplers as users name them: each an object with its own options.

``tempose.solve(graph, sampler=Geodesic(scheme="boa"))``; a name alone, ``sampler="geodesic"``, takes the defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from tempose._support.options import option, require
from tempose.dynamics.options import Langevin


@dataclass(frozen=True)
class SamplerOptions:
    """What all samplers have; ``None`` means: found automatically.

    Parameters
    ----------
    thin, warmup
        Steps (``geodesic`` and the adjusted schemes) or trajectories (others) between kept draws, and before the first.
    """

    thin: int | None = option(None, "steps between kept draws (default: found automatically)", metavar="N")
    warmup: int | None = option(None, "steps before the first draw (default: found automatically)", metavar="N")

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        require(self.thin is None or self.thin >= 1, f"draws must be at least 1 step apart (thin), not {self.thin}")
        require(self.warmup is None or self.warmup >= 0, f"warmup cannot be negative ({self.warmup})")


@dataclass(frozen=True)
class Auto(SamplerOptions):
    """The fastest exact one: collapsed if it is valid and accepted, else geodesic-mh."""

    name: ClassVar[str] = "auto"


@dataclass(frozen=True)
class Collapsed(SamplerOptions):
    """Splitting HMC on the rotations with the positions integrated out; exact."""

    name: ClassVar[str] = "collapsed"


@dataclass(frozen=True)
class GeodesicMH(SamplerOptions):
    """Geodesic splitting with a Metropolis test a trajectory; exact, for any posterior."""

    name: ClassVar[str] = "geodesic-mh"


@dataclass(frozen=True)
class Adjusted(SamplerOptions):
    """A splitting scheme with a Metropolis test a step; exact, for any posterior."""

    scheme: ClassVar[str] = ""


@dataclass(frozen=True)
class BaoabMH(Adjusted):
    """The scheme baoab with a Metropolis test a step."""

    name: ClassVar[str] = "baoab-mh"
    scheme: ClassVar[str] = "baoab"


@dataclass(frozen=True)
class AbobaMH(Adjusted):
    """The scheme aboba with a Metropolis test a step."""

    name: ClassVar[str] = "aboba-mh"
    scheme: ClassVar[str] = "aboba"


@dataclass(frozen=True)
class BoaMH(Adjusted):
    """The paper's scheme with exact noise and a Metropolis test a step; slow."""

    name: ClassVar[str] = "boa-mh"
    scheme: ClassVar[str] = "boa"


@dataclass(frozen=True)
class Tempering(SamplerOptions):
    """Replicas at falling β exchange places; exact, finds and weighs separate modes of small graphs."""

    name: ClassVar[str] = "tempering"


@dataclass(frozen=True)
class Jumping(SamplerOptions):
    """The sampler collapsed at every mode found from several starts, and jumps between them; exact."""

    name: ClassVar[str] = "jumping"


@dataclass(frozen=True)
class Geodesic(Langevin, SamplerOptions):
    """The geodesic splitting schemes without a test, as in the paper.

    Parameters
    ----------
    spread
        Start the chains at draws of the Gaussian approximation instead of at the estimate.
    """

    spread: bool = True
    name: ClassVar[str] = "geodesic"

    def __post_init__(self) -> None:
        Langevin.__post_init__(self)
        SamplerOptions.__post_init__(self)


KINDS: tuple[type[SamplerOptions], ...] = (
    Auto,
    Collapsed,
    GeodesicMH,
    BaoabMH,
    AbobaMH,
    BoaMH,
    Tempering,
    Jumping,
    Geodesic,
)

SAMPLERS = {kind.name: (kind.__doc__ or "").splitlines()[0].rstrip(".") for kind in KINDS}
"""What each is, by its name."""


def sampler_named(name: str, **options: Any) -> SamplerOptions:
    """The sampler of a name in :data:`SAMPLERS`, with options of its own."""
    kinds = {kind.name: kind for kind in KINDS}
    require(name in kinds, f"unknown sampler {name!r}: choose one of {', '.join(kinds)}")
    own = {one.name for one in fields(kinds[name])}
    foreign = [key for key in options if key not in own]
    require(not foreign, f"{', '.join(foreign)}: not an option of the sampler {name}")
    return kinds[name](**options)
