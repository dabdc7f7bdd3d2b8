"""What every experiment is made of: independent cells, rows of numbers, a table, a figure."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tempose._support.tables import text_table
from tempose.errors import OptionError, TemposeError
from tempose.studies.registry import EXPERIMENTS, module_of
from tempose.studies.store import Cell, Row

DATA = "TEMPOSE_DATA"
"""Environment variable with the folder of real data sets, which are not part of the project."""


class DataMissing(TemposeError):  # noqa: N818  (it is an answer: the data are not on this machine)
    """An experiment whose real data are not there."""


def data_folder(name: str) -> Path:
    """The folder of a real data set, for instance ``epfl_rotations``."""
    home = os.environ.get(DATA)
    if not home:
        raise DataMissing(
            f"needs the data set {name}: set {DATA} to the folder that has it (tempose data: where it is published)"
        )
    folder = Path(home) / name
    if not folder.is_dir():
        raise DataMissing(f"needs the data set {name}, which is not in {home} (the folder named by {DATA})")
    return folder


@dataclass(frozen=True)
class RunOptions:
    """What a user can choose.

    Parameters
    ----------
    quick
        A small version that takes seconds, in place of the full size.
    seed
        The first seed; cell number k of a setting has ``seed + k``, the seed of its graph in ``tempose simulate``.
    seeds
        How many seeds; by default the experiment's own number.
    methods
        Names from :data:`tempose.methods.METHODS`; by default all that the experiment compares.
    """

    quick: bool = False
    seed: int = 0
    seeds: int | None = None
    methods: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise OptionError(f"the seed must not be negative ({self.seed})")
        if self.seeds is not None and self.seeds < 1:
            raise OptionError(f"at least one seed is needed, not {self.seeds}")
        if self.methods is not None:
            from tempose.methods import METHODS

            for name in self.methods:
                if name not in METHODS:
                    raise OptionError(f"unknown method {name!r}: choose from {', '.join(METHODS)}")
            if not self.methods:
                raise OptionError(f"no method to run: choose from {', '.join(METHODS)}")

    def seed_list(self, full: int, quick: int) -> list[int]:
        """The seeds: as many as asked for, else ``full`` or ``quick`` of them."""
        count = self.seeds or (quick if self.quick else full)
        return list(range(self.seed, self.seed + count))

    def method_list(self, default: Iterable[str]) -> list[str]:
        """The methods: those asked for, else ``default``."""
        return list(default if self.methods is None else self.methods)


@dataclass(frozen=True, eq=False)
class Result:
    """What an experiment found.

    Attributes
    ----------
    rows
        Rows of all cells, in the order of the plan: each has the settings of its cell and the numbers that came out.
    table
        What is written to ``table.json`` and ``table.csv``, and drawn.
    """

    name: str
    options: RunOptions
    rows: list[Row]
    table: list[Row]

    @property
    def seeds(self) -> list[int]:
        """The seeds used, in order."""
        return sorted({row["seed"] for row in self.rows if "seed" in row})

    def facts(self) -> dict[str, Any]:
        """Plain dictionary for JSON; the same whatever the number of processes, and whether resumed or not."""
        entry = EXPERIMENTS[self.name]
        packages = ("tempose", "numpy", "scipy", "numba")
        return {
            "experiment": self.name,
            "summary": entry.summary,
            "paper": entry.paper,
            "options": asdict(self.options),
            "seeds": self.seeds,
            "versions": {package: metadata.version(package) for package in packages},
            "left_out": left_out(self.rows),
            "table": self.table,
        }


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper, or a study of our own.

    Attributes
    ----------
    cells
        The plan: all cells for a user's options, different from each other.
    run
        Rows of one cell. Runs in a process of its own with one thread, so it must depend on the cell alone; the settings
        of the cell are added to its rows.
    table
        From the rows of all cells to the table.
    draw
        Writes ``figure.png`` (and what else there is to see) into a directory and returns the files; called only if
        matplotlib is installed.
    text
        The result in a few lines, for the terminal.
    methods, seeds
        Whether ``--methods`` and ``--seeds`` mean anything.
    timed
        Its numbers are times: cells run one after another, and the tables of two runs differ.
    """

    cells: Callable[[RunOptions], list[Cell]]
    run: Callable[[Cell], list[Row]]
    table: Callable[[list[Row]], list[Row]]
    draw: Callable[[Result, Path], list[Path]]
    text: Callable[[Result], str] = lambda result: ""
    methods: bool = True
    seeds: bool = True
    timed: bool = False

    def check(self, name: str, options: RunOptions) -> None:
        """Refuse options that the experiment does not have."""
        if options.methods is not None and not self.methods:
            raise OptionError(f"the experiment {name} compares no methods: leave out --methods")
        if options.seeds is not None and not self.seeds:
            raise OptionError(f"the experiment {name} is one run: leave out --seeds")


def load(name: str) -> Experiment:
    """The experiment of a name."""
    if name not in EXPERIMENTS:
        raise OptionError(f"unknown experiment {name!r}: choose from {', '.join(EXPERIMENTS)}")
    experiment = import_module(module_of(name)).EXPERIMENT
    assert isinstance(experiment, Experiment)
    return experiment


# ---------------------------------------------------------------------- rows and tables


def over_seeds(rows: Sequence[Row], by: Sequence[str], values: Sequence[str]) -> list[Row]:
    """Mean, standard error of the mean and median over all rows that share the columns ``by``.

    For a value ``x`` the table has ``x`` (mean), ``x_se`` and ``x_median``; ``n`` is the number of rows that have it, and
    a group without any (the method does not apply) has ``n = 0``.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(json.dumps([row[name] for name in by]), []).append(row)
    table = []
    for members in groups.values():
        line: Row = {name: members[0][name] for name in by}
        line["n"] = max(sum(member.get(name) is not None for member in members) for name in values)
        for name in values:
            found = [float(member[name]) for member in members if member.get(name) is not None]
            line |= {name: None, f"{name}_se": None, f"{name}_median": None}
            if found:
                line[name] = math.fsum(found) / len(found)
                line[f"{name}_median"] = _median(found)
            if len(found) > 1:
                spread = math.fsum((x - line[name]) ** 2 for x in found) / (len(found) - 1)
                line[f"{name}_se"] = math.sqrt(spread / len(found))
        table.append(line)
    return table


def as_text(table: Sequence[Row], rows: str, columns: str, value: str, title: str) -> str:
    """A table of text: one line per value of ``rows``, one column per value of ``columns``, mean ± standard error."""
    heads = list(dict.fromkeys(line[columns] for line in table))
    names = list(dict.fromkeys(line[rows] for line in table))
    found = {(line[rows], line[columns]): line for line in table}
    cells = [[title, *(f"{head:g}" if isinstance(head, float) else str(head) for head in heads)]]
    for name in names:
        lines = [found.get((name, head)) for head in heads]
        cells.append([str(name), *(_mean_and_error(line, value) for line in lines)])
    return text_table(cells)


def _mean_and_error(line: Row | None, value: str) -> str:
    if line is None or line[value] is None:
        return "–"
    error = line.get(f"{value}_se")
    return f"{line[value]:.3g}" + ("" if error is None else f"±{error:.1g}")


def _median(found: list[float]) -> float:
    ordered, middle = sorted(found), len(found) // 2
    return ordered[middle] if len(found) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def left_out(rows: Sequence[Row]) -> list[Row]:
    """How often each method was left out, and why."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.get("status") == "left out":
            why = (str(row["method"]), str(row["message"]))
            counts[why] = counts.get(why, 0) + 1
    return [{"method": method, "cells": count, "why": why} for (method, why), count in counts.items()]
