"""``tempose data``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tempose.cli import console
from tempose.cli.commands import Commands, add_command
from tempose.errors import FileError, OptionError
from tempose.studies.data_sets import DATA_SETS, experiments_of, missing

VARIABLE = "TEMPOSE_DATA"


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose data``."""
    parser = add_command(commands, "data", summary, run, "tempose data\ntempose data check ~/data")
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        default="list",
        choices=["list", "check"],
        help="list (default): what there is, who published it and which files belong to it; check: whether they are there",
    )
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", help=f"to check: the folder with one folder for each (default: {VARIABLE})"
    )


def run(arguments: argparse.Namespace) -> int:
    """List the data sets, or check which are there."""
    return _check(arguments) if arguments.action == "check" else _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    if arguments.folder is not None:
        raise OptionError(f"to look whether the files are in {arguments.folder}: tempose data check {arguments.folder}")
    for name, one in DATA_SETS.items():
        console.say(
            arguments,
            f"{name}: {one.what}",
            f"  needed by   {', '.join(experiments_of(name))}",
            f"  published   {one.source}",
            f"  licence     {one.licence}",
            f"  files       {', '.join(f'{name}/{file}' for file in one.files[:3])}{', …' * (len(one.files) > 3)}",
        )
    console.say(
        arguments,
        f"put each into a folder of its name and set {VARIABLE} to the folder of these; tempose data check DIR looks for them",
    )
    facts = {name: {**one._asdict(), "experiments": experiments_of(name)} for name, one in DATA_SETS.items()}
    console.emit(arguments, facts)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Exit code 1 if something is missing of a data set that is there in part, or if there is none."""
    named = arguments.folder or os.environ.get(VARIABLE)
    if not named:
        raise OptionError(f"name the folder to check (tempose data check DIR), or set {VARIABLE} to it")
    home = Path(named)
    if not home.is_dir():
        raise FileError(f"{home}: no such folder; it should have a folder for each data set ({', '.join(DATA_SETS)})")
    rows, facts = [], {}
    for name, one in DATA_SETS.items():
        lost = missing(home, name) if (home / name).is_dir() else None
        facts[name] = {"there": lost is not None, "missing": list(one.files) if lost is None else lost}
        if lost is None:
            rows.append((name, f"not there; {', '.join(experiments_of(name))} cannot run"))
        elif lost:
            some = ", ".join(lost[:3]) + ", …" * (len(lost) > 3)
            rows.append(
                (
                    name,
                    f"{len(lost)} of {len(one.files)} kinds of files missing: {some}",
                )
            )
        else:
            rows.append((name, "complete"))
    console.table(arguments, rows, str(home))
    console.emit(arguments, facts)
    there = [one for one in facts.values() if one["there"]]
    return 0 if there and not any(one["missing"] for one in there) else 1
