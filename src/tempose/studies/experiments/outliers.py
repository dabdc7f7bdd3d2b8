"""Errors of every method against the share of wrong measurements (the paper's appendix, "Outliers")."""

from __future__ import annotations

from tempose.simulation import Simulated, corrupt
from tempose.studies.store import Cell
from tempose.studies.synthetic import random_graph, sweep


def make(cell: Cell) -> Simulated:
    """A random graph, a share of whose edges is turned by 60° to 80° and shifted by up to 1 per axis."""
    data = random_graph(cell["nodes"], cell["completeness"], cell["variance"], cell["seed"])
    return Simulated(corrupt(data.graph, cell["share"], seed=cell["seed"]).graph, data.truth)


EXPERIMENT = sweep(
    "share",
    (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6),
    (0.0, 0.3),
    make,
    {"completeness": 0.5, "variance": 0.002},
    "share of wrong edges",
    ("mean_rotation_deg", "mean_translation", "graph_consistency"),
    log_x=False,
)
