"""Database → models: COLMAP's mappers with the intrinsics refined, in a process of their own, one thread each, the same every time.

The database is copied, and only the copy is written to. In it pairs are verified (anew for photographs; those of a user's
database that has verified pairs are kept), and focal lengths that nobody knows are found from the pairs, as a start.

*incremental* is COLMAP's incremental mapper, *global* is GLOMAP. *auto* takes the incremental one, and asks the global one as well
where that leaves photographs out; of the two it keeps the one with more photographs, then the one with more image points.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tempose._support.packages import require
from tempose._support.parallel import in_own_process
from tempose._support.progress import Progress, ProgressHook, silent
from tempose.errors import Interrupted, OptionError
from tempose.sfm.adjustment.problem import GROUPS, USUAL
from tempose.sfm.features import undo_unlikely

MAPPERS = ("auto", "incremental", "global")
_FEWEST = 3  # photographs of a model, unless there are only two
_LEAST_FOCAL, _MOST_FOCAL = 0.1, 10.0  # of the larger side: as COLMAP's mapper has it while it works
_ONE_HOMOGRAPHY = ("PLANAR", "PANORAMIC", "PLANAR_OR_PANORAMIC")  # COLMAP's names of pairs that one explains


@dataclass(frozen=True)
class MappingOptions:
    """How models are made.

    Parameters
    ----------
    mapper
        Of :data:`MAPPERS`.
    refined
        Groups of intrinsics to estimate; the others stay as the database has them.
    verify
        Verify all pairs anew; else only if none of the database is.
    separate
        A camera for each photograph, whatever the database shares.
    seed
        Same seed, same result.
    """

    mapper: str = "auto"
    refined: tuple[str, ...] = USUAL
    verify: bool = False
    separate: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.mapper not in MAPPERS:
            raise OptionError(f"unknown mapper {self.mapper!r}: choose one of {', '.join(MAPPERS)}")
        unknown = [name for name in self.refined if name not in GROUPS]
        if unknown:
            raise OptionError(f"{unknown[0]!r} is no group of intrinsics; choose of {', '.join(GROUPS)}, or none")


class KnownCamera(NamedTuple):
    """What a database says of a camera: photographs by it, its focal length in pixels, and whether that is more than a guess."""

    n_photographs: int
    focal_px: float
    has_prior: bool


@dataclass(frozen=True, eq=False)
class Mapped:
    """Models of a database.

    Attributes
    ----------
    mapper
        That made them.
    folders
        Of the models, the one with most photographs first.
    names
        Photographs of the database.
    registered
        Names of the photographs in each model.
    n_pairs, n_homography
        Pairs that were verified, and those of them that a homography explains: a plane, or a camera that only turned.
    cameras
        Of the database, by number, before any was adjusted.
    linked
        Names of photographs that verified pairs link, directly or by others: what none links is another scene.
    separate
        Whether each photograph has a camera of its own, though the database shares them.
    """

    mapper: str
    folders: tuple[Path, ...]
    names: tuple[str, ...]
    registered: tuple[frozenset[str], ...]
    n_pairs: int
    n_homography: int
    cameras: dict[int, KnownCamera]
    linked: tuple[frozenset[str], ...]
    separate: bool = False

    @property
    def largest(self) -> frozenset[str]:
        """Photographs of the largest model."""
        return self.registered[0] if self.registered else frozenset()

    @property
    def mostly_one_homography(self) -> bool:
        """Whether most pairs are explained by one, of a plane or of a camera that only turned: focal lengths hardly show then."""
        return 2 * self.n_homography > self.n_pairs

    @property
    def shares_cameras(self) -> bool:
        """Whether photographs share a camera in the database."""
        return any(camera.n_photographs > 1 for camera in self.cameras.values())

    @property
    def mostly_alone(self) -> bool:
        """Whether most photographs are the only one by their camera."""
        alone = sum(camera.n_photographs == 1 for camera in self.cameras.values())
        return 2 * alone > len(self.names)

    @property
    def is_scattered(self) -> bool:
        """Whether a tenth of the photographs, and more than one, are not in the largest model of those they are linked with."""
        away = sum(len(part) - most_of(part, self.registered) for part in self.linked)
        return away > 1 and 10 * away >= len(self.names)

    @property
    def lost(self) -> list[str]:
        """Photographs that are in no model."""
        return [name for name in self.names if not any(name in part for part in self.registered)]


def map_database(
    database: Path, scratch: Path, options: MappingOptions | None = None, progress: ProgressHook = silent
) -> Mapped:
    """Models of a database, by pycolmap; written to a folder for scratch."""
    options = options or MappingOptions()
    require("pycolmap", "making a model")
    progress(Progress("mapping", 0, 1))
    copy = scratch / "mapping.db"
    about = prepare(database, copy, options)
    kinds = ("incremental",) if options.mapper == "auto" else (options.mapper,)
    found = {kind: _models(_Task(kind, copy, scratch / kind, options)) for kind in kinds}
    registered = [one.names for one in found.get("incremental", ())]
    if options.mapper == "auto" and any(
        most_of(part, registered) < len(part) for part in about.linked if len(part) > 1
    ):
        found["global"] = _models(_Task("global", copy, scratch / "global", options))
    kind = max(
        found, key=lambda name: max(((len(one.names), one.n_observations) for one in found[name]), default=(0, 0))
    )
    models = apart(found[kind])
    progress(Progress("mapping", 1, 1))
    return Mapped(
        kind,
        tuple(one.folder for one in models),
        about.names,
        tuple(one.names for one in models),
        about.n_pairs,
        about.n_homography,
        about.cameras,
        about.linked,
    )


def most_of(part: frozenset[str], models: Iterable[frozenset[str]]) -> int:
    """How many of some photographs are in one model, at most."""
    return max((len(part & one) for one in models), default=0)


def linked(names: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Names that pairs link, directly or by others; in order, those that nothing links by themselves."""
    group = {name: {name} for name in names}
    for a, b in pairs:
        if group[a] is not group[b]:
            small, large = sorted((group[a], group[b]), key=len)
            large |= small
            for name in small:
                group[name] = large
    return sorted({id(one): sorted(one) for one in group.values()}.values())


def prepare(database: Path, copy: Path, options: MappingOptions) -> About:
    """A copy of a database that a mapper can start from: pairs verified, a focal length for every camera."""
    shutil.copyfile(database, copy)
    for beside in ("-wal", "-shm"):  # what SQLite has not put into the file itself yet
        if database.with_name(database.name + beside).exists():
            shutil.copyfile(database.with_name(database.name + beside), copy.with_name(copy.name + beside))
    made = _in_own_process(_Task("prepare", copy, copy.parent, options))
    cameras = {int(number): KnownCamera(*camera) for number, camera in made["cameras"].items()}
    parts = tuple(map(frozenset, made["linked"]))
    return About(tuple(made["names"]), made["n_pairs"], made["n_homography"], cameras, parts)


class About(NamedTuple):
    """What is in a database: see :class:`Mapped`."""

    names: tuple[str, ...]
    n_pairs: int
    n_homography: int
    cameras: dict[int, KnownCamera]
    linked: tuple[frozenset[str], ...]


class MappedModel(NamedTuple):
    """One model of a mapper, on disk."""

    folder: Path
    names: frozenset[str]
    n_observations: int


def apart(models: Sequence[MappedModel]) -> list[MappedModel]:
    """Largest first, without those that have half of their photographs, or more, in larger ones."""
    out: list[MappedModel] = []
    for one in sorted(models, key=lambda model: (-len(model.names), -model.n_observations, str(model.folder))):
        taken = frozenset().union(*(other.names for other in out))
        if 2 * len(one.names & taken) < len(one.names):
            out.append(one)
    return out


# ---------------------------------------------------------------------- in a process of its own


class _Task(NamedTuple):
    kind: str
    database: Path
    home: Path
    options: MappingOptions


def _in_own_process(task: _Task) -> Any:
    """Mappers are native code with threads of their own: what goes wrong in them ends another process than this one."""
    plain = {"kind": task.kind, "database": str(task.database), "home": str(task.home), "options": asdict(task.options)}
    try:
        return in_own_process("tempose.sfm.mapping:work", plain)
    except Interrupted as error:
        raise Interrupted(
            f"COLMAP's mapper died, perhaps for lack of memory ({error}); smaller or fewer photographs need less, and "
            "--posterior graph does without it"
        ) from None


def _models(task: _Task) -> list[MappedModel]:
    made = _in_own_process(task)
    return [MappedModel(Path(one["folder"]), frozenset(one["names"]), one["n_observations"]) for one in made]


def work(task: dict[str, Any]) -> Any:
    """What the process of its own does: prepare a database, or map it."""
    settings = {**task["options"], "refined": tuple(task["options"]["refined"])}
    here = _Task(task["kind"], Path(task["database"]), Path(task["home"]), MappingOptions(**settings))
    pycolmap = require("pycolmap", "making a model")
    pycolmap.logging.minloglevel = 3  # what goes wrong is told by what is not there afterwards
    pycolmap.set_random_seed(here.options.seed)
    return _prepare(pycolmap, here) if here.kind == "prepare" else _map(pycolmap, here)


def _prepare(pycolmap: Any, task: _Task) -> dict[str, Any]:
    """Cameras that can express what is to be estimated, verified pairs, and focal lengths to start from."""
    options = task.options
    with pycolmap.Database.open(task.database) as database:
        if options.separate:
            _separate(database)
        if "distortion" in options.refined:
            for camera in database.read_all_cameras():
                if bendable(camera):
                    database.update_camera(camera)
        cameras = {one.camera_id: one for one in database.read_all_cameras()}
        images = database.read_all_images()
        verified = database.num_verified_image_pairs()
        if options.verify or options.separate:
            database.clear_two_view_geometries()
            verified = 0
    if not verified:
        geometry = pycolmap.TwoViewGeometryOptions()
        geometry.ransac.random_seed = options.seed
        pycolmap.geometric_verification(task.database, two_view_geometry_options=geometry)
    if "focal" in options.refined and not all(camera.has_prior_focal_length for camera in cameras.values()):
        pycolmap.calibrate_view_graph(task.database, pycolmap.ViewGraphCalibrationOptions(random_seed=options.seed))
        begun = [(camera.mean_focal_length(), camera.has_prior_focal_length) for camera in cameras.values()]
        undo_unlikely(pycolmap, task.database, begun)
    with pycolmap.Database.open(task.database) as database:
        ids, geometries = database.read_two_view_geometries()
    name = {image.image_id: image.name for image in images}
    ends = [pycolmap.pair_id_to_image_pair(one) for one in ids]
    enough = pycolmap.IncrementalPipelineOptions().min_num_matches
    used = [
        (name[a], name[b]) for (a, b), one in zip(ends, geometries, strict=True) if len(one.inlier_matches) >= enough
    ]
    kinds = Counter(pycolmap.TwoViewGeometryConfiguration(one.config).name for one in geometries)
    count = Counter(image.camera_id for image in images)
    return {
        "names": sorted(image.name for image in images),
        "n_pairs": sum(n for kind, n in kinds.items() if kind not in ("UNDEFINED", "DEGENERATE")),
        "n_homography": sum(kinds[kind] for kind in _ONE_HOMOGRAPHY),
        "linked": linked(sorted(name.values()), used),
        "cameras": {
            str(number): [count[number], float(camera.mean_focal_length()), bool(camera.has_prior_focal_length)]
            for number, camera in cameras.items()
        },
    }


def bendable(camera: Any) -> bool:
    """Give a camera without distortion a coefficient of it; whether it had none."""
    name = camera.model.name
    if name not in ("SIMPLE_PINHOLE", "PINHOLE"):
        return False
    kind = type(camera.model)
    params = np.array(camera.params)
    if name == "PINHOLE" and params[0] != params[1]:
        camera.model, camera.params = kind.OPENCV, [*params, 0.0, 0.0, 0.0, 0.0]
    else:
        camera.model, camera.params = kind.SIMPLE_RADIAL, [params[0], *params[-2:], 0.0]
    return True


def _separate(database: Any) -> None:
    """Every photograph but the first of each camera gets a camera of its own, which begins as the one it had."""
    pycolmap = require("pycolmap", "making a model")
    # frames and rigs go with the cameras, and would not let them change: without them COLMAP makes one of each photograph
    database.clear_frames()
    database.clear_rigs()
    cameras = {camera.camera_id: camera for camera in database.read_all_cameras()}
    had = set()
    for image in sorted(database.read_all_images(), key=lambda one: str(one.name)):
        if image.camera_id not in had:
            had.add(image.camera_id)
            continue
        camera = cameras[image.camera_id]
        own = pycolmap.Camera(
            model=camera.model.name, width=camera.width, height=camera.height, params=list(camera.params)
        )
        own.has_prior_focal_length = False
        image.camera_id = database.write_camera(own)
        database.update_image(image)


def _map(pycolmap: Any, task: _Task) -> list[dict[str, Any]]:
    task.home.mkdir(parents=True, exist_ok=True)
    with pycolmap.Database.open(task.database) as database:
        count = database.num_images()
    smallest = min(_FEWEST, count)
    run = _incremental if task.kind == "incremental" else _global
    models = run(pycolmap, task, smallest)
    out = []
    for number in sorted(models):
        model = models[number]
        drop_impossible(model)
        if model.num_reg_images() < smallest:
            continue
        folder = task.home / f"model-{number}"
        folder.mkdir()
        model.write_binary(folder)
        names = sorted(image.name for image in model.images.values() if image.has_pose)
        out.append({"folder": str(folder), "names": names, "n_observations": int(model.compute_num_observations())})
    return out


def drop_impossible(model: Any) -> None:
    """Take photographs out whose camera has come to see backwards, or hardly sees at all: a mapper may leave them in."""
    for camera in model.cameras.values():
        side = max(camera.width, camera.height)
        if _LEAST_FOCAL * side < camera.mean_focal_length() < _MOST_FOCAL * side and np.all(np.isfinite(camera.params)):
            continue
        for image in [one for one in model.images.values() if one.camera_id == camera.camera_id and one.has_pose]:
            model.deregister_frame(image.frame_id)
        guessed = np.zeros(len(camera.params))
        guessed[list(camera.focal_length_idxs())] = 1.2 * side
        guessed[list(camera.principal_point_idxs())] = 0.5 * camera.width, 0.5 * camera.height
        camera.params = guessed


def _incremental(pycolmap: Any, task: _Task, smallest: int) -> Any:
    refined = task.options.refined
    options = pycolmap.IncrementalPipelineOptions(
        min_model_size=smallest, random_seed=task.options.seed, num_threads=1, extract_colors=False
    )
    options.ba_refine_focal_length = "focal" in refined
    options.ba_refine_principal_point = False  # found, if at all, when all photographs have a place
    options.ba_refine_extra_params = "distortion" in refined
    options.ba_refine_sensor_from_rig = False
    options.mapper.abs_pose_refine_focal_length = "focal" in refined
    options.mapper.abs_pose_refine_extra_params = "distortion" in refined
    options.triangulation.ignore_two_view_tracks = smallest == _FEWEST
    return pycolmap.incremental_mapping(task.database, task.home, task.home, options)


def _global(pycolmap: Any, task: _Task, smallest: int) -> Any:
    refined = task.options.refined
    options = pycolmap.GlobalPipelineOptions(min_model_size=smallest, random_seed=task.options.seed, num_threads=1)
    adjustment = options.mapper.bundle_adjustment
    adjustment.refine_focal_length = "focal" in refined
    adjustment.refine_extra_params = "distortion" in refined
    return pycolmap.global_mapping(task.database, task.home, task.home, options)
