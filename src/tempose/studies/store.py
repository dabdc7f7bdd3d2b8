"""Finished cells of a run, kept one by one, so that a run that is stopped goes on where it was."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

from tempose._support.files import append_durably, cannot_write, reason, shown, write_atomically
from tempose._support.plain import plain
from tempose._support.sealed import checksum
from tempose.errors import FileError

Cell = dict[str, Any]
"""One independent piece of work, plain enough for JSON: settings, usually a ``method`` and a ``seed``."""
Row = dict[str, Any]
"""One line of numbers; ``None`` where there is none."""


class Store:
    """The finished cells of one run in ``cells.jsonl``: what the run is on the first line, then a line per cell.

    Each line ends with its checksum, so that one that was changed is noticed.

    Parameters
    ----------
    home
        Directory of the run; ``None`` keeps the cells in memory only.
    name
        Of the experiment.
    options
        What its cells have in common. A directory of other options, or of another version, is refused.
    """

    def __init__(self, home: str | Path | None, name: str, options: Cell) -> None:
        self.home = None if home is None else Path(home)
        self.finished: dict[str, list[Row]] = {}
        if self.home is not None:
            self._open(self.home, plain({"experiment": name, **options, "tempose": metadata.version("tempose")}))

    def _open(self, home: Path, header: Cell) -> None:
        self.path = home / "cells.jsonl"
        try:
            home.mkdir(parents=True, exist_ok=True)
            text = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise FileError(f"cannot use {shown(home)}: {reason(error)}; give a directory to -o") from None
        lines = text[: text.rfind(b"\n") + 1].splitlines()  # a line without an end was being written when the run died
        if lines:
            self._check(lines[0], header)
            for line in lines[1:]:
                self._read(line)
        kept = b"".join(line + b"\n" for line in lines) or (json.dumps(header) + "\n").encode()
        if kept != text:
            write_atomically(self.path, kept)

    def _check(self, line: bytes, header: Cell) -> None:
        try:
            there = json.loads(line)
            different = [name for name in header if there[name] != header[name]]
        except (ValueError, TypeError, KeyError, RecursionError):
            raise FileError(f"{self.path}: not a file of finished cells; choose another directory") from None
        if different:
            told = ", ".join(f"{name} {there[name]!r} (now {header[name]!r})" for name in different)
            raise FileError(
                f"{self.home} holds a run with {told}; repeat it with the same options, or choose another directory"
            )

    def _read(self, line: bytes) -> None:
        try:
            cell, rows, checksum = json.loads(line)
            if checksum != _checksum(cell, rows):
                raise ValueError("not what was written")
        except (ValueError, TypeError, RecursionError):
            raise FileError(f"{self.path}: damaged; delete it to run all cells again") from None
        self.finished[key(cell)] = rows

    def add(self, cell: Cell, rows: list[Row]) -> None:
        """Keep a cell, so that it survives whatever happens next."""
        rows = [plain(row) for row in rows]
        if self.home is not None:
            line = (json.dumps([cell, rows, _checksum(cell, rows)], allow_nan=False) + "\n").encode()
            try:
                with open(self.path, "ab", buffering=0) as file:
                    append_durably(file, line, self.path)
            except OSError as error:
                raise cannot_write(self.path, error, len(line)) from None
        self.finished[key(cell)] = rows


def _checksum(cell: Cell, rows: list[Row]) -> str:
    return checksum(json.dumps([cell, rows], sort_keys=True).encode())


def key(cell: Cell) -> str:
    """What tells a cell from others."""
    return json.dumps(cell, sort_keys=True)
