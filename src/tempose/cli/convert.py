"""``tempose convert``."""

from __future__ import annotations

import argparse
from typing import Any

from tempose._support.words import plural
from tempose.cli import console
from tempose.cli.commands import Commands, add_command
from tempose.cli.flags import given
from tempose.cli.inputs import SolveInput, add_reading
from tempose.errors import OptionError
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
    parser.add_argument(
        "input",
        metavar="IN",
        help="file of any format (also packed: .gz), directory of a solve, or COLMAP model",
    )
    parser.add_argument(
        "output", metavar="OUT", help="file to write (the ending names its format: .g2o, .csv, .tum, …, also .g2o.gz)"
    )
    parser.add_argument("--poses", action="store_true", help="convert the poses of IN and drop its edges")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Convert a graph or poses."""
    from tempose.analysis.overview import contents
    from tempose.io import write_graph
    from tempose.io.files import holds_no_edges, left_out

    trajectory = holds_no_edges(arguments.input, to_read=True) or holds_no_edges(arguments.output, to_read=False)
    if arguments.poses or trajectory:
        if arguments.gps is not None:
            raise OptionError("--gps measures nodes of a graph; poses alone have none")
        return _convert_poses(arguments)
    reading = given(arguments, ReadOptions)
    graph = SolveInput(arguments.input, reading, arguments.format, gps=arguments.gps).read()
    console.notice(arguments, *graph.notices)
    write_graph(arguments.output, graph, graph.initial)
    lost = left_out(graph, arguments.output)
    console.notice(arguments, *([lost] if lost else []))
    nodes = len(graph.reported)
    counted = f"{plural(nodes, 'node', 'nodes')}, {plural(graph.n_edges, 'edge', 'edges')}"
    console.say(arguments, f"{arguments.output}: {counted}{_more(contents(graph))}")
    console.emit(arguments, {"output": arguments.output, "n_nodes": nodes, "n_edges": graph.n_edges, **contents(graph)})
    return 0


def _convert_poses(arguments: argparse.Namespace) -> int:
    """Convert poses: planar ones stay planar where a format knows that, and landmarks stay what they are or are left out."""
    from tempose.io import write_poses
    from tempose.io.files import read_vertices

    poses, planar, landmarks = read_vertices(arguments.input, arguments.format)
    if landmarks and not str(arguments.output).lower().removesuffix(".gz").endswith((".g2o", ".csv", ".pyfg")):
        what = plural(len(landmarks), "landmark", "landmarks")
        console.notice(
            arguments, f"{what} left out: only g2o, CSV and PyFactorGraph files hold poses without an orientation"
        )
        poses = poses.select([name for name in poses.ids if name not in set(landmarks)])
        landmarks = ()
    write_poses(arguments.output, poses, planar=planar, landmarks=landmarks)
    console.say(arguments, f"{arguments.output}: {len(poses)} poses")
    console.emit(arguments, {"output": arguments.output, "n_nodes": len(poses)})
    return 0


def _more(found: dict[str, Any]) -> str:
    """What else a graph holds, in words: ``; planar, 3 landmarks``."""
    words = ["planar"] if found["dimension"] == 2 else []
    words += [
        plural(found[key], one, more)
        for key, one, more in (
            ("n_landmarks", "landmark", "landmarks"),
            ("measured_positions", "measured position", "measured positions"),
            ("measured_attitudes", "measured attitude", "measured attitudes"),
            ("n_fixed", "fixed", "fixed"),
            ("correlated_edges", "edge with correlations", "edges with correlations"),
        )
        if found[key]
    ]
    return "; " + ", ".join(words) if words else ""
