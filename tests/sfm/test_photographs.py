"""Which camera took which photographs, which pairs are matched, and a database that grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers.exif import with_exif
from tempose._support.progress import Progress
from tempose.errors import ArgumentError, FileError, OptionError
from tempose.io.colmap.database import read_database
from tempose.io.exif import Exif
from tempose.sfm import words
from tempose.sfm.features import FeatureOptions, build_database, extraction_threads
from tempose.sfm.pairing import choose_pairs
from tempose.sfm.photographs import Photograph, cameras_of
from tempose.sfm.retrieval import most_similar, similarity
from tempose.sfm.views import SharedCameras

WIDE, TALL = (4000, 3000), (3000, 4000)
PHONE, OTHER = Exif(make="A", model="Phone", focal_mm=4.2), Exif(make="B", model="Other", focal_mm=5.0)


def shot(
    name: str, size: tuple[int, int] = WIDE, exif: Exif | None = None, focal_px: float | None = None
) -> Photograph:
    return Photograph(name, size, exif, focal_px)


def groups(photographs: list[Photograph], sharing: str = "auto") -> list[tuple[str, ...]]:
    return sorted(one.names for one in cameras_of(photographs, sharing))


def test_cameras_are_told_apart_by_exif_and_size() -> None:
    zoomed = Exif(make="A", model="Phone", focal_mm=8.4)
    turned = Exif(make="A", model="Phone", focal_mm=4.2, orientation=6)
    mixed = [
        shot("a", exif=PHONE), shot("b", exif=turned), shot("c", TALL, PHONE), shot("d", exif=zoomed), shot("e", exif=OTHER),
        shot("f"), shot("g"), shot("h", TALL),
        shot("i", exif=Exif(make="A", model="Phone", focal_mm=4.22)),  # 0.5% more: it focused
    ]  # fmt: skip
    expected = [("a", "b", "i"), ("c",), ("d",), ("e",), ("f", "g"), ("h",)]
    assert groups(mixed) == expected
    assert groups(mixed, "each") == [(x,) for x in "abcdefghi"]
    assert groups(mixed[:2] + mixed[3:7], "single") == [("a", "b", "d", "e", "f", "g")]
    with pytest.raises(ArgumentError, match=r"2 sizes \(3000×4000, 4000×3000, …\).*--cameras auto"):
        cameras_of(mixed, "single")
    with pytest.raises(OptionError, match="unknown cameras 'some'"):
        cameras_of(mixed, "some")
    said = words.remark(SharedCameras(tuple(cameras_of(mixed)), "auto"))
    assert said.startswith(
        "9 photographs by 6 cameras, each with intrinsics of its own: by EXIF and size A Phone, 4.2 mm,"
    )
    assert "therefore taken to be of one camera, 4000×3000 (2) (--cameras each if they are not); 1 without EXIF" in said


def test_the_focal_length_of_a_camera_is_the_median() -> None:
    (camera,) = cameras_of([shot(str(k), exif=PHONE, focal_px=px) for k, px in enumerate((3000.0, 3100.0, 9000.0))])
    assert camera.focal_px == 3100.0 and camera.by_exif
    assert cameras_of([shot("a"), shot("b")])[0].focal_px is None


# ---------------------------------------------------------------------- pairs


def scenes(n_each: int, n_scenes: int, seed: int) -> list[np.ndarray]:
    """Descriptors of photographs of a few scenes, each seeing a part of its scene's own features and some clutter."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n_scenes):
        own = rng.gamma(0.3, size=(600, 128))
        for _ in range(n_each):
            part = own[rng.permutation(600)[:200]] * rng.uniform(0.8, 1.2, (200, 128))
            rows = np.concatenate([part, rng.gamma(0.3, size=(200, 128))])
            out.append(np.clip(512 * rows / np.linalg.norm(rows, axis=1, keepdims=True), 0, 255).astype(np.uint8))
    return out


def recall(alike: np.ndarray, n_each: int, count: int) -> float:
    """Of the pairs within scenes, the part that is chosen."""
    chosen, n = most_similar(alike, count), len(alike)
    wanted = {(i, j) for i in range(n) for j in range(i + 1, n) if i // n_each == j // n_each}
    return len(chosen & wanted) / len(wanted)


def test_photographs_of_one_scene_are_most_alike() -> None:
    seen = scenes(6, 8, seed=1)
    alike = similarity(lambda i: seen[i], len(seen))
    np.testing.assert_allclose(np.diag(alike), 1.0, atol=1e-5)
    np.testing.assert_array_equal(alike, similarity(lambda i: seen[i], len(seen)))
    assert recall(alike, 6, 5) > 0.99
    # negative control: names of photographs shuffled
    order = np.random.default_rng(0).permutation(len(seen))
    assert recall(alike[np.ix_(order, order)], 6, 5) < 0.4


def test_photographs_without_features_are_like_none() -> None:
    seen = [*scenes(2, 1, seed=2), np.zeros((0, 128), np.uint8)]
    alike = similarity(lambda i: seen[i], 3)
    assert np.all(alike[2] == 0.0) and alike[0, 1] != 0.0
    assert np.all(similarity(lambda i: seen[2], 2) == 0.0)


def test_pairs_by_sequence_gps_and_number() -> None:
    def none() -> np.ndarray:
        raise AssertionError("similarity is not asked for")

    few = [shot(f"{k:02d}") for k in range(40)]
    assert len(choose_pairs("auto", few, none)) == 40 * 39 // 2
    n = 100
    times = [Exif(time=f"2020:01:01 00:{(k * 37) % n:02d}", lat_deg=46.0 + 1e-5 * k, lon_deg=9.0) for k in range(n)]
    many = [shot(f"{k:03d}", exif=e) for k, e in enumerate(times)]
    order = np.argsort([(k * 37) % n for k in range(n)])
    chosen = choose_pairs("sequence", many, none)
    for step in (1, 5, 10, 16, 64):
        assert all(tuple(sorted((order[k], order[k + step]))) in chosen for k in range(n - step))
    assert not any(tuple(sorted((order[k], order[k + 11]))) in chosen for k in range(n - 11))
    near = choose_pairs("gps", many, none)
    assert {(50, 50 + k) for k in range(1, 15)} <= near and (50, 81) not in near
    asked = choose_pairs("auto", many, lambda: np.eye(n))
    assert choose_pairs("similar", many, lambda: np.eye(n)) < asked < choose_pairs("all", many, none)
    with pytest.raises(ArgumentError, match="pairs by GPS need a position.*and 00 has none"):
        choose_pairs("gps", few, none)


def test_memory_bounds_the_photographs_at_once() -> None:
    full, small = [(2832, 2128)] * 11, [(1600, 1200)] * 11
    assert extraction_threads(full, 3200, 2, memory=0.0) == 2  # not doubled: 2 · 0.44 GB
    assert extraction_threads(small, 3200, 16, memory=0.0) == 3
    assert extraction_threads(small, 3200, 16, memory=64e9) == 11
    assert extraction_threads([(20000, 20000)], 20000, 16, memory=0.0) == 1
    assert extraction_threads([(20000, 20000)] * 9, 1000, 16, memory=0.0) == 6


# ---------------------------------------------------------------------- a database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Parts of one picture: two phones, one of them turned for a third."""
    pycolmap = pytest.importorskip("pycolmap", reason="needs pycolmap (pip install 'tempose[sfm]')")
    home, rng = tmp_path / "photographs", np.random.default_rng(0)
    home.mkdir()
    grey = np.kron(rng.integers(0, 255, (60, 80)), np.ones((4, 4))).astype(np.uint8)
    for name, make, size in (
        ("a one", "A", (200, 300)),
        ("b", "A", (200, 300)),
        ("c", "A", (220, 180)),
        ("d", "B", (200, 300)),
    ):
        start = rng.integers(0, 9, 2)
        part = grey[start[0] : start[0] + size[0], start[1] : start[1] + size[1]]
        pycolmap.Bitmap.from_array(np.ascontiguousarray(part)).write(home / f"{name}.jpg")
        tables = {0: {0x10F: make, 0x110: "Phone"}, 0x8769: {0x920A: (4.2,), 0xA405: 26}}
        (home / f"{name}.jpg").write_bytes(with_exif((home / f"{name}.jpg").read_bytes(), tables))
    return home


def test_several_cameras_in_one_folder_and_photographs_added(folder: Path, tmp_path: Path) -> None:
    import shutil

    import pycolmap

    last = tmp_path / "d.jpg"
    shutil.move(folder / "d.jpg", last)
    path, options = tmp_path / "f.db", FeatureOptions(features=300)
    remarks = build_database(folder, path, None, options=options)
    found = read_database(path)
    assert found.names == ("a one.jpg", "b.jpg", "c.jpg") and found.n_cameras == 2 and found.n_guessed == 0
    assert found.cameras[0] is found.cameras[1] and found.cameras[2].size == (180, 220)
    diagonal = np.hypot(300, 200)
    assert found.cameras[0].params[0] == pytest.approx(26.0 / np.hypot(36, 24) * diagonal, rel=0.02)
    assert set(found.matches) == {(0, 1), (0, 2), (1, 2)}
    assert "3 photographs by 2 cameras" in words.remark(remarks[0])

    before = {pair: match.copy() for pair, match in found.matches.items()}
    shutil.move(last, folder / "d.jpg")
    with pycolmap.Database.open(path) as db:
        kept = db.read_keypoints(1)
    seen: list[Progress] = []
    build_database(folder, path, None, seen.append, options)
    again = read_database(path)
    assert again.n_cameras == 3 and len(again.matches) == 6
    for pair, match in before.items():
        np.testing.assert_array_equal(again.matches[pair], match)
    with pycolmap.Database.open(path) as db:
        np.testing.assert_array_equal(db.read_keypoints(1), kept)
    assert all(now.done >= 3 for now in seen if now.phase == "features")
    assert all(now.done >= 3 for now in seen if now.phase == "matching")

    with pytest.raises(FileError, match=r"was made with other cameras \(--cameras\)"):
        build_database(folder, path, None, options=FeatureOptions(cameras="each", features=300))
    with pytest.raises(FileError, match="was made with --features 300 and --image-size 3200"):
        build_database(folder, path, None)


def test_bad_settings_are_told() -> None:
    for bad, said in (
        ({"pairs": "some"}, "unknown pairs"),
        ({"features": 5}, "too few"),
        ({"image_size": 10}, "too small"),
    ):
        with pytest.raises(OptionError, match=said):
            FeatureOptions(**bad)
