"""``tempose sfm``."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from tempose.cli import console

if TYPE_CHECKING:
    from tempose.model.poses import Poses
    from tempose.report.widgets import Fact
    from tempose.sfm.pipeline import Reconstruction


def run(arguments: argparse.Namespace) -> int:
    """Read photographs, a database or a model; solve; write the directory; print a summary."""
    from tempose._support.progress import Progress
    from tempose.cli.solve import prepare_directory
    from tempose.io import read_poses
    from tempose.sfm.options import SfmOptions
    from tempose.sfm.pipeline import read_views, reconstruct_views

    options = SfmOptions(
        scales=arguments.scales, rounds=arguments.rounds, draws=arguments.draws, seed=arguments.seed,
        calibration_error=arguments.calibration_error,
    )  # fmt: skip
    source, home = Path(arguments.source), Path(arguments.output)
    truth = None if arguments.truth is None else read_poses(arguments.truth)
    prepare_directory(home / "cameras", overwrite=True)  # draws take seconds; features and matches minutes
    if arguments.overwrite:
        for old in home.glob("features.db*"):  # SQLite's journals, too
            old.unlink()
    images = Path(arguments.images) if arguments.images else source if source.is_dir() else None
    with console.progress_bar(arguments) as bar:

        def progress(phase: str, done: float, total: float) -> None:
            bar(Progress(phase, done, total))

        began = time.perf_counter()
        views = read_views(source, home / "features.db", arguments.intrinsics, progress)
        reading = time.perf_counter() - began
        if truth is not None:
            _check_truth(truth, views.names, arguments.truth)
        found = reconstruct_views(
            views, options, truth=truth, images=images, directory=home / "cameras", progress=progress
        )
        found = replace(found, seconds={"features and matches": reading, **found.seconds})
    errors = None if truth is None else _errors(found, truth, options.scales)
    _write(home, found, errors)
    facts = found.facts()
    console.notice(arguments, *found.motion.notices)
    console.table(arguments, _summary(found), f"{source}: {len(views)} views")
    if errors is not None and truth is not None:
        console.say(arguments, f"error to the truth: {errors.value}, {errors.note}")
        if options.draws:
            console.say(arguments, _covered(found, truth))
    console.say(arguments, f"written to {home}; look at {home / 'report.html'}, or: tempose view {home}")
    console.emit(arguments, facts)
    return 0


def _check_truth(truth: Poses, names: tuple[str, ...], path: str) -> None:
    """Say that the truth is of other views before the work, not after it."""
    from tempose.errors import TemposeError

    known = sum(name in truth.index for name in names)
    if known < 2:
        raise TemposeError(
            f"{path} has poses for {known} of the {len(names)} views: theirs are called {truth.ids[0]}, …, the views "
            f"{names[0]}, …"
        )


def _write(home: Path, found: Reconstruction, errors: Fact | None) -> None:
    from tempose._support.files import write_atomically
    from tempose.report.cloud_page import write_cloud_page

    found.solution.save(home / "cameras")
    found.scene.save(home / "scene.npz")
    found.scene.write_cameras(home / "cameras.csv")
    found.scene.write_clouds(home)
    found.scene.write_colmap(home / "colmap")
    facts = found.facts()
    write_atomically(home / "sfm.json", (json.dumps(facts, indent=2) + "\n").encode())
    settings = [
        ("scales", found.scene.gauge.split("; ")[-1]),
        ("pairs in the graph", f"{facts['n_pairs_in_graph']} of {facts['n_pairs_matched']} matched"),
        ("draws", f"{facts['draws']} for points, {found.solution.options.draws} for cameras"),
        ("seed", str(found.solution.options.seed)),
        *((f"seconds, {name}", f"{value:.1f}") for name, value in found.seconds.items()),
    ]
    write_cloud_page(
        home / "report.html", found.scene, home.resolve().name, [] if errors is None else [errors], settings,
        found.motion.notices, metadata.version("tempose"),
    )  # fmt: skip


def _summary(found: Reconstruction) -> list[tuple[str, str]]:
    from tempose.sfm.scene import LEFT_OUT

    facts = found.facts()
    unit, counts = facts["unit"], facts["points"]
    weak = ", ".join(f"{count} {name}" for name, count in counts.items() if name != "good" and count)
    rows = [
        ("cameras", f"{facts['n_cameras']} of {facts['n_views']}, from {facts['n_pairs_in_graph']} pairs"),
        ("points", f"{counts['good']} good" + (f"; marked: {weak}" if weak else "")),
        ("image noise", f"{facts['sigma_px']:.3g} px"),
    ]
    if facts["median_sigma_pos"] is not None:
        rows += [
            ("camera 1σ", f"{facts['median_sigma_rot_deg']:.2g}° and {facts['median_sigma_pos']:.2g} {unit} (median)")
        ]
    if facts["median_sigma_point"] is not None:
        share = facts["median_sigma_point"] / facts["diameter"]
        rows += [("point 1σ", f"{facts['median_sigma_point']:.2g} {unit}, {share:.2g} of the diameter (median)")]
    rows += [("gauge", facts["gauge"]), ("not in 1σ", LEFT_OUT)]
    return [*rows, ("seconds", ", ".join(f"{name} {value:.1f}" for name, value in found.seconds.items()))]


def _errors(found: Reconstruction, truth: Poses, scales: str) -> Fact:
    from tempose.analysis.accuracy import pose_errors
    from tempose.report.widgets import Fact

    kind = "se3" if scales == "truth" else "sim3"
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
