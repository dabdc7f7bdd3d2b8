"""The commands, and the parser of all of them. Imports nothing heavy, so that ``--help`` answers at once."""

from __future__ import annotations

import argparse
from importlib import import_module

from tempose.cli.commands import CommandParser, Parser, accept_old_names

COMMANDS = {
    "demo": "solve a bundled example and write its report",
    "info": "say what is in a graph file, before solving it",
    "simulate": "write a synthetic graph and its truth",
    "solve": "compute poses, error bars and a report from a graph",
    "plan": "error bars of a network before it is measured, and which further edges would help most",
    "components": "how noisy each group of edges is, by how they contradict each other",
    "change": "which nodes moved between two solves",
    "condense": "a session as edges between a few of its nodes, to merge maps",
    "merge": "sessions with their own ids and frames as one graph",
    "eval": "compare poses with the truth, after alignment",
    "compare": "run the classical synchronisation methods on a graph, side by side",
    "experiment": "reproduce a figure or table of the paper, or another study",
    "data": "which public data sets the experiments need, where they are published, and whether they are there",
    "calibrate": "show whether the draws can be trusted, on graphs whose truth is known",
    "convert": "convert a graph, or poses, from one format to another",
    "export": "covariances of a solve for other programs, in their frame and order",
    "sfm": "from photographs, or a COLMAP database or model, to cameras and points with error bars",
    "view": "show a reconstruction in the browser, served from this machine only",
    "completion": "print a script that completes commands and options in the shell",
}
"""What each does; its module, of the same name, has ``add_parser`` and ``run``."""

RENAMED = {
    "calibrate": {"--noise": "--sigma-rot-deg"},
    "eval": {"--robust": "--l1-alignment"},
}
"""By command: options that had another name in the version before, which is still understood, and the new one."""


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of ``tempose``.

    Parameters
    ----------
    only
        The one command whose options are needed; by default all have theirs. The others are listed, and not imported.
    """
    parser = Parser(
        prog="tempose",
        description="The posterior of a pose graph: best poses, and honest error bars on every one of them.",
        epilog="Try 'tempose demo', or 'tempose COMMAND --help'.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, summary in COMMANDS.items():
        if only in (None, name):
            import_module(f"tempose.cli.{name}").add_parser(commands, summary)
            accept_old_names(commands.choices[name], RENAMED.get(name, {}))
        else:
            commands.add_parser(name, help=summary)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"tempose {metadata.version('tempose')}")
        parser.exit()
