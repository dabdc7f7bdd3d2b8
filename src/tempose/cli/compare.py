"""``tempose compare``."""

from __future__ import annotations

import argparse

from tempose.cli import console


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
    graph = console.read_graph(arguments)
    truth = None if arguments.truth is None else read_poses(arguments.truth)
    names = None if arguments.methods is None else [name.strip() for name in arguments.methods.split(",")]
    console.notice(arguments, *graph.notices)
    with console.progress_bar(arguments) as progress:
        result = compare(graph, truth, names, alignment=arguments.alignment, progress=progress)
    console.say(arguments, result.table())
    if arguments.output is not None:
        written = result.save(arguments.output)
        console.say(arguments, f"written to {', '.join(map(str, written))}")
    console.emit(arguments, result.facts())
    return 0
