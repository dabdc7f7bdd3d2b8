"""What both ways of ``tempose sfm`` share: the directory, the truth, the features."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tempose.model.poses import Poses
    from tempose.report.widgets import Fact
    from tempose.sfm.scene import Scene

FEATURES = "features.db"
FILES = (
    ("cameras.csv", "cameras with error bars"),
    ("points.ply", "points in the colours of the photographs"),
    ("points_sigma.ply", "points coloured by σ"),
    ("colmap/", "a COLMAP model"),
    ("scene.npz", "everything, for tempose view and Python"),
    ("sfm.json", "all numbers of this page, and why pairs were left out"),
)  # beside the page, whatever the source


def discard(home: Path, overwrite: bool) -> None:
    """Take away what an earlier run left. Features and matches, which take minutes, stay unless they are to be made again."""
    for old in home.glob(f"{FEATURES}*") if overwrite else ():  # SQLite's journals, too
        old.unlink()
    for name in ("graph.csv", "intrinsics.csv", "points.csv"):  # of the other posterior
        (home / name).unlink(missing_ok=True)
    for other in (*home.glob("scene-*"), home / "graph"):
        if (other / "sfm.json").is_file():
            shutil.rmtree(other)
    if (home / "cameras" / "result.json").is_file():  # of an earlier version: other error bars of the same cameras
        shutil.rmtree(home / "cameras")


def check_truth(truth: Poses, names: tuple[str, ...], path: str) -> None:
    """Say that the truth is of other views before the work, not after it."""
    from tempose.errors import ArgumentError

    known = sum(name in truth.index for name in names)
    if known < 2:
        raise ArgumentError(
            f"{path} has poses for {known} of the {len(names)} views: theirs are called {truth.ids[0]}, …, the views "
            f"{names[0]}, …"
        )


def errors_to(scene: Scene, truth: Poses) -> Fact:
    """Mean errors of the cameras."""
    from tempose.analysis.accuracy import pose_errors
    from tempose.report.widgets import Fact

    kind = "se3" if scene.gauge.metric else "sim3"
    turned = pose_errors(scene.poses, truth, kind)
    placed = pose_errors(scene.poses, truth, f"positions-{kind}")
    return Fact(
        "error to the truth",
        f"{turned.mean_rotation_deg:.3f}° and {placed.mean_translation:.4f}",
        "means, in the truth's unit; rotations aligned by rotations, positions by positions"
        + (" with scale" if kind == "sim3" else ""),
    )


def covered(scene: Scene, truth: Poses) -> str:
    """How many true cameras are inside their regions, in a sentence."""
    from tempose.analysis.regions import inside
    from tempose.sfm.accuracy import camera_errors

    turned, placed = (inside(squared, 0.95, 3) for squared in camera_errors(scene, truth))
    return f"inside the 95% regions: {turned.sum()} orientations and {placed.sum()} positions of {len(placed)} true cameras"
