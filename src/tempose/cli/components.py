"""``tempose components``."""

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
    """Options of ``tempose components``."""
    parser = add_command(
        commands,
        "components",
        summary,
        run,
        """
        tempose components graph.g2o
        tempose components graph.g2o --ids 0:99,100:199 -o weighted.csv
        tempose components graph.g2o --groups instruments.csv -o weighted.csv
        """,
    )
    add_graph(parser)
    by = parser.add_mutually_exclusive_group()
    by.add_argument(
        "--by",
        choices=["kind", "all"],
        default="kind",
        help="groups: by kind of measurement (odometry, loops, fixes, ...; default), or all in one",
    )
    by.add_argument(
        "--ids",
        metavar="A:B,...",
        help="groups: edges whose nodes are both in a range of ids; those in none are one more",
    )
    by.add_argument(
        "--groups", metavar="FILE", help="groups: a table i,j,group of the edges; those not in it are one more"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the graph with the estimated noise (.csv, .g2o)")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Estimate the noise of groups of edges."""
    from tempose.analysis.components import edge_kinds, variance_components
    from tempose.io import write_graph

    graph = read_graph(arguments)
    console.notice(arguments, *graph.notices)
    if arguments.ids is not None:
        groups = by_ids(graph, arguments.ids)
    elif arguments.groups is not None:
        groups = by_table(graph, arguments.groups)
    else:
        groups = edge_kinds(graph) if arguments.by == "kind" else ["all"] * graph.n_edges
    found = variance_components(graph, groups, graph.initial)
    rows, facts = [], []
    for k, name in enumerate(found.names):
        factor, error, left = float(found.sigma_factor[k]), float(found.relative_error[k]), float(found.redundancy[k])
        known = bool(found.estimated[k])
        said = (
            f"σ {factor:.3g} times as stated, ± {100 * error:.0f}% or more"
            if known
            else "as stated: too little checks them"
        )
        rows.append((f"{name} ({found.edges[k]} edges, redundancy {left:.0f})", said))
        facts.append(
            {
                "group": name,
                "edges": int(found.edges[k]),
                "redundancy": left,
                "sigma_factor": factor,
                "estimated": known,
            }
        )
    console.table(arguments, rows, arguments.graph)
    if not found.converged:
        console.notice(
            arguments, "the factors have not settled: groups that only check each other cannot be told apart"
        )
    if arguments.output is not None:
        write_graph(arguments.output, found.graph, found.graph.initial)
        console.say(arguments, f"written to {arguments.output}")
    console.emit(arguments, {"groups": facts, "converged": found.converged})
    return 0


def by_ids(graph: PoseGraph, text: str) -> list[str]:
    """Groups of edges by ranges of ids."""
    from tempose.errors import OptionError

    ranges = []
    for word in text.split(","):
        ends = word.split(":")
        if len(ends) != 2 or not all(end.strip().lstrip("-").isdecimal() for end in ends):
            raise OptionError(f"--ids has {word!r}; expected a range of ids, A:B")
        ranges.append((word.strip(), int(ends[0]), int(ends[1])))

    def group(a: NodeId, b: NodeId) -> str:
        for name, low, high in ranges:
            if all(isinstance(one, int) and low <= one <= high for one in (a, b)):
                return name
        return "others"

    return [group(a, b) for a, b in _ends(graph)]


def by_table(graph: PoseGraph, path: str) -> list[str]:
    """Groups of edges by a table of their ends; the order of the ends does not matter."""
    import csv

    from tempose.errors import ParseError
    from tempose.io.csvfile.tables import read_name

    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except UnicodeDecodeError:
        raise ParseError(path, None, "not a text file; expected a table i,j,group") from None
    header = [word.strip() for word in rows[0]] if rows else []
    if not {"i", "j", "group"} <= set(header):
        raise ParseError(path, 1, f"expected the columns i,j,group, not {','.join(header)}")
    at = [header.index(name) for name in ("i", "j", "group")]
    named = {}
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) <= max(at) or not row[at[2]].strip():
            raise ParseError(path, line, "expected an i, a j and the name of a group")
        named[frozenset(read_name(path, line, row[k], name) for k, name in zip(at[:2], "ij", strict=True))] = row[
            at[2]
        ].strip()
    ends = [frozenset(pair) for pair in _ends(graph)]
    for pair in named:
        if pair not in set(ends):
            words = " and ".join(map(repr, sorted(pair, key=str)))
            raise ParseError(path, None, f"has an edge between {words}, which is not in the graph")
    return [named.get(pair, "others") for pair in ends]


def _ends(graph: PoseGraph) -> list[tuple[NodeId, NodeId]]:
    ids = graph.node_ids
    return [(ids[i], ids[j]) for i, j in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)]
