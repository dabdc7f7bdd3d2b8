"""Databases with unknown calibration: cameras, focal length and distortion with error bars, and what is refused."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers import bundles
from helpers.photo_databases import GUESS, TRUE, arc, cloud, looking_at, write
from tempose.analysis.accuracy import pose_errors
from tempose.cli import main
from tempose.errors import OptionError
from tempose.io import write_poses
from tempose.model.poses import Poses
from tempose.sfm import adjusted
from tempose.sfm.accuracy import camera_errors
from tempose.sfm.adjusted import AdjustedOptions, adjust_database
from tempose.sfm.adjustment.systematic import ModelError
from tempose.sfm.calibration import calibrate
from tempose.sfm.files import load_scene
from tempose.sfm.given import ModelDoubt, flatness
from tempose.sfm.mapping import MappedModel, MappingOptions, apart, bendable, map_database

pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")

EXACT = ModelError(0.0, 0.0)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Poses]:
    """A database whose focal length is 4% off and whose distortion nobody knows."""
    path, poses = tmp_path_factory.mktemp("photographs") / "database.db", arc(8)
    write(path, poses, cloud(250))
    return path, poses


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_everything_is_found(scene: tuple[Path, Poses], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, truth = scene
    before = path.read_bytes()
    write_poses(tmp_path / "truth.csv", truth)
    homes = [tmp_path / name for name in ("a", "b")]
    assert main(["sfm", str(path), "-o", str(homes[0]), "--truth", str(tmp_path / "truth.csv")]) == 0
    said = "".join(capsys.readouterr())
    assert "what was seen determines it" in said and "8 photographs share 1 calibration" in said
    assert "--posterior graph" in said and "the principal point is" in said
    assert re.search(
        r"a second coefficient of radial distortion \(camera model RADIAL\): not needed, .* χ² is [\d.]+", said
    )
    assert re.search(
        r"camera 1, SIMPLE_RADIAL +f 12\d\d\.?\d* ± [\d.]+ \([\d.]+ by noise, [\d.]+ by the camera model\);.* k -0\.",
        said,
    )
    assert path.read_bytes() == before

    home = homes[0]
    found = load_scene(home)
    errors = pose_errors(found.poses, truth, "sim3")
    assert errors.mean_rotation_deg < 0.05 and errors.mean_translation < 0.01
    turned, placed = camera_errors(found, truth)
    assert turned.max() < 16.0 and placed.max() < 16.0  # χ² of 3: one in a thousand is above
    intrinsics = {row["parameter"]: row for row in table(home / "intrinsics.csv")}
    for name, true in (("f", TRUE[0]), ("k", TRUE[3])):
        value, sigma = float(intrinsics[name]["value"]), float(intrinsics[name]["sigma"])
        assert intrinsics[name]["estimated"] == "1" and abs(value - true) < 4.0 * sigma
        shares = [float(intrinsics[name][f"sigma_{part}"]) for part in ("noise", "model")]
        assert sigma**2 == pytest.approx(shares[0] ** 2 + shares[1] ** 2)
    assert float(intrinsics["f"]["sigma"]) < 0.01 * TRUE[0]
    facts = json.loads((home / "sfm.json").read_text())
    assert facts["trusted"] and facts["mapper"] == "incremental" and facts["lost"] == []
    assert [(one["model"], one["taken"]) for one in facts["lenses_tried"]] == [("RADIAL", False), ("OPENCV", False)]
    model = pycolmap.Reconstruction(home / "colmap")
    assert model.num_reg_images() == 8 and next(iter(model.cameras.values())).model.name == "SIMPLE_RADIAL"
    for name in ("report.html", "points.ply", "points_sigma.ply", "points.csv", "transforms.json"):
        assert (home / name).stat().st_size > 0

    assert main(["sfm", str(path), "-o", str(homes[1]), "--quiet"]) == 0  # same seed, same bytes
    for name in ("cameras.csv", "intrinsics.csv", "points.csv", "scene.npz", "colmap/images.txt"):
        assert (homes[1] / name).read_bytes() == (home / name).read_bytes()


def test_the_graph_beside(scene: tuple[Path, Poses], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the calibration that was found, distortion undone, the pose graph agrees; without it, it cannot."""
    path, truth = scene
    home = tmp_path / "out"
    assert main(["sfm", str(path), "-o", str(home), "--posterior", "both", "--draws", "5", "--rounds", "0"]) == 0
    assert "differs by" in capsys.readouterr().out
    facts = json.loads((home / "sfm.json").read_text())["difference"]
    assert facts["n_both"] == 8 and facts["mean_rotation_deg"] < 0.3
    graph = load_scene(home / "graph")
    assert pose_errors(graph.poses, truth, "sim3").mean_rotation_deg < 0.3
    assert main(["sfm", str(path), "-o", str(tmp_path / "g"), "--posterior", "graph", "--draws", "4", "--quiet"]) == 0
    assert pose_errors(load_scene(tmp_path / "g").poses, truth, "sim3").mean_rotation_deg > 0.3


def test_a_calibration_that_is_believed_although_wrong(scene: tuple[Path, Poses]) -> None:
    """The negative control: with the calibration estimated the truth is inside, with a wrong one taken as exact it is not."""
    path, truth = scene
    found = adjust_database(path, AdjustedOptions(error=EXACT)).models[0]
    believed = adjust_database(path, AdjustedOptions(MappingOptions(refined=()), error=EXACT)).models[0]
    right, wrong = (np.concatenate(camera_errors(one.scene, truth)) / 3.0 for one in (found, believed))
    assert 0.3 < right.mean() < 2.0
    assert wrong.mean() > 2.5
    assert "focal" not in believed.options.refined and np.isnan(believed.focal_sigma).all()
    np.testing.assert_array_equal(believed.posterior.bundle.cameras[0].parameters, GUESS)


def test_two_zooms_that_nobody_told_of(tmp_path: Path) -> None:
    poses = arc(8)
    write(tmp_path / "d.db", poses, cloud(250), true=[TRUE, (1900.0, 512.0, 384.0, -0.05)])
    found = adjust_database(tmp_path / "d.db")
    assert found.mapped.separate and len(found.models) == 1
    cameras = found.models[0].posterior.bundle.cameras
    lengths = np.array([cameras[c].focal_px for c in found.models[0].posterior.bundle.camera_of])
    np.testing.assert_allclose(lengths, np.tile([1280.0, 1900.0], 4), rtol=0.01)
    assert pose_errors(found.models[0].scene.poses, poses, "sim3").mean_rotation_deg < 0.05


def test_every_photograph_by_another_camera(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both mappers are asked, and the model with less noise is kept; where cameras are shared, one mapper is enough."""
    asked = []

    def mapped(*given: Any) -> Any:
        asked.append(given[2].mapper)
        return map_database(*given)

    monkeypatch.setattr(adjusted, "map_database", mapped)
    poses, lengths = arc(8), np.linspace(1100.0, 1700.0, 8)
    lenses = [(f, 512.0, 384.0, -0.05) for f in lengths]
    write(tmp_path / "d.db", poses, cloud(250), true=lenses, cameras=range(8))
    found = adjust_database(tmp_path / "d.db")
    assert asked == ["auto", "global"] and found.mapped.mostly_alone
    one = found.models[0].posterior
    each = [one.bundle.cameras[c].focal_px for c in one.bundle.camera_of]
    sigma = np.array(found.models[0].focal_sigma)[one.bundle.camera_of] * lengths
    assert np.all(np.abs(each - lengths) < 4.0 * sigma) and np.all(sigma < 0.05 * lengths)
    assert pose_errors(found.models[0].scene.poses, poses, "sim3").mean_rotation_deg < 0.3
    asked.clear()
    write(tmp_path / "shared.db", poses, cloud(250), cameras=[0, 0, 0, 0, 1, 1, 1, 2])
    assert not adjust_database(tmp_path / "shared.db").mapped.mostly_alone and asked == ["auto"]


def test_two_scenes_are_two_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, other = arc(8), arc(6, seed=5)
    both = Poses(
        (*first.ids, *(f"other-{k}.jpg" for k in range(6))),
        np.concatenate([first.wxyz, other.wxyz]),
        np.concatenate([first.position, other.position + np.array([100.0, 0.0, 0.0])]),
    )
    write(tmp_path / "d.db", both, np.concatenate([cloud(250), cloud(250, 9) + np.array([100.0, 0.0, 0.0])]))
    home = tmp_path / "out"
    assert main(["sfm", str(tmp_path / "d.db"), "-o", str(home)]) == 0
    assert "2 scenes that do not hang together" in capsys.readouterr().err
    for where, names in ((home, both.ids[:8]), (home / "scene-2", both.ids[8:])):
        found = load_scene(where)
        assert found.poses.ids == names
        assert pose_errors(found.poses, both, "sim3").mean_rotation_deg < 0.1


# ---------------------------------------------------------------------- what is not to be trusted


def test_a_camera_that_only_turns_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n, rng = 6, np.random.default_rng(1)
    angle, place = np.linspace(-0.3, 0.3, n), np.zeros((n, 3))
    ahead = np.stack([np.sin(angle), -np.cos(angle), rng.uniform(-0.1, 0.1, n)], axis=1)
    points = np.random.default_rng(3).uniform([-6.0, -14.0, -4.0], [6.0, -6.0, 4.0], (300, 3))
    write(tmp_path / "d.db", Poses(arc(n).ids, looking_at(place, ahead), place), points)
    assert main(["sfm", str(tmp_path / "d.db"), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert "do not trust it" in said and "turned without moving" in said


def test_a_wall_from_the_front_without_calibration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Any focal length explains it; with the calibration all is well."""
    n, points = 6, cloud(250) * [1.0, 0.0, 1.0]
    place = np.stack([np.linspace(-1.0, 1.0, n), np.full(n, -6.0), np.linspace(0.3, -0.3, n)], axis=1)
    poses = Poses(arc(n).ids, looking_at(place, place + np.array([0.0, 1.0, 0.0])), place)
    write(tmp_path / "d.db", poses, points)
    assert main(["sfm", str(tmp_path / "d.db"), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    assert "do not trust it" in said and "focal length is known to" in said
    assert "Do not trust it" in (tmp_path / "out" / "report.html").read_text()
    write(tmp_path / "known.db", poses, points, guess=TRUE, prior=True)
    options = AdjustedOptions(MappingOptions(refined=()))
    found = adjust_database(tmp_path / "known.db", options).models[0]
    assert not found.doubts and pose_errors(found.scene.poses, poses, "sim3").mean_rotation_deg < 0.1


def test_moving_straight_ahead_leaves_the_focal_length_open(tmp_path: Path) -> None:
    n = 6
    place = np.stack([np.zeros(n), np.linspace(-9.0, -6.0, n), np.zeros(n)], axis=1)
    write(tmp_path / "d.db", Poses(arc(n).ids, looking_at(place, 0.0 * place), place), cloud(250))
    assert any(one.is_fatal for one in adjust_database(tmp_path / "d.db").models[0].doubts)


def test_flatness() -> None:
    rng = np.random.default_rng(0)
    plane = rng.uniform(-1.0, 1.0, (500, 3)) * [1.0, 2.0, 0.002] @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert flatness(plane) == pytest.approx(0.002, rel=0.3)
    plane[:40] += 3.0 * rng.standard_normal((40, 3))  # a few that do not belong to it
    assert flatness(plane) < 0.005
    assert flatness(rng.uniform(-1.0, 1.0, (500, 3))) > 0.5


# ---------------------------------------------------------------------- parts


@pytest.mark.parametrize("true", ["SIMPLE_RADIAL", "OPENCV"])
def test_the_camera_model_is_the_one_that_is_needed(true: str) -> None:
    made = bundles.make(3, true, frames=8, points=300, sigma_px=0.2)
    for camera in made.adjusted.cameras.values():
        camera.model, camera.params = pycolmap.CameraModelId.SIMPLE_RADIAL, [1250.0, 512.0, 384.0, 0.0]
    done = calibrate(made.adjusted, ("focal", "distortion"), EXACT)
    assert done.posterior.bundle.cameras[0].model == true
    assert [one.model for one in done.trials] == ["RADIAL", "OPENCV"]
    off = done.posterior.bundle.cameras[0].parameters - bundles.PARAMETERS[true]
    free = done.posterior.bundle.cameras[0].free
    sigma = np.sqrt(np.diag(done.posterior.intrinsics_covariance(0)))
    assert np.all(np.abs(off[free]) < 5.0 * sigma)
    # what is left stands where its cost is least: a model that was tried and given back is as it was
    assert np.median(done.posterior.step_sigmas) < 0.1


def test_models_that_are_parts_of_others_are_left_out() -> None:
    def model(number: int, names: str) -> MappedModel:
        return MappedModel(Path(f"model-{number}"), frozenset(names), 10)

    kept = apart([model(0, "abc"), model(1, "defgh"), model(2, "ghi"), model(3, "hij")])
    assert [one.folder.name for one in kept] == ["model-1", "model-0", "model-3"]


def test_a_pinhole_can_bend() -> None:
    kinds = {"SIMPLE_PINHOLE": [900.0, 1.0, 2.0], "PINHOLE": [900.0, 900.0, 1.0, 2.0]}
    for name, params in kinds.items():
        camera = pycolmap.Camera(model=name, width=10, height=10, params=params)
        assert bendable(camera) and camera.model.name == "SIMPLE_RADIAL"
        np.testing.assert_array_equal(camera.params, [900.0, 1.0, 2.0, 0.0])
    camera = pycolmap.Camera(model="PINHOLE", width=10, height=10, params=[900.0, 905.0, 1.0, 2.0])
    assert bendable(camera) and camera.model.name == "OPENCV" and not bendable(camera)


def test_what_cannot_be_meant(scene: tuple[Path, Poses], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sfm", str(scene[0]), "-o", str(tmp_path / "out")]
    for more, said in (
        (["--scales", "truth"], "--scales is for --posterior graph"),
        (["--draws", "5"], "--draws is for --posterior graph"),
        (["--posterior", "graph", "--mapper", "global"], "--mapper is for --posterior adjusted"),
        (["--intrinsics", "K.txt"], "--refined none"),
        (["--readjust"], "is adjusted anyway"),
    ):
        assert main([*command, *more]) != 0
        assert said in capsys.readouterr().err
    with pytest.raises(OptionError, match="unknown mapper 'best'"):
        MappingOptions(mapper="best")
    assert ModelDoubt.PLANE.is_fatal and not ModelDoubt.LOST.is_fatal
