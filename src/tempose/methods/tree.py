"""Propagation along a spanning tree."""

from __future__ import annotations

from tempose.methods.base import Estimate, start_on_tree, synchronisation_method
from tempose.model.graph import PoseGraph


@synchronisation_method(connected=False, takes_everything=True)
def tree(graph: PoseGraph) -> Estimate:
    """Chain the measured motions along the spanning tree of the largest rotation concentrations.

    All other edges are ignored, so errors add up along the branches. Edges without a translation are used only where
    there is no other.
    """
    return Estimate(start_on_tree(graph), "closed form")
