"""``tempose sfm``."""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempose.cli import console
from tempose.cli.commands import Commands, add_command

if TYPE_CHECKING:
    from tempose.model.poses import Poses
    from tempose.report.widgets import Fact
    from tempose.sfm.options import SfmOptions
    from tempose.sfm.pipeline import Reconstruction

FEATURES = "features.db"


def add_parser(commands: Commands, summary: str) -> None:
    """Options of ``tempose sfm``."""
    parser = add_command(
        commands,
        "sfm",
        summary,
        run,
        """
        tempose sfm photographs -o castle --intrinsics K.txt
        tempose sfm database.db -o castle --images photographs
        """,
    )
    parser.add_argument(
        "source", metavar="SOURCE", help="folder of photographs, COLMAP database, or folder of a COLMAP model"
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
        help="calibration: nine numbers of K (pixel centres at whole numbers) or a COLMAP cameras.txt; default: found "
        "from EXIF and the pairs",
    )
    parser.add_argument(
        "--calibration-error",
        type=float,
        metavar="E",
        help="1σ of the calibration, relative to the focal length (of focal length, principal point and distortion); "
        "default 0.001, or 0.005 for one that is guessed; 0: perfect",
    )
    parser.add_argument("--images", metavar="DIR", help="photographs, to colour the points of a database or model")
    parser.add_argument(
        "--truth", metavar="PATH", help="true camera poses: folder of EPFL .camera files, or a pose file"
    )
    parser.add_argument(
        "--scales",
        choices=["tracks", "truth"],
        default="tracks",
        help="lengths of baselines: from points that pairs share (default), or from --truth (the paper's protocol)",
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="guided rounds of choosing each pair's matches (default 3)"
    )
    parser.add_argument(
        "--draws", type=int, default=40, metavar="N", help="posterior draws the points are made again for (default 40)"
    )
    parser.add_argument("--seed", type=int, default=0, help="same seed, same result (default 0)")


def run(arguments: argparse.Namespace) -> int:
    """Read photographs, a database or a model; solve; write the directory; print a summary."""
    from tempose.cli.solve import prepared_directory
    from tempose.io import read_poses
    from tempose.sfm.options import SfmOptions

    options = SfmOptions(
        scales=arguments.scales,
        rounds=arguments.rounds,
        draws=arguments.draws,
        seed=arguments.seed,
        calibration_error=arguments.calibration_error,
    )
    home = Path(arguments.output)
    truth = None if arguments.truth is None else read_poses(arguments.truth)
    with prepared_directory(home, overwrite=False):
        return _reconstruct(arguments, options, truth)


def _reconstruct(arguments: argparse.Namespace, options: SfmOptions, truth: Poses | None) -> int:
    from tempose.sfm.pipeline import read_views, reconstruct_views

    source, home = Path(arguments.source), Path(arguments.output)
    _discard(home, arguments.overwrite)
    images = Path(arguments.images) if arguments.images else source if source.is_dir() else None
    with console.progress_bar(arguments) as progress:
        began = time.perf_counter()
        views = read_views(source, home / FEATURES, arguments.intrinsics, progress)
        reading = time.perf_counter() - began
        if truth is not None:
            _check_truth(truth, views.names, arguments.truth)
        found = reconstruct_views(views, options, truth=truth, images=images, progress=progress)
        found = replace(found, seconds={"features and matches": reading, **found.seconds})
    errors = None if truth is None else _errors(found, truth)
    facts = found.facts()
    _write(home, found, facts, options, errors)
    console.notice(arguments, *found.notices)
    console.table(arguments, _summary(found, facts), f"{source}: {len(views)} views")
    if errors is not None and truth is not None:
        console.say(arguments, f"error to the truth: {errors.value}, {errors.note}")
        if options.draws:
            console.say(arguments, _covered(found, truth))
    console.say(arguments, f"written to {home}; look at {home / 'report.html'}, or: tempose view {home}")
    console.emit(arguments, facts)
    return 0


def _discard(home: Path, overwrite: bool) -> None:
    """Take away what an earlier run left. Features and matches, which take minutes, stay unless they are to be made again."""
    for old in home.glob(f"{FEATURES}*") if overwrite else ():  # SQLite's journals, too
        old.unlink()
    if (home / "cameras" / "result.json").is_file():  # of an earlier version: other error bars of the same cameras
        shutil.rmtree(home / "cameras")


def _check_truth(truth: Poses, names: tuple[str, ...], path: str) -> None:
    """Say that the truth is of other views before the work, not after it."""
    from tempose.errors import ArgumentError

    known = sum(name in truth.index for name in names)
    if known < 2:
        raise ArgumentError(
            f"{path} has poses for {known} of the {len(names)} views: theirs are called {truth.ids[0]}, …, the views "
            f"{names[0]}, …"
        )


def _write(home: Path, found: Reconstruction, facts: dict[str, Any], options: SfmOptions, errors: Fact | None) -> None:
    from importlib import metadata

    from tempose._support.files import write_atomically
    from tempose._support.plain import json_text
    from tempose.io import write_graph
    from tempose.report.cloud_page import write_cloud_page
    from tempose.sfm import files, words

    files.save_scene(home / files.SCENE, found.scene)
    files.write_cameras(home / files.CAMERAS, found.scene)
    files.write_clouds(home, found.scene)
    files.write_colmap(home / "colmap", found.scene)
    write_graph(home / "graph.csv", found.graph)
    write_atomically(home / "sfm.json", json_text(facts).encode())
    settings = [
        ("scales", words.scale(found.scene.gauge)),
        ("pairs in the graph", f"{facts['n_pairs_in_graph']} of {facts['n_pairs_matched']} matched"),
        ("draws", f"{facts['draws']} for points, {options.camera_draws} for cameras"),
        ("seed", str(options.seed)),
        *((f"seconds, {name}", f"{value:.1f}") for name, value in found.seconds.items()),
    ]
    write_cloud_page(
        home / "report.html",
        found.scene,
        home.resolve().name,
        [] if errors is None else [errors],
        settings,
        found.notices,
        metadata.version("tempose"),
    )


def _summary(found: Reconstruction, facts: dict[str, Any]) -> list[tuple[str, str]]:
    from tempose.sfm import words
    from tempose.sfm.points import PointStatus

    unit, counts = facts["unit"], found.scene.structure.counts()
    weak = ", ".join(f"{count} {one.label}" for one, count in counts.items() if one is not PointStatus.GOOD and count)
    rows = [
        ("cameras", f"{facts['n_cameras']} of {facts['n_views']}, from {facts['n_pairs_in_graph']} pairs"),
        ("points", f"{counts[PointStatus.GOOD]} good" + (f"; marked: {weak}" if weak else "")),
        ("image noise", f"{facts['sigma_px']:.3g} px"),
    ]
    if facts["median_sigma_pos"] is not None:
        rows += [
            ("camera 1σ", f"{facts['median_sigma_rot_deg']:.2g}° and {facts['median_sigma_pos']:.2g} {unit} (median)")
        ]
    if facts["median_sigma_point"] is not None:
        share = facts["median_sigma_point"] / facts["diameter"]
        rows += [("point 1σ", f"{facts['median_sigma_point']:.2g} {unit}, {share:.2g} of the diameter (median)")]
    rows += [("gauge", facts["gauge"]), ("not in 1σ", words.LEFT_OUT)]
    return [*rows, ("seconds", ", ".join(f"{name} {value:.1f}" for name, value in found.seconds.items()))]


def _errors(found: Reconstruction, truth: Poses) -> Fact:
    from tempose.analysis.accuracy import pose_errors
    from tempose.report.widgets import Fact

    kind = "se3" if found.scene.gauge.metric else "sim3"
    turned = pose_errors(found.scene.poses, truth, kind)
    placed = pose_errors(found.scene.poses, truth, f"positions-{kind}")
    return Fact(
        "error to the truth",
        f"{turned.mean_rotation_deg:.3f}° and {placed.mean_translation:.4f}",
        "means, in the truth's unit; rotations aligned by rotations, positions by positions"
        + (" with scale" if kind == "sim3" else ""),
    )


def _covered(found: Reconstruction, truth: Poses) -> str:
    from tempose.analysis.regions import inside
    from tempose.sfm.accuracy import camera_errors

    turned, placed = (inside(squared, 0.95, 3) for squared in camera_errors(found.scene, truth))
    return f"inside the 95% regions: {turned.sum()} orientations and {placed.sum()} positions of {len(placed)} true cameras"
