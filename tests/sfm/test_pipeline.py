"""From a COLMAP database or model to cameras and points; what a user sees when the input is bad."""

from __future__ import annotations

import csv
import itertools
import json
import re
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tempose.io
from helpers.sfm_scene import make
from tempose._support.progress import Progress
from tempose.analysis.accuracy import pose_errors
from tempose.cli import main
from tempose.errors import FileError, GraphError, NotApplicable, OptionError, ParseError
from tempose.io.colmap.cameras import ColmapCamera
from tempose.model.poses import Poses
from tempose.sfm import features, words
from tempose.sfm.features import build_database
from tempose.sfm.files import load_scene
from tempose.sfm.lengths import baseline_lengths
from tempose.sfm.motion import estimate_motion
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import RefusedPair, estimate_pairs, guided_pairs
from tempose.sfm.pipeline import read_views, reconstruct_views
from tempose.sfm.synchronise import synchronise
from tempose.sfm.two_views import PairCause, Refusal
from tempose.sfm.views import (
    FoundFocalLength,
    GuessedCameras,
    OtherSize,
    read_database_views,
    read_model_views,
)
from tempose.studies.coverage import shares
from tempose.studies.experiments import sfm_coverage

pycolmap = pytest.importorskip("pycolmap", reason="needs pycolmap (pip install 'tempose[sfm]')")

EXACT = sfm_coverage.EXACT
GRAPH = ("--posterior", "graph")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Poses]:
    """A database of COLMAP's own making, its model beside it, and the true poses."""
    cell = {"cameras": 6, "points": 200, "noise_px": 0.3, "source": "database", "seed": 0}
    made = sfm_coverage.make(tmp_path_factory.mktemp("synthetic"), cell)
    return made.source, made.poses


def test_database_of_colmap_to_files(
    synthetic: tuple[Path, Poses], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path, truth = synthetic
    assert main(["sfm", str(path), "-o", str(tmp_path), *GRAPH, "--draws", "10", "--rounds", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["n_cameras"] == 6 and facts["points"]["good"] > 150
    again = pycolmap.Reconstruction(tmp_path / "colmap")  # COLMAP opens what we write
    assert len(again.images) == 6 and len(again.points3D) == facts["points"]["good"]
    q = np.array([np.roll(again.find_image_with_name(n).cam_from_world().rotation.quat, 1) for n in truth.ids])
    t = np.array([again.find_image_with_name(n).cam_from_world().translation for n in truth.ids])
    errors = pose_errors(Poses.from_node_from_world(truth.ids, q, t), truth, "sim3")
    assert errors.mean_rotation_deg < 0.2
    assert {"report.html", "points.ply", "points_sigma.ply", "scene.npz", "sfm.json"} <= {
        p.name for p in tmp_path.iterdir()
    }


def test_a_camera_has_one_error_bar(
    synthetic: tuple[Path, Poses], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Every file that says how sure a camera is says the same; what an earlier version said otherwise is gone."""
    (tmp_path / "cameras").mkdir()
    for name in ("result.json", "poses.csv"):
        (tmp_path / "cameras" / name).write_text("")
    assert main(["sfm", str(synthetic[0]), "-o", str(tmp_path), *GRAPH, "--draws", "5", "--rounds", "0", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    with open(tmp_path / "cameras.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    sigma_rot_deg, sigma_pos = (np.array([float(row[name]) for row in rows]) for name in ("sigma_rot_deg", "sigma_pos"))
    np.testing.assert_array_equal((sigma_rot_deg, sigma_pos), load_scene(tmp_path).camera_sigma)
    assert facts["median_sigma_rot_deg"] == np.median(sigma_rot_deg) and facts["median_sigma_pos"] == np.median(
        sigma_pos
    )
    page = (tmp_path / "report.html").read_text()
    shown = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S)[1])["cameras"]
    for row, rot, pos, one in zip(rows, sigma_rot_deg, sigma_pos, shown, strict=True):
        assert (one["name"], one["rotation"], one["position"]) == (row["id"], rot, pos)
    others = [path for path in tmp_path.rglob("*.csv") if path.name != "cameras.csv"]
    assert others == [tmp_path / "graph.csv"] and not (tmp_path / "cameras").exists()
    graph = tempose.io.read_graph(others[0])  # pairs and where they were solved from; no word on how sure a camera is
    assert graph.n_edges == facts["n_pairs_in_graph"] and graph.node_ids == tuple(row["id"] for row in rows)


def test_a_model_gives_the_same_as_its_database(synthetic: tuple[Path, Poses]) -> None:
    path, truth = synthetic
    views = read_model_views(path.parent)
    motion = estimate_motion(views, replace(EXACT, rounds=1))
    assert pose_errors(motion.synchronised.poses, truth, "sim3").mean_rotation_deg < 0.2
    binary = path.parent / "binary"
    binary.mkdir()
    pycolmap.Reconstruction(path.parent).write_binary(binary)
    again = read_model_views(binary)
    assert again.names == views.names and all(map(np.array_equal, again.matches, views.matches))


def test_true_scales_give_metric_poses(synthetic: tuple[Path, Poses]) -> None:
    path, truth = synthetic
    motion = estimate_motion(read_database_views(path), replace(EXACT, scales="truth", rounds=1), truth)
    errors = pose_errors(motion.synchronised.poses, truth, "se3")
    extent = np.linalg.norm(truth.position - truth.position.mean(0), axis=1).max()
    assert errors.mean_translation < 0.01 * extent
    with pytest.raises(OptionError, match="true positions"):
        estimate_motion(read_database_views(path), SfmOptions("truth"))


@pytest.mark.slow
def test_error_bars_cover() -> None:
    """Errors of one scene hang together, so 30 scenes of 6 cameras count as about 60 independent ones: ±0.06 at 50%."""
    rows = []
    for seed in range(30):
        made = make(seed, n_views=6, n_points=150, noise_px=0.3)
        scene = reconstruct_views(made.views, replace(EXACT, rounds=1, seed=seed)).scene
        which = sfm_coverage.true_points(scene, made.views, (np.arange(150),) * 6)
        assert np.all(which >= 0)
        found = sfm_coverage.normalised_errors(scene, made.poses, made.points[which])
        rows.append({"setting": "arc", "seed": seed, **shares(found, 3)})
    line = sfm_coverage.table(rows)[-1]
    print(line)
    check_coverage(line)


def check_coverage(line: dict, kinds: tuple[str, ...] = sfm_coverage.KINDS) -> None:
    """Shares inside the regions are the levels, to three standard errors over data sets."""
    for kind, level in itertools.product(kinds, sfm_coverage.LEVELS):
        column = f"{kind}_{100 * level:.0f}"
        slack = 3.0 * max(line[f"{column}_se"], 0.5 * np.sqrt(level * (1.0 - level) / line["n"]))
        assert abs(line[column] - level) < slack, (column, line[column], slack)


@pytest.mark.slow
def test_error_bars_cover_on_colmaps_own_data() -> None:
    """A small version of ``tempose experiment sfm-coverage``; error bars 1.5 times too small or too large fail it."""
    cells = [{**setting, "seed": seed} for seed in range(100, 103) for setting in sfm_coverage.SETTINGS.values()]
    squared = [sfm_coverage.squared_errors(cell) for cell in cells]

    def coverage(factor: float) -> dict:
        rows = [shares({kind: x * factor**2 for kind, x in one.items()}, 3) for one in squared]
        return sfm_coverage.table([{"setting": "any", **row} for row in rows])[-1]

    print(coverage(1.0))
    check_coverage(coverage(1.0))
    for factor in (1.0 / 1.5, 1.5):
        with pytest.raises(AssertionError):
            check_coverage(coverage(factor))


def test_truths_of_colmaps_data_are_found(tmp_path: Path) -> None:
    """Keypoints know their true points; the right poses cover, and error bars a third as large do not."""
    cell = {"cameras": 6, "points": 100, "noise_px": 0.3, "source": "database", "right_matches": 0.9, "seed": 1}
    made = sfm_coverage.make(tmp_path, cell)
    views = read_views(made.source, tmp_path / "unused.db")
    found = reconstruct_views(views, replace(EXACT, rounds=1, draws=20, replicates=12))
    scene = found.scene
    which = sfm_coverage.true_points(scene, views, made.label)
    good = (scene.structure.status == 0) & (which >= 0)
    assert good.sum() > 80 and len(set(which[good].tolist())) == good.sum()
    points = np.where(which[:, None] >= 0, made.points[which], np.nan)
    covered = shares(sfm_coverage.normalised_errors(scene, made.poses, points), 3)
    assert covered["point_95"] > 0.7 and covered["n_orientation"] == 6
    third = replace(
        scene, camera_covariance=scene.camera_covariance / 9.0,
        structure=replace(
            scene.structure, image_covariance=scene.structure.image_covariance / 9.0,
            pose_covariance=scene.structure.pose_covariance / 9.0,
        ),
    )  # fmt: skip
    assert shares(sfm_coverage.normalised_errors(third, made.poses, points), 3)["point_95"] < 0.6


def test_views_that_do_not_hang_together_are_left_out() -> None:
    made = make(3, n_views=6, n_points=150)
    # the last view keeps no pair
    keep = np.flatnonzero(~np.any(made.views.pairs == 5, axis=1))
    views = replace(made.views, pairs=made.views.pairs[keep], matches=tuple(made.views.matches[k] for k in keep))
    motion = estimate_motion(views, SfmOptions(rounds=1))
    assert motion.synchronised.poses.ids == views.names[:5]
    told = words.notices(views, motion.first, motion.pairs, motion.synchronised)
    assert any("1 of 6 views" in line and "05.jpg" in line for line in told)
    truth = make(3, n_views=6, n_points=150).poses
    assert pose_errors(motion.synchronised.poses, truth, "sim3").mean_rotation_deg < 0.2


@pytest.mark.parametrize(
    ("kind", "cause", "said"),
    [("flat", PairCause.ONE_PLANE, "one plane"), ("still", PairCause.NO_BASELINE, "turned without moving")],
)
def test_degenerate_pairs_are_refused_with_a_reason(kind: str, cause: PairCause, said: str) -> None:
    made = make(4, n_views=3, n_points=150, noise_px=0.1, **{kind: True})
    refused = estimate_pairs(made.views).refused
    assert [(one.first, one.second) for one in refused] == [(0, 1), (0, 2), (1, 2)]
    assert all(one.why.cause is cause and one.why.cause.is_degenerate for one in refused)
    with pytest.raises(GraphError, match=said):
        estimate_motion(made.views)


def test_pairs_that_are_refused_for_what_they_show_are_named() -> None:
    """Those with too few matches are counted elsewhere; a plane is what a user should know of."""
    made = make(3, n_views=4, n_points=150)
    pairs = guided_pairs(made.views, made.poses)
    found = synchronise(made.views.names, pairs, *baseline_lengths(made.views, pairs))
    refused = [RefusedPair(0, 1, Refusal(cause, 40, 10, 30)) for cause in PairCause]
    told = words.notices(made.views, replace(pairs, refused=tuple(refused)), pairs, found)
    named = [cause for cause in PairCause if any(words.refusal(Refusal(cause, 40, 10, 30)) in line for line in told)]
    assert named == [PairCause.NO_BASELINE, PairCause.ONE_PLANE, PairCause.ONE_PLACE]


def test_bad_input_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture, synthetic: tuple[Path, Poses]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    cut = tmp_path / "cut.db"
    cut.write_bytes(synthetic[0].read_bytes()[:20000])
    text = tmp_path / "text.db"
    text.write_text("no database")
    for source, expected in (
        (empty, "no images"),
        (tmp_path / "nothing", "no such file"),
        (cut, "database"),
        (text, "database"),
    ):
        assert main(["sfm", str(source), "-o", str(tmp_path / "out")]) == 1
        said = capsys.readouterr().err.strip()
        assert expected in said and len(said.splitlines()) == 1, said


def test_a_truth_of_other_views_is_told_before_the_work(
    synthetic: tuple[Path, Poses], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    tempose.io.write_poses(tmp_path / "other.tum", Poses.identity(("1", "2", "3")))
    out = tmp_path / "out"
    assert main(["sfm", str(synthetic[0]), "-o", str(out), "--truth", str(tmp_path / "other.tum")]) == 1
    said = capsys.readouterr().err.strip()
    assert "has poses for 0 of the 6 views" in said and len(said.splitlines()) == 1
    assert not (out / "scene.npz").exists()


def test_errors_to_the_truth_are_told(
    synthetic: tuple[Path, Poses], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path, truth = synthetic
    tempose.io.write_poses(tmp_path / "true.csv", truth.select(truth.ids[:5]))  # one view has no truth
    command = ["sfm", str(path), "-o", str(tmp_path / "out"), *GRAPH, "--draws", "5", "--rounds", "0"]
    assert main([*command, "--truth", str(tmp_path / "true.csv")]) == 0
    said = capsys.readouterr().out
    assert "error to the truth: 0." in said
    covered = re.search(r"inside the 95% regions: (\d) orientations and (\d) positions of 5", said)
    assert covered is not None and min(map(int, covered.groups())) >= 3
    assert main(["eval", str(tmp_path / "out"), str(tmp_path / "true.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_nodes"] == 5
    page = (tmp_path / "out" / "report.html").read_text()
    assert "error to the truth" in page and "<h1>out</h1>" in page
    assert main([*command, "--seed", "1", "--quiet"]) == 0  # what an earlier run left does not stop the next


def spoil(path: Path, copy: Path, *statements: str) -> Path:
    """A copy of a database that some statements have changed."""
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return copy


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM cameras", "an image has camera 1, which the database does not have"),
        ("DELETE FROM matches", "no two of its 6 images share 15 matches"),
        ("UPDATE keypoints SET data = substr(data, 1, 100) WHERE image_id = 2", "is it whole"),
        (
            "UPDATE keypoints SET rows = 1, data = substr(data, 1, 4 * cols) WHERE image_id = 2",
            "keypoints that are not",
        ),
    ],
)
def test_a_spoilt_database_is_told_in_one_line(
    statement: str, words: str, synthetic: tuple[Path, Poses], tmp_path: Path
) -> None:
    with pytest.raises(ParseError, match=words):
        read_database_views(spoil(synthetic[0], tmp_path / "spoilt.db", statement))


def test_error_bars_know_whether_cameras_were_calibrated(synthetic: tuple[Path, Poses], tmp_path: Path) -> None:
    assert read_database_views(synthetic[0]).calibrated
    guessed = read_database_views(
        spoil(synthetic[0], tmp_path / "guessed.db", "UPDATE cameras SET prior_focal_length = 0")
    )
    assert not guessed.calibrated and guessed.remarks == (GuessedCameras(1, 1),)
    options = SfmOptions(rounds=0, draws=8, replicates=20)
    known, rough = (reconstruct_views(views, options).scene for views in (read_database_views(synthetic[0]), guessed))
    assert known.gauge.calibration_error == 0.001 and rough.gauge.calibration_error == 0.005
    assert "no focal length from a calibration" in words.remark(guessed.remarks[0])
    assert "calibration known to 0.5%" in words.gauge(rough.gauge)
    assert np.median(rough.camera_sigma[1]) > 1.5 * np.median(known.camera_sigma[1])
    with pytest.raises(OptionError, match="relative"):
        SfmOptions(calibration_error=2.0)


def test_a_model_that_is_not_whole_is_told(synthetic: tuple[Path, Poses], tmp_path: Path) -> None:
    for name in ("cameras.txt", "images.txt"):
        (tmp_path / name).write_bytes((synthetic[0].parent / name).read_bytes())
    with pytest.raises(ParseError, match=r"without points3D\.txt"):
        read_views(tmp_path, tmp_path / "d.db")
    empty, cut = tmp_path / "empty", tmp_path / "cut"
    for folder in (empty, cut):
        folder.mkdir()
    pycolmap.Reconstruction().write_text(empty)
    with pytest.raises(ParseError, match="no images"):
        read_views(empty, tmp_path / "d.db")
    pycolmap.Reconstruction(synthetic[0].parent).write_binary(cut)
    (cut / "images.bin").write_bytes((cut / "images.bin").read_bytes()[:2000])
    with pytest.raises(ParseError, match="is it whole"):
        read_views(cut, tmp_path / "d.db")


@pytest.fixture(scope="module")
def noise_pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pictures of nothing, and a fourth of another size."""
    folder, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for name, size in (("a", (60, 80)), ("b", (60, 80)), ("c", (60, 80)), ("tall", (80, 60))):
        grey = np.kron(rng.integers(0, 255, size), np.ones((4, 4))).astype(np.uint8)
        pycolmap.Bitmap.from_array(grey).write(folder / f"{name}.png")
    return folder


def test_photographs_that_do_not_match(noise_pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["sfm", str(noise_pictures), "-o", str(tmp_path), "--quiet"]) == 1
    said = capsys.readouterr().err.strip()
    assert len(said.splitlines()) == 1 and "no two of its 4 images share 15 matches" in said
    K = tmp_path / "K.txt"
    K.write_text("300 0 160 0 300 120 0 0 1")
    command = ["sfm", str(noise_pictures), "-o", str(tmp_path), "--quiet", "--intrinsics", str(K)]
    assert main(command) == 1  # features of a camera that was not calibrated are not used for one that is
    assert "another calibration" in capsys.readouterr().err
    assert main([*command, "--overwrite"]) == 1
    assert f"{noise_pictures}: no two of its 3 images share 15 matches" in capsys.readouterr().err


def test_features_are_not_used_for_other_photographs(noise_pictures: Path, tmp_path: Path) -> None:
    camera = ColmapCamera("PINHOLE", 320, 240, np.array([300.0, 300.0, 160.0, 120.0]))
    remarks = build_database(noise_pictures, tmp_path / "d.db", camera)
    assert remarks == [OtherSize("tall.png", (240, 320), (320, 240))]
    assert "tall.png is left out: it has 240×320 pixels where most have 320×240" in words.remark(remarks[0])
    fewer = tmp_path / "fewer"
    fewer.mkdir()
    for name in ("a.png", "b.png"):
        (fewer / name).write_bytes((noise_pictures / name).read_bytes())
    with pytest.raises(FileError, match="made with other photographs"):
        build_database(fewer, tmp_path / "d.db", camera)
    with pytest.raises(FileError, match="a calibration that is not given now"):
        build_database(noise_pictures, tmp_path / "d.db")
    (tmp_path / "d.db").write_bytes((tmp_path / "d.db").read_bytes()[:5000])
    with pytest.raises(ParseError, match="earlier run cannot be read"):
        build_database(noise_pictures, tmp_path / "d.db", camera)


def test_pythons_sqlite_stays_away_while_colmap_writes(
    noise_pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies of SQLite in one process drop each other's locks, and the database is destroyed."""
    real, seen = sqlite3.connect, []

    def connect(*arguments, **more):
        assert not any(thread.name == "colmap" for thread in threading.enumerate())
        return real(*arguments, **more)

    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr(features, "_POLL_SECONDS", 0.001)
    camera = ColmapCamera("PINHOLE", 320, 240, np.array([300.0, 300.0, 160.0, 120.0]))
    build_database(noise_pictures, tmp_path / "d.db", camera, seen.append)
    assert Progress("features", 3, 3) in seen and Progress("matching", 3, 3) in seen and len(seen) > 4


class Calibrating:
    """COLMAP whose pairs say the focal lengths that they are told to."""

    Database, DatabaseTransaction, ViewGraphCalibrationOptions = (
        pycolmap.Database,
        pycolmap.DatabaseTransaction,
        dict,
    )

    def __init__(self, path: Path, *said: float) -> None:
        """A database with one camera, whose focal length is guessed; pairs that have nothing to say find none."""
        self.said, self.calls = said, 0
        with pycolmap.Database.open(path) as database:
            database.write_camera(pycolmap.Camera.create_from_model_name(0, "SIMPLE_RADIAL", 1200.0, 1000, 800))

    def calibrate_view_graph(self, path: Path, options: dict[str, int]) -> bool:
        if not self.said:
            return False
        with pycolmap.Database.open(path) as database:
            (camera,) = database.read_all_cameras()
            camera.params = [self.said[self.calls], *camera.params[1:]]
            camera.has_prior_focal_length = True
            database.update_camera(camera)
        self.calls += 1
        return True


def test_the_focal_length_is_found_once(tmp_path: Path) -> None:
    """A second run into the same directory starts from the first one's result, and must not end elsewhere."""
    path = tmp_path / "features.db"
    colmap = Calibrating(path, 1001.0, 1002.0)
    (first,), (second,) = features._calibrate(colmap, path), features._calibrate(colmap, path)
    assert first == second == FoundFocalLength(1001.0, 1200.0, from_exif=False) and colmap.calls == 1
    assert "1001 px" in words.remark(first) and "the first guess was 1200" in words.remark(first)
    (tmp_path / "features.db.focal.json").write_text('{"found": ')  # cut off: it is found again
    assert features._calibrate(colmap, path)[0].found_px == 1002.0


def test_pairs_that_tell_no_focal_length_are_refused_unless_it_is_estimated_later(tmp_path: Path) -> None:
    path = tmp_path / "features.db"
    colmap = Calibrating(path)
    assert features._calibrate(colmap, path, begin_anywhere=True) == [FoundFocalLength(1200.0, 1200.0, from_exif=False)]
    with pytest.raises(NotApplicable, match="give the calibration"):
        features._calibrate(colmap, path)


@pytest.mark.parametrize(("said", "found", "known"), [(3900.0, 3900.0, True), (9463.0, 1200.0, False)])
def test_a_focal_length_that_no_lens_has_is_not_taken(tmp_path: Path, said: float, found: float, known: bool) -> None:
    path = tmp_path / "features.db"
    (one,) = features._calibrate(Calibrating(path, said), path)
    with pycolmap.Database.open(path) as database:
        (camera,) = database.read_all_cameras()
    assert one.found_px == camera.mean_focal_length() == found and camera.has_prior_focal_length == known


def test_an_unreadable_image_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "photographs"
    folder.mkdir()
    for k in range(3):
        (folder / f"{k}.jpg").write_bytes(b"not a picture")
    with pytest.raises(ParseError, match="0 of 3 images can be read"):
        build_database(folder, tmp_path / "database.db")


def test_epfl_cameras(tmp_path: Path) -> None:
    from tempose.io.epfl_cameras import read_epfl_cameras

    (tmp_path / "a.jpg.camera").write_text("9 0 5\n0 9 5\n0 0 1\n0 0 0\n0 -1 0\n1 0 0\n0 0 1\n1 2 3\n10 10\n")
    poses = tempose.io.read_poses(tmp_path)  # found by its files
    assert poses.ids == ("a.jpg",) and np.allclose(poses.position, [[1, 2, 3]])
    np.testing.assert_allclose(poses.wxyz[0], [np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    (tmp_path / "b.jpg.camera").write_text("1 2 3")
    with pytest.raises(ParseError, match="26 numbers"):
        read_epfl_cameras(tmp_path)


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ParseError, match="no such file or folder"):
        read_views(tmp_path / "x", tmp_path / "d.db")
