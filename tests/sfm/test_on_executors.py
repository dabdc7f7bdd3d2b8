"""Pairs of photographs, halves of the points and chains on an executor: the bytes of one machine."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.clusters import local_cluster
from helpers.sfm_scene import make
from tempose._support.progress import Progress
from tempose.cli import main
from tempose.sfm import features, matching
from tempose.sfm.features import FeatureOptions, build_database
from tempose.sfm.motion import estimate_motion
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import Pairs, estimate_pairs, guided_pairs
from tempose.sfm.uncertainty import half_differences
from tempose.studies.experiments import sfm_coverage

pycolmap = pytest.importorskip("pycolmap", reason="needs pycolmap (pip install 'tempose[sfm]')")


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, get_context("spawn")) as made:
        yield made


def numbers(pairs: Pairs) -> list[bytes]:
    """Everything that pairs are made of."""
    arrays = [pairs.views, *pairs.matches]
    for pose in pairs.poses:
        arrays += [pose.rotation, pose.direction, pose.covariance, pose.inlier, np.array(pose.sigma_px)]
    return [*(np.ascontiguousarray(one).tobytes() for one in arrays), repr(pairs.refused).encode()]


def test_pairs_are_the_same_there(pool: Executor) -> None:
    made = make(seed=1, wrong=0.2)
    keypoints = (np.zeros_like(made.views.keypoints[0]), *made.views.keypoints[1:])  # a view that fits no other
    views = replace(made.views, keypoints=keypoints)
    seen: list[Progress] = []
    here, there = estimate_pairs(views, seed=3), estimate_pairs(views, None, 3, seen.append, pool)
    assert 0 < len(here) < len(views.pairs) and here.refused
    assert numbers(there) == numbers(here)
    assert [one.done for one in seen] == list(range(1, len(views.pairs) + 1))
    assert numbers(estimate_pairs(views, seed=4)) != numbers(here)  # negative control: another seed is another RANSAC
    assert numbers(guided_pairs(views, made.poses, None, pool)) == numbers(guided_pairs(views, made.poses))


def test_halves_are_the_same_there(pool: Executor) -> None:
    options = SfmOptions(rounds=1, replicates=7)
    motion = estimate_motion(make(seed=2).views, options)
    given = (make(seed=2).views, motion.pairs, motion.synchronised, options)
    seen: list[Progress] = []
    here, there = half_differences(*given), half_differences(*given, None, seen.append, pool)
    assert len(here) == 7 and np.any(here.off) and np.any(here.calibration)
    assert np.array_equal(there.off, here.off) and np.array_equal(there.calibration, here.calibration)
    assert [one.done for one in seen] == list(range(1, 8))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts of one picture, some with spaces in their names."""
    home, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    grey = np.kron(rng.integers(0, 255, (60, 80)), np.ones((4, 4))).astype(np.uint8)
    for name in ("a one", "b", "c 3%", "d", "e"):
        start = rng.integers(0, 30, 2)
        part = np.ascontiguousarray(grey[start[0] : start[0] + 200, start[1] : start[1] + 280])
        pycolmap.Bitmap.from_array(part).write(home / f"{name}.png")
    return home


def tables(database: Path) -> dict[str, list[Any]]:
    """What is known of pairs, photographs and cameras."""
    with closing(sqlite3.connect(database)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
            for table in ("matches", "two_view_geometries", "images", "cameras", "keypoints")
        }


def test_pairs_are_matched_the_same_there(
    photographs: Path, tmp_path: Path, pool: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "PAIRS_A_BLOCK", 3)
    options, seen = FeatureOptions(features=400), []
    build_database(photographs, tmp_path / "here.db", None, options=options, begin_anywhere=True)
    build_database(
        photographs, tmp_path / "there.db", None, seen.append, options, begin_anywhere=True, executor=pool
    )  # fmt: skip
    here, there = tables(tmp_path / "here.db"), tables(tmp_path / "there.db")
    assert len(here["matches"]) == len(here["two_view_geometries"]) == 10
    assert sum(row[1] > 15 for row in here["matches"]) > 5  # they do match
    for name, rows in here.items():
        assert there[name] == rows, name
    assert [one.done for one in seen if one.phase == "matching"][:-1] == sorted(
        one.done for one in seen if one.phase == "matching"
    )[:-1]
    assert not list(tmp_path.glob("*-wal"))


def test_pairs_that_were_matched_stay(photographs: Path, tmp_path: Path, pool: Executor) -> None:
    """A database begun here is gone on with there."""
    some = tmp_path / "some"
    some.mkdir()
    for name in ("a one", "b", "d"):
        shutil.copy(photographs / f"{name}.png", some)
    options, path = FeatureOptions(features=400), tmp_path / "d.db"
    build_database(some, path, None, options=options, begin_anywhere=True)
    before = {row[0]: row for row in tables(path)["matches"]}
    shutil.copy(photographs / "e.png", some)
    build_database(some, path, None, options=options, begin_anywhere=True, executor=pool)
    after = {row[0]: row for row in tables(path)["matches"]}
    assert len(before) == 3 and len(after) == 6
    assert all(after[number] == row for number, row in before.items())


def test_a_block_of_pairs_leaves_its_database_alone(photographs: Path, tmp_path: Path) -> None:
    path = tmp_path / "d.db"
    build_database(photographs, path, None, options=FeatureOptions(features=400), begin_anywhere=True)
    before = path.read_bytes()
    rows = matching.match_block(matching.PairBlock(str(path), (("a one.png", "e.png"),), True))
    assert len(rows.matches) == len(rows.geometries) == 1
    assert rows.matches[0] in tables(path)["matches"] and rows.geometries[0] in tables(path)["two_view_geometries"]
    assert path.read_bytes() == before


def test_the_command_writes_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    cell = {"cameras": 6, "points": 120, "noise_px": 0.3, "source": "database", "seed": 0}
    source = sfm_coverage.make(tmp_path, cell).source
    how = ["--posterior", "graph", "--draws", "5", "--rounds", "1", "--quiet"]
    with local_cluster() as cluster:
        there = ["--cluster", cluster.scheduler_address]
        for home, more in (("here", []), ("there", there)):
            assert main(["sfm", str(source), "-o", str(tmp_path / home), *how, *more]) == 0
    capsys.readouterr()
    for name in ("cameras.csv", "graph.csv", "points.ply", "points_sigma.ply"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes(), name
