"""Draws from the posterior: one sampler a file, each an object with its own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.sampling.minibatch import draw_by_minibatches as draw_by_minibatches
    from tempose.sampling.options import AbobaMH as AbobaMH
    from tempose.sampling.options import Auto as Auto
    from tempose.sampling.options import BaoabMH as BaoabMH
    from tempose.sampling.options import BoaMH as BoaMH
    from tempose.sampling.options import Collapsed as Collapsed
    from tempose.sampling.options import Geodesic as Geodesic
    from tempose.sampling.options import GeodesicMH as GeodesicMH
    from tempose.sampling.options import Jumping as Jumping
    from tempose.sampling.options import SamplerOptions as SamplerOptions
    from tempose.sampling.options import Tempering as Tempering

_WHERE = {
    "draw_by_minibatches": "minibatch",
    "AbobaMH": "options",
    "Auto": "options",
    "BaoabMH": "options",
    "BoaMH": "options",
    "Collapsed": "options",
    "Geodesic": "options",
    "GeodesicMH": "options",
    "Jumping": "options",
    "SamplerOptions": "options",
    "Tempering": "options",
}
__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
