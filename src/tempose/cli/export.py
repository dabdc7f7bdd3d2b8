"""``tempose export``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempose.cli import console
from tempose.cli.commands import Commands, add_command

if TYPE_CHECKING:
    from tempose.solution import Solution


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
        tempose export result poses.mcap --times times.csv --frame-id map
        tempose export result ellipses.csv --ellipses
        tempose export result database.db
        tempose export result poses.rrd
        tempose export scene points.laz
        """,
    )
    parser.add_argument("result", metavar="RESULT", help="the directory of a solve, or of 'tempose sfm'")
    parser.add_argument(
        "output",
        metavar="FILE",
        help="file to write: covariances (.csv, .npz); poses with covariance for ROS and Foxglove (.mcap, .bag); a COLMAP database "
        "(.db), whose pose priors are replaced by the positions; a recording for rerun (.rrd). Of 'tempose sfm': points with σ "
        "(.laz, .las, .ply), a recording (.rrd), cameras for NeRF and splats (.json)",
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
    parser.add_argument(
        "--ellipses",
        action="store_true",
        help="horizontal 95%% ellipses (half axes, azimuth) and vertical σ instead (.csv)",
    )
    parser.add_argument(
        "--times",
        metavar="FILE",
        help="times of the nodes for ROS: a table id,time (seconds), or one number per line (default: 0, 1, 2, ... seconds)",
    )
    parser.add_argument("--frame-id", metavar="NAME", default="map", help="what ROS calls the world (default: map)")


def run(arguments: argparse.Namespace) -> int:
    """Write the covariances of a solve."""
    from tempose.errors import OptionError
    from tempose.io.covariances import write_covariances
    from tempose.solution import Solution

    if (Path(arguments.result) / "scene.npz").exists():
        return _write_scene(arguments)
    solution = Solution.load(arguments.result)
    if str(arguments.output).endswith(".rrd"):
        return _write_recording(arguments, solution)
    if str(arguments.output).endswith(".db"):
        from tempose.interop import write_colmap_pose_priors

        if arguments.pairs is not None or arguments.convention != "tempose":
            raise OptionError("pose priors of COLMAP have a form of their own: leave out --pairs and --convention")
        count = write_colmap_pose_priors(arguments.output, solution)
        console.say(arguments, f"{arguments.output}: {count} pose priors")
        console.emit(arguments, {"output": arguments.output, "pose_priors": count})
        return 0
    if str(arguments.output).endswith((".mcap", ".bag")):
        return _write_bag(arguments, solution)
    if arguments.times is not None:
        raise OptionError("--times is for bags of ROS (.mcap, .bag)")
    pairs = None if arguments.pairs is None else parse_pairs(arguments.pairs)
    if arguments.ellipses:
        return _write_ellipses(arguments, solution, pairs)
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


def _write_scene(arguments: argparse.Namespace) -> int:
    """Write the points, or the cameras, of a reconstruction."""
    import numpy as np

    from tempose.errors import FileError
    from tempose.io.las import write_las
    from tempose.io.ply import write_ply
    from tempose.io.rerun import write_recording
    from tempose.io.transforms import write_transforms
    from tempose.sfm.files import cloud_columns, load_scene

    scene = load_scene(arguments.result)
    columns, output, ending = cloud_columns(scene), arguments.output, Path(arguments.output).suffix.lower()
    if ending in (".las", ".laz"):
        write_las(output, columns)
    elif ending == ".ply":
        write_ply(output, columns)
    elif ending == ".json":
        write_transforms(output, scene.poses, scene.intrinsics, scene.image_size)
    elif ending == ".rrd":
        points, colours = (np.column_stack([columns[n] for n in names]) for names in ("xyz", ("red", "green", "blue")))
        write_recording(output, scene.poses, scene.camera_covariance, points=points, colours=colours)
    else:
        raise FileError(f"{output}: a reconstruction is written as .laz, .las, .ply, .rrd or .json")
    count = len(columns["x"])
    console.say(arguments, f"{output}: {count} points and {len(scene.poses.ids)} cameras, lengths in {scene.unit}")
    console.emit(arguments, {"output": output, "points": count, "cameras": len(scene.poses.ids), "unit": scene.unit})
    return 0


def _write_recording(arguments: argparse.Namespace, solution: Solution) -> int:
    """Write poses, ellipsoids and edges for rerun."""
    import numpy as np

    from tempose.io.rerun import write_recording

    graph, poses = solution.graph, solution.poses
    ids = graph.node_ids
    rows = {name: k for k, name in enumerate(poses.ids)}
    both = [(ids[i], ids[j]) for i, j in zip(graph.edge_i.tolist(), graph.edge_j.tolist(), strict=True)]
    edges = np.array([(rows[a], rows[b]) for a, b in both if a in rows and b in rows], np.int64).reshape(-1, 2)
    write_recording(arguments.output, poses, None if solution.nodes is None else solution.nodes.covariance, edges)
    console.say(arguments, f"{arguments.output}: {len(poses.ids)} poses and {len(edges)} edges ({solution.gauge})")
    console.emit(arguments, {"output": arguments.output, "rows": len(poses.ids), "gauge": str(solution.gauge)})
    return 0


def _write_ellipses(
    arguments: argparse.Namespace, solution: Solution, pairs: list[tuple[int | str, int | str]] | None
) -> int:
    """Write error ellipses of nodes, or relative ones of pairs."""
    from tempose._support.files import write_atomically
    from tempose._support.tables import csv_text
    from tempose.errors import FileError
    from tempose.io.csvfile.tables import name_text

    if not str(arguments.output).endswith(".csv"):
        raise FileError(f"{arguments.output}: ellipses are written as .csv")
    found = solution.ellipses(pairs=pairs)
    names = (
        [[name_text(name) for name in solution.poses.ids]]
        if pairs is None
        else [[name_text(p[k]) for p in pairs] for k in (0, 1)]
    )
    keys = ["id"] if pairs is None else ["a", "b"]
    header = [*keys, "ellipse_a", "ellipse_b", "azimuth_deg", "sigma_vertical"]
    columns = [found.major, found.minor, found.azimuth_deg, found.sigma_vertical]
    write_atomically(arguments.output, csv_text(header, [*names, *columns]).encode())
    what = "nodes" if pairs is None else "pairs"
    console.say(arguments, f"{arguments.output}: 95% ellipses of {len(found.major)} {what} ({solution.gauge})")
    console.emit(arguments, {"output": arguments.output, "rows": len(found.major), "confidence": found.confidence})
    return 0


def _write_bag(arguments: argparse.Namespace, solution: Solution) -> int:
    """Write poses with covariance in the order of ROS."""
    from tempose.errors import OptionError
    from tempose.io.rosbag import write_bag
    from tempose.io.times import read_times

    if arguments.pairs is not None or arguments.convention not in ("tempose", "ros"):
        raise OptionError("bags of ROS hold poses of nodes in the order of ROS: leave out --pairs and --convention")
    posed = [name for name in solution.poses.ids if name not in set(solution.graph.landmarks)]
    seconds = {name: float(k) for k, name in enumerate(posed)}
    if arguments.times is not None:
        seconds = read_times(arguments.times)
        known = [name for name in posed if name in seconds]
        if len(known) < len(posed):
            missing = next(name for name in posed if name not in seconds)
            raise OptionError(f"{arguments.times}: has no time of node {missing!r}")
    table = solution.covariances("ros", nodes=posed)
    when = [round(seconds[name] * 1e9) for name in posed]
    write_bag(arguments.output, solution.poses.select(posed), table.covariance, when, frame_id=arguments.frame_id)
    console.say(arguments, f"{arguments.output}: {len(posed)} poses with covariance ({table.gauge})")
    console.emit(
        arguments, {"output": arguments.output, "rows": len(posed), "gauge": table.gauge, "source": table.source}
    )
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
