"""``tempose experiment``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tempose.cli import console


def run(arguments: argparse.Namespace) -> int:
    """Run one experiment, or all of them each in a directory of its own, and say where the results are."""
    from tempose.studies.experiment import DataMissing, RunOptions, load
    from tempose.studies.registry import EXPERIMENTS

    home = Path(arguments.output)
    methods = None if arguments.methods is None else tuple(name.strip() for name in arguments.methods.split(","))
    options = RunOptions(arguments.quick, arguments.seed, arguments.seeds, methods)
    if arguments.name != "all":
        console.emit(arguments, _one(arguments, arguments.name, home, options))
        return 0
    facts = {}
    for name in EXPERIMENTS:
        own = load(name)
        chosen = RunOptions(
            options.quick,
            options.seed,
            options.seeds if own.seeds else None,
            options.methods if own.methods else None,
        )
        try:
            facts[name] = _one(arguments, name, home / name, chosen)
        except DataMissing as why:
            console.notice(arguments, f"{name} is left out: {why}")
    console.emit(arguments, facts)
    return 0


def _one(arguments: argparse.Namespace, name: str, home: Path, options: Any) -> dict[str, Any]:
    from tempose._support.progress import Progress
    from tempose.errors import TemposeError
    from tempose.studies.experiment import load
    from tempose.studies.runner import run_experiment

    try:
        with console.progress_bar(arguments) as progress:
            outcome = run_experiment(
                name, home, options, jobs=arguments.jobs, progress=lambda done, total: progress(Progress(name, done, total))
            )  # fmt: skip
    except KeyboardInterrupt:
        raise TemposeError(
            f"interrupted: what is finished is kept in {home}; the same command goes on from there"
        ) from None
    console.say(arguments, load(name).text(outcome.result))
    console.notice(arguments, *outcome.notices)
    console.say(arguments, f"{name}: written to {', '.join(map(str, outcome.written))}")
    return outcome.result.facts()
