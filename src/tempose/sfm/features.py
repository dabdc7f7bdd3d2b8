"""Photographs → COLMAP database: features and exhaustive matching on the CPU, by pycolmap."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import make_directory, write_atomically
from tempose._support.packages import require
from tempose._support.progress import Progress, ProgressHook, silent
from tempose.errors import ArgumentError, FileError, Interrupted, NotApplicable, ParseError
from tempose.io.colmap.cameras import ColmapCamera
from tempose.io.colmap.database import contents, count_rows, focal_length
from tempose.sfm.views import FoundFocalLength, OtherSize, Remark, UnreadableImage

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp")
_POLL_SECONDS = 0.5


def find_images(folder: Path) -> list[str]:
    """Names of the images in a folder, in order."""
    names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    if len(names) < 2:
        found = f"there is one image ({names[0]})" if names else "there are no images"
        raise ArgumentError(f"{folder}: {found} here; give a folder with at least two ({', '.join(SUFFIXES)})")
    return names


def build_database(
    folder: str | Path, database: str | Path, camera: ColmapCamera | None = None, progress: ProgressHook = silent
) -> list[Remark]:
    """Extract and match the features of all images of a folder; what was done before in the same database stays.

    Parameters
    ----------
    folder
        Of the photographs, taken with one camera.
    database
        File to write.
    camera
        That took them; ``None`` starts from the EXIF focal length, or a guess, and calibrates the focal length from the
        pairs.
    progress
        Told of features and of matching.

    Returns
    -------
    list of Remark
        Every image that cannot be used, and the focal length if it had to be found.
    """
    folder, database = Path(folder), Path(database)
    pycolmap = require("pycolmap", "reading photographs")
    pycolmap.logging.minloglevel = 3  # what goes wrong is found in the database, and said in one line
    names = find_images(folder)
    good, remarks = _usable(pycolmap, folder, names)
    _check_same(database, good, camera)
    make_directory(database.parent)
    _extract(pycolmap, folder, database, good, camera, progress)
    _match(pycolmap, database, len(good), camera is None, progress)
    if camera is None:
        remarks.append(_calibrate(pycolmap, database))
    return remarks


def _usable(pycolmap: Any, folder: Path, names: list[str]) -> tuple[list[str], list[Remark]]:
    """The images that one camera can have taken, and a remark for each of the others."""
    size: dict[str, tuple[int, int]] = {}
    for name in names:
        bitmap = pycolmap.Bitmap.read(folder / name, True)
        if bitmap is not None:
            size[name] = bitmap.width, bitmap.height
    if len(size) < 2:
        raise ParseError(folder, None, f"{len(size)} of {len(names)} images can be read; at least two are needed")
    usual, _ = Counter(size.values()).most_common(1)[0]
    remarks: list[Remark] = []
    for name in names:
        if name not in size:
            remarks.append(UnreadableImage(name))
        elif size[name] != usual:
            remarks.append(OtherSize(name, size[name], usual))
    good = [name for name in names if size.get(name) == usual]
    if len(good) < 2:
        raise ArgumentError(f"{folder}: no two images have the same size; all must be of one camera")
    return good, remarks


def _extract(
    pycolmap: Any, folder: Path, database: Path, names: list[str], camera: ColmapCamera | None, progress: ProgressHook
) -> None:
    reader, options = pycolmap.ImageReaderOptions(), pycolmap.FeatureExtractionOptions()
    if camera is not None:
        reader.camera_model = camera.model
        reader.camera_params = ", ".join(repr(float(x)) for x in camera.params)
        _check_size(pycolmap, folder / names[0], camera)
    if count_rows(database, "keypoints") < len(names):
        _watched(
            pycolmap,
            database,
            lambda: pycolmap.extract_features(
                database,
                folder,
                image_names=names,
                camera_mode=pycolmap.CameraMode.SINGLE,
                reader_options=reader,
                extraction_options=options,
                device=pycolmap.Device.cpu,
            ),
            lambda watched: progress(Progress("features", watched.num_images(), len(names))),
        )
    progress(Progress("features", len(names), len(names)))


def _match(pycolmap: Any, database: Path, n: int, calibrate: bool, progress: ProgressHook) -> None:
    total = n * (n - 1) // 2
    options = pycolmap.FeatureMatchingOptions()
    options.skip_geometric_verification = not calibrate
    if count_rows(database, "matches") < total:
        _watched(
            pycolmap,
            database,
            lambda: pycolmap.match_exhaustive(database, matching_options=options, device=pycolmap.Device.cpu),
            lambda watched: progress(Progress("matching", watched.num_matched_image_pairs(), total)),
        )
    progress(Progress("matching", total, total))


def _calibrate(pycolmap: Any, database: Path) -> FoundFocalLength:
    """Find the focal length from the pairs, once."""
    about = database.with_name(f"{database.name}.focal.json")  # the database keeps only what was found
    now, from_exif = focal_length(database)
    known = _read_focal(about)
    if known.get("found") != now:
        if not pycolmap.calibrate_view_graph(database, pycolmap.ViewGraphCalibrationOptions(random_seed=0)):
            raise NotApplicable(
                "the focal length cannot be found from these pairs; give the calibration (--intrinsics)"
            )
        known = {"start": now, "from_exif": from_exif, "found": focal_length(database)[0]}
        write_atomically(about, json.dumps(known).encode())
    return FoundFocalLength(known["found"], known["start"], known["from_exif"])


def _read_focal(about: Path) -> dict[str, Any]:
    """What an earlier run wrote of the focal length; nothing if it cannot be read, and it is found again."""
    try:
        known = json.loads(about.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(known, dict) or not isinstance(known.get("from_exif"), bool):
        return {}
    lengths = [known.get(name) for name in ("start", "found")]
    return known if all(isinstance(x, int | float) and 0.0 < x < math.inf for x in lengths) else {}


def _check_same(database: Path, names: list[str], camera: ColmapCamera | None) -> None:
    """A database that is there already must be of the same photographs and the same calibration."""
    if not database.exists():
        return
    try:
        there = contents(database)
    except ParseError as error:
        raise ParseError(
            database,
            None,
            f"the features of an earlier run cannot be read ({error}); delete the file, or use --overwrite",
        ) from None
    other = None
    if not there.names <= set(names):
        other = "other photographs"
    elif camera is None and there.matched and not there.verified:  # pairs are verified only to find the focal length
        other = "a calibration that is not given now"
    elif camera is not None and not all(np.array_equal(params, camera.params) for params in there.params):
        other = "another calibration"
    if other is not None:
        raise FileError(f"{database} was made with {other}; give another directory to -o, or use --overwrite")


def _check_size(pycolmap: Any, image: Path, camera: ColmapCamera) -> None:
    """A principal point outside the image is a calibration of another size."""
    bitmap = pycolmap.Bitmap.read(image, True)
    cx, cy = camera.K[:2, 2]
    if not (0.25 * bitmap.width < cx < 0.75 * bitmap.width and 0.25 * bitmap.height < cy < 0.75 * bitmap.height):
        raise ArgumentError(
            f"the calibration's principal point ({cx:g}, {cy:g}) is not near the middle of {image.name} "
            f"({bitmap.width}×{bitmap.height}): is it for images of another size?"
        )


def _watched(pycolmap: Any, database: Path, work: Callable[[], None], look: Callable[[Any], None]) -> None:
    """Run work on a database in a thread, and look at the database meanwhile.

    It is looked at through pycolmap's own copy of SQLite: Python's is another one, and closing a file in one copy drops
    the locks that the other holds on it in the same process, which destroys the database.
    """
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # handed to the caller's thread
            failure.append(error)

    watched = pycolmap.Database.open(database)
    thread = threading.Thread(target=run, name="colmap", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
        look(watched)
    watched.close()
    if failure:
        raise Interrupted(f"COLMAP failed: {str(failure[0]).splitlines()[0]}") from failure[0]
