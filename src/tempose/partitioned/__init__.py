"""One graph in parts, which may live on different machines: the optimum, its proof, marginals, and draws of the Gaussian around it.

Nested dissection (:mod:`.dissection`) cuts the nodes into parts that touch each other only through separators. A part
(:mod:`.parts`) eliminates its interior I and hands over what that says about its border B,

    S = H_BB − H_BI H_II⁻¹ H_IB,   r = g_B − H_BI H_II⁻¹ g_I,

the root (:mod:`.newton`) adds these up and solves for the separators, and each part finds its interior from its border. Marginals
and draws go down the same way:

    Σ_II = H_II⁻¹ + X Σ_BB Xᵀ,   x_I = L_I⁻ᵀ z − X x_B,   X = H_II⁻¹ H_IB.

The certificate's matrix (:mod:`.matrix`) is eliminated in the same way. No part sees another, and the root sees no interior.
Everything that a part needs is in files of a directory that all workers see: what a worker that is lost had is computed again by
another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tempose._support.lazy import lazy_names

if TYPE_CHECKING:
    from tempose.partitioned.dissection import Dissection as Dissection
    from tempose.partitioned.dissection import dissect as dissect
    from tempose.partitioned.newton import InParts as InParts
    from tempose.partitioned.newton import minimise_in_parts as minimise_in_parts

_WHERE = {
    "Dissection": "dissection",
    "InParts": "newton",
    "dissect": "dissection",
    "minimise_in_parts": "newton",
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _WHERE)
