"""Planar graphs from the numbers in g2o files, without the package's own reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose.model.graph import PoseGraph


def planar_graph(path: Path, full: bool) -> PoseGraph:
    """The edges of a planar g2o file, with one λ and one τ each or with all of their information.

    ``EDGE_SE2 a b x y θ`` is the pose of b seen from a, so that a is our j and b our i. g2o's error, in b's frame, is minus ours.
    """
    rows = np.array([line.split()[1:] for line in path.open() if line.startswith("EDGE_SE2 ")], dtype=float)
    ids, ends = np.unique(rows[:, :2].astype(int), return_inverse=True)
    ends = ends.reshape(-1, 2)
    m, half = len(rows), 0.5 * rows[:, 4]
    xx, xy, xt, yy, yt, tt = rows[:, 5:11].T
    block = np.array([[xx, xy], [xy, yy]]).transpose(2, 0, 1)
    cross = np.stack([xt, yt], axis=1)
    concentration, precision, coupling = 2.0 * tt, 2.0 / np.trace(np.linalg.inv(block), axis1=1, axis2=2), None
    if full:
        R = np.array([[np.cos(2 * half), -np.sin(2 * half)], [np.sin(2 * half), np.cos(2 * half)]]).transpose(2, 0, 1)
        b = np.linalg.solve(block, cross[:, :, None])[:, :, 0]
        concentration = 2.0 * (tt - np.sum(cross * b, axis=1))
        precision = np.zeros((m, 3, 3))
        precision[:, :2, :2] = R @ block @ np.swapaxes(R, 1, 2)
        precision = 0.5 * (precision + np.swapaxes(precision, 1, 2))
        coupling = np.zeros((m, 3, 3))
        coupling[:, :2, 2] = np.einsum("mab,mb->ma", R, b)
    zero = np.zeros(m)
    return PoseGraph(
        tuple(ids.tolist()),
        ends[:, 1],
        ends[:, 0],
        np.stack([np.cos(half), zero, zero, np.sin(half)], axis=1),
        np.column_stack([rows[:, 2:4], zero]),
        concentration,
        precision,
        dimension=2,
        coupling=coupling,
    )
