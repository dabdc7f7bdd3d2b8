"""``tempose sfm`` with bundle adjustment: of photographs, of a database, or error bars of a model that exists."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempose.cli import console
from tempose.cli.places import find_place, place_columns, place_rows, write_ties
from tempose.cli.sfm_common import FEATURES, FILES, check_truth, covered, discard, errors_to
from tempose.cli.sfm_graph import judged, write_graph

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tempose.model.poses import Poses
    from tempose.report.widgets import Fact
    from tempose.sfm.adjusted import AdjustedOptions
    from tempose.sfm.adjustment.systematic import ModelError
    from tempose.sfm.given import GivenModel, GivenOptions
    from tempose.sfm.placing import Georeferenced


def run_photographs(arguments: argparse.Namespace, source: Path, home: Path, executor: Executor | None) -> int:
    """Models of photographs or of a database, adjusted, with error bars."""
    from tempose.cli.solve import prepared_directory
    from tempose.errors import ArgumentError
    from tempose.io import read_poses
    from tempose.sfm.adjusted import AdjustedOptions
    from tempose.sfm.adjustment.problem import USUAL
    from tempose.sfm.mapping import MappingOptions

    if arguments.readjust:
        raise ArgumentError(f"--readjust is for the folder of a COLMAP model; {arguments.source} is adjusted anyway")
    if arguments.intrinsics is not None and source.is_file():
        raise ArgumentError(
            "--intrinsics is for photographs; a database has cameras of its own (--refined none holds them)"
        )
    refined = _refined(arguments, USUAL if arguments.intrinsics is None else ())
    options = AdjustedOptions(
        MappingOptions(arguments.mapper, refined, source.is_dir(), seed=arguments.seed),
        arguments.refined is None,
        _model_error(arguments),
    )
    truth = None if arguments.truth is None else read_poses(arguments.truth)
    with prepared_directory(home, overwrite=False):
        return _adjust(arguments, source, home, options, truth, executor)


def _refined(arguments: argparse.Namespace, default: tuple[str, ...]) -> tuple[str, ...]:
    if arguments.refined is None:
        return default
    return tuple(word.strip() for word in arguments.refined.split(",") if word.strip() not in ("", "none"))


def _model_error(arguments: argparse.Namespace) -> ModelError:
    from tempose.sfm.adjustment.systematic import LENS_ERROR, ModelError

    if arguments.lens_error is None:
        return ModelError(LENS_ERROR, arguments.calibration_error)
    return ModelError(arguments.lens_error, arguments.calibration_error, estimate=False)


def _adjust(
    arguments: argparse.Namespace,
    source: Path,
    home: Path,
    options: AdjustedOptions,
    truth: Poses | None,
    executor: Executor | None,
) -> int:
    from tempose.errors import ParseError
    from tempose.io.colmap.cameras import read_camera
    from tempose.sfm.adjusted import adjust_database
    from tempose.sfm.features import FeatureOptions, build_database
    from tempose.sfm.views import read_matched_database

    if not source.exists():
        raise ParseError(
            source, None, "no such file or folder; give a folder of photographs, a COLMAP database or model"
        )
    discard(home, arguments.overwrite)
    images = Path(arguments.images) if arguments.images else source if source.is_dir() else None
    with console.progress_bar(arguments) as progress:
        began, remarks, database = time.perf_counter(), [], source
        if source.is_dir():
            camera = None if arguments.intrinsics is None else read_camera(arguments.intrinsics)
            database = home / FEATURES
            making = FeatureOptions(arguments.cameras, arguments.match, arguments.features, arguments.image_size)
            remarks = build_database(source, database, camera, progress, making, begin_anywhere=True, executor=executor)
        reading = time.perf_counter() - began
        photographs = source if source.is_dir() else None
        if truth is not None:
            check_truth(truth, read_matched_database(database, photographs).names, arguments.truth)
        made = adjust_database(
            database, options, images=images, photographs=photographs, remarks=tuple(remarks), progress=progress
        )
    seconds = {"features and matches": reading, **made.seconds}
    homes = [home, *(home / f"scene-{k + 1}" for k in range(1, len(made.models)))]
    several = [
        f"{len(one.posterior.bundle.names)} photographs in {where}"
        for one, where in zip(made.models, homes, strict=True)
    ]
    if len(made.models) > 1:
        console.notice(
            arguments, f"{len(made.models)} scenes that do not hang together, each a result: {'; '.join(several)}"
        )
    codes = []
    for given, where in zip(made.models, homes, strict=True):
        where.mkdir(exist_ok=True)
        more = {
            "seconds": {name: round(value, 2) for name, value in seconds.items()},
            "scenes": several,
            "graph": f"tempose sfm {arguments.source} -o {home}-graph --posterior graph",
        }
        if arguments.posterior == "both":
            more |= _beside(arguments, where, given, database, photographs, images, executor)
        codes.append(_tell(arguments, source, where, given, more, truth, images))
    return codes[0]


def run_model(arguments: argparse.Namespace, source: Path, home: Path, executor: Executor | None) -> int:
    """Error bars for a COLMAP model."""
    from tempose.cli.solve import prepared_directory
    from tempose.errors import ArgumentError
    from tempose.io import read_poses
    from tempose.sfm.adjustment.problem import USUAL
    from tempose.sfm.given import GivenOptions

    if arguments.mapper != "auto":
        raise ArgumentError(f"--mapper is for photographs and databases; {source} is a model already")
    if home.resolve() == source.resolve() or (home / "colmap").resolve() == source.resolve():
        raise ArgumentError(f"{home} is the model itself; give another directory to -o")
    options = GivenOptions(
        refined=_refined(arguments, USUAL),
        readjust=arguments.readjust,
        error=_model_error(arguments),
        seed=arguments.seed,
    )
    truth = None if arguments.truth is None else read_poses(arguments.truth)
    with prepared_directory(home, overwrite=False):
        return _add_error_bars(arguments, source, home, options, truth, executor)


def _add_error_bars(
    arguments: argparse.Namespace,
    source: Path,
    home: Path,
    options: GivenOptions,
    truth: Poses | None,
    executor: Executor | None,
) -> int:
    from tempose.sfm.given import with_error_bars

    with console.progress_bar(arguments) as progress:
        began = time.perf_counter()
        given = with_error_bars(source, options, progress)
        seconds = time.perf_counter() - began
    if truth is not None:
        check_truth(truth, given.posterior.bundle.names, arguments.truth)
    more: dict[str, Any] = {"seconds": {"error bars": round(seconds, 2)}}
    images = Path(arguments.images) if arguments.images else None
    if arguments.posterior == "both":
        more |= _beside(arguments, home, given, None, source, images, executor)
    return _tell(arguments, source, home, given, more, truth, images)


def _beside(
    arguments: argparse.Namespace,
    home: Path,
    given: GivenModel,
    database: Path | None,
    source: Path | None,
    images: Path | None,
    executor: Executor | None,
) -> dict[str, Any]:
    """Solve the pose graph of the same matches, of a database or of the model in ``source``, into DIR/graph; what differs."""
    from tempose.sfm.beside import found_cameras, graph_beside
    from tempose.sfm.options import SfmOptions
    from tempose.sfm.views import read_database_views, read_model_views

    options = SfmOptions(rounds=arguments.rounds, draws=arguments.draws, seed=arguments.seed)
    with console.progress_bar(arguments) as progress:
        if database is not None:
            views = read_database_views(database, source, found_cameras(given))
        else:
            views = read_model_views(str(source))
        beside = graph_beside(views, given, options, progress, executor)
    (home / "graph").mkdir(exist_ok=True)
    write_graph(arguments, home / "graph", beside.found, judged(beside.found.facts()), options, None, images)
    return {"graph": f"in {home / 'graph'}", "difference": beside.facts()}


def _tell(
    arguments: argparse.Namespace,
    source: Path,
    home: Path,
    given: GivenModel,
    more: dict[str, Any],
    truth: Poses | None,
    images: Path | None,
) -> int:
    """Write the files of a model with error bars, and say what it is."""
    from tempose.analysis.trust import Trust
    from tempose.sfm import words

    common = 0 if truth is None else sum(name in truth.index for name in given.scene.poses.ids)
    errors = errors_to(given.scene, truth) if truth is not None and common > 2 else None
    placed, told = find_place(
        arguments, given.scene, given.posterior, images, bend=arguments.readjust or given.folder is None
    )
    notices = (
        *told,
        *words.making(given),
        *words.left_out(given),
        *words.held(given),
        *words.lens(given),
        *(words.doubt(one, given) for one in given.doubts if not one.is_fatal),
    )
    trust, why = words.judgement(given)
    facts = {
        "headline": f"{trust}: {why}",
        "trust": str(trust),
        **given.facts(),
        "gauge": words.gauge(given.scene.gauge),
        "notices": list(notices),
        **more,
    }
    if placed is not None:
        facts |= _placed_facts(given, placed)
    _write_model(arguments, home, given, facts, notices, errors, images, placed)
    console.notice(arguments, *notices)
    rows = _model_summary(given, facts) + ([] if placed is None else place_rows(placed))
    console.say(arguments, facts["headline"])
    console.table(arguments, rows, f"{source}: {len(given.posterior.bundle.names)} photographs")
    if errors is not None and truth is not None:
        console.say(arguments, f"error to the truth: {errors.value}, {errors.note}", covered(given.scene, truth))
    console.say(arguments, f"written to {home}; look at {home / 'report.html'}, or: tempose view {home}")
    console.emit(arguments, facts)
    console.open_page(arguments, home / "report.html")
    return 1 if trust is Trust.NOT else 0


def _placed_facts(given: GivenModel, placed: Georeferenced) -> dict[str, Any]:
    """What changes when a model is placed: lengths in metres, error bars with those of the place."""
    from tempose._support.plain import plain
    from tempose.analysis.summary import median_sigma
    from tempose.sfm import words
    from tempose.sfm.given import intrinsics_facts

    scene, before = placed.scene, given.facts()
    sigma_rot, sigma_pos = scene.camera_sigma
    scaled = {
        name: None if before[name] is None else before[name] * placed.similarity.scale
        for name in ("median_sigma_pos_noise", "median_sigma_pos_model", "diameter")
    }
    if placed.bending is not None:
        scaled["calibration"] = intrinsics_facts(given.posterior, placed.bending.parameters)
    return {
        **scaled,
        "median_sigma_rot_deg": plain(median_sigma(sigma_rot)),
        "median_sigma_pos": plain(median_sigma(sigma_pos)),
        "median_sigma_point": plain(median_sigma(scene.structure.sigma[scene.structure.good])),
        "unit": scene.unit,
        "gauge": words.gauge(scene.gauge),
        "place": placed.facts(),
    }


def _write_model(
    arguments: argparse.Namespace,
    home: Path,
    given: GivenModel,
    facts: dict[str, Any],
    notices: tuple[str, ...],
    errors: Fact | None,
    images: Path | None,
    placed: Georeferenced | None,
) -> None:
    from importlib import metadata

    from tempose._support.files import write_atomically
    from tempose._support.plain import json_text
    from tempose.report.cloud_page import CloudExtras, write_cloud_page
    from tempose.report.widgets import trust_fact
    from tempose.sfm import files, words
    from tempose.sfm import given as models
    from tempose.sfm.placing import write_placed
    from tempose.sfm.thumbnails import thumbnails

    scene = given.scene if placed is None else placed.scene
    scale = 1.0 if placed is None else placed.similarity.scale
    shares = models.camera_shares(given.posterior, scale)
    files.save_scene(home / files.SCENE, scene)
    files.write_cameras(
        home / files.CAMERAS, scene, shares | ({} if placed is None else place_columns(placed, arguments.crs))
    )
    models.write_intrinsics(home / "intrinsics.csv", facts["calibration"])
    models.write_points(home / "points.csv", given.posterior, scene.structure, scale)
    files.write_clouds(home, scene, arguments.colours, covariance=arguments.ply_covariance)
    if placed is None:
        models.write_model_again(home / "colmap", given)
    else:
        is_text = given.folder is None or (given.folder / "cameras.txt").exists()
        write_placed(home / "colmap", given.model, placed, given.posterior, is_text)
        write_ties(home / "ties.csv", placed)
    write_atomically(home / "sfm.json", json_text(facts).encode())
    settings = [
        (label, text)
        for label, text in _model_summary(given, facts) + ([] if placed is None else place_rows(placed))
        if label not in ("photographs", "points")
    ]
    extras = CloudExtras(
        verdict=trust_fact(*words.judgement(given)),
        facts=[] if errors is None else [errors],
        settings=settings,
        notices=notices,
        version=metadata.version("tempose"),
        thumbnails=thumbnails(images, map(str, scene.poses.ids)),
        files=[
            *FILES,
            ("intrinsics.csv", "intrinsics with error bars"),
            ("points.csv", "points with error bars"),
            *([] if placed is None else [("ties.csv", "GPS and control points: residuals, and what was expected")]),
        ],
        colours=arguments.colours,
    )
    write_cloud_page(home / "report.html", scene, home.resolve().name, extras)


def _how_posed(given: GivenModel) -> str:
    if given.adjusted_px is None:
        return "as they were"
    if given.origin is None:
        return f"adjusted again, Cauchy loss of {given.adjusted_px:.2g} px"
    return f"by COLMAP's {given.origin.mapped.mapper} mapper, then adjusted with a Cauchy loss of {given.adjusted_px:.2g} px"


def _model_summary(given: GivenModel, facts: dict[str, Any]) -> list[tuple[str, str]]:
    from tempose.sfm import words
    from tempose.sfm.given import bundle_summary
    from tempose.sfm.points import PointStatus

    counts, unit = given.scene.structure.counts(), facts["unit"]
    weak = ", ".join(f"{count} {one.label}" for one, count in counts.items() if one is not PointStatus.GOOD and count)

    def both(name: str) -> str:
        turned, moved = facts[f"median_sigma_rot{name}_deg"], facts[f"median_sigma_pos{name}"]
        return "unknown" if turned is None or moved is None else f"{turned:.2g}° and {moved:.2g} {unit}"

    rows = [
        ("model", bundle_summary(given.posterior.bundle)),
        ("poses", _how_posed(given)),
        ("points", f"{counts[PointStatus.GOOD]} good" + (f"; marked: {weak}" if weak else "")),
        (
            "image noise",
            f"{facts['sigma_px']:.3g} px; neighbours that err together make the variance {facts['clustering']:.2g} times as large",
        ),
        ("camera 1σ", f"{both('')} (median)"),
        ("  by noise", both("_noise")),
        ("  by the camera model", f"{both('_model')} (lens error {facts['lens_error']:.2g})"),
    ]
    rows += words.intrinsics(given, facts["calibration"])
    if facts["median_sigma_point"] is not None:
        share = facts["median_sigma_point"] / facts["diameter"]
        rows.append(("point 1σ", f"{facts['median_sigma_point']:.2g} {unit}, {share:.2g} of the diameter (median)"))
    if "graph" in facts:
        rows.append(("pose graph", facts["graph"]))
    if "difference" in facts:
        off = facts["difference"]
        differ = f"{off['mean_rotation_deg']:.2g}° and {off['mean_position']:.2g} {unit} on average"
        wide = f"its 1σ is {off['sigma_ratio_rot']:.2g} and {off['sigma_ratio_pos']:.2g} times as large"
        rows.append(("  differs by", f"{differ}; {wide}"))
    seconds = ", ".join(f"{name} {value:.1f}" for name, value in facts["seconds"].items())
    return [*rows, ("gauge", facts["gauge"]), ("seconds", seconds)]
