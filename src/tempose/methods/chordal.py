"""Chordal averaging of rotations, then positions by least squares."""

from __future__ import annotations

from tempose.methods.base import Estimate, synchronisation_method
from tempose.model.graph import PoseGraph
from tempose.optimum.relaxations import chordal_rotations, with_positions


@synchronisation_method(connected=False, takes_everything=True)
def chordal(graph: PoseGraph) -> Estimate:
    """Minimise ``Σ λ ‖R_i − R_j R_ij‖²`` over free 3×3 matrices, take the nearest rotations, then solve for positions.

    Martinec & Pajdla, "Robust rotation and translation estimation in multiview reconstruction", CVPR 2007; Hartley et
    al., "Rotation averaging", IJCV 2013. The positions minimise the translation part of U given the rotations.
    """
    return Estimate(with_positions(graph, chordal_rotations(graph)), "closed form")
