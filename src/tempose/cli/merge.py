"""``tempose merge``."""

from __future__ import annotations

import argparse
from pathlib import Path

from tempose.cli import console
from tempose.cli.commands import Commands, add_command


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose merge``."""
    parser = add_command(
        commands,
        "merge",
        summary,
        run,
        """
        tempose merge monday.g2o tuesday.g2o --links links.csv -o both.csv
        tempose merge east.g2o west.g2o --shared-ids -o whole.g2o
        """,
    )
    parser.add_argument(
        "graphs", metavar="GRAPH", nargs="+", help="files of graphs, one per session; its name is the session's"
    )
    parser.add_argument(
        "--links", metavar="FILE", help="edges between sessions: a .csv graph of nodes named monday/7, tuesday/3"
    )
    parser.add_argument("--shared-ids", action="store_true", help="the same id is the same node in every session")
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="file to write (.csv; .g2o if ids are integers)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Merge sessions."""
    from tempose.io import read_graph, write_graph
    from tempose.model.merging import merge

    graphs = [read_graph(path) for path in arguments.graphs]
    links = None if arguments.links is None else read_graph(arguments.links)
    names = [Path(path).name.removesuffix(".gz").rpartition(".")[0] or Path(path).name for path in arguments.graphs]
    whole = merge(graphs, names, shared_ids=arguments.shared_ids, links=links)
    write_graph(arguments.output, whole, whole.initial)
    console.notice(arguments, *whole.notices)
    nodes = len(whole.reported)
    console.say(arguments, f"{arguments.output}: {nodes} nodes and {whole.n_edges} edges of {len(graphs)} sessions")
    console.emit(
        arguments,
        {"output": arguments.output, "n_nodes": nodes, "n_edges": whole.n_edges, "n_components": whole.n_components},
    )
    return 0
