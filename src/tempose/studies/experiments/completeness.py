"""Errors of every method against the completeness of the graph (the paper's Figure 2c, d)."""

from __future__ import annotations

from tempose.studies.experiments.noise import make
from tempose.studies.synthetic import sweep

EXPERIMENT = sweep(
    "completeness",
    (0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0),
    (0.25, 0.8),
    make,
    {"variance": 0.01},
    "completeness $e = |E|/N^2$",
    ("mean_rotation_deg", "mean_translation"),
)
