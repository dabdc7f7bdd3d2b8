"""``tempose change``."""

from __future__ import annotations

import argparse

from tempose.cli import console
from tempose.cli.commands import Commands, add_command


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose change``."""
    parser = add_command(commands, "change", summary, run, "tempose change spring autumn -o changes.csv")
    parser.add_argument("first", metavar="A", help="the directory of the earlier solve")
    parser.add_argument(
        "second", metavar="B", help="the directory of the later solve, of a graph of its own measurements"
    )
    parser.add_argument(
        "--level",
        type=float,
        default=0.05,
        metavar="P",
        help="chance that any node is called moved if none did (default: 0.05)",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="table of all nodes: displacement, σ, p-value, moved (.csv)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Say which nodes moved between two solves."""
    import numpy as np

    from tempose._support.files import write_atomically
    from tempose._support.tables import csv_text
    from tempose.analysis.epochs import changes
    from tempose.errors import DrawsError
    from tempose.io.csvfile.tables import name_text
    from tempose.solution import Solution

    found = []
    for path in (arguments.first, arguments.second):
        solution = Solution.load(path)
        bars = solution.analysis.error_bars
        if bars is None:
            raise DrawsError(f"{path}: has no Gaussian approximation, without which nothing can be compared")
        found.append(bars)
    result = changes(found[0], found[1], arguments.level)
    where = (
        "the frame of both is the world's"
        if result.common_frame
        else "the frame is that of the nodes that did not move"
    )
    rows = [
        ("nodes compared", f"{len(result.ids)}; {where}"),
        ("congruence", f"χ² {result.statistic:.4g} of {result.freedom}, p = {result.congruence_p:.3g}"),
        ("moved", f"{len(result.moved)} (at most {100 * result.level:g}% chance of any false alarm)"),
    ]
    sigma = np.sqrt(np.maximum(np.einsum("naa->na", result.covariance), 0.0))
    index = {name: k for k, name in enumerate(result.ids)}
    for name in result.moved:
        k = index[name]
        shift, turn = result.displacement[k, 3:], np.degrees(np.linalg.norm(result.displacement[k, :3]))
        spread = float(np.sqrt(np.mean(sigma[k, 3:] ** 2)))
        rows.append(
            (
                f"node {name}",
                f"{np.linalg.norm(shift):.4g} and {turn:.3g}° (σ {spread:.3g}), p = {result.p_value[k]:.2g}",
            )
        )
    console.table(arguments, rows)
    if arguments.output is not None:
        moved = set(result.moved)
        header = ["id", "moved", "p_value", "rx_deg", "ry_deg", "rz_deg", "x", "y", "z"]
        header += [f"sigma_{axis}" for axis in header[3:]]
        unit = np.array([np.degrees(1.0)] * 3 + [1.0] * 3)
        columns = [
            [name_text(name) for name in result.ids],
            [int(name in moved) for name in result.ids],
            result.p_value,
        ]
        table = csv_text(header, [*columns, *(result.displacement * unit).T, *(sigma * unit).T])
        write_atomically(arguments.output, table.encode())
        console.say(arguments, f"written to {arguments.output}")
    facts = {
        "nodes": len(result.ids),
        "moved": list(result.moved),
        "level": result.level,
        "common_frame": result.common_frame,
    }
    console.emit(
        arguments, {**facts, "statistic": result.statistic, "freedom": result.freedom, "p": result.congruence_p}
    )
    return 0
