"""Writing files whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypeGuard

from tempose._support.locks import hold, is_held, locked
from tempose.errors import FileError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of the disk, of a quota, of a limit on the size of a file
_BLOCK = 4096  # bytes: what a directory or an empty file takes
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{8}\.tmp")


def write_atomically(path: str | Path, data: bytes) -> None:
    """Replace a file so that a reader, or a crash, sees the old or the new content and nothing between.

    A temporary file next to it, made durable, then one rename; links stay links, and devices and pipes are written to. What
    an earlier run was writing there when it was killed is cleared.
    """
    _replace(path, lambda file: file.write(data), len(data))


def copy_atomically(source: Path, path: str | Path) -> None:
    """The same with the content of another file, which may be larger than memory."""
    with open(source, "rb") as original:
        _replace(path, lambda file: shutil.copyfileobj(original, file, 1 << 20), os.fstat(original.fileno()).st_size)


def _replace(path: str | Path, write: Callable[[IO[bytes]], object], size: int) -> None:
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file() and not target.is_dir():  # /dev/stdout, a pipe
            with open(target, "wb") as file:
                write(file)
            return
        clear_leftovers(target.parent, target.name)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            with open(temporary, "xb") as file:
                hold(file.fileno())  # until it is closed: nobody takes it for one that was left behind
                write(file)
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise cannot_write(path, error, size) from None


def clear_leftovers(directory: Path, name: str | None = None) -> None:
    """Remove temporary files of writers that were killed: all of a directory, or those of one file in it."""
    if not directory.is_dir():
        return
    with os.scandir(directory) as entries:
        found = [entry.path for entry in entries if entry.name.endswith(".tmp")]
    for path in map(Path, found):
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and name in (None, match[1]) and not is_held(path):
            path.unlink(missing_ok=True)


def append_durably(file: IO[bytes], data: bytes, path: str | Path) -> None:
    """Add to the end of an unbuffered file, all of it or, if that fails, nothing."""
    before = os.fstat(file.fileno()).st_size
    try:
        view = memoryview(data)
        while len(view):
            view = view[file.write(view) :]
        os.fsync(file.fileno())
    except OSError as error:
        file.truncate(before)
        raise cannot_write(path, error, len(data)) from None


def cannot_write(path: str | Path, error: Exception, size: int) -> FileError:
    """The error to raise; ``size`` bytes are what had to be written."""
    if not is_full(error):
        return FileError(f"{shown(path)}: cannot be written: {reason(error)}")
    if error.errno == errno.EFBIG:
        why = f"a file of {bytes_text(size)} is larger than this process may write (ulimit -f)"
    elif error.errno == errno.EDQUOT:
        why = f"your quota on this disk is used up, and {bytes_text(size)} are needed"
    else:
        why = f"the disk is full: {bytes_text(size)} are needed, {_free(path)} are free"
    return FileError(f"{shown(path)}: cannot be written: {why}; make room, and the same command goes on from here")


def is_full(error: Exception) -> TypeGuard[OSError]:
    """Whether there was no room."""
    return isinstance(error, OSError) and error.errno in _FULL


def _free(path: str | Path) -> str:
    try:
        return bytes_text(shutil.disk_usage(Path(path).absolute().parent).free)
    except OSError:
        return "an unknown number"


def bytes_text(size: float) -> str:
    """A number of bytes for people."""
    units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"]
    while size >= 1000 and len(units) > 1:
        size = size / 1000
        del units[0]
    return f"{size:.3g} {units[0]}"


def make_directory(path: str | Path) -> Path:
    """Make a directory, with those above it, unless it is there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        if is_full(error):
            raise cannot_write(path, error, _BLOCK) from None
        raise FileError(f"{shown(path)}: cannot be a directory to write to: {reason(error)}") from None
    return Path(path)


@contextmanager
def at_work_in(directory: str | Path) -> Iterator[Path]:
    """Within, a directory is this run's alone: made if it is not there, locked, and cleared of what a killed run left behind."""
    home = make_directory(directory)
    with ExitStack() as held:
        try:
            held.enter_context(locked(home))
        except OSError as error:
            raise cannot_write(home, error, _BLOCK) from None
        for place in (home, home / "draws", home / "colmap"):
            clear_leftovers(place)
        yield home


def shown(path: str | Path) -> str:
    """A path as it may be printed."""
    return os.fspath(path).replace("\0", "\\0")


def reason(error: Exception) -> str:
    """What the operating system said, in words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
