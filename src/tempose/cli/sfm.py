"""``tempose sfm``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tempose.cli.commands import Commands, add_cluster, add_command, add_open
from tempose.cli.places import add_place_options

if TYPE_CHECKING:
    from concurrent.futures import Executor

_RARE = ("lens_error", "mapper", "scales", "rounds", "draws", "truth", "features", "image_size", "cluster")


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose sfm``."""
    parser = add_command(
        commands,
        "sfm",
        summary,
        run,
        """
        tempose sfm photographs -o castle                      # cameras by EXIF and size; all is estimated together
        tempose sfm photographs -o castle --intrinsics K.txt   # the calibration is known, and held
        tempose sfm many -o town --match sequence --features 4000 --image-size 1600
        tempose sfm database.db -o castle --images photographs
        tempose sfm sparse/0 -o castle                         # error bars for a COLMAP model, which stays as it is
        tempose sfm photographs -o castle --posterior graph    # the paper's way: a pose graph of the pairs
        tempose sfm photographs -o site --control clicks.csv surveyed.csv --check P4,P7   # in metres; GPS in EXIF is used
        """,
        has_rare=True,
    )
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="folder of photographs, COLMAP database, or folder of a COLMAP model, which keeps its poses and points",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="DIR",
        help="directory to write; features and matches found there are used again",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="find features and matches anew, although DIR has them"
    )
    parser.add_argument(
        "--intrinsics",
        metavar="FILE",
        help="calibration: nine numbers of K (pixel centres at whole numbers) or a COLMAP cameras.txt, which is held; "
        "default: estimated with the poses, from EXIF or a guess on",
    )
    parser.rare.append(
        parser.add_argument(
            "--calibration-error",
            type=float,
            metavar="E",
            help="1σ of the calibration, relative to the focal length (of focal length, principal point and distortion); "
            "default 0.001, or 0.005 for one that is guessed; 0: perfect",
        )
    )
    photographs = parser.add_argument_group("photographs")
    photographs.add_argument(
        "--cameras",
        choices=["auto", "single", "each"],
        default="auto",
        help="which photographs share intrinsics: by EXIF and size (default), all, or none",
    )
    photographs.add_argument(
        "--match",
        choices=["auto", "all", "similar", "sequence", "gps"],
        default="auto",
        help="pairs to match: all; each with the 30 most similar, the next 10 in time, or the 30 nearest by GPS; "
        "auto (default): all of up to 40 photographs, else similar ones",
    )
    photographs.add_argument(
        "--features", type=int, default=8192, metavar="N", help="most features in a photograph (default 8192)"
    )
    photographs.add_argument(
        "--image-size",
        type=int,
        default=3200,
        metavar="PX",
        help="larger side of photographs as features are found, pixels (default 3200)",
    )
    parser.add_argument(
        "--posterior",
        choices=["adjusted", "graph", "both"],
        default="adjusted",
        help="adjusted (default): bundle adjustment of poses, points and calibration, and its error bars; graph: a pose graph of "
        "the pairs, with the calibration held (the paper's way); both: the graph goes to DIR/graph, with how far they differ",
    )
    adjusted = parser.add_argument_group("with --posterior adjusted")
    adjusted.add_argument(
        "--refined",
        metavar="GROUPS",
        help="intrinsics that are estimated, or were with a COLMAP model, of focal, centre, distortion, or none; the others are "
        "taken as known. Default for a model: focal,distortion, as COLMAP does; for photographs the same, and the principal point "
        "and more distortion where they are determined; with --intrinsics none",
    )
    adjusted.add_argument(
        "--lens-error",
        type=float,
        metavar="E",
        help="1σ of what the camera model is wrong by, relative to the larger side of the image; default: five times what "
        "residuals show, 5e-5 is usual; 0: perfect",
    )
    adjusted.add_argument(
        "--mapper",
        choices=["auto", "incremental", "global"],
        default="auto",
        help="COLMAP's mapper that makes the model of photographs or a database: incremental, global (GLOMAP), or auto (default): "
        "incremental, and where that leaves photographs out, the one of the two with more",
    )
    adjusted.add_argument(
        "--readjust",
        action="store_true",
        help="of a COLMAP model: adjust poses, points and intrinsics again, with a robust loss",
    )
    parser.rare += add_place_options(parser)
    parser.add_argument(
        "--images", metavar="DIR", help="photographs of a database or model: colours of its points, places by EXIF"
    )
    parser.add_argument(
        "--truth", metavar="PATH", help="true camera poses: folder of EPFL .camera files, or a pose file"
    )
    parser.rare += [
        parser.add_argument(
            "--colours",
            choices=["viridis", "jet"],
            default="viridis",
            help="of σ (default viridis; jet is the paper's)",
        ),
        parser.add_argument(
            "--ply-covariance", action="store_true", help="the covariance of every point as six fields of the PLY files"
        ),
    ]
    graph = parser.add_argument_group("with --posterior graph")
    graph.add_argument(
        "--scales",
        choices=["tracks", "truth"],
        default="tracks",
        help="lengths of baselines: from points that pairs share (default), or from --truth (the paper's protocol)",
    )
    graph.add_argument(
        "--rounds", type=int, default=3, help="guided rounds of choosing each pair's matches (default 3)"
    )
    graph.add_argument(
        "--draws", type=int, default=40, metavar="N", help="posterior draws the points are made again for (default 40)"
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same result (default 0)")
    add_cluster(parser, "match pairs, and with --posterior graph all that follows of pairs, halves and chains,")
    add_open(parser)
    parser.rare += [action for action in parser._actions if action.dest in _RARE]


def run(arguments: argparse.Namespace) -> int:
    """Read photographs, a database or a model; solve; write the directory; print a summary."""
    from tempose._support.cluster import workers

    with workers(arguments.cluster) as executor:
        return _run(arguments, executor)


def _run(arguments: argparse.Namespace, executor: Executor | None) -> int:
    from tempose.cli.sfm_adjusted import run_model, run_photographs
    from tempose.cli.sfm_graph import reconstruct
    from tempose.cli.solve import prepared_directory
    from tempose.io import read_poses
    from tempose.io.colmap.model import is_model
    from tempose.sfm.options import SfmOptions

    options = SfmOptions(
        scales=arguments.scales,
        rounds=arguments.rounds,
        draws=arguments.draws,
        seed=arguments.seed,
        calibration_error=arguments.calibration_error,
    )
    source, home = Path(arguments.source), Path(arguments.output)
    if arguments.posterior == "adjusted":
        changed = {
            "--scales": arguments.scales != "tracks",
            "--rounds": arguments.rounds != 3,
            "--draws": arguments.draws != 40,
        }
        _only_for(arguments, "graph", changed)
    if arguments.posterior != "graph":
        _only_for(arguments, "graph", {"--scales": arguments.scales != "tracks"})
        if source.is_dir() and is_model(source):
            return run_model(arguments, source, home, executor)
        return run_photographs(arguments, source, home, executor)
    _only_for(
        arguments,
        "adjusted",
        {
            "--readjust": arguments.readjust,
            "--lens-error": arguments.lens_error is not None,
            "--refined": arguments.refined is not None,
            "--mapper": arguments.mapper != "auto",
            "--gps": arguments.gps != "auto",
            "--control": arguments.control is not None,
        },
    )
    truth = None if arguments.truth is None else read_poses(arguments.truth)
    with prepared_directory(home, overwrite=False):
        return reconstruct(arguments, options, truth, executor)


def _only_for(arguments: argparse.Namespace, posterior: str, given: dict[str, bool]) -> None:
    from tempose.errors import ArgumentError

    for flag, is_given in given.items():
        if is_given:
            raise ArgumentError(f"{flag} is for --posterior {posterior}, not for --posterior {arguments.posterior}")
