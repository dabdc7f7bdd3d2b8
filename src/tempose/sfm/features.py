"""Photographs → COLMAP database: features and exhaustive matching on the CPU, by pycolmap."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import write_atomically
from tempose.errors import OptionError, ParseError, TemposeError
from tempose.sfm.cameras import Intrinsics, require_pycolmap

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp")
_POLL_SECONDS = 0.5

Progress = Callable[[str, float, float], None]
"""Called with the phase in words, what is done and what there is."""


def silent(phase: str, done: float, total: float) -> None:
    """Report nothing."""


def find_images(folder: Path) -> list[str]:
    """Names of the images in a folder, in order."""
    names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    if len(names) < 2:
        found = f"there is one image ({names[0]})" if names else "there are no images"
        raise TemposeError(f"{folder}: {found} here; give a folder with at least two ({', '.join(SUFFIXES)})")
    return names


def build_database(
    folder: str | Path, database: str | Path, intrinsics: Intrinsics | None = None, progress: Progress | None = None
) -> list[str]:
    """Extract and match the features of all images of a folder; what was done before in the same database stays.

    Parameters
    ----------
    folder
        Of the photographs, taken with one camera.
    database
        File to write.
    intrinsics
        Of the camera; ``None`` starts from the EXIF focal length, or a guess, and calibrates the focal length from the
        pairs.
    progress
        See :data:`Progress`.

    Returns
    -------
    list of str
        One line for every image that cannot be used.
    """
    folder, database = Path(folder), Path(database)
    pycolmap = require_pycolmap("reading photographs")
    pycolmap.logging.minloglevel = 3  # what goes wrong is found in the database, and said in one line
    names = find_images(folder)
    good, notices = _usable(pycolmap, folder, names)
    _check_same(database, good, intrinsics)
    database.parent.mkdir(parents=True, exist_ok=True)
    report = progress or (lambda phase, done, total: None)
    _extract(pycolmap, folder, database, good, intrinsics, report)
    _match(pycolmap, database, len(good), intrinsics is None, report)
    if intrinsics is None:
        notices.append(_calibrate(pycolmap, database))
    return notices


def _usable(pycolmap: Any, folder: Path, names: list[str]) -> tuple[list[str], list[str]]:
    """The images that one camera can have taken, and a line for each of the others."""
    size: dict[str, tuple[int, int]] = {}
    for name in names:
        bitmap = pycolmap.Bitmap.read(folder / name, True)
        if bitmap is not None:
            size[name] = bitmap.width, bitmap.height
    if len(size) < 2:
        raise TemposeError(f"{folder}: {len(size)} of {len(names)} images can be read; at least two are needed")
    usual, _ = Counter(size.values()).most_common(1)[0]
    notices = []
    for name in names:
        if name not in size:
            notices.append(f"{name} cannot be read as an image and is left out")
        elif size[name] != usual:
            notices.append(
                f"{name} is left out: it has {size[name][0]}×{size[name][1]} pixels where most have {usual[0]}×{usual[1]}, and "
                "all must be of one camera (a COLMAP database can have several)"
            )
    good = [name for name in names if size.get(name) == usual]
    if len(good) < 2:
        raise TemposeError(f"{folder}: no two images have the same size; all must be of one camera")
    return good, notices


def _extract(
    pycolmap: Any, folder: Path, database: Path, names: list[str], intrinsics: Intrinsics | None, report: Progress
) -> None:
    reader, options = pycolmap.ImageReaderOptions(), pycolmap.FeatureExtractionOptions()
    if intrinsics is not None:
        reader.camera_model = intrinsics.model
        reader.camera_params = ", ".join(repr(float(x)) for x in intrinsics.params)
        _check_size(pycolmap, folder / names[0], intrinsics)
    if _count(database, "keypoints") < len(names):
        _watched(
            pycolmap, database,
            lambda: pycolmap.extract_features(
                database, folder, image_names=names, camera_mode=pycolmap.CameraMode.SINGLE, reader_options=reader,
                extraction_options=options, device=pycolmap.Device.cpu,
            ),
            lambda watched: report("features", watched.num_images(), len(names)),
        )  # fmt: skip
    report("features", len(names), len(names))


def _match(pycolmap: Any, database: Path, n: int, calibrate: bool, report: Progress) -> None:
    total = n * (n - 1) // 2
    options = pycolmap.FeatureMatchingOptions()
    options.skip_geometric_verification = not calibrate
    if _count(database, "matches") < total:
        _watched(
            pycolmap, database,
            lambda: pycolmap.match_exhaustive(database, matching_options=options, device=pycolmap.Device.cpu),
            lambda watched: report("matching", watched.num_matched_image_pairs(), total),
        )  # fmt: skip
    report("matching", total, total)


def _calibrate(pycolmap: Any, database: Path) -> str:
    """Find the focal length from the pairs, once, and say what is taken for the camera."""
    about = database.with_name(f"{database.name}.focal.json")  # the database keeps only what was found
    now, from_exif = _focal_length(database)
    known = _read_focal(about)
    if known.get("found") != now:
        if not pycolmap.calibrate_view_graph(database, pycolmap.ViewGraphCalibrationOptions(random_seed=0)):
            raise TemposeError("the focal length cannot be found from these pairs; give the calibration (--intrinsics)")
        known = {"start": now, "from_exif": from_exif, "found": _focal_length(database)[0]}
        write_atomically(about, json.dumps(known).encode())
    before = f"{'EXIF says' if known['from_exif'] else 'the first guess was'} {known['start']:.0f}"
    return (
        f"no calibration is given: a focal length of {known['found']:.0f} px is found from the pairs ({before}), the principal "
        "point is taken to be the middle and the lens free of distortion; error bars take that as known to 0.5%, unless "
        "--calibration-error says otherwise; with --intrinsics the result is better"
    )


def _read_focal(about: Path) -> dict[str, Any]:
    """What an earlier run wrote of the focal length; nothing if it cannot be read, and it is found again."""
    try:
        known = json.loads(about.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) and {"start", "from_exif", "found"} <= known.keys() else {}


def _focal_length(database: Path) -> tuple[float, bool]:
    """Focal length of the (one) camera of a database, pixels, and whether it comes from EXIF."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        params, known = connection.execute("SELECT params, prior_focal_length FROM cameras").fetchone()
    return float(np.frombuffer(params)[0]), bool(known)


def _check_same(database: Path, names: list[str], intrinsics: Intrinsics | None) -> None:
    """A database that is there already must be of the same photographs and the same calibration."""
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            images = {name for (name,) in connection.execute("SELECT name FROM images")}
            cameras = [np.frombuffer(data) for (data,) in connection.execute("SELECT params FROM cameras")]
            matched, verified = (
                connection.execute(f"SELECT EXISTS(SELECT 1 FROM {table})").fetchone()[0]
                for table in ("matches", "two_view_geometries")
            )
    except sqlite3.Error as error:
        raise TemposeError(
            f"{database}: the features of an earlier run cannot be read ({error}); delete the file, or use --overwrite"
        ) from None
    other = None
    if not images <= set(names):
        other = "other photographs"
    elif intrinsics is None and matched and not verified:  # pairs are verified only to find the focal length
        other = "a calibration that is not given now"
    elif intrinsics is not None and not all(np.array_equal(params, intrinsics.params) for params in cameras):
        other = "another calibration"
    if other is not None:
        raise TemposeError(f"{database} was made with {other}; give another directory to -o, or use --overwrite")


def _check_size(pycolmap: Any, image: Path, intrinsics: Intrinsics) -> None:
    """A principal point outside the image is a calibration of another size."""
    bitmap = pycolmap.Bitmap.read(image, True)
    cx, cy = intrinsics.K[:2, 2]
    if not (0.25 * bitmap.width < cx < 0.75 * bitmap.width and 0.25 * bitmap.height < cy < 0.75 * bitmap.height):
        raise OptionError(
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
        raise TemposeError(f"COLMAP failed: {str(failure[0]).splitlines()[0]}") from failure[0]


def _count(database: Path, table: str) -> int:
    """Rows of a table of a database that nobody has open."""
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=1.0)) as connection:
            return int(connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
    except sqlite3.Error:
        return 0


def read_intrinsics(path: str | Path) -> Intrinsics:
    """A camera from a file: nine numbers of ``K``, or a line of COLMAP's ``cameras.txt``.

    ``K`` is taken to count whole numbers at pixel centres, as most calibrations do; COLMAP counts .5 there, and so
    its principal point is larger by .5.
    """
    path = Path(path)
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise ParseError(path, None, f"cannot be read ({error})") from None
    if lines and len(lines[0]) > 4 and not _is_number(lines[0][1]):
        try:
            params = np.array([float(x) for x in lines[0][4:]])
            return Intrinsics(lines[0][1], int(lines[0][2]), int(lines[0][3]), params)
        except ValueError:
            raise ParseError(
                path, 1, "expected CAMERA_ID MODEL WIDTH HEIGHT PARAMS…, as in COLMAP's cameras.txt"
            ) from None
    words = [word for line in lines for word in line]
    if len(words) != 9 or not all(map(_is_number, words)):
        raise ParseError(path, None, "expected the nine numbers of K, or a line of COLMAP's cameras.txt")
    K = np.array([float(x) for x in words]).reshape(3, 3)
    if K[0, 1] or np.any(K[2] != [0.0, 0.0, 1.0]) or not (K[0, 0] > 0.0 and K[1, 1] > 0.0):
        raise ParseError(path, None, "K must have positive focal lengths, no skew and a last row 0 0 1")
    return Intrinsics("PINHOLE", 0, 0, np.array([K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5]))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
