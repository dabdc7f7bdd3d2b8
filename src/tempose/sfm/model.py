"""COLMAP models (text or binary) as views: their image points, and the matches their tracks stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tempose.errors import ParseError
from tempose.sfm.cameras import Intrinsics, require_pycolmap, undistort
from tempose.sfm.views import Views

NEEDED = ("cameras", "images", "points3D")


def is_model(folder: Path) -> bool:
    """Whether a folder holds a COLMAP model; a part of one is refused."""
    for suffix in (".txt", ".bin"):
        missing = [f"{name}{suffix}" for name in NEEDED if not (folder / f"{name}{suffix}").exists()]
        if not missing:
            return True
        if len(missing) == 1:
            raise ParseError(folder, None, f"is a COLMAP model without {missing[0]}; is it whole?")
    return False


def read_model(folder: str | Path, fewest_matches: int = 15) -> Views:
    """Views of a COLMAP model. Its poses and points are not used: two image points of one track are a match."""
    folder = Path(folder)
    pycolmap = require_pycolmap("reading a COLMAP model")
    try:
        model = pycolmap.Reconstruction(folder)
    except (ValueError, RuntimeError, IndexError) as error:
        raise ParseError(
            folder, None, f"cannot be read as a COLMAP model ({str(error).splitlines()[0]}); is it whole?"
        ) from None
    if not model.images:
        raise ParseError(folder, None, "the COLMAP model has no images")
    images = sorted(model.images.values(), key=lambda image: image.name)
    keypoints, tracks, cameras = [], [], []
    for image in images:
        camera = model.cameras[image.camera_id]
        own = Intrinsics(camera.model.name, camera.width, camera.height, np.array(camera.params))
        kept = [p for p in image.points2D if p.has_point3D()]
        pixel = np.array([p.xy for p in kept]).reshape(-1, 2)
        cameras.append(own)
        keypoints.append(undistort(own, pixel))
        tracks.append(np.array([p.point3D_id for p in kept], dtype=np.int64))
    pairs, matches = [], []
    for i in range(len(images)):
        for j in range(i + 1, len(images)):
            _, a, b = np.intersect1d(tracks[i], tracks[j], return_indices=True)
            if len(a) >= fewest_matches:
                pairs.append((i, j))
                matches.append(np.stack([a, b], axis=1).astype(np.int64))
    if not pairs:
        raise ParseError(folder, None, f"no two of its {len(images)} images share {fewest_matches} points")
    return Views(
        tuple(image.name for image in images), np.array([c.K for c in cameras]), np.array([c.size for c in cameras]),
        tuple(keypoints), np.array(pairs, dtype=np.int64), tuple(matches),
    )  # fmt: skip
