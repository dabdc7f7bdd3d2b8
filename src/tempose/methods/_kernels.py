"""Compiled loops over the edges for averaging on a graph: arrays in, arrays out, no validation.

The readable twins of both are in ``tests/methods/test_methods.py``.
"""

from __future__ import annotations

import math
from typing import Any

from tempose._support.compiling import kernel
from tempose.geometry.compiled import product


@kernel
def rotation_errors(edge_i: Any, edge_j: Any, measured: Any, wxyz: Any, out: Any) -> None:
    """Rotation vectors ``log(q_j ⊗ q_ij ⊗ q̄_i)`` (m, 3) of world_from_node rotations (n, 4)."""
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        a = (wxyz[j, 0], wxyz[j, 1], wxyz[j, 2], wxyz[j, 3])
        q = (measured[e, 0], measured[e, 1], measured[e, 2], measured[e, 3])
        w, x, y, z = product(product(a, q), (wxyz[i, 0], -wxyz[i, 1], -wxyz[i, 2], -wxyz[i, 3]))
        length = math.sqrt(x * x + y * y + z * z)
        factor = 2.0 * math.atan2(length, abs(w)) / length if length > 1e-150 else 2.0
        if w < 0.0:
            factor = -factor
        out[e, 0], out[e, 1], out[e, 2] = factor * x, factor * y, factor * z


@kernel
def shrink(edge_i: Any, edge_j: Any, x: Any, b: Any, limit: Any, z: Any, dual: Any, pull: Any) -> float:
    """One step of the multiplier method for ``Σ w |x_i − x_j − b|₁``, in place; returns how far it is from its end.

    ``z ← soft(x_i − x_j − b + dual, limit)``, ``dual ← dual + x_i − x_j − b − z``, and the differences
    ``pull = b + z − dual`` that the next x shall have; all (m, k), limit (m,).
    """
    far = 0.0
    for e in range(edge_i.shape[0]):
        i, j = edge_i[e], edge_j[e]
        for c in range(b.shape[1]):
            gap = x[i, c] - x[j, c] - b[e, c]
            shifted = gap + dual[e, c]
            new = math.copysign(max(abs(shifted) - limit[e], 0.0), shifted)
            far = max(far, abs(gap - new), abs(new - z[e, c]))
            z[e, c] = new
            dual[e, c] = shifted - new
            pull[e, c] = b[e, c] + new - dual[e, c]
    return far
