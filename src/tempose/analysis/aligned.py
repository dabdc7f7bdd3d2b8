"""Draws seen from a gauge, some nodes at a time: what summaries and diagnostics begin with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tempose._support.parallel import on_threads
from tempose._typing import Array
from tempose.model.gauge import Gauge
from tempose.model.poses import Poses

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
        self.turns = ~gauge.graph.is_landmark
        step = max(1, _ROWS // max(len(reference), 1))

        def motions(piece: tuple[int, int]) -> tuple[Array, Array, Array]:
            poses = self.arrays[piece[0]][piece[1] : piece[1] + step]
            return gauge.motions(poses[..., :4], poses[..., 4:], reference)

        pieces = [(c, low) for c, array in enumerate(self.arrays) for low in range(0, len(array), step)]
        found = list(on_threads(motions, pieces))
        self.center = gauge.middle(reference.position)
        self.motions = [
            tuple(
                np.concatenate([one[k] for one, (c, _) in zip(found, pieces, strict=True) if c == chain])
                for k in (0, 2)
            )
            for chain in range(len(self.arrays))
        ]

    def poses(self, rows: slice) -> Array:
        """Of some nodes (rows, draws, 7), chain after chain."""
        from tempose.analysis._kernels import align_rows

        graph = self.graph
        out = np.empty((rows.stop - rows.start, sum(map(len, self.arrays)), 7))
        begin = 0
        for array, (turn, offset) in zip(self.arrays, self.motions, strict=True):
            align_rows(
                array,
                rows.start,
                turn,
                self.center,
                offset,
                graph.component,
                graph.position_component,
                self.turns,
                begin,
                out,
            )
            begin += len(array)
        return out

    def tangents(self, rows: slice) -> Array:
        """World-frame coordinates (rows, 6, draws) of some nodes about the reference, chain after chain."""
        from tempose.analysis._kernels import tangents

        poses = self.poses(rows)
        out = np.empty((len(poses), 6, poses.shape[1]))
        tangents(poses, self.reference.wxyz[rows].copy(), self.reference.position[rows].copy(), out)
        return out

    def moments(self, rows: slice) -> tuple[Array, Array, Array]:
        """Mean poses of some nodes, (rows, 4) and (rows, 3), and the sums (rows, 6, 6) of squares of coordinates about them."""
        from tempose.analysis._kernels import moments

        poses = self.poses(rows)
        wxyz, position = self.reference.wxyz[rows].copy(), self.reference.position[rows].copy()
        scatter = np.empty((len(poses), 6, 6))
        moments(poses, wxyz, position, scatter)
        return wxyz, position, scatter


def _read_only(array: Array) -> Array:
    """The same, of one type for compiled code whether it is on disk or in memory."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
