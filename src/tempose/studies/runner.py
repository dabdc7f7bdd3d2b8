"""Run the cells of an experiment on all cores, keep each as it is finished, and write table and figure."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from tempose._support.files import reason, write_atomically
from tempose._support.parallel import job_count, work_off
from tempose.errors import FileError
from tempose.studies.experiment import Cell, Result, Row, RunOptions, left_out, load, plain


@dataclass(frozen=True, eq=False)
class Outcome:
    """What :func:`run_experiment` leaves behind: the result, the files, and what the user should know."""

    result: Result
    written: list[Path]
    notices: list[str]


def run_experiment(
    name: str,
    directory: str | Path,
    options: RunOptions | None = None,
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Outcome:
    """Run an experiment, or go on with one that was stopped, and write its table and figure.

    Parameters
    ----------
    name
        One of :data:`tempose.studies.registry.EXPERIMENTS`.
    directory
        Where ``cells.jsonl`` (every finished cell), ``table.json``, ``table.csv`` and ``figure.png`` go. Cells found there
        are not run again; a directory of other options is refused. New ``methods`` may join: only their cells run.
    jobs
        Processes; by default one per core. The result does not depend on it.
    progress
        Called with the number of finished cells and of all.
    """
    options = options or RunOptions()
    experiment = load(name)
    experiment.check(name, options)
    jobs = 1 if experiment.timed else job_count(jobs)
    cells = experiment.cells(options)
    store = Store(Path(directory), name, options)
    wanted = {_key(cell): cell for cell in cells}
    assert len(wanted) == len(cells), f"two cells of {name} are alike"
    missing = [cell for key, cell in wanted.items() if key not in store.finished]
    progress(len(cells) - len(missing), len(cells))
    run_cell = functools.partial(_run_cell, name)
    for count, (cell, rows) in enumerate(work_off(run_cell, missing, jobs), 1):
        store.add(cell, rows)
        progress(len(cells) - len(missing) + count, len(cells))
    found = [{**cell, **row} for key, cell in wanted.items() for row in store.finished[key]]
    result = Result(name, options, found, experiment.table(found))
    written = write_table(result, store.home)
    notices = [f"{line['method']}: left out {line['cells']} times: {line['why']}" for line in left_out(found)]
    try:
        import matplotlib  # noqa: F401

        written += experiment.draw(result, store.home)
    except ImportError:
        notices.append(
            "no figure: it needs matplotlib (pip install 'tempose[plot]'); the same command then draws it from the cells"
        )
    return Outcome(result, written, notices)


def write_table(result: Result, home: Path) -> list[Path]:
    """``table.json`` with options, seeds and versions, and its rows alone as ``table.csv``."""
    write_atomically(home / "table.json", (json.dumps(result.facts(), indent=1, allow_nan=False) + "\n").encode())
    columns = list(dict.fromkeys(column for row in result.table for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in result.table)
    write_atomically(home / "table.csv", text.getvalue().encode())
    return [home / "table.json", home / "table.csv"]


class Store:
    """The finished cells of one experiment in ``cells.jsonl``: what it is on the first line, then one line per cell."""

    def __init__(self, home: Path, name: str, options: RunOptions) -> None:
        self.home, self.path = home, home / "cells.jsonl"
        header = {
            "experiment": name, "quick": options.quick, "seed": options.seed, "seeds": options.seeds,
            "tempose": metadata.version("tempose"),
        }  # fmt: skip
        self.finished: dict[str, list[Row]] = {}
        try:
            home.mkdir(parents=True, exist_ok=True)
            text = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise FileError(f"cannot use {home}: {reason(error)}; give a directory to -o") from None
        lines = text[: text.rfind(b"\n") + 1].splitlines()  # a line without an end was being written when the run died
        if lines:
            self._check(lines[0], header)
            for line in lines[1:]:
                self._read(line)
        kept = b"".join(line + b"\n" for line in lines) or (json.dumps(header) + "\n").encode()
        if kept != text:
            write_atomically(self.path, kept)

    def _check(self, line: bytes, header: dict[str, Any]) -> None:
        try:
            there = json.loads(line)
            different = [name for name in header if there[name] != header[name]]
        except (ValueError, TypeError, KeyError):
            raise FileError(f"{self.path}: not a file of finished cells; choose another directory") from None
        if different:
            told = ", ".join(f"{name} {there[name]!r} (now {header[name]!r})" for name in different)
            raise FileError(
                f"{self.home} holds a run with {told}; repeat it with the same options, or choose another directory"
            )

    def _read(self, line: bytes) -> None:
        try:
            cell, rows = json.loads(line)
        except ValueError:
            raise FileError(f"{self.path}: damaged; delete it to run all cells again") from None
        self.finished[_key(cell)] = rows

    def add(self, cell: Cell, rows: list[Row]) -> None:
        """Keep a cell, so that it survives whatever happens next."""
        rows = [{name: plain(value) for name, value in row.items()} for row in rows]
        try:
            with open(self.path, "ab") as file:
                file.write((json.dumps([cell, rows], allow_nan=False) + "\n").encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(f"{self.path}: cannot be written: {reason(error)}") from None
        self.finished[_key(cell)] = rows


def _key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def _run_cell(name: str, cell: Cell) -> list[Row]:
    return load(name).run(cell)
