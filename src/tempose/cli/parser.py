"""The commands, and the parser of all of them. Imports nothing heavy, so that ``--help`` answers at once."""

from __future__ import annotations

import argparse

from tempose.cli import (
    calibrate,
    compare,
    convert,
    demo,
    eval,
    experiment,
    info,
    sfm,
    simulate,
    solve,
    view,
)
from tempose.cli.commands import CommandParser, accept_old_names

COMMANDS = (demo, info, simulate, solve, eval, compare, experiment, calibrate, convert, sfm, view)
"""Each is a module with ``add_parser`` and ``run``."""

RENAMED = {
    "calibrate": {"--noise": "--sigma-rot-deg"},
    "eval": {"--robust": "--l1-alignment"},
}
"""By command: options that had another name in the version before, which is still understood, and the new one."""


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``tempose``."""
    parser = argparse.ArgumentParser(
        prog="tempose",
        description="The posterior of a pose graph: best poses, and honest error bars on every one of them.",
        epilog="Try 'tempose demo', or 'tempose COMMAND --help'.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    for command in COMMANDS:
        command.add_parser(commands)
    for name, new_names in RENAMED.items():
        accept_old_names(commands.choices[name], new_names)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"tempose {metadata.version('tempose')}")
        parser.exit()
