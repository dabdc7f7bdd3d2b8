"""``tempose simulate``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tempose._support.files import write_atomically
from tempose._support.tables import csv_text
from tempose.cli import console
from tempose.cli.commands import Commands, add_command
from tempose.cli.flags import count_or_share

if TYPE_CHECKING:
    from tempose.simulation import Simulated

_HOLDS = (
    "planar", "correlated", "gps", "gps_sigma", "gps_up", "lever_arm", "attitudes", "attitude_sigma_deg", "landmarks",
    "sightings", "landmark_sigma", "fixed", "wrong_edges", "wrong_loops", "wrong_odometry", "aliases", "alias_nodes",
    "loops_per_node", "loop_reach",
)  # fmt: skip


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose simulate``."""
    parser = add_command(
        commands,
        "simulate",
        summary,
        run,
        """
        tempose simulate --nodes 50 --completeness 0.5 --sigma-rot-deg 3 --sigma-trans 0.05 --seed 1 -o g.g2o
        tempose simulate --planar --shape trajectory --nodes 300 --landmarks 20 -o plane.g2o
        tempose simulate --planar --shape manhattan --nodes 500 --wrong-loops 0.3 -o manhattan.g2o
        tempose simulate --shape manhattan --nodes 100 --aliases 3 -o lookalikes.g2o
        tempose simulate --shape trajectory --nodes 300 --correlated --gps-nodes 0.1 --gps-sigma 0.02 -o outdoors.g2o
        """,
    )
    parser.add_argument("--nodes", type=int, default=50, help="number of poses (default 50)")
    parser.add_argument(
        "--shape",
        default="random",
        choices=["random", "sphere", "torus", "grid", "trajectory", "manhattan"],
        help="kind of graph (default: random, the paper's)",
    )
    parser.add_argument(
        "--completeness",
        type=float,
        metavar="SHARE",
        help="share of the possible edges that are measured (default 0.5; manhattan: 0.6 loop closures per node)",
    )
    parser.add_argument("--loops-per-node", type=float, metavar="N", help="loop closures, in place of the completeness")
    parser.add_argument(
        "--loop-reach",
        type=float,
        metavar="STEPS",
        help="how near to an earlier place loops are closed (default: trajectory 1, manhattan 2)",
    )
    parser.add_argument(
        "--sigma-rot-deg", type=float, default=3.0, metavar="DEG", help="rotation noise per axis (default 3)"
    )
    parser.add_argument(
        "--sigma-trans", type=float, default=0.05, metavar="LENGTH", help="translation noise per axis (default 0.05)"
    )
    more = parser.add_argument_group("what the graph holds")
    more.add_argument("--planar", action="store_true", help="all in the plane: random, grid, trajectory or manhattan")
    more.add_argument(
        "--correlated",
        nargs="?",
        const="registration",
        default=False,
        choices=["registration", "random"],
        help="correlated errors of rotation and translation, as of scans (default) or at random",
    )
    more.add_argument(
        "--gps-nodes",
        dest="gps",
        type=count_or_share,
        default=0,
        metavar="N",
        help="poses with a fix: a number, or a share below 1",
    )
    more.add_argument(
        "--gps-sigma", type=float, default=0.05, metavar="LENGTH", help="of a fix per axis (default 0.05)"
    )
    more.add_argument("--gps-up", type=float, default=1.0, metavar="FACTOR", help="of its sigma upwards (default 1)")
    more.add_argument("--lever-arm", type=float, default=0.0, metavar="LENGTH", help="from pose to antenna (default 0)")
    more.add_argument("--attitudes", type=float, default=0, metavar="N", help="poses with a measured orientation")
    more.add_argument("--attitude-sigma-deg", type=float, default=1.0, metavar="DEG", help="per axis (default 1)")
    more.add_argument("--landmarks", type=int, default=0, metavar="N", help="points seen from poses near them")
    more.add_argument("--sightings", type=int, default=4, metavar="N", help="poses that see each landmark (default 4)")
    more.add_argument("--landmark-sigma", type=float, metavar="LENGTH", help="of a sighting (default: --sigma-trans)")
    more.add_argument("--fixed", type=int, default=0, metavar="N", help="poses that are held at the truth")
    wrong = parser.add_argument_group("wrong edges, listed in FILE with .wrong.csv for its ending")
    wrong.add_argument(
        "--wrong-edges",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of measurements that are replaced by any rotation and translation (default 0)",
    )
    wrong.add_argument(
        "--wrong-loops",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of loop closures that are replaced by any motion within the scene (default 0)",
    )
    wrong.add_argument(
        "--wrong-odometry",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="share of motions between consecutive nodes that are replaced (default 0)",
    )
    wrong.add_argument(
        "--aliases",
        type=int,
        default=0,
        metavar="N",
        help="places that look like others, with wrong edges that agree with each other (default 0)",
    )
    wrong.add_argument("--alias-nodes", type=int, default=8, metavar="N", help="nodes of such a place (default 8)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same graph (default 0)")
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="graph to write; the truth goes to FILE with .truth before its ending",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write a synthetic graph and its truth."""
    from tempose.io import write_graph, write_poses
    from tempose.optimum.trees import most_certain_tree, tree_poses
    from tempose.simulation import simulate

    made = simulate(
        arguments.nodes,
        shape=arguments.shape,
        completeness=arguments.completeness,
        sigma_rot_deg=arguments.sigma_rot_deg,
        sigma_trans=arguments.sigma_trans,
        **{name: getattr(arguments, name) for name in _HOLDS},
        seed=arguments.seed,
    )
    graph = made.graph
    path = Path(arguments.output)
    truth = path.with_name(f"{path.stem}.truth{path.suffix}")
    write_graph(path, graph, tree_poses(graph, most_certain_tree(graph)))
    write_poses(truth, made.truth, planar=graph.is_planar, landmarks=graph.landmarks)
    asked = any(getattr(arguments, name) for name in ("wrong_edges", "wrong_loops", "wrong_odometry", "aliases"))
    wrong = path.with_suffix(".wrong.csv")
    if asked:
        write_atomically(wrong, _wrong_table(made, path).encode())
    console.say(
        arguments, f"{path}: {len(made.graph.reported)} nodes, {made.graph.n_edges} edges; the truth is in {truth}"
    )
    if asked:
        console.say(arguments, f"{int(made.is_wrong.sum())} edges are wrong: {wrong}")
    console.emit(
        arguments,
        {
            "graph": str(path),
            "truth": str(truth),
            "seed": arguments.seed,
            "shape": arguments.shape,
            "n_nodes": len(made.graph.reported),
            "n_edges": made.graph.n_edges,
            **({"wrong": str(wrong), "n_wrong": int(made.is_wrong.sum())} if asked else {}),
        },
    )
    return 0


def _wrong_table(made: Simulated, path: Path) -> str:
    """The wrong edges by the ids they join, as the file ``path`` has them, and the look-alike place that each is of, if any."""
    from tempose.io.files import edges_measure

    rows = made.is_wrong.nonzero()[0]
    names = replace(made.graph, measures=edges_measure(path)).edge_names(rows)
    ends = ([pair[end] for pair in names] for end in (0, 1))
    return csv_text(("i", "j", "alias"), [*ends, [None if k < 0 else k for k in made.alias[rows].tolist()]])
