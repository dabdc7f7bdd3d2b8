"""What COLMAP's mappers leave behind."""

from __future__ import annotations

import numpy as np
import pytest

pycolmap = pytest.importorskip("pycolmap", reason="needs the extra sfm")

from helpers import bundles  # noqa: E402
from tempose.io.colmap.model import open_model  # noqa: E402
from tempose.sfm.features import undo_unlikely  # noqa: E402
from tempose.sfm.mapping import Mapped, _separate, drop_impossible, linked, most_of  # noqa: E402


@pytest.mark.parametrize("focal", [-300.0, 1e-3, 1e6, np.nan])
def test_photographs_of_cameras_that_cannot_be_are_taken_out(focal, tmp_path) -> None:
    model = bundles.make(frames=2, rigs=3).adjusted  # three cameras of two photographs
    broken = model.cameras[2]
    broken.params = [focal, *broken.params[1:]]
    drop_impossible(model)
    assert model.num_reg_images() == 4 and model.cameras[2].mean_focal_length() > 0.0
    assert {image.camera_id for image in model.images.values() if image.has_pose} == {1, 3}
    model.write_binary(tmp_path)
    open_model(tmp_path)  # else it would be refused


def test_a_model_that_can_be_stays_as_it_is() -> None:
    model = bundles.make(frames=2, rigs=3).adjusted
    before = [list(camera.params) for camera in model.cameras.values()]
    drop_impossible(model)
    assert model.num_reg_images() == 6 and [list(camera.params) for camera in model.cameras.values()] == before


def test_focal_lengths_that_no_lens_has_are_not_taken_from_pairs(tmp_path) -> None:
    """Too short, too long, likely, and known from elsewhere; of an image of 1000×800 that began with 1200 px."""
    found = [
        ("SIMPLE_RADIAL", 137.0, False),
        ("OPENCV", 5000.0, False),
        ("SIMPLE_RADIAL", 900.0, False),
        ("PINHOLE", 137.0, True),
    ]
    with pycolmap.Database.open(tmp_path / "database.db") as database:
        for model, focal, is_known in found:
            camera = pycolmap.Camera.create_from_model_name(0, model, focal, 1000, 800)
            camera.has_prior_focal_length = is_known
            database.write_camera(camera)
    undo_unlikely(pycolmap, tmp_path / "database.db", [(1200.0, is_known) for _, _, is_known in found])
    with pycolmap.Database.open(tmp_path / "database.db") as database:
        after = database.read_all_cameras()
    assert [camera.mean_focal_length() for camera in after] == [1200.0, 1200.0, 900.0, 137.0]
    assert list(after[1].params[:4]) == [1200.0, 1200.0, 500.0, 400.0]


def test_what_pairs_link() -> None:
    assert linked("abcdefg", [("a", "c"), ("e", "f"), ("c", "g"), ("f", "e"), ("g", "a")]) == [
        ["a", "c", "g"],
        ["b"],
        ["d"],
        ["e", "f"],
    ]
    assert most_of(frozenset("acg"), [frozenset("ab"), frozenset("cgx")]) == 2 and most_of(frozenset("a"), []) == 0


@pytest.mark.parametrize(
    ("parts", "models", "is_scattered"),
    [
        (["abcdef", "ghij"], ["abcdef", "ghij"], False),  # two scenes
        (["abcdefghij"], ["abcdef", "ghij"], True),  # one scene in two pieces
        (["abcdefghi", "j"], ["abcdefghi"], False),  # one photograph of something else
        (["abcdefgh", "ij"], ["abcdefgh"], True),  # two that share points and are nowhere
    ],
)
def test_scattered_are_photographs_that_hang_together_and_are_apart(parts, models, is_scattered) -> None:
    mapped = Mapped(
        "incremental", (), tuple("abcdefghij"), tuple(map(frozenset, models)), 9, 0, {}, tuple(map(frozenset, parts))
    )
    assert mapped.is_scattered == is_scattered


def test_photographs_with_frames_get_cameras_of_their_own(tmp_path) -> None:
    """As databases have them that COLMAP or tempose made."""
    options = pycolmap.SyntheticDatasetOptions(
        num_rigs=1, num_cameras_per_rig=1, num_frames_per_rig=3, num_points3D=10, num_points2D_without_point3D=0
    )
    with pycolmap.Database.open(tmp_path / "database.db") as database:
        pycolmap.synthesize_dataset(options, database)
        assert database.num_frames() == 3 and database.num_cameras() == 1
        _separate(database)
        assert len({image.camera_id for image in database.read_all_images()}) == 3 == database.num_cameras()
        assert database.num_frames() == database.num_rigs() == 0
