"""Error bars for a COLMAP model: it stays as it is, files, adjusting again, and what is not to be trusted."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.bundles import adjust, make
from tempose.analysis.accuracy import pose_errors
from tempose.cli import main
from tempose.errors import OptionError
from tempose.geometry import quaternion as quat
from tempose.io.colmap.model import model_poses
from tempose.sfm.adjustment.posterior import posterior_of
from tempose.sfm.adjustment.problem import bundle_of, read_bundle
from tempose.sfm.adjustment.residual_fields import with_lens_error
from tempose.sfm.files import load_scene
from tempose.sfm.given import GivenOptions, ModelDoubt, with_error_bars

pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adjusted model, in text."""
    model = make(0, frames=8, points=200).adjusted
    adjust(model)
    home = tmp_path_factory.mktemp("model")
    model.write_text(home)
    return home


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_model_stays_as_it_is(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "out"
    assert main(["sfm", str(folder), "-o", str(home)]) == 0
    said = capsys.readouterr().out
    assert "what was seen determines it" in said and "as they were" in said and "by the camera model" in said
    for file in folder.iterdir():
        assert (home / "colmap" / file.name).read_bytes() == file.read_bytes()

    found = with_lens_error(posterior_of(read_bundle(folder)))
    cameras = table(home / "cameras.csv")
    assert [row["id"] for row in cameras] == list(found.bundle.names)
    first = cameras[0]
    for kind, part in (("rot", slice(0, 3)), ("pos", slice(3, 6))):
        unit = "_deg" if kind == "rot" else ""
        size = np.sqrt(np.trace(found.camera_covariance[0, part, part]) / 3.0)
        assert float(first[f"sigma_{kind}{unit}"]) == pytest.approx(np.degrees(size) if unit else size)
        shares = [float(first[f"sigma_{kind}_{name}{unit}"]) for name in ("noise", "model")]
        assert float(first[f"sigma_{kind}{unit}"]) ** 2 == pytest.approx(shares[0] ** 2 + shares[1] ** 2)
    intrinsics = {row["parameter"]: row for row in table(home / "intrinsics.csv")}
    assert float(intrinsics["f"]["sigma"]) == pytest.approx(np.sqrt(found.intrinsics_covariance(0)[0, 0]))
    assert intrinsics["cx"]["estimated"] == "0"
    assert float(intrinsics["cx"]["sigma"]) == pytest.approx(0.005 * float(intrinsics["f"]["value"]))
    points = table(home / "points.csv")
    model = pycolmap.Reconstruction(folder)
    assert {int(row["point3D_id"]) for row in points} == set(model.points3D)
    one = points[7]
    np.testing.assert_allclose([float(one[k]) for k in "xyz"], model.points3D[int(one["point3D_id"])].xyz)
    total = found.point_own + found.point_inherited + found.point_model
    assert float(one["cov_xy"]) == pytest.approx(total[7, 0, 1])
    assert float(one["sigma"]) == pytest.approx(np.sqrt(np.trace(total[7]) / 3.0))

    scene = load_scene(home)
    assert scene.gauge.given and scene.structure.good.sum() == len(points)
    facts = json.loads((home / "sfm.json").read_text())
    assert facts["trusted"] and facts["posterior"] == "adjusted" and not facts["readjusted"]
    assert "do not trust" not in (home / "report.html").read_text()


def test_adjusted_again(tmp_path: Path) -> None:
    """A model that was not adjusted to the end, with wrong matches: it is said, and --readjust mends it."""
    made = make(1, frames=8, points=200)
    rng = np.random.default_rng(0)
    for image in made.adjusted.images.values():
        for point in image.points2D:
            if rng.random() < 0.02:
                point.xy = point.xy + rng.normal(0.0, 15.0, 2)
    adjust(made.adjusted)
    made.adjusted.write_binary(tmp_path)
    truth = model_poses(made.truth)
    plain = with_error_bars(tmp_path)
    again = with_error_bars(tmp_path, GivenOptions(readjust=True))
    before, after = (pose_errors(one.scene.poses, truth, "sim3").mean_translation for one in (plain, again))
    assert after < 0.6 * before
    assert again.adjusted_px is not None and again.posterior.sigma_px < 0.4 * plain.posterior.sigma_px
    assert np.median(again.posterior.step_sigmas) < 0.1
    # the frame of the model is kept: the mean of the cameras stays
    np.testing.assert_allclose(
        again.scene.poses.position.mean(axis=0), plain.scene.poses.position.mean(axis=0), atol=1e-9
    )

    home = tmp_path / "out"
    assert main(["sfm", str(tmp_path), "-o", str(home), "--readjust", "--quiet"]) == 0
    written = model_poses(pycolmap.Reconstruction(home / "colmap"))
    assert pose_errors(written, truth, "sim3").mean_translation == pytest.approx(after, rel=1e-3)


def test_not_adjusted_is_said(tmp_path: Path) -> None:
    model = make(2, frames=6, points=100).adjusted
    for frame in model.frames.values():
        pose = frame.rig_from_world
        pose.translation = pose.translation + 0.05
        frame.rig_from_world = pose
    model.write_binary(tmp_path)
    assert ModelDoubt.NOT_ADJUSTED in with_error_bars(tmp_path).doubts


def turned_only(tmp_path: Path, moved: float) -> Path:
    """A camera that turns without moving: points at any depth explain it."""
    model = make(3, frames=6, points=150, sigma_px=0.0).truth
    bundle = bundle_of(model)
    far = np.max(np.linalg.norm(bundle.position, axis=1))
    rng = np.random.default_rng(0)
    middle, facing = bundle.poses.position[0], bundle.poses.wxyz[0]
    for frame in model.frames.values():
        turned = quat.conjugate(quat.multiply(quat.exp(0.05 * rng.standard_normal(3)), facing))
        place = middle + moved * far * rng.standard_normal(3)
        rotation = pycolmap.Rotation3d(turned[[1, 2, 3, 0]])
        frame.rig_from_world = pycolmap.Rigid3d(rotation, -quat.rotate(turned, place))
    for image in model.images.values():
        camera = model.cameras[image.camera_id]
        for k, point in enumerate(image.points2D):
            if point.has_point3D():
                at = camera.img_from_cam(image.cam_from_world() * model.points3D[point.point3D_id].xyz)
                if at is None:
                    model.delete_observation(image.image_id, k)
                else:
                    point.xy = at + 0.3 * rng.standard_normal(2)
    model.write_binary(tmp_path)
    return tmp_path


def test_a_camera_that_only_turns_is_not_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "out"
    assert main(["sfm", str(turned_only(tmp_path, 1e-3)), "-o", str(home)]) == 1
    assert "do not trust it" in capsys.readouterr().out
    facts: dict[str, Any] = json.loads((home / "sfm.json").read_text())
    assert not facts["trusted"] and "no parallax" in facts["doubts"]
    assert "Do not trust it" in (home / "report.html").read_text()


def test_a_camera_that_does_not_move_at_all_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sfm", str(turned_only(tmp_path, 1e-7)), "-o", str(tmp_path / "out")]) == 1
    assert "do not trust it" in "".join(capsys.readouterr())


def test_a_photograph_that_sees_nothing_has_no_error_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make(5, frames=6, points=100).adjusted
    adjust(model)
    blind = model.images[3]
    for k, point in list(enumerate(blind.points2D))[4:]:
        if point.has_point3D():
            model.delete_observation(3, k)
    model.write_binary(tmp_path)
    home = tmp_path / "out"
    assert main(["sfm", str(tmp_path), "-o", str(home)]) == 0
    assert f"1 photographs see too few points of others for an error bar: {blind.name}" in capsys.readouterr().err
    assert blind.name not in {row["id"] for row in table(home / "cameras.csv")}
    assert (home / "colmap" / "images.bin").read_bytes() == (tmp_path / "images.bin").read_bytes()


def test_too_few_points_are_not_trusted(tmp_path: Path) -> None:
    model = make(4, frames=6, points=20).adjusted
    adjust(model)
    model.write_binary(tmp_path)
    found = with_error_bars(tmp_path)
    assert ModelDoubt.FEW_POINTS in found.doubts and not found.facts()["trusted"]


def test_the_graph_is_still_there(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "out"
    assert main(["sfm", str(folder), "-o", str(home), "--posterior", "graph", "--draws", "4", "--quiet"]) == 0
    assert (home / "graph.csv").exists() and not (home / "intrinsics.csv").exists()


def test_what_cannot_be_meant(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sfm", str(folder), "-o", str(folder)]) != 0
    assert "is the model itself" in capsys.readouterr().err
    assert main(["sfm", str(tmp_path), "-o", str(tmp_path / "o"), "--readjust"]) != 0
    assert "--readjust is for the folder of a COLMAP model" in capsys.readouterr().err
    with pytest.raises(OptionError, match="'lens' is no group of intrinsics"):
        GivenOptions(refined=("lens",))
