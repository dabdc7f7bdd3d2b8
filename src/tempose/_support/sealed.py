"""Files that this package reads back: records and arrays that say whether they are still what was written."""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tempose._support.files import reason, shown
from tempose._support.plain import json_text, plain
from tempose.errors import DrawsError

SEAL = "checksum"
"""The field of a record that is about all the others."""
_CHUNK = 1 << 20


def checksum(data: bytes) -> str:
    """Of the content of a file."""
    return hashlib.sha256(data).hexdigest()[:16]


def sealed_text(record: Mapping[str, Any], indent: int | None = 2) -> str:
    """A record as JSON text, with its own checksum."""
    bare = {name: value for name, value in plain(record).items() if name != SEAL}
    return json_text({**bare, SEAL: _seal(bare)}, indent)


def read_sealed(path: Path, what: str, remedy: str) -> dict[str, Any]:
    """The record that :func:`sealed_text` wrote to a file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DrawsError
        If it is not ``what`` it should be, or not what was written; the message ends with the ``remedy``.
    """
    try:
        record = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DrawsError(f"{shown(path)}: cannot be read: {reason(error)}") from None
    except (ValueError, RecursionError):
        raise DrawsError(f"{shown(path)}: is cut off, or not {what}; {remedy}") from None
    if not isinstance(record, dict) or SEAL not in record:
        raise DrawsError(f"{shown(path)}: is not {what} of this version of tempose; {remedy}")
    if not is_genuine(record):
        raise DrawsError(f"{shown(path)}: has changed since it was written (its checksum does not fit); {remedy}")
    return {name: value for name, value in record.items() if name != SEAL}


def is_genuine(record: Mapping[str, Any]) -> bool:
    """Whether a record is what its checksum says."""
    return record.get(SEAL) == _seal({name: value for name, value in record.items() if name != SEAL})


def _seal(record: Mapping[str, Any]) -> str:
    return checksum(json.dumps(record, sort_keys=True).encode())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# ---------------------------------------------------------------------- arrays


def array_bytes(arrays: Mapping[str, Any]) -> bytes:
    """The content of an ``.npz`` file; each array has a checksum of its own in there."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def arrays_of(data: bytes, path: Path, remedy: str) -> dict[str, NDArray[Any]]:
    """The arrays of the content of an ``.npz`` file, none of them of Python's objects."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("something else among the arrays")
        return arrays
    except Exception:  # a damaged file raises whatever zipfile, zlib or numpy happens to stumble on
        raise DrawsError(f"{shown(path)}: is damaged, or not a file of arrays; {remedy}") from None


def array_of(data: bytes, path: Path, remedy: str) -> NDArray[Any]:
    """The array of the content of an ``.npy`` file, not one of Python's objects."""
    try:
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False)
    except Exception:
        raise DrawsError(f"{shown(path)}: is damaged, or not an array; {remedy}") from None
    return array


# ---------------------------------------------------------------------- long files


def running_checksum(data: bytes, before: int = 0) -> int:
    """CRC-32 of a file that grew by ``data``, from the one of what was there ``before``."""
    return zlib.crc32(data, before)


def file_checksum(path: Path, size: int) -> int | None:
    """:func:`running_checksum` of the first bytes of a file; ``None`` if it is shorter."""
    total, left = 0, size
    with open(path, "rb") as file:
        while left:
            block = file.read(min(_CHUNK, left))
            if not block:
                return None
            total = zlib.crc32(block, total)
            left -= len(block)
    return total
