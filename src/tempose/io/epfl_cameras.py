"""Ground truth of the EPFL multi-view sets: one ``IMAGE.camera`` file per image.

Nine numbers of K, three zeros, nine of R, three of C, width and height. R is world_from_node (camera to world) and C the
camera's position in the world.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose._typing import PathLike
from tempose.errors import ParseError
from tempose.geometry import quaternion as quat
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
        try:
            numbers = [float(word) for word in file.read_text().split()]
        except (OSError, ValueError):
            raise ParseError(file, None, "expected the numbers of K, R, C and the image size") from None
        if len(numbers) != _NUMBERS:
            raise ParseError(
                file, None, f"expected {_NUMBERS} numbers (K, 0 0 0, R, C, width, height), not {len(numbers)}"
            )
        rotation.append(np.array(numbers[12:21]).reshape(3, 3))
        position.append(numbers[21:24])
    wxyz = quat.from_matrix(np.array(rotation))
    return Poses(tuple(file.name.removesuffix(".camera") for file in files), wxyz, np.array(position))
