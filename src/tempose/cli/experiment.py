"""``tempose experiment``."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import Any

from tempose.cli import console
from tempose.cli.commands import CommandParser, Commands, add_command, add_workers, sentence
from tempose.studies.data_sets import NEEDED
from tempose.studies.registry import EXPERIMENTS, PAPER, USUAL


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose experiment``: one command below it for each."""
    parser = commands.add_parser(
        "experiment",
        help=summary,
        description=sentence(summary),
        epilog="example:\n  tempose experiment noise --quick -o noise\n  tempose experiment noise --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = parser.add_subparsers(metavar="NAME", required=True, parser_class=CommandParser)
    for name, entry in EXPERIMENTS.items():
        _add_experiment(names, name, entry.summary, entry.paper)
    _add_experiment(names, "all", "all of them, each in a directory of its own", "All figures and tables.")


def _add_experiment(names: Commands, name: str, summary: str, paper: str) -> None:
    parser = add_command(names, name, summary, run, f"tempose experiment {name} --quick -o {name}")
    needs = "".join(f"\n\nNeeds the data set {one}: tempose data." for one in NEEDED.get(name, ()))
    usual = f"\n\nThe full size usually takes {USUAL[name]}." if name in USUAL else ""
    parser.description = f"{sentence(summary)}\n\nIn the paper: {textwrap.fill(paper, 100)}{needs}{usual}\n\n{PAPER}"
    parser.set_defaults(name=name)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="DIR",
        help="directory for table.json, table.csv, figure.png and the finished cells; a run that was stopped is "
        "continued",
    )
    parser.add_argument("--quick", action="store_true", help="a small version, in seconds")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="random problems per setting (default: the experiment's)"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first of them; same seed, same numbers (default 0)")
    parser.add_argument(
        "--methods", metavar="A,B,...", help="methods to compare (default: all; see tempose compare --list)"
    )
    add_workers(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run one experiment, or all of them each in a directory of its own, and say where the results are."""
    from tempose.studies.experiment import DataMissing, RunOptions, load

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
    from tempose._support.cluster import workers
    from tempose.errors import Interrupted
    from tempose.studies.experiment import load
    from tempose.studies.runner import run_experiment

    try:
        with workers(arguments.cluster) as executor, console.progress_bar(arguments) as progress:
            outcome = run_experiment(name, home, options, jobs=arguments.jobs, executor=executor, progress=progress)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted: what is finished is kept in {home}; the same command goes on from there"
        ) from None
    console.say(arguments, load(name).text(outcome.result))
    console.notice(arguments, *outcome.notices)
    console.say(arguments, f"{name}: written to {', '.join(map(str, outcome.written))}")
    return outcome.result.facts()
