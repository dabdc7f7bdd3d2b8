"""``tempose sfm --posterior graph``: the paper's way."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempose.cli import console
from tempose.cli.sfm_common import FEATURES, FILES, check_truth, covered, discard, errors_to

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tempose.model.poses import Poses
    from tempose.report.widgets import Fact
    from tempose.sfm.options import SfmOptions
    from tempose.sfm.pipeline import Reconstruction


def reconstruct(
    arguments: argparse.Namespace, options: SfmOptions, truth: Poses | None, executor: Executor | None
) -> int:
    """Solve the pose graph of the pairs, write the directory, print a summary."""
    from tempose.sfm.features import FeatureOptions
    from tempose.sfm.pipeline import read_views, reconstruct_views

    source, home = Path(arguments.source), Path(arguments.output)
    discard(home, arguments.overwrite)
    images = Path(arguments.images) if arguments.images else source if source.is_dir() else None
    with console.progress_bar(arguments) as progress:
        began = time.perf_counter()
        making = FeatureOptions(arguments.cameras, arguments.match, arguments.features, arguments.image_size)
        views = read_views(source, home / FEATURES, arguments.intrinsics, progress, making, executor)
        reading = time.perf_counter() - began
        if truth is not None:
            check_truth(truth, views.names, arguments.truth)
        found = reconstruct_views(views, options, truth=truth, images=images, progress=progress, executor=executor)
        found = replace(found, seconds={"features and matches": reading, **found.seconds})
    errors = None if truth is None else errors_to(found.scene, truth)
    facts = judged(found.facts())
    write_graph(arguments, home, found, facts, options, errors, images)
    console.notice(arguments, *found.notices)
    console.say(arguments, facts["headline"])
    console.table(arguments, _summary(found, facts), f"{source}: {len(views)} views")
    if errors is not None and truth is not None:
        console.say(arguments, f"error to the truth: {errors.value}, {errors.note}")
        if options.draws:
            console.say(arguments, covered(found.scene, truth))
    console.say(arguments, f"written to {home}; look at {home / 'report.html'}, or: tempose view {home}")
    console.emit(arguments, facts)
    console.open_page(arguments, home / "report.html")
    return 0


def write_graph(
    arguments: argparse.Namespace,
    home: Path,
    found: Reconstruction,
    facts: dict[str, Any],
    options: SfmOptions,
    errors: Fact | None,
    images: Path | None,
) -> None:
    """All files of a solved pose graph and its points."""
    from importlib import metadata

    from tempose._support.files import write_atomically
    from tempose._support.plain import json_text
    from tempose.io import write_graph
    from tempose.report.cloud_page import CloudExtras, PairNote, write_cloud_page
    from tempose.sfm import files, words
    from tempose.sfm.thumbnails import thumbnails

    files.save_scene(home / files.SCENE, found.scene)
    files.write_cameras(home / files.CAMERAS, found.scene)
    files.write_clouds(home, found.scene, arguments.colours, covariance=arguments.ply_covariance)
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
    extras = CloudExtras(
        verdict=_verdict(facts),
        facts=[] if errors is None else [errors],
        settings=settings,
        notices=found.notices,
        version=metadata.version("tempose"),
        pairs=[
            PairNote(one["pair"][0], one["pair"][1], one["why"], contradicts)
            for name, contradicts in (("distrusted", True), ("refused", False))
            for one in facts[name]
        ],
        thumbnails=thumbnails(images, map(str, found.scene.poses.ids)),
        files=[*FILES, ("graph.csv", "the pose graph of the pairs")],
        colours=arguments.colours,
    )
    write_cloud_page(home / "report.html", found.scene, home.resolve().name, extras)


def judged(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a reconstruction, and first whether to trust it."""
    from tempose.sfm import words

    trust, why = words.photographs(
        facts["n_views"],
        facts["n_cameras"],
        facts["n_pairs_in_graph"] + len(facts["distrusted"]),
        len(facts["distrusted"]),
    )
    return {"headline": f"{trust}: {why}", "trust": str(trust), **facts}


def _verdict(facts: dict[str, Any]) -> Fact:
    from tempose.analysis.trust import Trust
    from tempose.report.widgets import trust_fact

    lines = [facts["headline"].partition(": ")[2]]
    if facts["median_sigma_pos"] is not None:
        rot, pos = facts["median_sigma_rot_deg"], facts["median_sigma_pos"]
        lines.append(f"median 1σ per axis of a camera: {rot:.2g}° and {pos:.2g} {facts['unit']}")
    return trust_fact(Trust(facts["trust"]), *lines)


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
