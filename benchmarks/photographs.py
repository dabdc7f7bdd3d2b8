"""Photographs to cameras and points, next to COLMAP's incremental mapper from the same images, error bars included.

    python benchmarks/photographs.py epfl/castle-P30/images_half epfl/Herz-Jesus-P25/images_half --features 4000 --image-size 1000

The photographs of all folders are put into one. COLMAP extracts and matches all pairs, and its incremental mapper makes models, on
all cores, with its defaults and one camera; ``tempose sfm`` chooses the pairs, makes models by the same mapper, adjusts them,
chooses the camera model, finds error bars and writes its page. Both have the same features, and run in processes of their own, one
after the other.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pycolmap

from tempose.sfm.photographs import SUFFIXES


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--features", type=int, default=8192)
    parser.add_argument("--image-size", type=int, default=3200)
    parser.add_argument("--colmap", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.colmap:
        print(json.dumps(by_colmap(arguments.folders[0], arguments.colmap, arguments.features, arguments.image_size)))
        return
    with tempfile.TemporaryDirectory() as home:
        compare(Path(home), arguments)


def compare(home: Path, arguments: argparse.Namespace) -> None:
    """Run both."""
    images = home / "images"
    images.mkdir()
    count = 0
    for k, folder in enumerate(arguments.folders):
        for path in sorted(folder.iterdir()):
            if path.suffix.lower() in SUFFIXES:
                (images / f"{k}_{path.name}").symlink_to(path.resolve())
                count += 1
    settings = ["--features", str(arguments.features), "--image-size", str(arguments.image_size)]
    (home / "colmap").mkdir()
    theirs = timed([sys.executable, __file__, str(images), *settings, "--colmap", str(home / "colmap")])
    print("COLMAP:", as_text(json.loads(theirs[2])), flush=True)
    ours = timed([sys.executable, "-m", "tempose", "sfm", str(images), "-o", str(home / "ours"), "--json", *settings])
    facts = json.loads(ours[2])
    print(
        "tempose:", as_text(facts["seconds"]), f"photographs {' and '.join(one.split()[0] for one in facts['scenes'])}"
    )
    print(f"{count} photographs {'seconds':>10} {'of all cores':>13}")
    for name, one in (("COLMAP", theirs), ("tempose", ours)):
        print(f"{name:14} {one[0]:10.1f} {one[1]:13.1f}")
    print(f"{'ratio':14} {ours[0] / theirs[0]:10.2f} {ours[1] / theirs[1]:13.2f}")


def as_text(seconds: dict[str, float | str]) -> str:
    """Stages and how long they took."""
    return ", ".join(
        f"{name} {value if isinstance(value, str) else f'{value:.1f} s'}" for name, value in seconds.items()
    )


def timed(command: list[str]) -> tuple[float, float, str]:
    """Seconds by the clock and of all cores that a command takes, and what it says."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} failed")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def by_colmap(images: Path, home: Path, features: int, image_size: int) -> dict[str, float | str]:
    """Seconds of its stages, and how large its models are."""
    pycolmap.logging.minloglevel = 3
    database, seconds, began = home / "database.db", {}, time.perf_counter()
    settings = pycolmap.FeatureExtractionOptions()
    settings.max_image_size, settings.sift.max_num_features = image_size, features
    pycolmap.extract_features(
        database,
        images,
        camera_mode=pycolmap.CameraMode.SINGLE,
        extraction_options=settings,
        device=pycolmap.Device.cpu,
    )
    seconds["features"] = time.perf_counter() - began
    pycolmap.match_exhaustive(database, device=pycolmap.Device.cpu)
    seconds["matching"] = time.perf_counter() - began - sum(seconds.values())
    models = pycolmap.incremental_mapping(database, images, home)
    seconds["mapping"] = time.perf_counter() - began - sum(seconds.values())
    return {**seconds, "photographs": " and ".join(str(model.num_reg_images()) for model in models.values())}


if __name__ == "__main__":
    main()
