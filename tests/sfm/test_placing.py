"""Scale and place from GPS and control points: exact where it can be, covered where it is random."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import chi2

pycolmap = pytest.importorskip("pycolmap", reason="needs pycolmap (pip install 'tempose[sfm]')")

from helpers.bundles import adjust, make  # noqa: E402
from helpers.exif import jpeg  # noqa: E402
from tempose.cli import main  # noqa: E402
from tempose.errors import ArgumentError, NotApplicable  # noqa: E402
from tempose.geometry import Similarity, geodesy  # noqa: E402
from tempose.geometry import quaternion as quat  # noqa: E402
from tempose.io.control import ImagePoints  # noqa: E402
from tempose.io.gps import Fixes  # noqa: E402
from tempose.sfm.adjustment.posterior import BundlePosterior, PosteriorOptions, posterior_of  # noqa: E402
from tempose.sfm.adjustment.problem import bundle_of  # noqa: E402
from tempose.sfm.adjustment.systematic import ModelError  # noqa: E402
from tempose.sfm.given import scene_of  # noqa: E402
from tempose.sfm.placing import Georeferenced, georeference  # noqa: E402
from tempose.sfm.scene import Scene  # noqa: E402
from tempose.sfm.ties import control_ties, gps_ties  # noqa: E402

METRES = 7.0  # in a unit of the model


class Site(NamedTuple):
    """A model with error bars, and the truth in metres."""

    posterior: BundlePosterior
    scene: Scene
    cameras: np.ndarray
    turned: np.ndarray
    points: np.ndarray
    clicks: ImagePoints
    surveyed: np.ndarray


def site(seed: int, noise_px: float = 0.7, frames: int = 8, error: ModelError | None = None) -> Site:
    """A synthetic scene, adjusted, and what is true of it in a world that is turned, moved and scaled."""
    made = make(seed=seed, frames=frames, points=80, sigma_px=noise_px)
    rng = np.random.default_rng([seed, 7])
    marks = sorted(made.truth.points3D)[:12]
    rows = []
    images = sorted(made.truth.images.values(), key=lambda one: one.name)
    for number in marks:
        for image in images:
            pixel = image.project_point(made.truth.points3D[number].xyz)
            if pixel is not None:
                rows.append((image.name, f"P{number}", pixel + noise_px * rng.standard_normal(2)))
    for number in marks:
        made.adjusted.delete_point3D(number)  # clicks are other measurements than tie points
    adjust(made.adjusted)
    bundle = bundle_of(made.adjusted)
    posterior = posterior_of(bundle, PosteriorOptions(sigma_px=noise_px, error=error or ModelError(0.0, 0.0)))
    world = Similarity(quat.normalize(rng.standard_normal(4)), 50.0 * rng.standard_normal(3), METRES)

    def moved(x: list[np.ndarray]) -> np.ndarray:
        return world.apply(np.tile(quat.IDENTITY, (len(x), 1)), np.array(x))[1]

    turned = np.array([np.roll(one.cam_from_world().inverse().rotation.quat, 1) for one in images])
    clicks = ImagePoints(
        "clicks.csv",
        tuple(range(2, 2 + len(rows))),
        tuple(name for name, _, _ in rows),
        tuple(point for _, point, _ in rows),
        np.array([pixel for _, _, pixel in rows]),
        np.full(len(rows), noise_px),
    )
    return Site(
        posterior,
        scene_of(posterior, made.adjusted),
        moved([one.projection_center() for one in images]),
        quat.multiply(world.wxyz, turned),
        moved([made.truth.points3D[n].xyz for n in bundle.point_numbers.tolist()]),
        clicks,
        moved([made.truth.points3D[n].xyz for n in marks]),
    )


def measured(names: tuple[str, ...], place: np.ndarray, sigma: tuple[float, float, float], seed: int) -> Fixes:
    """Noisy fixes."""
    n, width = len(names), np.tile(sigma, (len(names), 1))
    rng = np.random.default_rng([seed, 8])
    noise = np.where(np.isnan(width), 0.0, width) * rng.standard_normal((n, 3))
    return Fixes(
        "gps.csv", names, tuple(range(2, n + 2)), place + noise, np.ones(n, bool), width, np.zeros((n, 3)),
        np.full(n, np.nan), np.zeros(3), None,
    )  # fmt: skip


def squared(found: Georeferenced, one: Site) -> dict[str, np.ndarray]:
    """Squared normalised errors of cameras and points, 3 degrees of freedom each."""

    def normalised(error: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        return np.einsum("na,nab,nb->n", error, np.linalg.inv(covariance), error)

    scene, good = found.scene, found.scene.structure.good
    turn = quat.log(quat.multiply(scene.poses.wxyz, quat.conjugate(one.turned)))
    scale, R = found.similarity.scale, quat.to_matrix(found.similarity.wxyz)
    off = scene.poses.position - one.cameras
    return {
        "position": normalised(off, scene.camera_covariance[:, 3:, 3:]),
        "rotation": normalised(turn, scene.camera_covariance[:, :3, :3]),
        "point": normalised((scene.structure.position - one.points)[good], scene.structure.covariance[good]),
        # negative control: the place of the whole taken as exact
        "no datum": normalised(off, scale**2 * R @ one.scene.camera_covariance[:, 3:, 3:] @ R.T),
    }


def names_of(one: Site) -> tuple[str, ...]:
    return one.posterior.bundle.names


def cover(
    seeds: range, control: bool, bend: bool = False, sigma: float = 0.05
) -> tuple[dict[str, list[np.ndarray]], list[np.ndarray]]:
    """Squared errors by kind, one array per data set, and how many σ check points are off."""
    out: dict[str, list[np.ndarray]] = {}
    checks = []
    for seed in seeds:
        one = site(seed)
        if control:
            marks = tuple(sorted(set(one.clicks.points), key=lambda name: int(name[1:])))
            surveyed = measured(marks, one.surveyed, (sigma, sigma, 2.0 * sigma), seed)
            ties = control_ties(one.posterior, one.clicks, surveyed, marks[::3])
        else:
            ties = gps_ties(one.posterior, measured(names_of(one), one.cameras, (sigma, sigma, 2.0 * sigma), seed))
        found = georeference(one.scene, one.posterior, ties, bend=bend)
        for kind, values in squared(found, one).items():
            out.setdefault(kind, []).append(values)
        checks.append(found.sigmas[[kind == "check" for kind in ties.kind]])
    return out, checks


def check_cover(found: dict[str, list[np.ndarray]], n: int, control: bool = True) -> None:
    """Shares inside regions and mean squares, within what independent data sets scatter by; and the control fails."""
    for kind in ("position", "rotation", "point"):
        for level in (0.5, 0.8, 0.95):
            share = np.mean(np.concatenate(found[kind]) < chi2.ppf(level, 3))  # all of a data set may err together
            assert abs(share - level) < 3.0 * np.sqrt(level * (1.0 - level) / n), (kind, level, share)
        assert abs(np.mean(np.concatenate(found[kind])) / 3.0 - 1.0) < 4.0 * np.sqrt(2.0 / (7.0 * n)), kind
    assert not control or np.mean(np.concatenate(found["no datum"]) < chi2.ppf(0.95, 3)) < 0.5


def test_error_bars_in_metres_cover() -> None:
    found, _ = cover(range(25), control=False)
    check_cover(found, 25)


def test_error_bars_by_control_points_cover() -> None:
    found, checks = cover(range(1000, 1020), control=True, sigma=0.05)
    check_cover(found, 20)
    off = np.concatenate(checks)
    assert len(off) > 60 and 0.75 < np.sqrt(np.mean(off**2)) < 1.25


def test_a_model_that_is_bent_is_covered_and_better() -> None:
    """Places that are known to millimetres know more of the shape than the photographs do."""
    found, checks = cover(range(2000, 2015), control=True, bend=True, sigma=0.01)
    check_cover(found, 15, control=False)
    assert 0.7 < np.sqrt(np.mean(np.concatenate(checks) ** 2)) < 1.3
    found, _ = cover(range(2100, 2115), control=False, bend=True, sigma=0.002)
    check_cover(found, 15, control=False)
    gain = []
    for seed in range(2100, 2106):
        one = site(seed)
        ties = gps_ties(one.posterior, measured(names_of(one), one.cameras, (0.002, 0.002, 0.004), seed))
        kept, bent = (georeference(one.scene, one.posterior, ties, bend=bend) for bend in (False, True))
        assert np.all(bent.scene.camera_sigma[1] < kept.scene.camera_sigma[1])
        good = one.scene.structure.good
        gain.append(
            [
                np.linalg.norm(bent.scene.poses.position - one.cameras)
                / np.linalg.norm(kept.scene.poses.position - one.cameras),
                np.linalg.norm((bent.scene.structure.position - one.points)[good])
                / np.linalg.norm((kept.scene.structure.position - one.points)[good]),
            ]
        )
    cameras, points = np.mean(gain, axis=0)
    assert cameras < 0.5 and points < 1.0, (cameras, points)


def test_vague_ties_bend_nothing() -> None:
    one = site(7)
    fixes = measured(names_of(one), one.cameras, (3.0, 3.0, 3.0), 7)
    ties = gps_ties(one.posterior, fixes)
    kept, bent = (georeference(one.scene, one.posterior, ties, bend=bend) for bend in (False, True))
    assert bent.bending is not None and np.abs(bent.bending.pose[:, 3:]).max() < 1e-3
    np.testing.assert_allclose(bent.scene.camera_covariance, kept.scene.camera_covariance, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(bent.residual_covariance, kept.residual_covariance, rtol=2e-3, atol=1e-3)


@pytest.mark.slow
def test_error_bars_in_metres_cover_in_many() -> None:
    for control, first in ((False, 5000), (True, 6000)):
        found, _ = cover(range(first, first + 200), control=control)
        check_cover(found, 200)


def test_exact_places_give_the_exact_similarity() -> None:
    one = site(3, noise_px=1e-6)
    found = georeference(
        one.scene, one.posterior, gps_ties(one.posterior, measured(names_of(one), one.cameras, (1e-6,) * 3, 0))
    )
    assert found.similarity.scale == pytest.approx(METRES * _unit(one), rel=1e-6)
    np.testing.assert_allclose(found.scene.structure.position, one.points, atol=1e-4)
    assert found.scene.unit == "m" and found.used.all()


def _unit(one: Site) -> float:
    """Of the true scene in units of the model, which keeps the first baseline."""
    here, there = one.posterior.bundle.poses.position, one.cameras / METRES
    return float(np.linalg.norm(there[1] - there[0]) / np.linalg.norm(here[1] - here[0]))


def test_the_covariance_is_that_of_draws() -> None:
    """Draw the bundle and the fixes, place every draw again: positions scatter as the covariance says; bent models, too."""
    one = site(5, error=ModelError(3e-4, 0.0))
    fixes = measured(names_of(one), one.cameras, (0.15, 0.15, 0.3), 5)
    ties = gps_ties(one.posterior, fixes)
    found = georeference(one.scene, one.posterior, ties)
    R, scale = quat.to_matrix(found.similarity.wxyz), found.similarity.scale
    weight = np.linalg.inv(found_covariance(one, ties, scale * R))
    rng, moved = np.random.default_rng(0), []
    sigma = fixes.sigma.ravel()
    for draw in one.posterior.draws(600):
        noise = (sigma * rng.standard_normal(len(sigma))).reshape(-1, 3)
        truth = scale * draw.position @ R.T + found.similarity.translation  # as if the draw were the truth
        estimate = placed_by(weight, ties.at, truth + noise, scale * R, found.similarity.translation)
        moved.append(
            (
                estimate(ties.at) - truth,
                estimate(one.posterior.bundle.position) - (scale * draw.points @ R.T + found.similarity.translation),
            )
        )
    for k, expected in ((0, found.scene.camera_covariance[:, 3:, 3:]), (1, found.scene.structure.covariance)):
        off = np.array([pair[k] for pair in moved])
        size = np.trace(np.einsum("dna,dnb->nab", off, off) / len(off), axis1=1, axis2=2)
        ratio = size / np.trace(expected, axis1=1, axis2=2)
        ratio = ratio[one.scene.structure.good] if k else ratio
        assert abs(np.mean(ratio) - 1.0) < 0.12, np.mean(ratio)
        assert np.all((ratio > 0.6) & (ratio < 1.6))


def found_covariance(one: Site, ties, sR: np.ndarray) -> np.ndarray:
    """Of the differences of measured places and the model's, by the covariances of all pairs of photographs."""
    n = len(ties)
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    blocks = one.posterior.pair_covariance(i, j)[:, 3:, 3:].reshape(n, n, 3, 3)
    joint = np.swapaxes(sR @ blocks @ sR.T, 1, 2).reshape(3 * n, 3 * n)
    return joint + np.diag(ties.sigma.ravel() ** 2)


def placed_by(weight: np.ndarray, at: np.ndarray, world: np.ndarray, sR: np.ndarray, t: np.ndarray):
    """One linear step of the generalised least squares from a similarity that is near."""

    def design(x: np.ndarray) -> np.ndarray:
        arm = x @ sR.T
        zero = np.zeros(len(arm))
        a, b, c = arm.T
        turn = np.stack([np.stack([zero, c, -b], 1), np.stack([-c, zero, a], 1), np.stack([b, -a, zero], 1)], axis=1)
        return np.concatenate([turn, np.tile(np.eye(3), (len(x), 1, 1)), arm[:, :, None]], axis=2).reshape(-1, 7)

    J = design(at)
    step = np.linalg.solve(J.T @ weight @ J, J.T @ weight @ (world - at @ sR.T - t).ravel())
    return lambda x: x @ sR.T + t + (design(x) @ step).reshape(-1, 3)


def test_one_bad_fix_takes_no_part_and_is_told() -> None:
    one = site(11)
    fixes = measured(names_of(one), one.cameras, (0.1, 0.1, 0.2), 11)
    good = georeference(one.scene, one.posterior, gps_ties(one.posterior, fixes))
    fixes.position[2] += [0.0, 30.0, 0.0]
    found = georeference(one.scene, one.posterior, gps_ties(one.posterior, fixes))
    assert found.used.tolist() == [k != 2 for k in range(8)] and found.sigmas[2] > 50.0
    assert found.residual[2, 1] == pytest.approx(30.0, abs=1.0)
    np.testing.assert_allclose(found.scene.poses.position, good.scene.poses.position, atol=0.3)
    fixes.position[[3, 4, 5]] += [[0.0, 0.0, 40.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]]
    with pytest.raises(NotApplicable, match="of 8 measured places contradict"):
        georeference(one.scene, one.posterior, gps_ties(one.posterior, fixes))


def test_scatter_that_nobody_says_is_estimated() -> None:
    ratios = []
    for seed in range(20, 32):
        one = site(seed, frames=12)
        fixes = measured(names_of(one), one.cameras, (0.3, 0.3, 0.6), seed)
        found = georeference(
            one.scene, one.posterior, gps_ties(one.posterior, replace(fixes, sigma=np.full((12, 3), np.nan)))
        )
        assert found.estimated and np.all(np.diag(found.covariance)[3:6] > np.square([3.0, 3.0, 6.0]))
        ratios.append(found.ties.sigma[0, [0, 2]] / [0.3, 0.6])
    assert np.all(np.abs(np.log(np.median(ratios, axis=0))) < 0.3)


def test_heights_may_be_missing_and_lines_are_refused() -> None:
    one = site(13)
    fixes = measured(names_of(one), one.cameras, (0.1, 0.1, 0.2), 13)
    flat = replace(fixes, has_height=np.arange(8) < 4)
    found = georeference(one.scene, one.posterior, gps_ties(one.posterior, flat))
    assert np.isnan(found.residual[4:, 2]).all() and np.isfinite(found.residual[:4]).all()
    full = georeference(one.scene, one.posterior, gps_ties(one.posterior, fixes))
    assert found.scene.camera_sigma[1].mean() > full.scene.camera_sigma[1].mean()
    few = replace(fixes, ids=fixes.ids[:2], position=fixes.position[:2], sigma=fixes.sigma[:2])
    with pytest.raises(NotApplicable, match="at least three are needed"):
        georeference(one.scene, one.posterior, gps_ties(one.posterior, few))
    vague = measured(names_of(one), one.cameras, (200.0, 200.0, 200.0), 13)
    with pytest.raises(NotApplicable, match="do not say how the model is turned"):
        georeference(one.scene, one.posterior, gps_ties(one.posterior, vague))
    with pytest.raises(ArgumentError, match="none of the model's 8 photographs"):
        gps_ties(one.posterior, replace(fixes, ids=("a", "b")))


# ---------------------------------------------------------------------- on the command line


def test_a_model_with_gps_in_exif_is_written_in_metres(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import csv
    import json

    made = make(seed=4, frames=9, points=120, sigma_px=0.4)
    adjust(made.adjusted)
    (tmp_path / "model").mkdir()
    made.adjusted.write_text(tmp_path / "model")
    rng, photographs = np.random.default_rng(4), tmp_path / "photographs"
    photographs.mkdir()
    origin = (46.5, -91.25, 200.0)
    truth = {}
    for image in made.truth.images.values():
        place = 10.0 * np.array(image.projection_center())
        truth[image.name] = place
        noisy = place + [0.3, 0.3, 0.6] * rng.standard_normal(3)
        lat, lon, height = geodesy.geodetic_from_enu(noisy, origin)
        gps = {1: "N", 2: _dms(lat), 3: "W", 4: _dms(-lon), 6: (height,)}
        path = photographs / image.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg({0: {0x10F: "DJI"}, 0x8825: gps}))
    out = tmp_path / "out"
    command = ["sfm", str(tmp_path / "model"), "-o", str(out), "--images", str(photographs)]
    assert main([*command, "--gps-sigma", "0.3"]) == 0
    told = capsys.readouterr()
    assert "places of 9 of 9 photographs are taken from their EXIF" in told.err
    facts = json.loads((out / "sfm.json").read_text())
    assert facts["unit"] == "m" and facts["place"]["frame"] == "east north up"
    assert facts["place"]["scale"] == pytest.approx(10.0, abs=4.0 * 10.0 * facts["place"]["sigma_scale"])
    with (out / "cameras.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        here = geodesy.enu_from_geodetic(float(row["lat"]), float(row["lon"]), float(row["height"]), origin)
        sigma = np.array([float(row[f"sigma_{axis}"]) for axis in "xyz"])
        assert np.all(np.abs(here - truth[row["id"]]) < 5.0 * sigma) and np.all(sigma < 1.0)
    again = pycolmap.Reconstruction(out / "colmap")
    first = next(iter(again.images.values()))
    place = next(row for row in rows if row["id"] == first.name)
    np.testing.assert_allclose(first.projection_center(), [float(place[axis]) for axis in "xyz"], atol=1e-6)
    with (out / "ties.csv").open() as file:
        assert [row["used"] for row in csv.DictReader(file)] == ["1"] * 9
    assert main([*command, "--gps", "none"]) == 0
    assert json.loads((out / "sfm.json").read_text())["unit"] == "units"
    capsys.readouterr()
    assert main(["sfm", str(tmp_path / "model"), "-o", str(out), "--gps", "exif"]) == 1
    assert "GPS in EXIF needs the photographs" in capsys.readouterr().err
    assert main(["sfm", str(tmp_path / "model"), "-o", str(out), "--check", "A"]) == 1
    assert "--check names control points" in capsys.readouterr().err


def _dms(degrees: float) -> tuple[float, float, float]:
    """Degrees, minutes and seconds, the last to 0.00001: 0.3 mm."""
    whole, rest = divmod(degrees, 1.0)
    minutes, rest = divmod(60.0 * rest, 1.0)
    return whole, minutes, round(60.0 * rest, 5)


def test_intrinsics_are_those_of_the_bent_model(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    import csv

    made = make(seed=4, frames=9, points=120, sigma_px=0.4)
    adjust(made.adjusted)
    (tmp_path / "model").mkdir()
    made.adjusted.write_text(tmp_path / "model")
    rng, rows = np.random.default_rng(4), ["id,x,y,z,sigma"]
    for image in made.truth.images.values():
        x, y, z = 10.0 * np.array(image.projection_center()) + 0.001 * rng.standard_normal(3)
        rows.append(f"{image.name},{x},{y},{z},0.001")
    (tmp_path / "places.csv").write_text("\n".join(rows))
    out = tmp_path / "out"
    command = ["sfm", str(tmp_path / "model"), "-o", str(out), "--readjust", "--gps", str(tmp_path / "places.csv")]
    assert main([*command, "--quiet"]) == 0
    with (out / "intrinsics.csv").open() as file:
        found = [float(row["value"]) for row in csv.DictReader(file)]
    (camera,) = pycolmap.Reconstruction(out / "colmap").cameras.values()
    np.testing.assert_allclose(found, camera.params, rtol=1e-12)
    assert abs(found[0] - made.adjusted.cameras[1].params[0]) > 1e-3  # negative control: places of a millimetre bend it
