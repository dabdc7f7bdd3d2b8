"""Ground truth of the EPFL multi-view sets: one ``IMAGE.camera`` file per image.

Nine numbers of K, three zeros, nine of R, three of C, width and height. R is world_from_node (camera to world) and C the
camera's position in the world. R within 0.001 of orthonormal is replaced by the nearest rotation; others are refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose._typing import Array, PathLike
from tempose.errors import ParseError
from tempose.io._text import NumberReader, read_text, rotation_matrices
from tempose.model.poses import Poses

_NUMBERS = 26


def is_folder(path: PathLike) -> bool:
    """Whether a folder holds ``.camera`` files."""
    return any(Path(path).glob("*.camera"))


def read_epfl_cameras(folder: PathLike) -> Poses:
    """Poses of all cameras of a folder; ids are the image names."""
    folder = Path(folder)
    files = sorted(folder.glob("*.camera"))
    if not files:
        raise ParseError(folder, None, "there are no .camera files here")
    rotation, position = [], []
    for file in files:
        numbers = _numbers(file)
        rotation.append(rotation_matrices(file, np.zeros(1, np.int64), numbers[12:21].reshape(1, 3, 3), [])[0])
        position.append(numbers[21:24])
    return Poses(tuple(file.name.removesuffix(".camera") for file in files), np.array(rotation), np.array(position))


def _numbers(file: Path) -> Array:
    words = [(number, line.split()) for number, line in enumerate(read_text(file).split("\n"), 1)]
    count = sum(len(row) for _, row in words)
    if count != _NUMBERS:
        raise ParseError(file, None, f"expected {_NUMBERS} numbers (K, 0 0 0, R, C, width, height), not {count}")
    reader = NumberReader(file)
    rows = [reader.rows([number], [row], ["a number"] * len(row), 0).values[0] for number, row in words if row]
    reader.finish([])
    return np.concatenate(rows)
