"""Matches of listed pairs of photographs by pycolmap, in the database itself or, a block of pairs at a time, on other machines.

A block is worked on in a copy of the database, and its rows of matches, and of two-view geometries where pairs are verified, are
handed over as they are. What COLMAP finds of a pair depends on nothing but the pair: random numbers of the verification begin anew
with each.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tempose._support.packages import require
from tempose.errors import Interrupted
from tempose.io.colmap.database import PairRows, read_pair_rows

PAIRS_A_BLOCK = 50
"""What a worker is asked for at a time: a minute or so of matching, for one copy of the database."""


@dataclass(frozen=True)
class PairBlock:
    """Some pairs to match.

    Attributes
    ----------
    database
        File that the worker sees; it is read, not written.
    pairs
        Names of the photographs.
    verify
        Whether two-view geometries are wanted.
    """

    database: str
    pairs: tuple[tuple[str, str], ...]
    verify: bool


def match_block(block: PairBlock) -> PairRows:
    """Match a block of pairs, on one thread."""
    pycolmap = require("pycolmap", "matching photographs")
    pycolmap.logging.minloglevel = 3
    with tempfile.TemporaryDirectory(prefix="tempose-") as home:
        copy = Path(home) / "copy.db"
        shutil.copyfile(block.database, copy)
        with pycolmap.Database.open(copy) as db:
            number = {image.name: image.image_id for image in db.read_all_images()}
        rename(pycolmap, copy, {name: as_word(name) for name in number})
        try:
            match_listed(pycolmap, copy, Path(home), block.pairs, block.verify, threads=1)
        except (RuntimeError, ValueError) as error:
            raise Interrupted(f"COLMAP failed: {str(error).splitlines()[0]}") from None
        return read_pair_rows(copy, [pycolmap.image_pair_to_pair_id(number[a], number[b]) for a, b in block.pairs])


def match_listed(
    pycolmap: Any, database: Path, home: Path, pairs: Sequence[tuple[str, str]], verify: bool, threads: int = -1
) -> None:
    """Match pairs of a database whose names are words; ``home`` is a folder for scratch."""
    settings = pycolmap.FeatureMatchingOptions()
    settings.skip_geometric_verification, settings.num_threads = not verify, threads
    verification = pycolmap.TwoViewGeometryOptions()
    verification.ransac.random_seed = 0
    listed = pycolmap.ImportedPairingOptions()
    listed.match_list_path = home / "pairs.txt"
    Path(listed.match_list_path).write_text("".join(f"{as_word(a)} {as_word(b)}\n" for a, b in pairs))
    pycolmap.match_image_pairs(
        database,
        matching_options=settings,
        pairing_options=listed,
        verification_options=verification,
        device=pycolmap.Device.cpu,
    )


def as_word(name: str) -> str:
    """A name for a list of pairs, whose words are parted by spaces."""
    return "".join(
        c if not c.isspace() and c not in "%#" else "".join(f"%{byte:02x}" for byte in c.encode()) for c in name
    )


def rename(pycolmap: Any, database: Path, new: dict[str, str]) -> None:
    """Give the photographs of a database other names."""
    with pycolmap.Database.open(database) as db:
        for image in db.read_all_images():
            if image.name != new[image.name]:
                image.name = new[image.name]
                db.update_image(image)
