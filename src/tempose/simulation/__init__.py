"""Synthetic graphs with known truth: shapes, noise from the model itself, all that a graph may hold, and wrong edges."""

from tempose.simulation.graphs import Simulated, simulate
from tempose.simulation.graphs import measure as measure
from tempose.simulation.lookalikes import replace_loops
from tempose.simulation.measuring import measure_again
from tempose.simulation.shapes import SHAPES
from tempose.simulation.wrong import Corrupted, ambiguous_loop, ambiguous_loop_odds, corrupt

__all__ = [
    "SHAPES",
    "Corrupted",
    "Simulated",
    "ambiguous_loop",
    "ambiguous_loop_odds",
    "corrupt",
    "measure_again",
    "replace_loops",
    "simulate",
]
