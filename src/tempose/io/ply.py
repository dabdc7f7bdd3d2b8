"""Point clouds as PLY: one element ``vertex`` with any scalar properties, binary little-endian.

Meshlab, CloudCompare, Open3D and COLMAP read ``x y z`` and ``red green blue``; CloudCompare offers every further
property (``sigma`` …) as a scalar field to colour and filter by.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.files import write_atomically
from tempose._typing import PathLike
from tempose.errors import GraphError, ParseError

_NAMES = {"u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "f4": "float", "f8": "double"}
_CODES = {name: code for code, name in _NAMES.items()} | {
    "uint8": "u1",
    "int32": "i4",
    "float32": "f4",
    "float64": "f8",
}
_MAX_HEADER = 100_000


def write_ply(path: PathLike, columns: Mapping[str, NDArray[Any]], comments: tuple[str, ...] = ()) -> None:
    """Write points, whole or not at all.

    Parameters
    ----------
    path
        The file.
    columns
        Properties by name, each (p,): at least ``x``, ``y``, ``z``. Bytes, 32-bit integers and floats keep their type;
        wider integers become 32-bit.
    comments
        Lines for the header, such as units and the gauge.
    """
    if not {"x", "y", "z"} <= columns.keys():
        raise GraphError("a point cloud needs the columns x, y and z")
    arrays = {name: _storable(np.asarray(values)) for name, values in columns.items()}
    sizes = {a.shape for a in arrays.values()}
    if len(sizes) != 1 or len(next(iter(sizes))) != 1:
        raise GraphError(f"the columns of a point cloud must have one length, not {sorted(map(str, sizes))}")
    count = len(next(iter(arrays.values())))
    table = np.empty(count, dtype=[(name, a.dtype) for name, a in arrays.items()])
    for name, a in arrays.items():
        table[name] = a
    header = ["ply", "format binary_little_endian 1.0"]
    header += [f"comment {line}" for comment in comments for line in comment.splitlines()]
    header += [f"element vertex {count}"]
    header += [f"property {_NAMES[a.dtype.str[1:]]} {name}" for name, a in arrays.items()]
    write_atomically(path, "\n".join([*header, "end_header", ""]).encode() + table.tobytes())


def _storable(values: NDArray[Any]) -> NDArray[Any]:
    if values.dtype.kind == "b":
        values = values.astype("u1")
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        values = values.astype("<i4")
    return values.astype(values.dtype.newbyteorder("<"))


def read_ply(path: PathLike) -> dict[str, NDArray[Any]]:
    """Properties of the vertices by name, from binary little-endian or ASCII files without lists in the vertex."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ParseError(path, None, f"cannot be read: {error.strerror}") from None
    end = data.find(b"end_header", 0, _MAX_HEADER)
    if not data.startswith(b"ply") or end < 0:
        raise ParseError(path, 1, "is not a PLY file: expected 'ply' in the first line and 'end_header' later")
    start = data.find(b"\n", end) + 1 or len(data)
    kind, count, fields = _header(path, data[:end].decode("ascii", "replace").splitlines())
    body = data[start:]
    if kind == "ascii":
        return _ascii(path, body, count, fields)
    dtype = np.dtype(fields)
    if len(body) < count * dtype.itemsize:
        raise ParseError(
            path, None, f"is cut off: {count} vertices need {count * dtype.itemsize} bytes, {len(body)} are there"
        )
    table = np.frombuffer(body, dtype, count)
    return {name: table[name].copy() for name, _ in fields}


def _header(path: PathLike, lines: list[str]) -> tuple[str, int, list[tuple[str, str]]]:
    kind, count, element = "", 0, ""
    fields: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        match words:
            case ["format", ("ascii" | "binary_little_endian") as kind, *_]:
                pass
            case ["format", other, *_]:
                raise ParseError(path, number, f"format {other} is not read; expected ascii or binary_little_endian")
            case ["element", element, size]:
                if not fields and element != "vertex":
                    raise ParseError(path, number, f"element {element} comes before the vertices; put vertices first")
                if element == "vertex":
                    if not (size.isascii() and size.isdigit() and len(size) < 16):
                        raise ParseError(path, number, f"the number of vertices is {size[:40]!r}; expected a count")
                    count = int(size)
            case ["property", type_name, name] if element == "vertex":
                if type_name not in _CODES:
                    raise ParseError(path, number, f"property type {type_name} is not read")
                if any(name == other for other, _ in fields):
                    raise ParseError(path, number, f"the property {name[:40]} occurs twice")
                fields.append((name, "<" + _CODES[type_name]))
            case ["property", "list", *_] if element == "vertex":
                raise ParseError(path, number, "vertices with lists are not read")
    if not kind or not fields:
        raise ParseError(path, None, "the PLY header names no format or no vertex properties")
    return kind, count, fields


def _ascii(path: PathLike, body: bytes, count: int, fields: list[tuple[str, str]]) -> dict[str, NDArray[Any]]:
    rows = body.decode("ascii", "replace").splitlines()[:count]
    try:
        values = np.array([[float(w) for w in row.split()[: len(fields)]] for row in rows], float)
        if len(rows) != count:
            raise ValueError("too few rows")
        values = values.reshape(count, len(fields))
    except ValueError:
        raise ParseError(path, None, f"expected {count} rows of {len(fields)} numbers after the header") from None
    for k, (name, code) in enumerate(fields):
        if code[1] != "f" and not np.all(np.abs(values[:, k]) < 2.0**32):
            raise ParseError(path, None, f"the property {name[:40]} is of whole numbers, and a value is none")
    with np.errstate(over="ignore"):  # to infinity, as a number that a float does not hold
        return {name: values[:, k].astype(np.int64).astype(code) if code[1] != "f" else values[:, k].astype(code)
                for k, (name, code) in enumerate(fields)}  # fmt: skip
