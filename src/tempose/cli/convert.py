"""``tempose convert``."""

from __future__ import annotations

import argparse

from tempose.cli import console


def run(arguments: argparse.Namespace) -> int:
    """Convert a graph or poses."""
    from tempose.io import read_poses, write_graph, write_poses

    arguments.graph = arguments.input
    if arguments.poses or str(arguments.output).endswith(".tum") or str(arguments.input).endswith(".tum"):
        poses = read_poses(arguments.input, arguments.format)
        write_poses(arguments.output, poses)
        console.say(arguments, f"{arguments.output}: {len(poses)} poses")
        console.emit(arguments, {"output": arguments.output, "n_nodes": len(poses)})
        return 0
    graph = console.read_graph(arguments)
    console.notice(arguments, *graph.notices)
    write_graph(arguments.output, graph, graph.initial)
    console.say(arguments, f"{arguments.output}: {graph.n_nodes} nodes, {graph.n_edges} edges")
    console.emit(arguments, {"output": arguments.output, "n_nodes": graph.n_nodes, "n_edges": graph.n_edges})
    return 0
