"""Photographs → COLMAP database: cameras by EXIF, features and matches on the CPU, by pycolmap.

A database that is there already is gone on with: only photographs and pairs that it does not have are worked on.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from tempose._support.files import make_directory, write_atomically
from tempose._support.memory import total_memory
from tempose._support.packages import require
from tempose._support.parallel import cores, work_off
from tempose._support.progress import Progress, ProgressHook, silent
from tempose._typing import Array
from tempose.errors import ArgumentError, FileError, Interrupted, NotApplicable, OptionError, ParseError
from tempose.io.colmap.cameras import ColmapCamera
from tempose.io.colmap.database import contents, focal_lengths, in_one_file, write_pair_rows
from tempose.sfm.matching import PAIRS_A_BLOCK, PairBlock, as_word, match_block, match_listed, rename
from tempose.sfm.pairing import PAIRINGS, Pairing, choose_pairs
from tempose.sfm.photographs import SHARING, OneCamera, Photograph, cameras_of, find_images, read_photographs
from tempose.sfm.retrieval import similarity
from tempose.sfm.views import (
    ChosenPairs,
    FoundFocalLength,
    FoundFocalLengths,
    OtherSize,
    Remark,
    SharedCameras,
    UnreadableImage,
)

_POLL_SECONDS = 0.5
_GUESSED_FOCAL = 1.2  # COLMAP's, of the larger side
_LIKELY_FOCAL = 0.4, 4.0  # of the larger side: lenses of 14 to 144 mm on film
_BYTES_PER_PIXEL = 290.0  # that SIFT takes: 3.6 GB were measured for two threads with 2832×2128 pixels each
_LEAST_BYTES, _SHARE = 2e9, 0.125  # what SIFT may take: an eighth of the machine's memory, and this much on any
# chosen on: four photographs of castle-P30, enlarged to 2832×2128
DOUBLED_PIXELS = 3e6
"""Larger photographs are not doubled in size before features are looked for: those that are kept, the coarsest, are nearly the
same (98.8% as many), found in half the time and with less than a third of the memory."""


@dataclass(frozen=True)
class FeatureOptions:
    """From photographs to a database.

    Parameters
    ----------
    cameras
        Which photographs share intrinsics: ``auto`` (by EXIF and size), ``single`` or ``each``.
    pairs
        Which pairs are matched: ``auto`` (all of few, similar ones of many), ``all``, ``similar``, ``sequence`` or ``gps``.
    features
        At most so many in a photograph.
    image_size
        Photographs whose larger side has more pixels are shrunk to it for finding features.
    """

    cameras: str = "auto"
    pairs: str = "auto"
    features: int = 8192
    image_size: int = 3200

    def __post_init__(self) -> None:
        for what, value, known in (("cameras", self.cameras, SHARING), ("pairs", self.pairs, PAIRINGS)):
            if value not in known:
                raise OptionError(f"unknown {what} {value!r}: choose one of {', '.join(known)}")
        if self.features < 100:
            raise OptionError(f"{self.features} features in a photograph are too few to match; 100 at least")
        if self.image_size < 200:
            raise OptionError(f"a photograph of {self.image_size} pixels is too small; 200 at least")


def build_database(
    folder: str | Path,
    database: str | Path,
    camera: ColmapCamera | None = None,
    progress: ProgressHook = silent,
    options: FeatureOptions | None = None,
    *,
    begin_anywhere: bool = False,
    executor: Executor | None = None,
) -> list[Remark]:
    """Extract and match the features of the images of a folder; what was done before in the same database stays.

    Parameters
    ----------
    folder
        Of the photographs.
    database
        File to write.
    camera
        That took them all; ``None`` finds out by EXIF and size which cameras there are, starts from their EXIF focal lengths,
        or a guess, and calibrates the focal lengths from the pairs.
    progress
        Told of features and of matching.
    options
        See :class:`FeatureOptions`.
    begin_anywhere
        Focal lengths that the pairs do not tell stay what they are guessed to be, to be estimated later; else that is refused.
    executor
        Where pairs are matched instead: any pool of the standard library, or the workers of a cluster, which see the database.

    Returns
    -------
    list of Remark
        Every image that cannot be used, which photographs share intrinsics, and the focal lengths that had to be found.
    """
    folder, database = Path(folder), Path(database)
    options = options or FeatureOptions()
    pycolmap = require("pycolmap", "reading photographs")
    pycolmap.logging.minloglevel = 3  # what goes wrong is found in the database, and said in one line
    names = find_images(folder)
    photographs, remarks = _usable(pycolmap, folder, names, camera)
    if camera is None:
        cameras = cameras_of(photographs, options.cameras)
        remarks.append(SharedCameras(tuple(cameras), options.cameras))
    else:
        _check_size(photographs[0], camera)
        cameras = cameras_of(photographs, "single")
    _check_same(database, photographs, camera, cameras, options)
    make_directory(database.parent)
    write_atomically(_about(database), json.dumps(_recorded(options)).encode())
    _register(pycolmap, database, cameras, camera)
    _extract(pycolmap, folder, database, photographs, options, progress)
    pairs = _pairs(pycolmap, database, photographs, options, progress)
    total = len(photographs) * (len(photographs) - 1) // 2
    if len(pairs) < total:
        remarks.append(ChosenPairs(len(pairs), total, options.pairs))
    _match(pycolmap, database, photographs, pairs, camera is None, progress, executor)
    if camera is None:
        found = _calibrate(pycolmap, database, begin_anywhere)
        remarks.append(found[0] if len(found) == 1 else FoundFocalLengths(tuple(found)))
    in_one_file(database)
    return remarks


def _usable(
    pycolmap: Any, folder: Path, names: list[str], camera: ColmapCamera | None
) -> tuple[list[Photograph], list[Remark]]:
    """The photographs that can be used, and a remark for each of the others: one calibration is for one size."""
    found = read_photographs(pycolmap, folder, names)
    if len(found) < 2:
        raise ParseError(folder, None, f"{len(found)} of {len(names)} images can be read; at least two are needed")
    read = {one.name for one in found}
    remarks: list[Remark] = [UnreadableImage(name) for name in names if name not in read]
    if camera is None:
        return found, remarks
    usual, _ = Counter(one.size for one in found).most_common(1)[0]
    remarks += [OtherSize(one.name, one.size, usual) for one in found if one.size != usual]
    good = [one for one in found if one.size == usual]
    if len(good) < 2:
        raise ArgumentError(f"{folder}: no two images have the same size; one calibration cannot be that of all")
    return good, remarks


def _register(pycolmap: Any, database: Path, cameras: list[OneCamera], given: ColmapCamera | None) -> None:
    """Write cameras and images that are not there yet, all or none, so that COLMAP takes the cameras that were found here."""
    with pycolmap.Database.open(database) as db, pycolmap.DatabaseTransaction(db):
        there = {image.name: image.camera_id for image in db.read_all_images()}
        rigs = {one.ref_sensor_id.id: one.rig_id for one in db.read_all_rigs()}
        for one in cameras:
            new = [name for name in one.names if name not in there]
            if not new:
                continue
            known = [there[name] for name in one.names if name in there]
            number = known[0] if known else _write_camera(pycolmap, db, one, given, rigs)
            for name in new:
                image = pycolmap.Image(name=name, camera_id=number)
                image.image_id = db.write_image(image)
                frame = pycolmap.Frame()
                frame.rig_id = rigs[number]
                frame.add_data_id(image.data_id)
                db.write_frame(frame)


def _write_camera(pycolmap: Any, db: Any, one: OneCamera, given: ColmapCamera | None, rigs: dict[int, int]) -> int:
    if given is None:
        focal_px = one.focal_px or _GUESSED_FOCAL * max(one.size)
        camera = pycolmap.Camera.create_from_model_name(0, "SIMPLE_RADIAL", focal_px, *one.size)
        camera.has_prior_focal_length = one.focal_px is not None
    else:
        camera = pycolmap.Camera(model=given.model, width=one.size[0], height=one.size[1], params=given.params)
        camera.has_prior_focal_length = True
    camera.camera_id = db.write_camera(camera)
    rig = pycolmap.Rig()
    rig.add_ref_sensor(camera.sensor_id)
    rigs[camera.camera_id] = db.write_rig(rig)
    return int(camera.camera_id)


def _extract(
    pycolmap: Any,
    folder: Path,
    database: Path,
    photographs: list[Photograph],
    options: FeatureOptions,
    progress: ProgressHook,
) -> None:
    names = [one.name for one in photographs]
    with pycolmap.Database.open(database) as db:
        images = {image.name: image.image_id for image in db.read_all_images()}
        todo = [name for name in names if not db.exists_descriptors(images[name])]
    size = {one.name: one.size for one in photographs}
    settings = pycolmap.FeatureExtractionOptions()
    settings.max_image_size, settings.sift.max_num_features = options.image_size, options.features

    def look(watched: Any) -> None:
        done = sum(watched.exists_descriptors(images[name]) for name in todo)
        progress(Progress("features", len(names) - len(todo) + done, len(names)))

    for doubled in (True, False):
        part = [name for name in todo if (_pixels(size[name], options.image_size) <= DOUBLED_PIXELS) == doubled]
        if part:
            settings.sift.first_octave = -1 if doubled else 0
            settings.num_threads = extraction_threads([size[name] for name in part], options.image_size, cores())
            _watched(
                pycolmap,
                database,
                lambda: pycolmap.extract_features(
                    database,
                    folder,
                    image_names=part,  # noqa: B023 (it is called before the next turn)
                    extraction_options=settings,
                    device=pycolmap.Device.cpu,
                ),
                look,
            )
    progress(Progress("features", len(names), len(names)))


def _pixels(size: tuple[int, int], image_size: int) -> float:
    """Pixels of a photograph as features are looked for in it."""
    return size[0] * size[1] * min(1.0, image_size / max(size)) ** 2


def extraction_threads(sizes: list[tuple[int, int]], image_size: int, most: int, memory: float | None = None) -> int:
    """How many photographs to work on at once, so that SIFT takes no more than its part of the memory (bytes)."""
    largest = max(_pixels(size, image_size) for size in sizes)
    each = _BYTES_PER_PIXEL * largest * (1.0 if largest <= DOUBLED_PIXELS else 0.25)
    allowed = max(_LEAST_BYTES, _SHARE * (total_memory() if memory is None else memory))
    return max(1, min(most, len(sizes), int(allowed / each)))


def _pairs(
    pycolmap: Any, database: Path, photographs: list[Photograph], options: FeatureOptions, progress: ProgressHook
) -> Pairing:
    """Pairs (rows of photographs) to match."""

    def alike() -> Array:
        with pycolmap.Database.open(database) as db:
            images = {image.name: image.image_id for image in db.read_all_images()}
            numbers = [images[one.name] for one in photographs]
            asked = iter(range(2 * len(numbers)))

            def descriptors(row: int) -> Any:
                progress(Progress("similarity", next(asked), 2 * len(numbers)))
                return db.read_descriptors(numbers[row]).data

            found = similarity(descriptors, len(numbers))
        progress(Progress("similarity", 2 * len(numbers), 2 * len(numbers)))
        return found

    return choose_pairs(options.pairs, photographs, alike)


def _match(
    pycolmap: Any,
    database: Path,
    photographs: list[Photograph],
    pairs: Pairing,
    verify: bool,
    progress: ProgressHook,
    executor: Executor | None,
) -> None:
    """Match the pairs that have not been."""
    with pycolmap.Database.open(database) as db:
        images = {image.name: image.image_id for image in db.read_all_images()}
        numbers = [images[one.name] for one in photographs]
        todo = [pair for pair in sorted(pairs) if not db.exists_matches(*(numbers[k] for k in pair))]
        before = db.num_matched_image_pairs()
    named = [(photographs[i].name, photographs[j].name) for i, j in todo]
    skipped = len(pairs) - len(todo)
    if executor is not None:
        in_one_file(database)
        parts = (named[k : k + PAIRS_A_BLOCK] for k in range(0, len(named), PAIRS_A_BLOCK))
        tasks = [PairBlock(str(database.resolve()), tuple(part), verify) for part in parts]
        done = skipped
        for block, rows in work_off(match_block, tasks, executor=executor):
            write_pair_rows(database, rows)
            done += len(block.pairs)
            progress(Progress("matching", done, len(pairs)))
    elif named:

        def look(watched: Any) -> None:
            done = watched.num_matched_image_pairs() - before
            progress(Progress("matching", skipped + done, len(pairs)))

        with (
            tempfile.TemporaryDirectory(dir=database.parent) as home,
            _nameable(pycolmap, database, Path(home)) as work,
        ):
            _watched(pycolmap, work, lambda: match_listed(pycolmap, work, Path(home), named, verify), look)
    progress(Progress("matching", len(pairs), len(pairs)))


@contextmanager
def _nameable(pycolmap: Any, database: Path, home: Path) -> Iterator[Path]:
    """The database; if names have spaces in them, a copy where they have none, which takes its place at the end."""
    with pycolmap.Database.open(database) as db:
        names = {image.name for image in db.read_all_images()}
    if all(as_word(name) == name for name in names):
        yield database
        return
    copy = home / "copy.db"
    shutil.copyfile(database, copy)
    rename(pycolmap, copy, {name: as_word(name) for name in names})
    yield copy
    rename(pycolmap, copy, {as_word(name): name for name in names})
    copy.replace(database)


# ---------------------------------------------------------------------- focal lengths


def _calibrate(pycolmap: Any, database: Path, begin_anywhere: bool = False) -> list[FoundFocalLength]:
    """Find the focal lengths from the pairs, once; if they cannot be, those to begin with, or an error."""
    about = database.with_name(f"{database.name}.focal.json")  # the database keeps only what was found
    now = focal_lengths(database)
    known = _read_focal(about)
    if [one["found"] for one in known] != [focal for focal, _ in now]:
        # nobody uses relative poses of this database: mappers verify its pairs again, the pose graph has its own
        settings = pycolmap.ViewGraphCalibrationOptions(random_seed=0, reestimate_relative_pose=False)
        if not pycolmap.calibrate_view_graph(database, settings):
            if begin_anywhere:
                return [FoundFocalLength(px, px, from_exif) for px, from_exif in now]
            raise NotApplicable(
                "the focal length cannot be found from these pairs; give the calibration (--intrinsics)"
            )
        # cameras that an earlier run had began elsewhere
        begun = [
            (old["start"], old["from_exif"]) if old and old["found"] == one[0] else one
            for old, one in zip_longest(known[: len(now)], now)
        ]
        undo_unlikely(pycolmap, database, begun)
        found = focal_lengths(database)
        known = [
            {"start": start, "from_exif": from_exif, "found": px}
            for (start, from_exif), (px, _) in zip(begun, found, strict=True)
        ]
        write_atomically(about, json.dumps(known).encode())
    return [FoundFocalLength(one["found"], one["start"], one["from_exif"]) for one in known]


def undo_unlikely(pycolmap: Any, database: Path, begun: list[tuple[float, bool]]) -> None:
    """Focal lengths that no common lens has are those of pairs that do not tell: the guess is better.

    ``begun`` has the focal length that each camera of the database began with, pixels, and whether that was known.
    """
    with pycolmap.Database.open(database) as db, pycolmap.DatabaseTransaction(db):
        for camera, (start, is_known) in zip(db.read_all_cameras(), begun, strict=True):
            shortest, longest = (share * max(camera.width, camera.height) for share in _LIKELY_FOCAL)
            if not is_known and not shortest < camera.mean_focal_length() < longest:
                params = np.array(camera.params)
                params[list(camera.focal_length_idxs())] = start
                camera.params, camera.has_prior_focal_length = params, False
                db.update_camera(camera)


def _read_focal(about: Path) -> list[dict[str, Any]]:
    """What an earlier run wrote of the focal lengths; nothing if it cannot be read, and they are found again."""
    try:
        known = json.loads(about.read_text())
    except (OSError, ValueError, RecursionError):
        return []
    return known if isinstance(known, list) and all(map(_is_focal, known)) else []


def _is_focal(one: object) -> bool:
    if not isinstance(one, dict) or not isinstance(one.get("from_exif"), bool):
        return False
    return all(isinstance(x, int | float) and 0.0 < x < math.inf for x in (one.get("start"), one.get("found")))


# ---------------------------------------------------------------------- what an earlier run has left


def _about(database: Path) -> Path:
    return database.with_name(f"{database.name}.made.json")


def _recorded(options: FeatureOptions) -> dict[str, int]:
    """What makes features other ones."""
    return {"features": options.features, "image_size": options.image_size}


def _check_same(
    database: Path,
    photographs: list[Photograph],
    camera: ColmapCamera | None,
    cameras: list[OneCamera],
    options: FeatureOptions,
) -> None:
    """A database that is there already must be of these photographs, or some, and made with the same cameras and settings."""
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
    if camera is not None and not all(np.array_equal(params, camera.params) for params in there.params):
        other = "another calibration"
    elif not set(there.camera_of) <= {one.name for one in photographs}:
        other = "other photographs"
    elif camera is None and there.matched and not there.verified:  # pairs are verified only to find the focal length
        other = "a calibration that is not given now"
    elif not _is_same_sharing(there.camera_of, cameras):
        other = "other cameras (--cameras)"
    elif there.camera_of and _made_with(database) not in ({}, _recorded(options)):
        other = " and ".join(f"--{name.replace('_', '-')} {value}" for name, value in _made_with(database).items())
    if other is not None:
        raise FileError(f"{database} was made with {other}; give another directory to -o, or use --overwrite")


def _made_with(database: Path) -> dict[str, Any]:
    """What an earlier run has recorded; nothing if it cannot be read."""
    try:
        found = json.loads(_about(database).read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_same_sharing(camera_of: dict[str, int], cameras: list[OneCamera]) -> bool:
    """Whether photographs share cameras there as they do here."""
    seen = [{camera_of[name] for name in one.names if name in camera_of} for one in cameras]
    return all(len(some) <= 1 for some in seen) and sum(map(len, seen)) == len(set(camera_of.values()))


def _check_size(image: Photograph, camera: ColmapCamera) -> None:
    """A principal point outside the image is a calibration of another size."""
    width, height = image.size
    cx, cy = camera.K[:2, 2]
    if not (0.25 * width < cx < 0.75 * width and 0.25 * height < cy < 0.75 * height):
        raise ArgumentError(
            f"the calibration's principal point ({cx:g}, {cy:g}) is not near the middle of {image.name} "
            f"({width}×{height}): is it for images of another size?"
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
