"""Draws for other programs: ArviZ objects of either generation, and netCDF files.

No export is needed for plain numpy: :attr:`Draws.arrays <tempose.sampling.draws.Draws.arrays>` are read-only memory maps
(draws, n, 7) of files ``chain-00.f64``, …, that hold nothing but little-endian float64 (world_from_node ``wxyz``, then
position), so ``np.memmap(path, "<f8").reshape(-1, n, 7)`` reads them without this package.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.packages import require
from tempose._typing import Array
from tempose.analysis.summary import tangent
from tempose.errors import ArgumentError, DrawsError, FileError
from tempose.geometry import quaternion as quat
from tempose.model.gauge import Gauge
from tempose.model.graph import WORLD
from tempose.model.poses import Poses
from tempose.sampling.draws import Draws


def to_arviz(draws: Draws, reference: Poses | None = None, gauge: Gauge | None = None) -> Any:
    """Draws as ArviZ wants them: a ``DataTree`` (arviz-base, ArviZ 1.x), else an ``InferenceData`` (ArviZ 0.x).

    The group ``posterior`` has, by chain, draw and node,

    * with a reference and a gauge: ``rotation`` (world-frame rotation vector about the reference, radians) and
      ``position`` (in the gauge): the coordinates to run ArviZ's diagnostics and plots on;
    * without: ``wxyz`` (world_from_node, of the sign with the first component positive) and ``position``, as drawn, each
      draw in its own frame.

    ``sample_stats`` has U as ``energy``, and ``lp`` = −βU. Chains are cut to the shortest. Everything is copied to memory.

    Raises
    ------
    MissingPackage
        If ArviZ is not installed.
    DrawsError
        If there are no draws.
    """
    if (reference is None) != (gauge is None):
        raise ArgumentError("give both a reference and a gauge, or neither")
    length = min((len(a) for a in draws.arrays), default=0)
    if length == 0:
        raise DrawsError("there are no draws to export")
    ids = [name for name in draws.ids if name != WORLD]
    posterior = _raw(draws, length) if reference is None or gauge is None else _aligned(draws, length, reference, gauge)
    energy = np.stack([np.asarray(e[:length]) for e in draws.energies])
    groups = {"posterior": posterior, "sample_stats": {"energy": energy, "lp": -draws.beta * energy}}
    coords: dict[str, Any] = {
        "node": ids if len({type(name) for name in ids}) == 1 else [str(name) for name in ids],
        "axis": ["x", "y", "z"],
        "quaternion": ["w", "x", "y", "z"],
    }
    dims = {"rotation": ["node", "axis"], "position": ["node", "axis"], "wxyz": ["node", "quaternion"]}
    used = {name: dims[name] for name in posterior}
    coords = {k: v for k, v in coords.items() if any(k in d for d in used.values())}
    frame = "each draw in its own frame" if gauge is None else str(gauge)
    attributes: dict[str, Any] = {"inference_library": "tempose", "beta": draws.beta, "gauge": frame}
    return _build(groups, coords, used, attributes)


def to_netcdf(path: str | Path, draws: Draws, reference: Poses | None = None, gauge: Gauge | None = None) -> Path:
    """Write :func:`to_arviz` to a netCDF file, which ArviZ, xarray, R and Julia read; returns the path."""
    data = to_arviz(draws, reference, gauge)
    for name in ("h5netcdf", "h5py"):
        require(name, "netCDF files")
    try:
        data.to_netcdf(str(path), engine="h5netcdf")
    except OSError as error:
        raise FileError(f"cannot write {path}: {error.strerror or error}") from None
    return Path(path)


def _raw(draws: Draws, length: int) -> dict[str, Array]:
    stacked = np.stack([np.asarray(a[:length]) for a in draws.arrays])
    stacked = stacked[:, :, [name != WORLD for name in draws.ids]]
    return {"wxyz": quat.canonical(stacked[..., :4]), "position": stacked[..., 4:]}


def _aligned(draws: Draws, length: int, reference: Poses, gauge: Gauge) -> dict[str, Array]:
    rotation = np.empty((draws.n_chains, length, len(reference), 3))
    position = np.empty_like(rotation)
    for c, array in enumerate(draws.arrays):
        for k in range(length):
            wxyz, p = gauge.align(np.asarray(array[k, :, :4]), np.asarray(array[k, :, 4:]), reference)
            rotation[c, k], position[c, k] = tangent(wxyz, p, reference)[:, :3], p
    shown = [name != WORLD for name in draws.ids]
    return {"rotation": rotation[:, :, shown], "position": position[:, :, shown] + gauge.graph.world_origin}


def _build(
    groups: dict[str, dict[str, Array]], coords: dict[str, Any], dims: dict[str, list[str]], attributes: dict[str, Any]
) -> Any:
    try:
        base = importlib.import_module("arviz_base")
    except ImportError:
        base = require("arviz", "ArviZ objects")
        if int(base.__version__.split(".")[0]) < 1:
            data = base.from_dict(**groups, coords=coords, dims=dims)
            for group in groups:
                data[group].attrs.update(attributes)
            return data
    return base.from_dict(groups, coords=coords, dims=dims, attrs={name: attributes for name in groups})
