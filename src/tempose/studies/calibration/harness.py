"""Many graphs on all cores, each written down as it ends, so that a run that is killed goes on where it was."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path

from tempose._support.files import at_work_in
from tempose._support.progress import ProgressHook, silent
from tempose.errors import OptionError
from tempose.options import SolveOptions
from tempose.studies.calibration.fitting import FitRow, fit
from tempose.studies.calibration.result import Calibration
from tempose.studies.calibration.settings import SETTINGS, Setting
from tempose.studies.runner import run_cells
from tempose.studies.store import Cell, Row, Store

CHAINS = 2


def calibrate(
    settings: Sequence[Setting] | None = None,
    *,
    graphs: int = 150,
    options: SolveOptions | None = None,
    seed: int = 0,
    jobs: int | None = None,
    executor: Executor | None = None,
    directory: str | Path | None = None,
    progress: ProgressHook = silent,
) -> Calibration:
    """Simulate graphs from the model, fit each, and see whether the truth is where the draws say it is.

    Parameters
    ----------
    settings
        What to simulate; all of :data:`tempose.studies.calibration.SETTINGS` by default.
    graphs
        Graphs per setting.
    options
        How to fit; ``draws``, ``gauge`` and ``seed`` are set here. Two chains of the default sampler if left out.
    seed
        Of the graphs and of the fits: the outcome depends on nothing else, not on ``jobs``, the executor or interruptions.
    jobs
        Processes; one per core by default.
    executor
        Where to fit instead: a pool, or the workers of a cluster.
    directory
        Where ``cells.jsonl`` goes. A run that was stopped is continued from there; more graphs and other settings may be
        asked for.
    progress
        Called with the number of graphs done and their total.
    """
    settings = tuple(SETTINGS.values()) if settings is None else tuple(settings)
    options = options or SolveOptions(chains=CHAINS)
    names = [setting.name for setting in settings]
    if not settings or len(set(names)) < len(names):
        raise OptionError("give at least one setting, each with a name of its own")
    if graphs < 1:
        raise OptionError(f"at least one graph per setting is needed, not {graphs}")
    if seed < 0:
        raise OptionError(f"the seed must not be negative ({seed})")
    facts = {k: v for k, v in options.as_dict().items() if k not in ("draws", "gauge", "seed")}
    # settings in turn, so that a run that is stopped has some of each
    cells: list[Cell] = [{"setting": s.facts(), "graph": k} for k in range(graphs) for s in settings]
    run = functools.partial(_fit, options=options, seed=seed)
    with nullcontext() if directory is None else at_work_in(directory):
        store = Store(directory, "calibrate", {"seed": seed, **facts})
        done = run_cells(run, cells, store, phase="calibrating", jobs=jobs, executor=executor, progress=progress)
    found = [FitRow.of_row(cell["setting"]["name"], {**cell, **rows[0]}) for cell, rows in done]
    rows = sorted(found, key=lambda row: (names.index(row.setting), row.graph))
    return Calibration(settings, tuple(rows), facts, seed)


def _fit(cell: Cell, options: SolveOptions, seed: int) -> list[Row]:
    return [fit(Setting(**cell["setting"]), cell["graph"], options, seed).found()]
