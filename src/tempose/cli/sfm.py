"""``tempose sfm``."""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tempose.cli import console
from tempose.cli.commands import Commands, add_command, add_open
from tempose.cli.places import add_place_options, find_place, place_columns, place_rows, write_ties

if TYPE_CHECKING:
    from tempose.model.poses import Poses
    from tempose.report.widgets import Fact
    from tempose.sfm.adjusted import AdjustedOptions
    from tempose.sfm.adjustment.systematic import ModelError
    from tempose.sfm.given import GivenModel, GivenOptions
    from tempose.sfm.options import SfmOptions
    from tempose.sfm.pipeline import Reconstruction
    from tempose.sfm.placing import Georeferenced
    from tempose.sfm.scene import Scene

FEATURES = "features.db"
_FILES = (
    ("cameras.csv", "cameras with error bars"),
    ("points.ply", "points in the colours of the photographs"),
    ("points_sigma.ply", "points coloured by σ"),
    ("colmap/", "a COLMAP model"),
    ("scene.npz", "everything, for tempose view and Python"),
    ("sfm.json", "all numbers of this page, and why pairs were left out"),
)  # beside the page, whatever the source

_RARE = ("lens_error", "mapper", "scales", "rounds", "draws", "truth", "features", "image_size")


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
        help="1σ of what the camera model is wrong by, relative to the larger side of the image; default 5e-5; 0: perfect",
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
    add_open(parser)
    parser.rare += [action for action in parser._actions if action.dest in _RARE]


def run(arguments: argparse.Namespace) -> int:
    """Read photographs, a database or a model; solve; write the directory; print a summary."""
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
            return _run_model(arguments, source, home)
        return _run_photographs(arguments, source, home)
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
        return _reconstruct(arguments, options, truth)


def _reconstruct(arguments: argparse.Namespace, options: SfmOptions, truth: Poses | None) -> int:
    from tempose.sfm.features import FeatureOptions
    from tempose.sfm.pipeline import read_views, reconstruct_views

    source, home = Path(arguments.source), Path(arguments.output)
    _discard(home, arguments.overwrite)
    images = Path(arguments.images) if arguments.images else source if source.is_dir() else None
    with console.progress_bar(arguments) as progress:
        began = time.perf_counter()
        making = FeatureOptions(arguments.cameras, arguments.match, arguments.features, arguments.image_size)
        views = read_views(source, home / FEATURES, arguments.intrinsics, progress, making)
        reading = time.perf_counter() - began
        if truth is not None:
            _check_truth(truth, views.names, arguments.truth)
        found = reconstruct_views(views, options, truth=truth, images=images, progress=progress)
        found = replace(found, seconds={"features and matches": reading, **found.seconds})
    errors = None if truth is None else _errors(found.scene, truth)
    facts = found.facts()
    _write(arguments, home, found, facts, options, errors, images)
    console.notice(arguments, *found.notices)
    console.table(arguments, _summary(found, facts), f"{source}: {len(views)} views")
    if errors is not None and truth is not None:
        console.say(arguments, f"error to the truth: {errors.value}, {errors.note}")
        if options.draws:
            console.say(arguments, _covered(found.scene, truth))
    console.say(arguments, f"written to {home}; look at {home / 'report.html'}, or: tempose view {home}")
    console.emit(arguments, facts)
    console.open_page(arguments, home / "report.html")
    return 0


def _discard(home: Path, overwrite: bool) -> None:
    """Take away what an earlier run left. Features and matches, which take minutes, stay unless they are to be made again."""
    for old in home.glob(f"{FEATURES}*") if overwrite else ():  # SQLite's journals, too
        old.unlink()
    for name in ("graph.csv", "intrinsics.csv", "points.csv"):  # of the other posterior
        (home / name).unlink(missing_ok=True)
    for other in (*home.glob("scene-*"), home / "graph"):
        if (other / "sfm.json").is_file():
            shutil.rmtree(other)
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


def _write(
    arguments: argparse.Namespace,
    home: Path,
    found: Reconstruction,
    facts: dict[str, Any],
    options: SfmOptions,
    errors: Fact | None,
    images: Path | None,
) -> None:
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
        files=[*_FILES, ("graph.csv", "the pose graph of the pairs")],
        colours=arguments.colours,
    )
    write_cloud_page(home / "report.html", found.scene, home.resolve().name, extras)


def _verdict(facts: dict[str, Any]) -> Fact:
    from tempose.analysis.trust import Trust
    from tempose.report.widgets import Fact, Tone
    from tempose.sfm import words

    trust, why = words.photographs(
        facts["n_views"],
        facts["n_cameras"],
        facts["n_pairs_in_graph"] + len(facts["distrusted"]),
        len(facts["distrusted"]),
    )
    tones: dict[Trust, Tone] = {Trust.TRUST: "good", Trust.CARE: "warn", Trust.NOT: "bad"}
    lines = [why]
    if facts["median_sigma_pos"] is not None:
        rot, pos = facts["median_sigma_rot_deg"], facts["median_sigma_pos"]
        lines.append(f"median 1σ per axis of a camera: {rot:.2g}° and {pos:.2g} {facts['unit']}")
    return Fact("verdict", trust.capitalize(), "\n".join(lines), tones[trust])


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


def _errors(scene: Scene, truth: Poses) -> Fact:
    from tempose.analysis.accuracy import pose_errors
    from tempose.report.widgets import Fact

    kind = "se3" if scene.gauge.metric else "sim3"
    turned = pose_errors(scene.poses, truth, kind)
    placed = pose_errors(scene.poses, truth, f"positions-{kind}")
    return Fact(
        "error to the truth",
        f"{turned.mean_rotation_deg:.3f}° and {placed.mean_translation:.4f}",
        "means, in the truth's unit; rotations aligned by rotations, positions by positions"
        + (" with scale" if kind == "sim3" else ""),
    )


def _covered(scene: Scene, truth: Poses) -> str:
    from tempose.analysis.regions import inside
    from tempose.sfm.accuracy import camera_errors

    turned, placed = (inside(squared, 0.95, 3) for squared in camera_errors(scene, truth))
    return f"inside the 95% regions: {turned.sum()} orientations and {placed.sum()} positions of {len(placed)} true cameras"


# ---------------------------------------------------------------------- a model that exists


def _only_for(arguments: argparse.Namespace, posterior: str, given: dict[str, bool]) -> None:
    from tempose.errors import ArgumentError

    for flag, is_given in given.items():
        if is_given:
            raise ArgumentError(f"{flag} is for --posterior {posterior}, not for --posterior {arguments.posterior}")


def _refined(arguments: argparse.Namespace, default: tuple[str, ...]) -> tuple[str, ...]:
    if arguments.refined is None:
        return default
    return tuple(word.strip() for word in arguments.refined.split(",") if word.strip() not in ("", "none"))


def _model_error(arguments: argparse.Namespace) -> ModelError:
    from tempose.sfm.adjustment.systematic import LENS_ERROR, ModelError

    return ModelError(LENS_ERROR if arguments.lens_error is None else arguments.lens_error, arguments.calibration_error)


def _run_photographs(arguments: argparse.Namespace, source: Path, home: Path) -> int:
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
        return _adjust(arguments, source, home, options, truth)


def _adjust(
    arguments: argparse.Namespace, source: Path, home: Path, options: AdjustedOptions, truth: Poses | None
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
    _discard(home, arguments.overwrite)
    images = Path(arguments.images) if arguments.images else source if source.is_dir() else None
    with console.progress_bar(arguments) as progress:
        began, remarks, database = time.perf_counter(), [], source
        if source.is_dir():
            camera = None if arguments.intrinsics is None else read_camera(arguments.intrinsics)
            database = home / FEATURES
            making = FeatureOptions(arguments.cameras, arguments.match, arguments.features, arguments.image_size)
            remarks = build_database(source, database, camera, progress, making)
        reading = time.perf_counter() - began
        photographs = source if source.is_dir() else None
        if truth is not None:
            _check_truth(truth, read_matched_database(database, photographs).names, arguments.truth)
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
            more |= _beside(arguments, where, given, database, photographs, images)
        codes.append(_tell(arguments, source, where, given, more, truth, images))
    return codes[0]


def _run_model(arguments: argparse.Namespace, source: Path, home: Path) -> int:
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
        return _add_error_bars(arguments, source, home, options, truth)


def _add_error_bars(
    arguments: argparse.Namespace, source: Path, home: Path, options: GivenOptions, truth: Poses | None
) -> int:
    from tempose.sfm.given import with_error_bars

    with console.progress_bar(arguments) as progress:
        began = time.perf_counter()
        given = with_error_bars(source, options, progress)
        seconds = time.perf_counter() - began
    if truth is not None:
        _check_truth(truth, given.posterior.bundle.names, arguments.truth)
    more: dict[str, Any] = {"seconds": {"error bars": round(seconds, 2)}}
    images = Path(arguments.images) if arguments.images else None
    if arguments.posterior == "both":
        more |= _beside(arguments, home, given, None, source, images)
    return _tell(arguments, source, home, given, more, truth, images)


def _beside(
    arguments: argparse.Namespace,
    home: Path,
    given: GivenModel,
    database: Path | None,
    source: Path | None,
    images: Path | None,
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
        beside = graph_beside(views, given, options, progress)
    (home / "graph").mkdir(exist_ok=True)
    _write(arguments, home / "graph", beside.found, beside.found.facts(), options, None, images)
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
    from tempose.sfm import words

    common = 0 if truth is None else sum(name in truth.index for name in given.scene.poses.ids)
    errors = _errors(given.scene, truth) if truth is not None and common > 2 else None
    placed, told = find_place(
        arguments, given.scene, given.posterior, images, bend=arguments.readjust or given.folder is None
    )
    notices = (
        *told,
        *words.making(given),
        *words.left_out(given),
        *words.held(given),
        *(words.doubt(one, given) for one in given.doubts if not one.is_fatal),
    )
    facts = {
        **given.facts(),
        "verdict": words.verdict(given),
        "gauge": words.gauge(given.scene.gauge),
        "notices": list(notices),
        **more,
    }
    if placed is not None:
        facts |= _placed_facts(given, placed)
    _write_model(arguments, home, given, facts, notices, errors, images, placed)
    console.notice(arguments, *notices)
    rows = _model_summary(given, facts) + ([] if placed is None else place_rows(placed))
    console.table(arguments, rows, f"{source}: {len(given.posterior.bundle.names)} photographs")
    if errors is not None and truth is not None:
        console.say(arguments, f"error to the truth: {errors.value}, {errors.note}", _covered(given.scene, truth))
    console.say(arguments, f"written to {home}; look at {home / 'report.html'}, or: tempose view {home}")
    console.emit(arguments, facts)
    console.open_page(arguments, home / "report.html")
    return 0 if facts["trusted"] else 1


def _placed_facts(given: GivenModel, placed: Georeferenced) -> dict[str, Any]:
    """What changes when a model is placed: lengths in metres, error bars with those of the place."""
    from tempose._support.plain import plain
    from tempose.analysis.summary import median_sigma
    from tempose.sfm import words

    scene, before = placed.scene, given.facts()
    sigma_rot, sigma_pos = scene.camera_sigma
    scaled = {
        name: None if before[name] is None else before[name] * placed.similarity.scale
        for name in ("median_sigma_pos_noise", "median_sigma_pos_model", "diameter")
    }
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
    from tempose.report.widgets import Fact
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
    models.write_intrinsics(home / "intrinsics.csv", given.posterior)
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
        if label not in ("verdict", "photographs", "points")
    ]
    doubts = [words.doubt(one, given) for one in given.doubts if not one.is_fatal]
    if not facts["trusted"]:
        verdict = Fact("verdict", "Do not trust it", words.reason(given), "bad")
    elif doubts:
        verdict = Fact("verdict", "Trust it with care", "\n".join(doubts), "warn")
    else:
        verdict = Fact("verdict", "Trust it", words.reason(given), "good")
    extras = CloudExtras(
        verdict=verdict,
        facts=[] if errors is None else [errors],
        settings=settings,
        notices=notices,
        version=metadata.version("tempose"),
        thumbnails=thumbnails(images, map(str, scene.poses.ids)),
        files=[
            *_FILES,
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
        ("verdict", facts["verdict"]),
        ("model", bundle_summary(given.posterior.bundle)),
        ("poses", _how_posed(given)),
        ("points", f"{counts[PointStatus.GOOD]} good" + (f"; marked: {weak}" if weak else "")),
        (
            "image noise",
            f"{facts['sigma_px']:.3g} px; neighbours that err together make the variance {facts['clustering']:.2g} times as large",
        ),
        ("camera 1σ", f"{both('')} (median)"),
        ("  by noise", both("_noise")),
        ("  by the camera model", both("_model")),
    ]
    rows += words.intrinsics(given)
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
