"""1DSfM data sets (Wilson & Snavely, ECCV 2014): a folder of text files. Read only.

::

    EGs.txt     i j  r11 r12 r13 r21 r22 r23 r31 r32 r33  t1 t2 t3     one epipolar geometry per line
    list.txt    name [0 focal]                                         image of node 0, 1, …

``R ≈ R_i R_jᵀ = i_from_j`` with ``R_i`` the rotation ``node_from_world``; the line becomes the rotation-only tempose edge
with source j, target i and this measurement as it stands. ``t`` is the direction in which camera i sees camera j. Its
length is unknown, so it is not used, and told. There are no precisions: ``sigma_rot_deg`` is required, ``λ = 2/σ²``.

**Truth**, a MATLAB file in the same folder, as published by Kasten et al. (ICCV 2019): for camera k its image
``namesList{k}``, ``R_gt{k}`` and its centre ``T_gt{k}``. The rotation goes from a camera frame whose y and z axes are
flipped: ``world_from_node = R_gt diag(1, −1, −1)``. Cameras are matched with ``list.txt`` by name.

A path is the folder or one of these files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tempose._typing import Array, PathLike
from tempose.errors import OptionError, ParseError
from tempose.io._text import NumberReader, content_lines, read_text, rotation_matrices
from tempose.io.matlab import read_variables
from tempose.io.options import ReadOptions
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses

FORMAT = "1dsfm"
EDGES, NAMES = "EGs.txt", "list.txt"
_COLUMNS = ["i", "j", *(f"r{a}{b}" for a in "123" for b in "123"), "t1", "t2", "t3"]
_TRUTH = ("namesList", "R_gt", "T_gt")
_FLIP = np.diag([1.0, -1.0, -1.0])


def read_graph(path: PathLike, options: ReadOptions | None = None) -> PoseGraph:
    """Read the rotations of the epipolar geometries; see the module for the equations."""
    options = options or ReadOptions()
    file = _folder(path) / EDGES
    notices: list[str] = []
    numbers = NumberReader(file)
    lines = content_lines(read_text(file))
    if not lines:
        raise ParseError(file, None, "is empty; expected lines of " + " ".join(_COLUMNS))
    rows = numbers.rows([n for n, _ in lines], [text.split() for _, text in lines], _COLUMNS, 2, "a line")
    numbers.finish(notices)
    loops = np.flatnonzero(rows.ids[:, 0] == rows.ids[:, 1])
    if len(loops):
        k = int(loops[0])
        raise ParseError(file, int(rows.line[k]), f"the edge joins node {rows.ids[k, 0]} to itself; remove it")
    if options.default_concentration is None:
        raise OptionError(
            f"{file}: 1DSfM files hold no precisions; give the standard deviation of a measured rotation "
            "(sigma_rot_deg, degrees)"
        )
    wxyz = rotation_matrices(file, rows.line, rows.values[:, :9].reshape(-1, 3, 3), notices)
    notices.append("the file gives directions of translations, not lengths; only the rotations are used")
    ids, ends = np.unique(rows.ids, return_inverse=True)
    ends = ends.reshape(-1, 2)
    return PoseGraph(
        tuple(ids.tolist()),
        ends[:, 1],
        ends[:, 0],
        wxyz,
        np.full((len(rows), 3), np.nan),
        np.asarray(options.default_concentration),
        np.asarray(1.0),
        notices=tuple(notices),
        measures="a_from_b",
        origin={
            "file": EDGES,
            "format": FORMAT,
            "rotation_information": "none in the file",
            "precision": "isotropic",
            "sigma_rot_deg": repr(options.sigma_rot_deg),
        },
    )


def read_poses(path: PathLike) -> Poses:
    """Read the true poses of the cameras that have one, named by their line (from 0) in ``list.txt``."""
    file = _truth_file(path)
    truth = _cells(file)
    node = _nodes_by_image(file.parent / NAMES)
    ids: dict[int, int] = {}
    for k, image in enumerate(map(str, truth["namesList"])):
        if image not in node:
            raise ParseError(file, None, f"image {image!r} is not in {NAMES}; the two do not belong together")
        if ids.setdefault(node[image], k) != k:
            raise ParseError(file, None, f"image {image!r} occurs twice")
    rotation = np.stack([_numbers(file, cell, (3, 3), "R_gt") for cell in truth["R_gt"]])
    position = np.stack([_numbers(file, cell, (3,), "T_gt") for cell in truth["T_gt"]])
    if not len(ids) == len(rotation) == len(position):
        counts = f"{len(ids)}, {len(rotation)} and {len(position)}"
        raise ParseError(file, None, f"{', '.join(_TRUTH)} have {counts} entries; expected as many of each")
    wxyz = rotation_matrices(file, np.zeros(len(ids), dtype=np.int64), rotation @ _FLIP, [])
    return Poses(tuple(ids), wxyz, position)


def _folder(path: PathLike) -> Path:
    return Path(path) if Path(path).is_dir() else Path(path).parent


def _truth_file(path: PathLike) -> Path:
    if Path(path).suffix.lower() == ".mat":
        return Path(path)
    folder = _folder(path)
    found = sorted(folder.glob("*.mat"))
    if len(found) != 1:
        which = (
            "no .mat file" if not found else "several .mat files (" + ", ".join(f.name for f in found) + "); name one"
        )
        raise ParseError(
            folder, None, f"true poses are read from a .mat file with {', '.join(_TRUTH)}: there is {which}"
        )
    return found[0]


def _nodes_by_image(path: Path) -> dict[str, int]:
    """Node (line from 0) of each image in ``list.txt``."""
    node: dict[str, int] = {}
    for k, line in enumerate(read_text(path).rstrip("\n").split("\n")):
        name = line.split()[0] if line.strip() else ""
        if node.setdefault(name, k) != k:
            raise ParseError(path, k + 1, f"image {name!r} is in line {node[name] + 1} already")
    return node


def _cells(path: Path) -> dict[str, list[Any]]:
    """The cell arrays of the truth as lists."""
    content = read_variables(path, _TRUTH)
    missing = [name for name in _TRUTH if name not in content]
    if missing:
        raise ParseError(path, None, f"has no variable {missing[0]}; expected {', '.join(_TRUTH)}")
    for name in _TRUTH:
        if not isinstance(content[name], np.ndarray) or content[name].dtype != object:
            raise ParseError(path, None, f"{name} is not a cell array")
    return {name: [np.squeeze(cell)[()] for cell in content[name].ravel()] for name in _TRUTH}


def _numbers(path: Path, cell: Any, shape: tuple[int, ...], name: str) -> Array:
    value = np.asarray(cell)
    if value.shape != shape or value.dtype.kind not in "fiu" or not np.all(np.isfinite(value)):
        raise ParseError(path, None, f"an entry of {name} is not {'×'.join(map(str, shape))} finite numbers")
    return value.astype(np.float64)
