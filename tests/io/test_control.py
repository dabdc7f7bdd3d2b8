"""Control points in photographs, fixes by EXIF, and coordinates of maps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.exif import jpeg
from tempose.errors import ArgumentError, OptionError, ParseError
from tempose.geometry import geodesy
from tempose.io.control import read_image_points
from tempose.io.gps import exif_fixes, in_frame, of_map, read_fixes
from tempose.io.maps import geodetic_from_map, map_from_geodetic


def test_image_points(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    path.write_text("# by hand\nimage,x,y,point,sigma_px\na 1.jpg,10.5,20,P1,\nb.jpg,3,4,7,0.5\n")
    found = read_image_points(path)
    assert found.images == ("a 1.jpg", "b.jpg") and found.points == ("P1", "7") and found.lines == (3, 4)
    np.testing.assert_array_equal(found.pixel, [[10.5, 20.0], [3.0, 4.0]])
    assert np.isnan(found.sigma_px[0]) and found.sigma_px[1] == 0.5
    for text, said in (
        ("image,x,y\na,1,2\n", "there is no column 'point'"),
        ("image,x,y,point,z\na,1,2,P,3\n", "the column 'z' is not known"),
        ("image,x,y,point\na,1,,P\n", "2: "),
        ("image,x,y,point,sigma_px\na,1,2,P,0\n", "sigma_px is not above zero"),
        ("image,x,y,point\na,1,2,\n", "the point has no name"),
    ):
        path.write_text(text)
        with pytest.raises(ParseError, match=said):
            read_image_points(path)


def test_latitudes_and_back() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        origin = (float(rng.uniform(-90, 90)), float(rng.uniform(-180, 180)), float(rng.uniform(-100, 9000)))
        place = rng.uniform(-1, 1, (20, 3)) * [5e4, 5e4, 5e3]
        lat, lon, height = geodesy.geodetic_from_enu(place, origin).T
        np.testing.assert_allclose(geodesy.enu_from_geodetic(lat, lon, height, origin), place, atol=2e-7)
    found = geodesy.geodetic_from_enu(np.zeros(3), (46.5, -91.25, 200.0))
    np.testing.assert_allclose(found, [46.5, -91.25, 200.0], rtol=0, atol=1e-8)


def test_fixes_by_exif(tmp_path: Path) -> None:
    for name, height in (("a.jpg", (198.5,)), ("b.jpg", None)):
        gps = {1: "N", 2: (46.0, 30.0, 0.0), 3: "W", 4: (91.0, 15.0, 0.36 if name == "b.jpg" else 0.0), 31: (2.5,)}
        (tmp_path / name).write_bytes(jpeg({0: {0x10F: "A"}, 0x8825: gps if height is None else {**gps, 6: height}}))
    (tmp_path / "c.jpg").write_bytes(jpeg({0: {0x10F: "A"}}))
    found = exif_fixes(tmp_path, ["a.jpg", "b.jpg", "c.jpg", "d.jpg"])
    assert found is not None and found.ids == ("a.jpg", "b.jpg") and found.geodetic_origin == (46.5, -91.25, 198.5)
    assert found.has_height.tolist() == [True, False]
    np.testing.assert_allclose(found.sigma, [[2.5, 2.5, 5.0]] * 2)
    assert found.position[1, 0] == pytest.approx(-1e-4 * np.pi / 180 * 6_378_137 * np.cos(np.radians(46.5)), rel=0.01)
    assert exif_fixes(tmp_path, ["c.jpg"]) is None
    moved = in_frame(found, (46.5, -91.25, 100.0))
    np.testing.assert_allclose(moved.position - found.position, [[0.0, 0.0, 98.5]] * 2, atol=1e-6)
    with pytest.raises(ArgumentError, match="coordinates of a map; say of which"):
        in_frame(replace(found, geodetic_origin=None), (46.5, -91.25, 100.0))


def test_coordinates_of_a_map(tmp_path: Path) -> None:
    pytest.importorskip("pyproj", reason="needs pyproj (pip install 'tempose[geo]')")
    # the central meridian of zone 32 at the equator, and a degree of latitude: EPSG's own definition
    np.testing.assert_allclose(
        map_from_geodetic("EPSG:32632", np.array([[0.0, 9.0, 12.0]])), [[5e5, 0.0, 12.0]], atol=1e-6
    )
    there = map_from_geodetic("EPSG:32632", np.array([[46.5, 9.25, 500.0]]))
    np.testing.assert_allclose(geodetic_from_map("EPSG:32632", there), [[46.5, 9.25, 500.0]], atol=1e-9)
    path = tmp_path / "surveyed.csv"
    x, y, z = there[0].tolist()
    path.write_text(f"id,x,y,z,sigma\nP1,{x!r},{y!r},{z!r},0.02\nP2,{x + 100!r},{y!r},{z!r},0.02\n")
    found = of_map(read_fixes(path), "EPSG:32632")
    assert found.geodetic_origin == pytest.approx((46.5, 9.25, 500.0), abs=1e-8)
    assert np.linalg.norm(found.position[1]) == pytest.approx(100.0 / 0.9996, rel=2e-4)
    with pytest.raises(OptionError, match="no coordinate system that pyproj knows"):
        geodetic_from_map("EPSG:nonsense", there)
