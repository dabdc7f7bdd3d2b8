"""TG-MCMC itself: splitting schemes, the chain they push forward, and the descent at β → ∞."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.dynamics.chain import Dynamics as Dynamics
    from tempose.dynamics.chain import GeodesicChain as GeodesicChain
    from tempose.dynamics.descent import Watch as Watch
    from tempose.dynamics.schemes import Scheme as Scheme

_WHERE = {
    "Watch": "descent",
    "Dynamics": "chain",
    "GeodesicChain": "chain",
    "Scheme": "schemes",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
