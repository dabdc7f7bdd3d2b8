"""Point clouds as LAS 1.4 and LAZ, with σ along x, y and z: what CloudCompare's M3C2-PM asks for.

Coordinates are whole multiples of a scale that the file names; it is chosen so that rounding stays below a hundredth of the
smallest σ. Further columns (``sigma_x`` …) are extra dimensions, which CloudCompare and PDAL show as scalar fields. Needs laspy,
and lazrs for LAZ.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.files import write_atomically
from tempose._support.packages import require
from tempose._typing import PathLike
from tempose.errors import FileError, GraphError

_COLOURS = ("red", "green", "blue")
_FINEST, _COARSEST = 1e-9, 1e-3
_STEPS = 2**31 - 2  # that a coordinate may be away from the offset


def write_las(path: PathLike, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write points, whole or not at all; packed if the name ends with ``.laz``.

    Parameters
    ----------
    path
        The file, ``.las`` or ``.laz``.
    columns
        By name, each (p,): at least ``x``, ``y``, ``z``; ``red``, ``green``, ``blue`` as bytes; all else is an extra dimension.
    """
    laspy = require("laspy", "LAS and LAZ files")
    packed = str(path).lower().endswith(".laz")
    if packed:
        require("lazrs", "LAZ files")
    if not {"x", "y", "z"} <= columns.keys():
        raise GraphError("a point cloud needs the columns x, y and z")
    xyz = np.column_stack([np.asarray(columns[name], np.float64) for name in "xyz"])
    if not np.all(np.isfinite(xyz)):
        raise FileError(f"{path}: points without a position cannot be written; leave them out")
    header = laspy.LasHeader(point_format=7, version="1.4")
    header.offsets = np.floor(xyz.min(axis=0)) if len(xyz) else np.zeros(3)
    header.scales = np.full(3, _scale(columns, xyz))
    extra = {name: np.asarray(v) for name, v in columns.items() if name not in (*"xyz", *_COLOURS)}
    for name, values in extra.items():
        header.add_extra_dim(laspy.ExtraBytesParams(name=name, type=_kind(values)))
    data = laspy.LasData(header)
    data.x, data.y, data.z = xyz.T
    for name in _COLOURS:
        if name in columns:
            data[name] = np.asarray(columns[name], np.uint16) * 257  # bytes to 16 bits
    for name, values in extra.items():
        data[name] = values.astype(_kind(values))
    buffer = BytesIO()
    data.write(buffer, do_compress=packed)
    write_atomically(path, buffer.getvalue())


def _kind(values: NDArray[Any]) -> Any:
    return (
        np.dtype("f4") if values.dtype.kind == "f" else np.dtype("u1") if values.dtype.itemsize == 1 else np.dtype("i4")
    )


def _scale(columns: Mapping[str, NDArray[Any]], xyz: NDArray[np.float64]) -> float:
    """A power of ten: a hundredth of the smallest σ, and large enough for 32 bits to reach all points."""
    sigmas = [np.asarray(columns[name], float) for name in ("sigma_x", "sigma_y", "sigma_z") if name in columns]
    least = min((float(np.min(s[np.isfinite(s) & (s > 0.0)], initial=np.inf)) for s in sigmas), default=np.inf)
    wanted = 10.0 ** np.floor(np.log10(min(max(0.01 * least, _FINEST), _COARSEST)))
    reach = float(np.max(xyz.max(axis=0) - np.floor(xyz.min(axis=0)), initial=0.0)) if len(xyz) else 0.0
    needed = 10.0 ** np.ceil(np.log10(reach / _STEPS)) if reach > 0.0 else 0.0
    return float(max(wanted, needed))
