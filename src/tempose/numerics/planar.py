"""Second derivatives of U of a planar graph, in three coordinates (ωz, x, y) per node: a node's angle and position.

In the plane all rotations commute, and an edge from i to j needs no matrices: with the residual's half angle (s, n) = (cos, sin),
``ξ = ω_j − ω_i``, ``σ = 2sn = sin θ``, y the vector from j to the point that is measured and μ that point's arm, both in j's
frame, and J the turn by 90°,

    U = λ n² + ½ ρᵀPρ,  ρ = t + bσ − y,
    ∂ρ/∂ω_j = bσ' + Jy,  ∂ρ/∂ω_i = −bσ' − Jμ,  ∂ρ/∂p_i = −R_jᵀ = −∂ρ/∂p_j,
    ∂²ρ/∂ω_j² = bσ'' + y,  ∂²ρ/∂ω_i² = bσ'' + μ,  ∂²ρ/∂ω_i∂ω_j = −bσ'' − μ,  ∂²ρ/∂ω_j∂p_i = JR_jᵀ,

``σ' = s² − n²``, ``σ'' = −σ``. The same as :func:`tempose.numerics.hessian.hessian` on these axes, at a fraction of its cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tempose._support.compiling import kernel
from tempose.numerics.layout import FULL_WIDTH, ISO_WIDTH, ROBUST_WIDTH
from tempose.numerics.potential import robust_edge


@kernel
def planar_hessian(table: Any, wxyz: Any, position: Any, exact: Any, diagonal: Any, off: Any) -> None:
    """Write the blocks of the Hessian (``exact``) or of the Gauss–Newton matrix.

    ``diagonal`` (n, 3, 3); ``off`` (m, 3, 3) has for each edge of ``table``, in its order, the block (i, j).
    """
    width = table.edge.shape[1]
    isotropic, robust = width < FULL_WIDTH, width != ISO_WIDTH and width != FULL_WIDTH
    Hi, Hj, Hij, gi, gj = np.empty((3, 3)), np.empty((3, 3)), np.empty((3, 3)), np.empty(3), np.empty(3)
    edge = table.edge
    diagonal[:] = 0.0
    for j in range(wxyz.shape[0]):
        aw, az, x, y = wxyz[j, 0], wxyz[j, 3], position[j, 0], position[j, 1]
        c, s = aw * aw - az * az, 2.0 * aw * az  # R_j
        for e in range(table.start[j], table.start[j + 1]):
            i = table.source[e]
            bw, bz = wxyz[i, 0], wxyz[i, 3]
            # residual quaternion q_ij ⊗ ā_i ⊗ a_j
            w, z = aw * bw + az * bz, az * bw - aw * bz
            w, n = edge[e, 0] * w - edge[e, 3] * z, edge[e, 0] * z + edge[e, 3] * w
            u0, u1, b0, b1 = 0.0, 0.0, 0.0, 0.0
            lam = edge[e, 7]
            P00, P01, P11 = edge[e, 8], 0.0, edge[e, 8]
            D0, D1 = position[i, 0] - x, position[i, 1] - y
            if not isotropic:
                lam, P00, P01, P11 = edge[e, 12], edge[e, 13], edge[e, 14], edge[e, 16]
                b0, b1 = edge[e, 21], edge[e, 24]
                ci, si = bw * bw - bz * bz, 2.0 * bw * bz
                m0, m1 = ci * edge[e, 28] - si * edge[e, 29], si * edge[e, 28] + ci * edge[e, 29]
                D0, D1 = D0 + m0, D1 + m1
                u0, u1 = c * m0 + s * m1, c * m1 - s * m0  # μ
            y0, y1 = c * D0 + s * D1, c * D1 - s * D0
            first, second = w * w - n * n, -2.0 * w * n
            r0, r1 = edge[e, 4] - b0 * second - y0, edge[e, 5] - b1 * second - y1
            h0, h1 = P00 * r0 + P01 * r1, P01 * r0 + P11 * r1
            vj0, vj1 = b0 * first - y1, b1 * first + y0
            vi0, vi1 = u1 - b0 * first, -u0 - b1 * first
            fj0, fj1 = P00 * vj0 + P01 * vj1, P01 * vj0 + P11 * vj1
            fi0, fi1 = P00 * vi0 + P01 * vi1, P01 * vi0 + P11 * vi1
            k = 0.5 * lam * w * w
            Hi[0, 0] = vi0 * fi0 + vi1 * fi1
            Hj[0, 0] = vj0 * fj0 + vj1 * fj1
            Hij[0, 0] = vi0 * fj0 + vi1 * fj1
            if exact:
                k -= 0.5 * lam * n * n
                bend = (h0 * b0 + h1 * b1) * second
                along = h0 * u0 + h1 * u1
                Hi[0, 0] += bend + along
                Hj[0, 0] += bend + h0 * y0 + h1 * y1
                Hij[0, 0] -= bend + along
                fj0, fj1 = fj0 - h1, fj1 + h0  # P v_j + J h
            Hi[0, 0] += k
            Hj[0, 0] += k
            Hij[0, 0] -= k
            wi0, wi1 = c * fi0 - s * fi1, s * fi0 + c * fi1
            wj0, wj1 = c * fj0 - s * fj1, s * fj0 + c * fj1
            Hi[0, 1] = Hi[1, 0] = -wi0
            Hi[0, 2] = Hi[2, 0] = -wi1
            Hj[0, 1] = Hj[1, 0] = wj0
            Hj[0, 2] = Hj[2, 0] = wj1
            Hij[0, 1], Hij[0, 2] = wi0, wi1  # ω_i, p_j
            Hij[1, 0], Hij[2, 0] = -wj0, -wj1  # p_i, ω_j
            Q00, Q01 = c * P00 - s * P01, c * P01 - s * P11
            Q10, Q11 = s * P00 + c * P01, s * P01 + c * P11
            W00, W01, W11 = c * Q00 - s * Q01, s * Q00 + c * Q01, s * Q10 + c * Q11
            Hi[1, 1] = Hj[1, 1] = W00
            Hi[1, 2] = Hi[2, 1] = Hj[1, 2] = Hj[2, 1] = W01
            Hi[2, 2] = Hj[2, 2] = W11
            Hij[1, 1], Hij[1, 2], Hij[2, 1], Hij[2, 2] = -W00, -W01, -W01, -W11
            if robust:
                last = width - ROBUST_WIDTH
                energy = lam * n * n + 0.5 * (r0 * h0 + r1 * h1)
                _, slope, curve = robust_edge(
                    energy, edge[e, last], edge[e, last + 1], edge[e, last + 2], edge[e, last + 3]
                )
                if not exact:
                    curve = 0.0
                turn = lam * n * w
                gj[0], gi[0] = turn + h0 * vj0 + h1 * vj1, h0 * vi0 + h1 * vi1 - turn
                gj[1], gj[2] = c * h0 - s * h1, s * h0 + c * h1
                gi[1], gi[2] = -gj[1], -gj[2]
                for a in range(3):
                    for b in range(3):
                        Hi[a, b] = slope * Hi[a, b] + curve * gi[a] * gi[b]
                        Hj[a, b] = slope * Hj[a, b] + curve * gj[a] * gj[b]
                        Hij[a, b] = slope * Hij[a, b] + curve * gi[a] * gj[b]
            for a in range(3):
                for b in range(3):
                    diagonal[j, a, b] += Hj[a, b]
                    diagonal[i, a, b] += Hi[a, b]
                    off[e, a, b] = Hij[a, b]
