"""``tempose condense``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_graph
from tempose.cli.inputs import add_reading, read_graph

if TYPE_CHECKING:
    from tempose._typing import NodeId
    from tempose.model.graph import PoseGraph


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose condense``."""
    parser = add_command(
        commands,
        "condense",
        summary,
        run,
        """
        tempose condense monday.g2o --keep 0,120,121,450 -o monday-small.csv
        tempose merge monday-small.csv tuesday-small.csv --shared-ids -o week.csv
        tempose condense map.g2o --keep 0-9 -o gate.g2o
        """,
        has_rare=True,
    )
    add_graph(parser)
    parser.add_argument(
        "--keep", required=True, metavar="IDS", help="nodes to keep, and integers from-to: 0,17,40-45; fixed ones stay"
    )
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="graph to write (.csv, .g2o)")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Solve a graph, and write it as edges between a few of its nodes."""
    from tempose.analysis.condensing import condense
    from tempose.errors import NotApplicable
    from tempose.io import write_graph
    from tempose.solver import solve

    graph = read_graph(arguments)
    keep = _names(arguments.keep, graph)
    with console.progress_bar(arguments) as progress:
        solution = solve(graph, draws=0, progress=progress)
        if solution.laplace is None:
            raise NotApplicable("the session has no Gaussian around its optimum: there is nothing to condense")
        found = condense(solution.laplace, keep)
    write_graph(arguments.output, found.graph, found.graph.initial)
    console.notice(arguments, *solution.notices)
    console.say(
        arguments,
        solution.headline,
        f"{arguments.output}: {len(found.kept)} of {graph.n_nodes} nodes, {found.graph.n_edges} edges for {graph.n_edges}",
        f"covariances of pairs with an edge are those of the session to {found.mismatch:.1g} of their size; "
        f"{found.loss:.3g} nats of {found.dimension} dimensions are lost",
    )
    console.emit(
        arguments,
        {
            "output": arguments.output,
            "n_nodes": len(found.kept),
            "n_edges": found.graph.n_edges,
            "loss": found.loss,
            "dimension": found.dimension,
            "mismatch": found.mismatch,
        },
    )
    return 0


def _names(text: str, graph: PoseGraph) -> list[NodeId]:
    """``0,17,40-45`` as names of nodes."""
    out: list[NodeId] = []
    for word in (part.strip() for part in text.split(",")):
        first, dash, last = word.partition("-")
        if word in graph.index:
            out.append(word)
        elif dash and first.isdecimal() and last.isdecimal():
            out += [name for name in range(int(first), int(last) + 1) if name in graph.index]
        elif word.lstrip("-").isdecimal():
            out.append(int(word))
        elif word:
            graph.row(word)  # says that there is none
    return out
