"""EXIF, from bytes that are written here."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from helpers.exif import FULL, block, jpeg, png
from tempose.io.exif import Exif, read_exif


@pytest.mark.parametrize("order", ["<", ">"])
def test_all_of_it(tmp_path: Path, order: str) -> None:
    for name, data in (("a.jpg", jpeg(FULL, order)), ("a.png", png(FULL, order)), ("a.tif", block(FULL, order))):
        (tmp_path / name).write_bytes(data)
        found = read_exif(tmp_path / name)
        assert found is not None and (found.make, found.model, found.camera) == (
            "Canon",
            "Canon EOS 5D",
            "Canon EOS 5D",
        )
        assert (found.lens, found.serial, found.focal_35mm, found.orientation) == ("EF24-70mm", "123", 26.0, 6)
        assert found.time == "2020:01:02 03:04:05.7"
        assert found.focal_mm == pytest.approx(24.5) and found.sigma_h == pytest.approx(4.75)
        assert found.lat_deg == pytest.approx(-(46 + 50 / 60 + 33.5 / 3600), abs=1e-12)
        assert found.lon_deg == pytest.approx(-(91 + 59 / 60 + 40.25 / 3600), abs=1e-12)
        assert found.height == pytest.approx(-12.5)


def test_without_a_place(tmp_path: Path) -> None:
    """Receivers without a fix write zeros."""
    (tmp_path / "a.jpg").write_bytes(
        jpeg({0: {0x10F: "DJI", 0x110: "FC300S"}, 0x8825: {2: (0.0, 0.0, 0.0), 4: (0.0,)}})
    )
    found = read_exif(tmp_path / "a.jpg")
    assert found == Exif(make="DJI", model="FC300S") and found.camera == "DJI FC300S"


def test_what_is_damaged_is_none(tmp_path: Path) -> None:
    whole = jpeg(FULL)
    path, rng = tmp_path / "a.jpg", np.random.default_rng(0)
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        read_exif(path)
    for _ in range(300):
        spoilt = bytearray(whole)
        for place in rng.integers(2, len(whole), 4):
            spoilt[place] = rng.integers(0, 256)
        path.write_bytes(bytes(spoilt))
        read_exif(path)
    for data in (b"", b"\xff\xd8\xff\xe1", b"II*\0" + struct.pack("<I", 1 << 31), b"text"):
        path.write_bytes(data)
        assert read_exif(path) is None
    assert read_exif(tmp_path / "none.jpg") is None
