"""Photographs of a folder: their sizes, what EXIF says of them, and which of them one camera took.

Two photographs share intrinsics if make, model, serial number, lens, focal length and digital zoom agree, and the size. Those
without EXIF share them with all others of their size that have none. How a photograph is to be turned for display does not matter,
since pixels are used as the sensor read them; one that was turned in the file has its sides swapped, and is of a camera of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempose.errors import ArgumentError, OptionError
from tempose.io.exif import Exif, read_exif

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp")
SHARING = ("auto", "single", "each")
"""Which photographs share intrinsics: by EXIF and size, all, or none."""
SAME_FOCAL = 0.01
"""Focal lengths that differ by less than this, relatively, are one setting of a zoom: cameras note how they focused, too."""


@dataclass(frozen=True)
class Photograph:
    """A photograph that can be read.

    Attributes
    ----------
    name
        Of the file.
    size
        Width and height, pixels.
    exif
        What the camera wrote, if anything.
    focal_px
        Focal length that EXIF says, pixels.
    """

    name: str
    size: tuple[int, int]
    exif: Exif | None = None
    focal_px: float | None = None


@dataclass(frozen=True)
class OneCamera:
    """Photographs that share intrinsics.

    Attributes
    ----------
    label
        Camera, focal length and size, for people.
    names
        Of its photographs.
    size
        Width and height, pixels.
    focal_px
        The median of what EXIF says, pixels, if it does.
    by_exif
        Whether EXIF says that one camera took them; else only their size does, or the user.
    """

    label: str
    names: tuple[str, ...]
    size: tuple[int, int]
    focal_px: float | None
    by_exif: bool


def find_images(folder: Path) -> list[str]:
    """Names of the images in a folder, in order."""
    names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    if len(names) < 2:
        found = f"there is one image ({names[0]})" if names else "there are no images"
        raise ArgumentError(f"{folder}: {found} here; give a folder with at least two ({', '.join(SUFFIXES)})")
    return names


def read_photographs(pycolmap: Any, folder: Path, names: Iterable[str]) -> list[Photograph]:
    """Those that can be read."""
    found = []
    for name in names:
        bitmap = pycolmap.Bitmap.read(folder / name, True)
        if bitmap is not None:
            found.append(
                Photograph(name, (bitmap.width, bitmap.height), read_exif(folder / name), bitmap.exif_focal_length())
            )
    return found


def cameras_of(photographs: list[Photograph], sharing: str = "auto") -> list[OneCamera]:
    """Which camera took which photographs.

    Parameters
    ----------
    photographs
        All of them.
    sharing
        One of :data:`SHARING`.
    """
    if sharing not in SHARING:
        raise OptionError(f"unknown cameras {sharing!r}: choose one of {', '.join(SHARING)}")
    if sharing == "each":
        return [_camera([one], by_exif=False) for one in photographs]
    if sharing == "single":
        sizes = sorted({one.size for one in photographs})
        if len(sizes) > 1:
            first, second = (f"{width}×{height}" for width, height in sizes[:2])
            raise ArgumentError(
                f"photographs of {len(sizes)} sizes ({first}, {second}, …) have no intrinsics in common; use --cameras auto"
            )
        return [_camera(photographs, by_exif=False)]
    kinds: dict[tuple[object, ...], list[Photograph]] = {}
    for one in photographs:
        kinds.setdefault(_kind(one), []).append(one)
    return [_camera(group, by_exif=kind[0] != "") for kind, some in kinds.items() for group in _by_focal_length(some)]


def _kind(one: Photograph) -> tuple[object, ...]:
    """What photographs of one camera have in common, besides the focal length."""
    e = one.exif
    if e is None or not (e.make or e.model):
        return ("", one.size)
    return (f"{e.make} {e.model}", e.serial, e.lens, e.focal_35mm, e.digital_zoom or 1.0, one.size)


def _by_focal_length(photographs: list[Photograph]) -> list[list[Photograph]]:
    """Groups of one focal length, in its order; those that do not say it are a group."""
    groups: list[list[Photograph]] = []
    least = 0.0
    for one in sorted(photographs, key=_focal):
        if not groups or _focal(one) > (1.0 + SAME_FOCAL) * least:
            groups.append([])
            least = _focal(one)
        groups[-1].append(one)
    return groups


def _focal(one: Photograph) -> float:
    """What EXIF says to tell focal lengths apart; 0 if nothing."""
    e = one.exif
    return 0.0 if e is None else e.focal_mm or 0.0


def _camera(group: list[Photograph], by_exif: bool) -> OneCamera:
    known = sorted(one.focal_px for one in group if one.focal_px is not None)
    width, height = group[0].size
    parts = [f"{width}×{height}"]
    e = group[0].exif
    if by_exif and e is not None:
        parts = [e.camera, *([f"{e.focal_mm:g} mm"] if e.focal_mm else []), *parts]
    names = tuple(sorted(one.name for one in group))
    return OneCamera(", ".join(parts), names, group[0].size, known[len(known) // 2] if known else None, by_exif)
