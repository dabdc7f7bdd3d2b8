"""Writing files whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tempose.errors import FileError


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
        raise FileError(f"{shown(path)}: cannot be written: {reason(error)}") from None


def make_directory(path: str | Path) -> Path:
    """Make a directory, with those above it, unless it is there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise FileError(f"{shown(path)}: cannot be a directory to write to: {reason(error)}") from None
    return Path(path)


def shown(path: str | Path) -> str:
    """A path as it may be printed."""
    return os.fspath(path).replace("\0", "\\0")


def reason(error: Exception) -> str:
    """What the operating system said, in words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
