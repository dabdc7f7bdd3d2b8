"""Errors of every method against the noise (the paper's Figure 2a, b)."""

from __future__ import annotations

from tempose.simulation import Simulated
from tempose.studies.store import Cell
from tempose.studies.synthetic import random_graph, sweep


def make(cell: Cell) -> Simulated:
    """A random graph with the cell's noise."""
    return random_graph(cell["nodes"], cell["completeness"], cell["variance"], cell["seed"])


EXPERIMENT = sweep(
    "variance",
    (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
    (0.005, 0.05),
    make,
    {"completeness": 0.5},
    "variance of the noise (rad², length²)",
    ("mean_rotation_deg", "mean_translation"),
)
