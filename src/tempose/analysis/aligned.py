"""Draws seen from a gauge, some nodes at a time: what summaries and diagnostics begin with.

Where there are many draws of many nodes this is compiled; where there are few, compiling would take longer than the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from tempose._support.parallel import on_threads
from tempose._typing import Array
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.poses import Poses

COMPILED = 5_000_000
"""Numbers, six a node and draw, from which on compiled code is used."""
_ROWS = 1 << 17  # poses that are looked at together: draws times nodes
_READ = 16_000_000  # bytes of draws that a thread reads at a time, so that pages of a file are read once and not for every node


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
        graph = gauge.graph
        self.arrays = [np.asarray(array) for array in arrays if len(array)]
        self.n_draws = sum(map(len, self.arrays))
        self.is_compiled = 6 * len(reference) * self.n_draws >= COMPILED
        self.wxyz, self.position = reference.wxyz, reference.position
        if not self.is_compiled:
            found = [gauge.align(array[..., :4], array[..., 4:], reference) for array in self.arrays]
            self._there_wxyz, self._there = (np.concatenate(part) for part in zip(*found, strict=True))
            return
        self._center = gauge.middle(reference.position)
        self._component, self._part, self._turns = graph.component, graph.position_component, ~graph.is_landmark
        step = max(1, _ROWS // max(len(reference), 1))

        def motions(piece: tuple[int, int]) -> tuple[Array, Array]:
            poses = self.arrays[piece[0]][piece[1] : piece[1] + step]
            turn, _, offset = gauge.motions(poses[..., :4], poses[..., 4:], reference)
            return turn, offset

        pieces = [(c, low) for c, array in enumerate(self.arrays) for low in range(0, len(array), step)]
        # turns (draws, c, 4) and offsets (draws, parts, 3), chain after chain
        self._turn, self._offset = (np.concatenate(one) for one in zip(*on_threads(motions, pieces), strict=True))

    def parts(self, values: int) -> Iterator[list[slice]]:
        """The nodes in groups that are read together (:meth:`read`), each in blocks of about so many coordinates."""
        n, block = len(self.position), max(1, values // (6 * self.n_draws))
        together = max(block, _READ // (56 * self.n_draws))
        for low in range(0, n, together):
            high = min(low + together, n)
            yield [slice(k, min(k + block, high)) for k in range(low, high, block)]

    def read(self, rows: slice) -> AlignedDraws:
        """The draws of some nodes, in memory."""
        some = copy(self)
        for name in ("wxyz", "position", *(("_component", "_part", "_turns") if self.is_compiled else ())):
            setattr(some, name, getattr(self, name)[rows])
        if self.is_compiled:
            some.arrays = [np.array(array[:, rows]) for array in self.arrays]
        else:
            some._there_wxyz, some._there = self._there_wxyz[:, rows], self._there[:, rows]
        return some

    def poses(self, rows: slice) -> Array:
        """Of some nodes (rows, draws, 7), chain after chain, by compiled code."""
        from tempose.analysis._kernels import align_rows

        out = np.empty((rows.stop - rows.start, self.n_draws, 7))
        begin = 0
        for array in self.arrays:
            some = slice(begin, begin + len(array))
            align_rows(
                array, rows.start, self._turn[some], self._center, self._offset[some], self._component, self._part,
                self._turns, begin, out,
            )  # fmt: skip
            begin = some.stop
        return out

    def tangents(self, rows: slice) -> Array:
        """World-frame coordinates (rows, 6, draws) of some nodes about the reference, chain after chain."""
        wxyz, position = self.wxyz[rows].copy(), self.position[rows].copy()
        if not self.is_compiled:
            x = tangent(self._there_wxyz[:, rows], self._there[:, rows], wxyz, position)
            return np.ascontiguousarray(x.transpose(1, 2, 0))
        from tempose.analysis._kernels import tangents

        poses = self.poses(rows)
        out = np.empty((len(poses), 6, poses.shape[1]))
        tangents(poses, wxyz, position, out)
        return out

    def moments(self, rows: slice) -> tuple[Array, Array, Array]:
        """Mean poses of some nodes, (rows, 4) and (rows, 3), and the sums (rows, 6, 6) of squares of coordinates about them."""
        wxyz, position = self.wxyz[rows].copy(), self.position[rows].copy()
        if not self.is_compiled:
            poses = self._there_wxyz[:, rows], self._there[:, rows]
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


def within(rows: slice, group: list[slice]) -> slice:
    """Rows as they are counted in the group that was read."""
    return slice(rows.start - group[0].start, rows.stop - group[0].start)


def whole(group: list[slice]) -> slice:
    """All rows of a group."""
    return slice(group[0].start, group[-1].stop)


def tangent(wxyz: Array, position: Array, at_wxyz: Array, at_position: Array) -> Array:
    """World-frame coordinates (..., n, 6) of poses about others, (n, 4) and (n, 3)."""
    omega = quat.log(quat.multiply(wxyz, quat.conjugate(at_wxyz)))
    return np.concatenate([omega, position - at_position], axis=-1)
