"""Many experiments on all cores, each written down as it ends, so that a run that is killed goes on where it was."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tempose._support.files import reason, shown, write_atomically
from tempose._support.parallel import work_off
from tempose.errors import FileError, OptionError
from tempose.options import SolveOptions
from tempose.studies.calibration.fitting import FitRow, fit
from tempose.studies.calibration.result import Calibration
from tempose.studies.calibration.settings import SETTINGS, Setting

Task = tuple[Setting, int]

CHAINS = 2
_FIELDS = {field.name for field in fields(FitRow)}


def calibrate(
    settings: Sequence[Setting] | None = None,
    *,
    graphs: int = 150,
    options: SolveOptions | None = None,
    seed: int = 0,
    jobs: int | None = None,
    directory: str | Path | None = None,
    on_graph: Callable[[int, int], None] | None = None,
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
        Of the graphs and of the fits: the outcome depends on nothing else, neither on ``jobs`` nor on interruptions.
    jobs
        Processes; one per core by default.
    directory
        Where ``run.json`` and ``rows.jsonl`` go. A run that was stopped is continued from there; more graphs may be
        asked for.
    on_graph
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
    record = _Record(directory, {"seed": seed, "options": facts})
    # settings in turn, so that a run that is stopped has some of each
    wanted = [(setting, number) for number in range(graphs) for setting in settings]
    done = record.rows(wanted)
    todo = [task for task in wanted if (task[0].name, task[1]) not in done]
    report = on_graph or (lambda _, __: None)
    report(len(done), len(wanted))
    for _, row in work_off(functools.partial(_fit, options=options, seed=seed), todo, jobs):
        record.append(row)
        done[row.setting, row.graph] = row
        report(len(done), len(wanted))
    rows = tuple(done[setting.name, number] for setting in settings for number in range(graphs))
    return Calibration(settings, rows, facts, seed)


def _fit(task: Task, options: SolveOptions, seed: int) -> FitRow:
    return fit(*task, options, seed)


class _Record:
    """``run.json``: what the run is; ``rows.jsonl``: one line per graph, appended. Without a directory, nothing."""

    def __init__(self, directory: str | Path | None, description: dict[str, Any]) -> None:
        self.home = None if directory is None else Path(directory)
        self.description = description

    def rows(self, wanted: list[Task]) -> dict[tuple[str, int], FitRow]:
        """Rows of an earlier run of the same description; what a kill left half written is cut off."""
        if self.home is None:
            return {}
        path = self.home / "rows.jsonl"
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise FileError(f"cannot use {shown(self.home)}: {reason(error)}; give a directory to -o") from None
        self._claim({setting.name: setting.facts() for setting, _ in wanted})
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            write_atomically(path, whole)
        names = {(setting.name, number) for setting, number in wanted}
        try:
            found = [
                FitRow(**{k: v for k, v in json.loads(line).items() if k in _FIELDS}) for line in whole.splitlines()
            ]
        except (ValueError, TypeError, AttributeError):
            raise FileError(f"{path}: not the rows of a calibration; use another directory") from None
        return {(row.setting, row.graph): row for row in found if (row.setting, row.graph) in names}

    def _claim(self, settings: dict[str, dict[str, Any]]) -> None:
        """Write ``run.json``, or check that the directory is of this run; other settings may be added to it."""
        assert self.home is not None
        path = self.home / "run.json"
        old: dict[str, Any] = {"settings": {}}
        if path.exists():
            now = json.loads(json.dumps(self.description))
            try:
                old = json.loads(path.read_text())
                different = [name for name in now["options"] if old["options"].get(name) != now["options"][name]]
                different += ["seed"] if old["seed"] != now["seed"] else []
                different += [name for name, facts in settings.items() if old["settings"].get(name, facts) != facts]
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                raise FileError(f"{path}: not the description of a calibration; use another directory") from None
            if different:
                raise FileError(
                    f"{shown(self.home)} holds another calibration (different: {', '.join(different)}); use another directory"
                )
        new = {**self.description, "settings": {**old["settings"], **settings}}
        write_atomically(path, (json.dumps(new, indent=2) + "\n").encode())

    def append(self, row: FitRow) -> None:
        """Add a row."""
        if self.home is not None:
            path = self.home / "rows.jsonl"
            try:
                with open(path, "a") as file:
                    file.write(json.dumps(row.facts(), allow_nan=False) + "\n")
            except OSError as error:
                raise FileError(f"{shown(path)}: cannot be written: {reason(error)}") from None
