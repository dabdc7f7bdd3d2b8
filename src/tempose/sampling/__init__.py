"""Draws from the posterior: one sampler a file, each an object with its own options."""

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
]
