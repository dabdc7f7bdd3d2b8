"""Logs of 3DMatch and of Choi et al.: blocks of five lines, a header and a 4×4 matrix.

::

    i  j  n
    r11 r12 r13 t1
    r21 r22 r23 t2
    r31 r32 r33 t3
    0   0   0   1

In a log of pairs (``3dmatch.log``, ``gt.log``) the matrix is ``i_from_j``: ``x_i = R x_j + t``; the block becomes the
tempose edge with source j, target i and this measurement as it stands. The third number (of fragments) is not used. The
file holds no precisions: ``sigma_rot_deg`` and ``sigma_trans`` are required, ``λ = 2/σ²`` and ``τ = 1/σ²``.

A log whose headers all have ``i = j`` is a trajectory: the matrix is ``world_from_node``.

Rotations within 1e-3 of orthonormal are replaced by the nearest rotation; others are refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempose.errors import GraphError, OptionError, ParseError
from tempose.geometry import quaternion as quat
from tempose.graph import PoseGraph
from tempose.io._text import (
    NumberReader,
    PathLike,
    Rows,
    content_lines,
    integer_ids,
    number_text,
    plural,
    read_text,
    write_text,
)
from tempose.io.options import ReadOptions
from tempose.poses import Poses

Array = NDArray[np.float64]

FORMAT = "3dmatch"


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a log of pairs; see the module for the equations."""
    options = options or ReadOptions()
    notices: list[str] = []
    header, wxyz, t = _read(path, notices)
    ends = header.ids[:, :2]
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if len(loops) == len(ends):
        raise ParseError(path, None, "holds absolute poses (i = j in every block), not pairs; read it as poses")
    if len(loops):
        k = int(loops[0])
        raise ParseError(path, int(header.line[k]), f"the edge joins node {ends[k, 0]} to itself; remove it")
    concentration, precision = options.default_concentration, options.default_precision
    if concentration is None or precision is None:
        raise OptionError(
            f"{path}: 3DMatch logs hold no precisions; give the standard deviations of a measured rotation "
            "(sigma_rot_deg, degrees) and of a measured translation (sigma_trans, in the file's unit)"
        )
    ids, rows = np.unique(ends, return_inverse=True)
    rows = rows.reshape(ends.shape)
    return PoseGraph(
        tuple(ids.tolist()),
        rows[:, 1],
        rows[:, 0],
        wxyz,
        t,
        np.asarray(concentration),
        np.asarray(precision),
        notices=tuple(notices),
        origin={
            "file": Path(path).name,
            "format": FORMAT,
            "rotation_information": "none in the file",
            "precision": "isotropic",
            "sigma_rot_deg": repr(options.sigma_rot_deg),
            "sigma_trans": repr(options.sigma_trans),
        },
    )


def read_poses(path: PathLike) -> Poses:
    """Read a trajectory log (``i = j`` in every block)."""
    header, wxyz, t = _read(path, [])
    ends = header.ids[:, :2]
    pairs = np.flatnonzero(ends[:, 0] != ends[:, 1])
    if len(pairs):
        raise ParseError(path, int(header.line[pairs[0]]), "holds relative poses (i ≠ j); read it as a graph")
    first: dict[int, int] = {}
    for name, line in zip(ends[:, 0].tolist(), header.line.tolist(), strict=True):
        if first.setdefault(name, line) != line:
            raise ParseError(path, line, f"node {name} has a pose in line {first[name]} already; keep one of the two")
    return Poses(tuple(first), wxyz, t)


def _read(path: PathLike, notices: list[str]) -> tuple[Rows, Array, Array]:
    """Headers (k), rotations (k, 4) and translations (k, 3)."""
    numbers = NumberReader(path)
    lines = content_lines(read_text(path))
    if not lines:
        raise ParseError(path, None, "is empty; expected lines i j n, each followed by a 4×4 matrix")
    split = [(number, text.split()) for number, text in lines]
    heads, bodies = split[::5], [row for k, row in enumerate(split) if k % 5]
    header = numbers.rows([n for n, _ in heads], [f for _, f in heads], ["i", "j", "n"], 3, "the header of a block")
    columns = [f"matrix column {k}" for k in range(1, 5)]
    body = numbers.rows([n for n, _ in bodies], [f for _, f in bodies], columns, 0, "a row of a 4×4 matrix")
    if len(split) % 5:
        raise ParseError(path, split[-1][0], "the file ends within a block of i j n and four rows of numbers")
    numbers.finish(notices)
    matrix = body.values.reshape(-1, 4, 4)
    bad = np.flatnonzero(np.any(np.abs(matrix[:, 3] - [0, 0, 0, 1]) > 1e-6, axis=1))
    if len(bad):
        raise ParseError(path, int(body.line[4 * bad[0] + 3]), "the last row of the matrix is not 0 0 0 1")
    return header, _rotations(path, header, matrix[:, :3, :3], notices), matrix[:, :3, 3]


def _rotations(path: PathLike, header: Rows, R: Array, notices: list[str]) -> Array:
    bounded = np.clip(R, -2.0, 2.0)  # squares of anything larger could overflow, and are no rotation either way
    off = np.max(np.abs(np.swapaxes(bounded, 1, 2) @ bounded - np.eye(3)), axis=(1, 2))
    bad = np.flatnonzero((off > 1e-3) | (np.linalg.det(bounded) < 0.0))
    if len(bad):
        k = int(bad[0])
        what = "mirrors space" if off[k] <= 1e-3 else f"is off by {off[k]:.2g} in RᵀR"
        raise ParseError(path, int(header.line[k]), f"the 3×3 matrix is no rotation (within 0.001): it {what}")
    mended = off > 1e-6
    if mended.any():
        count = plural(int(mended.sum()), "rotation matrix", "rotation matrices")
        notices.append(f"{count} made orthonormal, off by up to {off.max():.1e}")
    u, _, vt = np.linalg.svd(bounded)
    return quat.from_matrix(u @ vt)


def write_graph(path: PathLike, graph: PoseGraph) -> None:
    """Write the measurements as a log of pairs. The format has no place for precisions, names or vertices."""
    if not graph.has_translation.all():
        raise GraphError("the graph has rotation-only edges, which 3DMatch logs cannot hold; write .csv or .g2o")
    ids = integer_ids(graph.node_ids, "3DMatch")
    ends = zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)
    heads = [f"{ids[j]}\t{ids[i]}\t{graph.n_nodes}" for i, j in ends]
    _write(path, heads, graph.j_from_i_wxyz, graph.j_from_i_t)


def write_poses(path: PathLike, poses: Poses) -> None:
    """Write poses as a trajectory log, ``i i n`` in the headers."""
    ids = integer_ids(poses.ids, "3DMatch")
    _write(path, [f"{k}\t{k}\t{len(ids)}" for k in ids], poses.wxyz, poses.position)


def _write(path: PathLike, heads: list[str], wxyz: Array, t: Array) -> None:
    rows = np.concatenate([quat.to_matrix(quat.normalize(wxyz)), t[:, :, None]], axis=2).tolist()
    blocks = [
        "\n".join([head, *("\t".join(map(number_text, row)) for row in matrix), "0\t0\t0\t1"])
        for head, matrix in zip(heads, rows, strict=True)
    ]
    write_text(path, "\n".join(blocks) + "\n")
