"""``tempose plan``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_graph
from tempose.cli.inputs import add_reading, read_graph

if TYPE_CHECKING:
    from tempose.analysis.planning import Plan
    from tempose.model.graph import PoseGraph


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose plan``."""
    parser = add_command(
        commands,
        "plan",
        summary,
        run,
        """
        tempose plan network.g2o -o plan
        tempose plan network.g2o --candidates more.csv
        tempose plan network.g2o --reach 20 --best 5
        """,
    )
    add_graph(parser)
    parser.add_argument("--where", metavar="FILE", help="where nodes will be, about (default: the graph's own poses)")
    parser.add_argument("--candidates", metavar="FILE", help="a graph of further edges: which of them would help most")
    parser.add_argument(
        "--reach",
        type=float,
        metavar="LENGTH",
        help="candidates are pairs at most this far apart, with the median noise",
    )
    parser.add_argument("--best", type=int, default=10, metavar="N", help="how many candidates to print (default: 10)")
    parser.add_argument(
        "--gauge", type=str, default="auto", metavar="NAME", help="what error bars refer to (default: auto)"
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="directory for nodes.csv, edges.csv and candidates.csv")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> int:
    """Plan a network."""
    import numpy as np

    from tempose import describe
    from tempose.analysis.planning import plan
    from tempose.io import read_poses

    graph = read_graph(arguments)
    console.notice(arguments, *graph.notices)
    poses = None if arguments.where is None else read_poses(arguments.where).shifted(-graph.world_origin)
    found = plan(graph, poses, arguments.gauge)
    extra, gains = _candidates(arguments, found)
    order = np.argsort(-gains, kind="stable")
    rows = [
        ("nodes, edges", f"{len(graph.reported)}, {graph.n_edges}"),
        ("median 1σ per axis", describe.sigmas(found.nodes)),
    ]
    rows.append(("error bars", str(found.nodes.gauge)))
    weakest = found.reliability.weakest
    if weakest is not None:
        rows.append(("median redundancy", f"{float(np.median(found.reliability.redundancy)):.2f}"))
        rows.append(("weakest edge", describe.reliability(found.reliability, graph)))
    for k in order[: arguments.best]:
        assert extra is not None
        rows.append((f"add {extra.edge_name(k)}", f"{100 * gains[k]:.1f}% less position variance"))
    console.table(arguments, rows, arguments.graph)
    best = [] if extra is None else [_fact(extra, int(k), float(gains[k])) for k in order[: arguments.best]]
    if arguments.output is not None:
        _write(Path(arguments.output), found, extra, gains, order)
        console.say(arguments, f"written to {arguments.output}")
    median = {"median_redundancy": float(np.median(found.reliability.redundancy))}
    sigma = {"median_sigma_pos": float(np.nanmedian(found.nodes.sigma_pos)), "gauge": str(found.nodes.gauge)}
    console.emit(arguments, {**sigma, **median, "candidates": best})
    return 0


def _candidates(arguments: argparse.Namespace, found: Plan) -> tuple[PoseGraph | None, Any]:
    import numpy as np

    from tempose.analysis.planning import nearby
    from tempose.errors import OptionError
    from tempose.io import read_graph as read

    if arguments.candidates is not None and arguments.reach is not None:
        raise OptionError("give --candidates or --reach, not both")
    if arguments.candidates is not None:
        extra = read(arguments.candidates)
    elif arguments.reach is not None:
        extra = nearby(found.graph, found.laplace.poses, arguments.reach)
    else:
        return None, np.empty(0)
    return extra, found.gains(extra)


def _fact(extra: PoseGraph, k: int, gain: float) -> dict[str, Any]:
    i, j = extra.edge_names([k])[0]
    return {"i": i, "j": j, "gain": gain}


def _write(home: Path, found: Plan, extra: PoseGraph | None, gains: Any, order: Any) -> None:
    from tempose._support.files import make_directory, write_atomically
    from tempose._support.tables import csv_text
    from tempose.io.csvfile.tables import name_text

    make_directory(home)
    graph, ellipses = found.graph, found.ellipses()
    names = [name_text(name) for name in found.nodes.mean.ids]
    columns = [
        names, *found.nodes.mean.position.T, found.nodes.sigma_rot_deg, found.nodes.sigma_pos,
        ellipses.major, ellipses.minor, ellipses.azimuth_deg, ellipses.sigma_vertical,
    ]  # fmt: skip
    header = [
        "id",
        "x",
        "y",
        "z",
        "sigma_rot_deg",
        "sigma_pos",
        "ellipse_a",
        "ellipse_b",
        "azimuth_deg",
        "sigma_vertical",
    ]
    write_atomically(home / "nodes.csv", csv_text(header, columns).encode())
    one = found.reliability
    ends = [[name_text(name) for name in end] for end in zip(*graph.edge_names(), strict=True)]
    header = ["i", "j", "redundancy", "mde_rot_deg", "mde_trans", "external_reliability"]
    table = csv_text(header, [*ends, one.redundancy, one.mde_rot_deg, one.mde_trans, one.external])
    write_atomically(home / "edges.csv", table.encode())
    if extra is not None:
        ends = [[name_text(name) for name in end] for end in zip(*extra.edge_names(order), strict=True)] or [[], []]
        write_atomically(home / "candidates.csv", csv_text(["i", "j", "gain"], [*ends, gains[order]]).encode())
