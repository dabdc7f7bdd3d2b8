"""Draws seen from a gauge, some nodes at a time: what summaries and diagnostics begin with.

Where there are many draws of many nodes this is compiled; where there are few, compiling would take longer than the work.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tempose._support.parallel import on_threads
from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.poses import Poses

COMPILED = 5_000_000
"""Numbers, six a node and draw, from which on compiled code is used."""
_ROWS = 1 << 17  # poses that are looked at together: draws times nodes


class AlignedDraws:
    """Draws of several chains, each moved so that it agrees with a reference in a gauge.

    Parameters
    ----------
    arrays
        Per chain (draws, n, 7): world_from_node ``wxyz`` and position.
    reference, gauge
        What they are to agree with, and in what.
    """

    def __init__(self, arrays: Sequence[Array], reference: Poses, gauge: Gauge) -> None:
        self.arrays = [_read_only(array) for array in arrays if len(array)]
        self.reference, self.graph = reference, gauge.graph
        self.n_draws = sum(map(len, self.arrays))
        self.is_compiled = 6 * len(reference) * self.n_draws >= COMPILED
        if self.is_compiled:
            self._find_motions(gauge)
        else:
            found = [gauge.align(array[..., :4], array[..., 4:], reference) for array in self.arrays]
            self._wxyz, self._position = (np.concatenate(part) for part in zip(*found, strict=True))

    def _find_motions(self, gauge: Gauge) -> None:
        """Turns (draws, c, 4) and offsets (draws, parts, 3) that take each draw to the gauge, per chain."""
        step = max(1, _ROWS // max(len(self.reference), 1))

        def motions(piece: tuple[int, int]) -> tuple[Array, Array, Array]:
            poses = self.arrays[piece[0]][piece[1] : piece[1] + step]
            return gauge.motions(poses[..., :4], poses[..., 4:], self.reference)

        pieces = [(c, low) for c, array in enumerate(self.arrays) for low in range(0, len(array), step)]
        found = list(on_threads(motions, pieces))
        self._center, self._turns = gauge.middle(self.reference.position), ~self.graph.is_landmark
        self._motions = []
        for chain in range(len(self.arrays)):
            own = [one for one, (c, _) in zip(found, pieces, strict=True) if c == chain]
            self._motions.append(
                (np.concatenate([turn for turn, _, _ in own]), np.concatenate([move for _, _, move in own]))
            )

    def poses(self, rows: slice) -> Array:
        """Of some nodes (rows, draws, 7), chain after chain, for compiled code."""
        from tempose.analysis._kernels import align_rows

        graph = self.graph
        out = np.empty((rows.stop - rows.start, self.n_draws, 7))
        begin = 0
        for array, (turn, offset) in zip(self.arrays, self._motions, strict=True):
            align_rows(
                array, rows.start, turn, self._center, offset, graph.component, graph.position_component, self._turns,
                begin, out,
            )  # fmt: skip
            begin += len(array)
        return out

    def tangents(self, rows: slice) -> Array:
        """World-frame coordinates (rows, 6, draws) of some nodes about the reference, chain after chain."""
        wxyz, position = self.reference.wxyz[rows].copy(), self.reference.position[rows].copy()
        if not self.is_compiled:
            return np.ascontiguousarray(
                tangent(self._wxyz[:, rows], self._position[:, rows], wxyz, position).transpose(1, 2, 0)
            )
        from tempose.analysis._kernels import tangents

        poses = self.poses(rows)
        out = np.empty((len(poses), 6, poses.shape[1]))
        tangents(poses, wxyz, position, out)
        return out

    def moments(self, rows: slice) -> tuple[Array, Array, Array]:
        """Mean poses of some nodes, (rows, 4) and (rows, 3), and the sums (rows, 6, 6) of squares of coordinates about them."""
        wxyz, position = self.reference.wxyz[rows].copy(), self.reference.position[rows].copy()
        if not self.is_compiled:
            poses = self._wxyz[:, rows], self._position[:, rows]
            for _ in range(2):  # the mean in the tangent space at the reference, then at that mean
                step = tangent(*poses, wxyz, position).mean(axis=0)
                wxyz = quat.normalize(quat.multiply(quat.exp(step[:, :3]), wxyz))
                position = position + step[:, 3:]
            x = tangent(*poses, wxyz, position)
            return wxyz, position, np.einsum("kna,knb->nab", x, x)
        from tempose.analysis._kernels import moments

        scatter = np.empty((len(wxyz), 6, 6))
        moments(self.poses(rows), wxyz, position, scatter)
        return wxyz, position, scatter


def tangent(wxyz: Array, position: Array, at_wxyz: Array, at_position: Array) -> Array:
    """World-frame coordinates (..., n, 6) of poses about others, (n, 4) and (n, 3)."""
    omega = quat.log(quat.multiply(wxyz, quat.conjugate(at_wxyz)))
    return np.concatenate([omega, position - at_position], axis=-1)


def _read_only(array: Array) -> Array:
    """The same, of one type for compiled code whether it is on disk or in memory."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
