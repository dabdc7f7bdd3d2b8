"""What the experiments on photographs share: scenes of the EPFL benchmark, their matches, and the cameras made of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tempose._support.packages import require
from tempose.analysis.accuracy import pose_errors
from tempose.io.colmap.cameras import read_camera
from tempose.io.epfl_cameras import read_epfl_cameras
from tempose.model.graph import PoseGraph
from tempose.model.poses import Poses
from tempose.sfm.adjustment.problem import USUAL
from tempose.sfm.features import build_database
from tempose.sfm.lengths import baseline_lengths
from tempose.sfm.mapping import MappingOptions, map_database, prepare
from tempose.sfm.motion import Motion, estimate_motion
from tempose.sfm.options import SfmOptions
from tempose.sfm.pairs import Pairs, estimate_pairs
from tempose.sfm.photographs import find_images
from tempose.sfm.synchronise import Edges
from tempose.sfm.views import Views, read_database_views
from tempose.studies.experiment import DataMissing, data_folder
from tempose.studies.warping import VARIANTS, turned_truth, write_warped

SCENES = ("Herz-Jesus-P8", "Herz-Jesus-P25", "fountain-P11", "entry-P10", "castle-P19", "castle-P30")
QUICK = ("Herz-Jesus-P8",)
CACHE = "TEMPOSE_CACHE"
"""Environment variable with the folder where features and matches are kept, by default ``~/.cache/tempose``."""


def check_needs(*data: str) -> None:
    """Refuse to plan where a data set, or pycolmap, is missing."""
    for name in data:
        data_folder(name)
    if find_spec("pycolmap") is None:
        raise DataMissing("needs pycolmap: pip install 'tempose[sfm]'")


def images(scene: str) -> Path:
    """Folder of a scene's photographs at half size."""
    return data_folder("epfl") / scene / "images_half"


def truth(scene: str, known: str = "K") -> Poses:
    """True poses, metres, also of photographs that were turned."""
    found = read_epfl_cameras(data_folder("epfl") / scene / "gt_dense_cameras")
    return turned_truth(found, VARIANTS[known]) if known in VARIANTS else found


def database(scene: str) -> Path:
    """The scene's features and matches, made when first asked for: minutes."""
    return _kept(scene, "database.db", lambda path: _match(scene, path))


def verified_database(scene: str) -> Path:
    """The same with COLMAP's default geometric verification of all pairs, made when first asked for."""
    return _kept(scene, "verified.db", lambda path: _verify(scene, path))


def _kept(scene: str, name: str, make: Callable[[Path], None]) -> Path:
    """A file of the cache; a run that is stopped leaves none that is not whole."""
    home = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "tempose") / scene
    if not (home / name).exists():
        unfinished = home / f"{os.getpid()}.{name}"
        make(unfinished)
        unfinished.rename(home / name)
    return home / name


def warped(scene: str, variant: str) -> Path:
    """Folder of the scene's photographs, warped; made when first asked for."""
    return _kept(scene, variant, lambda path: write_warped(images(scene), path, VARIANTS[variant]))


def warped_database(scene: str, variant: str) -> Path:
    """Features and matches of warped photographs, of whose cameras nothing is known but their sizes."""
    return _kept(scene, f"{variant}.db", lambda path: _match_folder(warped(scene, variant), path))


def _match_folder(folder: Path, path: Path) -> None:
    """Features and matches of photographs by cameras of which nothing is known but what EXIF says."""
    build_database(folder, path, begin_anywhere=True)
    for beside in path.parent.glob(f"{path.name}.*"):  # what was found on the way
        beside.unlink()


def _match(scene: str, path: Path) -> None:
    build_database(images(scene), path, read_camera(images(scene) / "K.txt"))


def _verify(scene: str, path: Path) -> None:
    pycolmap = require("pycolmap", "geometric verification")
    pycolmap.logging.minloglevel = 3
    shutil.copy(database(scene), path)
    with pycolmap.Database.open(path) as opened:
        opened.clear_two_view_geometries()
    options = pycolmap.TwoViewGeometryOptions()
    options.compute_relative_pose = True
    pycolmap.geometric_verification(path, two_view_geometry_options=options)


def model(scene: str, known: bool) -> Path:
    """COLMAP's incremental model of a scene, its calibration held at ``K.txt`` or unknown; made when first asked for."""
    return _kept(scene, "model-known" if known else "model-unknown", lambda path: _map(scene, path, known))


def _map(scene: str, path: Path, known: bool) -> None:
    pycolmap = require("pycolmap", "a model of photographs")
    pycolmap.logging.minloglevel = 3
    path.mkdir(parents=True)
    features, folder = path.with_suffix(".db"), images(scene)
    reader = pycolmap.ImageReaderOptions()
    if known:
        camera = read_camera(folder / "K.txt")
        reader.camera_model = str(camera.model)
        reader.camera_params = ", ".join(repr(float(x)) for x in camera.params)
    pycolmap.extract_features(
        features,
        folder,
        image_names=find_images(folder),
        camera_mode=pycolmap.CameraMode.SINGLE,
        reader_options=reader,
        device=pycolmap.Device.cpu,
    )
    pycolmap.match_exhaustive(features, device=pycolmap.Device.cpu)
    options = pycolmap.IncrementalPipelineOptions(min_model_size=3, random_seed=0)
    if known:
        for name in ("focal_length", "principal_point", "extra_params"):
            setattr(options, f"ba_refine_{name}", False)
        for name in ("focal_length", "extra_params"):
            setattr(options.mapper, f"abs_pose_refine_{name}", False)
    made = pycolmap.incremental_mapping(features, folder, path, options)
    features.unlink()
    if not made:
        raise DataMissing(f"COLMAP makes no model of {scene}")
    for part in path.iterdir():
        shutil.rmtree(part) if part.is_dir() else part.unlink()
    max(made.values(), key=lambda one: one.num_reg_images()).write(path)


KNOWN = ("nothing", "K", "EXIF")
"""What is known of the calibration. Of warped photographs, which the functions below take as well, it is nothing."""
EXIF_FOCAL_PX = 20.0 / 22.7 * 1536
"""What EXIF of the camera of these photographs, which has been removed from them, would make of 20 mm on 22.7 mm; 2% short."""


def refined(known: str) -> tuple[str, ...]:
    """Intrinsics that are to be estimated."""
    return () if known == "K" else USUAL


def prepared(scene: str, known: str) -> Path:
    """The scene's features with verified pairs and cameras of which so much is known, for COLMAP's mappers."""
    return _kept(scene, f"prepared-{known}.db", lambda path: _prepare(scene, known, path))


def _prepare(scene: str, known: str, path: Path) -> None:
    if known in VARIANTS:
        prepare(warped_database(scene, known), path, MappingOptions(verify=True))
        return
    pycolmap = require("pycolmap", "a model of photographs")
    start = path.with_suffix(".start")
    shutil.copy(database(scene), start)
    if known != "K":
        with pycolmap.Database.open(start) as opened:
            for camera in opened.read_all_cameras():
                focal = EXIF_FOCAL_PX if known == "EXIF" else 1.2 * max(camera.width, camera.height)
                middle = (0.5 * camera.width, 0.5 * camera.height)
                camera.model = pycolmap.CameraModelId.SIMPLE_RADIAL
                camera.params, camera.has_prior_focal_length = [focal, *middle, 0.0], known == "EXIF"
                opened.update_camera(camera)
    prepare(start, path, MappingOptions(refined=refined(known), verify=True))
    start.unlink()


def mapped(scene: str, known: str, mapper: str) -> Path:
    """The model of one of COLMAP's mappers, intrinsics refined unless they are known."""
    return _kept(scene, f"{known}-{mapper}", lambda path: _map_prepared(scene, known, mapper, path))


def _map_prepared(scene: str, known: str, mapper: str, path: Path) -> None:
    _map_from(prepared(scene, known), MappingOptions(mapper, refined(known)), scene, path)


def _map_from(features: Path, options: MappingOptions, name: str, path: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        made = map_database(features, Path(scratch), options)
        if not made.folders:
            raise DataMissing(f"the {options.mapper} mapper makes no model of {name}")
        shutil.copytree(made.folders[0], path)


def others(name: str) -> Path:
    """Features and matches of a folder of the data set ``photos``, as ``tempose sfm`` makes them."""
    folder = data_folder("photos") / name
    inner = folder / "images"
    return _kept(name, "database.db", lambda path: _match_folder(inner if inner.is_dir() else folder, path))


def mapped_others(name: str, mapper: str) -> Path:
    """The model of one of COLMAP's mappers of them, focal lengths and distortion refined."""

    def make(path: Path) -> None:
        _map_from(others(name), MappingOptions(mapper, verify=True), name, path)

    return _kept(name, mapper, make)


@cache
def views(scene: str) -> Views:
    """Keypoints and matches."""
    return read_database_views(database(scene))


@cache
def first_pairs(scene: str) -> Pairs:
    """Relative poses of all pairs, each from its matches alone."""
    return estimate_pairs(views(scene))


@cache
def motion(scene: str, scales: str) -> Motion:
    """Our cameras before bundle adjustment."""
    return estimate_motion(views(scene), SfmOptions(scales=scales), truth(scene), first=first_pairs(scene))


def first_graph(scene: str) -> PoseGraph:
    """Pose graph of the pairs as they come from their matches alone, with estimated lengths of baselines."""
    options = SfmOptions()
    scale, sigma = baseline_lengths(views(scene), first_pairs(scene), options.scale)
    return Edges.of_largest_part(views(scene).names, first_pairs(scene), scale, sigma, options.sync).graph()


@dataclass(frozen=True, eq=False)
class StoredPair:
    """What COLMAP's geometric verification stores of a pair: ``j_from_i``, its unit translation, and how many matches agree."""

    wxyz: NDArray[np.float64]
    direction: NDArray[np.float64]
    n_matches: int


def stored_pairs(scene: str) -> dict[tuple[str, str], StoredPair]:
    """COLMAP's two-view geometries by the names of their images, in both orders."""
    pycolmap = require("pycolmap", "two-view geometry")
    found = {}
    with pycolmap.Database.open(verified_database(scene)) as opened:
        name = {image.image_id: image.name for image in opened.read_all_images()}
        for pair_id, geometry in zip(*opened.read_two_view_geometries(), strict=True):
            pose, (i, j) = geometry.cam2_from_cam1, pycolmap.pair_id_to_image_pair(pair_id)
            if pose is None:
                continue
            for ends, motion in (((i, j), pose), ((j, i), pose.inverse())):
                t, xyzw = np.array(motion.translation), np.array(motion.rotation.quat)
                if (length := float(np.linalg.norm(t))) > 0.0:
                    pair = StoredPair(np.roll(xyzw, 1), t / length, len(geometry.inlier_matches))
                    found[name[ends[0]], name[ends[1]]] = pair
    return found


def errors(poses: Poses, scene: str, *, scaled: bool, known: str = "K") -> dict[str, float]:
    """Mean rotation error after aligning rotations by rotations, and mean position error after aligning positions.

    ``scaled`` poses lack a scale: it is aligned, too.
    """
    kind = "sim3" if scaled else "se3"
    turned, placed = (pose_errors(poses, truth(scene, known), a) for a in (kind, f"positions-{kind}"))
    return {
        "n_compared": turned.n_nodes,
        "mean_rotation_deg": turned.mean_rotation_deg,
        "mean_translation_m": placed.mean_translation,
    }
