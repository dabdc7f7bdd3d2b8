"""Locks on files and directories that end with the process that holds them, however it ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tempose.errors import FileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
_held: dict[tuple[str, int], int] = {}  # by directory and thread: how often
_guard = threading.Lock()


@contextmanager
def locked(directory: str | Path) -> Iterator[None]:
    """Within, no other run writes to a directory, which must be there; the thread that has it may take it again.

    The lock is on a hidden file, which goes when the lock does. A process that is killed leaves the file, not the lock. File
    systems without locks, and Windows, have none.

    Raises
    ------
    FileError
        If another run has it.
    OSError
        If no file can be made there.
    """
    key = os.path.realpath(directory), threading.get_ident()
    with _guard:
        _held[key] = _held.get(key, 0) + 1
        first = _held[key] == 1
    handle = None
    try:
        if first:
            handle = _take(Path(key[0]), directory)
        yield
    finally:
        if handle is not None:
            with suppress(OSError):  # while it is held: whoever opened it before sees that it is gone
                (Path(key[0]) / NAME).unlink()
            os.close(handle)
        with _guard:
            _held[key] -= 1
            if not _held[key]:
                del _held[key]


def _take(home: Path, said: str | Path) -> int | None:
    path = home / NAME
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        if not hold(handle):
            owner = os.read(handle, 32).decode("ascii", "replace").strip()
            os.close(handle)
            who = f"another run of tempose (process {owner})" if owner.isdigit() else "another run of tempose"
            raise FileError(f"{said}: {who} is writing here; wait until it ends, or give another directory to -o")
        try:
            same = os.path.samestat(os.fstat(handle), os.stat(path))
        except FileNotFoundError:
            same = False
        if same:
            break
        os.close(handle)  # its owner ended, and took it away, between opening and locking
    with suppress(OSError):  # on a full disk the lock holds, only the message for others is poorer
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
    return handle


def hold(handle: int) -> bool:
    """Lock an open file until it is closed, if nobody else has; true where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def is_held(path: Path) -> bool:
    """Whether somebody has a file locked."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return not path.exists() or not os.access(path, os.W_OK)
    try:
        return not hold(handle)
    finally:
        os.close(handle)
