"""``tempose eval``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempose.cli import console
from tempose.cli.commands import Commands, add_alignment, add_command

if TYPE_CHECKING:
    from tempose.analysis.accuracy import PoseErrors
    from tempose.model.graph import PoseGraph


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose eval``."""
    parser = add_command(commands, "eval", summary, run, "tempose eval result g.truth.g2o --json")
    parser.add_argument(
        "estimate", metavar="EST", help="estimated poses: a file (g2o, tum, csv) or the directory of a solve"
    )
    parser.add_argument("truth", metavar="TRUTH", help="true poses (g2o, tum, csv, or a data set that has them)")
    parser.add_argument(
        "--graph",
        metavar="FILE",
        help="graph to compute the consistency with (default: the solve's, or EST if it has edges)",
    )
    add_alignment(parser)
    parser.add_argument(
        "--l1-alignment",
        action="store_true",
        help="align in the L1 sense, so that a few wrong poses do not drag the rest",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare poses with the truth."""
    from tempose.analysis.accuracy import graph_consistency, pose_errors
    from tempose.geometry import ALIGNMENTS
    from tempose.io.files import read_vertices
    from tempose.model.graph import WORLD

    path = Path(arguments.estimate)
    of_sfm = (path / "cameras.csv").is_file()  # of 'tempose sfm'; 'tempose solve' writes poses.csv
    estimate, _, points = read_vertices(path / ("cameras.csv" if of_sfm else "poses.csv") if path.is_dir() else path)
    truth, _, true_points = read_vertices(arguments.truth)
    landmarks = {*points, *true_points}
    errors = pose_errors(estimate, truth, arguments.alignment, robust=arguments.l1_alignment, landmarks=landmarks)
    graph = _graph(arguments, path)
    consistency = None
    if graph is not None:
        consistency = graph_consistency(graph, estimate.with_identity(WORLD).select(graph.node_ids))
    plain = None
    if errors.alignment != "none" and _in_the_world(path, graph):
        plain = pose_errors(estimate, truth, "none", landmarks=landmarks)
    console.table(
        arguments,
        [
            ("nodes compared", str(errors.n_nodes)),
            ("alignment", ALIGNMENTS[errors.alignment] + (", L1" if errors.robust else "")),
            ("scale", f"{errors.scale:.6g}"),
            ("MRE, mean rotation error", f"{errors.mean_rotation_deg:.6g}°"),
            ("median rotation error", f"{errors.median_rotation_deg:.6g}°"),
            ("MTE, mean translation error", f"{errors.mean_translation:.6g}"),
            ("median translation error", f"{errors.median_translation:.6g}"),
            ("ATE, root mean square", f"{errors.ate_rmse:.6g}"),
            ("RPE, consecutive nodes", f"{errors.rpe_rotation_deg:.6g}° and {errors.rpe_translation:.6g}"),
            *([] if plain is None else [("without alignment", _in_words(plain))]),
            (
                "graph consistency",
                "unknown: give the graph with --graph" if consistency is None else f"{consistency:.6f}",
            ),
        ],
    )
    more = {} if plain is None else {"without_alignment": plain.as_dict()}
    console.emit(arguments, {**errors.as_dict(), **more, "graph_consistency": consistency})
    return 0


def _in_words(errors: PoseErrors) -> str:
    return f"MRE {errors.mean_rotation_deg:.6g}°, MTE {errors.mean_translation:.6g}, ATE {errors.ate_rmse:.6g}"


def _in_the_world(path: Path, graph: PoseGraph | None) -> bool:
    """Whether poses are those of a solve whose graph says where the world is."""
    from tempose.io.result_directory import read_facts
    from tempose.model.gauge import Gauge

    if graph is None or not (path / "result.json").is_file():
        return False
    options = read_facts(path).get("options")
    return isinstance(options, dict) and Gauge.parse(graph, options.get("gauge", "auto")).kind == "world"


def _graph(arguments: argparse.Namespace, estimate: Path) -> PoseGraph | None:
    """The graph to be consistent with: the one given, the solve's own, or the edges in the estimate's file."""
    from tempose.errors import TemposeError
    from tempose.io import read_graph

    if arguments.graph:
        return read_graph(arguments.graph)
    if estimate.is_dir():
        return read_graph(estimate / "graph.csv")
    try:
        return read_graph(estimate)
    except TemposeError:
        return None
