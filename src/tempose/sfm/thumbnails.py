"""Small pictures of the photographs, for the page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from tempose._support.packages import require

SIDE = 200
"""Pixels of the longer side."""
MOST = 300
"""Photographs that get one: the page stays below a few megabytes."""
_QUALITY = 60


def thumbnails(folder: Path | None, names: Iterable[str]) -> dict[str, bytes]:
    """JPEG files of the photographs that are there, by name; none without a folder.

    Parameters
    ----------
    folder
        Of the photographs.
    names
        Of the photographs, relative to the folder.
    """
    found = [] if folder is None else [(name, folder / name) for name in names if (folder / name).is_file()][:MOST]
    if not found:
        return {}
    pycolmap = require("pycolmap", "thumbnails of the photographs")
    made: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as home:
        for name, path in found:
            bitmap = pycolmap.Bitmap.read(path, True)
            if bitmap is None:
                continue
            scale = SIDE / max(bitmap.width, bitmap.height)
            if scale < 1.0:
                bitmap.rescale(max(1, round(scale * bitmap.width)), max(1, round(scale * bitmap.height)))
            bitmap.set_jpeg_quality(_QUALITY)
            small = Path(home) / "small.jpg"
            if bitmap.write(small):
                made[name] = small.read_bytes()
    return made
