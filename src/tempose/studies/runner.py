"""Run the cells of a study on all cores, keep each as it is finished, and write table and figure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempose._support.files import at_work_in, write_atomically
from tempose._support.packages import require
from tempose._support.parallel import job_count, work_off
from tempose._support.plain import json_text
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._support.tables import csv_rows
from tempose.errors import MissingPackage
from tempose.studies.experiment import Experiment, Result, RunOptions, left_out, load
from tempose.studies.store import Cell, Row, Store, key

NO_FIGURE = (
    "no figure: it needs matplotlib (pip install 'tempose[plot]'); the same command then draws it from the cells"
)


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
    executor: Executor | None = None,
    progress: ProgressHook = silent,
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
    executor
        Where to run the cells instead: a pool, or the workers of a cluster. Cells whose time is measured stay here.
    progress
        Called with the number of finished cells and of all.
    """
    options = options or RunOptions()
    experiment = load(name)
    experiment.check(name, options)
    jobs, executor = (1, None) if experiment.timed else (job_count(jobs), executor)
    cells = experiment.cells(options)
    with at_work_in(directory):
        return _run_and_write(name, experiment, cells, Path(directory), options, jobs, executor, progress)


def _run_and_write(
    name: str, experiment: Experiment, cells: Sequence[Cell], home: Path, options: RunOptions, jobs: int,
    executor: Executor | None, progress: ProgressHook,
) -> Outcome:  # fmt: skip
    store = Store(home, name, {"quick": options.quick, "seed": options.seed, "seeds": options.seeds})
    run = functools.partial(_run_cell, name)
    done = run_cells(run, cells, store, phase=name, jobs=jobs, executor=executor, progress=progress)
    found = [{**cell, **row} for cell, rows in done for row in rows]
    result = Result(name, options, found, experiment.table(found))
    written = write_table(home, result.facts(), result.table)
    notices = [f"{line['method']}: left out {line['cells']} times: {line['why']}" for line in left_out(found)]
    drawn = drawn_if_possible(functools.partial(experiment.draw, result, home))
    return Outcome(result, written + (drawn or []), [*notices, NO_FIGURE] if drawn is None else notices)


def run_cells(
    function: Callable[[Cell], list[Row]],
    cells: Sequence[Cell],
    store: Store,
    *,
    phase: str,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: ProgressHook = silent,
) -> list[tuple[Cell, list[Row]]]:
    """All cells with their rows, in the order of the plan; those that the store has are not run again.

    Parameters
    ----------
    function
        Rows of a cell; runs in another process.
    cells
        The plan: different from each other.
    phase
        What is being done, for ``progress``.
    """
    wanted = {key(cell): cell for cell in cells}
    assert len(wanted) == len(cells), f"two cells of {phase} are alike"
    missing = [cell for name, cell in wanted.items() if name not in store.finished]
    before = len(cells) - len(missing)
    progress(Progress(phase, before, len(cells)))
    for count, (cell, rows) in enumerate(work_off(function, missing, jobs, executor), 1):
        store.add(cell, rows)
        progress(Progress(phase, before + count, len(cells)))
    return [(cell, store.finished[name]) for name, cell in wanted.items()]


def write_table(home: Path, facts: dict[str, Any], table: Sequence[Row]) -> list[Path]:
    """``table.json`` with all that is known of the run, and the rows of its table alone as ``table.csv``."""
    written = {"table.json": json_text(facts, indent=1), "table.csv": csv_rows(table)}
    for name, text in written.items():
        write_atomically(home / name, text.encode())
    return [home / name for name in written]


def drawn_if_possible(draw: Callable[[], list[Path]]) -> list[Path] | None:
    """The files of a figure; ``None`` without matplotlib."""
    try:
        require("matplotlib", "figures")
    except MissingPackage:
        return None
    return draw()


def _run_cell(name: str, cell: Cell) -> list[Row]:
    return load(name).run(cell)
