"""``tempose export``."""

from __future__ import annotations

import argparse

from tempose.cli import console
from tempose.cli.commands import Commands, add_command


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose export``."""
    parser = add_command(
        commands,
        "export",
        summary,
        run,
        """
        tempose export result covariances.csv
        tempose export result covariances.npz --convention ros
        tempose export result pairs.csv --pairs 0:10,3:7 --convention gtsam
        tempose export result database.db
        """,
    )
    parser.add_argument("result", metavar="RESULT", help="the directory of a solve")
    parser.add_argument(
        "output",
        metavar="FILE",
        help="file to write (.csv, .npz); or a COLMAP database (.db), whose pose priors are replaced by the positions",
    )
    parser.add_argument(
        "--convention",
        default="tempose",
        choices=["tempose", "gtsam", "ros", "g2o", "colmap"],
        help="frame and order of the covariances (default: tempose)",
    )
    parser.add_argument(
        "--pairs", metavar="A:B,...", help="relative poses of these nodes, B seen from A, in place of all nodes"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the covariances of a solve."""
    from tempose.errors import OptionError
    from tempose.io.covariances import write_covariances
    from tempose.solution import Solution

    solution = Solution.load(arguments.result)
    if str(arguments.output).endswith(".db"):
        from tempose.interop import write_colmap_pose_priors

        if arguments.pairs is not None or arguments.convention != "tempose":
            raise OptionError("pose priors of COLMAP have a form of their own: leave out --pairs and --convention")
        count = write_colmap_pose_priors(arguments.output, solution)
        console.say(arguments, f"{arguments.output}: {count} pose priors")
        console.emit(arguments, {"output": arguments.output, "pose_priors": count})
        return 0
    pairs = None if arguments.pairs is None else parse_pairs(arguments.pairs)
    table = solution.covariances(arguments.convention, pairs=pairs)
    write_covariances(arguments.output, table)
    what = "pairs" if pairs is not None else "nodes"
    order = " ".join(table.axes)
    console.say(
        arguments,
        f"{arguments.output}: covariances of {len(table.names)} {what}, {table.convention}: {order} ({table.gauge})",
    )
    facts = {"output": arguments.output, "rows": len(table.names), "convention": table.convention}
    console.emit(arguments, {**facts, "axes": list(table.axes), "gauge": table.gauge, "source": table.source})
    return 0


def parse_pairs(text: str) -> list[tuple[int | str, int | str]]:
    """Pairs of nodes, ``A:B`` after a comma each; names that are integers are integers."""
    from tempose.errors import OptionError
    from tempose.io.csvfile.tables import read_name

    pairs = []
    for word in text.split(","):
        ends = word.split(":")
        if len(ends) != 2 or not all(end.strip() for end in ends):
            raise OptionError(f"--pairs has {word!r}; expected two names with a colon between, A:B")
        a, b = (read_name("--pairs", 0, end, "name") for end in ends)
        pairs.append((a, b))
    return pairs
