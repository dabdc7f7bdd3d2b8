"""``tempose compare``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tempose.cli import console
from tempose.cli.commands import Commands, add_alignment, add_command, add_graph, add_open
from tempose.cli.inputs import add_reading, read_graph


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose compare``."""
    parser = add_command(
        commands,
        "compare",
        summary,
        run,
        """
        tempose compare graph.g2o --truth graph.truth.g2o
        tempose compare graph.g2o --methods chordal,eig-se3,tempose -o comparison
        tempose compare --list
        """,
    )
    add_graph(parser, nargs="?")
    parser.add_argument("--list", action="store_true", help="say which methods there are, and exit")
    parser.add_argument(
        "--truth", metavar="FILE", help="true poses (g2o, tum, csv, or a data set that has them), to show errors"
    )
    parser.add_argument("--methods", metavar="A,B,...", help="methods to run (default: all; see --list)")
    add_alignment(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="directory for report.html, table.json, table.csv, poses/METHOD.csv and, with matplotlib, compare.png",
    )
    add_open(parser)
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run synchronisation methods on a graph and print one table."""
    from tempose.io import read_poses
    from tempose.methods import METHODS, PEERS, compare

    if arguments.list:
        known = {name: description for name, (_, description) in {**METHODS, **PEERS}.items()}
        console.table(arguments, list(known.items()))
        console.emit(arguments, known)
        return 0
    if arguments.graph is None:
        from tempose.errors import OptionError

        raise OptionError("give a graph to compare the methods on, or --list to see them")
    if arguments.open and arguments.output is None:
        from tempose.errors import OptionError

        raise OptionError("--open needs a page, and a page needs a directory: add -o DIR")
    graph = read_graph(arguments)
    truth = None if arguments.truth is None else read_poses(arguments.truth)
    names = None if arguments.methods is None else [name.strip() for name in arguments.methods.split(",")]
    console.notice(arguments, *graph.notices)
    with console.progress_bar(arguments) as progress:
        result = compare(graph, truth, names, alignment=arguments.alignment, progress=progress)
    console.say(arguments, result.table())
    if arguments.output is not None:
        from tempose.report.study_pages import write_comparison_page

        written = result.save(arguments.output)
        written.append(
            write_comparison_page(Path(arguments.output) / "report.html", result, Path(arguments.graph).name)
        )
        console.say(arguments, f"written to {', '.join(map(str, written))}")
    console.emit(arguments, result.facts())
    if arguments.output is not None:
        console.open_page(arguments, Path(arguments.output) / "report.html")
    return 0
