"""Covariances of poses as a table or as arrays, in a named convention (:mod:`tempose.model.conventions`).

**CSV**: comments say the convention, what uncertainty refers to and where it comes from; then a row per node, or per pair::

    # convention gtsam: right perturbation …
    # gauge …
    id, x, y, z, qw, qx, qy, qz, cov_rx_rx, cov_rx_ry, …            (the upper triangle, by rows)
    a, b, x, y, z, qw, qx, qy, qz, cov_rx_rx, …

The pose is ``world_from_node``, of a pair ``a_from_b``, whatever the convention. Cells of what is not known or does not exist (the
orientation of a landmark) are empty.

**NPZ**: ``ids`` (n,) or ``pairs`` (n, 2), text as in CSV files; ``position`` (n, 3), ``wxyz`` (n, 4), ``covariance`` (n, d, d),
NaN for what is not known; ``axes`` (d,), ``convention``, ``gauge``, ``source``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.files import reason, write_atomically
from tempose._support.sealed import arrays_of
from tempose._support.tables import csv_text
from tempose._typing import Array, NodeId, PathLike
from tempose.errors import DrawsError, FileError, ParseError
from tempose.io._text import write_text
from tempose.io.csvfile.tables import name_text, read_name
from tempose.model.conventions import CONVENTIONS
from tempose.model.poses import POSE_COLUMNS

_SAVED = ("position", "wxyz", "covariance", "axes", "convention", "gauge", "source")


@dataclass(frozen=True, eq=False)
class CovarianceTable:
    """Poses and their covariances, of nodes or of pairs of nodes.

    Attributes
    ----------
    names
        A tuple of one id per row, or of two: a and b of ``a_from_b``.
    position, wxyz
        The poses (n, 3), (n, 4).
    covariance
        (n, d, d); NaN for what is not known.
    axes, convention
        Of the covariances (:mod:`tempose.model.conventions`).
    gauge, source
        What they refer to, and whether they come from draws or from the Gaussian approximation.
    """

    names: tuple[tuple[NodeId, ...], ...]
    position: Array
    wxyz: Array
    covariance: Array
    axes: tuple[str, ...]
    convention: str
    gauge: str
    source: str


def write_covariances(path: PathLike, table: CovarianceTable) -> None:
    """Write a table as ``.csv`` (also ``.csv.gz``) or ``.npz``."""
    name = str(path).lower()
    if name.endswith(".npz"):
        names = np.array([[name_text(one) for one in row] for row in table.names])
        key = "ids" if names.shape[1:] in ((1,), ()) else "pairs"
        arrays = {key: names[:, 0] if key == "ids" and len(names) else names}
        arrays.update({one: np.asarray(getattr(table, one)) for one in _SAVED})
        buffer = BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        write_atomically(path, buffer.getvalue())
    elif name.endswith((".csv", ".csv.gz")):
        write_text(path, _text(table))
    else:
        raise FileError(f"{path}: covariances are written as .csv or .npz")


def _text(table: CovarianceTable) -> str:
    upper = np.triu_indices(len(table.axes))
    columns = [f"cov_{table.axes[a]}_{table.axes[b]}" for a, b in zip(*upper, strict=True)]
    keys = ["a", "b"] if any(len(row) == 2 for row in table.names) else ["id"]
    names = [[name_text(row[k]) for row in table.names] for k in range(len(keys))]
    values = [_cells(column) for column in (*table.position.T, *table.wxyz.T, *table.covariance[:, *upper].T)]
    comments = [
        f"# convention {table.convention}: {CONVENTIONS[table.convention]}",
        f"# gauge {table.gauge}",
        f"# from {table.source}",
    ]
    return "\n".join([*comments, csv_text([*keys, *POSE_COLUMNS, *columns], [*names, *values])])


def _cells(column: Array) -> Sequence[float | None]:
    return [None if np.isnan(x) else x for x in column.tolist()]


def read_covariances(path: PathLike) -> CovarianceTable:
    """Read what :func:`write_covariances` wrote as ``.npz``, to the bit."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ParseError(path, None, "there is no such file") from None
    except OSError as error:
        raise ParseError(path, None, f"cannot be read: {reason(error)}") from None
    try:
        arrays = arrays_of(data, Path(path), "")
    except DrawsError:
        raise ParseError(path, None, "is damaged, or no .npz file of covariances") from None
    missing = [name for name in _SAVED if name not in arrays]
    key = next((name for name in ("ids", "pairs") if name in arrays), None)
    if missing or key is None:
        raise ParseError(path, None, f"is no .npz file of covariances: there is no array {(missing or ['ids'])[0]!r}")
    _check(path, arrays, arrays[key])
    rows = arrays[key].reshape(len(arrays[key]), -1)
    names = tuple(tuple(read_name(path, 0, str(cell), key) for cell in row) for row in rows)
    return CovarianceTable(
        names,
        arrays["position"],
        arrays["wxyz"],
        arrays["covariance"],
        tuple(map(str, arrays["axes"])),
        *(str(arrays[name]) for name in ("convention", "gauge", "source")),
    )


def _check(path: PathLike, arrays: Mapping[str, NDArray[Any]], keys: NDArray[Any]) -> None:
    """Raise unless arrays have the shapes and types of a table."""
    n, d = len(keys) if keys.ndim else 0, arrays["axes"].size
    texts = {"axes": (d,), "convention": (), "gauge": (), "source": ()}
    numbers = {"position": (n, 3), "wxyz": (n, 4), "covariance": (n, d, d)}
    right = keys.dtype.kind == "U" and keys.shape in ((n,), (n, 2))
    right = right and all(arrays[k].dtype.kind == "U" and arrays[k].shape == shape for k, shape in texts.items())
    right = right and all(arrays[k].dtype == np.float64 and arrays[k].shape == shape for k, shape in numbers.items())
    if not right or str(arrays["convention"]) not in CONVENTIONS:
        raise ParseError(path, None, "is no .npz file of covariances: its arrays have other shapes or types")
