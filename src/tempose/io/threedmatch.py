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

The folder of a scene of the 3DMatch benchmark is read through its files: ``3dmatch.log`` is the graph; the true poses
are those that chain the true pairs of ``gt.log``, which must agree with each other. Fragments that the true pairs do not
join to the others have no known pose: the largest connected part is read, the first of its nodes at the origin.

Rotations within 1e-3 of orthonormal are replaced by the nearest rotation; others are refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose._typing import Array, PathLike
from tempose.errors import GraphError, OptionError, ParseError
from tempose.geometry import quaternion as quat
from tempose.geometry import se3
from tempose.io._text import (
    NumberReader,
    Rows,
    content_lines,
    integer_ids,
    number_text,
    read_text,
    rotation_matrices,
    write_text,
)
from tempose.io.options import ReadOptions
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.model.residuals import residuals

FORMAT = "3dmatch"
MEASURED, TRUE = "3dmatch.log", "gt.log"  # in the folder of a scene
_TRUE_PAIRS_AGREE_DEG, _TRUE_PAIRS_AGREE = 0.1, 0.01  # degrees, and the unit of the file (metres)


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read a log of pairs, or the one of a scene's folder; see the module for the equations."""
    options = options or ReadOptions()
    path = Path(path) / MEASURED if Path(path).is_dir() else path
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
        measures="a_from_b",
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
    """Read a trajectory log (``i = j`` in every block), or the true poses of a scene's folder."""
    if Path(path).is_dir():
        return _true_poses(Path(path) / TRUE)
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


def _true_poses(path: Path) -> Poses:
    """Poses that chain the true pairs, of the largest connected part; its first node is at the origin."""
    pairs = read_graph(path, ReadOptions(sigma_rot_deg=1.0, sigma_trans=1.0))
    part = pairs.subgraph(np.flatnonzero(pairs.component == np.bincount(pairs.component).argmax()))
    tree = part.spanning_tree()
    wxyz, position = np.tile(quat.IDENTITY, (part.n_nodes, 1)), np.zeros((part.n_nodes, 3))
    for node in tree.order[1:]:
        parent = tree.parent[node]
        parent_from_node = part.measured(*(np.array([k]) for k in (node, parent, tree.edge[node])))
        (wxyz[node],), (position[node],) = se3.compose((wxyz[parent], position[parent]), parent_from_node)
    poses = Poses(part.node_ids, quat.normalize(wxyz), position)
    left = residuals(part, poses)
    angle_deg, distance = np.degrees(left.angle), np.linalg.norm(left.translation, axis=1)
    k = int(np.argmax(np.maximum(angle_deg / _TRUE_PAIRS_AGREE_DEG, distance / _TRUE_PAIRS_AGREE)))
    if angle_deg[k] > _TRUE_PAIRS_AGREE_DEG or distance[k] > _TRUE_PAIRS_AGREE:
        i, j = part.node_ids[part.edge_j[k]], part.node_ids[part.edge_i[k]]
        why = f"the pair {i} {j} disagrees with the others by {angle_deg[k]:.3g}° and {distance[k]:.3g}"
        raise ParseError(path, None, f"{why}; pairs that contradict each other give no true poses")
    return poses


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
    return header, rotation_matrices(path, header.line, matrix[:, :3, :3], notices), matrix[:, :3, 3]


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
