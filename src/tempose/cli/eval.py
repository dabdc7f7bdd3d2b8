"""``tempose eval``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempose._support.tables import text_table
from tempose.cli import console
from tempose.cli.commands import CommandParser, Commands, add_alignment, add_command

if TYPE_CHECKING:
    from tempose._typing import Array, NodeId
    from tempose.analysis.accuracy import PoseErrors
    from tempose.analysis.trajectories import Matched
    from tempose.model.graph import PoseGraph
    from tempose.model.poses import Poses


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose eval``."""
    parser = add_command(
        commands,
        "eval",
        summary,
        run,
        """
        tempose eval result g.truth.g2o --json
        tempose eval est.tum truth.tum --max-difference 0.02 --alignment positions-se3
        tempose eval result truth.tum --times times.csv --time-offset auto
        """,
    )
    parser.add_argument(
        "estimate",
        metavar="EST",
        help="estimated poses: a file (g2o, tum, kitti, euroc, csv), the directory of a solve or of sfm, or a COLMAP model",
    )
    parser.add_argument("truth", metavar="TRUTH", help="true poses, of any of these, or of a data set that has them")
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
    _add_times(parser)
    group = parser.add_argument_group("relative pose errors (RPE)")
    group.add_argument(
        "--delta", type=float, default=1.0, metavar="X", help="how far the two poses of a pair are apart (default: 1)"
    )
    group.add_argument(
        "--delta-unit",
        default="frames",
        choices=["frames", "length", "degrees"],
        help="unit of --delta: poses (default), length of the path, or angle turned on the way",
    )
    group.add_argument(
        "--all-pairs", action="store_true", help="pairs may overlap (default: one begins where one ends)"
    )


def _add_times(parser: CommandParser) -> None:
    """How poses are matched by time."""
    group = parser.add_argument_group("matching by time (default: by the names of nodes)")
    group.add_argument(
        "--max-difference",
        type=float,
        metavar="SECONDS",
        help="match poses whose times differ by no more (0.01 if another option of this group is given)",
    )
    group.add_argument(
        "--time-offset", metavar="SECONDS", help="what to add to the times of EST; auto: search for it, within 10 s"
    )
    group.add_argument(
        "--times", metavar="FILE", help="times of EST's nodes: a table id,time (seconds), or one number per line"
    )
    group.add_argument("--truth-times", metavar="FILE", help="the same for TRUTH")


def run(arguments: argparse.Namespace) -> int:
    """Compare poses with the truth."""
    from tempose.analysis.accuracy import graph_consistency, pose_errors
    from tempose.geometry import ALIGNMENTS
    from tempose.io.files import read_vertices
    from tempose.model.graph import WORLD

    path = Path(arguments.estimate)
    estimate, _, points = read_vertices(path)
    truth, _, true_points = read_vertices(arguments.truth)
    landmarks = {*points, *true_points}
    pairs = {name: getattr(arguments, name) for name in ("delta", "delta_unit", "all_pairs")}
    graph = _graph(arguments, path)
    all_of, timed = estimate, _matched(arguments, path, estimate, truth, landmarks)
    if timed is not None:
        estimate, truth, landmarks = timed.estimate, timed.truth, set()
    errors = pose_errors(
        estimate, truth, arguments.alignment, robust=arguments.l1_alignment, landmarks=landmarks, **pairs
    )
    consistency = None
    if graph is not None:
        consistency = graph_consistency(graph, all_of.with_identity(WORLD).select(graph.node_ids))
    plain = None
    if errors.alignment != "none" and _in_the_world(path, graph):
        plain = pose_errors(estimate, truth, "none", landmarks=landmarks, **pairs)
    console.table(
        arguments,
        [
            ("nodes compared", str(errors.n_nodes)),
            *([] if timed is None else [("matched by time", _in_seconds(timed))]),
            ("alignment", ALIGNMENTS[errors.alignment] + (", L1" if errors.robust else "")),
            ("scale", f"{errors.scale:.6g}"),
            ("MRE, mean rotation error", f"{errors.mean_rotation_deg:.6g}°"),
            ("median rotation error", f"{errors.median_rotation_deg:.6g}°"),
            ("MTE, mean translation error", f"{errors.mean_translation:.6g}"),
            ("median translation error", f"{errors.median_translation:.6g}"),
            ("ATE, root mean square", f"{errors.ate_rmse:.6g}"),
            (f"RPE, {_pairs(arguments)}", f"{errors.rpe_rotation_deg:.6g}° and {errors.rpe_translation:.6g}"),
            *([] if plain is None else [("without alignment", _in_words(plain))]),
            (
                "graph consistency",
                "unknown: give the graph with --graph" if consistency is None else f"{consistency:.6f}",
            ),
        ],
    )
    header = ["", "rmse", "mean", "median", "std", "min", "max", "sse"]
    rows = [[_NAMES[name], *(f"{one[key]:.6f}" for key in header[1:])] for name, one in errors.statistics.items()]
    if not arguments.quiet and not arguments.json:
        console.say(arguments, text_table([header, *rows], indent="  "))
    more: dict[str, Any] = {} if plain is None else {"without_alignment": plain.as_dict()}
    if timed is not None:
        more["matched_by_time"] = {"time_offset": timed.offset, "largest_difference": timed.largest}
    console.emit(arguments, {**errors.as_dict(), **more, "graph_consistency": consistency})
    return 0


_NAMES = {
    "ape_translation": "APE, translation",
    "ape_rotation_deg": "APE, rotation (°)",
    "rpe_translation": "RPE, translation",
    "rpe_rotation_deg": "RPE, rotation (°)",
}


def _pairs(arguments: argparse.Namespace) -> str:
    """Which pairs RPE is about, in words."""
    if arguments.delta == 1.0 and arguments.delta_unit == "frames":
        return "consecutive nodes"
    unit = {"frames": " nodes apart", "length": " of the path apart", "degrees": "° of turning apart"}
    return f"{arguments.delta:g}{unit[arguments.delta_unit]}"


def _in_seconds(timed: Matched) -> str:
    offset = f", the estimate's shifted by {timed.offset:.6f} s" if timed.offset else ""
    return f"within {timed.largest:.6f} s{offset}"


def _matched(
    arguments: argparse.Namespace, file: Path, estimate: Poses, truth: Poses, landmarks: set[NodeId]
) -> Matched | None:
    """Poses that belong together by time, if that was asked for."""
    from tempose.analysis.trajectories import find_offset, match
    from tempose.errors import OptionError

    asked = (arguments.max_difference, arguments.time_offset, arguments.times, arguments.truth_times)
    if all(value is None for value in asked):
        return None
    estimate, times = _timed(file, estimate, arguments.times, "--times", landmarks)
    truth, true_times = _timed(Path(arguments.truth), truth, arguments.truth_times, "--truth-times", landmarks)
    offset = 0.0
    if arguments.time_offset == "auto":
        offset = find_offset(estimate, times, truth, true_times, with_scale=arguments.alignment.endswith("sim3"))
    elif arguments.time_offset is not None:
        try:
            offset = float(arguments.time_offset)
        except ValueError:
            raise OptionError(f"--time-offset is {arguments.time_offset!r}; expected seconds, or auto") from None
    nearest = 0.01 if arguments.max_difference is None else arguments.max_difference
    return match(estimate, times, truth, true_times, nearest, offset)


def _timed(path: Path, poses: Poses, table: str | None, flag: str, landmarks: set[NodeId]) -> tuple[Poses, Array]:
    """Poses whose time is known, and their times in seconds, from a table or from their names."""
    import numpy as np

    from tempose.errors import OptionError
    from tempose.io.files import time_stamps
    from tempose.io.times import read_times

    poses = poses.select([name for name in poses.ids if name not in landmarks])
    if table is None:
        stamps = time_stamps(path, poses)
        if stamps is None:
            raise OptionError(f"{path}: its nodes are not named by times; give a table of ids and times with {flag}")
        return poses, stamps
    known = read_times(table)
    poses = poses.select([name for name in poses.ids if name in known])
    if not len(poses):
        raise OptionError(f"{table}: has the time of none of the nodes in {path}")
    return poses, np.array([known[name] for name in poses.ids])


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
    try:
        return read_graph(estimate)
    except TemposeError:
        return None
