"""Mutate every kind of file that tempose reads, and check that it is read or refused in one line.

    python tests/helpers/fuzz_files.py --n 100000 --seed 0 [--only WORDS] [--list]

Each target runs in a process of its own: a mutant that kills it, or that takes longer than a minute, is a failure like one that
raises anything but a TemposeError of one line. ``forged`` targets are files whose checksums were made to fit the mutant, as an
enemy would; the others are what a failing disk leaves.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import json
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from helpers import fuzz_g2o
from helpers.mutations import BINARY, TEXT, Mutate, array_of_npz, cell, json_node, member, words

_IN_MEMORY = (
    "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
)  # a disk that is written to for every mutant is slow
SECONDS = 60  # for one mutant


# ---------------------------------------------------------------------- what is read


@dataclass(frozen=True)
class Target:
    """A file to mutate, and what reads it.

    Attributes
    ----------
    name
        For people.
    make
        Writes a sound folder and returns the file in it.
    read
        Reads the file, or its folder.
    mutations
        Of its bytes.
    forge
        Makes the checksums around the mutant fit, if they are to.
    """

    name: str
    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    mutations: tuple[Mutate, ...]
    forge: Callable[[Path], None] | None = None


def text_file(name: str, text: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        return folder / name

    return make


def several(first: str, **texts: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        for name, text in texts.items():
            (folder / name.replace("__", ".")).write_text(text)
        return folder / first

    return make


_LOG = "0 1 3\n1 0 0 0.5\n0 0.6 -0.8 0\n0 0.8 0.6 1\n0 0 0 1\n1 2 3\n1 0 0 1\n0 1 0 0\n0 0 1 0\n0 0 0 1\n"
_POSES_LOG = _LOG.replace("0 1 3", "0 0 3").replace("1 2 3", "1 1 3")
_CSV = (
    "i,j,qw,qx,qy,qz,tx,ty,tz,lambda,tau,inlier_prior,fixed,landmark,arm_x,arm_y,arm_z\n"
    "a,b,0.8,0,0,0.6,1,2,3,50,100,0.5,,,,,\nb,7,1,0,0,0,,,,50,,,,,,,\n7,world,1,0,0,0,1e5,2e5,3,50,9,,,,0.1,0,0\n"
    "a,,1,0,0,0,0,0,0,,,,1,,,,\nc,b,,,,,1,1,1,,9,,,1,,,\n"
)
_AXES = ("rx", "ry", "rz", "x", "y", "z")
_INFO = ",".join(f"info_{a}_{b}" for k, a in enumerate(_AXES) for b in _AXES[k:])
_CSV_INFO = f"i,j,qw,qx,qy,qz,tx,ty,tz,{_INFO}\na,b,1,0,0,0,1,2,3," + ",".join(
    "9" if k in (0, 6, 11, 15, 18, 20) else "0.1" for k in range(21)
)
_PLANAR = "i;j;theta;tx;ty;lambda;tau\n0;1;0,5;1;2;50;100\n1;2;-0,5;1;0;50;9\n"
_CAMERA = "900 0 500\n0 900 400\n0 0 1\n0 0 0\n1 0 0\n0 0.6 -0.8\n0 0.8 0.6\n1.5 2.5 -3\n1000 800\n"
_SEEN = " ".join(f"{10.5 * k} {20 + 7.25 * k} {k}" for k in range(1, 18)) + " 4.5 5.5 -1"
_IMAGES = (
    f"# images\n1 1 0 0 0 0 0 0 1 a.jpg\n{_SEEN}\n2 0.6 0.8 0 0 1 2 3 2 b.jpg\n{_SEEN}\n3 1 0 0 0 0 0 0 1 c.jpg\n\n"
)
_CAMERAS = "# cameras\n1 PINHOLE 1000 800 900 900 500 400\n2 SIMPLE_RADIAL 1000 800 900 500 400 0.01\n"
_POINTS = "# points\n3 0 0 1 255 0 0 0.5 1 0\n"
_PLY_ASCII = (
    "ply\nformat ascii 1.0\ncomment x\nelement vertex 2\nproperty float x\nproperty double y\nproperty float z\n"
    "property uchar red\nelement face 0\nproperty list uchar int vertex_index\nend_header\n1 2 3 4\n5 6 7 8\n"
)


def binary_ply(folder: Path) -> Path:
    from tempose.io.ply import write_ply

    columns = {name: np.arange(4.0) for name in ("x", "y", "z", "sigma")}
    write_ply(folder / "a.ply", {**columns, "red": np.arange(4, dtype="u1")}, ("a comment",))
    return folder / "a.ply"


def mat(folder: Path) -> Path:
    from scipy.io import savemat

    cells = {name: np.empty(2, dtype=object) for name in ("namesList", "R_gt", "T_gt")}
    cells["namesList"][:] = ["a.jpg", "b.jpg"]
    cells["R_gt"][:] = [np.diag([1.0, -1.0, -1.0]), np.eye(3)]
    cells["T_gt"][:] = [np.zeros((3, 1)), np.ones((3, 1))]
    savemat(folder / "gt.mat", cells, do_compression=len(list(folder.parent.iterdir())) % 2 == 0)
    (folder / "list.txt").write_text("a.jpg 0 500\nb.jpg 0 500\n")
    return folder / "gt.mat"


def packed_mat(folder: Path) -> Path:
    path = mat(folder)
    data, order = path.read_bytes(), "<"
    import zlib

    out, at = data[:128], 128
    while at < len(data):
        kind, size = struct.unpack(order + "II", data[at : at + 8])
        body = data[at : at + 8 + size]
        packed = body if kind == 15 else struct.pack("<II", 15, len(zlib.compress(body))) + zlib.compress(body)
        out, at = out + packed, at + 8 + size
    path.write_bytes(out)
    return path


def database(folder: Path) -> Path:
    path = folder / "a.db"
    with closing(sqlite3.connect(path)) as base:
        base.executescript("""
            CREATE TABLE cameras (camera_id INTEGER PRIMARY KEY, model INTEGER, width INTEGER, height INTEGER, params BLOB,
                prior_focal_length INTEGER);
            CREATE TABLE images (image_id INTEGER PRIMARY KEY, name TEXT UNIQUE, camera_id INTEGER);
            CREATE TABLE keypoints (image_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER, data BLOB);
            CREATE TABLE descriptors (image_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER, data BLOB);
            CREATE TABLE matches (pair_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER, data BLOB);
            CREATE TABLE two_view_geometries (pair_id INTEGER PRIMARY KEY, rows INTEGER, cols INTEGER, data BLOB, config);
        """)
        base.execute("INSERT INTO cameras VALUES (1, 1, 1000, 800, ?, 1)", [np.array([900.0, 900, 500, 400]).tobytes()])
        base.execute(
            "INSERT INTO cameras VALUES (2, 2, 1000, 800, ?, 0)", [np.array([900.0, 500, 400, 0.01]).tobytes()]
        )
        rng = np.random.default_rng(0)
        for k in (1, 2, 3):
            base.execute("INSERT INTO images VALUES (?, ?, ?)", [k, f"{k}.jpg", 1 + k % 2])
            pixel = rng.uniform(0, 800, (20, 4)).astype(np.float32)
            base.execute("INSERT INTO keypoints VALUES (?, 20, 4, ?)", [k, pixel.tobytes()])
            base.execute("INSERT INTO descriptors VALUES (?, 20, 128, ?)", [k, bytes(20 * 128)])
        for a, b in ((1, 2), (2, 3)):
            pairs = np.stack([np.arange(18)] * 2, axis=1).astype(np.uint32)
            base.execute("INSERT INTO matches VALUES (?, 18, 2, ?)", [a * 2147483647 + b, pairs.tobytes()])
        base.commit()
    return path


def read_all_of_a_database(path: Path) -> object:
    from tempose.io.colmap.database import contents
    from tempose.sfm.views import read_database_views

    contents(path)
    return read_database_views(path)


def binary_model(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        one = struct.pack("<IiQQ4d", 1, 1, 1000, 800, 900, 900, 500, 400)
        two = struct.pack("<IiQQ4d", 2, 2, 1000, 800, 900, 500, 400, 0.01)
        (folder / "cameras.bin").write_bytes(struct.pack("<Q", 2) + one + two)
        seen = struct.pack("<Q", 18) + b"".join(struct.pack("<ddq", 9.5 * j, 400 - j, j or -1) for j in range(18))
        images = b"".join(
            struct.pack("<I7dI", k, 1, 0, 0, 0, 0, 0, k, k) + f"{k}.jpg".encode() + b"\0"
            + seen
            for k in (1, 2)
        )  # fmt: skip
        (folder / "images.bin").write_bytes(struct.pack("<Q", 2) + images)
        (folder / "points3D.bin").write_bytes(struct.pack("<Q", 0))
        return folder / name

    return make


def read_model_views(path: Path) -> object:
    from tempose.sfm.views import read_model_views

    return read_model_views(path.parent)


def read_camera_file(path: Path) -> object:
    from tempose.io.colmap.cameras import read_camera

    camera = read_camera(path)
    return camera.K, camera.undistorted(np.array([[1.0, 2.0], [600.0, 500.0]]))


def scene_file(folder: Path) -> Path:
    from tempose.model.poses import Poses
    from tempose.sfm.files import save_scene
    from tempose.sfm.points import Observations, Structure
    from tempose.sfm.scene import Scene, SceneGauge

    n, p = 2, 3
    k = n * p
    q = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1))
    observations = Observations.sorted_by_point(np.repeat(np.arange(p), n), np.tile(np.arange(n), p), np.ones((k, 2)))
    small = 1e-4 * np.tile(np.eye(3), (p, 1, 1))
    structure = Structure(
        np.arange(9.0).reshape(3, 3), np.arange(9.0).reshape(3, 3), small, small, np.zeros(p, np.int64),
        np.full(p, 2), np.full(p, 5.0), np.full(p, 0.3), np.ones(k, bool), 0.3, 40,
    )  # fmt: skip
    poses = Poses(("a.jpg", "b.jpg"), q, np.arange(6.0).reshape(2, 3))
    K = np.tile([[900.0, 0, 500], [0, 900, 400], [0, 0, 1]], (n, 1, 1))
    size, covariance = np.tile([1000, 800], (n, 1)), np.tile(1e-4 * np.eye(6), (n, 1, 1))
    scene = Scene(
        poses, K, size, covariance, observations, structure, np.zeros((p, 3), np.uint8), SceneGauge(False, 0.001)
    )
    save_scene(folder / "scene.npz", scene)
    return folder / "scene.npz"


def read_scene(path: Path) -> object:
    from tempose.sfm.files import load_scene

    scene = load_scene(path)
    with np.errstate(all="ignore"):
        return scene.middle, scene.bulk_radius, scene.viewing_direction, scene.structure.sigma, scene.unit


def focal_file(folder: Path) -> Path:
    (folder / "a.db.focal.json").write_text('[{"start": 1000.0, "from_exif": false, "found": 950.5}]')
    return folder / "a.db.focal.json"


def read_focal(path: Path) -> object:
    from tempose.sfm.features import _read_focal
    from tempose.sfm.views import FoundFocalLength

    return [str(FoundFocalLength(one["found"], one["start"], one["from_exif"])) for one in _read_focal(path)]


def made_file(folder: Path) -> Path:
    (folder / "a.db.made.json").write_text('{"features": 8192, "image_size": 3200}')
    return folder / "a.db.made.json"


def read_made(path: Path) -> object:
    from tempose.sfm.features import _made_with

    return [f"--{name} {value}" for name, value in _made_with(path.with_name("a.db")).items()]


def photograph(name: str) -> Callable[[Path], Path]:
    """The beginning of a photograph, with all that its EXIF may say."""

    def make(folder: Path) -> Path:
        from helpers import exif

        write = {"jpg": exif.jpeg, "png": exif.png, "tif": exif.block}[name.rpartition(".")[2]]
        (folder / name).write_bytes(write(exif.FULL, "><"[name.startswith("a")]))
        return folder / name

    return make


# ---------------------------------------------------------------------- files of a result

_cache: dict[str, Path] = {}


def result(kind: str) -> Path:
    """A sound result, made once: plain, or robust with two explanations."""
    if kind not in _cache:
        import tempose
        from tempose.sampling import Auto

        home = Path(tempfile.mkdtemp(prefix=f"fuzz-{kind}-")) / "result"
        if kind == "minima":
            graph = tempose.simulate(6, seed=0, planar=True, sigma_rot_deg=60.0, sigma_trans=0.5).graph
            tempose.solve(graph, directory=home, draws=0, starts=8, certify=False).save(home)
        elif kind == "plain":
            graph = tempose.simulate(5, seed=1).graph
            tempose.solve(graph, directory=home, draws=6, chains=2, sampler=Auto(thin=1), starts=3).save(home)
        else:
            from helpers.two_explanations import contested

            contested(False).save(home)
        _cache[kind] = home
    return _cache[kind]


def of_result(kind: str, name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        shutil.copytree(result(kind), folder, dirs_exist_ok=True)
        return folder / name

    return make


def load_result(path: Path) -> object:
    import tempose

    home = path.parent.parent if path.parent.name == "draws" else path.parent
    solution = tempose.Solution.load(home)
    return solution.poses, solution.draws, solution.headline


def go_on(path: Path) -> object:
    """What a run that goes on from here reads, up to its first new draw."""
    import threading

    import tempose
    from tempose.sampling import Auto
    from tempose.solver import Run, _resumed

    home = path.parent.parent if path.parent.name == "draws" else path.parent
    graph = tempose.simulate(5, seed=1).graph
    if path.name == "draws.json" and is_endless(path):
        return None
    if path.parent.name == "draws":
        options = tempose.SolveOptions(draws=8, chains=2, sampler=Auto(thin=1), starts=3)
        return tempose.solve(graph, options, directory=home, analyse=False)
    options = tempose.SolveOptions(draws=6, chains=2, sampler=Auto(thin=1), starts=3)
    return _resumed(Run(graph, options, home, None, lambda _: None, threading.Event()))


def is_endless(path: Path) -> bool:
    """Whether a description asks for so much work a draw that nobody would wait: it says so, and it is done."""
    with suppress(ValueError, RecursionError):
        facts = json.loads(path.read_bytes())
        numbers = facts.values() if isinstance(facts, dict) else ()
        return any(isinstance(x, int | float) and abs(x) > 1000 for x in numbers)
    return False


def forge_result(path: Path) -> None:
    """Checksums of ``result.json`` that fit the files around it, and its own."""
    from tempose._support.sealed import checksum, sealed_text

    home = path.parent
    record = home / "result.json"
    facts = json.loads(record.read_bytes())
    if isinstance(facts, dict):
        if path != record and isinstance(facts.get("files"), dict):
            facts["files"][path.name] = [checksum(path.read_bytes())]
        with suppress(ValueError, TypeError):
            record.write_text(sealed_text(facts))


def forge_draws(path: Path) -> None:
    """A checksum of ``draws.json`` that fits; the checkpoints of its run, and those of files that were changed."""
    from tempose._support.sealed import array_bytes, file_checksum, sealed_text
    from tempose.sampling.draws import run_mark

    folder = path.parent
    description = json.loads((folder / "draws.json").read_bytes())
    if not isinstance(description, dict):
        return
    description.pop("checksum", None)
    with suppress(ValueError, TypeError):
        (folder / "draws.json").write_text(sealed_text(description))
        for chain in (0, 1):
            state = folder / f"chain-{chain:02d}.state.npz"
            if state == path:
                continue
            with np.load(state) as saved:
                arrays = {name: saved[name] for name in saved.files}
            arrays["mark"] = np.array(run_mark(description))
            files = [folder / f"chain-{chain:02d}{kind}" for kind in (".f64", ".energy.f64", ".cost.f64")]
            count = min(files[1].stat().st_size // 8, 3)
            arrays["n_draws"] = np.array(count)
            sums = [file_checksum(f, count * n * 8) or 0 for f, n in zip(files, (35, 1, 2), strict=True)]
            arrays["checksums"] = np.array(sums, dtype=np.uint32)
            state.write_bytes(array_bytes(arrays))


def written(name: str, **options: Any) -> Callable[[Path], Path]:
    """A simulated graph in the format of the name's ending."""

    def make(folder: Path) -> Path:
        import tempose
        from tempose.io import write_graph

        made = tempose.simulate(5, seed=1, **options)
        write_graph(folder / name, made.graph, made.truth)
        return folder / name

    return make


def covariance_file(folder: Path) -> Path:
    from tempose.io.covariances import CovarianceTable, write_covariances

    names = (("a",), (7,), ("=b",))
    axes = ("rx", "ry", "rz", "x", "y", "z")
    covariance = np.tile(0.1 * np.eye(6), (3, 1, 1))
    table = CovarianceTable(
        names,
        np.arange(9.0).reshape(3, 3),
        np.tile([1.0, 0, 0, 0], (3, 1)),
        covariance,
        axes,
        "tempose",
        "free",
        "draws",
    )
    write_covariances(folder / "c.npz", table)
    return folder / "c.npz"


def read_covariance_file(path: Path) -> object:
    from tempose.io.covariances import read_covariances

    return read_covariances(path)


def bag(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        from tempose.io.rosbag import write_bag
        from tempose.model.poses import Poses

        poses = Poses((1, 2, 3), np.tile([1.0, 0, 0, 0], (3, 1)), np.arange(9.0).reshape(3, 3))
        write_bag(folder / name, poses, np.tile(np.eye(6), (3, 1, 1)), [10**9, 2 * 10**9, 3 * 10**9])
        return folder / name

    return make


def adjusted_model(name: str) -> Callable[[Path], Path]:
    """A small model with points, as COLMAP writes it."""

    def make(folder: Path) -> Path:
        from helpers import bundles

        model = bundles.make(frames=4, points=12).adjusted
        model.write_binary(folder) if name.endswith(".bin") else model.write_text(folder)
        return folder / name

    return make


def read_adjusted(path: Path) -> object:
    from tempose.sfm.adjustment.problem import read_bundle

    return read_bundle(path.parent)


def cells_file(folder: Path) -> Path:
    from tempose.studies.store import Store

    store = Store(folder, "x", {"seed": 0})
    for k in range(4):
        store.add({"method": "a", "seed": k}, [{"value": 1.5 * k, "why": None}])
    return folder / "cells.jsonl"


def read_cells(path: Path) -> object:
    from tempose.studies.store import Store

    return Store(path.parent, "x", {"seed": 0}).finished


def read_config(path: Path) -> object:
    from tempose.cli.inputs import read_record

    return read_record(path)


def has(package: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(package) is not None


def targets() -> list[Target]:
    """All of them."""
    from tempose.io import ReadOptions, read_graph, read_poses
    from tempose.io.control import read_image_points
    from tempose.io.exif import read_exif
    from tempose.io.gps import read_fixes
    from tempose.io.ply import read_ply
    from tempose.io.times import read_times

    noise = ReadOptions(sigma_rot_deg=5.0, sigma_trans=0.1)
    formats = [
        ("toro", {}),
        ("toro", {"planar": True}),
        ("pyfg", {}),
        ("pyfg", {"planar": True}),
        ("json", {}),
        ("csv.gz", {}),
    ]

    def graph(path: Path) -> object:
        return read_graph(path, noise)

    def read_g2o(path: Path) -> object:
        """With the options that the bytes happen to choose: as given, or as other programs understand the file."""
        data = path.read_bytes()
        meaning, kept = ("rotation-vector", "quaternion-vector"), ("full", "isotropic", "se-sync")
        if data.decode("utf-8", "replace") in fuzz_g2o.SEEDS:  # not all of them are for all options
            return read_graph(path)
        return read_graph(path, ReadOptions(rotation_information=meaning[len(data) % 2], precision=kept[len(data) % 3]))

    def folder_graph(path: Path) -> object:
        return read_graph(path.parent, noise)

    def folder_poses(path: Path) -> object:
        return read_poses(path.parent)

    epfl = {
        "S_Edges__txt": "1,2\n2,1\n2,3\n",
        "S_Qrel__txt": "1,0,0,0\n1,0,0,0\n0.6,0.8,0,0\n",
        "S_Qabs__txt": "1,0,0,0\n" * 3,
    }
    egs = {
        "EGs__txt": "0 1 1 0 0 0 1 0 0 0 1 1 0 0\n1 2 0 -1 0 1 0 0 0 0 1 0 1 0\n",
        "list__txt": "a.jpg\nb.jpg\nc.jpg\n",
    }
    model = {"cameras__txt": _CAMERAS, "images__txt": _IMAGES, "points3D__txt": _POINTS}
    sfm = {"cameras.txt": read_model_views, "images.txt": read_model_views}
    found = [
        Target("csv graph", text_file("g.csv", _CSV), graph, TEXT),
        Target("csv joint information", text_file("g.csv", _CSV_INFO), graph, TEXT),
        Target("csv planar", text_file("g.csv", _PLANAR), graph, TEXT),
        Target("csv poses", text_file("p.csv", "id,x,y,z,qw,qx,qy,qz\na,1e5,2,3,1,0,0,0\n7,1,2,3,0.6,0.8,0,0\n"), read_poses, TEXT),
        Target("gps", text_file("f.csv", "id,x,y,z,sigma_h,sigma_v\na,1,2,3,0.1,0.2\nb,4,5,,1,1\n"), read_fixes, TEXT),
        Target("gps geodetic", text_file("f.csv", "id,lat,lon,alt,sigma\na,48.1,11.5,500,1\nb,48.2,11.6,,1\n"), read_fixes, TEXT),
        Target("tum", text_file("p.tum", "# t\n1.5 1 2 3 0 0 0 1\n2 1 2 3 0 0.6 0 0.8\n"), read_poses, TEXT),
        Target("3dmatch log", text_file("g.log", _LOG), graph, TEXT),
        Target("3dmatch trajectory", text_file("p.log", _POSES_LOG), read_poses, TEXT),
        Target("3dmatch folder", several("gt.log", gt__log=_LOG), folder_poses, TEXT),
        Target("text of any kind", text_file("g.txt", _CSV), graph, TEXT),
        *(Target(f"epfl {name}", several(name, **epfl), graph if "Qabs" not in name else read_poses, TEXT)
          for name in ("S_Edges.txt", "S_Qrel.txt", "S_Qabs.txt")),
        Target("1dsfm edges", several("EGs.txt", **egs), folder_graph, TEXT),
        Target("1dsfm mat", mat, read_poses, BINARY),
        Target("1dsfm packed mat", packed_mat, read_poses, BINARY),
        Target("epfl camera", text_file("a.jpg.camera", _CAMERA), folder_poses, TEXT),
        Target("K.txt", text_file("K.txt", "900 0 500\n0 900 400\n0 0 1\n"), read_camera_file, TEXT),
        Target("cameras.txt", text_file("c.txt", _CAMERAS.replace("1 PINHOLE", "# 1 PINHOLE", 1)), read_camera_file, TEXT),
        *(Target(f"colmap {name}", several(name, **model), read, TEXT) for name, read in sfm.items()),
        *(Target(f"colmap {name}", binary_model(name), read_model_views, BINARY) for name in ("cameras.bin", "images.bin")),
        Target("colmap database", database, read_all_of_a_database, BINARY),
        Target("colmap database, cells", database, read_all_of_a_database, (cell,)),
        Target("ply", binary_ply, read_ply, (*BINARY, words)),
        Target("ply ascii", text_file("a.ply", _PLY_ASCII), read_ply, TEXT),
        Target("scene.npz", scene_file, read_scene, (*BINARY, array_of_npz, array_of_npz, member)),
        Target("features.db.focal.json", focal_file, read_focal, (*TEXT, json_node, json_node)),
        Target("features.db.made.json", made_file, read_made, (*TEXT, json_node, json_node)),
        *(Target(f"EXIF {name}", photograph(name), read_exif, BINARY) for name in ("a.jpg", "b.jpg", "a.png", "b.tif")),
        Target("control", text_file("c", "image,x,y,point,sigma_px\na.jpg,1.5,2,P1,0.7\nb.jpg,4,5,P,\n"), read_image_points, TEXT),
        Target("cells.jsonl", cells_file, read_cells, TEXT),
        Target("config", of_result("plain", "result.json"), read_config, (json_node, json_node, *TEXT)),
        *(Target(f"g2o {k}", text_file("g.g2o", text), read_g2o, fuzz_g2o.MUTATIONS) for k, text in enumerate(fuzz_g2o.SEEDS)),
        *(Target(f"{ending}{' planar' if how else ''}", written(f"g.{ending}", **how), graph,
                 (*TEXT, json_node, json_node) if ending == "json" else BINARY if ending == "csv.gz" else TEXT)
          for ending, how in formats),
        Target("kitti", text_file("p.kitti", "1 0 0 1 0 1 0 2 0 0 1 3\n" * 2 + "0 -1 0 1 1 0 0 2 0 0 1 3\n"), read_poses, TEXT),
        Target("euroc", text_file("p.euroc", "#timestamp, x\n10,1,2,3,1,0,0,0,9\n20,1,2,3,0.6,0.8,0,0,9\n"), read_poses, TEXT),
        Target("times", text_file("t.csv", "id,time_ns\na,1000000000\n7,2000000000\n"), read_times, TEXT),
        Target("times.txt", text_file("times.txt", "0.0\n1e-1\n0.25\n"), read_times, TEXT),
        Target("covariances.npz", covariance_file, read_covariance_file, (*BINARY, array_of_npz, array_of_npz, member)),
        *(Target(f"rosbag {name}", bag(name), read_poses, BINARY) for name in ("a.bag", "a.mcap") if has("rosbags")),
        *(Target(f"colmap adjusted {name}{ending}", adjusted_model(f"{name}{ending}"), read_adjusted,
                 BINARY if ending == ".bin" else TEXT)
          for ending in (".bin", ".txt") for name in ("cameras", "images", "points3D", "rigs", "frames")),
    ]  # fmt: skip
    for name in ("result.json", "graph.csv", "poses.csv", "trace.npy"):
        own: tuple[Mutate, ...] = (json_node,) if name == "result.json" else BINARY if name.endswith("npy") else TEXT
        found += [
            Target(f"result {name}", of_result("plain", name), load_result, (*BINARY, *own)),
            Target(f"result {name}, forged", of_result("plain", name), load_result, own, forge_result),
            Target(f"resume {name}, forged", of_result("plain", name), go_on, own, forge_result),
        ]
    for name in ("minima.npz", "likelihood.npz", "explanations.npz"):
        kind = "minima" if name == "minima.npz" else "robust"
        found += [
            Target(f"result {name}", of_result(kind, name), load_result, BINARY),
            Target(f"result {name}, forged", of_result(kind, name), load_result, (array_of_npz, member), forge_result),
        ]
    for name in ("draws.json", "chain-00.f64", "chain-01.energy.f64", "chain-00.cost.f64", "chain-00.state.npz"):
        own = {"draws.json": (json_node,), "chain-00.state.npz": (array_of_npz, member)}.get(name, BINARY)
        at = f"draws/{name}"
        found += [
            Target(f"draws {name}", of_result("plain", at), load_result, BINARY),
            Target(f"draws {name}, forged", of_result("plain", at), load_result, own, forge_draws),
            Target(f"resume {name}, forged", of_result("plain", at), go_on, own, forge_draws),
        ]
    return found


# ---------------------------------------------------------------------- running


def run(target: Target, n: int, seed: int, folder: Path, first: int = 0) -> Counter[str]:
    """Check mutants ``first`` to ``n``; the same seed gives the same ones. Raises with the number of the mutant that fails."""
    from tempose.errors import TemposeError

    sound = folder / "sound"
    sound.mkdir(parents=True)
    original = target.make(sound).relative_to(sound)
    data = (sound / original).read_bytes()
    outcomes: Counter[str] = Counter()
    outcomes["sound"] += target.read(sound / original) is not None
    work = folder / "work"
    for k in range(first, n):
        rng = np.random.default_rng([seed, k])
        mutant = data
        for _ in range(int(rng.integers(1, 3))):
            with suppress(Exception):  # what one mutation has broken another may not be able to read
                mutant = target.mutations[rng.integers(len(target.mutations))](rng, mutant) if mutant else mutant
        if target.forge is not None:
            shutil.rmtree(work, ignore_errors=True)
        if target.forge is not None or not work.exists():
            shutil.copytree(sound, work)
        path = work / original
        path.write_bytes(mutant)
        if target.forge is not None:
            with suppress(ValueError, RecursionError):
                target.forge(path)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", ResourceWarning)
                target.read(path)
            outcomes["read"] += 1
        except TemposeError as error:
            if "\n" in str(error) or len(str(error)) > 1500:
                raise AssertionError(f"mutant {k} of {target.name}: more than a line: {error}") from error
            outcomes[type(error).__name__] += 1
        except BaseException as error:
            raise AssertionError(f"mutant {k} of {target.name}, seed {seed}: {mutant[:300]!r}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
    return outcomes


def run_apart(names: list[str], n: int, seed: int) -> Iterator[tuple[str, bool, str]]:
    """Targets in a process of their own, a new one after each that ends it: name, whether it went well, and what it said."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    left = list(names)
    while left:
        command = [sys.executable, __file__, "--n", str(n), "--seed", str(seed), "--here", *left]
        with tempfile.TemporaryFile("w+") as errors:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env)
            assert child.stdout is not None
            for line in child.stdout:
                said = json.loads(line)
                yield left.pop(0), said["fine"], said["text"]
            if child.wait() != 0 and left:
                errors.seek(0)
                yield left.pop(0), False, f"ended with {child.returncode}: {errors.read()[-3000:]}"


def run_here(names: list[str], n: int, seed: int) -> None:
    """A line of JSON for each target."""
    known = {target.name: target for target in targets()}
    try:
        for name in names:
            began = time.perf_counter()
            with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as folder:
                try:
                    outcomes = run(known[name], n, seed, Path(folder))
                    said = {
                        "fine": True,
                        "text": f"{n} mutants in {time.perf_counter() - began:.0f} s: {dict(outcomes)}",
                    }
                except BaseException:
                    said = {"fine": False, "text": traceback.format_exc()[-3000:]}
            print(json.dumps(said), flush=True)
    finally:
        for home in _cache.values():
            shutil.rmtree(home.parent, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=3000, help="mutants of each target (default 3000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="targets whose name has these words in it")
    parser.add_argument("--list", action="store_true", help="list them")
    parser.add_argument("--here", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        run_here(arguments.here, arguments.n, arguments.seed)
        return 0
    names = [target.name for target in targets() if arguments.only in target.name]
    if arguments.list:
        print("\n".join(names))
        return 0
    failed = []
    for name, fine, said in run_apart(names, arguments.n, arguments.seed):
        failed += [] if fine else [name]
        print(f"{name}: {'' if fine else 'FAILED: '}{said}", flush=True)
    print(f"{len(failed)} of {len(names)} targets failed{': ' if failed else ''}{', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
