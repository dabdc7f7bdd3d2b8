"""Writing files whole or not at all, and tables as text."""

from __future__ import annotations

import csv
import io
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tempose.errors import TemposeError


def write_atomically(path: str | Path, data: bytes) -> None:
    """Replace a file so that a reader, or a crash, sees the old or the new content and nothing between.

    A temporary file next to it, made durable, then one rename; links stay links, and devices and pipes are written to.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file() and not target.is_dir():  # /dev/stdout, a pipe
            target.write_bytes(data)
            return
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise TemposeError(f"{shown(path)}: cannot be written: {reason(error)}") from None


def shown(path: str | Path) -> str:
    """A path as it may be printed."""
    return os.fspath(path).replace("\0", "\\0")


def reason(error: Exception) -> str:
    """What the operating system said, in words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def csv_text(header: Sequence[str], columns: Sequence[Any]) -> str:
    """A table as comma-separated text; numbers with all their digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    plain = [np.asarray(c).tolist() if isinstance(c, np.ndarray) else c for c in columns]
    writer.writerows(zip(*plain, strict=True))
    return out.getvalue()
