"""``tempose convert``."""

from __future__ import annotations

import argparse

from tempose.cli import console
from tempose.cli.commands import Commands, add_command
from tempose.cli.flags import given
from tempose.cli.inputs import SolveInput, add_reading
from tempose.io.options import ReadOptions


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose convert``."""
    parser = add_command(
        commands,
        "convert",
        summary,
        run,
        "tempose convert graph.g2o graph.csv",
    )
    parser.add_argument("input", metavar="IN", help="file to read (g2o, csv, tum, 3DMatch log)")
    parser.add_argument("output", metavar="OUT", help="file to write (g2o, csv, tum)")
    parser.add_argument("--poses", action="store_true", help="convert the poses of IN and drop its edges")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Convert a graph or poses."""
    from tempose.io import read_poses, write_graph, write_poses

    if arguments.poses or str(arguments.output).endswith(".tum") or str(arguments.input).endswith(".tum"):
        poses = read_poses(arguments.input, arguments.format)
        write_poses(arguments.output, poses)
        console.say(arguments, f"{arguments.output}: {len(poses)} poses")
        console.emit(arguments, {"output": arguments.output, "n_nodes": len(poses)})
        return 0
    graph = SolveInput(arguments.input, given(arguments, ReadOptions), arguments.format).read()
    console.notice(arguments, *graph.notices)
    write_graph(arguments.output, graph, graph.initial)
    console.say(arguments, f"{arguments.output}: {graph.n_nodes} nodes, {graph.n_edges} edges")
    console.emit(arguments, {"output": arguments.output, "n_nodes": graph.n_nodes, "n_edges": graph.n_edges})
    return 0
