"""MATLAB files (level 5, as ``save`` writes them but for ``-v7.3``): arrays of numbers, text, and cells of both.

Read here, byte by byte and with every length checked, because native readers of this format can be made to crash.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._typing import PathLike
from tempose.errors import ParseError

_HEADER = 128
_MATRIX, _COMPRESSED, _INT8, _UTF8, _INT32, _UINT32 = 14, 15, 1, 16, 5, 6
_STORED = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8", 16: "u1", 17: "u2", 18: "u4",
}  # fmt: skip
_CELL, _CHAR = 1, 4
_NUMERIC = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_LARGEST = 1 << 30  # bytes of a variable, unpacked
_DEEPEST = 8


def read_variables(path: PathLike, names: Collection[str]) -> dict[str, Any]:
    """The named variables of a file, those that it has: arrays, ``str``, or arrays of Python's objects for cells."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ParseError(path, None, "there is no such file") from None
    except OSError as error:
        raise ParseError(path, None, f"cannot be read: {error.strerror}") from None
    try:
        return dict(_variables(data, names))
    except _Damaged as error:
        raise ParseError(path, None, f"is no MATLAB file that can be read: {error}") from None


class _Damaged(Exception):  # noqa: N818  (becomes a ParseError)
    """What is wrong with a file."""


def _variables(data: bytes, names: Collection[str]) -> Iterator[tuple[str, Any]]:
    if data.startswith(b"MATLAB 7.3"):
        raise _Damaged("it is of version 7.3; save it with -v7")
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None:
        raise _Damaged("it does not begin with the header of version 5 to 7")
    for kind, body in _elements(memoryview(data)[_HEADER:], order):
        if kind == _COMPRESSED:
            (kind, body), *_ = [*_elements(memoryview(_unpacked(body)), order), (0, body)]
        if kind != _MATRIX:
            continue
        parts = list(_elements(body, order, most=3))
        if len(parts) < 3:
            raise _Damaged("a variable has no name")
        name = bytes(parts[2][1]).decode("ascii", "replace")
        if name in names:
            yield name, _matrix(body, order, 0)


def _unpacked(body: memoryview) -> bytes:
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(body, _LARGEST)
    except zlib.error:
        raise _Damaged("a variable cannot be unpacked") from None
    if not reader.eof:
        raise _Damaged(
            "a variable is cut off" if not reader.unconsumed_tail else f"a variable is larger than {_LARGEST} bytes"
        )
    return data


def _elements(data: memoryview, order: str, most: int | None = None) -> Iterator[tuple[int, memoryview]]:
    """Type and content of each element, up to ``most``."""
    at, count = 0, 0
    while at < len(data) and (most is None or count < most):
        if at + 8 > len(data):
            raise _Damaged("it ends within an element")
        kind, size = (int(x) for x in np.frombuffer(data[at : at + 8], f"{order}u4"))
        if kind >> 16:  # a small element: type and size in one word, then the content
            kind, size, start, end = kind & 0xFFFF, kind >> 16, at + 4, at + 8
            if size > 4:
                raise _Damaged("an element of at most 4 bytes says that it has more")
        else:
            start = at + 8
            end = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(data):
            raise _Damaged("it ends within an element")
        yield kind, data[start : start + size]
        at, count = end, count + 1


def _matrix(body: memoryview, order: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise _Damaged(f"cells are within cells more than {_DEEPEST} deep")
    if not len(body):
        return np.empty((0, 0))
    parts = list(_elements(body, order))
    parts += [(0, body[:0])] * 4
    flags, shape, _, *rest = parts
    what, dims = _numbers(flags, order), _numbers(shape, order)
    if flags[0] != _UINT32 or len(what) != 2 or shape[0] != _INT32 or len(dims) < 2 or np.any(dims < 0):
        raise _Damaged("a variable says neither what it is nor how large")
    kind, size = int(what[0]) & 0xFF, tuple(int(n) for n in dims)
    count = math.prod(size)
    if kind == _CELL:
        cells = [content for element, content in rest if element == _MATRIX]
        if len(cells) != count:
            raise _Damaged(f"a cell array of {count} has {len(cells)} cells")
        out = np.empty(count, dtype=object)
        out[:] = [_matrix(cell, order, depth + 1) for cell in cells]
        return out.reshape(size, order="F")
    if kind == _CHAR:
        return _text(rest[0], count, order)
    if kind not in _NUMERIC or int(what[0]) & 0x0800:
        raise _Damaged("a variable is no array of real numbers, no text and no cells")
    values = _numbers(rest[0], order)
    if len(values) != count:
        raise _Damaged(f"an array of {count} numbers has {len(values)}")
    return values.astype(_NUMERIC[kind]).reshape(size, order="F")


def _numbers(element: tuple[int, memoryview], order: str) -> NDArray[Any]:
    kind, content = element
    stored = _STORED.get(kind)
    if stored is None:
        if not len(content):
            return np.empty(0)
        raise _Damaged(f"numbers are stored as type {kind}, which there is not")
    if len(content) % int(stored[1]):
        raise _Damaged("an array ends within a number")
    return np.frombuffer(content, order + stored)


def _text(element: tuple[int, memoryview], count: int, order: str) -> str:
    kind, content = element
    if kind in (_UTF8, _INT8, 2):
        text = bytes(content).decode("utf-8", "replace")
    else:
        text = "".join(map(chr, np.clip(_numbers(element, order), 0, 0xD7FF).astype(int).tolist()))
    if kind != _UTF8 and len(text) != count:
        raise _Damaged(f"a text of {count} characters has {len(text)}")
    return text
