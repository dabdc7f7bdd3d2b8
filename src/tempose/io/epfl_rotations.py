"""Rotations of the EPFL scenes, as published with Birdal, Arbel, Şimşekli & Guibas (CVPR 2020): three files per scene.

::

    SCENE_Edges.txt   i,j             one line per measured pair, ids from 1
    SCENE_Qrel.txt    qw,qx,qy,qz     its rotation, same line
    SCENE_Qabs.txt    qw,qx,qy,qz     true rotation of node 1, 2, …

``Qabs`` is ``world_from_node`` and ``Qrel ≈ Qabs_i⁻¹ Qabs_j = i_from_j``; a line becomes the rotation-only tempose edge
with source j, target i and this measurement as it stands. The files list every pair in both directions. Where the second
is the inverse of the first to rounding it is no measurement of its own: it is left out, counted and told. There are no
precisions: ``sigma_rot_deg`` is required, ``λ = 2/σ²``. There are no positions either: those of the true poses are zero.

A path names a scene by any of its three files, by their common beginning (``…/CastleP19``), or by a folder that holds one
scene only.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose._support.words import plural
from tempose._typing import Array, Mask, NodeId, PathLike
from tempose.errors import GraphError, OptionError, ParseError
from tempose.geometry import quaternion as quat
from tempose.io._text import (
    NumberReader,
    Rows,
    content_lines,
    integer_ids,
    number_text,
    read_text,
    unit_quaternions,
    write_text,
)
from tempose.io.options import ReadOptions
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

FORMAT = "epfl-rotations"
EDGES, RELATIVE, ABSOLUTE = ENDINGS = ("_Edges.txt", "_Qrel.txt", "_Qabs.txt")
_Q = ["qw", "qx", "qy", "qz"]


def scene_of(path: PathLike) -> str | None:
    """The common beginning of a scene's files, if ``path`` names one; refuses a folder of several scenes."""
    name = str(path)
    for ending in ENDINGS:
        if name.lower().endswith(ending.lower()):
            return name[: -len(ending)]
    if Path(path).is_dir():
        scenes = sorted(str(file).removesuffix(EDGES) for file in Path(path).glob(f"*{EDGES}"))
        if len(scenes) > 1:
            names = ", ".join(Path(scene).name for scene in scenes)
            raise ParseError(path, None, f"holds several scenes; name one of {names}, as in {scenes[0]}")
        return scenes[0] if scenes else None
    return name if Path(name + EDGES).exists() else None


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read the measured rotations of a scene; see the module for the equations."""
    options = options or ReadOptions()
    scene = _scene(path)
    notices: list[str] = []
    pairs = _table(scene + EDGES, ["i", "j"], 2)
    lines = _table(scene + RELATIVE, _Q, 0)
    if len(pairs) != len(lines):
        why = f"has {plural(len(lines), 'rotation')} for {plural(len(pairs), 'pair')} in {Path(scene + EDGES).name}"
        raise ParseError(scene + RELATIVE, None, f"{why}; expected one line each")
    if options.default_concentration is None:
        raise OptionError(
            f"{scene + RELATIVE}: the files hold no precisions; give the standard deviation of a measured rotation "
            "(sigma_rot_deg, degrees)"
        )
    loops = np.flatnonzero(pairs.ids[:, 0] == pairs.ids[:, 1])
    if len(loops):
        k = int(loops[0])
        name = pairs.ids[k, 0]
        raise ParseError(scene + EDGES, int(pairs.line[k]), f"the edge joins node {name} to itself; remove it")
    wxyz = unit_quaternions(scene + RELATIVE, lines.line, lines.values, "edges", notices)
    keep = _first_directions(pairs.ids.tolist(), wxyz)
    if not keep.all():
        left_out = plural(int(np.sum(~keep)), "line")
        notices.append(f"{left_out} repeat a pair in the other direction, with the same rotation; left out")
    ids, rows = np.unique(pairs.ids, return_inverse=True)
    rows = rows.reshape(-1, 2)[keep]
    return PoseGraph(
        tuple(ids.tolist()),
        rows[:, 1],
        rows[:, 0],
        wxyz[keep],
        np.full((len(rows), 3), np.nan),
        np.asarray(options.default_concentration),
        np.asarray(1.0),
        notices=tuple(notices),
        measures="a_from_b",
        origin={
            "file": Path(scene + EDGES).name,
            "format": FORMAT,
            "rotation_information": "none in the file",
            "precision": "isotropic",
            "sigma_rot_deg": repr(options.sigma_rot_deg),
        },
    )


def read_poses(path: PathLike) -> Poses:
    """Read the true rotations of a scene, ids from 1; all positions are zero."""
    file = _scene(path) + ABSOLUTE
    rows = _table(file, _Q, 0)
    wxyz = unit_quaternions(file, rows.line, rows.values, "nodes", [])
    return Poses(tuple(range(1, len(rows) + 1)), wxyz, np.zeros((len(rows), 3)))


def write_graph(path: PathLike, graph: PoseGraph) -> None:
    """Write the measured rotations, every pair in both directions. The format has no place for precisions."""
    if graph.has_translation.any():
        raise GraphError("the graph has translations, which EPFL rotation files cannot hold; write .csv or .g2o")
    ids = _ids_from_one(graph.node_ids)
    ends = [(ids[j], ids[i]) for i, j in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)]
    both = [*ends, *((j, i) for i, j in ends)]
    scene = _scene_to_write(path)
    write_text(scene + EDGES, "".join(f"{i},{j}\n" for i, j in both))
    _write_quaternions(
        scene + RELATIVE, np.concatenate([graph.j_from_i_wxyz, quat.conjugate(graph.j_from_i_wxyz)], axis=0)
    )


def write_poses(path: PathLike, poses: Poses) -> None:
    """Write the rotations of nodes 1, 2, …; the format has no place for positions."""
    ids = _ids_from_one(poses.ids)
    if sorted(ids) != list(range(1, len(ids) + 1)):
        raise GraphError("EPFL rotation files hold nodes 1, 2, … without gaps; write .csv")
    _write_quaternions(_scene_to_write(path) + ABSOLUTE, poses.wxyz[np.argsort(ids)])


def _scene(path: PathLike) -> str:
    scene = scene_of(path)
    if scene is None:
        raise ParseError(path, None, f"is no scene of EPFL rotations: there is no file {Path(path).name}{EDGES}")
    return scene


def _scene_to_write(path: PathLike) -> str:
    name = str(path)
    return next((name[: -len(e)] for e in ENDINGS if name.lower().endswith(e.lower())), name)


def _table(path: PathLike, names: list[str], n_ids: int) -> Rows:
    lines = content_lines(read_text(path))
    if not lines:
        raise ParseError(path, None, f"is empty; expected lines of {','.join(names)}")
    fields = [[field.strip() for field in text.split(",")] for _, text in lines]
    return NumberReader(path).rows([number for number, _ in lines], fields, names, n_ids, "a line")


def _first_directions(pairs: list[list[int]], wxyz: Array) -> Mask:
    """Which lines (k,) are not the exact inverse of an earlier line."""
    keep = np.ones(len(pairs), dtype=bool)
    seen: dict[tuple[int, int], list[int]] = {}
    for k, (i, j) in enumerate(pairs):
        partner = next(
            (e for e in seen.get((j, i), []) if quat.angle_between(wxyz[k], quat.conjugate(wxyz[e])) < 1e-9), None
        )
        if partner is None:
            seen.setdefault((i, j), []).append(k)
        else:
            seen[j, i].remove(partner)
            keep[k] = False
    return keep


def _ids_from_one(names: tuple[NodeId, ...]) -> list[int]:
    ids = integer_ids(names, "EPFL rotation")
    low = min(ids, default=1)
    if low < 1:
        raise GraphError(f"node {low}: EPFL rotation files count nodes from 1; write .csv")
    return ids


def _write_quaternions(path: PathLike, wxyz: Array) -> None:
    write_text(path, "".join(",".join(map(number_text, row)) + "\n" for row in wxyz.tolist()))
