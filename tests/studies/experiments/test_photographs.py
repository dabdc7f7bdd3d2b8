"""Tables, figures and texts of the experiments on photographs, from made-up rows; the runs themselves need the data."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from helpers.sfm_scene import make
from tempose.studies import warping
from tempose.studies.experiment import Result, RunOptions
from tempose.studies.experiments import (
    ba_gain,
    bundle_coverage,
    epfl_bundle,
    epfl_coverage,
    epfl_photographs,
    other_photographs,
    point_uncertainty,
    sfm_coverage,
    warped_photographs,
)
from tempose.studies.experiments import epfl as epfl_images


def rows_of(name: str) -> list[dict]:
    if name == "epfl":
        return [
            {
                "data": data,
                "seed": 0,
                "stage": stage,
                "method": method,
                "mean_rotation_deg": 0.1,
                "mean_translation_m": 0.01,
            }
            for data in ("fountain-P11", "castle-P30")
            for stage, method in (("truth", "sfm"), ("tracks", "sfm"), ("adjusted", "sfm + BA"), ("glomap", "glomap"))
        ]
    if name == "ba-gain":
        return [
            {
                "data": "castle-P19",
                "start": start,
                "seconds": seconds,
                "seconds_near": near,
                "iterations": 7,
                "final_cost": 3.0,
            }
            for start, seconds, near in (("plain tree", 6.0, None), ("tree", 4.0, 3.0), ("sfm", 2.0, 1.0))
        ]
    if name == "sfm-coverage":
        columns = {f"{kind}_{level}": level / 100 for kind in sfm_coverage.KINDS for level in (50, 80, 95)}
        return [{"setting": s, "seed": k, **columns} for s in sfm_coverage.SETTINGS for k in range(2)]
    if name == "bundle-coverage":
        columns = {f"{kind}_{level}": level / 100 for kind in bundle_coverage.KINDS for level in (50, 80, 95)}
        return [
            {"setting": s, "claim": claim, "seed": k, **columns}
            for s in bundle_coverage.SETTINGS
            for claim in bundle_coverage.CLAIMS
            for k in range(2)
        ]
    if name == "epfl-bundle":
        rng = np.random.default_rng(0)
        rows = []
        for scene, setting in itertools.product(("fountain-P11", "castle-P30"), epfl_bundle.SETTINGS):
            wide = 2.0 if scene == "fountain-P11" else 1.0
            off = 1e-4 * wide * rng.standard_normal((400, 6))
            unit = np.tile(np.eye(6), (400, 1, 1))
            for x in epfl_bundle.GRID:
                found = epfl_bundle.judged(off, x**2 * unit, epfl_bundle.BARS[-1], x)
                rows.append({"data": scene, "setting": setting, **found})
            for bars in epfl_bundle.BARS[:2]:
                found = epfl_bundle.judged(off, 1e-10 * unit, bars, 0.0)
                rows.append({"data": scene, "setting": setting, **found})
        return rows
    if name == "epfl-photographs":
        rows = [{**row, "known": row.pop("setting")} for row in rows_of("epfl-bundle")]
        rows = [row | {"known": "nothing" if row["known"] == "unknown calibration" else "K"} for row in rows]
        rows = [row | ({"shown": 2e-5} if row["lens_error"] else {}) for row in rows]
        errors = {"n_compared": 11, "mean_rotation_deg": 0.1, "mean_translation_m": 0.01}
        return rows + [
            {"known": known, "data": scene, "bars": method, **errors}
            for known in ("nothing", "K")
            for scene in ("fountain-P11", "castle-P30")
            for method in ("incremental", "global", "tempose")
        ]
    if name == "warped-photographs":
        rows = [row for row in rows_of("epfl-photographs") if row["known"] == "nothing"]
        return [row | {"known": variant} for variant in warping.VARIANTS for row in rows]
    if name == "other-photographs":
        errors = {"n": 10, "rotation_deg": 0.2, "position": 0.03}
        squared = {kind: np.array([1.0, 20.0]) for kind in other_photographs.KINDS}
        return [
            {"data": "reichstag", "by": "incremental", **errors},
            {"data": "reichstag", "by": "tempose", **errors, **other_photographs.judged(squared)},
            {"data": "drone", "by": "tempose", "n": 18, "residual_sigmas": 0.87},
        ]
    if name == "epfl-coverage":
        return [
            {"data": data, "calibration": calibration}
            | {f"n_{kind}": n for kind in epfl_coverage.KINDS}
            | {f"{kind}_{level}": share * level / 100 for kind in epfl_coverage.KINDS for level in (50, 80, 95)}
            for data, n, share in (("fountain-P11", 10, 1.0), ("castle-P30", 30, 0.5))
            for calibration in epfl_coverage.CALIBRATIONS
        ]
    return [
        {"data": "dino", "by": by, "value": value, "relative_sigma": 0.1 * value, "relative_sigma_pose": 0.05 * value}
        for by in point_uncertainty.PROPERTIES
        for value in (1.0, 2.0)
    ] + [
        {"data": "dino", "by": by, "exponent_depth": 1.0, "exponent_views": -0.5, "exponent_angle": -1.0}
        for by in point_uncertainty.FITS
    ]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("epfl", epfl_images),
        ("ba-gain", ba_gain),
        ("point-uncertainty", point_uncertainty),
        ("sfm-coverage", sfm_coverage),
        ("bundle-coverage", bundle_coverage),
        ("epfl-bundle", epfl_bundle),
        ("epfl-photographs", epfl_photographs),
        ("warped-photographs", warped_photographs),
        ("other-photographs", other_photographs),
        ("epfl-coverage", epfl_coverage),
    ],
)
def test_tables_figures_and_texts(name: str, module, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    table = module.EXPERIMENT.table(rows_of(name))
    result = Result(name, RunOptions(), rows_of(name), table)
    assert all(path.stat().st_size > 5000 for path in module.EXPERIMENT.draw(result, tmp_path))
    named = "taken as exact" if name == "bundle-coverage" else table[0].get("data", "10 data sets")
    assert named in module.EXPERIMENT.text(result)
    if name == "point-uncertainty":
        assert [line.split()[1] for line in module.EXPERIMENT.text(result).splitlines()[-2:]] == ["total", "own"]
    if name == "ba-gain":
        assert [line["gain"] for line in table] == [3.0, 2.0, None]
        assert [line["gain_near"] for line in table] == [None, 3.0, None]
    if name in (
        "epfl-bundle",
        "epfl-photographs",
        "warped-photographs",
    ):  # each scene has the amplitude that is right for the other
        chosen = {line["data"]: line["lens_error"] for line in table if line.get("lens_error")}
        assert 0.8e-4 < chosen["fountain-P11"] < 1.3e-4 and 1.6e-4 < chosen["castle-P30"] < 2.5e-4
        factors = {line["data"]: line["factor"] for line in table if "factor" in line}
        assert name == "epfl-bundle" or factors["castle-P30"] == pytest.approx(2.0 * factors["fountain-P11"], rel=0.2)
        last = table[-1]
        assert last["data"] == "all" and last["n_position"] == 800 and 0.5 < last["position_95"] < 0.95
    if name == "epfl-coverage":
        assert table[-1]["data"] == "all" and table[-1]["n_position"] == 40
        assert abs(table[-1]["position_80"] - 0.8 * (10 * 1.0 + 30 * 0.5) / 40) < 1e-12  # every camera counts once
    if name == "other-photographs":
        assert table[1]["inside_position"] == 1 and table[1]["nees_orientation"] == 3.5
    if name == "epfl":
        assert table[-1]["paper_tg_mcmc_deg"] == 0.622 and table[0]["scales"] == "true"
        assert table[-1]["paper_best_m"] == 0.212


def test_differences_of_two_models_over_both_covariances() -> None:
    """A model that is turned, enlarged and moved differs by nothing, and its covariance is turned and enlarged with it."""
    from dataclasses import replace

    from tempose.geometry import quaternion as quat
    from tempose.model.poses import Poses
    from tempose.sfm.bundle import bare_scene
    from tempose.sfm.pairs import guided_pairs

    made = make(1, n_views=4, n_points=60, noise_px=0.05)
    scene = bare_scene(made.views, guided_pairs(made.views, made.poses), made.poses)
    C = np.tile(np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), (4, 1, 1))
    scene = replace(scene, camera_covariance=C)
    turn, R = np.array([0.3, -0.5, 0.2]), quat.to_matrix(quat.exp(np.array([0.3, -0.5, 0.2])))
    moved = Poses(
        scene.poses.ids,
        quat.multiply(quat.exp(turn), scene.poses.wxyz),
        3.0 * scene.poses.position @ R.T + np.array([1.0, 2.0, 3.0]),
    )
    M = np.zeros((6, 6))
    M[:3, :3], M[3:, 3:] = R, 3.0 * R
    other = replace(scene, poses=moved, camera_covariance=M @ C @ M.T)
    off, both = other_photographs.differences(scene, other)
    np.testing.assert_allclose(off, 0.0, atol=1e-9)
    np.testing.assert_allclose(both, 2.0 * C, atol=1e-9)


def test_poses_of_the_image_matching_benchmark(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    from tempose.geometry import quaternion as quat

    R = quat.to_matrix(quat.exp(np.array([0.1, 0.2, -0.3])))
    with h5py.File(tmp_path / "calibration_one.h5", "w") as file:
        file["R"], file["T"] = R, [1.0, 2.0, 3.0]
    found = other_photographs.read_benchmark(tmp_path)
    assert found.ids == ("one.jpg",)
    np.testing.assert_allclose(found.position[0], -R.T @ [1.0, 2.0, 3.0])
    np.testing.assert_allclose(quat.to_matrix(found.wxyz)[0], R.T, atol=1e-12)


def test_depth_is_along_the_cameras_axis() -> None:
    from tempose.sfm.bundle import bare_scene
    from tempose.sfm.pairs import guided_pairs

    made = make(1, n_views=4, n_points=60, noise_px=0.05)
    scene = bare_scene(made.views, guided_pairs(made.views, made.poses), made.poses)
    found = point_uncertainty.depths(scene)[scene.structure.status == 0]
    assert np.all((found > 3.0) & (found < 7.0))  # cameras stand at 5 from the middle of a box of 2


def test_the_common_objective_counts_pixels_at_the_best_points() -> None:
    from scipy.optimize import minimize

    from helpers.sfm_scene import project
    from tempose.model.poses import Poses
    from tempose.sfm.bundle import bare_scene
    from tempose.sfm.pairs import guided_pairs

    made = make(3, n_views=3, n_points=40, noise_px=0.1)
    scene = bare_scene(made.views, guided_pairs(made.views, made.poses), made.poses)
    used = scene.structure.used & (scene.observations.point_of == 4)
    objective = ba_gain.Objective.of(scene, used)
    o = scene.observations
    pixel, camera = o.pixel[used], o.camera_of[used]

    def squares(x: np.ndarray) -> np.ndarray:
        return np.sum((project(made.poses, x[None])[camera, 0] - pixel) ** 2, axis=1)

    point = minimize(lambda x: squares(x).sum(), scene.structure.position[4], tol=1e-14).x
    assert objective(made.poses) == pytest.approx(0.5 * np.log1p(squares(point)).sum(), rel=1e-4)
    off = np.array([[0.0, 0.1, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    moved = Poses(made.poses.ids, made.poses.wxyz, made.poses.position + off)
    assert objective(moved) > 10.0 * objective(made.poses)


def test_exponents_of_the_error_bars() -> None:
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(1.0, 4.0, 500) for name in point_uncertainty.PROPERTIES}
    sigma = 0.1 * values["depth"] ** 1.5 * values["views"] ** -0.5 / values["angle"]
    found = point_uncertainty.exponents(values, sigma)
    np.testing.assert_allclose(list(found.values()), [1.5, -0.5, -1.0], atol=1e-9)
