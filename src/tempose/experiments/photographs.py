"""What the experiments on photographs share: scenes of the EPFL benchmark, their matches, and the cameras made of them."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tempose.experiments.base import DataMissing, data_folder
from tempose.io.epfl_cameras import read_epfl_cameras
from tempose.metrics import pose_errors
from tempose.poses import Poses
from tempose.sfm.database import read_database
from tempose.sfm.features import build_database, read_intrinsics
from tempose.sfm.motion import Motion, estimate_motion
from tempose.sfm.options import SfmOptions
from tempose.sfm.twoview import Pairs, estimate_pairs
from tempose.sfm.views import Views

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


def truth(scene: str) -> Poses:
    """True poses, metres."""
    return read_epfl_cameras(data_folder("epfl") / scene / "gt_dense_cameras")


def database(scene: str) -> Path:
    """The scene's features and matches, made when first asked for: minutes."""
    home = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "tempose") / scene
    path = home / "database.db"
    if not path.exists():
        unfinished = home / f"database.{os.getpid()}.db"
        build_database(images(scene), unfinished, read_intrinsics(images(scene) / "K.txt"))
        unfinished.rename(path)
    return path


@cache
def views(scene: str) -> Views:
    """Keypoints and matches."""
    return read_database(database(scene))


@cache
def first_pairs(scene: str) -> Pairs:
    """Relative poses of all pairs, each from its matches alone."""
    return estimate_pairs(views(scene))


@cache
def motion(scene: str, scales: str) -> Motion:
    """Our cameras before bundle adjustment."""
    return estimate_motion(views(scene), SfmOptions(scales=scales), truth(scene), first=first_pairs(scene))


def errors(poses: Poses, scene: str, *, scaled: bool) -> dict[str, float]:
    """Mean rotation error after aligning rotations by rotations, and mean position error after aligning positions.

    ``scaled`` poses lack a scale: it is aligned, too.
    """
    kind = "sim3" if scaled else "se3"
    turned, placed = (pose_errors(poses, truth(scene), a) for a in (kind, f"positions-{kind}"))
    return {
        "n_compared": turned.n_nodes,
        "mean_rotation_deg": turned.mean_rotation_deg,
        "mean_translation_m": placed.mean_translation,
    }
