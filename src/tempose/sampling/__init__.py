"""Draws from the posterior: one sampler a file, each an object with its own options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names
from tempose.sampling.options import (
    AbobaMH,
    Auto,
    BaoabMH,
    BoaMH,
    Collapsed,
    Geodesic,
    GeodesicMH,
    Jumping,
    SamplerOptions,
    Tempering,
)

if TYPE_CHECKING:
    from tempose.sampling.minibatch import draw_by_minibatches as draw_by_minibatches

_, __getattr__, __dir__ = lazy_names(__name__, {"draw_by_minibatches": "minibatch"})

__all__ = [
    "AbobaMH",
    "Auto",
    "BaoabMH",
    "BoaMH",
    "Collapsed",
    "Geodesic",
    "GeodesicMH",
    "Jumping",
    "SamplerOptions",
    "Tempering",
    "draw_by_minibatches",
]
